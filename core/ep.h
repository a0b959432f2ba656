/* SPDX-License-Identifier: BSD-3-Clause */
/* What makes an endpoint one that can be sent to. */
#ifndef SRD_CORE_EP_H
#define SRD_CORE_EP_H

#include "srd.h"

bool srd_ep_valid(const struct srd_ep *ep);

#endif
