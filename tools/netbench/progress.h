/* SPDX-License-Identifier: BSD-3-Clause */
/* A line on stderr about how far a long run is, once a second, by a thread of its own. */
#ifndef NETBENCH_PROGRESS_H
#define NETBENCH_PROGRESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct nb_progress {
	pthread_t thread;
	bool running;
	bool tty;          /* the line is written over itself, else each is a line */
	const char *stage; /* begins it, "" for nothing; kept */
	uint64_t start_ns;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* All below under lock. */
	bool quit, shown;
	uint64_t size;
	int at, of; /* size number @at of @of */
};

/* 0 or -errno. */
int nb_progress_start(struct nb_progress *p, const char *stage);
/* All are nothing where it was not started. */
void nb_progress_size(struct nb_progress *p, uint64_t size, int at, int of);
/* Before something else is written to the terminal. */
void nb_progress_hide(struct nb_progress *p);
void nb_progress_stop(struct nb_progress *p);

#endif
