/* SPDX-License-Identifier: BSD-2-Clause */
/* mx_extensions.h, without mx_forget() and the unexpected handler. */
#include <signal.h>
#include <stdlib.h>

#include "mx/mxt.h"

TestSuite(mx_ext, .init = mxt_job, .timeout = MXT_TIMEOUT);

static mx_request_t iconnect(mx_endpoint_t ep, struct mxt_name to, uint32_t key, uint64_t match,
			     void *context)
{
	mx_request_t req = NULL;

	mxt_ok(mx_iconnect(ep, to.nic, to.id, key, match, context, &req));
	mxt_check(req);
	return req;
}

static void exchange(mx_endpoint_t a, mx_endpoint_addr_t ab, mx_endpoint_t b)
{
	mx_request_t r, s;
	int got = 0;

	r = mxt_irecv(b, &got, sizeof(got), 4);
	s = mxt_isend(a, &(int){5}, sizeof(int), ab, 4);
	mxt_wait(b, &r, MX_STATUS_SUCCESS);
	mxt_wait(a, &s, MX_STATUS_SUCCESS);
	mxt_eq(got, 5);
}

Test(mx_ext, iconnect, .timeout = MXT_TIMEOUT)
{
	mx_request_t req, old;
	uint32_t result = 77;
	mx_endpoint_t a, b;
	void *context;
	mx_status_t st;

	mxt_up();
	a = mxt_open(MX_ANY_ENDPOINT);
	b = mxt_open(MX_ANY_ENDPOINT);
	for (int i = 0; i < 3; i++) {
		req = old = iconnect(a, mxt_name(b), MXT_KEY, 0xfeed, &a);
		mxt_ok(mx_context(&req, &context));
		mxt_check(context == &a);
		st = mxt_wait(a, &req, MX_STATUS_SUCCESS);
		mxt_eq(st.match_info, 0xfeed);
		mxt_check(st.context == &a);
		mxt_check(mxt_same_name(mxt_whose(st.source), mxt_name(b)));
		mxt_rc(MX_BAD_REQUEST, mx_test(a, &old, &st, &result));
		exchange(a, mxt_connect(a, mxt_name(b)), b);
	}
	/* The address is that of mx_connect(). */
	req = iconnect(a, mxt_name(b), MXT_KEY, 0, NULL);
	st = mxt_wait(a, &req, MX_STATUS_SUCCESS);
	mxt_check(mxt_same_addr(st.source, mxt_connect(a, mxt_name(b))));
	exchange(a, st.source, b);
	/* To oneself. */
	req = iconnect(a, mxt_name(a), MXT_KEY, 0, NULL);
	st = mxt_wait(a, &req, MX_STATUS_SUCCESS);
	exchange(a, st.source, a);
	mxt_close(a);
	mxt_close(b);
	mxt_down();
}

/* It comes up like any request, by the match information it was given. */
Test(mx_ext, iconnect_comes_up, .timeout = MXT_TIMEOUT)
{
	mx_request_t req, got = NULL;
	uint32_t result = 77;
	struct mxt_name far;
	struct twt_child c;
	mx_endpoint_t ep;
	mx_status_t st;

	far = mxt_idle(&c, MX_ANY_ENDPOINT);
	mxt_up();
	ep = mxt_open(MX_ANY_ENDPOINT);
	req = iconnect(ep, far, MXT_KEY, 0x11, &far);
	mxt_ok(mx_peek(ep, MXT_LONG, &got, &result));
	mxt_check(result && got == req);
	mxt_ok(mx_test_any(ep, 0x12, MXT_ALL, &st, &result));
	mxt_eq(result, 0);
	mxt_ok(mx_test_any(ep, 0x11, MXT_ALL, &st, &result));
	mxt_eq(result, 1);
	mxt_eq(st.code, MX_STATUS_SUCCESS);
	mxt_check(st.context == &far);
	mxt_check(mxt_same_name(mxt_whose(st.source), far));
	mxt_ok(mx_iconnect(ep, far.nic, far.id, MXT_KEY + 1, 0x22, NULL, &req));
	mxt_ok(mx_wait_any(ep, MXT_LONG, 0x20, 0xf0, &st, &result));
	mxt_check(result);
	mxt_eq(st.code, MX_STATUS_BAD_KEY);
	mxt_eq(st.match_info, 0x22);
	mxt_close(ep);
	mxt_idle_close(&c);
	mxt_idle_end(&c);
	mxt_down();
}

Test(mx_ext, iconnect_failures, .timeout = MXT_TIMEOUT)
{
	struct mxt_name me, far, no_nic = {MXT_NO_NIC, 1}, nobody, bad_id;
	struct twt_child c;
	mx_request_t req;
	mx_endpoint_t ep;

	far = mxt_idle(&c, MX_ANY_ENDPOINT);
	mxt_up();
	ep = mxt_open(MX_ANY_ENDPOINT);
	me = mxt_name(ep);
	nobody = (struct mxt_name){me.nic, 1021};
	bad_id = (struct mxt_name){me.nic, 1024};
	req = iconnect(ep, me, MXT_KEY + 1, 1, NULL);
	mxt_wait(ep, &req, MX_STATUS_BAD_KEY);
	req = iconnect(ep, far, MXT_KEY + 1, 1, NULL);
	mxt_wait(ep, &req, MX_STATUS_BAD_KEY);
	req = iconnect(ep, nobody, MXT_KEY, 1, NULL);
	mxt_eq(mxt_wait(ep, &req, MX_STATUS_ENDPOINT_CLOSED).match_info, 1);
	req = iconnect(ep, no_nic, MXT_KEY, 2, NULL);
	mxt_eq(mxt_wait(ep, &req, MX_STATUS_ENDPOINT_UNKNOWN).match_info, 2);
	no_nic.nic = me.nic | 1ull << 48;
	req = iconnect(ep, no_nic, MXT_KEY, 2, NULL);
	mxt_wait(ep, &req, MX_STATUS_ENDPOINT_UNKNOWN);
	req = iconnect(ep, bad_id, MXT_KEY, 3, &me);
	mxt_check(mxt_wait(ep, &req, MX_STATUS_BAD_ENDPOINT).context == &me);
	bad_id.id = MX_ANY_ENDPOINT;
	req = iconnect(ep, bad_id, MXT_KEY, 3, NULL);
	mxt_wait(ep, &req, MX_STATUS_BAD_ENDPOINT);
	mxt_idle_close(&c);
	req = iconnect(ep, far, MXT_KEY, 4, NULL);
	mxt_wait(ep, &req, MX_STATUS_ENDPOINT_CLOSED);
	mxt_rc(MX_BAD_REQUEST, mx_iconnect(ep, me.nic, me.id, MXT_KEY, 1, NULL, NULL));
	mxt_close(ep);
	mxt_idle_end(&c);
	mxt_down();
}

Test(mx_ext, iconnect_timeout, .timeout = MXT_TIMEOUT)
{
	struct mxt_name far;
	struct twt_child c;
	mx_request_t req;
	mx_endpoint_t ep;
	double took;

	far = mxt_idle(&c, MX_ANY_ENDPOINT);
	setenv("TAGWIRE_CONNECT_TIMEOUT", "4000", 1);
	mxt_up();
	ep = mxt_open(MX_ANY_ENDPOINT);
	mxt_stop(c.pid);
	took = twt_now();
	req = iconnect(ep, far, MXT_KEY, 6, NULL);
	/* It does not block, and nothing has happened yet. */
	mxt_check(twt_now() - took < 3);
	mxt_pending(ep, &req);
	mxt_eq(mxt_wait(ep, &req, MX_STATUS_TIMEOUT).match_info, 6);
	took = twt_now() - took;
	mxt_check(took > 3.6);
	mxt_eq(kill(c.pid, SIGCONT), 0);
	mxt_connect(ep, far);
	mxt_close(ep);
	mxt_idle_close(&c);
	mxt_idle_end(&c);
	mxt_down();
}

Test(mx_ext, many_iconnects, .timeout = MXT_TIMEOUT)
{
	enum { N = 40 };
	mx_endpoint_t ep, other[N];
	mx_request_t req[N];

	mxt_up();
	ep = mxt_open(MX_ANY_ENDPOINT);
	for (int i = 0; i < N; i++)
		other[i] = mxt_open(MX_ANY_ENDPOINT);
	for (int i = 0; i < N; i++)
		req[i] = iconnect(ep, mxt_name(other[i]), MXT_KEY, (uint64_t)i, NULL);
	for (int i = N; i-- > 0;) {
		mx_status_t st = mxt_wait(ep, &req[i], MX_STATUS_SUCCESS);

		mxt_eq(st.match_info, i);
		exchange(ep, st.source, other[i]);
		mxt_close(other[i]);
	}
	mxt_close(ep);
	mxt_down();
}

/* mx_progress() moves messages and completes no request. */
Test(mx_ext, progress, .timeout = MXT_TIMEOUT)
{
	double end = twt_now() + MXT_LONG / 1000.;
	mx_request_t r, s, got = NULL;
	uint32_t result = 0;
	struct mxt_pair p;
	int in = 0;

	mxt_up();
	mxt_pair(&p);
	r = mxt_irecv(p.b, &in, sizeof(in), 1);
	s = mxt_issend(p.a, &(int){9}, sizeof(int), p.ab, 1);
	while (!result) {
		mxt_check(twt_now() < end);
		mxt_ok(mx_progress(p.a));
		mxt_ok(mx_progress(p.b));
		mxt_ok(mx_ipeek(p.b, &got, &result));
	}
	mxt_check(got == r);
	mxt_ok(mx_progress(p.b));
	mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
	mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	mxt_eq(in, 9);
	mxt_pair_end(&p);
	mxt_down();
}

Test(mx_ext, address_context, .timeout = MXT_TIMEOUT)
{
	mx_endpoint_addr_t from, zero = {{0, 0}};
	void *context = &from;
	mx_request_t r, s;
	struct mxt_pair p;
	int x, y;

	mxt_up();
	mxt_pair(&p);
	mxt_ok(mx_get_endpoint_addr_context(p.ab, &context));
	mxt_check(context == NULL);
	mxt_ok(mx_set_endpoint_addr_context(p.ab, &x));
	mxt_ok(mx_get_endpoint_addr_context(p.ab, &context));
	mxt_check(context == &x);
	/* Every address of that peer leads to it, and to nothing of another's. */
	mxt_ok(mx_get_endpoint_addr_context(mxt_connect(p.a, mxt_name(p.b)), &context));
	mxt_check(context == &x);
	mxt_ok(mx_get_endpoint_addr_context(p.ba, &context));
	mxt_check(context == NULL);
	mxt_ok(mx_set_endpoint_addr_context(p.ba, &y));
	r = mxt_irecv(p.a, NULL, 0, 1);
	s = mxt_isend(p.b, NULL, 0, p.ba, 1);
	from = mxt_wait(p.a, &r, MX_STATUS_SUCCESS).source;
	mxt_wait(p.b, &s, MX_STATUS_SUCCESS);
	context = NULL;
	mxt_ok(mx_get_endpoint_addr_context(from, &context));
	mxt_check(context == &x);
	mxt_ok(mx_set_endpoint_addr_context(from, NULL));
	mxt_ok(mx_get_endpoint_addr_context(p.ab, &context));
	mxt_check(context == NULL);
	/* One's own address too. */
	mxt_ok(mx_set_endpoint_addr_context(mxt_self(p.a), &r));
	mxt_ok(mx_get_endpoint_addr_context(mxt_self(p.a), &context));
	mxt_check(context == &r);
	mxt_rc(MX_FAILURE, mx_get_endpoint_addr_context(p.ab, NULL));
	mxt_check(mx_set_endpoint_addr_context(zero, &x) != MX_SUCCESS);
	mxt_check(mx_get_endpoint_addr_context(zero, &context) != MX_SUCCESS);
	mxt_check(context == &r);
	mxt_pair_end(&p);
	mxt_down();
}

Test(mx_ext, decompose2, .timeout = MXT_TIMEOUT)
{
	struct mxt_name name = {0, 0};
	uint32_t session, again, id = 0;
	mx_endpoint_t a, b, c;
	uint64_t nic = 0;

	mxt_up();
	a = mxt_open(MX_ANY_ENDPOINT);
	c = mxt_open(MX_ANY_ENDPOINT);
	b = mxt_open(41);
	mxt_ok(mx_decompose_endpoint_addr2(mxt_connect(a, mxt_name(b)), &name.nic, &name.id,
					   &session));
	mxt_check(mxt_same_name(name, mxt_name(b)));
	/* The session is the peer's: everybody sees the same. */
	mxt_ok(mx_decompose_endpoint_addr2(mxt_connect(c, mxt_name(b)), &nic, &id, &again));
	mxt_eq(again, session);
	mxt_ok(mx_decompose_endpoint_addr2(mxt_self(b), &nic, &id, &again));
	mxt_eq(again, session);
	mxt_rc(MX_FAILURE, mx_decompose_endpoint_addr2(mxt_self(b), NULL, &id, &again));
	mxt_rc(MX_FAILURE, mx_decompose_endpoint_addr2(mxt_self(b), &nic, NULL, &again));
	mxt_rc(MX_FAILURE, mx_decompose_endpoint_addr2(mxt_self(b), &nic, &id, NULL));
	mxt_close(b);
	b = mxt_reopen(41);
	mxt_ok(mx_decompose_endpoint_addr2(mxt_connect(a, mxt_name(b)), &nic, &id, &again));
	mxt_eq(id, 41);
	mxt_check(again != session);
	mxt_close(a);
	mxt_close(b);
	mxt_close(c);
	mxt_down();
}

Test(mx_ext, regcache, .timeout = MXT_TIMEOUT)
{
	char x[10];

	mxt_eq(mx__regcache_clean(x, sizeof(x)), 1);
	mxt_eq(mx__regcache_clean(NULL, 0), 1);
	mxt_up();
	mxt_eq(mx__regcache_clean(x, sizeof(x)), 1);
	mxt_down();
}
