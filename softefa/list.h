/* SPDX-License-Identifier: BSD-3-Clause */
/* Intrusive doubly linked list. A zeroed node is on no list. */
#ifndef SE_LIST_H
#define SE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct se_list {
	struct se_list *next, *prev;
};

#define SE_LIST_INIT(name) \
	{ \
		&(name), &(name) \
	}
#define se_container(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

static inline void se_list_init(struct se_list *head)
{
	head->next = head->prev = head;
}

static inline bool se_list_empty(const struct se_list *head)
{
	return head->next == head;
}

static inline bool se_list_on(const struct se_list *node)
{
	return node->next != NULL;
}

static inline void se_list_append(struct se_list *head, struct se_list *node)
{
	node->prev = head->prev;
	node->next = head;
	head->prev->next = node;
	head->prev = node;
}

/* Take @node off its list; nothing happens when it is on none. */
static inline void se_list_remove(struct se_list *node)
{
	if (!node->next)
		return;
	node->prev->next = node->next;
	node->next->prev = node->prev;
	node->next = node->prev = NULL;
}

/* @pos may be removed in the body; @nx is scratch. */
#define se_list_each(pos, nx, head) \
	for ((pos) = (head)->next, (nx) = (pos)->next; (pos) != (head); \
	     (pos) = (nx), (nx) = (pos)->next)

#endif
