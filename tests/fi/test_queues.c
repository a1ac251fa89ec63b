/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues, counters, event queues; waiting for them. */
/* Wait sets, poll sets and fi_av_bind: deprecated in libfabric 2, in use by clients of 1.x. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "fi/fit.h"

TestSuite(fi_queues, .timeout = FIT_TIMEOUT);

static int ctx[8];

FIT_TEST(fi_queues, formats)
{
	static const size_t entry[] = {0, sizeof(struct fi_cq_entry),
				       sizeof(struct fi_cq_msg_entry),
				       sizeof(struct fi_cq_data_entry),
				       sizeof(struct fi_cq_tagged_entry)};
	char buf[200], guard[200];

	memset(guard, 0x77, sizeof(guard));
	for (enum fi_cq_format f = FI_CQ_FORMAT_CONTEXT; f <= FI_CQ_FORMAT_TAGGED; f++) {
		double end = twt_now() + TWT_LONG;
		struct fit t;
		ssize_t n;
		int v = 4;

		fit_open(&t, 2, *way, (struct fit_how){.format = f});
		fit_ok(fi_trecv(t.ep[1], &v, 4, NULL, FI_ADDR_UNSPEC, 6, 0, &ctx[1]));
		fit_ok(fi_tsend(t.ep[0], &v, 4, NULL, t.to[1], 6, &ctx[0]));
		memset(buf, 0x77, sizeof(buf));
		do {
			fi_cq_read(t.cq[0], NULL, 0);
			n = fi_cq_read(t.cq[1], buf, 1);
			cr_assert(twt_now() < end);
		} while (n == -FI_EAGAIN);
		fit_eq(n, 1);
		cr_assert(((struct fi_cq_entry *)buf)->op_context == &ctx[1]);
		cr_assert(memcmp(buf + entry[f], guard, 200 - entry[f]) == 0);
		fit_close(&t);
	}
}

/*
 * A read after a message may leave out what no receive waits for, but only the first one: the
 * answer to a send is found without another message.
 */
FIT_TEST(fi_queues, answer_after_message)
{
	struct fi_cq_entry e;
	int in = 0, v = 1;
	struct iovec iov = {&v, 4};
	struct fi_msg_tagged m = {.msg_iov = &iov, .iov_count = 1, .tag = 2, .context = &ctx[2]};
	struct fit t;

	fit_open(&t, 2, *way, (struct fit_how){.format = FI_CQ_FORMAT_CONTEXT});
	m.addr = t.to[1];
	for (int i = 0; i < 1000; i++) {
		double end = twt_now() + TWT_LONG;

		fit_ok(fi_trecv(t.ep[0], &in, 4, NULL, FI_ADDR_UNSPEC, 1, 0, &ctx[0]));
		fit_ok(fi_tinject(t.ep[1], &v, 4, t.to[0], 1));
		fit_ok(fi_trecv(t.ep[1], &in, 4, NULL, FI_ADDR_UNSPEC, 2, 0, &ctx[1]));
		fit_good(&t, 0, &ctx[0]);
		fit_ok(fi_tsendmsg(t.ep[0], &m, FI_DELIVERY_COMPLETE));
		/* Only this side is driven, until it has sent its answer. */
		while (fi_cq_read(t.cq[1], &e, 1) != 1)
			cr_assert(twt_now() < end);
		cr_assert(e.op_context == &ctx[1]);
		while (fi_cq_read(t.cq[0], &e, 1) != 1)
			cr_assert(twt_now() < end);
		cr_assert(e.op_context == &ctx[2]);
	}
	fit_close(&t);
}

/* Puts another file in place of a descriptor that cannot watch; the other way round: back. */
static void swap_files(int a, int b)
{
	int c = dup(a);

	cr_assert(c >= 0 && dup2(b, a) == a && dup2(c, b) == b);
	close(c);
}

/* A queue or counter that cannot watch an endpoint forgets it. */
FIT_TEST(fi_queues, bind_fails)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_FD};
	struct fi_cntr_attr counter = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_FD};
	struct fi_cq_entry entry;
	struct fid_cntr *c;
	struct fid_ep *ep;
	struct fid_cq *q;
	struct fit t;
	int fd, other = open("/dev/null", O_RDONLY | O_CLOEXEC);

	mallopt(M_PERTURB, 0x5a);
	fit_open(&t, 1, *way, (struct fit_how){.wait = FI_WAIT_FD});
	fit_ok(fi_cq_open(t.domain, &attr, &q, NULL));
	fit_ok(fi_cntr_open(t.domain, &counter, &c, NULL));
	fit_ok(fi_endpoint(t.domain, t.info, &ep, NULL));
	fit_ok(fi_control(&q->fid, FI_GETWAIT, &fd));
	swap_files(fd, other);
	fit_eq(fi_ep_bind(ep, &q->fid, FI_TRANSMIT | FI_RECV), -FI_ENOMEM);
	swap_files(fd, other);
	fit_ok(fi_control(&c->fid, FI_GETWAIT, &fd));
	swap_files(fd, other);
	fit_eq(fi_ep_bind(ep, &c->fid, FI_SEND), -FI_ENOMEM);
	swap_files(fd, other);
	close(other);
	fit_ok(fi_close(&ep->fid));
	fit_eq(fi_cq_read(q, &entry, 1), -FI_EAGAIN);
	fit_eq(fi_cq_sread(q, &entry, 1, NULL, 10), -FI_EAGAIN);
	fit_eq(fi_cntr_wait(c, 1, 10), -FI_ETIMEDOUT);
	fit_ok(fi_close(&c->fid));
	fit_ok(fi_close(&q->fid));
	fit_close(&t);
}

/* Puts each epoll set with a number of `from' or above into another one, or takes it out. */
static void each_epoll(int set, int op, int from)
{
	struct epoll_event ev = {.events = 0};
	char path[40], text[40];

	for (int fd = from; fd < from + 100; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		memset(text, 0, sizeof(text));
		if (fd != set && readlink(path, text, sizeof(text) - 1) > 0 &&
		    strstr(text, "[eventpoll]"))
			epoll_ctl(set, op, fd, &ev);
	}
}

/* Nothing is left of a counter of memory that watches one endpoint, and cannot watch another. */
FIT_TEST(fi_queues, memory_bind_fails)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_FD};
	struct fid_cntr *refused, *bound;
	static char memory[4096];
	struct fid_mr *mr;
	struct fit t;
	int fd, first;

	mallopt(M_PERTURB, 0x5a);
	fit_open(&t, 1, *way, (struct fit_how){.caps = FI_RMA, .wait = FI_WAIT_FD});
	fit_ok(fi_mr_reg(t.domain, memory, sizeof(memory), FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1,
			 0, &mr, NULL));
	fit_ok(fi_cntr_open(t.domain, &attr, &refused, NULL));
	fit_ok(fi_control(&refused->fid, FI_GETWAIT, &fd));
	first = dup(STDIN_FILENO);
	close(first);
	fit_add(&t);
	/* It cannot be added, as it is there. */
	each_epoll(fd, EPOLL_CTL_ADD, first);
	fit_eq(fi_mr_bind(mr, &refused->fid, FI_REMOTE_READ | FI_REMOTE_WRITE), -FI_ENOMEM);
	each_epoll(fd, EPOLL_CTL_DEL, first);
	fit_ok(fi_cntr_open(t.domain, &attr, &bound, NULL));
	fit_ok(fi_mr_bind(mr, &bound->fid, FI_REMOTE_WRITE));
	fit_ok(fi_close(&t.ep[0]->fid));
	t.ep[0] = NULL;
	fit_eq(fi_cntr_wait(refused, 1, 10), -FI_ETIMEDOUT);
	fit_ok(fi_close(&refused->fid));
	fit_ok(fi_close(&mr->fid));
	fit_ok(fi_close(&bound->fid));
	fit_close(&t);
}

FIT_TEST(fi_queues, selective)
{
	int v = 1;
	struct iovec iov = {&v, 4};
	struct fi_msg_tagged m = {.msg_iov = &iov, .iov_count = 1, .tag = 3, .context = &ctx[0]};
	struct fit t;

	fit_open(&t, 2, *way, (struct fit_how){.cq_flags = FI_SELECTIVE_COMPLETION});
	m.addr = t.to[1];
	fit_ok(fi_trecv(t.ep[1], &v, 4, NULL, FI_ADDR_UNSPEC, 3, 0, &ctx[1]));
	fit_ok(fi_tsend(t.ep[0], &v, 4, NULL, t.to[1], 3, &ctx[0]));
	fit_none(&t, 0);
	fit_none(&t, 1);
	fit_ok(fi_tsendmsg(t.ep[0], &m, FI_COMPLETION));
	fit_good(&t, 0, &ctx[0]);
	m.addr = FI_ADDR_UNSPEC;
	m.context = &ctx[1];
	fit_ok(fi_trecvmsg(t.ep[1], &m, FI_COMPLETION));
	fit_good(&t, 1, &ctx[1]);
	/* Errors are always reported. */
	fit_ok(fi_trecv(t.ep[1], &v, 4, NULL, FI_ADDR_UNSPEC, 3, 0, &ctx[2]));
	fit_ok(fi_cancel(&t.ep[1]->fid, &ctx[2]));
	fit_bad(&t, 1, &ctx[2], FI_ECANCELED);
	fit_close(&t);
}

/* Full queues refuse: nothing hangs, nothing is lost. */
FIT_TEST(fi_queues, again)
{
	int v[64], sent = 0, received = 0;
	ssize_t rc = 0;
	struct fit t;

	fit_open(&t, 2, *way, (struct fit_how){.tx_size = 16, .rx_size = 16, .cq_size = 8});
	for (int i = 0; i < 16; i++)
		fit_ok(fi_trecv(t.ep[1], &v[i], 4, NULL, FI_ADDR_UNSPEC, (uint64_t)i, 0, &ctx[1]));
	fit_eq(fi_trecv(t.ep[1], &v[16], 4, NULL, FI_ADDR_UNSPEC, 16, 0, &ctx[1]), -FI_EAGAIN);
	while (rc == 0) {
		cr_assert(sent < 64);
		rc = fi_tsend(t.ep[0], &v[0], 4, NULL, t.to[1], (uint64_t)sent, &ctx[0]);
		sent += rc == 0;
	}
	fit_eq(rc, -FI_EAGAIN);
	cr_assert(sent >= 8);
	for (int i = 0; i < sent; i++)
		fit_good(&t, 0, &ctx[0]);
	while (sent < 16) {
		rc = fi_tsend(t.ep[0], &v[0], 4, NULL, t.to[1], (uint64_t)sent, &ctx[0]);
		cr_assert(rc == 0 || rc == -FI_EAGAIN);
		sent += rc == 0;
		if (rc == 0)
			fit_good(&t, 0, &ctx[0]);
	}
	while (received < 16) {
		fit_good(&t, 1, &ctx[1]);
		received++;
	}
	fit_none(&t, 1);
	fit_close(&t);
}

struct later {
	struct fit *t;
	bool signal;
};

static _Atomic(pid_t) sleeper;

static void *act_later(void *arg)
{
	struct later *l = arg;
	int v = 1;

	twt_await_asleep(&sleeper);
	if (l->signal)
		fi_cq_signal(l->t->cq[1]);
	else
		fit_ok(fi_tinject(l->t->ep[0], &v, 4, l->t->to[1], 1));
	return NULL;
}

FIT_TEST(fi_queues, sleeps)
{
	struct fi_cq_tagged_entry e;
	struct later l;
	pthread_t id;
	struct fit t;
	double start;
	int v;

	fit_open(&t, 2, *way, (struct fit_how){.wait = FI_WAIT_UNSPEC});
	start = twt_now();
	fit_eq(fi_cq_sread(t.cq[1], &e, 1, NULL, 30), -FI_EAGAIN);
	cr_assert(twt_now() - start >= 0.029);
	atomic_store(&sleeper, gettid());
	l = (struct later){&t, true};
	pthread_create(&id, NULL, act_later, &l);
	fit_eq(fi_cq_sread(t.cq[1], &e, 1, NULL, -1), -FI_EAGAIN);
	pthread_join(id, NULL);
	fit_ok(fi_trecv(t.ep[1], &v, 4, NULL, FI_ADDR_UNSPEC, 1, 0, &ctx[1]));
	l = (struct later){&t, false};
	pthread_create(&id, NULL, act_later, &l);
	fit_eq(fi_cq_sread(t.cq[1], &e, 1, NULL, -1), 1);
	cr_assert(e.op_context == &ctx[1]);
	pthread_join(id, NULL);
	fit_close(&t);
}

/* One more endpoint, of the first queue. */
static fi_addr_t join_queue(struct fit *t, struct fid_ep **ep)
{
	char name[64];
	size_t len = sizeof(name);
	fi_addr_t to;

	fit_ok(fi_endpoint(t->domain, t->info, ep, NULL));
	fit_ok(fi_ep_bind(*ep, &t->av->fid, 0));
	fit_ok(fi_ep_bind(*ep, &t->cq[0]->fid, FI_TRANSMIT | FI_RECV));
	fit_ok(fi_enable(*ep));
	fit_ok(fi_getname(&(*ep)->fid, name, &len));
	fit_eq(fi_av_insert(t->av, name, 1, &to, 0, NULL), 1);
	return to;
}

static void inject(struct fit *t, fi_addr_t to, uint64_t tag)
{
	ssize_t rc;

	while ((rc = fi_tinject(t->ep[1], &tag, sizeof(tag), to, tag)) == -FI_EAGAIN)
		fi_cq_read(t->cq[1], NULL, 0);
	fit_ok(rc);
}

static void arm_queue(struct fit *t)
{
	struct fid *queue = &t->cq[0]->fid;

	while (fi_trywait(t->fabric, &queue, 1))
		fit_eq(fi_cq_read(t->cq[0], NULL, 0), -FI_EAGAIN);
}

/* One signal is one edge, behind packets for very many endpoints that give no event. */
FIT_TEST(fi_queues, edges_of_many)
{
	enum { MANY = 40 };
	struct epoll_event ev = {.events = EPOLLIN | EPOLLET};
	int fd, set = epoll_create1(EPOLL_CLOEXEC);
	struct fid_ep *ep[MANY];
	fi_addr_t to[MANY];
	struct fit t;
	uint64_t v;

	fit_open(&t, 2, *way, (struct fit_how){.wait = FI_WAIT_FD});
	for (int i = 0; i < MANY; i++) {
		to[i] = join_queue(&t, &ep[i]);
		fit_ok(fi_trecv(ep[i], &v, sizeof(v), NULL, FI_ADDR_UNSPEC, 1, 0, &ctx[0]));
		inject(&t, to[i], 1);
		fit_good(&t, 0, &ctx[0]);
	}
	fit_ok(fi_control(&t.cq[0]->fid, FI_GETWAIT, &fd));
	fit_ok(epoll_ctl(set, EPOLL_CTL_ADD, fd, &ev));
	for (int round = 0; round < 3; round++) {
		arm_queue(&t);
		epoll_wait(set, &ev, 1, 0);
		for (int i = 0; i < MANY; i++)
			inject(&t, to[i], 2);
		for (int i = 0; i < 2; i++) {
			fit_ok(fi_cq_signal(t.cq[0]));
			fit_eq(epoll_wait(set, &ev, 1, 1000 * TWT_LONG), 1);
			arm_queue(&t);
		}
	}
	close(set);
	for (int i = 0; i < MANY; i++)
		fit_ok(fi_close(&ep[i]->fid));
	fit_close(&t);
}

static int answer(void *arg, int fd)
{
	const char *way = arg;
	char name[64], out[300000] = {0};
	struct fit t;
	size_t len;
	fi_addr_t to;

	fit_open(&t, 1, way, (struct fit_how){0});
	if (twt_get(fd, &len, sizeof(len)) || twt_get(fd, name, len))
		return 1;
	fit_eq(fi_av_insert(t.av, name, 1, &to, 0, NULL), 1);
	for (unsigned i = 0; i < 60; i++) {
		size_t n = i % 3 == 2 ? sizeof(out) : 64;

		usleep(i % 2 ? 3000 : 200);
		twt_fill(out, n, i);
		fit_ok(fi_tsend(t.ep[0], out, n, NULL, to, i, NULL));
		fit_good(&t, 0, NULL);
	}
	twt_get(fd, &len, 1);
	fit_close(&t);
	return 0;
}

/* A program that polls a descriptor hears of every message, long ones too. */
FIT_TEST(fi_queues, descriptor)
{
	char name[64], *in = malloc(300000);
	size_t len = sizeof(name);
	struct fid *fids[1];
	struct twt_child c;
	struct fit t;
	int fd;

	fit_env(*way);
	twt_spawn(&c, answer, *way);
	fit_open(&t, 1, *way, (struct fit_how){.wait = FI_WAIT_FD});
	fit_ok(fi_control(&t.cq[0]->fid, FI_GETWAIT, &fd));
	fit_ok(fi_getname(&t.ep[0]->fid, name, &len));
	cr_assert(twt_put(c.fd, &len, sizeof(len)) == 0 && twt_put(c.fd, name, len) == 0);
	fids[0] = &t.cq[0]->fid;
	for (unsigned i = 0; i < 60; i++) {
		struct fi_cq_tagged_entry e;
		ssize_t n;

		fit_ok(fi_trecv(t.ep[0], in, 300000, NULL, FI_ADDR_UNSPEC, i, 0, &ctx[1]));
		while ((n = fi_cq_read(t.cq[0], &e, 1)) == -FI_EAGAIN) {
			struct pollfd p = {.fd = fd, .events = POLLIN};

			if (fi_trywait(t.fabric, fids, 1) == 0)
				cr_assert(poll(&p, 1, 1000 * TWT_LONG) == 1, "message %u", i);
		}
		fit_eq(n, 1);
		fit_eq(twt_check(in, e.len, i), i % 3 == 2 ? 300000 : 64);
	}
	twt_put(c.fd, "", 1);
	fit_eq(twt_join(&c, TWT_LONG), 0);
	fit_close(&t);
	free(in);
}

FIT_TEST(fi_queues, counters)
{
	struct fid_cntr *tx, *rx, *drives[2];
	struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
	struct fid_ep *ep;
	struct fit t;
	char name[64];
	size_t len = sizeof(name);
	fi_addr_t to;
	int v = 3;

	fit_open(&t, 1, *way, (struct fit_how){0});
	fit_ok(fi_cntr_open(t.domain, &attr, &tx, NULL));
	fit_ok(fi_cntr_open(t.domain, &attr, &rx, NULL));
	fit_ok(fi_endpoint(t.domain, t.info, &ep, NULL));
	fit_eq(fi_enable(ep), -FI_ENOAV);
	fit_ok(fi_ep_bind(ep, &t.av->fid, 0));
	fit_eq(fi_enable(ep), -FI_ENOCQ);
	fit_ok(fi_ep_bind(ep, &tx->fid, FI_SEND));
	fit_ok(fi_ep_bind(ep, &rx->fid, FI_RECV));
	fit_ok(fi_enable(ep));
	fit_ok(fi_getname(&ep->fid, name, &len));
	fit_eq(fi_av_insert(t.av, name, 1, &to, 0, NULL), 1);
	for (unsigned i = 0; i < 5; i++) {
		fit_ok(fi_trecv(ep, &v, 4, NULL, FI_ADDR_UNSPEC, i, 0, &ctx[i]));
		fit_ok(i % 2 ? fi_tinject(ep, &v, 4, to, i)
			     : fi_tsend(ep, &v, 4, NULL, to, i, NULL));
	}
	fit_ok(fi_cntr_wait(tx, 5, -1));
	fit_ok(fi_cntr_wait(rx, 5, 1000 * TWT_LONG));
	fit_eq(fi_cntr_read(rx), 5);
	fit_eq(fi_cntr_wait(rx, 6, 20), -FI_ETIMEDOUT);
	fit_ok(fi_trecv(ep, &v, 4, NULL, FI_ADDR_UNSPEC, 9, 0, &ctx[0]));
	fit_ok(fi_cancel(&ep->fid, &ctx[0]));
	fit_eq(fi_cntr_readerr(rx), 1);
	fit_eq(fi_cntr_read(rx), 5);
	fit_ok(fi_cntr_add(rx, 10));
	fit_eq(fi_cntr_read(rx), 15);
	fit_ok(fi_cntr_set(rx, 2));
	fit_eq(fi_cntr_read(rx), 2);
	drives[0] = tx, drives[1] = rx;
	fit_eq(fi_close(&drives[0]->fid), -FI_EBUSY);
	fit_ok(fi_close(&ep->fid));
	fit_ok(fi_close(&drives[0]->fid));
	fit_ok(fi_close(&drives[1]->fid));
	fit_close(&t);
}

Test(fi_queues, event_queue)
{
	struct fi_eq_attr attr = {.wait_obj = FI_WAIT_UNSPEC, .flags = FI_WRITE};
	struct fi_av_attr av_attr = {.type = FI_AV_MAP, .flags = FI_EVENT};
	struct fi_eq_entry e = {.data = 5};
	struct fid_av *av;
	struct fid_eq *eq;
	uint32_t event;
	struct fit t;
	char name[64];
	size_t len = sizeof(name);

	fit_open(&t, 1, "self,shm", (struct fit_how){0});
	fit_ok(fi_eq_open(t.fabric, &attr, &eq, NULL));
	fit_eq(fi_eq_read(eq, &event, &e, sizeof(e), 0), -FI_EAGAIN);
	fit_eq(fi_eq_write(eq, FI_NOTIFY, &e, SIZE_MAX - 8, 0), -FI_ENOMEM);
	fit_eq(fi_eq_write(eq, FI_NOTIFY, &e, sizeof(e), 0), sizeof(e));
	fit_eq(fi_eq_read(eq, &event, &e, 1, 0), -FI_ETOOSMALL);
	fit_eq(fi_eq_read(eq, &event, &e, sizeof(e), FI_PEEK), sizeof(e));
	fit_eq(fi_eq_sread(eq, &event, &e, sizeof(e), 1000, 0), sizeof(e));
	fit_eq(event, FI_NOTIFY);
	fit_eq(fi_eq_sread(eq, &event, &e, sizeof(e), 20, 0), -FI_EAGAIN);
	fit_ok(fi_av_open(t.domain, &av_attr, &av, NULL));
	fit_ok(fi_av_bind(av, &eq->fid, 0));
	fit_ok(fi_getname(&t.ep[0]->fid, name, &len));
	fit_ok(fi_av_insert(av, name, 1, &t.to[1], 0, &ctx[1]));
	fit_eq(fi_eq_sread(eq, &event, &e, sizeof(e), 1000 * TWT_LONG, 0), sizeof(e));
	cr_assert(event == FI_AV_COMPLETE && e.fid == &av->fid && e.context == &ctx[1]);
	fit_eq(e.data, 1);
	fit_eq(fi_close(&eq->fid), -FI_EBUSY);
	fit_ok(fi_close(&av->fid));
	fit_ok(fi_close(&eq->fid));
	fit_close(&t);
}

FIT_TEST(fi_queues, sets)
{
	struct fi_wait_attr wait_attr = {.wait_obj = FI_WAIT_UNSPEC};
	struct fi_cq_attr cq_attr = {.wait_obj = FI_WAIT_SET, .format = FI_CQ_FORMAT_TAGGED};
	struct fi_poll_attr poll_attr = {0};
	struct fid_poll *polls;
	struct fid_wait *set;
	struct fid_cq *cq;
	void *who[2];
	struct fit t;
	int v = 1;

	fit_open(&t, 2, *way, (struct fit_how){0});
	fit_ok(fi_poll_open(t.domain, &poll_attr, &polls));
	fit_ok(fi_poll_add(polls, &t.cq[1]->fid, 0));
	t.cq[1]->fid.context = &ctx[3];
	fit_eq(fi_poll(polls, who, 2), 0);
	fit_tsend(&t, 0, 1, &v, 4, 1);
	fit_ok(fi_trecv(t.ep[1], &v, 4, NULL, FI_ADDR_UNSPEC, 1, 0, &ctx[1]));
	while (fi_poll(polls, who, 2) == 0)
		;
	cr_assert(who[0] == &ctx[3]);
	fit_good(&t, 1, &ctx[1]);
	fit_ok(fi_poll_del(polls, &t.cq[1]->fid, 0));
	fit_eq(fi_poll_del(polls, &t.cq[1]->fid, 0), -FI_EINVAL);
	/* A queue that is closed leaves the set. */
	cq_attr.wait_obj = FI_WAIT_NONE;
	fit_ok(fi_cq_open(t.domain, &cq_attr, &cq, NULL));
	fit_ok(fi_poll_add(polls, &cq->fid, 0));
	fit_ok(fi_poll_add(polls, &t.cq[1]->fid, 0));
	fit_ok(fi_close(&cq->fid));
	fit_eq(fi_poll(polls, who, 2), 0);
	fit_ok(fi_close(&polls->fid));
	cq_attr.wait_obj = FI_WAIT_SET;
	fit_ok(fi_wait_open(t.fabric, &wait_attr, &set));
	cq_attr.wait_set = set;
	fit_ok(fi_cq_open(t.domain, &cq_attr, &cq, NULL));
	fit_eq(fi_wait(set, 20), -FI_ETIMEDOUT);
	fit_ok(fi_cq_signal(cq));
	fit_eq(fi_close(&set->fid), -FI_EBUSY);
	fit_ok(fi_close(&cq->fid));
	fit_ok(fi_close(&set->fid));
	fit_close(&t);
}

/* Addresses of which some are wrong: an error for each of those, then how many are good. */
Test(fi_queues, bad_addresses)
{
	struct fi_av_attr attr = {.type = FI_AV_TABLE, .flags = FI_EVENT};
	struct fi_eq_attr how = {.wait_obj = FI_WAIT_FD};
	struct fi_eq_err_entry bad;
	struct fi_eq_entry good;
	struct fid_eq *eq;
	struct fid_av *av;
	char names[3][64];
	fi_addr_t to[3];
	uint32_t event;
	struct fit t;
	size_t len;
	int ctx;

	fit_open(&t, 1, NULL, (struct fit_how){0});
	fit_ok(fi_eq_open(t.fabric, &how, &eq, NULL));
	fit_ok(fi_av_open(t.domain, &attr, &av, NULL));
	fit_ok(fi_av_bind(av, &eq->fid, 0));
	memset(names, 0, sizeof(names));
	len = sizeof(names[0]);
	fit_ok(fi_getname(&t.ep[0]->fid, names[0], &len));
	memcpy(names[0] + 2 * len, names[0], len);
	memset(names[0] + len, 0xff, len);
	fit_ok(fi_av_insert(av, names, 3, to, 0, &ctx));
	fit_eq(fi_eq_readerr(eq, &bad, 0), sizeof(bad));
	cr_assert(bad.fid == &av->fid && bad.context == &ctx && bad.err == FI_EINVAL);
	fit_eq(bad.data, 1);
	fit_eq(fi_eq_readerr(eq, &bad, 0), -FI_EAGAIN);
	fit_eq(fi_eq_sread(eq, &event, &good, sizeof(good), -1, 0), sizeof(good));
	cr_assert(event == FI_AV_COMPLETE && good.context == &ctx && good.data == 2);
	fit_eq(to[1], FI_ADDR_NOTAVAIL);
	fit_ok(fi_av_insert(av, names[0] + len, 1, NULL, 0, &ctx));
	fit_eq(fi_eq_read(eq, &event, &good, sizeof(good), 0), -FI_EAVAIL);
	fit_eq(fi_eq_sread(eq, &event, &good, sizeof(good), 0, 0), -FI_EAVAIL);
	fit_ok(fi_close(&av->fid));
	fit_ok(fi_close(&eq->fid));
	fit_close(&t);
}

/* A program may ask for the text of any number. */
FIT_TEST(fi_queues, texts_of_errors)
{
	static const int numbers[] = {0, 1, -1, 1 << 28, -(1 << 28), INT_MAX, INT_MIN};
	struct fit t;
	char buf[40];

	fit_open(&t, 1, *way, (struct fit_how){.format = FI_CQ_FORMAT_CONTEXT});
	for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		cr_assert(*fi_cq_strerror(t.cq[0], numbers[i], NULL, NULL, 0));
		cr_assert(*fi_cq_strerror(t.cq[0], numbers[i], NULL, buf, sizeof(buf)));
	}
	fit_close(&t);
}
