/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the stress and fault programs share: options, a watchdog, failures that
 * say where, crews of connected processes, buffers in pieces, streams of
 * checked messages. A program ends with 0, with 1 after saying what was wrong,
 * or with ST_SKIP after saying why it cannot run here.
 */
#ifndef STRESS_H
#define STRESS_H

#include <stdatomic.h>
#include <stdint.h>

#include "lib/twt.h"
#include "myriexpress.h"

#define ST_SKIP 77
#define ST_KEY 0x57a3b1e5u
#define ST_CREW 32
#define ST_ALL MX_MATCH_MASK_NONE

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
	__has_feature(memory_sanitizer)
#define ST_SANITIZED 1
#endif
#endif
#ifndef ST_SANITIZED
#define ST_SANITIZED 0
#endif

/* Times are multiplied by this; numbers of messages are divided by it. */
#define ST_SLOW ((ST_SANITIZED ? 6 : 1) * twt_slow())
/* Seconds in which the death or the closing of a peer must show everywhere. */
#define ST_SOON (1.0 * TWT_PATIENCE * ST_SLOW)
/* Seconds that anything at all may take. */
#define ST_LONG (20.0 * TWT_PATIENCE * ST_SLOW)

struct st_option {
	const char *name; /* "--procs" */
	long *value;
	long least, most;
};
extern uint64_t st_seed;
extern double st_seconds;

/*
 * Reads --seed, --seconds and the program's own options (a list that ends with
 * a NULL name), gives the run a job of its own, and watches this process.
 */
void st_begin(int argc, char **argv, const char *program, double seconds,
	      const struct st_option *more);
/* Prints the summary line. */
void st_done(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* True until the seconds that the user gave are over. */
int st_going(void);

/*
 * Names this process in messages and watches it: should it not end in time, it
 * tells where each of its threads is, and aborts. Call it first in a child. The
 * first process is watched by SIGALRM, so that it may fork again and again; the
 * others, which call MX, by a thread.
 */
void st_role(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Notes where this thread is and what step it does. */
#define st_at(step) st_at_line(__FILE__, __LINE__, (uint64_t)(step))
void st_at_line(const char *file, int line, uint64_t step);

/* Tells seed, step and what differed, and ends the process with 1. */
#define st_fail(...) st_fail_at(__FILE__, __LINE__, __VA_ARGS__)
void st_fail_at(const char *file, int line, const char *format, ...)
	__attribute__((noreturn, format(printf, 3, 4)));
#define st_check(cond) ((cond) ? (void)0 : st_fail("not so: %s", #cond))
#define st_eq(got, want) st_eq_at(__FILE__, __LINE__, #got, (uint64_t)(got), (uint64_t)(want))
#define st_ok(call) st_ok_at(__FILE__, __LINE__, #call, call)
void st_eq_at(const char *file, int line, const char *what, uint64_t got, uint64_t want);
void st_ok_at(const char *file, int line, const char *what, mx_return_t rc);

/* Gives the processor away now and then; idle counts polls without progress. */
void st_idle(unsigned *idle);
void st_sleep(double seconds);
/* Memory that children share, zeroed. */
void *st_shared(size_t size);
/* Waits for all n parties; the count, zero at first, serves again and again. */
void st_meet(atomic_uint *count, unsigned n);
uint64_t st_hash(uint64_t a, uint64_t b);
/* A length: mostly short, some around the places where something changes. */
uint32_t st_size(uint64_t *rng, uint32_t most);

/* An endpoint by its place in the network. */
struct st_name {
	uint64_t nic;
	uint32_t id, pad;
};
/* mx_init() with errors returned. */
void st_up(void);
/* Waits at most ST_SOON for an endpoint that is busy. */
mx_endpoint_t st_open(uint32_t id, mx_param_t *params, uint32_t nparams);
mx_endpoint_addr_t st_self(mx_endpoint_t ep);
struct st_name st_whose(mx_endpoint_addr_t addr);
int st_same(struct st_name a, struct st_name b);
mx_endpoint_addr_t st_connect(mx_endpoint_t ep, struct st_name to);
/* One segment, all bits compared. */
mx_request_t st_isend(mx_endpoint_t ep, const void *buf, size_t len, mx_endpoint_addr_t to,
		      uint64_t match);
mx_request_t st_issend(mx_endpoint_t ep, const void *buf, size_t len, mx_endpoint_addr_t to,
		       uint64_t match);
mx_request_t st_irecv(mx_endpoint_t ep, void *buf, size_t len, uint64_t match);
/* Polls for a request; false when it is not complete in time. */
int st_poll(mx_endpoint_t ep, mx_request_t *req, double seconds, mx_status_t *status);
/* A request that must succeed. */
mx_status_t st_finish(mx_endpoint_t ep, mx_request_t *req);
/* Whether a request to a peer that is gone, or is no longer the same, may end this way. */
int st_gone(mx_status_code_t code);

/* A message in pieces, with guard bytes around each. */
struct st_buf {
	uint8_t *mem;
	size_t size;
	uint32_t len, nseg;
	mx_segment_t *seg;
};
void st_buf_make(struct st_buf *b, uint32_t len, unsigned pieces, uint64_t *rng);
void st_buf_fill(struct st_buf *b, uint64_t seed);
/* The first of len bytes that is wrong, or len. */
size_t st_buf_check(const struct st_buf *b, size_t len, uint64_t seed);
/* Whether nothing was written beside the pieces. */
int st_buf_guarded(const struct st_buf *b);
void st_buf_free(struct st_buf *b);

enum st_kind { ST_ISEND, ST_ISSEND, ST_IRECV };

/* A request and its message; its address is the context. */
struct st_op {
	mx_request_t req;
	struct st_buf buf;
	uint64_t match;
	int scribbled;
	/* The program's own. */
	unsigned number;
	int mark;
	mx_status_t status;
	atomic_int ready;
};
/* Mostly one piece, sometimes several, rarely as many as may be. */
struct st_op *st_op_new(uint32_t len, uint64_t *rng);
void st_op_free(struct st_op *op);
void st_op_send(struct st_op *op, enum st_kind kind, mx_endpoint_t ep, mx_endpoint_addr_t to);
void st_op_recv(struct st_op *op, mx_endpoint_t ep, uint64_t key, uint64_t mask);
/* Writes over a buffer that is ours again: this must not be sent. */
void st_op_scribble(struct st_op *op);

/*
 * A stream of messages in one direction, one at a time, each checked. Both
 * ends make one with the same match information and the same longest message.
 */
#define ST_ABORTS 2 /* as mortal: a message may end in MX_STATUS_ABORTED, too */
struct st_lane {
	enum st_kind kind;
	mx_endpoint_t ep;
	mx_endpoint_addr_t to;
	uint64_t match, seq; /* seq: messages done */
	uint32_t max;
	int mortal;	       /* the peer may go at any time; ST_ABORTS: and see below */
	mx_status_code_t code; /* why it ended; MX_STATUS_SUCCESS while it lives */
	int busy;
	mx_request_t req;
	uint8_t *buf;
};
void st_lane_make(struct st_lane *l, enum st_kind kind, mx_endpoint_t ep, mx_endpoint_addr_t to,
		  uint64_t match, uint32_t max);
/* Tests, and posts the next message when more; true when a message was done. */
int st_lane_step(struct st_lane *l, int more);
/* Takes a completion that the caller got some other way. */
void st_lane_take(struct st_lane *l, const mx_status_t *status);
void st_lane_free(struct st_lane *l);
uint32_t st_lane_len(const struct st_lane *l, uint64_t seq);

/*
 * Streams of all kinds in both directions between two endpoints; side is 0 on
 * one end and 1 on the other. The low 16 bits of base are 0.
 */
#define ST_STREAMS 10
struct st_streams {
	struct st_lane lane[ST_STREAMS];
};
void st_streams_make(struct st_streams *s, mx_endpoint_t ep, mx_endpoint_addr_t to, uint64_t base,
		     int side, int mortal);
/* Steps all; more: to begin new sends. Returns how many messages were done. */
int st_streams_step(struct st_streams *s, int more);
/* How many sends are pending. */
int st_streams_sending(const struct st_streams *s);
/*
 * Cancels the receives. Those that have matched must end by the deadline, a
 * moment of twt_now().
 */
void st_streams_cancel(struct st_streams *s, double deadline);
/*
 * The end of it, for both ends that agree to part: finishes the sends, goes on
 * receiving until both have (parted, shared and 0 at first), cancels the rest.
 */
void st_streams_part(struct st_streams *s, atomic_int *parted);
void st_streams_free(struct st_streams *s);
/*
 * A process, called by its role, with an endpoint of its own (id 2): tells its name,
 * is told another's, streams with that until it is over, parts, and ends when told to.
 */
int st_bystander(int fd, const char *role, uint64_t base, atomic_int *over, atomic_int *parted);

/* One of several processes, each with an endpoint connected to all others. */
struct st_me {
	int rank, n;
	mx_endpoint_t ep;
	struct st_name name[ST_CREW];
	mx_endpoint_addr_t addr[ST_CREW];
	int fd;		   /* to the first process */
	uint64_t count[4]; /* for the summary: added up */
};
/*
 * Runs fn in n processes, odd ranks on the far side. unexp is MX_PARAM_UNEXP_QUEUE_MAX,
 * 0 for the default.
 */
void st_crew(int n, uint32_t unexp, void (*fn)(struct st_me *me), uint64_t total[4]);
/* Waits for children, each of which must end with 0. */
void st_join(struct twt_child *child, int n);
/* What st_cases() passes to a process. */
struct st_case {
	int which, rank;
};
/* Runs n cases one after the other, each by two processes that meet there. */
void st_cases(int n, atomic_uint *meet, int (*process)(void *arg, int fd));
/* Nothing, unless one of them has ended: then as st_join(), which fails. */
void st_alive(struct twt_child *child, int n);
/* Puts, gets; the other end must be alive. */
void st_put(int fd, const void *buf, size_t len);
void st_get(int fd, void *buf, size_t len);

/* Open descriptors of this process. */
int st_fds(void);
/* Prints what they are. */
void st_fds_list(void);
/* Fails when something of this run is left in the system. */
void st_leftovers(void);

#endif /* STRESS_H */
