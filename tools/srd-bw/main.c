/* SPDX-License-Identifier: BSD-3-Clause */
/* srd-bw: bandwidth and message rate between two hosts. */
#include <signal.h>
#include <stdio.h>

#include "common/plot.h"
#include "common/say.h"
#include "report.h"

static int measure(struct bw *bw)
{
	int rc = 0;

	bw_report_head(bw);
	for (int i = 0; !bw->wrong && i < bw->opt->nsizes; i++) {
		rc = bw_measure(bw, bw->opt->sizes[i], &bw->rows[i]);
		if (rc)
			break;
		bw->nrows++;
		bw_report_row(bw, &bw->rows[i]);
	}
	if (!rc)
		rc = bw_bye(bw);
	return rc;
}

static int draw(const struct bw *bw, const struct plotter *plotter)
{
	struct plot_point points[BW_MAX_SIZES];

	for (int i = 0; i < bw->nrows; i++)
		points[i] = (struct plot_point){bw->rows[i].size, bw_row_gbps(&bw->rows[i])};
	return plot_draw(plotter, points, bw->nrows, bw->opt->plot);
}

static int client(struct bw *bw)
{
	const struct plotter *plotter = NULL;
	int rc, end;

	if (bw->opt->plot && !(plotter = plotter_find()))
		return -1;
	rc = bw_open(bw);
	if (rc)
		return rc;
	rc = measure(bw);
	end = bw_report_end(bw, rc || bw->wrong);
	if (!rc && !end && plotter)
		end = draw(bw, plotter);
	return rc ? rc : end;
}

static int server(struct bw *bw)
{
	int rc = bw_open(bw);

	return rc ? rc : bw_serve(bw);
}

int main(int argc, char **argv)
{
	static struct bw_options opt;
	static struct bw bw;
	int rc;

	say_init("srd-bw");
	/* A plotter that ends early is no reason to die silently. */
	signal(SIGPIPE, SIG_IGN);
	rc = bw_options_parse(&opt, argc, argv);
	if (rc)
		return rc > 0 ? 0 : 2;
	bw.opt = &opt;
	bw.wire.lost = true;
	bw.wire.tcp.fd = -1;
	rc = *opt.host ? client(&bw) : server(&bw);
	if (rc)
		bw_wire_fail(&bw.wire, say_latest());
	bw_close(&bw);
	return rc || bw.wrong ? 1 : 0;
}
