/* SPDX-License-Identifier: BSD-3-Clause */
/* Fault rules that a test changes as it goes, by a control file of its own. */
#ifndef TESTS_FAULTS_H
#define TESTS_FAULTS_H

#include "raw.h"

/* After node_settings(). Children that start later have the same file. */
void faults_init(void);
/*
 * From now on these rules, a line each, and no others. In force for this process when it returns,
 * if @d is a device that it has open; for others within milliseconds of work.
 */
void faults_set(const struct raw_dev *d, const char *rules);
/* The same from the next command on that this process gives, whatever it is. */
void faults_put(const char *rules);

#endif
