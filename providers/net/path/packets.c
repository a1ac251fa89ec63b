/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbered packets: kept until acknowledged, sent again after a loss. */
#include <string.h>

#include "base/copy.h"
#include "base/counters.h"
#include "providers/net/session.h"

#define ACK_AFTER 64	  /* packets; a long one counts as three */
#define ACK_DELAY_US 2000 /* a packet back may carry it until then */
#define GAP_US 20000	  /* between two reports of a missing packet */

static bool packet_before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

/* The session layer needs the packet no more. */
static void packet_let_go(struct tw_net_packet *p)
{
	p->link = NULL;
	tw_net_packet_put(p);
}

static struct tw_net_wire *wire_of(const struct tw_net_packet *p)
{
	return (struct tw_net_wire *)(void *)p->data;
}

void tw_net_failed(void *owner, struct tw_net_packet *p)
{
	struct tw_net_link *l = p->link;
	struct tw_net_path *path = l ? tw_net_path_since(l, p->epoch) : NULL;

	if (path && path->way.adapter == owner && path->bound)
		tw_net_path_broken(l, path);
}

static bool packet_can_send(const struct tw_net_link *l, enum tw_send_class cls, uint32_t len)
{
	unsigned reserve = tw_send_reserved(cls) ? 0 : TW_NET_RESERVE;

	return l->nkept < TW_NET_WINDOW - reserve &&
	       (len <= TW_NET_SMALL || l->nbig < TW_NET_BIG_WINDOW || tw_send_reserved(cls));
}

enum tw_err tw_net_send(struct tw_link *link, enum tw_send_class cls, struct tw_hdr hdr,
			const struct iovec *iov, unsigned niov, uint32_t len)
{
	struct tw_net_link *l = tw_container(link, struct tw_net_link, link);
	struct tw_net_packet *p = NULL;
	char *to;

	if (tw_unlikely(l->state != TW_NET_UP))
		return TW_ELOST;
	if (packet_can_send(l, cls, len))
		p = tw_net_packet_get(l->first->way.adapter, len > TW_NET_SMALL);
	if (!p) {
		l->blocked = true;
		return TW_AGAIN;
	}
	p->link = l;
	p->len = (uint32_t)sizeof(struct tw_net_wire) + len;
	*wire_of(p) = (struct tw_net_wire){
		.conn = l->peer_conn, .seq = l->next_seq++, .kind = TW_NET_DATA, .hdr = hdr};
	to = p->data + sizeof(struct tw_net_wire);
	for (unsigned i = 0; i < niov; i++) {
		tw_copy(to, iov[i].iov_base, iov[i].iov_len);
		to += iov[i].iov_len;
	}
	l->ep->host->counters[TW_C_COPIED] += len;
	if (tw_list_empty(&l->kept)) {
		l->progress = tw_clock();
		tw_net_timer(l->ep, l->progress + tw_clock_us(TW_NET_STATUS_US));
	}
	tw_list_add_tail(&l->kept, &p->node);
	l->nkept++;
	l->nbig += p->slab->big;
	if (l->unposted == &l->kept)
		l->unposted = &p->node;
	if (cls == TW_SEND_MORE)
		tw_net_work(l);
	else
		tw_net_flush(l);
	return TW_OK;
}

/* Hands one packet to the driver; false: not taken. */
static bool packet_post(struct tw_net_link *l, struct tw_net_path *path, struct tw_net_packet *p,
			bool more)
{
	enum tw_err err;

	p->epoch = path->epoch;
	wire_of(p)->ack = l->expected;
	err = path->way.adapter->driver->send(path->path, p, more);
	if (err == TW_OK) {
		l->unacked = 0;
		return true;
	}
	if (err != TW_AGAIN)
		tw_net_path_broken(l, path);
	return false;
}

/* Whether it can be sent from where it lies: no other user, memory of this driver. */
static bool in_place(const struct tw_net_link *l, const struct tw_net_packet *p)
{
	return p->users == 1 && p->slab->owner == l->first->way.adapter && p->slab->ready;
}

/* Puts a copy in the place of a packet that cannot be sent itself; NULL: not now. */
static struct tw_net_packet *packet_replace(struct tw_net_link *l, struct tw_net_packet *p)
{
	struct tw_net_packet *copy = tw_net_packet_ready(l->first->way.adapter, p->slab->big);

	if (!copy)
		return NULL;
	copy->link = l;
	copy->len = p->len;
	tw_copy(copy->data, p->data, p->len);
	l->ep->host->counters[TW_C_COPIED] += p->len;
	tw_list_add_tail(&p->node, &copy->node);
	tw_list_del(&p->node);
	l->unposted = &copy->node;
	packet_let_go(p);
	return copy;
}

bool tw_net_send_plain(struct tw_net_link *l, struct tw_net_path *path, enum tw_net_kind kind)
{
	struct tw_net_packet *p;
	bool done;

	if (!path->path)
		return false;
	p = tw_net_packet_ready(path->way.adapter, false);
	if (!p)
		return false;
	/* Not free, even if the driver is closed in between. */
	p->link = l;
	p->len = sizeof(struct tw_net_wire);
	*wire_of(p) = (struct tw_net_wire){.conn = l->peer_conn, .kind = kind};
	done = packet_post(l, path, p, false);
	packet_let_go(p);
	return done;
}

/*
 * A peer that has hung up gets no acknowledgement along the path: if the process is
 * gone the system would break the path, and packets that are still to be read be lost.
 */
void tw_net_send_ack(struct tw_net_link *l)
{
	if (!l->first->bound)
		return;
	if (l->state == TW_NET_UP && l->channel == TW_NET_OPEN && tw_net_sock_alive(l)) {
		tw_net_send_plain(l, l->first, TW_NET_ACK);
	} else {
		l->unacked = 0;
		tw_net_ctrl_send(l, TW_NET_STATUS, TW_OK);
	}
}

static bool next_follows(const struct tw_net_link *l, const struct tw_list *next)
{
	return next != &l->kept && tw_container(next, struct tw_net_packet, node)->users == 1;
}

static void answer_probes(struct tw_net_link *l)
{
	l->probed = false;
	for (unsigned i = 0; i < l->npaths; i++) {
		struct tw_net_path *p = &l->paths[i];

		p->probed = p->probed && p->path && !tw_net_send_plain(l, p, TW_NET_PROBED);
		l->probed |= p->probed;
	}
}

void tw_net_flush(struct tw_net_link *l)
{
	struct tw_net_path *path;

	if (tw_unlikely(l->probed))
		answer_probes(l);
	path = l->first;
	while (path->bound && !path->probed && l->unposted != &l->kept) {
		struct tw_net_packet *p = tw_container(l->unposted, struct tw_net_packet, node);
		struct tw_list *next = p->node.next;

		if (tw_unlikely(!in_place(l, p))) {
			/* Under way along this path already: it arrives, or the path breaks. */
			if (p->users > 1 && p->epoch == path->epoch) {
				l->unposted = next;
				continue;
			}
			p = packet_replace(l, p);
		}
		/* The path that follows a broken one starts with the first packet kept. */
		if (!p || !packet_post(l, path, p, next_follows(l, next)))
			break;
		l->unposted = next;
	}
	if (l->probed || (path->bound && l->unposted != &l->kept))
		tw_net_work(l);
}

/* Sends, or BYE, waited for acknowledgements. */
static void packet_go_on(struct tw_net_link *l)
{
	if (l->state == TW_NET_LEAVING) {
		if (tw_list_empty(&l->kept))
			tw_net_goodbye(l);
		return;
	}
	l->blocked = false;
	l->ep->host->up->wake(l->ep->host);
}

void tw_net_acked(struct tw_net_link *l, uint32_t ack)
{
	bool any = false;

	if (packet_before(l->next_seq, ack))
		return;
	while (!tw_list_empty(&l->kept)) {
		struct tw_net_packet *p = tw_list_first(&l->kept, struct tw_net_packet, node);

		if (!packet_before(wire_of(p)->seq, ack))
			break;
		if (l->unposted == &p->node)
			l->unposted = p->node.next;
		tw_list_del(&p->node);
		l->nkept--;
		l->nbig -= p->slab->big;
		packet_let_go(p);
		any = true;
	}
	if (!any)
		return;
	l->progress = tw_clock();
	l->nasked = 0;
	if (l->blocked)
		packet_go_on(l);
}

void tw_net_resend(struct tw_net_link *l, uint32_t expected)
{
	tw_net_acked(l, expected);
	if (l->unposted != l->kept.next)
		l->ep->host->counters[TW_C_RESENT]++;
	l->unposted = l->kept.next;
	tw_net_flush(l);
}

void tw_net_packets_drop(struct tw_net_link *l)
{
	while (!tw_list_empty(&l->kept)) {
		struct tw_net_packet *p = tw_list_first(&l->kept, struct tw_net_packet, node);

		tw_list_del(&p->node);
		packet_let_go(p);
	}
	l->unposted = &l->kept;
	l->nkept = l->nbig = 0;
}

/* Acknowledges later, with a packet back if there is one. */
static void defer_ack(struct tw_net_link *l, uint32_t weight)
{
	struct tw_net_ep *ep = l->ep;

	l->unacked += weight;
	if (l->unacked >= ACK_AFTER)
		tw_net_send_ack(l);
	else if (!ep->ack_at)
		ep->ack_at = tw_net_in(ep, ACK_DELAY_US);
}

static void missing(struct tw_net_link *l)
{
	uint64_t now = tw_clock();

	if (l->gap_at && now - l->gap_at < tw_clock_us(GAP_US))
		return;
	l->gap_at = now;
	tw_net_ctrl_send(l, TW_NET_STATUS, TW_AGAIN);
}

static void malformed(struct tw_net_link *l, const struct tw_net_wire *w, uint32_t len)
{
	tw_log(TW_LOG_WARN, "endpoint %u sent nonsense: %016llx %016llx, %u bytes",
	       l->other.endpoint_id, (unsigned long long)w->hdr.what,
	       (unsigned long long)w->hdr.match, len);
	l->ep->host->counters[TW_C_BAD_PACKET]++;
	tw_net_ctrl_send(l, TW_NET_BYE, TW_EPROTO);
	tw_net_link_fail(l, TW_EPROTO);
}

/* The engine has left the link. The other side may be leaving it, too, and waits for this. */
static void packet_acknowledge(struct tw_net_link *l, uint32_t seq)
{
	if (l->state != TW_NET_LEAVING || packet_before(l->expected, seq))
		return;
	l->expected += seq == l->expected;
	defer_ack(l, 1);
}

/* A numbered packet. False: the engine cannot take it now. */
static bool data(struct tw_net_link *l, const struct tw_net_wire *w, const void *payload,
		 uint32_t len)
{
	struct tw_net_ep *ep = l->ep;
	enum tw_err err;

	if (l->state != TW_NET_UP && l->state != TW_NET_DRAIN) {
		packet_acknowledge(l, w->seq);
		return true;
	}
	if (packet_before(w->seq, l->expected)) {
		ep->host->counters[TW_C_DUPLICATE]++;
		defer_ack(l, 1);
		return true;
	}
	if (w->seq != l->expected) {
		missing(l);
		return true;
	}
	err = ep->host->up->packet(&l->link, w->hdr, payload, len);
	if (l->state != TW_NET_UP && l->state != TW_NET_DRAIN)
		return true;
	if (err == TW_AGAIN)
		return false;
	if (err != TW_OK) {
		malformed(l, w, len);
		return true;
	}
	l->expected++;
	l->gap_at = 0;
	ep->taken++;
	defer_ack(l, len > TW_NET_SMALL ? 3 : 1);
	if (l->state == TW_NET_DRAIN) {
		l->last_rx = tw_clock();
		if (l->orderly && l->expected == l->final)
			tw_net_link_drain(l, l->why);
	}
	return true;
}

bool tw_net_packet(void *owner, const void *path, const void *packet, uint32_t len)
{
	struct tw_net_adapter *a = owner;
	struct tw_net_path *p;
	struct tw_net_wire w;
	struct tw_net_link *l;

	a->ep->packets++;
	if (len < sizeof(w))
		return true;
	memcpy(&w, packet, sizeof(w));
	len -= (uint32_t)sizeof(w);
	l = tw_net_link_find(a->ep, w.conn);
	/* It must have come along a path of the link that it names. */
	p = l ? tw_net_path_of(l, a, path) : NULL;
	if (!p || len > l->link.max_payload)
		return true;
	tw_net_acked(l, w.ack);
	switch (w.kind) {
	case TW_NET_DATA:
		return data(l, &w, (const char *)packet + sizeof(w), len);
	case TW_NET_PROBE:
	case TW_NET_PROBED:
		tw_net_probed(l, p, w.kind == TW_NET_PROBE);
		break;
	}
	return true;
}
