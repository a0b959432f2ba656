/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests by netlink. The socket is one for messages between processes: binding, waiting and
 * receiving work natively, and what is for the kernel it sends to itself, answered.
 */
#include "netlink.h"

#include <errno.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <stdint.h>
#include <string.h>

#include "real.h"

/* Newer than <rdma/rdma_netlink.h> of Linux 5.11. */
#define COPY_ON_FORK 93 /* RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK */
#define SYS_GET      RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_SYS_GET)

struct answer {
	struct nlmsghdr head;
	union {
		struct nlmsgerr error;
		struct {
			struct nlattr attr;
			uint8_t value;
		} yes;
	};
};

int se_netlink_socket(int type)
{
	return se_real.socket(AF_NETLINK, type, NETLINK_USERSOCK);
}

bool se_netlink_asks(int fd, const struct msghdr *msg)
{
	const struct sockaddr_nl *to = msg ? msg->msg_name : NULL;
	int protocol;
	socklen_t len = sizeof(protocol);

	return to && msg->msg_namelen >= sizeof(*to) && to->nl_family == AF_NETLINK &&
	       !to->nl_pid && getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) == 0 &&
	       protocol == NETLINK_USERSOCK;
}

/*
 * Linux has said so since 5.12, whatever the device: a child gets copies of the pages that are
 * registered, and the parent keeps them.
 */
static void say_yes(struct answer *a)
{
	a->yes.attr.nla_type = COPY_ON_FORK;
	a->yes.attr.nla_len = NLA_HDRLEN + sizeof(a->yes.value);
	a->yes.value = 1;
	a->head.nlmsg_len = NLMSG_LENGTH(NLA_ALIGN(a->yes.attr.nla_len));
}

static void refuse(struct answer *a, const struct nlmsghdr *asked)
{
	a->head.nlmsg_type = NLMSG_ERROR;
	a->error.error = -EOPNOTSUPP;
	a->error.msg = *asked;
	a->head.nlmsg_len = NLMSG_LENGTH(sizeof(a->error));
}

ssize_t se_netlink_answer(int fd, const struct msghdr *msg)
{
	struct sockaddr_nl to;
	socklen_t len = sizeof(to);
	struct nlmsghdr asked;
	struct answer a;

	if (msg->msg_iovlen != 1 || msg->msg_iov[0].iov_len < sizeof(asked)) {
		errno = EINVAL;
		return -1;
	}
	memcpy(&asked, msg->msg_iov[0].iov_base, sizeof(asked));
	memset(&a, 0, sizeof(a));
	a.head = asked;
	a.head.nlmsg_flags = 0;
	if (asked.nlmsg_type == SYS_GET)
		say_yes(&a);
	else
		refuse(&a, &asked);
	if (getsockname(fd, (struct sockaddr *)&to, &len) ||
	    sendto(fd, &a, a.head.nlmsg_len, 0, (struct sockaddr *)&to, sizeof(to)) < 0)
		return -1;
	return (ssize_t)asked.nlmsg_len;
}
