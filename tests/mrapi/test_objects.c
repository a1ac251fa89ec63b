/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What holds for all kinds of objects: create, get and delete by id (3.12.13),
 * limits, extended error checking (4.3), sharing across domains (3.8).
 */
#include <stdlib.h>

#include "mrapi/mrapit.h"

TestSuite(mrapi_objects, .init = twc_job, .timeout = MR_TIMEOUT);

/* Every call that takes a handle, with one that must be refused like this. */
static void refused(const struct mr_kind *k, mrapi_hndl_t h, mrapi_status_t want)
{
	mrapi_boolean_t b;

	mr_is(want, k->get_attribute(h, MRAPI_DOMAIN_SHARED, &b, sizeof(b)));
	mr_is(want, k->remove(h));
	if (!k->lock)
		return;
	mr_is(want, k->lock(h, 0));
	mr_is(want, k->lock(h, MRAPI_INFINITE));
	twc_check(!mr_get(want, k->trylock(h)));
	mr_is(want, k->unlock(h));
}

Test(mrapi_objects, create_get_delete)
{
	static const mrapi_uint_t ids[] = {0, 1, 0x12345678, 0xefffffff};

	mr_up(MR_NODE);
	for (int i = 0; i < MR_KINDS; i++) {
		const struct mr_kind *k = &mr_kind[i];

		for (size_t n = 0; n < sizeof(ids) / sizeof(*ids); n++) {
			mrapi_hndl_t h;
			mrapi_uint_t id = ~0u;

			mr_is(k->id_invalid, k->get(ids[n]));
			h = mr_val(k->create(ids[n], NULL));
			twc_eq(mr_val(k->get(ids[n])), h);
			mr_is(MRAPI_EXISTS, k->create(ids[n], NULL));
			mr_ok(k->get_attribute(h, MRAPI_OBJECT_ID, &id, sizeof(id)));
			twc_eq(id, ids[n]);
			mr_ok(k->remove(h));
			mr_is(k->id_invalid, k->get(ids[n]));
			refused(k, h, k->invalid);
			/* The same id again is another object. */
			twc_check(mr_val(k->create(ids[n], NULL)) != h);
			refused(k, h, k->invalid);
			mr_ok(k->remove(mr_val(k->get(ids[n]))));
		}
	}
	mr_down();
}

/* The kinds do not share their ids, nor take each other's handles. */
Test(mrapi_objects, kinds_are_apart)
{
	mrapi_hndl_t h[MR_KINDS];

	mr_up(MR_NODE);
	for (int i = 0; i < MR_KINDS; i++)
		h[i] = mr_val(mr_kind[i].create(3, NULL));
	for (int i = 0; i < MR_KINDS; i++)
		for (int other = 0; other < MR_KINDS; other++)
			if (other != i)
				refused(&mr_kind[i], h[other], mr_kind[i].invalid);
	for (int i = 0; i < MR_KINDS; i++)
		mr_ok(mr_kind[i].remove(h[i]));
	mr_down();
}

Test(mrapi_objects, bad_ids_and_handles)
{
	static const mrapi_hndl_t bad[] = {0, 1, 0x7fffffff, 0x80000000, 0xdeadbeef, 0xffffffff};

	mr_up(MR_NODE);
	for (int i = 0; i < MR_KINDS; i++) {
		const struct mr_kind *k = &mr_kind[i];

		mr_is(k->id_invalid, k->create(0xf0000000, NULL));
		mr_is(k->id_invalid, k->create(0xfffffffe, NULL));
		mr_is(k->id_invalid, k->get(0xfffffffe));
		mr_is(k->id_invalid, k->get(0xffffffff)); /* ID_ANY */
		for (size_t n = 0; n < sizeof(bad) / sizeof(*bad); n++)
			refused(k, bad[n], k->invalid);
	}
	mr_down();
}

/* Ids that the library chooses lie apart from those of users. */
MR_BOTH(mrapi_objects, id_any)
{
	struct mr_peer p;

	mr_peer(&p, where, 1);
	mr_up(MR_NODE);
	for (int i = 0; i < MR_KINDS; i++) {
		const struct mr_kind *k = &mr_kind[i];
		mrapi_hndl_t h[20], other;
		mrapi_uint_t id[20];

		for (int n = 0; n < 20; n++) {
			h[n] = mr_val(k->create(0xffffffff, NULL));
			mr_ok(k->get_attribute(h[n], MRAPI_OBJECT_ID, &id[n], sizeof(id[n])));
			twc_check(id[n] > 0xefffffff && id[n] < 0xffffffff);
			for (int m = 0; m < n; m++)
				twc_check(id[n] != id[m] && h[n] != h[m]);
			twc_eq(mr_val(k->get(id[n])), h[n]);
		}
		/* Another node finds it by the id. */
		mr_eq(mr_at_get(&p, k, id[7], &other), MRAPI_SUCCESS);
		twc_eq(other, h[7]);
		for (int n = 0; n < 20; n++)
			mr_ok(k->remove(h[n]));
	}
	mr_down();
	mr_peer_end(&p);
}

/* As many as the header promises and no more; each can be found. */
static void limit(int which)
{
	const struct mr_kind *k = &mr_kind[which];
	mrapi_hndl_t *h = calloc(k->most, sizeof(*h));

	mr_up(MR_NODE);
	twc_check(k->most >= 128);
	for (mrapi_uint_t i = 0; i < k->most; i++)
		h[i] = mr_val(k->create(i * 7, NULL));
	mr_is(k->limit, k->create(0xefffffff, NULL));
	mr_is(k->limit, k->create(0xffffffff, NULL));
	mr_is(k->id_invalid, k->get(0xefffffff));
	/* What exists is told before what is too many. */
	mr_is(MRAPI_EXISTS, k->create(0, NULL));
	for (mrapi_uint_t i = 0; i < k->most; i++)
		twc_eq(mr_val(k->get(i * 7)), h[i]);
	/* One that goes makes room for one. */
	mr_ok(k->remove(h[k->most / 2]));
	h[k->most / 2] = mr_val(k->create(0xefffffff, NULL));
	mr_is(k->limit, k->create(0xffffffff, NULL));
	for (mrapi_uint_t i = 0; i < k->most; i++)
		mr_ok(k->remove(h[i]));
	mr_ok(k->create(0, NULL));
	mr_down();
	free(h);
}

Test(mrapi_objects, limit_mutex)
{
	limit(MR_MUTEX);
}

Test(mrapi_objects, limit_sem)
{
	limit(MR_SEM);
}

Test(mrapi_objects, limit_rwl)
{
	limit(MR_RWL);
}

Test(mrapi_objects, limit_shmem)
{
	limit(MR_SHMEM);
}

Test(mrapi_objects, limit_rmem)
{
	limit(MR_RMEM);
}

/* The same few ids again and again: a handle never comes back to life. */
Test(mrapi_objects, reuse)
{
	mr_up(MR_NODE);
	for (int i = 0; i < MR_KINDS; i++) {
		const struct mr_kind *k = &mr_kind[i];
		int rounds = i == MR_SHMEM ? 300 : 3000;
		mrapi_hndl_t first = mr_val(k->create(1, NULL)), last = first;

		for (int n = 0; n < rounds; n++) {
			mr_ok(k->remove(last));
			mr_is(k->invalid, k->remove(last));
			last = mr_val(k->create(n % 2 ? 1 : 0xffffffff, NULL));
			twc_check(last != first);
			mr_is(k->invalid, k->remove(first));
		}
		mr_ok(k->remove(last));
	}
	mr_down();
}

/* ---- 4.3 MRAPI_ERROR_EXT: DELETED instead of INVALID */

MR_BOTH(mrapi_objects, error_ext)
{
	struct mr_peer p;

	mr_peer(&p, where, 1);
	mr_up(MR_NODE);
	for (int i = 0; i < MR_LOCKS; i++) {
		const struct mr_kind *k = &mr_kind[i];
		mrapi_hndl_t ext = mr_create_with(k, 1, MRAPI_ERROR_EXT, MRAPI_TRUE);
		mrapi_hndl_t plain = mr_create_with(k, 2, MRAPI_ERROR_EXT, MRAPI_FALSE);
		mrapi_hndl_t again;

		mr_ok(k->remove(ext));
		mr_ok(k->remove(plain));
		mr_is(k->deleted, k->get(1));
		mr_is(k->id_invalid, k->get(2));
		refused(k, ext, k->deleted);
		refused(k, plain, k->invalid);
		/* Other nodes, too. */
		mr_eq(mr_at_lock(&p, k, ext, MR_LONG), k->deleted);
		mr_eq(mr_at_trylock(&p, k, ext), k->deleted);
		mr_eq(mr_at_unlock(&p, k, ext), k->deleted);
		mr_eq(mr_at_remove(&p, k, ext), k->deleted);
		mr_eq(mr_at_get(&p, k, 1, NULL), k->deleted);
		mr_eq(mr_at_lock(&p, k, plain, MR_LONG), k->invalid);
		/* The id serves again; the old handle stays deleted. */
		again = mr_val(k->create(1, NULL));
		twc_eq(mr_val(k->get(1)), again);
		mr_is(k->deleted, k->lock(ext, 0));
		mr_ok(k->lock(again, 0));
		mr_ok(k->unlock(again));
		mr_ok(k->remove(again));
	}
	mr_down();
	mr_peer_end(&p);
}

/* However long ago that was. */
Test(mrapi_objects, error_ext_for_long)
{
	mr_up(MR_NODE);
	for (int i = 0; i < MR_LOCKS; i++) {
		const struct mr_kind *k = &mr_kind[i];
		mrapi_hndl_t ext = mr_create_with(k, 1, MRAPI_ERROR_EXT, MRAPI_TRUE);
		mrapi_hndl_t plain = mr_val(k->create(2, NULL));

		mr_ok(k->remove(ext));
		mr_ok(k->remove(plain));
		for (int n = 0; n < 3000; n++)
			mr_ok(k->remove(mr_create_with(k, 3, MRAPI_ERROR_EXT, n % 2)));
		refused(k, ext, k->deleted);
		refused(k, plain, k->invalid);
		/* By the id as well, whatever has the place now. */
		mr_is(k->deleted, k->get(1));
		mr_is(k->id_invalid, k->get(2));
		mr_is(k->deleted, k->get(3));
		/* Unless its last object had no such attribute. */
		mr_ok(k->remove(mr_val(k->create(1, NULL))));
		mr_is(k->id_invalid, k->get(1));
		mr_is(k->deleted, k->get(3));
	}
	mr_down();
}

/* A job may have as many of them as of any, and they may all be deleted. */
Test(mrapi_objects, error_ext_all)
{
	mr_up(MR_NODE);
	for (int i = 0; i < MR_LOCKS; i++) {
		const struct mr_kind *k = &mr_kind[i];
		mrapi_hndl_t *h = calloc(k->most, sizeof(*h));

		for (int round = 0; round < 2; round++) {
			for (mrapi_uint_t n = 0; n < k->most; n++)
				h[n] = mr_create_with(k, n, MRAPI_ERROR_EXT, MRAPI_TRUE);
			for (mrapi_uint_t n = 0; n < k->most; n++)
				mr_ok(k->remove(h[n]));
			for (mrapi_uint_t n = 0; n < k->most; n++) {
				mr_is(k->deleted, k->lock(h[n], 0));
				mr_is(k->deleted, k->get(n));
			}
			mr_is(k->id_invalid, k->get(k->most));
		}
		free(h);
	}
	mr_down();
}

/* ---- 3.8 MRAPI_DOMAIN_SHARED */

MR_BOTH(mrapi_objects, domain_shared)
{
	struct mr_peer near, far;
	mrapi_hndl_t h, own, shared;

	mr_peer_in(&near, where, MR_DOMAIN, 1);
	mr_peer_in(&far, where, MR_ELSEWHERE, 2);
	mr_up(MR_NODE);
	for (int i = 0; i < MR_KINDS; i++) {
		const struct mr_kind *k = &mr_kind[i];
		mrapi_boolean_t b = 7;

		own = mr_create_with(k, 1, MRAPI_DOMAIN_SHARED, MRAPI_FALSE);
		shared = mr_val(k->create(2, NULL));
		mr_ok(k->get_attribute(own, MRAPI_DOMAIN_SHARED, &b, sizeof(b)));
		twc_eq(b, MRAPI_FALSE);
		mr_ok(k->get_attribute(shared, MRAPI_DOMAIN_SHARED, &b, sizeof(b)));
		twc_eq(b, MRAPI_TRUE);
		mr_eq(mr_at_get(&near, k, 1, &h), MRAPI_SUCCESS);
		twc_eq(h, own);
		mr_eq(mr_at_get(&far, k, 2, &h), MRAPI_SUCCESS);
		twc_eq(h, shared);
		/* Shared memory too: 4.4.1.3 and the errors of 4.4.1.5, against its note. */
		mr_eq(mr_at_get(&far, k, 1, NULL), MRAPI_ERR_DOMAIN_NOTSHARED);
		mr_ok(k->remove(own));
		mr_ok(k->remove(shared));
	}
	mr_down();
	mr_peer_end(&near);
	mr_peer_end(&far);
}

/* ---- who may delete */

MR_BOTH(mrapi_objects, any_node_deletes)
{
	struct mr_peer p;

	mr_peer(&p, where, 1);
	mr_up(MR_NODE);
	for (int i = 0; i < MR_RMEM; i++) {
		mrapi_hndl_t h = mr_val(mr_kind[i].create(1, NULL));

		mr_eq(mr_at_remove(&p, &mr_kind[i], h), MRAPI_SUCCESS);
		mr_is(mr_kind[i].invalid, mr_kind[i].remove(h));
		mr_ok(mr_kind[i].create(1, NULL));
	}
	mr_down();
	mr_peer_end(&p);
}

/* Only unlocked ones can be deleted, whoever holds the lock. */
MR_BOTH(mrapi_objects, delete_locked)
{
	struct mr_peer p;

	mr_peer(&p, where, 1);
	mr_up(MR_NODE);
	for (int i = 0; i < MR_LOCKS; i++) {
		const struct mr_kind *k = &mr_kind[i];
		mrapi_hndl_t h = mr_val(k->create(1, NULL));

		mr_ok(k->lock(h, 0));
		mr_is(k->locked, k->remove(h));
		mr_eq(mr_at_remove(&p, k, h), k->locked);
		mr_ok(k->unlock(h));
		mr_eq(mr_at_lock(&p, k, h, 0), MRAPI_SUCCESS);
		mr_is(k->locked, k->remove(h));
		mr_eq(mr_at_remove(&p, k, h), k->locked);
		mr_eq(mr_at_unlock(&p, k, h), MRAPI_SUCCESS);
		mr_ok(k->remove(h));
	}
	mr_down();
	mr_peer_end(&p);
}

/* A reader's lock keeps it, too. */
Test(mrapi_objects, delete_read_locked)
{
	mrapi_hndl_t h;

	mr_up(MR_NODE);
	h = mr_val(mr_reader.create(1, NULL));
	mr_ok(mr_reader.lock(h, 0));
	mr_is(MRAPI_ERR_RWL_LOCKED, mr_reader.remove(h));
	mr_ok(mr_reader.unlock(h));
	mr_ok(mr_reader.remove(h));
	mr_down();
}

/* Objects of many nodes at once: each id is created by exactly one of them. */
struct race {
	atomic_uint created[MR_KINDS][64], existed[MR_KINDS][64];
};

static void create_all(void *arg)
{
	struct race *r = arg;

	for (int i = 0; i < MR_KINDS; i++)
		for (mrapi_uint_t id = 0; id < 64; id++) {
			mr_st = -1;
			mr_kind[i].create(id, NULL);
			twc_check(mr_st == MRAPI_SUCCESS || mr_st == MRAPI_EXISTS);
			if (mr_st == MRAPI_SUCCESS)
				atomic_fetch_add(&r->created[i][id], 1);
			else
				atomic_fetch_add(&r->existed[i][id], 1);
		}
}

MR_BOTH(mrapi_objects, create_race)
{
	struct race *r = mr_shared(sizeof(*r));
	struct mr_peer p[4];

	for (mrapi_node_t i = 0; i < 4; i++)
		mr_peer(&p[i], where, i);
	for (int i = 0; i < 4; i++)
		mr_go(&p[i], create_all, r);
	for (int i = 0; i < 4; i++)
		mr_done(&p[i]);
	for (int i = 0; i < MR_KINDS; i++)
		for (int id = 0; id < 64; id++) {
			twc_eq(r->created[i][id], 1);
			twc_eq(r->existed[i][id], 3);
		}
	for (int i = 0; i < 4; i++)
		mr_peer_end(&p[i]);
}
