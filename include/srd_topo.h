/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * srd_topo - where EFAs and GPUs sit on the PCI bus, and how far they are from each other.
 *
 * The conventions are those of srd.h. All is read from sysfs at each call; no device is opened, no
 * library loaded, nothing logged or kept. @root is the sysfs to read: NULL means the environment
 * variable SYSFS_PATH, which libibverbs honours as well, or else /sys. Containers and hypervisors
 * hide parts of sysfs: what cannot be read is "unknown" in the answer, and never an error.
 */
#ifndef SRD_TOPO_H
#define SRD_TOPO_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define SRD_NUMA_UNKNOWN (-1)

/* A PCI function. */
struct srd_pci {
	char path[384];      /* of its folder, without symbolic links; "": unknown, or too long */
	char bus_id[24];     /* "0000:10:1b.0", lower case; "": unknown, or no PCI device */
	uint32_t class_code; /* 0x020000 ...; 0: unknown, as in the two that follow */
	uint16_t vendor, device;
	int numa; /* NUMA node; SRD_NUMA_UNKNOWN where the kernel says -1 or nothing */
	/* The link it was made for, not what the slot gives; 0: unknown. */
	uint32_t link_mts;   /* MT/s of a lane: 32000 for PCIe 5 */
	uint32_t link_lanes; /* 16 */
	uint32_t link_mbps;  /* Mbit/s of all lanes, line coding taken off */
};

/* The PCI function behind the RDMA device @name ("efa_0"). -ENODEV: sysfs has no such device. */
int srd_pci_of_dev(const char *root, const char *name, struct srd_pci *out);
/*
 * The PCI function with the address @bus_id, which cuDeviceGetPCIBusId() tells of a GPU; upper
 * case is accepted. -EINVAL: that is no address. -ENODEV: sysfs has no such function.
 */
int srd_pci_of_bus_id(const char *root, const char *bus_id, struct srd_pci *out);
/*
 * Fill up to @cap entries of @out with NVIDIA's GPUs (vendor 0x10de, class 0x0300 or 0x0302), in
 * the order of srd_pci_cmp(). Returns how many there are: it may exceed @cap, and is 0 where sysfs
 * shows none. CUDA_VISIBLE_DEVICES has no say in it.
 */
int srd_pci_gpus(const char *root, struct srd_pci *out, int cap);
/* The same of EFAs (vendor 0x1d0f, device 0xefa...), whether they can be used or not. */
int srd_pci_efas(const char *root, struct srd_pci *out, int cap);

/* strcmp() of PCI addresses: the same order on hosts of the same kind; unknown ones come last. */
int srd_pci_cmp(const struct srd_pci *a, const struct srd_pci *b);

/*
 * How far data between two functions travel, from near to far, in the words of nvidia-smi and NCCL.
 * What a hypervisor invents looks nearer or farther than it is: p4d hides all its switches.
 */
enum srd_dist {
	SRD_DIST_SELF,    /* one and the same function */
	SRD_DIST_PIX,     /* through one PCIe switch */
	SRD_DIST_PXB,     /* through several switches, all below one root port */
	SRD_DIST_PHB,     /* through a host bridge, the CPU's own */
	SRD_DIST_NODE,    /* through two host bridges of one NUMA node */
	SRD_DIST_SYS,     /* between NUMA nodes */
	SRD_DIST_UNKNOWN, /* paths, and then NUMA nodes, tell nothing */
};

enum srd_dist srd_pci_dist(const struct srd_pci *a, const struct srd_pci *b);
/* "SELF", "PIX" ...; "?" for SRD_DIST_UNKNOWN and for what is none. */
const char *srd_dist_str(enum srd_dist dist);

/*
 * The first line of the file @name below @root, such as "devices/system/node/node0/cpumap" or
 * "devices/virtual/dmi/id/product_name" (the EC2 instance type), without blanks at its end. Returns
 * its length, at most @size - 1; -errno when it cannot be read, and -ENAMETOOLONG when it does not
 * fit. @out is "" then.
 */
int srd_sysfs_line(const char *root, const char *name, char *out, size_t size);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
