/* SPDX-License-Identifier: BSD-2-Clause */
/* What nobody reads on one port stops no other port, no upcall, and is all there later. */
#include "panda/pant.h"

TestSuite(panda_unread, .init = pant_job, .timeout = PANT_TIMEOUT);

enum { SHORT = 8, LONG = 70000, SHORTS = 100000, LONGS = 3000 };
enum { UNREAD = 1, READ, UPCALL }; /* ports */

static atomic_int called;
static char data[SHORTS * SHORT + LONG];

static int count(void *msg, int size, int len)
{
	(void)size;
	twc_eq(twt_check(msg, (size_t)len, (uint64_t)len), len);
	atomic_fetch_add(&called, 1);
	return 0;
}

static void begin(void)
{
	for (uint64_t i = 0; i < sizeof(data) / SHORT; i++)
		memcpy(data + i * SHORT, &i, SHORT);
	twc_eq(pan_mp_register_port(NULL), UNREAD);
	twc_eq(pan_mp_register_port(NULL), READ);
	twc_eq(pan_mp_register_port(count), UPCALL);
}

/* Both are more than any window; message i is at i * SHORT. */
static int shorts(void)
{
	return SHORTS / (int)twt_slow() / (getenv("TWT_NETNS") ? 4 : 1);
}

static void *nth(int i)
{
	return data + (size_t)i * SHORT;
}

/* To the ports that are read, and on to when all of it has arrived. */
static void through(int len)
{
	char *msg = malloc((size_t)len);

	twt_fill(msg, (size_t)len, (uint64_t)len);
	pant_send(0, READ, msg, len, PAN_MP_NORMAL);
	pant_send(0, UPCALL, msg, len, PAN_MP_NORMAL);
	free(msg);
}

static void all_through(void)
{
	through(SHORT);
	through(LONG);
	through(300000);
}

static void take_through(int before)
{
	pant_receive(READ, SHORT, SHORT);
	pant_receive(READ, LONG, LONG);
	pant_receive(READ, 300000, 300000);
	pant_until(&called, before + 3);
}

static void poll(void *arg)
{
	(void)arg;
	pan_poll();
}

static int sender(int pid, int fd)
{
	int n = shorts(), *tickets = calloc((size_t)n + LONGS, sizeof(*tickets));
	size_t before;

	(void)pid;
	memset(tickets, 1, ((size_t)n + LONGS) * sizeof(*tickets));
	begin();
	twc_hear(fd);
	all_through();
	before = twc_allocated();
	for (int i = 0; i < n + LONGS; i++)
		tickets[i] =
			pan_mp_send(0, UNREAD, nth(i % n), i < n ? SHORT : LONG, PAN_MP_NORMAL);
	twc_tell(fd);
	all_through();
	twc_tell(fd);
	for (int i = 0; i < n + LONGS; i++)
		pan_mp_finish_send(tickets[i]);
	twc_given_back(before, poll, NULL);
	free(tickets);
	twc_hear(fd);
	return 0;
}

static void read_one(int i, int n)
{
	int len = i < n ? SHORT : LONG, got;
	void *msg = pan_mp_finish_receive(pan_mp_receive(UNREAD), NULL, &got);

	twc_eq(got, len);
	twc_check(memcmp(msg, nth(i % n), (size_t)len) == 0);
	pan_free(msg);
}

static void unread(void)
{
	struct twt_child c[PANT_MAX];
	size_t before;
	int n = shorts();

	pant_platforms(c, 2, sender);
	begin();
	twc_tell(c[1].fd);
	take_through(0);
	before = twc_allocated();
	twc_hear(c[1].fd);
	take_through(3);
	twc_hear(c[1].fd);
	for (int i = 0; i < n + LONGS; i++)
		read_one(i, n);
	twc_given_back(before, poll, NULL);
	twc_tell(c[1].fd);
	pant_join(c, 2);
	pant_end();
}

Test(panda_unread, much)
{
	unread();
}

/* With next to no memory for what nobody has asked for. */
Test(panda_unread, small_window)
{
	setenv("TAGWIRE_UNEXP_MAX", "64k", 1);
	unread();
}
