/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads that sleep on queues and counters, while other threads use the same objects. */
/* Wait sets: deprecated in libfabric 2, in use by clients of 1.x. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "fi/fit.h"

TestSuite(fi_sleepers, .timeout = FIT_TIMEOUT);

#define ROUNDS 200

static int ctx[2];

struct sleeper {
	struct fit *t;
	struct fid_cntr *cntr;
	struct fid_eq *eq;
	struct fid_wait *set;
	uint64_t threshold;
	_Atomic(pid_t) tid;
	atomic_uint done;
	pthread_t thread;
};

static void start(struct sleeper *s, void *(*run)(void *))
{
	cr_assert(pthread_create(&s->thread, NULL, run, s) == 0);
}

/* Takes one event of the second queue; its descriptor tells when. */
static void *sleep_on_descriptor(void *arg)
{
	struct sleeper *s = arg;
	struct fid *fids[1] = {&s->t->cq[1]->fid};
	struct fi_cq_tagged_entry e;
	struct pollfd p = {.events = POLLIN};

	fit_ok(fi_control(fids[0], FI_GETWAIT, &p.fd));
	while (fi_cq_read(s->t->cq[1], &e, 1) == -FI_EAGAIN) {
		if (fi_trywait(s->t->fabric, fids, 1))
			continue;
		atomic_store(&s->tid, gettid());
		/* Before other timers of the library would wake it, after a second and more. */
		fit_eq(poll(&p, 1, (int)(500 * twt_patience())), 1);
	}
	return NULL;
}

static void *sleep_on_queue(void *arg)
{
	struct sleeper *s = arg;
	struct fi_cq_tagged_entry e;

	atomic_store(&s->tid, gettid());
	fit_eq(fi_cq_sread(s->t->cq[1], &e, 1, NULL, 1000 * TWT_LONG), 1);
	return NULL;
}

/* Two endpoints; the second has a counter, too. */
static struct fid_cntr *open_counted(struct fit *t, const char *way)
{
	struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
	struct fid_cntr *cntr;

	fit_open(t, 1, way, (struct fit_how){.wait = FI_WAIT_FD});
	fit_prepare(t);
	fit_ok(fi_cntr_open(t->domain, &attr, &cntr, NULL));
	fit_ok(fi_ep_bind(t->ep[1], &cntr->fid, FI_SEND));
	fit_enable(t);
	return cntr;
}

static void close_counted(struct fit *t, struct fid_cntr *cntr)
{
	fit_ok(fi_close(&t->ep[1]->fid));
	fit_ok(fi_close(&cntr->fid));
	t->ep[1] = NULL;
	fit_close(t);
}

/* A thread that looks at another object of the endpoint, once, takes nobody's sleep away. */
FIT_TEST(fi_sleepers, beside_a_reader)
{
	struct fit t;
	struct sleeper s = {.t = &t, .cntr = open_counted(&t, *way)};
	int v = 1;

	for (unsigned i = 0; i < 3; i++) {
		atomic_store(&s.tid, 0);
		fit_ok(fi_trecv(t.ep[1], &v, 4, NULL, FI_ADDR_UNSPEC, i, 0, &ctx[1]));
		start(&s, sleep_on_descriptor);
		twt_await_asleep(&s.tid);
		fit_eq(fi_cntr_read(s.cntr), 0);
		fit_ok(fi_tinject(t.ep[0], &v, 4, t.to[1], i));
		pthread_join(s.thread, NULL);
	}
	close_counted(&t, s.cntr);
}

/* Nor does one that sends. */
FIT_TEST(fi_sleepers, beside_a_sender)
{
	struct fit t;
	struct sleeper s = {.t = &t, .cntr = open_counted(&t, *way)};
	int v = 1;

	fit_ok(fi_trecv(t.ep[1], &v, 4, NULL, FI_ADDR_UNSPEC, 1, 0, &ctx[1]));
	start(&s, sleep_on_descriptor);
	twt_await_asleep(&s.tid);
	for (unsigned i = 0; i < 100; i++)
		fit_ok(fi_tinject(t.ep[1], &v, 4, t.to[0], 2));
	fit_ok(fi_tinject(t.ep[0], &v, 4, t.to[1], 1));
	pthread_join(s.thread, NULL);
	close_counted(&t, s.cntr);
}

static void *await_count(void *arg)
{
	struct sleeper *s = arg;

	for (unsigned i = 1; i <= ROUNDS; i++) {
		fit_ok(fi_cntr_wait(s->cntr, i * s->threshold, 1000 * TWT_LONG));
		atomic_store(&s->done, i);
	}
	return NULL;
}

/* Threads that wait for a counter see it change, whoever else has looked at it. */
FIT_TEST(fi_sleepers, one_counter)
{
	struct fit t;
	struct fid_cntr *cntr = open_counted(&t, *way);
	struct sleeper s[2] = {{.cntr = cntr, .threshold = 1}, {.cntr = cntr, .threshold = 2}};

	for (int i = 0; i < 2; i++)
		start(&s[i], await_count);
	for (unsigned i = 1; i <= 2 * ROUNDS; i++) {
		fit_ok(fi_cntr_add(cntr, 1));
		fit_eq(fi_cntr_read(cntr), i);
		while (i <= ROUNDS && atomic_load(&s[0].done) < i)
			fi_cntr_read(cntr);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(s[i].thread, NULL);
	close_counted(&t, cntr);
}

/* One more endpoint of the second queue, with its address and a receive. */
static struct fid_ep *another(struct fit *t, fi_addr_t *to, int *v)
{
	char name[64];
	size_t len = sizeof(name);
	struct fid_ep *ep;

	fit_ok(fi_endpoint(t->domain, t->info, &ep, NULL));
	fit_ok(fi_ep_bind(ep, &t->cq[1]->fid, FI_TRANSMIT | FI_RECV));
	fit_ok(fi_ep_bind(ep, &t->av->fid, 0));
	fit_ok(fi_enable(ep));
	fit_ok(fi_getname(&ep->fid, name, &len));
	fit_eq(fi_av_insert(t->av, name, 1, to, 0, NULL), 1);
	fit_ok(fi_trecv(ep, v, 4, NULL, FI_ADDR_UNSPEC, 1, 0, &ctx[1]));
	return ep;
}

/* An endpoint that is bound to a queue wakes who sleeps there already. */
FIT_TEST(fi_sleepers, new_endpoint)
{
	struct fit t;
	struct sleeper s = {.t = &t};
	struct fid_ep *ep;
	fi_addr_t to;
	int v = 1;

	fit_open(&t, 2, *way, (struct fit_how){.wait = FI_WAIT_FD});
	start(&s, sleep_on_queue);
	twt_await_asleep(&s.tid);
	ep = another(&t, &to, &v);
	fit_ok(fi_tinject(t.ep[0], &v, 4, to, 1));
	pthread_join(s.thread, NULL);
	fit_ok(fi_close(&ep->fid));
	fit_close(&t);
}

/* A thread sleeps on while the only endpoint of its queue is closed, and another comes. */
FIT_TEST(fi_sleepers, endpoint_closed)
{
	struct fit t;
	struct sleeper s = {.t = &t};
	fi_addr_t to;
	int v = 1;

	fit_open(&t, 2, *way, (struct fit_how){.wait = FI_WAIT_FD});
	for (unsigned i = 0; i < 3; i++) {
		atomic_store(&s.tid, 0);
		start(&s, sleep_on_queue);
		twt_await_asleep(&s.tid);
		fit_ok(fi_close(&t.ep[1]->fid));
		fit_eq(pthread_tryjoin_np(s.thread, NULL), EBUSY);
		twt_await_asleep(&s.tid);
		t.ep[1] = another(&t, &to, &v);
		fit_ok(fi_tsend(t.ep[0], &v, 4, NULL, to, 1, NULL));
		fit_good(&t, 0, NULL);
		pthread_join(s.thread, NULL);
		fit_ok(fi_av_remove(t.av, &to, 1, 0));
	}
	fit_close(&t);
}

struct reader {
	struct fid_eq *eq;
	_Atomic(pid_t) tid;
	ssize_t result;
	pthread_t thread;
};

static void *read_event(void *arg)
{
	struct reader *r = arg;
	struct fi_eq_entry e;
	uint32_t event;

	atomic_store(&r->tid, gettid());
	r->result = fi_eq_sread(r->eq, &event, &e, sizeof(e), 1000 * TWT_LONG, 0);
	return NULL;
}

/* Of threads that wait for an event queue each gets an event, though one event wakes them all. */
Test(fi_sleepers, one_event_queue)
{
	struct fi_eq_attr attr = {.wait_obj = FI_WAIT_FD, .flags = FI_WRITE};
	struct fi_eq_entry e = {0};
	struct reader r[3];
	struct fit t;

	fit_open(&t, 0, "self,shm", (struct fit_how){0});
	for (unsigned i = 0; i < 3; i++)
		r[i] = (struct reader){0};
	fit_ok(fi_eq_open(t.fabric, &attr, &r[0].eq, NULL));
	for (unsigned i = 0; i < 3; i++) {
		r[i].eq = r[0].eq;
		cr_assert(pthread_create(&r[i].thread, NULL, read_event, &r[i]) == 0);
		twt_await_asleep(&r[i].tid);
	}
	for (unsigned i = 0; i < 3; i++) {
		fit_eq(fi_eq_write(r[0].eq, FI_NOTIFY, &e, sizeof(e), 0), sizeof(e));
		usleep(10000);
	}
	for (unsigned i = 0; i < 3; i++) {
		pthread_join(r[i].thread, NULL);
		fit_eq(r[i].result, sizeof(e));
	}
	fit_ok(fi_close(&r[0].eq->fid));
	fit_close(&t);
}

static void *bind_and_close(void *arg)
{
	struct sleeper *s = arg;

	for (unsigned i = 0; i < ROUNDS; i++) {
		struct fid_ep *ep;

		fit_ok(fi_endpoint(s->t->domain, s->t->info, &ep, NULL));
		fit_ok(fi_ep_bind(ep, &s->t->av->fid, 0));
		fit_ok(fi_close(&ep->fid));
	}
	atomic_store(&s->done, 1);
	return NULL;
}

/* Addresses are removed while endpoints come and go. */
Test(fi_sleepers, addresses_beside_endpoints)
{
	struct fit t;
	struct sleeper s = {.t = &t};
	char name[64];
	size_t len = sizeof(name);
	fi_addr_t to;

	fit_open(&t, 1, "self,shm", (struct fit_how){0});
	fit_ok(fi_getname(&t.ep[0]->fid, name, &len));
	start(&s, bind_and_close);
	while (!atomic_load(&s.done)) {
		fit_eq(fi_av_insert(t.av, name, 1, &to, 0, NULL), 1);
		fit_ok(fi_av_remove(t.av, &to, 1, 0));
	}
	pthread_join(s.thread, NULL);
	fit_close(&t);
}

static void *sleep_for_ever(void *arg)
{
	struct sleeper *s = arg;
	struct fi_cq_tagged_entry e;
	uint32_t event;

	atomic_store(&s->tid, gettid());
	if (s->cntr)
		fi_cntr_wait(s->cntr, 1000, -1);
	else if (s->eq)
		fi_eq_sread(s->eq, &event, &e, sizeof(e), -1, 0);
	else if (s->set)
		fi_wait(s->set, -1);
	else
		fi_cq_sread(s->t->cq[1], &e, 1, NULL, -1);
	return NULL;
}

/* Programs end the threads that wait by cancelling them: then they hold nothing. */
FIT_TEST(fi_sleepers, cancelled)
{
	struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_FD};
	struct fi_wait_attr wait_attr = {.wait_obj = FI_WAIT_UNSPEC};
	struct fi_cq_attr cq_attr = {.wait_obj = FI_WAIT_SET};
	struct fit t;
	struct fid_cntr *cntr = open_counted(&t, *way);
	struct sleeper s[4] = {{.t = &t}, {.cntr = cntr}, {.t = &t}, {.t = &t}};
	struct fid_cq *cq;
	void *result;
	int v = 1;

	fit_ok(fi_eq_open(t.fabric, &eq_attr, &s[2].eq, NULL));
	fit_ok(fi_wait_open(t.fabric, &wait_attr, &s[3].set));
	cq_attr.wait_set = s[3].set;
	fit_ok(fi_cq_open(t.domain, &cq_attr, &cq, NULL));
	for (int i = 0; i < 4; i++) {
		start(&s[i], sleep_for_ever);
		twt_await_asleep(&s[i].tid);
	}
	for (int i = 0; i < 4; i++) {
		cr_assert_eq(pthread_cancel(s[i].thread), 0);
		cr_assert_eq(pthread_join(s[i].thread, &result), 0);
		cr_assert(result == PTHREAD_CANCELED);
	}
	fit_ok(fi_close(&cq->fid));
	fit_ok(fi_close(&s[3].set->fid));
	fit_ok(fi_close(&s[2].eq->fid));
	fit_ok(fi_trecv(t.ep[1], &v, 4, NULL, FI_ADDR_UNSPEC, 1, 0, &ctx[1]));
	fit_tsend(&t, 0, 1, &v, 4, 1);
	fit_good(&t, 1, &ctx[1]);
	close_counted(&t, cntr);
}

/* A limit counts from the call on, though a thread looks once a second whether it is cancelled. */
FIT_TEST(fi_sleepers, limit_beyond_a_second)
{
	struct fi_cq_tagged_entry e;
	struct fit t;
	fi_addr_t to;
	int v = 1;

	fit_open(&t, 2, *way, (struct fit_how){.wait = FI_WAIT_UNSPEC});
	for (int eps = 1; eps <= 2; eps++) {
		struct fid_ep *ep = eps == 2 ? another(&t, &to, &v) : NULL;

		fit_eq(fi_cq_sread(t.cq[1], &e, 1, NULL, 1500), -FI_EAGAIN);
		if (ep)
			fit_ok(fi_close(&ep->fid));
	}
	fit_close(&t);
}
