/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls beyond MX 1.0: some are of later MX releases, the others are extensions of Tagwire.
 * Each has a page in section 3 of the manual; its STANDARDS say which.
 */
#ifndef MX_EXTENSIONS_H
#define MX_EXTENSIONS_H

#include <stddef.h>

#include "myriexpress.h"

#ifdef __cplusplus
extern "C" {
#endif

/* mx_iconnect() takes match information. */
#define MX_HAS_ICONNECT_V2 1

/*
 * Connects without blocking. The request completes with the peer's address in
 * status.source and MX_STATUS_SUCCESS, or with the reason for the failure.
 */
mx_return_t mx_iconnect(mx_endpoint_t endpoint, uint64_t nic_id, uint32_t endpoint_id,
			uint32_t filter, uint64_t match_info, void *context,
			mx_request_t *request);

/* Gives up a request: its handle ends now, and no call reports its completion. */
mx_return_t mx_forget(mx_endpoint_t endpoint, mx_request_t *request);

/* Makes progress; completes no request for the program. */
mx_return_t mx_progress(mx_endpoint_t endpoint);

/*
 * An extension of Tagwire: a descriptor for poll() and epoll. mx_get_fd() stores it; it is
 * closed with the endpoint. mx_arm_fd() makes progress and returns MX_SUCCESS if nothing has
 * completed or arrived since its last call and no complete request waits to be tested: the
 * descriptor becomes readable when that changes. MX_BUSY: test the requests and arm again
 * before sleeping.
 */
mx_return_t mx_get_fd(mx_endpoint_t endpoint, int *fd);
mx_return_t mx_arm_fd(mx_endpoint_t endpoint);

/*
 * An extension of Tagwire: keys of mx_get_info() with an open endpoint. in_val is the number
 * of a provider (uint32_t), from 0; MX_BAD_INFO_VAL: there are no more. The call loads what
 * the provider needs, which may take a second.
 */
enum mx_provider_info {
	MX_INFO_PROVIDER = 2000,      /* its name */
	MX_INFO_PROVIDER_HERE = 2001, /* uint32_t: 1 if it works at the endpoint's board, else 0 */
	MX_INFO_PROVIDER_TEXT = 2002, /* what it does there, or why not */
	/* How messages go; those longer than MX_COPY_SEND_MAX are announced. */
	MX_INFO_PROVIDER_SLOT = 2003,	/* uint32_t: the longest in a slot of a ring; 0: none */
	MX_INFO_PROVIDER_PACKET = 2004, /* uint32_t: the longest that is one packet */
	MX_INFO_PROVIDER_LONG = 2005	/* announced ones: "get", "copy" or "get or copy" */
};

/* Results of an unexpected-message handler. */
typedef enum mx_unexp_handler_action {
	MX_RECV_CONTINUE = 0, /* keep the message for a later receive */
	MX_RECV_FINISHED      /* the handler has used the message: drop it */
} mx_unexp_handler_action_t;

/*
 * Called for each message that matches no posted receive. data is NULL when
 * the message has not arrived completely. Inside the handler only mx_irecv(),
 * mx_isend(), mx_issend(), mx_forget() and the address calls may be made.
 */
typedef mx_unexp_handler_action_t (*mx_unexp_handler_t)(void *context, mx_endpoint_addr_t source,
							uint64_t match_info, uint32_t length,
							void *data);

/* Installs the handler; NULL removes it. */
mx_return_t mx_register_unexp_handler(mx_endpoint_t endpoint, mx_unexp_handler_t handler,
				      void *context);

/* Associate a pointer that the program chooses with a peer. */
mx_return_t mx_set_endpoint_addr_context(mx_endpoint_addr_t endpoint_addr, void *context);
mx_return_t mx_get_endpoint_addr_context(mx_endpoint_addr_t endpoint_addr, void **context);

/* mx_decompose_endpoint_addr() and the session number of the peer. */
mx_return_t mx_decompose_endpoint_addr2(mx_endpoint_addr_t endpoint_addr, uint64_t *nic_id,
					uint32_t *endpoint_id, uint32_t *session_id);

/*
 * An extension of Tagwire: the processes of a job. It is the launcher's (mpirun, srun, by
 * PMIx), that of TAGWIRE_RANK, or one of this process alone: tagwire-launch(7).
 */

/* This process's number, from 0, and how many there are. Either may be NULL. */
mx_return_t mx_job_info(uint32_t *rank, uint32_t *size);

/* Exchanges the addresses of one endpoint each; with a launcher it waits for all processes. */
mx_return_t mx_job_exchange(mx_endpoint_t endpoint);

/* The endpoint of a process in the last exchange. */
mx_return_t mx_job_peer(uint32_t rank, uint64_t *nic_id, uint32_t *endpoint_id);

/* mx_connect() to it; the timeout is in seconds, or MX_INFINITE. */
mx_return_t mx_job_connect(mx_endpoint_t endpoint, uint32_t rank, uint32_t filter,
			   uint32_t timeout, mx_endpoint_addr_t *endpoint_addr);

/*
 * An extension of Tagwire: one-sided access to memory that the owner of an endpoint has
 * registered as a window, under a key. Requests complete like those of messages: by
 * mx_test(), mx_wait(), or mx_wait_any() with the match information of the call. If there is
 * no such window, or the access goes beyond its end or is not among its rights, the status is
 * MX_STATUS_BAD_RDMAWIN. The owner's program makes no call for an access.
 */
enum mx_window_rights {
	MX_WINDOW_READ = 1,  /* mx_get() */
	MX_WINDOW_WRITE = 2, /* mx_put() */
	MX_WINDOW_ASSIGN = 8 /* no right: the library chooses the key */
};

/*
 * Registers memory under *key, or stores the key chosen there. The memory must stay
 * until the window is deregistered or the endpoint is closed.
 */
mx_return_t mx_window_register(mx_endpoint_t endpoint, void *base, size_t length, uint32_t rights,
			       uint64_t *key);

/* Ends a window; when this returns MX_SUCCESS, no peer can access its memory any more. */
mx_return_t mx_window_deregister(mx_endpoint_t endpoint, uint64_t key);

/*
 * Puts the segments into a window of the owner from the offset on, or gets them from
 * there. A put is complete when its data is in the window. The segments belong to the
 * library until then.
 */
mx_return_t mx_put(mx_endpoint_t endpoint, mx_segment_t *segments_list, uint32_t segments_count,
		   mx_endpoint_addr_t owner, uint64_t key, uint64_t offset, uint64_t match_info,
		   void *context, mx_request_t *request);
mx_return_t mx_get(mx_endpoint_t endpoint, mx_segment_t *segments_list, uint32_t segments_count,
		   mx_endpoint_addr_t owner, uint64_t key, uint64_t offset, uint64_t match_info,
		   void *context, mx_request_t *request);

/* Completes when all puts to that owner that were begun before are complete. */
mx_return_t mx_flush(mx_endpoint_t endpoint, mx_endpoint_addr_t owner, uint64_t match_info,
		     void *context, mx_request_t *request);

/* Allocators call it before they release memory. Nothing is cached; it returns 1. */
int mx__regcache_clean(void *ptr, size_t length);

#ifdef __cplusplus
}
#endif

#endif /* MX_EXTENSIONS_H */
