/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An engine of the simplest kind, to drive a provider with: it numbers its
 * packets, checks what arrives, and remembers what the provider told it.
 */
#ifndef FAKE_H
#define FAKE_H

#include "base/clock.h"
#include "base/compiler.h"
#include "base/counters.h"
#include "lib/twt.h"
#include "providers/provider.h"

#define FAKE_BOARD 0x027400000001ull
#define FAKE_OTHER 0x027400000011ull /* where endpoint 2 lives, if there are two */
#define FAKE_PEERS 512
#define FAKE_WINDOW 0x5151 /* granted by incoming() */

enum fake_state { FAKE_NEW, FAKE_UP, FAKE_REFUSED, FAKE_DOWN };

struct fake;

/* One connection as the engine sees it. */
struct fake_peer {
	struct fake *f;
	struct tw_link *link;
	enum fake_state state;
	enum tw_err why; /* it was refused, or went down */
	struct tw_ident other;
	uint64_t sent, got; /* packets */
	uint64_t offered;   /* calls of packet() */
	bool ended;	    /* by us: nothing may come any more */
};

struct fake {
	struct tw_host host;
	const struct tw_provider *ops;
	void *instance;
	uint64_t board, timer;
	uint64_t counters[TW_NCOUNTERS];
	struct fake_peer peers[FAKE_PEERS];
	unsigned npeers, incoming;
	bool backwards;	   /* deal with descriptors in reverse order */
	bool unpolled;	   /* progress() is not called */
	bool woken;	   /* by the upcall, since the last progress */
	const char *wrong; /* the first thing that was not as it should be */
	/* What the engine is told to do. */
	enum tw_err accept; /* answer to incoming() */
	unsigned again;	    /* so many packet() calls end in TW_AGAIN */
	bool (*on_packet)(struct fake_peer *p, enum tw_err *err); /* false: not taken */
	void *arg;
};

/* TW_OK, or what the provider says; the settings are the defaults, the job unique. */
enum tw_err fake_open(struct fake *f, const struct tw_provider *ops, uint32_t endpoint_id);
void fake_close(struct fake *f);
/* Begins to connect; the peer may be up or refused already. */
struct fake_peer *fake_connect(struct fake *f, uint64_t nic_id, uint32_t endpoint_id, uint32_t key);

/* Sends the peer's next packet; len bytes in random pieces. */
enum tw_err fake_send(struct fake_peer *p, enum tw_send_class cls, uint32_t len);
/* Sends until there is no room; how many. */
unsigned fake_fill(struct fake_peer *p, enum tw_send_class cls, uint32_t len);
/* What an engine does now and then: packets, descriptors, timers. */
void fake_pump(struct fake *f);
/* Only descriptors and timers. */
void fake_events(struct fake *f);
/* Ends arm(). */
void fake_disarm(struct fake *f);
/* Only timers. */
void fake_expire(struct fake *f);
/* Whether it is woken, in one way or the other, within so many milliseconds. */
bool fake_woken(const struct fake *f, int ms);

/* How many addresses of NICs it was told to keep; it takes any for that of FAKE_OTHER. */
extern unsigned fake_kept;

/* Bytes that packets are made of. */
const uint8_t *fake_noise(void);

#endif /* FAKE_H */
