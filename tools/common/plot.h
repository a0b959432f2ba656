/* SPDX-License-Identifier: BSD-3-Clause */
/* A picture of bandwidth by size, by whichever program is installed. */
#ifndef COMMON_PLOT_H
#define COMMON_PLOT_H

#include <stdint.h>

struct plot_point {
	uint64_t bytes;
	double gbps; /* 10^9 bytes per second */
};

struct plotter;

/* NULL: there is none, which was said. Ask before a long run. */
const struct plotter *plotter_find(void);
/*
 * Draw @path, a PNG. 0 or -errno, said on stderr. A plotter that ends early raises SIGPIPE: ignore
 * it.
 */
int plot_draw(const struct plotter *plotter, const struct plot_point *points, int n,
	      const char *path);

#endif
