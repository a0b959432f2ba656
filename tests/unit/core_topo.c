/* SPDX-License-Identifier: BSD-3-Clause */
/* Where devices sit and how far apart, on trees of EC2 instances, whole and with parts hidden. */
#include "srd_topo.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/tree.h"

static struct tree tree;

/* Criterion compares strings that may be written to. */
#define same(a, b) cr_assert(eq(str, (char *)(a), (char *)(b)))

static void whole(const char *instance)
{
	tree_make(&tree, instance);
}

static void take_down(void)
{
	tree_fini(&tree);
}

static void p5(void)
{
	whole("p5");
}

static void p4d(void)
{
	whole("p4d");
}

static struct srd_pci efa(const char *name)
{
	struct srd_pci pci;

	cr_assert(zero(int, srd_pci_of_dev(tree.root, name, &pci)), "%s", name);
	return pci;
}

static struct srd_pci at(const char *bus_id)
{
	struct srd_pci pci;

	cr_assert(zero(int, srd_pci_of_bus_id(tree.root, bus_id, &pci)), "%s", bus_id);
	return pci;
}

/* ---- one function ---- */

TestSuite(topo_p5, .init = p5, .fini = take_down);

Test(topo_p5, function_of_a_device_is_told_whole)
{
	struct srd_pci pci = efa("rdmap79s0");
	char path[256];

	snprintf(path, sizeof(path),
		 "%s/devices/pci0000:44/0000:44:00.0/0000:45:00.0/0000:46:01.0/0000:4f:00.0",
		 tree.root);
	same(pci.path, path);
	same(pci.bus_id, "0000:4f:00.0");
	cr_assert(eq(u32, pci.class_code, 0x020000));
	cr_assert(eq(u16, pci.vendor, 0x1d0f));
	cr_assert(eq(u16, pci.device, 0xefa1));
	cr_assert(eq(int, pci.numa, 0));
	cr_assert(eq(u32, pci.link_mts, 16000));
	cr_assert(eq(u32, pci.link_lanes, 8));
	cr_assert(eq(u32, pci.link_mbps, 126030));
}

Test(topo_p5, address_is_found_in_any_spelling)
{
	struct srd_pci pci = at("0000:CA:00.0");

	same(pci.bus_id, "0000:ca:00.0");
	cr_assert(eq(u16, pci.vendor, 0x10de));
	cr_assert(eq(int, pci.numa, 1));
	same(at("00000000:ca:00.0").path, pci.path);
}

static const char *const no_addresses[] = {"",
					   "efa_0",
					   "0000:ca:00",
					   "0000:ca:00.",
					   "0000:ca:00.8",
					   "0000:ca:20.0",
					   "0000:ca:00.0x",
					   " 0000:ca:00.0",
					   "0000:ca:00.0 ",
					   "-000:ca:00.0",
					   "0000:0xca:00.0",
					   "../0000:ca:00.0",
					   "0000:ca:00.00",
					   "000000000:ca:0.0"};

Test(topo_p5, what_is_no_address_is_refused)
{
	for (size_t i = 0; i < sizeof(no_addresses) / sizeof(no_addresses[0]); i++) {
		struct srd_pci pci;

		memset(&pci, 0xff, sizeof(pci));
		cr_assert(eq(int, srd_pci_of_bus_id(tree.root, no_addresses[i], &pci), -EINVAL),
			  "'%s'", no_addresses[i]);
		cr_assert(eq(chr, pci.bus_id[0], '\0'));
	}
}

Test(topo_p5, what_is_not_there_is_enodev)
{
	struct srd_pci pci;

	cr_assert(eq(int, srd_pci_of_bus_id(tree.root, "0000:fe:00.0", &pci), -ENODEV));
	cr_assert(eq(int, srd_pci_of_dev(tree.root, "rdmap1s0", &pci), -ENODEV));
	cr_assert(eq(int, srd_pci_of_dev(tree.root, "", &pci), -ENODEV));
	cr_assert(eq(int, srd_pci_of_dev(tree.root, "..", &pci), -ENODEV));
	cr_assert(eq(int, srd_pci_of_dev(tree.root, "../infiniband/rdmap79s0", &pci), -ENODEV));
	cr_assert(eq(int, srd_pci_of_dev("/nowhere", "rdmap79s0", &pci), -ENODEV));
}

Test(topo_p5, environment_names_the_root_unless_the_caller_does)
{
	struct srd_pci pci;

	setenv("SYSFS_PATH", tree.root, 1);
	cr_assert(zero(int, srd_pci_of_dev(NULL, "rdmap79s0", &pci)));
	cr_assert(eq(int, srd_pci_gpus(NULL, &pci, 1), 8));
	cr_assert(eq(int, srd_pci_of_dev("/nowhere", "rdmap79s0", &pci), -ENODEV));
}

/* ---- GPUs ---- */

Test(topo_p5, gpus_are_listed_in_the_order_of_their_addresses)
{
	static const char *const expected[] = {"0000:53:00.0", "0000:64:00.0", "0000:75:00.0",
					       "0000:86:00.0", "0000:97:00.0", "0000:a8:00.0",
					       "0000:b9:00.0", "0000:ca:00.0"};
	struct srd_pci gpus[8];

	cr_assert(eq(int, srd_pci_gpus(tree.root, gpus, 8), 8));
	for (int i = 0; i < 8; i++)
		same(gpus[i].bus_id, expected[i]);
}

Test(topo_p5, list_that_is_too_short_has_the_first_and_says_how_many)
{
	struct srd_pci gpus[4];

	memset(gpus, 0xff, sizeof(gpus));
	cr_assert(eq(int, srd_pci_gpus(tree.root, gpus, 3), 8));
	same(gpus[0].bus_id, "0000:53:00.0");
	same(gpus[1].bus_id, "0000:64:00.0");
	same(gpus[2].bus_id, "0000:75:00.0");
	cr_assert(eq(int, gpus[3].numa, -1));
	cr_assert(eq(u16, gpus[3].vendor, 0xffff));
	cr_assert(eq(int, srd_pci_gpus(tree.root, NULL, 0), 8));
}

Test(topo_p5, efas_are_listed_though_nothing_drives_them)
{
	struct srd_pci efas[32];

	tree_hide(&tree, "class/infiniband");
	cr_assert(eq(int, srd_pci_efas(tree.root, efas, 32), 32));
	same(efas[0].bus_id, "0000:4f:00.0");
	same(efas[4].bus_id, "0000:60:00.0");
	for (int i = 0; i < 32; i++)
		cr_assert(eq(u16, efas[i].device, 0xefa1));
	tree_hide(&tree, "bus");
	cr_assert(zero(int, srd_pci_efas(tree.root, efas, 32)));
}

Test(topo_p5, hidden_gpus_are_not_listed)
{
	struct srd_pci gpus[8];

	tree_hide(&tree, "bus/pci/devices/0000:53:00.0");
	cr_assert(eq(int, srd_pci_gpus(tree.root, gpus, 8), 7));
	same(gpus[0].bus_id, "0000:64:00.0");
	tree_hide(&tree, "bus");
	cr_assert(eq(int, srd_pci_gpus(tree.root, gpus, 8), 0));
}

Test(topo_p5, other_functions_of_the_vendor_are_no_gpus)
{
	struct srd_pci gpus[8];

	/* an NVSwitch, and a display adapter */
	tree_write(&tree, "bus/pci/devices/0000:53:00.0/class", "0x068000");
	tree_write(&tree, "bus/pci/devices/0000:64:00.0/class", "0x030000");
	tree_write(&tree, "bus/pci/devices/0000:75:00.0/vendor", "0x1002");
	cr_assert(eq(int, srd_pci_gpus(tree.root, gpus, 8), 6));
	same(gpus[0].bus_id, "0000:64:00.0");
	same(gpus[1].bus_id, "0000:86:00.0");
}

/* ---- what is hidden is unknown ---- */

Test(topo_p5, missing_attributes_are_unknown)
{
	struct srd_pci pci;

	for (const char *const *name =
		     (const char *const[]){"class", "vendor", "device", "numa_node",
					   "max_link_speed", "max_link_width", NULL};
	     *name; name++)
		tree_hide(&tree, "bus/pci/devices/0000:4f:00.0/%s", *name);
	pci = efa("rdmap79s0");
	same(pci.bus_id, "0000:4f:00.0");
	cr_assert(ne(chr, pci.path[0], '\0'));
	cr_assert(zero(u32, pci.class_code));
	cr_assert(zero(u16, pci.vendor));
	cr_assert(zero(u16, pci.device));
	cr_assert(eq(int, pci.numa, SRD_NUMA_UNKNOWN));
	cr_assert(zero(u32, pci.link_mts));
	cr_assert(zero(u32, pci.link_lanes));
	cr_assert(zero(u32, pci.link_mbps));
}

Test(topo_p5, senseless_attributes_are_unknown)
{
	struct srd_pci pci;

	tree_write(&tree, "bus/pci/devices/0000:4f:00.0/class", "0x1000000");
	tree_write(&tree, "bus/pci/devices/0000:4f:00.0/vendor", "");
	tree_write(&tree, "bus/pci/devices/0000:4f:00.0/device", "0xefa1 or so");
	tree_write(&tree, "bus/pci/devices/0000:4f:00.0/numa_node", "-1");
	tree_write(&tree, "bus/pci/devices/0000:4f:00.0/max_link_speed", "Unknown");
	tree_write(&tree, "bus/pci/devices/0000:4f:00.0/max_link_width", "255");
	pci = efa("rdmap79s0");
	cr_assert(zero(u32, pci.class_code));
	cr_assert(zero(u16, pci.vendor));
	cr_assert(zero(u16, pci.device));
	cr_assert(eq(int, pci.numa, SRD_NUMA_UNKNOWN));
	cr_assert(zero(u32, pci.link_mbps));
}

Test(topo_p5, device_whose_function_is_hidden_is_there_with_nothing_known)
{
	struct srd_pci pci;

	tree_hide(&tree, "devices");
	pci = efa("rdmap79s0");
	cr_assert(eq(chr, pci.bus_id[0], '\0'));
	cr_assert(eq(chr, pci.path[0], '\0'));
	cr_assert(eq(int, pci.numa, SRD_NUMA_UNKNOWN));
	pci = at("0000:53:00.0");
	same(pci.bus_id, "0000:53:00.0");
	cr_assert(eq(chr, pci.path[0], '\0'));
}

/* ---- links ---- */

struct speed {
	char text[24], lanes[8];
	uint32_t mbps;
};

static struct speed speeds[] = {
	{"2.5 GT/s PCIe", "1", 2000},     {"5.0 GT/s PCIe", "4", 16000},
	{"5 GT/s", "4", 16000},           {"8.0 GT/s PCIe", "16", 126030},
	{"16.0 GT/s PCIe", "16", 252061}, {"32.0 GT/s PCIe", "16", 504123},
	{"64.0 GT/s PCIe", "16", 968000}, {"32.0 GT/s PCIe", "0", 0},
	{"32.0 GT/s PCIe", "63", 0},
};

ParameterizedTestParameters(topo, link_speed_is_that_of_all_lanes_without_their_coding)
{
	return cr_make_param_array(struct speed, speeds, sizeof(speeds) / sizeof(speeds[0]));
}

ParameterizedTest(struct speed *p, topo, link_speed_is_that_of_all_lanes_without_their_coding,
		  .init = p5, .fini = take_down)
{
	tree_write(&tree, "bus/pci/devices/0000:4f:00.0/max_link_speed", p->text);
	tree_write(&tree, "bus/pci/devices/0000:4f:00.0/max_link_width", p->lanes);
	cr_assert(eq(u32, efa("rdmap79s0").link_mbps, p->mbps), "%s x%s", p->text, p->lanes);
}

/* ---- distances ---- */

static struct srd_pci fake(const char *path, int numa)
{
	struct srd_pci pci = {.numa = numa};
	const char *slash = strrchr(path, '/');

	snprintf(pci.path, sizeof(pci.path), "%s", path);
	snprintf(pci.bus_id, sizeof(pci.bus_id), "%s", slash ? slash + 1 : "");
	return pci;
}

struct pair {
	char a[120], b[120];
	int numa_a, numa_b;
	char dist[8];
};

#define R0 "/sys/devices/pci0000:40/"
#define R1 "/sys/devices/pci0000:80/"

static struct pair pairs[] = {
	{R0 "0000:40:01.0/0000:41:00.0", R0 "0000:40:01.0/0000:41:00.0", 0, 0, "SELF"},
	/* one card with two functions, below a port and right on the host bridge */
	{R0 "0000:40:01.0/0000:41:00.0", R0 "0000:40:01.0/0000:41:00.1", 0, 0, "PIX"},
	{R0 "0000:40:01.0", R0 "0000:40:01.1", 0, 0, "PHB"},
	/* a switch: upstream port 41, downstream ports 42 */
	{R0 "0000:40:01.0/0000:41:00.0/0000:42:00.0/0000:43:00.0",
	 R0 "0000:40:01.0/0000:41:00.0/0000:42:01.0/0000:44:00.0", 0, 0, "PIX"},
	/* a second switch below one of the ports */
	{R0 "0000:40:01.0/0000:41:00.0/0000:42:00.0/0000:43:00.0",
	 R0 "0000:40:01.0/0000:41:00.0/0000:42:01.0/0000:44:00.0/0000:45:00.0/0000:46:00.0", 0, 0,
	 "PXB"},
	{R0 "0000:40:01.0/0000:41:00.0", R0 "0000:40:02.0/0000:42:00.0", 0, 0, "PHB"},
	{R0 "0000:40:01.0/0000:41:00.0", R1 "0000:80:01.0/0000:81:00.0", 1, 1, "NODE"},
	{R0 "0000:40:01.0/0000:41:00.0", R1 "0000:80:01.0/0000:81:00.0", 0, 1, "SYS"},
	{R0 "0000:40:01.0/0000:41:00.0", R1 "0000:80:01.0/0000:81:00.0", 0, -1, "?"},
	{R0 "0000:40:01.0/0000:41:00.0", R1 "0000:80:01.0/0000:81:00.0", -1, -1, "?"},
	/* names that begin alike are not the same */
	{R0 "0000:40:01.0/0000:41:00.0", "/sys/devices/pci0000:400/0000:40:01.0", 0, 0, "NODE"},
	/* paths hidden */
	{"", R0 "0000:40:01.0", 1, 1, "NODE"},
	{"", "", 0, 1, "SYS"},
	{"", "", -1, -1, "?"},
	/* Intel's VMD: domains of more digits, a host bridge below another */
	{R0 "0000:40:05.5/pci10000:00/10000:00:02.0/10000:01:00.0",
	 R0 "0000:40:05.5/pci10000:00/10000:00:03.0/10000:02:00.0", 0, 0, "PIX"},
	/* Hyper-V */
	{"/sys/devices/LNXSYSTM:00/VMBUS:00/47505500-0001/pci0001:00/0001:00:00.0",
	 "/sys/devices/LNXSYSTM:00/VMBUS:00/47505500-0002/pci0002:00/0002:00:00.0", 0, 0, "NODE"},
	/* no PCI */
	{"/sys/devices/virtual/net/a", "/sys/devices/virtual/net/b", -1, -1, "?"},
};

ParameterizedTestParameters(topo, distance_follows_from_paths_and_then_from_nodes)
{
	return cr_make_param_array(struct pair, pairs, sizeof(pairs) / sizeof(pairs[0]));
}

ParameterizedTest(struct pair *p, topo, distance_follows_from_paths_and_then_from_nodes)
{
	struct srd_pci a = fake(p->a, p->numa_a), b = fake(p->b, p->numa_b);

	cr_assert(eq(str, (char *)srd_dist_str(srd_pci_dist(&a, &b)), p->dist), "%s - %s", p->a,
		  p->b);
	cr_assert(eq(str, (char *)srd_dist_str(srd_pci_dist(&b, &a)), p->dist), "%s - %s", p->b,
		  p->a);
}

Test(topo_p5, efas_and_gpu_of_a_switch_are_near)
{
	struct srd_pci nic = efa("rdmap82s0"), gpu = at("0000:53:00.0"), next = at("0000:64:00.0"),
		       far = at("0000:97:00.0");

	cr_assert(eq(int, srd_pci_dist(&nic, &gpu), SRD_DIST_PIX));
	cr_assert(eq(int, srd_pci_dist(&nic, &next), SRD_DIST_NODE));
	cr_assert(eq(int, srd_pci_dist(&nic, &far), SRD_DIST_SYS));
}

TestSuite(topo_p4d, .init = p4d, .fini = take_down);

Test(topo_p4d, hidden_switch_looks_like_a_host_bridge)
{
	struct srd_pci nic = efa("rdmap16s27"), gpu = at("0000:10:1c.0"), next = at("0000:20:1c.0");

	cr_assert(eq(int, srd_pci_dist(&nic, &gpu), SRD_DIST_PHB));
	cr_assert(eq(int, srd_pci_dist(&nic, &next), SRD_DIST_NODE));
	cr_assert(zero(u32, nic.link_mbps));
}

/* ---- order ---- */

Test(topo, order_is_that_of_addresses_and_unknown_ones_come_last)
{
	static const char *const ordered[] = {"/0000:0a:00.0", "/0000:10:00.0",  "/0000:10:00.1",
					      "/0000:10:1b.0", "/0000:a0:01.0",  "/0001:00:00.0",
					      "/10000:0:00.0", "/something-else"};
	int n = sizeof(ordered) / sizeof(ordered[0]);

	for (int i = 0; i < n; i++) {
		for (int k = 0; k < n; k++) {
			struct srd_pci a = fake(ordered[i], 0), b = fake(ordered[k], 0);
			int got = srd_pci_cmp(&a, &b);

			cr_assert(eq(int, (got > 0) - (got < 0), (i > k) - (i < k)), "%s %s",
				  ordered[i], ordered[k]);
		}
	}
}

/* ---- lines ---- */

Test(topo_p5, line_of_a_file_is_read_without_its_end)
{
	char line[64];

	cr_assert(eq(int,
		     srd_sysfs_line(tree.root, "devices/virtual/dmi/id/product_name", line,
				    sizeof(line)),
		     11));
	same(line, "p5.48xlarge");
}

Test(topo_p5, line_that_does_not_fit_is_none)
{
	char line[12] = "x";
	const char *name = "devices/virtual/dmi/id/product_name";

	cr_assert(eq(int, srd_sysfs_line(tree.root, name, line, 11), -ENAMETOOLONG));
	same(line, "");
	cr_assert(eq(int, srd_sysfs_line(tree.root, "devices/none", line, 12), -ENOENT));
	cr_assert(eq(int, srd_sysfs_line(tree.root, name, line, 0), -EINVAL));
}
