/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints: open at once, so that they have a name; messages need fi_enable(). */
#include <stdlib.h>

#include "fi/drain.h"

#define CLOSE_US 1000000 /* for what is to be sent, and what is on its way here */

static bool is_receiving(struct tw_ep *ep)
{
	struct tw_req *r;

	for (uint32_t i = 0; (r = tw_pool_next(&ep->reqs, &i));)
		if (r->kind == TW_RECV && r->state != TW_XFER_NONE && !(r->flags & TW_R_DONE))
			return true;
	return false;
}

/*
 * True when copies of messages that the program has forgotten have left, and announced messages
 * have come for which it has posted receives: their senders see that they have ended well.
 */
static bool all_over(struct tw_ep *ep, void *arg)
{
	struct tw_fi_ep *e = arg;

	tw_fi_drain(e, ep);
	return !e->ncopied && !is_receiving(ep);
}

static void ep_finish(struct tw_fi_ep *e)
{
	struct tw_ep *ep = tw_fi_enter(e);

	if (!ep)
		return;
	tw_poll_events(ep);
	tw_progress(ep);
	tw_wait(ep, all_over, e, CLOSE_US);
	tw_leave_unfinished(ep);
}

/* Those who wait for its queues and counters are not told of it any more. */
static void feed_none(struct tw_fi_ep *e)
{
	for (unsigned i = 0; i < TW_FI_NFED; i++)
		if (tw_fi_fed(e, i))
			tw_fi_wait_remove(tw_fi_fed(e, i), e);
}

static void unbind(struct tw_fi_ep *e)
{
	for (unsigned i = 0; i < TW_FI_NFED; i++)
		if (tw_fi_fed(e, i))
			atomic_fetch_sub(&tw_fi_fed(e, i)->refs, 1);
	if (e->av) {
		tw_mutex_lock(&e->domain->mutex);
		tw_list_del(&e->in_av);
		tw_mutex_unlock(&e->domain->mutex);
		atomic_fetch_sub(&e->av->refs, 1);
	}
	if (e->eq)
		atomic_fetch_sub(&e->eq->w.refs, 1);
}

static int fi_ep_close(struct fid *fid)
{
	struct tw_fi_ep *e = tw_fi_from(struct tw_fi_ep, fid);

	ep_finish(e);
	tw_fi_dests_abandon(e);
	tw_fi_claimed_drop(e);
	feed_none(e);
	tw_ep_close(e->handle);
	/* Until here peers reach memory through it, and the service thread signals its queues. */
	tw_fi_mr_leave(e);
	unbind(e);
	tw_fi_multi_free(e);
	tw_fi_dests_free(e);
	atomic_fetch_sub(&e->domain->refs, 1);
	free(e);
	return 0;
}

static void set_bits(struct tw_fi_ep *e)
{
	e->tx_bits = e->tx_cq && (!e->tx_selective || (e->tx_flags & FI_COMPLETION)) ? TW_FI_NOTIFY
										     : 0;
	if (e->tx_flags & (FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE))
		e->tx_bits |= TW_FI_SYNC;
	e->rx_bits = e->rx_cq && (!e->rx_selective || (e->rx_flags & FI_COMPLETION)) ? TW_FI_NOTIFY
										     : 0;
}

void tw_fi_tx_choose(struct tw_fi_ep *e)
{
	e->tx_slow_path = e->cntrs[TW_FI_CSEND] || e->nwrites || e->nfenced;
}

/*
 * Queues and counters are bound also while the endpoint is in use, as with other providers. From
 * here on it feeds w, and is entered; NULL, with the result of the call, after a failure.
 */
static struct tw_ep *ep_bind_begin(struct tw_fi_ep *e, struct tw_fi_waiter *w, int *rc)
{
	struct tw_ep *ep;

	*rc = tw_fi_wait_add(w, e);
	if (*rc)
		return NULL;
	ep = tw_fi_enter(e);
	if (ep)
		return ep;
	if (!tw_fi_feeds(e, w))
		tw_fi_wait_remove(w, e);
	*rc = -FI_EOPBADSTATE;
	return NULL;
}

static int bind_cq(struct tw_fi_ep *e, struct tw_fi_cq *cq, uint64_t flags)
{
	struct tw_ep *ep;
	int rc;

	if ((flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION)) ||
	    !(flags & (FI_TRANSMIT | FI_RECV)))
		return -FI_EBADFLAGS;
	if (((flags & FI_TRANSMIT) && e->tx_cq) || ((flags & FI_RECV) && e->rx_cq))
		return -FI_EINVAL;
	ep = ep_bind_begin(e, &cq->w, &rc);
	if (!ep)
		return rc;
	if (flags & FI_TRANSMIT) {
		e->tx_cq = cq;
		e->tx_selective = flags & FI_SELECTIVE_COMPLETION;
		atomic_fetch_add(&cq->w.refs, 1);
	}
	if (flags & FI_RECV) {
		e->rx_cq = cq;
		e->rx_selective = flags & FI_SELECTIVE_COMPLETION;
		atomic_fetch_add(&cq->w.refs, 1);
	}
	set_bits(e);
	tw_leave_unfinished(ep);
	return 0;
}

static int bind_cntr(struct tw_fi_ep *e, struct tw_fi_cntr *c, uint64_t flags)
{
	static const uint64_t kinds[TW_FI_NCNTRS] = {FI_SEND,  FI_RECV,	       FI_READ,
						     FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE};
	uint64_t known = 0;
	struct tw_ep *ep;
	int rc;

	for (unsigned i = 0; i < TW_FI_NCNTRS; i++) {
		known |= kinds[i];
		if ((flags & kinds[i]) && e->cntrs[i])
			return -FI_EINVAL;
	}
	if (!flags || (flags & ~known))
		return -FI_EBADFLAGS;
	ep = ep_bind_begin(e, &c->w, &rc);
	if (!ep)
		return rc;
	for (unsigned i = 0; i < TW_FI_NCNTRS; i++) {
		if (!(flags & kinds[i]))
			continue;
		e->cntrs[i] = c;
		e->counts = true;
		atomic_fetch_add(&c->w.refs, 1);
	}
	tw_fi_tx_choose(e);
	tw_leave_unfinished(ep);
	return 0;
}

static int ep_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	struct tw_fi_ep *e = tw_fi_from(struct tw_fi_ep, fid);

	switch (other->fclass) {
	case FI_CLASS_CQ:
		return bind_cq(e, tw_fi_from(struct tw_fi_cq, other), flags);
	case FI_CLASS_CNTR:
		return bind_cntr(e, tw_fi_from(struct tw_fi_cntr, other), flags);
	case FI_CLASS_AV:
		if (e->av)
			return -FI_EINVAL;
		e->av = tw_fi_from(struct tw_fi_av, other);
		tw_mutex_lock(&e->domain->mutex);
		tw_list_add_tail(&e->av->eps, &e->in_av);
		tw_mutex_unlock(&e->domain->mutex);
		atomic_fetch_add(&e->av->refs, 1);
		return 0;
	default:
		return tw_fi_eq_bind(&e->eq, other);
	}
}

static int enable(struct tw_fi_ep *e)
{
	struct tw_ep *ep;
	int rc;

	if (e->enabled)
		return 0;
	if (!e->av)
		return -FI_ENOAV;
	if (((e->caps & FI_SEND) && !e->tx_cq && !e->cntrs[TW_FI_CSEND]) ||
	    ((e->caps & FI_READ) && !e->tx_cq && !e->cntrs[TW_FI_CREAD]) ||
	    ((e->caps & FI_WRITE) && !e->tx_cq && !e->cntrs[TW_FI_CWRITE]) ||
	    ((e->caps & FI_RECV) && !e->rx_cq && !e->cntrs[TW_FI_CRECV]))
		return -FI_ENOCQ;
	rc = tw_fi_mr_join(e);
	if (rc)
		return rc;
	ep = tw_fi_enter(e);
	if (!ep)
		return -FI_EOPBADSTATE;
	e->enabled = true;
	tw_leave_unfinished(ep);
	return 0;
}

/* The flags of calls without flags; which of the two says a flag. */
static int op_flags(struct tw_fi_ep *e, bool set, uint64_t *arg)
{
	bool tx = *arg & FI_TRANSMIT, rx = *arg & FI_RECV;
	uint64_t flags = *arg & ~(FI_TRANSMIT | FI_RECV);
	struct tw_ep *ep;

	if (tx == rx || (set && flags & ~(tx ? TW_FI_TX_FLAGS : TW_FI_RX_FLAGS)))
		return -FI_EINVAL;
	if (!set) {
		*arg = tx ? e->tx_flags : e->rx_flags;
		return 0;
	}
	ep = tw_fi_enter(e);
	if (!ep)
		return -FI_EOPBADSTATE;
	*(tx ? &e->tx_flags : &e->rx_flags) = flags;
	set_bits(e);
	tw_leave_unfinished(ep);
	return 0;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
	struct tw_fi_ep *e = tw_fi_from(struct tw_fi_ep, fid);

	switch (command) {
	case FI_ENABLE:
		return enable(e);
	case FI_GETOPSFLAG:
		return op_flags(e, false, arg);
	case FI_SETOPSFLAG:
		return op_flags(e, true, arg);
	default:
		return -FI_ENOSYS;
	}
}

static int getopt_size(void *value, size_t *len, size_t size)
{
	if (*len < sizeof(size))
		return -FI_ETOOSMALL;
	memcpy(value, &size, sizeof(size));
	*len = sizeof(size);
	return 0;
}

static int ep_getopt(fid_t fid, int level, int name, void *value, size_t *len)
{
	struct tw_fi_ep *e = tw_fi_from(struct tw_fi_ep, fid);

	if (level != FI_OPT_ENDPOINT)
		return -FI_ENOPROTOOPT;
	switch (name) {
	case FI_OPT_MIN_MULTI_RECV:
		return getopt_size(value, len, e->multi_min);
	case FI_OPT_TX_SIZE:
		return getopt_size(value, len, e->tx_size);
	case FI_OPT_RX_SIZE:
		return getopt_size(value, len, e->rx_size);
	default:
		return -FI_ENOPROTOOPT;
	}
}

static int ep_setopt(fid_t fid, int level, int name, const void *value, size_t len)
{
	struct tw_fi_ep *e = tw_fi_from(struct tw_fi_ep, fid);

	if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV)
		return -FI_ENOPROTOOPT;
	if (len != sizeof(e->multi_min))
		return -FI_EINVAL;
	memcpy(&e->multi_min, value, len);
	return 0;
}

static int no_tx_ctx(struct fid_ep *sep, int index, struct fi_tx_attr *attr, struct fid_ep **ep,
		     void *context)
{
	(void)sep, (void)index, (void)attr, (void)ep, (void)context;
	return -FI_ENOSYS;
}

static int no_rx_ctx(struct fid_ep *sep, int index, struct fi_rx_attr *attr, struct fid_ep **ep,
		     void *context)
{
	(void)sep, (void)index, (void)attr, (void)ep, (void)context;
	return -FI_ENOSYS;
}

static ssize_t rx_left(struct fid_ep *ep)
{
	struct tw_fi_ep *e = tw_fi_of(struct tw_fi_ep, ep);

	return e->enabled ? (ssize_t)(e->rx_size - e->nrx) : -FI_EOPBADSTATE;
}

static ssize_t tx_left(struct fid_ep *ep)
{
	struct tw_fi_ep *e = tw_fi_of(struct tw_fi_ep, ep);

	return e->enabled ? (ssize_t)(e->tx_size - e->ntx) : -FI_EOPBADSTATE;
}

static int ep_getname(fid_t fid, void *addr, size_t *len)
{
	struct tw_fi_ep *e = tw_fi_from(struct tw_fi_ep, fid);

	return tw_fi_addr_give(e->domain->addr_format, &e->name, addr, len);
}

static int no_setname(fid_t fid, void *addr, size_t len)
{
	(void)fid, (void)addr, (void)len;
	return -FI_ENOSYS;
}

static int no_getpeer(struct fid_ep *ep, void *addr, size_t *len)
{
	(void)ep, (void)addr, (void)len;
	return -FI_ENOSYS;
}

static int no_connect(struct fid_ep *ep, const void *addr, const void *param, size_t len)
{
	(void)ep, (void)addr, (void)param, (void)len;
	return -FI_ENOSYS;
}

static int no_accept(struct fid_ep *ep, const void *param, size_t len)
{
	(void)ep, (void)param, (void)len;
	return -FI_ENOSYS;
}

static int no_shutdown(struct fid_ep *ep, uint64_t flags)
{
	(void)ep, (void)flags;
	return -FI_ENOSYS;
}

static struct fi_ops ep_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = fi_ep_close,
	.bind = ep_bind,
	.control = ep_control,
	.ops_open = tw_fi_no_ops,
};

static struct fi_ops_ep ep_ops = {
	.size = sizeof(struct fi_ops_ep),
	.cancel = tw_fi_cancel,
	.getopt = ep_getopt,
	.setopt = ep_setopt,
	.tx_ctx = no_tx_ctx,
	.rx_ctx = no_rx_ctx,
	.rx_size_left = rx_left,
	.tx_size_left = tx_left,
};

/* Passive endpoints, to listen and to reject, do not exist: libfabric refuses what is absent. */
static struct fi_ops_cm cm_ops = {
	.size = sizeof(struct fi_ops_cm),
	.setname = no_setname,
	.getname = ep_getname,
	.getpeer = no_getpeer,
	.connect = no_connect,
	.accept = no_accept,
	.shutdown = no_shutdown,
};

/* The number that src_addr asks for, or any. */
static int wanted_id(const struct tw_fi_domain *d, const struct fi_info *info, uint32_t *id)
{
	struct tw_fi_addr a = {.endpoint_id = TW_FI_ANY};
	size_t used;
	int rc = 0;

	if (info->src_addr && info->src_addrlen)
		rc = tw_fi_addr_whole(d->addr_format, info->src_addr, info->src_addrlen)
			     ? tw_fi_addr_take(d->addr_format, info->src_addr, &used, &a)
			     : -FI_EINVAL;
	*id = a.endpoint_id;
	return rc;
}

static int open_engine(struct tw_fi_ep *e, uint32_t id)
{
	static const struct tw_interface iface = {.name = "fi",
						  .imm = true,
						  .am_handler = tw_fi_reported,
						  .window_notified = tw_fi_notified,
						  .background = tw_fi_background,
						  .down = tw_failure_down,
						  .ids = TW_FI_IDS,
						  .highest = true};
	struct tw_open how = {.board = e->domain->board,
			      .number = id,
			      .filter = TW_FI_FILTER,
			      .unexp_max = tw_settings.unexp_max,
			      .iface = &iface,
			      .owner = e};
	enum tw_err err = tw_ep_open(&how, &e->handle);
	struct tw_ep *ep;

	if (err != TW_OK)
		return err == TW_EBUSY ? -FI_EADDRINUSE : -FI_ENOMEM;
	ep = tw_fi_enter(e);
	e->name = (struct tw_fi_addr){ep->host.self.nic_id, ep->host.self.endpoint_id, 0};
	tw_leave(ep);
	return 0;
}

static void take_info(struct tw_fi_ep *e, const struct fi_info *info)
{
	e->caps = info->caps;
	e->directed = info->caps & TW_FI_DIRECTED;
	e->counts = info->caps & FI_SOURCE_ERR;
	e->tx_size = (uint32_t)info->tx_attr->size;
	e->rx_size = (uint32_t)info->rx_attr->size;
	e->tx_flags = info->tx_attr->op_flags;
	e->rx_flags = info->rx_attr->op_flags;
	e->multi_min = TW_FI_MULTI_MIN;
}

int tw_fi_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **out,
		  void *context)
{
	struct tw_fi_domain *d = tw_fi_of(struct tw_fi_domain, domain);
	struct fi_info *checked;
	struct tw_fi_ep *e;
	uint32_t id;
	int rc;

	if (!info || !info->ep_attr)
		return -FI_EINVAL;
	rc = wanted_id(d, info, &id);
	if (rc)
		return rc;
	rc = tw_fi_info_check(d->fabric, d->board, info, &checked);
	if (rc)
		return rc;
	e = calloc(1, sizeof(*e));
	if (e)
		take_info(e, checked);
	fi_freeinfo(checked);
	if (!e)
		return -FI_ENOMEM;
	e->domain = d;
	/* The program may give up what every info offers. */
	e->ordered = !info->tx_attr || (info->tx_attr->msg_order & FI_ORDER_SAW);
	tw_list_init(&e->multis);
	tw_list_init(&e->full_multis);
	tw_list_init(&e->held);
	tw_list_init(&e->claimed);
	tw_list_init(&e->in_av);
	tw_list_init(&e->in_domain);
	e->fid.fid = (struct fid){FI_CLASS_EP, context, &ep_fid_ops};
	e->fid.ops = &ep_ops;
	e->fid.cm = &cm_ops;
	e->fid.msg = &tw_fi_msg_ops;
	e->fid.tagged = &tw_fi_tagged_ops;
	e->fid.rma = &tw_fi_rma_ops;
	e->fid.atomic = &tw_fi_atomic_ops;
	e->fid.collective = &tw_fi_coll_ops;
	rc = open_engine(e, id);
	if (rc) {
		free(e);
		return rc;
	}
	atomic_fetch_add(&d->refs, 1);
	*out = &e->fid;
	return 0;
}
