/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MRAPI's remote memory over verbs needs nothing of its owner's process: reads and
 * writes, whole and strided, complete while that is stopped. TAGWIRE_NODES has
 * node 0 on this host and node 4 on the other one.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/twr.h"
#include "lib/twt.h"
#include "vm/vm.h"

#define LEN (1u << 20)
#define ROUNDS 3
#define ID 1
#define STRIDE 1000u /* of PIECES of PIECE bytes */
#define PIECE 100u
#define PIECES 200u
#define FEW 2 /* sends: as messages it would be four, or 64 packets */
#define SOON_MS (10000 * twt_patience())

static uint8_t mine[LEN], model[LEN];

static int own(void *arg, int fd)
{
	static uint8_t bytes[LEN];
	mrapi_rmem_hndl_t h;
	uint64_t round;

	(void)arg;
	twr_node(4);
	OK(h = mrapi_rmem_create(ID, bytes, MRAPI_RMEM_DEFAULT, NULL, LEN, &st));
	do {
		twt_fill(bytes, LEN, 1);
		HOLDS(twt_put(fd, "!", 1) == 0 && twt_get(fd, &round, sizeof(round)) == 0);
		HOLDS(twt_put(fd, bytes, LEN) == 0);
	} while (round < ROUNDS);
	HOLDS(twt_get(fd, &round, 1) == 0);
	OK(mrapi_rmem_delete(h, &st));
	OK(mrapi_finalize(&st));
	return 0;
}

/* Ends what the devices counted since: the bytes went, and hardly a message. */
static void by_devices(const char *what, uint64_t sends, uint64_t packets)
{
	sends = vm_devices("rdma_sends") - sends;
	packets = vm_devices("rcvd_pkts") - packets;
	printf("%s of %u bytes, their owner stopped: %llu sends, %llu packets on the wire\n", what,
	       LEN, (unsigned long long)sends, (unsigned long long)packets);
	fflush(stdout);
	HOLDS(sends <= FEW && packets >= LEN / 4096);
}

static void read_whole(mrapi_rmem_hndl_t h)
{
	uint64_t sends = vm_devices("rdma_sends"), packets = vm_devices("rcvd_pkts");

	memset(mine, 0, LEN);
	OK(mrapi_rmem_read(h, 0, mine, LEN, 0, LEN, 1, 0, 0, &st));
	HOLDS(memcmp(mine, model, LEN) == 0);
	by_devices("read", sends, packets);
}

static void write_whole(mrapi_rmem_hndl_t h, uint64_t seed)
{
	uint64_t sends = vm_devices("rdma_sends"), packets = vm_devices("rcvd_pkts");
	mrapi_request_t request;
	size_t moved = 0;

	twt_fill(model, LEN, seed);
	OK(mrapi_rmem_write_i(h, 0, model, 0, LEN, 1, 0, 0, &request, &st));
	OK(mrapi_wait(&request, &moved, SOON_MS, &st));
	HOLDS(moved == LEN);
	by_devices("write", sends, packets);
}

static void strides(mrapi_rmem_hndl_t h)
{
	memset(mine, 0x5a, PIECE * PIECES);
	OK(mrapi_rmem_write(h, 7, mine, 0, PIECE, PIECES, STRIDE, PIECE, &st));
	for (unsigned i = 0; i < PIECES; i++)
		memcpy(model + 7 + (size_t)i * STRIDE, mine + (size_t)i * PIECE, PIECE);
	memset(mine, 0, PIECE * PIECES);
	OK(mrapi_rmem_read(h, 0, mine, PIECE * PIECES, 0, PIECE, PIECES, STRIDE, PIECE, &st));
	for (unsigned i = 0; i < PIECES; i++)
		HOLDS(memcmp(model + (size_t)i * STRIDE, mine + (size_t)i * PIECE, PIECE) == 0);
}

int main(void)
{
	struct twt_child owner;
	mrapi_rmem_hndl_t h;
	char word;

	twt_spawn(&owner, own, NULL);
	HOLDS(twt_get(owner.fd, &word, 1) == 0);
	twr_node(0);
	OK(h = mrapi_rmem_get(ID, MRAPI_RMEM_DEFAULT, &st));
	OK(mrapi_rmem_attach(h, &st));
	for (uint64_t round = 1; round <= ROUNDS; round++) {
		twt_fill(model, LEN, 1);
		vm_stop(owner.pid);
		read_whole(h);
		write_whole(h, round + 1);
		strides(h);
		read_whole(h);
		HOLDS(vm_state(owner.pid) == 'T' && kill(owner.pid, SIGCONT) == 0);
		/* What its own program sees. */
		HOLDS(twt_put(owner.fd, &round, sizeof(round)) == 0);
		HOLDS(twt_get(owner.fd, mine, LEN) == 0 && memcmp(mine, model, LEN) == 0);
		HOLDS(round == ROUNDS || twt_get(owner.fd, &word, 1) == 0);
	}
	OK(mrapi_rmem_detach(h, &st));
	HOLDS(twt_put(owner.fd, "!", 1) == 0);
	HOLDS(twt_join(&owner, TWT_LONG) == 0);
	OK(mrapi_finalize(&st));
	return 0;
}
