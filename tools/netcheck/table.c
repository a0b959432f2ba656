/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of all checks. */
#include "table.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "host/log.h"

static const struct check *const files[] = {load_checks, props_checks,   conn_checks,  reg_checks,
					    data_checks, request_checks, wait_checks,  group_checks,
					    loop_checks, scale_checks,   close_checks, fail_checks};

#define FILES (sizeof(files) / sizeof(files[0]))

/* @name is @len bytes, of any case. */
static bool is_named(const struct check *c, const char *name, size_t len)
{
	return (strlen(c->id) == len && !strncasecmp(c->id, name, len)) ||
	       (strlen(c->group) == len && !strncasecmp(c->group, name, len));
}

static bool is_chosen(const struct check *c, const char *names)
{
	for (const char *at = names; at && *at;) {
		size_t len = strcspn(at, ",");

		if (is_named(c, at, len))
			return true;
		at += len + (at[len] == ',');
	}
	return !names;
}

static int names_check(const char *names)
{
	for (const char *at = names; at && *at;) {
		size_t len = strcspn(at, ",");
		bool found = false;

		for (size_t f = 0; f < FILES; f++) {
			for (const struct check *c = files[f]; c->id; c++)
				found |= is_named(c, at, len);
		}
		if (!found) {
			host_err("--check %.*s: no such check or group; --list has all", (int)len,
				 at);
			return -EINVAL;
		}
		at += len + (at[len] == ',');
	}
	return 0;
}

/* Keeps the list in order. */
static void insert(const struct check *c, const struct check *chosen[], int n)
{
	assert(n < NK_MAX_CHECKS);
	for (; n && strcmp(chosen[n - 1]->id, c->id) > 0; n--)
		chosen[n] = chosen[n - 1];
	chosen[n] = c;
}

int nk_table_select(const char *names, const struct check *chosen[NK_MAX_CHECKS])
{
	int n = 0;

	if (names_check(names))
		return -EINVAL;
	for (size_t f = 0; f < FILES; f++) {
		for (const struct check *c = files[f]; c->id; c++) {
			if (is_chosen(c, names))
				insert(c, chosen, n++);
		}
	}
	if (!n)
		host_err("--check %s: names no check; --list has all", names);
	return n ? n : -EINVAL;
}

void nk_table_print(const struct check *const chosen[], int n)
{
	for (int i = 0; i < n; i++)
		printf("%s  %-6s  %s\n", chosen[i]->id, chosen[i]->group, chosen[i]->title);
}
