/* SPDX-License-Identifier: BSD-3-Clause */
/* Address handles: a reference of a PD to a GID. */
#ifndef SE_AH_H
#define SE_AH_H

#include "pd.h"

struct se_ah {
	struct se_obj obj;
	struct se_pd *pd;
	struct se_known *peer;
};

/* -EINVAL: a zero or multicast GID. */
int se_ah_create(struct se_pd *pd, const struct se_gid *gid, struct se_ah **out);
int se_ah_destroy(struct se_ah *ah);

#endif
