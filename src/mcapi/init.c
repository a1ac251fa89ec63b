/* SPDX-License-Identifier: BSD-2-Clause */
/* MCAPI 4.1: the nodes of this process. */
#include <pthread.h>
#include <stdlib.h>

#include "mcapi/node.h"

_Thread_local struct tw_node *tw_mc_thread;
_Atomic(struct tw_node *) tw_mc_first;

/* A node's memory is kept for its next life: threads may still look at it. */
static struct tw_node *nodes[TW_MAX_NODES];
static unsigned nodes_up;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static bool is_up(const struct tw_node *n)
{
	return n && atomic_load_explicit(&n->handle, memory_order_acquire);
}

/* A child owns none of its parent's nodes. */
static void forked(void)
{
	pthread_mutex_init(&mutex, NULL);
	for (unsigned i = 0; i < TW_MAX_NODES; i++)
		nodes[i] = NULL;
	nodes_up = 0;
	tw_mc_thread = NULL;
	atomic_store(&tw_mc_first, NULL);
	tw_scl_forked();
}

static void register_fork(void)
{
	pthread_atfork(NULL, NULL, forked);
}

static void prepare(struct tw_node *n, uint32_t number)
{
	n->number = number;
	tw_list_init(&n->collected);
	tw_list_init(&n->gets);
	tw_list_init(&n->wanted);
	tw_list_init(&n->asks);
	tw_list_init(&n->local);
	tw_list_init(&n->dirty);
	tw_list_init(&n->hungry);
	tw_list_init(&n->pushes);
	n->attending = false;
	n->ncollected = n->nendps = 0;
	tw_pool_init(&n->reqs, sizeof(struct tw_mreq), MCAPI_MAX_REQUESTS);
	tw_mc_peers_init(n);
}

static void dispose(struct tw_node *n)
{
	tw_endps_fini(n);
	tw_wanted_fini(n);
	tw_lent_fini(n);
	tw_mc_peers_fini(n);
	tw_pool_fini(&n->reqs);
	for (unsigned i = 0; i < TW_MC_DESTS; i++)
		while (n->dests[i]) {
			struct tw_dest *d = n->dests[i];

			n->dests[i] = d->next;
			free(d);
		}
	n->dest = NULL;
}

static enum tw_err open_node(struct tw_node *n)
{
	struct tw_open how = {.endpoint_id = TW_EID_NODES + n->number,
			      .filter = TW_MC_FILTER,
			      .unexp_max = tw_settings.unexp_max,
			      .taker = &tw_mc_taker,
			      .owner = n};
	uint64_t handle;
	enum tw_err err;

	n->elsewhere = !tw_place_board(n->number, &how.board);
	err = tw_ep_open(&how, &handle);
	if (err != TW_OK)
		return err;
	/* The service thread may be at it already: it needs none of these. */
	n->ep = tw_enter(handle);
	atomic_store_explicit(&n->handle, handle, memory_order_release);
	tw_leave(n->ep);
	return TW_OK;
}

static mcapi_status_t start(uint32_t number)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct tw_node *n = nodes[number];
	enum tw_err err;

	if (is_up(n))
		return MCAPI_INITIALIZED;
	if (!n)
		n = nodes[number] = calloc(1, sizeof(*n));
	if (!n || tw_begin() != TW_OK)
		return MCAPI_ENO_INIT;
	if (nodes_up == 0 && !tw_place_init())
		goto fail;
	pthread_once(&once, register_fork);
	prepare(n, number);
	err = open_node(n);
	if (err == TW_OK) {
		tw_mc_thread = n;
		tw_scl_forget(); /* what is the first node's is its own no more */
		if (nodes_up++ == 0)
			atomic_store_explicit(&tw_mc_first, n, memory_order_release);
		return MCAPI_SUCCESS;
	}
	dispose(n);
	if (err == TW_EBUSY) {
		tw_end();
		return MCAPI_INITIALIZED;
	}
fail:
	tw_end();
	return MCAPI_ENO_INIT;
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
	} else if (is_up(tw_mc_thread)) {
		*mcapi_status = MCAPI_INITIALIZED;
	} else {
		*mcapi_version = MCAPI_VERSION;
		pthread_mutex_lock(&mutex);
		*mcapi_status = start(node_id);
		pthread_mutex_unlock(&mutex);
	}
}

/* The next one that threads without a node of their own act for. */
static void choose_first(void)
{
	struct tw_node *first = NULL;

	for (unsigned i = 0; i < TW_MAX_NODES && !first; i++)
		if (is_up(nodes[i]))
			first = nodes[i];
	atomic_store_explicit(&tw_mc_first, first, memory_order_release);
}

static void shut_scalars(struct tw_node *n, struct tw_endp *e, void *arg)
{
	(void)n;
	(void)arg;
	if (e->chan.scl)
		tw_scl_close(e);
}

static mcapi_status_t stop(struct tw_node *n)
{
	uint64_t handle = n ? atomic_load(&n->handle) : 0;
	struct tw_ep *ep = tw_enter(handle);

	if (!ep)
		return MCAPI_ENO_FINAL;
	tw_endp_each(n, shut_scalars, NULL);
	tw_mc_leave(ep);
	if (tw_ep_close(handle) != TW_OK)
		return MCAPI_ENO_FINAL;
	atomic_store_explicit(&n->handle, 0, memory_order_release);
	dispose(n);
	nodes_up--;
	if (atomic_load(&tw_mc_first) == n)
		choose_first();
	tw_end();
	return MCAPI_SUCCESS;
}

void mcapi_finalize(mcapi_status_t *mcapi_status)
{
	struct tw_node *n;

	if (!mcapi_status)
		return;
	pthread_mutex_lock(&mutex);
	n = tw_mc_self();
	*mcapi_status = stop(n);
	if (*mcapi_status == MCAPI_SUCCESS && tw_mc_thread == n)
		tw_mc_thread = NULL;
	pthread_mutex_unlock(&mutex);
}

mcapi_uint_t mcapi_get_node_id(mcapi_status_t *mcapi_status)
{
	struct tw_node *n = tw_mc_self();

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
