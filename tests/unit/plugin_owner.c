/* SPDX-License-Identifier: BSD-3-Clause */
/* Ownership of engines: exclusive, whoever comes. The long form is in tests/stress. */
#include "../../plugin/owner.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <pthread.h>

#include "../lib/contend.h"

ParameterizedTestParameters(owner, one_thread_at_a_time_is_inside_and_no_entry_is_lost)
{
	static struct contend cases[] = {
		{.threads = 4, .rounds = 8000000, .strangers = 2000, .visit = 128},
		{.threads = 2, .rounds = 2000000, .strangers = 2000, .visit = 32},
		{.threads = 8, .rounds = 200000, .strangers = 1000, .visit = 2},
	};

	return cr_make_param_array(struct contend, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct contend *c, owner, one_thread_at_a_time_is_inside_and_no_entry_is_lost)
{
	cr_assert(zero(long, contend(c)));
}

static struct net_owner owner;

static void *enter_and_end(void *arg)
{
	net_owner_enter(&owner);
	++*(int *)arg;
	net_owner_leave(&owner);
	return NULL;
}

Test(owner, thread_that_has_ended_is_in_nobodys_way)
{
	int entries = 0;

	net_owner_init(&owner);
	for (int i = 0; i < 500; i++) {
		pthread_t thread;

		cr_assert(zero(int, pthread_create(&thread, NULL, enter_and_end, &entries)));
		pthread_join(thread, NULL);
		if (i % 2)
			enter_and_end(&entries);
	}
	cr_assert(eq(int, entries, 750));
	net_owner_fini(&owner);
}

Test(owner, thread_may_own_many_things_and_enter_them_in_turn)
{
	static struct net_owner many[100];

	for (int i = 0; i < 100; i++)
		net_owner_init(&many[i]);
	for (int round = 0; round < 100; round++)
		for (int i = 0; i < 100; i++) {
			net_owner_enter(&many[i]);
			net_owner_leave(&many[i]);
		}
	for (int i = 0; i < 100; i++)
		net_owner_fini(&many[i]);
}
