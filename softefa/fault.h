/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults at work: the rules in force, and the questions that the adapter asks of them. While there
 * is no rule for a fault, its question costs one test of a word in memory. Engine lock held.
 */
#ifndef SE_FAULT_H
#define SE_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "ctx.h"
#include "rule.h"

#define SE_MAX_RULES 64

struct se_move;

extern uint32_t se_fault_kinds; /* 1 << enum se_fault: there is a rule in force */

/*
 * Replace all rules by those of the settings and of @lines, a text that has the name @name in
 * complaints about it (NULL: none). A rule that was there before goes on with its counts.
 */
void se_fault_load(const char *lines, const char *name);
/* After fork(): no rule has struck here. */
void se_fault_forget(void);
/* Rules whose time is over; every few milliseconds. */
void se_fault_timers(uint64_t now_us);

static inline bool se_fault_any(enum se_fault fault)
{
	return se_fault_kinds >> fault & 1;
}

/* What follows is called by the wrappers below. */
uint8_t se_fault_status_rule(uint32_t dev, uint16_t qpn, uint8_t op);
uint8_t se_fault_unheard_rule(uint32_t dev, uint16_t qpn, uint8_t op);
int se_fault_event_rule(uint32_t dev, uint16_t qpn, uint8_t op);
uint64_t se_fault_leave_rule(uint32_t dev, uint16_t qpn, uint8_t op, uint32_t len);
bool se_fault_holds_rule(enum se_fault fault, uint32_t dev, uint16_t qpn);
uint32_t se_fault_window_rule(uint32_t window);
int se_fault_refuse_rule(uint32_t dev, enum se_type type);
void se_fault_landing_rule(struct se_move *m, uint32_t dev, uint16_t qpn, uint8_t op);
void se_fault_sent_rule(uint32_t dev, uint16_t qpn, uint8_t op);
void se_fault_die(uint64_t now_us);

/* The status with which a request must end that would go out now, or 0. */
static inline uint8_t se_fault_status(uint32_t dev, uint16_t qpn, uint8_t op)
{
	return se_fault_any(SE_FAULT_STATUS) ? se_fault_status_rule(dev, qpn, op) : 0;
}

/* The status with which a request must end that was carried out, or 0. */
static inline uint8_t se_fault_unheard(uint32_t dev, uint16_t qpn, uint8_t op)
{
	return se_fault_any(SE_FAULT_UNHEARD) ? se_fault_unheard_rule(dev, qpn, op) : 0;
}

/* The event that a request raises that would go out now, by its place among the words, or -1. */
static inline int se_fault_event(uint32_t dev, uint16_t qpn, uint8_t op)
{
	return se_fault_any(SE_FAULT_EVENT) ? se_fault_event_rule(dev, qpn, op) : -1;
}

/* When a request of @len bytes may go out; 0: at once. */
static inline uint64_t se_fault_leave_us(uint32_t dev, uint16_t qpn, uint8_t op, uint32_t len)
{
	return se_fault_any(SE_FAULT_DELAY) || se_fault_any(SE_FAULT_RATE)
		       ? se_fault_leave_rule(dev, qpn, op, len)
		       : 0;
}

/* Is the device (the queue pair) dead, are its receives out of sight? */
static inline bool se_fault_holds(enum se_fault fault, uint32_t dev, uint16_t qpn)
{
	return se_fault_any(fault) && se_fault_holds_rule(fault, dev, qpn);
}

/* The window of reordering, which is @window by the settings. */
static inline uint32_t se_fault_window(uint32_t window)
{
	return se_fault_any(SE_FAULT_REORDER) ? se_fault_window_rule(window) : window;
}

/* 0 or -errno: may an object of this type be made? */
static inline int se_fault_refuse(uint32_t dev, enum se_type type)
{
	return se_fault_any(SE_FAULT_REFUSE) ? se_fault_refuse_rule(dev, type) : 0;
}

/* A move was set up: give it a strange way of landing if a rule says so. */
static inline void se_fault_landing(struct se_move *m, uint32_t dev, uint16_t qpn, uint8_t op)
{
	if (se_fault_any(SE_FAULT_LINES) || se_fault_any(SE_FAULT_TWICE) ||
	    se_fault_any(SE_FAULT_DIE_PLACING))
		se_fault_landing_rule(m, dev, qpn, op);
}

/* A request is on its way. */
static inline void se_fault_sent(uint32_t dev, uint16_t qpn, uint8_t op)
{
	if (se_fault_any(SE_FAULT_DIE_SENDING))
		se_fault_sent_rule(dev, qpn, op);
}

/* Once per round: the process may have to die. */
static inline void se_fault_round(uint64_t now_us)
{
	if (se_fault_any(SE_FAULT_DIE_SENDING))
		se_fault_die(now_us);
}

#endif
