/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Proxies: nodes of other hosts that hold or request locks of this host. The process that receives
 * a request tries the lock at once, in the name of the proxy. If the lock is taken, a thread waits
 * for it like any thread of this host, and then replies. So nothing polls over the network, and
 * local locking needs no test for proxies.
 *
 * A proxy ends with its node, or when the serving process loses the connection to the node; then
 * its locks are released. If the serving process ends, the proxy keeps its locks, and its node
 * repeats the request at another process.
 *
 * A request is executed once. It has a place (turn) in one of the sequences of its node (lanes).
 * A sequence has one request at a time, until the node has the reply; its last reply is kept.
 * Executing is one step under the admin lock, which is recorded in seg->doing, because the process
 * may die in it:
 *
 *   doing     answer kept   found then
 *   0         -             nothing
 *   the proxy no            LOCK, DELETE: the proxy gets back what it had. DELETE: it is done
 *                           if the object is gone. UNLOCK: it is done if the proxy has less.
 *   the proxy yes           it is done
 *
 * Nobody else changes what the proxy has meanwhile.
 */
#include <stdlib.h>

#include "base/sys.h"
#include "base/thread.h"
#include "mrapi/remote/remote.h"

#define POLL_US 500 /* until the last thread has ended */
#define MOST 4096u  /* threads that wait: lanes of some dozens of busy nodes */

struct waiter {
	struct tw_member *from;
	uint32_t session;
	struct tw_mrapi_owner proxy;
	struct tw_mrapi_ctrl ctrl;
};

static _Atomic(uint32_t) waiters;

static bool is_proxy(const struct tw_mrapi_node *n, const struct tw_member *from,
		     const struct tw_mrapi_ctrl *c)
{
	return atomic_load(&n->life) == TW_MRAPI_LIVE && n->host && n->where == from->where &&
	       n->domain == c->domain && n->number == c->id && n->there == c->node;
}

/* Another process serves it. */
static bool served_elsewhere(const struct tw_mrapi_node *n)
{
	return n->proc != tw_mrapi.proc && n->proc < TW_MRAPI_PROCS &&
	       tw_mrapi_state(&tw_mrapi.seg->proc[n->proc]) == TW_MRAPI_LIVE;
}

static void proxy_serve(struct tw_mrapi_node *n, uint32_t session)
{
	n->proc = tw_mrapi.proc;
	n->session = session;
}

void tw_mrapi_proxy_called(struct tw_mrapi_node *n, const struct tw_member *from)
{
	if (n->where == from->where && !served_elsewhere(n))
		proxy_serve(n, from->addr.session);
}

/* NULL: it has ended here, or has asked another process since. Under the admin lock. */
static struct tw_mrapi_node *proxy_of(const struct waiter *w)
{
	const struct tw_mrapi_ctrl *c = &w->ctrl;
	struct tw_mrapi_node *n = &tw_mrapi.seg->node[c->slot % MRAPI_MAX_NODES];

	if (!is_proxy(n, w->from, c))
		n = tw_mrapi_node_find(c->domain, c->id);
	if (!n || !is_proxy(n, w->from, c) || (n->proc != tw_mrapi.proc && c->sent <= n->sent))
		return NULL;
	n->sent = tw_max(n->sent, c->sent);
	proxy_serve(n, w->session);
	return n;
}

bool tw_mrapi_proxy_begin(struct tw_mrapi_node *n)
{
	struct tw_mrapi_done *lanes = tw_mrapi.seg->done[tw_mrapi_me_of(n) - 1];

	if (!tw_mrapi_allocate(lanes, sizeof(tw_mrapi.seg->done[0])))
		return false;
	memset(lanes, 0, sizeof(tw_mrapi.seg->done[0]));
	n->sent = 0;
	return true;
}

/* ------------------------------------------------------------------------- a step */

static struct tw_mrapi_done *lane_of(uint32_t me, uint32_t lane)
{
	return &tw_mrapi.seg->done[me - 1][lane % TW_MRAPI_LANES];
}

/* The turn last, as what says that the rest is there. */
static void proxy_keep(struct tw_mrapi_done *d, uint64_t turn, mrapi_status_t status, uint64_t key)
{
	d->key = key;
	d->status = (int32_t)status;
	atomic_store(&d->turn, turn);
}

void tw_mrapi_proxy_repair(void)
{
	const struct tw_mrapi_doing *d = &tw_mrapi.seg->doing;
	enum tw_mrapi_kind kind = tw_mrapi_kind_of(d->handle);
	uint32_t me = atomic_load(&d->proxy);
	struct tw_mrapi_done *kept = me ? lane_of(me, d->lane) : NULL;
	const struct tw_mrapi_ops *ops = tw_mrapi_ops(kind);
	struct tw_mrapi_obj *o;
	bool over;

	if (kept && kept->turn != d->turn) {
		o = tw_mrapi_slot(kind, d->handle & TW_MRAPI_SLOT_MASK);
		over = d->op == TW_MRAPI_REMOTE_DELETE && !tw_mrapi_is(o, d->handle);
		if (d->op != TW_MRAPI_REMOTE_UNLOCK) {
			ops->restore(o, me, d->had);
		} else if (ops->had(o, me) != d->had) {
			over = true;
			if (!ops->had(o, me))
				ops->restore(o, me, 0); /* the rest of it */
		}
		if (over)
			proxy_keep(kept, d->turn, MRAPI_SUCCESS, o->id);
	}
	atomic_store(&tw_mrapi.seg->doing.proxy, 0);
}

static mrapi_status_t act(uint32_t me, struct tw_mrapi_ctrl *c, struct tw_mrapi_obj *o)
{
	enum tw_mrapi_kind kind = (enum tw_mrapi_kind)c->kind;
	mrapi_rwl_mode_t mode = (mrapi_rwl_mode_t)c->mode;
	bool mutex = kind == TW_MRAPI_MUTEX;
	mrapi_key_t key = c->key;
	mrapi_status_t status;

	switch (c->op) {
	case TW_MRAPI_REMOTE_LOCK:
		key = 0;
		status = mutex ? tw_mrapi_mutex_take(c->handle, &key, 0)
			       : tw_mrapi_counting_take(kind, c->handle, mode, 0);
		break;
	case TW_MRAPI_REMOTE_UNLOCK:
		status = mutex ? tw_mrapi_mutex_give(c->handle, &key)
			       : tw_mrapi_counting_give(kind, c->handle, mode);
		break;
	default:
		key = o->id;
		status = tw_mrapi_table_end(kind, o, me);
	}
	c->key = key;
	return status;
}

/* TIMEOUT is an answer if it is the last try. */
static mrapi_status_t proxy_step(uint32_t me, struct tw_mrapi_ctrl *c, bool last)
{
	struct tw_mrapi_doing *d = &tw_mrapi.seg->doing;
	enum tw_mrapi_kind kind = (enum tw_mrapi_kind)c->kind;
	struct tw_mrapi_obj *o;
	mrapi_status_t status = tw_mrapi_obj_find(me, kind, c->handle, &o);

	if (status == MRAPI_SUCCESS && o->host)
		status = tw_mrapi_stale(kind, 0);
	if (status == MRAPI_SUCCESS) {
		d->had = tw_mrapi_ops(kind)->had(o, me);
		d->turn = c->turn;
		d->op = c->op;
		d->handle = c->handle;
		d->lane = c->lane;
		atomic_store(&d->proxy, me);
		status = act(me, c, o);
	}
	if (status != MRAPI_TIMEOUT || last)
		proxy_keep(lane_of(me, c->lane), c->turn, status, c->key);
	atomic_store(&d->proxy, 0);
	return status;
}

static mrapi_status_t proxy_answer(struct waiter *w, bool last)
{
	const struct tw_mrapi_self mine = tw_mrapi_self;
	mrapi_status_t status = MRAPI_ERR_NODE_NOTINIT;
	const struct tw_mrapi_done *kept;
	struct tw_mrapi_node *n;

	tw_mrapi_admin_lock();
	n = proxy_of(w);
	if (n) {
		w->proxy = tw_mrapi_owner(tw_mrapi_me_of(n));
		w->ctrl.slot = w->proxy.me - 1;
		kept = lane_of(w->proxy.me, w->ctrl.lane);
		if (kept->turn == w->ctrl.turn) {
			status = (mrapi_status_t)kept->status;
			w->ctrl.key = kept->key;
		} else if (kept->turn < w->ctrl.turn) {
			tw_mrapi_act_for(w->proxy);
			status = proxy_step(w->proxy.me, &w->ctrl, last);
			tw_mrapi_self = mine;
		}
	}
	tw_mrapi_admin_unlock();
	return status;
}

/* ------------------------------------------------------------------------ waiting */

static mrapi_status_t try(void *waiter)
{
	return proxy_answer(waiter, false);
}

static mrapi_status_t wait_for_it(struct waiter *w)
{
	const struct tw_mrapi_ctrl *c = &w->ctrl;
	mrapi_status_t status = MRAPI_TIMEOUT;

	if (c->op == TW_MRAPI_REMOTE_LOCK && c->kind == TW_MRAPI_MUTEX)
		status = tw_mrapi_mutex_wait(c->handle, c->timeout, try, w);
	else if (c->op == TW_MRAPI_REMOTE_LOCK)
		status = tw_mrapi_counting_wait(c->handle, c->mode, c->timeout, try, w);
	if (status == MRAPI_TIMEOUT)
		status = proxy_answer(w, true);
	if (status == MRAPI_SUCCESS && c->op == TW_MRAPI_REMOTE_DELETE)
		tw_mrapi_remote_gone((enum tw_mrapi_kind)c->kind, (uint32_t)c->key, c->handle);
	return status;
}

/* This process is leaving: the proxy's node asks another one. */
static bool given_up(const struct waiter *w, mrapi_status_t status)
{
	const struct tw_mrapi_node *n = w->proxy.me ? tw_mrapi_node(w->proxy.me) : NULL;

	return status == MRAPI_ERR_NODE_NOTINIT && n && atomic_load(&n->life) == TW_MRAPI_LIVE &&
	       n->born == w->proxy.born;
}

static void *proxy_waiting(void *arg)
{
	struct waiter *w = arg;
	mrapi_status_t status;
	struct tw_ep *ep;

	tw_mrapi_act_for(w->proxy);
	status = wait_for_it(w);
	ep = given_up(w, status) ? NULL : tw_mrapi_net_enter();
	if (ep && w->from->state == TW_MEMBER_HERE && w->from->addr.session == w->session)
		tw_mrapi_net_reply(w->from, &w->ctrl, status);
	if (ep)
		tw_group_leave(ep);
	free(w);
	atomic_fetch_sub(&waiters, 1);
	return NULL;
}

static bool start_waiting(const struct waiter *what)
{
	struct waiter *w = malloc(sizeof(*w));
	pthread_t thread;

	if (!w || atomic_load(&waiters) >= MOST) {
		free(w);
		return false;
	}
	*w = *what;
	atomic_fetch_add(&waiters, 1);
	if (tw_thread_start(&thread, proxy_waiting, w, "tagwire-proxy") == 0)
		return pthread_detach(thread) == 0;
	atomic_fetch_sub(&waiters, 1);
	free(w);
	return false;
}

/* Whether it asks for something that there is, of an object of that kind. */
static bool proxy_sound(const struct tw_mrapi_ctrl *c)
{
	bool mode = c->mode == MRAPI_READER || c->mode == MRAPI_WRITER;

	return c->kind >= TW_MRAPI_MUTEX && c->kind < TW_MRAPI_LOCKS &&
	       c->kind == tw_mrapi_kind_of(c->handle) && c->op >= TW_MRAPI_REMOTE_LOCK &&
	       c->op <= TW_MRAPI_REMOTE_DELETE &&
	       (mode || c->kind == TW_MRAPI_MUTEX || c->op != TW_MRAPI_REMOTE_LOCK);
}

/* A deletion waits for the other hosts. */
void tw_mrapi_proxy_serve(struct tw_member *from, struct tw_mrapi_ctrl *ctrl)
{
	struct waiter w = {.from = from, .session = from->addr.session, .ctrl = *ctrl};
	bool deletes = ctrl->op == TW_MRAPI_REMOTE_DELETE;
	bool waits = deletes || (ctrl->op == TW_MRAPI_REMOTE_LOCK && ctrl->timeout);
	mrapi_status_t status = MRAPI_ERR_PARAMETER;

	if (proxy_sound(ctrl))
		status = deletes ? MRAPI_TIMEOUT : proxy_answer(&w, !waits);
	if (status == MRAPI_TIMEOUT && waits) {
		if (start_waiting(&w))
			return;
		status = MRAPI_ERR_MEM_LIMIT;
	}
	tw_mrapi_net_reply(from, &w.ctrl, status);
}

void tw_mrapi_proxy_end(struct tw_mrapi_node *n)
{
	tw_mrapi_release_node(tw_mrapi_me_of(n));
	/* After it, as who lists a wait later looks at the node. */
	if (n->proc == tw_mrapi.proc)
		tw_mrapi_wait_notify(tw_mrapi_me_of(n));
}

void tw_mrapi_proxies_lost(const struct tw_member *m)
{
	tw_mrapi_admin_lock();
	tw_mrapi_each_node(n)
		if (atomic_load(&n->life) != TW_MRAPI_FREE && n->host && n->where == m->where &&
		    n->session == m->addr.session && !served_elsewhere(n))
			tw_mrapi_proxy_end(n);
	tw_mrapi_admin_unlock();
}

void tw_mrapi_proxies_unserved(uint32_t proc)
{
	tw_mrapi_each_node(n)
		if (atomic_load(&n->life) != TW_MRAPI_FREE && n->host && n->proc == proc)
			n->proc = TW_MRAPI_PROCS;
}

void tw_mrapi_proxies_stop(void)
{
	while (atomic_load(&waiters)) {
		tw_mrapi_wait_abort(0);
		tw_sys_sleep_us(POLL_US);
	}
	tw_mrapi_admin_lock();
	tw_mrapi_proxies_unserved(tw_mrapi.proc);
	tw_mrapi_admin_unlock();
}

void tw_mrapi_proxies_forked(void)
{
	atomic_store(&waiters, 0);
}
