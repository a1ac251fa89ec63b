/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The token of two sides (src/shmem/token.h), beside their two rings. Each side sends as
 * often and receives as often as it likes, for ever; both get every item once, in order and
 * whole.
 *
 * An item is its number. In the ring it is one store, with its place; in the token slot first
 * the number, then the stamp: who wrote it, and a place. Both count modulo something, as they
 * do in the code. What room there is follows from what was read: ring.pml has that.
 *
 * Packets (ring.h): one in the slot takes the place that it names, and the reader looks there
 * only if the ring has nothing. The last SLOTS of every RENEW go into the ring, token or not:
 * counting does not begin anew before every place has been used.
 *
 * WORDS (words.h): one in the slot comes before the place that it names, and the reader looks
 * there whatever the ring has. Stamps alternate, for sides of two threads.
 *
 * LEARNING: at first there is no token. Its first side finds the pair; then the receiver of
 * the second learns of it, at last the sender of the second, which has the token first.
 *
 * THREADS: the first side sends in one thread and receives in another. Too many states to
 * be searched whole (14 million without an error); LEARNING is 10 million, without one.
 *
 * VARIANT WORDS	words, not packets
 * MUTATION ALWAYS	the slot is written without the token
 * MUTATION NO_SIDE	a stamp does not say who wrote it
 * MUTATION TWO_WORDS	who wrote it is a word of its own, written before the stamp
 * MUTATION NO_RENEWAL	places of the ring may be left out for ever
 * MUTATION STAMP_FIRST	the stamp is written before the number
 * MUTATION WORDS ALWAYS	the same as above
 * MUTATION WORDS NO_SIDE	the same as above
 * MUTATION WORDS STAMP_FIRST	the same as above
 * MUTATION WORDS TAKES_PLACE	one in the slot takes a place, and places are never renewed
 * MUTATION WORDS NO_PLACE	what is in the slot counts at once
 * MUTATION WORDS RING_FIRST	the slot is looked at only if the ring is empty
 * MUTATION WORDS TOKEN_FIRST	the slot is looked at only before the ring
 * MUTATION WORDS THREADS ONE_MARK	a side's stamps are marked in the same way every time
 * MUTATION WORDS THREADS GIVE_FIRST	a receiver gives the token away before it has read the item
 * MUTATION WORDS LEARNING KNOW_FIRST	whether there is a token is looked at before the ring
 */
#ifdef THREADS
#define CPUS 3
#else
#define CPUS 2
#endif
#ifdef LEARNING
#define LEARNT 0
#else
#define LEARNT 3
#endif
#ifdef WORDS
#define DEPTH 1
#define SLOTS 1
#define LAPS 2 /* places */
#ifndef TAKES_PLACE
#define NUMBERS 3 /* one more than can be under way */
#endif
#else
#define DEPTH 2
#define SLOTS 2
#define LAPS 8
#define RENEW 4
#define TAKES_PLACE
#define RING_FIRST
#define ONE_MARK
#endif
/* The number of an item is its place then, and `fresh' says that it was not taken yet. */
#ifdef TAKES_PLACE
#define NUMBERS LAPS
#endif

/* In memory: by side its slots, then the token slot, then by side whether it has it. */
#define SLOT(side, place) ((side) * SLOTS + (place) % SLOTS)
#define STAMP (2 * SLOTS)
#define VALUE (2 * SLOTS + 1)
#define WRITER (2 * SLOTS + 2) /* of TWO_WORDS */
#define OURS(side) (2 * SLOTS + 3 + (side))
#define CELLS (2 * SLOTS + 5)

#include "tso.h"

#ifdef ONE_MARK
#define toggled(toggle) 0
#else
#define toggled(toggle) (toggle)
#endif
#ifdef NO_SIDE
#define sided(side) 0
#else
#ifdef TWO_WORDS
#define sided(side) 0
#else
#define sided(side) (side)
#endif
#endif
#define stamped(side, toggle, place) (1 + (toggled(toggle) * 2 + sided(side)) * LAPS + (place))
#define stamp(side, place) stamped(side, mark[side], place)
#ifdef NO_PLACE
#define due(v) (v != 0 && (v - 1) / LAPS == marked[1 - me] * 2 + 1 - me)
#else
#define due(v) (v == stamped(1 - me, marked[1 - me], tail[1 - me]))
#endif
#define slot(place, n) (1 + (place) * NUMBERS + (n))
#define item(side, n) (1 + (side) * NUMBERS + (n))

/* Of the channel that a side sends on: places and numbers. */
byte head[2], tail[2];
#ifdef TAKES_PLACE
#define sent head
#define received tail
#else
byte sent[2], received[2];
#endif
bit fresh[2 * SLOTS]; /* what is in the ring */
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
#define has_token knows(me)
#else
#define has_token (v == 1)
#endif
#ifdef WORDS
#define may_token has_token
#else
#ifdef NO_RENEWAL
#define may_token (has_token && !crowded)
#else
#define may_token (has_token && !crowded && head[me] % RENEW < RENEW - SLOTS)
#endif
#endif

inline write_item()
{
#ifdef TWO_WORDS
	store(WRITER, me);
#endif
#ifdef STAMP_FIRST
	store(STAMP, stamp(me, head[me]));
	store(VALUE, item(me, sent[me]))
#else
	store(VALUE, item(me, sent[me]));
	store(STAMP, stamp(me, head[me]))
#endif
}

inline send_one()
{
	d_step {
		peek(v, OURS(me));
		crowded = ((head[me] + LAPS - tail[me]) % LAPS >= SLOTS)
	}
	if
	:: may_token ->
		own(0);
		write_item();
		d_step {
#ifndef ONE_MARK
			mark[me] = 1 - mark[me];
#endif
			v = 0; crowded = 0; sent[me] = (sent[me] + 1) % NUMBERS
		}
	:: !may_token && !crowded ->
		d_step {
			space -> put(SLOT(me, head[me]), slot(head[me], sent[me]));
			fresh[SLOT(me, head[me])] = 1;
#ifndef TAKES_PLACE
			head[me] = (head[me] + 1) % LAPS;
#endif
			sent[me] = (sent[me] + 1) % NUMBERS;
			v = 0
		}
	:: !may_token && crowded -> d_step { v = 0; crowded = 0 }
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
		in_token = (knew && w == 0);
		w = 0
	}
#ifdef TWO_WORDS
	d_step { peek(w, WRITER); in_token = (in_token && w == 1 - me); w = 0 };
#endif
	if
	:: in_token -> d_step { peek(w, STAMP); in_token = due(w); w = 0 }
	:: else
	fi
}

inline take_one()
{
#ifdef KNOW_FIRST
	known = knows(me);
#endif
#ifdef TOKEN_FIRST
	look_at_token();
#endif
	/* tw_ring_next(), tw_words_look() */
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
#ifndef TOKEN_FIRST
	look_at_token();
#endif
#endif
	if
	:: in_token ->
#ifdef GIVE_FIRST
		own(1);
		load(w, VALUE);
#else
		load(w, VALUE);
		own(1);
#endif
		d_step {
			assert(w == item(1 - me, received[1 - me]));
#ifndef ONE_MARK
			marked[1 - me] = 1 - marked[1 - me];
#endif
			received[1 - me] = (received[1 - me] + 1) % NUMBERS;
			there = 0; in_token = 0; seen = 0; w = 0; known = 0
		}
	:: !in_token && there ->
		d_step {
			assert(fresh[SLOT(1 - me, tail[1 - me])] && seen == received[1 - me]);
			fresh[SLOT(1 - me, tail[1 - me])] = 0;
#ifndef TAKES_PLACE
			tail[1 - me] = (tail[1 - me] + 1) % LAPS;
#endif
			received[1 - me] = (received[1 - me] + 1) % NUMBERS;
			there = 0; seen = 0; known = 0
		}
	:: !in_token && !there -> known = 0
	fi
}

/* What a thread may do. */
#define SENDS 1
#define RECEIVES 2

proctype side(byte me; byte cpu; byte does)
{
	byte v, w, seen;
	bit there, in_token, known, crowded;

end:	do
	:: does & SENDS -> send_one()
	:: does & RECEIVES -> take_one()
	od
}

/* The sides hear of the pair. */
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
