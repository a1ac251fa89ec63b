/* SPDX-License-Identifier: BSD-2-Clause */
/* A peer of the TCP network that says anything, and hears only what it may. */
#include <endian.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/inet.h"
#include "fuzz/fuzz_tcp.h"

#define WIRE 65536

static struct {
	bool adrift; /* some body that it said is made of heads: any bytes */
	int fd, listener;
	uint8_t wire[WIRE]; /* what it is about to say */
	size_t left;
	/* What it is told: the rest of the hello, a head or a body. */
	struct tw_tcp_head head;
	size_t hello_left, head_got, body_left;
} peer;

static void set_up(void)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	peer.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	setsockopt(peer.listener, SOL_SOCKET, SO_RCVBUF, &(int){4096}, sizeof(int));
	FUZZ_MUST(bind(peer.listener, (struct sockaddr *)&sa, sizeof(sa)) == 0);
	FUZZ_MUST(listen(peer.listener, 16) == 0);
}

void peer_begin(void)
{
	if (!peer.listener)
		set_up();
	peer.adrift = false;
	peer.fd = -1;
	peer.left = peer.hello_left = peer.head_got = peer.body_left = 0;
}

bool peer_is_there(void)
{
	return peer.fd >= 0;
}

static void say(const void *bytes, size_t len)
{
	peer.adrift |= len > sizeof(peer.wire) - peer.left;
	len = tw_min(len, sizeof(peer.wire) - peer.left);
	memcpy(peer.wire + peer.left, bytes, len);
	peer.left += len;
}

void peer_deliver(size_t most)
{
	ssize_t done = 0;

	if (peer.fd >= 0)
		done = send(peer.fd, peer.wire, tw_min(most, peer.left),
			    MSG_DONTWAIT | MSG_NOSIGNAL);
	if (done > 0) {
		peer.left -= (size_t)done;
		memmove(peer.wire, peer.wire + done, peer.left);
	}
	progress(1);
}

/* What is between heads comes from lent memory and from that of puts. */
static void understand(const uint8_t *at, size_t len)
{
	uint8_t secret[16];

	memset(secret, SECRET, sizeof(secret));
	while (len) {
		size_t n;

		if (peer.hello_left) {
			n = tw_min(peer.hello_left, len);
			peer.hello_left -= n;
		} else if (peer.body_left) {
			n = tw_min(peer.body_left, len);
			FUZZ_MUST(peer.adrift || !memchr(at, SECRET, n));
			FUZZ_MUST(!memmem(at, n, secret, sizeof(secret)));
			peer.body_left -= n;
		} else {
			n = tw_min(sizeof(peer.head) - peer.head_got, len);
			memcpy((char *)&peer.head + peer.head_got, at, n);
			peer.head_got += n;
			if (peer.head_got == sizeof(peer.head)) {
				peer.head_got = 0;
				FUZZ_MUST(peer.head.kind >= TW_TCP_PACKET_IS &&
					  peer.head.kind <= TW_TCP_ENDED);
				FUZZ_MUST(peer.head.len <= TW_TCP_CHUNK);
				peer.body_left = peer.head.len;
			}
		}
		at += n;
		len -= n;
	}
}

void peer_listen(void)
{
	uint8_t bytes[16384];
	ssize_t got;

	for (int i = 0; i < 8 && peer.fd >= 0; i++) {
		got = recv(peer.fd, bytes, sizeof(bytes), MSG_DONTWAIT);
		if (got <= 0)
			return;
		understand(bytes, (size_t)got);
	}
}

void peer_frame(void)
{
	static const uint32_t kinds[] = {TW_TCP_PACKET_IS, TW_TCP_READ,	      TW_TCP_DATA,
					 TW_TCP_WRITE,	   TW_TCP_WRITE_LAST, TW_TCP_ENDED};
	uint8_t what = in_byte(f.in), how = in_byte(f.in);
	const struct slot *s = &slots[in_byte(f.in) % SLOTS];
	struct tw_tcp_head h = {.kind = kinds[what % tw_countof(kinds)], .id = in_byte(f.in)};
	uint8_t body[512];
	uint64_t len = how & 1 ? in_byte(f.in) : s->len, key;

	f.big |= s->len == BIG;
	memcpy(&key, s->mr.key, sizeof(key));
	h.key = le64toh(key);
	h.address = (uint64_t)(uintptr_t)s->mem;
	if (how & 2)
		h.address += (uint64_t)(int8_t)in_byte(f.in);
	if (how & 4)
		len = how & 8 ? (uint64_t)in_word(f.in) << 32 | in_word(f.in) : in_word(f.in);
	if (how & 16)
		h.address = (uint64_t)in_word(f.in) << 32 | in_word(f.in);
	if (how & 32)
		h.key ^= in_byte(f.in);
	if (h.kind == TW_TCP_ENDED)
		h.address = how & 64 ? h.address : in_byte(f.in) % (TW_NERRS + 1u);
	if (what >= 250)
		h.kind = in_word(f.in);
	if (h.kind == TW_TCP_READ || h.kind == TW_TCP_ENDED)
		h.total = len;
	else
		h.len = (uint32_t)len;
	say(&h, sizeof(h));
	memset(body, 7, sizeof(body));
	peer.adrift |= h.len > WIRE || how & 128;
	if (!(how & 128))
		for (size_t left = tw_min(h.len, (uint32_t)WIRE), n; left; left -= n) {
			n = tw_min(left, sizeof(body));
			say(body, n);
		}
}

void peer_meet(void)
{
	uint8_t how = in_byte(f.in);
	struct tw_tcp_hello h;
	struct tw_driver_address a = {.len = sizeof(f.address)};
	struct tw_tcp_address me = f.address;
	socklen_t len = sizeof(struct sockaddr_in);
	bool called = !f.tokens.other[0];

	memcpy(h.to, f.tokens.mine, sizeof(h.to));
	memcpy(h.from, f.tokens.other, sizeof(h.from));
	if (called) {
		getsockname(peer.listener, (struct sockaddr *)(void *)me.to, &len);
		tw_inet_wire(me.to);
	}
	memcpy(a.bytes, &me, sizeof(me));
	if (how & 2)
		a.bytes[in_byte(f.in) % 20] ^= 1;
	if (how & 4)
		a.len = in_byte(f.in);
	if (!(how & 8))
		tw_driver_tcp.path_bind(f.path, &a);
	if (called) {
		peer.fd = accept4(peer.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		peer.hello_left = sizeof(h);
		progress(1);
		return;
	}
	peer.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(peer.fd, SOL_SOCKET, SO_RCVBUF, &(int){4096}, sizeof(int));
	FUZZ_MUST(connect(peer.fd, (struct sockaddr *)(void *)f.address.to, len) == 0);
	if (how & 16)
		((uint8_t *)&h)[in_byte(f.in) % sizeof(h)] ^= in_byte(f.in);
	say(&h, sizeof(h));
	peer_deliver(how & 32 ? in_byte(f.in) : sizeof(h));
	peer_deliver(sizeof(h));
	if (how & 8)
		tw_driver_tcp.path_bind(f.path, &a);
	progress(2);
}

void peer_hang_up(void)
{
	const struct linger at_once = {.l_onoff = 1};

	if (peer.fd < 0)
		return;
	/* Else ports run out. */
	setsockopt(peer.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	close(peer.fd);
	peer.fd = -1;
}
