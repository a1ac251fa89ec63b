/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connecting: the first operation on an address does it, and those behind it wait. So does a send
 * behind a write or an atomic (FI_ORDER_SAW), an operation with FI_FENCE behind all others, and
 * what comes behind that one.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/report.h"
#include "fi/drain.h"
#include "fi/fi.h"

static bool dest_grow(struct tw_fi_ep *e, fi_addr_t addr)
{
	uint32_t n = e->ndests ? e->ndests : 16;
	struct tw_fi_dest **dests;

	while (n <= addr)
		n *= 2;
	dests = realloc(e->dests, n * sizeof(*dests));
	if (!dests)
		return false;
	memset(dests + e->ndests, 0, (n - e->ndests) * sizeof(*dests));
	e->dests = dests;
	e->ndests = n;
	return true;
}

struct tw_fi_dest *tw_fi_dest_get(struct tw_fi_ep *e, fi_addr_t addr)
{
	struct tw_fi_dest *d;
	uint64_t where;

	if (!e->enabled)
		return NULL;
	where = tw_fi_av_where(e->av, addr);
	if (!where || (addr >= e->ndests && !dest_grow(e, addr)))
		return NULL;
	d = calloc(1, sizeof(*d));
	if (!d)
		return NULL;
	d->where = where;
	tw_list_init(&d->pending);
	e->dests[addr] = d;
	return d;
}

static void fail_pending(struct tw_ep *ep, struct tw_fi_dest *d, enum tw_status why)
{
	struct tw_req *r;

	while ((r = tw_list_take(&d->pending, struct tw_req, link))) {
		tw_window_abandon(r);
		tw_req_complete(ep, r, why);
	}
}

static void dest_begin(struct tw_ep *ep, struct tw_req *r, struct tw_addr to)
{
	if (r->kind == TW_SEND)
		tw_send(ep, r, to);
	else
		tw_window_access(ep, r, to, r->match, r->remote_address);
}

/* Until the request ends; false without one. */
static bool dest_wait_for(struct tw_ep *ep, struct tw_fi_dest *d, struct tw_req *r,
			  enum tw_fi_dest_state state)
{
	if (r) {
		r->context = d;
		d->state = (uint8_t)state;
	} else {
		fail_pending(ep, d, TW_S_NO_RESOURCES);
	}
	return r;
}

static void dest_connect_to(struct tw_ep *ep, struct tw_fi_dest *d)
{
	uint64_t limit = tw_clock() + tw_clock_us(1000ull * tw_settings.connect_timeout);
	struct tw_req *r =
		tw_connect_new(ep, d->where >> 16, d->where & 0xffff, TW_FI_FILTER, limit);

	if (!dest_wait_for(ep, d, r, TW_FI_DEST_CONNECTING))
		return;
	r->extra |= TW_X_SAYS; /* by tell() */
	tw_connect(ep, r);
}

static bool writes_under_way(struct tw_ep *ep, const struct tw_fi_dest *d)
{
	struct tw_peer *p = tw_peer_at(ep, d->addr);

	return p && p->windows.puts;
}

bool tw_fi_dest_holds(struct tw_fi_ep *e, struct tw_ep *ep, const struct tw_fi_dest *d)
{
	if (writes_under_way(ep, d))
		return true;
	/* Nor does it overtake one that was held, to another fi_addr_t of this peer. */
	for (uint32_t i = 0; e->nheld && i < e->ndests; i++)
		if (e->dests[i] && e->dests[i]->state == TW_FI_DEST_HELD &&
		    e->dests[i]->where == d->where)
			return true;
	return false;
}

/* Until the writes have ended. */
static void hold(struct tw_fi_ep *e, struct tw_ep *ep, struct tw_fi_dest *d)
{
	struct tw_req *r = tw_req_new1(ep, TW_FLUSH, NULL, 0);

	if (!dest_wait_for(ep, d, r, TW_FI_DEST_HELD))
		return;
	e->nheld++;
	tw_window_flush(ep, r, d->addr);
}

static bool any_under_way(struct tw_ep *ep, const struct tw_fi_dest *d)
{
	struct tw_peer *p = tw_peer_at(ep, d->addr);
	struct tw_req *r;

	for (uint32_t i = 0; p && (r = tw_pool_next(&ep->reqs, &i));)
		if (r->peer == p && !(r->flags & TW_R_DONE) &&
		    (r->kind == TW_SEND || tw_is_access(r)))
			return true;
	return false;
}

static void dest_fence(struct tw_fi_ep *e, struct tw_fi_dest *d)
{
	d->state = TW_FI_DEST_HELD;
	d->fenced = true;
	e->nheld++;
	e->nfenced++;
	tw_fi_tx_choose(e);
}

static void end_fence(struct tw_fi_ep *e, struct tw_fi_dest *d)
{
	d->fenced = false;
	e->nfenced--;
	tw_fi_tx_choose(e);
}

/* Holds the destination if the first that waits is not to begin yet. False: it may. */
static bool must_wait(struct tw_fi_ep *e, struct tw_ep *ep, struct tw_fi_dest *d,
		      const struct tw_req *r, bool behind_writes)
{
	if ((r->user & TW_FI_FENCE) && any_under_way(ep, d))
		dest_fence(e, d);
	else if (behind_writes)
		hold(e, ep, d);
	else
		return false;
	return true;
}

/* The connection may be lost. */
static void dest_look(struct tw_ep *ep, struct tw_fi_dest *d)
{
	struct tw_peer *p = d->state == TW_FI_DEST_UP ? tw_peer_at(ep, d->addr) : NULL;

	if (d->state == TW_FI_DEST_UP && (!p || p->state != TW_PEER_UP))
		d->state = TW_FI_DEST_NONE;
}

int tw_fi_dest_ask(struct tw_ep *ep, struct tw_fi_dest *d)
{
	uint32_t board;
	int due;

	/* On this host a connect ends soon, and its operations need not wait for each other. */
	if (tw_board_of(d->where >> 16, &board))
		return 0;
	dest_look(ep, d);
	if (d->state == TW_FI_DEST_NONE && !d->due)
		dest_connect_to(ep, d);
	if (d->state == TW_FI_DEST_CONNECTING) {
		d->due = 1;
		tw_progress(ep);
		tw_fi_drain(ep->owner, ep);
	}
	due = d->due;
	if (due <= 0)
		d->due = 0;
	return due > 0 ? -FI_EAGAIN : due;
}

void tw_fi_dest_begin(struct tw_ep *ep, struct tw_fi_dest *d, struct tw_req *r)
{
	struct tw_fi_ep *e = ep->owner;
	bool ordered = r->kind == TW_SEND && e->nwrites;

	dest_look(ep, d);
	tw_list_add_tail(&d->pending, &r->link);
	if (d->state == TW_FI_DEST_NONE) {
		dest_connect_to(ep, d);
	} else if (d->state == TW_FI_DEST_UP &&
		   !must_wait(e, ep, d, r, ordered && tw_fi_dest_holds(e, ep, d))) {
		tw_list_del(&r->link);
		dest_begin(ep, r, d->addr);
	}
}

/* Begins what waits, until a send is to be held. */
static void begin_pending(struct tw_ep *ep, struct tw_fi_dest *d)
{
	struct tw_fi_ep *e = ep->owner;

	while (!tw_list_empty(&d->pending)) {
		struct tw_req *r = tw_list_first(&d->pending, struct tw_req, link);
		bool ordered = r->kind == TW_SEND && e->nwrites;

		if (must_wait(e, ep, d, r, ordered && writes_under_way(ep, d)))
			return;
		tw_list_del(&r->link);
		dest_begin(ep, r, d->addr);
	}
}

void tw_fi_dests_go_on(struct tw_fi_ep *e, struct tw_ep *ep)
{
	for (uint32_t i = 0; e->nfenced && i < e->ndests; i++) {
		struct tw_fi_dest *d = e->dests[i];

		if (!d || !d->fenced || any_under_way(ep, d))
			continue;
		end_fence(e, d);
		e->nheld--;
		d->state = TW_FI_DEST_UP;
		begin_pending(ep, d);
	}
}

static void tell(const struct tw_ep *ep, const struct tw_fi_dest *d, enum tw_status why)
{
	bool explained = tw_failure_explained(ep, d->where, why);
	char who[TW_REPORT_SIZE / 2], cause[TW_REPORT_SIZE / 2];
	const struct tw_board *boards;
	uint32_t board;

	if (tw_board_of(d->where >> 16, &board)) {
		if (explained)
			tw_failure_report(NULL, ep, d->where, why);
		return;
	}
	/* Only then another board may do. */
	if (why != TW_S_UNKNOWN && (why != TW_S_TIMEOUT || explained)) {
		tw_failure_report(NULL, ep, d->where, why);
		return;
	}
	tw_boards(&boards);
	tw_failure_who(who, sizeof(who), ep, d->where);
	snprintf(cause, sizeof(cause), "board %s (endpoint %u) does not reach it%s%.80s",
		 boards[ep->board].ifname, ep->host.self.endpoint_id, explained ? ": " : "",
		 explained ? ep->failure.cause : "");
	tw_report(TW_LOG_ERROR, who, cause, "see TAGWIRE_BOARDS in tagwire-settings(7)");
}

void tw_fi_dest_ready(struct tw_ep *ep, struct tw_req *r)
{
	struct tw_fi_dest *d = r->context;
	enum tw_status status = (enum tw_status)r->status;
	bool held = d && d->state == TW_FI_DEST_HELD;

	if (held)
		((struct tw_fi_ep *)ep->owner)->nheld--;
	if (d) {
		d->state = status == TW_S_OK ? TW_FI_DEST_UP : TW_FI_DEST_NONE;
		d->addr = r->other;
		if (d->due)
			d->due = status == TW_S_OK ? 0 : -FI_EHOSTUNREACH;
		if (!held && status != TW_S_OK)
			tell(ep, d, status);
	}
	tw_req_free(ep, r);
	if (d && status == TW_S_OK)
		begin_pending(ep, d);
	else if (d) /* why a connect failed is all the same: there is nobody */
		fail_pending(ep, d, held ? status : TW_S_UNKNOWN);
}

/* A request under way does not find its destination any more. */
static void forget_request(struct tw_ep *ep, const struct tw_fi_dest *d)
{
	struct tw_req *r;

	for (uint32_t i = 0; (r = tw_pool_next(&ep->reqs, &i));)
		if (tw_fi_for_dest(r) && r->context == d)
			r->context = NULL;
}

void tw_fi_dest_drop(struct tw_fi_ep *e, fi_addr_t addr)
{
	struct tw_ep *ep = tw_fi_enter(e);
	struct tw_fi_dest *d;

	if (!ep)
		return;
	d = addr < e->ndests ? e->dests[addr] : NULL;
	if (d) {
		fail_pending(ep, d, TW_S_CANCELLED);
		e->nheld -= d->state == TW_FI_DEST_HELD;
		if (d->fenced)
			end_fence(e, d);
		if (d->state == TW_FI_DEST_CONNECTING || d->state == TW_FI_DEST_HELD)
			forget_request(ep, d);
		e->dests[addr] = NULL;
		free(d);
	}
	tw_leave_unfinished(ep);
}

struct tw_req *tw_fi_dests_take(struct tw_fi_ep *e, const void *context)
{
	for (uint32_t i = 0; i < e->ndests; i++) {
		if (!e->dests[i])
			continue;
		tw_list_walk(&e->dests[i]->pending, struct tw_req, r, link) {
			if (r->context != context || (r->user & TW_FI_COPIED))
				continue;
			tw_list_del(&r->link);
			tw_window_abandon(r);
			return r;
		}
	}
	return NULL;
}

void tw_fi_dests_abandon(struct tw_fi_ep *e)
{
	struct tw_ep *ep = tw_fi_enter(e);

	for (uint32_t i = 0; ep && i < e->ndests; i++)
		if (e->dests[i])
			fail_pending(ep, e->dests[i], TW_S_CLOSED);
	if (ep)
		tw_leave_unfinished(ep);
}

void tw_fi_dests_free(struct tw_fi_ep *e)
{
	for (uint32_t i = 0; i < e->ndests; i++)
		free(e->dests[i]);
	free(e->dests);
}
