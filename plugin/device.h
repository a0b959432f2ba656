/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices as NCCL sees them. Each is a group of EFA functions (its rails). What
 * NCCL asks about is found out once; the functions are opened when the first comm needs them.
 *
 * One that is broken is no rail of what is opened from then on: the device is opened once more, as
 * a struct net_dev of its own, with those functions that can be. What is open already stays as it
 * is, rails and registrations are numbered alike in all of it.
 */
#ifndef NET_DEVICE_H
#define NET_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "limits.h"
#include "mrcache.h"
#include "proto.h"
#include "srd.h"
#include "stats.h"

struct net_cm;
struct net_engine;

/* Of copies that its NICs make to themselves, see loopback.h. */
enum net_loopback { NET_LOOPBACK_UNKNOWN, NET_LOOPBACK_WORKS, NET_LOOPBACK_FAILS };

enum net_nic_state { NET_NIC_UP, NET_NIC_PORT_DOWN, NET_NIC_BROKEN };

/* One EFA function. */
struct net_nic {
	char name[IBV_SYSFS_NAME_MAX];
	struct srd_dev dev;
	struct srd_pd pd;
	/* event.c: what it said of itself since it was opened; whether somebody listens */
	_Atomic enum net_nic_state state;
	atomic_bool heard;
};

struct net_dev {
	/* fixed once found */
	int index;
	char name[80];  /* of the first function, and how many more */
	char *pci_path; /* of rail 0, or NULL */
	uint64_t guid;
	uint32_t speed_mbps; /* of all rails */
	float latency_us;
	uint32_t max_bytes; /* of a message */
	uint8_t caps;       /* PROTO_CAP_*: what all rails can */
	int nefas;
	char efa[NET_MAX_RAILS][IBV_SYSFS_NAME_MAX];
	/* of the one that was found: the one that is for what is new, changed under opening */
	pthread_mutex_t opening;
	struct net_dev *current;
	_Atomic(struct net_dev *) again; /* the next that the same was opened as; they stay */
	/* open */
	pthread_mutex_t lock; /* of what follows, but for cm and mrs, which lock themselves */
	int nrails;           /* functions that could be opened; before, all */
	struct net_nic nic[NET_MAX_RAILS];
	struct net_counts counts[PROTO_MODES]; /* of engines that are gone */
	uint64_t connections, made, shared;    /* registrations of caches that are gone */
	bool open;
	enum net_loopback loopback[PROTO_MODES]; /* since it was opened */
	struct net_mrcache mrs;
	struct net_cm *cm;
	struct net_engine *engines;
};

/* Find the devices, once; returns how many there are. What is found or missing is logged. */
int net_devs_find(void);
/* NULL: no such device. */
struct net_dev *net_dev_at(int index);
/* How its data move at best: by what it can, and what the user wants. */
enum proto_mode net_dev_mode(const struct net_dev *dev);
/* In words. */
const char *net_dev_data_path(const struct net_dev *dev);
/*
 * Open its functions unless they are, without those that are broken. *@out is @dev, or what stands
 * for it from now on. -ENODEV or what the last of them said: there is none.
 */
int net_dev_open(struct net_dev *dev, struct net_dev **out);
/* Close all devices that have no comms and no pending connections any more. */
void net_devs_close_idle(void);

#endif
