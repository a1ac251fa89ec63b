/* SPDX-License-Identifier: BSD-2-Clause */
/* 4.6.6 Events, and whose callbacks are. */
#include <stdlib.h>

#include "mrapi/mrapit.h"

TestSuite(mrapi_callback, .init = twc_job, .timeout = MR_TIMEOUT);

static atomic_int events[MRAPI_EVENT_RESOURCES_CHANGED + 1], second[8];

static void on_event(mrapi_event_t event)
{
	atomic_fetch_add(&events[event], 1);
}

static void on_every_second(mrapi_event_t event)
{
	atomic_fetch_add(&second[event], 1);
}

static void wait_until(atomic_int *count, int want)
{
	double end = twt_now() + MR_LONG / 1000.;

	while (atomic_load(count) < want && twt_now() < end)
		twc_sleep(1);
	twc_eq(atomic_load(count), want);
}

Test(mrapi_callback, errors)
{
	static const int bad[] = {0, -1, MRAPI_EVENT_RESOURCES_CHANGED + 1, 999};

	mr_up(MR_NODE);
	for (int i = 0; i < 4; i++)
		mr_is(MRAPI_ERR_RSRC_INVALID_EVENT,
		      mrapi_resource_register_callback((mrapi_event_t)bad[i], 1, on_event, &mr_st));
	mr_is(MRAPI_ERR_RSRC_INVALID_CALLBACK,
	      mrapi_resource_register_callback(MRAPI_EVENT_NODE_LEFT, 1, NULL, &mr_st));
	mr_ok(mrapi_resource_register_callback(MRAPI_EVENT_RESOURCES_CHANGED, 1, on_event, &mr_st));
	mr_down();
	for (int i = 0; i <= MRAPI_EVENT_RESOURCES_CHANGED; i++)
		twc_eq(events[i], 0);
}

MR_BOTH(mrapi_callback, each_event)
{
	struct mr_peer p[4];
	int forked = where == MR_PROCESS;

	mr_up(MR_NODE);
	mr_ok(mrapi_resource_register_callback(MRAPI_EVENT_NODE_JOINED, 1, on_event, &mr_st));
	mr_ok(mrapi_resource_register_callback(MRAPI_EVENT_NODE_LEFT, 1, on_event, &mr_st));
	mr_ok(mrapi_resource_register_callback(MRAPI_EVENT_NODE_DIED, 1, on_event, &mr_st));
	/* Every second time. */
	mr_ok(mrapi_resource_register_callback(MRAPI_EVENT_NODE_JOINED, 2, on_every_second,
					       &mr_st));
	for (int i = 0; i < 4; i++) {
		mr_peer(&p[i], where, (mrapi_node_t)i);
		wait_until(&events[MRAPI_EVENT_NODE_JOINED], i + 1);
		wait_until(&second[MRAPI_EVENT_NODE_JOINED], (i + 1) / 2);
	}
	twc_eq(events[MRAPI_EVENT_NODE_LEFT], 0);
	for (int i = forked; i < 4; i++) {
		mr_peer_end(&p[i]);
		wait_until(&events[MRAPI_EVENT_NODE_LEFT], i + 1 - forked);
	}
	if (forked) {
		mr_peer_kill(&p[0]);
		wait_until(&events[MRAPI_EVENT_NODE_DIED], 1);
	}
	twc_eq(events[MRAPI_EVENT_NODE_LEFT], 4 - forked);
	twc_eq(events[MRAPI_EVENT_NODE_DIED], forked);
	twc_eq(events[MRAPI_EVENT_RESOURCES_CHANGED], 0);
	/* Registrations end with the node. */
	mr_down();
	mr_up(MR_NODE);
	twc_sleep(MR_SHORT);
	twc_eq(events[MRAPI_EVENT_NODE_JOINED], 4);
	mr_down();
}

/* A callback may call the library, as one that does not know it would. */
static atomic_int called;

static void get_tree(mrapi_event_t event)
{
	mrapi_resource_t *root = mr_val(mrapi_resources_get(MRAPI_RSRC_CPU, &mr_st));

	(void)event;
	mr_ok(mrapi_resource_tree_free(&root, &mr_st));
	atomic_fetch_add(&called, 1);
}

Test(mrapi_callback, calls_back)
{
	struct mr_peer p;

	mr_up(MR_NODE);
	mr_ok(mrapi_resource_register_callback(MRAPI_EVENT_NODE_JOINED, 1, get_tree, &mr_st));
	mr_peer(&p, MR_THREAD, 1);
	wait_until(&called, 1);
	mr_peer_end(&p);
	mr_down();
}

/* What it has locked with a word ends with its thread, which ends amid the node's finalize. */
static void lock_word(mrapi_event_t event)
{
	static uint32_t word;

	(void)event;
	mr_ok(mrapi_atomic_lock(NULL, &word, NULL, sizeof(word), &mr_st));
	mr_ok(mrapi_atomic_release(NULL, &word, sizeof(word), &mr_st));
	atomic_fetch_add(&called, 1);
}

Test(mrapi_callback, locks_a_word)
{
	struct mr_peer p;

	mr_up(MR_NODE);
	mr_ok(mrapi_resource_register_callback(MRAPI_EVENT_NODE_JOINED, 1, lock_word, &mr_st));
	mr_peer(&p, MR_THREAD, 1);
	wait_until(&called, 1);
	mr_peer_end(&p);
	mr_down();
}

/* A callback belongs to the node that registered it */

static atomic_int of_node[MR_NODE + 1], elsewhere;

static void on_joined(mrapi_event_t event)
{
	mrapi_node_t me = mr_val(mrapi_node_id_get(&mr_st));

	twc_eq(event, MRAPI_EVENT_NODE_JOINED);
	if (me == 1 || me == 2 || me == MR_NODE)
		atomic_fetch_add(&of_node[me], 1);
	else
		atomic_fetch_add(&elsewhere, 1);
}

static void register_joined(void *arg)
{
	(void)arg;
	mr_ok(mrapi_resource_register_callback(MRAPI_EVENT_NODE_JOINED, 1, on_joined, &mr_st));
}

Test(mrapi_callback, of_each_node)
{
	struct mr_peer one, two, p;

	mr_up(MR_NODE);
	mr_peer(&one, MR_THREAD, 1);
	mr_peer(&two, MR_THREAD, 2);
	register_joined(NULL);
	mr_do(&one, register_joined, NULL);
	mr_do(&two, register_joined, NULL);
	mr_peer(&p, MR_THREAD, 3);
	wait_until(&of_node[1], 1);
	wait_until(&of_node[2], 1);
	wait_until(&of_node[MR_NODE], 1);
	/* They end with their node, also with the first of the process, and no others do. */
	mr_peer_end(&one);
	mr_peer_end(&p);
	mr_peer(&p, MR_THREAD, 4);
	wait_until(&of_node[2], 2);
	wait_until(&of_node[MR_NODE], 2);
	mr_down();
	mr_peer_end(&p);
	mr_peer(&p, MR_THREAD, 5);
	wait_until(&of_node[2], 3);
	twc_eq(of_node[1], 1);
	twc_eq(of_node[MR_NODE], 2);
	twc_eq(elsewhere, 0);
	mr_peer_end(&p);
	mr_peer_end(&two);
}

/* One that runs has returned when finalize has. */
static atomic_int entered, returned;

static void take_time(mrapi_event_t event)
{
	(void)event;
	atomic_fetch_add(&entered, 1);
	twc_sleep(5 * MR_SHORT);
	atomic_fetch_add(&returned, 1);
}

static void register_slow(void *arg)
{
	(void)arg;
	mr_ok(mrapi_resource_register_callback(MRAPI_EVENT_NODE_JOINED, 1, take_time, &mr_st));
}

static void finalize_during_call(int others)
{
	struct mr_peer keep, p;

	atomic_store(&entered, 0);
	atomic_store(&returned, 0);
	mr_up(MR_NODE);
	if (others)
		mr_peer(&keep, MR_THREAD, 7);
	register_slow(NULL);
	mr_peer(&p, MR_THREAD, 1);
	wait_until(&entered, 1);
	mr_peer_end(&p);
	mr_down();
	twc_eq(returned, entered);
	if (others)
		mr_peer_end(&keep);
}

Test(mrapi_callback, finalize_waits)
{
	finalize_during_call(0);
	finalize_during_call(1);
	finalize_during_call(0);
}

/* A callback may end its node, the last one of the process, too, and begin another. */
static void end_node_there(mrapi_event_t event)
{
	(void)event;
	mr_down();
	atomic_fetch_add(&called, 1);
}

static void begin_anew(mrapi_event_t event)
{
	(void)event;
	mr_down();
	mr_up(MR_NODE);
	mr_down();
	atomic_fetch_add(&called, 1);
}

/* What the new node would be told of has to wait until this returns; its end has not. */
static void watch_anew(mrapi_event_t event)
{
	struct mr_peer p;

	(void)event;
	mr_down();
	mr_up(MR_NODE);
	mr_ok(mrapi_resource_register_callback(MRAPI_EVENT_NODE_JOINED, 1, on_event, &mr_st));
	mr_peer(&p, MR_THREAD, 5);
	mr_peer_end(&p);
	twc_sleep(MR_SHORT);
	mr_down();
	atomic_fetch_add(&called, 1);
}

static int join_once(void *arg, int fd)
{
	(void)arg;
	twc_hear(fd);
	mr_up(1);
	mr_down();
	return 0;
}

static void ended_by(void (*callback)(mrapi_event_t event))
{
	struct twt_child child;

	atomic_store(&called, 0);
	twt_spawn(&child, join_once, NULL);
	mr_up(MR_NODE);
	mr_ok(mrapi_resource_register_callback(MRAPI_EVENT_NODE_JOINED, 1, callback, &mr_st));
	twc_tell(child.fd);
	wait_until(&called, 1);
	mr_is(MRAPI_ERR_NODE_NOTINIT, mrapi_finalize(&mr_st));
	twc_eq(twt_join(&child, TWC_LONG), 0);
}

Test(mrapi_callback, finalizes)
{
	ended_by(end_node_there);
	ended_by(begin_anew);
	ended_by(watch_anew);
	ended_by(end_node_there);
}
