/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Other hosts, and which connection leads to which of their QPs. All processes of a host listen at
 * the port that its GIDs name, and each at one of its own; whoever answers at the first tells, from
 * what the processes share, behind which of the others a QPN is. Engine lock held.
 */
#ifndef SE_HOST_H
#define SE_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "frame.h"
#include "gid.h"

struct se_host;

/* The host in @gid, for which se_gid_remote() holds; lives until the process ends. NULL: memory. */
struct se_host *se_host_of(const struct se_gid *gid);

/*
 * The connection to the process that has QP @qpn of device @dev. A slot, -EAGAIN (being found out)
 * or -ENOENT (nobody has it).
 */
int se_host_route(struct se_host *host, uint32_t dev, uint16_t qpn);
/* It is not there any more. */
void se_host_reroute(struct se_host *host, uint32_t dev, uint16_t qpn);

/* An answer to a question; about a connection that has ended. */
void se_host_told(int slot, const struct se_ask *told);
void se_host_closed(int slot);
void se_host_forget_all(void);

#endif
