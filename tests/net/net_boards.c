/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two hosts with two boards each (tests/net/two_boards): this process receives on one, its
 * child sends on the other. TWT_WIRES names the commands, with semicolons between, that take an
 * end of a cable down and up.
 *
 *   dead          each cable in turn is down until so many messages have come without it, then
 *                 the second board of both; once back, all carry some
 *   cuts SECONDS  a cable is cut every second
 *   stream MB     how fast that is, in MB/s
 *
 * All messages are checked: none is missing, none comes twice.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/check.h"
#include "lib/twt.h"
#include "mx_extensions.h"

#define KEY 0x1234
#define DEADLINE (60000 * twt_patience()) /* milliseconds: against a hang */
#define LONG (4u << 20)
#define AHEAD 4 /* messages under way */
#define LAST UINT64_MAX

struct name {
	uint64_t nic;
	uint32_t id;
};

/* What the other side is to send: random lengths and contents, or so many long ones. */
struct order {
	struct name to;
	uint64_t messages; /* 0: until it is told to end */
};

static struct {
	char *buf[AHEAD];
	mx_request_t request[AHEAD];
	uint64_t next; /* number of the message that comes next */
	mx_endpoint_t ep;
} in;

static mx_endpoint_t up(struct name *me)
{
	mx_endpoint_addr_t a;
	mx_endpoint_t ep;

	mx_set_error_handler(MX_ERRORS_RETURN);
	check(mx_init() == MX_SUCCESS);
	check(mx_open_endpoint(0, MX_ANY_ENDPOINT, KEY, NULL, 0, &ep) == MX_SUCCESS);
	check(mx_get_endpoint_addr(ep, &a) == MX_SUCCESS);
	check(mx_decompose_endpoint_addr(a, &me->nic, &me->id) == MX_SUCCESS);
	return ep;
}

static mx_status_t finish(mx_endpoint_t ep, mx_request_t *r)
{
	uint32_t result = 0;
	mx_status_t st;

	check(mx_wait(ep, r, DEADLINE, &st, &result) == MX_SUCCESS);
	check(result);
	if (st.code != MX_STATUS_SUCCESS)
		printf("%s: %s\n", what, mx_strstatus(st.code));
	check(st.code == MX_STATUS_SUCCESS);
	return st;
}

static uint32_t length(uint64_t i)
{
	return i % 3 == 0 ? LONG - (uint32_t)(i % 7) * 500000 : (uint32_t)(i * 37 % 9000);
}

static int sender(void *arg, int fd)
{
	static char *buf[AHEAD];
	mx_request_t r[AHEAD];
	mx_endpoint_addr_t there;
	struct order order;
	struct name me;
	mx_endpoint_t ep;
	uint64_t i = 0;
	bool last = false;

	(void)arg;
	what = "sender";
	check(twt_get(fd, &order, sizeof(order)) == 0);
	ep = up(&me);
	check(mx_connect(ep, order.to.nic, order.to.id, KEY, DEADLINE, &there) == MX_SUCCESS);
	for (; !last; i++) {
		char **at = &buf[i % AHEAD], end;
		mx_segment_t seg = {NULL, order.messages ? LONG : length(i)};

		if (i >= AHEAD)
			finish(ep, &r[i % AHEAD]);
		else
			check((*at = calloc(1, LONG)));
		if (order.messages)
			last = i == order.messages;
		else
			last = recv(fd, &end, 1, MSG_DONTWAIT) == 1;
		if (!order.messages)
			twt_fill(*at, seg.segment_length, i);
		seg.segment_ptr = *at;
		check(mx_isend(ep, &seg, 1, there, last ? LAST : i, NULL, &r[i % AHEAD]) ==
		      MX_SUCCESS);
	}
	for (uint64_t k = i > AHEAD ? i - AHEAD : 0; k < i; k++)
		finish(ep, &r[k % AHEAD]);
	check(mx_close_endpoint(ep) == MX_SUCCESS);
	return 0;
}

static void post(uint64_t i)
{
	char *at = in.buf[i % AHEAD];
	mx_segment_t seg[3] = {{at, 700001}, {at + 700001, 900007}, {at + 1600008, LONG - 1600008}};
	uint32_t n = 1 + (uint32_t)(i % 3);

	seg[n - 1].segment_length = (uint32_t)(at + LONG - (char *)seg[n - 1].segment_ptr);
	check(mx_irecv(in.ep, seg, n, 0, 0, NULL, &in.request[i % AHEAD]) == MX_SUCCESS);
}

/* The next message; false: it was the last. */
static bool take(bool checked)
{
	uint64_t i = in.next++;
	mx_status_t st = finish(in.ep, &in.request[i % AHEAD]);

	if (st.match_info == LAST)
		return false;
	check(st.match_info == i);
	if (checked) {
		check(st.xfer_length == length(i));
		check(twt_check(in.buf[i % AHEAD], length(i), i) == length(i));
	}
	post(i + AHEAD);
	return true;
}

static struct twt_child begin(uint64_t messages)
{
	struct order order = {.messages = messages};
	struct twt_child c;

	twt_spawn(&c, sender, NULL);
	in.ep = up(&order.to);
	in.next = 0;
	for (uint64_t i = 0; i < AHEAD; i++) {
		check((in.buf[i] = calloc(1, LONG)));
		post(i);
	}
	twt_put(c.fd, &order, sizeof(order));
	return c;
}

/* All that was sent has come, and nothing else. */
static void end(struct twt_child *c, bool checked)
{
	uint32_t result = 0;
	mx_status_t st;

	if (checked)
		check(twt_put(c->fd, "", 1) == 0);
	while (take(checked))
		;
	check(mx_iprobe(in.ep, 0, 0, &st, &result) == MX_SUCCESS && !result);
	check(twt_join(c, TWT_LONG) == 0);
	check(mx_close_endpoint(in.ep) == MX_SUCCESS);
}

/* An end of a cable goes down or up: those of the sender, then those of this side. */
static void wire(unsigned i, const char *way)
{
	char list[400], cmd[200], *rest = list, *at;

	snprintf(list, sizeof(list), "%s", getenv("TWT_WIRES"));
	do
		at = strsep(&rest, ";");
	while (i--);
	snprintf(cmd, sizeof(cmd), "%s %s", at, way);
	check(system(cmd) == 0);
}

/* The shares that mx_endpoint_info shows at one time; -1: that board is down, or not in use yet. */
static void shares(int out[2])
{
	char cmd[400], line[1000], key[8];
	const char *at, *found;
	FILE *f;

	out[0] = out[1] = -1;
	snprintf(cmd, sizeof(cmd), "%s/bench/mx_endpoint_info --csv --pid %d", getenv("builddir"),
		 (int)getpid());
	check((f = popen(cmd, "r")));
	while (fgets(line, sizeof(line), f)) {
		if (!(at = strstr(line, ",0:")) && !(at = strstr(line, ",1:")))
			continue;
		for (unsigned board = 0; board < 2; board++) {
			snprintf(key, sizeof(key), "%u:", board);
			found = strstr(at, key);
			if (!found || sscanf(found + strlen(key), "%d%%", &out[board]) != 1)
				out[board] = -1;
		}
	}
	pclose(f);
}

/* Messages come until each board is up and has had a share. */
static void both_carry(void)
{
	double limit = twt_now() + DEADLINE / 1000.0;
	int share[2];

	do {
		check(twt_now() < limit);
		for (unsigned i = 0; i < 10; i++)
			check(take(true));
		shares(share);
	} while (share[0] < 1 || share[1] < 1);
	printf("shares: %d%% %d%%\n", share[0], share[1]);
	check(share[0] + share[1] <= 100);
}

/* The second board of both hosts, and with it the ways to it, are gone for a while. */
static void both_ends(void)
{
	int share[2];

	wire(1, "down");
	wire(3, "down");
	do {
		for (unsigned i = 0; i < 10; i++)
			check(take(true));
		shares(share);
	} while (share[1] >= 0);
	for (unsigned i = 0; i < 40; i++)
		check(take(true));
	wire(1, "up");
	wire(3, "up");
	both_carry();
}

static void dead(void)
{
	struct twt_child c = begin(0);

	what = "a dead board";
	for (unsigned round = 0; round < 4; round++) {
		double start;

		for (unsigned i = 0; i < 20; i++)
			check(take(true));
		if (!round)
			both_carry();
		wire(round % 2, "down");
		start = twt_now();
		for (unsigned i = 0; i < 40; i++)
			check(take(true));
		printf("40 messages without cable %u: %.2f s\n", round % 2, twt_now() - start);
		wire(round % 2, "up");
	}
	both_carry();
	both_ends();
	end(&c, true);
}

static int cutter(void *arg, int fd)
{
	char end;

	(void)arg;
	for (unsigned i = 0; recv(fd, &end, 1, MSG_DONTWAIT) < 0; i++) {
		wire(i % 2, "down");
		usleep(600000);
		wire(i % 2, "up");
		usleep(400000);
	}
	return 0;
}

static void cuts(unsigned seconds)
{
	struct twt_child cut, c = begin(0);
	double start = twt_now();

	what = "cuts";
	check(take(true));
	twt_spawn_here(&cut, cutter, NULL);
	while (twt_now() < start + seconds)
		check(take(true));
	twt_put(cut.fd, "", 1);
	check(twt_join(&cut, TWT_LONG) == 0);
	end(&c, true);
	printf("%llu messages, cables cut for %.0f s\n", (unsigned long long)in.next,
	       twt_now() - start);
}

static void stream(uint64_t mb)
{
	uint64_t warm = 8, n = warm + mb / 4;
	struct twt_child c = begin(n);
	double start;

	what = "stream";
	while (in.next < warm)
		check(take(false));
	start = twt_now();
	while (in.next < n)
		check(take(false));
	printf("%.1f\n", (double)(n - warm) * LONG / 1e6 / (twt_now() - start));
	end(&c, false);
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "dead") == 0)
			dead();
		else if (strcmp(argv[i], "cuts") == 0 && i + 1 < argc)
			cuts((unsigned)atoi(argv[++i]));
		else if (strcmp(argv[i], "stream") == 0 && i + 1 < argc)
			stream((uint64_t)atoi(argv[++i]));
		else
			return 2;
	return 0;
}
