/* SPDX-License-Identifier: BSD-3-Clause */
/* Sysfs trees out of descriptions. */
#include "tree.h"

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "need.h"

/* What holds for the lines below an "under". */
struct place {
	char path[256], numa[8], link[32];
};

__attribute__((format(printf, 2, 3))) static void print(char out[PATH_MAX], const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(out, PATH_MAX, fmt, ap);
	va_end(ap);
	need(n > 0 && n < PATH_MAX, "%s: too long", out);
}

static void make_folders(const struct tree *t, const char *name)
{
	char path[PATH_MAX];

	print(path, "%s/%s/", t->root, name);
	for (char *p = path + strlen(t->root) + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		need(mkdir(path, 0755) == 0 || errno == EEXIST, "%s: %s", path, strerror(errno));
		*p = '/';
	}
}

void tree_write(const struct tree *t, const char *name, const char *line)
{
	char path[PATH_MAX], folder[PATH_MAX];
	FILE *f;

	print(folder, "%s", name);
	*strrchr(folder, '/') = '\0';
	make_folders(t, folder);
	print(path, "%s/%s", t->root, name);
	f = fopen(path, "we");
	need(f, "%s: %s", path, strerror(errno));
	need(fprintf(f, "%s\n", line) > 0 && fclose(f) == 0, "%s: %s", path, strerror(errno));
}

__attribute__((format(printf, 4, 5))) static void attribute(const struct tree *t, const char *dir,
							    const char *name, const char *fmt, ...)
{
	char path[PATH_MAX], line[64];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	print(path, "%s/%s", dir, name);
	if (strcmp(line, "-"))
		tree_write(t, path, line);
}

/* @up: how many folders @name is below the root. */
static void link_to(const struct tree *t, const char *name, int up, const char *target)
{
	char path[PATH_MAX], rel[PATH_MAX] = "";

	for (int i = 0; i < up; i++)
		strcat(rel, "../");
	strcat(rel, target);
	print(path, "%s/%s", t->root, name);
	need(symlink(rel, path) == 0, "%s: %s", path, strerror(errno));
}

static void function(const struct tree *t, const char *dir, const char *numa, const char *link,
		     const char *class, const char *vendor, const char *device)
{
	const char *lanes = strchr(link, 'x');
	char name[PATH_MAX];

	make_folders(t, dir);
	attribute(t, dir, "class", "0x%s", class);
	attribute(t, dir, "vendor", "0x%s", vendor);
	attribute(t, dir, "device", "0x%s", device);
	attribute(t, dir, "numa_node", "%s", numa);
	if (lanes) {
		attribute(t, dir, "max_link_speed", "%.*s GT/s PCIe", (int)(lanes - link), link);
		attribute(t, dir, "max_link_width", "%s", lanes + 1);
	}
	print(name, "bus/pci/devices/%s", strrchr(dir, '/') + 1);
	link_to(t, name, 3, dir);
}

/* Make the bridges above the function @dir that are not there. */
static void bridges(const struct tree *t, const struct place *under, const char *dir)
{
	char bridge[PATH_MAX], path[PATH_MAX];

	for (const char *p = strchr(dir + strlen("devices/"), '/'); p; p = strchr(p + 1, '/')) {
		print(bridge, "%.*s", (int)(p - dir), dir);
		if (strncmp(strrchr(bridge, '/'), "/pci", 4) == 0)
			continue;
		print(path, "%s/%s/class", t->root, bridge);
		if (access(path, F_OK))
			function(t, bridge, under->numa, under->link, "060400", "1d0f", "0200");
	}
}

static void rdma_device(const struct tree *t, const char *dir, const char *name)
{
	char path[PATH_MAX], class[PATH_MAX];

	print(path, "%s/infiniband/%s", dir, name);
	make_folders(t, path);
	print(class, "class/infiniband/%s", name);
	link_to(t, class, 2, path);
	print(class, "%s/device", path);
	print(path, "../../../%s", strrchr(dir, '/') + 1);
	link_to(t, class, 0, path);
}

static void device(const struct tree *t, const struct place *under, char kind, const char *word[4])
{
	char dir[PATH_MAX];

	print(dir, "devices/%s/%s", under->path, word[1]);
	bridges(t, under, dir);
	if (kind == 'g')
		function(t, dir, under->numa, word[3], "030200", "10de", word[2]);
	else
		function(t, dir, under->numa, word[3], "020000", kind == 'e' ? "1d0f" : "15b3",
			 word[2]);
	if (kind != 'g')
		rdma_device(t, dir, word[0]);
}

static void line(const struct tree *t, struct place *under, const char *text)
{
	char kind[16], word[4][256] = {""}, path[PATH_MAX];
	int n = sscanf(text, "%15s %255s %255s %255s %255s", kind, word[0], word[1], word[2],
		       word[3]);

	if (n <= 0 || kind[0] == '#')
		return;
	if (strcmp(kind, "product") == 0 && n == 2) {
		tree_write(t, "devices/virtual/dmi/id/product_name", word[0]);
	} else if (strcmp(kind, "cpus") == 0 && n == 3) {
		print(path, "devices/system/node/node%.8s/cpumap", word[0]);
		tree_write(t, path, word[1]);
	} else if (strcmp(kind, "under") == 0 && n == 4) {
		snprintf(under->path, sizeof(under->path), "%s", word[0]);
		snprintf(under->numa, sizeof(under->numa), "%.7s", word[1]);
		snprintf(under->link, sizeof(under->link), "%.31s", word[2]);
	} else {
		need(n == 5 && strchr("egr", kind[0]), "what is this: %s", text);
		device(t, under, kind[0], (const char *[]){word[0], word[1], word[2], word[3]});
	}
}

static void make_root(struct tree *t)
{
	strcpy(t->root, "/tmp/srd-tree-XXXXXX");
	need(mkdtemp(t->root), "%s: %s", t->root, strerror(errno));
}

void tree_make(struct tree *t, const char *instance)
{
	char path[PATH_MAX], text[1 << 14];
	size_t n;
	FILE *f;

	print(path, "%s/%s", FIXTURES, instance);
	f = fopen(path, "re");
	need(f, "%s: %s", path, strerror(errno));
	n = fread(text, 1, sizeof(text) - 1, f);
	need(n > 0 && feof(f), "%s: empty, or too long", path);
	text[n] = '\0';
	fclose(f);
	make_root(t);
	make_folders(t, "class/infiniband");
	tree_add(t, text);
}

void tree_add(const struct tree *t, const char *lines)
{
	struct place under = {.path = ""};
	char text[512];

	make_folders(t, "bus/pci/devices");
	for (size_t n; *lines; lines += n) {
		n = strcspn(lines, "\n");
		need(n < sizeof(text), "%.80s...: too long", lines);
		memcpy(text, lines, n);
		text[n] = '\0';
		line(t, &under, text);
		n += lines[n] == '\n';
	}
}

void tree_copy(struct tree *t, const char *sysfs)
{
	char command[PATH_MAX];

	make_root(t);
	print(command, "cp -a '%s/.' '%s'", sysfs, t->root);
	need(system(command) == 0, "%s", command);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

void tree_fini(struct tree *t)
{
	need(nftw(t->root, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0, "%s: %s", t->root,
	     strerror(errno));
}

void tree_hide(const struct tree *t, const char *fmt, ...)
{
	char name[PATH_MAX], path[PATH_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(name, sizeof(name), fmt, ap);
	va_end(ap);
	print(path, "%s/%s", t->root, name);
	need(nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0, "%s: %s", path,
	     strerror(errno));
}
