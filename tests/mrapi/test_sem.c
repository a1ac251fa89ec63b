/* SPDX-License-Identifier: BSD-2-Clause */
/* 4.3.2 Semaphores: counting; test_lock.c has what all locks do. */
#include "mrapi/mrapit.h"

TestSuite(mrapi_sem, .init = twc_job, .timeout = MR_TIMEOUT);

#define SEM (&mr_kind[MR_SEM])

Test(mrapi_sem, lock_limit)
{
	static const mrapi_uint_t good[] = {1, 2, 31, 32, MRAPI_MAX_SEM_SHAREDLOCKS};
	mrapi_sem_hndl_t s;

	mr_up(MR_NODE);
	twc_check(MRAPI_MAX_SEM_SHAREDLOCKS >= 32);
	twc_eq(MRAPI_MAX_SHARED_LOCKS, MRAPI_MAX_SEM_SHAREDLOCKS);
	mr_is(MRAPI_ERR_SEM_LOCKLIMIT,
	      mrapi_sem_create(1, NULL, MRAPI_MAX_SEM_SHAREDLOCKS + 1, &mr_st));
	mr_is(MRAPI_ERR_SEM_LOCKLIMIT, mrapi_sem_create(1, NULL, ~0u, &mr_st));
	mr_is(MRAPI_ERR_SEM_LOCKLIMIT, mrapi_sem_create(1, NULL, 0, &mr_st));
	mr_is(MRAPI_ERR_SEM_ID_INVALID, mrapi_sem_get(1, &mr_st));
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		s = mr_val(mrapi_sem_create(1, NULL, good[i], &mr_st));
		for (mrapi_uint_t n = 0; n < good[i]; n++)
			mr_ok(mrapi_sem_lock(s, MRAPI_INFINITE, &mr_st));
		mr_is(MRAPI_TIMEOUT, mrapi_sem_lock(s, 0, &mr_st));
		mr_is(MRAPI_TIMEOUT, mrapi_sem_lock(s, 1, &mr_st));
		twc_check(!mr_val(mrapi_sem_trylock(s, &mr_st)));
		mr_is(MRAPI_ERR_SEM_LOCKED, mrapi_sem_delete(s, &mr_st));
		for (mrapi_uint_t n = 0; n < good[i]; n++)
			mr_ok(mrapi_sem_unlock(s, &mr_st));
		mr_is(MRAPI_ERR_SEM_NOTLOCKED, mrapi_sem_unlock(s, &mr_st));
		mr_ok(mrapi_sem_delete(s, &mr_st));
	}
	mr_down();
}

/* Several nodes hold it together, some of them more than once. */
MR_BOTH(mrapi_sem, shared)
{
	struct mr_peer p, q;
	mrapi_sem_hndl_t s;

	mr_peer(&p, where, 1);
	mr_peer(&q, where, 2);
	mr_up(MR_NODE);
	s = mr_val(mrapi_sem_create(1, NULL, 3, &mr_st));
	mr_ok(mrapi_sem_lock(s, 0, &mr_st));
	mr_eq(mr_at_lock(&p, SEM, s, 0), MRAPI_SUCCESS);
	mr_eq(mr_at_trylock(&p, SEM, s), MRAPI_SUCCESS);
	mr_eq(mr_at_trylock(&q, SEM, s), MRAPI_INCOMPLETE);
	twc_check(!mr_val(mrapi_sem_trylock(s, &mr_st)));
	mr_eq(mr_at_lock(&q, SEM, s, MR_SHORT), MRAPI_TIMEOUT);
	mr_eq(mr_at_unlock(&q, SEM, s), MRAPI_ERR_SEM_NOTLOCKED);
	mr_lock_begin(&q, SEM, s, MRAPI_INFINITE);
	mr_asleep(&q);
	mr_eq(mr_at_unlock(&p, SEM, s), MRAPI_SUCCESS);
	mr_eq(mr_lock_end(&q), MRAPI_SUCCESS);
	mr_eq(mr_at_unlock(&p, SEM, s), MRAPI_SUCCESS);
	mr_eq(mr_at_unlock(&p, SEM, s), MRAPI_ERR_SEM_NOTLOCKED);
	mr_is(MRAPI_ERR_SEM_LOCKED, mrapi_sem_delete(s, &mr_st));
	mr_ok(mrapi_sem_unlock(s, &mr_st));
	mr_eq(mr_at_unlock(&q, SEM, s), MRAPI_SUCCESS);
	mr_ok(mrapi_sem_delete(s, &mr_st));
	mr_down();
	mr_peer_end(&p);
	mr_peer_end(&q);
}

/* Two unlocks wake two sleepers. */
MR_BOTH(mrapi_sem, two_sleepers)
{
	struct mr_peer p, q;
	mrapi_sem_hndl_t s;

	mr_peer(&p, where, 1);
	mr_peer(&q, where, 2);
	mr_up(MR_NODE);
	s = mr_val(mrapi_sem_create(1, NULL, 2, &mr_st));
	for (int round = 0; round < 5; round++) {
		mr_ok(mrapi_sem_lock(s, 0, &mr_st));
		mr_ok(mrapi_sem_lock(s, 0, &mr_st));
		mr_lock_begin(&p, SEM, s, MRAPI_INFINITE);
		mr_lock_begin(&q, SEM, s, MRAPI_INFINITE);
		mr_asleep(&p);
		mr_asleep(&q);
		mr_ok(mrapi_sem_unlock(s, &mr_st));
		mr_ok(mrapi_sem_unlock(s, &mr_st));
		mr_eq(mr_lock_end(&p), MRAPI_SUCCESS);
		mr_eq(mr_lock_end(&q), MRAPI_SUCCESS);
		mr_eq(mr_at_unlock(&p, SEM, s), MRAPI_SUCCESS);
		mr_eq(mr_at_unlock(&q, SEM, s), MRAPI_SUCCESS);
	}
	mr_down();
	mr_peer_end(&p);
	mr_peer_end(&q);
}

/* Never more inside than the limit allows. */
struct room {
	mrapi_sem_hndl_t s;
	atomic_int inside, most, visits;
};

static void visit(void *arg)
{
	struct room *r = arg;

	for (int i = 0; i < 300; i++) {
		int n, most;

		if (i % 3 || !mr_val(mrapi_sem_trylock(r->s, &mr_st)))
			mr_ok(mrapi_sem_lock(r->s, MR_LONG, &mr_st));
		n = atomic_fetch_add(&r->inside, 1) + 1;
		most = atomic_load(&r->most);
		while (n > most && !atomic_compare_exchange_weak(&r->most, &most, n))
			;
		if (i % 50 == 0)
			twc_sleep(1);
		atomic_fetch_sub(&r->inside, 1);
		atomic_fetch_add(&r->visits, 1);
		mr_ok(mrapi_sem_unlock(r->s, &mr_st));
	}
}

MR_BOTH(mrapi_sem, crowd)
{
	struct room *r = mr_shared(sizeof(*r));
	struct mr_peer p[6];

	for (mrapi_node_t i = 0; i < 6; i++)
		mr_peer(&p[i], where, i);
	mr_up(MR_NODE);
	r->s = mr_val(mrapi_sem_create(1, NULL, 3, &mr_st));
	for (int i = 0; i < 6; i++)
		mr_go(&p[i], visit, r);
	for (int i = 0; i < 6; i++)
		mr_done(&p[i]);
	twc_eq(r->inside, 0);
	twc_check(r->most <= 3);
	twc_eq(r->visits, 6 * 300);
	mr_ok(mrapi_sem_delete(r->s, &mr_st));
	for (int i = 0; i < 6; i++)
		mr_peer_end(&p[i]);
	mr_down();
}
