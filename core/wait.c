/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for a file descriptor: what poll() says, as one errno. */
#include "wait.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "log.h"

int srd_wait_readable(int fd, int timeout_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int n = poll(&p, 1, timeout_ms), err = errno;

	if (n > 0 && p.revents & POLLIN)
		return 0;
	if (n == 0 || (n < 0 && err == EINTR))
		return -EAGAIN;
	err = n < 0 ? err : EBADF;
	srd_err("poll: %s (%d): fd %d", strerror(err), err, fd);
	return -err;
}
