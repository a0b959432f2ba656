/* SPDX-License-Identifier: BSD-3-Clause */
/* Strict reading of what people write: a number is all of the text and within its limits. */
#ifndef SE_PARSE_H
#define SE_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * @len bytes at @text as a number, decimal or 0x..., of @min ... @max. *@out is written on success.
 */
bool se_parse_u32(const char *text, size_t len, uint32_t min, uint32_t max, uint32_t *out);
/* A decimal fraction of 0 ... 1 with up to 6 digits after the point, in millionths. */
bool se_parse_ppm(const char *text, size_t len, uint32_t *out);

/* Is @text, @len bytes, the @index-th word of @words, which are separated by blanks? -1: none. */
int se_parse_word(const char *text, size_t len, const char *words);
/* Is it @word? */
bool se_parse_is(const char *text, size_t len, const char *word);

#endif
