/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The adapter without its preloaded shim, linked into the program: for sanitizers and fuzzers,
 * which want to be in front.
 */
#ifndef TESTS_RAW_LINKED_H
#define TESTS_RAW_LINKED_H

#include "raw_cmd.h"

extern const struct raw_sys raw_linked;

#endif
