/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that no plugin of ours sent, to the queue that connections are made through: whoever
 * has seen a handle can send them. Nothing happens, but what the message is good for.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <string.h>

#include "../../plugin/proto.h"
#include "../lib/bytes.h"
#include "../lib/link.h"
#include "../lib/loop.h"
#include "../lib/need.h"

/* A queue pair of libsrd that sends to the one that a handle names. */
struct stranger {
	struct srd_dev dev;
	struct srd_pd pd;
	struct srd_cq cq;
	struct srd_qp qp;
	struct srd_peer to;
	struct srd_mr mr;
	uint8_t msg[1 << 12];
};

static void stranger_open(struct stranger *s, const struct proto_handle *h)
{
	const struct srd_qp_attr attr = {.send_cq = &s->cq, .recv_cq = &s->cq};

	memset(s, 0, sizeof(*s));
	loop_open_dev(&s->dev);
	cr_assert(zero(int, srd_pd_init(&s->pd, &s->dev)));
	cr_assert(zero(int, srd_cq_init(&s->cq, &s->dev, &(struct srd_cq_attr){0})));
	cr_assert(zero(int, srd_qp_init(&s->qp, &s->pd, &attr)));
	cr_assert(zero(int, srd_qp_prepare(&s->qp, 1, SRD_RNR_DEFAULT)));
	cr_assert(zero(int, srd_peer_init(&s->to, &s->pd, &h->cm)));
	cr_assert(zero(int, srd_mr_init(&s->mr, &s->pd, s->msg, sizeof(s->msg), 0)));
}

static void stranger_close(struct stranger *s)
{
	srd_mr_fini(&s->mr);
	srd_peer_fini(&s->to);
	srd_qp_fini(&s->qp);
	srd_cq_fini(&s->cq);
	srd_pd_fini(&s->pd);
	srd_dev_close(&s->dev);
}

/* Wait for what became of it: the listener may have to poll meanwhile, to post receives again. */
static void stranger_send(struct stranger *s, size_t len, struct plug *p, void *listen)
{
	struct srd_wr wr = {.to = &s->to, .op = IBV_WR_SEND, .nsge = 1};
	int64_t end = now_ms() + PLUG_WAIT_MS;
	unsigned tries = 0;
	struct srd_wc wc;

	cr_assert(zero(int, srd_sge(&wr.sge[0], &s->mr, 0, len)));
	cr_assert(zero(int, srd_post(&s->qp, &wr, 1)));
	while (srd_cq_poll(&s->cq, &wc, 1) == 0) {
		need(now_ms() < end, "a message of %zu bytes does not leave", len);
		need(!plug_accept_once(p, listen), "a connection out of nothing");
		relax(&tries);
	}
}

struct scene {
	struct plug plug;
	uint8_t handle[PROTO_HANDLE_BYTES];
	struct proto_handle h;
	void *listen;
	struct stranger s;
};

static void scene_open(struct scene *s)
{
	plug_open(&s->plug, 0);
	s->listen = plug_listen(&s->plug, 0, s->handle);
	cr_assert(zero(int, proto_handle_unpack(&s->h, s->handle)));
	stranger_open(&s->s, &s->h);
}

/* The listen still does what it is there for. */
static void scene_close(struct scene *s)
{
	struct link l;

	link_open_to(&l, &s->plug, 0, s->handle, s->listen);
	link_message(&l, 3000, 1);
	link_close(&l);
	plug_close_listen(&s->plug, s->listen);
	stranger_close(&s->s);
	plug_close(&s->plug);
}

/* A request as the plugin would send it, from queue pairs that are nobody's. */
static struct proto_req request(const struct scene *s)
{
	struct proto_req req = {
		.listen_id = s->h.listen_id,
		.token = s->h.token,
		.conn_id = 77,
		.cm = {.gid = s->h.cm.gid, .qpn = s->s.qp.ibv->qp_num, .qkey = 1},
		.caps = s->h.caps,
		.nrails = 1,
		.ring_addr = 4096,
		.ring_entries = 64,
		.mode = PROTO_WRITE,
		.segment = 4096,
	};

	req.rail[0] = (struct proto_rail){
		.gid = s->h.cm.gid, .data_qpn = 0xfff0, .ctrl_qpn = 0xfff1, .qkey = 9};
	return req;
}

/* Half of them begin as a message of ours does. */
Test(stranger, noise_is_ignored)
{
	static struct scene s;
	uint64_t seed = 3;

	scene_open(&s);
	for (uint32_t i = 0; i < 600; i++) {
		size_t len = bytes_random(&seed) % (PROTO_MSG_BYTES + 1);

		bytes_fill(s.s.msg, PROTO_MSG_BYTES, i);
		if (i % 2) {
			struct proto_req req = request(&s);

			req.token++;
			proto_req_pack(s.s.msg, &req);
			s.s.msg[bytes_random(&seed) % 120] = (uint8_t)bytes_random(&seed);
		}
		stranger_send(&s.s, len, &s.plug, s.listen);
	}
	plug_forget();
	scene_close(&s);
}

Test(stranger, message_longer_than_any_of_ours_is_ignored)
{
	static struct scene s;

	scene_open(&s);
	for (int i = 0; i < 300; i++)
		stranger_send(&s.s, PROTO_MSG_BYTES + 1 + (size_t)i, &s.plug, s.listen);
	plug_forget();
	scene_close(&s);
}

Test(stranger, answer_that_nobody_waits_for_is_ignored)
{
	static struct scene s;
	struct proto_resp resp = {.nrails = 1, .comm_id = 5, .conn_id = 1};

	scene_open(&s);
	resp.token = s.h.token;
	resp.rail[0].gid = s.h.cm.gid;
	stranger_send(&s.s, proto_resp_pack(s.s.msg, &resp), &s.plug, s.listen);
	scene_close(&s);
}

/* ---- with the secret ---- */

struct flaw {
	char what[16];
};

static struct flaw flaws[] = {{"no write"}, {"strange caps"}, {"zero gid"}, {"zero rail gid"}};

static void spoil(struct proto_req *req, const char *what)
{
	if (!strcmp(what, "no write"))
		req->caps &= (uint8_t)~PROTO_CAP_WRITE;
	else if (!strcmp(what, "strange caps"))
		req->caps |= 0x80;
	else if (!strcmp(what, "zero gid"))
		memset(&req->cm.gid, 0, sizeof(req->cm.gid));
	else
		memset(&req->rail[0].gid, 0, sizeof(req->rail[0].gid));
}

ParameterizedTestParameters(stranger, request_that_cannot_be_served_fails_that_accept_only)
{
	return cr_make_param_array(struct flaw, flaws, sizeof(flaws) / sizeof(flaws[0]));
}

ParameterizedTest(struct flaw *f, stranger, request_that_cannot_be_served_fails_that_accept_only)
{
	static struct scene s;
	struct nccl_net_device_handle *dev_comm = NULL;
	enum nccl_net_result rc = NCCL_NET_OK;
	int64_t end = now_ms() + PLUG_WAIT_MS;
	struct srd_wr wr = {.op = IBV_WR_SEND, .nsge = 1};
	struct proto_req req;
	unsigned tries = 0;

	scene_open(&s);
	req = request(&s);
	spoil(&req, f->what);
	wr.to = &s.s.to;
	cr_assert(zero(int, srd_sge(&wr.sge[0], &s.s.mr, 0, proto_req_pack(s.s.msg, &req))));
	cr_assert(zero(int, srd_post(&s.s.qp, &wr, 1)));
	while (rc == NCCL_NET_OK) {
		void *comm = &s;

		rc = s.plug.net.accept(&s.plug.net, s.listen, &comm, &dev_comm);
		need(!comm, "a comm, with result %d", rc);
		need(now_ms() < end, "%s: accepted, or ignored", f->what);
		relax(&tries);
	}
	plug_forget();
	scene_close(&s);
}

/* An RNR of the answer, say, can make a peer ask twice. */
Test(stranger, comm_for_a_peer_that_is_nobody_fails_alone)
{
	static struct scene s;
	struct srd_wr wr = {.op = IBV_WR_SEND, .nsge = 1};
	struct proto_req req;
	struct ibv_sge sge;
	struct ibv_recv_wr recv_wr = {.sg_list = &sge, .num_sge = 1};
	struct mem to;
	void *recv, *request_;

	scene_open(&s);
	req = request(&s);
	sge = (struct ibv_sge){(uintptr_t)s.s.msg + 2048, 512, s.s.mr.lkey};
	srd_mr_fini(&s.s.mr);
	cr_assert(zero(int, srd_mr_init(&s.s.mr, &s.s.pd, s.s.msg, sizeof(s.s.msg),
					IBV_ACCESS_LOCAL_WRITE)));
	sge.lkey = s.s.mr.lkey;
	cr_assert(zero(int, srd_post_recv(&s.s.qp, &recv_wr, NULL)));
	wr.to = &s.s.to;
	cr_assert(zero(int, srd_sge(&wr.sge[0], &s.s.mr, 0, proto_req_pack(s.s.msg, &req))));
	cr_assert(zero(int, srd_post(&s.s.qp, &wr, 1)));
	recv = plug_accept(&s.plug, s.listen);
	mem_get(&to, &s.plug, recv, 100, 0);
	request_ = plug_recv(&s.plug, recv, to.at, 100, 0, to.mh);
	cr_assert(eq(int, plug_test_fails(&s.plug, request_, 10000), NCCL_NET_REMOTE_ERROR));
	cr_assert(eq(int, plug_warned(), 1));
	plug_forget();
	mem_put(&to);
	plug_close_recv(&s.plug, recv);
	scene_close(&s);
}

/* ---- who was accepted ---- */

/* With receives for the answer, and for what the comm says. */
static void *accepted(struct scene *s, struct proto_req *req, struct proto_resp *resp)
{
	struct stranger *t = &s->s;
	struct srd_wr wr = {.to = &t->to, .op = IBV_WR_SEND, .nsge = 1};
	void *recv;

	srd_mr_fini(&t->mr);
	cr_assert(zero(
		int, srd_mr_init(&t->mr, &t->pd, t->msg, sizeof(t->msg), IBV_ACCESS_LOCAL_WRITE)));
	for (int i = 0; i < 4; i++) {
		struct ibv_sge sge = {(uintptr_t)t->msg + 2048 + (size_t)i * PROTO_MSG_BYTES,
				      PROTO_MSG_BYTES, t->mr.lkey};
		struct ibv_recv_wr recv_wr = {.sg_list = &sge, .num_sge = 1};

		cr_assert(zero(int, srd_post_recv(&t->qp, &recv_wr, NULL)));
	}
	cr_assert(zero(int, srd_sge(&wr.sge[0], &t->mr, 0, proto_req_pack(t->msg, req))));
	cr_assert(zero(int, srd_post(&t->qp, &wr, 1)));
	recv = plug_accept(&s->plug, s->listen);
	cr_assert(zero(int, proto_resp_unpack(resp, t->msg + 2048, PROTO_MSG_BYTES)));
	return recv;
}

/* Eight bytes that go ahead of their receive, to queue pair @qpn; they need not be taken. */
static void say_eager(struct stranger *t, const struct proto_resp *resp, uint32_t qpn,
		      const char *eight)
{
	const struct srd_ep ep = {.gid = resp->rail[0].gid, .qpn = qpn, .qkey = resp->rail[0].qkey};
	const struct proto_eager head = {.base = 1, .tag = 1, .len = 8};
	struct srd_peer to;
	struct srd_wr wr = {
		.wr_id = 1, /* of no other request */
		.to = &to,
		.imm = proto_note_pack(PROTO_EAGER, resp->comm_id, 0, 0),
		.op = IBV_WR_SEND_WITH_IMM,
		.nsge = 1,
	};
	int64_t end = now_ms() + PLUG_WAIT_MS;
	struct srd_wc wc = {0};

	memcpy(t->msg, &head, sizeof(head));
	memcpy(t->msg + sizeof(head), eight, 8);
	cr_assert(zero(int, srd_peer_init(&to, &t->pd, &ep)));
	cr_assert(zero(int, srd_sge(&wr.sge[0], &t->mr, 0, sizeof(head) + 8)));
	cr_assert(zero(int, srd_post(&t->qp, &wr, 1)));
	do {
		need(now_ms() < end, "a message does not leave");
		srd_cq_poll(&t->cq, &wc, 1);
	} while (wc.wr_id != wr.wr_id);
	cr_assert(zero(int, wc.status));
	srd_peer_fini(&to);
}

static struct mode {
	enum proto_mode mode;
} modes[] = {{PROTO_READ}, {PROTO_SEND}};

ParameterizedTestParameters(stranger, data_that_go_ahead_to_the_wrong_queue_pair_are_none)
{
	return cr_make_param_array(struct mode, modes, sizeof(modes) / sizeof(modes[0]));
}

/* The receives there are other buffers, of which there are more. */
ParameterizedTest(struct mode *m, stranger, data_that_go_ahead_to_the_wrong_queue_pair_are_none)
{
	static struct scene s;
	struct proto_resp resp;
	struct proto_req req;
	struct mem to;
	void *recv, *request_;

	scene_open(&s);
	req = request(&s);
	req.mode = (uint8_t)m->mode;
	req.rail[0].ctrl_qpn = s.s.qp.ibv->qp_num;
	req.rail[0].qkey = 1;
	recv = accepted(&s, &req, &resp);
	mem_get(&to, &s.plug, recv, 8, 0);
	request_ = plug_recv(&s.plug, recv, to.at, 8, 1, to.mh);
	say_eager(&s.s, &resp, resp.rail[0].ctrl_qpn, "to words");
	for (int64_t end = now_ms() + 300; now_ms() < end; nap_ms(1))
		need(!plug_test(&s.plug, request_, NULL), "done by what was no data");
	say_eager(&s.s, &resp, resp.rail[0].data_qpn, "to data.");
	cr_assert(eq(int, plug_wait(&s.plug, request_), 8));
	need(!memcmp(to.at, "to data.", 8), "other bytes");
	mem_put(&to);
	plug_close_recv(&s.plug, recv);
	scene_close(&s);
}
