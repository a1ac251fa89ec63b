/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The first words on a control channel: both sides prove that they have the same key
 * before either says anything else. doc/handshake.md has the protocol.
 *
 *   HELLO   both ways, in clear: the version, and the proof that is asked for
 *   TLS     with a pre-shared key; the caller does not wait for the listener's HELLO
 *
 * A caller with two keys tries the launcher's first, and calls again with the user's.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/inet.h"
#include "base/log.h"
#include "base/report.h"
#include "base/sys.h"
#include "providers/net/session.h"

static bool proof_put(const struct tw_net_link *l, const void *data, size_t len, int flags)
{
	return tw_sys_send(l->sock, data, len, MSG_DONTWAIT | MSG_NOSIGNAL | flags) == (ssize_t)len;
}

uint16_t tw_net_method(void)
{
	return (uint16_t)(tw_net_auth()->method | (tw_settings.encrypt ? TW_NET_ENCRYPTED : 0));
}

static struct tw_net_key_name proof_name_of(unsigned key)
{
	return (struct tw_net_key_name){.magic = TW_NET_MAGIC,
					.version = TW_NET_VERSION,
					.method = tw_net_method(),
					.key = key};
}

/* A caller's next key from that one on; TW_NET_KEYS: it has no more. */
static unsigned next_key(const struct tw_net_auth *auth, unsigned key)
{
	while (key < TW_NET_KEYS && !auth->has[key])
		key++;
	return key;
}

static enum tw_err call_by_key(struct tw_net_link *l, const struct tw_net_auth *auth)
{
	unsigned key = next_key(auth, l->proof.key);
	struct tw_net_key_name name = proof_name_of(key);

	if (key == TW_NET_KEYS)
		return TW_ENOMEM;
	l->proof.key = key;
	l->proof.tls = auth->tls->call(l->sock, &name, offsetof(struct tw_net_key_name, credential),
				       auth->key[key]);
	return l->proof.tls ? TW_OK : TW_ENOMEM;
}

/* By a new key, which a credential carries. */
static enum tw_err call_by_munge(struct tw_net_link *l, const struct tw_net_auth *auth)
{
	struct tw_net_key_name name = proof_name_of(0);
	uint8_t key[TW_NET_KEY];
	char why[256];

	if (!tw_sys_random(key, sizeof(key)))
		return TW_ENOMEM;
	if (!auth->munge->encode(name.credential, sizeof(name.credential), key, why, sizeof(why))) {
		tw_report(TW_LOG_ERROR, "no credential of MUNGE", why,
			  "munged must run, see tagwire-key(7)");
		return TW_ENOMEM;
	}
	l->proof.tls = auth->tls->call(l->sock, &name, sizeof(name), key);
	explicit_bzero(key, sizeof(key));
	return l->proof.tls ? TW_OK : TW_ENOMEM;
}

static struct tw_net_hello hello_of(uint16_t method)
{
	struct tw_net_hello h = {
		.magic = TW_NET_MAGIC, .version = TW_NET_VERSION, .method = method};

	/* Without chance paths are made all the same; nothing is promised. */
	if (method == TW_NET_NONE && !tw_sys_random(h.nonce, sizeof(h.nonce)))
		memset(h.nonce, 0, sizeof(h.nonce));
	return h;
}

enum tw_err tw_net_hello_send(struct tw_net_link *l)
{
	const struct tw_net_auth *auth = tw_net_auth();
	struct tw_net_hello h;
	enum tw_err err;

	if (!auth)
		return TW_ENOMEM;
	h = hello_of(tw_net_method());
	l->proof.is_caller = true;
	memcpy(l->proof.nonces[1], h.nonce, sizeof(h.nonce));
	if (!auth->tls)
		return proof_put(l, &h, sizeof(h), 0) ? TW_OK : TW_ELOST;
	err = auth->munge ? call_by_munge(l, auth) : call_by_key(l, auth);
	if (err == TW_OK && !proof_put(l, &h, sizeof(h), MSG_MORE))
		err = TW_ELOST;
	if (err == TW_OK)
		err = auth->tls->shake(l->proof.tls);
	return err == TW_AGAIN ? TW_OK : err;
}

void tw_net_hello_full(struct tw_net_link *l)
{
	struct tw_net_hello h = hello_of(TW_NET_FULL);

	proof_put(l, &h, sizeof(h), 0);
}

/* Whether the other side speaks this protocol and asks for the same proof. */
static enum tw_err alike(const struct tw_net_hello *h)
{
	if (h->version != TW_NET_VERSION)
		return TW_EPROTO;
	if (h->method == TW_NET_FULL)
		return TW_AGAIN;
	return h->method == tw_net_method() ? TW_OK : TW_EPERM;
}

static bool open_credential(const struct tw_net_link *l, const struct tw_net_key_name *name,
			    uint8_t key[TW_NET_KEY])
{
	char why[256] = "none came", from[INET6_ADDRSTRLEN], who[INET6_ADDRSTRLEN + 32];

	if (memchr(name->credential, 0, sizeof(name->credential)) &&
	    tw_net_auth()->munge->decode(name->credential, key, why, sizeof(why)))
		return true;
	snprintf(who, sizeof(who), "the credential of %s",
		 tw_inet_text(&l->peer_addr, from, sizeof(from)));
	tw_report(TW_LOG_WARN, who, why, "see tagwire-key(7)");
	return false;
}

/* The key that a caller has named; what its HELLO said must be in the name. */
static bool proof_find_key(void *owner, const void *data, size_t len, uint8_t key[TW_NET_KEY])
{
	const size_t head = offsetof(struct tw_net_key_name, credential);
	const struct tw_net_auth *auth = tw_net_auth();
	struct tw_net_key_name name, expected;
	struct tw_net_link *l = owner;

	if (len != (auth->munge ? sizeof(name) : head))
		return false;
	memcpy(&name, data, len);
	l->proof.key = auth->munge ? 0 : name.key;
	expected = proof_name_of(l->proof.key);
	if (memcmp(&name, &expected, head) != 0 || name.key >= TW_NET_KEYS)
		return false;
	if (auth->munge)
		return l->proof.found = open_credential(l, &name, key);
	if (!auth->has[name.key])
		return false;
	memcpy(key, auth->key[name.key], TW_NET_KEY);
	return l->proof.found = true;
}

/* A caller. It is told what is asked for here, whatever it has said. */
static enum tw_err proof_answer_caller(struct tw_net_link *l, const struct tw_net_auth *auth,
				       const struct tw_net_hello *h)
{
	/* Of TLS: handshake_failure (RFC 8446, 6.2). */
	static const uint8_t no_key[] = {21, 3, 3, 0, 2, 2, 40};
	struct tw_net_hello reply = hello_of(auth ? tw_net_method() : h->method);
	enum tw_err err = auth ? alike(h) : TW_EPERM;

	if (!proof_put(l, &reply, sizeof(reply), 0) ||
	    (!auth && !proof_put(l, no_key, sizeof(no_key), 0)))
		return TW_ELOST;
	l->proof.is_caller = false;
	memcpy(l->proof.nonces[0], reply.nonce, sizeof(reply.nonce));
	memcpy(l->proof.nonces[1], h->nonce, sizeof(h->nonce));
	if (err != TW_OK || !auth->tls)
		return err;
	l->proof.key = TW_NET_KEY_USER;
	l->proof.tls = auth->tls->answer(l->sock, proof_find_key, l);
	return l->proof.tls ? TW_OK : TW_ELOST;
}

enum tw_err tw_net_hello_take(struct tw_net_link *l, const struct tw_net_hello *h)
{
	const struct tw_net_auth *auth = tw_net_auth();

	if (h->magic != TW_NET_MAGIC)
		return TW_EPROTO;
	if (l->state == TW_NET_HALF_OPEN)
		return proof_answer_caller(l, auth, h);
	memcpy(l->proof.nonces[0], h->nonce, sizeof(h->nonce));
	return alike(h);
}

static bool proof_secret(const struct tw_net_link *l, const char *label,
			 const struct tw_net_path_end *of, uint8_t *out, size_t len)
{
	return l->proof.tls &&
	       tw_net_auth()->tls->secret(l->proof.tls, label, of, sizeof(*of), out, len);
}

static bool token_of(const struct tw_net_link *l, const struct tw_net_path_end *of,
		     uint8_t token[TW_DRIVER_TOKEN])
{
	const uint8_t *bytes = (const uint8_t *)of;

	if (l->proof.tls)
		return proof_secret(l, "EXPORTER-tagwire", of, token, TW_DRIVER_TOKEN);
	memcpy(token, l->proof.nonces[of->of_caller], TW_DRIVER_TOKEN);
	for (size_t i = 0; i < sizeof(*of); i++)
		token[i] ^= bytes[i];
	return true;
}

/*
 * No key serves two connections, as numbers of records begin again: each side counts its own rounds
 * on a control channel, and a driver makes one connection of a path.
 */
static bool key_of(const struct tw_net_link *l, const struct tw_net_path_end *of,
		   uint8_t key[TW_DRIVER_CIPHER])
{
	return proof_secret(l, "EXPORTER-tagwire-data", of, key, TW_DRIVER_CIPHER);
}

bool tw_net_tokens(const struct tw_net_link *l, const struct tw_net_path *p, uint32_t round,
		   bool asks, struct tw_driver_tokens *tokens)
{
	struct tw_net_path_end mine = {.path = p->number,
				       .round = round,
				       .asked_by_caller = l->proof.is_caller == asks,
				       .of_caller = l->proof.is_caller};
	struct tw_net_path_end other = mine;

	other.of_caller = !mine.of_caller;
	tokens->calls = l->proof.is_caller != (bool)(round & TW_NET_ROUND_BACK);
	tokens->encrypted = tw_settings.encrypt;
	tokens->tls = tw_net_auth()->tls;
	return token_of(l, &mine, tokens->mine) && token_of(l, &other, tokens->other) &&
	       (!tokens->encrypted ||
		(key_of(l, &mine, tokens->my_key) && key_of(l, &other, tokens->other_key)));
}

enum tw_err tw_net_shake(struct tw_net_link *l)
{
	return l->proof.tls ? tw_net_auth()->tls->shake(l->proof.tls) : TW_OK;
}

void tw_net_proof_end(struct tw_net_link *l)
{
	if (l->proof.tls)
		tw_net_auth()->tls->end(l->proof.tls);
	l->proof.tls = NULL;
	l->proof.found = l->proof.proved = false;
}

ssize_t tw_net_recv(struct tw_net_link *l, void *data, size_t len)
{
	if (l->proof.tls && l->channel == TW_NET_OPEN)
		return tw_net_auth()->tls->recv(l->proof.tls, data, len);
	return tw_sys_recv(l->sock, data, len, MSG_DONTWAIT);
}

bool tw_net_transmit(struct tw_net_link *l, const struct tw_net_ctrl *t)
{
	ssize_t n;

	if (l->proof.tls)
		return tw_net_auth()->tls->send(l->proof.tls, t, sizeof(*t));
	n = tw_sys_send(l->sock, t, sizeof(*t), MSG_DONTWAIT | MSG_NOSIGNAL);
	/* Nothing after a part of it could be read: the connection ends, and is made again. */
	if (n > 0 && n < (ssize_t)sizeof(*t))
		tw_sys_shutdown(l->sock, SHUT_RDWR);
	return n == (ssize_t)sizeof(*t);
}

/* Another key may be another user's: any other reason says more. */
void tw_net_stranger(struct tw_net_link *l, struct tw_net_stranger s)
{
	const struct tw_net_stranger *last = &l->stranger;

	if (last->why == TW_OK ||
	    (last->why == TW_EPERM && !last->other_job && last->method == tw_net_method()))
		l->stranger = s;
}

/* A caller lacks the key. One with a launcher's key has another, and calls again. */
static void keyless(const struct tw_net_link *l)
{
	char from[INET6_ADDRSTRLEN], advice[INET6_ADDRSTRLEN + 48], cause[TW_REPORT_SIZE];

	if (tw_net_auth()->method != TW_NET_BY_KEY || l->proof.key == TW_NET_KEY_JOB)
		return;
	snprintf(cause, sizeof(cause), "it does not have the key %s", tw_net_key_text());
	/* Not part of what is said once: a stranger may have many addresses. */
	snprintf(advice, sizeof(advice), "see tagwire-key(7); it called from %s",
		 tw_inet_text(&l->peer_addr, from, sizeof(from)));
	tw_report(TW_LOG_WARN, "a caller", cause, advice);
}

/* The caller has the key, if one is asked for: what its CONNECT will ask for is opened while that
 * is under way. */
static void expect_connect(struct tw_net_link *l)
{
	l->begun = tw_clock();
	l->proof.proved = true;
	if (l->own_port && l->proof.tls)
		tw_net_adapters_open(l->ep);
}

static void opened(struct tw_net_link *l)
{
	l->channel = TW_NET_OPEN;
	l->again = 0;
	if (l->state != TW_NET_HALF_OPEN)
		tw_net_ctrl_begin(l);
	else if (!l->proof.proved)
		expect_connect(l);
}

/* Another endpoint than is wanted, perhaps another user's, or none at all. */
static void proof_leave(struct tw_net_link *l, struct tw_net_stranger s)
{
	tw_net_stranger(l, s);
	tw_net_dial_next(l);
}

static void proof_greeted(struct tw_net_link *l, const struct tw_net_hello *h)
{
	enum tw_err err = tw_net_hello_take(l, h);

	if (err == TW_OK && l->proof.tls)
		l->channel = TW_NET_SHAKE;
	else if (err == TW_OK)
		opened(l);
	else if (l->state == TW_NET_HALF_OPEN || err == TW_ELOST || err == TW_AGAIN)
		tw_net_sock_lost(l, err);
	else if (h->magic == TW_NET_MAGIC)
		proof_leave(l, (struct tw_net_stranger){err, h->version, h->method,
							.other_job = false});
	else
		tw_net_dial_next(l);
}

/* The other side does not have the key that was tried. */
static void unproved(struct tw_net_link *l)
{
	const struct tw_net_auth *auth = tw_net_auth();

	if (l->state == TW_NET_HALF_OPEN) {
		keyless(l);
		tw_net_sock_lost(l, TW_EPERM);
	} else if (l->state == TW_NET_NEW && !auth->munge &&
		   next_key(auth, l->proof.key + 1) < TW_NET_KEYS) {
		l->proof.key++;
		tw_net_dial_same(l);
	} else {
		proof_leave(l,
			    (struct tw_net_stranger){TW_EPERM, TW_NET_VERSION, tw_net_method(),
						     .other_job = false});
	}
}

bool tw_net_shake_on(struct tw_net_link *l)
{
	enum tw_err err = tw_net_shake(l);

	if (err == TW_OK)
		opened(l);
	else if (err == TW_EPERM)
		unproved(l);
	else if (err != TW_AGAIN)
		tw_net_sock_lost(l, err);
	else if (l->proof.found && !l->proof.proved)
		expect_connect(l);
	return err == TW_OK;
}

size_t tw_net_awaited(const struct tw_net_link *l)
{
	return l->channel == TW_NET_HELLO ? sizeof(l->in.hello) : sizeof(l->in.ctrl);
}

void tw_net_take(struct tw_net_link *l)
{
	struct tw_net_ctrl t = l->in.ctrl;

	if (l->channel == TW_NET_HELLO)
		proof_greeted(l, &l->in.hello);
	else
		tw_net_on_ctrl(l, &t);
}
