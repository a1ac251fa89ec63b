/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages of all lengths between two hosts, made of one text, while all frames of this host are
 * captured. With TAGWIRE_ENCRYPT=1 the text is in none of them; without, it is found.
 */
#include <endian.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "stress/stress.h"

#define MOST (1u << 20)
#define BUFFER (64 << 20) /* bytes of frames that wait */

static const char text[] = "a text that nobody else may read";
static uint8_t buf[MOST], expected[MOST];

struct seen {
	uint64_t frames, with_text, lost;
};

static void make(uint8_t *to, uint32_t len, uint32_t number)
{
	for (uint32_t i = 0; i < len; i++)
		to[i] = (uint8_t)text[i % (sizeof(text) - 1)];
	memcpy(to, &number, len < sizeof(number) ? len : sizeof(number));
}

static void process(struct st_me *me)
{
	uint32_t number = 0;

	for (uint32_t len = 1; len <= MOST; len += len / 3 + 1, number++) {
		mx_request_t r;

		st_at(number);
		make(expected, len, number);
		if (me->rank)
			r = st_isend(me->ep, expected, len, me->addr[0], number);
		else
			r = st_irecv(me->ep, buf, len, number);
		st_eq(st_finish(me->ep, &r).xfer_length, len);
		if (!me->rank && memcmp(buf, expected, len) != 0)
			st_fail("a byte of %u is wrong", len);
	}
	me->count[0] = number;
}

/* Until the other end of the pipe is shut. */
static int capture(void *arg, int fd)
{
	int sock = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htobe16(ETH_P_ALL)), size = BUFFER;
	struct pollfd p[2] = {{.fd = sock, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
	struct tpacket_stats lost = {0};
	socklen_t len = sizeof(lost);
	struct seen seen = {0};
	static uint8_t frame[1 << 17];

	(void)arg;
	st_check(sock >= 0);
	st_check(setsockopt(sock, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) == 0);
	st_check(twt_put(fd, &seen.frames, 1) == 0);
	do {
		ssize_t n = recv(sock, frame, sizeof(frame), MSG_DONTWAIT);

		seen.frames += n > 0;
		seen.with_text += n > 0 && memmem(frame, (size_t)n, text, sizeof(text) - 1);
		if (n < 0)
			poll(p, 2, -1);
	} while (!(p[1].revents && !(p[0].revents & POLLIN)));
	st_check(getsockopt(sock, SOL_PACKET, PACKET_STATISTICS, &lost, &len) == 0);
	seen.lost = lost.tp_drops;
	return twt_put(fd, &seen, sizeof(seen)) != 0;
}

int main(int argc, char **argv)
{
	const char *encrypt = getenv("TAGWIRE_ENCRYPT");
	struct twt_child child;
	uint64_t total[4] = {0};
	struct seen seen;
	char ready;

	st_begin(argc, argv, "vm_capture", 1, NULL);
	twt_spawn_here(&child, capture, NULL);
	st_get(child.fd, &ready, 1);
	st_crew(2, 0, process, total);
	st_check(shutdown(child.fd, SHUT_WR) == 0);
	st_get(child.fd, &seen, sizeof(seen));
	st_join(&child, 1);
	st_eq(seen.lost, 0);
	st_check(seen.frames > 0);
	st_eq(seen.with_text > 0, !encrypt || *encrypt != '1');
	st_done("%llu messages, %llu frames, the text in %llu of them",
		(unsigned long long)total[0] / 2, (unsigned long long)seen.frames,
		(unsigned long long)seen.with_text);
	return 0;
}
