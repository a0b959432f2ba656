/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions of libibverbs and libefa, found at run time.
 *
 * Only what these libraries export goes through here. The inline functions of
 * <infiniband/verbs.h> that work through pointers of a context, CQ or QP are called as they are;
 * those that fall back to an exported symbol (ibv_query_port, ibv_create_qp_ex, ibv_reg_mr) are
 * not, because they would bind us to the library.
 */
#ifndef SRD_CORE_LIBS_H
#define SRD_CORE_LIBS_H

#include <stdbool.h>
#include <stddef.h>

#include <infiniband/verbs.h>

#include "efadv_compat.h"

/* X(name without prefix, needed, result, (arguments)) */
#define SRD_IBV_SYMS(X) \
	X(get_device_list, true, struct ibv_device **, (int *)) \
	X(free_device_list, true, void, (struct ibv_device **)) \
	X(get_device_guid, true, __be64, (struct ibv_device *)) \
	X(open_device, true, struct ibv_context *, (struct ibv_device *)) \
	X(close_device, true, int, (struct ibv_context *)) \
	X(query_device, true, int, (struct ibv_context *, struct ibv_device_attr *)) \
	X(query_gid, true, int, (struct ibv_context *, uint8_t, int, union ibv_gid *)) \
	X(alloc_pd, true, struct ibv_pd *, (struct ibv_context *)) \
	X(dealloc_pd, true, int, (struct ibv_pd *)) \
	X(reg_mr_iova2, true, struct ibv_mr *, \
	  (struct ibv_pd *, void *, size_t, uint64_t, unsigned int)) \
	X(reg_dmabuf_mr, false, struct ibv_mr *, \
	  (struct ibv_pd *, uint64_t, size_t, uint64_t, int, int)) \
	X(dereg_mr, true, int, (struct ibv_mr *)) \
	X(create_cq, true, struct ibv_cq *, \
	  (struct ibv_context *, int, void *, struct ibv_comp_channel *, int)) \
	X(destroy_cq, true, int, (struct ibv_cq *)) \
	X(create_comp_channel, true, struct ibv_comp_channel *, (struct ibv_context *)) \
	X(destroy_comp_channel, true, int, (struct ibv_comp_channel *)) \
	X(get_cq_event, true, int, (struct ibv_comp_channel *, struct ibv_cq **, void **)) \
	X(ack_cq_events, true, void, (struct ibv_cq *, unsigned int)) \
	X(get_async_event, true, int, (struct ibv_context *, struct ibv_async_event *)) \
	X(ack_async_event, true, void, (struct ibv_async_event *)) \
	X(modify_qp, true, int, (struct ibv_qp *, struct ibv_qp_attr *, int)) \
	X(destroy_qp, true, int, (struct ibv_qp *)) \
	X(qp_to_qp_ex, true, struct ibv_qp_ex *, (struct ibv_qp *)) \
	X(create_ah, true, struct ibv_ah *, (struct ibv_pd *, struct ibv_ah_attr *)) \
	X(destroy_ah, true, int, (struct ibv_ah *)) \
	X(query_qp_data_in_order, false, int, (struct ibv_qp *, enum ibv_wr_opcode, uint32_t)) \
	X(query_port_speed, false, int, (struct ibv_context *, uint32_t, uint64_t *))

#define SRD_EFADV_SYMS(X) \
	X(query_device, true, int, (struct ibv_context *, struct srd_dv_device_attr *, uint32_t)) \
	X(query_ah, true, int, (struct ibv_ah *, struct srd_dv_ah_attr *, uint32_t)) \
	X(create_cq, true, struct ibv_cq_ex *, \
	  (struct ibv_context *, struct ibv_cq_init_attr_ex *, struct srd_dv_cq_attr *, uint32_t)) \
	X(cq_from_ibv_cq_ex, true, struct srd_dv_cq *, (struct ibv_cq_ex *)) \
	X(create_qp_ex, true, struct ibv_qp *, \
	  (struct ibv_context *, struct ibv_qp_init_attr_ex *, struct srd_dv_qp_attr *, uint32_t)) \
	X(query_cq, false, int, (struct ibv_cq *, struct srd_dv_cq_ring *, uint32_t)) \
	X(query_qp_wqs, false, int, \
	  (struct ibv_qp *, struct srd_dv_wq *, struct srd_dv_wq *, uint32_t)) \
	X(query_mr, false, int, (struct ibv_mr *, struct srd_dv_mr_attr *, uint32_t))

#define SRD_SYM_POINTER(name, needed, result, args) result(*name) args;

/* Written once by srd_libs_load(), before any object exists; NULL: this release lacks it. */
extern struct srd_ibv {
	SRD_IBV_SYMS(SRD_SYM_POINTER)
} srd_ibv;

extern struct srd_efadv {
	SRD_EFADV_SYMS(SRD_SYM_POINTER)
} srd_efadv;

/*
 * -ENOENT: a library was not found; -EOPNOTSUPP: a needed symbol was not. Logged by the first
 * call; the answer stays.
 */
int srd_libs_load(void);

/*
 * @what is refused: because libefa is older than @since, the first release that has it, or else
 * because of the device. Log which, return -EOPNOTSUPP.
 */
int srd_lacks(const struct ibv_context *ctx, const char *what, unsigned since);

/* One library as a table: what srd_libs_load() does for two of them. */
struct srd_sym {
	const char *name;
	void *slot; /* a function pointer */
	bool needed;
};

/* Fill the slots from @soname, looked for in @dir first unless empty; it is never unloaded. */
int srd_lib_open(const char *soname, const char *dir, const struct srd_sym *syms, size_t n);

#endif
