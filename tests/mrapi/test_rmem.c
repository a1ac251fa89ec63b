/* SPDX-License-Identifier: BSD-2-Clause */
/* 4.4.2 Remote memory: create, get, attach, detach, delete; test_rmem_io.c moves bytes. */
#include "mrapi/mrapit.h"

TestSuite(mrapi_rmem, .init = twc_job, .timeout = MR_TIMEOUT);

#define RMEM (&mr_kind[MR_RMEM])

static const mrapi_rmem_atype_t strict[] = {MRAPI_RMEM_ATYPE_DEFAULT, MRAPI_ACCESS_TYPE_DMA,
					    MRAPI_ACCESS_TYPE_SW_CACHE};
/* Not access types at all. */
static const mrapi_rmem_atype_t wrong[] = {(mrapi_rmem_atype_t)0, (mrapi_rmem_atype_t)5,
					   (mrapi_rmem_atype_t)77};

static char memory[1000];

static mrapi_rmem_hndl_t make(mrapi_rmem_id_t id, mrapi_rmem_atype_t atype)
{
	return mr_val(mrapi_rmem_create(id, memory, atype, NULL, sizeof(memory), &mr_st));
}

Test(mrapi_rmem, create_errors)
{
	mrapi_rmem_hndl_t h;

	mr_up(MR_NODE);
	mr_is(MRAPI_ERR_PARAMETER,
	      mrapi_rmem_create(1, NULL, MRAPI_RMEM_ATYPE_ANY, NULL, 10, &mr_st));
	mr_is(MRAPI_ERR_PARAMETER,
	      mrapi_rmem_create(1, memory, MRAPI_RMEM_ATYPE_ANY, NULL, 0, &mr_st));
	for (int i = 0; i < 3; i++)
		mr_is(MRAPI_ERR_RMEM_TYPENOTVALID,
		      mrapi_rmem_create(1, memory, wrong[i], NULL, 10, &mr_st));
	mr_is(MRAPI_ERR_RMEM_ID_INVALID,
	      mrapi_rmem_create(0xf0000000, memory, MRAPI_RMEM_ATYPE_ANY, NULL, 10, &mr_st));
	mr_is(MRAPI_ERR_RMEM_ID_INVALID, mrapi_rmem_get(1, MRAPI_RMEM_ATYPE_DEFAULT, &mr_st));
	h = make(1, MRAPI_RMEM_ATYPE_ANY);
	mr_is(MRAPI_ERR_RMEM_EXISTS,
	      mrapi_rmem_create(1, memory, MRAPI_RMEM_ATYPE_ANY, NULL, 10, &mr_st));
	mr_ok(mrapi_rmem_delete(h, &mr_st));
	mr_down();
}

/* Pieces of one memory that overlap, and some that only touch. */
Test(mrapi_rmem, conflict)
{
	static const struct {
		unsigned at, size;
		int collides;
	} tries[] = {{400, 200, 1}, {300, 101, 1}, {599, 100, 1}, {450, 10, 1},
		     {300, 500, 1}, {599, 1, 1},   {400, 1, 1},	  {300, 100, 0},
		     {600, 100, 0}, {0, 1, 0},	   {999, 1, 0}};
	mrapi_rmem_hndl_t h;

	mr_up(MR_NODE);
	h = mr_val(mrapi_rmem_create(1, memory + 400, MRAPI_RMEM_ATYPE_ANY, NULL, 200, &mr_st));
	for (size_t i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
		mr_is(tries[i].collides ? MRAPI_ERR_RMEM_CONFLICT : MRAPI_SUCCESS,
		      mrapi_rmem_create(2, memory + tries[i].at, MRAPI_RMEM_ATYPE_DEFAULT, NULL,
					tries[i].size, &mr_st));
		if (!tries[i].collides)
			mr_ok(mrapi_rmem_delete(
				mr_val(mrapi_rmem_get(2, MRAPI_RMEM_ATYPE_DEFAULT, &mr_st)),
				&mr_st));
	}
	/* It is free again when the first one is gone. */
	mr_ok(mrapi_rmem_delete(h, &mr_st));
	make(2, MRAPI_RMEM_ATYPE_DEFAULT);
	mr_down();
}

static void make_there(void *arg)
{
	mrapi_rmem_hndl_t *h = arg;

	*h = make(2, MRAPI_RMEM_ATYPE_DEFAULT);
}

/* The same address in two processes is no conflict. */
Test(mrapi_rmem, no_conflict_between_processes)
{
	mrapi_rmem_hndl_t *h = mr_shared(sizeof(*h));
	struct mr_peer p;

	mr_peer(&p, MR_PROCESS, 1);
	mr_up(MR_NODE);
	make(1, MRAPI_RMEM_ATYPE_DEFAULT);
	mr_do(&p, make_there, h);
	twc_eq(mr_val(mrapi_rmem_get(2, MRAPI_RMEM_ATYPE_DEFAULT, &mr_st)), *h);
	mr_down();
	mr_peer_end(&p);
}

/* 3.5.2 Strict semantics: the type of the creation and no other. */
Test(mrapi_rmem, strict)
{
	mr_up(MR_NODE);
	for (int c = 0; c < 3; c++) {
		mrapi_rmem_hndl_t h = make(1, strict[c]);
		mrapi_rmem_atype_t atype = (mrapi_rmem_atype_t)99;
		mrapi_size_t size = 0;

		mr_ok(mrapi_rmem_get_attribute(h, MRAPI_RMEM_ACCESS_TYPE, &atype, sizeof(atype),
					       &mr_st));
		twc_eq(atype, strict[c]);
		mr_ok(mrapi_rmem_get_attribute(h, MRAPI_RMEM_SIZE, &size, sizeof(size), &mr_st));
		twc_eq(size, sizeof(memory));
		for (int g = 0; g < 3; g++)
			mr_is(g == c ? MRAPI_SUCCESS : MRAPI_ERR_RMEM_ATYPE,
			      mrapi_rmem_get(1, strict[g], &mr_st));
		mr_is(MRAPI_ERR_RMEM_ATYPE_INVALID,
		      mrapi_rmem_get(1, MRAPI_RMEM_ATYPE_ANY, &mr_st));
		for (int g = 0; g < 3; g++)
			mr_is(MRAPI_ERR_RMEM_ATYPE_INVALID, mrapi_rmem_get(1, wrong[g], &mr_st));
		mr_ok(mrapi_rmem_delete(h, &mr_st));
	}
	mr_down();
}

/* Any semantics: each client has its own. */
Test(mrapi_rmem, any)
{
	mrapi_rmem_hndl_t h;

	mr_up(MR_NODE);
	h = make(1, MRAPI_RMEM_ATYPE_ANY);
	for (int g = 0; g < 3; g++) {
		mrapi_rmem_hndl_t mine = mr_val(mrapi_rmem_get(1, strict[g], &mr_st));

		mr_ok(mrapi_rmem_attach(mine, &mr_st));
		mr_ok(mrapi_rmem_detach(mine, &mr_st));
	}
	mr_is(MRAPI_ERR_RMEM_ATYPE_INVALID, mrapi_rmem_get(1, MRAPI_RMEM_ATYPE_ANY, &mr_st));
	mr_ok(mrapi_rmem_delete(h, &mr_st));
	mr_down();
}

Test(mrapi_rmem, aliases)
{
	twc_eq(MRAPI_RMEM_DEFAULT, MRAPI_RMEM_ATYPE_DEFAULT);
	twc_eq(MRAPI_RMEM_DUMMY, MRAPI_RMEM_ATYPE_DEFAULT);
	twc_eq(MRAPI_RMEM_DMA, MRAPI_ACCESS_TYPE_DMA);
	twc_eq(MRAPI_RMEM_SWCACHE, MRAPI_ACCESS_TYPE_SW_CACHE);
}

/* ---- attach and detach */

struct call {
	mrapi_rmem_hndl_t h;
	mrapi_rmem_id_t id;
	mrapi_rmem_atype_t atype;
	mrapi_status_t status;
};

static void get(void *arg)
{
	struct call *c = arg;

	mr_st = -1;
	c->h = mrapi_rmem_get(c->id, c->atype, &mr_st);
	c->status = mr_st;
}

static void attach(void *arg)
{
	struct call *c = arg;

	mr_st = -1;
	mrapi_rmem_attach(c->h, &mr_st);
	c->status = mr_st;
}

static void detach(void *arg)
{
	struct call *c = arg;

	mr_st = -1;
	mrapi_rmem_detach(c->h, &mr_st);
	c->status = mr_st;
}

static mrapi_status_t at(struct mr_peer *p, void (*fn)(void *), struct call *c)
{
	mr_do(p, fn, c);
	return c->status;
}

MR_BOTH(mrapi_rmem, attach_rules)
{
	struct call *c = mr_shared(sizeof(*c));
	struct mr_peer p;
	mrapi_rmem_hndl_t h;

	mr_peer(&p, where, 1);
	mr_up(MR_NODE);
	h = make(1, MRAPI_RMEM_ATYPE_DEFAULT);
	*c = (struct call){.id = 1, .atype = MRAPI_RMEM_ATYPE_DEFAULT};
	mr_eq(at(&p, get, c), MRAPI_SUCCESS);
	mr_eq(at(&p, detach, c), MRAPI_ERR_RMEM_NOTATTACHED);
	mr_eq(at(&p, attach, c), MRAPI_SUCCESS);
	mr_eq(at(&p, attach, c), MRAPI_ERR_RMEM_ATTACHED);
	/* Each node for itself. */
	mr_ok(mrapi_rmem_attach(h, &mr_st));
	mr_is(MRAPI_ERR_RMEM_ATTACHED, mrapi_rmem_attach(h, &mr_st));
	mr_ok(mrapi_rmem_detach(h, &mr_st));
	mr_is(MRAPI_ERR_RMEM_NOTATTACHED, mrapi_rmem_detach(h, &mr_st));
	mr_is(MRAPI_ERR_RMEM_ATTACH, mrapi_rmem_delete(h, &mr_st));
	mr_eq(at(&p, detach, c), MRAPI_SUCCESS);
	mr_eq(at(&p, detach, c), MRAPI_ERR_RMEM_NOTATTACHED);
	/* Only who created it may delete it. */
	mr_eq(mr_at_remove(&p, RMEM, c->h), MRAPI_ERR_RMEM_NOTOWNER);
	/* The failed deletes are not made up for. */
	mr_ok(mrapi_rmem_get(1, MRAPI_RMEM_ATYPE_DEFAULT, &mr_st));
	mr_ok(mrapi_rmem_delete(h, &mr_st));
	mr_is(MRAPI_ERR_RMEM_INVALID, mrapi_rmem_delete(h, &mr_st));
	mr_is(MRAPI_ERR_RMEM_INVALID, mrapi_rmem_attach(h, &mr_st));
	mr_is(MRAPI_ERR_RMEM_INVALID, mrapi_rmem_detach(h, &mr_st));
	mr_eq(at(&p, attach, c), MRAPI_ERR_RMEM_INVALID);
	mr_eq(at(&p, detach, c), MRAPI_ERR_RMEM_INVALID);
	mr_down();
	mr_peer_end(&p);
}

/* Attach with an access type (a variant in use). */
Test(mrapi_rmem, attach_with_type)
{
	mrapi_rmem_hndl_t h;

	mr_up(MR_NODE);
	h = make(1, MRAPI_ACCESS_TYPE_DMA);
	mr_is(MRAPI_ERR_RMEM_ATYPE, mrapi_rmem_attach(h, MRAPI_RMEM_ATYPE_DEFAULT, &mr_st));
	mr_is(MRAPI_ERR_RMEM_ATYPE, mrapi_rmem_attach(h, MRAPI_ACCESS_TYPE_SW_CACHE, &mr_st));
	mr_is(MRAPI_ERR_RMEM_ATYPE_INVALID, mrapi_rmem_attach(h, MRAPI_RMEM_ATYPE_ANY, &mr_st));
	mr_is(MRAPI_ERR_RMEM_ATYPE_INVALID, mrapi_rmem_attach(h, wrong[2], &mr_st));
	mr_is(MRAPI_ERR_RMEM_NOTATTACHED, mrapi_rmem_detach(h, &mr_st));
	mr_ok(mrapi_rmem_attach(h, MRAPI_ACCESS_TYPE_DMA, &mr_st));
	mr_is(MRAPI_ERR_RMEM_ATTACHED, mrapi_rmem_attach(h, MRAPI_ACCESS_TYPE_DMA, &mr_st));
	mr_ok(mrapi_rmem_detach(h, &mr_st));
	mr_ok(mrapi_rmem_delete(h, &mr_st));
	mr_down();
}

/* A client that finalizes or is killed is no longer attached. */
MR_BOTH(mrapi_rmem, client_leaves)
{
	double end = twt_now() + MR_LONG / 1000.;
	struct call *c = mr_shared(sizeof(*c));
	struct mr_peer p;
	mrapi_rmem_hndl_t h;

	mr_peer(&p, where, 1);
	mr_up(MR_NODE);
	h = make(1, MRAPI_RMEM_ATYPE_ANY);
	*c = (struct call){.id = 1, .atype = MRAPI_ACCESS_TYPE_SW_CACHE};
	mr_eq(at(&p, get, c), MRAPI_SUCCESS);
	mr_eq(at(&p, attach, c), MRAPI_SUCCESS);
	if (where == MR_THREAD)
		mr_peer_end(&p);
	else
		mr_peer_kill(&p);
	do
		mrapi_rmem_delete(h, &mr_st);
	while (where == MR_PROCESS && mr_st == MRAPI_ERR_RMEM_ATTACH && twt_now() < end);
	mr_eq(mr_st, MRAPI_SUCCESS);
	mr_down();
}

/* The owner goes: its memory is no longer to be had, and nobody crashes. */
static void own(void *arg)
{
	struct call *c = arg;

	static char there[500];

	c->h = mr_val(mrapi_rmem_create(c->id, there, MRAPI_RMEM_ATYPE_DEFAULT, NULL, sizeof(there),
					&mr_st));
}

Test(mrapi_rmem, owner_is_killed)
{
	double end = twt_now() + MR_LONG / 1000.;
	struct call *c = mr_shared(sizeof(*c));
	struct mr_peer p;
	char buf[10];

	mr_peer(&p, MR_PROCESS, 1);
	mr_up(MR_NODE);
	c->id = 5;
	mr_do(&p, own, c);
	mr_ok(mrapi_rmem_attach(c->h, &mr_st));
	mr_ok(mrapi_rmem_read(c->h, 0, buf, 10, 0, 10, 1, 0, 0, &mr_st));
	mr_peer_kill(&p);
	do
		mrapi_rmem_read(c->h, 0, buf, 10, 0, 10, 1, 0, 0, &mr_st);
	while (mr_st == MRAPI_SUCCESS && twt_now() < end);
	twc_check(mr_st != MRAPI_SUCCESS);
	do
		mrapi_rmem_create(5, memory, MRAPI_RMEM_ATYPE_DEFAULT, NULL, 10, &mr_st);
	while (mr_st == MRAPI_EXISTS && twt_now() < end);
	mr_eq(mr_st, MRAPI_SUCCESS);
	mr_down();
}

/* Shared memory can be promoted, too; it stays shared memory. */
MR_BOTH(mrapi_rmem, of_shared_memory)
{
	struct call *c = mr_shared(sizeof(*c));
	mrapi_shmem_hndl_t s;
	mrapi_rmem_hndl_t h;
	struct mr_peer p;
	char *mine;

	mr_peer(&p, where, 1);
	mr_up(MR_NODE);
	s = mr_val(mrapi_shmem_create(1, 5000, NULL, 0, NULL, &mr_st));
	mine = mr_val(mrapi_shmem_attach(s, &mr_st));
	h = mr_val(mrapi_rmem_create(1, mine + 100, MRAPI_RMEM_ATYPE_ANY, NULL, 1000, &mr_st));
	mr_is(MRAPI_ERR_RMEM_CONFLICT,
	      mrapi_rmem_create(2, mine, MRAPI_RMEM_ATYPE_ANY, NULL, 101, &mr_st));
	*c = (struct call){.id = 1, .atype = MRAPI_ACCESS_TYPE_DMA};
	mr_eq(at(&p, get, c), MRAPI_SUCCESS);
	mr_eq(at(&p, attach, c), MRAPI_SUCCESS);
	mr_eq(at(&p, detach, c), MRAPI_SUCCESS);
	mr_ok(mrapi_rmem_delete(h, &mr_st));
	mr_ok(mrapi_shmem_detach(s, &mr_st));
	mr_ok(mrapi_shmem_delete(s, &mr_st));
	mr_down();
	mr_peer_end(&p);
}
