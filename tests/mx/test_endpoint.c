/* SPDX-License-Identifier: BSD-2-Clause */
/* III.3 Endpoint opening and closing. */
#include <stdio.h>
#include <stdlib.h>

#include "mx/mxt.h"

TestSuite(mx_endpoint, .init = mxt_job, .timeout = MXT_TIMEOUT);

/* mx_open_endpoint() that must fail and leave the handle alone. */
#define refused(want, ...) refused_at(__LINE__, want, __VA_ARGS__)
static void refused_at(int line, mx_return_t want, uint32_t board, uint32_t id, mx_param_t *list,
		       uint32_t count)
{
	static char garbage[8];
	mx_endpoint_t const old = (mx_endpoint_t)(uintptr_t)garbage;
	mx_endpoint_t ep = old;

	mxt_rc_at(__FILE__, line, "mx_open_endpoint", want,
		  mx_open_endpoint(board, id, MXT_KEY, list, count, &ep));
	mxt_check(ep == old);
}

static mx_endpoint_t with_param(mx_param_t param)
{
	mx_endpoint_t ep = NULL;

	mxt_ok(mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, MXT_KEY, &param, 1, &ep));
	mxt_check(ep);
	return ep;
}

Test(mx_endpoint, any, .timeout = MXT_TIMEOUT)
{
	mx_endpoint_t ep[64];
	struct mxt_name name[64];

	mxt_up();
	for (int i = 0; i < 64; i++) {
		uint32_t board = 77;

		ep[i] = mxt_open(MX_ANY_ENDPOINT);
		name[i] = mxt_name(ep[i]);
		mxt_check(name[i].id < 1024);
		mxt_ok(mx_nic_id_to_board_number(name[i].nic, &board));
		for (int j = 0; j < i; j++) {
			mxt_check(ep[i] != ep[j]);
			mxt_check(!mxt_same_name(name[i], name[j]));
		}
	}
	for (int i = 0; i < 64; i++)
		mxt_close(ep[i]);
	mxt_down();
}

Test(mx_endpoint, fixed_ids, .timeout = MXT_TIMEOUT)
{
	static const uint32_t ids[] = {0, 1, 6, 511, 1022, 1023};

	mxt_up();
	for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++) {
		mx_endpoint_t ep = NULL;
		uint64_t nic = 0;

		mxt_ok(mx_open_endpoint(0, ids[i], MXT_KEY, NULL, 0, &ep));
		mxt_ok(mx_board_number_to_nic_id(0, &nic));
		mxt_eq(mxt_name(ep).id, ids[i]);
		mxt_eq(mxt_name(ep).nic, nic);
		mxt_close(ep);
	}
	mxt_down();
}

Test(mx_endpoint, wrong_ids_and_boards, .timeout = MXT_TIMEOUT)
{
	uint32_t boards = 0;

	mxt_up();
	mxt_ok(mx_get_info(NULL, MX_NIC_COUNT, NULL, 0, &boards, sizeof(boards)));
	refused(MX_BAD_ENDPOINT_ID, 0, 1024, NULL, 0);
	refused(MX_BAD_ENDPOINT_ID, MX_ANY_NIC, 1025, NULL, 0);
	refused(MX_BAD_ENDPOINT_ID, 0, 0x80000000u, NULL, 0);
	refused(MX_BAD_ENDPOINT_ID, 0, 0xfffffffeu, NULL, 0);
	refused(MX_BOARD_UNKNOWN, boards, MX_ANY_ENDPOINT, NULL, 0);
	refused(MX_BOARD_UNKNOWN, 0xfffffffeu, MX_ANY_ENDPOINT, NULL, 0);
	mxt_close(mxt_open(MX_ANY_ENDPOINT));
	mxt_down();
}

Test(mx_endpoint, nowhere_to_put_it, .timeout = MXT_TIMEOUT)
{
	mx_return_t rc;

	mxt_up();
	rc = mx_open_endpoint(MX_ANY_NIC, 21, MXT_KEY, NULL, 0, NULL);
	mxt_check(rc == MX_FAILURE || rc == MX_BAD_ENDPOINT);
	/* Nothing was opened. */
	mxt_close(mxt_open(21));
	mxt_down();
}

Test(mx_endpoint, busy, .timeout = MXT_TIMEOUT)
{
	mx_endpoint_t ep, others[16];
	uint32_t boards = 0, n = 0;
	mx_return_t rc;

	mxt_up();
	mxt_ok(mx_get_info(NULL, MX_NIC_COUNT, NULL, 0, &boards, sizeof(boards)));
	mxt_check(boards <= 16);
	ep = mxt_open(22);
	refused(MX_BUSY, 0, 22, NULL, 0);
	/* The other boards have it free, but for the loopback, which is not asked. */
	while ((rc = mx_open_endpoint(MX_ANY_NIC, 22, MXT_KEY, NULL, 0, &others[n])) == MX_SUCCESS)
		mxt_check(++n < 16);
	mxt_rc(MX_BUSY, rc);
	mxt_check(n < boards && n + 2 >= boards);
	while (n)
		mxt_close(others[--n]);
	mxt_close(ep);
	mxt_close(mxt_reopen(22));
	mxt_down();
}

Test(mx_endpoint, busy_elsewhere, .timeout = MXT_TIMEOUT)
{
	struct twt_child c;
	mx_endpoint_t ep;

	mxt_same_host();
	mxt_eq(mxt_idle(&c, 23).id, 23);
	mxt_up();
	refused(MX_BUSY, 0, 23, NULL, 0);
	/* The wildcard goes round it. */
	ep = mxt_open(MX_ANY_ENDPOINT);
	mxt_check(mxt_name(ep).id != 23);
	mxt_close(ep);
	mxt_idle_close(&c);
	ep = mxt_reopen(23);
	mxt_idle_end(&c);
	mxt_close(ep);
	mxt_down();
}

/* Another job has ids of its own. */
Test(mx_endpoint, other_job, .timeout = MXT_TIMEOUT)
{
	struct twt_child c;

	mxt_idle(&c, 24);
	setenv("TAGWIRE_JOB", "another-job", 1);
	mxt_up();
	mxt_close(mxt_open(24));
	mxt_idle_close(&c);
	mxt_idle_end(&c);
	mxt_down();
}

/* All ids of a board, if the system has the resources. */
Test(mx_endpoint, until_none_is_left, .timeout = MXT_TIMEOUT)
{
	static mx_endpoint_t ep[1025];
	static char taken[1024];
	mx_return_t rc;
	int n;

	mxt_up();
	for (n = 0; n < 1025; n++) {
		uint32_t id;

		rc = mx_open_endpoint(0, MX_ANY_ENDPOINT, MXT_KEY, NULL, 0, &ep[n]);
		if (rc != MX_SUCCESS)
			break;
		id = mxt_name(ep[n]).id;
		mxt_check(id < 1024 && !taken[id]);
		taken[id] = 1;
	}
	mxt_check(n >= 64);
	mxt_rc(n == 1024 ? MX_BUSY : MX_NO_RESOURCES, rc);
	/* One that goes makes room for one that comes. */
	mxt_close(ep[n / 2]);
	ep[n / 2] = mxt_reopen(MX_ANY_ENDPOINT);
	while (n--)
		mxt_close(ep[n]);
	mxt_close(mxt_reopen(MX_ANY_ENDPOINT));
	mxt_down();
}

Test(mx_endpoint, params_refused, .timeout = MXT_TIMEOUT)
{
	mx_param_t list[2] = {{.key = MX_PARAM_UNEXP_QUEUE_MAX, .val.unexp_queue_max = 1 << 20}};
	static const uint8_t bad[][2] = {{0, 0},   {0, 8},  {17, 0}, {255, 0},
					 {16, 49}, {1, 64}, {8, 57}, {1, 255}};

	mxt_up();
	refused(MX_BAD_PARAM_LIST, 0, MX_ANY_ENDPOINT, NULL, 1);
	refused(MX_BAD_PARAM_LIST, 0, MX_ANY_ENDPOINT, NULL, 1000);
	list[1].key = (mx_param_key_t)3;
	refused(MX_BAD_PARAM_NAME, 0, MX_ANY_ENDPOINT, list, 2);
	list[1].key = (mx_param_key_t)-1;
	refused(MX_BAD_PARAM_NAME, 0, MX_ANY_ENDPOINT, list, 2);
	list[1].key = MX_PARAM_CONTEXT_ID;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		list[1].val.context_id.bits = bad[i][0];
		list[1].val.context_id.shift = bad[i][1];
		refused(MX_BAD_PARAM_VAL, 0, MX_ANY_ENDPOINT, list, 2);
	}
	mxt_down();
}

static mx_return_t quiet(char *message, mx_return_t code)
{
	(void)message;
	return code;
}

Test(mx_endpoint, params_accepted, .timeout = MXT_TIMEOUT)
{
	static const uint8_t good[][2] = {{1, 0}, {16, 0}, {16, 48}, {1, 63}, {8, 20}};
	mx_param_t list[3] = {{.key = MX_PARAM_UNEXP_QUEUE_MAX, .val.unexp_queue_max = 1 << 20},
			      {.key = MX_PARAM_ERROR_HANDLER, .val.error_handler = quiet}};
	mx_endpoint_t ep = NULL;

	mxt_up();
	list[2].key = MX_PARAM_CONTEXT_ID;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		list[2].val.context_id.bits = good[i][0];
		list[2].val.context_id.shift = good[i][1];
		mxt_ok(mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, MXT_KEY, list, 3, &ep));
		mxt_close(ep);
	}
	/* A list of no entries is not looked at. */
	list[0].key = (mx_param_key_t)99;
	mxt_ok(mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, MXT_KEY, list, 0, &ep));
	mxt_close(ep);
	mxt_down();
}

/* Whatever the limit of the unexpected queue, no message is lost. */
Test(mx_endpoint, small_unexpected_queue, .timeout = MXT_TIMEOUT)
{
	enum { N = 2000, LEN = 1000 };
	static const uint32_t limits[] = {1024, 4096, 65536};
	static mx_request_t sends[N];
	char *out = malloc((size_t)N * LEN), in[LEN];

	twt_fill(out, (size_t)N * LEN, 3);
	mxt_up();
	for (int k = 0; k < 3; k++) {
		mx_endpoint_t a = mxt_open(MX_ANY_ENDPOINT), b;
		mx_endpoint_addr_t ab;

		b = with_param((mx_param_t){.key = MX_PARAM_UNEXP_QUEUE_MAX,
					    .val.unexp_queue_max = limits[k]});
		ab = mxt_connect(a, mxt_name(b));
		for (int i = 0; i < N; i++)
			sends[i] = mxt_isend(a, out + i * LEN, LEN, ab, 6);
		for (int i = 0; i < N; i++) {
			mx_request_t r = mxt_irecv(b, in, LEN, 6);

			mxt_eq(mxt_wait(b, &r, MX_STATUS_SUCCESS).xfer_length, LEN);
			mxt_check(memcmp(in, out + i * LEN, LEN) == 0);
		}
		for (int i = 0; i < N; i++)
			mxt_wait(a, &sends[i], MX_STATUS_SUCCESS);
		mxt_close(a);
		mxt_close(b);
	}
	free(out);
	mxt_down();
}

Test(mx_endpoint, bad_handles, .timeout = MXT_TIMEOUT)
{
	static char garbage[256];
	mx_endpoint_t ep;

	mxt_up();
	ep = mxt_open(MX_ANY_ENDPOINT);
	mxt_close(ep);
	mxt_every_call(ep, MX_BAD_ENDPOINT);
	mxt_every_call(NULL, MX_BAD_ENDPOINT);
	mxt_every_call((mx_endpoint_t)(uintptr_t)garbage, MX_BAD_ENDPOINT);
	mxt_every_call((mx_endpoint_t)(uintptr_t)1, MX_BAD_ENDPOINT);
	mxt_every_call((mx_endpoint_t)UINTPTR_MAX, MX_BAD_ENDPOINT);
	mxt_down();
}

/*
 * The handle of a closed endpoint does not come to mean a later one, neither the next nor the one
 * that gets the same slot, which rests for 16 others.
 */
Test(mx_endpoint, old_handle_new_endpoint, .timeout = MXT_TIMEOUT)
{
	enum { LIVES = 40 };
	mx_endpoint_t old[LIVES], ep;

	mxt_up();
	for (int n = 0; n < LIVES; n++) {
		ep = mxt_reopen(25);
		for (int i = 0; i < n; i++) {
			mxt_check(ep != old[i]);
			mxt_every_call(old[i], MX_BAD_ENDPOINT);
		}
		mxt_eq(mxt_name(ep).id, 25);
		mxt_close(ep);
		old[n] = ep;
	}
	mxt_down();
}

Test(mx_endpoint, open_and_close_many, .timeout = MXT_TIMEOUT)
{
	mxt_up();
	for (int i = 0, n = 1500 / (int)twt_slow(); i < n; i++)
		mxt_close(mxt_open(MX_ANY_ENDPOINT));
	mxt_down();
}

/* Everything that may be under way when an endpoint is closed. */
Test(mx_endpoint, close_with_requests, .timeout = MXT_TIMEOUT)
{
	enum { BIG = 1 << 20 };
	char *buf = calloc(3, BIG);
	mx_request_t waits, last;
	struct mxt_pair p;

	mxt_up();
	for (int i = 0; i < 20; i++) {
		mx_endpoint_addr_t self;

		mxt_pair(&p);
		self = mxt_self(p.a);
		mxt_irecv(p.a, buf, 100, 1);
		mxt_isend(p.a, buf, BIG, p.ab, 2);
		mxt_issend(p.a, buf, 10, p.ab, 3);
		mxt_issend(p.a, buf, BIG, self, 4);
		mxt_isend(p.b, buf, 10, p.ba, 5);
		waits = mxt_irecv(p.b, buf + 2 * BIG, BIG, 99);
		mxt_close(p.a);
		/* The other endpoint lives on. */
		mxt_pending(p.b, &waits);
		last = mxt_isend(p.b, buf, 10, mxt_self(p.b), 99);
		mxt_wait(p.b, &last, MX_STATUS_SUCCESS);
		mxt_wait(p.b, &waits, MX_STATUS_SUCCESS);
		mxt_close(p.b);
	}
	free(buf);
	mxt_down();
}

static void release_all(mx_endpoint_t ep, struct mxt_block *b)
{
	for (int i = 0; i < MXT_CALLS; i++) {
		mx_request_t req = NULL;

		if (i == MXT_WAIT || i == MXT_BUFFERED)
			req = mxt_irecv(ep, NULL, 0, 100 + (uint64_t)i);
		mxt_block(&b[i], (enum mxt_call)i, ep, req, MX_INFINITE);
	}
	for (int i = 0; i < MXT_CALLS; i++)
		mxt_asleep(&b[i].thread);
	mxt_ok(mx_wakeup(ep));
	for (int i = 0; i < MXT_CALLS; i++) {
		mxt_join(&b[i].thread);
		mxt_rc(MX_SUCCESS, b[i].rc);
		mxt_eq(b[i].result, 0);
	}
}

Test(mx_endpoint, wakeup_releases_all, .timeout = MXT_TIMEOUT)
{
	struct mxt_block b[MXT_CALLS];
	mx_endpoint_t ep;

	mxt_up();
	ep = mxt_open(MX_ANY_ENDPOINT);
	for (int i = 0; i < 3; i++) {
		release_all(ep, b);
		/* What was waited for is still to come. */
		for (int k = MXT_WAIT; k <= MXT_BUFFERED; k++) {
			mx_request_t s;

			mxt_pending(ep, &b[k].req);
			s = mxt_isend(ep, NULL, 0, mxt_self(ep), 100 + (uint64_t)k);
			mxt_wait(ep, &b[k].req, MX_STATUS_SUCCESS);
			mxt_wait(ep, &s, MX_STATUS_SUCCESS);
		}
	}
	mxt_close(ep);
	mxt_down();
}

Test(mx_endpoint, wakeup_is_of_one_endpoint, .timeout = MXT_TIMEOUT)
{
	struct mxt_block b[2];
	mx_endpoint_t ep[2];

	mxt_up();
	for (int i = 0; i < 2; i++) {
		ep[i] = mxt_open(MX_ANY_ENDPOINT);
		mxt_block(&b[i], MXT_PROBE, ep[i], NULL, MX_INFINITE);
		mxt_asleep(&b[i].thread);
	}
	mxt_ok(mx_wakeup(ep[0]));
	mxt_join(&b[0].thread);
	mxt_eq(b[0].result, 0);
	mxt_asleep(&b[1].thread);
	mxt_ok(mx_wakeup(ep[1]));
	mxt_join(&b[1].thread);
	mxt_eq(b[1].result, 0);
	/* With nobody to wake it is harmless. */
	for (int i = 0; i < 3; i++)
		mxt_ok(mx_wakeup(ep[0]));
	mxt_close(ep[0]);
	mxt_close(ep[1]);
	mxt_down();
}
