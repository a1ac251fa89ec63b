/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two processes stream to each other over providers that fail now and then: no
 * room, packets held back, remote reads that are refused, find no memory or
 * lose the peer, a peer that goes down at any packet. Each message arrives as it
 * was sent or ends with a status that says what happened; afterwards the two
 * connect again. Half of the time over shared memory, half over TCP.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include <stdlib.h>
#include <string.h>

#include "fault/faulty.h"
#include "stress/stress.h"

#define LARGEST (1 << 20)

static long rounds = 60;

/* What the processes share. */
struct shared {
	atomic_uint meet;
	struct st_name name[2];
	atomic_int parted[2]; /* of even and of odd rounds */
	atomic_int over;
	double end; /* of this half */
	atomic_ullong messages, ended, aborted;
	atomic_ullong faults[6];
};
static struct shared *shared;

struct side {
	int rank;
	mx_endpoint_t ep;
	mx_endpoint_addr_t to;
	uint64_t rng, round;
	uint8_t *buf;
};

static void meet(void)
{
	st_meet(&shared->meet, 2);
}

/* What the peer sent before the link broke, and no receive took. */
static void take_leftovers(struct side *s, uint64_t base)
{
	double end = twt_now() + ST_LONG / 2;

	for (;;) {
		uint32_t result = 0;
		mx_request_t req;
		mx_status_t st;

		st_ok(mx_iprobe(s->ep, base, ~0xffffull, &st, &result));
		if (!result)
			return;
		req = st_irecv(s->ep, s->buf, LARGEST, st.match_info);
		if (!st_poll(s->ep, &req, end - twt_now(), &st))
			st_fail("a message that was there does not come");
		if (st.code != MX_STATUS_SUCCESS && st.code != MX_STATUS_ABORTED &&
		    !st_gone(st.code))
			st_fail("what was left ended with %s", mx_strstatus(st.code));
	}
}

static void count(struct st_streams *streams)
{
	for (int i = 0; i < ST_STREAMS; i++) {
		mx_status_code_t code = streams->lane[i].code;

		atomic_fetch_add(&shared->ended, code != MX_STATUS_SUCCESS);
		atomic_fetch_add(&shared->aborted, code == MX_STATUS_ABORTED);
	}
}

/* Every other round only with what loses nothing. */
static void choose_faults(const struct side *s)
{
	int gentle = s->round % 2;

	faulty.again = 30;
	faulty.delay = 30;
	faulty.eperm = s->round % 3 ? 5 : 0;
	faulty.efault = gentle ? 0 : 20;
	faulty.lost = gentle || s->round % 4 ? 0 : 20;
	faulty.down = gentle ? 0 : 300;
}

static void run_round(struct side *s)
{
	double end = twt_now() + 0.1 * ST_SLOW, late = end + TWT_LONG;
	uint64_t base = s->round << 16, done = 0;
	struct st_streams streams;
	unsigned idle = 0;

	st_at(s->round);
	choose_faults(s);
	atomic_store(&shared->parted[(s->round + 1) % 2], 0);
	/* Either side may be the one that connects. */
	if ((int)(s->round / 2 % 2) == s->rank)
		s->to = st_connect(s->ep, shared->name[!s->rank]);
	meet();
	s->to = st_connect(s->ep, shared->name[!s->rank]);
	st_streams_make(&streams, s->ep, s->to, base, s->rank, s->round % 2 ? 0 : ST_ABORTS);
	/* Where nothing is lost something comes, however busy the machine is. */
	while (twt_now() < (s->round % 2 && !done ? late : end)) {
		int n = st_streams_step(&streams, 1);

		done += (uint64_t)n;
		if (n)
			idle = 0;
		else
			st_idle(&idle);
	}
	st_at(s->round);
	/* From here on nothing breaks, so that both can part. */
	faulty.down = faulty.lost = faulty.efault = 0;
	st_streams_part(&streams, &shared->parted[s->round % 2]);
	if (s->round % 2 && !done)
		st_fail("not one message came through");
	count(&streams);
	atomic_fetch_add(&shared->messages, done);
	take_leftovers(s, base);
	meet();
	if (s->rank == 0)
		atomic_store(&shared->over, (twt_now() > shared->end && s->round > 3) ||
						    s->round >= (uint64_t)rounds);
	meet();
}

static int process(void *arg, int fd)
{
	struct side s = {.rank = *(int *)arg};
	char c = 0;

	st_role("process %d", s.rank);
	s.rng = st_hash(st_seed, (uint64_t)s.rank);
	st_check((s.buf = malloc(LARGEST)) != NULL);
	faulty.seed = s.rng;
	st_up();
	s.ep = st_open(MX_ANY_ENDPOINT, NULL, 0);
	shared->name[s.rank] = st_whose(st_self(s.ep));
	meet();
	for (s.round = 1; !atomic_load(&shared->over); s.round++)
		run_round(&s);
	st_ok(mx_close_endpoint(s.ep));
	st_ok(mx_finalize());
	for (int i = 0; i < 6; i++)
		atomic_fetch_add(&shared->faults[i], ((uint64_t *)&faulty_count)[i]);
	free(s.buf);
	st_put(fd, &c, 1);
	return 0;
}

/* With providers as TAGWIRE_PROVIDERS names them. */
static void inject(const char *providers)
{
	static int rank[2] = {0, 1};
	struct twt_child child[2];
	unsigned long long f[6];
	char c;

	memset(shared, 0, sizeof(*shared));
	shared->end = twt_now() + st_seconds / 2;
	setenv("TAGWIRE_PROVIDERS", providers, 1);
	for (int i = 0; i < 2; i++)
		twt_spawn(&child[i], process, &rank[i]);
	for (int i = 0; i < 2; i++)
		st_get(child[i].fd, &c, 1);
	st_join(child, 2);
	st_leftovers();
	for (int i = 0; i < 6; i++)
		f[i] = atomic_load(&shared->faults[i]);
	st_done("%s: %llu messages, %llu streams ended, %llu of them aborted; injected: %llu no "
		"room, %llu held back, %llu EPERM, %llu EFAULT, %llu lost, %llu down",
		providers, (unsigned long long)atomic_load(&shared->messages),
		(unsigned long long)atomic_load(&shared->ended),
		(unsigned long long)atomic_load(&shared->aborted), f[0], f[1], f[2], f[3], f[4],
		f[5]);
}

int main(int argc, char **argv)
{
	static const struct st_option options[] = {{"--rounds", &rounds, 4, 1000000}, {0}};

	st_begin(argc, argv, "fault_inject", 10, options);
	setenv("TAGWIRE_MODULES", TWT_MODULES, 0);
	shared = st_shared(sizeof(*shared));
	inject("self,shm");
#if TW_HAVE_TCP
	inject("self,tcp");
#endif
	return 0;
}
