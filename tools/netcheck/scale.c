/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

const struct check scale_checks[] = {
	{0},
};
