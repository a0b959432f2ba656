/* SPDX-License-Identifier: BSD-3-Clause */
/* Printing counters. */
#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fabric.h"
#include "settings.h"

static const char *const ops[SE_STAT_OPS] = {"send", "read", "write", "other"};

static bool any(const uint64_t *n, unsigned len)
{
	for (unsigned i = 0; i < len; i++)
		if (n[i])
			return true;
	return false;
}

/* ---- for people ---- */

static void print_ops(const char *what, const uint64_t *n)
{
	printf("  %-12s", what);
	for (unsigned i = 0; i < SE_STAT_OPS; i++)
		if (n[i])
			printf("  %s %" PRIu64, ops[i], n[i]);
	putchar('\n');
}

static void print_status(const char *what, const uint64_t *n)
{
	printf("  %-12s", what);
	for (unsigned i = 0; i < SE_STAT_CODES; i++) {
		if (!n[i])
			continue;
		if (i == 0)
			printf("  ok %" PRIu64, n[i]);
		else
			printf("  status %s%u %" PRIu64, i == SE_STAT_STATUS ? ">= " : "", i, n[i]);
	}
	putchar('\n');
}

static void print_device(unsigned dev, const uint64_t *n)
{
	printf("efa_%u\n", dev);
	print_ops("requests", n + SE_STAT_REQUESTS);
	if (any(n + SE_STAT_LOW_LATENCY, SE_STAT_OPS))
		print_ops("low latency", n + SE_STAT_LOW_LATENCY);
	print_ops("bytes", n + SE_STAT_BYTES);
	print_status("completions", n + SE_STAT_COMPLETIONS);
	print_status("receives", n + SE_STAT_RECEIVES);
	printf("  %-12s  %" PRIu64 " bytes\n", "received", n[SE_STAT_RECEIVED]);
	printf("  %-12s  %" PRIu64 " bytes, %" PRIu64 " not any more\n", "registered",
	       n[SE_STAT_REGISTERED], n[SE_STAT_DEREGISTERED]);
	printf("  %-12s  rnr %" PRIu64 "  duplicates %" PRIu64 "  reorders %" PRIu64
	       "  faults %" PRIu64 "\n",
	       "events", n[SE_STAT_RNR], n[SE_STAT_DUPLICATES], n[SE_STAT_REORDERS],
	       n[SE_STAT_FAULTS]);
}

static void print_all(const struct se_fabric_view *v)
{
	unsigned shown = 0;

	printf("domain %s: %u processes", se_settings()->domain, v->alive);
	if (v->dead)
		printf(", %u died and were not cleaned up after yet", v->dead);
	putchar('\n');
	for (unsigned d = 0; d < SE_MAX_DEV; d++) {
		if (!any(v->count[d], SE_STAT_TRAFFIC))
			continue;
		print_device(d, v->count[d]);
		shown++;
	}
	if (!shown)
		puts("no traffic yet");
}

/* ---- for programs ---- */

static void json_ops(const char *what, const uint64_t *n)
{
	printf("\"%s\":{", what);
	for (unsigned i = 0; i < SE_STAT_OPS; i++)
		printf("%s\"%s\":%" PRIu64, i ? "," : "", ops[i], n[i]);
	printf("},");
}

static void json_status(const char *what, const uint64_t *n)
{
	const char *comma = "";

	printf("\"%s\":{", what);
	for (unsigned i = 0; i < SE_STAT_CODES; i++) {
		if (!n[i])
			continue;
		printf("%s\"%u\":%" PRIu64, comma, i, n[i]);
		comma = ",";
	}
	printf("},");
}

static void json_device(unsigned dev, const uint64_t *n)
{
	printf("{\"device\":\"efa_%u\",\"registered\":%" PRIu64 ",\"deregistered\":%" PRIu64 ",",
	       dev, n[SE_STAT_REGISTERED], n[SE_STAT_DEREGISTERED]);
	json_ops("requests", n + SE_STAT_REQUESTS);
	json_ops("low_latency", n + SE_STAT_LOW_LATENCY);
	json_ops("bytes", n + SE_STAT_BYTES);
	json_status("completions", n + SE_STAT_COMPLETIONS);
	json_status("receives", n + SE_STAT_RECEIVES);
	printf("\"received_bytes\":%" PRIu64 ",\"rnr\":%" PRIu64 ",\"duplicates\":%" PRIu64
	       ",\"reorders\":%" PRIu64 ",\"faults\":%" PRIu64 "}",
	       n[SE_STAT_RECEIVED], n[SE_STAT_RNR], n[SE_STAT_DUPLICATES], n[SE_STAT_REORDERS],
	       n[SE_STAT_FAULTS]);
}

/* A domain is a word of characters that need no escape. */
static void json_all(const struct se_fabric_view *v)
{
	const char *comma = "";

	printf("{\"domain\":\"%s\",\"processes\":%u,\"dead\":%u,\"devices\":[",
	       se_settings()->domain, v->alive, v->dead);
	for (unsigned d = 0; d < SE_MAX_DEV; d++) {
		if (!any(v->count[d], SE_STAT_TRAFFIC))
			continue;
		fputs(comma, stdout);
		json_device(d, v->count[d]);
		comma = ",";
	}
	puts("]}");
}

int se_report(bool json)
{
	static struct se_fabric_view view;
	int rc = se_fabric_peek(&view);

	if (rc == -ENOENT) {
		fprintf(stderr, "softefa: nobody is in domain '%s' now\n", se_settings()->domain);
		return 1;
	}
	if (rc) {
		fprintf(stderr, "softefa: domain '%s': %s\n", se_settings()->domain,
			rc == -EINVAL ? "its shared memory is damaged" : strerror(-rc));
		return 125;
	}
	if (json)
		json_all(&view);
	else
		print_all(&view);
	return 0;
}
