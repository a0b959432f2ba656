/* SPDX-License-Identifier: BSD-3-Clause */
/* Environment parameters: what is taken, what is refused, what is said about it. */
#include "srd_env.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

#include "srd.h"

struct settings {
	int64_t num, mode;
	char path[8];
};

static const struct srd_env table[] = {
	{"T_NUM", SRD_ENV_INT, offsetof(struct settings, num), .def = "5", .min = -2, .max = 100,
	 .text = "a number"},
	{"T_MODE", SRD_ENV_CHOICE, offsetof(struct settings, mode), .def = "auto",
	 .choices = "off|on|auto", .text = "a word"},
	{"T_PATH", SRD_ENV_STRING, offsetof(struct settings, path), .def = "none",
	 .max = sizeof(((struct settings *)0)->path), .text = "a string"},
};

static char logged[1024];
static int lines;

static void collect(void *arg, enum srd_log_level level, const char *line)
{
	(void)arg;
	cr_assert(eq(int, level, SRD_LOG_WARN));
	lines++;
	strncat(logged, line, sizeof(logged) - strlen(logged) - 1);
}

static struct settings load(void)
{
	struct settings s;

	memset(&s, 0xff, sizeof(s));
	srd_log_to(collect, NULL);
	srd_env_load(&s, table, 3);
	return s;
}

Test(env, unset_means_the_default)
{
	struct settings s = load();

	cr_assert(eq(i64, s.num, 5));
	cr_assert(eq(i64, s.mode, 2));
	cr_assert(zero(int, strcmp(s.path, "none")));
	cr_assert(zero(int, lines));
}

struct number {
	char text[16];
	int64_t value;
};

static struct number numbers[] = {{"0", 0},     {"-2", -2},   {"100", 100},
				  {"0x1f", 31}, {"0X10", 16}, {"007", 7}};

ParameterizedTestParameters(env, whole_numbers_in_range_are_taken)
{
	return cr_make_param_array(struct number, numbers, sizeof(numbers) / sizeof(numbers[0]));
}

ParameterizedTest(struct number *p, env, whole_numbers_in_range_are_taken)
{
	setenv("T_NUM", p->text, 1);
	cr_assert(eq(i64, load().num, p->value));
	cr_assert(zero(int, lines));
}

static struct number bad_numbers[] = {
	{"", 0},    {" 7", 0},  {"7 ", 0},  {"12abc", 0},  {"abc", 0},
	{"+5", 0},  {"1e1", 0}, {"0x", 0},  {"--2", 0},    {"-", 0},
	{"101", 0}, {"-3", 0},  {"5.0", 0}, {"0xffff", 0}, {"99999999999999", 0},
};

ParameterizedTestParameters(env, other_numbers_are_one_warning_and_the_default)
{
	return cr_make_param_array(struct number, bad_numbers,
				   sizeof(bad_numbers) / sizeof(bad_numbers[0]));
}

ParameterizedTest(struct number *p, env, other_numbers_are_one_warning_and_the_default)
{
	setenv("T_NUM", p->text, 1);
	cr_assert(eq(i64, load().num, 5), "'%s'", p->text);
	cr_assert(eq(int, lines, 1), "'%s'", p->text);
	cr_assert(ne(ptr, strstr(logged, p->text), NULL));
	cr_assert(ne(ptr, strstr(logged, "-2 ... 100"), NULL));
	cr_assert(ne(ptr, strstr(logged, "using 5"), NULL));
}

Test(env, number_above_64_bits_is_refused)
{
	setenv("T_NUM", "99999999999999999999999999", 1);
	cr_assert(eq(i64, load().num, 5));
	cr_assert(eq(int, lines, 1));
}

Test(env, word_of_the_list_is_its_index)
{
	setenv("T_MODE", "on", 1);
	cr_assert(eq(i64, load().mode, 1));
}

static struct number bad_words[] = {{"", 0},    {"o", 0}, {"ON", 0},   {"on|auto", 0},
				    {"onn", 0}, {"|", 0}, {"auto ", 0}};

ParameterizedTestParameters(env, other_words_are_one_warning_and_the_default)
{
	return cr_make_param_array(struct number, bad_words,
				   sizeof(bad_words) / sizeof(bad_words[0]));
}

ParameterizedTest(struct number *p, env, other_words_are_one_warning_and_the_default)
{
	setenv("T_MODE", p->text, 1);
	cr_assert(eq(i64, load().mode, 2), "'%s'", p->text);
	cr_assert(eq(int, lines, 1));
	cr_assert(ne(ptr, strstr(logged, "off|on|auto"), NULL));
}

Test(env, string_that_fits_is_taken)
{
	struct settings s;

	setenv("T_PATH", "1234567", 1);
	s = load();
	cr_assert(zero(int, strcmp(s.path, "1234567")));
	cr_assert(zero(int, lines));
}

Test(env, empty_string_is_a_string)
{
	struct settings s;

	setenv("T_PATH", "", 1);
	s = load();
	cr_assert(zero(int, strcmp(s.path, "")));
}

Test(env, string_too_long_is_one_warning_and_the_default)
{
	struct settings s;

	setenv("T_PATH", "12345678", 1);
	s = load();
	cr_assert(zero(int, strcmp(s.path, "none")));
	cr_assert(eq(int, lines, 1));
	cr_assert(ne(ptr, strstr(logged, "at most 7 bytes"), NULL));
}

Test(env, core_lists_its_own_parameters)
{
	const struct srd_env *env;
	bool log_found = false;
	size_t n;

	env = srd_env_core(&n);
	for (size_t i = 0; i < n; i++) {
		cr_assert(zero(int, strncmp(env[i].name, "SRD_", 4)));
		cr_assert(gt(sz, strlen(env[i].text), 0));
		log_found |= strcmp(env[i].name, "SRD_LOG") == 0;
	}
	cr_assert(log_found);
}
