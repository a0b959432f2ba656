/* SPDX-License-Identifier: BSD-3-Clause */
/* Fault rules: what is taken, and what is refused with which words. */
#include "../../softefa/rule.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static int parse(struct se_rule *r, const char *text, char *err, size_t errlen)
{
	return se_rule_parse(r, text, strlen(text), err, errlen);
}

static struct se_rule good(const char *text)
{
	struct se_rule r;
	char err[160] = "";

	cr_assert(eq(int, parse(&r, text, err, sizeof(err)), 1), "%s", err);
	return r;
}

Test(rule, names_its_fault_and_value)
{
	struct se_rule r = good("status 13");

	cr_assert(eq(int, (int)r.fault, SE_FAULT_STATUS));
	cr_assert(eq(u32, r.value, 13));
	cr_assert(zero(u32, r.has));
	r = good("die_placing 0x10000");
	cr_assert(eq(int, (int)r.fault, SE_FAULT_DIE_PLACING));
	cr_assert(eq(u32, r.value, 65536));
	cr_assert(eq(int, (int)good("dead").fault, SE_FAULT_DEAD));
}

Test(rule, has_the_keys_that_are_there)
{
	struct se_rule r = good("delay 50 op=read jitter=7 dev=3 nth=4294967295 qpn=65535 ms=1");

	cr_assert(eq(u32, r.key[SE_KEY_op], 1));
	cr_assert(eq(u32, r.key[SE_KEY_jitter], 7));
	cr_assert(eq(u32, r.key[SE_KEY_dev], 3));
	cr_assert(eq(u32, r.key[SE_KEY_nth], UINT32_MAX));
	cr_assert(eq(u32, r.key[SE_KEY_qpn], 65535));
	cr_assert(eq(u32, r.key[SE_KEY_ms], 1));
	cr_assert(se_rule_has(&r, SE_KEY_dev));
	cr_assert(not(se_rule_has(&r, SE_KEY_times)));
}

Test(rule, words_stand_for_their_place)
{
	cr_assert(zero(u32, good("refuse pd").value));
	cr_assert(eq(u32, good("refuse qp").value, 4));
	cr_assert(zero(u32, good("status 1 op=send").key[SE_KEY_op]));
	cr_assert(eq(u32, good("status 1 op=write").key[SE_KEY_op], 2));
}

/* Text and millionths. */
struct probability {
	char text[16];
	uint32_t ppm;
};

static struct probability probabilities[] = {
	{"0", 0},
	{"1", 1000000},
	{"0.5", 500000},
	{"0.000001", 1},
	{"1.000000", 1000000},
	{"0.25", 250000},
	{"0.100000", 100000},
};

ParameterizedTestParameters(rule, probabilities_are_fractions)
{
	return cr_make_param_array(struct probability, probabilities,
				   sizeof(probabilities) / sizeof(probabilities[0]));
}

ParameterizedTest(struct probability *p, rule, probabilities_are_fractions)
{
	char text[64];

	snprintf(text, sizeof(text), "twice p=%s", p->text);
	cr_assert(eq(u32, good(text).key[SE_KEY_p], p->ppm));
}

Test(rule, blanks_between_words_do_not_matter)
{
	struct se_rule a = good("status 13 nth=3"), b = good("  status\t13   nth=3\r ");

	cr_assert(zero(int, memcmp(&a, &b, sizeof(a))));
}

Test(rule, comments_and_empty_lines_are_none)
{
	static const char *const none[] = {"", " ", "\t", "# status 13", "  #", "#status"};
	struct se_rule r;
	char err[160];

	for (unsigned i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		cr_assert(zero(int, parse(&r, none[i], err, sizeof(err))), "'%s'", none[i]);
}

struct bad {
	char text[80], says[64];
};

static struct bad bads[] = {
	{"stat 13", "no fault 'stat'"},
	{"STATUS 13", "no fault 'STATUS'"},
	{"status", "status '': CODE is not a number in 1 ... 255"},
	{"status 0", "status '0': CODE is not a number in 1 ... 255"},
	{"status 256", "'256': CODE is not a number in 1 ... 255"},
	{"status -1", "'-1': CODE is not a number in 1 ... 255"},
	{"status 13x", "'13x': CODE is not a number in 1 ... 255"},
	{"status nth=3", "'nth=3': CODE is not a number"},
	{"status 13 14", "status: '14' is not KEY=VALUE"},
	{"status 13 nth", "status: 'nth' is not KEY=VALUE"},
	{"status 13 nth=", "nth= is not a number in 1 ... 4294967295"},
	{"status 13 nth=0", "nth=0 is not a number in 1 ... 4294967295"},
	{"status 13 nth=4294967296", "nth=4294967296 is not a number"},
	{"status 13 nth=3=4", "nth=3=4 is not a number"},
	{"status 13 =3", "status has no key ''"},
	{"status 13 jitter=3", "status has no key 'jitter'"},
	{"status 13 when=3", "status has no key 'when'"},
	{"status 13 nth=3 nth=4", "status: nth is there twice"},
	{"status 13 dev=64", "dev=64 is not a number in 0 ... 63"},
	{"status 13 qpn=65536", "qpn=65536 is not a number in 0 ... 65535"},
	{"status 13 op=recv", "op=recv is none of: send read write"},
	{"status 13 op=", "op= is none of: send read write"},
	{"status 13 p=2", "p=2 is not a number in 0 ... 1"},
	{"status 13 p=1.1", "p=1.1 is not a number in 0 ... 1"},
	{"status 13 p=1.000001", "p=1.000001 is not a number in 0 ... 1"},
	{"status 13 p=.5", "p=.5 is not a number in 0 ... 1"},
	{"status 13 p=0.", "p=0. is not a number in 0 ... 1"},
	{"status 13 p=0.1234567", "p=0.1234567 is not a number in 0 ... 1"},
	{"status 13 p=0.5x", "p=0.5x is not a number in 0 ... 1"},
	{"status 13 p=", "p= is not a number in 0 ... 1"},
	{"dead 3", "dead: '3' is not KEY=VALUE"},
	{"dead nth=3", "dead has no key 'nth'"},
	{"rate 0", "'0': MBPS is not a number in 1 ... 1000000"},
	{"refuse", "refuse '' is none of: pd mr ah cq qp"},
	{"refuse srq", "refuse 'srq' is none of: pd mr ah cq qp"},
	{"refuse mr error=0", "error=0 is not a number in 1 ... 133"},
	{"refuse mr qpn=3", "refuse has no key 'qpn'"},
};

ParameterizedTestParameters(rule, nonsense_is_refused_with_a_reason)
{
	return cr_make_param_array(struct bad, bads, sizeof(bads) / sizeof(bads[0]));
}

ParameterizedTest(struct bad *b, rule, nonsense_is_refused_with_a_reason)
{
	struct se_rule r;
	char err[160] = "";

	cr_assert(eq(int, parse(&r, b->text, err, sizeof(err)), -EINVAL), "'%s'", b->text);
	cr_assert(ne(ptr, strstr(err, b->says), NULL), "'%s' says: %s", b->text, err);
}

/* All of the grammar's words can be used. */
Test(rule, every_fault_takes_its_least_and_greatest_value)
{
	char text[64], err[160];
	struct se_rule r;

#define X(id, name, arg, min, max, keys, about) \
	if (strlen(arg) && !strchr(arg, ' ')) { \
		snprintf(text, sizeof(text), "%s %u", name, (unsigned)(min)); \
		cr_assert(eq(int, parse(&r, text, err, sizeof(err)), 1), "%s: %s", text, err); \
		snprintf(text, sizeof(text), "%s %u", name, (unsigned)(max)); \
		cr_assert(eq(int, parse(&r, text, err, sizeof(err)), 1), "%s: %s", text, err); \
		cr_assert(eq(u32, r.value, (unsigned)(max))); \
		cr_assert(eq(int, (int)r.fault, SE_FAULT_##id)); \
	}
	SE_FAULTS(X)
#undef X
}

Test(rule, help_has_every_fault_and_its_words_in_full)
{
	static const char *const shown[][2] = {
#define X(id, name, value, ...) {name, value},
		SE_FAULTS(X)
#undef X
	};
	char help[8192] = "";
	FILE *out = fmemopen(help, sizeof(help), "w");

	cr_assert(ne(ptr, out, NULL));
	se_rule_print(out);
	cr_assert(zero(int, fclose(out)));
	for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
		cr_assert(ne(ptr, strstr(help, shown[i][0]), NULL), "no %s", shown[i][0]);
		cr_assert(ne(ptr, strstr(help, shown[i][1]), NULL), "no %s", shown[i][1]);
	}
}
