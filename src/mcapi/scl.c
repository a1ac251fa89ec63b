/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MCAPI 4.5: scalars. Each end has a lock of its own, biased to the thread that
 * uses it, and a ring (scl_ring.h); the node's lock is taken to open, to close and to
 * sleep. Order: the node's lock, then the end's. Where the sender cannot map the
 * receiver's ring (another host, another pid namespace), scalars travel as
 * messages and the receiver's node puts them into its ring.
 */
#include <sched.h>

#include "mcapi/scl.h"

#define REPORT 64	/* scalars received by way of messages between two credits */
#define LOOKS 32	/* between two looks at the clock */
#define FIRST_LOOKS 500 /* of a receive, before it lets others in */
#define YIELD_US 5

/* A copy for each size of scalar, but for -Os. */
#ifdef __OPTIMIZE_SIZE__
#define FOR_EACH_SIZE static tw_noinline
#else
#define FOR_EACH_SIZE static tw_inline
#endif

/* Waiting -------------------------------------------------------------------------- */

struct wait {
	uint32_t handle;
	bool sender;
	struct tw_mcapi_node *node;
};

/* Whether there is something to do, if only to fail. */
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
	return tw_mcapi_scl_has_token(s) || !tw_mcapi_scl_full(&s->pos, s->ring);
}

/*
 * A mark tells the other end that we sleep; who wakes us takes it away. After
 * setting it, a last look: pairs with the other end's look at it after a store.
 */
static bool possible_or_marked(struct tw_ep *ep, void *arg)
{
	struct wait *w = arg;
	struct tw_mcapi_scl *s = tw_mcapi_scl_enter(w->handle, w->sender);
	_Atomic(uint32_t) *mark;
	bool yes;

	(void)ep;
	if (!s)
		return true;
	yes = possible(w, s);
	if (!yes && s->ring && !s->by_message) {
		mark = w->sender ? &s->ring->writer_sleeps : &s->ring->reader_sleeps;
		if (!atomic_load_explicit(mark, memory_order_relaxed)) {
			atomic_store_explicit(mark, 1, memory_order_relaxed);
			tw_barrier_hosts();
			yes = possible(w, s);
		}
	}
	tw_unlock(&s->lock);
	return yes;
}

/* Waits in the node, asleep in the end. */
static mcapi_status_t wait_for(uint32_t handle, bool sender, int timeout)
{
	struct wait w = {.handle = handle, .sender = sender};
	enum tw_waited waited;
	struct tw_ep *ep = tw_mcapi_enter(&w.node);

	if (!ep)
		return MCAPI_ENOT_HANDLE;
	waited = tw_mcapi_wait(w.node, possible_or_marked, &w, timeout);
	tw_mcapi_leave(ep);
	if (waited == TW_W_TRUE)
		return MCAPI_SUCCESS;
	return waited == TW_W_CLOSED ? MCAPI_ENOT_HANDLE : MCAPI_EREQ_TIMEOUT;
}

/* Polling outside the node's lock: worth it where the other end keeps up. */
static bool spin(uint32_t handle, bool sender)
{
	struct wait w = {.handle = handle, .sender = sender};
	uint64_t start = tw_clock(), yielded = start, now;
	uint64_t limit = tw_clock_us(tw_settings.spin_us);

	for (;;) {
		struct tw_mcapi_scl *s = tw_mcapi_scl_enter(handle, sender);
		bool yes = false, blind;

		if (!s)
			return true;
		blind = !s->ring || s->by_message;
		for (unsigned i = 0; !yes && !blind && i < LOOKS; i++)
			yes = possible(&w, s);
		tw_unlock(&s->lock);
		if (yes || blind)
			return yes;
		now = tw_clock();
		if (now - start >= limit)
			return false;
		if (now - yielded < tw_clock_us(YIELD_US))
			continue;
		sched_yield();
		yielded = tw_clock();
		/* A shared core is better used by the others. */
		if (yielded - now > tw_clock_us(20))
			limit /= 4;
	}
}

static tw_noinline void wake(uint32_t handle, bool sender)
{
	struct tw_mcapi_node *n;
	struct tw_ep *ep = tw_mcapi_enter(&n);
	struct tw_mcapi_scl *s;
	struct tw_mcapi_endp *e = NULL;

	if (!ep)
		return;
	s = tw_mcapi_scl_enter(handle, sender);
	if (s) {
		e = tw_mcapi_endp_find(n, s->endpoint);
		tw_unlock(&s->lock);
	}
	if (e && e->chan.bound)
		tw_mcapi_chan_ctrl_send(n, e, TW_MCAPI_CTRL_WAKE, 0);
	tw_mcapi_leave(ep);
}

/* Whether the other end sleeps; it is woken once. */
static inline bool marked(_Atomic(uint32_t) *mark)
{
	tw_barrier_compiler();
	return tw_unlikely(atomic_load_explicit(mark, memory_order_relaxed)) &&
	       atomic_exchange(mark, 0);
}

static inline bool sleeps(const struct tw_mcapi_scl *s, _Atomic(uint32_t) *mark)
{
	if (tw_unlikely(s->fence))
		atomic_thread_fence(memory_order_seq_cst);
	return marked(mark);
}

/* Sending -------------------------------------------------------------------------- */

static mcapi_status_t send_message(uint32_t handle, uint64_t value, unsigned code)
{
	mcapi_status_t status = MCAPI_INCOMPLETE;
	struct tw_mcapi_node *n;
	struct tw_ep *ep = tw_mcapi_enter(&n);
	struct tw_mcapi_scl *s = ep ? tw_mcapi_scl_enter(handle, true) : NULL;
	struct tw_mcapi_endp *e = NULL;
	struct tw_mcapi_mreq m;

	if (s) {
		e = tw_mcapi_endp_find(n, s->endpoint);
		tw_unlock(&s->lock);
	}
	if (!e || e->chan.peer_closed) {
		status = MCAPI_ENOT_HANDLE;
	} else if (e->chan.credits) {
		tw_mcapi_mreq_init(&m, TW_MCAPI_Q_PKT_SEND);
		e->chan.credits--;
		status = tw_mcapi_mreq_carry(n, &m, &value, sizeof(value),
					     tw_mcapi_match(TW_MCAPI_K_SCL, code, e->chan.epoch,
							    e->chan.other, e->handle),
					     tw_mcapi_node_of(e->chan.other), MCAPI_ENOT_HANDLE);
		if (status == MCAPI_INCOMPLETE) {
			status = tw_mcapi_mreq_wait(n, &m, -1, MCAPI_ENOT_HANDLE);
		} else if (status == MCAPI_ENO_MEM) {
			e->chan.credits++;
			status = MCAPI_INCOMPLETE; /* later */
		}
	}
	if (ep)
		tw_mcapi_leave(ep);
	return status;
}

static tw_noinline void send_slow(uint32_t handle, uint64_t value, unsigned code,
				  mcapi_status_t *status)
{
	struct tw_mcapi_scl *s;

	for (;;) {
		bool by_message, done = false, ended, must_wake = false;
		int timeout;

		s = tw_mcapi_scl_enter(handle, true);
		*status = MCAPI_ENOT_HANDLE;
		if (!s)
			return;
		ended = tw_mcapi_scl_state_of(s) == TW_MCAPI_SCL_ENDED;
		by_message = tw_mcapi_scl_state_of(s) == TW_MCAPI_SCL_READY && s->by_message;
		timeout = s->timeout;
		if (tw_mcapi_scl_state_of(s) == TW_MCAPI_SCL_READY && !by_message) {
			done = tw_mcapi_scl_has_token(s);
			if (done)
				tw_mcapi_token_put(s->token, &s->pos, value, code);
			else
				done = tw_mcapi_scl_put(&s->pos, s->ring, value, code);
			must_wake = done && sleeps(s, &s->ring->reader_sleeps);
		}
		tw_unlock(&s->lock);
		if (ended)
			return;
		if (must_wake)
			wake(handle, true);
		*status = done	       ? MCAPI_SUCCESS
			  : by_message ? send_message(handle, value, code)
				       : MCAPI_INCOMPLETE;
		if (*status != MCAPI_INCOMPLETE)
			return;
		if (spin(handle, true))
			continue;
		*status = wait_for(handle, true, timeout);
		if (*status != MCAPI_SUCCESS)
			return;
	}
}

/* It is sent: leaves. */
static inline void sent(struct tw_mcapi_scl_ring *r, struct tw_lock_way way, uint32_t handle,
			mcapi_status_t *status)
{
	bool must_wake = marked(&r->reader_sleeps);

	tw_lock_leave(way);
	*status = MCAPI_SUCCESS;
	if (tw_unlikely(must_wake))
		wake(handle, true);
}

/* Who has the turn sends in it. */
static tw_noinline void send_in_token(struct tw_mcapi_scl *s, struct tw_lock_way way,
				      uint32_t handle, uint64_t value, unsigned code,
				      mcapi_status_t *status)
{
	tw_mcapi_token_put(s->token, &s->pos, value, code);
	sent(s->ring, way, handle, status);
}

/* The usual case, without a frame: whatever else there is ends in a call. */
FOR_EACH_SIZE void send(uint32_t handle, uint64_t value, unsigned code, mcapi_status_t *status)
{
	struct tw_lock_way way;
	struct tw_mcapi_scl_ring *r;
	struct tw_mcapi_scl *s;

	if (tw_unlikely(!status))
		return;
	if (tw_unlikely(!tw_mcapi_scl_enter_known(handle, true, &s, &way))) {
		send_slow(handle, value, code, status);
		return;
	}
	r = atomic_load_explicit(&s->open, memory_order_acquire);
	if (tw_likely(r != NULL)) {
		if (tw_unlikely(tw_mcapi_scl_has_token(s))) {
			send_in_token(s, way, handle, value, code, status);
			return;
		}
		if (tw_likely(tw_mcapi_scl_put(&s->pos, r, value, code))) {
			sent(r, way, handle, status);
			return;
		}
	}
	tw_lock_leave(way);
	send_slow(handle, value, code, status);
}

void mcapi_sclchan_send_uint64(mcapi_sclchan_send_hndl_t send_handle, mcapi_uint64_t dataword,
			       mcapi_status_t *mcapi_status)
{
	send(send_handle, dataword, 3, mcapi_status);
}

void mcapi_sclchan_send_uint32(mcapi_sclchan_send_hndl_t send_handle, mcapi_uint32_t dataword,
			       mcapi_status_t *mcapi_status)
{
	send(send_handle, dataword, 2, mcapi_status);
}

void mcapi_sclchan_send_uint16(mcapi_sclchan_send_hndl_t send_handle, mcapi_uint16_t dataword,
			       mcapi_status_t *mcapi_status)
{
	send(send_handle, dataword, 1, mcapi_status);
}

void mcapi_sclchan_send_uint8(mcapi_sclchan_send_hndl_t send_handle, mcapi_uint8_t dataword,
			      mcapi_status_t *mcapi_status)
{
	send(send_handle, dataword, 0, mcapi_status);
}

/* Receiving ------------------------------------------------------------------------ */

/* What came by message gives credit back. */
static tw_noinline void report(uint32_t handle)
{
	struct tw_mcapi_node *n;
	struct tw_ep *ep = tw_mcapi_enter(&n);
	struct tw_mcapi_scl *s = ep ? tw_mcapi_scl_enter(handle, false) : NULL;
	struct tw_mcapi_endp *e;
	uint32_t taken;

	if (s) {
		taken = s->taken;
		s->taken = 0;
		e = tw_mcapi_endp_find(n, s->endpoint);
		tw_unlock(&s->lock);
		if (e)
			tw_mcapi_chan_took(n, e, taken, 0);
	}
	if (ep)
		tw_mcapi_leave(ep);
}

/* Takes a scalar that is there; unlocks. */
static inline uint64_t take(struct tw_mcapi_scl *s, uint32_t handle, int code, bool in_token,
			    unsigned pending, mcapi_status_t *status)
{
	bool must_wake = false, must_report = false;
	uint64_t value = 0;

	/* One of another size stays for a receive of that size. */
	*status = MCAPI_ESCL_SIZE;
	if (tw_likely(code == (int)pending)) {
		*status = MCAPI_SUCCESS;
		if (in_token)
			value = tw_mcapi_scl_take_token(s, UINT32_MAX);
		else if (tw_unlikely(tw_mcapi_scl_take(&s->pos, s->ring, &value)))
			must_wake = sleeps(s, &s->ring->writer_sleeps);
		must_report = tw_unlikely(s->by_message) && ++s->taken >= REPORT;
	}
	tw_unlock(&s->lock);
	if (tw_unlikely(must_wake))
		wake(handle, false);
	if (tw_unlikely(must_report))
		report(handle);
	return value;
}

static tw_noinline uint64_t recv_slow(uint32_t handle, unsigned pending, mcapi_status_t *status)
{
	struct tw_mcapi_scl *s;

	for (;;) {
		bool ended, in_token;
		int code, timeout;

		s = tw_mcapi_scl_enter(handle, false);
		*status = MCAPI_ENOT_HANDLE;
		if (!s)
			return 0;
		/* In this order: what was sent before the end is received. */
		ended = tw_mcapi_scl_state_of(s) == TW_MCAPI_SCL_ENDED;
		code = tw_mcapi_scl_next_code(s, s->ring, true, &in_token);
		if (code >= 0)
			return take(s, handle, code, in_token, pending, status);
		timeout = s->timeout;
		tw_unlock(&s->lock);
		if (ended)
			return 0;
		if (spin(handle, false))
			continue;
		*status = wait_for(handle, false, timeout);
		if (*status != MCAPI_SUCCESS)
			return 0;
	}
}

static tw_noinline uint64_t wake_writer(uint32_t handle, uint64_t value)
{
	wake(handle, false);
	return value;
}

/* It was taken out of the ring or the turn: leaves. */
static inline uint64_t received(struct tw_lock_way way, uint32_t handle, bool must_wake,
				uint64_t value, mcapi_status_t *status)
{
	tw_lock_leave(way);
	*status = MCAPI_SUCCESS;
	return tw_unlikely(must_wake) ? wake_writer(handle, value) : value;
}

/* Nothing is there yet, but mostly about to come; or maybe in the turn. */
static tw_noinline uint64_t recv_soon(struct tw_mcapi_scl *s, struct tw_lock_way way,
				      uint32_t handle, unsigned pending, mcapi_status_t *status)
{
	bool in_token, must_wake = false;
	uint64_t value;
	unsigned i = 0;
	int code;

	do
		code = tw_mcapi_scl_next_code(s, s->ring, i >= s->backoff, &in_token);
	while (code < 0 && ++i < FIRST_LOOKS);
	/* What comes by message is counted. */
	if (tw_unlikely(code != (int)pending || s->by_message)) {
		tw_lock_leave(way);
		return recv_slow(handle, pending, status);
	}
	if (in_token)
		value = tw_mcapi_scl_take_token(s, i);
	else
		must_wake = tw_mcapi_scl_take(&s->pos, s->ring, &value) &&
			    marked(&s->ring->writer_sleeps);
	return received(way, handle, must_wake, value, status);
}

/* The usual case, as in send(). */
FOR_EACH_SIZE uint64_t recv(uint32_t handle, unsigned pending, mcapi_status_t *status)
{
	struct tw_lock_way way;
	struct tw_mcapi_scl_ring *r;
	struct tw_mcapi_scl_here at;
	struct tw_mcapi_scl *s;
	bool must_wake;
	uint64_t value;

	if (tw_unlikely(!status))
		return 0;
	if (tw_unlikely(!tw_mcapi_scl_enter_known(handle, false, &s, &way)))
		return recv_slow(handle, pending, status);
	r = atomic_load_explicit(&s->open, memory_order_acquire);
	if (tw_unlikely(!r)) {
		tw_lock_leave(way);
		return recv_slow(handle, pending, status);
	}
	at = tw_mcapi_scl_here(&s->pos, r);
	/* What came by message has another tag. */
	if (tw_unlikely(tw_mcapi_scl_tag(at) != (s->pos.tag | pending) ||
			tw_mcapi_scl_token_away(s)))
		return recv_soon(s, way, handle, pending, status);
	must_wake = tw_mcapi_scl_take_at(&s->pos, r, at, &value) && marked(&r->writer_sleeps);
	return received(way, handle, must_wake, value, status);
}

mcapi_uint64_t mcapi_sclchan_recv_uint64(mcapi_sclchan_recv_hndl_t receive_handle,
					 mcapi_status_t *mcapi_status)
{
	return recv(receive_handle, 3, mcapi_status);
}

mcapi_uint32_t mcapi_sclchan_recv_uint32(mcapi_sclchan_recv_hndl_t receive_handle,
					 mcapi_status_t *mcapi_status)
{
	return (mcapi_uint32_t)recv(receive_handle, 2, mcapi_status);
}

mcapi_uint16_t mcapi_sclchan_recv_uint16(mcapi_sclchan_recv_hndl_t receive_handle,
					 mcapi_status_t *mcapi_status)
{
	return (mcapi_uint16_t)recv(receive_handle, 1, mcapi_status);
}

mcapi_uint8_t mcapi_sclchan_recv_uint8(mcapi_sclchan_recv_hndl_t receive_handle,
				       mcapi_status_t *mcapi_status)
{
	return (mcapi_uint8_t)recv(receive_handle, 0, mcapi_status);
}

mcapi_uint_t mcapi_sclchan_available(mcapi_sclchan_recv_hndl_t receive_handle,
				     mcapi_status_t *mcapi_status)
{
	mcapi_uint_t count = 0;
	const struct tw_mcapi_token *token;
	struct tw_mcapi_node *n;
	struct tw_mcapi_scl *s;
	struct tw_ep *ep;

	if (!mcapi_status)
		return MCAPI_NULL;
	/* What comes by message, and the other end's closing, come with progress. */
	ep = tw_mcapi_enter(&n);
	if (ep) {
		tw_progress(ep);
		tw_mcapi_leave(ep);
	}
	s = tw_mcapi_scl_enter(receive_handle, false);
	*mcapi_status = MCAPI_ENOT_HANDLE;
	if (!s)
		return MCAPI_NULL;
	if (tw_mcapi_scl_state_of(s) != TW_MCAPI_SCL_ENDED)
		*mcapi_status = MCAPI_SUCCESS;
	token = tw_mcapi_scl_paired(s);
	count = token && tw_mcapi_token_full(token);
	count += tw_mcapi_scl_count(s->pos, s->ring);
	if (count)
		*mcapi_status = MCAPI_SUCCESS;
	tw_unlock(&s->lock);
	return count;
}
