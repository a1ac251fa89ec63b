/* SPDX-License-Identifier: BSD-2-Clause */
/* MX X: error handlers and texts. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/sys.h"
#include "mx/mx_internal.h"

#define EXIT_US 1000000 /* of another thread's exit() */

static mx_return_t errors_are_fatal(char *message, mx_return_t code)
{
	/* Perhaps another part of the program uses the library, too: it is as the caller wants it.
	 */
	if (code == MX_ALREADY_INITIALIZED)
		return code;
	/* exit() of another thread has closed it: the program ends with that one's status. */
	if (code == MX_BAD_ENDPOINT || code == MX_NOT_INITIALIZED)
		tw_sys_sleep_us(EXIT_US);
	fprintf(stderr, "MX fatal error: %s\n", message);
	fflush(stderr);
	exit(code);
}

static mx_return_t errors_return(char *message, mx_return_t code)
{
	tw_log(TW_LOG_INFO, "%s", message);
	return code;
}

const mx_error_handler_t MX_ERRORS_ARE_FATAL = errors_are_fatal;
const mx_error_handler_t MX_ERRORS_RETURN = errors_return;

/* NULL until mx_set_error_handler(): the environment decides. */
static _Atomic(mx_error_handler_t) current;

static mx_error_handler_t initial(void)
{
	const char *env = getenv("MX_ERRORS_ARE_FATAL");

	return env && strcmp(env, "0") == 0 ? errors_return : errors_are_fatal;
}

mx_error_handler_t mx_set_error_handler(mx_error_handler_t handler)
{
	mx_error_handler_t old;

	old = atomic_exchange(&current, handler ? handler : errors_are_fatal);
	return old ? old : initial();
}

static mx_error_handler_t in_effect(mx_error_handler_t handler)
{
	if (!handler)
		handler = atomic_load(&current);
	return handler ? handler : initial();
}

bool tw_mx_speaks(mx_error_handler_t handler)
{
	return in_effect(handler) != errors_return;
}

mx_return_t tw_mx_handle(mx_error_handler_t handler, char *message, mx_return_t code)
{
	return in_effect(handler)(message, code);
}

mx_return_t tw_mx_fail_of(mx_error_handler_t handler, const char *function, mx_return_t code,
			  const char *detail)
{
	char message[512];

	snprintf(message, sizeof(message), "%s: %s%s%s", function, mx_strerror(code),
		 detail ? ": " : "", detail ? detail : "");
	return tw_mx_handle(handler, message, code);
}

mx_return_t tw_mx_fail(mx_error_handler_t handler, const char *function, mx_return_t code)
{
	if (code == MX_BAD_ENDPOINT && !tw_mx_ready())
		code = MX_NOT_INITIALIZED;
	return tw_mx_fail_of(handler, function, code, NULL);
}

const char tw_mx_said[] = "see the message before this one";

mx_return_t tw_mx_fail_said(const char *function, mx_return_t code)
{
	char message[128];

	if (code != MX_FAILURE)
		return tw_mx_fail(NULL, function, code);
	snprintf(message, sizeof(message), "%s: %s", function, tw_mx_said);
	return tw_mx_handle(NULL, message, code);
}

mx_return_t tw_mx_leave_fail(struct tw_ep *ep, const char *function, mx_return_t code)
{
	mx_error_handler_t handler = tw_mx_ep(ep)->error_handler;

	/* Not tw_mx_fail(): the endpoint was open, even if the library has ended meanwhile. */
	tw_leave(ep);
	return tw_mx_fail_of(handler, function, code, NULL);
}

mx_return_t tw_mx_code(enum tw_err err)
{
	switch (err) {
	case TW_OK:
		return MX_SUCCESS;
	case TW_ENOMEM:
		return MX_NO_RESOURCES;
	case TW_AGAIN:
	case TW_EBUSY:
		return MX_BUSY;
	default:
		return MX_FAILURE;
	}
}

const char *mx_strerror(mx_return_t code)
{
	static const char *const texts[] = {
		[MX_SUCCESS] = "success",
		[MX_BAD_BAD_BAD] = "internal error",
		[MX_FAILURE] =
			"failure: a result pointer is NULL, or an argument or a setting is invalid",
		[MX_ALREADY_INITIALIZED] = "the library is initialized already",
		[MX_NOT_INITIALIZED] = "the library is not initialized",
		[MX_NO_DEV] = "no device",
		[MX_NO_DRIVER] = "no driver",
		[MX_NO_PERM] = "permission denied",
		[MX_BOARD_UNKNOWN] = "no such board",
		[MX_BAD_ENDPOINT] = "the endpoint is not open",
		[MX_BAD_SEG_LIST] = "the segment list is NULL but the count is not 0",
		[MX_BAD_SEG_MEM] = "the memory is NULL, or the segments are longer than a message",
		[MX_BAD_SEG_CNT] = "too many segments",
		[MX_BAD_REQUEST] = "no such request",
		[MX_BAD_MATCH_MASK] = "match information has bits outside the mask",
		[MX_NO_RESOURCES] = "a key, a descriptor, memory or another resource is missing",
		[MX_BAD_ADDR_LIST] = "the address list is NULL",
		[MX_BAD_ADDR_COUNT] = "the address list is empty",
		[MX_BAD_ROOT] = "the root is outside the address list",
		[MX_NOT_COMPLETED] = "not complete",
		[MX_BUSY] = "busy: an endpoint id or a key is in use, or call again later",
		[MX_BAD_INFO_KEY] = "unknown information key",
		[MX_BAD_INFO_VAL] = "the input or output of an information key is missing",
		[MX_BAD_NIC] = "invalid NIC id",
		[MX_BAD_PARAM_LIST] = "the parameter list is NULL but the count is not 0",
		[MX_BAD_PARAM_NAME] = "unknown parameter",
		[MX_BAD_PARAM_VAL] = "invalid value of a parameter",
		[MX_BAD_HOSTNAME_ARGS] = "a host name argument is NULL",
		[MX_HOST_NOT_FOUND] = "host not found",
		[MX_REQUEST_PENDING] = "the request is pending",
		[MX_TIMEOUT] = "the peer did not answer in time, or the wait was interrupted",
		[MX_NO_MATCH] = "no match",
		[MX_BAD_ENDPOINT_ID] = "endpoint id out of range",
		[MX_CONNECTION_FAILED] = "the peer's endpoint is not open",
		[MX_BAD_CONNECTION_KEY] =
			"the peer's endpoint has another filter, or its host another key",
		[MX_BAD_INFO_LENGTH] = "the buffer is too short for the information",
		[MX_NIC_NOT_FOUND] = "the host of that NIC is not reached",
		[MX_BAD_KERNEL_VERSION] = "the kernel does not fit",
		[MX_BAD_LIB_VERSION] = "the program was compiled for another version",
		[MX_NIC_DEAD] = "the NIC is dead",
		[MX_CANCEL_NOT_SUPPORTED] = "the request cannot be cancelled",
		[MX_CLOSE_IN_HANDLER] = "endpoints cannot be closed inside an unexpected handler",
		[MX_BAD_MATCHING_FOR_CONTEXT_ID_MASK] =
			"the mask leaves out bits of the context id",
		[MX_NOT_SUPPORTED_WITH_CONTEXT_ID] =
			"not supported on an endpoint with context ids",
	};

	return (unsigned)code < tw_countof(texts) ? texts[code] : "unknown return code";
}

const char *mx_strstatus(mx_status_code_t code)
{
	static const char *const texts[] = {
		[MX_STATUS_SUCCESS] = "success",
		[MX_STATUS_PENDING] = "pending",
		[MX_STATUS_BUFFERED] = "buffered",
		[MX_STATUS_REJECTED] =
			("rejected: not connected with the peer's filter, or the hosts do not "
			 "authenticate each other"),
		[MX_STATUS_TIMEOUT] = "timed out",
		[MX_STATUS_TRUNCATED] = "truncated",
		[MX_STATUS_CANCELLED] = "cancelled",
		[MX_STATUS_ENDPOINT_UNKNOWN] = "the peer's host is not reached",
		[MX_STATUS_ENDPOINT_CLOSED] = "the peer's endpoint is closed",
		[MX_STATUS_ENDPOINT_UNREACHABLE] = "the peer is gone",
		[MX_STATUS_BAD_SESSION] =
			"not connected, or connected to an earlier life of the peer",
		[MX_STATUS_BAD_KEY] = "the peer's endpoint has another filter",
		[MX_STATUS_BAD_ENDPOINT] = "endpoint id out of range",
		[MX_STATUS_BAD_RDMAWIN] = "no such window, or an access that it does not allow",
		[MX_STATUS_ABORTED] =
			"aborted: its memory cannot be read, or the other side has another version",
		[MX_STATUS_EVENTQ_FULL] = "event queue full",
		[MX_STATUS_NO_RESOURCES] =
			"a key, a descriptor, memory or another resource is missing",
	};

	return (unsigned)code < tw_countof(texts) ? texts[code] : "unknown status code";
}
