/* SPDX-License-Identifier: BSD-2-Clause */
/* The proof of identity between hosts: keys (key.c), first words and TLS (proof.c). */
#ifndef TW_NET_PROOF_H
#define TW_NET_PROOF_H

#include "providers/net/auth/crypto.h"
#include "providers/net/driver.h"
#include "providers/net/wire.h"

struct tw_net_link;
struct tw_net_path;

/* How this process proves itself. */
struct tw_net_auth {
	enum tw_net_method method;
	const struct tw_net_tls *tls;	  /* NULL: TAGWIRE_AUTH=none */
	const struct tw_net_munge *munge; /* or NULL */
	bool has[TW_NET_KEYS];
	uint8_t key[TW_NET_KEYS][TW_NET_KEY];
};

/* The proof of a connection. */
struct tw_net_proof {
	void *tls;    /* NULL: none */
	unsigned key; /* caller: the first that is still to be tried; listener: the one that the
			 caller named */
	bool found;   /* a listener has the key that the caller has named */
	bool proved;  /* the caller has that key */
	bool is_caller;		       /* this side is */
	uint8_t nonces[2][TW_NET_KEY]; /* without TLS, the listener's and the caller's */
};

/* Another listener than is wanted. */
struct tw_net_stranger {
	enum tw_err why; /* it was left, TW_OK: there was none */
	uint16_t version, method;
	bool other_job; /* it is of another job of a launcher */
};

/* key.c: NULL if there is none; the reason has been logged. */
const struct tw_net_auth *tw_net_auth(void);
/* Whether the modules that it needs are there; why: the reason if not. Reads no key. */
bool tw_net_auth_installed(char *why, unsigned len);
/* The names of the keys in use, for messages. */
const char *tw_net_key_text(void);

/* proof.c: once an auth is there. The method of this process, as HELLO has it. */
uint16_t tw_net_method(void);
enum tw_err tw_net_hello_send(struct tw_net_link *l);
/* A listener without room has this instead of an answer. */
void tw_net_hello_full(struct tw_net_link *l);
/* TW_OK: TLS follows, if there is an auth's. TW_EPROTO, TW_EPERM: the other is none of ours. */
enum tw_err tw_net_hello_take(struct tw_net_link *l, const struct tw_net_hello *h);
/* TLS goes on; as shake() of struct tw_net_tls. */
enum tw_err tw_net_shake(struct tw_net_link *l);
/* As tw_net_shake(), on a watched socket; false: not more for now. */
bool tw_net_shake_on(struct tw_net_link *l);
void tw_net_proof_end(struct tw_net_link *l);
void tw_net_stranger(struct tw_net_link *l, struct tw_net_stranger s);
/*
 * For a path of a RESUME, or a CONNECT, of that round, which this side sends or answers. False: it
 * cannot be encrypted, and must be.
 */
bool tw_net_tokens(const struct tw_net_link *l, const struct tw_net_path *p, uint32_t round,
		   bool asks, struct tw_driver_tokens *tokens);
/* As recv(2) and send(2), which do not wait. */
ssize_t tw_net_recv(struct tw_net_link *l, void *data, size_t len);
bool tw_net_transmit(struct tw_net_link *l, const struct tw_net_ctrl *t);
/* How long the message is that comes next. */
size_t tw_net_awaited(const struct tw_net_link *l);
/* All of it has come. */
void tw_net_take(struct tw_net_link *l);

#endif /* TW_NET_PROOF_H */
