/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who sleeps for a mutex is woken: release, wake_one, sleep_for and wait_for of
 * src/mrapi/mutex.c, among three nodes on three processors.
 *
 * What is wrong: two have the mutex; or somebody sleeps when nothing can happen any
 * more, so that nobody has it.
 *
 * The futex queue is a bit for each node. The last node may give up at any moment of
 * its sleep, as at a deadline, and passes on what may have been a wake-up for it.
 *
 * VARIANT PATIENT	it does not
 * VARIANT FENCES	the nodes are not reached by each other's membarrier
 * MUTATION NO_BARRIER	a sleeper looks again without a barrier
 * MUTATION OWN_FENCE	it has only a fence of its own
 * MUTATION FENCES NO_RELEASE_FENCE	no fence between the lock word and the count
 * MUTATION NO_LOOK	a sleeper does not look again
 * MUTATION LATE_SEQ	it reads seq after it was counted
 * MUTATION NO_SEQ	a wake-up does not bump seq
 * MUTATION NO_PASSING_ON	who gives up wakes nobody in its place
 * MUTATION TAKE_BACK	who does not sleep after all takes its count back
 */
#define CPUS 3
/* Turns of a node, at most; one less for the last. */
#define TURNS (2 - cpu / 2)

#define WORD 0 /* holder + 1; only stores of 0 are plain */
#define CELLS 1
#define DEPTH 1

#include "tso.h"

/* Written by locked instructions alone. */
byte sleepers, seq;
bit asleep[CPUS];
byte inside;

inline barrier()
{
	fence();
#ifndef FENCES
	barrier_on((cpu + 1) % 3);
	barrier_on((cpu + 2) % 3);
	fence()
#endif
}

inline poke()
{
	atomic {
		drained ->
#ifndef NO_SEQ
		seq++
#endif
	}
	/* futex_wake(): any one of them. */
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
	store(WORD, 0);
#ifdef FENCES
#ifndef NO_RELEASE_FENCE
	fence();
#endif
#endif
	/* The count, read without a fence: the store may not be seen yet. */
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
		:: claimed -> claimed = 0; poke()
		:: else
		fi
	:: else
	fi
}

/* A locked compare and swap, and what it saw. */
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
	byte turns, known, v;
	bit got, claimed;

	do
	:: turns < TURNS ->
		turns++;
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
#ifdef OWN_FENCE
			fence();
#else
#ifndef NO_BARRIER
			barrier();
#endif
#endif
			load(v, WORD);
#ifdef NO_LOOK
			v = 1;
#endif
			if
			:: v ->
				v = 0;
				atomic {
					asleep[cpu] = (known == seq);
					known = 0
				}
				if
				:: !asleep[cpu]
#ifndef PATIENT
				:: cpu == 2 ->
					asleep[cpu] = 0;
#ifndef NO_PASSING_ON
					poke();
#endif
					goto given_up
#endif
				fi
			:: else ->
#ifdef TAKE_BACK
				atomic {
					if
					:: sleepers > 0 -> sleepers--
					:: else
					fi
				}
#endif
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
