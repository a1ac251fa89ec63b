/* SPDX-License-Identifier: BSD-2-Clause */
/* 4.3: what holds for every lock held exclusively, between nodes. */
#include "mrapi/mrapit.h"

TestSuite(mrapi_lock, .init = twc_job, .timeout = MR_TIMEOUT);

MR_BOTH(mrapi_lock, exclusive)
{
	struct mr_peer p;

	mr_peer(&p, where, 1);
	mr_up(MR_NODE);
	for (int i = 0; i < MR_LOCKS; i++) {
		const struct mr_kind *k = &mr_kind[i];
		mrapi_hndl_t h = mr_val(k->create(1, NULL));

		mr_is(k->notlocked, k->unlock(h));
		mr_ok(k->lock(h, MRAPI_INFINITE));
		/* 3.12.17: 0 tries once. */
		mr_eq(mr_at_lock(&p, k, h, 0), MRAPI_TIMEOUT);
		mr_eq(mr_at_trylock(&p, k, h), MRAPI_INCOMPLETE);
		mr_eq(mr_at_unlock(&p, k, h), k->notlocked);
		mr_ok(k->unlock(h));
		mr_is(k->notlocked, k->unlock(h));
		mr_eq(mr_at_trylock(&p, k, h), MRAPI_SUCCESS);
		twc_check(!mr_val(k->trylock(h)));
		mr_is(MRAPI_TIMEOUT, k->lock(h, 0));
		mr_is(k->notlocked, k->unlock(h));
		mr_eq(mr_at_unlock(&p, k, h), MRAPI_SUCCESS);
	}
	mr_down();
	mr_peer_end(&p);
}

/* It blocks until the holder unlocks, in both directions. */
MR_BOTH(mrapi_lock, hand_over)
{
	struct mr_peer p, q;

	mr_peer(&p, where, 1);
	mr_peer(&q, where, 2);
	mr_up(MR_NODE);
	for (int i = 0; i < MR_LOCKS; i++) {
		const struct mr_kind *k = &mr_kind[i];
		mrapi_hndl_t h = mr_val(k->create(1, NULL));

		for (int round = 0; round < 3; round++) {
			mr_ok(k->lock(h, 0));
			mr_lock_begin(&p, k, h, round == 1 ? MR_LONG : MRAPI_INFINITE);
			mr_asleep(&p);
			mr_ok(k->unlock(h));
			mr_eq(mr_lock_end(&p), MRAPI_SUCCESS);
			mr_lock_begin(&q, k, h, MRAPI_INFINITE);
			mr_asleep(&q);
			mr_eq(mr_at_unlock(&p, k, h), MRAPI_SUCCESS);
			mr_eq(mr_lock_end(&q), MRAPI_SUCCESS);
			mr_eq(mr_at_unlock(&q, k, h), MRAPI_SUCCESS);
		}
		mr_ok(k->remove(h));
	}
	mr_down();
	mr_peer_end(&p);
	mr_peer_end(&q);
}

/* One unlock is one lock: of several sleepers exactly one gets it. */
MR_BOTH(mrapi_lock, queue)
{
	enum { N = 4 };
	struct mr_peer p[N];

	for (mrapi_node_t n = 0; n < N; n++)
		mr_peer(&p[n], where, n);
	mr_up(MR_NODE);
	for (int i = 0; i < MR_LOCKS; i++) {
		const struct mr_kind *k = &mr_kind[i];
		mrapi_hndl_t h = mr_val(k->create(1, NULL));
		int waiting = N, has[N] = {0};

		mr_ok(k->lock(h, 0));
		for (int n = 0; n < N; n++)
			mr_lock_begin(&p[n], k, h, MRAPI_INFINITE);
		for (int n = 0; n < N; n++)
			mr_asleep(&p[n]);
		mr_ok(k->unlock(h));
		while (waiting--) {
			double end = twt_now() + TWC_LONG;
			int got = -1;

			/* Who got it answers; nobody else does. */
			for (; got < 0 && twt_now() < end; twc_sleep(1))
				for (int n = 0; n < N; n++)
					if (!has[n] && mr_idle(&p[n]))
						got = n;
			twc_check(got >= 0);
			has[got] = 1;
			mr_eq(mr_lock_end(&p[got]), MRAPI_SUCCESS);
			for (int n = 0; n < N; n++)
				twc_check(has[n] || !mr_idle(&p[n]));
			mr_is(MRAPI_TIMEOUT, k->lock(h, 0));
			mr_eq(mr_at_unlock(&p[got], k, h), MRAPI_SUCCESS);
		}
		mr_ok(k->remove(h));
	}
	mr_down();
	for (int n = 0; n < N; n++)
		mr_peer_end(&p[n]);
}

/* A timeout comes when it is due: never before, and it leaves nothing behind. */
MR_BOTH(mrapi_lock, timeout)
{
	struct mr_peer p;

	mr_peer(&p, where, 1);
	mr_up(MR_NODE);
	for (int i = 0; i < MR_LOCKS; i++) {
		const struct mr_kind *k = &mr_kind[i];
		mrapi_hndl_t h = mr_val(k->create(1, NULL));

		mr_eq(mr_at_lock(&p, k, h, 0), MRAPI_SUCCESS);
		for (mrapi_timeout_t ms = 1; ms < 300; ms *= 6) {
			double start = twt_now();

			mr_is(MRAPI_TIMEOUT, k->lock(h, ms));
			twc_check(twt_now() - start >= ms / 1000. - 0.0015);
		}
		mr_eq(mr_at_unlock(&p, k, h), MRAPI_SUCCESS);
		mr_ok(k->lock(h, 1));
		mr_ok(k->unlock(h));
		mr_ok(k->remove(h));
	}
	mr_down();
	mr_peer_end(&p);
}

/* Some give up while others wait on: no wake-up is lost with those. */
MR_BOTH(mrapi_lock, some_give_up)
{
	struct mr_peer hasty, patient;

	mr_peer(&hasty, where, 1);
	mr_peer(&patient, where, 2);
	mr_up(MR_NODE);
	for (int i = 0; i < MR_LOCKS; i++) {
		const struct mr_kind *k = &mr_kind[i];
		mrapi_hndl_t h = mr_val(k->create(1, NULL));

		for (int round = 0; round < 5; round++) {
			mr_ok(k->lock(h, 0));
			mr_lock_begin(&hasty, k, h, 30);
			mr_lock_begin(&patient, k, h, MRAPI_INFINITE);
			twc_sleep(25 + 3 * (unsigned)round);
			mr_ok(k->unlock(h));
			/* The hasty one may have been in time. */
			if (mr_lock_end(&hasty) == MRAPI_SUCCESS)
				mr_eq(mr_at_unlock(&hasty, k, h), MRAPI_SUCCESS);
			mr_eq(mr_lock_end(&patient), MRAPI_SUCCESS);
			mr_eq(mr_at_unlock(&patient, k, h), MRAPI_SUCCESS);
		}
		mr_ok(k->remove(h));
	}
	mr_down();
	mr_peer_end(&hasty);
	mr_peer_end(&patient);
}

/* The lock of a node that is killed, or finalizes, or whose thread ends, is free. */
Test(mrapi_lock, holder_is_killed)
{
	struct mr_peer p[MR_LOCKS], q;

	mr_peer(&q, MR_PROCESS, MR_LOCKS);
	for (mrapi_node_t i = 0; i < MR_LOCKS; i++)
		mr_peer(&p[i], MR_PROCESS, i);
	mr_up(MR_NODE);
	for (int i = 0; i < MR_LOCKS; i++) {
		const struct mr_kind *k = &mr_kind[i];
		mrapi_hndl_t h = mr_val(k->create(1, NULL));

		mr_eq(mr_at_lock(&p[i], k, h, 0), MRAPI_SUCCESS);
		mr_lock_begin(&q, k, h, MRAPI_INFINITE);
		mr_asleep(&q);
		mr_peer_kill(&p[i]);
		mr_eq(mr_lock_end(&q), MRAPI_SUCCESS);
		mr_is(MRAPI_TIMEOUT, k->lock(h, 0));
		mr_eq(mr_at_unlock(&q, k, h), MRAPI_SUCCESS);
		mr_ok(k->remove(h));
	}
	mr_down();
	mr_peer_end(&q);
}

MR_BOTH(mrapi_lock, holder_finalizes)
{
	struct mr_peer p[MR_LOCKS];

	for (mrapi_node_t i = 0; i < MR_LOCKS; i++)
		mr_peer(&p[i], where, i);
	mr_up(MR_NODE);
	for (int i = 0; i < MR_LOCKS; i++) {
		const struct mr_kind *k = &mr_kind[i];
		mrapi_hndl_t h = mr_val(k->create(1, NULL));

		mr_eq(mr_at_lock(&p[i], k, h, 0), MRAPI_SUCCESS);
		mr_peer_end(&p[i]);
		mr_ok(k->lock(h, MR_LONG));
		mr_ok(k->unlock(h));
		mr_ok(k->remove(h));
	}
	mr_down();
}

static void lock_and_end(void *arg)
{
	const struct mr_kind *k = arg;

	mr_up(2);
	mr_ok(k->lock(mr_val(k->get(1)), 0));
}

Test(mrapi_lock, holder_thread_ends)
{
	mr_up(MR_NODE);
	for (int i = 0; i < MR_LOCKS; i++) {
		struct twc_thread t;
		mrapi_hndl_t h = mr_val(mr_kind[i].create(1, NULL));

		twc_start(&t, lock_and_end, (void *)(uintptr_t)&mr_kind[i]);
		twc_join(&t);
		mr_ok(mr_kind[i].lock(h, MR_LONG));
		mr_ok(mr_kind[i].unlock(h));
		mr_ok(mr_kind[i].remove(h));
	}
	mr_down();
}

/* Mutual exclusion under many nodes: no count is lost. */
struct counting {
	int kind;
	mrapi_hndl_t h;
	volatile unsigned long count;
};

static void count(void *arg)
{
	struct counting *c = arg;
	const struct mr_kind *k = &mr_kind[c->kind];

	for (int i = 0; i < 500; i++) {
		if (i % 4 || !mr_val(k->trylock(c->h)))
			mr_ok(k->lock(c->h, i % 8 ? MRAPI_INFINITE : MR_LONG));
		c->count++;
		mr_ok(k->unlock(c->h));
	}
}

MR_BOTH(mrapi_lock, counting)
{
	struct counting *c = mr_shared(sizeof(*c));
	struct mr_peer p[6];

	for (mrapi_node_t n = 0; n < 6; n++)
		mr_peer(&p[n], where, n);
	mr_up(MR_NODE);
	for (int i = 0; i < MR_LOCKS; i++) {
		c->kind = i;
		c->h = mr_val(mr_kind[i].create(1, NULL));
		c->count = 0;
		for (int n = 0; n < 6; n++)
			mr_go(&p[n], count, c);
		for (int n = 0; n < 6; n++)
			mr_done(&p[n]);
		twc_eq(c->count, 6 * 500);
		mr_ok(mr_kind[i].remove(c->h));
	}
	mr_down();
	for (int n = 0; n < 6; n++)
		mr_peer_end(&p[n]);
}

/* Deleted under those who come: they get INVALID or DELETED, or the lock. */
MR_BOTH(mrapi_lock, deleted_meanwhile)
{
	struct mr_peer p;

	mr_peer(&p, where, 1);
	mr_up(MR_NODE);
	for (int i = 0; i < MR_LOCKS; i++)
		for (int round = 0; round < 40; round++) {
			const struct mr_kind *k = &mr_kind[i];
			mrapi_boolean_t ext = round % 2;
			mrapi_hndl_t h = mr_create_with(k, 1, MRAPI_ERROR_EXT, ext);
			mrapi_status_t other;

			mr_ok(k->lock(h, 0));
			mr_lock_begin(&p, k, h, MR_LONG);
			mr_ok(k->unlock(h));
			mr_st = -1;
			k->remove(h);
			if (mr_st == MRAPI_SUCCESS) {
				other = mr_lock_end(&p);
				mr_eq(other, ext ? k->deleted : k->invalid);
				continue;
			}
			mr_eq(mr_st, k->locked);
			mr_eq(mr_lock_end(&p), MRAPI_SUCCESS);
			mr_eq(mr_at_unlock(&p, k, h), MRAPI_SUCCESS);
			mr_ok(k->remove(h));
		}
	mr_down();
	mr_peer_end(&p);
}
