/* SPDX-License-Identifier: BSD-3-Clause */
/* Does the NIC keep order, and what NCCL is told. */
#include "order.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "device.h"
#include "log.h"
#include "nccl_tuner_abi.h"
#include "param.h"

enum {
	LL = 1 << NCCL_TUNER_PROTO_LL,
	LL128 = 1 << NCCL_TUNER_PROTO_LL128,
	SIMPLE = 1 << NCCL_TUNER_PROTO_SIMPLE,
};

/* ---- the NIC ---- */

/* Only a queue pair can be asked. @name: of an EFA. */
static bool ask(const char *name)
{
	struct srd_qp_attr attr = {.max_send_wr = 1, .max_recv_wr = 1};
	struct srd_qp qp = {0};
	struct srd_cq cq = {0};
	struct srd_pd pd = {0};
	struct srd_dev dev;
	bool kept = false;
	int rc = srd_dev_open(&dev, name);

	if (!rc)
		rc = srd_pd_init(&pd, &dev);
	if (!rc)
		rc = srd_cq_init(&cq, &dev, &(struct srd_cq_attr){.cqe = 2});
	attr.send_cq = attr.recv_cq = &cq;
	if (!rc)
		rc = srd_qp_init(&qp, &pd, &attr);
	if (!rc)
		kept = srd_qp_in_order_128(&qp, IBV_WR_RDMA_WRITE);
	srd_qp_fini(&qp);
	srd_cq_fini(&cq);
	srd_pd_fini(&pd);
	srd_dev_close(&dev);
	return kept;
}

static bool kept;
static atomic_bool in_use;

static void find_out(void)
{
	enum net_in_order order = (enum net_in_order)net_param()->in_order;
	int ndevs = net_devs_find();
	const struct net_dev *dev;
	char why[256];

	if (order == NET_IN_ORDER_NO || !ndevs) {
		kept = order != NET_IN_ORDER_NO;
		return;
	}
	/* Each device of a node is like the others; not all processes shall ask the same one. */
	dev = net_dev_at((int)(getpid() % ndevs));
	if (order == NET_IN_ORDER_YES) {
		kept = net_dev_mode(dev) != PROTO_SEND;
		if (!kept)
			net_warn("NET/EFA: NCCL_EFA_IN_ORDER=yes is ignored: data go by messages, "
				 "whose pieces come in any order, whatever the NIC does. LL and "
				 "LL128 stay forbidden");
		return;
	}
	if (net_dev_mode(dev) != PROTO_WRITE)
		return; /* pieces of a message come in any order */
	net_log_capture(why, sizeof(why));
	kept = ask(dev->efa[0]);
	net_log_capture(NULL, 0);
}

bool net_order_kept(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_out);
	return kept;
}

bool net_order_forbids(void)
{
	return atomic_load(&in_use) && !net_order_kept();
}

/* ---- NCCL_PROTO ---- */

static unsigned protocol(const char *word, size_t len)
{
	static const char *const names[] = {"LL", "LL128", "Simple"};

	for (unsigned i = 0; i < 3; i++)
		if (strlen(names[i]) == len && strncasecmp(names[i], word, len) == 0)
			return 1u << i;
	return 0;
}

/* "LL,Simple" or "^LL128" */
static unsigned list_allows(const char *list, size_t len)
{
	const char *end = list + len;
	bool but = len && *list == '^';
	unsigned named = 0;

	for (list += but; list < end;) {
		const char *comma = memchr(list, ',', (size_t)(end - list));
		size_t n = (size_t)((comma ? comma : end) - list);

		named |= protocol(list, n);
		list += n + 1;
	}
	return but ? ~named & (LL | LL128 | SIMPLE) : named;
}

/* Lists for one collective, as "allreduce:LL", are separated by semicolons from that for all. */
unsigned net_order_allowed(const char *nccl_proto)
{
	unsigned allowed = 0;

	while (*nccl_proto) {
		size_t len = strcspn(nccl_proto, ";"), name = strcspn(nccl_proto, ":");
		size_t skip = name < len ? name + 1 : 0;

		allowed |= list_allows(nccl_proto + skip, len - skip);
		nccl_proto += len + (nccl_proto[len] == ';');
	}
	return allowed;
}

/* ---- at init ---- */

/* NCCL takes no tuner from here when another one is named, or lies where it looks first. */
static bool other_tuner(void)
{
	static bool looked, there;
	void *lib;

	if (getenv("NCCL_TUNER_PLUGIN"))
		return true;
	if (!looked) {
		lib = dlopen("libnccl-tuner.so", RTLD_LAZY | RTLD_LOCAL);
		there = lib != NULL;
		if (lib)
			dlclose(lib);
	}
	looked = true;
	return there;
}

static void tell_once(const char *how)
{
	static bool told;

	if (!told)
		net_info("NET/EFA: LL and LL128 are %s", how);
	told = true;
}

static void warn_once(const char *name, const char *value)
{
	static bool warned;

	if (!warned)
		net_warn("NET/EFA: %s, %s, lets NCCL use LL or LL128, whose data this NIC may "
			 "place out of order: results can be wrong",
			 name, value);
	warned = true;
}

void net_order_init(bool tuner)
{
	const char *set = getenv("NCCL_PROTO");
	const char *p2p = getenv("NCCL_ALLOC_P2P_NET_LL_BUFFERS");
	unsigned allowed;

	atomic_store(&in_use, true);
	if (net_order_kept()) {
		tell_once("allowed: aligned 128 bytes are placed in order");
		return;
	}
	tuner = tuner && !other_tuner();
	allowed = set ? net_order_allowed(set) : LL | LL128 | SIMPLE;
	if (tuner) {
		tell_once("forbidden between nodes, by the tuner: the NIC may place their data "
			  "out of order");
	} else if (!set && net_param()->set_nccl_env) {
		setenv("NCCL_PROTO", "Simple", 0);
		allowed = SIMPLE;
		tell_once("forbidden, by NCCL_PROTO=Simple: the NIC may place their data out of "
			  "order");
	} else if (!(allowed & (LL | LL128))) {
		tell_once("not allowed by NCCL_PROTO, nor does the NIC place their data in order");
	}
	if (p2p && strcmp(p2p, "1") == 0)
		warn_once("NCCL_ALLOC_P2P_NET_LL_BUFFERS", p2p);
	if (allowed & (LL | LL128) && !(tuner && allowed & SIMPLE))
		warn_once("NCCL_PROTO", set ? set : "not set");
}

void net_order_meet(bool peer_kept)
{
	static atomic_bool warned;
	const char *set = getenv("NCCL_PROTO");

	if (peer_kept == net_order_kept() || (set && !(net_order_allowed(set) & (LL | LL128))) ||
	    atomic_exchange(&warned, true))
		return;
	net_warn("NET/EFA: a peer %s LL and LL128, and this rank %s: all ranks must use the same "
		 "protocols. Set NCCL_EFA_IN_ORDER=no for all of them",
		 peer_kept ? "allows" : "forbids", peer_kept ? "does not" : "allows them");
}
