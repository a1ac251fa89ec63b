/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two connected processes that have nothing to do use no processor: after heavy
 * traffic, whether their programs block outside the library or in mx_wait(), and
 * whether messages are pending or not, no thread of theirs wakes up a single time.
 * Nor do they keep the memory that the traffic took in between them.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "stress/stress.h"

#define SETTLE 1.0 /* seconds */
#define TRIES 10   /* windows; on a busy machine what is due at rest comes late */
#define TRAFFIC (0.7 * ST_SLOW)
#define LONG 100000	       /* announced, not sent at once */
#define KEPT_MOST 8192	       /* bytes that a connection at rest may take of each side */

enum { RECEIVE = 0xa000, SEND = 0xb000 }; /* match information in a pause */

enum pause { QUIET, PENDING, WAITING, PAUSES };
static const char *const names[PAUSES] = {"quiet", "with messages pending", "in mx_wait()"};

static struct shared {
	struct st_name name[2];
	atomic_uint met;
	atomic_int parted[PAUSES];
	atomic_int paused; /* ends that have come to the pause */
	atomic_ullong messages;
	uint64_t before[2]; /* shared memory of a process, not yet connected */
} * shared;

static uint64_t most_kept;

struct end {
	int side, fd;
	mx_endpoint_t ep;
	mx_endpoint_addr_t to;
};

static void traffic(struct end *e, enum pause which)
{
	double now = twt_now(), until = now + TRAFFIC, look = now;
	struct st_streams streams;
	uint64_t n = 0, most = 0;
	unsigned idle = 0;

	st_streams_make(&streams, e->ep, e->to, (uint64_t)(which + 1) << 16, e->side, 0);
	while ((now = twt_now()) < until) {
		int done = st_streams_step(&streams, 1);

		n += (uint64_t)done;
		if (!done)
			st_idle(&idle);
		if (done && now >= look) {
			uint64_t bytes = twt_shared_memory(getpid());

			most = bytes > most ? bytes : most;
			look = now + TRAFFIC / 10;
		}
	}
	st_streams_part(&streams, &shared->parted[which]);
	st_streams_free(&streams);
	/* Else it would prove nothing that it is gone later. */
	st_check(most > shared->before[e->side] + KEPT_MOST);
	atomic_fetch_add(&shared->messages, n);
}

/* A receive that nothing comes for, and sends that nobody receives, for now. */
static void pause_here(struct end *e, enum pause which)
{
	static char in[LONG], out[LONG];
	mx_request_t recv = st_irecv(e->ep, in, LONG, RECEIVE), send[3], late;
	mx_status_t status;
	uint32_t done = 0;
	char c;

	if (which == PENDING) {
		send[0] = st_isend(e->ep, out, 10, e->to, SEND);
		send[1] = st_issend(e->ep, out, 10, e->to, SEND + 1);
		send[2] = st_isend(e->ep, out, LONG, e->to, SEND + 2);
	}
	atomic_fetch_add(&shared->paused, 1);
	/* The other end waits outside, and ends this. */
	if (which == WAITING && e->side == 0)
		st_ok(mx_wait(e->ep, &recv, MX_INFINITE, &status, &done));
	st_get(e->fd, &c, 1);
	late = st_isend(e->ep, out, LONG, e->to, RECEIVE);
	if (!done)
		st_finish(e->ep, &recv);
	st_finish(e->ep, &late);
	for (int i = 0; which == PENDING && i < 3; i++) {
		late = st_irecv(e->ep, in, LONG, SEND + (uint64_t)i);
		st_finish(e->ep, &late);
		st_finish(e->ep, &send[i]);
	}
	st_meet(&shared->met, 2);
}

/* No st_role() here: its watchdog wakes up. The first process watches. */
static int end(void *arg, int fd)
{
	struct end e = {.side = *(int *)arg, .fd = fd};

	st_up();
	e.ep = st_open((uint32_t)e.side + 1, NULL, 0);
	shared->name[e.side] = st_whose(st_self(e.ep));
	shared->before[e.side] = twt_shared_memory(getpid());
	st_meet(&shared->met, 2);
	e.to = st_connect(e.ep, shared->name[!e.side]);
	for (unsigned i = 0; i < PAUSES; i++) {
		traffic(&e, (enum pause)i);
		pause_here(&e, (enum pause)i);
	}
	st_ok(mx_close_endpoint(e.ep));
	st_ok(mx_finalize());
	return 0;
}

/* How often one thread was switched to or from, by will or not. */
static uint64_t switches_of(const char *dir, const char *task)
{
	unsigned long long v;
	uint64_t sum = 0;
	char line[512];
	FILE *f;

	snprintf(line, sizeof(line), "%s/%s/status", dir, task);
	f = fopen(line, "r");
	if (!f)
		return 0; /* ended meanwhile */
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "voluntary_ctxt_switches: %llu", &v) == 1 ||
		    sscanf(line, "nonvoluntary_ctxt_switches: %llu", &v) == 1)
			sum += v;
	fclose(f);
	return sum;
}

static uint64_t switches(const struct twt_child *child, int n)
{
	uint64_t sum = 0;
	char dir[64];

	for (int i = 0; i < n; i++) {
		DIR *d;

		snprintf(dir, sizeof(dir), "/proc/%d/task", (int)child[i].pid);
		d = opendir(dir);
		if (!d)
			st_fail("no %s to look at", dir);
		for (struct dirent *t; (t = readdir(d));)
			if (t->d_name[0] != '.')
				sum += switches_of(dir, t->d_name);
		closedir(d);
	}
	st_check(sum > 0); /* the system counts */
	return sum;
}

static uint64_t switches_in(struct twt_child *child, double seconds)
{
	uint64_t before = switches(child, 2);

	st_sleep(seconds);
	st_alive(child, 2);
	return switches(child, 2) - before;
}

/* How long until a whole window has passed in which nothing has moved. */
static double watch(struct twt_child *child, enum pause which, double window)
{
	double start;
	uint64_t n;
	int i = 0;

	while (atomic_load(&shared->paused) < 2 * ((int)which + 1)) {
		st_alive(child, 2);
		st_sleep(0.01);
	}
	start = twt_now();
	st_sleep(SETTLE);
	while ((n = switches_in(child, window)) != 0)
		if (++i == TRIES)
			st_fail("%s: %llu switches in %g idle seconds, without end", names[which],
				(unsigned long long)n, window);
	start = twt_now() - start - window;
	for (int k = 0; k < 2; k++) {
		uint64_t kept = twt_shared_memory(child[k].pid) - shared->before[k];

		if (kept > KEPT_MOST)
			st_fail("%s: %llu bytes between two that have nothing to say", names[which],
				(unsigned long long)kept);
		if (kept > most_kept)
			most_kept = kept;
	}
	return start;
}

int main(int argc, char **argv)
{
	struct twt_child child[2];
	int sides[2] = {0, 1};
	double settled = 0;

	st_begin(argc, argv, "stress_idle", 9, NULL);
	if (ST_SANITIZED) {
		printf("sanitizers may have threads of their own\n");
		return ST_SKIP;
	}
	/* A stranger's call over tcp would wake them. */
	setenv("TAGWIRE_PROVIDERS", "self,shm", 1);
	shared = st_shared(sizeof(*shared));
	for (int i = 0; i < 2; i++)
		twt_spawn(&child[i], end, &sides[i]);
	for (unsigned i = 0; i < PAUSES; i++) {
		double took = watch(child, (enum pause)i, st_seconds / PAUSES);

		if (took > settled)
			settled = took;
		for (int k = 0; k < 2; k++)
			st_put(child[k].fd, "", 1);
	}
	st_join(child, 2);
	st_leftovers();
	st_done("%llu messages, no switch in %g idle seconds; at rest within %.0f s, "
		"with %llu KiB a side",
		(unsigned long long)shared->messages, st_seconds, settled,
		(unsigned long long)most_kept / 1024);
	return 0;
}
