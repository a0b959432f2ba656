/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The adapter's mappable memory against a model: nothing overlaps, all is zero, holes are reused.
 */
#include "../../softefa/region.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, N = 64, STEPS = 3000, BELLS = 200 };

static void space_init(struct se_space *s)
{
	se_space_init(s);
	s->fd = memfd_create("test", MFD_CLOEXEC);
	cr_assert(ge(int, s->fd, 0));
	cr_assert(zero(int, ftruncate(s->fd, (off_t)SE_SPACE_SIZE)));
}

static void space_fini(struct se_space *s)
{
	close(s->fd);
	se_space_fini(s);
}

static bool filled(const uint8_t *p, size_t n, uint8_t v)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != v)
			return false;
	return true;
}

static unsigned holes(const struct se_space *s)
{
	unsigned n = 0;

	for (const struct se_list *l = s->holes.next; l != &s->holes; l = l->next)
		n++;
	return n;
}

static void make(struct se_space *s, struct se_region *r, size_t len, uint8_t mark)
{
	cr_assert(zero(int, se_region_init(r, s, len)));
	cr_assert(ge(sz, r->len, len));
	cr_assert(zero(u64, r->off % PAGE));
	cr_assert(filled(r->va, r->len, 0), "memory of the user before");
	memset(r->va, mark, r->len);
}

/* Each region holds its own mark all the time, seen by our mapping and through the file. */
static void check(const struct se_space *s, const struct se_region *r, uint8_t mark)
{
	uint8_t byte = 0;

	cr_assert(filled(r->va, r->len, mark), "overlap");
	cr_assert(eq(int, (int)pread(s->fd, &byte, 1, (off_t)(r->off + r->len - 1)), 1));
	cr_assert(eq(u8, byte, mark));
}

Test(region, random_use_keeps_regions_apart_and_zeroed)
{
	struct se_region r[N] = {{0}};
	struct se_space s;

	space_init(&s);
	srand(1);
	for (unsigned step = 0; step < STEPS; step++) {
		unsigned i = (unsigned)rand() % N;

		if (r[i].va) {
			check(&s, &r[i], (uint8_t)(i + 1));
			se_region_fini(&r[i], &s);
			cr_assert(eq(ptr, r[i].va, NULL));
		} else {
			make(&s, &r[i], 1 + (size_t)rand() % (20 * PAGE), (uint8_t)(i + 1));
		}
	}
	for (unsigned i = 0; i < N; i++)
		se_region_fini(&r[i], &s);
	/* All that was ever used is one hole now. */
	cr_assert(eq(uint, holes(&s), 1));
	make(&s, &r[0], s.top, 1);
	cr_assert(zero(u64, r[0].off));
	cr_assert(zero(uint, holes(&s)));
	se_region_fini(&r[0], &s);
	space_fini(&s);
}

/* In all orders of three neighbours. */
Test(region, neighbouring_holes_become_one)
{
	static const unsigned order[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
					     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

	for (unsigned o = 0; o < 6; o++) {
		struct se_region r[4];
		struct se_space s;

		space_init(&s);
		for (unsigned i = 0; i < 4; i++)
			make(&s, &r[i], PAGE, 1);
		for (unsigned i = 0; i < 3; i++)
			se_region_fini(&r[order[o][i]], &s);
		cr_assert(eq(uint, holes(&s), 1));
		make(&s, &r[0], 3 * PAGE, 1);
		cr_assert(zero(u64, r[0].off));
		space_fini(&s);
	}
}

Test(region, twice_finished_is_once)
{
	struct se_region r;
	struct se_space s;

	space_init(&s);
	make(&s, &r, PAGE, 1);
	se_region_fini(&r, &s);
	se_region_fini(&r, &s);
	cr_assert(eq(uint, holes(&s), 1));
	space_fini(&s);
}

/* The file cannot be cleaned any more: then its pages must not come back to anybody. */
Test(region, memory_of_a_closed_file_is_not_reused)
{
	struct se_region r;
	struct se_space s;
	int fd;

	space_init(&s);
	make(&s, &r, PAGE, 1);
	fd = s.fd;
	s.fd = -1;
	se_region_fini(&r, &s);
	cr_assert(zero(uint, holes(&s)));
	s.fd = fd;
	space_fini(&s);
}

Test(region, too_much_is_refused_and_changes_nothing)
{
	struct se_region r, big;
	struct se_space s;

	space_init(&s);
	make(&s, &r, PAGE, 1);
	cr_assert(eq(int, se_region_init(&big, &s, SE_SPACE_SIZE), -ENOMEM));
	cr_assert(eq(ptr, big.va, NULL));
	cr_assert(eq(u64, s.top, PAGE));
	space_fini(&s);
}

Test(region, failed_mapping_gives_its_range_back)
{
	struct se_region r;
	struct se_space s;
	int fd;

	space_init(&s);
	fd = s.fd;
	s.fd = -1;
	cr_assert(lt(int, se_region_init(&r, &s, PAGE), 0));
	cr_assert(eq(uint, holes(&s), 1));
	s.fd = fd;
	make(&s, &r, PAGE, 1);
	cr_assert(zero(u64, r.off));
	space_fini(&s);
}

/* ---- doorbells ---- */

static void ring(struct se_doorbell *d, struct se_space *s, uint8_t mark)
{
	cr_assert(zero(int, se_doorbell_init(d, s)));
	cr_assert(filled(d->va, 64, 0));
	cr_assert(zero(u64, d->page_off % PAGE));
	cr_assert(lt(u32, d->in_page, PAGE));
	memset(d->va, mark, 64);
}

Test(doorbell, slots_are_apart_zeroed_and_reused)
{
	struct se_doorbell d[BELLS];
	struct se_space s;
	uint64_t top;

	space_init(&s);
	for (unsigned i = 0; i < BELLS; i++)
		ring(&d[i], &s, (uint8_t)(i + 1));
	for (unsigned i = 0; i < BELLS; i++)
		cr_assert(filled(d[i].va, 64, (uint8_t)(i + 1)));
	top = s.top;
	for (unsigned i = 0; i < BELLS; i += 3) {
		se_doorbell_fini(&d[i], &s);
		se_doorbell_fini(&d[i], &s);
	}
	for (unsigned i = 0; i < BELLS; i += 3)
		ring(&d[i], &s, (uint8_t)(i + 1));
	for (unsigned i = 0; i < BELLS; i++)
		cr_assert(filled(d[i].va, 64, (uint8_t)(i + 1)));
	cr_assert(eq(u64, s.top, top));
	space_fini(&s);
}

Test(doorbell, space_has_an_end)
{
	struct se_doorbell d;
	struct se_space s;
	unsigned n = 0;
	int rc;

	space_init(&s);
	while ((rc = se_doorbell_init(&d, &s)) == 0)
		n++;
	cr_assert(eq(int, rc, -ENOMEM));
	cr_assert(eq(uint, n, SE_DB_PAGES * PAGE / 64));
	space_fini(&s);
}
