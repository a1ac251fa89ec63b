/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs of MRAPI that hang.
 */
#include <signal.h>
#include <unistd.h>

#include "base/compiler.h"
#include "mrapi.h"
#include "why/whyt.h"

static mrapi_status_t st;
static mrapi_key_t key;

static void begin(int me)
{
	mrapi_info_t info;

	mrapi_initialize(1, (mrapi_node_t)me + 1, NULL, &info, &st);
	whyt_must(st == MRAPI_SUCCESS);
}

/* The first makes it, others find it. */
static mrapi_mutex_hndl_t mutex(int me, mrapi_mutex_id_t id)
{
	mrapi_mutex_hndl_t h = me == 0 ? mrapi_mutex_create(id, NULL, &st) : 0;

	while (me != 0 && (h = mrapi_mutex_get(id, &st), st != MRAPI_SUCCESS))
		usleep(1000);
	whyt_must(st == MRAPI_SUCCESS);
	return h;
}

static mrapi_sem_hndl_t semaphore(int me, mrapi_sem_id_t id, mrapi_uint_t limit)
{
	mrapi_sem_hndl_t h = me == 0 ? mrapi_sem_create(id, NULL, limit, &st) : 0;

	while (me != 0 && (h = mrapi_sem_get(id, &st), st != MRAPI_SUCCESS))
		usleep(1000);
	whyt_must(st == MRAPI_SUCCESS);
	return h;
}

static void lock(mrapi_mutex_hndl_t h)
{
	mrapi_mutex_lock(h, &key, MRAPI_INFINITE, &st);
}

/* Waits until somebody else has it. */
static void until_taken(mrapi_mutex_hndl_t h)
{
	while (mrapi_mutex_trylock(h, &key, &st)) {
		mrapi_mutex_unlock(h, &key, &st);
		usleep(1000);
	}
}

/* The same of a semaphore. */
static void until_used_up(mrapi_sem_hndl_t h)
{
	while (mrapi_sem_trylock(h, &st)) {
		mrapi_sem_unlock(h, &st);
		usleep(1000);
	}
}

/* Each takes its own, then the next one's. */
static void ring(int me, int n)
{
	mrapi_mutex_hndl_t h[8];

	begin(me);
	for (int i = 0; i < n; i++)
		h[i] = mutex(me, (mrapi_mutex_id_t)(10 + i));
	lock(h[me]);
	until_taken(h[(me + 1) % n]);
	lock(h[(me + 1) % n]);
}

static void holder_sleeps(int me, int n)
{
	mrapi_mutex_hndl_t h;

	(void)n;
	begin(me);
	h = mutex(me, 7);
	if (me == 1) {
		lock(h);
		whyt_sleep();
	}
	until_taken(h);
	lock(h);
}

static void semaphores(int me, int n)
{
	mrapi_sem_hndl_t a, b;

	(void)n;
	begin(me);
	a = semaphore(me, 3, 1);
	b = semaphore(me, 4, 1);
	mrapi_sem_lock(me ? b : a, MRAPI_INFINITE, &st);
	until_used_up(me ? a : b);
	mrapi_sem_lock(me ? a : b, MRAPI_INFINITE, &st);
}

/* A reader wants to write, and another reads. */
static void upgrade(int me, int n)
{
	mrapi_rwl_hndl_t h = 0;
	mrapi_mutex_hndl_t m;

	(void)n;
	begin(me);
	m = mutex(me, 8);
	if (me == 0)
		h = mrapi_rwl_create(6, NULL, 2, &st);
	while (me != 0 && (h = mrapi_rwl_get(6, &st), st != MRAPI_SUCCESS))
		usleep(1000);
	if (me == 1) {
		mrapi_rwl_lock(h, MRAPI_READER, MRAPI_INFINITE, &st);
		lock(m);
		whyt_compute();
	}
	until_taken(m);
	mrapi_rwl_lock(h, MRAPI_WRITER, MRAPI_INFINITE, &st);
}

#define N(i, me) "ode " #me " (process {" #i "}, why_mrapi)"

static const struct whyt_case cases[] = {
	{"two",
	 2,
	 ring,
	 0,
	 {"N" N(0, 1) " waits for mutex 11, which n" N(1, 2) " holds, and n" N(
		  1, 2) " waits for mutex 10, which n" N(0, 1) " holds.",
	  "Each holds the lock that the one before it waits for.",
	  "Take these locks in the same order everywhere."}},
	{"five",
	 5,
	 ring,
	 0,
	 {"5 processes wait for each other in a cycle: node 1 (process {0}, why_mrapi) waits for "
	  "mutex 11, which node 2 (process {1}, why_mrapi) holds, node 2 (process {1}, why_mrapi) "
	  "waits for mutex 12, which node 3 (process {2}, why_mrapi) holds, node 3 (process {2}, "
	  "why_mrapi) waits for mutex 13, which node 4 (process {3}, why_mrapi) holds, and so on.",
	  "Each holds the lock that the one before it waits for.",
	  "Take these locks in the same order everywhere."}},
	{"holder_sleeps",
	 2,
	 holder_sleeps,
	 0,
	 {"N" N(0, 1) " waits for mutex 7, which n" N(1, 2) " holds.",
	  "N" N(1, 2) " has not called Tagwire for at least * s and sleeps outside of it.",
	  "Look at what it does: gdb -p {1}."}},
	{"semaphores",
	 2,
	 semaphores,
	 0,
	 {"N" N(0, 1) " waits for semaphore 4, which n" N(1, 2) " holds, and n" N(
		  1, 2) " waits for semaphore 3, which n" N(0, 1) " holds.",
	  "Each holds the lock that the one before it waits for.",
	  "Take these locks in the same order everywhere."}},
	{"upgrade",
	 2,
	 upgrade,
	 0,
	 {"N" N(0, 1) " waits for reader/writer lock 6, which n" N(1, 2) " holds.",
	  "N" N(1, 2) " has not called Tagwire for at least * s and computes.",
	  "Look at what it does: gdb -p {1}."}},
	{"stopped",
	 2,
	 holder_sleeps,
	 SIGSTOP,
	 {"N" N(0, 1) " waits for mutex 7, which n" N(1, 2) " holds.",
	  "N" N(1, 2) " is stopped by a signal.", "Let it go on: kill -CONT {1}."}},
};

int main(int argc, char **argv)
{
	return whyt_main(argc, argv, cases, tw_countof(cases));
}
