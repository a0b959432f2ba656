/* SPDX-License-Identifier: BSD-3-Clause */
/* One device with its memory and queue pairs. */
#ifndef SRD_BW_RAIL_H
#define SRD_BW_RAIL_H

#include "host/buf.h"
#include "lane.h"

struct bw_rail {
	struct srd_dev dev;
	struct srd_pd pd;
	struct host_buf buf;
	struct srd_mr mr;
	char name[IBV_SYSFS_NAME_MAX];
	struct bw_lane *lanes; /* [qps], of the caller */
	uint32_t qps;
};

/*
 * The devices that @rails names: a number of them, or names with commas between. Returns how many.
 */
int bw_rails_find(const char *rails, char names[BW_MAX_RAILS][IBV_SYSFS_NAME_MAX]);

/*
 * Open device @name, for @qps lanes that are zero but for their numbers. @out, @in: this side
 * starts messages, the other does. Errors were said.
 */
int bw_rail_init(struct bw_rail *rail, const char *name, const struct bw_plan *plan, bool direct,
		 bool out, bool in);
void bw_rail_fini(struct bw_rail *rail);

static inline uint8_t *bw_rail_at(const struct bw_rail *rail, uint64_t off)
{
	return (uint8_t *)rail->buf.addr + off;
}

#endif
