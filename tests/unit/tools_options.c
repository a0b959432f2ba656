/* SPDX-License-Identifier: BSD-3-Clause */
/* Command lines: what any tool's options have in common. */
#include "common/options.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "common/parse.h"

struct settings {
	const char *name;
	uint64_t count, size;
	bool on, off;
};

#define AT(field) offsetof(struct settings, field)

static const struct option_row rows[] = {
	{"name", 'n', OPTION_STRING, "NAME", AT(name), 0, 0, "nobody", ""},
	{"count", 0, OPTION_NUMBER, "N", AT(count), 2, 9, "3", ""},
	{"size", 's', OPTION_SIZE, "BYTES", AT(size), 0, 1 << 20, NULL, ""},
	{"on", 'o', OPTION_ON, NULL, AT(on), 0, 0, NULL, ""},
	{"no-off", 'f', OPTION_OFF, NULL, AT(off), 0, 0, NULL, ""},
	{"help", 'h', OPTION_HELP, NULL, 0, 0, 0, NULL, ""},
};

static struct settings got;

/* @line is cut at its blanks. */
static int parse(const char *line)
{
	static const struct options options = {
		.rows = rows,
		.count = sizeof(rows) / sizeof(rows[0]),
		.operands = 1,
		.intro = "",
		.notes = "",
	};
	static char text[128], name[] = "test";
	char *argv[16] = {name};
	int argc = 1;

	strcpy(text, line);
	for (char *at = strtok(text, " "); at; at = strtok(NULL, " "))
		argv[argc++] = at;
	got = (struct settings){.off = true, .size = 77};
	optind = 0;
	return options_parse(&options, &got, argc, argv);
}

Test(options, presets_hold_where_nothing_is_said)
{
	cr_assert_eq(parse(""), 0);
	cr_assert_str_eq(got.name, "nobody");
	cr_assert(got.count == 3 && got.size == 77 && !got.on && got.off);
}

Test(options, long_and_short_forms_are_the_same)
{
	cr_assert_eq(parse("--name=x --size 4K --on --no-off"), 0);
	cr_assert_str_eq(got.name, "x");
	cr_assert(got.size == 4096 && got.on && !got.off);
	cr_assert_eq(parse("-nx -s 4k -of"), 0);
	cr_assert_str_eq(got.name, "x");
	cr_assert(got.size == 4096 && got.on && !got.off);
}

Test(options, operands_may_stand_before_and_behind)
{
	cr_assert_eq(parse("host --count 4"), 0);
	cr_assert_eq(got.count, 4);
	cr_assert_eq(parse("--count 4 -- -host"), 0);
	cr_assert_eq(parse("host more"), -EINVAL);
}

Test(options, what_is_not_understood_is_refused)
{
	static const char *const lines[] = {"--nome x",  "-x",         "-ox",        "--count",
					    "--count 1", "--count 10", "--count 4K", "--count -4",
					    "--size 2M", "--size 1T",  "--on=1",     "-s"};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		cr_assert_eq(parse(lines[i]), -EINVAL, "%s", lines[i]);
	cr_assert_eq(parse("--help"), 1);
}

Test(parse, numbers_are_digits_and_nothing_else)
{
	uint64_t v;

	cr_assert(!parse_number("18446744073709551615", &v) && v == UINT64_MAX);
	cr_assert_eq(parse_number("18446744073709551616", &v), -ERANGE);
	cr_assert(!parse_number("010", &v) && v == 10);
	cr_assert_eq(parse_number("", &v), -EINVAL);
	cr_assert_eq(parse_number(" 1", &v), -EINVAL);
	cr_assert_eq(parse_number("+1", &v), -EINVAL);
	cr_assert_eq(parse_number("1 ", &v), -EINVAL);
	cr_assert_eq(parse_number("0x10", &v), -EINVAL);
}

Test(parse, sizes_may_have_a_unit)
{
	uint64_t v;

	cr_assert(!parse_size("3", &v) && v == 3);
	cr_assert(!parse_size("3k", &v) && v == 3072);
	cr_assert(!parse_size("3M", &v) && v == 3 << 20);
	cr_assert(!parse_size("17179869183G", &v) && v == UINT64_C(17179869183) << 30);
	cr_assert_eq(parse_size("17179869184G", &v), -ERANGE);
	cr_assert_eq(parse_size("3KB", &v), -EINVAL);
	cr_assert_eq(parse_size("K", &v), -EINVAL);
	cr_assert_eq(parse_size("3T", &v), -EINVAL);
}
