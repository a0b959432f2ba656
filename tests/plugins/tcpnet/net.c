/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices, and the calls as the tables want them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tcpnet.h"

/* Made by make_vdevice, under NCCL's lock as all of this. */
static struct {
	int members, devs[NCCL_NET_VDEVS_V12];
	char name[64];
} vdevice[VDEVICES];
static int vdevices;

/* TCPNET_DEVICES=0 is a host without any. */
static bool absent(void)
{
	const char *text = getenv("TCPNET_DEVICES");

	return text && *text == '0';
}

static enum nccl_net_result init(void)
{
	static int inits;

	if (inits++ && fault_is("init-once"))
		return NCCL_NET_INTERNAL_ERROR;
	if (fault_is("path-needed") && !getenv("LD_LIBRARY_PATH"))
		return NCCL_NET_SYSTEM_ERROR;
	if (absent() && fault_is("absent-refused"))
		return NCCL_NET_SYSTEM_ERROR;
	return fault("init-error") ? NCCL_NET_SYSTEM_ERROR : NCCL_NET_OK;
}

static enum nccl_net_result devices(int *ndev)
{
	if (absent() && fault_is("absent-error"))
		return NCCL_NET_SYSTEM_ERROR;
	*ndev = absent() || fault("no-device") ? 0 : DEVICES + vdevices;
	return NCCL_NET_OK;
}

static void properties_spoil(int dev, struct nccl_net_props_v12 *props)
{
	static uint64_t calls;
	static char same[] = "tcp";

	if (fault_is("no-host"))
		props->ptr_support = NCCL_NET_PTR_CUDA;
	if (fault_is("same-name"))
		props->name = same;
	if (fault_is("same-guid"))
		props->guid = 7;
	if (fault_is("no-speed"))
		props->speed = 0;
	if (fault_is("few-comms"))
		props->max_comms = 8;
	if (fault_is("no-p2p-bytes"))
		props->max_p2p_bytes = 0;
	if (fault_is("no-vdev") && dev < DEVICES)
		props->vdev.ndevs = 0;
	if (fault_is("props-vary"))
		props->guid += ++calls;
}

static enum nccl_net_result properties(int dev, struct nccl_net_props_v12 *props)
{
	static char names[DEVICES][8] = {"tcp0", "tcp1"};

	if (fault_is("any-device") && (dev < 0 || dev >= DEVICES))
		dev = 0;
	if (dev < 0 || dev >= DEVICES + vdevices)
		return NCCL_NET_INVALID_ARGUMENT;
	if (dev < DEVICES) {
		props->name = names[dev];
	} else {
		props->name = vdevice[dev - DEVICES].name;
		props->vdev.ndevs = vdevice[dev - DEVICES].members;
		memcpy(props->vdev.devs, vdevice[dev - DEVICES].devs, sizeof(props->vdev.devs));
		if (!fault_is("vdev-speed"))
			props->speed *= props->vdev.ndevs;
	}
	properties_spoil(dev, props);
	return NCCL_NET_OK;
}

static enum nccl_net_result make_vdevice(int *dev, const struct nccl_net_vdev_v12 *vdev)
{
	int n = vdev->ndevs, len;

	if (n < 1 || n > NCCL_NET_VDEVS_V12 || vdevices == VDEVICES)
		return NCCL_NET_INVALID_ARGUMENT;
	for (int i = 0; i < n; i++)
		if (vdev->devs[i] < 0 || vdev->devs[i] >= DEVICES)
			return NCCL_NET_INVALID_ARGUMENT;
	vdevice[vdevices].members = n;
	len = snprintf(vdevice[vdevices].name, sizeof(vdevice[vdevices].name), "v%d", vdevices);
	for (int i = 0; i < n; i++) {
		vdevice[vdevices].devs[i] = vdev->devs[i];
		len += snprintf(vdevice[vdevices].name + len,
				sizeof(vdevice[vdevices].name) - (size_t)len, "+tcp%d",
				vdev->devs[i]);
	}
	*dev = DEVICES + vdevices++;
	return NCCL_NET_OK;
}

static enum nccl_net_result listen_on(int dev, void *handle, void **listen_comm)
{
	if (dev < 0 || dev >= DEVICES + vdevices)
		return NCCL_NET_INVALID_ARGUMENT;
	return tcpnet_listen(dev, handle, listen_comm);
}

const char test_plugin_name[] = "tcpnet";

const struct test_plugin test_plugin = {
	.ndev = DEVICES,
	.parts = PARTS,
	.init = init,
	.devices = devices,
	.properties = properties,
	.listen = listen_on,
	.connect = tcpnet_connect,
	.accept = tcpnet_accept,
	.reg_mr = tcpnet_reg_mr,
	.reg_mr_dma_buf = tcpnet_reg_mr_dma_buf,
	.dereg_mr = tcpnet_dereg_mr,
	.isend = tcpnet_isend,
	.irecv = tcpnet_irecv,
	.iflush = tcpnet_iflush,
	.test = tcpnet_test,
	.close_send = tcpnet_close_send,
	.close_recv = tcpnet_close_recv,
	.close_listen = tcpnet_close_listen,
	.make_vdevice = make_vdevice,
};
