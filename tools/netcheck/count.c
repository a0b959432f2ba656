/* SPDX-License-Identifier: BSD-3-Clause */
/* What a process has and should not have more of. */
#include "count.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int entries(const char *path)
{
	DIR *dir = opendir(path);
	int n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

void count_take(struct count *c)
{
	/* Counting takes a descriptor. */
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	size_t pages = 0;
	FILE *f;

	pthread_mutex_lock(&lock);
	f = fopen("/proc/self/statm", "r");
	if (!f || fscanf(f, "%*u %zu", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	*c = (struct count){
		.fds = entries("/proc/self/fd"),
		.threads = entries("/proc/self/task"),
		.resident = pages * (size_t)sysconf(_SC_PAGESIZE),
	};
	pthread_mutex_unlock(&lock);
}
