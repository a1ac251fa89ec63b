/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints: opening, closing, and the table that checks their handles. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/fds.h"
#include "base/log.h"
#include "base/sys.h"
#include "base/thread.h"
#include "base/wakefd.h"
#include "engine/trace.h"
#include "engine/window.h"

#define CLOSE_POLLS 1000 /* polls to send what was accepted */
#define SLOT_REST 16	 /* other slots that are given back before one is taken again */

struct tw_slot_entry tw_slots[TW_MAX_OPEN];
static pthread_mutex_t slots_mutex = PTHREAD_MUTEX_INITIALIZER;
static bool slot_taken[TW_MAX_OPEN]; /* under slots_mutex */
static uint32_t slot_given[TW_MAX_OPEN], slots_given; /* by give_slot(), the same */
static _Atomic(unsigned) slots_used;

unsigned tw_slots_used(void)
{
	return atomic_load_explicit(&slots_used, memory_order_relaxed);
}

bool tw_in_any_handler(void)
{
	for (unsigned i = 0; i < tw_slots_used(); i++)
		if (tw_handler_in(&tw_slots[i]))
			return true;
	return false;
}

/* Under slots_mutex. 0: there is none. */
static unsigned free_slot(uint32_t rest)
{
	for (unsigned i = 1; i < TW_MAX_OPEN; i++)
		if (!slot_taken[i] && (i >= tw_slots_used() || slots_given - slot_given[i] >= rest))
			return i;
	return 0;
}

/*
 * A slot rests. A signal handler that closes an endpoint and opens another inside tw_enter_fast(),
 * when the handle is compared and the lock not yet entered, must not get the same slot: the call
 * that it interrupted would act on the new endpoint.
 */
static struct tw_slot_entry *endpoint_take_slot(void)
{
	struct tw_slot_entry *s = NULL;
	unsigned i;

	tw_mutex_lock(&slots_mutex);
	i = free_slot(SLOT_REST);
	i = i ? i : free_slot(0);
	if (i) {
		slot_taken[i] = true;
		s = &tw_slots[i];
		if (i >= tw_slots_used())
			atomic_store(&slots_used, i + 1);
	}
	tw_mutex_unlock(&slots_mutex);
	if (s && !s->ready) {
		tw_lock_init(&s->lock, tw_settings.single_threaded);
		s->ready = true;
	}
	return s;
}

/* The slot's endpoint is that of the handle. */
static bool is_open(const struct tw_slot_entry *s, uint64_t handle)
{
	return handle &&
	       (atomic_load(&s->handle) & ~TW_HANDLE_BARRED) == (handle & ~TW_HANDLE_BARRED);
}

/* Takes the handle out of its slot. False: another call has. */
static bool end_handle(struct tw_slot_entry *s, uint64_t handle)
{
	uint64_t h = atomic_load(&s->handle);

	while (((h ^ handle) & ~TW_HANDLE_BARRED) == 0)
		if (atomic_compare_exchange_weak(&s->handle, &h, 0))
			return true;
	return false;
}

void tw_handler_begin(struct tw_slot_entry *s)
{
	uint64_t h = atomic_load(&s->handle);

	atomic_store_explicit(&s->handler, tw_thread_id(), memory_order_relaxed);
	/* A signal handler of this thread may have ended the handle. */
	if (h)
		atomic_compare_exchange_strong(&s->handle, &h, h | TW_HANDLE_BARRED);
}

void tw_handler_end(struct tw_slot_entry *s)
{
	atomic_store_explicit(&s->handler, 0, memory_order_relaxed);
	atomic_fetch_and(&s->handle, ~TW_HANDLE_BARRED);
}

struct tw_ep *tw_enter_slow(uint64_t handle)
{
	struct tw_slot_entry *s = tw_slot_of(handle);

	if (!is_open(s, handle))
		return NULL;
	if (tw_handler_in(s))
		return s->ep;
	tw_lock(&s->lock);
	if (is_open(s, handle))
		return s->ep;
	tw_unlock_unbiased(&s->lock);
	return NULL;
}

static void give_slot(struct tw_slot_entry *s)
{
	tw_mutex_lock(&slots_mutex);
	slot_taken[s - tw_slots] = false;
	slot_given[s - tw_slots] = slots_given++;
	s->name = 0;
	tw_mutex_unlock(&slots_mutex);
}

static void wake_ready(struct tw_watch *w, uint32_t events)
{
	struct tw_ep *ep = tw_container(w, struct tw_ep, wake_watch);

	(void)events;
	/* Another thread has taken the wake-up of the sleeping one. */
	if (ep->host.state == TW_ASLEEP)
		tw_wake_leader(ep);
}

static uint32_t random_session(void)
{
	uint32_t n = 0;

	while (n == 0)
		if (!tw_sys_random(&n, sizeof(n)))
			n = (uint32_t)tw_clock();
	return n;
}

static enum tw_err open_providers(struct tw_ep *ep)
{
	const struct tw_provider *list[TW_MAX_PROVIDERS];
	unsigned n = tw_provider_list(tw_settings.providers, list);

	for (unsigned i = 0; i < n; i++) {
		enum tw_err err = list[i]->open(&ep->host, &ep->provs[i].instance);

		if (err != TW_OK)
			return err;
		ep->provs[i].ops = list[i];
		ep->nprovs++;
		if (list[i]->wake)
			ep->lender = ep->provs[i];
		else
			ep->polled |= 1u << i;
	}
	return TW_OK;
}

static void close_providers(struct tw_ep *ep)
{
	ep->polled = 0;
	ep->lender.ops = NULL;
	while (ep->nprovs) {
		ep->nprovs--;
		ep->provs[ep->nprovs].ops->close(ep->provs[ep->nprovs].instance);
	}
}

/* A cheap test first, for many endpoints in one process. */
static bool open_here(const struct tw_ep *ep, uint32_t id)
{
	bool found = false;

	tw_mutex_lock(&slots_mutex);
	for (unsigned i = 0; i < tw_slots_used() && !found; i++)
		found = slot_taken[i] && tw_slots[i].name == (ep->host.self.nic_id << 16 | id);
	tw_mutex_unlock(&slots_mutex);
	return found;
}

static void note_name(const struct tw_ep *ep, uint64_t name)
{
	tw_mutex_lock(&slots_mutex);
	ep->slot->name = name;
	tw_mutex_unlock(&slots_mutex);
}

/* Opens with this id, or with one that is free. */
static enum tw_err claim_id(struct tw_ep *ep, uint32_t number)
{
	const struct tw_interface *iface = ep->iface;
	uint32_t n = number == TW_ANY_ID ? iface->ids : 1;
	enum tw_err err = TW_EBUSY;

	for (uint32_t i = 0; i < n && err == TW_EBUSY; i++) {
		uint32_t any = iface->highest ? n - 1 - i : i;
		uint32_t id = iface->first_id + (number == TW_ANY_ID ? any : number);

		ep->host.holder = open_here(ep, id) ? (int)tw_sys_pid() : 0;
		if (ep->host.holder)
			continue;
		ep->host.self.endpoint_id = id;
		err = open_providers(ep);
		if (err == TW_OK)
			note_name(ep, tw_where(&ep->host.self));
		else
			close_providers(ep);
	}
	return err;
}

/* The endpoint's own address is valid without a connect. */
static enum tw_err make_self(struct tw_ep *ep)
{
	struct tw_ident *me = &ep->host.self;
	struct tw_req *r = tw_connect_new(ep, me->nic_id, me->endpoint_id, me->filter, TW_FOREVER);

	if (!r)
		return TW_ENOMEM;
	tw_req_forget(r);
	tw_connect(ep, r);
	ep->self = tw_peer_find(ep, tw_where(me));
	return ep->self ? TW_OK : TW_ENOMEM;
}

static void endpoint_destroy(struct tw_ep *ep)
{
	if (TW_USES_WINDOWS)
		tw_windows_fini(ep);
	close_providers(ep);
	tw_reqs_fini(ep);
	tw_unexp_msgs_fini(ep);
	tw_match_free(ep->match);
	tw_sources_free(ep);
	for (uint32_t i = 0; i < ep->npeers; i++) {
		tw_failure_forget(ep->peers[i]);
		free(ep->peers[i]);
	}
	free(ep->peers);
	tw_pollable_close(&ep->pollable);
	tw_fd_close(ep->wakefd);
	tw_fd_close(ep->host.epfd);
	tw_trace_close(ep);
	tw_stats_close(ep);
	free(ep);
}

static enum tw_err make_descriptors(struct tw_ep *ep)
{
	epoll_data_t what = {.ptr = &ep->wake_watch};

	ep->host.epfd = tw_fd_own(tw_sys_epoll_create());
	ep->wakefd = tw_wakefd_open(ep->host.epfd, what);
	ep->wake_watch.ready = wake_ready;
	if (ep->wakefd >= 0)
		return TW_OK;
	tw_log_refused("epoll_create1, eventfd");
	return TW_ENOMEM;
}

static enum tw_err endpoint_build(struct tw_ep *ep, const struct tw_open *how)
{
	enum tw_err err = make_descriptors(ep);

	if (err == TW_OK)
		err = tw_stats_open(ep);
	if (err != TW_OK)
		return err;
	ep->host.counters = ep->counters;
	if (!(ep->match = tw_match_new()))
		return TW_ENOMEM;
	err = claim_id(ep, how->number);
	if (how->holder)
		*how->holder = ep->host.holder;
	if (err != TW_OK)
		return err;
	ep->stats->endpoint_id = ep->host.self.endpoint_id;
	tw_trace_open(ep);
	return make_self(ep);
}

static struct tw_ep *new_ep(const struct tw_open *how, struct tw_slot_entry *s)
{
	size_t size = tw_max(how->iface->ep_size, sizeof(struct tw_ep));
	const struct tw_board *boards;
	struct tw_ep *ep;

	size = (size + TW_LINE - 1) & ~(size_t)(TW_LINE - 1);
	ep = aligned_alloc(TW_LINE, size);
	if (!ep)
		return NULL;
	memset(ep, 0, size);
	tw_boards(&boards);
	ep->slot = s;
	ep->board = how->board;
	ep->unexp_max = how->unexp_max;
	ep->fetch_max = how->fetch_max;
	ep->iface = how->iface;
	ep->acts = ep->iface->attend != NULL;
	ep->unexpected = ep->iface->unexpected;
	ep->owner = how->owner;
	ep->eager_max = tw_settings.eager_max;
	ep->rndv = !strcmp(tw_settings.rndv, "copy")  ? TW_RNDV_COPY
		   : !strcmp(tw_settings.rndv, "get") ? TW_RNDV_GET
						      : TW_RNDV_AUTO;
	ep->host.epfd = ep->wakefd = ep->stats_fd = ep->pollable.fd = ep->pollable.event = -1;
	tw_list_init(&ep->done);
	tw_list_init(&ep->work);
	tw_list_init(&ep->open);
	tw_pool_init(&ep->reqs, sizeof(struct tw_req), TW_MAX_REQS);
	ep->host.up = &tw_upcalls;
	ep->host.self.nic_id = boards[how->board].nic_id;
	ep->host.self.session = random_session();
	ep->host.self.filter = how->filter;
	ep->host.boards = tw_local_nics(&ep->host.nboards);
	ep->host.nleading = tw_boards_leading();
	return ep;
}

static bool unsent(const struct tw_ep *ep)
{
	for (uint32_t i = 0; i < ep->npeers; i++)
		if (ep->peers[i]->state == TW_PEER_UP && (!tw_list_empty(&ep->peers[i]->replying) ||
							  !tw_list_empty(&ep->peers[i]->sending)))
			return true;
	return false;
}

bool tw_ep_inside(uint64_t handle)
{
	struct tw_slot_entry *s = tw_slot_of(handle);

	return is_open(s, handle) && (tw_lock_mine(&s->lock) || tw_waits_in(s));
}

/* True if no thread is in a call that may block. */
static bool no_callers(struct tw_ep *ep)
{
	if (!ep->nwaiting && (!ep->iface->ending || ep->iface->ending(ep)))
		return true;
	/* Wakes blocked callers, which then leave. */
	ep->events++;
	tw_wake_sleepers(ep);
	return false;
}

/* Ends an endpoint that no thread is inside. Releases the lock, held by its mutex. */
static void endpoint_end(struct tw_slot_entry *s)
{
	void (*ended)(void *) = s->ep->iface->ended;
	void *owner = s->ep->owner;

	/* Sends what was accepted, as far as the peers have space. */
	for (int i = 0; i < CLOSE_POLLS && unsent(s->ep); i++)
		tw_progress(s->ep);
	atomic_store_explicit(&s->deadline, 0, memory_order_relaxed);
	atomic_store_explicit(&s->requested, false, memory_order_relaxed);
	atomic_store_explicit(&s->next_check, 0, memory_order_relaxed);
	atomic_store_explicit(&s->alone, false, memory_order_relaxed);
	endpoint_destroy(s->ep);
	s->ep = NULL;
	tw_unlock_unbiased(&s->lock);
	tw_service_put();
	give_slot(s);
	if (ended)
		ended(owner);
}

bool tw_ep_finish(struct tw_slot_entry *s)
{
	if (!tw_lock_try(&s->lock))
		return false;
	if (!atomic_load(&s->left)) {
		/* Another thread has ended it: no bias of before may come back. */
		tw_unlock_unbiased(&s->lock);
		return true;
	}
	if (!no_callers(s->ep)) {
		tw_unlock(&s->lock);
		return false;
	}
	atomic_store(&s->left, false);
	endpoint_end(s);
	return true;
}

/* Ends endpoints that were left behind, if there is no service thread. */
static void finish_all(void)
{
	for (unsigned i = 0; !tw_service_running() && i < tw_slots_used(); i++)
		if (atomic_load(&tw_slots[i].left))
			tw_ep_finish(&tw_slots[i]);
}

/*
 * The interrupted call may hold any lock and cannot continue before the handler returns. So
 * this waits for nothing. The service thread does the rest when the call has ended, if it
 * ever does.
 */
enum tw_err tw_ep_leave_behind(uint64_t handle)
{
	struct tw_slot_entry *s = tw_slot_of(handle);
	struct tw_ep *ep = s->ep;

	if (!end_handle(s, handle))
		return TW_ECLOSED;
	ep->closing = true;
	for (unsigned i = 0; i < ep->nprovs; i++)
		if (ep->provs[i].ops->hide)
			ep->provs[i].ops->hide(ep->provs[i].instance);
	s->name = 0;
	tw_wake_closed(ep);
	/* From here on another thread may end it. */
	atomic_store(&s->left, true);
	tw_service_finish(s);
	return TW_OK;
}

enum tw_err tw_ep_open(const struct tw_open *how, uint64_t *handle)
{
	TW_NOT_CANCELLED;
	enum tw_err err = TW_ENOMEM;
	struct tw_slot_entry *s;
	uint64_t h;

	finish_all();
	s = endpoint_take_slot();
	if (!s)
		return TW_ENOMEM;
	if (tw_service_get() != TW_OK)
		goto no_service;
	s->ep = new_ep(how, s);
	if (!s->ep)
		goto no_memory;
	if (how->ep)
		*how->ep = s->ep;
	tw_lock_slow(&s->lock);
	err = endpoint_build(s->ep, how);
	/* Left by an endpoint of before, or of the parent of a forked child. */
	atomic_store(&s->next_check, 0);
	atomic_store(&s->alone, false);
	atomic_store(&s->requested, false);
	/* The service thread reads the handle as soon as it watches. */
	h = (uintptr_t)(++s->gen & 0x7fffffff) << 12 | (uintptr_t)(s - tw_slots);
	if (err == TW_OK) {
		s->iface = s->ep->iface;
		/* [handle] */
		atomic_store_explicit(&s->handle, h, memory_order_release);
		err = tw_service_watch(s);
		/* A check of the endpoint before may have ended without the handle. */
		tw_service_wake(s, tw_deadline(s->ep));
	}
	if (err != TW_OK) {
		atomic_store_explicit(&s->handle, 0, memory_order_relaxed);
		endpoint_destroy(s->ep);
		s->ep = NULL;
		tw_unlock_unbiased(&s->lock);
		goto no_memory;
	}
	tw_unlock(&s->lock);
	*handle = h;
	return TW_OK;

no_memory:
	tw_service_put();
no_service:
	give_slot(s);
	return err;
}

enum tw_err tw_ep_close(uint64_t handle)
{
	TW_NOT_CANCELLED;
	struct tw_slot_entry *s = tw_slot_of(handle);
	uint64_t since = 0;

	if (tw_ep_inside(handle))
		return tw_ep_leave_behind(handle);
	finish_all();
	if (!is_open(s, handle))
		return TW_ECLOSED;
	tw_lock_slow(&s->lock);
	if (!end_handle(s, handle)) {
		/* Unbiased, as a handler may have interrupted a call that looks at the bias. */
		tw_unlock_unbiased(&s->lock);
		return TW_ECLOSED;
	}
	s->ep->closing = true;
	while (!no_callers(s->ep)) {
		tw_unlock(&s->lock);
		tw_back_off(&since);
		tw_lock_slow(&s->lock);
	}
	endpoint_end(s);
	return TW_OK;
}

void tw_ep_forked(void)
{
	pthread_mutex_init(&slots_mutex, NULL);
	for (unsigned i = 0; i < tw_slots_used(); i++) {
		/* Of a free one, too: the service thread may have had it. */
		tw_slots[i].ready = false;
		if (!slot_taken[i])
			continue;
		atomic_store(&tw_slots[i].handle, 0);
		atomic_store(&tw_slots[i].deadline, 0);
		atomic_store(&tw_slots[i].handler, 0);
		tw_slots[i].ep = NULL;
		tw_slots[i].name = 0;
		atomic_store(&tw_slots[i].left, false);
		slot_taken[i] = false;
	}
	tw_service_forked();
	tw_fds_forked();
}
