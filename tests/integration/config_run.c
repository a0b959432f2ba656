/* SPDX-License-Identifier: BSD-3-Clause */
/* The scripts of nccl-tests-config/ on trees of EC2 instances, with programs that only look like
 * the real ones. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/cmd.h"
#include "../lib/need.h"
#include "../lib/tree.h"

static struct cmd cmd;
static struct tree tree;

/* In shell: $R is a root for --root, $C the folder of the configuration. */
static void run(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static void run(const char *fmt, ...)
{
	char line[2048];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	cmd_run(&cmd, 60,
		"export R=%s C=%s; export PATH=$R/bin:/usr/bin:/bin; unset LD_LIBRARY_PATH; "
		"run() { bash $C/run.sh --root $R --plugin $B/libnccl-net-efa.so \"$@\"; }; %s",
		tree.root, CONFIG, line);
}

#define says(text) cr_assert(cmd_says(&cmd, text), "no \"%s\" in:\n%s", text, cmd.out)
#define ends(rc)   cr_assert(eq(int, cmd.code, rc), "%s", cmd.out)

/* tests/fixtures/@fixture is seen as @product; all that run.sh looks for is there, and no right to
 * lock memory. */
static void machine(const char *fixture, const char *product)
{
	tree_make(&tree, fixture);
	tree_write(&tree, "devices/virtual/dmi/id/product_name", product);
	tree_write(&tree, "dev/infiniband/uverbs0", "");
	tree_write(&tree, "proc/self/status", "CapEff:\t0000000000004000");
	run("cd $R && ln -s . sys && mkdir bin\n"
	    "printf '#!/bin/sh\\necho mpirun \"$@\"\\nexit ${MPIRUN_CODE:-0}\\n' >bin/mpirun\n"
	    "printf '#!/bin/sh\\n' >bin/all_reduce_perf\n"
	    "chmod +x bin/*");
	ends(0);
}

static void take_down(void)
{
	if (tree.root[0])
		tree_fini(&tree);
}

TestSuite(config_run, .fini = take_down);

/* ---- each type ---- */

struct type {
	char name[24], fixture[12], env[12];
};

ParameterizedTestParameters(config_run, type_is_found_and_its_environment_is_in_the_line)
{
	static struct type types[] = {
		{"p4d.24xlarge", "p4d", "p4d"},
		{"p4de.24xlarge", "p4d", "p4de"},
		{"p5.48xlarge", "p5", "p5"},
		{"p5e.48xlarge", "p5", "p5e"},
		{"p5en.48xlarge", "p5en", "p5en"},
		{"p6-b200.48xlarge", "p6-b200", "p6-b200"},
		{"p6-b300.48xlarge", "p6-b300", "p6-b300"},
		{"g5.48xlarge", "g5", "g5"},
		{"g6e.48xlarge", "g6e", "g6e"},
	};

	return cr_make_param_array(struct type, types, sizeof(types) / sizeof(types[0]));
}

/* Each setting of @name; there is at least one in env/common.env. */
static int settings_in_line(const char *name, char *line)
{
	char path[256], text[256], want[300];
	FILE *f;
	int n = 0;

	snprintf(path, sizeof(path), CONFIG "/env/%s.env", name);
	f = fopen(path, "r");
	need(f, "%s", path);
	while (fgets(text, sizeof(text), f)) {
		if (text[0] == '#' || text[0] == '\n')
			continue;
		text[strcspn(text, "\n")] = '\0';
		snprintf(want, sizeof(want), " -x %s ", text);
		cr_assert(ne(ptr, strstr(line, want), NULL), "no \"%s\" in:\n%s", want, line);
		n++;
	}
	fclose(f);
	return n;
}

ParameterizedTest(struct type *type, config_run, type_is_found_and_its_environment_is_in_the_line)
{
	machine(type->fixture, type->name);
	/* Quotes of the shell away: its own reader undoes them. */
	run("line=$(run --dry-run) || exit; eval \"set -- $line\"; echo \"$@\"");
	ends(0);
	cr_assert(eq(int, strncmp(cmd.out, "mpirun -np 8 -N 8 ", 18), 0), "%s", cmd.out);
	cr_assert(gt(int, settings_in_line("common", cmd.out), 3));
	settings_in_line(type->env, cmd.out);
	says(" all_reduce_perf -b 8 -e 8G ");
	/* The table of instances has the EFAs and GPUs of the fixture. */
	cr_assert(not(cmd_says(&cmd, "visible")), "%s", cmd.out);
	run("set -- $(grep '^%s ' $C/instances); echo gpus=$2 efas=$3; ls "
	    "$R/bus/pci/devices/*/infiniband | "
	    "grep -c rdmap; grep -l 0x10de $R/bus/pci/devices/*/vendor | wc -l; run --dry-run -- x",
	    type->name);
	ends(2);
	says("refused: x is not found");
}

Test(config_run, fewer_efas_than_the_type_has_are_told)
{
	machine("p5", "p5.48xlarge");
	run("rm $R/bus/pci/devices/0000:4f:00.0; run --dry-run");
	ends(0);
	says("31 of the 32 EFAs of a p5.48xlarge are visible");
}

Test(config_run, size_with_an_environment_of_its_own_takes_that)
{
	machine("p5", "p5.4xlarge");
	run("run --dry-run");
	ends(0);
	cr_assert(not(cmd_says(&cmd, "NCCL_BUFFSIZE")), "%s", cmd.out);
}

/* ---- the line ---- */

Test(config_run, hosts_multiply_ranks)
{
	machine("p4d", "p4d.24xlarge");
	run("run --hosts a,b,c --dry-run");
	ends(0);
	says("mpirun -np 24 -N 8 --bind-to none --host a:8\\,b:8\\,c:8 ");
	run("run --hostfile $C/hostfile.example --ranks 4 --dry-run");
	ends(0);
	says("mpirun -np 8 -N 4 --bind-to none --hostfile ");
}

Test(config_run, callers_environment_wins_over_files_and_options_over_both)
{
	machine("p5", "p5.48xlarge");
	run("export NCCL_BUFFSIZE=1 NCCL_DEBUG=WARN NCCL_EFA_RAILS=2; run --env NCCL_DEBUG=TRACE "
	    "--env A='b c' --print-env");
	ends(0);
	says("NCCL_BUFFSIZE=1\n");
	says("NCCL_EFA_RAILS=2\n");
	says("NCCL_DEBUG=TRACE\n");
	says("A=b c\n");
	says("NCCL_P2P_NET_CHUNKSIZE=524288\n");
	cr_assert(not(cmd_says(&cmd, "NCCL_DEBUG=WARN")), "%s", cmd.out);
	cr_assert(not(cmd_says(&cmd, "NCCL_BUFFSIZE=8388608")), "%s", cmd.out);
}

Test(config_run, plugin_is_found_by_the_ranks)
{
	machine("p5", "p5.48xlarge");
	run("export LD_LIBRARY_PATH=/here:/there; run --print-env | grep -x "
	    "LD_LIBRARY_PATH=$B:/here:/there");
	ends(0);
}

Test(config_run, mpirun_is_started_and_its_code_is_ours)
{
	machine("p5en", "p5en.48xlarge");
	run("MPIRUN_CODE=7 run -- all_reduce_perf -b 1G -e 1G");
	ends(7);
	says("mpirun -np 8 ");
	says(" all_reduce_perf -b 1G -e 1G\n");
}

Test(config_run, host_that_takes_no_part_is_not_checked)
{
	machine("p5", "nothing");
	run("rm -r $R/bus $R/dev; run --elsewhere --type p5.48xlarge --hosts a,b --dry-run");
	ends(0);
	says("mpirun -np 16 -N 8 ");
}

/* ---- refusals ---- */

struct wrong {
	char how[200];
	char said[80];
};

ParameterizedTestParameters(config_run, what_cannot_work_is_refused_with_its_reason)
{
	static struct wrong wrong[] = {
		{"echo m5.large >$R/devices/virtual/dmi/id/product_name; run",
		 "instance type m5.large is not known here: give --type, one of: p4d.24xlarge "},
		{"rm $R/devices/virtual/dmi/id/product_name; run", "the firmware does not say"},
		{"run --type p5x48xlarge", "instance type p5x48xlarge is not known"},
		{"rm $R/bus/pci/devices/*:1b.0; run", "there is no EFA on the PCI bus"},
		{"rm -r $R/bus/pci/devices/*:1b.0/infiniband; run",
		 "4 EFAs are on the PCI bus, but have no RDMA device"},
		{"rm $R/dev/infiniband/uverbs0; run", "there are no /dev/infiniband/uverbs*"},
		{"rm $R/bus/pci/devices/*:1[cd].0; run", "there is no NVIDIA GPU"},
		{"run --ranks 9", "--ranks 9: this host has 8 GPUs"},
		{"echo CapEff: 00000000a80405fb >$R/proc/self/status; ulimit -l 64; run",
		 "locked memory is limited to 64 KiB"},
		{"run --plugin $R/libnccl-net-efa.so", "libnccl-net-efa.so: cannot be read"},
		{"cp $B/libnccl-net-efa.so $R/libx.so; run --plugin $R/libx.so",
		 "must be named libnccl-net-efa.so"},
		{"cp $B/libsrd.so $R/libnccl-net-efa.so; run --plugin $R/libnccl-net-efa.so",
		 "has no table for NCCL"},
		{"rm $R/bin/all_reduce_perf; run", "all_reduce_perf is not found"},
		{"run --tests $R/elsewhere", "elsewhere/all_reduce_perf is not found"},
		{"printf '#!/bin/sh\\necho \" libnccl.so.2 => not found\"' >$R/bin/ldd; chmod +x "
		 "$R/bin/ldd; run",
		 "NCCL is not found: all_reduce_perf needs libnccl.so.2"},
		{"printf '#!/bin/sh\\necho \" libmpi.so.40 => not found\"' >$R/bin/ldd; chmod +x "
		 "$R/bin/ldd; run",
		 "all_reduce_perf needs libmpi.so.40, which is not found"},
		{"rm $R/bin/mpirun; mkdir $R/b; for f in bash dirname grep sed awk ldd cat tr; do "
		 "ln -s $(which $f) $R/b; done; PATH=$R/b:$R/bin; run",
		 "mpirun is not found"},
		{"run --hostfile /dev/null", "--hostfile /dev/null: names no host"},
	};

	return cr_make_param_array(struct wrong, wrong, sizeof(wrong) / sizeof(wrong[0]));
}

ParameterizedTest(struct wrong *w, config_run, what_cannot_work_is_refused_with_its_reason)
{
	machine("p4d", "p4d.24xlarge");
	run("%s", w->how);
	ends(2);
	says("run.sh: refused: ");
	says(w->said);
	/* mpirun would have said its name */
	cr_assert(not(cmd_says(&cmd, "mpirun -np")), "%s", cmd.out);
}

Test(config_run, all_that_is_wrong_is_told_at_once)
{
	machine("p4d", "p4d.24xlarge");
	run("rm $R/dev/infiniband/uverbs0; echo CapEff: 0 >$R/proc/self/status; ulimit -l 64; "
	    "run --dry-run");
	ends(2);
	says("there are no /dev/infiniband");
	says("locked memory is limited");
	says("mpirun -np 8 ");
}

Test(config_run, right_to_lock_memory_lifts_the_limit)
{
	machine("p4d", "p4d.24xlarge");
	run("ulimit -l 64; run --dry-run");
	ends(0);
}

ParameterizedTestParameters(config_run, bad_usage_is_an_error_that_names_the_value)
{
	static struct wrong wrong[] = {
		{"run --ranks 0", "--ranks 0: must be 1 to 999"},
		{"run --hosts a --hostfile /dev/null", "only one of them"},
		{"run --hostfile /nowhere", "--hostfile /nowhere: cannot be read"},
		{"run --env 1=2", "--env 1=2: must be KEY=VALUE"},
		{"run --elsewhere", "--elsewhere: needs --type"},
		{"run --wrong", "--wrong: no such option"},
		{"run --type", "--type: a value must follow"},
	};

	return cr_make_param_array(struct wrong, wrong, sizeof(wrong) / sizeof(wrong[0]));
}

ParameterizedTest(struct wrong *w, config_run, bad_usage_is_an_error_that_names_the_value)
{
	machine("p4d", "p4d.24xlarge");
	run("%s", w->how);
	ends(3);
	says(w->said);
}

/* ---- the files ---- */

/* Each setting is one of NCCL, with the reason above it; nothing that the plugin decides by itself
 * is among them. */
Test(config_run, settings_have_reasons)
{
	tree_make(&tree, "g5");
	run("cd $C/env && awk '"
	    "/^#/ || /^$/ { was = $0; next }\n"
	    "!/^NCCL_[A-Z0-9_]+=[^ \\t]+$/ || /^NCCL_(PROTO|TOPO_FILE|NETDEVS_POLICY)=/ || "
	    "was !~ /^# (needed|inherited|measured): ./ { print FILENAME \": \" $0; bad = 1 }\n"
	    "{ n++; was = \"\" } END { exit bad || n < 20 }' *.env");
	ends(0);
}

Test(config_run, every_instance_has_an_environment)
{
	tree_make(&tree, "g5");
	run("grep '^[a-z]' $C/instances | while read -r type gpus efas gbps; do\n"
	    "[ -e $C/env/$type.env ] || [ -e $C/env/${type%%%%.*}.env ] || { echo $type; exit 1; "
	    "}\n"
	    "[ $((gpus * efas * gbps)) -gt 0 ] || { echo $type; exit 1; }; done");
	ends(0);
}

/* The launcher of Kubernetes passes options that run.sh takes, for a type that it knows. */
Test(config_run, kubernetes_template_is_yaml_and_its_line_works)
{
	machine("p5", "p5.48xlarge");
	run("python3 -c 'import yaml' 2>/dev/null || exit 77; python3 - >$R/args <<'E'\n"
	    "import os, shlex, yaml\n"
	    "j = yaml.safe_load(open(os.environ['C'] + '/k8s/mpijob.yaml'))\n"
	    "r = j['spec']['mpiReplicaSpecs']\n"
	    "w = r['Worker']['template']['spec']['containers'][0]['resources']['limits']\n"
	    "assert w == {'nvidia.com/gpu': 8, 'vpc.amazonaws.com/efa': 32}, w\n"
	    "print(shlex.join(r['Launcher']['template']['spec']['containers'][0]['args']).replace('"
	    "/etc/mpi', os.environ['R']))\n"
	    "E\n"
	    "printf 'w0 slots=8\\nw1 slots=8\\n' >$R/hostfile; eval \"set -- $(cat $R/args)\"; "
	    "bash $C/run.sh --dry-run \"$@\"");
	if (cmd.code == 77)
		cr_skip_test("no python3-yaml");
	ends(0);
	says("mpirun -np 16 -N 8 ");
	says("LD_LIBRARY_PATH=/opt/nccl-net-efa/build:");
}

/* ---- sweep.sh, inventory.sh ---- */

static const char rows[] =
	"# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\\n"
	"8 2 float sum -1 20 0.1 0.2 %s 20 0.1 0.2 0\\n"
	"# Out of bounds values : %s OK\\n";

static void sweep(const char *wrong, const char *total)
{
	char text[400];

	machine("p5", "p5.48xlarge");
	snprintf(text, sizeof(text), rows, wrong, total);
	run("printf '#!/bin/sh\\nprintf \"%s\"\\n' >$R/bin/mpirun\n"
	    "TESTS=all_reduce_perf SIZES='-b 8 -e 8' bash $C/sweep.sh $R/out --root $R --plugin "
	    "$B/libnccl-net-efa.so",
	    text);
}

Test(config_run, sweep_judges_every_run)
{
	sweep("0", "0");
	ends(0);
	says("PASS  all_reduce_perf-R0.txt: right");
	says("PASS  all_reduce_perf-R1-simple.txt: right");
	says("sweep: 4 runs, 0 not right");
}

Test(config_run, sweep_with_wrong_data_fails)
{
	sweep("3", "3");
	ends(1);
	says("FAIL  all_reduce_perf-R0 (0)");
	says("size 8, out of place: 3 wrong elements");
	says("sweep: 4 runs, 4 not right");
}

Test(config_run, sweep_says_why_it_is_refused)
{
	machine("p5", "p5.48xlarge");
	run("rm $R/dev/infiniband/*; bash $C/sweep.sh $R/out --root $R");
	ends(2);
	says("refused: there are no /dev/infiniband/uverbs*");
}

Test(config_run, inventory_has_every_efa_and_gpu_those_of_a_switch_together)
{
	machine("p5", "p5.48xlarge");
	run("bash $C/inventory.sh --root $R >$R/text || exit; cat $R/text; "
	    "runs=$(awk '/^(EFA|GPU)/ { print $NF }' $R/text | cut -d/ -f1-3 | uniq | wc -l); "
	    "echo $(grep -c ^EFA $R/text) EFAs, $(grep -c ^GPU $R/text) GPUs, $runs switches");
	ends(0);
	says("machine        p5.48xlarge");
	says("EFA   rdmap79s0      0000:4f:00.0  0xefa1        0  16.0 GT/s x8 ");
	says("32 EFAs, 8 GPUs, 8 switches");
}
