/* SPDX-License-Identifier: BSD-2-Clause */
/* What an MCAPI node waits for beside the engine's requests: credits, endpoints, channels. */
#include "mcapi/scl.h"

#include "../cli.h"
#include "why.h"

#define MOST_LIST 1024u /* entries of a list */

struct walk {
	struct peek *m;
	struct why_proc *p;
	const struct tw_mcapi_node *node;
	unsigned index;
	enum why_kind kind;
	uint32_t own, other;
};

/* Where the node of an endpoint is; 0: not known. */
static uint64_t where_of(const struct walk *w, uint32_t endpoint)
{
	uint32_t node = tw_mcapi_node_of(endpoint);

	if (node == w->node->number)
		return w->p->eps[w->index].where;
	return node < TW_MAX_NODES ? w->node->peers[node].where : 0;
}

static struct why_wait *add(struct walk *w, uint64_t id)
{
	struct why_wait *to = why_wait_new(w->p, w->kind);

	if (!to)
		return NULL;
	to->ep = w->index;
	to->id = id;
	to->own = w->own;
	to->other = w->other;
	/* Any node may connect a channel. */
	to->to = w->kind == WHY_BIND ? 0 : where_of(w, w->other);
	to->state = WHY_IS_WAITING;
	return to;
}

static bool see_request(void *arg, uint64_t node)
{
	struct walk *w = arg;
	struct tw_mcapi_mreq r;
	struct why_wait *to;
	uint64_t at = node - offsetof(struct tw_mcapi_mreq, link);

	if (!peek(w->m, at, &r, sizeof r))
		return false;
	if (r.state != TW_MCAPI_Q_PENDING)
		return true;
	if (w->kind == WHY_GET)
		w->other = r.endpoint;
	to = add(w, at);
	if (!to)
		return false;
	to->len = r.len;
	if (w->kind == WHY_BUFFER) {
		to->match = r.kind == TW_MCAPI_Q_MSG_SEND ? r.match : 0;
		to->own = w->node->number << 16 | (to->match & 0xffff);
	}
	return true;
}

/* What other nodes are asked for. */
static bool see_asked(void *arg, uint64_t node)
{
	struct walk *w = arg;
	uint64_t at = node - offsetof(struct tw_mcapi_ctrl_request, r.link);
	struct tw_mcapi_ctrl_request r;

	if (!peek(w->m, at, &r, sizeof r))
		return false;
	w->other = r.ctrl.a;
	return r.ctrl.what != TW_MCAPI_CTRL_GET || add(w, at);
}

static void read_dests(struct walk *w)
{
	struct tw_mcapi_dest d;

	w->kind = WHY_BUFFER;
	for (unsigned i = 0; i < TW_MCAPI_DESTS; i++) {
		uint64_t at = address(w->node->dests[i]);

		for (unsigned k = 0; at && k < MOST_LIST; k++) {
			if (!peek(w->m, at, &d, sizeof d))
				break;
			w->other = d.handle;
			peek_list(w->m, at + offsetof(struct tw_mcapi_dest, sends), MOST_LIST,
				  see_request, w);
			at = address(d.next);
		}
	}
}

/* An end of a scalar channel whose caller sleeps in the node. */
static void read_scalar(struct walk *w, const struct tw_mcapi_chan *c)
{
	struct tw_mcapi_scl s;
	struct tw_words ring;
	struct why_wait *to;
	bool sleeps;

	if (!peek(w->m, address(c->scl), &s, sizeof s) || !s.ring ||
	    !peek(w->m, address(s.ring), &ring, offsetof(struct tw_words, lines)))
		return;
	sleeps = s.sender ? ring.writer_sleeps : ring.reader_sleeps;
	if (!sleeps)
		return;
	w->kind = s.sender ? WHY_SCALAR_SEND : WHY_SCALAR_RECV;
	to = add(w, address(c->scl));
	if (to)
		to->moved = (uint64_t)s.pos.line << 8 | s.pos.slot;
}

static void read_endpoint(struct walk *w, uint64_t at)
{
	struct tw_mcapi_endp e;

	if (!peek(w->m, at, &e, sizeof e))
		return;
	w->own = e.handle;
	w->other = e.chan.other;
	if (e.chan.open == TW_MCAPI_CH_OPENING) {
		w->kind = e.chan.bound ? WHY_OPEN : WHY_BIND;
		add(w, address(e.chan.opening));
	}
	if (e.chan.open == TW_MCAPI_CH_OPEN && e.chan.scl)
		read_scalar(w, &e.chan);
	if (e.chan.open != TW_MCAPI_CH_OPEN || !e.chan.sender || e.chan.scl)
		return;
	w->kind = WHY_BUFFER;
	peek_list(w->m, at + offsetof(struct tw_mcapi_endp, chan.sends), MOST_LIST, see_request, w);
}

static void read_endpoints(struct walk *w)
{
	struct tw_mcapi_endp *low[256];

	for (unsigned high = 0; high < 256; high++) {
		if (!w->node->ports[high] ||
		    !peek(w->m, address(w->node->ports[high]), low, sizeof low))
			continue;
		for (unsigned i = 0; i < 256; i++)
			if (low[i])
				read_endpoint(w, address(low[i]));
	}
}

void why_mcapi(struct peek *m, struct why_proc *p, unsigned index, uint64_t node)
{
	struct tw_mcapi_node *n = malloc(sizeof *n);
	struct walk w = {.m = m, .p = p, .node = n, .index = index};

	if (!n)
		bench_fail("no memory");
	if (peek(m, node, n, sizeof *n) && n->number < TW_MAX_NODES) {
		w.own = n->number << 16;
		read_dests(&w);
		w.kind = WHY_GET;
		w.own = n->number << 16;
		peek_list(m, node + offsetof(struct tw_mcapi_node, gets), MOST_LIST, see_request,
			  &w);
		peek_list(m, node + offsetof(struct tw_mcapi_node, group.requests), MOST_LIST,
			  see_asked, &w);
		read_endpoints(&w);
	}
	free(n);
}
