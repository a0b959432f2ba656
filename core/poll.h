/* SPDX-License-Identifier: BSD-3-Clause */
/* How a CQ is polled. */
#ifndef SRD_CORE_POLL_H
#define SRD_CORE_POLL_H

#include "srd.h"

/* Set cq->poll by what else @cq says; once it is made. */
void srd_poll_choose(struct srd_cq *cq);

#endif
