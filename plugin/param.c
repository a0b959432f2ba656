/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of environment parameters. */
#include "param.h"

#include <pthread.h>

#include "limits.h"
#include "srd_env.h"

static struct net_param param;

static const struct srd_env table[] = {
	{"NCCL_EFA_ABORT_ON_ERROR", SRD_ENV_INT, offsetof(struct net_param, abort_on_error),
	 .def = "0", .min = 0, .max = 1,
	 .text = "1: abort() when a connection fails, for a core file; 0: NCCL gets the error"},
	{"NCCL_EFA_CONNECT_TIMEOUT", SRD_ENV_INT, offsetof(struct net_param, connect_timeout_s),
	 .def = "120", .min = 0, .max = 86400,
	 .text = "seconds until a connection that the peer does not answer fails; 0: never"},
	{"NCCL_EFA_DMABUF", SRD_ENV_INT, offsetof(struct net_param, dmabuf), .def = "1", .min = 0,
	 .max = 1,
	 .text = "1: GPU memory is registered as dma-buf where that works; 0: only by a "
		 "peer-memory module"},
	{"NCCL_EFA_EAGER_MAX", SRD_ENV_INT, offsetof(struct net_param, eager_max), .def = "8192",
	 .min = -1, .max = 65536,
	 .text = "bytes up to which a send may go ahead of its receive, no more than fit into a "
		 "packet; 0 or -1: none does"},
	{"NCCL_EFA_FAILOVER", SRD_ENV_INT, offsetof(struct net_param, failover), .def = "1",
	 .min = 0, .max = 1,
	 .text = "1: a rail that does not reach the peer is taken out; 0: that is an error"},
	{"NCCL_EFA_FLUSH", SRD_ENV_CHOICE, offsetof(struct net_param, flush), .def = "auto",
	 .choices = "auto|read|cuda|off",
	 .text = "how data become visible to a GPU: by an RDMA read of the NIC, or by CUDA; auto: "
		 "by a read where the NIC can"},
	{"NCCL_EFA_IN_ORDER", SRD_ENV_CHOICE, offsetof(struct net_param, in_order), .def = "auto",
	 .choices = "auto|yes|no",
	 .text = "whether NCCL may use LL and LL128 between nodes; auto: as the NIC says, which "
		 "must be the same for all ranks"},
	{"NCCL_EFA_MIN_STRIPE", SRD_ENV_INT, offsetof(struct net_param, min_stripe),
	 .def = "131072", .min = 4096, .max = 1 << 30,
	 .text = "bytes of a message that each rail gets at least"},
	{"NCCL_EFA_MR_CACHE", SRD_ENV_INT, offsetof(struct net_param, mr_cache), .def = "1",
	 .min = 0, .max = 1,
	 .text = "1: comms share the registrations of the same pages; 0: each has its own"},
	{"NCCL_EFA_PROTOCOL", SRD_ENV_CHOICE, offsetof(struct net_param, protocol), .def = "auto",
	 .choices = "auto|write|read|send",
	 .text = "how data move; auto: the first that both sides can"},
	{"NCCL_EFA_RAILS", SRD_ENV_INT, offsetof(struct net_param, rails), .def = "0", .min = 0,
	 .max = NET_MAX_RAILS,
	 .text = "EFA functions of one NCCL device; 0: by their distance to the GPUs"},
	{"NCCL_EFA_SET_NCCL_ENV", SRD_ENV_INT, offsetof(struct net_param, set_nccl_env), .def = "1",
	 .min = 0, .max = 1,
	 .text = "1: NCCL_* variables that must have a value here get it at init, unless they are "
		 "set; 0: none is set"},
	{"NCCL_EFA_STALL_WARN_S", SRD_ENV_INT, offsetof(struct net_param, stall_warn_s),
	 .def = "60", .min = 0, .max = 86400,
	 .text = "seconds after which requests that nothing happens to are warned of; 0: never"},
	{"NCCL_EFA_STATS", SRD_ENV_STRING, offsetof(struct net_param, stats), .def = "",
	 .max = sizeof(param.stats),
	 .text = "file for counters as JSON, written every second and at the end; %p in it is "
		 "the process"},
};

static void load(void)
{
	srd_env_load(&param, table, sizeof(table) / sizeof(table[0]));
}

const struct net_param *net_param(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load);
	return &param;
}

const struct srd_env *srd_env_plugin(size_t *n)
{
	*n = sizeof(table) / sizeof(table[0]);
	return table;
}
