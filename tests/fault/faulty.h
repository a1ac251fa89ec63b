/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Providers that fail now and then, as the contract allows. A program that links
 * faulty.c gets every provider wrapped, in place of providers/registry.c. What
 * happens follows from the seed and from the order of the calls.
 */
#ifndef FAULTY_H
#define FAULTY_H

#include <stdint.h>

/* How often, in a thousand calls. */
struct faulty {
	uint64_t seed;
	_Atomic(unsigned) again;  /* send() finds no room */
	_Atomic(unsigned) delay;  /* a packet is not delivered yet */
	_Atomic(unsigned) eperm;  /* a get is not allowed, now and from then on */
	_Atomic(unsigned) efault; /* a get finds no memory */
	_Atomic(unsigned) lost;	  /* a get loses the peer */
	_Atomic(unsigned) down;	  /* the peer goes down at a packet, in a million */
};

/* Set before an endpoint is opened. */
extern struct faulty faulty;

/* How often each happened. */
struct faulty_count {
	uint64_t again, delay, eperm, efault, lost, down;
};
extern struct faulty_count faulty_count;

#endif /* FAULTY_H */
