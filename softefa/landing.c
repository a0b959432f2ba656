/* SPDX-License-Identifier: BSD-3-Clause */
/* Strange ways to land. */
#include "landing.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine.h"
#include "move.h"
#include "stats.h"

#define LINE     64
#define COPY_MAX (64u << 10)

static uint32_t gcd(uint32_t a, uint32_t b)
{
	while (b) {
		uint32_t r = a % b;

		a = b;
		b = r;
	}
	return a;
}

/* @mul or a number above it that permutes @n by multiplication. */
static uint32_t coprime(uint32_t mul, uint32_t n)
{
	while (gcd(mul, n) != 1)
		mul++;
	return mul;
}

/* Bytes up to the end of the first line. */
static uint32_t first_line(const struct se_move *m)
{
	uint32_t to_end = LINE - (uint32_t)(m->dst[0].addr % LINE);

	return to_end < m->len ? to_end : m->len;
}

static uint32_t line_count(const struct se_move *m)
{
	return 1 + (m->len - first_line(m) + LINE - 1) / LINE;
}

void se_landing_lines(struct se_move *m, uint32_t mul, uint32_t add, uint32_t gap_us)
{
	struct se_landing *l = &m->landing;
	uint32_t n = m->len ? line_count(m) : 1;

	if (m->ndst != 1 || n == 1)
		return;
	l->odd = l->lines = true;
	l->line_gap_us = gap_us;
	l->add = add % n;
	l->mul = coprime(1 + mul % (n - 1), n);
}

void se_landing_twice(struct se_move *m, uint32_t gap_us, bool same)
{
	m->landing.odd = m->landing.twice = true;
	m->landing.same = same;
	m->landing.again_gap_us = gap_us;
}

void se_landing_end(struct se_landing *l)
{
	free(l->copy);
	l->copy = NULL;
}

/* From here on all comes from a copy. Without memory for it the source is read again, too. */
static enum se_move_result keep(struct se_move *m)
{
	enum se_move_result result;

	if (!m->landing.twice || m->data || !m->landing.same || m->len > COPY_MAX)
		return SE_MOVE_DONE;
	m->landing.copy = malloc(m->len);
	if (!m->landing.copy)
		return SE_MOVE_DONE;
	result = se_move_copy(m, m->landing.copy);
	if (result == SE_MOVE_DONE)
		m->data = m->landing.copy;
	return result;
}

void se_landing_die(struct se_move *m, uint32_t at)
{
	m->landing.odd = m->landing.die = true;
	m->landing.die_at = at;
}

/* What is next: [*from, *from + the result). */
static uint32_t next_part(const struct se_move *m, uint32_t *from)
{
	const struct se_landing *l = &m->landing;
	uint32_t left = m->len - m->done, n = first_line(m), i;

	*from = m->done;
	if (!l->lines) {
		n = left < SE_MOVE_PIECE ? left : SE_MOVE_PIECE;
		return l->die && l->die_at > m->done && n > l->die_at - m->done
			       ? l->die_at - m->done
			       : n;
	}
	i = (uint32_t)(((uint64_t)l->mul * l->next + l->add) % line_count(m));
	if (i == 0) {
		*from = 0;
		return n;
	}
	*from = n + (i - 1) * LINE;
	return m->len - *from < LINE ? m->len - *from : LINE;
}

static void die_if_due(const struct se_move *m)
{
	if (m->landing.die && m->done >= m->landing.die_at)
		kill(getpid(), SIGKILL);
}

/* All is placed. Once more? */
static bool begin_again(struct se_move *m)
{
	struct se_landing *l = &m->landing;

	if (!l->twice)
		return false;
	l->twice = false;
	l->next = 0;
	l->not_before_us = l->again_gap_us ? se_now_us() + l->again_gap_us : 0;
	m->done = 0;
	se_stat_add(m->pd->obj.ctx->dev, SE_STAT_DUPLICATES, 1);
	return true;
}

enum se_move_result se_landing_step(struct se_move *m)
{
	struct se_landing *l = &m->landing;
	uint32_t from, len;
	enum se_move_result result;

	die_if_due(m);
	if (l->not_before_us && se_now_us() < l->not_before_us)
		return SE_MOVE_WAIT;
	result = keep(m);
	if (result != SE_MOVE_DONE)
		return result;
	len = next_part(m, &from);
	result = se_move_part(m, from, len);
	if (result != SE_MOVE_DONE)
		return result;
	m->done += len;
	l->next++;
	die_if_due(m);
	if (m->done < m->len) {
		l->not_before_us = l->line_gap_us ? se_now_us() + l->line_gap_us : 0;
		return SE_MOVE_MORE;
	}
	return begin_again(m) ? SE_MOVE_MORE : SE_MOVE_DONE;
}

/* ---- from another host ---- */

/* What is at @from lands, a line at a time if there are lines. */
static enum se_move_result place_lines(const struct se_move *m, const uint8_t *data, uint32_t len)
{
	uint32_t skew = (uint32_t)(m->dst[0].addr + m->done) % LINE;
	uint32_t n = (skew + len + LINE - 1) / LINE, mul = coprime(m->landing.mul, n);

	for (uint32_t k = 0; k < n; k++) {
		uint32_t i = (uint32_t)(((uint64_t)mul * k + m->landing.add) % n);
		uint32_t from = i ? i * LINE - skew : 0;
		uint32_t to = (i + 1) * LINE - skew < len ? (i + 1) * LINE - skew : len;

		if (se_move_put(m, data + from, m->done + from, to - from) != SE_MOVE_DONE)
			return SE_MOVE_BAD_DST;
	}
	return SE_MOVE_DONE;
}

enum se_move_result se_landing_place(struct se_move *m, const void *data, uint32_t len)
{
	const struct se_landing *l = &m->landing;
	bool dies = l->die && m->done + (uint64_t)len >= l->die_at;
	uint32_t now = dies ? l->die_at - m->done : len;
	enum se_move_result result =
		l->lines && now ? place_lines(m, data, now) : se_move_put(m, data, m->done, now);

	if (result != SE_MOVE_DONE)
		return result;
	m->done += now;
	die_if_due(m);
	if (m->done < m->len)
		return SE_MOVE_WAIT;
	if (!begin_again(m))
		return SE_MOVE_DONE;
	m->asked = 0;
	m->asked_any = false;
	return SE_MOVE_WAIT;
}
