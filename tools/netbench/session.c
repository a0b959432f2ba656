/* SPDX-License-Identifier: BSD-3-Clause */
/* One run. */
#include "session.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "conn.h"
#include "host/log.h"

struct nb_report *nb_report_new(void)
{
	struct nb_report *report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE,
					MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (report != MAP_FAILED)
		return report;
	host_err("mmap: %s", strerror(errno));
	return NULL;
}

static size_t largest_share(const struct nb_options *opt)
{
	size_t handles = nb_conns_share(opt);

	return handles > sizeof(struct nb_sample) ? handles : sizeof(struct nb_sample);
}

int nb_session(const struct nb_run *run)
{
	const struct nb_options *opt = run->opt;
	char terms[HOST_TERMS_BYTES];
	struct nb_run copy = *run;
	struct host_run host = {
		.program = "netbench",
		.nranks = (int)opt->ranks,
		.timeout_s = (int)opt->timeout,
		.share = largest_share(opt),
		.main = nb_rank_main,
		.arg = &copy,
		.root = opt->root,
		.rank = (int)opt->rank,
		.terms = terms,
	};

	nb_options_terms(opt, terms, sizeof(terms));
	return host_run(&host);
}

bool nb_prints(const struct nb_options *opt)
{
	return !opt->root.sin_port || !opt->rank;
}
