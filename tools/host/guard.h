/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that tells when others write beside it: pages without access before and behind, and a
 * canary in what the pages have left over.
 */
#ifndef HOST_GUARD_H
#define HOST_GUARD_H

#include <stdbool.h>
#include <stddef.h>

struct host_guard {
	char *addr; /* @size bytes, the last of which end @slack bytes before a page without access
		     */
	size_t size, slack;
	char *map;
	size_t mapped;
};

/*
 * The end is at a page without access but for @slack bytes of canary, so that addr has any
 * alignment the caller likes. Filled with zeros. 0 or -errno.
 */
int host_guard_init(struct host_guard *g, size_t size, size_t slack);
void host_guard_fini(struct host_guard *g);

/* NULL if nobody wrote beside it, else the first byte that was written. */
const char *host_guard_broken(const struct host_guard *g);

/* The first byte of @len at @at that is not @value; NULL if all are. */
const char *host_guard_differs(const void *at, char value, size_t len);

#endif
