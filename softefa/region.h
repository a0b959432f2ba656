/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory the provider maps from a command fd: queues and doorbells. The offset in the fd is the
 * mmap key that the provider is told. Engine lock held.
 */
#ifndef SE_REGION_H
#define SE_REGION_H

#include <stddef.h>
#include <stdint.h>

#include "list.h"

#define SE_DB_PAGES 256

/* The address space of one command fd. */
struct se_space {
	int fd;               /* the number under which the application knows it now; -1: gone */
	struct se_list holes; /* free extents below top, in order */
	uint64_t top;
	struct se_db_page *db[SE_DB_PAGES];
};

#define SE_SPACE_SIZE (1ull << 33) /* sparse: only touched pages exist */

void se_space_init(struct se_space *s);
void se_space_fini(struct se_space *s);

/* Zeroed memory at @off of the fd for the provider and at @va for us. */
struct se_region {
	uint64_t off;
	size_t len;
	void *va;
};

int se_region_init(struct se_region *r, struct se_space *s, size_t len);
void se_region_fini(struct se_region *r, struct se_space *s);

/*
 * A zeroed 64-byte doorbell slot. Slots are dense in pages of their own: polling is a linear scan.
 */
struct se_doorbell {
	uint64_t page_off;
	uint32_t in_page;
	uint8_t *va; /* NULL: none */
};

int se_doorbell_init(struct se_doorbell *d, struct se_space *s);
void se_doorbell_fini(struct se_doorbell *d, struct se_space *s);

#endif
