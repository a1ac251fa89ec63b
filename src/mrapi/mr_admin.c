/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The admin lock and the burial of dead members. The lock names its holder; when
 * that one is dead, whoever buries it takes the lock over and repairs the tables
 * before anybody else looks at them. Burials may be cut short by death and are
 * then done again by another.
 */
#include "mrapi/mr.h"

static bool try_lock(struct tw_mr_segment *seg, uint32_t keep)
{
	uint32_t word = atomic_load(&seg->admin);

	while (!(word & TW_MR_OWNER))
		if (atomic_compare_exchange_weak(&seg->admin, &word,
						 (tw_mr.proc + 1) | (word & TW_MR_WAITERS) | keep))
			return true;
	return false;
}

static void repair(struct tw_mr_segment *seg)
{
	for (int kind = TW_MR_MUTEX; kind < TW_MR_KINDS; kind++)
		tw_mr_table_repair(kind);
	atomic_store(&seg->torn, 0);
}

void tw_mr_admin_lock(void)
{
	struct tw_mr_segment *seg = tw_mr.seg;
	uint32_t keep = 0;

	for (int spins = 0; !try_lock(seg, keep); spins++) {
		uint32_t word = atomic_load(&seg->admin);

		if (spins < 50) {
			tw_cpu_relax();
			continue;
		}
		if (!(word & TW_MR_OWNER))
			continue;
		if (!(word & TW_MR_WAITERS) &&
		    !atomic_compare_exchange_strong(&seg->admin, &word, word | TW_MR_WAITERS))
			continue;
		keep = TW_MR_WAITERS; /* others may sleep, too */
		tw_futex_wait(&seg->admin, word | TW_MR_WAITERS, TW_FUTEX_FOREVER);
	}
	if (tw_unlikely(atomic_load(&seg->torn)))
		repair(seg);
}

void tw_mr_admin_unlock(void)
{
	struct tw_mr_segment *seg = tw_mr.seg;

	if (atomic_exchange(&seg->admin, 0) & TW_MR_WAITERS)
		tw_futex_wake(&seg->admin, 1);
}

/* Takes the lock from a holder that is dead; an ordinary lock if it has it not. */
static void lock_over(uint32_t proc)
{
	struct tw_mr_segment *seg = tw_mr.seg;
	uint32_t word = atomic_load(&seg->admin);

	while ((word & TW_MR_OWNER) == proc + 1) {
		atomic_store(&seg->torn, 1);
		if (atomic_compare_exchange_weak(&seg->admin, &word,
						 (tw_mr.proc + 1) | TW_MR_WAITERS)) {
			repair(seg);
			return;
		}
	}
	tw_mr_admin_lock();
}

static void release_memory(uint32_t me)
{
	struct tw_mr_segment *seg = tw_mr.seg;

	for (uint32_t i = 0; i < seg->table[TW_MR_SHMEM].high; i++)
		tw_mr_nodeset_del(&seg->shmem[i].attached, me - 1);
	for (uint32_t i = 0; i < seg->table[TW_MR_RMEM].high; i++) {
		struct tw_mr_rmem *r = &seg->rmem[i];

		tw_mr_nodeset_del(&r->attached, me - 1);
		if (atomic_load(&r->obj.handle) && r->owner == me)
			tw_mr_table_free(TW_MR_RMEM, &r->obj);
	}
}

void tw_mr_release_node(uint32_t me)
{
	struct tw_mr_segment *seg = tw_mr.seg;

	for (uint32_t i = 0; i < seg->table[TW_MR_MUTEX].high; i++)
		tw_mr_mutex_drop(&seg->mutex[i], me);
	for (uint32_t i = 0; i < seg->table[TW_MR_SEM].high; i++)
		tw_mr_counted_drop(&seg->sem[i], me);
	for (uint32_t i = 0; i < seg->table[TW_MR_RWL].high; i++)
		tw_mr_counted_drop(&seg->rwl[i], me);
	release_memory(me);
	for (uint32_t i = 0; i < seg->counts; i++)
		if (atomic_load(&seg->count[i].node) == me)
			atomic_store(&seg->count[i].node, 0);
	atomic_store(&tw_mr_node(me)->life, TW_MR_FREE);
}

/* A wake-up may have been given to one that died before it could use it. */
static void rouse_all(void)
{
	struct tw_mr_segment *seg = tw_mr.seg;

	for (uint32_t i = 0; i < seg->table[TW_MR_MUTEX].high; i++)
		tw_mr_mutex_rouse(&seg->mutex[i]);
	for (uint32_t i = 0; i < seg->table[TW_MR_SEM].high; i++)
		tw_mr_counted_rouse(&seg->sem[i]);
	for (uint32_t i = 0; i < seg->table[TW_MR_RWL].high; i++)
		tw_mr_counted_rouse(&seg->rwl[i]);
}

/* Marks the member dead; false when it ended in order, or long ago. */
static bool declare_dead(uint32_t proc, uint32_t incarnation)
{
	struct tw_mr_proc *p = &tw_mr.seg->proc[proc];
	uint64_t life = atomic_load(&p->life);

	do {
		if (life >> 8 != incarnation || (life & 0xff) == TW_MR_FREE)
			return false;
	} while (!atomic_compare_exchange_weak(&p->life, &life,
					       (uint64_t)incarnation << 8 | TW_MR_DEAD));
	return true;
}

void tw_mr_bury(uint32_t proc, uint32_t incarnation)
{
	struct tw_mr_segment *seg = tw_mr.seg;
	uint64_t dead = (uint64_t)incarnation << 8 | TW_MR_DEAD;
	unsigned nodes = 0;

	if (!declare_dead(proc, incarnation))
		return;
	lock_over(proc);
	if (atomic_load(&seg->proc[proc].life) == dead) {
		for (uint32_t i = 0; i < MRAPI_MAX_NODES; i++) {
			if (atomic_load(&seg->node[i].life) != TW_MR_LIVE ||
			    seg->node[i].proc != proc)
				continue;
			tw_mr_release_node(i + 1);
			nodes++;
		}
		rouse_all();
		atomic_store(&seg->proc[proc].life, (uint64_t)incarnation << 8 | TW_MR_FREE);
		tw_log(TW_LOG_INFO, "mrapi: process %u died with %u nodes", proc, nodes);
	}
	tw_mr_admin_unlock();
	while (nodes-- > 0)
		tw_mr_event(MRAPI_EVENT_NODE_DIED);
}
