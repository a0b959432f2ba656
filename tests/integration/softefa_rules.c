/* SPDX-License-Identifier: BSD-3-Clause */
/* The adapter's rules for work requests, at their descriptors: which status each breach has. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <string.h>

#include "../lib/duo.h"
#include "../lib/kids.h"

TestSuite(softefa_rules, .timeout = 60);

enum { LEN = 256, MTU = 8928, MIB = 1 << 20 };

/* ---- malformed descriptors ---- */

/* A good request with some bytes of its descriptor replaced. */
struct malformed {
	enum raw_op op;
	uint8_t off, len;
	uint32_t value;
	unsigned status;
};

static struct malformed malformeds[] = {
	{RAW_SEND, 2, 1, 0x00, 2},                                  /* no meta descriptor */
	{RAW_SEND, 2, 1, 0xc0, 2},                                  /* extension */
	{RAW_SEND, 3, 1, 0x18, 2},                                  /* not the first */
	{RAW_SEND, 3, 1, 0x14, 2},                                  /* not the last */
	{RAW_SEND, 3, 1, 0x0c, 2},                                  /* no completion wanted */
	{RAW_SEND, 2, 1, 0x83, 3},                                  /* op 3 */
	{RAW_SEND, 2, 1, 0x8f, 3},                                  /* op 15 */
	{RAW_READ, 2, 1, 0xa1, 3},                                  /* inline read */
	{RAW_READ, 2, 1, 0x91, 3},                                  /* read with immediate */
	{RAW_WRITE, 2, 1, 0xa2, 3},                                 /* inline write in 64 bytes */
	{RAW_SEND, 12, 2, 0x0fff, 4},                               /* no such AHN */
	{RAW_SEND, 12, 2, 0xffff, 4},      {RAW_SEND, 6, 2, 3, 6},  /* 3 SGEs */
	{RAW_SEND, 6, 2, 0xffff, 6},       {RAW_WRITE, 6, 2, 2, 6}, /* 2 SGEs */
	{RAW_WRITE, 32, 4, LEN + 1, 6},                             /* remote longer than local */
	{RAW_WRITE, 32, 4, 0, 6},          {RAW_SEND, 32, 4, MTU + 1, 6},
	{RAW_SEND, 32, 4, MIB + 1, 5},     /* beyond the region */
	{RAW_SEND, 36, 4, 0x00fffffe, 5},  /* lkey */
	{RAW_SEND, 44, 4, 0xffffffff, 5},  /* address */
	{RAW_WRITE, 36, 4, 0x00fffffe, 7}, /* rkey */
	{RAW_WRITE, 44, 4, 0xffffffff, 7}, {RAW_READ, 36, 4, 0x00fffffe, 7},
	{RAW_READ, 44, 4, 0xffffffff, 7},  {RAW_SEND, 4, 2, 0xfffe, 9}, /* no such QP */
	{RAW_SEND, 16, 4, 12345, 9},                                    /* qkey */
	{RAW_WRITE, 16, 4, 12345, 9},
};

ParameterizedTestParameters(softefa_rules, malformed_request_has_its_status)
{
	return cr_make_param_array(struct malformed, malformeds,
				   sizeof(malformeds) / sizeof(malformeds[0]));
}

ParameterizedTest(struct malformed *m, softefa_rules, malformed_request_has_its_status)
{
	struct raw_wc wc;
	struct raw_wr wr;
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){.bytes = MIB});
	node_recv(&d.b, 5, 0, LEN);
	wr = node_wr(&d.a, m->op, &d.to_b, d.ahn, 0, LEN, 0);
	raw_post(&d.a.qp, &wr);
	memcpy(d.a.qp.sq + m->off, &m->value, m->len);
	raw_ring(&d.a.qp);
	wc = node_wait(&d.a.scq);
	cr_assert(eq(uint, wc.status, m->status));
	cr_assert(eq(u64, wc.req_id, wr.req_id));
	cr_assert(eq(int, wc.qpn, d.a.qp.qpn));
	cr_assert(not(wc.recv));
	cr_assert(not(wc.unsolicited));
	/* The queue pair goes on, and the receive is still there. */
	wr.op = RAW_SEND;
	cr_assert(zero(int, node_run(&d.a, &wr).status));
	cr_assert(eq(u64, node_wait_status(&d.b.rcq, 0).req_id, 5));
	duo_fini(&d);
}

struct overlong {
	enum raw_op op;
	uint32_t stride, len;
};

static struct overlong overlongs[] = {
	{RAW_SEND, 64, 33},   {RAW_SEND, 64, 0xffff},   {RAW_SEND, 128, 81},
	{RAW_WRITE, 128, 81}, {RAW_WRITE, 128, 0xffff},
};

ParameterizedTestParameters(softefa_rules, inline_data_beyond_the_request_is_6)
{
	return cr_make_param_array(struct overlong, overlongs,
				   sizeof(overlongs) / sizeof(overlongs[0]));
}

ParameterizedTest(struct overlong *o, softefa_rules, inline_data_beyond_the_request_is_6)
{
	struct raw_wr wr;
	struct duo d;

	node_settings("inline_size_ex=80");
	duo_init(&d, &(struct node_attr){.stride = o->stride});
	wr = node_wr(&d.a, o->op, &d.to_b, d.ahn, 0, o->len, 0);
	wr.data = "x";
	wr.data_len = 1;
	raw_post(&d.a.qp, &wr);
	memcpy(d.a.qp.sq + 6, &o->len, 2);
	raw_ring(&d.a.qp);
	cr_assert(eq(int, node_wait(&d.a.scq).status, 6));
	duo_fini(&d);
}

/* ---- regions ---- */

/* Memory of A and of B with these rights; or in another PD than that of their QPs. */
struct rights {
	enum raw_op op;
	uint32_t a, b;
	bool a_foreign, b_foreign;
	unsigned status, rx_status;
};

enum { LW = RAW_LOCAL_WRITE, RW = RAW_LOCAL_WRITE | RAW_REMOTE_WRITE, RR = RAW_REMOTE_READ };

static struct rights rights[] = {
	{RAW_SEND, 0, LW, false, false, 0, 0},  {RAW_SEND, 0, 0, false, false, 12, 5},
	{RAW_SEND, 0, LW, true, false, 5, 0},   {RAW_SEND, 0, LW, false, true, 12, 5},
	{RAW_WRITE, 0, RW, false, false, 0, 0}, {RAW_WRITE, 0, LW | RR, false, false, 7, 0},
	{RAW_WRITE, 0, RW, true, false, 5, 0},  {RAW_WRITE, 0, RW, false, true, 7, 0},
	{RAW_READ, LW, RR, false, false, 0, 0}, {RAW_READ, 0, RR, false, false, 5, 0},
	{RAW_READ, LW, RW, false, false, 7, 0}, {RAW_READ, LW, RR, true, false, 5, 0},
	{RAW_READ, LW, RR, false, true, 7, 0},
};

ParameterizedTestParameters(softefa_rules, regions_are_used_by_their_rights)
{
	return cr_make_param_array(struct rights, rights, sizeof(rights) / sizeof(rights[0]));
}

ParameterizedTest(struct rights *r, softefa_rules, regions_are_used_by_their_rights)
{
	struct raw_pd other;
	struct raw_mr a, b;
	struct raw_sge sge;
	struct raw_wr wr;
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){0});
	MUST_0(raw_pd_alloc(&other, &d.a.dev));
	MUST_0(raw_mr_reg(&a, &d.a.dev, r->a_foreign ? &other : &d.a.pd, d.a.buf, LEN, r->a));
	MUST_0(raw_mr_reg(&b, &d.b.dev, r->b_foreign ? &other : &d.b.pd, d.b.buf, LEN, r->b));
	sge = raw_sge(&b, 0, LEN);
	raw_post_recv(&d.b.qp, 1, &sge, 1);
	raw_ring(&d.b.qp);
	wr = node_wr(&d.a, r->op, &d.to_b, d.ahn, 0, LEN, 0);
	wr.sge[0] = raw_sge(&a, 0, LEN);
	wr.remote = raw_sge(&b, 0, LEN);
	cr_assert(eq(uint, node_run(&d.a, &wr).status, r->status));
	if (r->rx_status)
		node_wait_status(&d.b.rcq, r->rx_status);
	duo_fini(&d);
}

/* A piece of no bytes lies in its region or at an end of it; without a piece there is no key. */
struct empty {
	int64_t at;
	uint32_t key; /* to be changed by */
	bool bad;
};

static struct empty empties[] = {
	{0, 0, false},      {1, 0, false},     {LEN, 0, false},      {-1, 0, true},
	{LEN + 1, 0, true}, {0, 0x7fff, true}, {-0x100000, 0, true},
};

ParameterizedTestParameters(softefa_rules, piece_of_nothing_is_looked_at_like_any_other)
{
	return cr_make_param_array(struct empty, empties, sizeof(empties) / sizeof(empties[0]));
}

static struct raw_sge empty_piece(const struct raw_mr *mr, const struct empty *e)
{
	struct raw_sge sge = raw_sge(mr, 0, 0);

	sge.addr += (uint64_t)e->at;
	sge.key ^= e->key;
	return sge;
}

ParameterizedTest(struct empty *e, softefa_rules, piece_of_nothing_is_looked_at_like_any_other)
{
	struct raw_mr a, b;
	struct raw_sge sge;
	struct raw_wr wr;
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){0});
	MUST_0(raw_mr_reg(&a, &d.a.dev, &d.a.pd, d.a.buf, LEN, LW));
	MUST_0(raw_mr_reg(&b, &d.b.dev, &d.b.pd, d.b.buf, LEN, RW | RR));
	for (enum raw_op op = RAW_SEND; op <= RAW_WRITE; op++) {
		wr = node_wr(&d.a, op, &d.to_b, d.ahn, 0, 0, 0);
		wr.sge[0] = empty_piece(&a, e);
		if (op == RAW_SEND && !e->bad)
			node_recv(&d.b, 1, 0, LEN);
		cr_assert(eq(int, node_run(&d.a, &wr).status, e->bad ? 5 : 0), "local, %d", op);
		if (op == RAW_SEND && !e->bad)
			node_wait_status(&d.b.rcq, 0);
		wr.nsge = 0;
		wr.remote = empty_piece(&b, e);
		if (op != RAW_SEND)
			cr_assert(eq(int, node_run(&d.a, &wr).status, e->bad ? 7 : 0), "remote, %d",
				  op);
	}
	sge = empty_piece(&b, e);
	raw_post_recv(&d.b.qp, 2, &sge, 1);
	raw_ring(&d.b.qp);
	wr = node_wr(&d.a, RAW_SEND, &d.to_b, d.ahn, 0, 0, 0);
	wr.nsge = 0;
	cr_assert(eq(int, node_run(&d.a, &wr).status, e->bad ? 12 : 0));
	node_wait_status(&d.b.rcq, e->bad ? 5 : 0);
	duo_fini(&d);
}

Test(softefa_rules, send_of_the_longest_message_arrives)
{
	struct raw_wr wr;
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){0});
	node_fill(d.a.buf, MTU, 1);
	node_recv(&d.b, 1, 0, MTU);
	wr = node_wr(&d.a, RAW_SEND, &d.to_b, d.ahn, 0, MTU, 0);
	cr_assert(zero(int, node_run(&d.a, &wr).status));
	cr_assert(eq(u32, node_wait_status(&d.b.rcq, 0).len, MTU));
	cr_assert(node_filled(d.b.buf, MTU, 1));
	duo_fini(&d);
}

Test(softefa_rules, rdma_beyond_the_devices_limit_is_6)
{
	struct raw_wr wr;
	struct duo d;

	node_settings("max_rdma_size=65536");
	duo_init(&d, &(struct node_attr){0});
	wr = node_wr(&d.a, RAW_WRITE, &d.to_b, d.ahn, 0, 65536, 0);
	cr_assert(zero(int, node_run(&d.a, &wr).status));
	wr = node_wr(&d.a, RAW_WRITE, &d.to_b, d.ahn, 0, 65537, 0);
	cr_assert(eq(int, node_run(&d.a, &wr).status, 6));
	duo_fini(&d);
}

/* ---- peers ---- */

/* A and B are in protection domains of their own; only A knows B. */
static void strangers_init(struct duo *d, bool sgid)
{
	node_init(&d->a, &(struct node_attr){.dev = 0});
	node_init(&d->b, &(struct node_attr){.dev = 1, .sgid = sgid});
	d->to_b = node_addr(&d->b);
	d->ahn = node_ahn(&d->a, &d->to_b);
}

Test(softefa_rules, stranger_may_send_and_is_told_by_its_gid)
{
	struct raw_gid from;
	struct raw_wr wr;
	struct raw_wc wc;
	struct duo d;

	node_settings(NULL);
	strangers_init(&d, true);
	MUST_0(raw_gid(&d.a.dev, &from));
	node_recv(&d.b, 1, 0, LEN);
	wr = node_wr(&d.a, RAW_SEND, &d.to_b, d.ahn, 0, LEN, 0);
	cr_assert(zero(int, node_run(&d.a, &wr).status));
	wc = node_wait_status(&d.b.rcq, 0);
	cr_assert(eq(u16, wc.ahn, RAW_AHN_UNKNOWN));
	cr_assert(zero(int, memcmp(&wc.sgid, &from, sizeof(from))));
	cr_assert(eq(int, wc.src_qpn, d.a.qp.qpn));
	duo_fini(&d);
}

Test(softefa_rules, stranger_may_not_reach_into_memory_until_it_is_known)
{
	struct node_addr a;
	struct raw_wr wr;
	struct duo d;

	node_settings(NULL);
	strangers_init(&d, false);
	wr = node_wr(&d.a, RAW_WRITE, &d.to_b, d.ahn, 0, LEN, 0);
	cr_assert(eq(int, node_run(&d.a, &wr).status, 14));
	wr.op = RAW_READ;
	cr_assert(eq(int, node_run(&d.a, &wr).status, 14));
	a = node_addr(&d.a);
	node_ahn(&d.b, &a);
	cr_assert(zero(int, node_run(&d.a, &wr).status));
	duo_fini(&d);
}

Test(softefa_rules, address_handle_of_another_domain_is_4)
{
	struct raw_gid gid = {{0xfe, 0x80, [15] = 9}};
	struct raw_pd other;
	struct raw_ah ah;
	struct raw_wr wr;
	struct duo d;

	node_settings("timeout_ms=50");
	duo_init(&d, &(struct node_attr){0});
	MUST_0(raw_pd_alloc(&other, &d.a.dev));
	MUST_0(raw_ah_create(&ah, &d.a.dev, &other, &gid));
	wr = node_wr(&d.a, RAW_SEND, &d.to_b, ah.ahn, 0, LEN, 0);
	cr_assert(eq(int, node_run(&d.a, &wr).status, 4));
	MUST_0(raw_ah_create(&ah, &d.a.dev, &d.a.pd, &gid));
	cr_assert(eq(int, node_run(&d.a, &wr).status, 15));
	MUST_0(raw_ah_destroy(&ah, &d.a.dev));
	cr_assert(eq(int, node_run(&d.a, &wr).status, 4));
	duo_fini(&d);
}

/* With the last handle for a GID in its PD, requests under way to it end as flushed. */
Test(softefa_rules, requests_end_with_the_address_handle_they_use)
{
	struct raw_gid gid = {{0xfe, 0x80, [15] = 9}};
	struct raw_ah ah, twin;
	struct raw_wr wr, local;
	struct duo d;

	node_settings("timeout_ms=60000");
	duo_init(&d, &(struct node_attr){0});
	MUST_0(raw_ah_create(&ah, &d.a.dev, &d.a.pd, &gid));
	MUST_0(raw_ah_create(&twin, &d.a.dev, &d.a.pd, &gid));
	wr = node_wr(&d.a, RAW_SEND, &d.to_b, ah.ahn, 0, LEN, 0);
	node_post(&d.a, &wr);
	local = node_wr(&d.a, RAW_SEND, &d.to_b, d.ahn, 0, LEN, 0);
	local.req_id = 77;
	node_post(&d.a, &local); /* waits for a receive */
	cr_assert(node_quiet(&d.a.scq, 20));
	MUST_0(raw_ah_destroy(&ah, &d.a.dev));
	cr_assert(node_quiet(&d.a.scq, 20), "there is another handle");
	MUST_0(raw_ah_destroy(&twin, &d.a.dev));
	cr_assert(eq(u64, node_wait_status(&d.a.scq, 1).req_id, wr.req_id));
	cr_assert(node_quiet(&d.a.scq, 5));
	node_recv(&d.b, 1, 0, LEN);
	cr_assert(eq(u64, node_wait_status(&d.a.scq, 0).req_id, 77));
	duo_fini(&d);
}

Test(softefa_rules, unsolicited_writes_need_both_sides)
{
	struct node a, b;
	struct node_addr to_b;
	struct raw_wr wr;

	node_settings(NULL);
	node_init(&a, &(struct node_attr){.unsolicited = true});
	node_init(&b, &(struct node_attr){.with = &a});
	to_b = node_addr(&b);
	node_recv(&b, 1, 0, LEN);
	wr = node_wr(&a, RAW_WRITE, &to_b, node_ahn(&a, &to_b), 0, LEN, 0);
	cr_assert(zero(int, node_run(&a, &wr).status), "without immediate there is no receive");
	wr.imm_on = true;
	cr_assert(eq(int, node_run(&a, &wr).status, 18));
	cr_assert(node_quiet(&b.rcq, 5));
	node_fini(&b);
	node_fini(&a);
}

Test(softefa_rules, queue_pair_reaches_itself)
{
	struct node_addr self;
	struct raw_wr wr;
	struct node n;

	node_settings(NULL);
	node_init(&n, &(struct node_attr){0});
	self = node_addr(&n);
	node_recv(&n, 1, LEN, LEN);
	node_fill(n.buf, LEN, 1);
	wr = node_wr(&n, RAW_SEND, &self, node_ahn(&n, &self), 0, LEN, 0);
	cr_assert(zero(int, node_run(&n, &wr).status));
	node_wait_status(&n.rcq, 0);
	cr_assert(node_filled(n.buf + LEN, LEN, 1));
	node_fini(&n);
}

/* ---- datagrams ---- */

/* What is wrong with the message; its sender never learns. */
struct loss {
	uint16_t dqpn;
	uint32_t dqkey, post; /* bytes of the receive; 0: none */
	bool dereg;           /* its memory */
	unsigned rx_status;   /* 0: no receive completes */
};

static struct loss losses[] = {
	{.dqpn = 0x4000, .post = LEN + RAW_GRH},
	{.dqkey = 1, .post = LEN + RAW_GRH},
	{.post = 0},
	{.post = LEN + RAW_GRH - 1, .rx_status = 6},
	{.post = LEN + RAW_GRH, .dereg = true, .rx_status = 5},
};

ParameterizedTestParameters(softefa_rules, sender_of_a_datagram_does_not_learn_its_fate)
{
	return cr_make_param_array(struct loss, losses, sizeof(losses) / sizeof(losses[0]));
}

ParameterizedTest(struct loss *l, softefa_rules, sender_of_a_datagram_does_not_learn_its_fate)
{
	struct raw_wr wr;
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){.type = RAW_UD});
	if (l->post)
		node_recv(&d.b, 1, 0, l->post);
	if (l->dereg)
		MUST_0(raw_mr_dereg(&d.b.mr, &d.b.dev));
	wr = node_wr(&d.a, RAW_SEND, &d.to_b, d.ahn, 0, LEN, 0);
	wr.qpn = (uint16_t)(wr.qpn ^ l->dqpn);
	wr.qkey += l->dqkey;
	cr_assert(zero(int, node_run(&d.a, &wr).status));
	if (l->rx_status)
		node_wait_status(&d.b.rcq, l->rx_status);
	cr_assert(node_quiet(&d.b.rcq, 5));
	duo_fini(&d);
}

Test(softefa_rules, datagram_to_nobody_is_sent_all_the_same)
{
	struct raw_gid gid = {{0xfe, 0x80, [15] = 9}};
	struct raw_wr wr;
	struct raw_ah ah;
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){.type = RAW_UD});
	MUST_0(raw_ah_create(&ah, &d.a.dev, &d.a.pd, &gid));
	wr = node_wr(&d.a, RAW_SEND, &d.to_b, ah.ahn, 0, LEN, 0);
	cr_assert(zero(int, node_run(&d.a, &wr).status));
	duo_fini(&d);
}

Test(softefa_rules, datagram_arrives_behind_room_for_a_header)
{
	struct raw_sge sge[2];
	struct raw_wr wr;
	struct raw_wc wc;
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){.type = RAW_UD});
	memset(d.b.buf, 0xee, 2 * LEN);
	sge[0] = raw_sge(&d.b.mr, 0, 10); /* the header's room is in both */
	sge[1] = raw_sge(&d.b.mr, LEN, LEN + 30);
	raw_post_recv(&d.b.qp, 1, sge, 2);
	raw_ring(&d.b.qp);
	node_fill(d.a.buf, LEN, 1);
	wr = node_wr(&d.a, RAW_SEND, &d.to_b, d.ahn, 0, LEN, 0);
	wr.imm_on = true;
	wr.imm = 0x12345678;
	cr_assert(zero(int, node_run(&d.a, &wr).status));
	wc = node_wait_status(&d.b.rcq, 0);
	cr_assert(eq(u32, wc.len, LEN + RAW_GRH));
	cr_assert(eq(u32, wc.imm, 0x12345678));
	cr_assert(node_filled(d.b.buf + LEN + 30, LEN, 1));
	cr_assert(zero(u8, d.b.buf[9]));
	cr_assert(eq(u8, d.b.buf[10], 0xee));
	duo_fini(&d);
}

Test(softefa_rules, datagram_queue_pairs_do_no_rdma)
{
	struct raw_wr wr;
	struct duo d;

	node_settings(NULL);
	duo_init(&d, &(struct node_attr){.type = RAW_UD});
	wr = node_wr(&d.a, RAW_WRITE, &d.to_b, d.ahn, 0, LEN, 0);
	cr_assert(eq(int, node_run(&d.a, &wr).status, 3));
	wr.op = RAW_READ;
	cr_assert(eq(int, node_run(&d.a, &wr).status, 3));
	duo_fini(&d);
}

Test(softefa_rules, reliable_queue_pair_does_not_find_one_for_datagrams)
{
	struct node a, b;
	struct node_addr to_b;
	struct raw_wr wr;

	node_settings(NULL);
	node_init(&a, &(struct node_attr){0});
	node_init(&b, &(struct node_attr){.with = &a, .type = RAW_UD});
	to_b = node_addr(&b);
	node_recv(&b, 1, 0, LEN);
	wr = node_wr(&a, RAW_SEND, &to_b, node_ahn(&a, &to_b), 0, 8, 0);
	cr_assert(eq(int, node_run(&a, &wr).status, 9));
	node_fini(&b);
	node_fini(&a);
}

/* ---- capabilities ---- */

Test(softefa_rules, device_without_rdma_refuses_it)
{
	struct raw_wr wr;
	struct raw_mr mr;
	struct node n, b;
	struct node_addr to_b;

	node_settings("caps=0x0e"); /* neither read nor write */
	memset(&b, 0, sizeof(b));
	MUST_0(raw_open(&n.dev, &raw_libc, 0));
	MUST_0(raw_pd_alloc(&n.pd, &n.dev));
	n.buf = kids_share(LEN);
	cr_assert(eq(int, raw_mr_reg(&mr, &n.dev, &n.pd, n.buf, LEN, LW | RR), -95));
	cr_assert(eq(int, raw_mr_reg(&mr, &n.dev, &n.pd, n.buf, LEN, RW), -95));
	MUST_0(raw_mr_reg(&n.mr, &n.dev, &n.pd, n.buf, LEN, LW));
	MUST_0(raw_cq_create(&n.scq, &n.dev, &(struct raw_cq_attr){.depth = 16}));
	MUST_0(raw_qp_create(&n.qp, &n.dev, &n.pd, &n.scq, &n.scq,
			     &(struct raw_qp_attr){.type = RAW_SRD, .sq = 16, .rq = 16}));
	MUST_0(raw_qp_up(&n.qp, &n.dev, NODE_QKEY, -1));
	to_b = node_addr(&n);
	wr = node_wr(&n, RAW_WRITE, &to_b, node_ahn(&n, &to_b), 0, 8, 0);
	cr_assert(eq(int, node_run(&n, &wr).status, 3));
	wr.op = RAW_READ;
	cr_assert(eq(int, node_run(&n, &wr).status, 3));
	raw_close(&n.dev);
}
