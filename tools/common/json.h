/* SPDX-License-Identifier: BSD-3-Clause */
/* The one part of JSON that printf() does not write. */
#ifndef COMMON_JSON_H
#define COMMON_JSON_H

#include <stdio.h>

/* "key": "text" */
void json_string(FILE *f, const char *key, const char *text);

#endif
