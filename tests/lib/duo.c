/* SPDX-License-Identifier: BSD-3-Clause */
/* Two queue pairs in one process. */
#include "duo.h"

void duo_init(struct duo *d, const struct node_attr *attr)
{
	struct node_attr b = *attr;

	b.with = &d->a;
	node_init(&d->a, attr);
	node_init(&d->b, &b);
	d->to_b = node_addr(&d->b);
	d->ahn = node_ahn(&d->a, &d->to_b);
}

void duo_fini(struct duo *d)
{
	node_fini(&d->b);
	node_fini(&d->a);
}
