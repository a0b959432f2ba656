/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ownership of engines under contention. Under the thread sanitizer the sections run below a
 * mutex; without it, on membarrier. Both must exclude.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../lib/contend.h"

#if defined(__SANITIZE_THREAD__)
enum { SLOW = 20 };
#else
enum { SLOW = 1 };
#endif

int main(void)
{
	static const struct contend cases[] = {
		{.threads = 4, .rounds = 60000000 / SLOW, .strangers = 20000 / SLOW, .visit = 256},
		{.threads = 2, .rounds = 16000000 / SLOW, .strangers = 4000 / SLOW, .visit = 16},
		{.threads = 8, .rounds = 2000000 / SLOW, .strangers = 4000 / SLOW, .visit = 2},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		long wrong = contend(&cases[i]);

		if (wrong) {
			fprintf(stderr, "case %zu: %ld times wrong\n", i, wrong);
			return EXIT_FAILURE;
		}
	}
	return EXIT_SUCCESS;
}
