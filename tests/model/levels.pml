/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The levels of a recursive mutex equal those that its owner's threads have: lock_again,
 * begin_levels and unlock_level of src/mrapi/mutex.c, two threads that run for one
 * node and one of another node. Sleeping is left out (mutex.pml); all steps but the
 * release of the word are locked instructions, so that no store queues matter.
 *
 * Errors: both nodes are inside; a level is lost, or one too many.
 *
 * MUTATION NO_OWNER	levels do not name the owner
 * MUTATION NO_CLOSE	the last unlock leaves its level
 * MUTATION PLAIN	a level is added by a load and a store
 */
#define TURNS 2

byte word;		    /* owner, 0: free */
byte number, owner, depth; /* the levels, one word */
byte locks;		    /* counts */
byte held[3];		    /* the levels that the threads really have, by node */
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

#ifdef PLAIN
#define UNCHANGED true
#else
#define UNCHANGED (number == n && owner == o && depth == d)
#endif

inline begin()
{
	d_step {
		locks++;
		mine = locks;
		around = 0
	}
	d_step {
		number = mine;
		owner = me;
		depth = 1;
		held[me]++;
		assert(held[3 - me] == 0)
	}
}

proctype thread(byte me)
{
	byte n, o, d, mine, around, i;
	bit got;

	for (i : 1 .. TURNS) {
		got = 0;
		do
		:: got -> break
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
						held[me]++;
						assert(held[3 - me] == 0)
					:: else
					fi
				}
			:: else
			fi
		od;
		/* Again while others have locked on top of it. */
		do
		:: !got -> break
		:: got ->
			load_levels();
			assert(d > 0 && o == me);
			if
			:: n == mine ->
				atomic {
					if
					:: number == n && owner == o && depth == d ->
						got = 0;
						held[me]--;
						if
						:: d == 1 ->
							assert(held[me] == 0 && around == 0);
#ifndef NO_CLOSE
							number = 0;
							owner = 0;
							depth = 0
#endif
						:: else ->
							assert(held[me] > 0);
							number = around;
							depth = d - 1
						fi
					:: else
					fi
				}
				if
				:: !got && d == 1 -> word = 0
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
		run thread(1);
		run thread(1);
		run thread(2)
	}
	done == 3;
	assert(word == 0 && held[1] == 0 && held[2] == 0)
}
