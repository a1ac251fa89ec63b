/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A wire that is cut while remote memory is read and written over it (mrapi(7),
 * Other hosts): tests/net/rmem_wire runs this. What is cut for less than
 * TAGWIRE_RETRY goes on and every byte is right; after longer the owner counts as
 * lost, to itself the reader does, and both go on with each other once they can.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/twr.h"
#include "lib/twt.h"

#define SIZE 1000000u
#define RETRY_MS 8000u
#define FLAP_MS 500u
#define SOON_S TWT_LONG /* a hang, not a delay */

enum { FIRST = 1, SECOND };

/* Written by the one named, read by all. */
struct shared {
	_Atomic(uint32_t) turns, lost, found; /* the reader */
	_Atomic(bool) cut, mended;	      /* for good; and back */
	_Atomic(bool) deleted;		      /* the owner */
};
static struct shared *shared;
static char bytes[SIZE], mine[SIZE];

/* Waits for something that another process does. */
#define UNTIL(what)                                                                                \
	do {                                                                                       \
		for (double end = twt_now() + SOON_S; !(what); usleep(1000))                       \
			HOLDS(#what &&twt_now() < end);                                            \
	} while (0)

/* ------------------------------------------------------------------ the owner */

static int own(void *arg, int fd)
{
	mrapi_status_t st = MRAPI_ERR_RMEM_ATTACH;
	mrapi_rmem_hndl_t h;
	char word;

	(void)arg;
	twr_who = "owner";
	twr_node(4);
	OK(h = mrapi_rmem_create(FIRST, bytes, MRAPI_RMEM_DEFAULT, NULL, SIZE, &st));
	HOLDS(twt_put(fd, "r", 1) == 0);
	UNTIL(shared->cut);
	/* Attached it is until the reader counts as lost here. */
	UNTIL((mrapi_rmem_delete(h, &st), st != MRAPI_ERR_RMEM_ATTACH));
	if (st != MRAPI_SUCCESS)
		FAIL("deleting", st);
	shared->deleted = true;
	twt_fill(mine, SIZE, SECOND);
	OK(h = mrapi_rmem_create(SECOND, mine, MRAPI_RMEM_DEFAULT, NULL, SIZE, &st));
	HOLDS(twt_get(fd, &word, 1) == 0);
	OK(mrapi_rmem_delete(h, &st));
	OK(mrapi_finalize(&st));
	return 0;
}

/* ------------------------------------------------------------------ the reader */

/* Writes and reads it all, at once or as requests; how the first bad one ended. */
static mrapi_status_t one_turn(mrapi_rmem_hndl_t h, uint32_t turn)
{
	mrapi_status_t st;
	mrapi_request_t r[2];
	size_t moved;

	twt_fill(bytes, SIZE, turn);
	mrapi_rmem_write(h, 0, bytes, 0, SIZE, 1, 0, 0, &st);
	if (st != MRAPI_SUCCESS)
		return st;
	memset(mine, 0, SIZE);
	if (turn % 2) {
		mrapi_rmem_read(h, 0, mine, SIZE, 0, SIZE, 1, 0, 0, &st);
		if (st != MRAPI_SUCCESS)
			return st;
	} else {
		mrapi_rmem_read_i(h, 0, mine, 0, SIZE / 2, 1, 0, 0, &r[0], &st);
		if (st != MRAPI_SUCCESS)
			return st;
		mrapi_rmem_read_i(h, SIZE / 2, mine, SIZE / 2, SIZE / 2, 1, 0, 0, &r[1], &st);
		for (int i = st == MRAPI_SUCCESS ? 1 : 0; i >= 0; i--) {
			mrapi_status_t end;

			mrapi_wait(&r[i], &moved, SOON_S * 1000, &end);
			if (st == MRAPI_SUCCESS)
				st = end;
		}
		if (st != MRAPI_SUCCESS)
			return st;
	}
	HOLDS(twt_check(mine, SIZE, turn) == SIZE);
	return MRAPI_SUCCESS;
}

static int read_on(void *arg, int fd)
{
	mrapi_status_t st = MRAPI_SUCCESS;
	mrapi_rmem_hndl_t h;

	(void)fd;
	twr_who = arg;
	setenv("TAGWIRE_RMEM", arg, 1);
	twr_node(0);
	OK(h = mrapi_rmem_get(FIRST, MRAPI_RMEM_DEFAULT, &st));
	OK(mrapi_rmem_attach(h, &st));
	while (st == MRAPI_SUCCESS) {
		st = one_turn(h, shared->turns + 1);
		if (st == MRAPI_SUCCESS)
			shared->turns++;
	}
	if (!shared->cut || st != MRAPI_ERR_RMEM_INVALID)
		FAIL(shared->cut ? "after the cut" : "a short cut", st);
	/* It stays so, and nothing waits for that host any more. */
	IS(MRAPI_ERR_RMEM_INVALID, mrapi_rmem_read(h, 0, mine, SIZE, 0, 1, 1, 0, 0, &st));
	IS(MRAPI_ERR_RMEM_INVALID, mrapi_rmem_detach(h, &st));
	IS(MRAPI_ERR_RMEM_ID_INVALID, mrapi_rmem_get(FIRST, MRAPI_RMEM_DEFAULT, &st));
	shared->lost = 1;
	UNTIL(shared->mended);
	UNTIL((h = mrapi_rmem_get(SECOND, MRAPI_RMEM_DEFAULT, &st), st == MRAPI_SUCCESS));
	OK(mrapi_rmem_attach(h, &st));
	OK(mrapi_rmem_read(h, 0, mine, SIZE, 0, SIZE, 1, 0, 0, &st));
	HOLDS(twt_check(mine, SIZE, SECOND) == SIZE);
	OK(mrapi_rmem_detach(h, &st));
	shared->found = 1;
	OK(mrapi_finalize(&st));
	return 0;
}

/* ------------------------------------------------------------------------ main */

static void wire(const char *what)
{
	char cmd[200];

	snprintf(cmd, sizeof(cmd), "%s %s", getenv("TWT_WIRE"), what);
	HOLDS(system(cmd) == 0);
}

/* The reader does so many turns more, unless it has failed. */
static void await_turns(struct twt_child *reader, uint32_t n)
{
	uint32_t from = shared->turns;
	double end = twt_now() + SOON_S;

	while (shared->turns - from < n) {
		if (twt_now() > end) {
			twt_join(reader, 0);
			FAIL("the reader does not go on", MRAPI_SUCCESS);
		}
		usleep(1000);
	}
}

static void cut(const char *way)
{
	struct twt_child owner, reader;
	double start;
	char word;

	memset(shared, 0, sizeof(*shared));
	twt_spawn(&owner, own, NULL);
	HOLDS(twt_get(owner.fd, &word, 1) == 0);
	twt_spawn_here(&reader, read_on, (void *)(uintptr_t)way);
	await_turns(&reader, 3);
	for (int i = 0; i < 3; i++) {
		wire("down");
		usleep(FLAP_MS * 1000 * twt_slow());
		wire("up");
		await_turns(&reader, 3);
	}
	printf("%s: went on after three short cuts\n", way);
	await_turns(&reader, 3);
	shared->cut = true;
	wire("down");
	start = twt_now();
	UNTIL(shared->lost);
	printf("%s: the owner was lost after %.1f s\n", way, twt_now() - start);
	UNTIL(shared->deleted);
	wire("up");
	shared->mended = true;
	UNTIL(shared->found);
	HOLDS(twt_join(&reader, TWT_LONG) == 0);
	HOLDS(twt_put(owner.fd, "e", 1) == 0);
	HOLDS(twt_join(&owner, TWT_LONG) == 0);
	printf("%s: and found again\n", way);
}

int main(void)
{
	char retry[16];

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!getenv("TWT_NETNS") || !getenv("TWT_WIRE")) {
		fprintf(stderr, "net_rmem_wire: needs two hosts, see tests/net/rmem_wire\n");
		return 2;
	}
	snprintf(retry, sizeof(retry), "%u", RETRY_MS * twt_slow());
	setenv("TAGWIRE_RETRY", retry, 1);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	HOLDS(shared != MAP_FAILED);
	cut("network");
	cut("served");
	return 0;
}
