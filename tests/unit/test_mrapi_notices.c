/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Several processes of another host tell of its objects and nodes, and their news comes in any
 * order. There is no other host here: the test says what it would.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <unistd.h>

#include "lib/twt.h"
#include "mrapi/remote/remote.h"
#include "unit/mrapi_kit.h"

#define NIC 0x424242424242ull
#define ID 9u

static struct tw_ep ep;
static struct tw_group group = {.ep = &ep};
static struct tw_member from = {.group = &group,
				.where = NIC << 16 | TW_MRAPI_FIRST_ID,
				.state = TW_MEMBER_HERE};

static void join(void)
{
	mrapi_kit_job("news");
	mrapi_kit_up(7);
	tw_mrapi.seg->host[0].nic = NIC;
	tw_mrapi_remote_life(1, 1);
}

static void leave(void)
{
	mrapi_status_t st;

	mrapi_finalize(&st);
	cr_assert_eq(st, MRAPI_SUCCESS);
}

/* The object of that kind whose handle has that generation, in slot 3. */
static struct tw_mrapi_ctrl object(enum tw_mrapi_kind kind, uint32_t gen)
{
	return (struct tw_mrapi_ctrl){
		.kind = kind,
		.id = ID,
		.domain = 1,
		.flags = TW_MRAPI_DOMAIN_SHARED,
		.handle = (uint32_t)kind << TW_MRAPI_KIND_SHIFT |
			  (gen & TW_MRAPI_GEN_MASK) << TW_MRAPI_GEN_SHIFT | 3};
}

static struct tw_mrapi_ctrl node(uint32_t born)
{
	return (struct tw_mrapi_ctrl){
		.id = 100, .domain = 1, .node = born, .slot = 3, .key = from.where};
}

static void begun(struct tw_mrapi_ctrl c)
{
	c.what = TW_MRAPI_CTRL_CLAIM;
	cr_assert_eq(tw_mrapi_remote_serve(&from, &c), MRAPI_SUCCESS);
}

static void ended(struct tw_mrapi_ctrl c)
{
	c.what = TW_MRAPI_CTRL_GONE;
	cr_assert_eq(tw_mrapi_remote_serve(&from, &c), MRAPI_SUCCESS);
}

/* 0: none of that id or number is known. */
static uint32_t known(enum tw_mrapi_kind kind)
{
	const struct tw_mrapi_node *n;
	const struct tw_mrapi_obj *o;
	uint32_t there;

	tw_mrapi_admin_lock();
	n = kind ? NULL : tw_mrapi_node_find(1, 100);
	o = kind ? tw_mrapi_lookup(kind, ID) : NULL;
	there = n ? n->there : o ? o->there : 0;
	tw_mrapi_admin_unlock();
	return there;
}

Test(mrapi_notices, object_ended_first, .timeout = TWT_TIMEOUT)
{
	const enum tw_mrapi_kind kinds[] = {TW_MRAPI_MUTEX, TW_MRAPI_SEM, TW_MRAPI_RWL};

	join();
	for (unsigned i = 0; i < 3; i++) {
		enum tw_mrapi_kind k = kinds[i];

		ended(object(k, 5));
		begun(object(k, 5));
		cr_assert_eq(known(k), 0);
		begun(object(k, 6));
		cr_assert_eq(known(k), object(k, 6).handle);
		ended(object(k, 5));
		begun(object(k, 4));
		cr_assert_eq(known(k), object(k, 6).handle);
		begun(object(k, 6)); /* told twice */
		ended(object(k, 6));
		cr_assert_eq(known(k), 0);
		begun(object(k, 6));
		cr_assert_eq(known(k), 0);
	}
	leave();
}

Test(mrapi_notices, node_ended_first, .timeout = TWT_TIMEOUT)
{
	join();
	ended(node(5));
	begun(node(5));
	cr_assert_eq(known(0), 0);
	begun(node(6));
	cr_assert_eq(known(0), 6);
	begun(node(5));
	ended(node(5));
	cr_assert_eq(known(0), 6);
	ended(node(6));
	cr_assert_eq(known(0), 0);
	leave();
}

/* Generations start again after the last one. */
Test(mrapi_notices, generations_wrap, .timeout = TWT_TIMEOUT)
{
	join();
	for (uint32_t gen = 1; gen < 3 * TW_MRAPI_GEN_MASK; gen += 1000) {
		begun(object(TW_MRAPI_MUTEX, gen));
		cr_assert_eq(known(TW_MRAPI_MUTEX), object(TW_MRAPI_MUTEX, gen).handle);
		ended(object(TW_MRAPI_MUTEX, gen));
		begun(object(TW_MRAPI_MUTEX, gen));
		cr_assert_eq(known(TW_MRAPI_MUTEX), 0);
	}
	leave();
}

/* A host that was lost is met anew, with what it has, as is the next one with its address. */
Test(mrapi_notices, lost_and_met, .timeout = TWT_TIMEOUT)
{
	join();
	begun(object(TW_MRAPI_MUTEX, 9000));
	begun(node(9000));
	tw_mrapi_remote_forget(1);
	cr_assert(!known(TW_MRAPI_MUTEX) && !known(0));
	tw_mrapi_remote_life(1, 2);
	begun(object(TW_MRAPI_MUTEX, 1));
	begun(node(1));
	cr_assert_eq(known(TW_MRAPI_MUTEX), object(TW_MRAPI_MUTEX, 1).handle);
	cr_assert_eq(known(0), 1);
	leave();
}

/* The node ends amid the unlock: no endpoint is left that could say it to the mutex's host. */
Test(mrapi_notices, unlock_while_the_node_ends, .timeout = TWT_TIMEOUT)
{
	struct tw_mrapi_mutex *m;
	struct tw_mrapi_obj *o;
	mrapi_key_t key = 1;
	mrapi_status_t st;

	join();
	begun(object(TW_MRAPI_MUTEX, 5));
	tw_mrapi_admin_lock();
	o = tw_mrapi_lookup(TW_MRAPI_MUTEX, ID);
	tw_mrapi_admin_unlock();
	m = tw_container(o, struct tw_mrapi_mutex, obj);
	atomic_store(&m->word, tw_mrapi_me() | TW_MRAPI_REMOTE);
	mrapi_mutex_unlock(atomic_load(&o->handle), &key, &st);
	cr_assert_eq(st, MRAPI_ERR_NODE_NOTINIT, "%d", (int)st);
	leave();
}
