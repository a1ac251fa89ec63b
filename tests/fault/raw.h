/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The other end of a shared memory connection, without an engine: it shakes
 * hands as the provider does, and then its user writes what it likes.
 */
#ifndef RAW_H
#define RAW_H

#include "providers/shm/shm.h"

struct raw {
	int sock;
	pid_t victim;
	void *map;
	size_t size;
	struct tw_ring_share share;
	struct tw_ring_tx tx;
	struct tw_ring_rx rx;
	struct tw_shm_hello other; /* how the victim introduced itself */
};

/* A proper introduction. */
struct tw_shm_hello raw_hello(uint16_t kind, uint64_t nic_id, uint32_t endpoint_id, uint32_t key);
/* Sends bytes with descriptors; false when that fails. */
bool raw_send(int sock, const void *bytes, size_t len, const int *fds, unsigned nfds);
/* Connects to an endpoint; false when it refuses. */
bool raw_connect(struct raw *r, uint64_t nic_id, uint32_t endpoint_id,
		 const struct tw_shm_hello *hello);
/* Takes one connection of a listener; false when nobody comes or it is odd. */
bool raw_accept(struct raw *r, int listener, const struct tw_shm_hello *hello, int ms);
void raw_close(struct raw *r);
/* A descriptor that no peer should send, of a random kind; -1 when there is none. */
int raw_odd_fd(uint64_t random);
/* The other side has hung up, within so many milliseconds. */
bool raw_dropped(const struct raw *r, int ms);

#endif /* RAW_H */
