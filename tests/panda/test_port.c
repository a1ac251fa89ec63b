/* SPDX-License-Identifier: BSD-2-Clause */
/* Ports, upcalls for messages, receiving, direct tickets, freed ports. */
#include <sys/resource.h>

#include "panda/pant.h"

TestSuite(panda_port, .init = pant_job, .timeout = PANT_TIMEOUT);

static atomic_int called, bad;
static void *kept;

static int gives_back(void *data, int size, int len)
{
	if (size < len || twt_check(data, (size_t)len, (uint64_t)len) != (size_t)len)
		atomic_store(&bad, 1);
	atomic_fetch_add(&called, 1);
	return 0;
}

static int keeps(void *data, int size, int len)
{
	(void)size;
	(void)len;
	kept = data;
	atomic_fetch_add(&called, 1);
	return 1;
}

Test(panda_port, numbers)
{
	pant_begin(0, 1);
	for (int i = 1; i <= 100; i++)
		twc_eq(pan_mp_register_port(i % 2 ? NULL : keeps), i);
	pan_mp_free_port(50);
	pan_mp_free_port(50);
	pan_mp_free_port(0);
	pan_mp_free_port(-1);
	pan_mp_free_port(101);
	pan_mp_free_port(INT32_MAX);
	/* Numbers do not come again. */
	twc_eq(pan_mp_register_port(NULL), 101);
	twc_eq(pan_mp_receive(50), -1);
	twc_eq(pan_mp_receive(102), -1);
	twc_eq(pan_mp_receive(-1), -1);
	twc_eq(pan_mp_receive(2), -1); /* it has an upcall */
	pant_end();
}

Test(panda_port, upcalls)
{
	char *data = malloc(100000);
	int port;

	pant_begin(0, 1);
	port = pan_mp_register_port(gives_back);
	for (int i = 0; i < 300; i++) {
		int len = i % 10 == 9 ? 90000 + i : i;

		twt_fill(data, (size_t)len, (uint64_t)len);
		pant_send(0, port, data, len, PAN_MP_NORMAL);
	}
	pant_until(&called, 300);
	twc_eq(atomic_load(&bad), 0);
	pant_end();
	free(data);
}

Test(panda_port, upcall_keeps)
{
	int port;

	pant_begin(0, 1);
	port = pan_mp_register_port(keeps);
	pant_send(0, port, "hello", 6, PAN_MP_NORMAL);
	pant_until(&called, 1);
	twc_check(strcmp(kept, "hello") == 0);
	kept = pan_realloc(kept, 1000);
	twc_check(strcmp(kept, "hello") == 0);
	pan_free(kept);
	pant_end();
}

/* In the order of the messages, short ones behind long ones too. */
static int next_seen;

static int in_order(void *data, int size, int len)
{
	int n;

	(void)size;
	memcpy(&n, data, sizeof(n));
	if (n != next_seen++ || len < (int)sizeof(n))
		atomic_store(&bad, 1);
	atomic_fetch_add(&called, 1);
	return 0;
}

static void order(int port)
{
	enum { N = 400, LONG = 70000 };
	char *data = calloc(N, LONG);
	int *tickets = calloc(N, sizeof(*tickets));

	for (int i = 0; i < N; i++) {
		memcpy(data + (size_t)i * LONG, &i, sizeof(i));
		tickets[i] = pan_mp_send(0, port, data + (size_t)i * LONG, i % 3 ? 4 : LONG,
					 i % 2 ? PAN_MP_NORMAL : PAN_MP_DELAYED);
	}
	if (next_seen < 0)
		for (int i = 0, n; i < N; i++) {
			void *p = pan_mp_finish_receive(pan_mp_receive(port), NULL, NULL);

			memcpy(&n, p, sizeof(n));
			twc_eq(n, i);
			pan_free(p);
		}
	else
		pant_until(&called, N);
	twc_eq(atomic_load(&bad), 0);
	for (int i = 0; i < N; i++)
		pan_mp_finish_send(tickets[i]);
	free(tickets);
	free(data);
}

Test(panda_port, order_of_upcalls)
{
	pant_begin(0, 1);
	order(pan_mp_register_port(in_order));
	pant_end();
}

Test(panda_port, order_of_receives)
{
	pant_begin(0, 1);
	next_seen = -1;
	order(pan_mp_register_port(NULL));
	pant_end();
}

/* Messages for ports that do not exist yet wait for them. */
Test(panda_port, early)
{
	char *big = malloc(100000);
	int ticket;

	twt_fill(big, 100000, 100000);
	pant_begin(0, 1);
	pant_send(0, 2, big, 0, PAN_MP_NORMAL);
	ticket = pan_mp_send(0, 2, big, 100000, PAN_MP_NORMAL);
	pant_send(0, 1, "one", 4, PAN_MP_NORMAL);
	twc_eq(pan_mp_register_port(keeps), 1);
	pant_until(&called, 1);
	twc_check(strcmp(kept, "one") == 0);
	pan_free(kept);
	twc_eq(pan_mp_register_port(gives_back), 2);
	pant_until(&called, 3);
	pan_mp_finish_send(ticket);
	twc_eq(atomic_load(&bad), 0);
	pant_end();
	free(big);
}

/* What nobody has asked for is bounded: senders wait, and short ones come all the same. */
Test(panda_port, bounded)
{
	enum { N = 40, LONG = 1000000 };
	char *data = malloc(LONG);
	int tickets[N], port, left = 0;

	setenv("TAGWIRE_UNEXP_MAX", "4m", 1);
	twt_fill(data, LONG, 1);
	pant_begin(0, 1);
	port = pan_mp_register_port(NULL);
	for (int i = 0; i < N; i++)
		tickets[i] = pan_mp_send(0, port, data, LONG, PAN_MP_NORMAL);
	twc_sleep(200);
	for (int i = 0; i < N; i++) {
		int over = pan_mp_poll_send(tickets[i]);

		if (over)
			tickets[i] = -1;
		left += !over;
	}
	twc_check(left >= N - 6);
	for (int i = 0; i < N; i++)
		pant_receive(port, 1, LONG);
	for (int i = 0; i < N; i++)
		if (tickets[i] > 0)
			pan_mp_finish_send(tickets[i]);
	pant_end();
	free(data);
}

/* Direct tickets ------------------------------------------------------------------ */

Test(panda_port, direct)
{
	static const int lens[] = {0, 1, 5000, 500000};
	char *data = malloc(500000);

	pant_begin(0, 1);
	for (unsigned i = 0; i < 3000; i++) {
		int ticket = pan_mp_receive(PAN_MP_DIRECT_PORT), len = lens[i % (i < 40 ? 4 : 3)];
		int got, t;
		void *p;

		twc_check(ticket > 1 << 20);
		twc_eq(pan_mp_poll_receive(ticket), 0);
		twt_fill(data, (size_t)tw_min(len, 100), i);
		t = pan_mp_send(0, ticket, data, len, (pan_mp_ack_t)(i % 3));
		p = pan_mp_finish_receive(ticket, NULL, &got);
		twc_eq(got, len);
		twc_eq(twt_check(p, (size_t)tw_min(len, 100), i), tw_min(len, 100));
		pan_free(p);
		if (i % 3 == PAN_MP_EXTERNAL)
			pan_mp_ack_send(t);
		else if (i % 3 == PAN_MP_NORMAL || i < 40)
			pan_mp_finish_send(t);
		else
			pan_mp_async_send(t, NULL, NULL);
	}
	pant_end();
	free(data);
}

/* It serves once; what comes later is nobody's. */
Test(panda_port, direct_once)
{
	char *p;
	int t;

	pant_begin(0, 1);
	t = pan_mp_receive(PAN_MP_DIRECT_PORT);
	pant_send(0, t, "a", 2, PAN_MP_NORMAL);
	pant_send(0, t, "b", 2, PAN_MP_NORMAL);
	p = pan_mp_finish_receive(t, NULL, NULL);
	twc_check(strcmp(p, "a") == 0);
	pan_free(p);
	pant_send(0, t, "c", 2, PAN_MP_NORMAL);
	twc_eq(pan_mp_poll_receive(t), -1);
	t = pan_mp_receive(PAN_MP_DIRECT_PORT);
	twc_eq(pan_mp_poll_receive(t), 0);
	pan_mp_free_port(t);
	twc_eq(pan_mp_poll_receive(t), 1);
	twc_check(!pan_mp_finish_receive(t, NULL, NULL));
	pant_end();
}

/* A receive that is freed although its message has come, or is on its way. */
Test(panda_port, direct_freed_late)
{
	char *big = calloc(1, 1000000);
	int t, u;

	pant_begin(0, 1);
	t = pan_mp_receive(PAN_MP_DIRECT_PORT);
	pant_send(0, t, "a", 2, PAN_MP_NORMAL);
	pan_mp_free_port(t);
	twc_check(!pan_mp_finish_receive(t, NULL, NULL));
	for (int i = 0; i < 20; i++) {
		t = pan_mp_receive(PAN_MP_DIRECT_PORT);
		u = pan_mp_send(0, t, big, 1000000, PAN_MP_NORMAL);
		for (int k = 0; k < i % 5; k++)
			pan_poll();
		pan_mp_free_port(t);
		twc_check(!pan_mp_finish_receive(t, NULL, NULL));
		pan_mp_finish_send(u);
	}
	pant_end();
	free(big);
}

/* Waiting -------------------------------------------------------------------------- */

struct waiter {
	int ticket;
	void *got;
};

static void wait_for(void *arg)
{
	struct waiter *w = arg;

	w->got = pan_mp_finish_receive(w->ticket, NULL, NULL);
}

Test(panda_port, freed_with_waiters)
{
	enum { N = 4 };
	struct twc_thread threads[N];
	struct waiter w[N];
	int port;

	pant_begin(0, 1);
	port = pan_mp_register_port(NULL);
	for (int i = 0; i < N; i++) {
		w[i] = (struct waiter){pan_mp_receive(i == N - 1 ? PAN_MP_DIRECT_PORT : port),
				       &w[i]};
		twc_start(&threads[i], wait_for, &w[i]);
	}
	for (int i = 0; i < N; i++)
		twc_asleep(&threads[i]);
	pan_mp_free_port(port);
	pan_mp_free_port(w[N - 1].ticket);
	for (int i = 0; i < N; i++) {
		twc_join(&threads[i]);
		twc_check(!w[i].got);
	}
	pant_end();
}

Test(panda_port, ended_with_waiters)
{
	struct twc_thread threads[2];
	struct waiter w[2];

	pant_begin(0, 1);
	pan_mp_register_port(NULL);
	for (int i = 0; i < 2; i++) {
		w[i] = (struct waiter){pan_mp_receive(i), &w[i]};
		twc_start(&threads[i], wait_for, &w[i]);
		twc_asleep(&threads[i]);
	}
	pan_mp_end();
	for (int i = 0; i < 2; i++) {
		twc_join(&threads[i]);
		twc_check(!w[i].got);
	}
	pan_end();
}

static void wait_send(void *arg)
{
	pan_mp_finish_send(*(int *)arg);
}

/* A sleeping sender wakes for its acknowledgement, a sleeping receiver for its message. */
Test(panda_port, wakes)
{
	struct twc_thread receiver, sender;
	struct waiter w;
	int port, t;

	tw_panda_delay_us = 1000000000;
	pant_begin(0, 1);
	port = pan_mp_register_port(NULL);
	w.ticket = pan_mp_receive(port);
	twc_start(&receiver, wait_for, &w);
	twc_asleep(&receiver);
	t = pan_mp_send(0, port, "x", 1, PAN_MP_DELAYED);
	twc_start(&sender, wait_send, &t);
	twc_join(&receiver);
	twc_check(w.got != NULL);
	pan_free(w.got);
	twc_asleep(&sender);
	/* The next message to there takes the acknowledgement along. */
	pant_send(0, port, "y", 1, PAN_MP_EXTERNAL);
	twc_join(&sender);
	pant_end();
}

/* Messages in the queue of a port that is freed are gone, and their memory is. */
Test(panda_port, freed_with_messages)
{
	enum { LEN = 1000000, ROUNDS = 8, MESSAGES = 30 };
	char *big = calloc(1, LEN);
	int tickets[MESSAGES], port;
	size_t before = 0;

	pant_begin(0, 1);
	for (int round = 0; round < ROUNDS; round++) {
		if (round == 3) /* what is kept for good is there */
			before = pant_heap();
		port = pan_mp_register_port(NULL);
		/* The first message of a port is its own, not one of its predecessor's. */
		pant_send(0, port, "y", 1, PAN_MP_NORMAL);
		pant_receive_byte(port, 'y');
		for (int i = 0; i < MESSAGES; i++)
			tickets[i] = pan_mp_send(0, port, big, i % 2 ? LEN : 10, PAN_MP_NORMAL);
		for (int i = 0; i < round; i++)
			pan_poll();
		pan_mp_free_port(port);
		for (int i = 0; i < MESSAGES; i++)
			pan_mp_finish_send(tickets[i]);
		pant_send(0, port, "x", 1, PAN_MP_NORMAL);
	}
	twc_check(pant_heap() <= before + LEN);
	pant_end();
	free(big);
}

/* Who frees a port knows that its upcall is over. */
static atomic_int running;

static int slow(void *data, int size, int len)
{
	(void)data;
	(void)size;
	(void)len;
	atomic_store(&running, 1);
	atomic_fetch_add(&called, 1);
	twc_sleep(100);
	atomic_store(&running, 0);
	return 0;
}

Test(panda_port, freed_while_called)
{
	int port;

	pant_begin(0, 1);
	port = pan_mp_register_port(slow);
	for (int i = 0; i < 10; i++)
		pan_mp_async_send(pan_mp_send(0, port, "x", 1, PAN_MP_NORMAL), NULL, NULL);
	pant_until(&called, 2);
	pan_mp_free_port(port);
	twc_eq(atomic_load(&running), 0);
	twc_check(atomic_load(&called) < 10);
	pant_end();
}

static int own_port;

static int frees_itself(void *data, int size, int len)
{
	(void)data;
	(void)size;
	(void)len;
	pan_mp_free_port(own_port);
	atomic_fetch_add(&called, 1);
	return 0;
}

Test(panda_port, upcall_frees_its_port)
{
	pant_begin(0, 1);
	own_port = pan_mp_register_port(frees_itself);
	for (int i = 0; i < 5; i++)
		pan_mp_async_send(pan_mp_send(0, own_port, "x", 1, PAN_MP_NORMAL), NULL, NULL);
	pant_until(&called, 1);
	twc_sleep(20);
	twc_eq(atomic_load(&called), 1);
	twc_eq(pan_mp_receive(own_port), -1);
	pant_end();
}

/* So that requests find no memory, and ports do. */
static void leave_small_pieces(struct rlimit *all)
{
	static void *piece[1024];
	void *volatile p; /* so that it is allocated, though nothing uses it */
	struct rlimit none;

	twc_eq(getrlimit(RLIMIT_AS, all), 0);
	none = (struct rlimit){0, all->rlim_max};
	for (unsigned i = 0; i < 1024; i++)
		piece[i] = malloc(sizeof(struct tw_panda_port));
	twc_eq(setrlimit(RLIMIT_AS, &none), 0);
	do
		p = malloc(1024);
	while (p);
	for (unsigned i = 0; i < 1024; i += 2)
		free(piece[i]);
}

/* A port that memory did not suffice for has no number. */
Test(panda_port, no_memory)
{
	int port = 0, nports = 0, upcalls = 0;
	struct rlimit all;

	if (!pant_heap())
		cr_skip_test("memory cannot be limited under the address sanitizer");
	pant_begin(0, 1);
	for (; nports < 140; nports++)
		pan_mp_register_port(nports < 20 ? NULL : gives_back);
	leave_small_pieces(&all);
	while ((port = pan_mp_register_port(gives_back)) > 0)
		nports = port;
	twc_eq(setrlimit(RLIMIT_AS, &all), 0);
	for (port = 21; port <= nports; port++, upcalls++)
		pant_send(0, port, NULL, 0, PAN_MP_NORMAL);
	pant_until(&called, upcalls);
	twc_eq(pan_mp_register_port(NULL), nports + 1);
	pant_end();
}

/* Without a thread, whoever waits makes upcalls. */
static void no_thread(const char *setting, const char *value)
{
	int up, port;

	setenv(setting, value, 1);
	atomic_store(&called, 0);
	pant_begin(0, 1);
	up = pan_mp_register_port(gives_back);
	port = pan_mp_register_port(NULL);
	for (int i = 0; i < 50; i++) {
		int t = pan_mp_send(0, up, &i, 0, PAN_MP_NORMAL);

		pan_mp_send(0, port, &i, 0, PAN_MP_EXTERNAL);
		pan_mp_finish_send(t);
		pant_receive(port, 1, 0);
	}
	while (atomic_load(&called) < 50)
		pan_poll();
	pant_end();
}

Test(panda_port, no_service)
{
	no_thread("TAGWIRE_SERVICE", "0");
}

Test(panda_port, single_threaded)
{
	no_thread("TAGWIRE_SINGLE_THREADED", "1");
}

Test(panda_port, expect)
{
	int port;

	pant_begin(0, 1);
	port = pan_mp_register_port(NULL);
	pan_mp_expect(-1);
	pan_mp_expect(1);
	pan_mp_expect(0);
	pan_mp_expect(0);
	pant_send(0, port, "", 0, PAN_MP_NORMAL);
	pant_receive(port, 1, 0);
	pant_end();
}
