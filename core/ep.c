/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints and their 24-byte wire form. */
#include "srd.h"

#include <assert.h>
#include <string.h>

#include "ep.h"

static_assert(sizeof(struct srd_ep_wire) == 24, "the Python package's struct format !16sII");

void srd_ep_local(const struct srd_qp *qp, struct srd_ep *ep)
{
	ep->gid = qp->dev->attr.gid;
	ep->qpn = qp->ibv->qp_num;
	ep->qkey = qp->qkey;
}

static void put_be32(uint8_t *p, uint32_t v)
{
	p[0] = v >> 24;
	p[1] = v >> 16;
	p[2] = v >> 8;
	p[3] = v;
}

static uint32_t get_be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3];
}

void srd_ep_pack(struct srd_ep_wire *wire, const struct srd_ep *ep)
{
	memcpy(wire->b, ep->gid.raw, 16);
	put_be32(wire->b + 16, ep->qpn);
	put_be32(wire->b + 20, ep->qkey);
}

bool srd_ep_valid(const struct srd_ep *ep)
{
	static const union ibv_gid zero;

	return ep->qpn <= UINT16_MAX && memcmp(&ep->gid, &zero, sizeof(zero));
}

int srd_ep_unpack(struct srd_ep *ep, const struct srd_ep_wire *wire)
{
	struct srd_ep got;

	memcpy(got.gid.raw, wire->b, 16);
	got.qpn = get_be32(wire->b + 16);
	got.qkey = get_be32(wire->b + 20);
	if (!srd_ep_valid(&got))
		return -EINVAL;
	*ep = got;
	return 0;
}
