/* SPDX-License-Identifier: BSD-3-Clause */
/* What the devices of softefa did, by their counters. */
#ifndef TESTS_COUNTERS_H
#define TESTS_COUNTERS_H

enum { COUNTERS_DEVS = 4 };

struct counters {
	long long n[COUNTERS_DEVS], bytes[COUNTERS_DEVS]; /* requests, and what they moved */
	long long urgent[COUNTERS_DEVS];                  /* requests that have a service level */
};

/* A domain of this process alone, or other tests would count; before the first device is used. */
void counters_apart(void);
/* All requests of @op ("read", "write", "send") so far. */
void counters_get(struct counters *c, const char *op);
/* Those since @before. */
void counters_since(struct counters *c, const char *op, const struct counters *before);
/* Of all devices. */
long long counters_sum(const struct counters *c);
/* Requests of all devices that found no receive posted, so far. */
long long counters_rnr(void);
/* Receives that all devices have completed well, those without a buffer included, so far. */
long long counters_received(void);
/* Bytes of all regions that are registered with device @dev, which has had traffic. */
long long counters_registered(int dev);

#endif
