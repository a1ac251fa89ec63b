/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints with MX_PARAM_CONTEXT_ID: some bits of the match information tell contexts apart. */
#include "mx/mxt.h"

TestSuite(mx_context_id, .init = mxt_job, .timeout = MXT_TIMEOUT);

#define BITS 4
#define SHIFT 8
#define FIELD (0xfull << SHIFT)

static mx_endpoint_t open_with_contexts(uint8_t bits, uint8_t shift)
{
	mx_param_t param = {.key = MX_PARAM_CONTEXT_ID};
	mx_endpoint_t ep = NULL;

	param.val.context_id.bits = bits;
	param.val.context_id.shift = shift;
	mxt_ok(mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, MXT_KEY, &param, 1, &ep));
	return ep;
}

/* The whole field must be in the mask of everything that matches. */
Test(mx_context_id, masks, .timeout = MXT_TIMEOUT)
{
	static const uint64_t lacking[] = {0, FIELD & ~(1ull << SHIFT), ~FIELD, 0xff,
					   ~(8ull << SHIFT)};
	static char garbage[8];
	mx_request_t const old = (mx_request_t)(uintptr_t)garbage;
	mx_request_t req = old;
	uint32_t result = 77;
	mx_endpoint_t ep;
	mx_status_t st;

	mxt_up();
	ep = open_with_contexts(BITS, SHIFT);
	for (size_t i = 0; i < sizeof(lacking) / sizeof(*lacking); i++) {
		mx_return_t want = MX_BAD_MATCHING_FOR_CONTEXT_ID_MASK;
		uint64_t m = lacking[i];

		mxt_rc(want, mx_irecv(ep, NULL, 0, 0, m, NULL, &req));
		mxt_rc(want, mx_iprobe(ep, 0, m, &st, &result));
		mxt_rc(want, mx_probe(ep, 10, 0, m, &st, &result));
		mxt_rc(want, mx_test_any(ep, 0, m, &st, &result));
		mxt_rc(want, mx_wait_any(ep, 10, 0, m, &st, &result));
		mxt_check(req == old);
	}
	mxt_ok(mx_iprobe(ep, 0, FIELD, &st, &result));
	mxt_eq(result, 0);
	mxt_ok(mx_probe(ep, 10, 0, FIELD | 1, &st, &result));
	mxt_eq(result, 0);
	mxt_ok(mx_test_any(ep, 0, FIELD, &st, &result));
	mxt_eq(result, 0);
	mxt_ok(mx_wait_any(ep, 10, 0, MXT_ALL, &st, &result));
	mxt_eq(result, 0);
	mxt_ok(mx_irecv(ep, NULL, 0, 0, FIELD, NULL, &req));
	mxt_ok(mx_cancel(ep, &req, &result));
	mxt_eq(result, 1);
	mxt_close(ep);
	mxt_down();
}

Test(mx_context_id, no_peek, .timeout = MXT_TIMEOUT)
{
	mx_request_t req = NULL, r, s;
	uint32_t result = 77;
	mx_endpoint_t ep;

	mxt_up();
	ep = open_with_contexts(1, 63);
	mxt_rc(MX_NOT_SUPPORTED_WITH_CONTEXT_ID, mx_ipeek(ep, &req, &result));
	mxt_rc(MX_NOT_SUPPORTED_WITH_CONTEXT_ID, mx_peek(ep, 10, &req, &result));
	mxt_rc(MX_NOT_SUPPORTED_WITH_CONTEXT_ID, mx_peek(ep, MX_INFINITE, &req, &result));
	mxt_check(req == NULL);
	/* The other ways to complete a request are there. */
	r = mxt_irecv(ep, NULL, 0, 1ull << 63 | 5);
	s = mxt_isend(ep, NULL, 0, mxt_self(ep), 1ull << 63 | 5);
	mxt_wait(ep, &s, MX_STATUS_SUCCESS);
	mxt_wait(ep, &r, MX_STATUS_SUCCESS);
	mxt_close(ep);
	mxt_down();
}

/* Every context sees its own messages only, in the order sent. */
Test(mx_context_id, contexts_are_apart, .timeout = MXT_TIMEOUT)
{
	enum { CONTEXTS = 16, N = 20 };
	mx_endpoint_t a, b;
	mx_endpoint_addr_t ab;
	mx_request_t req;
	uint32_t result;
	mx_status_t st;

	mxt_up();
	a = mxt_open(MX_ANY_ENDPOINT);
	b = open_with_contexts(BITS, SHIFT);
	ab = mxt_connect(a, mxt_name(b));
	for (uint64_t i = 0; i < CONTEXTS * N; i++) {
		mx_request_t s = mxt_isend(a, &i, sizeof(i), ab, (i % CONTEXTS) << SHIFT | 1);

		mxt_wait(a, &s, MX_STATUS_SUCCESS);
	}
	for (uint64_t c = CONTEXTS; c-- > 0;) {
		for (uint64_t k = 0; k < N; k++) {
			uint64_t got = 0;
			mx_segment_t seg = {&got, sizeof(got)};

			mxt_ok(mx_irecv(b, &seg, 1, c << SHIFT, FIELD, NULL, &req));
			mxt_wait(b, &req, MX_STATUS_SUCCESS);
			mxt_eq(got, k * CONTEXTS + c);
		}
		result = 77;
		mxt_ok(mx_iprobe(b, c << SHIFT, FIELD, &st, &result));
		mxt_eq(result, 0);
	}
	mxt_close(a);
	mxt_close(b);
	mxt_down();
}

struct worker {
	mx_endpoint_t ep;
	uint64_t context;
	struct mxt_thread thread;
};

/* Completes what belongs to one context, as a thread of a program would. */
static void work(void *arg)
{
	struct worker *w = arg;

	for (int i = 0; i < 200; i++) {
		mx_segment_t seg = {NULL, 0};
		uint32_t result = 0;
		mx_request_t req;
		mx_status_t st;

		mxt_ok(mx_irecv(w->ep, &seg, 1, w->context << SHIFT, FIELD, w, &req));
		mxt_ok(mx_wait_any(w->ep, MXT_LONG, w->context << SHIFT, FIELD, &st, &result));
		mxt_check(result);
		mxt_eq(st.code, MX_STATUS_SUCCESS);
		mxt_check(st.context == w);
		mxt_eq(st.match_info, w->context << SHIFT | (uint64_t)i << 16);
	}
}

Test(mx_context_id, a_thread_for_each, .timeout = MXT_TIMEOUT)
{
	enum { THREADS = 4 };
	struct worker w[THREADS];
	mx_endpoint_t a, b;
	mx_endpoint_addr_t ab;

	mxt_up();
	a = mxt_open(MX_ANY_ENDPOINT);
	b = open_with_contexts(BITS, SHIFT);
	ab = mxt_connect(a, mxt_name(b));
	for (uint64_t i = 0; i < THREADS; i++) {
		w[i].ep = b;
		w[i].context = i * 3;
		mxt_start(&w[i].thread, work, &w[i]);
	}
	for (uint64_t k = 0; k < 200; k++)
		for (int i = 0; i < THREADS; i++) {
			mx_request_t s = mxt_isend(a, NULL, 0, ab, w[i].context << SHIFT | k << 16);

			mxt_wait(a, &s, MX_STATUS_SUCCESS);
		}
	for (int i = 0; i < THREADS; i++)
		mxt_join(&w[i].thread);
	mxt_close(a);
	mxt_close(b);
	mxt_down();
}
