/* SPDX-License-Identifier: BSD-2-Clause */
/* The TCP network alone: strangers at its port, and a peer that says what it must not. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fds.h"
#include "base/settings.h"
#include "lib/twt.h"
#include "provider/lone.h"
#include "providers/net/session.h"
#include "providers/net/tcp/tcp.h"

#define SECONDS (10 * (int)twt_patience()) /* against a hang */

static const struct tw_driver *tcp;
static struct tw_driver_caps caps;
static void *instance, *path;
static struct tw_tcp_address victim, stranger;
/* The greater one calls. */
static const struct tw_driver_tokens tokens = {.mine = {1, 2, 3}, .other = {0xff, 4, 5}};
static unsigned packets, breaks, refuse;
static char refused_first; /* of packets that are refused */
static char last[TW_TCP_PACKET];
static uint32_t last_len;

static bool on_packet(void *owner, const void *path, const void *data, uint32_t len)
{
	(void)owner;
	(void)path;
	if (len && *(const char *)data == refused_first)
		return false;
	if (refuse) {
		refuse--;
		return false;
	}
	memcpy(last, data, len);
	last_len = len;
	packets++;
	return true;
}

static void on_ended(void *owner, void *cookie, enum tw_err err)
{
	(void)owner;
	*(enum tw_err *)cookie = err;
}

static void on_broken(void *owner, void *which)
{
	(void)owner;
	breaks += which == path;
}

static uint64_t (*called)(void *) = lone_called;

static void victim_opens(void)
{
	const struct tw_driver *list[TW_NET_DRIVERS];
	struct tw_driver_host host;
	struct tw_driver_address a;

	setenv("TAGWIRE_MODULES", TWT_MODULES, 0);
	cr_assert(tw_settings_load());
	cr_assert_eq(tw_driver_list("tcp", list), 1u);
	tcp = list[0];
	host = lone_host(tcp, NULL);
	host.packet = on_packet;
	host.ended = on_ended;
	host.broken = on_broken;
	host.called = called;
	cr_assert_eq(tcp->open(&host, &instance, &caps), TW_OK);
	cr_assert_eq(tcp->path_new(instance, NULL, &tokens, &a, &path), TW_OK);
	memcpy(&victim, a.bytes, sizeof(victim));
	stranger = victim;
}

static void bind_path(void)
{
	struct tw_driver_address a = {.len = sizeof(stranger)};

	memcpy(a.bytes, &stranger, sizeof(stranger));
	cr_assert_eq(tcp->path_bind(path, &a), TW_OK);
}

static int call(void)
{
	struct sockaddr_in sa;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(&sa, victim.to, sizeof(sa));
	cr_assert_eq(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	return fd;
}

static void hello(int fd)
{
	struct tw_tcp_hello h;

	memcpy(h.to, tokens.mine, sizeof(h.to));
	memcpy(h.from, tokens.other, sizeof(h.from));
	cr_assert_eq(twt_put(fd, &h, sizeof(h)), 0);
}

/* The victim, and a peer that it listens to. */
static int connected(void)
{
	int fd;

	victim_opens();
	bind_path();
	fd = call();
	hello(fd);
	return fd;
}

#define UNTIL(condition)                                                                           \
	do {                                                                                       \
		double end = twt_now() + SECONDS;                                                  \
		while (!(condition)) {                                                             \
			tcp->progress(instance);                                                   \
			cr_assert_lt(twt_now(), end, "never: %s", #condition);                     \
		}                                                                                  \
	} while (0)

static bool hung_up(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char c;

	return poll(&p, 1, 0) == 1 && recv(fd, &c, 1, MSG_DONTWAIT | MSG_PEEK) <= 0;
}

static void say(int fd, struct tw_tcp_head h, const void *data, size_t len)
{
	cr_assert_eq(twt_put(fd, &h, sizeof(h)), 0);
	cr_assert_eq(twt_put(fd, data, len), 0);
}

static void say_packet(int fd, const char *text)
{
	unsigned before = packets;
	uint32_t len = (uint32_t)strlen(text);

	say(fd, (struct tw_tcp_head){.len = len, .kind = TW_TCP_PACKET_IS}, text, len);
	UNTIL(packets > before);
	cr_assert_eq(last_len, len);
	cr_assert_eq(memcmp(last, text, len), 0);
}

static struct tw_tcp_head hear(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct tw_tcp_head h;

	UNTIL(poll(&p, 1, 0) == 1);
	cr_assert_eq(twt_get(fd, &h, sizeof(h)), 0);
	return h;
}

/* Strangers, more than are listened to; and one who came before he was expected. */
Test(tcp, strangers, .timeout = TWT_TIMEOUT)
{
	enum { N = 2 * TW_TCP_CALLERS };
	struct tw_tcp_hello nonsense;
	int fds[N], fd;

	victim_opens();
	memset(&nonsense, 0x55, sizeof(nonsense));
	for (unsigned i = 0; i < N; i++) {
		fds[i] = call();
		if (i % 3 == 1)
			cr_assert_eq(twt_put(fds[i], &nonsense, sizeof(nonsense)), 0);
		if (i % 3 == 2)
			cr_assert_eq(twt_put(fds[i], &nonsense, 5), 0);
		tcp->progress(instance);
	}
	for (unsigned i = 1; i < N; i += 3)
		UNTIL(hung_up(fds[i]));
	UNTIL(hung_up(fds[0]));
	fd = call();
	hello(fd);
	say(fd, (struct tw_tcp_head){.len = 5, .kind = TW_TCP_PACKET_IS}, "first", 5);
	for (int i = 0; i < 100; i++)
		tcp->progress(instance);
	bind_path();
	UNTIL(packets == 1);
	say_packet(fd, "second");
	cr_assert_eq(breaks, 0u);
	/* The same path once more is another stranger's. */
	fds[0] = call();
	hello(fds[0]);
	UNTIL(hung_up(fds[0]));
	say_packet(fd, "third");
	tcp->close(instance);
}

static uint64_t on_called(void *owner)
{
	static uint64_t until;

	(void)owner;
	return until += 1000;
}

/* Who has not said the tokens by then is hung up on, in turn. */
Test(tcp, late_callers, .timeout = TWT_TIMEOUT)
{
	const struct tw_tcp *t;
	int fds[3];

	called = on_called;
	victim_opens();
	t = instance;
	bind_path();
	for (unsigned i = 0; i < 3; i++) {
		fds[i] = call();
		UNTIL(t->ncallers == i + 1);
	}
	cr_assert_eq(tcp->expire(instance, 999), 1000u);
	cr_assert_not(hung_up(fds[0]));
	cr_assert_eq(tcp->expire(instance, 2000), 3000u);
	UNTIL(hung_up(fds[0]) && hung_up(fds[1]));
	cr_assert_not(hung_up(fds[2]));
	hello(fds[2]);
	say_packet(fds[2], "in time");
	cr_assert_eq(tcp->expire(instance, 9000), 0u);
	say_packet(fds[2], "and stays");
	tcp->close(instance);
}

/* Without a descriptor for who calls nothing turns round, and he is heard of later. */
Test(tcp, out_of_descriptors, .timeout = TWT_TIMEOUT)
{
	struct pollfd poller = {.events = POLLIN};
	struct rlimit limit, none;
	struct tw_driver_address a;
	void *other;
	int fd;

	victim_opens();
	bind_path();
	poller.fd = caps.fd;
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	fd = call();
	hello(fd);
	say(fd, (struct tw_tcp_head){.len = 5, .kind = TW_TCP_PACKET_IS}, "first", 5);
	none = (struct rlimit){.rlim_cur = 0, .rlim_max = limit.rlim_max};
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	for (int i = 0; i < 100; i++)
		tcp->progress(instance);
	cr_assert_eq(packets, 0u);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	cr_assert_not(tcp->arm(instance));
	cr_assert_eq(poll(&poller, 1, 0), 0, "who sleeps would be woken all the time");
	cr_assert_eq(tcp->path_new(instance, NULL, &tokens, &a, &other), TW_OK);
	UNTIL(packets == 1);
	cr_assert_eq(breaks, 0u);
	tcp->close(instance);
}

/* One byte of either token is wrong. */
Test(tcp, impostor, .timeout = TWT_TIMEOUT)
{
	for (size_t i = 0; i < sizeof(struct tw_tcp_hello); i += 5) {
		struct tw_tcp_hello h;
		int fd;

		victim_opens();
		bind_path();
		memcpy(h.to, tokens.mine, sizeof(h.to));
		memcpy(h.from, tokens.other, sizeof(h.from));
		((uint8_t *)&h)[i] ^= 1;
		fd = call();
		cr_assert_eq(twt_put(fd, &h, sizeof(h)), 0);
		UNTIL(hung_up(fd));
		cr_assert_eq(breaks, 0u);
		close(fd);
		tcp->close(instance);
	}
}

static void malformed(struct tw_tcp_head h)
{
	static char rest[1000];
	int fd;

	packets = breaks = 0;
	fd = connected();
	say_packet(fd, "before");
	say(fd, h, rest, sizeof(rest));
	UNTIL(breaks == 1);
	cr_assert_eq(packets, 1u);
	UNTIL(hung_up(fd));
	close(fd);
	tcp->close(instance);
}

Test(tcp, malformed, .timeout = TWT_TIMEOUT)
{
	malformed((struct tw_tcp_head){.len = 1, .kind = 0});
	malformed((struct tw_tcp_head){.len = TW_TCP_PACKET + 1, .kind = TW_TCP_PACKET_IS});
	malformed((struct tw_tcp_head){.len = UINT32_MAX, .kind = TW_TCP_PACKET_IS});
	malformed((struct tw_tcp_head){.len = 0, .kind = TW_TCP_WRITE});
	malformed((struct tw_tcp_head){.len = 0, .kind = TW_TCP_DATA});
}

/* Memory is there for its key, within its bounds, and while it is registered. */
Test(tcp, memory, .timeout = TWT_TIMEOUT)
{
	static char memory[3 * 4096], in[4096];
	struct tw_driver_mr mr;
	struct tw_tcp_head h = {.len = 100}, answer;
	int fd = connected();

	twt_fill(memory, sizeof(memory), 1);
	cr_assert_eq(tcp->mem_reg(instance, memory + 4096, 4096, TW_MEM_BOTH, &mr), TW_OK);
	cr_assert_eq(mr.key_len, sizeof(h.key));
	memcpy(&h.key, mr.key, sizeof(h.key));
	for (int i = 0; i < 6; i++) {
		struct tw_tcp_head bad = h;

		bad.id = (uint64_t)i;
		bad.kind = i & 1 ? TW_TCP_READ : TW_TCP_WRITE_LAST;
		bad.address = mr.base + (i < 2 ? 0 : i < 4 ? 4096 - 99 : UINT64_MAX - 50);
		bad.key += i < 2;
		bad.total = 100;
		say(fd, bad, in, i & 1 ? 0 : 100);
		answer = hear(fd);
		cr_assert_eq(answer.kind, TW_TCP_ENDED);
		cr_assert_eq(answer.id, bad.id);
		cr_assert_eq(answer.address, TW_EPERM);
	}
	/* Of a transfer that nobody asked for. */
	h.kind = TW_TCP_DATA;
	say(fd, h, in, 100);
	say_packet(fd, "still there");
	cr_assert_eq(twt_check(memory, sizeof(memory), 1), sizeof(memory));
	h.kind = TW_TCP_READ;
	h.address = mr.base + 7;
	h.total = 1000;
	say(fd, h, NULL, 0);
	answer = hear(fd);
	cr_assert_eq(answer.kind, TW_TCP_DATA);
	cr_assert_eq(answer.len, 1000u);
	cr_assert_eq(twt_get(fd, in, 1000), 0);
	cr_assert_eq(memcmp(in, memory + 4096 + 7, 1000), 0);
	tcp->mem_dereg(instance, &mr);
	say(fd, h, NULL, 0);
	answer = hear(fd);
	cr_assert_eq(answer.kind, TW_TCP_ENDED);
	cr_assert_eq(answer.address, TW_EPERM);
	tcp->close(instance);
}

/* And for what its key allows. */
Test(tcp, memory_rights, .timeout = TWT_TIMEOUT)
{
	static char memory[4096], in[100];
	struct tw_tcp_head h = {.len = 100, .total = 100}, answer;
	struct tw_driver_mr mr;
	int fd = connected();

	twt_fill(memory, sizeof(memory), 1);
	for (unsigned rights = 0; rights <= TW_MEM_BOTH; rights++) {
		cr_assert_eq(tcp->mem_reg(instance, memory, sizeof(memory), rights, &mr), TW_OK);
		memcpy(&h.key, mr.key, sizeof(h.key));
		h.address = mr.base;
		h.kind = TW_TCP_READ;
		say(fd, h, NULL, 0);
		answer = hear(fd);
		cr_assert_eq(answer.kind, rights & TW_MEM_READ ? TW_TCP_DATA : TW_TCP_ENDED);
		if (answer.kind == TW_TCP_DATA)
			cr_assert_eq(twt_get(fd, in, 100), 0);
		else
			cr_assert_eq(answer.address, TW_EPERM);
		memset(in, 7, sizeof(in));
		h.kind = TW_TCP_WRITE_LAST;
		say(fd, h, in, 100);
		answer = hear(fd);
		cr_assert_eq(answer.kind, TW_TCP_ENDED);
		cr_assert_eq(answer.address, rights & TW_MEM_WRITE ? TW_OK : TW_EPERM);
		cr_assert_eq(twt_check(memory, sizeof(memory), 1) == sizeof(memory),
			     !(rights & TW_MEM_WRITE));
		twt_fill(memory, sizeof(memory), 1);
		tcp->mem_dereg(instance, &mr);
	}
	tcp->close(instance);
}

/* From the victim, which makes progress meanwhile. */
static void take(int fd, void *to, size_t len)
{
	char *at = to;
	ssize_t got;

	for (size_t left = len; left; left -= (size_t)got, at += got) {
		while ((got = recv(fd, at, left, MSG_DONTWAIT)) <= 0)
			tcp->progress(instance);
	}
}

static unsigned send_until_full(struct tw_net_packet **sent, unsigned max)
{
	unsigned n = 0;

	for (; n < max; n++) {
		sent[n] = lone_packet(NULL, true);
		sent[n]->len = TW_TCP_PACKET;
		memset(sent[n]->data, (int)n, sent[n]->len);
		if (tcp->send(path, sent[n], n & 1) == TW_AGAIN)
			break;
	}
	cr_assert_lt(n, max, "never full");
	tw_net_packet_put(sent[n]);
	return n;
}

/* What the system does not take waits in the packet's own memory, until the path ends. */
Test(tcp, no_copies, .timeout = TWT_TIMEOUT)
{
	enum { MOST = 4096 };
	static struct tw_net_packet *sent[MOST];
	struct tw_tcp_head h;
	int fd = connected();
	unsigned n;

	say_packet(fd, "connected");
	n = send_until_full(sent, MOST);
	cr_assert_eq(sent[n - 1]->users, 2u);
	memset(sent[n - 1]->data, 0xaa, TW_TCP_PACKET);
	for (unsigned i = 0; i < n; i++) {
		take(fd, &h, sizeof(h));
		take(fd, last, sizeof(last));
		cr_assert_eq(h.kind, TW_TCP_PACKET_IS);
		cr_assert_eq((uint8_t)last[TW_TCP_PACKET - 1], i == n - 1 ? 0xaa : (uint8_t)i);
	}
	for (unsigned i = 0; i < n; i++) {
		cr_assert_eq(sent[i]->users, 1u);
		tw_net_packet_put(sent[i]);
	}
	n = send_until_full(sent, MOST);
	cr_assert_eq(sent[n - 1]->users, 2u);
	tcp->path_free(path);
	for (unsigned i = 0; i < n; i++)
		cr_assert_eq(sent[i]->users, 1u);
	tcp->close(instance);
}

/* Who asks for more and more and takes nothing does not fill our memory. */
Test(tcp, greedy, .timeout = TWT_TIMEOUT)
{
	static char memory[1 << 20];
	struct tw_tcp_head h = {.kind = TW_TCP_READ, .total = sizeof(memory)};
	struct tw_driver_mr mr;
	int fd = connected();

	cr_assert_eq(tcp->mem_reg(instance, memory, sizeof(memory), TW_MEM_BOTH, &mr), TW_OK);
	memcpy(&h.key, mr.key, sizeof(h.key));
	h.address = mr.base;
	for (unsigned i = 0; i < 2 * TW_TCP_SERVED && !breaks; i++) {
		if (send(fd, &h, sizeof(h), MSG_NOSIGNAL) != sizeof(h))
			break;
		tcp->progress(instance);
		cr_assert_leq(((struct tw_tcp_path *)path)->serving, TW_TCP_SERVED);
	}
	UNTIL(breaks == 1);
	cr_assert_eq(((struct tw_tcp_path *)path)->serving, 0u);
	tcp->close(instance);
}

/* Memory that is taken back in the middle of a transfer is not used after that. */
Test(tcp, memory_taken_back, .timeout = TWT_TIMEOUT)
{
	static char memory[4096], in[4096];
	struct tw_driver_mr mr;
	struct tw_tcp_head h = {.len = 4000, .kind = TW_TCP_WRITE_LAST, .id = 9}, answer;
	int fd = connected();

	cr_assert_eq(tcp->mem_reg(instance, memory, sizeof(memory), TW_MEM_BOTH, &mr), TW_OK);
	memcpy(&h.key, mr.key, sizeof(h.key));
	h.address = mr.base;
	memset(in, 1, sizeof(in));
	say(fd, h, in, 1000);
	UNTIL(memory[999] == 1);
	tcp->mem_dereg(instance, &mr);
	answer = hear(fd);
	cr_assert_eq(answer.kind, TW_TCP_ENDED);
	cr_assert_eq(answer.address, TW_EPERM);
	cr_assert_eq(twt_put(fd, in, 3000), 0);
	say_packet(fd, "after it");
	cr_assert_eq(memory[1000], 0);
	tcp->close(instance);
}

/* Who is asleep is looked after only when its descriptor says so: one look for each time. */
static void asleep_until(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	for (double end = twt_now() + SECONDS; poll(&p, 1, 0) == 0;) {
		struct pollfd own = {.fd = caps.fd, .events = POLLIN};

		cr_assert_lt(twt_now(), end, "it sleeps for ever");
		if (poll(&own, 1, 10) == 1)
			tcp->progress(instance);
	}
}

Test(tcp, answered_in_one_look, .timeout = TWT_TIMEOUT)
{
	static char memory[4096];
	struct tw_driver_mr mr;
	struct tw_tcp_head h = {.len = 100, .kind = TW_TCP_WRITE_LAST}, answer;
	int fd = connected();

	cr_assert_eq(tcp->mem_reg(instance, memory, sizeof(memory), TW_MEM_BOTH, &mr), TW_OK);
	memcpy(&h.key, mr.key, sizeof(h.key));
	h.address = mr.base;
	say_packet(fd, "awake");
	cr_assert_not(tcp->arm(instance));
	for (h.id = 1; h.id < 20; h.id++) {
		say(fd, h, memory, 100);
		asleep_until(fd);
		cr_assert_eq(twt_get(fd, &answer, sizeof(answer)), 0);
		cr_assert_eq(answer.kind, TW_TCP_ENDED);
		cr_assert_eq(answer.id, h.id);
		cr_assert_eq(answer.address, TW_OK);
	}
	tcp->close(instance);
}

/* More than fits on the way, asked for after it went to sleep. */
Test(tcp, told_of_room, .timeout = TWT_TIMEOUT)
{
	static char memory[8 * TW_TCP_CHUNK];
	static struct {
		struct tw_tcp_head head;
		char data[TW_TCP_CHUNK];
	} in[8];
	struct tw_driver_mr mr;
	struct tw_tcp_head h = {.kind = TW_TCP_READ, .total = sizeof(memory)};
	int fd = connected();

	twt_fill(memory, sizeof(memory), 3);
	cr_assert_eq(tcp->mem_reg(instance, memory, sizeof(memory), TW_MEM_BOTH, &mr), TW_OK);
	memcpy(&h.key, mr.key, sizeof(h.key));
	h.address = mr.base;
	say_packet(fd, "awake");
	cr_assert_not(tcp->arm(instance));
	say(fd, h, NULL, 0);
	for (size_t have = 0; have < sizeof(in);) {
		ssize_t got;

		asleep_until(fd);
		got = recv(fd, (char *)in + have, sizeof(in) - have, MSG_DONTWAIT);
		cr_assert_gt(got, 0);
		have += (size_t)got;
	}
	for (unsigned i = 0; i < tw_countof(in); i++) {
		cr_assert_eq(in[i].head.kind, TW_TCP_DATA);
		cr_assert_eq(in[i].head.len, TW_TCP_CHUNK);
		cr_assert_eq(memcmp(in[i].data, memory + i * TW_TCP_CHUNK, TW_TCP_CHUNK), 0);
	}
	tcp->close(instance);
}

/* What the engine cannot take now comes again, and the end of the path after it. */
Test(tcp, refused_and_gone, .timeout = TWT_TIMEOUT)
{
	int fd = connected();

	refuse = 3;
	say(fd, (struct tw_tcp_head){.len = 4, .kind = TW_TCP_PACKET_IS}, "late", 4);
	close(fd);
	for (int i = 0; i < 1000 && refuse; i++) {
		tcp->progress(instance);
		usleep(1000);
		cr_assert_eq(breaks, 0u);
	}
	UNTIL(breaks == 1);
	cr_assert_eq(packets, 1u);
	tcp->close(instance);
}

/* What cannot be taken of one path holds back that one alone. */
Test(tcp, others_go_on, .timeout = TWT_TIMEOUT)
{
	static const struct tw_driver_tokens more = {.mine = {7, 2, 3}, .other = {0xff, 4, 6}};
	struct tw_driver_address a = {.len = sizeof(stranger)};
	int fd = connected(), other;
	struct tw_tcp_hello h;
	void *second;

	say_packet(fd, "first");
	cr_assert_eq(tcp->path_new(instance, NULL, &more, &a, &second), TW_OK);
	cr_assert_eq(tcp->path_bind(second, &a), TW_OK);
	memcpy(h.to, more.mine, sizeof(h.to));
	memcpy(h.from, more.other, sizeof(h.from));
	other = call();
	cr_assert_eq(twt_put(other, &h, sizeof(h)), 0);
	say_packet(other, "second");
	refused_first = 'l';
	say(fd, (struct tw_tcp_head){.len = 4, .kind = TW_TCP_PACKET_IS}, "late", 4);
	for (int i = 0; i < 1000; i++)
		tcp->progress(instance);
	say_packet(other, "goes on");
	cr_assert(tcp->arm(instance), "it is offered again at once");
	refused_first = 0;
	UNTIL(packets == 4);
	cr_assert_eq(memcmp(last, "late", 4), 0);
	say_packet(fd, "in order");
	tcp->close(instance);
}

static int in_child(void *arg, int unused)
{
	const struct tw_tcp *t = instance;
	const int *fds = arg;

	(void)unused;
	tw_fds_forked();
	for (int i = 0; i < 4; i++)
		if (fcntl(fds[i], F_GETFD) != -1)
			return 1 + i;
	return t->ncallers == 1 ? 0 : 5;
}

/* A forked child keeps none of the descriptors, the parent all. */
Test(tcp, forked, .timeout = TWT_TIMEOUT)
{
	const struct tw_tcp *t;
	struct twt_child child;
	int fd, fds[4];

	fd = connected();
	t = instance;
	say_packet(fd, "before");
	call();
	UNTIL(t->ncallers == 1);
	fds[0] = t->epfd;
	fds[1] = t->boards[0].listener;
	fds[2] = ((struct tw_tcp_path *)path)->fd;
	fds[3] = tw_list_first(&t->callers, struct tw_tcp_caller, node)->fd;
	twt_spawn(&child, in_child, fds);
	cr_assert_eq(twt_join(&child, TWT_LONG), 0);
	say_packet(fd, "after");
	tcp->close(instance);
}

/* Memory of what is gone is not used, though another process has a copy of its descriptor. */
Test(tcp, copied, .timeout = TWT_TIMEOUT)
{
	int fd, copy;

	fd = connected();
	say_packet(fd, "before");
	copy = dup(((struct tw_tcp_path *)path)->fd);
	tcp->path_free(path);
	tcp->progress(instance);
	cr_assert_eq(twt_put(fd, "more", 4), 0);
	for (int i = 0; i < 100; i++)
		tcp->progress(instance);
	cr_assert_eq(packets, 1u);
	cr_assert_not(tcp->arm(instance), "nothing is watched that is gone");
	close(copy);
	tcp->close(instance);
}
