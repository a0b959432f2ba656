/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Make the k-th call fail of those that the core makes to libibverbs, libefa, CUDA and the C
 * library, and count what it holds of them.
 *
 * What the core finds by dlsym() is replaced there, what it reaches through a context when a device
 * is opened, the C library by the linker: a program that uses this is linked with --wrap for each
 * of KTH_LIBC (Makefile). Only calls of what is linked into the program are seen, and only between
 * kth_arm() and kth_disarm(), by one thread.
 */
#ifndef TESTS_KTH_H
#define TESTS_KTH_H

#include <stdbool.h>

enum { KTH_ERRNO = 122 }; /* EDQUOT: what failing verbs say, and nothing here says by itself */

/* Of the C library: those that can fail and those that undo them. */
#define KTH_LIBC(X) \
	X(malloc) \
	X(calloc) \
	X(free) \
	X(open) \
	X(opendir) \
	X(closedir) \
	X(fopen) \
	X(fclose) \
	X(fcntl) \
	X(poll) \
	X(pthread_mutex_init) \
	X(dlopen) \
	X(dlsym)

struct kth {
	const char *call; /* that was made to fail; NULL: there were fewer than k */
	const char
		*what; /* the name that dlsym() or dlopen() was asked for, else that of the call */
	int rc;        /* the -errno that is right for it */
};

/* Which calls count: those that make or ask something, or those that undo it. */
enum kth_side { KTH_MAKE, KTH_UNDO };

/* The @k-th from now on fails, k = 1, 2, ...; one that undoes something has done it all the same.
 */
void kth_arm(enum kth_side side, unsigned k);
struct kth kth_disarm(void);

/* Objects and memory that exist. */
long kth_live(void);

#endif
