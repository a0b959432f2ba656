/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A picture of bandwidth by size. The plotter reads its script from a pipe; the name of the file
 * goes by the environment, where no quoting is needed.
 */
#include "plot.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "say.h"

#define FILE_VARIABLE "PLOT_FILE"

struct plotter {
	const char *probe, *command; /* lines of shell */
	const char *head, *row[3],
		*end; /* the script; between the parts of row are size and GB/s */
};

static const struct plotter plotters[] = {
	{
		.probe = "gnuplot --version >/dev/null 2>&1",
		.command = "gnuplot",
		.head = "$data << END\n",
		.row = {"", " ", "\n"},
		.end = "END\n"
		       "set terminal png size 960,600\n"
		       "set output system('printf %s \"$" FILE_VARIABLE "\"')\n"
		       "set logscale x 2\n"
		       "set yrange [0:*]\n"
		       "set xlabel 'message size (bytes)'\n"
		       "set ylabel 'GB/s'\n"
		       "set grid\n"
		       "plot $data using 1:2 with linespoints notitle\n",
	},
	{
		.probe = "python3 -c 'import matplotlib' >/dev/null 2>&1",
		.command = "python3 -",
		.head = "import os, matplotlib\n"
			"matplotlib.use('Agg')\n"
			"from matplotlib import pyplot\n"
			"data = [\n",
		.row = {"(", ", ", "),\n"},
		.end = "]\n"
		       "figure, axes = pyplot.subplots(figsize=(9.6, 6))\n"
		       "axes.plot([d[0] for d in data], [d[1] for d in data], marker='o')\n"
		       "axes.set_xscale('log', base=2)\n"
		       "axes.set_ylim(bottom=0)\n"
		       "axes.set_xlabel('message size (bytes)')\n"
		       "axes.set_ylabel('GB/s')\n"
		       "axes.grid(True)\n"
		       "figure.savefig(os.environ['" FILE_VARIABLE "'], format='png')\n",
	},
};

const struct plotter *plotter_find(void)
{
	for (size_t i = 0; i < sizeof(plotters) / sizeof(plotters[0]); i++) {
		if (!system(plotters[i].probe))
			return &plotters[i];
	}
	say("--plot needs gnuplot, or python3 with matplotlib: neither is installed");
	return NULL;
}

static void write_script(FILE *to, const struct plotter *plotter, const struct plot_point *points,
			 int n)
{
	fputs(plotter->head, to);
	for (int i = 0; i < n; i++)
		fprintf(to, "%s%" PRIu64 "%s%.6g%s", plotter->row[0], points[i].bytes,
			plotter->row[1], points[i].gbps, plotter->row[2]);
	fputs(plotter->end, to);
}

int plot_draw(const struct plotter *plotter, const struct plot_point *points, int n,
	      const char *path)
{
	struct stat there;
	FILE *to;
	int rc;

	remove(path); /* so that an old picture is not taken for a new one */
	if (setenv(FILE_VARIABLE, path, 1) || !(to = popen(plotter->command, "w"))) {
		say("--plot %s: %s", path, strerror(errno));
		return -EIO;
	}
	write_script(to, plotter, points, n);
	rc = pclose(to);
	if (!rc && !stat(path, &there) && there.st_size)
		return 0;
	say("--plot %s: %s did not draw it", path, plotter->command);
	return -EIO;
}
