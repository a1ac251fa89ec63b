/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Strangers at an endpoint's port: who says nothing, or nonsense, is sent away
 * and learns nothing, and whoever has business comes in meanwhile.
 * Needs: NET.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/twt.h"
#include "mx_extensions.h"
#include "providers/net/session.h"

#define FILTER 0x5eceff17u
#define SILENT 200				 /* more than an endpoint listens to */
#define LIMIT_MS 2000				 /* for an introduction: TAGWIRE_CONNECT_TIMEOUT */
#define LONG_MS 60000				 /* the same, where nobody may rely on it */
#define DEADLINE_MS (5000 * (int)twt_patience()) /* against a hang */

#define check(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);                 \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

struct victim {
	mx_endpoint_t ep;
	uint64_t nic;
	uint32_t id;
	struct sockaddr_storage at; /* where it listens */
	socklen_t len;
};

/* The one TCP port that this process listens on. */
static void find_port(struct victim *v)
{
	unsigned found = 0;

	for (int fd = 3; fd < 256; fd++) {
		int is = 0, domain = AF_UNIX;
		socklen_t one = sizeof(is), two = sizeof(domain);

		if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is, &one) == 0 && is &&
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
				    .key = FILTER + 1};
}

/* What it answers holds a reason, and nothing of its own. */
static void is_refused(const struct victim *v, enum tw_net_ctrl_type type,
		       enum tw_net_ctrl_type answer, enum tw_err why, bool other_endpoint)
{
	struct tw_net_ctrl t = ctrl_to(v, type), reply[2];
	struct tw_net_ctrl bare = {.magic = TW_NET_MAGIC, .version = TW_NET_VERSION, .why = why};
	int fd = call(v);

	bare.type = (uint16_t)answer;
	t.to_endpoint += other_endpoint;
	check(twt_put(fd, &t, sizeof(t)) == 0);
	check(until_closed(fd, reply, sizeof(reply)) == sizeof(t));
	check(memcmp(reply, &bare, sizeof(bare)) == 0);
}

/* Hung up at once, not when the time for an introduction is over. */
static void is_dropped(const struct victim *v, const void *data, size_t len)
{
	double start = twt_now();
	char reply[2048];
	int fd = call(v);

	twt_put(fd, data, len);
	check(until_closed(fd, reply, sizeof(reply)) == 0);
	check(twt_now() - start < LONG_MS / 2000.);
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
	is_dropped(&v, noise, sizeof(noise));
	t = ctrl_to(&v, TW_NET_CONNECT);
	t.version++;
	is_dropped(&v, &t, sizeof(t));
	t = ctrl_to(&v, TW_NET_CONNECT);
	t.noffers = TW_NET_DRIVERS + 1;
	is_dropped(&v, &t, sizeof(t));
	for (int type = 0; type <= TW_NET_BYE + 1; type++) {
		t = ctrl_to(&v, (enum tw_net_ctrl_type)type);
		if (type != TW_NET_CONNECT && type != TW_NET_RESUME)
			is_dropped(&v, &t, sizeof(t));
	}
	puts("nonsense: hung up");
	is_refused(&v, TW_NET_CONNECT, TW_NET_REFUSE, TW_EKEY, false);
	is_refused(&v, TW_NET_CONNECT, TW_NET_WRONG, TW_ECLOSED, true);
	is_refused(&v, TW_NET_RESUME, TW_NET_REFUSE, TW_ECLOSED, false);
	puts("wrong filter, endpoint, connection: refused without a word too many");
	close_victim(&v);
}

/* A byte now and then is no introduction. */
static void slow(void)
{
	struct tw_net_ctrl t;
	struct victim v;
	double start;
	int fd;

	open_victim(&v, LIMIT_MS);
	t = ctrl_to(&v, TW_NET_CONNECT);
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

int main(void)
{
	char port[16];

	setvbuf(stdout, NULL, _IOLBF, 0);
	snprintf(port, sizeof(port), "%d", 21000 + (int)getpid() % 3000);
	setenv("TAGWIRE_PORT", port, 1);
	setenv("TAGWIRE_PROVIDERS", "self,ofi", 1);
	unsetenv("TAGWIRE_JOB");
	crowd();
	nonsense();
	slow();
	return 0;
}
