/* SPDX-License-Identifier: BSD-2-Clause */
/* Sending: arguments, sizes, tickets, upcalls. */
#include "panda/pant.h"

TestSuite(panda_send, .init = pant_job, .timeout = PANT_TIMEOUT);

static const pan_mp_ack_t kinds[] = {PAN_MP_NORMAL, PAN_MP_DELAYED, PAN_MP_EXTERNAL};

/* Alone, with one port. */
static int begin(void)
{
	pant_begin(0, 1);
	return pan_mp_register_port(NULL);
}

Test(panda_send, sizes)
{
	static const int sizes[] = {0,	  1,	40,    41,    1024,   1025,   8191,
				    8192, 8193, 65536, 65537, 300001, 5000000};
	char *data = malloc(5000000 + 16);
	int port = begin();

	for (unsigned s = 0; s < tw_countof(sizes); s++)
		for (unsigned k = 0; k < tw_countof(kinds); k++) {
			int len = sizes[s], ticket;

			twt_fill(data, (size_t)len, s);
			memset(data + len, 0x5a, 16);
			ticket = pan_mp_send(0, port, data, len, kinds[k]);
			twc_check(ticket > 0);
			pant_receive(port, s, len);
			if (kinds[k] == PAN_MP_EXTERNAL)
				pan_mp_ack_send(ticket);
			else
				pan_mp_finish_send(ticket);
			/* The data is as it was, and so is the place of the trailer. */
			twc_eq(twt_check(data, (size_t)len, s), len);
			for (int i = 0; i < 16; i++)
				twc_eq(data[len + i], 0x5a);
		}
	pant_end();
	free(data);
}

Test(panda_send, trailer)
{
	twc_check(pan_mp_trailer() >= 0 && pan_mp_trailer() <= 64);
	begin();
	twc_check(pan_mp_trailer() >= 0 && pan_mp_trailer() <= 64);
	pant_end();
}

Test(panda_send, arguments)
{
	int port = begin();
	char c = 0;

	twc_eq(pan_mp_send(-1, port, &c, 1, PAN_MP_NORMAL), -1);
	twc_eq(pan_mp_send(1, port, &c, 1, PAN_MP_NORMAL), -1);
	twc_eq(pan_mp_send(0, 0, &c, 1, PAN_MP_NORMAL), -1);
	twc_eq(pan_mp_send(0, -5, &c, 1, PAN_MP_NORMAL), -1);
	twc_eq(pan_mp_send(0, port, NULL, 1, PAN_MP_NORMAL), -1);
	twc_eq(pan_mp_send(0, port, &c, -1, PAN_MP_NORMAL), -1);
	twc_eq(pan_mp_send(0, port, &c, 1, (pan_mp_ack_t)3), -1);
	twc_eq(pan_mp_send(0, port, &c, 1, (pan_mp_ack_t)-1), -1);
	pant_send(0, port, NULL, 0, PAN_MP_NORMAL);
	pant_receive(port, 1, 0);
	/* Ports that are not there, or not yet, or tickets that never were: no harm. */
	pant_send(0, 1000, "x", 1, PAN_MP_NORMAL);
	pant_send(0, 1 << 30, "x", 1, PAN_MP_NORMAL);
	pant_send(0, INT32_MAX, "x", 1, PAN_MP_DELAYED);
	pant_end();
}

/* The number of a ticket that has ended does not come back soon: an answer may still be under way.
 */
Test(panda_send, ticket_numbers)
{
	int first, t;

	begin();
	first = t = pan_mp_receive(PAN_MP_DIRECT_PORT);
	for (int i = 0; i < 20000; i++) {
		pan_mp_free_port(t);
		twc_check(!pan_mp_finish_receive(t, NULL, NULL));
		t = pan_mp_receive(PAN_MP_DIRECT_PORT);
		twc_check(t != first);
	}
	pant_end();
}

/* A ticket ends once. */
Test(panda_send, tickets)
{
	int port = begin(), t, u;

	t = pan_mp_send(0, port, "x", 1, PAN_MP_NORMAL);
	pan_mp_ack_send(t); /* of the wrong kind: nothing happens */
	pan_mp_finish_send(t);
	twc_eq(pan_mp_poll_send(t), -1);
	pan_mp_finish_send(t);
	twc_eq(pan_mp_confirm_send(t), -1);
	pan_mp_async_send(t, NULL, NULL);

	u = pan_mp_send(0, port, "x", 1, PAN_MP_EXTERNAL);
	twc_check(u != t);
	twc_eq(pan_mp_poll_send(u), -1);
	twc_eq(pan_mp_confirm_send(u), -1);
	pan_mp_finish_send(u);
	twc_eq(pan_mp_poll_receive(u), -1);
	twc_check(!pan_mp_finish_receive(u, NULL, NULL));
	pan_mp_ack_send(u);
	pan_mp_ack_send(u);

	t = pan_mp_receive(port);
	pan_mp_finish_send(t);
	pan_mp_ack_send(t);
	twc_eq(pan_mp_poll_send(t), -1);
	pan_free(pan_mp_finish_receive(t, NULL, NULL));
	twc_check(!pan_mp_finish_receive(t, NULL, NULL));
	twc_eq(pan_mp_poll_receive(t), -1);
	pan_mp_async_send(-1, NULL, NULL);
	pan_mp_async_send(0, NULL, NULL);
	twc_eq(pan_mp_poll_send(0), -1);
	twc_eq(pan_mp_poll_send(INT32_MAX), -1);
	pan_free(pan_mp_finish_receive(pan_mp_receive(port), NULL, NULL));
	pant_end();
}

Test(panda_send, poll)
{
	int port = begin(), t;
	double end = twt_now() + TWC_LONG;

	for (int i = 0; i < 100; i++) {
		int over;

		t = pan_mp_send(0, port, "x", 1, kinds[i % 2]);
		while ((over = pan_mp_poll_send(t)) == 0)
			twc_check(twt_now() < end);
		twc_eq(over, 1);
		twc_eq(pan_mp_poll_send(t), -1);
	}
	pant_end();
}

Test(panda_send, confirm)
{
	int port = begin(), t;

	for (int i = 0; i < 100; i++) {
		t = pan_mp_send(0, port, "x", 1, kinds[i % 2]);
		twc_eq(pan_mp_confirm_send(t), 1);
		twc_eq(pan_mp_confirm_send(t), -1);
	}
	pant_end();
}

/* Many at a time, more than any table of first size. */
Test(panda_send, many)
{
	enum { MANY = 20000 };
	int *t = malloc(MANY * sizeof(*t)), port = begin();

	for (int i = 0; i < MANY; i++)
		t[i] = pan_mp_send(0, port, &t[i], 0, kinds[i % 3]);
	for (int i = 0; i < MANY; i++) {
		twc_check(t[i] > 0);
		pant_receive(port, 1, 0);
	}
	for (int i = MANY; i--;)
		if (i % 3 == 2)
			pan_mp_ack_send(t[i]);
		else
			pan_mp_finish_send(t[i]);
	pant_end();
	free(t);
}

/* Upcalls ----------------------------------------------------------------------- */

static _Thread_local int inside; /* a call that makes no upcall */
static atomic_int made, wrong;

static void upcall(void *arg)
{
	if (inside)
		atomic_store(&wrong, 1);
	*(int *)arg += 1;
	atomic_fetch_add(&made, 1);
}

static void async(pan_mp_ack_t ack, int polls, int n)
{
	int *args = calloc((size_t)n, sizeof(*args)), port = begin();

	atomic_store(&made, 0);
	for (int i = 0; i < n; i++) {
		int t;

		inside = 1;
		t = pan_mp_send(0, port, "x", 1, ack);
		pan_mp_async_send(t, upcall, &args[i]);
		if (ack == PAN_MP_EXTERNAL)
			pan_mp_ack_send(t);
		inside = 0;
		twc_eq(pan_mp_poll_send(t), -1);
	}
	/* From polls, or from a thread of the library's. */
	for (double end = twt_now() + TWC_LONG; polls && atomic_load(&made) < n;) {
		pan_poll();
		twc_check(twt_now() < end);
	}
	pant_until(&made, n);
	twc_eq(atomic_load(&wrong), 0);
	for (int i = 0; i < n; i++)
		twc_eq(args[i], 1);
	pant_end();
	free(args);
}

Test(panda_send, async_normal)
{
	async(PAN_MP_NORMAL, 0, 500);
}

Test(panda_send, async_delayed)
{
	async(PAN_MP_DELAYED, 0, 500);
}

/* By pan_mp_ack_send(), but not from inside it. */
Test(panda_send, async_external)
{
	async(PAN_MP_EXTERNAL, 0, 500);
}

Test(panda_send, async_polled)
{
	async(PAN_MP_NORMAL, 1, 500);
}

Test(panda_send, async_no_service)
{
	setenv("TAGWIRE_SERVICE", "0", 1);
	async(PAN_MP_NORMAL, 1, 500);
	async(PAN_MP_DELAYED, 1, 500);
}

Test(panda_send, async_single_threaded)
{
	setenv("TAGWIRE_SINGLE_THREADED", "1", 1);
	async(PAN_MP_NORMAL, 1, 500);
}

/* Nobody wants to know; a second one is wrong. */
Test(panda_send, async_none)
{
	int port = begin(), t, arg = 0;

	t = pan_mp_send(0, port, "x", 1, PAN_MP_NORMAL);
	pan_mp_async_send(t, NULL, NULL);
	pan_mp_async_send(t, upcall, &arg);
	pan_mp_finish_send(t);
	t = pan_mp_send(0, port, "x", 1, PAN_MP_EXTERNAL);
	pan_mp_async_send(t, NULL, NULL);
	pan_mp_ack_send(t);
	pan_mp_ack_send(t);
	twc_sleep(20);
	twc_eq(arg, 0);
	pant_end();
}

/* An upcall may send, and wait for that; the end of message passing it may not make. */
static atomic_int sent_on;
static int on_port;

static void sends(void *arg)
{
	(void)arg;
	pan_mp_end();
	pan_end();
	pan_poll();
	pant_send(0, on_port, "y", 1, PAN_MP_NORMAL);
	atomic_fetch_add(&sent_on, 1);
}

static void upcalls_send(int polls)
{
	on_port = begin();
	atomic_store(&sent_on, 0);
	for (int i = 0; i < 50; i++)
		pan_mp_async_send(pan_mp_send(0, on_port, "x", 1, PAN_MP_NORMAL), sends, NULL);
	while (polls && atomic_load(&sent_on) < 50)
		pan_poll();
	pant_until(&sent_on, 50);
	for (int i = 0; i < 100; i++)
		pan_free(pan_mp_finish_receive(pan_mp_receive(on_port), NULL, NULL));
	pant_end();
}

Test(panda_send, upcalls_send)
{
	upcalls_send(0);
}

Test(panda_send, upcalls_send_polled)
{
	setenv("TAGWIRE_SERVICE", "0", 1);
	upcalls_send(1);
}

/* Waiting while it holds what an upcall wants is no deadlock. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void locks(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&mutex);
	pthread_mutex_unlock(&mutex);
	atomic_fetch_add(&made, 1);
}

Test(panda_send, waiting_with_a_lock)
{
	int port = begin();

	atomic_store(&made, 0);
	for (int i = 0; i < 200; i++) {
		pan_mp_async_send(pan_mp_send(0, port, "x", 1, PAN_MP_NORMAL), locks, NULL);
		pthread_mutex_lock(&mutex);
		pant_send(0, port, "x", 1, PAN_MP_NORMAL);
		pan_free(pan_mp_finish_receive(pan_mp_receive(port), NULL, NULL));
		pthread_mutex_unlock(&mutex);
	}
	pant_until(&made, 200);
	pant_end();
}
