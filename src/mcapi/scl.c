/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MCAPI 4.5: scalars. Each end has a lock of its own, biased to the thread that uses it,
 * and a ring (shmem/words.h). The node's lock is taken only to open, to close and to sleep.
 * Order: the node's lock, then the end's. If the sender cannot map the receiver's ring
 * (another host, another pid namespace), scalars travel as messages and the receiver's
 * node puts them into its ring.
 */
#include <endian.h>

#include "engine/trace.h"
#include "mcapi/chan.h"
#include "mcapi/req.h"
#include "mcapi/scl.h"

#define REPORT 64	/* scalars received by message between two TAKEN */
#define FIRST_POLLS 500 /* of a receive, under the end's lock */

/* One copy for each size of scalar, except with -Os. */
#ifdef __OPTIMIZE_SIZE__
#define FOR_EACH_SIZE static tw_noinline
#else
#define FOR_EACH_SIZE static tw_inline
#endif

/* Whether the other end sleeps and this call has to wake it. */
static inline bool must_wake_peer(_Atomic(uint32_t) *asleep)
{
	/* [words-sleep] */
	tw_barrier_compiler();
	return tw_unlikely(atomic_load_explicit(asleep, memory_order_relaxed)) &&
	       atomic_exchange(asleep, 0);
}

/* The same with the barrier that a global one does not replace. */
static inline bool must_wake_fenced(const struct tw_mcapi_scl *s, _Atomic(uint32_t) *asleep)
{
	/* [words-sleep] */
	if (tw_unlikely(s->fence))
		atomic_thread_fence(memory_order_seq_cst);
	return must_wake_peer(asleep);
}

/* Sending -------------------------------------------------------------------------- */

/* MCAPI_INCOMPLETE: there was no memory, later. */
static mcapi_status_t send_am(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, uint64_t value,
			      unsigned code)
{
	uint64_t arg =
		tw_mcapi_match(TW_MCAPI_K_SCL, code, e->chan.epoch, e->chan.other, e->handle);
	struct tw_addr to = n->peers[tw_mcapi_node_of(e->chan.other)].addr;

	value = htole64(value);
	switch (tw_am_send(n->ep, to, arg, &value, sizeof(value))) {
	case TW_OK:
		e->chan.credits--;
		return MCAPI_SUCCESS;
	case TW_ENOMEM:
		return MCAPI_INCOMPLETE;
	default:
		return MCAPI_ENOT_HANDLE;
	}
}

static mcapi_status_t send_message(uint32_t handle, uint64_t value, unsigned code)
{
	mcapi_status_t status = MCAPI_INCOMPLETE;
	struct tw_mcapi_node *n;
	struct tw_ep *ep = tw_mcapi_enter(&n);
	struct tw_mcapi_endp *e = ep ? tw_mcapi_scl_endp(n, handle, true) : NULL;

	if (!e || e->chan.peer_closed) {
		status = MCAPI_ENOT_HANDLE;
	} else if (e->chan.credits) {
		status = send_am(n, e, value, code);
	}
	if (ep)
		tw_mcapi_leave(ep);
	return status;
}

/* Records a scalar that this end has sent or taken at that tick. Without the end's lock. */
static tw_noinline void scl_trace(uint32_t handle, bool sender, uint64_t tick, unsigned code)
{
	struct tw_mcapi_node *n;
	struct tw_ep *ep = tw_mcapi_enter(&n);
	struct tw_mcapi_endp *e = ep ? tw_mcapi_scl_endp(n, handle, sender) : NULL;
	uint32_t to, from;

	if (e) {
		const struct tw_peer *p =
			tw_peer_at(ep, n->peers[tw_mcapi_node_of(e->chan.other)].addr);

		to = sender ? e->chan.other : e->handle;
		from = sender ? e->handle : e->chan.other;
		tw_trace_add(ep, tick, sender ? TW_TRACE_SCALAR : TW_TRACE_SCALAR_CAME,
			     p ? p->index : UINT16_MAX,
			     tw_mcapi_match(TW_MCAPI_K_SCL, 0, e->chan.epoch, to, from), 1u << code,
			     e->chan.scl->traced++, 0);
	}
	if (ep)
		tw_mcapi_leave(ep);
}

/* Into the token slot or the ring; false: there is no room. */
static bool scl_put(struct tw_mcapi_scl *s, uint64_t value, unsigned code)
{
	if (!tw_mcapi_scl_has_token(s))
		return tw_words_put(&s->pos, s->ring, value, code);
	tw_words_token_put(s->token, &s->pos, value, code);
	return true;
}

static tw_noinline void scl_send_slow(uint32_t handle, uint64_t value, unsigned code,
				      mcapi_status_t *status)
{
	struct tw_mcapi_scl *s;
	uint64_t end = 0;

	for (;;) {
		enum tw_mcapi_scl_state state;
		bool by_message, done, must_wake, traced;
		uint64_t now;
		int timeout;

		s = tw_mcapi_scl_enter(handle, true);
		*status = MCAPI_ENOT_HANDLE;
		if (!s)
			return;
		state = tw_mcapi_scl_state_of(s);
		timeout = s->timeout;
		traced = s->node->ep->traced;
		now = tw_trace_now(s->node->ep);
		by_message = state == TW_MCAPI_SCL_READY && s->by_message;
		done = state == TW_MCAPI_SCL_READY && !by_message && scl_put(s, value, code);
		must_wake = done && must_wake_fenced(s, &s->ring->reader_sleeps);
		tw_unlock(&s->lock);
		if (state == TW_MCAPI_SCL_ENDED)
			return;
		if (must_wake)
			tw_mcapi_scl_wake(handle, true);
		*status = done	       ? MCAPI_SUCCESS
			  : by_message ? send_message(handle, value, code)
				       : MCAPI_INCOMPLETE;
		if (traced && *status == MCAPI_SUCCESS)
			scl_trace(handle, true, now, code);
		if (*status != MCAPI_INCOMPLETE)
			return;
		if (tw_mcapi_scl_spin(handle, true))
			continue;
		*status = tw_mcapi_scl_wait(handle, true, timeout, &end);
		if (*status != MCAPI_SUCCESS)
			return;
	}
}

/* After a send on the fast path. */
static inline void scl_sent(struct tw_words *r, struct tw_lock_way way, uint32_t handle,
			    mcapi_status_t *status)
{
	bool must_wake = must_wake_peer(&r->reader_sleeps);

	tw_lock_leave(way);
	*status = MCAPI_SUCCESS;
	if (tw_unlikely(must_wake))
		tw_mcapi_scl_wake(handle, true);
}

/* The fast path of a sender that holds the token. */
static tw_noinline void send_in_token(struct tw_mcapi_scl *s, struct tw_lock_way way,
				      uint32_t handle, uint64_t value, unsigned code,
				      mcapi_status_t *status)
{
	tw_words_token_put(s->token, &s->pos, value, code);
	scl_sent(s->ring, way, handle, status);
}

/* The fast path, without a stack frame: every other case ends in a call. */
FOR_EACH_SIZE void send(uint32_t handle, uint64_t value, unsigned code, mcapi_status_t *status)
{
	struct tw_lock_way way;
	struct tw_words *r;
	struct tw_mcapi_scl *s;

	if (tw_unlikely(!status))
		return;
	if (tw_unlikely(!tw_mcapi_scl_enter_known(handle, true, &s, &way))) {
		scl_send_slow(handle, value, code, status);
		return;
	}
	/* [scalar-open] */
	r = atomic_load_explicit(&s->open, memory_order_acquire);
	if (tw_likely(r != NULL)) {
		if (tw_unlikely(tw_mcapi_scl_has_token(s))) {
			send_in_token(s, way, handle, value, code, status);
			return;
		}
		if (tw_likely(tw_words_put(&s->pos, r, value, code))) {
			scl_sent(r, way, handle, status);
			return;
		}
	}
	tw_lock_leave(way);
	scl_send_slow(handle, value, code, status);
}

/* The code of a size is the logarithm of its bytes. */
#define SEND(bits, code)                                                                            \
	void mcapi_sclchan_send_uint##bits(mcapi_sclchan_send_hndl_t send_handle,                  \
					   mcapi_uint##bits##_t dataword,                          \
					   mcapi_status_t *mcapi_status)                           \
	{                                                                                          \
		send(send_handle, dataword, code, mcapi_status);                                   \
	}

SEND(64, 3)
SEND(32, 2)
SEND(16, 1)
SEND(8, 0)

/* Receiving ------------------------------------------------------------------------ */

/* Returns credit for scalars that came by message. */
static tw_noinline void scl_report(uint32_t handle)
{
	struct tw_mcapi_node *n;
	struct tw_ep *ep = tw_mcapi_enter(&n);
	struct tw_mcapi_scl *s = ep ? tw_mcapi_scl_enter(handle, false) : NULL;
	struct tw_mcapi_endp *e;
	uint32_t taken;

	if (s) {
		taken = tw_words_passed(&s->pos) - s->reported;
		s->reported += taken;
		e = tw_mcapi_endp_find(n, s->endpoint);
		tw_unlock(&s->lock);
		if (e)
			tw_mcapi_chan_took(n, e, taken, 0);
	}
	if (ep)
		tw_mcapi_leave(ep);
}

/* Takes a scalar of that size code; unlocks. */
static inline uint64_t scl_take(struct tw_mcapi_scl *s, uint32_t handle, int code, bool in_token,
				unsigned pending, mcapi_status_t *status)
{
	bool must_wake = false, must_report = false, traced = false;
	uint64_t value = 0;

	/* A scalar of another size stays. */
	*status = MCAPI_ESCL_SIZE;
	if (tw_likely(code == (int)pending)) {
		*status = MCAPI_SUCCESS;
		if (in_token)
			value = tw_mcapi_scl_take_token(s, UINT32_MAX);
		else if (tw_unlikely(tw_words_take(&s->pos, s->ring, &value)))
			must_wake = must_wake_fenced(s, &s->ring->writer_sleeps);
		must_report = tw_unlikely(s->by_message) &&
			      tw_words_passed(&s->pos) - s->reported >= REPORT;
		traced = s->node->ep->traced;
	}
	tw_unlock(&s->lock);
	if (tw_unlikely(must_wake))
		tw_mcapi_scl_wake(handle, false);
	if (tw_unlikely(must_report))
		scl_report(handle);
	if (tw_unlikely(traced))
		scl_trace(handle, false, tw_clock(), pending);
	return value;
}

static tw_noinline uint64_t scl_recv_slow(uint32_t handle, unsigned pending, mcapi_status_t *status)
{
	struct tw_mcapi_scl *s;
	uint64_t end = 0;

	for (;;) {
		bool ended, in_token;
		int code, timeout;

		s = tw_mcapi_scl_enter(handle, false);
		*status = MCAPI_ENOT_HANDLE;
		if (!s)
			return 0;
		/* In this order: scalars that were sent before the end are received. */
		ended = tw_mcapi_scl_state_of(s) == TW_MCAPI_SCL_ENDED;
		code = tw_mcapi_scl_next_code(s, s->ring, true, &in_token);
		if (code >= 0)
			return scl_take(s, handle, code, in_token, pending, status);
		timeout = s->timeout;
		tw_unlock(&s->lock);
		if (ended)
			return 0;
		if (tw_mcapi_scl_spin(handle, false))
			continue;
		*status = tw_mcapi_scl_wait(handle, false, timeout, &end);
		if (*status != MCAPI_SUCCESS)
			return 0;
	}
}

static tw_noinline uint64_t wake_writer(uint32_t handle, uint64_t value)
{
	tw_mcapi_scl_wake(handle, false);
	return value;
}

/* After a receive on the fast path. */
static inline uint64_t scl_received(struct tw_lock_way way, uint32_t handle, bool must_wake,
				    uint64_t value, mcapi_status_t *status)
{
	tw_lock_leave(way);
	*status = MCAPI_SUCCESS;
	return tw_unlikely(must_wake) ? wake_writer(handle, value) : value;
}

/* Nothing is in the ring: polls the ring and the token slot. */
static tw_noinline uint64_t recv_soon(struct tw_mcapi_scl *s, struct tw_lock_way way,
				      uint32_t handle, unsigned pending, mcapi_status_t *status)
{
	bool in_token, must_wake = false;
	uint64_t value;
	unsigned i = 0;
	int code;

	do
		code = tw_mcapi_scl_next_code(s, s->ring, i >= s->backoff.polls, &in_token);
	while (code < 0 && ++i < FIRST_POLLS);
	if (tw_unlikely(code != (int)pending)) {
		tw_lock_leave(way);
		return scl_recv_slow(handle, pending, status);
	}
	if (in_token)
		value = tw_mcapi_scl_take_token(s, i);
	else
		must_wake = tw_words_take(&s->pos, s->ring, &value) &&
			    must_wake_peer(&s->ring->writer_sleeps);
	return scl_received(way, handle, must_wake, value, status);
}

/* The fast path, as send(). */
FOR_EACH_SIZE uint64_t recv(uint32_t handle, unsigned pending, mcapi_status_t *status)
{
	struct tw_lock_way way;
	struct tw_words *r;
	struct tw_words_here at;
	struct tw_mcapi_scl *s;
	bool must_wake;
	uint64_t value;

	if (tw_unlikely(!status))
		return 0;
	if (tw_unlikely(!tw_mcapi_scl_enter_known(handle, false, &s, &way)))
		return scl_recv_slow(handle, pending, status);
	/* [scalar-open] */
	r = atomic_load_explicit(&s->open, memory_order_acquire);
	if (tw_unlikely(!r)) {
		tw_lock_leave(way);
		return scl_recv_slow(handle, pending, status);
	}
	at = tw_words_here(&s->pos, r);
	if (tw_unlikely(tw_words_tag(at) != (s->pos.tag | pending) || !tw_mcapi_scl_has_token(s)))
		return recv_soon(s, way, handle, pending, status);
	must_wake = tw_words_take_at(&s->pos, r, at, &value) && must_wake_peer(&r->writer_sleeps);
	return scl_received(way, handle, must_wake, value, status);
}

#define RECV(bits, code)                                                                            \
	mcapi_uint##bits##_t mcapi_sclchan_recv_uint##bits(                                        \
		mcapi_sclchan_recv_hndl_t receive_handle, mcapi_status_t *mcapi_status)            \
	{                                                                                          \
		return (mcapi_uint##bits##_t)recv(receive_handle, code, mcapi_status);             \
	}

RECV(64, 3)
RECV(32, 2)
RECV(16, 1)
RECV(8, 0)

mcapi_uint_t mcapi_sclchan_available(mcapi_sclchan_recv_hndl_t receive_handle,
				     mcapi_status_t *mcapi_status)
{
	mcapi_uint_t count = 0;
	struct tw_mcapi_node *n;
	struct tw_mcapi_scl *s;
	struct tw_ep *ep;

	if (!mcapi_status)
		return MCAPI_NULL;
	/* Scalars by message and CLOSED come with progress. */
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
	count = tw_mcapi_scl_count(s);
	if (count)
		*mcapi_status = MCAPI_SUCCESS;
	tw_unlock(&s->lock);
	return count;
}
