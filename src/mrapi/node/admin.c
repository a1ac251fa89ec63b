/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The admin lock, and reclaiming what dead members held. The lock word names its owner.
 * A member that finds the owner dead takes the lock over and repairs the tables before
 * any other member can read them. A reclaim that is cut short by another death is
 * repeated by a survivor.
 */
#include "mrapi/remote/remote.h"

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

static bool admin_take_over(struct tw_mrapi_segment *seg, uint32_t word)
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
	tw_mrapi_proxy_repair();
	atomic_store(&seg->inconsistent, 0);
}

/*
 * Of this process's threads one has the admin lock or waits for it. A thread whose node has
 * ended, the last one even, may be in here, so leaving the job takes this, too.
 */
static pthread_mutex_t local = PTHREAD_MUTEX_INITIALIZER;

void tw_mrapi_admin_block(void)
{
	tw_mrapi_lock(&local);
}

void tw_mrapi_admin_unblock(void)
{
	tw_mrapi_unlock(&local);
}

void tw_mrapi_admin_forked(void)
{
	pthread_mutex_init(&local, NULL);
}

void tw_mrapi_admin_lock(void)
{
	struct tw_mrapi_segment *seg = tw_mrapi.seg;
	uint32_t keep = 0;
	uint64_t deadline;
	bool waited = false;

	tw_mrapi_lock(&local);
	for (int spins = 0; !try_lock(seg, keep); spins++) {
		uint32_t word = atomic_load(&seg->admin);

		if (spins < 50) {
			tw_cpu_relax();
			continue;
		}
		if (!(word & ~TW_MRAPI_WAITERS))
			continue;
		if (holder_dead(word, waited) && admin_take_over(seg, word))
			break;
		if (!(word & TW_MRAPI_WAITERS) &&
		    !atomic_compare_exchange_strong(&seg->admin, &word, word | TW_MRAPI_WAITERS))
			continue;
		keep = TW_MRAPI_WAITERS; /* others may be asleep as well */
		deadline = tw_clock_ns() + LIVENESS_NS;
		tw_futex_wait(&seg->admin, word | TW_MRAPI_WAITERS, deadline);
		waited = tw_clock_ns() >= deadline;
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
	tw_mrapi_unlock(&local);
}

void tw_mrapi_release_node(uint32_t me)
{
	struct tw_mrapi_segment *seg = tw_mrapi.seg;
	struct tw_mrapi_walk w = {0};
	struct tw_mrapi_obj *o;

	while ((o = tw_mrapi_walk(&w))) {
		tw_mrapi_ops(w.kind)->drop(o, me);
		/* One of its threads may have released it, and end before it wakes a sleeper. */
		if (w.kind < TW_MRAPI_LOCKS)
			tw_mrapi_ops(w.kind)->wake_all(o);
	}
	for (uint32_t i = 0; i < seg->counts; i++)
		if (atomic_load(&seg->count[i].node) == me)
			atomic_store(&seg->count[i].node, 0);
	atomic_store(&tw_mrapi_node(me)->life, TW_MRAPI_FREE);
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
					       tw_mrapi_life(incarnation, TW_MRAPI_DEAD)));
	return true;
}

/*
 * Frees objects that it had not yet made known. This process reports their ends to other hosts, and
 * the ends that the dead one has not reported. And wakes the sleepers: it may have consumed a
 * wake-up meant for others.
 */
static void release_objects(uint32_t proc)
{
	struct tw_mrapi_walk w = {0};
	struct tw_mrapi_obj *o;

	while ((o = tw_mrapi_walk(&w))) {
		bool its = o->there == proc + 1;

		if (its && atomic_load(&o->handle) && (o->flags & TW_MRAPI_CLAIMED))
			tw_mrapi_table_free(w.kind, o);
		if (its)
			o->there = atomic_load(&o->handle) || w.kind == TW_MRAPI_SHMEM
					   ? 0
					   : tw_mrapi.proc + 1;
		if (w.kind < TW_MRAPI_LOCKS)
			tw_mrapi_ops(w.kind)->wake_all(o);
	}
}

void tw_mrapi_reclaim(uint32_t proc, uint32_t incarnation)
{
	struct tw_mrapi_segment *seg = tw_mrapi.seg;
	uint64_t dead = tw_mrapi_life(incarnation, TW_MRAPI_DEAD);
	struct tw_mrapi_name ended[MRAPI_MAX_NODES];
	uint64_t hosts = 0;
	unsigned nodes = 0;

	if (!declare_dead(proc, incarnation))
		return;
	tw_mrapi_admin_lock();
	if (atomic_load(&seg->proc[proc].life) == dead) {
		tw_mrapi_each_node(n) {
			if (atomic_load(&n->life) == TW_MRAPI_FREE || n->proc != proc || n->host)
				continue;
			ended[nodes++] = tw_mrapi_name(n);
			tw_mrapi_release_node(tw_mrapi_me_of(n));
		}
		hosts = atomic_load(&seg->proc[proc].hosts);
		tw_mrapi_proxies_unserved(proc);
		release_objects(proc);
		atomic_store(&seg->proc[proc].life, tw_mrapi_life(incarnation, TW_MRAPI_FREE));
		tw_log(TW_LOG_INFO, "mrapi: process %u died with %u nodes", proc, nodes);
	}
	tw_mrapi_admin_unlock();
	tw_mrapi_remote_inherit(hosts);
	while (nodes-- > 0) {
		tw_mrapi_event(MRAPI_EVENT_NODE_DIED);
		tw_mrapi_remote_left(&ended[nodes], false);
	}
}
