/* SPDX-License-Identifier: BSD-3-Clause */
/* What the device tells of itself. */
#include <endian.h>
#include <errno.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"
#include "gid.h"
#include "settings.h"
#include "uverbs.h"

#define PAGE_SIZES   0xfffff000u
#define MAX_MR_BYTES (1ull << 40)

int se_query_context(struct se_cmd *c)
{
	const struct se_settings *set = se_settings();
	struct se_abi_ucontext_in in;
	struct se_abi_ucontext_out out = {
		.cmds_supp_udata_mask = 3,
		.sub_cqs_per_cq = 1,
		.inline_buf_size = (uint16_t)set->inline_size,
		.max_llq_size = set->max_llq_size,
		.max_tx_batch = (uint16_t)set->max_tx_batch,
		.min_sq_wr = (uint16_t)set->min_sq_wr,
		.inline_buf_size_ex = (uint16_t)set->inline_size_ex,
	};
	uint32_t vectors = set->comp_vectors;
	uint64_t core_support = 1; /* optional access flags of regions are understood */
	int rc = se_cmd_in_optional(c, UVERBS_ATTR_UHW_IN, &in, sizeof(in));

	if (rc)
		return rc;
	/* A library that would not honour a limit of the device must not use it. */
	if ((out.max_tx_batch && !(in.supported_caps & SE_UCAP_TX_BATCH)) ||
	    (out.min_sq_wr && !(in.supported_caps & SE_UCAP_MIN_SQ_WR)))
		return -EOPNOTSUPP;
	rc = se_cmd_out(c, UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, &vectors, sizeof(vectors));
	if (!rc)
		rc = se_cmd_out(c, UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, &core_support,
				sizeof(core_support));
	if (!rc)
		rc = se_cmd_out(c, UVERBS_ATTR_UHW_OUT, &out, sizeof(out));
	c->ctx->ready = !rc;
	return rc;
}

/* The handles of all objects of a type. */
int se_query_handles(struct se_cmd *c)
{
	static const struct {
		uint16_t object;
		enum se_type type;
	} types[] = {{UVERBS_OBJECT_PD, SE_PD},
		     {UVERBS_OBJECT_MR, SE_MR},
		     {UVERBS_OBJECT_AH, SE_AH},
		     {UVERBS_OBJECT_CQ, SE_CQ},
		     {UVERBS_OBJECT_QP, SE_QP}};
	struct se_cmd_attr *list = se_cmd_find(c, UVERBS_ATTR_INFO_HANDLES_LIST);
	uint32_t total = 0, room, *handles;
	unsigned i = 0;
	uint64_t object;
	int rc = se_cmd_in(c, UVERBS_ATTR_INFO_OBJECT_ID, &object, sizeof(object));

	if (rc)
		return rc;
	while (i < sizeof(types) / sizeof(types[0]) && types[i].object != object)
		i++;
	if (!list || list->len % sizeof(*handles) || i == sizeof(types) / sizeof(types[0]))
		return -EINVAL;
	room = list->len / sizeof(*handles);
	handles = calloc(room, sizeof(*handles));
	if (!handles)
		return -ENOMEM;
	for (uint32_t h = 0; h < c->ctx->nobj && total < room; h++)
		if (se_ctx_get(c->ctx, h, types[i].type))
			handles[total++] = h;
	rc = se_cmd_out(c, UVERBS_ATTR_INFO_HANDLES_LIST, handles, total * sizeof(*handles));
	free(handles);
	return rc ? rc : se_cmd_out(c, UVERBS_ATTR_INFO_TOTAL_HANDLES, &total, sizeof(total));
}

static uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static void fill_device(const struct se_ctx *ctx, struct ib_uverbs_query_device_resp *r)
{
	const struct se_settings *set = se_settings();
	struct se_gid gid = se_gid_of(set, ctx->dev);

	memset(r, 0, sizeof(*r));
	r->fw_ver = 0x01; /* bytes 0 to 3 print as a.b.c.d */
	r->node_guid = htobe64(se_gid_guid(&gid));
	r->max_mr_size = MAX_MR_BYTES;
	r->page_size_cap = PAGE_SIZES;
	r->vendor_id = 0x1d0f;
	r->vendor_part_id = set->part_id;
	r->hw_ver = set->part_id;
	r->max_qp = set->max_qp;
	r->max_qp_wr = min_u32(set->max_sq_wr, set->max_rq_wr);
	r->max_sge = min_u32(set->max_sq_sge, set->max_rq_sge);
	r->max_sge_rd = 1;
	r->max_cq = set->max_cq;
	r->max_cqe = set->max_cqe;
	r->max_mr = set->max_mr;
	r->max_pd = set->max_pd;
	r->max_ah = set->max_ah;
	r->max_pkeys = 1;
	r->phys_port_cnt = 1;
}

int se_query_device_short(struct se_cmd *c)
{
	struct ib_uverbs_query_device_resp r;

	fill_device(c->ctx, &r);
	return se_cmd_out(c, UVERBS_ATTR_CORE_OUT, &r, sizeof(r));
}

int se_query_device(struct se_cmd *c)
{
	const struct se_settings *set = se_settings();
	struct se_cmd_attr *room = se_cmd_find(c, UVERBS_ATTR_CORE_OUT);
	struct ib_uverbs_ex_query_device_resp r;
	struct se_abi_device_out out = {
		.max_sq_wr = set->max_sq_wr,
		.max_rq_wr = set->max_rq_wr,
		.max_sq_sge = (uint16_t)set->max_sq_sge,
		.max_rq_sge = (uint16_t)set->max_rq_sge,
		.max_rdma_size = set->max_rdma_size,
		.device_caps = set->caps,
	};
	int rc;

	memset(&r, 0, sizeof(r));
	fill_device(c->ctx, &r.base);
	r.response_length = room ? min_u32(room->len, sizeof(r)) : 0;
	rc = se_cmd_out(c, UVERBS_ATTR_CORE_OUT, &r, sizeof(r));
	return rc ? rc : se_cmd_out(c, UVERBS_ATTR_UHW_OUT, &out, sizeof(out));
}

/* Width and speed codes of a port by its Gb/s, as the EFA kernel driver maps them. */
static const struct {
	uint32_t gbps;
	uint8_t width, speed;
} link_codes[] = {
	{400, 4, 64}, /* 8X HDR */
	{200, 2, 64}, /* 4X HDR */
	{120, 8, 8},  /* 12X FDR10 */
	{100, 2, 32}, /* 4X EDR */
	{60, 8, 2},   /* 12X DDR */
	{50, 1, 64},  /* 1X HDR */
	{40, 2, 8},   /* 4X FDR10 */
	{30, 8, 1},   /* 12X SDR */
	{0, 1, 32},   /* 1X EDR */
};

static int port_check(struct se_cmd *c, uint16_t id)
{
	uint64_t port;
	int rc = se_cmd_in(c, id, &port, sizeof(port));

	return rc ? rc : port == 1 ? 0 : -EINVAL;
}

int se_query_port(struct se_cmd *c)
{
	const struct se_settings *set = se_settings();
	struct ib_uverbs_query_port_resp_ex r;
	unsigned i = 0;
	int rc = port_check(c, UVERBS_ATTR_QUERY_PORT_PORT_NUM);

	if (rc)
		return rc;
	while (set->speed_gbps < link_codes[i].gbps)
		i++;
	memset(&r, 0, sizeof(r));
	r.legacy_resp.max_msg_sz = set->max_msg_size; /* the MTU in bytes */
	r.legacy_resp.gid_tbl_len = 1;
	r.legacy_resp.pkey_tbl_len = 1;
	r.legacy_resp.state = 4;      /* active */
	r.legacy_resp.phys_state = 5; /* link up */
	r.legacy_resp.max_mtu = 5;    /* 4096: the largest there is a code for */
	r.legacy_resp.active_mtu = 5;
	r.legacy_resp.lmc = 1;
	r.legacy_resp.max_vl_num = 1;
	r.legacy_resp.active_width = link_codes[i].width;
	r.legacy_resp.active_speed = link_codes[i].speed;
	return se_cmd_out(c, UVERBS_ATTR_QUERY_PORT_RESP, &r, sizeof(r));
}

int se_query_port_speed(struct se_cmd *c)
{
	uint64_t speed = se_settings()->speed_gbps * 10ull;
	int rc = port_check(c, SE_ATTR_PORT_SPEED_PORT);

	return rc ? rc : se_cmd_out(c, SE_ATTR_PORT_SPEED_RESP, &speed, sizeof(speed));
}

static void fill_gid(const struct se_ctx *ctx, struct ib_uverbs_gid_entry *e)
{
	struct se_gid gid = se_gid_of(se_settings(), ctx->dev);

	memset(e, 0, sizeof(*e));
	memcpy(e->gid, gid.b, sizeof(gid.b));
	e->port_num = 1;
}

int se_query_gid_entry(struct se_cmd *c)
{
	struct ib_uverbs_gid_entry e;
	uint32_t index, flags;
	int rc = port_check(c, UVERBS_ATTR_QUERY_GID_ENTRY_PORT);

	if (!rc)
		rc = se_cmd_in(c, UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, &index, sizeof(index));
	if (!rc)
		rc = se_cmd_in_optional(c, UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, &flags,
					sizeof(flags));
	if (rc)
		return rc;
	if (index || flags)
		return -EINVAL;
	fill_gid(c->ctx, &e);
	return se_cmd_out(c, UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, &e, sizeof(e));
}

int se_query_gid_table(struct se_cmd *c)
{
	struct se_cmd_attr *room = se_cmd_find(c, UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES);
	struct ib_uverbs_gid_entry e;
	uint64_t entry_size, n = 1;
	uint32_t flags;
	int rc;

	rc = se_cmd_in(c, UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, &entry_size, sizeof(entry_size));
	if (!rc)
		rc = se_cmd_in_optional(c, UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, &flags,
					sizeof(flags));
	if (rc)
		return rc;
	if (flags || !entry_size || room->len < entry_size || room->len % entry_size)
		return -EINVAL;
	fill_gid(c->ctx, &e);
	rc = se_cmd_out(c, UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, &e,
			min_u32((uint32_t)entry_size, sizeof(e)));
	return rc ? rc : se_cmd_out(c, UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, &n, sizeof(n));
}
