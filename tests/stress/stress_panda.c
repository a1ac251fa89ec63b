/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Panda platforms, each a process of several threads, send each other messages of
 * random sizes and kinds, finished in random ways, and call each other. The model
 * is small: the n-th message of a thread to a port of a platform has a content
 * that follows from these numbers; it comes once, whole and in order; each
 * upcall that was asked for is made once, after the message has arrived; when
 * all have finished, as much has come as was sent.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pthread.h>

#include "pan_mp.h"
#include "stress/stress.h"

enum { PROCS = 8, THREADS = 8, UNDER_WAY = 16, LONGEST = 300000 };
enum { UPCALLED = 1, RECEIVED = 2, PORTS = 3 };

static long procs = 3, threads = 3;

struct shared {
	atomic_uint met;
	atomic_ullong sent[PROCS][PORTS]; /* to a platform's port */
	atomic_ullong bytes, calls;
	atomic_int over;
};
static struct shared *shared;

/* The start of every message; what follows is a pattern. */
struct head {
	uint32_t from, thread, n, len;
	int32_t answer; /* a direct ticket, or 0 */
	int32_t pad;
};

/* A send under way. */
struct out {
	int ticket, how;
	struct head *data;
	atomic_int called;
};
enum { FINISH, POLL, ASYNC };

struct sender {
	pthread_t id;
	int thread;
	uint64_t rng;
	uint32_t sent[PROCS][PORTS];
	struct out out[UNDER_WAY];
	unsigned n;
};

static int me;
static atomic_ullong came[PORTS];
static uint32_t next_of[PORTS][PROCS][THREADS]; /* one thread at a time for each port */

static uint64_t seed_of(const struct head *h, int port)
{
	return st_hash(st_hash(h->from * 100u + h->thread, (uint64_t)port), h->n);
}

static void check(const struct head *h, int len, int port)
{
	st_check(len >= (int)sizeof(*h));
	st_check(h->from < (uint32_t)procs && h->thread < (uint32_t)threads);
	st_eq(h->n, next_of[port][h->from][h->thread]);
	next_of[port][h->from][h->thread]++;
	st_eq(h->len, len);
	st_eq(twt_check(h + 1, h->len - sizeof(*h), seed_of(h, port)), h->len - sizeof(*h));
}

static void freed(void *arg)
{
	pan_free(arg);
}

/* The answer is the request, with the names exchanged. */
static int upcall(void *data, int size, int len)
{
	struct head *h = data;
	uint32_t to = h->from;
	int ticket;

	st_check(size >= len);
	check(h, len, UPCALLED);
	if (h->answer) {
		h->from = (uint32_t)me;
		ticket = pan_mp_send((int)to, h->answer, data, len,
				     h->n % 2 ? PAN_MP_NORMAL : PAN_MP_DELAYED);
		st_check(ticket > 0);
		pan_mp_async_send(ticket, freed, data);
	}
	atomic_fetch_add(&came[UPCALLED], 1);
	return h->answer != 0;
}

static void *receiver(void *arg)
{
	int tickets[4], size, len;
	void *data;

	(void)arg;
	for (int i = 0; i < 4; i++)
		tickets[i] = pan_mp_receive(RECEIVED);
	for (unsigned i = 0;; i = (i + 1) % 4) {
		st_at(i);
		data = pan_mp_finish_receive(tickets[i], &size, &len);
		if (!data)
			return NULL;
		check(data, len, RECEIVED);
		pan_free(data);
		atomic_fetch_add(&came[RECEIVED], 1);
		tickets[i] = pan_mp_receive(RECEIVED);
	}
}

/* Sending ------------------------------------------------------------------------ */

static void called(void *arg)
{
	st_eq(atomic_fetch_add(&((struct out *)arg)->called, 1), 0);
}

/* Ends a send in its own way; its data must be as it was. */
static void end(struct out *o, int port)
{
	unsigned idle = 0;

	switch (o->how) {
	case FINISH:
		pan_mp_finish_send(o->ticket);
		break;
	case POLL:
		for (int over; (over = pan_mp_poll_send(o->ticket)) != 1;) {
			st_eq(over, 0);
			st_idle(&idle);
		}
		break;
	default:
		while (!atomic_load(&o->called)) {
			pan_poll();
			st_idle(&idle);
		}
	}
	st_eq(twt_check(o->data + 1, o->data->len - sizeof(*o->data), seed_of(o->data, port)),
	      o->data->len - sizeof(*o->data));
	free(o->data);
	o->data = NULL;
}

static struct head *compose(struct sender *s, int to, int port, int answer)
{
	uint32_t len = (uint32_t)sizeof(struct head) + st_size(&s->rng, LONGEST);
	struct head *h = malloc(len);

	st_check(h);
	*h = (struct head){(uint32_t)me, (uint32_t)s->thread, s->sent[to][port]++, len, answer, 0};
	twt_fill(h + 1, len - sizeof(*h), seed_of(h, port));
	atomic_fetch_add(&shared->sent[to][port], 1);
	atomic_fetch_add(&shared->bytes, len);
	return h;
}

/* A call: the answer acknowledges the request. */
static void call(struct sender *s, int to)
{
	int answer = pan_mp_receive(PAN_MP_DIRECT_PORT), ticket, size, len;
	struct head *h = compose(s, to, UPCALLED, answer), *back;

	ticket = pan_mp_send(to, UPCALLED, h, (int)h->len, PAN_MP_EXTERNAL);
	if (twt_random(&s->rng) % 2)
		pan_mp_expect(to);
	back = pan_mp_finish_receive(answer, &size, &len);
	pan_mp_ack_send(ticket);
	st_check(back);
	st_eq(len, h->len);
	st_eq(back->n, h->n);
	st_eq(back->from, to);
	st_check(!memcmp(back + 1, h + 1, h->len - sizeof(*h)));
	pan_free(back);
	free(h);
	atomic_fetch_add(&shared->calls, 1);
}

static void send_one(struct sender *s)
{
	struct out *o = &s->out[s->n++ % UNDER_WAY];
	int to = (int)(twt_random(&s->rng) % (uint64_t)procs);
	int port = twt_random(&s->rng) % 2 ? UPCALLED : RECEIVED;

	if (o->data)
		end(o, o->data->pad);
	o->data = compose(s, to, port, 0);
	o->data->pad = port;
	o->how = (int)(twt_random(&s->rng) % 3);
	atomic_store(&o->called, 0);
	o->ticket = pan_mp_send(to, port, o->data, (int)o->data->len,
				twt_random(&s->rng) % 2 ? PAN_MP_NORMAL : PAN_MP_DELAYED);
	st_check(o->ticket > 0);
	if (o->how == ASYNC)
		pan_mp_async_send(o->ticket, called, o);
}

static void *sender(void *arg)
{
	struct sender *s = arg;

	while (!atomic_load(&shared->over)) {
		st_at(s->n);
		if (twt_random(&s->rng) % 8 == 0)
			call(s, (int)(twt_random(&s->rng) % (uint64_t)procs));
		else
			send_one(s);
	}
	for (unsigned i = 0; i < UNDER_WAY; i++)
		if (s->out[i].data)
			end(&s->out[i], s->out[i].data->pad);
	return NULL;
}

/* Platforms ------------------------------------------------------------------------ */

static void begin(void)
{
	char rank[32];

	snprintf(rank, sizeof(rank), "%d/%ld", me, procs);
	setenv("TAGWIRE_RANK", rank, 1);
	pan_init(NULL, NULL);
	pan_mp_init(NULL, NULL);
	st_eq(pan_my_pid(), me);
	st_eq(pan_mp_register_port(upcall), UPCALLED);
	st_eq(pan_mp_register_port(NULL), RECEIVED);
	pan_start();
}

static void all_has_come(void)
{
	unsigned idle = 0;

	for (int port = UPCALLED; port <= RECEIVED; port++)
		while (atomic_load(&came[port]) < atomic_load(&shared->sent[me][port]))
			st_idle(&idle);
}

static int platform(void *arg, int fd)
{
	struct sender *s = calloc((size_t)threads, sizeof(*s));
	pthread_t rx;

	(void)fd;
	me = *(int *)arg;
	st_role("platform %d", me);
	st_check(s);
	begin();
	st_check(pthread_create(&rx, NULL, receiver, NULL) == 0);
	for (int i = 0; i < threads; i++) {
		s[i].thread = i;
		s[i].rng = st_hash(st_seed, (uint64_t)(me * 100 + i));
		st_check(pthread_create(&s[i].id, NULL, sender, &s[i]) == 0);
	}
	while (me == 0 && st_going())
		st_sleep(0.05);
	if (me == 0)
		atomic_store(&shared->over, 1);
	for (int i = 0; i < threads; i++)
		st_check(pthread_join(s[i].id, NULL) == 0);
	st_meet(&shared->met, (unsigned)procs);
	all_has_come();
	pan_mp_free_port(RECEIVED);
	st_check(pthread_join(rx, NULL) == 0);
	for (int port = UPCALLED; port <= RECEIVED; port++)
		st_eq(atomic_load(&came[port]), atomic_load(&shared->sent[me][port]));
	/* Nobody ends while others may still answer. */
	st_meet(&shared->met, (unsigned)procs);
	pan_mp_end();
	pan_end();
	free(s);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct st_option options[] = {
		{"--procs", &procs, 1, PROCS}, {"--threads", &threads, 1, THREADS}, {0}};
	unsigned long long n = 0;
	struct twt_child child[PROCS];

	st_begin(argc, argv, "stress_panda", 5, options);
	shared = st_shared(sizeof(*shared));
	for (int i = 0; i < procs; i++)
		twt_spawn(&child[i], platform, &i);
	st_join(child, (int)procs);
	for (int i = 0; i < procs; i++)
		n += atomic_load(&shared->sent[i][UPCALLED]) +
		     atomic_load(&shared->sent[i][RECEIVED]);
	st_check(n > 0);
	st_done("%ld platforms of %ld threads, %llu messages, %llu of them calls, %llu MiB", procs,
		threads, n, (unsigned long long)atomic_load(&shared->calls),
		(unsigned long long)atomic_load(&shared->bytes) >> 20);
	return 0;
}
