/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What one node of stress_nodes does for a lane: its steps, none of which
 * blocks, as all roles of a node may be one thread's. Each returns whether
 * something happened.
 */
#ifndef LANES_H
#define LANES_H

#include <pthread.h>

#include "mcapi.h"
#include "stress/stress.h"

#define NODES 32
#define LANES 24
#define COUNT 120 /* items of a lane; fewer than a channel has buffers */
#define OUT 6	  /* sends of a lane, receives of an endpoint */
#define LONGEST 300000

enum kind { MSG, PKT, SCL };

struct lane {
	enum kind kind;
	int from, to, by; /* nodes; who connects */
	int count, quit;  /* items; the receiver of a channel leaves after so many */
	unsigned prio, width;
	uint64_t id;
};

/* What the ends of a lane tell each other beside MCAPI. */
struct told {
	atomic_int received, sender_left, receiver_left;
};

extern struct shared {
	atomic_uint met;
	atomic_int over;
	atomic_ullong messages, packets, scalars, cancels, refused;
	struct told told[2][LANES]; /* of even and odd rounds */
} * shared;

/* One end of a channel. */
enum state { CLOSED, OPENING, OPEN, CLOSING, DONE };
struct end {
	enum state state;
	mcapi_endpoint_t ep;
	mcapi_request_t req;
	uint32_t h;
};

struct op {
	mcapi_request_t req;
	uint8_t *buf;
	void *packet;
	int seq;
};

struct node {
	pthread_t thread;
	int number;
	uint64_t rng;
	uint32_t round;
	struct lane lane[LANES];
	int nlanes, left; /* roles of this node that are not done */
	struct {
		int sent, received;
		enum state connecting;
		mcapi_request_t connect;
		struct end s, r;
		struct op out[OUT];
		int n, recv_pending;
		struct op in;
	} my[LANES];
	/* Messages come here. */
	mcapi_endpoint_t from, inbox;
	struct op posted[OUT];
	int nposted, expected;
};

#define is(want, call)                                                                             \
	do {                                                                                       \
		mcapi_status_t st = MCAPI_ERROR;                                                   \
		call;                                                                              \
		if (st != (want))                                                                  \
			st_fail("%s: %d (%s), not %d (%s)", #call, st, mcapi_strerror(st), want,   \
				mcapi_strerror(want));                                             \
	} while (0)
#define ok(call) is(MCAPI_SUCCESS, call)

/* What the ends of this lane tell each other in this round. */
struct told *told(struct node *me, int i);
/* One in n. */
int chance(struct node *me, unsigned n);
/* False when a message took the receive before. */
int cancel_posted(struct node *me, int at);

int receive_messages(struct node *me);
int step_message_sender(struct node *me, int i);
int step_connect(struct node *me, int i);
int step_sender(struct node *me, int i);
int step_receiver(struct node *me, int i);

#endif /* LANES_H */
