/* SPDX-License-Identifier: BSD-3-Clause */
/* Registration of memory. */
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "count.h"

enum { PAGE = 4096 };

static int ptr_support(struct check_ctx *ctx)
{
	struct nccl_net_props_v12 p = {0};

	check_ok(ctx, ctx->net->get_properties(ctx->net, ctx->dev, &p), "getProperties");
	return p.ptr_support;
}

/* ---- C40 ---- */

enum { RANGES = 64, COMMS = 4 };

/* All of them at once, then given up in any order. */
static void reg_all(struct check_ctx *ctx, struct check_link *link, char *map, size_t bytes)
{
	struct {
		const struct check_end *end;
		void *mh;
	} reg[RANGES * COMMS];
	const int n = RANGES * COMMS;

	for (int i = 0; i < n; i++) {
		reg[i].end = i & 1 ? &link[i % COMMS].send : &link[i % COMMS].recv;
		reg[i].mh = check_reg(ctx, reg[i].end, map, bytes);
	}
	for (int left = n; left; left--) {
		int i = (int)check_random(ctx, (uint64_t)left);

		check_dereg(ctx, reg[i].end, reg[i].mh);
		reg[i] = reg[left - 1];
	}
	check_expect(ctx, n, "expected mhandles, saw none");
}

static void any_range(struct check_ctx *ctx)
{
	const size_t large = check_scale(ctx, 8, 64) << 20;
	struct check_link link[COMMS];
	char *map = check_pages(ctx, NULL, large + PAGE);

	for (int i = 0; i < COMMS; i++)
		check_self(ctx, &link[i]);
	reg_all(ctx, link, map + 1, 1);
	reg_all(ctx, link, map + 7, 3 * PAGE + 13);
	reg_all(ctx, link, map + PAGE - 1, 2);
	reg_all(ctx, link, map, PAGE);
	for (int i = 0; i < 2; i++) {
		void *mh = check_reg(ctx, &link[0].recv, map + 64 * i, large);

		check_dereg(ctx, &link[0].recv, mh);
	}
	for (int i = 0; i < COMMS; i++)
		check_disconnect(ctx, &link[i]);
	munmap(map, large + PAGE);
}

/* ---- C41 ---- */

static void overlap(struct check_ctx *ctx)
{
	struct check_lane lane;
	void *out, *in;

	check_lane_open(ctx, &lane, 4 * PAGE);
	/* Parts of the lane's ranges, and more of the same. */
	out = check_reg(ctx, &lane.link.send, lane.out.addr + PAGE, 2 * PAGE);
	in = check_reg(ctx, &lane.link.recv, lane.in.addr + PAGE, 2 * PAGE);
	check_lane_pass(ctx, &lane, 4 * PAGE);
	check_dereg(ctx, &lane.link.send, out);
	check_dereg(ctx, &lane.link.recv, in);
	for (int i = 0; i < 10; i++)
		check_lane_pass(ctx, &lane, 4 * PAGE);
	/* And the other way: the whole goes, a second whole stays. */
	out = check_reg(ctx, &lane.link.send, lane.out.addr, 4 * PAGE);
	in = check_reg(ctx, &lane.link.recv, lane.in.addr, 4 * PAGE);
	check_dereg(ctx, &lane.link.send, lane.out_mh);
	check_dereg(ctx, &lane.link.recv, lane.in_mh);
	lane.out_mh = out;
	lane.in_mh = in;
	for (int i = 0; i < 10; i++)
		check_lane_pass(ctx, &lane, 4 * PAGE);
	check_lane_close(ctx, &lane);
}

/* ---- C42 ---- */

struct churn {
	struct check_ctx *ctx;
	struct check_lane *lane;
	char *map;
	size_t bytes;
	_Atomic bool stop;
	uint64_t rounds;
};

/* Straight calls: this is the service thread. */
static int churn_job(void *arg)
{
	struct churn *c = arg;
	struct host_net *net = c->ctx->net;

	while (!atomic_load(&c->stop)) {
		bool sender = c->rounds++ & 1;
		void *comm = sender ? c->lane->link.send.comm : c->lane->link.recv.comm, *mh = NULL;
		size_t size = 1 + c->rounds * 997 % c->bytes;

		host_entering(c->ctx->self, HOST_SERVICE, "regMr");
		check_ok(c->ctx, net->reg_mr(net, comm, c->map, size, NCCL_NET_PTR_HOST, &mh),
			 "regMr");
		host_entering(c->ctx->self, HOST_SERVICE, "deregMr");
		check_ok(c->ctx, net->dereg_mr(comm, mh), "deregMr");
		check_sleep_ms(1); /* the traffic is to go on */
	}
	return 0;
}

static void during_traffic(struct check_ctx *ctx)
{
	struct churn c = {.ctx = ctx, .bytes = 16 * PAGE};
	struct check_lane lane;

	check_lane_open(ctx, &lane, 30000);
	c.lane = &lane;
	c.map = check_pages(ctx, NULL, c.bytes);
	host_role_post(&ctx->service, churn_job, &c);
	for (uint64_t i = check_scale(ctx, 60, 20000); i; i--)
		check_lane_pass(ctx, &lane, i * 7919 % 30001);
	atomic_store(&c.stop, true);
	host_role_wait(&ctx->service);
	check_expect(ctx, c.rounds, "expected registrations meanwhile, saw none");
	check_lane_close(ctx, &lane);
	munmap(c.map, c.bytes);
}

/* ---- C43 ---- */

/* A target that is other memory each time, at one address. */
static void same_address(struct check_ctx *ctx)
{
	struct host_guard guard;
	struct check_lane lane;
	char *at = NULL;

	check_lane_open(ctx, &lane, 8 * PAGE);
	check_dereg(ctx, &lane.link.recv, lane.in_mh);
	guard = lane.in;
	for (int i = 0; i < 5; i++) {
		at = check_pages(ctx, at, 9 * PAGE);
		/* For check_lane_pass(), which knows nothing of that. */
		lane.in = (struct host_guard){.addr = at, .size = 8 * PAGE};
		lane.in_mh = check_reg(ctx, &lane.link.recv, at, 8 * PAGE);
		check_lane_pass(ctx, &lane, 8 * PAGE);
		check_dereg(ctx, &lane.link.recv, lane.in_mh);
		munmap(at, 9 * PAGE);
	}
	lane.in = guard;
	lane.in_mh = check_reg(ctx, &lane.link.recv, lane.in.addr, lane.in.size);
	check_lane_close(ctx, &lane);
}

/* ---- C44, C45 ---- */

/* softefa takes a memfd for a dma-buf; a real device, what /dev/udmabuf makes of one. */
static void no_fd_kept(struct check_ctx *ctx)
{
	enum { BYTES = 8 * PAGE, ROUNDS = 5 };
	struct count before, after;
	struct check_link link;

	if (!(ptr_support(ctx) & NCCL_NET_PTR_DMABUF) || !ctx->net->reg_mr_dma_buf)
		check_skip(ctx, "no DMABUF in ptrSupport");
	check_self(ctx, &link);
	count_take(&before);
	for (int i = 0; i < ROUNDS; i++) {
		int fd = memfd_create("dmabuf", MFD_CLOEXEC);
		enum nccl_net_result rc;
		void *mh = NULL, *map;

		if (fd < 0 || ftruncate(fd, BYTES))
			check_skip(ctx, "no memory with a descriptor");
		map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		rc = ctx->net->reg_mr_dma_buf(link.recv.comm, map, BYTES - 5, NCCL_NET_PTR_CUDA, 0,
					      fd, &mh);
		close(fd);
		if (rc && !i)
			check_skip(ctx, "the device takes no memfd for a dma-buf");
		check_ok(ctx, rc, "regMrDmaBuf");
		check_need(ctx, mh, "expected an mhandle, saw NULL");
		check_dereg(ctx, &link.recv, mh);
		munmap(map, BYTES);
	}
	count_take(&after);
	check_expect(ctx, after.fds == before.fds, "expected %d descriptors as before, saw %d",
		     before.fds, after.fds);
	check_disconnect(ctx, &link);
}

static void wrong_type(struct check_ctx *ctx)
{
	const int types[] = {NCCL_NET_PTR_CUDA, 0, 1 << 10};
	bool cuda = ptr_support(ctx) & NCCL_NET_PTR_CUDA;
	struct check_link link;
	char *map = check_pages(ctx, NULL, PAGE);

	check_self(ctx, &link);
	for (int i = cuda; i < 3; i++) {
		void *mh = NULL;

		check_expect(ctx,
			     ctx->net->reg_mr(ctx->net, link.recv.comm, map, PAGE, types[i], &mh),
			     "expected an error for memory of type %d, saw success", types[i]);
	}
	check_disconnect(ctx, &link);
	munmap(map, PAGE);
}

/* ---- C46 ---- */

static void dereg_in_flight(struct check_ctx *ctx)
{
	enum { BYTES = 64 * PAGE };
	void *send = NULL, *recv;
	const char *written;
	struct check_lane lane;
	uint64_t since;

	check_lane_open(ctx, &lane, BYTES);
	recv = check_recv(ctx, &lane.link.recv, lane.in.addr, BYTES, lane.in_mh);
	memset(lane.out.addr, 0x11, BYTES);
	check_dereg(ctx, &lane.link.recv, lane.in_mh);
	memset(lane.in.addr, 0x22, BYTES);
	since = host_now_ns();
	while (host_now_ns() - since < check_scale(ctx, 200, 2000) * 1000000) {
		if (!send)
			send = check_isend_anyway(ctx, &lane.link.send, lane.out.addr, BYTES,
						  lane.out_mh);
		check_test_anyway(ctx, &send);
		check_test_anyway(ctx, &recv);
		check_tick(ctx, since, "the end of a pause");
	}
	written = host_guard_differs(lane.in.addr, 0x22, BYTES);
	check_expect(ctx, !written, "expected no write after deregMr, saw one at byte %td",
		     written ? written - lane.in.addr : 0);
	check_dereg(ctx, &lane.link.send, lane.out_mh);
	check_disconnect(ctx, &lane.link);
	check_buf_fini(ctx, &lane.in, "the target");
	check_buf_fini(ctx, &lane.out, "the source");
}

const struct check reg_checks[] = {
	{
		.id = "C40",
		.group = "reg",
		.title = "any range of host memory can be registered, many times at once",
		.rule = "src/transport/net.cc: buffers are parts of one allocation, the pool of "
			"p2p "
			"is registered per connection",
		.run = any_range,
	},
	{
		.id = "C41",
		.group = "reg",
		.title = "ranges may overlap: one goes, the other works on",
		.rule = "src/transport/net.cc: user buffers beside those of the protocols",
		.run = overlap,
		.flags = CHECK_RANKS,
	},
	{
		.id = "C42",
		.group = "reg",
		.title = "memory is registered during traffic on the same comm",
		.rule = "src/proxy.cc: the service thread registers while the progress thread "
			"sends",
		.run = during_traffic,
		.flags = CHECK_RANKS,
	},
	{
		.id = "C43",
		.group = "reg",
		.title = "memory that comes to the address of older memory is used itself",
		.rule = "src/register: user buffers are freed and allocated between registrations",
		.run = same_address,
		.flags = CHECK_RANKS,
	},
	{
		.id = "C44",
		.group = "reg",
		.title = "regMrDmaBuf keeps no file descriptor",
		.rule = "src/transport/net.cc: the descriptor is closed as soon as the call "
			"returns",
		.run = no_fd_kept,
	},
	{
		.id = "C45",
		.group = "reg",
		.title = "memory of a kind that is not supported is refused",
		.rule = "src/transport/net.cc: a failing regMr ends the registration of a user "
			"buffer",
		.run = wrong_type,
	},
	{
		.id = "C46",
		.group = "reg",
		.title = "after deregMr nothing is written, whatever was in flight",
		.rule = "src/transport/net.cc: recvProxyFree deregisters and frees the buffers of "
			"an "
			"aborted communicator, then closes",
		.run = dereg_in_flight,
	},
	{0},
};
