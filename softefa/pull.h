/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes from other hosts: the side that needs them asks for piece after piece, so that memory for
 * them is bounded and nothing is read before it can be placed. Engine lock held.
 */
#ifndef SE_PULL_H
#define SE_PULL_H

#include <stdbool.h>

#include "frame.h"
#include "move.h"

/* As se_move_step(), of a move from a remote slot. */
enum se_move_result se_pull_step(struct se_move *m);
/* Nothing of @m will be placed any more. */
void se_pull_cancel(struct se_move *m);

/* Frames from the other side; false: they break the rules. */
bool se_pull_data(int slot, const void *payload, uint32_t len);
bool se_pull_asked(int slot, const struct se_pull *p);

/* Send what was asked for, as far as there is room; how much that was. */
unsigned se_pull_serve(void);
void se_pull_closed(int slot);
void se_pull_forget_all(void);

#endif
