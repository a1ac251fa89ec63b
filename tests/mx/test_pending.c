/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MX I, II.4 and II.5: nothing but memory bounds what is pending. A receive gets its
 * message, however many others were sent before it and lie unmatched, and the memory
 * of all these goes back when they have been received.
 */
#include <stdlib.h>

#include "mx/mxt.h"

static void start(void)
{
	mxt_job();
	/* Hardly any of them have credit. */
	setenv("TAGWIRE_UNEXP_MAX", "256k", 1);
}

TestSuite(mx_pending, .init = start, .timeout = MXT_TIMEOUT);

enum { MANY = 100000, PEERS = 8, LONG = 16384, STEP = 8 };
/* How many, of which length, and whether the last one is received first. */
struct plan {
	uint32_t n, len;
	bool last_first;
};

static mx_request_t req[PEERS][MANY];
/* Message i is at i * STEP: they differ and take little memory all the same. */
static char out[MANY * STEP + LONG];

static void prepare(void)
{
	for (uint64_t i = 0; i < sizeof(out) / STEP; i++)
		memcpy(out + i * STEP, &i, STEP);
	memset(req, 0, sizeof(req));
}

/* Fewer where each takes longer. */
static uint32_t many(void)
{
	return MANY / twt_slow() / (getenv("TWT_NETNS") ? 4 : 1);
}

/* Of the peers each has its own requests and match information. */
static void post(mx_endpoint_t ep, mx_endpoint_addr_t to, const struct plan *p, unsigned peer)
{
	for (uint32_t i = 0; i < p->n; i++)
		req[peer][i] =
			mxt_isend(ep, out + (size_t)i * STEP, p->len, to, (uint64_t)peer << 32 | i);
}

static void finish(mx_endpoint_t ep, const struct plan *p, unsigned peer)
{
	for (uint32_t i = 0; i < p->n; i++)
		mxt_wait(ep, &req[peer][i], MX_STATUS_SUCCESS);
}

static void take(mx_endpoint_t ep, const struct plan *p, unsigned peer, uint32_t i)
{
	char in[LONG];
	mx_request_t r = mxt_irecv(ep, in, p->len, (uint64_t)peer << 32 | i);
	mx_status_t st = mxt_wait(ep, &r, MX_STATUS_SUCCESS);

	mxt_eq(st.xfer_length, p->len);
	mxt_check(memcmp(in, out + (size_t)i * STEP, p->len) == 0);
}

static void take_all(mx_endpoint_t ep, const struct plan *p, unsigned peer)
{
	for (uint32_t i = 0; i < p->n; i++)
		take(ep, p, peer, p->last_first ? p->n - 1 - i : i);
}

/* Has whatever a first few need once, so that only what the many need is measured. */
static const struct plan few = {2000, LONG, true};

static void progress(void *ep)
{
	mxt_ok(mx_progress(ep));
}

static void send_side(struct mxt_side *s)
{
	size_t before;

	prepare();
	post(s->ep, s->peer, &few, 0);
	finish(s->ep, &few, 0);
	before = twc_allocated();
	post(s->ep, s->peer, s->arg, 0);
	mxt_signal(s->fd);
	mxt_await(s->fd);
	finish(s->ep, s->arg, 0);
	twc_given_back(before, progress, s->ep);
	mxt_signal(s->fd);
}

static void between_processes(uint32_t len, bool last_first)
{
	struct plan p = {many(), len, last_first};
	struct mxt_side s;
	size_t before;

	prepare();
	mxt_two(&s, send_side, &p);
	take_all(s.ep, &few, 0);
	before = twc_allocated();
	/* All of it is sent before anything is received. */
	mxt_await(s.fd);
	take_all(s.ep, &p, 0);
	mxt_signal(s.fd);
	twc_given_back(before, progress, s.ep);
	mxt_await(s.fd);
	mxt_two_end(&s);
}

Test(mx_pending, short_in_order, .timeout = MXT_TIMEOUT)
{
	between_processes(8, false);
}

Test(mx_pending, short_last_first, .timeout = MXT_TIMEOUT)
{
	between_processes(8, true);
}

Test(mx_pending, long_in_order, .timeout = MXT_TIMEOUT)
{
	between_processes(LONG, false);
}

Test(mx_pending, long_last_first, .timeout = MXT_TIMEOUT)
{
	between_processes(LONG, true);
}

/* Many peers: the short messages of one, the long ones of the next, and so on. */
static struct plan plan_of(unsigned peer)
{
	return (struct plan){many() / 4, peer % 2 ? LONG : 8, peer / 2 % 2};
}

struct peer {
	unsigned number;
	struct mxt_name to;
	atomic_int *posted; /* by all */
	struct twc_thread thread;
	mx_endpoint_t ep;
};

static mx_endpoint_t post_all(unsigned peer, struct mxt_name to)
{
	struct plan p = plan_of(peer);
	mx_endpoint_t ep = mxt_open(MX_ANY_ENDPOINT);

	post(ep, mxt_connect(ep, to), &p, peer);
	return ep;
}

static void finish_all(unsigned peer, mx_endpoint_t ep)
{
	struct plan p = plan_of(peer);

	finish(ep, &p, peer);
	mxt_close(ep);
}

static int a_process(void *arg, int fd)
{
	unsigned peer = *(unsigned *)arg;
	struct mxt_name to;
	mx_endpoint_t ep;

	mxt_up();
	prepare();
	mxt_eq(twt_get(fd, &to, sizeof(to)), 0);
	ep = post_all(peer, to);
	mxt_signal(fd);
	mxt_await(fd);
	finish_all(peer, ep);
	mxt_down();
	return 0;
}

Test(mx_pending, from_processes, .timeout = MXT_TIMEOUT)
{
	struct twt_child c[PEERS];
	struct mxt_name me;
	mx_endpoint_t ep;

	for (unsigned i = 0; i < PEERS; i++)
		twt_spawn(&c[i], a_process, &i);
	mxt_up();
	prepare();
	ep = mxt_open(MX_ANY_ENDPOINT);
	me = mxt_name(ep);
	for (unsigned i = 0; i < PEERS; i++)
		mxt_eq(twt_put(c[i].fd, &me, sizeof(me)), 0);
	for (unsigned i = 0; i < PEERS; i++)
		mxt_await(c[i].fd);
	for (unsigned i = PEERS; i-- > 0;) {
		struct plan p = plan_of(i);

		take_all(ep, &p, i);
	}
	for (unsigned i = 0; i < PEERS; i++)
		mxt_signal(c[i].fd);
	for (unsigned i = 0; i < PEERS; i++)
		mxt_eq(twt_join(&c[i], MXT_CHILD), 0);
	mxt_close(ep);
	mxt_down();
}

static void a_thread(void *arg)
{
	struct peer *p = arg;

	p->ep = post_all(p->number, p->to);
	atomic_fetch_add(p->posted, 1);
}

Test(mx_pending, from_threads, .timeout = MXT_TIMEOUT)
{
	static struct peer peers[PEERS];
	atomic_int posted = 0;
	mx_endpoint_t ep;

	mxt_up();
	prepare();
	ep = mxt_open(MX_ANY_ENDPOINT);
	for (unsigned i = 0; i < PEERS; i++) {
		peers[i] = (struct peer){.number = i, .to = mxt_name(ep), .posted = &posted};
		mxt_start(&peers[i].thread, a_thread, &peers[i]);
	}
	/* This one takes them in meanwhile. */
	while (atomic_load(&posted) < PEERS)
		mxt_ok(mx_progress(ep));
	for (unsigned i = 0; i < PEERS; i++) {
		struct plan p = plan_of(i);

		mxt_join(&peers[i].thread);
		take_all(ep, &p, i);
	}
	for (unsigned i = 0; i < PEERS; i++)
		finish_all(i, peers[i].ep);
	mxt_close(ep);
	mxt_down();
}
