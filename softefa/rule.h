/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fault rules: what goes wrong, where and when.
 *
 *   FAULT [VALUE] [KEY=VALUE]...
 *
 * for example
 *
 *   status 13 op=write nth=100           the 100th RDMA write ends with status 13
 *   dead dev=1 ms=3000                   device 1 answers nobody for 3 seconds
 *   delay 50 jitter=200 p=0.1            a tenth of the requests leave 50 to 250 us late
 *   refuse mr error=14 nth=3             the third registration fails with EFAULT
 *
 * A rule is a setting (--set 'fault=dead dev=1', any number of them) or a line of the control file,
 * where also empty lines are allowed and lines that begin with #. It holds for the processes that
 * read it, each on its own: k-th is the k-th that this process sees. Where two rules for one fault
 * apply the first one does.
 */
#ifndef SE_RULE_H
#define SE_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * Keys: X(name, min, max, text). Words instead of a number: see rule.c.
 */
#define SE_RULE_KEYS(X) \
	X(dev, 0, 63, "only on this device; without: on all") \
	X(qpn, 0, 65535, "only this queue pair") \
	X(op, 0, 2, "only this operation") \
	X(nth, 1, UINT32_MAX, "only the k-th that all else applies to") \
	X(p, 0, 1000000, "with this probability") \
	X(times, 1, UINT32_MAX, "at most so many times") \
	X(ms, 1, 86400000, "only so long after the rule was read") \
	X(jitter, 0, 60000000, "and up to so many microseconds more, at random") \
	X(gap, 0, 60000000, "microseconds between one placement and the next") \
	X(error, 1, 133, "this errno; without: 12, ENOMEM")

enum se_rule_key {
#define X(name, min, max, text) SE_KEY_##name,
	SE_RULE_KEYS(X)
#undef X
		SE_RULE_NKEYS
};

/*
 * Faults: X(id, name, value, min, max, keys, text); value: what it counts, words to choose from, or
 * "" for none. What a queue pair sends is what dev=, qpn= and op= of a rule are about, with three
 * exceptions: rnr is about the queue pair that should receive; twice, lines and die_placing are
 * about the one whose process places the bytes (of a send or write the receiver, of a read the
 * requester); of dead, either end.
 */
#define SE_FAULTS(X) \
	X(STATUS, "status", "CODE", 1, 255, SE_KEYS_EVENT | SE_KEYS_QP, \
	  "a request ends with this completion status; nothing is moved") \
	X(UNHEARD, "unheard", "CODE", 1, 255, SE_KEYS_EVENT | SE_KEYS_QP, \
	  "a request is carried out and ends with this completion status: its answer is lost") \
	X(DELAY, "delay", "US", 0, 60000000, SE_KEYS_EVENT | SE_KEYS_QP | 1u << SE_KEY_jitter, \
	  "a request leaves so much later") \
	X(RATE, "rate", "MBPS", 1, 1000000, SE_KEYS_WHERE, \
	  "a slow device: so many 10^6 bytes per second") \
	X(DEAD, "dead", "", 0, 0, SE_KEYS_WHERE, \
	  "no answers: requests end with 15, or 13 if the peer ever answered, after timeout_ms") \
	X(RNR, "rnr", "", 0, 0, SE_KEYS_WHERE, "posted receives are not seen") \
	X(REORDER, "reorder", "N", 0, 64, 1u << SE_KEY_ms, "as the setting, while it holds") \
	X(TWICE, "twice", "", 0, 0, SE_KEYS_EVENT | SE_KEYS_QP | 1u << SE_KEY_gap, \
	  "the bytes are placed twice, the second time before the completion") \
	X(LINES, "lines", "", 0, 0, SE_KEYS_EVENT | SE_KEYS_QP | 1u << SE_KEY_gap, \
	  "the bytes land 64-byte line by line, in any order") \
	X(REFUSE, "refuse", "pd mr ah cq qp", 0, 4, SE_KEYS_EVENT | 1u << SE_KEY_error, \
	  "an object of this kind cannot be made") \
	X(EVENT, "event", "qp_fatal cq_err device_fatal port_err port_active", 0, 4, \
	  SE_KEYS_EVENT | SE_KEYS_QP, \
	  "a request raises this event of its queue pair, the queue's CQ, device or port; with " \
	  "the fatal ones all that is posted there is flushed") \
	X(OVERFLOW, "overflow", "", 0, 0, 1u << SE_KEY_dev | 1u << SE_KEY_ms, \
	  "a completion for a full queue aborts the process; without: it waits for room") \
	X(DIE_PLACING, "die_placing", "BYTES", 0, 1u << 30, SE_KEYS_EVENT | SE_KEYS_QP, \
	  "the process is killed when it has placed so much of a transfer") \
	X(DIE_SENDING, "die_sending", "US", 0, 60000000, SE_KEYS_EVENT | SE_KEYS_QP, \
	  "the process is killed so long after it sent a request")

enum se_fault {
#define X(id, ...) SE_FAULT_##id,
	SE_FAULTS(X)
#undef X
		SE_FAULT_KINDS
};

/* Keys that go together. */
#define SE_KEYS_QP    (1u << SE_KEY_qpn | 1u << SE_KEY_op)
#define SE_KEYS_WHERE (1u << SE_KEY_dev | 1u << SE_KEY_qpn | 1u << SE_KEY_ms)
#define SE_KEYS_EVENT \
	(1u << SE_KEY_dev | 1u << SE_KEY_nth | 1u << SE_KEY_p | 1u << SE_KEY_times | \
	 1u << SE_KEY_ms)

/* All zero where nothing is set, so that equal rules have equal bytes. */
struct se_rule {
	enum se_fault fault;
	uint32_t value;
	uint32_t has; /* 1 << se_rule_key */
	uint32_t key[SE_RULE_NKEYS];
};

/*
 * Read a rule of @len bytes. 1; 0 when there is none in it (blank, or a comment); -EINVAL with the
 * reason in @err.
 */
int se_rule_parse(struct se_rule *r, const char *text, size_t len, char *err, size_t errlen);
static inline bool se_rule_has(const struct se_rule *r, enum se_rule_key key)
{
	return r->has >> key & 1;
}

/* Both tables. */
void se_rule_print(FILE *out);

#endif
