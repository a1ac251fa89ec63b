/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The admin lock, and reclaiming what dead members held. The lock word names its owner.
 * A member that finds the owner dead takes the lock over and repairs the tables before
 * any other member can read them. A reclaim that is cut short by another death is
 * repeated by a survivor.
 */
#include "mrapi/far.h"

/* A holder is incarnation and slot + 1. */
#define SLOT_BITS 11
_Static_assert(TW_MRAPI_PROCS < 1u << SLOT_BITS, "a slot fits the admin word");

/*
 * The interval at which a sleeper checks that the owner lives: every thread that could
 * report the death may be waiting for this lock.
 */
#define LIVENESS_NS 20000000ull

static uint32_t holder(uint32_t proc, uint32_t incarnation)
{
	return (incarnation << SLOT_BITS | (proc + 1)) & ~TW_MRAPI_WAITERS;
}

static bool try_lock(struct tw_mrapi_segment *seg, uint32_t keep)
{
	uint32_t word = atomic_load(&seg->admin);

	while (!(word & ~TW_MRAPI_WAITERS))
		/* [admin] */
		if (atomic_compare_exchange_weak(&seg->admin, &word,
						 holder(tw_mrapi.proc, tw_mrapi.incarnation) |
							 (word & TW_MRAPI_WAITERS) | keep))
			return true;
	return false;
}

/* With probe, checks the process itself; without it, only what the segment records. */
static bool holder_dead(uint32_t word, bool probe)
{
	uint32_t proc = (word & ((1u << SLOT_BITS) - 1)) - 1;
	uint64_t life = atomic_load(&tw_mrapi.seg->proc[proc].life);

	if ((life & 0xff) == TW_MRAPI_DEAD ||
	    holder(proc, (uint32_t)(life >> 8)) != (word & ~TW_MRAPI_WAITERS))
		return true;
	return probe && proc != tw_mrapi.proc && tw_mrapi_gone(proc);
}

static bool take_over(struct tw_mrapi_segment *seg, uint32_t word)
{
	/* [admin-owner-dies] */
	atomic_store(&seg->inconsistent, 1);
	return atomic_compare_exchange_strong(
		&seg->admin, &word, holder(tw_mrapi.proc, tw_mrapi.incarnation) | TW_MRAPI_WAITERS);
}

static void repair(struct tw_mrapi_segment *seg)
{
	for (int kind = TW_MRAPI_MUTEX; kind < TW_MRAPI_KINDS; kind++)
		tw_mrapi_table_repair(kind);
	tw_mrapi_guest_repair();
	atomic_store(&seg->inconsistent, 0);
}

void tw_mrapi_admin_lock(void)
{
	struct tw_mrapi_segment *seg = tw_mrapi.seg;
	uint32_t keep = 0;
	uint64_t deadline;
	bool waited = false;

	tw_mrapi_hold();
	for (int spins = 0; !try_lock(seg, keep); spins++) {
		uint32_t word = atomic_load(&seg->admin);

		if (spins < 50) {
			tw_cpu_relax();
			continue;
		}
		if (!(word & ~TW_MRAPI_WAITERS))
			continue;
		if (holder_dead(word, waited) && take_over(seg, word))
			break;
		if (!(word & TW_MRAPI_WAITERS) &&
		    !atomic_compare_exchange_strong(&seg->admin, &word, word | TW_MRAPI_WAITERS))
			continue;
		keep = TW_MRAPI_WAITERS; /* others may be asleep as well */
		deadline = tw_futex_now() + LIVENESS_NS;
		tw_futex_wait(&seg->admin, word | TW_MRAPI_WAITERS, deadline);
		waited = tw_futex_now() >= deadline;
	}
	/* [admin-owner-dies] */
	if (tw_unlikely(atomic_load(&seg->inconsistent)))
		repair(seg);
}

void tw_mrapi_admin_unlock(void)
{
	struct tw_mrapi_segment *seg = tw_mrapi.seg;

	/* [admin] */
	if (atomic_exchange(&seg->admin, 0) & TW_MRAPI_WAITERS)
		tw_futex_wake(&seg->admin, 1);
	tw_mrapi_unhold();
}

static void release_memory(uint32_t me)
{
	struct tw_mrapi_segment *seg = tw_mrapi.seg;

	for (uint32_t i = 0; i < seg->table[TW_MRAPI_SHMEM].high; i++)
		tw_mrapi_nodeset_del(&seg->shmem[i].attached, me - 1);
	for (uint32_t i = 0; i < seg->table[TW_MRAPI_RMEM].high; i++) {
		struct tw_mrapi_rmem *r = &seg->rmem[i];

		tw_mrapi_nodeset_del(&r->attached, me - 1);
		if (atomic_load(&r->obj.handle) && r->owner == me)
			tw_mrapi_table_free(TW_MRAPI_RMEM, &r->obj);
	}
}

void tw_mrapi_release_node(uint32_t me)
{
	struct tw_mrapi_segment *seg = tw_mrapi.seg;

	for (uint32_t i = 0; i < seg->table[TW_MRAPI_MUTEX].high; i++)
		tw_mrapi_mutex_drop(&seg->mutex[i], me);
	for (uint32_t i = 0; i < seg->table[TW_MRAPI_SEM].high; i++)
		tw_mrapi_counting_drop(&seg->sem[i], me);
	for (uint32_t i = 0; i < seg->table[TW_MRAPI_RWL].high; i++)
		tw_mrapi_counting_drop(&seg->rwl[i], me);
	release_memory(me);
	for (uint32_t i = 0; i < seg->counts; i++)
		if (atomic_load(&seg->count[i].node) == me)
			atomic_store(&seg->count[i].node, 0);
	atomic_store(&tw_mrapi_node(me)->life, TW_MRAPI_FREE);
}

/* A dead process may have consumed a wake-up meant for others. */
static void wake_all(void)
{
	struct tw_mrapi_segment *seg = tw_mrapi.seg;

	for (uint32_t i = 0; i < seg->table[TW_MRAPI_MUTEX].high; i++)
		tw_mrapi_mutex_wake_all(&seg->mutex[i]);
	for (uint32_t i = 0; i < seg->table[TW_MRAPI_SEM].high; i++)
		tw_mrapi_counting_wake_all(&seg->sem[i]);
	for (uint32_t i = 0; i < seg->table[TW_MRAPI_RWL].high; i++)
		tw_mrapi_counting_wake_all(&seg->rwl[i]);
}

/* False if it ended in order or its slot has been reused. */
static bool declare_dead(uint32_t proc, uint32_t incarnation)
{
	struct tw_mrapi_proc *p = &tw_mrapi.seg->proc[proc];
	uint64_t life = atomic_load(&p->life);

	do {
		if (life >> 8 != incarnation || (life & 0xff) == TW_MRAPI_FREE)
			return false;
	} while (!atomic_compare_exchange_weak(&p->life, &life,
					       (uint64_t)incarnation << 8 | TW_MRAPI_DEAD));
	return true;
}

/* Objects that it had not yet made known; what other hosts know of them is overridden later. */
static void release_claims(uint32_t proc)
{
	for (int kind = TW_MRAPI_MUTEX; kind < TW_MRAPI_KINDS; kind++)
		for (uint32_t i = 0; i < tw_mrapi.seg->table[kind].high; i++) {
			struct tw_mrapi_obj *o = tw_mrapi_slot((enum tw_mrapi_kind)kind, i);

			if (atomic_load(&o->handle) && (o->flags & TW_MRAPI_CLAIMED) &&
			    o->there == proc + 1)
				tw_mrapi_table_free((enum tw_mrapi_kind)kind, o);
		}
}

void tw_mrapi_reclaim(uint32_t proc, uint32_t incarnation)
{
	struct tw_mrapi_segment *seg = tw_mrapi.seg;
	uint64_t dead = (uint64_t)incarnation << 8 | TW_MRAPI_DEAD;
	struct tw_mrapi_name ended[MRAPI_MAX_NODES];
	uint64_t hosts = 0;
	unsigned nodes = 0;

	if (!declare_dead(proc, incarnation))
		return;
	tw_mrapi_admin_lock();
	if (atomic_load(&seg->proc[proc].life) == dead) {
		for (uint32_t i = 0; i < MRAPI_MAX_NODES; i++) {
			if (atomic_load(&seg->node[i].life) == TW_MRAPI_FREE ||
			    seg->node[i].proc != proc || seg->node[i].host)
				continue;
			ended[nodes++] = tw_mrapi_name(&seg->node[i]);
			tw_mrapi_release_node(i + 1);
		}
		hosts = atomic_load(&seg->proc[proc].hosts);
		tw_mrapi_guests_unserved(proc);
		release_claims(proc);
		wake_all();
		atomic_store(&seg->proc[proc].life, (uint64_t)incarnation << 8 | TW_MRAPI_FREE);
		tw_log(TW_LOG_INFO, "mrapi: process %u died with %u nodes", proc, nodes);
	}
	tw_mrapi_admin_unlock();
	while (nodes-- > 0) {
		tw_mrapi_event(MRAPI_EVENT_NODE_DIED);
		tw_mrapi_far_died(&ended[nodes]);
	}
	tw_mrapi_hosts_inherit(hosts);
}
