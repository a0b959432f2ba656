/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NCCL's tuner plugin ABI, versions 3 to 6, in our own words: what a library may say to NCCL's
 * choice of algorithm and protocol for a collective. NCCL 2.22 and later; from 2.26 on it looks for
 * a tuner in the library of the net plugin when there is no other.
 *
 * A plugin exports one data object per version, named ncclTunerPlugin_vN, of type struct
 * nccl_tuner_vN. NCCL takes the newest it knows. Sizes and offsets are asserted at the end.
 */
#ifndef NCCL_TUNER_ABI_H
#define NCCL_TUNER_ABI_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "nccl_net_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Columns of the table of costs; its rows are algorithms. */
enum {
	NCCL_TUNER_PROTO_LL = 0,
	NCCL_TUNER_PROTO_LL128 = 1,
	NCCL_TUNER_PROTO_SIMPLE = 2,
};

/* A cost that forbids; also that of what NCCL cannot use. */
#define NCCL_TUNER_FORBIDDEN (-1.0f)

/*
 * get_coll_info, all versions: @costs is a float per algorithm and protocol, row by row, in spite
 * of its type; the plugin may change them. @nchannels may be set, too. @nbytes: of the collective.
 *
 * init: once per communicator, which has @nnodes nodes; *@ctx is given to the other calls.
 */
struct nccl_tuner_v3 {
	const char *name;
	enum nccl_net_result (*init)(size_t nranks, size_t nnodes, nccl_net_log_fn log, void **ctx);
	enum nccl_net_result (*get_coll_info)(void *ctx, int coll, size_t nbytes, int npipe_ops,
					      float **costs, int nalgos, int nprotos,
					      int *nchannels);
	enum nccl_net_result (*destroy)(void *ctx);
};

/* v4: whether the user's buffers may be registered. */
struct nccl_tuner_v4 {
	const char *name;
	enum nccl_net_result (*init)(size_t nranks, size_t nnodes, nccl_net_log_fn log, void **ctx);
	enum nccl_net_result (*get_coll_info)(void *ctx, int coll, size_t nbytes, int npipe_ops,
					      float **costs, int nalgos, int nprotos, int reg_buff,
					      int *nchannels);
	enum nccl_net_result (*destroy)(void *ctx);
};

/* v5: init as that of the net plugin; what NVLink spans, and constants of NCCL's model to change.
 */
struct nccl_tuner_v5 {
	const char *name;
	enum nccl_net_result (*init)(void **ctx, uint64_t comm_id, size_t nranks, size_t nnodes,
				     nccl_net_log_fn log, void *nvl_domain, void *constants);
	enum nccl_net_result (*get_coll_info)(void *ctx, int coll, size_t nbytes, int npipe_ops,
					      float **costs, int nalgos, int nprotos, int reg_buff,
					      int *nchannels);
	enum nccl_net_result (*finalize)(void *ctx);
};

/* v6: the size of chunks; the call may be NULL. */
struct nccl_tuner_v6 {
	const char *name;
	enum nccl_net_result (*init)(void **ctx, uint64_t comm_id, size_t nranks, size_t nnodes,
				     nccl_net_log_fn log, void *nvl_domain, void *constants);
	enum nccl_net_result (*get_coll_info)(void *ctx, int coll, size_t nbytes, int npipe_ops,
					      float **costs, int nalgos, int nprotos, int reg_buff,
					      int *nchannels);
	enum nccl_net_result (*finalize)(void *ctx);
	enum nccl_net_result (*get_chunk_size)(void *ctx, int coll, size_t nbytes, int algo,
					       int proto, int nchannels, size_t *chunk);
};

#define NCCL_TUNER_SIZE(type, bytes) static_assert(sizeof(struct type) == (bytes), "size of " #type)
#define NCCL_TUNER_SLOT(type, field, index) \
	static_assert(offsetof(struct type, field) == 8 * (index), "offset of " #type "." #field)
#define NCCL_TUNER_SLOTS(type, end) \
	NCCL_TUNER_SLOT(type, name, 0); \
	NCCL_TUNER_SLOT(type, init, 1); \
	NCCL_TUNER_SLOT(type, get_coll_info, 2); \
	NCCL_TUNER_SLOT(type, end, 3)

NCCL_TUNER_SLOTS(nccl_tuner_v3, destroy);
NCCL_TUNER_SIZE(nccl_tuner_v3, 32);
NCCL_TUNER_SLOTS(nccl_tuner_v4, destroy);
NCCL_TUNER_SIZE(nccl_tuner_v4, 32);
NCCL_TUNER_SLOTS(nccl_tuner_v5, finalize);
NCCL_TUNER_SIZE(nccl_tuner_v5, 32);
NCCL_TUNER_SLOTS(nccl_tuner_v6, finalize);
NCCL_TUNER_SLOT(nccl_tuner_v6, get_chunk_size, 4);
NCCL_TUNER_SIZE(nccl_tuner_v6, 40);

#undef NCCL_TUNER_SIZE
#undef NCCL_TUNER_SLOT
#undef NCCL_TUNER_SLOTS

#ifdef __cplusplus
}
#endif
#endif
