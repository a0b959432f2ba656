/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The numbers of one device: QPNs, AHNs and memory keys, and which member of the fabric has which;
 * and how many it has of what needs no number. Tables in shared memory; the caller serialises what
 * changes them. A member may die at any instruction of it: se_numbers_reclaim() makes good what
 * that leaves.
 */
#ifndef SE_NUMBERS_H
#define SE_NUMBERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "gid.h"

#define SE_MAX_DEV        SE_GID_DEVICES
#define SE_MAX_PROC       128 /* members, known by their slots */
#define SE_MAX_AHN        16384
#define SE_KEY_BITS       18
#define SE_KEYS           (1u << SE_KEY_BITS)
#define SE_KEY_INDEX(key) ((key) & (SE_KEYS - 1))

enum se_counted { SE_COUNT_PD, SE_COUNT_CQ, SE_COUNTED };

struct se_numbers_ah {
	struct se_gid gid;
	uint32_t refs; /* sum of by_member */
	uint16_t by_member[SE_MAX_PROC];
};

struct se_numbers {
	uint32_t qp_count, qpn_last;
	uint32_t key_count, key_last;
	uint32_t ah_count, ah_top; /* numbers below ah_top have ever been used */
	uint32_t counted[SE_COUNTED][SE_MAX_PROC];
	/* These are read without a lock. */
	_Atomic uint16_t qpn_owner[1 << 16]; /* slot + 1 */
	_Atomic uint32_t qpn_life[1 << 16];
	_Atomic uint32_t key[SE_KEYS]; /* live, slot, generation */
	struct se_numbers_ah ah[SE_MAX_AHN];
};

/* A number, or -ENOMEM; what they mean is told in fabric.h. */
int se_numbers_qpn_get(struct se_numbers *d, int slot, const uint8_t *used, uint32_t mask,
		       uint32_t max);
void se_numbers_qpn_put(struct se_numbers *d, uint16_t qpn);

int se_numbers_ahn_get(struct se_numbers *d, int slot, const struct se_gid *gid, uint32_t max);
void se_numbers_ahn_put(struct se_numbers *d, int slot, uint16_t ahn);

int se_numbers_key_get(struct se_numbers *d, int slot, uint32_t max, uint32_t *key);
void se_numbers_key_put(struct se_numbers *d, uint32_t key);
bool se_numbers_key_live(const struct se_numbers *d, uint32_t key, int slot);

/* One more or less; -ENOMEM when all members together have @max. */
int se_numbers_count(struct se_numbers *d, int slot, enum se_counted what, uint32_t max);
void se_numbers_uncount(struct se_numbers *d, int slot, enum se_counted what);

/* Take back all that @slot has. */
void se_numbers_reclaim(struct se_numbers *d, int slot);

#endif
