/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libfabric: a program without an argument prints its address and receives a message; one with
 * that address as its argument sends it. It needs the headers of libfabric (libfabric-dev).
 *	cc fabric.c -o fabric $(pkg-config --cflags --libs libfabric)
 *	./fabric			prints tagwire://...
 *	./fabric tagwire://...
 * If libfabric does not find the provider, set FI_PROVIDER_PATH: see tagwire-libfabric(7).
 */
#define _POSIX_C_SOURCE 200809L /* strdup() */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG = 7 };

static long check(long code, const char *call)
{
	if (code < 0) {
		fprintf(stderr, "%s: %s\n", call, fi_strerror((int)-code));
		exit(1);
	}
	return code;
}

/* Waits for the one operation that was begun. */
static void finish(struct fid_cq *cq)
{
	struct fi_cq_err_entry failed = {.err = 0};
	struct fi_cq_entry entry;
	ssize_t n;

	do
		n = fi_cq_sread(cq, &entry, 1, NULL, -1);
	while (n == -FI_EAGAIN);
	if (n == -FI_EAVAIL && fi_cq_readerr(cq, &failed, 0) == 1)
		n = -failed.err;
	check(n, "the operation");
}

int main(int argc, char **argv)
{
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_UNSPEC};
	struct fi_av_attr av_attr = {.type = FI_AV_UNSPEC};
	struct fi_info *hints = fi_allocinfo(), *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *endpoint;
	char name[128], text[16] = "";
	size_t len = sizeof(name);
	fi_addr_t peer;

	hints->caps = FI_TAGGED;
	hints->addr_format = FI_ADDR_STR;
	hints->ep_attr->type = FI_EP_RDM;
	hints->fabric_attr->prov_name = strdup("tagwire");
	check(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info),
	      "no provider tagwire, see FI_PROVIDER_PATH: fi_getinfo");
	check(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
	check(fi_domain(fabric, info, &domain, NULL), "fi_domain");
	check(fi_av_open(domain, &av_attr, &av, NULL), "fi_av_open");
	check(fi_cq_open(domain, &cq_attr, &cq, NULL), "fi_cq_open");
	check(fi_endpoint(domain, info, &endpoint, NULL), "fi_endpoint");
	check(fi_ep_bind(endpoint, &av->fid, 0), "fi_ep_bind");
	check(fi_ep_bind(endpoint, &cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
	check(fi_enable(endpoint), "fi_enable");
	if (argc > 1) {
		if (fi_av_insert(av, argv[1], 1, &peer, 0, NULL) != 1)
			check(-FI_EINVAL, argv[1]);
		check(fi_tsend(endpoint, "hello", 6, NULL, peer, TAG, NULL), "fi_tsend");
		finish(cq);
		puts("sent");
	} else {
		check(fi_trecv(endpoint, text, sizeof(text), NULL, FI_ADDR_UNSPEC, TAG, 0, NULL),
		      "fi_trecv");
		check(fi_getname(&endpoint->fid, name, &len), "fi_getname");
		puts(name);
		fflush(stdout);
		finish(cq);
		printf("received: %s\n", text);
	}
	fi_close(&endpoint->fid);
	fi_close(&cq->fid);
	fi_close(&av->fid);
	fi_close(&domain->fid);
	fi_close(&fabric->fid);
	fi_freeinfo(info);
	fi_freeinfo(hints);
	return 0;
}
