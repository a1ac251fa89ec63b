/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread that sleeps for a mutex is woken: give_back, wake_one, sleep_for and wait_for of
 * src/mrapi/lock/mutex.c, among three nodes on three processors.
 *
 * Errors: two nodes have the mutex; or a node sleeps in a state without successors, in
 * which no node has the mutex.
 *
 * The futex queue is one bit per node. The last node may give up at any moment of its
 * sleep, as at a deadline. It takes its count back, and passes on a wake-up that it may have
 * received. So does a node that does not sleep after all.
 *
 * VARIANT PATIENT	it does not give up
 * MUTATION PLAIN	the release is a plain store, which may be seen after the count is read
 * MUTATION NO_LOOK	a sleeper does not try again
 * MUTATION LATE_SEQ	it reads seq after it was counted
 * MUTATION NO_SEQ	a wake-up does not bump seq
 * MUTATION NO_PASSING_ON	a node that gives up does not pass on a wake-up
 * MUTATION EARLY_LOOK	it looks whether there was one before it takes its count back
 */
#define CPUS 3
/* Locks by a node, at most; one less for the last. */
#define LOCKS (2 - cpu / 2)

#define WORD 0 /* owner + 1 */
#define CELLS 1
#define DEPTH 1

#include "tso.h"

/* Written by locked instructions alone. */
byte sleepers, seq;
bit asleep[CPUS];
byte inside;

inline wake()
{
	atomic {
		drained ->
#ifndef NO_SEQ
		seq++
#endif
	}
	/* futex_wake(): any sleeper. */
	atomic {
		if
		:: asleep[0] -> asleep[0] = 0
		:: asleep[1] -> asleep[1] = 0
		:: asleep[2] -> asleep[2] = 0
		:: !asleep[0] && !asleep[1] && !asleep[2]
		fi
	}
}

inline release()
{
	inside--;
#ifdef PLAIN
	store(WORD, 0);
#else
	atomic { drained -> mem[WORD] = 0 }
#endif
	if
	:: sleepers > 0 ->
		atomic {
			drained ->
			if
			:: sleepers > 0 -> sleepers--; claimed = 1
			:: else
			fi
		}
		if
		:: claimed -> claimed = 0; wake()
		:: else
		fi
	:: else
	fi
}

/* Not counted any more. */
inline uncount()
{
#ifdef EARLY_LOOK
	claimed = (seq != known);
#endif
	atomic {
		drained ->
		if
		:: sleepers > 0 -> sleepers--
		:: else
		fi
	}
#ifndef EARLY_LOOK
	claimed = (seq != known);
#endif
#ifdef NO_PASSING_ON
	claimed = 0;
#endif
	if
	:: claimed -> claimed = 0; wake()
	:: else
	fi
}

/* A locked compare and swap, and the value it read. */
inline take()
{
	atomic {
		drained ->
		got = (mem[WORD] == 0);
		if
		:: got -> mem[WORD] = cpu + 1
		:: else
		fi
	}
}

active [3] proctype node()
{
	byte cpu = _pid - 1; /* memory() of tso.h is the first */
	byte locked, known, v;
	bit got, claimed;

	do
	:: locked < LOCKS ->
		locked++;
		do
		:: take();
			if
			:: got -> break
			:: else
			fi;
			/* sleep_for() */
#ifndef LATE_SEQ
			known = seq;
#endif
			atomic { drained -> sleepers++ }
#ifdef LATE_SEQ
			known = seq;
#endif
			load(v, WORD);
#ifdef NO_LOOK
			v = 1;
#endif
			if
			:: v ->
				v = 0;
				asleep[cpu] = (known == seq);
				if
				:: !asleep[cpu]
#ifndef PATIENT
				:: cpu == 2 ->
					asleep[cpu] = 0;
					uncount();
					known = 0;
					goto given_up
#endif
				fi;
				known = 0
			:: else ->
				uncount();
				known = 0
			fi
		od;
		got = 0;
		inside++;
		assert(inside == 1);
		release();
given_up:	skip
	:: break
	od;
end:	false
}

active proctype monitor()
{
end:	timeout ->
	assert(!asleep[0] && !asleep[1] && !asleep[2])
}
