/* SPDX-License-Identifier: BSD-3-Clause */
/* Which EFAs become one NCCL device, on trees of EC2 instances, whole and with parts hidden. */
#include "../../plugin/rails.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "../lib/need.h"
#include "../lib/tree.h"

static struct tree tree;
static struct net_efa efas[NET_MAX_EFAS];
static struct srd_pci gpus[NET_MAX_GPUS];
static struct net_rail_group groups[NET_MAX_EFAS];
static int nefas, ngpus, ngroups;

/* In the order in which sysfs happens to list them. */
static void look(void)
{
	char path[128];
	struct dirent *e;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/class/infiniband", tree.root);
	dir = opendir(path);
	need(dir, "%s", path);
	nefas = 0;
	while ((e = readdir(dir))) {
		struct net_efa *efa = &efas[nefas];

		memset(efa, 0, sizeof(*efa));
		if (srd_pci_of_dev(tree.root, e->d_name, &efa->pci) ||
		    strncmp(e->d_name, "rdma", 4))
			continue;
		snprintf(efa->name, sizeof(efa->name), "%.63s", e->d_name);
		efa->guid = 0x1000 + (unsigned)nefas;
		efa->speed_mbps = 100000;
		nefas++;
	}
	closedir(dir);
	ngpus = srd_pci_gpus(tree.root, gpus, NET_MAX_GPUS);
}

/* "rdmap79s0 rdmap80s0 | rdmap96s0": rails of a group, groups */
static const char *text(void)
{
	static char out[4096];
	char *p = out;

	*p = '\0';
	for (int i = 0; i < ngroups; i++) {
		p += sprintf(p, "%s", i ? " | " : "");
		for (int k = 0; k < groups[i].nrails; k++)
			p += sprintf(p, "%s%s", k ? " " : "", efas[groups[i].rail[k]].name);
	}
	return out;
}

/* Whatever there is: each EFA in one group, groups and rails by address, and what is said is so. */
static void check(void)
{
	bool seen[NET_MAX_EFAS] = {false};
	const struct srd_pci *last = NULL;

	for (int i = 0; i < ngroups; i++) {
		const struct net_rail_group *g = &groups[i];
		const struct net_efa *first = &efas[g->rail[0]];

		need(g->nrails >= 1 && g->nrails <= NET_MAX_RAILS, "%d rails", g->nrails);
		need(!last || srd_pci_cmp(last, &first->pci) <= 0, "groups not in order");
		last = &first->pci;
		need(g->guid == first->guid, "not the guid of rail 0");
		need(g->pci_path ? strcmp(g->pci_path, first->pci.path) == 0 : !first->pci.path[0],
		     "not the path of rail 0");
		need(g->speed_mbps == 100000u * (unsigned)g->nrails, "%u Mbit/s", g->speed_mbps);
		need(strncmp(g->name, first->name, strlen(first->name)) == 0, "%s", g->name);
		for (int k = 0; k < g->nrails; k++) {
			int rail = g->rail[k];

			need(rail >= 0 && rail < nefas && !seen[rail], "rail %d again", rail);
			seen[rail] = true;
			need(k == 0 || srd_pci_cmp(&efas[g->rail[k - 1]].pci, &efas[rail].pci) <= 0,
			     "rails not in order");
		}
	}
	for (int i = 0; i < nefas; i++)
		need(seen[i], "%s is in no group", efas[i].name);
}

static void group(int max_rails)
{
	ngroups = net_rails_group(efas, nefas, gpus, ngpus, max_rails, groups);
	check();
}

#define expect(s) cr_assert(eq(str, (char *)text(), (char *)(s)))

static void take_down(void)
{
	tree_fini(&tree);
}

TestSuite(rails, .fini = take_down);

/* ---- instances as they are ---- */

struct instance {
	char name[16];
	int efas, gpus, groups, rails;
	char first[80];
};

static struct instance instances[] = {
	{"p4d", 4, 8, 4, 1, "rdmap16s27 | rdmap32s27 | rdmap144s27"},
	{"p5", 32, 8, 8, 4, "rdmap79s0 rdmap80s0 rdmap81s0 rdmap82s0 | rdmap96s0"},
	{"p5en", 16, 8, 8, 2, "rdmap85s0 rdmap86s0 | rdmap87s0 rdmap88s0 | rdmap110s0"},
	{"p6-b200", 8, 8, 8, 1, "rdmap79s0 | rdmap80s0 | rdmap96s0"},
	{"p6-b300", 16, 8, 8, 2, "rdmap78s0 rdmap79s0 | rdmap94s0 rdmap95s0"},
	{"g5", 1, 8, 1, 1, "rdmap0s21"},
	{"g6e", 4, 8, 4, 1, "rdmap133s0 | rdmap134s0 | rdmap166s0 | rdmap167s0"},
};

ParameterizedTestParameters(rails, each_gpu_has_a_device_with_its_share_of_efas)
{
	return cr_make_param_array(struct instance, instances,
				   sizeof(instances) / sizeof(instances[0]));
}

ParameterizedTest(struct instance *p, rails, each_gpu_has_a_device_with_its_share_of_efas)
{
	tree_make(&tree, p->name);
	look();
	cr_assert(eq(int, nefas, p->efas));
	cr_assert(eq(int, ngpus, p->gpus));
	group(0);
	cr_assert(eq(int, ngroups, p->groups), "%s", text());
	for (int i = 0; i < ngroups; i++)
		cr_assert(eq(int, groups[i].nrails, p->rails), "%s", text());
	cr_assert(zero(int, strncmp(text(), p->first, strlen(p->first))), "%s", text());
}

ParameterizedTestParameters(rails, order_of_discovery_and_of_names_does_not_matter)
{
	return cr_make_param_array(struct instance, instances,
				   sizeof(instances) / sizeof(instances[0]));
}

ParameterizedTest(struct instance *p, rails, order_of_discovery_and_of_names_does_not_matter)
{
	struct net_rail_group before[NET_MAX_EFAS];
	int n;

	tree_make(&tree, p->name);
	look();
	group(0);
	memcpy(before, groups, sizeof(before));
	n = ngroups;
	/* turned round, and named so that names are in no order of addresses */
	for (int i = 0; i < nefas / 2; i++) {
		struct net_efa other = efas[i];

		efas[i] = efas[nefas - 1 - i];
		efas[nefas - 1 - i] = other;
	}
	for (int i = 0; i < nefas; i++)
		snprintf(efas[i].name, sizeof(efas[i].name), "efa_%d", i * 7 % nefas);
	for (int i = 0; i < ngpus / 2; i++) {
		struct srd_pci other = gpus[i];

		gpus[i] = gpus[ngpus - 1 - i];
		gpus[ngpus - 1 - i] = other;
	}
	group(0);
	cr_assert(eq(int, ngroups, n));
	for (int i = 0; i < n; i++) {
		cr_assert(eq(int, groups[i].nrails, before[i].nrails));
		for (int k = 0; k < groups[i].nrails; k++)
			cr_assert(eq(int, nefas - 1 - groups[i].rail[k], before[i].rail[k]));
	}
}

/* ---- what is told of a group ---- */

Test(rails, device_of_several_is_named_after_the_first_and_adds_up_speed)
{
	tree_make(&tree, "p5");
	look();
	group(0);
	cr_assert(eq(str, groups[0].name, (char *)"rdmap79s0+3"));
	cr_assert(eq(u32, groups[0].speed_mbps, 400000));
	cr_assert(eq(int, groups[0].numa, 0));
	cr_assert(eq(int, groups[7].numa, 1));
	cr_assert(ne(ptr, (void *)groups[0].pci_path, NULL));
	cr_assert(ne(ptr, strstr(groups[0].pci_path, "/0000:4f:00.0"), NULL));
}

Test(rails, device_of_one_has_its_name)
{
	tree_make(&tree, "p4d");
	look();
	group(0);
	cr_assert(eq(str, groups[0].name, (char *)"rdmap16s27"));
}

Test(rails, node_is_unknown_where_one_rail_differs)
{
	tree_make(&tree, "p5");
	tree_write(&tree, "bus/pci/devices/0000:52:00.0/numa_node", "-1");
	look();
	group(0);
	cr_assert(eq(int, groups[0].numa, SRD_NUMA_UNKNOWN));
	cr_assert(eq(int, groups[0].nrails, 4));
}

/* ---- parts visible ---- */

Test(rails, one_visible_gpu_leaves_the_groups_as_they_are)
{
	static struct net_rail_group before[NET_MAX_EFAS];

	tree_make(&tree, "p5");
	look();
	group(0);
	memcpy(before, groups, sizeof(before));
	gpus[0] = gpus[2];
	ngpus = 1;
	group(0);
	cr_assert(eq(int, ngroups, 8));
	for (int i = 0; i < 8; i++)
		cr_assert(zero(int, memcmp(groups[i].rail, before[i].rail, sizeof(int) * 4)), "%s",
			  text());
}

Test(rails, missing_efas_make_smaller_groups_and_never_empty_ones)
{
	tree_make(&tree, "p5");
	tree_hide(&tree, "class/infiniband/rdmap80s0");
	tree_hide(&tree, "class/infiniband/rdmap96s0");
	tree_hide(&tree, "class/infiniband/rdmap97s0");
	tree_hide(&tree, "class/infiniband/rdmap98s0");
	for (int i = 113; i <= 116; i++)
		tree_hide(&tree, "class/infiniband/rdmap%ds0", i);
	look();
	group(0);
	cr_assert(eq(int, nefas, 24));
	cr_assert(eq(int, ngroups, 7));
	cr_assert(zero(int, strncmp(text(),
				    "rdmap79s0 rdmap81s0 rdmap82s0 | rdmap99s0 | rdmap130s0 ", 55)),
		  "%s", text());
}

Test(rails, odd_number_of_efas_is_divided_between_two_gpus)
{
	tree_make(&tree, "p5en");
	tree_hide(&tree, "class/infiniband/rdmap86s0");
	look();
	group(0);
	cr_assert(eq(int, ngroups, 8));
	cr_assert(zero(int,
		       strncmp(text(), "rdmap85s0 rdmap87s0 | rdmap88s0 | rdmap110s0 rdmap1", 50)),
		  "%s", text());
}

Test(rails, some_efas_of_the_container_and_no_gpu_next_to_them_are_devices)
{
	tree_make(&tree, "p5");
	look();
	ngpus = 1;
	/* all that is left lies below the last switch */
	for (int i = 0, n = nefas; i < n; i++)
		if (strcmp(efas[i].name, "rdmap198s0") == 0)
			efas[0] = efas[i];
	nefas = 1;
	group(0);
	expect("rdmap198s0");
}

Test(rails, no_visible_gpu_makes_each_efa_a_device)
{
	tree_make(&tree, "p5");
	tree_hide(&tree, "bus");
	look();
	cr_assert(zero(int, ngpus));
	group(0);
	cr_assert(eq(int, ngroups, 32));
}

Test(rails, no_efa_makes_no_device)
{
	tree_make(&tree, "p5");
	tree_hide(&tree, "class/infiniband");
	tree_write(&tree, "class/infiniband/abi_version", "6");
	look();
	group(0);
	cr_assert(zero(int, ngroups));
}

/* ---- attributes masked ---- */

Test(rails, nodes_are_not_needed_where_paths_tell)
{
	tree_make(&tree, "p5en");
	look();
	for (int i = 0; i < nefas; i++)
		efas[i].pci.numa = SRD_NUMA_UNKNOWN;
	for (int i = 0; i < ngpus; i++)
		gpus[i].numa = SRD_NUMA_UNKNOWN;
	group(0);
	cr_assert(eq(int, ngroups, 8));
	cr_assert(zero(int, strncmp(text(), "rdmap85s0 rdmap86s0 | rdmap87s0", 31)), "%s", text());
}

Test(rails, masked_paths_leave_nodes_to_tell)
{
	tree_make(&tree, "p5");
	look();
	for (int i = 0; i < nefas; i++)
		efas[i].pci.path[0] = '\0';
	group(0);
	/* 16 EFAs and 4 GPUs on each node */
	cr_assert(eq(int, ngroups, 8));
	cr_assert(eq(ptr, (void *)groups[0].pci_path, NULL));
	cr_assert(zero(int, strncmp(text(), "rdmap79s0 rdmap80s0 rdmap81s0 rdmap82s0 | ", 42)),
		  "%s", text());
}

Test(rails, nothing_known_makes_each_efa_a_device_in_the_order_of_names)
{
	tree_make(&tree, "g6e");
	tree_hide(&tree, "devices");
	look();
	cr_assert(zero(int, ngpus));
	group(0);
	expect("rdmap133s0 | rdmap134s0 | rdmap166s0 | rdmap167s0");
	for (int i = 0; i < 4; i++)
		cr_assert(eq(ptr, (void *)groups[i].pci_path, NULL));
}

/* ---- many EFAs, few GPUs ---- */

Test(rails, group_has_at_most_eight_rails)
{
	tree_make(&tree, "p5en");
	look();
	/* as if all were on one switch with one GPU */
	for (int i = 0; i < nefas; i++) {
		snprintf(efas[i].pci.path, sizeof(efas[i].pci.path),
			 "/sys/devices/pci0000:44/0000:44:00.0/0000:45:00.0/0000:46:%02x.0/%s", i,
			 efas[i].pci.bus_id);
		efas[i].pci.numa = 0;
	}
	ngpus = 1;
	nefas = 11;
	group(0);
	cr_assert(eq(int, ngroups, 2));
	cr_assert(eq(int, groups[0].nrails, 6));
	cr_assert(eq(int, groups[1].nrails, 5));
}

/* ---- a size that was asked for ---- */

struct wish {
	char name[16];
	int max_rails, groups, most, least;
};

static struct wish wishes[] =
	{
		{"p5", 1, 32, 1, 1},
		{"p5", 2, 16, 2, 2},
		{"p5", 3, 16, 2, 2}, /* 4 below a switch: 2 and 2, and not 3 and 1 */
		{"p5", 4, 8, 4, 4},
		{"p5", 5, 8, 4, 4}, /* a switch is never cut to fill a group */
		{"p5", 8, 4, 8, 8}, /* two switches of a node */
		{"p4d", 2, 2, 2, 2},
		{"p4d", 8, 2, 2, 2}, /* not between nodes */
		{"p6-b300", 3, 8, 2, 2},
		{"p6-b300", 4, 4, 4, 4},
		{"g6e", 2, 2, 2, 2},
		{"g6e", 4, 2, 2, 2},
		{"g5", 4, 1, 1, 1},
};

ParameterizedTestParameters(rails, size_that_was_asked_for_is_kept_to_as_far_as_nodes_allow)
{
	return cr_make_param_array(struct wish, wishes, sizeof(wishes) / sizeof(wishes[0]));
}

ParameterizedTest(struct wish *p, rails, size_that_was_asked_for_is_kept_to_as_far_as_nodes_allow)
{
	tree_make(&tree, p->name);
	look();
	group(p->max_rails);
	cr_assert(eq(int, ngroups, p->groups), "%s %d: %s", p->name, p->max_rails, text());
	for (int i = 0; i < ngroups; i++) {
		cr_assert(le(int, groups[i].nrails, p->most), "%s", text());
		cr_assert(ge(int, groups[i].nrails, p->least), "%s", text());
	}
	/* Neither do GPUs change it. */
	ngpus = 0;
	group(p->max_rails);
	cr_assert(eq(int, ngroups, p->groups));
}

Test(rails, size_that_was_asked_for_joins_efas_of_which_nothing_is_known)
{
	tree_make(&tree, "g6e");
	tree_hide(&tree, "devices");
	look();
	group(4);
	expect("rdmap133s0 rdmap134s0 rdmap166s0 rdmap167s0");
}
