/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/lock_calls.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/twr.h"
#include "lib/twt.h"
#include "mrapi/remote/remote.h"

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

static void *one_of_crowd(void *lock)
{
	const struct lock *l = lock;

	OK(mrapi_sem_lock(l->handle, MRAPI_INFINITE, &st));
	OK(mrapi_sem_unlock(l->handle, &st));
	return NULL;
}

/* So many threads of the node wait for it at once. */
static void crowd(struct lock *l, uint32_t n, mrapi_status_t *st)
{
	pthread_t thread[n];

	for (uint32_t i = 0; i < n; i++)
		HOLDS(pthread_create(&thread[i], NULL, one_of_crowd, l) == 0);
	for (uint32_t i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
	*st = MRAPI_SUCCESS;
}

static void *keep_endpoint(void *begun)
{
	HOLDS(tw_mrapi_net_enter() != NULL);
	HOLDS(sem_post(begun) == 0);
	while (pause() < 0)
		continue;
	return NULL;
}

/* From now on the process says nothing to other hosts. */
static void mute(mrapi_status_t *st)
{
	pthread_t thread;
	sem_t begun;

	HOLDS(sem_init(&begun, 0, 0) == 0);
	HOLDS(pthread_create(&thread, NULL, keep_endpoint, &begun) == 0);
	HOLDS(sem_wait(&begun) == 0);
	*st = MRAPI_SUCCESS;
}

int lock_calls_obey(void *arg, int fd)
{
	struct lock locks[3] = {{0}}; /* READER and WRITER are one */
	mrapi_info_t info;
	struct call c;

	twr_who = arg;
	if (!strcmp(arg, "third"))
		twt_go(getenv("NET_THIRD"));
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
		else if (c.what == CROWD)
			crowd(l, c.id, &a.st);
		else if (c.what == MUTE)
			mute(&a.st);
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
