/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers of a command line: all of the text, or nothing. */
#ifndef COMMON_PARSE_H
#define COMMON_PARSE_H

#include <stdint.h>

/* Decimal digits. -EINVAL: something else. -ERANGE: above 64 bits. */
int parse_number(const char *text, uint64_t *value);
/* The same, with K, M or G (2^10, 2^20, 2^30), of either case, behind the digits or not. */
int parse_size(const char *text, uint64_t *value);

#endif
