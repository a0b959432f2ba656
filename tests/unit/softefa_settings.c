/* SPDX-License-Identifier: BSD-3-Clause */
/* The adapter's settings: what is taken, what is refused and left alone. */
#include "../../softefa/settings.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct se_settings defaults(void)
{
	struct se_settings s;

	se_settings_default(&s);
	return s;
}

static bool same(const struct se_settings *a, const struct se_settings *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

Test(settings, assignments_change_what_they_name_and_nothing_else)
{
	struct se_settings s = defaults(), want = defaults();
	char err[160] = "";

	want.devices = 2;
	want.part_id = 0xefa2;
	want.seed = UINT32_MAX;
	cr_assert(zero(int, se_settings_apply(&s, "devices=2,part_id=0xefa2,seed=4294967295", err,
					      sizeof(err))));
	cr_assert(same(&s, &want));
	cr_assert(zero(int, err[0]));
}

Test(settings, later_assignment_wins)
{
	struct se_settings s = defaults();
	char err[160];

	cr_assert(zero(int, se_settings_apply(&s, "devices=2,devices=3", err, sizeof(err))));
	cr_assert(eq(u32, s.devices, 3));
}

Test(settings, empty_lists_and_parts_are_nothing)
{
	struct se_settings s = defaults(), want = defaults();
	char err[160];

	cr_assert(zero(int, se_settings_apply(&s, "", err, sizeof(err))));
	cr_assert(zero(int, se_settings_apply(&s, ",,", err, sizeof(err))));
	cr_assert(same(&s, &want));
}

Test(settings, limits_are_inclusive)
{
	struct se_settings s = defaults();
	char err[160];

	cr_assert(zero(int, se_settings_apply(&s, "devices=1,reorder=0", err, sizeof(err))));
	cr_assert(zero(int, se_settings_apply(&s, "devices=64,reorder=64", err, sizeof(err))));
}

/* The reason names the key, and the limits where it is they that are broken. */
struct bad {
	char list[80], says[32];
};

static struct bad bads[] = {
	{"devices", "not KEY=VALUE"},
	{"=3", "no setting ''"},
	{"device=3", "no setting 'device'"},
	{"devicess=3", "no setting"},
	{"DEVICES=3", "no setting"},
	{" devices=3", "no setting"},
	{"devices =3", "no setting"},
	{"domain=x", "no setting"},
	{"devices=", "1 ... 64"},
	{"devices=0", "1 ... 64"},
	{"devices=65", "1 ... 64"},
	{"devices=-1", "1 ... 64"},
	{"devices=+1", "1 ... 64"},
	{"devices= 1", "1 ... 64"},
	{"devices=1 ", "1 ... 64"},
	{"devices=1x", "1 ... 64"},
	{"devices=x1", "1 ... 64"},
	{"devices=1.0", "1 ... 64"},
	{"devices=1=2", "1 ... 64"},
	{"devices=0x", "1 ... 64"},
	{"devices=4294967297", "1 ... 64"},
	{"devices=18446744073709551617", "1 ... 64"},
	{"devices=00000000000000000000000000000000000000001", "1 ... 64"},
	{"seed=4294967296", "0 ... 4294967295"},
};

ParameterizedTestParameters(settings, nonsense_is_refused_with_a_reason)
{
	return cr_make_param_array(struct bad, bads, sizeof(bads) / sizeof(bads[0]));
}

ParameterizedTest(struct bad *b, settings, nonsense_is_refused_with_a_reason)
{
	struct se_settings s = defaults(), want = defaults();
	char err[160] = "";

	cr_assert(eq(int, se_settings_apply(&s, b->list, err, sizeof(err)), -EINVAL));
	cr_assert(same(&s, &want), "changed by '%s'", b->list);
	cr_assert(ne(ptr, strstr(err, b->says), NULL), "'%s' says: %s", b->list, err);
}

Test(settings, bad_part_does_not_stop_the_others)
{
	struct se_settings s = defaults();
	char err[160];

	cr_assert(eq(int, se_settings_apply(&s, "devices=9,nonsense,reorder=3", err, sizeof(err)),
		     -EINVAL));
	cr_assert(eq(u32, s.devices, 9));
	cr_assert(eq(u32, s.reorder, 3));
}

Test(settings, reason_fits_a_short_buffer)
{
	struct se_settings s = defaults();
	char err[8] = "1234567";

	cr_assert(eq(int, se_settings_apply(&s, "a_name_that_is_rather_long=1", err, 5), -EINVAL));
	cr_assert(eq(int, (int)strlen(err), 4));
	cr_assert(eq(int, err[5], '6'));
}

/* ---- profiles ---- */

Test(settings, profile_changes_what_it_names)
{
	struct se_settings s = defaults(), want = defaults();
	char err[160];

	want.part_id = 0xefa4;
	want.caps = 0x26f;
	want.inline_size_ex = 80;
	want.max_llq_size = 1 << 19;
	want.speed_gbps = 400;
	cr_assert(zero(int, se_settings_apply(&s, "profile=efa4", err, sizeof(err))));
	cr_assert(same(&s, &want));
}

Test(settings, what_a_profile_names_can_be_changed_in_any_order)
{
	static const char *const lists[] = {"profile=efa3,inline_size_ex=64,max_qp=9",
					    "inline_size_ex=64,profile=efa3,max_qp=9",
					    "max_qp=9,inline_size_ex=64,profile=efa3"};
	char err[160];

	for (unsigned i = 0; i < 3; i++) {
		struct se_settings s = defaults();

		cr_assert(zero(int, se_settings_apply(&s, lists[i], err, sizeof(err))));
		cr_assert(eq(u32, s.part_id, 0xefa3));
		cr_assert(eq(u32, s.inline_size_ex, 64));
		cr_assert(eq(u32, s.max_qp, 9));
	}
}

/* What each can, by the bits of the kernel's answer. */
struct generation {
	char name[8];
	uint32_t part_id, can, cannot;
	uint32_t inline_ex;
};

enum { READ = 1, WRITE = 0x20, UNSOLICITED = 0x40, IDS_64 = 0x200 };

static struct generation generations[] = {
	{"efa0", 0xefa0, 0, READ | WRITE | UNSOLICITED | IDS_64, 0},
	{"efa1", 0xefa1, READ, WRITE | UNSOLICITED | IDS_64, 0},
	{"efa2", 0xefa2, READ | WRITE | UNSOLICITED, IDS_64, 0},
	{"efa3", 0xefa3, READ | WRITE | UNSOLICITED | IDS_64, 0, 80},
	{"efa4", 0xefa4, READ | WRITE | UNSOLICITED | IDS_64, 0, 80},
};

ParameterizedTestParameters(settings, generations_differ_by_what_they_can)
{
	return cr_make_param_array(struct generation, generations,
				   sizeof(generations) / sizeof(generations[0]));
}

ParameterizedTest(struct generation *g, settings, generations_differ_by_what_they_can)
{
	struct se_settings s = defaults();
	char list[32], err[160];

	snprintf(list, sizeof(list), "profile=%s", g->name);
	cr_assert(zero(int, se_settings_apply(&s, list, err, sizeof(err))), "%s", err);
	cr_assert(eq(u32, s.part_id, g->part_id));
	cr_assert(eq(u32, s.caps & g->can, g->can));
	cr_assert(zero(u32, s.caps & g->cannot));
	cr_assert(eq(u32, s.inline_size_ex, g->inline_ex));
	cr_assert(ge(u32, s.max_llq_size, s.max_sq_wr * (g->inline_ex ? 128u : 64u)));
}

Test(settings, unknown_profile_is_refused_with_those_there_are)
{
	struct se_settings s = defaults(), want = defaults();
	char err[160];

	cr_assert(eq(int, se_settings_apply(&s, "profile=efa5", err, sizeof(err)), -EINVAL));
	cr_assert(zero(int, strcmp(err, "profile 'efa5' is none of: efa0 efa1 efa2 efa3 efa4")));
	cr_assert(eq(int, se_settings_apply(&s, "profile=", err, sizeof(err)), -EINVAL));
	cr_assert(same(&s, &want));
}

/* ---- faults ---- */

Test(settings, faults_add_up)
{
	struct se_settings s = defaults();
	char err[160];

	cr_assert(zero(int, se_settings_apply(&s, "fault=dead dev=1,max_qp=9,fault=rnr", err,
					      sizeof(err))));
	cr_assert(zero(int, se_settings_apply(&s, "fault=overflow", err, sizeof(err))));
	cr_assert(zero(int, strcmp(s.faults, "dead dev=1\nrnr\noverflow\n")));
	cr_assert(eq(u32, s.max_qp, 9));
}

Test(settings, bad_fault_is_refused)
{
	struct se_settings s = defaults(), want = defaults();
	char err[160];

	cr_assert(eq(int, se_settings_apply(&s, "fault=status 0", err, sizeof(err)), -EINVAL));
	cr_assert(ne(ptr, strstr(err, "1 ... 255"), NULL));
	cr_assert(eq(int, se_settings_apply(&s, "fault=", err, sizeof(err)), -EINVAL));
	cr_assert(eq(int, se_settings_apply(&s, "fault=# no", err, sizeof(err)), -EINVAL));
	cr_assert(eq(int, se_settings_apply(&s, "fault=dead\nrnr", err, sizeof(err)), -EINVAL));
	cr_assert(same(&s, &want));
}

Test(settings, faults_beyond_the_room_are_refused_and_those_before_stay)
{
	struct se_settings s = defaults();
	char err[160] = "";
	unsigned n = 0;

	while (se_settings_apply(&s, "fault=dead dev=1 ms=1000", err, sizeof(err)) == 0)
		cr_assert(lt(uint, ++n, SE_FAULTS_LEN));
	cr_assert(ne(ptr, strstr(err, "longer than 1023 bytes"), NULL), "%s", err);
	cr_assert(eq(sz, strlen(s.faults), n * strlen("dead dev=1 ms=1000\n")));
}

/* ---- domains ---- */

struct domain {
	char name[40];
	int rc;
};

static struct domain domains[] = {
	{"a", 0},
	{"A-b_c.9", 0},
	{"1234567890123456789012345678901", 0},
	{"12345678901234567890123456789012", -EINVAL},
	{"", -EINVAL},
	{".", -EINVAL},
	{"..", -EINVAL},
	{".hidden", -EINVAL},
	{"a/b", -EINVAL},
	{"a b", -EINVAL},
	{"a\nb", -EINVAL},
	{"\xc3\xa4", -EINVAL},
};

ParameterizedTestParameters(settings, domains_are_names_of_files)
{
	return cr_make_param_array(struct domain, domains, sizeof(domains) / sizeof(domains[0]));
}

ParameterizedTest(struct domain *d, settings, domains_are_names_of_files)
{
	struct se_settings s = defaults();
	char err[160];

	cr_assert(eq(int, se_settings_domain(&s, d->name, err, sizeof(err)), d->rc));
	cr_assert(zero(int, strcmp(s.domain, d->rc ? "default" : d->name)));
}

/* ---- addresses ---- */

struct address {
	char text[40];
	int rc;
	uint8_t first, last;
	uint16_t port; /* 0: that of the domain */
};

static struct address addresses[] = {
	{"10.1.2.3", 0, 10, 3, 0},
	{"10.1.2.3:1", 0, 10, 3, 1},
	{"127.0.0.9:65535", 0, 127, 9, 65535},
	{"", -EINVAL, 0, 0, 0},
	{"10.1.2", -EINVAL, 0, 0, 0},
	{"10.1.2.3:", -EINVAL, 0, 0, 0},
	{"10.1.2.3:0", -EINVAL, 0, 0, 0},
	{"10.1.2.3:65536", -EINVAL, 0, 0, 0},
	{"10.1.2.3:-1", -EINVAL, 0, 0, 0},
	{"10.1.2.3:80x", -EINVAL, 0, 0, 0},
	{"10.1.2.3.4", -EINVAL, 0, 0, 0},
	{"0.0.0.0", -EINVAL, 0, 0, 0},
	{"224.0.0.1", -EINVAL, 0, 0, 0},
	{"255.255.255.255", -EINVAL, 0, 0, 0},
	{"localhost", -EINVAL, 0, 0, 0},
	{"::1", -EINVAL, 0, 0, 0},
};

ParameterizedTestParameters(settings, addresses_are_of_one_host)
{
	return cr_make_param_array(struct address, addresses,
				   sizeof(addresses) / sizeof(addresses[0]));
}

ParameterizedTest(struct address *a, settings, addresses_are_of_one_host)
{
	struct se_settings s = defaults();
	char err[160] = "";

	cr_assert(eq(int, se_settings_address(&s, a->text, err, sizeof(err)), a->rc));
	if (a->rc) {
		cr_assert(ne(ptr, strstr(err, a->text), NULL), "'%s' says: %s", a->text, err);
		cr_assert(zero(u16, s.port));
		return;
	}
	cr_assert(eq(u8, s.address[0], a->first));
	cr_assert(eq(u8, s.address[3], a->last));
	/* Criterion's all() leaks. */
	cr_assert(ge(u16, s.port, a->port ? a->port : 20000));
	cr_assert(le(u16, s.port, a->port ? a->port : 29999));
}

/* Two domains on one host do not want the same port. */
Test(settings, port_follows_from_the_domain)
{
	struct se_settings a = defaults(), b = defaults();
	char err[160];

	cr_assert(zero(int, se_settings_domain(&b, "other", err, sizeof(err))));
	cr_assert(zero(int, se_settings_address(&a, "10.1.2.3", err, sizeof(err))));
	cr_assert(zero(int, se_settings_address(&b, "10.1.2.3", err, sizeof(err))));
	cr_assert(ne(u16, a.port, b.port));
}

/* ---- the environment ---- */

Test(settings, environment_is_read)
{
	setenv(SE_ENV_SET, "devices=7,rubbish", 1);
	setenv(SE_ENV_DOMAIN, "mine", 1);
	setenv(SE_ENV_ADDRESS, "10.1.2.3:77", 1);
	cr_assert(eq(u32, se_settings()->devices, 7));
	cr_assert(zero(int, strcmp(se_settings()->domain, "mine")));
	cr_assert(eq(u16, se_settings()->port, 77));
}

Test(settings, every_default_is_within_its_limits)
{
	char list[4096], *p = list, err[160];
	struct se_settings s = defaults(), want = defaults();

#define X(name, fmt, def, min, max, text) \
	p += snprintf(p, (size_t)(list + sizeof(list) - p), #name "=%llu,", \
		      (unsigned long long)(def));
	SE_SETTINGS(X)
#undef X
	cr_assert(zero(int, se_settings_apply(&s, list, err, sizeof(err))), "%s", err);
	cr_assert(same(&s, &want));
}
