/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory between guard pages. */
#include "guard.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

static const size_t page_bytes = 4096;
static const char canary = (char)0xc5;

int host_guard_init(struct host_guard *g, size_t size, size_t slack)
{
	size_t inner;
	char *map;

	memset(g, 0, sizeof(*g));
	if (size > SIZE_MAX / 2 || slack > SIZE_MAX / 4)
		return -ENOMEM;
	inner = (size + slack + page_bytes) / page_bytes * page_bytes;
	map = mmap(NULL, inner + 2 * page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED)
		return -errno;
	if (mprotect(map + page_bytes, inner, PROT_READ | PROT_WRITE)) {
		int rc = -errno;

		munmap(map, inner + 2 * page_bytes);
		return rc;
	}
	*g = (struct host_guard){
		.addr = map + page_bytes + inner - slack - size,
		.size = size,
		.slack = slack,
		.map = map,
		.mapped = inner + 2 * page_bytes,
	};
	memset(map + page_bytes, canary, (size_t)(g->addr - map) - page_bytes);
	memset(g->addr + size, canary, slack);
	return 0;
}

void host_guard_fini(struct host_guard *g)
{
	if (g->map)
		munmap(g->map, g->mapped);
	memset(g, 0, sizeof(*g));
}

const char *host_guard_differs(const void *at, char value, size_t len)
{
	const char *byte = at;

	for (size_t i = 0; i < len; i++) {
		if (byte[i] != value)
			return byte + i;
	}
	return NULL;
}

const char *host_guard_broken(const struct host_guard *g)
{
	const char *before = g->map + page_bytes;
	const char *bad = host_guard_differs(before, canary, (size_t)(g->addr - before));

	return bad ? bad : host_guard_differs(g->addr + g->size, canary, g->slack);
}
