/* SPDX-License-Identifier: BSD-3-Clause */
/* A tool on two hosts. */
#include "pair.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "program.h"

static const char *text(const char *s)
{
	return s ? s : "";
}

void pair_run(struct cmd *cmd, const struct pair *p)
{
	cmd_run(cmd, PAIR_LIMIT_S,
		"t=$(mktemp -d); port=%d; soft=\"$B/softefa --domain pair-%d %s\"\n%s\n"
		"(eval exec \"$soft %s\" -- $B/%s -p $port %s >$t/server 2>&1) & s=$!\n"
		"(eval exec \"$soft\" -- $B/%s %s -p $port 127.0.0.1 >$t/out 2>$t/err) & c=$!\n%s\n"
		"wait $c; cc=$?; wait $s; ss=$?\n"
		"cat $t/server $t/err $t/out; %s\n"
		"echo \"client $cc.\"; echo \"server $ss.\"; rm -r $t",
		program_port(), (int)getpid(), text(p->softefa), text(p->before),
		text(p->server_softefa), p->tool, text(p->server), p->tool, text(p->client),
		text(p->during), p->after ? p->after : ":");
	cr_assert(cmd->code == 0, "code %d\n%s", cmd->code, cmd->out);
}

void pair_expect(const struct cmd *cmd, int client, int server)
{
	char want[64];

	snprintf(want, sizeof(want), "client %d.\nserver %d.\n", client, server);
	cr_assert(cmd_says(cmd, want), "not \"%s\":\n%s", want, cmd->out);
}

void pair_expect_says(const struct cmd *cmd, const char *said)
{
	cr_assert(cmd_says(cmd, said), "no \"%s\" in\n%s", said, cmd->out);
}

void pair_run_stranger(struct cmd *cmd, const char *tool, const char *python)
{
	int port = program_port();

	cmd_run(cmd, PAIR_LIMIT_S,
		"(exec $B/softefa --domain pair-%d -- $B/%s -p %d) & s=$!\n"
		"python3 -c \"\n"
		"import socket, struct, time\n"
		"for i in range(200):\n"
		"    try:\n"
		"        s = socket.create_connection(('127.0.0.1', %d), 20)\n"
		"        break\n"
		"    except OSError:\n"
		"        time.sleep(0.05)\n"
		"def get(n):\n"
		"    b = s.recv(n, socket.MSG_WAITALL)\n"
		"    assert len(b) == n, b\n"
		"    return b\n"
		"%s\n"
		"while s.recv(65536): pass\n\" >&2 || echo stranger failed\n"
		"wait $s; echo \"server $?.\"",
		(int)getpid(), tool, port, port, python);
	cr_assert(cmd->code == 0, "code %d\n%s", cmd->code, cmd->out);
}
