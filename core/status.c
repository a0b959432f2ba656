/* SPDX-License-Identifier: BSD-3-Clause */
/* EFA completion statuses: words, errno, and what a user can do. */
#include "status.h"

#define SECURITY_GROUP \
	"the security group must allow all traffic to and from itself, inbound and outbound"

/* X(code, IBV_WC_*, -errno, name, hint): all that the device defines */
#define EFA_STATUSES(X) \
	X(0, SUCCESS, 0, "success", "") \
	X(1, WR_FLUSH_ERR, -ECANCELED, "flushed: the queue pair was in error or destroyed", \
	  "look for the first failure on this queue pair") \
	X(2, LOC_QP_OP_ERR, -EIO, "internal error of the queue pair", \
	  "the queue pair is lost; see dmesg and the device's firmware version") \
	X(3, LOC_QP_OP_ERR, -EOPNOTSUPP, "unsupported operation", \
	  "the device has no such operation") \
	X(4, LOC_QP_OP_ERR, -EADDRNOTAVAIL, "invalid address handle", \
	  "the peer was finished while requests to it were outstanding, or is of another PD") \
	X(5, LOC_PROT_ERR, -EFAULT, "local key or range invalid", \
	  "is the memory registered, with LOCAL_WRITE if it is written, in the same PD, still?") \
	X(6, LOC_LEN_ERR, -EMSGSIZE, "message too long", \
	  "sends are limited to the MTU (max_msg_size), RDMA to max_rdma_size") \
	X(7, REM_ACCESS_ERR, -EACCES, "remote key or range invalid", \
	  "does the peer have the region registered, with REMOTE_READ or REMOTE_WRITE, still?") \
	X(8, REM_ABORT_ERR, -ECONNRESET, "reset by the remote side", \
	  "the peer's queue pair or process ended") \
	X(9, REM_INV_RD_REQ_ERR, -ECONNREFUSED, \
	  "no such queue pair at the destination, or it is in error", \
	  "did the peer's process end, or are QP number or qkey stale?") \
	X(10, RNR_RETRY_EXC_ERR, -ENOBUFS, "receiver not ready", \
	  "the peer has no receive posted: post more, or raise rnr_retry") \
	X(11, REM_INV_REQ_ERR, -EMSGSIZE, "receive buffer of the peer too short", \
	  "the peer must post larger receives") \
	X(12, BAD_RESP_ERR, -EREMOTEIO, "unexpected status of the responder", \
	  "the peer's own receive failed: see its completions") \
	X(13, RESP_TIMEOUT_ERR, -ETIMEDOUT, "remote unresponsive, it did respond before", \
	  "is the peer's host alive? Else " SECURITY_GROUP) \
	X(14, REM_OP_ERR, -EPERM, "remote does not know us", \
	  "RDMA needs an address handle for our GID in the PD of the peer's queue pair") \
	X(15, RESP_TIMEOUT_ERR, -EHOSTUNREACH, "remote unreachable, it never responded", \
	  SECURITY_GROUP "; both hosts must be in one subnet") \
	X(18, REM_INV_REQ_ERR, -EPROTO, "feature mismatch", \
	  "both queue pairs must agree on receiving unsolicited writes")

static const struct {
	enum ibv_wc_status wc;
	int rc;
	const char *name, *hint;
} statuses[] = {
#define STATUS(code, wc, rc, name, hint) [code] = {IBV_WC_##wc, rc, name, hint},
	EFA_STATUSES(STATUS)
#undef STATUS
};

static bool known(uint32_t efa_status)
{
	return efa_status < sizeof(statuses) / sizeof(statuses[0]) && statuses[efa_status].name;
}

const char *srd_status_str(uint32_t efa_status)
{
	return known(efa_status) ? statuses[efa_status].name : "unknown status";
}

const char *srd_status_hint(uint32_t efa_status)
{
	return known(efa_status) ? statuses[efa_status].hint : "";
}

enum ibv_wc_status srd_status_wc(uint32_t efa_status)
{
	return known(efa_status) ? statuses[efa_status].wc : IBV_WC_GENERAL_ERR;
}

int srd_wc_err(const struct srd_wc *wc)
{
	if (wc->status == IBV_WC_SUCCESS)
		return 0;
	if (known(wc->efa_status) && wc->efa_status)
		return statuses[wc->efa_status].rc;
	return -EIO;
}
