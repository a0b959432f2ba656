/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Profiles: the generations of the adapter, as settings. What is said of a generation is known from
 * libraries that tell them apart (rdma-core's list of part ids, libfabric, aws-ofi-nccl); depths
 * and sizes that nobody publishes are the same for all.
 */
#ifndef SE_PROFILE_H
#define SE_PROFILE_H

#include <stddef.h>
#include <stdio.h>

/* What the profile sets, "key=value,...", or NULL when there is none of that name. */
const char *se_profile_find(const char *name, size_t len);
/* All names, for messages. */
const char *se_profile_names(void);
void se_profile_print(FILE *out);

#endif
