/* SPDX-License-Identifier: BSD-3-Clause */
/* A test plugin as its author writes it: one set of calls. tables.c exports it as v6 to v12. */
#ifndef TESTS_PLUGINS_TABLES_H
#define TESTS_PLUGINS_TABLES_H

#include "nccl_net_abi.h"

struct test_plugin {
	int ndev;  /* physical */
	int parts; /* of a receive, from v9 on; 0: 1 */
	enum nccl_net_result (*init)(void);
	enum nccl_net_result (*devices)(int *ndev);
	/* Filled in already: what all test plugins have in common. An error for a strange @dev. */
	enum nccl_net_result (*properties)(int dev, struct nccl_net_props_v12 *props);
	enum nccl_net_result (*listen)(int dev, void *handle, void **listen_comm);
	enum nccl_net_result (*connect)(int dev, void *handle, void **send_comm);
	enum nccl_net_result (*accept)(void *listen_comm, void **recv_comm);
	enum nccl_net_result (*reg_mr)(void *comm, void *data, size_t size, int type,
				       void **mhandle);
	/* NULL: none, and the tables have none. */
	enum nccl_net_result (*reg_mr_dma_buf)(void *comm, void *data, size_t size, int type,
					       uint64_t offset, int fd, void **mhandle);
	enum nccl_net_result (*dereg_mr)(void *comm, void *mhandle);
	enum nccl_net_result (*isend)(void *send_comm, void *data, size_t size, int tag,
				      void *mhandle, void **request);
	enum nccl_net_result (*irecv)(void *recv_comm, int n, void **data, const size_t *sizes,
				      const int *tags, void **mhandles, void **request);
	/* NULL: nothing to flush. */
	enum nccl_net_result (*iflush)(void *recv_comm, int n, void **data, int *sizes,
				       void **mhandles, void **request);
	enum nccl_net_result (*test)(void *request, int *done, int *sizes);
	enum nccl_net_result (*close_send)(void *send_comm);
	enum nccl_net_result (*close_recv)(void *recv_comm);
	enum nccl_net_result (*close_listen)(void *listen_comm);
	/* NULL: cannot. */
	enum nccl_net_result (*make_vdevice)(int *dev, const struct nccl_net_vdev_v12 *vdev);
};

/* The plugin that is linked with tables.c. */
extern const struct test_plugin test_plugin;
extern const char test_plugin_name[];

/* The caller broke the contract: says how, returns NCCL_NET_INVALID_USAGE. */
enum nccl_net_result test_plugin_usage(const char *what);
/* A WARN with the text of errno; returns NCCL_NET_SYSTEM_ERROR. */
enum nccl_net_result test_plugin_errno(const char *call);

#endif
