/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

const struct check props_checks[] = {
	{0},
};
