/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The service thread, one per process. It sleeps until a descriptor of an endpoint is ready
 * (a connect, a doorbell or a hang-up) or a timer expires, and then makes progress as a
 * call of the program would. It never waits for an endpoint's lock: it tries, and tries
 * again later, so that the program need not signal it when it leaves a call. Descriptors
 * are watched one shot at a time.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/fds.h"
#include "base/log.h"
#include "base/sys.h"
#include "engine/engine.h"

#define RETRY_US 50	    /* first delay after the lock was busy */
#define RETRY_MAX_US 4000   /* longest delay while the program keeps polling, */
#define LATE_MAX_US 32000   /* longest where wake-ups are slow: */
#define LATE_TIMES 64	    /* this many times the wake-up latency */
#define BUSY_MAX_US 800	    /* longest delay while the program stays inside */
#define SHIFT_US 100	    /* longest background progress without a break */
#define LINGER_US 20	    /* idle time before an endpoint is left */
#define SEEN_US 2	    /* a polling peer has seen a packet by then */
#define SOON_US 100000	    /* a timer later than this does not count as due */
#define LEFT_MAX_US 1000000 /* longest delay for an endpoint that was left behind */
#define IDLE_CHECKS 4	    /* idle checks before checking ends */
#define SLICE_NS 100000	    /* the shortest slice that Linux grants */
#define TAG_STOP UINT64_MAX
#define TAG_TIMER (UINT64_MAX - 1)

static struct {
	pthread_mutex_t mutex; /* users, start and stop */
	unsigned users;
	_Atomic(bool) running;
	pthread_t thread;
	int epfd, timerfd, stopfd;
	pthread_mutex_t timer_mutex;
	uint64_t timer; /* tick the timer is set to, 0 not */
	uint64_t late;	/* wake-up latency in ticks, see note_latency() */
} service = {.mutex = PTHREAD_MUTEX_INITIALIZER, .timer_mutex = PTHREAD_MUTEX_INITIALIZER};

bool tw_service_running(void)
{
	return atomic_load_explicit(&service.running, memory_order_relaxed);
}

static void rearm(struct tw_slot_entry *s, uint32_t events)
{
	struct epoll_event ev = {.events = events | EPOLLONESHOT,
				 .data.u64 = (uint64_t)(s - tw_slots)};

	epoll_ctl(service.epfd, EPOLL_CTL_MOD, s->ep->epfd, &ev);
}

enum tw_err tw_service_watch(struct tw_slot_entry *s, int epfd)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLONESHOT,
				 .data.u64 = (uint64_t)(s - tw_slots)};

	if (!tw_service_running())
		return TW_OK;
	return epoll_ctl(service.epfd, EPOLL_CTL_ADD, epfd, &ev) < 0 ? TW_ENOMEM : TW_OK;
}

void tw_service_pause(struct tw_slot_entry *s)
{
	if (tw_service_running())
		rearm(s, 0);
}

void tw_service_resume(struct tw_slot_entry *s)
{
	if (tw_has_service(s))
		rearm(s, EPOLLIN);
}

/* A check that is about to start sees this under the lock. */
void tw_service_leave(struct tw_slot_entry *s)
{
	atomic_store_explicit(&s->alone, true, memory_order_relaxed);
	atomic_store_explicit(&s->next_check, 0, memory_order_relaxed);
	tw_service_pause(s);
}

void tw_service_return(struct tw_slot_entry *s)
{
	uint64_t timer = atomic_load_explicit(&s->timer, memory_order_relaxed);

	atomic_store_explicit(&s->alone, false, memory_order_relaxed);
	if (!s->ep->leader)
		tw_service_resume(s);
	if (timer)
		tw_service_timer(s, timer);
}

static void set_timer(uint64_t when)
{
	uint64_t now = tw_clock();
	uint64_t ns = when <= now ? 1 : (when - now) * 1000 / tw_clock_per_us + 1;
	struct itimerspec t = {.it_value = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)}};

	timerfd_settime(service.timerfd, 0, &t, NULL);
}

static void saw_polls(struct tw_slot_entry *s)
{
	uint64_t polls = atomic_load_explicit(&s->polls, memory_order_relaxed);

	atomic_store_explicit(&s->seen_polls, polls, memory_order_relaxed);
}

static void set_no_later(uint64_t when)
{
	tw_mutex_lock(&service.timer_mutex);
	if (!service.timer || when < service.timer) {
		service.timer = when;
		set_timer(when);
	}
	tw_mutex_unlock(&service.timer_mutex);
}

void tw_service_timer(struct tw_slot_entry *s, uint64_t when)
{
	/* progress_background() sets it when it knows what is left. */
	if (!tw_has_service(s) || s->ep->in_background)
		return;
	saw_polls(s);
	set_no_later(when);
}

static void try_later(struct tw_slot_entry *s, uint64_t us)
{
	uint64_t when = tw_clock() + tw_clock_us(us);

	atomic_store_explicit(&s->timer, when, memory_order_relaxed);
	set_no_later(when);
}

/* True if the program has polled since then, apart from the poll that set the timer. */
static bool has_polled(const struct tw_slot_entry *s)
{
	return atomic_load_explicit(&s->polls, memory_order_relaxed) -
		       atomic_load_explicit(&s->seen_polls, memory_order_relaxed) >
	       1;
}

/*
 * Makes progress while the program does not. If only a packet can continue the work, the
 * endpoint is left armed.
 */
static void progress_background(struct tw_ep *ep)
{
	struct tw_slot_entry *s = ep->slot;
	uint64_t timer = atomic_load_explicit(&s->timer, memory_order_relaxed);
	uint64_t start = tw_clock(), last = 0; /* of the last progress */
	unsigned n;

	ep->in_background = true;
	ep->counters[TW_C_TAKEOVER]++;
	tw_poll_events(ep);
	if (timer && timer <= start)
		tw_expire(ep);
	do {
		n = tw_progress(ep);
		if (n)
			last = tw_clock();
		/* The program may share this core and need the lock. */
		if (last && last - start >= tw_clock_us(SHIFT_US))
			break;
		if (n)
			continue;
		/* A packet that is seen at once needs no timer. */
		if (!tw_unfinished(ep) && tw_clock() - last >= tw_clock_us(SEEN_US))
			break;
		if (tw_clock() - last >= tw_clock_us(LINGER_US) && !tw_arm(ep))
			break;
	} while (!tw_lock_contended(&s->lock));
	ep->in_background = false;
	if (atomic_load_explicit(&s->timer, memory_order_relaxed) != timer)
		tw_expire(ep);
	/* The program needs the lock: its next poll, or this thread later, continues. */
	if (!ep->armed && (n || tw_unfinished(ep)))
		tw_progress_request(ep);
	saw_polls(s);
}

static void check(struct tw_slot_entry *s)
{
	if (!atomic_load_explicit(&s->handle, memory_order_acquire) || !tw_has_service(s))
		return;
	if (!tw_lock_try(&s->lock)) {
		/* The program is inside. If it keeps polling it makes its own progress. */
		atomic_fetch_or(&s->requested, TW_REQUEST_EVENTS);
		/* Back off: it may stay inside a system call for long. */
		s->busy = s->busy ? tw_min(2 * s->busy, (uint64_t)BUSY_MAX_US) : RETRY_US;
		try_later(s, s->busy);
		return;
	}
	s->busy = 0;
	atomic_store_explicit(&s->requested, 0, memory_order_relaxed);
	if (atomic_load_explicit(&s->handle, memory_order_relaxed) && tw_has_service(s)) {
		/* A sleeping caller makes progress itself, but may not know of the timer. */
		if (s->ep->leader) {
			s->ep->events++;
		} else {
			progress_background(s->ep);
			rearm(s, EPOLLIN);
		}
		tw_leave(s->ep);
		return;
	}
	tw_unlock(&s->lock);
}

/* From now on the program sets the timer itself again. */
static uint64_t stop_checks(struct tw_slot_entry *s)
{
	if (atomic_load_explicit(&s->next_check, memory_order_relaxed)) {
		atomic_store_explicit(&s->next_check, 0, memory_order_relaxed);
		tw_barrier_threads();
	}
	return atomic_load_explicit(&s->timer, memory_order_relaxed);
}

/* The program has a request to poll its descriptors, and has not done so yet. */
static bool poll_requested(const struct tw_slot_entry *s)
{
	return atomic_load_explicit(&s->requested, memory_order_relaxed) & TW_REQUEST_EVENTS;
}

/* The longest delay. A check costs the program about as much as a wake-up where cores are few. */
static uint64_t max_delay_us(void)
{
	uint64_t us = LATE_TIMES * service.late / tw_clock_per_us;

	return tw_min(tw_max(us, (uint64_t)RETRY_MAX_US), (uint64_t)LATE_MAX_US);
}

/*
 * A polling program only needs a request: its next poll does what is due. Check again, with
 * exponential back-off (doc/decisions.md, 9). Returns the tick of the next check, or 0.
 */
static uint64_t check_again(struct tw_slot_entry *s, uint64_t now, uint64_t max_us)
{
	uint64_t timer = atomic_load_explicit(&s->timer, memory_order_relaxed);
	bool first = !atomic_load_explicit(&s->next_check, memory_order_relaxed);
	bool soon = timer && timer < now + tw_clock_us(SOON_US);
	uint64_t next;

	/* Not at the first idle check: the program's next message would set a timer again. */
	s->quiet = first || soon || poll_requested(s) ? 0 : s->quiet + 1;
	if (s->quiet == IDLE_CHECKS)
		return stop_checks(s);
	if (timer && timer <= now)
		atomic_fetch_or(&s->requested, TW_REQUEST_TIMER);
	s->backoff = first ? RETRY_US : tw_min(2 * s->backoff, max_us);
	next = now + tw_clock_us(s->backoff);
	atomic_store_explicit(&s->next_check, next, memory_order_relaxed);
	return next;
}

void tw_service_finish(struct tw_slot_entry *s)
{
	struct itimerspec now = {.it_value = {0, 1}};

	atomic_store(&s->next_check, 0);
	/* Not set_timer(): the interrupted thread may hold its mutex. */
	if (tw_service_running())
		timerfd_settime(service.timerfd, 0, &now, NULL);
}

/* An endpoint that was left behind: tries with back-off until no thread is inside. */
static uint64_t finish(struct tw_slot_entry *s, uint64_t now)
{
	uint64_t check_at = atomic_load(&s->next_check);

	if (check_at > now)
		return check_at;
	s->backoff = check_at ? tw_min(2 * s->backoff, (uint64_t)LEFT_MAX_US) : RETRY_US;
	check_at = now + tw_clock_us(s->backoff);
	atomic_store(&s->next_check, check_at);
	return tw_ep_finish(s) ? 0 : check_at;
}

/* Does what is due at an endpoint. Returns the tick of the next check, or 0. */
static uint64_t run_due(struct tw_slot_entry *s, uint64_t now)
{
	uint64_t check_at = atomic_load_explicit(&s->next_check, memory_order_relaxed);
	uint64_t when = check_at ? check_at : atomic_load_explicit(&s->timer, memory_order_relaxed);
	bool polled = has_polled(s);

	if (!tw_has_service(s))
		return 0;
	/* The program may have cleared the timer of try_later() with its own. */
	if (!when && poll_requested(s))
		when = now;
	if (!when || when > now)
		return when;
	atomic_store_explicit(&s->background_asked, false, memory_order_relaxed);
	saw_polls(s);
	if (polled)
		return check_again(s, now, max_delay_us());
	/* The program is inside, or has just been: the lock would be refused. */
	if (tw_lock_inside(&s->lock))
		return check_again(s, now, BUSY_MAX_US);
	stop_checks(s);
	check(s);
	when = atomic_load_explicit(&s->timer, memory_order_relaxed);
	/* A tick in the past is for a sleeping caller, which was woken for it. */
	return when > now ? when : 0;
}

static uint64_t run_timer(struct tw_slot_entry *s, uint64_t now)
{
	if (atomic_load_explicit(&s->left, memory_order_acquire))
		return finish(s, now);
	return run_due(s, now);
}

static void run_timers(void)
{
	uint64_t now = tw_clock(), next = 0;

	for (unsigned i = 0; i < tw_slots_used(); i++) {
		uint64_t when = run_timer(&tw_slots[i], now);

		if (when && (!next || when < next))
			next = when;
	}
	if (next)
		set_no_later(next);
}

/*
 * Estimates the wake-up latency: the minimum, which grows slowly, since another process may
 * have had the processor.
 */
static void note_latency(uint64_t when)
{
	uint64_t late = tw_clock() - when;

	service.late = tw_min(late, service.late + service.late / 8 + 1);
}

static void timer_ready(void)
{
	uint64_t count, when;

	if (tw_sys_read(service.timerfd, &count, sizeof(count)) < 0 && errno == EAGAIN)
		return;
	tw_mutex_lock(&service.timer_mutex);
	when = service.timer;
	service.timer = 0;
	tw_mutex_unlock(&service.timer_mutex);
	if (when && when <= tw_clock())
		note_latency(when);
	run_timers();
}

/*
 * Asks for a short time slice. Otherwise Linux sometimes lets a computing program finish
 * its slice of milliseconds before this thread runs (doc/decisions.md, 10). Linux 6.12 and
 * later; a refusal does no harm.
 */
static void use_short_slices(void)
{
	struct { /* struct sched_attr: C libraries before 2.41 lack it */
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr = {.size = sizeof(attr)};

	_Static_assert(sizeof(attr) == 48, "as the kernel has it");
	if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) < 0 || attr.policy != SCHED_OTHER)
		return;
	attr.runtime = SLICE_NS;
	syscall(SYS_sched_setattr, 0, &attr, 0);
}

/* Set in the service thread if it has ended the last endpoint itself. */
static _Thread_local bool over;

static void *run(void *arg)
{
	struct epoll_event ev[16];

	(void)arg;
	use_short_slices();
	for (;;) {
		int n = epoll_wait(service.epfd, ev, tw_countof(ev), -1);

		for (int i = 0; i < n; i++) {
			if (ev[i].data.u64 == TAG_STOP)
				return NULL;
			if (ev[i].data.u64 == TAG_TIMER)
				timer_ready();
			else
				check(&tw_slots[ev[i].data.u64]);
			if (over)
				return NULL;
		}
	}
}

static void close_all(void)
{
	tw_fd_close(service.epfd);
	tw_fd_close(service.timerfd);
	tw_fd_close(service.stopfd);
}

static enum tw_err start(void)
{
	struct epoll_event stop = {.events = EPOLLIN, .data.u64 = TAG_STOP};
	struct epoll_event timer = {.events = EPOLLIN, .data.u64 = TAG_TIMER};
	sigset_t all, old;
	int failed;

	service.timer = 0;
	service.late = tw_clock_us(RETRY_MAX_US) / LATE_TIMES;
	service.epfd = tw_fd_own(epoll_create1(EPOLL_CLOEXEC));
	service.timerfd = tw_fd_own(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	service.stopfd = tw_fd_own(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (service.epfd < 0 || service.timerfd < 0 || service.stopfd < 0 ||
	    epoll_ctl(service.epfd, EPOLL_CTL_ADD, service.stopfd, &stop) < 0 ||
	    epoll_ctl(service.epfd, EPOLL_CTL_ADD, service.timerfd, &timer) < 0) {
		tw_log_refused("epoll_create1, timerfd_create, eventfd");
		close_all();
		return TW_ENOMEM;
	}
	/* The program's own threads handle its signals. */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	failed = pthread_create(&service.thread, NULL, run, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (failed) {
		close_all();
		return TW_ENOMEM;
	}
	pthread_setname_np(service.thread, "tagwire");
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
		err = start();
	if (err == TW_OK)
		service.users++;
	tw_mutex_unlock(&service.mutex);
	return err;
}

void tw_service_put(void)
{
	uint64_t one = 1;

	tw_mutex_lock(&service.mutex);
	if (service.users && --service.users == 0) {
		over = pthread_equal(service.thread, pthread_self());
		if (over)
			pthread_detach(service.thread);
		else if (tw_sys_write(service.stopfd, &one, sizeof(one)) < 0)
			tw_log(TW_LOG_ERROR, "cannot stop the service thread: error %d", errno);
		if (!over)
			pthread_join(service.thread, NULL);
		atomic_store_explicit(&service.running, false, memory_order_relaxed);
		close_all();
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
