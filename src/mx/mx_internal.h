/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of the MX interface. */
#ifndef TW_MX_H
#define TW_MX_H

#include <string.h>

#include "engine/engine.h"
#include "mx_extensions.h"
#include "myriexpress.h"

_Static_assert(sizeof(mx_endpoint_addr_t) == sizeof(struct tw_addr), "addresses are the engine's");
_Static_assert(sizeof(mx_endpoint_addr_t) == MX_SIZEOF_ADDR, "as it is called");
_Static_assert(MX_MAX_SEGMENTS == TW_MAX_SEGMENTS, "one limit");

/* A request that no peek or test_any finds. */
#define TW_MX_HIDDEN UINTPTR_MAX

/*
 * The requests of sends that leave at once: on no list, but in a circle by which they are used
 * again. mx_test() is mostly called for the oldest. One is free if it has no outcome.
 */
struct tw_mx_sends {
	struct tw_list *next;  /* for the next send, if it is free */
	struct tw_list *first; /* from here to next they may be in use */
	uint32_t n;
};

struct tw_mx_ep {
	struct tw_ep ep;
	uint64_t request_us;   /* time limit of new requests, 0 none */
	uint64_t context_mask; /* bits of the context id, 0 none */
	mx_error_handler_t error_handler;
	void (*user_handler)(void); /* of unexpected messages */
	void *user_context;
	uint64_t probes; /* number of messages that blocked probes returned */
	struct tw_mx_sends sends;
};

static inline struct tw_mx_ep *tw_mx_ep(const struct tw_ep *ep)
{
	return tw_container(ep, struct tw_mx_ep, ep);
}

static inline struct tw_req *tw_mx_send_at(struct tw_list *l)
{
	return tw_container(l, struct tw_req, link);
}

static inline bool tw_mx_send_free(struct tw_ep *ep)
{
	return !tw_mx_send_at(tw_mx_ep(ep)->sends.next)->outcome;
}

/* Frees the place of a send: its handle is that of the next one from now on. */
static inline void tw_mx_send_put(struct tw_req *r)
{
	r->outcome = 0;
	r->peeked_by = 0;
	r->handle = (uintptr_t)r->handle + ((uintptr_t)2 << TW_REQ_GEN);
}

/* Makes the first entry; false when memory is short. */
bool tw_mx_sends_init(struct tw_ep *ep);
/* True if a request is complete and not collected. */
bool tw_mx_any_done(struct tw_ep *ep);
/* Frees a request that is complete. */
void tw_mx_req_free(struct tw_ep *ep, struct tw_req *r);

bool tw_mx_ready(void);
void tw_mx_job_end(void);
void tw_mx_job_forked(void);
/* The hook of tw_mx_interface: "rank 3", after mx_job_exchange(). */
bool tw_mx_job_called(const struct tw_ep *ep, uint64_t where, char *out, size_t size);

/*
 * Reports a failure to the error handler in force (the endpoint's, else the global one)
 * and returns its result, which may be MX_SUCCESS. Without a lock.
 */
mx_return_t tw_mx_fail(mx_error_handler_t handler, const char *function, mx_return_t code);

/* As tw_mx_fail(), with the object and what to do behind the text of the code. */
mx_return_t tw_mx_fail_of(mx_error_handler_t handler, const char *function, mx_return_t code,
			  const char *detail);

/* Whether a handler reports anything: it is not MX_ERRORS_RETURN. */
bool tw_mx_speaks(mx_error_handler_t handler);
/* As tw_mx_fail() without a handler; of MX_FAILURE, which was logged, it says only that. */
extern const char tw_mx_said[];
mx_return_t tw_mx_fail_said(const char *function, mx_return_t code);
/* As tw_mx_fail(), with another message. */
mx_return_t tw_mx_handle(mx_error_handler_t handler, char *message, mx_return_t code);

/* Unlocks, then reports. */
mx_return_t tw_mx_leave_fail(struct tw_ep *ep, const char *function, mx_return_t code);

/* The code of an error of tw_begin() or tw_ep_open(). */
mx_return_t tw_mx_code(enum tw_err err);

/* mx_connect() by the name of `function' with the endpoint entered; see TW_X_LATER. */
mx_return_t tw_mx_connect(struct tw_ep *ep, const char *function, uint64_t nic_id,
			  uint32_t endpoint_id, uint32_t filter, uint32_t timeout, bool later,
			  mx_endpoint_addr_t *endpoint_addr);

/* Checks what describes a request's memory, and makes it. */
mx_return_t tw_mx_new_request(struct tw_ep *ep, enum tw_kind kind, const mx_segment_t *list,
			      uint32_t count, void *context, const mx_request_t *request,
			      struct tw_req **out);
/* Gives a new request the endpoint's time limit. */
void tw_mx_limit(struct tw_ep *ep, const mx_request_t *request);

extern const struct tw_interface tw_mx_interface;
extern const uint8_t tw_mx_status_codes[TW_NSTATUS];

static inline struct tw_ep *tw_mx_enter(mx_endpoint_t endpoint)
{
	return tw_enter((uint64_t)(uintptr_t)endpoint);
}

static inline struct tw_req *tw_mx_request(struct tw_ep *ep, const mx_request_t *request)
{
	return request ? tw_req_find(ep, (uint64_t)(uintptr_t)*request) : NULL;
}

static inline struct tw_addr tw_mx_addr(mx_endpoint_addr_t a)
{
	struct tw_addr t;

	memcpy(&t, &a, sizeof(t));
	return t;
}

static inline mx_endpoint_addr_t tw_mx_user_addr(struct tw_addr t)
{
	mx_endpoint_addr_t a;

	memcpy(&a, &t, sizeof(a));
	return a;
}

/* Fills in a status, unless it is NULL. */
static inline void tw_mx_status(mx_status_t *status, const struct tw_req *r)
{
	if (!status)
		return;
	status->code = (mx_status_code_t)tw_mx_status_codes[r->status];
	tw_addr_copy(&status->source, &r->other);
	status->match_info = r->match;
	status->msg_length = r->msg_len;
	status->xfer_length = r->status == TW_S_OK ? r->msg_len : r->xfer_len;
	status->context = r->context;
}

/* The status of a request that has succeeded: all that was sent was delivered. */
static inline void tw_mx_succeeded(mx_status_t *status, const struct tw_req *r)
{
	if (!status)
		return;
	status->code = MX_STATUS_SUCCESS;
	tw_addr_copy(&status->source, &r->other);
	status->match_info = r->match;
	status->msg_length = status->xfer_length = r->msg_len;
	status->context = r->context;
}

/* Match information and mask of a receive, a probe or a *_any call. */
static inline mx_return_t tw_mx_check_match(const struct tw_ep *ep, uint64_t match, uint64_t mask)
{
	if (tw_unlikely(match & ~mask))
		return MX_BAD_MATCH_MASK;
	if (tw_unlikely(~mask & tw_mx_ep(ep)->context_mask))
		return MX_BAD_MATCHING_FOR_CONTEXT_ID_MASK;
	return MX_SUCCESS;
}

/* Milliseconds of a user as microseconds of the engine. */
static inline uint64_t tw_mx_timeout(uint32_t ms)
{
	return ms == MX_INFINITE || ms == UINT32_MAX ? TW_FOREVER : 1000ull * ms;
}

/* The end of a call with that result. ep: NULL if no such endpoint is open. */
static inline mx_return_t tw_mx_end(struct tw_ep *ep, const char *function, mx_return_t rc)
{
	if (tw_unlikely(!ep))
		return tw_mx_fail(NULL, function, MX_BAD_ENDPOINT);
	if (tw_unlikely(rc != MX_SUCCESS))
		return tw_mx_leave_fail(ep, function, rc);
	tw_leave_unfinished(ep);
	return MX_SUCCESS;
}

#endif /* TW_MX_H */
