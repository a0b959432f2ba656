/* SPDX-License-Identifier: BSD-3-Clause */
/* Hosts without a device that can be used. */
#include "absent.h"

#include "log.h"
#include "srd_topo.h"

void net_absent_say(int found, int unopened)
{
	struct srd_pci first;
	int efas = srd_pci_efas(NULL, &first, 1);

	if (found > 0 && found == unopened)
		net_warn("NET/EFA: none of %d EFAs can be opened: %s. Are the files in "
			 "/dev/infiniband there, and may this user, or this container, open them?",
			 found, net_log_reason());
	else if (found > 0)
		net_info("NET/EFA: none of %d EFA devices can be used", found);
	else if (efas > 0 && found == 0)
		net_warn("NET/EFA: there are %d EFAs on the PCI bus, %s the first, but no RDMA "
			 "device: is the kernel module efa loaded, and can this container see "
			 "/sys/class/infiniband?",
			 efas, first.bus_id);
	else if (efas > 0)
		net_warn(
			"NET/EFA: there are %d EFAs on the PCI bus, but none can be looked for: %s",
			efas, net_log_reason());
	else if (found == 0)
		net_info("NET/EFA: no EFA device on this host");
	else
		net_info("NET/EFA: no device can be looked for: %s", net_log_reason());
}
