/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Polling before sleeping. Others are let in now and then; where a yield shows that they have
 * work, the core is better used by them, and polling ends early.
 */
#ifndef TW_SPIN_H
#define TW_SPIN_H

#include <sched.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/settings.h"

#define TW_SPIN_YIELD_US 5   /* yield after polling this long without result */
#define TW_SPIN_SHARED_US 20 /* a yield this long: another thread ran */

struct tw_spin {
	uint64_t start, yielded, limit;
};

static inline void tw_spin_start(struct tw_spin *s, uint64_t now)
{
	s->start = s->yielded = now;
	s->limit = tw_clock_us(tw_settings.spin_us);
}

/*
 * False when it is time to sleep. Called now and then, not for every poll; a lock that is
 * held is left while others run.
 */
static inline bool tw_spin_on(struct tw_spin *s, struct tw_lock *held)
{
	uint64_t now = tw_clock();

	if (now - s->start >= s->limit)
		return false;
	if (now - s->yielded < tw_clock_us(TW_SPIN_YIELD_US))
		return true;
	if (held)
		tw_unlock(held);
	sched_yield();
	if (held)
		tw_lock(held);
	s->yielded = tw_clock();
	if (s->yielded - now > tw_clock_us(TW_SPIN_SHARED_US))
		s->limit /= 4;
	return true;
}

#endif /* TW_SPIN_H */
