/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads and processes take locks of each kind at random, with and without
 * timeouts, and write to plain memory under them: it stays whole. Meanwhile
 * others are created and deleted under their hands. The thread sanitizer sees
 * whether the locks order what they guard.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/twr.h"
#include "lib/twt.h"

#define THREADS 4
#define PROCS 2
#define LOCKS 3
#define SLOW_MS (20000 * twt_patience())
#define PLACES 3

static double seconds = 3;

struct guarded {
	uint64_t a, b; /* equal outside */
};

struct world {
	struct guarded by_mutex[LOCKS], by_rwl[LOCKS];
	_Atomic int in_sem[LOCKS];
	_Atomic uint64_t done;
};
static struct world *world;

static void write_to(struct guarded *g)
{
	if (g->a != g->b)
		FAIL("two writers at a time", 0);
	g->a++;
	g->b++;
}

static void read_from(const struct guarded *g)
{
	if (g->a != g->b)
		FAIL("a reader beside a writer", 0);
}

/* Mostly waits; sometimes tries, or waits for a moment only. */
static mrapi_timeout_t some_timeout(uint64_t *rng)
{
	switch (twt_random(rng) % 4) {
	case 0:
		return 0;
	case 1:
		return 1;
	default:
		return SLOW_MS;
	}
}

static int got(mrapi_status_t st, mrapi_timeout_t timeout, const char *what)
{
	if (st == MRAPI_TIMEOUT && timeout < SLOW_MS)
		return 0;
	if (st != MRAPI_SUCCESS)
		FAIL(what, st);
	return 1;
}

static void use_mutex(unsigned i, uint64_t *rng)
{
	mrapi_timeout_t timeout = some_timeout(rng);
	mrapi_mutex_hndl_t m;
	mrapi_status_t st;
	mrapi_key_t key;

	OK(m = mrapi_mutex_get(i, &st));
	mrapi_mutex_lock(m, &key, timeout, &st);
	if (!got(st, timeout, "mutex"))
		return;
	write_to(&world->by_mutex[i]);
	OK(mrapi_mutex_unlock(m, &key, &st));
}

static void use_sem(unsigned i, uint64_t *rng)
{
	mrapi_timeout_t timeout = some_timeout(rng);
	mrapi_sem_hndl_t s;
	mrapi_status_t st;

	OK(s = mrapi_sem_get(i, &st));
	mrapi_sem_lock(s, timeout, &st);
	if (!got(st, timeout, "semaphore"))
		return;
	if (++world->in_sem[i] > PLACES)
		FAIL("too many in a semaphore", 0);
	world->in_sem[i]--;
	OK(mrapi_sem_unlock(s, &st));
}

static void use_rwl(unsigned i, uint64_t *rng)
{
	mrapi_timeout_t timeout = some_timeout(rng);
	int writes = twt_random(rng) % 4 == 0;
	mrapi_rwl_hndl_t r;
	mrapi_status_t st;

	OK(r = mrapi_rwl_get(i, &st));
	mrapi_rwl_lock(r, writes ? MRAPI_WRITER : MRAPI_READER, timeout, &st);
	if (!got(st, timeout, "reader/writer lock"))
		return;
	if (writes)
		write_to(&world->by_rwl[i]);
	else
		read_from(&world->by_rwl[i]);
	OK(mrapi_rwl_unlock(r, &st));
}

/* A lock that comes and goes: every answer but a wrong one is right. */
static void use_passing(uint64_t *rng)
{
	mrapi_status_t st;
	mrapi_mutex_hndl_t m = mrapi_mutex_get(77, &st);
	mrapi_key_t key;

	if (st != MRAPI_SUCCESS)
		m = mrapi_mutex_create(77, NULL, &st);
	if (st != MRAPI_SUCCESS)
		return;
	mrapi_mutex_lock(m, &key, some_timeout(rng), &st);
	if (st == MRAPI_SUCCESS)
		OK(mrapi_mutex_unlock(m, &key, &st));
	else if (st != MRAPI_ERR_MUTEX_INVALID && st != MRAPI_TIMEOUT)
		FAIL("a passing mutex", st);
	if (twt_random(rng) % 4 == 0)
		mrapi_mutex_delete(m, &st);
}

static void *work(void *arg)
{
	mrapi_node_t node = (mrapi_node_t)(uintptr_t)arg;
	uint64_t rng = twr_number * 1000 + node;
	double end = twt_now() + seconds;

	twr_node(node);
	while (twt_now() < end) {
		unsigned i = (unsigned)(twt_random(&rng) % LOCKS);

		switch (twt_random(&rng) % 4) {
		case 0:
			use_mutex(i, &rng);
			break;
		case 1:
			use_sem(i, &rng);
			break;
		case 2:
			use_rwl(i, &rng);
			break;
		default:
			use_passing(&rng);
		}
		world->done++;
	}
	OK(mrapi_finalize(&st));
	return NULL;
}

static int process(void *arg, int fd)
{
	mrapi_node_t base = (mrapi_node_t)(uintptr_t)arg;
	pthread_t t[THREADS];

	(void)fd;
	for (unsigned i = 0; i < THREADS; i++)
		if (pthread_create(&t[i], NULL, work, (void *)(uintptr_t)(base + i)))
			FAIL("pthread_create", 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	return 0;
}

/* Waits until the locks are there; its node numbers come with that. */
static int process_when_ready(void *arg, int fd)
{
	mrapi_node_t base;

	if (read(((int *)arg)[0], &base, sizeof(base)) != sizeof(base))
		return 1;
	return process((void *)(uintptr_t)base, fd);
}

int main(int argc, char **argv)
{
	struct twt_child child[PROCS];
	char job[40];
	int gate[2];

	twr_who = "seed";
	twr_number = 1;
	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--seconds"))
			seconds = atof(argv[i + 1]);
		if (!strcmp(argv[i], "--seed"))
			twr_number = strtoull(argv[i + 1], NULL, 0);
	}
	snprintf(job, sizeof(job), "stress-mrapi-%d", (int)getpid());
	setenv("TAGWIRE_JOB", job, 1);
	world = mmap(NULL, sizeof(*world), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (world == MAP_FAILED)
		return 1;
	if (pipe(gate) < 0)
		return 1;
	for (unsigned p = 0; p < PROCS; p++)
		twt_spawn(&child[p], process_when_ready, gate);
	close(gate[0]);
	twr_node(1);
	for (unsigned i = 0; i < LOCKS; i++) {
		OK(mrapi_mutex_create(i, NULL, &st));
		OK(mrapi_sem_create(i, NULL, PLACES, &st));
		OK(mrapi_rwl_create(i, NULL, 8, &st));
	}
	for (unsigned p = 0; p < PROCS; p++) {
		mrapi_node_t base = 100 * (p + 1);

		if (write(gate[1], &base, sizeof(base)) != sizeof(base))
			return 1;
	}
	process((void *)(uintptr_t)10, 0);
	for (unsigned p = 0; p < PROCS; p++)
		if (twt_join(&child[p], (int)seconds + TWT_LONG) != 0)
			FAIL("a process failed", 0);
	OK(mrapi_finalize(&st));
	printf("%llu turns\n", (unsigned long long)world->done);
	return 0;
}
