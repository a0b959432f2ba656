/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection domains. */
#include "srd.h"

#include <string.h>

#include "ah.h"
#include "libs.h"
#include "log.h"

int srd_pd_init(struct srd_pd *pd, struct srd_dev *dev)
{
	int rc;

	memset(pd, 0, sizeof(*pd));
	errno = 0;
	pd->ibv = srd_ibv.alloc_pd(dev->ibv);
	if (!pd->ibv) {
		rc = srd_failed(dev->ibv, "ibv_alloc_pd", errno, ": max %u", dev->attr.max_pd);
		goto fail;
	}
	pd->dev = dev;
	rc = srd_ah_cache_open(&pd->ahs, pd->ibv);
	if (rc)
		goto fail;
	return 0;
fail:
	srd_pd_fini(pd);
	return rc;
}

void srd_pd_fini(struct srd_pd *pd)
{
	int rc;

	srd_ah_cache_close(pd->ahs);
	if (pd->ibv) {
		rc = srd_ibv.dealloc_pd(pd->ibv);
		if (rc)
			srd_warn("ibv_dealloc_pd: %s (%d)", strerror(rc), rc);
	}
	memset(pd, 0, sizeof(*pd));
}
