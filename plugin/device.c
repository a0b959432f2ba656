/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding, opening and closing devices. */
#include "device.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cm.h"
#include "engine.h"
#include "log.h"
#include "proto.h"

/* NCCL has room for as many, and does not check. */
enum { MAX_DEVS = 128 };

static struct net_dev *devs[MAX_DEVS];
static int ndevs;

/* ---- find ---- */

/* One-way latency for NCCL's tuning: what EFA's own plugin assumes, by generation. */
static float latency_us(uint32_t part_id)
{
	return part_id >= 0xefa2 ? 35 : 75;
}

static uint8_t wire_caps(const struct srd_dev_attr *attr)
{
	uint8_t caps = 0;

	if (attr->caps & SRD_CAP_RDMA_WRITE)
		caps |= PROTO_CAP_WRITE;
	if (attr->caps & SRD_CAP_UNSOLICITED_WRITE_RECV)
		caps |= PROTO_CAP_UNSOLICITED;
	return caps;
}

static char *pci_path(const struct ibv_context *ctx)
{
	char path[IBV_SYSFS_PATH_MAX + 16];

	snprintf(path, sizeof(path), "%s/device", ctx->device->ibdev_path);
	return realpath(path, NULL);
}

/* 0, or why the function cannot be used: then it is left out, the others are not. */
static int describe(struct net_dev *dev, const struct srd_dev_info *info)
{
	struct srd_dev d;
	int rc = srd_dev_open(&d, info->name);

	if (rc) {
		net_info("NET/EFA: %s left out: %s", info->name, net_log_reason());
		return rc;
	}
	dev->caps = wire_caps(&d.attr);
	dev->guid = info->guid;
	dev->speed_mbps = d.attr.speed_mbps;
	dev->latency_us = latency_us(d.attr.part_id);
	dev->pci_path = pci_path(d.ibv);
	dev->nrails = 1;
	memcpy(dev->name, info->name, sizeof(dev->name));
	memcpy(dev->nic[0].name, info->name, sizeof(dev->nic[0].name));
	srd_dev_close(&d);
	if (!(dev->caps & PROTO_CAP_WRITE)) {
		net_info("NET/EFA: %s left out: no RDMA write (the device's, or rdma-core's before "
			 "46)",
			 info->name);
		return -EOPNOTSUPP;
	}
	return 0;
}

static void add(const struct srd_dev_info *info)
{
	struct net_dev *dev = calloc(1, sizeof(*dev));

	if (dev && describe(dev, info) == 0 && ndevs < MAX_DEVS) {
		pthread_mutex_init(&dev->lock, NULL);
		dev->index = ndevs;
		devs[ndevs++] = dev;
		return;
	}
	if (dev)
		free(dev->pci_path);
	free(dev);
}

static void find(void)
{
	struct srd_dev_info info[MAX_DEVS];
	int n;

	net_log_probing(1);
	n = srd_dev_list(info, MAX_DEVS, true);
	for (int i = 0; i < n && i < MAX_DEVS; i++)
		add(&info[i]);
	net_log_probing(0);
	if (ndevs)
		net_info("NET/EFA: %d devices, %s ... %s, %u Gb/s, data by RDMA write%s", ndevs,
			 devs[0]->name, devs[ndevs - 1]->name, devs[0]->speed_mbps / 1000,
			 devs[0]->caps & PROTO_CAP_UNSOLICITED ? ", unsolicited" : "");
	else if (n > 0)
		net_info("NET/EFA: none of %d EFA devices can be used", n);
	else if (n == 0)
		net_info("NET/EFA: no EFA device on this host");
	else
		net_info("NET/EFA: no device can be looked for: %s", net_log_reason());
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
	if (dev->mrs.npds)
		net_mrcache_fini(&dev->mrs);
	for (int i = 0; i < dev->nrails; i++) {
		srd_pd_fini(&dev->nic[i].pd);
		srd_dev_close(&dev->nic[i].dev);
	}
	dev->open = false;
}

static int open_locked(struct net_dev *dev)
{
	struct srd_pd *pd[NET_MAX_RAILS];
	int rc = 0;

	for (int i = 0; i < dev->nrails && !rc; i++) {
		struct net_nic *nic = &dev->nic[i];

		rc = srd_dev_open(&nic->dev, nic->name);
		if (!rc)
			rc = srd_pd_init(&nic->pd, &nic->dev);
		pd[i] = &nic->pd;
	}
	if (rc)
		return rc;
	net_mrcache_init(&dev->mrs, pd, dev->nrails);
	rc = net_cm_open(dev, &dev->cm);
	dev->open = rc == 0;
	return rc;
}

int net_dev_open(struct net_dev *dev)
{
	int rc = 0;

	pthread_mutex_lock(&dev->lock);
	if (!dev->open) {
		rc = open_locked(dev);
		if (rc)
			close_locked(dev);
	}
	pthread_mutex_unlock(&dev->lock);
	return rc;
}

void net_devs_close_idle(void)
{
	for (int i = 0; i < ndevs; i++) {
		struct net_dev *dev = devs[i];
		bool idle;

		pthread_mutex_lock(&dev->lock);
		idle = dev->open && net_cm_idle(dev->cm) && net_engines_close_locked(dev);
		if (idle)
			close_locked(dev);
		pthread_mutex_unlock(&dev->lock);
	}
}
