/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Nodes in threads of several processes lock, unlock, create, delete, attach,
 * read and write at random. What they may see is checked against what the
 * processes note in memory of their own: who holds which lock, which handles are
 * dead, what each wrote where. Data that a lock protects is plain, so that the
 * thread sanitizer sees a lock that does not do its work.
 */
#include <stdlib.h>

#include "stress/model.h"

struct shared *shared;
int nodes;
_Thread_local mrapi_status_t st;

static long procs = 2, threads = 3;

const char *status_name(mrapi_status_t status)
{
	static _Thread_local char text[2][MRAPI_MAX_STATUS_SIZE];
	static _Thread_local int i;

	i = !i;
	return mrapi_display_status(status, text[i], sizeof(text[i]));
}

void must_at(const char *file, int line, const char *what, mrapi_status_t want, mrapi_status_t got)
{
	st_at_line(file, line, 0);
	if (got != want)
		st_fail_at(file, line, "%s: %s, not %s", what, status_name(got), status_name(want));
}

unsigned pick(struct node *n, unsigned of)
{
	return (unsigned)(twt_random(&n->rng) % of);
}

static void begin(struct node *n)
{
	mrapi_info_t info;

	ok(mrapi_initialize(1, (mrapi_node_t)n->rank, NULL, &info, &st));
	offer(n);
}

/* Withdraws for good; the others let go of it by themselves. */
static void leave(struct node *n)
{
	detach_segments(n);
	detach_remotes(n);
	while (n->mine) {
		withdraw(n);
		if (n->mine)
			st_sleep(0.001);
	}
	ok(mrapi_finalize(&st));
}

static void *run(void *arg)
{
	struct node *n = arg;

	st_at(0);
	begin(n);
	while (st_going()) {
		unsigned what = pick(n, 100);

		if (what < 50)
			use_lock(n);
		else if (what < 55)
			delete_lock(n);
		else if (what < 70)
			use_segment(n);
		else
			use_remote(n);
	}
	if (!n->mine)
		offer(n);
	st_meet(&shared->meet, (unsigned)nodes);
	check_remotes(n);
	detach_segments(n);
	detach_remotes(n);
	st_meet(&shared->meet, (unsigned)nodes);
	leave(n);
	atomic_fetch_add(&shared->locks, n->locks);
	atomic_fetch_add(&shared->creates, n->creates);
	atomic_fetch_add(&shared->moved, n->moved);
	return NULL;
}

static int process(void *arg, int fd)
{
	static const char *const ways[] = {"auto", "served", "vm"};
	int rank = *(int *)arg;
	struct node *node = calloc((size_t)threads, sizeof(*node));

	(void)fd;
	st_role("process %d", rank);
	/* Each has its own way to the memory of the others. */
	setenv("TAGWIRE_RMEM", ways[rank % 3], 0);
	st_check(node != NULL);
	for (int i = 0; i < threads; i++) {
		struct node *n = &node[i];

		n->rank = rank * (int)threads + i;
		n->rng = st_hash(st_seed, 0x3a71 + (uint64_t)n->rank);
		n->memory = aligned_alloc(STRIPE, (size_t)nodes * STRIPE);
		n->remote = calloc((size_t)nodes, sizeof(*n->remote));
		st_check(n->memory && n->remote);
		memset(n->memory, 0, (size_t)nodes * STRIPE);
		st_check(pthread_create(&n->id, NULL, run, n) == 0);
	}
	for (int i = 0; i < threads; i++) {
		st_check(pthread_join(node[i].id, NULL) == 0);
		free(node[i].memory);
		free(node[i].remote);
	}
	free(node);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct st_option options[] = {
		{"--procs", &procs, 1, PROCS}, {"--threads", &threads, 1, THREADS}, {0}};
	struct twt_child child[PROCS];

	st_begin(argc, argv, "stress_mrapi_model", 5, options);
	nodes = (int)(procs * threads);
	shared = st_shared(sizeof(*shared));
	for (int i = 0; i < procs; i++)
		twt_spawn(&child[i], process, &i);
	st_join(child, (int)procs);
	st_leftovers();
	st_done("%ld processes of %ld threads, %llu locks, %llu creates, %.1f MB", procs, threads,
		(unsigned long long)shared->locks, (unsigned long long)shared->creates,
		(double)shared->moved / 1e6);
	return 0;
}
