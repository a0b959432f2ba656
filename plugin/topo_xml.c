/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing the topology that sysfs should have shown. */
#include "topo_xml.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_SWITCHES = 6, MAX_LEAVES = NET_MAX_GPUS + NET_MAX_EFAS };

typedef char bus_id[sizeof(((struct srd_pci *)0)->bus_id)];

/* A GPU or an EFA. */
struct leaf {
	const struct srd_pci *pci;
	uint32_t mbps; /* of all rails; 0: a GPU */
	int numa;
	int depth;
	bus_id above[MAX_SWITCHES]; /* switches, from the CPU on */
};

struct leaves {
	int n;
	struct leaf leaf[MAX_LEAVES];
};

/* ---- what is known of instances that hide it ---- */

struct span {
	unsigned from, to; /* bus << 8 | device */
	int numa;
};

static const struct truth {
	const char *product;
	bool switches; /* the functions of one bus are below one switch */
	struct span spans[3];
} truths[] = {
	{"p4d.24xlarge", true, {{0x1000, 0x20ff, 0}, {0x9000, 0xa0ff, 1}}},
	{"p4de.24xlarge", true, {{0x1000, 0x20ff, 0}, {0x9000, 0xa0ff, 1}}},
	{"g5.48xlarge", false, {{0x0015, 0x0015, 1}, {0x0016, 0x0019, 0}, {0x001a, 0x001d, 1}}},
};

static const struct truth *truth_of(const struct net_topo *t)
{
	for (size_t i = 0; i < sizeof(truths) / sizeof(truths[0]); i++)
		if (strcmp(truths[i].product, t->product) == 0)
			return &truths[i];
	return NULL;
}

static int true_node(const struct truth *truth, const struct srd_pci *pci)
{
	unsigned domain, bus, dev;

	if (!truth || sscanf(pci->bus_id, "%x:%x:%x", &domain, &bus, &dev) != 3)
		return SRD_NUMA_UNKNOWN;
	for (size_t i = 0; i < sizeof(truth->spans) / sizeof(truth->spans[0]); i++) {
		const struct span *s = &truth->spans[i];

		if (domain == 0 && (bus << 8 | dev) >= s->from && (bus << 8 | dev) <= s->to)
			return s->numa;
	}
	return SRD_NUMA_UNKNOWN;
}

/* ---- leaves ---- */

static bool is_address(const char *part, size_t len)
{
	unsigned domain, bus, dev, fn;
	int used = 0;

	return sscanf(part, "%8x:%2x:%2x.%1x%n", &domain, &bus, &dev, &fn, &used) == 4 &&
	       (size_t)used == len;
}

/* The switches above a function: its path upwards, without its own port, then every second. */
static void set_switches(struct leaf *leaf)
{
	const char *path = leaf->pci->path, *end = path + strlen(path);
	bus_id up[MAX_SWITCHES];
	int n = 0;

	for (int i = 0; end > path && n < MAX_SWITCHES; i++) {
		const char *part = end;

		while (part > path && part[-1] != '/')
			part--;
		if (!is_address(part, end - part))
			break;
		if (i > 0 && i % 2 == 0)
			snprintf(up[n++], sizeof(bus_id), "%.*s", (int)(end - part), part);
		end = part > path ? part - 1 : path;
	}
	for (int i = 0; i < n; i++)
		memcpy(leaf->above[i], up[n - 1 - i], sizeof(bus_id));
	leaf->depth = n;
}

static void add(struct leaves *l, const struct srd_pci *pci, uint32_t mbps)
{
	struct leaf *leaf = &l->leaf[l->n];

	/* Of one without an address there is nothing to say. */
	if (!pci->bus_id[0] || l->n == MAX_LEAVES)
		return;
	memset(leaf, 0, sizeof(*leaf));
	leaf->pci = pci;
	leaf->mbps = mbps;
	leaf->numa = pci->numa;
	set_switches(leaf);
	l->n++;
}

/* The node of what is nearest and has one, or 0. */
static int nearest_node(const struct leaves *l, const struct srd_pci *pci)
{
	enum srd_dist best = SRD_DIST_UNKNOWN;
	int numa = 0;

	for (int i = 0; i < l->n; i++) {
		enum srd_dist d = srd_pci_dist(pci, l->leaf[i].pci);

		if (l->leaf[i].pci->numa != SRD_NUMA_UNKNOWN && d < best) {
			best = d;
			numa = l->leaf[i].pci->numa;
		}
	}
	return numa;
}

static void set_nodes(struct leaves *l, const struct truth *truth)
{
	for (int i = 0; i < l->n; i++) {
		struct leaf *leaf = &l->leaf[i];

		if (leaf->numa == SRD_NUMA_UNKNOWN)
			leaf->numa = true_node(truth, leaf->pci);
		if (leaf->numa == SRD_NUMA_UNKNOWN)
			leaf->numa = nearest_node(l, leaf->pci);
	}
}

static bool needs_switch(const struct truth *truth, const struct leaf *leaf)
{
	return truth && truth->switches && leaf->depth == 0;
}

/* One for each bus, numbered in their order; no real bus has these addresses. */
static void invent_switches(struct leaves *l, const struct truth *truth)
{
	const struct leaf *last = NULL;
	unsigned n = 0;

	for (int i = 0; i < l->n; i++) {
		struct leaf *leaf = &l->leaf[i];

		if (!needs_switch(truth, leaf))
			continue;
		/* "0000:10:" */
		if (!last || strncmp(last->pci->bus_id, leaf->pci->bus_id, 8))
			n++;
		snprintf(leaf->above[0], sizeof(bus_id), "ffff:ff:%02x.0", n & 0x1f);
		leaf->depth = 1;
		last = leaf;
	}
}

/* By node, then by switches, so that what is in one element follows on each other. */
static int by_place(const void *a, const void *b)
{
	const struct leaf *x = a, *y = b;

	if (x->numa != y->numa)
		return x->numa < y->numa ? -1 : 1;
	for (int i = 0; i < x->depth && i < y->depth; i++) {
		int d = strcmp(x->above[i], y->above[i]);

		if (d)
			return d;
	}
	if (x->depth != y->depth)
		return x->depth - y->depth;
	return srd_pci_cmp(x->pci, y->pci);
}

static int by_address(const void *a, const void *b)
{
	return srd_pci_cmp(((const struct leaf *)a)->pci, ((const struct leaf *)b)->pci);
}

static void collect(const struct net_topo *t, struct leaves *l)
{
	const struct truth *truth = truth_of(t);

	l->n = 0;
	for (int i = 0; i < t->ngpus; i++)
		add(l, &t->gpus[i], 0);
	for (int i = 0; i < t->ngroups; i++)
		add(l, &t->efas[t->groups[i].rail[0]].pci, t->groups[i].speed_mbps);
	qsort(l->leaf, l->n, sizeof(l->leaf[0]), by_address);
	invent_switches(l, truth);
	set_nodes(l, truth);
	/* A switch is in one place, whatever its functions claim. */
	for (int i = 0; i < l->n; i++)
		for (int k = 0; k < i; k++)
			if (l->leaf[i].depth && l->leaf[k].depth &&
			    strcmp(l->leaf[i].above[0], l->leaf[k].above[0]) == 0)
				l->leaf[i].numa = l->leaf[k].numa;
	qsort(l->leaf, l->n, sizeof(l->leaf[0]), by_place);
}

/* ---- writing ---- */

static const char *indent(int depth)
{
	static const char blanks[] = "                    ";

	return blanks + sizeof(blanks) - 1 - 2 * depth;
}

/* Spelled as kernels before 5.7 did: every release of NCCL knows that. */
static void write_link(FILE *out, uint32_t mts, uint32_t lanes)
{
	if (mts % 1000)
		fprintf(out, " link_speed=\"%u.%u GT/s\"", mts / 1000, mts % 1000 / 100);
	else
		fprintf(out, " link_speed=\"%u GT/s\"", mts / 1000);
	fprintf(out, " link_width=\"%u\"", lanes);
}

/*
 * The link of an EFA that stands for several; where the speeds that old releases of NCCL know do
 * not suffice, with more lanes than there are. Nothing on GPUs: NCCL asks the driver.
 */
static void write_leaf_link(FILE *out, const struct leaf *leaf)
{
	static const uint32_t mts[] = {8000, 16000, 32000};
	uint32_t lanes = 16;
	int i = 0;

	if (!leaf->mbps)
		return;
	if (leaf->pci->link_mbps >= leaf->mbps) {
		write_link(out, leaf->pci->link_mts, leaf->pci->link_lanes);
		return;
	}
	while (i < 2 && (uint64_t)mts[i] * lanes * 128 / 130 < leaf->mbps)
		i++;
	while ((uint64_t)mts[i] * lanes * 128 / 130 < leaf->mbps)
		lanes *= 2;
	write_link(out, mts[i], lanes);
}

static void write_leaf(FILE *out, const struct leaf *leaf)
{
	uint32_t class = leaf->mbps ? 0x020000 : 0x030200;

	if (leaf->pci->class_code)
		class = leaf->pci->class_code;
	fprintf(out, "%s<pci busid=\"%s\" class=\"0x%06x\"", indent(2 + leaf->depth),
		leaf->pci->bus_id, class);
	write_leaf_link(out, leaf);
	fputs("/>\n", out);
}

/* An invented switch has the speed of the slowest CPUs it was seen with, those of p4d. */
static void open_switch(FILE *out, const struct net_topo *t, const char *address, int depth)
{
	struct srd_pci pci;

	fprintf(out, "%s<pci busid=\"%s\" class=\"0x060400\"", indent(2 + depth), address);
	if (srd_pci_of_bus_id(t->root, address, &pci) == 0 && pci.link_mbps)
		write_link(out, pci.link_mts, pci.link_lanes);
	else
		write_link(out, 8000, 16);
	fputs(">\n", out);
}

static void open_cpu(FILE *out, const struct net_topo *t, int numa)
{
	char name[64], mask[200];

	fprintf(out, "%s<cpu numaid=\"%d\"", indent(1), numa);
	snprintf(name, sizeof(name), "devices/system/node/node%d/cpumap", numa);
	if (srd_sysfs_line(t->root, name, mask, sizeof(mask)) > 0)
		fprintf(out, " affinity=\"%s\"", mask);
	fprintf(out, " arch=\"%s\"", t->cpu.arch);
	if (t->cpu.vendor[0])
		fprintf(out, " vendor=\"%s\" familyid=\"%d\" modelid=\"%d\"", t->cpu.vendor,
			t->cpu.family, t->cpu.model);
	fputs(">\n", out);
}

static int shared_switches(const struct leaf *a, const struct leaf *b)
{
	int n = 0;

	while (n < a->depth && n < b->depth && strcmp(a->above[n], b->above[n]) == 0)
		n++;
	return n;
}

static void close_switches(FILE *out, const struct leaf *leaf, int until)
{
	for (int i = leaf->depth; i > until; i--)
		fprintf(out, "%s</pci>\n", indent(1 + i));
}

int net_topo_write(const struct net_topo *t, FILE *out)
{
	const struct leaf *last = NULL;
	struct leaves l;

	collect(t, &l);
	fputs("<system version=\"1\">\n", out);
	for (int i = 0; i < l.n; i++) {
		const struct leaf *leaf = &l.leaf[i];
		int open = 0;

		if (last && last->numa == leaf->numa)
			open = shared_switches(last, leaf);
		if (last)
			close_switches(out, last, open);
		if (last && last->numa != leaf->numa)
			fprintf(out, "%s</cpu>\n", indent(1));
		if (!last || last->numa != leaf->numa)
			open_cpu(out, t, leaf->numa);
		for (int k = open; k < leaf->depth; k++)
			open_switch(out, t, leaf->above[k], k);
		write_leaf(out, leaf);
		last = leaf;
	}
	if (last) {
		close_switches(out, last, 0);
		fprintf(out, "%s</cpu>\n", indent(1));
	}
	fputs("</system>\n", out);
	return fflush(out) || ferror(out) ? -EIO : 0;
}

/* ---- need ---- */

static bool link_too_slow(const struct net_topo *t, char *why, size_t size)
{
	for (int i = 0; i < t->ngroups; i++) {
		const struct net_rail_group *g = &t->groups[i];
		const struct srd_pci *pci = &t->efas[g->rail[0]].pci;

		if (g->nrails == 1 || pci->link_mbps >= g->speed_mbps || !pci->bus_id[0])
			continue;
		snprintf(why, size, "%s is %u Mbit/s, the PCIe link of its first EFA %s%u Mbit/s",
			 g->name, g->speed_mbps, pci->link_mbps ? "" : "unknown, ", pci->link_mbps);
		return true;
	}
	return false;
}

static bool node_missing(const struct leaves *l, const struct truth *truth, char *why, size_t size)
{
	const struct srd_pci *without = NULL;
	bool any = false;

	for (int i = 0; i < l->n; i++) {
		const struct srd_pci *pci = l->leaf[i].pci;

		if (pci->numa == SRD_NUMA_UNKNOWN)
			without = pci;
		if (pci->numa != SRD_NUMA_UNKNOWN || true_node(truth, pci) != SRD_NUMA_UNKNOWN)
			any = true;
	}
	if (!without || !any)
		return false;
	snprintf(why, size, "sysfs has no NUMA node for %s", without->bus_id);
	return true;
}

static bool switch_missing(const struct net_topo *t, char *why, size_t size)
{
	const struct truth *truth = truth_of(t);
	struct leaf leaf;

	for (int i = 0; i < t->ngroups; i++) {
		memset(&leaf, 0, sizeof(leaf));
		leaf.pci = &t->efas[t->groups[i].rail[0]].pci;
		set_switches(&leaf);
		if (leaf.pci->bus_id[0] && needs_switch(truth, &leaf)) {
			snprintf(why, size, "%s hides its PCIe switches", t->product);
			return true;
		}
	}
	return false;
}

bool net_topo_needed(const struct net_topo *t, char *why, size_t size)
{
	struct leaves l;

	if (t->ngpus == 0 || t->ngroups == 0)
		return false;
	collect(t, &l);
	return switch_missing(t, why, size) || node_missing(&l, truth_of(t), why, size) ||
	       link_too_slow(t, why, size);
}

/* ---- this machine ---- */

/* As NCCL counts: the extended family is not added, but put in front. */
static void set_cpu(struct net_topo_cpu *cpu)
{
	memset(cpu, 0, sizeof(*cpu));
#if defined(__x86_64__)
	unsigned a, b, c, d;

	strcpy(cpu->arch, "x86_64");
	__cpuid(0, a, b, c, d);
	memcpy(cpu->vendor, &b, 4);
	memcpy(cpu->vendor + 4, &d, 4);
	memcpy(cpu->vendor + 8, &c, 4);
	__cpuid(1, a, b, c, d);
	cpu->family = (int)((a >> 8 & 0xf) + (a >> 20 & 0xff) * 16);
	cpu->model = (int)((a >> 4 & 0xf) + (a >> 16 & 0xf) * 16);
#elif defined(__aarch64__)
	strcpy(cpu->arch, "arm64");
#endif
}

void net_topo_here(struct net_topo *t)
{
	set_cpu(&t->cpu);
	srd_sysfs_line(t->root, "devices/virtual/dmi/id/product_name", t->product,
		       sizeof(t->product));
}

static int write_to(int fd, const struct net_topo *t)
{
	int copy = dup(fd), rc;
	FILE *out = copy < 0 ? NULL : fdopen(copy, "w");

	if (!out) {
		rc = -errno;
		if (copy >= 0)
			close(copy);
		return rc;
	}
	rc = net_topo_write(t, out);
	if (fclose(out) && !rc)
		rc = -EIO;
	return rc;
}

int net_topo_publish(const struct net_topo *t)
{
	char path[64], why[128];
	int fd, rc;

	if (getenv("NCCL_TOPO_FILE") || !net_topo_needed(t, why, sizeof(why)))
		return 0;
	fd = memfd_create("nccl-topology", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	rc = write_to(fd, t);
	/* Not /proc/self: in a child of ours that would be another file, or none. */
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), fd);
	if (!rc && setenv("NCCL_TOPO_FILE", path, 0))
		rc = -errno;
	if (rc) {
		close(fd);
		return rc;
	}
	return 1;
}
