/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A control file or a list of settings: what is taken is within its limits and means the same when
 * it is written out again; what is refused has a reason. Input: a byte (odd: settings), then text.
 */
#include "../../softefa/rule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../softefa/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool ok)
{
	if (!ok)
		abort();
}

static const struct {
	const char *name, *value;
	uint32_t min, max, keys;
} faults[] = {
#define X(id, name, value, min, max, keys, text) {name, value, min, max, keys},
	SE_FAULTS(X)
#undef X
};

static const struct {
	const char *name;
	uint32_t min, max;
} keys[] = {
#define X(name, min, max, text) {#name, min, max},
	SE_RULE_KEYS(X)
#undef X
};

static const char *word(const char *words, uint32_t n, char *out)
{
	while (n--)
		words = strchr(words, ' ') + 1;
	sprintf(out, "%.*s", (int)strcspn(words, " "), words);
	return out;
}

static void write_key(char *text, unsigned k, uint32_t value)
{
	char w[16];

	if (k == SE_KEY_op)
		sprintf(text, " op=%s", word("send read write", value, w));
	else if (k == SE_KEY_p)
		sprintf(text, " p=%u.%06u", value / 1000000, value % 1000000);
	else
		sprintf(text, " %s=%u", keys[k].name, value);
}

static void write_rule(const struct se_rule *r, char *text)
{
	const char *value = faults[r->fault].value;
	char w[16];

	strcpy(text, faults[r->fault].name);
	if (strchr(value, ' '))
		sprintf(text + strlen(text), " %s", word(value, r->value, w));
	else if (*value)
		sprintf(text + strlen(text), " %u", r->value);
	for (unsigned k = 0; k < SE_RULE_NKEYS; k++)
		if (se_rule_has(r, k))
			write_key(text + strlen(text), k, r->key[k]);
}

static void check_rule(const struct se_rule *r)
{
	char text[512], err[160];
	struct se_rule again;

	need(r->fault < SE_FAULT_KINDS && !(r->has & ~faults[r->fault].keys));
	need(r->value >= faults[r->fault].min && r->value <= faults[r->fault].max);
	for (unsigned k = 0; k < SE_RULE_NKEYS; k++)
		need(se_rule_has(r, k) ? r->key[k] >= keys[k].min && r->key[k] <= keys[k].max
				       : r->key[k] == 0);
	write_rule(r, text);
	need(se_rule_parse(&again, text, strlen(text), err, sizeof(err)) == 1);
	need(memcmp(r, &again, sizeof(again)) == 0);
}

/* Exactly @len bytes are looked at: no more are there. */
static void line(const char *text, size_t len)
{
	char *exact = malloc(len + !len), err[160] = "";
	struct se_rule r;
	int rc;

	need(exact != NULL);
	memcpy(exact, text, len);
	rc = se_rule_parse(&r, exact, len, err, sizeof(err));
	need(rc == 1 || rc == 0 || (rc < 0 && *err));
	if (rc == 1)
		check_rule(&r);
	free(exact);
}

static void settings(const char *text)
{
	struct se_settings s;
	char err[64] = "";

	se_settings_default(&s);
	need(se_settings_apply(&s, text, err, sizeof(err)) == 0 || *err);
	need(strlen(s.faults) < sizeof(s.faults) && strcmp(s.domain, "default") == 0);
#define X(name, fmt, def, min, max, about) need(s.name >= (min) && s.name <= (max));
	SE_SETTINGS(X)
#undef X
	for (const char *at = s.faults; *at; at += strcspn(at, "\n") + 1)
		line(at, strcspn(at, "\n"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (size == 0)
		return 0;
	text = calloc(1, size);
	need(text != NULL);
	memcpy(text, data + 1, size - 1);
	if (data[0] & 1) {
		settings(text);
	} else {
		for (const char *at = text; *at; at += strcspn(at, "\n"), at += *at == '\n')
			line(at, strcspn(at, "\n"));
	}
	free(text);
	return 0;
}
