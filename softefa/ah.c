/* SPDX-License-Identifier: BSD-3-Clause */
/* Address handles. */
#include "ah.h"

#include <errno.h>
#include <stdlib.h>

#include "fault.h"
#include "requester.h"

static int gid_check(const struct se_gid *gid)
{
	uint8_t any = 0;

	for (int i = 0; i < 16; i++)
		any |= gid->b[i];
	return any == 0 || gid->b[0] == 0xff ? -EINVAL : 0;
}

int se_ah_create(struct se_pd *pd, const struct se_gid *gid, struct se_ah **out)
{
	struct se_ah *ah;
	int rc = gid_check(gid);

	if (!rc)
		rc = se_fault_refuse(pd->obj.ctx->dev, SE_AH);
	if (rc)
		return rc;
	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return -ENOMEM;
	rc = se_pd_know(pd, gid, &ah->peer);
	if (!rc) {
		rc = se_ctx_add(pd->obj.ctx, &ah->obj, SE_AH);
		if (rc)
			se_pd_unknow(pd, ah->peer);
	}
	if (rc) {
		free(ah);
		return rc;
	}
	ah->pd = pd;
	pd->obj.users++;
	*out = ah;
	return 0;
}

int se_ah_destroy(struct se_ah *ah)
{
	if (ah->peer->refs == 1)
		se_requester_forsake(ah->pd, ah->peer->ahn);
	se_pd_unknow(ah->pd, ah->peer);
	ah->pd->obj.users--;
	se_ctx_del(&ah->obj);
	free(ah);
	return 0;
}
