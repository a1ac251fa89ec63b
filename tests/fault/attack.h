/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a hostile process does to an endpoint; see fault_hostile.c.
 *
 *   attack.c          introductions, and which attack comes next
 *   attack_packets.c  packets and words in shared memory
 *   attack_certain.c  what a victim must notice, one by one
 */
#ifndef ATTACK_H
#define ATTACK_H

#include "engine/wire.h"
#include "fault/raw.h"
#include "stress/stress.h"

/* Messages of the hostile process carry this in their highest bits. */
#define HOSTILE_TAG (0xbadull << 52)
#define HOSTILE_MASK (0xfffull << 52)

#define HOSTILE_WINDOW 1 /* the key of the window that the victim has */
#define HOSTILE_WINDOW_SIZE 4096
#define ATTACK_LONGEST 8192 /* the longest payload in a ring of raw.c */

struct attacker {
	uint64_t rng;
	struct st_name victim, friend;
	/* The victim is asked to connect to this id, plus 1; it makes it 0 again. */
	atomic_uint *dial;
	const atomic_ullong *heard; /* messages that the victim has received */
	uint64_t hellos, connections, packets, scribbles, accepts, certain, asked;
};

/* One attack of a random kind. */
void attack(struct attacker *a);
/* Everything that must end the connection, one by one. */
void attack_certain(struct attacker *a);

/* Between the files ---------------------------------------------------------- */

/* A reference that the victim has told. */
struct told {
	uint8_t type;
	struct tw_ref ref;
	uint32_t want; /* bytes, with CTS */
};

/* What is known of the victim's requests. */
struct talk {
	struct raw *raw;
	uint32_t credits;
	struct told seen[16];
	unsigned nseen;
	uint8_t data[ATTACK_LONGEST];
};

uint64_t any(struct attacker *a);
uint32_t below(struct attacker *a, uint32_t n);
bool chance(struct attacker *a, uint32_t percent);
/* A number where numbers are interesting. */
uint64_t odd(struct attacker *a);
void spoil(struct attacker *a, void *mem, size_t len, unsigned times);
struct tw_shm_hello own_hello(struct attacker *a, uint16_t kind);
/* Reads what the victim sends, for its references. */
void attack_listen(struct attacker *a, struct talk *t);
/* Says things on a connection, and ends it. */
void attack_talk(struct attacker *a, struct raw *r);

#endif /* ATTACK_H */
