/* SPDX-License-Identifier: BSD-3-Clause */
/* Building the /sys tree. */
#include "sysfs.h"

#include <errno.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gid.h"
#include "hw_counters.h"

#define TREE_VERSION 2 /* part of the tree's name: change it with the content */
#define FIRST_BUS    0x10
#define PATH_LEN     384

struct tree {
	char root[128];
	int rc; /* the first error; nothing is done after it */
};

/* All below write to <root>/<dir>/<name>. */

static void full(char *path, const struct tree *t, const char *dir, const char *name)
{
	snprintf(path, PATH_LEN, "%s/%s/%s", t->root, dir, name);
}

/* With parents. */
static void folder(struct tree *t, const char *dir, const char *name)
{
	char path[PATH_LEN];

	full(path, t, dir, name);
	for (char *p = path + strlen(t->root) + 1; !t->rc; p++) {
		char c = *p;

		if (c && c != '/')
			continue;
		*p = '\0';
		if (mkdir(path, 0700) && errno != EEXIST)
			t->rc = -errno;
		*p = c;
		if (!c)
			break;
	}
}

__attribute__((format(printf, 4, 5))) static void file(struct tree *t, const char *dir,
						       const char *name, const char *fmt, ...)
{
	char path[PATH_LEN];
	va_list ap;
	FILE *f;

	if (t->rc)
		return;
	full(path, t, dir, name);
	f = fopen(path, "w");
	if (!f) {
		t->rc = -errno;
		return;
	}
	va_start(ap, fmt);
	vfprintf(f, fmt, ap);
	va_end(ap);
	fputc('\n', f);
	if (fclose(f))
		t->rc = -errno;
}

__attribute__((format(printf, 4, 5))) static void link_to(struct tree *t, const char *dir,
							  const char *name, const char *fmt, ...)
{
	char path[PATH_LEN], target[PATH_LEN];
	va_list ap;

	full(path, t, dir, name);
	va_start(ap, fmt);
	vsnprintf(target, sizeof(target), fmt, ap);
	va_end(ap);
	if (!t->rc && symlink(target, path))
		t->rc = -errno;
}

static void pci_function(struct tree *t, const struct se_settings *s, const char *pci)
{
	file(t, pci, "modalias", "pci:v00001D0Fd%08Xsv00001D0Fsd%08Xbc02sc00i00", s->part_id,
	     s->part_id);
	file(t, pci, "vendor", "0x1d0f");
	file(t, pci, "device", "0x%04x", s->part_id);
	file(t, pci, "subsystem_vendor", "0x1d0f");
	file(t, pci, "subsystem_device", "0x%04x", s->part_id);
	file(t, pci, "class", "0x020000");
	file(t, pci, "numa_node", "0");
	file(t, pci, "max_link_speed", "32.0 GT/s PCIe");
	file(t, pci, "max_link_width", "16");
	link_to(t, pci, "driver", "../../../bus/pci/drivers/efa");
	link_to(t, pci, "subsystem", "../../../bus/pci");
}

/* Pairs of bytes with colons between, as the kernel prints GIDs and GUIDs. */
static const char *groups(char *out, const uint8_t *b, unsigned n)
{
	char *p = out;

	for (unsigned i = 0; i < n; i += 2)
		p += sprintf(p, "%s%02x%02x", i ? ":" : "", b[i], b[i + 1]);
	return out;
}

static void ib_device(struct tree *t, const struct se_settings *s, const char *ib, uint32_t dev)
{
	struct se_gid gid = se_gid_of(s, dev);
	char text[48], path[64];
	const char *name;

	folder(t, ib, "ports/1/gids");
	folder(t, ib, "ports/1/pkeys");
	folder(t, ib, "ports/1/gid_attrs/types");
	file(t, ib, "node_type", "7: unspecified");
	file(t, ib, "node_guid", "%s", groups(text, gid.b + 8, 8));
	file(t, ib, "sys_image_guid", "0000:0000:0000:0000");
	file(t, ib, "fw_ver", "1.0.0.0");
	file(t, ib, "hw_rev", "0x%04x", s->part_id);
	file(t, ib, "ports/1/gids/0", "%s", groups(text, gid.b, 16));
	file(t, ib, "ports/1/pkeys/0", "0xffff");
	file(t, ib, "ports/1/gid_attrs/types/0", "IB/RoCE v1");
	file(t, ib, "ports/1/state", "4: ACTIVE");
	file(t, ib, "ports/1/phys_state", "5: LinkUp");
	file(t, ib, "ports/1/rate", "%u Gb/sec", s->speed_gbps);
	file(t, ib, "ports/1/link_layer", "Unspecified");
	folder(t, ib, "ports/1/hw_counters");
	for (unsigned i = 0; (name = se_hw_counter_name(i)); i++) {
		snprintf(path, sizeof(path), "ports/1/hw_counters/%s", name);
		file(t, ib, path, "%-20u", 0);
	}
	link_to(t, ib, "device", "../../../%04x:%02x:00.0", 0, FIRST_BUS + dev);
}

static void device(struct tree *t, const struct se_settings *s, uint32_t dev)
{
	char pci[64], sub[128];

	snprintf(pci, sizeof(pci), "devices/pci0000:%02x/0000:%02x:00.0", FIRST_BUS + dev,
		 FIRST_BUS + dev);
	folder(t, pci, "");
	pci_function(t, s, pci);

	snprintf(sub, sizeof(sub), "%s/infiniband/efa_%u", pci, dev);
	ib_device(t, s, sub, dev);
	snprintf(sub, sizeof(sub), "efa_%u", dev);
	link_to(t, "class/infiniband", sub, "../../%s/infiniband/efa_%u", pci, dev);

	snprintf(sub, sizeof(sub), "%s/infiniband_verbs/uverbs%u", pci, dev);
	folder(t, sub, "");
	file(t, sub, "ibdev", "efa_%u", dev);
	file(t, sub, "abi_version", "1");
	file(t, sub, "dev", "231:%u", 192 + dev);
	link_to(t, sub, "device", "../../../%04x:%02x:00.0", 0, FIRST_BUS + dev);
	snprintf(sub, sizeof(sub), "uverbs%u", dev);
	link_to(t, "class/infiniband_verbs", sub, "../../%s/infiniband_verbs/uverbs%u", pci, dev);
}

static int build(const struct se_settings *s, const char *root)
{
	struct tree t = {.rc = 0};

	snprintf(t.root, sizeof(t.root), "%s", root);
	folder(&t, "class", "infiniband");
	folder(&t, "class", "infiniband_verbs");
	folder(&t, "bus", "pci/drivers/efa");
	file(&t, "class/infiniband_verbs", "abi_version", "6");
	for (uint32_t i = 0; i < s->devices; i++)
		device(&t, s, i);
	return t.rc;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static uint64_t content_hash(const struct se_settings *s)
{
	const uint32_t what[] = {TREE_VERSION, s->devices, s->part_id, s->speed_gbps};
	struct se_gid gid = se_gid_of(s, 0);

	return se_hash(what, sizeof(what), se_hash(&gid, sizeof(gid), 0));
}

/* A folder of ours alone: others could make us believe in devices. */
static int private_folder(const char *path)
{
	struct stat st;

	if (mkdir(path, 0700) && errno != EEXIST)
		return -errno;
	if (lstat(path, &st))
		return -errno;
	return S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 077) ? 0 : -EACCES;
}

int se_sysfs_make(const struct se_settings *s, char *path, size_t pathlen, char *err, size_t errlen)
{
	const char *tmp = getenv("TMPDIR");
	char base[64], root[96], fresh[128];
	struct stat st;
	int rc;

	if (!tmp || strlen(tmp) > 32)
		tmp = "/tmp";
	snprintf(base, sizeof(base), "%s/softefa-%u", tmp, (unsigned)geteuid());
	snprintf(root, sizeof(root), "%s/%08x", base, (unsigned)content_hash(s));
	rc = private_folder(base);
	if (rc) {
		snprintf(err, errlen, "%s is not a private folder: %s", base, strerror(-rc));
		return rc;
	}
	snprintf(path, pathlen, "%s", root);
	if (stat(root, &st) == 0)
		return 0;
	/* Built under another name, then renamed: it is there whole or not at all. */
	snprintf(fresh, sizeof(fresh), "%s.%d", root, (int)getpid());
	rc = mkdir(fresh, 0700) ? -errno : build(s, fresh);
	if (!rc && rename(fresh, root) && errno != EEXIST && errno != ENOTEMPTY)
		rc = -errno;
	nftw(fresh, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	if (rc)
		snprintf(err, errlen, "%s: %s", fresh, strerror(-rc));
	return rc;
}
