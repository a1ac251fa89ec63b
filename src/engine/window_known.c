/* SPDX-License-Identifier: BSD-2-Clause */
/* The grants of peers' windows: each is requested once, and kept until the owner revokes it. */
#include <stdlib.h>
#include <string.h>

#include "engine/window_internal.h"

struct tw_windows *tw_windows_get(struct tw_ep *ep)
{
	struct tw_windows *ws = ep->windows;

	if (ws)
		return ws;
	ws = ep->windows = calloc(1, sizeof(*ws));
	if (!ws)
		return NULL;
	tw_list_init(&ws->ending);
	for (unsigned i = 0; i < TW_WINDOW_LISTS; i++) {
		tw_list_init(&ws->own[i]);
		tw_list_init(&ws->known[i]);
	}
	return ws;
}

struct tw_req *tw_window_new(struct tw_peer *p, enum tw_window_what what, uint64_t match,
			     const struct tw_window_msg *m, uint32_t len)
{
	struct tw_req *r = tw_am_new(p->ep, match, sizeof(*m) + len);

	if (!r)
		return NULL;
	r->extra = TW_X_WINDOW;
	r->what = what & 63;
	memcpy(r->seg.ptr, m, sizeof(*m));
	return r;
}

char *tw_window_reply(struct tw_peer *p, enum tw_window_what what, uint64_t match,
		      const struct tw_window_msg *m, uint32_t len)
{
	struct tw_req *r = tw_window_new(p, what, match, m, len);

	if (!r)
		return NULL;
	r->extra |= TW_X_REPLY;
	p->windows.due++;
	tw_am_queue(p, r);
	return r->seg.ptr + sizeof(*m);
}

static struct tw_import *window_known_find(struct tw_peer *p, uint64_t key)
{
	struct tw_windows *ws = p->ep->windows;

	if (!ws)
		return NULL;
	tw_list_walk(tw_window_list(ws->known, key), struct tw_import, w, node) {
		if (w->grant.key == key && w->peer == p)
			return w;
	}
	return NULL;
}

struct tw_import *tw_import_get(struct tw_peer *p, uint64_t key)
{
	struct tw_windows *ws = tw_windows_get(p->ep);
	struct tw_import *w = window_known_find(p, key);

	if (w || !ws)
		return w;
	w = calloc(1, sizeof(*w));
	if (!w)
		return NULL;
	w->peer = p;
	w->grant.key = key;
	tw_list_add_tail(tw_window_list(ws->known, key), &w->node);
	tw_list_add_tail(&p->windows.known, &w->of_peer);
	return w;
}

static void window_known_forget(struct tw_import *w)
{
	tw_list_del(&w->node);
	tw_list_del(&w->of_peer);
	if (w->release)
		tw_req_forgotten(w->peer->ep, w->release);
	free(w);
}

/* Of one that has ended, and that nothing uses any more. */
static void window_known_let_go(struct tw_import *w)
{
	if (w->state != TW_IMPORT_ENDED || w->users)
		return;
	if (w->release && w->peer->state == TW_PEER_UP) {
		tw_am_queue(w->peer, w->release);
		w->release = NULL;
	}
	window_known_forget(w);
}

bool tw_import_ask(struct tw_peer *p, struct tw_import *w)
{
	struct tw_window_msg m = {.key = w->grant.key};
	struct iovec iov = {&m, sizeof(m)};

	if (p->windows.asked >= TW_WINDOW_ASKED ||
	    tw_packet_send(p, TW_SEND_ENGINE,
			   tw_hdr_make(TW_WINDOW, TW_WINDOW_ASK, 0, sizeof(m), 0), &iov, 1,
			   sizeof(m)) != TW_OK)
		return false;
	p->windows.asked++;
	w->state = TW_IMPORT_ASKED;
	return true;
}

void tw_import_put(struct tw_import *w)
{
	w->users--;
	window_known_let_go(w);
}

/* Those that wait for the answer go on, or end. */
static void window_known_answered(struct tw_peer *p, struct tw_import *w)
{
	w->users++; /* it stays during this */
	tw_list_walk(&p->waiting, struct tw_req, r, link) {
		if (r->state == TW_XFER_ASKING && r->import == w)
			tw_transfer_step(p, r, TW_ON_ANSWERED);
	}
	w->users--;
	window_known_let_go(w);
}

static void end_import(struct tw_peer *p, struct tw_import *w)
{
	w->state = TW_IMPORT_ENDED;
	tw_list_del(&w->node);
	window_known_answered(p, w);
}

enum tw_err tw_import_granted(struct tw_peer *p, const struct tw_window_msg *m, const char *key,
			      uint32_t len)
{
	struct tw_import *w = window_known_find(p, m->key);

	if (!p->windows.asked || (len && len != tw_key_size(p)))
		return TW_EPROTO;
	p->windows.asked--;
	/* Revoked before it was granted, and asked for again; or no more asked for. */
	if (!w || w->state == TW_IMPORT_NEW)
		return TW_OK;
	if (m->status != TW_S_OK) {
		if (w->state == TW_IMPORT_ASKED)
			end_import(p, w);
		return TW_OK;
	}
	w->grant = *m;
	w->key_len = len;
	memcpy(w->provider_key, key, len);
	w->state = TW_IMPORT_OPEN;
	window_known_answered(p, w);
	return TW_OK;
}

enum tw_err tw_import_revoked(struct tw_peer *p, const struct tw_window_msg *m)
{
	struct tw_import *w = window_known_find(p, m->key);

	if (w && w->grant.number == m->number) {
		w->release = tw_window_new(p, TW_WINDOW_RELEASE, 0, m, 0);
		if (!w->release)
			return TW_AGAIN;
		end_import(p, w);
		return TW_OK;
	}
	/* One that was granted when nothing asked for it any more. */
	if (p->windows.due > 2 * TW_WINDOW_ASKED)
		return TW_EPROTO;
	return tw_window_reply(p, TW_WINDOW_RELEASE, 0, m, 0) ? TW_OK : TW_AGAIN;
}

/* The end --------------------------------------------------------------------- */

void tw_windows_lost(struct tw_peer *p)
{
	while (!tw_list_empty(&p->windows.known))
		window_known_forget(tw_list_first(&p->windows.known, struct tw_import, of_peer));
	tw_window_owner_lost(p);
}

void tw_windows_fini(struct tw_ep *ep)
{
	for (uint32_t i = 0; i < ep->npeers; i++)
		if (ep->peers[i]->state == TW_PEER_UP)
			tw_windows_lost(ep->peers[i]);
	if (ep->windows)
		tw_window_owner_fini(ep);
	free(ep->windows);
}
