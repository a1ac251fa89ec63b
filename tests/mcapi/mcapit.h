/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the MCAPI tests share: checks that work in every thread and child
 * process and note which function gave which status, crews of nodes, channels
 * of both kinds behind one set of calls, and waits that end.
 */
#ifndef MCAPIT_H
#define MCAPIT_H

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "lib/twc.h"
#include "lib/twt.h"
#include "mcapi.h"

#if defined(__SANITIZE_ADDRESS__)
#define MCT_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MCT_SANITIZED 1
#endif
#endif
#ifndef MCT_SANITIZED
#define MCT_SANITIZED 0
#endif

/* Milliseconds that anything may take; it should take far less. */
#define MCT_LONG (5000 * (int)twt_patience())
/* Seconds for what a child or a thread does, and for a whole test. */
#define MCT_CHILD TWT_LONG
#define MCT_TIMEOUT TWT_TIMEOUT

/* Where calls of this thread leave their status. */
extern _Thread_local mcapi_status_t mct_status;
#define ST (&mct_status)

/* The call, which names ST as its status, must give this status. */
#define mct_is(want, ...)                                                                          \
	do {                                                                                       \
		mct_status = MCAPI_ERROR;                                                          \
		__VA_ARGS__;                                                                       \
		mct_is_at(__FILE__, __LINE__, #__VA_ARGS__, want);                                 \
	} while (0)
#define mct_ok(...) mct_is(MCAPI_SUCCESS, __VA_ARGS__)
/* One of two: where the specification leaves the choice. */
#define mct_either(a, b, ...)                                                                      \
	do {                                                                                       \
		mct_status = MCAPI_ERROR;                                                          \
		__VA_ARGS__;                                                                       \
		mct_is_at(__FILE__, __LINE__, #__VA_ARGS__, mct_status == (b) ? (b) : (a));        \
	} while (0)
/* A call whose status parameter is NULL: MCAPI_EPARAM that nobody is told. */
#define mct_null(...)                                                                              \
	do {                                                                                       \
		__VA_ARGS__;                                                                       \
		mct_seen(#__VA_ARGS__, MCAPI_EPARAM);                                              \
	} while (0)
void mct_is_at(const char *file, int line, const char *call, mcapi_status_t want);

/* Notes that the call in this text gave this status (seen.c). */
void mct_seen(const char *call, mcapi_status_t status);
const char *mct_name(mcapi_status_t status);

/* Makes this thread a node, and ends it. */
void mct_up(mcapi_node_t node);
void mct_down(void);

/*
 * A crew of nodes 0 to n-1, each of which runs fn; in threads of this process,
 * or in a process each.
 */
enum mct_how { MCT_THREADS, MCT_PROCESSES };
struct mct_shared {
	atomic_uint met;
	_Atomic uint64_t word[64]; /* the test's own */
};
struct mct_me {
	int rank, n;
	struct mct_shared *shared;
	void (*fn)(struct mct_me *me);
	int wild; /* fn initializes and finalizes itself */
};
void mct_crew(enum mct_how how, int n, void (*fn)(struct mct_me *me));
/* The same, but fn initializes and finalizes. */
void mct_wild(enum mct_how how, int n, void (*fn)(struct mct_me *me));
/* All of the crew wait for each other. */
void mct_meet(struct mct_me *me);
/* Waits until the word has at least this value. */
void mct_until(struct mct_me *me, int word, uint64_t value);

/* One test twice: nodes as threads and nodes as processes. */
#define MCT_BOTH(suite, name, n)                                                                   \
	static void name(struct mct_me *me);                                                       \
	Test(suite, name##_threads, .timeout = MCT_TIMEOUT)                                        \
	{                                                                                          \
		mct_crew(MCT_THREADS, n, name);                                                    \
	}                                                                                          \
	Test(suite, name##_processes, .timeout = MCT_TIMEOUT)                                      \
	{                                                                                          \
		mct_crew(MCT_PROCESSES, n, name);                                                  \
	}                                                                                          \
	static void name(struct mct_me *me)

/* Stops a child; SIGCONT lets it go on. */
void mct_stop(const struct twt_child *child);

mcapi_endpoint_t mct_create(mcapi_port_t port);
mcapi_endpoint_t mct_get(mcapi_node_t node, mcapi_port_t port);
void mct_delete(mcapi_endpoint_t ep);
uint32_t mct_attr(mcapi_endpoint_t ep, mcapi_uint_t number);
void mct_set_attr(mcapi_endpoint_t ep, mcapi_uint_t number, uint32_t value);

/* A number as a message of 8 bytes. */
void mct_send(mcapi_endpoint_t from, mcapi_endpoint_t to, uint64_t value, mcapi_priority_t prio);
uint64_t mct_recv(mcapi_endpoint_t ep);
/* Waits until so many messages are there. */
void mct_available(mcapi_endpoint_t ep, unsigned n);

/* Completes a request, which must succeed: its size. */
#define mct_done(req) mct_done_at(__FILE__, __LINE__, req)
size_t mct_done_at(const char *file, int line, mcapi_request_t *req);
/* Completes a request, which must end this way. */
#define mct_ends(req, want) mct_ends_at(__FILE__, __LINE__, req, want)
void mct_ends_at(const char *file, int line, mcapi_request_t *req, mcapi_status_t want);
/* The request is not complete. */
#define mct_pending(req) mct_pending_at(__FILE__, __LINE__, req)
void mct_pending_at(const char *file, int line, mcapi_request_t *req);

/* Both kinds of channel have the same calls (4.5: "the same mechanism"). */
struct mct_kind {
	const char *name;
	unsigned flag, other; /* MCAPI_PKT and MCAPI_SCL, or the other way round */
	void (*connect)(mcapi_endpoint_t s, mcapi_endpoint_t r, mcapi_request_t *req,
			mcapi_status_t *st);
	void (*open_recv)(uint32_t *h, mcapi_endpoint_t ep, mcapi_request_t *req,
			  mcapi_status_t *st);
	void (*open_send)(uint32_t *h, mcapi_endpoint_t ep, mcapi_request_t *req,
			  mcapi_status_t *st);
	void (*close_recv)(uint32_t h, mcapi_request_t *req, mcapi_status_t *st);
	void (*close_send)(uint32_t h, mcapi_request_t *req, mcapi_status_t *st);
	mcapi_uint_t (*available)(uint32_t h, mcapi_status_t *st);
	/* A number as a packet of 8 bytes, or as a scalar of 64 bits. */
	void (*send)(uint32_t h, uint64_t value, mcapi_status_t *st);
	uint64_t (*recv)(uint32_t h, mcapi_status_t *st);
	const char *connect_name, *open_recv_name, *open_send_name, *close_recv_name,
		*close_send_name, *available_name, *send_name, *recv_name;
};
enum { MCT_PKT, MCT_SCL, MCT_PACKET };
/* The last is the packet channel whose close is spelt as in the headings of 4.4.10 and 11. */
extern const struct mct_kind mct_kinds[3];
#define mct_each_kind(k) for (const struct mct_kind *k = mct_kinds; k < mct_kinds + 2; k++)
#define mct_each_close(k) for (const struct mct_kind *k = mct_kinds; k < mct_kinds + 3; k++)

/* k->op(...) must give this status. */
#define mct_k(want, k, op, ...)                                                                    \
	(mct_status = MCAPI_ERROR, (k)->op(__VA_ARGS__, ST),                                       \
	 mct_is_at(__FILE__, __LINE__, (k)->op##_name, want))
#define mct_kok(k, op, ...) mct_k(MCAPI_SUCCESS, k, op, __VA_ARGS__)
#define mct_knull(k, op, ...)                                                                      \
	((k)->op(__VA_ARGS__, MCAPI_NULL), mct_seen((k)->op##_name, MCAPI_EPARAM))

/* Connects and waits; opens an end without waiting; closes an end and waits. */
void mct_connect(const struct mct_kind *k, mcapi_endpoint_t s, mcapi_endpoint_t r);
mcapi_request_t mct_open_recv(const struct mct_kind *k, mcapi_endpoint_t ep, uint32_t *h);
mcapi_request_t mct_open_send(const struct mct_kind *k, mcapi_endpoint_t ep, uint32_t *h);
void mct_close_recv(const struct mct_kind *k, uint32_t h);
void mct_close_send(const struct mct_kind *k, uint32_t h);
void mct_put(const struct mct_kind *k, uint32_t h, uint64_t value);
uint64_t mct_take(const struct mct_kind *k, uint32_t h);
/* Waits until so many packets or scalars are there. */
void mct_queued(const struct mct_kind *k, uint32_t h, unsigned n);
/* A channel between two endpoints of the caller, open at both ends. */
struct mct_chan {
	const struct mct_kind *k;
	mcapi_endpoint_t s, r;
	uint32_t tx, rx;
};
void mct_chan(struct mct_chan *c, const struct mct_kind *k);
void mct_chan_reopen(struct mct_chan *c);
void mct_chan_close(struct mct_chan *c);
void mct_chan_end(struct mct_chan *c);
/* A channel between nodes 0 and 1: node 0 receives on its port 1 what node 1 sends. */
uint32_t mct_open_between(struct mct_me *me, const struct mct_kind *k);
void mct_close_between(struct mct_me *me, const struct mct_kind *k, uint32_t h);

#endif /* MCAPIT_H */
