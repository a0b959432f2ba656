/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * srd - a thin C layer over libibverbs/libefa for EFA queue pairs (SRD and UD).
 *
 * Conventions, once:
 *   - int functions return 0 (or a count >= 0) on success, -errno on failure. -EAGAIN: not now,
 *     nothing changed. -EOPNOTSUPP: this device, or the rdma-core found at run time, lacks it.
 *   - X_init(obj, ...) fills storage of the caller; X_fini(obj) undoes it, never fails and leaves
 *     obj zeroed. A zeroed obj may be given to X_fini(). When X_init() fails, obj is zeroed.
 *   - Pointer parameters are borrowed for the call, unless "kept until" says otherwise. Objects
 *     must be finished in reverse order of their making (QPs before CQs before PD before device).
 *   - Raw ibv_* handles are public: use verbs on them freely, destroy them only through X_fini().
 *   - Threads: a QP with its CQs belongs to one thread at a time, nothing here locks on their data
 *     path. Device, PD, MR and peer calls may come from any thread.
 *   - libibverbs.so.1 and libefa.so.1 are loaded on first use; nothing links to them. A copy that
 *     the process has already is taken, else SRD_RDMA_CORE=DIR is looked in first. The call that
 *     needs a missing library or symbol fails with -ENOENT or -EOPNOTSUPP; its name is logged once.
 *   - Completions are matched by wr_id, never by order: SRD promises none, not even between two
 *     writes of one QP, and never between data and a later message.
 */
#ifndef SRD_H
#define SRD_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define SRD_VERSION "0.1.0" /* no promise about the ABI before 1.0 */

/* ---- log ---- */

enum srd_log_level { SRD_LOG_ERROR, SRD_LOG_WARN, SRD_LOG_INFO };

/* One finished line, no newline. May be called from any thread; must not call back into srd. */
typedef void (*srd_log_fn)(void *arg, enum srd_log_level level, const char *line);

/*
 * Send log lines to @fn (NULL: to stderr, the default). Lines above the level named by the
 * environment variable SRD_LOG (error, warn, info; default warn) are never formatted.
 * Process wide; @arg is kept until the next call.
 */
void srd_log_to(srd_log_fn fn, void *arg);

/* ---- libraries ---- */

/* The rdma-core that was found at run time. Empty strings: not known. */
struct srd_lib_info {
	char ibverbs[256], efa[256]; /* files of libibverbs and libefa */
	char rdma_core[16];          /* release, as "59.0", by the name of libefa's file */
};

/* -ENOENT, -EOPNOTSUPP: it cannot be loaded. */
int srd_lib_query(struct srd_lib_info *info);

/* ---- devices ---- */

struct srd_dev_info {
	char name[IBV_SYSFS_NAME_MAX];
	uint64_t guid;    /* node GUID, host order */
	uint16_t part_id; /* PCI device id, 0xefa0 ... 0xefa4; 0 when sysfs does not tell */
	bool is_efa;
};

/*
 * Fill up to @cap entries of @out, sorted by name. Returns how many devices exist: it may exceed
 * @cap, and is 0 on a host without RDMA. Opens a device only when sysfs does not tell what it is.
 */
int srd_dev_list(struct srd_dev_info *out, int cap, bool efa_only);

/*
 * What the device and the libefa found at run time both can. Our own names, because
 * <infiniband/efadv.h> differs by release; the values are those of EFADV_DEVICE_ATTR_CAPS_*.
 */
enum {
	SRD_CAP_RDMA_READ = 1u << 0,
	SRD_CAP_RNR_RETRY = 1u << 1,
	SRD_CAP_CQ_WITH_SGID = 1u << 2,
	SRD_CAP_RDMA_WRITE = 1u << 3,             /* libefa >= 46 */
	SRD_CAP_UNSOLICITED_WRITE_RECV = 1u << 4, /* libefa >= 52 */
	SRD_CAP_CQ_WITH_EXT_MEM = 1u << 5,        /* CQs in memory of the caller, by efadv only */
};

struct srd_dev_attr {
	union ibv_gid gid;    /* the device's only address */
	uint64_t guid;        /* node GUID, host order */
	uint64_t max_mr_size; /* bytes */
	uint32_t caps;        /* SRD_CAP_* */
	uint32_t part_id;
	uint32_t max_rdma_size; /* bytes of one RDMA read or write */
	uint32_t max_msg_size;  /* bytes of one send: the MTU, there is no segmentation */
	uint32_t max_sq_wr, max_rq_wr, max_cqe;
	uint32_t max_qp, max_cq, max_mr, max_pd, max_ah;
	uint32_t speed_mbps; /* port 1 */
	uint16_t max_sq_sge, max_rq_sge;
	uint16_t inline_size; /* bytes a send can carry in its work request */
	uint32_t hw_ver;
	char fw_ver[64];
};

struct srd_dev {
	struct ibv_context *ibv;
	struct srd_dev_attr attr;
};

/* Open the EFA device @name and read its attributes. -ENODEV: no such device, or not an EFA. */
int srd_dev_open(struct srd_dev *dev, const char *name);
void srd_dev_close(struct srd_dev *dev);

/* What happened to a device, or to one of its objects: NULL where the type is not about one. */
struct srd_event {
	enum ibv_event_type type; /* IBV_EVENT_DEVICE_FATAL, _QP_FATAL, _CQ_ERR, _PORT_ERR, ... */
	struct ibv_qp *qp;
	struct ibv_cq *cq;
};

/*
 * Take the next asynchronous event. -EAGAIN: none within @timeout_ms (-1: for ever), or a signal
 * came. dev->ibv->async_fd becomes readable with it. One thread at a time, and not while another
 * ends the object.
 */
int srd_dev_event(struct srd_dev *dev, int timeout_ms, struct srd_event *event);

/* ---- protection and thread domains ---- */

struct srd_ah_cache;

/*
 * Address handles are shared: one kernel AH per (PD, GID), counted by the peers that use it.
 */
struct srd_pd {
	struct srd_dev *dev; /* kept until srd_pd_fini() */
	struct ibv_pd *ibv;
	struct srd_ah_cache *ahs;
};

int srd_pd_init(struct srd_pd *pd, struct srd_dev *dev);
void srd_pd_fini(struct srd_pd *pd);

/*
 * A promise that the CQs and QPs made on it are used by one thread at a time; rdma-core >= 62
 * then takes no locks. With an older one @ibv is the plain PD and the locks stay.
 */
struct srd_td {
	struct srd_pd *pd;  /* kept until srd_td_fini() */
	struct ibv_pd *ibv; /* parent domain, or pd->ibv */
	struct ibv_td *td;  /* NULL when rdma-core has none */
};

int srd_td_init(struct srd_td *td, struct srd_pd *pd);
void srd_td_fini(struct srd_td *td);

/* ---- completion queues ---- */

struct srd_cq;
struct srd_wc;

/* Where CQs announce completions to a thread that sleeps. */
struct srd_channel {
	struct ibv_comp_channel *ibv;
	int fd; /* readable when there is an announcement; does not block */
};

int srd_channel_init(struct srd_channel *ch, struct srd_dev *dev);
void srd_channel_fini(struct srd_channel *ch);

/*
 * Sleep until an armed CQ of @ch has had a completion, and say which: arm it again if it shall
 * announce the next one, then poll it until it is empty. A CQ may be announced without need.
 * -EAGAIN: nothing within @timeout_ms (-1: for ever), or a signal came. One thread at a time.
 *
 *	srd_cq_arm(&cq);
 *	while ((n = srd_cq_poll(&cq, wc, 16)) >= 0) {
 *		... use n completions ...
 *		if (n == 0 && srd_channel_wait(&ch, -1, &ready) == 0)
 *			srd_cq_arm(ready);
 *	}
 */
int srd_channel_wait(struct srd_channel *ch, int timeout_ms, struct srd_cq **cq);

/* What srd_cq_poll() fills beyond wr_id, status, opcode, byte_len, imm and flags. */
enum {
	SRD_CQ_QPN = 1u << 0, /* wc.qpn */
	SRD_CQ_SRC = 1u << 1, /* wc.src_qpn and wc.ahn of received messages */
	/* wc.sgid of senders without an AH here; needs SRD_CAP_CQ_WITH_SGID */
	SRD_CQ_SGID = 1u << 2,
};

struct srd_cq_attr {
	struct srd_td *td;           /* NULL: libefa locks; kept until srd_cq_fini() */
	int cqe;                     /* entries; 0 = 256; rounded up to a power of two */
	uint32_t fields;             /* SRD_CQ_* */
	int comp_vector;             /* below dev->ibv->num_comp_vectors */
	struct srd_channel *channel; /* NULL: never announced; kept until srd_cq_fini() */
	bool direct;                 /* see below */
	bool classic;                /* by ibv_create_cq(): no SRD_CQ_SGID, nothing unsolicited */
};

/*
 * Poll it by srd_cq_poll() or srd_cq_take() only: they keep a count of their own of what was taken.
 * A classic one may be polled by ibv_poll_cq() instead, and then by nothing else.
 *
 * An overrun is fatal to a CQ, and libefa does not look. So the depths of the QPs on a CQ must not
 * add up to more than @cqe: srd_qp_init() refuses what does not fit. Two kinds of completions are
 * on top, and the caller's to count: writes received unsolicited, and those of a finished QP that
 * were not polled.
 *
 * A direct CQ and all QPs on it are worked in the device's own rings instead of through libefa, at
 * a third of its instructions: one thread at a time, and only by srd_post(), srd_post_recv(),
 * srd_cq_poll() and srd_cq_arm(). It may be smaller than its QPs are deep: there is -EAGAIN before
 * it is overrun. It needs libefa >= 59 and a device with one ring per CQ; otherwise @direct is
 * NULL and libefa is used.
 */
struct srd_cq {
	struct ibv_cq_ex *ibv; /* of a classic one use ibv_cq_ex_to_cq(ibv) only */
	void *dv;              /* struct efadv_cq; NULL: classic */
	struct srd_cq_direct *direct;
	/* The flags of the entry to come, to see an empty queue without a call. */
	const uint8_t *next, *first, *end;
	uint32_t fields;
	int cqe;       /* as granted */
	uint32_t room; /* entries that no QP may fill yet; of direct ones as well */
	uint8_t entry_bytes;
	uint8_t phase;    /* of next when it is there */
	bool unsolicited; /* dv can tell an unsolicited write */
	/* Those of the kind of CQ that it is; called when it does not look empty. */
	int (*poll)(struct srd_cq *cq, struct srd_wc *wc, int n);
	bool (*take)(struct srd_cq *cq, struct srd_wc *wc);
};

int srd_cq_init(struct srd_cq *cq, struct srd_dev *dev, const struct srd_cq_attr *attr);
void srd_cq_fini(struct srd_cq *cq);

enum {
	SRD_WC_IMM = 1u << 0, /* imm is valid */
	/* a write with immediate that consumed no receive; wr_id is 0 */
	SRD_WC_UNSOLICITED = 1u << 1,
	SRD_WC_SGID = 1u << 2, /* sgid is valid */
};

struct srd_wc {
	uint64_t wr_id;
	enum ibv_wc_status status;
	uint32_t efa_status;       /* the device's own code, see srd_status_str() */
	enum ibv_wc_opcode opcode; /* of RDMA reads IBV_WC_SEND if libefa < 59, or on classic CQs */
	uint32_t flags;            /* SRD_WC_* */
	uint32_t byte_len;         /* of a received message or write with imm, else 0 */
	uint32_t imm;              /* host order; means nothing without SRD_WC_IMM */
	uint32_t qpn, src_qpn;
	uint16_t ahn; /* 0xffff: the sender has no AH in this PD */
	union ibv_gid sgid;
};

/*
 * Take up to @n completions. Returns their number, 0 when there are none; -errno: the CQ cannot be
 * polled any more. A completion for a QP destroyed meanwhile is dropped. Failed completions are
 * returned like others: look at status. Fields of @wc that were not asked for, or that a send does
 * not have, are left as they were.
 */
int srd_cq_poll(struct srd_cq *cq, struct srd_wc *wc, int n);

/* True: srd_cq_poll() would find nothing. False: it may. */
static inline bool srd_cq_empty(const struct srd_cq *cq)
{
	/* Relaxed: whoever goes on to read the entry has the barrier. */
	return (__atomic_load_n(cq->next, __ATOMIC_RELAXED) ^ cq->phase) & 1;
}

/*
 * The same one by one, for a loop that handles each at once: fewer instructions than an array of
 * them. False: there is none, or srd_cq_poll() would fail. The device must be told what was taken
 * when the loop ends, before its ring is full.
 *
 *	while (srd_cq_take(cq, &wc))
 *		handle(&wc);
 *	srd_cq_tell(cq);
 */
static inline bool srd_cq_take(struct srd_cq *cq, struct srd_wc *wc)
{
	return !srd_cq_empty(cq) && cq->take(cq, wc);
}
void srd_cq_tell(struct srd_cq *cq);

/* Announce the next completion to the channel, once; those that are there already are not. */
int srd_cq_arm(struct srd_cq *cq);

/* A ring of the device as libefa >= 59 shows it, to be read by those who know the layouts. */
struct srd_ring {
	uint8_t *buffer;
	uint32_t *doorbell; /* NULL: not shown */
	uint32_t entry_bytes, entries;
	uint32_t max_batch; /* send queues: entries that may be written before the doorbell */
};

/* -EOPNOTSUPP: libefa < 59, or a CQ without one ring. */
int srd_cq_ring(const struct srd_cq *cq, struct srd_ring *ring);

/* 0, or the -errno that says best what a failed completion means. */
int srd_wc_err(const struct srd_wc *wc);
/* Name of an EFA completion status; "unknown status" for codes this library does not know. */
const char *srd_status_str(uint32_t efa_status);
/* What a user can do about it; never NULL, may be empty. */
const char *srd_status_hint(uint32_t efa_status);

/* ---- queue pairs ---- */

enum srd_qp_type { SRD_QP_SRD, SRD_QP_UD };

/* Zero means default everywhere. */
struct srd_qp_attr {
	struct srd_cq *send_cq, *recv_cq; /* kept until srd_qp_fini() */
	struct srd_td *td; /* the one of both CQs, or NULL; kept until srd_qp_fini() */
	enum srd_qp_type type;
	uint32_t max_send_wr, max_recv_wr;   /* 0 = 128 */
	uint32_t max_send_sge, max_recv_sge; /* 0 = 1 */
	uint32_t max_inline; /* bytes; above 32 a request takes twice the ring room */
	uint64_t ops;        /* IBV_QP_EX_WITH_*; 0 = all the device can */
	uint8_t sl;          /* 8: low latency; ignored by libefa < 55 */
	bool unsolicited;    /* must match on every pair of QPs that writes with imm */
};

struct srd_qp {
	struct ibv_qp *ibv;
	struct ibv_qp_ex *ex;
	uint64_t ops;                /* as granted */
	uint32_t qkey;               /* set by srd_qp_to_init() */
	uint32_t sq_depth, rq_depth; /* as granted, in work requests */
	uint32_t max_inline;
	uint8_t max_send_sge, max_recv_sge;
	struct srd_dev *dev;
	enum srd_qp_type type;
	struct srd_cq *send_cq, *recv_cq;
	struct srd_qp_direct *direct; /* on direct CQs */
};

/* -ENOSPC: a CQ has too few entries left for queues this deep; see srd_cq. */
int srd_qp_init(struct srd_qp *qp, struct srd_pd *pd, const struct srd_qp_attr *attr);
void srd_qp_fini(struct srd_qp *qp);

/*
 * RESET to INIT to RTR (receives may be posted) to RTS (requests as well): SRD and UD need nothing
 * of a peer. Messages with another @qkey are not taken. @psn: of the first packet, 24 bits.
 * @rnr_retry: 0 ... 6 retries when the peer has no receive posted, 7 = for ever; -EOPNOTSUPP
 * without SRD_CAP_RNR_RETRY. Other transitions are ibv_modify_qp()'s; after one of them a direct QP
 * can only be finished.
 */
#define SRD_RNR_DEFAULT (-1) /* leave it to the device */
int srd_qp_to_init(struct srd_qp *qp, uint32_t qkey);
int srd_qp_to_rtr(struct srd_qp *qp);
int srd_qp_to_rts(struct srd_qp *qp, uint32_t psn, int rnr_retry);
/* All three, with a PSN of 0; when one fails, back to RESET. */
int srd_qp_prepare(struct srd_qp *qp, uint32_t qkey, int rnr_retry);

/* The rings of @qp, either may be NULL. -EOPNOTSUPP: libefa < 59. */
int srd_qp_rings(const struct srd_qp *qp, struct srd_ring *sq, struct srd_ring *rq);

/*
 * Does the device promise that what @op places shows up in order, by aligned blocks of 128 bytes?
 * Only a QP can be asked, so this is no SRD_CAP_*; false with libefa < 46.
 */
bool srd_qp_in_order_128(const struct srd_qp *qp, enum ibv_wr_opcode op);

/* ---- endpoints and peers ---- */

/* What a sender must know of a QP. */
struct srd_ep {
	union ibv_gid gid;
	uint32_t qpn, qkey;
};

/*
 * 24 bytes in network order: GID, QPN, qkey; the form of the Python package efa, byte for byte.
 */
struct srd_ep_wire {
	uint8_t b[24];
};

/* After srd_qp_prepare() or srd_qp_to_init(): they give @qp its qkey. */
void srd_ep_local(const struct srd_qp *qp, struct srd_ep *ep);
void srd_ep_pack(struct srd_ep_wire *wire, const struct srd_ep *ep);
/* -EINVAL: the QPN exceeds 16 bits, all that a work request can carry, or the GID is zero. */
int srd_ep_unpack(struct srd_ep *ep, const struct srd_ep_wire *wire);

/* A destination of work requests. */
struct srd_peer {
	struct ibv_ah *ah; /* shared, see srd_pd */
	struct srd_pd *pd; /* kept until srd_peer_fini() */
	union ibv_gid gid;
	uint32_t qpn, qkey;
	uint16_t ahn; /* the number the device gave the AH; srd_wc.ahn holds it */
};

/* -EINVAL: as for srd_ep_unpack(). -ENOMEM: the device has no address handle left. */
int srd_peer_init(struct srd_peer *peer, struct srd_pd *pd, const struct srd_ep *ep);
void srd_peer_fini(struct srd_peer *peer);

/* ---- memory ---- */

struct srd_mr {
	struct ibv_mr *ibv;
	uint64_t addr; /* the address to use in SGEs */
	uint64_t len;
	uint32_t lkey, rkey;
};

/* Register host memory. @access: IBV_ACCESS_*. On -ENOMEM the log names RLIMIT_MEMLOCK. */
int srd_mr_init(struct srd_mr *mr, struct srd_pd *pd, void *addr, size_t len, int access);
/*
 * Register [@offset, @offset + @len) of a dma-buf. SGEs and remote peers name it by addresses from
 * @addr on, which must have the same place in its page as @offset. @fd may be closed afterwards.
 */
int srd_mr_init_dmabuf(struct srd_mr *mr, struct srd_pd *pd, int fd, uint64_t offset, size_t len,
		       uint64_t addr, int access);
void srd_mr_fini(struct srd_mr *mr);

/* The interconnects between device and memory, by number; only those that @valid has mean any. */
enum {
	SRD_MR_RECV = 1u << 0,
	SRD_MR_RDMA_READ = 1u << 1,
	SRD_MR_RDMA_RECV = 1u << 2, /* by writes of others, or answers to our reads */
};

struct srd_mr_ids {
	uint16_t valid; /* SRD_MR_* */
	uint16_t recv, rdma_read, rdma_recv;
};

/* -EOPNOTSUPP: libefa < 50. */
int srd_mr_ids(const struct srd_mr *mr, struct srd_mr_ids *ids);

/* The SGE of [@off, @off + @len) in @mr; -EINVAL when that is not inside. */
static inline int srd_sge(struct ibv_sge *sge, const struct srd_mr *mr, uint64_t off, uint64_t len)
{
	if (off > mr->len || len > mr->len - off || len > UINT32_MAX)
		return -EINVAL;
	sge->addr = mr->addr + off;
	sge->length = (uint32_t)len;
	sge->lkey = mr->lkey;
	return 0;
}

/* ---- work requests ---- */

/* ibv_send_wr cannot name a peer and a remote address at once: they share a union there. */
struct srd_wr {
	uint64_t wr_id;
	const struct srd_peer *to; /* kept until the request has completed */
	struct ibv_sge sge[2];     /* RDMA takes one */
	uint64_t raddr;            /* RDMA only */
	uint32_t rkey;             /* RDMA only */
	uint32_t imm;              /* host order; opcodes with immediate only */
	enum ibv_wr_opcode op; /* SEND, SEND_WITH_IMM, RDMA_WRITE, RDMA_WRITE_WITH_IMM, RDMA_READ */
	uint8_t nsge;          /* 0: no data, as for an immediate alone */
	bool inl;              /* copy the data into the request; sge.lkey is not looked at */
};

/*
 * Post all @n requests or none. Every request completes exactly once in the send CQ.
 * -EAGAIN: the send queue lacks room; it is freed by srd_cq_poll(). A caller that counts posts
 * and completions against qp->sq_depth never sees it, and should: libefa says so only after it
 * has prepared all that fitted. -EOPNOTSUPP: an opcode that qp->ops lacks. -EINVAL: more SGEs or
 * inline bytes than the QP takes (an RDMA: 1 SGE, 0 inline bytes), @n > qp->sq_depth, or the QP
 * is not ready. Nothing is logged here.
 */
int srd_post(struct srd_qp *qp, const struct srd_wr *wr, int n);

/*
 * Post a chain of receives; on failure @bad (may be NULL) is the first not posted. -EAGAIN: the
 * receive queue is full. -EINVAL, and none posted: a receive without SGE, which would never
 * complete on EFA, or one with an SGE longer than the 65535 bytes that a descriptor can say (what
 * libefa makes of those differs by release).
 */
int srd_post_recv(struct srd_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/*
 * One RDMA read or write of any length, cut into requests. Fill it, call srd_xfer_begin(), then
 * srd_xfer_next() until false, and post what that yields, as fast as the send queue takes it.
 *
 *	struct srd_xfer x = {
 *		.op = IBV_WR_RDMA_WRITE, .to = &peer, .mr = &mr, .len = mr.len,
 *		.raddr = raddr, .rkey = rkey, .wr_step = 1,
 *	};
 */
struct srd_xfer {
	enum ibv_wr_opcode op;     /* IBV_WR_RDMA_WRITE or IBV_WR_RDMA_READ */
	const struct srd_peer *to; /* kept until the last request has completed, as mr is */
	const struct srd_mr *mr;
	uint64_t off, len; /* the range of mr; what is left of it */
	uint64_t raddr;
	uint64_t wr_id;   /* of the next request; goes up by wr_step */
	uint64_t wr_step; /* 0: all carry the same wr_id */
	uint32_t rkey;
	uint32_t chunk; /* bytes per request; 0: all that the device can, at most 1 GiB */
};

/*
 * Check what was filled in, and lower @chunk to what the device can. -EINVAL: the range is not
 * inside @mr, or @op is not one of the two. -EOPNOTSUPP: the device lacks @op. Then @x is zeroed.
 */
int srd_xfer_begin(struct srd_xfer *x);

/* How many requests are left. */
static inline uint64_t srd_xfer_left(const struct srd_xfer *x)
{
	return x->len ? (x->len - 1) / x->chunk + 1 : 0;
}

static inline bool srd_xfer_next(struct srd_xfer *x, struct srd_wr *wr)
{
	uint32_t n = x->len < x->chunk ? (uint32_t)x->len : x->chunk;

	if (n == 0)
		return false;
	wr->wr_id = x->wr_id;
	wr->to = x->to;
	wr->sge[0].addr = x->mr->addr + x->off;
	wr->sge[0].length = n;
	wr->sge[0].lkey = x->mr->lkey;
	wr->nsge = 1;
	wr->raddr = x->raddr;
	wr->rkey = x->rkey;
	wr->imm = 0;
	wr->op = x->op;
	wr->inl = false;
	x->wr_id += x->wr_step;
	x->off += n;
	x->raddr += n;
	x->len -= n;
	return true;
}

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
