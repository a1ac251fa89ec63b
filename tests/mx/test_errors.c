/* SPDX-License-Identifier: BSD-2-Clause */
/* X Error handling. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "mx/mxt.h"

TestSuite(mx_errors, .init = mxt_job, .timeout = MXT_TIMEOUT);

/* The calls of the handlers. */
static struct report {
	int calls;
	mx_return_t code;
	char message[1000];
} global, local;

static mx_return_t note(struct report *t, char *message, mx_return_t code)
{
	t->calls++;
	t->code = code;
	snprintf(t->message, sizeof(t->message), "%s", message ? message : "");
	return code;
}

static mx_return_t global_handler(char *message, mx_return_t code)
{
	return note(&global, message, code);
}

static mx_return_t local_handler(char *message, mx_return_t code)
{
	return note(&local, message, code);
}

static void reset(void)
{
	memset(&global, 0, sizeof(global));
	memset(&local, 0, sizeof(local));
}

/* The call failed so and the handler was called once, with this name. */
static void reported(struct report *by, const char *name, mx_return_t want, mx_return_t got)
{
	struct report *other = by == &global ? &local : &global;

	if (want != got)
		mxt_fail(__FILE__, __LINE__, "%s: %s, not %s", name, mx_strerror(got),
			 mx_strerror(want));
	if (by->calls != 1 || by->code != want || other->calls)
		mxt_fail(__FILE__, __LINE__, "%s: %d calls of the handler, %d of the other, %s",
			 name, by->calls, other->calls, mx_strerror(by->code));
	if (!strstr(by->message, name))
		mxt_fail(__FILE__, __LINE__, "%s is not in \"%s\"", name, by->message);
	reset();
}

#define REPORTED(by, want, fn, ...) reported(by, #fn, want, fn(__VA_ARGS__))

/* Failures of calls on an endpoint that is open. */
static void fail_on(mx_endpoint_t ep, struct report *by)
{
	mx_request_t none = NULL, req = NULL;
	mx_segment_t nowhere = {NULL, 1};
	struct mxt_name me = mxt_name(ep);
	mx_endpoint_addr_t addr;
	uint32_t n = 77;
	mx_status_t st;

	reset();
	REPORTED(by, MX_BAD_SEG_LIST, mx_isend, ep, NULL, 1, mxt_self(ep), 1, NULL, &req);
	REPORTED(by, MX_BAD_SEG_MEM, mx_issend, ep, &nowhere, 1, mxt_self(ep), 1, NULL, &req);
	REPORTED(by, MX_BAD_MATCH_MASK, mx_irecv, ep, NULL, 0, 1, 0, NULL, &req);
	REPORTED(by, MX_BAD_REQUEST, mx_test, ep, &none, &st, &n);
	REPORTED(by, MX_BAD_REQUEST, mx_wait, ep, &none, 10, &st, &n);
	REPORTED(by, MX_BAD_REQUEST, mx_ibuffered, ep, &none, &n);
	REPORTED(by, MX_BAD_REQUEST, mx_buffered, ep, &none, 10, &n);
	REPORTED(by, MX_BAD_REQUEST, mx_cancel, ep, &none, &n);
	REPORTED(by, MX_BAD_REQUEST, mx_forget, ep, &none);
	REPORTED(by, MX_FAILURE, mx_ipeek, ep, &req, NULL);
	REPORTED(by, MX_FAILURE, mx_peek, ep, 10, &req, NULL);
	REPORTED(by, MX_FAILURE, mx_test_any, ep, 0, 0, &st, NULL);
	REPORTED(by, MX_FAILURE, mx_wait_any, ep, 10, 0, 0, &st, NULL);
	REPORTED(by, MX_BAD_MATCH_MASK, mx_iprobe, ep, 1, 0, &st, &n);
	REPORTED(by, MX_BAD_MATCH_MASK, mx_probe, ep, 10, 1, 0, &st, &n);
	REPORTED(by, MX_BAD_CONNECTION_KEY, mx_connect, ep, me.nic, me.id, MXT_KEY + 1, 10, &addr);
	REPORTED(by, MX_NIC_NOT_FOUND, mx_connect, ep, MXT_NO_NIC, 1, 1, 10, &addr);
	REPORTED(by, MX_BAD_REQUEST, mx_iconnect, ep, me.nic, me.id, MXT_KEY, 0, NULL, NULL);
	REPORTED(by, MX_FAILURE, mx_get_endpoint_addr, ep, NULL);
	REPORTED(by, MX_BAD_INFO_KEY, mx_get_info, ep, (mx_get_info_key_t)999, NULL, 0, &n, 4);
}

/* Failures of calls without an endpoint, or with none that could have a handler. */
static void fail_anywhere(void)
{
	mx_request_t req = NULL;
	mx_endpoint_addr_t addr = {{0, 0}};
	mx_endpoint_t ep = NULL;
	void *context;
	uint64_t nic;
	uint32_t n;

	reset();
	REPORTED(&global, MX_ALREADY_INITIALIZED, mx_init);
	REPORTED(&global, MX_BAD_INFO_KEY, mx_get_info, NULL, (mx_get_info_key_t)999, NULL, 0, &n,
		 4);
	REPORTED(&global, MX_BOARD_UNKNOWN, mx_open_endpoint, 99999, 1, 1, NULL, 0, &ep);
	REPORTED(&global, MX_BAD_ENDPOINT_ID, mx_open_endpoint, 0, 1024, 1, NULL, 0, &ep);
	REPORTED(&global, MX_BAD_PARAM_LIST, mx_open_endpoint, 0, 1, 1, NULL, 1, &ep);
	REPORTED(&global, MX_BAD_ENDPOINT, mx_close_endpoint, NULL);
	REPORTED(&global, MX_BAD_ENDPOINT, mx_wakeup, NULL);
	REPORTED(&global, MX_BAD_ENDPOINT, mx_isend, NULL, NULL, 0, addr, 1, NULL, &req);
	REPORTED(&global, MX_BAD_ENDPOINT, mx_progress, NULL);
	REPORTED(&global, MX_BAD_ENDPOINT, mx_disconnect, NULL, addr);
	REPORTED(&global, MX_BAD_ENDPOINT, mx_register_unexp_handler, NULL, NULL, NULL);
	REPORTED(&global, MX_BAD_HOSTNAME_ARGS, mx_hostname_to_nic_id, NULL, &nic);
	REPORTED(&global, MX_HOST_NOT_FOUND, mx_nic_id_to_hostname, MXT_NO_NIC, (char[80]){""});
	REPORTED(&global, MX_BOARD_UNKNOWN, mx_board_number_to_nic_id, 99999, &nic);
	REPORTED(&global, MX_BOARD_UNKNOWN, mx_nic_id_to_board_number, MXT_NO_NIC, &n);
	REPORTED(&global, MX_FAILURE, mx_decompose_endpoint_addr, addr, NULL, NULL);
	REPORTED(&global, MX_BAD_REQUEST, mx_context, &req, &context);
}

static mx_endpoint_t open_with_handler(mx_error_handler_t handler)
{
	mx_param_t param = {.key = MX_PARAM_ERROR_HANDLER, .val.error_handler = handler};
	mx_endpoint_t ep = NULL;

	mxt_ok(mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, MXT_KEY, &param, 1, &ep));
	return ep;
}

Test(mx_errors, handler_is_called, .timeout = MXT_TIMEOUT)
{
	mx_endpoint_t ep;

	mx_set_error_handler(global_handler);
	REPORTED(&global, MX_NOT_INITIALIZED, mx_finalize);
	REPORTED(&global, MX_NOT_INITIALIZED, mx_wakeup, NULL);
	REPORTED(&global, MX_BAD_LIB_VERSION, mx__init_api, 0);
	mxt_ok(mx_init());
	fail_anywhere();
	ep = mxt_open(MX_ANY_ENDPOINT);
	fail_on(ep, &global);
	mxt_close(ep);
	REPORTED(&global, MX_BAD_ENDPOINT, mx_close_endpoint, ep);
	mxt_down();
	REPORTED(&global, MX_NOT_INITIALIZED, mx_finalize);
}

Test(mx_errors, handler_of_an_endpoint, .timeout = MXT_TIMEOUT)
{
	mx_endpoint_t with, without;

	mx_set_error_handler(global_handler);
	mxt_ok(mx_init());
	with = open_with_handler(local_handler);
	without = mxt_open(MX_ANY_ENDPOINT);
	for (int i = 0; i < 2; i++) {
		fail_on(with, &local);
		fail_on(without, &global);
		fail_anywhere();
	}
	/* It stays when the global one changes. */
	mx_set_error_handler(MX_ERRORS_ARE_FATAL);
	fail_on(with, &local);
	mx_set_error_handler(global_handler);
	mxt_close(with);
	mxt_close(without);
	mxt_down();
}

static mx_return_t lenient_handler(char *message, mx_return_t code)
{
	note(&global, message, code);
	return MX_SUCCESS;
}

/* The call fails nevertheless, and does no more. */
Test(mx_errors, handler_returns_success, .timeout = MXT_TIMEOUT)
{
	mx_request_t none = NULL;
	uint32_t result = 77;
	mx_endpoint_t ep;
	mx_status_t st;

	mx_set_error_handler(lenient_handler);
	mxt_ok(mx_init());
	ep = mxt_open(MX_ANY_ENDPOINT);
	reset();
	mxt_ok(mx_wait(NULL, &none, 10, &st, &result));
	mxt_ok(mx_wait(ep, &none, 10, &st, &result));
	mxt_ok(mx_wait(ep, &none, 10, &st, NULL));
	mxt_ok(mx_buffered(NULL, &none, 10, &result));
	mxt_ok(mx_buffered(ep, &none, 10, &result));
	mxt_ok(mx_wait_any(NULL, 10, 0, 0, &st, &result));
	mxt_ok(mx_wait_any(ep, 10, 1, 0, &st, &result));
	mxt_ok(mx_probe(NULL, 10, 0, 0, &st, &result));
	mxt_ok(mx_probe(ep, 10, 1, 0, &st, &result));
	mxt_eq(result, 77);
	mxt_eq(global.calls, 9);
	mxt_close(ep);
	mxt_down();
}

/* Not for success, nor for a result of 0, nor for a status that is not success. */
Test(mx_errors, handler_is_not_called, .timeout = MXT_TIMEOUT)
{
	mx_endpoint_addr_t zero = {{0, 0}};
	mx_request_t r, s, got;
	struct mxt_pair p;
	uint32_t result;
	mx_status_t st;

	reset();
	mx_set_error_handler(global_handler);
	mxt_ok(mx_init());
	mxt_pair(&p);
	mxt_ok(mx_iprobe(p.b, 0, 0, &st, &result));
	mxt_ok(mx_probe(p.b, 10, 0, 0, &st, &result));
	mxt_ok(mx_peek(p.b, 10, &got, &result));
	r = mxt_irecv(p.b, NULL, 0, 1);
	mxt_ok(mx_test(p.b, &r, &st, &result));
	mxt_ok(mx_wait(p.b, &r, 10, &st, &result));
	mxt_eq(result, 0);
	mxt_ok(mx_wakeup(p.b));
	s = mxt_isend(p.a, "long", 4, p.ab, 1);
	mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	mxt_wait(p.b, &r, MX_STATUS_TRUNCATED);
	s = mxt_isend(p.a, NULL, 0, zero, 1);
	mxt_wait(p.a, &s, MX_STATUS_BAD_SESSION);
	mxt_pair_end(&p);
	mxt_down();
	mxt_eq(global.calls, 0);
}

Test(mx_errors, previous_handler, .timeout = MXT_TIMEOUT)
{
	cr_assert(mx_set_error_handler(global_handler) == MX_ERRORS_ARE_FATAL);
	cr_assert(mx_set_error_handler(MX_ERRORS_RETURN) == global_handler);
	cr_assert(mx_set_error_handler(local_handler) == MX_ERRORS_RETURN);
	mxt_ok(mx_init());
	cr_assert(mx_set_error_handler(MX_ERRORS_ARE_FATAL) == local_handler);
	cr_assert(mx_set_error_handler(global_handler) == MX_ERRORS_ARE_FATAL);
	mxt_down();
	/* It is the program's, so it outlives the library's life. */
	cr_assert(mx_set_error_handler(NULL) == global_handler);
	cr_assert(mx_set_error_handler(MX_ERRORS_RETURN) == MX_ERRORS_ARE_FATAL);
	cr_assert(MX_ERRORS_RETURN != MX_ERRORS_ARE_FATAL);
	cr_assert(MX_ERRORS_RETURN != NULL && MX_ERRORS_ARE_FATAL != NULL);
}

/* How a child comes to fail; each must end in the call. */
enum fatal { DEFAULT, RESTORED, RESTORED_BY_NULL, OF_ENDPOINT, ENVIRONMENT_1, BEFORE_INIT };

static int fail_fatally(void *arg, int fd)
{
	mx_request_t req;
	mx_endpoint_t ep;

	dup2(fd, 2);
	switch (*(enum fatal *)arg) {
	case BEFORE_INIT:
		mx_finalize();
		return 0;
	case OF_ENDPOINT:
		mx_set_error_handler(MX_ERRORS_RETURN);
		mx_init();
		ep = open_with_handler(MX_ERRORS_ARE_FATAL);
		mx_isend(ep, NULL, 1, mxt_self(ep), 1, NULL, &req);
		return 0;
	case RESTORED:
		mx_set_error_handler(MX_ERRORS_RETURN);
		mx_set_error_handler(MX_ERRORS_ARE_FATAL);
		break;
	case RESTORED_BY_NULL:
		mx_set_error_handler(MX_ERRORS_RETURN);
		mx_set_error_handler(NULL);
		break;
	case ENVIRONMENT_1:
		setenv("MX_ERRORS_ARE_FATAL", "1", 1);
		break;
	default:
		break;
	}
	mx_init();
	mx_open_endpoint(99999, 1, 1, NULL, 0, &ep);
	return 0;
}

static void dies(enum fatal how, const char *name, mx_return_t code)
{
	struct twt_child c;
	char text[4000];
	size_t n = 0;
	int end;

	twt_spawn(&c, fail_fatally, &how);
	while (n < sizeof(text) - 1 && twt_get(c.fd, text + n, 1) == 0)
		n++;
	text[n] = 0;
	end = twt_join(&c, MXT_CHILD);
	/* An exit code, or the signal of abort(); not success and not late. */
	if (end == 0 || end == -1)
		mxt_fail(__FILE__, __LINE__, "case %d: the child ended with %d", (int)how, end);
	if (!strstr(text, name) || !strstr(text, mx_strerror(code)))
		mxt_fail(__FILE__, __LINE__, "case %d: \"%s\" lacks \"%s\" or \"%s\"", (int)how,
			 text, name, mx_strerror(code));
}

Test(mx_errors, fatal_by_default, .timeout = MXT_TIMEOUT)
{
	dies(DEFAULT, "mx_open_endpoint", MX_BOARD_UNKNOWN);
	dies(RESTORED, "mx_open_endpoint", MX_BOARD_UNKNOWN);
	dies(RESTORED_BY_NULL, "mx_open_endpoint", MX_BOARD_UNKNOWN);
	dies(ENVIRONMENT_1, "mx_open_endpoint", MX_BOARD_UNKNOWN);
	dies(BEFORE_INIT, "mx_finalize", MX_NOT_INITIALIZED);
}

Test(mx_errors, fatal_of_an_endpoint, .timeout = MXT_TIMEOUT)
{
	dies(OF_ENDPOINT, "mx_isend", MX_BAD_SEG_LIST);
}

static int fail_softly(void *arg, int fd)
{
	mx_request_t req;
	mx_endpoint_t ep = NULL;

	(void)arg, (void)fd;
	setenv("MX_ERRORS_ARE_FATAL", "0", 1);
	mxt_ok(mx_init());
	mxt_rc(MX_BOARD_UNKNOWN, mx_open_endpoint(99999, 1, 1, NULL, 0, &ep));
	mxt_ok(mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, 1, NULL, 0, &ep));
	mxt_rc(MX_BAD_SEG_LIST, mx_isend(ep, NULL, 1, mxt_self(ep), 1, NULL, &req));
	mxt_ok(mx_close_endpoint(ep));
	mxt_down();
	return 0;
}

Test(mx_errors, environment, .timeout = MXT_TIMEOUT)
{
	struct twt_child c;

	twt_spawn(&c, fail_softly, NULL);
	mxt_eq(twt_join(&c, MXT_CHILD), 0);
}

static mx_return_t leave(char *message, mx_return_t code)
{
	(void)message;
	_exit(code == MX_BOARD_UNKNOWN ? 55 : 1);
}

static int end_in_handler(void *arg, int fd)
{
	mx_endpoint_t ep;

	(void)arg, (void)fd;
	mx_set_error_handler(leave);
	mx_init();
	mx_open_endpoint(99999, 1, 1, NULL, 0, &ep);
	return 0;
}

Test(mx_errors, handler_may_end_the_program, .timeout = MXT_TIMEOUT)
{
	struct twt_child c;

	twt_spawn(&c, end_in_handler, NULL);
	mxt_eq(twt_join(&c, MXT_CHILD), 55);
}

Test(mx_errors, strerror, .timeout = MXT_TIMEOUT)
{
	static const int unknown[] = {44, 45, 100, 9999, -1, 0x7fffffff};
	const char *text[44];

	for (int i = 0; i < 44; i++) {
		text[i] = mx_strerror((mx_return_t)i);
		mxt_check(text[i] && *text[i]);
		for (int k = 0; k < i; k++)
			mxt_check(strcmp(text[i], text[k]) != 0);
	}
	/* The earlier texts are still there. */
	for (int i = 0; i < 44; i++)
		cr_assert_str_eq(text[i], mx_strerror((mx_return_t)i));
	for (size_t i = 0; i < sizeof(unknown) / sizeof(*unknown); i++) {
		const char *s = mx_strerror((mx_return_t)unknown[i]);

		mxt_check(s && *s && strcmp(s, text[0]) != 0);
	}
}

Test(mx_errors, strstatus, .timeout = MXT_TIMEOUT)
{
	static const int unknown[] = {17, 18, 100, 9999, -1, 0x7fffffff};
	const char *text[17];

	for (int i = 0; i < 17; i++) {
		text[i] = mx_strstatus((mx_status_code_t)i);
		mxt_check(text[i] && *text[i]);
		for (int k = 0; k < i; k++)
			mxt_check(strcmp(text[i], text[k]) != 0);
	}
	for (int i = 0; i < 17; i++)
		cr_assert_str_eq(text[i], mx_strstatus((mx_status_code_t)i));
	for (size_t i = 0; i < sizeof(unknown) / sizeof(*unknown); i++) {
		const char *s = mx_strstatus((mx_status_code_t)unknown[i]);

		mxt_check(s && *s && strcmp(s, text[0]) != 0);
	}
}

/* The numbers are those that programs were compiled with. */
Test(mx_errors, values, .timeout = MXT_TIMEOUT)
{
	mxt_eq(MX_BOARD_UNKNOWN, 8);
	mxt_eq(MX_BUSY, 20);
	mxt_eq(MX_TIMEOUT, 30);
	mxt_eq(MX_NOT_SUPPORTED_WITH_CONTEXT_ID, 43);
	mxt_eq(MX_STATUS_TRUNCATED, 5);
	mxt_eq(MX_STATUS_NO_RESOURCES, 16);
	mxt_eq(sizeof(mx_endpoint_addr_t), 16);
	mxt_eq(sizeof(mx_return_t), 4);
	mxt_eq(offsetof(mx_status_t, xfer_length), offsetof(mx_status_t, length));
	mxt_eq(MX_U32(0x123456789abcdef0ull), 0x12345678);
	mxt_eq(MX_L32(0x123456789abcdef0ull), 0x9abcdef0);
}
