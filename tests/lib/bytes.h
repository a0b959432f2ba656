/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Message contents: bytes that depend on their place and on a seed, so that swapped, torn, stale
 * and shifted data show. Cheap enough to check every byte of every message.
 */
#ifndef TESTS_BYTES_H
#define TESTS_BYTES_H

#include <stddef.h>
#include <stdint.h>

void bytes_fill(uint8_t *p, size_t n, uint32_t seed);
/* Where @p first differs from what bytes_fill() writes, or -1. */
long bytes_differ(const uint8_t *p, size_t n, uint32_t seed);
/* Where @p first differs from @n times @value, or -1. */
long bytes_differ_from(const uint8_t *p, size_t n, uint8_t value);

/* A small generator, the same everywhere. */
uint32_t bytes_random(uint64_t *state);

#endif
