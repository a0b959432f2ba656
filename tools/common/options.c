/* SPDX-License-Identifier: BSD-3-Clause */
/* A command line, from one table. */
#include "options.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "parse.h"
#include "say.h"

enum { MAX_ROWS = 32 };

#define GIB (UINT64_C(1) << 30)

static void help_row(const struct option_row *r, int width)
{
	char left[40], limits[64] = "", letter[8] = "";

	if (r->letter)
		snprintf(letter, sizeof(letter), "-%c, ", r->letter);
	snprintf(left, sizeof(left), "%s--%s %s", letter, r->name, r->value ? r->value : "");
	if (r->kind == OPTION_NUMBER)
		snprintf(limits, sizeof(limits), " [%" PRIu64 "..%" PRIu64 "]", r->min, r->max);
	else if (r->kind == OPTION_SIZE)
		snprintf(limits, sizeof(limits), " [%" PRIu64 "..%" PRIu64 "G]", r->min,
			 r->max / GIB);
	printf("  %-*s %s%s", width, left, r->text, limits);
	if (r->preset)
		printf(" (default %s)", r->preset);
	putchar('\n');
}

static void help(const struct options *o)
{
	int width = 16;

	for (int i = 0; i < o->count; i++)
		width = o->rows[i].letter ? 20 : width;
	fputs(o->intro, stdout);
	for (int i = 0; i < o->count; i++)
		help_row(&o->rows[i], width);
	fputs(o->notes, stdout);
}

static int set_number(const struct option_row *r, const char *text, uint64_t *value)
{
	bool size = r->kind == OPTION_SIZE;
	int rc = size ? parse_size(text, value) : parse_number(text, value);

	if (rc == -EINVAL) {
		say("--%s %s: not a %s", r->name, text,
		    size ? "size like 8, 64K, 1M or 2G" : "number");
		return -EINVAL;
	}
	if (rc || *value < r->min || *value > r->max) {
		say("--%s %s: must be %" PRIu64 " to %" PRIu64, r->name, text, r->min, r->max);
		return -EINVAL;
	}
	return 0;
}

static int set(const struct option_row *r, void *settings, const char *text)
{
	char *field = (char *)settings + r->at;
	uint64_t value;

	switch (r->kind) {
	case OPTION_STRING:
		memcpy(field, &text, sizeof(text));
		return 0;
	case OPTION_ON:
	case OPTION_OFF:
		*(bool *)field = r->kind == OPTION_ON;
		return 0;
	default:
		break;
	}
	if (set_number(r, text, &value))
		return -EINVAL;
	memcpy(field, &value, sizeof(value));
	return 0;
}

/* False: that was all. Else the row of the next option, NULL if there is none for it. */
static bool next(const struct options *o, int argc, char **argv, const struct option_row **row)
{
	struct option longs[MAX_ROWS + 1] = {{0}};
	char shorts[2 * MAX_ROWS + 1] = "";
	size_t n = 0;
	int at, c;

	assert(o->count <= MAX_ROWS);
	for (int i = 0; i < o->count; i++) {
		const struct option_row *r = &o->rows[i];

		longs[i].name = r->name;
		longs[i].has_arg = r->value ? required_argument : no_argument;
		if (r->letter)
			shorts[n++] = r->letter;
		if (r->letter && r->value)
			shorts[n++] = ':';
	}
	c = getopt_long(argc, argv, shorts, longs, &at);
	*row = c == 0 ? &o->rows[at] : NULL;
	for (int i = 0; c > 0 && i < o->count; i++) {
		if (o->rows[i].letter == c)
			*row = &o->rows[i];
	}
	return c != -1;
}

static int operands(const struct options *o, int argc, char **argv)
{
	if (argc - optind <= o->operands)
		return 0;
	say("%s: what is that? Values belong to options; --help lists them",
	    argv[optind + o->operands]);
	return -EINVAL;
}

int options_parse(const struct options *o, void *settings, int argc, char **argv)
{
	const struct option_row *r;

	for (int i = 0; i < o->count; i++) {
		if (o->rows[i].preset)
			set(&o->rows[i], settings, o->rows[i].preset);
	}
	opterr = 0;
	while (next(o, argc, argv, &r)) {
		if (!r) {
			say("%s: unknown option or value missing; --help lists them",
			    argv[optind - 1]);
			return -EINVAL;
		}
		if (r->kind == OPTION_HELP) {
			help(o);
			return 1;
		}
		if (set(r, settings, optarg))
			return -EINVAL;
	}
	return operands(o, argc, argv);
}
