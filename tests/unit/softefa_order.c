/* SPDX-License-Identifier: BSD-3-Clause */
/* In what spans the kernel is asked to copy, where a device vouches for the order of bytes. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../softefa/copy.h"
#include "../../softefa/settings.h"

enum { BYTES = 100000, BLOCK = 128, FLAG = 120 }; /* a line of LL128 has its flag there */

static uint8_t from[BYTES];
static _Alignas(BLOCK) uint8_t to[BYTES];
static size_t copied;    /* bytes so far, from the front */
static unsigned in_lump; /* spans with a flag and what is before it */

/* In the place of the system call: within a span, bytes may become visible in any order. */
ssize_t process_vm_readv(pid_t pid, const struct iovec *dst, unsigned long ndst,
			 const struct iovec *src, unsigned long nsrc, unsigned long flags)
{
	size_t len = 0, at = 0;

	(void)pid, (void)flags;
	for (unsigned long i = 0; i < ndst; i++) {
		size_t off = (size_t)((uint8_t *)dst[i].iov_base - to);

		cr_assert(eq(sz, off, copied + len), "not one after the other");
		in_lump += off % BLOCK < FLAG && off % BLOCK + dst[i].iov_len > FLAG;
		len += dst[i].iov_len;
	}
	for (unsigned long i = 0; i < nsrc; i++) {
		memcpy(to + copied + at, src[i].iov_base, src[i].iov_len);
		at += src[i].iov_len;
	}
	cr_assert(eq(sz, at, len));
	copied += len;
	return (ssize_t)len;
}

static struct promise {
	char settings[16];
	bool kept;
} promises[] = {{"caps=0x7f", true}, {"caps=0x6f", false}};

ParameterizedTestParameters(softefa_order, long_copies_are_in_order_where_the_device_says_so)
{
	return cr_make_param_array(struct promise, promises,
				   sizeof(promises) / sizeof(promises[0]));
}

ParameterizedTest(struct promise *p, softefa_order,
		  long_copies_are_in_order_where_the_device_says_so)
{
	/* Of several spans on either side, none of a round length. */
	const struct iovec dst[] = {{to, 777}, {to + 777, 1}, {to + 778, BYTES - 778}};
	const struct iovec src[] = {{from, 50001}, {from + 50001, BYTES - 50001}};

	setenv(SE_ENV_SET, p->settings, 1);
	for (int i = 0; i < BYTES; i++)
		from[i] = (uint8_t)(i * 7 + i / 256);
	cr_assert(zero(int, se_copy_pull(getpid() + 1, dst, 3, src, 2, BYTES)));
	cr_assert(eq(sz, copied, BYTES));
	cr_assert(zero(int, memcmp(from, to, BYTES)));
	cr_assert(eq(int, in_lump == 0, p->kept), "%u flags come with what is before them",
		  in_lump);
}
