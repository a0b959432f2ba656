/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading softefa's counters. */
#include "counters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"
#include "need.h"
#include "plug.h"

void counters_apart(void)
{
	char domain[32];

	plug_softefa("log=0"); /* skips where there is none */
	snprintf(domain, sizeof(domain), "counted-%d", (int)getpid());
	setenv("SOFTEFA_DOMAIN", domain, 1);
}

/* The number after @op, behind @name, behind @at. */
static long long number(const char *at, const char *name, const char *op)
{
	char key[32];
	long long n = -1;

	snprintf(key, sizeof(key), "\"%s\":", op);
	at = at ? strstr(at, name) : NULL;
	at = at ? strstr(at, key) : NULL;
	if (at)
		n = strtoll(at + strlen(key), NULL, 10);
	need(n >= 0, "no %s of %s", name, op);
	return n;
}

static const char *ask(void)
{
	static struct cmd cmd;

	cmd_run(&cmd, 20, "$B/softefa stat --json");
	need(cmd.code == 0, "%s", cmd.out);
	return cmd.out;
}

void counters_get(struct counters *c, const char *op)
{
	const char *out = ask();

	for (int i = 0; i < COUNTERS_DEVS; i++) {
		char dev[32];
		const char *at;

		snprintf(dev, sizeof(dev), "\"device\":\"efa_%d\"", i);
		at = strstr(out, dev);
		c->n[i] = at ? number(at, "\"requests\"", op) : 0;
		c->urgent[i] = at ? number(at, "\"low_latency\"", op) : 0;
		c->bytes[i] = at ? number(at, "\"bytes\"", op) : 0;
	}
}

void counters_since(struct counters *c, const char *op, const struct counters *before)
{
	counters_get(c, op);
	for (int i = 0; i < COUNTERS_DEVS; i++) {
		c->n[i] -= before->n[i];
		c->urgent[i] -= before->urgent[i];
		c->bytes[i] -= before->bytes[i];
	}
}

long long counters_sum(const struct counters *c)
{
	long long n = 0;

	for (int i = 0; i < COUNTERS_DEVS; i++)
		n += c->n[i];
	return n;
}

long long counters_rnr(void)
{
	static const char key[] = "\"rnr\":";
	long long n = 0;
	int devs = 0;

	for (const char *at = strstr(ask(), key); at; at = strstr(at, key), devs++) {
		at += sizeof(key) - 1;
		n += strtoll(at, NULL, 10);
	}
	need(devs > 0, "no device has counters");
	return n;
}

long long counters_received(void)
{
	static const char key[] = "\"receives\":{\"0\":";
	long long n = 0;

	for (const char *at = strstr(ask(), key); at; at = strstr(at, key)) {
		at += sizeof(key) - 1;
		n += strtoll(at, NULL, 10);
	}
	return n;
}

long long counters_registered(int dev)
{
	const char *out = ask(), *at;
	char name[32];

	snprintf(name, sizeof(name), "\"device\":\"efa_%d\"", dev);
	at = strstr(out, name);
	return number(at, name, "registered") - number(at, name, "deregistered");
}
