/* SPDX-License-Identifier: BSD-3-Clause */
/* Mappable memory: first fit in the holes of a sparse file. */
#include "region.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE      4096u
#define DB_STRIDE 64u
#define DB_SLOTS  (PAGE / DB_STRIDE)

struct hole {
	struct se_list node;
	uint64_t off, len;
};

struct se_db_page {
	struct se_region mem;
	uint64_t used; /* a bit per slot */
};

_Static_assert(DB_SLOTS == 64, "a bit per slot");

void se_space_init(struct se_space *s)
{
	memset(s, 0, sizeof(*s));
	s->fd = -1;
	se_list_init(&s->holes);
}

void se_space_fini(struct se_space *s)
{
	for (int i = 0; i < SE_DB_PAGES; i++) {
		if (!s->db[i])
			continue;
		munmap(s->db[i]->mem.va, s->db[i]->mem.len);
		free(s->db[i]);
		s->db[i] = NULL;
	}
	while (!se_list_empty(&s->holes)) {
		struct hole *h = se_container(s->holes.next, struct hole, node);

		se_list_remove(&h->node);
		free(h);
	}
}

static int take(struct se_space *s, uint64_t len, uint64_t *off)
{
	struct se_list *n, *nx;

	se_list_each (n, nx, &s->holes) {
		struct hole *h = se_container(n, struct hole, node);

		if (h->len < len)
			continue;
		*off = h->off;
		h->off += len;
		h->len -= len;
		if (!h->len) {
			se_list_remove(&h->node);
			free(h);
		}
		return 0;
	}
	if (len > SE_SPACE_SIZE - s->top)
		return -ENOMEM;
	*off = s->top;
	s->top += len;
	return 0;
}

/* The hole before which an extent at @off goes; the list head when there is none. */
static struct se_list *place(struct se_space *s, uint64_t off)
{
	struct se_list *n = s->holes.next;

	while (n != &s->holes && se_container(n, struct hole, node)->off < off)
		n = n->next;
	return n;
}

static void give(struct se_space *s, uint64_t off, uint64_t len)
{
	struct se_list *next = place(s, off), *prev = next->prev;
	struct hole *after = se_container(next, struct hole, node), *h;
	struct hole *before = se_container(prev, struct hole, node);

	if (next != &s->holes && off + len == after->off) {
		after->off = off;
		after->len += len;
		if (prev != &s->holes && before->off + before->len == off) {
			after->off = before->off;
			after->len += before->len;
			se_list_remove(prev);
			free(before);
		}
		return;
	}
	if (prev != &s->holes && before->off + before->len == off) {
		before->len += len;
		return;
	}
	h = calloc(1, sizeof(*h));
	if (!h)
		return; /* the extent is lost, nothing else */
	h->off = off;
	h->len = len;
	se_list_append(next, &h->node);
}

int se_region_init(struct se_region *r, struct se_space *s, size_t len)
{
	uint64_t off;
	void *va;
	int rc;

	memset(r, 0, sizeof(*r));
	len = (len + PAGE - 1) & ~(size_t)(PAGE - 1);
	rc = take(s, len, &off);
	if (rc)
		return rc;
	va = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, (off_t)off);
	if (va == MAP_FAILED) {
		rc = -errno;
		give(s, off, len);
		return rc;
	}
	*r = (struct se_region){off, len, va};
	return 0;
}

void se_region_fini(struct se_region *r, struct se_space *s)
{
	if (!r->va)
		return;
	munmap(r->va, r->len);
	/* Zero for the next user. Where that fails the pages stay and the extent is not reused. */
	if (s->fd >= 0 && fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				    (off_t)r->off, (off_t)r->len) == 0)
		give(s, r->off, r->len);
	memset(r, 0, sizeof(*r));
}

static int db_page(struct se_space *s, int i)
{
	int rc;

	if (s->db[i])
		return 0;
	s->db[i] = calloc(1, sizeof(*s->db[i]));
	if (!s->db[i])
		return -ENOMEM;
	rc = se_region_init(&s->db[i]->mem, s, PAGE);
	if (rc) {
		free(s->db[i]);
		s->db[i] = NULL;
	}
	return rc;
}

int se_doorbell_init(struct se_doorbell *d, struct se_space *s)
{
	for (int i = 0; i < SE_DB_PAGES; i++) {
		int rc = db_page(s, i);
		struct se_db_page *p = s->db[i];
		unsigned slot;

		if (rc)
			return rc;
		if (p->used == UINT64_MAX)
			continue;
		slot = (unsigned)__builtin_ctzll(~p->used);
		p->used |= 1ull << slot;
		d->page_off = p->mem.off;
		d->in_page = slot * DB_STRIDE;
		d->va = (uint8_t *)p->mem.va + d->in_page;
		memset(d->va, 0, DB_STRIDE);
		return 0;
	}
	return -ENOMEM;
}

void se_doorbell_fini(struct se_doorbell *d, struct se_space *s)
{
	if (!d->va)
		return;
	for (int i = 0; i < SE_DB_PAGES; i++)
		if (s->db[i] && s->db[i]->mem.off == d->page_off)
			s->db[i]->used &= ~(1ull << (d->in_page / DB_STRIDE));
	memset(d, 0, sizeof(*d));
}
