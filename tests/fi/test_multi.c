/* SPDX-License-Identifier: BSD-2-Clause */
/* One buffer for many messages. */
#include "fi/fit.h"

TestSuite(fi_multi, .timeout = FIT_TIMEOUT);

static int ctx[8];

static void post(struct fit *t, void *buf, size_t len, void *context)
{
	struct iovec iov = {buf, len};
	struct fi_msg m = {
		.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = context};

	fit_ok(fi_recvmsg(t->ep[1], &m, FI_MULTI_RECV | FI_COMPLETION));
}

static void send_one(struct fit *t, size_t len, unsigned seed)
{
	static char out[100000];

	twt_fill(out, len, seed);
	fit_ok(fi_send(t->ep[0], out, len, NULL, t->to[1], &ctx[0]));
	fit_good(t, 0, &ctx[0]);
}

FIT_TEST(fi_multi, fills)
{
	char *buf = malloc(10000), *at = buf;
	size_t min = 100;
	struct fi_cq_err_entry e;
	struct fit t;

	fit_open(&t, 2, *way, (struct fit_how){.caps = FI_MULTI_RECV});
	fit_ok(fi_setopt(&t.ep[1]->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &min, sizeof(min)));
	post(&t, buf, 10000, &ctx[1]);
	for (unsigned i = 0; i < 10; i++) {
		send_one(&t, 990, i);
		e = fit_good(&t, 1, &ctx[1]);
		cr_assert(e.buf == at && e.len == 990 && (e.flags & FI_RECV));
		fit_eq(twt_check(at, 990, i), 990);
		/* 100 are left after the tenth. */
		cr_assert(!(e.flags & FI_MULTI_RECV));
		at += 990;
	}
	send_one(&t, 20, 1);
	e = fit_good(&t, 1, &ctx[1]);
	cr_assert(e.len == 20 && (e.flags & FI_MULTI_RECV));
	/* No buffer: the next waits for one. */
	send_one(&t, 30, 2);
	fit_none(&t, 1);
	post(&t, buf, 200, &ctx[2]);
	e = fit_good(&t, 1, &ctx[2]);
	cr_assert(e.len == 30 && e.buf == buf && !(e.flags & FI_MULTI_RECV));
	/* Longer than the rest: into the next buffer, after the first is given back. */
	post(&t, buf + 1000, 9000, &ctx[3]);
	send_one(&t, 500, 3);
	e = fit_good(&t, 1, &ctx[2]);
	fit_eq(e.flags, FI_MULTI_RECV);
	e = fit_good(&t, 1, &ctx[3]);
	cr_assert(e.len == 500 && e.buf == buf + 1000);
	fit_ok(fi_cancel(&t.ep[1]->fid, &ctx[3]));
	e = fit_bad(&t, 1, &ctx[3], FI_ECANCELED);
	cr_assert(e.flags & FI_MULTI_RECV);
	fit_close(&t);
	free(buf);
}

/* Long ones; plain receives behind a buffer; buffers that nobody uses. */
FIT_TEST(fi_multi, mixed)
{
	char *buf = malloc(200000), one[64];
	struct fi_cq_err_entry e;
	struct fit t;

	fit_open(&t, 2, *way, (struct fit_how){.caps = FI_MULTI_RECV});
	post(&t, buf, 180000, &ctx[1]);
	fit_ok(fi_recv(t.ep[1], one, sizeof(one), NULL, FI_ADDR_UNSPEC, &ctx[2]));
	twt_fill(buf, 1, 1);
	for (unsigned i = 0; i < 2; i++) {
		char *out = malloc(90000);

		twt_fill(out, 90000, i);
		fit_ok(fi_send(t.ep[0], out, 90000, NULL, t.to[1], &ctx[0]));
		e = fit_good(&t, 1, &ctx[1]);
		fit_eq(e.len, 90000);
		fit_eq(twt_check(e.buf, 90000, i), 90000);
		fit_eq((e.flags & FI_MULTI_RECV) != 0, i == 1);
		fit_good(&t, 0, &ctx[0]);
		free(out);
	}
	send_one(&t, 50, 9);
	fit_eq(fit_good(&t, 1, &ctx[2]).len, 50);
	fit_eq(twt_check(one, 50, 9), 50);
	post(&t, buf, 1000, &ctx[3]);
	post(&t, buf, 1000, &ctx[4]);
	fit_close(&t);
	free(buf);
}

/* Cancelling takes effect at once; the event waits for room as any other does. */
FIT_TEST(fi_multi, cancel_beside_a_full_queue)
{
	unsigned sent = 0, cancelled = 0;
	char buf[1000];
	struct fit t;

	fit_open(&t, 2, *way, (struct fit_how){.caps = FI_MULTI_RECV, .cq_size = 4});
	post(&t, buf, sizeof(buf), &ctx[1]);
	for (unsigned i = 0; i < 4; i++)
		fit_ok(fi_tsend(t.ep[1], "x", 1, NULL, t.to[0], 1, &ctx[2]));
	/* The other end drives the connection. Here nobody reads, so mostly the queue is full. */
	fit_none(&t, 0);
	fit_ok(fi_cancel(&t.ep[1]->fid, &ctx[1]));
	fit_eq(fi_cancel(&t.ep[1]->fid, &ctx[1]), -FI_ENOENT);
	while (sent + cancelled < 5) {
		struct fi_cq_err_entry e = fit_next(&t, 1);

		sent += e.op_context == &ctx[2];
		cancelled += e.op_context == &ctx[1] && e.err == FI_ECANCELED;
	}
	fit_eq(cancelled, 1);
	fit_none(&t, 1);
	/* One whose event nobody takes. */
	post(&t, buf, sizeof(buf), &ctx[1]);
	fit_ok(fi_cancel(&t.ep[1]->fid, &ctx[1]));
	fit_close(&t);
}
