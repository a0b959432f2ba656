/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line. */
#include "options.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/options.h"
#include "common/parse.h"
#include "common/say.h"

#define AT(field) offsetof(struct bw_options, field)

static const struct option_row rows[] = {
	{"op", 'o', OPTION_STRING, "OP", AT(op), 0, 0, "write", "write, write-imm, read or send"},
	{"size", 's', OPTION_STRING, "SIZES", AT(size), 0, 0, NULL,
	 "bytes of a message: 64K, a list 8,4K,1M, or a range 8:1G by factors of 2 (default "
	 "8:8M; of send 8:8K)"},
	{"window", 'w', OPTION_NUMBER, "N", AT(window), 1, BW_MAX_WINDOW, "64",
	 "requests outstanding per queue pair"},
	{"rails", 'r', OPTION_STRING, "RAILS", AT(rails), 0, 0, NULL,
	 "devices: how many, or which: efa_0,efa_1 (default 1)"},
	{"qps", 'q', OPTION_NUMBER, "N", AT(qps), 1, BW_MAX_QPS, "1", "queue pairs per device"},
	{"seconds", 't', OPTION_NUMBER, "N", AT(seconds), 1, BW_MAX_S, NULL,
	 "how long, per size (default 1)"},
	{"iters", 'n', OPTION_NUMBER, "N", AT(iters), 1, BW_MAX_ITERS, NULL,
	 "messages per queue pair and size, in place of --seconds"},
	{"bidirectional", 'b', OPTION_ON, NULL, AT(bidirectional), 0, 0, NULL,
	 "the server starts as many; figures are sums"},
	{"check", 'c', OPTION_ON, NULL, AT(check), 0, 0, NULL,
	 "verify each message; lowers the figures"},
	{"no-direct", 0, OPTION_OFF, NULL, AT(direct), 0, 0, NULL,
	 "through libefa, also where the device's own rings can be used"},
	{"port", 'p', OPTION_NUMBER, "PORT", AT(port), 1, UINT16_MAX, "18516",
	 "of the server, TCP"},
	{"csv", 0, OPTION_ON, NULL, AT(csv), 0, 0, NULL, "print comma-separated values"},
	{"json", 0, OPTION_ON, NULL, AT(json), 0, 0, NULL, "print JSON"},
	{"plot", 0, OPTION_STRING, "FILE.png", AT(plot), 0, 0, NULL,
	 "draw GB/s by size, with gnuplot or python3's matplotlib"},
	{"progress", 0, OPTION_ON, NULL, AT(progress), 0, 0, NULL,
	 "say on stderr once a second how it goes (default: on a terminal)"},
	{"help", 'h', OPTION_HELP, NULL, 0, 0, 0, NULL, "this text"},
};

static const char intro[] =
	"srd-bw - bandwidth and message rate of EFA devices between two hosts\n"
	"\n"
	"usage: srd-bw [--rails RAILS] [--port PORT] [--no-direct]   on the server\n"
	"       srd-bw [options] HOST[:PORT]                         on the client\n"
	"\n";

static const char notes[] =
	"\n"
	"The client's options are in force on both sides; the server's own choose its devices.\n"
	"What one request cannot carry is sent in as many as it takes, but for send: that is\n"
	"limited to the MTU. GB are 10^9 bytes.\n"
	"\n"
	"exit code\n"
	"  0  all went well\n"
	"  1  it failed, the other side did, or --check found wrong data\n"
	"  2  bad usage\n";

/* ---- sizes ---- */

static int add_size(struct bw_options *opt, uint64_t size)
{
	if (size < 1 || size > BW_MAX_SIZE || opt->nsizes == BW_MAX_SIZES) {
		say("--size %s: must be 1 to 16G, and no more than %d of them", opt->size,
		    BW_MAX_SIZES);
		return -EINVAL;
	}
	opt->sizes[opt->nsizes++] = size;
	if (size > opt->plan.largest)
		opt->plan.largest = size;
	return 0;
}

/* "64K" or "8:1G" */
static int parse_sizes(struct bw_options *opt, char *text)
{
	char *colon = strchr(text, ':');
	uint64_t first, last;
	int rc = 0;

	if (colon)
		*colon++ = 0;
	if (parse_size(text, &first) || parse_size(colon ? colon : text, &last) || last < first) {
		say("--size %s: must be like 64K, 8,4K,1M or 8:1G", opt->size);
		return -EINVAL;
	}
	/* The first is checked before it is doubled, so that nothing overflows. */
	for (uint64_t size = first; !rc && size <= last; size *= 2)
		rc = add_size(opt, size);
	return rc;
}

static int parse_list(struct bw_options *opt)
{
	char text[1024];
	int rc = 0;

	if ((size_t)snprintf(text, sizeof(text), "%s", opt->size) >= sizeof(text)) {
		say("--size: at most %zu characters", sizeof(text) - 1);
		return -EINVAL;
	}
	for (char *at = text, *comma; at && !rc; at = comma) {
		comma = strchr(at, ',');
		if (comma)
			*comma++ = 0;
		rc = parse_sizes(opt, at);
	}
	return rc;
}

/* ---- the server ---- */

/* "host", "host:port", "[v6]:port"; an IPv6 address without a port may be bare. */
static int parse_host(struct bw_options *opt, const char *text)
{
	const char *from = text + (*text == '['),
		   *end = from + strcspn(from, *text == '[' ? "]" : ":");
	const char *colon = strchr(end, ':');
	size_t len = (size_t)(end - from);

	if (*text != '[' && colon && strchr(colon + 1, ':')) {
		colon = NULL;
		len = strlen(text);
	}
	if (!len || len >= sizeof(opt->host) ||
	    (colon &&
	     (parse_number(colon + 1, &opt->port) || !opt->port || opt->port > UINT16_MAX))) {
		say("%s: must be HOST or HOST:PORT, with a port of 1 to 65535", text);
		return -EINVAL;
	}
	memcpy(opt->host, from, len);
	return 0;
}

/* Rules that concern more than one option. */
static int settle(struct bw_options *opt)
{
	if (opt->iters && opt->seconds) {
		say("--iters and --seconds: only one of them");
		return -EINVAL;
	}
	if (opt->csv && opt->json) {
		say("--csv and --json: only one of them");
		return -EINVAL;
	}
	if (!opt->iters && !opt->seconds)
		opt->seconds = 1;
	opt->plan.op = bw_op_find(opt->op);
	if (opt->plan.op == BW_OPS) {
		say("--op %s: must be write, write-imm, read or send", opt->op);
		return -EINVAL;
	}
	if (!opt->size)
		opt->size = opt->plan.op == BW_SEND ? "8:8K" : "8:8M";
	opt->plan.window = (uint32_t)opt->window;
	opt->plan.qps = (uint32_t)opt->qps;
	opt->plan.bidirectional = opt->bidirectional;
	opt->plan.check = opt->check;
	return parse_list(opt);
}

int bw_options_parse(struct bw_options *opt, int argc, char **argv)
{
	static const struct options options = {
		.rows = rows,
		.count = sizeof(rows) / sizeof(rows[0]),
		.operands = 1,
		.intro = intro,
		.notes = notes,
	};
	int rc;

	*opt = (struct bw_options){.direct = true, .progress = isatty(STDERR_FILENO)};
	rc = options_parse(&options, opt, argc, argv);
	if (!rc && argv[optind])
		rc = parse_host(opt, argv[optind]);
	return rc ? rc : settle(opt);
}
