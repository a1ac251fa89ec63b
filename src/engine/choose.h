/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Push, pull or both at once: which moves a long message fastest is learnt per size, from all
 * peers of a kind. Four transfers in 256 try a loser again, since cores move, and in up to 4,096
 * while that changes nothing; of those from 4 MiB on, one.
 */
#ifndef TW_CHOOSE_H
#define TW_CHOOSE_H

#include <stdbool.h>
#include <stdint.h>

#define TW_CHOOSE_CLASSES 8 /* by powers of four from 16 KiB */
#define TW_CHOOSE_RECENT 4

enum tw_proto {
	/* The first that is possible is used where nothing is known yet. */
	TW_PROTO_SPLIT, /* the receiver reads the front while the sender writes the rest */
	TW_PROTO_GET,	/* the receiver reads the sender's memory */
	TW_PROTO_COPY,	/* through the provider's packets */
	TW_NPROTOS
};
#define TW_PROTO_BIT(proto) (1u << (proto))
#define TW_ALL_PROTOS (TW_PROTO_BIT(TW_NPROTOS) - 1)

struct tw_choose {
	struct tw_choose_class {
		uint32_t count;		  /* transfers decided */
		uint32_t again;		  /* losers are tried from that one on */
		uint8_t best;		  /* enum tw_proto */
		uint8_t was;		  /* the same after the last tries */
		uint8_t calm, turn;	  /* tries in a row that changed nothing; all of them */
		uint8_t next[TW_NPROTOS]; /* place of the next sample */
		/* Ticks per KiB, 0 none. */
		uint32_t cost[TW_NPROTOS][TW_CHOOSE_RECENT];
	} classes[TW_CHOOSE_CLASSES];
};

/* One of those ways, a set of TW_PROTO_BIT() that is not empty. */
enum tw_proto tw_choose(struct tw_choose *c, uint32_t len, unsigned protos);
/* The way that was the fastest so far. */
enum tw_proto tw_choose_best(struct tw_choose *c, uint32_t len);
/* Whether the transfer that was just decided is to be timed. */
bool tw_choose_teaches(struct tw_choose *c, uint32_t len);
void tw_choose_sample(struct tw_choose *c, enum tw_proto proto, uint32_t len, uint64_t ticks);

#endif /* TW_CHOOSE_H */
