/* SPDX-License-Identifier: BSD-2-Clause */
/* Domains: each is a board. */
#include <stdlib.h>

#include "fi/fi.h"

int tw_fi_no_control(struct fid *fid, int command, void *arg)
{
	(void)fid, (void)command, (void)arg;
	return -FI_ENOSYS;
}

int tw_fi_no_ops(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
	(void)fid, (void)name, (void)flags, (void)ops, (void)context;
	return -FI_ENOSYS;
}

static int domain_close(struct fid *fid)
{
	struct tw_fi_domain *d = tw_fi_from(struct tw_fi_domain, fid);

	if (atomic_load(&d->refs))
		return -FI_EBUSY;
	if (d->eq)
		atomic_fetch_sub(&d->eq->w.refs, 1);
	atomic_fetch_sub(&d->fabric->refs, 1);
	pthread_mutex_destroy(&d->mutex);
	pthread_mutex_destroy(&d->keys);
	free(d);
	tw_end();
	return 0;
}

static int domain_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	struct tw_fi_domain *d = tw_fi_from(struct tw_fi_domain, fid);
	int rc = flags & ~TW_LIBFABRIC_REG_MR ? -FI_EBADFLAGS : tw_fi_eq_bind(&d->eq, other);

	if (rc == 0)
		d->mr_events = flags & TW_LIBFABRIC_REG_MR;
	return rc;
}

static int no_scalable_ep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
			  void *context)
{
	(void)domain, (void)info, (void)ep, (void)context;
	return -FI_ENOSYS;
}

static int no_stx(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx,
		  void *context)
{
	(void)domain, (void)attr, (void)stx, (void)context;
	return -FI_ENOSYS;
}

static int no_srx(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **ep,
		  void *context)
{
	(void)domain, (void)attr, (void)ep, (void)context;
	return -FI_ENOSYS;
}

static int no_query_collective(struct fid_domain *domain, enum fi_collective_op coll,
			       struct fi_collective_attr *attr, uint64_t flags)
{
	(void)domain, (void)coll, (void)attr, (void)flags;
	return -FI_EOPNOTSUPP;
}

static struct fi_ops domain_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = domain_close,
	.bind = domain_bind,
	.control = tw_fi_no_control,
	.ops_open = tw_fi_no_ops,
};

static struct fi_ops_domain domain_ops = {
	.size = sizeof(struct fi_ops_domain),
	.av_open = tw_fi_av_open,
	.cq_open = tw_fi_cq_open,
	.endpoint = tw_fi_ep_open,
	.scalable_ep = no_scalable_ep,
	.cntr_open = tw_fi_cntr_open,
	.poll_open = tw_fi_poll_open,
	.stx_ctx = no_stx,
	.srx_ctx = no_srx,
	.query_atomic = tw_fi_query_atomic,
	.query_collective = no_query_collective,
};

static bool find_board(const char *name, uint32_t *board)
{
	const struct tw_board *boards;
	unsigned n = tw_boards(&boards);

	*board = name ? 0 : tw_board_best(0);
	while (name && *board < n && strcmp(boards[*board].ifname, name) != 0)
		++*board;
	return *board < n;
}

int tw_fi_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
		      void *context)
{
	struct tw_fi_domain *d;
	struct fi_info *checked;
	int rc = -FI_EINVAL;

	if (!info || !info->domain_attr)
		return -FI_EINVAL;
	d = calloc(1, sizeof(*d));
	if (!d)
		return -FI_ENOMEM;
	if (tw_begin() != TW_OK)
		goto free;
	/* Processes that MPI spawns have another namespace, and ids differ in all of them. */
	if (!getenv("TAGWIRE_JOB") && !getenv("FI_TAGWIRE_JOB"))
		*tw_settings.job = '\0';
	d->fabric = tw_fi_of(struct tw_fi_fabric, fabric);
	rc = -FI_ENODEV;
	if (find_board(info->domain_attr->name, &d->board))
		rc = tw_fi_info_check(d->fabric, d->board, info, &checked);
	if (rc)
		goto end;
	fi_freeinfo(checked);
	d->fid.fid = (struct fid){FI_CLASS_DOMAIN, context, &domain_fid_ops};
	d->fid.ops = &domain_ops;
	d->fid.mr = &tw_fi_mr_ops;
	d->addr_format = info->addr_format ? info->addr_format : TW_FI_ADDR;
	d->caps = info->caps;
	d->single = info->domain_attr->threading == FI_THREAD_DOMAIN;
	d->basic = info->domain_attr->mr_mode == TW_LIBFABRIC_MR_BASIC;
	pthread_mutex_init(&d->mutex, NULL);
	pthread_mutex_init(&d->keys, NULL);
	tw_list_init(&d->eps);
	tw_list_init(&d->mrs);
	atomic_fetch_add(&d->fabric->refs, 1);
	*domain = &d->fid;
	return 0;
end:
	tw_end();
free:
	free(d);
	return rc;
}
