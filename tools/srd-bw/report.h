/* SPDX-License-Identifier: BSD-3-Clause */
/* What a run found, on stdout: a table, CSV or JSON. */
#ifndef SRD_BW_REPORT_H
#define SRD_BW_REPORT_H

#include "run.h"

void bw_report_head(const struct bw *bw);
/* One of bw->rows. */
void bw_report_row(const struct bw *bw, const struct bw_row *row);
/* @code: how the run ended. -EIO: stdout took not all. */
int bw_report_end(const struct bw *bw, int code);

/* 10^9 bytes per second. */
double bw_row_gbps(const struct bw_row *row);

#endif
