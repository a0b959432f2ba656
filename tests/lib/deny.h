/* SPDX-License-Identifier: BSD-3-Clause */
/* System calls that fail, as container runtimes make them, by a filter of seccomp. */
#ifndef TESTS_DENY_H
#define TESTS_DENY_H

/* From now on, and for all threads of the process, the call @nr (SYS_*) fails with @error. */
void deny_call(long nr, int error);
/* Unless its first argument is this process. */
void deny_call_to_others(long nr, int error);

#endif
