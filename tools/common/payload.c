/* SPDX-License-Identifier: BSD-3-Clause */
/* Fill and verify messages. */
#include "payload.h"

#include <string.h>

enum { WORD = sizeof(uint64_t) };

/* The finaliser of splitmix64: every bit of the input moves every bit of the output. */
static inline uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static inline uint64_t word_at(uint64_t key, size_t index)
{
	return mix(key + index * 0x9e3779b97f4a7c15u);
}

uint64_t payload_key(int src, int dst, int channel, uint64_t serial)
{
	uint64_t where = (uint64_t)src << 40 | (uint64_t)dst << 20 | (uint64_t)channel;

	return mix(mix(where + 1) + serial);
}

void payload_fill(void *data, size_t len, uint64_t key)
{
	size_t words = len / WORD;
	char *at = data;
	uint64_t w;

	for (size_t i = 0; i < words; i++) {
		w = word_at(key, i);
		memcpy(at + i * WORD, &w, WORD);
	}
	w = word_at(key, words);
	memcpy(at + words * WORD, &w, len % WORD);
}

/* Bytes of the stamp at the front; that at the end has WORD or none. */
static inline size_t front_bytes(size_t len)
{
	return len < WORD ? len : WORD;
}

static inline uint64_t front_word(uint64_t key)
{
	return mix(~key);
}

static inline uint64_t back_word(uint64_t key)
{
	return mix(~key + 1);
}

void payload_stamp(void *data, size_t len, uint64_t key)
{
	uint64_t front = front_word(key), back = back_word(key);

	memcpy(data, &front, front_bytes(len));
	if (len >= 2 * WORD)
		memcpy((char *)data + len - WORD, &back, WORD);
}

/* Count differing bytes of @n <= WORD; remember the first as offset @at in the message. */
static size_t count_wrong(const char *data, uint64_t want, size_t n, size_t at, size_t *first,
			  size_t before)
{
	size_t wrong = 0;
	char bytes[WORD];

	memcpy(bytes, &want, WORD);
	for (size_t i = 0; i < n; i++) {
		if (data[i] == bytes[i])
			continue;
		if (!before && !wrong)
			*first = at + i;
		wrong++;
	}
	return wrong;
}

static size_t check_front(const char *data, size_t len, uint64_t stamp, size_t *first)
{
	return count_wrong(data, front_word(stamp), front_bytes(len), 0, first, 0);
}

static size_t check_back(const char *data, size_t len, uint64_t stamp, size_t *first, size_t before)
{
	if (len < 2 * WORD)
		return 0;
	return count_wrong(data + len - WORD, back_word(stamp), WORD, len - WORD, first, before);
}

size_t payload_check_stamp(const void *data, size_t len, uint64_t stamp, size_t *first)
{
	size_t wrong = check_front(data, len, stamp, first);

	return wrong + check_back(data, len, stamp, first, wrong);
}

size_t payload_check(const void *data, size_t len, uint64_t body, uint64_t stamp, size_t *first)
{
	size_t wrong = check_front(data, len, stamp, first);
	size_t end = len >= 2 * WORD ? len - WORD : len;
	const char *at = data;

	/* The last word of the body may be cut by the stamp at the back. */
	for (size_t i = WORD; i < end; i += WORD) {
		size_t n = end - i < WORD ? end - i : WORD;
		uint64_t want = word_at(body, i / WORD), got = want;

		memcpy(&got, at + i, n);
		if (got != want)
			wrong += count_wrong(at + i, want, n, i, first, wrong);
	}
	return wrong + check_back(at, len, stamp, first, wrong);
}
