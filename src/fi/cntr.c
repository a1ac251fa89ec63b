/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters. */
#include <stdlib.h>

#include "fi/fi.h"
#include "shmem/spin.h"

void tw_fi_cntr_count(struct tw_fi_cntr *c, bool error)
{
	atomic_fetch_add_explicit(error ? &c->errors : &c->value, 1, memory_order_relaxed);
	tw_fi_woken(&c->w);
}

static void cntr_look(struct tw_fi_cntr *c)
{
	tw_fi_wait_look(&c->w);
	atomic_store(&c->w.seen, tw_fi_cntr_sum(c));
}

static uint64_t cntr_read(struct fid_cntr *fid)
{
	struct tw_fi_cntr *c = tw_fi_of(struct tw_fi_cntr, fid);

	cntr_look(c);
	return atomic_load(&c->value);
}

static uint64_t cntr_readerr(struct fid_cntr *fid)
{
	struct tw_fi_cntr *c = tw_fi_of(struct tw_fi_cntr, fid);

	cntr_look(c);
	return atomic_load(&c->errors);
}

static int cntr_change(struct fid_cntr *fid, bool error, uint64_t value, bool add)
{
	struct tw_fi_cntr *c = tw_fi_of(struct tw_fi_cntr, fid);
	_Atomic(uint64_t) *what = error ? &c->errors : &c->value;

	if (add)
		atomic_fetch_add(what, value);
	else
		atomic_store(what, value);
	tw_fi_wake_all(&c->w);
	return 0;
}

static int cntr_add(struct fid_cntr *fid, uint64_t value)
{
	return cntr_change(fid, false, value, true);
}

static int cntr_set(struct fid_cntr *fid, uint64_t value)
{
	return cntr_change(fid, false, value, false);
}

static int cntr_adderr(struct fid_cntr *fid, uint64_t value)
{
	return cntr_change(fid, true, value, true);
}

static int cntr_seterr(struct fid_cntr *fid, uint64_t value)
{
	return cntr_change(fid, true, value, false);
}

static bool cntr_ready(struct tw_fi_waiter *w, uint64_t seen)
{
	return tw_fi_cntr_sum(tw_container(w, struct tw_fi_cntr, w)) != seen;
}

static int cntr_wait(struct fid_cntr *fid, uint64_t threshold, int timeout)
{
	struct tw_fi_cntr *c = tw_fi_of(struct tw_fi_cntr, fid);
	uint64_t errors = atomic_load(&c->errors), end = tw_fi_end(timeout), seen;
	struct tw_spin spin;
	int rc = 0;

	tw_spin_start(&spin, tw_clock());
	for (;;) {
		uint64_t now = tw_clock();

		pthread_testcancel(); /* holding nothing: nowhere else */
		tw_fi_wait_look(&c->w);
		seen = tw_fi_cntr_sum(c);
		if (atomic_load(&c->value) >= threshold) {
			atomic_store(&c->w.seen, seen);
			return 0;
		}
		if (atomic_load(&c->errors) != errors)
			return -FI_EAVAIL;
		if (now >= end)
			return -FI_ETIMEDOUT;
		/* A counter without a wait object wakes nobody; programs wait for it all the same. */
		if (c->w.obj == FI_WAIT_NONE && tw_spin_on(&spin, NULL))
			continue;
		rc = tw_fi_wait(&c->w, seen, end);
		if (rc && rc != -FI_EAGAIN)
			return rc;
	}
}

static int cntr_close(struct fid *fid)
{
	struct tw_fi_cntr *c = tw_fi_from(struct tw_fi_cntr, fid);
	int rc = tw_fi_wait_fini(&c->w);

	if (rc == 0)
		free(c);
	return rc;
}

static struct fi_ops cntr_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = cntr_close,
	.control = tw_fi_wait_control,
	.ops_open = tw_fi_no_ops,
};

static struct fi_ops_cntr cntr_ops = {
	.size = sizeof(struct fi_ops_cntr),
	.read = cntr_read,
	.readerr = cntr_readerr,
	.add = cntr_add,
	.set = cntr_set,
	.wait = cntr_wait,
	.adderr = cntr_adderr,
	.seterr = cntr_seterr,
};

int tw_fi_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **out,
		    void *context)
{
	struct tw_fi_domain *d = tw_fi_of(struct tw_fi_domain, domain);
	enum fi_wait_obj obj = attr ? attr->wait_obj : FI_WAIT_UNSPEC;
	struct tw_fi_cntr *c;
	int rc;

	if (attr && (attr->events != FI_CNTR_EVENTS_COMP || attr->flags))
		return -FI_EINVAL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -FI_ENOMEM;
	rc = tw_fi_wait_init(&c->w, d, obj, attr ? attr->wait_set : NULL, cntr_ready);
	if (rc) {
		free(c);
		return rc;
	}
	c->fid.fid = (struct fid){FI_CLASS_CNTR, context, &cntr_fid_ops};
	c->fid.ops = &cntr_ops;
	*out = &c->fid;
	return 0;
}
