/* SPDX-License-Identifier: BSD-3-Clause */
/* netbench's payload: what differs in one byte, or belongs elsewhere, is seen. */
#include "common/payload.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "netbench/reduce.h"

enum { LEN = 70 };

static void write_message(unsigned char *data, size_t len, uint64_t body, uint64_t stamp)
{
	payload_fill(data, len, body);
	payload_stamp(data, len, stamp);
}

Test(payload, every_single_wrong_byte_is_counted_and_located)
{
	for (size_t len = 0; len <= LEN; len++) {
		/* Of the exact size, for the address sanitizer. */
		unsigned char *data = malloc(len + 1);

		write_message(data, len, 11, 22);
		for (size_t i = 0; i < len; i++) {
			size_t first = SIZE_MAX;

			data[i] ^= 0x80;
			cr_assert_eq(payload_check(data, len, 11, 22, &first), 1);
			cr_assert_eq(first, i);
			data[i] ^= 0x80;
		}
		cr_assert_eq(payload_check(data, len, 11, 22, &(size_t){0}), 0);
		free(data);
	}
}

Test(payload, stamps_are_the_first_and_last_eight_bytes)
{
	unsigned char data[LEN];

	for (size_t len = 0; len <= LEN; len++) {
		size_t stamped = len < 16 ? (len < 8 ? len : 8) : 16, seen = 0, first;

		write_message(data, len, 11, 22);
		cr_assert_eq(payload_check_stamp(data, len, 22, &first), 0);
		for (size_t i = 0; i < len; i++) {
			data[i] ^= 1;
			seen += payload_check_stamp(data, len, 22, &first);
			data[i] ^= 1;
		}
		cr_assert_eq(seen, stamped, "%zu bytes: %zu", len, seen);
	}
}

Test(payload, another_message_does_not_pass_for_this_one)
{
	const uint64_t key = payload_key(3, 4, 5, 6);
	const uint64_t others[] = {payload_key(4, 3, 5, 6), payload_key(3, 5, 5, 6),
				   payload_key(2, 4, 5, 6), payload_key(3, 4, 0, 6),
				   payload_key(3, 4, 5, 7), payload_key(3, 4, 6, 5)};
	unsigned char data[LEN];
	size_t first;

	write_message(data, LEN, key, key);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		cr_assert(payload_check(data, LEN, others[i], others[i], &first) > LEN / 2);
		cr_assert(payload_check_stamp(data, LEN, others[i], &first) > 8);
	}
}

Test(payload, a_shift_by_a_word_is_seen)
{
	unsigned char data[LEN];
	size_t first;

	write_message(data, LEN, 11, 22);
	memmove(data + 16, data + 24, 32);
	cr_assert(payload_check(data, LEN, 11, 22, &first) > 16);
	cr_assert_eq(first, 16);
}

Test(reduce, sums_are_exact_in_any_order)
{
	enum { N = 1000, RANKS = 64 };
	static float in[RANKS][N], up[N], down[N], next[N];
	size_t at;

	for (int r = 0; r < RANKS; r++)
		nb_reduce_fill(in[r], 77, N, r, RANKS, 5);
	for (int r = 0; r < RANKS; r++) {
		nb_reduce(next, up, in[r], N);
		memcpy(up, next, sizeof(up));
		nb_reduce(next, down, in[RANKS - 1 - r], N);
		memcpy(down, next, sizeof(down));
	}
	cr_assert_eq(memcmp(up, down, sizeof(up)), 0);
	cr_assert_eq(nb_reduce_check(up, 77, N, RANKS, 5, &at), 0);
}

Test(reduce, a_missing_summand_a_shift_and_another_round_are_seen)
{
	enum { N = 300 };
	float a[N], b[N], sum[N];
	size_t at = 0;

	nb_reduce_fill(a, 0, N, 0, 2, 5);
	nb_reduce_fill(b, 0, N, 1, 2, 5);
	nb_reduce(sum, a, b, N);
	cr_assert_eq(nb_reduce_check(sum, 0, N, 2, 5, &at), 0);
	cr_assert(nb_reduce_check(a, 0, N, 2, 5, &at) >= N - 1);
	cr_assert(nb_reduce_check(sum, 1, N, 2, 5, &at) >= N - 1);
	cr_assert(nb_reduce_check(sum, 0, N, 2, 6, &at) >= N - 1);
	sum[257] += 1;
	cr_assert_eq(nb_reduce_check(sum, 0, N, 2, 5, &at), 1);
	cr_assert_eq(at, 257);
}
