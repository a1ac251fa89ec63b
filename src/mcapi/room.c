/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MCAPI_ATTR_NO_BUFFERS, kept exactly: an endpoint promises room for messages to
 * the nodes that send to it, and never more than it has:
 *
 *   queued + promised <= buffers
 *
 * A node that is the only sender is promised all of it, one of several its share;
 * it hears of more as messages are received (CREDIT). When there is none left for
 * another, or for a send of the endpoint's own node, the others give back what they
 * do not need (RECALL, RETURN) and ask again when they do. Packets need none of this: a channel has
 * one sender.
 */
#include <stdlib.h>

#include "mcapi/node.h"

uint32_t tw_room_left(const struct tw_endp *e)
{
	uint32_t used = e->queued + e->promised;

	return e->buffers > used ? e->buffers - used : 0;
}

static struct tw_source *source_of(struct tw_endp *e, uint32_t node)
{
	if (tw_unlikely(!e->sources))
		e->sources = calloc(TW_MAX_NODES, sizeof(*e->sources));
	return e->sources ? &e->sources[node] : NULL;
}

static uint32_t promise(struct tw_endp *e, struct tw_source *s, uint32_t most)
{
	uint32_t n = tw_min(most, tw_room_left(e));

	s->promised += n;
	e->promised += n;
	s->taken = 0;
	s->starving = n == 0;
	return n;
}

static void recall(struct tw_node *n, struct tw_endp *e)
{
	for (uint32_t i = 0; e->promised && i < TW_MAX_NODES; i++) {
		struct tw_source *s = &e->sources[i];

		if (!s->promised || s->recalled)
			continue;
		s->recalled = true;
		tw_say(n, i, &(struct tw_say){.what = TW_SAY_RECALL, .a = e->handle});
	}
}

/* Who sends ---------------------------------------------------------------------- */

void tw_room_recalled(struct tw_node *n, const struct tw_say *say)
{
	struct tw_dest *d = tw_dest_find(n, say->a);
	struct tw_say back = {.what = TW_SAY_RETURN, .a = say->a};

	if (d) {
		back.value = d->credits;
		d->credits = 0;
	}
	tw_say(n, tw_node_of(say->a), &back);
}

/* Who receives ------------------------------------------------------------------- */

/* All who ever asked may ask again before anything is given back. */
static uint32_t share(const struct tw_endp *e)
{
	return tw_max(1u, tw_room_left(e) / e->nsources);
}

void tw_room_asked(struct tw_node *n, uint32_t from, const struct tw_say *say)
{
	struct tw_endp *e = tw_endp_find(n, say->a);
	struct tw_source *s;

	if (!e) {
		tw_answer(n, say, MCAPI_ENOT_ENDP, 0);
	} else if (from == n->number) {
		if (tw_room_full(n, say->a) || tw_room_left(e) || !tw_want(n, from, say))
			tw_answer(n, say, MCAPI_SUCCESS, tw_room_left(e) != 0);
		else
			recall(n, e);
	} else if (!(s = source_of(e, from))) {
		tw_answer(n, say, MCAPI_SUCCESS, 0);
	} else {
		e->nsources += !s->known;
		s->known = true;
		if (e->queued < e->buffers && (s->recalled || !tw_room_left(e)) &&
		    tw_want(n, from, say))
			recall(n, e);
		else
			tw_answer(n, say, MCAPI_SUCCESS, promise(e, s, share(e)));
	}
}

/* Whoever waits for room here is answered, or waits for the next to give back. */
static void serve(struct tw_node *n, mcapi_endpoint_t endpoint)
{
	struct tw_list *l, *tmp, asked;

	tw_list_init(&asked);
	tw_list_each(&n->wanted, l, tmp) {
		struct tw_wanted *w = tw_container(l, struct tw_wanted, link);

		if (w->say.what == TW_SAY_ROOM && w->say.a == endpoint) {
			tw_list_del(l);
			tw_list_add_tail(&asked, l);
		}
	}
	while (!tw_list_empty(&asked)) {
		struct tw_wanted *w = tw_list_first(&asked, struct tw_wanted, link);

		tw_list_del(&w->link);
		tw_room_asked(n, w->from, &w->say);
		free(w);
	}
}

void tw_room_returned(struct tw_node *n, uint32_t from, const struct tw_say *say)
{
	struct tw_endp *e = tw_endp_find(n, say->a);

	if (e && e->sources) {
		struct tw_source *s = &e->sources[from];
		uint32_t back = tw_min(say->value, s->promised);

		s->promised -= back;
		e->promised -= back;
		s->recalled = false;
	}
	serve(n, say->a);
}

void tw_room_arrived(struct tw_endp *e, uint32_t from)
{
	struct tw_source *s = e->sources ? &e->sources[from] : NULL;

	if (tw_likely(s && s->promised)) {
		s->promised--;
		e->promised--;
	}
}

void tw_room_took(struct tw_node *n, struct tw_endp *e, uint32_t from)
{
	struct tw_source *s = from == n->number || !e->sources ? NULL : &e->sources[from];
	uint32_t more;

	/* Nothing is promised to a node that is gone. */
	if (!s || !s->known || (++s->taken <= e->buffers / 4 && !s->starving) || s->recalled)
		return;
	more = promise(e, s, s->taken);
	if (more)
		tw_say(n, from,
		       &(struct tw_say){.what = TW_SAY_CREDIT, .a = e->handle, .value = more});
}

void tw_room_lost(struct tw_node *n, struct tw_endp *e, uint32_t node)
{
	if (!e->sources)
		return;
	e->promised -= e->sources[node].promised;
	e->nsources -= e->sources[node].known;
	e->sources[node] = (struct tw_source){0};
	serve(n, e->handle);
}

void tw_room_changed(struct tw_node *n, struct tw_endp *e)
{
	if (e->queued + e->promised > e->buffers)
		recall(n, e);
}

void tw_room_closed(struct tw_node *n, struct tw_endp *e)
{
	/* Its name may be used again, with promises of its own. */
	recall(n, e);
	serve(n, e->handle);
}

bool tw_room_full(const struct tw_node *n, mcapi_endpoint_t to)
{
	struct tw_endp *e = tw_endp_find(n, to);

	return e && e->queued >= e->buffers;
}
