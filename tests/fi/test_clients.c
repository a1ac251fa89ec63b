/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What clients ask for beyond messages: counters that are bound late, FI_RMA_EVENT of one side,
 * FI_FENCE, FI_SOURCE_ERR, sends that are taken back, and peers that leave.
 */
#include <fcntl.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include <unistd.h>

#include "fi/fit.h"

TestSuite(fi_clients, .timeout = FIT_TIMEOUT);

#define RMA (FI_RMA | FI_ATOMIC)
#define ALL (FI_REMOTE_READ | FI_REMOTE_WRITE)
#define KEY 3
#define BIG 1000000

static int ctx[4];

static struct fid_cntr *new_counter(struct fit *t)
{
	struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
	struct fid_cntr *c;

	fit_ok(fi_cntr_open(t->domain, &attr, &c, NULL));
	return c;
}

static void close_counted(struct fit *t, struct fid_cntr *c)
{
	for (unsigned i = 0; i < t->n; i++) {
		fit_ok(fi_close(&t->ep[i]->fid));
		t->ep[i] = NULL;
	}
	fit_ok(fi_close(&c->fid));
	fit_close(t);
}

/* A counter may be bound to an endpoint in use, and counts from then on. */
FIT_TEST(fi_clients, counter_bound_late)
{
	struct fid_cntr *c;
	struct fit t;
	int v = 1;

	fit_open(&t, 2, *way, (struct fit_how){0});
	fit_ok(fi_trecv(t.ep[1], &v, 4, NULL, FI_ADDR_UNSPEC, 1, 0, &ctx[1]));
	fit_tsend(&t, 0, 1, &v, 4, 1);
	fit_good(&t, 1, &ctx[1]);
	c = new_counter(&t);
	fit_eq(fi_ep_bind(t.ep[0], &c->fid, 0), -FI_EBADFLAGS);
	fit_ok(fi_ep_bind(t.ep[0], &c->fid, FI_SEND));
	fit_eq(fi_ep_bind(t.ep[0], &c->fid, FI_SEND), -FI_EINVAL);
	fit_ok(fi_ep_bind(t.ep[1], &c->fid, FI_RECV));
	for (uint64_t i = 0; i < 3; i++) {
		fit_ok(fi_trecv(t.ep[1], &v, 4, NULL, FI_ADDR_UNSPEC, i, 0, &ctx[1]));
		fit_tsend(&t, 0, 1, &v, 4, i);
		fit_good(&t, 1, &ctx[1]);
	}
	fit_ok(fi_cntr_wait(c, 6, 1000 * TWT_LONG));
	fit_eq(fi_cntr_read(c), 6);
	close_counted(&t, c);
}

/* The owner of the memory asks to be told; the other side has asked for nothing. */
FIT_TEST(fi_clients, events_of_the_target)
{
	uint64_t there[2] = {0}, v = 3, old;
	struct fid_cntr *c, *reads;
	struct fi_info *asking;
	struct fid_mr *mr;
	struct fit t;

	fit_open(&t, 1, *way, (struct fit_how){.caps = RMA});
	asking = t.info;
	t.info = fi_dupinfo(asking);
	t.info->caps |= FI_RMA_EVENT;
	t.info->rx_attr->caps |= FI_RMA_EVENT;
	fit_prepare(&t);
	c = new_counter(&t);
	reads = new_counter(&t);
	fit_ok(fi_ep_bind(t.ep[1], &reads->fid, FI_REMOTE_READ));
	fit_enable(&t);
	fit_ok(fi_mr_reg(t.domain, there, sizeof(there), ALL, 0, KEY, FI_RMA_EVENT, &mr, NULL));
	fit_ok(fi_mr_bind(mr, &c->fid, FI_REMOTE_WRITE));
	fit_ok(fi_write(t.ep[0], &v, 8, NULL, t.to[1], 0, KEY, &ctx[0]));
	fit_good(&t, 0, &ctx[0]);
	fit_ok(fi_cntr_wait(c, 1, 1000 * TWT_LONG));
	fit_ok(fi_atomic(t.ep[0], &v, 1, NULL, t.to[1], 0, KEY, FI_UINT64, FI_SUM, &ctx[0]));
	fit_good(&t, 0, &ctx[0]);
	fit_ok(fi_cntr_wait(c, 2, 1000 * TWT_LONG));
	/* One that returns something changes the memory, too. */
	fit_ok(fi_fetch_atomic(t.ep[0], &v, 1, NULL, &old, NULL, t.to[1], 0, KEY, FI_UINT64, FI_SUM,
			       &ctx[0]));
	fit_good(&t, 0, &ctx[0]);
	fit_ok(fi_cntr_wait(c, 3, 1000 * TWT_LONG));
	/* These do not. */
	fit_ok(fi_fetch_atomic(t.ep[0], NULL, 1, NULL, &old, NULL, t.to[1], 0, KEY, FI_UINT64,
			       FI_ATOMIC_READ, &ctx[0]));
	fit_good(&t, 0, &ctx[0]);
	fit_eq(old, 9);
	fit_ok(fi_read(t.ep[0], &v, 8, NULL, t.to[1], 0, KEY, &ctx[0]));
	fit_good(&t, 0, &ctx[0]);
	fit_ok(fi_writedata(t.ep[0], &v, 8, NULL, 5, t.to[1], 0, KEY, &ctx[0]));
	fit_good(&t, 0, &ctx[0]);
	fit_eq(fit_good(&t, 1, NULL).data, 5);
	fit_ok(fi_cntr_wait(c, 4, 1000 * TWT_LONG));
	fit_ok(fi_cntr_wait(reads, 3, 1000 * TWT_LONG));
	fit_eq(fi_cntr_read(c), 4);
	fit_eq(fi_cntr_read(reads), 3);
	fit_ok(fi_close(&mr->fid));
	fi_freeinfo(t.info);
	t.info = asking;
	fit_ok(fi_close(&t.ep[1]->fid));
	t.ep[1] = NULL;
	fit_ok(fi_close(&reads->fid));
	fit_ok(fi_close(&c->fid));
	fit_close(&t);
}

/* A fenced write begins when the read before it has ended, and what follows comes after. */
FIT_TEST(fi_clients, fence)
{
	char *there = malloc(BIG), *in = malloc(BIG), b = 2;
	struct iovec iov = {&b, 1};
	struct fi_rma_iov where = {BIG - 1, 1, KEY};
	struct fi_msg_rma m = {.msg_iov = &iov,
			       .iov_count = 1,
			       .rma_iov = &where,
			       .rma_iov_count = 1,
			       .context = &ctx[1]};
	struct fid_mr *mr;
	struct fit t;

	fit_open(&t, 2, *way, (struct fit_how){.caps = RMA | FI_FENCE});
	cr_assert(t.info->caps & FI_FENCE);
	fit_ok(fi_mr_reg(t.domain, there, BIG, ALL, 0, KEY, 0, &mr, NULL));
	m.addr = t.to[1];
	for (unsigned i = 0; i < 20; i++) {
		int v = 0;

		memset(there, 1, BIG);
		fit_ok(fi_trecv(t.ep[1], &v, 4, NULL, FI_ADDR_UNSPEC, 1, 0, &ctx[3]));
		fit_ok(fi_read(t.ep[0], in, BIG, NULL, t.to[1], 0, KEY, &ctx[0]));
		fit_ok(fi_writemsg(t.ep[0], &m, FI_FENCE | FI_COMPLETION));
		fit_ok(fi_tinject(t.ep[0], "abc", 4, t.to[1], 1));
		fit_good(&t, 0, &ctx[0]);
		fit_good(&t, 0, &ctx[1]);
		fit_eq(in[BIG - 1], 1);
		fit_eq(there[BIG - 1], 2);
		fit_good(&t, 1, &ctx[3]);
		cr_assert_str_eq((char *)&v, "abc");
	}
	/* With nothing before it; and an address that goes while something waits behind a fence. */
	fit_ok(fi_writemsg(t.ep[0], &m, FI_FENCE | FI_COMPLETION));
	fit_good(&t, 0, &ctx[1]);
	fit_ok(fi_read(t.ep[0], in, BIG, NULL, t.to[1], 0, KEY, &ctx[0]));
	fit_ok(fi_writemsg(t.ep[0], &m, FI_FENCE | FI_COMPLETION));
	fit_ok(fi_av_remove(t.av, &t.to[1], 1, 0));
	for (unsigned i = 0; i < 2; i++) {
		struct fi_cq_err_entry e = fit_next(&t, 0);

		cr_assert(!e.err || (e.op_context == &ctx[1] && e.err == FI_ECANCELED));
	}
	fit_ok(fi_close(&mr->fid));
	fit_close(&t);
	free(there);
	free(in);
}

/* A message from somebody who is not in the address vector brings his address. */
FIT_TEST(fi_clients, unknown_source)
{
	char name[64], mine[64], own[64];
	struct fi_cq_err_entry bad = {.err_data = mine, .err_data_size = sizeof(mine)};
	size_t len = sizeof(name);
	struct fi_cq_tagged_entry e;
	fi_addr_t from;
	struct fit t;
	ssize_t n;
	int v = 0;

	fit_open(&t, 2, *way, (struct fit_how){.caps = FI_SOURCE | FI_SOURCE_ERR});
	fit_ok(fi_getname(&t.ep[0]->fid, name, &len));
	fit_ok(fi_av_remove(t.av, &t.to[0], 1, 0));
	for (unsigned i = 0; i < 2; i++) {
		fit_ok(fi_trecv(t.ep[1], &v, 4, NULL, FI_ADDR_UNSPEC, i, 0, &ctx[i]));
		fit_tsend(&t, 0, 1, "abc", 4, i);
		while ((n = fi_cq_read(t.cq[1], &e, 1)) == -FI_EAGAIN)
			;
		fit_eq(n, -FI_EAVAIL);
		/* Into memory of this program, or the queue's. */
		if (i)
			bad = (struct fi_cq_err_entry){.err_data = own, .err_data_size = 0};
		fit_eq(fi_cq_readerr(t.cq[1], &bad, 0), 1);
		fit_eq(bad.err, FI_EADDRNOTAVAIL);
		cr_assert(bad.op_context == &ctx[i] && bad.len == 4 && bad.tag == i);
		cr_assert((bad.err_data == mine) == !i);
		cr_assert(bad.err_data_size == len && memcmp(bad.err_data, name, len) == 0);
		cr_assert_str_eq((char *)&v, "abc");
	}
	fit_eq(fi_av_insert(t.av, bad.err_data, 1, &t.to[0], 0, NULL), 1);
	fit_ok(fi_trecv(t.ep[1], &v, 4, NULL, FI_ADDR_UNSPEC, 1, 0, &ctx[1]));
	fit_tsend(&t, 0, 1, "abc", 4, 1);
	while ((n = fi_cq_readfrom(t.cq[1], &e, 1, &from)) == -FI_EAGAIN)
		;
	fit_eq(n, 1);
	fit_eq(from, t.to[0]);
	fit_close(&t);
}

/* A send that no receive has matched can be taken back, wherever it is. */
FIT_TEST(fi_clients, cancelled_sends)
{
	char *out = calloc(1, BIG), *in = calloc(1, BIG);
	struct iovec iov = {out, 8};
	struct fi_msg_tagged m = {.msg_iov = &iov, .iov_count = 1, .tag = 2, .context = &ctx[1]};
	struct fi_context2 place = {0};
	struct fit t;

	fit_open(&t, 2, *way, (struct fit_how){0});
	/* Before there is a connection. */
	fit_ok(fi_tsend(t.ep[0], out, BIG, NULL, t.to[1], 1, &ctx[0]));
	fit_ok(fi_cancel(&t.ep[0]->fid, &ctx[0]));
	fit_bad(&t, 0, &ctx[0], FI_ECANCELED);
	fit_tsend(&t, 0, 1, out, 8, 3);
	/* Announced; and one that waits to be matched. */
	fit_ok(fi_tsend(t.ep[0], out, BIG, NULL, t.to[1], 1, &ctx[0]));
	m.addr = t.to[1];
	fit_ok(fi_tsendmsg(t.ep[0], &m, FI_MATCH_COMPLETE));
	fit_none(&t, 0);
	fit_ok(fi_cancel(&t.ep[0]->fid, &ctx[0]));
	cr_assert(fit_bad(&t, 0, &ctx[0], FI_ECANCELED).flags & FI_SEND);
	fit_ok(fi_cancel(&t.ep[0]->fid, &ctx[1]));
	fit_bad(&t, 0, &ctx[1], FI_ECANCELED);
	fit_eq(fi_cancel(&t.ep[0]->fid, &ctx[1]), -FI_ENOENT);
	/* Nothing of them is there. */
	for (uint64_t tag = 1; tag <= 2; tag++) {
		struct fi_msg_tagged look = {.addr = FI_ADDR_UNSPEC, .tag = tag, .context = &place};

		fit_ok(fi_trecvmsg(t.ep[1], &look, FI_PEEK));
		fit_bad(&t, 1, &place, FI_ENOMSG);
	}
	/* One that is matched ends as ever. */
	fit_ok(fi_trecv(t.ep[1], in, BIG, NULL, FI_ADDR_UNSPEC, 1, 0, &ctx[2]));
	twt_fill(out, BIG, 4);
	fit_ok(fi_tsend(t.ep[0], out, BIG, NULL, t.to[1], 1, &ctx[0]));
	fit_eq(fit_good(&t, 1, &ctx[2]).len, BIG);
	fi_cancel(&t.ep[0]->fid, &ctx[0]);
	fit_good(&t, 0, &ctx[0]);
	fit_eq(twt_check(in, BIG, 4), BIG);
	fit_close(&t);
	free(out);
	free(in);
}

#define PARTS 12

static size_t part_len(unsigned i)
{
	static const size_t lens[] = {0, 8, 100, 3000, 20000, 40000, 100000, 300000};

	return lens[i % (sizeof(lens) / sizeof(*lens))];
}

/* Receives everything, says so, and is gone at once. */
static int leaver(void *arg, int fd)
{
	static char in[PARTS][300000];
	char name[64], memory[8];
	size_t len = sizeof(name);
	unsigned left = PARTS;
	struct fi_cq_tagged_entry e;
	fi_addr_t to;
	struct fid_mr *mr;
	struct fit t;

	fit_open(&t, 1, arg, (struct fit_how){.caps = RMA | FI_DIRECTED_RECV});
	fit_ok(fi_mr_reg(t.domain, memory, 8, ALL, 0, KEY, 0, &mr, NULL));
	fit_ok(fi_getname(&t.ep[0]->fid, name, &len));
	for (unsigned i = 0; i < PARTS; i++)
		fit_ok(fi_trecv(t.ep[0], in[i], part_len(i), NULL, FI_ADDR_UNSPEC, i, 0, NULL));
	twt_put(fd, &len, sizeof(len));
	twt_put(fd, name, len);
	cr_assert(!twt_get(fd, &len, sizeof(len)) && !twt_get(fd, name, len));
	fit_eq(fi_av_insert(t.av, name, 1, &to, 0, NULL), 1);
	while (left) {
		ssize_t n = fi_cq_read(t.cq[0], &e, 1);

		cr_assert(n == 1 || n == -FI_EAGAIN);
		left -= n == 1;
	}
	while (fi_tinject(t.ep[0], "abc", 4, to, 99) == -FI_EAGAIN)
		;
	fit_ok(fi_close(&t.ep[0]->fid));
	t.ep[0] = NULL;
	fit_ok(fi_close(&mr->fid));
	fit_close(&t);
	return 0;
}

/* What a peer has received before it left has been sent, whenever this side looks. */
FIT_TEST(fi_clients, leaves_with_everything)
{
	char *out = calloc(1, 300000);

	for (unsigned round = 0; round < 20; round++) {
		unsigned sent = 0, ended = 0;
		struct iovec iov = {out, 0};
		struct fi_msg_tagged m = {.msg_iov = &iov, .iov_count = 1};
		struct twt_child c;
		char name[64], said[4];
		size_t len;
		struct fit t;

		fit_env(*way);
		twt_spawn(&c, leaver, *way);
		fit_open(&t, 1, *way, (struct fit_how){.caps = RMA | FI_DIRECTED_RECV});
		cr_assert(!twt_get(c.fd, &len, sizeof(len)) && !twt_get(c.fd, name, len));
		fit_eq(fi_av_insert(t.av, name, 1, &m.addr, 0, NULL), 1);
		len = sizeof(name);
		fit_ok(fi_getname(&t.ep[0]->fid, name, &len));
		cr_assert(!twt_put(c.fd, &len, sizeof(len)) && !twt_put(c.fd, name, len));
		fit_ok(fi_trecv(t.ep[0], said, 4, NULL, m.addr, 99, 0, &ctx[1]));
		for (; sent < PARTS; sent++) {
			m.tag = sent;
			iov.iov_len = part_len(sent);
			fit_ok(fi_tsendmsg(t.ep[0], &m,
					   sent % 2 ? FI_DELIVERY_COMPLETE | FI_COMPLETION
						    : FI_COMPLETION));
		}
		/* Either side may be the slower one. */
		if (round % 2)
			usleep(20000);
		for (; ended <= sent; ended++) {
			struct fi_cq_err_entry e = fit_next(&t, 0);

			cr_assert(!e.err, "round %u, event %u: %s", round, ended,
				  fi_strerror(e.err));
		}
		cr_assert_str_eq(said, "abc");
		fit_eq(twt_join(&c, TWT_LONG), 0);
		fit_none(&t, 0);
		fit_close(&t);
	}
	free(out);
}

/* Closes without a look at what has come for its receive. */
static int blind(void *arg, int fd)
{
	static char in[BIG];
	char name[64];
	size_t len = sizeof(name);
	struct fit t;

	setenv("TAGWIRE_SERVICE", "0", 1); /* nothing of it moves meanwhile */
	fit_open(&t, 1, arg, (struct fit_how){0});
	fit_ok(fi_trecv(t.ep[0], in, BIG, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
	fit_ok(fi_trecv(t.ep[0], in, 8, NULL, FI_ADDR_UNSPEC, 2, 0, &ctx[1]));
	fit_ok(fi_getname(&t.ep[0]->fid, name, &len));
	twt_put(fd, &len, sizeof(len));
	twt_put(fd, name, len);
	fit_good(&t, 0, &ctx[1]); /* connected */
	twt_put(fd, "", 1);
	twt_get(fd, name, 1);
	fit_close(&t);
	return strcmp(in + BIG - 4, "end") == 0;
}

/* A posted receive takes its message even if the program closes the endpoint in that moment. */
FIT_TEST(fi_clients, leaves_with_a_receive)
{
	char *out = calloc(1, BIG), name[64];
	struct twt_child c;
	fi_addr_t to;
	struct fit t;
	size_t len;

	fit_env(*way);
	twt_spawn(&c, blind, *way);
	fit_open(&t, 1, *way, (struct fit_how){0});
	cr_assert(!twt_get(c.fd, &len, sizeof(len)) && !twt_get(c.fd, name, len));
	fit_eq(fi_av_insert(t.av, name, 1, &to, 0, NULL), 1);
	fit_ok(fi_tsend(t.ep[0], out, 8, NULL, to, 2, &ctx[1]));
	fit_good(&t, 0, &ctx[1]);
	cr_assert(!twt_get(c.fd, name, 1));
	strcpy(out + BIG - 4, "end");
	fit_ok(fi_tsend(t.ep[0], out, BIG, NULL, to, 1, &ctx[0]));
	fit_none(&t, 0);
	twt_put(c.fd, "", 1);
	fit_good(&t, 0, &ctx[0]);
	fit_eq(twt_join(&c, TWT_LONG), 1);
	fit_close(&t);
	free(out);
}
