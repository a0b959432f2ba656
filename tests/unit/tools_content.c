/* SPDX-License-Identifier: BSD-3-Clause */
/* srd-bw's messages: what is changed, moved or missing in them is seen, whatever their size. */
#include "srd-bw/content.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 20, LEN = 2 * PIECE + 1234 };

static uint8_t *message(uint64_t key)
{
	uint8_t *data = malloc(LEN);

	cr_assert(data);
	bw_content_fill(data, LEN, key);
	return data;
}

Test(content, a_wrong_byte_is_found_wherever_it_is)
{
	static const uint64_t places[] = {0,         7,         8,       PIECE - 1, PIECE,
					  PIECE + 1, 2 * PIECE, LEN - 1, LEN - 9};
	uint8_t *data = message(5);

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		uint64_t first = UINT64_MAX;

		data[places[i]] ^= 1;
		cr_assert_eq(bw_content_check(data, LEN, 5, &first), 1);
		cr_assert_eq(first, places[i]);
		data[places[i]] ^= 1;
	}
	cr_assert_eq(bw_content_check(data, LEN, 5, &(uint64_t){0}), 0);
	free(data);
}

Test(content, pieces_in_each_others_place_are_found)
{
	uint8_t *data = message(5), *piece = malloc(PIECE);
	uint64_t first = UINT64_MAX;

	memcpy(piece, data, PIECE);
	memcpy(data, data + PIECE, PIECE);
	memcpy(data + PIECE, piece, PIECE);
	cr_assert_gt(bw_content_check(data, LEN, 5, &first), PIECE);
	cr_assert_lt(first, 16);
	free(piece);
	free(data);
}

Test(content, another_message_is_found)
{
	uint8_t *data = message(5);
	uint64_t first = UINT64_MAX;

	cr_assert_gt(bw_content_check(data, LEN, 6, &first), LEN / 2);
	free(data);
}
