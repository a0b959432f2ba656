/* SPDX-License-Identifier: BSD-3-Clause */
/* What the environment asks of the core, read once. */
#ifndef SRD_CORE_SETTINGS_H
#define SRD_CORE_SETTINGS_H

#include <stdint.h>

struct srd_settings {
	int64_t log; /* enum srd_log_level */
	char rdma_core[1024];
};

const struct srd_settings *srd_settings(void);

#endif
