/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Panda: reliable unicast messages to ports of platforms (Panda, "Sending and
 * Receiving"; "Ports"). panda(7) is the overview; each function has a page in
 * section 3 of the manual. All of it is thread safe.
 */
#ifndef PAN_MP_H
#define PAN_MP_H

#include "pan_sys.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a message is acknowledged. */
typedef enum {
	PAN_MP_NORMAL,	/* at once when it arrives */
	PAN_MP_DELAYED, /* with the next message that goes back, or after a timeout */
	PAN_MP_EXTERNAL /* by pan_mp_ack_send(), when the sender knows */
} pan_mp_ack_t;

/* The port of receives that are addressed by their ticket. */
#define PAN_MP_DIRECT_PORT 0

/*
 * Begins and ends message passing, between pan_init() and pan_end(). The arguments of
 * pan_mp_init() are ignored and may be left out.
 */
#ifdef __cplusplus
void pan_mp_init(int *argc = 0, char **argv = 0);
#else
void pan_mp_init(int *argc, char **argv);
#define pan_mp_init(...) PAN_MP_INIT_(__VA_ARGS__, PAN_MP_INIT2_, PAN_MP_INIT0_, )(__VA_ARGS__)
#define PAN_MP_INIT_(a1, a2, name, ...) name
#define PAN_MP_INIT2_(argc, argv) pan_mp_init(argc, argv)
#define PAN_MP_INIT0_(none) pan_mp_init(none NULL, NULL)
#endif
void pan_mp_end(void);

/*
 * Makes the next port, counted from 1; -1 if that fails. Platforms register their
 * ports in the same order. With an upcall, it is called for each message: size is
 * the capacity of data, len the message. It returns 1 to keep the buffer, and
 * frees it with pan_free() later, or 0 to give it back. With NULL, messages wait
 * for pan_mp_receive().
 */
int pan_mp_register_port(int (*upcall)(void *data, int size, int len));
/* Ends a port, or a receive on PAN_MP_DIRECT_PORT by its ticket. */
void pan_mp_free_port(int port);

/* Bytes that a sender reserves behind its data. */
int pan_mp_trailer(void);

/*
 * Sends to a port, or a direct ticket, of a platform. Returns a ticket, or -1. The
 * data must stay as it is until the send is finished.
 */
int pan_mp_send(int cpu, int port, void *data, int len, pan_mp_ack_t ack);
/* Requests an upcall for the time when the message has arrived, and ends the ticket. */
void pan_mp_async_send(int ticket, void (*upcall)(void *arg), void *arg);
/* Waits for the acknowledgement; not for PAN_MP_EXTERNAL. Ends the ticket. */
void pan_mp_finish_send(int ticket);
/*
 * 1: the message was acknowledged. -1: it is lost. Both end the ticket. 0: neither has happened
 * yet. -1, too, if there is no such ticket, or it is of PAN_MP_EXTERNAL, which does not end then.
 */
int pan_mp_poll_send(int ticket);
/* Not in Panda: waits like pan_mp_finish_send(); returns 1 or -1 like pan_mp_poll_send(). */
int pan_mp_confirm_send(int ticket);
/* Acknowledges a message that was sent with PAN_MP_EXTERNAL. Ends the ticket. */
void pan_mp_ack_send(int ticket);

/* Begins to receive; returns a ticket, or -1. */
int pan_mp_receive(int port);
/*
 * Waits for the message, which is the caller's then, to be freed with pan_free();
 * NULL if the port was freed. Ends the ticket. size and len may be NULL.
 */
void *pan_mp_finish_receive(int ticket, int *size, int *len);
/* Whether pan_mp_finish_receive() would return at once: 1 or 0; -1 for no such ticket. */
int pan_mp_poll_receive(int ticket);

/* A message of that platform will arrive soon. */
void pan_mp_expect(int pid);

#ifdef __cplusplus
}
#endif

#endif /* PAN_MP_H */
