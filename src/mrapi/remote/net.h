/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Members on other hosts, if TAGWIRE_NODES or a launcher names any. Each process opens an engine
 * endpoint whose id has its slot in its own host's segment. Members speak in controls
 * (struct tw_mrapi_ctrl), and access each other's memory as windows of the endpoint. These
 * functions need the endpoint's lock unless a comment says otherwise. The admin lock is taken
 * inside it, never the other way round.
 */
#ifndef TW_MRAPI_NET_H
#define TW_MRAPI_NET_H

#include "engine/engine.h"
#include "group/group.h"
#include "mrapi/mem/memory.h"

#define TW_MRAPI_FIRST_ID 1280 /* of the endpoint ids of TW_MRAPI_PROCS members */

enum tw_mrapi_ctrl_type {
	TW_MRAPI_CTRL_HELLO = 1, /* what has the receiver's host? */
	TW_MRAPI_CTRL_ATTACH,
	TW_MRAPI_CTRL_DETACH,
	TW_MRAPI_CTRL_LIFE,    /* key: of the sender's segment; what follows is all it has */
	TW_MRAPI_CTRL_CLAIM,   /* an object or node of the sender's host, new or not told before */
	TW_MRAPI_CTRL_GONE,    /* the same is no more */
	TW_MRAPI_CTRL_OPERATE, /* on a lock of the receiver's host; see remote.h */
	TW_MRAPI_CTRL_REPLY    /* to all of these that have a number */
};

struct tw_mrapi_ctrl {
	uint32_t what, number; /* of the request, in its reply as well */
	uint32_t handle;       /* on its owner's host */
	int32_t status;
	uint32_t kind;		     /* 0: a node */
	uint32_t id, domain;	     /* of an object; or a node's number and domain */
	uint32_t node;		     /* of remote memory: its owner's number; else when it was born */
	uint32_t flags, atype, size; /* of an object; size: a node's process id */
	uint8_t op, quiet; /* quiet: no reply */
	uint16_t lane;
	uint32_t mode, timeout;
	uint32_t slot; /* a node's on its host; of OPERATE: where the proxy was the last time */
	uint32_t unused;
	uint64_t turn; /* the same when a request is repeated, and later than others of its lane */
	uint64_t sent; /* later each time it is sent */
	uint64_t key;  /* a node: its endpoint */
} TW_WIRE;
_Static_assert(sizeof(struct tw_mrapi_ctrl) == 88, "wire format");

/* ---- net.c */

/* Locks the endpoint, NULL if there is none; tw_group_leave() unlocks it. */
struct tw_ep *tw_mrapi_net_enter(void);
/*
 * The statement that follows has it locked, or is left out if there is none. It does not return
 * or break.
 */
#define tw_mrapi_with_ep(ep)                                                                       \
	for (struct tw_ep *ep = tw_mrapi_net_enter(); ep; tw_group_leave(ep), ep = NULL)
/* The member with that endpoint; NULL when memory is short. */
struct tw_member *tw_mrapi_net_member(uint64_t where);
/* Connects to it; NULL: it is not there. */
struct tw_member *tw_mrapi_net_reach(struct tw_ep *ep, uint64_t where);
/* Threads that wait look again. */
void tw_mrapi_net_changed(void);
/* All that is deferred is done before the lock is released. */
void tw_mrapi_net_attend(void);
/* The endpoint is being closed: it lets go now of the memory of accesses to a member. */
void tw_mrapi_net_give_up(struct tw_member *m);
/* Begins a request, whose numbers it chooses. */
void tw_mrapi_net_begin_request(struct tw_ctrl_request *r, struct tw_member *to,
				struct tw_mrapi_ctrl *ctrl);
/* Sends a request and waits for its reply, in ctrl. RMEM_INVALID: the member is lost. */
mrapi_status_t tw_mrapi_net_request(struct tw_ep *ep, struct tw_member *to,
				    struct tw_mrapi_ctrl *ctrl);
void tw_mrapi_net_reply(struct tw_member *to, struct tw_mrapi_ctrl *ctrl, mrapi_status_t status);

/* ---- rmem.c: accesses to the memory of that owner fail from now on */
void tw_mrapi_clients_lost(const struct tw_member *owner);

/* ---- export.c: memory of this process that other hosts use */
mrapi_status_t tw_mrapi_export_serve(struct tw_ep *ep, struct tw_member *from,
				     const struct tw_mrapi_ctrl *ctrl);
void tw_mrapi_export_lost(const struct tw_member *m);
void tw_mrapi_export_forget(void);

#endif /* TW_MRAPI_NET_H */
