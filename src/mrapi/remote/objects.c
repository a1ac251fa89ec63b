/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The names of objects and nodes of other hosts. A new object or node is CLAIMED here first, then
 * at every other host; of two hosts that claim the same at a time the one with the lower NIC id
 * gets it everywhere, and the other finds that its own is gone. An entry of the claiming host
 * itself is old.
 */
#include <stdlib.h>

#include "base/log.h"
#include "mrapi/remote/remote.h"

bool tw_mrapi_remote_hosts(void)
{
	return tw_mrapi.seg->host[0].nic != 0;
}

/* ---------------------------------------------------- the names of what is elsewhere */

static void clear_words(enum tw_mrapi_kind kind, struct tw_mrapi_obj *o, uint32_t word)
{
	if (kind == TW_MRAPI_MUTEX)
		atomic_store(&tw_container(o, struct tw_mrapi_mutex, obj)->word, word);
	else if (kind < TW_MRAPI_LOCKS)
		atomic_store(&tw_container(o, struct tw_mrapi_counting, obj)->writer, word);
}

void tw_mrapi_remote_cleared(enum tw_mrapi_kind kind, struct tw_mrapi_obj *o)
{
	if (!o->host)
		return;
	/* The host last: who repairs the table after a death here begins anew. */
	o->there = 0;
	clear_words(kind, o, 0);
	atomic_store(&o->host, 0);
}

static void take_rmem(struct tw_mrapi_obj *o, const struct tw_mrapi_ctrl *ctrl,
		      const struct tw_mrapi_node *owner)
{
	const struct tw_mrapi_rmem wanted = {.offset = TW_MRAPI_NOT_SHARED,
					     .size = ctrl->size,
					     .atype = (uint16_t)ctrl->atype,
					     .owner = (uint16_t)tw_mrapi_me_of(owner)};

	tw_mrapi_rmem_set(tw_container(o, struct tw_mrapi_rmem, obj), &wanted);
}

/* Whether a claim of that host wins over one of another that may not be over either. */
static bool yields(uint32_t host, bool claimed, uint64_t claimant)
{
	if (host)
		return claimant <= tw_mrapi.seg->host[host - 1].nic;
	return claimed && claimant < tw_mrapi.nic;
}

static mrapi_status_t enter_object(uint32_t host, const struct tw_mrapi_ctrl *c)
{
	enum tw_mrapi_kind kind = (enum tw_mrapi_kind)c->kind;
	struct tw_mrapi_obj *o = tw_mrapi_lookup(kind, c->id);
	struct tw_mrapi_node *owner = NULL;
	mrapi_status_t status;

	if (kind == TW_MRAPI_RMEM && (owner = tw_mrapi_node_find(c->domain, c->node)) == NULL)
		return MRAPI_SUCCESS; /* it ends just now */
	if (o && o->host == host && o->there == c->handle)
		return MRAPI_SUCCESS;
	if (o && !yields(o->host, o->flags & TW_MRAPI_CLAIMED, tw_mrapi.seg->host[host - 1].nic))
		return MRAPI_EXISTS;
	if (o)
		tw_mrapi_table_free(kind, o);
	status = tw_mrapi_table_take(kind, c->id, c->flags, &o);
	if (status != MRAPI_SUCCESS)
		return status;
	o->there = c->handle;
	if (kind == TW_MRAPI_RMEM)
		take_rmem(o, c, owner);
	else if (kind != TW_MRAPI_MUTEX)
		tw_container(o, struct tw_mrapi_counting, obj)->limit = 0;
	clear_words(kind, o, TW_MRAPI_REMOTE);
	atomic_store(&o->host, (uint8_t)host);
	tw_mrapi_table_publish(kind, o, c->flags & ~(unsigned)TW_MRAPI_CLAIMED, c->domain);
	return MRAPI_SUCCESS;
}

/* Controls of several processes of a host may come in another order than what they tell of. */
static bool older(uint32_t born, uint32_t than)
{
	return (int32_t)(born - than) < 0;
}

static mrapi_status_t enter_node(const struct tw_member *from, uint32_t host,
				 const struct tw_mrapi_ctrl *c)
{
	struct tw_mrapi_node *n = tw_mrapi_node_find(c->domain, c->id);

	if (n && n->host == host && !older(n->there, c->node)) {
		tw_mrapi_proxy_called(n, from);
		return MRAPI_SUCCESS;
	}
	if (n && !yields(n->host, n->claimed, tw_mrapi.seg->host[host - 1].nic))
		return MRAPI_ERR_NODE_INITIALIZED;
	if (n && n->host)
		tw_mrapi_proxy_end(n);
	else if (n)
		atomic_store(&n->life, TW_MRAPI_FREE);
	n = tw_mrapi_node_new(c->domain, c->id, TW_MRAPI_PROCS);
	if (!n || !tw_mrapi_proxy_begin(n))
		return MRAPI_ENO_INIT;
	n->pid = c->size;
	n->host = host;
	n->where = c->key;
	n->there = c->node;
	tw_mrapi_proxy_called(n, from);
	atomic_store(&n->life, TW_MRAPI_LIVE);
	return MRAPI_SUCCESS;
}

static void remove_entry(uint32_t host, const struct tw_mrapi_ctrl *c)
{
	enum tw_mrapi_kind kind = (enum tw_mrapi_kind)c->kind;
	struct tw_mrapi_node *n = kind ? NULL : tw_mrapi_node_find(c->domain, c->id);
	struct tw_mrapi_obj *o = kind ? tw_mrapi_lookup(kind, c->id) : NULL;

	if (n && n->host == host && n->there == c->node)
		tw_mrapi_proxy_end(n);
	if (o && o->host == host && o->there == c->handle)
		tw_mrapi_table_free(kind, o);
}

mrapi_status_t tw_mrapi_remote_serve(const struct tw_member *from, const struct tw_mrapi_ctrl *ctrl)
{
	bool gone = ctrl->what == TW_MRAPI_CTRL_GONE, current;
	uint32_t host = tw_mrapi_host_of(from->where >> 16);
	mrapi_status_t status = MRAPI_SUCCESS; /* also of what is told late: it has ended */

	if (!host || ctrl->kind >= TW_MRAPI_KINDS || ctrl->kind == TW_MRAPI_SHMEM)
		return MRAPI_ERR_PARAMETER;
	tw_mrapi_admin_lock();
	current = tw_mrapi_notices(host, ctrl, gone);
	if (gone)
		remove_entry(host, ctrl);
	else if (current)
		status = ctrl->kind ? enter_object(host, ctrl) : enter_node(from, host, ctrl);
	tw_mrapi_admin_unlock();
	return status;
}

static void object_forget(uint32_t host)
{
	struct tw_mrapi_walk w = {0};
	struct tw_mrapi_obj *o;

	tw_mrapi.seg->host[host - 1].life = 0;
	tw_mrapi_notices_forget(host);
	while ((o = tw_mrapi_walk(&w)))
		if (atomic_load(&o->handle) && o->host == host)
			tw_mrapi_table_free(w.kind, o);
	tw_mrapi_each_node(n)
		if (atomic_load(&n->life) == TW_MRAPI_LIVE && n->host == host)
			tw_mrapi_proxy_end(n);
}

void tw_mrapi_remote_forget(uint32_t host)
{
	tw_mrapi_admin_lock();
	object_forget(host);
	tw_mrapi_admin_unlock();
}

void tw_mrapi_remote_life(uint32_t host, uint64_t life)
{
	struct tw_mrapi_host *h = &tw_mrapi.seg->host[host - 1];

	tw_mrapi_admin_lock();
	if (h->life != life)
		object_forget(host);
	h->life = life;
	tw_mrapi_admin_unlock();
}

/* -------------------------------------------------------------- telling what is here */

static struct tw_mrapi_ctrl about_object(enum tw_mrapi_kind kind, struct tw_mrapi_obj *o)
{
	struct tw_mrapi_ctrl c = {.what = TW_MRAPI_CTRL_CLAIM,
				  .kind = kind,
				  .handle = atomic_load(&o->handle),
				  .id = o->id,
				  .domain = o->domain,
				  .flags = o->flags & ~(unsigned)TW_MRAPI_CLAIMED};

	if (kind == TW_MRAPI_RMEM) {
		const struct tw_mrapi_rmem *r = tw_container(o, struct tw_mrapi_rmem, obj);

		c.node = tw_mrapi_node(r->owner)->number;
		c.size = r->size;
		c.atype = r->atype;
	}
	return c;
}

static struct tw_mrapi_ctrl about_name(const struct tw_mrapi_name *name)
{
	return (struct tw_mrapi_ctrl){.what = TW_MRAPI_CTRL_GONE,
				      .id = name->number,
				      .domain = name->domain,
				      .node = name->born,
				      .slot = name->slot,
				      .key = tw_mrapi.nic << 16 | (TW_MRAPI_FIRST_ID + name->proc)};
}

static struct tw_mrapi_ctrl about_node(const struct tw_mrapi_node *n)
{
	const struct tw_mrapi_name name = tw_mrapi_name(n);
	struct tw_mrapi_ctrl c = about_name(&name);

	c.what = TW_MRAPI_CTRL_CLAIM;
	c.size = n->pid;
	return c;
}

void tw_mrapi_remote_introduce(struct tw_member *to)
{
	struct tw_mrapi_ctrl c = {.what = TW_MRAPI_CTRL_LIFE, .key = tw_mrapi.seg->life};
	struct tw_mrapi_walk w = {0};
	struct tw_mrapi_obj *o;

	tw_ctrl_must_send(to, 0, &c, sizeof(c));
	tw_mrapi_admin_lock();
	tw_mrapi_each_node(n) {
		if (atomic_load(&n->life) != TW_MRAPI_LIVE || n->host)
			continue;
		c = about_node(n);
		tw_ctrl_must_send(to, 0, &c, sizeof(c));
	}
	while ((o = tw_mrapi_walk(&w))) {
		if (w.kind == TW_MRAPI_SHMEM || !atomic_load(&o->handle) || o->host)
			continue;
		c = about_object(w.kind, o);
		tw_ctrl_must_send(to, 0, &c, sizeof(c));
	}
	tw_mrapi_admin_unlock();
}

mrapi_status_t tw_mrapi_remote_claim(enum tw_mrapi_kind kind, struct tw_mrapi_obj *o)
{
	const struct tw_mrapi_ctrl c = about_object(kind, o);

	return tw_mrapi_hosts_ask(&c);
}

mrapi_status_t tw_mrapi_remote_join(uint32_t me)
{
	struct tw_mrapi_node *n = tw_mrapi_node(me);
	const struct tw_mrapi_name name = tw_mrapi_name(n);
	const struct tw_mrapi_ctrl c = about_node(n);
	mrapi_status_t status = tw_mrapi_hosts_ask(&c);

	if (status == MRAPI_ERR_MEM_LIMIT) {
		tw_log(TW_LOG_ERROR, "mrapi: no memory is left to tell other hosts of a node");
		status = MRAPI_ENO_INIT;
	}
	tw_mrapi_admin_lock();
	if (atomic_load(&n->life) != TW_MRAPI_LIVE || n->born != tw_mrapi_self.as.born)
		status = MRAPI_ERR_NODE_INITIALIZED;
	else if (status == MRAPI_SUCCESS)
		n->claimed = 0;
	else
		atomic_store(&n->life, TW_MRAPI_FREE);
	tw_mrapi_admin_unlock();
	if (status != MRAPI_SUCCESS)
		tw_mrapi_remote_left(&name, true);
	return status;
}

/* A question to the hosts has reached them; or this process has no endpoint to ask any. */
static bool object_can_report(void)
{
	bool can = !tw_mrapi.nic;

	tw_mrapi_with_ep(ep) can = true;
	return can;
}

static void object_reported(enum tw_mrapi_kind kind, uint32_t handle)
{
	tw_mrapi_admin_lock();
	tw_mrapi_table_reported(kind, handle);
	tw_mrapi_admin_unlock();
}

void tw_mrapi_remote_gone(enum tw_mrapi_kind kind, uint32_t id, uint32_t handle)
{
	struct tw_mrapi_ctrl c = {
		.what = TW_MRAPI_CTRL_GONE, .kind = kind, .id = id, .handle = handle};

	tw_mrapi_hosts_ask(&c);
	/* Else the endpoint was closed meanwhile, and another process reports it: tw_mrapi_leave(). */
	if (object_can_report())
		object_reported(kind, handle);
}

void tw_mrapi_remote_inherit(uint64_t hosts)
{
	struct tw_mrapi_ctrl c = {.what = TW_MRAPI_CTRL_GONE};
	enum tw_mrapi_kind kind = TW_MRAPI_MUTEX;

	tw_mrapi_hosts_inherit(hosts);
	for (;;) {
		tw_mrapi_admin_lock();
		c.handle = tw_mrapi_table_unreported(&kind, &c.id);
		tw_mrapi_admin_unlock();
		c.kind = kind;
		if (!c.handle || !tw_mrapi_hosts_notify(&c))
			return;
		object_reported(kind, c.handle);
	}
}

void tw_mrapi_remote_left(const struct tw_mrapi_name *name, bool wait)
{
	const struct tw_mrapi_ctrl c = about_name(name);

	if (wait)
		tw_mrapi_hosts_ask(&c);
	else
		tw_mrapi_hosts_notify(&c);
}

/* --------------------------------------------------------------------------- turns */

/*
 * A request to a lock of another host has a turn, in a lane of its node's until it is over, and the
 * last answer in each lane is kept there. So a node has at most so many under way: the next one
 * waits here, while some lanes are left for those that do not wait there. Else what ends a wait
 * might wait for it.
 */
#define SPARE 8u

static struct lanes {
	uint32_t born;
	uint64_t used;
} lanes[MRAPI_MAX_NODES];
_Static_assert(TW_MRAPI_LANES <= 64, "a word has them");

struct wanted {
	struct lanes *of;
	unsigned spare;
};

static bool has_lane(struct tw_ep *ep, void *wanted)
{
	const struct wanted *w = wanted;

	(void)ep;
	return (unsigned)__builtin_popcountll(w->of->used) + w->spare < TW_MRAPI_LANES;
}

/* May wait; false: the node or the endpoint has ended. */
static bool turn_begin(struct tw_ep *ep, uint32_t me, struct tw_mrapi_ctrl *c)
{
	static uint64_t turns;
	struct lanes *of = &lanes[me - 1];
	bool waits = c->op == TW_MRAPI_REMOTE_LOCK && c->timeout;
	struct wanted w = {of, waits ? SPARE : 0};

	if (of->born != c->node)
		*of = (struct lanes){.born = c->node};
	if (!has_lane(ep, &w) && tw_wait(ep, has_lane, &w, TW_FOREVER) != TW_W_TRUE)
		return false;
	if (of->born != c->node)
		return false;
	c->lane = (uint16_t)__builtin_ctzll(~of->used);
	c->turn = ++turns;
	of->used |= 1ull << c->lane;
	return true;
}

void tw_mrapi_turn_end(uint32_t me, const struct tw_mrapi_ctrl *c)
{
	struct lanes *of = &lanes[me - 1];

	if (of->born == c->node)
		of->used &= ~(1ull << c->lane);
	tw_mrapi_net_changed();
}

/* ---------------------------------------------------------- operating on what is there */

static _Atomic(uint32_t) slots[TW_MRAPI_HOSTS]; /* the caller's, as a proxy there */

/* Completes it. The host; 0: the object is gone. */
static uint32_t object_address(const struct tw_mrapi_node *me, struct tw_mrapi_obj *o,
			       struct tw_mrapi_ctrl *c)
{
	uint32_t host = o->host, handle = c->handle;

	c->what = TW_MRAPI_CTRL_OPERATE;
	c->kind = tw_mrapi_kind_of(handle);
	c->handle = o->there;
	c->id = me->number;
	c->domain = me->domain;
	c->node = me->born;
	if (!host || !tw_mrapi_is(o, handle))
		return 0;
	c->slot = atomic_load_explicit(&slots[host - 1], memory_order_relaxed);
	return host;
}

/* Its host has not got it any more, or is lost. */
static mrapi_status_t object_lost(struct tw_mrapi_obj *o, uint32_t handle)
{
	enum tw_mrapi_kind kind = tw_mrapi_kind_of(handle);

	tw_mrapi_admin_lock();
	if (tw_mrapi_is(o, handle))
		tw_mrapi_table_free(kind, o);
	tw_mrapi_admin_unlock();
	return tw_mrapi_stale(kind, handle);
}

/* A host that had lost this one has no proxies of it any more: it is told of the caller again. */
static mrapi_status_t object_ask(struct tw_ep *ep, uint32_t me, uint32_t host,
				 struct tw_mrapi_ctrl *c)
{
	struct tw_mrapi_ctrl question, about;
	mrapi_status_t status;

	if (!turn_begin(ep, me, c))
		return MRAPI_ERR_NODE_NOTINIT;
	question = *c;
	status = tw_mrapi_host_ask(ep, host, c);
	if (status == MRAPI_ERR_NODE_NOTINIT && tw_mrapi_me() == me) {
		about = about_node(tw_mrapi_node(me));
		tw_mrapi_host_ask(ep, host, &about);
		*c = question;
		status = tw_mrapi_host_ask(ep, host, c);
	}
	tw_mrapi_turn_end(me, &question);
	return status;
}

mrapi_status_t tw_mrapi_remote_ask(struct tw_mrapi_obj *o, struct tw_mrapi_ctrl *c)
{
	mrapi_status_t status = MRAPI_ERR_NODE_NOTINIT;
	uint32_t handle = c->handle, me = tw_mrapi_me(), host;
	enum tw_mrapi_kind kind = tw_mrapi_kind_of(handle);

	if (!me)
		return status;
	host = object_address(tw_mrapi_node(me), o, c);
	tw_mrapi_with_ep(ep) status = host ? object_ask(ep, me, host, c) : MRAPI_ERR_RMEM_INVALID;
	if (status == MRAPI_SUCCESS)
		atomic_store_explicit(&slots[host - 1], c->slot, memory_order_relaxed);
	if (status == MRAPI_ERR_RMEM_INVALID || status == tw_mrapi_stale(kind, 0) ||
	    status == tw_mrapi_stale(kind, handle))
		return object_lost(o, handle);
	return status;
}

mrapi_status_t tw_mrapi_remote_post(struct tw_mrapi_obj *o, struct tw_mrapi_ctrl *c)
{
	uint32_t me = tw_mrapi_me();
	struct tw_mrapi_notice *t = me ? calloc(1, sizeof(*t)) : NULL;
	bool posted = false, known;

	if (!t)
		return tw_mrapi_remote_ask(o, c);
	t->me = me;
	t->ctrl = *c;
	t->host = object_address(tw_mrapi_node(me), o, &t->ctrl);
	known = t->host;
	tw_mrapi_with_ep(ep)
	{
		posted = known && turn_begin(ep, t->me, &t->ctrl);
		if (posted)
			tw_mrapi_host_notify(t);
	}
	if (posted)
		return MRAPI_SUCCESS;
	free(t);
	return known ? MRAPI_ERR_NODE_NOTINIT
		     : tw_mrapi_stale(tw_mrapi_kind_of(c->handle), c->handle);
}
