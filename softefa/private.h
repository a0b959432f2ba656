/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors of the adapter itself (its ends of channels, sockets to other hosts). They are in the
 * table that the application has, which may close or replace any number it finds there: "all from 3
 * on" is what a daemon does first. So they get high numbers, are closed on exec, and bear a mark:
 * shim.c lets close(), close_range(), closefrom(), dup2() and dup3() treat a marked number as one
 * that is not open. They serve the process that made them only.
 *
 * A program that makes system calls itself is not held off: who writes to a descriptor that has
 * been there for long asks se_private_fd_ours() before. Any thread may call any of these.
 */
#ifndef SE_PRIVATE_H
#define SE_PRIVATE_H

#include <stdbool.h>

/*
 * Take over @fd, which the caller has just made: returns the number it has from now on, or -errno.
 * The old number is closed in either case.
 */
int se_private_fd_add(int fd);
/* Close it. Negative numbers, and those that are not ours any more, are passed over. */
void se_private_fd_close(int fd);
/* Does the number bear the mark? One load. */
bool se_private_fd(int fd);
/* The lowest marked number from @from on; -1: none. */
int se_private_fd_next(unsigned from);
/* And does it still lead to the file it was added for? A system call. */
bool se_private_fd_ours(int fd);
/* In the child of fork(): close all, they are the parent's. */
void se_private_fd_forget_all(void);

#endif
