/* SPDX-License-Identifier: BSD-2-Clause */
#include "fault/attack.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/fds.h"

#define LISTEN_ID 900

uint64_t any(struct attacker *a)
{
	return twt_random(&a->rng);
}

uint32_t below(struct attacker *a, uint32_t n)
{
	return (uint32_t)((any(a) >> 32) * n >> 32);
}

bool chance(struct attacker *a, uint32_t percent)
{
	return below(a, 100) < percent;
}

uint64_t odd(struct attacker *a)
{
	static const uint64_t edges[] = {0,
					 1,
					 2,
					 39,
					 40,
					 41,
					 255,
					 1024,
					 8192,
					 8193,
					 65535,
					 65536,
					 TW_RING_PART,
					 TW_RING_PART | TW_RING_BYTES_LEAST / TW_LINE,
					 TW_RING_JUMP - 1,
					 TW_RING_JUMP,
					 0x7fffffff,
					 0x80000000,
					 0xfffffffe,
					 0xffffffff,
					 0x100000000,
					 ~0ull - 100,
					 ~0ull};

	switch (below(a, 3)) {
	case 0:
		return edges[below(a, sizeof(edges) / sizeof(*edges))];
	case 1:
		return below(a, 300);
	default:
		return any(a);
	}
}

struct tw_shm_hello own_hello(struct attacker *a, uint16_t kind)
{
	return raw_hello(kind, a->victim.nic, 100 + below(a, 50), ST_KEY);
}

void spoil(struct attacker *a, void *mem, size_t len, unsigned times)
{
	while (times--) {
		size_t at = below(a, (uint32_t)len);

		((uint8_t *)mem)[at] = (uint8_t)(chance(a, 50) ? any(a) : odd(a));
	}
}

/* An introduction with good descriptors and one wrong field. */
static void wrong_field(struct attacker *a, struct tw_shm_hello h)
{
	struct raw r;

	switch (below(a, 4)) {
	case 0:
		h.nslots = (uint32_t)odd(a);
		break;
	case 1:
		h.nbytes = (uint32_t)odd(a);
		break;
	case 2:
		h.nic_id = chance(a, 50) ? a->friend.nic : odd(a);
		h.endpoint_id = chance(a, 50)	? a->friend.id
				: chance(a, 50) ? a->victim.id
						: (uint32_t)odd(a);
		h.session = (uint32_t)odd(a);
		break;
	default:
		spoil(a, &h, sizeof(h), 1 + below(a, 4));
	}
	if (raw_connect(&r, a->victim.nic, a->victim.id, &h))
		raw_close(&r);
}

/* One with any descriptors, perhaps of another length. */
static void wrong_descriptors(struct attacker *a, struct tw_shm_hello h)
{
	uint8_t bytes[256];
	unsigned nfds = below(a, 5), n = 0;
	int fds[4], sock;
	size_t len = sizeof(h);

	if (tw_shm_dial(a->victim.nic, a->victim.id, &sock) != TW_OK)
		return;
	memset(bytes, (int)any(a), sizeof(bytes));
	memcpy(bytes, &h, sizeof(h));
	if (chance(a, 50))
		len = below(a, sizeof(bytes));
	if (chance(a, 30))
		spoil(a, bytes, sizeof(h), 8);
	while (n < nfds && (fds[n] = raw_odd_fd(any(a))) >= 0)
		n++;
	/* Odd memory for the rings, and all else is good. */
	if (n == 1 && chance(a, 70)) {
		len = sizeof(h);
		memcpy(bytes, &h, sizeof(h));
	}
	raw_send(sock, bytes, len, fds, n);
	/* Some say more, or leave without waiting, or with the answer unread. */
	if (chance(a, 30))
		raw_send(sock, bytes, len, fds, n);
	if (chance(a, 50))
		st_sleep(200e-6);
	while (n)
		close(fds[--n]);
	tw_fd_close(sock);
}

static void bad_hello(struct attacker *a)
{
	struct tw_shm_hello h = own_hello(a, TW_SHM_CONNECT);

	a->hellos++;
	if (chance(a, 40))
		wrong_field(a, h);
	else
		wrong_descriptors(a, h);
}

/* Has the victim connect to us, and answers in some way. */
static void accept_it(struct attacker *a)
{
	struct tw_shm_hello h = own_hello(a, TW_SHM_ACCEPT);
	double end = twt_now() + ST_LONG;
	struct raw r;
	struct tw_sock_listener listener;

	if (tw_shm_listen(a->victim.nic, LISTEN_ID, &listener) != TW_OK)
		st_fail("the id %d is taken", LISTEN_ID);
	h.endpoint_id = LISTEN_ID;
	if (chance(a, 30))
		h.kind = TW_SHM_REFUSE, h.why = (uint32_t)(chance(a, 80) ? below(a, 16) : odd(a));
	else if (chance(a, 40))
		spoil(a, &h, sizeof(h), 1 + below(a, 3));
	atomic_store(a->dial, LISTEN_ID + 1);
	if (raw_accept(&r, listener.fd[TW_SOCK_OWN], chance(a, 90) ? &h : NULL, 2000)) {
		a->accepts++;
		if (h.kind == TW_SHM_ACCEPT)
			attack_talk(a, &r);
		else
			raw_close(&r);
	}
	tw_sock_listen_end(&listener);
	while (atomic_load(a->dial)) {
		if (twt_now() > end)
			st_fail("the victim's connect does not end");
		st_sleep(1e-3);
	}
}

void attack(struct attacker *a)
{
	struct tw_shm_hello h;
	struct raw r;

	switch (below(a, 10)) {
	case 0:
	case 1:
	case 2:
		bad_hello(a);
		break;
	case 3:
		accept_it(a);
		break;
	default:
		h = own_hello(a, TW_SHM_CONNECT);
		if (raw_connect(&r, a->victim.nic, a->victim.id, &h))
			attack_talk(a, &r);
	}
}
