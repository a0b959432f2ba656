/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What messages carry: bytes that depend on connection, message and position, so that anything
 * in the wrong place, at the wrong time or half done differs.
 *
 * A message has a body and two stamps, its first 8 bytes and (from 16 bytes on) its last 8. Body
 * and stamps have their own keys: in timed iterations the body stays and the stamps change.
 */
#ifndef COMMON_PAYLOAD_H
#define COMMON_PAYLOAD_H

#include <stddef.h>
#include <stdint.h>

#define PAYLOAD_POISON 0xdb /* each byte of a target before the message */

/* @serial counts the messages of the connection. */
uint64_t payload_key(int src, int dst, int channel, uint64_t serial);

void payload_fill(void *data, size_t len, uint64_t key);
void payload_stamp(void *data, size_t len, uint64_t key);

/* How many bytes are wrong; *@first is the offset of the first of them. */
size_t payload_check(const void *data, size_t len, uint64_t body, uint64_t stamp, size_t *first);

/* The same for the stamps alone. */
size_t payload_check_stamp(const void *data, size_t len, uint64_t stamp, size_t *first);

#endif
