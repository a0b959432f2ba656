/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

const struct check reg_checks[] = {
	{0},
};
