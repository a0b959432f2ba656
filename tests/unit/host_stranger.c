/* SPDX-License-Identifier: BSD-3-Clause */
/* The bootstrap over TCP when others come than those that were meant to. */
#include "../lib/ranks.h"
#include "host/link.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- strangers ---- */

static void write_all(int fd, const void *data, size_t size)
{
	cr_assert(send(fd, data, size, MSG_NOSIGNAL) == (ssize_t)size);
}

Test(stranger, strangers_do_not_disturb_a_run)
{
	static const char web[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
	int fds[40];

	ranks_port();
	ranks_start(0, ranks_gather);
	/* More than rank 0 listens to at a time: silent, talkative, and half a greeting. */
	for (int i = 0; i < 40; i++) {
		fds[i] = ranks_connect();
		if (i % 3 == 1)
			write_all(fds[i], web, sizeof(web) - 1);
		else if (i % 3 == 2)
			write_all(fds[i], "nbb1\1\1", 6);
	}
	for (int r = 1; r < RANKS; r++)
		ranks_start(r, ranks_gather);
	ranks_expect_all(HOST_PASS);
	ranks_expect_says(0, "what it sends is not understood");
	ranks_expect_says(0, "; no more of these");
	for (int i = 0; i < 40; i++)
		close(fds[i]);
}

/* Memory is not reserved for what a stranger only announces. */
Test(stranger, a_greeting_above_the_limit_is_turned_away)
{
	static const char head[HOST_HEAD_BYTES] = "nbb1\1\1\0\0\4\0\0\0\1\2\0";
	struct timeval limit = {.tv_sec = 5};
	char answer;
	int fd;

	ranks_port();
	ranks_start(0, ranks_gather);
	fd = ranks_connect();
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	write_all(fd, head, sizeof(head)); /* of 513 bytes */
	cr_expect_eq(recv(fd, &answer, 1, 0), 0);
	close(fd);
	for (int r = 1; r < RANKS; r++)
		ranks_start(r, ranks_gather);
	ranks_expect_all(HOST_PASS);
	ranks_expect_says(0, "what it sends is not understood");
}

/* ---- impostors: they greet well, and then break the rules ---- */

static void hello(struct host_link *link, int fd, int rank)
{
	struct host_frame f = {.type = HOST_HELLO,
			       .rank = rank,
			       .value = RANKS,
			       .bytes = (uint32_t)strlen(ranks_shape.terms),
			       .body = ranks_shape.terms};

	host_link_init(link, fd, RANKS * RANKS_SHARE);
	host_link_put(link, &f);
}

/* Wait until a frame of @type comes; false when the other end closes. */
static bool await(struct host_link *link, enum host_frame_type type, struct host_frame *f)
{
	struct pollfd p = {.fd = link->fd, .events = POLLIN};

	for (int i = 0; i < 500; i++) {
		int rc = host_link_get(link, f);

		if (rc < 0 || (rc && f->type == type))
			return rc > 0;
		if (!rc)
			poll(&p, 1, 20);
	}
	return false;
}

/* All ranks but the last are there, and @link takes its place. */
static void pose_as_last(struct host_link *link)
{
	struct host_frame got;

	ranks_port();
	for (int r = 0; r < RANKS - 1; r++)
		ranks_start(r, ranks_gather);
	hello(link, ranks_connect(), RANKS - 1);
	cr_assert(await(link, HOST_START, &got));
}

static void expect_impostor_found(const struct host_frame *f)
{
	struct host_link link;

	pose_as_last(&link);
	host_link_put(&link, f);
	for (int r = 0; r < RANKS - 1; r++) {
		ranks_expect(r, HOST_FAIL);
		ranks_expect_says(r, "rank 3 is gone: it sent what is not understood");
	}
	host_link_fini(&link);
}

Test(stranger, a_share_above_the_limit_is_refused)
{
	static char body[RANKS_SHARE + 64];

	expect_impostor_found(
		&(struct host_frame){.type = HOST_ARRIVE, .bytes = sizeof(body), .body = body});
}

Test(stranger, an_arrival_in_another_round_is_refused)
{
	expect_impostor_found(&(struct host_frame){.type = HOST_ARRIVE, .value = 7});
}

Test(stranger, what_only_rank_0_may_say_is_refused)
{
	expect_impostor_found(&(struct host_frame){.type = HOST_END});
}

Test(stranger, a_code_that_none_is_is_refused)
{
	expect_impostor_found(&(struct host_frame){.type = HOST_DONE, .value = 256});
}

Test(stranger, shares_of_different_sizes_are_refused)
{
	struct host_frame arrive = {.type = HOST_ARRIVE, .bytes = 1, .body = "x"}, got;
	struct host_link link;

	pose_as_last(&link);
	host_link_put(&link, &arrive);
	cr_assert(await(&link, HOST_REPORT, &got));
	host_link_fini(&link);
	for (int r = 0; r < RANKS - 1; r++) {
		ranks_expect(r, HOST_USAGE);
		ranks_expect_says(r, "rank 3 offers 1 bytes in round 0, rank 0 12: not the same");
	}
}

/* What a rank reports is shown, but no more than text. */
Test(stranger, a_report_does_not_reach_the_terminal_raw)
{
	static const char why[] = "\033[31mred\n";
	struct host_frame report = {
		.type = HOST_REPORT, .value = HOST_FAIL, .bytes = sizeof(why) - 1, .body = why};
	struct host_link link;

	pose_as_last(&link);
	host_link_put(&link, &report);
	for (int r = 0; r < RANKS - 1; r++) {
		ranks_expect(r, HOST_FAIL);
		ranks_expect_says(r, "?[31mred?\n");
	}
	host_link_fini(&link);
}

Test(stranger, a_second_rank_of_one_number_is_turned_away)
{
	struct host_run other;
	struct host_frame got;
	struct host_link link;

	ranks_port();
	ranks_start(0, ranks_gather);
	hello(&link, ranks_connect(), 1);
	cr_assert(await(&link, HOST_PING, &got));
	other = ranks_shape;
	other.rank = 1;
	other.main = ranks_gather;
	ranks_start_run(RANKS, &other);
	ranks_expect(RANKS, HOST_USAGE);
	ranks_expect_says(RANKS, "refuses rank 1: rank 1 is here already, from 127.0.0.1:");
	/* But when the first goes, another may come. */
	host_link_fini(&link);
	for (int r = 1; r < RANKS; r++)
		ranks_start(r, ranks_gather);
	ranks_expect_all(HOST_PASS);
	ranks_expect_says(0, "rank 1 left before the run began");
}

/* ---- an impostor at the root ---- */

static int listen_root(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	ranks_port();
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	cr_assert(!bind(fd, (struct sockaddr *)&ranks_shape.root, sizeof(ranks_shape.root)));
	cr_assert(!listen(fd, 5));
	return fd;
}

Test(stranger, a_root_that_speaks_otherwise_is_no_rank_0)
{
	int root = listen_root();

	ranks_shape.timeout_s = RANKS_SHORT_S;
	ranks_start(1, ranks_gather);
	for (int i = 0; i < 3; i++) {
		int fd = accept(root, NULL, NULL);

		write_all(fd, "SSH-2.0-OpenSSH_9.2\r\n", 21);
		usleep(50 * 1000);
		close(fd);
	}
	ranks_expect(1, HOST_USAGE);
	ranks_expect_says(1, "did not reach rank 0 at 127.0.0.1:");
	close(root);
}

Test(stranger, a_root_that_says_nothing_is_given_up)
{
	int root = listen_root();

	ranks_shape.timeout_s = RANKS_SHORT_S;
	ranks_start(1, ranks_gather);
	ranks_expect(1, HOST_USAGE);
	ranks_expect_says(1, "within 4 s: no answer");
	close(root);
}

Test(stranger, shares_that_nobody_asked_for_are_refused)
{
	struct host_frame start_frame = {.type = HOST_START};
	struct host_frame open_frame = {.type = HOST_OPEN, .value = 1}, got;
	int root = listen_root();
	struct host_link link;

	ranks_start(1, ranks_gather);
	host_link_init(&link, accept(root, NULL, NULL), RANKS * RANKS_SHARE);
	cr_assert(await(&link, HOST_HELLO, &got));
	cr_assert(got.rank == 1 && got.value == RANKS);
	host_link_put(&link, &start_frame);
	cr_assert(await(&link, HOST_ARRIVE, &got));
	host_link_put(&link, &open_frame);
	ranks_expect(1, HOST_FAIL);
	ranks_expect_says(1, "rank 0 is gone: it sent what is not understood");
	host_link_fini(&link);
	close(root);
}
