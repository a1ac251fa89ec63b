/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MCAPI 4.5: scalar channels. Each end has a lock of its own, biased to the
 * thread that uses it, and a ring (ring.h); the node's lock is taken to open, to
 * close and to sleep. Order: the node's lock, then the end's. Where the sender
 * cannot map the receiver's ring (another host, another pid namespace), scalars
 * travel as messages and the receiver's node puts them into its ring.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/fds.h"
#include "base/sealed.h"
#include "mcapi/node.h"
#include "mcapi/ring.h"

#define CHUNK 64 /* ends are made by so many */
#define MAX_CHUNKS 1024
#define REUSE 4096 /* ends that exist before one is used again: its lock is worn */
#define WINDOW (TW_SCL_LINES * TW_SCL_SLOTS)
#define REPORT 64	/* scalars received by way of messages between two credits */
#define LOOKS 32	/* between two looks at the clock */
#define FIRST_LOOKS 500 /* of a receive, before it lets others in */
#define YIELD_US 5

enum state { OPENING, READY, ENDED };

struct tw_scl {
	_Atomic(uint32_t) handle; /* generation << 16 | number, 0: not in use */
	_Atomic(uint32_t) state;
	bool sender, fence;
	bool by_message; /* the ring is not shared */
	struct tw_node *node;
	struct tw_scl_ring *ring;
	struct tw_scl_pos pos;	/* under the end's lock */
	struct tw_scl_pos feed; /* where the node puts what comes by message */
	struct tw_lock lock tw_aligned_line;
	uint32_t gen, number, endpoint;
	uint32_t taken; /* by message, not reported */
	int timeout, fd;
	struct tw_list unused;
};

static struct {
	pthread_mutex_t mutex;
	_Atomic(struct tw_scl *) chunks[MAX_CHUNKS];
	unsigned nchunks;
	struct tw_list unused;
	unsigned nunused;
} ends = {.mutex = PTHREAD_MUTEX_INITIALIZER, .unused = {&ends.unused, &ends.unused}};

static void add_chunk(void)
{
	struct tw_scl *chunk = aligned_alloc(TW_LINE, CHUNK * sizeof(*chunk));

	if (!chunk)
		return;
	memset(chunk, 0, CHUNK * sizeof(*chunk));
	for (unsigned i = 0; i < CHUNK; i++) {
		chunk[i].number = ends.nchunks * CHUNK + i;
		tw_lock_init(&chunk[i].lock, tw_settings.single_threaded);
		tw_list_add_tail(&ends.unused, &chunk[i].unused);
	}
	ends.nunused += CHUNK;
	atomic_store_explicit(&ends.chunks[ends.nchunks++], chunk, memory_order_release);
}

static struct tw_scl *new_end(void)
{
	struct tw_scl *s = NULL;

	pthread_mutex_lock(&ends.mutex);
	if (!ends.nunused || (ends.nchunks * CHUNK < REUSE &&
			      tw_list_first(&ends.unused, struct tw_scl, unused)->gen))
		if (ends.nchunks < MAX_CHUNKS)
			add_chunk();
	/* Fresh ones lie behind those that were used: take the last. */
	if (ends.nunused) {
		s = tw_container(ends.unused.prev, struct tw_scl, unused);
		if (s->gen)
			s = tw_list_first(&ends.unused, struct tw_scl, unused);
		tw_list_del(&s->unused);
		ends.nunused--;
		s->gen = s->gen % 0xffff + 1;
	}
	pthread_mutex_unlock(&ends.mutex);
	return s;
}

static void give_end(struct tw_scl *s)
{
	pthread_mutex_lock(&ends.mutex);
	/* Used ones in front, so that the last is fresh while there are fresh ones. */
	tw_list_add_tail(ends.unused.next, &s->unused);
	ends.nunused++;
	pthread_mutex_unlock(&ends.mutex);
}

void tw_scl_forked(void)
{
	pthread_mutex_init(&ends.mutex, NULL);
	for (unsigned i = 0; i < ends.nchunks; i++)
		for (unsigned j = 0; j < CHUNK; j++)
			atomic_store(&ends.chunks[i][j].handle, 0);
	/* Their locks may be held by threads that are not here. */
	tw_list_init(&ends.unused);
	ends.nunused = 0;
}

/* Locks the end that a handle of the caller's node names. */
static inline struct tw_scl *enter(uint32_t handle, bool sender)
{
	uint32_t number = handle & 0xffff;
	struct tw_scl *s = atomic_load_explicit(&ends.chunks[number / CHUNK], memory_order_acquire);

	if (tw_unlikely(!s || !handle))
		return NULL;
	s += number % CHUNK;
	tw_lock(&s->lock);
	if (tw_likely(atomic_load_explicit(&s->handle, memory_order_relaxed) == handle &&
		      s->sender == sender && s->node == tw_mc_self()))
		return s;
	tw_unlock(&s->lock);
	return NULL;
}

static inline enum state state_of(const struct tw_scl *s)
{
	return (enum state)atomic_load_explicit(&s->state, memory_order_acquire);
}

/* Opening and closing ------------------------------------------------------------ */

static bool make_ring(struct tw_scl *s)
{
	void *p;

	s->fd = -1;
	if (tw_sealed_make("tagwire-scalars", TW_SCL_BYTES, TW_SEALS, &s->fd, &p) == TW_OK) {
		tw_fd_own(s->fd);
		/* Pages now, not at the first scalar. */
		memset(p, 0, TW_SCL_BYTES);
	} else {
		/* Without descriptors there is still memory. */
		p = mmap(NULL, TW_SCL_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
		if (p == MAP_FAILED)
			return false;
	}
	s->ring = p;
	if (getrandom(&s->ring->cookie, sizeof(s->ring->cookie), 0) < 0)
		s->ring->cookie = tw_clock();
	return true;
}

uint32_t tw_scl_open(struct tw_node *n, struct tw_endp *e, bool sender)
{
	struct tw_scl *s = new_end();

	if (!s)
		return 0;
	s->sender = sender;
	s->fence = !tw_barrier_global();
	s->by_message = false;
	s->node = n;
	s->endpoint = e->handle;
	s->taken = 0;
	s->timeout = e->timeout;
	s->ring = NULL;
	s->fd = -1;
	tw_scl_pos_init(&s->pos);
	tw_scl_pos_init(&s->feed);
	atomic_store_explicit(&s->state, OPENING, memory_order_relaxed);
	if (!sender && !make_ring(s)) {
		give_end(s);
		return 0;
	}
	e->chan.scl = s;
	atomic_store_explicit(&s->handle, s->gen << 16 | s->number, memory_order_release);
	return s->gen << 16 | s->number;
}

void tw_scl_describe(struct tw_endp *e, struct tw_say *say)
{
	struct tw_scl *s = e->chan.scl;

	say->value = WINDOW;
	if (s->sender || s->fd < 0)
		return;
	say->pid = (uint32_t)getpid();
	say->fd = (uint32_t)s->fd;
	say->cookie = s->ring->cookie;
}

static struct tw_scl_ring *map_ring(const struct tw_say *say)
{
	struct tw_scl_ring *r = NULL;
	char path[64];
	int fd;

	if (!say->pid)
		return NULL;
	snprintf(path, sizeof(path), "/proc/%u/fd/%u", say->pid, say->fd);
	fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return NULL;
	if (tw_sealed_sound(fd, TW_SCL_BYTES))
		r = tw_sealed_map(fd, TW_SCL_BYTES, PROT_READ | PROT_WRITE);
	close(fd);
	if (r && r->cookie != say->cookie) {
		munmap(r, TW_SCL_BYTES);
		return NULL;
	}
	return r;
}

void tw_scl_ready(struct tw_node *n, struct tw_endp *e)
{
	const struct tw_say *other = &e->chan.opened;
	struct tw_scl *s = e->chan.scl;

	if (other->flags & TW_SAY_FENCE)
		s->fence = true;
	if (s->sender) {
		s->ring = map_ring(other);
		s->by_message = !s->ring;
		if (s->ring)
			tw_chan_say(n, e, TW_SAY_MAPPED, 0);
		else
			tw_log(TW_LOG_INFO, "scalars of endpoint %x travel as messages", e->handle);
	}
	atomic_store_explicit(&s->state, READY, memory_order_release);
}

void tw_scl_peer_closed(struct tw_endp *e)
{
	if (e->chan.scl)
		atomic_store_explicit(&e->chan.scl->state, ENDED, memory_order_release);
}

void tw_scl_close(struct tw_endp *e)
{
	struct tw_scl *s = e->chan.scl;

	e->chan.scl = NULL;
	tw_lock(&s->lock);
	atomic_store_explicit(&s->handle, 0, memory_order_relaxed);
	atomic_store_explicit(&s->state, ENDED, memory_order_relaxed);
	if (s->ring)
		munmap(s->ring, TW_SCL_BYTES);
	s->ring = NULL;
	if (s->fd >= 0)
		tw_fd_close(s->fd);
	tw_unlock(&s->lock);
	give_end(s);
}

void tw_scl_hear(struct tw_node *n, struct tw_endp *e, const struct tw_say *say)
{
	struct tw_scl *s = e->chan.scl;

	(void)n;
	/* A wake-up has done its work by coming. */
	if (say->what == TW_SAY_MAPPED && s->fd >= 0) {
		tw_fd_close(s->fd);
		s->fd = -1;
	}
}

void tw_scl_arrived(struct tw_node *n, struct tw_endp *e, unsigned size, uint64_t value)
{
	struct tw_scl *s = e->chan.scl;

	if (s->sender)
		return;
	s->by_message = true;
	tw_scl_put(&s->feed, s->ring, value, size & 3);
	n->ep->events++;
}

/* Waiting -------------------------------------------------------------------------- */

struct wait {
	uint32_t handle;
	bool sender;
	struct tw_node *node;
};

/* Whether there is something to do, if only to fail. */
static bool possible(const struct wait *w, struct tw_scl *s)
{
	enum state state = state_of(s);

	if (state == ENDED)
		return true;
	if (!w->sender)
		return tw_scl_look(&s->pos, s->ring) >= 0;
	if (state == OPENING)
		return false;
	if (s->by_message)
		return tw_endp_find(w->node, s->endpoint)->chan.credits != 0;
	return !tw_scl_full(&s->pos, s->ring);
}

/*
 * A mark tells the other end that we sleep; who wakes us takes it away. After
 * setting it, a last look: pairs with the other end's look at it after a store.
 */
static bool possible_or_marked(struct tw_ep *ep, void *arg)
{
	struct wait *w = arg;
	struct tw_scl *s = enter(w->handle, w->sender);
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
	struct tw_ep *ep = tw_mc_enter(&w.node);

	if (!ep)
		return MCAPI_ENOT_HANDLE;
	waited = tw_mc_wait(w.node, possible_or_marked, &w, timeout);
	tw_mc_leave(ep);
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
		struct tw_scl *s = enter(handle, sender);
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
	struct tw_node *n;
	struct tw_ep *ep = tw_mc_enter(&n);
	struct tw_scl *s;
	struct tw_endp *e = NULL;

	if (!ep)
		return;
	s = enter(handle, sender);
	if (s) {
		e = tw_endp_find(n, s->endpoint);
		tw_unlock(&s->lock);
	}
	if (e && e->chan.bound)
		tw_chan_say(n, e, TW_SAY_WAKE, 0);
	tw_mc_leave(ep);
}

/* Whether the other end sleeps; it is woken once. */
static inline bool sleeps(const struct tw_scl *s, _Atomic(uint32_t) *mark)
{
	if (tw_unlikely(s->fence))
		atomic_thread_fence(memory_order_seq_cst);
	tw_barrier_compiler();
	return tw_unlikely(atomic_load_explicit(mark, memory_order_relaxed)) &&
	       atomic_exchange(mark, 0);
}

/* Sending -------------------------------------------------------------------------- */

static mcapi_status_t send_message(uint32_t handle, uint64_t value, unsigned code)
{
	mcapi_status_t status = MCAPI_INCOMPLETE;
	struct tw_node *n;
	struct tw_ep *ep = tw_mc_enter(&n);
	struct tw_scl *s = ep ? enter(handle, true) : NULL;
	struct tw_endp *e = NULL;
	struct tw_mreq m;
	struct tw_req *r;

	if (s) {
		e = tw_endp_find(n, s->endpoint);
		tw_unlock(&s->lock);
	}
	if (!e || e->chan.peer_closed) {
		status = MCAPI_ENOT_HANDLE;
	} else if (e->chan.credits) {
		tw_mreq_init(&m, TW_Q_PKT_SEND);
		r = tw_req_new1(ep, TW_SEND, (char *)&value, sizeof(value));
		if (r) {
			e->chan.credits--;
			r->match = tw_mc_match(TW_K_SCL, code, e->chan.epoch, e->chan.other,
					       e->handle);
			status = tw_mreq_carry(n, &m, r, tw_node_of(e->chan.other),
					       MCAPI_ENOT_HANDLE);
			if (status == MCAPI_INCOMPLETE)
				status = tw_mreq_wait(n, &m, -1, MCAPI_ENOT_HANDLE);
		}
	}
	if (ep)
		tw_mc_leave(ep);
	return status;
}

static tw_noinline void send_slow(uint32_t handle, uint64_t value, unsigned code,
				  mcapi_status_t *status)
{
	struct tw_scl *s;

	for (;;) {
		bool by_message, done = false, ended, must_wake = false;
		int timeout;

		s = enter(handle, true);
		*status = MCAPI_ENOT_HANDLE;
		if (!s)
			return;
		ended = state_of(s) == ENDED;
		by_message = state_of(s) == READY && s->by_message;
		timeout = s->timeout;
		if (state_of(s) == READY && !by_message) {
			done = tw_scl_put(&s->pos, s->ring, value, code);
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

static inline void send(uint32_t handle, uint64_t value, unsigned code, mcapi_status_t *status)
{
	struct tw_scl *s;

	if (tw_unlikely(!status))
		return;
	s = enter(handle, true);
	if (tw_likely(s && state_of(s) == READY && s->ring &&
		      tw_scl_put(&s->pos, s->ring, value, code))) {
		bool must_wake = sleeps(s, &s->ring->reader_sleeps);

		tw_unlock(&s->lock);
		if (tw_unlikely(must_wake))
			wake(handle, true);
		*status = MCAPI_SUCCESS;
		return;
	}
	if (s)
		tw_unlock(&s->lock);
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
	struct tw_node *n;
	struct tw_ep *ep = tw_mc_enter(&n);
	struct tw_scl *s = ep ? enter(handle, false) : NULL;
	struct tw_endp *e;
	uint32_t taken;

	if (s) {
		taken = s->taken;
		s->taken = 0;
		e = tw_endp_find(n, s->endpoint);
		tw_unlock(&s->lock);
		if (e)
			tw_chan_took(n, e, taken, 0);
	}
	if (ep)
		tw_mc_leave(ep);
}

/* Takes a scalar that is there; unlocks. */
static inline uint64_t take(struct tw_scl *s, uint32_t handle, int code, unsigned wanted,
			    mcapi_status_t *status)
{
	bool must_wake = false, must_report = false;
	uint64_t value = 0;

	/* One of another size stays for a receive of that size. */
	*status = MCAPI_ESCL_SIZE;
	if (tw_likely(code == (int)wanted)) {
		*status = MCAPI_SUCCESS;
		if (tw_unlikely(tw_scl_take(&s->pos, s->ring, &value)))
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

static tw_noinline uint64_t recv_slow(uint32_t handle, unsigned wanted, mcapi_status_t *status)
{
	struct tw_scl *s;

	for (;;) {
		bool ended;
		int code, timeout;

		s = enter(handle, false);
		*status = MCAPI_ENOT_HANDLE;
		if (!s)
			return 0;
		/* In this order: what was sent before the end is received. */
		ended = state_of(s) == ENDED;
		code = tw_scl_look(&s->pos, s->ring);
		if (code >= 0)
			return take(s, handle, code, wanted, status);
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

static inline uint64_t recv(uint32_t handle, unsigned wanted, mcapi_status_t *status)
{
	struct tw_scl *s;
	int code;

	if (tw_unlikely(!status))
		return 0;
	s = enter(handle, false);
	if (tw_unlikely(!s)) {
		*status = MCAPI_ENOT_HANDLE;
		return 0;
	}
	/* Mostly it is about to come. */
	for (unsigned i = 0; i < FIRST_LOOKS; i++) {
		code = tw_scl_look(&s->pos, s->ring);
		if (tw_likely(code >= 0))
			return take(s, handle, code, wanted, status);
	}
	tw_unlock(&s->lock);
	return recv_slow(handle, wanted, status);
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
	struct tw_node *n;
	struct tw_scl *s;
	struct tw_ep *ep;

	if (!mcapi_status)
		return MCAPI_NULL;
	/* What comes by message, and the other end's closing, come with progress. */
	ep = tw_mc_enter(&n);
	if (ep) {
		tw_progress(ep);
		tw_mc_leave(ep);
	}
	s = enter(receive_handle, false);
	*mcapi_status = MCAPI_ENOT_HANDLE;
	if (!s)
		return MCAPI_NULL;
	if (state_of(s) != ENDED)
		*mcapi_status = MCAPI_SUCCESS;
	count = tw_scl_count(s->pos, s->ring);
	if (count)
		*mcapi_status = MCAPI_SUCCESS;
	tw_unlock(&s->lock);
	return count;
}
