/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A check that fails the test from anywhere: the test itself, a thread of it, or a process it
 * forked, where Criterion's own asserts must not be used.
 */
#ifndef TESTS_NEED_H
#define TESTS_NEED_H

#include <stdbool.h>
#include <stdint.h>

/* need(n == 32, "%d of 32 are done", n): the text says what the numbers were. */
#define need(cond, ...) ((cond) ? (void)0 : need_failed(__FILE__, __LINE__, #cond, __VA_ARGS__))

_Noreturn void need_failed(const char *file, int line, const char *cond, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* From here on this process is none that Criterion knows. */
void need_forked(void);
bool need_is_forked(void);

/* How many entries the folder @path has, . and .. among them. */
int entries(const char *path);
/* How many files this process has open, found without opening one. */
unsigned open_files(void);

/* Monotonic, for waits that must end. */
int64_t now_ms(void);
void nap_ms(int ms);
/* Let others run; sleeps a little when it is called many times in a row without progress. */
void relax(unsigned *tries);

#endif
