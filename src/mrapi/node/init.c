/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MRAPI 4.2: nodes. The first node of a process makes the process a member of the job,
 * the last one leaves it. A thread that ends without finalizing its node leaves a dead
 * node.
 */
#include "base/fds.h"
#include "base/report.h"
#include "base/settings.h"
#include "base/sys.h"
#include "base/thread.h"
#include "mrapi/remote/remote.h"

struct tw_mrapi_member tw_mrapi = {.epoch = 1, .segfd = -1, .arenafd = -1};
_Thread_local struct tw_mrapi_self tw_mrapi_self;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t thread_end;

static void forget_self(void)
{
	memset(&tw_mrapi_self, 0, sizeof(tw_mrapi_self));
}

void tw_mrapi_act_for(struct tw_mrapi_owner owner)
{
	/* In no epoch: the node may have ended since the caller looked. */
	tw_mrapi_self = (struct tw_mrapi_self){atomic_load(&tw_mrapi.epoch) - 1, owner};
}

/* Lives in this process, and is not a proxy. */
static bool lives_here(const struct tw_mrapi_node *n)
{
	return atomic_load(&n->life) == TW_MRAPI_LIVE && n->proc == tw_mrapi.proc && !n->host;
}

static bool still_self(void)
{
	struct tw_mrapi_node *n;

	if (tw_mrapi_self.as.me == 0 || tw_mrapi_self.as.join != tw_mrapi.joins)
		return false;
	n = tw_mrapi_node(tw_mrapi_self.as.me);
	/* [node] */
	return atomic_load(&n->life) == TW_MRAPI_LIVE && n->proc == tw_mrapi.proc &&
	       n->born == tw_mrapi_self.as.born;
}

uint32_t tw_mrapi_me_again(void)
{
	/* [member] */
	uint32_t first = atomic_load_explicit(&tw_mrapi.first, memory_order_acquire);

	/* Of a process that may have no node of its own, yet or any more. */
	if (tw_mrapi_self.as.proxy)
		return still_self() ? tw_mrapi_self.as.me : 0;
	if (first == 0 || tw_mrapi_self.as.me == 0)
		return first;
	tw_mrapi_self.epoch = atomic_load(&tw_mrapi.epoch);
	if (still_self())
		return tw_mrapi_self.as.me;
	forget_self();
	return first;
}

/* The oldest node of this process except one, as slot + 1; 0 if there is none. */
static uint32_t oldest_but(uint32_t me)
{
	uint32_t best = 0;

	/* A proxy may come to a slot meanwhile. */
	tw_mrapi_admin_lock();
	tw_mrapi_each_node(n)
		if (tw_mrapi_me_of(n) != me && lives_here(n) &&
		    (best == 0 || n->born < tw_mrapi_node(best)->born))
			best = tw_mrapi_me_of(n);
	tw_mrapi_admin_unlock();
	return best;
}

/* Ends a node of this process. Under the mutex. */
static void mrapi_init_end_node(uint32_t me, mrapi_event_t event)
{
	const struct tw_mrapi_name name = tw_mrapi_name(tw_mrapi_node(me));

	/* From here on nothing starts on its behalf; a lock taken after this is given back. */
	atomic_store(&tw_mrapi_node(me)->life, TW_MRAPI_LEAVING);
	atomic_store(&tw_mrapi.first, oldest_but(me));
	/* [node-ends] */
	atomic_fetch_add(&tw_mrapi.epoch, 1);
	tw_mrapi_events_end(me);
	tw_mrapi_wait_abort(me);
	tw_mrapi_requests_end(me);
	tw_mrapi_rmem_end(me);
	tw_mrapi_admin_lock();
	tw_mrapi_release_node(me);
	tw_mrapi_admin_unlock();
	tw_mrapi_remote_left(&name, true);
	tw_mrapi_export_prune();
	tw_mrapi_rmem_prune();
	tw_mrapi_shmem_prune();
	tw_mrapi_event(event);
	if (--tw_mrapi.nodes > 0)
		return;
	tw_mrapi_events_stop();
	tw_mrapi_wait_abort(0);
	tw_mrapi_movers_end();
	tw_mrapi_net_stop();
	tw_mrapi_creates_end();
	tw_mrapi_leave();
	tw_settings_end();
}

static void mrapi_init_thread_ended(void *unused)
{
	struct tw_mrapi_owner owner = {0};

	(void)unused;
	tw_mrapi_atomic_end();
	/* The callback thread ends while the process's last node waits for it, with the mutex. */
	if (tw_mrapi_self.as.me == 0)
		return;
	tw_mrapi_lock(&mutex);
	if (tw_mrapi.nodes > 0 && still_self()) {
		owner = tw_mrapi_self.as;
		mrapi_init_end_node(owner.me, MRAPI_EVENT_NODE_DIED);
	}
	forget_self();
	tw_mrapi_unlock(&mutex);
	tw_mrapi_events_quiet(owner);
}

bool tw_mrapi_thread_ends(void)
{
	return pthread_setspecific(thread_end, &tw_mrapi_self) == 0;
}

/* A forked child is not a member and has no node; it may initialize. */
static void mrapi_init_forked(void)
{
	pthread_mutex_init(&mutex, NULL);
	tw_mrapi_service_forked();
	tw_mrapi_wait_forked();
	tw_mrapi_counting_forked();
	tw_mrapi_events_forked();
	tw_mrapi_requests_forked();
	tw_mrapi_rmem_forked();
	tw_mrapi_net_forked();
	tw_mrapi_shmem_forked();
	tw_mrapi_creates_forked();
	tw_mrapi_atomic_end();
	tw_mrapi_admin_forked();
	tw_fds_forked();
	tw_mrapi.seg = NULL; /* not mapped in the child */
	tw_mrapi.nodes = 0;
	tw_mrapi.joins++;
	atomic_store(&tw_mrapi.first, 0);
	atomic_fetch_add(&tw_mrapi.epoch, 1);
	forget_self();
}

static mrapi_status_t become_member(void)
{
	static bool registered;
	mrapi_status_t status;

	if (!tw_settings_begin())
		return MRAPI_ENO_INIT;
	tw_clock_init();
	if (!registered)
		pthread_key_create(&thread_end, mrapi_init_thread_ended);
	tw_at_fork(&registered, mrapi_init_forked);
	status = tw_mrapi_net_begin();
	if (status == MRAPI_SUCCESS)
		status = tw_mrapi_join();
	if (status != MRAPI_SUCCESS)
		goto out;
	tw_mrapi.joins++;
	status = tw_mrapi_net_start();
	if (status == MRAPI_SUCCESS)
		return status;
	tw_mrapi_leave();
out:
	tw_mrapi_net_end();
	tw_settings_end();
	return status;
}

struct tw_mrapi_node *tw_mrapi_node_find(mrapi_domain_t domain, mrapi_node_t number)
{
	tw_mrapi_each_node(n) {
		/* [node] */
		if (atomic_load(&n->life) == TW_MRAPI_LIVE && n->number == number &&
		    n->domain == domain)
			return n;
	}
	return NULL;
}

bool tw_mrapi_any_here(struct tw_mrapi_nodeset *s, uint32_t beside)
{
	tw_mrapi_each_node(n)
		if (tw_mrapi_me_of(n) != beside && n->proc == tw_mrapi.proc &&
		    tw_mrapi_nodeset_has(s, tw_mrapi_me_of(n)))
			return true;
	return false;
}

mrapi_status_t tw_mrapi_node_shares(mrapi_node_t number)
{
	mrapi_status_t status = MRAPI_ERR_NODE_NOTINIT;

	tw_mrapi_each_node(n) {
		if (atomic_load(&n->life) != TW_MRAPI_LIVE || n->number != number)
			continue;
		if (!n->host)
			return MRAPI_SUCCESS;
		status = MRAPI_ERR_SHM_NODES_INCOMPAT;
	}
	return status;
}

struct tw_mrapi_node *tw_mrapi_node_new(mrapi_domain_t domain, mrapi_node_t number, uint32_t proc)
{
	/*
	 * In turn, as a call of a node that has ended may still name its slot: it must be long
	 * before the slot names another.
	 */
	for (uint32_t i = 0; i < MRAPI_MAX_NODES; i++) {
		uint32_t slot = (tw_mrapi.seg->births + i) % MRAPI_MAX_NODES;
		struct tw_mrapi_node *n = &tw_mrapi.seg->node[slot];

		if (atomic_load(&n->life) != TW_MRAPI_FREE)
			continue;
		n->proc = proc;
		n->domain = domain;
		n->number = number;
		n->born = ++tw_mrapi.seg->births;
		n->host = n->claimed = n->session = 0;
		return n;
	}
	return NULL;
}

/*
 * Enters the caller as a node. Under the admin lock. *holder, as tw_report_in_use() has it: another
 * process that is that node.
 */
static mrapi_status_t init_enter(mrapi_domain_t domain, mrapi_node_t number, int *holder)
{
	struct tw_mrapi_node *n = tw_mrapi_node_find(domain, number);

	if (n && n->host)
		*holder = TW_REPORT_OTHER_HOST;
	else if (n && n->proc != tw_mrapi.proc)
		*holder = (int)n->pid;
	if (n)
		return MRAPI_ERR_NODE_INITIALIZED;
	n = tw_mrapi_node_new(domain, number, tw_mrapi.proc);
	if (!n)
		return MRAPI_ENO_INIT;
	n->pid = (uint32_t)tw_sys_pid();
	n->claimed = tw_mrapi_remote_hosts();
	/* [node] */
	atomic_store(&n->life, TW_MRAPI_LIVE);
	tw_mrapi_self.epoch = atomic_load(&tw_mrapi.epoch);
	tw_mrapi_self.as = tw_mrapi_owner(tw_mrapi_me_of(n));
	return MRAPI_SUCCESS;
}

/* Its process has died, and nobody has attended to that yet. False: it lives, or is elsewhere. */
static bool init_reclaim_holder(mrapi_domain_t domain, mrapi_node_t number)
{
	uint32_t proc = TW_MRAPI_PROCS, incarnation = 0;
	struct tw_mrapi_node *n;

	tw_mrapi_admin_lock();
	n = tw_mrapi_node_find(domain, number);
	if (n && !n->host && n->proc != tw_mrapi.proc) {
		proc = n->proc;
		incarnation = (uint32_t)(atomic_load(&tw_mrapi.seg->proc[proc].life) >> 8);
	}
	tw_mrapi_admin_unlock();
	if (proc == TW_MRAPI_PROCS || !tw_mrapi_gone(proc))
		return false;
	tw_mrapi_reclaim(proc, incarnation);
	return true;
}

static mrapi_status_t init_enter_once(mrapi_domain_t domain, mrapi_node_t number, int *holder)
{
	mrapi_status_t status;

	*holder = 0;
	tw_mrapi_admin_lock();
	status = init_enter(domain, number, holder);
	tw_mrapi_admin_unlock();
	return status;
}

static mrapi_status_t begin_node(mrapi_domain_t domain, mrapi_node_t number)
{
	mrapi_status_t status = MRAPI_SUCCESS;
	int holder = 0;

	if (tw_mrapi.nodes > 0 && still_self())
		return MRAPI_ERR_NODE_INITIALIZED;
	if (domain > MRAPI_MAX_DOMAIN_ID) {
		tw_report_range("domain", domain, MRAPI_MAX_DOMAIN_ID);
		return MRAPI_ERR_DOMAIN_INVALID;
	}
	if (number > MRAPI_MAX_NODE_ID) {
		tw_report_range("node", number, MRAPI_MAX_NODE_ID);
		return MRAPI_ERR_NODE_INVALID;
	}
	if (tw_mrapi.nodes == 0)
		status = become_member();
	if (status != MRAPI_SUCCESS)
		return status;
	status = init_enter_once(domain, number, &holder);
	if (holder && init_reclaim_holder(domain, number))
		status = init_enter_once(domain, number, &holder);
	if (holder)
		tw_report_in_use("node", number, holder);
	if (status == MRAPI_SUCCESS) {
		status = tw_mrapi_remote_join(tw_mrapi_self.as.me);
		if (status == MRAPI_ERR_NODE_INITIALIZED)
			tw_report_in_use("node", number, TW_REPORT_OTHER_HOST);
	}
	if (status != MRAPI_SUCCESS) {
		forget_self();
		if (tw_mrapi.nodes == 0) {
			tw_mrapi_net_stop();
			tw_mrapi_leave();
			tw_settings_end();
		}
		return status;
	}
	if (tw_mrapi.nodes++ == 0)
		/* [member] */
		atomic_store_explicit(&tw_mrapi.first, tw_mrapi_self.as.me, memory_order_release);
	tw_mrapi_thread_ends();
	tw_mrapi_event(MRAPI_EVENT_NODE_JOINED);
	return MRAPI_SUCCESS;
}

void mrapi_initialize(mrapi_domain_t domain_id, mrapi_node_t node_id,
		      const mrapi_parameters_t *mrapi_parameters, mrapi_info_t *mrapi_info,
		      mrapi_status_t *status)
{
	mrapi_status_t result = MRAPI_ERR_PARAMETER;

	(void)mrapi_parameters; /* domain attributes do not exist */
	if (mrapi_info) {
		tw_mrapi_lock(&mutex);
		result = begin_node(domain_id, node_id);
		tw_mrapi_unlock(&mutex);
	}
	if (result == MRAPI_SUCCESS)
		*mrapi_info = (mrapi_info_t){.mrapi_version = MRAPI_VERSION,
					     .organization_id = MRAPI_ORGANIZATION_ID,
					     .implementation_version = 0x00001,
					     .number_of_domains = MRAPI_MAX_DOMAINS,
					     .number_of_nodes = MRAPI_MAX_NODES};
	tw_mrapi_set_status(status, result);
}

void mrapi_finalize(mrapi_status_t *status)
{
	mrapi_status_t result = MRAPI_ERR_NODE_NOTINIT;
	struct tw_mrapi_owner owner = {0};
	uint32_t me;

	tw_mrapi_lock(&mutex);
	me = tw_mrapi_me();
	if (me) {
		owner = tw_mrapi_owner(me);
		mrapi_init_end_node(me, MRAPI_EVENT_NODE_LEFT);
		result = MRAPI_SUCCESS;
	}
	tw_mrapi_unlock(&mutex);
	tw_mrapi_events_quiet(owner);
	tw_mrapi_set_status(status, result);
}

mrapi_domain_t mrapi_domain_id_get(mrapi_status_t *status)
{
	uint32_t me = tw_mrapi_me();

	tw_mrapi_set_status(status, me ? MRAPI_SUCCESS : MRAPI_ERR_NODE_NOTINIT);
	return me ? tw_mrapi_node(me)->domain : 0;
}

mrapi_node_t mrapi_node_id_get(mrapi_status_t *status)
{
	uint32_t me = tw_mrapi_me();

	tw_mrapi_set_status(status, me ? MRAPI_SUCCESS : MRAPI_ERR_NODE_NOTINIT);
	return me ? tw_mrapi_node(me)->number : 0;
}

static mrapi_status_t node_attribute(mrapi_node_t number, mrapi_uint_t num, void *value,
				     size_t size)
{
	struct tw_mrapi_node *n;
	uint32_t me = tw_mrapi_me();
	mrapi_status_t status;

	if (!me)
		return MRAPI_ERR_NODE_NOTINIT;
	if (!value)
		return MRAPI_ERR_PARAMETER;
	tw_mrapi_admin_lock();
	n = tw_mrapi_node_find(tw_mrapi_node(me)->domain, number);
	if (!n)
		status = MRAPI_ERR_PARAMETER;
	else if (num == MRAPI_OBJECT_ID)
		status = tw_mrapi_attr_put(value, size, &n->number, sizeof(n->number));
	else if (num == MRAPI_NODE_DOMAIN)
		status = tw_mrapi_attr_put(value, size, &n->domain, sizeof(n->domain));
	else if (num == MRAPI_NODE_PID)
		status = tw_mrapi_attr_put(value, size, &n->pid, sizeof(n->pid));
	else
		status = MRAPI_ERR_ATTR_NUM;
	tw_mrapi_admin_unlock();
	return status;
}

void mrapi_node_get_attribute(mrapi_node_t node, mrapi_uint_t attribute_num, void *attribute,
			      size_t attribute_size, mrapi_status_t *status)
{
	tw_mrapi_set_status(status, node_attribute(node, attribute_num, attribute, attribute_size));
}
