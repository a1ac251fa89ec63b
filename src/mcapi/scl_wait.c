/* SPDX-License-Identifier: BSD-2-Clause */
/* Scalar channels: waiting, and waking the other end. */
#include "mcapi/chan.h"
#include "mcapi/req.h"
#include "mcapi/scl.h"
#include "shmem/spin.h"

#define POLLS 32 /* between two readings of the clock */

struct wait {
	uint32_t handle;
	bool sender;
	struct tw_mcapi_node *node;
};

/* Whether a send or receive would end now, perhaps with an error. */
static bool possible(const struct wait *w, struct tw_mcapi_scl *s)
{
	enum tw_mcapi_scl_state state = tw_mcapi_scl_state_of(s);
	bool in_token;

	if (state == TW_MCAPI_SCL_ENDED)
		return true;
	if (!w->sender)
		return tw_mcapi_scl_next_code(s, s->ring, true, &in_token) >= 0;
	if (state == TW_MCAPI_SCL_OPENING)
		return false;
	if (s->by_message)
		return tw_mcapi_endp_find(w->node, s->endpoint)->chan.credits != 0;
	return tw_mcapi_scl_has_token(s) || !tw_words_full(&s->pos, s->ring);
}

/*
 * If not possible, sets the flag that this end sleeps, which a waking peer clears, and tests
 * once more: pairs with the other end's load of the flag after its store to the ring.
 */
static bool possible_or_asleep(struct tw_ep *ep, void *arg)
{
	struct wait *w = arg;
	struct tw_mcapi_scl *s = tw_mcapi_scl_enter(w->handle, w->sender);
	_Atomic(uint32_t) *asleep;
	bool yes;

	(void)ep;
	if (!s)
		return true;
	yes = possible(w, s);
	if (!yes && s->ring && !s->by_message) {
		asleep = w->sender ? &s->ring->writer_sleeps : &s->ring->reader_sleeps;
		if (!atomic_load_explicit(asleep, memory_order_relaxed)) {
			/* [words-sleep] */
			atomic_store_explicit(asleep, 1, memory_order_relaxed);
			tw_barrier_processes();
			yes = possible(w, s);
		}
	}
	tw_unlock(&s->lock);
	return yes;
}

/* Milliseconds of a limit that are left; *end is set at the first wait of a call. */
static int time_left(int timeout, uint64_t *end)
{
	uint64_t now = tw_clock();

	if (timeout < 0)
		return timeout;
	if (!*end)
		*end = now + tw_clock_us(1000ull * (unsigned)timeout);
	return *end <= now ? 0 : (int)((*end - now + tw_clock_us(1000) - 1) / tw_clock_us(1000));
}

mcapi_status_t tw_mcapi_scl_wait(uint32_t handle, bool sender, int timeout, uint64_t *end)
{
	struct wait w = {.handle = handle, .sender = sender};
	enum tw_waited waited;
	struct tw_ep *ep = tw_mcapi_enter(&w.node);

	if (!ep)
		return MCAPI_ENOT_HANDLE;
	waited = tw_mcapi_wait(w.node, possible_or_asleep, &w, time_left(timeout, end));
	tw_mcapi_leave(ep);
	if (waited == TW_W_TRUE)
		return MCAPI_SUCCESS;
	return waited == TW_W_CLOSED ? MCAPI_ENOT_HANDLE : MCAPI_EREQ_TIMEOUT;
}

bool tw_mcapi_scl_spin(uint32_t handle, bool sender)
{
	struct wait w = {.handle = handle, .sender = sender};
	struct tw_spin polling;

	tw_spin_start(&polling, tw_clock());
	for (;;) {
		struct tw_mcapi_scl *s = tw_mcapi_scl_enter(handle, sender);
		bool yes = false, blind;

		if (!s)
			return true;
		blind = !s->ring || s->by_message;
		for (unsigned i = 0; !yes && !blind && i < POLLS; i++)
			yes = possible(&w, s);
		tw_unlock(&s->lock);
		if (yes || blind)
			return yes;
		if (!tw_spin_on(&polling, NULL))
			return false;
	}
}

void tw_mcapi_scl_wake(uint32_t handle, bool sender)
{
	struct tw_mcapi_node *n;
	struct tw_ep *ep = tw_mcapi_enter(&n);
	struct tw_mcapi_endp *e;

	if (!ep)
		return;
	e = tw_mcapi_scl_endp(n, handle, sender);
	if (e && e->chan.bound)
		tw_mcapi_chan_ctrl_send(n, e, TW_MCAPI_CTRL_WAKE, 0);
	tw_mcapi_leave(ep);
}
