/* SPDX-License-Identifier: BSD-2-Clause */
/* 4.3.3 Reader/writer locks: sharing and fairness; test_lock.c has the rest. */
#include "mrapi/mrapit.h"

TestSuite(mrapi_rwl, .init = twc_job, .timeout = MR_TIMEOUT);

#define WRITER (&mr_kind[MR_RWL])
#define READER (&mr_reader)

Test(mrapi_rwl, modes)
{
	mrapi_rwl_hndl_t l;

	mr_up(MR_NODE);
	l = mr_val(mrapi_rwl_create(1, NULL, 4, &mr_st));
	for (unsigned mode = 0; mode < 9; mode += mode == 0 ? 3 : 1) {
		mr_is(MRAPI_ERR_PARAMETER, mrapi_rwl_lock(l, (mrapi_rwl_mode_t)mode, 0, &mr_st));
		twc_check(!mr_get(MRAPI_ERR_PARAMETER,
				  mrapi_rwl_trylock(l, (mrapi_rwl_mode_t)mode, &mr_st)));
	}
	mr_is(MRAPI_ERR_RWL_NOTLOCKED, mrapi_rwl_unlock(l, &mr_st));
	twc_eq(MRAPI_RWL_READER, MRAPI_READER);
	twc_eq(MRAPI_RWL_WRITER, MRAPI_WRITER);
	mr_down();
}

/* A node has one lock at a time. */
Test(mrapi_rwl, locked_by_the_caller)
{
	static const mrapi_rwl_mode_t mode[] = {MRAPI_READER, MRAPI_WRITER};
	mrapi_rwl_hndl_t l;

	mr_up(MR_NODE);
	l = mr_val(mrapi_rwl_create(1, NULL, 4, &mr_st));
	for (int i = 0; i < 4; i++) {
		mrapi_rwl_mode_t has = mode[i / 2], wants = mode[i % 2];

		mr_ok(mrapi_rwl_lock(l, has, 0, &mr_st));
		mr_is(MRAPI_ERR_RWL_LOCKED, mrapi_rwl_lock(l, wants, MRAPI_INFINITE, &mr_st));
		mr_is(MRAPI_ERR_RWL_LOCKED, mrapi_rwl_lock(l, wants, 0, &mr_st));
		twc_check(!mr_get(MRAPI_ERR_RWL_LOCKED, mrapi_rwl_trylock(l, wants, &mr_st)));
		mr_is(MRAPI_ERR_RWL_LOCKED, mrapi_rwl_delete(l, &mr_st));
		mr_ok(mrapi_rwl_unlock(l, &mr_st));
		mr_is(MRAPI_ERR_RWL_NOTLOCKED, mrapi_rwl_unlock(l, &mr_st));
	}
	mr_down();
}

/* Unlock with a mode (a variant in use): only the lock that the node holds. */
Test(mrapi_rwl, unlock_mode)
{
	mrapi_rwl_hndl_t l;

	mr_up(MR_NODE);
	l = mr_val(mrapi_rwl_create(1, NULL, 4, &mr_st));
	mr_is(MRAPI_ERR_RWL_NOTLOCKED, mrapi_rwl_unlock(l, MRAPI_READER, &mr_st));
	mr_ok(mrapi_rwl_lock(l, MRAPI_READER, 0, &mr_st));
	mr_is(MRAPI_ERR_RWL_NOTLOCKED, mrapi_rwl_unlock(l, MRAPI_WRITER, &mr_st));
	mr_ok(mrapi_rwl_unlock(l, MRAPI_READER, &mr_st));
	mr_ok(mrapi_rwl_lock(l, MRAPI_WRITER, 0, &mr_st));
	mr_is(MRAPI_ERR_RWL_NOTLOCKED, mrapi_rwl_unlock(l, MRAPI_READER, &mr_st));
	mr_ok(mrapi_rwl_unlock(l, MRAPI_WRITER, &mr_st));
	mr_down();
}

/* Readers share, up to the limit; a writer shares with nobody. */
MR_BOTH(mrapi_rwl, sharing)
{
	struct mr_peer p[3];
	mrapi_rwl_hndl_t l;

	for (mrapi_node_t i = 0; i < 3; i++)
		mr_peer(&p[i], where, i);
	mr_up(MR_NODE);
	l = mr_val(mrapi_rwl_create(1, NULL, 3, &mr_st));
	mr_eq(mr_at_lock(&p[0], READER, l, 0), MRAPI_SUCCESS);
	mr_eq(mr_at_trylock(&p[1], READER, l), MRAPI_SUCCESS);
	mr_ok(mrapi_rwl_lock(l, MRAPI_READER, MRAPI_INFINITE, &mr_st));
	mr_eq(mr_at_trylock(&p[2], WRITER, l), MRAPI_INCOMPLETE);
	mr_eq(mr_at_lock(&p[2], WRITER, l, MR_SHORT), MRAPI_TIMEOUT);
	/* The fourth reader. */
	mr_eq(mr_at_trylock(&p[2], READER, l), MRAPI_INCOMPLETE);
	mr_eq(mr_at_lock(&p[2], READER, l, MR_SHORT), MRAPI_TIMEOUT);
	mr_eq(mr_at_unlock(&p[2], READER, l), MRAPI_ERR_RWL_NOTLOCKED);
	mr_ok(mrapi_rwl_unlock(l, &mr_st));
	mr_eq(mr_at_lock(&p[2], READER, l, MR_LONG), MRAPI_SUCCESS);
	for (int i = 0; i < 3; i++)
		mr_eq(mr_at_unlock(&p[i], READER, l), MRAPI_SUCCESS);
	mr_ok(mrapi_rwl_lock(l, MRAPI_WRITER, 0, &mr_st));
	mr_eq(mr_at_trylock(&p[0], READER, l), MRAPI_INCOMPLETE);
	mr_eq(mr_at_trylock(&p[0], WRITER, l), MRAPI_INCOMPLETE);
	mr_eq(mr_at_lock(&p[0], READER, l, 0), MRAPI_TIMEOUT);
	mr_ok(mrapi_rwl_unlock(l, &mr_st));
	mr_down();
	for (int i = 0; i < 3; i++)
		mr_peer_end(&p[i]);
}

/* 3.4.3: while a writer waits, no new read lock is granted. */
MR_BOTH(mrapi_rwl, waiting_writer_stops_readers)
{
	struct mr_peer writer, reader, late;
	mrapi_rwl_hndl_t l;

	mr_peer(&writer, where, 1);
	mr_peer(&reader, where, 2);
	mr_peer(&late, where, 3);
	mr_up(MR_NODE);
	l = mr_val(mrapi_rwl_create(1, NULL, 8, &mr_st));
	mr_ok(mrapi_rwl_lock(l, MRAPI_READER, 0, &mr_st));
	mr_eq(mr_at_lock(&late, READER, l, 0), MRAPI_SUCCESS);
	mr_eq(mr_at_unlock(&late, READER, l), MRAPI_SUCCESS);
	mr_lock_begin(&writer, WRITER, l, MRAPI_INFINITE);
	mr_asleep(&writer);
	mr_eq(mr_at_trylock(&late, READER, l), MRAPI_INCOMPLETE);
	mr_eq(mr_at_lock(&late, READER, l, 0), MRAPI_TIMEOUT);
	mr_eq(mr_at_lock(&late, READER, l, MR_SHORT), MRAPI_TIMEOUT);
	mr_lock_begin(&reader, READER, l, MRAPI_INFINITE);
	mr_asleep(&reader);
	/* First the writer, then the reader. */
	mr_ok(mrapi_rwl_unlock(l, &mr_st));
	mr_eq(mr_lock_end(&writer), MRAPI_SUCCESS);
	mr_asleep(&reader);
	mr_eq(mr_at_unlock(&writer, WRITER, l), MRAPI_SUCCESS);
	mr_eq(mr_lock_end(&reader), MRAPI_SUCCESS);
	mr_eq(mr_at_unlock(&reader, READER, l), MRAPI_SUCCESS);
	mr_ok(mrapi_rwl_delete(l, &mr_st));
	mr_down();
	mr_peer_end(&writer);
	mr_peer_end(&reader);
	mr_peer_end(&late);
}

/* A writer that gave up, or was killed, stops nobody. */
MR_BOTH(mrapi_rwl, writer_gives_up)
{
	struct mr_peer writer, reader;
	mrapi_rwl_hndl_t l;

	mr_peer(&writer, where, 1);
	mr_peer(&reader, where, 2);
	mr_up(MR_NODE);
	l = mr_val(mrapi_rwl_create(1, NULL, 8, &mr_st));
	mr_ok(mrapi_rwl_lock(l, MRAPI_READER, 0, &mr_st));
	mr_eq(mr_at_trylock(&writer, WRITER, l), MRAPI_INCOMPLETE);
	mr_eq(mr_at_trylock(&reader, READER, l), MRAPI_SUCCESS);
	mr_eq(mr_at_unlock(&reader, READER, l), MRAPI_SUCCESS);
	/* The reader sleeps behind the writer, which goes away. */
	mr_lock_begin(&writer, WRITER, l, 1000);
	mr_asleep(&writer);
	mr_lock_begin(&reader, READER, l, MR_LONG);
	mr_eq(mr_lock_end(&writer), MRAPI_TIMEOUT);
	mr_eq(mr_lock_end(&reader), MRAPI_SUCCESS);
	mr_eq(mr_at_unlock(&reader, READER, l), MRAPI_SUCCESS);
	if (where == MR_PROCESS) {
		mr_lock_begin(&writer, WRITER, l, MRAPI_INFINITE);
		mr_asleep(&writer);
		mr_lock_begin(&reader, READER, l, MR_LONG);
		mr_asleep(&reader);
		mr_peer_kill(&writer);
		mr_eq(mr_lock_end(&reader), MRAPI_SUCCESS);
		mr_eq(mr_at_unlock(&reader, READER, l), MRAPI_SUCCESS);
	} else {
		mr_peer_end(&writer);
	}
	mr_down();
	mr_peer_end(&reader);
}

/* The reader limit that nobody reaches, and one that is out of bounds. */
Test(mrapi_rwl, reader_limit)
{
	mrapi_rwl_hndl_t l;

	mr_up(MR_NODE);
	l = mr_val(mrapi_rwl_create(1, NULL, MRAPI_MAX_SHARED_LOCKS, &mr_st));
	mr_ok(mrapi_rwl_lock(l, MRAPI_READER, 0, &mr_st));
	mr_ok(mrapi_rwl_unlock(l, &mr_st));
	mr_is(MRAPI_ERR_PARAMETER, mrapi_rwl_create(2, NULL, MRAPI_MAX_SHARED_LOCKS + 1, &mr_st));
	mr_is(MRAPI_ERR_PARAMETER, mrapi_rwl_create(2, NULL, ~0u, &mr_st));
	mr_is(MRAPI_ERR_RWL_ID_INVALID, mrapi_rwl_get(2, &mr_st));
	/* Without readers it is for writers alone. */
	l = mr_val(mrapi_rwl_create(3, NULL, 0, &mr_st));
	twc_check(!mr_val(mrapi_rwl_trylock(l, MRAPI_READER, &mr_st)));
	mr_is(MRAPI_TIMEOUT, mrapi_rwl_lock(l, MRAPI_READER, 0, &mr_st));
	mr_ok(mrapi_rwl_lock(l, MRAPI_WRITER, 0, &mr_st));
	mr_ok(mrapi_rwl_unlock(l, &mr_st));
	mr_down();
}

/* Readers see whole records only, and together at times. */
struct record {
	mrapi_rwl_hndl_t l;
	volatile unsigned a, b;
	atomic_int writers, readers;
};

static void use(void *arg)
{
	struct record *r = arg;
	mrapi_node_t me = mr_val(mrapi_node_id_get(&mr_st));

	for (unsigned i = 0; i < 300; i++) {
		int write = (i + me) % 4 == 0;

		mr_ok(mrapi_rwl_lock(r->l, write ? MRAPI_WRITER : MRAPI_READER, MR_LONG, &mr_st));
		if (write) {
			twc_eq(atomic_fetch_add(&r->writers, 1), 0);
			twc_eq(r->readers, 0);
			r->a++;
			if (i % 32 == 0)
				twc_sleep(1);
			r->b++;
			atomic_fetch_sub(&r->writers, 1);
		} else {
			twc_check(atomic_fetch_add(&r->readers, 1) < 4);
			twc_eq(r->writers, 0);
			twc_eq(r->a, r->b);
			atomic_fetch_sub(&r->readers, 1);
		}
		mr_ok(mrapi_rwl_unlock(r->l, &mr_st));
	}
}

MR_BOTH(mrapi_rwl, crowd)
{
	struct record *r = mr_shared(sizeof(*r));
	struct mr_peer p[6];

	for (mrapi_node_t i = 0; i < 6; i++)
		mr_peer(&p[i], where, i);
	mr_up(MR_NODE);
	r->l = mr_val(mrapi_rwl_create(1, NULL, 4, &mr_st));
	for (int i = 0; i < 6; i++)
		mr_go(&p[i], use, r);
	for (int i = 0; i < 6; i++)
		mr_done(&p[i]);
	twc_eq(r->a, 6 * 300 / 4);
	twc_eq(r->b, r->a);
	mr_ok(mrapi_rwl_delete(r->l, &mr_st));
	for (int i = 0; i < 6; i++)
		mr_peer_end(&p[i]);
	mr_down();
}

struct reading {
	mrapi_rwl_hndl_t l;
	mrapi_status_t got;
};

static void read_once(void *arg)
{
	struct reading *r = arg;

	mrapi_rwl_lock(r->l, MRAPI_READER, MR_LONG, &mr_st);
	r->got = mr_st;
}

/* One has it, and the other is told so. */
static void one_of_two(const struct reading *r)
{
	twc_check(r[0].got == MRAPI_SUCCESS || r[1].got == MRAPI_SUCCESS);
	mr_eq(r[r[0].got == MRAPI_SUCCESS].got, MRAPI_ERR_RWL_LOCKED);
	mr_ok(mrapi_rwl_unlock(r->l, &mr_st));
	mr_is(MRAPI_ERR_RWL_NOTLOCKED, mrapi_rwl_unlock(r->l, &mr_st));
}

/* Two threads of the node wait for it. */
Test(mrapi_rwl, threads_wait_to_read)
{
	struct twc_thread t[2];
	struct reading r[2];
	struct mr_peer p;

	mr_peer(&p, MR_PROCESS, 1);
	mr_up(MR_NODE);
	r[0].l = r[1].l = mr_val(mrapi_rwl_create(1, NULL, 4, &mr_st));
	mr_eq(mr_at_lock(&p, WRITER, r[0].l, 0), MRAPI_SUCCESS);
	for (int i = 0; i < 2; i++)
		twc_start(&t[i], read_once, &r[i]);
	for (int i = 0; i < 2; i++)
		twc_asleep(&t[i]);
	mr_eq(mr_at_unlock(&p, WRITER, r[0].l), MRAPI_SUCCESS);
	for (int i = 0; i < 2; i++)
		twc_join(&t[i]);
	one_of_two(r);
	mr_down();
	mr_peer_end(&p);
}

#define READS 300000

struct both {
	mrapi_rwl_hndl_t l;
	atomic_int inside;
};

static void read_always(void *arg)
{
	struct both *b = arg;

	for (int i = 0; i < READS; i++) {
		mrapi_rwl_lock(b->l, MRAPI_READER, 0, &mr_st);
		if (mr_st != MRAPI_SUCCESS) {
			mr_eq(mr_st, MRAPI_ERR_RWL_LOCKED);
			continue;
		}
		twc_eq(atomic_fetch_add(&b->inside, 1), 0);
		for (volatile int stay = 0; stay < 100; stay++)
			;
		atomic_fetch_sub(&b->inside, 1);
		mr_ok(mrapi_rwl_unlock(b->l, &mr_st));
	}
}

/* Two threads of the node lock it at once. */
Test(mrapi_rwl, threads_read_at_once)
{
	struct both b = {0};
	struct twc_thread t;

	mr_up(MR_NODE);
	b.l = mr_val(mrapi_rwl_create(1, NULL, MRAPI_MAX_SEM_SHAREDLOCKS, &mr_st));
	twc_start(&t, read_always, &b);
	read_always(&b);
	twc_join(&t);
	mr_down();
}
