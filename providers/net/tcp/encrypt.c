/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Encryption, after the hello: by TLS of the kernel, which a socket has from then on, or by a
 * session of OpenSSL over it if one of the two kernels has none. Both need the tokens' keys.
 */
#include <errno.h>
#include <linux/tls.h>
#include <stdlib.h>
#include <string.h>

#include "base/guard.h"
#include "base/inet.h"
#include "base/sys.h"
#include "providers/net/auth/crypto.h"
#include "providers/net/tcp/tcp.h"

_Static_assert(TLS_CIPHER_AES_GCM_256_KEY_SIZE + TLS_CIPHER_AES_GCM_256_SALT_SIZE +
			       TLS_CIPHER_AES_GCM_256_IV_SIZE ==
		       TW_DRIVER_CIPHER,
	       "all that TLS 1.3 needs");
_Static_assert(TW_NET_KEY <= TW_DRIVER_CIPHER, "and a session");

static void forget_keys(struct tw_tcp_path *p)
{
	explicit_bzero(p->tokens.my_key, sizeof(p->tokens.my_key));
	explicit_bzero(p->tokens.other_key, sizeof(p->tokens.other_key));
}

/* By the kernel ------------------------------------------------------------------- */

static bool encrypt_way(int fd, int way, const uint8_t key[TW_DRIVER_CIPHER])
{
	struct tls12_crypto_info_aes_gcm_256 c = {
		.info = {.version = TLS_1_3_VERSION, .cipher_type = TLS_CIPHER_AES_GCM_256}};
	bool good;

	memcpy(c.key, key, sizeof(c.key));
	memcpy(c.salt, key + sizeof(c.key), sizeof(c.salt));
	memcpy(c.iv, key + sizeof(c.key) + sizeof(c.salt), sizeof(c.iv));
	good = tw_sys_setsockopt(fd, SOL_TLS, way, &c, sizeof(c)) == 0;
	explicit_bzero(&c, sizeof(c));
	return good;
}

bool tw_tcp_encrypt(struct tw_tcp_path *p)
{
	struct tw_driver_tokens *k = &p->tokens;
	bool good = tw_inet_tls(p->fd) && encrypt_way(p->fd, TLS_TX, k->my_key) &&
		    encrypt_way(p->fd, TLS_RX, k->other_key);

	/* ENOTCONN: it was hung up on. */
	if (!good && errno != ENOTCONN && !p->t->no_tls) {
		p->t->host.log(TW_LOG_WARN, "tcp: the kernel's TLS: %s; OpenSSL encrypts",
			       strerror(errno));
		p->t->no_tls = true;
	}
	forget_keys(p);
	return good;
}

/* By OpenSSL ---------------------------------------------------------------------- */

/* The caller's. There is one key, whatever its name. */
static bool session_key(void *owner, const void *name, size_t len, uint8_t key[TW_NET_KEY])
{
	const struct tw_tcp_path *p = owner;

	(void)name;
	(void)len;
	memcpy(key, p->tokens.other_key, TW_NET_KEY);
	return true;
}

bool tw_tcp_session(struct tw_tcp_path *p, int fd, bool calls)
{
	static const char name[] = "path";
	const struct tw_net_tls *tls = p->tokens.tls;

	p->text = tls ? malloc(TW_NET_TLS_WRITE) : NULL;
	if (p->text)
		p->session = calls ? tls->call(fd, name, sizeof(name), p->tokens.my_key)
				   : tls->answer(fd, session_key, p);
	return p->session != NULL;
}

enum tw_err tw_tcp_session_shake(struct tw_tcp_path *p)
{
	enum tw_err err = p->tokens.tls->shake(p->session);

	if (err == TW_OK)
		forget_keys(p);
	return err;
}

void tw_tcp_session_end(struct tw_tcp_path *p)
{
	if (p->session)
		p->tokens.tls->end(p->session);
	p->session = NULL;
	free(p->text);
	p->text = NULL;
}

/* The program's memory may be gone. */
static bool text_add(struct tw_tcp_path *p, size_t at, const struct iovec *piece)
{
	if (p->job)
		return tw_guard_copy(true, p->text + at, piece->iov_base, piece->iov_len) == TW_OK;
	memcpy(p->text + at, piece->iov_base, piece->iov_len);
	return true;
}

/* Copies the bytes that are encrypted next; how many, 0 if memory is not there. */
static size_t text_make(struct tw_tcp_path *p, const struct tw_cursor *from, size_t left)
{
	struct iovec pieces[TW_TCP_HELD];
	unsigned n =
		tw_cursor_pieces(from, tw_min(left, (size_t)TW_NET_TLS_WRITE), pieces, TW_TCP_HELD);
	size_t len = 0;

	for (unsigned i = 0; i < n; len += pieces[i++].iov_len)
		if (!text_add(p, len, &pieces[i]))
			return 0;
	return len;
}

ssize_t tw_tcp_session_send(struct tw_tcp_path *p, const struct iovec *iov, unsigned n)
{
	struct tw_cursor from = {.iov = iov};
	ssize_t done = 0;
	size_t left = 0;

	for (unsigned i = 0; i < n; i++)
		left += iov[i].iov_len;
	while (left) {
		size_t len = text_make(p, &from, left);

		if (!len)
			errno = EFAULT;
		if (!len || !p->tokens.tls->write(p->session, p->text, len))
			return done ? done : -1;
		tw_cursor_advance(&from, len);
		done += (ssize_t)len;
		left -= len;
	}
	return done;
}

ssize_t tw_tcp_session_recv(struct tw_tcp_path *p, void *data, size_t len)
{
	return p->tokens.tls->recv(p->session, data, len);
}

bool tw_tcp_session_pending(const struct tw_tcp_path *p)
{
	return p->tokens.tls->pending(p->session) > 0;
}
