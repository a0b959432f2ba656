/* SPDX-License-Identifier: BSD-3-Clause */
/* Message contents: windows of one table of noise. */
#include "bytes.h"

#include <pthread.h>
#include <string.h>

enum { WINDOW = 1 << 16 };

uint32_t bytes_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 32);
}

static uint8_t noise[2 * WINDOW];

static void make_noise(void)
{
	uint64_t state = 1;

	for (size_t b = 0; b < sizeof(noise); b += 4) {
		uint32_t v = bytes_random(&state);

		memcpy(noise + b, &v, sizeof(v));
	}
}

/* The noise behind block @i of contents @seed; a message and its neighbours use other windows. */
static const uint8_t *window(uint32_t seed, uint32_t i)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	uint64_t at = (uint64_t)seed << 32 | i;

	pthread_once(&once, make_noise);
	bytes_random(&at);
	return noise + bytes_random(&at) % WINDOW;
}

void bytes_fill(uint8_t *p, size_t n, uint32_t seed)
{
	for (uint32_t i = 0; n; i++) {
		size_t part = n < WINDOW ? n : WINDOW;

		memcpy(p, window(seed, i), part);
		p += part;
		n -= part;
	}
}

long bytes_differ(const uint8_t *p, size_t n, uint32_t seed)
{
	for (size_t at = 0; at < n; at += WINDOW) {
		const uint8_t *want = window(seed, (uint32_t)(at / WINDOW));
		size_t part = n - at < WINDOW ? n - at : WINDOW;

		if (!memcmp(p + at, want, part))
			continue;
		for (size_t i = 0; i < part; i++)
			if (p[at + i] != want[i])
				return (long)(at + i);
	}
	return -1;
}

long bytes_differ_from(const uint8_t *p, size_t n, uint8_t value)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != value)
			return (long)i;
	return -1;
}
