/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the MX interface tests share: checks that work in threads and child
 * processes too, endpoints in pairs, and waits that end.
 */
#ifndef MXT_H
#define MXT_H

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "lib/twc.h"
#include "mx_extensions.h"

/*
 * Milliseconds that a call may take. It should take far less: one that goes on
 * only when some clock of the library ticks must not pass.
 */
#define MXT_LONG (3000 * (int)twt_patience())
/*
 * Seconds of processor time that a second of sleep may cost, where spinning takes all of
 * it. A slow machine takes longer over the little, and what its host takes from it counts.
 */
#define MXT_IDLE (twt_slow() > 1 ? 0.5 : 0.2)
/* Seconds for a whole test. */
#define MXT_TIMEOUT TWT_TIMEOUT
#define MXT_KEY 0x7a6b5c4d
#define MXT_ALL MX_MATCH_MASK_NONE
/* A NIC that nobody has. */
#define MXT_NO_NIC 0x001122334455ull

#define mxt_fail twc_fail
#define mxt_check twc_check
#define mxt_eq twc_eq
#define mxt_eq_at twc_eq_at
#define mxt_signal twc_tell
#define mxt_await twc_hear
#define mxt_sleep twc_sleep
#define mxt_thread twc_thread
#define mxt_start twc_start
#define mxt_join twc_join
#define mxt_asleep twc_asleep
/* Seconds for what a child or a thread does. */
#define MXT_CHILD TWC_LONG

#define mxt_rc(want, call) mxt_rc_at(__FILE__, __LINE__, #call, want, call)
#define mxt_ok(call) mxt_rc(MX_SUCCESS, call)
void mxt_rc_at(const char *file, int line, const char *what, mx_return_t want, mx_return_t got);

/* The fixture of every suite: tests that run beside each other cannot meet. */
void mxt_job(void);

/* The test is about one host; between two it is skipped. */
void mxt_same_host(void);
/* It is about one host whose processes may read each other's memory. */
void mxt_shared_reads(void);

/* mx_init() with errors returned, and mx_finalize(). */
void mxt_up(void);
void mxt_down(void);

/* An endpoint by its place in the network. */
struct mxt_name {
	uint64_t nic;
	uint32_t id;
};
mx_endpoint_t mxt_open(uint32_t id);
void mxt_close(mx_endpoint_t ep);
/* Opens an id that was in use until just now (III.3.2 allows a brief delay). */
mx_endpoint_t mxt_reopen(uint32_t id);
struct mxt_name mxt_name(mx_endpoint_t ep);
struct mxt_name mxt_whose(mx_endpoint_addr_t addr);
mx_endpoint_addr_t mxt_self(mx_endpoint_t ep);
mx_endpoint_addr_t mxt_connect(mx_endpoint_t ep, struct mxt_name to);
/* The same endpoint, as the addresses themselves or their parts tell. */
int mxt_same_addr(mx_endpoint_addr_t a, mx_endpoint_addr_t b);
int mxt_same_name(struct mxt_name a, struct mxt_name b);

/* Two endpoints of this process, connected: ab is b as a knows it. */
struct mxt_pair {
	mx_endpoint_t a, b;
	mx_endpoint_addr_t ab, ba;
};
void mxt_pair(struct mxt_pair *p);
void mxt_pair_end(struct mxt_pair *p);

/* One side of two connected processes; each side has one of these. */
struct mxt_side {
	mx_endpoint_t ep; /* NULL once closed */
	mx_endpoint_addr_t peer;
	struct mxt_name me, other;
	int fd; /* a stream to the other side */
	void *arg;
	struct twt_child child; /* of the parent's side */
	void (*fn)(struct mxt_side *s);
};
/* Runs fn on the far side; call it instead of mxt_up(). */
void mxt_two(struct mxt_side *s, void (*fn)(struct mxt_side *s), void *arg);
/* Closes what is open, waits for the child and checks how it ended. */
void mxt_two_end(struct mxt_side *s);
/*
 * A child that holds an open endpoint and makes no MX calls. Start it before
 * mxt_up(). mxt_idle_close() returns when its endpoint is closed.
 */
struct mxt_name mxt_idle(struct twt_child *c, uint32_t id);
void mxt_idle_close(struct twt_child *c);
void mxt_idle_end(struct twt_child *c);
/* Stops a child; returns when it has stopped. */
void mxt_stop(pid_t pid);
void mxt_kill(struct twt_child *c);

/* Requests of one segment, matched by all bits. */
mx_request_t mxt_isend(mx_endpoint_t ep, const void *buf, size_t len, mx_endpoint_addr_t to,
		       uint64_t match);
mx_request_t mxt_issend(mx_endpoint_t ep, const void *buf, size_t len, mx_endpoint_addr_t to,
			uint64_t match);
mx_request_t mxt_irecv(mx_endpoint_t ep, void *buf, size_t len, uint64_t match);
/* Completes the request, which must end this way. */
#define mxt_wait(ep, req, want) mxt_wait_at(__FILE__, __LINE__, ep, req, want)
mx_status_t mxt_wait_at(const char *file, int line, mx_endpoint_t ep, mx_request_t *req,
			mx_status_code_t want);
/* Checks that the request is not complete. */
#define mxt_pending(ep, req) mxt_pending_at(__FILE__, __LINE__, ep, req)
void mxt_pending_at(const char *file, int line, mx_endpoint_t ep, mx_request_t *req);
/* Waits until a message with this match information is there, unreceived. */
#define mxt_probe(ep, match) mxt_probe_at(__FILE__, __LINE__, ep, match)
mx_status_t mxt_probe_at(const char *file, int line, mx_endpoint_t ep, uint64_t match);

/* A counter of board 0 by its label, see mx_counters(1). */
uint32_t mxt_counted(const char *label);

/* A thread inside a blocking call; req is for those that take one. */
enum mxt_call { MXT_WAIT, MXT_BUFFERED, MXT_PEEK, MXT_PROBE, MXT_WAIT_ANY, MXT_CALLS };
struct mxt_block {
	enum mxt_call call;
	mx_endpoint_t ep;
	mx_request_t req;
	uint32_t timeout;
	mx_return_t rc;
	uint32_t result;
	mx_status_t status;
	double took;
	struct mxt_thread thread;
};
/* For this match information, by all its bits. */
#define MXT_BLOCK_MATCH 0xb10cull
void mxt_block(struct mxt_block *b, enum mxt_call call, mx_endpoint_t ep, mx_request_t req,
	       uint32_t timeout);
/* The same call in the calling thread. */
void mxt_block_here(struct mxt_block *b, enum mxt_call call, mx_endpoint_t ep, mx_request_t req,
		    uint32_t timeout);

/*
 * Makes every call that takes an endpoint with this one: each must fail with
 * this code and leave its handle outputs alone.
 */
#define mxt_every_call(ep, want) mxt_every_call_at(__FILE__, __LINE__, ep, want)
void mxt_every_call_at(const char *file, int line, mx_endpoint_t ep, mx_return_t want);

#endif /* MXT_H */
