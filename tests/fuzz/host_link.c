/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes that come in over a link: each frame keeps its promises, and what was put is got back.
 * Input: a byte, then a stream; or, if the byte is odd, pairs (where, what) of changes to a good
 * stream, so that no corpus is needed to get past the magic.
 */
#include "../../tools/host/link.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../tools/host/boot.h"

enum { LARGEST = 64, GOOD_BYTES = 3 * HOST_HEAD_BYTES + 40 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool ok)
{
	if (!ok)
		abort();
}

static void good_stream(char stream[GOOD_BYTES])
{
	struct host_link out;
	int fds[2];

	need(!socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
	host_link_init(&out, fds[0], LARGEST);
	host_link_put(&out, &(struct host_frame){.type = HOST_HELLO, .rank = 3, .value = 4});
	host_link_put(&out,
		      &(struct host_frame){.type = HOST_ARRIVE,
					   .bytes = 40,
					   .body = "0123456789012345678901234567890123456789"});
	host_link_put(&out, &(struct host_frame){.type = HOST_PING});
	need(recv(fds[1], stream, GOOD_BYTES, MSG_WAITALL) == GOOD_BYTES);
	host_link_fini(&out);
	close(fds[1]);
}

static void take(struct host_link *in)
{
	char text[HOST_TEXT_BYTES + 1];
	struct host_frame f;
	int rc;

	while ((rc = host_link_get(in, &f)) > 0) {
		need(f.bytes <= LARGEST && f.rank < HOST_MAX_RANKS && f.type < HOST_FRAME_TYPES);
		host_frame_text(&f, text);
		need(strlen(text) == f.bytes);
	}
	need(rc == -EPIPE || rc == -EPROTO);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char stream[GOOD_BYTES];
	struct host_link in;
	int fds[2];

	if (!size)
		return 0;
	need(!socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
	if (data[0] & 1) {
		good_stream(stream);
		for (size_t i = 1; i + 1 < size; i += 2)
			stream[data[i] % GOOD_BYTES] = (char)data[i + 1];
		need(send(fds[1], stream, GOOD_BYTES, 0) == GOOD_BYTES);
	} else {
		need(send(fds[1], data + 1, size - 1, 0) == (ssize_t)size - 1);
	}
	close(fds[1]);
	host_link_init(&in, fds[0], LARGEST);
	take(&in);
	host_link_fini(&in);
	return 0;
}
