/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The service thread, one per process. It sleeps until a descriptor of an endpoint is ready
 * (a connect, a doorbell or a hang-up) or a deadline has come; idle.c says what it does then.
 * It never waits for an endpoint's lock: it tries, and tries again later, so that the program
 * need not signal it when it leaves a call. Descriptors are watched one shot at a time.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/fds.h"
#include "base/log.h"
#include "base/sys.h"
#include "base/thread.h"
#include "base/wakefd.h"
#include "engine/engine.h"

#define TAG_STOP UINT64_MAX
#define TAG_TIMER (UINT64_MAX - 1)

static const epoll_data_t stop = {.u64 = TAG_STOP};

static struct {
	pthread_mutex_t mutex; /* users, start and stop */
	unsigned users;
	_Atomic(bool) running;
	pthread_t thread;
	int epfd, timerfd, stopfd;
	pthread_mutex_t timer_mutex;
	uint64_t timer;	      /* tick the timer is set to, 0 not */
	_Atomic(bool) finish; /* an endpoint was left behind: the timer must expire at once */
} service = {.mutex = PTHREAD_MUTEX_INITIALIZER, .timer_mutex = PTHREAD_MUTEX_INITIALIZER};

bool tw_service_running(void)
{
	return atomic_load_explicit(&service.running, memory_order_relaxed);
}

static int service_control(int op, struct tw_slot_entry *s, uint32_t events)
{
	struct epoll_event ev = {.events = events | EPOLLONESHOT,
				 .data.u64 = (uint64_t)(s - tw_slots)};

	return tw_service_running() ? tw_sys_epoll_ctl(service.epfd, op, s->ep->host.epfd, &ev) : 0;
}

enum tw_err tw_service_watch(struct tw_slot_entry *s)
{
	return service_control(EPOLL_CTL_ADD, s, EPOLLIN) < 0 ? TW_ENOMEM : TW_OK;
}

void tw_service_pause(struct tw_slot_entry *s)
{
	service_control(EPOLL_CTL_MOD, s, 0);
}

void tw_service_resume(struct tw_slot_entry *s)
{
	if (tw_has_service(s))
		service_control(EPOLL_CTL_MOD, s, EPOLLIN);
}

/* A check that is about to start sees this under the lock. */
void tw_service_detach(struct tw_slot_entry *s)
{
	/* It was to wake a sleeping call for the deadline. */
	if (s->ep->host.state == TW_ASLEEP)
		s->ep->events++;
	atomic_store_explicit(&s->alone, true, memory_order_relaxed);
	atomic_store_explicit(&s->next_check, 0, memory_order_relaxed);
	tw_service_pause(s);
}

void tw_service_attach(struct tw_slot_entry *s)
{
	uint64_t deadline = tw_deadline(s->ep);

	atomic_store_explicit(&s->alone, false, memory_order_relaxed);
	if (s->ep->host.state != TW_ASLEEP)
		tw_service_resume(s);
	if (deadline)
		tw_service_wake(s, deadline);
}

/* 0: at once. Async-signal-safe. */
static void set_timer(uint64_t when)
{
	uint64_t now = tw_clock();
	uint64_t ns = when <= now ? 1 : (when - now) * 1000 / tw_clock_per_us + 1;

	tw_sys_timer_set(service.timerfd, ns);
}

static void set_no_later(uint64_t when)
{
	if (!when)
		return;
	tw_mutex_lock(&service.timer_mutex);
	if (!service.timer || when < service.timer) {
		service.timer = when;
		set_timer(when);
		/* [left-behind] */
		if (atomic_load(&service.finish))
			set_timer(0);
	}
	tw_mutex_unlock(&service.timer_mutex);
}

void tw_service_wake(struct tw_slot_entry *s, uint64_t when)
{
	if (tw_has_service(s))
		set_no_later(when);
}

void tw_service_finish(struct tw_slot_entry *s)
{
	atomic_store(&s->next_check, 0);
	/* [left-behind] Without the mutex, which the interrupted thread may hold. */
	atomic_store(&service.finish, true);
	if (tw_service_running())
		set_timer(0);
}

static void timer_ready(void)
{
	uint64_t count, now;

	if (tw_sys_read(service.timerfd, &count, sizeof(count)) < 0 && errno == EAGAIN)
		return;
	tw_mutex_lock(&service.timer_mutex);
	service.timer = 0;
	tw_mutex_unlock(&service.timer_mutex);
	/*
	 * [left-behind] Reads it, too: either the endpoint is found below, or set_no_later() sees
	 * this again.
	 */
	atomic_exchange(&service.finish, false);
	now = tw_clock();
	for (unsigned i = 0; i < tw_slots_used(); i++)
		set_no_later(tw_idle_due(&tw_slots[i], now));
}

/* Set in the service thread if it has ended the last endpoint itself. */
static _Thread_local bool over;

static void *engine_service_run(void *arg)
{
	struct epoll_event ev[16];

	(void)arg;
	for (;;) {
		int n = tw_sys_epoll_wait(service.epfd, ev, tw_countof(ev), -1);

		/* The program has closed our descriptors. */
		if (n < 0 && errno != EINTR)
			return NULL;
		for (int i = 0; i < n; i++) {
			if (ev[i].data.u64 == TAG_STOP)
				return NULL;
			if (ev[i].data.u64 == TAG_TIMER)
				timer_ready();
			else
				set_no_later(tw_idle_check(&tw_slots[ev[i].data.u64], true));
			if (over)
				return NULL;
		}
	}
}

static void engine_service_close_all(void)
{
	tw_fd_close(service.epfd);
	tw_fd_close(service.timerfd);
	tw_fd_close(service.stopfd);
}

static enum tw_err service_start(void)
{
	struct epoll_event timer = {.events = EPOLLIN, .data.u64 = TAG_TIMER};

	service.timer = 0;
	service.epfd = tw_fd_own(tw_sys_epoll_create());
	service.timerfd = tw_fd_own(tw_sys_timer());
	service.stopfd = tw_wakefd_open(service.epfd, stop);
	if (service.timerfd < 0 || service.stopfd < 0 ||
	    tw_sys_epoll_ctl(service.epfd, EPOLL_CTL_ADD, service.timerfd, &timer) < 0) {
		tw_log_refused("epoll_create1, timerfd_create, eventfd");
		engine_service_close_all();
		return TW_ENOMEM;
	}
	if (tw_thread_start(&service.thread, engine_service_run, NULL, "tagwire") != 0) {
		engine_service_close_all();
		return TW_ENOMEM;
	}
	atomic_store_explicit(&service.running, true, memory_order_relaxed);
	return TW_OK;
}

enum tw_err tw_service_get(void)
{
	enum tw_err err = TW_OK;

	if (!tw_settings.service || tw_settings.single_threaded)
		return TW_OK;
	tw_mutex_lock(&service.mutex);
	if (service.users == 0)
		err = service_start();
	if (err == TW_OK)
		service.users++;
	tw_mutex_unlock(&service.mutex);
	return err;
}

void tw_service_put(void)
{
	tw_mutex_lock(&service.mutex);
	if (service.users && --service.users == 0) {
		over = pthread_equal(service.thread, pthread_self());
		/* It sleeps for ever if the program has closed the library's descriptors. */
		if (over || !tw_wakefd_raise(service.epfd, service.stopfd, stop))
			pthread_detach(service.thread);
		else
			pthread_join(service.thread, NULL);
		atomic_store_explicit(&service.running, false, memory_order_relaxed);
		engine_service_close_all();
	}
	tw_mutex_unlock(&service.mutex);
}

void tw_service_forked(void)
{
	pthread_mutex_init(&service.mutex, NULL);
	pthread_mutex_init(&service.timer_mutex, NULL);
	atomic_store_explicit(&service.running, false, memory_order_relaxed);
	service.users = 0;
}
