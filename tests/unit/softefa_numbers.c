/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers of a device: unique, slow to come back, and taken back from the dead. */
#include "../../softefa/numbers.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { A = 3, B = 77, MASK = 1023 };

static struct se_numbers *d; /* some MB, zeroed */
static uint8_t used[MASK + 1];

static void setup(void)
{
	d = calloc(1, sizeof(*d));
	cr_assert(ne(ptr, d, NULL));
}

static void teardown(void)
{
	free(d);
}

TestSuite(numbers, .init = setup, .fini = teardown);

static struct se_gid gid_no(unsigned i)
{
	return (struct se_gid){{0xfe, 0x80, [14] = (uint8_t)(i >> 8), [15] = (uint8_t)i}};
}

Test(numbers, queue_pairs_have_low_bits_of_their_own_and_none_is_0_or_1)
{
	uint8_t low[MASK + 1] = {0};

	for (unsigned i = 0; i < MASK - 1; i++) {
		int qpn = se_numbers_qpn_get(d, A, low, MASK, 2 * MASK);

		cr_assert(ge(int, qpn, 2));
		cr_assert(zero(u8, low[qpn & MASK]));
		low[qpn & MASK] = 1;
	}
}

Test(numbers, queue_pair_number_comes_back_last)
{
	int first = se_numbers_qpn_get(d, A, used, MASK, 10), next;
	unsigned n = 0;

	se_numbers_qpn_put(d, (uint16_t)first);
	do {
		next = se_numbers_qpn_get(d, A, used, MASK, 10);
		se_numbers_qpn_put(d, (uint16_t)next);
		n++;
	} while (next != first);
	cr_assert(ge(uint, n, 60000));
}

/* All numbers were given out since, by a context that has none of the same low bits. */
Test(numbers, queue_pair_number_in_use_is_not_given_out_again)
{
	int first = se_numbers_qpn_get(d, A, used, MASK, 10);

	for (unsigned i = 0; i < 2 << 16; i++) {
		int qpn = se_numbers_qpn_get(d, B, used, MASK, 10);

		cr_assert(ne(int, qpn, first));
		se_numbers_qpn_put(d, (uint16_t)qpn);
	}
}

Test(numbers, room_for_queue_pairs_ends_and_comes_back)
{
	int qpn = 0;

	for (unsigned i = 0; i < 10; i++) {
		qpn = se_numbers_qpn_get(d, i % 2 ? A : B, used, MASK, 10);
		cr_assert(ge(int, qpn, 2));
	}
	cr_assert(eq(int, se_numbers_qpn_get(d, A, used, MASK, 10), -ENOMEM));
	se_numbers_qpn_put(d, (uint16_t)qpn);
	cr_assert(ge(int, se_numbers_qpn_get(d, A, used, MASK, 10), 2));
}

Test(numbers, full_table_of_a_context_is_no_endless_search)
{
	uint8_t full[MASK + 1];

	memset(full, 1, sizeof(full));
	cr_assert(eq(int, se_numbers_qpn_get(d, A, full, MASK, 10), -ENOMEM));
}

Test(numbers, gid_has_one_number_for_all)
{
	struct se_gid g = gid_no(1), h = gid_no(2);
	int a = se_numbers_ahn_get(d, A, &g, 10);

	cr_assert(ge(int, a, 1));
	cr_assert(eq(int, se_numbers_ahn_get(d, B, &g, 10), a));
	cr_assert(ne(int, se_numbers_ahn_get(d, B, &h, 10), a));
	se_numbers_ahn_put(d, A, (uint16_t)a);
	cr_assert(eq(int, se_numbers_ahn_get(d, A, &g, 10), a));
}

Test(numbers, number_of_a_gid_that_nobody_has_goes_to_another)
{
	struct se_gid g = gid_no(1), h = gid_no(2);
	int a = se_numbers_ahn_get(d, A, &g, 1);

	cr_assert(eq(int, se_numbers_ahn_get(d, A, &h, 1), -ENOMEM));
	se_numbers_ahn_put(d, A, (uint16_t)a);
	cr_assert(eq(int, se_numbers_ahn_get(d, A, &h, 1), a));
	cr_assert(eq(int, se_numbers_ahn_get(d, A, &g, 1), -ENOMEM));
}

Test(numbers, room_for_address_handles_ends)
{
	struct se_gid g = gid_no(0);

	for (unsigned i = 1; i <= 1000; i++) {
		g = gid_no(i);
		cr_assert(eq(int, se_numbers_ahn_get(d, A, &g, 1000), (int)i));
	}
	g = gid_no(1001);
	cr_assert(eq(int, se_numbers_ahn_get(d, A, &g, 1000), -ENOMEM));
	g = gid_no(7);
	cr_assert(eq(int, se_numbers_ahn_get(d, A, &g, 1000), 7));
}

Test(numbers, key_has_24_bits_and_lives_until_it_is_put)
{
	uint32_t key;

	cr_assert(zero(int, se_numbers_key_get(d, A, 10, &key)));
	cr_assert(zero(u32, key >> 24));
	cr_assert(ne(u32, SE_KEY_INDEX(key), 0));
	cr_assert(se_numbers_key_live(d, key, A));
	cr_assert(not(se_numbers_key_live(d, key, B)));
	cr_assert(not(se_numbers_key_live(d, key ^ 1 << SE_KEY_BITS, A)));
	se_numbers_key_put(d, key);
	cr_assert(not(se_numbers_key_live(d, key, A)));
}

/* The index comes round, the key is another: a stale one finds nothing. */
Test(numbers, key_of_a_reused_index_differs)
{
	uint32_t first, key;

	cr_assert(zero(int, se_numbers_key_get(d, A, 10, &first)));
	se_numbers_key_put(d, first);
	for (unsigned i = 0; i < SE_KEYS - 1; i++) {
		cr_assert(zero(int, se_numbers_key_get(d, A, 10, &key)));
		cr_assert(ne(u32, key, first));
		se_numbers_key_put(d, key);
	}
	cr_assert(eq(u32, SE_KEY_INDEX(key), SE_KEY_INDEX(first)));
}

Test(numbers, dead_member_loses_all_and_others_nothing)
{
	struct se_gid g = gid_no(1), h = gid_no(2);
	int qa = se_numbers_qpn_get(d, A, used, MASK, 10),
	    qb = se_numbers_qpn_get(d, B, used, MASK, 10);
	int ah = se_numbers_ahn_get(d, A, &g, 10);
	uint32_t ka, kb, life = d->qpn_life[qa];

	cr_assert(eq(int, se_numbers_ahn_get(d, B, &g, 10), ah));
	cr_assert(ne(int, se_numbers_ahn_get(d, A, &h, 10), ah));
	cr_assert(zero(int, se_numbers_key_get(d, A, 10, &ka)));
	cr_assert(zero(int, se_numbers_key_get(d, B, 10, &kb)));
	se_numbers_reclaim(d, A);
	cr_assert(zero(u16, d->qpn_owner[qa]));
	cr_assert(ne(u32, d->qpn_life[qa], life), "its requests are void");
	cr_assert(eq(u16, d->qpn_owner[qb], B + 1));
	cr_assert(not(se_numbers_key_live(d, ka, A)));
	cr_assert(se_numbers_key_live(d, kb, B));
	cr_assert(eq(u32, d->qp_count, 1));
	cr_assert(eq(u32, d->key_count, 1));
	cr_assert(eq(u32, d->ah_count, 1));
	cr_assert(eq(u32, d->ah[ah].refs, 1));
	se_numbers_reclaim(d, B);
	cr_assert(zero(u32, d->qp_count + d->key_count + d->ah_count));
}

/* Death between a table and its count, either way round. */
Test(numbers, counts_that_a_death_left_wrong_are_made_good)
{
	int qpn = se_numbers_qpn_get(d, A, used, MASK, 10);
	struct se_gid g = gid_no(1);
	uint32_t key;

	cr_assert(zero(int, se_numbers_key_get(d, A, 10, &key)));
	cr_assert(ge(int, se_numbers_ahn_get(d, A, &g, 10), 1));
	cr_assert(ge(int, se_numbers_ahn_get(d, B, &g, 10), 1));
	atomic_store(&d->qpn_owner[(uint16_t)(qpn + 5)], A + 1);
	d->key_count += 3;
	d->ah[1].refs++;
	se_numbers_reclaim(d, A);
	cr_assert(zero(u32, d->qp_count));
	cr_assert(zero(u16, d->qpn_owner[(uint16_t)(qpn + 5)]));
	cr_assert(zero(u32, d->key_count));
	cr_assert(eq(u32, d->ah[1].refs, 1));
}
