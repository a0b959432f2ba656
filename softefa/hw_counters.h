/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ports/1/hw_counters of a device, by the names that the kernel's driver gives them, as far as they
 * count what the adapter does; it has no packets. Their files are in the tree of sysfs.h, and say
 * what a program last looked for.
 */
#ifndef SE_HW_COUNTERS_H
#define SE_HW_COUNTERS_H

/* The name of number @i; NULL: there are no more. */
const char *se_hw_counter_name(unsigned i);

/*
 * The file of the counter that @path, in the tree or as if that were /sys, is about, brought up to
 * date; NULL: it is about none. Of the thread, until the next call.
 */
const char *se_hw_counter_path(const char *path);

#endif
