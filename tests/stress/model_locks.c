/* SPDX-License-Identifier: BSD-2-Clause */
/* Locks at random: who holds them, what they guard, when they go. */
#include <stdlib.h>

#include "stress/model.h"

/* By their numbers: what kind of lock, so that all nodes agree. */
static int ext(unsigned id)
{
	return id % 2;
}

static unsigned limit_of(unsigned id)
{
	return 1 + id % 3;
}

static const struct {
	mrapi_status_t invalid, deleted, id_invalid;
} statuses[LOCKS] = {
	{MRAPI_ERR_MUTEX_INVALID, MRAPI_ERR_MUTEX_DELETED, MRAPI_ERR_MUTEX_ID_INVALID},
	{MRAPI_ERR_SEM_INVALID, MRAPI_ERR_SEM_DELETED, MRAPI_ERR_SEM_ID_INVALID},
	{MRAPI_ERR_RWL_INVALID, MRAPI_ERR_RWL_DELETED, MRAPI_ERR_RWL_ID_INVALID},
};

static struct record *record_of(int kind, mrapi_hndl_t h)
{
	for (unsigned i = (unsigned)st_hash(h, 1), tries = 0; tries < RECORDS; i++, tries++) {
		struct record *r = &shared->record[kind][i % RECORDS];
		unsigned free = 0;

		if (atomic_load(&r->handle) == h ||
		    atomic_compare_exchange_strong(&r->handle, &free, h) || free == h)
			return r;
	}
	st_fail("too many handles for one run");
}

static mrapi_hndl_t create(int kind, unsigned id)
{
	mrapi_boolean_t on = MRAPI_TRUE;
	mrapi_mutex_attributes_t m;
	mrapi_sem_attributes_t s;
	mrapi_rwl_attributes_t r;

	if (kind == MUTEX) {
		ok(mrapi_mutex_init_attributes(&m, &st));
		if (ext(id))
			ok(mrapi_mutex_set_attribute(&m, MRAPI_ERROR_EXT, &on, sizeof(on), &st));
		ok(mrapi_mutex_set_attribute(&m, MRAPI_MUTEX_RECURSIVE, &on, sizeof(on), &st));
		return mrapi_mutex_create(id, &m, &st);
	}
	if (kind == SEM) {
		ok(mrapi_sem_init_attributes(&s, &st));
		if (ext(id))
			ok(mrapi_sem_set_attribute(&s, MRAPI_ERROR_EXT, &on, sizeof(on), &st));
		return mrapi_sem_create(id, &s, limit_of(id), &st);
	}
	ok(mrapi_rwl_init_attributes(&r, &st));
	if (ext(id))
		ok(mrapi_rwl_set_attribute(&r, MRAPI_ERROR_EXT, &on, sizeof(on), &st));
	return mrapi_rwl_create(id, &r, limit_of(id), &st);
}

static mrapi_hndl_t get(int kind, unsigned id)
{
	return kind == MUTEX ? mrapi_mutex_get(id, &st)
	       : kind == SEM ? mrapi_sem_get(id, &st)
			     : mrapi_rwl_get(id, &st);
}

static void delete (int kind, mrapi_hndl_t h)
{
	if (kind == MUTEX)
		mrapi_mutex_delete(h, &st);
	else if (kind == SEM)
		mrapi_sem_delete(h, &st);
	else
		mrapi_rwl_delete(h, &st);
}

/* The lock was refused because it is gone: then somebody has deleted it. */
static void gone(struct node *n, int kind, unsigned id)
{
	struct known *k = &n->known[kind][id];

	said(ext(id) ? statuses[kind].deleted : statuses[kind].invalid);
	if (atomic_load(&shared->deletes[kind][id].begun) == k->deletes)
		st_fail("kind %d, id %u: %s, but nobody deleted it", kind, id, status_name(st));
	k->h = 0;
}

/* Finds or makes the lock with this id; 0: it went away meanwhile. */
static mrapi_hndl_t find_lock(struct node *n, int kind, unsigned id)
{
	struct known *k = &n->known[kind][id];

	if (k->h && pick(n, 8))
		return k->h;
	k->deletes = atomic_load(&shared->deletes[kind][id].ended);
	k->h = get(kind, id);
	if (st == MRAPI_SUCCESS)
		return k->h;
	if (st != statuses[kind].id_invalid)
		said(ext(id) ? statuses[kind].deleted : statuses[kind].id_invalid);
	k->h = create(kind, id);
	if (st != MRAPI_SUCCESS) {
		said(MRAPI_EXISTS);
		k->h = 0;
		return 0;
	}
	n->creates++;
	return k->h;
}

static mrapi_timeout_t some_timeout(struct node *n)
{
	static const mrapi_timeout_t t[] = {0, 1, 3, MRAPI_INFINITE};

	return t[pick(n, 4)];
}

/* One way to ask for a lock: whether it was got; st tells why not. */
static int ask(struct node *n, int kind, mrapi_hndl_t h, int write, mrapi_key_t *key)
{
	mrapi_rwl_mode_t mode = write ? MRAPI_WRITER : MRAPI_READER;
	int try = pick(n, 3) == 0;
	mrapi_timeout_t timeout = some_timeout(n);
	mrapi_boolean_t got = MRAPI_TRUE;

	if (kind == MUTEX && try)
		got = mrapi_mutex_trylock(h, key, &st);
	else if (kind == MUTEX)
		mrapi_mutex_lock(h, key, timeout, &st);
	else if (kind == SEM && try)
		got = mrapi_sem_trylock(h, &st);
	else if (kind == SEM)
		mrapi_sem_lock(h, timeout, &st);
	else if (try)
		got = mrapi_rwl_trylock(h, mode, &st);
	else
		mrapi_rwl_lock(h, mode, timeout, &st);
	if (try && st == MRAPI_SUCCESS && !got)
		st = MRAPI_TIMEOUT;
	if (st == MRAPI_TIMEOUT && !try && timeout == MRAPI_INFINITE)
		st_fail("a lock without limit of time was late");
	return st == MRAPI_SUCCESS;
}

static void linger(struct node *n)
{
	if (pick(n, 64) == 0)
		st_sleep(0.0005);
}

/* Alone in it: the plain data is ours. */
static void exclusive(struct node *n, struct record *r)
{
	st_eq(atomic_exchange(&r->writers, 1), 0);
	st_eq(atomic_load(&r->holders), 0);
	st_eq(r->a, r->b);
	r->a++;
	linger(n);
	r->b++;
	st_eq(atomic_exchange(&r->writers, 0), 1);
}

static void together(struct node *n, struct record *r, unsigned limit, int read)
{
	int now = atomic_fetch_add(&r->holders, 1) + 1;

	if (now > (int)limit)
		st_fail("%d hold what %u may hold", now, limit);
	st_eq(atomic_load(&r->writers), 0);
	if (read)
		st_eq(r->a, r->b);
	linger(n);
	atomic_fetch_sub(&r->holders, 1);
}

/* Again and again, and back in the right order only. */
static void recurse(struct node *n, mrapi_mutex_hndl_t h, mrapi_key_t first)
{
	mrapi_key_t key[3] = {first}, wrong = ~0ull;
	unsigned depth = 1 + pick(n, 3);

	for (unsigned i = 1; i < depth; i++)
		ok(mrapi_mutex_lock(h, &key[i], some_timeout(n), &st));
	must(MRAPI_ERR_MUTEX_LOCKED, mrapi_mutex_delete(h, &st));
	must(MRAPI_ERR_MUTEX_KEY, mrapi_mutex_unlock(h, &wrong, &st));
	if (depth > 1)
		must(MRAPI_ERR_MUTEX_LOCKORDER, mrapi_mutex_unlock(h, &key[0], &st));
	while (--depth)
		ok(mrapi_mutex_unlock(h, &key[depth], &st));
}

void use_lock(struct node *n)
{
	int kind = (int)pick(n, LOCKS), write = pick(n, 3) == 0;
	unsigned id = pick(n, IDS);
	mrapi_hndl_t h = find_lock(n, kind, id);
	mrapi_key_t key;
	struct record *r;

	if (!h)
		return;
	if (!ask(n, kind, h, write, &key)) {
		if (st != MRAPI_TIMEOUT)
			gone(n, kind, id);
		return;
	}
	n->locks++;
	r = record_of(kind, h);
	st_eq(atomic_load(&r->dead), 0);
	if (kind == MUTEX || (kind == RWL && write) || (kind == SEM && limit_of(id) == 1))
		exclusive(n, r);
	else
		together(n, r, limit_of(id), kind == RWL);
	if (kind == MUTEX) {
		recurse(n, h, key);
		ok(mrapi_mutex_unlock(h, &key, &st));
	} else if (kind == SEM) {
		ok(mrapi_sem_unlock(h, &st));
	} else {
		ok(mrapi_rwl_unlock(h, &st));
	}
}

void delete_lock(struct node *n)
{
	int kind = (int)pick(n, LOCKS);
	unsigned id = pick(n, IDS);
	mrapi_hndl_t h = n->known[kind][id].h;
	struct record *r;

	if (!h)
		return;
	atomic_fetch_add(&shared->deletes[kind][id].begun, 1);
	delete (kind, h);
	atomic_fetch_add(&shared->deletes[kind][id].ended, 1);
	if (st == MRAPI_ELOCKED)
		return;
	n->known[kind][id].h = 0;
	if (st != MRAPI_SUCCESS) {
		said(ext(id) ? statuses[kind].deleted : statuses[kind].invalid);
		return;
	}
	r = record_of(kind, h);
	st_eq(atomic_exchange(&r->dead, 1), 0);
	st_eq(atomic_load(&r->holders), 0);
	st_eq(atomic_load(&r->writers), 0);
}
