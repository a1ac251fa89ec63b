/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ends of scalar channels. A table of the process keeps them for ever, so that a handle
 * can be checked without the node's lock.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fds.h"
#include "shmem/sealed.h"
#include "base/sys.h"
#include "mcapi/chan.h"
#include "mcapi/scl.h"

#define REUSE                                                                                      \
	4096 /* ends that exist before one is used again, as its lock may have lost its bias */
/* Scalars that the ring takes whatever the age of head. */
#define WINDOW ((TW_WORDS_LINES - TW_WORDS_HEAD_LINES) * TW_WORDS_SLOTS)

static _Atomic(struct tw_mcapi_scl *) chunks[TW_MCAPI_SCL_CHUNKS];

struct tw_words_token tw_mcapi_no_token[2] = {{.ours = true}, {.ours = false}};

_Thread_local struct tw_mcapi_scl_known tw_mcapi_scl_known[TW_MCAPI_SCL_KNOWN] = {
	[0 ... TW_MCAPI_SCL_KNOWN - 1] = {.key = UINT64_MAX}};

static struct {
	pthread_mutex_t mutex;
	unsigned made;	     /* ends that were ever used */
	struct tw_list used; /* closed ones, the oldest first */
} ends = {.mutex = PTHREAD_MUTEX_INITIALIZER, .used = {&ends.used, &ends.used}};

/* The end of a handle's number, which may have another handle now. */
static struct tw_mcapi_scl *numbered(uint32_t handle)
{
	uint32_t number = handle & 0xffff;
	/* [scalar-table] */
	struct tw_mcapi_scl *s =
		atomic_load_explicit(&chunks[number / TW_MCAPI_SCL_CHUNK], memory_order_acquire);

	return s ? s + number % TW_MCAPI_SCL_CHUNK : NULL;
}

struct tw_mcapi_scl *tw_mcapi_scl_at(uint32_t handle, bool sender)
{
	struct tw_mcapi_scl *s = numbered(handle);
	uint64_t key = tw_mcapi_scl_key(handle, sender);

	/* A closed end has the key 0, which no handle has. */
	if (!s || !handle)
		return NULL;
	/* [scalar-key] */
	return atomic_load_explicit(&s->key, memory_order_acquire) == key ? s : NULL;
}

mcapi_endpoint_t tw_mcapi_scl_endpoint(uint32_t handle)
{
	const struct tw_mcapi_scl *s = numbered(handle);

	return s ? s->endpoint : 0;
}

struct tw_mcapi_scl *tw_mcapi_scl_enter(uint32_t handle, bool sender)
{
	struct tw_mcapi_scl_known *k = &tw_mcapi_scl_known[handle % TW_MCAPI_SCL_KNOWN];
	/* Before locking: a stale handle must not take the bias of a lock. */
	struct tw_mcapi_scl *s = tw_mcapi_scl_at(handle, sender);

	if (!s)
		return NULL;
	tw_lock(&s->lock);
	if (tw_mcapi_scl_at(handle, sender) != s || s->node != tw_mcapi_self()) {
		tw_unlock(&s->lock);
		return NULL;
	}
	k->end = s;
	k->key = tw_lock_way(&s->lock, &k->way) ? tw_mcapi_scl_key(handle, sender) : UINT64_MAX;
	return s;
}

struct tw_mcapi_endp *tw_mcapi_scl_endp(struct tw_mcapi_node *n, uint32_t handle, bool sender)
{
	struct tw_mcapi_scl *s = tw_mcapi_scl_enter(handle, sender);
	struct tw_mcapi_endp *e = s ? tw_mcapi_endp_find(n, s->endpoint) : NULL;

	if (s)
		tw_unlock(&s->lock);
	return e;
}

void tw_mcapi_scl_forget(void)
{
	for (unsigned i = 0; i < TW_MCAPI_SCL_KNOWN; i++)
		tw_mcapi_scl_known[i].key = UINT64_MAX;
}

/* One that was never used. */
static struct tw_mcapi_scl *fresh_end(void)
{
	unsigned chunk = ends.made / TW_MCAPI_SCL_CHUNK, i = ends.made % TW_MCAPI_SCL_CHUNK;
	struct tw_mcapi_scl *all;

	if (chunk == TW_MCAPI_SCL_CHUNKS)
		return NULL;
	all = atomic_load_explicit(&chunks[chunk], memory_order_relaxed);
	if (!all) {
		all = aligned_alloc(TW_LINE, TW_MCAPI_SCL_CHUNK * sizeof(*all));
		if (!all)
			return NULL;
		memset(all, 0, TW_MCAPI_SCL_CHUNK * sizeof(*all));
		for (unsigned k = 0; k < TW_MCAPI_SCL_CHUNK; k++)
			tw_lock_init(&all[k].lock, tw_settings.single_threaded);
		/* [scalar-table] */
		atomic_store_explicit(&chunks[chunk], all, memory_order_release);
	}
	all[i].number = ends.made++;
	return &all[i];
}

static struct tw_mcapi_scl *new_end(void)
{
	struct tw_mcapi_scl *s = NULL;

	tw_mutex_lock(&ends.mutex);
	if (ends.made < REUSE || tw_list_empty(&ends.used))
		s = fresh_end();
	if (!s)
		s = tw_list_take(&ends.used, struct tw_mcapi_scl, unused);
	if (s)
		s->gen = s->gen % 0xffff + 1;
	tw_mutex_unlock(&ends.mutex);
	return s;
}

static void give_end(struct tw_mcapi_scl *s)
{
	tw_mutex_lock(&ends.mutex);
	tw_list_add_tail(&ends.used, &s->unused);
	tw_mutex_unlock(&ends.mutex);
}

void tw_mcapi_scl_forked(void)
{
	pthread_mutex_init(&ends.mutex, NULL);
	for (unsigned i = 0; i < ends.made; i++)
		atomic_store(&chunks[i / TW_MCAPI_SCL_CHUNK][i % TW_MCAPI_SCL_CHUNK].key, 0);
	/* Threads of the parent may hold their locks: never used again. */
	tw_list_init(&ends.used);
}

/* Opening and closing ------------------------------------------------------------ */

static bool make_ring(struct tw_mcapi_scl *s)
{
	void *p;

	if (tw_sealed_make("tagwire-scalars", TW_WORDS_BYTES, TW_SEALS, &s->fd, &p) == TW_OK) {
		tw_fd_own(s->fd);
		/* Allocates the pages now, not at the first scalar. */
		memset(p, 0, TW_WORDS_BYTES);
	} else {
		/* Without a descriptor: shared, so that it can be mapped again within the node. */
		p = mmap(NULL, TW_WORDS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			 -1, 0);
		if (p == MAP_FAILED)
			return false;
		madvise(p, TW_WORDS_BYTES, MADV_DONTFORK);
	}
	s->ring = p;
	if (!tw_sys_random(&s->ring->cookie, sizeof(s->ring->cookie)))
		s->ring->cookie = tw_clock();
	return true;
}

uint32_t tw_mcapi_scl_open(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, bool sender)
{
	struct tw_mcapi_scl *s = new_end();
	uint32_t handle;

	if (!s)
		return 0;
	handle = s->gen << 16 | s->number;
	s->sender = sender;
	s->fence = !tw_barrier_global();
	s->by_message = s->shared = false;
	s->backoff = (struct tw_backoff){0};
	s->node = n;
	s->endpoint = e->handle;
	s->reported = s->traced = 0;
	s->timeout = e->timeout;
	s->ring = NULL;
	s->fd = -1;
	tw_words_pos_init(&s->pos);
	tw_words_pos_init(&s->feed);
	atomic_store_explicit(&s->state, TW_MCAPI_SCL_OPENING, memory_order_relaxed);
	atomic_store_explicit(&s->open, NULL, memory_order_relaxed);
	atomic_store_explicit(&s->token, &tw_mcapi_no_token[sender], memory_order_relaxed);
	if (!sender && !make_ring(s)) {
		give_end(s);
		return 0;
	}
	e->chan.scl = s;
	/* [scalar-key] */
	atomic_store_explicit(&s->key, tw_mcapi_scl_key(handle, sender), memory_order_release);
	return handle;
}

void tw_mcapi_scl_describe(struct tw_mcapi_endp *e, struct tw_mcapi_ctrl *ctrl)
{
	struct tw_mcapi_scl *s = e->chan.scl;

	ctrl->value = WINDOW;
	if (s->sender || s->fd < 0)
		return;
	ctrl->has_fd = 1;
	ctrl->fd = (uint32_t)s->fd;
	ctrl->cookie = s->ring->cookie;
}

/* Two opposite channels -------------------------------------------------------------- */

/*
 * The token slot is in the ring of the channel to the node with the lower number. That node
 * finds the pair and sends PAIRED; the other node has the token first, so that the slot is
 * empty until both know. It is mapped again, as either channel may be closed first.
 */
static struct tw_words_token *map_token(struct tw_words *r, bool second)
{
	struct tw_words_token *t = malloc(sizeof(*t));
	struct tw_words *again;

	if (!t)
		return NULL;
	again = mremap(r, 0, TW_PAGE, MREMAP_MAYMOVE);
	if (again == MAP_FAILED) {
		free(t);
		return NULL;
	}
	tw_words_token_init(t, &again->token, second);
	t->refs = 2;
	return t;
}

static void free_token(struct tw_words_token *t)
{
	munmap((char *)t->slot - offsetof(struct tw_words, token), TW_PAGE);
	free(t);
}

static bool may_pair(const struct tw_mcapi_endp *e, bool sender, uint32_t node)
{
	const struct tw_mcapi_chan *c = &e->chan;
	struct tw_mcapi_scl *s = c->open == TW_MCAPI_CH_OPEN ? c->scl : NULL;

	return s && s->sender == sender && s->shared && !c->peer_closed &&
	       tw_mcapi_node_of(c->other) == node && !tw_mcapi_scl_paired(s);
}

static uint32_t scl_end_distance(const struct tw_mcapi_endp *a, const struct tw_mcapi_endp *b)
{
	return a->handle > b->handle ? a->handle - b->handle : b->handle - a->handle;
}

/* Pairs a channel whose ring is shared with an opposite one. */
static void pair(struct tw_mcapi_node *n, struct tw_mcapi_endp *e)
{
	struct tw_mcapi_endp *best = NULL, *other, *out, *in;
	uint32_t node = tw_mcapi_node_of(e->chan.other);
	struct tw_words_token *t;

	if (n->number >= node || !may_pair(e, e->chan.sender, node))
		return;
	/* By the nearest port: channels used together tend to have neighbouring ports. */
	for (uint32_t port = 0; (other = tw_mcapi_endp_next(n, &port));)
		if (may_pair(other, !e->chan.sender, node) &&
		    (!best || scl_end_distance(other, e) < scl_end_distance(best, e)))
			best = other;
	if (!best)
		return;
	out = e->chan.sender ? e : best;
	in = e->chan.sender ? best : e;
	t = map_token(in->chan.scl->ring, false);
	if (!t)
		return;
	/* [token-known] */
	atomic_store_explicit(&in->chan.scl->token, t, memory_order_release);
	atomic_store_explicit(&out->chan.scl->token, t, memory_order_release);
	tw_mcapi_chan_ctrl_send(n, out, TW_MCAPI_CTRL_PAIRED,
				in->chan.other << 16 | (in->handle & 0xffff));
}

/* PAIRED; ports: of the opposite channel's sender and receiver. */
static void scl_end_paired(struct tw_mcapi_node *n, struct tw_mcapi_endp *in, uint32_t ports)
{
	uint32_t node = tw_mcapi_node_of(in->chan.other);
	struct tw_mcapi_endp *out = tw_mcapi_endp_find(n, n->number << 16 | ports >> 16);
	struct tw_words_token *t;

	if (node >= n->number || in->chan.scl->sender || in->chan.open != TW_MCAPI_CH_OPEN ||
	    !out || !may_pair(out, true, node) || (out->chan.other & 0xffff) != (ports & 0xffff) ||
	    tw_mcapi_scl_paired(in->chan.scl))
		return;
	t = map_token(out->chan.scl->ring, true);
	if (!t)
		return;
	/* [token-known] The receiver first: it polls the slot before the sender passes it on. */
	atomic_store_explicit(&in->chan.scl->token, t, memory_order_release);
	atomic_store_explicit(&out->chan.scl->token, t, memory_order_release);
}

/* The number that this process knows another by is not the one that it has for itself. */
static struct tw_words *map_ring(struct tw_mcapi_node *n, const struct tw_mcapi_ctrl *ctrl)
{
	const struct tw_peer *p = tw_peer_at(n->ep, n->peers[tw_mcapi_node_of(ctrl->b)].addr);
	struct tw_words *r = NULL;
	char path[64];
	int fd;

	if (!ctrl->has_fd || !p || !p->link || !p->link->pid)
		return NULL;
	snprintf(path, sizeof(path), "/proc/%d/fd/%u", (int)p->link->pid, ctrl->fd);
	fd = tw_sys_open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return NULL;
	if (tw_sealed_sound(fd, TW_WORDS_BYTES))
		r = tw_sealed_map(fd, TW_WORDS_BYTES, PROT_READ | PROT_WRITE);
	tw_sys_close(fd);
	if (r && r->cookie != ctrl->cookie) {
		munmap(r, TW_WORDS_BYTES);
		return NULL;
	}
	return r;
}

/* The ring of a channel within the node, once more. */
static struct tw_words *own_ring(struct tw_mcapi_node *n, const struct tw_mcapi_endp *e)
{
	const struct tw_mcapi_endp *in = tw_mcapi_endp_find(n, e->chan.other);
	void *again;

	if (!in || in->chan.other != e->handle || !in->chan.scl || !in->chan.scl->ring)
		return NULL;
	if (in->chan.scl->fd >= 0)
		return tw_sealed_map(in->chan.scl->fd, TW_WORDS_BYTES, PROT_READ | PROT_WRITE);
	again = mremap(in->chan.scl->ring, 0, TW_WORDS_BYTES, MREMAP_MAYMOVE);
	return again != MAP_FAILED ? again : NULL;
}

void tw_mcapi_scl_ready(struct tw_mcapi_node *n, struct tw_mcapi_endp *e)
{
	const struct tw_mcapi_ctrl *other = &e->chan.opened;
	struct tw_mcapi_scl *s = e->chan.scl;

	if (other->flags & TW_MCAPI_CTRL_FENCE)
		s->fence = true;
	if (s->sender) {
		s->ring = own_ring(n, e);
		if (!s->ring)
			s->ring = map_ring(n, other);
		s->by_message = !s->ring;
		s->shared = s->ring != NULL;
		if (s->ring)
			tw_mcapi_chan_ctrl_send(n, e, TW_MCAPI_CTRL_MAPPED, 0);
		else
			tw_log(TW_LOG_INFO, "scalars of endpoint %x travel as messages", e->handle);
	}
	/* [scalar-open] With a fence or a trace, every send and receive takes the long path. */
	if (!s->by_message && !s->fence && !n->ep->traced)
		atomic_store_explicit(&s->open, s->ring, memory_order_release);
	/* [scalar-state] */
	atomic_store_explicit(&s->state, TW_MCAPI_SCL_READY, memory_order_release);
	pair(n, e);
}

static void scl_end_over(struct tw_mcapi_scl *s)
{
	atomic_store_explicit(&s->open, NULL, memory_order_relaxed);
	/* [scalar-state] */
	atomic_store_explicit(&s->state, TW_MCAPI_SCL_ENDED, memory_order_release);
}

void tw_mcapi_scl_peer_closed(struct tw_mcapi_endp *e)
{
	if (e->chan.scl)
		scl_end_over(e->chan.scl);
}

bool tw_mcapi_scl_close(struct tw_mcapi_endp *e, bool wait)
{
	struct tw_mcapi_scl *s = e->chan.scl;
	struct tw_words_token *t;

	if (wait)
		tw_lock(&s->lock);
	else if (!tw_lock_try(&s->lock))
		return false;
	e->chan.scl = NULL;
	atomic_store_explicit(&s->key, 0, memory_order_relaxed);
	scl_end_over(s);
	if (s->ring)
		munmap(s->ring, TW_WORDS_BYTES);
	s->ring = NULL;
	if (s->fd >= 0)
		tw_fd_close(s->fd);
	t = tw_mcapi_scl_paired(s);
	atomic_store_explicit(&s->token, &tw_mcapi_no_token[s->sender], memory_order_relaxed);
	if (t && --t->refs == 0)
		free_token(t);
	tw_unlock(&s->lock);
	give_end(s);
	return true;
}

_Static_assert(TW_MCAPI_SCALARS == TW_WORDS_LINES * TW_WORDS_SLOTS, "one size");

/* Without its lock, as locking would take the bias from the thread that receives. */
uint32_t tw_mcapi_scl_queued(const struct tw_mcapi_endp *e)
{
	const struct tw_mcapi_scl *s = e->chan.scl;

	return s && s->ring ? tw_mcapi_scl_count(s) : 0;
}

bool tw_mcapi_scl_inside(const struct tw_mcapi_node *n)
{
	for (unsigned i = 0; i < TW_MCAPI_SCL_CHUNKS; i++) {
		const struct tw_mcapi_scl *s = atomic_load(&chunks[i]);

		for (unsigned k = 0; s && k < TW_MCAPI_SCL_CHUNK; k++)
			/* In this order: the node of a lock that this thread holds stays. */
			if (tw_lock_mine(&s[k].lock) && s[k].node == n)
				return true;
	}
	return false;
}

void tw_mcapi_scl_on_ctrl(struct tw_mcapi_node *n, struct tw_mcapi_endp *e,
			  const struct tw_mcapi_ctrl *ctrl)
{
	struct tw_mcapi_scl *s = e->chan.scl;

	/* WAKE needs no action: its arrival has woken the waiting calls. */
	if (ctrl->what == TW_MCAPI_CTRL_MAPPED && s->fd >= 0) {
		tw_fd_close(s->fd);
		s->fd = -1;
		s->shared = true;
		pair(n, e);
	} else if (ctrl->what == TW_MCAPI_CTRL_PAIRED) {
		scl_end_paired(n, e, ctrl->value);
	}
}

void tw_mcapi_scl_arrived(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, unsigned size,
			  uint64_t value)
{
	struct tw_mcapi_scl *s = e->chan.scl;

	if (s->sender)
		return;
	s->by_message = true;
	atomic_store_explicit(&s->open, NULL, memory_order_relaxed);
	tw_words_put(&s->feed, s->ring, value, size & 3);
	n->ep->events++;
}
