/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The turn of providers/shm/ring.[ch]: one slot that both sides of a connection
 * write, beside their two rings. Each side sends as often and reads as often as it
 * likes, for ever; both get every packet once, in order and whole.
 *
 * A packet is its number, in the slot that is due or in the turn. Both sides may be
 * at the same number, as they are when question follows answer. The rings' own rules
 * (room, contents, the byte area) are ring.pml's: here a sender knows what was taken,
 * and a slot is its stamp, with a flag beside memory: written and not yet read.
 *
 * The last SLOTS of every RENEW packets go into slots, turn or not: counting does
 * not start again before every slot was.
 *
 * MUTATION ALWAYS	the turn is written without having it
 * MUTATION NO_SIDE	a stamp does not say who wrote it
 * MUTATION TWO_WORDS	who wrote it is a word of its own, before the stamp
 * MUTATION NO_RENEWAL	slots may be left out for ever
 * MUTATION GIVE_FIRST	who takes a packet has the turn before it has read it
 */
#define CPUS 2
#define DEPTH 2 /* a packet is two stores */
#define SLOTS 2
#define LAPS 8 /* where counting starts again */
#define RENEW 4

/* In memory: by side its slots' stamps, then the turn. */
#define STAMP(side, n) ((side) * SLOTS + (n) % SLOTS)
#define TURN_STAMP (2 * SLOTS)
#define TURN_HEAD (2 * SLOTS + 1)
#define TURN_SIDE (2 * SLOTS + 2)
#define CELLS (2 * SLOTS + 3)

#include "tso.h"

#define number(n) ((n) % LAPS)
#ifdef NO_SIDE
#define stamp(side, n) (number((n) + 1) + 1)
#else
#ifdef TWO_WORDS
#define stamp(side, n) (number((n) + 1) + 1)
#else
#define stamp(side, n) (1 + (side) * LAPS + number((n) + 1))
#endif
#endif
/* What a packet in the turn holds: whose it is, and its number. */
#define content(side, n) (1 + (side) * LAPS + (n))

#ifdef ALWAYS
#define may_turn (head % RENEW < RENEW - SLOTS)
#else
#ifdef NO_RENEWAL
#define may_turn mine
#else
#define may_turn (mine && head % RENEW < RENEW - SLOTS)
#endif
#endif

bit fresh[2 * SLOTS];
byte taken[2]; /* by the reader of that side's packets: ring.pml has how it is told */

proctype side(byte me)
{
	byte cpu = me;
	byte head, tail, v;
	bit mine = (me == 0), in_turn, there;

end:	do
	/* tw_ring_write_small(): room, the slot, what it holds, the stamp. */
	:: number(head + LAPS - taken[me]) < SLOTS ->
		if
		:: may_turn ->
			mine = 0;
#ifdef TWO_WORDS
			store(TURN_SIDE, me);
#endif
			store(TURN_HEAD, content(me, head));
			store(TURN_STAMP, stamp(me, head))
		:: else ->
			d_step {
				space -> put(STAMP(me, head), stamp(me, head));
				fresh[STAMP(me, head)] = 1
			}
		fi;
		d_step { head = number(head + 1); in_turn = 0; v = 0 }
	/* tw_ring_next(): the slot that is due, then the turn unless it is ours. */
	:: true ->
		d_step {
			peek(v, STAMP(1 - me, tail));
			there = (v == stamp(1 - me, tail))
		}
		if
		:: !there && !mine ->
#ifdef TWO_WORDS
			d_step { peek(v, TURN_SIDE); in_turn = (v == 1 - me) };
#else
			in_turn = 1;
#endif
			d_step {
				peek(v, TURN_STAMP);
				in_turn = (in_turn && v == stamp(1 - me, tail));
				there = in_turn
			}
		:: else
		fi;
		if
		:: there && in_turn ->
#ifdef GIVE_FIRST
			mine = 1;
			store(TURN_HEAD, content(me, head));
#endif
			load(v, TURN_HEAD);
			assert(v == content(1 - me, tail));
			/* tw_ring_advance() */
			d_step { mine = 1; tail = number(tail + 1); taken[1 - me] = tail }
		:: there && !in_turn ->
			assert(fresh[STAMP(1 - me, tail)]);
			fresh[STAMP(1 - me, tail)] = 0;
			d_step { tail = number(tail + 1); taken[1 - me] = tail }
		:: else
		fi;
		d_step { there = 0; in_turn = 0; v = 0 }
	od
}

init {
	atomic {
		run side(0);
		run side(1)
	}
}
