/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection domains and the peers they know. */
#include "pd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric.h"
#include "fault.h"
#include "host.h"
#include "settings.h"

static uint16_t last_pdn;

static unsigned gid_bucket(const struct se_gid *gid)
{
	uint64_t half[2]; /* of each message: no place for a hash byte by byte */

	memcpy(half, gid->b, sizeof(half));
	return (unsigned)((half[0] ^ half[1]) * 0x9e3779b97f4a7c15u >> 32) % SE_PD_BUCKETS;
}

int se_pd_create(struct se_ctx *ctx, struct se_pd **out)
{
	struct se_pd *pd;
	int rc = se_fault_refuse(ctx->dev, SE_PD);

	if (!rc)
		rc = se_fabric_count((int)ctx->dev, SE_COUNT_PD, se_settings()->max_pd);
	if (rc)
		return rc;
	pd = calloc(1, sizeof(*pd));
	if (!pd || se_ctx_add(ctx, &pd->obj, SE_PD)) {
		se_fabric_uncount((int)ctx->dev, SE_COUNT_PD);
		free(pd);
		return -ENOMEM;
	}
	pd->pdn = ++last_pdn;
	*out = pd;
	return 0;
}

int se_pd_destroy(struct se_pd *pd)
{
	if (pd->obj.users)
		return -EBUSY;
	se_fabric_uncount((int)pd->obj.ctx->dev, SE_COUNT_PD);
	se_ctx_del(&pd->obj);
	free(pd);
	return 0;
}

void se_pd_forget(struct se_pd *pd)
{
	for (unsigned i = 0; i < SE_PD_BUCKETS; i++) {
		while (pd->known[i]) {
			struct se_known *k = pd->known[i];

			pd->known[i] = k->next;
			free(k);
		}
	}
	free(pd);
}

struct se_known *se_pd_ahn(const struct se_pd *pd, uint16_t ahn)
{
	struct se_known *k = pd->known[ahn % SE_PD_BUCKETS];

	while (k && k->ahn != ahn)
		k = k->next;
	return k;
}

struct se_known *se_pd_gid(const struct se_pd *pd, const struct se_gid *gid)
{
	struct se_known *k = pd->by_gid[gid_bucket(gid)];

	while (k && memcmp(&k->gid, gid, sizeof(*gid)) != 0)
		k = k->next_gid;
	return k;
}

int se_pd_know(struct se_pd *pd, const struct se_gid *gid, struct se_known **out)
{
	const struct se_settings *set = se_settings();
	struct se_known *k = se_pd_gid(pd, gid);
	unsigned g = gid_bucket(gid);
	int ahn;

	if (!k) {
		k = calloc(1, sizeof(*k));
		if (!k)
			return -ENOMEM;
		ahn = se_fabric_ahn_get((int)pd->obj.ctx->dev, gid, set->max_ah);
		if (ahn < 0) {
			free(k);
			return ahn;
		}
		k->gid = *gid;
		k->ahn = (uint16_t)ahn;
		if (se_gid_remote(gid, set)) {
			k->host = se_host_of(gid);
			k->dev = k->host ? (int16_t)se_gid_index(gid) : -1;
		} else {
			k->dev = (int16_t)se_gid_device(gid, set);
		}
		k->next = pd->known[k->ahn % SE_PD_BUCKETS];
		pd->known[k->ahn % SE_PD_BUCKETS] = k;
		k->next_gid = pd->by_gid[g];
		pd->by_gid[g] = k;
	}
	k->refs++;
	*out = k;
	return 0;
}

void se_pd_unknow(struct se_pd *pd, struct se_known *k)
{
	struct se_known **p = &pd->known[k->ahn % SE_PD_BUCKETS];

	if (--k->refs)
		return;
	while (*p != k)
		p = &(*p)->next;
	*p = k->next;
	p = &pd->by_gid[gid_bucket(&k->gid)];
	while (*p != k)
		p = &(*p)->next_gid;
	*p = k->next_gid;
	se_fabric_ahn_put((int)pd->obj.ctx->dev, k->ahn);
	free(k);
}
