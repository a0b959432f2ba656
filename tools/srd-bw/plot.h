/* SPDX-License-Identifier: BSD-3-Clause */
/* A picture of bandwidth by size, by whichever program is installed. */
#ifndef SRD_BW_PLOT_H
#define SRD_BW_PLOT_H

#include "run.h"

struct bw_plotter;

/* NULL: there is none, which was said. Ask before a long run. */
const struct bw_plotter *bw_plotter_find(void);
/* 0 or -errno, said on stderr. */
int bw_plot(const struct bw_plotter *plotter, const struct bw *bw, const char *path);

#endif
