/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings: parsing, checking and printing the table. */
#include "settings.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

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
		if (strlen(table[i].name) == len && memcmp(table[i].name, name, len) == 0)
			return &table[i];
	return NULL;
}

static int apply_one(struct se_settings *s, const char *part, size_t len, char *err, size_t errlen)
{
	const char *eq = memchr(part, '=', len);
	const struct setting *t;
	unsigned long long v;
	char text[32], *end;
	size_t vlen;

	if (!eq) {
		snprintf(err, errlen, "'%.*s' is not KEY=VALUE", (int)len, part);
		return -EINVAL;
	}
	t = find(part, (size_t)(eq - part));
	if (!t) {
		snprintf(err, errlen, "there is no setting '%.*s'", (int)(eq - part), part);
		return -EINVAL;
	}
	vlen = len - (size_t)(eq + 1 - part);
	snprintf(text, sizeof(text), "%.*s", (int)vlen, eq + 1);
	errno = 0;
	v = strtoull(text, &end, 0);
	if (vlen == 0 || vlen >= sizeof(text) || *end || !isdigit((unsigned char)text[0]) ||
	    errno || v < t->min || v > t->max) {
		snprintf(err, errlen, "%s=%.*s is not a number in %u ... %u", t->name, (int)vlen,
			 eq + 1, t->min, t->max);
		return -EINVAL;
	}
	*value_of(s, t) = (uint32_t)v;
	return 0;
}

int se_settings_apply(struct se_settings *s, const char *list, char *err, size_t errlen)
{
	int rc = 0;

	while (*list) {
		size_t len = strcspn(list, ",");

		if (len && apply_one(s, list, len, err, errlen))
			rc = -EINVAL;
		list += len + (list[len] == ',');
	}
	return rc;
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

void se_settings_print(FILE *out)
{
	fprintf(out, "  %-15s %10s %6s %10s  %s\n", "KEY", "default", "min", "max", "meaning");
	for (size_t i = 0; i < NSETTINGS; i++) {
		const struct setting *t = &table[i];

		if (t->base == 'x')
			fprintf(out, "  %-15s %#10x %#6x %#10x  %s\n", t->name, t->def, t->min,
				t->max, t->text);
		else
			fprintf(out, "  %-15s %10u %6u %10u  %s\n", t->name, t->def, t->min, t->max,
				t->text);
	}
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

	pthread_once(&once, read_env);
	return &mine;
}
