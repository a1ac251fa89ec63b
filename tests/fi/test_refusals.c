/* SPDX-License-Identifier: BSD-2-Clause */
/* What tagwire-libfabric(7) says is refused: the status of each call, and what the log says. */
/* fi_wait_open: deprecated in libfabric 2, in use by clients of 1.x. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <rdma/fi_atomic.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_trigger.h>
#include <unistd.h>

#include "fi/fit.h"

TestSuite(fi_refusals, .timeout = FIT_TIMEOUT);

Test(fi_refusals, objects)
{
	struct fi_cq_attr peer = {.flags = 1ull << 43}; /* FI_PEER, of later releases */
	struct fi_av_attr shared = {.type = FI_AV_MAP, .name = "shared"};
	struct fi_av_attr scalable = {.type = FI_AV_MAP, .rx_ctx_bits = 1};
	struct fid_pep *pep;
	struct fid_stx *stx;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fit t;

	fit_open(&t, 1, "self,shm", (struct fit_how){0});
	fit_eq(fi_passive_ep(t.fabric, t.info, &pep, NULL), -FI_ENOSYS);
	fit_eq(fi_scalable_ep(t.domain, t.info, &ep, NULL), -FI_ENOSYS);
	fit_eq(fi_stx_context(t.domain, NULL, &stx, NULL), -FI_ENOSYS);
	fit_eq(fi_srx_context(t.domain, NULL, &ep, NULL), -FI_ENOSYS);
	fit_eq(fi_tx_context(t.ep[0], 0, NULL, &ep, NULL), -FI_ENOSYS);
	fit_eq(fi_rx_context(t.ep[0], 0, NULL, &ep, NULL), -FI_ENOSYS);
	fit_eq(fi_ep_alias(t.ep[0], &ep, 0), -FI_ENOSYS);
	fit_eq(fi_av_open(t.domain, &shared, &av, NULL), -FI_ENOSYS);
	fit_eq(fi_av_open(t.domain, &scalable, &av, NULL), -FI_ENOSYS);
	fit_eq(fi_cq_open(t.domain, &peer, &cq, NULL), -FI_EINVAL);
	fit_close(&t);
}

static bool offers_tagwire(void)
{
	struct fi_info *h = fit_hints(&(struct fit_how){0}), *info = NULL;
	int err = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, h, &info);

	fi_freeinfo(info);
	fi_freeinfo(h);
	return err == 0;
}

/* Each setting has a second name, which fi_info -e lists. */
Test(fi_refusals, settings)
{
	struct fi_param *params;
	int n, listed = 0, typed = 0;

	fit_env("self,shm");
	setenv("FI_TAGWIRE_RETRY", "1", 1);
	cr_assert(!offers_tagwire(), "FI_TAGWIRE_RETRY=1 is accepted");
	setenv("TAGWIRE_RETRY", "10000", 1);
	cr_assert(offers_tagwire(), "FI_TAGWIRE_RETRY is read where TAGWIRE_RETRY is set");
	fit_ok(fi_getparams(&params, &n));
	for (int i = 0; i < n; i++) {
		listed += !strcmp(params[i].name, "FI_TAGWIRE_RETRY") && *params[i].help_string;
		typed += (!strcmp(params[i].name, "FI_TAGWIRE_RETRY") &&
			  params[i].type == FI_PARAM_INT) ||
			 (!strcmp(params[i].name, "FI_TAGWIRE_SERVICE") &&
			  params[i].type == FI_PARAM_BOOL) ||
			 (!strcmp(params[i].name, "FI_TAGWIRE_EAGER_MAX") &&
			  params[i].type == FI_PARAM_SIZE_T);
	}
	fi_freeparams(params);
	fit_eq(listed, 1);
	fit_eq(typed, 3);
}

/* What fi_getinfo() would not have returned, in an info that was changed since. */
Test(fi_refusals, changed_info)
{
	struct fi_info *info;
	struct fid_domain *domain;
	struct fid_ep *ep;
	struct fit t;

	fit_open(&t, 1, "self,shm", (struct fit_how){0});
	info = fi_dupinfo(t.info);
	cr_assert(info);
	info->ep_attr->type = FI_EP_MSG;
	fit_eq(fi_endpoint(t.domain, info, &ep, NULL), -FI_EINVAL);
	info->ep_attr->type = FI_EP_RDM;
	info->tx_attr->size = 1u << 30;
	fit_eq(fi_endpoint(t.domain, info, &ep, NULL), -FI_EINVAL);
	info->tx_attr->size = t.info->tx_attr->size;
	info->tx_attr->op_flags = FI_PEEK;
	fit_eq(fi_endpoint(t.domain, info, &ep, NULL), -FI_EINVAL);
	info->tx_attr->op_flags = 0;
	info->caps |= FI_HMEM;
	fit_eq(fi_endpoint(t.domain, info, &ep, NULL), -FI_EINVAL);
	info->caps &= ~FI_HMEM;
	info->domain_attr->mr_key_size = 64;
	fit_eq(fi_domain(t.fabric, info, &domain, NULL), -FI_EINVAL);
	info->domain_attr->mr_key_size = t.info->domain_attr->mr_key_size;
	fit_ok(fi_domain(t.fabric, info, &domain, NULL));
	fit_ok(fi_endpoint(domain, info, &ep, NULL));
	fit_ok(fi_close(&ep->fid));
	fit_ok(fi_close(&domain->fid));
	fi_freeinfo(info);
	fit_close(&t);
}

Test(fi_refusals, flags_of_calls)
{
	uint64_t flags = FI_TRANSMIT | FI_PEEK;
	struct fit t;

	fit_open(&t, 1, "self,shm", (struct fit_how){0});
	fit_eq(fi_control(&t.ep[0]->fid, FI_SETOPSFLAG, &flags), -FI_EINVAL);
	flags = FI_RECV | FI_INJECT;
	fit_eq(fi_control(&t.ep[0]->fid, FI_SETOPSFLAG, &flags), -FI_EINVAL);
	flags = FI_RECV | FI_TRANSMIT | FI_COMPLETION;
	fit_eq(fi_control(&t.ep[0]->fid, FI_SETOPSFLAG, &flags), -FI_EINVAL);
	flags = FI_TRANSMIT | FI_DELIVERY_COMPLETE;
	fit_ok(fi_control(&t.ep[0]->fid, FI_SETOPSFLAG, &flags));
	flags = FI_TRANSMIT;
	fit_ok(fi_control(&t.ep[0]->fid, FI_GETOPSFLAG, &flags));
	fit_eq(flags & FI_DELIVERY_COMPLETE, FI_DELIVERY_COMPLETE);
	fit_close(&t);
}

/* What is wrong is found before it is used. */
Test(fi_refusals, pieces)
{
	static const size_t counts[] = {(size_t)1 << 40, 1000000, 17};
	struct iovec iov = {&iov, sizeof(iov)};
	struct fi_ioc ioc = {&iov, 1};
	struct fi_msg m = {.iov_count = 1};
	struct fit t;

	fit_open(&t, 1, "self,shm", (struct fit_how){.caps = FI_ATOMIC | FI_MULTI_RECV});
	for (unsigned i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
		fit_eq(fi_sendv(t.ep[0], &iov, NULL, counts[i], t.to[0], NULL), -FI_EINVAL);
		fit_eq(fi_recvv(t.ep[0], &iov, NULL, counts[i], t.to[0], NULL), -FI_EINVAL);
		fit_eq(fi_atomicv(t.ep[0], &ioc, NULL, counts[i], t.to[0], 0, 1, FI_UINT64, FI_SUM,
				  NULL),
		       -FI_EINVAL);
		fit_eq(fi_fetch_atomicv(t.ep[0], NULL, NULL, 0, &ioc, NULL, counts[i], t.to[0], 0,
					1, FI_UINT64, FI_ATOMIC_READ, NULL),
		       -FI_EINVAL);
	}
	fit_eq(fi_recvmsg(t.ep[0], &m, 0), -FI_EINVAL);
	fit_eq(fi_recvmsg(t.ep[0], &m, FI_MULTI_RECV), -FI_EINVAL);
	fit_close(&t);
}

Test(fi_refusals, wait_objects)
{
	static const enum fi_wait_obj refused[] = {FI_WAIT_MUTEX_COND, FI_WAIT_POLLFD, 77};
	struct fit t;

	fit_open(&t, 1, "self,shm", (struct fit_how){0});
	for (unsigned i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
		struct fi_cntr_attr cntr = {.wait_obj = refused[i]};
		struct fi_wait_attr wait = {.wait_obj = refused[i]};
		struct fi_cq_attr cq = {.wait_obj = refused[i]};
		struct fi_eq_attr eq = {.wait_obj = refused[i]};
		struct fid_wait *w;
		struct fid_cntr *c;
		struct fid_cq *q;
		struct fid_eq *e;

		fit_eq(fi_cq_open(t.domain, &cq, &q, NULL), -FI_ENOSYS);
		fit_eq(fi_cntr_open(t.domain, &cntr, &c, NULL), -FI_ENOSYS);
		fit_eq(fi_eq_open(t.fabric, &eq, &e, NULL), -FI_ENOSYS);
		fit_eq(fi_wait_open(t.fabric, &wait, &w), -FI_ENOSYS);
	}
	fit_close(&t);
}

Test(fi_refusals, collectives)
{
	struct fi_collective_attr attr = {.op = FI_SUM, .datatype = FI_UINT64};
	struct fi_av_set_attr set_attr = {0};
	uint64_t v[1] = {0};
	struct fid_av_set *set;
	struct fid_ep *ep;
	struct fid_mc *mc;
	struct fit t;

	fit_open(&t, 1, "self,shm", (struct fit_how){0});
	ep = t.ep[0];
	fit_eq(fi_query_collective(t.domain, FI_BARRIER, &attr, 0), -FI_EOPNOTSUPP);
	fit_eq(fi_av_set(t.av, &set_attr, &set, NULL), -FI_ENOSYS);
	fit_eq(fi_join(ep, v, 0, &mc, NULL), -FI_ENOSYS);
	fit_eq(fi_join_collective(ep, 0, NULL, 0, &mc, NULL), -FI_ENOSYS);
	fit_eq(fi_barrier(ep, 0, NULL), -FI_ENOSYS);
	fit_eq(fi_barrier2(ep, 0, FI_MORE, NULL), -FI_ENOSYS);
	fit_eq(fi_broadcast(ep, v, 1, NULL, 0, 0, FI_UINT64, 0, NULL), -FI_ENOSYS);
	fit_eq(fi_alltoall(ep, v, 1, NULL, v, NULL, 0, FI_UINT64, 0, NULL), -FI_ENOSYS);
	fit_eq(fi_allreduce(ep, v, 1, NULL, v, NULL, 0, FI_UINT64, FI_SUM, 0, NULL), -FI_ENOSYS);
	fit_eq(fi_allgather(ep, v, 1, NULL, v, NULL, 0, FI_UINT64, 0, NULL), -FI_ENOSYS);
	fit_eq(fi_reduce_scatter(ep, v, 1, NULL, v, NULL, 0, FI_UINT64, FI_SUM, 0, NULL),
	       -FI_ENOSYS);
	fit_eq(fi_reduce(ep, v, 1, NULL, v, NULL, 0, 0, FI_UINT64, FI_SUM, 0, NULL), -FI_ENOSYS);
	fit_eq(fi_scatter(ep, v, 1, NULL, v, NULL, 0, 0, FI_UINT64, 0, NULL), -FI_ENOSYS);
	fit_eq(fi_gather(ep, v, 1, NULL, v, NULL, 0, 0, FI_UINT64, 0, NULL), -FI_ENOSYS);
	fit_close(&t);
}

Test(fi_refusals, operations)
{
	uint64_t v = 0;
	struct iovec iov = {&v, sizeof(v)};
	struct fi_msg m = {.msg_iov = &iov, .iov_count = 1};
	struct fi_mr_attr attr = {.mr_iov = &iov,
				  .iov_count = 1,
				  .access = FI_REMOTE_READ,
				  .requested_key = 1,
				  .auth_key = (uint8_t *)&v,
				  .auth_key_size = sizeof(v)};
	struct fi_deferred_work work = {0};
	struct fi_atomic_attr atomic;
	struct fid_mr *mr;
	struct fit t;

	fit_open(&t, 1, "self,shm", (struct fit_how){.caps = FI_RMA | FI_ATOMIC});
	m.addr = t.to[0];
	fit_eq(fi_sendmsg(t.ep[0], &m, FI_TRIGGER), -FI_EBADFLAGS);
	fit_eq(fi_sendmsg(t.ep[0], &m, FI_COMMIT_COMPLETE), -FI_EBADFLAGS);
	fit_eq(fi_sendmsg(t.ep[0], &m, FI_MULTICAST), -FI_EBADFLAGS);
	fit_eq(fi_recvmsg(t.ep[0], &m, FI_TRIGGER), -FI_EBADFLAGS);
	fit_eq(fi_control(&t.domain->fid, FI_QUEUE_WORK, &work), -FI_ENOSYS);
	fit_eq(fi_mr_reg(t.domain, &v, 8, FI_REMOTE_WRITE, 0, 1, FI_RMA_PMEM, &mr, NULL),
	       -FI_EBADFLAGS);
	fit_eq(fi_mr_regattr(t.domain, &attr, 0, &mr), -FI_ENOSYS);
	fit_eq(fi_query_atomic(t.domain, FI_LONG_DOUBLE, FI_SUM, &atomic, 0), -FI_EOPNOTSUPP);
	fit_eq(fi_connect(t.ep[0], &v, NULL, 0), -FI_ENOSYS);
	fit_eq(fi_shutdown(t.ep[0], 0), -FI_ENOSYS);
	fit_close(&t);
}

/* What libfabric logs about hints of each kind. */
static int say_why(void *arg, int fd)
{
	struct fi_cq_attr attr = {.wait_obj = FI_WAIT_MUTEX_COND};
	struct fi_info *h, *info;
	struct fid_cq *cq;
	struct fit t;

	(void)arg;
	setenv("FI_LOG_LEVEL", "info", 1);
	setenv("FI_LOG_PROV", "tagwire", 1);
	dup2(fd, STDERR_FILENO);
	fit_env("self,shm");
	h = fit_hints(&(struct fit_how){0});
	h->tx_attr->inject_size = 123456789;
	fit_eq(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, h, &info), -FI_ENODATA);
	h->tx_attr->inject_size = 0;
	h->caps |= FI_COLLECTIVE;
	fit_eq(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, h, &info), -FI_ENODATA);
	h->caps = 1ull << 43;
	fit_eq(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, h, &info), -FI_ENODATA);
	fi_freeinfo(h);
	fit_open(&t, 1, "self,shm", (struct fit_how){0});
	fit_eq(fi_cq_open(t.domain, &attr, &cq, NULL), -FI_ENOSYS);
	fit_close(&t);
	return 0;
}

Test(fi_refusals, reasons)
{
	static char text[100000];
	struct twt_child c;
	size_t n = 0;
	ssize_t more;

	twt_spawn(&c, say_why, NULL);
	while ((more = read(c.fd, text + n, sizeof(text) - 1 - n)) > 0)
		n += (size_t)more;
	fit_eq(twt_join(&c, TWT_LONG), 0);
	cr_assert(strstr(text, "tx_attr->inject_size: asked for 123456789, there is 4096"), "%s",
		  text);
	cr_assert(strstr(text, "caps: asked for FI_COLLECTIVE, there is "), "%s", text);
	/* libfabric 2 has a name for this bit. */
	cr_assert(strstr(text, "caps: asked for 0x80000000000, there is ") ||
			  strstr(text, "caps: asked for FI_PEER, there is "),
		  "%s", text);
	cr_assert(strstr(text, "FI_WAIT_MUTEX_COND: only FI_WAIT_FD"), "%s", text);
}
