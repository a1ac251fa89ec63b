/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The owner of windows grants access to them, and serves the accesses that the provider cannot
 * move. Deregistering revokes every grant. The owner may reuse the memory once all have been
 * released.
 */
#include <stdlib.h>
#include <string.h>

#include "base/guard.h"
#include "engine/trace.h"
#include "engine/window_internal.h"

#define NOTED_MAX (UINT64_C(1) << 36) /* bytes of a window whose pages are noted */

struct window {
	struct tw_list node; /* by key, or ending */
	struct tw_list grants;
	uint64_t key, number;
	char *base;
	uint64_t len;
	unsigned rights;
	uint8_t *pages; /* for each the rights with which a peer has used it; NULL: not known */
};

/* A peer that knows a window. */
struct grant {
	struct tw_list of_window, of_peer;
	struct window *w;
	struct tw_peer *peer;
	bool registered;       /* with the provider */
	struct tw_req *revoke; /* made with the grant, so that it can be sent; NULL: it was */
	struct tw_mem_reg mr;
};

static void owner_free(struct window *w)
{
	free(w->pages);
	free(w);
}

static struct window *owner_find(const struct tw_ep *ep, uint64_t key)
{
	struct tw_windows *ws = ep->windows;

	if (!ws)
		return NULL;
	tw_list_walk(tw_window_list(ws->own, key), struct window, w, node) {
		if (w->key == key)
			return w;
	}
	return NULL;
}

/* One that has been deregistered, and that peers still know. */
static struct window *owner_find_ending(const struct tw_ep *ep, uint64_t number)
{
	if (!ep->windows)
		return NULL;
	tw_list_walk(&ep->windows->ending, struct window, w, node) {
		if (w->number == number)
			return w;
	}
	return NULL;
}

/* By numbers, as the whole address space begins at NULL. */
static char *owner_at(const struct window *w, uint64_t offset)
{
	return (char *)((uintptr_t)w->base + offset);
}

/* The number of the page that has this address; larger pages have several. */
static size_t owner_page(const struct window *w, const char *at)
{
	return (uintptr_t)at / TW_PAGE - (uintptr_t)w->base / TW_PAGE;
}

enum tw_err tw_window_register(struct tw_ep *ep, void *base, size_t len, unsigned rights,
			       uint64_t *key)
{
	struct tw_windows *ws = tw_windows_get(ep);
	struct window *w;

	if ((uintptr_t)base + len < (uintptr_t)base)
		return TW_EFAULT;
	if (!ws)
		return TW_ENOMEM;
	if (rights & TW_WINDOW_ASSIGN) {
		while (owner_find(ep, ++ws->last_key))
			;
		*key = ws->last_key;
	}
	if (owner_find(ep, *key))
		return TW_EBUSY;
	w = calloc(1, sizeof(*w));
	if (!w)
		return TW_ENOMEM;
	w->key = *key;
	w->number = ++ws->number;
	w->base = base;
	w->len = len;
	w->rights = rights & ~(unsigned)TW_WINDOW_ASSIGN;
	/* Whose own pages are made as they are used. */
	if (len && len <= NOTED_MAX)
		w->pages = calloc(owner_page(w, owner_at(w, len - 1)) + 1, 1);
	tw_list_init(&w->grants);
	tw_list_add_tail(tw_window_list(ws->own, w->key), &w->node);
	return TW_OK;
}

/* Grants --------------------------------------------------------------------- */

static struct grant *grant_of(const struct window *w, const struct tw_peer *p)
{
	tw_list_walk(&w->grants, struct grant, g, of_window) {
		if (g->peer == p)
			return g;
	}
	return NULL;
}

static void deregister(struct grant *g)
{
	/* Registrations end with the link. */
	if (g->registered && g->peer->link)
		g->peer->link->provider->mem_dereg(g->peer->link, &g->mr);
	g->registered = false;
}

/* With the last grant goes a window that has ended. */
static void end_grant(struct tw_ep *ep, struct grant *g)
{
	struct window *w = g->w;

	deregister(g);
	if (g->revoke)
		tw_req_forgotten(ep, g->revoke);
	tw_list_del(&g->of_window);
	tw_list_del(&g->of_peer);
	free(g);
	if (!tw_list_empty(&w->grants) || owner_find(ep, w->key) == w)
		return;
	tw_list_del(&w->node);
	owner_free(w);
	ep->events++;
}

static struct grant *window_owner_grant(struct window *w, struct tw_peer *p)
{
	struct tw_window_msg m = {.key = w->key, .number = w->number};
	struct grant *g = grant_of(w, p);

	if (g) {
		deregister(g);
		return g;
	}
	g = calloc(1, sizeof(*g));
	if (!g)
		return NULL;
	g->revoke = tw_window_new(p, TW_WINDOW_REVOKE, 0, &m, 0);
	if (!g->revoke) {
		free(g);
		return NULL;
	}
	g->w = w;
	g->peer = p;
	tw_list_add_tail(&w->grants, &g->of_window);
	tw_list_add_tail(&p->windows.grants, &g->of_peer);
	return g;
}

static enum tw_err asked(struct tw_peer *p, struct tw_window_msg *m)
{
	struct window *w = owner_find(p->ep, m->key);
	struct tw_link *link = p->link;
	unsigned rights = w ? w->rights & TW_MEM_BOTH : 0;
	struct grant *g;
	char *key;

	*m = (struct tw_window_msg){.key = m->key, .status = TW_S_BAD_WINDOW};
	if (!w)
		return tw_window_reply(p, TW_WINDOW_GRANT, 0, m, 0) ? TW_OK : TW_AGAIN;
	g = window_owner_grant(w, p);
	if (!g)
		return TW_AGAIN;
	/* Without a right the owner serves every access. */
	g->registered = rights && link->can_get && link->key_size && w->len &&
			link->provider->mem_reg(link, w->base, w->len, rights, &g->mr) == TW_OK;
	m->status = TW_S_OK;
	m->number = w->number;
	m->offset = g->registered ? g->mr.address : (uintptr_t)w->base;
	m->len = w->len;
	m->rights = (uint8_t)w->rights;
	key = tw_window_reply(p, TW_WINDOW_GRANT, 0, m, g->registered ? link->key_size : 0);
	if (!key)
		return TW_AGAIN;
	if (g->registered)
		memcpy(key, g->mr.key, link->key_size);
	return TW_OK;
}

static enum tw_err released(struct tw_peer *p, const struct tw_window_msg *m)
{
	struct window *w = owner_find_ending(p->ep, m->number);
	struct grant *g = w ? grant_of(w, p) : NULL;

	if (!g)
		return TW_EPROTO;
	end_grant(p->ep, g);
	return TW_OK;
}

/* The end of a window ----------------------------------------------------------- */

uint64_t tw_window_end(struct tw_ep *ep, uint64_t key)
{
	struct window *w = owner_find(ep, key);
	uint64_t number;

	if (!w)
		return 0;
	number = w->number;
	tw_list_del(&w->node);
	if (tw_list_empty(&w->grants)) {
		owner_free(w);
		return number;
	}
	tw_list_add_tail(&ep->windows->ending, &w->node);
	tw_list_walk(&w->grants, struct grant, g, of_window) {
		tw_am_queue(g->peer, g->revoke);
		g->revoke = NULL;
	}
	return number;
}

void tw_window_take_back(struct tw_ep *ep, uint64_t number)
{
	struct window *w = owner_find_ending(ep, number);

	if (!w)
		return;
	tw_list_walk(&w->grants, struct grant, g, of_window)
		deregister(g);
}

bool tw_window_ended(struct tw_ep *ep, void *number)
{
	return !owner_find_ending(ep, *(uint64_t *)number);
}

enum tw_waited tw_window_wait(struct tw_ep *ep, uint64_t number)
{
	enum tw_waited waited;

	do
		waited = tw_wait(ep, tw_window_ended, &number, TW_FOREVER);
	while (waited == TW_W_WOKEN);
	return waited;
}

enum tw_err tw_window_deregister(struct tw_ep *ep, uint64_t key)
{
	uint64_t number = tw_window_end(ep, key);
	enum tw_waited waited;

	if (!number)
		return TW_EWINDOW;
	waited = tw_window_wait(ep, number);
	return waited == TW_W_TRUE ? TW_OK : waited == TW_W_CLOSED ? TW_ECLOSED : TW_AGAIN;
}

/* Served accesses ---------------------------------------------------------------- */

/* Memory that a peer may use, of a window. */
struct part {
	struct window *w;
	char *at;
	size_t len;
};

static enum tw_status window_owner_check(const struct tw_peer *p, const struct tw_window_msg *m,
					 unsigned wanted, struct part *part)
{
	struct window *w = owner_find(p->ep, m->key);
	enum tw_status status;

	if (!w || w->number != m->number)
		return TW_S_BAD_WINDOW;
	status = tw_window_check(w->rights, w->len, wanted, m->offset, m->len);
	if (status == TW_S_OK)
		*part = (struct part){w, owner_at(w, m->offset), (size_t)m->len};
	return status;
}

/*
 * Whether all of its pages were there before, readable or writable. The first access to a page goes
 * by way of the kernel; from then on the page is the program's promise (doc/decisions.md, 186).
 */
static bool part_known(const struct part *part, unsigned how)
{
	const struct window *w = part->w;

	if (!w->pages || !part->len)
		return false;
	for (size_t i = owner_page(w, part->at), last = owner_page(w, part->at + part->len - 1);
	     i <= last; i++)
		if (!(w->pages[i] & how))
			return false;
	return true;
}

static void part_learn(const struct part *part, unsigned how)
{
	const struct window *w = part->w;

	if (!w->pages || !part->len)
		return;
	for (size_t i = owner_page(w, part->at), last = owner_page(w, part->at + part->len - 1);
	     i <= last; i++)
		w->pages[i] |= (uint8_t)how;
}

/*
 * An aligned word is written at once, for a program that waits for it to change and then writes it:
 * memcpy() may write some bytes twice.
 */
static void part_write(const struct part *part, const void *data)
{
	uint64_t word;
	uint32_t half;

	if (part->len == sizeof(word) && !((uintptr_t)part->at & 7)) {
		memcpy(&word, data, sizeof(word));
		*(volatile uint64_t *)(void *)part->at = word;
	} else if (part->len == sizeof(half) && !((uintptr_t)part->at & 3)) {
		memcpy(&half, data, sizeof(half));
		*(volatile uint32_t *)(void *)part->at = half;
	} else {
		memcpy(part->at, data, part->len);
	}
}

static bool part_put(const struct part *part, const void *data)
{
	if (part_known(part, TW_WINDOW_WRITE)) {
		part_write(part, data);
		return true;
	}
	if (tw_guard_copy(false, part->at, data, part->len) != TW_OK)
		return false;
	part_learn(part, TW_WINDOW_WRITE);
	return true;
}

static bool part_get(const struct part *part, void *to)
{
	if (part_known(part, TW_WINDOW_READ)) {
		memcpy(to, part->at, part->len);
		return true;
	}
	if (tw_guard_copy(true, to, part->at, part->len) != TW_OK)
		return false;
	part_learn(part, TW_WINDOW_READ);
	return true;
}

/* Whether the memory is there as an atomic needs it. */
static bool part_there(const struct part *part, enum tw_atomic_op op)
{
	unsigned how = op == TW_ATOMIC_READ ? TW_WINDOW_READ : TW_WINDOW_WRITE;
	char some[TW_ATOMIC_MAX_BYTES];

	if (part_known(part, how))
		return true;
	if (op == TW_ATOMIC_READ)
		return part_get(part, some);
	if (!tw_guard_writable(part->at, part->len))
		return false;
	part_learn(part, how);
	return true;
}

/* A delegated access: its turn, or 0, and where it is counted. */
struct delegated {
	uint32_t turn;
	bool again; /* it was done, and there was no memory for the reply */
	struct tw_ring_rx *rx;
};

/* Whether it has ended without a reply; else its sender no longer looks for its end. */
static bool delegated_end(const struct delegated *d, bool done)
{
	return d->turn && tw_ring_delegate_end(d->rx, d->turn, done);
}

/* Where a result of this length goes, or NULL: into the reply. */
static void *delegated_result(const struct delegated *d, uint32_t len)
{
	return d->turn && len <= sizeof(d->rx->ring->delegate.result) ? d->rx->ring->delegate.result
								      : NULL;
}

static enum tw_err window_owner_put(struct tw_peer *p, uint64_t ref, struct tw_window_msg *m,
				    const char *data, uint32_t len, const struct delegated *d)
{
	struct part part;

	if (len != m->len)
		return TW_EPROTO;
	m->status = (uint8_t)window_owner_check(p, m, TW_WINDOW_WRITE, &part);
	if (m->status == TW_S_OK && !part_put(&part, data))
		m->status = TW_S_ABORTED;
	if (delegated_end(d, m->status == TW_S_OK))
		return TW_OK;
	return tw_window_reply(p, TW_WINDOW_REPLY, ref, m, 0) ? TW_OK : TW_AGAIN;
}

static enum tw_err window_owner_get(struct tw_peer *p, uint64_t ref, struct tw_window_msg *m,
				    uint32_t len, const struct delegated *d)
{
	struct part part;
	void *result;
	char *to;

	if (len || m->len > tw_min((size_t)TW_WINDOW_PIECE, p->link->max_payload - sizeof(*m)))
		return TW_EPROTO;
	m->status = (uint8_t)window_owner_check(p, m, TW_WINDOW_READ, &part);
	len = m->status == TW_S_OK ? (uint32_t)m->len : 0;
	/* As its accessor has decided, which then looks for the end, or waits for a reply. */
	result = delegated_result(d, (uint32_t)m->len);
	if (result && delegated_end(d, len && part_get(&part, result)))
		return TW_OK;
	to = tw_window_reply(p, TW_WINDOW_REPLY, ref, m, len);
	if (!to)
		return TW_AGAIN;
	if (len && !part_get(&part, to)) {
		((struct tw_window_msg *)(void *)to)[-1].status = TW_S_ABORTED;
		memset(to, 0, len); /* which are not the peer's to see */
	}
	return TW_OK;
}

static enum tw_err window_owner_change(struct tw_peer *p, uint64_t ref, struct tw_window_msg *m,
				       const char *operand, uint32_t len, const struct delegated *d)
{
	enum tw_atomic_op op = (enum tw_atomic_op)m->op;
	enum tw_atomic_type type = (enum tw_atomic_type)m->type;
	bool result = m->rights & TW_WINDOW_READ; /* wanted */
	void *done = delegated_result(d, (uint32_t)m->len);
	struct part part;
	char *old;

	if (!tw_atomic_exists(op, type) || !m->len || m->len > TW_ATOMIC_MAX_BYTES ||
	    m->len % tw_atomic_size(type) || len != tw_atomic_operands(op) * m->len)
		return TW_EPROTO;
	m->status = (uint8_t)window_owner_check(p, m, tw_atomic_rights(op, result), &part);
	if (m->status == TW_S_OK && !part_there(&part, op))
		m->status = TW_S_ABORTED;
	/* The reply to one that was refused says so, whatever has come about since. */
	if (d->again && !p->windows.applied)
		m->status = TW_S_ABORTED;
	len = m->status == TW_S_OK ? (uint32_t)m->len : 0;
	p->windows.applied = len;
	if (done && len && !d->again)
		tw_atomic_apply(part.at, result ? done : NULL, m, operand);
	if (done && delegated_end(d, len))
		return TW_OK;
	old = tw_window_reply(p, TW_WINDOW_REPLY, ref, m, result ? len : 0);
	if (!old)
		return TW_AGAIN;
	if (done && result)
		memcpy(old, done, len);
	else if (!done && len)
		tw_atomic_apply(part.at, result ? old : NULL, m, operand);
	return TW_OK;
}

/* Whether this side does a delegated access. */
static bool delegated_claim(struct tw_peer *p, uint32_t turn, struct delegated *d)
{
	struct tw_ring_tx *txq = p->link->txq;

	if (!txq)
		return false;
	*d = (struct delegated){turn, turn == p->windows.claimed, txq->back};
	if (!d->again && !tw_ring_delegate_claim(d->rx, turn))
		return false;
	p->windows.claimed = turn;
	return true;
}

enum tw_err tw_window_serve(struct tw_peer *p, struct tw_hdr hdr, struct tw_window_msg *m,
			    const char *data, uint32_t len)
{
	enum tw_window_what what = (enum tw_window_what)(tw_hdr_flags(hdr) & ~TW_WINDOW_DELEGATED);
	struct delegated d = {0};

	if (tw_hdr_flags(hdr) & TW_WINDOW_DELEGATED) {
		if (!delegated_claim(p, m->at, &d))
			return TW_OK;
		m->at = 0;
	}
	/* More than it may ask without waiting for replies. */
	if (p->windows.due > 2 * TW_WINDOW_ASKED)
		return TW_EPROTO;
	if (what != TW_WINDOW_ASK && what != TW_WINDOW_RELEASE) {
		p->ep->counters[TW_C_WINDOW_SERVED]++;
		tw_trace_served(p, m->key, m->len);
	}
	switch (what) {
	case TW_WINDOW_ASK:
		return asked(p, m);
	case TW_WINDOW_PUT:
		return window_owner_put(p, hdr.match, m, data, len, &d);
	case TW_WINDOW_GET:
		return window_owner_get(p, hdr.match, m, len, &d);
	case TW_WINDOW_CHANGE:
		return window_owner_change(p, hdr.match, m, data, len, &d);
	case TW_WINDOW_RELEASE:
		return released(p, m);
	default:
		return TW_EPROTO;
	}
}

/* The end -------------------------------------------------------------------------- */

void tw_window_owner_lost(struct tw_peer *p)
{
	while (!tw_list_empty(&p->windows.grants))
		end_grant(p->ep, tw_list_first(&p->windows.grants, struct grant, of_peer));
}

void tw_window_owner_fini(struct tw_ep *ep)
{
	for (unsigned i = 0; i < TW_WINDOW_LISTS; i++)
		tw_list_walk(&ep->windows->own[i], struct window, w, node)
			owner_free(w);
}
