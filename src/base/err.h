/* SPDX-License-Identifier: BSD-2-Clause */
/* How things inside fail. Interfaces translate these into their own codes. */
#ifndef TW_ERR_H
#define TW_ERR_H

enum tw_err {
	TW_OK = 0,
	TW_AGAIN,   /* no room now, try later */
	TW_PENDING, /* started, ends by an upcall */
	TW_ENOMEM,  /* memory or another resource of the system is short */
	TW_EBUSY,   /* the endpoint id is in use */
	TW_EPERM,   /* the system does not allow it */
	TW_EFAULT,  /* memory that is not there */
	TW_EKEY,    /* wrong filter */
	TW_ECLOSED, /* no such endpoint, or it was closed in order */
	TW_ELOST,   /* the peer died or the link to it broke */
	TW_ETIMEDOUT,
	TW_EUNREACH, /* no provider reaches that NIC */
	TW_ECROSS,   /* both sides connect at once and the other's attempt stands */
	TW_EPROTO,   /* the peer speaks nonsense */
	TW_NERRS
};

#endif /* TW_ERR_H */
