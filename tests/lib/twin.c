/* SPDX-License-Identifier: BSD-3-Clause */
/* Two processes of one test. */
#include "twin.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "need.h"

enum { WAIT_MS = 60000 };

void twin_start(struct twin *t, void (*body)(struct twin *t, void *arg), void *arg)
{
	int fd[2];
	pid_t pid;

	fflush(NULL);
	need(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) == 0, "errno %d", errno);
	pid = fork();
	need(pid >= 0, "errno %d", errno);
	*t = (struct twin){.pid = pid, .fd = fd[pid == 0]};
	close(fd[pid != 0]);
	if (pid)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	need_forked();
	body(t, arg);
	_exit(0);
}

static int reap(struct twin *t)
{
	int64_t end = now_ms() + WAIT_MS;
	unsigned tries = 0;
	int status = -1;

	while (waitpid(t->pid, &status, WNOHANG) != t->pid) {
		need(now_ms() < end, "process %d does not end", (int)t->pid);
		relax(&tries);
	}
	close(t->fd);
	return status;
}

void twin_end(struct twin *t)
{
	int status = reap(t);

	need(status == 0, "the twin ended with status %#x", (unsigned)status);
}

void twin_stop(struct twin *t)
{
	int status;

	kill(t->pid, SIGSTOP);
	need(waitpid(t->pid, &status, WUNTRACED) == t->pid, "errno %d", errno);
	need(WIFSTOPPED(status), "status %#x", (unsigned)status);
}

void twin_kill(struct twin *t)
{
	kill(t->pid, SIGKILL);
	reap(t);
}

void twin_put(struct twin *t, const void *data, size_t size)
{
	ssize_t n = send(t->fd, data, size, MSG_NOSIGNAL);

	need(n == (ssize_t)size, "%zd of %zu bytes to the other process, errno %d", n, size, errno);
}

void twin_get(struct twin *t, void *data, size_t size)
{
	int64_t end = now_ms() + WAIT_MS;
	size_t at = 0;

	while (at < size) {
		struct pollfd p = {.fd = t->fd, .events = POLLIN};
		int64_t left = end - now_ms();
		ssize_t n;

		need(left > 0, "no word of the other process within %d ms", WAIT_MS);
		if (poll(&p, 1, (int)left) <= 0)
			continue;
		n = recv(t->fd, (char *)data + at, size - at, 0);
		need(n > 0, "the other process has ended, after %zu of %zu bytes", at, size);
		at += (size_t)n;
	}
}

bool twin_speaks(struct twin *t)
{
	struct pollfd p = {.fd = t->fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

void twin_meet(struct twin *t)
{
	char word = 'm';

	twin_put(t, &word, 1);
	twin_get(t, &word, 1);
	need(word == 'm', "%d instead of a meeting", word);
}
