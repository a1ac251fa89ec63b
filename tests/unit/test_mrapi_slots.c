/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A slot has another memory, or another process, by now: nothing is left of what was there before.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/twt.h"
#include "mrapi/mem/memory.h"
#include "unit/mrapi_kit.h"

#define BLOCK 4096u /* of cache.c */

/* Memory of zeros. */
static mrapi_status_t move(struct tw_mrapi_client *c, const struct tw_mrapi_move *m)
{
	if (m->remote + m->bytes > c->r->size)
		return MRAPI_ERR_RMEM_BUFF_OVERRUN;
	if (!m->write)
		memset(m->local, 0, m->bytes);
	return MRAPI_SUCCESS;
}

static const struct tw_mrapi_path path = {.name = "zeros", .move = move};

/* A byte of that block. */
static mrapi_status_t write_in(struct tw_mrapi_client *c, uint32_t i)
{
	char byte = 1;
	struct tw_mrapi_move m = {
		.write = true, .local = &byte, .remote = (uint64_t)i * BLOCK, .bytes = 1, .n = 1};

	return tw_mrapi_cache_access(c, 1, &m);
}

/* A node that has read the size goes on with the cache of the memory before. */
Test(mrapi_slots, cache_of_another_size, .timeout = TWT_TIMEOUT)
{
	struct tw_mrapi_rmem *r = calloc(1, sizeof(*r));
	struct tw_mrapi_client c = {.r = r, .path = &path};

	cr_assert_not_null(r);
	pthread_mutex_init(&c.mutex, NULL);
	r->size = 3 * BLOCK;
	cr_assert_eq(write_in(&c, 0), MRAPI_SUCCESS);
	r->size = 100 * BLOCK;
	for (uint32_t i = 3; i < 100; i++)
		cr_assert_eq(write_in(&c, i), MRAPI_ERR_RMEM_INVALID, "%u", i);
	cr_assert_eq(write_in(&c, 2), MRAPI_SUCCESS);
	r->size = BLOCK;
	cr_assert_eq(write_in(&c, 1), MRAPI_ERR_RMEM_INVALID);
	tw_mrapi_cache_prune(&c, true);
	r->size = 2 * BLOCK;
	cr_assert_eq(write_in(&c, 1), MRAPI_SUCCESS);
	tw_mrapi_cache_prune(&c, true);
	free(c.caches);
	free(r);
}

static char memory[64];

static mrapi_rmem_hndl_t begin(mrapi_rmem_id_t id)
{
	mrapi_status_t st;
	mrapi_rmem_hndl_t h;

	h = mrapi_rmem_create(id, memory, MRAPI_RMEM_DEFAULT, NULL, sizeof(memory), &st);
	cr_assert_eq(st, MRAPI_SUCCESS);
	mrapi_rmem_attach(h, &st);
	cr_assert_eq(st, MRAPI_SUCCESS);
	return h;
}

static void end(mrapi_rmem_hndl_t h)
{
	mrapi_status_t st;

	mrapi_rmem_detach(h, &st);
	cr_assert_eq(st, MRAPI_SUCCESS);
	mrapi_rmem_delete(h, &st);
	cr_assert_eq(st, MRAPI_SUCCESS);
}

/* The owner of the memory before has asked for it when this process had let go of it already. */
Test(mrapi_slots, revoked_late, .timeout = TWT_TIMEOUT)
{
	const uint32_t slots = MRAPI_MAX_RMEMS - 1;
	mrapi_rmem_hndl_t first, next;
	mrapi_status_t st;

	mrapi_kit_job("slots");
	mrapi_kit_up(7);
	first = begin(1);
	end(first);
	atomic_fetch_or(&tw_mrapi_client_at(first & slots)->users, TW_MRAPI_REVOKED);
	next = begin(2);
	for (mrapi_rmem_id_t id = 3; (next & slots) != (first & slots); id++) {
		cr_assert_leq(id, 2 * slots, "its slot is not taken again");
		end(next);
		next = begin(id);
	}
	mrapi_rmem_write(next, 0, "x", 0, 1, 1, 1, 1, &st);
	cr_assert_eq(st, MRAPI_SUCCESS, "%d", (int)st);
	cr_assert_eq(memory[0], 'x');
	end(next);
	mrapi_finalize(&st);
	cr_assert_eq(st, MRAPI_SUCCESS);
}

#define REQUESTED 1u /* in the lowest byte of the state, see move.c */
#define OWNER 9u     /* a slot without a process */

static const size_t page = 65536;
static _Atomic(uint32_t) *state;
static char *data;
static uint32_t seen;

/* Of this process's first buffer. */
static void map_state(void)
{
	uint64_t before = tw_mrapi.proc * TW_MRAPI_BOUNCE_SLOTS + 1ull;

	state = tw_mrapi_arena_map(tw_mrapi.seg->arena_size - before * TW_MRAPI_BOUNCE,
				   TW_MRAPI_BOUNCE, 0, false);
	cr_assert_not_null(state);
}

/* The request is being written. */
static void look(int sig)
{
	(void)sig;
	seen = atomic_load(state);
	mprotect(data, page, PROT_READ | PROT_WRITE);
}

/* A process has died after its request, which the owner has not read yet, and this one follows. */
Test(mrapi_slots, request_of_a_dead_process, .timeout = TWT_TIMEOUT)
{
	struct tw_mrapi_client c = {
		.r = calloc(1, sizeof(*c.r)), .proc = OWNER, .who = OWNER, .handle = 1};
	struct tw_mrapi_move m = {.write = true, .bytes = 8, .n = 1};
	struct sigaction sa = {.sa_handler = look};
	mrapi_status_t st;

	mrapi_kit_job("requests");
	mrapi_kit_up(7);
	m.local = data = mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(data, MAP_FAILED);
	map_state();
	atomic_store(state, OWNER << 8 | REQUESTED);
	sigaction(SIGSEGV, &sa, NULL);
	seen = REQUESTED;
	cr_assert_eq(tw_mrapi_path_served.move(&c, &m), MRAPI_ERR_RMEM_INVALID);
	cr_assert_neq(seen & 0xff, REQUESTED, "the owner may serve it half written");
	munmap((void *)(uintptr_t)state, TW_MRAPI_BOUNCE);
	free(c.r);
	mrapi_finalize(&st);
	cr_assert_eq(st, MRAPI_SUCCESS);
}

#define SERVED 2u
#define SLOT 1u /* of a process that has died, the first in it, and of its successor */

static int has_its_slot(void *unused, int fd)
{
	mrapi_status_t st;
	mrapi_info_t info;
	char byte;

	(void)unused;
	if (twt_get(fd, &byte, 1) < 0)
		return 1;
	mrapi_initialize(1, 8, NULL, &info, &st);
	twt_put(fd, &byte, 1);
	twt_get(fd, &byte, 1);
	mrapi_finalize(&st);
	return st != MRAPI_SUCCESS;
}

#define LATER (1u << 8) /* in its life: another process has the slot */

static atomic_bool begun;

/* The owner begins to serve the request, and dies; the slot has a successor. */
static void *serves(void *arg)
{
	uint32_t who = *(uint32_t *)arg;

	while (atomic_load(state) != (who << 8 | REQUESTED))
		sched_yield();
	atomic_store(state, who << 8 | SERVED);
	atomic_fetch_add(&tw_mrapi.seg->proc[SLOT].life, LATER);
	atomic_store(&begun, true);
	return NULL;
}

/* Amid which it has died: nobody replies, though the slot has a process. */
Test(mrapi_slots, served_by_a_dead_process, .timeout = TWT_TIMEOUT)
{
	struct tw_mrapi_client c = {.r = calloc(1, sizeof(*c.r)), .handle = 1};
	char data[8] = "", byte = 0;
	struct tw_mrapi_move m = {.write = true, .local = data, .bytes = sizeof(data), .n = 1};
	struct twt_child child;
	pthread_t thread;
	mrapi_status_t st;

	mrapi_kit_job("served");
	twt_spawn(&child, has_its_slot, NULL);
	mrapi_kit_up(7);
	cr_assert(twt_put(child.fd, &byte, 1) == 0 && twt_get(child.fd, &byte, 1) == 0);
	cr_assert_eq(tw_mrapi_state(&tw_mrapi.seg->proc[SLOT]), TW_MRAPI_LIVE);
	map_state();
	/* This process's predecessor has died, too. */
	atomic_store(state, SLOT << 8 | SERVED);
	tw_mrapi_path_to(&c, SLOT);
	cr_assert_eq(pthread_create(&thread, NULL, serves, &c.who), 0);
	/* One that is not begun is taken back, as there is no such memory. */
	do
		cr_assert_eq(tw_mrapi_path_served.move(&c, &m), MRAPI_ERR_RMEM_INVALID);
	while (!atomic_load(&begun));
	pthread_join(thread, NULL);
	atomic_fetch_sub(&tw_mrapi.seg->proc[SLOT].life, LATER);
	munmap((void *)(uintptr_t)state, TW_MRAPI_BOUNCE);
	free(c.r);
	mrapi_finalize(&st);
	cr_assert_eq(st, MRAPI_SUCCESS);
	close(child.fd);
	cr_assert_eq(twt_join(&child, TWT_LONG), 0);
}
