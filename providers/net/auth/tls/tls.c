/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TLS 1.3 by OpenSSL. It has a library context of its own, so that neither the configuration of
 * the system nor the program's use of OpenSSL changes what is agreed on. The queue of errors is
 * the program's: it is left as it was, and not asked.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>

#include "base/sys.h"
#include "base/thread.h"
#include "providers/net/auth/crypto.h"

#define SHAKE_MAX 4096 /* bytes of a handshake: a stranger's may not fill the memory */

#define RECORD_MORE 256 /* bytes of a record that are not its content, at most (RFC 8446, 5.2) */
#define OUT_ROOM                                                                                   \
	(TW_NET_TLS_WRITE + (TW_NET_TLS_WRITE / SSL3_RT_MAX_PLAIN_LENGTH + 1) * RECORD_MORE)

static const unsigned char id_context[] = "tagwire";

static OSSL_LIB_CTX *lib;
static SSL_CTX *ctx;
static BIO_METHOD *wire;

struct session {
	SSL *ssl;
	int fd;
	size_t shaken; /* bytes of the handshake that have come */
	bool deaf;     /* what comes is not TLS yet */
	/* Of the last call. */
	bool again, closed;
	int error;  /* of the system, or 0 */
	bool stuck; /* the last message has not left, or only a part of it */
	/* Records of tls_write(), which leave together. */
	uint8_t *out;
	size_t out_at, out_len;
	size_t taken; /* bytes that they have, of the write that has not ended */
	bool gathers;
	/* A caller's. */
	uint8_t key[TW_NET_KEY];
	void *name;
	size_t name_len;
	/* A listener's. */
	tw_net_find_key *find;
	void *owner;
};

/* The socket, without signals ------------------------------------------------------ */

/* Notes how a call of the system has ended. */
static int tls_ended(BIO *bio, struct session *s, ssize_t n, int retry)
{
	BIO_clear_retry_flags(bio);
	if (n > 0)
		return (int)n;
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		BIO_set_flags(bio, retry | BIO_FLAGS_SHOULD_RETRY);
		s->again = true;
	} else {
		s->closed = n == 0;
		s->error = n < 0 ? errno : 0;
	}
	return -1;
}

static int wire_read(BIO *bio, char *data, int len)
{
	struct session *s = BIO_get_data(bio);
	ssize_t n;

	if (s->deaf) {
		errno = EAGAIN;
		return tls_ended(bio, s, -1, BIO_FLAGS_READ);
	}
	if (SSL_in_init(s->ssl) && s->shaken > SHAKE_MAX) {
		BIO_clear_retry_flags(bio);
		return -1;
	}
	n = tw_sys_recv(s->fd, data, (size_t)len, MSG_DONTWAIT);
	if (n > 0 && SSL_in_init(s->ssl))
		s->shaken += (size_t)n;
	return tls_ended(bio, s, n, BIO_FLAGS_READ);
}

static int wire_write(BIO *bio, const char *data, int len)
{
	struct session *s = BIO_get_data(bio);

	if (s->gathers && (size_t)len <= OUT_ROOM - s->out_len) {
		memcpy(s->out + s->out_len, data, (size_t)len);
		s->out_len += (size_t)len;
		return tls_ended(bio, s, len, 0);
	}
	/* A record that overtook others would end the connection. */
	if (s->out_len) {
		errno = ENOBUFS;
		return tls_ended(bio, s, -1, BIO_FLAGS_WRITE);
	}
	return tls_ended(bio, s, tw_sys_send(s->fd, data, (size_t)len, MSG_DONTWAIT | MSG_NOSIGNAL),
			 BIO_FLAGS_WRITE);
}

/* Sends the records that were gathered; false with errno if some are left. */
static bool wire_flush(struct session *s)
{
	while (s->out_at < s->out_len) {
		ssize_t n = tw_sys_send(s->fd, s->out + s->out_at, s->out_len - s->out_at,
					MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0)
			return false;
		s->out_at += (size_t)n;
	}
	s->out_at = s->out_len = 0;
	return true;
}

static long wire_ctrl(BIO *bio, int what, long value, void *data)
{
	(void)bio;
	(void)value;
	(void)data;
	return what == BIO_CTRL_FLUSH;
}

/* Keys ------------------------------------------------------------------------------ */

/* A key has the form of a session that went before. */
static SSL_SESSION *of_key(SSL *ssl, const uint8_t key[TW_NET_KEY])
{
	static const unsigned char aes_128_gcm_sha256[] = {0x13, 0x01};
	SSL_SESSION *ss = SSL_SESSION_new();

	if (ss && SSL_SESSION_set1_master_key(ss, key, TW_NET_KEY) &&
	    SSL_SESSION_set_cipher(ss, SSL_CIPHER_find(ssl, aes_128_gcm_sha256)) &&
	    SSL_SESSION_set_protocol_version(ss, TLS1_3_VERSION) &&
	    SSL_SESSION_set1_id_context(ss, id_context, sizeof(id_context) - 1))
		return ss;
	SSL_SESSION_free(ss);
	return NULL;
}

static int use_key(SSL *ssl, const EVP_MD *md, const unsigned char **name, size_t *len,
		   SSL_SESSION **out)
{
	struct session *s = SSL_get_app_data(ssl);

	(void)md; /* there is one suite */
	*name = s->name;
	*len = s->name_len;
	*out = of_key(ssl, s->key);
	return *out != NULL;
}

/* Without the key the handshake ends here: there are no certificates. */
static int tls_find_key(SSL *ssl, const unsigned char *name, size_t len, SSL_SESSION **out)
{
	struct session *s = SSL_get_app_data(ssl);
	uint8_t key[TW_NET_KEY];

	*out = s->find(s->owner, name, len, key) ? of_key(ssl, key) : NULL;
	OPENSSL_cleanse(key, sizeof(key));
	return *out != NULL;
}

/* Once ------------------------------------------------------------------------------ */

static bool make_wire(void)
{
	wire = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tagwire");
	return wire && BIO_meth_set_read(wire, wire_read) && BIO_meth_set_write(wire, wire_write) &&
	       BIO_meth_set_ctrl(wire, wire_ctrl);
}

/*
 * One version, one suite, one group. A peer without the key fails in any case: certificates are
 * demanded and none is trusted. Nothing is resumed, and no data comes early.
 */
static bool restrict_to_keys(void)
{
	SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
	SSL_CTX_clear_options(ctx, SSL_OP_ENABLE_MIDDLEBOX_COMPAT);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_quiet_shutdown(ctx, 1);
	SSL_CTX_set_mode(ctx, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_session_id_context(ctx, id_context, sizeof(id_context) - 1);
	SSL_CTX_set_psk_use_session_callback(ctx, use_key);
	SSL_CTX_set_psk_find_session_callback(ctx, tls_find_key);
	return SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) &&
	       SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) &&
	       SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256") &&
	       SSL_CTX_set1_groups_list(ctx, "X25519") && SSL_CTX_set_num_tickets(ctx, 0);
}

static bool tls_begin(void)
{
	TW_NOT_CANCELLED;

	if (ctx)
		return true;
	/* Other threads may be in here while the program exits. */
	OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
	ERR_set_mark();
	lib = OSSL_LIB_CTX_new();
	ctx = lib ? SSL_CTX_new_ex(lib, NULL, TLS_method()) : NULL;
	if (!ctx || !restrict_to_keys() || !make_wire()) {
		SSL_CTX_free(ctx);
		OSSL_LIB_CTX_free(lib);
		ctx = NULL;
		lib = NULL;
	}
	ERR_pop_to_mark();
	return ctx;
}

static bool digest(uint8_t out[TW_NET_KEY], const void *data, size_t len)
{
	TW_NOT_CANCELLED;
	return EVP_Q_digest(lib, "SHA256", NULL, data, len, out, NULL) == 1;
}

/* Sessions -------------------------------------------------------------------------- */

static void session_end(void *session)
{
	TW_NOT_CANCELLED;
	struct session *s = session;

	SSL_free(s->ssl);
	OPENSSL_cleanse(s->key, sizeof(s->key));
	free(s->name);
	free(s->out);
	free(s);
}

static struct session *session_new(int fd)
{
	struct session *s = calloc(1, sizeof(*s));
	BIO *bio = s ? BIO_new(wire) : NULL;

	if (!s)
		return NULL;
	s->fd = fd;
	s->ssl = bio ? SSL_new(ctx) : NULL;
	if (!s->ssl || !SSL_set_app_data(s->ssl, s)) {
		BIO_free(bio);
		session_end(s);
		return NULL;
	}
	BIO_set_data(bio, s);
	BIO_set_init(bio, 1);
	SSL_set_bio(s->ssl, bio, bio);
	return s;
}

static void *tls_call(int fd, const void *name, size_t len, const uint8_t key[TW_NET_KEY])
{
	TW_NOT_CANCELLED;
	struct session *s = session_new(fd);

	if (!s)
		return NULL;
	s->name = malloc(len);
	if (!s->name) {
		session_end(s);
		return NULL;
	}
	memcpy(s->name, name, len);
	s->name_len = len;
	memcpy(s->key, key, TW_NET_KEY);
	s->deaf = true;
	SSL_set_connect_state(s->ssl);
	return s;
}

static void *tls_answer(int fd, tw_net_find_key *find, void *owner)
{
	TW_NOT_CANCELLED;
	struct session *s = session_new(fd);

	if (!s)
		return NULL;
	s->find = find;
	s->owner = owner;
	SSL_set_accept_state(s->ssl);
	return s;
}

static void tls_enter(struct session *s)
{
	s->again = s->closed = false;
	s->error = 0;
	ERR_set_mark();
}

static enum tw_err shake(void *session)
{
	TW_NOT_CANCELLED;
	struct session *s = session;
	int n;

	tls_enter(s);
	n = SSL_do_handshake(s->ssl);
	ERR_pop_to_mark();
	s->deaf = false;
	if (n == 1)
		return SSL_session_reused(s->ssl) ? TW_OK : TW_EPERM;
	if (s->again)
		return TW_AGAIN;
	if (s->closed)
		return TW_ECLOSED;
	return s->error ? TW_ELOST : TW_EPERM;
}

static ssize_t tls_receive(void *session, void *data, size_t len)
{
	TW_NOT_CANCELLED;
	struct session *s = session;
	int n;

	tls_enter(s);
	n = SSL_read(s->ssl, data, (int)len);
	ERR_pop_to_mark();
	if (n > 0)
		return n;
	if (s->closed || (SSL_get_shutdown(s->ssl) & SSL_RECEIVED_SHUTDOWN))
		return 0;
	errno = s->again ? EAGAIN : s->error ? s->error : EBADMSG;
	return -1;
}

static bool write_one(struct session *s, const void *data, size_t len)
{
	tls_enter(s);
	s->stuck = SSL_write(s->ssl, data, (int)len) <= 0;
	ERR_pop_to_mark();
	return !s->stuck;
}

/* The message that is stuck has been encrypted already: it leaves as it is. */
static bool transmit(void *session, const void *data, size_t len)
{
	TW_NOT_CANCELLED;
	struct session *s = session;

	return (!s->stuck || write_one(s, data, len)) && write_one(s, data, len);
}

static bool tls_write(void *session, const void *data, size_t len)
{
	TW_NOT_CANCELLED;
	struct session *s = session;
	bool good;

	if (!s->out)
		s->out = malloc(OUT_ROOM);
	if (!s->out) {
		errno = ENOMEM;
		return false;
	}
	if (!wire_flush(s))
		return false;
	/* The caller did not know that they were taken. */
	data = (const uint8_t *)data + s->taken;
	len -= s->taken;
	s->taken = 0;
	if (!len)
		return true;
	s->gathers = true;
	good = write_one(s, data, len);
	s->gathers = false;
	if (!good) {
		errno = s->error ? s->error : EPIPE;
		return false;
	}
	if (wire_flush(s))
		return true;
	s->taken = len;
	return false;
}

static size_t tls_pending(void *session)
{
	const struct session *s = session;

	return (size_t)SSL_pending(s->ssl);
}

static bool secret(void *session, const char *of, const void *context, size_t context_len,
		   uint8_t *out, size_t len)
{
	TW_NOT_CANCELLED;
	struct session *s = session;

	return SSL_export_keying_material(s->ssl, out, len, of, strlen(of), context, context_len,
					  1) == 1;
}

extern const struct tw_net_tls tw_net_tls;
const struct tw_net_tls tw_net_tls = {
	.version = TW_NET_TLS_VERSION,
	.begin = tls_begin,
	.digest = digest,
	.call = tls_call,
	.answer = tls_answer,
	.shake = shake,
	.recv = tls_receive,
	.send = transmit,
	.pending = tls_pending,
	.write = tls_write,
	.secret = secret,
	.end = session_end,
};
