/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers and the address handles they share. Needs an EFA or softefa. */
#include "srd.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <pthread.h>
#include <string.h>

#include "../lib/loop.h"

Test(peer, peers_of_one_gid_share_an_address_handle)
{
	struct srd_peer a, b;
	struct srd_ep ep;
	struct loop l;

	loop_init(&l, &(struct loop_attr){0});
	srd_ep_local(&l.a, &ep);
	cr_assert(zero(int, srd_peer_init(&a, &l.pd, &ep)));
	ep.qpn ^= 1;
	cr_assert(zero(int, srd_peer_init(&b, &l.pd, &ep)));
	cr_assert(eq(ptr, a.ah, b.ah));
	cr_assert(ne(u32, a.qpn, b.qpn));
	srd_peer_fini(&a);
	srd_peer_fini(&b);
	loop_fini(&l);
}

Test(peer, shared_address_handle_outlives_one_of_its_peers)
{
	struct srd_peer other;
	struct srd_ep ep;
	struct loop l;
	struct srd_wr wr;

	loop_init(&l, &(struct loop_attr){0});
	srd_ep_local(&l.b, &ep);
	cr_assert(zero(int, srd_peer_init(&other, &l.pd, &ep)));
	srd_peer_fini(&other);
	loop_recv(&l, 1, LOOP_B, 1);
	wr = loop_wr(&l, IBV_WR_SEND, 0, 1, 0);
	cr_assert(zero(int, srd_post(&l.a, &wr, 1)));
	loop_wait_ok(&l.a_cq);
	loop_fini(&l);
}

Test(peer, address_handles_of_two_protection_domains_are_apart)
{
	struct srd_peer p;
	struct srd_ep ep;
	struct loop l;

	loop_init(&l, &(struct loop_attr){0});
	srd_ep_local(&l.b, &ep);
	cr_assert(zero(int, srd_peer_init(&p, &l.b_pd, &ep)));
	cr_assert(ne(ptr, p.ah, l.to_b.ah));
	srd_peer_fini(&p);
	loop_fini(&l);
}

Test(peer, different_gids_get_different_numbers)
{
	uint16_t here, there;
	struct srd_peer p;
	struct srd_ep ep;
	struct loop l;

	loop_init(&l, &(struct loop_attr){0});
	srd_ep_local(&l.b, &ep);
	ep.gid.raw[15] ^= 0x55;
	cr_assert(zero(int, srd_peer_init(&p, &l.pd, &ep)));
	there = p.ahn;
	here = l.to_b.ahn;
	cr_assert(ne(u16, here, there));
	srd_peer_fini(&p);
	loop_fini(&l);
}

static void assert_refused(struct loop *l, const struct srd_ep *ep)
{
	struct srd_peer zero = {0}, p;

	memset(&p, 0xff, sizeof(p));
	cr_assert(eq(int, srd_peer_init(&p, &l->pd, ep), -EINVAL));
	cr_assert(zero(int, memcmp(&p, &zero, sizeof(p))));
	srd_peer_fini(&p);
}

Test(peer, queue_pair_number_above_16_bits_is_refused)
{
	struct srd_ep ep;
	struct loop l;

	loop_init(&l, &(struct loop_attr){0});
	srd_ep_local(&l.b, &ep);
	ep.qpn = 0x10000;
	assert_refused(&l, &ep);
	loop_fini(&l);
}

Test(peer, gid_of_zeroes_is_refused)
{
	struct srd_ep ep = {.qpn = 1};
	struct loop l;

	loop_init(&l, &(struct loop_attr){0});
	assert_refused(&l, &ep);
	loop_fini(&l);
}

struct churn {
	pthread_t thread;
	struct srd_pd *pd;
	struct srd_ep ep;
	int failures;
};

static void *churn(void *arg)
{
	struct churn *c = arg;
	struct srd_peer held[8];

	for (int round = 0; round < 100; round++) {
		for (int i = 0; i < 8; i++) {
			c->ep.gid.raw[14] = i;
			c->failures += srd_peer_init(&held[i], c->pd, &c->ep) != 0;
		}
		for (int i = 0; i < 8; i++)
			srd_peer_fini(&held[i]);
	}
	return NULL;
}

Test(peer, threads_may_make_and_finish_peers_at_once)
{
	struct churn c[4];
	struct loop l;

	loop_init(&l, &(struct loop_attr){0});
	for (int i = 0; i < 4; i++) {
		c[i] = (struct churn){.pd = &l.pd};
		srd_ep_local(&l.b, &c[i].ep);
		cr_assert(zero(int, pthread_create(&c[i].thread, NULL, churn, &c[i])));
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(c[i].thread, NULL);
		cr_assert(zero(int, c[i].failures));
	}
	loop_fini(&l);
}

Test(peer, protection_domain_may_go_before_a_forgotten_peer)
{
	struct srd_peer p;
	struct srd_pd pd;
	struct srd_ep ep;
	struct loop l;

	loop_init(&l, &(struct loop_attr){0});
	cr_assert(zero(int, srd_pd_init(&pd, &l.dev)));
	srd_ep_local(&l.b, &ep);
	cr_assert(zero(int, srd_peer_init(&p, &pd, &ep)));
	srd_pd_fini(&pd);
	srd_peer_fini(&p);
	loop_fini(&l);
}
