/* SPDX-License-Identifier: BSD-3-Clause */
/* Rules in force: which one strikes. */
#include "fault.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "engine.h"
#include "fabric.h"
#include "landing.h"
#include "log.h"
#include "move.h"
#include "rng.h"
#include "settings.h"
#include "stats.h"

#define ANY_OP 0xff /* the question is not about an operation */

struct armed {
	struct se_rule rule;
	uint32_t seen, struck;
	uint64_t until_us;            /* of the ms key; 0: for ever */
	uint64_t busy_us[SE_MAX_DEV]; /* rate: when the device has sent all it has */
};

static struct armed rules[SE_MAX_RULES];
static unsigned nrules;
static uint64_t rng;
static uint64_t die_us; /* when, if not 0 */

uint32_t se_fault_kinds;

/* ---- loading ---- */

/* The rule as it was, when it was there: the first equal one that is not taken yet. */
static void inherit(struct armed *a, struct armed *old, unsigned nold)
{
	for (unsigned i = 0; i < nold; i++) {
		if (old[i].rule.fault == SE_FAULT_KINDS ||
		    memcmp(&old[i].rule, &a->rule, sizeof(a->rule)) != 0)
			continue;
		*a = old[i];
		old[i].rule.fault = SE_FAULT_KINDS;
		return;
	}
}

static void add(const struct se_rule *r, struct armed *old, unsigned nold)
{
	struct armed *a = &rules[nrules++];

	memset(a, 0, sizeof(*a));
	a->rule = *r;
	if (se_rule_has(r, SE_KEY_ms))
		a->until_us = se_now_us() + r->key[SE_KEY_ms] * 1000ull;
	inherit(a, old, nold);
}

static void add_lines(const char *text, const char *name, struct armed *old, unsigned nold)
{
	char err[160];

	for (unsigned line = 1; *text; line++) {
		size_t len = strcspn(text, "\n");
		struct se_rule r;
		int rc = se_rule_parse(&r, text, len, err, sizeof(err));

		if (rc == 1 && nrules == SE_MAX_RULES) {
			snprintf(err, sizeof(err), "more than %d rules", SE_MAX_RULES);
			rc = -EINVAL;
		}
		if (rc < 0)
			se_log(SE_LOG_ERROR, "%s:%u: %s", name, line, err);
		if (rc == 1)
			add(&r, old, nold);
		text += len + (text[len] == '\n');
	}
}

static void note_kinds(void)
{
	se_fault_kinds = 0;
	for (unsigned i = 0; i < nrules; i++)
		se_fault_kinds |= 1u << rules[i].rule.fault;
}

void se_fault_load(const char *lines, const char *name)
{
	static struct armed old[SE_MAX_RULES];
	unsigned nold = nrules;

	memcpy(old, rules, nrules * sizeof(rules[0]));
	nrules = 0;
	add_lines(se_settings()->faults, SE_ENV_SET, old, nold);
	if (lines)
		add_lines(lines, name, old, nold);
	note_kinds();
}

void se_fault_forget(void)
{
	nrules = 0;
	rng = die_us = 0;
	note_kinds();
}

/* ---- who is struck ---- */

static bool over(const struct armed *a, uint64_t now_us)
{
	return a->until_us && now_us >= a->until_us;
}

void se_fault_timers(uint64_t now_us)
{
	unsigned n = 0;

	if (!se_fault_kinds)
		return;
	for (unsigned i = 0; i < nrules; i++)
		if (!over(&rules[i], now_us))
			rules[n++] = rules[i];
	nrules = n;
	note_kinds();
}

static uint32_t draw(uint32_t n)
{
	if (!rng)
		rng = (se_settings()->seed + 1ull) * 0xbf58476d1ce4e5b9u +
		      (uint64_t)se_fabric_self();
	return se_rng_below(&rng, n);
}

static bool key_admits(const struct se_rule *r, enum se_rule_key key, uint32_t value)
{
	return !se_rule_has(r, key) || r->key[key] == value;
}

static bool applies(const struct armed *a, enum se_fault fault, uint32_t dev, uint32_t qpn,
		    uint32_t op)
{
	const struct se_rule *r = &a->rule;

	return r->fault == fault && key_admits(r, SE_KEY_dev, dev) &&
	       key_admits(r, SE_KEY_qpn, qpn) && key_admits(r, SE_KEY_op, op) &&
	       !over(a, a->until_us ? se_now_us() : 0);
}

/* Something that @a applies to: is it the one? */
static bool strikes(struct armed *a)
{
	const struct se_rule *r = &a->rule;

	a->seen++;
	if (se_rule_has(r, SE_KEY_nth) && a->seen != r->key[SE_KEY_nth])
		return false;
	if (se_rule_has(r, SE_KEY_times) && a->struck >= r->key[SE_KEY_times])
		return false;
	if (se_rule_has(r, SE_KEY_p) && draw(1000000) >= r->key[SE_KEY_p])
		return false;
	a->struck++;
	return true;
}

/* An event: all rules for it count it, the first that strikes is the answer. */
static const struct se_rule *event(enum se_fault fault, uint32_t dev, uint32_t qpn, uint32_t op)
{
	const struct se_rule *found = NULL;

	for (unsigned i = 0; i < nrules; i++)
		if (applies(&rules[i], fault, dev, qpn, op) && strikes(&rules[i]) && !found)
			found = &rules[i].rule;
	if (found)
		se_stat_add(dev, SE_STAT_FAULTS, 1);
	return found;
}

/* A condition: holds for as long as the rule does. */
static struct armed *condition(enum se_fault fault, uint32_t dev, uint32_t qpn)
{
	for (unsigned i = 0; i < nrules; i++)
		if (applies(&rules[i], fault, dev, qpn, ANY_OP))
			return &rules[i];
	return NULL;
}

/* ---- answers ---- */

uint8_t se_fault_status_rule(uint32_t dev, uint16_t qpn, uint8_t op)
{
	const struct se_rule *r = event(SE_FAULT_STATUS, dev, qpn, op);

	return r ? (uint8_t)r->value : 0;
}

uint8_t se_fault_unheard_rule(uint32_t dev, uint16_t qpn, uint8_t op)
{
	const struct se_rule *r = event(SE_FAULT_UNHEARD, dev, qpn, op);

	return r ? (uint8_t)r->value : 0;
}

int se_fault_event_rule(uint32_t dev, uint16_t qpn, uint8_t op)
{
	const struct se_rule *r = event(SE_FAULT_EVENT, dev, qpn, op);

	return r ? (int)r->value : -1;
}

uint64_t se_fault_leave_rule(uint32_t dev, uint16_t qpn, uint8_t op, uint32_t len)
{
	const struct se_rule *r = event(SE_FAULT_DELAY, dev, qpn, op);
	struct armed *rate = condition(SE_FAULT_RATE, dev, qpn);
	uint64_t now_us, leave_us;

	if (!r && !rate)
		return 0;
	now_us = leave_us = se_now_us();
	if (rate) {
		if (rate->busy_us[dev] > now_us)
			leave_us = rate->busy_us[dev];
		leave_us += len / rate->rule.value; /* 10^6 bytes per second: bytes per us */
		rate->busy_us[dev] = leave_us;
	}
	if (r)
		leave_us += r->value + (uint64_t)draw(r->key[SE_KEY_jitter] + 1);
	return leave_us;
}

bool se_fault_holds_rule(enum se_fault fault, uint32_t dev, uint16_t qpn)
{
	return condition(fault, dev, qpn);
}

uint32_t se_fault_window_rule(uint32_t window)
{
	const struct armed *a = condition(SE_FAULT_REORDER, 0, 0);

	return a ? a->rule.value : window;
}

int se_fault_refuse_rule(uint32_t dev, enum se_type type)
{
	/* In the order of the words in rule.h. */
	static const enum se_type types[] = {SE_PD, SE_MR, SE_AH, SE_CQ, SE_QP};
	const struct se_rule *found = NULL;

	for (unsigned i = 0; i < nrules; i++)
		if (types[rules[i].rule.value % 5] == type &&
		    applies(&rules[i], SE_FAULT_REFUSE, dev, 0, ANY_OP) && strikes(&rules[i]) &&
		    !found)
			found = &rules[i].rule;
	if (!found)
		return 0;
	se_stat_add(dev, SE_STAT_FAULTS, 1);
	return se_rule_has(found, SE_KEY_error) ? -(int)found->key[SE_KEY_error] : -ENOMEM;
}

void se_fault_landing_rule(struct se_move *m, uint32_t dev, uint16_t qpn, uint8_t op)
{
	const struct se_rule *r = event(SE_FAULT_LINES, dev, qpn, op);

	if (r)
		se_landing_lines(m, draw(UINT32_MAX), draw(UINT32_MAX), r->key[SE_KEY_gap]);
	r = event(SE_FAULT_TWICE, dev, qpn, op);
	if (r)
		se_landing_twice(m, r->key[SE_KEY_gap], op != SE_OP_READ);
	r = event(SE_FAULT_DIE_PLACING, dev, qpn, op);
	if (r)
		se_landing_die(m, r->value);
}

void se_fault_sent_rule(uint32_t dev, uint16_t qpn, uint8_t op)
{
	const struct se_rule *r = event(SE_FAULT_DIE_SENDING, dev, qpn, op);

	if (r && !die_us)
		die_us = se_now_us() + r->value;
}

void se_fault_die(uint64_t now_us)
{
	if (die_us && now_us >= die_us)
		kill(getpid(), SIGKILL);
}
