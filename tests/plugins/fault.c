/* SPDX-License-Identifier: BSD-3-Clause */
#include "fault.h"

#include <stdlib.h>
#include <string.h>

static struct {
	const char *name; /* "NAME:N", of which the first name_len bytes are the name */
	size_t name_len;
	_Atomic long left; /* occasions, this one included */
} net_fault;

/* Before the constructor of tables.c, which asks. */
__attribute__((constructor(101))) static void fault_parse(void)
{
	const char *text = getenv("TCPNET_FAULT");

	if (!text)
		return;
	net_fault.name_len = strcspn(text, ":");
	net_fault.left = text[net_fault.name_len] ? atol(text + net_fault.name_len + 1) : 1;
	net_fault.name = text;
}

bool fault_is(const char *name)
{
	return net_fault.name && strlen(name) == net_fault.name_len &&
	       !memcmp(net_fault.name, name, net_fault.name_len);
}

bool fault(const char *name)
{
	return fault_is(name) && --net_fault.left == 0;
}

bool fault_was(const char *name)
{
	return fault_is(name) && net_fault.left <= 0;
}
