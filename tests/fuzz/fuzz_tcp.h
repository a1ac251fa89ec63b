/* SPDX-License-Identifier: BSD-2-Clause */
/* The two sides of fuzz_tcp: the program, whose TCP network is fuzzed, and its peer. */
#ifndef FUZZ_TCP_H
#define FUZZ_TCP_H

#include "fuzz/fuzz.h"
#include "providers/net/tcp/tcp.h"

#define SLOTS 6
#define BIG (400u << 10) /* the last: more than a chunk, and than the system takes */
#define SECRET 0xee	 /* what is in memory that is not lent */

extern const struct tw_driver tw_driver_tcp;

enum use { FREE, LENT, GETS, PUTS };

struct slot {
	enum use use;
	uint8_t *mem; /* with a gap on both sides */
	size_t len;
	struct tw_driver_mr mr;
	void *path; /* of a transfer */
};
extern struct slot slots[SLOTS];

/* The program. */
extern struct program {
	void *instance, *path;
	struct tw_driver_tokens tokens;
	struct tw_tcp_address address;
	bool inside, broken;
	bool big; /* the big slot is in use */
	struct input *in;
} f;
void progress(unsigned times);

/* Its peer, in tcp_peer.c: a new one. */
void peer_begin(void);
/* Calls, or takes the call; the hello may be wrong. */
void peer_meet(void);
/* Has one frame more to say, of any kind. */
void peer_frame(void);
/* Says so many bytes at the most, and the program makes progress. */
void peer_deliver(size_t most);
void peer_listen(void);
bool peer_is_there(void);
void peer_hang_up(void);

#endif /* FUZZ_TCP_H */
