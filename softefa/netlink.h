/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Netlink of the RDMA subsystem, as far as libibverbs asks there what sysfs does not tell: does
 * registered memory survive a fork? All else is refused, so that nobody sees the machine's own
 * devices, and libibverbs lists those of sysfs.
 */
#ifndef SE_NETLINK_H
#define SE_NETLINK_H

#include <stdbool.h>
#include <sys/socket.h>

/* What socket() returns for it. @type may have flags. */
int se_netlink_socket(int type);
/* Is @msg, sent on @fd, for the kernel by such a socket? Cheap for any other. */
bool se_netlink_asks(int fd, const struct msghdr *msg);
/* Answer it, to where it came from. What sendmsg() returns. */
ssize_t se_netlink_answer(int fd, const struct msghdr *msg);

#endif
