/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbered packets: kept until acknowledged, sent again when they got lost. */
#include <stdlib.h>
#include <string.h>

#include "base/copy.h"
#include "base/counters.h"
#include "providers/net/session.h"

#define SLAB_SMALL 64
#define SLAB_BIG 8
#define ACK_AFTER 64	  /* packets, or a third as many long ones */
#define ACK_DELAY_US 2000 /* in which an answer may carry the acknowledgement */
#define GAP_US 20000	  /* before telling again that a packet is missing */

struct slab {
	struct tw_list node;
	bool big;
	_Alignas(TW_LINE) char packets[];
};

static size_t packet_size(bool big, uint32_t max_payload)
{
	size_t room = big ? max_payload : TW_NET_SMALL;

	return (sizeof(struct tw_net_packet) + room + TW_LINE - 1) & ~(size_t)(TW_LINE - 1);
}

static struct tw_net_packet *slab_packet(struct slab *s, unsigned i)
{
	return (void *)(s->packets + i * packet_size(s->big, TW_NET_PAYLOAD));
}

static bool add_slab(struct tw_net_ep *ep, bool big)
{
	unsigned n = big ? SLAB_BIG : SLAB_SMALL;
	struct slab *s = aligned_alloc(TW_LINE, sizeof(*s) + n * packet_size(big, TW_NET_PAYLOAD));

	if (!s)
		return false;
	s->big = big;
	tw_list_add_tail(&ep->slabs, &s->node);
	for (unsigned i = 0; i < n; i++) {
		struct tw_net_packet *p = slab_packet(s, i);

		p->big = big;
		p->link = NULL;
		memset(p->posted, 0, sizeof(p->posted));
		tw_list_add_tail(big ? &ep->free_big : &ep->free_small, &p->node);
	}
	return true;
}

void tw_net_slabs_free(struct tw_net_ep *ep)
{
	struct tw_list *n, *tmp;

	tw_list_each(&ep->slabs, n, tmp)
		free(tw_container(n, struct slab, node));
}

static struct tw_net_packet *packet_get(struct tw_net_ep *ep, bool big)
{
	struct tw_list *list = big ? &ep->free_big : &ep->free_small;
	struct tw_net_packet *p;

	if (tw_list_empty(list) && !add_slab(ep, big))
		return NULL;
	p = tw_list_first(list, struct tw_net_packet, node);
	tw_list_del(&p->node);
	return p;
}

static bool in_use(const struct tw_net_packet *p)
{
	static const uint8_t none[TW_NET_DRIVERS];

	return p->link || memcmp(p->posted, none, sizeof(none)) != 0;
}

/* Back to the free ones, unless a driver still has its memory. */
static void packet_put(struct tw_net_ep *ep, struct tw_net_packet *p)
{
	p->link = NULL;
	if (in_use(p))
		return;
	/* The front again: what was used last is in the cache. */
	tw_list_add_tail((p->big ? &ep->free_big : &ep->free_small)->next, &p->node);
}

void tw_net_sent(void *owner, void *cookie, bool ok)
{
	struct tw_net_adapter *a = owner;
	struct tw_net_packet *p = cookie;
	struct tw_net_link *l = p->link;

	p->posted[tw_net_index(a)]--;
	if (!l)
		packet_put(a->ep, p);
	else if (!ok && l->adapter == a && l->bound)
		tw_net_path_broken(l);
}

bool tw_net_any_posted(const struct tw_net_link *l)
{
	static const uint8_t none[TW_NET_DRIVERS];
	struct tw_list *n, *tmp;

	tw_list_each(&l->kept, n, tmp) {
		const struct tw_net_packet *p = tw_container(n, struct tw_net_packet, node);

		if (memcmp(p->posted, none, sizeof(none)) != 0)
			return true;
	}
	return false;
}

void tw_net_unpost(struct tw_net_adapter *a)
{
	struct tw_list *n, *tmp;

	tw_list_each(&a->ep->slabs, n, tmp) {
		struct slab *s = tw_container(n, struct slab, node);

		for (unsigned i = 0; i < (s->big ? SLAB_BIG : SLAB_SMALL); i++) {
			struct tw_net_packet *p = slab_packet(s, i);

			if (!p->posted[tw_net_index(a)])
				continue;
			p->posted[tw_net_index(a)] = 0;
			if (!p->link)
				packet_put(a->ep, p);
		}
	}
}

bool tw_net_can_send(const struct tw_net_link *l, enum tw_send_class cls, uint32_t len)
{
	unsigned reserve = tw_send_reserved(cls) ? 0 : TW_NET_RESERVE;

	return l->nkept < TW_NET_WINDOW - reserve &&
	       (len <= TW_NET_SMALL || l->nbig < TW_NET_BIG_WINDOW || tw_send_reserved(cls));
}

enum tw_err tw_net_send(struct tw_net_link *l, enum tw_send_class cls, struct tw_hdr hdr,
			const struct iovec *iov, unsigned niov, uint32_t len)
{
	struct tw_net_packet *p = NULL;
	char *to;

	if (tw_unlikely(l->state != TW_NET_UP))
		return TW_ELOST;
	if (tw_net_can_send(l, cls, len))
		p = packet_get(l->ep, len > TW_NET_SMALL);
	if (!p) {
		l->blocked = true;
		return TW_AGAIN;
	}
	p->link = l;
	p->len = (uint32_t)sizeof(p->wire) + len;
	p->wire = (struct tw_net_wire){
		.conn = l->peer_conn, .seq = l->next_seq++, .kind = TW_NET_DATA, .hdr = hdr};
	to = p->payload;
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
	l->nbig += p->big;
	if (l->unposted == &l->kept)
		l->unposted = &p->node;
	if (cls == TW_SEND_MORE)
		tw_net_work(l);
	else
		tw_net_flush(l);
	return TW_OK;
}

/* Hands one packet to the driver; false when that did not work out. */
static bool post(struct tw_net_link *l, struct tw_net_packet *p, bool more)
{
	enum tw_err err;

	p->wire.ack = l->expected;
	err = l->adapter->driver->send(l->path, &p->wire, p->len, more, p);
	if (err == TW_PENDING)
		p->posted[tw_net_index(l->adapter)]++;
	if (err == TW_OK || err == TW_PENDING) {
		l->unacked = 0;
		return true;
	}
	if (err != TW_AGAIN)
		tw_net_path_broken(l);
	return false;
}

/* A packet outside the sequence; false: not now. */
static bool send_plain(struct tw_net_link *l, enum tw_net_kind kind)
{
	struct tw_net_packet *p;
	bool done;

	if (!l->path)
		return false;
	p = packet_get(l->ep, false);
	if (!p)
		return false;
	p->len = sizeof(p->wire);
	p->wire = (struct tw_net_wire){.conn = l->peer_conn, .kind = kind};
	done = post(l, p, false);
	packet_put(l->ep, p);
	return done;
}

void tw_net_send_plain(struct tw_net_link *l, enum tw_net_kind kind)
{
	send_plain(l, kind);
}

/*
 * To somebody who has hung up not along the path: where he is gone the system
 * answers by breaking it, and what he had sent before would be lost with it.
 */
void tw_net_send_ack(struct tw_net_link *l)
{
	if (!l->bound)
		return;
	if (l->state == TW_NET_UP && l->sock >= 0 && !l->dialing && tw_net_sock_alive(l)) {
		send_plain(l, TW_NET_ACK);
	} else {
		l->unacked = 0;
		tw_net_ctrl_send(l, TW_NET_STATUS, TW_OK);
	}
}

void tw_net_flush(struct tw_net_link *l)
{
	if (l->probed && l->path)
		l->probed = !send_plain(l, TW_NET_PROBED);
	while (l->bound && !l->probed && l->unposted != &l->kept) {
		struct tw_list *next = l->unposted->next;

		/* A path that breaks begins anew with the first one kept. */
		if (!post(l, tw_container(l->unposted, struct tw_net_packet, node),
			  next != &l->kept))
			break;
		l->unposted = next;
	}
	if (l->probed || (l->bound && l->unposted != &l->kept))
		tw_net_work(l);
}

void tw_net_acked(struct tw_net_link *l, uint32_t ack)
{
	bool any = false;

	if (tw_net_before(l->next_seq, ack))
		return;
	while (!tw_list_empty(&l->kept)) {
		struct tw_net_packet *p = tw_list_first(&l->kept, struct tw_net_packet, node);

		if (!tw_net_before(p->wire.seq, ack))
			break;
		if (l->unposted == &p->node)
			l->unposted = p->node.next;
		tw_list_del(&p->node);
		l->nkept--;
		l->nbig -= p->big;
		packet_put(l->ep, p);
		any = true;
	}
	if (!any)
		return;
	l->progress = tw_clock();
	l->nasked = 0;
	if (l->blocked) {
		l->blocked = false;
		l->ep->host->up->wake(l->ep->host);
	}
}

void tw_net_resend(struct tw_net_link *l, uint32_t expected)
{
	tw_net_acked(l, expected);
	if (l->unposted != l->kept.next)
		l->ep->host->counters[TW_C_REPLAY]++;
	l->unposted = l->kept.next;
	tw_net_flush(l);
}

void tw_net_packets_drop(struct tw_net_link *l)
{
	while (!tw_list_empty(&l->kept)) {
		struct tw_net_packet *p = tw_list_first(&l->kept, struct tw_net_packet, node);

		tw_list_del(&p->node);
		packet_put(l->ep, p);
	}
	l->unposted = &l->kept;
	l->nkept = l->nbig = 0;
}

/* The other side learns some time that they have come. */
static void defer_ack(struct tw_net_link *l, uint32_t weight)
{
	struct tw_net_ep *ep = l->ep;

	l->unacked += weight;
	if (l->unacked >= ACK_AFTER) {
		tw_net_send_ack(l);
	} else if (!ep->ack_at) {
		ep->ack_at = tw_clock() + tw_clock_us(ACK_DELAY_US);
		tw_net_timer(ep, ep->ack_at);
	}
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

/* One that counts. False: the engine cannot take it now. */
static bool data(struct tw_net_link *l, const struct tw_net_wire *w, const void *payload,
		 uint32_t len)
{
	struct tw_net_ep *ep = l->ep;
	enum tw_err err;

	if (l->state != TW_NET_UP && l->state != TW_NET_DRAIN)
		return true;
	if (tw_net_before(w->seq, l->expected)) {
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

bool tw_net_packet(void *owner, const void *packet, uint32_t len)
{
	struct tw_net_adapter *a = owner;
	struct tw_net_wire w;
	struct tw_net_link *l;

	a->ep->packets++;
	if (len < sizeof(w))
		return true;
	memcpy(&w, packet, sizeof(w));
	len -= (uint32_t)sizeof(w);
	l = tw_net_link_find(a->ep, w.conn);
	if (!l || len > l->link.max_payload)
		return true;
	tw_net_acked(l, w.ack);
	switch (w.kind) {
	case TW_NET_DATA:
		return data(l, &w, (const char *)packet + sizeof(w), len);
	case TW_NET_PROBE:
		tw_net_probed(l, a, true);
		break;
	case TW_NET_PROBED:
		tw_net_probed(l, a, false);
		break;
	}
	return true;
}
