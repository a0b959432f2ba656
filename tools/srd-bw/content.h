/* SPDX-License-Identifier: BSD-3-Clause */
/* What messages hold when they are checked; see common/payload.h. Any size. */
#ifndef SRD_BW_CONTENT_H
#define SRD_BW_CONTENT_H

#include <stddef.h>
#include <stdint.h>

#include "common/payload.h"

void bw_content_fill(uint8_t *data, uint64_t size, uint64_t key);
/* How many bytes are wrong; *@first is where the first of them is. */
uint64_t bw_content_check(const uint8_t *data, uint64_t size, uint64_t key, uint64_t *first);

#endif
