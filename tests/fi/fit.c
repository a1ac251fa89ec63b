/* SPDX-License-Identifier: BSD-2-Clause */
#include "fi/fit.h"

#ifndef FIT_PROVIDER
#define FIT_PROVIDER TWT_MODULES
#endif

void fit_env(const char *way)
{
	setenv("FI_PROVIDER_PATH", FIT_PROVIDER, 1);
	setenv("TAGWIRE_MODULES", TWT_MODULES, 1);
	if (way)
		setenv("TAGWIRE_PROVIDERS", way, 1);
}

struct fi_info *fit_hints(const struct fit_how *how)
{
	struct fi_info *h = fi_allocinfo();

	cr_assert(h);
	h->caps = FI_MSG | FI_TAGGED | how->caps;
	h->mode = FI_CONTEXT;
	h->addr_format = how->addr_format;
	h->ep_attr->type = FI_EP_RDM;
	h->domain_attr->threading = how->threading;
	h->domain_attr->mr_mode = how->mr_mode;
	h->tx_attr->size = how->tx_size;
	h->rx_attr->size = how->rx_size;
	h->fabric_attr->prov_name = strdup("tagwire");
	return h;
}

void fit_prepare(struct fit *t)
{
	struct fi_cq_attr cq = {.format = t->how.format ? t->how.format : FI_CQ_FORMAT_TAGGED,
				.wait_obj = t->how.wait ? t->how.wait : FI_WAIT_UNSPEC,
				.size = t->how.cq_size};
	unsigned i = t->n++;

	fit_ok(fi_cq_open(t->domain, &cq, &t->cq[i], NULL));
	fit_ok(fi_endpoint(t->domain, t->info, &t->ep[i], NULL));
	fit_ok(fi_ep_bind(t->ep[i], &t->cq[i]->fid, FI_TRANSMIT | FI_RECV | t->how.cq_flags));
	fit_ok(fi_ep_bind(t->ep[i], &t->av->fid, 0));
}

void fit_enable(struct fit *t)
{
	unsigned i = t->n - 1;
	char name[64];
	size_t len = sizeof(name);

	fit_ok(fi_enable(t->ep[i]));
	fit_ok(fi_getname(&t->ep[i]->fid, name, &len));
	fit_eq(fi_av_insert(t->av, name, 1, &t->to[i], 0, NULL), 1);
}

void fit_add(struct fit *t)
{
	fit_prepare(t);
	fit_enable(t);
}

void fit_open(struct fit *t, unsigned n, const char *way, struct fit_how how)
{
	struct fi_av_attr av = {.type = FI_AV_TABLE};
	struct fi_info *hints;

	fit_env(way);
	hints = fit_hints(&how);
	memset(t, 0, sizeof(*t));
	t->how = how;
	fit_ok(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &t->info));
	fi_freeinfo(hints);
	fit_ok(fi_fabric(t->info->fabric_attr, &t->fabric, NULL));
	fit_ok(fi_domain(t->fabric, t->info, &t->domain, NULL));
	fit_ok(fi_av_open(t->domain, &av, &t->av, NULL));
	for (unsigned i = 0; i < n; i++)
		fit_add(t);
}

void fit_close(struct fit *t)
{
	for (unsigned i = 0; i < t->n; i++)
		if (t->ep[i])
			fit_ok(fi_close(&t->ep[i]->fid));
	for (unsigned i = 0; i < t->n; i++)
		fit_ok(fi_close(&t->cq[i]->fid));
	fit_ok(fi_close(&t->av->fid));
	fit_ok(fi_close(&t->domain->fid));
	fit_ok(fi_close(&t->fabric->fid));
	fi_freeinfo(t->info);
}

static bool look(struct fit *t, unsigned i, struct fi_cq_err_entry *e)
{
	ssize_t n;

	for (unsigned k = 0; k < t->n; k++)
		if (k != i)
			fi_cq_read(t->cq[k], NULL, 0);
	memset(e, 0, sizeof(*e));
	n = fi_cq_read(t->cq[i], e, 1);
	if (n == -FI_EAVAIL)
		fit_eq(fi_cq_readerr(t->cq[i], e, 0), 1);
	else
		cr_assert(n == 1 || n == -FI_EAGAIN, "fi_cq_read: %zd", n);
	return n != -FI_EAGAIN;
}

struct fi_cq_err_entry fit_next(struct fit *t, unsigned i)
{
	double end = twt_now() + TWT_LONG;
	struct fi_cq_err_entry e;

	while (!look(t, i, &e))
		cr_assert(twt_now() < end, "no event in queue %u", i);
	return e;
}

struct fi_cq_err_entry fit_good(struct fit *t, unsigned i, void *context)
{
	struct fi_cq_err_entry e = fit_next(t, i);

	cr_assert(e.err == 0, "error %s", fi_strerror(e.err));
	cr_assert(e.op_context == context, "context %p, not %p", e.op_context, context);
	return e;
}

struct fi_cq_err_entry fit_bad(struct fit *t, unsigned i, void *context, int err)
{
	struct fi_cq_err_entry e = fit_next(t, i);

	cr_assert(e.err == err, "error %s, not %s", fi_strerror(e.err), fi_strerror(err));
	cr_assert(e.op_context == context, "context %p, not %p", e.op_context, context);
	return e;
}

void fit_none(struct fit *t, unsigned i)
{
	double end = twt_now() + 0.05;
	struct fi_cq_err_entry e;

	while (twt_now() < end)
		cr_assert(!look(t, i, &e), "an event: flags %llx, error %d",
			  (unsigned long long)e.flags, e.err);
}

void fit_tsend(struct fit *t, unsigned from, unsigned to, const void *buf, size_t len, uint64_t tag)
{
	ssize_t rc;

	do
		rc = fi_tsend(t->ep[from], buf, len, NULL, t->to[to], tag, &fit_tsend);
	while (rc == -FI_EAGAIN);
	fit_ok(rc);
	fit_good(t, from, &fit_tsend);
}
