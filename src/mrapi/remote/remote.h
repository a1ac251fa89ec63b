/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects and nodes of other hosts. An object lives on the host that created it, and every
 * other host has its name: a slot of the same table with the number of that host, so that ids
 * are looked up here and are unique in the job. A node is a proxy in the segment of every
 * other host. objects.c keeps the names, and operates on what is elsewhere; proxy.c operates here
 * for proxies; hosts.c finds a process to talk to on each host.
 *
 * These functions take the endpoint's lock themselves and may wait for other hosts, unless
 * they need it: then they do not wait. Without other hosts they do nothing.
 */
#ifndef TW_MRAPI_REMOTE_H
#define TW_MRAPI_REMOTE_H

#include "mrapi/remote/net.h"

/* A node of this host, as it is told to others. */
struct tw_mrapi_name {
	uint32_t domain, number, born, proc, slot;
};

static inline struct tw_mrapi_name tw_mrapi_name(const struct tw_mrapi_node *n)
{
	return (struct tw_mrapi_name){n->domain, n->number, n->born, n->proc,
				      tw_mrapi_me_of(n) - 1};
}

/* ---- objects.c */

/* Whether there may be other hosts. */
bool tw_mrapi_remote_hosts(void);
/* Whether the other hosts agree to a new object: EXISTS. */
mrapi_status_t tw_mrapi_remote_claim(enum tw_mrapi_kind kind, struct tw_mrapi_obj *o);
/* Whether they agree to a new node of this process, which is gone if not: NODE_INITIALIZED. */
mrapi_status_t tw_mrapi_remote_join(uint32_t me);
/* An object or a node of this host is no more. */
void tw_mrapi_remote_gone(enum tw_mrapi_kind kind, uint32_t id, uint32_t handle);
void tw_mrapi_remote_left(const struct tw_mrapi_name *name, bool wait);
/*
 * Looks for the hosts that a process of this host knew, which has died, and reports to all hosts the
 * ends of objects in its place.
 */
void tw_mrapi_remote_inherit(uint64_t hosts);
/* A slot has no object any more. Under the admin lock. */
void tw_mrapi_remote_cleared(enum tw_mrapi_kind kind, struct tw_mrapi_obj *o);

enum tw_mrapi_remote_op {
	TW_MRAPI_REMOTE_LOCK = 1,
	TW_MRAPI_REMOTE_UNLOCK,
	TW_MRAPI_REMOTE_DELETE
};

/*
 * Has its host do it, and waits for the status, or only says so: what is certain to succeed. The
 * caller sets the operation, the handle that it has here, and mode, timeout and key of the lock.
 */
mrapi_status_t tw_mrapi_remote_ask(struct tw_mrapi_obj *o, struct tw_mrapi_ctrl *c);
mrapi_status_t tw_mrapi_remote_post(struct tw_mrapi_obj *o, struct tw_mrapi_ctrl *c);

/* The rest needs the endpoint's lock, or that of the member's loss. */

/* Tells a process of another host all that this host has. */
void tw_mrapi_remote_introduce(struct tw_member *to);
/* Serves CLAIM and GONE. */
mrapi_status_t tw_mrapi_remote_serve(const struct tw_member *from, const struct tw_mrapi_ctrl *ctrl);
/* A host is lost, with all it has. */
void tw_mrapi_remote_forget(uint32_t host);
/* A host has a segment of this life: as tw_mrapi_remote_forget(), if it had another before. */
void tw_mrapi_remote_life(uint32_t host, uint64_t life);

/* A request to a lock of another host, of that node's, is over. */
void tw_mrapi_turn_end(uint32_t me, const struct tw_mrapi_ctrl *c);

/* ---- notices.c: under the admin lock */

/* Whether it was not told before that something later has its slot there, or that it has ended. */
bool tw_mrapi_notices(uint32_t host, const struct tw_mrapi_ctrl *c, bool gone);
void tw_mrapi_notices_forget(uint32_t host);

/* ---- proxy.c */

/* Serves OPERATE, now or in a thread that waits. */
void tw_mrapi_proxy_serve(struct tw_member *from, struct tw_mrapi_ctrl *ctrl);
void tw_mrapi_proxies_lost(const struct tw_member *m);
/* Under the admin lock: this process serves it, if that is its process and no other here does. */
void tw_mrapi_proxy_called(struct tw_mrapi_node *n, const struct tw_member *from);
/* False without memory. */
bool tw_mrapi_proxy_begin(struct tw_mrapi_node *n);
void tw_mrapi_proxy_end(struct tw_mrapi_node *n);
/* A process has died that had the admin lock. */
void tw_mrapi_proxy_repair(void);
/* The process that has served them has ended. */
void tw_mrapi_proxies_unserved(uint32_t proc);
/* Ends the threads that wait; without the lock. */
void tw_mrapi_proxies_stop(void);
void tw_mrapi_proxies_forked(void);

/* ---- hosts.c */

/* A control that is sent again if the process it went to is lost before its reply. */
struct tw_mrapi_notice {
	struct tw_ctrl_request r;
	struct tw_list link;
	uint32_t host, me; /* me: whose operation it is, or 0 */
	struct tw_mrapi_ctrl ctrl;
};

/* The number + 1 of a host; 0: it is not known. */
uint32_t tw_mrapi_host_of(uint64_t nic);
/* Before another host can call. */
void tw_mrapi_hosts_begin(void);
/* Waits until each of these hosts has been found or is known to be down. */
void tw_mrapi_hosts_start(struct tw_ep *ep, const uint64_t *nics, unsigned n);
void tw_mrapi_hosts_stop(void);
/*
 * One request to any process of a host, with its reply in ctrl, repeated if that process is
 * lost meanwhile. RMEM_INVALID: the host is lost. Releases the lock while it waits.
 */
mrapi_status_t tw_mrapi_host_ask(struct tw_ep *ep, uint32_t host, struct tw_mrapi_ctrl *ctrl);
/* Asks all hosts that are up, until one does not agree. Without the lock. */
mrapi_status_t tw_mrapi_hosts_ask(const struct tw_mrapi_ctrl *ctrl);
/* Tells those of which a process of this host knows one, and does not wait. False: no endpoint. */
bool tw_mrapi_hosts_notify(const struct tw_mrapi_ctrl *ctrl);
/* Sends a notice, which is allocated, and does not wait. */
void tw_mrapi_host_notify(struct tw_mrapi_notice *t);
/* A process has replied to a request of this number: it has served what was sent before. */
void tw_mrapi_hosts_replied(struct tw_member *from, uint32_t number);
/* Looks for hosts that were down, now and then, and does not wait for them. Without the lock. */
void tw_mrapi_hosts_look(void);
/* Looks for the hosts that a process of this host knew, which has died; does not wait. */
void tw_mrapi_hosts_inherit(uint64_t hosts);
void tw_mrapi_hosts_life(const struct tw_member *from, uint64_t life);
void tw_mrapi_hosts_hello(struct tw_member *from);
void tw_mrapi_hosts_here(struct tw_member *m);
void tw_mrapi_hosts_lost(struct tw_member *m);
void tw_mrapi_hosts_work(void);

#endif /* TW_MRAPI_REMOTE_H */
