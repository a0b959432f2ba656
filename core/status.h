/* SPDX-License-Identifier: BSD-3-Clause */
/* EFA completion statuses, for the rest of the core. */
#ifndef SRD_CORE_STATUS_H
#define SRD_CORE_STATUS_H

#include "srd.h"

/* The verbs status that libefa (release 62 and later) makes of it. */
enum ibv_wc_status srd_status_wc(uint32_t efa_status);

#endif
