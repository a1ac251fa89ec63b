/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the suite shares: the providers it runs over, what each of them can do,
 * and two engines that are connected. With `self' both are one and the same.
 */
#ifndef PAIR_H
#define PAIR_H

#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include "provider/fake.h"

/* Not every provider can do everything; a test names what it is about. */
enum trait {
	ANY = 0,
	OTHERS = 1,   /* reaches other endpoints: they have names, are asked, go away */
	FAULTS = 2,   /* a get tells of an invalid address, and does not crash */
	BREAKS = 4,   /* a malformed packet ends the link; else it is only dropped */
	PROMPT = 16,  /* what was sent is there */
	SHARED = 8,   /* memory: each side sees at once what the other does */
	KEEPS = 64,   /* what was sent comes even if its sender dies, or ends, at once */
	QUIET = 32,   /* a descriptor tells of packets: no timer looks for them */
	RIGHTS = 256, /* the owner of memory enforces the rights of its key */
	DEVICE = 128, /* needs hardware: only where TWT_PROVIDER names it */
};

struct traits {
	char name[16];
	unsigned can;
};

struct criterion_test_params providers_that(unsigned can);

/* A test that every provider passes that has those traits. */
#define CONFORMANCE(name, traits_needed)                                                           \
	ParameterizedTestParameters(conformance, name)                                             \
	{                                                                                          \
		return providers_that(traits_needed);                                              \
	}                                                                                          \
	ParameterizedTest(struct traits *t, conformance, name, .timeout = TWT_TIMEOUT)

struct pair {
	const struct tw_provider *ops;
	unsigned can;
	struct fake a, second, *b;
	struct fake_peer *ab, *ba; /* the connection from either side */
};

/* The one of a test; both are open, with ids 1 and 2. */
struct pair *pair_open(const struct traits *t);
/* The same, and a has connected to b. */
struct pair *pair_connected(const struct traits *t);
void pair_close(struct pair *p);
/* One more connection from a to b; true once the peers are known. */
void pair_connect(struct pair *p, struct fake_peer **ab, struct fake_peer **ba);
void pair_disconnect(struct fake_peer *p);
/* Pumps both and checks that nothing went wrong. */
void pair_pump(struct pair *p);
void pair_check(const struct pair *p);

#define PAIR_SECONDS (10 * (int)twt_patience()) /* for anything to happen */

#define UNTIL(p, condition)                                                                        \
	do {                                                                                       \
		double until_end = twt_now() + PAIR_SECONDS;                                       \
		while (!(condition)) {                                                             \
			pair_pump(p);                                                              \
			cr_assert_lt(twt_now(), until_end, "never: %s", #condition);               \
		}                                                                                  \
	} while (0)

#endif /* PAIR_H */
