/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A sysfs tree in a folder of its own, as an EC2 instance shows it: made of a short description in
 * tests/fixtures/, which begins with what is known and what is assumed. Lines of it:
 *
 *	product NAME                        what the firmware calls the machine
 *	cpus NODE MASK                      CPUs of a NUMA node
 *	under PATH NODE LINK                bridges; the functions of the lines below are under it
 *	efa NAME PATH DEVICE LINK           an EFA
 *	gpu - PATH DEVICE LINK              an NVIDIA GPU
 *	rdma NAME PATH DEVICE LINK          an RDMA device that is no EFA
 *
 * PATH begins below /sys/devices, and ends in the function's address; ids are hexadecimal; LINK is
 * GT/s and lanes, "16.0x8", or a "-" for no such files, as NODE may be.
 */
#ifndef TESTS_TREE_H
#define TESTS_TREE_H

struct tree {
	char root[64];
};

/* tests/fixtures/@instance. It fails the test if that cannot be done. */
void tree_make(struct tree *t, const char *instance);
void tree_fini(struct tree *t);

/* A copy of the sysfs at @sysfs. */
void tree_copy(struct tree *t, const char *sysfs);
/* More lines, as in a description. */
void tree_add(const struct tree *t, const char *lines);
/* Take away a file, a link, or a folder with all in it; it must be there. */
void tree_hide(const struct tree *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Replace the line in a file, which is made with its folders if it is not there. */
void tree_write(const struct tree *t, const char *name, const char *line);

#endif
