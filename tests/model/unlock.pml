/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A plain MRAPI mutex is unlocked while the node that has it ends: mrapi_mutex_unlock of
 * src/mrapi/mutex.c, tw_mrapi_unlocks_end of owned.c and end_node of init.c. One thread
 * unlocks, which is a plain store; another thread of the process ends the node and gives its
 * lock back; a third one, of a node that may have the same slot, takes the lock.
 *
 * Error: the store takes the lock away from the third.
 *
 * MUTATION NO_WAIT	the end of the node does not wait
 * MUTATION NO_BARRIER	it waits without a barrier
 * MUTATION LATE	the node is looked at before the thread announces that it unlocks
 * MUTATION EARLY	the announcement is over before the store
 */
#define CPUS 3
#define CELLS 3
#define WORD 0	    /* owner; the first and the third have the same number */
#define UNLOCKING 1
#define ENDED 2
#define NODE 1

#include "tso.h"

bit locked, third;

active proctype unlock()
{
	byte cpu = 0, ended, owner;

	atomic { mem[WORD] = NODE; locked = 1 }
#ifdef LATE
	load(ended, ENDED);
	store(UNLOCKING, 1);
#else
	store(UNLOCKING, 1);
	load(ended, ENDED);
#endif
	load(owner, WORD);
	if
	:: !ended && owner == NODE ->
#ifdef EARLY
		store(UNLOCKING, 0);
#endif
		store(WORD, 0)
	:: else
	fi;
	store(UNLOCKING, 0)
}

active proctype end_node()
{
	byte cpu = 1, unlocking;

	atomic { locked -> mem[ENDED] = 1 }
#ifndef NO_BARRIER
	barrier_on(0);
#endif
#ifndef NO_WAIT
	do
	:: load(unlocking, UNLOCKING);
		if
		:: unlocking
		:: else -> break
		fi
	od;
#endif
	/* What the node has left is given back. */
	atomic {
		if
		:: mem[WORD] == NODE -> mem[WORD] = 0
		:: else
		fi
	};
	atomic { mem[WORD] == 0 -> mem[WORD] = NODE; third = 1 }
	/* It has the lock until the end. */
end:	false
}

active proctype monitor()
{
end:	timeout ->
	assert(!third || mem[WORD] == NODE)
}
