/* SPDX-License-Identifier: BSD-3-Clause */
/* QPNs, AHNs and memory keys of a device. */
#include "numbers.h"

#include <errno.h>
#include <string.h>

#define KEY_GENS    (1u << (24 - SE_KEY_BITS))
#define KEY_LIVE    (1u << 31)
#define KEY_GEN(v)  (0xff & (v))
#define KEY_SLOT(v) ((int)((v) >> 8 & 0xffff))

/* ---- QPNs ---- */

int se_numbers_qpn_get(struct se_numbers *d, int slot, const uint8_t *used, uint32_t mask,
		       uint32_t max)
{
	for (uint32_t n = 0; n < 1 << 16 && d->qp_count < max; n++) {
		uint16_t qpn = (uint16_t)++d->qpn_last;

		/* 0 and 1 mean other things in verbs. */
		if (qpn < 2 || used[qpn & mask] || atomic_load(&d->qpn_owner[qpn]))
			continue;
		atomic_store(&d->qpn_owner[qpn], (uint16_t)(slot + 1));
		d->qp_count++;
		return qpn;
	}
	return -ENOMEM;
}

void se_numbers_qpn_put(struct se_numbers *d, uint16_t qpn)
{
	atomic_store(&d->qpn_owner[qpn], 0);
	d->qp_count--;
}

/* ---- AHNs ---- */

/* The number of @gid, or a free one for it, or 0. */
static uint32_t find_ahn(struct se_numbers *d, const struct se_gid *gid, uint32_t max)
{
	uint32_t a, free_one = 0;

	for (a = 1; a < d->ah_top; a++) {
		if (!d->ah[a].refs)
			free_one = free_one ? free_one : a;
		else if (memcmp(&d->ah[a].gid, gid, sizeof(*gid)) == 0)
			return a;
	}
	if (d->ah_count >= max)
		return 0;
	if (free_one)
		return free_one;
	return d->ah_top < SE_MAX_AHN ? (d->ah_top ? d->ah_top : 1) : 0;
}

int se_numbers_ahn_get(struct se_numbers *d, int slot, const struct se_gid *gid, uint32_t max)
{
	uint32_t a = find_ahn(d, gid, max);
	struct se_numbers_ah *ah = &d->ah[a];

	if (!a || ah->by_member[slot] == UINT16_MAX)
		return -ENOMEM;
	if (a >= d->ah_top)
		d->ah_top = a + 1;
	if (!ah->refs) {
		ah->gid = *gid;
		d->ah_count++;
	}
	ah->refs++;
	ah->by_member[slot]++;
	return (int)a;
}

void se_numbers_ahn_put(struct se_numbers *d, int slot, uint16_t ahn)
{
	struct se_numbers_ah *ah = &d->ah[ahn];

	ah->by_member[slot]--;
	if (--ah->refs == 0)
		d->ah_count--;
}

/* ---- memory keys ---- */

int se_numbers_key_get(struct se_numbers *d, int slot, uint32_t max, uint32_t *key)
{
	for (uint32_t n = 0; n < SE_KEYS && d->key_count < max; n++) {
		uint32_t i = ++d->key_last & (SE_KEYS - 1), v = atomic_load(&d->key[i]), gen;

		if (i == 0 || v & KEY_LIVE)
			continue;
		gen = (KEY_GEN(v) + 1) % KEY_GENS;
		atomic_store(&d->key[i], KEY_LIVE | (uint32_t)slot << 8 | gen);
		d->key_count++;
		*key = gen << SE_KEY_BITS | i;
		return 0;
	}
	return -ENOMEM;
}

void se_numbers_key_put(struct se_numbers *d, uint32_t key)
{
	_Atomic uint32_t *k = &d->key[SE_KEY_INDEX(key)];

	atomic_store(k, KEY_GEN(atomic_load(k)));
	d->key_count--;
}

bool se_numbers_key_live(const struct se_numbers *d, uint32_t key, int slot)
{
	uint32_t v = atomic_load_explicit(&d->key[SE_KEY_INDEX(key)], memory_order_acquire);

	return v == (KEY_LIVE | (uint32_t)slot << 8 | key >> SE_KEY_BITS);
}

/* ---- what is only counted ---- */

int se_numbers_count(struct se_numbers *d, int slot, enum se_counted what, uint32_t max)
{
	uint32_t n = 0;

	for (int i = 0; i < SE_MAX_PROC; i++)
		n += d->counted[what][i];
	if (n >= max)
		return -ENOMEM;
	d->counted[what][slot]++;
	return 0;
}

void se_numbers_uncount(struct se_numbers *d, int slot, enum se_counted what)
{
	d->counted[what][slot]--;
}

/* ---- reclaiming ---- */

static void reclaim_qpns(struct se_numbers *d, int slot)
{
	d->qp_count = 0;
	for (uint32_t q = 0; q < 1 << 16; q++) {
		int owner = atomic_load_explicit(&d->qpn_owner[q], memory_order_relaxed);

		if (owner == slot + 1) {
			atomic_store(&d->qpn_owner[q], 0);
			atomic_fetch_add(&d->qpn_life[q], 1);
		} else if (owner) {
			d->qp_count++;
		}
	}
}

static void reclaim_keys(struct se_numbers *d, int slot)
{
	d->key_count = 0;
	for (uint32_t k = 0; k < SE_KEYS; k++) {
		uint32_t v = atomic_load_explicit(&d->key[k], memory_order_relaxed);

		if (!(v & KEY_LIVE))
			continue;
		if (KEY_SLOT(v) == slot)
			atomic_store(&d->key[k], KEY_GEN(v));
		else
			d->key_count++;
	}
}

static void reclaim_ahs(struct se_numbers *d, int slot)
{
	d->ah_count = 0;
	for (uint32_t a = 1; a < d->ah_top; a++) {
		struct se_numbers_ah *ah = &d->ah[a];

		ah->by_member[slot] = 0;
		ah->refs = 0;
		for (int i = 0; i < SE_MAX_PROC; i++)
			ah->refs += ah->by_member[i];
		d->ah_count += ah->refs != 0;
	}
}

/* Counts are made anew: the owner may have died between a table and its count. */
void se_numbers_reclaim(struct se_numbers *d, int slot)
{
	if (d->qp_count)
		reclaim_qpns(d, slot);
	if (d->key_count)
		reclaim_keys(d, slot);
	if (d->ah_count)
		reclaim_ahs(d, slot);
	for (int i = 0; i < SE_COUNTED; i++)
		d->counted[i][slot] = 0;
}
