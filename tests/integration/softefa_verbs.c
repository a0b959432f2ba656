/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The adapter below plain libibverbs and libefa, whichever are found: what no other test has them
 * do. Tests of newer calls are skipped with older libraries.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <dlfcn.h>
#include <infiniband/efadv.h>
#include <infiniband/verbs.h>
#include <errno.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../lib/kids.h"
#include "../lib/node.h"

TestSuite(softefa_verbs, .timeout = 60);

/* X(result, name, arguments): what the libraries are asked for by name. */
#define CALLS(X) \
	X(struct ibv_device **, ibv_get_device_list, (int *)) \
	X(struct ibv_context *, ibv_open_device, (struct ibv_device *)) \
	X(int, ibv_close_device, (struct ibv_context *)) \
	X(struct ibv_pd *, ibv_alloc_pd, (struct ibv_context *)) \
	X(struct ibv_mr *, ibv_reg_mr, (struct ibv_pd *, void *, size_t, int)) \
	X(int, ibv_query_gid, (struct ibv_context *, uint8_t, int, union ibv_gid *)) \
	X(struct ibv_ah *, ibv_create_ah, (struct ibv_pd *, struct ibv_ah_attr *)) \
	X(struct ibv_comp_channel *, ibv_create_comp_channel, (struct ibv_context *)) \
	X(struct ibv_cq *, ibv_create_cq, \
	  (struct ibv_context *, int, void *, struct ibv_comp_channel *, int)) \
	X(int, ibv_destroy_cq, (struct ibv_cq *)) \
	X(int, ibv_get_cq_event, (struct ibv_comp_channel *, struct ibv_cq **, void **)) \
	X(void, ibv_ack_cq_events, (struct ibv_cq *, unsigned)) \
	X(int, ibv_get_async_event, (struct ibv_context *, struct ibv_async_event *)) \
	X(void, ibv_ack_async_event, (struct ibv_async_event *)) \
	X(struct ibv_mr *, ibv_reg_dmabuf_mr, \
	  (struct ibv_pd *, uint64_t, size_t, uint64_t, int, int)) \
	X(int, efadv_query_mr, (struct ibv_mr *, struct efadv_mr_attr *, uint32_t)) \
	X(void, ibv_free_device_list, (struct ibv_device **)) \
	X(enum ibv_fork_status, ibv_is_fork_initialized, (void)) \
	X(int, ibv_dealloc_pd, (struct ibv_pd *)) \
	X(int, ibv_dereg_mr, (struct ibv_mr *)) \
	X(int, ibv_destroy_ah, (struct ibv_ah *)) \
	X(int, ibv_destroy_comp_channel, (struct ibv_comp_channel *)) \
	X(int, ibv_modify_qp, (struct ibv_qp *, struct ibv_qp_attr *, int)) \
	X(int, ibv_destroy_qp, (struct ibv_qp *)) \
	X(struct ibv_qp_ex *, ibv_qp_to_qp_ex, (struct ibv_qp *)) \
	X(struct ibv_qp *, efadv_create_qp_ex, \
	  (struct ibv_context *, struct ibv_qp_init_attr_ex *, struct efadv_qp_init_attr *, \
	   uint32_t)) \
	X(int, efadv_query_qp_wqs, \
	  (struct ibv_qp *, struct efadv_wq_attr *, struct efadv_wq_attr *, uint32_t))

/* Not by their own names: some are macros in the header. */
static struct {
#define X(result, name, args) result(*call_##name) args;
	CALLS(X)
#undef X
} v;

#define CALL(name) (v.call_##name)

static void load(void)
{
	void *efa = dlopen("libefa.so.1", RTLD_NOW | RTLD_GLOBAL);
	void *ibv = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_GLOBAL);

	if (!efa || !ibv)
		cr_skip("no rdma-core");
#define X(result, name, args) \
	*(void **)&v.call_##name = dlsym(strncmp(#name, "efadv", 5) ? ibv : efa, #name);
	CALLS(X)
#undef X
}

/* ---- a queue pair that reaches itself ---- */

enum { LEN = 4096, WRITE_OPS = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ };

struct self {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_qp_ex *ex;
	struct ibv_mr *mr;
	struct ibv_ah *ah;
	uint8_t *buf;
};

struct self_attr {
	uint32_t sq, max_inline;
	uint64_t ops; /* besides SEND */
	uint16_t flags;
	bool channel;
};

static void qp_init(struct self *s, const struct self_attr *a)
{
	struct efadv_qp_init_attr efa = {.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD,
					 .flags = a->flags};
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.cap = {a->sq, 64, 1, 1, a->max_inline},
		.qp_type = IBV_QPT_DRIVER,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = s->pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | a->ops,
	};
	struct ibv_qp_attr mod = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 7};

	s->qp = CALL(efadv_create_qp_ex)(s->ctx, &attr, &efa, sizeof(efa));
	cr_assert(ne(ptr, s->qp, NULL));
	s->ex = CALL(ibv_qp_to_qp_ex)(s->qp);
	cr_assert(zero(int, CALL(ibv_modify_qp)(s->qp, &mod,
						IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
							IBV_QP_QKEY)));
	mod.qp_state = IBV_QPS_RTR;
	cr_assert(zero(int, CALL(ibv_modify_qp)(s->qp, &mod, IBV_QP_STATE)));
	mod.qp_state = IBV_QPS_RTS;
	cr_assert(zero(int, CALL(ibv_modify_qp)(s->qp, &mod, IBV_QP_STATE | IBV_QP_SQ_PSN)));
}

static void self_init(struct self *s, const struct self_attr *a)
{
	struct ibv_ah_attr ah = {.is_global = 1, .port_num = 1};
	int access = IBV_ACCESS_LOCAL_WRITE;
	struct ibv_device **list = CALL(ibv_get_device_list)(NULL);

	memset(s, 0, sizeof(*s));
	s->ctx = CALL(ibv_open_device)(list[0]);
	cr_assert(ne(ptr, s->ctx, NULL));
	CALL(ibv_free_device_list)(list);
	s->pd = CALL(ibv_alloc_pd)(s->ctx);
	if (a->channel)
		s->channel = CALL(ibv_create_comp_channel)(s->ctx);
	s->cq = CALL(ibv_create_cq)(s->ctx, 256, NULL, s->channel, 0);
	qp_init(s, a);
	s->buf = aligned_alloc(LEN, 2 * LEN);
	memset(s->buf, 0, 2 * LEN);
	if (a->ops)
		access |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	s->mr = CALL(ibv_reg_mr)(s->pd, s->buf, 2 * LEN, access);
	cr_assert(ne(ptr, s->mr, NULL));
	cr_assert(zero(int, CALL(ibv_query_gid)(s->ctx, 1, 0, &ah.grh.dgid)));
	s->ah = CALL(ibv_create_ah)(s->pd, &ah);
	cr_assert(ne(ptr, s->ah, NULL));
}

/* The order matters to libefa: what is needed goes last. */
static void self_fini(struct self *s)
{
	MUST(CALL(ibv_destroy_qp)(s->qp) == 0, "destroy QP");
	MUST(CALL(ibv_destroy_cq)(s->cq) == 0, "destroy CQ");
	MUST(!s->channel || CALL(ibv_destroy_comp_channel)(s->channel) == 0, "destroy channel");
	MUST(CALL(ibv_destroy_ah)(s->ah) == 0, "destroy AH");
	MUST(CALL(ibv_dereg_mr)(s->mr) == 0, "deregister");
	MUST(CALL(ibv_dealloc_pd)(s->pd) == 0, "free PD");
	MUST(CALL(ibv_close_device)(s->ctx) == 0, "close");
	free(s->buf);
}

static struct ibv_wc wait_one(struct self *s)
{
	int64_t end = kids_now_us() + KIDS_WAIT_MS * INT64_C(1000);
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(s->cq, 1, &wc)) == 0) {
		cr_assert(lt(i64, kids_now_us(), end), "no completion");
		kids_nap_us(20);
	}
	cr_assert(eq(int, n, 1));
	cr_assert(eq(int, (int)wc.status, IBV_WC_SUCCESS));
	return wc;
}

static void recv_one(struct self *s, uint64_t wr_id)
{
	struct ibv_sge sge = {(uintptr_t)s->buf + LEN, LEN, s->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	cr_assert(zero(int, ibv_post_recv(s->qp, &wr, &bad)));
}

static void send_one(struct self *s, uint64_t wr_id, uint32_t len)
{
	s->ex->wr_id = wr_id;
	s->ex->wr_flags = 0;
	ibv_wr_send(s->ex);
	ibv_wr_set_sge(s->ex, s->mr->lkey, (uintptr_t)s->buf, len);
	ibv_wr_set_ud_addr(s->ex, s->ah, s->qp->qp_num, 7);
}

/* ---- wide work requests ---- */

static void need_wide(void)
{
	if (!CALL(efadv_query_qp_wqs))
		cr_skip("libefa is older than 59");
}

Test(softefa_verbs, inline_write_of_80_bytes_in_a_wide_request)
{
	struct efadv_wq_attr sq = {0}, rq = {0};
	struct self s;
	uint8_t data[80];

	node_settings("inline_size_ex=80");
	load();
	need_wide();
	self_init(&s, &(struct self_attr){.sq = 64,
					  .max_inline = 80,
					  .ops = WRITE_OPS,
					  .flags = EFADV_QP_FLAGS_INLINE_WRITE});
	cr_assert(zero(int, CALL(efadv_query_qp_wqs)(s.qp, &sq, &rq, sizeof(sq))));
	cr_assert(eq(u32, sq.entry_size, 128));
	for (unsigned i = 0; i < 200; i++) {
		node_fill(data, sizeof(data), i);
		ibv_wr_start(s.ex);
		s.ex->wr_id = i;
		s.ex->wr_flags = IBV_SEND_INLINE;
		ibv_wr_rdma_write(s.ex, s.mr->rkey, (uintptr_t)s.buf + 100);
		ibv_wr_set_inline_data(s.ex, data, sizeof(data));
		ibv_wr_set_ud_addr(s.ex, s.ah, s.qp->qp_num, 7);
		cr_assert(zero(int, ibv_wr_complete(s.ex)));
		memset(data, 0, sizeof(data));
		cr_assert(eq(u64, wait_one(&s).wr_id, i));
		cr_assert(node_filled(s.buf + 100, sizeof(data), i));
		cr_assert(zero(u8, s.buf[180]));
	}
	self_fini(&s);
}

Test(softefa_verbs, inline_send_of_80_bytes_in_a_wide_request)
{
	struct self s;
	uint8_t data[80];

	node_settings("inline_size_ex=80");
	load();
	need_wide();
	self_init(&s, &(struct self_attr){.sq = 64, .max_inline = 80});
	recv_one(&s, 1);
	node_fill(data, sizeof(data), 3);
	ibv_wr_start(s.ex);
	s.ex->wr_id = 2;
	s.ex->wr_flags = IBV_SEND_INLINE;
	ibv_wr_send(s.ex);
	ibv_wr_set_inline_data(s.ex, data, sizeof(data));
	ibv_wr_set_ud_addr(s.ex, s.ah, s.qp->qp_num, 7);
	cr_assert(zero(int, ibv_wr_complete(s.ex)));
	cr_assert(eq(u64, wait_one(&s).wr_id + wait_one(&s).wr_id, 3));
	cr_assert(node_filled(s.buf + LEN, sizeof(data), 3));
	self_fini(&s);
}

/* ---- what the device says of its limits ---- */

Test(softefa_verbs, request_ids_of_64_bits)
{
	const uint64_t id = 0x123456789abcdef0;
	struct efadv_wq_attr sq = {0}, rq = {0};
	struct self s;

	node_settings("caps=0x26f");
	load();
	need_wide();
	self_init(&s, &(struct self_attr){.sq = 16});
	cr_assert(zero(int, CALL(efadv_query_qp_wqs)(s.qp, &sq, &rq, sizeof(sq))));
	if (!(sq.caps & EFADV_WQ_CAPS_64_BIT_REQ_ID))
		cr_skip("libefa does not know them");
	for (uint64_t i = 0; i < 100; i++) {
		uint64_t sum = 0;

		recv_one(&s, 1);
		ibv_wr_start(s.ex);
		send_one(&s, id + i, 8);
		cr_assert(zero(int, ibv_wr_complete(s.ex)));
		sum += wait_one(&s).wr_id;
		sum += wait_one(&s).wr_id;
		cr_assert(eq(u64, sum, id + i + 1));
	}
	self_fini(&s);
}

/* The provider rings once for each two requests then. */
Test(softefa_verbs, batches_are_cut_to_the_devices_limit)
{
	struct self s;

	node_settings("max_tx_batch=2");
	load();
	self_init(&s, &(struct self_attr){.sq = 64});
	for (unsigned round = 0; round < 20; round++) {
		uint64_t sum = 0;

		for (unsigned i = 0; i < 32; i++)
			recv_one(&s, 0);
		ibv_wr_start(s.ex);
		for (unsigned i = 0; i < 32; i++)
			send_one(&s, i, 8);
		cr_assert(zero(int, ibv_wr_complete(s.ex)));
		for (unsigned i = 0; i < 64; i++)
			sum += wait_one(&s).wr_id;
		cr_assert(eq(u64, sum, 31 * 32 / 2));
	}
	self_fini(&s);
}

Test(softefa_verbs, small_queues_are_made_as_deep_as_the_device_wants)
{
	struct efadv_wq_attr sq = {0}, rq = {0};
	struct self s;

	node_settings("min_sq_wr=64");
	load();
	self_init(&s, &(struct self_attr){.sq = 4});
	recv_one(&s, 1);
	ibv_wr_start(s.ex);
	send_one(&s, 2, 8);
	cr_assert(zero(int, ibv_wr_complete(s.ex)));
	cr_assert(eq(u64, wait_one(&s).wr_id + wait_one(&s).wr_id, 3));
	need_wide();
	cr_assert(zero(int, CALL(efadv_query_qp_wqs)(s.qp, &sq, &rq, sizeof(sq))));
	cr_assert(eq(u32, sq.num_entries, 64));
	self_fini(&s);
}

/* ---- events ---- */

/* In the way of the manual page: arm, drain, wait, acknowledge. A hang is a lost event. */
Test(softefa_verbs, events_are_delivered_and_the_queue_is_destroyed_without_a_hang)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;
	struct self s;

	node_settings(NULL);
	load();
	self_init(&s, &(struct self_attr){.sq = 64, .channel = true});
	cr_assert(zero(int, ibv_req_notify_cq(s.cq, 0)));
	for (unsigned i = 0; i < 2000; i++) {
		unsigned n = 0;

		recv_one(&s, 1);
		ibv_wr_start(s.ex);
		send_one(&s, 2, 8);
		cr_assert(zero(int, ibv_wr_complete(s.ex)));
		while (n < 2) {
			int rc = ibv_poll_cq(s.cq, 1, &wc);

			cr_assert(ge(int, rc, 0));
			n += (unsigned)rc;
			if (rc)
				continue;
			cr_assert(zero(int, CALL(ibv_get_cq_event)(s.channel, &cq, &context)));
			cr_assert(eq(ptr, cq, s.cq));
			CALL(ibv_ack_cq_events)(cq, 1);
			cr_assert(zero(int, ibv_req_notify_cq(s.cq, 0)));
		}
	}
	self_fini(&s);
}

/* Destroying waits for the acknowledgement of what was read, and of nothing else. */
Test(softefa_verbs, asynchronous_event_is_read_and_its_objects_are_destroyed)
{
	struct ibv_async_event ev;
	struct self s;

	node_settings("fault=event cq_err nth=1,fault=event qp_fatal nth=2");
	load();
	self_init(&s, &(struct self_attr){.sq = 16});
	recv_one(&s, 1);
	ibv_wr_start(s.ex);
	send_one(&s, 2, 8);
	cr_assert(zero(int, ibv_wr_complete(s.ex)));
	cr_assert(zero(int, CALL(ibv_get_async_event)(s.ctx, &ev)));
	cr_assert(eq(int, (int)ev.event_type, IBV_EVENT_CQ_ERR));
	cr_assert(eq(ptr, ev.element.cq, s.cq));
	CALL(ibv_ack_async_event)(&ev);
	ibv_wr_start(s.ex);
	send_one(&s, 3, 8);
	cr_assert(zero(int, ibv_wr_complete(s.ex)));
	cr_assert(zero(int, CALL(ibv_get_async_event)(s.ctx, &ev)));
	cr_assert(eq(int, (int)ev.event_type, IBV_EVENT_QP_FATAL));
	cr_assert(eq(ptr, ev.element.qp, s.qp));
	CALL(ibv_ack_async_event)(&ev);
	self_fini(&s);
}

Test(softefa_verbs, unread_asynchronous_event_does_not_hold_up_a_destruction)
{
	struct self s;

	node_settings("fault=event qp_fatal");
	load();
	self_init(&s, &(struct self_attr){.sq = 16});
	ibv_wr_start(s.ex);
	send_one(&s, 2, 8);
	cr_assert(zero(int, ibv_wr_complete(s.ex)));
	kids_nap_us(20000);
	self_fini(&s);
}

/* ---- dma-bufs ---- */

Test(softefa_verbs, dma_buf_is_registered_and_asked_about)
{
	struct efadv_mr_attr attr = {.comp_mask = 1, .ic_id_validity = 9};
	int fd = memfd_create("tests-dmabuf", MFD_CLOEXEC);
	struct ibv_mr *mr;
	struct self s;

	node_settings(NULL);
	load();
	self_init(&s, &(struct self_attr){.sq = 16});
	cr_assert(zero(int, ftruncate(fd, 2 * LEN)));
	mr = CALL(ibv_reg_dmabuf_mr)(s.pd, 100, LEN, LEN + 100, fd, IBV_ACCESS_LOCAL_WRITE);
	cr_assert(ne(ptr, mr, NULL), "%s", strerror(errno));
	close(fd);
	if (CALL(efadv_query_mr)) {
		cr_assert(zero(int, CALL(efadv_query_mr)(mr, &attr, sizeof(attr))));
		cr_assert(zero(u32, attr.comp_mask));
		cr_assert(zero(u16, attr.ic_id_validity));
	}
	cr_assert(zero(int, CALL(ibv_dereg_mr)(mr)));
	cr_assert(eq(ptr, CALL(ibv_reg_dmabuf_mr)(s.pd, 0, LEN, 0, fd, IBV_ACCESS_LOCAL_WRITE),
		     NULL));
	cr_assert(eq(int, errno, EBADF));
	self_fini(&s);
}

/* ---- processes ---- */

static void use_in_child(void *arg)
{
	struct self s;

	(void)arg;
	self_init(&s, &(struct self_attr){.sq = 16});
	recv_one(&s, 1);
	ibv_wr_start(s.ex);
	send_one(&s, 2, 8);
	MUST(ibv_wr_complete(s.ex) == 0, "post");
	MUST(wait_one(&s).wr_id + wait_one(&s).wr_id == 3, "completions");
	self_fini(&s);
}

Test(softefa_verbs, child_of_a_process_with_an_open_device_opens_its_own)
{
	struct self s;

	node_settings(NULL);
	load();
	self_init(&s, &(struct self_attr){.sq = 16});
	kids_join(kids_start(use_in_child, NULL));
	cr_assert(zero(int, system("true")));
	recv_one(&s, 1);
	ibv_wr_start(s.ex);
	send_one(&s, 2, 8);
	cr_assert(zero(int, ibv_wr_complete(s.ex)));
	cr_assert(eq(u64, wait_one(&s).wr_id + wait_one(&s).wr_id, 3));
	self_fini(&s);
}

/* ---- netlink ---- */

/* As Linux has said since 5.12: whoever forks need not keep its memory from the child. */
Test(softefa_verbs, memory_is_said_to_survive_a_fork)
{
	struct ibv_device **list;
	int n = 0;

	node_settings("devices=2");
	load();
	if (!v.call_ibv_is_fork_initialized)
		cr_skip("libibverbs before release 35");
	cr_assert(eq(int, CALL(ibv_is_fork_initialized)(), IBV_FORK_UNNEEDED));
	list = CALL(ibv_get_device_list)(&n);
	cr_assert(eq(int, n, 2));
	CALL(ibv_free_device_list)(list);
}

/* Who lists devices that way would see the machine's own, or none. */
Test(softefa_verbs, netlink_refuses_to_list_devices)
{
	struct nlmsghdr ask = {.nlmsg_len = sizeof(ask),
			       .nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET),
			       .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
			       .nlmsg_seq = 77};
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	struct iovec iov = {&ask, sizeof(ask)};
	struct msghdr msg = {.msg_name = &kernel,
			     .msg_namelen = sizeof(kernel),
			     .msg_iov = &iov,
			     .msg_iovlen = 1};
	struct {
		struct nlmsghdr head;
		struct nlmsgerr error;
	} answer;
	int fd;

	node_settings(NULL);
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);
	cr_assert(ge(int, fd, 0));
	cr_assert(zero(int, bind(fd, (struct sockaddr *)&kernel, sizeof(kernel))));
	cr_assert(eq(long, sendmsg(fd, &msg, 0), sizeof(ask)));
	cr_assert(eq(long, recv(fd, &answer, sizeof(answer), MSG_DONTWAIT), sizeof(answer)));
	cr_assert(eq(u16, answer.head.nlmsg_type, NLMSG_ERROR));
	cr_assert(eq(u32, answer.head.nlmsg_seq, 77));
	cr_assert(eq(int, answer.error.error, -EOPNOTSUPP));
	close(fd);
}
