/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs of ranks that are started each by itself. */
#include "ranks.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BOUND_S = 40 }; /* for a process to end, however busy the machine is */

struct ranks_proc ranks_procs[2 * RANKS];

struct host_run ranks_shape = {
	.program = "test",
	.nranks = RANKS,
	.timeout_s = RANKS_LIMIT_S,
	.share = RANKS_SHARE,
	.terms = "--color red --size 4",
};

/* Below the ports that the kernel gives to others by chance; another one for each test. */
uint16_t ranks_port(void)
{
	struct sockaddr_in *root = &ranks_shape.root;
	int one = 1;

	root->sin_family = AF_INET;
	root->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (int i = 0; i < 100; i++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0), rc;
		uint16_t port = (uint16_t)(20000 + (getpid() + i) % 10000);

		root->sin_port = htons(port);
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		rc = bind(fd, (struct sockaddr *)root, sizeof(*root));
		close(fd);
		if (!rc)
			return port;
	}
	cr_assert(false, "no free port");
	return 0;
}

int ranks_connect(void)
{
	for (int i = 0; i < 100; i++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		if (!connect(fd, (struct sockaddr *)&ranks_shape.root, sizeof(ranks_shape.root)))
			return fd;
		close(fd);
		usleep(20 * 1000);
	}
	cr_assert(false, "nobody listens");
	return -1;
}

void ranks_start_run(int at, const struct host_run *run)
{
	ranks_procs[at].err = memfd_create("stderr", 0);
	ranks_procs[at].pid = fork();
	cr_assert(ranks_procs[at].err >= 0 && ranks_procs[at].pid >= 0);
	if (ranks_procs[at].pid)
		return;
	dup2(ranks_procs[at].err, STDERR_FILENO);
	_exit(host_run(run));
}

void ranks_start(int rank, ranks_main_fn *rank_main)
{
	struct host_run run = ranks_shape;

	run.rank = rank;
	run.main = rank_main;
	ranks_start_run(rank, &run);
}

void ranks_start_all(ranks_main_fn *rank_main)
{
	ranks_port();
	for (int r = 0; r < RANKS; r++)
		ranks_start(r, rank_main);
}

int ranks_gather(struct host_rank *self, void *arg)
{
	int mine[3], all[RANKS][3];

	(void)arg;
	for (int round = 0; round < 100; round++) {
		mine[0] = mine[1] = mine[2] = self->rank * 1000 + round;
		if (host_allgather(self, HOST_MAIN, mine, all, sizeof(mine)))
			return HOST_PASS;
		for (int r = 0; r < RANKS; r++) {
			if (all[r][0] != r * 1000 + round || all[r][2] != r * 1000 + round)
				return HOST_WRONG;
		}
	}
	return HOST_PASS;
}

/* Its exit code, 128 + signal, or -1 if it does not end. */
static int end(int at)
{
	int status;

	for (int ms = 0; ms < BOUND_S * 1000; ms += 5) {
		if (waitpid(ranks_procs[at].pid, &status, WNOHANG) == ranks_procs[at].pid)
			return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
		usleep(5000);
	}
	kill(ranks_procs[at].pid, SIGKILL);
	return -1;
}

void ranks_expect(int at, int code)
{
	int ended = end(at);

	cr_expect(ended == code, "%d ended with %d, not %d:\n%s", at, ended, code, ranks_said(at));
}

void ranks_expect_all(int code)
{
	for (int r = 0; r < RANKS; r++)
		ranks_expect(r, code);
}

const char *ranks_said(int at)
{
	static char text[8192];
	ssize_t n = pread(ranks_procs[at].err, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = 0;
	return text;
}

void ranks_expect_says(int at, const char *text)
{
	cr_expect(strstr(ranks_said(at), text), "%d: no \"%s\" in:\n%s", at, text, ranks_said(at));
}
