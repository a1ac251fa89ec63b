/* SPDX-License-Identifier: BSD-2-Clause */
/* Internal error codes. Each interface translates them into its own. */
#ifndef TW_ERR_H
#define TW_ERR_H

enum tw_err {
	TW_OK = 0,
	TW_AGAIN,   /* not now: no space, or this thread has interrupted a call that is inside */
	TW_PENDING, /* started, an upcall reports the end */
	TW_ENOMEM,  /* memory or another system resource is short */
	TW_EBUSY,   /* the endpoint id is in use */
	TW_EPERM,   /* the system does not allow it */
	TW_EFAULT,  /* the memory is not mapped */
	TW_EFILTER, /* wrong filter */
	TW_ECLOSED, /* no such endpoint, or it was closed normally */
	TW_ELOST,   /* the peer died or the link to it broke */
	TW_ETIMEDOUT,
	TW_EUNREACH, /* no provider reaches that NIC */
	TW_ECROSS,   /* both sides connect, and the attempt of the other stands */
	TW_EPROTO,   /* the peer violates the protocol */
	TW_EWINDOW,  /* there is no such window, or it denies the access */
	TW_NERRS
};

#endif /* TW_ERR_H */
