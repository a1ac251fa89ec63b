/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Semaphores and reader/writer locks are counting locks: an ownership record per lock,
 * and sleepers. A change bumps seq if anything sleeps; a sleeper is counted before its
 * last attempt, so no change is missed. Counts have an epoch: reclaiming starts a new
 * one, because dead processes may have been counted.
 */
#include <limits.h>

#include "mrapi/mrapi_internal.h"

#define COUNT 0xffffu

bool tw_mrapi_counting_take(struct tw_mrapi_counting *c, uint32_t me)
{
	for (uint32_t i = 0; i < c->limit; i++) {
		_Atomic(uint16_t) *record = &c->holder[(me + i) % c->limit];
		uint16_t free = 0;

		if (atomic_load_explicit(record, memory_order_seq_cst) == 0 &&
		    atomic_compare_exchange_strong(record, &free, (uint16_t)me))
			return true;
	}
	return false;
}

bool tw_mrapi_counting_give(struct tw_mrapi_counting *c, uint32_t me)
{
	for (uint32_t i = 0; i < c->limit; i++) {
		_Atomic(uint16_t) *record = &c->holder[(me + i) % c->limit];
		uint16_t owner = (uint16_t)me;

		if (atomic_load_explicit(record, memory_order_relaxed) == owner &&
		    atomic_compare_exchange_strong(record, &owner, 0))
			return true;
	}
	return false;
}

bool tw_mrapi_counting_held(struct tw_mrapi_counting *c, uint32_t me)
{
	for (uint32_t i = 0; i < c->limit; i++)
		if (atomic_load_explicit(&c->holder[(me + i) % c->limit], memory_order_relaxed) ==
		    me)
			return true;
	return false;
}

bool tw_mrapi_counting_empty(struct tw_mrapi_counting *c)
{
	for (uint32_t i = 0; i < c->limit; i++)
		if (atomic_load(&c->holder[i]))
			return false;
	return true;
}

uint32_t tw_mrapi_count_up(_Atomic(uint32_t) *word)
{
	return atomic_fetch_add(word, 1) >> 16;
}

void tw_mrapi_count_down(_Atomic(uint32_t) *word, uint32_t epoch)
{
	uint32_t w = atomic_load(word);

	while (w >> 16 == epoch && !atomic_compare_exchange_weak(word, &w, w - 1))
		;
}

static void new_epoch(_Atomic(uint32_t) *word)
{
	uint32_t w = atomic_load(word);

	while (!atomic_compare_exchange_weak(word, &w, ((w >> 16) + 1) << 16))
		;
}

void tw_mrapi_counting_wake(struct tw_mrapi_counting *c, int n)
{
	if (!(atomic_load(&c->sleepers) & COUNT))
		return;
	atomic_fetch_add(&c->seq, 1);
	tw_futex_wake(&c->seq, n);
}

void tw_mrapi_counting_drop(struct tw_mrapi_counting *c, uint32_t node)
{
	uint32_t writer = atomic_load(&c->writer);
	bool changed = false;

	for (uint32_t i = 0; i < MRAPI_MAX_SEM_SHAREDLOCKS; i++) {
		uint16_t holder = (uint16_t)node;

		changed |= atomic_compare_exchange_strong(&c->holder[i], &holder, 0);
	}
	if ((writer & TW_MRAPI_OWNER) == node)
		changed |= atomic_compare_exchange_strong(&c->writer, &writer, 0);
	if (changed)
		tw_mrapi_counting_wake(c, INT_MAX);
}

void tw_mrapi_counting_wake_all(struct tw_mrapi_counting *c)
{
	if (!atomic_load(&c->obj.contended))
		return;
	new_epoch(&c->sleepers);
	new_epoch(&c->writers);
	atomic_fetch_add(&c->seq, 1);
	tw_futex_wake(&c->seq, INT_MAX);
}

mrapi_status_t tw_mrapi_counting_wait(struct tw_mrapi_counting *c, uint32_t me,
				      mrapi_timeout_t timeout, mrapi_status_t (*attempt)(void *arg),
				      void *arg)
{
	struct tw_mrapi_wait w;
	mrapi_status_t status = MRAPI_TIMEOUT, why = MRAPI_SUCCESS;

	tw_mrapi_wait_begin(&w, me, timeout);
	while (status == MRAPI_TIMEOUT && why == MRAPI_SUCCESS) {
		uint32_t epoch, seq;

		status = attempt(arg);
		if (status != MRAPI_TIMEOUT || tw_mrapi_spin(&w))
			continue;
		atomic_store_explicit(&c->obj.contended, 1, memory_order_relaxed);
		epoch = tw_mrapi_count_up(&c->sleepers);
		seq = atomic_load(&c->seq);
		status = attempt(arg);
		if (status == MRAPI_TIMEOUT)
			why = tw_mrapi_sleep(&w, &c->seq, seq);
		tw_mrapi_count_down(&c->sleepers, epoch);
	}
	tw_mrapi_wait_end(&w);
	return status == MRAPI_TIMEOUT ? why : status;
}
