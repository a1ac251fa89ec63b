/* SPDX-License-Identifier: BSD-2-Clause */
/* What a hostile process does to an endpoint; see fault_hostile.c. */
#ifndef ATTACK_H
#define ATTACK_H

#include "stress/stress.h"

/* Messages of the hostile process carry this in their highest bits. */
#define HOSTILE_TAG (0xbadull << 52)
#define HOSTILE_MASK (0xfffull << 52)

struct attacker {
	uint64_t rng;
	struct st_name victim, friend;
	/* The victim is asked to connect to this id, plus 1; it makes it 0 again. */
	atomic_uint *dial;
	uint64_t hellos, connections, packets, scribbles, accepts, certain;
};

/* One attack of a random kind. */
void attack(struct attacker *a);
/* Every packet that must end the connection, one by one. */
void attack_certain(struct attacker *a);

#endif /* ATTACK_H */
