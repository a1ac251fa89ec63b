/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Death and cut cables amid locking over three hosts: tests/net/locks_die runs this. A keeper on
 * this host has locks, and remote memory with a count that only who holds them all adds to, by a
 * read and a write: whoever enters while another is inside makes it wrong. Workers of all hosts
 * are killed and begin again, those that serve the others' requests, too; the third host's cable
 * is cut, for a while, and for so long that it is lost.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/twr.h"
#include "lib/twt.h"

#define ROUNDS (10000u / twt_slow())
#define DEATHS (60u / twt_slow())
#define WORKERS 6u
#define KEEPER 3u
#define RETRY_MS 3000u
#define SOON_S TWT_LONG
#define ID 5u

/* All processes of the test have this in common, whatever their host. */
static struct shared {
	_Atomic(uint32_t) rounds, last, lost, entered[WORKERS];
	_Atomic(bool) adding[WORKERS];
	_Atomic(bool) cut; /* the third host may be lost */
	_Atomic(bool) over;
} * shared;

static uint64_t rng;
static struct twt_child workers[WORKERS], keeper;

static bool is_third(unsigned w)
{
	return w % 3 == 2;
}

/* Has the lowest slot of this host until the keeper has another: others ask that process first. */
static int stand_in(void *arg, int fd)
{
	char word;

	(void)arg;
	twr_node(KEEPER - 1);
	HOLDS(twt_put(fd, "r", 1) == 0);
	HOLDS(twt_get(fd, &word, 1) == 0);
	OK(mrapi_finalize(&st));
	return 0;
}

/* Two on each host. */
static mrapi_node_t node_of(unsigned w)
{
	return 4 * (w % 3) + w / 3;
}

static int keep(void *arg, int fd)
{
	static uint32_t count;
	char word;

	(void)arg;
	twr_who = "keeper";
	twr_node(KEEPER);
	OK(mrapi_mutex_create(ID, NULL, &st));
	OK(mrapi_sem_create(ID, NULL, 1, &st));
	OK(mrapi_rwl_create(ID, NULL, 4, &st));
	OK(mrapi_rmem_create(ID, &count, MRAPI_RMEM_DEFAULT, NULL, sizeof(count), &st));
	HOLDS(twt_put(fd, "r", 1) == 0);
	HOLDS(twt_get(fd, &word, 1) == 0);
	HOLDS(count == shared->last);
	OK(mrapi_finalize(&st));
	return 0;
}

/* ------------------------------------------------------------------------ a worker */

struct held {
	mrapi_mutex_hndl_t mutex;
	mrapi_sem_hndl_t sem;
	mrapi_rwl_hndl_t rwl;
	mrapi_rmem_hndl_t rmem;
};

/* What a host that was lost is told; nothing else may fail. */
static bool good(unsigned w, const char *what, mrapi_status_t st)
{
	if (st == MRAPI_SUCCESS)
		return true;
	if (!shared->cut || !is_third(w))
		FAIL(what, st);
	return false;
}

#define GOOD(call)                                                                                 \
	({                                                                                         \
		mrapi_status_t st = -1;                                                            \
		call;                                                                              \
		good(w, #call, st);                                                                \
	})

/* A node that has just died may not be known as dead yet. */
static bool join(unsigned w)
{
	double limit = twt_now() + SOON_S;
	mrapi_status_t st;
	mrapi_info_t info;

	do {
		mrapi_initialize(1, node_of(w), NULL, &info, &st);
		if (st == MRAPI_SUCCESS)
			return true;
		usleep(1000);
	} while (st == MRAPI_ERR_NODE_INITIALIZED && twt_now() < limit);
	return good(w, "initializing", st);
}

static bool find(unsigned w, struct held *h)
{
	return GOOD(h->mutex = mrapi_mutex_get(ID, &st)) && GOOD(h->sem = mrapi_sem_get(ID, &st)) &&
	       GOOD(h->rwl = mrapi_rwl_get(ID, &st)) &&
	       GOOD(h->rmem = mrapi_rmem_get(ID, MRAPI_RMEM_DEFAULT, &st)) &&
	       GOOD(mrapi_rmem_attach(h->rmem, &st));
}

static bool write_count(unsigned w, const struct held *h, uint32_t count)
{
	bool written;

	shared->adding[w] = true;
	written = GOOD(mrapi_rmem_write(h->rmem, 0, &count, 0, sizeof(count), 1, 0, 0, &st));
	if (written)
		shared->last = count;
	shared->adding[w] = false;
	return written;
}

/* Adds to the count. The third host may have been lost after writing it. */
static bool add(unsigned w, const struct held *h)
{
	uint32_t count, last = shared->last;

	if (!GOOD(mrapi_rmem_read(h->rmem, 0, &count, sizeof(count), 0, sizeof(count), 1, 0, 0,
				  &st)))
		return false;
	HOLDS(count == last || (shared->cut && count == last + 1));
	if (!write_count(w, h, count + 1))
		return false;
	shared->rounds++;
	shared->entered[w]++;
	return true;
}

/* Each lock alone is enough; a round takes them in one order, and one of them with a limit. */
static bool turn(unsigned w, const struct held *h)
{
	bool all = twt_random(&rng) % 4 == 0;
	mrapi_key_t key;

	if (!GOOD(mrapi_mutex_lock(h->mutex, &key, all ? 1000u * (unsigned)SOON_S : MRAPI_INFINITE,
				   &st)))
		return false;
	if (all && !(GOOD(mrapi_sem_lock(h->sem, MRAPI_INFINITE, &st)) &&
		     GOOD(mrapi_rwl_lock(h->rwl, MRAPI_WRITER, MRAPI_INFINITE, &st))))
		return false;
	if (!add(w, h))
		return false;
	if (all && !(GOOD(mrapi_rwl_unlock(h->rwl, MRAPI_WRITER, &st)) &&
		     GOOD(mrapi_sem_unlock(h->sem, &st))))
		return false;
	return GOOD(mrapi_mutex_unlock(h->mutex, &key, &st));
}

static int work(void *arg, int fd)
{
	unsigned w = (unsigned)(uintptr_t)arg;
	mrapi_status_t st;
	struct held h;

	(void)fd;
	if (is_third(w))
		twt_go(getenv("NET_THIRD"));
	twr_who = "worker";
	twr_number = w;
	rng = (uint64_t)getpid();
	while (!shared->over) {
		bool on = join(w) && find(w, &h);

		while (on && !shared->over)
			on = turn(w, &h);
		shared->lost += !on;
		mrapi_finalize(&st);
	}
	return 0;
}

/* ---------------------------------------------------------------------------- chaos */

static void begin(unsigned w)
{
	void *arg = (void *)(uintptr_t)w;

	if (w % 3 == 1)
		twt_spawn(&workers[w], work, arg);
	else
		twt_spawn_here(&workers[w], work, arg);
}

static void wire(const char *what)
{
	char cmd[200];

	snprintf(cmd, sizeof(cmd), "%s %s", getenv("NET_THIRD_WIRE"), what);
	HOLDS(system(cmd) == 0);
}

static void cut(unsigned ms)
{
	wire("down");
	usleep(1000 * ms);
	wire("up");
}

/* Not amid a write: that may arrive when others have the locks. */
static void stop(unsigned w)
{
	siginfo_t info;

	for (;;) {
		kill(workers[w].pid, SIGSTOP);
		waitid(P_PID, (id_t)workers[w].pid, &info, WSTOPPED | WEXITED | WNOWAIT);
		if (!shared->adding[w])
			return;
		kill(workers[w].pid, SIGCONT);
		usleep(100);
	}
}

static void die(unsigned w)
{
	int rc;

	stop(w);
	kill(workers[w].pid, SIGKILL);
	rc = twt_join(&workers[w], TWT_LONG);
	if (rc != 1000 + SIGKILL && rc != 0)
		exit(1); /* it has said why */
	begin(w);
}

/* The lowest slot of this host, which others ask first, is to be a worker's, which dies. */
static void begin_keeper(void)
{
	struct twt_child first;
	char word;

	twt_spawn_here(&first, stand_in, NULL);
	HOLDS(twt_get(first.fd, &word, 1) == 0);
	twt_spawn_here(&keeper, keep, NULL);
	HOLDS(twt_get(keeper.fd, &word, 1) == 0);
	HOLDS(twt_put(first.fd, "e", 1) == 0);
	HOLDS(twt_join(&first, TWT_LONG) == 0);
}

/* The locks that who is lost has held are others'. */
static void lose_third(void)
{
	uint32_t before;
	double limit = twt_now() + 4 * SOON_S;

	shared->cut = true;
	wire("down");
	usleep(3000 * RETRY_MS);
	before = shared->rounds;
	while (shared->rounds == before)
		HOLDS(usleep(1000) == 0 && twt_now() < limit);
	wire("up");
	before = shared->entered[2] + shared->entered[5];
	while (shared->entered[2] + shared->entered[5] == before)
		HOLDS(usleep(1000) == 0 && twt_now() < limit);
}

int main(int argc, char **argv)
{
	unsigned deaths = 0, cuts = 0;
	double limit;
	char retry[16];

	if (!getenv("TWT_NETNS") || !getenv("NET_THIRD")) {
		fprintf(stderr, "net_locks_die: needs three hosts, see tests/net/locks_die\n");
		return 2;
	}
	rng = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	snprintf(retry, sizeof(retry), "%u", RETRY_MS);
	setenv("TAGWIRE_RETRY", retry, 1);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	HOLDS(shared != MAP_FAILED);
	begin_keeper();
	for (unsigned w = 0; w < WORKERS; w++)
		begin(w);
	limit = twt_now() + 10 * SOON_S;
	while (shared->rounds < ROUNDS || deaths < DEATHS) {
		HOLDS(twt_now() < limit);
		usleep((useconds_t)(twt_random(&rng) % 15000));
		if (twt_random(&rng) % 8 == 0)
			cuts++, cut((unsigned)(twt_random(&rng) % 300));
		else
			deaths++, die((unsigned)(twt_random(&rng) % WORKERS));
	}
	lose_third();
	shared->over = true;
	for (unsigned w = 0; w < WORKERS; w++)
		HOLDS(twt_join(&workers[w], 10 * TWT_LONG) == 0);
	HOLDS(twt_put(keeper.fd, "e", 1) == 0);
	HOLDS(twt_join(&keeper, TWT_LONG) == 0);
	printf("%u rounds, %u deaths, %u short cuts, a long one\n", shared->rounds, deaths, cuts);
	return 0;
}
