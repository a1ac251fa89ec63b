/* SPDX-License-Identifier: BSD-2-Clause */
/* Several processes, here or on two hosts; some of them die. */
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "panda/pant.h"

TestSuite(panda_procs, .init = pant_job, .timeout = PANT_TIMEOUT);

enum { EACH = 200, LONG = 400000 };

static int length(int i)
{
	return i % 20 == 7 ? LONG - i : i * 37 % 3000;
}

/* Everybody sends to everybody, itself included, in all kinds. */
static int all_to_all(int pid, int fd)
{
	int n = pan_nr_platforms(), port = pan_mp_register_port(NULL);
	int next[PANT_MAX] = {0}, *tickets = malloc((size_t)EACH * (size_t)n * sizeof(*tickets));
	char *data = malloc((size_t)EACH * LONG), *p;

	(void)fd;
	for (int i = 0; i < EACH; i++) {
		char *d = data + (size_t)i * LONG;
		int head[2] = {pid, i};

		twt_fill(d, (size_t)length(i), (uint64_t)i);
		memcpy(d, head, tw_min(sizeof(head), (size_t)length(i)));
	}
	for (int i = 1; i < EACH; i++)
		for (int to = 0; to < n; to++)
			tickets[i * n + to] = pan_mp_send(to, port, data + (size_t)i * LONG,
							  length(i), (pan_mp_ack_t)(i % 3));
	for (int i = 0; i < (EACH - 1) * n; i++) {
		int len, from[2];

		p = pan_mp_finish_receive(pan_mp_receive(port), NULL, &len);
		memcpy(from, p, sizeof(from));
		twc_check(from[0] >= 0 && from[0] < n);
		twc_eq(from[1], ++next[from[0]]);
		twc_eq(len, length(from[1]));
		twt_fill(data, (size_t)len, (uint64_t)from[1]);
		twc_check(len <= 8 || memcmp(p + 8, data + 8, (size_t)len - 8) == 0);
		pan_free(p);
	}
	for (int i = 1; i < EACH; i++)
		for (int to = 0; to < n; to++) {
			int t = tickets[i * n + to];

			twc_check(t > 0);
			if (i % 3 != PAN_MP_EXTERNAL)
				pan_mp_finish_send(t);
			else
				pan_mp_ack_send(t);
		}
	free(tickets);
	free(data);
	return 0;
}

static void all(int n)
{
	struct twt_child c[PANT_MAX];

	pant_platforms(c, n, all_to_all);
	all_to_all(0, -1);
	pant_join(c, n);
	pant_end();
}

Test(panda_procs, two)
{
	all(2);
}

Test(panda_procs, five)
{
	all(5);
}

/* Remote calls by ports with upcalls, the answers to direct tickets. */
#define CALLS 300 /* of each, to all in turn */

struct call {
	int from, ticket, value;
};

static atomic_int given_back;

static void give_back(void *data)
{
	pan_free(data);
	given_back++;
}

static int answer(void *data, int size, int len)
{
	struct call *c = data;

	(void)size;
	twc_eq(len, sizeof(*c));
	c->value++;
	/* The buffer goes back as it came: it is kept until it has left. */
	pan_mp_async_send(pan_mp_send(c->from, c->ticket, c, sizeof(*c), PAN_MP_DELAYED), give_back,
			  c);
	return 1;
}

static int caller(int pid, int fd)
{
	int port = pan_mp_register_port(answer), n = pan_nr_platforms();

	(void)fd;
	for (int i = 0; i < CALLS; i++) {
		int ticket = pan_mp_receive(PAN_MP_DIRECT_PORT), t, len;
		struct call c = {pid, ticket, i}, *back;

		t = pan_mp_send((pid + i) % n, port, &c, sizeof(c), PAN_MP_EXTERNAL);
		pan_mp_expect((pid + i) % n);
		back = pan_mp_finish_receive(ticket, NULL, &len);
		pan_mp_ack_send(t);
		twc_eq(back->value, i + 1);
		pan_free(back);
	}
	/* The others may still call. */
	if (pid) {
		twc_tell(fd);
		twc_hear(fd);
	}
	return 0;
}

Test(panda_procs, remote_calls)
{
	struct twt_child c[PANT_MAX];

	pant_platforms(c, 3, caller);
	caller(0, -1);
	for (int i = 1; i < 3; i++)
		twc_hear(c[i].fd);
	pant_until(&given_back, CALLS);
	for (int i = 1; i < 3; i++)
		twc_tell(c[i].fd);
	pant_join(c, 3);
	pant_end();
}

/* Without a launcher, one may come later than the first message to it. */
static int late(int pid, int fd)
{
	(void)fd;
	if (pid == 0)
		return 0;
	pan_mp_end();
	twc_tell(fd);
	twc_hear(fd);
	twc_sleep(300);
	pan_mp_init(NULL, NULL);
	pant_receive(pan_mp_register_port(NULL), 3, 70);
	return 0;
}

Test(panda_procs, begins_later)
{
	struct twt_child c[PANT_MAX];
	char data[70];

	twt_fill(data, sizeof(data), 3);
	pant_platforms(c, 2, late);
	twc_hear(c[1].fd);
	twc_tell(c[1].fd);
	pant_send(1, 1, data, sizeof(data), PAN_MP_NORMAL);
	pant_join(c, 2);
	pant_end();
}

/* It never comes: the send ends after TAGWIRE_CONNECT_TIMEOUT. */
Test(panda_procs, never_begins)
{
	int t, u;

	setenv("TAGWIRE_CONNECT_TIMEOUT", "300", 1);
	pant_begin(0, 2);
	t = pan_mp_send(1, 1, "x", 1, PAN_MP_NORMAL);
	u = pan_mp_send(1, 1, "x", 1, PAN_MP_EXTERNAL);
	twc_eq(pan_mp_confirm_send(t), -1);
	pan_mp_ack_send(u);
	/* It is looked for once more. */
	twc_eq(pan_mp_confirm_send(pan_mp_send(1, 1, "x", 1, PAN_MP_NORMAL)), -1);
	pant_end();
}

/* Death ---------------------------------------------------------------------------- */

static int holds_still(int pid, int fd)
{
	(void)pid;
	pan_mp_register_port(NULL);
	twc_tell(fd);
	twc_hear(fd);
	pause();
	return 1;
}

static atomic_int lied;

static void never_called(void *arg)
{
	(void)arg;
	atomic_store(&lied, 1);
}

/* What was sent to one that has died never counts as arrived. */
static void expect_lost(int ticket, pan_mp_ack_t ack, int poll)
{
	double end = twt_now() + TWC_LONG;
	int over;

	if (ack == PAN_MP_EXTERNAL) {
		pan_mp_ack_send(ticket);
	} else if (!poll) {
		twc_eq(pan_mp_confirm_send(ticket), -1);
	} else {
		while ((over = pan_mp_poll_send(ticket)) == 0)
			twc_check(twt_now() < end);
		twc_eq(over, -1);
	}
	twc_check(!tw_panda_ticket_find(ticket, false));
}

/* Sends to one that dies end; those to the others, and receives, go on. */
Test(panda_procs, killed)
{
	enum { N = 10 };
	struct twt_child c[PANT_MAX];
	char *big = calloc(1, 30000000);
	int t[N], port, r;

	tw_panda_delay_us = 1000000000;
	setenv("TAGWIRE_UNEXP_MAX", "1m", 1);
	setenv("TAGWIRE_RETRY", "1000", 1);
	pant_platforms(c, 3, holds_still);
	port = pan_mp_register_port(NULL);
	twc_hear(c[1].fd);
	twc_hear(c[2].fd);
	pant_send(2, 1, "x", 1, PAN_MP_NORMAL);
	/* Stopped, it acknowledges nothing. */
	pant_send(1, 1, "x", 1, PAN_MP_NORMAL);
	kill(c[1].pid, SIGSTOP);
	twc_eq(waitpid(c[1].pid, NULL, WUNTRACED), c[1].pid);
	for (int i = 0; i < N; i++)
		t[i] = pan_mp_send(1, 1, big, i < N / 2 ? 100 : 30000000, (pan_mp_ack_t)(i % 3));
	pan_mp_async_send(t[0], never_called, NULL);
	r = pan_mp_receive(port);
	twc_eq(pan_mp_poll_send(t[1]), 0);
	kill(c[1].pid, SIGKILL);
	twc_eq(twt_join(&c[1], TWC_LONG), 1000 + SIGKILL);
	for (int i = 1; i < N; i++)
		expect_lost(t[i], (pan_mp_ack_t)(i % 3), i % 2);
	twc_eq(pan_mp_confirm_send(pan_mp_send(1, 1, "x", 1, PAN_MP_NORMAL)), -1);
	twc_eq(atomic_load(&lied), 0);
	twc_eq(pan_mp_poll_receive(r), 0);
	pant_send(2, 1, "x", 1, PAN_MP_NORMAL);
	pant_send(0, port, "x", 1, PAN_MP_NORMAL);
	pan_free(pan_mp_finish_receive(r, NULL, NULL));
	kill(c[2].pid, SIGKILL);
	twc_eq(twt_join(&c[2], TWC_LONG), 1000 + SIGKILL);
	pant_end();
	free(big);
}

/* A sender that dies in the middle: what was whole stays, the rest is never seen. */
static int sends_long(int pid, int fd)
{
	char *big = calloc(1, 50000000);
	int t[20];

	(void)pid;
	pant_send(0, 1, "whole", 6, PAN_MP_NORMAL);
	for (int i = 0; i < 20; i++)
		t[i] = pan_mp_send(0, 1 + i % 3, big, 50000000, PAN_MP_NORMAL);
	twc_tell(fd);
	for (int i = 0; i < 20; i++)
		pan_mp_finish_send(t[i]);
	pause();
	return 1;
}

Test(panda_procs, sender_killed)
{
	struct twt_child c[PANT_MAX];
	int r, len = 0;
	void *p;

	setenv("TAGWIRE_RETRY", "1000", 1);
	pant_platforms(c, 2, sends_long);
	pan_mp_register_port(NULL);
	pan_mp_register_port(NULL);
	twc_hear(c[1].fd);
	p = pan_mp_finish_receive(pan_mp_receive(1), NULL, NULL);
	twc_check(strcmp(p, "whole") == 0);
	pan_free(p);
	r = pan_mp_receive(2);
	pan_poll();
	kill(c[1].pid, SIGKILL);
	twc_eq(twt_join(&c[1], TWC_LONG), 1000 + SIGKILL);
	/* One of its messages may be here; the next is our own. */
	pant_send(0, 2, "x", 1, PAN_MP_NORMAL);
	for (double end = twt_now() + TWC_LONG; len != 1;) {
		p = pan_mp_finish_receive(r, NULL, &len);
		twc_check(len == 1 || len == 50000000);
		pan_free(p);
		r = pan_mp_receive(2);
		twc_check(twt_now() < end);
	}
	pant_end();
}

/* Beside to itself. */
static void until_connected(void)
{
	double end = twt_now() + TWC_LONG;

	while (pant_counter(TW_C_CONNECT) + pant_counter(TW_C_ACCEPT) < 2) {
		pan_poll();
		twc_check(twt_now() < end);
	}
}

/* The hint connects at once, so that the first message need not. */
static int hinted(int pid, int fd)
{
	(void)pid;
	pan_mp_register_port(NULL);
	twc_tell(fd);
	twc_hear(fd);
	return 0;
}

Test(panda_procs, expect_connects)
{
	struct twt_child c[PANT_MAX];

	pant_platforms(c, 2, hinted);
	twc_hear(c[1].fd);
	twc_eq(pant_counter(TW_C_CONNECT), 1); /* itself */
	pan_mp_expect(1);
	until_connected();
	twc_tell(c[1].fd);
	pant_join(c, 2);
	pant_end();
}

/* The last words of one that has ended ------------------------------------------ */

/* Its end and what came before are seen together. */
static void join_unseen(struct twt_child c[PANT_MAX])
{
	struct tw_ep *ep;

	pant_join(c, 2);
	ep = tw_panda_enter(__func__);
	tw_poll_events(ep);
	tw_group_leave(ep);
}

static int says_goodbye(int pid, int fd)
{
	(void)pid;
	pan_mp_expect(0);
	until_connected();
	twc_tell(fd);
	twc_hear(fd);
	pant_send(0, 1, "x", 1, PAN_MP_EXTERNAL);
	return 0;
}

/* The first message of a platform, which is gone when it is looked at. */
Test(panda_procs, sent_and_gone)
{
	struct twt_child c[PANT_MAX];
	double end = twt_now() + TWC_LONG;
	struct pollfd told;
	int r;

	setenv("TAGWIRE_SERVICE", "0", 1);
	setenv("TAGWIRE_RETRY", "1000", 1); /* nobody looks while it closes */
	pant_platforms(c, 2, says_goodbye);
	told = (struct pollfd){c[1].fd, POLLIN, 0};
	r = pan_mp_receive(pan_mp_register_port(NULL));
	while (poll(&told, 1, 0) == 0)
		pan_poll();
	twc_hear(c[1].fd);
	twc_tell(c[1].fd);
	join_unseen(c);
	while (!pan_mp_poll_receive(r))
		twc_check(twt_now() < end);
	pan_free(pan_mp_finish_receive(r, NULL, NULL));
	pant_end();
}

static int answers(int pid, int fd)
{
	int port = pan_mp_register_port(NULL);

	(void)pid;
	twc_tell(fd);
	pant_receive_byte(port, 'x');
	pant_receive_byte(port, 'y');
	pant_send(0, 1, "z", 1, PAN_MP_EXTERNAL);
	return 0;
}

/* What its last message acknowledges has arrived. */
Test(panda_procs, acknowledged_and_gone)
{
	struct twt_child c[PANT_MAX];
	int r, t;

	tw_panda_delay_us = 1000000000;
	setenv("TAGWIRE_SERVICE", "0", 1);
	setenv("TAGWIRE_RETRY", "1000", 1); /* nobody looks while it closes */
	pant_platforms(c, 2, answers);
	r = pan_mp_receive(pan_mp_register_port(NULL));
	twc_hear(c[1].fd);
	pant_send(1, 1, "x", 1, PAN_MP_NORMAL);
	t = pan_mp_send(1, 1, "y", 1, PAN_MP_DELAYED);
	join_unseen(c);
	twc_eq(pan_mp_confirm_send(t), 1);
	twc_eq(pan_mp_poll_receive(r), 1);
	pan_free(pan_mp_finish_receive(r, NULL, NULL));
	pant_end();
}

/* Messages of before the platforms had met --------------------------------------- */

static int sends_before(int pid, int fd)
{
	char *data = calloc(1, 1 << 20);
	int t = pan_mp_send(0, 1, data, 1 << 20, PAN_MP_DELAYED);

	(void)pid;
	pan_mp_finish_send(t);
	free(data);
	twc_tell(fd);
	twc_hear(fd);
	return 0;
}

/* One that was read then is acknowledged by that, and no second time. */
Test(panda_procs, fetched_before_met)
{
	struct twt_child c[PANT_MAX];
	struct tw_ep *ep;
	int r;

	if (getenv("TWT_NETNS"))
		cr_skip_test("over a network the sender may copy");
	setenv("TAGWIRE_SERVICE", "0", 1);
	setenv("TAGWIRE_RNDV", "get", 1);
	tw_panda_delay_us = 1000000000;
	pant_platforms(c, 2, sends_before);
	tw_panda.met = false;
	for (struct pollfd told = {c[1].fd, POLLIN, 0}; poll(&told, 1, 0) == 0;)
		pan_poll();
	ep = tw_panda_enter(__func__);
	tw_panda_peers_met(ep);
	tw_group_leave(ep);
	r = pan_mp_receive(pan_mp_register_port(NULL));
	twc_eq(pan_mp_poll_receive(r), 1);
	pan_free(pan_mp_finish_receive(r, NULL, NULL));
	twc_eq(tw_panda.peers[1].acks, 0);
	twc_hear(c[1].fd);
	twc_tell(c[1].fd);
	pant_join(c, 2);
	pant_end();
}
