/* SPDX-License-Identifier: BSD-3-Clause */
/* Every EFA status that a program can provoke. Needs an EFA or softefa. */
#include "srd.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "../lib/loop.h"

enum { LEN = 256 };

static void assert_status(const struct srd_wc *wc, uint32_t efa_status)
{
	cr_assert(ne(int, wc->status, IBV_WC_SUCCESS));
	cr_assert(eq(u32, wc->efa_status, efa_status), "%s", srd_status_str(wc->efa_status));
	cr_assert(lt(int, srd_wc_err(wc), 0));
}

static void assert_run(struct loop *l, const struct srd_wr *wr, uint32_t efa_status)
{
	struct srd_wc wc = loop_run(l, wr);

	assert_status(&wc, efa_status);
}

/* The queue pairs of an SRD failure stay usable: the failure is the request's alone. */
static void assert_still_works(struct loop *l)
{
	struct srd_wr wr = loop_wr(l, IBV_WR_SEND, 0, LEN, 0);

	loop_recv(l, 1, LOOP_B, LEN);
	cr_assert(zero(int, srd_post(&l->a, &wr, 1)));
	loop_wait_ok(&l->b_cq);
	loop_wait_ok(&l->a_cq);
}

Test(status, flushed_receives_of_a_queue_pair_in_error_are_1)
{
	struct loop l;
	struct srd_wc wc[3];
	uint64_t ids = 0;

	loop_init(&l, &(struct loop_attr){0});
	for (int i = 0; i < 3; i++)
		loop_recv(&l, 1 << i, LOOP_B, LEN);
	loop_to_error(&l.b);
	loop_wait(&l.b_cq, wc, 3);
	for (int i = 0; i < 3; i++) {
		assert_status(&wc[i], 1);
		ids |= wc[i].wr_id;
	}
	cr_assert(eq(u64, ids, 7));
	loop_fini(&l);
}

Test(status, flushed_send_of_a_queue_pair_in_error_is_1)
{
	struct loop l;
	struct srd_wr wr;
	struct srd_wc wc;

	loop_init(&l, &(struct loop_attr){.rnr_retry = 7});
	wr = loop_wr(&l, IBV_WR_SEND, 0, LEN, 0);
	cr_assert(zero(int, srd_post(&l.a, &wr, 1)));
	cr_assert(loop_quiet(&l.a_cq), "it waits for a receive");
	loop_to_error(&l.a);
	loop_wait(&l.a_cq, &wc, 1);
	assert_status(&wc, 1);
	cr_assert(eq(u64, wc.wr_id, wr.wr_id));
	loop_fini(&l);
}

Test(status, address_handle_of_another_protection_domain_is_4)
{
	struct srd_peer foreign;
	struct srd_ep ep;
	struct loop l;
	struct srd_wr wr;

	loop_init(&l, &(struct loop_attr){.strangers = true});
	srd_ep_local(&l.b, &ep);
	ep.gid.raw[15] ^= 0x55; /* one that A's PD has no AH for */
	cr_assert(zero(int, srd_peer_init(&foreign, &l.b_pd, &ep)));
	wr = loop_wr(&l, IBV_WR_SEND, 0, LEN, 0);
	wr.to = &foreign;
	assert_run(&l, &wr, 4);
	srd_peer_fini(&foreign);
	assert_still_works(&l);
	loop_fini(&l);
}

Test(status, unknown_local_key_is_5)
{
	struct loop l;
	struct srd_wr wr;

	loop_init(&l, &(struct loop_attr){0});
	loop_recv(&l, 1, LOOP_B, LEN);
	wr = loop_wr(&l, IBV_WR_SEND, 0, LEN, 0);
	wr.sge[0].lkey ^= 0x155555;
	assert_run(&l, &wr, 5);
	loop_fini(&l);
}

Test(status, source_outside_its_region_is_5)
{
	struct loop l;
	struct srd_wr wr;

	loop_init(&l, &(struct loop_attr){0});
	loop_recv(&l, 1, LOOP_B, LEN);
	wr = loop_wr(&l, IBV_WR_SEND, LOOP_BYTES - LEN, LEN, 0);
	wr.sge[0].addr += 1;
	assert_run(&l, &wr, 5);
	loop_fini(&l);
}

Test(status, read_into_a_region_without_local_write_is_5)
{
	struct loop l;
	struct srd_mr mr;
	struct srd_wr wr;

	loop_init(&l, &(struct loop_attr){.need = SRD_CAP_RDMA_READ});
	cr_assert(zero(int, srd_mr_init(&mr, &l.pd, l.buf, LEN, 0)));
	wr = loop_wr(&l, IBV_WR_RDMA_READ, 0, LEN, LOOP_B);
	wr.sge[0].lkey = mr.lkey;
	assert_run(&l, &wr, 5);
	srd_mr_fini(&mr);
	loop_fini(&l);
}

Test(status, local_region_of_another_protection_domain_is_5)
{
	struct loop l;
	struct srd_wr wr;

	loop_init(&l, &(struct loop_attr){.strangers = true});
	loop_recv(&l, 1, LOOP_B, LEN);
	wr = loop_wr(&l, IBV_WR_SEND, 0, LEN, 0);
	wr.sge[0].lkey = l.b_mr.lkey;
	assert_run(&l, &wr, 5);
	loop_fini(&l);
}

Test(status, send_longer_than_the_mtu_is_6)
{
	struct loop l;
	struct srd_wr wr;

	loop_init(&l, &(struct loop_attr){0});
	wr = loop_wr(&l, IBV_WR_SEND, 0, l.dev.attr.max_msg_size + 1, 0);
	assert_run(&l, &wr, 6);
	assert_still_works(&l);
	loop_fini(&l);
}

Test(status, unknown_remote_key_is_7)
{
	struct loop l;
	struct srd_wr wr;

	loop_init(&l, &(struct loop_attr){.need = SRD_CAP_RDMA_READ});
	wr = loop_wr(&l, IBV_WR_RDMA_READ, 0, LEN, LOOP_B);
	wr.rkey ^= 0x155555;
	assert_run(&l, &wr, 7);
	assert_still_works(&l);
	loop_fini(&l);
}

Test(status, target_outside_its_region_is_7)
{
	struct loop l;
	struct srd_wr wr;

	loop_init(&l, &(struct loop_attr){.need = SRD_CAP_RDMA_READ});
	wr = loop_wr(&l, IBV_WR_RDMA_READ, 0, LEN, LOOP_BYTES - LEN + 1);
	assert_run(&l, &wr, 7);
	loop_fini(&l);
}

Test(status, read_of_a_region_without_remote_read_is_7)
{
	struct loop l;
	struct srd_mr mr;
	struct srd_wr wr;

	loop_init(&l, &(struct loop_attr){.need = SRD_CAP_RDMA_READ});
	cr_assert(zero(int, srd_mr_init(&mr, &l.pd, l.buf, LEN, IBV_ACCESS_LOCAL_WRITE)));
	wr = loop_wr(&l, IBV_WR_RDMA_READ, 4096, LEN, 0);
	wr.rkey = mr.rkey;
	assert_run(&l, &wr, 7);
	srd_mr_fini(&mr);
	loop_fini(&l);
}

Test(status, write_to_a_region_without_remote_write_is_7_and_leaves_it_alone)
{
	struct loop l;
	struct srd_mr mr;
	struct srd_wr wr;
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;

	loop_init(&l, &(struct loop_attr){.need = SRD_CAP_RDMA_WRITE});
	cr_assert(zero(int, srd_mr_init(&mr, &l.pd, l.buf + LOOP_B, LEN, access)));
	loop_fill(l.buf, LEN, 1);
	loop_fill(l.buf + LOOP_B, LEN, 2);
	wr = loop_wr(&l, IBV_WR_RDMA_WRITE, 0, LEN, LOOP_B);
	wr.rkey = mr.rkey;
	assert_run(&l, &wr, 7);
	cr_assert(loop_filled(l.buf + LOOP_B, LEN, 2));
	srd_mr_fini(&mr);
	loop_fini(&l);
}

Test(status, region_that_was_deregistered_is_7)
{
	struct loop l;
	struct srd_wr wr;

	loop_init(&l, &(struct loop_attr){.need = SRD_CAP_RDMA_READ});
	wr = loop_wr(&l, IBV_WR_RDMA_READ, 0, LEN, LOOP_B);
	srd_mr_fini(&l.b_mr);
	assert_run(&l, &wr, 7);
	loop_fini(&l);
}

Test(status, queue_pair_that_was_destroyed_is_9)
{
	struct loop l;
	struct srd_wr wr;

	loop_init(&l, &(struct loop_attr){0});
	wr = loop_wr(&l, IBV_WR_SEND, 0, LEN, 0);
	srd_qp_fini(&l.b);
	assert_run(&l, &wr, 9);
	loop_fini(&l);
}

Test(status, queue_pair_that_is_in_error_is_9)
{
	struct loop l;
	struct srd_wr wr;

	loop_init(&l, &(struct loop_attr){0});
	wr = loop_wr(&l, IBV_WR_SEND, 0, LEN, 0);
	loop_to_error(&l.b);
	assert_run(&l, &wr, 9);
	loop_fini(&l);
}

Test(status, wrong_qkey_is_9)
{
	struct loop l;
	struct srd_wr wr;

	loop_init(&l, &(struct loop_attr){0});
	loop_recv(&l, 1, LOOP_B, LEN);
	l.to_b.qkey++;
	wr = loop_wr(&l, IBV_WR_SEND, 0, LEN, 0);
	assert_run(&l, &wr, 9);
	loop_fini(&l);
}

Test(status, send_without_a_receive_is_10_after_the_retries)
{
	struct loop l;
	struct srd_wr wr;

	loop_init(&l, &(struct loop_attr){.rnr_retry = 1});
	wr = loop_wr(&l, IBV_WR_SEND, 0, LEN, 0);
	assert_run(&l, &wr, 10);
	assert_still_works(&l);
	loop_fini(&l);
}

Test(status, write_with_imm_without_a_receive_is_10_after_the_retries)
{
	struct loop l;
	struct srd_wr wr;

	loop_init(&l, &(struct loop_attr){.rnr_retry = 1, .need = SRD_CAP_RDMA_WRITE});
	wr = loop_wr(&l, IBV_WR_RDMA_WRITE_WITH_IMM, 0, LEN, LOOP_B);
	assert_run(&l, &wr, 10);
	loop_fini(&l);
}

Test(status, send_without_a_receive_waits_when_retries_are_unlimited)
{
	struct loop l;
	struct srd_wr wr;

	loop_init(&l, &(struct loop_attr){.rnr_retry = 7});
	loop_fill(l.buf, LEN, 3);
	wr = loop_wr(&l, IBV_WR_SEND, 0, LEN, 0);
	cr_assert(zero(int, srd_post(&l.a, &wr, 1)));
	cr_assert(loop_quiet(&l.a_cq));
	loop_recv(&l, 1, LOOP_B, LEN);
	loop_wait_ok(&l.b_cq);
	loop_wait_ok(&l.a_cq);
	cr_assert(loop_filled(l.buf + LOOP_B, LEN, 3));
	loop_fini(&l);
}

Test(status, receive_too_short_is_11_and_fails_the_receive_too)
{
	struct loop l;
	struct srd_wr wr;
	struct srd_wc wc;

	loop_init(&l, &(struct loop_attr){0});
	loop_recv(&l, 8, LOOP_B, LEN - 1);
	wr = loop_wr(&l, IBV_WR_SEND, 0, LEN, 0);
	assert_run(&l, &wr, 11);
	loop_wait(&l.b_cq, &wc, 1);
	cr_assert(eq(u64, wc.wr_id, 8));
	cr_assert(lt(int, srd_wc_err(&wc), 0));
	cr_assert(zero(u8, l.buf[LOOP_B + LEN - 1]), "nothing beyond the buffer");
	loop_fini(&l);
}

Test(status, bad_receive_buffer_is_12_for_the_sender_and_5_for_the_receiver)
{
	struct loop l;
	struct srd_wr wr;
	struct srd_wc wc;
	struct ibv_sge sge;
	struct ibv_recv_wr recv = {.wr_id = 6, .sg_list = &sge, .num_sge = 1};

	loop_init(&l, &(struct loop_attr){0});
	cr_assert(zero(int, srd_sge(&sge, &l.b_mr, LOOP_B, LEN)));
	sge.lkey ^= 0x155555;
	cr_assert(zero(int, srd_post_recv(&l.b, &recv, NULL)));
	wr = loop_wr(&l, IBV_WR_SEND, 0, LEN, 0);
	assert_run(&l, &wr, 12);
	loop_wait(&l.b_cq, &wc, 1);
	cr_assert(eq(u64, wc.wr_id, 6));
	assert_status(&wc, 5);
	loop_fini(&l);
}

Test(status, rdma_to_one_who_has_no_address_handle_for_us_is_14)
{
	struct loop l;
	struct srd_wr wr;

	loop_init(&l, &(struct loop_attr){.strangers = true, .need = SRD_CAP_RDMA_READ});
	wr = loop_wr(&l, IBV_WR_RDMA_READ, 0, LEN, LOOP_B);
	assert_run(&l, &wr, 14);
	assert_still_works(&l);
	loop_fini(&l);
}

Test(status, gid_that_nobody_has_is_15)
{
	struct srd_peer nobody;
	struct srd_ep ep;
	struct loop l;
	struct srd_wr wr;

	loop_init(&l, &(struct loop_attr){0});
	srd_ep_local(&l.b, &ep);
	memset(ep.gid.raw + 8, 0x5a, 8);
	cr_assert(zero(int, srd_peer_init(&nobody, &l.pd, &ep)));
	wr = loop_wr(&l, IBV_WR_SEND, 0, LEN, 0);
	wr.to = &nobody;
	assert_run(&l, &wr, 15);
	srd_peer_fini(&nobody);
	loop_fini(&l);
}

Test(status, queue_pairs_that_disagree_on_unsolicited_writes_are_18)
{
	struct loop l;
	struct srd_wr wr;

	loop_init(&l, &(struct loop_attr){.b_unsolicited = true});
	wr = loop_wr(&l, IBV_WR_RDMA_WRITE_WITH_IMM, 0, LEN, LOOP_B);
	assert_run(&l, &wr, 18);
	loop_fini(&l);
}
