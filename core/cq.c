/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues: create, poll. */
#include "srd.h"

#include <endian.h>
#include <string.h>

#include "efadv_compat.h"
#include "libs.h"
#include "log.h"
#include "ring.h"

enum { CQE_DEFAULT = 256, PART_EFA0 = 0xefa0 };

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* IBV_WC_EX_WITH_* of what srd_cq_poll() reads. */
static uint64_t wc_flags(uint32_t fields)
{
	uint64_t flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM;

	if (fields & SRD_CQ_QPN)
		flags |= IBV_WC_EX_WITH_QP_NUM;
	if (fields & SRD_CQ_SRC)
		flags |= IBV_WC_EX_WITH_SRC_QP | IBV_WC_EX_WITH_SLID;
	return flags;
}

/*
 * Find the ring, to look at it before calling libefa: most polls find nothing, and the call costs
 * fifty instructions to say so. The first EFA splits a CQ into several rings: not there.
 */
static void find_ring(struct srd_cq *cq, const struct srd_dev *dev)
{
	static const uint8_t unknown = CQE_PHASE; /* never empty, for all we know */
	struct srd_dv_cq_ring ring = {0};

	cq->next = &unknown;
	cq->phase = CQE_PHASE;
	if (!srd_efadv.query_cq || dev->attr.part_id == PART_EFA0 ||
	    srd_efadv.query_cq(ibv_cq_ex_to_cq(cq->ibv), &ring, sizeof(ring)) || !ring.buffer)
		return;
	cq->first = ring.buffer + CQE_FLAGS_AT;
	cq->end = cq->first + (size_t)ring.num_entries * ring.entry_size;
	cq->next = cq->first;
	cq->entry_bytes = ring.entry_size;
}

static int direct(struct srd_cq *cq, const struct srd_dev *dev)
{
	int rc = srd_cq_ring_init(cq, dev);

	if (rc)
		srd_cq_fini(cq);
	return rc;
}

int srd_cq_init(struct srd_cq *cq, struct srd_dev *dev, const struct srd_cq_attr *attr)
{
	struct ibv_cq_init_attr_ex init = {
		.cqe = attr->cqe ? attr->cqe : CQE_DEFAULT,
		.comp_vector = attr->comp_vector,
		.wc_flags = wc_flags(attr->fields),
	};
	bool unsolicited = dev->attr.caps & SRD_CAP_UNSOLICITED_WRITE_RECV;
	uint64_t dv_flags = unsolicited ? SRD_DV_WC_IS_UNSOLICITED : 0;

	memset(cq, 0, sizeof(*cq));
	if (attr->fields & SRD_CQ_SGID) {
		if (!(dev->attr.caps & SRD_CAP_CQ_WITH_SGID)) {
			srd_err("%s: CQ refused: no source GIDs here", dev->ibv->device->name);
			return -EOPNOTSUPP;
		}
		dv_flags |= SRD_DV_WC_SGID;
	}
	if (attr->td && attr->td->td) {
		init.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
		init.parent_domain = attr->td->ibv;
	}
	errno = 0;
	cq->ibv = srd_dv_create_cq(dev->ibv, &init, dv_flags);
	if (!cq->ibv)
		return srd_failed(dev->ibv, "efadv_create_cq", errno,
				  ": %d entries, max %u; vector %d of %d; max %u CQs",
				  attr->cqe ? attr->cqe : CQE_DEFAULT, dev->attr.max_cqe,
				  attr->comp_vector, dev->ibv->num_comp_vectors, dev->attr.max_cq);
	cq->dv = srd_efadv.cq_from_ibv_cq_ex(cq->ibv);
	cq->fields = attr->fields;
	cq->cqe = cq->ibv->cqe;
	cq->unsolicited = unsolicited;
	cq->one_by_one = !srd_dv_next_poll_is_safe();
	find_ring(cq, dev);
	return attr->direct ? direct(cq, dev) : 0;
}

void srd_cq_fini(struct srd_cq *cq)
{
	int rc = cq->ibv ? srd_ibv.destroy_cq(ibv_cq_ex_to_cq(cq->ibv)) : 0;

	if (rc)
		srd_warn("ibv_destroy_cq: %s (%d)", strerror(rc), rc);
	srd_cq_ring_fini(cq);
	memset(cq, 0, sizeof(*cq));
}

/* Each read is an indirect call: make only those that can have an answer. */
static void read_received(const struct srd_cq *cq, struct srd_wc *wc)
{
	struct ibv_cq_ex *ex = cq->ibv;
	struct srd_dv_cq *dv = cq->dv;

	wc->byte_len = ibv_wc_read_byte_len(ex);
	if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
		/* Its flags say so too, but a flushed one would be an IBV_WC_RECV. */
		wc->flags |= SRD_WC_IMM;
		if (cq->unsolicited && dv->wc_is_unsolicited(dv))
			wc->flags |= SRD_WC_UNSOLICITED;
	} else if (ibv_wc_read_wc_flags(ex) & IBV_WC_WITH_IMM) {
		wc->flags |= SRD_WC_IMM;
	}
	if (wc->flags & SRD_WC_IMM)
		wc->imm = be32toh(ibv_wc_read_imm_data(ex));
	if (cq->fields & SRD_CQ_SRC) {
		wc->src_qpn = ibv_wc_read_src_qp(ex);
		wc->ahn = ibv_wc_read_slid(ex);
	}
	/* A write has an AH here, and its CQE the upper half of the length where a GID would be. */
	if (cq->fields & SRD_CQ_SGID && wc->opcode == IBV_WC_RECV &&
	    dv->wc_read_sgid(dv, &wc->sgid) == 0)
		wc->flags |= SRD_WC_SGID;
}

static inline void read_wc(const struct srd_cq *cq, struct srd_wc *wc)
{
	struct ibv_cq_ex *ex = cq->ibv;

	wc->wr_id = ex->wr_id;
	wc->status = ex->status;
	wc->opcode = ibv_wc_read_opcode(ex);
	wc->flags = 0;
	wc->efa_status = ex->status == IBV_WC_SUCCESS ? 0 : ibv_wc_read_vendor_err(ex);
	if (cq->fields & SRD_CQ_QPN)
		wc->qpn = ibv_wc_read_qp_num(ex);
	if (wc->opcode & IBV_WC_RECV)
		read_received(cq, wc);
	else
		wc->byte_len = 0;
}

static inline void advance(struct srd_cq *cq)
{
	if (!cq->entry_bytes)
		return;
	cq->next += cq->entry_bytes;
	if (cq->next == cq->end) {
		cq->next = cq->first;
		cq->phase ^= CQE_PHASE;
	}
}

static inline int step_once(struct srd_cq *cq, bool first)
{
	/* libefa only reads it. */
	static struct ibv_poll_cq_attr none;

	return first ? ibv_start_poll(cq->ibv, &none) : ibv_next_poll(cq->ibv);
}

/*
 * libefa answers EINVAL for a completion of a destroyed QP, after it has taken it off the ring.
 * There are no more of them than entries; the bound is for a library that would not take it.
 */
static __attribute__((noinline, cold)) int step_past_stale(struct srd_cq *cq, bool first, int rc)
{
	for (int i = 0; i < cq->cqe && rc == EINVAL; i++) {
		advance(cq);
		rc = step_once(cq, first);
	}
	if (rc == 0)
		advance(cq);
	return rc;
}

/* Take the next completion off the ring: 0, or ENOENT. */
static inline int step(struct srd_cq *cq, bool first)
{
	int rc = step_once(cq, first);

	if (unlikely(rc))
		return step_past_stale(cq, first, rc);
	advance(cq);
	return 0;
}

/* Kept apart, as poll_one_by_one() is, so that seeing an empty queue saves no registers. */
static __attribute__((noinline)) int poll_session(struct srd_cq *cq, struct srd_wc *wc, int n)
{
	int got = 0, rc;

	if (n <= 0)
		return 0;
	rc = step(cq, true);
	if (rc)
		return rc == ENOENT ? 0 : -rc;
	do {
		read_wc(cq, &wc[got]);
		if (++got == n || srd_cq_empty(cq))
			break;
	} while (step(cq, false) == 0);
	ibv_end_poll(cq->ibv);
	return got;
}

static __attribute__((noinline)) int poll_one_by_one(struct srd_cq *cq, struct srd_wc *wc, int n)
{
	int got = 0, rc;

	do {
		rc = poll_session(cq, &wc[got], n < 1 ? 0 : 1);
		if (rc <= 0)
			return got ? got : rc;
	} while (++got < n);
	return got;
}

int srd_cq_poll(struct srd_cq *cq, struct srd_wc *wc, int n)
{
	if (srd_cq_empty(cq))
		return 0;
	if (likely(cq->ring != NULL))
		return srd_ring_poll(cq, wc, n);
	return unlikely(cq->one_by_one) ? poll_one_by_one(cq, wc, n) : poll_session(cq, wc, n);
}
