/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls of one thread beside those of another that take something from under it. */
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "mrapi/mrapit.h"

TestSuite(mrapi_races, .init = twc_job, .timeout = MR_TIMEOUT);

/* ------------------------------------------------------------------ handles */

#define WRONG_CALLS 20000

static void lock_wrong(void *handle)
{
	mrapi_mutex_hndl_t h = *(mrapi_mutex_hndl_t *)handle;
	mrapi_key_t key;

	for (int i = 0; i < WRONG_CALLS; i++)
		mr_is(MRAPI_ERR_MUTEX_INVALID, mrapi_mutex_lock(h, &key, 0, &mr_st));
}

/* A handle with the slot of a mutex that is another one keeps nobody from locking it. */
MR_BOTH(mrapi_races, wrong_handle)
{
	mrapi_mutex_hndl_t m, *wrong = mr_shared(sizeof(*wrong));
	struct mr_peer p;
	mrapi_key_t key;

	mr_peer(&p, where, 1);
	mr_up(MR_NODE);
	m = mr_val(mrapi_mutex_create(1, NULL, &mr_st));
	*wrong = m ^ 1u << 20;
	mr_go(&p, lock_wrong, wrong);
	while (!mr_idle(&p)) {
		twc_check(mr_val(mrapi_mutex_trylock(m, &key, &mr_st)));
		mr_ok(mrapi_mutex_unlock(m, &key, &mr_st));
	}
	mr_done(&p);
	mr_down();
	mr_peer_end(&p);
}

/* The same by another thread of the node that has it. */
Test(mrapi_races, wrong_handle_of_own_node)
{
	mrapi_mutex_hndl_t m, wrong;
	struct twc_thread t;
	mrapi_key_t key;

	mr_up(MR_NODE);
	m = mr_val(mrapi_mutex_create(1, NULL, &mr_st));
	wrong = m ^ 1u << 20;
	twc_start(&t, lock_wrong, &wrong);
	while (!atomic_load(&t.done)) {
		mr_ok(mrapi_mutex_lock(m, &key, MRAPI_INFINITE, &mr_st));
		mr_ok(mrapi_mutex_unlock(m, &key, &mr_st));
	}
	twc_join(&t);
	mr_down();
}

/* ------------------------------------------------------------ mapped memory */

enum { SPAN = 64 << 20, PIECES = SPAN / 8 };

static void share(void *unused)
{
	mrapi_shmem_hndl_t h;
	char *mem;

	(void)unused;
	h = mr_val(mrapi_shmem_create(1, SPAN, NULL, 0, NULL, &mr_st));
	mem = mr_val(mrapi_shmem_attach(h, &mr_st));
	mr_ok(mrapi_rmem_create(1, mem, MRAPI_RMEM_ATYPE_DEFAULT, NULL, SPAN, &mr_st));
}

struct copying {
	mrapi_rmem_hndl_t h;
	_Atomic int begun;
};

/* A copy that takes long, in pieces of one byte. */
static void copy(void *arg)
{
	struct copying *c = arg;
	char *buf = malloc(PIECES);

	atomic_store(&c->begun, 1);
	mr_st = -1;
	mrapi_rmem_read(c->h, 0, buf, PIECES, 0, 1, PIECES, 8, 1, &mr_st);
	twc_check(mr_st == MRAPI_SUCCESS || mr_st == MRAPI_ERR_RMEM_INVALID);
	free(buf);
}

static void await_copying(struct copying *c)
{
	while (!atomic_load(&c->begun))
		twc_sleep(1);
	twc_sleep(2);
}

static void attach_memory(void *handle)
{
	mr_ok(mrapi_rmem_attach(*(mrapi_rmem_hndl_t *)handle, &mr_st));
}

/* The owner is dead and a node ends: what another copies from stays mapped. */
Test(mrapi_races, node_ends_beside_a_copy)
{
	struct mr_peer owner, node;
	struct copying c = {0};
	struct twc_thread t;
	mrapi_uint_t pid;

	mr_peer(&owner, MR_PROCESS, 1);
	mr_up(MR_NODE);
	mr_peer(&node, MR_THREAD, 2);
	mr_do(&owner, share, NULL);
	c.h = mr_val(mrapi_rmem_get(1, MRAPI_RMEM_ATYPE_DEFAULT, &mr_st));
	mr_do(&node, attach_memory, &c.h);
	mr_ok(mrapi_rmem_attach(c.h, &mr_st));
	twc_start(&t, copy, &c);
	await_copying(&c);
	mr_peer_kill(&owner);
	do {
		mrapi_node_get_attribute(1, MRAPI_NODE_PID, &pid, sizeof(pid), &mr_st);
	} while (mr_st == MRAPI_SUCCESS);
	mr_peer_end(&node);
	twc_join(&t);
	mr_down();
}

/* A thread detaches what another thread of its node copies from. */
Test(mrapi_races, detach_beside_a_copy)
{
	struct copying c = {0};
	struct mr_peer owner;
	struct twc_thread t;

	mr_peer(&owner, MR_PROCESS, 1);
	mr_up(MR_NODE);
	mr_do(&owner, share, NULL);
	c.h = mr_val(mrapi_rmem_get(1, MRAPI_RMEM_ATYPE_DEFAULT, &mr_st));
	mr_ok(mrapi_rmem_attach(c.h, &mr_st));
	twc_start(&t, copy, &c);
	await_copying(&c);
	mr_ok(mrapi_rmem_detach(c.h, &mr_st));
	twc_join(&t);
	mr_down();
	mr_peer_end(&owner);
}

/* ------------------------------------------------------------- cancellation */

static void offer(void *unused)
{
	static char mem[SPAN / 64];

	(void)unused;
	mr_ok(mrapi_rmem_create(1, mem, MRAPI_RMEM_ATYPE_DEFAULT, NULL, sizeof(mem), &mr_st));
}

static void wait_for_request(void *request)
{
	size_t size;

	mrapi_wait(request, &size, MRAPI_INFINITE, &mr_st);
}

/* A thread that is cancelled inside a call does not stop the others. */
Test(mrapi_races, cancelled_in_wait)
{
	char *buf = malloc(SPAN / 64);
	struct twc_thread t;
	struct mr_peer owner;
	mrapi_rmem_hndl_t h;
	mrapi_request_t r, other;
	size_t size;

	setenv("TAGWIRE_RMEM", "served", 1);
	mr_peer(&owner, MR_PROCESS, 1);
	mr_up(MR_NODE);
	mr_do(&owner, offer, NULL);
	h = mr_val(mrapi_rmem_get(1, MRAPI_RMEM_ATYPE_DEFAULT, &mr_st));
	mr_ok(mrapi_rmem_attach(h, &mr_st));
	twc_check(kill(owner.child.pid, SIGSTOP) == 0);
	mr_ok(mrapi_rmem_read_i(h, 0, buf, 0, SPAN / 64, 1, 0, 0, &r, &mr_st));
	mr_ok(mrapi_rmem_read_i(h, 0, buf, 0, 8, 1, 0, 0, &other, &mr_st));
	twc_start(&t, wait_for_request, &r);
	twc_asleep(&t);
	twc_check(pthread_cancel(t.id) == 0);
	twc_sleep(MR_SHORT);
	mr_is(MRAPI_INCOMPLETE, mrapi_test(&other, &size, &mr_st));
	twc_check(kill(owner.child.pid, SIGCONT) == 0);
	mr_ok(mrapi_wait(&other, &size, MR_LONG, &mr_st));
	twc_check(pthread_join(t.id, NULL) == 0);
	mr_ok(mrapi_rmem_detach(h, &mr_st));
	mr_down();
	mr_peer_end(&owner);
	free(buf);
}

static char span[2][SPAN / 64];

static void never(mrapi_event_t event)
{
	(void)event;
}

/* A whole life of a node in a thread that is cancelled as soon as a call lets that happen. */
static void *lives_cancelled(void *through)
{
	mrapi_parameters_t parameters = {0};
	mrapi_mutex_hndl_t m;
	mrapi_rmem_hndl_t h;
	mrapi_request_t r;
	mrapi_sem_hndl_t s;
	mrapi_status_t st;
	mrapi_info_t info;
	mrapi_key_t key;
	size_t size;

	twc_check(pthread_cancel(pthread_self()) == 0);
	/* By these calls alone: those of mrapit.h write files. */
	mrapi_initialize(MR_DOMAIN, 1, &parameters, &info, &st);
	m = mrapi_mutex_create(1, NULL, &st);
	mrapi_mutex_lock(m, &key, MR_LONG, &st);
	mrapi_mutex_unlock(m, &key, &st);
	s = mrapi_sem_create(2, NULL, 1, &st);
	mrapi_sem_lock(s, MR_LONG, &st);
	mrapi_sem_lock(s, MR_SHORT, &st);
	twc_check(st == MRAPI_TIMEOUT);
	mrapi_sem_unlock(s, &st);
	h = mrapi_rmem_create(3, span[0], MRAPI_RMEM_ATYPE_DEFAULT, NULL, SPAN / 64, &st);
	mrapi_rmem_attach(h, &st);
	mrapi_rmem_read_i(h, 0, span[1], 0, SPAN / 64, 1, 0, 0, &r, &st);
	mrapi_wait(&r, &size, MR_LONG, &st);
	twc_check(st == MRAPI_SUCCESS);
	twc_check(mrapi_resources_get(MRAPI_RSRC_CPU, &st) != NULL);
	mrapi_resource_register_callback(MRAPI_EVENT_RESOURCES_CHANGED, 1, never, &st);
	mrapi_finalize(&st);
	twc_check(st == MRAPI_SUCCESS);
	*(bool *)through = true;
	pthread_testcancel();
	return NULL;
}

/* No call is a cancellation point; a node can begin afterwards. */
Test(mrapi_races, cancelled_anywhere)
{
	bool through = false;
	pthread_t thread;
	void *result;

	twc_check(pthread_create(&thread, NULL, lives_cancelled, &through) == 0);
	twc_check(pthread_join(thread, &result) == 0);
	twc_check(through && result == PTHREAD_CANCELED);
	mr_up(1);
	mr_down();
}

/* --------------------------------------------------- a node ends amid locking */

struct contest {
	const struct mr_kind *kind;
	bool twice; /* a recursive mutex */
	mrapi_hndl_t h;
	_Atomic int stop;
};

/* Runs for whichever node of the process is the oldest. */
static void lock_for_the_first(void *arg)
{
	struct contest *c = arg;

	while (!atomic_load(&c->stop)) {
		c->kind->lock(c->h, 1);
		if (mr_st == MRAPI_SUCCESS)
			c->kind->unlock(c->h);
	}
}

static void lock_again(const struct contest *c)
{
	mrapi_key_t inner;

	mr_ok(mrapi_mutex_lock(c->h, &inner, MR_LONG, &mr_st));
	mr_ok(mrapi_mutex_unlock(c->h, &inner, &mr_st));
}

static void lock_always(void *arg)
{
	struct contest *c = arg;

	while (!atomic_load(&c->stop)) {
		mr_ok(c->kind->lock(c->h, MR_LONG));
		if (c->twice)
			lock_again(c);
		mr_ok(c->kind->unlock(c->h));
	}
}

static void make_contested(void *arg)
{
	struct contest *c = arg;

	c->h = c->twice ? mr_create_with(c->kind, 1, MRAPI_MUTEX_RECURSIVE, MRAPI_TRUE)
			: c->kind->create(1, NULL);
}

static void come(void *number)
{
	mr_up(*(mrapi_node_t *)number);
}

static void go(void *unused)
{
	(void)unused;
	mr_down();
}

/* What a node has of a lock is given back once, also while its threads lock it. */
static void end_nodes_amid(const struct mr_kind *kind, bool twice)
{
	mrapi_node_t numbers[2] = {50, 51};
	struct contest *c = mr_shared(sizeof(*c));
	struct mr_peer other, node[2];
	struct twc_thread t[2];

	c->kind = kind;
	c->twice = twice;
	mr_peer(&other, MR_PROCESS, 1);
	mr_do(&other, make_contested, c);
	for (int i = 0; i < 2; i++)
		mr_peer_raw(&node[i], MR_THREAD);
	mr_do(&node[1], come, &numbers[1]);
	mr_go(&other, lock_always, c);
	for (int i = 0; i < 2; i++)
		twc_start(&t[i], lock_for_the_first, c);
	/* The threads run for the node that is about to end. */
	for (int i = 0; i < 3000 && !mr_idle(&other); i++) {
		mr_do(&node[i % 2], come, &numbers[i % 2]);
		mr_do(&node[!(i % 2)], go, NULL);
	}
	atomic_store(&c->stop, 1);
	for (int i = 0; i < 2; i++)
		twc_join(&t[i]);
	/*
	 * Then the last node: two threads that have locked for it one after the other, and unlock
	 * in the same order, leave it a level, and the other process would wait for ever.
	 */
	mr_do(&node[1], go, NULL);
	mr_done(&other);
	for (int i = 0; i < 2; i++)
		mr_peer_end(&node[i]);
	mr_peer_end(&other);
}

Test(mrapi_races, node_ends_amid_mutex)
{
	end_nodes_amid(&mr_kind[MR_MUTEX], false);
}

Test(mrapi_races, node_ends_amid_recursive)
{
	end_nodes_amid(&mr_kind[MR_MUTEX], true);
}

Test(mrapi_races, node_ends_amid_sem)
{
	end_nodes_amid(&mr_kind[MR_SEM], false);
}

Test(mrapi_races, node_ends_amid_rwl)
{
	end_nodes_amid(&mr_kind[MR_RWL], false);
}

Test(mrapi_races, node_ends_amid_readers)
{
	end_nodes_amid(&mr_reader, false);
}

/* --------------------------------------------------- the last node ends amid a call */

#define ENDS 60	  /* processes */
#define BEGINS 20 /* of a node, in each of some processes */

struct amid {
	void (*call)(mrapi_rmem_hndl_t h);
	mrapi_rmem_hndl_t h;
	_Atomic int calls, stop;
};

static void create_mutex(mrapi_rmem_hndl_t unused)
{
	(void)unused;
	mrapi_mutex_create(MRAPI_MUTEX_ID_ANY, NULL, &mr_st);
}

static void read_memory(mrapi_rmem_hndl_t h)
{
	char buf[8];

	mrapi_rmem_read(h, 0, buf, sizeof(buf), 0, sizeof(buf), 1, 8, 8, &mr_st);
}

static void attach_and_detach(mrapi_rmem_hndl_t h)
{
	mrapi_rmem_detach(h, &mr_st);
	mrapi_rmem_attach(h, &mr_st);
}

static void call_always(void *arg)
{
	struct amid *a = arg;

	for (; !atomic_load(&a->stop); atomic_fetch_add(&a->calls, 1))
		a->call(a->h);
}

static void end_amid_calls(void *amid)
{
	static char mem[8];
	struct amid *a = amid;
	struct twc_thread t[2];

	atomic_store(&a->calls, 0);
	atomic_store(&a->stop, 0);
	mr_up(MR_NODE);
	a->h = mr_val(mrapi_rmem_create(1, mem, MRAPI_RMEM_ATYPE_DEFAULT, NULL, 8, &mr_st));
	mr_ok(mrapi_rmem_attach(a->h, &mr_st));
	for (int i = 0; i < 2; i++)
		twc_start(&t[i], call_always, a);
	while (atomic_load(&a->calls) < 100)
		usleep(10);
	mr_down();
	atomic_store(&a->stop, 1);
	for (int i = 0; i < 2; i++)
		twc_join(&t[i]);
}

/* A call finds its node once: later it may have none. */
static void end_last_node_amid(void (*call)(mrapi_rmem_hndl_t h))
{
	struct amid *a = mr_shared(sizeof(*a));
	struct mr_peer p;

	a->call = call;
	for (int i = 0; i < ENDS; i++) {
		mr_peer_raw(&p, MR_PROCESS);
		mr_do(&p, end_amid_calls, a);
		mr_peer_end(&p);
	}
}

/* The calls go on from one node, which is the last, to the next. */
static void begin_amid_calls(void *amid)
{
	struct amid *a = amid;
	struct twc_thread t[2];

	atomic_store(&a->stop, 0);
	for (int i = 0; i < 2; i++)
		twc_start(&t[i], call_always, a);
	for (int i = 0; i < BEGINS; i++) {
		mr_up(MR_NODE);
		atomic_store(&a->calls, 0);
		while (atomic_load(&a->calls) < 100)
			usleep(10);
		mr_down();
	}
	atomic_store(&a->stop, 1);
	for (int i = 0; i < 2; i++)
		twc_join(&t[i]);
}

static void lock_mutex(mrapi_rmem_hndl_t unused)
{
	mrapi_mutex_hndl_t m = mrapi_mutex_get(1, &mr_st);
	mrapi_key_t key;

	(void)unused;
	if (mr_st != MRAPI_SUCCESS)
		m = mrapi_mutex_create(1, NULL, &mr_st);
	mrapi_mutex_lock(m, &key, MRAPI_INFINITE, &mr_st);
	mrapi_mutex_unlock(m, &key, &mr_st);
}

static void begin_node_amid(void (*call)(mrapi_rmem_hndl_t h))
{
	struct amid *a = mr_shared(sizeof(*a));
	struct mr_peer p;

	a->call = call;
	for (int i = 0; i < ENDS / 4; i++) {
		mr_peer_raw(&p, MR_PROCESS);
		mr_do(&p, begin_amid_calls, a);
		mr_peer_end(&p);
	}
}

Test(mrapi_races, node_begins_amid_create)
{
	begin_node_amid(create_mutex);
}

Test(mrapi_races, node_begins_amid_lock)
{
	begin_node_amid(lock_mutex);
}

Test(mrapi_races, last_node_ends_amid_create)
{
	end_last_node_amid(create_mutex);
}

Test(mrapi_races, last_node_ends_amid_read)
{
	end_last_node_amid(read_memory);
}

Test(mrapi_races, last_node_ends_amid_attach)
{
	end_last_node_amid(attach_and_detach);
}

/* ----------------------------------------------------------- create or get */

enum { LARGE = 32 << 20, CREATES = 20 };

/* Both nodes create the same memory; the one that comes second gets it. */
static void create_or_get(void *handle)
{
	mrapi_shmem_hndl_t *h = handle;

	mr_st = -1;
	*h = mrapi_shmem_create(1, LARGE, NULL, 0, NULL, &mr_st);
	if (mr_st == MRAPI_EXISTS)
		*h = mr_val(mrapi_shmem_get(1, &mr_st));
	else
		mr_eq(mr_st, MRAPI_SUCCESS);
}

MR_BOTH(mrapi_races, memory_that_is_being_created)
{
	mrapi_shmem_hndl_t mine, *theirs = mr_shared(sizeof(*theirs));
	struct mr_peer p;

	mr_peer(&p, where, 1);
	mr_up(MR_NODE);
	for (int i = 0; i < CREATES; i++) {
		mr_go(&p, create_or_get, theirs);
		create_or_get(&mine);
		mr_done(&p);
		twc_eq(mine, *theirs);
		mr_ok(mrapi_shmem_delete(mine, &mr_st));
	}
	mr_down();
	mr_peer_end(&p);
}
