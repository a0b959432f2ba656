/* SPDX-License-Identifier: BSD-3-Clause */
/* Where devices sit: PCI functions and their distances, out of sysfs. */
#include "srd_topo.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VENDOR_NVIDIA = 0x10de, CLASS_VGA = 0x0300, CLASS_3D = 0x0302 };
enum { VENDOR_AMAZON = 0x1d0f, DEVICE_EFA = 0xefa0 };

/* ---- files ---- */

/* secure_getenv() as in libibverbs: whoever runs a privileged program does not choose its /sys. */
static const char *root_or_default(const char *root)
{
	if (!root)
		root = secure_getenv("SYSFS_PATH");
	return root ? root : "/sys";
}

static int read_line(const char *path, char *out, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;
	int err;

	out[0] = '\0';
	if (fd < 0)
		return -errno;
	n = read(fd, out, size - 1);
	err = errno;
	close(fd);
	if (n < 0)
		return -err;
	out[n] = '\0';
	/* A full buffer without the end of the line: there may be more. */
	if ((size_t)n == size - 1 && !memchr(out, '\n', n)) {
		out[0] = '\0';
		return -ENAMETOOLONG;
	}
	n = (ssize_t)strcspn(out, "\n");
	while (n > 0 && isspace((unsigned char)out[n - 1]))
		n--;
	out[n] = '\0';
	return (int)n;
}

int srd_sysfs_line(const char *root, const char *name, char *out, size_t size)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s/%s", root_or_default(root), name);

	if (size == 0)
		return -EINVAL;
	out[0] = '\0';
	if (n < 0 || (size_t)n >= sizeof(path))
		return -ENAMETOOLONG;
	return read_line(path, out, size);
}

/* The line of the file @name in the folder @dir; "" when there is none. */
static void attribute(const char *dir, const char *name, char *out, size_t size)
{
	char path[PATH_MAX];

	out[0] = '\0';
	if (snprintf(path, sizeof(path), "%s/%s", dir, name) < (int)sizeof(path))
		read_line(path, out, size);
}

/* A whole number, decimal or 0x...; @otherwise when the file has none within @min ... @max. */
static long number(const char *dir, const char *name, long min, long max, long otherwise)
{
	char text[32], *end;
	long v;

	attribute(dir, name, text, sizeof(text));
	errno = 0;
	v = strtol(text, &end, 0);
	return end == text || *end || errno || v < min || v > max ? otherwise : v;
}

/* ---- PCI addresses ---- */

struct address {
	unsigned domain, bus, dev, fn;
};

/* A domain has four digits or, behind Intel's VMD, up to eight. */
static bool parse_address(const char *text, struct address *a)
{
	int len = 0;

	/* sscanf() would also take signs, blanks and 0x. */
	if (text[strspn(text, "0123456789abcdefABCDEF:.")])
		return false;
	if (sscanf(text, "%8x:%2x:%2x.%1x%n", &a->domain, &a->bus, &a->dev, &a->fn, &len) != 4)
		return false;
	return text[len] == '\0' && a->dev < 32 && a->fn < 8;
}

static void print_address(char *out, size_t size, const struct address *a)
{
	snprintf(out, size, "%04x:%02x:%02x.%x", a->domain, a->bus, a->dev, a->fn);
}

static int three_way(unsigned a, unsigned b)
{
	return (a > b) - (a < b);
}

int srd_pci_cmp(const struct srd_pci *a, const struct srd_pci *b)
{
	struct address x, y;
	bool has_x = parse_address(a->bus_id, &x), has_y = parse_address(b->bus_id, &y);

	if (!has_x || !has_y)
		return has_y - has_x;
	if (x.domain != y.domain)
		return three_way(x.domain, y.domain);
	if (x.bus != y.bus)
		return three_way(x.bus, y.bus);
	if (x.dev != y.dev)
		return three_way(x.dev, y.dev);
	return three_way(x.fn, y.fn);
}

/* ---- functions ---- */

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void set_link(struct srd_pci *pci, const char *dir)
{
	unsigned whole = 0, tenth = 0;
	uint64_t raw;
	char text[32];

	/* "32.0 GT/s PCIe"; "Unknown" on some virtual functions */
	attribute(dir, "max_link_speed", text, sizeof(text));
	if (sscanf(text, "%3u.%1u GT/s", &whole, &tenth) < 1)
		return;
	pci->link_mts = whole * 1000 + tenth * 100;
	/* The kernel says 255 for an unknown width; PCIe ends at 32 lanes. */
	pci->link_lanes = number(dir, "max_link_width", 1, 32, 0);
	raw = (uint64_t)pci->link_mts * pci->link_lanes;
	if (pci->link_mts < 8000)
		pci->link_mbps = raw * 8 / 10;
	else if (pci->link_mts < 64000)
		pci->link_mbps = raw * 128 / 130;
	else
		pci->link_mbps = raw * 242 / 256;
}

/* @link: the folder, or a symbolic link to it. */
static void describe(const char *link, struct srd_pci *out)
{
	char path[PATH_MAX];
	struct address a;

	memset(out, 0, sizeof(*out));
	if (realpath(link, path) && parse_address(last_part(path), &a)) {
		print_address(out->bus_id, sizeof(out->bus_id), &a);
		if (strlen(path) < sizeof(out->path))
			strcpy(out->path, path);
	}
	out->numa = number(link, "numa_node", 0, INT_MAX, SRD_NUMA_UNKNOWN);
	out->class_code = number(link, "class", 0, 0xffffff, 0);
	out->vendor = number(link, "vendor", 0, 0xffff, 0);
	out->device = number(link, "device", 0, 0xffff, 0);
	set_link(out, link);
}

int srd_pci_of_dev(const char *root, const char *name, struct srd_pci *out)
{
	char path[PATH_MAX];
	struct stat st;
	int n = snprintf(path, sizeof(path) - sizeof("/device"), "%s/class/infiniband/%s",
			 root_or_default(root), name);

	memset(out, 0, sizeof(*out));
	if (name[0] == '\0' || name[0] == '.' || strchr(name, '/'))
		return -ENODEV;
	if (n < 0 || (size_t)n >= sizeof(path) - sizeof("/device") || lstat(path, &st))
		return -ENODEV;
	strcat(path, "/device");
	describe(path, out);
	return 0;
}

/* The folder of all PCI functions by address; false: a root too long to be one. */
static bool pci_folder(const char *root, char *path, size_t size)
{
	int n = snprintf(path, size, "%s/bus/pci/devices", root_or_default(root));

	return n > 0 && (size_t)n < size;
}

int srd_pci_of_bus_id(const char *root, const char *bus_id, struct srd_pci *out)
{
	char path[PATH_MAX], dir[PATH_MAX - 32];
	struct address a;
	struct stat st;

	memset(out, 0, sizeof(*out));
	if (!parse_address(bus_id, &a))
		return -EINVAL;
	if (!pci_folder(root, dir, sizeof(dir)))
		return -ENODEV;
	snprintf(path, sizeof(path), "%s/%04x:%02x:%02x.%x", dir, a.domain, a.bus, a.dev, a.fn);
	if (lstat(path, &st))
		return -ENODEV;
	describe(path, out);
	/* The link is named after its target, which may be hidden. */
	print_address(out->bus_id, sizeof(out->bus_id), &a);
	return 0;
}

static bool is_gpu(const struct srd_pci *pci)
{
	uint32_t class = pci->class_code >> 8;

	return pci->vendor == VENDOR_NVIDIA && (class == CLASS_VGA || class == CLASS_3D);
}

static bool is_efa(const struct srd_pci *pci)
{
	return pci->vendor == VENDOR_AMAZON && (pci->device & ~0xf) == DEVICE_EFA;
}

/* Into @out, which holds @n in order and has room for @cap: what does not fit falls off its end. */
static void insert(struct srd_pci *out, int n, int cap, const struct srd_pci *pci)
{
	int i = n < cap ? n : cap;

	while (i > 0 && srd_pci_cmp(&out[i - 1], pci) > 0) {
		if (i < cap)
			out[i] = out[i - 1];
		i--;
	}
	if (i < cap)
		out[i] = *pci;
}

static int list(const char *root, struct srd_pci *out, int cap, bool (*is)(const struct srd_pci *))
{
	char path[PATH_MAX];
	struct srd_pci pci;
	struct dirent *e;
	int found = 0;
	DIR *dir;

	dir = pci_folder(root, path, sizeof(path)) ? opendir(path) : NULL;
	if (!dir)
		return 0;
	while ((e = readdir(dir))) {
		if (srd_pci_of_bus_id(root, e->d_name, &pci) || !is(&pci))
			continue;
		insert(out, found, cap, &pci);
		found++;
	}
	closedir(dir);
	return found;
}

int srd_pci_gpus(const char *root, struct srd_pci *out, int cap)
{
	return list(root, out, cap, is_gpu);
}

int srd_pci_efas(const char *root, struct srd_pci *out, int cap)
{
	return list(root, out, cap, is_efa);
}

/* ---- distances ---- */

/* The part of @path from its host bridge on, "pci0000:10/..."; NULL: there is none. */
static const char *from_host_bridge(const char *path)
{
	unsigned domain, bus;
	int len;

	for (const char *p = strchr(path, '/'); p; p = strchr(p, '/')) {
		p++;
		len = 0;
		if (sscanf(p, "pci%8x:%2x%n", &domain, &bus, &len) == 2 && p[len] == '/')
			return p;
	}
	return NULL;
}

static int parts(const char *path)
{
	int n = *path != '\0';

	for (; *path; path++)
		n += *path == '/';
	return n;
}

/* Length of the first part, with its slash if it has one. */
static size_t part_len(const char *path)
{
	size_t n = strcspn(path, "/");

	return n + (path[n] == '/');
}

static enum srd_dist dist_of_nodes(const struct srd_pci *a, const struct srd_pci *b)
{
	if (a->numa == SRD_NUMA_UNKNOWN || b->numa == SRD_NUMA_UNKNOWN)
		return SRD_DIST_UNKNOWN;
	return a->numa == b->numa ? SRD_DIST_NODE : SRD_DIST_SYS;
}

enum srd_dist srd_pci_dist(const struct srd_pci *a, const struct srd_pci *b)
{
	const char *p = from_host_bridge(a->path), *q = from_host_bridge(b->path);
	int shared = 0;

	if (a->bus_id[0] && strcmp(a->bus_id, b->bus_id) == 0)
		return SRD_DIST_SELF;
	if (!p || !q)
		return dist_of_nodes(a, b);
	while (part_len(p) && part_len(p) == part_len(q) && memcmp(p, q, part_len(p)) == 0) {
		size_t n = part_len(p);

		p += n;
		q += n;
		shared++;
	}
	if (shared == 0)
		return dist_of_nodes(a, b);
	if (shared == 1)
		return SRD_DIST_PHB;
	/* Below a switch's upstream port lie its downstream ports, and one function below each. */
	return parts(p) <= 2 && parts(q) <= 2 ? SRD_DIST_PIX : SRD_DIST_PXB;
}

const char *srd_dist_str(enum srd_dist dist)
{
	static const char *const names[] = {"SELF", "PIX", "PXB", "PHB", "NODE", "SYS"};

	return (unsigned)dist < sizeof(names) / sizeof(names[0]) ? names[dist] : "?";
}
