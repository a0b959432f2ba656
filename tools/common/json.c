/* SPDX-License-Identifier: BSD-3-Clause */
/* Strings in JSON. */
#include "json.h"

void json_string(FILE *f, const char *key, const char *text)
{
	fprintf(f, "\"%s\": \"", key);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			fprintf(f, "\\%c", c);
		else if (c < 0x20)
			fprintf(f, "\\u%04x", c);
		else
			fputc(c, f);
	}
	fputc('"', f);
}
