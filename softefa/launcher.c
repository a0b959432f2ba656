/* SPDX-License-Identifier: BSD-3-Clause */
/* softefa: run a command with a software EFA adapter. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profile.h"
#include "report.h"
#include "rule.h"
#include "settings.h"
#include "sysfs.h"

#define LIBRARY "libsoftefa.so"
#define ERR     (PATH_MAX + 64) /* room for what is wrong */

static void help(FILE *out)
{
	fputs("Usage: softefa [OPTION]... [--] COMMAND...\n"
	      "       softefa stat [--domain NAME] [--address IPv4[:PORT]] [--json]\n"
	      "\n"
	      "Run COMMAND on a machine with software EFA devices. Commands of one user with the "
	      "same\n"
	      "--domain reach each other; each sees the same devices. stat prints what these did "
	      "so "
	      "far.\n"
	      "\n"
	      "  --devices N              so many (default 4)\n"
	      "  --profile NAME           of this generation, see below; --set changes parts of "
	      "it\n"
	      "  --domain NAME            default: default\n"
	      "  --address IPv4[:PORT]    an address of this host: commands of other hosts that "
	      "have one\n"
	      "                           are reached, too\n"
	      "  --set KEY=VALUE[,...]    see below\n"
	      "  --control FILE           fault rules, one a line, which may change at any time\n"
	      "\n"
	      "Profiles:\n",
	      out);
	se_profile_print(out);
	fputs("\nSettings:\n", out);
	se_settings_print(out);
	fputs("\nFaults: FAULT [VALUE] [KEY=VALUE]..., by --set 'fault=...' or as a line of the "
	      "control file:\n",
	      out);
	se_rule_print(out);
	fputs("\nExit status: that of COMMAND; 2: bad arguments; 125: softefa failed; 126, 127: "
	      "COMMAND\n"
	      "cannot be run, is not found. Of stat: 1: nobody is in the domain.\n",
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

/* Check assignments one by one, and hand them on to the library of the command. */
static void set(const char *assignment)
{
	struct se_settings s;
	char err[ERR];

	se_settings_default(&s);
	if (se_settings_apply(&s, assignment, err, sizeof(err)))
		fail(2, err);
	append_env(SE_ENV_SET, ',', assignment);
}

static void set_key(const char *key, const char *value)
{
	char *text;

	if (asprintf(&text, "%s=%s", key, value) < 0)
		fail(125, strerror(ENOMEM));
	set(text);
	free(text);
}

/* COMMAND may be somewhere else when it reads the file. */
static void set_control(const char *file)
{
	char path[PATH_MAX], err[ERR];

	if (!realpath(file, path) || access(path, R_OK)) {
		snprintf(err, sizeof(err), "control file %s: %s", file, strerror(errno));
		fail(2, err);
	}
	setenv(SE_ENV_CONTROL, path, 1);
}

/* One option of those that are for all; false: none of them. */
static bool parse_common(int c)
{
	if (c == 'm')
		setenv(SE_ENV_DOMAIN, optarg, 1);
	else if (c == 'a')
		setenv(SE_ENV_ADDRESS, optarg, 1);
	else if (c != 'h')
		return false;
	if (c == 'h') {
		help(stdout);
		exit(0);
	}
	return true;
}

static void parse(int argc, char **argv)
{
	static const struct option options[] = {{"devices", required_argument, NULL, 'd'},
						{"profile", required_argument, NULL, 'p'},
						{"domain", required_argument, NULL, 'm'},
						{"address", required_argument, NULL, 'a'},
						{"set", required_argument, NULL, 's'},
						{"control", required_argument, NULL, 'c'},
						{"help", no_argument, NULL, 'h'},
						{NULL, 0, NULL, 0}};
	int c;

	while ((c = getopt_long(argc, argv, "+d:p:m:a:s:c:h", options, NULL)) != -1) {
		switch (c) {
		case 'd':
			set_key("devices", optarg);
			break;
		case 'p':
			set_key("profile", optarg);
			break;
		case 's':
			set(optarg);
			break;
		case 'c':
			set_control(optarg);
			break;
		default:
			if (!parse_common(c))
				fail(2, "see softefa --help");
		}
	}
	if (optind == argc)
		fail(2, "no command given; see softefa --help");
}

/* What the library of the command will read, but here it must be right. */
static void settle(struct se_settings *s)
{
	const char *list = getenv(SE_ENV_SET), *domain = getenv(SE_ENV_DOMAIN);
	const char *address = getenv(SE_ENV_ADDRESS);
	char err[ERR];

	se_settings_default(s);
	if ((list && se_settings_apply(s, list, err, sizeof(err))) ||
	    (domain && se_settings_domain(s, domain, err, sizeof(err))) ||
	    /* Last: the domain may decide about the port. */
	    (address && se_settings_address(s, address, err, sizeof(err))))
		fail(2, err);
}

static int stat_main(int argc, char **argv)
{
	static const struct option options[] = {{"domain", required_argument, NULL, 'm'},
						{"address", required_argument, NULL, 'a'},
						{"json", no_argument, NULL, 'j'},
						{"help", no_argument, NULL, 'h'},
						{NULL, 0, NULL, 0}};
	struct se_settings s;
	bool json = false;
	int c;

	while ((c = getopt_long(argc, argv, "m:a:jh", options, NULL)) != -1) {
		if (c == 'j')
			json = true;
		else if (!parse_common(c))
			fail(2, "see softefa --help");
	}
	if (optind < argc)
		fail(2, "stat takes no arguments; to run a command of that name: softefa -- stat");
	settle(&s);
	return se_report(json);
}

int main(int argc, char **argv)
{
	char library[PATH_MAX], sysfs[160], err[256];
	struct se_settings s;
	int e;

	if (argc > 1 && strcmp(argv[1], "stat") == 0)
		return stat_main(argc - 1, argv + 1);
	parse(argc, argv);
	settle(&s);
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
