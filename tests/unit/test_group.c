/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Members and controls, between two endpoints of this process.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>

#include "group/group.h"
#include "group/job.h"
#include "lib/twt.h"

enum { FILTER = 77, ASK = 1000 };

/* One side: an endpoint, and the other side as its member. */
static struct side {
	struct tw_group group;
	uint64_t handle;
	struct tw_ep *ep;
	struct tw_member other;
	unsigned n, lost;
	uint64_t last; /* argument, of controls that count up */
} sides[2];

static struct side *side_of(struct tw_ep *ep)
{
	return ep->owner;
}

static void am_handler(struct tw_ep *ep, struct tw_peer *p, uint64_t arg, const void *data,
		       uint32_t len)
{
	struct side *s = side_of(ep);

	if (!p->context)
		tw_member_met(&s->other, p->addr);
	if (arg > ASK) {
		/* A request: its number comes back. */
		cr_assert(tw_ctrl_send(&s->other, 0, data, len));
	} else if (arg == 0) {
		cr_assert(tw_ctrl_replied(&s->other, *(const uint32_t *)data, data, len));
		cr_assert(!tw_ctrl_replied(&s->other, *(const uint32_t *)data, data, len));
	} else {
		cr_assert_eq(arg, ++s->last);
		s->n++;
	}
}

static const struct tw_interface interface = {
	.am_handler = am_handler, .attend = tw_group_attend, .down = tw_group_down};

static void lost(struct tw_member *m)
{
	tw_container(m, struct side, other)->lost++;
}

static void come(int i)
{
	const struct tw_open how = {.number = 7 + (uint32_t)i,
				    .filter = FILTER,
				    .unexp_max = 1 << 20,
				    .iface = &interface,
				    .owner = &sides[i],
				    .ep = &sides[i].group.ep};
	struct side *s = &sides[i];

	memset(s, 0, sizeof(*s));
	tw_group_init(&s->group, FILTER);
	s->group.lost = lost;
	tw_member_init(&s->group, &s->other, 0);
	cr_assert_eq(tw_ep_open(&how, &s->handle), TW_OK);
	s->ep = tw_enter(s->handle);
	s->other.where = (s->ep->self->addr.where & ~0xffffull) | (uint64_t)(7 + !i);
	tw_leave(s->ep);
}

static void start(void)
{
	char job[40];

	snprintf(job, sizeof(job), "group-%d", (int)getpid());
	setenv("TAGWIRE_JOB", job, 1);
	setenv("TAGWIRE_SERVICE", "0", 1);
	cr_assert_eq(tw_begin(), TW_OK);
	come(0);
}

TestSuite(group, .init = start, .timeout = TWT_TIMEOUT);

static void turn(struct side *s)
{
	struct tw_ep *ep = tw_enter(s->handle);

	if (!ep)
		return;
	tw_poll_events(ep);
	tw_expire(ep);
	tw_progress(ep);
	tw_group_attend(ep);
	tw_leave(ep);
}

static void until(bool (*test)(void))
{
	double end = twt_now() + TWT_LONG;

	while (!test()) {
		cr_assert(twt_now() < end);
		turn(&sides[0]);
		turn(&sides[1]);
	}
}

static void send(struct side *s, uint64_t arg)
{
	struct tw_ep *ep = tw_enter(s->handle);

	cr_assert(tw_ctrl_send(&s->other, arg, &arg, sizeof(arg)));
	tw_leave(ep);
}

static bool three_came(void)
{
	return sides[1].n == 3;
}

static bool seeking(void)
{
	const struct tw_peer *p = tw_peer_find(sides[0].ep, sides[0].other.where);

	return p && p->retry;
}

static bool was_lost(void)
{
	return sides[0].lost == 1;
}

static unsigned replies, losses;

static void on_reply(struct tw_ctrl_request *r, const void *reply, uint32_t len)
{
	cr_assert(!reply || (len == sizeof(r->number) && *(const uint32_t *)reply == r->number));
	replies += reply != NULL;
	losses += reply == NULL;
}

static bool replied(void)
{
	return replies == 1;
}

static void ask(struct tw_ctrl_request *r, uint64_t arg)
{
	struct tw_ep *ep = tw_enter(sides[0].handle);

	r->on_reply = on_reply;
	tw_ctrl_request(r, &sides[0].other);
	cr_assert(tw_ctrl_send(&sides[0].other, arg, &r->number, sizeof(r->number)));
	tw_leave(ep);
}

/* Controls wait for a member that begins later, and arrive in order. */
Test(group, begins_later)
{
	sides[0].group.later = true;
	for (uint64_t arg = 1; arg <= 3; arg++)
		send(&sides[0], arg);
	until(seeking);
	cr_assert_eq(sides[0].other.state, TW_MEMBER_SEARCHING);
	come(1);
	until(three_came);
	cr_assert_eq(sides[0].other.state, TW_MEMBER_HERE);
	cr_assert_eq(sides[1].other.state, TW_MEMBER_HERE);
	cr_assert_eq(sides[0].lost, 0);
}

/* One that does not is lost at once, and sought again with the next control. */
Test(group, is_not_there)
{
	send(&sides[0], 1);
	until(was_lost);
	cr_assert_eq(sides[0].other.state, TW_MEMBER_LOST);
	cr_assert_eq(sides[0].other.why, TW_S_CLOSED);
	come(1);
	for (uint64_t arg = 1; arg <= 3; arg++)
		send(&sides[0], arg);
	until(three_came);
}

/* A request ends with its reply, or with the loss of its member. */
Test(group, requests)
{
	struct tw_ctrl_request r, unanswered;

	come(1);
	ask(&r, ASK + 1);
	until(replied);
	ask(&unanswered, 1);
	turn(&sides[0]);
	turn(&sides[1]);
	cr_assert_eq(tw_ep_close(sides[1].handle), TW_OK);
	until(was_lost);
	cr_assert(replies == 1 && losses == 1);
	cr_assert_eq(sides[0].other.state, TW_MEMBER_LOST);
}

static bool has_accepted(void)
{
	return sides[1].ep->counters[TW_C_ACCEPT] > 0;
}

/* What came to it is not attended to yet. */
static void look(struct side *s)
{
	struct tw_ep *ep = tw_enter(s->handle);

	tw_poll_events(ep);
	tw_leave(ep);
}

/* One that ends as soon as it is connected to is lost, and what it was asked with it. */
Test(group, connected_and_gone)
{
	struct tw_ctrl_request r;

	come(1);
	ask(&r, ASK + 1);
	until(has_accepted);
	look(&sides[0]);
	cr_assert_eq(tw_ep_close(sides[1].handle), TW_OK);
	look(&sides[0]);
	until(was_lost);
	cr_assert_eq(losses, 1);
	cr_assert_eq(sides[0].other.state, TW_MEMBER_LOST);
}

static volatile sig_atomic_t signals;

static void begin_and_end(void)
{
	struct tw_job job;
	enum tw_err err = tw_begin();

	cr_assert(err == TW_OK || (err == TW_AGAIN && signals));
	if (err == TW_OK && tw_job_begin(NULL, &job) == TW_OK)
		tw_job_end();
	if (err == TW_OK)
		tw_end();
}

static void on_signal(int sig)
{
	(void)sig;
	signals++;
	begin_and_end();
}

/* A handler does not wait for the call that it has interrupted. */
Test(group, handler_amid_begin_and_end, .timeout = TWT_TIMEOUT)
{
	struct sigaction sa = {.sa_handler = on_signal};
	struct itimerval t = {{0, 60}, {0, 60}};

	cr_assert_eq(sigaction(SIGALRM, &sa, NULL), 0);
	cr_assert_eq(setitimer(ITIMER_REAL, &t, NULL), 0);
	while (signals < 2000)
		begin_and_end();
	t = (struct itimerval){{0, 0}, {0, 0}};
	cr_assert_eq(setitimer(ITIMER_REAL, &t, NULL), 0);
	/* Nobody is left inside. */
	cr_assert_eq(tw_begin(), TW_OK);
	tw_end();
}
