/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What Criterion suites share: checks that work in threads and child processes
 * too, and threads that are seen to sleep.
 */
#ifndef TWC_H
#define TWC_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "lib/twt.h"

#define TWC_LONG TWT_LONG

/* The fixture of every suite: tests that run beside each other cannot meet. */
void twc_job(void);

/*
 * A failed check ends the test. Criterion's asserts may be used only by the
 * test's own thread; these may be used by any thread and any child.
 */
void twc_fail(const char *file, int line, const char *format, ...)
	__attribute__((noreturn, format(printf, 3, 4)));
#define twc_check(cond) ((cond) ? (void)0 : twc_fail(__FILE__, __LINE__, "%s", #cond))
#define twc_eq(got, want) twc_eq_at(__FILE__, __LINE__, #got, (int64_t)(got), (int64_t)(want))
void twc_eq_at(const char *file, int line, const char *what, int64_t got, int64_t want);

/* One byte from process to process. */
void twc_tell(int fd);
void twc_hear(int fd);

void twc_sleep(unsigned ms);

/* Bytes that this process has of malloc. */
size_t twc_allocated(void);
/* Fails unless what it has more than before is freed, after the second of rest that it takes. */
void twc_given_back(size_t before, void (*progress)(void *arg), void *arg);

struct twc_thread {
	pthread_t id;
	void (*fn)(void *arg);
	void *arg;
	atomic_int tid, done;
};
void twc_start(struct twc_thread *t, void (*fn)(void *arg), void *arg);
void twc_join(struct twc_thread *t);
/* Waits until the thread sleeps and stays asleep. */
void twc_asleep(struct twc_thread *t);
/* The same for any thread or process, by its number; done tells that it came back. */
void twc_asleep_tid(atomic_int *tid, atomic_int *done);

#endif /* TWC_H */
