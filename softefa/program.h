/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program around the device thread. What it owes the device it can only do while its threads
 * have a core: on a busy machine, or under a debugger, that may take seconds.
 */
#ifndef SE_PROGRAM_H
#define SE_PROGRAM_H

#include <stdbool.h>

/*
 * Did each thread of the program that wanted a core have one since the last call? Reads files of
 * /proc: for when that matters. Device thread only.
 */
bool se_program_ran(void);

#endif
