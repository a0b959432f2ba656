/* SPDX-License-Identifier: BSD-3-Clause */
/* All that srd-info knows of a machine, gathered once and printed in one way or another. */
#ifndef INFO_H
#define INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "srd.h"
#include "srd_cuda.h"
#include "srd_topo.h"

enum { INFO_MAX_DEVS = 128, INFO_MAX_GPUS = 64, INFO_WHY = 256 };

struct info_dev {
	struct srd_dev_info id;
	struct srd_pci pci;
	bool open;          /* attr is valid */
	char why[INFO_WHY]; /* not */
	struct srd_dev_attr attr;
};

struct info_gpu {
	struct srd_pci pci;
	bool cuda; /* attr is valid */
	struct srd_cuda_attr attr;
};

struct info {
	char product[64]; /* EC2 instance type; "": unknown */
	struct srd_lib_info libs;
	char no_libs[INFO_WHY]; /* why devices cannot be looked for; "": they can */
	char no_cuda[INFO_WHY]; /* why CUDA cannot be asked; "": it can */
	int ngpus, ndevs;
	struct info_gpu gpu[INFO_MAX_GPUS];
	struct info_dev dev[INFO_MAX_DEVS];
};

/* @only: one device by name, or NULL. -ENODEV: there is none of that name. */
int info_gather(struct info *info, const char *only);

void info_print(const struct info *info);
void info_print_json(const struct info *info);
/* Every environment variable, of libsrd and of the plugin. */
void info_print_env(bool json);

/* ---- names, for both ways ---- */

struct info_cap {
	uint32_t bit;
	const char *name;
};

extern const struct info_cap info_caps[];
extern const int info_ncaps;

/* A limit of a device: an unsigned field of srd_dev_attr. */
struct info_limit {
	const char *name;
	size_t at, size;
};

extern const struct info_limit info_limits[];
extern const int info_nlimits;

uint64_t info_limit_of(const struct srd_dev_attr *attr, const struct info_limit *limit);
/* "0011:2233:4455:6677" and "fe80::1", as others print them. */
const char *info_guid(char out[24], uint64_t guid);
const char *info_gid(char out[48], const union ibv_gid *gid);
const char *info_ordering(enum srd_cuda_scope scope);

#endif
