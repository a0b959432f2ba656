/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posting into the rings: the data path of direct queue pairs.
 *
 * On the device the send ring is write-combining memory. Requests are written once, in order, in
 * words of 8 bytes; a store fence goes before the first of them (buffers and earlier stores before
 * requests) and before the doorbell (requests before doorbell). Receive rings are ordinary memory.
 */
#include "direct.h"

#include <string.h>

#include "post.h"

#define unlikely(x)   __builtin_expect(!!(x), 0)
#define ALWAYS_INLINE __attribute__((always_inline))

#if defined(__x86_64__)
#define store_fence() __builtin_ia32_sfence()
#else
#define store_fence() __atomic_thread_fence(__ATOMIC_SEQ_CST) /* never used: direct.c */
#endif

static void ring_doorbell(uint32_t *doorbell, uint16_t count)
{
	/* release: what it announces goes before; a compiler barrier on x86 */
	__atomic_store_n(doorbell, count, __ATOMIC_RELEASE);
}

/* ---- checks ---- */

static __attribute__((noinline)) int check_data(const struct srd_qp *qp, const struct srd_wr *wr)
{
	uint64_t total = 0;

	if (wr->nsge > (srd_wr_is_rdma(wr) ? 1 : qp->max_send_sge))
		return -EINVAL;
	if (!wr->inl)
		return 0;
	for (int i = 0; i < wr->nsge; i++)
		total += wr->sge[i].length;
	return srd_wr_is_rdma(wr) || total > qp->max_inline ? -EINVAL : 0;
}

/* All that may be wrong is found before anything is written. */
static inline int check(const struct srd_qp *qp, const struct srd_wr *wr)
{
	if (unlikely(!srd_wr_allowed(qp, wr)))
		return -EOPNOTSUPP;
	return unlikely(wr->nsge != 1 || wr->inl) ? check_data(qp, wr) : 0;
}

/* ---- requests ---- */

/* The first word of a request, by enum ibv_wr_opcode: all but its number and phase. */
#define HEAD(ctrl1) ((uint32_t)(WQE_META | (ctrl1)) << 16 | (uint32_t)WQE_ALWAYS << 24)
#define HEAD_RDMA   ((uint32_t)(WQE_READ | WQE_WRITE) << 16)
#define HEAD_IMM    ((uint32_t)WQE_IMM << 16)
#define HEAD_PHASE  ((uint32_t)WQE_PHASE << 24)
#define HEAD_INLINE ((uint32_t)WQE_INLINE << 16)

static const uint32_t head_of[] = {
	[IBV_WR_RDMA_WRITE] = HEAD(WQE_WRITE),
	[IBV_WR_RDMA_WRITE_WITH_IMM] = HEAD(WQE_WRITE | WQE_IMM),
	[IBV_WR_SEND] = HEAD(WQE_SEND),
	[IBV_WR_SEND_WITH_IMM] = HEAD(WQE_SEND | WQE_IMM),
	[IBV_WR_RDMA_READ] = HEAD(WQE_READ),
};

static inline uint64_t pair(uint32_t lo, uint32_t hi)
{
	return lo | (uint64_t)hi << 32;
}

/* The part of the body that only a request of 128 bytes has. */
static __attribute__((noinline)) void clear_rest(volatile uint64_t *body)
{
	for (size_t i = WQE_INLINE_BYTES / 8; i < WQE_INLINE_BYTES_128 / 8; i++)
		body[i] = 0;
}

/* The body of a send that is not one SGE: two, none, or the data itself. */
static __attribute__((noinline)) void write_odd_body(volatile uint64_t *body,
						     const struct srd_wr *wr, size_t bytes)
{
	uint64_t words[WQE_INLINE_BYTES_128 / 8] = {0};
	uint8_t *p = (uint8_t *)words;

	if (wr->inl) {
		for (int i = 0; i < wr->nsge; i++) {
			memcpy(p, (const void *)(uintptr_t)wr->sge[i].addr, wr->sge[i].length);
			p += wr->sge[i].length;
		}
	} else {
		for (int i = 0; i < wr->nsge; i++) {
			words[2 * i] = pair(wr->sge[i].length, wr->sge[i].lkey & LKEY_MASK);
			words[2 * i + 1] = wr->sge[i].addr;
		}
	}
	for (size_t i = 0; i < bytes / 8; i++)
		body[i] = words[i];
}

/* All of it. @large: of 128 bytes; @usual: there is one SGE, and no inline data. */
static inline ALWAYS_INLINE void write_body(volatile uint64_t *body, const struct srd_wr *wr,
					    bool rdma, bool large, bool usual)
{
	bool some = usual || wr->nsge;
	uint32_t len = some ? wr->sge[0].length : 0;

	if (unlikely(large))
		clear_rest(body);
	if (rdma) {
		body[0] = pair(len, wr->rkey);
		body[1] = wr->raddr;
		body[2] = some ? pair(len, wr->sge[0].lkey & LKEY_MASK) : 0;
		body[3] = some ? wr->sge[0].addr : 0;
	} else if (!usual && unlikely(wr->nsge != 1 || wr->inl)) {
		write_odd_body(body, wr, large ? WQE_INLINE_BYTES_128 : WQE_INLINE_BYTES);
	} else {
		body[0] = pair(len, wr->sge[0].lkey & LKEY_MASK);
		body[1] = wr->sge[0].addr;
		body[2] = 0;
		body[3] = 0;
	}
}

static uint32_t inline_bytes(const struct srd_wr *wr)
{
	uint32_t total = 0;

	for (int i = 0; i < wr->nsge; i++)
		total += wr->sge[i].length;
	return total;
}

static __attribute__((noinline, cold)) void wrap(struct srd_qp_direct *r)
{
	r->sq = r->sq_first;
	r->sq_phase ^= HEAD_PHASE;
}

/* @bytes: of the entry. */
static inline ALWAYS_INLINE void write_request(struct srd_qp_direct *r, const struct srd_wr *wr,
					       uint32_t bytes, bool usual)
{
	volatile uint64_t *w = (uint64_t *)r->sq;
	uint32_t head = head_of[wr->op], length = usual ? 1 : wr->nsge;
	const struct srd_peer *to = wr->to;

	if (!usual && unlikely(wr->inl)) {
		head |= HEAD_INLINE;
		length = inline_bytes(wr);
	}
	head |= r->sq_phase | srd_slot_get(r->send_cq, r, wr->wr_id);
	w[0] = pair(head, to->qpn | length << 16);
	w[1] = pair(head & HEAD_IMM ? wr->imm : 0, to->ahn);
	w[2] = to->qkey;
	w[3] = 0;
	write_body(w + 4, wr, head & HEAD_RDMA, bytes > 64, usual);
	r->sq_posted++;
	r->sq_left--;
	r->sq = (uint8_t *)w + bytes;
	if (unlikely(r->sq == r->sq_end))
		wrap(r);
}

static inline void announce(struct srd_qp_direct *r)
{
	store_fence();
	ring_doorbell(r->sq_doorbell, r->sq_posted);
}

static __attribute__((noinline)) int post_batch(struct srd_qp *qp, const struct srd_wr *wr, int n)
{
	struct srd_qp_direct *r = qp->direct;
	uint32_t unannounced = 0;

	for (int i = 0; i < n; i++) {
		int rc = check(qp, &wr[i]);

		if (unlikely(rc))
			return rc;
	}
	if (unlikely(!r->sends))
		return -EINVAL;
	if (unlikely((uint32_t)n > r->sq_left || (uint32_t)n > r->send_cq->nfree))
		return (uint32_t)n > qp->sq_depth ? -EINVAL : -EAGAIN;
	store_fence();
	for (int i = 0; i < n; i++) {
		write_request(r, &wr[i], r->sq_entry, false);
		if (unlikely(++unannounced == r->sq_batch)) {
			announce(r);
			unannounced = 0;
		}
	}
	if (unannounced)
		announce(r);
	return 0;
}

/* A single request of one SGE is the usual: it needs no loop, and saves fewer registers. */
int srd_direct_post(struct srd_qp *qp, const struct srd_wr *wr, int n)
{
	struct srd_qp_direct *r = qp->direct;

	if (unlikely(n != 1 || wr->nsge != 1 || wr->inl || r->sq_entry != 64))
		return post_batch(qp, wr, n);
	if (unlikely(!srd_wr_allowed(qp, wr)))
		return -EOPNOTSUPP;
	if (unlikely(!r->sq_left || !r->send_cq->nfree))
		return r->sends ? -EAGAIN : -EINVAL;
	store_fence();
	write_request(r, wr, 64, true);
	announce(r);
	return 0;
}

/* ---- receives ---- */

/* @ends: RX_FIRST and RX_LAST, as it is one of a request; @id in the first. */
static inline void write_desc(struct srd_qp_direct *r, const struct ibv_sge *sge, uint16_t id,
			      uint32_t ends)
{
	r->rq[r->rq_next++ & r->rq_mask] = (struct srd_rx_desc){
		.addr = sge->addr,
		.req_id = id,
		.length = (uint16_t)sge->length,
		.lkey_ctrl = (sge->lkey & LKEY_MASK) | ends,
	};
}

static __attribute__((noinline)) void write_list(struct srd_qp_direct *r,
						 const struct ibv_recv_wr *wr, uint16_t id)
{
	for (int i = 0; i < wr->num_sge; i++)
		write_desc(r, &wr->sg_list[i], i == 0 ? id : 0,
			   (i == 0 ? RX_FIRST : 0) | (i == wr->num_sge - 1 ? RX_LAST : 0));
}

static inline void write_receive(struct srd_qp_direct *r, const struct ibv_recv_wr *wr)
{
	uint16_t id = srd_slot_get(r->recv_cq, r, wr->wr_id);

	if (unlikely(wr->num_sge != 1))
		write_list(r, wr, id);
	else
		write_desc(r, wr->sg_list, id, RX_FIRST | RX_LAST);
	r->rq_left--;
}

int srd_direct_post_recv(struct srd_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct srd_qp_direct *r = qp->direct;
	int rc = 0;

	for (; wr; wr = wr->next) {
		if (unlikely(!r->receives || wr->num_sge > qp->max_recv_sge))
			rc = -EINVAL;
		else if (unlikely(!r->rq_left || !r->recv_cq->nfree))
			rc = -EAGAIN;
		if (unlikely(rc))
			break;
		write_receive(r, wr);
	}
	if (unlikely(rc && bad))
		*bad = wr;
	ring_doorbell(r->rq_doorbell, r->rq_next);
	return rc;
}
