/* SPDX-License-Identifier: BSD-2-Clause */
/* Intrusive doubly linked lists. A node that is on no list points to itself. */
#ifndef TW_LIST_H
#define TW_LIST_H

#include <stdbool.h>

#include "base/compiler.h"

struct tw_list {
	struct tw_list *next, *prev;
};

tw_shared void tw_list_init(struct tw_list *l)
{
	l->next = l->prev = l;
}

static inline bool tw_list_empty(const struct tw_list *l)
{
	return l->next == l;
}

tw_shared void tw_list_add_tail(struct tw_list *head, struct tw_list *n)
{
	n->next = head;
	n->prev = head->prev;
	head->prev->next = n;
	head->prev = n;
}

tw_shared void tw_list_del(struct tw_list *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	tw_list_init(n);
}

/* Moves all nodes of a list to the end of another. There must be some. */
static inline void tw_list_splice_tail(struct tw_list *head, struct tw_list *from)
{
	from->next->prev = head->prev;
	head->prev->next = from->next;
	from->prev->next = head;
	head->prev = from->prev;
	tw_list_init(from);
}

#define tw_list_first(head, type, member) tw_container((head)->next, type, member)

static inline void *tw_list_take_first(struct tw_list *head, size_t offset)
{
	struct tw_list *n = head->next;

	if (n == head)
		return NULL;
	tw_list_del(n);
	return (char *)n - offset;
}

/* Takes the first one off a list; NULL if there is none. */
#define tw_list_take(head, type, member) ((type *)tw_list_take_first(head, offsetof(type, member)))

/* The node of what may be the head, which is a member of nothing. */
#define tw_list_node(x, type, member) ((struct tw_list *)(void *)((char *)(x) + offsetof(type, member)))

/* Walks a list; declares x, which the loop may remove. */
#define tw_list_walk(head, type, x, member)                                                        \
	for (type *x = tw_list_first(head, type, member),                                          \
		  *tw_next = tw_list_first(tw_list_node(x, type, member), type, member);           \
	     tw_list_node(x, type, member) != (head);                                              \
	     x = tw_next, tw_next = tw_list_first(tw_list_node(x, type, member), type, member))

#endif /* TW_LIST_H */
