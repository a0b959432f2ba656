/* SPDX-License-Identifier: BSD-3-Clause */
/* srd-bw where something is wrong: options, devices, data, the other side. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>

#include "../lib/pair.h"

static struct cmd cmd;

static void run(struct pair p)
{
	p.tool = "srd-bw";
	pair_run(&cmd, &p);
}

/* ---- what is refused ---- */

struct refusal {
	char args[64];
	int code;
	char text[96];
};

ParameterizedTestParameters(bw_trouble, refusals)
{
	static struct refusal refusals[] = {
		{"--op push localhost", 2, "--op push: must be write, write-imm, read or send"},
		{"--size 0 localhost", 2, "--size 0: must be 1 to 16G, and no more than 64"},
		{"--size 17G localhost", 2, "--size 17G: must be 1 to 16G"},
		{"--size 8,,9 localhost", 2, "--size 8,,9: must be like 64K, 8,4K,1M or 8:1G"},
		{"--size 9:8 localhost", 2, "--size 9:8: must be like"},
		{"--size 8:99999999999G localhost", 2, "--size 8:99999999999G: must be"},
		{"--size 0:8 localhost", 2, "--size 0:8: must be 1 to 16G"},
		{"--size 1:16G,1:16G localhost", 2, "no more than 64 of them"},
		{"--size 8k9 localhost", 2, "--size 8k9: must be like"},
		{"--window 4097 localhost", 2, "--window 4097: must be 1 to 4096"},
		{"--qps 65 localhost", 2, "--qps 65: must be 1 to 64"},
		{"--qps -1 localhost", 2, "--qps -1: not a number"},
		{"--iters 5 --seconds 5 localhost", 2, "--iters and --seconds: only one of them"},
		{"--csv --json localhost", 2, "--csv and --json: only one of them"},
		{"localhost:0", 2, "localhost:0: must be HOST or HOST:PORT"},
		{"localhost:http", 2, "must be HOST or HOST:PORT"},
		{":7", 2, ":7: must be HOST or HOST:PORT"},
		{"localhost 7", 2, "7: what is that?"},
		{"--sizes 8 localhost", 2, "--sizes: unknown option or value missing"},
		{"--rails 5 localhost", 1, "--rails 5: must be 1 to 32; this host has 4 EFA"},
		{"--rails 0 localhost", 1, "--rails 0: must be 1 to 32"},
		{"--rails efa_0,,efa_1 localhost", 1, "--rails efa_0,,efa_1: must be a number, or"},
		{"--rails efa_0,efa_7 localhost", 1, "efa_7: open: No such device"},
		{"--op send --size 8929 localhost", 1,
		 "efa_0 sends at most 8928 bytes in a message, its MTU, not 8929"},
		{"no.such.host.invalid", 1, "no.such.host.invalid: "},
	};

	return cr_make_param_array(struct refusal, refusals,
				   sizeof(refusals) / sizeof(refusals[0]));
}

ParameterizedTest(struct refusal *r, bw_trouble, refusals)
{
	cmd_run(&cmd, PAIR_LIMIT_S, "$B/srd-bw %s", r->args);
	cr_assert(cmd.code == r->code, "code %d\n%s", cmd.code, cmd.out);
	pair_expect_says(&cmd, r->text);
}

Test(bw_trouble, without_a_plotter_nothing_is_measured)
{
	cmd_run(&cmd, PAIR_LIMIT_S, "PATH=/nonexistent $B/srd-bw --plot x.png localhost");
	cr_assert(cmd.code == 1, "code %d\n%s", cmd.code, cmd.out);
	pair_expect_says(&cmd, "needs gnuplot, or python3 with matplotlib: neither is installed");
}

struct lacking {
	char softefa[40], op[24], text[80];
};

ParameterizedTestParameters(bw_trouble, lacking)
{
	static struct lacking lacking[] = {
		{"--profile efa0", "write", "efa_0 has no RDMA write"},
		{"--profile efa0", "read", "efa_0 has no RDMA read: --op send is left"},
		{"--profile efa1", "write-imm", "efa_0 has no RDMA write"},
		{"--set max_sq_wr=32", "write", "efa_0: a window of 64 exceeds its queues of 32"},
		{"--set 'fault=refuse mr'", "write", "efa_0: register memory: "},
		{"--set max_qp=2", "write -q 3", "efa_0, queue pair "},
	};

	return cr_make_param_array(struct lacking, lacking, sizeof(lacking) / sizeof(lacking[0]));
}

/* Both sides say what the server's device cannot. */
ParameterizedTest(struct lacking *l, bw_trouble, lacking)
{
	char client[64], gave_up[128];

	snprintf(client, sizeof(client), "--op %s", l->op);
	run((struct pair){.server_softefa = l->softefa, .client = client});
	pair_expect(&cmd, 1, 1);
	snprintf(gave_up, sizeof(gave_up), " gave up: %s", l->text);
	pair_expect_says(&cmd, gave_up);
	cmd_run(&cmd, PAIR_LIMIT_S, "$B/softefa %s -- $B/srd-bw %s localhost", l->softefa, client);
	cr_assert(cmd.code == 1, "code %d\n%s", cmd.code, cmd.out);
	pair_expect_says(&cmd, l->text);
}

Test(bw_trouble, the_server_has_as_many_rails_as_the_client_or_refuses)
{
	run((struct pair){.server = "--rails 2", .client = "--rails 3"});
	pair_expect(&cmd, 1, 1);
	pair_expect_says(&cmd, " gave up: the client wants 3 rails, the server has --rails 2");
}

/* ---- what goes wrong on the way ---- */

struct death {
	char client[48], during[48];
	int client_code, server_code;
};

ParameterizedTestParameters(bw_trouble, deaths)
{
	static struct death deaths[] = {
		{"--op write", "kill -KILL $c", 128 + 9, 1},
		{"--op write", "kill -KILL $s", 1, 128 + 9},
		{"--op write-imm -b", "kill -KILL $c", 128 + 9, 1},
		{"--op write-imm -b", "kill -KILL $s", 1, 128 + 9},
		{"--op read -r 2", "kill -KILL $c", 128 + 9, 1},
		{"--op read -r 2", "kill -KILL $s", 1, 128 + 9},
		{"--op send", "kill -TERM $c", 128 + 15, 1},
		{"--op send", "kill -TERM $s", 1, 128 + 15},
		{"--op send -c -b", "kill -KILL $c", 128 + 9, 1},
		{"--op send -c -b", "kill -KILL $s", 1, 128 + 9},
	};

	return cr_make_param_array(struct death, deaths, sizeof(deaths) / sizeof(deaths[0]));
}

ParameterizedTest(struct death *d, bw_trouble, deaths)
{
	char client[80], during[200];

	/* Not before there is traffic: without a client, the server waits for one. */
	snprintf(client, sizeof(client), "%s -t 50 -s 8000", d->client);
	snprintf(during, sizeof(during),
		 "n=0; until $B/softefa stat ${soft#* } 2>&1 | grep -q requests || [ $n = 150 ]; do"
		 " n=$((n + 1)); sleep 0.1; done; %s",
		 d->during);
	run((struct pair){.client = client, .during = during});
	pair_expect(&cmd, d->client_code, d->server_code);
	cr_assert(cmd.seconds < 20, "%f s", cmd.seconds);
}

Test(bw_trouble, a_request_that_fails_ends_both_with_its_status)
{
	run((struct pair){.softefa = "--set 'fault=status 9 op=write nth=300'",
			  .client = "-s 64 -t 50"});
	pair_expect(&cmd, 1, 1);
	pair_expect_says(&cmd, "srd-bw: efa_0, queue pair 0: write of 64 bytes: status 9, ");
	pair_expect_says(&cmd, " gave up: efa_0, queue pair 0: write of 64 bytes: status 9, ");
}

/* Somebody else writes into the memory of the server. */
struct changed {
	char op[16];
};

ParameterizedTestParameters(bw_trouble, changed)
{
	static struct changed changed[] = {{"write"}, {"write-imm"}, {"read"}, {"send"}};

	return cr_make_param_array(struct changed, changed, 4);
}

ParameterizedTest(struct changed *c, bw_trouble, changed)
{
	char client[64];

	snprintf(client, sizeof(client), "--op %s -c -s 8000 -w 4 -t 45", c->op);
	run((struct pair){.client = client, .during = PAIR_CHANGE("s")});
	pair_expect(&cmd, 1, 1);
	pair_expect_says(&cmd, "srd-bw: wrong data: efa_0, queue pair 0, message ");
	pair_expect_says(&cmd, " found wrong data");
}

/* ---- strangers ---- */

/* A frame; of a hello; after which the server tells its card, which is good for us as well. */
#define STRANGER \
	"def put(t, b): s.sendall(b'sbw1' + struct.pack('>2I', t, len(b)) + b)\n" \
	"def hello(*w): put(1, struct.pack('>7I2Q', *w))\n" \
	"def meet():\n" \
	"    hello(1, 0, 1, 1, 4, 0, 1, 64, 512)\n" \
	"    head, card = get(12), get(36)\n" \
	"    put(2, card)\n"

struct stranger {
	char python[160], text[80];
};

ParameterizedTestParameters(bw_trouble, strangers)
{
	static struct stranger strangers[] = {
		{"s.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n')", "sent what is not understood"},
		{"s.sendall(bytes(100))", "sent what is not understood"},
		{"put(1, b'x')", "sent what is not understood"},
		{"put(10, b'')", "sent what is not understood"},
		{"put(8, b'x')", "sent what is not understood"},
		{"s.sendall(b'sbw1' + struct.pack('>2I', 1, 2**32 - 1))",
		 "sent what is not understood"},
		{"s.sendall(b'sbw1'); s.shutdown(socket.SHUT_WR)", "closed the connection"},
		{"hello(2, 0, 1, 1, 4, 0, 1, 64, 512)", "be: another version of srd-bw"},
		{"hello(1, 9, 1, 1, 4, 0, 1, 64, 512)", "be: no such operation"},
		{"hello(1, 0, 33, 1, 4, 0, 1, 64, 512)", "be: rails must be 1 to 32"},
		{"hello(1, 0, 1, 2**31, 4, 0, 1, 64, 512)", "be: queue pairs must be 1 to 64"},
		{"hello(1, 0, 1, 1, 0, 0, 1, 64, 512)", "be: window must be 1 to 4096"},
		{"hello(1, 0, 1, 1, 4, 0, 1, 2**63, 512)", "be: sizes must be 1 to 16G"},
		{"hello(1, 0, 1, 1, 4, 0, 1, 64, 63)", "be: memory must hold a message"},
		{"hello(1, 0, 1, 1, 4, 0, 1, 64, 2**64-1)", "be: memory must hold a message"},
		{"hello(1, 0, 1, 1, 4, 0, 1, 64, 512); put(2, bytes(36))", "what is no endpoint"},
		{"hello(1, 0, 1, 1, 4, 0, 1, 64, 512); put(2, bytes(72))",
		 "sent what is not understood"},
		{"meet(); s.shutdown(socket.SHUT_WR)", "closed the connection"},
		{"meet(); put(9, b'I\\x1b am bad')", "gave up: I? am bad"},
		{"meet(); put(5, b'')", "sent what is not understood"},
		{"meet(); put(3, struct.pack('>4Q', 65, 0, 1, 0))", "be: a size beyond the"},
		{"meet(); put(3, struct.pack('>4Q', 64, 0, 0, 0))", "be: neither or both of"},
		{"meet(); put(3, struct.pack('>4Q', 64, 0, 9, 0))", "be: more messages to check"},
		{"meet(); put(3, struct.pack('>4Q', 64, 0, 8, 0)); put(4, b''); put(5, b'')",
		 "sent what is not understood"},
		{"meet(); put(3, struct.pack('>4Q', 64, 0, 8, 0)); put(4, b'')\n"
		 "put(5, struct.pack('>3Q', 9, 9, 0))",
		 "sent what is not understood"},
	};

	return cr_make_param_array(struct stranger, strangers,
				   sizeof(strangers) / sizeof(strangers[0]));
}

ParameterizedTest(struct stranger *x, bw_trouble, strangers)
{
	char python[1200];

	snprintf(python, sizeof(python), STRANGER "%s", x->python);
	pair_run_stranger(&cmd, "srd-bw", python);
	pair_expect_says(&cmd, "server 1.\n");
	pair_expect_says(&cmd, x->text);
	cr_assert_not(cmd_says(&cmd, "stranger failed"), "%s", cmd.out);
}

Test(bw_trouble, a_server_that_is_none_is_refused)
{
	cmd_run(&cmd, PAIR_LIMIT_S,
		"python3 -c \"\n"
		"import os, socket, subprocess, sys\n"
		"s = socket.socket()\n"
		"s.bind(('', 0))\n"
		"s.listen()\n"
		"at = '127.0.0.1:%%d' %% s.getsockname()[1]\n"
		"c = subprocess.Popen([os.environ['B'] + '/srd-bw', at])\n"
		"t, _ = s.accept()\n"
		"t.sendall(b'220 mail ready, at your service')\n"
		"sys.exit(c.wait())\"");
	cr_assert(cmd.code == 1, "code %d\n%s", cmd.code, cmd.out);
	pair_expect_says(&cmd, "sent what is not understood: no srd-bw, or one of another");
}
