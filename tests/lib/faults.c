/* SPDX-License-Identifier: BSD-3-Clause */
/* A control file that needs no name: it goes when the test does. */
#include "faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kids.h"

enum { ROOM = 1024 };

static int fd;

/* Always as many bytes by one call, so that nobody reads half of it. */
void faults_put(const char *rules)
{
	char text[ROOM];
	size_t len = strlen(rules);

	MUST(len < ROOM, "%zu bytes of rules", len);
	memset(text, '\n', sizeof(text));
	memcpy(text, rules, len);
	MUST(pwrite(fd, text, sizeof(text), 0) == ROOM, "no room for rules");
}

void faults_init(void)
{
	char path[64];

	fd = memfd_create("faults", MFD_CLOEXEC);
	MUST(fd >= 0, "no memory for rules");
	faults_put("");
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), fd);
	setenv("SOFTEFA_CONTROL", path, 1);
}

void faults_set(const struct raw_dev *d, const char *rules)
{
	struct raw_gid gid;

	faults_put(rules);
	MUST_0(raw_gid(d, &gid)); /* any command will do */
}
