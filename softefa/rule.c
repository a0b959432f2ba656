/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading and printing fault rules. */
#include "rule.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "parse.h"

static const struct fault {
	const char *name, *value;
	uint32_t min, max, keys;
	const char *text;
} faults[] = {
#define X(id, name, value, min, max, keys, text) {name, value, min, max, keys, text},
	SE_FAULTS(X)
#undef X
};

static const struct key {
	const char *name;
	uint32_t min, max;
	const char *text;
} keys[] = {
#define X(name, min, max, text) {#name, min, max, text},
	SE_RULE_KEYS(X)
#undef X
};

#define OPS "send read write"

struct word {
	const char *at;
	size_t len;
};

/* The next word of [*@at, @end); its length is 0 when there is none. */
static struct word next_word(const char **at, const char *end)
{
	struct word w;

	while (*at < end && isspace((unsigned char)**at))
		++*at;
	w.at = *at;
	while (*at < end && !isspace((unsigned char)**at))
		++*at;
	w.len = (size_t)(*at - w.at);
	return w;
}

/* In a message: what is cut off is not worth a line. */
static int show(struct word w)
{
	return w.len < 40 ? (int)w.len : 40;
}

static bool is_words(const struct fault *f)
{
	return strchr(f->value, ' ') != NULL;
}

static int parse_value(struct se_rule *r, struct word w, char *err, size_t errlen)
{
	const struct fault *f = &faults[r->fault];
	int i;

	if (is_words(f)) {
		i = se_parse_word(w.at, w.len, f->value);
		if (i >= 0) {
			r->value = (uint32_t)i;
			return 0;
		}
		snprintf(err, errlen, "%s '%.*s' is none of: %s", f->name, show(w), w.at, f->value);
		return -EINVAL;
	}
	if (se_parse_u32(w.at, w.len, f->min, f->max, &r->value))
		return 0;
	snprintf(err, errlen, "%s '%.*s': %s is not a number in %u ... %u", f->name, show(w), w.at,
		 f->value, f->min, f->max);
	return -EINVAL;
}

static int parse_key_value(struct se_rule *r, enum se_rule_key k, struct word v, char *err,
			   size_t errlen)
{
	uint32_t *out = &r->key[k];
	int i;

	if (k == SE_KEY_p) {
		if (se_parse_ppm(v.at, v.len, out))
			return 0;
		snprintf(err, errlen, "p=%.*s is not a number in 0 ... 1", show(v), v.at);
		return -EINVAL;
	}
	if (k == SE_KEY_op) {
		i = se_parse_word(v.at, v.len, OPS);
		*out = (uint32_t)i;
		if (i >= 0)
			return 0;
		snprintf(err, errlen, "op=%.*s is none of: " OPS, show(v), v.at);
		return -EINVAL;
	}
	if (se_parse_u32(v.at, v.len, keys[k].min, keys[k].max, out))
		return 0;
	snprintf(err, errlen, "%s=%.*s is not a number in %u ... %u", keys[k].name, show(v), v.at,
		 keys[k].min, keys[k].max);
	return -EINVAL;
}

static int parse_key(struct se_rule *r, struct word w, char *err, size_t errlen)
{
	const struct fault *f = &faults[r->fault];
	const char *eq = memchr(w.at, '=', w.len);
	size_t len = eq ? (size_t)(eq - w.at) : 0;
	unsigned k = 0;

	if (!eq) {
		snprintf(err, errlen, "%s: '%.*s' is not KEY=VALUE", f->name, show(w), w.at);
		return -EINVAL;
	}
	while (k < SE_RULE_NKEYS && !se_parse_is(w.at, len, keys[k].name))
		k++;
	if (k == SE_RULE_NKEYS || !(f->keys >> k & 1)) {
		snprintf(err, errlen, "%s has no key '%.*s'", f->name,
			 show((struct word){w.at, len}), w.at);
		return -EINVAL;
	}
	if (se_rule_has(r, k)) {
		snprintf(err, errlen, "%s: %s is there twice", f->name, keys[k].name);
		return -EINVAL;
	}
	r->has |= 1u << k;
	return parse_key_value(r, k, (struct word){eq + 1, w.len - len - 1}, err, errlen);
}

static int parse_fault(struct se_rule *r, struct word w, char *err, size_t errlen)
{
	for (r->fault = 0; r->fault < SE_FAULT_KINDS; r->fault++)
		if (se_parse_is(w.at, w.len, faults[r->fault].name))
			return 0;
	snprintf(err, errlen, "there is no fault '%.*s'", show(w), w.at);
	return -EINVAL;
}

int se_rule_parse(struct se_rule *r, const char *text, size_t len, char *err, size_t errlen)
{
	const char *end = text + len;
	struct word w = next_word(&text, end);
	int rc;

	memset(r, 0, sizeof(*r));
	if (!w.len || w.at[0] == '#')
		return 0;
	rc = parse_fault(r, w, err, errlen);
	if (!rc && *faults[r->fault].value)
		rc = parse_value(r, next_word(&text, end), err, errlen);
	while (!rc) {
		w = next_word(&text, end);
		if (!w.len)
			return 1;
		rc = parse_key(r, w, err, errlen);
	}
	return rc;
}

/* ---- help ---- */

static void print_fault(FILE *out, const struct fault *f)
{
	char head[64], limits[48] = "";
	bool words = is_words(f);

	snprintf(head, sizeof(head), "%s %s", f->name, words ? "WHAT" : f->value);
	if (*f->value && !words)
		snprintf(limits, sizeof(limits), "%u ... %u", f->min, f->max);
	fprintf(out, "  %-18s  %-15s  %s\n", head, words ? f->value : limits, f->text);
	fprintf(out, "  %-18s  %-15s   ", "", "");
	for (unsigned k = 0; k < SE_RULE_NKEYS; k++)
		if (f->keys >> k & 1)
			fprintf(out, " %s", keys[k].name);
	fputc('\n', out);
}

void se_rule_print(FILE *out)
{
	fprintf(out, "  %-18s  %-15s  %s\n", "FAULT", "range", "what happens, and the keys");
	for (unsigned i = 0; i < SE_FAULT_KINDS; i++)
		print_fault(out, &faults[i]);
	fprintf(out, "\n  %-18s  %-15s  %s\n", "KEY=", "range", "meaning");
	for (unsigned k = 0; k < SE_RULE_NKEYS; k++) {
		char range[48];

		if (k == SE_KEY_p)
			snprintf(range, sizeof(range), "0 ... 1");
		else if (k == SE_KEY_op)
			snprintf(range, sizeof(range), OPS);
		else
			snprintf(range, sizeof(range), "%u ... %u", keys[k].min, keys[k].max);
		fprintf(out, "  %-18s  %-15s  %s\n", keys[k].name, range, keys[k].text);
	}
}
