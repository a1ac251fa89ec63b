/* SPDX-License-Identifier: BSD-2-Clause */
/* libfabric's tagged messages over its shm provider, or another one: COMPARE_OFI. */
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <stdlib.h>
#include <string.h>

#include "launch.h"

#define PEER_HAS_ONE_SIDED

/* The library keeps the first part until the operation is complete. */
typedef struct {
	struct fi_context2 context;
	bool done;
} peer_req;

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_av *av;
static struct fid_cq *cq;
static struct fid_ep *endpoint;
static fi_addr_t addresses[MAX_RANKS];
static struct fid_mr *exposed_mr;
static struct ofi_memory {
	uint64_t base, key;
} there; /* what rank 1 has exposed */

static void ofi_check(ssize_t rc, const char *call)
{
	if (rc < 0)
		die(call, fi_strerror((int)-rc));
}

static const char *provider(void)
{
	const char *name = getenv("COMPARE_OFI");

	return name ? name : "shm";
}

static void peer_version(char *text, size_t room)
{
	uint32_t v = fi_version();

	snprintf(text, room, "%u.%u, %s provider", FI_MAJOR(v), FI_MINOR(v), provider());
}

static void peer_launch(void)
{
	rank = launch_fork(ranks);
}

static void peer_open(void)
{
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_CONTEXT, .size = 1 << 18};
	struct fi_av_attr av_attr = {.type = FI_AV_UNSPEC};
	struct fi_info *hints = fi_allocinfo();
	char name[ADDRESS_MAX];
	size_t len = sizeof name;

	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_TAGGED;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	if (one_sided) {
		hints->caps |= FI_RMA | FI_ATOMIC;
		hints->domain_attr->mr_mode |= FI_MR_ALLOCATED | FI_MR_PROV_KEY;
		hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
	}
	hints->fabric_attr->prov_name = strdup(provider());
	ofi_check(fi_getinfo(FI_VERSION(1, 15), NULL, NULL, 0, hints, &info), "fi_getinfo");
	fi_freeinfo(hints);
	ofi_check(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
	ofi_check(fi_domain(fabric, info, &domain, NULL), "fi_domain");
	ofi_check(fi_av_open(domain, &av_attr, &av, NULL), "fi_av_open");
	ofi_check(fi_cq_open(domain, &cq_attr, &cq, NULL), "fi_cq_open");
	ofi_check(fi_endpoint(domain, info, &endpoint, NULL), "fi_endpoint");
	ofi_check(fi_ep_bind(endpoint, &av->fid, 0), "fi_ep_bind");
	ofi_check(fi_ep_bind(endpoint, &cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
	ofi_check(fi_enable(endpoint), "fi_enable");
	ofi_check(fi_getname(&endpoint->fid, name, &len), "fi_getname");
	launch_tell(rank, name, len);
}

static void peer_await(int r)
{
	size_t len;

	launch_ask(r, &len);
}

static void peer_connect(int r)
{
	size_t len;

	if (fi_av_insert(av, launch_ask(r, &len), 1, &addresses[r], 0, NULL) != 1)
		die("fi_av_insert", "not inserted");
}

static void peer_close(void)
{
	if (exposed_mr)
		fi_close(&exposed_mr->fid);
	fi_close(&endpoint->fid);
	fi_close(&cq->fid);
	fi_close(&av->fid);
	fi_close(&domain->fid);
	fi_close(&fabric->fid);
	fi_freeinfo(info);
	launch_join();
}

static inline void ofi_progress(void)
{
	struct fi_cq_err_entry failed = {.err = 0};
	struct fi_cq_entry entries[16];
	ssize_t n = fi_cq_read(cq, entries, 16);

	for (ssize_t i = 0; i < n; i++)
		((peer_req *)entries[i].op_context)->done = true;
	if (n >= 0 || n == -FI_EAGAIN)
		return;
	if (n == -FI_EAVAIL)
		fi_cq_readerr(cq, &failed, 0);
	ofi_check(failed.err ? -failed.err : n, "completion");
}

static inline bool peer_test(peer_req *r)
{
	if (!r->done)
		ofi_progress();
	return r->done;
}

/* A queue is full: what completes makes room. */
static inline void ofi_again(ssize_t rc, const char *call)
{
	if (rc != -FI_EAGAIN)
		ofi_check(rc, call);
	ofi_progress();
	if (crowded)
		sched_yield();
}

static inline void peer_isend(int to, const void *buf, size_t len, uint32_t tag, peer_req *r)
{
	uint64_t full = full_tag(rank, tag);
	ssize_t rc;

	if (len <= info->tx_attr->inject_size) {
		while ((rc = fi_tinject(endpoint, buf, len, addresses[to], full)) != 0)
			ofi_again(rc, "fi_tinject");
		r->done = true;
		return;
	}
	r->done = false;
	while ((rc = fi_tsend(endpoint, buf, len, NULL, addresses[to], full, r)) != 0)
		ofi_again(rc, "fi_tsend");
}

static inline void peer_irecv(int from, void *buf, size_t len, uint32_t tag, peer_req *r)
{
	uint64_t ignore = ~tag_mask(from);
	ssize_t rc;

	r->done = false;
	while ((rc = fi_trecv(endpoint, buf, len, NULL, FI_ADDR_UNSPEC,
			      full_tag(from, tag) & ~ignore, ignore, r)) != 0)
		ofi_again(rc, "fi_trecv");
}

/* One-sided. A completion says that the data is there: FI_DELIVERY_COMPLETE. */

static void peer_expose(void *base, size_t len)
{
	peer_req r;

	if (rank == 1) {
		ofi_check(fi_mr_reg(domain, base, len, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1, 0,
				    &exposed_mr, NULL),
			  "fi_mr_reg");
		there.key = fi_mr_key(exposed_mr);
		there.base = info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)base : 0;
		peer_isend(0, &there, sizeof there, 0, &r);
	} else {
		peer_irecv(1, &there, sizeof there, 0, &r);
	}
	while (!peer_test(&r))
		sched_yield();
}

static inline void peer_put(const void *buf, size_t len, size_t at, peer_req *r)
{
	ssize_t rc;

	r->done = false;
	while ((rc = fi_write(endpoint, buf, len, NULL, addresses[1], there.base + at, there.key,
			      r)) != 0)
		ofi_again(rc, "fi_write");
}

static inline void peer_get(void *buf, size_t len, size_t at, peer_req *r)
{
	ssize_t rc;

	r->done = false;
	while ((rc = fi_read(endpoint, buf, len, NULL, addresses[1], there.base + at, there.key,
			     r)) != 0)
		ofi_again(rc, "fi_read");
}

static inline void peer_add(uint64_t *old, uint64_t n, peer_req *r)
{
	static uint64_t operand;
	ssize_t rc;

	operand = n;
	r->done = false;
	while ((rc = fi_fetch_atomic(endpoint, &operand, 1, NULL, old, NULL, addresses[1],
				     there.base, there.key, FI_UINT64, FI_SUM, r)) != 0)
		ofi_again(rc, "fi_fetch_atomic");
}

static inline void peer_flush(void)
{
}
