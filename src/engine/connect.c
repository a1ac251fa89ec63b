/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connecting. A peer has at most one attempt at a time, which serves all requests. If both sides
 * start at once, one attempt continues, and the other side waits for it: one by shared memory, else
 * that of the side with the smaller (NIC id, endpoint id, session). A failed attempt is repeated if
 * the request allows that the other endpoint opens later (TW_X_LATER).
 */
#include <stdio.h>

#include "base/inet.h"
#include "base/report.h"
#include "engine/engine.h"

#define CROSS_RETRY_US 20000 /* the other side's attempt may have failed */
#define FIRST_RETRY_US 2000  /* doubled at each failure, as somebody must mend the cause */
#define MOST_RETRY_US 1000000

static const uint8_t status_of[TW_NERRS] = {
	[TW_ENOMEM] = TW_S_NO_RESOURCES, [TW_EFILTER] = TW_S_BAD_KEY,
	[TW_ECLOSED] = TW_S_CLOSED,	 [TW_ELOST] = TW_S_LOST,
	[TW_ETIMEDOUT] = TW_S_TIMEOUT,	 [TW_EUNREACH] = TW_S_UNKNOWN,
	[TW_EPROTO] = TW_S_ABORTED,	 [TW_EPERM] = TW_S_REJECTED,
	[TW_EBUSY] = TW_S_REJECTED,	 [TW_EFAULT] = TW_S_REJECTED,
	[TW_EWINDOW] = TW_S_REJECTED,
};

static void connect_attempt(struct tw_peer *p);

enum tw_status tw_connect_status(enum tw_err err)
{
	return (enum tw_status)status_of[err];
}

static void end_request(struct tw_ep *ep, struct tw_req *r, enum tw_status status)
{
	tw_list_del(&r->link);
	tw_req_complete(ep, r, status);
}

static void again_after(struct tw_peer *p, uint32_t us)
{
	p->retry = tw_clock() + tw_clock_us(us);
	tw_timer(&p->ep->host, p->retry);
}

/* One that is only closed may be opened at any moment: the time between attempts grows slowly. */
static uint32_t later_us(struct tw_peer *p, enum tw_err why)
{
	bool closed = why == TW_ECLOSED && !p->trouble;
	uint64_t us = closed	       ? (p->failed + 1ull) * FIRST_RETRY_US
		      : p->failed < 10 ? (uint64_t)FIRST_RETRY_US << p->failed
				       : MOST_RETRY_US;

	if (us >= MOST_RETRY_US)
		return MOST_RETRY_US;
	p->failed++;
	return (uint32_t)us;
}

static void attempt_failed(struct tw_peer *p, enum tw_err why)
{
	bool ends;

	p->link = NULL;
	if (why == TW_ECROSS) {
		/* The attempt of the other side is in progress. */
		again_after(p, CROSS_RETRY_US);
		return;
	}
	tw_list_walk(&p->connects, struct tw_req, r, link) {
		if (why == TW_EFILTER && r->connect.presented != p->presented)
			continue;
		ends = why == TW_EFILTER || !(r->extra & TW_X_LATER);
		r->status = status_of[why];
		tw_failure_note(p, tw_connect_status(why), !ends || !(r->extra & TW_X_SAYS));
		if (ends)
			end_request(p->ep, r, (enum tw_status)r->status);
	}
	if (tw_list_empty(&p->connects)) {
		tw_peer_free(p);
	} else if (why == TW_EFILTER) {
		connect_attempt(p); /* another request may have the right filter */
	} else {
		tw_failure_again(p, why);
		again_after(p, later_us(p, why));
	}
}

static void connect_attempt(struct tw_peer *p)
{
	struct tw_ep *ep = p->ep;
	struct tw_ident me = ep->host.self;
	uint64_t nic_id = p->addr.where >> 16;
	uint32_t endpoint_id = p->addr.where & 0xffff;
	enum tw_err err = TW_EUNREACH;

	p->retry = 0;
	p->presented = tw_list_first(&p->connects, struct tw_req, link)->connect.presented;
	me.presented = p->presented;
	me.window = p->window = tw_peer_window(ep);
	for (unsigned i = 0; i < ep->nprovs; i++) {
		const struct tw_provider *ops = ep->provs[i].ops;
		struct tw_link *link;

		if (!ops->reaches(ep->provs[i].instance, nic_id, endpoint_id))
			continue;
		err = ops->connect(ep->provs[i].instance, &me, nic_id, endpoint_id, p, &link);
		if (err == TW_OK) {
			if (p->state == TW_PEER_CONNECTING)
				p->link = link;
			return;
		}
		/* A provider that reaches the host and finds no endpoint is authoritative. */
		if (err != TW_EPERM && err != TW_EUNREACH)
			break;
	}
	if (err == TW_EUNREACH && tw_nic_leads_nowhere(nic_id))
		tw_failure_trouble(&ep->host, p, err,
				   "that board of its host leads to no other host",
				   "connect to another one; mx_info there lists them");
	attempt_failed(p, err);
}

/* A request that presents the peer's filter may send to it. */
static void connect_complete(struct tw_peer *p, struct tw_req *r)
{
	r->other = p->addr;
	if (r->connect.presented == p->filter)
		tw_peer_admit(p);
	tw_req_complete(p->ep, r, r->connect.presented == p->filter ? TW_S_OK : TW_S_BAD_KEY);
}

/* The peer is known: completes all requests that wait for it. */
static void complete_all(struct tw_peer *p)
{
	struct tw_req *r;

	while ((r = tw_list_take(&p->connects, struct tw_req, link)))
		connect_complete(p, r);
}

/* Where a peer is: its process on this host, or its address. */
static void locate_peer(const struct tw_peer *p, char *out, size_t size)
{
	char address[INET6_ADDRSTRLEN];
	struct sockaddr_storage sa;

	if (p->link->pid)
		snprintf(out, size, "process %d", (int)p->link->pid);
	else if (TW_USES_NET && tw_nic_to_address(p->addr.where >> 16, &sa) == TW_OK)
		snprintf(out, size, "%s", tw_inet_text(&sa, address, sizeof(address)));
	else
		snprintf(out, size, "unknown address");
}

/* made: this side began. */
static void say_connected(const struct tw_peer *p, bool made)
{
	char who[TW_REPORT_SIZE], where[64], took[32] = "";
	const struct tw_link *l = p->link;

	if (tw_settings.log < TW_LOG_INFO)
		return;
	tw_failure_who(who, sizeof(who), p->ep, p->addr.where);
	locate_peer(p, where, sizeof(where));
	if (made)
		snprintf(took, sizeof(took), ", in %.3f ms",
			 (double)(tw_clock() - p->begun) / (1e3 * (double)tw_clock_per_us));
	tw_log(TW_LOG_INFO, "endpoint %u: %s %s by %s, board %u, %s%s",
	       p->ep->host.self.endpoint_id, made ? "connected to" : "accepted", who,
	       tw_link_name(l), l->driver ? l->board : p->ep->board, where, took);
}

struct tw_req *tw_connect_new(struct tw_ep *ep, uint64_t nic_id, uint32_t endpoint_id, uint32_t key,
			      uint64_t deadline)
{
	struct tw_req *r = tw_req_new1(ep, TW_CONNECT, NULL, 0);

	if (!r)
		return NULL;
	r->peer = NULL;
	r->msg_len = 0;
	r->other = (struct tw_addr){tw_where_at(nic_id, endpoint_id), 0, 0xfffff};
	r->connect.presented = key;
	r->connect.deadline = deadline;
	return r;
}

void tw_connect(struct tw_ep *ep, struct tw_req *r)
{
	struct tw_peer *p = tw_peer_find(ep, r->other.where);

	/* The peer is dead, and no poll has noticed it yet. */
	if (p && p->state == TW_PEER_UP && !p->link->provider->alive(p->link)) {
		tw_poll_events(ep);
		p = tw_peer_find(ep, r->other.where);
	}
	/* A dead peer stays up until all its packets are taken. */
	if (p && p->state == TW_PEER_UP && p->link->provider->alive(p->link)) {
		connect_complete(p, r);
		return;
	}
	if (r->connect.deadline != TW_FOREVER)
		tw_timer(&ep->host, r->connect.deadline);
	tw_timer(&ep->host, tw_clock() + tw_clock_us(TW_LONG_US));
	if (p) {
		tw_list_add_tail(&p->connects, &r->link);
		return;
	}
	p = tw_peer_new(ep, r->other.where);
	if (!p) {
		tw_req_complete(ep, r, TW_S_NO_RESOURCES);
		return;
	}
	tw_list_add_tail(&p->connects, &r->link);
	connect_attempt(p);
}

/* Gives up a connect that has no request left. */
static void connect_give_up(struct tw_peer *p)
{
	if (p->link)
		p->link->provider->disconnect(p->link);
	p->link = NULL;
	tw_peer_free(p);
}

void tw_connect_remove(struct tw_ep *ep, struct tw_req *r)
{
	struct tw_peer *p = tw_peer_find(ep, r->other.where);

	tw_list_del(&r->link);
	if (p && p->state == TW_PEER_CONNECTING && tw_list_empty(&p->connects))
		connect_give_up(p);
}

/* Between two attempts the last one says why. */
static void request_expired(struct tw_peer *p, struct tw_req *r)
{
	enum tw_status why = p->retry && r->status ? r->status : TW_S_TIMEOUT;

	tw_failure_note(p, why, !(r->extra & TW_X_SAYS));
	end_request(p->ep, r, why);
}

/* A request that has long to wait yet; how others end is said soon. */
static const struct tw_req *long_request(const struct tw_peer *p, uint64_t now)
{
	tw_list_walk(&p->connects, struct tw_req, r, link)
		if (r->extra & TW_X_LATER ||
		    r->connect.deadline > now + tw_clock_us(3ull * TW_LONG_US))
			return r;
	return NULL;
}

/* Says for whom the program waits. Returns the tick at which that is due, or 0. */
static uint64_t say_awaited(struct tw_peer *p, uint64_t now)
{
	uint64_t due = p->begun + tw_clock_us(TW_LONG_US);
	const struct tw_req *r = p->awaited ? NULL : long_request(p, now);
	enum tw_status why;

	if (!r || now < due)
		return r ? due : 0;
	p->awaited = true;
	why = r->status ? r->status : p->trouble ? p->trouble->why : TW_S_TIMEOUT;
	tw_failure_note(p, why, false);
	tw_failure_report(NULL, p->ep, p->addr.where, why);
	return 0;
}

static uint64_t expire_peer(struct tw_peer *p, uint64_t now)
{
	uint64_t next = 0;

	tw_list_walk(&p->connects, struct tw_req, r, link) {
		if (r->connect.deadline <= now)
			request_expired(p, r);
		else if (r->connect.deadline != TW_FOREVER)
			next = tw_earlier(next, r->connect.deadline);
	}
	if (tw_list_empty(&p->connects)) {
		connect_give_up(p);
		return next;
	}
	next = tw_earlier(next, say_awaited(p, now));
	if (p->retry && p->retry <= now)
		connect_attempt(p);
	return tw_earlier(next, p->state == TW_PEER_CONNECTING ? p->retry : 0);
}

uint64_t tw_connect_expire(struct tw_ep *ep, uint64_t now)
{
	uint64_t next = 0;

	for (uint32_t i = 0; i < ep->npeers; i++)
		if (ep->peers[i]->state == TW_PEER_CONNECTING)
			next = tw_earlier(next, expire_peer(ep->peers[i], now));
	return next;
}

/*
 * The requests that wait for a peer that is down connect again. The list is emptied first,
 * as the peer's slot may be reused at once.
 */
static void reconnect(struct tw_peer *p)
{
	struct tw_ep *ep = p->ep;
	struct tw_list waiting;
	struct tw_req *r;

	tw_list_init(&waiting);
	if (!tw_list_empty(&p->connects))
		tw_list_splice_tail(&waiting, &p->connects);
	while ((r = tw_list_take(&waiting, struct tw_req, link)))
		tw_connect(ep, r);
}

static bool connect_before(const struct tw_ident *a, const struct tw_ident *b)
{
	if (a->nic_id != b->nic_id)
		return a->nic_id < b->nic_id;
	if (a->endpoint_id != b->endpoint_id)
		return a->endpoint_id < b->endpoint_id;
	return a->session < b->session;
}

/*
 * Of two attempts that cross, whether the other side's stands. One by shared memory does: only
 * one of two containers may have found the other there.
 */
static bool incoming_stands(const struct tw_link *in, const struct tw_ident *other,
			    const struct tw_link *out, const struct tw_ident *me)
{
	bool near = in->provider->wake;

	return near != (out->provider->wake != NULL) ? near : connect_before(other, me);
}

enum tw_err tw_connect_incoming(struct tw_host *host, struct tw_link *link,
				const struct tw_ident *other, struct tw_ident *me)
{
	struct tw_ep *ep = tw_container(host, struct tw_ep, host);
	struct tw_peer *p;

	if (other->presented != host->self.filter) {
		ep->counters[TW_C_REFUSED_KEY]++;
		return TW_EFILTER;
	}
	if (other->endpoint_id > UINT16_MAX || other->nic_id >> 48)
		return TW_EPROTO;
	if (ep->iface->admits && !ep->iface->admits(ep, tw_where(other))) {
		ep->counters[TW_C_REFUSED]++;
		return TW_EPERM;
	}
	p = tw_peer_find(ep, tw_where(other));
	if (p && p->state == TW_PEER_UP) {
		/*
		 * Either the second half of a crossing that is already settled, or an
		 * endpoint that takes the name of a live peer. One that was restarted tries
		 * again.
		 */
		if (p->link->provider->alive(p->link))
			return TW_ECROSS;
		p->link->provider->disconnect(p->link);
		tw_peer_down(p, TW_S_LOST);
		/* If a request waited for the peer to end, this is now a crossing. */
		reconnect(p);
		p = tw_peer_find(ep, tw_where(other));
	}
	if (p && p->link) {
		if (!incoming_stands(link, other, p->link, &host->self))
			return TW_ECROSS;
		p->link->provider->disconnect(p->link);
		p->link = NULL;
	}
	if (!p)
		p = tw_peer_new(ep, tw_where(other));
	if (!p) {
		ep->counters[TW_C_REFUSED]++;
		return TW_ENOMEM;
	}
	me->window = p->window = tw_peer_window(ep);
	link->peer = p;
	ep->counters[TW_C_ACCEPT]++;
	tw_peer_up(p, link, other);
	if (other->filter != host->self.filter)
		tw_peer_bar(p);
	say_connected(p, false);
	complete_all(p);
	return TW_OK;
}

void tw_connect_done(struct tw_link *link, const struct tw_ident *other)
{
	struct tw_peer *p = link->peer;

	p->ep->counters[TW_C_CONNECT]++;
	tw_peer_up(p, link, other);
	if (p->addr.where != tw_where(&p->ep->host.self))
		say_connected(p, true);
	complete_all(p);
}

void tw_connect_refused(struct tw_link *link, enum tw_err why)
{
	attempt_failed(link->peer, why);
}

void tw_connect_down(struct tw_link *link, enum tw_err why)
{
	struct tw_peer *p = link->peer;

	p->ep->counters[TW_C_PEER_LOST]++;
	/* The end of a peer that was connected is told by its status. */
	tw_failure_note(p, why == TW_ECLOSED ? TW_S_CLOSED : TW_S_LOST,
			!tw_list_empty(&p->connects));
	tw_peer_down(p, why == TW_ECLOSED ? TW_S_CLOSED : TW_S_LOST);
	reconnect(p);
}

void tw_disconnect(struct tw_peer *p)
{
	if (p->state != TW_PEER_UP)
		return;
	p->link->provider->disconnect(p->link);
	tw_peer_down(p, TW_S_CLOSED);
	p->why = TW_S_BAD_SESSION;
	reconnect(p);
}
