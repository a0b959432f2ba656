/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Primitives: what an algorithm does with a chunk of data, whatever the protocol. A connection is
 * a fifo of NCCL_STEPS slots; its ends count the steps they have done.
 */
#ifndef TESTS_NCCL_DEVICE_PRIMS_H
#define TESTS_NCCL_DEVICE_PRIMS_H

#include <memory>
#include <sys/types.h>
#include <vector>

#include "block.h"
#include "reduce.h"

enum class buf { none, in, out };

/*
 * What is received from all peers and what the user's buffer has is reduced to one, and that goes
 * to the other buffer of the user and to all peers.
 */
struct verb {
	bool recv, send;
	buf from, to;
	bool last; /* the result is complete */
};

constexpr struct verb SEND = {false, true, buf::in, buf::none, false};
constexpr struct verb SEND_RESULT = {false, true, buf::out, buf::none, false};
constexpr struct verb COPY_SEND = {false, true, buf::in, buf::out, false};
constexpr struct verb RECV = {true, false, buf::none, buf::out, false};
constexpr struct verb RECV_COPY_SEND = {true, true, buf::none, buf::out, false};
constexpr struct verb RECV_REDUCE_SEND = {true, true, buf::in, buf::none, false};
constexpr struct verb RECV_REDUCE_LAST = {true, false, buf::in, buf::out, true};
constexpr struct verb RECV_REDUCE_LAST_SEND = {true, true, buf::in, buf::out, true};

struct wiring {
	const struct block *block;
	std::vector<int> recv, send; /* ranks; -1 is nobody */
	int index;                   /* of the peers' connections: 0 collectives, 1 send and recv */
	const void *in;
	void *out;
	struct reduction red;
	int proto;
	/* Of Simple: */
	int slices = 1, steps = 1; /* slices of a chunk, steps of a slice */
	size_t step_count = 0; /* elements of a step; 0: as many as the buffers of the comm hold */
	bool registered = false; /* the NIC reads and writes the user's buffers */
	bool offloaded = false;  /* and nothing is left to copy */
};

class prims
{
      public:
	virtual ~prims() = default;
	/*
	 * @from, @to: elements into the user's buffers; @count: below 0 is none. Also without data
	 * a chunk is announced to all peers.
	 */
	virtual void run(const struct verb &what, size_t from, size_t to, ssize_t count) = 0;
	/* Where @in and @out lie from now on. */
	void aim(const void *in, void *out);

      protected:
	explicit prims(const struct wiring &w);

	struct peer {
		struct ncclConnInfo *conn;
		uint64_t step;
		bool registered;
	};

	uint8_t *user(buf which, size_t at) const;
	bool await_slot(const peer &to, int steps) const;
	void announce(const peer &to, size_t bytes) const;
	static void give_back(peer *from, int steps);
	static void post(peer *to, int steps);

	struct wiring w;
	std::vector<peer> from, to;
};

/* Of w.proto; the steps are kept in the connections when it goes. */
std::unique_ptr<prims> prims_make(const struct wiring &w);

std::unique_ptr<prims> simple_make(const struct wiring &w);
std::unique_ptr<prims> ll_make(const struct wiring &w);
std::unique_ptr<prims> ll128_make(const struct wiring &w);

/* A slot of @conn for Simple, of that step. */
uint8_t *simple_slot(const struct ncclConnInfo *conn, uint64_t step);

/* The sources, reduced, in all destinations, which may be among the sources. */
void reduce_to(const struct reduction &red, const std::vector<const uint8_t *> &srcs,
	       const std::vector<uint8_t *> &dsts, size_t count, bool own, bool last);

/* For tests of tests: what is about to be sent is spoiled if its turn is now. */
void spoil(void *data, size_t bytes);

static inline uint64_t load(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static inline void store(uint64_t *p, uint64_t x)
{
	__atomic_store_n(p, x, __ATOMIC_RELEASE);
}

#endif
