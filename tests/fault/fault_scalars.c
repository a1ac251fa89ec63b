/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A survivor exchanges scalars with a victim through two opposite channels, which have
 * a token (src/shmem/words.h): by question and answer, in bursts, in a stream either way, or
 * waits for one that never comes. The victim is killed (SIGKILL) amid that. The survivor
 * gets what had been sent, in order, then MCAPI_ENOT_HANDLE, asleep or not; and the next
 * victim, the same node, is as good as the last. Meanwhile another thread of the survivor
 * goes on with a third process, which must not notice.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "mcapi.h"
#include "stress/stress.h"

enum { SURVIVOR = 1, VICTIM, THIRD };
enum { PORT_OUT = 1, PORT_IN, PORT_OUT_THIRD, PORT_IN_THIRD };
enum { ASK, BURSTS, TO_VICTIM, FROM_VICTIM, SILENCE, WAYS };

#define LAST UINT64_MAX /* to the third: no more comes */
#define MOST_US 3000	/* from the first scalar to the death */
#define BURST 40

static long rounds = 300;

static struct shared {
	atomic_ullong open; /* the round whose channels the survivor has opened */
	atomic_ullong scalars, third;
} * shared;

struct ends {
	mcapi_endpoint_t out, in;
	mcapi_sclchan_send_hndl_t tx;
	mcapi_sclchan_recv_hndl_t rx;
};

#define must(call)                                                                                 \
	do {                                                                                       \
		mcapi_status_t st = MCAPI_ERROR;                                                   \
		call;                                                                              \
		if (st != MCAPI_SUCCESS)                                                           \
			st_fail("%s: %s", #call, mcapi_strerror(st));                              \
	} while (0)

static void finish(mcapi_request_t r)
{
	size_t size;

	must(mcapi_wait(&r, &size, &st, MCAPI_INFINITE));
}

static void begin(unsigned node)
{
	mcapi_version_t version;

	must(mcapi_initialize(node, &version, &st));
}

static void make(struct ends *e, unsigned port_out, unsigned port_in)
{
	must(e->out = mcapi_create_endpoint(port_out, &st));
	must(e->in = mcapi_create_endpoint(port_in, &st));
}

static void open_ends(struct ends *e)
{
	mcapi_request_t out, in;
	mcapi_status_t st;

	mcapi_open_sclchan_send_i(&e->tx, e->out, &out, &st);
	st_check(st == MCAPI_SUCCESS || st == MCAPI_ENOT_CONNECTED);
	mcapi_open_sclchan_recv_i(&e->rx, e->in, &in, &st);
	st_check(st == MCAPI_SUCCESS || st == MCAPI_ENOT_CONNECTED);
	finish(out);
	finish(in);
}

static void close_ends(struct ends *e)
{
	mcapi_request_t r;

	must(mcapi_sclchan_send_close_i(e->tx, &r, &st));
	finish(r);
	must(mcapi_sclchan_recv_close_i(e->rx, &r, &st));
	finish(r);
}

/* To the ends of the other node, which has made them at the same ports. */
static void connect_ends(struct ends *e, unsigned node, unsigned port_out, unsigned port_in)
{
	mcapi_endpoint_t out, in;
	mcapi_request_t r;

	must(out = mcapi_get_endpoint(node, port_out, &st));
	must(in = mcapi_get_endpoint(node, port_in, &st));
	must(mcapi_connect_sclchan_i(e->out, in, &r, &st));
	finish(r);
	must(mcapi_connect_sclchan_i(out, e->in, &r, &st));
	finish(r);
	open_ends(e);
}

/* False when the other side is gone. */
static int send(const struct ends *e, uint64_t value)
{
	mcapi_status_t st;

	mcapi_sclchan_send_uint64(e->tx, value, &st);
	if (st != MCAPI_SUCCESS && st != MCAPI_ENOT_HANDLE)
		st_fail("mcapi_sclchan_send_uint64: %s", mcapi_strerror(st));
	return st == MCAPI_SUCCESS;
}

static int receive(const struct ends *e, uint64_t expected)
{
	mcapi_status_t st;
	uint64_t value = mcapi_sclchan_recv_uint64(e->rx, &st);

	if (st != MCAPI_SUCCESS && st != MCAPI_ENOT_HANDLE)
		st_fail("mcapi_sclchan_recv_uint64: %s", mcapi_strerror(st));
	if (st == MCAPI_SUCCESS)
		st_eq(value, expected);
	return st == MCAPI_SUCCESS;
}

static uint64_t number(uint64_t round, uint64_t i)
{
	return round << 40 | i;
}

/* The victim --------------------------------------------------------------------------- */

static int victim(void *arg, int fd)
{
	uint64_t round = *(uint64_t *)arg, rng = round;
	struct ends e;

	(void)fd;
	st_role("victim %llu", (unsigned long long)round);
	begin(VICTIM);
	make(&e, PORT_OUT, PORT_IN);
	open_ends(&e);
	for (uint64_t i = 0;; i++) {
		st_at(i);
		switch (round % WAYS) {
		case ASK:
		case BURSTS:
			st_check(receive(&e, number(round, i)) && send(&e, number(round, i)));
			break;
		case TO_VICTIM:
			st_check(receive(&e, number(round, i)));
			/* Now and then the ring is full, and the survivor sleeps. */
			if (twt_random(&rng) % 5000 == 0)
				st_sleep(0.001);
			break;
		case FROM_VICTIM:
			st_check(send(&e, number(round, i)));
			break;
		default:
			st_sleep(1);
		}
	}
}

/* The third ---------------------------------------------------------------------------- */

static int third(void *arg, int fd)
{
	mcapi_status_t st;
	uint64_t value;
	struct ends e;

	(void)arg;
	(void)fd;
	st_role("third");
	begin(THIRD);
	make(&e, PORT_OUT_THIRD, PORT_IN_THIRD);
	open_ends(&e);
	do {
		must(value = mcapi_sclchan_recv_uint64(e.rx, &st));
		st_check(send(&e, value));
	} while (value != LAST);
	/* The survivor closes first. */
	mcapi_sclchan_recv_uint64(e.rx, &st);
	st_check(st == MCAPI_ENOT_HANDLE);
	close_ends(&e);
	must(mcapi_finalize(&st));
	return 0;
}

/* The survivor ------------------------------------------------------------------------- */

static atomic_int over;

static void *with_third(void *arg)
{
	const struct ends *e = arg;

	for (uint64_t i = 0; !atomic_load(&over); i++) {
		st_at(i);
		st_check(send(e, i) && receive(e, i));
		atomic_fetch_add(&shared->third, 1);
		if (i % 64 == 0)
			st_sleep(0.0002); /* the others have a processor, too */
	}
	st_check(send(e, LAST) && receive(e, LAST));
	return NULL;
}

/* Until the victim is dead; how many scalars came and went. */
static uint64_t exchange(const struct ends *e, uint64_t round, uint64_t *rng)
{
	uint64_t sent = 0, got = 0, burst = 0;

	switch (round % WAYS) {
	case ASK:
	case BURSTS:
		while (!burst && got == sent) {
			burst = round % WAYS == ASK ? 1 : 1 + twt_random(rng) % BURST;
			for (; burst && send(e, number(round, sent)); burst--)
				sent++;
			while (got < sent && receive(e, number(round, got)))
				got++;
		}
		break;
	case TO_VICTIM:
		while (send(e, number(round, sent)))
			sent++;
		break;
	default:
		while (receive(e, number(round, got)))
			got++;
	}
	return sent + got;
}

static int survivor(void *arg, int fd)
{
	struct ends e, far;
	pthread_t thread;
	uint64_t round, rng = st_seed;

	(void)arg;
	st_role("survivor");
	begin(SURVIVOR);
	make(&far, PORT_OUT_THIRD, PORT_IN_THIRD);
	connect_ends(&far, THIRD, PORT_OUT_THIRD, PORT_IN_THIRD);
	st_check(pthread_create(&thread, NULL, with_third, &far) == 0);
	make(&e, PORT_OUT, PORT_IN);
	while (twt_get(fd, &round, sizeof(round)) == 0 && round) {
		st_at(round);
		connect_ends(&e, VICTIM, PORT_OUT, PORT_IN);
		atomic_store(&shared->open, round);
		atomic_fetch_add(&shared->scalars, exchange(&e, round, &rng));
		/* Both ends say so from now on. */
		st_check(!send(&e, 0) && !receive(&e, 0));
		close_ends(&e);
		/* New endpoints, or the old ones once more. */
		if (twt_random(&rng) & 1) {
			must(mcapi_delete_endpoint(e.out, &st));
			must(mcapi_delete_endpoint(e.in, &st));
			make(&e, PORT_OUT, PORT_IN);
		}
		st_put(fd, &round, sizeof(round));
	}
	atomic_store(&over, 1);
	pthread_join(thread, NULL);
	close_ends(&far);
	must(mcapi_finalize(&st));
	return 0;
}

/* -------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
	static const struct st_option options[] = {{"--rounds", &rounds, 1, 1000000}, {0}};
	struct twt_child living, other, dying;
	uint64_t round = 0, answer = 0, third_done;

	st_begin(argc, argv, "fault_scalars", 20, options);
	shared = st_shared(sizeof(*shared));
	twt_spawn(&other, third, NULL);
	twt_spawn(&living, survivor, NULL);
	while (round < (uint64_t)rounds && (round < WAYS || st_going())) {
		uint64_t rng = st_seed ^ ++round << 32, us;

		st_at(round);
		twt_spawn(&dying, victim, &round);
		st_put(living.fd, &round, sizeof(round));
		while (atomic_load(&shared->open) != round)
			st_sleep(0.0001);
		us = twt_random(&rng) % MOST_US;
		st_sleep((double)us / 1e6);
		kill(dying.pid, SIGKILL);
		st_check(twt_join(&dying, (int)ST_LONG) == 1000 + SIGKILL);
		st_get(living.fd, &answer, sizeof(answer));
		st_eq(answer, round);
		/* The third goes on. */
		third_done = atomic_load(&shared->third);
		while (atomic_load(&shared->third) == third_done)
			st_sleep(0.0001);
	}
	answer = 0;
	st_put(living.fd, &answer, sizeof(answer));
	st_check(twt_join(&living, (int)ST_LONG) == 0);
	st_check(twt_join(&other, (int)ST_LONG) == 0);
	st_done("%llu victims, %llu scalars with them, %llu with the third",
		(unsigned long long)round, atomic_load(&shared->scalars),
		atomic_load(&shared->third));
	return 0;
}
