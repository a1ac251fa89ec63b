/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writing a peer's memory, and revoking that right: tw_ring_put_begin(),
 * tw_ring_put_end() and tw_ring_revoke() of src/shmem/ring.c, remote_put()
 * of remote.c, revoke() of links.c, and the packet PUT of src/engine/transfer.c.
 *
 * The writer writes messages into memory of the owner's, piece by piece, and
 * sends PUT after each; it may be killed at any moment. The owner uses a message
 * when PUT has come. At any moment it ends the link, and from then on the memory
 * is its program's again: nobody else's store may ever reach it.
 *
 * A process that is killed finishes its system call first, and what it stored is
 * in memory before its socket hangs up. Left out: an owner that gives up waiting
 * for a process that stands still, or that sets PUTTING without writing.
 *
 * MUTATION NO_PUT_FENCE	the writer has no fence between setting PUTTING and reading REVOKED
 * MUTATION NO_REVOKE_FENCE	the owner has none between revoking and reading PUTTING
 * MUTATION LOOK_FIRST	the writer reads REVOKED, then sets PUTTING
 * MUTATION WAIT_FIRST	the owner waits for a write, then revokes
 * MUTATION NO_WAIT	the owner does not wait for a write
 * MUTATION LOOK_ONCE	the writer reads REVOKED before its first piece only
 * MUTATION END_FIRST	the writer clears PUTTING before it is done
 * MUTATION SAY_FIRST	PUT leaves before the last piece is written
 */
#define CPUS 2
#define PIECES 2
#define MESSAGES 2

#define REVOKED 0 /* struct tw_ring_taken */
#define PUTTING 1 /* struct tw_ring_wants */
#define STAMP 2	  /* PUT packets in the ring */
#define DATA 3	  /* the owner's memory */
#define CELLS (DATA + PIECES)
#define MINE 9 /* what the owner's program writes there in the end */

#include "tso.h"

bit dead, killed;

inline set_putting(what)
{
	store(PUTTING, what)
}

inline send_put()
{
	store(STAMP, message)
}

inline killable()
{
	if
	:: killed -> goto over
	:: else
	fi
}

/* Until nobody can be writing any more. */
inline await_end()
{
	do
	:: load(v, PUTTING);
		if
		:: v == 0 -> break
		:: v && dead -> break
		:: v && !dead
		fi
	od
}

active proctype writer()
{
	byte cpu = 0;
	byte message = 1, piece, v;
	bit failed, begun;

	do
	:: message <= MESSAGES && !failed ->
#ifdef SAY_FIRST
		send_put();
#endif
		begun = 0;
		piece = 0;
		do
		:: piece < PIECES && !failed ->
			killable();
			/* tw_ring_put_begin() */
#ifdef LOOK_FIRST
			load(v, REVOKED);
			set_putting(1);
#else
			set_putting(1);
#ifndef NO_PUT_FENCE
			fence();
#endif
#ifdef LOOK_ONCE
			if
			:: begun -> v = 0
			:: else -> load(v, REVOKED)
			fi;
			begun = 1;
#else
			load(v, REVOKED);
#endif
#endif
			killable();
			if
			:: v -> failed = 1
			:: else ->
#ifdef END_FIRST
				set_putting(0);
#endif
				/* process_vm_writev() */
				store(DATA + piece, message)
			fi;
			killable();
			/* tw_ring_put_end() */
			set_putting(0);
			piece++;
			v = 0
		:: else -> break
		od;
		killable();
#ifndef SAY_FIRST
		if
		:: failed
		:: else -> send_put()
		fi;
#endif
		message++
	:: else -> break
	od;
over:	drained;
	dead = 1
}

active proctype killer()
{
	if
	:: killed = 1
	:: true
	fi
}

active proctype owner()
{
	byte cpu = 1;
	byte v, got, piece;

	/* The link is up: it uses what PUT says is there. */
	do
	:: true ->
		load(v, STAMP);
		if
		:: v ->
			piece = 0;
			do
			:: piece < PIECES ->
				load(got, DATA + piece);
				/* The next message may be on its way already. */
				assert(got >= v);
				piece++
			:: else -> break
			od;
			piece = 0;
			got = 0
		:: else
		fi;
		v = 0
	:: true -> break
	od;
	piece = 0;
	/* revoke() */
#ifdef WAIT_FIRST
	await_end();
	store(REVOKED, 1);
	fence();
#else
	store(REVOKED, 1);
#ifndef NO_REVOKE_FENCE
	fence();
#endif
#ifndef NO_WAIT
	await_end();
#endif
#endif
	/* The program's memory again. */
	do
	:: piece < PIECES -> store(DATA + piece, MINE); piece++
	:: else -> break
	od;
	fence();
	piece = 0;
	do
	:: piece = 1 - piece
	:: load(v, DATA + piece);
		assert(v == MINE)
	:: break
	od
}
