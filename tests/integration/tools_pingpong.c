/* SPDX-License-Identifier: BSD-3-Clause */
/* srd-pingpong between two processes on software devices. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

#include "../lib/pair.h"

static struct cmd cmd;

static void run(struct pair p)
{
	p.tool = "srd-pingpong";
	pair_run(&cmd, &p);
}

struct run {
	char softefa[40], client[40];
	int bytes, rounds;
};

ParameterizedTestParameters(pingpong, runs)
{
	static struct run runs[] = {
		{"", "", 64, 1000},
		{"", "-s 1 -n 1", 1, 1},
		{"", "-s 7 -n 300", 7, 300},
		{"", "-s 4097 -n 200 -d efa_1", 4097, 200},
		{"", "--size 8928 --iters 100", 8928, 100}, /* the MTU */
		{"--profile efa0", "-n 100", 64, 100},
		{"--profile efa4", "-n 100", 64, 100},
		{"--set reorder=0", "-n 100", 64, 100},
	};

	return cr_make_param_array(struct run, runs, sizeof(runs) / sizeof(runs[0]));
}

/* The server has options of its own, which mean nothing. */
ParameterizedTest(struct run *r, pingpong, runs)
{
	int bytes, rounds;
	double min, median, p99;
	const char *row;

	run((struct pair){.softefa = r->softefa, .server = "-s 9 -n 2", .client = r->client});
	pair_expect(&cmd, 0, 0);
	row = strstr(cmd.out, "p99\n");
	cr_assert(row, "%s", cmd.out);
	cr_assert(sscanf(row + 4, "%d %d %lf %lf %lf", &bytes, &rounds, &min, &median, &p99) == 5,
		  "%s", cmd.out);
	cr_assert(bytes == r->bytes && rounds == r->rounds, "%s", cmd.out);
	cr_assert(0 < min && min <= median && median <= p99, "%s", cmd.out);
}

struct refusal {
	char args[40];
	int code;
	char text[80];
};

ParameterizedTestParameters(pingpong, refusals)
{
	static struct refusal refusals[] = {
		{"-s 8929 localhost", 1, "8929 bytes, 1000 rounds: must be 1 to 8928"},
		{"-d efa_77 localhost", 1, "srd-pingpong: efa_77: No such device"},
		{"no.such.host.invalid", 1, "srd-pingpong: no.such.host.invalid: "},
		{"-s 0 localhost", 2, "--size 0: must be 1 to 65535"},
		{"-n 1000001 localhost", 2, "--iters 1000001: must be 1 to 1000000"},
		{"-p 65536 localhost", 2, "--port 65536: must be 1 to 65535"},
		{"-p http localhost", 2, "--port http: not a number"},
		{"-n", 2, "-n: unknown option or value missing"},
		{"-z localhost", 2, "-z: unknown option or value missing"},
		{"localhost again", 2, "again: what is that?"},
	};

	return cr_make_param_array(struct refusal, refusals,
				   sizeof(refusals) / sizeof(refusals[0]));
}

ParameterizedTest(struct refusal *r, pingpong, refusals)
{
	cmd_run(&cmd, PAIR_LIMIT_S, "$B/srd-pingpong %s", r->args);
	cr_assert(cmd.code == r->code, "code %d\n%s", cmd.code, cmd.out);
	pair_expect_says(&cmd, r->text);
}

Test(pingpong, without_a_device_it_says_so)
{
	cmd_run(&cmd, PAIR_LIMIT_S, "env -u LD_PRELOAD $B/srd-pingpong localhost");
	if (cmd_says(&cmd, "cannot connect"))
		cr_skip("this machine has an EFA");
	cr_assert(cmd.code == 1, "code %d\n%s", cmd.code, cmd.out);
	pair_expect_says(&cmd, "srd-pingpong: EFA: No such device");
}

/* Far more rounds than there is time for. */
#define ENDLESS "-n 1000000"

Test(pingpong, a_killed_client_ends_the_server)
{
	run((struct pair){.client = ENDLESS, .during = "sleep 1; kill -KILL $c"});
	pair_expect(&cmd, 128 + 9, 1);
	/* Of the connection, or of the message that was on its way. */
	cr_assert(cmd_says(&cmd, "closed the connection") || cmd_says(&cmd, "message failed"));
	cr_assert(cmd.seconds < 15, "%f s", cmd.seconds);
}

Test(pingpong, a_killed_server_ends_the_client)
{
	run((struct pair){.client = ENDLESS, .during = "sleep 1; kill -KILL $s"});
	pair_expect(&cmd, 1, 128 + 9);
	cr_assert(cmd.seconds < 15, "%f s", cmd.seconds);
}

Test(pingpong, a_device_that_fails_is_told_with_its_status)
{
	run((struct pair){.softefa = "--set 'fault=status 13 nth=100'", .client = ENDLESS});
	pair_expect(&cmd, 1, 1);
	pair_expect_says(&cmd, "message failed: status 13, ");
}

/* Somebody else writes into the memory of the client. */
Test(pingpong, wrong_bytes_are_found)
{
	run((struct pair){.client = ENDLESS " -s 5000", .during = PAIR_CHANGE("c")});
	pair_expect(&cmd, 1, 1);
	pair_expect_says(&cmd, "1 of 5000 bytes are wrong, the first at 1000");
}

struct stranger {
	char python[200], text[64];
};

ParameterizedTestParameters(pingpong, strangers)
{
	static struct stranger strangers[] = {
		{"s.sendall(bytes(100))", ": Protocol error"},
		{"s.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n' + bytes(40))", ": Protocol error"},
		{"s.sendall(b'srdping1' + bytes(32))", ": Protocol error"}, /* no GID */
		{"s.sendall(b'srdping1' + bytes([9] * 16) + struct.pack('>4I', 65536, 1, 64, 1))",
		 ": Protocol error"}, /* no QPN */
		{"s.sendall(b'srdping1' + bytes([9] * 16) + struct.pack('>4I', 1, 1, 0, 1))",
		 "0 bytes, 1 rounds: must be 1 to"},
		{"s.sendall(b'srdping1' + bytes([9] * 16) + struct.pack('>4I', 1, 1, 9, 2**32-1))",
		 "9 bytes, 4294967295 rounds: must be 1 to"},
		{"s.sendall(b'srdping1'); s.shutdown(socket.SHUT_WR)", "closed the connection"},
	};

	return cr_make_param_array(struct stranger, strangers,
				   sizeof(strangers) / sizeof(strangers[0]));
}

ParameterizedTest(struct stranger *x, pingpong, strangers)
{
	pair_run_stranger(&cmd, "srd-pingpong", x->python);
	pair_expect_says(&cmd, "server 1.\n");
	pair_expect_says(&cmd, x->text);
}

Test(pingpong, a_port_in_use_is_named)
{
	cmd_run(&cmd, PAIR_LIMIT_S,
		"python3 -c \"\n"
		"import os, socket, subprocess, sys\n"
		"s = socket.socket()\n"
		"s.bind(('', 0))\n"
		"s.listen()\n"
		"at = [os.environ['B'] + '/srd-pingpong', '-p', str(s.getsockname()[1])]\n"
		"sys.exit(subprocess.call(at))\"");
	cr_assert(cmd.code == 1, "code %d\n%s", cmd.code, cmd.out);
	pair_expect_says(&cmd, "cannot listen at port ");
	pair_expect_says(&cmd, "Address already in use");
}
