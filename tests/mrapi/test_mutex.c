/* SPDX-License-Identifier: BSD-2-Clause */
/* 4.3.1 Mutexes: what is theirs alone; test_lock.c has what all locks do. */
#include <sched.h>

#include "mrapi/mrapit.h"

TestSuite(mrapi_mutex, .init = twc_job, .timeout = MR_TIMEOUT);

static mrapi_mutex_hndl_t recursive(mrapi_uint_t id)
{
	return mr_create_with(&mr_kind[MR_MUTEX], id, MRAPI_MUTEX_RECURSIVE, MRAPI_TRUE);
}

/* A mutex that is not recursive, locked by the caller already. */
Test(mrapi_mutex, locked_by_the_caller)
{
	mrapi_mutex_hndl_t m;
	mrapi_key_t key, other;

	mr_up(MR_NODE);
	m = mr_val(mrapi_mutex_create(1, NULL, &mr_st));
	mr_ok(mrapi_mutex_lock(m, &key, MRAPI_INFINITE, &mr_st));
	mr_is(MRAPI_ERR_MUTEX_LOCKED, mrapi_mutex_lock(m, &other, MRAPI_INFINITE, &mr_st));
	mr_is(MRAPI_ERR_MUTEX_LOCKED, mrapi_mutex_lock(m, &other, 0, &mr_st));
	twc_check(!mr_get(MRAPI_ERR_MUTEX_LOCKED, mrapi_mutex_trylock(m, &other, &mr_st)));
	mr_ok(mrapi_mutex_unlock(m, &key, &mr_st));
	mr_is(MRAPI_ERR_MUTEX_NOTLOCKED, mrapi_mutex_unlock(m, &key, &mr_st));
	mr_down();
}

/* Its keys are ignored. */
Test(mrapi_mutex, keys_of_plain_ones)
{
	mrapi_key_t key, nonsense = 0x123456789abcdefull;
	mrapi_mutex_hndl_t m;

	mr_up(MR_NODE);
	m = mr_val(mrapi_mutex_create(1, NULL, &mr_st));
	mr_ok(mrapi_mutex_lock(m, &key, 0, &mr_st));
	mr_ok(mrapi_mutex_unlock(m, &nonsense, &mr_st));
	twc_check(mr_val(mrapi_mutex_trylock(m, &key, &mr_st)));
	mr_ok(mrapi_mutex_unlock(m, &nonsense, &mr_st));
	mr_down();
}

Test(mrapi_mutex, null_key)
{
	mrapi_mutex_hndl_t m;
	mrapi_key_t key;

	mr_up(MR_NODE);
	m = recursive(1);
	mr_is(MRAPI_ERR_PARAMETER, mrapi_mutex_lock(m, NULL, 0, &mr_st));
	mr_is(MRAPI_ERR_PARAMETER, mrapi_mutex_lock(m, NULL, MRAPI_INFINITE, &mr_st));
	twc_check(!mr_get(MRAPI_ERR_PARAMETER, mrapi_mutex_trylock(m, NULL, &mr_st)));
	/* Nothing was locked. */
	mr_is(MRAPI_ERR_MUTEX_NOTLOCKED, mrapi_mutex_unlock(m, &key, &mr_st));
	mr_ok(mrapi_mutex_lock(m, &key, 0, &mr_st));
	mr_is(MRAPI_ERR_PARAMETER, mrapi_mutex_unlock(m, NULL, &mr_st));
	mr_ok(mrapi_mutex_unlock(m, &key, &mr_st));
	mr_down();
}

Test(mrapi_mutex, recursive)
{
	enum { DEEP = 100 };
	mrapi_key_t key[DEEP];
	mrapi_mutex_hndl_t m;

	mr_up(MR_NODE);
	m = recursive(1);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < DEEP; i++) {
			if (i % 2)
				mr_ok(mrapi_mutex_lock(m, &key[i], MRAPI_INFINITE, &mr_st));
			else
				twc_check(mr_val(mrapi_mutex_trylock(m, &key[i], &mr_st)));
			for (int n = 0; n < i; n++)
				twc_check(key[n] != key[i]);
		}
		mr_is(MRAPI_ERR_MUTEX_LOCKED, mrapi_mutex_delete(m, &mr_st));
		for (int i = DEEP; i-- > 0;)
			mr_ok(mrapi_mutex_unlock(m, &key[i], &mr_st));
		mr_is(MRAPI_ERR_MUTEX_NOTLOCKED, mrapi_mutex_unlock(m, &key[0], &mr_st));
	}
	mr_ok(mrapi_mutex_delete(m, &mr_st));
	mr_down();
}

/* 3.4.1: each lock has a key of its own, also one at a depth that was there before. */
Test(mrapi_mutex, key_of_each_lock)
{
	mrapi_key_t outer, inner, again, more;
	mrapi_mutex_hndl_t m;

	mr_up(MR_NODE);
	m = recursive(1);
	mr_ok(mrapi_mutex_lock(m, &outer, 0, &mr_st));
	mr_ok(mrapi_mutex_lock(m, &inner, 0, &mr_st));
	mr_ok(mrapi_mutex_unlock(m, &inner, &mr_st));
	mr_ok(mrapi_mutex_lock(m, &again, 0, &mr_st));
	twc_check(again != inner && again != outer);
	mr_ok(mrapi_mutex_lock(m, &more, 0, &mr_st));
	mr_is(MRAPI_ERR_MUTEX_LOCKORDER, mrapi_mutex_unlock(m, &again, &mr_st));
	mr_ok(mrapi_mutex_unlock(m, &more, &mr_st));
	/* It is unlocked already, and no licence for what was locked since. */
	mrapi_mutex_unlock(m, &inner, &mr_st);
	twc_check(mr_st == MRAPI_ERR_MUTEX_KEY || mr_st == MRAPI_ERR_MUTEX_LOCKORDER);
	mr_ok(mrapi_mutex_unlock(m, &again, &mr_st));
	mr_ok(mrapi_mutex_unlock(m, &outer, &mr_st));
	mr_down();
}

/* Keys in the wrong order, of nothing, of before, of another mutex. */
Test(mrapi_mutex, wrong_keys)
{
	mrapi_key_t key[3], old, other, nonsense = 0xfedcba9876543210ull, zero = 0;
	mrapi_mutex_hndl_t m, n;

	mr_up(MR_NODE);
	m = recursive(1);
	n = recursive(2);
	mr_ok(mrapi_mutex_lock(m, &old, 0, &mr_st));
	mr_ok(mrapi_mutex_unlock(m, &old, &mr_st));
	for (int i = 0; i < 5; i++) {
		/* So that the other's keys have not been this one's. */
		mr_ok(mrapi_mutex_lock(n, &other, 0, &mr_st));
		mr_ok(mrapi_mutex_unlock(n, &other, &mr_st));
	}
	mr_ok(mrapi_mutex_lock(n, &other, 0, &mr_st));
	for (int i = 0; i < 3; i++)
		mr_ok(mrapi_mutex_lock(m, &key[i], 0, &mr_st));
	mr_is(MRAPI_ERR_MUTEX_LOCKORDER, mrapi_mutex_unlock(m, &key[0], &mr_st));
	mr_is(MRAPI_ERR_MUTEX_LOCKORDER, mrapi_mutex_unlock(m, &key[1], &mr_st));
	mr_is(MRAPI_ERR_MUTEX_KEY, mrapi_mutex_unlock(m, &nonsense, &mr_st));
	mr_is(MRAPI_ERR_MUTEX_KEY, mrapi_mutex_unlock(m, &zero, &mr_st));
	mr_is(MRAPI_ERR_MUTEX_KEY, mrapi_mutex_unlock(m, &old, &mr_st));
	mr_is(MRAPI_ERR_MUTEX_KEY, mrapi_mutex_unlock(m, &other, &mr_st));
	mr_ok(mrapi_mutex_unlock(m, &key[2], &mr_st));
	/* Used up. */
	mr_is(MRAPI_ERR_MUTEX_KEY, mrapi_mutex_unlock(m, &key[2], &mr_st));
	mr_is(MRAPI_ERR_MUTEX_LOCKORDER, mrapi_mutex_unlock(m, &key[0], &mr_st));
	mr_ok(mrapi_mutex_unlock(m, &key[1], &mr_st));
	mr_ok(mrapi_mutex_unlock(m, &key[0], &mr_st));
	mr_is(MRAPI_ERR_MUTEX_NOTLOCKED, mrapi_mutex_unlock(m, &key[0], &mr_st));
	mr_ok(mrapi_mutex_unlock(n, &other, &mr_st));
	mr_down();
}

/* A recursive one is still exclusive, until the last unlock. */
MR_BOTH(mrapi_mutex, recursive_is_exclusive)
{
	const struct mr_kind *k = &mr_kind[MR_MUTEX];
	mrapi_mutex_hndl_t m;
	mrapi_key_t key[2];
	struct mr_peer p;

	mr_peer(&p, where, 1);
	mr_up(MR_NODE);
	m = recursive(1);
	mr_ok(mrapi_mutex_lock(m, &key[0], 0, &mr_st));
	mr_ok(mrapi_mutex_lock(m, &key[1], 0, &mr_st));
	mr_eq(mr_at_trylock(&p, k, m), MRAPI_INCOMPLETE);
	mr_eq(mr_at_unlock(&p, k, m), MRAPI_ERR_MUTEX_NOTLOCKED);
	mr_lock_begin(&p, k, m, MR_LONG);
	mr_asleep(&p);
	mr_ok(mrapi_mutex_unlock(m, &key[1], &mr_st));
	mr_asleep(&p);
	mr_ok(mrapi_mutex_unlock(m, &key[0], &mr_st));
	mr_eq(mr_lock_end(&p), MRAPI_SUCCESS);
	/* Its recursion begins anew. */
	mr_eq(mr_at_unlock(&p, k, m), MRAPI_SUCCESS);
	mr_ok(mrapi_mutex_lock(m, &key[0], 0, &mr_st));
	mr_ok(mrapi_mutex_unlock(m, &key[0], &mr_st));
	mr_down();
	mr_peer_end(&p);
}

/* Threads that act for one node share its levels: none is lost, and none too many. */
enum { THREADS = 4, TURNS = 30000, OTHERS = 1000 };

struct shared_levels {
	atomic_int held, other, ready;
};

static struct shared_levels *levels;

static void lock_and_lock(void *arg)
{
	mrapi_mutex_hndl_t m = mr_val(mrapi_mutex_get(1, &mr_st));
	mrapi_key_t key;

	(void)arg;
	atomic_fetch_add(&levels->ready, 1);
	while (atomic_load(&levels->ready) < THREADS)
		sched_yield();
	for (int i = 0; i < TURNS; i++) {
		mr_ok(mrapi_mutex_lock(m, &key, MRAPI_INFINITE, &mr_st));
		atomic_fetch_add(&levels->held, 1);
		twc_eq(atomic_load(&levels->other), 0);
		if (i % 4 == 0)
			sched_yield();
		atomic_fetch_sub(&levels->held, 1);
		/* Others may have locked on top of ours. */
		while (mrapi_mutex_unlock(m, &key, &mr_st), mr_st == MRAPI_ERR_MUTEX_LOCKORDER)
			sched_yield();
		mr_eq(mr_st, MRAPI_SUCCESS);
	}
}

static void threads_lock(void *arg)
{
	struct twc_thread t[THREADS];

	for (int i = 0; i < THREADS; i++)
		twc_start(&t[i], lock_and_lock, arg);
	for (int i = 0; i < THREADS; i++)
		twc_join(&t[i]);
}

static void lock_between(void *arg)
{
	mrapi_mutex_hndl_t m = mr_val(mrapi_mutex_get(1, &mr_st));
	mrapi_key_t key;

	levels = arg;
	for (int i = 0; i < OTHERS; i++) {
		mr_ok(mrapi_mutex_lock(m, &key, MRAPI_INFINITE, &mr_st));
		atomic_store(&levels->other, 1);
		twc_eq(atomic_load(&levels->held), 0);
		atomic_store(&levels->other, 0);
		mr_ok(mrapi_mutex_unlock(m, &key, &mr_st));
	}
}

Test(mrapi_mutex, levels_of_threads)
{
	mrapi_mutex_hndl_t m;
	struct mr_peer p;
	mrapi_key_t key;

	levels = mr_shared(sizeof(*levels));
	mr_peer(&p, MR_PROCESS, 1);
	mr_up(MR_NODE);
	m = recursive(1);
	mr_go(&p, lock_between, levels);
	threads_lock(NULL);
	mr_done(&p);
	mr_ok(mrapi_mutex_lock(m, &key, 0, &mr_st));
	mr_ok(mrapi_mutex_unlock(m, &key, &mr_st));
	mr_ok(mrapi_mutex_delete(m, &mr_st));
	mr_down();
	mr_peer_end(&p);
}

/* A key is no licence: another node cannot unlock with it. */
struct copy {
	mrapi_mutex_hndl_t m;
	mrapi_key_t key;
	mrapi_status_t status;
};

static void unlock_with(void *arg)
{
	struct copy *c = arg;

	mr_st = -1;
	mrapi_mutex_unlock(c->m, &c->key, &mr_st);
	c->status = mr_st;
}

MR_BOTH(mrapi_mutex, key_of_another)
{
	struct copy *c = mr_shared(sizeof(*c));
	struct mr_peer p;

	mr_peer(&p, where, 1);
	mr_up(MR_NODE);
	c->m = recursive(1);
	mr_ok(mrapi_mutex_lock(c->m, &c->key, 0, &mr_st));
	mr_do(&p, unlock_with, c);
	mr_eq(c->status, MRAPI_ERR_MUTEX_NOTLOCKED);
	mr_is(MRAPI_ERR_MUTEX_LOCKED, mrapi_mutex_delete(c->m, &mr_st));
	mr_ok(mrapi_mutex_unlock(c->m, &c->key, &mr_st));
	mr_down();
	mr_peer_end(&p);
}

struct handover {
	mrapi_mutex_hndl_t m;
	atomic_int held, let_go;
};

static void hold_until_told(void *arg)
{
	struct handover *h = arg;
	mrapi_key_t key;

	mr_ok(mrapi_mutex_lock(h->m, &key, MR_LONG, &mr_st));
	atomic_store(&h->held, 1);
	while (!atomic_load(&h->let_go))
		sched_yield();
	mr_ok(mrapi_mutex_unlock(h->m, &key, &mr_st));
}

struct waiting {
	mrapi_mutex_hndl_t m;
	mrapi_status_t got;
};

static void wait_for_mutex(void *arg)
{
	struct waiting *w = arg;
	mrapi_key_t key;

	mrapi_mutex_lock(w->m, &key, MR_LONG, &mr_st);
	w->got = mr_st;
	if (w->got == MRAPI_SUCCESS)
		mr_ok(mrapi_mutex_unlock(w->m, &key, &mr_st));
}

/* One thread waits, and another of its node is first: who waits is told as who comes later is. */
Test(mrapi_mutex, taken_by_the_node_meanwhile)
{
	struct handover *h = mr_shared(sizeof(*h));
	struct waiting w = {.got = MRAPI_SUCCESS};
	struct twc_thread t;
	struct mr_peer p;
	mrapi_key_t key;

	mr_peer(&p, MR_PROCESS, 1);
	mr_up(MR_NODE);
	w.m = h->m = mr_val(mrapi_mutex_create(1, NULL, &mr_st));
	while (w.got == MRAPI_SUCCESS) {
		atomic_store(&h->held, 0);
		atomic_store(&h->let_go, 0);
		mr_go(&p, hold_until_told, h);
		while (!atomic_load(&h->held))
			sched_yield();
		twc_start(&t, wait_for_mutex, &w);
		twc_asleep(&t);
		atomic_store(&h->let_go, 1);
		while (!mrapi_mutex_trylock(h->m, &key, &mr_st))
			;
		mr_done(&p);
		twc_join(&t);
		mr_ok(mrapi_mutex_unlock(h->m, &key, &mr_st));
	}
	mr_eq(w.got, MRAPI_ERR_MUTEX_LOCKED);
	mr_down();
	mr_peer_end(&p);
}
