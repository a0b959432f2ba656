/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers: endpoints with an address handle. */
#include "srd.h"

#include <string.h>

#include "ah.h"
#include "efadv_compat.h"
#include "ep.h"
#include "libs.h"
#include "log.h"

static int query_ahn(struct srd_peer *peer)
{
	struct srd_dv_ah_attr attr = {0};
	int rc = srd_efadv.query_ah(peer->ah, &attr, sizeof(attr));

	if (rc)
		return srd_failed(peer->ah->context, "efadv_query_ah", rc, "%s", "");
	peer->ahn = attr.ahn;
	return 0;
}

int srd_peer_init(struct srd_peer *peer, struct srd_pd *pd, const struct srd_ep *ep)
{
	int rc;

	memset(peer, 0, sizeof(*peer));
	if (!srd_ep_valid(ep)) {
		srd_err("%s: peer refused: qpn %u exceeds 65535, or its GID is zero",
			pd->ibv->context->device->name, ep->qpn);
		return -EINVAL;
	}
	rc = srd_ah_get(pd->ahs, &ep->gid, &peer->ah);
	if (rc)
		return rc;
	peer->pd = pd;
	peer->gid = ep->gid;
	peer->qpn = ep->qpn;
	peer->qkey = ep->qkey;
	rc = query_ahn(peer);
	if (rc)
		srd_peer_fini(peer);
	return rc;
}

void srd_peer_fini(struct srd_peer *peer)
{
	/* A PD that was finished first has taken its address handles with it. */
	if (peer->ah && peer->pd->ahs)
		srd_ah_put(peer->pd->ahs, &peer->gid);
	memset(peer, 0, sizeof(*peer));
}
