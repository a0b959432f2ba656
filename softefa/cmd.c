/* SPDX-License-Identifier: BSD-3-Clause */
/* The envelope of commands. */
#include "cmd.h"

#include <errno.h>
#include <string.h>

#include "abi.h"
#include "copy.h"

#define MANDATORY    1 /* flags of an attribute */
#define VALID_OUTPUT 2

_Static_assert(sizeof(struct se_cmd_hdr) == 24, "header");
_Static_assert(sizeof(struct se_cmd_attr) == 16, "attribute");

int se_cmd_read(struct se_cmd *c, struct se_ctx *ctx, uint64_t user)
{
	struct se_cmd_hdr *h = &c->hdr;

	c->ctx = ctx;
	c->user = user;
	if (se_copy_in(h, user, sizeof(*h)))
		return -EFAULT;
	if (h->length != sizeof(*h) + h->nattrs * sizeof(c->attr[0]) ||
	    h->nattrs > SE_CMD_MAX_ATTRS)
		return -EINVAL;
	if (h->reserved1 || h->reserved2)
		return -EPROTONOSUPPORT;
	if (h->driver_id != SE_DRIVER_ID)
		return -EINVAL;
	return se_copy_in(c->attr, user + sizeof(*h), h->nattrs * sizeof(c->attr[0]));
}

int se_cmd_write(const struct se_cmd *c)
{
	return se_copy_out(c->user + sizeof(c->hdr), c->attr, c->hdr.nattrs * sizeof(c->attr[0]));
}

static bool all_zero(const struct se_cmd_attr *a, uint16_t from)
{
	uint8_t part[64];
	uint16_t n;

	for (; from < a->len; from += n) {
		n = a->len - from;
		if (n > sizeof(part))
			n = sizeof(part);
		if (a->len <= sizeof(a->data))
			memcpy(part, (const uint8_t *)&a->data + from, n);
		else if (se_copy_in(part, a->data + from, n))
			return false;
		for (unsigned i = 0; i < n; i++)
			if (part[i])
				return false;
	}
	return true;
}

static int check_one(const struct se_cmd_attr *a, const struct se_cmd_spec *s)
{
	switch (s->kind) {
	case SE_CMD_IN_ZERO:
		if (!all_zero(a, s->max))
			return -EOPNOTSUPP;
		return a->len < s->min || a->reserved ? -EINVAL : 0;
	case SE_CMD_IN:
	case SE_CMD_OUT:
		return a->len < s->min || a->len > s->max || a->reserved ? -EINVAL : 0;
	case SE_CMD_OBJECT:
		return a->len || a->reserved ? -EINVAL : 0;
	default:
		return -EINVAL;
	}
}

static const struct se_cmd_spec *spec_of(const struct se_cmd_spec *s, uint16_t id)
{
	while (s->id != SE_CMD_END && s->id != id)
		s++;
	return s->id == SE_CMD_END ? NULL : s;
}

int se_cmd_check(const struct se_cmd *c, const struct se_cmd_spec *spec)
{
	uint32_t seen = 0; /* a bit per attribute of @spec */

	for (unsigned i = 0; i < c->hdr.nattrs; i++) {
		const struct se_cmd_attr *a = &c->attr[i];
		const struct se_cmd_spec *s = spec_of(spec, a->id);
		int rc;

		if (!s && a->flags & MANDATORY)
			return -EPROTONOSUPPORT;
		if (!s)
			continue;
		rc = seen & 1u << (s - spec) ? -EINVAL : check_one(a, s);
		if (rc)
			return rc;
		seen |= 1u << (s - spec);
	}
	for (unsigned i = 0; spec[i].id != SE_CMD_END; i++)
		if (spec[i].must && !(seen & 1u << i))
			return -EINVAL;
	return 0;
}

struct se_cmd_attr *se_cmd_find(struct se_cmd *c, uint16_t id)
{
	for (unsigned i = 0; i < c->hdr.nattrs; i++)
		if (c->attr[i].id == id)
			return &c->attr[i];
	return NULL;
}

int se_cmd_in_optional(struct se_cmd *c, uint16_t id, void *dst, size_t len)
{
	struct se_cmd_attr *a = se_cmd_find(c, id);
	size_t n;

	memset(dst, 0, len);
	if (!a)
		return 0;
	n = a->len < len ? a->len : len;
	if (a->len > sizeof(a->data))
		return se_copy_in(dst, a->data, n);
	/* A handle or fd has no length, its value is in data all the same. */
	memcpy(dst, &a->data, a->len ? n : len < sizeof(a->data) ? len : sizeof(a->data));
	return 0;
}

int se_cmd_in(struct se_cmd *c, uint16_t id, void *dst, size_t len)
{
	return se_cmd_find(c, id) ? se_cmd_in_optional(c, id, dst, len) : -EINVAL;
}

int se_cmd_in_object(struct se_cmd *c, uint16_t id, enum se_type type, struct se_obj **obj)
{
	uint32_t handle;
	int rc = se_cmd_in(c, id, &handle, sizeof(handle));

	if (rc)
		return rc;
	*obj = se_ctx_get(c->ctx, handle, type);
	return *obj ? 0 : se_ctx_has(c->ctx, handle) ? -EINVAL : -ENOENT;
}

int se_cmd_out(struct se_cmd *c, uint16_t id, const void *src, size_t len)
{
	static const uint8_t zero[512];
	struct se_cmd_attr *a = se_cmd_find(c, id);
	size_t n, pad;

	if (!a)
		return 0;
	n = a->len < len ? a->len : len;
	if (se_copy_out(a->data, src, n))
		return -EFAULT;
	for (; n < a->len; n += pad) {
		pad = a->len - n < sizeof(zero) ? a->len - n : sizeof(zero);
		if (se_copy_out(a->data + n, zero, pad))
			return -EFAULT;
	}
	a->flags |= VALID_OUTPUT;
	return 0;
}

int se_cmd_out_handle(struct se_cmd *c, uint16_t id, uint64_t handle)
{
	struct se_cmd_attr *a = se_cmd_find(c, id);

	if (!a)
		return -EINVAL;
	a->data = handle;
	a->flags |= VALID_OUTPUT;
	return 0;
}
