/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the memory of another process of the same user, which does not notice. */
#ifndef WHY_PEEK_H
#define WHY_PEEK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct tw_list;

#define PEEKS (1u << 19) /* the lists of a hostile process have no end */

struct peek {
	pid_t pid;
	bool denied;	/* the system refused a read */
	unsigned reads; /* so far, at most PEEKS */
};

/* In the other process. */
static inline uint64_t address(const void *p)
{
	return (uintptr_t)p;
}

/* All of it, or false: there is no such memory, no right to read it, or no read is left. */
bool peek(struct peek *m, uint64_t at, void *to, size_t len);

/*
 * Walks a list of the other process: calls see(arg, node) for the address of each node, until it
 * returns false, at most max times. False: the list is broken, as one that changes may be.
 */
bool peek_list(struct peek *m, uint64_t head, unsigned max, bool (*see)(void *arg, uint64_t node),
	       void *arg);

#endif /* WHY_PEEK_H */
