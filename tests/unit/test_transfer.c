/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of transfers: what each state takes, and that every packet in every state
 * either does that or is a protocol error that changes nothing.
 */
#include <criterion/criterion.h>

#include "engine/window_internal.h"
#include "lib/twt.h"
#include "unit/peer_kit.h"

#define BIT(event) (1ull << (event))
#define LEN 100u

#define HAS_SENT (BIT(TW_ON_ACK) | BIT(TW_ON_CANCELLED))
#define DECIDES (BIT(TW_ON_CTS) | BIT(TW_ON_DONE) | BIT(TW_ON_DONE_FAILED) | BIT(TW_ON_CANCELLED))

/* What a peer may send to a request in each state: all else breaks the protocol. */
static const uint64_t packets[TW_NXFERS] = {
	[TW_XFER_UNMATCHED] = HAS_SENT,
	[TW_XFER_ANNOUNCED] = DECIDES,
	[TW_XFER_COPYING] = BIT(TW_ON_DATA),
};

static enum tw_transfer next(unsigned state, unsigned event)
{
	return (enum tw_transfer)tw_transfer_rules[state][event].next;
}

Test(transfer, packets)
{
	for (unsigned s = 0; s < TW_NXFERS; s++)
		for (unsigned e = TW_ON_CTS; e < TW_NONS; e++)
			cr_assert_eq(next(s, e) != TW_XFER_NONE, packets[s] >> e & 1,
				     "state %u, packet %u", s, e);
}

/* Requests begin in one way each, and only what has begun goes on. */
Test(transfer, beginnings)
{
	for (unsigned s = 0; s < TW_NXFERS; s++)
		for (unsigned e = 0; e < TW_NONS; e++) {
			bool rule = next(s, e) != TW_XFER_NONE;

			if (s == TW_XFER_NONE)
				cr_assert_eq(rule, e <= TW_ON_ACCESS, "event %u", e);
			else
				cr_assert(!rule || (e > TW_ON_ACCESS && s != TW_XFER_OVER));
		}
}

/* Every state can be reached, and left until the request is over. */
Test(transfer, no_dead_ends)
{
	bool reached[TW_NXFERS] = {[TW_XFER_NONE] = true}, ends[TW_NXFERS] = {false};

	ends[TW_XFER_OVER] = true;
	for (unsigned round = 0; round < TW_NXFERS; round++)
		for (unsigned s = 0; s < TW_NXFERS; s++)
			for (unsigned e = 0; e < TW_NONS; e++) {
				enum tw_transfer to = next(s, e);

				if (to == TW_XFER_NONE)
					continue;
				cr_assert_lt(to, TW_NXFERS);
				reached[to] |= reached[s];
				ends[s] |= ends[to];
			}
	for (unsigned s = 0; s < TW_NXFERS; s++)
		cr_assert(reached[s] && ends[s], "state %u", s);
}

/* However gets end, there is a rule where they may be under way. */
Test(transfer, outcomes)
{
	static const uint8_t all_begun[] = {TW_XFER_DRAINING, TW_XFER_ACCESS_DRAINING};

	for (unsigned s = 0; s < TW_NXFERS; s++)
		cr_assert(!next(s, TW_ON_ISSUED) || next(next(s, TW_ON_ISSUED), TW_ON_GOT));
	for (unsigned i = 0; i < sizeof(all_begun); i++)
		for (unsigned e = TW_ON_GOT; e <= TW_ON_FAULT; e++)
			cr_assert(e == TW_ON_GOT_NOTIFY || next(all_begun[i], e));
}

/* A peer that sends what it likes ---------------------------------------------- */

static struct tw_link net;
static char memory[LEN];

static enum tw_err no_room(struct tw_link *link, enum tw_send_class cls, struct tw_hdr hdr,
			   const struct iovec *iov, unsigned niov, uint32_t len)
{
	(void)link, (void)cls, (void)hdr, (void)iov, (void)niov, (void)len;
	return TW_AGAIN;
}

static bool computes(struct tw_link *link, uint64_t since)
{
	(void)link, (void)since;
	return false;
}

static const struct tw_provider silent = {.name = "silent", .send = no_room, .polls = computes};

static void start(void)
{
	net = (struct tw_link){.provider = &silent, .by_cpu = true, .can_get = true};
	peer_kit_begin(&net);
}

TestSuite(transfer_peer, .init = start, .fini = peer_kit_end, .timeout = TWT_TIMEOUT);

/* A request that may be in any state. */
static struct tw_req *request(enum tw_transfer state)
{
	bool sends = state >= TW_XFER_UNMATCHED && state <= TW_XFER_SENDING;
	struct tw_req *r = tw_req_new1(ep, sends ? TW_SEND : TW_RECV, memory, LEN);

	cr_assert_not_null(r);
	r->flags |= TW_R_ASKED;
	r->peer = peer;
	r->xfer_len = r->msg_len = LEN;
	r->status = TW_S_CANCELLED;
	cr_assert(tw_transfer_keep(r, (uintptr_t)memory, NULL, 0));
	tw_list_add_tail(&peer->waiting, &r->link);
	r->state = (uint8_t)state;
	r->active = false;
	peer->asked = 1;
	ep->nactive = 0;
	return r;
}

/* A packet, good in all but when it comes. */
static enum tw_err offer(const struct tw_req *r, enum tw_transfer_event e)
{
	static const struct {
		uint8_t type, flags, payload;
	} of[TW_NONS] = {
		[TW_ON_CTS] = {TW_CTS, 0, sizeof(struct tw_ref)},
		[TW_ON_DONE] = {TW_DONE, TW_DONE_OK, 0},
		[TW_ON_DONE_FAILED] = {TW_DONE, TW_DONE_FAILED, 0},
		[TW_ON_ACK] = {TW_ACK, 0, 0},
		[TW_ON_DATA] = {TW_DATA, 0, 1},
		[TW_ON_CANCELLED] = {TW_CANCELLED, TW_CANCEL_OK, 0},
	};
	struct tw_ref ref = {1, 1};
	struct tw_hdr hdr = tw_hdr_make(of[e].type, of[e].flags, 0, e == TW_ON_DATA ? 0 : LEN,
					tw_ref_pack((struct tw_ref){r->obj.index, r->obj.gen}));

	return tw_recv_packet(&net, hdr, &ref, of[e].payload);
}

Test(transfer_peer, every_packet_in_every_state)
{
	for (unsigned s = 0; s < TW_NXFERS; s++)
		for (unsigned e = TW_ON_CTS; e < TW_NONS; e++) {
			struct tw_req *r, before;
			enum tw_err err;

			if (s == TW_XFER_OVER || (e == TW_ON_CANCELLED && !TW_USES_SYNC))
				continue;
			r = request((enum tw_transfer)s);
			before = *r;
			err = offer(r, (enum tw_transfer_event)e);
			cr_assert_eq(err, packets[s] >> e & 1 ? TW_OK : TW_EPROTO,
				     "state %u, packet %u: %u", s, e, err);
			if (err != TW_OK)
				cr_assert(!memcmp(&before, r, sizeof(before)),
					  "state %u, packet %u changes something", s, e);
			else if (next(s, e) == TW_XFER_OVER)
				cr_assert(r->flags & TW_R_DONE);
			tw_req_put(ep, r);
		}
}

/* While this program computes its service thread reads the data of a sender that computes. */
Test(transfer_peer, computing)
{
	static char large[8 << 20];
	struct tw_ref ref = {1, 1};
	struct tw_req *r = tw_req_new1(ep, TW_RECV, large, sizeof(large));

	ep->host.state = TW_SERVED;
	r->peer = peer;
	r->xfer_len = r->len;
	tw_transfer_start(peer, r, ref, 4096, NULL, 0);
	cr_assert_eq(r->state, TW_XFER_GETTING);
}

/* The peer cannot end what a driver moves, which still uses the request. */
Test(transfer_peer, reply_to_no_question)
{
	static uint64_t word;
	struct tw_req *r = tw_req_new1(ep, TW_READ, &word, sizeof(word));
	uint64_t name = tw_ref_pack((struct tw_ref){r->obj.index, r->obj.gen});
	struct {
		struct tw_window_msg m;
		uint64_t data;
	} reply = {.m = {.status = TW_S_OK}, .data = 7};
	struct tw_hdr hdr = tw_hdr_make(TW_WINDOW, TW_WINDOW_REPLY, 0, sizeof(reply), name);

	r->peer = peer;
	r->at = r->until = sizeof(word);
	r->gets = 1;
	r->asked = 0;
	peer->windows.asked = 1; /* for another request */
	cr_assert_eq(tw_window_packet(peer, hdr, &reply, sizeof(reply)), TW_EPROTO);
	cr_assert_eq(r->gets, 1u);
	cr_assert_eq(word, 0u);
}

/* What a peer gets must fit a packet of its link, however short these are. */
Test(transfer_peer, get_of_more_than_a_packet)
{
	struct tw_window_msg m = {.key = 1};
	struct tw_hdr hdr = tw_hdr_make(TW_WINDOW, TW_WINDOW_GET, 0, sizeof(m), 0x100000001);

	net.max_payload = 4096;
	m.len = net.max_payload - sizeof(m) + 1;
	cr_assert_eq(tw_window_packet(peer, hdr, &m, sizeof(m)), TW_EPROTO);
	m.len--;
	cr_assert_eq(tw_window_packet(peer, hdr, &m, sizeof(m)), TW_OK, "there is no such window");
	tw_list_walk(&peer->sendq, struct tw_req, reply, link)
		tw_req_forgotten(ep, reply);
	net.max_payload = 65536;
	m.len = TW_WINDOW_PIECE + 1;
	cr_assert_eq(tw_window_packet(peer, hdr, &m, sizeof(m)), TW_EPROTO);
}

/* Gets ------------------------------------------------------------------------- */

static unsigned gets, turns;

/* Every other time it has no room. */
static enum tw_err get(struct tw_link *link, bool put, const struct iovec *iov, unsigned niov,
		       uint64_t address, const void *key, void *cookie)
{
	(void)link, (void)put, (void)iov, (void)niov, (void)address, (void)key, (void)cookie;
	return ++gets % 2 ? TW_OK : TW_AGAIN;
}

static unsigned take_turn(void *instance)
{
	(void)instance;
	turns++;
	return 0;
}

static const struct tw_provider halting = {
	.name = "halting", .send = no_room, .polls = computes, .rma = get, .progress = take_turn};

/* Polls that copy one piece each are polls like others: the provider has its turns. */
Test(transfer_peer, providers_are_polled_while_data_moves)
{
	struct tw_req *r = tw_req_new1(ep, TW_RECV, memory, 1u << 30);
	unsigned begun;

	gets = turns = 0;
	net.provider = &halting;
	ep->lender.ops = &halting;
	r->peer = peer;
	r->xfer_len = r->len;
	tw_transfer_start(peer, r, (struct tw_ref){1, 1}, 4096, NULL, 0);
	begun = gets;
	for (unsigned i = 0; i < 2 * TW_RXQ_POLLS; i++)
		tw_progress(ep);
	cr_assert_eq(r->state, TW_XFER_GETTING);
	cr_assert_geq(gets - begun, 2 * TW_RXQ_POLLS);
	cr_assert_eq(turns, 2);
}

static uint8_t sent_type;

static enum tw_err note_type(struct tw_link *link, enum tw_send_class cls, struct tw_hdr hdr,
			     const struct iovec *iov, unsigned niov, uint32_t len)
{
	(void)link, (void)cls, (void)iov, (void)niov, (void)len;
	sent_type = tw_hdr_type(hdr);
	return TW_OK;
}

static bool has_polled;

static bool polls(struct tw_link *link, uint64_t since)
{
	(void)link, (void)since;
	return has_polled;
}

static enum tw_err get_any(struct tw_link *link, bool put, const struct iovec *iov, unsigned niov,
			   uint64_t address, const void *key, void *cookie)
{
	(void)link, (void)put, (void)iov, (void)niov, (void)address, (void)key, (void)cookie;
	return TW_OK;
}

/* Some microseconds after the receiver has begun to look. */
static bool polls_late(struct tw_link *link, uint64_t since)
{
	(void)link;
	return tw_clock() - since > tw_clock_us(20);
}

static const struct tw_provider late = {
	.name = "late", .send = note_type, .polls = polls_late, .rma = get_any};

static const struct tw_provider waking = {
	.name = "waking", .send = note_type, .polls = polls, .rma = get_any};

/* A sender that polls sends its data, and one that does not has it read. */
Test(transfer_peer, by_whether_the_sender_polls)
{
	for (int i = 0; i < 4; i++) {
		struct tw_req *r = tw_req_new1(ep, TW_RECV, memory, LEN);

		net.provider = &waking;
		net.can_get = !(i & 2);
		has_polled = i & 1;
		r->peer = peer;
		r->xfer_len = r->len;
		tw_transfer_start(peer, r, (struct tw_ref){1, 1}, 4096, NULL, 0);
		cr_assert_eq(r->state, i ? TW_XFER_CTS_DUE : TW_XFER_GETTING, "case %d", i);
		cr_assert_eq(r->proto, i ? TW_PROTO_COPY : TW_PROTO_GET, "case %d", i);
	}
}

static enum tw_proto chosen(const struct tw_provider *ops, uint32_t len)
{
	struct tw_req *r = tw_req_new1(ep, TW_RECV, memory, len);

	net.provider = ops;
	r->peer = peer;
	r->xfer_len = r->len;
	tw_transfer_start(peer, r, (struct tw_ref){1, 1}, 4096, NULL, 0);
	return (enum tw_proto)r->proto;
}

static unsigned looks;

static bool never_polls(struct tw_link *link, uint64_t since)
{
	(void)link, (void)since;
	looks++;
	return false;
}

static const struct tw_provider busy = {
	.name = "busy", .send = note_type, .polls = never_polls, .rma = get_any};

/* One that announces many messages, and computes, delays its receiver once. */
Test(transfer_peer, looks_in_vain_once)
{
	cr_assert_eq(chosen(&busy, 1u << 20), TW_PROTO_GET);
	cr_assert_gt(looks, 1u);
	for (unsigned i = 0; i < 10; i++) {
		looks = 0;
		cr_assert_eq(chosen(&busy, 1u << 20), TW_PROTO_GET);
		cr_assert_eq(looks, 1u);
	}
	has_polled = true;
	cr_assert_eq(chosen(&waking, 1u << 20), TW_PROTO_COPY);
}

/* It may wait for a processor, and is given some time, unless a thread waits for the endpoint. */
Test(transfer_peer, a_late_poll_counts)
{
	enum tw_proto proto = TW_PROTO_COPY;

	cr_assert_eq(chosen(&late, 1u << 20), TW_PROTO_COPY);
	slot.lock.waiters = 1;
	/* The thread may lose its processor before it looks for others. */
	for (unsigned i = 0; i < 100 && proto == TW_PROTO_COPY; i++)
		proto = chosen(&late, 1u << 20);
	cr_assert_eq(proto, TW_PROTO_GET);
	slot.lock.waiters = 0;
}

/* Sends ------------------------------------------------------------------------ */

static const struct tw_provider remote = {.name = "remote", .send = note_type};

/* The largest TAGWIRE_EAGER_MAX: to another host, where it is more, nothing is announced either. */
Test(transfer_peer, nothing_is_announced)
{

	if (!TW_USES_NET)
		cr_skip_test("built without providers for other hosts");
	net.provider = &remote;
	net.remote = true;
	net.max_payload = 4096;
	ep->eager_max = UINT32_MAX;
	peer->credits = 100;
	tw_send(ep, tw_req_new1(ep, TW_SEND, memory, LEN), peer->addr);
	cr_assert_eq(sent_type, TW_EAGER);
}
