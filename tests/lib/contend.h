/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that contend for ownership: most of the time each has its own thing, sometimes not. */
#ifndef TESTS_CONTEND_H
#define TESTS_CONTEND_H

struct contend {
	int threads;   /* at most 8; each has a thing that it enters mostly */
	int rounds;    /* of each thread */
	int strangers; /* threads in a row that enter every thing once and end */
	int visit;     /* one of so many rounds is at a random thing */
};

/* How often two were inside at once, or an entry was lost; 0 if all is well. */
long contend(const struct contend *c);

#endif
