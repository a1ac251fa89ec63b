/* SPDX-License-Identifier: BSD-2-Clause */
/* A listener that has more callers than it has room for, and those callers. */
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/inet.h"
#include "provider/pair.h"
#include "providers/net/session.h"
#include "providers/net/tcp/tcp.h"

#define TURNED_AWAY 9 /* times: once more than a port may hang up without a word */

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

static const struct traits lossy_net = {"lossy", OTHERS | BREAKS | QUIET};

static struct sockaddr_storage address_of_b(struct pair *p)
{
	const struct tw_net_ep *b = p->b->instance;
	struct sockaddr_storage sa;

	cr_assert_eq(b->host->up->locate(FAKE_BOARD, &sa), TW_OK);
	tw_inet_set_port(&sa, b->port);
	return sa;
}

static int call(const struct sockaddr_storage *to)
{
	int fd = socket(to->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_eq(connect(fd, (const struct sockaddr *)to, tw_inet_len(to)), 0);
	return fd;
}

static int listen_at(const struct sockaddr_storage *at)
{
	int fd = socket(at->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	cr_assert_eq(bind(fd, (const struct sockaddr *)at, tw_inet_len(at)), 0);
	cr_assert_eq(listen(fd, 1), 0);
	return fd;
}

static bool readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

Test(listen, says_that_it_is_full, .timeout = TWT_TIMEOUT)
{
	struct pair *p = pair_open(&lossy_net);
	struct sockaddr_storage at = address_of_b(p);
	int fds[TW_NET_HALF_OPEN_MAX + 1];
	struct tw_net_hello h;

	for (unsigned i = 0; i < tw_countof(fds); i++)
		fds[i] = call(&at);
	UNTIL(p, readable(fds[0]));
	cr_assert_eq(twt_get(fds[0], &h, sizeof(h)), 0);
	cr_assert_eq(h.magic, TW_NET_MAGIC);
	cr_assert_eq(h.method, TW_NET_FULL);
	cr_assert_eq(twt_get(fds[0], &h, 1), -1, "it hangs up");
	for (unsigned i = 1; i < tw_countof(fds); i++)
		cr_assert_not(readable(fds[i]), "there is room for %u", i);
	for (unsigned i = 0; i < tw_countof(fds); i++)
		close(fds[i]);
	pair_connect(p, &p->ab, &p->ba);
	pair_close(p);
}

/* Hangs up on callers for lack of room. */
static void turn_away(struct pair *p, struct fake_peer *peer, const struct tw_net_hello *h, int at)
{
	int fd;

	for (int i = 0; i < TURNED_AWAY; i++) {
		while ((fd = accept(at, NULL, NULL)) < 0) {
			fake_pump(&p->a);
			cr_assert_eq(peer->state, FAKE_NEW, "after %d: %d", i, peer->why);
		}
		cr_assert_eq(twt_put(fd, h, sizeof(*h)), 0);
		close(fd);
	}
}

Test(listen, caller_comes_again, .timeout = TWT_TIMEOUT)
{
	static const struct tw_net_hello full = {
		.magic = TW_NET_MAGIC, .version = TW_NET_VERSION, .method = TW_NET_FULL};
	struct pair *p = pair_open(&lossy_net);
	struct sockaddr_storage at;
	struct fake_peer *peer;
	int fd;

	tw_settings.connect_timeout = 1000u * (unsigned)PAIR_SECONDS;
	at = address_of_b(p);
	fake_close(p->b);
	fd = listen_at(&at);
	peer = fake_connect(&p->a, FAKE_BOARD, 2, 0x2002);
	turn_away(p, peer, &full, fd);
	close(fd);
	cr_assert_eq(fake_open(p->b, p->ops, 2), TW_OK);
	UNTIL(p, peer->state != FAKE_NEW);
	cr_assert_eq(peer->state, FAKE_UP, "%d", peer->why);
	pair_close(p);
}

/* Takes the next of b's ports, as somebody who came first. */
static int take_port(struct pair *p)
{
	struct sockaddr_storage at = address_of_b(p);
	int fd;

	fake_close(p->b);
	fd = listen_at(&at);
	cr_assert_eq(fake_open(p->b, p->ops, 2), TW_OK);
	return fd;
}

/* Nobody answers at the first ports, or says no more than a first word. */
Test(listen, silent_at_the_first_ports, .timeout = TWT_TIMEOUT)
{
	static const struct tw_net_hello one_word = {
		.magic = TW_NET_MAGIC, .version = TW_NET_VERSION, .method = TW_NET_BY_KEY};
	struct pair *p = pair_open(&lossy_net);
	int silent = take_port(p), taciturn = take_port(p), fd = -1;
	struct fake_peer *peer = fake_connect(&p->a, FAKE_BOARD, 2, 0x2002);

	UNTIL(p, (fd = accept(taciturn, NULL, NULL)) >= 0);
	cr_assert_eq(twt_put(fd, &one_word, sizeof(one_word)), 0);
	UNTIL(p, peer->state != FAKE_NEW);
	cr_assert_eq(peer->state, FAKE_UP, "%d", peer->why);
	close(fd);
	close(silent);
	close(taciturn);
	pair_close(p);
}

/* One that answers late has kept its caller, though other ports were tried meanwhile. */
Test(listen, answers_late, .timeout = TWT_TIMEOUT)
{
	struct pair *p = pair_open(&lossy_net);
	struct fake_peer *peer;
	double end;

	tw_settings.connect_timeout = 1000u * (unsigned)PAIR_SECONDS;
	peer = fake_connect(&p->a, FAKE_BOARD, 2, 0x2002);
	for (end = twt_now() + 1; twt_now() < end; usleep(1000))
		fake_pump(&p->a);
	cr_assert_eq(peer->state, FAKE_NEW, "%d", peer->why);
	UNTIL(p, peer->state != FAKE_NEW);
	cr_assert_eq(peer->state, FAKE_UP, "%d", peer->why);
	cr_assert_eq(((struct tw_net_ep *)p->b->instance)->serial, 1u, "it was called again");
	pair_check(p);
	pair_close(p);
}

/* Callers at the data port that prove nothing have as much time as those at the other one. */
Test(listen, silent_at_the_data_port, .timeout = TWT_TIMEOUT)
{
	static const struct traits tcp = {"tcp", OTHERS | BREAKS};
	const struct tw_net_ep *b;
	const struct tw_tcp *t;
	struct pair *p;
	char byte;
	int fds[3];

	setenv("TAGWIRE_CONNECT_TIMEOUT", "500", 1);
	p = pair_connected(&tcp);
	b = p->b->instance;
	t = b->adapters[0].instance;
	for (unsigned i = 0; i < tw_countof(fds); i++)
		fds[i] = call(&t->boards[0].addr);
	UNTIL(p, t->ncallers == tw_countof(fds));
	for (unsigned i = 0; i < tw_countof(fds); i++) {
		UNTIL(p, readable(fds[i]));
		cr_assert_leq(recv(fds[i], &byte, 1, 0), 0, "it hangs up");
		close(fds[i]);
	}
	pair_check(p);
	pair_close(p);
}

/* A child that has a copy of a socket keeps its events coming. */
Test(listen, copied, .timeout = TWT_TIMEOUT)
{
	struct pair *p = pair_open(&lossy_net);
	struct tw_net_ep *b = p->b->instance;
	struct sockaddr_storage at = address_of_b(p);
	struct epoll_event ev[16];
	const struct tw_watch *was = NULL;
	int fd = call(&at), copy = -1;

	cr_assert_eq(twt_put(fd, "r", 1), 0);
	UNTIL(p, b->nhalf == 1);
	tw_list_walk(&b->links, struct tw_net_link, l, node) {
		copy = dup(l->sock);
		was = &l->watch;
	}
	close(fd);
	UNTIL(p, b->nhalf == 0);
	for (int n = epoll_wait(p->b->host.epfd, ev, tw_countof(ev), 0); n > 0; n--)
		cr_assert(ev[n - 1].data.ptr != was, "an event of a link that has ended");
	close(copy);
	pair_close(p);
}

struct answer {
	uint32_t magic;
	uint16_t version, type;
	uint64_t nic_id;
	uint32_t endpoint_id, unused;
	uint8_t address[16];
} TW_WIRE;

/* Whoever hears a search may say what it likes: only the NIC that is sought is called. */
Test(listen, answers_nobody_asked_for, .timeout = TWT_TIMEOUT)
{
	struct pair *p = pair_open(&lossy_net);
	struct tw_net_ep *a = p->a.instance;
	struct tw_net_link *l = tw_net_link_new(a, TW_NET_NEW);
	struct answer s = {.magic = TW_NET_MAGIC, .version = TW_NET_VERSION, .type = TW_NET_BOARDS};
	struct fake_peer peer = {.f = &p->a};
	struct sockaddr_in6 to;
	socklen_t len = sizeof(to);
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	cr_assert(l != NULL);
	l->link.peer = &peer;
	l->other = (struct tw_ident){.nic_id = FAKE_OTHER, .endpoint_id = 9};
	if (fd < 0 || tw_net_search(l) != TW_OK)
		cr_skip_test("no IPv6");
	cr_assert_eq(getsockname(a->found.fd, (struct sockaddr *)&to, &len), 0);
	to.sin6_addr = in6addr_loopback;
	s.address[15] = 1;
	for (unsigned i = 0; i < 32; i++) {
		s.nic_id = FAKE_OTHER + 1 + i;
		if (sendto(fd, &s, sizeof(s), 0, (struct sockaddr *)&to, len) != sizeof(s))
			cr_skip_test("no IPv6 on the loopback");
	}
	cr_assert(readable(a->found.fd));
	UNTIL(p, !readable(a->found.fd));
	cr_assert_eq(l->channel, TW_NET_SEARCHING);
	s.nic_id = FAKE_OTHER;
	cr_assert_eq(sendto(fd, &s, sizeof(s), 0, (struct sockaddr *)&to, len), sizeof(s));
	UNTIL(p, l->state == TW_NET_DEAD || l->channel != TW_NET_SEARCHING);
	/* Called, not given up. */
	cr_assert_neq(peer.why, TW_EUNREACH);
	cr_assert_eq(fake_kept, 0, "nobody has proved itself");
	close(fd);
	pair_close(p);
}

/* Strangers that came later are dropped first. */
Test(listen, keeps_a_caller_with_the_key, .timeout = TWT_TIMEOUT)
{
	struct pair *p = pair_open(&lossy_net);
	struct sockaddr_storage at = address_of_b(p);
	struct tw_net_link l = {.state = TW_NET_NEW, .sock = call(&at)};
	int fds[2 * TW_NET_HALF_OPEN_MAX];
	struct tw_net_hello h;
	bool dropped = false;

	cr_assert_eq(tw_net_hello_send(&l), TW_OK);
	UNTIL(p, readable(l.sock));
	for (unsigned i = 0; i < tw_countof(fds); i++) {
		fds[i] = call(&at);
		cr_assert_eq(twt_put(fds[i], "r", 1), 0); /* else the system keeps it for a while */
	}
	UNTIL(p, readable(fds[TW_NET_HALF_OPEN_MAX - 1]));
	cr_assert_eq(twt_get(l.sock, &h, sizeof(h)), 0);
	cr_assert_eq(tw_net_hello_take(&l, &h), TW_OK);
	while (l.proof.tls && tw_net_shake(&l) == TW_AGAIN)
		pair_pump(p);
	l.channel = TW_NET_OPEN;
	for (int i = 0; i < 100; i++)
		pair_pump(p);
	dropped = tw_net_recv(&l, &h, 1) == 0;
	cr_assert_not(dropped);
	tw_net_proof_end(&l);
	close(l.sock);
	for (unsigned i = 0; i < tw_countof(fds); i++)
		close(fds[i]);
	pair_close(p);
}

/* It would cost each poll of the program a look at the drivers. */
Test(listen, does_not_poll_for_strangers, .timeout = TWT_TIMEOUT)
{
	struct pair *p = pair_open(&lossy_net);
	const struct tw_net_ep *b = p->b->instance;
	struct sockaddr_storage at = address_of_b(p);
	int stranger = call(&at);

	UNTIL(p, b->nhalf == 1);
	fake_pump(p->b);
	cr_assert_not(b->polled);
	pair_connect(p, &p->ab, &p->ba);
	cr_assert(b->polled);
	close(stranger);
	pair_close(p);
}

static bool driver_open(struct pair *p)
{
	const struct tw_net_ep *b = p->b->instance;

	return b->nadapters && b->adapters[0].instance;
}

/* While the caller says what it wants. */
Test(listen, opens_a_driver_for_a_key, .timeout = TWT_TIMEOUT)
{
	static const struct tw_net_hello strange = {
		.magic = TW_NET_MAGIC, .version = TW_NET_VERSION, .method = TW_NET_BY_KEY};
	struct pair *p = pair_open(&lossy_net);
	struct sockaddr_storage at = address_of_b(p);
	struct tw_net_link l = {.state = TW_NET_NEW, .sock = call(&at)};
	int stranger = call(&at);

	cr_assert_eq(twt_put(stranger, &strange, sizeof(strange)), 0);
	UNTIL(p, readable(stranger));
	cr_assert_not(driver_open(p));
	cr_assert_eq(tw_net_hello_send(&l), TW_OK);
	UNTIL(p, readable(l.sock));
	UNTIL(p, driver_open(p) == (tw_net_auth()->tls != NULL));
	tw_net_proof_end(&l);
	close(stranger);
	close(l.sock);
	pair_close(p);
}

#if TW_HAVE_TCP
/* Two new descriptors may be opened; returns what the limit was. */
static struct rlimit two_descriptors(void)
{
	int first = dup(STDIN_FILENO), second = dup(STDIN_FILENO);
	struct rlimit old, few;

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	cr_assert_lt(first, second);
	close(first);
	close(second);
	few = (struct rlimit){.rlim_cur = (rlim_t)second + 1, .rlim_max = old.rlim_max};
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	return old;
}

/* Its socket does not fill, and takes what is said once it reads again. */
Test(listen, peer_that_does_not_read, .timeout = TWT_TIMEOUT)
{
	static const struct traits tcp = {"tcp", OTHERS | BREAKS | PROMPT | KEEPS | QUIET};
	struct pair *p = pair_connected(&tcp);
	const struct tw_net_link *l = tw_container(p->ba->link, struct tw_net_link, link);
	int waiting = 0;

	cr_assert_eq(fake_send(p->ab, TW_SEND_PLAIN, 100), TW_OK);
	for (unsigned i = 1; i <= 20; i++)
		p->a.ops->expire(p->a.instance, tw_clock() + tw_clock_us(600000ull * i));
	cr_assert_eq(ioctl(l->sock, FIONREAD, &waiting), 0);
	cr_assert_geq(waiting, (int)sizeof(struct tw_net_ctrl), "it was not asked");
	cr_assert_lt(waiting, 2 * (int)sizeof(struct tw_net_ctrl), "%d bytes wait", waiting);
	UNTIL(p, p->ba->got == 1);
	cr_assert_eq(p->ab->state, FAKE_UP);
	pair_close(p);
}

/* They are those of the control channel: none is left for a path, and nobody waits for one. */
Test(listen, no_descriptor_for_a_path, .timeout = TWT_TIMEOUT)
{
	static const struct traits tcp = {"tcp", OTHERS | BREAKS | PROMPT | KEEPS | QUIET};
	struct pair *p = pair_connected(&tcp);
	struct fake_peer *peer;
	struct rlimit old;

	for (int i = 0; i < 10; i++) { /* either side connects the path */
		old = two_descriptors();
		peer = fake_connect(&p->a, FAKE_BOARD, 2, 0x2002);
		UNTIL(p, peer->state != FAKE_NEW);
		cr_assert_eq(peer->state, FAKE_REFUSED);
		cr_assert_eq(peer->why, TW_ENOMEM, "%d", peer->why);
		cr_assert_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
		for (unsigned k = 1; k < p->b->npeers; k++)
			UNTIL(p, p->b->peers[k].state == FAKE_DOWN);
	}
	cr_assert_eq(fake_send(p->ab, TW_SEND_PLAIN, 100), TW_OK);
	UNTIL(p, p->ba->got == 1);
	pair_connect(p, &p->ab, &p->ba);
	pair_close(p);
}
#endif
