/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of x86 processors for Promela, which by itself is sequentially
 * consistent and proves nothing about missing barriers. Every processor has a
 * queue of stores that the others do not see yet: a store enters it, a load
 * looks into one's own first, and memory takes the oldest at any later moment.
 *
 * A model defines CPUS and CELLS; in its processes `cpu' is the own number.
 */
#ifndef DEPTH
#define DEPTH 3
#endif

typedef queue {
	byte n;
	byte at[DEPTH];
	byte val[DEPTH]
};
queue sb[CPUS];
byte mem[CELLS];
byte k;

/*
 * The newest own store to that cell, else what memory holds. peek() and put()
 * are for use inside a d_step, with steps that touch only what is private;
 * put() needs `space' before it.
 */
inline peek(into, cell)
{
	into = mem[cell];
	k = 0;
	do
	:: k < sb[cpu].n ->
		if
		:: sb[cpu].at[k] == cell -> into = sb[cpu].val[k]
		:: else
		fi;
		k++
	:: else -> break
	od;
	k = 0
}

#define space (sb[cpu].n < DEPTH)
inline put(cell, what)
{
	sb[cpu].at[sb[cpu].n] = cell;
	sb[cpu].val[sb[cpu].n] = what;
	sb[cpu].n++
}

inline load(into, cell)
{
	d_step { peek(into, cell) }
}

inline store(cell, what)
{
	d_step { space -> put(cell, what) }
}

/* The oldest store of a processor reaches memory. */
inline commit(who)
{
	mem[sb[who].at[0]] = sb[who].val[0];
	sb[who].n--;
	k = 0;
	do
	:: k < sb[who].n ->
		sb[who].at[k] = sb[who].at[k + 1];
		sb[who].val[k] = sb[who].val[k + 1];
		k++
	:: else -> break
	od;
	sb[who].at[sb[who].n] = 0;
	sb[who].val[sb[who].n] = 0;
	k = 0
}

/* An own fence, and what a locked instruction or a system call implies. */
#define drained (sb[cpu].n == 0)
inline fence()
{
	drained
}

/*
 * What membarrier(2) does to a processor, to one after the other at any moments
 * of the call. The call begins with a fence of its own.
 */
inline barrier_on(other)
{
	d_step {
		do
		:: sb[other].n > 0 -> commit(other)
		:: else -> break
		od
	}
}

active proctype memory()
{
end:	do
	:: d_step { sb[0].n > 0 -> commit(0) }
	:: d_step { sb[1].n > 0 -> commit(1) }
#if CPUS > 2
	:: d_step { sb[2].n > 0 -> commit(2) }
#endif
	od
}
