/* SPDX-License-Identifier: BSD-3-Clause */
/* The command "softefa stat": what the devices of a domain have done so far. */
#ifndef SE_REPORT_H
#define SE_REPORT_H

#include <stdbool.h>

/* On stdout, or on stderr why not. The exit status: 0; 1: nobody is there; 125. */
int se_report(bool json);

#endif
