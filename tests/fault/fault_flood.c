/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * 10,000 strangers call an endpoint: silent ones, ones that talk nonsense, ones that stop amid
 * their first words or after them, ones with another key. Meanwhile a friend sends it messages, all
 * of which arrive; afterwards the process has the memory and the descriptors that it had before,
 * and lets another friend in.
 * Part of: rest
 */
#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/check.h"
#include "lib/twt.h"
#include "mx_extensions.h"
#include "naming/naming.h"
#include "providers/net/session.h"

#define FILTER 0x5eceff17u
#define STRANGERS 10000
#define KINDS 6
#define AT_ONCE 400	 /* descriptors of this process */
#define WARM_UP 1000	 /* strangers before the first look at the memory */
#define SLACK (64 << 10) /* bytes; a link for each stranger would be 13 MB */
#define LENGTH 1000

struct place {
	uint64_t nic;
	uint32_t id;
	struct sockaddr_storage at;
};

struct state {
	size_t bytes;
	unsigned fds;
	uint64_t messages;
};

static void begin(mx_endpoint_t *ep)
{
	mx_set_error_handler(MX_ERRORS_RETURN);
	check(mx_init() == MX_SUCCESS);
	check(mx_open_endpoint(0, MX_ANY_ENDPOINT, FILTER, NULL, 0, ep) == MX_SUCCESS);
}

static struct state look(uint64_t messages)
{
	struct state s = {mallinfo2().uordblks, 0, messages};
	DIR *d = opendir("/proc/self/fd");

	check(d != NULL);
	while (readdir(d))
		s.fds++;
	closedir(d);
	return s;
}

/* Takes messages in, and tells how it is when a byte comes. */
static int victim(void *arg, int fd)
{
	static char data[LENGTH];
	mx_segment_t seg = {data, LENGTH};
	struct pollfd p = {.fd = fd, .events = POLLIN};
	mx_endpoint_addr_t self;
	struct place at = {0};
	uint64_t messages = 0;
	uint32_t done = 1;
	mx_endpoint_t ep;
	mx_request_t r;
	mx_status_t st;
	char byte;

	(void)arg;
	begin(&ep);
	check(mx_get_endpoint_addr(ep, &self) == MX_SUCCESS);
	mx_decompose_endpoint_addr(self, &at.nic, &at.id);
	check(tw_nic_to_address(at.nic, &at.at) == TW_OK && at.at.ss_family == AF_INET);
	((struct sockaddr_in *)(void *)&at.at)->sin_port = htons((uint16_t)tw_net_port(at.id, 0));
	check(twt_put(fd, &at, sizeof(at)) == 0);
	for (;;) {
		if (done)
			check(mx_irecv(ep, &seg, 1, 0, 0, NULL, &r) == MX_SUCCESS);
		check(mx_wait(ep, &r, 5, &st, &done) == MX_SUCCESS);
		if (done) {
			check(st.code == MX_STATUS_SUCCESS && st.match_info == messages);
			check(twt_check(data, LENGTH, messages++) == LENGTH);
		}
		if (poll(&p, 1, 0) == 1) {
			struct state s = look(messages);

			if (twt_get(fd, &byte, 1) < 0)
				break;
			check(twt_put(fd, &s, sizeof(s)) == 0);
		}
	}
	mx_close_endpoint(ep);
	mx_finalize();
	return 0;
}

/* Sends, each message when the one before has arrived, until a byte comes; tells how many. */
static int friend(void *arg, int fd)
{
	static char data[LENGTH];
	mx_segment_t seg = {data, LENGTH};
	struct pollfd p = {.fd = fd, .events = POLLIN};
	uint32_t done, seconds = (uint32_t)TWT_LONG;
	mx_endpoint_addr_t to;
	uint64_t sent = 0;
	struct place at;
	mx_endpoint_t ep;
	mx_request_t r;
	mx_status_t st;

	(void)arg;
	check(twt_get(fd, &at, sizeof(at)) == 0);
	begin(&ep);
	check(mx_connect(ep, at.nic, at.id, FILTER, seconds, &to) == MX_SUCCESS);
	check(twt_put(fd, &at, sizeof(at)) == 0);
	while (poll(&p, 1, 1) == 0) {
		twt_fill(data, LENGTH, sent);
		check(mx_issend(ep, &seg, 1, to, sent++, NULL, &r) == MX_SUCCESS);
		check(mx_wait(ep, &r, 1000 * seconds, &st, &done) == MX_SUCCESS && done);
		check(st.code == MX_STATUS_SUCCESS);
	}
	check(twt_put(fd, &sent, sizeof(sent)) == 0);
	mx_close_endpoint(ep);
	mx_finalize();
	return 0;
}

/* What TLS says first to one who has the key, by another key. */
static char by_another_key[1024];
static size_t by_another_key_len;

static void record(void)
{
	static const uint8_t key[TW_NET_KEY];
	struct tw_net_key_name name = {.magic = TW_NET_MAGIC,
				       .version = TW_NET_VERSION,
				       .method = TW_NET_BY_KEY,
				       .key = TW_NET_KEY_USER};
	const struct tw_net_tls *tls;
	int fds[2];
	void *session;
	ssize_t n;

	check(tw_settings_load());
	check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
	/* Without TLS, nonsense takes its place. */
	tls = tw_net_auth() ? tw_net_auth()->tls : NULL;
	if (!tls)
		return;
	session = tls->call(fds[0], &name, offsetof(struct tw_net_key_name, credential), key);
	check(session && tls->shake(session) == TW_AGAIN);
	n = recv(fds[1], by_another_key, sizeof(by_another_key), 0);
	check(n > 0);
	by_another_key_len = (size_t)n;
	tls->end(session);
	close(fds[0]);
	close(fds[1]);
}

/* One stranger; it stays. */
static int call(const struct place *at, unsigned kind, uint64_t *seed)
{
	struct tw_net_hello h = {.magic = TW_NET_MAGIC, .version = TW_NET_VERSION, .method = 1};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	char noise[4096];

	check(fd >= 0);
	connect(fd, (const struct sockaddr *)&at->at, sizeof(struct sockaddr_in));
	/* Where the listener's queue is full, nobody is there to talk to yet. */
	if (kind == 0 || poll(&p, 1, 10) != 1)
		return fd;
	twt_fill(noise, sizeof(noise), twt_random(seed));
	if (kind == 1)
		send(fd, noise, sizeof(noise), MSG_NOSIGNAL);
	else
		send(fd, &h, kind == 2 ? sizeof(h) / 2 : sizeof(h), MSG_NOSIGNAL);
	if (kind == 4)
		send(fd, noise, sizeof(struct tw_net_ctrl), MSG_NOSIGNAL);
	if (kind == 5)
		send(fd, by_another_key, by_another_key_len, MSG_NOSIGNAL);
	return fd;
}

static void flood(const struct place *at, unsigned strangers)
{
	static int fds[AT_ONCE];
	uint64_t seed = 1;

	for (unsigned i = 0; i < strangers + AT_ONCE; i++) {
		if (i >= AT_ONCE)
			close(fds[i % AT_ONCE]);
		if (i < strangers)
			fds[i % AT_ONCE] = call(at, i % KINDS, &seed);
	}
}

static struct state ask(const struct twt_child *c)
{
	struct state s;

	check(twt_put(c->fd, "", 1) == 0);
	check(twt_get(c->fd, &s, sizeof(s)) == 0);
	return s;
}

/* Its state once it has as few descriptors again. */
static struct state settled(const struct twt_child *c, unsigned fds)
{
	double end = twt_now() + TWT_LONG;
	struct state s = ask(c);

	while (s.fds > fds && twt_now() < end) {
		usleep(20000);
		s = ask(c);
	}
	return s;
}

int main(void)
{
	struct twt_child host, first, second;
	struct state before, after;
	struct place at;
	uint64_t sent;

	setvbuf(stdout, NULL, _IOLBF, 0);
	setenv("TAGWIRE_PROVIDERS", "self,tcp", 1);
	unsetenv("TAGWIRE_JOB");
	twt_spawn_here(&host, victim, NULL);
	twt_spawn_here(&first, friend, NULL);
	twt_spawn_here(&second, friend, NULL);
	record();
	check(twt_get(host.fd, &at, sizeof(at)) == 0);
	check(twt_put(first.fd, &at, sizeof(at)) == 0);
	check(twt_get(first.fd, &at, sizeof(at)) == 0);
	before = ask(&host);
	flood(&at, WARM_UP);
	before = settled(&host, before.fds);
	flood(&at, STRANGERS / twt_slow());
	after = settled(&host, before.fds);
	check(twt_put(first.fd, "", 1) == 0);
	check(twt_get(first.fd, &sent, sizeof(sent)) == 0);
	check(twt_join(&first, TWT_LONG) == 0);
	printf("%zu bytes and %u descriptors before, %zu and %u after; %llu messages\n",
	       before.bytes, before.fds, after.bytes, after.fds, (unsigned long long)sent);
	check(after.fds <= before.fds);
	check(after.bytes <= before.bytes + SLACK);
	check(after.messages > before.messages);
	check(ask(&host).messages == sent);
	/* Still open for friends. */
	check(twt_put(second.fd, &at, sizeof(at)) == 0);
	check(twt_put(second.fd, "", 1) == 0);
	check(twt_join(&second, TWT_LONG) == 0);
	shutdown(host.fd, SHUT_RDWR);
	return twt_join(&host, TWT_LONG);
}
