/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes that die: what their peers see, and what is left of them. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../lib/kids.h"
#include "../lib/node.h"

TestSuite(softefa_death, .timeout = 60);

enum { LEN = 4096, BIG = 64 << 20 };

struct meeting {
	atomic_uint parent, kid; /* steps they have taken */
	struct node_addr server, client;
};

/* ---- a server and its clients ---- */

/* A client that sends one message, too early, and is killed. */
static void early_client(void *arg)
{
	struct meeting *m = arg;
	struct node n;
	struct raw_wr wr;

	node_init(&n, &(struct node_attr){0});
	wr = node_wr(&n, RAW_SEND, &m->server, node_ahn(&n, &m->server), 0, LEN, 0);
	node_post(&n, &wr);
	MUST(node_quiet(&n.scq, 50), "it waits");
	m->kid = 1;
	pause();
}

/* A client that plays ping-pong twice with a pause in between. */
static void later_client(void *arg)
{
	struct meeting *m = arg;
	struct node n;
	uint16_t ahn;

	node_init(&n, &(struct node_attr){0});
	m->client = node_addr(&n);
	ahn = node_ahn(&n, &m->server);
	for (unsigned i = 0; i < 2; i++) {
		struct raw_wr wr = node_wr(&n, RAW_SEND, &m->server, ahn, 0, LEN, 0);

		node_fill(n.buf, LEN, i);
		node_recv(&n, 0, LEN, LEN);
		m->kid = 2 + 2 * i;
		kids_await(&m->parent, 2 + 2 * i);
		node_post(&n, &wr);
		node_wait_status(&n.scq, 0);
		node_wait_status(&n.rcq, 0);
		MUST(node_filled(n.buf + LEN, LEN, i), "echo %u", i);
		m->kid = 3 + 2 * i;
	}
	node_fini(&n);
}

static void serve(struct node *n, struct meeting *m, unsigned round)
{
	uint16_t ahn = node_ahn(n, &m->client);
	struct raw_wr wr;

	kids_await(&m->kid, 2 + 2 * round);
	node_recv(n, (uint16_t)(100 + round), 0, LEN);
	m->parent = 2 + 2 * round;
	cr_assert(eq(u64, node_wait_status(&n->rcq, 0).req_id, 100 + round));
	wr = node_wr(n, RAW_SEND, &m->client, ahn, 0, LEN, 0);
	node_post(n, &wr);
	node_wait_status(&n->scq, 0);
	kids_await(&m->kid, 3 + 2 * round);
}

Test(softefa_death, message_of_a_killed_sender_is_gone_and_does_no_harm_to_its_successor)
{
	struct meeting *m = kids_share(sizeof(*m));
	struct node n;
	pid_t pid;

	node_settings(NULL);
	node_init(&n, &(struct node_attr){0});
	m->server = node_addr(&n);
	pid = kids_start(early_client, m);
	kids_await(&m->kid, 1);
	kids_kill(pid);
	/* Takes the place of the first in all shared tables. */
	pid = kids_start(later_client, m);
	kids_await(&m->kid, 2);
	serve(&n, m, 0);
	serve(&n, m, 1);
	kids_join(pid);
	node_fini(&n);
}

/* With the client's message still waiting while the next one is at work. */
Test(softefa_death, answer_to_the_dead_does_not_cut_off_who_has_its_place)
{
	struct meeting *m = kids_share(sizeof(*m));
	struct node n, other;
	pid_t pid;

	node_settings(NULL);
	node_init(&n, &(struct node_attr){0});
	node_init(&other, &(struct node_attr){.with = &n});
	m->server = node_addr(&other);
	pid = kids_start(early_client, m);
	kids_await(&m->kid, 1);
	kids_kill(pid);
	m->server = node_addr(&n);
	pid = kids_start(later_client, m);
	kids_await(&m->kid, 2);
	serve(&n, m, 0);
	node_recv(&other, 9, 0, LEN); /* for the dead */
	cr_assert(node_quiet(&other.rcq, 30));
	serve(&n, m, 1);
	kids_join(pid);
	node_fini(&other);
	node_fini(&n);
}

/* As early_client(), but the message holds its bytes itself: no dead memory betrays it. */
static void early_inline_client(void *arg)
{
	struct meeting *m = arg;
	struct node n;
	struct raw_wr wr;

	node_init(&n, &(struct node_attr){0});
	wr = node_wr(&n, RAW_SEND, &m->server, node_ahn(&n, &m->server), 0, 0, 0);
	wr.data = "from the grave";
	wr.data_len = 15;
	node_post(&n, &wr);
	MUST(node_quiet(&n.scq, 50), "it waits");
	m->kid = 1;
	pause();
}

Test(softefa_death, inline_message_of_a_killed_sender_is_gone)
{
	struct meeting *m = kids_share(sizeof(*m));
	struct node n;
	pid_t pid;

	node_settings(NULL);
	node_init(&n, &(struct node_attr){0});
	m->server = node_addr(&n);
	pid = kids_start(early_inline_client, m);
	kids_await(&m->kid, 1);
	kids_kill(pid);
	kids_nap_us(100000);
	node_recv(&n, 9, 0, LEN);
	cr_assert(node_quiet(&n.rcq, 30));
	node_fini(&n);
}

/* More messages than answers fit into the ring, all too early. */
enum { MANY = 4096 };

static void many_client(void *arg)
{
	struct meeting *m = arg;
	struct node n;
	struct raw_wr wr;

	node_init(&n, &(struct node_attr){.sq = MANY, .cq = MANY});
	m->client = node_addr(&n);
	wr = node_wr(&n, RAW_SEND, &m->server, node_ahn(&n, &m->server), 0, 8, 0);
	for (unsigned i = 0; i < MANY; i++)
		raw_post(&n.qp, &wr);
	raw_ring(&n.qp);
	MUST(node_quiet(&n.scq, 200), "they wait");
	m->kid = 1;
	pause();
}

Test(softefa_death, ring_full_of_answers_to_the_dead_holds_up_nothing)
{
	struct meeting *m = kids_share(sizeof(*m));
	struct raw_sge sge;
	struct raw_wr wr;
	struct node n;
	pid_t pid;

	node_settings(NULL);
	node_init(&n, &(struct node_attr){.rq = MANY, .cq = MANY});
	m->server = node_addr(&n);
	pid = kids_start(many_client, m);
	kids_await(&m->kid, 1);
	kill(pid, SIGSTOP);
	sge = raw_sge(&n.mr, 0, 8);
	for (unsigned i = 0; i < MANY; i++)
		raw_post_recv(&n.qp, 0, &sge, 1);
	raw_ring(&n.qp);
	for (unsigned i = 0; i < MANY; i++)
		node_wait_status(&n.rcq, 0);
	kids_kill(pid);
	wr = node_wr(&n, RAW_SEND, &m->client, node_ahn(&n, &m->client), 0, 8, 0);
	cr_assert(eq(int, node_run(&n, &wr).status, 9));
	node_fini(&n);
}

/* ---- senders that leave in good order, before anybody looks ---- */

static void patient_server(void *arg)
{
	struct meeting *m = arg;
	struct node n;

	node_init(&n, &(struct node_attr){0});
	for (uint16_t i = 0; i < 60; i++)
		node_recv(&n, i, 0, LEN);
	m->server = node_addr(&n);
	m->kid = 1;
	kids_await(&m->parent, 100);
	node_fini(&n);
}

/* Its ring is known to the server by the first message; the others are in it when it leaves. */
static void leaver(void *arg)
{
	struct meeting *m = arg;
	unsigned round = m->parent;
	struct raw_wr wr;
	struct node n;

	node_init(&n, &(struct node_attr){0});
	wr = node_wr(&n, RAW_SEND, &m->server, node_ahn(&n, &m->server), 0, LEN, 0);
	MUST(node_run(&n, &wr).status == 0, "send");
	m->kid = 10 + round;
	kids_await(&m->parent, round + 1); /* the server is stopped */
	for (unsigned i = 0; i < 3; i++)
		node_post(&n, &wr);
	MUST(node_quiet(&n.scq, 50), "nobody answers");
	node_abandon(&n);
}

Test(softefa_death, messages_of_who_left_are_answered_to_nobody)
{
	struct meeting *m = kids_share(sizeof(*m));
	pid_t server, pid;
	int status;

	node_settings(NULL);
	server = kids_start(patient_server, m);
	kids_await(&m->kid, 1);
	for (unsigned round = 1; round < 8; round += 2) {
		m->parent = round;
		pid = kids_start(leaver, m);
		kids_await(&m->kid, 10 + round);
		kill(server, SIGSTOP);
		MUST(waitpid(server, &status, WUNTRACED) == server, "stop");
		m->parent = round + 1;
		kids_join(pid);
		kill(server, SIGCONT);
		kids_nap_us(50000);
	}
	m->parent = 100;
	kids_join(server);
}
