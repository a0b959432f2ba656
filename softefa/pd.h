/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Protection domains. A PD also knows the peers it has address handles for: that is what lets it
 * recognise a sender, and what a peer needs to be allowed to read or write here.
 */
#ifndef SE_PD_H
#define SE_PD_H

#include "ctx.h"
#include "gid.h"

#define SE_PD_BUCKETS 256

struct se_pd {
	struct se_obj obj;
	uint16_t pdn;
	struct se_known *known[SE_PD_BUCKETS]; /* by AHN */
	struct se_known *by_gid[SE_PD_BUCKETS];
};

/* A GID this PD has address handles for. */
struct se_known {
	struct se_known *next, *next_gid;
	struct se_gid gid;
	uint16_t ahn;
	struct se_host *host; /* another one; NULL: this */
	int16_t dev;          /* the device of that host with the GID, or -1: nobody has it */
	uint32_t refs;
	bool answered; /* a request of this PD, once */
};

int se_pd_create(struct se_ctx *ctx, struct se_pd **out);
int se_pd_destroy(struct se_pd *pd);
/* After fork(): only its memory goes. */
void se_pd_forget(struct se_pd *pd);

/* Find by the number in a work request, or by the sender of a message; NULL: not known here. */
struct se_known *se_pd_ahn(const struct se_pd *pd, uint16_t ahn);
struct se_known *se_pd_gid(const struct se_pd *pd, const struct se_gid *gid);
/* One reference more or less. */
int se_pd_know(struct se_pd *pd, const struct se_gid *gid, struct se_known **out);
void se_pd_unknow(struct se_pd *pd, struct se_known *k);

#endif
