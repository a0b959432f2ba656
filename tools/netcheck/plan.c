/* SPDX-License-Identifier: BSD-3-Clause */
/* What NCCL's protocols put on the wire. */
#include "plan.h"

#include <string.h>

#include "common/payload.h"

enum { LL_LINE = 16, LL128_LINE = 128, LL128_DATA = 120 };

const struct plan plan_ring = {PLAN_SIMPLE, "Simple", 512 << 10, 2, 1};
const struct plan plan_tree = {PLAN_SIMPLE, "Simple", 512 << 10, 1, 1};
const struct plan plan_p2p = {PLAN_SIMPLE, "Simple", 128 << 10, 1, 1};
/* Threads, lines each, 8 steps: 512 * 8 * 16 and 640 * 120 * 8 bytes. */
const struct plan plan_ll = {PLAN_LL, "LL", 64 << 10, 1, LL_LINE};
const struct plan plan_ll128 = {PLAN_LL128, "LL128", 614400, 1, LL128_LINE};

size_t plan_bytes(const struct plan *p, uint64_t key)
{
	size_t most = p->step * (size_t)p->slice;

	if (key % 20 == 0)
		return 0;
	if (key % 4 == 0)
		return (size_t)(key >> 8) % (most / p->unit + 1) * p->unit;
	return most;
}

size_t plan_data(const struct plan *p, size_t bytes)
{
	switch (p->proto) {
	case PLAN_LL:
		return bytes / 2;
	case PLAN_LL128:
		return bytes / LL128_LINE * LL128_DATA;
	default:
		return bytes;
	}
}

static void store(char *at, uint64_t word)
{
	__atomic_store_n((uint64_t *)at, word, __ATOMIC_RELEASE);
}

static uint64_t load(const char *at)
{
	return __atomic_load_n((const uint64_t *)at, __ATOMIC_ACQUIRE);
}

/* Half a line: data below, flag above. */
static uint64_t ll_half(const char *data, uint64_t flag)
{
	uint32_t word;

	memcpy(&word, data, sizeof(word));
	return flag << 32 | word;
}

void plan_fill(const struct plan *p, char *at, size_t bytes, uint64_t key, uint64_t flag,
	       char *scratch)
{
	if (p->proto == PLAN_SIMPLE) {
		payload_fill(at, bytes, key);
		payload_stamp(at, bytes, key);
		return;
	}
	payload_fill(scratch, plan_data(p, bytes), key);
	for (size_t i = 0; p->proto == PLAN_LL && i < bytes; i += 8)
		store(at + i, ll_half(scratch + i / 2, flag));
	for (size_t i = 0; p->proto == PLAN_LL128 && i < bytes; i += LL128_LINE) {
		memcpy(at + i, scratch + i / LL128_LINE * LL128_DATA, LL128_DATA);
		store(at + i + LL128_DATA, flag);
	}
}

bool plan_filled(const struct plan *p, const char *at, size_t bytes, uint64_t flag)
{
	for (size_t i = 0; p->proto == PLAN_LL && i < bytes; i += 8) {
		if (load(at + i) >> 32 != flag)
			return false;
	}
	for (size_t i = 0; p->proto == PLAN_LL128 && i < bytes; i += LL128_LINE) {
		if (load(at + i + LL128_DATA) != flag)
			return false;
	}
	return true;
}

int plan_look(const struct plan *p, const char *at, size_t line, uint64_t flag, const char *want)
{
	if (p->proto == PLAN_LL) {
		uint64_t low, high;

		at += line * LL_LINE;
		want += line * 8;
		low = load(at);
		high = load(at + 8);
		if (low >> 32 != flag || high >> 32 != flag)
			return 0;
		return low == ll_half(want, flag) && high == ll_half(want + 4, flag) ? 1 : -1;
	}
	at += line * LL128_LINE;
	if (load(at + LL128_DATA) != flag)
		return 0;
	return memcmp(at, want + line * LL128_DATA, LL128_DATA) ? -1 : 1;
}
