/* SPDX-License-Identifier: BSD-3-Clause */
/* What a plugin takes of its process. */
#ifndef NETBENCH_RESOURCES_H
#define NETBENCH_RESOURCES_H

#include <stdint.h>

struct nb_resources {
	int64_t memory; /* resident bytes; -1: unknown */
	int64_t qps;    /* verbs queue pairs that exist; -1: unknown */
};

struct nb_resources nb_resources_now(void);

#endif
