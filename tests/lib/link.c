/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections of a process to itself. */
#include "link.h"

#include <string.h>
#include <sys/mman.h>

#include "bytes.h"
#include "need.h"

void link_open_to(struct link *l, struct plug *p, int dev, void *handle, void *listen)
{
	int64_t end = now_ms() + PLUG_WAIT_MS;
	unsigned tries = 0;

	*l = (struct link){.plug = p};
	while (!l->send || !l->recv) {
		if (!l->send)
			l->send = plug_connect_once(p, dev, handle);
		if (!l->recv)
			l->recv = plug_accept_once(p, listen);
		need(now_ms() < end, "no connection within %d ms", PLUG_WAIT_MS);
		relax(&tries);
	}
}

void link_open(struct link *l, struct plug *p, int from, int to)
{
	uint8_t handle[NCCL_NET_HANDLE_BYTES];
	void *listen = plug_listen(p, to, handle);

	link_open_to(l, p, from, handle, listen);
	plug_close_listen(p, listen);
}

void link_open_twin(struct link *l, struct plug *p, struct twin *t)
{
	uint8_t mine[NCCL_NET_HANDLE_BYTES], theirs[NCCL_NET_HANDLE_BYTES];
	void *listen = plug_listen(p, 0, mine);

	twin_put(t, mine, sizeof(mine));
	twin_get(t, theirs, sizeof(theirs));
	link_open_to(l, p, 0, theirs, listen);
	plug_close_listen(p, listen);
}

void link_close(struct link *l)
{
	plug_close_send(l->plug, l->send);
	plug_close_recv(l->plug, l->recv);
	memset(l, 0, sizeof(*l));
}

void link_idle_twin(struct twin *t, void *arg)
{
	struct plug p;
	struct link l;

	(void)arg;
	plug_open(&p, 0);
	link_open_twin(&l, &p, t);
	twin_meet(t);
	twin_meet(t);
}

static size_t mapped(const struct mem *m)
{
	return (size_t)(m->at - m->map) + m->size + MARGIN;
}

void mem_get(struct mem *m, struct plug *p, void *comm, size_t size, size_t skew)
{
	size_t bytes = MARGIN + skew + size + MARGIN;

	*m = (struct mem){.plug = p, .comm = comm, .size = size};
	m->map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	need(m->map != MAP_FAILED, "mmap of %zu bytes", bytes);
	m->at = m->map + MARGIN + skew;
	memset(m->map, MARK, bytes);
	m->mh = plug_reg(p, comm, m->at, size ? size : 1);
}

void mem_put(struct mem *m)
{
	plug_dereg(m->plug, m->comm, m->mh);
	munmap(m->map, mapped(m));
	memset(m, 0, sizeof(*m));
}

void mem_unharmed(const struct mem *m, size_t used)
{
	size_t front = (size_t)(m->at - m->map);
	long bad = bytes_differ_from(m->map, front, MARK);

	need(bad < 0, "written %ld bytes before the buffer", (long)front - bad);
	bad = bytes_differ_from(m->at + used, m->size - used + MARGIN, MARK);
	need(bad < 0, "written at %zu, %ld bytes after the %zu of the message", used + (size_t)bad,
	     bad, used);
}

void link_message(struct link *l, size_t size, uint32_t seed)
{
	struct mem from, to;
	void *send, *recv;
	int got;
	long bad;

	mem_get(&from, l->plug, l->send, size, 0);
	mem_get(&to, l->plug, l->recv, size, 0);
	bytes_fill(from.at, size, seed);
	recv = plug_recv(l->plug, l->recv, to.at, size, 1, to.mh);
	send = plug_send(l->plug, l->send, from.at, size, 1, from.mh);
	got = plug_wait(l->plug, recv);
	need((size_t)got == size, "received %d of %zu bytes", got, size);
	bad = bytes_differ(to.at, size, seed);
	need(bad < 0, "byte %ld of %zu is wrong", bad, size);
	mem_unharmed(&to, size);
	got = plug_wait(l->plug, send);
	need((size_t)got == size, "sent %d of %zu bytes", got, size);
	mem_put(&from);
	mem_put(&to);
}

void pipe_open(struct pipe *p, int to, size_t size)
{
	memset(p, 0, sizeof(*p));
	plug_open(&p->plug, 0);
	link_open(&p->l, &p->plug, 0, to < p->plug.ndev ? to : 0);
	mem_get(&p->from, &p->plug, p->l.send, size, 0);
	mem_get(&p->to, &p->plug, p->l.recv, size, 0);
}

void pipe_close(struct pipe *p)
{
	mem_put(&p->from);
	mem_put(&p->to);
	link_close(&p->l);
	plug_close(&p->plug);
}
