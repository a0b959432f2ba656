/* SPDX-License-Identifier: BSD-3-Clause */
/* Asking sysfs, rdma-core and CUDA; nothing that fails ends it. */
#include <stdio.h>
#include <string.h>

#include "info.h"

/* What libsrd said last of why a call failed. */
static char reason[INFO_WHY];

static void keep(void *arg, enum srd_log_level level, const char *line)
{
	(void)arg;
	/* What one asks for with SRD_LOG is for people: not in the way of what is printed. */
	if (level > SRD_LOG_WARN)
		fprintf(stderr, "%s\n", line);
	else
		snprintf(reason, sizeof(reason), "%s", line);
}

static void take_reason(char why[INFO_WHY], int rc)
{
	snprintf(why, INFO_WHY, "%s", reason[0] ? reason : strerror(-rc));
	reason[0] = '\0';
}

static void open_device(struct info_dev *dev)
{
	struct srd_dev d;
	char head[sizeof(dev->id.name) + 2];
	int rc;

	if (!dev->id.is_efa) {
		snprintf(dev->why, sizeof(dev->why), "not an EFA");
		return;
	}
	reason[0] = '\0';
	rc = srd_dev_open(&d, dev->id.name);
	if (rc) {
		take_reason(dev->why, rc);
		/* The name is in front of it already. */
		snprintf(head, sizeof(head), "%s: ", dev->id.name);
		if (strncmp(dev->why, head, strlen(head)) == 0)
			memmove(dev->why, dev->why + strlen(head),
				strlen(dev->why) - strlen(head) + 1);
		return;
	}
	dev->attr = d.attr;
	dev->open = true;
	srd_dev_close(&d);
}

static int gather_devices(struct info *info, const char *only)
{
	static struct srd_dev_info ids[INFO_MAX_DEVS];
	int n = srd_dev_list(ids, INFO_MAX_DEVS, false);

	if (n < 0) {
		take_reason(info->no_libs, n);
		return only ? -ENODEV : 0;
	}
	for (int i = 0; i < n && i < INFO_MAX_DEVS; i++) {
		struct info_dev *dev = &info->dev[info->ndevs];

		if (only && strcmp(only, ids[i].name))
			continue;
		dev->id = ids[i];
		srd_pci_of_dev(NULL, dev->id.name, &dev->pci);
		if (dev->pci.bus_id[0] == '\0')
			dev->pci.numa = SRD_NUMA_UNKNOWN;
		open_device(dev);
		info->ndevs++;
	}
	return only && !info->ndevs ? -ENODEV : 0;
}

static void gather_gpus(struct info *info)
{
	static struct srd_pci gpus[INFO_MAX_GPUS];
	int n = srd_pci_gpus(NULL, gpus, INFO_MAX_GPUS);

	info->ngpus = n < INFO_MAX_GPUS ? n : INFO_MAX_GPUS;
	for (int i = 0; i < info->ngpus; i++)
		info->gpu[i].pci = gpus[i];
}

/* The GPU of sysfs that CUDA means, or a new one: sysfs may hide what CUDA shows. */
static struct info_gpu *gpu_at(struct info *info, const char *bus_id)
{
	struct info_gpu *gpu;

	for (int i = 0; i < info->ngpus; i++)
		if (strcmp(info->gpu[i].pci.bus_id, bus_id) == 0)
			return &info->gpu[i];
	if (info->ngpus == INFO_MAX_GPUS)
		return NULL;
	gpu = &info->gpu[info->ngpus++];
	if (srd_pci_of_bus_id(NULL, bus_id, &gpu->pci)) {
		gpu->pci.numa = SRD_NUMA_UNKNOWN;
		snprintf(gpu->pci.bus_id, sizeof(gpu->pci.bus_id), "%s", bus_id);
	}
	return gpu;
}

static void gather_cuda(struct info *info)
{
	struct srd_cuda_attr attr;
	struct info_gpu *gpu;
	int rc = 0;

	reason[0] = '\0';
	for (int i = 0; i < INFO_MAX_GPUS && !rc; i++) {
		rc = srd_cuda_query_device(i, &attr);
		gpu = rc ? NULL : gpu_at(info, attr.bus_id);
		if (!gpu)
			continue;
		gpu->attr = attr;
		gpu->cuda = true;
	}
	/* The end of the list is ENODEV, of which nothing is said. */
	if (rc && (rc != -ENODEV || reason[0]))
		take_reason(info->no_cuda, rc);
}

int info_gather(struct info *info, const char *only)
{
	int rc;

	srd_log_to(keep, NULL);
	srd_sysfs_line(NULL, "devices/virtual/dmi/id/product_name", info->product,
		       sizeof(info->product));
	rc = srd_lib_query(&info->libs);
	if (rc)
		take_reason(info->no_libs, rc);
	gather_gpus(info);
	gather_cuda(info);
	if (!info->no_libs[0])
		rc = gather_devices(info, only);
	else
		rc = only ? -ENODEV : 0;
	return rc;
}
