/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The first words on a control channel: both sides prove that they have the same key
 * before either says anything else. doc/handshake.md has the protocol.
 *
 *   HELLO   the caller's nonce
 *   HELLO   the listener's nonce, and its proof: a MAC of both nonces
 *   sealed  everything from there on, with keys that come of the nonces and the job's key,
 *           one for each direction, and numbered. The caller's first message is its proof.
 */
#include <string.h>
#include <sys/socket.h>

#include "base/inet.h"
#include "base/log.h"
#include "base/sys.h"
#include "providers/net/session.h"

/* The uses of the job's key; no result serves for another one. */
static const char listens[16] = "tagwire listens", seals_call[16] = "tagwire calls",
		  seals_answer[16] = "tagwire answers";

static void derive(uint8_t out[TW_NET_KEY], const struct tw_net_auth *auth, const char use[16],
		   const uint8_t caller[TW_NET_KEY], const uint8_t listener[TW_NET_KEY])
{
	uint8_t text[16 + 2 * TW_NET_KEY];

	memset(out, 0, TW_NET_KEY);
	if (!auth || !auth->crypto)
		return;
	memcpy(text, use, 16);
	memcpy(text + 16, caller, TW_NET_KEY);
	memcpy(text + 16 + TW_NET_KEY, listener, TW_NET_KEY);
	auth->crypto->mac(out, auth->key, text, sizeof(text));
}

static bool hello_put(struct tw_net_link *l, const struct tw_net_auth *auth,
		      const struct tw_net_hello *other)
{
	struct tw_net_hello h = {.magic = TW_NET_MAGIC,
				 .version = TW_NET_VERSION,
				 .sealed = !auth || auth->crypto};

	if (!tw_sys_random(h.nonce, sizeof(h.nonce)))
		return false;
	memcpy(l->proof.nonce, h.nonce, sizeof(h.nonce));
	if (other)
		derive(h.proof, auth, listens, other->nonce, h.nonce);
	return tw_sys_send(l->sock, &h, sizeof(h), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(h);
}

bool tw_net_hello_send(struct tw_net_link *l)
{
	const struct tw_net_auth *auth = tw_net_auth();

	return auth && hello_put(l, auth, NULL);
}

void tw_net_hello_full(struct tw_net_link *l)
{
	struct tw_net_hello h = {
		.magic = TW_NET_MAGIC, .version = TW_NET_VERSION, .sealed = TW_NET_FULL};

	(void)!tw_sys_send(l->sock, &h, sizeof(h), MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Whether the other side speaks this protocol and asks for the same proof. */
static enum tw_err alike(const struct tw_net_auth *auth, const struct tw_net_hello *h)
{
	if (h->version != TW_NET_VERSION)
		return TW_EPROTO;
	if (h->sealed == TW_NET_FULL)
		return TW_AGAIN;
	return h->sealed == (auth->crypto != NULL) ? TW_OK : TW_EPERM;
}

/* The listener has answered. */
static enum tw_err answered(struct tw_net_link *l, const struct tw_net_auth *auth,
			    const struct tw_net_hello *h)
{
	enum tw_err err = alike(auth, h);
	uint8_t proof[TW_NET_KEY];

	if (err != TW_OK || !auth->crypto)
		return err;
	derive(proof, auth, listens, l->proof.nonce, h->nonce);
	return auth->crypto->equal(proof, h->proof) ? TW_OK : TW_EPERM;
}

enum tw_err tw_net_hello_take(struct tw_net_link *l, const struct tw_net_hello *h)
{
	const struct tw_net_auth *auth = tw_net_auth();
	bool listener = l->state == TW_NET_HALF_OPEN;
	struct tw_net_proof *p = &l->proof;
	enum tw_err err;

	if (h->magic != TW_NET_MAGIC)
		return TW_EPROTO;
	/* A listener without a key says so by a wrong proof. */
	if (!listener)
		err = answered(l, auth, h);
	else if (hello_put(l, auth, h))
		err = auth ? alike(auth, h) : TW_EPERM;
	else
		err = TW_ELOST;
	if (err != TW_OK)
		return err;
	derive(listener ? p->rx_key : p->tx_key, auth, seals_call, listener ? h->nonce : p->nonce,
	       listener ? p->nonce : h->nonce);
	derive(listener ? p->tx_key : p->rx_key, auth, seals_answer,
	       listener ? h->nonce : p->nonce, listener ? p->nonce : h->nonce);
	p->sent = p->taken = 0;
	return TW_OK;
}

void tw_net_seal(struct tw_net_link *l, const struct tw_net_ctrl *t, struct tw_net_sealed *out)
{
	const struct tw_net_crypto *crypto = tw_net_auth()->crypto;

	if (crypto) {
		crypto->seal(out, t, sizeof(*t), l->proof.tx_key, l->proof.sent++);
		return;
	}
	memcpy(out->text, t, sizeof(*t));
	memset(out->tag, 0, sizeof(out->tag));
}

bool tw_net_unseal(struct tw_net_link *l, const struct tw_net_sealed *in, struct tw_net_ctrl *t)
{
	const struct tw_net_crypto *crypto = tw_net_auth()->crypto;

	if (crypto)
		return crypto->unseal(t, in, sizeof(*in), l->proof.rx_key, l->proof.taken++);
	memcpy(t, in->text, sizeof(*t));
	return true;
}

/* The first message has come. */
static void greeted(struct tw_net_link *l)
{
	struct tw_net_hello h = l->in.hello;
	enum tw_err err = tw_net_hello_take(l, &h);

	if (err == TW_OK) {
		l->channel = TW_NET_OPEN;
		l->again = 0;
		if (l->state != TW_NET_HALF_OPEN)
			tw_net_ctrl_begin(l);
		else
			l->begun = tw_clock();
	} else if (l->state == TW_NET_HALF_OPEN || err == TW_ELOST || err == TW_AGAIN) {
		tw_net_sock_lost(l, err);
	} else {
		/* Another endpoint than is wanted, perhaps another user's, or none at all. */
		if (h.magic == TW_NET_MAGIC) {
			l->stranger = err;
			l->stranger_version = h.version;
		}
		tw_net_dial_next(l);
	}
}

/* A caller that lacks the key, or somebody has changed what a peer said. */
static void unsealed(struct tw_net_link *l)
{
	char from[INET6_ADDRSTRLEN];

	tw_log(TW_LOG_WARN, "endpoint %u: %s does not have the key %s; see tagwire-key(7)",
	       l->ep->host->self.endpoint_id, tw_inet_text(&l->peer_addr, from, sizeof(from)),
	       tw_net_key_file());
	tw_net_sock_lost(l, TW_EPROTO);
}

void tw_net_take(struct tw_net_link *l)
{
	struct tw_net_ctrl t;

	l->in_len = 0;
	if (l->channel == TW_NET_HELLO)
		greeted(l);
	else if (tw_net_unseal(l, &l->in.sealed, &t))
		tw_net_on_ctrl(l, &t);
	else
		unsealed(l);
}
