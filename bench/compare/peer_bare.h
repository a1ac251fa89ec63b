/* SPDX-License-Identifier: BSD-2-Clause */
/* No library: one word at a time through shared memory, for what the frame has to say. */
#include <string.h>

#include "launch.h"

#define PEER_HAS_BLOCKING

static struct mailbox {
	_Alignas(64) _Atomic(bool) full;
	uint64_t word;
} * boxes; /* one to each rank */

static void peer_version(char *text, size_t room)
{
	snprintf(text, room, "none");
}

static void peer_launch(void)
{
	boxes = launch_share(MAX_RANKS * sizeof *boxes);
	rank = launch_fork(ranks);
}

static void peer_open(void)
{
}

static void peer_await(int r)
{
	(void)r;
}

static void peer_connect(int r)
{
	(void)r;
}

static void peer_close(void)
{
	launch_join();
}

static inline void peer_send(int to, const void *buf, size_t len, uint32_t tag)
{
	(void)tag;
	while (atomic_load(&boxes[to].full))
		launch_yield();
	if (len)
		memcpy(&boxes[to].word, buf, len);
	atomic_store(&boxes[to].full, true);
}

static inline void peer_recv(int from, void *buf, size_t len, uint32_t tag)
{
	(void)from;
	(void)tag;
	while (!atomic_load(&boxes[rank].full))
		launch_yield();
	if (len)
		memcpy(buf, &boxes[rank].word, len);
	atomic_store(&boxes[rank].full, false);
}
