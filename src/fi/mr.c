/* SPDX-License-Identifier: BSD-2-Clause */
/* Registered memory. Nothing local needs it. */
#include <stdlib.h>

#include "fi/fi.h"

#define RIGHTS (FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)

static int mr_close(struct fid *fid)
{
	struct tw_fi_mr *m = tw_fi_from(struct tw_fi_mr, fid);

	tw_mutex_lock(&m->domain->mutex);
	tw_list_del(&m->link);
	tw_mutex_unlock(&m->domain->mutex);
	atomic_fetch_sub(&m->domain->refs, 1);
	free(m);
	return 0;
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
	.bind = tw_fi_no_bind,
	.control = mr_control,
	.ops_open = tw_fi_no_ops,
};

static bool key_in_use(struct tw_fi_domain *d, uint64_t key)
{
	struct tw_list *n, *tmp;

	tw_list_each(&d->mrs, n, tmp)
		if (tw_container(n, struct tw_fi_mr, link)->fid.key == key)
			return true;
	return false;
}

static int add(struct tw_fi_domain *d, struct tw_fi_mr *m, uint64_t key)
{
	int rc = 0;

	tw_mutex_lock(&d->mutex);
	if (d->mr_mode & (FI_MR_PROV_KEY | FI_MR_BASIC))
		key = ++d->last_key;
	else if (key_in_use(d, key))
		rc = -FI_ENOKEY;
	m->fid.key = key;
	if (rc == 0)
		tw_list_add_tail(&d->mrs, &m->link);
	tw_mutex_unlock(&d->mutex);
	return rc;
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
	m = calloc(1, sizeof(*m));
	if (!m)
		return -FI_ENOMEM;
	m->fid.fid.fclass = FI_CLASS_MR;
	m->fid.fid.context = attr->context;
	m->fid.fid.ops = &mr_fid_ops;
	m->fid.mem_desc = m;
	m->domain = d;
	rc = add(d, m, attr->requested_key);
	if (rc) {
		free(m);
		return rc;
	}
	atomic_fetch_add(&d->refs, 1);
	*out = &m->fid;
	if (d->eq && d->mr_events)
		tw_fi_eq_put(d->eq, FI_MR_COMPLETE, &m->fid.fid, attr->context, 0);
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
