/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings: parsing, checking and printing the table. */
#include "settings.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "parse.h"
#include "profile.h"
#include "rule.h"

#define PORT_FIRST 20000 /* below what Linux gives to connections */
#define PORTS      10000

static const struct setting {
	const char *name;
	size_t off;
	char base; /* u or x */
	uint32_t def, min, max;
	const char *text;
} table[] = {
#define X(name, fmt, def, min, max, text) \
	{#name, offsetof(struct se_settings, name), #fmt[0], def, min, max, text},
	SE_SETTINGS(X)
#undef X
};

#define NSETTINGS (sizeof(table) / sizeof(table[0]))

static uint32_t *value_of(struct se_settings *s, const struct setting *t)
{
	return (uint32_t *)((char *)s + t->off);
}

void se_settings_default(struct se_settings *s)
{
	memset(s, 0, sizeof(*s));
	for (size_t i = 0; i < NSETTINGS; i++)
		*value_of(s, &table[i]) = table[i].def;
	strcpy(s->domain, "default");
	memcpy(s->address, (uint8_t[]){127, 0, 0, 1}, sizeof(s->address));
}

static const struct setting *find(const char *name, size_t len)
{
	for (size_t i = 0; i < NSETTINGS; i++)
		if (se_parse_is(name, len, table[i].name))
			return &table[i];
	return NULL;
}

/* Part of a list: KEY=VALUE. */
struct part {
	const char *key, *value;
	size_t key_len, value_len;
};

static int split(struct part *p, const char *text, size_t len, char *err, size_t errlen)
{
	const char *eq = memchr(text, '=', len);

	if (!eq) {
		snprintf(err, errlen, "'%.*s' is not KEY=VALUE", (int)len, text);
		return -EINVAL;
	}
	p->key = text;
	p->key_len = (size_t)(eq - text);
	p->value = eq + 1;
	p->value_len = len - p->key_len - 1;
	return 0;
}

static int add_fault(struct se_settings *s, const struct part *p, char *err, size_t errlen)
{
	size_t have = strlen(s->faults);
	struct se_rule rule;
	int rc = se_rule_parse(&rule, p->value, p->value_len, err, errlen);

	if (rc < 0)
		return rc;
	if (rc == 0 || memchr(p->value, '\n', p->value_len)) {
		snprintf(err, errlen, "fault=%.*s is not one rule", (int)p->value_len, p->value);
		return -EINVAL;
	}
	if (have + p->value_len + 2 > sizeof(s->faults)) {
		snprintf(err, errlen, "the faults are longer than %zu bytes in all",
			 sizeof(s->faults) - 1);
		return -EINVAL;
	}
	memcpy(s->faults + have, p->value, p->value_len);
	strcpy(s->faults + have + p->value_len, "\n");
	return 0;
}

static int set_number(struct se_settings *s, const struct part *p, char *err, size_t errlen)
{
	const struct setting *t = find(p->key, p->key_len);

	if (!t) {
		snprintf(err, errlen, "there is no setting '%.*s'", (int)p->key_len, p->key);
		return -EINVAL;
	}
	if (se_parse_u32(p->value, p->value_len, t->min, t->max, value_of(s, t)))
		return 0;
	snprintf(err, errlen, "%s=%.*s is not a number in %u ... %u", t->name, (int)p->value_len,
		 p->value, t->min, t->max);
	return -EINVAL;
}

static int set_profile(struct se_settings *s, const struct part *p, char *err, size_t errlen)
{
	const char *set = se_profile_find(p->value, p->value_len);

	if (set)
		return se_settings_apply(s, set, err, errlen);
	snprintf(err, errlen, "profile '%.*s' is none of: %s", (int)p->value_len, p->value,
		 se_profile_names());
	return -EINVAL;
}

static int apply_one(struct se_settings *s, bool profiles, const char *text, size_t len, char *err,
		     size_t errlen)
{
	struct part p;
	int rc = split(&p, text, len, err, errlen);

	if (rc)
		return rc;
	if (se_parse_is(p.key, p.key_len, "profile"))
		return profiles ? set_profile(s, &p, err, errlen) : 0;
	if (profiles)
		return 0;
	if (se_parse_is(p.key, p.key_len, "fault"))
		return add_fault(s, &p, err, errlen);
	return set_number(s, &p, err, errlen);
}

static int apply_some(struct se_settings *s, bool profiles, const char *list, char *err,
		      size_t errlen)
{
	int rc = 0;

	while (*list) {
		size_t len = strcspn(list, ",");

		if (len && apply_one(s, profiles, list, len, err, errlen))
			rc = -EINVAL;
		list += len + (list[len] == ',');
	}
	return rc;
}

int se_settings_apply(struct se_settings *s, const char *list, char *err, size_t errlen)
{
	int rc = apply_some(s, true, list, err, errlen);

	return apply_some(s, false, list, err, errlen) ? -EINVAL : rc;
}

int se_settings_domain(struct se_settings *s, const char *name, char *err, size_t errlen)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)name[i]) && !strchr("-_.", name[i]))
			len = 0;
	if (len == 0 || len >= sizeof(s->domain) || name[0] == '.') {
		snprintf(err, errlen, "domain '%s' is not 1 ... %zu of letters, digits, - _ .",
			 name, sizeof(s->domain) - 1);
		return -EINVAL;
	}
	memcpy(s->domain, name, len + 1);
	return 0;
}

static uint16_t port_of_domain(const char *domain)
{
	return (uint16_t)(PORT_FIRST + se_hash(domain, strlen(domain), 0) % PORTS);
}

/* 1 ... 65535, or 0 when @text is none of these. */
static uint16_t parse_port(const char *text)
{
	unsigned long v;
	char *end;

	if (!isdigit((unsigned char)*text))
		return 0;
	v = strtoul(text, &end, 10);
	return *end || v > UINT16_MAX ? 0 : (uint16_t)v;
}

int se_settings_address(struct se_settings *s, const char *text, char *err, size_t errlen)
{
	const char *colon = strchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : strlen(text);
	uint16_t port = colon ? parse_port(colon + 1) : port_of_domain(s->domain);
	struct in_addr in = {0};
	char ip[16];

	snprintf(ip, sizeof(ip), "%.*s", (int)len, text);
	if (!port || len >= sizeof(ip) || inet_pton(AF_INET, ip, &in) != 1 ||
	    in.s_addr == INADDR_ANY || IN_MULTICAST(ntohl(in.s_addr)) ||
	    in.s_addr == INADDR_BROADCAST) {
		snprintf(err, errlen,
			 "address '%.64s' is not the IPv4 address of a host, with or without "
			 ":PORT (1 ... 65535)",
			 text);
		return -EINVAL;
	}
	memcpy(s->address, &in, sizeof(s->address));
	s->port = port;
	return 0;
}

#define ROW "  %-15s %-6s %10s %6s %10s  %s\n"

void se_settings_print(FILE *out)
{
	fprintf(out, ROW, "KEY", "type", "default", "min", "max", "meaning");
	for (size_t i = 0; i < NSETTINGS; i++) {
		const struct setting *t = &table[i];

		if (t->base == 'x')
			fprintf(out, "  %-15s %-6s %#10x %#6x %#10x  %s\n", t->name, "bits", t->def,
				t->min, t->max, t->text);
		else
			fprintf(out, "  %-15s %-6s %10u %6u %10u  %s\n", t->name, "number", t->def,
				t->min, t->max, t->text);
	}
	fprintf(out, ROW, "profile", "name", "none", "-", "-", "a generation of the adapter");
	fprintf(out, ROW, "fault", "rule", "none", "-", "-", "may be given several times");
}

static struct se_settings mine;

static void read_env(void)
{
	const char *set = getenv(SE_ENV_SET), *domain = getenv(SE_ENV_DOMAIN);
	const char *address = getenv(SE_ENV_ADDRESS);
	char err[160];

	se_settings_default(&mine);
	if (set && se_settings_apply(&mine, set, err, sizeof(err)))
		fprintf(stderr, "softefa: " SE_ENV_SET ": %s; using the default\n", err);
	if (domain && se_settings_domain(&mine, domain, err, sizeof(err)))
		fprintf(stderr, "softefa: " SE_ENV_DOMAIN ": %s; using '%s'\n", err, mine.domain);
	if (address && se_settings_address(&mine, address, err, sizeof(err)))
		fprintf(stderr, "softefa: " SE_ENV_ADDRESS ": %s; no other hosts\n", err);
}

const struct se_settings *se_settings(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	static atomic_bool done; /* asked several times per message */

	if (!atomic_load_explicit(&done, memory_order_acquire)) {
		pthread_once(&once, read_env);
		atomic_store_explicit(&done, true, memory_order_release);
	}
	return &mine;
}
