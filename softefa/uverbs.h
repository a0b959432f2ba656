/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel's side of the command fd: which method does what. */
#ifndef SE_UVERBS_H
#define SE_UVERBS_H

#include "cmd.h"

/* RDMA_VERBS_IOCTL */
#define SE_VERBS_IOCTL 0xc0181b01ul

/*
 * Carry out the command at @arg that came for @fd, whose status is @st. 0, -errno, or -ENOTTY when
 * that is no command fd. Takes the engine lock.
 */
int se_uverbs_ioctl(int fd, const struct stat *st, uint64_t arg);

/* query.c: the device tells of itself. */
int se_query_context(struct se_cmd *c);
int se_query_handles(struct se_cmd *c);
int se_query_device(struct se_cmd *c);
int se_query_device_short(struct se_cmd *c);
int se_query_port(struct se_cmd *c);
int se_query_port_speed(struct se_cmd *c);
int se_query_gid_entry(struct se_cmd *c);
int se_query_gid_table(struct se_cmd *c);

/* verbs_mr.c: memory regions. */
int se_verbs_reg_mr(struct se_cmd *c); /* in the old form */
int se_verbs_reg_mr_ex(struct se_cmd *c);
int se_verbs_reg_dmabuf_mr(struct se_cmd *c);
int se_verbs_dereg_mr(struct se_cmd *c);
int se_verbs_query_mr(struct se_cmd *c);
int se_verbs_query_mr_ic(struct se_cmd *c);

/* verbs.c: other objects are made, changed and destroyed. */
int se_verbs_alloc_pd(struct se_cmd *c);
int se_verbs_dealloc_pd(struct se_cmd *c);
int se_verbs_create_ah(struct se_cmd *c);
int se_verbs_destroy_ah(struct se_cmd *c);
int se_verbs_create_channel(struct se_cmd *c);
int se_verbs_alloc_async_fd(struct se_cmd *c);
int se_verbs_create_cq(struct se_cmd *c);
int se_verbs_destroy_cq(struct se_cmd *c);
int se_verbs_create_qp(struct se_cmd *c);
int se_verbs_destroy_qp(struct se_cmd *c);
int se_verbs_modify_qp(struct se_cmd *c);
int se_verbs_query_qp(struct se_cmd *c);

#endif
