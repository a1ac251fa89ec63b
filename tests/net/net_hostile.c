/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Strangers at an endpoint's port: who says nothing, or nonsense, is sent away
 * and learns nothing, and whoever has business comes in meanwhile.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/module.h"
#include "base/settings.h"
#include "lib/check.h"
#include "lib/twt.h"
#include "mx_extensions.h"
#include "providers/net/session.h"

#define FILTER 0x5eceff17u
#define SILENT 200				 /* more than an endpoint listens to */
#define LIMIT_MS 2000				 /* for an introduction: TAGWIRE_CONNECT_TIMEOUT */
#define LONG_MS 60000				 /* the same, where nobody may rely on it */
#define DEADLINE_MS (5000 * (int)twt_patience()) /* against a hang */

struct victim {
	mx_endpoint_t ep;
	uint64_t nic;
	uint32_t id;
	struct sockaddr_storage at; /* where it listens */
	socklen_t len;
};

/* The TCP port of the endpoint: there is another for names. */
static void find_port(struct victim *v)
{
	unsigned found = 0;

	for (int fd = 3; fd < 256; fd++) {
		int is = 0, domain = AF_UNIX, shared = 0;
		socklen_t one = sizeof(is), two = sizeof(domain), three = sizeof(shared);

		if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is, &one) == 0 && is &&
		    getsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &shared, &three) == 0 && !shared &&
		    getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &two) == 0 &&
		    domain != AF_UNIX) {
			v->len = sizeof(v->at);
			check(getsockname(fd, (struct sockaddr *)&v->at, &v->len) == 0);
			found++;
		}
	}
	check(found == 1);
}

static void open_victim(struct victim *v, int limit_ms)
{
	mx_endpoint_addr_t self;
	char text[16];

	snprintf(text, sizeof(text), "%d", limit_ms);
	setenv("TAGWIRE_CONNECT_TIMEOUT", text, 1);
	mx_set_error_handler(MX_ERRORS_RETURN);
	check(mx_init() == MX_SUCCESS);
	check(mx_open_endpoint(0, MX_ANY_ENDPOINT, FILTER, NULL, 0, &v->ep) == MX_SUCCESS);
	check(mx_get_endpoint_addr(v->ep, &self) == MX_SUCCESS);
	check(mx_decompose_endpoint_addr(self, &v->nic, &v->id) == MX_SUCCESS);
	find_port(v);
}

static void close_victim(struct victim *v)
{
	check(mx_close_endpoint(v->ep) == MX_SUCCESS);
	check(mx_finalize() == MX_SUCCESS);
}

static int call(const struct victim *v)
{
	int fd = socket(v->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	check(fd >= 0);
	check(connect(fd, (const struct sockaddr *)&v->at, v->len) == 0);
	return fd;
}

/* Waits for the other side to hang up; the bytes that it said before. */
static size_t until_closed(int fd, void *buf, size_t len)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	size_t got = 0;
	ssize_t n;

	for (;;) {
		check(poll(&p, 1, DEADLINE_MS) == 1);
		n = recv(fd, (char *)buf + got, len - got, 0);
		if (n <= 0)
			break;
		got += (size_t)n;
	}
	close(fd);
	return got;
}

static struct tw_net_ctrl ctrl_to(const struct victim *v, enum tw_net_ctrl_type type)
{
	return (struct tw_net_ctrl){.magic = TW_NET_MAGIC,
				    .version = TW_NET_VERSION,
				    .type = (uint16_t)type,
				    .nic_id = v->nic,
				    .to_nic = v->nic,
				    .endpoint_id = v->id + 1,
				    .to_endpoint = v->id,
				    .session = 77,
				    .presented = FILTER + 1};
}

/* The first words, which a stranger can say, too. */
static struct tw_net_hello greet(int fd)
{
	struct tw_net_hello h = {.magic = TW_NET_MAGIC, .version = TW_NET_VERSION}, reply;

	h.method = strcmp(getenv("TAGWIRE_AUTH"), "none") != 0;
	check(twt_put(fd, &h, sizeof(h)) == 0);
	check(twt_get(fd, &reply, sizeof(reply)) == 0);
	return reply;
}

/* What it answers holds a reason, and nothing of its own. */
static void is_refused(const struct victim *v, enum tw_net_ctrl_type type,
		       enum tw_net_ctrl_type answer, enum tw_err why, bool other_endpoint)
{
	struct tw_net_ctrl t = ctrl_to(v, type);
	struct tw_net_ctrl bare = {.magic = TW_NET_MAGIC, .version = TW_NET_VERSION, .why = why};
	struct tw_net_ctrl reply[2];
	int fd = call(v);

	bare.type = (uint16_t)answer;
	t.to_endpoint += other_endpoint;
	greet(fd);
	check(twt_put(fd, &t, sizeof(t)) == 0);
	check(until_closed(fd, reply, sizeof(reply)) == sizeof(bare));
	check(memcmp(reply, &bare, sizeof(bare)) == 0);
}

/* Hung up at once, not when the time for an introduction is over; the bytes that it said. */
static size_t is_dropped(int fd, const void *data, size_t len)
{
	double start = twt_now();
	char reply[2048];
	size_t said;

	twt_put(fd, data, len);
	said = until_closed(fd, reply, sizeof(reply));
	check(twt_now() - start < LONG_MS / 2000.);
	return said;
}

/* The same for a message after the first words. */
static void is_nonsense(const struct victim *v, const struct tw_net_ctrl *t)
{
	int fd = call(v);

	greet(fd);
	check(is_dropped(fd, t, sizeof(*t)) == 0);
}

static int guest(void *arg, int fd)
{
	const struct victim *v = arg;
	mx_endpoint_addr_t to;
	mx_endpoint_t ep;
	mx_return_t rc;

	(void)fd;
	mx_set_error_handler(MX_ERRORS_RETURN);
	check(mx_init() == MX_SUCCESS);
	check(mx_open_endpoint(0, MX_ANY_ENDPOINT, 1, NULL, 0, &ep) == MX_SUCCESS);
	rc = mx_connect(ep, v->nic, v->id, FILTER, DEADLINE_MS / 1000, &to);
	if (rc != MX_SUCCESS)
		printf("the guest: %s\n", mx_strerror(rc));
	mx_close_endpoint(ep);
	mx_finalize();
	return rc != MX_SUCCESS;
}

/* A child that has nothing of the victim: made before that is open. */
static int guest_later(void *arg, int fd)
{
	check(twt_get(fd, arg, sizeof(struct victim)) == 0);
	return guest(arg, fd);
}

static void crowd(void)
{
	static struct victim v, copy;
	struct twt_child child;
	int silent[SILENT];

	twt_spawn(&child, guest_later, &copy);
	open_victim(&v, LONG_MS);
	for (int i = 0; i < SILENT; i++)
		silent[i] = call(&v);
	check(twt_put(child.fd, &v, sizeof(v)) == 0);
	check(twt_join(&child, TWT_LONG) == 0);
	for (int i = 0; i < SILENT; i++)
		close(silent[i]);
	puts("a crowd of silent callers: a guest came in");
	close_victim(&v);
}

static void nonsense(void)
{
	struct tw_net_ctrl t;
	struct victim v;
	char noise[4096];

	open_victim(&v, LONG_MS);
	twt_fill(noise, sizeof(noise), 5);
	check(is_dropped(call(&v), noise, sizeof(noise)) == 0);
	t = ctrl_to(&v, TW_NET_CONNECT);
	t.version++;
	is_nonsense(&v, &t);
	t = ctrl_to(&v, TW_NET_CONNECT);
	t.noffers = TW_NET_DRIVERS + 1;
	is_nonsense(&v, &t);
	for (int type = 0; type <= TW_NET_BOARDS + 1; type++) {
		t = ctrl_to(&v, (enum tw_net_ctrl_type)type);
		if (type != TW_NET_CONNECT && type != TW_NET_RESUME && type != TW_NET_QUERY)
			is_nonsense(&v, &t);
	}
	puts("nonsense: hung up");
	is_refused(&v, TW_NET_CONNECT, TW_NET_REFUSE, TW_EFILTER, false);
	is_refused(&v, TW_NET_CONNECT, TW_NET_WRONG, TW_ECLOSED, true);
	is_refused(&v, TW_NET_RESUME, TW_NET_REFUSE, TW_ECLOSED, false);
	puts("wrong filter, endpoint, connection: refused without a word too many");
	close_victim(&v);
}

/* HELLO, and TLS by a key and its name; what the caller says is kept. */
static size_t by_key(struct tw_net_key_name name, const uint8_t *key, uint8_t *said, size_t room)
{
	const struct tw_net_tls *tls = tw_net_auth()->tls;
	const size_t len = offsetof(struct tw_net_key_name, credential);
	struct tw_net_hello h = {.magic = TW_NET_MAGIC, .version = TW_NET_VERSION};
	void *session;
	int fds[2];
	ssize_t n;

	h.method = TW_NET_BY_KEY;
	memcpy(said, &h, sizeof(h));
	check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
	session = tls->call(fds[0], &name, len, key);
	check(session && tls->shake(session) == TW_AGAIN);
	n = recv(fds[1], said + sizeof(h), room - sizeof(h), 0);
	check(n > 0);
	tls->end(session);
	close(fds[0]);
	close(fds[1]);
	return sizeof(h) + (size_t)n;
}

#define ALERT 7 /* bytes of it, in clear; some nonsense gets none */

/* Everything but the key is right. */
static void keyless(void)
{
	struct tw_net_hello h = {.magic = TW_NET_MAGIC, .version = TW_NET_VERSION};
	struct tw_net_key_name name = {.magic = TW_NET_MAGIC,
				       .version = TW_NET_VERSION,
				       .method = TW_NET_BY_KEY,
				       .key = TW_NET_KEY_USER};
	uint8_t said[2048], wrong[TW_NET_KEY] = {1}, noise[512];
	struct tw_net_ctrl t;
	struct victim v;
	size_t len;
	int fd;

	open_victim(&v, LONG_MS);
	if (!tw_module_installed("tls")) {
		puts("built without TLS: not tried without the key");
		close_victim(&v);
		return;
	}
	check(tw_net_auth() && tw_net_auth()->tls);
	t = ctrl_to(&v, TW_NET_CONNECT);
	t.presented = FILTER;
	fd = call(&v);
	greet(fd);
	check(is_dropped(fd, &t, sizeof(t)) <= ALERT);
	/* Another key, by the name of the right one, or by one that nobody has. */
	for (name.key = 0; name.key < 4; name.key++) {
		len = by_key(name, wrong, said, sizeof(said));
		check(is_dropped(call(&v), said, len) == sizeof(h) + ALERT);
	}
	/* What one with the key has said, without the key: no end of the handshake. */
	name.key = TW_NET_KEY_USER;
	len = by_key(name, tw_net_auth()->key[TW_NET_KEY_USER], said, sizeof(said));
	twt_fill(noise, sizeof(noise), 7);
	for (int i = 0; i < 2; i++) {
		fd = call(&v);
		check(twt_put(fd, said, len) == 0);
		check(twt_get(fd, &h, sizeof(h)) == 0);
		check(is_dropped(fd, i ? said + sizeof(h) : noise,
				 i ? len - sizeof(h) : sizeof(noise)) > ALERT);
	}
	/* A credential where a key is asked for. */
	h.method = TW_NET_BY_MUNGE;
	check(is_dropped(call(&v), &h, sizeof(h)) == sizeof(h));
	/* Asks for no proof, or speaks another version: learns what is asked for. */
	h.method = TW_NET_NONE;
	check(is_dropped(call(&v), &h, sizeof(h)) == sizeof(h));
	h.method = TW_NET_BY_KEY;
	h.version--;
	check(is_dropped(call(&v), &h, sizeof(h)) == sizeof(h));
	/* First words cut short, and hung up. */
	fd = call(&v);
	check(twt_put(fd, &h, sizeof(h) / 2) == 0);
	shutdown(fd, SHUT_WR);
	check(is_dropped(fd, "", 0) == 0);
	fd = call(&v);
	check(twt_put(fd, said, len / 2) == 0);
	shutdown(fd, SHUT_WR);
	check(is_dropped(fd, "", 0) == sizeof(h));
	puts("without the key: hung up");
	close_victim(&v);
}

/* A byte now and then is no introduction. */
static void slow(void)
{
	struct tw_net_hello t = {.magic = TW_NET_MAGIC, .version = TW_NET_VERSION};
	struct victim v;
	double start;
	int fd;

	open_victim(&v, LIMIT_MS);
	start = twt_now();
	fd = call(&v);
	for (unsigned i = 0; i < sizeof(t) - 1; i++) {
		struct pollfd p = {.fd = fd, .events = POLLIN};

		if (send(fd, (char *)&t + i, 1, MSG_NOSIGNAL) < 0 || poll(&p, 1, 100) == 1)
			break;
		check(twt_now() - start < DEADLINE_MS / 1000.);
	}
	printf("a slow caller: sent away after %.1f s\n", twt_now() - start);
	check(twt_now() - start > LIMIT_MS / 2000.);
	close(fd);
	close_victim(&v);
}

static const struct {
	void (*run)(void);
	const char *auth;
} parts[] = {{crowd, "key"}, {keyless, "key"}, {nonsense, "none"}, {slow, "key"}};

/* Each in a process of its own: what it has for a key is read once. */
static int part(void *arg, int fd)
{
	(void)fd;
	check(tw_settings_load());
	/* A build without TLS has no keys. */
	setenv("TAGWIRE_AUTH", tw_module_installed("tls") ? parts[*(int *)arg].auth : "none", 1);
	parts[*(int *)arg].run();
	return 0;
}

int main(void)
{
	char port[16];

	setvbuf(stdout, NULL, _IOLBF, 0);
	snprintf(port, sizeof(port), "%d", 21000 + (int)getpid() % 3000);
	setenv("TAGWIRE_PORT", port, 1);
	setenv("TAGWIRE_PROVIDERS", "self,tcp,ofi", 1);
	unsetenv("TAGWIRE_JOB");
	for (int i = 0; i < (int)(sizeof(parts) / sizeof(*parts)); i++) {
		struct twt_child child;

		twt_spawn(&child, part, &i);
		if (twt_join(&child, TWT_LONG) != 0)
			return 1;
	}
	return 0;
}
