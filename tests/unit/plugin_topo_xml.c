/* SPDX-License-Identifier: BSD-3-Clause */
/* The topology file for NCCL, on trees of EC2 instances, whole and with parts hidden. */
#include "../../plugin/topo_xml.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../lib/need.h"
#include "../lib/tree.h"

static struct tree tree;
static struct net_efa efas[NET_MAX_EFAS];
static struct srd_pci gpus[NET_MAX_GPUS];
static struct net_rail_group groups[NET_MAX_EFAS];
static struct net_topo topo;
static char xml[1 << 16], why[256];

/* EFAs of @gbps each are those whose number in their name, the bus, is in first ... last. */
static void look(const char *instance, unsigned gbps)
{
	int n = 0;

	topo = (struct net_topo){.root = tree.root, .gpus = gpus, .efas = efas, .groups = groups};
	memset(efas, 0, sizeof(efas));
	for (int bus = 0; bus < 256; bus++) {
		for (int slot = 0; slot < 32; slot++) {
			struct net_efa *efa = &efas[n];

			snprintf(efa->name, sizeof(efa->name), "rdmap%ds%d", bus, slot);
			if (srd_pci_of_dev(tree.root, efa->name, &efa->pci))
				continue;
			efa->speed_mbps = gbps * 1000;
			n++;
		}
	}
	need(n > 0, "%s has no EFA", instance);
	topo.ngpus = srd_pci_gpus(tree.root, gpus, NET_MAX_GPUS);
	topo.ngroups = net_rails_group(efas, n, gpus, topo.ngpus, 0, groups);
	net_topo_here(&topo);
	/* of a p4d, wherever this runs */
	topo.cpu = (struct net_topo_cpu){"x86_64", "GenuineIntel", 6, 85};
}

static void make(const char *instance, unsigned gbps)
{
	tree_make(&tree, instance);
	look(instance, gbps);
}

static const char *written(void)
{
	FILE *out = fmemopen(xml, sizeof(xml), "w");

	need(out, "fmemopen: %s", strerror(errno));
	cr_assert(zero(int, net_topo_write(&topo, out)));
	fclose(out);
	return xml;
}

static bool needed(void)
{
	return net_topo_needed(&topo, why, sizeof(why));
}

static void take_down(void)
{
	tree_fini(&tree);
}

#define same(a, b) cr_assert(eq(str, (char *)(a), (char *)(b)))
#define has(text)  cr_assert(ne(ptr, strstr(xml, text), NULL), "%s", xml)

TestSuite(topo_xml, .fini = take_down);

/* ---- NCCL's own reader, as strict as it is ---- */

struct reader {
	const char *at;
	char open[16][16];
	int depth, nodes, cpus;
};

static const char *word(struct reader *r, const char *end, char *out, size_t size)
{
	size_t n = strcspn(r->at, end);

	need(n < size, "too long: %.40s", r->at);
	memcpy(out, r->at, n);
	out[n] = '\0';
	r->at += n;
	return out;
}

/* key="value", one blank before each, none before the end; @must: keys that have to be there */
static void attributes(struct reader *r, const char *must)
{
	char key[32], value[255], found[256] = "";
	int n = 0;

	while (*r->at == ' ') {
		r->at++;
		word(r, "=", key, sizeof(key));
		need(strncmp(r->at, "=\"", 2) == 0, "no value: %.40s", r->at);
		r->at += 2;
		word(r, "\"", value, sizeof(value));
		need(*r->at++ == '"', "no end: %.40s", r->at);
		need(value[0], "%s is empty", key);
		snprintf(found + strlen(found), sizeof(found) - strlen(found), "%s ", key);
		n++;
	}
	need(n <= 16, "%d attributes", n);
	while (*must) {
		size_t len = strcspn(must, " ");

		snprintf(key, sizeof(key), "%.*s ", (int)len, must);
		need(strstr(found, key), "no %s in %s", key, found);
		must += len + (must[len] == ' ');
	}
}

static const char *must_have(const char *element)
{
	if (strcmp(element, "system") == 0)
		return "version";
	if (strcmp(element, "cpu") == 0)
		return "numaid affinity arch vendor familyid modelid";
	need(strcmp(element, "pci") == 0, "element %s", element);
	return "busid class";
}

static struct reader read_xml(void)
{
	struct reader r = {.at = written()};
	char name[16];

	while (*r.at) {
		need(*r.at++ == '<', "not the begin: %.40s", r.at);
		if (*r.at == '/') {
			r.at++;
			word(&r, ">", name, sizeof(name));
			need(r.depth > 0 && strcmp(r.open[r.depth - 1], name) == 0, "/%s", name);
			r.depth--;
		} else {
			word(&r, " >/", name, sizeof(name));
			attributes(&r, must_have(name));
			r.nodes++;
			r.cpus += strcmp(name, "cpu") == 0;
			need(r.depth < 10, "too deep");
			if (*r.at == '/')
				r.at++;
			else
				strcpy(r.open[r.depth++], name);
		}
		need(*r.at++ == '>', "no end: %.40s", r.at - 1);
		r.at += strspn(r.at, " \n");
	}
	need(r.depth == 0, "%d elements not closed", r.depth);
	return r;
}

static int count(const char *text)
{
	int n = 0;

	for (const char *p = xml; (p = strstr(p, text)); p++)
		n++;
	return n;
}

struct instance {
	char name[16];
	unsigned gbps;
	int nodes, cpus;
	char why[80];
};

/* nodes: system, CPUs, switches, GPUs, first EFAs */
static struct instance instances[] = {
	{"p4d", 100, 1 + 2 + 4 + 8 + 4, 2, "p4d.24xlarge hides its PCIe switches"},
	{"p5", 100, 1 + 2 + 8 + 8 + 8, 2,
	 "rdmap79s0+3 is 400000 Mbit/s, the PCIe link of its first EFA 126030 Mbit/s"},
	{"p5en", 200, 1 + 2 + 4 + 8 + 8, 2, ""},
	{"p6-b200", 400, 1 + 2 + 4 + 8 + 8, 2, ""},
	{"p6-b300", 400, 1 + 2 + 8 + 8 + 8, 2,
	 "rdmap78s0+1 is 800000 Mbit/s, the PCIe link of its first EFA 504123 Mbit/s"},
	{"g5", 100, 1 + 2 + 0 + 8 + 1, 2, "sysfs has no NUMA node for 0000:00:"},
	{"g6e", 100, 1 + 2 + 0 + 8 + 4, 2, ""},
};

ParameterizedTestParameters(topo_xml, file_is_what_nccl_reads_and_needed_where_sysfs_misleads)
{
	return cr_make_param_array(struct instance, instances,
				   sizeof(instances) / sizeof(instances[0]));
}

ParameterizedTest(struct instance *p, topo_xml,
		  file_is_what_nccl_reads_and_needed_where_sysfs_misleads)
{
	struct reader r;

	make(p->name, p->gbps);
	cr_assert(eq(int, needed(), p->why[0] != '\0'), "%s: %s", p->name, why);
	cr_assert(zero(int, strncmp(why, p->why, strlen(p->why))), "%s: %s", p->name, why);
	r = read_xml();
	cr_assert(eq(int, r.nodes, p->nodes), "%s", xml);
	cr_assert(eq(int, r.cpus, p->cpus), "%s", xml);
	for (int i = 0; i < topo.ngpus; i++)
		cr_assert(eq(int, count(gpus[i].bus_id), 1), "%s", gpus[i].bus_id);
	for (int i = 0; i < topo.ngroups; i++)
		cr_assert(eq(int, count(efas[groups[i].rail[0]].pci.bus_id), 1));
}

/* ---- what is in it ---- */

#define CPU " arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"85\">\n"
#define SWITCH(n) \
	"    <pci busid=\"ffff:ff:0" n ".0\" class=\"0x060400\"" \
	" link_speed=\"8 GT/s\" link_width=\"16\">\n"
#define BELOW(bus, n) \
	SWITCH(n) \
	"      <pci busid=\"0000:" bus ":1b.0\" class=\"0x020000\"" \
	" link_speed=\"8 GT/s\" link_width=\"16\"/>\n" \
	"      <pci busid=\"0000:" bus ":1c.0\" class=\"0x030200\"/>\n" \
	"      <pci busid=\"0000:" bus ":1d.0\" class=\"0x030200\"/>\n" \
	"    </pci>\n"

static const char p4d[] =
	"<system version=\"1\">\n"
	"  <cpu numaid=\"0\" affinity=\"000000ff,ffff0000,00ffffff\"" CPU BELOW("10", "1") BELOW(
		"20", "2") "  </cpu>\n"
			   "  <cpu numaid=\"1\" affinity=\"ffffff00,0000ffff,ff000000\"" CPU BELOW(
				   "90", "3") BELOW("a0", "4") "  </cpu>\n"
							       "</system>\n";

Test(topo_xml, p4d_has_the_switches_that_are_hidden)
{
	make("p4d", 100);
	same(written(), p4d);
}

Test(topo_xml, p4d_is_the_same_where_nodes_are_hidden_too)
{
	make("p4d", 100);
	for (int i = 0; i < topo.ngpus; i++)
		gpus[i].numa = SRD_NUMA_UNKNOWN;
	for (int i = 0; i < topo.ngroups; i++)
		efas[i].pci.numa = SRD_NUMA_UNKNOWN;
	same(written(), p4d);
}

Test(topo_xml, only_what_is_visible_is_in_it)
{
	tree_make(&tree, "p4d");
	for (int bus = 0x20; bus <= 0x90; bus += 0x70)
		for (int slot = 0x1c; slot <= 0x1d; slot++)
			tree_hide(&tree, "bus/pci/devices/0000:%02x:%02x.0", bus, slot);
	tree_hide(&tree, "class/infiniband/rdmap32s27");
	tree_hide(&tree, "class/infiniband/rdmap144s27");
	look("p4d", 100);
	cr_assert(needed());
	cr_assert(eq(int, read_xml().nodes, 1 + 2 + 2 + 4 + 2), "%s", xml);
	cr_assert(zero(int, count("0000:20:")));
	cr_assert(zero(int, count("0000:90:")));
}

Test(topo_xml, g5_has_the_nodes_that_are_hidden)
{
	const char *second;

	make("g5", 25);
	read_xml();
	second = strstr(xml, "<cpu numaid=\"1\"");
	cr_assert(ne(ptr, (void *)second, NULL), "%s", xml);
	cr_assert(lt(ptr, strstr(xml, "0000:00:19.0"), (char *)second));
	cr_assert(gt(ptr, strstr(xml, "0000:00:1a.0"), (char *)second));
	cr_assert(gt(ptr, strstr(xml, "0000:00:15.0"), (char *)second));
}

Test(topo_xml, device_of_several_has_the_link_of_all)
{
	make("p5", 100);
	read_xml();
	has("    <pci busid=\"0000:45:00.0\" class=\"0x060400\""
	    " link_speed=\"32 GT/s\" link_width=\"16\">\n"
	    "      <pci busid=\"0000:4f:00.0\" class=\"0x020000\""
	    " link_speed=\"32 GT/s\" link_width=\"16\"/>\n"
	    "      <pci busid=\"0000:53:00.0\" class=\"0x030200\"/>\n"
	    "    </pci>\n");
	cr_assert(zero(int, count("0000:50:00.0")));
}

Test(topo_xml, more_than_32_gts_are_said_with_more_lanes)
{
	make("p6-b300", 400);
	read_xml();
	has("<pci busid=\"0000:4e:00.0\" class=\"0x020000\" link_speed=\"32 GT/s\""
	    " link_width=\"32\"/>");
	/* and the switch's own, of 64 */
	has("<pci busid=\"0000:45:00.0\" class=\"0x060400\" link_speed=\"64 GT/s\"");
}

Test(topo_xml, function_without_a_node_is_where_its_neighbours_are)
{
	make("p5en", 200);
	cr_assert(not(needed()));
	gpus[7].numa = SRD_NUMA_UNKNOWN;
	cr_assert(needed());
	same(why, "sysfs has no NUMA node for 0000:a5:00.0");
	cr_assert(eq(int, read_xml().cpus, 2));
	cr_assert(gt(ptr, strstr(xml, "0000:a5:00.0"), strstr(xml, "numaid=\"1\"")));
}

Test(topo_xml, machine_without_nodes_needs_no_file)
{
	tree_make(&tree, "g5");
	tree_write(&tree, "devices/virtual/dmi/id/product_name", "g5.12xlarge");
	look("g5", 25);
	cr_assert(not(needed()), "%s", why);
	tree_hide(&tree, "devices/virtual");
	look("g5", 25);
	same(topo.product, "");
	cr_assert(not(needed()), "%s", why);
}

Test(topo_xml, no_gpu_needs_no_file)
{
	make("p4d", 100);
	topo.ngpus = 0;
	cr_assert(not(needed()), "%s", why);
}

Test(topo_xml, switch_that_is_shown_is_not_invented)
{
	tree_make(&tree, "p5en");
	tree_write(&tree, "devices/virtual/dmi/id/product_name", "p4d.24xlarge");
	look("p5en", 200);
	cr_assert(not(needed()), "%s", why);
	read_xml();
	cr_assert(zero(int, count("ffff:")));
}

Test(topo_xml, masks_that_are_hidden_are_left_out)
{
	tree_make(&tree, "p4d");
	tree_hide(&tree, "devices/system");
	look("p4d", 100);
	written();
	cr_assert(zero(int, count("affinity")));
	has("<cpu numaid=\"0\" arch=\"x86_64\"");
}

Test(topo_xml, cpu_of_this_machine_is_told_as_proc_does)
{
	char text[4096], vendor[32];
	int fd = open("/proc/cpuinfo", O_RDONLY);
	ssize_t n = read(fd, text, sizeof(text) - 1);

	make("p4d", 100);
	net_topo_here(&topo);
	if (strcmp(topo.cpu.arch, "x86_64"))
		cr_skip("not x86-64");
	text[n > 0 ? n : 0] = '\0';
	snprintf(vendor, sizeof(vendor), ": %s\n", topo.cpu.vendor);
	cr_assert(ne(ptr, strstr(text, vendor), NULL), "%s", vendor);
	cr_assert(gt(int, topo.cpu.family, 0));
	same(topo.product, "p4d.24xlarge");
}

/* ---- telling NCCL ---- */

Test(topo_xml, nccl_is_told_a_file_with_it)
{
	char text[sizeof(xml)] = "", *path;
	FILE *f;

	make("p4d", 100);
	unsetenv("NCCL_TOPO_FILE");
	cr_assert(eq(int, net_topo_publish(&topo), 1));
	path = getenv("NCCL_TOPO_FILE");
	cr_assert(ne(ptr, path, NULL));
	/* as often as NCCL likes */
	for (int i = 0; i < 2; i++) {
		f = fopen(path, "r");
		cr_assert(ne(ptr, f, NULL), "%s", path);
		cr_assert(gt(sz, fread(text, 1, sizeof(text) - 1, f), 0));
		fclose(f);
		same(text, p4d);
	}
}

Test(topo_xml, program_that_is_run_by_this_one_reads_the_same)
{
	make("p4d", 100);
	unsetenv("NCCL_TOPO_FILE");
	cr_assert(eq(int, net_topo_publish(&topo), 1));
	cr_assert(zero(int, system("grep -q 'version=\"1\"' \"$NCCL_TOPO_FILE\"")));
}

Test(topo_xml, what_the_user_set_stays)
{
	make("p4d", 100);
	setenv("NCCL_TOPO_FILE", "/mine.xml", 1);
	cr_assert(zero(int, net_topo_publish(&topo)));
	same(getenv("NCCL_TOPO_FILE"), "/mine.xml");
}

Test(topo_xml, nothing_is_set_where_there_is_no_need)
{
	make("p5en", 200);
	unsetenv("NCCL_TOPO_FILE");
	cr_assert(zero(int, net_topo_publish(&topo)));
	cr_assert(eq(ptr, getenv("NCCL_TOPO_FILE"), NULL));
}

Test(topo_xml, full_disk_is_an_error)
{
	FILE *out;

	make("p4d", 100);
	out = fopen("/dev/full", "w");
	cr_assert(eq(int, net_topo_write(&topo, out), -EIO));
	fclose(out);
}

/* ---- nccl-tests-config/topo ---- */

/* The types that have a file there; their CPUs, as NCCL counts them, are known from EC2's pages. */
struct type {
	char name[24], fixture[12];
	unsigned gbps;
	struct net_topo_cpu cpu;
};

ParameterizedTestParameters(topo_xml, files_of_the_configuration_are_what_it_writes)
{
	static struct type types[] = {
		{"p4d.24xlarge", "p4d", 100, {"x86_64", "GenuineIntel", 6, 85}},
		{"p4de.24xlarge", "p4d", 100, {"x86_64", "GenuineIntel", 6, 85}},
		{"p5.48xlarge", "p5", 100, {"x86_64", "AuthenticAMD", 175, 1}},
		{"p5e.48xlarge", "p5", 100, {"x86_64", "AuthenticAMD", 175, 1}},
		{"p5en.48xlarge", "p5en", 200, {"x86_64", "GenuineIntel", 6, 143}},
		{"p6-b200.48xlarge", "p6-b200", 400, {"x86_64", "GenuineIntel", 6, 207}},
		{"p6-b300.48xlarge", "p6-b300", 400, {"x86_64", "GenuineIntel", 6, 207}},
		{"g5.48xlarge", "g5", 100, {"x86_64", "AuthenticAMD", 143, 49}},
		{"g6e.48xlarge", "g6e", 100, {"x86_64", "AuthenticAMD", 175, 1}},
	};

	return cr_make_param_array(struct type, types, sizeof(types) / sizeof(types[0]));
}

/* With TOPO_WRITE in the environment the files are written: make topology. */
ParameterizedTest(struct type *type, topo_xml, files_of_the_configuration_are_what_it_writes)
{
	static char file[sizeof(xml)];
	bool write = getenv("TOPO_WRITE") != NULL;
	char path[256];
	FILE *f;

	tree_make(&tree, type->fixture);
	tree_write(&tree, "devices/virtual/dmi/id/product_name", type->name);
	look(type->name, type->gbps);
	topo.cpu = type->cpu;
	read_xml();
	snprintf(path, sizeof(path), TOPO_FILES "/%s.xml", type->name);
	f = fopen(path, write ? "w" : "r");
	need(f, "%s: %s", path, strerror(errno));
	if (write) {
		need(fputs(xml, f) >= 0 && fclose(f) == 0, "%s: %s", path, strerror(errno));
		return;
	}
	need(fread(file, 1, sizeof(file) - 1, f) > 0, "%s is empty", path);
	fclose(f);
	same(file, xml);
}
