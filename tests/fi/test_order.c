/* SPDX-License-Identifier: BSD-2-Clause */
/* FI_ORDER_SAW: what a message finds at its receiver. */
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include "fi/fit.h"

TestSuite(fi_order, .timeout = FIT_TIMEOUT);

#define BIG 300000
#define KINDS 4

static int ctx[2];

/* Writes so many bytes; returns how many events that makes. */
static int change(struct fit *t, unsigned kind, char *from, fi_addr_t to, uint64_t key, size_t *n)
{
	*n = kind == 3 ? BIG : 1000;
	switch (kind) {
	case 0:
		fit_ok(fi_inject_write(t->ep[0], from, *n, to, 0, key));
		return 0;
	case 1:
		fit_ok(fi_inject_atomic(t->ep[0], from, *n, to, 0, key, FI_UINT8, FI_ATOMIC_WRITE));
		return 0;
	case 2:
		fit_ok(fi_atomic(t->ep[0], from, *n, NULL, to, 0, key, FI_UINT8, FI_BXOR, &ctx[0]));
		return 1;
	default:
		fit_ok(fi_write(t->ep[0], from, *n, NULL, to, 0, key, &ctx[0]));
		return 1;
	}
}

static int send_one(struct fit *t, unsigned kind, char *from, fi_addr_t to)
{
	switch (kind) {
	case 0:
		fit_ok(fi_tinject(t->ep[0], from, 8, to, 1));
		return 0;
	case 1:
		fit_ok(fi_tsend(t->ep[0], from, 200, NULL, to, 1, &ctx[0]));
		return 1;
	case 2:
		fit_ok(fi_tsenddata(t->ep[0], from, 8, NULL, 5, to, 1, &ctx[0]));
		return 1;
	default:
		fit_ok(fi_tsend(t->ep[0], from, BIG, NULL, to, 1, &ctx[0]));
		return 1;
	}
}

/*
 * Each round begins with memory that nobody knows yet, the first without a connection. The message
 * goes to another fi_addr_t of the same endpoint, and is followed by one that nothing holds.
 */
static void run(struct fit *t, unsigned round, fi_addr_t other)
{
	char *there = calloc(1, BIG), *from = malloc(BIG), *in = malloc(2 * BIG);
	unsigned kind = round % KINDS;
	struct fid_mr *mr;
	int events;
	size_t n;

	fit_ok(fi_mr_reg(t->domain, there, BIG, FI_REMOTE_WRITE, 0, round, 0, &mr, NULL));
	twt_fill(from, BIG, round);
	for (int i = 0; i < 2; i++)
		fit_ok(fi_trecv(t->ep[1], in + i * BIG, BIG, NULL, FI_ADDR_UNSPEC, 1, 0, &ctx[i]));
	events = change(t, kind, from, t->to[1], round, &n);
	events += send_one(t, round / KINDS, from, round % 2 ? other : t->to[1]);
	events += send_one(t, 0, from + 1, t->to[1]);
	fit_next(t, 1);
	cr_assert(twt_check(there, n, round) == n, "round %u", round);
	fit_next(t, 1); /* a long one may end after that behind it */
	cr_assert(memcmp(in, from, 8) == 0 && memcmp(in + BIG, from + 1, 8) == 0);
	while (events--)
		fit_good(t, 0, &ctx[0]);
	fit_ok(fi_close(&mr->fid));
	free(there);
	free(from);
	free(in);
}

FIT_TEST(fi_order, send_after_write)
{
	char name[64];
	size_t len = sizeof(name);
	fi_addr_t other;
	struct fit t;

	fit_open(&t, 2, *way, (struct fit_how){.caps = FI_RMA | FI_ATOMIC});
	cr_assert(t.info->tx_attr->msg_order & t.info->rx_attr->msg_order & FI_ORDER_SAW);
	fit_ok(fi_getname(&t.ep[1]->fid, name, &len));
	fit_eq(fi_av_insert(t.av, name, 1, &other, 0, NULL), 1);
	for (unsigned round = 0; round < KINDS * KINDS; round++)
		run(&t, round, other);
	fit_close(&t);
}
