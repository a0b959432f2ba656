/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults of a device that softefa plays. */
#include "rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROOM = 1024 };

static int rules_fd = -1;

void nk_rules_init(void)
{
	char path[64], empty[ROOM];

	memset(empty, '\n', sizeof(empty));
	rules_fd = memfd_create("rules", 0);
	if (rules_fd < 0 || pwrite(rules_fd, empty, ROOM, 0) != ROOM)
		return;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), rules_fd);
	setenv("SOFTEFA_CONTROL", path, 1);
}

/* Always as many bytes by one call, so that nobody reads half of it. */
void nk_rules_put(struct check_ctx *ctx, const char *rules)
{
	char text[ROOM];
	size_t len = strlen(rules);

	memset(text, '\n', sizeof(text));
	if (len < ROOM)
		memcpy(text, rules, len);
	if (len >= ROOM || pwrite(rules_fd, text, ROOM, 0) != ROOM)
		check_skip(ctx, "no room for fault rules");
}

static bool maps_have(const char *name)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f))
		found = strstr(line, name);
	if (f)
		fclose(f);
	return found;
}

bool nk_rules_apply(void)
{
	return rules_fd >= 0 && maps_have("libsoftefa") && maps_have("libibverbs");
}
