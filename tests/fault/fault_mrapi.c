/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes are killed (SIGKILL) while they hold a lock of each kind, while they
 * wait for one, and while they create and delete objects. The survivors go on:
 * every lock is to be had soon, its data is whole, ids are free or taken but
 * never in between, and in the end nothing is left of the job.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/twr.h"
#include "lib/twt.h"

#define SOON_MS (10000 * (int)twt_patience()) /* a hang, not a delay */
#define OBJECTS 40
#define VICTIM 100 /* node numbers: this and the next one */

static long rounds = 500;
static long owners = 25;
static uint64_t rng = 1;

/* What the locks guard: equal halves whenever nobody is inside. */
struct shared {
	volatile uint64_t inside; /* by the mutex */
	_Atomic int in_sem, readers, writers;
	_Atomic int stop;
};
static struct shared *shared;

struct locks {
	mrapi_mutex_hndl_t m;
	mrapi_sem_hndl_t s;
	mrapi_rwl_hndl_t r;
};

static struct locks get_locks(void)
{
	struct locks l;

	OK(l.m = mrapi_mutex_get(1, &st));
	OK(l.s = mrapi_sem_get(1, &st));
	OK(l.r = mrapi_rwl_get(1, &st));
	return l;
}

/* ---------------------------------------------------------------- the victims */

enum way { MUTEX, SEM, WRITER, READER, WAITS, CREATES, TWO, WAYS };

static void take(const struct locks *l, enum way way)
{
	mrapi_key_t key;

	switch (way) {
	case MUTEX:
		OK(mrapi_mutex_lock(l->m, &key, SOON_MS, &st));
		break;
	case SEM:
		OK(mrapi_sem_lock(l->s, SOON_MS, &st));
		break;
	case WRITER:
		OK(mrapi_rwl_lock(l->r, MRAPI_WRITER, SOON_MS, &st));
		break;
	default:
		OK(mrapi_rwl_lock(l->r, MRAPI_READER, SOON_MS, &st));
	}
}

/* Locks and unlocks without end, among the survivors. */
static void wait_for_locks(const struct locks *l)
{
	mrapi_key_t key;

	for (;;) {
		OK(mrapi_mutex_lock(l->m, &key, SOON_MS, &st));
		OK(mrapi_mutex_unlock(l->m, &key, &st));
		OK(mrapi_sem_lock(l->s, SOON_MS, &st));
		OK(mrapi_sem_unlock(l->s, &st));
		OK(mrapi_rwl_lock(l->r, MRAPI_WRITER, SOON_MS, &st));
		OK(mrapi_rwl_unlock(l->r, &st));
		OK(mrapi_rwl_lock(l->r, MRAPI_READER, SOON_MS, &st));
		OK(mrapi_rwl_unlock(l->r, &st));
	}
}

static void create_without_end(void)
{
	static char memory[OBJECTS];

	for (;;) {
		mrapi_status_t st;
		uint32_t id = 100 + (uint32_t)(twt_random(&rng) % OBJECTS);
		mrapi_hndl_t h;

		h = mrapi_mutex_create(id, NULL, &st);
		if (twt_random(&rng) % 2)
			mrapi_mutex_delete(h, &st);
		h = mrapi_sem_create(id, NULL, 3, &st);
		if (twt_random(&rng) % 2)
			mrapi_sem_delete(h, &st);
		h = mrapi_rwl_create(id, NULL, 3, &st);
		mrapi_rwl_delete(h, &st);
		h = mrapi_shmem_create(id, 10000, NULL, 0, NULL, &st);
		if (mrapi_shmem_attach(h, &st) && twt_random(&rng) % 2)
			mrapi_shmem_detach(h, &st);
		mrapi_shmem_delete(h, &st);
		h = mrapi_rmem_create(id, memory + id - 100, MRAPI_RMEM_DEFAULT, NULL, 1, &st);
		mrapi_rmem_attach(h, &st);
		mrapi_rmem_detach(h, &st);
		if (twt_random(&rng) % 2)
			mrapi_rmem_delete(h, &st);
	}
}

static int victim(void *arg, int fd)
{
	enum way way = *(enum way *)arg;
	struct locks l;

	rng ^= (uint64_t)getpid();
	twr_node(VICTIM);
	l = get_locks();
	if (way <= READER)
		take(&l, way);
	if (twt_put(fd, "r", 1) < 0)
		return 1;
	if (way == WAITS)
		wait_for_locks(&l);
	if (way >= CREATES)
		create_without_end();
	pause();
	return 0;
}

/* One that buries the victim, and is killed at it. */
static int mourner(void *arg, int fd)
{
	(void)arg;
	twr_node(VICTIM + 1);
	if (twt_put(fd, "r", 1) < 0)
		return 1;
	pause();
	return 0;
}

/* -------------------------------------------------------------- the survivors */

static void work_mutex(const struct locks *l)
{
	mrapi_key_t key;

	OK(mrapi_mutex_lock(l->m, &key, SOON_MS, &st));
	if (shared->inside++ != 0)
		FAIL("two have the mutex", 0);
	shared->inside--;
	OK(mrapi_mutex_unlock(l->m, &key, &st));
}

static void work_sem(const struct locks *l)
{
	OK(mrapi_sem_lock(l->s, SOON_MS, &st));
	if (++shared->in_sem > 2)
		FAIL("three have the semaphore", 0);
	shared->in_sem--;
	OK(mrapi_sem_unlock(l->s, &st));
}

static void work_rwl(const struct locks *l)
{
	OK(mrapi_rwl_lock(l->r, MRAPI_WRITER, SOON_MS, &st));
	if (++shared->writers != 1 || shared->readers)
		FAIL("a writer is not alone", 0);
	shared->writers--;
	OK(mrapi_rwl_unlock(l->r, &st));
	OK(mrapi_rwl_lock(l->r, MRAPI_READER, SOON_MS, &st));
	shared->readers++;
	if (shared->writers)
		FAIL("a reader beside a writer", 0);
	shared->readers--;
	OK(mrapi_rwl_unlock(l->r, &st));
}

static int survivor(void *arg, int fd)
{
	struct locks l;
	unsigned long turns = 0;

	(void)arg;
	twr_node(2);
	l = get_locks();
	if (twt_put(fd, "r", 1) < 0)
		return 1;
	for (; !shared->stop; turns++) {
		work_mutex(&l);
		work_sem(&l);
		work_rwl(&l);
		usleep(100);
	}
	OK(mrapi_finalize(&st));
	return turns > 0 ? 0 : 1;
}

/* Every id that the dead may have had can be had now, or is whole. */
static void check_ids(void)
{
	mrapi_status_t st;

	for (uint32_t id = 100; id < 100 + OBJECTS; id++) {
		mrapi_hndl_t h = mrapi_mutex_create(id, NULL, &st);
		mrapi_key_t key;

		if (st == MRAPI_EXISTS)
			OK(h = mrapi_mutex_get(id, &st));
		else if (st != MRAPI_SUCCESS)
			FAIL("create", st);
		OK(mrapi_mutex_lock(h, &key, SOON_MS, &st));
		OK(mrapi_mutex_unlock(h, &key, &st));
		OK(mrapi_mutex_delete(h, &st));
		mrapi_rmem_get(id, MRAPI_RMEM_DEFAULT, &st);
		if (st != MRAPI_ERR_RMEM_ID_INVALID)
			FAIL("remote memory of a dead owner", st);
		h = mrapi_shmem_get(id, &st);
		if (st == MRAPI_SUCCESS)
			OK(mrapi_shmem_delete(h, &st)); /* nobody is attached */
	}
}

/* The node number is free once the dead is buried: the next victim needs it. */
static void await_burial(mrapi_node_t node)
{
	for (int i = 0;; i++) {
		mrapi_uint_t pid;
		mrapi_status_t st;

		mrapi_node_get_attribute(node, MRAPI_NODE_PID, &pid, sizeof(pid), &st);
		if (st == MRAPI_ERR_PARAMETER)
			return;
		if (i == SOON_MS)
			FAIL("the dead node is still there", st);
		usleep(1000);
	}
}

/* The survivor that made the locks; told of each death, it looks at everything. */
static int keeper(void *arg, int fd)
{
	struct locks l;
	enum way way;

	(void)arg;
	twr_node(1);
	OK(l.m = mrapi_mutex_create(1, NULL, &st));
	OK(l.s = mrapi_sem_create(1, NULL, 2, &st));
	OK(l.r = mrapi_rwl_create(1, NULL, 8, &st));
	if (twt_put(fd, "r", 1) < 0)
		return 1;
	for (; twt_get(fd, &way, sizeof(way)) == 0 && way < WAYS; twr_number++) {
		work_mutex(&l);
		work_sem(&l);
		work_rwl(&l);
		await_burial(VICTIM);
		await_burial(VICTIM + 1);
		if (way >= CREATES)
			check_ids();
		if (twt_put(fd, "d", 1) < 0)
			return 1;
	}
	OK(mrapi_mutex_delete(l.m, &st));
	OK(mrapi_sem_delete(l.s, &st));
	OK(mrapi_rwl_delete(l.r, &st));
	OK(mrapi_finalize(&st));
	return 0;
}

/* Waits for a word of a child. */
static void hear(const struct twt_child *c, const char *what)
{
	char word;

	if (twt_get(c->fd, &word, 1) < 0)
		FAIL(what, 0);
}

static void one_round(const struct twt_child *keeping)
{
	enum way way = (enum way)(twr_number % WAYS);
	struct twt_child v, m;

	twt_spawn(&v, victim, &way);
	hear(&v, "the victim did not come up");
	if (way == TWO) {
		twt_spawn(&m, mourner, NULL);
		hear(&m, "the mourner did not come up");
	}
	if (way >= WAITS)
		usleep((useconds_t)(twt_random(&rng) % 2000));
	kill(v.pid, SIGKILL);
	if (way == TWO) {
		usleep((useconds_t)(twt_random(&rng) % 500));
		kill(m.pid, SIGKILL);
		twt_join(&m, TWT_LONG);
	}
	if (twt_put(keeping->fd, &way, sizeof(way)) < 0)
		FAIL("the keeper is gone", 0);
	hear(keeping, "the keeper failed");
	if (twt_join(&v, TWT_LONG) != 1000 + SIGKILL)
		FAIL("the victim ended by itself", 0);
}

/* ------------------------------------------------- owners of remote memory */

#define REMOTE 300000u

static int owner(void *arg, int fd)
{
	char *memory = malloc(REMOTE);

	(void)arg;
	twr_node(VICTIM);
	memset(memory, 1, REMOTE);
	OK(mrapi_rmem_create(1, memory, MRAPI_RMEM_DEFAULT, NULL, REMOTE, &st));
	if (twt_put(fd, "r", 1) < 0)
		return 1;
	pause();
	return 0;
}

/* Reads until the owner is dead: every read is whole or refused. */
static int reader(void *arg, int fd)
{
	static char buf[REMOTE];
	mrapi_rmem_hndl_t h;
	mrapi_request_t request;
	mrapi_status_t st = MRAPI_SUCCESS;

	setenv("TAGWIRE_RMEM", arg, 1);
	twr_node(3);
	OK(h = mrapi_rmem_get(1, MRAPI_RMEM_DEFAULT, &st));
	OK(mrapi_rmem_attach(h, &st));
	if (twt_put(fd, "r", 1) < 0)
		return 1;
	for (double end = twt_now() + SOON_MS / 1000.; st == MRAPI_SUCCESS;) {
		memset(buf, 0, REMOTE);
		mrapi_rmem_read(h, 0, buf, REMOTE, 0, REMOTE, 1, 0, 0, &st);
		if (st == MRAPI_SUCCESS && (buf[0] != 1 || buf[REMOTE - 1] != 1))
			return 1;
		if (st != MRAPI_SUCCESS)
			break;
		mrapi_rmem_write_i(h, 0, buf, 0, 1, REMOTE / 2, 2, 2, &request, &st);
		if (st == MRAPI_SUCCESS)
			mrapi_wait(&request, NULL, SOON_MS, &st);
		if (twt_now() > end)
			return 1;
	}
	return st == MRAPI_ERR_RMEM_INVALID ? 0 : 1;
}

static void kill_an_owner(char *path)
{
	struct twt_child o, r;

	twt_spawn(&o, owner, NULL);
	hear(&o, "the owner did not come up");
	twt_spawn(&r, reader, path);
	hear(&r, "the reader did not come up");
	usleep((useconds_t)(twt_random(&rng) % 5000));
	kill(o.pid, SIGKILL);
	if (twt_join(&r, TWT_LONG) != 0)
		FAIL(path, 0);
	twt_join(&o, TWT_LONG);
}

static void nothing_left(void)
{
	char line[256];
	FILE *f = fopen("/proc/net/unix", "r");

	while (f && fgets(line, sizeof(line), f))
		if (strstr(line, getenv("TAGWIRE_JOB")))
			FAIL(line, 0);
	if (f)
		fclose(f);
}

int main(int argc, char **argv)
{
	struct twt_child keeping, other;
	enum way end = WAYS;
	char job[40];

	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--rounds"))
			rounds = atol(argv[i + 1]);
		if (!strcmp(argv[i], "--owners"))
			owners = atol(argv[i + 1]);
		if (!strcmp(argv[i], "--seed"))
			rng = strtoull(argv[i + 1], NULL, 0);
	}
	twr_who = "round";
	snprintf(job, sizeof(job), "fault-mrapi-%d", (int)getpid());
	setenv("TAGWIRE_JOB", job, 1);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return 1;
	/* This process is no node and has no threads: it only forks. */
	twt_spawn(&keeping, keeper, NULL);
	hear(&keeping, "the keeper did not come up");
	twt_spawn(&other, survivor, NULL);
	hear(&other, "the survivor did not come up");
	for (; twr_number < (uint64_t)rounds; twr_number++)
		one_round(&keeping);
	for (long i = 0; i < owners; i++) {
		kill_an_owner("vm");
		kill_an_owner("served");
	}
	shared->stop = 1;
	if (twt_join(&other, TWT_LONG) != 0)
		FAIL("the survivor failed", 0);
	if (twt_put(keeping.fd, &end, sizeof(end)) < 0 || twt_join(&keeping, TWT_LONG) != 0)
		FAIL("the keeper failed", 0);
	nothing_left();
	printf("%ld rounds\n", rounds);
	return 0;
}
