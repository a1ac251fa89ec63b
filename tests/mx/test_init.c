/* SPDX-License-Identifier: BSD-2-Clause */
/* III.1 Library initialization. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "mx/mxt.h"

TestSuite(mx_init, .init = mxt_job, .timeout = MXT_TIMEOUT);

Test(mx_init, init_and_finalize, .timeout = MXT_TIMEOUT)
{
	mx_set_error_handler(MX_ERRORS_RETURN);
	mxt_ok(mx_init());
	mxt_ok(mx_finalize());
}

Test(mx_init, again_after_finalize, .timeout = MXT_TIMEOUT)
{
	for (int i = 0; i < 20; i++) {
		struct mxt_pair p;
		mx_request_t s, r;
		int got = 0;

		mxt_up();
		mxt_pair(&p);
		r = mxt_irecv(p.b, &got, sizeof(got), 5);
		s = mxt_isend(p.a, &i, sizeof(i), p.ab, 5);
		mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
		mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
		mxt_eq(got, i);
		mxt_pair_end(&p);
		mxt_down();
	}
}

/* Opens beside mx_finalize(). */
static void open_any(void *arg)
{
	mx_endpoint_t *ep = arg;

	if (mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, 1, NULL, 0, ep) != MX_SUCCESS)
		*ep = NULL;
}

/* An endpoint that another thread opens meanwhile does not outlive the library. */
Test(mx_init, finalize_beside_open, .timeout = MXT_TIMEOUT)
{
	enum { ROUNDS = 300 };
	unsigned opened = 0;

	mx_set_error_handler(MX_ERRORS_RETURN);
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct twc_thread t;
		mx_endpoint_t ep;

		mxt_ok(mx_init());
		twc_start(&t, open_any, &ep);
		usleep(i * 10 % 2000);
		mxt_ok(mx_finalize());
		twc_join(&t);
		opened += ep != NULL;
		mxt_rc(MX_NOT_INITIALIZED, mx_wakeup(ep));
	}
	printf("%u of %u were opened\n", opened, (unsigned)ROUNDS);
}

Test(mx_init, twice, .timeout = MXT_TIMEOUT)
{
	mx_endpoint_t ep;

	mxt_up();
	mxt_rc(MX_ALREADY_INITIALIZED, mx_init());
	mxt_rc(MX_ALREADY_INITIALIZED, mx__init_api(MX_API));
	/* The failure leaves the library as it was. */
	ep = mxt_open(MX_ANY_ENDPOINT);
	mxt_close(ep);
	mxt_down();
	mxt_rc(MX_NOT_INITIALIZED, mx_finalize());
}

Test(mx_init, api_version, .timeout = MXT_TIMEOUT)
{
	static const int wrong[] = {0, 0x101, 0x901, -1, 0x7fffffff};

	mx_set_error_handler(MX_ERRORS_RETURN);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		mxt_rc(MX_BAD_LIB_VERSION, mx__init_api(wrong[i]));
		mxt_rc(MX_NOT_INITIALIZED, mx_finalize());
	}
	mxt_ok(mx__init_api(MX_API));
	mxt_rc(MX_ALREADY_INITIALIZED, mx_init());
	mxt_close(mxt_open(MX_ANY_ENDPOINT));
	mxt_down();
}

Test(mx_init, finalize_without_init, .timeout = MXT_TIMEOUT)
{
	mx_set_error_handler(MX_ERRORS_RETURN);
	mxt_rc(MX_NOT_INITIALIZED, mx_finalize());
	mxt_ok(mx_init());
	mxt_down();
	mxt_rc(MX_NOT_INITIALIZED, mx_finalize());
	mxt_rc(MX_NOT_INITIALIZED, mx_finalize());
}

/* Every call that takes no endpoint; none may write its outputs. */
static void other_calls(void)
{
	static char garbage[64];
	mx_endpoint_t const old = (mx_endpoint_t)(uintptr_t)garbage;
	mx_endpoint_t ep = old;
	mx_request_t req = (mx_request_t)(uintptr_t)garbage;
	char host[MX_MAX_HOSTNAME_LEN] = "untouched";
	mx_endpoint_addr_t addr = {{0, 0}};
	uint32_t u32 = 77, session = 77;
	void *context = garbage;
	uint64_t nic = 77;

	mxt_rc(MX_NOT_INITIALIZED, mx_get_info(NULL, MX_NIC_COUNT, NULL, 0, &u32, sizeof(u32)));
	mxt_rc(MX_NOT_INITIALIZED,
	       mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, MXT_KEY, NULL, 0, &ep));
	mxt_rc(MX_NOT_INITIALIZED, mx_hostname_to_nic_id(host, &nic));
	mxt_rc(MX_NOT_INITIALIZED, mx_nic_id_to_hostname(1, host));
	mxt_rc(MX_NOT_INITIALIZED, mx_board_number_to_nic_id(0, &nic));
	mxt_rc(MX_NOT_INITIALIZED, mx_nic_id_to_board_number(1, &u32));
	mxt_rc(MX_NOT_INITIALIZED, mx_decompose_endpoint_addr(addr, &nic, &u32));
	mxt_rc(MX_NOT_INITIALIZED, mx_decompose_endpoint_addr2(addr, &nic, &u32, &session));
	mxt_rc(MX_NOT_INITIALIZED, mx_set_endpoint_addr_context(addr, garbage));
	mxt_rc(MX_NOT_INITIALIZED, mx_get_endpoint_addr_context(addr, &context));
	mxt_rc(MX_NOT_INITIALIZED, mx_context(&req, &context));
	mxt_check(ep == old);
	mxt_eq(nic, 77);
	mxt_eq(u32, 77);
	mxt_eq(session, 77);
	mxt_check(context == garbage);
	cr_assert_str_eq(host, "untouched");
}

Test(mx_init, every_call_before_init, .timeout = MXT_TIMEOUT)
{
	static char garbage[64];

	mx_set_error_handler(MX_ERRORS_RETURN);
	mxt_every_call(NULL, MX_NOT_INITIALIZED);
	mxt_every_call((mx_endpoint_t)(uintptr_t)garbage, MX_NOT_INITIALIZED);
	other_calls();
	mxt_ok(mx_init());
	mxt_down();
}

Test(mx_init, every_call_after_finalize, .timeout = MXT_TIMEOUT)
{
	mx_endpoint_t ep;

	mxt_up();
	ep = mxt_open(MX_ANY_ENDPOINT);
	mxt_close(ep);
	mxt_down();
	mxt_every_call(ep, MX_NOT_INITIALIZED);
	other_calls();
}

/* X: the handler may be set, and codes named, at any time. */
Test(mx_init, allowed_before_init, .timeout = MXT_TIMEOUT)
{
	cr_assert_not_null(mx_strerror(MX_BUSY));
	cr_assert_not_null(mx_strstatus(MX_STATUS_TRUNCATED));
	cr_assert(mx_set_error_handler(MX_ERRORS_RETURN) == MX_ERRORS_ARE_FATAL);
	cr_assert(mx_set_error_handler(MX_ERRORS_RETURN) == MX_ERRORS_RETURN);
	mxt_rc(MX_NOT_INITIALIZED, mx_finalize());
}

Test(mx_init, finalize_closes_endpoints, .timeout = MXT_TIMEOUT)
{
	mx_endpoint_t ep, other;

	mxt_up();
	ep = mxt_open(11);
	mxt_down();
	mxt_up();
	other = mxt_reopen(11);
	if (ep != other)
		mxt_every_call(ep, MX_BAD_ENDPOINT);
	mxt_close(other);
	mxt_down();
}

static int finalize_on_signal(void *arg, int fd)
{
	struct mxt_name name;
	char c;

	(void)arg;
	mxt_up();
	name = mxt_name(mxt_open(MX_ANY_ENDPOINT));
	mxt_eq(twt_put(fd, &name, sizeof(name)), 0);
	mxt_await(fd);
	mxt_down();
	mxt_signal(fd);
	return twt_get(fd, &c, 1);
}

/* The others see it closed while its process lives on. */
Test(mx_init, finalize_closes_endpoints_for_peers, .timeout = MXT_TIMEOUT)
{
	struct mxt_name name;
	struct twt_child c;
	mx_endpoint_addr_t addr;
	mx_endpoint_t ep;

	twt_spawn(&c, finalize_on_signal, NULL);
	mxt_eq(twt_get(c.fd, &name, sizeof(name)), 0);
	mxt_up();
	ep = mxt_open(MX_ANY_ENDPOINT);
	mxt_connect(ep, name);
	mxt_signal(c.fd);
	mxt_await(c.fd);
	mxt_rc(MX_CONNECTION_FAILED, mx_connect(ep, name.nic, name.id, MXT_KEY, MXT_CHILD, &addr));
	mxt_signal(c.fd);
	mxt_eq(twt_join(&c, MXT_CHILD), 0);
	mxt_close(ep);
	mxt_down();
}

/* Ends without close and without finalize, in one of three ways. */
static int leave(void *arg, int fd)
{
	mxt_up();
	mxt_open(12);
	mxt_signal(fd);
	mxt_await(fd);
	switch (*(int *)arg) {
	case 0:
		_exit(0);
	case 1:
		exit(0);
	default:
		raise(SIGKILL);
	}
	return 1;
}

Test(mx_init, exit_frees_the_endpoint_id, .timeout = MXT_TIMEOUT)
{
	mxt_same_host();
	for (int how = 0; how < 3; how++) {
		struct twt_child c;
		mx_endpoint_t ep = NULL;

		twt_spawn(&c, leave, &how);
		mxt_await(c.fd);
		mxt_up();
		mxt_rc(MX_BUSY, mx_open_endpoint(0, 12, MXT_KEY, NULL, 0, &ep));
		mxt_signal(c.fd);
		mxt_eq(twt_join(&c, MXT_CHILD), how < 2 ? 0 : 1000 + SIGKILL);
		ep = mxt_reopen(12);
		mxt_close(ep);
		mxt_down();
	}
}

/* A forked child of a process that does not use MX any more starts afresh. */
static int fresh(void *arg, int fd)
{
	(void)arg, (void)fd;
	mxt_up();
	mxt_close(mxt_open(13));
	mxt_down();
	return 0;
}

Test(mx_init, child_after_finalize, .timeout = MXT_TIMEOUT)
{
	struct twt_child c;

	mxt_up();
	mxt_close(mxt_open(13));
	mxt_down();
	twt_spawn(&c, fresh, NULL);
	mxt_eq(twt_join(&c, MXT_CHILD), 0);
}
