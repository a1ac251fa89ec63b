/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The structures of the Panda interface.
 *
 *   init.c  beginning, end, platforms      send.c    sending, tickets
 *   peer.c  other platforms, their acks    port.c    ports, receive.c receiving
 *   wait.c  polling, waiting               upcall.c  upcalls and their thread
 *
 * A process is one engine endpoint. All of this runs under its lock, except the program's
 * upcalls: upcall.c makes them one at a time, from its own thread or from a call that polls.
 */
#ifndef TW_PANDA_INTERNAL_H
#define TW_PANDA_INTERNAL_H

#include "engine/engine.h"
#include "group/group.h"
#include "group/job.h"
#include "pan_mp.h"
#include "panda/wire.h"

#define TW_PANDA_EXPECT_US 1000 /* pan_mp_expect(): "soon" */
#define TW_PANDA_MAX_PORTS (1u << 20)

/* Tickets are numbers from here on, ports below. */
#define TW_PANDA_TICKET (1u << 30)
#define TW_PANDA_INDEX_BITS 20
#define TW_PANDA_TICKET_MASK (TW_PANDA_TICKET - 1)

/* Another platform, or this one. */
struct tw_panda_peer {
	struct tw_member m;
	bool expected;
	struct tw_list out;	/* sends waiting for the connection */
	struct tw_list unacked; /* delivered in this order */
	uint32_t acked;		/* sends that will be on that list, and are delivered */
	/* Messages of the peer that are not acknowledged to it yet. */
	uint32_t acks;
	uint64_t due_at;
	bool ack_now;
	struct tw_list due; /* on tw_panda.due while acks > 0, or ack_now */
};

/* A port that receives, or has an upcall. */
struct tw_panda_port {
	uint32_t number;
	int (*upcall)(void *data, int size, int len);
	struct tw_list receives; /* tickets without a message */
	/* With an upcall: */
	struct tw_op arrived;
	struct tw_req *next;	  /* the posted receive for its next message, or NULL */
	struct tw_unexp_msg *msg; /* of the upcall that is due */
	struct tw_list ready;	  /* on tw_panda.ready: the upcall is due */
};

/* A send, or a receive. */
struct tw_panda_ticket {
	struct tw_pool_obj obj;
	bool receive;
	bool over;    /* delivered or lost; a receive: has its message, or is closed */
	bool sending; /* the engine has the data */
	bool called;  /* pan_mp_async_send() was */
	uint8_t ack;
	struct tw_list link; /* of a peer, a port, or tw_panda.finished */
	union {
		struct { /* send */
			struct tw_panda_peer *peer;
			bool lost; /* over, without an acknowledgement */
			uint32_t port;
			void *data;
			uint32_t len;
			void (*upcall)(void *arg);
			void *arg;
			struct tw_op sent;
		};
		struct { /* receive */
			bool direct;
			struct tw_op received;
			struct tw_req *req; /* until it has its message */
			struct tw_unexp_msg *msg;
		};
	};
};

struct tw_panda {
	_Atomic(uint64_t) handle; /* of the engine endpoint; 0: not begun */
	struct tw_job job;
	struct tw_panda_peer *peers;
	struct tw_pool tickets;
	struct tw_panda_port **ports; /* by number - 1; NULL: freed */
	uint32_t nports, ports_room;
	uint32_t salt; /* of the numbers of tickets */
	bool met;      /* the addresses of all platforms are known */
	struct tw_group group;
	struct tw_list due;
	struct tw_list ready, finished; /* ports and sends with upcalls due */
	uint32_t nsending, nexpected;
	/* upcall.c */
	bool dispatching, has_thread, asleep;
	const struct tw_panda_port *running;
};

extern struct tw_panda tw_panda;

/* init.c -------------------------------------------------------------------- */

extern uint32_t tw_panda_linger_us; /* limit of pan_mp_end() for sends to leave */

/* Locks the endpoint; NULL outside of pan_mp_init() and pan_mp_end(). */
static inline struct tw_ep *tw_panda_try_enter(void)
{
	/* [set-up] */
	return tw_enter(atomic_load_explicit(&tw_panda.handle, memory_order_acquire));
}

/* As tw_panda_try_enter(), and logs a failure. */
struct tw_ep *tw_panda_enter(const char *function);

/* wait.c -------------------------------------------------------------------- */

/* Handles requests that have ended, and sends what is queued. */
void tw_panda_attend(struct tw_ep *ep);
/* Progress in a call that leaves with tw_panda_leave_poll(). */
void tw_panda_poll(struct tw_ep *ep);
/* Leaves, then makes the upcalls that are due. */
void tw_panda_leave_poll(struct tw_ep *ep);
/* Waits until test(ep, arg); false if message passing has ended, without the lock. */
bool tw_panda_wait(struct tw_ep *ep, bool (*test)(struct tw_ep *ep, void *arg), void *arg);

/* peer.c -------------------------------------------------------------------- */

extern uint32_t tw_panda_delay_us; /* of PAN_MP_DELAYED, until an acknowledgement goes alone */

extern const struct tw_interface tw_panda_interface;

void tw_panda_peer_init(struct tw_panda_peer *peer);
/* The addresses of all platforms are known. */
void tw_panda_peers_met(struct tw_ep *ep);
/* Sends what waits for the connection, and acknowledgements. */
void tw_panda_ready(struct tw_member *m);
/* That address is of the process that the platform is now, not of one that it was. */
bool tw_panda_is_current(const struct tw_panda_peer *peer, struct tw_addr at);
void tw_panda_lost(struct tw_member *m);
/*
 * A message is seen for the first time: takes what it acknowledges off its match information.
 * False if it is no platform's.
 */
bool tw_panda_seen(struct tw_ep *ep, struct tw_addr source, uint64_t *match);
/* All of it is here, by that request if not NULL: acknowledges it, once, if it is counted. */
void tw_panda_here(struct tw_ep *ep, struct tw_addr source, uint64_t *match,
		   const struct tw_req *r);
void tw_panda_acknowledged(struct tw_ep *ep, struct tw_panda_peer *peer, uint32_t n);
/* The acknowledgements to piggyback on a message to it. */
uint32_t tw_panda_acks_take(struct tw_panda_peer *peer);
/* Sends all deferred acknowledgements. */
void tw_panda_acks_flush(struct tw_ep *ep);

/* send.c -------------------------------------------------------------------- */

struct tw_panda_ticket *tw_panda_ticket_new(bool receive);
void tw_panda_ticket_free(struct tw_panda_ticket *t);
struct tw_panda_ticket *tw_panda_ticket_find(int ticket, bool receive);
/* Whether that operation, by its number (int), has ended; also if it is no ticket any more. */
bool tw_panda_ticket_over(struct tw_ep *ep, void *ticket);
void tw_panda_tickets_fini(void);
int tw_panda_ticket_number(const struct tw_panda_ticket *t);
/* Gives a send to the engine; false if there is no memory. */
bool tw_panda_launch(struct tw_ep *ep, struct tw_panda_ticket *t);
/* Delivered or lost. */
void tw_panda_send_over(struct tw_ep *ep, struct tw_panda_ticket *t, bool lost);

/* port.c -------------------------------------------------------------------- */

/* The port of that number, or NULL. */
struct tw_panda_port *tw_panda_port_find(uint32_t number);
/* Posts a receive that claims a message for a port or a ticket; NULL without memory. */
struct tw_req *tw_panda_claim(struct tw_ep *ep, uint32_t number, struct tw_op *op);
/* The message that it has claimed; NULL if its sender was lost, or is no platform. */
struct tw_unexp_msg *tw_panda_claimed(struct tw_ep *ep, const struct tw_req *r);
/* False for a port that was freed, and for a ticket. */
bool tw_panda_wanted(uint32_t number);
/* Posts the receive of a port's next upcall. */
bool tw_panda_port_listen(struct tw_ep *ep, struct tw_panda_port *port);
void tw_panda_ports_fini(void);

/* upcall.c ------------------------------------------------------------------ */

static inline bool tw_panda_upcalls_due(void)
{
	return !tw_panda.dispatching &&
	       (!tw_list_empty(&tw_panda.ready) || !tw_list_empty(&tw_panda.finished));
}

bool tw_panda_upcalls_begin(void);
/* Ends the thread. Not from an upcall; without the lock. */
void tw_panda_upcalls_end(void);
/* Whether the caller is an upcall. */
bool tw_panda_in_upcall(void);
/* Makes upcalls that are due; without the lock. */
void tw_panda_dispatch(void);
/* Wakes the thread. */
void tw_panda_upcalls_wake(void);

/* A received message, as the program gets it: plain memory, see memory.c. */
static inline void *tw_panda_message_data(struct tw_unexp_msg *u, int *size, int *len)
{
	if (size)
		*size = u ? (int)u->len : 0;
	if (len)
		*len = u ? (int)u->len : 0;
	return u ? u->data : NULL;
}

#endif /* TW_PANDA_INTERNAL_H */
