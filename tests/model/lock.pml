/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The biased lock of src/base/lock.[ch]: at most one thread is inside, and it
 * sees the writes of the one before it. Three threads lock, try and unlock for
 * ever, in every order that their store queues allow.
 *
 * Left out: waiters and yielding, which only decide who is faster.
 *
 * Whoever is in by the mutex may leave the lock without a favourite (tw_unlock_unbiased),
 * as where an endpoint ends: nobody then enters by the bias before it was in by the mutex.
 *
 * VARIANT KEPT	a thread may enter by a bias that it has kept (tw_lock_by), however old
 *
 * MUTATION NO_BARRIER	the revoking thread runs no membarrier
 * MUTATION NO_RECHECK	the favoured thread does not read the owner again
 * MUTATION NO_WAIT	the revoking thread does not read the inside flag
 * MUTATION REUSE_FLAG	a flag gets a second favourite
 * MUTATION OWN_FENCE	a fence of the revoking thread's in place of the membarrier
 * MUTATION UNBIASED_ALONE	a thread that was in by the bias ends it, without the mutex
 * MUTATION TRY_KEEPS	a try that fails leaves the bias revoked
 */
#ifndef BIASES
#define BIASES 3 /* TW_LOCK_BIASES */
#endif
#define CPUS 3

/* struct tw_lock, cell by cell; a thread's name is its number + 1. */
#define OWNER 0
#define BY_MUTEX 1
#define BIASED_TO 2
#define USED 3 /* biases */
#define DATA 4 /* what the lock protects */
#define INSIDE 5
#define CELLS (INSIDE + BIASES)

#include "tso.h"

#define NAME(thread, flag) (((thread) + 1) * 4 + (flag))
#define THREAD(word) ((word) / 4)
#define FLAG(word) ((word) % 4)

bit mutex; /* pthread_mutex_t: locked instructions on both ways */
byte holders;
bit last; /* what DATA must hold */

/*
 * revoke(): owner = 0, tw_barrier_threads(), then the flag of the former owner.
 * out is 1 when its thread is outside.
 */
inline revoke(stay)
{
	load(w, OWNER);
	out = 1;
	if
	:: w == 0
	:: else ->
		store(OWNER, 0);
#ifndef NO_BARRIER
		fence();
#ifndef OWN_FENCE
		barrier_on(0);
		barrier_on(1);
		barrier_on(2);
#endif
#endif
#ifndef NO_WAIT
		do
		:: load(v, INSIDE + FLAG(w));
			if
			:: v == 0 -> break
			:: v != 0 && stay
			:: v != 0 && !stay ->
#ifndef TRY_KEEPS
				store(OWNER, w);
#endif
				out = 0;
				break
			fi
		od
#endif
	fi
}

proctype thread(byte cpu)
{
	byte w, v, n;
	bit out, fast;
#ifdef KEPT
	byte kept;
#endif

end:	do
	::	/* tw_lock() */
		fast = 0;
		if
		:: load(w, OWNER)
#ifdef KEPT
		:: kept -> w = kept
#endif
		fi;
		if
		:: THREAD(w) == cpu + 1 ->
			store(INSIDE + FLAG(w), 1);
#ifdef NO_RECHECK
			fast = 1
#else
			load(v, OWNER);
			if
			:: v == w -> fast = 1
			:: else -> store(INSIDE + FLAG(w), 0)
			fi
#endif
		:: else
		fi;
		if
		:: fast
		:: else ->
			/* tw_lock_slow() */
			atomic { !mutex && drained -> mutex = 1 }
			revoke(1);
			store(BY_MUTEX, 1);
			load(v, BIASED_TO);
			if
			:: THREAD(v) == cpu + 1
			:: else ->
				load(n, USED);
				if
#ifdef REUSE_FLAG
				:: n < BIASES -> store(BIASED_TO, NAME(cpu, 0)); store(USED, n + 1)
#else
				:: n < BIASES -> store(BIASED_TO, NAME(cpu, n)); store(USED, n + 1)
#endif
				:: else -> store(BIASED_TO, 0)
				fi
			fi
		fi;
		goto inside
	::	/* tw_lock_try() */
		atomic { !mutex && drained -> mutex = 1 }
		revoke(0);
		if
		:: out -> store(BY_MUTEX, 1); goto inside
		:: else -> atomic { drained -> mutex = 0 }
		fi;
		goto outside;

inside:		skip;
		d_step { assert(holders == 0); holders++ }
		load(v, DATA);
		d_step { assert(v == last); last = !last }
		store(DATA, last);
		holders--;

#ifdef KEPT
		/* tw_lock_way() */
		load(v, BIASED_TO);
		if
		:: THREAD(v) == cpu + 1 -> kept = v
		:: else
		fi;
#endif
		/* tw_unlock(): the fast way out is two loads and a store. */
		load(v, BY_MUTEX);
		load(w, BIASED_TO);
		if
		:: v == 0 ->
			store(INSIDE + FLAG(w), 0)
#ifdef UNBIASED_ALONE
			;
			store(OWNER, 0)
#endif
		:: else ->
			/* tw_unlock_slow() */
			store(BY_MUTEX, 0);
			if
			:: store(OWNER, w)
			:: store(OWNER, 0) /* tw_unlock_unbiased() */
			fi;
			atomic { drained -> mutex = 0 }
		fi;
outside:	skip;
		d_step { w = 0; v = 0; n = 0; out = 0; fast = 0 }
	od
}

init {
	atomic { run thread(0); run thread(1); run thread(2) }
}
