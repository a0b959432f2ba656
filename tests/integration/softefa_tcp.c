/* SPDX-License-Identifier: BSD-3-Clause */
/* Two hosts, which the adapter connects by TCP: what holds on one host holds between two. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../lib/cmd.h"
#include "../lib/faults.h"
#include "../lib/hosts.h"
#include "../lib/kids.h"

TestSuite(softefa_tcp, .timeout = 120);

enum { BUF = HOSTS_BUF, HALF = HOSTS_HALF };

static struct hosts h;

static void begin(const char *settings, const struct node_attr *attr)
{
	hosts_begin(&h, &(struct hosts_attr){.settings = settings, .node = *attr});
}

Test(softefa_tcp, hosts_have_different_addresses)
{
	begin(NULL, &(struct node_attr){0});
	cr_assert(ne(int, memcmp(&h.here.gid, &h.there.gid, sizeof(h.here.gid)), 0));
	cr_assert(eq(int, h.there.gid.b[12] << 8 | h.there.gid.b[13], h.port[1]));
	hosts_end(&h);
}

/* ---- data ---- */

struct size {
	uint32_t len;
};

ParameterizedTestParameters(softefa_tcp, write_and_read)
{
	static struct size sizes[] = {{0},       {1},     {63},     {80},      {81},
				      {4096},    {16383}, {16384},  {16385},   {65535},
				      {65536},   {65537}, {131072}, {1 << 20}, {(1 << 20) + 7},
				      {HALF - 3}};

	return cr_make_param_array(struct size, sizes, sizeof(sizes) / sizeof(sizes[0]));
}

ParameterizedTest(struct size *s, softefa_tcp, write_and_read)
{
	struct raw_wr wr;

	begin(NULL, &(struct node_attr){0});
	node_fill(h.n.buf, s->len, 7);
	hosts_order(&h, HOSTS_FILL, s->len, 1, 99); /* the byte after */
	wr = hosts_wr(&h, RAW_WRITE, 0, s->len);
	cr_assert(zero(u32, hosts_run(&h, &wr)));
	cr_assert(hosts_order(&h, HOSTS_FILLED, 0, s->len, 7));
	cr_assert(hosts_order(&h, HOSTS_FILLED, s->len, 1, 99));

	hosts_order(&h, HOSTS_FILL, HALF, s->len, 8);
	node_fill(h.n.buf + HALF + s->len, 1, 98);
	wr = hosts_wr(&h, RAW_READ, HALF, s->len);
	cr_assert(zero(u32, hosts_run(&h, &wr)));
	cr_assert(node_filled(h.n.buf + HALF, s->len, 8));
	cr_assert(node_filled(h.n.buf + HALF + s->len, 1, 98));
	hosts_end(&h);
}

ParameterizedTestParameters(softefa_tcp, send)
{
	static struct size sizes[] = {{0}, {1}, {32}, {80}, {81}, {4096}, {8928}};

	return cr_make_param_array(struct size, sizes, sizeof(sizes) / sizeof(sizes[0]));
}

ParameterizedTest(struct size *s, softefa_tcp, send)
{
	struct raw_wr wr;
	struct raw_wc wc;

	begin(NULL, &(struct node_attr){0});
	hosts_order(&h, HOSTS_RECV, 4096, 8928, 5);
	node_fill(h.n.buf, s->len, 3);
	wr = hosts_wr(&h, RAW_SEND, 0, s->len);
	wr.imm_on = true;
	wr.imm = 0x12345678;
	cr_assert(zero(u32, hosts_run(&h, &wr)));
	wc = hosts_wait(&h);
	cr_assert(zero(u8, wc.status));
	cr_assert(eq(u64, wc.req_id, 5));
	cr_assert(eq(u32, wc.len, s->len));
	cr_assert(wc.has_imm);
	cr_assert(eq(u32, wc.imm, 0x12345678));
	cr_assert(eq(u16, wc.src_qpn, h.here.qpn));
	cr_assert(ne(u16, wc.ahn, RAW_AHN_UNKNOWN));
	cr_assert(hosts_order(&h, HOSTS_FILLED, 4096, s->len, 3));
	hosts_end(&h);
}

Test(softefa_tcp, inline_bytes_go_along)
{
	struct raw_wr wr;

	begin(NULL, &(struct node_attr){0});
	hosts_order(&h, HOSTS_RECV, 0, 64, 1);
	wr = hosts_wr(&h, RAW_SEND, 0, 0);
	wr.data = "inline";
	wr.data_len = 6;
	node_fill(h.n.buf, 6, 4);
	wr.data = h.n.buf;
	cr_assert(zero(u32, hosts_run(&h, &wr)));
	cr_assert(eq(u32, hosts_wait(&h).len, 6));
	cr_assert(hosts_order(&h, HOSTS_FILLED, 0, 6, 4));
	hosts_end(&h);
}

/* All kinds at once, more than fits any buffer, both small and large. */
Test(softefa_tcp, many_at_once)
{
	enum { N = 64, PIECE = HALF / N };
	bool seen[N] = {false};

	begin("reorder=16", &(struct node_attr){0});
	node_fill(h.n.buf, HALF, 1);
	hosts_order(&h, HOSTS_FILL, HALF, HALF, 2);
	for (unsigned round = 0; round < 4; round++) {
		memset(seen, 0, sizeof(seen));
		for (unsigned i = 0; i < N; i++) {
			uint64_t off = (uint64_t)(i % 2 ? HALF : 0) + (i / 2) * 2 * PIECE;
			struct raw_wr wr = hosts_wr(&h, i % 2 ? RAW_READ : RAW_WRITE, off,
						    i % 8 < 2 ? 4096 : 2 * PIECE);

			wr.req_id = (uint16_t)i;
			node_post(&h.n, &wr);
		}
		for (unsigned i = 0; i < N; i++) {
			struct raw_wc wc = node_wait_status(&h.n.scq, 0);

			cr_assert(lt(u64, wc.req_id, N));
			cr_assert(not(seen[wc.req_id]));
			seen[wc.req_id] = true;
		}
	}
	cr_assert(hosts_order(&h, HOSTS_FILLED, 0, 4096, 1));
	hosts_end(&h);
}

Test(softefa_tcp, large_ones_hold_their_bytes)
{
	struct raw_wr wr;

	begin(NULL, &(struct node_attr){0});
	node_fill(h.n.buf, HALF, 1);
	for (unsigned i = 0; i < 16; i++) {
		wr = hosts_wr(&h, RAW_WRITE, i * (HALF / 16), HALF / 16);
		node_post(&h.n, &wr);
	}
	for (unsigned i = 0; i < 16; i++)
		node_wait_status(&h.n.scq, 0);
	cr_assert(hosts_order(&h, HOSTS_FILLED, 0, HALF, 1));
	hosts_end(&h);
}

Test(softefa_tcp, immediate_of_an_unsolicited_write)
{
	struct raw_wr wr;
	struct raw_wc wc;

	begin(NULL, &(struct node_attr){.unsolicited = true});
	node_fill(h.n.buf, 100000, 1);
	wr = hosts_wr(&h, RAW_WRITE, 0, 100000);
	wr.imm_on = true;
	wr.imm = 77;
	cr_assert(zero(u32, hosts_run(&h, &wr)));
	wc = hosts_wait(&h);
	cr_assert(eq(u32, wc.imm, 77));
	cr_assert(wc.unsolicited);
	cr_assert(eq(u32, wc.len, 100000));
	cr_assert(hosts_order(&h, HOSTS_FILLED, 0, 100000, 1));
	hosts_end(&h);
}

/* ---- waiting for a receive ---- */

static void parked(enum raw_op op, uint32_t len)
{
	struct raw_wr wr;

	begin(NULL, &(struct node_attr){.rnr = 7 + 1});
	node_fill(h.n.buf, len, 1);
	wr = hosts_wr(&h, op, 0, len);
	wr.imm_on = op == RAW_WRITE;
	node_post(&h.n, &wr);
	cr_assert(node_quiet(&h.n.scq, 100));
	hosts_order(&h, HOSTS_RECV, op == RAW_SEND ? 0 : HALF, len, 9);
	node_wait_status(&h.n.scq, 0);
	cr_assert(eq(u64, hosts_wait(&h).req_id, 9));
	cr_assert(hosts_order(&h, HOSTS_FILLED, 0, len, 1));
	hosts_end(&h);
}

Test(softefa_tcp, send_waits_for_a_receive)
{
	parked(RAW_SEND, 8000);
}

Test(softefa_tcp, empty_send_waits_for_a_receive)
{
	parked(RAW_SEND, 0);
}

Test(softefa_tcp, small_write_waits_for_a_receive)
{
	parked(RAW_WRITE, 1000);
}

Test(softefa_tcp, large_write_waits_for_a_receive)
{
	parked(RAW_WRITE, 1 << 20);
}

/* Small or not: its region must be there when it is carried out. */
Test(softefa_tcp, send_that_waits_needs_its_region)
{
	struct raw_wr wr;

	begin(NULL, &(struct node_attr){.rnr = 7 + 1});
	wr = hosts_wr(&h, RAW_SEND, 0, 100);
	node_post(&h.n, &wr);
	cr_assert(node_quiet(&h.n.scq, 100));
	MUST_0(raw_mr_dereg(&h.n.mr, &h.n.dev));
	hosts_order(&h, HOSTS_RECV, 0, 100, 9);
	node_wait_status(&h.n.scq, 5);
	hosts_end(&h);
}

Test(softefa_tcp, what_waits_is_void_when_its_sender_is_gone)
{
	struct raw_wr wr;

	begin(NULL, &(struct node_attr){.rnr = 7 + 1});
	wr = hosts_wr(&h, RAW_SEND, 0, 100);
	node_post(&h.n, &wr);
	cr_assert(node_quiet(&h.n.scq, 100));
	MUST_0(raw_qp_destroy(&h.n.qp, &h.n.dev));
	hosts_order(&h, HOSTS_RECV, 0, 100, 9);
	cr_assert(hosts_order(&h, HOSTS_QUIET, 0, 100, 0));
	hosts_end(&h);
}

/* It took a receive to no avail: whoever comes next gets that one, and each is used once. */
Test(softefa_tcp, what_is_void_takes_no_receive)
{
	struct node other;
	struct raw_wr wr;

	begin(NULL, &(struct node_attr){.rnr = 7 + 1});
	node_init(&other, &(struct node_attr){.with = &h.n, .rnr = 7 + 1});
	node_fill(h.n.buf, 100, 1);
	wr = node_wr(&other, RAW_SEND, &h.there, h.ahn, 0, 100, 0);
	node_post(&other, &wr);
	cr_assert(node_quiet(&other.scq, 100));
	wr = hosts_wr(&h, RAW_SEND, 0, 100);
	node_post(&h.n, &wr);
	cr_assert(node_quiet(&h.n.scq, 100));
	MUST_0(raw_qp_destroy(&other.qp, &other.dev));
	hosts_order(&h, HOSTS_RECV_2, 0, 100, 5);
	node_wait_status(&h.n.scq, 0);
	node_fill(h.n.buf, 100, 2);
	cr_assert(zero(u32, hosts_run(&h, &wr)));
	for (unsigned i = 0; i < 2; i++) {
		struct raw_wc wc = hosts_wait(&h);

		cr_assert(zero(u8, wc.status));
		cr_assert(eq(u64, wc.req_id, 5 + i));
		cr_assert(hosts_order(&h, HOSTS_FILLED, i * 100, 100, 1 + i));
	}
	node_fini(&other);
	hosts_end(&h);
}

Test(softefa_tcp, retries_end)
{
	struct raw_wr wr;

	begin(NULL, &(struct node_attr){.rnr = 1 + 1});
	wr = hosts_wr(&h, RAW_SEND, 0, 100);
	cr_assert(eq(u32, hosts_run(&h, &wr), 10));
	hosts_end(&h);
}

/* ---- errors ---- */

struct error {
	char what[8];
	enum raw_op op;
	uint32_t len;
	unsigned status;
	bool strangers;
};

static struct error errors[] = {
	{"rkey", RAW_WRITE, 100, 7, false},    {"rkey", RAW_READ, 100, 7, false},
	{"range", RAW_WRITE, 100, 7, false},   {"range", RAW_READ, 1 << 20, 7, false},
	{"lkey", RAW_WRITE, 100, 5, false},    {"lkey", RAW_SEND, 100, 5, false},
	{"lkey", RAW_READ, 100, 5, false},     {"qpn", RAW_SEND, 100, 9, false},
	{"qpn", RAW_WRITE, 1 << 20, 9, false}, {"qkey", RAW_READ, 100, 9, false},
	{"nothing", RAW_WRITE, 100, 14, true}, {"nothing", RAW_READ, 100, 14, true},
	{"receive", RAW_SEND, 100, 11, false},
};

ParameterizedTestParameters(softefa_tcp, errors_are_those_of_one_host)
{
	return cr_make_param_array(struct error, errors, sizeof(errors) / sizeof(errors[0]));
}

ParameterizedTest(struct error *e, softefa_tcp, errors_are_those_of_one_host)
{
	struct raw_wr wr;

	hosts_begin(&h, &(struct hosts_attr){.strangers = e->strangers});
	wr = hosts_wr(&h, e->op, 0, e->len);
	if (strcmp(e->what, "rkey") == 0)
		wr.remote.key ^= 1;
	else if (strcmp(e->what, "range") == 0)
		wr.remote.addr += BUF - e->len + 1;
	else if (strcmp(e->what, "lkey") == 0)
		wr.sge[0].key ^= 1;
	else if (strcmp(e->what, "qpn") == 0)
		wr.qpn = 0x7777;
	else if (strcmp(e->what, "qkey") == 0)
		wr.qkey++;
	else if (strcmp(e->what, "receive") == 0)
		hosts_order(&h, HOSTS_RECV, 0, e->len - 1, 0);
	cr_assert(eq(u32, hosts_run(&h, &wr), e->status), "%s", e->what);
	hosts_end(&h);
}

Test(softefa_tcp, memory_that_goes_away_under_a_large_write)
{
	struct raw_wr wr;
	struct raw_wc wc;

	begin(NULL, &(struct node_attr){0});
	for (unsigned i = 0; i < 8; i++) {
		wr = hosts_wr(&h, RAW_WRITE, 0, HALF);
		node_post(&h.n, &wr);
	}
	hosts_order(&h, HOSTS_DEREG, 0, 0, 0);
	for (unsigned i = 0; i < 8; i++) {
		wc = node_wait(&h.n.scq);
		MUST(wc.status == 0 || wc.status == 7, "%u", wc.status);
	}
	cr_assert(eq(u8, wc.status, 7), "the last came too late");
	hosts_end(&h);
}

Test(softefa_tcp, queue_pair_that_fails_under_a_large_write)
{
	struct raw_wr wr;
	struct raw_wc wc;

	begin(NULL, &(struct node_attr){0});
	for (unsigned i = 0; i < 8; i++) {
		wr = hosts_wr(&h, RAW_WRITE, 0, HALF);
		node_post(&h.n, &wr);
	}
	hosts_order(&h, HOSTS_FAIL, 0, 0, 0);
	for (unsigned i = 0; i < 8; i++) {
		wc = node_wait(&h.n.scq);
		MUST(wc.status == 0 || wc.status == 8 || wc.status == 9, "%u", wc.status);
	}
	cr_assert(ne(u8, wc.status, 0), "the last came too late");
	hosts_end(&h);
}

/* ---- datagrams ---- */

Test(softefa_tcp, datagram)
{
	struct raw_wr wr;
	struct raw_wc wc;

	begin(NULL, &(struct node_attr){.type = RAW_UD});
	hosts_order(&h, HOSTS_RECV, 0, 4096, 1);
	node_fill(h.n.buf, 100, 1);
	wr = hosts_wr(&h, RAW_SEND, 0, 100);
	cr_assert(zero(u32, hosts_run(&h, &wr)));
	wc = hosts_wait(&h);
	cr_assert(eq(u32, wc.len, 100 + RAW_GRH));
	cr_assert(hosts_order(&h, HOSTS_FILLED, RAW_GRH, 100, 1));
	wr.qpn = 0x7777;
	cr_assert(zero(u32, hosts_run(&h, &wr)));
	hosts_end(&h);
}

/* ---- ends ---- */

Test(softefa_tcp, nobody_at_the_address)
{
	struct node_addr nobody;
	struct raw_wr wr;

	begin("timeout_ms=300", &(struct node_attr){0});
	nobody = h.there;
	nobody.gid.b[11] = 77; /* 127.0.0.77 */
	wr = node_wr(&h.n, RAW_WRITE, &nobody, node_ahn(&h.n, &nobody), 0, 100, 0);
	cr_assert(eq(u32, hosts_run(&h, &wr), 15));
	/* That did not disturb the other. */
	wr = hosts_wr(&h, RAW_WRITE, 0, 100);
	cr_assert(zero(u32, hosts_run(&h, &wr)));
	hosts_end(&h);
}

/* What nobody takes does not hold up what others would. */
Test(softefa_tcp, unreachable_host_is_in_nobodys_way)
{
	struct node_addr nobody;
	struct raw_wr wr;
	struct raw_wc wc;

	begin("timeout_ms=2000", &(struct node_attr){0});
	nobody = h.there;
	nobody.gid.b[11] = 77;
	wr = node_wr(&h.n, RAW_WRITE, &nobody, node_ahn(&h.n, &nobody), 0, 100, 0);
	wr.req_id = 1;
	node_post(&h.n, &wr);
	wr = hosts_wr(&h, RAW_WRITE, 0, 100);
	wr.req_id = 2;
	node_post(&h.n, &wr);
	wc = node_wait(&h.n.scq);
	cr_assert(eq(u64, wc.req_id, 2));
	cr_assert(zero(u8, wc.status));
	wc = node_wait(&h.n.scq);
	cr_assert(eq(u64, wc.req_id, 1));
	cr_assert(eq(u8, wc.status, 15));
	hosts_end(&h);
}

/* A request of ours waits there, as long as there is somebody. */
static struct raw_wr begin_waiting(void)
{
	struct raw_wr wr;

	begin("timeout_ms=500", &(struct node_attr){.rnr = 7 + 1});
	wr = hosts_wr(&h, RAW_SEND, 0, 100);
	node_post(&h.n, &wr);
	cr_assert(node_quiet(&h.n.scq, 100));
	return wr;
}

static void ends_with_its_peer(enum hosts_order how)
{
	begin_waiting();
	hosts_order(&h, how, 0, 0, 0);
	node_wait_status(&h.n.scq, 9);
	kids_join(h.pid);
	node_fini(&h.n);
}

Test(softefa_tcp, killed_peer)
{
	struct raw_wr wr = begin_waiting();

	kids_kill(h.pid);
	node_wait_status(&h.n.scq, 13);
	/* Nobody is left on its host. */
	cr_assert(eq(u32, hosts_run(&h, &wr), 15));
	node_fini(&h.n);
}

Test(softefa_tcp, peer_that_leaves_in_good_order)
{
	ends_with_its_peer(HOSTS_LEAVE);
}

Test(softefa_tcp, peer_that_exits_with_all_open)
{
	ends_with_its_peer(HOSTS_EXIT);
}

/* Its kernel answers for it. */
Test(softefa_tcp, stopped_peer_is_only_late)
{
	struct raw_wr wr;

	begin("timeout_ms=300", &(struct node_attr){0});
	wr = hosts_wr(&h, RAW_WRITE, 0, 100);
	cr_assert(zero(u32, hosts_run(&h, &wr)));
	kill(h.pid, SIGSTOP);
	MUST(waitpid(h.pid, NULL, WUNTRACED) == h.pid, "it does not stop");
	node_post(&h.n, &wr);
	cr_assert(node_quiet(&h.n.scq, 1000));
	kill(h.pid, SIGCONT);
	node_wait_status(&h.n.scq, 0);
	hosts_end(&h);
}

/* ---- strangers ---- */

static int dial(uint16_t port)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
				.sin_port = htons(port),
				.sin_addr.s_addr = htonl(0x7f000002)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct timeval t = {.tv_sec = KIDS_WAIT_MS / 1000};

	MUST(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0, "cannot connect");
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
	return fd;
}

/* It hangs up, after whatever it said before. */
static bool hangs_up(int fd)
{
	char rest[256];
	ssize_t got;

	do
		got = recv(fd, rest, sizeof(rest), 0);
	while (got > 0);
	close(fd);
	return got == 0 || errno == ECONNRESET;
}

static const uint8_t hello[] = {1, 0, 0, 0, 16, 0, 0, 0, 'S', 'E', 'F', 'A', 1, 0, 0, 0};

/* The hello of this domain, as the other side says it. */
static void friend(int fd)
{
	uint8_t theirs[24];

	MUST(recv(fd, theirs, sizeof(theirs), MSG_WAITALL) == sizeof(theirs), "no hello");
	MUST(send(fd, theirs, sizeof(theirs), 0) == sizeof(theirs), "no hello");
}

Test(softefa_tcp, strangers_are_hung_up_on)
{
	static const char http[] = "GET / HTTP/1.0\r\n\r\n";
	uint8_t other_domain[24] = {0};
	struct raw_wr wr;
	int fd;

	begin("timeout_ms=300,log=0", &(struct node_attr){0});
	fd = dial(h.port[1]);
	cr_assert(hangs_up(fd), "one who says nothing");
	fd = dial(h.port[1]);
	send(fd, http, sizeof(http), MSG_NOSIGNAL);
	cr_assert(hangs_up(fd));
	fd = dial(h.port[1]);
	memcpy(other_domain, hello, sizeof(hello));
	send(fd, other_domain, sizeof(other_domain), MSG_NOSIGNAL);
	cr_assert(hangs_up(fd));
	wr = hosts_wr(&h, RAW_WRITE, 0, 100000);
	cr_assert(zero(u32, hosts_run(&h, &wr)));
	hosts_end(&h);
}

struct bad_frame {
	uint8_t bytes[32];
	uint32_t len; /* then this many zeros */
};

ParameterizedTestParameters(softefa_tcp, frames_that_make_no_sense)
{
	static struct bad_frame frames[] = {
		{{0, 0, 0, 0, 0, 0, 0, 0}, 8},                      /* no type */
		{{9, 0, 0, 0, 0, 0, 0, 0}, 8},                      /* no such type */
		{{4, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, 8},          /* too long */
		{{2, 0, 0, 0, 7, 0, 0, 0}, 15},                     /* short question */
		{{3, 0, 0, 0, 9, 0, 0, 0}, 17},                     /* long answer */
		{{4, 0, 0, 0, 4, 0, 0, 0}, 12},                     /* half a message */
		{{4, 0, 0, 0, 96, 0, 0, 0}, 104},                   /* a message of no type */
		{{4, 0, 0, 0, 96, 0, 0, 0, 1, 0}, 104},             /* a send without bytes */
		{{4, 1, 0, 0, 96, 0, 0, 0, 1, 5}, 104},             /* no such operation */
		{{4, 1, 0, 0, 96, 0, 0, 0, 1, 1}, 104},             /* a read with bytes */
		{{4, 1, 0, 0, 97, 0, 0, 0, 1, 2}, 105},             /* more bytes than it says */
		{{4, 1, 0, 0, 96, 0, 0, 0, 1, 0, 0, 0, 1}, 104},    /* with segments */
		{{4, 1, 0, 0, 96, 0, 0, 0, 1, 0, 0, 0, 0, 8}, 104}, /* rnr_retry 8 */
		{{5, 0, 0, 0, 1, 0, 0, 0}, 9},                      /* half a pull */
		{{5, 0, 0, 0, 40, 0, 0, 0}, 8 + 40},                /* of no kind: answered */
		{{6, 0, 0, 0, 16, 0, 0, 0}, 24},                    /* data nobody asked for */
		{{1, 0, 0, 0, 16, 0, 0, 0}, 24},                    /* a second hello */
	};

	return cr_make_param_array(struct bad_frame, frames, sizeof(frames) / sizeof(frames[0]));
}

ParameterizedTest(struct bad_frame *f, softefa_tcp, frames_that_make_no_sense)
{
	uint8_t bytes[256] = {0};
	struct raw_wr wr;
	int fd;

	begin("timeout_ms=300,log=0", &(struct node_attr){0});
	fd = dial(h.port[1]);
	friend(fd);
	memcpy(bytes, f->bytes, sizeof(f->bytes));
	MUST(send(fd, bytes, f->len, MSG_NOSIGNAL) == (ssize_t)f->len, "cannot send");
	if (f->bytes[0] == 5 && f->len == 48) {
		MUST(recv(fd, bytes, 24, MSG_WAITALL) == 24, "no answer");
		cr_assert(eq(u8, bytes[0], 6));
		cr_assert(eq(u8, bytes[16], 1), "it was bad");
		close(fd);
	} else {
		cr_assert(hangs_up(fd), "type %u, %u bytes", f->bytes[0], f->len);
	}
	wr = hosts_wr(&h, RAW_WRITE, 0, 100000);
	cr_assert(zero(u32, hosts_run(&h, &wr)));
	hosts_end(&h);
}

/* ---- fork ---- */

static void idle_child(void *arg)
{
	(void)arg;
	kids_nap_us(50000);
}

Test(softefa_tcp, child_of_a_host_is_in_nobodys_way)
{
	struct raw_wr wr;
	pid_t child;

	begin(NULL, &(struct node_attr){0});
	wr = hosts_wr(&h, RAW_WRITE, 0, 1 << 20);
	cr_assert(zero(u32, hosts_run(&h, &wr)));
	child = kids_start(idle_child, NULL);
	cr_assert(zero(u32, hosts_run(&h, &wr)));
	kids_join(child);
	cr_assert(zero(u32, hosts_run(&h, &wr)));
	hosts_end(&h);
}

/* ---- faults ---- */

/* Of what comes with the request, and of what is pulled: once each. */
ParameterizedTestParameters(softefa_tcp, strange_landings_are_complete)
{
	static struct size sizes[] = {{1}, {200}, {4097}, {65536}, {65537}, {(1 << 20) + 7}};

	return cr_make_param_array(struct size, sizes, sizeof(sizes) / sizeof(sizes[0]));
}

ParameterizedTest(struct size *s, softefa_tcp, strange_landings_are_complete)
{
	static struct cmd cmd;
	struct raw_wr wr;

	begin("fault=lines,fault=twice op=read nth=2", &(struct node_attr){0});
	wr = hosts_wr(&h, RAW_WRITE, 33, s->len);
	node_fill(h.n.buf + 33, s->len, 1);
	cr_assert(zero(uint, hosts_run(&h, &wr)));
	cr_assert(hosts_order(&h, HOSTS_FILLED, 33, s->len, 1));
	hosts_order(&h, HOSTS_FILL, HALF, s->len, 2);
	wr = hosts_wr(&h, RAW_READ, HALF, s->len);
	for (unsigned i = 0; i < 2; i++) {
		memset(h.n.buf + HALF, 0, s->len);
		cr_assert(zero(uint, hosts_run(&h, &wr)));
		cr_assert(node_filled(h.n.buf + HALF, s->len, 2));
	}
	cmd_run(&cmd, 20, "$B/softefa stat --json");
	cr_assert(cmd_says(&cmd, "\"duplicates\":1,"), "%s", cmd.out);
	hosts_end(&h);
}

/* As on one host, but what is left of its connection says only that it is silent. */
Test(softefa_tcp, receiver_that_dies_in_the_middle_of_a_write_is_13)
{
	struct raw_wr wr;

	begin("fault=die_placing 300001 op=write", &(struct node_attr){0});
	wr = hosts_wr(&h, RAW_WRITE, 0, 1 << 20);
	cr_assert(eq(uint, hosts_run(&h, &wr), 13));
	kids_kill(h.pid);
	node_fini(&h.n);
}

Test(softefa_tcp, dead_device_is_15_and_then_13)
{
	struct raw_wr wr;

	faults_init();
	begin("timeout_ms=100", &(struct node_attr){0});
	faults_set(&h.n.dev, "dead");
	wr = hosts_wr(&h, RAW_WRITE, 0, 64);
	cr_assert(eq(uint, hosts_run(&h, &wr), 15));
	faults_set(&h.n.dev, "");
	cr_assert(zero(uint, hosts_run(&h, &wr)));
	faults_set(&h.n.dev, "dead");
	cr_assert(eq(uint, hosts_run(&h, &wr), 13));
	hosts_end(&h);
}
