/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which protocols a plugin forbids NCCL: by the environment, from init on, or by a tuner in its
 * library. What it forbids it need not be able to do.
 */
#ifndef NETCHECK_FORBID_H
#define NETCHECK_FORBID_H

#include "check.h"

/* By what @name, of number @proto (NCCL_TUNER_PROTO_*), is forbidden; NULL: it is not. */
const char *forbid_by(struct check_ctx *ctx, const char *name, int proto);

#endif
