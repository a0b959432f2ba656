/* SPDX-License-Identifier: BSD-3-Clause */
/* One device with its memory and queue pairs. */
#include "rail.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/parse.h"
#include "common/say.h"

static int failed(const struct bw_rail *rail, const char *what, int rc)
{
	say("%s: %s: %s", rail->name, what, strerror(-rc));
	return rc;
}

/* ---- which devices ---- */

static int find_first(uint64_t n, char names[BW_MAX_RAILS][IBV_SYSFS_NAME_MAX])
{
	struct srd_dev_info info[BW_MAX_RAILS];
	int there = srd_dev_list(info, BW_MAX_RAILS, true);

	if (there < 0) {
		say("list of devices: %s", strerror(-there));
		return there;
	}
	if (n < 1 || n > BW_MAX_RAILS || n > (uint64_t)there) {
		say("--rails %" PRIu64 ": must be 1 to %d; this host has %d EFA devices", n,
		    BW_MAX_RAILS, there);
		return -ENODEV;
	}
	for (uint64_t i = 0; i < n; i++)
		memcpy(names[i], info[i].name, IBV_SYSFS_NAME_MAX);
	return (int)n;
}

int bw_rails_find(const char *rails, char names[BW_MAX_RAILS][IBV_SYSFS_NAME_MAX])
{
	uint64_t number;
	int n = 0;

	if (!parse_number(rails, &number))
		return find_first(number, names);
	for (const char *at = rails;; at++) {
		size_t len = strcspn(at, ",");

		if (n == BW_MAX_RAILS || len < 1 || len >= IBV_SYSFS_NAME_MAX) {
			say("--rails %s: must be a number, or names like efa_0,efa_1, at most %d",
			    rails, BW_MAX_RAILS);
			return -EINVAL;
		}
		snprintf(names[n++], IBV_SYSFS_NAME_MAX, "%.*s", (int)len, at);
		at += len;
		if (!*at)
			return n;
	}
}

/* ---- can it? ---- */

static int check_device(const struct bw_rail *rail, const struct bw_plan *plan)
{
	const struct srd_dev_attr *attr = &rail->dev.attr;
	bool write = plan->op == BW_WRITE || plan->op == BW_WRITE_IMM;

	if (write && !(attr->caps & SRD_CAP_RDMA_WRITE)) {
		say("%s has no RDMA write (or libefa is older than 46): --op read or send is left",
		    rail->name);
		return -EOPNOTSUPP;
	}
	if (plan->op == BW_READ && !(attr->caps & SRD_CAP_RDMA_READ)) {
		say("%s has no RDMA read: --op send is left", rail->name);
		return -EOPNOTSUPP;
	}
	if (plan->op == BW_SEND && plan->largest > attr->max_msg_size) {
		say("%s sends at most %u bytes in a message, its MTU, not %" PRIu64, rail->name,
		    attr->max_msg_size, plan->largest);
		return -EMSGSIZE;
	}
	if (plan->window > attr->max_sq_wr ||
	    (bw_receives(plan) && bw_receive_count(plan) > attr->max_rq_wr)) {
		say("%s: a window of %u exceeds its queues of %u requests and %u receives",
		    rail->name, plan->window, attr->max_sq_wr, attr->max_rq_wr);
		return -EINVAL;
	}
	return 0;
}

/* ---- making ---- */

static int memory_init(struct bw_rail *rail, const struct bw_plan *plan, bool out, bool in)
{
	int access = IBV_ACCESS_LOCAL_WRITE;
	int rc = host_buf_init(&rail->buf, (size_t)(plan->qps * plan->room * (out + in)));

	if (rc)
		return failed(rail, "memory", rc);
	if (plan->op == BW_READ)
		access |= IBV_ACCESS_REMOTE_READ;
	else if (plan->op != BW_SEND)
		access |= IBV_ACCESS_REMOTE_WRITE;
	rc = srd_mr_init(&rail->mr, &rail->pd, rail->buf.addr, rail->buf.size, access);
	if (rc)
		return failed(rail, "register memory", rc);
	for (uint32_t i = 0; i < plan->qps; i++) {
		rail->lanes[i].out = i * plan->room * (out + in);
		rail->lanes[i].in = rail->lanes[i].out + (out ? plan->room : 0);
	}
	return 0;
}

static int rail_make(struct bw_rail *rail, const struct bw_plan *plan, bool direct, bool out,
		     bool in)
{
	int rc = srd_dev_open(&rail->dev, rail->name);

	if (rc)
		return failed(rail, "open", rc);
	rc = check_device(rail, plan);
	if (rc)
		return rc;
	rc = srd_pd_init(&rail->pd, &rail->dev);
	if (rc)
		return failed(rail, "protection domain", rc);
	rc = memory_init(rail, plan, out, in);
	for (uint32_t i = 0; !rc && i < plan->qps; i++) {
		struct bw_lane *lane = &rail->lanes[i];

		lane->rail = rail;
		lane->buffers = in && bw_receives(plan) ? bw_receive_count(plan) : 0;
		rc = bw_lane_init(lane, plan, direct);
	}
	return rc;
}

int bw_rail_init(struct bw_rail *rail, const char *name, const struct bw_plan *plan, bool direct,
		 bool out, bool in)
{
	int rc;

	snprintf(rail->name, sizeof(rail->name), "%s", name);
	rail->qps = plan->qps;
	rc = rail_make(rail, plan, direct, out, in);
	if (rc)
		bw_rail_fini(rail);
	return rc;
}

void bw_rail_fini(struct bw_rail *rail)
{
	for (uint32_t i = 0; i < rail->qps; i++)
		bw_lane_fini(&rail->lanes[i]);
	srd_mr_fini(&rail->mr);
	host_buf_fini(&rail->buf);
	srd_pd_fini(&rail->pd);
	srd_dev_close(&rail->dev);
	rail->qps = 0;
}
