/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A loaded net plugin. Whatever table it exports, the callers see the newest one: the members
 * below are v12's, older tables are adapted the way NCCL adapts them, limits included.
 */
#ifndef HOST_NET_H
#define HOST_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nccl_net_abi.h"

enum { HOST_ABI_OLDEST = 6, HOST_ABI_NEWEST = 12 };

/* The table's own members of changed form, named after the version that brought the form. */
struct host_net_raw {
	enum nccl_net_result (*init_v6)(nccl_net_log_fn log);
	enum nccl_net_result (*init_v10)(nccl_net_log_fn log, nccl_net_profiler_fn profiler);
	enum nccl_net_result (*init_v11)(void **ctx, uint64_t comm_id,
					 struct nccl_net_config *config, nccl_net_log_fn log,
					 nccl_net_profiler_fn profiler);
	enum nccl_net_result (*get_properties_v6)(int dev, struct nccl_net_props_v6 *props);
	enum nccl_net_result (*get_properties_v7)(int dev, struct nccl_net_props_v7 *props);
	enum nccl_net_result (*get_properties_v8)(int dev, struct nccl_net_props_v8 *props);
	enum nccl_net_result (*get_properties_v9)(int dev, struct nccl_net_props_v9 *props);
	enum nccl_net_result (*get_properties_v11)(int dev, struct nccl_net_props_v11 *props);
	enum nccl_net_result (*get_properties_v12)(int dev, struct nccl_net_props_v12 *props);
	enum nccl_net_result (*listen_v6)(int dev, void *handle, void **listen_comm);
	enum nccl_net_result (*listen_v11)(void *ctx, int dev, void *handle, void **listen_comm);
	enum nccl_net_result (*connect_v6)(int dev, void *handle, void **send_comm);
	enum nccl_net_result (*connect_v7)(int dev, void *handle, void **send_comm,
					   struct nccl_net_device_handle **dev_comm);
	enum nccl_net_result (*connect_v10)(int dev, struct nccl_net_config *config, void *handle,
					    void **send_comm,
					    struct nccl_net_device_handle **dev_comm);
	enum nccl_net_result (*connect_v11)(void *ctx, int dev, void *handle, void **send_comm,
					    struct nccl_net_device_handle **dev_comm);
	enum nccl_net_result (*accept_v6)(void *listen_comm, void **recv_comm);
	enum nccl_net_result (*accept_v7)(void *listen_comm, void **recv_comm,
					  struct nccl_net_device_handle **dev_comm);
	enum nccl_net_result (*reg_mr_v6)(void *comm, void *data, int size, int type,
					  void **mhandle);
	enum nccl_net_result (*reg_mr_v8)(void *comm, void *data, size_t size, int type,
					  void **mhandle);
	enum nccl_net_result (*isend_v6)(void *send_comm, void *data, int size, int tag,
					 void *mhandle, void **request);
	enum nccl_net_result (*isend_v9)(void *send_comm, void *data, size_t size, int tag,
					 void *mhandle, void **request);
	enum nccl_net_result (*isend_v10)(void *send_comm, void *data, size_t size, int tag,
					  void *mhandle, void *phandle, void **request);
	enum nccl_net_result (*irecv_v6)(void *recv_comm, int n, void **data, int *sizes, int *tags,
					 void **mhandles, void **request);
	enum nccl_net_result (*irecv_v9)(void *recv_comm, int n, void **data, size_t *sizes,
					 int *tags, void **mhandles, void **request);
	enum nccl_net_result (*irecv_v10)(void *recv_comm, int n, void **data, size_t *sizes,
					  int *tags, void **mhandles, void **phandles,
					  void **request);
	enum nccl_net_result (*make_vdevice_v9)(int *dev, struct nccl_net_vdev_v9 *vdev);
	enum nccl_net_result (*make_vdevice_v12)(int *dev, struct nccl_net_vdev_v12 *vdev);
	enum nccl_net_result (*finalize_v11)(void *ctx);
	enum nccl_net_result (*set_net_attr_v11)(void *ctx, struct nccl_net_attr *attr);
};

/* Members that a v12 table may leave NULL may be NULL here, and are where the table has none. */
struct host_net {
	const char *name; /* the table's; belongs to the plugin */
	char *path;       /* of the file the linker found */
	int abi;
	void *dl;
	int users; /* v10 and older: inits less finalizes. As in NCCL, callers serialise both. */
	struct host_net_raw raw;

	/* Their form changed between versions: they take the plugin first. */
	enum nccl_net_result (*init)(struct host_net *net, void **ctx, uint64_t comm_id,
				     struct nccl_net_config *config, nccl_net_log_fn log,
				     nccl_net_profiler_fn profiler);
	enum nccl_net_result (*get_properties)(struct host_net *net, int dev,
					       struct nccl_net_props_v12 *props);
	enum nccl_net_result (*listen)(struct host_net *net, void *ctx, int dev, void *handle,
				       void **listen_comm);
	enum nccl_net_result (*connect)(struct host_net *net, void *ctx, int dev, void *handle,
					void **send_comm, struct nccl_net_device_handle **dev_comm);
	enum nccl_net_result (*accept)(struct host_net *net, void *listen_comm, void **recv_comm,
				       struct nccl_net_device_handle **dev_comm);
	enum nccl_net_result (*reg_mr)(struct host_net *net, void *comm, void *data, size_t size,
				       int type, void **mhandle);
	enum nccl_net_result (*isend)(struct host_net *net, void *send_comm, void *data,
				      size_t size, int tag, void *mhandle, void *phandle,
				      void **request);
	enum nccl_net_result (*irecv)(struct host_net *net, void *recv_comm, int n, void **data,
				      size_t *sizes, int *tags, void **mhandles, void **phandles,
				      void **request);
	enum nccl_net_result (*make_vdevice)(struct host_net *net, int *dev,
					     struct nccl_net_vdev_v12 *vdev);
	enum nccl_net_result (*finalize)(struct host_net *net, void *ctx);
	enum nccl_net_result (*set_net_attr)(struct host_net *net, void *ctx,
					     struct nccl_net_attr *attr);

	/* The same in all versions: the plugin's own functions. */
	enum nccl_net_result (*devices)(int *ndev);
	enum nccl_net_result (*reg_mr_dma_buf)(void *comm, void *data, size_t size, int type,
					       uint64_t offset, int fd, void **mhandle);
	enum nccl_net_result (*dereg_mr)(void *comm, void *mhandle);
	enum nccl_net_result (*iflush)(void *recv_comm, int n, void **data, int *sizes,
				       void **mhandles, void **request);
	enum nccl_net_result (*test)(void *request, int *done, int *sizes);
	enum nccl_net_result (*close_send)(void *send_comm);
	enum nccl_net_result (*close_recv)(void *recv_comm);
	enum nccl_net_result (*close_listen)(void *listen_comm);
	enum nccl_net_result (*get_device_mr)(void *comm, void *mhandle, void **dev_mhandle);
	enum nccl_net_result (*irecv_consumed)(void *recv_comm, int n, void *request);
};

/*
 * Load @path as NCCL does: as given, then, if it holds no slash, libnccl-net-@path.so. Takes the
 * newest table, or version @abi unless that is 0. Failures are said on stderr.
 * -ENOENT: no such library or table. -EPROTO: the table lacks a mandatory member.
 */
int host_net_open(struct host_net *net, const char *path, int abi);
void host_net_close(struct host_net *net);

/* The versions that @path exports, as a mask of 1 << version. 0: none, or it cannot be loaded. */
unsigned host_net_versions(const char *path);

/* What NCCL says of a connection before each attempt, one of @flows at a time to its peer. */
struct nccl_net_attr host_net_attr(int flows);

/* Fill name, raw and all calls from @table, a struct nccl_net_vN with N = net->abi. */
void host_net_adapt(struct host_net *net, const void *table);

#endif
