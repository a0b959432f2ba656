/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums of the fabric's counters, in files. */
#include "hw_counters.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "desc.h"
#include "fabric.h"
#include "log.h"
#include "real.h"
#include "settings.h"
#include "stats.h"

enum { SEND = SE_OP_SEND, READ = SE_OP_READ, WRITE = SE_OP_WRITE };

static const struct counter {
	const char *name;
	unsigned n;
	unsigned of[3]; /* enum se_stat */
} counters[] = {
	{"tx_bytes", 3, {SE_STAT_BYTES + SEND, SE_STAT_BYTES + WRITE, SE_STAT_SERVED + READ}},
	{"rx_bytes", 3, {SE_STAT_SERVED + SEND, SE_STAT_SERVED + WRITE, SE_STAT_BYTES + READ}},
	{"rx_drops", 1, {SE_STAT_DROPS}},
	{"send_bytes", 1, {SE_STAT_BYTES + SEND}},
	{"send_wrs", 1, {SE_STAT_REQUESTS + SEND}},
	{"recv_bytes", 1, {SE_STAT_SERVED + SEND}},
	{"recv_wrs", 1, {SE_STAT_RECEIVES}},
	{"rdma_read_wrs", 1, {SE_STAT_REQUESTS + READ}},
	{"rdma_read_bytes", 1, {SE_STAT_BYTES + READ}},
	{"rdma_read_resp_bytes", 1, {SE_STAT_SERVED + READ}},
	{"rdma_write_wrs", 1, {SE_STAT_REQUESTS + WRITE}},
	{"rdma_write_bytes", 1, {SE_STAT_BYTES + WRITE}},
	{"rdma_write_recv_bytes", 1, {SE_STAT_SERVED + WRITE}},
	{"unresponsive_remote_events",
	 2,
	 {SE_STAT_COMPLETIONS + SE_UNRESP_REMOTE, SE_STAT_COMPLETIONS + SE_UNREACH_REMOTE}},
};

enum { NCOUNTERS = sizeof(counters) / sizeof(counters[0]) };

const char *se_hw_counter_name(unsigned i)
{
	return i < NCOUNTERS ? counters[i].name : NULL;
}

/* What is behind @root in @path; NULL: it is elsewhere. */
static const char *below(const char *path, const char *root)
{
	size_t len = strlen(root);

	return strncmp(path, root, len) == 0 && path[len] == '/' ? path + len : NULL;
}

/* NULL: it is none. */
static const struct counter *find(const char *path, const char *root, unsigned *dev)
{
	const char *at = below(path, root);
	char name[32], end;

	at = at ? at : below(path, "/sys");
	at = at ? strstr(at, "/infiniband/efa_") : NULL;
	if (!at ||
	    sscanf(at, "/infiniband/efa_%u/ports/1/hw_counters/%31[a-z_]%c", dev, name, &end) !=
		    2 ||
	    *dev >= se_settings()->devices)
		return NULL;
	for (unsigned i = 0; i < NCOUNTERS; i++)
		if (!strcmp(name, counters[i].name))
			return &counters[i];
	return NULL;
}

/* Where nobody has used a device yet, nothing was done. */
static uint64_t value(const struct counter *c, unsigned dev)
{
	static const struct se_fabric_view none;
	struct se_fabric_view *view = malloc(sizeof(*view));
	uint64_t sum = 0;

	if (!view)
		return 0;
	if (se_fabric_peek(view))
		*view = none;
	for (unsigned i = 0; i < c->n; i++)
		sum += view->count[dev][c->of[i]];
	free(view);
	return sum;
}

const char *se_hw_counter_path(const char *path)
{
	static _Thread_local char file[256];
	const struct counter *c;
	const char *root;
	char text[32];
	unsigned dev;
	int fd, len;

	if (!path || !strstr(path, "/hw_counters/"))
		return NULL;
	root = getenv("SYSFS_PATH");
	c = root ? find(path, root, &dev) : NULL;
	if (!c)
		return NULL;
	snprintf(file, sizeof(file), "%s/class/infiniband/efa_%u/ports/1/hw_counters/%s", root, dev,
		 c->name);
	fd = se_real.openat(AT_FDCWD, file, O_WRONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return NULL;
	/* Over what was there, always as long: whoever reads meanwhile sees one or the other. */
	len = snprintf(text, sizeof(text), "%-20" PRIu64 "\n", value(c, dev));
	if (pwrite(fd, text, (size_t)len, 0) != len)
		se_log(SE_LOG_ERROR, "%s: %s", file, strerror(errno));
	se_real.close(fd);
	return file;
}
