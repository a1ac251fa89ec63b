/* SPDX-License-Identifier: BSD-2-Clause */
/* 4.5 Non-blocking operations: test, wait, wait_any, cancel. */
#include <stdlib.h>

#include "mrapi/mrapit.h"

TestSuite(mrapi_request, .init = twc_job, .timeout = MR_TIMEOUT);

/* Large enough to take a while. */
enum { BIG = 32 << 20 };

static char *local;
static mrapi_rmem_hndl_t rmem;

static void offer(void *arg)
{
	char *mem = malloc(BIG);

	(void)arg;
	memset(mem, 'r', BIG);
	mr_ok(mrapi_rmem_create(1, mem, MRAPI_RMEM_ATYPE_ANY, NULL, BIG, &mr_st));
}

static void begin(struct mr_peer *p, enum mr_where where)
{
	mr_peer(p, where, 1);
	mr_up(MR_NODE);
	mr_do(p, offer, NULL);
	rmem = mr_val(mrapi_rmem_get(1, MRAPI_RMEM_ATYPE_DEFAULT, &mr_st));
	mr_ok(mrapi_rmem_attach(rmem, &mr_st));
	local = malloc(BIG);
	memset(local, 'l', BIG);
}

static void end(struct mr_peer *p)
{
	mr_ok(mrapi_rmem_detach(rmem, &mr_st));
	mr_down();
	mr_peer_end(p);
	free(local);
}

static mrapi_request_t start(uint32_t bytes)
{
	mrapi_request_t r = 0;

	mr_ok(mrapi_rmem_read_i(rmem, 0, local, 0, bytes, 1, 0, 0, &r, &mr_st));
	return r;
}

MR_BOTH(mrapi_request, complete)
{
	static const uint32_t bytes[] = {1, 100, 100000, 3 << 20};
	struct mr_peer p;
	mrapi_request_t r;
	size_t size;

	begin(&p, where);
	for (int i = 0; i < 4; i++) {
		double deadline = twt_now() + MR_LONG / 1000.;
		mrapi_boolean_t done;

		memset(local, 'l', bytes[i]);
		r = start(bytes[i]);
		do {
			mr_st = -1;
			done = mrapi_test(&r, &size, &mr_st);
			twc_eq(mr_st, done ? MRAPI_SUCCESS : MRAPI_INCOMPLETE);
		} while (!done && twt_now() < deadline);
		twc_check(done);
		twc_eq(local[bytes[i] - 1], 'r');
		/* A request is over once that was told. */
		twc_check(!mr_get(MRAPI_ERR_REQUEST_INVALID, mrapi_test(&r, &size, &mr_st)));
		twc_check(!mr_get(MRAPI_ERR_REQUEST_INVALID, mrapi_wait(&r, &size, 0, &mr_st)));
		mr_is(MRAPI_ERR_REQUEST_INVALID, mrapi_cancel(&r, &mr_st));
		/* And by wait, with and without a size. */
		memset(local, 'l', bytes[i]);
		r = start(bytes[i]);
		twc_check(mr_val(mrapi_wait(&r, i % 2 ? &size : NULL, MRAPI_INFINITE, &mr_st)));
		twc_eq(local[0], 'r');
		twc_eq(local[bytes[i] - 1], 'r');
	}
	end(&p);
}

Test(mrapi_request, invalid)
{
	static const mrapi_request_t bad[] = {0, 1, 0xdeadbeef, 0xffffffffffffffffull};
	size_t size;

	mr_up(MR_NODE);
	for (int i = 0; i < 4; i++) {
		twc_check(!mr_get(MRAPI_ERR_REQUEST_INVALID, mrapi_test(&bad[i], &size, &mr_st)));
		twc_check(!mr_get(MRAPI_ERR_REQUEST_INVALID,
				  mrapi_wait(&bad[i], &size, MRAPI_INFINITE, &mr_st)));
		mr_is(MRAPI_ERR_REQUEST_INVALID, mrapi_cancel(&bad[i], &mr_st));
		twc_eq(mr_get(MRAPI_ERR_REQUEST_INVALID,
			      mrapi_wait_any(1, &bad[i], &size, MRAPI_INFINITE, &mr_st)),
		       MRAPI_NONE);
	}
	twc_check(!mr_get(MRAPI_ERR_REQUEST_INVALID, mrapi_test(NULL, &size, &mr_st)));
	twc_check(!mr_get(MRAPI_ERR_REQUEST_INVALID, mrapi_wait(NULL, &size, 0, &mr_st)));
	mr_is(MRAPI_ERR_REQUEST_INVALID, mrapi_cancel(NULL, &mr_st));
	twc_eq(mr_get(MRAPI_ERR_PARAMETER, mrapi_wait_any(0, bad, &size, 0, &mr_st)), MRAPI_NONE);
	twc_eq(mr_get(MRAPI_ERR_PARAMETER, mrapi_wait_any(1, NULL, &size, 0, &mr_st)), MRAPI_NONE);
	mr_down();
}

/* Some operations that are not yet complete; the machine may be too quick at times. */
enum { MANY = 6 };

static void start_many(mrapi_request_t r[MANY])
{
	for (int i = 0; i < MANY; i++)
		r[i] = start(BIG);
}

static void wait_many(mrapi_request_t r[MANY])
{
	for (int i = 0; i < MANY; i++)
		mrapi_wait(&r[i], NULL, MRAPI_INFINITE, &mr_st);
}

MR_BOTH(mrapi_request, incomplete)
{
	int incomplete = 0, timeout = 0, any = 0;
	mrapi_request_t r[MANY];
	struct mr_peer p;
	size_t size;

	begin(&p, where);
	for (int i = 0; i < 100 && !(incomplete && timeout && any); i++) {
		mrapi_request_t *last = &r[MANY - 1];

		start_many(r);
		mr_st = -1;
		if (!mrapi_test(last, &size, &mr_st) && mr_st == MRAPI_INCOMPLETE)
			mr_note("mrapi_test"), incomplete++;
		mr_st = -1;
		if (!mrapi_wait(last, &size, 0, &mr_st) && mr_st == MRAPI_TIMEOUT)
			mr_note("mrapi_wait"), timeout++;
		mr_st = -1;
		if (mrapi_wait_any(1, last, &size, 0, &mr_st) == MRAPI_NONE &&
		    mr_st == MRAPI_TIMEOUT)
			mr_note("mrapi_wait_any"), any++;
		wait_many(r);
		twc_eq(local[BIG - 1], 'r');
	}
	twc_check(incomplete);
	twc_check(timeout);
	twc_check(any);
	end(&p);
}

/* What was late is still on its way. */
MR_BOTH(mrapi_request, wait_again)
{
	struct mr_peer p;
	size_t size;

	begin(&p, where);
	for (int i = 0; i < 10; i++) {
		mrapi_request_t r = start(BIG);

		mr_st = -1;
		if (!mrapi_wait(&r, &size, 1, &mr_st)) {
			mr_eq(mr_st, MRAPI_TIMEOUT);
			twc_check(mr_val(mrapi_wait(&r, &size, MR_LONG, &mr_st)));
		}
		twc_eq(local[BIG - 1], 'r');
	}
	end(&p);
}

MR_BOTH(mrapi_request, wait_any)
{
	enum { N = 10 };
	static char into[N][1000];
	mrapi_request_t r[N];
	struct mr_peer p;
	size_t size;

	begin(&p, where);
	for (int i = 0; i < N; i++)
		mr_ok(mrapi_rmem_read_i(rmem, (uint32_t)i, into[i], 0, 1000, 1, 0, 0, &r[i],
					&mr_st));
	for (int left = N; left > 0; left--) {
		mrapi_uint_t i = mr_val(mrapi_wait_any((size_t)left, r, &size, MR_LONG, &mr_st));

		twc_check(i < (mrapi_uint_t)left);
		twc_check(!mr_get(MRAPI_ERR_REQUEST_INVALID, mrapi_test(&r[i], &size, &mr_st)));
		r[i] = r[left - 1];
	}
	for (int i = 0; i < N; i++)
		twc_eq(into[i][999], 'r');
	/* One that is no request. */
	r[0] = start(100);
	r[1] = 0;
	twc_eq(mr_val(mrapi_wait_any(2, r, NULL, MRAPI_INFINITE, &mr_st)), 0);
	twc_eq(mr_get(MRAPI_ERR_REQUEST_INVALID,
		      mrapi_wait_any(2, r, &size, MRAPI_INFINITE, &mr_st)),
	       MRAPI_NONE);
	end(&p);
}

/* Cancelled: test, wait and wait_any tell so; the others go on. */
static void cancels(enum mr_where where)
{
	struct mr_peer p;
	size_t size;

	begin(&p, where);
	for (int i = 0; i < 8; i++) {
		mrapi_request_t r[MANY];
		int which = i % MANY;

		memset(local, 'l', BIG);
		start_many(r);
		mr_ok(mrapi_cancel(&r[which], &mr_st));
		twc_check(
			!mr_get(MRAPI_ERR_REQUEST_CANCELED, mrapi_test(&r[which], &size, &mr_st)));
		twc_check(!mr_get(MRAPI_ERR_REQUEST_CANCELED,
				  mrapi_wait(&r[which], &size, MRAPI_INFINITE, &mr_st)));
		mr_is(MRAPI_ERR_REQUEST_CANCELED,
		      mrapi_wait_any(1, &r[which], &size, MRAPI_INFINITE, &mr_st));
		for (int n = 0; n < MANY; n++)
			if (n != which)
				twc_check(mr_val(mrapi_wait(&r[n], &size, MR_LONG, &mr_st)));
	}
	/* All of them: then nothing touches the memory any more. */
	for (int i = 0; i < 5; i++) {
		mrapi_request_t r[MANY];
		size_t before;

		start_many(r);
		for (int n = MANY; n-- > 0;)
			mr_ok(mrapi_cancel(&r[n], &mr_st));
		memset(local, 'l', BIG);
		twc_sleep(2);
		for (before = 0; before < BIG && local[before] == 'l'; before++)
			;
		twc_eq(before, BIG);
	}
	end(&p);
}

MR_BOTH(mrapi_request, cancel)
{
	cancels(where);
}

/* Where the owner's thread serves it. */
Test(mrapi_request, cancel_served)
{
	setenv("TAGWIRE_RMEM", "served", 1);
	cancels(MR_PROCESS);
}

/* Who waits in another thread is told. */
struct waiter {
	mrapi_request_t r;
	mrapi_status_t status;
	int any;
};

static void wait_there(void *arg)
{
	struct waiter *w = arg;
	size_t size;

	mr_st = -1;
	if (w->any)
		mrapi_wait_any(1, &w->r, &size, MRAPI_INFINITE, &mr_st);
	else
		mrapi_wait(&w->r, &size, MRAPI_INFINITE, &mr_st);
	w->status = mr_st;
}

Test(mrapi_request, cancel_while_waiting)
{
	int canceled = 0;
	struct mr_peer p;

	begin(&p, MR_PROCESS);
	for (int i = 0; i < 200 && canceled < 4; i++) {
		struct waiter w = {.any = i % 2};
		mrapi_request_t r[MANY];
		struct twc_thread t;

		start_many(r);
		w.r = r[MANY - 1];
		twc_start(&t, wait_there, &w);
		twc_sleep((unsigned)i % 3);
		mr_st = -1;
		mrapi_cancel(&w.r, &mr_st);
		twc_join(&t);
		/* Both ways are right: it was in time, or it was cancelled. */
		twc_check(w.status == MRAPI_SUCCESS || w.status == MRAPI_ERR_REQUEST_CANCELED);
		if (w.status == MRAPI_ERR_REQUEST_CANCELED) {
			mr_eq(mr_st, MRAPI_SUCCESS);
			canceled++;
		}
		wait_many(r);
	}
	twc_check(canceled);
	end(&p);
}

/* 3.12.15: a request can only be used by its node. */
static void use(void *arg)
{
	mrapi_request_t *r = arg;

	mr_is(MRAPI_ERR_REQUEST_INVALID, mrapi_test(r, NULL, &mr_st));
	mr_is(MRAPI_ERR_REQUEST_INVALID, mrapi_wait(r, NULL, 0, &mr_st));
	mr_is(MRAPI_ERR_REQUEST_INVALID, mrapi_wait_any(1, r, NULL, 0, &mr_st));
	mr_is(MRAPI_ERR_REQUEST_INVALID, mrapi_cancel(r, &mr_st));
}

MR_BOTH(mrapi_request, of_another_node)
{
	mrapi_request_t *r = mr_shared(sizeof(*r));
	struct mr_peer p, q;

	mr_peer(&q, where, 2);
	begin(&p, MR_PROCESS);
	*r = start(100);
	mr_do(&q, use, r);
	twc_check(mr_val(mrapi_wait(r, NULL, MR_LONG, &mr_st)));
	end(&p);
	mr_peer_end(&q);
}

/* Requests that nobody asks for: there is an end to them, and it is told. */
Test(mrapi_request, limit)
{
	enum { MOST = 1 << 20 };
	mrapi_request_t *r = malloc(MOST * sizeof(*r));
	struct mr_peer p;
	int n = 0;

	begin(&p, MR_THREAD);
	for (; n < MOST; n++) {
		mr_st = -1;
		mrapi_rmem_read_i(rmem, 0, local, 0, 1, 1, 0, 0, &r[n], &mr_st);
		if (mr_st != MRAPI_SUCCESS)
			break;
	}
	twc_check(n >= 128);
	if (n < MOST) {
		mr_is(MRAPI_ERR_REQUEST_LIMIT,
		      mrapi_rmem_read_i(rmem, 0, local, 0, 1, 1, 0, 0, &r[n], &mr_st));
		mr_is(MRAPI_ERR_REQUEST_LIMIT,
		      mrapi_rmem_write_i(rmem, 0, local, 0, 1, 1, 0, 0, &r[n], &mr_st));
	}
	/* Blocking calls need none, and one that ends makes room for one. */
	mr_ok(mrapi_rmem_read(rmem, 0, local, 10, 0, 1, 1, 0, 0, &mr_st));
	for (int i = 0; i < n; i++)
		twc_check(mr_val(mrapi_test(&r[i], NULL, &mr_st)));
	r[0] = start(1);
	twc_check(mr_val(mrapi_wait(&r[0], NULL, MR_LONG, &mr_st)));
	end(&p);
	free(r);
}
