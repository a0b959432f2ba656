/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection of the plugin with both ends here, and memory to send through it. */
#ifndef TESTS_LINK_H
#define TESTS_LINK_H

#include "plug.h"
#include "twin.h"

struct link {
	struct plug *plug;
	void *send, *recv;
};

/* From device @from to device @to, of this process. */
void link_open(struct link *l, struct plug *p, int from, int to);
/* Both ends of a connection of device @dev to a listen of this process, which stays. */
void link_open_to(struct link *l, struct plug *p, int dev, void *handle, void *listen);
/* To another process, which calls it too: l->send leads there, l->recv comes from there. */
void link_open_twin(struct link *l, struct plug *p, struct twin *t);
void link_close(struct link *l);
/* What a twin runs: connect, meet, and do nothing until it is met again or killed. */
void link_idle_twin(struct twin *t, void *arg);

enum { MARGIN = 4096 }; /* bytes on either side of a buffer, which must stay MARK */
#define MARK 0xa5

/* Memory with margins, registered with one comm. */
struct mem {
	struct plug *plug;
	void *comm, *mh;
	uint8_t *at;
	size_t size;
	uint8_t *map;
};

/* @size bytes, @skew (at most 4095) past a page boundary; all is MARK. Registered as it is. */
void mem_get(struct mem *m, struct plug *p, void *comm, size_t size, size_t skew);
void mem_put(struct mem *m);
/* Nothing but [0, @used) of it was written; not even that when @used is 0. */
void mem_unharmed(const struct mem *m, size_t used);

/*
 * A plugin with one connection of this process, from device 0 to device @to (0, if there is no such
 * one), and @size bytes of memory for either end.
 */
struct pipe {
	struct plug plug;
	struct link l;
	struct mem from, to;
};

void pipe_open(struct pipe *p, int to, size_t size);
void pipe_close(struct pipe *p);

/* One message through @l, of contents @seed; checks that it arrives and nothing else changes. */
void link_message(struct link *l, size_t size, uint32_t seed);

#endif
