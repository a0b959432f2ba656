/* SPDX-License-Identifier: BSD-3-Clause */
/* An EFA by libibverbs and libefa. */
#include "hw.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <endian.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "kids.h"

struct hw_calls hw_calls;

/* ---- devices ---- */

/*
 * Under a sanitizer dlopen() looks in the runtime's search path, not in that of this program: so
 * the folder is asked for first.
 */
static void *open_library(const char *soname)
{
	const char *dir = getenv("SRD_RDMA_CORE");
	char path[PATH_MAX];
	void *lib = NULL;

	if (dir) {
		snprintf(path, sizeof(path), "%s/%s", dir, soname);
		lib = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	}
	if (!lib)
		lib = dlopen(soname, RTLD_NOW | RTLD_GLOBAL);
	MUST(lib, "%s", dlerror());
	return lib;
}

/* libefa before the first list: its constructor makes it known to libibverbs. */
void hw_load(void)
{
	void *ibv = open_library("libibverbs.so.1"), *efa = open_library("libefa.so.1");

#define X(result, name, args) \
	*(void **)&hw_calls.call_##name = dlsym(strncmp(#name, "efadv", 5) ? ibv : efa, #name);
	HW_CALLS(X)
#undef X
	MUST(HW(efadv_create_cq), "libefa is older than 43");
}

static int by_name(const void *a, const void *b)
{
	return strverscmp((*(struct ibv_device *const *)a)->name,
			  (*(struct ibv_device *const *)b)->name);
}

/* NULL unless it is an EFA. */
static struct ibv_context *try_open(struct ibv_device *dev)
{
	struct efadv_device_attr attr;
	struct ibv_context *ctx = HW(ibv_open_device)(dev);

	if (ctx && HW(efadv_query_device)(ctx, &attr, sizeof(attr))) {
		HW(ibv_close_device)(ctx);
		return NULL;
	}
	return ctx;
}

/* The @index-th, if there is one, and how many were passed on the way. */
static struct ibv_context *find(unsigned index, unsigned *passed)
{
	struct ibv_context *found = NULL;
	struct ibv_device **list;
	int n = 0;

	hw_load();
	list = HW(ibv_get_device_list)(&n);
	if (list)
		qsort(list, (size_t)n, sizeof(*list), by_name);
	*passed = 0;
	for (int i = 0; i < n && !found; i++) {
		struct ibv_context *ctx = try_open(list[i]);

		if (ctx && (*passed)++ == index)
			found = ctx;
		else if (ctx)
			HW(ibv_close_device)(ctx);
	}
	if (list)
		HW(ibv_free_device_list)(list);
	return found;
}

unsigned hw_count(void)
{
	unsigned n;

	find(UINT_MAX, &n);
	MUST(n, "there is no EFA device here, or none that may be opened");
	return n;
}

struct ibv_context *hw_open(unsigned index)
{
	unsigned n;
	struct ibv_context *ctx = find(index, &n);

	MUST(n, "there is no EFA device here, or none that may be opened");
	if (!ctx)
		cr_skip("needs EFA devices: %u, has: %u", index + 1, n);
	return ctx;
}

void hw_need(struct ibv_context *ctx, uint32_t caps)
{
	static const struct {
		uint32_t bit;
		const char *name;
	} names[] = {{HW_READ, "RDMA read"},
		     {HW_WRITE, "RDMA write"},
		     {HW_RNR_RETRY, "RNR retries"},
		     {HW_SGID, "source GIDs in completions"},
		     {HW_UNSOLICITED, "unsolicited writes"}};
	struct efadv_device_attr attr = {0};

	MUST_0(-HW(efadv_query_device)(ctx, &attr, sizeof(attr)));
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (caps & names[i].bit & ~attr.device_caps)
			cr_skip("device or libefa without %s", names[i].name);
}

/* ---- completion queues ---- */

static void fill_ex(const struct hw_cq *cq, struct hw_wc *wc)
{
	struct efadv_cq *efa = HW(efadv_cq_from_ibv_cq_ex)(cq->ex);

	*wc = (struct hw_wc){
		.wr_id = cq->ex->wr_id,
		.ibv = cq->ex->status,
		.status = ibv_wc_read_vendor_err(cq->ex),
	};
	if (wc->ibv != IBV_WC_SUCCESS)
		return;
	wc->op = ibv_wc_read_opcode(cq->ex);
	wc->flags = ibv_wc_read_wc_flags(cq->ex);
	wc->len = ibv_wc_read_byte_len(cq->ex);
	wc->imm = be32toh(ibv_wc_read_imm_data(cq->ex));
	wc->qpn = ibv_wc_read_qp_num(cq->ex);
	wc->src_qpn = ibv_wc_read_src_qp(cq->ex);
	wc->ahn = (uint16_t)ibv_wc_read_slid(cq->ex);
	if (cq->unsolicited)
		wc->unsolicited = efadv_wc_is_unsolicited(efa);
	if (cq->sgid && efadv_wc_read_sgid(efa, &wc->sgid))
		memset(&wc->sgid, 0, sizeof(wc->sgid));
}

static bool next_ex(struct hw_cq *cq, struct hw_wc *wc)
{
	struct ibv_poll_cq_attr attr = {0};
	int rc = ibv_start_poll(cq->ex, &attr);

	if (rc == ENOENT)
		return false;
	MUST_0(-rc);
	fill_ex(cq, wc);
	ibv_end_poll(cq->ex);
	return true;
}

bool hw_next(struct hw_cq *cq, struct hw_wc *wc)
{
	struct ibv_wc w;
	int n;

	if (cq->ex)
		return next_ex(cq, wc);
	n = ibv_poll_cq(cq->cq, 1, &w);
	MUST(n >= 0, "poll: %d", n);
	if (n == 0)
		return false;
	*wc = (struct hw_wc){
		.wr_id = w.wr_id,
		.ibv = w.status,
		.status = w.vendor_err,
		.op = w.opcode,
		.flags = w.wc_flags,
		.len = w.byte_len,
		.imm = be32toh(w.imm_data),
		.qpn = w.qp_num,
		.src_qpn = w.src_qp,
		.ahn = w.slid,
	};
	return true;
}

struct hw_wc hw_wait(struct hw_cq *cq)
{
	int64_t end = kids_now_us() + KIDS_WAIT_MS * INT64_C(1000);
	struct hw_wc wc;

	while (!hw_next(cq, &wc)) {
		MUST(kids_now_us() < end, "no completion within %d ms", KIDS_WAIT_MS);
		kids_nap_us(20);
	}
	MUST((wc.status == HW_OK) == (wc.ibv == IBV_WC_SUCCESS), "status %u is %d of verbs",
	     wc.status, wc.ibv);
	return wc;
}

struct hw_wc hw_wait_for(struct hw_cq *cq, unsigned status)
{
	struct hw_wc wc = hw_wait(cq);

	MUST(wc.status == status, "status %u, not %u, of request %#llx", wc.status, status,
	     (unsigned long long)wc.wr_id);
	return wc;
}

bool hw_quiet(struct hw_cq *cq)
{
	struct hw_wc wc;

	for (unsigned i = 0; i < 25; i++) {
		if (hw_next(cq, &wc))
			return false;
		kids_nap_us(2000);
	}
	return true;
}

/* ---- queue pairs ---- */

int hw_access(const struct hw *h)
{
	return IBV_ACCESS_LOCAL_WRITE |
	       (h->dev.device_caps & HW_READ ? IBV_ACCESS_REMOTE_READ : 0) |
	       (h->dev.device_caps & HW_WRITE ? IBV_ACCESS_REMOTE_WRITE : 0);
}

static void told_cq_create(struct hw_cq *cq, struct hw *h, const struct hw_attr *a)
{
	struct efadv_cq_init_attr efa = {0};
	struct ibv_cq_init_attr_ex ex = {
		.cqe = a->cq ? a->cq : 256,
		.cq_context = h,
		.channel = h->channel,
		.wc_flags = IBV_WC_STANDARD_FLAGS,
	};

	cq->sgid = h->dev.device_caps & HW_SGID;
	cq->unsolicited = h->dev.device_caps & HW_UNSOLICITED;
	if (cq->sgid)
		efa.wc_flags |= EFADV_WC_EX_WITH_SGID;
	if (cq->unsolicited)
		efa.wc_flags |= EFADV_WC_EX_WITH_IS_UNSOLICITED;
	cq->ex = HW(efadv_create_cq)(h->ctx, &ex, &efa, sizeof(efa));
	MUST(cq->ex, "extended CQ: %s", strerror(errno));
	cq->cq = ibv_cq_ex_to_cq(cq->ex);
}

static void cq_create(struct hw_cq *cq, struct hw *h, const struct hw_attr *a)
{
	if (a->told) {
		told_cq_create(cq, h, a);
		return;
	}
	cq->cq = HW(ibv_create_cq)(h->ctx, a->cq ? (int)a->cq : 256, h, h->channel, 0);
	if (!cq->cq && h->channel && errno == EOPNOTSUPP)
		cr_skip("device without completion events");
	MUST(cq->cq, "CQ: %s", strerror(errno));
}

static uint64_t ops(const struct hw *h, bool ud)
{
	uint64_t flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;

	if (!ud && h->dev.device_caps & HW_READ)
		flags |= IBV_QP_EX_WITH_RDMA_READ;
	if (!ud && h->dev.device_caps & HW_WRITE)
		flags |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
	return flags;
}

struct ibv_qp *hw_create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr)
{
	struct verbs_context *v = verbs_get_ctx_op(ctx, create_qp_ex);

	MUST(v, "libibverbs without extended queue pairs");
	return v->create_qp_ex(ctx, attr);
}

struct ibv_qp *hw_qp_create(struct hw *h, const struct hw_attr *a)
{
	struct efadv_qp_init_attr efa = {.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD};
	struct ibv_qp_init_attr_ex ex = {
		.qp_context = h,
		.send_cq = h->scq.cq,
		.recv_cq = h->rcq.cq,
		.cap = {.max_send_wr = a->sq ? a->sq : 64,
			.max_recv_wr = a->rq ? a->rq : 64,
			.max_send_sge = h->dev.max_sq_sge,
			.max_recv_sge = a->recv_sges ? a->recv_sges : 1,
			.max_inline_data = a->max_inline},
		.qp_type = a->ud ? IBV_QPT_UD : IBV_QPT_DRIVER,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = h->pd,
		.send_ops_flags = ops(h, a->ud),
	};

	if (a->unsolicited)
		efa.flags |= EFADV_QP_FLAGS_UNSOLICITED_WRITE_RECV;
	if (a->max_inline > h->dev.inline_buf_size && !a->ud && h->dev.device_caps & HW_WRITE)
		efa.flags |= EFADV_QP_FLAGS_INLINE_WRITE;
	return a->ud ? hw_create_qp_ex(h->ctx, &ex)
		     : HW(efadv_create_qp_ex)(h->ctx, &ex, &efa, sizeof(efa));
}

int hw_qp_to(struct ibv_qp *qp, enum ibv_qp_state state)
{
	return HW(ibv_modify_qp)(qp, &(struct ibv_qp_attr){.qp_state = state}, IBV_QP_STATE);
}

int hw_qp_up(struct ibv_qp *qp, uint32_t qkey, int rnr)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = qkey, .rnr_retry = (uint8_t)rnr};
	int rc = HW(ibv_modify_qp)(qp, &attr,
				   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);

	if (!rc)
		rc = hw_qp_to(qp, IBV_QPS_RTR);
	attr.qp_state = IBV_QPS_RTS;
	if (!rc)
		rc = HW(ibv_modify_qp)(
			qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | (rnr < 0 ? 0 : IBV_QP_RNR_RETRY));
	return rc;
}

static void place(struct hw *h, const struct hw_attr *a)
{
	h->own_ctx = !a->with && !a->near;
	h->own_pd = !a->with;
	h->ctx = a->with ? a->with->ctx : a->near ? a->near->ctx : hw_open(a->dev);
	hw_need(h->ctx,
		a->need | (a->rnr ? HW_RNR_RETRY : 0) | (a->unsolicited ? HW_UNSOLICITED : 0));
	h->pd = a->with ? a->with->pd : HW(ibv_alloc_pd)(h->ctx);
	MUST(h->pd, "PD: %s", strerror(errno));
}

static void sides(struct hw *h)
{
	struct ibv_port_attr port = {0};

	MUST_0(-HW(efadv_query_device)(h->ctx, &h->dev, sizeof(h->dev)));
	MUST_0(-HW(ibv_query_port)(h->ctx, 1, &port));
	h->mtu = port.max_msg_sz;
}

void hw_init(struct hw *h, const struct hw_attr *a)
{
	memset(h, 0, sizeof(*h));
	h->bytes = a->bytes ? a->bytes : 1 << 16;
	h->qkey = HW_QKEY;
	place(h, a);
	sides(h);
	if (a->channel) {
		h->channel = HW(ibv_create_comp_channel)(h->ctx);
		MUST(h->channel, "channel: %s", strerror(errno));
	}
	cq_create(&h->scq, h, a);
	cq_create(&h->rcq, h, a);
	h->qp = hw_qp_create(h, a);
	MUST(h->qp, "QP: %s", strerror(errno));
	h->qpx = HW(ibv_qp_to_qp_ex)(h->qp);
	MUST_0(-hw_qp_up(h->qp, h->qkey, a->rnr - 1));
	h->buf = aligned_alloc(4096, (h->bytes + 4095) & ~(size_t)4095);
	MUST(h->buf, "no memory");
	memset(h->buf, 0, h->bytes);
	h->mr = HW(ibv_reg_mr)(h->pd, h->buf, h->bytes, hw_access(h));
	MUST(h->mr, "MR: %s", strerror(errno));
}

void hw_fini(struct hw *h)
{
	MUST_0(h->qp ? -HW(ibv_destroy_qp)(h->qp) : 0);
	MUST_0(-HW(ibv_destroy_cq)(h->scq.cq));
	MUST_0(-HW(ibv_destroy_cq)(h->rcq.cq));
	MUST_0(h->channel ? -HW(ibv_destroy_comp_channel)(h->channel) : 0);
	MUST_0(h->mr ? -HW(ibv_dereg_mr)(h->mr) : 0);
	for (unsigned i = 0; i < h->nah; i++)
		MUST_0(-HW(ibv_destroy_ah)(h->ah[i]));
	MUST_0(h->own_pd ? -HW(ibv_dealloc_pd)(h->pd) : 0);
	MUST_0(h->own_ctx ? -HW(ibv_close_device)(h->ctx) : 0);
	free(h->buf);
	memset(h, 0, sizeof(*h));
}

/* ---- addresses ---- */

struct hw_addr hw_addr(const struct hw *h)
{
	struct hw_addr a = {.qpn = h->qp->qp_num,
			    .qkey = h->qkey,
			    .rkey = h->mr->rkey,
			    .addr = (uintptr_t)h->buf};

	MUST_0(-HW(ibv_query_gid)(h->ctx, 1, 0, &a.gid));
	return a;
}

struct ibv_ah *hw_ah_create(struct ibv_pd *pd, const union ibv_gid *gid)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh.dgid = *gid};

	return HW(ibv_create_ah)(pd, &attr);
}

struct ibv_ah *hw_ah(struct hw *h, const struct hw_addr *to)
{
	struct ibv_ah *ah = hw_ah_create(h->pd, &to->gid);

	MUST(ah && h->nah < HW_AHS, "AH: %s", strerror(errno));
	h->ah[h->nah++] = ah;
	return ah;
}

uint16_t hw_ahn(struct ibv_ah *ah)
{
	struct efadv_ah_attr attr = {0};

	MUST_0(-HW(efadv_query_ah)(ah, &attr, sizeof(attr)));
	return attr.ahn;
}

/* ---- work ---- */

struct ibv_sge hw_sge(const struct ibv_mr *mr, int64_t off, uint32_t len)
{
	return (struct ibv_sge){(uintptr_t)mr->addr + (uint64_t)off, len, mr->lkey};
}

struct hw_wr hw_wr(const struct hw *h, enum hw_op op, const struct hw_addr *to, struct ibv_ah *ah,
		   uint64_t off, uint32_t len, uint64_t roff)
{
	return (struct hw_wr){
		.op = op,
		.wr_id = 0xabcdef0123456789,
		.ah = ah,
		.qpn = to->qpn,
		.qkey = to->qkey,
		.raddr = to->addr + roff,
		.rkey = to->rkey,
		.nsge = 1,
		.sge = {hw_sge(h->mr, (int64_t)off, len)},
	};
}

static void start_wr(struct ibv_qp_ex *x, const struct hw_wr *wr)
{
	if (wr->op == HW_OP_SEND && wr->imm_on)
		ibv_wr_send_imm(x, htobe32(wr->imm));
	else if (wr->op == HW_OP_SEND)
		ibv_wr_send(x);
	else if (wr->op == HW_OP_READ)
		ibv_wr_rdma_read(x, wr->rkey, wr->raddr);
	else if (wr->imm_on)
		ibv_wr_rdma_write_imm(x, wr->rkey, wr->raddr, htobe32(wr->imm));
	else
		ibv_wr_rdma_write(x, wr->rkey, wr->raddr);
}

int hw_try_post(struct hw *h, const struct hw_wr *wr)
{
	struct ibv_qp_ex *x = h->qpx;

	ibv_wr_start(x);
	x->wr_id = wr->wr_id;
	x->wr_flags = wr->data ? IBV_SEND_INLINE : 0;
	start_wr(x, wr);
	if (wr->data)
		ibv_wr_set_inline_data(x, (void *)(uintptr_t)wr->data, wr->data_len);
	else if (wr->nsge == 1)
		ibv_wr_set_sge(x, wr->sge[0].lkey, wr->sge[0].addr, wr->sge[0].length);
	else
		ibv_wr_set_sge_list(x, wr->nsge, wr->sge);
	ibv_wr_set_ud_addr(x, wr->ah, wr->qpn, wr->qkey);
	return ibv_wr_complete(x);
}

void hw_post(struct hw *h, const struct hw_wr *wr)
{
	MUST_0(-hw_try_post(h, wr));
}

struct hw_wc hw_run(struct hw *h, const struct hw_wr *wr)
{
	struct hw_wc wc;

	hw_post(h, wr);
	wc = hw_wait(&h->scq);
	MUST(wc.wr_id == wr->wr_id, "completion of %#llx", (unsigned long long)wc.wr_id);
	return wc;
}

int hw_try_recv(struct hw *h, uint64_t wr_id, struct ibv_sge *sge, int nsge)
{
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = sge, .num_sge = nsge}, *bad;

	return ibv_post_recv(h->qp, &wr, &bad);
}

void hw_recv(struct hw *h, uint64_t wr_id, uint64_t off, uint32_t len)
{
	struct ibv_sge sge = hw_sge(h->mr, (int64_t)off, len);

	MUST_0(-hw_try_recv(h, wr_id, &sge, 1));
}

/* ---- pairs ---- */

void hw_pair_init(struct hw_pair *p, const struct hw_attr *a, const struct hw_attr *b)
{
	struct hw_attr attr = b ? *b : *a;

	memset(p, 0, sizeof(*p));
	hw_init(&p->a, a);
	if (!b)
		attr.with = &p->a;
	hw_init(&p->b, &attr);
	p->to_a = hw_addr(&p->a);
	p->to_b = hw_addr(&p->b);
	p->ah_b = hw_ah(&p->a, &p->to_b);
	p->ah_a = hw_ah(&p->b, &p->to_a);
}

void hw_pair_fini(struct hw_pair *p)
{
	hw_fini(&p->b);
	hw_fini(&p->a);
}

struct hw_wr hw_pair_wr(const struct hw_pair *p, enum hw_op op, uint64_t off, uint32_t len,
			uint64_t roff)
{
	return hw_wr(&p->a, op, &p->to_b, p->ah_b, off, len, roff);
}

void hw_pair_send_waiting(struct hw_pair *p, unsigned n, uint32_t len)
{
	struct hw_wr wr = hw_pair_wr(p, HW_OP_SEND, 0, len, 0);

	for (wr.wr_id = 0; wr.wr_id < n; wr.wr_id++)
		hw_post(&p->a, &wr);
}

void hw_pair_waiting_fail(struct hw_pair *p, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		unsigned status = hw_wait(&p->a.scq).status;

		MUST(status == HW_BAD_QPN || status == HW_ABORTED, "status %u", status);
	}
	MUST(hw_quiet(&p->a.scq), "more than was posted");
}

void hw_pair_works(struct hw_pair *p)
{
	struct hw_wr wr = hw_pair_wr(p, HW_OP_SEND, 0, 8, 0);
	struct hw_wc wc;

	hw_recv(&p->b, 0x77, 0, 8 + HW_GRH);
	wr.wr_id = 0x66;
	wr.imm_on = true;
	wr.imm = 0x55;
	MUST(hw_run(&p->a, &wr).status == HW_OK, "A is broken");
	wc = hw_wait_for(&p->b.rcq, HW_OK);
	MUST(wc.imm == 0x55, "immediate %#x", wc.imm);
}
