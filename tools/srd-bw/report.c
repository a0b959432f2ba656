/* SPDX-License-Identifier: BSD-3-Clause */
/* What a run found. CSV and JSON have their units in the names. */
#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "common/json.h"
#include "common/say.h"

static double rate(uint64_t n, uint64_t ns)
{
	return ns ? (double)n / (double)ns : 0;
}

double bw_row_gbps(const struct bw_row *row)
{
	return rate(row->bytes, row->ns);
}

static double share_percent(const struct bw_row *row, uint32_t rail)
{
	return row->bytes ? 100 * (double)row->rail[rail].bytes / (double)row->bytes : 0;
}

static bool direct(const struct bw *bw)
{
	return bw->lanes[0].scq.direct != NULL;
}

/* ---- the table ---- */

static void table_head(const struct bw *bw)
{
	printf("# srd-bw: %s%s, server %s\n# rails", bw_op_name(bw->plan.op),
	       bw->plan.bidirectional ? " in both directions" : "", bw->wire.tcp.where);
	for (uint32_t r = 0; r < bw->plan.rails; r++)
		printf(" %s", bw->names[r]);
	printf("; queue pairs per rail %u, window %u, %s, check %s\n#\n", bw->plan.qps,
	       bw->plan.window, direct(bw) ? "the device's own rings" : "through libefa",
	       bw->plan.check ? "on" : "off");
	printf("#%11s %12s %9s %12s %9s", "size", "messages", "time", "rate", "bandwidth");
	for (uint32_t r = 0; bw->plan.rails > 1 && r < bw->plan.rails; r++)
		printf(" %9s", bw->names[r]);
	printf("%s\n#%11s %12s %9s %12s %9s", bw->plan.check ? "   wrong" : "", "(B)", "", "(s)",
	       "(msg/s)", "(GB/s)");
	for (uint32_t r = 0; bw->plan.rails > 1 && r < bw->plan.rails; r++)
		printf(" %9s", "(GB/s)");
	puts(bw->plan.check ? "     (B)" : "");
}

static void table_row(const struct bw *bw, const struct bw_row *row)
{
	printf("%12" PRIu64 " %12" PRIu64 " %9.3f %12.0f %9.3f", row->size, row->messages,
	       (double)row->ns / 1e9, rate(row->messages, row->ns) * 1e9, bw_row_gbps(row));
	for (uint32_t r = 0; bw->plan.rails > 1 && r < bw->plan.rails; r++)
		printf(" %9.3f", rate(row->rail[r].bytes, row->rail[r].ns));
	if (bw->plan.check)
		printf(" %7" PRIu64, row->wrong);
	putchar('\n');
}

/* ---- CSV ---- */

static void csv_head(const struct bw *bw)
{
	printf("size_bytes,messages,seconds,messages_per_s,GB_per_s,wrong_bytes");
	for (uint32_t r = 0; r < bw->plan.rails; r++)
		printf(",%s_GB_per_s,%s_share_percent", bw->names[r], bw->names[r]);
	putchar('\n');
}

static void csv_row(const struct bw *bw, const struct bw_row *row)
{
	printf("%" PRIu64 ",%" PRIu64 ",%.6f,%.1f,%.6g,", row->size, row->messages,
	       (double)row->ns / 1e9, rate(row->messages, row->ns) * 1e9, bw_row_gbps(row));
	if (bw->plan.check)
		printf("%" PRIu64, row->wrong);
	for (uint32_t r = 0; r < bw->plan.rails; r++)
		printf(",%.6g,%.2f", rate(row->rail[r].bytes, row->rail[r].ns),
		       share_percent(row, r));
	putchar('\n');
}

/* ---- JSON ---- */

static void json_head(const struct bw *bw)
{
	fputs("{\n  \"tool\": \"srd-bw\",\n  ", stdout);
	json_string(stdout, "op", bw_op_name(bw->plan.op));
	fputs(", ", stdout);
	json_string(stdout, "server", bw->wire.tcp.where);
	printf(",\n  \"bidirectional\": %s, \"check\": %s, \"direct_rings\": %s,\n"
	       "  \"queue_pairs_per_rail\": %u, \"window_requests\": %u,\n  \"rows\": [",
	       bw->plan.bidirectional ? "true" : "false", bw->plan.check ? "true" : "false",
	       direct(bw) ? "true" : "false", bw->plan.qps, bw->plan.window);
}

static void json_row(const struct bw *bw, const struct bw_row *row, bool first)
{
	printf("%s\n    {\"size_bytes\": %" PRIu64 ", \"messages\": %" PRIu64
	       ", \"seconds\": %.6f,\n     \"messages_per_s\": %.1f, \"GB_per_s\": %.6g, ",
	       first ? "" : ",", row->size, row->messages, (double)row->ns / 1e9,
	       rate(row->messages, row->ns) * 1e9, bw_row_gbps(row));
	if (bw->plan.check)
		printf("\"wrong_bytes\": %" PRIu64 ",\n     \"rails\": [", row->wrong);
	else
		printf("\"wrong_bytes\": null,\n     \"rails\": [");
	for (uint32_t r = 0; r < bw->plan.rails; r++) {
		fputs(r ? ", {" : "{", stdout);
		json_string(stdout, "device", bw->names[r]);
		printf(", \"GB_per_s\": %.6g, \"share_percent\": %.2f}",
		       rate(row->rail[r].bytes, row->rail[r].ns), share_percent(row, r));
	}
	fputs("]}", stdout);
}

/* ---- any of them ---- */

void bw_report_head(const struct bw *bw)
{
	if (bw->opt->json)
		json_head(bw);
	else if (bw->opt->csv)
		csv_head(bw);
	else
		table_head(bw);
	fflush(stdout);
}

void bw_report_row(const struct bw *bw, const struct bw_row *row)
{
	if (bw->opt->json)
		json_row(bw, row, row == bw->rows);
	else if (bw->opt->csv)
		csv_row(bw, row);
	else
		table_row(bw, row);
	fflush(stdout);
}

int bw_report_end(const struct bw *bw, int code)
{
	if (bw->opt->json)
		printf("%s],\n  \"exit\": %d\n}\n", bw->nrows ? "\n  " : "", code);
	if (!fflush(stdout) && !ferror(stdout))
		return 0;
	say("stdout: it took not all");
	return -EIO;
}
