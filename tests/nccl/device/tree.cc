/* SPDX-License-Identifier: BSD-3-Clause */
/* All-reduce up a tree and down again. */
#include "work.h"

#include <algorithm>
#include <thread>

#include "prims.h"

static void flow(const struct job *job, std::vector<int> from, std::vector<int> to,
		 const struct verb &what)
{
	auto p = prims_make({job->block, from, to, 0, job->work->sendbuff, job->work->recvbuff,
			     job->red, job->func->proto});
	const struct part *part = &job->part;

	for (ssize_t at = 0; at < part->length && !block_aborted(job->block); at += part->chunk)
		p->run(what, part->offset + at, part->offset + at,
		       std::min(part->chunk, part->length - at));
}

/* Ranks that are neither root nor leaf go up and down at once, else the tree would wait for itself.
 */
void tree_all_reduce(const struct job *job)
{
	const struct ncclTree *tree = &job->block->channel->tree;
	std::vector<int> up = {tree->up}, down;

	for (int rank : tree->down)
		if (rank >= 0)
			down.push_back(rank);
	if (tree->up < 0) {
		flow(job, down, down, RECV_REDUCE_LAST_SEND);
		return;
	}
	std::thread downwards(flow, job, up, down, down.empty() ? RECV : RECV_COPY_SEND);

	flow(job, down, up, down.empty() ? SEND : RECV_REDUCE_SEND);
	downwards.join();
}
