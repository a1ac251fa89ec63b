/* SPDX-License-Identifier: BSD-2-Clause */
/* What tests share: child processes with a pipe to each, and random numbers. */
#ifndef TWT_H
#define TWT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct twt_child {
	pid_t pid;
	int fd; /* a stream socket to the child */
};

/*
 * Forks a child that runs fn(arg, fd) and exits with what it returns. Call it
 * before mx_init(). Ends the program when the system cannot fork.
 */
void twt_spawn(struct twt_child *child, int (*fn)(void *arg, int fd), void *arg);
/* The same, and the child stays on this side where there are two. */
void twt_spawn_here(struct twt_child *child, int (*fn)(void *arg, int fd), void *arg);

/*
 * Two sides: where TWT_NETNS names a network namespace, children of twt_spawn()
 * are there; where TWT_FAR_BOARD is the number of a board, theirs is that one.
 */
void twt_go(const char *netns);
extern uint32_t twt_board;

/*
 * Namespaces of its own, as unshare(2) names them, in one of users if need be. False where the
 * system refuses that.
 */
bool twt_unshare(int what);

/* How many times slower than others this machine is: TWT_SLOW, or 1. */
unsigned twt_slow(void);
/*
 * A time limit is there to end a hang, and a busy machine is none: each is so many times what
 * an idle one may need. Those of scripts are, too (tests/lib/patience reads it here).
 */
#define TWT_PATIENCE 4
/* The same, and more on a slow machine: what limits are multiplied by. */
unsigned twt_patience(void);
/* Seconds for one test: for Criterion, which wants a constant. */
#define TWT_TIMEOUT (60 * TWT_PATIENCE)
/* Seconds that anything at all may take. */
#define TWT_LONG (20 * (int)twt_patience())

/*
 * Waits for the child at most so many seconds: its exit code, 1000 + signal if
 * it was killed, -1 if it had to be killed because it was late.
 */
int twt_join(struct twt_child *child, int seconds);

/* Whole reads and writes; 0, or -1 at end of file or on an error. */
int twt_put(int fd, const void *buf, size_t len);
int twt_get(int fd, void *buf, size_t len);

/* A repeatable random number; any seed is good. */
uint64_t twt_random(uint64_t *state);

/* A byte pattern that depends on the seed and the position. */
void twt_fill(void *buf, size_t len, uint64_t seed);
/* The first position that differs from the pattern, or len. */
size_t twt_check(const void *buf, size_t len, uint64_t seed);

/* Seconds since some fixed moment. */
double twt_now(void);
/* CPU seconds that this process has used. */
double twt_cpu(void);
/*
 * Seconds that it was let run since the first call, or less: for an upper limit of what a
 * call may take, where others may stop this process or take its processor.
 */
double twt_awake(void);

/*
 * Bytes of memory that a process has: its own, and what it shares with others. Pages of files
 * do not count: the system may take them from a silent process and give them back.
 */
uint64_t twt_memory(pid_t pid);
uint64_t twt_shared_memory(pid_t pid);

/*
 * Waits until a thread of this process sleeps, which stores gettid() there just before a call
 * that is to block.
 */
void twt_await_asleep(const _Atomic(pid_t) *tid);

#endif /* TWT_H */
