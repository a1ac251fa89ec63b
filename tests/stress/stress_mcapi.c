/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MCAPI nodes in threads of several processes. Each sends messages of all
 * priorities to all, and a packet and a scalar channel to the next node, which are
 * connected, opened, used and closed again and again. Nothing is lost, nothing
 * overtakes within a pair and priority, and every byte is what it was.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "mcapi.h"
#include "stress/stress.h"

#define MAX_NODES 64
#define LONGEST 40000
#define PACKETS 60 /* at most, in one life of a channel */
#define SCALARS 700
#define PORT_MAIL 1
#define PORT_OUT 2 /* packets, then scalars */
#define PORT_IN 4

static long nprocs = 2, nthreads = 3;
static unsigned nnodes;

static struct shared {
	atomic_uint up, quiet, done; /* nodes that have come so far */
	atomic_ullong messages, packets, scalars, lives;
} * shared;

/* What a message begins with; the rest is a pattern made from it. */
struct head {
	uint32_t from, prio, seq, len;
};

enum stage { CONNECT, OPEN, OPENING, USE, STOPPED };

/* One end of a channel, in its present life. */
struct end {
	int scalar;
	mcapi_endpoint_t endpoint, other;
	uint32_t handle;
	enum stage stage;
	mcapi_request_t request;
	unsigned life, count, done;
	int waiting; /* a request is out */
	void *packet;
};

struct node {
	unsigned number;
	uint64_t rng;
	mcapi_endpoint_t mail, mails[MAX_NODES];
	uint32_t sent[MAX_NODES][MCAPI_MAX_NO_PRIORITIES];
	uint32_t got[MAX_NODES][MCAPI_MAX_NO_PRIORITIES];
	struct end out[2], in[2];
	char out_buffer[LONGEST + 16], in_buffer[LONGEST + 16], packet[LONGEST];
};

#define must(call)                                                                                 \
	do {                                                                                       \
		mcapi_status_t st = MCAPI_ERROR;                                                   \
		call;                                                                              \
		if (st != MCAPI_SUCCESS)                                                           \
			st_fail("node %u: %s: %s", n->number, #call, mcapi_strerror(st));          \
	} while (0)

static unsigned upto(struct node *n, unsigned limit)
{
	return (unsigned)(twt_random(&n->rng) % limit);
}

static uint64_t pattern(const struct head *h)
{
	return (uint64_t)h->from << 40 ^ (uint64_t)h->prio << 32 ^ h->seq;
}

/* Messages ------------------------------------------------------------------------- */

static void send_mail(struct node *n)
{
	unsigned to = upto(n, nnodes), prio = upto(n, MCAPI_MAX_NO_PRIORITIES);
	struct head h = {n->number, prio, n->sent[to][prio], upto(n, upto(n, 8) ? 300 : LONGEST)};
	mcapi_status_t st;

	memcpy(n->out_buffer, &h, sizeof(h));
	twt_fill(n->out_buffer + sizeof(h), h.len, pattern(&h));
	mcapi_msg_send(n->mail, n->mails[to], n->out_buffer, sizeof(h) + h.len, prio, &st);
	if (st == MCAPI_SUCCESS)
		n->sent[to][prio]++;
	else if (st != MCAPI_ENO_BUFFER)
		st_fail("node %u: mcapi_msg_send: %s", n->number, mcapi_strerror(st));
}

static void read_mail(struct node *n)
{
	mcapi_uint_t there;
	struct head h;
	size_t size;

	must(there = mcapi_msg_available(n->mail, &st));
	while (there--) {
		must(mcapi_msg_recv(n->mail, n->in_buffer, sizeof(n->in_buffer), &size, &st));
		memcpy(&h, n->in_buffer, sizeof(h));
		st_check(size == sizeof(h) + h.len && h.from < nnodes &&
			 h.prio < MCAPI_MAX_NO_PRIORITIES);
		if (h.seq != n->got[h.from][h.prio]++)
			st_fail("node %u: message %u of node %u, priority %u, came as number %u",
				n->number, h.seq, h.from, h.prio, n->got[h.from][h.prio] - 1);
		st_check(twt_check(n->in_buffer + sizeof(h), h.len, pattern(&h)) == h.len);
		atomic_fetch_add(&shared->messages, 1);
	}
}

/* Channels ------------------------------------------------------------------------- */

/* What life a channel leads depends on its sender and the number of the life. */
static unsigned life_count(unsigned sender, const struct end *e)
{
	uint64_t rng = sender * 1000003ull + e->life * 2 + (unsigned)e->scalar;

	return (unsigned)(twt_random(&rng) % (e->scalar ? SCALARS : PACKETS));
}

static uint32_t packet_length(unsigned sender, const struct end *e, unsigned i)
{
	uint64_t rng = sender * 77777ull + e->life * 1009 + i;
	uint64_t r = twt_random(&rng);

	return (uint32_t)(r >> 8) % (r % 10 ? 200 : LONGEST);
}

static int ended(struct node *n, struct end *e)
{
	mcapi_status_t st;
	size_t size;

	if (mcapi_test(&e->request, &size, &st))
		return 1;
	/* The other end's last life is not over yet, as it turned out late. */
	if (st == MCAPI_ECONNECTED && e->stage == OPEN) {
		e->stage = CONNECT;
		return 0;
	}
	if (st != MCAPI_INCOMPLETE && st != MCAPI_ENOT_HANDLE)
		st_fail("node %u: mcapi_test: %s", n->number, mcapi_strerror(st));
	return st == MCAPI_ENOT_HANDLE ? -1 : 0;
}

static void use_out(struct node *n, struct end *e)
{
	unsigned burst = 1 + upto(n, 20);

	while (burst-- && e->done < e->count) {
		uint32_t len = packet_length(n->number, e, e->done);

		if (e->scalar) {
			must(mcapi_sclchan_send_uint64(e->handle, e->life * 1000003ull + e->done,
						       &st));
			e->done++;
			continue;
		}
		if (!e->waiting) {
			twt_fill(n->packet, len, e->life * 31 + e->done);
			must(mcapi_pktchan_send_i(e->handle, n->packet, len, &e->request, &st));
			e->waiting = 1;
		}
		if (!ended(n, e))
			return;
		e->waiting = 0;
		e->done++;
	}
	if (e->done < e->count)
		return;
	if (e->scalar)
		must(mcapi_sclchan_send_close_i(e->handle, &e->request, &st));
	else
		must(mcapi_pktchan_send_close_i(e->handle, &e->request, &st));
	e->life++;
	e->stage = st_going() ? CONNECT : STOPPED;
	atomic_fetch_add(&shared->lives, 1);
}

static void drive_out(struct node *n, struct end *e)
{
	mcapi_status_t st;

	switch (e->stage) {
	case CONNECT:
		if (e->scalar)
			mcapi_connect_sclchan_i(e->endpoint, e->other, &e->request, &st);
		else
			mcapi_connect_pktchan_i(e->endpoint, e->other, &e->request, &st);
		if (st == MCAPI_SUCCESS)
			e->stage = OPEN;
		else if (st != MCAPI_ECONNECTED)
			st_fail("node %u: connect: %s", n->number, mcapi_strerror(st));
		break;
	case OPEN:
		if (!ended(n, e))
			break;
		if (e->scalar)
			must(mcapi_open_sclchan_send_i(&e->handle, e->endpoint, &e->request, &st));
		else
			must(mcapi_open_pktchan_send_i(&e->handle, e->endpoint, &e->request, &st));
		e->stage = OPENING;
		break;
	case OPENING:
		if (!ended(n, e))
			break;
		e->count = life_count(n->number, e);
		e->done = 0;
		e->waiting = 0;
		e->stage = USE;
		break;
	case USE:
		use_out(n, e);
		break;
	default:
		break;
	}
}

/* The sender has closed, and all it sent is here. */
static void end_in(struct node *n, struct end *e, unsigned sender)
{
	if (e->done != life_count(sender, e))
		st_fail("node %u: %u of %u came through channel %u of kind %d", n->number, e->done,
			life_count(sender, e), e->life, e->scalar);
	if (e->scalar)
		must(mcapi_sclchan_recv_close_i(e->handle, &e->request, &st));
	else
		must(mcapi_pktchan_recv_close_i(e->handle, &e->request, &st));
	e->life++;
	e->stage = OPEN;
}

static void use_in(struct node *n, struct end *e, unsigned sender)
{
	mcapi_status_t st;
	uint64_t value;
	size_t size;

	if (e->scalar) {
		mcapi_uint_t there = mcapi_sclchan_available(e->handle, &st);

		if (st == MCAPI_ENOT_HANDLE) {
			end_in(n, e, sender);
			return;
		}
		for (; there; there--, e->done++) {
			must(value = mcapi_sclchan_recv_uint64(e->handle, &st));
			st_check(value == e->life * 1000003ull + e->done);
			atomic_fetch_add(&shared->scalars, 1);
		}
		return;
	}
	if (!e->waiting) {
		mcapi_pktchan_recv_i(e->handle, &e->packet, &e->request, &st);
		if (st == MCAPI_ENOT_HANDLE) {
			end_in(n, e, sender);
			return;
		}
		st_check(st == MCAPI_SUCCESS);
		e->waiting = 1;
	}
	switch (ended(n, e)) {
	case 0:
		return;
	case 1:
		must(mcapi_wait(&e->request, &size, &st, 0));
		st_check(size == packet_length(sender, e, e->done));
		st_check(twt_check(e->packet, size, e->life * 31 + e->done) == size);
		must(mcapi_pktchan_free(e->packet, &st));
		atomic_fetch_add(&shared->packets, 1);
		e->done++;
		e->waiting = 0;
		return;
	default:
		e->waiting = 0;
		end_in(n, e, sender);
	}
}

static void drive_in(struct node *n, struct end *e, unsigned sender)
{
	mcapi_status_t st;

	switch (e->stage) {
	case OPEN:
		if (e->scalar)
			mcapi_open_sclchan_recv_i(&e->handle, e->endpoint, &e->request, &st);
		else
			mcapi_open_pktchan_recv_i(&e->handle, e->endpoint, &e->request, &st);
		if (st != MCAPI_SUCCESS && st != MCAPI_ENOT_CONNECTED)
			st_fail("node %u: open: %s", n->number, mcapi_strerror(st));
		e->stage = OPENING;
		break;
	case OPENING:
		if (!ended(n, e))
			break;
		e->done = 0;
		e->waiting = 0;
		e->stage = USE;
		break;
	case USE:
		use_in(n, e, sender);
		break;
	default:
		break;
	}
}

/* Nodes ---------------------------------------------------------------------------- */

static void meet(atomic_uint *count, unsigned all)
{
	atomic_fetch_add(count, 1);
	while (atomic_load(count) < all)
		st_sleep(0.001);
}

static void prepare(struct node *n)
{
	mcapi_version_t version;
	unsigned next = (n->number + 1) % nnodes;

	must(mcapi_initialize(n->number, &version, &st));
	must(n->mail = mcapi_create_endpoint(PORT_MAIL, &st));
	for (int i = 0; i < 2; i++) {
		n->out[i].scalar = n->in[i].scalar = i;
		n->in[i].stage = OPEN;
		must(n->out[i].endpoint = mcapi_create_endpoint(PORT_OUT + i, &st));
		must(n->in[i].endpoint = mcapi_create_endpoint(PORT_IN + i, &st));
	}
	for (unsigned i = 0; i < nnodes; i++)
		must(n->mails[i] = mcapi_get_endpoint(i, PORT_MAIL, &st));
	for (int i = 0; i < 2; i++)
		must(n->out[i].other = mcapi_get_endpoint(next, PORT_IN + i, &st));
	meet(&shared->up, nnodes);
}

static int in_use(const struct node *n)
{
	for (int i = 0; i < 2; i++)
		if (n->out[i].stage != STOPPED)
			return 1;
	return 0;
}

static void *live(void *arg)
{
	unsigned number = *(unsigned *)arg, sender = (number + nnodes - 1) % nnodes;
	struct node *n = calloc(1, sizeof(*n));
	int quiet = 0;

	n->number = number;
	n->rng = st_seed * 64 + number;
	prepare(n);
	/* The last life of a sender ends only if its receiver goes on. */
	while (!quiet || atomic_load(&shared->quiet) < nnodes) {
		if (st_going())
			for (unsigned i = upto(n, 4); i; i--)
				send_mail(n);
		read_mail(n);
		for (int i = 0; i < 2; i++) {
			drive_out(n, &n->out[i]);
			drive_in(n, &n->in[i], sender);
		}
		if (!quiet && !st_going() && !in_use(n)) {
			quiet = 1;
			atomic_fetch_add(&shared->quiet, 1);
		}
	}
	/* All has been sent: what is on its way arrives. */
	for (int i = 0; i < 200; i++) {
		read_mail(n);
		drive_in(n, &n->in[0], sender);
		drive_in(n, &n->in[1], sender);
		st_sleep(0.0005);
	}
	meet(&shared->done, nnodes);
	must(mcapi_finalize(&st));
	free(n);
	return NULL;
}

static int crew(void *arg, int fd)
{
	unsigned process = *(unsigned *)arg, numbers[MAX_NODES];
	pthread_t threads[MAX_NODES];

	(void)fd;
	for (long i = 0; i < nthreads; i++) {
		numbers[i] = process * (unsigned)nthreads + (unsigned)i;
		st_check(pthread_create(&threads[i], NULL, live, &numbers[i]) == 0);
	}
	for (long i = 0; i < nthreads; i++)
		pthread_join(threads[i], NULL);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct st_option options[] = {
		{"--procs", &nprocs, 1, 16}, {"--threads", &nthreads, 1, 16}, {0}};
	struct twt_child child[MAX_NODES];
	unsigned number[MAX_NODES];

	st_begin(argc, argv, "stress_mcapi", 5, options);
	if (nprocs * nthreads > MAX_NODES)
		st_fail("at most %d nodes", MAX_NODES);
	nnodes = (unsigned)(nprocs * nthreads);
	shared = st_shared(sizeof(*shared));
	for (unsigned i = 0; i < (unsigned)nprocs; i++) {
		number[i] = i;
		twt_spawn(&child[i], crew, &number[i]);
	}
	for (unsigned i = 0; i < (unsigned)nprocs; i++)
		st_check(twt_join(&child[i], (int)(st_seconds + ST_LONG)) == 0);
	st_done("%u nodes, %llu messages, %llu packets, %llu scalars, %llu lives of channels",
		nnodes, atomic_load(&shared->messages), atomic_load(&shared->packets),
		atomic_load(&shared->scalars), atomic_load(&shared->lives));
	return 0;
}
