/* SPDX-License-Identifier: BSD-2-Clause */
/* What the library's own MCAPI tests share: checks for any thread and child, nodes. */
#ifndef TESTS_MCAPI_BASIC_H
#define TESTS_MCAPI_BASIC_H

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/twt.h"
#include "mcapi.h"

#define MCB_LONG (5000 * (int)twt_patience()) /* milliseconds that an answer may take */
#define MCB_TIMEOUT TWT_TIMEOUT

/* Ends the process: Criterion's asserts are for the test's own thread alone. */
#define mcb_check(cond)                                                                            \
	((cond) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond), abort()))
#define mcb_eq(got, want)                                                                          \
	do {                                                                                       \
		long long mcb_got = (long long)(got), mcb_want = (long long)(want);                \
		if (mcb_got == mcb_want)                                                           \
			break;                                                                     \
		fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #got,         \
			mcb_got, mcb_want);                                                        \
		abort();                                                                           \
	} while (0)

/* Something that sets `st' to this status. */
#define mcb_st(want, ...)                                                                          \
	do {                                                                                       \
		mcapi_status_t st = MCAPI_ERROR;                                                   \
		__VA_ARGS__;                                                                       \
		if (st == (want))                                                                  \
			break;                                                                     \
		fprintf(stderr, "%s:%d: %s: %s, not %s\n", __FILE__, __LINE__, #__VA_ARGS__,       \
			mcapi_strerror(st), mcapi_strerror(want));                                 \
		abort();                                                                           \
	} while (0)
#define mcb_ok(...) mcb_st(MCAPI_SUCCESS, __VA_ARGS__)

/* Keeps tests that run beside each other apart. */
void mcb_job(void);
void mcb_init(mcapi_node_t node);
void mcb_final(void);
mcapi_endpoint_t mcb_endpoint(mcapi_port_t port);
mcapi_endpoint_t mcb_get(mcapi_node_t node, mcapi_port_t port);
/* Waits for a request that must end with this status; its size. */
size_t mcb_wait(mcapi_request_t request, mcapi_status_t want);
/* The request is pending, and stays so for a moment. */
void mcb_pending(mcapi_request_t request);
uint32_t mcb_attr(mcapi_endpoint_t e, mcapi_uint_t number);
void mcb_set_attr(mcapi_endpoint_t e, mcapi_uint_t number, uint32_t value);
/* Connects and waits for it. */
void mcb_connect_pkt(mcapi_endpoint_t a, mcapi_endpoint_t b);
void mcb_connect_scl(mcapi_endpoint_t a, mcapi_endpoint_t b);

/* A packet or scalar channel within this node. */
struct mcb_chan {
	mcapi_endpoint_t a, b;
	uint32_t send, recv;
};
void mcb_pkt(struct mcb_chan *c);
void mcb_scl(struct mcb_chan *c);

/* Runs fn as another node, in a thread or in a child. */
struct mcb_other {
	int fd; /* a stream between the two */
	struct twt_child child;
	pthread_t thread;
	int threaded;
	mcapi_node_t node;
	void (*fn)(struct mcb_other *o);
	struct mcb_other *peer;
};
/* Call it before mcb_init() if not threaded. */
void mcb_start(struct mcb_other *o, int threaded, mcapi_node_t node,
	       void (*fn)(struct mcb_other *o));
void mcb_end(struct mcb_other *o);
void mcb_tell(int fd);
void mcb_hear(int fd);

#endif /* TESTS_MCAPI_BASIC_H */
