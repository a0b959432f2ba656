/* SPDX-License-Identifier: BSD-3-Clause */
/* The plugin's wire forms: byte by byte, to their limits and beyond. */
#include "../../plugin/proto.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <string.h>

#include "../lib/bytes.h"
#include "../lib/need.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- samples ---- */

/* Every byte of a field is another one. */
static union ibv_gid gid(uint8_t first)
{
	union ibv_gid g;

	for (uint8_t i = 0; i < 16; i++)
		g.raw[i] = (uint8_t)(first + i);
	return g;
}

static struct proto_handle handle(int nrails)
{
	struct proto_handle h = {
		.cm = {.gid = gid(0x10), .qpn = 0x2122, .qkey = 0x31323334},
		.listen_id = 0x41424344,
		.token = 0x5152535455565758,
		.caps = 0x61,
		.nrails = (uint8_t)nrails,
	};

	for (uint64_t i = 0; i < (uint64_t)nrails; i++)
		h.iid[i] = 0x7071727374757600 + i;
	h.spare_qpn = 0x4546;
	return h;
}

static void set_rails(struct proto_rail *rail, int n)
{
	for (int i = 0; i < n; i++)
		rail[i] = (struct proto_rail){
			.gid = gid((uint8_t)(0x80 + i)),
			.data_qpn = 0xa100u + (uint32_t)i,
			.ctrl_qpn = 0xa200u + (uint32_t)i,
			.qkey = 0xa3a4a500u + (uint32_t)i,
		};
}

static struct proto_req req(int nrails)
{
	struct proto_req r = {
		.listen_id = 0x41424344,
		.token = 0x5152535455565758,
		.conn_id = 0x61626364,
		.cm = {.gid = gid(0x10), .qpn = 0x2122, .qkey = 0x31323334},
		.caps = 0x71,
		.nrails = (uint8_t)nrails,
		.ring_addr = 0xb1b2b3b4b5b6b7c0,
		.ring_entries = 256,
		.mode = PROTO_READ,
		.comm_id = 0x1abce,
		.segment = 0x2280,
		.spare_qpn = 0x4546,
	};

	set_rails(r.rail, nrails);
	for (int i = 0; i < nrails; i++)
		r.ring_rkey[i] = 0xc1c2c300u + (uint32_t)i;
	return r;
}

static struct proto_resp resp(int nrails)
{
	struct proto_resp r = {
		.token = 0x5152535455565758,
		.conn_id = 0x61626364,
		.nrails = (uint8_t)nrails,
		.comm_id = 0x1abcd,
		.scratch_addr = 0xb1b2b3b4b5b6b7b9,
		.segment = 0x2280,
	};

	set_rails(r.rail, nrails);
	for (int i = 0; i < nrails; i++)
		r.scratch_rkey[i] = 0xc1c2c300u + (uint32_t)i;
	return r;
}

/* ---- fixed bytes ---- */

/* clang-format off */
#define GID_10 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, \
	       0x1e, 0x1f
#define EP     GID_10, 0, 0, 0x21, 0x22, 0x31, 0x32, 0x33, 0x34
#define TOKEN  0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58
#define RAIL_0 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x8b, 0x8c, 0x8d, \
	       0x8e, 0x8f, 0, 0, 0xa1, 0, 0, 0, 0xa2, 0, 0xa3, 0xa4, 0xa5, 0

static const uint8_t handle_bytes[] = {
	'E', 'F', 'A', 'h', 0, 2, 0, EP, 0x41, 0x42, 0x43, 0x44, TOKEN, 0x61, 2,
	0, 0, 0x45, 0x46,
	0x70, 0x71, 0x72, 0x73, 0x74, 0x75, 0x76, 0, 0x70, 0x71, 0x72, 0x73, 0x74, 0x75, 0x76, 1,
};

static const uint8_t req_bytes[] = {
	'E', 'F', 'A', 'm', 0, 2, 1, 0x41, 0x42, 0x43, 0x44, TOKEN, 0x61, 0x62, 0x63, 0x64, EP, 0x71,
	1, RAIL_0, 0xb1, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xc0, 1, 0, 0xc1, 0xc2, 0xc3, 0,
	2, 0, 1, 0xab, 0xce, 0, 0, 0x22, 0x80, 0, 0, 0x45, 0x46,
};

static const uint8_t resp_bytes[] = {
	'E', 'F', 'A', 'm', 0, 2, 2, TOKEN, 0x61, 0x62, 0x63, 0x64, 0, 0, 0, 0, 1, RAIL_0,
	0, 1, 0xab, 0xcd, 0xb1, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb9, 0xc1, 0xc2, 0xc3, 0,
	0, 0, 0x22, 0x80,
};

static const uint8_t refusal_bytes[] = {
	'E', 'F', 'A', 'm', 0, 2, 2, TOKEN, 0x61, 0x62, 0x63, 0x64, 0, 0, 0, 111,
};
/* clang-format on */

static void assert_bytes(const uint8_t *got, const uint8_t *want, size_t n)
{
	for (size_t i = 0; i < n; i++)
		need(got[i] == want[i], "byte %zu is %#x, not %#x", i, got[i], want[i]);
}

Test(proto, handle_has_these_bytes_and_zeros_behind_them)
{
	struct proto_handle h = handle(2);
	uint8_t out[PROTO_HANDLE_BYTES];

	memset(out, 0xee, sizeof(out));
	proto_handle_pack(out, &h);
	assert_bytes(out, handle_bytes, sizeof(handle_bytes));
	cr_assert(eq(long,
		     bytes_differ_from(out + sizeof(handle_bytes),
				       sizeof(out) - sizeof(handle_bytes), 0),
		     -1));
}

Test(proto, request_has_these_bytes)
{
	struct proto_req r = req(1);
	uint8_t out[PROTO_MSG_BYTES];

	cr_assert(eq(sz, proto_req_pack(out, &r), sizeof(req_bytes)));
	assert_bytes(out, req_bytes, sizeof(req_bytes));
}

Test(proto, answer_has_these_bytes)
{
	struct proto_resp r = resp(1);
	uint8_t out[PROTO_MSG_BYTES];

	cr_assert(eq(sz, proto_resp_pack(out, &r), sizeof(resp_bytes)));
	assert_bytes(out, resp_bytes, sizeof(resp_bytes));
}

Test(proto, refusal_has_these_bytes)
{
	struct proto_resp r = resp(1);
	uint8_t out[PROTO_MSG_BYTES];

	r.refused = 111;
	cr_assert(eq(sz, proto_resp_pack(out, &r), sizeof(refusal_bytes)));
	assert_bytes(out, refusal_bytes, sizeof(refusal_bytes));
}

/* In the order of the bits: pieces - 1, piece, entry, comm. */
Test(proto, immediate_has_these_bits)
{
	cr_assert(eq(u32, proto_imm_pack(0, 0, 0, 1), 0));
	cr_assert(eq(u32, proto_imm_pack(1, 0, 0, 1), 1));
	cr_assert(eq(u32, proto_imm_pack(0, 1, 0, 1), 1u << 17));
	cr_assert(eq(u32, proto_imm_pack(0, 0, 1, 1), 1u << 26));
	cr_assert(eq(u32, proto_imm_pack(0, 0, 0, 2), 1u << 29));
	cr_assert(eq(u32, proto_imm_pack(0x1ffff, 0x1ff, 7, 8), UINT32_MAX));
}

/* In the order of the bits: type, lap, entry, comm. */
Test(proto, immediate_of_a_message_has_these_bits)
{
	struct proto_note note = proto_note_unpack(UINT32_MAX);

	cr_assert(eq(u32, proto_note_pack(PROTO_LINES, 1, 0, 0), 1));
	cr_assert(eq(u32, proto_note_pack(PROTO_LINES, 0, 1, 0), 1u << 17));
	cr_assert(eq(u32, proto_note_pack(PROTO_LINES, 0, 0, 1), 1u << 26));
	cr_assert(eq(u32, proto_note_pack(PROTO_LINES, 0, 0, 8), 0), "a lap has three bits");
	cr_assert(eq(u32, proto_note_pack(PROTO_READY, 0, 0, 0), 1u << 29));
	cr_assert(eq(u32, note.comm, NET_MAX_COMMS - 1));
	cr_assert(eq(u16, note.entry, NET_RING_MAX - 1));
	cr_assert(eq(u8, note.lap, 7));
	cr_assert(eq(u8, note.type, 7));
}

/* The low 12 bits of the count, the others are known. */
Test(proto, grant_comes_back_by_what_is_known)
{
	const uint32_t counts[] = {0, 1, 511, 512, 4095, 4096, 1u << 31, UINT32_MAX};

	cr_assert(eq(u32, proto_grant_pack(3, 0x1fff),
		     (uint32_t)PROTO_GRANT << 29 | 0xfff << 17 | 3));
	for (int i = 0; i < 8; i++) {
		struct proto_note note = proto_note_unpack(proto_grant_pack(3, counts[i]));

		cr_assert(eq(u8, note.type, PROTO_GRANT));
		cr_assert(eq(u32, note.comm, 3));
		cr_assert(eq(u32, proto_grant(&note, counts[i]), counts[i]));
		cr_assert(eq(u32, proto_grant(&note, counts[i] - 2047), counts[i]));
		cr_assert(eq(u32, proto_grant(&note, counts[i] + 2048), counts[i]));
	}
}

Test(proto, clear_to_send_line_has_these_bytes)
{
	const struct proto_cts line = {
		.addr = 0x0102030405060708,
		.len = 0x11121314,
		.tag = 0x21222324,
		.conn_id = 0x31323334,
		.rkey = {0x41424344, [7] = 0x51525354},
		.n = 0x61,
		.flags = 0x62,
		.eager = 0x63,
		.rail0 = 0x64,
		.grant = 0x81828384,
		.seq = 0x71727374,
	};
	/* clang-format off */
	static const uint8_t want[64] = {
		8, 7, 6, 5, 4, 3, 2, 1, 0x14, 0x13, 0x12, 0x11, 0x24, 0x23, 0x22, 0x21,
		0x34, 0x33, 0x32, 0x31, 0x44, 0x43, 0x42, 0x41,
		[48] = 0x54, 0x53, 0x52, 0x51, 0x61, 0x62, 0x63, 0x64,
		0x84, 0x83, 0x82, 0x81, 0x74, 0x73, 0x72, 0x71,
	};
	/* clang-format on */

	assert_bytes((const uint8_t *)&line, want, sizeof(want));
}

Test(proto, words_about_reads_have_these_bytes)
{
	const struct proto_ready ready = {
		.addr = 0x0102030405060708,
		.len = 0x11121314,
		.tag = 0x21222324,
		.conn_id = 0x31323334,
		.rkey = {0x41424344, [7] = 0x51525354},
		.seq = 0x61626364,
		.number = 0x71727374,
	};
	const struct proto_fin fin = {0x11121314, 0x21222324, 0x31323334, 0x41424344};
	/* clang-format off */
	static const uint8_t want_ready[64] = {
		8, 7, 6, 5, 4, 3, 2, 1, 0x14, 0x13, 0x12, 0x11, 0x24, 0x23, 0x22, 0x21,
		0x34, 0x33, 0x32, 0x31, 0x44, 0x43, 0x42, 0x41,
		[48] = 0x54, 0x53, 0x52, 0x51, 0x64, 0x63, 0x62, 0x61, 0x74, 0x73, 0x72, 0x71,
	};
	static const uint8_t want_fin[16] = {
		0x14, 0x13, 0x12, 0x11, 0x24, 0x23, 0x22, 0x21,
		0x34, 0x33, 0x32, 0x31, 0x44, 0x43, 0x42, 0x41,
	};
	/* clang-format on */

	assert_bytes((const uint8_t *)&ready, want_ready, sizeof(want_ready));
	assert_bytes((const uint8_t *)&fin, want_fin, sizeof(want_fin));
}

/* All before the first that was not, and those of the 32 from it on that have a bit. */
Test(proto, what_was_read_is_told_by_number)
{
	const uint32_t bases[] = {0, 100, 1u << 31, UINT32_MAX - 5};

	for (size_t i = 0; i < COUNT(bases); i++) {
		uint32_t base = bases[i];
		const struct proto_fin fin = {.read = base, .beyond = 1u << 1 | 1u << 31};

		cr_assert(proto_fin_has(&fin, base - 1));
		cr_assert(proto_fin_has(&fin, base - 1000));
		cr_assert(not(proto_fin_has(&fin, base)));
		cr_assert(proto_fin_has(&fin, base + 1));
		cr_assert(not(proto_fin_has(&fin, base + 2)));
		cr_assert(not(proto_fin_has(&fin, base + 30)));
		cr_assert(proto_fin_has(&fin, base + 31));
		cr_assert(not(proto_fin_has(&fin, base + 32)));
		cr_assert(not(proto_fin_has(&fin, base + 33)));
	}
}

/* ---- there and back ---- */

struct rails {
	int n;
};

ParameterizedTestParameters(proto, handle_of_any_number_of_rails_comes_back)
{
	static struct rails n[] = {{1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}};

	return cr_make_param_array(struct rails, n, COUNT(n));
}

ParameterizedTest(struct rails *rails, proto, handle_of_any_number_of_rails_comes_back)
{
	struct proto_handle h = handle(rails->n), back;
	uint8_t out[PROTO_HANDLE_BYTES];

	proto_handle_pack(out, &h);
	cr_assert(zero(int, proto_handle_unpack(&back, out)));
	assert_bytes((uint8_t *)&back, (uint8_t *)&h, offsetof(struct proto_handle, caps));
	cr_assert(eq(u8, back.caps, h.caps));
	cr_assert(eq(u8, back.nrails, h.nrails));
	for (int i = 0; i < rails->n; i++)
		cr_assert(eq(u64, back.iid[i], h.iid[i]));
}

static void assert_rails(const struct proto_rail *got, const struct proto_rail *want, int n)
{
	for (int i = 0; i < n; i++) {
		assert_bytes(got[i].gid.raw, want[i].gid.raw, 16);
		cr_assert(eq(u32, got[i].data_qpn, want[i].data_qpn));
		cr_assert(eq(u32, got[i].ctrl_qpn, want[i].ctrl_qpn));
		cr_assert(eq(u32, got[i].qkey, want[i].qkey));
	}
}

ParameterizedTestParameters(proto, request_of_any_number_of_rails_comes_back)
{
	static struct rails n[] = {{1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}};

	return cr_make_param_array(struct rails, n, COUNT(n));
}

ParameterizedTest(struct rails *rails, proto, request_of_any_number_of_rails_comes_back)
{
	struct proto_req r = req(rails->n), back;
	uint8_t out[PROTO_MSG_BYTES];
	size_t len = proto_req_pack(out, &r);

	cr_assert(eq(int, proto_type(out, len), PROTO_REQ));
	cr_assert(zero(int, proto_req_unpack(&back, out, len)));
	cr_assert(eq(u32, back.listen_id, r.listen_id));
	cr_assert(eq(u64, back.token, r.token));
	cr_assert(eq(u32, back.conn_id, r.conn_id));
	assert_bytes(back.cm.gid.raw, r.cm.gid.raw, 16);
	cr_assert(eq(u32, back.cm.qpn, r.cm.qpn));
	cr_assert(eq(u32, back.cm.qkey, r.cm.qkey));
	cr_assert(eq(u8, back.caps, r.caps));
	cr_assert(eq(u8, back.nrails, r.nrails));
	assert_rails(back.rail, r.rail, rails->n);
	cr_assert(eq(u64, back.ring_addr, r.ring_addr));
	cr_assert(eq(u16, back.ring_entries, r.ring_entries));
	cr_assert(eq(u8, back.mode, r.mode));
	cr_assert(eq(u32, back.comm_id, r.comm_id));
	cr_assert(eq(u32, back.segment, r.segment));
	for (int i = 0; i < rails->n; i++)
		cr_assert(eq(u32, back.ring_rkey[i], r.ring_rkey[i]));
}

ParameterizedTestParameters(proto, answer_of_any_number_of_rails_comes_back)
{
	static struct rails n[] = {{1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}};

	return cr_make_param_array(struct rails, n, COUNT(n));
}

ParameterizedTest(struct rails *rails, proto, answer_of_any_number_of_rails_comes_back)
{
	struct proto_resp r = resp(rails->n), back;
	uint8_t out[PROTO_MSG_BYTES];
	size_t len = proto_resp_pack(out, &r);

	cr_assert(eq(int, proto_type(out, len), PROTO_RESP));
	cr_assert(zero(int, proto_resp_unpack(&back, out, len)));
	cr_assert(eq(u64, back.token, r.token));
	cr_assert(eq(u32, back.conn_id, r.conn_id));
	cr_assert(zero(u32, back.refused));
	cr_assert(eq(u8, back.nrails, r.nrails));
	assert_rails(back.rail, r.rail, rails->n);
	cr_assert(eq(u32, back.comm_id, r.comm_id));
	cr_assert(eq(u64, back.scratch_addr, r.scratch_addr));
	cr_assert(eq(u32, back.segment, r.segment));
	for (int i = 0; i < rails->n; i++)
		cr_assert(eq(u32, back.scratch_rkey[i], r.scratch_rkey[i]));
}

Test(proto, refusal_comes_back_with_its_reason)
{
	struct proto_resp back;

	cr_assert(zero(int, proto_resp_unpack(&back, refusal_bytes, sizeof(refusal_bytes))));
	cr_assert(eq(u32, back.refused, 111));
	cr_assert(eq(u64, back.token, 0x5152535455565758));
	cr_assert(eq(u32, back.conn_id, 0x61626364));
	cr_assert(zero(u8, back.nrails));
}

struct imm {
	uint32_t comm, entry, piece, pieces;
};

ParameterizedTestParameters(proto, immediate_comes_back)
{
	static struct imm imms[] = {{0, 0, 0, 1},
				    {NET_MAX_COMMS - 1, 0, 0, 1},
				    {0, NET_RING_MAX - 1, 0, 1},
				    {0, 0, 7, 8},
				    {0, 0, 0, 8},
				    {NET_MAX_COMMS - 1, NET_RING_MAX - 1, 7, 8},
				    {0x15555, 0xaa, 2, 5}};

	return cr_make_param_array(struct imm, imms, COUNT(imms));
}

ParameterizedTest(struct imm *i, proto, immediate_comes_back)
{
	struct proto_imm back =
		proto_imm_unpack(proto_imm_pack(i->comm, i->entry, i->piece, i->pieces));

	cr_assert(eq(u32, back.comm, i->comm));
	cr_assert(eq(u16, back.entry, (uint16_t)i->entry));
	cr_assert(eq(u8, back.piece, (uint8_t)i->piece));
	cr_assert(eq(u8, back.pieces, (uint8_t)i->pieces));
}

Test(proto, cookie_takes_nothing_from_the_rest_of_the_handle)
{
	struct proto_handle h = handle(8), back;
	uint8_t out[PROTO_HANDLE_BYTES];

	proto_handle_pack(out, &h);
	cr_assert(zero(u64, proto_cookie_get(out)));
	proto_cookie_set(out, UINT64_MAX);
	cr_assert(eq(u64, proto_cookie_get(out), UINT64_MAX));
	proto_cookie_set(out, 0x0102030405060708);
	cr_assert(eq(u64, proto_cookie_get(out), 0x0102030405060708));
	cr_assert(zero(int, proto_handle_unpack(&back, out)));
	cr_assert(eq(u64, back.iid[7], h.iid[7]));
}

Test(proto, gid_of_a_rail_has_the_prefix_of_the_first)
{
	struct proto_handle h = handle(2);
	union ibv_gid g = proto_handle_gid(&h, 1);
	static const uint8_t want[16] = {0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17,
					 0x70, 0x71, 0x72, 0x73, 0x74, 0x75, 0x76, 1};

	assert_bytes(g.raw, want, sizeof(want));
}

/* ---- limits ---- */

/* @len bytes at @at, set to @value in network order, are accepted or not. */
struct edge {
	int at, len;
	uint64_t value;
	int rc;
};

static void poke(uint8_t *msg, const struct edge *e)
{
	for (int i = 0; i < e->len; i++)
		msg[e->at + i] = (uint8_t)(e->value >> 8 * (e->len - 1 - i));
}

ParameterizedTestParameters(proto, handle_fields_are_checked_to_the_limit)
{
	static struct edge edges[] = {
		{0, 4, 0x45464168, 0},
		{0, 4, 0x45464169, -EINVAL},
		{0, 4, 0x4546416d, -EINVAL},
		{4, 2, 2, 0},
		{4, 2, 0, -EPROTO},
		{4, 2, 1, -EPROTO},
		{4, 2, 3, -EPROTO},
		{4, 2, 0xffff, -EPROTO},
		{6, 1, 1, -EINVAL},
		{23, 4, 0xffff, 0},
		{23, 4, 0x10000, -EINVAL},
		{23, 4, UINT32_MAX, -EINVAL},
		{35, 8, 1, 0},
		{35, 8, 0, -EINVAL},
		{35, 8, UINT64_MAX, 0},
		{43, 1, 0xff, 0},
		{44, 1, 1, 0},
		{44, 1, 8, 0},
		{44, 1, 0, -EINVAL},
		{44, 1, 9, -EINVAL},
		{44, 1, 0xff, -EINVAL},
		{45, 4, 0, 0},
		{45, 4, 0xffff, 0},
		{45, 4, 0x10000, -EINVAL},
	};

	return cr_make_param_array(struct edge, edges, COUNT(edges));
}

ParameterizedTest(struct edge *e, proto, handle_fields_are_checked_to_the_limit)
{
	uint8_t in[PROTO_HANDLE_BYTES] = {0};
	struct proto_handle h;

	memcpy(in, handle_bytes, sizeof(handle_bytes));
	poke(in, e);
	cr_assert(eq(int, proto_handle_unpack(&h, in), e->rc), "%#llx at %d",
		  (unsigned long long)e->value, e->at);
}

/* Behind the head of 7: listen, token, conn, endpoint, caps, rails; then ring. */
ParameterizedTestParameters(proto, request_fields_are_checked_to_the_limit)
{
	enum {
		QPN = 39,
		NRAILS = 48,
		DATA = 65,
		CTRL = 69,
		ADDR = 77,
		ENTRIES = 85,
		MODE = 91,
		COMM = 92,
		SEGMENT = 96,
		SPARE = 100
	};
	static struct edge edges[] = {
		{0, 4, 0x45464168, -EINVAL},
		{4, 2, 0, -EPROTO},
		{4, 2, 1, -EPROTO},
		{4, 2, 3, -EPROTO},
		{6, 1, 0, -EINVAL},
		{6, 1, PROTO_RESP, -EINVAL},
		{6, 1, 3, -EINVAL},
		{QPN, 4, 0xffff, 0},
		{QPN, 4, 0x10000, -EINVAL},
		{NRAILS, 1, 1, 0},
		{NRAILS, 1, 0, -EINVAL},
		{NRAILS, 1, 2, -EINVAL},
		{NRAILS, 1, 9, -EINVAL},
		{NRAILS, 1, 0xff, -EINVAL},
		{DATA, 4, 0xffff, 0},
		{DATA, 4, 0x10000, -EINVAL},
		{CTRL, 4, 0xffff, 0},
		{CTRL, 4, 0x10000, -EINVAL},
		{ADDR, 8, 0, 0},
		{ADDR, 8, 64, 0},
		{ADDR, 8, 63, -EINVAL},
		{ADDR, 8, 32, -EINVAL},
		{ADDR, 8, UINT64_MAX, -EINVAL},
		{ENTRIES, 2, 8, 0},
		{ENTRIES, 2, 4, -EINVAL},
		{ENTRIES, 2, 512, 0},
		{ENTRIES, 2, 0, -EINVAL},
		{ENTRIES, 2, 3, -EINVAL},
		{ENTRIES, 2, 511, -EINVAL},
		{ENTRIES, 2, 513, -EINVAL},
		{ENTRIES, 2, 1024, -EINVAL},
		{ENTRIES, 2, 0x8000, -EINVAL},
		{MODE, 1, PROTO_WRITE, 0},
		{MODE, 1, PROTO_SEND, 0},
		{MODE, 1, 0, -EINVAL},
		{MODE, 1, 4, -EINVAL},
		{COMM, 4, NET_MAX_COMMS - 1, 0},
		{COMM, 4, NET_MAX_COMMS, -EINVAL},
		{SPARE, 4, 0, 0},
		{SPARE, 4, 0xffff, 0},
		{SPARE, 4, 0x10000, -EINVAL},
		{SEGMENT, 4, 512, 0},
		{SEGMENT, 4, 511, -EINVAL},
		{SEGMENT, 4, 65024, 0},
		{SEGMENT, 4, 65025, -EINVAL},
	};

	return cr_make_param_array(struct edge, edges, COUNT(edges));
}

ParameterizedTest(struct edge *e, proto, request_fields_are_checked_to_the_limit)
{
	uint8_t in[sizeof(req_bytes)];
	struct proto_req r;

	memcpy(in, req_bytes, sizeof(in));
	poke(in, e);
	cr_assert(eq(int, proto_req_unpack(&r, in, sizeof(in)), e->rc), "%#llx at %d",
		  (unsigned long long)e->value, e->at);
}

/* Behind the head of 7: token, conn, refused, rails; then comm. */
ParameterizedTestParameters(proto, answer_fields_are_checked_to_the_limit)
{
	enum { REFUSED = 19, NRAILS = 23, DATA = 40, CTRL = 44, COMM = 52, SEGMENT = 68 };
	static struct edge edges[] = {
		{0, 4, 0x45464168, -EINVAL},
		{4, 2, 0, -EPROTO},
		{4, 2, 1, -EPROTO},
		{4, 2, 3, -EPROTO},
		{6, 1, 0, -EINVAL},
		{6, 1, PROTO_REQ, -EINVAL},
		{6, 1, 3, -EINVAL},
		{REFUSED, 4, 4095, 0},
		{REFUSED, 4, 4096, -EINVAL},
		{REFUSED, 4, UINT32_MAX, -EINVAL},
		{NRAILS, 1, 0, -EINVAL},
		{NRAILS, 1, 2, -EINVAL},
		{NRAILS, 1, 9, -EINVAL},
		{DATA, 4, 0xffff, 0},
		{DATA, 4, 0x10000, -EINVAL},
		{CTRL, 4, 0xffff, 0},
		{CTRL, 4, 0x10000, -EINVAL},
		{COMM, 4, NET_MAX_COMMS - 1, 0},
		{COMM, 4, NET_MAX_COMMS, -EINVAL},
		{COMM, 4, UINT32_MAX, -EINVAL},
		{SEGMENT, 4, 512, 0},
		{SEGMENT, 4, 511, -EINVAL},
		{SEGMENT, 4, 65024, 0},
		{SEGMENT, 4, 65025, -EINVAL},
	};

	return cr_make_param_array(struct edge, edges, COUNT(edges));
}

ParameterizedTest(struct edge *e, proto, answer_fields_are_checked_to_the_limit)
{
	uint8_t in[sizeof(resp_bytes)];
	struct proto_resp r;

	memcpy(in, resp_bytes, sizeof(in));
	poke(in, e);
	cr_assert(eq(int, proto_resp_unpack(&r, in, sizeof(in)), e->rc), "%#llx at %d",
		  (unsigned long long)e->value, e->at);
}

/* ---- what is cut off ---- */

/* Each length has a block of its own, so that a sanitizer sees a byte read too many. */
static uint8_t *prefix(const uint8_t *msg, size_t len)
{
	uint8_t *cut = malloc(len ? len : 1);

	need(cut, "%zu bytes", len);
	memcpy(cut, msg, len);
	return cut;
}

Test(proto, request_that_is_cut_off_anywhere_is_refused)
{
	struct proto_req full = req(NET_MAX_RAILS), r;
	uint8_t msg[PROTO_MSG_BYTES];
	size_t len = proto_req_pack(msg, &full);

	need(len <= PROTO_MSG_BYTES, "%zu", len);
	for (size_t n = 0; n < len; n++) {
		uint8_t *cut = prefix(msg, n);
		int rc = proto_req_unpack(&r, cut, n);

		need(rc == -EINVAL, "%zu of %zu bytes: %d", n, len, rc);
		free(cut);
	}
	cr_assert(zero(int, proto_req_unpack(&r, msg, len)));
}

Test(proto, answer_that_is_cut_off_anywhere_is_refused)
{
	struct proto_resp full = resp(NET_MAX_RAILS), r;
	uint8_t msg[PROTO_MSG_BYTES];
	size_t len = proto_resp_pack(msg, &full);

	need(len <= PROTO_MSG_BYTES, "%zu", len);
	for (size_t n = 0; n < len; n++) {
		uint8_t *cut = prefix(msg, n);
		int rc = proto_resp_unpack(&r, cut, n);

		need(rc == -EINVAL, "%zu of %zu bytes: %d", n, len, rc);
		free(cut);
	}
	cr_assert(zero(int, proto_resp_unpack(&r, msg, len)));
}

Test(proto, refusal_that_is_cut_off_anywhere_is_refused)
{
	struct proto_resp r;

	for (size_t n = 0; n < sizeof(refusal_bytes); n++) {
		uint8_t *cut = prefix(refusal_bytes, n);
		int rc = proto_resp_unpack(&r, cut, n);

		need(rc == -EINVAL, "%zu bytes: %d", n, rc);
		free(cut);
	}
}

Test(proto, type_of_what_is_too_short_for_a_head_is_none)
{
	for (size_t n = 0; n < 7; n++) {
		uint8_t *cut = prefix(req_bytes, n);
		int type = proto_type(cut, n);

		need(type == -EINVAL, "%zu bytes: %d", n, type);
		free(cut);
	}
	cr_assert(eq(int, proto_type(req_bytes, 7), PROTO_REQ));
}
