/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An EFA, of silicon or of software, as programs use it: by libibverbs and libefa, which are loaded
 * by name (from $SRD_RDMA_CORE if that is set). Nothing here knows which of the two it is, nor what
 * either leaves to the other.
 *
 * The helpers check with MUST(): they are for tests and for children of tests (kids.h).
 */
#ifndef TESTS_HW_H
#define TESTS_HW_H

#include <infiniband/efadv.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

/* X(result, name, arguments): what the libraries are asked for by name. */
#define HW_CALLS(X) \
	X(struct ibv_device **, ibv_get_device_list, (int *)) \
	X(void, ibv_free_device_list, (struct ibv_device **)) \
	X(struct ibv_context *, ibv_open_device, (struct ibv_device *)) \
	X(int, ibv_close_device, (struct ibv_context *)) \
	X(int, ibv_query_device, (struct ibv_context *, struct ibv_device_attr *)) \
	X(int, ibv_query_port, (struct ibv_context *, uint8_t, struct ibv_port_attr *)) \
	X(int, ibv_query_gid, (struct ibv_context *, uint8_t, int, union ibv_gid *)) \
	X(int, ibv_query_pkey, (struct ibv_context *, uint8_t, int, __be16 *)) \
	X(struct ibv_pd *, ibv_alloc_pd, (struct ibv_context *)) \
	X(int, ibv_dealloc_pd, (struct ibv_pd *)) \
	X(struct ibv_mr *, ibv_reg_mr, (struct ibv_pd *, void *, size_t, int)) \
	X(int, ibv_dereg_mr, (struct ibv_mr *)) \
	X(struct ibv_ah *, ibv_create_ah, (struct ibv_pd *, struct ibv_ah_attr *)) \
	X(int, ibv_destroy_ah, (struct ibv_ah *)) \
	X(struct ibv_comp_channel *, ibv_create_comp_channel, (struct ibv_context *)) \
	X(int, ibv_destroy_comp_channel, (struct ibv_comp_channel *)) \
	X(struct ibv_cq *, ibv_create_cq, \
	  (struct ibv_context *, int, void *, struct ibv_comp_channel *, int)) \
	X(int, ibv_destroy_cq, (struct ibv_cq *)) \
	X(int, ibv_get_cq_event, (struct ibv_comp_channel *, struct ibv_cq **, void **)) \
	X(void, ibv_ack_cq_events, (struct ibv_cq *, unsigned)) \
	X(struct ibv_qp *, ibv_create_qp, (struct ibv_pd *, struct ibv_qp_init_attr *)) \
	X(struct ibv_qp_ex *, ibv_qp_to_qp_ex, (struct ibv_qp *)) \
	X(int, ibv_modify_qp, (struct ibv_qp *, struct ibv_qp_attr *, int)) \
	X(int, ibv_query_qp, \
	  (struct ibv_qp *, struct ibv_qp_attr *, int, struct ibv_qp_init_attr *)) \
	X(int, ibv_destroy_qp, (struct ibv_qp *)) \
	X(int, efadv_query_device, (struct ibv_context *, struct efadv_device_attr *, uint32_t)) \
	X(int, efadv_query_ah, (struct ibv_ah *, struct efadv_ah_attr *, uint32_t)) \
	X(struct ibv_cq_ex *, efadv_create_cq, \
	  (struct ibv_context *, struct ibv_cq_init_attr_ex *, struct efadv_cq_init_attr *, \
	   uint32_t)) \
	X(struct efadv_cq *, efadv_cq_from_ibv_cq_ex, (struct ibv_cq_ex *)) \
	X(struct ibv_qp *, efadv_create_qp_ex, \
	  (struct ibv_context *, struct ibv_qp_init_attr_ex *, struct efadv_qp_init_attr *, \
	   uint32_t)) \
	X(int, efadv_query_qp_wqs, \
	  (struct ibv_qp *, struct efadv_wq_attr *, struct efadv_wq_attr *, uint32_t))

struct hw_calls {
#define X(result, name, args) result(*call_##name) args;
	HW_CALLS(X)
#undef X
};

/* Not by their own names: some are macros in the header. Valid after hw_load(). */
extern struct hw_calls hw_calls;
#define HW(name) (hw_calls.call_##name)

/* The raw status in vendor_err. */
enum hw_status {
	HW_OK = 0,
	HW_FLUSHED = 1,
	HW_BAD_AH = 4,
	HW_BAD_LKEY = 5,
	HW_BAD_LENGTH = 6,
	HW_BAD_RKEY = 7,
	HW_ABORTED = 8,
	HW_BAD_QPN = 9,
	HW_RNR = 10,
	HW_SHORT_RECV = 11,
	HW_BAD_RESPONSE = 12,
	HW_UNRESPONSIVE = 13,
	HW_UNKNOWN_PEER = 14,
	HW_UNREACHABLE = 15,
	HW_MISMATCH = 18,
};

enum {
	HW_AHN_UNKNOWN = 0xffff,
	HW_GRH = 40,
	HW_READ = EFADV_DEVICE_ATTR_CAPS_RDMA_READ,
	HW_WRITE = EFADV_DEVICE_ATTR_CAPS_RDMA_WRITE,
	HW_RNR_RETRY = EFADV_DEVICE_ATTR_CAPS_RNR_RETRY,
	HW_SGID = EFADV_DEVICE_ATTR_CAPS_CQ_WITH_SGID,
	HW_UNSOLICITED = EFADV_DEVICE_ATTR_CAPS_UNSOLICITED_WRITE_RECV,
};

void hw_load(void);
/* How many EFAs there are; fails the test when there is none. */
unsigned hw_count(void);
/* The EFA of that index, in the order of their names; skips the test when there are not so many. */
struct ibv_context *hw_open(unsigned index);
/* Skip the test, with the reason, unless device and library have all of @caps. */
void hw_need(struct ibv_context *ctx, uint32_t caps);

/* ---- completion queues ---- */

struct hw_cq {
	struct ibv_cq *cq;
	struct ibv_cq_ex *ex;   /* NULL: made by ibv_create_cq() */
	bool sgid, unsolicited; /* are told */
};

struct hw_wc {
	uint64_t wr_id;
	unsigned status; /* enum hw_status */
	enum ibv_wc_status ibv;
	enum ibv_wc_opcode op; /* this and what follows: of successes only */
	unsigned flags;
	uint32_t len, imm, qpn, src_qpn;
	uint16_t ahn;
	bool unsolicited;
	union ibv_gid sgid; /* zero unless told */
};

bool hw_next(struct hw_cq *cq, struct hw_wc *wc);
/* The next one; fails the test after KIDS_WAIT_MS. */
struct hw_wc hw_wait(struct hw_cq *cq);
/* The same; it must have that status. */
struct hw_wc hw_wait_for(struct hw_cq *cq, unsigned status);
/* Nothing comes for 50 ms: longer than an idle device may take to look at a doorbell. */
bool hw_quiet(struct hw_cq *cq);

/* ---- queue pairs with what belongs to them ---- */

enum { HW_QKEY = 0x600d0000, HW_AHS = 16 };

/* Zero means the default. */
struct hw_attr {
	unsigned dev; /* unless @with or @near */
	bool ud;
	uint32_t sq, rq, cq; /* depths; 64, 64, 256 */
	uint32_t recv_sges;  /* 1 */
	uint32_t max_inline;
	uint32_t bytes; /* of buf; 64 KiB */
	int rnr;        /* rnr_retry + 1; 0: left to the device */
	bool unsolicited;
	bool told;       /* CQs tell of GIDs and unsolicited writes, as far as the device does */
	bool channel;    /* both CQs have one */
	uint32_t need;   /* HW_*: skip the test without */
	struct hw *with; /* in its context and PD, and closed before it */
	struct hw *near; /* in its context, PD of its own */
};

struct hw {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct hw_cq scq, rcq;
	struct ibv_qp *qp;
	struct ibv_qp_ex *qpx;
	struct ibv_mr *mr; /* all of buf, all access that the device has */
	uint8_t *buf;
	uint32_t bytes, qkey, mtu;
	struct efadv_device_attr dev;
	struct ibv_ah *ah[HW_AHS]; /* made by hw_ah() */
	unsigned nah;
	bool own_ctx, own_pd;
};

/* What others need to know; plain data. */
struct hw_addr {
	union ibv_gid gid;
	uint32_t qpn, qkey, rkey;
	uint64_t addr;
};

/* In state RTS. */
void hw_init(struct hw *h, const struct hw_attr *attr);
void hw_fini(struct hw *h);
/* What the QP of @attr is made with; its CQs are those of @h. */
struct ibv_qp *hw_qp_create(struct hw *h, const struct hw_attr *attr);
/* ibv_create_qp_ex() of the header wants ibv_create_qp() by name. */
struct ibv_qp *hw_create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr);
/* From RESET to RTS. Errno. */
int hw_qp_up(struct ibv_qp *qp, uint32_t qkey, int rnr);
/* To @state with nothing else. Errno. */
int hw_qp_to(struct ibv_qp *qp, enum ibv_qp_state state);
int hw_access(const struct hw *h);

struct hw_addr hw_addr(const struct hw *h);
/* An AH of @h for @to, which hw_fini() destroys. */
struct ibv_ah *hw_ah(struct hw *h, const struct hw_addr *to);
struct ibv_ah *hw_ah_create(struct ibv_pd *pd, const union ibv_gid *gid);
uint16_t hw_ahn(struct ibv_ah *ah);

/* ---- work ---- */

enum hw_op { HW_OP_SEND, HW_OP_READ, HW_OP_WRITE };

struct hw_wr {
	enum hw_op op;
	uint64_t wr_id;
	struct ibv_ah *ah;
	uint32_t qpn, qkey;
	bool imm_on;
	uint32_t imm;
	uint64_t raddr;
	uint32_t rkey;
	unsigned nsge;
	struct ibv_sge sge[3];
	const void *data; /* inline instead of sge[] */
	uint32_t data_len;
};

/* To @to: @len bytes from @off of buf, to or from @roff of its memory if it is an RDMA. */
struct hw_wr hw_wr(const struct hw *h, enum hw_op op, const struct hw_addr *to, struct ibv_ah *ah,
		   uint64_t off, uint32_t len, uint64_t roff);
/* Errno. */
int hw_try_post(struct hw *h, const struct hw_wr *wr);
void hw_post(struct hw *h, const struct hw_wr *wr);
/* Post, and wait for its completion, which is the only one to come. */
struct hw_wc hw_run(struct hw *h, const struct hw_wr *wr);
int hw_try_recv(struct hw *h, uint64_t wr_id, struct ibv_sge *sge, int nsge);
/* A receive of @len bytes at @off of buf. */
void hw_recv(struct hw *h, uint64_t wr_id, uint64_t off, uint32_t len);
struct ibv_sge hw_sge(const struct ibv_mr *mr, int64_t off, uint32_t len);

/* ---- two of them: A asks, B serves ---- */

struct hw_pair {
	struct hw a, b;
	struct hw_addr to_a, to_b;
	struct ibv_ah *ah_a, *ah_b; /* of B for A, of A for B */
};

/* B of @b or else as A, in A's PD unless it says where. */
void hw_pair_init(struct hw_pair *p, const struct hw_attr *a, const struct hw_attr *b);
void hw_pair_fini(struct hw_pair *p);
/* From A to B, as hw_wr(). */
struct hw_wr hw_pair_wr(const struct hw_pair *p, enum hw_op op, uint64_t off, uint32_t len,
			uint64_t roff);
/* A posts @n sends of @len bytes, wr_id 0 and on; they wait while B has no receive. */
void hw_pair_send_waiting(struct hw_pair *p, unsigned n, uint32_t len);
/* All of them fail, now that B receives no more. Guess: with 8 if they had begun to arrive. */
void hw_pair_waiting_fail(struct hw_pair *p, unsigned n);
/* A message goes from A to B: whatever failed before, this works. */
void hw_pair_works(struct hw_pair *p);

#endif
