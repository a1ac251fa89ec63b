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

#define SOON_MS (5000u * twt_patience()) /* a hang, not a delay */
#define SHORT_MS 20u			 /* in vain, or not waited for */
#define ID 17u

enum kind { MUTEX, RECURSIVE, SEM, READER, WRITER, KINDS };
enum what { CREATE, GET, LOCK, TRY, UNLOCK, UNLOCK_TWICE, DELETE, NODE, SHARE, PAIRS, END, QUIT };

struct call {
	uint8_t what, kind;
	uint32_t id; /* or the node's number */
	mrapi_timeout_t timeout;
	mrapi_node_t node;
	bool ext;
};

struct answer {
	mrapi_status_t st;
	bool got;
	double seconds;
};

static const char *const third = "third";

/* ----------------------------------------------------------------- a child's calls */

struct lock {
	uint32_t handle;
	mrapi_key_t key[8];
	int depth;
};

static void create(struct lock *l, const struct call *c, mrapi_status_t *st)
{
	mrapi_boolean_t yes = MRAPI_TRUE;
	mrapi_mutex_attributes_t m;
	mrapi_sem_attributes_t s;
	mrapi_rwl_attributes_t r;

	OK(mrapi_mutex_init_attributes(&m, &st));
	OK(mrapi_sem_init_attributes(&s, &st));
	OK(mrapi_rwl_init_attributes(&r, &st));
	if (c->ext) {
		OK(mrapi_mutex_set_attribute(&m, MRAPI_ERROR_EXT, &yes, sizeof(yes), &st));
		OK(mrapi_sem_set_attribute(&s, MRAPI_ERROR_EXT, &yes, sizeof(yes), &st));
		OK(mrapi_rwl_set_attribute(&r, MRAPI_ERROR_EXT, &yes, sizeof(yes), &st));
	}
	if (c->kind == RECURSIVE)
		OK(mrapi_mutex_set_attribute(&m, MRAPI_MUTEX_RECURSIVE, &yes, sizeof(yes), &st));
	if (c->kind <= RECURSIVE)
		l->handle = mrapi_mutex_create(c->id, &m, st);
	else if (c->kind == SEM)
		l->handle = mrapi_sem_create(c->id, &s, 2, st);
	else
		l->handle = mrapi_rwl_create(c->id, &r, 2, st);
}

static void get(struct lock *l, const struct call *c, mrapi_status_t *st)
{
	uint32_t before = l->handle;

	if (c->kind <= RECURSIVE)
		l->handle = mrapi_mutex_get(c->id, st);
	else if (c->kind == SEM)
		l->handle = mrapi_sem_get(c->id, st);
	else
		l->handle = mrapi_rwl_get(c->id, st);
	if (*st != MRAPI_SUCCESS)
		l->handle = before;
}

static mrapi_rwl_mode_t mode(const struct call *c)
{
	return c->kind == READER ? MRAPI_READER : MRAPI_WRITER;
}

static bool take(struct lock *l, const struct call *c, mrapi_status_t *st)
{
	mrapi_boolean_t got = MRAPI_TRUE;
	bool try = c->what == TRY;

	if (c->kind <= RECURSIVE && try)
		got = mrapi_mutex_trylock(l->handle, &l->key[l->depth], st);
	else if (c->kind <= RECURSIVE)
		mrapi_mutex_lock(l->handle, &l->key[l->depth], c->timeout, st);
	else if (c->kind == SEM && try)
		got = mrapi_sem_trylock(l->handle, st);
	else if (c->kind == SEM)
		mrapi_sem_lock(l->handle, c->timeout, st);
	else if (try)
		got = mrapi_rwl_trylock(l->handle, mode(c), st);
	else
		mrapi_rwl_lock(l->handle, mode(c), c->timeout, st);
	l->depth += c->kind <= RECURSIVE && got && *st == MRAPI_SUCCESS;
	return got;
}

static void give(struct lock *l, const struct call *c, mrapi_status_t *st)
{
	int i = c->what == UNLOCK_TWICE ? l->depth : l->depth ? l->depth - 1 : 0;

	if (c->kind <= RECURSIVE)
		mrapi_mutex_unlock(l->handle, &l->key[i], st);
	else if (c->kind == SEM)
		mrapi_sem_unlock(l->handle, st);
	else
		mrapi_rwl_unlock(l->handle, st);
	if (l->depth && *st == MRAPI_SUCCESS)
		l->depth--;
}

static void delete (struct lock *l, const struct call *c, mrapi_status_t *st)
{
	if (c->kind <= RECURSIVE)
		mrapi_mutex_delete(l->handle, st);
	else if (c->kind == SEM)
		mrapi_sem_delete(l->handle, st);
	else
		mrapi_rwl_delete(l->handle, st);
}

/* Locks and unlocks so often. */
static double pairs(struct lock *l, uint32_t n, mrapi_status_t *st)
{
	double start = twt_now();

	*st = MRAPI_SUCCESS;
	while (n-- > 0 && *st == MRAPI_SUCCESS) {
		mrapi_mutex_lock(l->handle, &l->key[0], MRAPI_INFINITE, st);
		if (*st == MRAPI_SUCCESS)
			mrapi_mutex_unlock(l->handle, &l->key[0], st);
	}
	return twt_now() - start;
}

static int obey(void *arg, int fd)
{
	struct lock locks[3] = {{0}}; /* READER and WRITER are one */
	mrapi_info_t info;
	struct call c;

	if (arg == third)
		twt_go(getenv("NET_THIRD"));
	twr_who = arg ? arg : "child";
	while (twt_get(fd, &c, sizeof(c)) == 0 && c.what != QUIT) {
		struct lock *l = &locks[c.kind <= RECURSIVE ? 0 : c.kind == SEM ? 1 : 2];
		struct answer a = {.st = -1, .got = true};

		if (c.what == NODE)
			mrapi_initialize(1, c.id, NULL, &info, &a.st);
		else if (c.what == END)
			mrapi_finalize(&a.st);
		else if (c.what == SHARE)
			mrapi_shmem_create(c.id, 64, &c.node, 1, NULL, &a.st);
		else if (c.what == PAIRS)
			a.seconds = pairs(l, c.id, &a.st);
		else if (c.what == CREATE)
			create(l, &c, &a.st);
		else if (c.what == GET)
			get(l, &c, &a.st);
		else if (c.what == LOCK || c.what == TRY)
			a.got = take(l, &c, &a.st);
		else if (c.what == DELETE)
			delete (l, &c, &a.st);
		else
			give(l, &c, &a.st);
		HOLDS(twt_put(fd, &a, sizeof(a)) == 0);
	}
	return 0;
}

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

static bool try(struct twt_child *c, enum kind kind)
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
	twt_spawn_here(&near, obey, (void *)(uintptr_t) "near");
	twt_spawn(&far, obey, (void *)(uintptr_t) "far");
	twt_spawn_here(&other, obey, (void *)(uintptr_t)third);
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
static void ids(enum kind k, bool ext)
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
static void remove_it(struct twt_child *c, enum kind k)
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

/* One state, whoever asks: the owner's host, another one, and a third. */
static void exclusive(enum kind k)
{
	struct twt_child *all[] = {&near, &far, &other};

	CALL(MRAPI_SUCCESS, &far, CREATE, .kind = k, .id = ID);
	CALL(MRAPI_SUCCESS, &near, GET, .kind = k, .id = ID);
	CALL(MRAPI_SUCCESS, &other, GET, .kind = k, .id = ID);
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
	CALL(MRAPI_SUCCESS, &other, CREATE, .kind = SEM, .id = ID);
	CALL(MRAPI_SUCCESS, &near, GET, .kind = SEM, .id = ID);
	CALL(MRAPI_SUCCESS, &far, GET, .kind = SEM, .id = ID);
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

/* Readers of two hosts share it; a writer waits for both, and keeps new ones out. */
static void readers(void)
{
	CALL(MRAPI_SUCCESS, &near, CREATE, .kind = WRITER, .id = ID);
	CALL(MRAPI_SUCCESS, &far, GET, .kind = WRITER, .id = ID);
	CALL(MRAPI_SUCCESS, &other, GET, .kind = WRITER, .id = ID);
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
	CALL(MRAPI_SUCCESS, &near, CREATE, .kind = RECURSIVE, .id = ID);
	CALL(MRAPI_SUCCESS, &far, GET, .kind = RECURSIVE, .id = ID);
	CALL(MRAPI_SUCCESS, &other, GET, .kind = RECURSIVE, .id = ID);
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

	twt_spawn_here(&more, obey, (void *)(uintptr_t)third);
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
	twt_spawn_here(&near, obey, (void *)(uintptr_t) "near");
	twt_spawn_here(&stays, obey, (void *)(uintptr_t) "stays");
	CALL(MRAPI_SUCCESS, &near, NODE, .id = 0);
	CALL(MRAPI_SUCCESS, &stays, NODE, .id = 1);
	CALL(MRAPI_SUCCESS, &stays, CREATE, .kind = MUTEX, .id = ID);
	twt_spawn(&far, obey, (void *)(uintptr_t) "far");
	twt_spawn_here(&other, obey, (void *)(uintptr_t)third);
	CALL(MRAPI_SUCCESS, &far, NODE, .id = 4);
	CALL(MRAPI_SUCCESS, &other, NODE, .id = 8);
	CALL(MRAPI_SUCCESS, &other, GET, .kind = MUTEX, .id = ID);
	CALL(MRAPI_SUCCESS, &other, LOCK, .kind = MUTEX, .timeout = MRAPI_INFINITE);
	wire("down");
	kill(near.pid, SIGKILL);
	HOLDS(twt_join(&near, TWT_LONG) == 1000 + SIGKILL);
	twt_spawn_here(&near, obey, (void *)(uintptr_t) "near");
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
	twt_spawn_here(&other, obey, (void *)(uintptr_t)third);
	CALL(MRAPI_SUCCESS, &other, NODE, .id = 8);
	CALL(MRAPI_SUCCESS, &stays, CREATE, .kind = SEM, .id = ID);
	CALL(MRAPI_SUCCESS, &other, GET, .kind = SEM, .id = ID);
	CALL(MRAPI_SUCCESS, &stays, END, .id = 0);
	quit(&stays);
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
	/* Unlocking has a reply, which nobody waits for; the deletion is told to two hosts. */
	HOLDS(sent(&far) - before[1] == 2 * n + 1);
	HOLDS(sent(&near) - before[0] == 2 * n + 2);
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
	readers();
	levels();
	printf("locks\n");
	nodes();
	printf("nodes\n");
	round_trips(1000, false);
	printf("round trips\n");
	short_cut();
	stop();
	return 0;
}
