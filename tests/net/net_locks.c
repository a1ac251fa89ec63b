/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Locks, ids and nodes among three hosts: tests/net/locks runs this. Nodes 0 to 3 are on this
 * host, 4 to 7 on that of TWT_NETNS, 8 to 11 on that of NET_THIRD. A child does one call
 * after another as it is told, so that the order of what happens on several hosts is known.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/twr.h"
#include "lib/twt.h"
#include "net/lock_calls.h"

#define SOON_MS (5000u * twt_patience()) /* a hang, not a delay */
#define SHORT_MS 20u			 /* in vain, or not waited for */
#define ID 17u

/* ------------------------------------------------------------------- telling them */

static void begin(struct twt_child *c, const struct call *call)
{
	HOLDS(twt_put(c->fd, call, sizeof(*call)) == 0);
}

static struct answer end(struct twt_child *c)
{
	struct answer a;

	HOLDS(twt_get(c->fd, &a, sizeof(a)) == 0);
	return a;
}

static mrapi_status_t call(struct twt_child *c, struct call what)
{
	begin(c, &what);
	return end(c).st;
}

#define CALL(expected, child, does, ...)                                                           \
	do {                                                                                       \
		mrapi_status_t st = call(child, (struct call){.what = does, __VA_ARGS__});         \
		if (st != (expected))                                                              \
			FAIL(#child ": " #does " " #__VA_ARGS__, st);                              \
	} while (0)

static bool try(struct twt_child *c, enum lock_kind kind)
{
	struct answer a;

	begin(c, &(struct call){.what = TRY, .kind = kind, .id = 0});
	a = end(c);
	if (a.st != MRAPI_SUCCESS)
		FAIL("trylock", a.st);
	return a.got;
}

/* The lock that the child was told to wait for. */
static void has_it(struct twt_child *c)
{
	mrapi_status_t st = end(c).st;

	if (st != MRAPI_SUCCESS)
		FAIL("waiting for a lock", st);
}

/* Three nodes on three hosts. */
static struct twt_child near, far, other;

static void start(void)
{
	twt_spawn_here(&near, lock_calls_obey, (void *)(uintptr_t) "near");
	twt_spawn(&far, lock_calls_obey, (void *)(uintptr_t) "far");
	twt_spawn_here(&other, lock_calls_obey, (void *)(uintptr_t) "third");
	CALL(MRAPI_SUCCESS, &near, NODE, .id = 0);
	CALL(MRAPI_SUCCESS, &far, NODE, .id = 4);
	CALL(MRAPI_SUCCESS, &other, NODE, .id = 8);
}

static void quit(struct twt_child *c)
{
	begin(c, &(struct call){.what = QUIT});
	HOLDS(twt_join(c, TWT_LONG) == 0);
}

static void stop(void)
{
	struct twt_child *all[] = {&near, &far, &other};

	for (int i = 0; i < 3; i++) {
		CALL(MRAPI_SUCCESS, all[i], END, .id = 0);
		quit(all[i]);
	}
}

/* -------------------------------------------------------------------------- tests */

static const struct {
	mrapi_status_t id_invalid, invalid, deleted, locked, notlocked;
} of[] = {[MUTEX] = {MRAPI_ERR_MUTEX_ID_INVALID, MRAPI_ERR_MUTEX_INVALID, MRAPI_ERR_MUTEX_DELETED,
		     MRAPI_ERR_MUTEX_LOCKED, MRAPI_ERR_MUTEX_NOTLOCKED},
	  [SEM] = {MRAPI_ERR_SEM_ID_INVALID, MRAPI_ERR_SEM_INVALID, MRAPI_ERR_SEM_DELETED,
		   MRAPI_ERR_SEM_LOCKED, MRAPI_ERR_SEM_NOTLOCKED},
	  [WRITER] = {MRAPI_ERR_RWL_ID_INVALID, MRAPI_ERR_RWL_INVALID, MRAPI_ERR_RWL_DELETED,
		      MRAPI_ERR_RWL_LOCKED, MRAPI_ERR_RWL_NOTLOCKED}};

/* Ids are those of the job, and found at once. */
static void ids(enum lock_kind k, bool ext)
{
	CALL(of[k].id_invalid, &other, GET, .kind = k, .id = ID);
	CALL(MRAPI_SUCCESS, &near, CREATE, .kind = k, .id = ID, .ext = ext);
	CALL(MRAPI_EXISTS, &far, CREATE, .kind = k, .id = ID);
	CALL(MRAPI_SUCCESS, &far, GET, .kind = k, .id = ID);
	CALL(MRAPI_SUCCESS, &other, GET, .kind = k, .id = ID);
	CALL(MRAPI_SUCCESS, &other, DELETE, .kind = k);
	CALL(ext ? of[k].deleted : of[k].id_invalid, &far, GET, .kind = k, .id = ID);
	CALL(ext ? of[k].deleted : of[k].invalid, &near, TRY, .kind = k);
	CALL(ext ? of[k].deleted : of[k].invalid, &far, LOCK, .kind = k, .timeout = MRAPI_INFINITE);
	CALL(ext ? of[k].deleted : of[k].invalid, &other, UNLOCK, .kind = k);
	/* The id may be used again, on another host. */
	CALL(MRAPI_SUCCESS, &other, CREATE, .kind = k, .id = ID);
	CALL(MRAPI_SUCCESS, &near, GET, .kind = k, .id = ID);
	CALL(MRAPI_SUCCESS, &other, DELETE, .kind = k);
	CALL(of[k].id_invalid, &near, GET, .kind = k, .id = ID);
}

/* An unlock of another host may be on its way. */
static void remove_it(struct twt_child *c, enum lock_kind k)
{
	mrapi_status_t st;

	for (double limit = twt_now() + TWT_LONG;; usleep(1000)) {
		st = call(c, (struct call){.what = DELETE, .kind = k, .id = 0});
		if (st == MRAPI_SUCCESS)
			return;
		if (st != of[k].locked || twt_now() > limit)
			FAIL("deleting", st);
	}
}

/* A lock of that one's host, which the others have got, too. */
static void create_by(struct twt_child *maker, enum lock_kind k)
{
	struct twt_child *all[] = {&near, &far, &other};

	CALL(MRAPI_SUCCESS, maker, CREATE, .kind = k, .id = ID);
	for (int i = 0; i < 3; i++)
		if (all[i] != maker)
			CALL(MRAPI_SUCCESS, all[i], GET, .kind = k, .id = ID);
}

/* One state, whoever asks: the owner's host, another one, and a third. */
static void exclusive(enum lock_kind k)
{
	struct twt_child *all[] = {&near, &far, &other};

	create_by(&far, k);
	for (int i = 0; i < 3; i++) {
		struct twt_child *holder = all[i], *b = all[(i + 1) % 3], *c = all[(i + 2) % 3];
		struct call wait = {.what = LOCK, .kind = k, .timeout = SOON_MS};

		CALL(of[k].notlocked, holder, UNLOCK, .kind = k);
		CALL(MRAPI_SUCCESS, holder, LOCK, .kind = k, .timeout = MRAPI_INFINITE);
		HOLDS(!try(b, k) && !try(c, k));
		CALL(MRAPI_TIMEOUT, b, LOCK, .kind = k, .timeout = SHORT_MS);
		CALL(of[k].notlocked, c, UNLOCK, .kind = k);
		CALL(of[k].locked, holder, LOCK, .kind = k, .timeout = SHORT_MS);
		CALL(of[k].locked, holder, TRY, .kind = k);
		CALL(of[k].locked, b, DELETE, .kind = k);
		begin(b, &wait);
		CALL(MRAPI_SUCCESS, holder, UNLOCK, .kind = k);
		has_it(b);
		CALL(MRAPI_SUCCESS, b, UNLOCK, .kind = k);
		CALL(MRAPI_SUCCESS, c, LOCK, .kind = k, .timeout = SOON_MS);
		CALL(MRAPI_SUCCESS, c, UNLOCK, .kind = k);
	}
	remove_it(&near, k);
}

/* A semaphore of two: counted over the hosts. */
static void counted(void)
{
	create_by(&other, SEM);
	HOLDS(try(&near, SEM) && try(&far, SEM) && !try(&other, SEM) && !try(&near, SEM));
	begin(&other, &(struct call){.what = LOCK, .kind = SEM, .id = 0, .timeout = SOON_MS});
	CALL(MRAPI_SUCCESS, &far, UNLOCK, .kind = SEM);
	has_it(&other);
	CALL(MRAPI_ERR_SEM_NOTLOCKED, &far, UNLOCK, .kind = SEM);
	CALL(MRAPI_ERR_SEM_LOCKED, &far, DELETE, .kind = SEM);
	CALL(MRAPI_SUCCESS, &near, UNLOCK, .kind = SEM);
	CALL(MRAPI_SUCCESS, &near, LOCK, .kind = SEM, .timeout = SHORT_MS);
	CALL(MRAPI_SUCCESS, &near, UNLOCK, .kind = SEM);
	CALL(MRAPI_SUCCESS, &other, UNLOCK, .kind = SEM);
	remove_it(&far, SEM);
}

/* More threads of a node wait than it may have requests under way. */
static void crowded(void)
{
	create_by(&near, SEM);
	HOLDS(try(&near, SEM) && try(&near, SEM));
	begin(&far, &(struct call){.what = CROWD, .kind = SEM, .id = 100});
	usleep(1000 * SHORT_MS);
	HOLDS(!try(&other, SEM));
	CALL(MRAPI_SUCCESS, &near, UNLOCK, .kind = SEM);
	has_it(&far);
	CALL(MRAPI_SUCCESS, &near, UNLOCK, .kind = SEM);
	remove_it(&other, SEM);
}

/* Readers of two hosts share it; a writer waits for both, and keeps new ones out. */
static void readers(void)
{
	create_by(&near, WRITER);
	HOLDS(try(&near, READER) && try(&far, READER) && !try(&other, WRITER));
	CALL(MRAPI_ERR_RWL_LOCKED, &far, LOCK, .kind = READER, .timeout = SHORT_MS);
	begin(&other, &(struct call){.what = LOCK, .kind = WRITER, .id = 0, .timeout = SOON_MS});
	CALL(MRAPI_SUCCESS, &far, UNLOCK, .kind = READER);
	CALL(MRAPI_SUCCESS, &near, UNLOCK, .kind = READER);
	has_it(&other);
	HOLDS(!try(&near, READER) && !try(&far, WRITER));
	CALL(MRAPI_SUCCESS, &other, UNLOCK, .kind = WRITER);
	remove_it(&other, WRITER);
}

/* Keys of a recursive mutex are those of its levels, made by its host. */
static void levels(void)
{
	create_by(&near, RECURSIVE);
	for (int i = 0; i < 3; i++)
		CALL(MRAPI_SUCCESS, &far, LOCK, .kind = RECURSIVE, .timeout = SHORT_MS);
	HOLDS(!try(&near, RECURSIVE) && !try(&other, RECURSIVE));
	CALL(MRAPI_ERR_MUTEX_KEY, &far, UNLOCK_TWICE, .kind = RECURSIVE);
	for (int i = 0; i < 3; i++)
		CALL(MRAPI_SUCCESS, &far, UNLOCK, .kind = RECURSIVE);
	CALL(MRAPI_ERR_MUTEX_NOTLOCKED, &far, UNLOCK, .kind = RECURSIVE);
	HOLDS(try(&other, RECURSIVE));
	CALL(MRAPI_SUCCESS, &other, UNLOCK, .kind = RECURSIVE);
	remove_it(&near, MUTEX);
}

/* Numbers of nodes are those of the job, and memory is shared within a host. */
static void nodes(void)
{
	struct twt_child more;

	twt_spawn_here(&more, lock_calls_obey, (void *)(uintptr_t) "third");
	CALL(MRAPI_ERR_NODE_INITIALIZED, &more, NODE, .id = 0);
	CALL(MRAPI_ERR_NODE_INITIALIZED, &more, NODE, .id = 4);
	CALL(MRAPI_ERR_NODE_INITIALIZED, &more, NODE, .id = 8);
	CALL(MRAPI_SUCCESS, &more, NODE, .id = 9);
	CALL(MRAPI_ERR_SHM_NODES_INCOMPAT, &more, SHARE, .id = ID, .node = 4);
	CALL(MRAPI_ERR_NODE_NOTINIT, &more, SHARE, .id = ID, .node = 5);
	CALL(MRAPI_SUCCESS, &more, SHARE, .id = ID, .node = 8);
	CALL(MRAPI_SUCCESS, &more, END, .id = 0);
	/* What ends on one host may begin on another. */
	CALL(MRAPI_SUCCESS, &far, END, .id = 0);
	CALL(MRAPI_SUCCESS, &more, NODE, .id = 4);
	CALL(MRAPI_ERR_NODE_INITIALIZED, &far, NODE, .id = 4);
	CALL(MRAPI_SUCCESS, &more, END, .id = 0);
	CALL(MRAPI_SUCCESS, &far, NODE, .id = 4);
	quit(&more);
}

static void wire(const char *what)
{
	char cmd[200];

	snprintf(cmd, sizeof(cmd), "%s %s", getenv("NET_THIRD_WIRE"), what);
	HOLDS(system(cmd) == 0);
}

/*
 * A short cut loses nothing, though the process dies meanwhile that the holder has asked, and
 * another one finds no way to it. The process that stays has not met the third host.
 */
static void short_cut(void)
{
	struct twt_child stays;

	stop();
	twt_spawn_here(&near, lock_calls_obey, (void *)(uintptr_t) "near");
	twt_spawn_here(&stays, lock_calls_obey, (void *)(uintptr_t) "stays");
	CALL(MRAPI_SUCCESS, &near, NODE, .id = 0);
	CALL(MRAPI_SUCCESS, &stays, NODE, .id = 1);
	CALL(MRAPI_SUCCESS, &stays, CREATE, .kind = MUTEX, .id = ID);
	twt_spawn(&far, lock_calls_obey, (void *)(uintptr_t) "far");
	twt_spawn_here(&other, lock_calls_obey, (void *)(uintptr_t) "third");
	CALL(MRAPI_SUCCESS, &far, NODE, .id = 4);
	CALL(MRAPI_SUCCESS, &other, NODE, .id = 8);
	CALL(MRAPI_SUCCESS, &other, GET, .kind = MUTEX, .id = ID);
	CALL(MRAPI_SUCCESS, &other, LOCK, .kind = MUTEX, .timeout = MRAPI_INFINITE);
	wire("down");
	kill(near.pid, SIGKILL);
	HOLDS(twt_join(&near, TWT_LONG) == 1000 + SIGKILL);
	twt_spawn_here(&near, lock_calls_obey, (void *)(uintptr_t) "near");
	while (call(&near, (struct call){.what = NODE, .id = 0}) != MRAPI_SUCCESS)
		usleep(1000);
	CALL(MRAPI_SUCCESS, &near, GET, .kind = MUTEX, .id = ID);
	for (int i = 0; i < 10; i++, usleep(10000))
		HOLDS(!try(&near, MUTEX) && !try(&stays, MUTEX));
	wire("up");
	CALL(MRAPI_SUCCESS, &other, UNLOCK, .kind = MUTEX);
	CALL(MRAPI_SUCCESS, &near, LOCK, .kind = MUTEX, .timeout = SOON_MS);
	CALL(MRAPI_SUCCESS, &near, UNLOCK, .kind = MUTEX);
	/* What a process creates that has not met that host is known there all the same. */
	CALL(MRAPI_SUCCESS, &other, END, .id = 0);
	quit(&other);
	twt_spawn_here(&other, lock_calls_obey, (void *)(uintptr_t) "third");
	CALL(MRAPI_SUCCESS, &other, NODE, .id = 8);
	CALL(MRAPI_SUCCESS, &stays, CREATE, .kind = SEM, .id = ID);
	CALL(MRAPI_SUCCESS, &other, GET, .kind = SEM, .id = ID);
	/* Nor of a host whose next process the others of its host have met first. */
	CALL(MRAPI_SUCCESS, &other, CREATE, .kind = WRITER, .id = ID);
	CALL(MRAPI_SUCCESS, &stays, GET, .kind = WRITER, .id = ID);
	CALL(MRAPI_SUCCESS, &stays, LOCK, .kind = WRITER, .timeout = SOON_MS);
	for (int i = 0; i < 10; i++) {
		CALL(MRAPI_SUCCESS, &stays, DELETE, .kind = SEM);
		CALL(MRAPI_SUCCESS, &other, END, .id = 0);
		quit(&other);
		usleep((useconds_t)i * 2000);
		twt_spawn_here(&other, lock_calls_obey, (void *)(uintptr_t) "third");
		CALL(MRAPI_SUCCESS, &other, NODE, .id = 8);
		CALL(MRAPI_SUCCESS, &stays, CREATE, .kind = SEM, .id = ID);
		CALL(MRAPI_SUCCESS, &other, GET, .kind = SEM, .id = ID);
	}
	CALL(MRAPI_SUCCESS, &stays, END, .id = 0);
	quit(&stays);
}

static void learns_of_end(struct twt_child *c, enum lock_kind k)
{
	double limit = twt_now() + TWT_LONG;
	mrapi_status_t st;

	while ((st = call(c, (struct call){.what = GET, .kind = k, .id = ID})) == MRAPI_SUCCESS) {
		HOLDS(twt_now() < limit);
		usleep(1000);
	}
	if (st != of[k].id_invalid)
		FAIL("getting what was deleted", st);
}

/* A process that deletes an id dies before it has told other hosts, and another one tells them. */
static void untold(enum lock_kind k)
{
	struct twt_child dies;

	twt_spawn_here(&dies, lock_calls_obey, (void *)(uintptr_t) "dies");
	CALL(MRAPI_SUCCESS, &dies, NODE, .id = 1);
	create_by(&dies, k);
	CALL(MRAPI_SUCCESS, &dies, MUTE, .kind = k);
	begin(&dies, &(struct call){.what = DELETE, .kind = k, .id = 0});
	learns_of_end(&near, k);
	CALL(MRAPI_SUCCESS, &far, GET, .kind = k, .id = ID);
	kill(dies.pid, SIGKILL);
	HOLDS(twt_join(&dies, TWT_LONG) == 1000 + SIGKILL);
	learns_of_end(&far, k);
	learns_of_end(&other, k);
	create_by(&far, k);
	remove_it(&other, k);
}

/* What a child's endpoint has sent to other hosts, as mx_counters shows it. */
static unsigned long sent(const struct twt_child *c)
{
	char cmd[300];
	unsigned long n;
	FILE *f;

	snprintf(cmd, sizeof(cmd),
		 "\"$builddir\"/bench/mx_counters --pid %d --csv | "
		 "sed -n 's/.*active messages sent,\\([0-9]*\\).*/\\1/p'",
		 (int)c->pid);
	HOLDS((f = popen(cmd, "r")) != NULL);
	HOLDS(fscanf(f, "%lu", &n) == 1);
	HOLDS(pclose(f) == 0);
	return n;
}

/* A free mutex is locked by one request and one reply, and unlocked by one request. */
static void round_trips(unsigned n, bool timed)
{
	unsigned long before[2];
	struct answer a;

	CALL(MRAPI_SUCCESS, &near, CREATE, .kind = MUTEX, .id = ID);
	CALL(MRAPI_SUCCESS, &far, GET, .kind = MUTEX, .id = ID);
	before[0] = sent(&near);
	before[1] = sent(&far);
	begin(&far, &(struct call){.what = PAIRS, .kind = MUTEX, .id = n});
	a = end(&far);
	HOLDS(a.st == MRAPI_SUCCESS);
	remove_it(&near, MUTEX);
	if (timed)
		printf("%.2f us to lock and unlock\n", a.seconds / n * 1e6);
	/* The deletion is told to two hosts. */
	HOLDS(sent(&far) - before[1] == 2 * n + 1);
	HOLDS(sent(&near) - before[0] == n + 2);
}

int main(int argc, char **argv)
{
	if (!getenv("TWT_NETNS") || !getenv("NET_THIRD")) {
		fprintf(stderr, "net_locks: needs three hosts, see tests/net/locks\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	start();
	if (argc > 1) {
		round_trips((unsigned)atoi(argv[1]), true);
		stop();
		return 0;
	}
	for (int ext = 0; ext < 2; ext++) {
		ids(MUTEX, ext);
		ids(SEM, ext);
		ids(WRITER, ext);
	}
	printf("ids\n");
	exclusive(MUTEX);
	exclusive(WRITER);
	counted();
	crowded();
	readers();
	levels();
	printf("locks\n");
	nodes();
	printf("nodes\n");
	untold(MUTEX);
	untold(SEM);
	untold(WRITER);
	printf("ends that were not told\n");
	round_trips(1000, false);
	printf("round trips\n");
	short_cut();
	stop();
	return 0;
}
