/* SPDX-License-Identifier: BSD-3-Clause */
/* The registration cache by itself, on a device. */
#include "../../plugin/mrcache.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../lib/bytes.h"
#include "../lib/loop.h"
#include "../lib/need.h"

enum { PAGE = 4096, PAGES = 32 };

static struct srd_dev dev;
static struct srd_pd pd;
static struct net_mrcache cache;
static uint8_t *mem; /* PAGES pages */

static void open_all(void)
{
	struct srd_pd *pds[] = {&pd};

	loop_open_dev(&dev);
	cr_assert(zero(int, srd_pd_init(&pd, &dev)));
	net_mrcache_init(&cache, pds, 1);
	mem = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	need(mem != MAP_FAILED, "mmap");
}

static void close_all(void)
{
	net_mrcache_fini(&cache);
	srd_pd_fini(&pd);
	srd_dev_close(&dev);
	munmap(mem, PAGES * PAGE);
}

static int try(void *at, size_t len, struct net_mr **mr)
{
	const struct net_range r = {.addr = (uintptr_t)at, .len = len, .fd = -1};

	return net_mr_get(&cache, &r, 0, mr);
}

static struct net_mr *get(void *at, size_t len)
{
	struct net_mr *mr = NULL;

	cr_assert(zero(int, try(at, len, &mr)));
	cr_assert(ne(ptr, mr, NULL));
	return mr;
}

Test(mrcache, same_range_is_one_entry_counted_twice)
{
	struct net_mr *a, *b;

	open_all();
	a = get(mem, 100);
	b = get(mem, 100);
	cr_assert(eq(ptr, a, b));
	cr_assert(eq(u32, a->users, 2));
	cr_assert(eq(sz, cache.count, 1));
	net_mr_put(&cache, a);
	cr_assert(eq(sz, cache.count, 1));
	net_mr_put(&cache, b);
	cr_assert(zero(sz, cache.count));
	close_all();
}

Test(mrcache, ranges_within_the_same_pages_share_an_entry)
{
	struct net_mr *a, *b;

	open_all();
	a = get(mem + 1, 10);
	b = get(mem + PAGE - 1, 1);
	cr_assert(eq(ptr, a, b));
	cr_assert(eq(u64, a->addr, (uintptr_t)mem));
	cr_assert(eq(u64, a->end, (uintptr_t)mem + PAGE));
	net_mr_put(&cache, a);
	net_mr_put(&cache, b);
	close_all();
}

/* In the larger one the rest would stay writable for peers after its own users have left. */
Test(mrcache, range_inside_a_larger_one_is_an_entry_of_its_own)
{
	struct net_mr *large, *small, *tail;

	open_all();
	large = get(mem, 4 * PAGE);
	small = get(mem, PAGE);
	tail = get(mem + 3 * PAGE, PAGE);
	cr_assert(ne(ptr, large, small));
	cr_assert(ne(ptr, large, tail));
	cr_assert(ne(u32, large->rkey[0], small->rkey[0]));
	cr_assert(eq(sz, cache.count, 3));
	net_mr_put(&cache, large);
	net_mr_put(&cache, small);
	net_mr_put(&cache, tail);
	close_all();
}

Test(mrcache, range_across_a_page_boundary_covers_both_pages)
{
	struct net_mr *mr;

	open_all();
	mr = get(mem + PAGE - 1, 2);
	cr_assert(eq(u64, mr->addr, (uintptr_t)mem));
	cr_assert(eq(u64, mr->end, (uintptr_t)mem + 2 * PAGE));
	cr_assert(eq(u64, mr->mr[0].addr, (uintptr_t)mem));
	cr_assert(eq(u64, mr->mr[0].len, 2 * PAGE));
	net_mr_put(&cache, mr);
	close_all();
}

Test(mrcache, range_of_nothing_or_past_the_end_of_memory_is_einval)
{
	struct net_mr *mr = NULL;

	open_all();
	cr_assert(eq(int, try(mem, 0, &mr), -EINVAL));
	cr_assert(eq(int, try(mem, SIZE_MAX, &mr), -EINVAL));
	cr_assert(eq(int, try((void *)(UINTPTR_MAX - 10), 5, &mr), -EINVAL));
	cr_assert(eq(ptr, mr, NULL));
	close_all();
}

static void drop_line(void *arg, enum srd_log_level level, const char *line)
{
	(void)level;
	(void)line;
	++*(int *)arg;
}

Test(mrcache, range_that_cannot_be_registered_leaves_no_entry)
{
	struct net_mr *mr = NULL;
	int lines = 0;

	open_all();
	srd_log_to(drop_line, &lines);
	munmap(mem + PAGE, PAGE);
	cr_assert(lt(int, try(mem + PAGE, 100, &mr), 0));
	cr_assert(eq(ptr, mr, NULL));
	cr_assert(zero(sz, cache.count));
	cr_assert(eq(int, lines, 1));
	srd_log_to(NULL, NULL);
	close_all();
}

Test(mrcache, entries_that_are_left_go_with_the_cache)
{
	open_all();
	for (int i = 0; i < PAGES; i++)
		get(mem + i * PAGE, PAGE);
	close_all(); /* the PD can be finished: nothing is registered in it */
}

/* Against a table of how often each range is in use. */
Test(mrcache, entries_are_those_in_use_after_any_sequence_of_gets_and_puts)
{
	static struct net_mr *held[PAGES][PAGES + 1];
	static unsigned users[PAGES][PAGES + 1];
	uint64_t seed = 9;
	size_t want = 0;

	open_all();
	for (int i = 0; i < 10000; i++) {
		uint32_t from = bytes_random(&seed) % PAGES;
		uint32_t to = from + 1 + bytes_random(&seed) % (PAGES - from);
		bool add = bytes_random(&seed) % 2;

		if (add) {
			struct net_mr *mr = get(mem + from * PAGE, (to - from) * PAGE);

			need(!users[from][to] || mr == held[from][to], "[%u, %u) twice", from, to);
			held[from][to] = mr;
			want += users[from][to]++ == 0;
		} else if (users[from][to]) {
			net_mr_put(&cache, held[from][to]);
			want -= --users[from][to] == 0;
		}
		need(cache.count == want, "step %d: %zu entries, %zu in use", i, cache.count, want);
	}
	close_all();
}
