/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which EFA functions make one NCCL device. Pure functions of what is given: the same on every
 * node of a job that has the same hardware.
 *
 * Order is by PCI address, never by name or by discovery: names follow the order in which drivers
 * were loaded, addresses the slots, and both ends of a connection pair rail i with rail i.
 *
 * EFAs that are equally close to the same GPUs share those GPUs: there are as many groups of them
 * as GPUs, of equal size as far as that goes, so that each GPU has one device with all its
 * bandwidth (p5: 4 rails; p5en: 4 EFAs next to 2 GPUs, so 2 and 2; p4d: 1). NCCL is not asked to
 * merge them (makeVDevice): by default it merges the functions of one card only, at most 4, and
 * with a table before v9 none at all.
 *
 * EFAs that have no visible GPU of their own are grouped as large as the largest group that has
 * one, those of a switch together; where no GPU is visible at all, each EFA is a device. NCCL then
 * spreads its channels over all of them, which loses nothing, while a guessed group could join
 * EFAs that are far apart.
 */
#ifndef NET_RAILS_H
#define NET_RAILS_H

#include <stdint.h>

#include "limits.h"
#include "srd_topo.h"

enum { NET_MAX_EFAS = 128, NET_MAX_GPUS = 64 };

/* An EFA function to be grouped. */
struct net_efa {
	char name[64]; /* of the RDMA device */
	uint64_t guid;
	uint32_t speed_mbps;
	struct srd_pci pci;
};

struct net_rail_group {
	int nrails;
	int rail[NET_MAX_RAILS]; /* indices of the EFAs, in the order of their addresses */
	/* What NCCL is told. The strings of rail 0 must outlive the group. */
	char name[80];        /* unique on the node: "rdmap79s0", or "rdmap79s0+3" for four */
	const char *pci_path; /* of rail 0; NULL: unknown */
	uint64_t guid;        /* of rail 0: equal ones would be taken for ports of one card */
	uint32_t speed_mbps;  /* of all */
	int numa;             /* of all, or SRD_NUMA_UNKNOWN */
};

/*
 * Group the @n EFAs of @efas (at most NET_MAX_EFAS; @ngpus at most NET_MAX_GPUS), each into exactly
 * one of at most @n groups in @out, which has room for @n; groups are in the order of their first
 * EFAs. Returns how many there are.
 *
 * @max_rails: 0 for what is said above, or 1 ... NET_MAX_RAILS to have groups of that size as far
 * as the EFAs of a NUMA node allow, whatever GPUs there are: EFAs of one switch are divided evenly,
 * and switches with fewer EFAs are joined.
 */
int net_rails_group(const struct net_efa *efas, int n, const struct srd_pci *gpus, int ngpus,
		    int max_rails, struct net_rail_group *out);

#endif
