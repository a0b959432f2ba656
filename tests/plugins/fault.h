/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a test plugin is made wrong: TCPNET_FAULT=NAME[:N] breaks the Nth (from 1) occasion for NAME
 * in each process, or, where a use asks with fault_is(), every one.
 */
#ifndef TESTS_PLUGINS_FAULT_H
#define TESTS_PLUGINS_FAULT_H

#include <stdbool.h>

bool fault_is(const char *name);
/* True on the one occasion that is to go wrong. */
bool fault(const char *name);
/* That occasion has been. */
bool fault_was(const char *name);

#endif
