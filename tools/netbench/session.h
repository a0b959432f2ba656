/* SPDX-License-Identifier: BSD-3-Clause */
/* One run: the ranks that are started here, and what they found. */
#ifndef NETBENCH_SESSION_H
#define NETBENCH_SESSION_H

#include "report.h"

/* Memory that ranks and their parent share. NULL: said on stderr. */
struct nb_report *nb_report_new(void);

/* Run the ranks; fills @run->report. Returns an enum host_exit, or 128 + N. */
int nb_session(const struct nb_run *run);

/* Does this process print? Ranks that are started apart often have one command line, and one file
 * system. */
bool nb_prints(const struct nb_options *opt);

#endif
