/* SPDX-License-Identifier: BSD-3-Clause */
/* Do the threads of the program run? */
#include "program.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "real.h"

#define THREADS      256
/* clock_getres(2): of the time that a thread had a core; its id is above. */
#define THREAD_CLOCK 6

/* What threads had used of a core when they were last seen to want one, by the low bits of ids. */
static struct {
	pid_t id;
	uint64_t ns;
} seen[THREADS];

static uint64_t used_ns(pid_t id)
{
	struct timespec ts = {0};

	clock_gettime((clockid_t)(~(unsigned)id << 3 | THREAD_CLOCK), &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* Ready to run, in a page fault that takes long, or stopped. */
static bool wants_core(pid_t id)
{
	char path[64], stat[64] = "";
	const char *name_end;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)id);
	fd = se_real.openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false; /* it has ended */
	n = read(fd, stat, sizeof(stat) - 1);
	se_real.close(fd);
	name_end = n > 0 ? strrchr(stat, ')') : NULL; /* "12 (name) R ..." */
	return name_end && name_end[1] && name_end[2] && strchr("RDTt", name_end[2]);
}

static bool held_up(pid_t id)
{
	uint64_t ns = used_ns(id);
	bool same = seen[id % THREADS].id == id && seen[id % THREADS].ns == ns;

	seen[id % THREADS].id = id;
	seen[id % THREADS].ns = ns;
	return same;
}

bool se_program_ran(void)
{
	DIR *threads = opendir("/proc/self/task");
	pid_t self = (pid_t)syscall(SYS_gettid);
	struct dirent *e;
	bool ran = true;

	while (threads && (e = readdir(threads))) {
		pid_t id = atoi(e->d_name);

		if (id && id != self && wants_core(id) && held_up(id))
			ran = false;
	}
	if (threads)
		closedir(threads);
	return ran;
}
