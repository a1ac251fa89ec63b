/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads, writes and atomics on memory that another endpoint has registered. */
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include "fi/fit.h"

TestSuite(fi_rma, .timeout = FIT_TIMEOUT);

#define RMA (FI_RMA | FI_ATOMIC)
#define ALL (FI_REMOTE_READ | FI_REMOTE_WRITE)
#define KEY 0x1234567890abcdef
#define BIG 3000001

static int ctx[4];

static struct fid_mr *reg(struct fit *t, void *buf, size_t len, uint64_t access, uint64_t key)
{
	struct fid_mr *mr;

	fit_ok(fi_mr_reg(t->domain, buf, len, access, 0, key, 0, &mr, NULL));
	fit_eq(fi_mr_key(mr), key);
	return mr;
}

static void must_be(struct fi_cq_err_entry e, uint64_t flags)
{
	fit_eq(e.flags, flags);
}

FIT_TEST(fi_rma, sizes)
{
	static const size_t sizes[] = {1, 8, 1000, 4096, 65536, 1 << 20, BIG};
	char *there = malloc(BIG + 2), *here = malloc(BIG), *back = malloc(BIG + 1);
	struct fid_mr *mr;
	struct fit t;

	fit_open(&t, 2, *way, (struct fit_how){.caps = RMA});
	mr = reg(&t, there, BIG + 2, ALL, KEY);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		size_t n = sizes[i];

		memset(there, 1, n + 2);
		twt_fill(here, n, i);
		fit_ok(fi_write(t.ep[0], here, n, NULL, t.to[1], 1, KEY, &ctx[0]));
		must_be(fit_good(&t, 0, &ctx[0]), FI_RMA | FI_WRITE);
		cr_assert(there[0] == 1 && there[n + 1] == 1);
		fit_eq(twt_check(there + 1, n, i), n);
		memset(back, 2, n + 1);
		fit_ok(fi_read(t.ep[0], back, n, NULL, t.to[1], 1, KEY, &ctx[1]));
		must_be(fit_good(&t, 0, &ctx[1]), FI_RMA | FI_READ);
		fit_eq(twt_check(back, n, i), n);
		fit_eq(back[n], 2);
	}
	fit_none(&t, 1);
	fit_ok(fi_close(&mr->fid));
	fit_close(&t);
	free(there);
	free(here);
	free(back);
}

/* MPI's dynamic windows: offsets are addresses, and memory comes and goes. */
FIT_TEST(fi_rma, whole_address_space)
{
	static uint64_t there, part[BIG / 8];
	uint64_t one = 1, old = 0, *here = malloc(sizeof(part)), *later;
	struct fid_mr *mr;
	struct fit t;

	fit_open(&t, 2, *way, (struct fit_how){.caps = RMA});
	mr = reg(&t, NULL, SIZE_MAX, ALL, KEY);
	later = calloc(1, sizeof(*later));
	twt_fill(here, sizeof(part), 1);
	fit_ok(fi_write(t.ep[0], here, sizeof(part), NULL, t.to[1], (uintptr_t)part, KEY, &ctx[0]));
	fit_good(&t, 0, &ctx[0]);
	fit_eq(twt_check(part, sizeof(part), 1), sizeof(part));
	memset(here, 0, sizeof(part));
	fit_ok(fi_read(t.ep[0], here, sizeof(part), NULL, t.to[1], (uintptr_t)part, KEY, &ctx[1]));
	fit_good(&t, 0, &ctx[1]);
	fit_eq(twt_check(here, sizeof(part), 1), sizeof(part));
	fit_ok(fi_fetch_atomic(t.ep[0], &one, 1, NULL, &old, NULL, t.to[1], (uintptr_t)later, KEY,
			       FI_UINT64, FI_SUM, &ctx[2]));
	fit_good(&t, 0, &ctx[2]);
	fit_ok(fi_atomic(t.ep[0], &one, 1, NULL, t.to[1], (uintptr_t)&there, KEY, FI_UINT64, FI_SUM,
			 &ctx[2]));
	fit_good(&t, 0, &ctx[2]);
	cr_assert(*later == 1 && there == 1);
	fit_ok(fi_close(&mr->fid));
	fit_close(&t);
	free(later);
	free(here);
}

FIT_TEST(fi_rma, pieces)
{
	char there[3000], out[3000], in[3000];
	struct iovec from[3] = {{out, 1000}, {out + 1000, 0}, {out + 1000, 1777}},
		     to[2] = {{in, 500}, {in + 500, 2277}};
	struct fi_rma_iov where = {5, 2777, KEY};
	struct fi_msg_rma m = {.msg_iov = from,
			       .iov_count = 3,
			       .rma_iov = &where,
			       .rma_iov_count = 1,
			       .context = &ctx[0]};
	struct fid_mr *mr;
	struct fit t;

	fit_open(&t, 2, *way, (struct fit_how){.caps = RMA, .cq_flags = FI_SELECTIVE_COMPLETION});
	mr = reg(&t, there, sizeof(there), ALL, KEY);
	m.addr = t.to[1];
	twt_fill(out, sizeof(out), 1);
	fit_ok(fi_writemsg(t.ep[0], &m, FI_COMPLETION | FI_DELIVERY_COMPLETE));
	fit_good(&t, 0, &ctx[0]);
	cr_assert(memcmp(there + 5, out, 2777) == 0);
	m.msg_iov = to;
	m.iov_count = 2;
	fit_ok(fi_readmsg(t.ep[0], &m, FI_COMPLETION));
	fit_good(&t, 0, &ctx[0]);
	cr_assert(memcmp(in, out, 2777) == 0);
	/* Without an event, as nothing asks for one. */
	fit_ok(fi_readv(t.ep[0], to, NULL, 2, t.to[1], 0, KEY, &ctx[1]));
	fit_ok(fi_writev(t.ep[0], from, NULL, 3, t.to[1], 0, KEY, &ctx[1]));
	fit_none(&t, 0);
	cr_assert(memcmp(there, out, 2777) == 0);
	fit_eq(fi_readmsg(t.ep[0], &m, FI_REMOTE_CQ_DATA), -FI_EBADFLAGS);
	m.rma_iov_count = 2;
	fit_eq(fi_writemsg(t.ep[0], &m, 0), -FI_EINVAL);
	fit_ok(fi_close(&mr->fid));
	fit_close(&t);
}

/* The buffer is free at once, also before there is a connection; data arrives as an event. */
FIT_TEST(fi_rma, inject_and_data)
{
	enum { N = 64 };
	uint64_t there[N] = {0};
	struct fi_cq_err_entry e;
	struct fid_mr *mr;
	struct fit t;

	fit_open(&t, 2, *way, (struct fit_how){.caps = RMA | FI_SOURCE});
	mr = reg(&t, there, sizeof(there), FI_REMOTE_WRITE, KEY);
	for (uint64_t i = 0; i < N; i++) {
		uint64_t v = i + 1;

		if (i % 2)
			fit_ok(fi_inject_write(t.ep[0], &v, 8, t.to[1], 8 * i, KEY));
		else
			fit_ok(fi_inject_writedata(t.ep[0], &v, 8, ~i, t.to[1], 8 * i, KEY));
		v = 0;
	}
	for (uint64_t i = 0; i < N; i += 2) {
		e = fit_good(&t, 1, NULL);
		fit_eq(e.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
		fit_eq(e.len, 8);
		cr_assert(~e.data < N && there[~e.data] == ~e.data + 1);
	}
	fit_none(&t, 0);
	for (uint64_t i = 0; i < N; i++)
		fit_eq(there[i], i + 1);
	fit_ok(fi_writedata(t.ep[0], &there[1], 8, NULL, 5, t.to[1], 0, KEY, &ctx[0]));
	fit_good(&t, 0, &ctx[0]);
	fit_eq(fit_good(&t, 1, NULL).data, 5);
	fit_eq(there[0], there[1]);
	fit_eq(fi_inject_write(t.ep[0], there, t.info->tx_attr->inject_size + 1, t.to[1], 0, KEY),
	       -FI_EMSGSIZE);
	fit_ok(fi_close(&mr->fid));
	fit_close(&t);
}

FIT_TEST(fi_rma, errors)
{
	struct fid_mr *mr[3];
	char there[100];
	uint64_t v = 1;
	struct fit t;

	fit_open(&t, 2, *way, (struct fit_how){.caps = RMA});
	mr[0] = reg(&t, there, 100, FI_REMOTE_READ, 1);
	mr[1] = reg(&t, there, 100, FI_REMOTE_WRITE, 2);
	mr[2] = reg(&t, there, 100, ALL, 3);
	memset(there, 7, 100);
	fit_ok(fi_write(t.ep[0], &v, 8, NULL, t.to[1], 0, 99, &ctx[0]));
	fit_bad(&t, 0, &ctx[0], FI_EKEYREJECTED);
	fit_ok(fi_write(t.ep[0], &v, 8, NULL, t.to[1], 0, 1, &ctx[0]));
	fit_bad(&t, 0, &ctx[0], FI_EACCES);
	fit_ok(fi_read(t.ep[0], &v, 8, NULL, t.to[1], 0, 2, &ctx[0]));
	fit_bad(&t, 0, &ctx[0], FI_EACCES);
	fit_ok(fi_atomic(t.ep[0], &v, 1, NULL, t.to[1], 0, 1, FI_UINT64, FI_SUM, &ctx[0]));
	fit_bad(&t, 0, &ctx[0], FI_EACCES);
	fit_ok(fi_read(t.ep[0], &v, 8, NULL, t.to[1], 93, 3, &ctx[0]));
	fit_bad(&t, 0, &ctx[0], FI_EINVAL);
	fit_ok(fi_inject_write(t.ep[0], &v, 8, t.to[1], ~0ull - 3, 3));
	fit_bad(&t, 0, NULL, FI_EINVAL);
	fit_eq(fi_read(t.ep[0], NULL, 8, NULL, t.to[1], 0, 3, &ctx[0]), -FI_EINVAL);
	fit_eq(fi_read(t.ep[0], &v, 8, NULL, 77, 0, 3, &ctx[0]), -FI_EINVAL);
	/* What is closed is closed, also for who knew it. */
	fit_ok(fi_read(t.ep[0], &v, 8, NULL, t.to[1], 0, 3, &ctx[0]));
	fit_good(&t, 0, &ctx[0]);
	fit_ok(fi_close(&mr[2]->fid));
	fit_ok(fi_write(t.ep[0], &v, 8, NULL, t.to[1], 0, 3, &ctx[0]));
	fit_bad(&t, 0, &ctx[0], FI_EKEYREJECTED);
	/* And its key may be used again. */
	mr[2] = reg(&t, there, 100, ALL, 3);
	fit_ok(fi_read(t.ep[0], &v, 8, NULL, t.to[1], 0, 3, &ctx[0]));
	fit_good(&t, 0, &ctx[0]);
	fit_eq(v, 0x0707070707070707);
	for (int i = 0; i < 3; i++)
		fit_ok(fi_close(&mr[i]->fid));
	fit_close(&t);
}

/* TW_LIBFABRIC_MR_BASIC: keys are the provider's, addresses those of the owner. */
FIT_TEST(fi_rma, basic)
{
	char *there = malloc(200), here[50], back[50];
	struct fid_mr *mr[2];
	struct fit t;

	fit_open(&t, 2, *way, (struct fit_how){.caps = RMA, .mr_mode = TW_LIBFABRIC_MR_BASIC});
	for (int i = 0; i < 2; i++)
		fit_ok(fi_mr_reg(t.domain, there, 100 + 100 * i, ALL, 0, 0, 0, &mr[i], NULL));
	twt_fill(here, 50, 1);
	for (int i = 0; i < 2; i++) {
		uint64_t key = fi_mr_key(mr[i]), at = (uintptr_t)there + 50;

		memset(there, 0, 200);
		fit_ok(fi_write(t.ep[0], here, 50, NULL, t.to[1], at, key, &ctx[0]));
		fit_good(&t, 0, &ctx[0]);
		fit_eq(twt_check(there + 50, 50, 1), 50);
		fit_ok(fi_read(t.ep[0], back, 50, NULL, t.to[1], at + 60, key, &ctx[0]));
		if (i == 0)
			fit_bad(&t, 0, &ctx[0], FI_EINVAL);
		else
			fit_good(&t, 0, &ctx[0]);
	}
	for (int i = 0; i < 2; i++)
		fit_ok(fi_close(&mr[i]->fid));
	fit_close(&t);
	free(there);
}

/* Memory that is registered before an endpoint is there, and one that is closed before. */
FIT_TEST(fi_rma, order_of_opening)
{
	struct fid_mr *mr;
	uint64_t v = 5;
	struct fit t;

	fit_open(&t, 0, *way, (struct fit_how){.caps = RMA});
	mr = reg(&t, &v, 8, ALL, KEY);
	fit_add(&t);
	fit_add(&t);
	fit_ok(fi_inject_atomic(t.ep[0], &v, 1, t.to[1], 0, KEY, FI_UINT64, FI_SUM));
	fit_ok(fi_atomic(t.ep[0], &v, 1, NULL, t.to[1], 0, KEY, FI_UINT64, FI_SUM, &ctx[0]));
	fit_good(&t, 0, &ctx[0]);
	fit_eq(v, 15);
	fit_ok(fi_close(&t.ep[1]->fid));
	t.ep[1] = NULL;
	fit_ok(fi_close(&mr->fid));
	fit_close(&t);
}

/* Counters at both sides, and of the memory. */
FIT_TEST(fi_rma, counters)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC};
	static const uint64_t kinds[] = {FI_READ, FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE};
	struct fid_cntr *c[4], *of_mr;
	uint64_t there[2] = {0}, v = 3;
	struct fid_mr *mr;
	struct fit t;

	fit_open(&t, 0, *way, (struct fit_how){.caps = RMA | FI_RMA_EVENT});
	for (int i = 0; i < 4; i++)
		fit_ok(fi_cntr_open(t.domain, &attr, &c[i], NULL));
	fit_ok(fi_cntr_open(t.domain, &attr, &of_mr, NULL));
	for (int i = 0; i < 2; i++) {
		fit_prepare(&t);
		fit_ok(fi_ep_bind(t.ep[i], &c[2 * i]->fid, kinds[2 * i]));
		fit_ok(fi_ep_bind(t.ep[i], &c[2 * i + 1]->fid, kinds[2 * i + 1]));
		fit_enable(&t);
	}
	mr = reg(&t, there, sizeof(there), ALL, KEY);
	fit_ok(fi_mr_bind(mr, &of_mr->fid, FI_REMOTE_WRITE));
	fit_ok(fi_read(t.ep[0], &v, 8, NULL, t.to[1], 0, KEY, &ctx[0]));
	fit_ok(fi_write(t.ep[0], &v, 8, NULL, t.to[1], 0, KEY, &ctx[0]));
	fit_ok(fi_writedata(t.ep[0], &v, 8, NULL, 1, t.to[1], 0, KEY, &ctx[0]));
	fit_ok(fi_atomic(t.ep[0], &v, 1, NULL, t.to[1], 0, KEY, FI_UINT64, FI_SUM, &ctx[0]));
	fit_ok(fi_fetch_atomic(t.ep[0], &v, 1, NULL, &v, NULL, t.to[1], 8, KEY, FI_UINT64, FI_SUM,
			       &ctx[0]));
	for (int i = 0; i < 5; i++)
		fit_good(&t, 0, &ctx[0]);
	must_be(fit_good(&t, 1, NULL), FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
	for (int i = 0; i < 4; i++) {
		fit_ok(fi_cntr_wait(c[i], i % 2 ? 3 : 2, -1));
		fit_eq(fi_cntr_read(c[i]), i % 2 ? 3 : 2);
	}
	fit_ok(fi_cntr_wait(of_mr, 4, -1));
	fit_eq(fi_close(&of_mr->fid), -FI_EBUSY);
	fit_ok(fi_close(&mr->fid));
	for (int i = 0; i < 2; i++) {
		fit_ok(fi_close(&t.ep[i]->fid));
		t.ep[i] = NULL;
	}
	fit_ok(fi_close(&of_mr->fid));
	for (int i = 0; i < 4; i++)
		fit_ok(fi_close(&c[i]->fid));
	fit_close(&t);
}

/* A counter of two memories counts for one when the other is closed. */
FIT_TEST(fi_rma, one_counter_of_two)
{
	struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
	struct fid_cntr *cntr;
	struct fid_mr *mr[2];
	char there[2][8];
	struct fit t;

	setenv("TAGWIRE_SERVICE", "0", 1); /* nobody else progresses the endpoint */
	fit_open(&t, 2, *way, (struct fit_how){.caps = RMA | FI_RMA_EVENT});
	fit_ok(fi_cntr_open(t.domain, &attr, &cntr, NULL));
	for (unsigned i = 0; i < 2; i++) {
		mr[i] = reg(&t, there[i], 8, ALL, KEY + i);
		fit_ok(fi_mr_bind(mr[i], &cntr->fid, FI_REMOTE_WRITE));
	}
	fit_ok(fi_close(&mr[0]->fid));
	fit_ok(fi_write(t.ep[0], "1234567", 8, NULL, t.to[1], 0, KEY + 1, &ctx[0]));
	while (fi_cntr_read(cntr) == 0)
		fi_cq_read(t.cq[0], NULL, 0);
	fit_good(&t, 0, &ctx[0]);
	cr_assert_str_eq(there[1], "1234567");
	fit_ok(fi_close(&mr[1]->fid));
	fit_ok(fi_close(&cntr->fid));
	fit_close(&t);
}

#if TW_HAVE_TCP
/* A write of a, with both driven: its error, or 0. */
static int write_to(struct fit *a, struct fit *b, fi_addr_t to, const char *text, uint64_t at)
{
	struct fi_cq_err_entry e = {0};
	ssize_t rc;

	while ((rc = fi_write(a->ep[0], text, strlen(text) + 1, NULL, to, at, KEY, &ctx[0])) ==
	       -FI_EAGAIN)
		fi_cq_read(a->cq[0], &e, 1);
	fit_ok(rc);
	while ((rc = fi_cq_read(a->cq[0], &e, 1)) == -FI_EAGAIN)
		cr_assert_eq(fi_cq_read(b->cq[0], &e, 1), -FI_EAGAIN);
	if (rc == 1)
		return 0;
	fit_eq(rc, -FI_EAVAIL);
	fit_eq(fi_cq_readerr(a->cq[0], &e, 0), 1);
	return e.err;
}

/* A peer that does not hear of the end of a registration cannot use it any more. */
Test(fi_rma, closed_under_a_peer_that_sleeps)
{
	static char there[8192], untouched[8192];
	char name[64];
	size_t len = sizeof(name);
	struct fid_mr *mr;
	struct fit a, b;
	fi_addr_t to;

	setenv("TAGWIRE_SERVICE", "0", 1);
	fit_open(&a, 1, "self,tcp", (struct fit_how){.caps = RMA});
	fit_open(&b, 1, "self,tcp", (struct fit_how){.caps = RMA});
	fit_ok(fi_getname(&b.ep[0]->fid, name, &len));
	fit_eq(fi_av_insert(a.av, name, 1, &to, 0, NULL), 1);
	mr = reg(&b, there, sizeof(there), ALL, KEY);
	fit_eq(write_to(&a, &b, to, "hello", 0), 0);
	fit_eq(strcmp(there, "hello"), 0);
	fit_ok(fi_close(&mr->fid));
	memset(there, 'A', sizeof(there));
	memset(untouched, 'A', sizeof(there));
	cr_assert_neq(write_to(&a, &b, to, "too late", 4096), 0, "it is written");
	cr_assert_arr_eq(there, untouched, sizeof(there));
	fit_close(&b);
	fit_close(&a);
}
#endif
