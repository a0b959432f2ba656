/* SPDX-License-Identifier: BSD-3-Clause */
/* The two sides of a run. Errors are -errno, and were said on stderr. */
#ifndef SRD_BW_RUN_H
#define SRD_BW_RUN_H

#include "options.h"
#include "rail.h"
#include "wire.h"

/* What a size came to; with --bidirectional the sums of both directions. */
struct bw_row {
	uint64_t size; /* bytes */
	uint64_t messages, bytes;
	uint64_t ns;    /* from the first request posted to the last completed */
	uint64_t wrong; /* bytes, both sides' */
	struct {
		uint64_t bytes, ns;
	} rail[BW_MAX_RAILS];
};

struct bw {
	const struct bw_options *opt; /* the rest is zero before bw_open() */
	struct bw_plan plan;
	bool client;
	struct bw_wire wire;
	char names[BW_MAX_RAILS][IBV_SYSFS_NAME_MAX];
	struct bw_rail rails[BW_MAX_RAILS];
	struct bw_lane *lanes; /* [rails][qps] */
	uint32_t nlanes;
	struct bw_row rows[BW_MAX_SIZES]; /* client */
	int nrows;
	uint64_t wrong;    /* bytes, all that either side found */
	bool their_wrong;  /* the other side did, which was said */
	uint64_t passes;   /* so far */
	uint64_t shown_ns; /* progress: when, and what */
	uint64_t shown_bytes;
};

/* Open the devices, find the other side, tell each other all that is needed. */
int bw_open(struct bw *bw);
void bw_close(struct bw *bw);

/* Client: one size. */
int bw_measure(struct bw *bw, uint64_t size, struct bw_row *row);
int bw_bye(struct bw *bw);

/* Server: until the client says bye. */
int bw_serve(struct bw *bw);

/* Both: all requests of a pass, and the data of it; what this side started goes into @row. */
int bw_pass_run(struct bw *bw, const struct bw_pass *pass, struct bw_row *row);

#endif
