/* SPDX-License-Identifier: BSD-3-Clause */
/* Two queue pairs of the software adapter in one process and protection domain, A to B. */
#ifndef TESTS_DUO_H
#define TESTS_DUO_H

#include "node.h"

struct duo {
	struct node a, b;
	struct node_addr to_b;
	uint16_t ahn; /* of the one device, by which A reaches B and B knows A */
};

/* Both with @attr. */
void duo_init(struct duo *d, const struct node_attr *attr);
void duo_fini(struct duo *d);

#endif
