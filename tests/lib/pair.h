/* SPDX-License-Identifier: BSD-3-Clause */
/* A tool on two hosts, as a server and its client, each on software devices of one fabric. */
#ifndef TESTS_PAIR_H
#define TESTS_PAIR_H

#include "cmd.h"

/* Strings of shell; NULL: nothing. "$t" is a folder that lasts as long as the run. */
struct pair {
	const char *tool;
	const char *softefa, *server_softefa; /* options of softefa: of both, of the server */
	const char *server, *client;          /* options of the tool */
	const char *before;
	const char *during; /* both run: $s and $c are their processes, $port is the server's */
	const char *after;  /* $t/out is what the client said on stdout */
};

/*
 * For during: write a byte into messages in the memory of "s" or "c", at offset 1000 of each page
 * that is another one all over from one moment to the next; until the process ends.
 */
#define PAIR_CHANGE(process) \
	"python3 -c \"\n" \
	"import sys, time\n" \
	"time.sleep(0.5)\n" \
	"areas = [l.split() for l in open('/proc/%s/maps' % sys.argv[1])]\n" \
	"areas = [a[0].split('-') for a in areas if a[1] == 'rw-p' and a[4] == '0']\n" \
	"areas = [(int(a, 16), int(b, 16)) for a, b in areas]\n" \
	"mem = open('/proc/%s/mem' % sys.argv[1], 'r+b', 0)\n" \
	"def look():\n" \
	"    pages = {}\n" \
	"    for lo, hi in areas:\n" \
	"        if hi - lo > 16 << 20: continue\n" \
	"        mem.seek(lo)\n" \
	"        for at in range(lo, hi, 4096): pages[at] = mem.read(4096)\n" \
	"        if not pages[lo]: sys.exit(1)\n" \
	"    return pages\n" \
	"old = look()\n" \
	"while True:\n" \
	"    new = look()\n" \
	"    hot = [at for at in old if old[at] != new[at]]\n" \
	"    hot = [at for at in hot if sum(map(int.__ne__, old[at], new[at])) > 3000]\n" \
	"    for i in range(20000):\n" \
	"        for at in hot:\n" \
	"            mem.seek(at + 1000)\n" \
	"            mem.write(bytes([i & 255]))\n" \
	"    old = new\n" \
	"\" $" process " || echo changer ended\n"

enum { PAIR_LIMIT_S = 60 }; /* longer than the tools wait for anything but a client */

/* What both and the lines around them said is in @cmd; fails unless all ended in time. */
void pair_run(struct cmd *cmd, const struct pair *p);
/* How they ended: exit status, or 128 and the signal. */
void pair_expect(const struct cmd *cmd, int client, int server);
/* The text is in what was said. */
void pair_expect_says(const struct cmd *cmd, const char *text);

/* Start the server alone; @python speaks to it: "s" is a socket that is connected to it. */
void pair_run_stranger(struct cmd *cmd, const char *tool, const char *python);

#endif
