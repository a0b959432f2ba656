/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who reaches whom: address handles, numbers, qkeys, loopback. "Guess": nobody has seen it on
 * silicon.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <string.h>

#include "../lib/bytes.h"
#include "../lib/hw.h"
#include "../lib/kids.h"

TestSuite(peers, .timeout = 60);

enum { LEN = 200 };

/* A GID that no device has: of documentation's prefix. */
static union ibv_gid nobody(void)
{
	return (union ibv_gid){.raw = {0xfe, 0x80, [8] = 0x0e, [15] = 0x99}};
}

/* B in its own PD, on the device of A, which knows B; B does not know A. */
static void strangers_init(struct hw_pair *p, const struct hw_attr *attr)
{
	struct hw_attr b = *attr;

	memset(p, 0, sizeof(*p));
	hw_init(&p->a, attr);
	b.near = &p->a;
	hw_init(&p->b, &b);
	p->to_a = hw_addr(&p->a);
	p->to_b = hw_addr(&p->b);
	p->ah_b = hw_ah(&p->a, &p->to_b);
}

/* ---- address handles ---- */

/* Section 2.5: the number belongs to the GID on this device, whoever made the handle. */
Test(peers, address_handles_of_one_gid_have_one_number)
{
	struct hw_addr self;
	struct ibv_ah *first, *second, *third;
	struct hw a, b;

	hw_init(&a, &(struct hw_attr){0});
	hw_init(&b, &(struct hw_attr){.near = &a});
	self = hw_addr(&a);
	first = hw_ah(&a, &self);
	second = hw_ah_create(a.pd, &self.gid);
	third = hw_ah(&b, &self);
	cr_assert(eq(int, hw_ahn(first), hw_ahn(second)));
	cr_assert(eq(int, hw_ahn(first), hw_ahn(third)));
	cr_assert(ne(int, hw_ahn(first), HW_AHN_UNKNOWN));
	cr_assert(zero(int, HW(ibv_destroy_ah)(second)));
	hw_fini(&b);
	hw_fini(&a);
}

/* Section 2.5. */
Test(peers, address_handles_of_different_gids_have_different_numbers)
{
	union ibv_gid gid = nobody();
	struct ibv_ah *ah[8];
	struct hw h;

	hw_init(&h, &(struct hw_attr){0});
	for (unsigned i = 0; i < 8; i++) {
		gid.raw[14] = (uint8_t)i;
		ah[i] = hw_ah_create(h.pd, &gid);
		cr_assert(ne(ptr, ah[i], NULL));
		for (unsigned k = 0; k < i; k++)
			cr_assert(ne(int, hw_ahn(ah[k]), hw_ahn(ah[i])));
	}
	for (unsigned i = 0; i < 8; i++)
		cr_assert(zero(int, HW(ibv_destroy_ah)(ah[i])));
	hw_fini(&h);
}

/* Section 2.5. */
Test(peers, address_handle_needs_a_gid)
{
	union ibv_gid none = {{0}};
	struct hw h;

	hw_init(&h, &(struct hw_attr){0});
	cr_assert(eq(ptr, hw_ah_create(h.pd, &none), NULL));
	cr_assert(eq(int, errno, EINVAL));
	hw_fini(&h);
}

/* Section 2.5: the one that is destroyed takes nothing away from the other. */
Test(peers, second_address_handle_outlives_the_first)
{
	struct ibv_ah *second;
	struct hw_pair p;

	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	second = hw_ah_create(p.a.pd, &p.to_b.gid);
	cr_assert(zero(int, HW(ibv_destroy_ah)(p.ah_b)));
	p.a.nah = 0;
	p.ah_b = second;
	hw_pair_works(&p);
	cr_assert(zero(int, HW(ibv_destroy_ah)(second)));
	hw_pair_fini(&p);
}

/* Section 5.4: the permission to use a number is the PD's. */
Test(peers, address_handle_of_another_domain_fails_at_its_user)
{
	union ibv_gid gid = nobody();
	struct ibv_ah *ah;
	struct hw_pair p;
	struct hw_wr wr;
	struct hw other;

	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	hw_init(&other, &(struct hw_attr){.near = &p.a});
	ah = hw_ah_create(other.pd, &gid);
	cr_assert(ne(ptr, ah, NULL));
	wr = hw_wr(&p.a, HW_OP_SEND, &p.to_b, ah, 0, LEN, 0);
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_BAD_AH));
	hw_pair_works(&p);
	cr_assert(zero(int, HW(ibv_destroy_ah)(ah)));
	hw_fini(&other);
	hw_pair_fini(&p);
}

/* Section 5.11: known from Amazon's text on SRD. Others of the queue pair go on. */
Test(peers, requests_end_with_their_address_handle)
{
	struct hw_pair p;
	struct hw_wr wr;
	struct ibv_ah *ah;
	union ibv_gid gid = nobody();

	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	ah = hw_ah_create(p.a.pd, &gid);
	wr = hw_wr(&p.a, HW_OP_SEND, &p.to_b, ah, 0, LEN, 0);
	wr.wr_id = 1;
	hw_post(&p.a, &wr); /* to nobody: it takes a timeout of the device to fail */
	cr_assert(hw_quiet(&p.a.scq));
	cr_assert(zero(int, HW(ibv_destroy_ah)(ah)));
	cr_assert(eq(u64, hw_wait_for(&p.a.scq, HW_FLUSHED).wr_id, 1));
	hw_pair_works(&p);
	hw_pair_fini(&p);
}

/* ---- strangers ---- */

/* Section 5.4: its GID is all that is known of it. */
Test(peers, stranger_may_send_and_is_told_by_its_gid)
{
	struct hw_pair p;
	struct hw_wr wr;
	struct hw_wc wc;

	strangers_init(&p, &(struct hw_attr){.told = true, .need = HW_SGID});
	hw_recv(&p.b, 1, 0, LEN);
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, LEN, 0);
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_OK));
	wc = hw_wait_for(&p.b.rcq, HW_OK);
	cr_assert(eq(int, wc.ahn, HW_AHN_UNKNOWN));
	cr_assert(zero(int, memcmp(&wc.sgid, &p.to_a.gid, sizeof(wc.sgid))));
	cr_assert(eq(u32, wc.src_qpn, p.to_a.qpn));
	hw_pair_fini(&p);
}

/* Sections 4.4, 5.4. */
Test(peers, acquaintance_is_told_by_its_number)
{
	struct hw_pair p;
	struct hw_wr wr;
	struct hw_wc wc;
	struct ibv_ah *ah;

	strangers_init(&p, &(struct hw_attr){0});
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, LEN, 0);
	hw_recv(&p.b, 1, 0, LEN);
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_OK));
	cr_assert(eq(int, hw_wait_for(&p.b.rcq, HW_OK).ahn, HW_AHN_UNKNOWN));
	ah = hw_ah(&p.b, &p.to_a);
	hw_recv(&p.b, 2, 0, LEN);
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_OK));
	wc = hw_wait_for(&p.b.rcq, HW_OK);
	cr_assert(eq(int, wc.ahn, hw_ahn(ah)));
	cr_assert(eq(u32, wc.src_qpn, p.to_a.qpn));
	hw_pair_fini(&p);
}

/* Section 5.4. Guess: that it is the PD of the target, and not the device, that must know. */
Test(peers, stranger_may_not_reach_into_memory_until_it_is_known)
{
	struct hw_pair p;
	struct hw_wr wr;

	strangers_init(&p, &(struct hw_attr){.need = HW_READ});
	wr = hw_pair_wr(&p, HW_OP_READ, 0, LEN, 0);
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_UNKNOWN_PEER));
	if (p.a.dev.device_caps & HW_WRITE) {
		wr.op = HW_OP_WRITE;
		cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_UNKNOWN_PEER));
	}
	p.ah_a = hw_ah(&p.b, &p.to_a);
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_OK));
	cr_assert(zero(int, HW(ibv_destroy_ah)(p.ah_a)));
	p.b.nah = 0;
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_UNKNOWN_PEER));
	hw_pair_fini(&p);
}

/* ---- qkeys and numbers ---- */

/* Section 5.5. Guess: there is no status for it; 9 is what is nearest. */
Test(peers, qkey_must_be_the_receivers)
{
	struct hw_pair p;
	struct hw_wr wr;

	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	hw_recv(&p.b, 1, 0, LEN);
	for (unsigned bit = 0; bit < 32; bit += 7) {
		wr = hw_pair_wr(&p, HW_OP_SEND, 0, LEN, 0);
		wr.qkey ^= 1u << bit;
		cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_BAD_QPN), "bit %u", bit);
	}
	cr_assert(hw_quiet(&p.b.rcq));
	hw_pair_works(&p);
	hw_pair_fini(&p);
}

/* Sections 2.7, 5.5: the qkey of a queue pair at work may change. */
Test(peers, new_qkey_holds_at_once)
{
	struct ibv_qp_attr attr = {.qkey = 0x1234};
	struct hw_pair p;
	struct hw_wr wr;

	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	hw_recv(&p.b, 1, 0, LEN);
	cr_assert(zero(int, HW(ibv_modify_qp)(p.b.qp, &attr, IBV_QP_QKEY)));
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, LEN, 0);
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_BAD_QPN));
	wr.qkey = 0x1234;
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_OK));
	hw_wait_for(&p.b.rcq, HW_OK);
	hw_pair_fini(&p);
}

/* Section 4.8. */
Test(peers, queue_pair_that_is_not_there_is_reported)
{
	struct hw_pair p;
	struct hw_wr wr;

	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, LEN, 0);
	wr.qpn ^= 0x5a5a; /* two of one device are not so far apart, we hope */
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_BAD_QPN));
	hw_pair_works(&p);
	hw_pair_fini(&p);
}

/* Section 4.8. Guess: the status. */
Test(peers, reliable_queue_pair_does_not_reach_one_for_datagrams)
{
	struct hw_addr to;
	struct hw_pair p;
	struct hw_wr wr;
	struct hw ud;

	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	hw_init(&ud, &(struct hw_attr){.ud = true, .with = &p.a});
	to = hw_addr(&ud);
	hw_recv(&ud, 1, 0, LEN + HW_GRH);
	wr = hw_wr(&p.a, HW_OP_SEND, &to, p.ah_b, 0, LEN, 0);
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_BAD_QPN));
	cr_assert(hw_quiet(&ud.rcq));
	hw_fini(&ud);
	hw_pair_fini(&p);
}

/* Section 5.13: in whatever context they are made. */
Test(peers, numbers_of_queue_pairs_are_unique_on_a_device)
{
	enum { N = 32 };
	struct ibv_qp *qp[N];
	struct hw a, b;

	hw_init(&a, &(struct hw_attr){0});
	hw_init(&b, &(struct hw_attr){0});
	for (unsigned i = 0; i < N; i++) {
		qp[i] = hw_qp_create(i % 2 ? &a : &b, &(struct hw_attr){.sq = 4, .rq = 4});
		cr_assert(ne(ptr, qp[i], NULL));
		cr_assert(lt(u32, qp[i]->qp_num, 1 << 16));
		for (unsigned k = 0; k < i; k++)
			cr_assert(ne(u32, qp[k]->qp_num, qp[i]->qp_num));
	}
	for (unsigned i = 0; i < N; i++)
		cr_assert(zero(int, HW(ibv_destroy_qp)(qp[i])));
	hw_fini(&b);
	hw_fini(&a);
}

/* Section 5.12. Guess: how long it takes. */
Test(peers, nobody_is_found_unreachable)
{
	union ibv_gid gid = nobody();
	struct hw_pair p;
	struct hw_wr wr;
	struct ibv_ah *ah;

	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	ah = hw_ah_create(p.a.pd, &gid);
	cr_assert(ne(ptr, ah, NULL));
	wr = hw_wr(&p.a, HW_OP_SEND, &p.to_b, ah, 0, LEN, 0);
	wr.wr_id = 1;
	hw_post(&p.a, &wr);
	hw_recv(&p.b, 1, 0, LEN);
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, LEN, 0);
	wr.wr_id = 2;
	hw_post(&p.a, &wr); /* does not wait for the other */
	cr_assert(eq(u64, hw_wait_for(&p.a.scq, HW_OK).wr_id, 2));
	cr_assert(eq(u64, hw_wait_for(&p.a.scq, HW_UNREACHABLE).wr_id, 1));
	cr_assert(zero(int, HW(ibv_destroy_ah)(ah)));
	hw_pair_fini(&p);
}

/* ---- from where to where ---- */

/* Section 5.14. */
Test(peers, queue_pair_reaches_itself)
{
	struct hw_addr self;
	struct ibv_ah *ah;
	struct hw_wr wr;
	struct hw h;

	hw_init(&h, &(struct hw_attr){0});
	self = hw_addr(&h);
	ah = hw_ah(&h, &self);
	bytes_fill(h.buf, LEN, 1);
	hw_recv(&h, 1, 4096, LEN);
	wr = hw_wr(&h, HW_OP_SEND, &self, ah, 0, LEN, 0);
	cr_assert(eq(uint, hw_run(&h, &wr).status, HW_OK));
	cr_assert(eq(u32, hw_wait_for(&h.rcq, HW_OK).src_qpn, self.qpn));
	cr_assert(lt(long, bytes_differ(h.buf + 4096, LEN, 1), 0));
	if (h.dev.device_caps & HW_READ) {
		wr = hw_wr(&h, HW_OP_READ, &self, ah, 8192, LEN, 0);
		cr_assert(eq(uint, hw_run(&h, &wr).status, HW_OK));
		cr_assert(lt(long, bytes_differ(h.buf + 8192, LEN, 1), 0));
	}
	hw_fini(&h);
}

/* Where B is: in A's context but not its PD, in another of the same device, on another device. */
enum where { NEAR, OTHER_CONTEXT, OTHER_DEVICE };

ParameterizedTestParameters(peers, all_kinds_of_requests_get_there)
{
	static enum where places[] = {NEAR, OTHER_CONTEXT, OTHER_DEVICE};

	return cr_make_param_array(enum where, places, 3);
}

static void rdma_both_ways(struct hw_pair *p)
{
	struct hw_wr wr = hw_pair_wr(p, HW_OP_READ, 0, 30000, 0);

	bytes_fill(p->b.buf, 30000, 1);
	cr_assert(eq(uint, hw_run(&p->a, &wr).status, HW_OK));
	cr_assert(lt(long, bytes_differ(p->a.buf, 30000, 1), 0));
	if (!(p->a.dev.device_caps & HW_WRITE))
		return;
	wr = hw_wr(&p->b, HW_OP_WRITE, &p->to_a, p->ah_a, 0, 30000, 32768);
	cr_assert(eq(uint, hw_run(&p->b, &wr).status, HW_OK));
	cr_assert(lt(long, bytes_differ(p->a.buf + 32768, 30000, 1), 0));
}

/* Sections 5.13, 5.14. */
ParameterizedTest(enum where *where, peers, all_kinds_of_requests_get_there)
{
	struct hw_attr b = {.dev = *where == OTHER_DEVICE};
	struct hw_pair p;

	memset(&p, 0, sizeof(p));
	hw_init(&p.a, &(struct hw_attr){0});
	if (*where == NEAR)
		b.near = &p.a;
	hw_init(&p.b, &b);
	p.to_a = hw_addr(&p.a);
	p.to_b = hw_addr(&p.b);
	p.ah_b = hw_ah(&p.a, &p.to_b);
	p.ah_a = hw_ah(&p.b, &p.to_a);
	cr_assert(eq(int, memcmp(&p.to_a.gid, &p.to_b.gid, sizeof(p.to_a.gid)) == 0,
		     *where != OTHER_DEVICE));
	hw_pair_works(&p);
	if (p.a.dev.device_caps & HW_READ)
		rdma_both_ways(&p);
	hw_pair_fini(&p);
}
