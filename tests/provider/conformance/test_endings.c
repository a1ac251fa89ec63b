/* SPDX-License-Identifier: BSD-2-Clause */
/* Every provider alike: how connections end, by whom, and what is still delivered. */
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "base/settings.h"
#include "provider/pair.h"

/* A few packets of every kind that fit into anything. */
static void send_some(struct fake_peer *p, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		cr_assert_eq(fake_send(p, (enum tw_send_class)(i % 4), i * 37 % 1000), TW_OK);
}

static void expect_down(struct pair *p, struct fake_peer *peer, uint64_t packets, enum tw_err why)
{
	UNTIL(p, peer->state == FAKE_DOWN);
	cr_assert_eq(peer->why, why, "%d, not %d", peer->why, why);
	cr_assert_eq(peer->got, packets, "%d of %d packets", (int)peer->got, (int)packets);
}

/* The same, of one that is no more: it cannot send again what was lost on the way. */
static void expect_gone(struct pair *p, struct fake_peer *peer, uint64_t packets, enum tw_err why)
{
	UNTIL(p, peer->state == FAKE_DOWN);
	expect_down(p, peer, p->can & KEEPS ? packets : tw_min(peer->got, packets), why);
}

/* Anything that comes now would come too late. */
static void stay_quiet(struct pair *p)
{
	for (int i = 0; i < 100; i++)
		pair_pump(p);
}

CONFORMANCE(disconnect, OTHERS)
{
	for (int side = 0; side < 2; side++) {
		struct pair *p = pair_connected(t);
		struct fake_peer *mine = side ? p->ba : p->ab, *other = side ? p->ab : p->ba;

		send_some(mine, 50);
		send_some(other, 50);
		pair_disconnect(mine);
		expect_down(p, other, 50, TW_ECLOSED);
		stay_quiet(p);
		pair_close(p);
	}
}

/* Without anything in between, also with what was left lying. */
CONFORMANCE(connect_again, ANY)
{
	struct pair *p = pair_connected(t);

	for (int i = 0; i < 20; i++) {
		send_some(p->ab, 5);
		if (i % 2)
			UNTIL(p, p->ba->got == 5);
		pair_disconnect(p->ab);
		pair_connect(p, &p->ab, &p->ba);
		cr_assert_eq(p->ba->got, 0u);
	}
	send_some(p->ab, 5);
	UNTIL(p, p->ba->got == 5);
	cr_assert_eq(p->ba->offered, 5u);
	/* Links that have left are acknowledged now: closing one side does not pump the other. */
	usleep(5000);
	stay_quiet(p);
	pair_close(p);
}

/* The other side ends it first: our packets are lost, and we are told. */
CONFORMANCE(full_and_gone, OTHERS)
{
	struct pair *p = pair_connected(t);

	fake_fill(p->ab, TW_SEND_PLAIN, 100);
	pair_disconnect(p->ba);
	expect_down(p, p->ab, 0, TW_ECLOSED);
	stay_quiet(p);
	pair_close(p);
}

/* More than one look takes in: all of it comes before the end. */
CONFORMANCE(disconnect_when_full, OTHERS)
{
	struct pair *p = pair_connected(t);
	unsigned n = fake_fill(p->ab, TW_SEND_PLAIN, 8);

	pair_disconnect(p->ab);
	expect_down(p, p->ba, n, TW_ECLOSED);
	pair_close(p);
}

/* Nor does it come before a packet that the engine could not take yet. */
CONFORMANCE(disconnect_and_again, OTHERS)
{
	struct pair *p = pair_connected(t);

	send_some(p->ab, 10);
	p->b->again = 7;
	pair_disconnect(p->ab);
	expect_down(p, p->ba, 10, TW_ECLOSED);
	cr_assert_eq(p->ba->offered, 17u);
	pair_close(p);
}

CONFORMANCE(close_ends_all, OTHERS)
{
	struct pair *p = pair_connected(t);
	struct fake_peer *ab[3] = {p->ab}, *ba[3] = {p->ba};

	for (int i = 1; i < 3; i++)
		pair_connect(p, &ab[i], &ba[i]);
	for (int i = 0; i < 3; i++) {
		send_some(ab[i], 20);
		send_some(ba[i], 20);
	}
	/* Nobody acknowledges anything: it closes all the same. */
	tw_settings.retry = 100;
	fake_close(&p->a);
	for (int i = 0; i < 3; i++) {
		while (ba[i]->state == FAKE_UP)
			fake_pump(p->b);
		cr_assert_eq(ba[i]->why, TW_ECLOSED);
		cr_assert_leq(ba[i]->got, 20u);
		if (p->can & KEEPS)
			cr_assert_eq(ba[i]->got, 20u);
	}
	fake_close(p->b);
	pair_check(p);
}

/* One side gives up before the other has looked. */
CONFORMANCE(close_while_connecting, OTHERS)
{
	for (int how = 0; how < 2; how++) {
		struct pair *p = pair_open(t);
		const struct tw_ident *b = &p->b->host.self;
		struct fake_peer *ab = fake_connect(&p->a, b->nic_id, b->endpoint_id, b->filter);

		cr_assert_eq(ab->state, FAKE_NEW);
		if (how)
			pair_disconnect(ab);
		else
			fake_close(&p->a);
		for (int i = 0; i < 100; i++)
			fake_pump(p->b);
		cr_assert(p->b->npeers == 0 || p->b->peers[0].state == FAKE_DOWN);
		fake_close(p->b);
		if (how)
			fake_close(&p->a);
		pair_check(p);
	}
}

static bool disconnect_at_third(struct fake_peer *p, enum tw_err *err)
{
	(void)err;
	if (p->got == 2)
		pair_disconnect(p->f->arg);
	return true;
}

/* The engine may end a link while that hands it a packet. */
CONFORMANCE(disconnect_inside, ANY)
{
	struct pair *p = pair_connected(t);

	send_some(p->ab, 10);
	p->b->on_packet = disconnect_at_third;
	p->b->arg = p->ba;
	UNTIL(p, p->ba->ended);
	cr_assert_eq(p->ba->got, 3u);
	if (p->can & OTHERS)
		expect_down(p, p->ab, 0, TW_ECLOSED);
	stay_quiet(p);
	cr_assert_eq(p->ba->offered, 3u);
	/* Nothing of it is left in the way. */
	p->b->on_packet = NULL;
	pair_connect(p, &p->ab, &p->ba);
	send_some(p->ab, 10);
	UNTIL(p, p->ba->got == 10);
	pair_close(p);
}

/* Or another one, which may lie before or behind it. */
CONFORMANCE(disconnect_other_inside, OTHERS)
{
	for (int first = 0; first < 2; first++) {
		struct pair *p = pair_connected(t);
		struct fake_peer *ab[3] = {p->ab}, *ba[3] = {p->ba};

		for (int i = 1; i < 3; i++)
			pair_connect(p, &ab[i], &ba[i]);
		p->b->on_packet = disconnect_at_third;
		p->b->arg = ba[first ? 0 : 2];
		send_some(ab[1], 10);
		UNTIL(p, ba[1]->got == 10);
		p->b->on_packet = NULL;
		expect_down(p, ab[first ? 0 : 2], 0, TW_ECLOSED);
		send_some(ab[first ? 2 : 0], 10);
		send_some(ab[1], 10);
		UNTIL(p, ba[first ? 2 : 0]->got == 10 && ba[1]->got == 20);
		pair_close(p);
	}
}

static bool second_is_malformed(struct fake_peer *p, enum tw_err *err)
{
	*err = p == p->f->arg && p->got == 1 ? TW_EPROTO : TW_OK;
	if (*err != TW_OK)
		p->got++; /* it will not come again */
	return *err == TW_OK;
}

CONFORMANCE(malformed, ANY)
{
	struct pair *p = pair_connected(t);

	p->b->on_packet = second_is_malformed;
	p->b->arg = p->ba;
	send_some(p->ab, 10);
	if (p->can & BREAKS) {
		expect_down(p, p->ba, 2, TW_EPROTO);
		cr_assert_eq(p->b->counters[TW_C_BAD_PACKET], 1u);
		UNTIL(p, p->ab->state == FAKE_DOWN);
		stay_quiet(p);
	} else {
		UNTIL(p, p->ba->got == 10);
	}
	cr_assert_eq(p->ba->offered, p->can & BREAKS ? 2u : 10u);
	pair_close(p);
}

/* The others go on, those who come before it and those behind. */
CONFORMANCE(malformed_ends_one_link, OTHERS | BREAKS)
{
	struct pair *p = pair_connected(t);
	struct fake_peer *ab[5] = {p->ab}, *ba[5] = {p->ba};

	for (int i = 1; i < 5; i++)
		pair_connect(p, &ab[i], &ba[i]);
	p->b->on_packet = second_is_malformed;
	p->b->arg = ba[2];
	for (int i = 0; i < 5; i++)
		send_some(ab[i], 10);
	expect_down(p, ba[2], 2, TW_EPROTO);
	UNTIL(p, ab[2]->state == FAKE_DOWN);
	for (int i = 0; i < 5; i++) {
		if (i == 2)
			continue;
		UNTIL(p, ba[i]->got == 10);
		cr_assert_eq(ab[i]->state, FAKE_UP);
		send_some(ba[i], 3);
		UNTIL(p, ab[i]->got == 3);
	}
	pair_close(p);
}

CONFORMANCE(alive, ANY)
{
	struct pair *p = pair_connected(t);

	cr_assert(p->ops->alive(p->ab->link));
	cr_assert(p->ops->alive(p->ba->link));
	send_some(p->ab, 10);
	cr_assert(p->ops->alive(p->ba->link), "what it sent is no sign of death");
	if (p->can & OTHERS) {
		pair_disconnect(p->ba);
		cr_assert_not(p->ops->alive(p->ab->link), "known before it is told");
		expect_down(p, p->ab, 0, TW_ECLOSED);
	}
	pair_close(p);
}

#define FROM_CHILD 200

enum end { KILLED, EXITED, DISCONNECTED, DISCONNECTED_AT_ONCE, CLOSED, CLOSED_AT_ONCE };

struct child {
	const struct tw_provider *ops;
	unsigned can;
	enum end end;
};

/* Connects to the parent, sends, and ends in that way. */
static int child_main(void *arg, int fd)
{
	const struct child *c = arg;
	static struct fake f;
	struct fake_peer *p;
	char go;

	if (fake_open(&f, c->ops, 9) != TW_OK)
		return 2;
	p = fake_connect(&f, FAKE_BOARD, 1, 0x2001);
	while (p->state == FAKE_NEW)
		fake_pump(&f);
	for (unsigned i = 0; i < FROM_CHILD && p->state == FAKE_UP;) {
		i += fake_send(p, TW_SEND_PLAIN, 250 - i % 8) == TW_OK;
		fake_pump(&f);
	}
	if (p->state != FAKE_UP || p->sent != FROM_CHILD || f.wrong)
		return 3;
	if (c->end == CLOSED_AT_ONCE) {
		fake_close(&f);
		return f.wrong ? 5 : 0;
	}
	twt_put(fd, "s", 1);
	/* Killed in here, maybe. */
	if (twt_get(fd, &go, 1) < 0)
		return 4;
	/* Nobody acknowledges anything, and a goodbye that waits for that is not to be lost. */
	tw_settings.retry = 2000;
	if (c->end == DISCONNECTED || c->end == DISCONNECTED_AT_ONCE)
		pair_disconnect(p);
	while (c->end == DISCONNECTED && !(c->can & SHARED) && !f.unpolled)
		fake_pump(&f);
	if (c->end == CLOSED)
		fake_close(&f);
	return f.wrong ? 5 : 0;
}

/* Where nothing is shared, both must look for something to be sent. */
static void await_sent(struct pair *p, const struct twt_child *child)
{
	struct pollfd fd = {.fd = child->fd, .events = POLLIN};
	char sent;

	if ((p->can & (SHARED | KEEPS | DEVICE)) == KEEPS)
		UNTIL(p, p->a.peers[0].got > 0); /* the system keeps the rest */
	else if (!(p->can & SHARED))
		UNTIL(p, poll(&fd, 1, 0) == 1);
	cr_assert_eq(twt_get(child->fd, &sent, 1), 0);
}

static void one_ends(const struct traits *t, enum end end, bool backwards)
{
	struct pair *p = pair_open(t);
	struct child c = {p->ops, p->can, end};
	struct twt_child child;
	struct fake_peer *peer = &p->a.peers[0];

	twt_spawn(&child, child_main, &c);
	UNTIL(p, p->a.npeers == 1);
	p->a.backwards = backwards;
	/* From here on nobody looks, until the child is gone for good. */
	await_sent(p, &child);
	cr_assert(p->ops->alive(peer->link));
	if (end == KILLED)
		kill(child.pid, SIGKILL);
	else
		twt_put(child.fd, "g", 1);
	cr_assert_eq(twt_join(&child, TWT_LONG), end == KILLED ? 1000 + SIGKILL : 0);
	cr_assert_not(p->ops->alive(peer->link));
	expect_gone(p, peer, FROM_CHILD, end < DISCONNECTED ? TW_ELOST : TW_ECLOSED);
	stay_quiet(p);
	pair_close(p);
}

/* In whichever order the signs of it are seen. */
CONFORMANCE(killed, OTHERS)
{
	one_ends(t, KILLED, false);
	one_ends(t, KILLED, true);
}

CONFORMANCE(exited, OTHERS)
{
	one_ends(t, EXITED, false);
	one_ends(t, EXITED, true);
}

CONFORMANCE(disconnected_and_exited, OTHERS)
{
	one_ends(t, DISCONNECTED, false);
	one_ends(t, DISCONNECTED, true);
}

/* Without waiting for acknowledgements: what has been sent is kept by the system. */
CONFORMANCE(disconnected_and_exited_at_once, OTHERS | KEEPS)
{
	one_ends(t, DISCONNECTED_AT_ONCE, false);
	one_ends(t, DISCONNECTED_AT_ONCE, true);
}

CONFORMANCE(closed_and_exited, OTHERS)
{
	one_ends(t, CLOSED, false);
	one_ends(t, CLOSED, true);
}

/* All that was sent comes, however late the other side looks and whatever is lost on the way. */
CONFORMANCE(closed_at_once, OTHERS)
{
	for (int i = 0; i < 5; i++) {
		struct pair *p = pair_open(t);
		struct child c = {p->ops, p->can, CLOSED_AT_ONCE};
		struct twt_child child;

		tw_settings.retry = (unsigned)(1000 * TWT_LONG);
		twt_spawn(&child, child_main, &c);
		UNTIL(p, p->a.npeers == 1 && p->a.peers[0].got > 0);
		usleep(100000);
		expect_down(p, &p->a.peers[0], FROM_CHILD, TW_ECLOSED);
		cr_assert_eq(twt_join(&child, TWT_LONG), 0);
		pair_close(p);
	}
}

/* A name whose owner was killed is free at once. */
CONFORMANCE(killed_leaves_no_name, OTHERS)
{
	struct pair *p = pair_open(t);
	struct child c = {p->ops, p->can, KILLED};
	static struct fake heir;
	struct twt_child child;

	twt_spawn(&child, child_main, &c);
	UNTIL(p, p->a.npeers == 1);
	await_sent(p, &child);
	cr_assert_eq(fake_open(&heir, p->ops, 9), TW_EBUSY);
	kill(child.pid, SIGKILL);
	twt_join(&child, TWT_LONG);
	cr_assert_eq(fake_open(&heir, p->ops, 9), TW_OK);
	fake_close(&heir);
	expect_gone(p, &p->a.peers[0], FROM_CHILD, TW_ELOST);
	pair_close(p);
}
