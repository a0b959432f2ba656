/* SPDX-License-Identifier: BSD-3-Clause */
/* Sizes: of messages, of transfers, of queues. "Guess": nobody has seen it on silicon. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <string.h>

#include "../lib/bytes.h"
#include "../lib/hw.h"
#include "../lib/kids.h"

TestSuite(sizes, .timeout = 60);

/* ---- sends ---- */

/* Bytes, or so many less than the longest message. */
struct length {
	uint32_t bytes;
	bool below_mtu;
};

static struct length lengths[] = {
	{0, false},    {1, false},    {2, false},    {31, false},  {32, false},  {33, false},
	{63, false},   {64, false},   {65, false},   {127, false}, {128, false}, {1000, false},
	{4095, false}, {4096, false}, {4097, false}, {1, true},    {0, true},
};

ParameterizedTestParameters(sizes, send_arrives_in_its_length)
{
	return cr_make_param_array(struct length, lengths, sizeof(lengths) / sizeof(lengths[0]));
}

/* Section 5.2. No byte beyond the message is touched. */
ParameterizedTest(struct length *l, sizes, send_arrives_in_its_length)
{
	struct hw_pair p;
	struct hw_wr wr;
	uint32_t len;

	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	len = l->below_mtu ? p.a.mtu - l->bytes : l->bytes;
	memset(p.b.buf, 0xee, p.b.bytes);
	bytes_fill(p.a.buf, len, 3);
	hw_recv(&p.b, 1, 0, p.b.mtu);
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, len, 0);
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_OK));
	cr_assert(eq(u32, hw_wait_for(&p.b.rcq, HW_OK).len, len));
	cr_assert(lt(long, bytes_differ(p.b.buf, len, 3), 0));
	cr_assert(lt(long, bytes_differ_from(p.b.buf + len, p.b.bytes - len, 0xee), 0));
	hw_pair_fini(&p);
}

/* Section 5.2: a message is not cut into several. The receive stays for the next one. */
Test(sizes, send_beyond_the_longest_message_fails_at_its_sender)
{
	struct hw_pair p;
	struct hw_wr wr;

	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	hw_recv(&p.b, 1, 0, p.b.mtu + 1 > 65535 ? 65535 : p.b.mtu + 1);
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, p.a.mtu + 1, 0);
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_BAD_LENGTH));
	cr_assert(hw_quiet(&p.b.rcq));
	hw_pair_works(&p);
	hw_pair_fini(&p);
}

/* Section 4.1: a send has room for two pieces; either may be empty. */
static struct pieces {
	uint32_t len[2];
} pieces[] = {{{1, 1}}, {{0, 5}}, {{5, 0}}, {{0, 0}}, {{4095, 4097}}, {{1, 8000}}};

ParameterizedTestParameters(sizes, two_pieces_make_one_message)
{
	return cr_make_param_array(struct pieces, pieces, sizeof(pieces) / sizeof(pieces[0]));
}

ParameterizedTest(struct pieces *s, sizes, two_pieces_make_one_message)
{
	uint32_t total = s->len[0] + s->len[1];
	struct hw_pair p;
	struct hw_wr wr;

	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	if (p.a.dev.max_sq_sge < 2 || total > p.a.mtu)
		cr_skip("device of sends with pieces: %u, bytes: %u", p.a.dev.max_sq_sge, p.a.mtu);
	bytes_fill(p.a.buf, total, 9);
	memmove(p.a.buf + 32768, p.a.buf + s->len[0], s->len[1]);
	hw_recv(&p.b, 1, 0, p.b.mtu);
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, s->len[0], 0);
	wr.sge[wr.nsge++] = hw_sge(p.a.mr, 32768, s->len[1]);
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_OK));
	cr_assert(eq(u32, hw_wait_for(&p.b.rcq, HW_OK).len, total));
	cr_assert(lt(long, bytes_differ(p.b.buf, total, 9), 0));
	hw_pair_fini(&p);
}

/* Section 5.2. */
Test(sizes, pieces_together_are_not_longer_than_a_message)
{
	struct hw_pair p;
	struct hw_wr wr;

	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	if (p.a.dev.max_sq_sge < 2)
		cr_skip("device of sends in one piece");
	hw_recv(&p.b, 1, 0, p.b.mtu);
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, p.a.mtu, 0);
	wr.sge[wr.nsge++] = hw_sge(p.a.mr, 0, 1);
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_BAD_LENGTH));
	hw_pair_works(&p);
	hw_pair_fini(&p);
}

/* Section 4.9: what the provider refuses leaves no trace in the queue. */
Test(sizes, three_pieces_are_refused_at_the_post)
{
	struct hw_pair p;
	struct hw_wr wr;

	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, 1, 0);
	wr.nsge = 3;
	wr.sge[1] = wr.sge[2] = wr.sge[0];
	cr_assert(eq(int, hw_try_post(&p.a, &wr), EINVAL));
	hw_pair_works(&p);
	hw_pair_fini(&p);
}

/* Section 4.1. */
Test(sizes, send_of_no_piece_is_an_empty_message)
{
	struct hw_pair p;
	struct hw_wr wr;

	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	hw_recv(&p.b, 1, 0, 0);
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, 0, 0);
	wr.nsge = 0;
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_OK));
	cr_assert(zero(u32, hw_wait_for(&p.b.rcq, HW_OK).len));
	hw_pair_fini(&p);
}

/* ---- inline ---- */

static uint32_t inlines[] = {0, 1, 31, 32, 33, 79, 80, 81};

ParameterizedTestParameters(sizes, inline_data_up_to_the_limit)
{
	return cr_make_param_array(uint32_t, inlines, sizeof(inlines) / sizeof(inlines[0]));
}

/* Sections 2.4, 3.3: what the device has no room for is refused when the queue pair is made. */
ParameterizedTest(uint32_t *len, sizes, inline_data_up_to_the_limit)
{
	struct hw_attr attr = {.max_inline = *len};
	uint8_t data[128];
	uint32_t limit;
	struct hw_pair p;
	struct hw_wr wr;
	struct ibv_qp *qp;

	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	limit = p.a.dev.inline_buf_size;
	if (p.a.dev.inline_buf_size_ex > limit)
		limit = p.a.dev.inline_buf_size_ex;
	qp = hw_qp_create(&p.a, &attr);
	cr_assert(eq(int, qp != NULL, *len <= limit), "%u bytes, the limit is %u", *len, limit);
	if (qp) {
		HW(ibv_destroy_qp)(p.a.qp);
		p.a.qp = qp;
		p.a.qpx = HW(ibv_qp_to_qp_ex)(qp);
		MUST_0(-hw_qp_up(qp, HW_QKEY, -1));
		bytes_fill(data, *len, 1);
		hw_recv(&p.b, 1, 0, 128);
		wr = hw_pair_wr(&p, HW_OP_SEND, 0, 0, 0);
		wr.data = data;
		wr.data_len = *len;
		hw_post(&p.a, &wr);
		memset(data, 0, sizeof(data)); /* it is the device's copy that counts */
		hw_wait_for(&p.a.scq, HW_OK);
		cr_assert(eq(u32, hw_wait_for(&p.b.rcq, HW_OK).len, *len));
		cr_assert(lt(long, bytes_differ(p.b.buf, *len, 1), 0));
	}
	hw_pair_fini(&p);
}

/* Section 4.9. */
Test(sizes, inline_data_beyond_what_was_asked_for_is_refused_at_the_post)
{
	uint8_t data[200] = {0};
	struct hw_pair p;
	struct hw_wr wr;

	hw_pair_init(&p, &(struct hw_attr){.max_inline = 32}, NULL);
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, 0, 0);
	wr.data = data;
	wr.data_len = sizeof(data);
	cr_assert(eq(int, hw_try_post(&p.a, &wr), EINVAL));
	hw_pair_works(&p);
	hw_pair_fini(&p);
}

/* Section 4.1: a write of data in a work request of 128 bytes. */
Test(sizes, inline_write_lands)
{
	uint8_t data[80];
	struct hw_pair p;
	struct hw_wr wr;

	hw_pair_init(&p, &(struct hw_attr){.need = HW_WRITE}, NULL);
	if (p.a.dev.inline_buf_size_ex < sizeof(data))
		cr_skip("device or libefa without inline writes");
	hw_pair_fini(&p);
	hw_pair_init(&p, &(struct hw_attr){.max_inline = sizeof(data)}, NULL);
	for (uint32_t len = 0; len <= sizeof(data); len += 8) {
		memset(p.b.buf, 0xee, 256);
		bytes_fill(data, len, len);
		wr = hw_pair_wr(&p, HW_OP_WRITE, 0, 0, 3);
		wr.data = data;
		wr.data_len = len;
		cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_OK));
		cr_assert(lt(long, bytes_differ(p.b.buf + 3, len, len), 0));
		cr_assert(eq(u8, p.b.buf[2], 0xee));
		cr_assert(eq(u8, p.b.buf[3 + len], 0xee));
	}
	hw_pair_fini(&p);
}

/* ---- receives ---- */

/* Section 4.3: a receive is as many descriptors as pieces; the message fills them in order. */
Test(sizes, receive_scatters_over_all_its_pieces)
{
	struct hw_pair p;
	struct ibv_sge sge[16];
	uint8_t all[16 * 40];
	struct hw_wr wr;
	uint32_t n;

	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	n = p.a.dev.max_rq_sge < 16 ? p.a.dev.max_rq_sge : 16;
	hw_pair_fini(&p);
	hw_pair_init(&p, &(struct hw_attr){.recv_sges = n}, NULL);
	for (unsigned round = 0; round < 40; round++) {
		uint32_t len = 0, at = 0;

		for (uint32_t i = 0; i < n; i++) {
			sge[i] = hw_sge(p.b.mr, (int64_t)i * 1000, 1 + (i * 7 + round) % 40);
			len += sge[i].length;
		}
		memset(p.b.buf, 0xee, p.b.bytes);
		bytes_fill(p.a.buf, len, round);
		MUST_0(-hw_try_recv(&p.b, 1, sge, (int)n));
		wr = hw_pair_wr(&p, HW_OP_SEND, 0, len, 0);
		cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_OK));
		cr_assert(eq(u32, hw_wait_for(&p.b.rcq, HW_OK).len, len));
		for (uint32_t i = 0; i < n; at += sge[i++].length) {
			memcpy(all + at, p.b.buf + i * 1000, sge[i].length);
			cr_assert(eq(u8, p.b.buf[i * 1000 + sge[i].length], 0xee));
		}
		cr_assert(lt(long, bytes_differ(all, len, round), 0));
	}
	hw_pair_fini(&p);
}

/* Section 5.8. Guess: that the receive is consumed, and its status. The sender's is known. */
Test(sizes, message_longer_than_its_receive_fails_at_both_ends)
{
	struct hw_pair p;
	struct hw_wr wr;

	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	memset(p.b.buf, 0xee, 512);
	hw_recv(&p.b, 1, 0, 99);
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, 100, 0);
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_SHORT_RECV));
	cr_assert(eq(u64, hw_wait_for(&p.b.rcq, HW_BAD_LENGTH).wr_id, 1));
	cr_assert(lt(long, bytes_differ_from(p.b.buf + 99, 400, 0xee), 0));
	hw_recv(&p.b, 2, 0, 100);
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_OK));
	cr_assert(eq(u64, hw_wait_for(&p.b.rcq, HW_OK).wr_id, 2));
	hw_pair_fini(&p);
}

/* ---- RDMA ---- */

static uint32_t transfers[] = {1, 8, 63, 64, 65, 4096, 8928, 8929, 65535, 65536, 1 << 20};

ParameterizedTestParameters(sizes, rdma_moves_its_length_and_no_more)
{
	return cr_make_param_array(uint32_t, transfers, sizeof(transfers) / sizeof(transfers[0]));
}

static void move(struct hw_pair *p, enum hw_op op, uint32_t len)
{
	struct hw *from = op == HW_OP_READ ? &p->b : &p->a, *to = op == HW_OP_READ ? &p->a : &p->b;
	struct hw_wr wr = hw_pair_wr(p, op, 64, len, 64);

	memset(to->buf, 0xee, to->bytes);
	bytes_fill(from->buf + 64, len, len + op);
	cr_assert(eq(uint, hw_run(&p->a, &wr).status, HW_OK));
	cr_assert(lt(long, bytes_differ(to->buf + 64, len, len + op), 0));
	cr_assert(lt(long, bytes_differ_from(to->buf, 64, 0xee), 0));
	cr_assert(lt(long, bytes_differ_from(to->buf + 64 + len, 64, 0xee), 0));
}

/* Section 5.2: one request moves more than a message's length; it is cut by the device. */
ParameterizedTest(uint32_t *len, sizes, rdma_moves_its_length_and_no_more)
{
	struct hw_pair p;

	hw_pair_init(&p, &(struct hw_attr){.need = HW_READ, .bytes = *len + 128}, NULL);
	if (*len > p.a.dev.max_rdma_size)
		cr_skip("%u bytes: the device moves no more than %u", *len, p.a.dev.max_rdma_size);
	move(&p, HW_OP_READ, *len);
	if (p.a.dev.device_caps & HW_WRITE)
		move(&p, HW_OP_WRITE, *len);
	hw_pair_fini(&p);
}

/* Section 5.2. Guess: the status. */
Test(sizes, rdma_beyond_the_devices_limit_fails_and_moves_nothing)
{
	struct hw_pair p;
	struct hw_wr wr;
	uint32_t max;

	hw_pair_init(&p, &(struct hw_attr){.need = HW_READ}, NULL);
	max = p.a.dev.max_rdma_size;
	hw_pair_fini(&p);
	if (max > 64 << 20)
		cr_skip("takes twice the %u bytes of the device's limit", max);
	hw_pair_init(&p, &(struct hw_attr){.bytes = max + 1}, NULL);
	move(&p, HW_OP_READ, max - 128);
	memset(p.a.buf, 0xee, max + 1);
	wr = hw_pair_wr(&p, HW_OP_READ, 0, max + 1, 0);
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_BAD_LENGTH));
	cr_assert(lt(long, bytes_differ_from(p.a.buf, max + 1, 0xee), 0));
	wr = hw_pair_wr(&p, HW_OP_READ, 0, max, 0);
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_OK));
	hw_pair_fini(&p);
}

/* Sections 4.1, 4.9: an RDMA has room for one piece. */
Test(sizes, rdma_of_two_pieces_is_refused_at_the_post)
{
	struct hw_pair p;
	struct hw_wr wr;

	hw_pair_init(&p, &(struct hw_attr){.need = HW_READ}, NULL);
	wr = hw_pair_wr(&p, HW_OP_READ, 0, 8, 0);
	wr.sge[wr.nsge++] = hw_sge(p.a.mr, 64, 8);
	cr_assert(eq(int, hw_try_post(&p.a, &wr), EINVAL));
	hw_pair_works(&p);
	hw_pair_fini(&p);
}

/* ---- queues ---- */

/* Sections 2.7, 3.3: what the device says of itself can be had, and one more cannot. */
Test(sizes, queues_are_as_deep_as_the_device_says_and_no_deeper)
{
	struct ibv_qp *qp;
	struct hw h;

	hw_init(&h, &(struct hw_attr){0});
	cr_assert(ge(u32, h.dev.max_sq_wr, 1));
	qp = hw_qp_create(&h, &(struct hw_attr){.sq = h.dev.max_sq_wr, .rq = h.dev.max_rq_wr});
	cr_assert(ne(ptr, qp, NULL), "SQ %u, RQ %u", h.dev.max_sq_wr, h.dev.max_rq_wr);
	cr_assert(zero(int, HW(ibv_destroy_qp)(qp)));
	cr_assert(eq(ptr, hw_qp_create(&h, &(struct hw_attr){.sq = h.dev.max_sq_wr + 1}), NULL));
	cr_assert(eq(ptr, hw_qp_create(&h, &(struct hw_attr){.rq = h.dev.max_rq_wr + 1}), NULL));
	cr_assert(eq(ptr, hw_qp_create(&h, &(struct hw_attr){.recv_sges = h.dev.max_rq_sge + 1u}),
		     NULL));
	hw_fini(&h);
}

/* Section 4.9: the request that finds no room changes nothing. */
Test(sizes, full_send_queue_says_so)
{
	enum { DEPTH = 16 };
	struct hw_pair p;
	struct hw_wr wr;
	unsigned n = 0;
	int rc = 0;

	hw_pair_init(&p, &(struct hw_attr){.sq = DEPTH}, NULL);
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, 1, 0);
	for (; !rc && n < 4096; n += rc == 0) {
		wr.wr_id = n;
		rc = hw_try_post(&p.a, &wr); /* waits: there is no receive */
	}
	cr_assert(eq(int, rc, ENOMEM));
	cr_assert(ge(uint, n, DEPTH));
	for (unsigned i = 0; i < n; i++)
		hw_recv(&p.b, i, 0, 64);
	for (unsigned i = 0; i < n; i++) {
		hw_wait_for(&p.a.scq, HW_OK);
		hw_wait_for(&p.b.rcq, HW_OK);
	}
	hw_pair_works(&p);
	hw_pair_fini(&p);
}

/* Section 4.9. */
Test(sizes, full_receive_queue_says_so)
{
	enum { DEPTH = 16 };
	struct hw_pair p;
	struct ibv_sge sge;
	unsigned n = 0;
	int rc = 0;

	hw_pair_init(&p, &(struct hw_attr){.rq = DEPTH}, NULL);
	sge = hw_sge(p.b.mr, 0, 64);
	for (; !rc && n < 4096; n += rc == 0)
		rc = hw_try_recv(&p.b, n, &sge, 1);
	cr_assert(eq(int, rc, ENOMEM));
	cr_assert(ge(uint, n, DEPTH));
	for (unsigned i = 0; i < n; i++) {
		struct hw_wr wr = hw_pair_wr(&p, HW_OP_SEND, 0, 1, 0);

		cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_OK));
		hw_wait_for(&p.b.rcq, HW_OK);
	}
	hw_pair_works(&p);
	hw_pair_fini(&p);
}

/* Section 2.6. */
Test(sizes, completion_queue_is_as_deep_as_the_device_says_and_no_deeper)
{
	struct ibv_device_attr dev;
	struct ibv_cq *cq;
	struct hw h;

	hw_init(&h, &(struct hw_attr){0});
	MUST_0(-HW(ibv_query_device)(h.ctx, &dev));
	cq = HW(ibv_create_cq)(h.ctx, dev.max_cqe, NULL, NULL, 0);
	cr_assert(ne(ptr, cq, NULL), "%d entries", dev.max_cqe);
	cr_assert(ge(int, cq->cqe, dev.max_cqe));
	cr_assert(zero(int, HW(ibv_destroy_cq)(cq)));
	cr_assert(eq(ptr, HW(ibv_create_cq)(h.ctx, dev.max_cqe + 1, NULL, NULL, 0), NULL));
	cr_assert(eq(int, errno, EINVAL));
	hw_fini(&h);
}

/* Section 2.7: half a queue pair. */
Test(sizes, queue_pair_without_a_receive_queue_sends)
{
	struct hw_pair p;
	struct ibv_qp *qp;

	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	qp = p.a.qp;
	p.a.qp = HW(efadv_create_qp_ex)(
		p.a.ctx,
		&(struct ibv_qp_init_attr_ex){
			.send_cq = p.a.scq.cq,
			.recv_cq = p.a.rcq.cq,
			.cap = {.max_send_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
			.qp_type = IBV_QPT_DRIVER,
			.sq_sig_all = 1,
			.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
			.pd = p.a.pd,
			.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM,
		},
		&(struct efadv_qp_init_attr){.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD},
		sizeof(struct efadv_qp_init_attr));
	cr_assert(ne(ptr, p.a.qp, NULL));
	MUST_0(-HW(ibv_destroy_qp)(qp));
	p.a.qpx = HW(ibv_qp_to_qp_ex)(p.a.qp);
	MUST_0(-hw_qp_up(p.a.qp, HW_QKEY, -1));
	hw_pair_works(&p);
	hw_pair_fini(&p);
}
