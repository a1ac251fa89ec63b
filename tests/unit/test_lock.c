/* SPDX-License-Identifier: BSD-2-Clause */
/* The biased lock: who is inside is alone, wherever the bias is. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "base/clock.h"
#include "base/lock.h"
#include "lib/twt.h"

/* The lock and what it protects; plain words, so that a second one inside shows. */
static struct tw_lock lock;
static uint64_t counter, twin;
static unsigned intruders;

static void begin(void)
{
	tw_lock_init(&lock, false);
}

TestSuite(lock, .init = begin, .timeout = TWT_TIMEOUT);

static void inside(void)
{
	volatile uint64_t *a = &counter, *b = &twin;
	uint64_t was = *a;

	if (*b != was)
		intruders++;
	*a = was + 1;
	tw_barrier_compiler();
	if (*a != was + 1)
		intruders++;
	*b = was + 1;
}

static uintptr_t favoured(void)
{
	return atomic_load(&lock.owner) & ~(uintptr_t)7;
}

static void enter_and_leave(void)
{
	tw_lock(&lock);
	inside();
	tw_unlock(&lock);
}

/* Threads that live until the end: a dead one's identity may come again. */
struct hand {
	pthread_t thread;
	void (*job)(void);
	pthread_barrier_t go, done;
	uintptr_t id;
	bool quit;
};

static void *hand_main(void *arg)
{
	struct hand *h = arg;

	h->id = tw_thread_id();
	for (;;) {
		pthread_barrier_wait(&h->go);
		if (h->quit)
			return NULL;
		h->job();
		pthread_barrier_wait(&h->done);
	}
}

static void hire(struct hand *h)
{
	h->quit = false;
	pthread_barrier_init(&h->go, NULL, 2);
	pthread_barrier_init(&h->done, NULL, 2);
	cr_assert_eq(pthread_create(&h->thread, NULL, hand_main, h), 0);
}

static void let(struct hand *h, void (*job)(void))
{
	h->job = job;
	pthread_barrier_wait(&h->go);
	pthread_barrier_wait(&h->done);
}

static void dismiss(struct hand *h)
{
	h->quit = true;
	pthread_barrier_wait(&h->go);
	pthread_join(h->thread, NULL);
}

/* Without membarrier it is an ordinary lock from the start. */
static unsigned biases(void)
{
	return tw_barrier_private() && !TW_TSAN ? TW_LOCK_BIASES : 0;
}

Test(lock, bias_moves_and_ends)
{
	struct hand h[TW_LOCK_BIASES + 2];

	for (unsigned i = 0; i < tw_countof(h); i++) {
		hire(&h[i]);
		for (unsigned k = 0; k < 3; k++) {
			let(&h[i], enter_and_leave);
			cr_assert_eq(favoured(), i < biases() ? h[i].id : 0);
			cr_assert_eq(lock.biases, biases() ? tw_min(i + 1, biases()) : 4);
		}
	}
	/* Nobody gets it back. */
	for (unsigned i = 0; i < tw_countof(h); i++) {
		let(&h[i], enter_and_leave);
		cr_assert_eq(favoured(), 0u);
	}
	cr_assert_eq(counter, tw_countof(h) * 4);
	cr_assert_eq(intruders, 0u);
	for (unsigned i = 0; i < tw_countof(h); i++)
		dismiss(&h[i]);
}

Test(lock, favoured_thread_needs_no_mutex)
{
	enter_and_leave();
	for (int i = 0; i < 10; i++) {
		tw_lock(&lock);
		cr_assert_eq(lock.by_mutex, biases() == 0);
		tw_unlock(&lock);
	}
	cr_assert_eq(favoured(), biases() ? tw_thread_id() : 0);
}

static _Atomic(int) tried;

static void try_once(void)
{
	atomic_store(&tried, tw_lock_try(&lock));
	if (!atomic_load(&tried))
		return;
	inside();
	tw_unlock(&lock);
}

Test(lock, try_leaves_the_bias)
{
	struct hand service;

	hire(&service);
	enter_and_leave();
	for (int i = 0; i < 100; i++) {
		let(&service, try_once);
		cr_assert(atomic_load(&tried), "nobody is inside");
		cr_assert_eq(favoured(), biases() ? tw_thread_id() : 0);
		tw_lock(&lock);
		cr_assert_eq(lock.by_mutex, biases() == 0);
		let(&service, try_once);
		cr_assert_not(atomic_load(&tried), "somebody is inside");
		cr_assert_eq(favoured(), biases() ? tw_thread_id() : 0);
		inside();
		tw_unlock(&lock);
	}
	cr_assert_leq(lock.biases, biases() ? 1u : TW_LOCK_BIASES);
	cr_assert_eq(counter, 201u);
	cr_assert_eq(intruders, 0u);
	dismiss(&service);
}

/* In by the mutex, not by the bias: out of reach all the same. */
Test(lock, try_against_the_mutex)
{
	struct hand service;

	hire(&service);
	for (unsigned i = 0; i < 3; i++) {
		tw_lock(&lock);
		cr_assert_eq(lock.by_mutex, i == 0 || biases() == 0);
		let(&service, try_once);
		cr_assert_not(atomic_load(&tried));
		tw_unlock(&lock);
	}
	cr_assert(tw_lock_try(&lock));
	let(&service, try_once);
	cr_assert_not(atomic_load(&tried));
	tw_unlock(&lock);
	let(&service, try_once);
	cr_assert(atomic_load(&tried));
	dismiss(&service);
}

static void *enter_thread(void *arg)
{
	(void)arg;
	enter_and_leave();
	return NULL;
}

Test(lock, a_waiter_is_seen)
{
	double end = twt_now() + TWT_LONG;
	pthread_t t;

	enter_and_leave();
	tw_lock(&lock);
	cr_assert_not(tw_lock_contended(&lock));
	cr_assert_eq(pthread_create(&t, NULL, enter_thread, NULL), 0);
	/* It waits for us in the mutex or, having that, for our flag. */
	while ((!tw_lock_contended(&lock) || favoured() == tw_thread_id()) && twt_now() < end)
		sched_yield();
	cr_assert(tw_lock_contended(&lock));
	cr_assert_eq(counter, 1u);
	tw_unlock(&lock);
	pthread_join(t, NULL);
	cr_assert_eq(counter, 2u);
	cr_assert_not(tw_lock_contended(&lock));
}

Test(lock, single)
{
	pthread_t t;

	tw_lock_init(&lock, true);
	for (int i = 0; i < 1000; i++)
		enter_and_leave();
	cr_assert_eq(counter, 1000u);
	/* The fast way in is open, whatever the system offers. */
	cr_assert_eq(favoured(), tw_thread_id());
	cr_assert_eq(lock.biases, biases() ? 0u : TW_LOCK_BIASES);
	/* One thread after the other, as often as they like. */
	for (int i = 0; i < 2 * TW_LOCK_BIASES; i++) {
		cr_assert_eq(pthread_create(&t, NULL, enter_thread, NULL), 0);
		pthread_join(t, NULL);
		cr_assert_neq(favoured(), tw_thread_id());
		enter_and_leave();
		cr_assert_eq(favoured(), tw_thread_id());
	}
	/* It does not lock: nothing to wait for. */
	tw_lock(&lock);
	tw_lock(&lock);
	tw_unlock(&lock);
	tw_unlock(&lock);
	cr_assert(tw_lock_try(&lock));
	tw_unlock(&lock);
	enter_and_leave();
}

#define THREADS 4
#define TIMES 100000u

static void *enter_often(void *arg)
{
	unsigned times = *(unsigned *)arg;

	while (times--)
		enter_and_leave();
	return NULL;
}

static void run(pthread_t t[THREADS], unsigned *times)
{
	for (int i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&t[i], NULL, enter_often, times), 0);
}

static void join(pthread_t t[THREADS])
{
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
}

Test(lock, threads)
{
	unsigned times = TIMES;
	pthread_t t[THREADS];

	run(t, &times);
	join(t);
	cr_assert_eq(intruders, 0u);
	cr_assert_eq(counter, (uint64_t)THREADS * TIMES);
	cr_assert_eq(twin, counter);
	cr_assert_eq(lock.waiters, 0);
}

static _Atomic(int) ready;

static void *enter_together(void *arg)
{
	atomic_fetch_add(&ready, 1);
	while (atomic_load(&ready) < THREADS)
		sched_yield();
	return enter_often(arg);
}

/* The bias moves only a few times in the life of a lock: many short lives. */
Test(lock, short_lives)
{
	unsigned times = 200, rounds = 1500;

	for (unsigned i = 0; i < rounds; i++) {
		pthread_t t[THREADS];

		tw_lock_init(&lock, false);
		atomic_store(&ready, 0);
		for (int k = 0; k < THREADS; k++)
			cr_assert_eq(pthread_create(&t[k], NULL, enter_together, &times), 0);
		join(t);
		cr_assert_eq(intruders, 0u);
		cr_assert_eq(lock.waiters, 0);
		pthread_mutex_destroy(&lock.mutex);
	}
	cr_assert_eq(counter, (uint64_t)THREADS * times * rounds);
}

static _Atomic(bool) over;

/* As the service thread does: looks in, and comes again if somebody is inside. */
static void *look_in(void *arg)
{
	uint64_t *got = arg;

	while (!atomic_load(&over)) {
		if (tw_lock_try(&lock)) {
			inside();
			tw_unlock(&lock);
			++*got;
		}
		if (*got % 8 == 0)
			sched_yield();
	}
	return NULL;
}

/* The favoured thread enters and leaves while its bias is taken and given back. */
Test(lock, try_beside_the_favoured_thread)
{
	uint64_t got = 0, mine = 0;
	pthread_t t;

	enter_and_leave();
	cr_assert_eq(pthread_create(&t, NULL, look_in, &got), 0);
	for (double end = twt_now() + 2; mine < 1000 || twt_now() < end; mine++) {
		for (int i = 0; i < 100; i++)
			enter_and_leave();
	}
	atomic_store(&over, true);
	pthread_join(t, NULL);
	cr_assert_eq(intruders, 0u);
	cr_assert_eq(counter, 1 + 100 * mine + got);
	cr_assert_eq(twin, counter);
	cr_assert_eq(favoured(), biases() ? tw_thread_id() : 0);
	cr_assert(tw_lock_try(&lock));
	tw_unlock(&lock);
}

Test(lock, try_beside_many)
{
	unsigned times = TIMES / 4;
	uint64_t got = 0;
	pthread_t t[THREADS], service;

	cr_assert_eq(pthread_create(&service, NULL, look_in, &got), 0);
	for (int round = 0; round < 4; round++) {
		run(t, &times);
		join(t);
	}
	atomic_store(&over, true);
	pthread_join(service, NULL);
	cr_assert_eq(intruders, 0u);
	cr_assert_eq(counter, (uint64_t)THREADS * TIMES / 4 * 4 + got);
}

/* A thread that nobody runs beside is inside, and another one of a higher priority wants the lock. */
static _Atomic(int) is_inside;

static void one_processor(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((size_t)sched_getcpu(), &one);
	cr_assert_eq(sched_setaffinity(0, sizeof(one), &one), 0);
}

static double thread_cpu(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *works_inside(void *arg)
{
	double end;

	(void)arg;
	tw_lock(&lock); /* the bias is this thread's now */
	tw_unlock(&lock);
	tw_lock(&lock);
	atomic_store(&is_inside, 1);
	/* Work that takes longer than a waiter may spin. */
	for (end = thread_cpu() + 0.05; thread_cpu() < end;)
		;
	tw_unlock(&lock);
	return NULL;
}

Test(lock, lets_a_lower_priority_run)
{
	struct sched_param high = {.sched_priority = 1};
	pthread_t low;
	double cpu;

	tw_clock_init();
	one_processor();
	cr_assert_eq(pthread_create(&low, NULL, works_inside, NULL), 0);
	while (!atomic_load(&is_inside))
		sched_yield();
	if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &high) != 0)
		cr_skip("no right to a real-time priority");
	cpu = thread_cpu();
	tw_lock(&lock);
	cpu = thread_cpu() - cpu;
	tw_unlock(&lock);
	high.sched_priority = 0;
	pthread_setschedparam(pthread_self(), SCHED_OTHER, &high);
	pthread_join(low, NULL);
	/* The system takes the processor from one that spins only after most of a second. */
	cr_assert_lt(cpu, 0.3);
}
