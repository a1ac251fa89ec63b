/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who sleeps is woken: the arm, sleep and wake protocol of providers/shm/shm.c
 * (do_send, ring, must_act, owe, settle, publish, do_arm, do_disarm),
 * providers/shm/doorbell.c (tw_shm_doorbells_read) and src/engine/wait.c (sleep_as_leader).
 *
 * A sender puts packets into a ring and may sleep until there is room. A
 * receiver takes them and now and then sleeps, armed, or computes without a
 * call, when only its service thread hears the bell. The ring is two counters
 * here: ring.pml is about what lies in it.
 *
 * What is wrong: when nothing can happen any more, somebody sleeps although
 * there is something for it, or computes with a packet that its engine must see.
 *
 * The clock is left out. A poll mark is a number that is not the one before and
 * not one that the sender remembers. A debt is settled once the stores of either
 * side have left their queues, which takes less than STALE_US. That a
 * peer polled lately may be true or not at any moment. A look takes all that is
 * there, where the code takes BATCH packets of each ring.
 *
 * The wish for room is a variant, so that each search stays small.
 *
 * VARIANT ROOM		a sender sleeps until there is room; plain packets only
 * VARIANT SERVICE	the service thread sleeps armed while the program computes
 * VARIANT FENCES	the two sides are not reached by each other's membarrier
 * VARIANT FENCES ROOM	both
 * MUTATION NO_BARRIER	do_arm looks without a barrier
 * MUTATION OWN_FENCE	do_arm has only a fence of its own
 * MUTATION ROOM ROOM_OWN_FENCE	the same of a sender that sleeps for room
 * MUTATION LOOK_FIRST	do_arm looks, then sets the mark
 * MUTATION NO_LOOK	do_arm does not look at all
 * MUTATION NO_BELL_MARK	listen_bells leaves the poll mark as it is
 * MUTATION MARK_FIRST	listen_bells marks before it takes the bells
 * MUTATION NO_LOOK_AFTER	whoever slept does not look after it took the bells
 * MUTATION ROOM NO_WANTS	a sender that sleeps for room does not say so
 * MUTATION NO_OWE	a bell that is not rung is forgotten
 * MUTATION NO_OWE_ASLEEP	the same towards a peer that is armed
 * MUTATION SETTLE_EARLY	a debt is settled before its packet can be seen
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
#define ARMED 2	   /* R: struct tw_shm_activity */
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
bit owed;     /* of S: link->owed */
byte deferred_at; /* deferred_head */
/* For the monitor: a packet that R's engine must see lies unread. */
bit due;
byte due_at;

/* tw_shm_activity_now(): a new number. */
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

/* ring(): not when the last bell was rung at this very mark. */
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
	:: else
	fi
}

/* tw_barrier_hosts(), which reaches only who is registered. */
inline barrier(other)
{
	fence();
#ifndef FENCES
	barrier_on(other);
	fence()
#endif
}

/* settle(): the packet was seen, or the peer is rung. */
#ifdef SETTLE_EARLY
#define aged true
#else
#define aged (sb[S].n == 0 && sb[R].n == 0)
#endif
inline settle()
{
	d_step {
		owed && aged ->
		owed = 0;
		peek(v, TAKEN);
		seen = since(v, written) <= since(deferred_at, written);
		deferred_at = 0;
		v = 0
	}
	if
	:: !seen -> ring(POLLED, s_rang, r_bell)
	:: else
	fi;
	d_step { seen = 0; rung = 0 }
}

inline owe()
{
	d_step { owed = 1; deferred_at = written }
}

/* A peer that polls is not disturbed, only watched. */
inline must_act()
{
	if
	:: rung = 0
	:: ring(POLLED, s_rang, r_bell)
	fi;
	if
#ifndef NO_OWE
	:: !rung -> owe()
#endif
	:: else
	fi
}

active proctype sender()
{
	byte cpu = S;
	byte v, sent;
	bit rung, seen, engine, blocked, over;

	do
	:: !over && sent < PACKETS ->
		/* do_send() */
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
			:: v ->
				ring(POLLED, s_rang, r_bell);
				if
#ifndef NO_OWE_ASLEEP
				:: !rung && engine -> owe()
#endif
				:: else
				fi
			:: !v && engine -> must_act()
			:: else
			fi
		:: else ->
			/* no_room() */
#ifdef ROOM
			blocked = 1;
			must_act()
#endif
		fi;
		d_step { v = 0; rung = 0; engine = 0 }
#ifdef ROOM
	:: blocked && !over ->
		/* sleep_as_leader(), do_arm() of a sender without room */
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
			:: settle()
			:: s_bell -> break
			od
		:: else
		fi;
		/* do_disarm(), listen_bells() */
		mark_now(S_POLLED, r_rang);
		store(WANTS, 0);
		atomic { drained -> s_bell = 0 }
		mark_now(S_POLLED, r_rang);
		d_step { blocked = 0; v = 0 }
#endif
	:: settle()
	:: d_step { !over -> over = 1 }
	:: over && !owed -> break
	od;
end:	false
}

/* poll_link(), publish() */
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

/* listen_bells() */
inline hear()
{
#ifdef MARK_FIRST
	mark_now(POLLED, s_rang);
#endif
	atomic { drained -> r_bell = 0 }
#ifndef NO_BELL_MARK
#ifndef MARK_FIRST
	mark_now(POLLED, s_rang)
#endif
#endif
}

/* The look that follows: sleep_as_leader(), serve() in service.c. */
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

active proctype receiver()
{
	byte cpu = R;
	byte v;
	bit rung;

	do
	:: /* A poll. */
		load(v, STAMP);
		if
		:: v != got -> take()
		:: else -> v = 0
		fi
	:: /* Some polls leave a mark: note_poll(). */
		mark_now(POLLED, s_rang)
	:: true ->
		/* sleep_as_leader(), do_arm() */
#ifdef LOOK_FIRST
		load(v, STAMP);
#endif
		mark_now(POLLED, s_rang);
		store(ARMED, 1);
#ifdef OWN_FENCE
		fence();
#else
#ifndef NO_BARRIER
		barrier(S);
#endif
#endif
#ifdef NO_LOOK
		v = got;
#else
#ifndef LOOK_FIRST
		load(v, STAMP);
#endif
#endif
		if
#ifdef SERVICE
		/* The program comes back: its poll disarms, bells are for later. */
		:: true
#endif
		:: v == got ->
end_asleep:		r_bell;
#ifdef SERVICE
			hear()
#endif
		:: v != got
		fi;
		v = 0;
		/* do_disarm(), listen_bells() */
		store(ARMED, 0);
		mark_now(POLLED, s_rang);
#ifndef SERVICE
		hear();
#endif
#ifndef NO_LOOK_AFTER
		look();
#endif
		v = 0
#ifdef SERVICE
	:: r_bell ->
		/* The program hears it itself: slow(), before the look of tw_progress(). */
		hear();
		look();
		v = 0
#endif
	:: true ->
		/* The program computes; the service thread hears the bell and polls. */
end_computes:	r_bell;
		hear();
		look();
		v = 0
	od
}

active proctype monitor()
{
end:	timeout ->
	assert(!(receiver@end_asleep && written != got));
	assert(!(receiver@end_computes && due));
	assert(sender@end)
}
