/* SPDX-License-Identifier: BSD-3-Clause */
/* NCCL's calls: arguments checked, -errno turned into NCCL's results; and the newest table. */
#include "net.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "comm.h"
#include "conn.h"
#include "device.h"
#include "event.h"
#include "flush.h"
#include "log.h"
#include "mem.h"
#include "mrcache.h"
#include "order.h"
#include "p2p.h"
#include "profile.h"
#include "stats.h"
#include "param.h"

#define NOINLINE __attribute__((noinline))

enum { MAX_COMMS = 1 << 16 }; /* of a device: what NCCL plans with */

static enum nccl_net_result result(int rc)
{
	switch (-rc) {
	case 0:
		return NCCL_NET_OK;
	case EINVAL:
		return NCCL_NET_INVALID_ARGUMENT;
	case EOPNOTSUPP:
		return NCCL_NET_INVALID_USAGE;
	case ENOMEM:
	case ENODEV:
	case EACCES:
	case EPERM:
	case EUSERS:
		return NCCL_NET_SYSTEM_ERROR;
	default:
		return NCCL_NET_REMOTE_ERROR;
	}
}

/* Of a call on a comm: whatever went wrong there, the connection is what failed. */
static enum nccl_net_result comm_result(int rc)
{
	return rc ? NCCL_NET_REMOTE_ERROR : NCCL_NET_OK;
}

/* ---- life ---- */

/*
 * What a communicator gets from init, by its profiler: two copies of NCCL in a process have two.
 * They stay. Of a version without contexts, the newest counts.
 */
struct context {
	nccl_net_profiler_fn profiler;
};

enum { CONTEXTS = 16 }; /* more copies of NCCL than that have no events */

static pthread_mutex_t life = PTHREAD_MUTEX_INITIALIZER;
static int inits;                         /* not finalized yet */
static struct context contexts[CONTEXTS]; /* the first has no profiler */
static int ncontexts = 1;
static struct context *newest = contexts;

static struct context *context_for(nccl_net_profiler_fn profiler)
{
	int i = 0;

	pthread_mutex_lock(&life);
	while (i < ncontexts && contexts[i].profiler != profiler)
		i++;
	if (i == ncontexts && ncontexts < CONTEXTS)
		contexts[ncontexts++].profiler = profiler;
	pthread_mutex_unlock(&life);
	return i < CONTEXTS ? &contexts[i] : contexts;
}

/* @tuner: NCCL 2.26 and later, which take the tuner of the net plugin's library. */
static void start(nccl_net_log_fn log, bool tuner)
{
	pthread_mutex_lock(&life);
	net_log_to(log);
	inits++;
	if (net_devs_find())
		net_order_init(tuner);
	pthread_mutex_unlock(&life);
}

enum nccl_net_result net_init(nccl_net_log_fn log)
{
	start(log, false);
	return NCCL_NET_OK;
}

enum nccl_net_result net_init_prof(nccl_net_log_fn log, nccl_net_profiler_fn profiler)
{
	__atomic_store_n(&newest, context_for(profiler), __ATOMIC_RELEASE);
	start(log, true);
	return NCCL_NET_OK;
}

enum nccl_net_result net_finalize(void)
{
	pthread_mutex_lock(&life);
	if (inits && --inits == 0)
		net_devs_close_idle();
	pthread_mutex_unlock(&life);
	net_stats_write();
	return NCCL_NET_OK;
}

/* ---- devices ---- */

enum nccl_net_result net_devices(int *ndev)
{
	*ndev = net_devs_find();
	return NCCL_NET_OK;
}

enum nccl_net_result net_properties(int dev, struct nccl_net_props_v12 *props)
{
	struct net_dev *d = net_dev_at(dev);

	if (!d)
		return NCCL_NET_INVALID_ARGUMENT;
	memset(props, 0, sizeof(*props));
	props->name = d->name;
	props->pci_path = d->pci_path;
	props->guid = d->guid;
	/* Without RDMA the CPU copies. */
	props->ptr_support = net_dev_mode(d) == PROTO_SEND ? NCCL_NET_PTR_HOST : net_mem_support();
	props->speed = (int)d->speed_mbps;
	props->port = 1;
	props->latency = d->latency_us;
	props->max_comms = MAX_COMMS;
	props->max_recvs = NET_MAX_RECVS;
	props->device_type = NCCL_NET_DEV_HOST;
	props->vdev.ndevs = 1;
	props->vdev.devs[0] = dev;
	props->max_p2p_bytes = d->max_bytes;
	props->max_coll_bytes = d->max_bytes;
	props->max_multi_request = 1;
	/* EFA has no rails between hosts: each NIC reaches all. NCCL then goes by guid. */
	props->rail_id = NCCL_NET_ID_NONE;
	props->plane_id = NCCL_NET_ID_NONE;
	return NCCL_NET_OK;
}

/* ---- connections ---- */

_Static_assert((int)PROTO_HANDLE_BYTES == (int)NCCL_NET_HANDLE_BYTES, "handle");

enum nccl_net_result net_listen_ctx(void *ctx, int dev, void *handle, void **listen_comm)
{
	struct net_dev *d = net_dev_at(dev);
	struct net_listen *l = NULL;
	int rc;

	*listen_comm = NULL;
	if (!d)
		return NCCL_NET_INVALID_ARGUMENT;
	rc = net_listen(d, handle, &l);
	if (rc == 0 && ctx)
		net_listen_profiler(l, ((struct context *)ctx)->profiler);
	*listen_comm = l;
	return result(rc);
}

enum nccl_net_result net_connect_ctx(void *ctx, int dev, void *handle, void **send_comm,
				     struct nccl_net_device_handle **dev_comm)
{
	struct net_dev *d = net_dev_at(dev);
	struct net_send *s = NULL;
	int rc;

	*send_comm = NULL;
	if (!d)
		return NCCL_NET_INVALID_ARGUMENT;
	(void)dev_comm;
	rc = net_connect(d, handle, &s);
	if (s && ctx)
		s->c.profiler = ((struct context *)ctx)->profiler;
	*send_comm = s;
	return result(rc);
}

static struct context *newest_context(void)
{
	return __atomic_load_n(&newest, __ATOMIC_ACQUIRE);
}

enum nccl_net_result net_listen_on(int dev, void *handle, void **listen_comm)
{
	return net_listen_ctx(newest_context(), dev, handle, listen_comm);
}

enum nccl_net_result net_connect_to(int dev, void *handle, void **send_comm)
{
	return net_connect_ctx(newest_context(), dev, handle, send_comm, NULL);
}

enum nccl_net_result net_accept_on(void *listen_comm, void **recv_comm)
{
	struct net_recv *r = NULL;
	int rc = net_accept(listen_comm, &r);

	*recv_comm = r;
	return result(rc);
}

static void close_comm(struct net_comm *c)
{
	if (!c)
		return;
	net_profile_end(c);
	net_comm_close(c);
}

enum nccl_net_result net_close_send(void *send_comm)
{
	close_comm(send_comm);
	return NCCL_NET_OK;
}

enum nccl_net_result net_close_recv(void *recv_comm)
{
	close_comm(recv_comm);
	return NCCL_NET_OK;
}

enum nccl_net_result net_close_listen(void *listen_comm)
{
	if (listen_comm)
		net_listen_close(listen_comm);
	return NCCL_NET_OK;
}

/* ---- memory ---- */

static struct net_mrcache *cache_of(void *comm)
{
	return &((struct net_comm *)comm)->engine->dev->mrs;
}

static enum nccl_net_result reg(void *comm, const struct net_range *range, void **mhandle)
{
	struct net_engine *e = ((struct net_comm *)comm)->engine;
	uint8_t broken = net_event_broken(e->dev);
	struct net_mr *mr = NULL;
	int rc = net_mr_get(&e->dev->mrs, range, broken, &mr);

	if (broken)
		net_event_tell(e); /* that it has keys for the others alone */
	*mhandle = mr;
	if (rc == -EINVAL)
		return NCCL_NET_INVALID_ARGUMENT;
	return rc ? NCCL_NET_SYSTEM_ERROR : NCCL_NET_OK;
}

static bool registrable(const struct net_comm *c, int type)
{
	if (type == NCCL_NET_PTR_HOST)
		return true;
	if (type == NCCL_NET_PTR_CUDA && c->engine->mode == PROTO_SEND) {
		net_warn("NET/EFA: %s and the peer have no RDMA in common: memory of GPUs is out "
			 "of reach. Set NCCL_NET_GDR_LEVEL=LOC on all ranks",
			 c->engine->dev->name);
		return false;
	}
	if (type == NCCL_NET_PTR_CUDA && net_mem_support() & NCCL_NET_PTR_CUDA)
		return true;
	net_warn("NET/EFA: memory of type %d cannot be registered, only %s", type,
		 net_mem_support() & NCCL_NET_PTR_CUDA ? "1 (host) and 2 (CUDA)" : "1 (host)");
	return false;
}

enum nccl_net_result net_reg_mr(void *comm, void *data, size_t size, int type, void **mhandle)
{
	const struct net_range range = {
		.addr = (uintptr_t)data, .len = size, .gpu = type == NCCL_NET_PTR_CUDA, .fd = -1};

	*mhandle = NULL;
	return registrable(comm, type) ? reg(comm, &range, mhandle) : NCCL_NET_INVALID_USAGE;
}

/* The fd is NCCL's, who closes it when this returns. */
enum nccl_net_result net_reg_mr_dma_buf(void *comm, void *data, size_t size, int type,
					uint64_t offset, int fd, void **mhandle)
{
	const struct net_range range = {.addr = (uintptr_t)data,
					.len = size,
					.gpu = type == NCCL_NET_PTR_CUDA,
					.fd = net_param()->dmabuf ? fd : -1,
					.offset = offset};

	*mhandle = NULL;
	return registrable(comm, type) ? reg(comm, &range, mhandle) : NCCL_NET_INVALID_USAGE;
}

enum nccl_net_result net_dereg_mr(void *comm, void *mhandle)
{
	if (!mhandle)
		return NCCL_NET_OK;
	net_forget(comm, mhandle);
	net_mr_put(cache_of(comm), mhandle);
	return NCCL_NET_OK;
}

/* ---- data ---- */

enum nccl_net_result net_send_to(void *send_comm, void *data, size_t size, int tag, void *mhandle,
				 void **request)
{
	return comm_result(net_isend(send_comm, data, size, tag, mhandle, request));
}

enum nccl_net_result net_recv_from(void *recv_comm, int n, void **data, const size_t *sizes,
				   const int *tags, void **mhandles, void **request)
{
	if (n < 1 || n > NET_MAX_RECVS) {
		*request = NULL;
		net_warn("NET/EFA: a receive of %d buffers, the limit is %d", n, NET_MAX_RECVS);
		return NCCL_NET_INVALID_USAGE;
	}
	return comm_result(net_irecv(recv_comm, n, data, sizes, tags, mhandles, request));
}

enum nccl_net_result net_flush(void *recv_comm, int n, void **data, int *sizes, void **mhandles,
			       void **request)
{
	return comm_result(net_iflush(recv_comm, n, data, sizes, mhandles, request));
}

enum nccl_net_result net_test_request(void *request, int *done, int *sizes)
{
	return comm_result(net_test(request, done, sizes));
}

/* ---- version 12 ---- */

enum nccl_net_result net_init_ctx(void **ctx, uint64_t comm_id, struct nccl_net_config *config,
				  nccl_net_log_fn log, nccl_net_profiler_fn profiler)
{
	(void)comm_id;
	(void)config;
	*ctx = context_for(profiler);
	start(log, true);
	return NCCL_NET_OK;
}

enum nccl_net_result net_finalize_ctx(void *ctx)
{
	return ctx ? net_finalize() : NCCL_NET_OK;
}

enum nccl_net_result net_accept_dev(void *listen_comm, void **recv_comm,
				    struct nccl_net_device_handle **dev_comm)
{
	(void)dev_comm;
	return net_accept_on(listen_comm, recv_comm);
}

/* Kept apart: without a handle, nothing is to be done after the call. */
static NOINLINE enum nccl_net_result send_profiled(void *send_comm, void *data, size_t size,
						   int tag, void *mhandle, void *phandle,
						   void **request)
{
	enum nccl_net_result rc = net_send_to(send_comm, data, size, tag, mhandle, request);
	struct net_req *req = *request;

	if (req)
		net_profile_start(req, 1, &phandle, &(size_t){req->bytes});
	return rc;
}

static NOINLINE enum nccl_net_result recv_profiled(void *recv_comm, int n, void **data,
						   const size_t *sizes, const int *tags,
						   void **mhandles, void **phandles, void **request)
{
	enum nccl_net_result rc = net_recv_from(recv_comm, n, data, sizes, tags, mhandles, request);

	if (*request)
		net_profile_start(*request, n, phandles, sizes);
	return rc;
}

enum nccl_net_result net_isend_prof(void *send_comm, void *data, size_t size, int tag,
				    void *mhandle, void *phandle, void **request)
{
	if (phandle)
		return send_profiled(send_comm, data, size, tag, mhandle, phandle, request);
	return net_send_to(send_comm, data, size, tag, mhandle, request);
}

enum nccl_net_result net_irecv_prof(void *recv_comm, int n, void **data, size_t *sizes, int *tags,
				    void **mhandles, void **phandles, void **request)
{
	if (phandles)
		return recv_profiled(recv_comm, n, data, sizes, tags, mhandles, phandles, request);
	return net_recv_from(recv_comm, n, data, sizes, tags, mhandles, request);
}

NET_EXPORT const struct nccl_net_v12 ncclNetPlugin_v12 = {
	NET_TABLE_V6,
	.reg_mr = net_reg_mr,
	.accept = net_accept_dev,
	.init = net_init_ctx,
	.get_properties = net_properties,
	.listen = net_listen_ctx,
	.connect = net_connect_ctx,
	.isend = net_isend_prof,
	.irecv = net_irecv_prof,
	.finalize = net_finalize_ctx,
};
