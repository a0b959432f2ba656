/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues: create, arm. */
#include "srd.h"

#include <string.h>

#include "efadv_compat.h"
#include "libs.h"
#include "log.h"
#include "direct.h"
#include "poll.h"

enum { CQE_DEFAULT = 256, PART_EFA0 = 0xefa0 };

/* IBV_WC_EX_WITH_* of what srd_cq_poll() reads. */
static uint64_t wc_flags(uint32_t fields)
{
	uint64_t flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM;

	if (fields & SRD_CQ_QPN)
		flags |= IBV_WC_EX_WITH_QP_NUM;
	if (fields & SRD_CQ_SRC)
		flags |= IBV_WC_EX_WITH_SRC_QP | IBV_WC_EX_WITH_SLID;
	return flags;
}

int srd_cq_ring(const struct srd_cq *cq, struct srd_ring *ring)
{
	struct srd_dv_cq_ring dv = {0};
	int rc;

	if (!srd_efadv.query_cq)
		return -EOPNOTSUPP;
	rc = srd_efadv.query_cq(ibv_cq_ex_to_cq(cq->ibv), &dv, sizeof(dv));
	if (rc == EOPNOTSUPP)
		return -EOPNOTSUPP;
	if (rc)
		return srd_failed(cq->ibv->context, "efadv_query_cq", rc, "%s", "");
	*ring = (struct srd_ring){
		.buffer = dv.buffer,
		.doorbell = dv.doorbell,
		.entry_bytes = dv.entry_size,
		.entries = dv.num_entries,
	};
	return 0;
}

/*
 * Find the ring, to look at it before calling libefa: most polls find nothing, and the call costs
 * fifty instructions to say so. The first EFA splits a CQ into several rings: not there.
 */
static void find_ring(struct srd_cq *cq, const struct srd_dev *dev)
{
	static const uint8_t unknown = CQE_PHASE; /* never empty, for all we know */
	struct srd_ring ring;

	cq->next = &unknown;
	cq->phase = CQE_PHASE;
	if (dev->attr.part_id == PART_EFA0 || srd_cq_ring(cq, &ring) || !ring.buffer)
		return;
	cq->first = ring.buffer + CQE_FLAGS_AT;
	cq->end = cq->first + (size_t)ring.entries * ring.entry_bytes;
	cq->next = cq->first;
	cq->entry_bytes = (uint8_t)ring.entry_bytes;
}

/* errno says why there is none. */
static struct ibv_cq_ex *create(struct srd_dev *dev, const struct srd_cq_attr *attr,
				uint64_t dv_flags)
{
	struct ibv_cq_init_attr_ex init = {
		.cqe = attr->cqe ? attr->cqe : CQE_DEFAULT,
		.channel = attr->channel ? attr->channel->ibv : NULL,
		.comp_vector = attr->comp_vector,
		.wc_flags = wc_flags(attr->fields),
	};

	errno = 0;
	if (attr->classic)
		return (struct ibv_cq_ex *)srd_ibv.create_cq(dev->ibv, init.cqe, NULL, init.channel,
							     init.comp_vector);
	if (attr->td && attr->td->td) {
		init.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
		init.parent_domain = attr->td->ibv;
	}
	return srd_dv_create_cq(dev->ibv, &init, dv_flags);
}

static int check(const struct srd_dev *dev, const struct srd_cq_attr *attr)
{
	const char *name = dev->ibv->device->name;

	if (attr->classic && (attr->direct || attr->fields & SRD_CQ_SGID)) {
		srd_err("%s: CQ refused: a classic one is not direct and has no source GIDs", name);
		return -EINVAL;
	}
	if (attr->fields & SRD_CQ_SGID && !(dev->attr.caps & SRD_CAP_CQ_WITH_SGID))
		return srd_lacks(dev->ibv, "CQ refused: source GIDs", 0);
	return 0;
}

int srd_cq_init(struct srd_cq *cq, struct srd_dev *dev, const struct srd_cq_attr *attr)
{
	bool unsolicited = dev->attr.caps & SRD_CAP_UNSOLICITED_WRITE_RECV && !attr->classic;
	uint64_t dv_flags = unsolicited ? SRD_DV_WC_IS_UNSOLICITED : 0;
	int rc;

	memset(cq, 0, sizeof(*cq));
	rc = check(dev, attr);
	if (rc)
		return rc;
	if (attr->fields & SRD_CQ_SGID)
		dv_flags |= SRD_DV_WC_SGID;
	cq->ibv = create(dev, attr, dv_flags);
	if (!cq->ibv)
		return srd_failed(dev->ibv, attr->classic ? "ibv_create_cq" : "efadv_create_cq",
				  errno, ": %d entries, max %u; vector %d of %d; max %u CQs",
				  attr->cqe ? attr->cqe : CQE_DEFAULT, dev->attr.max_cqe,
				  attr->comp_vector, dev->ibv->num_comp_vectors, dev->attr.max_cq);
	/* efadv_create_cq() leaves it NULL; srd_channel_wait() reads it. */
	cq->ibv->cq_context = cq;
	if (!attr->classic)
		cq->dv = srd_efadv.cq_from_ibv_cq_ex(cq->ibv);
	cq->fields = attr->fields;
	cq->cqe = ibv_cq_ex_to_cq(cq->ibv)->cqe;
	cq->room = (uint32_t)cq->cqe;
	cq->unsolicited = unsolicited;
	find_ring(cq, dev);
	rc = attr->direct ? srd_cq_direct_init(cq, dev) : 0;
	if (rc)
		srd_cq_fini(cq);
	else
		srd_poll_choose(cq);
	return rc;
}

void srd_cq_fini(struct srd_cq *cq)
{
	int rc = cq->ibv ? srd_ibv.destroy_cq(ibv_cq_ex_to_cq(cq->ibv)) : 0;

	if (rc)
		srd_warn("ibv_destroy_cq: %s (%d)", strerror(rc), rc);
	srd_cq_direct_fini(cq);
	memset(cq, 0, sizeof(*cq));
}

int srd_cq_arm(struct srd_cq *cq)
{
	int rc;

	if (cq->direct) {
		srd_direct_tell(cq->direct, CQ_ARM);
		return 0;
	}
	rc = ibv_req_notify_cq(ibv_cq_ex_to_cq(cq->ibv), 0);
	return rc ? srd_failed(cq->ibv->context, "ibv_req_notify_cq", rc, "%s", "") : 0;
}
