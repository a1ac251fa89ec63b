/* SPDX-License-Identifier: BSD-2-Clause */
/* Claims, counts, fetches, active messages and windows, of an endpoint that sends to itself. */
#include <criterion/criterion.h>
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#include "engine/fast.h"
#include "engine/window.h"
#include "lib/twt.h"

enum { SHORT = 100, LONG = 300000, ALL = 0 };

static struct tw_ep *ep;
static uint64_t handle;
static unsigned ams, nwhole;
static uint64_t am_bytes;
static bool am_alone;

static enum tw_verdict unexpected(struct tw_ep *e, struct tw_unexp_msg *u)
{
	cr_assert_eq(u->peer, e->self);
	return u->unexp.match == 13 ? TW_DROP : TW_KEEP;
}

static void whole(struct tw_ep *e, struct tw_unexp_msg *u, const struct tw_req *fetched)
{
	(void)e;
	cr_assert(tw_unexp_is_whole(u));
	cr_assert_eq(fetched != NULL, u->len == LONG);
	nwhole++;
}

static void am_handler(struct tw_ep *e, struct tw_peer *p, uint64_t arg, const void *data,
		       uint32_t len)
{
	cr_assert_eq(p, e->self);
	cr_assert_eq(arg, ams++);
	/* In order with the messages. */
	cr_assert_eq(tw_unexp_count(e, ALL, ALL, false), am_alone ? 0 : ams);
	am_bytes += twt_check(data, len, arg);
}

static const struct tw_interface interface = {
	.unexpected = unexpected, .whole = whole, .am_handler = am_handler};

static void start(void)
{
	const struct tw_open how = {.number = 7, .unexp_max = 1 << 20, .iface = &interface};
	char job[40];

	snprintf(job, sizeof(job), "unexp-%d", (int)getpid());
	setenv("TAGWIRE_JOB", job, 1);
	cr_assert_eq(tw_begin(), TW_OK);
	cr_assert_eq(tw_ep_open(&how, &handle), TW_OK);
	ep = tw_enter(handle);
}

static void stop(void)
{
	tw_leave(ep);
	cr_assert_eq(tw_ep_close(handle), TW_OK);
	tw_end();
}

TestSuite(unexp, .init = start, .fini = stop, .timeout = TWT_TIMEOUT);

static void progress(void)
{
	for (int i = 0; i < 100; i++)
		tw_progress(ep);
}

static char data[LONG];

static struct tw_req *send(uint64_t match, uint32_t len)
{
	struct tw_req *r = tw_req_new1(ep, TW_SEND, data, len);

	twt_fill(data, LONG, 1);
	r->match = match;
	tw_send(ep, r, ep->self->addr);
	progress();
	return r;
}

static struct tw_req *claim(uint64_t match)
{
	struct tw_req *r = tw_req_new1(ep, TW_RECV, NULL, 0);

	r->flags |= TW_R_CLAIM;
	tw_recv_post(ep, r, match, UINT64_MAX);
	progress();
	return r;
}

static void claimed(struct tw_req *r, uint64_t match, uint32_t len)
{
	struct tw_unexp_msg *u = tw_req_claimed(r);

	cr_assert((r->flags & TW_R_DONE) && r->status == TW_S_OK);
	cr_assert_eq(r->match, match);
	cr_assert_eq(u->len, len);
	cr_assert_eq(r->xfer_len, len);
	cr_assert_eq(twt_check(u->data, len, 1), len);
	tw_unexp_msg_put(ep, u);
	tw_req_free(ep, r);
}

static void nothing_left(void)
{
	cr_assert_eq(ep->gauges[TW_G_UNEXPECTED], 0);
	cr_assert_eq(ep->gauges[TW_G_UNEXP_BYTES], 0);
	cr_assert_eq(ep->gauges[TW_G_POSTED], 0);
	cr_assert_eq(ep->self->numsgs, 0);
	cr_assert_eq(ep->nactive, 0);
}

static bool connected(struct tw_ep *e, void *r)
{
	(void)e;
	return ((struct tw_req *)r)->flags & TW_R_DONE;
}

/* What mx_endpoint_info shows of sends that wait. */
Test(unexp, queued_sends_are_counted)
{
	static const struct tw_interface other_iface = {.unexpected = NULL};
	const struct tw_open how = {.number = 8, .unexp_max = 1 << 20, .iface = &other_iface};
	uint64_t nic = ep->self->addr.where >> 16, other;
	const struct tw_stats_peer *show;
	struct tw_req *r, *last;
	unsigned n = 0;

	tw_leave(ep);
	cr_assert_eq(tw_ep_open(&how, &other), TW_OK);
	ep = tw_enter(handle);
	r = tw_connect_new(ep, nic, 8, how.filter, TW_FOREVER);
	tw_connect(ep, r);
	cr_assert_eq(tw_wait(ep, connected, r, 1000000ull * (unsigned)TWT_LONG), TW_W_TRUE);
	cr_assert_eq(r->status, TW_S_OK);
	show = tw_peer_at(ep, r->other)->show;
	do {
		cr_assert_lt(n++, 100000u);
		last = tw_req_new1(ep, TW_SEND, data, SHORT);
		tw_send(ep, last, r->other);
	} while (show->queued < 10);
	cr_assert_eq(tw_take_back(ep, last, TW_S_CANCELLED), TW_BACK_DONE);
	cr_assert_eq(show->queued, 9);
	tw_leave(ep);
	cr_assert_eq(tw_ep_close(other), TW_OK);
	ep = tw_enter(handle);
	while (show->state == TW_PEER_UP)
		tw_progress(ep);
	cr_assert_eq(show->queued, 0);
}

Test(unexp, taken_and_counted)
{
	struct tw_unexp_msg *u;

	for (int i = 0; i < 6; i++)
		tw_req_free(ep, send((uint64_t)i % 2, SHORT));
	cr_assert_eq(tw_unexp_count(ep, 0, UINT64_MAX, true), 3);
	cr_assert_eq(tw_unexp_count(ep, ALL, ALL, false), 6);
	for (uint32_t most = 0; most < 8; most++)
		cr_assert_eq(tw_unexp_count_to(ep, ALL, ALL, false, most), most < 6 ? most : 6);
	u = tw_unexp_find(ep, 1, UINT64_MAX);
	tw_unexp_unqueue(ep, u);
	cr_assert_eq(tw_unexp_count(ep, 1, UINT64_MAX, false), 2);
	tw_unexp_take(ep, u);
	cr_assert_eq(twt_check(u->data, SHORT, 1), SHORT);
	tw_unexp_msg_put(ep, u);
	tw_unexp_drop_all(ep, 0, UINT64_MAX);
	cr_assert_eq(tw_unexp_count(ep, ALL, ALL, false), 2);
	tw_unexp_drop_all(ep, ALL, ALL);
	progress();
	nothing_left();
}

/* A receive has the whole buffer, whether it or the message comes first. */
static void both_ways(uint32_t len)
{
	struct tw_req *s = send(3, len), *c = claim(3);

	claimed(c, 3, len);
	tw_req_free(ep, s);
	c = claim(3);
	s = send(3, len);
	claimed(c, 3, len);
	tw_req_free(ep, s);
}

Test(unexp, claimed_short_and_long)
{
	both_ways(0);
	both_ways(SHORT);
	both_ways(20000);
	both_ways(LONG);
	nothing_left();
}

/* What was claimed is received later, by a receive that another message cannot take. */
Test(unexp, claimed_then_received)
{
	struct tw_req *s = send(5, LONG), *t = send(5, SHORT), *r, *first = claim(5);
	struct tw_unexp_msg *u;
	static char in[LONG];

	claimed(first, 5, LONG);
	u = tw_unexp_find(ep, 5, UINT64_MAX);
	tw_unexp_unqueue(ep, u);
	cr_assert_null(tw_unexp_find(ep, 5, UINT64_MAX));
	r = tw_req_new1(ep, TW_RECV, in, sizeof(in));
	tw_unexp_receive(ep, u, r);
	cr_assert(r->flags & TW_R_DONE);
	cr_assert_eq(r->xfer_len, SHORT);
	cr_assert_eq(twt_check(in, SHORT, 1), SHORT);
	tw_req_free(ep, r);
	tw_req_free(ep, s);
	tw_req_free(ep, t);
	nothing_left();
}

/* Announced messages come by themselves up to fetch_max, the send ends; others wait. */
Test(unexp, fetched)
{
	struct tw_req *s[3], *r;
	static char in[LONG];

	ep->fetch_max = LONG + 1;
	for (int i = 0; i < 3; i++)
		s[i] = send(6, LONG);
	cr_assert_eq(nwhole, 2);
	cr_assert(s[0]->flags & s[1]->flags & TW_R_DONE);
	cr_assert(!(s[2]->flags & TW_R_DONE));
	cr_assert_eq(tw_unexp_count(ep, ALL, ALL, true), 2);
	claimed(claim(6), 6, LONG);
	r = tw_req_new1(ep, TW_RECV, in, LONG - 1);
	tw_recv_post(ep, r, 6, UINT64_MAX);
	cr_assert(r->flags & TW_R_DONE);
	cr_assert_eq(r->status, TW_S_TRUNCATED);
	cr_assert_eq(twt_check(in, LONG - 1, 1), LONG - 1);
	tw_req_free(ep, r);
	tw_unexp_drop_all(ep, ALL, ALL);
	progress();
	for (int i = 0; i < 3; i++) {
		cr_assert(s[i]->flags & TW_R_DONE);
		tw_req_free(ep, s[i]);
	}
	nothing_left();
	ep->fetch_max = 0;
}

/* A receive that meets a fetch under way, and a drop that does. */
Test(unexp, fetching)
{
	static char in[LONG];
	struct tw_req *s, *r;

	ep->fetch_max = UINT64_MAX;
	for (int drop = 0; drop < 2; drop++) {
		s = tw_req_new1(ep, TW_SEND, data, LONG);
		s->match = 8;
		twt_fill(data, LONG, 1);
		tw_send(ep, s, ep->self->addr);
		while (!tw_unexp_find(ep, ALL, ALL))
			ep->provs[0].ops->progress(ep->provs[0].instance);
		cr_assert_eq(tw_unexp_find(ep, ALL, ALL)->state, TW_U_FETCHING);
		r = tw_req_new1(ep, TW_RECV, in, LONG);
		if (drop)
			tw_unexp_drop_all(ep, ALL, ALL);
		tw_recv_post(ep, r, 8, UINT64_MAX);
		progress();
		cr_assert_eq(drop, !(r->flags & TW_R_DONE));
		cr_assert_eq(tw_recv_cancel(ep, r), drop);
		if (!drop)
			cr_assert_eq(twt_check(in, LONG, 1), LONG);
		tw_req_free(ep, r);
		tw_req_free(ep, s);
		nothing_left();
	}
	ep->fetch_max = 0;
}

/* A state in which no request is to be had. */
static struct tw_pool_obj *kept;
static uint32_t most;

static void no_requests(void)
{
	kept = ep->reqs.free;
	most = ep->reqs.max_chunks;
	ep->reqs.free = NULL;
	ep->reqs.max_chunks = ep->reqs.nchunks;
	cr_assert_null(tw_req_new1(ep, TW_RECV, NULL, 0));
}

static void requests_again(void)
{
	ep->reqs.free = kept;
	ep->reqs.max_chunks = most;
}

/* The rest of a message whose first part was dropped goes nowhere, and its connection ends. */
Test(unexp, part_dropped_without_requests)
{
	struct tw_peer *p = ep->self;

	no_requests();
	cr_assert_eq(tw_recv_packet(p->link, tw_hdr_make(TW_EAGER, 0, 0, 300, 13), data, 100),
		     TW_OK);
	cr_assert_null(p->rx_unexp);
	cr_assert_eq(tw_recv_packet(p->link, tw_hdr_make(TW_FRAG, 0, 0, 0, 0), data, 200), TW_OK);
	cr_assert_eq(p->rx_len, 0);
	cr_assert_eq(nwhole, 0);
	requests_again();
	progress();
	cr_assert_eq(p->state, TW_PEER_DOWN);
	nothing_left();
}

/* The sender of one that was announced hears of it. */
Test(unexp, announcement_dropped_without_requests)
{
	struct tw_req *s = tw_req_new1(ep, TW_SEND, data, LONG);

	s->match = 13;
	tw_send(ep, s, ep->self->addr);
	no_requests();
	progress();
	requests_again();
	cr_assert(s->flags & TW_R_DONE);
	cr_assert_neq(s->status, TW_S_OK);
	tw_req_free(ep, s);
	nothing_left();
}

Test(unexp, fetch_dropped_without_requests)
{
	struct tw_req *s = tw_req_new1(ep, TW_SEND, data, LONG);

	ep->fetch_max = UINT64_MAX;
	s->match = 8;
	tw_send(ep, s, ep->self->addr);
	while (!tw_unexp_find(ep, ALL, ALL))
		ep->provs[0].ops->progress(ep->provs[0].instance);
	no_requests();
	tw_unexp_drop_all(ep, ALL, ALL);
	requests_again();
	progress();
	cr_assert((s->flags & TW_R_DONE) && s->status == TW_S_OK);
	cr_assert_eq(nwhole, 0, "the interface has dropped it");
	tw_req_free(ep, s);
	nothing_left();
	ep->fetch_max = 0;
}

Test(unexp, dropped_by_the_interface)
{
	struct tw_req *s = send(13, LONG), *t = send(13, SHORT);

	cr_assert(s->flags & t->flags & TW_R_DONE);
	tw_req_free(ep, s);
	tw_req_free(ep, t);
	nothing_left();
}

static void cancel(struct tw_ref ref, enum tw_err err)
{
	struct tw_hdr hdr = tw_hdr_make(TW_CANCEL, 0, 0, 0, tw_ref_pack(ref));

	ep->self->asked++; /* the reply comes here, too */
	cr_assert_eq(tw_recv_packet(ep->self->link, hdr, NULL, 0), err);
	progress();
	ep->self->asked = 0;
}

static void announce(struct tw_ref ref)
{
	const struct tw_rts rts = {.ref = ref};
	struct tw_hdr hdr = tw_hdr_make(TW_RTS, 0, 0, LONG, 4);

	cr_assert_eq(tw_recv_packet(ep->self->link, hdr, &rts, sizeof(rts)), TW_OK);
}

/* By its reference, beside many that have none, and beside another sender's. */
Test(unexp, cancelled_by_the_sender)
{
	static const struct tw_ref none, even = {3, 2}, some = {1u << 20, 1}, other = {1u << 20, 3};
	struct tw_peer *p = calloc(1, sizeof(*p));

	if (!TW_USES_SYNC)
		cr_skip_test("built without cancellation");
	for (int i = 0; i < 20; i++)
		tw_req_free(ep, send(4, SHORT));
	announce(some);
	announce(other);
	cr_assert_eq(tw_unexp_count(ep, ALL, ALL, false), 22);
	cancel(none, TW_EPROTO);
	cancel(even, TW_EPROTO);
	cancel(some, TW_OK);
	cancel(some, TW_OK);
	cr_assert_eq(tw_unexp_count(ep, ALL, ALL, false), 21);
	cr_assert_null(tw_match_find_named(ep->match, tw_unexp_name(ep->self, some)));
	cr_assert_not_null(tw_match_find_named(ep->match, tw_unexp_name(ep->self, other)));
	cr_assert_null(tw_match_find_named(ep->match, tw_unexp_name(p, other)));
	cancel(other, TW_OK);
	cr_assert_eq(tw_unexp_count(ep, ALL, ALL, true), 20);
	tw_unexp_drop_all(ep, ALL, ALL);
	progress();
	nothing_left();
	free(p);
}

/* More than the link holds at a time. */
Test(unexp, active_messages)
{
	enum { N = 3000 };

	for (uint64_t i = 0; i < N; i++) {
		struct tw_req *s = tw_req_new1(ep, TW_SEND, data, i % 2 ? SHORT : LONG);

		s->match = 100 + i;
		tw_send(ep, s, ep->self->addr);
		twt_fill(data, TW_AM_MAX, i);
		cr_assert_eq(tw_am_send(ep, ep->self->addr, i, data, (uint32_t)i % TW_AM_MAX),
			     TW_OK);
	}
	for (int i = 0; i < 100 && ams < N; i++)
		progress();
	cr_assert_eq(ams, N);
	cr_assert_geq(am_bytes, N / TW_AM_MAX * (TW_AM_MAX * (TW_AM_MAX - 1) / 2));
	cr_assert_eq(tw_unexp_count(ep, ALL, ALL, true), 0, "the first one is announced");
	tw_unexp_drop_all(ep, ALL, ALL);
	progress();
	nothing_left();
}

Test(unexp, active_messages_that_wait)
{
	enum { N = 3000 };
	size_t before = 0;

	am_alone = true;
	for (int round = 0; round < 2; round++) {
		before = mallinfo2().uordblks;
		ams = 0;
		for (uint64_t i = 0; i < N; i++) {
			twt_fill(data, TW_AM_MAX, i);
			cr_assert_eq(tw_am_send(ep, ep->self->addr, i, data, TW_AM_MAX), TW_OK);
		}
		cr_assert(!tw_list_empty(&ep->self->sendq));
		for (int i = 0; i < 100 && ams < N; i++)
			progress();
		cr_assert_eq(ams, N);
	}
	cr_assert_lt(mallinfo2().uordblks, before + N * TW_AM_MAX / 4, "their copies are freed");
}

/* A grant has all that its revocation needs. */
Test(unexp, window_ends_without_memory, .timeout = TWT_TIMEOUT)
{
	static char window[64], in[8];
	uint64_t key = 5, number;
	struct tw_req *r;

	if (!TW_USES_WINDOWS)
		cr_skip_test("built without windows");
	cr_assert_eq(tw_window_register(ep, window, sizeof(window), TW_WINDOW_READ, &key), TW_OK);
	r = tw_req_new1(ep, TW_READ, in, sizeof(in));
	tw_window_access(ep, r, ep->self->addr, key, 0);
	progress();
	cr_assert((r->flags & TW_R_DONE) && r->status == TW_S_OK);
	tw_req_free(ep, r);
	no_requests();
	number = tw_window_end(ep, key);
	cr_assert_eq(tw_window_wait(ep, number), TW_W_TRUE);
	requests_again();
}
