/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs of libfabric that hang.
 */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>

#include "base/compiler.h"
#include "why/whyt.h"

#define FIRST 600 /* number of the first endpoint */

static struct fid_ep *ep;
static struct fid_cq *cq;
static fi_addr_t to[WHYT_MOST];
static char data[64];

static struct fi_info *look(int me)
{
	struct fi_info *hints = fi_allocinfo(), *info;
	char service[16];

	whyt_must(hints);
	hints->caps = FI_TAGGED | FI_DIRECTED_RECV;
	hints->mode = FI_CONTEXT;
	hints->ep_attr->type = FI_EP_RDM;
	hints->fabric_attr->prov_name = strdup("tagwire");
	snprintf(service, sizeof service, "%d", FIRST + me);
	whyt_must(fi_getinfo(FI_VERSION(1, 15), NULL, service, FI_SOURCE, hints, &info) == 0);
	fi_freeinfo(hints);
	return info;
}

/* Addresses differ in the number of the endpoint only. */
static void insert(struct fid_av *av, int n)
{
	uint64_t name[8] = {0};
	size_t len = sizeof name;
	uint32_t id;

	whyt_must(fi_getname(&ep->fid, name, &len) == 0);
	for (int i = 0; i < n; i++) {
		id = (uint32_t)(FIRST + i);
		memcpy((char *)name + sizeof(uint64_t), &id, sizeof id);
		whyt_must(fi_av_insert(av, name, 1, &to[i], 0, NULL) == 1);
	}
}

static void begin(int me, int n)
{
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fi_info *info;
	struct fid_av *av;

	/* Some choose their job by the second name of the setting. */
	if (me & 1) {
		setenv("FI_TAGWIRE_JOB", getenv("TAGWIRE_JOB"), 1);
		unsetenv("TAGWIRE_JOB");
	}
	setenv("FI_PROVIDER_PATH", TWT_MODULES, 1);
	setenv("TAGWIRE_MODULES", TWT_MODULES, 1);
	info = look(me);
	whyt_must(fi_fabric(info->fabric_attr, &fabric, NULL) == 0);
	whyt_must(fi_domain(fabric, info, &domain, NULL) == 0);
	whyt_must(fi_av_open(domain, &av_attr, &av, NULL) == 0);
	whyt_must(fi_cq_open(domain, &cq_attr, &cq, NULL) == 0);
	whyt_must(fi_endpoint(domain, info, &ep, NULL) == 0);
	whyt_must(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV) == 0);
	whyt_must(fi_ep_bind(ep, &av->fid, 0) == 0);
	whyt_must(fi_enable(ep) == 0);
	insert(av, n);
}

/* As MPI does: polls until there is an event. False: the other side is not there yet. */
static bool complete(void)
{
	struct fi_cq_err_entry err = {0};
	struct fi_cq_tagged_entry e;
	ssize_t n;

	do
		n = fi_cq_read(cq, &e, 1);
	while (n == -FI_EAGAIN);
	return n == 1 || fi_cq_readerr(cq, &err, 0) != 1;
}

static void receive(fi_addr_t from, uint64_t tag)
{
	static struct fi_context context;

	do
		whyt_must(fi_trecv(ep, data, sizeof data, NULL, from, tag, 0, &context) == 0);
	while (!complete());
}

static void send(fi_addr_t dest, uint64_t tag)
{
	static struct fi_context context;

	do
		whyt_must(fi_tsend(ep, data, 10, NULL, dest, tag, &context) == 0);
	while (!complete());
}

static void both_receive(int me, int n)
{
	begin(me, n);
	receive(to[n - 1 - me], (uint64_t)me + 1);
}

static void wrong_tag(int me, int n)
{
	begin(me, n);
	if (me == 1)
		send(to[0], 0x31);
	receive(to[n - 1 - me], 0x30);
}

/* The first receives from the third only, and the second sends. */
static void wrong_source(int me, int n)
{
	begin(me, n);
	if (me == 1)
		send(to[0], 9);
	receive(me == 0 ? to[2] : to[0], 9);
}

#define R0 "ank 0 (process {0}, why_fi)"
#define R1 "ank 1 (process {1}, why_fi)"

static const struct whyt_case cases[] = {
	{"both_receive",
	 2,
	 both_receive,
	 0,
	 {"R" R0 " waits for a message with tag 0x1 from r" R1 ", and r" R1
	  " waits for a message with tag 0x2 from r" R0 ".",
	  "None of them has sent what the other waits for.",
	  "One of them must send before it receives."}},
	{"wrong_tag",
	 2,
	 wrong_tag,
	 0,
	 {"R" R0 " waits for a message with tag 0x30 from r" R1 ", and r" R1
	  " waits for a message with tag 0x30 from r" R0 ".",
	  "A message with tag 0x31 (10 bytes) from r" R1
	  " waits unmatched: the receive wants 0x30, which differs in bits 0x1.",
	  "Correct the tag or port of the send or of the receive."}},
	{"wrong_source",
	 3,
	 wrong_source,
	 0,
	 {"R" R0 " waits for a message with tag 0x9 from rank 2 (process {2}, why_fi), and rank 2 "
	  "(process {2}, why_fi) waits for a message with tag 0x9 from r" R0 ".",
	  "A message with tag 0x9 (10 bytes) from r" R1
	  " waits unmatched: the receive takes messages of another source only.",
	  "Correct the source of the receive."}},
};

int main(int argc, char **argv)
{
	return whyt_main(argc, argv, cases, tw_countof(cases));
}
