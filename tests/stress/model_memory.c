/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared and remote memory at random: what each node wrote where. */
#include <stdlib.h>

#include "stress/model.h"

/* Every word is 0 or the handle: what was there before must not shine through. */
static void check_segment(struct node *n, char *p, mrapi_hndl_t h)
{
	for (int i = 0; i < 50; i++) {
		uint32_t *word = (uint32_t *)(void *)p + pick(n, SEGMENT_SIZE / 4);
		uint32_t was = __atomic_load_n(word, __ATOMIC_RELAXED);

		if (was && was != h)
			st_fail("segment %#x holds %#x", h, was);
		if (i % 2)
			__atomic_store_n(word, h, __ATOMIC_RELAXED);
	}
}

/* It is not there any more: then somebody has deleted it. */
static void segment_gone(struct node *n, unsigned s)
{
	said(MRAPI_ERR_SHM_INVALID);
	if (atomic_load(&shared->segment_deletes[s].begun) == n->segment[s].deletes)
		st_fail("segment %u is gone, but nobody deleted it", s);
	n->segment[s].h = 0;
}

static void attach_segment(struct node *n, unsigned s)
{
	struct known *k = &n->segment[s];

	if (!k->h) {
		k->deletes = atomic_load(&shared->segment_deletes[s].ended);
		k->h = mrapi_shmem_get(s, &st);
		if (st != MRAPI_SUCCESS) {
			said(MRAPI_ERR_SHM_ID_INVALID);
			k->h = mrapi_shmem_create(s, SEGMENT_SIZE, NULL, 0, NULL, &st);
		}
		if (st != MRAPI_SUCCESS) {
			said(MRAPI_EXISTS);
			k->h = 0;
			return;
		}
	}
	n->mapped[s] = mrapi_shmem_attach(k->h, &st);
	if (st != MRAPI_SUCCESS)
		segment_gone(n, s);
}

void use_segment(struct node *n)
{
	unsigned s = pick(n, SEGMENTS), what = pick(n, 8);
	mrapi_hndl_t h = n->segment[s].h;

	if (!n->mapped[s] && what < 7) {
		attach_segment(n, s);
	} else if (n->mapped[s] && what < 6) {
		check_segment(n, n->mapped[s], h);
		must(MRAPI_ERR_SHM_ATTACHED, mrapi_shmem_attach(h, &st));
	} else if (n->mapped[s]) {
		must(MRAPI_ERR_SHM_ATTACH, mrapi_shmem_delete(h, &st));
		ok(mrapi_shmem_detach(h, &st));
		mrapi_shmem_detach(h, &st);
		/* Others may have deleted it by now. */
		if (st != MRAPI_ERR_SHM_INVALID)
			said(MRAPI_ERR_SHM_NOTATTACHED);
		n->mapped[s] = NULL;
	} else if (h) {
		atomic_fetch_add(&shared->segment_deletes[s].begun, 1);
		mrapi_shmem_delete(h, &st);
		atomic_fetch_add(&shared->segment_deletes[s].ended, 1);
		if (st != MRAPI_ERR_SHM_ATTACH)
			n->segment[s].h = 0;
		if (st != MRAPI_ERR_SHM_ATTACH && st != MRAPI_SUCCESS)
			said(MRAPI_ERR_SHM_INVALID);
	}
}

void detach_segments(struct node *n)
{
	for (unsigned s = 0; s < SEGMENTS; s++) {
		if (n->mapped[s])
			ok(mrapi_shmem_detach(n->segment[s].h, &st));
		n->mapped[s] = NULL;
	}
}

/* ------------------------------------------------------------ remote memory */

void offer(struct node *n)
{
	n->mine = mrapi_rmem_create((mrapi_rmem_id_t)n->rank, n->memory, MRAPI_RMEM_ATYPE_ANY, NULL,
				    (mrapi_uint_t)nodes * STRIPE, &st);
	said(MRAPI_SUCCESS);
}

void withdraw(struct node *n)
{
	mrapi_rmem_delete(n->mine, &st);
	if (st == MRAPI_ERR_RMEM_ATTACH)
		return;
	said(MRAPI_SUCCESS);
	n->mine = 0;
}

static int attach_remote(struct node *n, int whose)
{
	static const mrapi_rmem_atype_t atype[] = {MRAPI_RMEM_ATYPE_DEFAULT, MRAPI_ACCESS_TYPE_DMA,
						   MRAPI_ACCESS_TYPE_SW_CACHE};
	struct remote *r = &n->remote[whose];

	r->h = mrapi_rmem_get((mrapi_rmem_id_t)whose, atype[pick(n, 3)], &st);
	if (st == MRAPI_ERR_RMEM_ID_INVALID)
		return 0;
	said(MRAPI_SUCCESS);
	mrapi_rmem_attach(r->h, &st);
	if (st == MRAPI_ERR_RMEM_INVALID)
		return 0; /* withdrawn meanwhile */
	said(MRAPI_SUCCESS);
	/* Others of this process may have cached it before. */
	ok(mrapi_rmem_sync(r->h, &st));
	r->attached = 1;
	return 1;
}

static void finish(struct node *n, mrapi_request_t *request)
{
	while (pick(n, 2)) {
		if (mrapi_test(request, NULL, &st))
			return;
		said(MRAPI_INCOMPLETE);
	}
	mrapi_wait(request, NULL, MRAPI_INFINITE, &st);
	said(MRAPI_SUCCESS);
}

/* A strided access to my stripe, checked against the model. */
static void access_remote(struct node *n, int whose)
{
	struct remote *r = &n->remote[whose];
	uint32_t bytes = 1 + pick(n, pick(n, 4) ? 60 : STRIPE / 2), stride = bytes + pick(n, 40);
	uint32_t most = STRIPE / stride, count = 1 + pick(n, most < 1 ? 1 : most);
	uint32_t off =
		pick(n, STRIPE - (count * stride > STRIPE ? STRIPE - 1 : count * stride) + 1);
	uint32_t there = (uint32_t)n->rank * STRIPE + off;
	char buf[STRIPE];
	mrapi_request_t request;
	int later = pick(n, 2), write = pick(n, 2);

	if (off + (count - 1) * stride + bytes > STRIPE)
		return;
	if (write) {
		twt_fill(buf, STRIPE, twt_random(&n->rng));
		for (uint32_t i = 0; i < count; i++)
			memcpy(r->model + off + i * stride, buf + i * bytes, bytes);
	}
	if (write && later)
		ok(mrapi_rmem_write_i(r->h, there, buf, 0, bytes, count, stride, bytes, &request,
				      &st));
	else if (write)
		ok(mrapi_rmem_write(r->h, there, buf, 0, bytes, count, stride, bytes, &st));
	else if (later)
		ok(mrapi_rmem_read_i(r->h, there, buf, 0, bytes, count, stride, bytes, &request,
				     &st));
	else
		ok(mrapi_rmem_read(r->h, there, buf, sizeof(buf), 0, bytes, count, stride, bytes,
				   &st));
	if (later)
		finish(n, &request);
	for (uint32_t i = 0; !write && i < count; i++)
		if (memcmp(r->model + off + i * stride, buf + i * bytes, bytes))
			st_fail("node %d reads something else at node %d than it wrote", n->rank,
				whose);
	n->moved += (uint64_t)bytes * count;
}

static void detach_remote(struct node *n, int whose)
{
	struct remote *r = &n->remote[whose];

	ok(mrapi_rmem_detach(r->h, &st));
	mrapi_rmem_flush(r->h, &st);
	/* Its owner may have withdrawn it by now. */
	if (st != MRAPI_ERR_RMEM_INVALID)
		said(MRAPI_ERR_RMEM_NOTATTACHED);
	r->attached = 0;
}

void use_remote(struct node *n)
{
	int whose = (int)pick(n, (unsigned)nodes);
	struct remote *r = &n->remote[whose];
	unsigned what = pick(n, 20);

	if (what == 0) {
		if (n->mine)
			withdraw(n);
		else
			offer(n);
	} else if (!r->attached) {
		attach_remote(n, whose);
	} else if (what < 3) {
		detach_remote(n, whose);
	} else if (what == 3) {
		ok(mrapi_rmem_flush(r->h, &st));
	} else if (what == 4) {
		ok(mrapi_rmem_sync(r->h, &st));
	} else {
		access_remote(n, whose);
	}
}

void detach_remotes(struct node *n)
{
	for (int i = 0; i < nodes; i++)
		if (n->remote[i].attached)
			detach_remote(n, i);
}

void check_remotes(struct node *n)
{
	char buf[STRIPE];

	for (int i = 0; i < nodes; i++) {
		struct remote *r = &n->remote[i];

		if (!r->attached && !attach_remote(n, i))
			st_fail("the memory of node %d is not to be had", i);
		ok(mrapi_rmem_read(r->h, (uint32_t)n->rank * STRIPE, buf, STRIPE, 0, STRIPE, 1, 0,
				   0, &st));
		if (memcmp(buf, r->model, STRIPE))
			st_fail("not all that node %d wrote at node %d is there", n->rank, i);
	}
}
