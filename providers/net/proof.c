/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The first words on a control channel: both sides prove that they have the same key
 * before either says anything else. doc/handshake.md has the protocol.
 *
 *   HELLO   the caller's nonce and the names of its keys, or by MUNGE a credential with a key
 *   HELLO   the listener's nonce, and its proof: a MAC of both nonces under one of the keys
 *   sealed  everything from there on, with keys that come of the nonces and that key, one for
 *           each direction, and numbered. The caller's first message is its proof.
 */
#include <string.h>
#include <sys/socket.h>

#include "base/inet.h"
#include "base/log.h"
#include "base/sys.h"
#include "providers/net/session.h"

/* The uses of a key; no result serves for another one. */
static const char names[16] = "tagwire names", listens[16] = "tagwire listens",
		  seals_call[16] = "tagwire calls", seals_answer[16] = "tagwire answers";

static void derive(uint8_t out[TW_NET_KEY], const struct tw_net_auth *auth,
		   const uint8_t key[TW_NET_KEY], const char use[16], struct tw_net_transcript *t)
{
	memcpy(t->use, use, sizeof(t->use));
	auth->crypto->mac(out, key, t, sizeof(*t));
}

/* Another one each time, so that callers are not known again by it. */
static void name_of(uint8_t name[TW_NET_NAME], const struct tw_net_auth *auth, unsigned which,
		    const uint8_t nonce[TW_NET_KEY])
{
	struct tw_net_transcript t = {.use = {0}};
	uint8_t mac[TW_NET_KEY];

	memcpy(t.caller, nonce, TW_NET_KEY);
	derive(mac, auth, auth->key[which], names, &t);
	memcpy(name, mac, TW_NET_NAME);
}

static bool is_named(const uint8_t name[TW_NET_NAME])
{
	static const uint8_t none[TW_NET_NAME];

	return memcmp(name, none, TW_NET_NAME) != 0;
}

static bool put(const struct tw_net_link *l, const void *data, size_t len)
{
	return tw_sys_send(l->sock, data, len, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)len;
}

static void note_caller(struct tw_net_transcript *t, const struct tw_net_hello *caller)
{
	memcpy(t->caller, caller->nonce, sizeof(t->caller));
	memcpy(t->names, caller->names, sizeof(t->names));
}

/* HELLO and a credential, which carries a key of its own. */
static enum tw_err send_credential(struct tw_net_link *l, const struct tw_net_auth *auth,
				    const struct tw_net_hello *h)
{
	struct tw_net_greeting m = {.hello = *h};
	char why[256];

	if (!tw_sys_random(l->proof.tx_key, TW_NET_KEY))
		return TW_ENOMEM;
	if (auth->munge->encode(m.credential.text, sizeof(m.credential.text), l->proof.tx_key, why,
				sizeof(why)))
		return put(l, &m, sizeof(m)) ? TW_OK : TW_ELOST;
	tw_log(TW_LOG_ERROR, "no credential of MUNGE: %s: is munged running?", why);
	return TW_ENOMEM;
}

enum tw_err tw_net_hello_send(struct tw_net_link *l)
{
	const struct tw_net_auth *auth = tw_net_auth();
	struct tw_net_hello h = {.magic = TW_NET_MAGIC, .version = TW_NET_VERSION};

	if (!auth || !tw_sys_random(h.nonce, sizeof(h.nonce)))
		return TW_ENOMEM;
	h.method = auth->method;
	for (unsigned i = 0; i < TW_NET_KEYS; i++)
		if (auth->has[i])
			name_of(h.names[i], auth, i, h.nonce);
	note_caller(&l->proof.said, &h);
	if (auth->munge)
		return send_credential(l, auth, &h);
	return put(l, &h, sizeof(h)) ? TW_OK : TW_ELOST;
}

void tw_net_hello_full(struct tw_net_link *l)
{
	struct tw_net_hello h = {
		.magic = TW_NET_MAGIC, .version = TW_NET_VERSION, .method = TW_NET_FULL};

	put(l, &h, sizeof(h));
}

/* Whether the other side speaks this protocol and asks for the same proof. */
static enum tw_err alike(const struct tw_net_auth *auth, const struct tw_net_hello *h)
{
	if (h->version != TW_NET_VERSION)
		return TW_EPROTO;
	if (h->method == TW_NET_FULL)
		return TW_AGAIN;
	return h->method == auth->method ? TW_OK : TW_EPERM;
}

/* Both nonces are known; a listener's keys are a caller's the other way round. */
static void open_channel(struct tw_net_proof *p, const struct tw_net_auth *auth,
			 const uint8_t key[TW_NET_KEY], bool listener)
{
	uint8_t call[TW_NET_KEY], answer[TW_NET_KEY];

	derive(call, auth, key, seals_call, &p->said);
	derive(answer, auth, key, seals_answer, &p->said);
	memcpy(p->tx_key, listener ? answer : call, TW_NET_KEY);
	memcpy(p->rx_key, listener ? call : answer, TW_NET_KEY);
	p->sent = p->taken = 0;
}

/* The listener has answered: which of this side's keys does it have? */
static enum tw_err answered(struct tw_net_link *l, const struct tw_net_auth *auth,
			    const struct tw_net_hello *h)
{
	struct tw_net_transcript *t = &l->proof.said;
	enum tw_err err = alike(auth, h);
	uint8_t proof[TW_NET_KEY];

	if (err != TW_OK || !auth->crypto)
		return err;
	memcpy(t->listener, h->nonce, sizeof(t->listener));
	for (unsigned i = 0; i < TW_NET_KEYS; i++) {
		const uint8_t *key = auth->munge ? l->proof.tx_key : auth->key[i];

		if (!auth->munge && !is_named(t->names[i]))
			continue;
		derive(proof, auth, key, listens, t);
		if (!auth->crypto->equal(proof, h->proof))
			continue;
		open_channel(&l->proof, auth, key, false);
		return TW_OK;
	}
	return TW_EPERM;
}

/* The key that the caller has as well, or NULL. */
static const uint8_t *shared(struct tw_net_link *l, const struct tw_net_auth *auth,
			     const struct tw_net_hello *h)
{
	uint8_t name[TW_NET_NAME];

	for (unsigned i = 0; i < TW_NET_KEYS; i++) {
		if (!auth->has[i] || !is_named(h->names[i]))
			continue;
		name_of(name, auth, i, h->nonce);
		if (memcmp(name, h->names[i], TW_NET_NAME) == 0)
			return auth->key[i];
		l->proof.other_job |= i == TW_NET_KEY_JOB;
	}
	return NULL;
}

static const uint8_t *opened(struct tw_net_link *l, const struct tw_net_auth *auth,
			     const struct tw_net_credential *c)
{
	char why[256] = "none came", from[INET6_ADDRSTRLEN];

	if (c && memchr(c->text, 0, sizeof(c->text)) &&
	    auth->munge->decode(c->text, l->proof.tx_key, why, sizeof(why)))
		return l->proof.tx_key;
	tw_log(TW_LOG_WARN, "the credential of %s: %s; see tagwire-key(7)",
	       tw_inet_text(&l->peer_addr, from, sizeof(from)), why);
	return NULL;
}

/* A caller: answers it. One without the key is told so by a wrong proof. */
static enum tw_err called(struct tw_net_link *l, const struct tw_net_auth *auth,
			  const struct tw_net_hello *h, const struct tw_net_credential *c)
{
	struct tw_net_hello reply = {.magic = TW_NET_MAGIC, .version = TW_NET_VERSION};
	enum tw_err err = auth ? alike(auth, h) : TW_EPERM;
	struct tw_net_transcript *t = &l->proof.said;
	const uint8_t *key = NULL;

	reply.method = auth ? auth->method : h->method;
	if (!tw_sys_random(reply.nonce, sizeof(reply.nonce)))
		return TW_ELOST;
	if (err == TW_OK && auth->crypto) {
		note_caller(t, h);
		memcpy(t->listener, reply.nonce, sizeof(t->listener));
		key = auth->munge ? opened(l, auth, c) : shared(l, auth, h);
		if (key) {
			derive(reply.proof, auth, key, listens, t);
			open_channel(&l->proof, auth, key, true);
		} else {
			err = TW_EPERM;
		}
	}
	return put(l, &reply, sizeof(reply)) ? err : TW_ELOST;
}

enum tw_err tw_net_hello_take(struct tw_net_link *l, const struct tw_net_hello *h,
			      const struct tw_net_credential *c)
{
	const struct tw_net_auth *auth = tw_net_auth();

	if (h->magic != TW_NET_MAGIC)
		return TW_EPROTO;
	return l->state == TW_NET_HALF_OPEN ? called(l, auth, h, c) : answered(l, auth, h);
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

/* Another key may be another user's: any other reason says more. */
void tw_net_stranger(struct tw_net_link *l, struct tw_net_stranger s)
{
	const struct tw_net_stranger *last = &l->stranger;

	if (last->why == TW_OK || (last->why == TW_EPERM && !last->other_job &&
				   last->method == tw_net_auth()->method))
		l->stranger = s;
}

/* The other side lacks the key, or somebody has changed what it said. */
static void keyless(const struct tw_net_link *l)
{
	char from[INET6_ADDRSTRLEN];

	tw_log(TW_LOG_WARN, "endpoint %u: %s does not have the key %s; see tagwire-key(7)",
	       l->ep->host->self.endpoint_id, tw_inet_text(&l->peer_addr, from, sizeof(from)),
	       tw_net_key_text());
}

/* The caller has named a key: what its CONNECT will ask for is opened while that is under way. */
static void expect_connect(struct tw_net_link *l)
{
	l->begun = tw_clock();
	if (l->own_port && tw_net_auth()->crypto)
		tw_net_adapters_open(l->ep);
}

static void greeted(struct tw_net_link *l, const struct tw_net_hello *h,
		    const struct tw_net_credential *c)
{
	enum tw_err err = tw_net_hello_take(l, h, c);

	if (err == TW_OK) {
		l->channel = TW_NET_OPEN;
		l->again = 0;
		if (l->state != TW_NET_HALF_OPEN)
			tw_net_ctrl_begin(l);
		else
			expect_connect(l);
	} else if (l->state == TW_NET_HALF_OPEN || err == TW_ELOST || err == TW_AGAIN) {
		if (err == TW_EPERM && h->method == TW_NET_BY_KEY)
			keyless(l);
		tw_net_sock_lost(l, err);
	} else {
		/* Another endpoint than is wanted, perhaps another user's, or none at all. */
		if (h->magic == TW_NET_MAGIC)
			tw_net_stranger(l, (struct tw_net_stranger){err, h->version, h->method,
								    .other_job = false});
		tw_net_dial_next(l);
	}
}

size_t tw_net_awaited(const struct tw_net_link *l)
{
	const struct tw_net_hello *h = &l->in.first.hello;
	const struct tw_net_auth *auth;

	if (l->channel == TW_NET_OPEN)
		return sizeof(l->in.sealed);
	if (l->in_len < sizeof(*h) || l->state != TW_NET_HALF_OPEN || h->magic != TW_NET_MAGIC)
		return sizeof(*h);
	auth = tw_net_auth();
	return auth && auth->munge && alike(auth, h) == TW_OK ? sizeof(l->in.first) : sizeof(*h);
}

void tw_net_take(struct tw_net_link *l)
{
	bool credential = l->in_len > sizeof(l->in.first.hello);
	struct tw_net_ctrl t;

	l->in_len = 0;
	if (l->channel == TW_NET_HELLO) {
		greeted(l, &l->in.first.hello, credential ? &l->in.first.credential : NULL);
	} else if (tw_net_unseal(l, &l->in.sealed, &t)) {
		tw_net_on_ctrl(l, &t);
	} else {
		keyless(l);
		tw_net_sock_lost(l, TW_EPROTO);
	}
}
