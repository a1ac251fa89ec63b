/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A sleeper is woken: the arm, sleep and wake protocol. The states of the receiver and
 * what leads from one to another are those of src/engine/idle.c; the rest is
 * providers/shm/shm.c (shm_do_send, shm_written, mark_blocked, shm_do_arm, shm_do_disarm) and
 * doorbell.c (tw_shm_doorbell_ring, tw_shm_doorbell_defer, flush_deferred,
 * tw_shm_doorbells_read), and src/engine/wait.c (sleep_as_leader).
 *
 * A sender puts packets into a ring and may sleep until there is room. A
 * receiver takes them; now and then a call of it sleeps, or it computes without a
 * call, when only its service thread is there to be woken. The ring is two counters
 * here: ring.pml is about what lies in it.
 *
 * What is wrong: when nothing can happen any more, somebody sleeps although
 * there is something for it, or computes with a packet that its engine must see.
 *
 * The clock is left out. The time of the last poll is a number that is not the one
 * before and not one that the sender remembers. A deferred doorbell is flushed at any moment.
 * A look takes all that is there, where the code takes BATCH packets of each ring.
 *
 * The wish for room is a variant, so that each search stays small.
 *
 * VARIANT ROOM		a sender sleeps until there is room; plain packets only
 * VARIANT SERVICE	the service thread may leave the endpoint RESTING or COMPUTING, and the
 *			program come back
 * VARIANT FENCES	the two sides are not reached by each other's membarrier
 * VARIANT FENCES ROOM	both
 * MUTATION NO_BARRIER	do_arm looks without a barrier
 * MUTATION OWN_FENCE	do_arm has only a fence of its own
 * MUTATION ROOM ROOM_OWN_FENCE	the same of a sender that sleeps for room
 * MUTATION LOOK_FIRST	do_arm looks, then says that it is armed
 * MUTATION NO_LOOK	do_arm does not look at all
 * MUTATION NO_BELL_MARK	reading the doorbells leaves the time of the last poll as it is
 * MUTATION MARK_FIRST	it is set before the doorbells are read
 * MUTATION NO_LOOK_AFTER	a side that slept does not look after it has read the doorbells
 * MUTATION ROOM NO_WANTS	a sender that sleeps for room does not say so
 * MUTATION NO_DEFER	a doorbell that is not rung is forgotten
 * MUTATION NO_RING_FENCE	no fence before a doorbell is found to be on its way
 * MUTATION NO_BELL_FENCE	no fence between reading the doorbells and the look that follows
 * MUTATION FENCES NO_SEND_FENCE	no fence between packet and mark
 * MUTATION FENCES ROOM NO_TAKE_FENCE	no fence between taking and the wish for room
 */
#define CPUS 2
#define S 0
#define R 1
/* PACKETS is how many the sender sends at most; the receiver goes on for ever. */
#ifdef ROOM
#define SLOTS 1
#define PACKETS 2
#else
#define SLOTS 2
#define PACKETS 3
#endif
#define LAPS (SLOTS + 1)

#define STAMP 0	   /* S: packets written */
#define TAKEN 1	   /* R: packets read, as far as published */
#define ARMED 2	   /* R: struct tw_ring_reader: 0 or one of the next two */
#define ANY 1	   /* RESTING or ASLEEP */
#define ACTS 2	   /* COMPUTING */
#define POLLED 3   /* R */
#define WANTS 4	   /* S: struct tw_ring_wants */
#define S_POLLED 5 /* S's own mark */
#define CELLS 6

#include "tso.h"

#define since(from, to) (((to) + LAPS - (from)) % LAPS)

/* A bell is one or more bytes in the socket. Sending takes a locked instruction. */
bit r_bell, s_bell;
/* What each side remembers: link->rang. */
#define NEVER 15
byte s_rang = NEVER, r_rang = NEVER;
byte written, got;
bit deferred;     /* of S: it is on ep->deferred */
byte deferred_at; /* deferred_head */
/* For the monitor: a packet that R's engine must see lies unread. */
bit due;
byte due_at;

/* tw_shm_show_poll(): a new number. */
byte fresh;
#define queued(i, mark) (sb[cpu].n > i && sb[cpu].at[i] == mark && sb[cpu].val[i] == fresh)
inline mark_now(mark, known)
{
	d_step {
		space ->
		fresh = 1;
		do
		:: fresh == known || fresh == mem[mark] || queued(0, mark) || queued(1, mark) ->
			fresh++
		:: else -> break
		od;
		put(mark, fresh);
		fresh = 0
	}
}

/* tw_shm_doorbell_ring(): not when the last bell was rung at this very mark. */
inline ring(mark, known, bell)
{
	d_step {
		peek(v, mark);
		rung = (v != known);
		known = v;
		v = 0
	}
	if
	:: rung -> atomic { drained -> bell = 1 }
#ifndef NO_RING_FENCE
	:: !rung ->
		d_step {
			drained ->
			peek(v, mark);
			if
			:: v != known -> known = v; rung = 1; bell = 1
			:: else
			fi;
			v = 0
		}
#else
	:: else
#endif
	fi
}

/* tw_barrier_processes(), which reaches only who is registered. */
inline barrier(other)
{
	fence();
#ifndef FENCES
	barrier_on(other);
	fence()
#endif
}

/* Until the doorbell is due, it is of the first packet. */
inline defer()
{
	d_step {
#ifndef NO_DEFER
		if
		:: !deferred -> deferred = 1; deferred_at = written
		:: else
		fi
#else
		skip
#endif
	}
}

/* flush_deferred(): the packet was seen, or the peer is rung. */
inline flush_deferred()
{
	d_step {
		deferred ->
		deferred = 0;
		peek(v, TAKEN);
		seen = since(v, written) <= since(deferred_at, written);
		deferred_at = 0;
		if
		:: seen && v != written -> deferred = 1; deferred_at = written
		:: else
		fi;
		v = 0
	}
	if
	:: !seen -> ring(POLLED, s_rang, r_bell)
	:: else
	fi;
	d_step { seen = 0; rung = 0 }
}

active proctype sender()
{
	byte cpu = S;
	byte v, sent;
	bit rung, seen, engine, blocked, over;

	do
	:: !over && sent < PACKETS ->
		/* shm_do_send() */
		if
		:: engine = 0
#ifndef ROOM
		:: engine = 1
#endif
		fi;
		load(v, TAKEN);
		if
		:: since(v, written) < SLOTS ->
			d_step {
				space ->
				written = (written + 1) % LAPS;
				put(STAMP, written);
				if
				:: engine -> due = 1; due_at = written
				:: else
				fi;
				sent++;
				blocked = 0;
				v = 0
			}
#ifdef FENCES
#ifndef NO_SEND_FENCE
			fence();
#endif
#endif
			load(v, ARMED);
			if
			:: v == ANY || (v == ACTS && engine) ->
				ring(POLLED, s_rang, r_bell);
				if
				:: !rung && engine -> defer()
				:: else
				fi
			:: !v && engine -> defer()
			:: else
			fi
		:: else ->
			/* mark_blocked() */
#ifdef ROOM
			blocked = 1;
			load(v, ARMED);
			if
			:: v -> ring(POLLED, s_rang, r_bell)
			:: else
			fi;
			if
			:: !rung -> defer()
			:: else
			fi
#endif
		fi;
		d_step { v = 0; rung = 0; engine = 0 }
#ifdef ROOM
	:: blocked && !over ->
		/* sleep_as_leader(), shm_do_arm() of a sender without room */
		mark_now(S_POLLED, r_rang);
#ifndef NO_WANTS
		store(WANTS, 1);
#endif
#ifdef ROOM_OWN_FENCE
		fence();
#else
		barrier(R);
#endif
		load(v, TAKEN);
		if
		:: since(v, written) == SLOTS ->
			v = 0;
			/* Its own timer wakes it as well. */
			do
			:: flush_deferred()
			:: s_bell -> break
			od
		:: else
		fi;
		/* shm_do_disarm(), tw_shm_doorbells_read() */
		mark_now(S_POLLED, r_rang);
		store(WANTS, 0);
		atomic { drained -> s_bell = 0 }
		mark_now(S_POLLED, r_rang);
		fence();
		d_step { blocked = 0; v = 0 }
#endif
	:: flush_deferred()
	:: d_step { !over -> over = 1 }
	:: over && !deferred -> break
	od;
end:	false
}

/* tw_recv_ring(), tw_ring_publish() */
inline take()
{
	d_step {
		space ->
		got = (got + 1) % LAPS;
		put(TAKEN, got);
		if
		:: due && due_at == got -> due = 0; due_at = 0
		:: else
		fi
	}
#ifdef ROOM
#ifdef FENCES
#ifndef NO_TAKE_FENCE
	fence();
#endif
#endif
	load(v, WANTS);
	if
	:: v -> ring(S_POLLED, r_rang, s_bell)
	:: else
	fi;
	d_step { v = 0; rung = 0 }
#endif
}

/* tw_shm_doorbells_read() */
inline read_doorbells()
{
#ifdef MARK_FIRST
	mark_now(POLLED, s_rang);
#endif
	atomic { drained -> r_bell = 0 }
#ifndef NO_BELL_MARK
#ifndef MARK_FIRST
	mark_now(POLLED, s_rang);
#ifndef NO_BELL_FENCE
	fence()
#endif
#endif
#endif
}

/* The look that follows: sleep_as_leader(), idle_take_over(). */
inline look()
{
	do
	:: load(v, STAMP);
		if
		:: v != got -> take()
		:: else -> break
		fi
	od
}

/* enum tw_idle_state and its table. */
mtype = { POLLING, SERVED, RESTING, ASLEEP, COMPUTING };
mtype state = POLLING;

/* shm_do_arm(); v becomes what the look after it sees. */
inline arm(packets)
{
#ifdef LOOK_FIRST
	load(v, STAMP);
#endif
	mark_now(POLLED, s_rang);
	store(ARMED, packets);
#ifdef OWN_FENCE
	fence();
#else
#ifndef NO_BARRIER
	barrier(S);
#endif
#endif
#ifdef NO_LOOK
	v = got
#else
#ifdef LOOK_FIRST
	skip
#else
	load(v, STAMP)
#endif
#endif
}

inline disarm()
{
	store(ARMED, 0);
	mark_now(POLLED, s_rang)
}

active proctype receiver()
{
	byte cpu = R;
	byte v;
	bit rung;

	do
	:: state == POLLING ->
		/* A poll. */
		load(v, STAMP);
		if
		:: v != got -> take()
		:: else -> v = 0
		fi
	:: state == POLLING ->
		/* Some polls leave a mark: note_poll(). */
		mark_now(POLLED, s_rang)
	:: state == POLLING ->
		/* SPENT: sleep_as_leader() */
		state = ASLEEP;
		arm(ANY);
		if
		:: v == got ->
end_asleep:		r_bell
		:: v != got
		fi;
		v = 0;
		/* OVER */
		state = POLLING;
		disarm();
		read_doorbells();
#ifndef NO_LOOK_AFTER
		look();
#endif
		v = 0
	:: state == POLLING ->
		/* The program computes. TAKE: idle_take_over() */
end_computes:	r_bell;
		state = SERVED
	:: state == SERVED ->
		read_doorbells();
		look();
		v = 0;
		/* OVER */
		state = POLLING
#ifdef SERVICE
	:: state == POLLING && r_bell ->
		/* The program reads it itself: slow(), before the look of tw_progress(). */
		read_doorbells();
		look();
		v = 0
	:: state == SERVED ->
		read_doorbells();
		look();
		if
		:: state = RESTING; /* SPENT */
			arm(ANY)
		:: state = COMPUTING; /* NOTHING */
			arm(ACTS)
		fi;
		if
		:: v == got ->
			if
			:: true ->
				/* POLL: the program comes back, doorbells are for later. */
				state = POLLING
			:: true ->
end_rests:			r_bell;
				/* TAKE */
				state = SERVED
			fi
		:: v != got ->
			/* TAKE */
			state = SERVED
		fi;
		disarm();
		v = 0
#endif
	od
}

active proctype monitor()
{
end:	timeout ->
	assert(!(state == ASLEEP && written != got));
	assert(!(state == RESTING && written != got));
	assert(!((state == POLLING || state == COMPUTING) && due));
	assert(state != SERVED);
	assert(sender@end)
}
