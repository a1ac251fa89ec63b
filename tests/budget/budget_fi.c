/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The same as budget.c for programs that speak libfabric, by its public calls. No program
 * of the library is linked: libfabric finds it where FI_PROVIDER_PATH says.
 *
 *	budget_fi		all cases
 *	budget_fi CASE		one case
 */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "budget/budget.h"

#define TAG 7

COUNTED counted_send(struct fid_ep *ep, struct fid_cq *cq, fi_addr_t to);
COUNTED counted_post(struct fid_ep *ep, unsigned k);
COUNTED counted_take(struct fid_cq *cq);
COUNTED counted_data_send(struct fid_ep *ep, fi_addr_t to);
COUNTED counted_data_post(struct fid_ep *ep, unsigned k);

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_av *av;
static struct {
	struct fid_ep *ep;
	struct fid_cq *cq;
	fi_addr_t addr;
} a, b;
static uint64_t sent, received[BATCH];

static inline void finish(struct fid_cq *cq)
{
	struct fi_cq_tagged_entry e;

	MUST(fi_cq_read(cq, &e, 1) == 1);
}

COUNTED counted_send(struct fid_ep *ep, struct fid_cq *cq, fi_addr_t to)
{
	MUST(fi_tsend(ep, &sent, sizeof(sent), NULL, to, TAG, NULL) == 0);
	finish(cq);
}

COUNTED counted_post(struct fid_ep *ep, unsigned k)
{
	MUST(fi_trecv(ep, &received[k], sizeof(sent), NULL, FI_ADDR_UNSPEC, TAG, 0, NULL) == 0);
}

COUNTED counted_take(struct fid_cq *cq)
{
	finish(cq);
}

/* One poll takes all messages, as in budget.c. */
static void eager(void)
{
	for (unsigned k = 0; k < BATCH; k++)
		counted_post(b.ep, k);
	for (unsigned k = 0; k < BATCH; k++) {
		sent++;
		counted_send(a.ep, a.cq, b.addr);
	}
	for (unsigned k = 0; k < BATCH; k++) {
		counted_take(b.cq);
		MUST(received[k] == sent - BATCH + 1 + k);
	}
}

/* One message for each poll. */
static void single(void)
{
	for (unsigned k = 0; k < BATCH; k++) {
		counted_post(b.ep, 0);
		sent++;
		counted_send(a.ep, a.cq, b.addr);
		counted_take(b.cq);
		MUST(received[0] == sent);
	}
}

/* Each message is answered before the next. Only one half is counted. */
static void pingpong(void)
{
	static uint64_t reply;
	struct fi_cq_tagged_entry e;

	for (unsigned k = 0; k < BATCH; k++) {
		unsigned done = 0;

		counted_post(b.ep, 0);
		sent++;
		counted_send(a.ep, a.cq, b.addr);
		counted_take(b.cq);
		MUST(received[0] == sent);
		MUST(fi_trecv(a.ep, &reply, sizeof(reply), NULL, FI_ADDR_UNSPEC, TAG, 0, NULL) == 0);
		MUST(fi_tsend(b.ep, &reply, sizeof(reply), NULL, a.addr, TAG, NULL) == 0);
		while (done < 2)
			done += (fi_cq_read(b.cq, &e, 1) == 1) + (fi_cq_read(a.cq, &e, 1) == 1);
	}
}

COUNTED counted_data_send(struct fid_ep *ep, fi_addr_t to)
{
	MUST(fi_tinjectdata(ep, &sent, sizeof(sent), TAG, to, TAG) == 0);
}

COUNTED counted_data_post(struct fid_ep *ep, unsigned k)
{
	MUST(fi_trecv(ep, &received[k], sizeof(sent), NULL, a.addr, TAG, 0, NULL) == 0);
}

/* As Open MPI does: the sender's rank is completion data, receives are for one source. */
static void data(void)
{
	for (unsigned k = 0; k < BATCH; k++) {
		counted_data_post(b.ep, 0);
		sent++;
		counted_data_send(a.ep, b.addr);
		counted_take(b.cq);
		MUST(received[0] == sent);
	}
}

static void open_end(struct fid_ep **ep, struct fid_cq **cq, fi_addr_t *addr)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE};
	char name[64];
	size_t len = sizeof(name);

	MUST(fi_cq_open(domain, &attr, cq, NULL) == 0);
	MUST(fi_endpoint(domain, info, ep, NULL) == 0);
	MUST(fi_ep_bind(*ep, &(*cq)->fid, FI_TRANSMIT | FI_RECV) == 0);
	MUST(fi_ep_bind(*ep, &av->fid, 0) == 0);
	MUST(fi_enable(*ep) == 0);
	MUST(fi_getname(&(*ep)->fid, name, &len) == 0);
	MUST(fi_av_insert(av, name, 1, addr, 0, NULL) == 1);
}

/* Both are polled, so that it needs no other thread. */
static void connect_ends(void)
{
	struct fi_cq_tagged_entry e;
	unsigned done = 0;

	counted_post(b.ep, 0);
	MUST(fi_tsend(a.ep, &sent, sizeof(sent), NULL, b.addr, TAG, NULL) == 0);
	while (done < 2)
		done += (fi_cq_read(a.cq, &e, 1) == 1) + (fi_cq_read(b.cq, &e, 1) == 1);
}

static void open_fi(void)
{
	struct fi_av_attr attr = {.type = FI_AV_TABLE};
	struct fi_info *hints = fi_allocinfo();

	MUST(hints);
	hints->caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV;
	hints->ep_attr->type = FI_EP_RDM;
	hints->fabric_attr->prov_name = strdup("tagwire");
	MUST(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info) == 0);
	fi_freeinfo(hints);
	MUST(fi_fabric(info->fabric_attr, &fabric, NULL) == 0);
	MUST(fi_domain(fabric, info, &domain, NULL) == 0);
	MUST(fi_av_open(domain, &attr, &av, NULL) == 0);
	open_end(&a.ep, &a.cq, &a.addr);
	open_end(&b.ep, &b.cq, &b.addr);
	connect_ends();
}

static void close_fi(void)
{
	MUST(fi_close(&a.ep->fid) == 0 && fi_close(&b.ep->fid) == 0);
	MUST(fi_close(&a.cq->fid) == 0 && fi_close(&b.cq->fid) == 0);
	MUST(fi_close(&av->fid) == 0 && fi_close(&domain->fid) == 0);
	MUST(fi_close(&fabric->fid) == 0);
	fi_freeinfo(info);
}

/* Credits and whatever else goes back are taken in where nobody counts. */
static void settle(void)
{
	fi_cq_read(a.cq, NULL, 0);
	fi_cq_read(b.cq, NULL, 0);
}

static const struct budget_case cases[] = {
	{"fi_eager", open_fi, eager, settle, close_fi, 8},
	{"fi_single", open_fi, single, settle, close_fi, 8},
	{"fi_pingpong", open_fi, pingpong, settle, close_fi, 8},
	{"fi_data", open_fi, data, settle, close_fi, 8},
};

int main(int argc, char **argv)
{
	return budget_run(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}
