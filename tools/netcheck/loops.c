/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"
const struct check loop_checks[] = {{0}};
