/* SPDX-License-Identifier: BSD-3-Clause */
/* What a user can set of the adapter: one table, read by the launcher and by the library. */
#ifndef SE_SETTINGS_H
#define SE_SETTINGS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "gid.h"

#define SE_FAULTS_LEN 1024

/*
 * X(name, printed as, default, min, max, text). Defaults imitate the second EFA generation, except
 * that RDMA write is on: perftest of Debian 12 knows no later part id (see docs/softefa.md).
 */
#define SE_SETTINGS(X) \
	X(devices, u, 4, 1, SE_GID_DEVICES, "number of devices, efa_0 ...") \
	X(part_id, x, 0xefa1, 0xefa0, 0xefaf, "PCI device id and vendor part id") \
	X(caps, x, 0x6f, 0, 0x3ff, "capability bits of the kernel's query_device answer") \
	X(speed_gbps, u, 100, 1, 800, "link speed, Gb/s") \
	X(max_msg_size, u, 8928, 64, 65535, "bytes of one send") \
	X(max_rdma_size, u, 1 << 30, 4096, 1 << 30, "bytes of one RDMA read or write") \
	X(inline_size, u, 32, 0, 32, "inline bytes of a 64-byte work request") \
	X(inline_size_ex, u, 0, 0, 80, "inline bytes of a 128-byte work request; 0: none") \
	X(max_sq_wr, u, 4096, 1, 16384, "depth of a send queue") \
	X(max_rq_wr, u, 32768, 1, 32768, "descriptors of a receive queue") \
	X(max_sq_sge, u, 2, 1, 2, "SGEs of a send") \
	X(max_rq_sge, u, 4, 1, 16, "SGEs of a receive") \
	X(max_llq_size, u, 1 << 18, 4096, 1 << 22, "bytes of a send queue") \
	X(max_tx_batch, u, 0, 0, 256, "64-byte units per doorbell; 0: no limit") \
	X(min_sq_wr, u, 0, 0, 256, "smallest send queue; 0: no limit") \
	X(max_qp, u, 1024, 1, 16384, "queue pairs per device") \
	X(max_cq, u, 1024, 1, 16384, "completion queues per device") \
	X(max_cqe, u, 32768, 1, 32768, "depth of a completion queue") \
	X(max_mr, u, 131072, 1, 262143, "memory regions per device") \
	X(max_pd, u, 1024, 1, 65535, "protection domains per device") \
	X(max_ah, u, 8192, 1, 16383, "address handles (distinct GIDs) per device") \
	X(comp_vectors, u, 4, 2, 64, "completion vectors") \
	X(seed, u, 1, 0, UINT32_MAX, "seed of all that is random") \
	X(reorder, u, 8, 0, 64, "window in which deliveries are permuted; 0: in order") \
	X(rnr_timer_us, u, 100, 1, 1000000, "first wait of an RNR retry; doubles with each retry") \
	X(timeout_ms, u, 1000, 1, 600000, "silence after which a peer counts as unreachable") \
	X(spin_us, u, 1000, 0, 1000000, \
	  "how long an idle device thread spins while cores are free") \
	X(log, u, 1, 0, 3, "0 nothing, 1 errors, 2 commands, 3 all")

/*
 * Two keys are no numbers: profile=NAME stands for what se_profile_find() says, before all others
 * of the same list; fault=RULE adds a rule (rule.h).
 */
struct se_settings {
#define X(name, fmt, def, min, max, text) uint32_t name;
	SE_SETTINGS(X)
#undef X
	char domain[32];
	uint8_t address[4];         /* IPv4 of this host, first byte first */
	uint16_t port;              /* of TCP between hosts; 0: there are no other hosts */
	char faults[SE_FAULTS_LEN]; /* rules, a line each */
};

/*
 * The settings of this process: defaults changed by SOFTEFA_SET ("key=value,..."), SOFTEFA_DOMAIN
 * and SOFTEFA_ADDRESS. Read once; a bad part is reported on stderr and passed over.
 */
const struct se_settings *se_settings(void);

void se_settings_default(struct se_settings *s);
/*
 * Apply "key=value,key=value", wherever in it a profile is named. 0, or -EINVAL with the reason in
 * @err; the other parts count all the same.
 */
int se_settings_apply(struct se_settings *s, const char *list, char *err, size_t errlen);
int se_settings_domain(struct se_settings *s, const char *name, char *err, size_t errlen);
/* "IPv4" or "IPv4:PORT"; without port one that follows from the domain, so set that first. */
int se_settings_address(struct se_settings *s, const char *text, char *err, size_t errlen);
void se_settings_print(FILE *out);

#define SE_ENV_SET     "SOFTEFA_SET"
#define SE_ENV_DOMAIN  "SOFTEFA_DOMAIN"
#define SE_ENV_ADDRESS "SOFTEFA_ADDRESS"
#define SE_ENV_CONTROL "SOFTEFA_CONTROL" /* path of the control file, see control.h */

#endif
