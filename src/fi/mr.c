/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Registered memory: a window of each endpoint of the domain that peers may reach it through.
 * Memory for local use only needs none.
 */
#include <stdlib.h>

#include "fi/drain.h"

#define RIGHTS (FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)

#define CLOSE_US 1000000 /* for peers to let go of memory, */
#define LOOK_US 1000	 /* which may be other endpoints of this domain */

static int open_window(struct tw_fi_ep *e, const struct tw_fi_mr *m)
{
	struct tw_ep *ep = m->rights ? tw_fi_enter(e) : NULL;
	uint64_t key = m->fid.key;
	unsigned tell = e->caps & FI_RMA_EVENT ? TW_WINDOW_REPORT : 0;
	enum tw_err err;

	if (!ep)
		return 0;
	err = tw_window_register(ep, m->base, m->len, m->rights | tell, &key);
	tw_leave_unfinished(ep);
	return err == TW_OK ? 0 : err == TW_EFAULT ? -FI_EINVAL : -FI_ENOMEM;
}

static void progress_all(struct tw_fi_domain *d)
{
	tw_list_walk(&d->eps, struct tw_fi_ep, e, in_domain)
		tw_fi_progress(e);
}

/*
 * Peers let go of it by themselves. For those that neither poll nor have a service thread, or that
 * ignore it, the network then refuses the memory.
 */
static void close_window(struct tw_fi_ep *e, const struct tw_fi_mr *m)
{
	uint64_t end = tw_clock() + tw_clock_us(CLOSE_US), number = 0;
	struct tw_ep *ep = m->rights ? tw_fi_enter(e) : NULL;
	bool ended = true;

	if (ep) {
		number = tw_window_end(ep, m->fid.key);
		ended = !number || tw_window_ended(ep, &number);
		tw_leave_unfinished(ep);
	}
	while (!ended && tw_clock() < end) {
		progress_all(m->domain);
		ep = tw_fi_enter(e);
		if (!ep)
			return;
		ended = tw_wait(ep, tw_window_ended, &number, LOOK_US) == TW_W_TRUE;
		tw_leave_unfinished(ep);
	}
	ep = ended ? NULL : tw_fi_enter(e);
	if (!ep)
		return;
	tw_window_take_back(ep, number);
	tw_leave_unfinished(ep);
}

static void close_windows(struct tw_fi_mr *m)
{
	tw_list_walk(&m->domain->eps, struct tw_fi_ep, e, in_domain)
		close_window(e, m);
}

static int open_windows(struct tw_fi_mr *m)
{
	tw_list_walk(&m->domain->eps, struct tw_fi_ep, e, in_domain) {
		int rc = open_window(e, m);

		if (rc) {
			close_windows(m);
			return rc;
		}
	}
	return 0;
}

/* The counters of memory are fed by all endpoints. */
static int feed(struct tw_fi_ep *e, struct tw_fi_mr *m)
{
	if ((m->reads && tw_fi_wait_add(&m->reads->w, e)) ||
	    (m->writes && tw_fi_wait_add(&m->writes->w, e)))
		return -FI_ENOMEM;
	return 0;
}

/* An endpoint feeds that counter no more, unless it is bound to it as well. */
static void starve(struct tw_fi_ep *e, struct tw_fi_cntr *c)
{
	if (c && !tw_fi_feeds(e, &c->w))
		tw_fi_wait_remove(&c->w, e);
}

int tw_fi_mr_join(struct tw_fi_ep *e)
{
	struct tw_fi_domain *d = e->domain;
	int rc = 0;

	if (!(e->caps & (FI_RMA | FI_ATOMIC)))
		return 0;
	tw_mutex_lock(&d->mutex);
	tw_list_walk(&d->mrs, struct tw_fi_mr, m, link) {
		rc = open_window(e, m);
		if (rc == 0)
			rc = feed(e, m);
		if (rc)
			break;
	}
	if (rc == 0)
		tw_list_add_tail(&d->eps, &e->in_domain);
	tw_list_walk(&d->mrs, struct tw_fi_mr, m, link)
		if (rc)
			close_window(e, m);
	tw_mutex_unlock(&d->mutex);
	return rc;
}

void tw_fi_mr_leave(struct tw_fi_ep *e)
{
	tw_mutex_lock(&e->domain->mutex);
	tw_list_walk(&e->domain->mrs, struct tw_fi_mr, m, link) {
		starve(e, m->reads);
		starve(e, m->writes);
	}
	tw_list_del(&e->in_domain);
	tw_mutex_unlock(&e->domain->mutex);
}

static struct tw_fi_mr *mr_find(struct tw_fi_domain *d, uint64_t key)
{
	tw_list_walk(&d->mrs, struct tw_fi_mr, m, link)
		if (m->fid.key == key)
			return m;
	return NULL;
}

void tw_fi_mr_count(struct tw_fi_domain *d, uint64_t key, bool read, bool written)
{
	struct tw_fi_mr *m;

	tw_mutex_lock(&d->keys);
	m = mr_find(d, key);
	if (m && read && m->reads)
		tw_fi_cntr_count(m->reads, false);
	if (m && written && m->writes)
		tw_fi_cntr_count(m->writes, false);
	tw_mutex_unlock(&d->keys);
}

static void mr_starve(struct tw_fi_domain *d, struct tw_fi_cntr *c)
{
	bool others = false;

	tw_list_walk(&d->mrs, struct tw_fi_mr, m, link)
		others |= m->reads == c || m->writes == c;
	tw_list_walk(&d->eps, struct tw_fi_ep, e, in_domain)
		if (!others)
			starve(e, c);
}

static void mr_release(struct tw_fi_domain *d, struct tw_fi_cntr *c)
{
	if (!c)
		return;
	mr_starve(d, c);
	atomic_fetch_sub(&c->w.refs, 1);
}

static void mr_forget(struct tw_fi_mr *m)
{
	tw_mutex_lock(&m->domain->keys);
	tw_list_del(&m->link);
	tw_mutex_unlock(&m->domain->keys);
	mr_release(m->domain, m->reads);
	mr_release(m->domain, m->writes);
	free(m);
}

static int mr_close(struct fid *fid)
{
	struct tw_fi_mr *m = tw_fi_from(struct tw_fi_mr, fid);
	struct tw_fi_domain *d = m->domain;

	tw_mutex_lock(&d->mutex);
	close_windows(m);
	mr_forget(m);
	tw_mutex_unlock(&d->mutex);
	atomic_fetch_sub(&d->refs, 1);
	return 0;
}

/* Binds a counter of what peers do with it, or takes that back. */
static void mr_set_counter(struct tw_fi_mr *m, struct tw_fi_cntr *c, uint64_t flags, bool bound)
{
	int n = !!(flags & FI_REMOTE_READ) + !!(flags & FI_REMOTE_WRITE);

	tw_mutex_lock(&m->domain->keys);
	if (flags & FI_REMOTE_READ)
		m->reads = bound ? c : NULL;
	if (flags & FI_REMOTE_WRITE)
		m->writes = bound ? c : NULL;
	atomic_fetch_add(&c->w.refs, bound ? n : -n);
	tw_mutex_unlock(&m->domain->keys);
}

static int mr_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	struct tw_fi_mr *m = tw_fi_from(struct tw_fi_mr, fid);
	struct tw_fi_cntr *c = tw_fi_from(struct tw_fi_cntr, other);
	struct tw_fi_domain *d = m->domain;
	int rc = 0;

	if (other->fclass == FI_CLASS_EP)
		return 0; /* it is of all endpoints anyway */
	if (other->fclass != FI_CLASS_CNTR || ((flags & FI_REMOTE_READ) && m->reads) ||
	    ((flags & FI_REMOTE_WRITE) && m->writes))
		return -FI_EINVAL;
	if (!flags || (flags & ~(FI_REMOTE_READ | FI_REMOTE_WRITE)))
		return -FI_EBADFLAGS;
	if (c->w.on.fd >= 0)
		atomic_store(&d->mr_waits, true);
	tw_mutex_lock(&d->mutex);
	mr_set_counter(m, c, flags, true);
	tw_list_walk(&d->eps, struct tw_fi_ep, e, in_domain)
		rc = rc ? rc : feed(e, m);
	if (rc) {
		mr_set_counter(m, c, flags, false);
		mr_starve(d, c);
	}
	tw_mutex_unlock(&d->mutex);
	return rc;
}

/* FI_ENABLE and FI_REFRESH: it is enabled, and pages are found when they are needed. */
static int mr_control(struct fid *fid, int command, void *arg)
{
	(void)fid, (void)arg;
	return command == FI_ENABLE || command == FI_REFRESH ? 0 : -FI_ENOSYS;
}

static struct fi_ops mr_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = mr_close,
	.bind = mr_bind,
	.control = mr_control,
	.ops_open = tw_fi_no_ops,
};

/* The base, below a number that tells those of one base apart. */
static bool choose_key(struct tw_fi_domain *d, struct tw_fi_mr *m, uint64_t *key)
{
	uint64_t base = (uintptr_t)m->base, n = 0;

	if (base >> TW_FI_BASE_BITS)
		return false;
	while (n >> (64 - TW_FI_BASE_BITS) == 0 && mr_find(d, n << TW_FI_BASE_BITS | base))
		n++;
	*key = n << TW_FI_BASE_BITS | base;
	return n >> (64 - TW_FI_BASE_BITS) == 0;
}

static int mr_add(struct tw_fi_domain *d, struct tw_fi_mr *m, uint64_t key)
{
	int rc = 0;

	tw_mutex_lock(&d->mutex);
	if (d->basic ? !choose_key(d, m, &key) : !!mr_find(d, key))
		rc = -FI_ENOKEY;
	m->fid.key = key;
	if (rc == 0)
		rc = open_windows(m);
	if (rc == 0) {
		tw_mutex_lock(&d->keys);
		tw_list_add_tail(&d->mrs, &m->link);
		tw_mutex_unlock(&d->keys);
	}
	tw_mutex_unlock(&d->mutex);
	return rc;
}

/* An older client's structure ends before it. */
static bool has_auth_key(const struct tw_fi_domain *d, const struct fi_mr_attr *attr)
{
	return FI_VERSION_GE(d->fabric->fid.api_version, FI_VERSION(1, 5)) && attr->auth_key_size;
}

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
		      struct fid_mr **out)
{
	struct tw_fi_domain *d = tw_fi_from(struct tw_fi_domain, fid);
	struct tw_fi_mr *m;
	int rc;

	if (fid->fclass != FI_CLASS_DOMAIN || attr->iov_count != 1 || !attr->mr_iov ||
	    !attr->mr_iov->iov_len || attr->offset || (attr->access & ~RIGHTS))
		return -FI_EINVAL;
	if (flags & ~FI_RMA_EVENT)
		return -FI_EBADFLAGS;
	if (has_auth_key(d, attr))
		return -FI_ENOSYS;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -FI_ENOMEM;
	m->fid.fid = (struct fid){FI_CLASS_MR, attr->context, &mr_fid_ops};
	m->fid.mem_desc = m;
	m->domain = d;
	m->base = attr->mr_iov->iov_base;
	m->len = attr->mr_iov->iov_len;
	m->rights = (attr->access & FI_REMOTE_READ ? TW_WINDOW_READ : 0) |
		    (attr->access & FI_REMOTE_WRITE ? TW_WINDOW_WRITE | TW_WINDOW_ATOMIC : 0);
	rc = mr_add(d, m, attr->requested_key);
	if (rc) {
		free(m);
		return rc;
	}
	atomic_fetch_add(&d->refs, 1);
	*out = &m->fid;
	if (d->eq && d->mr_events)
		tw_fi_eq_put(d->eq, FI_MR_COMPLETE, &m->fid.fid, attr->context, 0, 0);
	return 0;
}

static int mr_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access,
		   uint64_t offset, uint64_t key, uint64_t flags, struct fid_mr **mr, void *context)
{
	struct fi_mr_attr attr = {.mr_iov = iov,
				  .iov_count = count,
				  .access = access,
				  .offset = offset,
				  .requested_key = key,
				  .context = context};

	return mr_regattr(fid, &attr, flags, mr);
}

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
		  uint64_t key, uint64_t flags, struct fid_mr **mr, void *context)
{
	struct iovec iov = {(void *)(uintptr_t)buf, len};

	return mr_regv(fid, &iov, 1, access, offset, key, flags, mr, context);
}

struct fi_ops_mr tw_fi_mr_ops = {
	.size = sizeof(struct fi_ops_mr),
	.reg = mr_reg,
	.regv = mr_regv,
	.regattr = mr_regattr,
};
