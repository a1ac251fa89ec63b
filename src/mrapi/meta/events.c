/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MRAPI 4.6.6: events and all other callbacks. The job counts events in the segment. A
 * process with registered callbacks has a thread that sleeps on these counts, with a
 * timeout for the next possible rollover of a dynamic attribute. The member's thread reads
 * kernel events about processors and memory (service.c).
 *
 * A callback runs for the node that registered it. None starts once the node's finalize
 * has begun.
 */
#include <linux/netlink.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/fds.h"
#include "base/sys.h"
#include "base/thread.h"
#include "mrapi/mrapi_internal.h"

#define KERNEL_GROUP 1 /* uevents in the kernel's format */

struct registration {
	struct tw_list link;
	struct tw_mrapi_owner owner;
	mrapi_event_t event;
	uint32_t frequency;
	uint32_t seen; /* the job's count when last read */
	uint32_t due;  /* occurrences since the last call */
	void (*callback)(mrapi_event_t event);
};

/* The callback thread. A process that joins again gets a new one. */
struct watcher {
	pthread_t thread;
	bool stop, left; /* detached: frees this itself */
};

/* Also of the trees and counters (rsrc.c). */
pthread_mutex_t tw_mrapi_meta_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t returned = PTHREAD_COND_INITIALIZER;
static struct tw_list registrations = {&registrations, &registrations};
static struct watcher *watcher;
static struct tw_mrapi_owner calling; /* node whose callback runs */
static struct watcher *caller;	      /* its thread, or NULL */
static bool listening; /* to the kernel */

void tw_mrapi_events_wake(void)
{
	/* [events] */
	atomic_fetch_add(&tw_mrapi.seg->event_seq, 1);
	tw_futex_wake(&tw_mrapi.seg->event_seq, INT32_MAX);
}

void tw_mrapi_event(mrapi_event_t event)
{
	/* [events] */
	atomic_fetch_add(&tw_mrapi.seg->event[event], 1);
	tw_mrapi_events_wake();
}

/* Counts down the registrations; returns one that is due. Under the mutex. */
static struct registration *next_due(void)
{
	tw_list_walk(&registrations, struct registration, r, link) {
		/* [events] */
		uint32_t count = atomic_load(&tw_mrapi.seg->event[r->event]);

		r->due += count - r->seen;
		r->seen = count;
		if (r->due < r->frequency)
			continue;
		r->due -= r->frequency;
		return r;
	}
	return NULL;
}

/* Runs one callback without the mutex. */
static void event_call(struct watcher *w, struct tw_mrapi_owner owner,
		       void (*on_event)(mrapi_event_t), mrapi_event_t event, void (*rollover)(void))
{
	caller = w;
	calling = owner;
	tw_mrapi_unlock(&tw_mrapi_meta_mutex);
	tw_mrapi_act_for(owner);
	if (on_event)
		on_event(event);
	else
		rollover();
	tw_mrapi_act_for((struct tw_mrapi_owner){0});
	tw_mrapi_lock(&tw_mrapi_meta_mutex);
	caller = NULL;
	pthread_cond_broadcast(&returned);
}

/* Runs all callbacks that are due; returns the time of the next. Under the mutex. */
static uint64_t call_back(struct watcher *w)
{
	uint64_t deadline = TW_FUTEX_FOREVER;

	while (!w->stop) {
		struct tw_mrapi_owner owner;
		struct registration *r;
		void (*rollover)(void);

		/* A stopped thread may still run: one callback at a time. */
		if (caller) {
			pthread_cond_wait(&returned, &tw_mrapi_meta_mutex);
			continue;
		}
		deadline = TW_FUTEX_FOREVER;
		r = next_due();
		if (r)
			event_call(w, r->owner, r->callback, r->event, NULL);
		else if (tw_mrapi_counters_due(&owner, &rollover, &deadline))
			event_call(w, owner, NULL, 0, rollover);
		else
			break;
	}
	return deadline;
}

static void *event_watch(void *arg)
{
	struct watcher *w = arg;

	tw_mrapi_lock(&tw_mrapi_meta_mutex);
	while (!w->stop) {
		/* [events] */
		uint32_t seq = atomic_load(&tw_mrapi.seg->event_seq);
		uint64_t deadline = call_back(w);

		if (w->stop)
			break;
		tw_mrapi_unlock(&tw_mrapi_meta_mutex);
		tw_futex_wait(&tw_mrapi.seg->event_seq, seq, deadline);
		tw_mrapi_lock(&tw_mrapi_meta_mutex);
	}
	tw_mrapi_unlock(&tw_mrapi_meta_mutex);
	if (w->left)
		free(w);
	return NULL;
}

/* Whether the event is about a processor or memory. */
static bool of_resources(const char *text, size_t len)
{
	const char *end = text + len;

	for (; text < end; text += strnlen(text, (size_t)(end - text)) + 1)
		if (!strcmp(text, "SUBSYSTEM=cpu") || !strcmp(text, "SUBSYSTEM=memory"))
			return true;
	return false;
}

void tw_mrapi_events_receive(int kernel)
{
	char text[4096];
	ssize_t n = tw_sys_recv(kernel, text, sizeof(text) - 1, MSG_DONTWAIT);

	if (n <= 0)
		return;
	text[n] = '\0';
	if (of_resources(text, (size_t)n))
		tw_mrapi_event(MRAPI_EVENT_RESOURCES_CHANGED);
}

/* Without access to kernel events (in some containers) these never occur. */
static void start_listening(void)
{
	struct sockaddr_nl sa = {.nl_family = AF_NETLINK, .nl_groups = KERNEL_GROUP};

	int kernel = tw_fd_own(
		tw_sys_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_KOBJECT_UEVENT));

	listening = kernel >= 0 && tw_sys_bind(kernel, (struct sockaddr *)&sa, sizeof(sa)) == 0 &&
		    tw_mrapi_service_kernel(kernel);
	if (listening)
		return;
	tw_log(TW_LOG_WARN, "mrapi: cannot receive events of the kernel");
	tw_fd_close(kernel);
}

bool tw_mrapi_events_watch(void)
{
	if (watcher)
		return true;
	watcher = calloc(1, sizeof(*watcher));
	if (watcher && !tw_thread_start(&watcher->thread, event_watch, watcher, "tagwire-calls"))
		return true;
	free(watcher);
	watcher = NULL;
	return false;
}

static mrapi_status_t event_add(uint32_t me, mrapi_event_t event, unsigned frequency,
				void (*callback)(mrapi_event_t))
{
	struct registration *r;

	/* Not after the registrations of the node have been removed. */
	if (tw_mrapi_me() != me)
		return MRAPI_ERR_NODE_NOTINIT;
	r = malloc(sizeof(*r));
	if (!r || !tw_mrapi_events_watch()) {
		free(r);
		return MRAPI_ERR_MEM_LIMIT;
	}
	*r = (struct registration){.owner = tw_mrapi_owner(me),
				   .event = event,
				   .frequency = frequency,
				   .seen = atomic_load(&tw_mrapi.seg->event[event]),
				   .callback = callback};
	tw_list_add_tail(&registrations, &r->link);
	if (event == MRAPI_EVENT_RESOURCES_CHANGED && !listening)
		start_listening();
	return MRAPI_SUCCESS;
}

void mrapi_resource_register_callback(mrapi_event_t event, unsigned int frequency,
				      void (*callback_function)(mrapi_event_t event),
				      mrapi_status_t *status)
{
	uint32_t me = tw_mrapi_me();
	mrapi_status_t result = MRAPI_SUCCESS;

	if (!me)
		result = MRAPI_ERR_NODE_NOTINIT;
	else if (event < MRAPI_EVENT_NODE_JOINED || event > MRAPI_EVENT_RESOURCES_CHANGED)
		result = MRAPI_ERR_RSRC_INVALID_EVENT;
	else if (!callback_function)
		result = MRAPI_ERR_RSRC_INVALID_CALLBACK;
	else if (frequency == 0)
		result = MRAPI_ERR_PARAMETER;
	else
		result = tw_mrapi_locked(&tw_mrapi_meta_mutex,
					 event_add(me, event, frequency, callback_function));
	tw_mrapi_set_status(status, result);
}

void tw_mrapi_events_end(uint32_t me)
{
	tw_mrapi_lock(&tw_mrapi_meta_mutex);
	tw_list_walk(&registrations, struct registration, r, link) {
		if (me && r->owner.me != me)
			continue;
		tw_list_del(&r->link);
		free(r);
	}
	tw_mrapi_trees_end(me);
	tw_mrapi_counters_end(me);
	tw_mrapi_unlock(&tw_mrapi_meta_mutex);
}

void tw_mrapi_events_quiet(struct tw_mrapi_owner owner)
{
	tw_mrapi_lock(&tw_mrapi_meta_mutex);
	while (caller && calling.me == owner.me && calling.born == owner.born &&
	       calling.join == owner.join && !pthread_equal(caller->thread, pthread_self()))
		pthread_cond_wait(&returned, &tw_mrapi_meta_mutex);
	tw_mrapi_unlock(&tw_mrapi_meta_mutex);
}

/* For the last node of the process. */
void tw_mrapi_events_stop(void)
{
	struct watcher *w;

	tw_mrapi_lock(&tw_mrapi_meta_mutex);
	w = watcher;
	watcher = NULL;
	listening = false;
	if (w) {
		w->stop = true;
		/* It may wait for the callback of an earlier one, amid which we may be. */
		pthread_cond_broadcast(&returned);
		/* The caller may be this thread, or one that it waits for: it ends on its own. */
		w->left = caller == w;
		if (w->left) {
			pthread_detach(w->thread);
			w = NULL;
		}
	}
	tw_mrapi_unlock(&tw_mrapi_meta_mutex);
	if (!w)
		return;
	tw_mrapi_events_wake();
	pthread_join(w->thread, NULL);
	free(w);
}

void tw_mrapi_events_forked(void)
{
	pthread_mutex_init(&tw_mrapi_meta_mutex, NULL);
	pthread_cond_init(&returned, NULL);
	/* A fork within a callback returns into this thread, in a process that has no callbacks. */
	if (watcher)
		watcher->stop = true;
	watcher = caller = NULL;
	listening = false;
	tw_mrapi_events_end(0);
}
