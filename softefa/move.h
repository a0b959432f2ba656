/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes on their way into this process: pulled once, straight from the memory of the process that
 * has them, in pieces, so that transfers share the engine and small ones overtake large ones.
 */
#ifndef SE_MOVE_H
#define SE_MOVE_H

#include "frame.h"
#include "landing.h"
#include "pd.h"

#define SE_MOVE_PIECE (256u << 10)

enum se_move_result {
	SE_MOVE_WAIT, /* for bytes of another host, or a fault rule holds it up */
	SE_MOVE_DONE,
	SE_MOVE_MORE,
	SE_MOVE_BAD_SRC,
	SE_MOVE_BAD_DST,
	SE_MOVE_GONE,   /* the other process */
	SE_MOVE_DENIED, /* the kernel does not let us read it */
};

struct se_move {
	/* from: memory of the member in @slot, whose keys are on its device @dev; or @data */
	int slot;
	int dev;
	const struct se_seg *src;
	unsigned nsrc;
	const uint8_t *data;
	/* or, with a remote slot: what to ask for, and how far that went */
	uint64_t incarnation;
	struct se_pull pull;
	uint32_t asked;
	bool asked_any;
	enum se_move_result result;
	uint8_t *into; /* to: here; or */
	/* regions of @pd with @access; looked up anew for each piece */
	const struct se_pd *pd;
	uint32_t access;
	const struct se_seg *dst;
	unsigned ndst;
	uint32_t len, done;
	struct se_landing landing;
};

/* Move the next piece. */
enum se_move_result se_move_step(struct se_move *m);
/* Move [@from, @from + @len) now; SE_MOVE_DONE when that went well. */
enum se_move_result se_move_part(const struct se_move *m, uint32_t from, uint32_t len);
/* The same with @len bytes at @data, in our own memory. */
enum se_move_result se_move_put(const struct se_move *m, const void *data, uint32_t from,
				uint32_t len);
/* All bytes of a source on this host into @buf. */
enum se_move_result se_move_copy(const struct se_move *m, void *buf);
/* landing.c: se_move_step() and se_move_place() of a move that lands strangely. */
enum se_move_result se_landing_step(struct se_move *m);
enum se_move_result se_landing_place(struct se_move *m, const void *data, uint32_t len);
/* The next @len bytes are at @data, in our own memory. SE_MOVE_WAIT: more are to come. */
enum se_move_result se_move_place(struct se_move *m, const void *data, uint32_t len);
/* It ends early. Whoever frees a move that was begun calls this. */
void se_move_cancel(struct se_move *m);

#endif
