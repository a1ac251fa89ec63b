/* SPDX-License-Identifier: BSD-2-Clause */
#include "stress/lanes.h"

#include <stdlib.h>
#include <string.h>

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

struct told *told(struct node *me, int i)
{
	return &shared->told[me->round % 2][i];
}

int chance(struct node *me, unsigned n)
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
int cancel_posted(struct node *me, int at)
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

int receive_messages(struct node *me)
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
		if (chance(me, 16) &&
		    cancel_posted(me, (int)(twt_random(&me->rng) % (unsigned)me->nposted)))
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

/* Its request says whether the receiver has room: what was refused is not sent. */
static void send_asked(mcapi_endpoint_t from, mcapi_endpoint_t to, const void *buf, size_t size,
		       mcapi_priority_t prio, mcapi_request_t *req, mcapi_status_t *st)
{
	size_t sent;

	mcapi_msg_send_i(from, to, buf, size, prio, req, st);
	if (*st == MCAPI_SUCCESS)
		mcapi_wait(req, &sent, st, MCAPI_INFINITE);
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
		send_asked(me->from, to, buf, size, l->prio, &req, &st);
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

int step_message_sender(struct node *me, int i)
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

int step_sender(struct node *me, int i)
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

int step_receiver(struct node *me, int i)
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

static void begin_connect(struct node *me, int i)
{
	const struct lane *l = &me->lane[i];
	mcapi_request_t *req = &me->my[i].connect;
	mcapi_endpoint_t s, r;

	ok(s = mcapi_get_endpoint((mcapi_node_t)l->from, 1000 + i, &st));
	ok(r = mcapi_get_endpoint((mcapi_node_t)l->to, 2000 + i, &st));
	if (l->kind == PKT)
		ok(mcapi_connect_pktchan_i(s, r, req, &st));
	else
		ok(mcapi_connect_sclchan_i(s, r, req, &st));
}

int step_connect(struct node *me, int i)
{
	enum state *state = &me->my[i].connecting;
	mcapi_status_t st = MCAPI_ERROR;
	size_t size;

	if (*state == CLOSED && chance(me, 3)) {
		begin_connect(me, i);
		/* Some requests are forgotten: the opens tell. */
		*state = chance(me, 2) ? OPENING : DONE;
	} else if (*state == OPENING && complete(&me->my[i].connect, &size, &st)) {
		st_eq(st, MCAPI_SUCCESS);
		*state = DONE;
	} else {
		return 0;
	}
	me->left -= *state == DONE;
	return 1;
}
