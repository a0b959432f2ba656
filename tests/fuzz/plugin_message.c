/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection message from a stranger: what unpack accepts keeps its promises, and pack gives it
 * back. Input: a byte, then a message; or, if the byte is odd, triples (where, where, what) of
 * changes to a good one, whose length they may change, too: no corpus is needed to get far.
 */
#include "../../plugin/proto.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool ok)
{
	if (!ok)
		abort();
}

/* A good message of a kind and a number of rails that @what chooses; returns its length. */
static size_t good(uint8_t *msg, uint8_t what)
{
	const uint8_t nrails = 1 + what / 4 % NET_MAX_RAILS;
	const struct proto_req req = {.listen_id = 1,
				      .token = 2,
				      .conn_id = 3,
				      .nrails = nrails,
				      .ring_addr = 64,
				      .ring_entries = 64,
				      .mode = 1 + what % 3,
				      .segment = 4096};
	const struct proto_resp resp = {.token = 2,
					.conn_id = 3,
					.nrails = nrails,
					.comm_id = 4,
					.segment = 4096,
					.refused = what / 4 % 16 == 15 ? 111 : 0};

	return what & 2 ? proto_req_pack(msg, &req) : proto_resp_pack(msg, &resp);
}

static size_t change(uint8_t *msg, const uint8_t *data, size_t size)
{
	size_t len = good(msg, data[0]);

	for (size_t i = 1; i + 2 < size; i += 3) {
		size_t at = (size_t)data[i] << 8 | data[i + 1];

		if (at & 0x8000)
			len = at % (PROTO_MSG_BYTES + 1);
		else
			msg[at % PROTO_MSG_BYTES] = data[i + 2];
	}
	return len;
}

static void check_rails(const struct proto_rail *rail, int n)
{
	need(n >= 1 && n <= NET_MAX_RAILS);
	for (int i = 0; i < n; i++)
		need(rail[i].data_qpn <= 0xffff && rail[i].ctrl_qpn <= 0xffff);
}

static void check_req(const struct proto_req *req, const uint8_t *msg, size_t len)
{
	uint8_t out[PROTO_MSG_BYTES];
	size_t n = proto_req_pack(out, req);

	check_rails(req->rail, req->nrails);
	need(req->cm.qpn <= 0xffff && req->ring_addr % sizeof(struct proto_cts) == 0);
	need(req->mode >= PROTO_WRITE && req->mode <= PROTO_SEND && req->comm_id < NET_MAX_COMMS);
	need(req->segment >= PROTO_SEGMENT_MIN && req->segment <= PROTO_SEGMENT_MAX);
	need(req->ring_entries >= NET_MAX_RECVS && req->ring_entries <= NET_RING_MAX &&
	     !(req->ring_entries & (req->ring_entries - 1)));
	need(n <= len && !memcmp(msg, out, n));
}

static void check_resp(const struct proto_resp *resp, const uint8_t *msg, size_t len)
{
	uint8_t out[PROTO_MSG_BYTES];
	size_t n = proto_resp_pack(out, resp);

	need(resp->refused <= 4095 && resp->comm_id < NET_MAX_COMMS);
	if (!resp->refused)
		check_rails(resp->rail, resp->nrails);
	need(n <= len && !memcmp(msg, out, n));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t changed[PROTO_MSG_BYTES] = {0}, *msg;
	struct proto_resp resp;
	struct proto_req req;
	size_t len = 0;
	int type;

	if (size && data[0] & 1) {
		len = change(changed, data, size);
	} else if (size) {
		len = size - 1 < PROTO_MSG_BYTES ? size - 1 : PROTO_MSG_BYTES;
		memcpy(changed, data + 1, len);
	}
	msg = malloc(len ? len : 1); /* no longer than it is, so that a byte too many shows */
	need(msg != NULL);
	memcpy(msg, changed, len);
	type = proto_type(msg, len);
	if (proto_req_unpack(&req, msg, len) == 0) {
		need(type == PROTO_REQ);
		check_req(&req, msg, len);
	}
	if (proto_resp_unpack(&resp, msg, len) == 0) {
		need(type == PROTO_RESP);
		check_resp(&resp, msg, len);
	}
	free(msg);
	return 0;
}
