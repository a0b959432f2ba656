/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TCP connections to processes of other hosts: sockets that never block, and buffers of frames. A
 * connection has a slot, as processes of this host have, from SE_MAX_PROC on. Engine lock held.
 */
#ifndef SE_CONN_H
#define SE_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frame.h"
#include "numbers.h"

#define SE_MAX_CONN 1024
#define SE_MAX_SLOT (SE_MAX_PROC + SE_MAX_CONN)

static inline bool se_slot_remote(int slot)
{
	return slot >= SE_MAX_PROC;
}

enum se_conn_end {
	SE_CONN_NONE,    /* lives */
	SE_CONN_REFUSED, /* was never up: nobody there, or no agreement */
	SE_CONN_LOST,    /* reset, timed out, the process was killed */
	SE_CONN_BYE,     /* ended in good order */
};

/* What a frame of an established connection is handed to; false: not now, try again later. */
typedef bool se_conn_handler(int slot, const struct se_frame *f, const void *payload);
/* Told once for each connection, whatever the reason. */
typedef void se_conn_closed(int slot);

int se_conn_start(se_conn_handler *handler, se_conn_closed *closed);
/* Take over a listening socket; its connections become ours. 0 or -errno. */
int se_conn_listen(int fd);
/* Begin to connect. A slot, or -errno. */
int se_conn_open(const uint8_t address[4], uint16_t port);
void se_conn_close(int slot, enum se_conn_end why);

/* Never the same twice; 0: nobody there. */
uint64_t se_conn_incarnation(int slot);
/* How the connection that had @incarnation ended; SE_CONN_NONE: it did not. */
enum se_conn_end se_conn_end(int slot, uint64_t incarnation);

/* Room for a frame with @len bytes, its payload; NULL: full, or nobody there. */
void *se_conn_reserve(int slot, uint32_t len);
/* The frame is complete. */
void se_conn_commit(int slot, enum se_frame_type type, uint8_t flags, uint32_t len);
/* Both, of a copy; false: no room. */
bool se_conn_send(int slot, enum se_frame_type type, const void *payload, uint32_t len);

/* Something waits for the other side: make sure that it is there. Every few milliseconds. */
void se_conn_touch(int slot, uint64_t now_us);

/* Has anything come, gone or ended since the last call? What waited may be tried again. */
bool se_conn_news(void);
/* Close what did not get up in time. Every few milliseconds. */
void se_conn_timers(uint64_t now_us);

/* Read and write what can be; how much there was to do. */
unsigned se_conn_poll(void);
/* Say goodbye and close all; waits a little for what is under way. */
void se_conn_stop(void);
/* In the child of fork(): close the files, nothing else. */
void se_conn_forget(void);

#endif
