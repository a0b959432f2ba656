/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line, from one table. */
#include "options.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/options.h"
#include "common/parse.h"
#include "host/boot.h"
#include "host/log.h"
#include "host/net.h"

#define AT(field) offsetof(struct nb_options, field)
#define GIB       (UINT64_C(1) << 30)

static const struct option_row rows[] = {
	{"plugin", 0, OPTION_STRING, "PATH", AT(plugin), 0, 0, NULL,
	 "net plugin to drive, or NAME for libnccl-net-NAME.so (required)"},
	{"pattern", 0, OPTION_STRING, "NAME", AT(pattern), 0, 0, "ring",
	 "pingpong, stream, ring or alltoall; see below"},
	{"ranks", 0, OPTION_NUMBER, "R", AT(ranks), 2, HOST_MAX_RANKS, NULL,
	 "rank processes of the run (default 2); even for pingpong and stream"},
	{"min", 0, OPTION_SIZE, "BYTES", AT(min), 0, 64 * GIB, "8",
	 "first size; K, M and G are understood"},
	{"max", 0, OPTION_SIZE, "BYTES", AT(max), 0, 64 * GIB, "64M",
	 "last size; at most 1G for pingpong and stream"},
	{"factor", 0, OPTION_NUMBER, "F", AT(factor), 2, 1024, "2", "from one size to the next"},
	{"iters", 0, OPTION_NUMBER, "N", AT(iters), 1, 10000000, "20", "timed iterations per size"},
	{"warmup", 0, OPTION_NUMBER, "N", AT(warmup), 0, 10000000, "5",
	 "iterations before those, each verified byte for byte"},
	{"window", 0, OPTION_NUMBER, "W", AT(window), 1, NCCL_NET_OUTSTANDING, "8",
	 "messages outstanding per connection"},
	{"chunk", 0, OPTION_SIZE, "BYTES", AT(chunk), 64, GIB, NULL,
	 "largest message of ring (default 512K) and alltoall (128K)"},
	{"channels", 0, OPTION_NUMBER, "C", AT(channels), 1, 1024, "1",
	 "connections per ordered pair of ranks; 1 for pingpong"},
	{"abi", 0, OPTION_NUMBER, "N", AT(abi), HOST_ABI_OLDEST, HOST_ABI_NEWEST, NULL,
	 "net ABI version (default: the newest exported)"},
	{"dev", 0, OPTION_NUMBER, "D", AT(dev), 0, 127, NULL,
	 "device of all ranks (default: rank modulo number of devices)"},
	{"timeout", 0, OPTION_NUMBER, "S", AT(timeout), 1, 3600, "30",
	 "seconds without progress after which the run fails"},
	{"root", 0, OPTION_STRING, "IPv4:PORT", AT(where), 0, 0, NULL,
	 "start one rank only; rank 0 listens there for the others"},
	{"rank", 0, OPTION_NUMBER, "N", AT(rank), 0, HOST_MAX_RANKS - 1, NULL,
	 "which one (default: as mpirun or srun say)"},
	{"json", 0, OPTION_STRING, "FILE", AT(json), 0, 0, NULL, "write the figures there as well"},
	{"compare", 0, OPTION_STRING, "PATH2", AT(compare), 0, 0, NULL,
	 "this plugin and PATH2 by turns: times, and their ratios with their spread"},
	{"rounds", 0, OPTION_NUMBER, "N", AT(rounds), 1, 100, "5", "of --compare"},
	{"instructions", 0, OPTION_ON, NULL, AT(instructions), 0, 0, NULL,
	 "in place of a pattern: calls in lockstep, for callgrind; see netbench(1)"},
	{"plot", 0, OPTION_STRING, "FILE.png", AT(plot), 0, 0, NULL,
	 "draw bus bandwidth by size, with gnuplot or python3's matplotlib"},
	{"no-check", 0, OPTION_OFF, NULL, AT(check), 0, 0, NULL, "send garbage, verify nothing"},
	{"progress", 0, OPTION_ON, NULL, AT(progress), 0, 0, NULL,
	 "say on stderr how far it is, every second (default on a terminal)"},
	{"help", 0, OPTION_HELP, NULL, 0, 0, 0, NULL, "this text"},
};

static const char intro[] =
	"netbench - drive an NCCL net plugin as NCCL does, without NCCL or a GPU, and time it\n"
	"\n"
	"usage: netbench --plugin PATH [options]\n"
	"       netbench --plugin PATH --root IPv4:PORT --rank N --ranks R [options]\n"
	"\n";

static const char notes[] =
	"\n"
	"patterns (time is the slowest rank's; GB are 10^9 bytes)\n"
	"  pingpong  ranks 2i and 2i+1; time: half a round trip; busbw = algbw = size / time\n"
	"  stream    rank 2i sends to 2i+1; time: per message; busbw = algbw = size / time\n"
	"  ring      all-reduce of floats; algbw = size / time, busbw = algbw * 2(R-1)/R\n"
	"  alltoall  each rank sends size / R to each other; algbw = size / time,\n"
	"            busbw = algbw * (R-1)/R; a rank's part for itself is not copied\n"
	"  Sizes are rounded down to whole elements: 4 bytes for ring, R for alltoall.\n"
	"  Size 0 is followed by 8. stream shortens its window where messages of one connection\n"
	"  would take more than 512 MiB.\n"
	"\n"
	"verification\n"
	"  Warm-up iterations: every byte of every message; the target is poisoned before each\n"
	"  receive. Timed iterations: the size reported and the first and last 8 bytes of each\n"
	"  message (ring: first and last element of each slice), which change with every\n"
	"  iteration. After the last timed iteration: every byte it left behind.\n"
	"  #wrong counts elements of all ranks; a wrong reported size counts as one.\n"
	"\n"
	"several hosts\n"
	"  With --root each rank is started by itself, in any order, within --timeout of the\n"
	"  first; --root, --ranks, and what is measured must be the same for all. Without --rank,\n"
	"  the rank and --ranks are those of OMPI_COMM_WORLD_RANK and _SIZE, PMI_RANK and _SIZE,\n"
	"  or SLURM_PROCID and SLURM_NTASKS. Rank 0 prints and writes the figures; the run ends\n"
	"  everywhere with one exit code. Only netbench's own messages go through the root.\n"
	"\n"
	"exit code\n"
	"  0  all data right\n"
	"  1  wrong data\n"
	"  2  the plugin failed: it could not be loaded, a call returned an error or broke a\n"
	"     rule, no progress within --timeout, a rank died\n"
	"  3  bad usage, or netbench itself could not do its work: a rank did not come\n"
	"  128+N  interrupted by signal N\n";

/* An address that others can connect to. */
static int endpoint_parse(const char *text, struct sockaddr_in *addr)
{
	const char *colon = strchr(text, ':');
	char ip[INET_ADDRSTRLEN];
	uint64_t port;

	if (!colon || (size_t)(colon - text) >= sizeof(ip) || parse_number(colon + 1, &port) ||
	    port < 1 || port > UINT16_MAX)
		return -EINVAL;
	memcpy(ip, text, (size_t)(colon - text));
	ip[colon - text] = 0;
	*addr = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	if (inet_pton(AF_INET, ip, &addr->sin_addr) != 1 || addr->sin_addr.s_addr == INADDR_ANY)
		return -EINVAL;
	return 0;
}

static int root_parse(struct nb_options *opt)
{
	int rc = opt->where ? endpoint_parse(opt->where, &opt->root) : 0;

	if (rc)
		host_err("--root %s: must be IPv4:PORT, an address of rank 0's host and a port of "
			 "1 to 65535",
			 opt->where);
	return rc;
}

/* ---- ranks ---- */

/* How launchers tell a process which one it is. */
static const struct {
	const char *rank, *ranks;
} launchers[] = {
	{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
	{"PMI_RANK", "PMI_SIZE"},
	{"SLURM_PROCID", "SLURM_NTASKS"},
};

static int env_number(const char *name, uint64_t min, uint64_t max, uint64_t *value)
{
	const char *text = getenv(name);

	if (text && !parse_number(text, value) && *value >= min && *value <= max)
		return 0;
	host_err("%s=%s: must be %" PRIu64 " to %" PRIu64, name, text ? text : "", min, max);
	return -EINVAL;
}

/* Rank and ranks from the first launcher that is there. */
static int launcher_ask(struct nb_options *opt)
{
	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
		uint64_t ranks;

		if (!getenv(launchers[i].rank))
			continue;
		if (env_number(launchers[i].ranks, 2, HOST_MAX_RANKS, &ranks) ||
		    env_number(launchers[i].rank, 0, HOST_MAX_RANKS - 1, &opt->rank))
			return -EINVAL;
		if (opt->ranks && opt->ranks != ranks) {
			host_err("--ranks %" PRIu64 ": %s says %" PRIu64, opt->ranks,
				 launchers[i].ranks, ranks);
			return -EINVAL;
		}
		opt->ranks = ranks;
		return 0;
	}
	host_err("--root: which rank is this? Give --rank N, or start it with mpirun or srun");
	return -EINVAL;
}

static int ranks_settle(struct nb_options *opt)
{
	bool known = opt->rank != NB_RANK_UNKNOWN;

	if (known && !opt->root.sin_port) {
		host_err("--rank %" PRIu64 ": needs --root IPv4:PORT", opt->rank);
		return -EINVAL;
	}
	if (opt->root.sin_port && !known && launcher_ask(opt))
		return -EINVAL;
	if (!opt->ranks)
		opt->ranks = 2;
	if (opt->root.sin_port && opt->rank >= opt->ranks) {
		host_err("--rank %" PRIu64 ": must be below %" PRIu64 ", the number of ranks",
			 opt->rank, opt->ranks);
		return -EINVAL;
	}
	return 0;
}

void nb_options_terms(const struct nb_options *opt, char *text, size_t size)
{
	snprintf(text, size,
		 "--pattern %s --min %" PRIu64 " --max %" PRIu64 " --factor %" PRIu64
		 " --iters %" PRIu64 " --warmup %" PRIu64 " --window %" PRIu64 " --chunk %" PRIu64
		 " --channels %" PRIu64 " --check %s",
		 opt->instructions ? "calls" : opt->pattern, opt->min, opt->max, opt->factor,
		 opt->iters, opt->warmup, opt->window, opt->chunk, opt->channels,
		 opt->check ? "on" : "off");
}

/* ---- the whole ---- */

/* Rules that concern more than one option. */
static int options_check(const struct nb_options *opt)
{
	if (!opt->plugin) {
		host_err("--plugin PATH is required; --help lists the options");
		return -EINVAL;
	}
	if (opt->compare && opt->instructions) {
		host_err("--compare %s: not with --instructions, which is for callgrind",
			 opt->compare);
		return -EINVAL;
	}
	if (opt->compare && opt->plot) {
		host_err("--plot %s: not with --compare", opt->plot);
		return -EINVAL;
	}
	if (opt->min > opt->max) {
		host_err("--min %" PRIu64 ": must not be above --max %" PRIu64, opt->min, opt->max);
		return -EINVAL;
	}
	return 0;
}

int nb_options_parse(struct nb_options *opt, int argc, char **argv)
{
	static const struct options options = {
		.rows = rows,
		.count = sizeof(rows) / sizeof(rows[0]),
		.intro = intro,
		.notes = notes,
	};
	int rc;

	*opt = (struct nb_options){
		.check = true,
		.dev = NB_DEV_BY_RANK,
		.rank = NB_RANK_UNKNOWN,
		.progress = isatty(STDERR_FILENO),
	};
	rc = options_parse(&options, opt, argc, argv);
	if (!rc)
		rc = root_parse(opt);
	if (!rc)
		rc = options_check(opt);
	return rc ? rc : ranks_settle(opt);
}
