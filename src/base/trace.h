/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The trace of an endpoint: a file with a ring of events, in the directory of TAGWIRE_TRACE. Only
 * the holder of the endpoint's lock writes. The file outlives the process; mx_trace(1) reads it.
 *
 * The n-th message of one endpoint to another is the n-th that the other receives from it: so the
 * two events of a message are found by the numbers that both sides count.
 */
#ifndef TW_TRACE_FORMAT_H
#define TW_TRACE_FORMAT_H

#include <stdatomic.h>
#include <stdint.h>

#define TW_TRACE_MAGIC 0x7461677472636501ull /* format 1 */
#define TW_TRACE_PREFIX "tagwire-"
#define TW_TRACE_SUFFIX ".trace" /* tagwire-PID-ENDPOINT-SESSION.trace */
#define TW_TRACE_PEERS 4096	 /* of which the names are kept */
#define TW_TRACE_THREADS 255
#define TW_TRACE_EVENTS_MOST (1 << 24)

enum tw_trace_kind {
	TW_TRACE_NONE,
	TW_TRACE_QUEUED,     /* a send must wait; id: its request */
	TW_TRACE_EAGER,	     /* a message leaves; id: its request, 0: complete with this event */
	TW_TRACE_ANNOUNCED,  /* a message is announced; id: its request */
	TW_TRACE_POSTED,     /* a receive waits for a message; id: its request */
	TW_TRACE_RECEIVED,   /* a whole message meets that receive; id: the same */
	TW_TRACE_MET,	     /* another message meets it: ENDED follows; id: the same */
	TW_TRACE_UNEXPECTED, /* a message arrives and meets none; id: its own */
	TW_TRACE_FETCHED,    /* an unexpected message has another id; link: the one it had */
	TW_TRACE_TAKEN, /* it is taken; link: its id; id: of a receive for which ENDED follows */
	TW_TRACE_ENDED, /* a request that did not end at once is complete; link: enum tw_proto */
	TW_TRACE_IDLE,	/* polls that found nothing, or sleep, until the tick `match' */
	TW_TRACE_PUT,	/* an access to a window (match) begins; id: its request; ENDED follows */
	TW_TRACE_GET,
	TW_TRACE_ATOMIC,
	TW_TRACE_SERVED,      /* this side moves a piece of a peer's access; match: its window */
	TW_TRACE_SCALAR,      /* an MCAPI scalar leaves; match: its channel; number: within that */
	TW_TRACE_SCALAR_CAME, /* it is taken */
	TW_TRACE_KINDS
};

struct tw_trace_event {
	uint64_t tick;	/* tw_clock() */
	uint64_t match; /* match information of the message */
	uint32_t len;
	uint32_t id;
	union {
		uint32_t number; /* of the message, among those from one endpoint to another */
		uint32_t link;
	};
	uint16_t peer;	/* index of the other side */
	uint8_t thread; /* index of the thread */
	uint8_t kind;	/* enum tw_trace_kind */
};
_Static_assert(sizeof(struct tw_trace_event) == 32, "two in a cache line");

struct tw_trace_peer {
	uint64_t where; /* NIC id << 16 | endpoint id */
	uint32_t session, unused;
};

/* The head of the file; the events follow. */
struct tw_trace_file {
	uint64_t magic;
	uint64_t host; /* hash of the boot: clocks agree within it */
	uint64_t nic_id;
	uint32_t endpoint_id, session;
	uint32_t pid, per_us; /* per_us: ticks in a microsecond */
	uint32_t nevents;     /* of the ring, a power of two */
	uint32_t nthreads;
	_Atomic(uint64_t) head; /* events that were written so far */
	char program[16], interface[8];
	char hostname[16]; /* its begin */
	uint32_t threads[TW_TRACE_THREADS + 1]; /* thread ids of the system */
	struct tw_trace_peer peers[TW_TRACE_PEERS];
};
_Static_assert(sizeof(struct tw_trace_file) % sizeof(struct tw_trace_event) == 0,
	       "an event lies in one cache line");

#endif /* TW_TRACE_FORMAT_H */
