/* SPDX-License-Identifier: BSD-2-Clause */
/* MCAPI 4.1: the nodes of this process. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/report.h"
#include "base/sys.h"
#include "base/thread.h"
#include "group/job.h"
#include "mcapi/chan.h"
#include "mcapi/queue.h"

#define POLL_US 100 /* while another thread ends a node */

_Thread_local struct tw_mcapi_node *tw_mcapi_thread;
_Atomic(struct tw_mcapi_node *) tw_mcapi_first;

static _Atomic(struct tw_mcapi_node *) nodes[TW_MAX_NODES]; /* including those that are ending */
static unsigned nodes_up;
/* Ended nodes: their memory is kept for reuse, as other threads may still read it. */
static _Atomic(struct tw_mcapi_node *) past[TW_MAX_NODES];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool inside; /* the mutex: a signal handler must not wait for it */
static pthread_key_t thread_end;

static bool is_up(const struct tw_mcapi_node *n)
{
	/* [set-up] */
	return n && atomic_load_explicit(&n->handle, memory_order_acquire);
}

struct tw_mcapi_node *tw_mcapi_node(uint32_t number)
{
	return atomic_load(&nodes[number]);
}

/* A child owns none of its parent's nodes. */
static void mcapi_init_forked(void)
{
	pthread_mutex_init(&mutex, NULL);
	inside = false;
	for (unsigned i = 0; i < TW_MAX_NODES; i++) {
		atomic_store(&nodes[i], NULL);
		atomic_store(&past[i], NULL);
	}
	nodes_up = 0;
	tw_mcapi_thread = NULL;
	pthread_setspecific(thread_end, NULL);
	atomic_store(&tw_mcapi_first, NULL);
	tw_mcapi_scl_forked();
}

static void mcapi_init_thread_ended(void *node);

static void register_process(void)
{
	pthread_key_create(&thread_end, mcapi_init_thread_ended);
	pthread_atfork(NULL, NULL, mcapi_init_forked);
}

static void mcapi_init_prepare(struct tw_mcapi_node *n)
{
	tw_list_init(&n->collected);
	tw_list_init(&n->gets);
	tw_list_init(&n->pending);
	tw_list_init(&n->credit_starved);
	tw_list_init(&n->pushes);
	tw_list_init(&n->dest_pushes);
	n->ncollected = n->nendps = 0;
	tw_pool_init(&n->reqs, sizeof(struct tw_mcapi_mreq), MCAPI_MAX_REQUESTS);
	tw_mcapi_peers_init(n);
}

static void mcapi_init_dispose(struct tw_mcapi_node *n)
{
	tw_mcapi_endps_fini(n);
	tw_list_walk(&n->pending, struct tw_mcapi_pending, w, link)
		free(w);
	tw_mcapi_outstanding_fini(n);
	tw_pool_fini(&n->reqs);
	for (unsigned i = 0; i < TW_MCAPI_DESTS; i++)
		while (n->dests[i]) {
			struct tw_mcapi_dest *d = n->dests[i];

			n->dests[i] = d->next;
			free(d);
		}
	n->dest = NULL;
}

static enum tw_err open_node(struct tw_mcapi_node *n, int *holder)
{
	struct tw_open how = {.number = n->number,
			      .filter = TW_MCAPI_FILTER,
			      .unexp_max = tw_settings.unexp_max,
			      .fetch_max = UINT64_MAX,
			      .iface = &tw_mcapi_interface,
			      .owner = n,
			      .ep = &n->ep,
			      .holder = holder};
	uint64_t handle;
	enum tw_err err;

	n->elsewhere = !tw_topology_node_board(n->number, &how.board);
	err = tw_ep_open(&how, &handle);
	if (err != TW_OK)
		return err;
	/* The service thread may use the endpoint already, but none of these. */
	tw_enter(handle);
	tw_member_met(&n->peers[n->number], n->ep->self->addr);
	/* Replies to an earlier node of that number answer no request of this one. */
	n->group.requested = n->ep->self->addr.session;
	/* [set-up] */
	atomic_store_explicit(&n->handle, handle, memory_order_release);
	tw_leave(n->ep);
	return TW_OK;
}

/* Memory for a node, under the mutex. */
static struct tw_mcapi_node *take_memory(uint32_t number)
{
	struct tw_mcapi_node *n = atomic_load(&past[number]);

	while (n && !atomic_compare_exchange_weak(&past[number], &n, n->past))
		;
	return n ? n : calloc(1, sizeof(*n));
}

static void keep_memory(struct tw_mcapi_node *n)
{
	n->past = atomic_load(&past[n->number]);
	while (!atomic_compare_exchange_weak(&past[n->number], &n->past, n))
		;
}

/* Makes the node that of the caller's thread. */
static void init_come_up(struct tw_mcapi_node *n)
{
	atomic_store(&nodes[n->number], n);
	n->thread = tw_thread_id();
	tw_mcapi_thread = n;
	pthread_setspecific(thread_end, n);
	tw_mcapi_scl_forget(); /* this thread acted for the first node until now */
	if (nodes_up++ == 0)
		/* [set-up] */
		atomic_store_explicit(&tw_mcapi_first, n, memory_order_release);
}

static mcapi_status_t init_start(uint32_t number)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct tw_mcapi_node *n;
	enum tw_err err;
	int holder = 0;

	if (atomic_load(&nodes[number]))
		return MCAPI_INITIALIZED;
	n = take_memory(number);
	if (!n)
		return MCAPI_ENO_INIT;
	n->number = number;
	err = tw_begin();
	if (err != TW_OK)
		goto out;
	err = TW_EPROTO;
	if (nodes_up == 0 && !(TW_HAVE_NET ? tw_job_topology() : tw_topology_init(NULL)))
		goto out_begun;
	pthread_once(&once, register_process);
	mcapi_init_prepare(n);
	err = open_node(n, &holder);
	if (err == TW_OK) {
		init_come_up(n);
		return MCAPI_SUCCESS;
	}
	if (err == TW_EBUSY)
		tw_report_in_use("node", number, holder);
	mcapi_init_dispose(n);
out_begun:
	tw_end();
out:
	keep_memory(n);
	return err == TW_EBUSY ? MCAPI_INITIALIZED : MCAPI_ENO_INIT;
}

/* Whether another thread is ending the node of that number. */
static bool being_ended(uint32_t number)
{
	const struct tw_mcapi_node *n = atomic_load(&nodes[number]);

	return n && !is_up(n) && n->thread != tw_thread_id();
}

/* Locks; false in a signal handler that interrupted a thread that has locked. */
static bool lock_for(uint32_t number)
{
	for (;;) {
		if (!tw_mutex_lock_once(&mutex, &inside))
			return false;
		if (!being_ended(number))
			return true;
		tw_mutex_unlock_once(&mutex, &inside);
		tw_sys_sleep_us(POLL_US);
	}
}

void mcapi_initialize(mcapi_node_t node_id, mcapi_version_t *mcapi_version,
		      mcapi_status_t *mcapi_status)
{
	if (!mcapi_status)
		return;
	if (!mcapi_version) {
		*mcapi_status = MCAPI_EPARAM;
	} else if (node_id >= MCAPI_MAX_NODES) {
		*mcapi_status = MCAPI_ENODE_NOTVALID;
		tw_report_range("node", node_id, MCAPI_MAX_NODES - 1);
	} else if (is_up(tw_mcapi_thread) && tw_mcapi_thread->thread == tw_thread_id()) {
		*mcapi_status = MCAPI_INITIALIZED;
	} else {
		*mcapi_version = MCAPI_VERSION;
		*mcapi_status = MCAPI_ENO_INIT;
		if (!lock_for(node_id))
			return;
		*mcapi_status = init_start(node_id);
		tw_mutex_unlock_once(&mutex, &inside);
	}
}

/* Chooses the node that threads without their own act for. */
static void choose_first(void)
{
	struct tw_mcapi_node *first = NULL;

	for (unsigned i = 0; i < TW_MAX_NODES && !first; i++)
		if (is_up(atomic_load(&nodes[i])))
			first = atomic_load(&nodes[i]);
	/* [set-up] */
	atomic_store_explicit(&tw_mcapi_first, first, memory_order_release);
}

bool tw_mcapi_ending(struct tw_ep *ep)
{
	struct tw_mcapi_endp *e;
	bool all = true;

	for (uint32_t port = 0; (e = tw_mcapi_endp_next(ep->owner, &port));)
		if (e->chan.scl && !tw_mcapi_scl_close(e, false))
			all = false;
	return all;
}

void tw_mcapi_ended(void *node)
{
	struct tw_mcapi_node *n = node;

	atomic_compare_exchange_strong(&nodes[n->number], &n, NULL);
	mcapi_init_dispose(node);
	keep_memory(node);
	tw_end();
}

/* A node that new calls no longer find. */
struct ending {
	struct tw_mcapi_node *n;
	uint64_t handle; /* the engine's */
	bool amid;	 /* this thread's handler has interrupted a call of it: not waited for */
};

/* Under the mutex; false if there is no such node. */
static bool take_down(struct tw_mcapi_node *n, struct ending *e)
{
	e->n = n;
	e->handle = n ? atomic_load(&n->handle) : 0;
	if (!e->handle)
		return false;
	e->amid = tw_ep_inside(e->handle) || tw_mcapi_scl_inside(n);
	n->thread = tw_thread_id();
	atomic_store(&n->handle, 0);
	if (e->amid)
		atomic_store(&nodes[n->number], NULL);
	nodes_up--;
	if (atomic_load(&tw_mcapi_first) == n)
		choose_first();
	return true;
}

static void mcapi_init_end_node(const struct ending *e)
{
	if (e->amid)
		tw_ep_leave_behind(e->handle);
	else
		tw_ep_close(e->handle);
}

void mcapi_finalize(mcapi_status_t *mcapi_status)
{
	struct ending e;
	bool found;

	if (!mcapi_status)
		return;
	*mcapi_status = MCAPI_ENO_FINAL;
	if (!tw_mutex_lock_once(&mutex, &inside))
		return;
	found = take_down(tw_mcapi_self(), &e);
	tw_mutex_unlock_once(&mutex, &inside);
	if (!found)
		return;
	if (tw_mcapi_thread == e.n)
		tw_mcapi_thread = NULL;
	mcapi_init_end_node(&e);
	*mcapi_status = MCAPI_SUCCESS;
}

/* The end of a thread ends its node (3.10). */
static void mcapi_init_thread_ended(void *node)
{
	struct tw_mcapi_node *n = node;
	struct ending e;
	bool found;

	tw_mutex_lock_once(&mutex, &inside);
	/* Another thread may have finalized it, and initialized it again. */
	found = n->thread == tw_thread_id() && take_down(n, &e);
	tw_mutex_unlock_once(&mutex, &inside);
	tw_mcapi_thread = NULL;
	if (found)
		mcapi_init_end_node(&e);
}

mcapi_uint_t mcapi_get_node_id(mcapi_status_t *mcapi_status)
{
	struct tw_mcapi_node *n = tw_mcapi_self();

	if (!mcapi_status)
		return MCAPI_NULL;
	*mcapi_status = is_up(n) ? MCAPI_SUCCESS : MCAPI_ENODE_NOTINIT;
	return is_up(n) ? n->number : MCAPI_NULL;
}

static const char *const texts[] = {
	[MCAPI_SUCCESS] = "success",
	[MCAPI_INCOMPLETE] = "the operation has not completed",
	[MCAPI_EATTR_INCOMP] = "the attributes of the endpoints do not go together",
	[MCAPI_ECHAN_OPEN] = "a channel of the endpoint is open",
	[MCAPI_ECHAN_TYPE] = "the channel is of another type",
	[MCAPI_ECONNECTED] = "the endpoint is connected already",
	[MCAPI_ENOT_CONNECTED] = "the channel is not connected",
	[MCAPI_ENOT_OPEN] = "the channel is not open",
	[MCAPI_EDIR] = "the channel is connected in the other direction",
	[MCAPI_EEP_NOTALLOWED] = "endpoints cannot be created on this node",
	[MCAPI_EMESS_LIMIT] = "the message is too long",
	[MCAPI_ENO_BUFFER] = "no buffer is left at the receiver",
	[MCAPI_ENO_INIT] = "the environment could not be initialized",
	[MCAPI_ENODE_NOTINIT] = "the node is not initialized",
	[MCAPI_ENO_FINAL] = "the environment could not be finalized",
	[MCAPI_ENO_MEM] = "no memory is left",
	[MCAPI_ENO_REQUEST] = "no request handle is left",
	[MCAPI_ENODE_NOTVALID] = "not a valid node",
	[MCAPI_ENOT_ENDP] = "not a valid endpoint",
	[MCAPI_ENOT_OWNER] = "the endpoint belongs to another node",
	[MCAPI_ENOT_HANDLE] = "not a valid channel handle",
	[MCAPI_ENOTREQ_HANDLE] = "not a valid request handle",
	[MCAPI_EPACK_LIMIT] = "the packet is too long",
	[MCAPI_EPARAM] = "incorrect parameter",
	[MCAPI_EPORT_NOTVALID] = "not a valid port",
	[MCAPI_EREQ_CANCELED] = "the request was cancelled",
	[MCAPI_EPRIO] = "not a valid priority",
	[MCAPI_ETRUNCATED] = "the message was longer than the buffer",
	[MCAPI_ENOT_VALID_BUF] = "not a packet buffer",
	[MCAPI_ESCL_SIZE] = "the scalar has another size",
	[MCAPI_EREQ_TIMEOUT] = "the time is over",
	[MCAPI_EENDP_LIMIT] = "too many endpoints",
	[MCAPI_INITIALIZED] = "the thread is a node already, or another node has the number",
	[MCAPI_EREAD_ONLY] = "the attribute cannot be changed",
	[MCAPI_EPARAM_ERROR] = "incorrect parameter",
	[MCAPI_EENDP_ISCREATED] = "the endpoint exists already",
	[MCAPI_ERROR] = "no status yet",
	[MCAPI_EATTR_NUM] = "not a valid attribute",
	[MCAPI_EATTR_SIZE] = "not the size of the attribute",
};

const char *mcapi_strerror(mcapi_status_t status)
{
	if (status < 0 || (size_t)status >= tw_countof(texts))
		return "unknown status";
	return texts[status];
}
