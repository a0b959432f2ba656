/* SPDX-License-Identifier: BSD-3-Clause */
/* What the number of a device function stands for. */
#ifndef TESTS_NCCL_DEVICE_FUNC_H
#define TESTS_NCCL_DEVICE_FUNC_H

#include "device.h"

struct func {
	ncclFunc_t coll;
	int op;   /* ncclDevRedOp_t; ncclDevSum where nothing is reduced */
	int type; /* ncclDataType_t; ncclUint8 where bytes are moved */
	int algo, proto;
};

/* NULL: NCCL has no such function. */
const struct func *func_find(int id);

#endif
