/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The verbs module, between its own files.
 *
 *   verbs.c    the operations: open, close, progress, arm
 *   device.c   the RDMA device of a board, and what it can do
 *   cm.c       connections: rdma_cm and its events
 *   paths.c    paths, their queue pairs and what is under way on them
 *   packets.c  send, receive buffers, credit
 *   rma.c      get, put, registrations
 *
 * A path is one reliable connection. Addresses that the two sides exchange
 * beforehand hold a random token each; the side with the greater one connects,
 * and shows the other's. All paths of an endpoint share one completion queue
 * and one queue of receive buffers, so each promises the other side only as
 * many packets as there are buffers for (credit).
 */
#ifndef TW_VERBS_H
#define TW_VERBS_H

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include "base/list.h"
#include "providers/replay/fabric.h"

#define TW_VB_PACKET 8448  /* longest packet, without our head: one of TAGWIRE_EAGER_MAX */
#define TW_VB_BUFFER 8512  /* bytes of a buffer for one */
#define TW_VB_SLAB 64	   /* buffers made at a time */
#define TW_VB_BUFFERS 8192 /* receive buffers at most, as far as they are needed */
#define TW_VB_SQ 320	   /* work requests of a path at most: all that replay keeps, */
#define TW_VB_SQ_LOW 64	   /* but only this many where there are more paths than */
#define TW_VB_DEEP 16
#define TW_VB_SQ_RMA 16	 /* transfers among them */
#define TW_VB_SIGNAL 16	 /* of so many short packets one tells that it is sent */
#define TW_VB_CHAIN 8	 /* packets handed over at once */
#define TW_VB_INLINE 512 /* bytes that travel in the work request, where possible */
#define TW_VB_SGE 4	 /* pieces of a work request at most */
#define TW_VB_CQ_BATCH 32
#define TW_VB_REPOST 8	       /* used buffers that are not left for the next poll in vain */
#define TW_VB_SHARE_MIN 4      /* packets that every peer may send, whatever others do */
#define TW_VB_SHARE_MAX 288    /* so that all that replay keeps for a peer gets to it */
#define TW_VB_PIECES 4	       /* of a transfer under way at a time */
#define TW_VB_PIECE (1u << 20) /* bytes registered at a time */
#define TW_VB_CM_LOOKS 1024    /* polls between two looks for connection events */

/* How every packet begins on the wire. */
struct tw_vb_head {
	uint32_t granted; /* packets that the receiver of this may have sent in all */
	uint32_t magic;
};
_Static_assert(sizeof(struct tw_vb_head) == 8, "wire format");
_Static_assert(sizeof(struct tw_vb_head) + TW_VB_PACKET <= TW_VB_BUFFER, "it fits");

/* The address of a path, exchanged by the replay provider. */
struct tw_vb_address {
	uint32_t magic, name;
	uint64_t token;
	struct sockaddr_in6 to; /* or a sockaddr_in */
};
_Static_assert(sizeof(struct tw_vb_address) <= TW_FABRIC_ADDRESS, "it fits");

/* Private data of rdma_cm, both ways; 56 bytes at most. */
struct tw_vb_hello {
	uint32_t magic, name; /* of the path that it is for */
	uint64_t token;	      /* that path's */
	uint64_t from;	      /* the sender's */
	uint32_t granted;
	uint32_t call; /* how often the caller has called */
};
_Static_assert(sizeof(struct tw_vb_hello) == 32, "wire format");

#define TW_VB_MAGIC 0x74777662u
#define TW_VB_RECV (1ull << 63) /* in a wr_id: a buffer's number; else path and place */

struct tw_vb;

/* A buffer of registered memory: for a packet to send, or small pieces of a transfer. */
struct tw_vb_buf {
	struct tw_list node; /* free, or of v->sent */
	void *cookie;	     /* of a send */
	char *mem;
	uint32_t lkey;
	bool ok; /* it was sent */
};

/* Buffers are made by the slab. */
struct tw_vb_slab {
	struct tw_list node;
	struct ibv_mr *mr;
	char *mem;
	struct tw_vb_buf bufs[TW_VB_SLAB];
};

/* Part of a transfer: one work request. */
struct tw_vb_piece {
	struct tw_vb_rma *rma;
	bool open;
	unsigned at; /* where it begins: piece of iov, and offset */
	size_t offset, len;
	struct tw_vb_buf *buf; /* copied through it, or registered: */
	struct ibv_mr *mr[TW_VB_SGE];
	unsigned nmr;
};

struct tw_vb_rma {
	struct tw_list node;	 /* of v->rmas, then v->over */
	struct tw_list more;	 /* of p->waiting while there is more to post */
	struct tw_vb_path *path; /* NULL: gone */
	void *cookie;
	bool put;
	enum tw_err err;
	uint64_t address;
	uint32_t rkey;
	unsigned open; /* pieces under way */
	unsigned at;   /* what is posted next */
	size_t offset, left;
	struct tw_vb_piece pieces[TW_VB_PIECES];
	unsigned niov;
	struct iovec iov[];
};

enum tw_vb_state {
	TW_VB_NEW, /* not connected yet */
	TW_VB_UP,
	TW_VB_DOWN, /* broken */
};

/* What a work request of a send queue was for; nothing to do for inline sends. */
struct tw_vb_sqe {
	struct tw_vb_buf *buf;
	struct tw_vb_piece *piece;
};

struct tw_vb_path {
	struct tw_vb *v;
	struct tw_list node;	/* of v->paths */
	struct tw_list owing;	/* of v->owing: credit is to be told */
	struct tw_list broken;	/* of v->broken: to be told */
	struct tw_list waiting; /* transfers with more to post */
	enum tw_vb_state state;
	uint32_t name, other_name; /* slot and generation */
	uint64_t token, other_token;
	bool bound, calls;
	bool accounted;		/* counted among those who get credit */
	struct sockaddr_in6 to; /* whom to call; or a sockaddr_in */
	uint32_t call;		/* which one the connection is of */
	unsigned ticks;		/* since that one */
	struct rdma_cm_id *id;
	struct ibv_qp *qp;
	struct tw_vb_path *next_qp; /* of the same hash */
	/* The send queue: everything before tail is over. */
	struct tw_vb_sqe sq[TW_VB_SQ];
	uint32_t head, tail;
	unsigned depth;	     /* of the send queue */
	unsigned nrma;	     /* work requests for transfers */
	unsigned unsignaled; /* in a row */
	/* Packets that wait for the doorbell. */
	struct ibv_send_wr chain[TW_VB_CHAIN];
	struct ibv_sge sge[TW_VB_CHAIN][2];
	struct tw_vb_head heads[TW_VB_CHAIN];
	unsigned nchain;
	/* Credit, all counted from the beginning. */
	uint32_t sent, limit;	      /* we may send until limit */
	uint32_t granted, told, used; /* the other side may, knows of, and has */
};

/* What the device can do. */
struct tw_vb_limits {
	unsigned sq, sge, sge_read, srq, cqe;
	uint32_t inline_max;
	uint32_t message; /* bytes of a work request */
	uint8_t reads_in, reads_out;
	bool iwarp;
};

struct tw_vb {
	struct tw_fabric_host host;
	struct rdma_event_channel *events;
	struct rdma_cm_id *listener;
	struct sockaddr_storage addr; /* with the listener's port */
	struct ibv_context *ctx; /* our own: what librdmacm keeps open does not survive a fork */
	struct tw_vb_limits limits;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	int epfd;  /* of both channels and the timer */
	int timer; /* ticks while something connects */
	bool ticking;
	bool heard;	  /* somebody called or answered since the last tick */
	unsigned unacked; /* events of the completion channel */
	/* Paths by name, and by queue pair. */
	struct tw_list paths;
	struct tw_vb_path **table;
	uint32_t ntable, serial;
	struct tw_vb_path *by_qp[256];
	unsigned nsq;	 /* work requests of all queue pairs */
	unsigned npaths; /* with a queue pair or soon to have one */
	unsigned connecting;
	unsigned looks; /* polls since connection events were looked for */
	bool gone;	/* the device was removed */
	struct tw_list owing, broken;
	/* Buffers. */
	struct tw_list slabs, free_bufs;
	struct tw_vb_buf **rx;	/* by number */
	unsigned nrx, promised; /* receive buffers there are, and spoken for */
	uint32_t repost[TW_VB_CQ_BATCH], from[TW_VB_CQ_BATCH];
	unsigned nrepost;
	/* Transfers, and what the owner is to be told of: ended ones, and sends. */
	struct tw_list rmas, over, sent;
	/* Completions that were read and not dealt with: the engine was not ready. */
	struct ibv_wc wc[TW_VB_CQ_BATCH];
	int nwc, next_wc;
};

/* device.c: finds the device, listens; TW_EUNREACH with the reason told. */
enum tw_err tw_vb_device_open(struct tw_vb *v);

/* cm.c */
bool tw_vb_call(struct tw_vb_path *p);
/* The timer is to tick, so that who does not answer is called again; or no more. */
void tw_vb_tick(struct tw_vb *v);
void tw_vb_cm_events(struct tw_vb *v);
/* It is connected. */
void tw_vb_path_up(struct tw_vb_path *p, uint32_t granted);

/* paths.c */
enum tw_err tw_vb_path_new(void *instance, struct tw_fabric_address *mine, void **path);
enum tw_err tw_vb_path_bind(void *path, const struct tw_fabric_address *other);
void tw_vb_path_free(void *path);
struct tw_vb_path *tw_vb_path_find(struct tw_vb *v, uint32_t name);
struct tw_vb_path *tw_vb_path_of_qp(struct tw_vb *v, uint32_t qp_num);
bool tw_vb_qp_make(struct tw_vb_path *p);
/* Moves the queue pair on, as the connection says. */
bool tw_vb_qp_move(struct tw_vb_path *p, enum ibv_qp_state to);
/* Nothing goes along it any more; the owner will be told, by progress(). */
void tw_vb_path_down(struct tw_vb_path *p, const char *why);
/* Its connection comes to nothing, but another one may be made. */
void tw_vb_path_anew(struct tw_vb_path *p);
/* Neither side's hardware uses memory for it any more. */
void tw_vb_qp_end(struct tw_vb_path *p);
/* Everything up to that work request is over, the last one with that status. */
void tw_vb_sq_done(struct tw_vb_path *p, uint32_t last, enum ibv_wc_status status);
/* Where what a new work request is for is noted; its wr_id. */
uint64_t tw_vb_sq_next(struct tw_vb_path *p, struct tw_vb_buf *buf, struct tw_vb_piece *piece);

/* packets.c */
enum tw_err tw_vb_send(void *path, const void *data, uint32_t len, bool more, void *cookie);
/* False: to be offered again. */
bool tw_vb_received(struct tw_vb *v, const struct ibv_wc *wc);
/* Used buffers are posted again and the senders told in time. */
void tw_vb_repost(struct tw_vb *v);
void tw_vb_credit_flush(struct tw_vb *v);
/* A packet without content: the other side learns that the path is up. */
void tw_vb_greet(struct tw_vb_path *p);
/* The first promise to a peer; false: there is no room for one more. */
bool tw_vb_credit_begin(struct tw_vb_path *p);
void tw_vb_credit_end(struct tw_vb_path *p);
/* Rings for what waits in the chain. */
bool tw_vb_ring(struct tw_vb_path *p);
struct tw_vb_buf *tw_vb_buf_get(struct tw_vb *v);
void tw_vb_buf_put(struct tw_vb *v, struct tw_vb_buf *b);
void tw_vb_bufs_free(struct tw_vb *v);
bool tw_vb_rx_grow(struct tw_vb *v);

/* rma.c */
enum tw_err tw_vb_get(void *path, const struct iovec *iov, unsigned niov, uint64_t address,
		      const void *key, uint32_t key_len, void *cookie);
enum tw_err tw_vb_put(void *path, const struct iovec *iov, unsigned niov, uint64_t address,
		      const void *key, uint32_t key_len, void *cookie);
void tw_vb_cancel(void *instance, void *cookie);
enum tw_err tw_vb_mem_reg(void *instance, void *addr, size_t len, struct tw_fabric_mr *mr);
void tw_vb_mem_dereg(void *instance, struct tw_fabric_mr *mr);
void tw_vb_piece_done(struct tw_vb *v, struct tw_vb_piece *piece, enum ibv_wc_status status);
/* Posts more of the transfers that have more. */
void tw_vb_rma_pump(struct tw_vb_path *p);
/* The queue pair is gone: its transfers are over. */
void tw_vb_rma_orphan(struct tw_vb_path *p);
/* Tells the owner; false if there was nothing. */
bool tw_vb_rma_tell(struct tw_vb *v);
/* Forgets all of them; no queue pair is left. */
void tw_vb_rma_drop(struct tw_vb *v);

#endif /* TW_VERBS_H */
