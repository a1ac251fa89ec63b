/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Guests: nodes of other hosts, as holders of locks of this one. The process that is asked
 * tries at once, in the name of the guest. If the lock is taken, a thread waits for it as any
 * thread of this host does, and replies when it has it: nothing is polled over the network,
 * and locking and unlocking between nodes of this host knows nothing of guests.
 *
 * A guest ends with its node, or when the process that serves it loses the connection to it.
 * Then its locks are given back. If the process that serves it ends, the guest keeps them, and
 * its node finds another one. A request has a number, by which a repeated one is not done twice.
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/thread.h"
#include "mrapi/far.h"

#define POLL_US 500 /* until the last thread has ended */

struct waiter {
	struct tw_member *from;
	uint32_t session;
	struct tw_mrapi_owner guest;
	struct tw_mrapi_ctrl ctrl;
};

static _Atomic(uint32_t) waiters;

static bool is_guest(const struct tw_mrapi_node *n, const struct tw_member *from,
		     const struct tw_mrapi_ctrl *c)
{
	return atomic_load(&n->life) == TW_MRAPI_LIVE && n->host && n->where == from->where &&
	       n->domain == c->domain && n->number == c->id && n->there == c->node;
}

/* Another process serves it. */
static bool served_elsewhere(const struct tw_mrapi_node *n)
{
	return n->proc != tw_mrapi.proc && n->proc < TW_MRAPI_PROCS &&
	       (atomic_load(&tw_mrapi.seg->proc[n->proc].life) & 0xff) == TW_MRAPI_LIVE;
}

static void serve(struct tw_mrapi_node *n, const struct tw_member *from)
{
	n->proc = tw_mrapi.proc;
	n->session = from->addr.session;
}

void tw_mrapi_guest_called(struct tw_mrapi_node *n, const struct tw_member *from)
{
	if (n->where == from->where && !served_elsewhere(n))
		serve(n, from);
}

/* NULL: it has ended here. */
static struct tw_mrapi_node *guest_of(const struct tw_member *from, const struct tw_mrapi_ctrl *c)
{
	struct tw_mrapi_node *n = &tw_mrapi.seg->node[c->slot % MRAPI_MAX_NODES];

	if (is_guest(n, from, c) && n->proc == tw_mrapi.proc)
		return n;
	tw_mrapi_admin_lock();
	n = tw_mrapi_node_find(c->domain, c->id);
	if (n && is_guest(n, from, c))
		serve(n, from);
	else
		n = NULL;
	tw_mrapi_admin_unlock();
	return n;
}

/* By a process that has died since. */
static bool done_before(struct tw_mrapi_node *n, struct tw_mrapi_ctrl *c)
{
	for (unsigned i = 0; i < tw_countof(n->done); i++) {
		if (atomic_load(&n->done[i].turn) != c->turn)
			continue;
		c->key = atomic_load(&n->done[i].key);
		return true;
	}
	return false;
}

static void done(struct tw_mrapi_node *n, const struct tw_mrapi_ctrl *c)
{
	struct tw_mrapi_done *d = &n->done[atomic_fetch_add(&n->ndone, 1) % tw_countof(n->done)];

	atomic_store(&d->key, c->key);
	atomic_store(&d->turn, c->turn);
}

static mrapi_status_t lock(struct tw_mrapi_ctrl *c, mrapi_timeout_t timeout)
{
	mrapi_key_t key = 0;
	mrapi_status_t status =
		c->kind == TW_MRAPI_MUTEX
			? tw_mrapi_mutex_take(c->handle, &key, timeout)
			: tw_mrapi_counting_take((enum tw_mrapi_kind)c->kind, c->handle,
						 (mrapi_rwl_mode_t)c->mode, timeout);

	c->key = key;
	return status;
}

static mrapi_status_t unlock(const struct tw_mrapi_ctrl *c)
{
	mrapi_key_t key = c->key;

	if (c->kind == TW_MRAPI_MUTEX)
		return tw_mrapi_mutex_give(c->handle, &key);
	return tw_mrapi_counting_give((enum tw_mrapi_kind)c->kind, c->handle, c->mode);
}

/* As the guest. */
static mrapi_status_t operate(const struct tw_mrapi_owner *guest, struct tw_mrapi_ctrl *c,
			      mrapi_timeout_t timeout)
{
	enum tw_mrapi_kind kind = (enum tw_mrapi_kind)c->kind;
	struct tw_mrapi_node *n = tw_mrapi_node(guest->me);
	struct tw_mrapi_self mine = tw_mrapi_self;
	mrapi_status_t status = MRAPI_ERR_PARAMETER;
	struct tw_mrapi_obj *o;

	if (done_before(n, c))
		return MRAPI_SUCCESS;
	tw_mrapi_act_for(*guest);
	if (kind >= TW_MRAPI_MUTEX && kind < TW_MRAPI_LOCKS)
		status = tw_mrapi_obj_find(kind, c->handle, &o);
	if (status == MRAPI_SUCCESS && o->host)
		status = tw_mrapi_stale(kind, 0);
	if (status == MRAPI_SUCCESS && c->op == TW_MRAPI_FAR_LOCK)
		status = lock(c, timeout);
	else if (status == MRAPI_SUCCESS && c->op == TW_MRAPI_FAR_DELETE)
		status = tw_mrapi_obj_delete(kind, c->handle);
	else if (status == MRAPI_SUCCESS)
		status = unlock(c);
	if (status == MRAPI_SUCCESS)
		done(n, c);
	tw_mrapi_self = mine;
	return status;
}

/* This process is leaving: the guest's node asks another one. */
static bool given_up(const struct waiter *w, mrapi_status_t status)
{
	const struct tw_mrapi_node *n = tw_mrapi_node(w->guest.me);

	return status == MRAPI_ERR_NODE_NOTINIT && atomic_load(&n->life) == TW_MRAPI_LIVE &&
	       n->born == w->guest.born;
}

static void *wait_for_it(void *arg)
{
	struct waiter *w = arg;
	mrapi_status_t status = operate(&w->guest, &w->ctrl, w->ctrl.timeout);
	struct tw_ep *ep = given_up(w, status) ? NULL : tw_mrapi_net_enter();

	if (ep && w->from->state == TW_MEMBER_HERE && w->from->addr.session == w->session)
		tw_mrapi_net_reply(w->from, &w->ctrl, status);
	if (ep)
		tw_group_leave(ep);
	free(w);
	atomic_fetch_sub(&waiters, 1);
	return NULL;
}

static bool start_waiter(struct tw_member *from, const struct tw_mrapi_owner *guest,
			 const struct tw_mrapi_ctrl *ctrl)
{
	struct waiter *w = malloc(sizeof(*w));
	pthread_t thread;

	if (!w)
		return false;
	*w = (struct waiter){from, from->addr.session, *guest, *ctrl};
	atomic_fetch_add(&waiters, 1);
	if (tw_thread_start(&thread, wait_for_it, w, "tagwire-guest") == 0)
		return pthread_detach(thread) == 0;
	atomic_fetch_sub(&waiters, 1);
	free(w);
	return false;
}

void tw_mrapi_guest_serve(struct tw_member *from, struct tw_mrapi_ctrl *ctrl)
{
	struct tw_mrapi_node *n = guest_of(from, ctrl);
	mrapi_status_t status = n ? MRAPI_TIMEOUT : MRAPI_ERR_NODE_NOTINIT;
	bool waits = ctrl->op == TW_MRAPI_FAR_DELETE; /* for the other hosts */
	struct tw_mrapi_owner guest;

	if (n) {
		ctrl->slot = (uint32_t)(n - tw_mrapi.seg->node);
		guest = tw_mrapi_owner(ctrl->slot + 1);
		if (!waits)
			status = operate(&guest, ctrl, 0);
		waits |= ctrl->op == TW_MRAPI_FAR_LOCK && ctrl->timeout != 0;
		if (status == MRAPI_TIMEOUT && waits && start_waiter(from, &guest, ctrl))
			return;
	}
	tw_mrapi_net_reply(from, ctrl, status);
}

void tw_mrapi_guest_end(struct tw_mrapi_node *n)
{
	uint32_t me = (uint32_t)(n - tw_mrapi.seg->node) + 1;

	atomic_store(&n->life, TW_MRAPI_LEAVING);
	if (n->proc == tw_mrapi.proc)
		tw_mrapi_wait_abort(me);
	tw_mrapi_release_node(me);
	/* A thread there may be taking a lock for it, and must not do so for another node. */
	if (served_elsewhere(n))
		atomic_store(&n->life, TW_MRAPI_LEAVING);
}

void tw_mrapi_guests_lost(const struct tw_member *m)
{
	if (m->why != TW_S_OK)
		return; /* it was not there */
	tw_mrapi_admin_lock();
	for (uint32_t i = 0; i < MRAPI_MAX_NODES; i++) {
		struct tw_mrapi_node *n = &tw_mrapi.seg->node[i];

		if (atomic_load(&n->life) != TW_MRAPI_FREE && n->host && n->where == m->where &&
		    n->session == m->addr.session && !served_elsewhere(n))
			tw_mrapi_guest_end(n);
	}
	tw_mrapi_admin_unlock();
}

void tw_mrapi_guests_unserved(uint32_t proc)
{
	for (uint32_t i = 0; i < MRAPI_MAX_NODES; i++) {
		struct tw_mrapi_node *n = &tw_mrapi.seg->node[i];

		if (atomic_load(&n->life) == TW_MRAPI_FREE || !n->host || n->proc != proc)
			continue;
		n->proc = TW_MRAPI_PROCS;
		if (atomic_load(&n->life) == TW_MRAPI_LEAVING)
			tw_mrapi_release_node(i + 1);
		for (uint32_t k = 0; k < tw_mrapi.seg->table[TW_MRAPI_RWL].high; k++)
			tw_mrapi_counting_stand_back(&tw_mrapi.seg->rwl[k], i + 1);
	}
}

void tw_mrapi_guests_stop(void)
{
	while (atomic_load(&waiters)) {
		tw_mrapi_wait_abort(0);
		usleep(POLL_US);
	}
	tw_mrapi_admin_lock();
	tw_mrapi_guests_unserved(tw_mrapi.proc);
	tw_mrapi_admin_unlock();
}

void tw_mrapi_guests_forked(void)
{
	atomic_store(&waiters, 0);
}
