/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two processes contend for a lock in an integer, under a barrier and then under an
 * exchange, while a third one joins the job and leaves it without end, with hardly any
 * descriptors. Nothing that the two hold is taken from them.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/twr.h"
#include "lib/twt.h"

#define LIMIT 20
#define PATIENCE 60000 /* ms for a lock: a hang, not a delay */
#define SECONDS 300

#define VISITS 50 /* of either kind */

static unsigned long turns = 100000;

typedef void init_fn(mrapi_atomic_barrier_t *axb, pid_t dest, mrapi_msg_t *buffer, unsigned elems,
		     size_t size, unsigned *counter, mca_timeout_t timeout, mrapi_status_t *status);

/* Lies in memory that all share. */
static struct world {
	mrapi_msg_t element;
	uint32_t lock;
	volatile unsigned long plain;
	init_fn *init;
	_Atomic int stop;
	_Atomic unsigned long done, joined, refused;
} * world;

static void contend(void)
{
	mrapi_atomic_barrier_t axb;
	unsigned long i;

	OK(world->init(&axb, 0, &world->element, 1, sizeof(world->element), NULL,
		       PATIENCE * twt_slow(), &st));
	for (i = 0; i < turns || world->joined < VISITS || world->refused < VISITS; i++) {
		OK(mrapi_atomic_lock(&axb, &world->lock, NULL, sizeof(world->lock), &st));
		world->plain++;
		OK(mrapi_atomic_release(&axb, &world->lock, sizeof(world->lock), &st));
	}
	world->done += i;
}

static int contender(void *arg, int fd)
{
	mrapi_node_t node = (mrapi_node_t)(uintptr_t)arg;
	mrapi_mutex_hndl_t m;
	mrapi_key_t key;
	char go;

	twr_who = "contender";
	twr_number = node;
	twr_node(node);
	OK(m = mrapi_mutex_create(node, NULL, &st));
	OK(mrapi_mutex_lock(m, &key, 0, &st));
	if (twt_put(fd, "r", 1) < 0 || twt_get(fd, &go, 1) < 0)
		return 1;
	contend();
	if (twt_put(fd, "d", 1) < 0 || twt_get(fd, &go, 1) < 0)
		return 1;
	/* Whoever is taken for dead has no lock any more. */
	OK(mrapi_mutex_unlock(m, &key, &st));
	OK(mrapi_finalize(&st));
	return 0;
}

static void join(void)
{
	mrapi_mutex_hndl_t m;
	mrapi_status_t st;
	mrapi_info_t info;
	mrapi_key_t key;

	mrapi_initialize(1, 3, NULL, &info, &st);
	if (st != MRAPI_SUCCESS && st != MRAPI_ENO_INIT)
		FAIL("mrapi_initialize", st);
	world->joined += st == MRAPI_SUCCESS;
	world->refused += st == MRAPI_ENO_INIT;
	if (st != MRAPI_SUCCESS)
		return;
	for (mrapi_node_t node = 1; node <= 2; node++) {
		OK(m = mrapi_mutex_get(node, &st));
		HOLDS(!mrapi_mutex_trylock(m, &key, &st) && st == MRAPI_SUCCESS);
	}
	OK(mrapi_finalize(&st));
}

/* Sometimes with fewer than it takes. */
static int comes_and_goes(void *arg, int fd)
{
	struct rlimit r = {LIMIT, LIMIT};
	uint64_t rng = 1;

	(void)arg;
	(void)fd;
	twr_who = "guest";
	if (setrlimit(RLIMIT_NOFILE, &r) < 0)
		return 1;
	setenv("TAGWIRE_LOG", "0", 1); /* what is refused is many lines */
	while (!world->stop) {
		int taken[LIMIT], n = (int)(twt_random(&rng) % LIMIT);

		for (int i = 0; i < n; i++)
			taken[i] = open("/dev/null", O_RDONLY);
		join();
		for (int i = 0; i < n; i++)
			if (taken[i] >= 0)
				close(taken[i]);
		usleep(1000);
	}
	return 0;
}

static void hear(const struct twt_child *c)
{
	char word;

	if (twt_get(c->fd, &word, 1) < 0)
		FAIL("a contender failed", 0);
}

static void run(const char *name, init_fn *init)
{
	struct twt_child c[2], guest;
	double begin = twt_now();

	memset(world, 0, sizeof(*world));
	world->init = init;
	for (uintptr_t i = 0; i < 2; i++)
		twt_spawn(&c[i], contender, (void *)(i + 1));
	for (int i = 0; i < 2; i++)
		hear(&c[i]);
	twt_spawn(&guest, comes_and_goes, NULL);
	for (int i = 0; i < 2; i++)
		HOLDS(twt_put(c[i].fd, "g", 1) == 0);
	for (int i = 0; i < 2; i++)
		hear(&c[i]);
	world->stop = 1;
	HOLDS(twt_join(&guest, SECONDS * (int)twt_slow()) == 0);
	for (int i = 0; i < 2; i++)
		HOLDS(twt_put(c[i].fd, "e", 1) == 0);
	for (int i = 0; i < 2; i++)
		HOLDS(twt_join(&c[i], SECONDS * (int)twt_slow()) == 0);
	HOLDS(world->plain == world->done && world->lock == 0);
	printf("%s: %lu locks in %.1f s, joined %lu times, refused %lu times\n", name, world->plain,
	       twt_now() - begin, world->joined, world->refused);
}

int main(int argc, char **argv)
{
	char job[40];

	for (int i = 1; i + 1 < argc; i += 2)
		if (!strcmp(argv[i], "--turns"))
			turns = strtoul(argv[i + 1], NULL, 0);
	snprintf(job, sizeof(job), "stress-atomic-lock-%d", (int)getpid());
	setenv("TAGWIRE_JOB", job, 1);
	world = mmap(NULL, sizeof(*world), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (world == MAP_FAILED)
		return 1;
	run("barrier", mrapi_barrier_init);
	run("exchange", mrapi_exchange_init);
	return 0;
}
