/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MCAPI nodes, in threads and in processes, that exchange messages, packets and
 * scalars over lanes which a script, made from the seed, gives each round. The
 * model is small: what a lane carries follows from its number, comes once, whole
 * and in order; a channel that its sender closed is drained, one that its
 * receiver closed refuses; after a round nothing is left anywhere.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stress/lanes.h"

struct shared *shared;
static long nodes = 6, per_process = 1, restarts = 6;

static void write_script(struct node *me)
{
	uint64_t rng = st_hash(st_seed, me->round);

	me->nlanes = 1 + (int)(twt_random(&rng) % LANES);
	for (int i = 0; i < me->nlanes; i++) {
		struct lane *l = &me->lane[i];

		l->kind = (enum kind)(twt_random(&rng) % 3);
		l->from = (int)(twt_random(&rng) % (uint64_t)nodes);
		l->to = (int)(twt_random(&rng) % (uint64_t)nodes);
		l->by = (int)(twt_random(&rng) % (uint64_t)nodes);
		l->count = (int)(twt_random(&rng) % COUNT);
		l->quit = twt_random(&rng) % 4 ? -1 : (int)(twt_random(&rng) % COUNT);
		l->prio = (unsigned)(twt_random(&rng) % MCAPI_MAX_NO_PRIORITIES);
		l->width = (unsigned)(twt_random(&rng) % 5); /* 4: mixed */
		l->id = st_hash(st_seed + me->round, (uint64_t)i + 1000);
	}
}

static void begin_round(struct node *me)
{
	write_script(me);
	memset(me->my, 0, sizeof(me->my));
	me->left = me->expected = 0;
	for (int i = 0; i < me->nlanes; i++) {
		const struct lane *l = &me->lane[i];

		if (l->kind == MSG) {
			me->expected += l->to == me->number ? l->count : 0;
			me->left += l->from == me->number;
			continue;
		}
		me->left += (l->by == me->number) + (l->from == me->number) + (l->to == me->number);
		if (l->from == me->number)
			ok(me->my[i].s.ep = mcapi_create_endpoint(1000 + i, &st));
		if (l->to == me->number)
			ok(me->my[i].r.ep = mcapi_create_endpoint(2000 + i, &st));
	}
	me->left += me->expected;
}

static void nothing_moves(struct node *me)
{
	for (int i = 0; i < me->nlanes; i++) {
		const struct lane *l = &me->lane[i];

		if (l->from == me->number || l->to == me->number || l->by == me->number)
			fprintf(stderr,
				"node %d, round %u, lane %d: %s from %d to %d by %d, %d items, "
				"quit "
				"%d; connecting %d, sent %d, pending %d, sender %d, received %d, "
				"receiver %d; told %d %d %d\n",
				me->number, me->round, i,
				l->kind == MSG	 ? "messages"
				: l->kind == PKT ? "packets"
						 : "scalars",
				l->from, l->to, l->by, l->count, l->quit, me->my[i].connecting,
				me->my[i].sent, me->my[i].n, me->my[i].s.state, me->my[i].received,
				me->my[i].r.state, atomic_load(&told(me, i)->received),
				atomic_load(&told(me, i)->sender_left),
				atomic_load(&told(me, i)->receiver_left));
	}
	/* The others may have something to say as well. */
	st_sleep(3);
	st_fail("nothing moves; %d messages are missing, %d roles are not done", me->expected,
		me->left);
}

static void run_round(struct node *me)
{
	double moved_at = twt_now();
	unsigned idle = 0;

	while (me->left) {
		int moved = receive_messages(me);

		st_at(me->round);
		for (int i = 0; i < me->nlanes; i++) {
			const struct lane *l = &me->lane[i];

			if (l->kind == MSG) {
				if (l->from == me->number)
					moved |= step_message_sender(me, i);
				continue;
			}
			if (l->by == me->number && me->my[i].connecting != DONE)
				moved |= step_connect(me, i);
			if (l->from == me->number && me->my[i].s.state != DONE)
				moved |= step_sender(me, i);
			if (l->to == me->number && me->my[i].r.state != DONE)
				moved |= step_receiver(me, i);
		}
		if (moved) {
			idle = 0;
			moved_at = twt_now();
			continue;
		}
		st_idle(&idle);
		if (twt_now() > moved_at + ST_LONG / 2)
			nothing_moves(me);
	}
}

static void end_round(struct node *me)
{
	uint32_t value = 0;
	unsigned n;

	while (me->nposted)
		if (!cancel_posted(me, 0))
			st_fail("node %d got a message more", me->number);
	ok(n = mcapi_msg_available(me->inbox, &st));
	st_eq(n, 0);
	ok(mcapi_get_endpoint_attribute(me->inbox, MCAPI_ATTR_RECV_BUFFERS_AVAILABLE, &value, 4,
					&st));
	st_eq(value, 128);
}

static void up(struct node *me)
{
	mcapi_version_t version;

	ok(mcapi_initialize((mcapi_node_t)me->number, &version, &st));
	ok(me->from = mcapi_create_endpoint(10, &st));
	ok(me->inbox = mcapi_create_endpoint(20, &st));
}

static void *run(void *arg)
{
	struct node *me = arg;

	st_at(0);
	up(me);
	while (!atomic_load(&shared->over)) {
		begin_round(me);
		st_meet(&shared->met, (unsigned)nodes);
		run_round(me);
		/* From here on nobody sends. */
		st_meet(&shared->met, (unsigned)nodes);
		end_round(me);
		if (me->number == 0) {
			memset(&shared->told[(me->round + 1) % 2], 0, sizeof(shared->told[0]));
			atomic_store(&shared->over, !st_going());
		}
		/* Some come back as new nodes. */
		if (restarts &&
		    st_hash(me->round, (uint64_t)me->number) % (uint64_t)restarts == 0) {
			ok(mcapi_finalize(&st));
			up(me);
		}
		me->round++;
		st_meet(&shared->met, (unsigned)nodes);
	}
	ok(mcapi_finalize(&st));
	return NULL;
}

static int run_process(void *arg, int fd)
{
	int first = *(int *)arg;
	struct node *n = calloc((size_t)per_process, sizeof(*n));

	(void)fd;
	st_role("process %d", first / (int)per_process);
	st_check(n);
	for (int i = 0; i < per_process && first + i < nodes; i++) {
		n[i].number = first + i;
		n[i].rng = st_hash(st_seed, 0x70de + (uint64_t)(first + i));
		st_check(pthread_create(&n[i].thread, NULL, run, &n[i]) == 0);
	}
	for (int i = 0; i < per_process && first + i < nodes; i++)
		st_check(pthread_join(n[i].thread, NULL) == 0);
	free(n);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct st_option options[] = {{"--nodes", &nodes, 1, NODES},
						   {"--per-process", &per_process, 1, NODES},
						   {"--restarts", &restarts, 0, 1000},
						   {0}};
	struct twt_child child[NODES];
	int n = 0;

	st_begin(argc, argv, "stress_nodes", 5, options);
	shared = st_shared(sizeof(*shared));
	for (int first = 0; first < nodes; first += (int)per_process)
		twt_spawn(&child[n++], run_process, &first);
	st_join(child, n);
	st_done("%ld nodes, %ld in a process, %llu messages, %llu packets, %llu scalars, %llu "
		"cancels, %llu refused",
		nodes, per_process, (unsigned long long)shared->messages,
		(unsigned long long)shared->packets, (unsigned long long)shared->scalars,
		(unsigned long long)shared->cancels, (unsigned long long)shared->refused);
	return 0;
}
