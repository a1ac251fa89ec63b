/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of long messages, kept for the next ones and given back. */
#include <criterion/criterion.h>

#include "engine/engine.h"
#include "lib/twt.h"

#define SECOND tw_clock_us(1000000)
#define KEPT (32u << 20)
#define MIB (1u << 20)

static struct tw_slot_entry slot;
static const struct tw_interface interface;
static struct tw_ep *ep;

static void start(void)
{
	tw_clock_init();
	ep = calloc(1, sizeof(*ep));
	cr_assert_not_null(ep);
	ep->slot = &slot;
	ep->iface = &interface;
	/* A timer that is due already: no thread is asked for one. */
	atomic_store(&slot.deadline, 1);
}

static void stop(void)
{
	tw_unexp_msgs_fini(ep);
	free(ep);
}

TestSuite(umsg, .init = start, .fini = stop, .timeout = TWT_TIMEOUT);

Test(umsg, used_again)
{
	struct tw_unexp_msg *a = tw_unexp_msg_get(ep, MIB), *b = tw_unexp_msg_get(ep, MIB), *c;

	tw_unexp_msg_put(ep, a);
	tw_unexp_msg_put(ep, b);
	/* The last one is the warmest; a little less fits, half of it does not. */
	c = tw_unexp_msg_get(ep, MIB - 5);
	cr_assert_eq(c, b);
	cr_assert_eq(tw_unexp_msg_get(ep, MIB), a);
	tw_unexp_msg_put(ep, a);
	b = tw_unexp_msg_get(ep, MIB / 2 - 1);
	cr_assert_neq(b, a);
	cr_assert_eq(b->room, MIB / 2 - 1);
	tw_unexp_msg_put(ep, b);
	b = tw_unexp_msg_get(ep, MIB + 1);
	cr_assert_neq(b, a);
	tw_unexp_msg_put(ep, b);
	tw_unexp_msg_put(ep, c);
	cr_assert_eq(ep->longs.n, 4u);
}

/* No more than the bound, whatever is put back. */
Test(umsg, bounded)
{
	struct tw_unexp_msg *u[48];

	for (unsigned i = 0; i < 48; i++)
		u[i] = tw_unexp_msg_get(ep, MIB);
	for (unsigned i = 0; i < 48; i++)
		tw_unexp_msg_put(ep, u[i]);
	cr_assert_eq(ep->longs.n, 32u);
	cr_assert_eq(ep->longs.bytes, KEPT);
}

/* What nobody needed for a second goes back; what somebody did stays. */
Test(umsg, given_back)
{
	struct tw_unexp_msg *u[5];
	uint64_t at;

	for (unsigned i = 0; i < 5; i++)
		u[i] = tw_unexp_msg_get(ep, MIB);
	for (unsigned i = 0; i < 5; i++)
		tw_unexp_msg_put(ep, u[i]);
	at = tw_trim_expire(ep, tw_clock());
	cr_assert_gt(at, tw_clock());
	cr_assert_eq(ep->longs.n, 5u, "it is not time yet");
	cr_assert_eq(tw_trim_expire(ep, at), at + SECOND);
	cr_assert_eq(ep->longs.n, 5u, "there were none when the second began");
	for (unsigned i = 0; i < 100; i++) {
		u[0] = tw_unexp_msg_get(ep, MIB);
		u[1] = tw_unexp_msg_get(ep, MIB);
		tw_unexp_msg_put(ep, u[0]);
		tw_unexp_msg_put(ep, u[1]);
	}
	at += SECOND;
	cr_assert_eq(tw_trim_expire(ep, at), at + SECOND);
	cr_assert_eq(ep->longs.n, 2u);
	cr_assert_eq(ep->longs.bytes, 2 * MIB);
	cr_assert_eq(tw_trim_expire(ep, at + SECOND), 0u, "and nothing is to be done any more");
	cr_assert_eq(ep->longs.n, 0u);
	cr_assert_eq(ep->longs.bytes, 0u);
	cr_assert_null(ep->longs.first);
}

/* Any sizes in any order, against a model: who is given memory has all of it alone. */
Test(umsg, any_order)
{
	struct tw_unexp_msg *u[40] = {NULL};
	uint32_t len[40];
	uint64_t rng = 7, now = tw_clock();

	for (unsigned n = 0; n < 30000; n++) {
		uint64_t r = twt_random(&rng);
		unsigned i = r % 40;

		if (u[i]) {
			for (uint32_t k = 0; k < len[i]; k += 4096)
				cr_assert_eq(u[i]->data[k], (char)i);
			tw_unexp_msg_put(ep, u[i]);
			u[i] = NULL;
		} else {
			len[i] = (uint32_t)(r >> 8) % (1u << (4 + (r >> 40) % 17));
			u[i] = tw_unexp_msg_get(ep, len[i]);
			cr_assert_geq(u[i]->room, len[i]);
			for (uint32_t k = 0; k < len[i]; k += 4096)
				u[i]->data[k] = (char)i;
		}
		cr_assert_leq(ep->longs.bytes, KEPT);
		if (r >> 60 == 0)
			tw_trim_expire(ep, now += SECOND);
	}
	for (unsigned i = 0; i < 40; i++)
		if (u[i])
			tw_unexp_msg_put(ep, u[i]);
}
