/* SPDX-License-Identifier: BSD-3-Clause */
/* An EFA client without rdma-core: objects by commands, work by rings. All little-endian. */
#include "raw.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096u

/* Fields of structures of the ABI, by offset. */
static void put16(void *p, unsigned off, uint16_t v)
{
	memcpy((uint8_t *)p + off, &v, sizeof(v));
}

static void put32(void *p, unsigned off, uint32_t v)
{
	memcpy((uint8_t *)p + off, &v, sizeof(v));
}

static void put64(void *p, unsigned off, uint64_t v)
{
	memcpy((uint8_t *)p + off, &v, sizeof(v));
}

static uint16_t get16(const void *p, unsigned off)
{
	uint16_t v;

	memcpy(&v, (const uint8_t *)p + off, sizeof(v));
	return v;
}

static uint32_t get32(const void *p, unsigned off)
{
	uint32_t v;

	memcpy(&v, (const uint8_t *)p + off, sizeof(v));
	return v;
}

static uint64_t get64(const void *p, unsigned off)
{
	uint64_t v;

	memcpy(&v, (const uint8_t *)p + off, sizeof(v));
	return v;
}

/* ---- device ---- */

static int get_context(struct raw_dev *d)
{
	const uint8_t in[8] = {3}; /* limits of batches and of small queues are understood */
	uint8_t out[24] = {0};
	uint64_t core;
	struct raw_cmd c;
	int rc;

	raw_cmd_init(&c, RAW_DEVICE, RAW_GET_CONTEXT);
	raw_cmd_out(&c, 0, &d->num_comp_vectors, 4);
	raw_cmd_out(&c, 1, &core, 8);
	raw_cmd_in(&c, RAW_UHW_IN, in, sizeof(in));
	raw_cmd_out(&c, RAW_UHW_OUT, out, sizeof(out));
	rc = raw_cmd_run(d->sys, d->fd, &c);
	d->inline_size = get16(out, 10);
	d->max_llq_size = get32(out, 12);
	d->max_tx_batch = get16(out, 16);
	d->min_sq_wr = get16(out, 18);
	d->inline_size_ex = get16(out, 20);
	return rc;
}

int raw_open(struct raw_dev *d, const struct raw_sys *sys, unsigned index)
{
	int rc;

	memset(d, 0, sizeof(*d));
	d->fd = sys->open(index);
	if (d->fd < 0)
		return d->fd;
	d->sys = sys;
	rc = get_context(d);
	if (rc)
		raw_close(d);
	return rc;
}

void raw_close(struct raw_dev *d)
{
	if (d->sys)
		d->sys->close(d->fd);
	memset(d, 0, sizeof(*d));
}

int raw_gid(const struct raw_dev *d, struct raw_gid *gid)
{
	uint8_t entry[32] = {0};
	struct raw_cmd c;
	int rc;

	raw_cmd_init(&c, RAW_DEVICE, RAW_QUERY_GID);
	raw_cmd_u64(&c, 0, 1);
	raw_cmd_u64(&c, 1, 0);
	raw_cmd_u32(&c, 2, 0);
	raw_cmd_out(&c, 3, entry, sizeof(entry));
	rc = raw_cmd_run(d->sys, d->fd, &c);
	memcpy(gid->b, entry, sizeof(gid->b));
	return rc;
}

static int destroy(const struct raw_dev *d, uint16_t object, uint16_t method, uint32_t handle,
		   void *out, uint16_t len)
{
	struct raw_cmd c;

	if (!d->sys)
		return 0;
	raw_cmd_init(&c, object, method);
	raw_cmd_handle(&c, 0, handle);
	if (out)
		raw_cmd_out(&c, 1, out, len);
	return raw_cmd_run(d->sys, d->fd, &c);
}

/* ---- PD, MR, AH ---- */

int raw_pd_alloc(struct raw_pd *pd, const struct raw_dev *d)
{
	uint8_t in[8] = {0}, out[4] = {0}, uhw[8];
	struct raw_write w = {3, in, sizeof(in), out, sizeof(out), uhw, sizeof(uhw)};
	int rc = raw_write_run(d->sys, d->fd, &w);

	*pd = (struct raw_pd){get32(out, 0), rc == 0};
	return rc;
}

int raw_pd_free(struct raw_pd *pd, const struct raw_dev *d)
{
	int rc = pd->live ? destroy(d, RAW_PD, RAW_PD_FREE, pd->handle, NULL, 0) : 0;

	pd->live = pd->live && rc;
	return rc;
}

int raw_mr_reg(struct raw_mr *mr, const struct raw_dev *d, const struct raw_pd *pd, void *p,
	       uint64_t len, uint32_t access)
{
	uint8_t in[40] = {0}, out[12] = {0};
	struct raw_write w = {9, in, sizeof(in), out, sizeof(out), NULL, 0};
	int rc;

	put64(in, 8, (uintptr_t)p);
	put64(in, 16, len);
	put64(in, 24, (uintptr_t)p); /* iova */
	put32(in, 32, pd->handle);
	put32(in, 36, access);
	rc = raw_write_run(d->sys, d->fd, &w);
	*mr = (struct raw_mr){get32(out, 0), get32(out, 4), (uintptr_t)p, len, rc == 0};
	return rc;
}

int raw_mr_reg_dmabuf(struct raw_mr *mr, const struct raw_dev *d, const struct raw_pd *pd,
		      const struct raw_dmabuf *b)
{
	struct raw_attr *handle;
	uint32_t lkey = 0, rkey = 0;
	struct raw_cmd c;
	int rc;

	raw_cmd_init(&c, RAW_MR, RAW_MR_REG_DMABUF);
	handle = raw_cmd_handle(&c, 0, 0);
	raw_cmd_handle(&c, 1, pd->handle);
	raw_cmd_u64(&c, 2, b->off);
	raw_cmd_u64(&c, 3, b->len);
	raw_cmd_u64(&c, 4, b->iova);
	raw_cmd_u32(&c, 5, (uint32_t)b->fd);
	raw_cmd_u32(&c, 6, b->access);
	raw_cmd_out(&c, 7, &lkey, sizeof(lkey));
	raw_cmd_out(&c, 8, &rkey, sizeof(rkey));
	rc = raw_cmd_run(d->sys, d->fd, &c);
	*mr = (struct raw_mr){(uint32_t)handle->data, rkey, b->iova, b->len, rc == 0};
	return rc ? rc : lkey == rkey ? 0 : -EPROTO;
}

int raw_mr_dereg(struct raw_mr *mr, const struct raw_dev *d)
{
	int rc = mr->live ? destroy(d, RAW_MR, RAW_MR_FREE, mr->handle, NULL, 0) : 0;

	mr->live = mr->live && rc;
	return rc;
}

int raw_ah_create(struct raw_ah *ah, const struct raw_dev *d, const struct raw_pd *pd,
		  const struct raw_gid *gid)
{
	uint8_t in[56] = {0}, out[4] = {0}, uhw[8] = {0};
	struct raw_write w = {5, in, sizeof(in), out, sizeof(out), uhw, sizeof(uhw)};
	int rc;

	put32(in, 16, pd->handle);
	memcpy(in + 24, gid->b, sizeof(gid->b));
	in[53] = 1; /* is_global */
	in[54] = 1; /* port */
	rc = raw_write_run(d->sys, d->fd, &w);
	*ah = (struct raw_ah){get32(out, 0), get16(uhw, 4), rc == 0};
	return rc;
}

int raw_ah_destroy(struct raw_ah *ah, const struct raw_dev *d)
{
	int rc = ah->live ? destroy(d, RAW_AH, RAW_AH_FREE, ah->handle, NULL, 0) : 0;

	ah->live = ah->live && rc;
	return rc;
}

/* ---- completion queues ---- */

static uint8_t *map(const struct raw_dev *d, uint64_t key, size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, d->fd, (off_t)key);

	return p == MAP_FAILED ? NULL : p;
}

static void unmap(uint8_t *p, size_t len)
{
	if (p)
		munmap(p, len);
}

int raw_channel(const struct raw_dev *d, int *fd)
{
	uint8_t in[8] = {0}, out[4] = {0};
	struct raw_write w = {17, in, sizeof(in), out, sizeof(out), NULL, 0};
	int rc = raw_write_run(d->sys, d->fd, &w);

	*fd = (int)get32(out, 0);
	return rc;
}

int raw_async(const struct raw_dev *d, int *fd)
{
	struct raw_attr *handle;
	struct raw_cmd c;
	int rc;

	raw_cmd_init(&c, RAW_ASYNC, 0);
	handle = raw_cmd_handle(&c, 0, 0);
	rc = raw_cmd_run(d->sys, d->fd, &c);
	*fd = (int)handle->data;
	return rc;
}

static int cq_map(struct raw_cq *cq, const struct raw_dev *d, const uint8_t *uhw)
{
	cq->ring_len = get64(uhw, 16);
	cq->ring = map(d, get64(uhw, 8), cq->ring_len);
	cq->db_page = map(d, get64(uhw, 32), PAGE);
	cq->db = (uint32_t *)(void *)(cq->db_page + get32(uhw, 28));
	return cq->ring && cq->db_page ? 0 : -ENOMEM;
}

int raw_cq_create(struct raw_cq *cq, const struct raw_dev *d, const struct raw_cq_attr *attr)
{
	uint8_t in[16] = {0}, uhw[40] = {0};
	uint32_t entry = attr->entry ? attr->entry : 32, depth = 0;
	struct raw_attr *handle;
	struct raw_cmd c;
	int rc;

	put32(in, 4, entry);
	put16(in, 8, 1); /* sub-CQs */
	in[10] = (uint8_t)((attr->channel ? 1 : 0) | (attr->sgid ? 2 : 0) |
			   (attr->req_id_64 ? 4 : 0));
	raw_cmd_init(&c, RAW_CQ, RAW_CREATE);
	handle = raw_cmd_handle(&c, 0, 0);
	raw_cmd_u32(&c, 1, attr->depth);
	raw_cmd_u64(&c, 2, attr->user);
	raw_cmd_u32(&c, 4, 0);
	raw_cmd_out(&c, 6, &depth, 4);
	raw_cmd_in(&c, RAW_UHW_IN, in, sizeof(in));
	raw_cmd_out(&c, RAW_UHW_OUT, uhw, sizeof(uhw));
	if (attr->channel)
		raw_cmd_handle(&c, 3, (uint32_t)attr->channel);
	if (attr->async)
		raw_cmd_handle(&c, 7, (uint32_t)attr->async);
	memset(cq, 0, sizeof(*cq));
	rc = raw_cmd_run(d->sys, d->fd, &c);
	if (rc)
		return rc;
	*cq = (struct raw_cq){.handle = (uint32_t)handle->data, .depth = depth, .entry = entry};
	cq->phase = 1;
	cq->live = true;
	rc = cq_map(cq, d, uhw);
	if (rc)
		raw_cq_destroy(cq, d, NULL);
	return rc;
}

int raw_cq_destroy(struct raw_cq *cq, const struct raw_dev *d, uint32_t *events)
{
	uint8_t out[8] = {0};
	int rc = cq->live ? destroy(d, RAW_CQ, RAW_DESTROY, cq->handle, out, sizeof(out)) : 0;

	if (rc)
		return rc;
	if (events)
		*events = get32(out, 0);
	unmap(cq->ring, cq->ring_len);
	unmap(cq->db_page, PAGE);
	memset(cq, 0, sizeof(*cq));
	return 0;
}

static void unpack(const struct raw_cq *cq, const uint8_t *e, struct raw_wc *wc)
{
	uint8_t flags = e[3];

	memset(wc, 0, sizeof(*wc));
	wc->req_id = get16(e, 0);
	wc->status = e[2];
	wc->op = flags >> 4 & 7;
	wc->recv = (flags >> 1 & 3) == 2;
	wc->has_imm = flags >> 3 & 1;
	wc->unsolicited = flags >> 7;
	wc->qpn = get16(e, 4);
	if (!wc->recv) {
		for (unsigned i = 0; i < 3; i++)
			wc->req_id |= (uint64_t)get16(e, 6 + 2 * i) << (16 * (i + 1));
		return;
	}
	wc->len = get16(e, 6);
	wc->ahn = get16(e, 8);
	wc->src_qpn = get16(e, 10);
	wc->imm = get32(e, 12);
	if (cq->entry < 32)
		return;
	if (wc->op == RAW_WRITE)
		wc->len |= (uint32_t)get16(e, 16) << 16;
	else
		memcpy(wc->sgid.b, e + 16, sizeof(wc->sgid.b));
}

bool raw_cq_next(struct raw_cq *cq, struct raw_wc *wc)
{
	uint8_t *e = cq->ring + (size_t)cq->next * cq->entry;

	/* acquire: the rest of the entry after its phase bit */
	if ((__atomic_load_n(e + 3, __ATOMIC_ACQUIRE) & 1) != cq->phase)
		return false;
	unpack(cq, e, wc);
	cq->cons++;
	if (++cq->next == cq->depth) {
		cq->next = 0;
		cq->phase ^= 1;
	}
	return true;
}

void raw_cq_done(struct raw_cq *cq, bool arm)
{
	uint32_t db = cq->cons | (cq->events & 3u) << 29 | (arm ? 1u << 31 : 0);

	__atomic_store_n(cq->db, db, __ATOMIC_RELEASE);
}

bool raw_poll(struct raw_cq *cq, struct raw_wc *wc)
{
	if (!raw_cq_next(cq, wc))
		return false;
	raw_cq_done(cq, false);
	return true;
}

/* ---- queue pairs ---- */

static int qp_map(struct raw_qp *qp, const struct raw_dev *d, const uint8_t *uhw)
{
	uint32_t llq_off = get32(uhw, 12);
	size_t sq_bytes = (size_t)qp->sq_depth * qp->stride;

	if (sq_bytes) {
		qp->sq_len = (sq_bytes + llq_off + PAGE - 1) & ~(size_t)(PAGE - 1);
		qp->sq_map = map(d, get64(uhw, 48), qp->sq_len);
		qp->sq_db_page = map(d, get64(uhw, 40), PAGE);
		if (!qp->sq_map || !qp->sq_db_page)
			return -ENOMEM;
		qp->sq = qp->sq_map + llq_off;
		qp->sq_db = (uint32_t *)(void *)(qp->sq_db_page + get32(uhw, 8));
	}
	if (qp->rq_depth) {
		qp->rq_len = get64(uhw, 24);
		qp->rq = map(d, get64(uhw, 16), qp->rq_len);
		qp->rq_db_page = map(d, get64(uhw, 32), PAGE);
		if (!qp->rq || !qp->rq_db_page)
			return -ENOMEM;
		qp->rq_db = (uint32_t *)(void *)(qp->rq_db_page + get32(uhw, 4));
	}
	return 0;
}

int raw_qp_create(struct raw_qp *qp, const struct raw_dev *d, const struct raw_pd *pd,
		  const struct raw_cq *scq, const struct raw_cq *rcq,
		  const struct raw_qp_attr *attr)
{
	uint32_t stride = attr->stride ? attr->stride : 64, qpn = 0;
	uint8_t cap[20] = {0}, cap_out[20], in[24] = {0}, uhw[64] = {0};
	struct raw_attr *handle;
	struct raw_cmd c;
	int rc;

	put32(cap, 0, attr->sq);
	put32(cap, 4, attr->rq);
	put32(cap, 8, 1);
	put32(cap, 12, 1);
	put32(cap, 16, attr->max_inline);
	put32(in, 4, attr->rq * 16);
	put32(in, 8, attr->sq * stride);
	put16(in, 16, (uint16_t)((attr->unsolicited ? 1 : 0) | (attr->req_id_64 ? 2 : 0)));
	in[18] = attr->sl;
	raw_cmd_init(&c, RAW_QP, RAW_CREATE);
	handle = raw_cmd_handle(&c, 0, 0);
	raw_cmd_handle(&c, 2, pd->handle);
	raw_cmd_handle(&c, 4, scq->handle);
	raw_cmd_handle(&c, 5, rcq->handle);
	raw_cmd_u64(&c, 7, (uintptr_t)qp);
	if (attr->async)
		raw_cmd_handle(&c, 12, (uint32_t)attr->async);
	raw_cmd_in(&c, 8, cap, sizeof(cap));
	raw_cmd_u64(&c, 9, attr->type);
	raw_cmd_out(&c, 13, cap_out, sizeof(cap_out));
	raw_cmd_out(&c, 14, &qpn, sizeof(qpn));
	raw_cmd_in(&c, RAW_UHW_IN, in, sizeof(in));
	raw_cmd_out(&c, RAW_UHW_OUT, uhw, sizeof(uhw));
	memset(qp, 0, sizeof(*qp));
	rc = raw_cmd_run(d->sys, d->fd, &c);
	if (rc)
		return rc;
	*qp = (struct raw_qp){.handle = (uint32_t)handle->data, .qpn = qpn, .stride = stride};
	qp->sq_depth = attr->sq;
	qp->rq_depth = attr->rq;
	qp->req_id_64 = attr->req_id_64;
	qp->live = true;
	rc = qp_map(qp, d, uhw);
	if (rc)
		raw_qp_destroy(qp, d);
	return rc;
}

int raw_qp_destroy(struct raw_qp *qp, const struct raw_dev *d)
{
	uint8_t out[4];
	int rc = qp->live ? destroy(d, RAW_QP, RAW_DESTROY, qp->handle, out, sizeof(out)) : 0;

	if (rc)
		return rc;
	unmap(qp->sq_map, qp->sq_len);
	unmap(qp->rq, qp->rq_len);
	unmap(qp->sq_db_page, PAGE);
	unmap(qp->rq_db_page, PAGE);
	memset(qp, 0, sizeof(*qp));
	return 0;
}

int raw_qp_modify(struct raw_qp *qp, const struct raw_dev *d, const struct raw_modify *m)
{
	uint8_t in[112] = {0};
	struct raw_write w = {26, in, sizeof(in), NULL, 0, NULL, 0};

	put32(in, 64, qp->handle);
	put32(in, 68, m->mask);
	put32(in, 72, m->qkey);
	put32(in, 80, m->psn);
	put16(in, 92, m->pkey);
	in[96] = m->state;
	in[97] = m->cur_state;
	in[104] = m->port;
	in[107] = m->rnr_retry;
	return raw_write_run(d->sys, d->fd, &w);
}

int raw_qp_to(struct raw_qp *qp, const struct raw_dev *d, enum raw_state state)
{
	int rc = raw_qp_modify(qp, d,
			       &(struct raw_modify){.mask = RAW_M_STATE, .state = (uint8_t)state});

	if (!rc && state == RAW_RESET)
		qp->sq_prod = qp->rq_prod = 0;
	return rc;
}

int raw_qp_up(struct raw_qp *qp, const struct raw_dev *d, uint32_t qkey, int rnr)
{
	struct raw_modify init = {.mask = RAW_M_STATE | RAW_M_PKEY | RAW_M_PORT | RAW_M_QKEY,
				  .state = RAW_INIT,
				  .port = 1,
				  .qkey = qkey};
	struct raw_modify rts = {.mask = RAW_M_STATE | RAW_M_PSN | (rnr < 0 ? 0 : RAW_M_RNR),
				 .state = RAW_RTS,
				 .rnr_retry = (uint8_t)rnr};
	int rc = raw_qp_modify(qp, d, &init);

	qp->qkey = qkey;
	if (!rc)
		rc = raw_qp_to(qp, d, RAW_RTR);
	return rc ? rc : raw_qp_modify(qp, d, &rts);
}

/* ---- work ---- */

static void put_buf(uint8_t *at, const struct raw_sge *s)
{
	put32(at, 0, s->len);
	put32(at, 4, s->key);
	put64(at, 8, s->addr);
}

static void put_body(uint8_t *wqe, const struct raw_wr *wr)
{
	uint8_t *body = wqe + 32;

	if (wr->op != RAW_SEND) {
		put_buf(body, &wr->remote);
		body += 16;
	}
	if (wr->data) {
		memcpy(body, wr->data, wr->data_len);
		return;
	}
	for (unsigned i = 0; i < wr->nsge; i++)
		put_buf(body + 16 * i, &wr->sge[i]);
}

void raw_post(struct raw_qp *qp, const struct raw_wr *wr)
{
	uint8_t wqe[128] = {0};
	uint16_t slot = qp->sq_prod & (qp->sq_depth - 1);
	uint8_t phase = (uint8_t)(qp->sq_prod / qp->sq_depth & 1);

	put16(wqe, 0, (uint16_t)wr->req_id);
	wqe[2] = (uint8_t)(wr->op | (wr->imm_on ? 0x10 : 0) | (wr->data ? 0x20 : 0) | 0x80);
	wqe[3] = phase | 0x04 | 0x08 | 0x10; /* first, last, completion wanted */
	put16(wqe, 4, wr->qpn);
	put16(wqe, 6, wr->data ? wr->data_len : (uint16_t)wr->nsge);
	put32(wqe, 8, wr->imm);
	put16(wqe, 12, wr->ahn);
	put32(wqe, 16, wr->qkey);
	if (qp->req_id_64)
		for (unsigned i = 0; i < 3; i++)
			put16(wqe, 26 + 2 * i, (uint16_t)(wr->req_id >> (16 * (i + 1))));
	put_body(wqe, wr);
	memcpy(qp->sq + (size_t)slot * qp->stride, wqe, qp->stride);
	qp->sq_prod++;
}

void raw_post_recv(struct raw_qp *qp, uint16_t req_id, const struct raw_sge *sge, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		uint8_t *d = qp->rq + 16 * (size_t)(qp->rq_prod & (qp->rq_depth - 1));
		uint32_t ctrl = (sge[i].key & 0xffffff) | (i == 0 ? 1u << 30 : 0) |
				(i == n - 1 ? 1u << 31 : 0);

		put64(d, 0, sge[i].addr);
		put16(d, 8, req_id);
		put16(d, 10, (uint16_t)sge[i].len);
		put32(d, 12, ctrl);
		qp->rq_prod++;
	}
}

void raw_ring(struct raw_qp *qp)
{
	/* release: descriptors before the doorbell that tells of them */
	if (qp->sq_db)
		__atomic_store_n(qp->sq_db, qp->sq_prod, __ATOMIC_RELEASE);
	if (qp->rq_db)
		__atomic_store_n(qp->rq_db, qp->rq_prod, __ATOMIC_RELEASE);
}

struct raw_sge raw_sge(const struct raw_mr *mr, uint64_t off, uint32_t len)
{
	return (struct raw_sge){mr->addr + off, len, mr->key};
}
