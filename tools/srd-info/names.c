/* SPDX-License-Identifier: BSD-3-Clause */
/* What is printed of attributes, whatever the form. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "info.h"

const struct info_cap info_caps[] = {
	{SRD_CAP_RDMA_READ, "rdma_read"},
	{SRD_CAP_RDMA_WRITE, "rdma_write"},
	{SRD_CAP_RNR_RETRY, "rnr_retry"},
	{SRD_CAP_CQ_WITH_SGID, "cq_with_sgid"},
	{SRD_CAP_UNSOLICITED_WRITE_RECV, "unsolicited_write_recv"},
	{SRD_CAP_CQ_WITH_EXT_MEM, "cq_with_ext_mem"},
};
const int info_ncaps = sizeof(info_caps) / sizeof(info_caps[0]);

#define LIMIT(field) \
	{ \
#field, offsetof(struct srd_dev_attr, field), \
			sizeof(((struct srd_dev_attr *)0)->field) \
	}

const struct info_limit info_limits[] = {
	LIMIT(max_msg_size), LIMIT(max_rdma_size), LIMIT(max_mr_size), LIMIT(inline_size),
	LIMIT(max_sq_wr),    LIMIT(max_rq_wr),     LIMIT(max_sq_sge),  LIMIT(max_rq_sge),
	LIMIT(max_cqe),      LIMIT(max_qp),        LIMIT(max_cq),      LIMIT(max_mr),
	LIMIT(max_pd),       LIMIT(max_ah),
};
const int info_nlimits = sizeof(info_limits) / sizeof(info_limits[0]);

uint64_t info_limit_of(const struct srd_dev_attr *attr, const struct info_limit *limit)
{
	const char *field = (const char *)attr + limit->at;
	uint64_t u64;
	uint32_t u32;
	uint16_t u16;

	switch (limit->size) {
	case sizeof(u16):
		memcpy(&u16, field, sizeof(u16));
		return u16;
	case sizeof(u32):
		memcpy(&u32, field, sizeof(u32));
		return u32;
	default:
		memcpy(&u64, field, sizeof(u64));
		return u64;
	}
}

const char *info_guid(char out[24], uint64_t guid)
{
	snprintf(out, 24, "%04x:%04x:%04x:%04x", (unsigned)(guid >> 48 & 0xffff),
		 (unsigned)(guid >> 32 & 0xffff), (unsigned)(guid >> 16 & 0xffff),
		 (unsigned)(guid & 0xffff));
	return out;
}

const char *info_gid(char out[48], const union ibv_gid *gid)
{
	return inet_ntop(AF_INET6, gid->raw, out, 48);
}

const char *info_ordering(enum srd_cuda_scope scope)
{
	switch (scope) {
	case SRD_CUDA_NONE:
		return "none";
	case SRD_CUDA_OWNER:
		return "owner";
	case SRD_CUDA_ALL_DEVICES:
		return "all";
	}
	return "unknown";
}
