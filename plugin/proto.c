/* SPDX-License-Identifier: BSD-3-Clause */
/* Packing and unpacking. */
#include "proto.h"

#include <errno.h>
#include <string.h>

enum {
	HANDLE_MAGIC = 0x45464168, /* "EFAh" */
	MSG_MAGIC = 0x4546416d,    /* "EFAm" */
	COOKIE_AT = PROTO_HANDLE_BYTES - 8,
	QPN_MAX = 0xffff,
};

/* ---- bytes ---- */

static uint8_t *put(uint8_t *p, uint64_t v, int bytes)
{
	for (int i = bytes - 1; i >= 0; i--, v >>= 8)
		p[i] = (uint8_t)v;
	return p + bytes;
}

/* A reader that runs off the end says so once, at the end: what it read until then is zero. */
struct reader {
	const uint8_t *p, *end;
	bool bad;
};

static uint64_t get(struct reader *r, int bytes)
{
	uint64_t v = 0;

	if (r->end - r->p < bytes) {
		r->bad = true;
		return 0;
	}
	for (int i = 0; i < bytes; i++)
		v = v << 8 | *r->p++;
	return v;
}

static uint64_t get_at_most(struct reader *r, int bytes, uint64_t max)
{
	uint64_t v = get(r, bytes);

	if (v > max)
		r->bad = true;
	return v;
}

static uint8_t *put_gid(uint8_t *p, const union ibv_gid *gid)
{
	memcpy(p, gid->raw, sizeof(gid->raw));
	return p + sizeof(gid->raw);
}

static void get_gid(struct reader *r, union ibv_gid *gid)
{
	for (size_t i = 0; i < sizeof(gid->raw); i++)
		gid->raw[i] = (uint8_t)get(r, 1);
}

static uint8_t *put_ep(uint8_t *p, const struct srd_ep *ep)
{
	p = put_gid(p, &ep->gid);
	p = put(p, ep->qpn, 4);
	return put(p, ep->qkey, 4);
}

static void get_ep(struct reader *r, struct srd_ep *ep)
{
	get_gid(r, &ep->gid);
	ep->qpn = (uint32_t)get_at_most(r, 4, QPN_MAX);
	ep->qkey = (uint32_t)get(r, 4);
}

static uint8_t *put_rails(uint8_t *p, const struct proto_rail *rail, int n)
{
	p = put(p, (uint64_t)n, 1);
	for (int i = 0; i < n; i++) {
		p = put_gid(p, &rail[i].gid);
		p = put(p, rail[i].data_qpn, 4);
		p = put(p, rail[i].ctrl_qpn, 4);
		p = put(p, rail[i].qkey, 4);
	}
	return p;
}

static uint8_t get_rails(struct reader *r, struct proto_rail *rail)
{
	uint8_t n = (uint8_t)get_at_most(r, 1, NET_MAX_RAILS);

	if (n == 0)
		r->bad = true;
	for (int i = 0; i < n && !r->bad; i++) {
		get_gid(r, &rail[i].gid);
		rail[i].data_qpn = (uint32_t)get_at_most(r, 4, QPN_MAX);
		rail[i].ctrl_qpn = (uint32_t)get_at_most(r, 4, QPN_MAX);
		rail[i].qkey = (uint32_t)get(r, 4);
	}
	return n;
}

static uint8_t *put_keys(uint8_t *p, const uint32_t *key, int n)
{
	for (int i = 0; i < n; i++)
		p = put(p, key[i], 4);
	return p;
}

static void get_keys(struct reader *r, uint32_t *key, int n)
{
	for (int i = 0; i < n && !r->bad; i++)
		key[i] = (uint32_t)get(r, 4);
}

static uint32_t get_segment(struct reader *r)
{
	uint32_t segment = (uint32_t)get_at_most(r, 4, PROTO_SEGMENT_MAX);

	if (segment < PROTO_SEGMENT_MIN)
		r->bad = true;
	return segment;
}

static uint8_t *put_head(uint8_t *p, uint32_t magic, int type)
{
	p = put(p, magic, 4);
	p = put(p, PROTO_VERSION, 2);
	return put(p, (uint64_t)type, 1);
}

/* The type that the head names, or -errno. */
static int get_head(struct reader *r, uint32_t magic)
{
	uint64_t m = get(r, 4), version = get(r, 2);
	int type = (int)get(r, 1);

	if (r->bad || m != magic)
		return -EINVAL;
	return version == PROTO_VERSION ? type : -EPROTO;
}

/* ---- handle ---- */

static_assert(7 + 24 + 4 + 8 + 2 + NET_MAX_RAILS * 8 + 4 <= COOKIE_AT, "the handle holds it all");

void proto_handle_pack(uint8_t out[PROTO_HANDLE_BYTES], const struct proto_handle *h)
{
	uint8_t *p = out;

	memset(out, 0, PROTO_HANDLE_BYTES);
	p = put_head(p, HANDLE_MAGIC, 0);
	p = put_ep(p, &h->cm);
	p = put(p, h->listen_id, 4);
	p = put(p, h->token, 8);
	p = put(p, h->caps, 1);
	p = put(p, h->nrails, 1);
	p = put(p, h->spare_qpn, 4);
	for (int i = 0; i < h->nrails; i++)
		p = put(p, h->iid[i], 8);
}

int proto_handle_unpack(struct proto_handle *h, const uint8_t in[PROTO_HANDLE_BYTES])
{
	struct reader r = {.p = in, .end = in + COOKIE_AT};
	int rc = get_head(&r, HANDLE_MAGIC);

	if (rc)
		return rc < 0 ? rc : -EINVAL;
	memset(h, 0, sizeof(*h));
	get_ep(&r, &h->cm);
	h->listen_id = (uint32_t)get(&r, 4);
	h->token = get(&r, 8);
	h->caps = (uint8_t)get(&r, 1);
	h->nrails = (uint8_t)get_at_most(&r, 1, NET_MAX_RAILS);
	h->spare_qpn = (uint32_t)get_at_most(&r, 4, QPN_MAX);
	for (int i = 0; i < h->nrails && !r.bad; i++)
		h->iid[i] = get(&r, 8);
	return r.bad || h->nrails == 0 || h->token == 0 ? -EINVAL : 0;
}

union ibv_gid proto_handle_gid(const struct proto_handle *h, int i)
{
	union ibv_gid gid = h->cm.gid;

	put(gid.raw + 8, h->iid[i], 8);
	return gid;
}

uint64_t proto_cookie_get(const uint8_t handle[PROTO_HANDLE_BYTES])
{
	struct reader r = {.p = handle + COOKIE_AT, .end = handle + PROTO_HANDLE_BYTES};

	return get(&r, 8);
}

void proto_cookie_set(uint8_t handle[PROTO_HANDLE_BYTES], uint64_t cookie)
{
	put(handle + COOKIE_AT, cookie, 8);
}

/* ---- messages ---- */

static_assert(7 + 4 + 8 + 4 + 24 + 1 + 1 + NET_MAX_RAILS * (28 + 4) + 8 + 2 + 1 + 4 + 4 + 4 <=
		      PROTO_MSG_BYTES,
	      "req");
static_assert(7 + 8 + 4 + 4 + 1 + NET_MAX_RAILS * (28 + 4) + 4 + 8 + 4 + 4 <= PROTO_MSG_BYTES,
	      "resp");

int proto_type(const uint8_t *in, size_t len)
{
	struct reader r = {.p = in, .end = in + len};

	return get_head(&r, MSG_MAGIC);
}

size_t proto_req_pack(uint8_t out[PROTO_MSG_BYTES], const struct proto_req *req)
{
	uint8_t *p = put_head(out, MSG_MAGIC, PROTO_REQ);

	p = put(p, req->listen_id, 4);
	p = put(p, req->token, 8);
	p = put(p, req->conn_id, 4);
	p = put_ep(p, &req->cm);
	p = put(p, req->caps, 1);
	p = put_rails(p, req->rail, req->nrails);
	p = put(p, req->ring_addr, 8);
	p = put(p, req->ring_entries, 2);
	p = put_keys(p, req->ring_rkey, req->nrails);
	p = put(p, req->mode, 1);
	p = put(p, req->comm_id, 4);
	p = put(p, req->segment, 4);
	p = put(p, req->spare_qpn, 4);
	return (size_t)(p - out);
}

int proto_req_unpack(struct proto_req *req, const uint8_t *in, size_t len)
{
	struct reader r = {.p = in, .end = in + len};
	int rc = get_head(&r, MSG_MAGIC);

	if (rc != PROTO_REQ)
		return rc < 0 ? rc : -EINVAL;
	memset(req, 0, sizeof(*req));
	req->listen_id = (uint32_t)get(&r, 4);
	req->token = get(&r, 8);
	req->conn_id = (uint32_t)get(&r, 4);
	get_ep(&r, &req->cm);
	req->caps = (uint8_t)get(&r, 1);
	req->nrails = get_rails(&r, req->rail);
	req->ring_addr = get(&r, 8);
	req->ring_entries = (uint16_t)get_at_most(&r, 2, NET_RING_MAX);
	get_keys(&r, req->ring_rkey, req->nrails);
	req->mode = (uint8_t)get_at_most(&r, 1, PROTO_SEND);
	req->comm_id = (uint32_t)get_at_most(&r, 4, NET_MAX_COMMS - 1);
	req->segment = get_segment(&r);
	req->spare_qpn = (uint32_t)get_at_most(&r, 4, QPN_MAX);
	/* A power of two: entries are found by mask. Lines are aligned: each lands as a unit. */
	if (req->ring_entries < NET_MAX_RECVS || req->ring_entries & (req->ring_entries - 1) ||
	    req->ring_addr % sizeof(struct proto_cts) || req->mode == 0)
		r.bad = true;
	return r.bad ? -EINVAL : 0;
}

size_t proto_resp_pack(uint8_t out[PROTO_MSG_BYTES], const struct proto_resp *resp)
{
	uint8_t *p = put_head(out, MSG_MAGIC, PROTO_RESP);

	p = put(p, resp->token, 8);
	p = put(p, resp->conn_id, 4);
	p = put(p, resp->refused, 4);
	if (resp->refused)
		return (size_t)(p - out);
	p = put_rails(p, resp->rail, resp->nrails);
	p = put(p, resp->comm_id, 4);
	p = put(p, resp->scratch_addr, 8);
	p = put_keys(p, resp->scratch_rkey, resp->nrails);
	p = put(p, resp->segment, 4);
	/* Whoever does not know of it does not look for it. */
	if (resp->eager)
		p = put(p, resp->eager, 4);
	return (size_t)(p - out);
}

size_t proto_ask_pack(uint8_t out[PROTO_MSG_BYTES])
{
	return (size_t)(put_head(out, MSG_MAGIC, PROTO_ASK) - out);
}

int proto_resp_unpack(struct proto_resp *resp, const uint8_t *in, size_t len)
{
	struct reader r = {.p = in, .end = in + len};
	int rc = get_head(&r, MSG_MAGIC);

	if (rc != PROTO_RESP)
		return rc < 0 ? rc : -EINVAL;
	memset(resp, 0, sizeof(*resp));
	resp->token = get(&r, 8);
	resp->conn_id = (uint32_t)get(&r, 4);
	resp->refused = (uint32_t)get_at_most(&r, 4, 4095);
	if (!resp->refused && !r.bad) {
		resp->nrails = get_rails(&r, resp->rail);
		resp->comm_id = (uint32_t)get_at_most(&r, 4, NET_MAX_COMMS - 1);
		resp->scratch_addr = get(&r, 8);
		get_keys(&r, resp->scratch_rkey, resp->nrails);
		resp->segment = get_segment(&r);
		if (r.p != r.end)
			resp->eager = (uint32_t)get_at_most(&r, 4, PROTO_SEGMENT_MAX);
	}
	return r.bad ? -EINVAL : 0;
}
