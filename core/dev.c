/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices: list, open, attributes. */
#include "srd.h"

#include <assert.h>
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "efadv_compat.h"
#include "libs.h"
#include "log.h"

enum { VENDOR_AMAZON = 0x1d0f, PORT = 1 };

static_assert(sizeof(((struct srd_dev_info *)0)->name) == sizeof(((struct ibv_device *)0)->name),
	      "names are copied whole");
static_assert(sizeof(((struct srd_dev_attr *)0)->fw_ver) ==
		      sizeof(((struct ibv_device_attr *)0)->fw_ver),
	      "versions are copied whole");

/* strcmp() for people: efa_2 before efa_10. The same order on all hosts, unlike sysfs's. */
static int by_name(const void *a, const void *b)
{
	return strverscmp((*(struct ibv_device *const *)a)->name,
			  (*(struct ibv_device *const *)b)->name);
}

static struct ibv_device **list_get(int *n)
{
	struct ibv_device **list;

	errno = 0;
	list = srd_ibv.get_device_list(n);
	if (list)
		qsort(list, *n, sizeof(*list), by_name);
	return list;
}

/* PCI ids out of "pci:v00001D0Fd0000EFA1sv...". */
static bool pci_ids(const struct ibv_device *dev, unsigned *vendor, unsigned *part)
{
	char path[IBV_SYSFS_PATH_MAX + 32];
	FILE *f;
	int n;

	snprintf(path, sizeof(path), "%s/device/modalias", dev->ibdev_path);
	f = fopen(path, "re");
	if (!f)
		return false;
	n = fscanf(f, "pci:v%8xd%8x", vendor, part);
	fclose(f);
	return n == 2;
}

/* A device that cannot be opened is none that can be used as an EFA. */
static bool probe(struct ibv_device *dev)
{
	struct srd_dv_device_attr attr;
	struct ibv_context *ctx = srd_ibv.open_device(dev);
	int rc;

	if (!ctx) {
		srd_info("%s: cannot be opened: %s (%d)", dev->name, strerror(errno), errno);
		return false;
	}
	rc = srd_efadv.query_device(ctx, &attr, sizeof(attr));
	srd_ibv.close_device(ctx);
	return rc == 0;
}

static void describe(struct ibv_device *dev, struct srd_dev_info *info)
{
	unsigned vendor, part;

	memset(info, 0, sizeof(*info));
	memcpy(info->name, dev->name, sizeof(info->name));
	info->guid = be64toh(srd_ibv.get_device_guid(dev));
	if (pci_ids(dev, &vendor, &part)) {
		info->part_id = part;
		info->is_efa = vendor == VENDOR_AMAZON && (part & 0xfff0) == 0xefa0;
	} else {
		info->is_efa = probe(dev);
	}
}

int srd_dev_list(struct srd_dev_info *out, int cap, bool efa_only)
{
	struct ibv_device **list;
	struct srd_dev_info info;
	int rc = srd_libs_load();
	int n, found = 0;

	if (rc)
		return rc;
	list = list_get(&n);
	if (!list && errno == ENOSYS) {
		srd_info("no RDMA devices: the kernel has no ib_uverbs");
		return 0;
	}
	if (!list) {
		rc = errno ? errno : EIO;
		srd_err("ibv_get_device_list: %s (%d)", strerror(rc), rc);
		return -rc;
	}
	for (int i = 0; i < n; i++) {
		describe(list[i], &info);
		if (efa_only && !info.is_efa)
			continue;
		if (found < cap)
			out[found] = info;
		found++;
	}
	srd_ibv.free_device_list(list);
	return found;
}

/* Mb/s of one lane by IBV speed code, lanes by width code; both codes are single bits. */
static uint32_t speed_mbps(const struct ibv_port_attr *port)
{
	/* SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR, XDR */
	static const uint32_t lane_mbps[] = {2500,  5000,  10000,  10000, 14000,
					     25000, 50000, 100000, 200000};
	static const uint32_t lanes[] = {1, 4, 8, 12, 2};
	uint32_t speed = port->active_speed_ex ? port->active_speed_ex : port->active_speed;
	unsigned s = __builtin_ffs((int)speed), w = __builtin_ffs(port->active_width);

	if (s == 0 || s > sizeof(lane_mbps) / sizeof(lane_mbps[0]) || w == 0 ||
	    w > sizeof(lanes) / sizeof(lanes[0]))
		return 0;
	return lane_mbps[s - 1] * lanes[w - 1];
}

/* ibv_query_port() through the context: the inline would refer to the exported one as well. */
static int query_port(struct ibv_context *ctx, struct ibv_port_attr *port)
{
	struct verbs_context *verbs = verbs_get_ctx_op(ctx, query_port);

	return verbs ? verbs->query_port(ctx, PORT, port, sizeof(*port)) : EOPNOTSUPP;
}

static int query_attr(struct ibv_context *ctx, struct srd_dev_attr *attr)
{
	struct ibv_device_attr dev = {0};
	struct ibv_port_attr port = {0};
	int rc = srd_dv_query(ctx, attr);

	if (rc)
		return rc;
	rc = srd_ibv.query_device(ctx, &dev);
	if (rc)
		return srd_failed(ctx, "ibv_query_device", rc, "%s", "");
	rc = query_port(ctx, &port);
	if (rc)
		return srd_failed(ctx, "ibv_query_port", rc, ": port %d", PORT);
	errno = 0;
	if (srd_ibv.query_gid(ctx, PORT, 0, &attr->gid))
		return srd_failed(ctx, "ibv_query_gid", errno, ": port %d, index 0", PORT);
	attr->guid = be64toh(dev.node_guid);
	attr->hw_ver = dev.hw_ver;
	memcpy(attr->fw_ver, dev.fw_ver, sizeof(attr->fw_ver));
	attr->max_mr_size = dev.max_mr_size;
	attr->part_id = dev.vendor_part_id;
	attr->max_msg_size = port.max_msg_sz;
	attr->max_cqe = dev.max_cqe;
	attr->max_qp = dev.max_qp;
	attr->max_cq = dev.max_cq;
	attr->max_mr = dev.max_mr;
	attr->max_pd = dev.max_pd;
	attr->max_ah = dev.max_ah;
	attr->speed_mbps = speed_mbps(&port);
	return 0;
}

/* If it may not open @node libibverbs looks for another one, and errno says how that ended. */
static int open_listed(struct ibv_device *dev, const char *node, struct ibv_context **out)
{
	int err;

	errno = 0;
	*out = srd_ibv.open_device(dev);
	if (*out)
		return 0;
	err = errno ? errno : EIO;
	return access(node, R_OK | W_OK) ? -errno : -err;
}

static int open_named(const char *name, struct ibv_context **out)
{
	char node[IBV_SYSFS_NAME_MAX + 16] = "";
	struct srd_dev_info info;
	struct ibv_device **list;
	int n, rc = -ENODEV;

	list = list_get(&n);
	if (!list) {
		rc = errno ? errno : EIO;
		srd_err("%s: ibv_get_device_list: %s (%d)", name, strerror(rc), rc);
		/* No kernel module, no device. */
		return rc == ENOSYS ? -ENODEV : -rc;
	}
	for (int i = 0; i < n; i++) {
		if (strcmp(list[i]->name, name))
			continue;
		describe(list[i], &info);
		if (!info.is_efa)
			break;
		snprintf(node, sizeof(node), "/dev/infiniband/%s", list[i]->dev_name);
		rc = open_listed(list[i], node, out);
		break;
	}
	srd_ibv.free_device_list(list);
	if (rc == -ENODEV)
		srd_err("%s: no such EFA device", name);
	else if (rc)
		srd_err("%s: ibv_open_device: %s (%d): %s", name, strerror(-rc), -rc, node);
	return rc;
}

int srd_dev_open(struct srd_dev *dev, const char *name)
{
	int rc = srd_libs_load();

	memset(dev, 0, sizeof(*dev));
	if (rc)
		return rc;
	rc = open_named(name, &dev->ibv);
	if (rc)
		return rc;
	rc = query_attr(dev->ibv, &dev->attr);
	if (rc)
		srd_dev_close(dev);
	return rc;
}

void srd_dev_close(struct srd_dev *dev)
{
	if (dev->ibv && srd_ibv.close_device(dev->ibv))
		srd_warn("ibv_close_device: %s (%d)", strerror(errno), errno);
	memset(dev, 0, sizeof(*dev));
}
