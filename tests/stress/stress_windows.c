/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Windows that come and go while peers put and get, against a simple model: an epoch beside
 * each window, in memory of all, which tells whether it is registered, or neither surely so
 * nor surely not. An access during which the epoch did not change succeeds, and finds what was
 * put last, if the window was there, and is refused if not; any other may end either way. And
 * memory that was a window is nobody's but its owner's. Half of the processes have their
 * accesses served.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mx_extensions.h"
#include "stress/stress.h"

#define MOST 8	     /* processes */
#define WINDOWS 4    /* of each */
#define SLOT 20000u  /* bytes of a window for each process */
#define WAITING 4    /* accesses of a process at once, to as many windows */

/* Of an epoch, its lowest bits; between these it is not sure. */
enum { THERE = 0, GONE = 2, STATES = 4 };

static struct shared {
	struct st_name name[MOST];
	atomic_uint meet, over;
	atomic_ulong done, refused;
	atomic_ullong epoch[MOST][WINDOWS];
} *shared;
static long procs = 4;

struct process {
	unsigned rank;
	mx_endpoint_t ep;
	mx_endpoint_addr_t peer[MOST];
	char *memory[WINDOWS];
	/* The last put of this process to each window, and the epoch of that. */
	uint64_t epoch[MOST][WINDOWS], seed[MOST][WINDOWS];
	uint32_t len[MOST][WINDOWS];
	uint64_t rng;
};

static size_t size(void)
{
	return (size_t)procs * SLOT;
}

static void toggle(struct process *p, unsigned w)
{
	atomic_ullong *epoch = &shared->epoch[p->rank][w];
	uint64_t key = w;

	if (atomic_fetch_add(epoch, 1) % STATES == GONE) {
		st_ok(mx_window_register(p->ep, p->memory[w], size(), 3, &key));
		atomic_fetch_add(epoch, 1);
		return;
	}
	st_ok(mx_window_deregister(p->ep, key));
	atomic_fetch_add(epoch, 1);
	memset(p->memory[w], 'o', size());
	if (twt_random(&p->rng) % 2)
		st_sleep(0.0005);
	for (size_t i = 0; i < size(); i++)
		st_eq(p->memory[w][i], 'o');
}

/* A request to a window, and what is known of it. */
struct access {
	mx_request_t r;
	unsigned owner, w;
	uint64_t epoch; /* when it began */
	bool put;
	char *data;
	uint32_t len;
	uint64_t seed;
};

static void start(struct process *p, struct access *a, unsigned owner, unsigned w)
{
	uint64_t offset = p->rank * (uint64_t)SLOT;
	mx_segment_t seg = {a->data, 0};

	a->owner = owner;
	a->w = w;
	a->put = twt_random(&p->rng) % 2;
	a->seed = twt_random(&p->rng);
	a->epoch = atomic_load(&shared->epoch[owner][w]);
	a->len = a->put ? st_size(&p->rng, SLOT) : p->len[owner][w];
	seg.segment_length = a->len;
	if (a->put) {
		twt_fill(a->data, a->len, a->seed);
		st_ok(mx_put(p->ep, &seg, 1, p->peer[owner], w, offset, 1, a, &a->r));
	} else {
		st_ok(mx_get(p->ep, &seg, 1, p->peer[owner], w, offset, 1, a, &a->r));
	}
}

static void finish(struct process *p, struct access *a)
{
	bool same, there = a->epoch % STATES == THERE;
	bool known = p->epoch[a->owner][a->w] == a->epoch;
	mx_status_t st;

	st_check(st_poll(p->ep, &a->r, ST_LONG, &st));
	same = atomic_load(&shared->epoch[a->owner][a->w]) == a->epoch;
	atomic_fetch_add(st.code == MX_STATUS_SUCCESS ? &shared->done : &shared->refused, 1);
	if (st.code != MX_STATUS_SUCCESS)
		st_eq(st.code, MX_STATUS_BAD_RDMAWIN);
	if (same && a->epoch % 2 == 0)
		st_eq(st.code, there ? MX_STATUS_SUCCESS : MX_STATUS_BAD_RDMAWIN);
	if (same && there && !a->put && known)
		st_eq(twt_check(a->data, a->len, p->seed[a->owner][a->w]), a->len);
	if (!a->put)
		return;
	/* What a put that is not sure has left is not known. */
	p->epoch[a->owner][a->w] = same && there ? a->epoch : UINT64_MAX;
	p->seed[a->owner][a->w] = a->seed;
	p->len[a->owner][a->w] = a->len;
}

/* Accesses to different windows, as those to one have no order. */
static void turn(struct process *p, struct access *a)
{
	unsigned first = (unsigned)twt_random(&p->rng), n = 1 + twt_random(&p->rng) % WAITING;

	for (unsigned i = 0; i < n; i++)
		start(p, &a[i], (first + i) / WINDOWS % (unsigned)procs, (first + i) % WINDOWS);
	if (twt_random(&p->rng) % 8 == 0)
		toggle(p, twt_random(&p->rng) % WINDOWS);
	for (unsigned i = 0; i < n; i++)
		finish(p, &a[i]);
}

static void open_all(struct process *p)
{
	if (p->rank % 2)
		setenv("TAGWIRE_RNDV", "copy", 1);
	st_up();
	p->ep = st_open(MX_ANY_ENDPOINT, NULL, 0);
	shared->name[p->rank] = st_whose(st_self(p->ep));
	for (unsigned w = 0; w < WINDOWS; w++) {
		p->memory[w] = malloc(size());
		st_check(p->memory[w]);
		atomic_store(&shared->epoch[p->rank][w], GONE);
		toggle(p, w);
	}
	st_meet(&shared->meet, (unsigned)procs);
	for (unsigned i = 0; i < procs; i++)
		p->peer[i] = st_connect(p->ep, shared->name[i]);
	st_meet(&shared->meet, (unsigned)procs);
}

static int process(void *arg, int fd)
{
	struct process p = {.rank = *(unsigned *)arg};
	struct access a[WAITING];
	uint64_t step = 0;

	(void)fd;
	st_role("process %u", p.rank);
	p.rng = st_hash(st_seed, p.rank);
	memset(p.epoch, 0xff, sizeof(p.epoch));
	for (unsigned i = 0; i < WAITING; i++)
		st_check((a[i].data = malloc(SLOT)));
	open_all(&p);
	while (!atomic_load(&shared->over)) {
		st_at(++step);
		turn(&p, a);
	}
	st_meet(&shared->meet, (unsigned)procs);
	for (unsigned w = 0; w < WINDOWS; w++)
		if (atomic_load(&shared->epoch[p.rank][w]) % STATES == THERE)
			toggle(&p, w);
	st_meet(&shared->meet, (unsigned)procs);
	st_ok(mx_close_endpoint(p.ep));
	st_ok(mx_finalize());
	for (unsigned i = 0; i < WAITING; i++)
		free(a[i].data);
	for (unsigned w = 0; w < WINDOWS; w++)
		free(p.memory[w]);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct st_option options[] = {{"--procs", &procs, 1, MOST}, {0}};
	struct twt_child child[MOST];
	unsigned rank[MOST];

	st_begin(argc, argv, "stress_windows", 5, options);
	shared = st_shared(sizeof(*shared));
	for (unsigned i = 0; i < procs; i++) {
		rank[i] = i;
		twt_spawn(&child[i], process, &rank[i]);
	}
	while (st_going())
		st_sleep(0.05);
	atomic_store(&shared->over, 1);
	for (unsigned i = 0; i < procs; i++)
		st_eq(twt_join(&child[i], (int)ST_LONG), 0);
	st_check(atomic_load(&shared->done) && atomic_load(&shared->refused));
	st_done("%ld processes, %lu accesses, %lu refused", procs, atomic_load(&shared->done),
		atomic_load(&shared->refused));
	return 0;
}
