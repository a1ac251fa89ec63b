/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a connected peer costs in memory: a process with 1, 64 and 512 peers, which have all
 * sent it messages and had answers, short and longer ones, and are silent now. Counted is
 * all its memory, what it shares with the peers included.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "stress/stress.h"

#define CLIENTS 8 /* processes of the peers */
#define MOST 512  /* peers */
#define EACH (MOST / CLIENTS)
#define ROUNDS 40
#define LEN 1000	 /* bytes of the longer messages */
#define KEPT_MOST 8192.0 /* bytes of each further peer */

static const unsigned stages[] = {1, 64, MOST};
#define STAGES (sizeof(stages) / sizeof(*stages))

static struct shared {
	struct st_name center;
	atomic_uint stage, done; /* peers that may begin, and that have had their answers */
	atomic_uint again;	 /* all of them may send once more */
} * shared;

static uint32_t length(int round)
{
	return round % 4 ? 8 : LEN;
}

static void send_one(mx_endpoint_t ep, mx_endpoint_addr_t to, uint64_t match)
{
	static char buf[LEN];
	mx_request_t r = st_isend(ep, buf, LEN, to, match);

	st_finish(ep, &r);
}

/* Who has sent it. */
static mx_endpoint_addr_t receive_one(mx_endpoint_t ep, uint64_t match)
{
	static char buf[LEN];
	mx_request_t r = st_irecv(ep, buf, LEN, match);

	return st_finish(ep, &r).source;
}

static void serve(mx_endpoint_t ep, unsigned messages)
{
	static char buf[LEN];

	for (unsigned n = 0; n < messages; n++) {
		mx_request_t r = st_irecv(ep, buf, LEN, 1);
		mx_status_t s = st_finish(ep, &r);

		r = st_isend(ep, buf, s.msg_length, s.source, 2);
		st_finish(ep, &r);
	}
}

static int center(void *arg, int fd)
{
	static mx_endpoint_addr_t from[MOST];
	double rss[STAGES];
	mx_endpoint_t ep;
	unsigned before = 0;

	(void)arg;
	st_up();
	ep = st_open(1, NULL, 0);
	shared->center = st_whose(st_self(ep));
	for (unsigned i = 0; i < STAGES; i++) {
		atomic_store(&shared->stage, stages[i]);
		serve(ep, (stages[i] - before) * ROUNDS);
		for (; before < stages[i]; before++)
			from[before] = receive_one(ep, 3);
		while (atomic_load(&shared->done) < stages[i])
			st_sleep(0.01);
		/* Peers that compute have something to read, after all else is over. */
		st_sleep(2.5);
		for (unsigned p = i ? stages[i - 1] : 0; p < stages[i]; p++)
			send_one(ep, from[p], 4);
		/* Memory goes back after a second without need, a second for the peer, or later. */
		st_sleep(4);
		rss[i] = (double)twt_memory(getpid());
		for (double end = twt_now() + TWT_LONG; i && twt_now() < end; st_sleep(1)) {
			rss[i] = (double)twt_memory(getpid());
			if (rss[i] - rss[i - 1] <= KEPT_MOST * (stages[i] - stages[i - 1]))
				break;
		}
	}
	atomic_store(&shared->again, 1);
	serve(ep, MOST * ROUNDS);
	st_put(fd, rss, sizeof(rss));
	st_get(fd, rss, 1);
	st_ok(mx_close_endpoint(ep));
	st_ok(mx_finalize());
	return 0;
}

static void ask(mx_endpoint_t ep, mx_endpoint_addr_t to)
{
	static char buf[LEN];

	for (int round = 0; round < ROUNDS; round++) {
		mx_request_t r = st_isend(ep, buf, length(round), to, 1);

		st_finish(ep, &r);
		r = st_irecv(ep, buf, LEN, 2);
		st_finish(ep, &r);
	}
}

/* Each endpoint of a client is a peer. */
static int client(void *arg, int fd)
{
	unsigned number = *(unsigned *)arg;
	mx_endpoint_addr_t to[EACH];
	mx_endpoint_t ep[EACH];
	char c;

	st_up();
	for (unsigned i = 0; i < EACH; i++) {
		/* The first peers are those of all clients in turn. */
		while (atomic_load(&shared->stage) <= i * CLIENTS + number)
			st_sleep(0.01);
		ep[i] = st_open(10 + i * CLIENTS + number, NULL, 0);
		to[i] = st_connect(ep[i], shared->center);
		ask(ep[i], to[i]);
		send_one(ep[i], to[i], 3);
		atomic_fetch_add(&shared->done, 1);
	}
	while (!atomic_load(&shared->again))
		st_sleep(0.01);
	for (unsigned i = 0; i < EACH; i++) {
		receive_one(ep[i], 4);
		ask(ep[i], to[i]);
	}
	st_get(fd, &c, 1);
	for (unsigned i = 0; i < EACH; i++)
		st_ok(mx_close_endpoint(ep[i]));
	st_ok(mx_finalize());
	return 0;
}

static void more_files(void)
{
	struct rlimit files;

	getrlimit(RLIMIT_NOFILE, &files);
	if (files.rlim_max < 4 * MOST) {
		printf("%d descriptors are too few for %d peers\n", (int)files.rlim_max, MOST);
		exit(ST_SKIP);
	}
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
}

int main(int argc, char **argv)
{
	struct twt_child child[1 + CLIENTS];
	unsigned number[CLIENTS];
	double rss[STAGES], each[STAGES] = {0};

	st_begin(argc, argv, "stress_peers", 30, NULL);
	if (ST_SANITIZED) {
		printf("a sanitizer's own memory would be counted\n");
		return ST_SKIP;
	}
	more_files();
	/* A stranger's call over tcp would load TLS, which is no peer's. */
	setenv("TAGWIRE_PROVIDERS", "self,shm", 1);
	shared = st_shared(sizeof(*shared));
	twt_spawn(&child[0], center, NULL);
	for (unsigned i = 0; i < CLIENTS; i++) {
		number[i] = i;
		twt_spawn(&child[1 + i], client, &number[i]);
	}
	st_get(child[0].fd, rss, sizeof(rss));
	for (unsigned i = 1; i < STAGES; i++) {
		each[i] = (rss[i] - rss[i - 1]) / (stages[i] - stages[i - 1]);
		if (each[i] > KEPT_MOST)
			st_fail("with %u peers each further one takes %.0f bytes", stages[i],
				each[i]);
	}
	for (unsigned i = 0; i < 1 + CLIENTS; i++)
		st_put(child[i].fd, "", 1);
	st_join(child, 1 + CLIENTS);
	st_leftovers();
	st_done("each further peer takes %.0f bytes with %u, %.0f with %u", each[1], stages[1],
		each[2], stages[2]);
	return 0;
}
