/* SPDX-License-Identifier: BSD-3-Clause */
/* softefa: run a command with a software EFA adapter. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "settings.h"
#include "sysfs.h"

#define LIBRARY "libsoftefa.so"

static void help(FILE *out)
{
	fputs("Usage: softefa [--devices N] [--domain NAME] [--address IPv4[:PORT]] [--set "
	      "KEY=VALUE]...\n"
	      "               [--] COMMAND...\n"
	      "\n"
	      "Run COMMAND on a machine with N software EFA devices (default 4). Commands of one "
	      "user\n"
	      "with the same --domain reach each other; each sees the same devices.\n"
	      "With --address, an IPv4 address of this host, also those of other hosts do that "
	      "have one.\n"
	      "\n"
	      "Settings:\n",
	      out);
	se_settings_print(out);
	fputs("\nExit status: that of COMMAND; 2: bad arguments; 125: softefa failed; 126, 127: "
	      "COMMAND\n"
	      "cannot be run, is not found.\n",
	      out);
}

static void fail(int status, const char *what)
{
	fprintf(stderr, "softefa: %s\n", what);
	exit(status);
}

/* The library lies beside this program, or in ../lib. */
static void find_library(char *path, size_t len)
{
	static const char *const places[] = {"", "../lib/"};
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n < 0)
		fail(125, "/proc is not mounted");
	self[n] = '\0';
	*strrchr(self, '/') = '\0';
	for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (snprintf(path, len, "%s/%s" LIBRARY, self, places[i]) < (int)len &&
		    access(path, R_OK) == 0)
			return;
	}
	fail(125, LIBRARY " is neither beside this program nor in ../lib");
}

static void append_env(const char *name, char sep, const char *value)
{
	const char *old = getenv(name);
	char *text = NULL;

	if (old && *old ? asprintf(&text, "%s%c%s", old, sep, value) < 0
			: asprintf(&text, "%s", value) < 0)
		fail(125, strerror(ENOMEM));
	setenv(name, text, 1);
	free(text);
}

/* Ours first: the preloaded library must stand before others that replace the same functions. */
static void preload(const char *library)
{
	const char *old = getenv("LD_PRELOAD");
	char *text = NULL;

	if (old && strstr(old, library))
		return;
	if (asprintf(&text, "%s%s%s", library, old && *old ? ":" : "", old ? old : "") < 0)
		fail(125, strerror(ENOMEM));
	setenv("LD_PRELOAD", text, 1);
	free(text);
}

/* Check an assignment and hand it on to the library of the command. */
static void set(struct se_settings *s, const char *assignment)
{
	char err[160];

	if (se_settings_apply(s, assignment, err, sizeof(err)))
		fail(2, err);
	append_env(SE_ENV_SET, ',', assignment);
}

static void parse(int argc, char **argv, struct se_settings *s)
{
	static const struct option options[] = {
		{"devices", required_argument, NULL, 'd'}, {"domain", required_argument, NULL, 'm'},
		{"address", required_argument, NULL, 'a'}, {"set", required_argument, NULL, 's'},
		{"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0}};
	const char *address = getenv(SE_ENV_ADDRESS);
	char err[160], text[32];
	int c;

	while ((c = getopt_long(argc, argv, "+d:m:a:s:h", options, NULL)) != -1) {
		switch (c) {
		case 'd':
			snprintf(text, sizeof(text), "devices=%.20s", optarg);
			set(s, text);
			break;
		case 'm':
			if (se_settings_domain(s, optarg, err, sizeof(err)))
				fail(2, err);
			setenv(SE_ENV_DOMAIN, optarg, 1);
			break;
		case 'a':
			address = optarg;
			break;
		case 's':
			set(s, optarg);
			break;
		case 'h':
			help(stdout);
			exit(0);
		default:
			fail(2, "see softefa --help");
		}
	}
	/* Last: the domain may decide about the port. */
	if (address && se_settings_address(s, address, err, sizeof(err)))
		fail(2, err);
	if (address)
		setenv(SE_ENV_ADDRESS, address, 1);
	if (optind == argc)
		fail(2, "no command given; see softefa --help");
}

int main(int argc, char **argv)
{
	char library[PATH_MAX], sysfs[160], err[256];
	struct se_settings s = *se_settings();
	int e;

	parse(argc, argv, &s);
	find_library(library, sizeof(library));
	if (se_sysfs_make(&s, sysfs, sizeof(sysfs), err, sizeof(err)))
		fail(125, err);
	setenv("SYSFS_PATH", sysfs, 1);
	preload(library);
	execvp(argv[optind], argv + optind);
	e = errno;
	fprintf(stderr, "softefa: %s: %s\n", argv[optind], strerror(e));
	return e == ENOENT ? 127 : 126;
}
