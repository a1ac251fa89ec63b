/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The token slot of src/shmem/ring.[ch]: one slot that both sides of a connection
 * write, beside their two rings. Each side sends and reads as often as it likes,
 * forever; both get every packet once, in order and complete.
 *
 * A packet is its number, in the next ring slot or in the token slot. Both sides may be
 * at the same number, as in a ping-pong. The rules of the rings (credits, contents, the
 * byte area) are in ring.pml: here a sender knows which slots are free, and a slot is
 * its stamp, with a flag beside memory: written and not yet read.
 *
 * The last SLOTS of every RENEW packets go into ring slots, token or not: counting does
 * not wrap before every slot has been used.
 *
 * MUTATION ALWAYS	a side writes the token slot without the token
 * MUTATION NO_SIDE	a stamp does not have the side that wrote it
 * MUTATION TWO_WORDS	the side is a word of its own, written before the stamp
 * MUTATION NO_RENEWAL	ring slots may be left out forever
 * MUTATION GIVE_FIRST	a reader has the token before it has read the packet
 */
#define CPUS 2
#define DEPTH 2 /* a packet is two stores */
#define SLOTS 2
#define LAPS 8 /* where counting wraps */
#define RENEW 4

/* In memory: by side its slots' stamps, then the token slot. */
#define STAMP(side, n) ((side) * SLOTS + (n) % SLOTS)
#define TOKEN_STAMP (2 * SLOTS)
#define TOKEN_HEAD (2 * SLOTS + 1)
#define TOKEN_SIDE (2 * SLOTS + 2)
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
/* The contents of the token slot: the packet's side and number. */
#define content(side, n) (1 + (side) * LAPS + (n))

#ifdef ALWAYS
#define may_token (head % RENEW < RENEW - SLOTS)
#else
#ifdef NO_RENEWAL
#define may_token mine
#else
#define may_token (mine && head % RENEW < RENEW - SLOTS)
#endif
#endif

bit fresh[2 * SLOTS];
byte taken[2]; /* by the reader of that side's packets: see ring.pml for how it learns */

proctype side(byte me)
{
	byte cpu = me;
	byte head, tail, v;
	bit mine = (me == 0), in_token, there;

end:	do
	/* tw_ring_write_small(): free slots, the slot, its contents, the stamp. */
	:: number(head + LAPS - taken[me]) < SLOTS ->
		if
		:: may_token ->
			mine = 0;
#ifdef TWO_WORDS
			store(TOKEN_SIDE, me);
#endif
			store(TOKEN_HEAD, content(me, head));
			store(TOKEN_STAMP, stamp(me, head))
		:: else ->
			d_step {
				space -> put(STAMP(me, head), stamp(me, head));
				fresh[STAMP(me, head)] = 1
			}
		fi;
		d_step { head = number(head + 1); in_token = 0; v = 0 }
	/* tw_ring_next(): the next ring slot, then the token slot unless this side wrote it. */
	:: true ->
		d_step {
			peek(v, STAMP(1 - me, tail));
			there = (v == stamp(1 - me, tail))
		}
		if
		:: !there && !mine ->
#ifdef TWO_WORDS
			d_step { peek(v, TOKEN_SIDE); in_token = (v == 1 - me) };
#else
			in_token = 1;
#endif
			d_step {
				peek(v, TOKEN_STAMP);
				in_token = (in_token && v == stamp(1 - me, tail));
				there = in_token
			}
		:: else
		fi;
		if
		:: there && in_token ->
#ifdef GIVE_FIRST
			mine = 1;
			store(TOKEN_HEAD, content(me, head));
#endif
			load(v, TOKEN_HEAD);
			assert(v == content(1 - me, tail));
			/* tw_ring_advance() */
			d_step { mine = 1; tail = number(tail + 1); taken[1 - me] = tail }
		:: there && !in_token ->
			assert(fresh[STAMP(1 - me, tail)]);
			fresh[STAMP(1 - me, tail)] = 0;
			d_step { tail = number(tail + 1); taken[1 - me] = tail }
		:: else
		fi;
		d_step { there = 0; in_token = 0; v = 0 }
	od
}

init {
	atomic {
		run side(0);
		run side(1)
	}
}
