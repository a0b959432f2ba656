/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

const struct check close_checks[] = {
	{0},
};
