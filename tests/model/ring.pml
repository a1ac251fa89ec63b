/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ring of src/shmem/ring.[ch]: one writer, one reader, for ever. The
 * reader gets every packet once, in order and whole, although slots and bytes
 * are used again and neither side has a barrier.
 *
 * Sequence numbers count to SLOT_LAPS and BYTE_LAPS, not to 2^32. A packet is
 * its number: in the slot, with the length, and when it is long also in one or
 * two units of the byte area. Reader and writer work places out for themselves.
 *
 * Of the two slots one is at home, the other has a page of its own. At any rest the
 * writer may go home: it says in a slot that the next packet is the first at home, and
 * gives the page back (zeros, until made anew) when that is read. The reader touches no
 * page that is not there, and misses no such word.
 *
 * Variant: before a long packet the writer may say in a slot how much of the byte area is in use
 * from now on. Then nobody goes home.
 *
 * VARIANT PARTS	the writer does not always use all of the byte area
 *
 * MUTATION STAMP_FIRST	the stamp is written before the content
 * MUTATION STAMP_FLAG	a stamp says full, not which packet
 * MUTATION TAKE_FIRST	slots and bytes are given back before they are read
 * MUTATION FULL_ONE_MORE	the writer fills one slot more than there are
 * MUTATION PARTS PART_FREE	the slot that says the part needs no room
 * MUTATION PARTS PART_IGNORED	the reader goes on with the part that it had
 * MUTATION BYTES_UNCHECKED	the writer looks at slots only
 * MUTATION NO_SKIP	the reader does not skip what the writer left at the end
 * MUTATION DROP_UNREAD	pages are given back before all is read
 * MUTATION NOT_HOME	the writer uses the other slot again before the reader has come home
 * MUTATION MAKE_LATE	the writer makes a page when it writes there, not before
 * MUTATION ZERO_LEFT	a new page keeps the zeros, a stamp when numbers begin anew
 */
#define CPUS 2
#define SLOTS 2
/* Units, where the code has lines and a power of two; and those of a long packet. */
#ifdef PARTS
#define BYTES 2
#define LONG 1
#else
#define BYTES 3
#define LONG 2
#endif
/* Where counting starts again: multiples, too far away to be mistaken. */
#define SLOT_LAPS 4
#define BYTE_LAPS (3 * BYTES)

/* The ring in memory. */
#define TAKEN_SLOTS 0
#define TAKEN_BYTES 1
#define STAMP 2
#define HEAD (STAMP + SLOTS) /* header and length */
#define AREA (HEAD + SLOTS)
#define CELLS (AREA + BYTES)

#include "tso.h"

#define slot(n) ((n) % SLOT_LAPS)
#define unit(n) ((n) % BYTE_LAPS)
#define slots_since(from, to) slot((to) + SLOT_LAPS - (from))
#define bytes_since(from, to) unit((to) + BYTE_LAPS - (from))
#ifdef STAMP_FLAG
#define stamp_of(n) 1
#else
#define stamp_of(n) slot((n) + 1)
#endif
#ifdef FULL_ONE_MORE
#define ROOM (SLOTS + 1)
#else
#define ROOM SLOTS
#endif
#ifdef BYTES_UNCHECKED
#define bytes_fit true
#else
#define bytes_fit (units == 0 || bytes_since(btaken, unit(pos + units)) <= BYTES)
#endif

#define rest (mem[TAKEN_SLOTS] == head) /* as known once the line is looked at */
#ifdef DROP_UNREAD
#define read_all true
#else
#define read_all rest
#endif
#define home(n) ((n) % SLOTS == 0)
#ifdef MAKE_LATE
#define edge (!ready && !home(head))
#else
#define edge (!ready) /* one slot at home: always at its end */
#endif
/* As units. */
#define JUMP 3
#define PART 4 /* and units */
#define say (want != part)
#ifdef PART_FREE
#define slots_fit (slots_since(taken, head) < ROOM)
#else
#define slots_fit (slots_since(taken, head) + say < ROOM)
#endif

bit jumping; /* the reader has not seen a JUMP yet */
#ifdef PARTS
bit page[SLOTS] = {1, 1};
#else
bit page[SLOTS] = {1, 0};
#endif

/* tw_ring_place(): a payload does not wrap; pos moves to its start. */
inline place(pos, size, part)
{
	if
	:: pos % BYTES + size > part -> pos = unit(pos + BYTES - pos % BYTES)
	:: else
	fi
}

/* The writer's side of struct tw_ring_tx is private memory, so not in cells. */
active proctype writer()
{
	byte cpu = 0;
	byte head, taken, bhead, btaken; /* struct tw_ring_tx */
	byte units, pos, v, home_from;
	byte part = BYTES, want = BYTES;
	bit room, ready;

#ifdef PARTS
	ready = 1;
end:	do
#else
end:	do
	:: d_step {
			drained && rest && ready ->
			/* tw_ring_release(): ring_go_home() */
			ready = 0;
			if
			:: !home(head) ->
				put(HEAD + head % SLOTS, JUMP * SLOT_LAPS + head);
				put(STAMP + head % SLOTS, stamp_of(head));
				jumping = 1;
				head = slot(head + 1);
				taken = head
			:: else
			fi;
			home_from = head
		}
	:: d_step {
			drained && read_all && !ready && page[1] ->
			/* tw_ring_release(), a system call */
			page[1] = 0;
			mem[STAMP + 1] = 0;
			mem[HEAD + 1] = 0
		}
#endif
	:: true ->
		/* A packet: short or long; two units may have to skip a place. */
		if
		:: units = 0
		:: units = LONG
#ifdef PARTS
		:: d_step { units = LONG; want = BYTES + LONG - part }
#endif
		fi;
		/* ring_make_slots(), in tw_ring_room() */
		if
		:: edge ->
			load(v, TAKEN_SLOTS);
#ifndef NOT_HOME
			if
			:: slots_since(home_from, v) == SLOT_LAPS - 1 ->
				d_step { units = 0; v = 0; want = part }
				goto end
			:: else
			fi;
#endif
			d_step {
				drained;
				page[1] = 1;
				ready = 1;
				v = mem[STAMP + 1]
			}
#ifndef ZERO_LEFT
			if
			:: v == 0 -> store(STAMP + 1, 1)
			:: else
			fi;
#endif
			v = 0
		:: else
		fi;
		/* tw_ring_room(): what is known, else a look at the reader's line. */
		do
		:: d_step {
				pos = bhead;
				place(pos, units, want);
				room = slots_fit && bytes_fit
			}
			if
			:: room -> break
			:: else
			fi;
			/* ring_read_taken(): what a reader cannot have taken is ignored. */
			load(v, TAKEN_SLOTS);
			if
			:: slots_since(v, head) <= slots_since(taken, head) -> taken = v
			fi;
			load(v, TAKEN_BYTES);
			if
			:: bytes_since(v, bhead) <= bytes_since(btaken, bhead) -> btaken = v
			fi;
			v = 0
		od;
		/* tw_ring_write_small(), tw_ring_write_long() */
		assert(!jumping || home(head));
		if
		:: say ->
			store(HEAD + head % SLOTS, (PART + want) * SLOT_LAPS + head);
			store(STAMP + head % SLOTS, stamp_of(head));
			part = want;
			head = slot(head + 1)
		:: else
		fi;
#ifdef STAMP_FIRST
		store(STAMP + head % SLOTS, stamp_of(head));
#endif
		if
		:: units == 0
		:: else ->
			bhead = pos;
			store(AREA + bhead % BYTES, head);
			if
			:: units > 1 -> store(AREA + (bhead + 1) % BYTES, head)
			:: else
			fi;
			bhead = unit(bhead + units)
		fi;
		store(HEAD + head % SLOTS, units * SLOT_LAPS + head);
#ifndef STAMP_FIRST
		store(STAMP + head % SLOTS, stamp_of(head));
#endif
		head = slot(head + 1);
		d_step { units = 0; pos = 0; v = 0; room = 0 }
	od
}

active proctype reader()
{
	byte cpu = 1;
	byte tail, btail; /* struct tw_ring_rx */
	byte units, pos, v;
	byte part = BYTES;

end:	do
	:: true ->
		/* tw_ring_next() */
		assert(page[tail % SLOTS]);
		load(v, STAMP + tail % SLOTS);
		if
		:: v == stamp_of(tail) ->
			/* tw_ring_payload(): the length once, then the content. */
			load(v, HEAD + tail % SLOTS);
			d_step {
				units = v / SLOT_LAPS;
				v = v % SLOT_LAPS
			}
			assert(v == tail);
			d_step {
				if
				:: units == JUMP ->
					/* tw_ring_control() */
					units = 0;
					jumping = 0
					/* One further is home already. */
				:: units > PART ->
#ifndef PART_IGNORED
					part = units - PART;
#endif
					units = 0
				:: else
				fi;
				pos = btail;
#ifndef NO_SKIP
				place(pos, units, part)
#endif
			}
#ifdef TAKE_FIRST
			store(TAKEN_BYTES, unit(pos + units));
			store(TAKEN_SLOTS, slot(tail + 1));
#endif
			if
			:: units == 0
			:: else ->
				load(v, AREA + pos % BYTES);
				assert(v == tail);
				if
				:: units > 1 ->
					load(v, AREA + (pos + 1) % BYTES);
					assert(v == tail)
				:: else
				fi;
				/* tw_ring_advance() */
				btail = unit(pos + units)
			fi;
			tail = slot(tail + 1);
			/* tw_ring_publish(), now or after the packets that follow. */
			if
			:: true ->
#ifndef TAKE_FIRST
				store(TAKEN_BYTES, btail);
				store(TAKEN_SLOTS, tail)
#endif
			:: true
			fi
		:: else ->
			/* Nothing more: what was taken is known by now. */
#ifndef TAKE_FIRST
			store(TAKEN_BYTES, btail);
			store(TAKEN_SLOTS, tail);
#endif
			fence()
		fi;
		d_step { units = 0; pos = 0; v = 0 }
	od
}
