/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NCCL's settings for EC2 instance types, by what the firmware calls the machine. They are those of
 * EFA's own plugin, so that a job keeps its speed when the plugin is replaced; none was measured
 * here. What the user has set stays, in the environment or in NCCL's files, which NCCL has read by
 * then. A machine that nobody knows gets none.
 */
#ifndef NET_PLATFORM_H
#define NET_PLATFORM_H

/*
 * Set what @product, as "p5.48xlarge", needs and is not set; say so in the log. At init, where NCCL
 * holds a lock of its own: see net_topo_publish().
 */
void net_platform_set(const char *product);

#endif
