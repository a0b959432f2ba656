/* SPDX-License-Identifier: BSD-3-Clause */
/* For programs: one object, in which what is unknown is null. */
#include <inttypes.h>
#include <stdio.h>

#include "common/json.h"
#include "info.h"

/* "key": number, or null. */
static void number(const char *key, bool known, uint64_t value)
{
	if (known)
		printf("\"%s\": %" PRIu64, key, value);
	else
		printf("\"%s\": null", key);
}

static void text(const char *key, const char *value)
{
	if (value[0])
		json_string(stdout, key, value);
	else
		printf("\"%s\": null", key);
}

static void flag(const char *key, bool value)
{
	printf("\"%s\": %s", key, value ? "true" : "false");
}

static void comma(void)
{
	fputs(", ", stdout);
}

/* Without braces. */
static void write_pci(const struct srd_pci *pci)
{
	text("bus_id", pci->bus_id);
	comma();
	text("path", pci->path);
	comma();
	number("vendor", pci->vendor, pci->vendor);
	comma();
	number("device_id", pci->device, pci->device);
	comma();
	number("numa", pci->numa != SRD_NUMA_UNKNOWN, (uint64_t)pci->numa);
	comma();
	number("link_mbps", pci->link_mbps, pci->link_mbps);
}

static void write_cuda(const struct srd_cuda_attr *attr)
{
	printf("{");
	number("device", true, (uint64_t)attr->device);
	comma();
	flag("dmabuf", attr->dmabuf);
	comma();
	flag("gpudirect", attr->gpudirect);
	comma();
	flag("flush", attr->flush);
	comma();
	text("ordering", info_ordering(attr->ordering));
	printf("}");
}

static void write_gpu(const struct info_gpu *gpu)
{
	printf("{");
	write_pci(&gpu->pci);
	printf(", \"cuda\": ");
	if (gpu->cuda)
		write_cuda(&gpu->attr);
	else
		printf("null");
	printf("}");
}

static void write_attr(const struct srd_dev_attr *attr)
{
	const char *sep = "";
	char gid[48];

	text("gid", info_gid(gid, &attr->gid));
	comma();
	number("speed_mbps", attr->speed_mbps, attr->speed_mbps);
	comma();
	text("firmware", attr->fw_ver);
	comma();
	number("hardware", true, attr->hw_ver);
	printf(", \"caps\": [");
	for (int i = 0; i < info_ncaps; i++) {
		if (!(attr->caps & info_caps[i].bit))
			continue;
		printf("%s\"%s\"", sep, info_caps[i].name);
		sep = ", ";
	}
	printf("], \"limits\": {");
	for (int i = 0; i < info_nlimits; i++) {
		printf("%s", i ? ", " : "");
		number(info_limits[i].name, true, info_limit_of(attr, &info_limits[i]));
	}
	printf("}");
}

static void write_device(const struct info *info, const struct info_dev *dev)
{
	char guid[24];

	printf("{");
	text("name", dev->id.name);
	comma();
	flag("efa", dev->id.is_efa);
	comma();
	text("guid", info_guid(guid, dev->id.guid));
	comma();
	number("part_id", dev->id.part_id, dev->id.part_id);
	comma();
	text("error", dev->why);
	printf(", \"pci\": {");
	write_pci(&dev->pci);
	printf("}, \"gpu_distance\": {");
	for (int i = 0; i < info->ngpus; i++) {
		enum srd_dist dist = srd_pci_dist(&dev->pci, &info->gpu[i].pci);

		printf("%s", i ? ", " : "");
		text(info->gpu[i].pci.bus_id, dist == SRD_DIST_UNKNOWN ? "" : srd_dist_str(dist));
	}
	printf("}");
	if (dev->open) {
		comma();
		write_attr(&dev->attr);
	}
	printf("}");
}

static void write_libs(const struct info *info)
{
	text("version", SRD_VERSION);
	comma();
	text("machine", info->product);
	printf(",\n \"rdma_core\": {");
	text("release", info->libs.rdma_core);
	comma();
	text("libibverbs", info->libs.ibverbs);
	comma();
	text("libefa", info->libs.efa);
	comma();
	text("error", info->no_libs);
	printf("},\n \"cuda\": {");
	text("error", info->no_cuda);
	printf("}");
}

void info_print_json(const struct info *info)
{
	printf("{");
	write_libs(info);
	printf(",\n \"gpus\": [");
	for (int i = 0; i < info->ngpus; i++) {
		printf("%s", i ? ",\n  " : "\n  ");
		write_gpu(&info->gpu[i]);
	}
	printf("],\n \"devices\": [");
	for (int i = 0; i < info->ndevs; i++) {
		printf("%s", i ? ",\n  " : "\n  ");
		write_device(info, &info->dev[i]);
	}
	printf("]}\n");
}
