/* SPDX-License-Identifier: BSD-3-Clause */
/* A command line, from one table; --help prints the same table. */
#ifndef COMMON_OPTIONS_H
#define COMMON_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

enum option_kind {
	OPTION_STRING, /* const char *, which points into argv */
	OPTION_NUMBER, /* uint64_t, decimal */
	OPTION_SIZE,   /* uint64_t, bytes, as parse_size() takes them */
	OPTION_ON,     /* bool, no value */
	OPTION_OFF,
	OPTION_HELP,
};

struct option_row {
	const char *name;
	char letter; /* of the short form; 0: none */
	enum option_kind kind;
	const char *value;  /* what stands for the value in --help */
	size_t at;          /* offset in the settings */
	uint64_t min, max;  /* of numbers and sizes */
	const char *preset; /* NULL: the field is left as it is */
	const char *text;
};

struct options {
	const struct option_row *rows;
	int count;
	int operands;              /* at most, behind the options */
	const char *intro, *notes; /* of --help, before and behind the table */
};

/*
 * Presets, then what @argv says, into @settings; operands are argv[optind] and on. 0: go on. 1:
 * nothing to do, --help was printed. -EINVAL: said on stderr what is wrong.
 */
int options_parse(const struct options *o, void *settings, int argc, char **argv);

#endif
