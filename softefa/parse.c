/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers and words. */
#include "parse.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool se_parse_u32(const char *text, size_t len, uint32_t min, uint32_t max, uint32_t *out)
{
	unsigned long long v;
	char copy[32], *end;

	if (len == 0 || len >= sizeof(copy) || !isdigit((unsigned char)text[0]))
		return false;
	memcpy(copy, text, len);
	copy[len] = '\0';
	errno = 0;
	v = strtoull(copy, &end, 0);
	if (end != copy + len || errno || v < min || v > max)
		return false;
	*out = (uint32_t)v;
	return true;
}

bool se_parse_ppm(const char *text, size_t len, uint32_t *out)
{
	uint32_t v = 0, unit = 1000000;

	if (len == 0 || (text[0] != '0' && text[0] != '1'))
		return false;
	v = text[0] == '1' ? unit : 0;
	if (len > 1 && (text[1] != '.' || len == 2 || len > 8))
		return false;
	for (size_t i = 2; i < len; i++) {
		if (!isdigit((unsigned char)text[i]))
			return false;
		unit /= 10;
		v += (uint32_t)(text[i] - '0') * unit;
	}
	if (v > 1000000)
		return false;
	*out = v;
	return true;
}

bool se_parse_is(const char *text, size_t len, const char *word)
{
	return strlen(word) == len && memcmp(text, word, len) == 0;
}

int se_parse_word(const char *text, size_t len, const char *words)
{
	for (int i = 0; *words; i++) {
		size_t n = strcspn(words, " ");

		if (n == len && memcmp(text, words, n) == 0)
			return i;
		words += n + (words[n] == ' ');
	}
	return -1;
}
