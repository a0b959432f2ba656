/* SPDX-License-Identifier: BSD-3-Clause */
/* NCCL's own reader and writer of topology files, which its library hides. */
#ifndef TESTS_NCCL_TOPOLOGY_H
#define TESTS_NCCL_TOPOLOGY_H

#include <nccl.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Read the file @from, and write all that was understood of it to the file @to. */
ncclResult_t ncclTopologyCopy(const char *from, const char *to);

#ifdef __cplusplus
}
#endif

#endif
