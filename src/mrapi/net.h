/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Members on other hosts, where TAGWIRE_NODES names such. A process opens an
 * engine endpoint whose id tells its slot in its own host's segment. Messages
 * with match information 0 are a struct tw_mrapi_ctrl and, of a WRITE, the bytes;
 * others are the bytes that a READ asked for, and its token. Everything here runs
 * under the endpoint's lock unless its comment says otherwise; the admin lock is
 * taken inside it, never the other way round.
 */
#ifndef TW_MRAPI_NET_H
#define TW_MRAPI_NET_H

#include "engine/engine.h"
#include "mrapi/memory.h"

#define TW_MRAPI_CHUNK 0x40000u /* bytes of one READ or WRITE */

enum tw_mrapi_saying {
	TW_MRAPI_CTRL_FIND = 1, /* who has that id? */
	TW_MRAPI_CTRL_CHECK,	/* is that handle good? */
	TW_MRAPI_CTRL_ATTACH,	/* again: a new key */
	TW_MRAPI_CTRL_DETACH,
	TW_MRAPI_CTRL_READ,
	TW_MRAPI_CTRL_WRITE,
	TW_MRAPI_CTRL_REPLY, /* the answer to any of these */
	TW_MRAPI_CTRL_GONE   /* the owner ended that memory */
};

struct tw_mrapi_ctrl {
	uint32_t what, token; /* the answer has the token of the question */
	uint32_t handle;      /* of the remote memory, at its owner's host */
	int32_t status;
	uint32_t id, domain; /* LOOK: what and for whom; its answer: the object's */
	uint32_t proc, atype, size, flags;
	uint32_t bytes, n, stride; /* READ, WRITE: as struct tw_mrapi_move */
	uint32_t key_len;
	uint64_t remote;
	uint64_t address; /* the answer to ATTACH, with the key */
	uint8_t key[TW_KEY_MAX];
};
_Static_assert(sizeof(struct tw_mrapi_ctrl) == 120, "wire format");

/* What a request of ours does at its end; context of the request. */
struct tw_mrapi_op {
	void (*done)(struct tw_ep *ep, struct tw_mrapi_op *op, const struct tw_req *r);
};

/* A message on its way; freed once it has left. */
struct tw_mrapi_net_msg {
	struct tw_mrapi_op op;
	struct tw_mrapi_ctrl ctrl;
	char data[];
};

/* A question, on the stack of who waits for its answer. */
struct tw_mrapi_ask {
	struct tw_list link;
	struct tw_addr to;
	struct tw_mrapi_ctrl answer;
	char *data; /* where the bytes of a READ go */
	uint32_t len;
	struct tw_mrapi_op op;
	struct tw_req *r; /* that fetches them, or NULL */
	bool over;
};

/* Memory of another host as this process knows it; what is not `r' is the owner's. */
struct tw_mrapi_remote {
	struct tw_mrapi_rmem r;
	struct tw_addr owner;
	uint32_t there; /* its handle at its own host */
	uint64_t address;
	uint32_t key_len;
	uint8_t key[TW_KEY_MAX];
};

static inline bool tw_mrapi_same(struct tw_addr a, struct tw_addr b)
{
	return a.where == b.where && a.session == b.session;
}

/* ---- net.c */

/* The endpoint locked, or NULL when there is none; and back. */
struct tw_ep *tw_mrapi_net_enter(void);
void tw_mrapi_net_leave(struct tw_ep *ep);
/* The other hosts; no lock. */
unsigned tw_mrapi_net_hosts(const uint64_t **nics);
/* Connects to a member. TW_S_CLOSED: there is none of that number; others: no way there. */
enum tw_status tw_mrapi_net_reach(struct tw_ep *ep, uint64_t nic, uint32_t proc,
				  struct tw_addr *addr);
/* NULL when memory is short. */
struct tw_mrapi_net_msg *tw_mrapi_net_msg_new(const struct tw_mrapi_ctrl *ctrl, uint32_t len);
/* The bytes that a READ asked for. */
void tw_mrapi_net_post_data(struct tw_ep *ep, struct tw_addr to, struct tw_mrapi_net_msg *l,
			    uint32_t len);
void tw_mrapi_net_ctrl_send(struct tw_ep *ep, struct tw_addr to, const struct tw_mrapi_ctrl *ctrl);
/* Asks and waits; RMEM_INVALID when the other side is gone. The letter is used up. */
mrapi_status_t tw_mrapi_net_ask(struct tw_ep *ep, struct tw_mrapi_ask *ask,
				struct tw_mrapi_net_msg *l, uint32_t len);

/* ---- remote.c: memory of other hosts; down() comes with the lock, forget() without */
void tw_mrapi_remote_gone(struct tw_addr owner, uint32_t there);
void tw_mrapi_remote_down(struct tw_addr owner);
void tw_mrapi_remote_forget(void);

/* ---- export.c: memory of this process that other hosts use */
void tw_mrapi_export_serve(struct tw_ep *ep, struct tw_addr from, struct tw_mrapi_ctrl *ctrl,
			   const char *data, uint32_t len);
void tw_mrapi_export_down(const struct tw_peer *p);
void tw_mrapi_export_forget(void);

#endif /* TW_MRAPI_NET_H */
