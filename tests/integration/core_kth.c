/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every call that a constructor makes fails once: nothing is left, the object is zeroed, the errno
 * is that of the call, one line names it, and the next try works.
 */
#include "srd_cuda.h"
#include "srd_topo.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../cuda/fake.h"
#include "../lib/cmd.h"
#include "../lib/kids.h"
#include "../lib/kth.h"
#include "../lib/loop.h"
#include "../lib/need.h"
#include "../lib/plug.h"

enum { LEN = 8192, MOST = 200, ACCESS = IBV_ACCESS_LOCAL_WRITE };

TestSuite(kth, .timeout = 120);

/* ---- what is said ---- */

static char said[8192];
static unsigned complaints; /* warnings and errors */

static void keep(void *arg, enum srd_log_level level, const char *line)
{
	size_t len = strlen(said);

	(void)arg;
	complaints += level <= SRD_LOG_WARN;
	snprintf(said + len, sizeof(said) - len, "%s\n", line);
}

static void forget(void)
{
	said[0] = '\0';
	complaints = 0;
}

/* ---- constructors ---- */

static struct loop l;
static int file;            /* what a dma-buf is to softefa */
static uint8_t *device_mem; /* of the stand-in for CUDA */

/* One object of any kind. */
union object {
	struct srd_dev_info info;
	struct srd_dev dev;
	struct srd_pd pd;
	struct srd_td td;
	struct srd_channel ch;
	struct srd_cq cq;
	struct srd_qp qp;
	struct srd_peer peer;
	struct srd_mr mr;
	struct srd_cuda_attr attr;
	int fd;
};

static int dev_list(union object *o)
{
	int n = srd_dev_list(&o->info, 1, true);

	return n == 0 ? -ENODEV : n;
}

static int dev_open(union object *o)
{
	return srd_dev_open(&o->dev, l.dev.ibv->device->name);
}

static void dev_close(union object *o)
{
	srd_dev_close(&o->dev);
}

static int pd_init(union object *o)
{
	return srd_pd_init(&o->pd, &l.dev);
}

static void pd_fini(union object *o)
{
	srd_pd_fini(&o->pd);
}

static int td_init(union object *o)
{
	return srd_td_init(&o->td, &l.pd);
}

static void td_fini(union object *o)
{
	srd_td_fini(&o->td);
}

static int channel_init(union object *o)
{
	return srd_channel_init(&o->ch, &l.dev);
}

static void channel_fini(union object *o)
{
	srd_channel_fini(&o->ch);
}

static int cq_of(union object *o, struct srd_cq_attr attr)
{
	attr.cqe = 64;
	return srd_cq_init(&o->cq, &l.dev, &attr);
}

static int cq_plain(union object *o)
{
	return cq_of(o, (struct srd_cq_attr){.fields = SRD_CQ_QPN | SRD_CQ_SRC});
}

static int cq_on_td(union object *o)
{
	return cq_of(o, (struct srd_cq_attr){.td = &l.td, .channel = &l.ch});
}

static int cq_direct(union object *o)
{
	return cq_of(o, (struct srd_cq_attr){.direct = true});
}

static int cq_classic(union object *o)
{
	return cq_of(o, (struct srd_cq_attr){.classic = true, .channel = &l.ch});
}

static void cq_fini(union object *o)
{
	srd_cq_fini(&o->cq);
}

static int qp_of(union object *o, struct loop_attr attr)
{
	struct srd_qp_attr qp_attr;

	attr.depth = 16;
	qp_attr = loop_qp_attr(&l, &attr);
	return srd_qp_init(&o->qp, &l.pd, &qp_attr);
}

static int qp_srd(union object *o)
{
	return qp_of(o, (struct loop_attr){0});
}

static int qp_ud(union object *o)
{
	return qp_of(o, (struct loop_attr){.type = SRD_QP_UD});
}

static int qp_unsolicited(union object *o)
{
	return qp_of(o, (struct loop_attr){.a_unsolicited = true});
}

static void qp_fini(union object *o)
{
	srd_qp_fini(&o->qp);
}

/* Of one queue pair, which is as it was when that fails. */
static struct srd_qp third;

static int qp_prepare(union object *o)
{
	struct srd_qp before = third;
	int rc;

	(void)o;
	rc = srd_qp_prepare(&third, LOOP_QKEY, 7);
	cr_assert(rc == 0 || !memcmp(&third, &before, sizeof(third)));
	return rc;
}

static void third_init(void)
{
	struct srd_qp_attr attr = loop_qp_attr(&l, &(struct loop_attr){.depth = 16});

	cr_assert(zero(int, srd_qp_init(&third, &l.pd, &attr)));
}

static void third_renew(union object *o)
{
	(void)o;
	srd_qp_fini(&third);
	third_init();
}

/* ---- what may wait, and questions ---- */

static int cq_arm(union object *o)
{
	(void)o;
	return srd_cq_arm(&l.a_cq);
}

/* An event each time: what was missed is there the next time. */
static int channel_wait(union object *o)
{
	struct srd_wr wr = loop_wr(&l, IBV_WR_RDMA_READ, 0, LEN, LOOP_B);
	struct srd_cq *cq = NULL;
	int rc = srd_cq_arm(&l.a_cq);

	(void)o;
	if (rc)
		return rc;
	cr_assert(zero(int, (int)loop_run(&l, &wr).efa_status));
	rc = srd_channel_wait(&l.ch, LOOP_WAIT_MS, &cq);
	cr_assert(eq(ptr, cq, rc ? NULL : &l.a_cq));
	return rc;
}

static int dev_event(union object *o)
{
	struct srd_event event;
	int rc = srd_dev_event(&l.dev, 0, &event);

	(void)o;
	return rc == -EAGAIN ? 0 : rc;
}

/* What cannot be read is unknown, and no error. */
static int pci_of_dev(union object *o)
{
	struct srd_pci pci;

	(void)o;
	return srd_pci_of_dev(NULL, l.dev.ibv->device->name, &pci);
}

static int pci_gpus(union object *o)
{
	struct srd_pci pci;

	(void)o;
	return srd_pci_gpus("/sys", &pci, 1);
}

static int lib_query(union object *o)
{
	struct srd_lib_info info;

	(void)o;
	return srd_lib_query(&info);
}

/* The second PD has no address handle yet; the first has one that is shared. */
static int peer_of(union object *o, struct srd_pd *pd)
{
	struct srd_ep ep;

	srd_ep_local(&l.b, &ep);
	return srd_peer_init(&o->peer, pd, &ep);
}

static int peer_first(union object *o)
{
	return peer_of(o, &l.b_pd);
}

static int peer_shared(union object *o)
{
	return peer_of(o, &l.pd);
}

static void peer_fini(union object *o)
{
	srd_peer_fini(&o->peer);
}

static int mr_host(union object *o)
{
	return srd_mr_init(&o->mr, &l.pd, l.buf, LEN, ACCESS);
}

static int mr_dmabuf(union object *o)
{
	return srd_mr_init_dmabuf(&o->mr, &l.pd, file, 0, LEN, 0, ACCESS);
}

static int mr_cuda(union object *o)
{
	return srd_cuda_mr_init(&o->mr, &l.pd, (uintptr_t)device_mem, LEN, ACCESS);
}

static void mr_fini(union object *o)
{
	srd_mr_fini(&o->mr);
}

static int cuda_query(union object *o)
{
	return srd_cuda_query(&o->attr);
}

static int cuda_export(union object *o)
{
	uint64_t offset;
	int rc = srd_cuda_export((uintptr_t)device_mem, LEN, &o->fd, &offset);

	cr_assert(eq(int, o->fd == -1, rc != 0));
	o->fd += rc != 0; /* to be zero */
	return rc;
}

static void fd_close(union object *o)
{
	close(o->fd);
}

static int cuda_flush(union object *o)
{
	(void)o;
	return srd_flush_gpudirect_writes(SRD_CUDA_OWNER);
}

static const struct walked {
	const char *name;
	int (*init)(union object *o);
	void (*fini)(union object *o); /* NULL: there is nothing to undo */
	size_t size;
	unsigned least;      /* calls that it makes, with rdma-core >= 62 */
	const char *without; /* calls that it can do without */
} all[] = {
#define OBJECT(member) sizeof(((union object *)0)->member)
	{"dev_list", dev_list, NULL, 0, 2, "fopen"},
	{"dev_open", dev_open, dev_close, OBJECT(dev), 6, "fopen"},
	{"pd", pd_init, pd_fini, OBJECT(pd), 3, ""},
	{"td", td_init, td_fini, OBJECT(td), 2, ""},
	{"cq_plain", cq_plain, cq_fini, OBJECT(cq), 1, "efadv_query_cq"},
	{"cq_on_td", cq_on_td, cq_fini, OBJECT(cq), 1, "efadv_query_cq"},
	{"cq_direct", cq_direct, cq_fini, OBJECT(cq), 5, "efadv_query_cq"},
	{"cq_classic", cq_classic, cq_fini, OBJECT(cq), 1, "efadv_query_cq"},
	{"channel", channel_init, channel_fini, OBJECT(ch), 3, ""},
	{"channel_wait", channel_wait, NULL, 0, 2, ""},
	{"cq_arm", cq_arm, NULL, 0, 0, ""},
	{"dev_event", dev_event, NULL, 0, 1, ""},
	{"lib_query", lib_query, NULL, 0, 0, ""},
	{"pci_of_dev", pci_of_dev, NULL, 0, 4, "open"},
	{"pci_gpus", pci_gpus, NULL, 0, 1, "opendir open"},
	{"qp_srd", qp_srd, qp_fini, OBJECT(qp), 1, ""},
	{"qp_ud", qp_ud, qp_fini, OBJECT(qp), 1, ""},
	{"qp_unsolicited", qp_unsolicited, qp_fini, OBJECT(qp), 1, ""},
	{"qp_prepare", qp_prepare, third_renew, 0, 3, ""},
	{"peer_first", peer_first, peer_fini, OBJECT(peer), 3, ""},
	{"peer_shared", peer_shared, peer_fini, OBJECT(peer), 1, ""},
	{"mr_host", mr_host, mr_fini, OBJECT(mr), 1, ""},
	{"mr_dmabuf", mr_dmabuf, mr_fini, OBJECT(mr), 1, ""},
	{"mr_cuda", mr_cuda, mr_fini, OBJECT(mr), 4,
	 "cuThreadExchangeStreamCaptureMode cuCtxGetCurrent cuMemGetHandleForAddressRange "
	 "ibv_reg_dmabuf_mr"},
	{"cuda_query", cuda_query, NULL, OBJECT(attr), 7, "cuThreadExchangeStreamCaptureMode"},
	{"cuda_export", cuda_export, fd_close, OBJECT(fd), 3, "cuThreadExchangeStreamCaptureMode"},
	{"cuda_flush", cuda_flush, NULL, 0, 4, "cuThreadExchangeStreamCaptureMode"},
};

enum { ALL = sizeof(all) / sizeof(all[0]) };

/* ---- the walk ---- */

static void begin(const struct walked *w)
{
	struct loop_attr attr = {.channel = true};

	attr.a_unsolicited = attr.b_unsolicited = w->init == qp_unsolicited; /* or skip */
	plug_softefa("profile=efa2");
	fake_cuda_load();
	device_mem = fake_cuda_alloc(LEN);
	setenv("SRD_LOG", "info", 1);
	srd_log_to(keep, NULL);
	loop_init(&l, &attr);
	third_init();
	file = memfd_create("dma-buf", MFD_CLOEXEC);
	cr_assert(zero(int, ftruncate(file, LEN)));
}

static void end(void)
{
	struct srd_wr wr = loop_wr(&l, IBV_WR_RDMA_READ, 0, LEN, LOOP_B);

	/* After all of it, data move. */
	loop_fill(l.buf + LOOP_B, LEN, 5);
	cr_assert(zero(int, (int)loop_run(&l, &wr).efa_status));
	cr_assert(loop_filled(l.buf, LEN, 5));
	close(file);
	srd_qp_fini(&third);
	loop_fini(&l);
}

static bool is_zero(const union object *o, size_t n)
{
	static const union object none;

	return memcmp(o, &none, n) == 0;
}

static void undo(const struct walked *w, union object *o)
{
	if (w->fini)
		w->fini(o);
}

static bool does_without(const struct walked *w, const char *call)
{
	return !call || strstr(w->without, call);
}

/* The @k-th call fails; false if there is none. */
static bool step(const struct walked *w, unsigned k)
{
	union object o;
	struct kth kth;
	int rc;

	memset(&o, 0xa5, sizeof(o));
	forget();
	kth_arm(KTH_MAKE, k);
	rc = w->init(&o);
	kth = kth_disarm();
	if (rc >= 0) {
		cr_assert(does_without(w, kth.call), "%s: %s", w->name, kth.call);
		cr_assert(le(uint, complaints, kth.call ? 1 : 0), "%s\n%s", w->name, said);
		undo(w, &o);
		return kth.call;
	}
	cr_assert(ne(ptr, (void *)kth.call, NULL), "%s\n%s", w->name, said);
	cr_assert(eq(int, rc, kth.rc), "%s: %s (%u)\n%s", w->name, kth.call, k, said);
	cr_assert(is_zero(&o, w->size), "%s: %s", w->name, kth.call);
	cr_assert(eq(uint, complaints, 1), "%s: %s\n%s", w->name, kth.call, said);
	cr_assert(ne(ptr, strstr(said, kth.call), NULL), "%s: %s\n%s", w->name, kth.call, said);
	return true;
}

/* Nothing fails; what is there then. */
static void works(const struct walked *w)
{
	union object o;

	forget();
	cr_assert(ge(int, w->init(&o), 0), "%s", said);
	cr_assert(zero(uint, complaints), "%s", said);
	undo(w, &o);
}

/* By index: the table has pointers, which do not survive the way to the process of a test. */
struct which {
	unsigned at;
};

static struct criterion_test_params each(void)
{
	static struct which which[ALL];

	for (unsigned i = 0; i < ALL; i++)
		which[i].at = i;
	return cr_make_param_array(struct which, which, ALL);
}

ParameterizedTestParameters(kth, call_of_a_constructor_fails_without_a_trace)
{
	return each();
}

ParameterizedTest(struct which *which, kth, call_of_a_constructor_fails_without_a_trace)
{
	const struct walked *w = &all[which->at];
	unsigned k = 1;
	long live;
	int files;

	begin(w);
	works(w); /* what is loaded once is */
	live = kth_live();
	files = entries("/proc/self/fd");
	while (k < MOST && step(w, k)) {
		cr_assert(eq(long, kth_live(), live), "%s, call %u", w->name, k);
		cr_assert(eq(int, entries("/proc/self/fd"), files), "%s, call %u", w->name, k);
		works(w);
		k++;
	}
	cr_assert(lt(uint, k, MOST));
	if (loop_release() >= 62)
		cr_assert(gt(uint, k, w->least), "%s makes fewer calls", w->name);
	end();
}

/* ---- undoing ---- */

ParameterizedTestParameters(kth, failure_to_undo_is_a_warning)
{
	return each();
}

ParameterizedTest(struct which *which, kth, failure_to_undo_is_a_warning)
{
	const struct walked *w = &all[which->at];
	union object o;
	struct kth kth = {.call = w->fini ? "" : NULL};

	begin(w);
	for (unsigned k = 1; kth.call; k++) {
		cr_assert(ge(int, w->init(&o), 0));
		forget();
		kth_arm(KTH_UNDO, k);
		w->fini(&o);
		kth = kth_disarm();
		cr_assert(w->fini == fd_close || is_zero(&o, w->size), "%s", w->name);
		cr_assert(eq(uint, complaints, kth.call ? 1 : 0), "%s\n%s", w->name, said);
		cr_assert(ne(ptr, strstr(said, kth.call ? kth.call : ""), NULL), "%s", said);
	}
	end();
}

/* ---- loading, which happens once in a process ---- */

struct load {
	unsigned k;
	int (*first)(void); /* call of the library */
	atomic_uint *walked;
	bool fake;
};

static int first_of_verbs(void)
{
	struct srd_dev_info info;

	return srd_dev_list(&info, 1, true);
}

static int first_of_cuda(void)
{
	struct srd_cuda_attr attr;

	return srd_cuda_query(&attr);
}

/* Of SRD_RDMA_CORE: what is found elsewhere is not of this test. */
static bool is_path(const char *what)
{
	return strchr(what, '/') != NULL;
}

static void load_with_failure(void *arg)
{
	struct load *load = arg;
	struct kth kth;
	int rc;

	if (load->fake)
		fake_cuda_load();
	srd_log_to(keep, NULL);
	kth_arm(KTH_MAKE, load->k);
	rc = load->first();
	kth = kth_disarm();
	if (!kth.call || strncmp(kth.call, "dl", 2))
		return;
	atomic_fetch_add(load->walked, 1);
	if (!is_path(kth.what)) {
		MUST(rc >= 0 || rc == kth.rc, "%d for %s", rc, kth.what);
		MUST(complaints == (rc < 0), "%s", said);
		MUST(rc >= 0 || strstr(said, kth.what), "%s: %s", kth.what, said);
	}
	/* The answer stays, and is not repeated. */
	forget();
	MUST(load->first() == rc, "another answer after %s", kth.what);
	MUST(!complaints, "%s", said);
}

static void walk_loading(struct load load, unsigned least)
{
	unsigned before;

	load.walked = kids_share(sizeof(*load.walked));
	setenv("SRD_LOG", "info", 1);
	do {
		before = atomic_load(load.walked);
		load.k++;
		kids_join(kids_start(load_with_failure, &load));
	} while (atomic_load(load.walked) > before && load.k < MOST);
	cr_assert(lt(uint, load.k, MOST));
	cr_assert(gt(uint, load.k, least));
}

/* With an optional symbol gone the rest works, with a needed one it says which. */
Test(kth, library_or_symbol_that_is_missing_is_named)
{
	walk_loading((struct load){.first = first_of_verbs}, 25);
}

Test(kth, cuda_or_symbol_of_it_that_is_missing_is_named)
{
	walk_loading((struct load){.first = first_of_cuda, .fake = true}, 10);
}

/* ---- the list of the C library's calls ---- */

/* These cannot fail, or what is lost then is nothing. */
static const char harmless[] = " access close dladdr dlerror fprintf getenv getrlimit lstat "
			       "pthread_mutex_destroy pthread_mutex_lock "
			       "pthread_mutex_unlock pthread_once qsort read readdir realpath "
			       "secure_getenv snprintf stderr sysconf vsnprintf ";

static bool is_known(const char *name)
{
	char word[64];

#define X(call) \
	if (!strcmp(name, #call)) \
		return true;
	KTH_LIBC(X)
#undef X
	snprintf(word, sizeof(word), " %s ", name);
	return strstr(harmless, word) || !strncmp(name, "srd_", 4) || !strncmp(name, "str", 3) ||
	       !strncmp(name, "mem", 3) || name[0] == '_';
}

Test(kth, all_calls_of_the_c_library_are_known_here)
{
	static struct cmd cmd;
	char *rest = cmd.out, *name;
	unsigned names = 0;

	cmd_run(&cmd, 20, "unset LD_PRELOAD; nm -u $B/libsrd.a | sed -n 's/^ *U //p'");
	cr_assert(zero(int, cmd.code), "%s", cmd.out);
	for (; (name = strtok_r(rest, "\n", &rest)); names++)
		cr_assert(is_known(name), "%s: to be walked, or cannot it fail?", name);
	cr_assert(gt(uint, names, 20));
}
