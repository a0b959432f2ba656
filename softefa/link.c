/* SPDX-License-Identifier: BSD-3-Clause */
/* Rings between processes. */
#include "link.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine.h"
#include "fabric.h"
#include "log.h"
#include "private.h"

#define RING_SLOTS 512
#define ASK_US     20000 /* how often to ask whether the reader of a full ring lives */

struct ring {
	_Alignas(64) _Atomic uint32_t head; /* written by the sender */
	_Alignas(64) _Atomic uint32_t tail; /* written by the receiver */
	_Alignas(64) uint8_t slot[RING_SLOTS][SE_MSG_SIZE];
};

/* One end of a ring. Indices run freely; their copies here save the other side's cache line. */
struct end {
	struct ring *ring;
	uint64_t incarnation; /* of the member at the other end */
	uint32_t head, tail;
	uint64_t ask_us;
};

static struct end out[SE_MAX_PROC], in[SE_MAX_PROC];
static uint64_t unflushed[SE_MAX_PROC / 64], unread[SE_MAX_PROC / 64];
static uint64_t later[SE_MAX_PROC / 64]; /* unread, but the ring cannot be mapped now */

static void set_bit(uint64_t *map, int bit)
{
	map[bit / 64] |= 1ull << (bit % 64);
}

static void clear_bit(uint64_t *map, int bit)
{
	map[bit / 64] &= ~(1ull << (bit % 64));
}

static void end_close(struct end *e)
{
	if (e->ring)
		munmap(e->ring, sizeof(*e->ring));
	memset(e, 0, sizeof(*e));
}

/* Once: while the program has no files left there would be a line every few milliseconds. */
static void complain(const char *path, int err)
{
	static bool told;

	if (!told)
		se_log(SE_LOG_ERROR, "ring %s: %s; trying again", path, strerror(err));
	told = true;
}

/* NULL with errno; ENOENT: a sender that died took its unread ring with it. */
static struct ring *ring_map(uint64_t from, uint64_t to, int flags)
{
	struct ring *r = NULL;
	char path[192];
	bool opened;
	int fd, err;

	snprintf(path, sizeof(path), "%s/%llx.%llx", se_fabric_dir(), (unsigned long long)from,
		 (unsigned long long)to);
	fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
	opened = fd >= 0;
	/* The program may be closing all numbers, and opening files of its own, at this moment. */
	if (opened) {
		fd = se_private_fd_add(fd);
		errno = fd < 0 ? -fd : 0;
	}
	if (fd >= 0 && (!flags || ftruncate(fd, sizeof(*r)) == 0)) {
		r = mmap(NULL, sizeof(*r), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		r = r == MAP_FAILED ? NULL : r;
	}
	err = errno;
	if (!r && err != ENOENT)
		complain(path, err);
	/* Once both ends are mapped the name is of no use; nor is that of half a ring. */
	if (opened && (r != NULL) == !flags)
		unlink(path);
	se_private_fd_close(fd);
	errno = err;
	return r;
}

/* The sender makes the ring and tells the receiver by its own incarnation. */
static int out_open(struct end *e, int slot, uint64_t incarnation)
{
	int self = se_fabric_self();
	uint64_t mine;

	/* First: an answer to a dead process must not close the ring to the one in its place. */
	if (self == SE_NO_SLOT || !incarnation || se_fabric_incarnation(slot) != incarnation)
		return -ESRCH;
	if (!e->ring && se_now_us() < e->ask_us)
		return -EAGAIN;
	end_close(e);
	clear_bit(unflushed, slot);
	mine = se_fabric_incarnation(self);
	e->ring = ring_map(mine, incarnation, O_CREAT | O_EXCL);
	if (!e->ring) {
		e->ask_us = se_now_us() + ASK_US;
		return -EAGAIN;
	}
	e->incarnation = incarnation;
	atomic_store(&se_fabric_mail(slot)->ring_from[self], mine);
	return 0;
}

/* A full ring is nobody else's business: who died with it unread is found out here. */
static int full(struct end *e, int slot)
{
	uint64_t now_us = se_now_us();

	if (now_us < e->ask_us)
		return -EAGAIN;
	e->ask_us = now_us + ASK_US;
	return se_fabric_gone(slot, e->incarnation) ? -ESRCH : -EAGAIN;
}

int se_link_send(int slot, uint64_t incarnation, const struct se_msg *msg)
{
	struct end *e = &out[slot];
	struct se_msg *to;
	int rc;

	if (!e->ring || e->incarnation != incarnation) {
		rc = out_open(e, slot, incarnation);
		if (rc)
			return rc;
	}
	if (e->head - e->tail == RING_SLOTS) {
		/* acquire: the reader is done with what it passed */
		e->tail = atomic_load_explicit(&e->ring->tail, memory_order_acquire);
		if (e->head - e->tail == RING_SLOTS)
			return full(e, slot);
	}
	to = (struct se_msg *)e->ring->slot[e->head % RING_SLOTS];
	memcpy(to, msg, offsetof(struct se_msg, data));
	if (msg->flags & SE_MSG_INLINE)
		memcpy(to->data, msg->data, msg->len);
	e->head++;
	set_bit(unflushed, slot);
	return 0;
}

void se_link_flush(void)
{
	int self = se_fabric_self();

	for (int w = 0; w < SE_MAX_PROC / 64; w++) {
		while (unflushed[w]) {
			int bit = __builtin_ctzll(unflushed[w]), slot = w * 64 + bit;
			struct se_mail *mail = se_fabric_mail(slot);

			unflushed[w] &= unflushed[w] - 1;
			/* release: messages before head, head before the flag, the flag before
			 * the look at sleeping (all sequentially consistent from here) */
			atomic_store_explicit(&out[slot].ring->head, out[slot].head,
					      memory_order_release);
			atomic_fetch_or(&mail->ready[self / 64], 1ull << (self % 64));
			se_mail_wake(mail);
		}
	}
}

/* The flag came from a new sender in that slot: its ring replaces the old one. */
static bool in_current(struct end *e, int slot)
{
	int self = se_fabric_self();
	uint64_t from = atomic_load(&se_fabric_mail(self)->ring_from[slot]);

	if (e->ring && e->incarnation == from)
		return true;
	end_close(e);
	if (!from)
		return false;
	e->ring = ring_map(from, se_fabric_incarnation(self), 0);
	e->incarnation = from;
	if (!e->ring && errno != ENOENT)
		set_bit(later, slot);
	return e->ring != NULL;
}

/* Returns how many messages were taken; keeps the flag when some are left. */
static unsigned drain(int slot, unsigned budget, bool (*deliver)(const struct se_msg *, int))
{
	struct end *e = &in[slot];
	unsigned n = 0;

	if (!in_current(e, slot))
		return 0;
	e->head = atomic_load_explicit(&e->ring->head, memory_order_acquire);
	if (e->head - e->tail > RING_SLOTS) {
		se_log(SE_LOG_ERROR, "ring from process %d is corrupt", (int)se_fabric_pid(slot));
		e->head = e->tail;
	}
	while (e->tail != e->head && n < budget) {
		if (!deliver((const struct se_msg *)e->ring->slot[e->tail % RING_SLOTS], slot))
			break;
		e->tail++;
		n++;
	}
	atomic_store_explicit(&e->ring->tail, e->tail, memory_order_release);
	if (e->tail != e->head)
		set_bit(unread, slot);
	return n;
}

uint64_t se_link_sender(int slot)
{
	return in[slot].incarnation;
}

unsigned se_link_receive(unsigned budget, bool (*deliver)(const struct se_msg *, int slot))
{
	struct se_mail *mail = se_fabric_mail(se_fabric_self());
	unsigned n = 0;

	for (int w = 0; w < SE_MAX_PROC / 64; w++) {
		uint64_t todo = unread[w];

		if (atomic_load_explicit(&mail->ready[w], memory_order_relaxed))
			todo |= atomic_exchange(&mail->ready[w], 0);
		unread[w] = 0;
		for (; todo; todo &= todo - 1)
			n += drain(w * 64 + __builtin_ctzll(todo), budget, deliver);
	}
	return n;
}

void se_link_timers(void)
{
	for (int w = 0; w < SE_MAX_PROC / 64; w++) {
		unread[w] |= later[w];
		later[w] = 0;
	}
}

bool se_link_mail(void)
{
	struct se_mail *mail = se_fabric_mail(se_fabric_self());

	for (int w = 0; w < SE_MAX_PROC / 64; w++)
		if (unread[w] || atomic_load(&mail->ready[w]))
			return true;
	return false;
}

void se_link_close(void)
{
	for (int i = 0; i < SE_MAX_PROC; i++) {
		end_close(&out[i]);
		end_close(&in[i]);
	}
	memset(unflushed, 0, sizeof(unflushed));
	memset(unread, 0, sizeof(unread));
	memset(later, 0, sizeof(later));
}
