/* SPDX-License-Identifier: BSD-3-Clause */
/* For people. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "info.h"

static const char *or_unknown(const char *text)
{
	return text[0] ? text : "?";
}

/* Domain 0 is everybody's. */
static const char *short_id(const char *bus_id)
{
	return strncmp(bus_id, "0000:", 5) ? or_unknown(bus_id) : bus_id + 5;
}

static const char *numa(char out[16], const struct srd_pci *pci)
{
	if (pci->numa == SRD_NUMA_UNKNOWN)
		snprintf(out, 16, "?");
	else
		snprintf(out, 16, "%d", pci->numa);
	return out;
}

static const char *link(char out[32], const struct srd_pci *pci)
{
	if (pci->link_mbps)
		snprintf(out, 32, "%g GT/s x%u", pci->link_mts / 1000.0, pci->link_lanes);
	else
		snprintf(out, 32, "?");
	return out;
}

static void print_libs(const struct info *info)
{
	printf("srd-info %s, rdma-core %s, machine %s\n", SRD_VERSION,
	       info->no_libs[0] ? "not found" : or_unknown(info->libs.rdma_core),
	       or_unknown(info->product));
	if (info->no_libs[0])
		printf("  %s\n", info->no_libs);
	else
		printf("  libibverbs  %s\n  libefa      %s\n", or_unknown(info->libs.ibverbs),
		       or_unknown(info->libs.efa));
	if (info->no_cuda[0])
		printf("  CUDA        %s\n", info->no_cuda);
}

static void print_gpus(const struct info *info)
{
	char node[16], pcie[32];

	if (!info->ngpus)
		return;
	printf("\n%-14s %-9s %4s  %-14s %-5s %-7s %-9s %-5s %s\n", "GPU", "ID", "NUMA", "PCIE",
	       "CUDA", "DMA-BUF", "GPUDIRECT", "FLUSH", "ORDERED FOR");
	for (int i = 0; i < info->ngpus; i++) {
		const struct info_gpu *g = &info->gpu[i];

		printf("%-14s %04x:%04x %4s  %-14s ", g->pci.bus_id, g->pci.vendor, g->pci.device,
		       numa(node, &g->pci), link(pcie, &g->pci));
		if (g->cuda)
			printf("%-5d %-7s %-9s %-5s %s\n", g->attr.device,
			       g->attr.dmabuf ? "yes" : "no", g->attr.gpudirect ? "yes" : "no",
			       g->attr.flush ? "yes" : "no", info_ordering(g->attr.ordering));
		else
			printf("-\n");
	}
}

static void print_devices(const struct info *info)
{
	char node[16], pcie[32], gid[48];

	printf("\n%-14s %-6s %7s %4s  %-14s %-14s %s\n", "DEVICE", "PART", "GBIT/S", "NUMA", "PCI",
	       "PCIE", "GID");
	for (int i = 0; i < info->ndevs; i++) {
		const struct info_dev *d = &info->dev[i];

		printf("%-14s 0x%04x ", d->id.name, d->id.part_id);
		if (d->open)
			printf("%7g", d->attr.speed_mbps / 1000.0);
		else
			printf("%7s", "?");
		printf(" %4s  %-14s %-14s %s\n", numa(node, &d->pci), or_unknown(d->pci.bus_id),
		       link(pcie, &d->pci), d->open ? info_gid(gid, &d->attr.gid) : d->why);
	}
	if (!info->ndevs)
		printf("none\n");
}

static void print_distances(const struct info *info)
{
	if (!info->ngpus || !info->ndevs)
		return;
	printf("\n%-14s", "DISTANCE");
	for (int k = 0; k < info->ngpus; k++)
		printf(" %7s", short_id(info->gpu[k].pci.bus_id));
	putchar('\n');
	for (int i = 0; i < info->ndevs; i++) {
		printf("%-14s", info->dev[i].id.name);
		for (int k = 0; k < info->ngpus; k++)
			printf(" %7s",
			       srd_dist_str(srd_pci_dist(&info->dev[i].pci, &info->gpu[k].pci)));
		putchar('\n');
	}
}

/* All but what each has of its own. */
static bool alike(const struct srd_dev_attr *a, const struct srd_dev_attr *b)
{
	for (int i = 0; i < info_nlimits; i++)
		if (info_limit_of(a, &info_limits[i]) != info_limit_of(b, &info_limits[i]))
			return false;
	return a->caps == b->caps && a->hw_ver == b->hw_ver && strcmp(a->fw_ver, b->fw_ver) == 0;
}

static void print_attr(const struct srd_dev_attr *a)
{
	printf("  firmware %s, hardware 0x%x\n  caps ", or_unknown(a->fw_ver), a->hw_ver);
	for (int i = 0; i < info_ncaps; i++)
		if (a->caps & info_caps[i].bit)
			printf(" %s", info_caps[i].name);
	for (int i = 0; i < info_nlimits; i++)
		printf("%s%-13s %-*" PRIu64, i % 3 ? "  " : "\n  ", info_limits[i].name,
		       i % 3 == 2 || i + 1 == info_nlimits ? 0 : 14,
		       info_limit_of(a, &info_limits[i]));
	putchar('\n');
}

/* Devices of one kind are described once. */
static void print_attrs(const struct info *info)
{
	bool done[INFO_MAX_DEVS] = {false};

	for (int i = 0; i < info->ndevs; i++) {
		if (done[i] || !info->dev[i].open)
			continue;
		putchar('\n');
		for (int k = i; k < info->ndevs; k++) {
			if (!info->dev[k].open || !alike(&info->dev[i].attr, &info->dev[k].attr))
				continue;
			printf("%s%s", k > i ? " " : "", info->dev[k].id.name);
			done[k] = true;
		}
		printf(":\n");
		print_attr(&info->dev[i].attr);
	}
}

void info_print(const struct info *info)
{
	print_libs(info);
	print_gpus(info);
	print_devices(info);
	print_distances(info);
	print_attrs(info);
}
