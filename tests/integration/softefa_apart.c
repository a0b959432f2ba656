/* SPDX-License-Identifier: BSD-3-Clause */
/* Two hosts in network namespaces of their own, with a cable between them that can be cut. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <unistd.h>

#include "../lib/cmd.h"
#include "../lib/hosts.h"
#include "../lib/kids.h"

TestSuite(softefa_apart, .timeout = 120);

enum { TIMEOUT_US = 500000, PATIENCE_US = 40 * TIMEOUT_US }; /* generous to a busy machine */

static struct hosts h;

static void begin(const struct node_attr *attr)
{
	hosts_begin(&h, &(struct hosts_attr){
				.settings = "timeout_ms=500", .node = *attr, .apart = true});
}

static void must_work(void)
{
	struct raw_wr wr = hosts_wr(&h, RAW_WRITE, 0, 1 << 20);

	node_fill(h.n.buf, 1 << 20, 1);
	hosts_order(&h, HOSTS_FILL, 0, 1 << 20, 2);
	cr_assert(zero(u32, hosts_run(&h, &wr)));
	cr_assert(hosts_order(&h, HOSTS_FILLED, 0, 1 << 20, 1));
	wr = hosts_wr(&h, RAW_READ, HOSTS_HALF, 1 << 20);
	hosts_order(&h, HOSTS_FILL, HOSTS_HALF, 1 << 20, 3);
	cr_assert(zero(u32, hosts_run(&h, &wr)));
	cr_assert(node_filled(h.n.buf + HOSTS_HALF, 1 << 20, 3));
}

/* Requests that are answered again, some time after the cable was mended. */
static void must_recover(void)
{
	struct raw_wr wr = hosts_wr(&h, RAW_WRITE, 0, 100);
	int64_t until = kids_now_us() + PATIENCE_US;

	hosts_cable(&h, true);
	while (hosts_run(&h, &wr) && kids_now_us() < until)
		kids_nap_us(1000);
	must_work();
}

Test(softefa_apart, data)
{
	begin(&(struct node_attr){0});
	must_work();
	hosts_end(&h);
}

static void cutter(void *arg)
{
	(void)arg;
	kids_nap_us(50000);
	hosts_cable(&h, false);
}

/* Requests without a pause until one fails: whenever the cable is cut, there are some under way. */
static void cut_under(enum raw_op op)
{
	enum { N = 8 };
	struct raw_wr wr;
	unsigned status;
	int64_t end;
	pid_t kid;

	begin(&(struct node_attr){0});
	must_work();
	wr = hosts_wr(&h, op, 0, HOSTS_HALF);
	for (unsigned i = 0; i < N; i++)
		node_post(&h.n, &wr);
	kid = kids_start(cutter, NULL);
	end = kids_now_us() + KIDS_WAIT_MS * 1000;
	while ((status = node_wait(&h.n.scq).status) == 0 && kids_now_us() < end)
		node_post(&h.n, &wr);
	cr_assert(eq(u32, status, 13));
	end = kids_now_us() + PATIENCE_US;
	for (unsigned i = 1; i < N; i++)
		node_wait_status(&h.n.scq, 13);
	cr_assert(lt(i64, kids_now_us(), end));
	kids_join(kid);
	must_recover();
	hosts_end(&h);
}

Test(softefa_apart, cable_is_cut_under_writes)
{
	cut_under(RAW_WRITE);
}

Test(softefa_apart, cable_is_cut_under_reads)
{
	cut_under(RAW_READ);
}

/* Nothing is under way that TCP itself would miss. */
Test(softefa_apart, cable_is_cut_while_a_send_waits_for_a_receive)
{
	struct raw_wr wr;
	int64_t start;

	begin(&(struct node_attr){.rnr = 7 + 1});
	must_work();
	wr = hosts_wr(&h, RAW_SEND, 0, 100);
	node_post(&h.n, &wr);
	cr_assert(node_quiet(&h.n.scq, 1500));
	hosts_cable(&h, false);
	start = kids_now_us();
	node_wait_status(&h.n.scq, 13);
	cr_assert(lt(i64, kids_now_us() - start, PATIENCE_US));
	must_recover();
	/* Whoever posts a receive now does not get what was given up. */
	hosts_order(&h, HOSTS_RECV, 0, 100, 0);
	cr_assert(hosts_order(&h, HOSTS_QUIET, 0, 100, 0));
	hosts_end(&h);
}

Test(softefa_apart, host_that_never_answered_is_unreachable)
{
	struct raw_wr wr;
	int64_t start;

	begin(&(struct node_attr){0});
	hosts_cable(&h, false);
	start = kids_now_us();
	wr = hosts_wr(&h, RAW_WRITE, 0, 100);
	cr_assert(eq(u32, hosts_run(&h, &wr), 15));
	cr_assert(ge(i64, kids_now_us() - start, TIMEOUT_US));
	cr_assert(lt(i64, kids_now_us() - start, PATIENCE_US));
	must_recover();
	hosts_end(&h);
}

/* ---- programs ---- */

static struct cmd cmd;

/*
 * @there in one namespace, then @here in the other, which has a cable to it, "$CUT" cuts it. In
 * them "$A" runs a program on softefa with its host's address, and "$PEER" is the other one's.
 */
static void run_apart(const char *there, const char *here)
{
	if (geteuid())
		cr_skip("only root makes network namespaces that have names");
	cmd_run(&cmd, 100,
		"a=softefa-$$-a b=softefa-$$-b\n"
		"trap 'kill $job 2>/dev/null; ip netns del $a; ip netns del $b; rm -rf $left' "
		"EXIT\n"
		/* of processes that were killed, in namespaces that nobody enters again */
		"left=/dev/shm/softefa-0-$SOFTEFA_DOMAIN-*\n"
		"ip netns add $a && ip netns add $b || exit 99\n"
		"ip link add veth1 netns $a type veth peer name veth2 netns $b || exit 99\n"
		"ip -n $a addr add 10.78.0.1/24 dev veth1; ip -n $a link set veth1 up\n"
		"ip -n $b addr add 10.78.0.2/24 dev veth2; ip -n $b link set veth2 up\n"
		"ip -n $a link set lo up; ip -n $b link set lo up\n"
		"(A=\"ip netns exec $b $B/softefa --address 10.78.0.2 --\" PEER=10.78.0.1; %s) &\n"
		"job=$! CUT=\"ip -n $a link set veth1 down\"\n"
		"(A=\"ip netns exec $a $B/softefa --address 10.78.0.1 --\" PEER=10.78.0.2; %s) &&\n"
		"wait $job",
		there, here);
}

static void must_end_well(const char *there, const char *here)
{
	run_apart(there, here);
	cr_assert(zero(int, cmd.code), "%s", cmd.out);
}

#define NETBENCH(rank, pattern) \
	"$A $B/netbench --plugin $B/libnccl-net-efa.so --ranks 2 --rank " rank \
	" --root 10.78.0.2:7777 --pattern " pattern " --min 8 --max 8M --factor 8 --iters 5"

Test(softefa_apart, netbench_ring)
{
	must_end_well(NETBENCH("0", "ring"), NETBENCH("1", "ring"));
	cr_assert(cmd_says(&cmd, "# Out of bounds values : 0 OK"), "%s", cmd.out);
}

Test(softefa_apart, netbench_pingpong)
{
	must_end_well(NETBENCH("0", "pingpong"), NETBENCH("1", "pingpong"));
	cr_assert(cmd_says(&cmd, "# Out of bounds values : 0 OK"), "%s", cmd.out);
}

/* The plugin says what it is, and netbench ends soon, though its own connection is cut, too. */
Test(softefa_apart, netbench_with_the_cable_cut)
{
	run_apart(NETBENCH("0", "ring") "00000 --timeout 10",
		  "(sleep 4; $CUT) & " NETBENCH("1", "ring") "00000 --timeout 10");
	cr_assert(eq(int, cmd.code, 2), "%s", cmd.out);
	cr_assert(cmd_says(&cmd, "remote unresponsive, it did respond before"), "%s", cmd.out);
}

/* perftest's client does not wait for its server. A sanitizer's runtime does not let it start. */
#ifdef __SANITIZE_ADDRESS__
#define FOREIGN() cr_skip("the sanitizer is not for programs of others")
#else
#define FOREIGN()
#endif
#define PERFTEST(line) must_end_well("$A " line, "sleep 1; $A " line " $PEER")

Test(softefa_apart, perftest_send)
{
	FOREIGN();
	PERFTEST("ib_send_bw -c SRD -x 0 -n 1000 -s 4096");
	cr_assert(cmd_says(&cmd, "BW average"), "%s", cmd.out);
}

Test(softefa_apart, perftest_send_latency)
{
	FOREIGN();
	PERFTEST("ib_send_lat -c SRD -x 0 -n 1000");
	cr_assert(cmd_says(&cmd, "t_typical"), "%s", cmd.out);
}

Test(softefa_apart, perftest_read)
{
	FOREIGN();
	PERFTEST("ib_read_bw -c SRD -x 0 -n 300 -s 65536");
	cr_assert(cmd_says(&cmd, "BW average"), "%s", cmd.out);
}
