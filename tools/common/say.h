/* SPDX-License-Identifier: BSD-3-Clause */
/* What a tool says on stderr. */
#ifndef COMMON_SAY_H
#define COMMON_SAY_H

#include <stdarg.h>

/* Name the program in what follows; @program is kept. */
void say_init(const char *program);

/* One line "program: text". */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* What say() said last, without the program's name, for those who must be told as well. */
const char *say_latest(void);

/*
 * One line, @head and the text, in one write, so that processes do not cut into each other. What
 * exceeds 1023 bytes is cut off. Preserves errno.
 */
void say_line(const char *head, const char *fmt, va_list args)
	__attribute__((format(printf, 2, 0)));

#endif
