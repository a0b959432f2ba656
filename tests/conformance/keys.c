/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory: keys, ranges, rights, registration. "Guess": nobody has seen it on silicon. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "../lib/bytes.h"
#include "../lib/hw.h"
#include "../lib/kids.h"

TestSuite(keys, .timeout = 60);

enum {
	LEN = 256,
	LW = IBV_ACCESS_LOCAL_WRITE,
	RW = LW | IBV_ACCESS_REMOTE_WRITE,
	RR = IBV_ACCESS_REMOTE_READ
};

/* What is wrong with a region, or with what a request wants of it. */
enum fault {
	SOUND,
	ONE_BEFORE, /* the first byte is the one in front of it */
	ONE_AFTER,  /* the last byte is the one behind it */
	ALL_AFTER,
	STALE,   /* deregistered */
	FOREIGN, /* of another PD */
	UNKNOWN, /* no such key */
	NO_RIGHT,
	OTHER_DEVICE,
	EMPTY_OUTSIDE, /* no bytes, far away */
	EMPTY_UNKNOWN, /* no bytes, no such key */
};

/* A region in the middle of @h's memory with such a fault, and how it is to be addressed. */
struct target {
	struct ibv_mr *mr;
	struct hw other;
	struct ibv_mr *spare[8];
	unsigned nspare;
	uint64_t addr;
	uint32_t len, lkey, rkey;
};

/* Keys are a device's own: one of another device may be good here, too. */
static void foreign(struct target *t, const struct hw_pair *p, const struct hw *h, int access)
{
	do {
		MUST(t->nspare < 8, "keys are everywhere the same");
		t->spare[t->nspare++] = t->mr;
		t->mr = HW(ibv_reg_mr)(t->other.pd, h->buf + 4096, LEN, access);
	} while (t->mr && (t->mr->rkey == p->a.mr->rkey || t->mr->rkey == p->b.mr->rkey));
}

static void target_init(struct target *t, struct hw_pair *p, struct hw *h, enum fault fault,
			int access, int lacking)
{
	memset(t, 0, sizeof(*t));
	if (fault == FOREIGN)
		hw_init(&t->other, &(struct hw_attr){.near = h});
	if (fault == OTHER_DEVICE)
		hw_init(&t->other, &(struct hw_attr){.dev = 1});
	if (t->other.pd)
		foreign(t, p, h, access);
	else
		t->mr = HW(ibv_reg_mr)(h->pd, h->buf + 4096, LEN,
				       fault == NO_RIGHT ? access & ~lacking : access);
	MUST(t->mr, "MR: %s", strerror(errno));
	t->addr = (uintptr_t)h->buf + 4096;
	t->len = fault >= EMPTY_OUTSIDE ? 0 : LEN;
	t->lkey = t->mr->lkey;
	t->rkey = t->mr->rkey;
	t->addr += fault == ONE_BEFORE ? -1ull : fault == ONE_AFTER ? 1 : 0;
	if (fault == ALL_AFTER)
		t->addr += LEN;
	if (fault == EMPTY_OUTSIDE)
		t->addr = 0x1000;
	if (fault == UNKNOWN || fault == EMPTY_UNKNOWN) {
		t->lkey ^= 0x7fff;
		t->rkey ^= 0x7fff;
	}
	if (fault == STALE) {
		MUST_0(-HW(ibv_dereg_mr)(t->mr));
		t->mr = NULL;
	}
}

static void target_fini(struct target *t)
{
	MUST_0(t->mr ? -HW(ibv_dereg_mr)(t->mr) : 0);
	while (t->nspare--)
		MUST_0(t->spare[t->nspare] ? -HW(ibv_dereg_mr)(t->spare[t->nspare]) : 0);
	if (t->other.qp)
		hw_fini(&t->other);
}

static void need_devices(enum fault fault)
{
	if (fault == OTHER_DEVICE && hw_count() < 2)
		cr_skip("needs EFA devices: 2, has: 1");
}

/* ---- the sender's own memory ---- */

static enum fault local_faults[] = {SOUND,         ONE_BEFORE,   ONE_AFTER, ALL_AFTER,
				    STALE,         FOREIGN,      UNKNOWN,   OTHER_DEVICE,
				    EMPTY_OUTSIDE, EMPTY_UNKNOWN};

ParameterizedTestParameters(keys, send_of_memory_that_is_not_the_senders_is_5)
{
	return cr_make_param_array(enum fault, local_faults,
				   sizeof(local_faults) / sizeof(local_faults[0]));
}

/*
 * Section 5.6: rights do not matter, whoever sends reads. Of no bytes, too, both the key and the
 * address must be right: users saw such sends fail (aws-ofi-nccl#804). Guess: with this status.
 */
ParameterizedTest(enum fault *fault, keys, send_of_memory_that_is_not_the_senders_is_5)
{
	struct target t;
	struct hw_pair p;
	struct hw_wr wr;

	need_devices(*fault);
	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	target_init(&t, &p, &p.a, *fault, 0, 0);
	hw_recv(&p.b, 1, 0, LEN);
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, t.len, 0);
	wr.sge[0] = (struct ibv_sge){t.addr, t.len, t.lkey};
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, *fault == SOUND ? HW_OK : HW_BAD_LKEY));
	if (*fault == SOUND)
		hw_wait_for(&p.b.rcq, HW_OK);
	else
		cr_assert(hw_quiet(&p.b.rcq));
	hw_pair_works(&p);
	target_fini(&t);
	hw_pair_fini(&p);
}

/* Section 5.6: each piece must be sound. */
Test(keys, second_piece_is_checked_as_well)
{
	struct target t;
	struct hw_pair p;
	struct hw_wr wr;

	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	if (p.a.dev.max_sq_sge < 2)
		cr_skip("device of sends in one piece");
	target_init(&t, &p, &p.a, ONE_AFTER, LW, 0);
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, 8, 0);
	wr.sge[wr.nsge++] = (struct ibv_sge){t.addr, t.len, t.lkey};
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_BAD_LKEY));
	target_fini(&t);
	hw_pair_fini(&p);
}

static enum fault read_faults[] = {SOUND,   ONE_BEFORE, ONE_AFTER,    STALE,         FOREIGN,
				   UNKNOWN, NO_RIGHT,   OTHER_DEVICE, EMPTY_OUTSIDE, EMPTY_UNKNOWN};

ParameterizedTestParameters(keys, read_into_memory_that_may_not_be_written_is_5)
{
	return cr_make_param_array(enum fault, read_faults,
				   sizeof(read_faults) / sizeof(read_faults[0]));
}

/* Section 5.6. */
ParameterizedTest(enum fault *fault, keys, read_into_memory_that_may_not_be_written_is_5)
{
	struct target t;
	struct hw_pair p;
	struct hw_wr wr;

	need_devices(*fault);
	hw_pair_init(&p, &(struct hw_attr){.need = HW_READ}, NULL);
	target_init(&t, &p, &p.a, *fault, LW, LW);
	memset(p.a.buf, 0xee, 3 * 4096);
	wr = hw_pair_wr(&p, HW_OP_READ, 0, t.len, 0);
	wr.sge[0] = (struct ibv_sge){t.addr, t.len, t.lkey};
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, *fault == SOUND ? HW_OK : HW_BAD_LKEY));
	if (*fault != SOUND)
		cr_assert(lt(long, bytes_differ_from(p.a.buf, 3 * 4096, 0xee), 0));
	hw_pair_works(&p);
	target_fini(&t);
	hw_pair_fini(&p);
}

/* ---- the receiver's own memory ---- */

ParameterizedTestParameters(keys, receive_into_memory_that_may_not_be_written_fails_at_both_ends)
{
	return cr_make_param_array(enum fault, read_faults,
				   sizeof(read_faults) / sizeof(read_faults[0]));
}

/* Section 5.6. Guess: both statuses, and that those of no bytes are looked at like all others. */
ParameterizedTest(enum fault *fault, keys,
		  receive_into_memory_that_may_not_be_written_fails_at_both_ends)
{
	struct ibv_sge sge;
	struct target t;
	struct hw_pair p;
	struct hw_wr wr;

	need_devices(*fault);
	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	target_init(&t, &p, &p.b, *fault, LW, LW);
	memset(p.b.buf, 0xee, 3 * 4096);
	sge = (struct ibv_sge){t.addr, t.len, t.lkey};
	MUST_0(-hw_try_recv(&p.b, 9, &sge, 1));
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, t.len, 0);
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, *fault == SOUND ? HW_OK : HW_BAD_RESPONSE));
	cr_assert(eq(u64, hw_wait_for(&p.b.rcq, *fault == SOUND ? HW_OK : HW_BAD_LKEY).wr_id, 9));
	if (*fault != SOUND)
		cr_assert(lt(long, bytes_differ_from(p.b.buf, 3 * 4096, 0xee), 0));
	hw_pair_works(&p);
	target_fini(&t);
	hw_pair_fini(&p);
}

/* ---- the target's memory ---- */

struct remote {
	enum hw_op op;
	enum fault fault;
};

static struct remote remotes[] = {
	{HW_OP_READ, SOUND},          {HW_OP_READ, ONE_BEFORE},    {HW_OP_READ, ONE_AFTER},
	{HW_OP_READ, ALL_AFTER},      {HW_OP_READ, STALE},         {HW_OP_READ, FOREIGN},
	{HW_OP_READ, UNKNOWN},        {HW_OP_READ, NO_RIGHT},      {HW_OP_READ, OTHER_DEVICE},
	{HW_OP_READ, EMPTY_OUTSIDE},  {HW_OP_READ, EMPTY_UNKNOWN}, {HW_OP_WRITE, SOUND},
	{HW_OP_WRITE, ONE_BEFORE},    {HW_OP_WRITE, ONE_AFTER},    {HW_OP_WRITE, ALL_AFTER},
	{HW_OP_WRITE, STALE},         {HW_OP_WRITE, FOREIGN},      {HW_OP_WRITE, UNKNOWN},
	{HW_OP_WRITE, NO_RIGHT},      {HW_OP_WRITE, OTHER_DEVICE}, {HW_OP_WRITE, EMPTY_OUTSIDE},
	{HW_OP_WRITE, EMPTY_UNKNOWN},
};

ParameterizedTestParameters(keys, rdma_to_memory_that_is_not_open_to_it_is_7)
{
	return cr_make_param_array(struct remote, remotes, sizeof(remotes) / sizeof(remotes[0]));
}

/* Section 5.6. Guess: that of no bytes, too, both the key and the address must be right. */
ParameterizedTest(struct remote *r, keys, rdma_to_memory_that_is_not_open_to_it_is_7)
{
	struct target t;
	struct hw_pair p;
	struct hw_wr wr;

	need_devices(r->fault);
	hw_pair_init(&p,
		     &(struct hw_attr){.need = r->op == HW_OP_READ ? HW_READ : HW_WRITE | HW_READ},
		     NULL);
	target_init(&t, &p, &p.b, r->fault, r->op == HW_OP_READ ? RR : RW | RR,
		    r->op == HW_OP_READ ? RR : IBV_ACCESS_REMOTE_WRITE);
	memset(p.a.buf, 0xee, LEN);
	memset(p.b.buf, 0xee, 3 * 4096);
	wr = hw_pair_wr(&p, r->op, 0, t.len, 0);
	wr.raddr = t.addr;
	wr.rkey = t.rkey;
	bytes_fill(p.a.buf, LEN, 1);
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, r->fault == SOUND ? HW_OK : HW_BAD_RKEY));
	if (r->fault != SOUND) { /* not even what would have been inside */
		cr_assert(lt(long, bytes_differ_from(p.b.buf, 3 * 4096, 0xee), 0));
		cr_assert(lt(long, bytes_differ(p.a.buf, LEN, 1), 0));
	}
	hw_pair_works(&p);
	target_fini(&t);
	hw_pair_fini(&p);
}

/* Section 5.6: all of a region, and each of its ends. */
Test(keys, all_of_a_region_can_be_reached)
{
	struct target t;
	struct hw_pair p;
	struct hw_wr wr;

	hw_pair_init(&p, &(struct hw_attr){.need = HW_READ}, NULL);
	target_init(&t, &p, &p.b, SOUND, RR, 0);
	bytes_fill(p.b.buf + 4096, LEN, 5);
	wr = hw_pair_wr(&p, HW_OP_READ, 0, 1, 0);
	wr.rkey = t.rkey;
	for (uint32_t i = 0; i < LEN; i += LEN - 1) {
		wr.raddr = t.addr + i;
		cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_OK));
		cr_assert(eq(u8, p.a.buf[0], p.b.buf[4096 + i]));
	}
	target_fini(&t);
	hw_pair_fini(&p);
}

/* Section 2.5: several regions may be of the same memory, each with its own rights. */
Test(keys, regions_of_the_same_memory_have_their_own_rights)
{
	struct ibv_mr *closed, *open;
	struct hw_pair p;
	struct hw_wr wr;

	hw_pair_init(&p, &(struct hw_attr){.need = HW_READ}, NULL);
	closed = HW(ibv_reg_mr)(p.b.pd, p.b.buf, LEN, LW);
	open = HW(ibv_reg_mr)(p.b.pd, p.b.buf, LEN, RR);
	cr_assert(closed && open);
	cr_assert(ne(u32, closed->rkey, open->rkey));
	wr = hw_pair_wr(&p, HW_OP_READ, 0, LEN, 0);
	wr.rkey = closed->rkey;
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_BAD_RKEY));
	wr.rkey = open->rkey;
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_OK));
	cr_assert(zero(int, HW(ibv_dereg_mr)(closed)));
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_OK));
	cr_assert(zero(int, HW(ibv_dereg_mr)(open)));
	cr_assert(eq(uint, hw_run(&p.a, &wr).status, HW_BAD_RKEY));
	hw_pair_fini(&p);
}

/* Section 2.5: after the call the device does not look there any more, not even for what waits. */
Test(keys, request_that_waits_fails_when_its_memory_goes)
{
	struct ibv_mr *mr;
	struct hw_pair p;
	struct hw_wr wr;

	hw_pair_init(&p, &(struct hw_attr){0}, NULL);
	mr = HW(ibv_reg_mr)(p.a.pd, p.a.buf, LEN, 0);
	wr = hw_pair_wr(&p, HW_OP_SEND, 0, LEN, 0);
	wr.sge[0] = hw_sge(mr, 0, LEN);
	hw_post(&p.a, &wr); /* there is no receive */
	cr_assert(hw_quiet(&p.a.scq));
	cr_assert(zero(int, HW(ibv_dereg_mr)(mr)));
	memset(p.b.buf, 0xee, LEN);
	hw_recv(&p.b, 1, 0, LEN);
	hw_wait_for(&p.a.scq, HW_BAD_LKEY);
	cr_assert(lt(long, bytes_differ_from(p.b.buf, LEN, 0xee), 0));
	hw_pair_works(&p);
	hw_pair_fini(&p);
}

/* ---- registration ---- */

struct registration {
	int access, error;
};

static struct registration registrations[] = {
	{0, 0},
	{LW, 0},
	{IBV_ACCESS_REMOTE_WRITE, EINVAL},
	{IBV_ACCESS_REMOTE_ATOMIC, EINVAL},
	{LW | IBV_ACCESS_REMOTE_ATOMIC, EOPNOTSUPP},
	{LW | IBV_ACCESS_MW_BIND, EOPNOTSUPP},
	{LW | IBV_ACCESS_RELAXED_ORDERING, 0},
};

ParameterizedTestParameters(keys, rights_are_checked_at_the_registration)
{
	return cr_make_param_array(struct registration, registrations,
				   sizeof(registrations) / sizeof(registrations[0]));
}

/* Section 2.5. */
ParameterizedTest(struct registration *r, keys, rights_are_checked_at_the_registration)
{
	struct ibv_mr *mr;
	struct hw h;

	hw_init(&h, &(struct hw_attr){0});
	errno = 0;
	mr = HW(ibv_reg_mr)(h.pd, h.buf, LEN, r->access);
	cr_assert(eq(int, mr != NULL, r->error == 0));
	if (mr)
		cr_assert(zero(int, HW(ibv_dereg_mr)(mr)));
	else
		cr_assert(eq(int, errno, r->error));
	hw_fini(&h);
}

/* A kernel pins the pages: they must be there, and writable where the device may write. */
Test(keys, registered_memory_must_be_there)
{
	struct ibv_mr *mr;
	struct hw h;
	uint8_t *p;

	hw_init(&h, &(struct hw_attr){0});
	p = mmap(NULL, 3 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert(ne(ptr, (void *)p, MAP_FAILED));
	munmap(p + 4096, 4096);
	cr_assert(eq(ptr, HW(ibv_reg_mr)(h.pd, p, 2 * 4096, 0), NULL), "it ends in a hole");
	cr_assert(eq(int, errno, EFAULT));
	cr_assert(eq(ptr, HW(ibv_reg_mr)(h.pd, p, 4096, LW), NULL), "it is read-only");
	cr_assert(eq(int, errno, EFAULT));
	mr = HW(ibv_reg_mr)(h.pd, p, 4096, 0);
	cr_assert(ne(ptr, mr, NULL));
	cr_assert(zero(int, HW(ibv_dereg_mr)(mr)));
	munmap(p, 4096);
	munmap(p + 2 * 4096, 4096);
	hw_fini(&h);
}

/* Section 3.3: a device that lacks an operation lacks the right to it. */
Test(keys, right_that_the_device_lacks_is_refused)
{
	struct ibv_mr *mr;
	struct hw h;

	hw_init(&h, &(struct hw_attr){0});
	mr = HW(ibv_reg_mr)(h.pd, h.buf, LEN, RR);
	cr_assert(eq(int, mr != NULL, (h.dev.device_caps & HW_READ) != 0));
	MUST_0(mr ? -HW(ibv_dereg_mr)(mr) : 0);
	/* An older libefa does not tell of the device's write. */
	mr = HW(ibv_reg_mr)(h.pd, h.buf, LEN, RW);
	if (h.dev.device_caps & HW_WRITE)
		cr_assert(ne(ptr, mr, NULL));
	MUST_0(mr ? -HW(ibv_dereg_mr)(mr) : 0);
	hw_fini(&h);
}
