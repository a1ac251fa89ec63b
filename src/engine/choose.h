/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Push or pull: which moves a long message faster is learnt per peer and size.
 * The loser is tried again on one transfer in 64, since cores move.
 */
#ifndef TW_CHOOSE_H
#define TW_CHOOSE_H

#include <stdbool.h>
#include <stdint.h>

#define TW_CHOOSE_CLASSES 8 /* by powers of four from 16 KiB */
#define TW_CHOOSE_RECENT 4

enum tw_way { TW_PUSH, TW_PULL, TW_WAYS };

struct tw_choose {
	struct tw_choose_class {
		uint32_t count;			       /* transfers decided */
		uint8_t best;			       /* enum tw_way */
		uint8_t next[TW_WAYS];		       /* place of the next sample */
		uint32_t cost[TW_WAYS][TW_CHOOSE_RECENT]; /* ticks per KiB, 0 none */
	} classes[TW_CHOOSE_CLASSES];
};

enum tw_way tw_choose(struct tw_choose *c, uint32_t len);
void tw_choose_sample(struct tw_choose *c, enum tw_way way, uint32_t len, uint64_t ticks);

#endif /* TW_CHOOSE_H */
