/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Push, pull or both at once: which moves a long message fastest is learnt per
 * peer and size. Four transfers in 256 try a loser again, since cores move, and in up
 * to 4,096 while that changes nothing; of those from 4 MiB on, one.
 */
#ifndef TW_CHOOSE_H
#define TW_CHOOSE_H

#include <stdbool.h>
#include <stdint.h>

#define TW_CHOOSE_CLASSES 8 /* by powers of four from 16 KiB */
#define TW_CHOOSE_RECENT 4

enum tw_way {
	/* What nothing is known of goes the first way that is possible. */
	TW_SPLIT, /* the receiver reads the front while the sender writes the rest */
	TW_PULL,  /* the receiver reads the sender's memory */
	TW_PUSH,  /* through the provider's packets */
	TW_WAYS
};
#define TW_WAY(way) (1u << (way))
#define TW_ALL_WAYS (TW_WAY(TW_WAYS) - 1)

struct tw_choose {
	struct tw_choose_class {
		uint32_t count;	       /* transfers decided */
		uint32_t again;	       /* losers are tried from that one on */
		uint8_t best;	       /* enum tw_way */
		uint8_t was;	       /* the same after the last tries */
		uint8_t calm, turn;    /* tries in a row that changed nothing; all of them */
		uint8_t next[TW_WAYS]; /* place of the next sample */
		/* Ticks per KiB, 0 none. */
		uint32_t cost[TW_WAYS][TW_CHOOSE_RECENT];
	} classes[TW_CHOOSE_CLASSES];
};

/* One of those ways, a set of TW_WAY() that is not empty. */
enum tw_way tw_choose(struct tw_choose *c, uint32_t len, unsigned ways);
/* Whether the transfer that was just decided is to be timed. */
bool tw_choose_teaches(struct tw_choose *c, uint32_t len);
void tw_choose_sample(struct tw_choose *c, enum tw_way way, uint32_t len, uint64_t ticks);

#endif /* TW_CHOOSE_H */
