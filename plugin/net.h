/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calls of NCCL's net ABI as functions, shared by the tables of all versions: newest types,
 * NCCL's result codes.
 */
#ifndef NET_NET_H
#define NET_NET_H

#include "nccl_net_abi.h"

#define NET_NAME   "EFA"
#define NET_EXPORT __attribute__((visibility("default")))

/* ---- the plugin's life ---- */

enum nccl_net_result net_init(nccl_net_log_fn log);
enum nccl_net_result net_finalize(void);
enum nccl_net_result net_devices(int *ndev);
enum nccl_net_result net_properties(int dev, struct nccl_net_props_v12 *props);

/* ---- connections, memory, data ---- */

enum nccl_net_result net_listen_on(int dev, void *handle, void **listen_comm);
enum nccl_net_result net_connect_to(int dev, void *handle, void **send_comm);
enum nccl_net_result net_accept_on(void *listen_comm, void **recv_comm);
enum nccl_net_result net_reg_mr(void *comm, void *data, size_t size, int type, void **mhandle);
enum nccl_net_result net_reg_mr_dma_buf(void *comm, void *data, size_t size, int type,
					uint64_t offset, int fd, void **mhandle);
enum nccl_net_result net_dereg_mr(void *comm, void *mhandle);
enum nccl_net_result net_send_to(void *send_comm, void *data, size_t size, int tag, void *mhandle,
				 void **request);
enum nccl_net_result net_recv_from(void *recv_comm, int n, void **data, const size_t *sizes,
				   const int *tags, void **mhandles, void **request);
enum nccl_net_result net_flush(void *recv_comm, int n, void **data, int *sizes, void **mhandles,
			       void **request);
enum nccl_net_result net_test_request(void *request, int *done, int *sizes);
enum nccl_net_result net_close_send(void *send_comm);
enum nccl_net_result net_close_recv(void *recv_comm);
enum nccl_net_result net_close_listen(void *listen_comm);

/* ---- the same with the arguments of newer versions, which we have no use for ---- */

enum nccl_net_result net_init_ctx(void **ctx, uint64_t comm_id, struct nccl_net_config *config,
				  nccl_net_log_fn log, nccl_net_profiler_fn profiler);
enum nccl_net_result net_init_prof(nccl_net_log_fn log, nccl_net_profiler_fn profiler);
enum nccl_net_result net_finalize_ctx(void *ctx);
enum nccl_net_result net_listen_ctx(void *ctx, int dev, void *handle, void **listen_comm);
enum nccl_net_result net_connect_ctx(void *ctx, int dev, void *handle, void **send_comm,
				     struct nccl_net_device_handle **dev_comm);
enum nccl_net_result net_accept_dev(void *listen_comm, void **recv_comm,
				    struct nccl_net_device_handle **dev_comm);
enum nccl_net_result net_isend_prof(void *send_comm, void *data, size_t size, int tag,
				    void *mhandle, void *phandle, void **request);
enum nccl_net_result net_irecv_prof(void *recv_comm, int n, void **data, size_t *sizes, int *tags,
				    void **mhandles, void **phandles, void **request);

/* Members that have the same form in all versions. */
#define NET_TABLE_V6 \
	.name = NET_NAME, .devices = net_devices, .reg_mr_dma_buf = net_reg_mr_dma_buf, \
	.dereg_mr = net_dereg_mr, .iflush = net_flush, .test = net_test_request, \
	.close_send = net_close_send, .close_recv = net_close_recv, \
	.close_listen = net_close_listen

#endif
