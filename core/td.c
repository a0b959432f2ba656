/* SPDX-License-Identifier: BSD-3-Clause */
/* Thread domains: no locks where one thread is promised. */
#include "srd.h"

#include <string.h>

#include "efadv_compat.h"
#include "libs.h"
#include "log.h"

/* Where there are none, it is no failure: the locks stay. */
static int alloc(struct srd_td *td, struct ibv_pd *pd)
{
	struct ibv_parent_domain_init_attr parent = {.pd = pd};
	struct ibv_td_init_attr none = {0};

	if (!srd_dv_thread_domains_are_safe())
		return 0;
	errno = 0;
	td->td = ibv_alloc_td(pd->context, &none);
	if (!td->td && errno == EOPNOTSUPP)
		return 0;
	if (!td->td)
		return srd_failed(pd->context, "ibv_alloc_td", errno, "%s", "");
	parent.td = td->td;
	errno = 0;
	td->ibv = ibv_alloc_parent_domain(pd->context, &parent);
	if (td->ibv)
		return 0;
	if (errno != EOPNOTSUPP)
		return srd_failed(pd->context, "ibv_alloc_parent_domain", errno, "%s", "");
	ibv_dealloc_td(td->td);
	td->td = NULL;
	return 0;
}

int srd_td_init(struct srd_td *td, struct srd_pd *pd)
{
	int rc;

	memset(td, 0, sizeof(*td));
	td->pd = pd;
	rc = alloc(td, pd->ibv);
	if (rc) {
		srd_td_fini(td);
		return rc;
	}
	if (!td->ibv) {
		srd_info("%s: libefa has no thread domains: its locks stay",
			 pd->ibv->context->device->name);
		td->ibv = pd->ibv;
	}
	return 0;
}

void srd_td_fini(struct srd_td *td)
{
	int rc = 0;

	if (td->td && td->ibv)
		rc = srd_ibv.dealloc_pd(td->ibv);
	if (rc)
		srd_warn("ibv_dealloc_pd of a parent domain: %s (%d)", strerror(rc), rc);
	rc = td->td ? ibv_dealloc_td(td->td) : 0;
	if (rc)
		srd_warn("ibv_dealloc_td: %s (%d)", strerror(rc), rc);
	memset(td, 0, sizeof(*td));
}
