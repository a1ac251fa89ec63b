/* SPDX-License-Identifier: BSD-2-Clause */
/* A peer that does as it likes, seen by the shared memory provider. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fds.h"
#include "base/settings.h"
#include "fault/raw.h"
#include "lib/twt.h"
#include "provider/fake.h"
#include "unit/syscall_kit.h"

extern const struct tw_provider tw_provider_shm;

static struct fake engine;
static struct raw raw;
static unsigned written;

static void write_one(void)
{
	if (tw_ring_room(&raw.tx, 0, 0)) {
		tw_ring_write_small(&raw.tx, (struct tw_hdr){1, 2}, NULL, 0);
		written++;
	}
}

/* The peer writes one more whenever one is taken, as if it were very fast. */
static bool one_more(struct fake_peer *p, enum tw_err *err)
{
	(void)p;
	(void)err;
	tw_ring_publish(&raw.rx);
	raw.tx.ring->taken.slots = raw.tx.head;
	write_one();
	return true;
}

static void begin(void)
{
	char job[40];

	snprintf(job, sizeof(job), "hangup-%d", (int)getpid());
	setenv("TAGWIRE_JOB", job, 1);
	cr_assert(tw_settings_load());
	tw_clock_init();
	cr_assert_eq(fake_open(&engine, &tw_provider_shm, 1), TW_OK);
}

/* Connects the engine to a peer that is ours. */
static struct fake_peer *connected(void)
{
	struct tw_shm_hello hello;
	struct fake_peer *peer;
	struct tw_sock_listener listener;

	begin();
	cr_assert_eq(tw_shm_listen(FAKE_BOARD, 9, &listener), TW_OK);
	peer = fake_connect(&engine, FAKE_BOARD, 9, 0);
	hello = raw_hello(TW_SHM_ACCEPT, FAKE_BOARD, 9, 0);
	cr_assert(raw_accept(&raw, listener.fd[TW_SOCK_OWN], &hello, 5000));
	tw_sock_listen_end(&listener);
	while (peer->state == FAKE_NEW)
		fake_pump(&engine);
	cr_assert_eq(peer->state, FAKE_UP);
	return peer;
}

/* Who has hung up can have left a full ring and no more. */
Test(hangup, writes_on, .timeout = TWT_TIMEOUT)
{
	struct fake_peer *peer = connected();

	engine.on_packet = one_more;
	write_one();
	shutdown(raw.sock, SHUT_RDWR);
	for (int i = 0; i < 100 && peer->state == FAKE_UP; i++)
		fake_events(&engine);
	cr_assert_eq(peer->state, FAKE_DOWN);
	cr_assert_leq(written, raw.tx.nslots + 1);
	raw_close(&raw);
	fake_close(&engine);
}

/* One that rings without pause is heard and left again. */
Test(hangup, rings_on, .timeout = TWT_TIMEOUT)
{
	struct fake_peer *peer = connected();
	unsigned n = 0;

	for (int i = 0; i < 20; i++) {
		while (send(raw.sock, "b", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1)
			n++;
		fake_pump(&engine);
	}
	cr_assert_geq(n, 1000u);
	cr_assert_eq(peer->state, FAKE_UP);
	/* All of them in between, and the farewell last. */
	send(raw.sock, "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	raw_close(&raw);
	while (peer->state == FAKE_UP)
		fake_pump(&engine);
	cr_assert_eq(peer->why, TW_ECLOSED);
	fake_close(&engine);
}

/* A ring that fills beside a thread that sleeps already: the peer is told to wake it. */
Test(hangup, reads_late, .timeout = TWT_TIMEOUT)
{
	struct fake_peer *peer = connected();

	while (engine.ops->arm(engine.instance))
		fake_pump(&engine);
	cr_assert_gt(fake_fill(peer, TW_SEND_PLAIN, 8), 0u);
	cr_assert_eq(atomic_load(&raw.rx.ring->wants.room), 1u);
	raw_close(&raw);
	fake_close(&engine);
}

/* The system is short of memory for a while. */
static bool no_memory(long number)
{
	errno = ENOBUFS;
	return number == SYS_sendto;
}

/* The peer sleeps. It is rung for what fn does, if only when there is memory again. */
static void rung_later(void (*fn)(struct fake_peer *p))
{
	struct fake_peer *peer = connected();
	double end = twt_now() + 0.05;
	char c;

	atomic_store(&raw.rx.ring->reader.armed, TW_ASLEEP);
	atomic_store(&raw.rx.ring->taken.polled, tw_clock());
	before_syscall = no_memory;
	fn(peer);
	while (twt_now() < end)
		fake_pump(&engine);
	before_syscall = NULL;
	end = twt_now() + TWT_LONG;
	while (recv(raw.sock, &c, 1, MSG_DONTWAIT) != 1) {
		cr_assert_lt(twt_now(), end, "it sleeps for ever");
		fake_pump(&engine);
	}
	cr_assert_eq(c, 'b');
	raw_close(&raw);
	fake_close(&engine);
}

static void send_one(struct fake_peer *p)
{
	cr_assert_eq(fake_send(p, TW_SEND_PLAIN, 8), TW_OK);
}

Test(hangup, wakes_when_memory_returns, .timeout = TWT_TIMEOUT)
{
	rung_later(send_one);
}

static bool take(struct fake_peer *p, enum tw_err *err)
{
	(void)p;
	(void)err;
	return true;
}

static void make_room(struct fake_peer *p)
{
	(void)p;
	engine.on_packet = take;
	atomic_store(&raw.tx.ring->wants.room, 1);
	for (unsigned i = 0; i < raw.tx.nslots / 2; i++)
		write_one();
}

Test(hangup, makes_room_when_memory_returns, .timeout = TWT_TIMEOUT)
{
	rung_later(make_room);
}

/* One descriptor is left: for the caller's socket, and none for what comes with its hello. */
Test(hangup, no_descriptor_for_a_hello, .timeout = TWT_TIMEOUT)
{
	static struct fake caller;
	struct rlimit all, one;
	struct fake_peer *peer;
	int first, second;

	begin();
	cr_assert_eq(fake_open(&caller, &tw_provider_shm, 2), TW_OK);
	peer = fake_connect(&caller, FAKE_BOARD, 1, engine.host.self.filter);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &all), 0);
	first = dup(STDIN_FILENO);
	second = dup(STDIN_FILENO);
	close(first);
	close(second);
	one = (struct rlimit){(rlim_t)second, all.rlim_max};
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &one), 0);
	fake_pump(&engine);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &all), 0);
	while (peer->state == FAKE_NEW)
		fake_pump(&caller);
	cr_assert_eq(peer->state, FAKE_REFUSED);
	cr_assert_eq(peer->why, TW_ENOMEM, "%d", (int)peer->why);
	fake_close(&caller);
	fake_close(&engine);
}
