/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory as the kernel says; queue pairs by counting, since it does not say those of a process. */
#include "resources.h"

#include <dlfcn.h>
#include <errno.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

static atomic_long qps;
/* Before Linux 5.8 libibverbs makes queue pairs by write(), after this call was refused. */
static atomic_bool by_write;

static void count(const struct ib_uverbs_ioctl_hdr *hdr, int rc)
{
	if (hdr->object_id != UVERBS_OBJECT_QP)
		return;
	if (hdr->method_id == UVERBS_METHOD_QP_CREATE && rc &&
	    (errno == EPROTONOSUPPORT || errno == ENOTTY))
		atomic_store(&by_write, true);
	else if (hdr->method_id == UVERBS_METHOD_QP_CREATE && !rc)
		atomic_fetch_add(&qps, 1);
	else if (hdr->method_id == UVERBS_METHOD_QP_DESTROY && !rc)
		atomic_fetch_sub(&qps, 1);
}

/*
 * In the place of the C library's for all that is loaded, since the program exports it: see the
 * Makefile. The next one may be softefa's.
 */
__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...)
{
	static int (*next)(int fd, unsigned long request, ...);
	va_list ap;
	void *arg;
	int rc;

	/* Threads that come here at once find the same. */
	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "ioctl");
	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	rc = next(fd, request, arg);
	if (request == RDMA_VERBS_IOCTL)
		count(arg, rc);
	return rc;
}

static int64_t resident(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	long pages = -1;

	if (f && fscanf(f, "%*s %ld", &pages) != 1)
		pages = -1;
	if (f)
		fclose(f);
	return pages < 0 ? -1 : pages * sysconf(_SC_PAGESIZE);
}

struct nb_resources nb_resources_now(void)
{
	return (struct nb_resources){
		.memory = resident(),
		.qps = atomic_load(&by_write) ? -1 : atomic_load(&qps),
	};
}
