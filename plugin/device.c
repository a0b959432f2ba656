/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding, opening and closing devices. */
#include "device.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "absent.h"
#include "cm.h"
#include "config.h"
#include "engine.h"
#include "event.h"
#include "log.h"
#include "param.h"
#include "platform.h"
#include "proto.h"
#include "rails.h"
#include "topo_xml.h"

enum {
	MAX_BYTES = 1 << 30, /* of a message, what NCCL sends at most */
	WHY_BYTES = 256,
};

/* NCCL has room for 128, and does not check. */
static_assert(NET_MAX_EFAS <= 128, "as many devices at most");

static struct net_dev *devs[NET_MAX_EFAS];
static int ndevs;

/* ---- find ---- */

/* One-way latency for NCCL's tuning: what EFA's own plugin assumes, by generation. */
static float latency_us(uint32_t part_id)
{
	return part_id >= 0xefa2 ? 35 : 75;
}

static uint8_t wire_caps(const struct srd_dev_attr *attr)
{
	uint8_t caps = PROTO_CAP_QUIET;

	if (attr->caps & SRD_CAP_RDMA_WRITE)
		caps |= PROTO_CAP_WRITE;
	if (attr->caps & SRD_CAP_UNSOLICITED_WRITE_RECV)
		caps |= PROTO_CAP_UNSOLICITED;
	if (attr->caps & SRD_CAP_RDMA_READ)
		caps |= PROTO_CAP_READ;
	if (net_param()->eager_max > 0)
		caps |= PROTO_CAP_EAGER;
	return caps;
}

/* What is found on the host, before it is grouped. */
struct found {
	int n, unopened;
	struct net_efa efa[NET_MAX_EFAS];
	struct srd_dev_attr attr[NET_MAX_EFAS];
	int ngpus;
	struct srd_pci gpu[NET_MAX_GPUS];
	int ngroups;
	struct net_rail_group group[NET_MAX_EFAS];
};

/* A function that cannot be used is left out, the others are not. */
static void look_at(struct found *f, const struct srd_dev_info *info)
{
	struct net_efa *efa = &f->efa[f->n];
	struct srd_dev d;

	if (srd_dev_open(&d, info->name)) {
		net_info("NET/EFA: %s left out: %s", info->name, net_log_reason());
		f->unopened++;
		return;
	}
	f->attr[f->n] = d.attr;
	srd_dev_close(&d);
	*efa = (struct net_efa){.guid = info->guid, .speed_mbps = f->attr[f->n].speed_mbps};
	memcpy(efa->name, info->name, sizeof(info->name));
	srd_pci_of_dev(NULL, info->name, &efa->pci); /* what it cannot tell is unknown */
	f->n++;
}

static void add_efa(struct net_dev *dev, const struct found *f, int i)
{
	memcpy(dev->efa[dev->nefas++], f->efa[i].name, sizeof(dev->efa[0]));
	dev->caps &= wire_caps(&f->attr[i]);
	if (f->attr[i].max_rdma_size && f->attr[i].max_rdma_size < dev->max_bytes)
		dev->max_bytes = f->attr[i].max_rdma_size;
}

/* As it is before it is opened. */
static void name_rails(struct net_dev *dev)
{
	dev->nrails = dev->nefas;
	for (int i = 0; i < dev->nefas; i++)
		memcpy(dev->nic[i].name, dev->efa[i], sizeof(dev->nic[i].name));
}

static void add(const struct found *f, const struct net_rail_group *group)
{
	struct net_dev *dev = calloc(1, sizeof(*dev));

	if (!dev) {
		net_warn("NET/EFA: %s left out: no memory", group->name);
		return;
	}
	snprintf(dev->name, sizeof(dev->name), "%s", group->name);
	dev->pci_path = group->pci_path ? strdup(group->pci_path) : NULL;
	dev->guid = group->guid;
	dev->speed_mbps = group->speed_mbps;
	dev->latency_us = latency_us(f->attr[group->rail[0]].part_id);
	dev->caps = UINT8_MAX;
	dev->max_bytes = MAX_BYTES;
	for (int i = 0; i < group->nrails; i++)
		add_efa(dev, f, group->rail[i]);
	name_rails(dev);
	pthread_mutex_init(&dev->lock, NULL);
	pthread_mutex_init(&dev->opening, NULL);
	dev->current = dev;
	dev->index = ndevs;
	devs[ndevs++] = dev;
}

enum proto_mode net_dev_mode(const struct net_dev *dev)
{
	if (net_param()->protocol)
		return (enum proto_mode)net_param()->protocol;
	if (dev->caps & PROTO_CAP_WRITE)
		return PROTO_WRITE;
	return dev->caps & PROTO_CAP_READ ? PROTO_READ : PROTO_SEND;
}

const char *net_dev_data_path(const struct net_dev *dev)
{
	switch (net_dev_mode(dev)) {
	case PROTO_WRITE:
		return dev->caps & PROTO_CAP_UNSOLICITED ? "RDMA write, unsolicited" : "RDMA write";
	case PROTO_READ:
		return dev->caps & PROTO_CAP_WRITE ? "RDMA read"
						   : "RDMA read: no RDMA write (the device's, or "
						     "rdma-core's before 46)";
	case PROTO_SEND:
		break;
	}
	return dev->caps & PROTO_CAP_READ ? "messages" : "messages: no RDMA";
}

static void say_what_was_found(void)
{
	const struct net_dev *largest = devs[0];
	bool one = ndevs == 1, alike = true;

	for (int i = 1; i < ndevs; i++) {
		alike &= devs[i]->nefas == devs[0]->nefas;
		if (devs[i]->nefas > largest->nefas)
			largest = devs[i];
	}
	net_info("NET/EFA: %d device%s of %s%d EFA%s, %s%s%s, %u Gb/s, data by %s", ndevs,
		 one ? "" : "s", alike ? "" : "up to ", largest->nefas,
		 largest->nefas == 1 ? "" : "s", devs[0]->name, one ? "" : " to ",
		 one ? "" : devs[ndevs - 1]->name, largest->speed_mbps / 1000,
		 net_dev_data_path(devs[0]));
}

static void set_nccl_env(const struct found *f)
{
	struct net_topo t = {
		.gpus = f->gpu,
		.ngpus = f->ngpus,
		.efas = f->efa,
		.groups = f->group,
		.ngroups = f->ngroups,
	};

	net_topo_here(&t);
	net_platform_set(t.product);
	if (net_topo_publish(&t) == 1)
		net_info("NET/EFA: NCCL_TOPO_FILE=%s: sysfs does not show how this machine is "
			 "wired",
			 getenv("NCCL_TOPO_FILE"));
}

static void find(void)
{
	struct srd_dev_info info[NET_MAX_EFAS];
	struct found *f = calloc(1, sizeof(*f));
	int n, unopened;

	if (!f) {
		net_warn("NET/EFA: no memory to look for devices");
		return;
	}
	net_log_probing(1);
	n = srd_dev_list(info, NET_MAX_EFAS, true);
	for (int i = 0; i < n && i < NET_MAX_EFAS; i++)
		look_at(f, &info[i]);
	net_log_probing(0);
	f->ngpus = srd_pci_gpus(NULL, f->gpu, NET_MAX_GPUS);
	f->ngpus = f->ngpus < 0 ? 0 : f->ngpus > NET_MAX_GPUS ? NET_MAX_GPUS : f->ngpus;
	f->ngroups =
		net_rails_group(f->efa, f->n, f->gpu, f->ngpus, (int)net_param()->rails, f->group);
	for (int i = 0; i < f->ngroups; i++)
		add(f, &f->group[i]);
	if (ndevs && net_param()->set_nccl_env)
		set_nccl_env(f);
	unopened = f->unopened;
	free(f);
	if (!ndevs) {
		net_absent_say(n, unopened);
		return;
	}
	say_what_was_found();
	net_config_say();
}

int net_devs_find(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find);
	return ndevs;
}

struct net_dev *net_dev_at(int index)
{
	return index >= 0 && index < net_devs_find() ? devs[index] : NULL;
}

/* ---- open, close ---- */

static void close_locked(struct net_dev *dev)
{
	net_cm_close(dev->cm);
	dev->cm = NULL;
	if (dev->mrs.npds) {
		dev->made += dev->mrs.made;
		dev->shared += dev->mrs.shared;
		net_mrcache_fini(&dev->mrs);
	}
	for (int i = 0; i < dev->nrails; i++) {
		srd_pd_fini(&dev->nic[i].pd);
		srd_dev_close(&dev->nic[i].dev);
	}
	name_rails(dev);
	dev->open = false;
}

static int nic_open(struct net_nic *nic, const char *name)
{
	int rc = srd_dev_open(&nic->dev, name);

	if (!rc)
		rc = srd_pd_init(&nic->pd, &nic->dev);
	if (rc) {
		srd_pd_fini(&nic->pd);
		srd_dev_close(&nic->dev);
		return rc;
	}
	memcpy(nic->name, name, sizeof(nic->name));
	atomic_store(&nic->state, NET_NIC_UP);
	return 0;
}

/* Those that can be; 0 if there is one. */
static int nics_open(struct net_dev *dev)
{
	char why[WHY_BYTES];
	int rc = -ENODEV;

	dev->nrails = 0;
	for (int i = 0; i < dev->nefas; i++) {
		int err;

		net_log_capture(why, sizeof(why));
		err = nic_open(&dev->nic[dev->nrails], dev->efa[i]);
		net_log_capture(NULL, 0);
		if (!err) {
			dev->nrails++;
			continue;
		}
		rc = err;
		net_warn("NET/EFA: %s is left out of %s: %s", dev->efa[i], dev->name, why);
	}
	return dev->nrails ? 0 : rc;
}

static int open_locked(struct net_dev *dev)
{
	struct srd_pd *pd[NET_MAX_RAILS];
	int rc = nics_open(dev);

	if (rc)
		return rc;
	for (int i = 0; i < dev->nrails; i++)
		pd[i] = &dev->nic[i].pd;
	memset(dev->loopback, 0, sizeof(dev->loopback));
	net_mrcache_init(&dev->mrs, pd, dev->nrails);
	rc = net_cm_open(dev, &dev->cm);
	dev->open = rc == 0;
	return rc;
}

static int open_one(struct net_dev *dev)
{
	int rc = 0;

	pthread_mutex_lock(&dev->lock);
	if (!dev->open) {
		rc = open_locked(dev);
		if (rc)
			close_locked(dev);
		else
			net_config_say_dev(dev);
	}
	pthread_mutex_unlock(&dev->lock);
	return rc;
}

/* The same, nothing of it open. NULL: no memory. */
static struct net_dev *one_more(struct net_dev *dev)
{
	struct net_dev *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->index = dev->index;
	memcpy(d->name, dev->name, sizeof(d->name));
	d->pci_path = dev->pci_path;
	d->guid = dev->guid;
	d->speed_mbps = dev->speed_mbps;
	d->latency_us = dev->latency_us;
	d->max_bytes = dev->max_bytes;
	d->caps = dev->caps;
	d->nefas = dev->nefas;
	memcpy(d->efa, dev->efa, sizeof(d->efa));
	name_rails(d);
	pthread_mutex_init(&d->lock, NULL);
	return d;
}

/* One that is not open, of those that there are or a new one. */
static struct net_dev *closed_one(struct net_dev *dev)
{
	struct net_dev *d, *last = NULL;

	for (d = dev; d && d->open; d = atomic_load(&d->again))
		last = d;
	if (!d) {
		d = one_more(dev);
		if (d)
			atomic_store(&last->again, d);
	}
	return d;
}

int net_dev_open(struct net_dev *dev, struct net_dev **out)
{
	struct net_dev *d;
	int rc = -ENOMEM;

	pthread_mutex_lock(&dev->opening);
	d = dev->current;
	if (d->open && net_event_broken(d))
		d = closed_one(dev);
	if (d)
		rc = open_one(d);
	if (!rc)
		*out = dev->current = d;
	pthread_mutex_unlock(&dev->opening);
	return rc;
}

static void close_idle(struct net_dev *dev)
{
	bool idle;

	pthread_mutex_lock(&dev->lock);
	idle = dev->open && net_cm_idle(dev->cm) && net_engines_close_locked(dev);
	if (idle)
		close_locked(dev);
	pthread_mutex_unlock(&dev->lock);
}

void net_devs_close_idle(void)
{
	for (int i = 0; i < ndevs; i++) {
		pthread_mutex_lock(&devs[i]->opening);
		for (struct net_dev *d = devs[i]; d; d = atomic_load(&d->again))
			close_idle(d);
		pthread_mutex_unlock(&devs[i]->opening);
	}
}
