/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MRAPI 4.6.6: events. The job counts them in the segment. A process in which a
 * callback is registered has a thread that sleeps on the counts; another sleeps
 * on what the kernel tells of processors and memory that come and go.
 */
#include <errno.h>
#include <linux/netlink.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fds.h"
#include "base/sys.h"
#include "mrapi/mr.h"

#define KERNEL_GROUP 1 /* uevents as the kernel sends them */

struct registration {
	struct tw_list link;
	mrapi_event_t event;
	uint32_t frequency;
	uint32_t seen; /* of the job's count when last looked at */
	uint32_t due;  /* occurrences since the last call */
	void (*callback)(mrapi_event_t event);
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct tw_list registrations = {&registrations, &registrations};
static pthread_t watcher, listener;
static bool watching, listening;
static _Atomic(bool) stop;
static int kernel = -1, stopfd = -1;

void tw_mr_event(mrapi_event_t event)
{
	struct tw_mr_segment *seg = tw_mr.seg;

	atomic_fetch_add(&seg->event[event], 1);
	atomic_fetch_add(&seg->event_seq, 1);
	tw_futex_wake(&seg->event_seq, INT32_MAX);
}

/* A registration whose callback is due, counted down; under the mutex. */
static struct registration *next_due(void)
{
	struct tw_list *pos, *tmp;

	tw_list_each(&registrations, pos, tmp) {
		struct registration *r = tw_container(pos, struct registration, link);
		uint32_t count = atomic_load(&tw_mr.seg->event[r->event]);

		r->due += count - r->seen;
		r->seen = count;
		if (r->due < r->frequency)
			continue;
		r->due -= r->frequency;
		return r;
	}
	return NULL;
}

static void call_back(void)
{
	struct registration *r;

	pthread_mutex_lock(&mutex);
	while (!atomic_load(&stop) && (r = next_due())) {
		void (*callback)(mrapi_event_t) = r->callback;
		mrapi_event_t event = r->event;

		pthread_mutex_unlock(&mutex);
		callback(event);
		pthread_mutex_lock(&mutex);
	}
	pthread_mutex_unlock(&mutex);
}

static void *watch(void *unused)
{
	(void)unused;
	while (!atomic_load(&stop)) {
		uint32_t seq = atomic_load(&tw_mr.seg->event_seq);

		call_back();
		if (!atomic_load(&stop))
			tw_futex_wait(&tw_mr.seg->event_seq, seq, TW_FUTEX_FOREVER);
	}
	return NULL;
}

/* Whether the kernel's message is of a processor or of memory. */
static bool of_resources(const char *text, size_t len)
{
	const char *end = text + len;

	for (; text < end; text += strnlen(text, (size_t)(end - text)) + 1)
		if (!strcmp(text, "SUBSYSTEM=cpu") || !strcmp(text, "SUBSYSTEM=memory"))
			return true;
	return false;
}

static void *listen_to_kernel(void *unused)
{
	struct pollfd p[2] = {{.fd = kernel, .events = POLLIN}, {.fd = stopfd, .events = POLLIN}};
	char text[4096];

	(void)unused;
	while (!atomic_load(&stop)) {
		ssize_t n;

		tw_sys_poll(p, 2, -1);
		n = tw_sys_recv(kernel, text, sizeof(text) - 1, MSG_DONTWAIT);
		if (n <= 0)
			continue;
		text[n] = '\0';
		if (of_resources(text, (size_t)n))
			tw_mr_event(MRAPI_EVENT_RESOURCES_CHANGED);
	}
	return NULL;
}

static bool start(pthread_t *thread, void *(*fn)(void *))
{
	sigset_t all, old;
	int failed;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	failed = pthread_create(thread, NULL, fn, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return !failed;
}

static void close_kernel(void)
{
	tw_fd_close(kernel);
	tw_fd_close(stopfd);
	kernel = stopfd = -1;
}

/* Where the kernel does not tell (a container, perhaps) the event never comes. */
static void start_listening(void)
{
	struct sockaddr_nl sa = {.nl_family = AF_NETLINK, .nl_groups = KERNEL_GROUP};

	kernel = tw_fd_own(
		tw_sys_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_KOBJECT_UEVENT));
	stopfd = tw_fd_own(eventfd(0, EFD_CLOEXEC));
	if (kernel >= 0 && stopfd >= 0 &&
	    tw_sys_bind(kernel, (struct sockaddr *)&sa, sizeof(sa)) == 0)
		listening = start(&listener, listen_to_kernel);
	if (listening)
		return;
	tw_log(TW_LOG_WARN, "mrapi: the kernel does not tell of its resources here");
	close_kernel();
}

static mrapi_status_t add(mrapi_event_t event, unsigned frequency, void (*callback)(mrapi_event_t))
{
	struct registration *r = malloc(sizeof(*r));

	if (!r)
		return MRAPI_ERR_MEM_LIMIT;
	*r = (struct registration){.event = event,
				   .frequency = frequency,
				   .seen = atomic_load(&tw_mr.seg->event[event]),
				   .callback = callback};
	tw_list_add_tail(&registrations, &r->link);
	atomic_store(&stop, false);
	if (event == MRAPI_EVENT_RESOURCES_CHANGED && !listening)
		start_listening();
	if (!watching)
		watching = start(&watcher, watch);
	return watching ? MRAPI_SUCCESS : MRAPI_ERR_MEM_LIMIT;
}

void mrapi_resource_register_callback(mrapi_event_t event, unsigned int frequency,
				      void (*callback_function)(mrapi_event_t event),
				      mrapi_status_t *status)
{
	mrapi_status_t result;

	if (!tw_mr_me()) {
		result = MRAPI_ERR_NODE_NOTINIT;
	} else if (event < MRAPI_EVENT_NODE_JOINED || event > MRAPI_EVENT_RESOURCES_CHANGED) {
		result = MRAPI_ERR_RSRC_INVALID_EVENT;
	} else if (!callback_function) {
		result = MRAPI_ERR_RSRC_INVALID_CALLBACK;
	} else if (frequency == 0) {
		result = MRAPI_ERR_PARAMETER;
	} else {
		pthread_mutex_lock(&mutex);
		result = add(event, frequency, callback_function);
		pthread_mutex_unlock(&mutex);
	}
	tw_mr_tell(status, result);
}

static void end_thread(pthread_t thread)
{
	/* A callback may finalize: its own thread ends when it returns. */
	if (pthread_equal(thread, pthread_self()))
		pthread_detach(thread);
	else
		pthread_join(thread, NULL);
}

/* With the last node of the process. */
void tw_mr_events_stop(void)
{
	uint64_t one = 1;

	atomic_store(&stop, true);
	if (watching) {
		tw_mr_event(0);
		end_thread(watcher);
	}
	if (listening && tw_sys_write(stopfd, &one, sizeof(one)) == sizeof(one))
		end_thread(listener);
	close_kernel();
	watching = listening = false;
	while (!tw_list_empty(&registrations)) {
		struct registration *r = tw_list_first(&registrations, struct registration, link);

		tw_list_del(&r->link);
		free(r);
	}
}

void tw_mr_events_forked(void)
{
	pthread_mutex_init(&mutex, NULL);
	watching = listening = false;
	kernel = stopfd = -1;
	while (!tw_list_empty(&registrations)) {
		struct registration *r = tw_list_first(&registrations, struct registration, link);

		tw_list_del(&r->link);
		free(r);
	}
}
