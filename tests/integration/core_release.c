/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The same binary on any rdma-core: each feature is there from the release on that brought it, and
 * before that the log says what is missing, and that it is libefa's age.
 */
#include "srd.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/loop.h"
#include "../lib/plug.h"

static char said[8192];

static void keep(void *arg, enum srd_log_level level, const char *line)
{
	size_t len = strlen(said);

	(void)arg;
	(void)level;
	snprintf(said + len, sizeof(said) - len, "%s\n", line);
}

static struct loop l;

/* ---- the features ---- */

static bool makes_qp(struct srd_qp_attr attr)
{
	struct srd_qp qp;
	int rc;

	attr.send_cq = attr.recv_cq = &l.a_cq;
	attr.max_send_wr = attr.max_recv_wr = 16;
	rc = srd_qp_init(&qp, &l.pd, &attr);
	cr_assert(rc == 0 || rc == -EOPNOTSUPP, "%d\n%s", rc, said);
	srd_qp_fini(&qp);
	return rc == 0;
}

static bool reads(void)
{
	return makes_qp((struct srd_qp_attr){.ops = IBV_QP_EX_WITH_RDMA_READ});
}

static bool writes(void)
{
	return makes_qp((struct srd_qp_attr){.ops = IBV_QP_EX_WITH_RDMA_WRITE});
}

static bool unsolicited(void)
{
	return makes_qp((struct srd_qp_attr){.unsolicited = true});
}

/* Without service levels the QP is made all the same. */
static bool service_levels(void)
{
	cr_assert(makes_qp((struct srd_qp_attr){.sl = 8}));
	return !strstr(said, "ignored");
}

static bool mr_ids(void)
{
	struct srd_mr_ids ids;
	int rc = srd_mr_ids(&l.mr, &ids);

	cr_assert(rc == 0 || rc == -EOPNOTSUPP, "%d", rc);
	return rc == 0;
}

static bool cq_ring(void)
{
	struct srd_ring ring;
	int rc = srd_cq_ring(&l.a_cq, &ring);

	cr_assert(rc == 0 || rc == -EOPNOTSUPP, "%d", rc);
	return rc == 0;
}

static bool qp_rings(void)
{
	struct srd_ring sq, rq;
	int rc = srd_qp_rings(&l.a, &sq, &rq);

	cr_assert(rc == 0 || rc == -EOPNOTSUPP, "%d", rc);
	return rc == 0;
}

static bool direct(void)
{
	struct srd_cq cq;
	bool is;

	cr_assert(zero(int, srd_cq_init(&cq, &l.dev, &(struct srd_cq_attr){.direct = true})));
	is = cq.direct;
	srd_cq_fini(&cq);
	return is;
}

static bool thread_domains(void)
{
	return l.td.td;
}

static bool inline_80(void)
{
	return l.dev.attr.inline_size == 80;
}

static const struct feature {
	const char *name;
	int since;
	bool (*is_there)(void);
	const char *says; /* without it; NULL: nothing */
} features[] = {
	{"reads", 0, reads, NULL},
	{"writes", 46, writes, "QP refused: RDMA write: needs libefa >= 46, this is"},
	{"ids of regions", 50, mr_ids, "libefa.so.1 lacks efadv_query_mr: going on without"},
	{"unsolicited", 52, unsolicited,
	 "QP refused: unsolicited write receive: needs libefa >= 52, this is"},
	{"service levels", 55, service_levels, "libefa has no service levels: 8 ignored"},
	{"CQ ring", 59, cq_ring, "libefa.so.1 lacks efadv_query_cq: going on without"},
	{"QP rings", 59, qp_rings, "libefa.so.1 lacks efadv_query_qp_wqs: going on without"},
	{"direct", 59, direct, "a CQ is left to libefa: it does not show its ring"},
	{"thread domains", 62, thread_domains, "libefa has no thread domains: its locks stay"},
	{"80 bytes inline", 63, inline_80, NULL},
};

enum { FEATURES = sizeof(features) / sizeof(features[0]) };

struct which {
	unsigned at;
};

ParameterizedTestParameters(release, brings_features_and_says_what_is_missing)
{
	static struct which which[FEATURES];

	for (unsigned i = 0; i < FEATURES; i++)
		which[i].at = i;
	return cr_make_param_array(struct which, which, FEATURES);
}

ParameterizedTest(struct which *which, release, brings_features_and_says_what_is_missing)
{
	const struct feature *f = &features[which->at];
	bool is_there;

	if (loop_classic() && f->is_there == unsolicited)
		cr_skip("not on classic CQs");
	plug_softefa("profile=efa3");
	setenv("SRD_LOG", "info", 1);
	srd_log_to(keep, NULL);
	loop_init(&l, &(struct loop_attr){.td = true});
	is_there = f->is_there();
	cr_assert(eq(int, is_there, loop_release() >= f->since), "%s, release %d\n%s", f->name,
		  loop_release(), said);
	if (f->says)
		cr_assert(eq(int, strstr(said, f->says) != NULL, !is_there), "%s\n%s", f->name,
			  said);
	loop_fini(&l);
}
