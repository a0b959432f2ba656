/* SPDX-License-Identifier: BSD-3-Clause */
/* 24 bytes from a stranger: what unpack accepts, pack gives back. */
#include "srd.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct srd_ep_wire in, out;
	struct srd_ep ep;

	if (size < sizeof(in))
		return 0;
	memcpy(in.b, data, sizeof(in));
	if (srd_ep_unpack(&ep, &in))
		return 0;
	srd_ep_pack(&out, &ep);
	if (ep.qpn > UINT16_MAX || memcmp(&in, &out, sizeof(in)))
		abort();
	return 0;
}
