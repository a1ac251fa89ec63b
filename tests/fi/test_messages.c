/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages with and without tags: data, order, matching, completion data, errors. */
#include "fi/fit.h"

TestSuite(fi_messages, .timeout = FIT_TIMEOUT);

static const size_t sizes[] = {0, 1, 8, 63, 64, 1024, 1025, 8192, 8193, 65536, 1 << 20, 5000001};
#define NSIZES (sizeof(sizes) / sizeof(*sizes))
#define BIG 5000001

static int ctx[16];

FIT_TEST(fi_messages, sizes)
{
	char *out = malloc(BIG), *in = malloc(BIG + 1);
	struct fi_cq_err_entry e;
	struct fit t;

	fit_open(&t, 2, *way, (struct fit_how){0});
	for (unsigned i = 0; i < 4 * NSIZES; i++) {
		size_t n = sizes[i % NSIZES];
		bool early = i < 2 * NSIZES, tagged = i / NSIZES % 2;

		twt_fill(out, n, i);
		memset(in, 0x55, n + 1);
		for (int k = 0; k < 2; k++) {
			if (early == (k == 0))
				fit_ok(tagged ? fi_trecv(t.ep[1], in, BIG, NULL, FI_ADDR_UNSPEC, i,
							 0, &ctx[1])
					      : fi_recv(t.ep[1], in, BIG, NULL, FI_ADDR_UNSPEC,
							&ctx[1]));
			else
				fit_ok(tagged ? fi_tsend(t.ep[0], out, n, NULL, t.to[1], i, &ctx[0])
					      : fi_send(t.ep[0], out, n, NULL, t.to[1], &ctx[0]));
		}
		e = fit_good(&t, 1, &ctx[1]);
		fit_eq(e.len, n);
		fit_eq(e.flags, FI_RECV | (tagged ? FI_TAGGED : FI_MSG));
		fit_eq(e.tag, tagged ? i : 0);
		fit_eq(twt_check(in, n, i), n);
		fit_eq(in[n], 0x55);
		e = fit_good(&t, 0, &ctx[0]);
		fit_eq(e.flags, FI_SEND | (tagged ? FI_TAGGED : FI_MSG));
	}
	fit_close(&t);
	free(out);
	free(in);
}

FIT_TEST(fi_messages, pieces)
{
	char out[3][1000], in[2][2000];
	struct iovec from[3] = {{out[0], 1000}, {out[1], 0}, {out[2], 777}},
		     to[2] = {{in[0], 500}, {in[1], 2000}};
	struct fit t;

	fit_open(&t, 2, *way, (struct fit_how){0});
	twt_fill(out, sizeof(out), 1);
	fit_ok(fi_trecvv(t.ep[1], to, NULL, 2, FI_ADDR_UNSPEC, 3, 0, &ctx[1]));
	fit_ok(fi_tsendv(t.ep[0], from, NULL, 3, t.to[1], 3, &ctx[0]));
	fit_eq(fit_good(&t, 1, &ctx[1]).len, 1777);
	cr_assert(memcmp(in[0], out[0], 500) == 0 && memcmp(in[1], out[0] + 500, 500) == 0 &&
		  memcmp(in[1] + 500, out[2], 777) == 0);
	fit_close(&t);
}

FIT_TEST(fi_messages, tags)
{
	const uint64_t high = 1ull << 62;
	uint64_t v, in[4];
	struct fit t;

	fit_open(&t, 2, *way, (struct fit_how){0});
	/* The earliest posted that matches, and the earliest arrived. */
	fit_ok(fi_trecv(t.ep[1], &in[0], 8, NULL, FI_ADDR_UNSPEC, high | 0x100, 0xff, &ctx[0]));
	fit_ok(fi_trecv(t.ep[1], &in[1], 8, NULL, FI_ADDR_UNSPEC, high | 0x101, 0, &ctx[1]));
	fit_ok(fi_trecv(t.ep[1], &in[2], 8, NULL, FI_ADDR_UNSPEC, 0, ~0ull, &ctx[2]));
	for (v = 0; v < 2; v++)
		fit_tsend(&t, 0, 1, &v, 8, high | 0x101);
	fit_tsend(&t, 0, 1, &v, 8, 7);
	fit_eq(fit_good(&t, 1, &ctx[0]).tag, high | 0x101);
	fit_good(&t, 1, &ctx[1]);
	fit_eq(fit_good(&t, 1, &ctx[2]).tag, 7);
	cr_assert(in[0] == 0 && in[1] == 1 && in[2] == 2);
	for (v = 0; v < 3; v++)
		fit_tsend(&t, 0, 1, &v, 8, v == 1 ? 20 : 21);
	fit_ok(fi_trecv(t.ep[1], &in[0], 8, NULL, FI_ADDR_UNSPEC, 21, 0, &ctx[0]));
	fit_ok(fi_trecv(t.ep[1], &in[1], 8, NULL, FI_ADDR_UNSPEC, 20, 1, &ctx[1]));
	fit_good(&t, 1, &ctx[0]);
	fit_good(&t, 1, &ctx[1]);
	cr_assert(in[0] == 0 && in[1] == 1);
	/* A message without a tag is never taken for one with, nor the reverse. */
	fit_ok(fi_send(t.ep[0], &v, 8, NULL, t.to[1], &ctx[5]));
	fit_good(&t, 0, &ctx[5]);
	fit_ok(fi_trecv(t.ep[1], &in[0], 8, NULL, FI_ADDR_UNSPEC, 0, ~0ull, &ctx[0]));
	fit_eq(fit_good(&t, 1, &ctx[0]).tag, 21);
	fit_none(&t, 1);
	fit_ok(fi_recv(t.ep[1], &in[0], 8, NULL, FI_ADDR_UNSPEC, &ctx[0]));
	fit_good(&t, 1, &ctx[0]);
	fit_eq(fi_tsend(t.ep[0], &v, 8, NULL, t.to[1], 1ull << 63, NULL), -FI_EINVAL);
	fit_eq(fi_trecv(t.ep[1], &v, 8, NULL, FI_ADDR_UNSPEC, 1ull << 63, 0, NULL), -FI_EINVAL);
	fit_close(&t);
}

FIT_TEST(fi_messages, remote_data)
{
	static const size_t lens[] = {0, 8, 3000, 300000};
	const uint64_t data = 0xfedcba9876543210;
	char *out = calloc(1, 300000), *in = malloc(300000);
	struct fi_cq_err_entry e;
	struct fit t;

	fit_open(&t, 2, *way, (struct fit_how){0});
	for (unsigned i = 0; i < 16; i++) {
		size_t n = lens[i % 4];
		bool early = i & 4, tagged = i & 8;

		twt_fill(out, n, i);
		for (int k = 0; k < 2; k++) {
			if (early == (k == 0))
				fit_ok(tagged ? fi_trecv(t.ep[1], in, 300000, NULL, FI_ADDR_UNSPEC,
							 i, 0, &ctx[1])
					      : fi_recv(t.ep[1], in, 300000, NULL, FI_ADDR_UNSPEC,
							&ctx[1]));
			else
				fit_ok(tagged ? fi_tsenddata(t.ep[0], out, n, NULL, data + i,
							     t.to[1], i, &ctx[0])
					      : fi_senddata(t.ep[0], out, n, NULL, data + i,
							    t.to[1], &ctx[0]));
		}
		e = fit_good(&t, 1, &ctx[1]);
		cr_assert(e.flags & FI_REMOTE_CQ_DATA);
		fit_eq(e.data, data + i);
		fit_eq(e.len, n);
		fit_eq(twt_check(in, n, i), n);
		fit_good(&t, 0, &ctx[0]);
	}
	fit_tsend(&t, 0, 1, out, 8, 1);
	fit_ok(fi_trecv(t.ep[1], in, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &ctx[1]));
	cr_assert(!(fit_good(&t, 1, &ctx[1]).flags & FI_REMOTE_CQ_DATA));
	fit_close(&t);
	free(out);
	free(in);
}

/* Before the connection is there, and beyond all credit: the buffer is free at once. */
FIT_TEST(fi_messages, inject)
{
	enum { N = 3000, MOST = 4096 };
	char buf[MOST + 1];
	struct fit t;

	fit_open(&t, 2, *way, (struct fit_how){0});
	for (unsigned i = 0; i < N; i++) {
		ssize_t rc;
		size_t n = i % 99 ? i % 2048 : MOST;

		twt_fill(buf, n, i);
		do
			rc = i % 2 ? fi_tinject(t.ep[0], buf, n, t.to[1], i)
				   : fi_tinjectdata(t.ep[0], buf, n, i, t.to[1], i);
		while (rc == -FI_EAGAIN);
		fit_ok(rc);
		memset(buf, 0, sizeof(buf));
	}
	for (unsigned i = 0; i < N; i++) {
		size_t n = i % 99 ? i % 2048 : MOST;
		struct fi_cq_err_entry e;

		fit_ok(fi_trecv(t.ep[1], buf, sizeof(buf), NULL, FI_ADDR_UNSPEC, i, 0, &ctx[1]));
		e = fit_good(&t, 1, &ctx[1]);
		fit_eq(e.len, n);
		fit_eq(twt_check(buf, n, i), n);
		fit_eq(e.data, i % 2 ? 0 : i);
	}
	fit_none(&t, 0);
	fit_eq(t.info->tx_attr->inject_size, MOST);
	fit_eq(fi_tinject(t.ep[0], buf, MOST + 1, t.to[1], 0), -FI_EMSGSIZE);
	fit_close(&t);
}

FIT_TEST(fi_messages, truncated)
{
	static const size_t lens[] = {100, 5000, 250000};
	char *out = calloc(1, 250000), *in = malloc(250000);
	struct fi_cq_err_entry e;
	struct fit t;

	fit_open(&t, 2, *way, (struct fit_how){0});
	for (unsigned i = 0; i < 6; i++) {
		size_t n = lens[i % 3];

		memset(in, 0x11, 250000);
		for (int k = 0; k < 2; k++)
			if ((i < 3) == (k == 0))
				fit_ok(fi_trecv(t.ep[1], in, 40, NULL, FI_ADDR_UNSPEC, 5, 0,
						&ctx[1]));
			else
				fit_ok(fi_tsend(t.ep[0], out, n, NULL, t.to[1], 5, &ctx[0]));
		e = fit_bad(&t, 1, &ctx[1], FI_ETRUNC);
		fit_eq(e.len, 40);
		fit_eq(e.olen, n - 40);
		fit_eq(e.tag, 5);
		fit_eq(in[40], 0x11);
		fit_good(&t, 0, &ctx[0]);
	}
	fit_close(&t);
	free(out);
	free(in);
}

FIT_TEST(fi_messages, directed)
{
	int v[6], in[6];
	struct fit t;

	fit_open(&t, 3, *way, (struct fit_how){.caps = FI_DIRECTED_RECV | FI_SOURCE});
	for (int i = 0; i < 6; i++)
		v[i] = i;
	/* Posted first: one for endpoint 1, one for any, one for endpoint 2. */
	fit_ok(fi_trecv(t.ep[0], &in[0], 4, NULL, t.to[1], 9, 0, &ctx[0]));
	fit_ok(fi_trecv(t.ep[0], &in[1], 4, NULL, FI_ADDR_UNSPEC, 9, 0, &ctx[1]));
	fit_ok(fi_trecv(t.ep[0], &in[2], 4, NULL, t.to[2], 9, 0, &ctx[2]));
	fit_tsend(&t, 2, 0, &v[0], 4, 9); /* matches any: it was posted before the third */
	fit_good(&t, 0, &ctx[1]);
	fit_tsend(&t, 2, 0, &v[1], 4, 9);
	fit_good(&t, 0, &ctx[2]);
	fit_tsend(&t, 2, 0, &v[2], 4, 9); /* nobody's */
	fit_none(&t, 0);
	fit_tsend(&t, 1, 0, &v[3], 4, 9);
	fit_good(&t, 0, &ctx[0]);
	cr_assert(in[0] == 3 && in[1] == 0 && in[2] == 1);
	/* Arrived first. */
	fit_tsend(&t, 1, 0, &v[4], 4, 9);
	fit_ok(fi_trecv(t.ep[0], &in[4], 4, NULL, t.to[1], 9, 0, &ctx[4]));
	fit_ok(fi_trecv(t.ep[0], &in[5], 4, NULL, t.to[2], 0, ~0ull, &ctx[5]));
	for (int i = 0; i < 2; i++) {
		struct fi_cq_err_entry e = fit_next(&t, 0);

		cr_assert(e.err == 0 && (e.op_context == &ctx[4] || e.op_context == &ctx[5]));
	}
	cr_assert(in[4] == 4 && in[5] == 2);
	fit_ok(fi_trecv(t.ep[0], &in[0], 4, NULL, t.to[1], 9, 0, &ctx[0]));
	fit_ok(fi_cancel(&t.ep[0]->fid, &ctx[0]));
	fit_bad(&t, 0, &ctx[0], FI_ECANCELED);
	fit_eq(fi_trecv(t.ep[0], in, 4, NULL, 77, 9, 0, NULL), -FI_EINVAL);
	fit_close(&t);
}

FIT_TEST(fi_messages, source)
{
	fi_addr_t from[2];
	struct fi_cq_tagged_entry e[2];
	double end = twt_now() + TWT_LONG;
	struct fit t;
	ssize_t n;
	int v = 0;

	fit_open(&t, 3, *way, (struct fit_how){.caps = FI_SOURCE});
	for (unsigned i = 0; i < 3; i++) {
		fit_ok(fi_trecv(t.ep[2], &v, 4, NULL, FI_ADDR_UNSPEC, i, 0, NULL));
		fit_tsend(&t, i == 2 ? 0 : i, 2, &v, 4, i);
		if (i == 2)
			break;
		while ((n = fi_cq_readfrom(t.cq[2], e, 1, from)) == -FI_EAGAIN)
			cr_assert(twt_now() < end);
		fit_eq(n, 1);
		fit_eq(from[0], t.to[i]);
	}
	fit_next(&t, 2);
	/* Who is not in the vector any more is nobody. */
	fit_ok(fi_av_remove(t.av, &t.to[1], 1, 0));
	fit_eq(fi_tsend(t.ep[0], &v, 4, NULL, t.to[1], 1, NULL), -FI_EINVAL);
	fit_ok(fi_trecv(t.ep[2], &v, 4, NULL, FI_ADDR_UNSPEC, 5, 0, NULL));
	fit_tsend(&t, 1, 2, &v, 4, 5);
	while ((n = fi_cq_readfrom(t.cq[2], e, 1, from)) == -FI_EAGAIN)
		cr_assert(twt_now() < end);
	fit_eq(from[0], FI_ADDR_NOTAVAIL);
	fit_close(&t);
}

/* An event outlives the endpoint and the vector that it is about. */
FIT_TEST(fi_messages, source_kept)
{
	double end = twt_now() + TWT_LONG;
	struct fi_cq_tagged_entry e;
	fi_addr_t from;
	struct fit t;
	int v = 5;

	fit_open(&t, 2, *way, (struct fit_how){.caps = FI_SOURCE});
	fit_ok(fi_trecv(t.ep[1], &v, 4, NULL, FI_ADDR_UNSPEC, 1, 0, &ctx[1]));
	fit_tsend(&t, 0, 1, &v, 4, 1);
	while (fi_cq_read(t.cq[1], NULL, 0) == -FI_EAGAIN)
		cr_assert(twt_now() < end);
	for (unsigned i = 0; i < 2; i++) {
		fit_ok(fi_close(&t.ep[i]->fid));
		t.ep[i] = NULL;
	}
	fit_ok(fi_close(&t.av->fid));
	fit_eq(fi_cq_readfrom(t.cq[1], &e, 1, &from), 1);
	cr_assert(e.op_context == &ctx[1] && from == t.to[0]);
	fit_ok(fi_av_open(t.domain, &(struct fi_av_attr){.type = FI_AV_TABLE}, &t.av, NULL));
	fit_close(&t);
}

static struct fi_msg_tagged looks(void *buf, struct iovec *iov, size_t len, uint64_t tag, void *c)
{
	*iov = (struct iovec){buf, len};
	return (struct fi_msg_tagged){
		.msg_iov = iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .tag = tag, .context = c};
}

FIT_TEST(fi_messages, peek)
{
	static const size_t lens[] = {40, 3000, 200000};
	char *out = malloc(200000), *in = malloc(200000);
	struct fi_context c = {{0}};
	struct fi_msg_tagged m;
	struct fi_cq_err_entry e;
	struct iovec iov;
	struct fit t;

	fit_open(&t, 2, *way, (struct fit_how){0});
	m = looks(in, &iov, 200000, 1, &c);
	fit_ok(fi_trecvmsg(t.ep[1], &m, FI_PEEK));
	fit_bad(&t, 1, &c, FI_ENOMSG);
	for (unsigned i = 0; i < 3; i++) {
		size_t n = lens[i];

		twt_fill(out, n, i);
		for (int k = 0; k < 4; k++)
			fit_ok(fi_tsenddata(t.ep[0], out, n, NULL, 77, t.to[1], 1, &ctx[0]));
		/* It is there as soon as the last of a tag of its own is. */
		do {
			fit_ok(fi_trecvmsg(t.ep[1], &m, FI_PEEK));
			e = fit_next(&t, 1);
		} while (e.err == FI_ENOMSG);
		fit_eq(e.err, 0);
		cr_assert(e.len == n && e.tag == 1 && e.data == 77 && e.op_context == &c);
		/* Looked at, it stays. */
		fit_ok(fi_trecvmsg(t.ep[1], &m, 0));
		fit_eq(fit_good(&t, 1, &c).len, n);
		fit_eq(twt_check(in, n, i), n);
		do {
			fit_ok(fi_trecvmsg(t.ep[1], &m, FI_PEEK | FI_CLAIM));
			e = fit_next(&t, 1);
		} while (e.err == FI_ENOMSG);
		/* The next receive gets the next message; the claimed one waits. */
		memset(in, 0, n);
		fit_ok(fi_trecv(t.ep[1], out, n, NULL, FI_ADDR_UNSPEC, 1, 0, &ctx[1]));
		fit_good(&t, 1, &ctx[1]);
		fit_ok(fi_trecvmsg(t.ep[1], &m, FI_CLAIM));
		e = fit_good(&t, 1, &c);
		cr_assert(e.len == n && e.data == 77);
		fit_eq(twt_check(in, n, i), n);
		do {
			fit_ok(fi_trecvmsg(t.ep[1], &m, FI_PEEK | FI_DISCARD));
			e = fit_next(&t, 1);
		} while (e.err == FI_ENOMSG);
		fit_eq(e.len, n);
		fit_ok(fi_trecvmsg(t.ep[1], &m, FI_PEEK));
		fit_bad(&t, 1, &c, FI_ENOMSG);
		/* All of them are over for their sender. */
		for (int k = 0; k < 4; k++)
			fit_good(&t, 0, &ctx[0]);
	}
	/* Claimed and thrown away; claimed and forgotten. */
	for (int k = 0; k < 2; k++) {
		fit_ok(fi_tsend(t.ep[0], out, 8, NULL, t.to[1], 1, &ctx[0]));
		fit_good(&t, 0, &ctx[0]);
		do {
			fit_ok(fi_trecvmsg(t.ep[1], &m, FI_PEEK | FI_CLAIM));
			e = fit_next(&t, 1);
		} while (e.err == FI_ENOMSG);
		if (k == 0) {
			fit_ok(fi_trecvmsg(t.ep[1], &m, FI_CLAIM | FI_DISCARD));
			fit_good(&t, 1, &c);
			fit_eq(fi_trecvmsg(t.ep[1], &m, FI_CLAIM), -FI_EINVAL);
		}
	}
	fit_close(&t);
	free(out);
	free(in);
}

FIT_TEST(fi_messages, cancel)
{
	struct fit t;
	int v;

	fit_open(&t, 2, *way, (struct fit_how){0});
	fit_ok(fi_trecv(t.ep[0], &v, 4, NULL, FI_ADDR_UNSPEC, 1, 0, &ctx[0]));
	fit_ok(fi_recv(t.ep[0], &v, 4, NULL, FI_ADDR_UNSPEC, &ctx[1]));
	fit_ok(fi_cancel(&t.ep[0]->fid, &ctx[0]));
	cr_assert(fit_bad(&t, 0, &ctx[0], FI_ECANCELED).flags & FI_RECV);
	fit_ok(fi_cancel(&t.ep[0]->fid, &ctx[1]));
	fit_bad(&t, 0, &ctx[1], FI_ECANCELED);
	fit_eq(fi_cancel(&t.ep[0]->fid, &ctx[1]), -FI_ENOENT);
	fit_tsend(&t, 1, 0, &v, 4, 1);
	fit_none(&t, 0);
	fit_close(&t);
}

FIT_TEST(fi_messages, delivery)
{
	int out = 5, in = 0;
	struct iovec iov = {&out, 4};
	struct fi_msg_tagged m = {.msg_iov = &iov, .iov_count = 1, .tag = 3, .context = &ctx[0]};
	struct fit t;

	fit_open(&t, 2, *way, (struct fit_how){0});
	m.addr = t.to[1];
	fit_ok(fi_tsendmsg(t.ep[0], &m, FI_DELIVERY_COMPLETE));
	fit_none(&t, 0);
	fit_ok(fi_trecv(t.ep[1], &in, 4, NULL, FI_ADDR_UNSPEC, 3, 0, &ctx[1]));
	fit_good(&t, 1, &ctx[1]);
	fit_good(&t, 0, &ctx[0]);
	fit_eq(in, 5);
	fit_eq(fi_tsendmsg(t.ep[0], &m, FI_PEEK), -FI_EBADFLAGS);
	fit_close(&t);
}
