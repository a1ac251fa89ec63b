/* SPDX-License-Identifier: BSD-2-Clause */
/* Rings that are not looked at in every poll. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <unistd.h>

#include "base/settings.h"
#include "lib/twt.h"
#include "provider/fake.h"

#define PEERS 40

extern const struct tw_provider tw_provider_shm;

/* Who serves a program that computes polls once for a bell: that must be enough. */
Test(inactive, bell_is_enough, .timeout = TWT_TIMEOUT)
{
	struct fake *center = calloc(1, sizeof(*center)), *other = calloc(PEERS, sizeof(*other));
	struct fake_peer *p[PEERS];

	char job[40];

	snprintf(job, sizeof(job), "inactive-%d", (int)getpid());
	setenv("TAGWIRE_JOB", job, 1);
	cr_assert(tw_settings_load());
	tw_clock_init();
	cr_assert_eq(fake_open(center, &tw_provider_shm, 1), TW_OK);
	for (unsigned i = 0; i < PEERS; i++) {
		cr_assert_eq(fake_open(&other[i], &tw_provider_shm, 2 + i), TW_OK);
		p[i] = fake_connect(&other[i], FAKE_BOARD, 1, center->host.self.filter);
		while (p[i]->state == FAKE_NEW) {
			fake_pump(center);
			fake_pump(&other[i]);
		}
		cr_assert_eq(p[i]->state, FAKE_UP);
	}
	for (unsigned i = 0; i < 3 * PEERS; i++) {
		struct fake_peer *from = p[i * 7 % PEERS], *to = NULL;

		for (unsigned k = 0; k < center->npeers; k++)
			if (center->peers[k].other.endpoint_id == 2 + i * 7 % PEERS)
				to = &center->peers[k];
		cr_assert_not_null(to);
		/* So long that it counts as inactive. */
		usleep(2000);
		cr_assert_eq(fake_send(from, TW_SEND_ENGINE, 8), TW_OK);
		fake_events(center);
		center->ops->progress(center->instance);
		cr_assert_eq(to->got, from->sent, "packet %u waits in an inactive ring", i);
	}
	for (unsigned i = 0; i < PEERS; i++)
		fake_close(&other[i]);
	fake_close(center);
	free(other);
	free(center);
}
