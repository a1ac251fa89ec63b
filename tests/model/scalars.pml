/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The turn of two opposite scalar channels (src/mcapi/token.h), beside their rings
 * (src/mcapi/scl_ring.h). Each side sends as often and receives as often as it likes, for
 * ever; both get every scalar once, in order and whole.
 *
 * A scalar is its number. In the ring it is one store, with its place; in the turn first
 * the number, then the stamp: who wrote it, with a mark that changes, and which place of
 * the ring it comes before. Both count modulo something, as they do in the code. What room
 * there is follows from what was read: the turn has no part in that.
 *
 * LEARNING: at first there is no turn. Its first side finds the pair; then the receiver
 * of the second learns of it, at last the sender of the second, who has the turn first.
 *
 * THREADS: the first side sends in one thread and receives in another. Too many states to
 * be searched whole (14 million without an error); LEARNING is 10 million, without one.
 *
 * MUTATION ALWAYS	the turn is written without having it
 * MUTATION NO_SIDE	a stamp does not say who wrote it
 * MUTATION THREADS ONE_MARK	a side's stamps are marked in the same way every time
 * MUTATION NO_PLACE	what is in the turn counts at once
 * MUTATION RING_FIRST	the turn is looked at only if the ring is empty
 * MUTATION TURN_FIRST	the turn is looked at only before the ring
 * MUTATION LEARNING KNOW_FIRST	whether there is a turn is looked at before the ring
 * MUTATION STAMP_FIRST	the stamp is written before the number
 * MUTATION THREADS GIVE_FIRST	a receiver gives the turn away before it has read it
 */
#ifdef THREADS
#define CPUS 3
#else
#define CPUS 2
#endif
#define DEPTH 1
#ifdef LEARNING
#define LEARNT 0
#else
#define LEARNT 3
#endif
#define SLOTS 1
#define LAPS 2	  /* places */
#define NUMBERS 3 /* one more than can be under way */

/* In memory: by side its slots, then the turn, then by side whether it is its own. */
#define SLOT(side, place) ((side) * SLOTS + (place) % SLOTS)
#define STAMP (2 * SLOTS)
#define VALUE (2 * SLOTS + 1)
#define OURS(side) (2 * SLOTS + 2 + (side))
#define CELLS (2 * SLOTS + 4)

#include "tso.h"

#ifdef NO_SIDE
#define stamped(side, toggle, place) (1 + (toggle) * LAPS + (place))
#else
#ifdef ONE_MARK
#define stamped(side, toggle, place) (1 + (side) * LAPS + (place))
#else
#define stamped(side, toggle, place) (1 + ((toggle) * 2 + (side)) * LAPS + (place))
#endif
#endif
#define stamp(side, place) stamped(side, mark[side], place)
#ifdef NO_PLACE
#define due(v) (v != 0 && (v - 1) / LAPS == marked[1 - me] * 2 + 1 - me)
#else
#define due(v) (v == stamped(1 - me, marked[1 - me], tail[1 - me]))
#endif
#define slot(place, n) (1 + (place) * NUMBERS + (n))
#define turn(side, n) (1 + (side) * NUMBERS + (n))

/* Of the channel that a side sends on: places and numbers. */
byte head[2], tail[2], sent[2], received[2];
bit mark[2], marked[2]; /* of the next stamp, at the sender and at the receiver */
byte learnt = LEARNT; /* by so many, in this order: */
#define knows(side) ((side) == 0 -> learnt >= 1 : learnt >= 2)
#define TOLD 3

/* Only the two threads of a side know this, or the only one. */
#ifdef THREADS
#define own(what) store(OURS(me), what)
#else
#define own(what) mem[OURS(me)] = what
#endif
#ifdef ALWAYS
#define has_turn knows(me)
#else
#define has_turn (v == 1)
#endif

inline send_one()
{
	d_step {
		peek(v, OURS(me));
		crowded = ((head[me] + LAPS - tail[me]) % LAPS >= SLOTS)
	}
	if
	:: has_turn ->
		own(0);
#ifdef STAMP_FIRST
		store(STAMP, stamp(me, head[me]));
		store(VALUE, turn(me, sent[me]));
#else
		store(VALUE, turn(me, sent[me]));
		store(STAMP, stamp(me, head[me]));
#endif
		d_step { v = 0; crowded = 0; mark[me] = 1 - mark[me]; sent[me] = (sent[me] + 1) % NUMBERS }
	:: !has_turn && !crowded ->
		d_step {
			space -> put(SLOT(me, head[me]), slot(head[me], sent[me]));
			head[me] = (head[me] + 1) % LAPS;
			sent[me] = (sent[me] + 1) % NUMBERS;
			v = 0
		}
	:: !has_turn && crowded -> d_step { v = 0; crowded = 0 }
	fi
}

#ifdef KNOW_FIRST
#define knew known
#else
#define knew knows(me)
#endif

/* Before the stamp is read nothing changes it that matters: only this thread sets OURS. */
inline look_at_token()
{
	d_step {
		peek(w, OURS(me));
		turned = (knew && w == 0);
		w = 0
	}
	if
	:: turned -> d_step { peek(w, STAMP); turned = due(w); w = 0 }
	:: else
	fi
}

inline take_one()
{
#ifdef KNOW_FIRST
	known = knows(me);
#endif
#ifdef TURN_FIRST
	look_at_token();
#endif
	/* tw_mcapi_scl_look() */
	d_step {
		peek(w, SLOT(1 - me, tail[1 - me]));
		there = (w != 0 && (w - 1) / NUMBERS == tail[1 - me]);
		seen = (there -> (w - 1) % NUMBERS : 0);
		w = 0
	}
#ifdef RING_FIRST
	if
	:: !there -> look_at_token()
	:: else
	fi;
#else
#ifndef TURN_FIRST
	look_at_token();
#endif
#endif
	if
	:: turned ->
#ifdef GIVE_FIRST
		own(1);
		load(w, VALUE);
#else
		load(w, VALUE);
		own(1);
#endif
		d_step {
			assert(w == turn(1 - me, received[1 - me]));
			marked[1 - me] = 1 - marked[1 - me];
			received[1 - me] = (received[1 - me] + 1) % NUMBERS;
			there = 0; turned = 0; seen = 0; w = 0; known = 0
		}
	:: !turned && there ->
		d_step {
			assert(seen == received[1 - me]);
			received[1 - me] = (received[1 - me] + 1) % NUMBERS;
			tail[1 - me] = (tail[1 - me] + 1) % LAPS;
			there = 0; seen = 0; known = 0
		}
	:: !turned && !there -> known = 0
	fi
}

/* What a thread may do. */
#define SENDS 1
#define RECEIVES 2

proctype side(byte me; byte cpu; byte does)
{
	byte v, w, seen;
	bit there, turned, known, crowded;

end:	do
	:: does & SENDS -> send_one()
	:: does & RECEIVES -> take_one()
	od
}

/* The nodes hear of the pair. */
#ifdef LEARNING
active proctype learning()
{
	do
	:: learnt < 3 ->
		d_step {
			learnt++;
			if
			:: learnt == TOLD -> mem[OURS(1)] = 1
			:: else
			fi
		}
	:: else -> break
	od
}
#endif

init {
	atomic {
#ifndef LEARNING
		mem[OURS(1)] = 1;
#endif
#ifdef THREADS
		run side(0, 0, SENDS);
		run side(0, 2, RECEIVES);
#else
		run side(0, 0, SENDS | RECEIVES);
#endif
		run side(1, 1, SENDS | RECEIVES)
	}
}
