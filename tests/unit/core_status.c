/* SPDX-License-Identifier: BSD-3-Clause */
/* EFA statuses: words and numbers for each. */
#include "srd.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <string.h>

struct param {
	uint32_t code;
	int rc;
	char word[16]; /* of its name */
};

static struct param codes[] = {
	{1, -ECANCELED, "flushed"},    {2, -EIO, "internal"},
	{3, -EOPNOTSUPP, "operation"}, {4, -EADDRNOTAVAIL, "address handle"},
	{5, -EFAULT, "local key"},     {6, -EMSGSIZE, "too long"},
	{7, -EACCES, "remote key"},    {8, -ECONNRESET, "reset"},
	{9, -ECONNREFUSED, "no such"}, {10, -ENOBUFS, "not ready"},
	{11, -EMSGSIZE, "too short"},  {12, -EREMOTEIO, "unexpected"},
	{13, -ETIMEDOUT, "before"},    {14, -EPERM, "know us"},
	{15, -EHOSTUNREACH, "never"},  {18, -EPROTO, "mismatch"},
};

ParameterizedTestParameters(status, every_code_has_name_hint_and_errno)
{
	return cr_make_param_array(struct param, codes, sizeof(codes) / sizeof(codes[0]));
}

ParameterizedTest(struct param *p, status, every_code_has_name_hint_and_errno)
{
	struct srd_wc wc = {.status = IBV_WC_GENERAL_ERR, .efa_status = p->code};

	cr_assert(eq(int, srd_wc_err(&wc), p->rc), "code %u", p->code);
	cr_assert(ne(ptr, strstr(srd_status_str(p->code), p->word), NULL), "code %u: %s", p->code,
		  srd_status_str(p->code));
	cr_assert(gt(sz, strlen(srd_status_hint(p->code)), 10));
}

Test(status, success_is_no_error)
{
	struct srd_wc wc = {.status = IBV_WC_SUCCESS};

	cr_assert(zero(int, srd_wc_err(&wc)));
	cr_assert(zero(int, strcmp(srd_status_str(0), "success")));
	cr_assert(zero(int, strcmp(srd_status_hint(0), "")));
}

Test(status, failure_is_an_error_even_if_the_device_says_0)
{
	struct srd_wc wc = {.status = IBV_WC_GENERAL_ERR, .efa_status = 0};

	cr_assert(eq(int, srd_wc_err(&wc), -EIO));
}

Test(status, codes_between_and_beyond_are_unknown)
{
	static const uint32_t others[] = {16, 17, 19, 255, UINT32_MAX};

	for (int i = 0; i < 5; i++) {
		struct srd_wc wc = {.status = IBV_WC_GENERAL_ERR, .efa_status = others[i]};

		cr_assert(zero(int, strcmp(srd_status_str(others[i]), "unknown status")));
		cr_assert(zero(int, strcmp(srd_status_hint(others[i]), "")));
		cr_assert(eq(int, srd_wc_err(&wc), -EIO));
	}
}

Test(status, unreachable_peers_hint_at_the_security_group)
{
	cr_assert(ne(ptr, strstr(srd_status_hint(13), "inbound and outbound"), NULL));
	cr_assert(ne(ptr, strstr(srd_status_hint(15), "inbound and outbound"), NULL));
}
