/* SPDX-License-Identifier: BSD-3-Clause */
/* Grouping EFAs by their distance to GPUs and to each other. */
#include "rails.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/*
 * EFAs are meant by their place in the order until the very end. A set of them is an array of
 * places, ascending.
 */
struct grouping {
	const struct net_efa *efas;
	int n;
	int order[NET_MAX_EFAS]; /* place to index */
	bool grouped[NET_MAX_EFAS];
	/* to the GPUs that are nearest, and which these are; best is SYS or worse: none is near */
	enum srd_dist best[NET_MAX_EFAS];
	uint64_t near[NET_MAX_EFAS];
	enum srd_dist gpu_best[NET_MAX_GPUS];
	struct net_rail_group *out;
	int ngroups;
};

static const struct srd_pci *pci_at(const struct grouping *g, int place)
{
	return &g->efas[g->order[place]].pci;
}

static int cmp(const struct net_efa *a, const struct net_efa *b)
{
	int by_address = srd_pci_cmp(&a->pci, &b->pci);

	return by_address ? by_address : strverscmp(a->name, b->name);
}

static void set_order(struct grouping *g)
{
	for (int i = 0; i < g->n; i++) {
		int at = i;

		while (at > 0 && cmp(&g->efas[g->order[at - 1]], &g->efas[i]) > 0) {
			g->order[at] = g->order[at - 1];
			at--;
		}
		g->order[at] = i;
	}
}

static void measure(struct grouping *g, const struct srd_pci *gpus, int ngpus)
{
	for (int k = 0; k < ngpus; k++)
		g->gpu_best[k] = SRD_DIST_UNKNOWN;
	for (int i = 0; i < g->n; i++) {
		g->best[i] = SRD_DIST_UNKNOWN;
		for (int k = 0; k < ngpus; k++) {
			enum srd_dist d = srd_pci_dist(pci_at(g, i), &gpus[k]);

			if (d < g->best[i]) {
				g->best[i] = d;
				g->near[i] = 0;
			}
			if (d == g->best[i])
				g->near[i] |= 1ull << k;
			if (d < g->gpu_best[k])
				g->gpu_best[k] = d;
		}
		if (g->best[i] >= SRD_DIST_SYS)
			g->near[i] = 0;
	}
}

/* ---- building groups ---- */

static void add_to(struct grouping *g, struct net_rail_group *group, const int *set, int n)
{
	for (int i = 0; i < n; i++) {
		group->rail[group->nrails++] = set[i];
		g->grouped[set[i]] = true;
	}
}

static struct net_rail_group *add_group(struct grouping *g)
{
	struct net_rail_group *group = &g->out[g->ngroups++];

	memset(group, 0, sizeof(*group));
	return group;
}

static int ceil_div(int a, int b)
{
	return (a + b - 1) / b;
}

static int min(int a, int b)
{
	return a < b ? a : b;
}

/* Into @ngroups groups, none larger than another by more than one. */
static void divide(struct grouping *g, const int *set, int n, int ngroups)
{
	for (int i = 0; i < ngroups; i++) {
		int size = n / ngroups + (i < n % ngroups);

		add_to(g, add_group(g), set, size);
		set += size;
	}
}

/* How many GPUs have nothing nearer than the EFA at @place is. */
static int own_gpus(const struct grouping *g, int place)
{
	int n = 0;

	for (int k = 0; k < NET_MAX_GPUS; k++)
		n += (g->near[place] >> k & 1) && g->gpu_best[k] == g->best[place];
	return n;
}

/* EFAs that are next to GPUs: a group for each GPU. */
static void group_by_gpu(struct grouping *g)
{
	int set[NET_MAX_EFAS];

	for (int i = 0; i < g->n; i++) {
		int own = own_gpus(g, i), n = 0;

		if (g->grouped[i] || !own)
			continue;
		for (int k = i; k < g->n; k++)
			if (g->near[k] == g->near[i] && g->best[k] == g->best[i])
				set[n++] = k;
		if (n > own * NET_MAX_RAILS)
			own = ceil_div(n, NET_MAX_RAILS);
		divide(g, set, n, min(n, own));
	}
}

/* The EFAs below one root port with the one at @place that are in no group; returns how many. */
static int root_port_of(const struct grouping *g, int place, int *set)
{
	int n = 0;

	for (int i = place; i < g->n; i++)
		if (!g->grouped[i] &&
		    (i == place || srd_pci_dist(pci_at(g, place), pci_at(g, i)) <= SRD_DIST_PXB))
			set[n++] = i;
	return n;
}

/*
 * What is not grouped yet, into groups of at most @size: root port by root port; small ones are
 * joined while @joinable says so.
 */
static void group_by_switch(struct grouping *g, int size, bool (*joinable)(enum srd_dist))
{
	struct net_rail_group *last = NULL;
	int set[NET_MAX_EFAS];

	for (int i = 0; i < g->n; i++) {
		int n;

		if (g->grouped[i])
			continue;
		n = root_port_of(g, i, set);
		if (n > size) {
			divide(g, set, n, ceil_div(n, size));
			last = NULL;
			continue;
		}
		if (!last || last->nrails + n > size ||
		    !joinable(srd_pci_dist(pci_at(g, last->rail[0]), pci_at(g, i))))
			last = add_group(g);
		add_to(g, last, set, n);
	}
}

static bool below_one_host_bridge(enum srd_dist d)
{
	return d <= SRD_DIST_PHB;
}

static bool not_between_numa_nodes(enum srd_dist d)
{
	return d != SRD_DIST_SYS;
}

static int largest_group(const struct grouping *g)
{
	int size = 1;

	for (int i = 0; i < g->ngroups; i++)
		if (g->out[i].nrails > size)
			size = g->out[i].nrails;
	return size;
}

/* ---- result ---- */

static void sort_groups(struct grouping *g)
{
	for (int i = 1; i < g->ngroups; i++) {
		struct net_rail_group group = g->out[i];
		int at = i;

		for (; at > 0 && g->out[at - 1].rail[0] > group.rail[0]; at--)
			g->out[at] = g->out[at - 1];
		g->out[at] = group;
	}
}

static void describe(const struct grouping *g, struct net_rail_group *group)
{
	const struct net_efa *first = &g->efas[g->order[group->rail[0]]];

	group->guid = first->guid;
	group->numa = first->pci.numa;
	group->pci_path = first->pci.path[0] ? first->pci.path : NULL;
	if (group->nrails == 1)
		snprintf(group->name, sizeof(group->name), "%s", first->name);
	else
		snprintf(group->name, sizeof(group->name), "%s+%d", first->name, group->nrails - 1);
	for (int i = 0; i < group->nrails; i++) {
		int index = g->order[group->rail[i]];

		group->rail[i] = index;
		group->speed_mbps += g->efas[index].speed_mbps;
		if (g->efas[index].pci.numa != group->numa)
			group->numa = SRD_NUMA_UNKNOWN;
	}
}

int net_rails_group(const struct net_efa *efas, int n, const struct srd_pci *gpus, int ngpus,
		    int max_rails, struct net_rail_group *out)
{
	struct grouping g = {.efas = efas, .n = min(n, NET_MAX_EFAS), .out = out};

	set_order(&g);
	if (max_rails) {
		group_by_switch(&g, max_rails, not_between_numa_nodes);
	} else {
		measure(&g, gpus, min(ngpus, NET_MAX_GPUS));
		group_by_gpu(&g);
		group_by_switch(&g, largest_group(&g), below_one_host_bridge);
	}
	sort_groups(&g);
	for (int i = 0; i < g.ngroups; i++)
		describe(&g, &g.out[i]);
	return g.ngroups;
}
