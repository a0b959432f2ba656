/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The plugin under test, called as NCCL calls it. The helpers check with need(): what a contract
 * says of every call is checked at every call, whatever the test is about.
 */
#ifndef TESTS_PLUG_H
#define TESTS_PLUG_H

#include <stdbool.h>

#include "../../tools/host/net.h"

enum { PLUG_WAIT_MS = 30000 }; /* longer than anything takes that ends at all */

struct plug {
	struct host_net net;
	void *ctx;
	int ndev;
};

/* The ABI versions that the plugin has, for ParameterizedTest. */
struct plug_abi {
	int v;
};

enum { PLUG_ABIS = 7 };
extern struct plug_abi plug_abis[PLUG_ABIS];

/* Add to what softefa is told; before the plugin looks for devices. Skips without softefa. */
void plug_softefa(const char *settings);

/* The file in the build directory that this test lies in. */
const char *plug_path(void);
/* Load only: version @abi, 0: the newest. */
void plug_load(struct plug *p, int abi);
/* init and devices, with a logger that keeps count. */
void plug_init(struct plug *p);
/* Both; skips the test where there is no EFA. */
void plug_open(struct plug *p, int abi);
/* finalize and unload; fails if there was a warning that plug_warnings() did not ask for. */
void plug_close(struct plug *p);

/* Data go by this protocol: as the plugin said, or, before plug_init(), as is asked of it. */
bool plug_goes_by(const char *protocol);

/* ---- what it said ---- */

/* Since the last plug_forget(): how many lines, and the newest. Any thread. */
int plug_warned(void);
int plug_informed(void);
const char *plug_warning(void);
const char *plug_info(void);
/* Is @text in any of them? */
bool plug_said(const char *text);
/* Are all of @texts, which end with NULL, in one of them? */
bool plug_said_once(const char *const *texts);
void plug_forget(void);

/* ---- connections ---- */

/* One try. */
void *plug_connect_once(struct plug *p, int dev, void *handle);
void *plug_accept_once(struct plug *p, void *listen);
void *plug_listen(struct plug *p, int dev, void *handle);
/* Until it is there. */
void *plug_connect(struct plug *p, int dev, void *handle);
void *plug_accept(struct plug *p, void *listen);
/* Until it fails: with what. NULL is left in place of the comm. */
enum nccl_net_result plug_connect_fails(struct plug *p, int dev, void *handle, int within_ms);
void plug_close_listen(struct plug *p, void *listen);
void plug_close_send(struct plug *p, void *comm);
void plug_close_recv(struct plug *p, void *comm);

/* ---- memory ---- */

void *plug_reg(struct plug *p, void *comm, void *at, size_t size);
void plug_dereg(struct plug *p, void *comm, void *mh);

/* ---- data ---- */

/* One try; NULL: not now. */
void *plug_isend(struct plug *p, void *comm, void *at, size_t size, int tag, void *mh);
void *plug_irecv(struct plug *p, void *comm, void *at, size_t size, int tag, void *mh);
/* With the hint that it may be done early, if the version has it. */
void *plug_irecv_early(struct plug *p, void *comm, void *at, size_t size, int tag, void *mh);
/* A receive of several buffers, one try. */
struct plug_group {
	int n;
	void *at[8], *mh[8];
	size_t size[8];
	int tag[8];
};
void *plug_irecv_group(struct plug *p, void *comm, struct plug_group *g);
/* Until it has started. */
void *plug_send(struct plug *p, void *comm, void *at, size_t size, int tag, void *mh);
void *plug_recv(struct plug *p, void *comm, void *at, size_t size, int tag, void *mh);
/* True when done; @size may be NULL. */
bool plug_test(struct plug *p, void *request, int *size);
/* Until done; the size it reports. */
int plug_wait(struct plug *p, void *request);
/* The same of a receive of @n buffers. */
void plug_wait_group(struct plug *p, void *request, int n, int *sizes);
/* Until it fails: with what, or NCCL_NET_OK after @within_ms. */
enum nccl_net_result plug_test_fails(struct plug *p, void *request, int within_ms);

#endif
