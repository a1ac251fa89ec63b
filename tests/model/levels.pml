/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The levels of a recursive mutex equal those that its owner's threads have: lock_again,
 * begin_levels, unlock_level and drop of src/mrapi/lock/mutex.c, two threads that
 * run for one node, which ends at any step, and one of another node. Sleeping is left out
 * (mutex.pml); all steps are locked instructions, so that no store queues matter.
 *
 * Errors: both nodes are inside; a level is lost, or one too many; a level or the lock of
 * the node that has ended is left.
 *
 * MUTATION NO_OWNER	levels do not name the owner
 * MUTATION NO_CLOSE	the last unlock leaves its level
 * MUTATION PLAIN	a level is added by a load and a store
 * MUTATION PLAIN_FIRST	so is the first one
 * MUTATION PLAIN_GIVE	the last unlock frees the lock, whoever has it
 * MUTATION NO_CHECK	a thread does not look whether its node has ended
 */
byte word;		    /* owner, 0: free */
byte number, owner, depth; /* the levels, one word */
byte locks;		    /* counts */
byte held[3];		    /* the levels that the threads of live nodes really have */
bit ended[3];
byte done;

#ifdef NO_OWNER
#define OPEN (d > 0)
#else
#define OPEN (d > 0 && o == me)
#endif

inline load_levels()
{
	d_step {
		n = number;
		o = owner;
		d = depth
	}
}

#define SAME (number == n && owner == o && depth == d)
#ifdef PLAIN
#define UNCHANGED true
#else
#define UNCHANGED SAME
#endif

#ifdef PLAIN_FIRST
#define MAY_BEGIN true
#else
#define MAY_BEGIN SAME
#endif

inline begin()
{
	d_step {
		locks++;
		mine = locks;
		around = 0
	}
	load_levels();
	do
	:: word != me -> break
	:: word == me ->
		atomic {
			if
			:: MAY_BEGIN ->
				number = mine;
				owner = me;
				depth = 1;
				if
				:: word == me && !ended[me] ->
					held[me]++;
					assert(held[3 - me] == 0)
				:: else
				fi;
				break
			:: else -> n = number; o = owner; d = depth
			fi
		}
	od
}

inline give_back()
{
	atomic {
		if
#ifdef PLAIN_GIVE
		:: true -> word = 0
#else
		:: word == me -> word = 0
		:: else
#endif
		fi
	}
}

/* What the node had is gone with it. */
inline drop()
{
	load_levels();
	atomic {
		if
		:: word == me -> word = 0
		:: else
		fi
	}
	do
	:: d > 0 && o == me ->
		atomic {
			if
			:: SAME -> number = 0; owner = 0; depth = 0; d = 0
			:: else -> n = number; o = owner; d = depth
			fi
		}
	:: else -> break
	od
}

proctype ending(byte me)
{
	byte n, o, d;

	d_step {
		ended[me] = 1;
		held[me] = 0
	}
	drop();
	done++
}

proctype thread(byte me; byte turns)
{
	byte n, o, d, mine, around, i;
	bit got;

	for (i : 1 .. turns) {
		got = 0;
		do
		:: got || ended[me] -> break
		:: !got && word == 0 ->
			atomic {
				if
				:: word == 0 -> word = me; got = 1
				:: else
				fi
			}
			if
			:: got -> begin()
			:: else
			fi
		:: !got && word == me ->
			load_levels();
			if
			:: OPEN ->
				d_step {
					locks++;
					mine = locks
				}
				atomic {
					if
					:: UNCHANGED ->
						number = mine;
						owner = me;
						depth = d + 1;
						around = n;
						got = 1;
						if
						:: word == me && !ended[me] ->
							held[me]++;
							assert(held[3 - me] == 0)
						:: else
						fi
					:: else
					fi
				}
			:: else
			fi
		od;
#ifndef NO_CHECK
		if
		:: got && ended[me] -> drop()
		:: else
		fi;
#endif
		/* Again while others have locked on top of it. */
		do
		:: !got || ended[me] -> break
		:: got && !ended[me] ->
			load_levels();
			assert(ended[me] || (d > 0 && o == me));
			if
			:: n == mine && o == me && d > 0 ->
				atomic {
					if
					:: SAME ->
						got = 0;
						if
						:: held[me] > 0 -> held[me]--
						:: else -> assert(ended[me])
						fi;
						if
						:: d == 1 ->
							assert(held[me] == 0 && around == 0);
#ifndef NO_CLOSE
							number = 0;
							owner = 0;
							depth = 0
#endif
						:: else ->
							assert(held[me] > 0 || ended[me]);
							number = around;
							depth = d - 1
						fi
					:: else
					fi
				}
				if
				:: !got && d == 1 -> give_back()
				:: else
				fi
			:: else
			fi
		od
	}
	done++
}

init
{
	atomic {
		run thread(1, 1);
		run thread(1, 1);
		run thread(2, 2);
		run ending(1)
	}
	done == 4;
	assert(word == 0 && held[1] == 0 && held[2] == 0 && depth == 0)
}
