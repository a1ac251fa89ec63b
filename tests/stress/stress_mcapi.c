/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MCAPI nodes, in threads and in processes, that exchange messages, packets and
 * scalars over lanes which a script, made from the seed, gives each round. The
 * model is small: what a lane carries follows from its number, comes once, whole
 * and in order; a channel that its sender closed is drained, one that its
 * receiver closed refuses; after a round nothing is left anywhere.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcapi.h"
#include "stress/stress.h"

#define NODES 32
#define LANES 24
#define COUNT 120   /* items of a lane; fewer than a channel has buffers */
#define OUT 6	    /* sends of a lane, receives of an endpoint */
#define LONGEST 300000

enum kind { MSG, PKT, SCL };

struct lane {
	enum kind kind;
	int from, to, by; /* nodes; who connects */
	int count, quit;  /* items; the receiver of a channel leaves after so many */
	unsigned prio, width;
	uint64_t id;
};

/* What the ends of a lane tell each other beside MCAPI. */
struct told {
	atomic_int received, sender_left, receiver_left;
};

static struct shared {
	atomic_uint met;
	atomic_int over;
	atomic_ullong messages, packets, scalars, cancels, refused;
	struct told told[2][LANES]; /* of even and odd rounds */
} *shared;

static long nodes = 6, per_process = 1, restarts = 6;

/* One end of a channel. */
enum state { CLOSED, OPENING, OPEN, CLOSING, DONE };
struct end {
	enum state state;
	mcapi_endpoint_t ep;
	mcapi_request_t req;
	uint32_t h;
};

struct op {
	mcapi_request_t req;
	uint8_t *buf;
	void *packet;
	int seq;
};

struct node {
	pthread_t thread;
	int number;
	uint64_t rng;
	uint32_t round;
	struct lane lane[LANES];
	int nlanes, left; /* roles of this node that are not done */
	struct {
		int sent, received, connected;
		struct end s, r;
		struct op out[OUT];
		int n, recv_pending;
		struct op in;
	} my[LANES];
	/* Messages come here. */
	mcapi_endpoint_t from, inbox;
	struct op posted[OUT];
	int nposted, expected;
};


#define is(want, call)                                                                             \
	do {                                                                                       \
		mcapi_status_t st = MCAPI_ERROR;                                                   \
		call;                                                                              \
		if (st != (want))                                                                  \
			st_fail("%s: %d (%s), not %d (%s)", #call, st, mcapi_strerror(st), want,   \
				mcapi_strerror(want));                                             \
	} while (0)
#define ok(call) is(MCAPI_SUCCESS, call)

/* ------------------------------------------------------------------ the script */

static void write_script(struct node *me)
{
	uint64_t rng = st_hash(st_seed, me->round);

	me->nlanes = 1 + (int)(twt_random(&rng) % LANES);
	for (int i = 0; i < me->nlanes; i++) {
		struct lane *l = &me->lane[i];

		l->kind = (enum kind)(twt_random(&rng) % 3);
		l->from = (int)(twt_random(&rng) % (uint64_t)nodes);
		l->to = (int)(twt_random(&rng) % (uint64_t)nodes);
		l->by = (int)(twt_random(&rng) % (uint64_t)nodes);
		l->count = (int)(twt_random(&rng) % COUNT);
		l->quit = twt_random(&rng) % 4 ? -1 : (int)(twt_random(&rng) % COUNT);
		l->prio = (unsigned)(twt_random(&rng) % MCAPI_MAX_NO_PRIORITIES);
		l->width = (unsigned)(twt_random(&rng) % 5); /* 4: mixed */
		l->id = st_hash(st_seed + me->round, (uint64_t)i + 1000);
	}
}

static size_t length(const struct lane *l, int seq)
{
	uint64_t rng = l->id + (uint64_t)seq;

	return st_size(&rng, twt_random(&rng) % 16 ? 3000 : LONGEST);
}

static uint64_t pattern(const struct lane *l, int seq)
{
	return st_hash(l->id, (uint64_t)seq);
}

static unsigned width(const struct lane *l, int seq)
{
	return l->width < 4 ? l->width : (unsigned)(pattern(l, seq) >> 60 & 3);
}

static struct told *told(struct node *me, int i)
{
	return &shared->told[me->round % 2][i];
}

static int chance(struct node *me, unsigned n)
{
	return twt_random(&me->rng) % n == 0;
}

static int complete(mcapi_request_t *req, size_t *size, mcapi_status_t *st)
{
	mcapi_boolean_t done = mcapi_test(req, size, st);

	if (done != (*st == MCAPI_SUCCESS))
		st_fail("mcapi_test returned %d with %d", done, *st);
	return *st != MCAPI_INCOMPLETE;
}

/* -------------------------------------------------------------------- messages */

/* Lane and number in front of the pattern. */
struct head {
	uint32_t lane, seq;
};

static void message_came(struct node *me, const uint8_t *buf, size_t size)
{
	struct head head;
	const struct lane *l;

	st_check(size >= sizeof(head));
	memcpy(&head, buf, sizeof(head));
	st_check(head.lane < (unsigned)me->nlanes);
	l = &me->lane[head.lane];
	st_check(l->kind == MSG && l->to == me->number);
	/* In order of the pair and priority; every lane has one. */
	st_eq(head.seq, me->my[head.lane].received);
	me->my[head.lane].received++;
	st_eq(size, sizeof(head) + length(l, (int)head.seq));
	st_eq(twt_check(buf + sizeof(head), size - sizeof(head), pattern(l, (int)head.seq)),
	      size - sizeof(head));
	me->expected--;
	me->left--;
	atomic_fetch_add(&shared->messages, 1);
}

static void drop_posted(struct node *me, int at)
{
	free(me->posted[at].buf);
	memmove(&me->posted[at], &me->posted[at + 1],
		(size_t)(--me->nposted - at) * sizeof(*me->posted));
}

/* False when it was not cancelled, as a message had come. */
static int cancel_posted(struct node *me, int at)
{
	struct op *op = &me->posted[at];
	mcapi_status_t st = MCAPI_ERROR;
	size_t size = 0;

	mcapi_cancel(&op->req, &st);
	if (st == MCAPI_ENOTREQ_HANDLE)
		return 0;
	st_eq(st, MCAPI_SUCCESS);
	st_check(complete(&op->req, &size, &st));
	st_eq(st, MCAPI_EREQ_CANCELED);
	atomic_fetch_add(&shared->cancels, 1);
	drop_posted(me, at);
	return 1;
}

static int receive_messages(struct node *me)
{
	mcapi_status_t st = MCAPI_ERROR;
	size_t size = 0;

	if (!me->expected)
		return 0;
	if (me->nposted < OUT && chance(me, 4)) {
		struct op *op = &me->posted[me->nposted++];

		op->buf = malloc(LONGEST + 100);
		st_check(op->buf);
		ok(mcapi_msg_recv_i(me->inbox, op->buf, LONGEST + 100, &op->req, &st));
		return 0;
	}
	if (me->nposted) {
		if (chance(me, 16) && cancel_posted(me, (int)(twt_random(&me->rng) % (unsigned)me->nposted)))
			return 0;
		/* They are served in order: the first is complete first. */
		if (!complete(&me->posted[0].req, &size, &st))
			return 0;
		st_eq(st, MCAPI_SUCCESS);
		message_came(me, me->posted[0].buf, size);
		drop_posted(me, 0);
		return 1;
	}
	if (!mcapi_msg_available(me->inbox, &st)) {
		st_eq(st, MCAPI_SUCCESS);
		return 0;
	}
	uint8_t *buf = malloc(LONGEST + 100);

	st_check(buf);
	ok(mcapi_msg_recv(me->inbox, buf, LONGEST + 100, &size, &st));
	message_came(me, buf, size);
	free(buf);
	return 1;
}

/* -------------------------------------------------------------------- senders */

/* Looks at one send of a lane; packets may be refused when the receiver left. */
static int reap(struct node *me, int i, int at)
{
	struct op *op = &me->my[i].out[at];
	mcapi_status_t st = MCAPI_ERROR;
	size_t size = 0;

	if (!complete(&op->req, &size, &st))
		return 0;
	if (st == MCAPI_SUCCESS)
		st_check(size >= length(&me->lane[i], op->seq));
	else if (st != MCAPI_ENOT_HANDLE || me->lane[i].quit < 0)
		st_fail("a send ended with %d (%s)", st, mcapi_strerror(st));
	/* The buffer is ours: what is written now must not arrive. */
	memset(op->buf, 0xdd, length(&me->lane[i], op->seq));
	free(op->buf);
	*op = me->my[i].out[--me->my[i].n];
	return 1;
}

static int send_message(struct node *me, int i)
{
	const struct lane *l = &me->lane[i];
	size_t len = length(l, me->my[i].sent), size = sizeof(struct head) + len;
	struct head head = {(uint32_t)i, (uint32_t)me->my[i].sent};
	mcapi_endpoint_t to;
	mcapi_status_t st = MCAPI_ERROR;
	mcapi_request_t req = 0;
	uint8_t *buf = malloc(size);

	st_check(buf);
	memcpy(buf, &head, sizeof(head));
	twt_fill(buf + sizeof(head), len, pattern(l, me->my[i].sent));
	ok(to = mcapi_get_endpoint((mcapi_node_t)l->to, 20, &st));
	if (chance(me, 2))
		mcapi_msg_send(me->from, to, buf, size, l->prio, &st);
	else
		mcapi_msg_send_i(me->from, to, buf, size, l->prio, &req, &st);
	if (st == MCAPI_ENO_BUFFER) {
		atomic_fetch_add(&shared->refused, 1);
		free(buf);
		return 0;
	}
	st_eq(st, MCAPI_SUCCESS);
	if (req) {
		me->my[i].out[me->my[i].n++] = (struct op){req, buf, NULL, me->my[i].sent};
	} else {
		memset(buf, 0xdd, size);
		free(buf);
	}
	me->my[i].sent++;
	return 1;
}

static mcapi_status_t send_scalar(uint32_t h, unsigned width, uint64_t value)
{
	mcapi_status_t st = MCAPI_ERROR;

	if (width == 0)
		mcapi_sclchan_send_uint8(h, (uint8_t)value, &st);
	else if (width == 1)
		mcapi_sclchan_send_uint16(h, (uint16_t)value, &st);
	else if (width == 2)
		mcapi_sclchan_send_uint32(h, (uint32_t)value, &st);
	else
		mcapi_sclchan_send_uint64(h, value, &st);
	return st;
}

/* False when the receiver has left. */
static int send_item(struct node *me, int i)
{
	const struct lane *l = &me->lane[i];
	int seq = me->my[i].sent;
	size_t len = length(l, seq);
	mcapi_status_t st = MCAPI_ERROR;
	mcapi_request_t req = 0;
	uint8_t *buf = NULL;

	if (l->kind == SCL) {
		st = send_scalar(me->my[i].s.h, width(l, seq), pattern(l, seq));
	} else {
		buf = malloc(len + 1);
		st_check(buf);
		twt_fill(buf, len, pattern(l, seq));
		if (chance(me, 2))
			mcapi_pktchan_send(me->my[i].s.h, buf, len, &st);
		else
			mcapi_pktchan_send_i(me->my[i].s.h, buf, len, &req, &st);
	}
	if (req && st == MCAPI_SUCCESS)
		me->my[i].out[me->my[i].n++] = (struct op){req, buf, NULL, seq};
	else
		free(buf);
	if (st == MCAPI_ENOT_HANDLE && l->quit >= 0)
		return 0;
	if (st != MCAPI_SUCCESS)
		st_fail("item %d of lane %d: %d (%s)", seq, i, st, mcapi_strerror(st));
	me->my[i].sent++;
	return 1;
}

/* ------------------------------------------------------------------- channels */

static void open_end(struct node *me, int i, struct end *e, int sends)
{
	mcapi_status_t st = MCAPI_ERROR;

	if (me->lane[i].kind == PKT && sends)
		mcapi_open_pktchan_send_i(&e->h, e->ep, &e->req, &st);
	else if (me->lane[i].kind == PKT)
		mcapi_open_pktchan_recv_i(&e->h, e->ep, &e->req, &st);
	else if (sends)
		mcapi_open_sclchan_send_i(&e->h, e->ep, &e->req, &st);
	else
		mcapi_open_sclchan_recv_i(&e->h, e->ep, &e->req, &st);
	if (st != MCAPI_SUCCESS && st != MCAPI_ENOT_CONNECTED)
		st_fail("open: %d (%s)", st, mcapi_strerror(st));
	e->state = OPENING;
}

static void close_end(struct node *me, int i, struct end *e, int sends)
{
	if (me->lane[i].kind == PKT && sends)
		ok(mcapi_pktchan_send_close_i(e->h, &e->req, &st));
	else if (me->lane[i].kind == PKT)
		ok(mcapi_pktchan_recv_close_i(e->h, &e->req, &st));
	else if (sends)
		ok(mcapi_sclchan_send_close_i(e->h, &e->req, &st));
	else
		ok(mcapi_sclchan_recv_close_i(e->h, &e->req, &st));
	e->state = CLOSING;
}

/* The steps that both ends have in common; true when something happened. */
static int step_end(struct node *me, int i, struct end *e, int sends)
{
	mcapi_status_t st = MCAPI_ERROR;
	size_t size;

	if (e->state == CLOSED && chance(me, 3)) {
		open_end(me, i, e, sends);
		return 1;
	}
	if ((e->state != OPENING && e->state != CLOSING) || !complete(&e->req, &size, &st))
		return 0;
	st_eq(st, MCAPI_SUCCESS);
	if (e->state == OPENING) {
		e->state = OPEN;
		return 1;
	}
	ok(mcapi_delete_endpoint(e->ep, &st));
	e->state = DONE;
	atomic_store(sends ? &told(me, i)->sender_left : &told(me, i)->receiver_left, 1);
	me->left--;
	return 1;
}

static int step_sender(struct node *me, int i)
{
	struct end *e = &me->my[i].s;
	const struct lane *l = &me->lane[i];
	int moved = step_end(me, i, e, 1);

	if (e->state != OPEN)
		return moved;
	for (int at = me->my[i].n - 1; at >= 0; at--)
		moved |= reap(me, i, at);
	if (me->my[i].sent < l->count) {
		/* Its receiver may be this thread: nothing here may block. */
		if (me->my[i].n == OUT ||
		    me->my[i].sent - atomic_load(&told(me, i)->received) > COUNT - OUT)
			return moved;
		if (send_item(me, i))
			return 1;
	} else if (me->my[i].n) {
		return moved;
	}
	/* All sends must have ended, one way or the other, before the node goes on. */
	if (me->my[i].n == 0)
		close_end(me, i, e, 1);
	return 1;
}

static void check_scalar(struct node *me, int i)
{
	const struct lane *l = &me->lane[i];
	int seq = me->my[i].received;
	unsigned w = width(l, seq);
	uint32_t h = me->my[i].r.h;
	uint64_t got = 0;

	if (chance(me, 8) && w != 3)
		is(MCAPI_ESCL_SIZE, mcapi_sclchan_recv_uint64(h, &st));
	if (w == 0)
		ok(got = mcapi_sclchan_recv_uint8(h, &st));
	else if (w == 1)
		ok(got = mcapi_sclchan_recv_uint16(h, &st));
	else if (w == 2)
		ok(got = mcapi_sclchan_recv_uint32(h, &st));
	else
		ok(got = mcapi_sclchan_recv_uint64(h, &st));
	st_eq(got, w == 3 ? pattern(l, seq) : pattern(l, seq) & ((1ull << (8u << w)) - 1));
	atomic_fetch_add(&shared->scalars, 1);
}

static void check_packet(struct node *me, int i, void *buf, size_t size)
{
	const struct lane *l = &me->lane[i];
	int seq = me->my[i].received;

	st_eq(size, length(l, seq));
	st_eq(twt_check(buf, size, pattern(l, seq)), size);
	memset(buf, 0xcc, size);
	ok(mcapi_pktchan_free(buf, &st));
	atomic_fetch_add(&shared->packets, 1);
}

/* One item, if there is one: 1. -1 at the end of the channel. */
static int receive_item(struct node *me, int i)
{
	struct op *in = &me->my[i].in;
	mcapi_status_t st = MCAPI_ERROR;
	uint32_t h = me->my[i].r.h;
	size_t size = 0;
	void *buf = NULL;
	unsigned n;

	if (me->my[i].recv_pending) {
		if (!complete(&in->req, &size, &st))
			return 0;
		me->my[i].recv_pending = 0;
		if (st == MCAPI_ENOT_HANDLE)
			return -1;
		st_eq(st, MCAPI_SUCCESS);
		check_packet(me, i, in->packet, size);
		return 1;
	}
	if (me->lane[i].kind == PKT && chance(me, 2)) {
		mcapi_pktchan_recv_i(h, &in->packet, &in->req, &st);
		if (st == MCAPI_ENOT_HANDLE)
			return -1;
		st_eq(st, MCAPI_SUCCESS);
		me->my[i].recv_pending = 1;
		return 0;
	}
	/* First: what came before the sender left is there when we see that it left. */
	int left = atomic_load(&told(me, i)->sender_left);

	n = me->lane[i].kind == PKT ? mcapi_pktchan_available(h, &st)
				    : mcapi_sclchan_available(h, &st);
	if (n) {
		st_eq(st, MCAPI_SUCCESS);
		if (me->lane[i].kind == PKT) {
			ok(mcapi_pktchan_recv(h, &buf, &size, &st));
			check_packet(me, i, buf, size);
		} else {
			check_scalar(me, i);
		}
		return 1;
	}
	if (!left)
		return 0;
	/* Items of another process may still be on their way: this waits for them. */
	if (me->my[i].received < me->lane[i].count) {
		st_eq(st, MCAPI_SUCCESS);
		return 0;
	}
	if (me->lane[i].kind == PKT)
		is(MCAPI_ENOT_HANDLE, mcapi_pktchan_recv(h, &buf, &size, &st));
	else
		is(MCAPI_ENOT_HANDLE, mcapi_sclchan_recv_uint8(h, &st));
	return -1;
}

static int step_receiver(struct node *me, int i)
{
	struct end *e = &me->my[i].r;
	const struct lane *l = &me->lane[i];
	int moved = step_end(me, i, e, 0), got;

	if (e->state != OPEN)
		return moved;
	got = l->quit >= 0 && me->my[i].received >= l->quit ? -1 : receive_item(me, i);
	if (got > 0) {
		me->my[i].received++;
		atomic_store(&told(me, i)->received, me->my[i].received);
	} else if (got < 0) {
		if (l->quit < 0 || me->my[i].received < l->quit)
			st_eq(me->my[i].received, l->count);
		/* The sender may wait for us to go on: it may go on to be refused. */
		atomic_store(&told(me, i)->received, COUNT);
		close_end(me, i, e, 0);
	}
	return moved | (got != 0);
}

static int step_connect(struct node *me, int i)
{
	const struct lane *l = &me->lane[i];
	mcapi_endpoint_t s, r;
	mcapi_request_t req;

	if (me->my[i].connected || !chance(me, 3))
		return 0;
	ok(s = mcapi_get_endpoint((mcapi_node_t)l->from, 1000 + i, &st));
	ok(r = mcapi_get_endpoint((mcapi_node_t)l->to, 2000 + i, &st));
	if (l->kind == PKT)
		ok(mcapi_connect_pktchan_i(s, r, &req, &st));
	else
		ok(mcapi_connect_sclchan_i(s, r, &req, &st));
	/* The request is forgotten: the opens tell. */
	me->my[i].connected = 1;
	me->left--;
	return 1;
}

/* --------------------------------------------------------------------- rounds */

static void begin_round(struct node *me)
{
	write_script(me);
	memset(me->my, 0, sizeof(me->my));
	me->left = me->expected = 0;
	for (int i = 0; i < me->nlanes; i++) {
		const struct lane *l = &me->lane[i];

		if (l->kind == MSG) {
			me->expected += l->to == me->number ? l->count : 0;
			me->left += l->from == me->number;
			continue;
		}
		me->left += (l->by == me->number) + (l->from == me->number) + (l->to == me->number);
		if (l->from == me->number)
			ok(me->my[i].s.ep = mcapi_create_endpoint(1000 + i, &st));
		if (l->to == me->number)
			ok(me->my[i].r.ep = mcapi_create_endpoint(2000 + i, &st));
	}
	me->left += me->expected;
}

static int step_message_sender(struct node *me, int i)
{
	int moved = 0;

	if (me->my[i].s.state == DONE)
		return 0;
	for (int at = me->my[i].n - 1; at >= 0; at--)
		moved |= reap(me, i, at);
	if (me->my[i].sent < me->lane[i].count)
		return me->my[i].n < OUT ? moved | send_message(me, i) : moved;
	if (me->my[i].n)
		return moved;
	me->my[i].s.state = DONE;
	me->left--;
	return 1;
}

static void nothing_moves(struct node *me)
{
	for (int i = 0; i < me->nlanes; i++) {
		const struct lane *l = &me->lane[i];

		if (l->from == me->number || l->to == me->number || l->by == me->number)
			fprintf(stderr,
				"node %d, round %u, lane %d: %s from %d to %d by %d, %d items, quit "
				"%d; connected %d, sent %d, pending %d, sender %d, received %d, "
				"receiver %d; told %d %d %d\n",
				me->number, me->round, i, l->kind == MSG ? "messages" : l->kind == PKT ? "packets" : "scalars",
				l->from, l->to, l->by, l->count, l->quit, me->my[i].connected,
				me->my[i].sent, me->my[i].n, me->my[i].s.state,
				me->my[i].received, me->my[i].r.state,
				atomic_load(&told(me, i)->received),
				atomic_load(&told(me, i)->sender_left),
				atomic_load(&told(me, i)->receiver_left));
	}
	/* The others may have something to say as well. */
	st_sleep(3);
	st_fail("nothing moves; %d messages are missing, %d roles are not done", me->expected,
		me->left);
}

static void run_round(struct node *me)
{
	double moved_at = twt_now();
	unsigned idle = 0;

	while (me->left) {
		int moved = receive_messages(me);

		st_at(me->round);
		for (int i = 0; i < me->nlanes; i++) {
			const struct lane *l = &me->lane[i];

			if (l->kind == MSG) {
				if (l->from == me->number)
					moved |= step_message_sender(me, i);
				continue;
			}
			if (l->by == me->number)
				moved |= step_connect(me, i);
			if (l->from == me->number && me->my[i].s.state != DONE)
				moved |= step_sender(me, i);
			if (l->to == me->number && me->my[i].r.state != DONE)
				moved |= step_receiver(me, i);
		}
		if (moved) {
			idle = 0;
			moved_at = twt_now();
			continue;
		}
		st_idle(&idle);
		if (twt_now() > moved_at + ST_LONG / 2)
			nothing_moves(me);
	}
}

static void end_round(struct node *me)
{
	uint32_t value = 0;
	unsigned n;

	while (me->nposted)
		if (!cancel_posted(me, 0))
			st_fail("node %d got a message more", me->number);
	ok(n = mcapi_msg_available(me->inbox, &st));
	st_eq(n, 0);
	ok(mcapi_get_endpoint_attribute(me->inbox, MCAPI_ATTR_RECV_BUFFERS_AVAILABLE, &value, 4,
					&st));
	st_eq(value, 128);
}

static void up(struct node *me)
{
	mcapi_version_t version;

	ok(mcapi_initialize((mcapi_node_t)me->number, &version, &st));
	ok(me->from = mcapi_create_endpoint(10, &st));
	ok(me->inbox = mcapi_create_endpoint(20, &st));
}

static void *run(void *arg)
{
	struct node *me = arg;

	st_at(0);
	up(me);
	while (!atomic_load(&shared->over)) {
		begin_round(me);
		st_meet(&shared->met, (unsigned)nodes);
		run_round(me);
		/* From here on nobody sends. */
		st_meet(&shared->met, (unsigned)nodes);
		end_round(me);
		if (me->number == 0) {
			memset(&shared->told[(me->round + 1) % 2], 0, sizeof(shared->told[0]));
			atomic_store(&shared->over, !st_going());
		}
		/* Some come back as new nodes. */
		if (restarts && st_hash(me->round, (uint64_t)me->number) % (uint64_t)restarts == 0) {
			ok(mcapi_finalize(&st));
			up(me);
		}
		me->round++;
		st_meet(&shared->met, (unsigned)nodes);
	}
	ok(mcapi_finalize(&st));
	return NULL;
}

static int run_process(void *arg, int fd)
{
	int first = *(int *)arg;
	struct node *n = calloc((size_t)per_process, sizeof(*n));

	(void)fd;
	st_role("process %d", first / (int)per_process);
	st_check(n);
	for (int i = 0; i < per_process && first + i < nodes; i++) {
		n[i].number = first + i;
		n[i].rng = st_hash(st_seed, 0x70de + (uint64_t)(first + i));
		st_check(pthread_create(&n[i].thread, NULL, run, &n[i]) == 0);
	}
	for (int i = 0; i < per_process && first + i < nodes; i++)
		st_check(pthread_join(n[i].thread, NULL) == 0);
	free(n);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct st_option options[] = {{"--nodes", &nodes, 1, NODES},
						   {"--per-process", &per_process, 1, NODES},
						   {"--restarts", &restarts, 0, 1000},
						   {0}};
	struct twt_child child[NODES];
	int n = 0;

	st_begin(argc, argv, "stress_mcapi", 5, options);
	shared = st_shared(sizeof(*shared));
	for (int first = 0; first < nodes; first += (int)per_process)
		twt_spawn(&child[n++], run_process, &first);
	st_join(child, n);
	st_done("%ld nodes, %ld in a process, %llu messages, %llu packets, %llu scalars, %llu "
		"cancels, %llu refused",
		nodes, per_process, (unsigned long long)shared->messages,
		(unsigned long long)shared->packets, (unsigned long long)shared->scalars,
		(unsigned long long)shared->cancels, (unsigned long long)shared->refused);
	return 0;
}
