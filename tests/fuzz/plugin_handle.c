/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection handle from a stranger: what unpack accepts keeps its promises, and pack gives it
 * back. Input: a byte, then a handle; or, if the byte is odd, pairs (where, what) of changes to a
 * good handle, so that no corpus is needed to get past the first checks.
 */
#include "../../plugin/proto.h"

#include <stdlib.h>
#include <string.h>

enum { USED = 45 }; /* bytes in front of the rails */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool ok)
{
	if (!ok)
		abort();
}

static void change(uint8_t *in, const uint8_t *data, size_t size)
{
	struct proto_handle good = {.cm = {.qpn = 0x1234, .qkey = 5},
				    .listen_id = 6,
				    .token = 7,
				    .caps = 3,
				    .nrails = 1 + data[0] / 2 % NET_MAX_RAILS};

	good.cm.gid.raw[0] = 0xfe;
	proto_handle_pack(in, &good);
	for (size_t i = 1; i + 1 < size; i += 2)
		in[data[i] % PROTO_HANDLE_BYTES] = data[i + 1];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *in = calloc(1, PROTO_HANDLE_BYTES), out[PROTO_HANDLE_BYTES];
	struct proto_handle h;
	uint64_t cookie;

	need(in != NULL);
	if (size && data[0] & 1)
		change(in, data, size);
	else if (size)
		memcpy(in, data + 1, size - 1 < PROTO_HANDLE_BYTES ? size - 1 : PROTO_HANDLE_BYTES);
	cookie = proto_cookie_get(in);
	if (proto_handle_unpack(&h, in) == 0) {
		need(h.nrails >= 1 && h.nrails <= NET_MAX_RAILS && h.token && h.cm.qpn <= 0xffff);
		for (int i = 0; i < h.nrails; i++) {
			union ibv_gid gid = proto_handle_gid(&h, i);

			need(!memcmp(gid.raw, h.cm.gid.raw, 8));
		}
		proto_handle_pack(out, &h);
		need(!memcmp(in, out, USED + 8u * h.nrails));
		proto_cookie_set(out, cookie);
		need(proto_cookie_get(out) == cookie);
	}
	free(in);
	return 0;
}
