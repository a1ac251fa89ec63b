/* SPDX-License-Identifier: BSD-2-Clause */
#include "mcapi_ends.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "other.h"
#include "series.h"
#include "table.h"

#define INLINE inline __attribute__((always_inline))
#define START_MS 20000 /* for each step of the start, which needs the other end */
#define POLLS 1000 /* looks at shared memory before the core is offered to others */

const char *const ends_kinds[KINDS] = {"message", "packet", "scalar"};

/* Shared by the two. Each group has one writer at a time. */
struct shared {
	_Alignas(64) _Atomic(uint64_t) order; /* counts orders */
	uint32_t what, kind, size;
	uint64_t n;
	_Alignas(64) _Atomic(uint64_t) ready;
	_Alignas(64) _Atomic(uint64_t) turn; /* the bare line */
};

static void check(const char *call, mcapi_status_t status)
{
	if (__builtin_expect(status != MCAPI_SUCCESS, 0))
		bench_fail("%s: %s", call, mcapi_strerror(status));
}

/*
 * Waits for the other end in shared memory, and fails if it has died. It may have ended after it
 * wrote the word.
 */
static void until(_Atomic(uint64_t) *word, uint64_t value)
{
	int status;

	for (unsigned polls = 0; atomic_load_explicit(word, memory_order_acquire) != value;
	     polls++) {
		if (polls % POLLS != POLLS - 1)
			continue;
		sched_yield();
		if (bench_other_ended(&status, WNOHANG) &&
		    atomic_load_explicit(word, memory_order_acquire) != value)
			bench_fail("the other end has ended");
	}
}

/* The nodes ------------------------------------------------------------------------ */

enum { PORT_MSG = 1, PORT_PKT_OUT, PORT_PKT_IN, PORT_SCL_OUT, PORT_SCL_IN };

static mcapi_endpoint_t endpoint(mcapi_port_t port)
{
	const uint32_t buffers = ENDS_BUFFERS;
	mcapi_status_t st;
	mcapi_endpoint_t e = mcapi_create_endpoint(port, &st);

	check("mcapi_create_endpoint", st);
	mcapi_set_endpoint_attribute(e, MCAPI_ATTR_NO_BUFFERS, &buffers, sizeof(buffers), &st);
	check("mcapi_set_endpoint_attribute", st);
	return e;
}

static void finish(const char *call, mcapi_request_t r, mcapi_status_t st)
{
	size_t size;

	if (st != MCAPI_ENOT_CONNECTED)
		check(call, st);
	mcapi_wait(&r, &size, &st, START_MS);
	check(call, st);
}

static mcapi_endpoint_t get(const struct perf *p, mcapi_port_t port)
{
	mcapi_request_t r;
	mcapi_endpoint_t e;
	mcapi_status_t st;

	mcapi_get_endpoint_i(p->lead, port, &e, &r, &st);
	finish("mcapi_get_endpoint_i", r, st);
	return e;
}

static void start_node(struct perf *p)
{
	mcapi_endpoint_t ends[PORT_SCL_IN + 1];
	mcapi_request_t r[4];
	mcapi_version_t version;
	mcapi_status_t st;

	mcapi_initialize(!p->lead, &version, &st);
	check("mcapi_initialize", st);
	for (int port = PORT_MSG; port <= PORT_SCL_IN; port++)
		ends[port] = endpoint(port);
	p->out = p->in = ends[PORT_MSG];
	p->peer = get(p, PORT_MSG);
	/* Each end connects the channels that it sends on. */
	mcapi_connect_pktchan_i(ends[PORT_PKT_OUT], get(p, PORT_PKT_IN), &r[0], &st);
	finish("mcapi_connect_pktchan_i", r[0], st);
	mcapi_connect_sclchan_i(ends[PORT_SCL_OUT], get(p, PORT_SCL_IN), &r[0], &st);
	finish("mcapi_connect_sclchan_i", r[0], st);
	mcapi_open_pktchan_send_i(&p->pkt_out, ends[PORT_PKT_OUT], &r[0], &st);
	mcapi_open_pktchan_recv_i(&p->pkt_in, ends[PORT_PKT_IN], &r[1], &st);
	mcapi_open_sclchan_send_i(&p->scl_out, ends[PORT_SCL_OUT], &r[2], &st);
	mcapi_open_sclchan_recv_i(&p->scl_in, ends[PORT_SCL_IN], &r[3], &st);
	for (int i = 0; i < 4; i++)
		finish("opening a channel", r[i], MCAPI_SUCCESS);
	p->buffer = mmap(NULL, MCAPI_MAX_MESSAGE_SIZE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p->buffer == MAP_FAILED)
		bench_fail("no memory");
}

/* Forks the other end, before there is any MCAPI. */
static void split(struct perf *p, bool no_bind)
{
	char job[32];
	bool bind = !no_bind;

	bench_both_here();
	/* Node numbers must not collide with those of a running program. */
	snprintf(job, sizeof job, "mcapi_perf%d", (int)getpid());
	setenv("TAGWIRE_JOB", job, 0);
	p->shared = mmap(NULL, sizeof *p->shared, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p->shared == MAP_FAILED)
		bench_fail("no memory");
	p->lead = bench_fork(&bind) > 0;
}

/* One of each ------------------------------------------------------------------------ */

static inline void give_back(struct perf *p)
{
	mcapi_status_t st;

	if (!p->packet)
		return;
	mcapi_pktchan_free(p->packet, &st);
	check("mcapi_pktchan_free", st);
	p->packet = NULL;
}

static INLINE void give(struct perf *p, enum kind kind, uint32_t size)
{
	mcapi_status_t st;

	switch (kind) {
	case MESSAGE:
		do
			mcapi_msg_send(p->out, p->peer, p->buffer, size, 1, &st);
		while (__builtin_expect(st == MCAPI_ENO_BUFFER, 0));
		break;
	case PACKET:
		mcapi_pktchan_send(p->pkt_out, p->buffer, size, &st);
		/* Sent after the reply, as a program short of time would. */
		give_back(p);
		break;
	default:
		if (size == 8)
			mcapi_sclchan_send_uint64(p->scl_out, 1, &st);
		else if (size == 4)
			mcapi_sclchan_send_uint32(p->scl_out, 1, &st);
		else if (size == 2)
			mcapi_sclchan_send_uint16(p->scl_out, 1, &st);
		else
			mcapi_sclchan_send_uint8(p->scl_out, 1, &st);
	}
	check("sending", st);
}

static INLINE void take(struct perf *p, enum kind kind, uint32_t size)
{
	mcapi_status_t st;
	size_t got = size;

	switch (kind) {
	case MESSAGE:
		mcapi_msg_recv(p->in, p->buffer, size, &got, &st);
		break;
	case PACKET:
		give_back(p);
		mcapi_pktchan_recv(p->pkt_in, &p->packet, &got, &st);
		break;
	default:
		if (size == 8)
			mcapi_sclchan_recv_uint64(p->scl_in, &st);
		else if (size == 4)
			mcapi_sclchan_recv_uint32(p->scl_in, &st);
		else if (size == 2)
			mcapi_sclchan_recv_uint16(p->scl_in, &st);
		else
			mcapi_sclchan_recv_uint8(p->scl_in, &st);
	}
	check("receiving", st);
	if (__builtin_expect(got != size, 0))
		bench_fail("%s of %u bytes came with %zu", ends_kinds[kind], size, got);
}

static INLINE void one_way(struct perf *p, enum kind kind, uint32_t size, uint64_t n, bool out)
{
	if (out)
		for (uint64_t i = 0; i < n; i++)
			give(p, kind, size);
	else
		for (uint64_t i = 0; i < n; i++)
			take(p, kind, size);
}

/* Packets in flight, up to the window. */
static void send_window(struct perf *p, uint32_t size, uint64_t n)
{
	mcapi_request_t sent[ENDS_MAX_WINDOW];
	mcapi_status_t st;
	size_t bytes;

	for (uint64_t i = 0; i < n + p->window; i++) {
		mcapi_request_t *r = &sent[i % p->window];

		if (i >= p->window) {
			mcapi_wait(r, &bytes, &st, MCAPI_INFINITE);
			check("mcapi_wait", st);
		}
		if (i < n) {
			mcapi_pktchan_send_i(p->pkt_out, p->buffer, size, r, &st);
			check("mcapi_pktchan_send_i", st);
		}
	}
}

/* A loop of its own: a scalar costs less than a test for the kind. */
static void stream(struct perf *p, enum kind kind, uint32_t size, uint64_t n, bool out)
{
	if (kind == SCALAR && size == 8)
		one_way(p, SCALAR, 8, n, out);
	else if (kind == PACKET && out && p->window > 1)
		send_window(p, size, n);
	else
		one_way(p, kind, size, n, out);
}

/* The following end ------------------------------------------------------------------- */

void ends_follow(struct perf *p)
{
	struct shared *s = p->shared;

	for (;;) {
		enum kind kind;
		enum what what;
		uint32_t size;
		uint64_t n;

		until(&s->order, ++p->orders);
		/* The next order may be written as soon as this one has its reply. */
		what = (enum what)s->what;
		kind = (enum kind)s->kind;
		size = s->size;
		n = s->n;
		atomic_store_explicit(&s->ready, p->orders, memory_order_release);
		if (what == END)
			return;
		if (what == STREAM) {
			stream(p, kind, size, n, false);
			give(p, kind, size);
			continue;
		}
		for (uint64_t i = 0; i < n; i++) {
			if (what == LINE) {
				until(&s->turn, 2 * i + 1);
				atomic_store_explicit(&s->turn, 2 * i + 2, memory_order_release);
				continue;
			}
			take(p, kind, size);
			give(p, kind, size);
		}
	}
}

/* The leading end ---------------------------------------------------------------------- */

static void order(struct perf *p, enum what what, enum kind kind, uint32_t size, uint64_t n)
{
	struct shared *s = p->shared;

	s->what = what;
	s->kind = kind;
	s->size = size;
	s->n = n;
	atomic_store(&s->turn, 0);
	atomic_store_explicit(&s->order, ++p->orders, memory_order_release);
	until(&s->ready, p->orders);
}

double ends_run(struct perf *p, enum what what, enum kind kind, uint32_t size, uint64_t n)
{
	struct shared *s = p->shared;
	double start;

	order(p, what, kind, size, n);
	start = bench_now();
	if (what == STREAM) {
		stream(p, kind, size, n, true);
		take(p, kind, size);
		return bench_now() - start;
	}
	for (uint64_t i = 0; i < n; i++) {
		if (what == LINE) {
			atomic_store_explicit(&s->turn, 2 * i + 1, memory_order_release);
			until(&s->turn, 2 * i + 2);
			continue;
		}
		give(p, kind, size);
		take(p, kind, size);
	}
	return bench_now() - start;
}

void ends_stop(struct perf *p)
{
	int status = 0;

	order(p, END, MESSAGE, 0, 0);
	if (bench_other_ended(&status, 0) && status)
		bench_fail("the other end failed");
}

/* Both ends --------------------------------------------------------------------------- */

void ends_start(struct perf *p, bool no_bind)
{
	split(p, no_bind);
	start_node(p);
}

void ends_finish(void)
{
	mcapi_status_t st;

	mcapi_finalize(&st);
	check("mcapi_finalize", st);
}
