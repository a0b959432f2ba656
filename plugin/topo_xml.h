/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A topology file for NCCL, where what it would find in sysfs misleads it:
 *
 *   - p4d and p4de show GPUs and EFAs right on a host bridge, and hide the switches between them:
 *     NCCL would not let the EFA write to GPU memory (GPUDirect) that far from it;
 *   - a function without a NUMA node, as all of g5.48xlarge, hangs on a CPU of its own for NCCL,
 *     to which no path leads (aws-ofi-nccl issue 873: a crash);
 *   - NCCL sees a device of several rails at the place of rail 0, and takes the PCIe link of that
 *     one EFA for the bound of all (p5: 4 times 100 Gb/s behind a link of 126 Gb/s).
 *
 * The file holds visible GPUs and the first EFA of each device, nothing else (NCCL reads 256 nodes
 * at most), in the form that NCCL itself writes with NCCL_TOPO_DUMP_FILE: every second port of the
 * PCI tree, since a switch is two ports in sysfs. All attributes that NCCL insists on are there.
 */
#ifndef NET_TOPO_XML_H
#define NET_TOPO_XML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "rails.h"

/* The attributes of NCCL's <cpu>. */
struct net_topo_cpu {
	char arch[8];    /* "x86_64", "arm64" */
	char vendor[16]; /* "GenuineIntel"; "": not told on this architecture, as the two below */
	int family, model;
};

/* What goes into it; all is kept by the caller. */
struct net_topo {
	const char *root; /* as in srd_topo.h: for CPU masks and bridges */
	char product[64]; /* EC2 instance type, "" when unknown */
	struct net_topo_cpu cpu;
	const struct srd_pci *gpus;
	int ngpus; /* at most NET_MAX_GPUS */
	const struct net_efa *efas;
	const struct net_rail_group *groups;
	int ngroups; /* at most NET_MAX_EFAS */
};

/* Fill product and cpu with what this machine is. */
void net_topo_here(struct net_topo *t);
/* Does NCCL need the file? If so @why says why, for the log. */
bool net_topo_needed(const struct net_topo *t, char *why, size_t size);
/* -EIO: not all could be written. */
int net_topo_write(const struct net_topo *t, FILE *out);
/*
 * If the file is needed and the user has set no NCCL_TOPO_FILE, write it to memory that lasts as
 * long as the process, and set the variable to it. Returns 1 when it did so, and 0 when there was
 * no need. setenv() must not race with threads that read the environment: call it where NCCL holds
 * its own lock, in init.
 */
int net_topo_publish(const struct net_topo *t);

#endif
