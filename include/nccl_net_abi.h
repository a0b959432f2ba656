/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NCCL's net plugin ABI, versions 6 to 12, in our own words.
 *
 * A plugin exports one data object per version, named ncclNetPlugin_vN, of type
 * struct nccl_net_vN. NCCL takes the newest it knows. Suffixes name the first version that has a
 * layout: what is equal in later versions is stated once (props_v9 serves v9 and v10). Every size
 * and offset is asserted at the end for the LP64 ABIs, the only ones NCCL is built for. Version 5,
 * of NCCL 2.12 alone, is left out: its self-test waits in connect before it calls accept, which no
 * plugin can serve that asks the other side.
 *
 * Calling conventions, threads and life times are NCCL's; docs/ has them, this file only has the
 * layouts.
 */
#ifndef NCCL_NET_ABI_H
#define NCCL_NET_ABI_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- constants ---- */

/* What every call returns. In progress is NCCL's own and never comes from a plugin. */
enum nccl_net_result {
	NCCL_NET_OK = 0,
	NCCL_NET_UNHANDLED_CUDA = 1,
	NCCL_NET_SYSTEM_ERROR = 2,   /* an OS or verbs call failed */
	NCCL_NET_INTERNAL_ERROR = 3, /* an invariant of the plugin is broken */
	NCCL_NET_INVALID_ARGUMENT = 4,
	NCCL_NET_INVALID_USAGE = 5, /* the caller or the configuration is wrong */
	NCCL_NET_REMOTE_ERROR = 6,  /* the peer or the fabric failed */
	NCCL_NET_IN_PROGRESS = 7,
};

/* Pointer kinds: bits in ptr_support, exactly one of HOST and CUDA as the type of reg_mr. */
enum {
	NCCL_NET_PTR_HOST = 1,
	NCCL_NET_PTR_CUDA = 2,
	NCCL_NET_PTR_DMABUF = 4,
};

enum nccl_net_device_type {
	NCCL_NET_DEV_HOST = 0, /* the only one a CPU-driven plugin reports; its version is 0 */
	NCCL_NET_DEV_UNPACK = 1,
	NCCL_NET_DEV_GIN_PROXY = 2,
	NCCL_NET_DEV_GIN_GDAKI = 3,
	NCCL_NET_DEV_GIN_GPI = 4,
};

enum {
	NCCL_NET_HANDLE_BYTES = 128, /* connection handle, from listen to connect */
	NCCL_NET_OUTSTANDING = 32,   /* requests a comm must be able to hold; v6: 8 */
	NCCL_NET_TEST_SIZES = 64,    /* length of the array a receive's test is given */
	NCCL_NET_VDEVS_V9 = 4,       /* members of a virtual device, v9 to v11 */
	NCCL_NET_VDEVS_V12 = 8,
	NCCL_NET_MAX_MESSAGE_V8 = 1 << 30, /* bytes; what NCCL assumes of a v8 table */
	NCCL_NET_MAX_COLL_V8 = 1 << 29,
	NCCL_NET_TRAFFIC_CLASS_NONE = -1,
	NCCL_NET_ATTR_NONE = -1, /* any field of nccl_net_attr */
	NCCL_NET_ID_NONE = -1,   /* rail_id, plane_id */
};

/* Largest max_p2p_bytes and max_coll_bytes NCCL accepts. */
#define NCCL_NET_MAX_BYTES_LIMIT ((size_t)1 << 40)

/*
 * v9 and later: irecv's *request holds this on entry when the receive may be reported done before
 * its data has arrived. It is a hint, and never a pointer.
 */
#define NCCL_NET_EARLY_RECV_HINT ((void *)1)

/* ---- callbacks given to init ---- */

enum nccl_net_log_level {
	NCCL_NET_LOG_NONE = 0,
	NCCL_NET_LOG_VERSION = 1,
	NCCL_NET_LOG_WARN = 2,
	NCCL_NET_LOG_INFO = 3,
	NCCL_NET_LOG_ABORT = 4,
	NCCL_NET_LOG_TRACE = 5,
};

/* Subsystem bits of a log line. Only INIT, BOOTSTRAP and ENV are shown unless the user asks. */
#define NCCL_NET_SUBSYS_INIT      0x1ul
#define NCCL_NET_SUBSYS_COLL      0x2ul
#define NCCL_NET_SUBSYS_P2P       0x4ul
#define NCCL_NET_SUBSYS_SHM       0x8ul
#define NCCL_NET_SUBSYS_NET       0x10ul
#define NCCL_NET_SUBSYS_GRAPH     0x20ul
#define NCCL_NET_SUBSYS_TUNING    0x40ul
#define NCCL_NET_SUBSYS_ENV       0x80ul
#define NCCL_NET_SUBSYS_ALLOC     0x100ul
#define NCCL_NET_SUBSYS_CALL      0x200ul
#define NCCL_NET_SUBSYS_PROXY     0x400ul
#define NCCL_NET_SUBSYS_NVLS      0x800ul
#define NCCL_NET_SUBSYS_BOOTSTRAP 0x1000ul
#define NCCL_NET_SUBSYS_REG       0x2000ul
#define NCCL_NET_SUBSYS_PROFILE   0x4000ul
#define NCCL_NET_SUBSYS_RAS       0x8000ul
#define NCCL_NET_SUBSYS_DESTROY   0x10000ul
#define NCCL_NET_SUBSYS_ALL       (~0ul)

#if defined(__GNUC__)
#define NCCL_NET_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define NCCL_NET_PRINTF(fmt, args)
#endif

/*
 * @where is a file name for WARN and a function name for INFO; no newline at the end of @fmt.
 * Takes a lock and formats: not for the data path. May be NULL.
 */
typedef void (*nccl_net_log_fn)(enum nccl_net_log_level level, unsigned long subsys,
				const char *where, int line, const char *fmt, ...)
	NCCL_NET_PRINTF(5, 6);

/* What a profiler is told. */
enum nccl_net_event {
	NCCL_NET_EVENT_START = 0,
	NCCL_NET_EVENT_STOP = 1,
	NCCL_NET_EVENT_UPDATE = 2, /* 2.27 and later */
	NCCL_NET_EVENT_UPDATE_STOP = 3,
};

/*
 * @plugin_id says what @ext_data is: a type of network in the upper 16 bits, a version in the lower
 * ones. There are two types, IB (1) and sockets (2); profilers pass over what they do not know.
 */
enum {
	NCCL_NET_EVENT_IB_V1 = 1 << 16 | 1, /* struct nccl_net_event_ib */
	NCCL_NET_EVENT_IB_QP = 1,           /* its type: a work request */
};

struct nccl_net_event_ib {
	uint8_t type;
	struct {
		int device;
		uint64_t wr_id;
		int opcode; /* enum ibv_wr_opcode */
		int qp_num;
		size_t length;
	} qp;
};

/*
 * @type: enum nccl_net_event. Start: @phandle is NCCL's of the operation, and *@ehandle is set if a
 * profiler wants the event. Later: only *@ehandle counts. The callback and @phandle may be NULL.
 */
typedef enum nccl_net_result (*nccl_net_profiler_fn)(void **ehandle, int type, void *phandle,
						     int64_t plugin_id, void *ext_data);

/* ---- structs ---- */

struct nccl_net_vdev_v9 {
	int ndevs;
	int devs[NCCL_NET_VDEVS_V9];
};

struct nccl_net_vdev_v12 {
	int ndevs;
	int devs[NCCL_NET_VDEVS_V12];
};

/*
 * What get_properties fills. name and pci_path belong to the plugin and live as long as it does.
 * speed: Mbit/s. latency: us. pci_path: the device's directory below /sys, or NULL.
 */
struct nccl_net_props_v6 {
	char *name;
	char *pci_path;
	uint64_t guid;
	int ptr_support;
	int speed;
	int port;
	float latency;
	int max_comms;
	int max_recvs;
};

struct nccl_net_props_v7 {
	char *name;
	char *pci_path;
	uint64_t guid;
	int ptr_support;
	int speed;
	int port;
	float latency;
	int max_comms;
	int max_recvs;
	enum nccl_net_device_type device_type;
	int device_version;
};

struct nccl_net_props_v8 {
	char *name;
	char *pci_path;
	uint64_t guid;
	int ptr_support;
	int reg_is_global;
	int speed;
	int port;
	float latency;
	int max_comms;
	int max_recvs;
	enum nccl_net_device_type device_type;
	int device_version;
};

struct nccl_net_props_v9 {
	char *name;
	char *pci_path;
	uint64_t guid;
	int ptr_support;
	int reg_is_global;
	int force_flush;
	int speed;
	int port;
	float latency;
	int max_comms;
	int max_recvs;
	enum nccl_net_device_type device_type;
	int device_version;
	struct nccl_net_vdev_v9 vdev;
	size_t max_p2p_bytes;
	size_t max_coll_bytes;
};

struct nccl_net_props_v11 {
	char *name;
	char *pci_path;
	uint64_t guid;
	int ptr_support;
	int reg_is_global;
	int force_flush;
	int speed;
	int port;
	float latency;
	int max_comms;
	int max_recvs;
	enum nccl_net_device_type device_type;
	int device_version;
	struct nccl_net_vdev_v9 vdev;
	size_t max_p2p_bytes;
	size_t max_coll_bytes;
	int max_multi_request;
};

struct nccl_net_props_v12 {
	char *name;
	char *pci_path;
	uint64_t guid;
	int ptr_support;
	int reg_is_global;
	int force_flush;
	int speed;
	int port;
	float latency;
	int max_comms;
	int max_recvs;
	enum nccl_net_device_type device_type;
	int device_version;
	struct nccl_net_vdev_v12 vdev;
	size_t max_p2p_bytes;
	size_t max_coll_bytes;
	int max_multi_request;
	int16_t rail_id;
	int16_t plane_id;
};

/* Device-side handle of connect and accept. For HOST devices the pointer stays NULL. */
struct nccl_net_device_handle {
	enum nccl_net_device_type device_type;
	int device_version;
	void *handle;
	size_t size;
	int needs_proxy_progress;
};

/* Per communicator; connect's argument in v10, init's from v11 on. */
struct nccl_net_config {
	int traffic_class;
};

struct nccl_net_comm_attr {
	int32_t max_concurrent_peers;
	int32_t min_concurrent_peers;
	int32_t max_flows_per_peer;
	int32_t min_flows_per_peer;
};

/* Hints of set_net_attr. op, algo, proto are masks: bit n stands for NCCL's enum value n. */
struct nccl_net_attr {
	struct nccl_net_comm_attr send;
	struct nccl_net_comm_attr recv;
	uint32_t op;
	uint32_t algo;
	uint32_t proto;
};

/* ---- function tables ---- */

/*
 * May be NULL in a table: reg_mr_dma_buf, get_device_mr, irecv_consumed, make_vdevice,
 * set_net_attr. Nothing else.
 */
struct nccl_net_v6 {
	const char *name;
	enum nccl_net_result (*init)(nccl_net_log_fn log);
	enum nccl_net_result (*devices)(int *ndev);
	enum nccl_net_result (*get_properties)(int dev, struct nccl_net_props_v6 *props);
	enum nccl_net_result (*listen)(int dev, void *handle, void **listen_comm);
	enum nccl_net_result (*connect)(int dev, void *handle, void **send_comm);
	enum nccl_net_result (*accept)(void *listen_comm, void **recv_comm);
	enum nccl_net_result (*reg_mr)(void *comm, void *data, int size, int type, void **mhandle);
	enum nccl_net_result (*reg_mr_dma_buf)(void *comm, void *data, size_t size, int type,
					       uint64_t offset, int fd, void **mhandle);
	enum nccl_net_result (*dereg_mr)(void *comm, void *mhandle);
	enum nccl_net_result (*isend)(void *send_comm, void *data, int size, int tag, void *mhandle,
				      void **request);
	enum nccl_net_result (*irecv)(void *recv_comm, int n, void **data, int *sizes, int *tags,
				      void **mhandles, void **request);
	enum nccl_net_result (*iflush)(void *recv_comm, int n, void **data, int *sizes,
				       void **mhandles, void **request);
	enum nccl_net_result (*test)(void *request, int *done, int *sizes);
	enum nccl_net_result (*close_send)(void *send_comm);
	enum nccl_net_result (*close_recv)(void *recv_comm);
	enum nccl_net_result (*close_listen)(void *listen_comm);
};

/* v7: handles of devices that GPUs drive, which we are not. */
struct nccl_net_v7 {
	const char *name;
	enum nccl_net_result (*init)(nccl_net_log_fn log);
	enum nccl_net_result (*devices)(int *ndev);
	enum nccl_net_result (*get_properties)(int dev, struct nccl_net_props_v7 *props);
	enum nccl_net_result (*listen)(int dev, void *handle, void **listen_comm);
	enum nccl_net_result (*connect)(int dev, void *handle, void **send_comm,
					struct nccl_net_device_handle **dev_comm);
	enum nccl_net_result (*accept)(void *listen_comm, void **recv_comm,
				       struct nccl_net_device_handle **dev_comm);
	enum nccl_net_result (*reg_mr)(void *comm, void *data, int size, int type, void **mhandle);
	enum nccl_net_result (*reg_mr_dma_buf)(void *comm, void *data, size_t size, int type,
					       uint64_t offset, int fd, void **mhandle);
	enum nccl_net_result (*dereg_mr)(void *comm, void *mhandle);
	enum nccl_net_result (*isend)(void *send_comm, void *data, int size, int tag, void *mhandle,
				      void **request);
	enum nccl_net_result (*irecv)(void *recv_comm, int n, void **data, int *sizes, int *tags,
				      void **mhandles, void **request);
	enum nccl_net_result (*iflush)(void *recv_comm, int n, void **data, int *sizes,
				       void **mhandles, void **request);
	enum nccl_net_result (*test)(void *request, int *done, int *sizes);
	enum nccl_net_result (*close_send)(void *send_comm);
	enum nccl_net_result (*close_recv)(void *recv_comm);
	enum nccl_net_result (*close_listen)(void *listen_comm);
	enum nccl_net_result (*get_device_mr)(void *comm, void *mhandle, void **dev_mhandle);
	enum nccl_net_result (*irecv_consumed)(void *recv_comm, int n, void *request);
};

/* v8: size_t size in reg_mr. */
struct nccl_net_v8 {
	const char *name;
	enum nccl_net_result (*init)(nccl_net_log_fn log);
	enum nccl_net_result (*devices)(int *ndev);
	enum nccl_net_result (*get_properties)(int dev, struct nccl_net_props_v8 *props);
	enum nccl_net_result (*listen)(int dev, void *handle, void **listen_comm);
	enum nccl_net_result (*connect)(int dev, void *handle, void **send_comm,
					struct nccl_net_device_handle **dev_comm);
	enum nccl_net_result (*accept)(void *listen_comm, void **recv_comm,
				       struct nccl_net_device_handle **dev_comm);
	enum nccl_net_result (*reg_mr)(void *comm, void *data, size_t size, int type,
				       void **mhandle);
	enum nccl_net_result (*reg_mr_dma_buf)(void *comm, void *data, size_t size, int type,
					       uint64_t offset, int fd, void **mhandle);
	enum nccl_net_result (*dereg_mr)(void *comm, void *mhandle);
	enum nccl_net_result (*isend)(void *send_comm, void *data, int size, int tag, void *mhandle,
				      void **request);
	enum nccl_net_result (*irecv)(void *recv_comm, int n, void **data, int *sizes, int *tags,
				      void **mhandles, void **request);
	enum nccl_net_result (*iflush)(void *recv_comm, int n, void **data, int *sizes,
				       void **mhandles, void **request);
	enum nccl_net_result (*test)(void *request, int *done, int *sizes);
	enum nccl_net_result (*close_send)(void *send_comm);
	enum nccl_net_result (*close_recv)(void *recv_comm);
	enum nccl_net_result (*close_listen)(void *listen_comm);
	enum nccl_net_result (*get_device_mr)(void *comm, void *mhandle, void **dev_mhandle);
	enum nccl_net_result (*irecv_consumed)(void *recv_comm, int n, void *request);
};

/* v9: size_t sizes in isend and irecv, virtual devices. */
struct nccl_net_v9 {
	const char *name;
	enum nccl_net_result (*init)(nccl_net_log_fn log);
	enum nccl_net_result (*devices)(int *ndev);
	enum nccl_net_result (*get_properties)(int dev, struct nccl_net_props_v9 *props);
	enum nccl_net_result (*listen)(int dev, void *handle, void **listen_comm);
	enum nccl_net_result (*connect)(int dev, void *handle, void **send_comm,
					struct nccl_net_device_handle **dev_comm);
	enum nccl_net_result (*accept)(void *listen_comm, void **recv_comm,
				       struct nccl_net_device_handle **dev_comm);
	enum nccl_net_result (*reg_mr)(void *comm, void *data, size_t size, int type,
				       void **mhandle);
	enum nccl_net_result (*reg_mr_dma_buf)(void *comm, void *data, size_t size, int type,
					       uint64_t offset, int fd, void **mhandle);
	enum nccl_net_result (*dereg_mr)(void *comm, void *mhandle);
	enum nccl_net_result (*isend)(void *send_comm, void *data, size_t size, int tag,
				      void *mhandle, void **request);
	enum nccl_net_result (*irecv)(void *recv_comm, int n, void **data, size_t *sizes, int *tags,
				      void **mhandles, void **request);
	enum nccl_net_result (*iflush)(void *recv_comm, int n, void **data, int *sizes,
				       void **mhandles, void **request);
	enum nccl_net_result (*test)(void *request, int *done, int *sizes);
	enum nccl_net_result (*close_send)(void *send_comm);
	enum nccl_net_result (*close_recv)(void *recv_comm);
	enum nccl_net_result (*close_listen)(void *listen_comm);
	enum nccl_net_result (*get_device_mr)(void *comm, void *mhandle, void **dev_mhandle);
	enum nccl_net_result (*irecv_consumed)(void *recv_comm, int n, void *request);
	enum nccl_net_result (*make_vdevice)(int *dev, struct nccl_net_vdev_v9 *vdev);
};

/* v10: profiler callback and handles, config at connect. */
struct nccl_net_v10 {
	const char *name;
	enum nccl_net_result (*init)(nccl_net_log_fn log, nccl_net_profiler_fn profiler);
	enum nccl_net_result (*devices)(int *ndev);
	enum nccl_net_result (*get_properties)(int dev, struct nccl_net_props_v9 *props);
	enum nccl_net_result (*listen)(int dev, void *handle, void **listen_comm);
	enum nccl_net_result (*connect)(int dev, struct nccl_net_config *config, void *handle,
					void **send_comm, struct nccl_net_device_handle **dev_comm);
	enum nccl_net_result (*accept)(void *listen_comm, void **recv_comm,
				       struct nccl_net_device_handle **dev_comm);
	enum nccl_net_result (*reg_mr)(void *comm, void *data, size_t size, int type,
				       void **mhandle);
	enum nccl_net_result (*reg_mr_dma_buf)(void *comm, void *data, size_t size, int type,
					       uint64_t offset, int fd, void **mhandle);
	enum nccl_net_result (*dereg_mr)(void *comm, void *mhandle);
	enum nccl_net_result (*isend)(void *send_comm, void *data, size_t size, int tag,
				      void *mhandle, void *phandle, void **request);
	enum nccl_net_result (*irecv)(void *recv_comm, int n, void **data, size_t *sizes, int *tags,
				      void **mhandles, void **phandles, void **request);
	enum nccl_net_result (*iflush)(void *recv_comm, int n, void **data, int *sizes,
				       void **mhandles, void **request);
	enum nccl_net_result (*test)(void *request, int *done, int *sizes);
	enum nccl_net_result (*close_send)(void *send_comm);
	enum nccl_net_result (*close_recv)(void *recv_comm);
	enum nccl_net_result (*close_listen)(void *listen_comm);
	enum nccl_net_result (*get_device_mr)(void *comm, void *mhandle, void **dev_mhandle);
	enum nccl_net_result (*irecv_consumed)(void *recv_comm, int n, void *request);
	enum nccl_net_result (*make_vdevice)(int *dev, struct nccl_net_vdev_v9 *vdev);
};

/* v11: a context per communicator, made by init with its config, ended by finalize. */
struct nccl_net_v11 {
	const char *name;
	enum nccl_net_result (*init)(void **ctx, uint64_t comm_id, struct nccl_net_config *config,
				     nccl_net_log_fn log, nccl_net_profiler_fn profiler);
	enum nccl_net_result (*devices)(int *ndev);
	enum nccl_net_result (*get_properties)(int dev, struct nccl_net_props_v11 *props);
	enum nccl_net_result (*listen)(void *ctx, int dev, void *handle, void **listen_comm);
	enum nccl_net_result (*connect)(void *ctx, int dev, void *handle, void **send_comm,
					struct nccl_net_device_handle **dev_comm);
	enum nccl_net_result (*accept)(void *listen_comm, void **recv_comm,
				       struct nccl_net_device_handle **dev_comm);
	enum nccl_net_result (*reg_mr)(void *comm, void *data, size_t size, int type,
				       void **mhandle);
	enum nccl_net_result (*reg_mr_dma_buf)(void *comm, void *data, size_t size, int type,
					       uint64_t offset, int fd, void **mhandle);
	enum nccl_net_result (*dereg_mr)(void *comm, void *mhandle);
	enum nccl_net_result (*isend)(void *send_comm, void *data, size_t size, int tag,
				      void *mhandle, void *phandle, void **request);
	enum nccl_net_result (*irecv)(void *recv_comm, int n, void **data, size_t *sizes, int *tags,
				      void **mhandles, void **phandles, void **request);
	enum nccl_net_result (*iflush)(void *recv_comm, int n, void **data, int *sizes,
				       void **mhandles, void **request);
	enum nccl_net_result (*test)(void *request, int *done, int *sizes);
	enum nccl_net_result (*close_send)(void *send_comm);
	enum nccl_net_result (*close_recv)(void *recv_comm);
	enum nccl_net_result (*close_listen)(void *listen_comm);
	enum nccl_net_result (*get_device_mr)(void *comm, void *mhandle, void **dev_mhandle);
	enum nccl_net_result (*irecv_consumed)(void *recv_comm, int n, void *request);
	enum nccl_net_result (*make_vdevice)(int *dev, struct nccl_net_vdev_v9 *vdev);
	enum nccl_net_result (*finalize)(void *ctx);
	enum nccl_net_result (*set_net_attr)(void *ctx, struct nccl_net_attr *attr);
};

/* v12: larger virtual devices, rail and plane. */
struct nccl_net_v12 {
	const char *name;
	enum nccl_net_result (*init)(void **ctx, uint64_t comm_id, struct nccl_net_config *config,
				     nccl_net_log_fn log, nccl_net_profiler_fn profiler);
	enum nccl_net_result (*devices)(int *ndev);
	enum nccl_net_result (*get_properties)(int dev, struct nccl_net_props_v12 *props);
	enum nccl_net_result (*listen)(void *ctx, int dev, void *handle, void **listen_comm);
	enum nccl_net_result (*connect)(void *ctx, int dev, void *handle, void **send_comm,
					struct nccl_net_device_handle **dev_comm);
	enum nccl_net_result (*accept)(void *listen_comm, void **recv_comm,
				       struct nccl_net_device_handle **dev_comm);
	enum nccl_net_result (*reg_mr)(void *comm, void *data, size_t size, int type,
				       void **mhandle);
	enum nccl_net_result (*reg_mr_dma_buf)(void *comm, void *data, size_t size, int type,
					       uint64_t offset, int fd, void **mhandle);
	enum nccl_net_result (*dereg_mr)(void *comm, void *mhandle);
	enum nccl_net_result (*isend)(void *send_comm, void *data, size_t size, int tag,
				      void *mhandle, void *phandle, void **request);
	enum nccl_net_result (*irecv)(void *recv_comm, int n, void **data, size_t *sizes, int *tags,
				      void **mhandles, void **phandles, void **request);
	enum nccl_net_result (*iflush)(void *recv_comm, int n, void **data, int *sizes,
				       void **mhandles, void **request);
	enum nccl_net_result (*test)(void *request, int *done, int *sizes);
	enum nccl_net_result (*close_send)(void *send_comm);
	enum nccl_net_result (*close_recv)(void *recv_comm);
	enum nccl_net_result (*close_listen)(void *listen_comm);
	enum nccl_net_result (*get_device_mr)(void *comm, void *mhandle, void **dev_mhandle);
	enum nccl_net_result (*irecv_consumed)(void *recv_comm, int n, void *request);
	enum nccl_net_result (*make_vdevice)(int *dev, struct nccl_net_vdev_v12 *vdev);
	enum nccl_net_result (*finalize)(void *ctx);
	enum nccl_net_result (*set_net_attr)(void *ctx, struct nccl_net_attr *attr);
};

/* ---- layout ---- */

#define NCCL_NET_SIZE(type, bytes) static_assert(sizeof(struct type) == (bytes), "size of " #type)
#define NCCL_NET_AT(type, field, bytes) \
	static_assert(offsetof(struct type, field) == (bytes), "offset of " #type "." #field)
#define NCCL_NET_SLOT(type, field, index) NCCL_NET_AT(type, field, 8 * (index))

NCCL_NET_SIZE(nccl_net_vdev_v9, 20);
NCCL_NET_AT(nccl_net_vdev_v9, devs, 4);
NCCL_NET_SIZE(nccl_net_vdev_v12, 36);
NCCL_NET_AT(nccl_net_vdev_v12, devs, 4);
NCCL_NET_SIZE(nccl_net_event_ib, 40);
NCCL_NET_AT(nccl_net_event_ib, qp.device, 8);
NCCL_NET_AT(nccl_net_event_ib, qp.wr_id, 16);
NCCL_NET_AT(nccl_net_event_ib, qp.opcode, 24);
NCCL_NET_AT(nccl_net_event_ib, qp.qp_num, 28);
NCCL_NET_AT(nccl_net_event_ib, qp.length, 32);
NCCL_NET_SIZE(nccl_net_config, 4);
NCCL_NET_SIZE(nccl_net_comm_attr, 16);
NCCL_NET_AT(nccl_net_comm_attr, min_concurrent_peers, 4);
NCCL_NET_AT(nccl_net_comm_attr, max_flows_per_peer, 8);
NCCL_NET_AT(nccl_net_comm_attr, min_flows_per_peer, 12);
NCCL_NET_SIZE(nccl_net_attr, 44);
NCCL_NET_AT(nccl_net_attr, recv, 16);
NCCL_NET_AT(nccl_net_attr, op, 32);
NCCL_NET_AT(nccl_net_attr, algo, 36);
NCCL_NET_AT(nccl_net_attr, proto, 40);
NCCL_NET_SIZE(nccl_net_device_handle, 32);
NCCL_NET_AT(nccl_net_device_handle, device_version, 4);
NCCL_NET_AT(nccl_net_device_handle, handle, 8);
NCCL_NET_AT(nccl_net_device_handle, size, 16);
NCCL_NET_AT(nccl_net_device_handle, needs_proxy_progress, 24);

/* What v6 and v7 have in common. */
#define NCCL_NET_PROPS_V6_UP(type) \
	NCCL_NET_AT(type, name, 0); \
	NCCL_NET_AT(type, pci_path, 8); \
	NCCL_NET_AT(type, guid, 16); \
	NCCL_NET_AT(type, ptr_support, 24); \
	NCCL_NET_AT(type, speed, 28); \
	NCCL_NET_AT(type, port, 32); \
	NCCL_NET_AT(type, latency, 36); \
	NCCL_NET_AT(type, max_comms, 40); \
	NCCL_NET_AT(type, max_recvs, 44)

NCCL_NET_PROPS_V6_UP(nccl_net_props_v6);
NCCL_NET_SIZE(nccl_net_props_v6, 48);

NCCL_NET_PROPS_V6_UP(nccl_net_props_v7);
NCCL_NET_SIZE(nccl_net_props_v7, 56);
NCCL_NET_AT(nccl_net_props_v7, device_type, 48);
NCCL_NET_AT(nccl_net_props_v7, device_version, 52);

NCCL_NET_SIZE(nccl_net_props_v8, 64);
NCCL_NET_AT(nccl_net_props_v8, name, 0);
NCCL_NET_AT(nccl_net_props_v8, pci_path, 8);
NCCL_NET_AT(nccl_net_props_v8, guid, 16);
NCCL_NET_AT(nccl_net_props_v8, ptr_support, 24);
NCCL_NET_AT(nccl_net_props_v8, reg_is_global, 28);
NCCL_NET_AT(nccl_net_props_v8, speed, 32);
NCCL_NET_AT(nccl_net_props_v8, port, 36);
NCCL_NET_AT(nccl_net_props_v8, latency, 40);
NCCL_NET_AT(nccl_net_props_v8, max_comms, 44);
NCCL_NET_AT(nccl_net_props_v8, max_recvs, 48);
NCCL_NET_AT(nccl_net_props_v8, device_type, 52);
NCCL_NET_AT(nccl_net_props_v8, device_version, 56);

/* What v9, v11 and v12 have in common. */
#define NCCL_NET_PROPS_V9_UP(type) \
	NCCL_NET_AT(type, name, 0); \
	NCCL_NET_AT(type, pci_path, 8); \
	NCCL_NET_AT(type, guid, 16); \
	NCCL_NET_AT(type, ptr_support, 24); \
	NCCL_NET_AT(type, reg_is_global, 28); \
	NCCL_NET_AT(type, force_flush, 32); \
	NCCL_NET_AT(type, speed, 36); \
	NCCL_NET_AT(type, port, 40); \
	NCCL_NET_AT(type, latency, 44); \
	NCCL_NET_AT(type, max_comms, 48); \
	NCCL_NET_AT(type, max_recvs, 52); \
	NCCL_NET_AT(type, device_type, 56); \
	NCCL_NET_AT(type, device_version, 60); \
	NCCL_NET_AT(type, vdev, 64)

NCCL_NET_PROPS_V9_UP(nccl_net_props_v9);
NCCL_NET_SIZE(nccl_net_props_v9, 104);
NCCL_NET_AT(nccl_net_props_v9, max_p2p_bytes, 88);
NCCL_NET_AT(nccl_net_props_v9, max_coll_bytes, 96);

NCCL_NET_PROPS_V9_UP(nccl_net_props_v11);
NCCL_NET_SIZE(nccl_net_props_v11, 112);
NCCL_NET_AT(nccl_net_props_v11, max_p2p_bytes, 88);
NCCL_NET_AT(nccl_net_props_v11, max_coll_bytes, 96);
NCCL_NET_AT(nccl_net_props_v11, max_multi_request, 104);

NCCL_NET_PROPS_V9_UP(nccl_net_props_v12);
NCCL_NET_SIZE(nccl_net_props_v12, 128);
NCCL_NET_AT(nccl_net_props_v12, max_p2p_bytes, 104);
NCCL_NET_AT(nccl_net_props_v12, max_coll_bytes, 112);
NCCL_NET_AT(nccl_net_props_v12, max_multi_request, 120);
NCCL_NET_AT(nccl_net_props_v12, rail_id, 124);
NCCL_NET_AT(nccl_net_props_v12, plane_id, 126);

/* v6 to v12 agree on every slot they share; each version only adds at the end. */
#define NCCL_NET_SLOTS_V6_UP(type) \
	NCCL_NET_SLOT(type, name, 0); \
	NCCL_NET_SLOT(type, init, 1); \
	NCCL_NET_SLOT(type, devices, 2); \
	NCCL_NET_SLOT(type, get_properties, 3); \
	NCCL_NET_SLOT(type, listen, 4); \
	NCCL_NET_SLOT(type, connect, 5); \
	NCCL_NET_SLOT(type, accept, 6); \
	NCCL_NET_SLOT(type, reg_mr, 7); \
	NCCL_NET_SLOT(type, reg_mr_dma_buf, 8); \
	NCCL_NET_SLOT(type, dereg_mr, 9); \
	NCCL_NET_SLOT(type, isend, 10); \
	NCCL_NET_SLOT(type, irecv, 11); \
	NCCL_NET_SLOT(type, iflush, 12); \
	NCCL_NET_SLOT(type, test, 13); \
	NCCL_NET_SLOT(type, close_send, 14); \
	NCCL_NET_SLOT(type, close_recv, 15); \
	NCCL_NET_SLOT(type, close_listen, 16)

#define NCCL_NET_SLOTS_V7_UP(type) \
	NCCL_NET_SLOTS_V6_UP(type); \
	NCCL_NET_SLOT(type, get_device_mr, 17); \
	NCCL_NET_SLOT(type, irecv_consumed, 18)

NCCL_NET_SLOTS_V6_UP(nccl_net_v6);
NCCL_NET_SIZE(nccl_net_v6, 136);

NCCL_NET_SLOTS_V7_UP(nccl_net_v7);
NCCL_NET_SIZE(nccl_net_v7, 152);

NCCL_NET_SLOTS_V7_UP(nccl_net_v8);
NCCL_NET_SIZE(nccl_net_v8, 152);

NCCL_NET_SLOTS_V7_UP(nccl_net_v9);
NCCL_NET_SLOT(nccl_net_v9, make_vdevice, 19);
NCCL_NET_SIZE(nccl_net_v9, 160);

NCCL_NET_SLOTS_V7_UP(nccl_net_v10);
NCCL_NET_SLOT(nccl_net_v10, make_vdevice, 19);
NCCL_NET_SIZE(nccl_net_v10, 160);

NCCL_NET_SLOTS_V7_UP(nccl_net_v11);
NCCL_NET_SLOT(nccl_net_v11, make_vdevice, 19);
NCCL_NET_SLOT(nccl_net_v11, finalize, 20);
NCCL_NET_SLOT(nccl_net_v11, set_net_attr, 21);
NCCL_NET_SIZE(nccl_net_v11, 176);

NCCL_NET_SLOTS_V7_UP(nccl_net_v12);
NCCL_NET_SLOT(nccl_net_v12, make_vdevice, 19);
NCCL_NET_SLOT(nccl_net_v12, finalize, 20);
NCCL_NET_SLOT(nccl_net_v12, set_net_attr, 21);
NCCL_NET_SIZE(nccl_net_v12, 176);

#undef NCCL_NET_SIZE
#undef NCCL_NET_AT
#undef NCCL_NET_SLOT
#undef NCCL_NET_PROPS_V6_UP
#undef NCCL_NET_PROPS_V9_UP
#undef NCCL_NET_SLOTS_V6_UP
#undef NCCL_NET_SLOTS_V7_UP

#ifdef __cplusplus
}
#endif

#endif
