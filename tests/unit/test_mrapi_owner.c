/* SPDX-License-Identifier: BSD-2-Clause */
/* A library thread runs for a node of one membership, not for a later node like it. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "lib/twt.h"
#include "mrapi/mrapi_internal.h"
#include "unit/mrapi_kit.h"

static struct tw_mrapi_owner come(mrapi_node_t number)
{
	mrapi_kit_up(number);
	return tw_mrapi_owner(tw_mrapi_me());
}

static void *second(void *owner)
{
	*(struct tw_mrapi_owner *)owner = come(8);
	pause(); /* until the test ends; a thread's end would end its node */
	return NULL;
}

/* The process becomes a member, alone in its job, and two nodes come up in it. */
static struct tw_mrapi_owner join(void)
{
	struct tw_mrapi_owner owner = {0};
	pthread_t thread;

	come(7);
	cr_assert_eq(pthread_create(&thread, NULL, second, &owner), 0);
	while (!*(volatile uint32_t *)&owner.me)
		usleep(100);
	return owner;
}

static void leave(struct tw_mrapi_owner owner)
{
	mrapi_status_t st;

	mrapi_finalize(&st);
	tw_mrapi_act_for(owner);
	mrapi_finalize(&st);
	cr_assert_eq(st, MRAPI_SUCCESS);
	tw_mrapi_act_for((struct tw_mrapi_owner){0});
}

static mrapi_node_t acting_for(struct tw_mrapi_owner owner)
{
	mrapi_status_t st;
	mrapi_node_t number;

	tw_mrapi_act_for(owner);
	number = mrapi_node_id_get(&st);
	cr_assert_eq(st, MRAPI_SUCCESS);
	tw_mrapi_act_for((struct tw_mrapi_owner){0});
	return number;
}

/* A new node may have the slot and the order of birth of an old one. */
Test(mrapi_owner, rejoined, .timeout = TWT_TIMEOUT)
{
	struct tw_mrapi_owner old, now;

	mrapi_kit_job("owner");
	old = join();
	cr_assert_eq(acting_for(old), 8);
	leave(old);
	now = join();
	cr_assert_eq(acting_for(now), 8);
	cr_assert_neq(now.join, old.join);
	old.me = now.me;
	old.born = now.born;
	cr_assert_eq(acting_for(old), 7, "the process's first node");
}
