/* SPDX-License-Identifier: BSD-2-Clause */
/* Locks: what one node can see, then threads and processes. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "mrapi/basic/basic.h"

TestSuite(basic_locks, .init = basic_begin, .timeout = TWT_TIMEOUT);

/* Runs fn as node `arg` of its own. */
struct node {
	mrapi_node_t number;
	void (*fn)(void);
};

static void *run_node(void *arg)
{
	struct node *n = arg;

	basic_node(n->number);
	n->fn();
	basic_end();
	return NULL;
}

static void as_node(mrapi_node_t number, void (*fn)(void))
{
	struct node n = {number, fn};
	pthread_t t;

	CHECK(pthread_create(&t, NULL, run_node, &n) == 0);
	pthread_join(t, NULL);
}

static mrapi_hndl_t lock_under_test;

static void sees_mutex_taken(void)
{
	mrapi_key_t key;

	OK(CHECK(!mrapi_mutex_trylock(lock_under_test, &key, &st)));
	IS(mrapi_mutex_lock(lock_under_test, &key, 0, &st), MRAPI_TIMEOUT);
	IS(mrapi_mutex_lock(lock_under_test, &key, 20, &st), MRAPI_TIMEOUT);
	IS(mrapi_mutex_unlock(lock_under_test, &key, &st), MRAPI_ERR_MUTEX_NOTLOCKED);
	IS(mrapi_mutex_delete(lock_under_test, &st), MRAPI_ERR_MUTEX_LOCKED);
}

Test(basic_locks, mutex)
{
	mrapi_mutex_hndl_t m, same;
	mrapi_key_t key, other;

	OK(m = mrapi_mutex_create(3, NULL, &st));
	IS(mrapi_mutex_create(3, NULL, &st), MRAPI_ERR_MUTEX_EXISTS);
	IS(mrapi_mutex_create(MRAPI_MAX_USER_MUTEX_ID + 1, NULL, &st), MRAPI_ERR_MUTEX_ID_INVALID);
	OK(same = mrapi_mutex_get(3, &st));
	CHECK(same == m);
	IS(mrapi_mutex_get(4, &st), MRAPI_ERR_MUTEX_ID_INVALID);
	IS(mrapi_mutex_get(MRAPI_MUTEX_ID_ANY, &st), MRAPI_ERR_MUTEX_ID_INVALID);
	IS(mrapi_mutex_unlock(m, &key, &st), MRAPI_ERR_MUTEX_NOTLOCKED);
	IS(mrapi_mutex_lock(m, NULL, 0, &st), MRAPI_ERR_PARAMETER);
	OK(mrapi_mutex_lock(m, &key, MRAPI_INFINITE, &st));
	IS(mrapi_mutex_lock(m, &other, 0, &st), MRAPI_ERR_MUTEX_LOCKED);
	IS(mrapi_mutex_trylock(m, &other, &st), MRAPI_ERR_MUTEX_LOCKED);
	lock_under_test = m;
	as_node(2, sees_mutex_taken);
	OK(mrapi_mutex_unlock(m, &key, &st));
	OK(mrapi_mutex_delete(m, &st));
	IS(mrapi_mutex_delete(m, &st), MRAPI_ERR_MUTEX_INVALID);
	IS(mrapi_mutex_lock(m, &key, 0, &st), MRAPI_ERR_MUTEX_INVALID);
	IS(mrapi_mutex_lock(0, &key, 0, &st), MRAPI_ERR_MUTEX_INVALID);
	IS(mrapi_mutex_lock(~0u, &key, 0, &st), MRAPI_ERR_MUTEX_INVALID);
	IS(mrapi_mutex_get(3, &st), MRAPI_ERR_MUTEX_ID_INVALID);
	basic_end();
}

Test(basic_locks, recursion_and_deletion)
{
	mrapi_mutex_attributes_t a, never = {{0}};
	mrapi_boolean_t on = MRAPI_TRUE, got = MRAPI_FALSE;
	mrapi_key_t key[3], wrong = 1;
	mrapi_mutex_hndl_t m;

	OK(mrapi_mutex_init_attributes(&a, &st));
	OK(mrapi_mutex_set_attribute(&a, MRAPI_MUTEX_RECURSIVE, &on, sizeof(on), &st));
	OK(mrapi_mutex_set_attribute(&a, MRAPI_ERROR_EXT, &on, sizeof(on), &st));
	IS(mrapi_mutex_set_attribute(&a, MRAPI_ERROR_EXT, &on, 2, &st), MRAPI_ERR_ATTR_SIZE);
	IS(mrapi_mutex_set_attribute(&a, MRAPI_OBJECT_ID, &on, 4, &st), MRAPI_ERR_ATTR_READONLY);
	IS(mrapi_mutex_set_attribute(&a, 77, &on, 1, &st), MRAPI_ERR_ATTR_NUM);
	IS(mrapi_mutex_create(1, &never, &st), MRAPI_ERR_PARAMETER);
	OK(m = mrapi_mutex_create(1, &a, &st));
	OK(mrapi_mutex_get_attribute(m, MRAPI_MUTEX_RECURSIVE, &got, sizeof(got), &st));
	CHECK(got == MRAPI_TRUE);
	for (int i = 0; i < 3; i++)
		OK(mrapi_mutex_lock(m, &key[i], 0, &st));
	IS(mrapi_mutex_unlock(m, &key[0], &st), MRAPI_ERR_MUTEX_LOCKORDER);
	IS(mrapi_mutex_unlock(m, &wrong, &st), MRAPI_ERR_MUTEX_KEY);
	for (int i = 2; i >= 0; i--)
		OK(mrapi_mutex_unlock(m, &key[i], &st));
	IS(mrapi_mutex_unlock(m, &key[0], &st), MRAPI_ERR_MUTEX_NOTLOCKED);
	OK(mrapi_mutex_delete(m, &st));
	IS(mrapi_mutex_lock(m, &key[0], 0, &st), MRAPI_ERR_MUTEX_DELETED);
	IS(mrapi_mutex_get(1, &st), MRAPI_ERR_MUTEX_DELETED);
	OK(mrapi_mutex_create(1, NULL, &st));
	basic_end();
}

static void sees_sem_taken(void)
{
	OK(CHECK(!mrapi_sem_trylock(lock_under_test, &st)));
	IS(mrapi_sem_lock(lock_under_test, 20, &st), MRAPI_TIMEOUT);
	IS(mrapi_sem_unlock(lock_under_test, &st), MRAPI_ERR_SEM_NOTLOCKED);
}

Test(basic_locks, semaphore)
{
	mrapi_sem_hndl_t s;

	IS(mrapi_sem_create(1, NULL, MRAPI_MAX_SEM_SHAREDLOCKS + 1, &st), MRAPI_ERR_SEM_LOCKLIMIT);
	OK(s = mrapi_sem_create(MRAPI_SEM_ID_ANY, NULL, 3, &st));
	for (int i = 0; i < 3; i++)
		OK(mrapi_sem_lock(s, 0, &st));
	OK(CHECK(!mrapi_sem_trylock(s, &st)));
	IS(mrapi_sem_lock(s, 10, &st), MRAPI_TIMEOUT);
	IS(mrapi_sem_delete(s, &st), MRAPI_ERR_SEM_LOCKED);
	lock_under_test = s;
	as_node(2, sees_sem_taken);
	for (int i = 0; i < 3; i++)
		OK(mrapi_sem_unlock(s, &st));
	IS(mrapi_sem_unlock(s, &st), MRAPI_ERR_SEM_NOTLOCKED);
	OK(mrapi_sem_delete(s, &st));
	IS(mrapi_sem_lock(s, 0, &st), MRAPI_ERR_SEM_INVALID);
	IS(mrapi_sem_create(2, NULL, 0, &st), MRAPI_ERR_SEM_LOCKLIMIT);
	basic_end();
}

static void reads_beside(void)
{
	OK(CHECK(mrapi_rwl_trylock(lock_under_test, MRAPI_READER, &st)));
	IS(mrapi_rwl_lock(lock_under_test, MRAPI_READER, 0, &st), MRAPI_ERR_RWL_LOCKED);
	IS(mrapi_rwl_unlock(lock_under_test, MRAPI_WRITER, &st), MRAPI_ERR_RWL_NOTLOCKED);
	OK(mrapi_rwl_unlock(lock_under_test, &st));
	OK(CHECK(!mrapi_rwl_trylock(lock_under_test, MRAPI_WRITER, &st)));
	IS(mrapi_rwl_lock(lock_under_test, MRAPI_WRITER, 20, &st), MRAPI_TIMEOUT);
}

static void kept_out(void)
{
	OK(CHECK(!mrapi_rwl_trylock(lock_under_test, MRAPI_READER, &st)));
	IS(mrapi_rwl_lock(lock_under_test, MRAPI_READER, 20, &st), MRAPI_TIMEOUT);
	IS(mrapi_rwl_lock(lock_under_test, MRAPI_WRITER, 20, &st), MRAPI_TIMEOUT);
	IS(mrapi_rwl_unlock(lock_under_test, &st), MRAPI_ERR_RWL_NOTLOCKED);
}

static void reads_alone(void)
{
	OK(mrapi_rwl_lock(lock_under_test, MRAPI_READER, 0, &st));
	OK(mrapi_rwl_unlock(lock_under_test, MRAPI_READER, &st));
}

Test(basic_locks, reader_writer)
{
	mrapi_rwl_hndl_t r;

	OK(r = mrapi_rwl_create(0, NULL, 4, &st));
	lock_under_test = r;
	IS(mrapi_rwl_lock(r, 99, 0, &st), MRAPI_ERR_PARAMETER);
	OK(mrapi_rwl_lock(r, MRAPI_READER, 0, &st));
	as_node(2, reads_beside);
	IS(mrapi_rwl_delete(r, &st), MRAPI_ERR_RWL_LOCKED);
	OK(mrapi_rwl_unlock(r, &st));
	OK(mrapi_rwl_lock(r, MRAPI_WRITER, 0, &st));
	as_node(2, kept_out);
	IS(mrapi_rwl_delete(r, &st), MRAPI_ERR_RWL_LOCKED);
	OK(mrapi_rwl_unlock(r, &st));
	as_node(3, reads_alone);
	OK(mrapi_rwl_delete(r, &st));
	IS(mrapi_rwl_unlock(r, &st), MRAPI_ERR_RWL_INVALID);
	basic_end();
}

static volatile int writer_has_it;

static void writes(void)
{
	OK(mrapi_rwl_lock(lock_under_test, MRAPI_WRITER, 10000, &st));
	writer_has_it = 1;
	OK(mrapi_rwl_unlock(lock_under_test, &st));
}

static void kept_out_of_reading(void)
{
	double end = twt_now() + TWT_LONG;
	mrapi_status_t st;

	/* Until the writer has come. */
	while (mrapi_rwl_lock(lock_under_test, MRAPI_READER, 0, &st), st == MRAPI_SUCCESS) {
		OK(mrapi_rwl_unlock(lock_under_test, &st));
		CHECK(twt_now() < end);
		usleep(1000);
	}
	IS(mrapi_rwl_lock(lock_under_test, MRAPI_READER, 50, &st), MRAPI_TIMEOUT);
}

/* A reader comes while a writer waits: it must not get in before. */
Test(basic_locks, waiting_writer_first)
{
	struct node n = {2, writes};
	pthread_t t;

	OK(lock_under_test = mrapi_rwl_create(0, NULL, 4, &st));
	OK(mrapi_rwl_lock(lock_under_test, MRAPI_READER, 0, &st));
	CHECK(pthread_create(&t, NULL, run_node, &n) == 0);
	as_node(3, kept_out_of_reading);
	CHECK(!writer_has_it);
	OK(mrapi_rwl_unlock(lock_under_test, &st));
	pthread_join(t, NULL);
	CHECK(writer_has_it);
	basic_end();
}

static int holds(void *arg, int fd)
{
	mrapi_key_t key;
	mrapi_mutex_hndl_t m;
	mrapi_sem_hndl_t s;
	mrapi_rwl_hndl_t r;

	(void)arg;
	basic_node(2);
	OK(m = mrapi_mutex_get(1, &st));
	OK(s = mrapi_sem_get(1, &st));
	OK(r = mrapi_rwl_get(1, &st));
	OK(mrapi_mutex_lock(m, &key, 0, &st));
	OK(mrapi_sem_lock(s, 0, &st));
	OK(mrapi_rwl_lock(r, MRAPI_WRITER, 0, &st));
	CHECK(twt_put(fd, "h", 1) == 0);
	pause();
	return 0;
}

Test(basic_locks, the_dead_let_go)
{
	struct twt_child child;
	mrapi_mutex_hndl_t m;
	mrapi_sem_hndl_t s;
	mrapi_rwl_hndl_t r;
	mrapi_key_t key;
	char held;

	OK(m = mrapi_mutex_create(1, NULL, &st));
	OK(s = mrapi_sem_create(1, NULL, 1, &st));
	OK(r = mrapi_rwl_create(1, NULL, 2, &st));
	twt_spawn(&child, holds, NULL);
	CHECK(twt_get(child.fd, &held, 1) == 0);
	IS(mrapi_mutex_lock(m, &key, 5, &st), MRAPI_TIMEOUT);
	IS(mrapi_sem_lock(s, 5, &st), MRAPI_TIMEOUT);
	IS(mrapi_rwl_lock(r, MRAPI_READER, 5, &st), MRAPI_TIMEOUT);
	kill(child.pid, SIGKILL);
	OK(mrapi_mutex_lock(m, &key, 10000, &st));
	OK(mrapi_sem_lock(s, 10000, &st));
	OK(mrapi_rwl_lock(r, MRAPI_READER, 10000, &st));
	CHECK(twt_join(&child, TWT_LONG) == 1000 + SIGKILL);
	basic_end();
}

static void from_another_domain(void)
{
	IS(mrapi_mutex_get(1, &st), MRAPI_ERR_DOMAIN_NOTSHARED);
	OK(mrapi_mutex_get(2, &st));
}

static void *other_domain(void *arg)
{
	mrapi_info_t info;

	(void)arg;
	OK(mrapi_initialize(2, 1, NULL, &info, &st));
	from_another_domain();
	basic_end();
	return NULL;
}

Test(basic_locks, domains)
{
	mrapi_mutex_attributes_t a;
	mrapi_boolean_t off = MRAPI_FALSE;
	pthread_t t;

	OK(mrapi_mutex_init_attributes(&a, &st));
	OK(mrapi_mutex_set_attribute(&a, MRAPI_DOMAIN_SHARED, &off, sizeof(off), &st));
	OK(mrapi_mutex_create(1, &a, &st));
	OK(mrapi_mutex_create(2, NULL, &st));
	OK(mrapi_mutex_get(1, &st));
	CHECK(pthread_create(&t, NULL, other_domain, NULL) == 0);
	pthread_join(t, NULL);
	basic_end();
}

Test(basic_locks, limits)
{
	mrapi_mutex_hndl_t first = 0, m;

	for (unsigned i = 0; i < MRAPI_MAX_MUTEXES; i++) {
		OK(m = mrapi_mutex_create(MRAPI_MUTEX_ID_ANY, NULL, &st));
		if (!first)
			first = m;
	}
	IS(mrapi_mutex_create(1, NULL, &st), MRAPI_ERR_MUTEX_LIMIT);
	OK(mrapi_mutex_delete(first, &st));
	OK(m = mrapi_mutex_create(1, NULL, &st));
	IS(mrapi_mutex_delete(first, &st), MRAPI_ERR_MUTEX_INVALID);
	basic_end();
}

static _Atomic(pid_t) blocked_tid;

static void *blocked(void *arg)
{
	mrapi_key_t key;

	(void)arg;
	atomic_store(&blocked_tid, gettid());
	/* No node of its own: it acts for node 1. */
	IS(mrapi_mutex_lock(lock_under_test, &key, MRAPI_INFINITE, &st), MRAPI_ERR_NODE_NOTINIT);
	return NULL;
}

static void *holds_until(void *arg)
{
	mrapi_key_t key;
	char *state = arg;

	basic_node(2);
	OK(mrapi_mutex_lock(lock_under_test, &key, 0, &st));
	for (__atomic_store_n(state, 1, __ATOMIC_RELEASE);
	     __atomic_load_n(state, __ATOMIC_ACQUIRE) == 1; usleep(1000))
		;
	OK(mrapi_mutex_unlock(lock_under_test, &key, &st));
	basic_end();
	return NULL;
}

/* Who blocks for a node that is finalized returns. */
Test(basic_locks, finalized_under_a_waiter)
{
	pthread_t holder, waiter;
	static char state;

	OK(lock_under_test = mrapi_mutex_create(1, NULL, &st));
	CHECK(pthread_create(&holder, NULL, holds_until, &state) == 0);
	while (!__atomic_load_n(&state, __ATOMIC_ACQUIRE))
		usleep(1000);
	CHECK(pthread_create(&waiter, NULL, blocked, NULL) == 0);
	twt_await_asleep(&blocked_tid);
	basic_end();
	pthread_join(waiter, NULL);
	__atomic_store_n(&state, 2, __ATOMIC_RELEASE);
	pthread_join(holder, NULL);
}
