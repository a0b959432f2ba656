/* SPDX-License-Identifier: BSD-3-Clause */
/* Work requests as the provider writes them into the send queue. */
#ifndef SE_WQE_H
#define SE_WQE_H

#include "tx.h"

/*
 * Turn @w into the message of @tx. Everything that can be seen to be wrong here gives the status
 * with which it ends.
 */
enum se_status se_wqe_prepare(struct se_tx *tx, const struct se_wqe *w);

#endif
