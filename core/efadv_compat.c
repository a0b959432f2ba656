/* SPDX-License-Identifier: BSD-3-Clause */
/* Version skew of libefa, and nothing else. */
#include "efadv_compat.h"

#include <assert.h>
#include <errno.h>

#include "libs.h"
#include "log.h"

#if __has_include(<infiniband/efadv.h>)
#include <infiniband/efadv.h>

#define SAME(ours, theirs, field) \
	static_assert(offsetof(struct ours, field) == offsetof(struct theirs, field) && \
			      sizeof(((struct ours *)0)->field) == \
				      sizeof(((struct theirs *)0)->field), \
		      #theirs "." #field)

SAME(srd_dv_device_attr, efadv_device_attr, comp_mask);
SAME(srd_dv_device_attr, efadv_device_attr, max_sq_wr);
SAME(srd_dv_device_attr, efadv_device_attr, max_rq_wr);
SAME(srd_dv_device_attr, efadv_device_attr, max_sq_sge);
SAME(srd_dv_device_attr, efadv_device_attr, max_rq_sge);
SAME(srd_dv_device_attr, efadv_device_attr, inline_buf_size);
SAME(srd_dv_device_attr, efadv_device_attr, device_caps);
SAME(srd_dv_device_attr, efadv_device_attr, max_rdma_size);
static_assert(sizeof(struct srd_dv_device_attr) == sizeof(struct efadv_device_attr), "size");
SAME(srd_dv_ah_attr, efadv_ah_attr, comp_mask);
SAME(srd_dv_ah_attr, efadv_ah_attr, ahn);
static_assert(sizeof(struct srd_dv_ah_attr) == sizeof(struct efadv_ah_attr), "size");
SAME(srd_dv_cq_attr, efadv_cq_init_attr, comp_mask);
SAME(srd_dv_cq_attr, efadv_cq_init_attr, wc_flags);
SAME(srd_dv_cq_attr, efadv_cq_init_attr, flags);
static_assert(sizeof(struct srd_dv_cq_attr) <= sizeof(struct efadv_cq_init_attr), "size");
SAME(srd_dv_cq, efadv_cq, wc_read_sgid);
SAME(srd_dv_cq, efadv_cq, wc_is_unsolicited);
SAME(srd_dv_cq_ring, efadv_cq_attr, buffer);
SAME(srd_dv_cq_ring, efadv_cq_attr, entry_size);
SAME(srd_dv_cq_ring, efadv_cq_attr, num_entries);
SAME(srd_dv_cq_ring, efadv_cq_attr, doorbell);
SAME(srd_dv_wq, efadv_wq_attr, buffer);
SAME(srd_dv_wq, efadv_wq_attr, entry_size);
SAME(srd_dv_wq, efadv_wq_attr, num_entries);
SAME(srd_dv_wq, efadv_wq_attr, doorbell);
SAME(srd_dv_wq, efadv_wq_attr, max_batch);
SAME(srd_dv_mr_attr, efadv_mr_attr, comp_mask);
SAME(srd_dv_mr_attr, efadv_mr_attr, ic_id_validity);
SAME(srd_dv_mr_attr, efadv_mr_attr, recv_ic_id);
SAME(srd_dv_mr_attr, efadv_mr_attr, rdma_read_ic_id);
SAME(srd_dv_mr_attr, efadv_mr_attr, rdma_recv_ic_id);
static_assert(sizeof(struct srd_dv_mr_attr) == sizeof(struct efadv_mr_attr), "size");
SAME(srd_dv_qp_attr, efadv_qp_init_attr, comp_mask);
SAME(srd_dv_qp_attr, efadv_qp_init_attr, driver_qp_type);
SAME(srd_dv_qp_attr, efadv_qp_init_attr, flags);
SAME(srd_dv_qp_attr, efadv_qp_init_attr, sl);

#define EQUAL(ours, theirs) static_assert((int)ours == (int)theirs, #theirs)

EQUAL(SRD_CAP_RDMA_READ, EFADV_DEVICE_ATTR_CAPS_RDMA_READ);
EQUAL(SRD_CAP_RNR_RETRY, EFADV_DEVICE_ATTR_CAPS_RNR_RETRY);
EQUAL(SRD_CAP_CQ_WITH_SGID, EFADV_DEVICE_ATTR_CAPS_CQ_WITH_SGID);
EQUAL(SRD_CAP_RDMA_WRITE, EFADV_DEVICE_ATTR_CAPS_RDMA_WRITE);
EQUAL(SRD_CAP_UNSOLICITED_WRITE_RECV, EFADV_DEVICE_ATTR_CAPS_UNSOLICITED_WRITE_RECV);
EQUAL(SRD_CAP_CQ_WITH_EXT_MEM, EFADV_DEVICE_ATTR_CAPS_CQ_WITH_EXT_MEM_DMABUF);
EQUAL(SRD_MR_RECV, EFADV_MR_ATTR_VALIDITY_RECV_IC_ID);
EQUAL(SRD_MR_RDMA_READ, EFADV_MR_ATTR_VALIDITY_RDMA_READ_IC_ID);
EQUAL(SRD_MR_RDMA_RECV, EFADV_MR_ATTR_VALIDITY_RDMA_RECV_IC_ID);
EQUAL(SRD_DV_WC_SGID, EFADV_WC_EX_WITH_SGID);
EQUAL(SRD_DV_WC_IS_UNSOLICITED, EFADV_WC_EX_WITH_IS_UNSOLICITED);
EQUAL(SRD_DV_QP_UNSOLICITED_WRITE_RECV, EFADV_QP_FLAGS_UNSOLICITED_WRITE_RECV);
EQUAL(0, EFADV_QP_DRIVER_TYPE_SRD);
#endif

/* Bits of device_caps that are ours too; a newer libefa reports more. */
#define KNOWN_CAPS \
	(SRD_CAP_RDMA_READ | SRD_CAP_RNR_RETRY | SRD_CAP_CQ_WITH_SGID | SRD_CAP_RDMA_WRITE | \
	 SRD_CAP_UNSOLICITED_WRITE_RECV | SRD_CAP_CQ_WITH_EXT_MEM)

int srd_dv_query(struct ibv_context *ctx, struct srd_dev_attr *attr)
{
	struct srd_dv_device_attr dv = {0};
	int rc = srd_efadv.query_device(ctx, &dv, sizeof(dv));

	if (rc)
		return srd_failed(ctx, "efadv_query_device", rc, "%s", "");
	attr->caps = dv.device_caps & KNOWN_CAPS;
	attr->max_sq_wr = dv.max_sq_wr;
	attr->max_rq_wr = dv.max_rq_wr;
	attr->max_sq_sge = dv.max_sq_sge;
	attr->max_rq_sge = dv.max_rq_sge;
	attr->max_rdma_size = dv.max_rdma_size;
	attr->inline_size = dv.inline_buf_size_ex ? dv.inline_buf_size_ex : dv.inline_buf_size;
	return 0;
}

struct ibv_cq_ex *srd_dv_create_cq(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr,
				   uint64_t wc_flags)
{
	struct srd_dv_cq_attr dv = {.wc_flags = wc_flags};

	return srd_efadv.create_cq(ctx, attr, &dv, sizeof(dv));
}

struct ibv_qp *srd_dv_create_srd(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr,
				 uint16_t flags, uint8_t sl)
{
	struct srd_dv_qp_attr dv = {.flags = flags, .sl = sl};
	struct ibv_qp_init_attr_ex granted = *attr;
	struct ibv_qp *qp = srd_efadv.create_qp_ex(ctx, &granted, &dv, sizeof(dv));

	/*
	 * Nothing tells releases 55 and later, which have service levels, from older ones, to which
	 * sl is a reserved byte: EINVAL. That may mean something else, then it comes again.
	 */
	if (!qp && errno == EINVAL && sl) {
		dv.sl = 0;
		granted = *attr;
		qp = srd_efadv.create_qp_ex(ctx, &granted, &dv, sizeof(dv));
		if (qp)
			srd_info("%s: libefa has no service levels: %d ignored", ctx->device->name,
				 sl);
	}
	if (qp)
		*attr = granted;
	return qp;
}

bool srd_dv_next_poll_is_safe(void)
{
	return srd_efadv.query_cq != NULL;
}

bool srd_dv_thread_domains_are_safe(void)
{
	return srd_ibv.query_port_speed != NULL;
}
