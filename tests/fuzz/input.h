/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers from a fuzzer's input, little-endian; zero when it is used up. */
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>

struct input {
	const uint8_t *p;
	size_t left;
};

static inline uint8_t u8(struct input *in)
{
	if (!in->left)
		return 0;
	in->left--;
	return *in->p++;
}

static inline uint16_t u16(struct input *in)
{
	uint16_t lo = u8(in);

	return (uint16_t)(lo | u8(in) << 8);
}

#endif
