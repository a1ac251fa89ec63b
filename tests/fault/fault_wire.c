/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two hosts, made by tests/net/hosts: this process is on one, its children are
 * on the other. Without TWT_WIRE there is one host, and wires stay up.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/check.h"
#include "lib/twt.h"
#include "mx_extensions.h"

#define KEY 0x1234
#define DEADLINE (15000 * twt_patience()) /* milliseconds: against a hang */
#define RETRY_MS 3000
#define N 400
#define LONG 300000

struct name {
	uint64_t nic;
	uint32_t id;
};

static struct name name_of(mx_endpoint_t ep)
{
	mx_endpoint_addr_t a;
	struct name n;

	check(mx_get_endpoint_addr(ep, &a) == MX_SUCCESS);
	check(mx_decompose_endpoint_addr(a, &n.nic, &n.id) == MX_SUCCESS);
	return n;
}

static mx_endpoint_t up(uint32_t id)
{
	mx_endpoint_t ep;

	mx_set_error_handler(MX_ERRORS_RETURN);
	check(mx_init() == MX_SUCCESS || id != MX_ANY_ENDPOINT);
	check(mx_open_endpoint(twt_board, id, KEY, NULL, 0, &ep) == MX_SUCCESS);
	return ep;
}

static void down(mx_endpoint_t ep)
{
	check(mx_close_endpoint(ep) == MX_SUCCESS);
	check(mx_finalize() == MX_SUCCESS);
}

static mx_endpoint_addr_t reach(mx_endpoint_t ep, struct name to)
{
	mx_endpoint_addr_t a;

	check(mx_connect(ep, to.nic, to.id, KEY, 20, &a) == MX_SUCCESS);
	return a;
}

static mx_status_t finish(mx_endpoint_t ep, mx_request_t *r)
{
	uint32_t result = 0;
	mx_status_t st;

	check(mx_wait(ep, r, DEADLINE, &st, &result) == MX_SUCCESS);
	check(result);
	return st;
}

static void send_one(mx_endpoint_t ep, mx_endpoint_addr_t to, const void *buf, uint32_t len,
		     uint64_t match)
{
	mx_segment_t seg = {(void *)(uintptr_t)buf, len};
	mx_request_t r;

	check(mx_isend(ep, &seg, 1, to, match, NULL, &r) == MX_SUCCESS);
	check(finish(ep, &r).code == MX_STATUS_SUCCESS);
}

static uint32_t length(unsigned i)
{
	return i % 16 == 15 ? LONG : i * 37 % 9000;
}

/* A wire that is down for a while, many times shorter than the retry limit. */
static void flap(double seconds)
{
	const char *wire = getenv("TWT_WIRE");
	char cmd[200];

	if (!wire)
		return;
	snprintf(cmd, sizeof(cmd), "%s down", wire);
	check(system(cmd) == 0);
	usleep((useconds_t)(seconds * 1e6));
	snprintf(cmd, sizeof(cmd), "%s up", wire);
	check(system(cmd) == 0);
}

/* Sends N messages, as fast as they go; the last one back says that all came. */
static int streamer(void *arg, int fd)
{
	mx_endpoint_t ep = up(MX_ANY_ENDPOINT);
	struct name me = name_of(ep), to;
	mx_endpoint_addr_t there;
	static char buf[LONG];
	(void)arg;

	what = "streamer";
	twt_put(fd, &me, sizeof(me));
	twt_get(fd, &to, sizeof(to));
	there = reach(ep, to);
	for (unsigned i = 0; i < N; i++) {
		twt_fill(buf, length(i), i);
		send_one(ep, there, buf, length(i), 5);
		if (i % 20 == 0)
			usleep(20000);
	}
	check(twt_get(fd, &to, sizeof(to)) == 0);
	down(ep);
	return 0;
}

static void flapping(void)
{
	struct twt_child c;
	mx_endpoint_t ep;
	static char buf[LONG];
	struct name me, it;

	what = "a flapping wire";
	twt_spawn(&c, streamer, NULL);
	check(twt_get(c.fd, &it, sizeof(it)) == 0);
	ep = up(MX_ANY_ENDPOINT);
	me = name_of(ep);
	twt_put(c.fd, &me, sizeof(me));
	for (unsigned i = 0; i < N; i++) {
		mx_segment_t seg = {buf, LONG};
		mx_request_t r;
		mx_status_t st;

		check(mx_irecv(ep, &seg, 1, 5, MX_MATCH_MASK_NONE, NULL, &r) == MX_SUCCESS);
		st = finish(ep, &r);
		check(st.code == MX_STATUS_SUCCESS);
		check(st.xfer_length == length(i));
		check(twt_check(buf, length(i), i) == length(i));
		if (i % 100 == 50)
			flap(RETRY_MS / 6000.);
	}
	twt_put(c.fd, &me, sizeof(me));
	check(twt_join(&c, TWT_LONG) == 0);
	down(ep);
}

/* Connects, says so, and does nothing until it is told or dies. */
static int idler(void *arg, int fd)
{
	mx_endpoint_t ep = up(MX_ANY_ENDPOINT);
	struct name me = name_of(ep);
	char go;

	(void)arg;
	twt_put(fd, &me, sizeof(me));
	if (twt_get(fd, &go, 1) == 0)
		down(ep);
	return 0;
}

enum death { KILL, VANISH };

static void dying(enum death how)
{
	struct twt_child c;
	mx_request_t s, big;
	mx_endpoint_addr_t to;
	static char buf[LONG];
	mx_segment_t seg = {buf, 100}, all = {buf, LONG};
	mx_endpoint_t ep;
	struct name it;
	double start;
	mx_status_t st;
	char cmd[200];

	/* Where both sides are of one host, it does not vanish with a wire. */
	if (how == VANISH && (!getenv("TWT_WIRE") || !getenv("TWT_NETNS")))
		return;
	what = how == KILL ? "a killed peer" : "a vanished host";
	twt_spawn(&c, idler, NULL);
	check(twt_get(c.fd, &it, sizeof(it)) == 0);
	ep = up(MX_ANY_ENDPOINT);
	to = reach(ep, it);
	check(mx_issend(ep, &seg, 1, to, 1, NULL, &s) == MX_SUCCESS);
	check(mx_isend(ep, &all, 1, to, 2, NULL, &big) == MX_SUCCESS);
	start = twt_now();
	if (how == KILL) {
		kill(c.pid, SIGKILL);
	} else {
		snprintf(cmd, sizeof(cmd), "%s down", getenv("TWT_WIRE"));
		check(system(cmd) == 0);
	}
	st = finish(ep, &s);
	check(st.code == MX_STATUS_ENDPOINT_UNREACHABLE);
	st = finish(ep, &big);
	check(st.code == MX_STATUS_ENDPOINT_UNREACHABLE);
	printf("%s: noticed after %.2f s\n", what, twt_now() - start);
	down(ep);
	if (how == VANISH) {
		snprintf(cmd, sizeof(cmd), "%s up", getenv("TWT_WIRE"));
		check(system(cmd) == 0);
	}
	kill(c.pid, SIGKILL);
	twt_join(&c, TWT_LONG);
}

/* Numbers its messages and sends them to the hub. */
static int spoke(void *arg, int fd)
{
	mx_endpoint_t ep = up(MX_ANY_ENDPOINT);
	mx_endpoint_addr_t hub;
	struct name it;
	uint64_t who = *(uint64_t *)arg;

	what = "spoke";
	check(twt_get(fd, &it, sizeof(it)) == 0);
	hub = reach(ep, it);
	for (uint64_t i = 0; i < N; i++)
		send_one(ep, hub, &i, sizeof(i), who << 32 | i);
	check(twt_get(fd, &it, sizeof(it)) == 0);
	down(ep);
	return 0;
}

/* One peer by self, one by shared memory, one over the network: one queue. */
static void three_ways(void)
{
	static uint64_t who[3] = {0, 1, 2}, next[3];
	struct twt_child c[3];
	mx_endpoint_t ep;
	struct name me;
	uint64_t mine = 0;

	what = "three ways";
	twt_spawn(&c[2], spoke, &who[2]);
	twt_spawn_here(&c[1], spoke, &who[1]);
	ep = up(MX_ANY_ENDPOINT);
	me = name_of(ep);
	twt_put(c[1].fd, &me, sizeof(me));
	twt_put(c[2].fd, &me, sizeof(me));
	for (unsigned i = 0; i < 3 * N; i++) {
		mx_endpoint_addr_t self;
		uint64_t value;
		mx_segment_t seg = {&value, sizeof(value)};
		mx_request_t r;
		mx_status_t st;
		unsigned from;

		if (mine < N) {
			check(mx_get_endpoint_addr(ep, &self) == MX_SUCCESS);
			send_one(ep, self, &mine, sizeof(mine), mine);
			mine++;
		}
		check(mx_irecv(ep, &seg, 1, 0, 0, NULL, &r) == MX_SUCCESS);
		st = finish(ep, &r);
		check(st.code == MX_STATUS_SUCCESS);
		from = (unsigned)(st.match_info >> 32);
		check(from < 3);
		check(value == next[from] && (st.match_info & 0xffffffff) == value);
		next[from]++;
	}
	for (int i = 1; i < 3; i++) {
		twt_put(c[i].fd, &me, sizeof(me));
		check(twt_join(&c[i], TWT_LONG) == 0);
	}
	down(ep);
}

int main(void)
{
	char retry[16];

	setvbuf(stdout, NULL, _IOLBF, 0);
	snprintf(retry, sizeof(retry), "%u", RETRY_MS * twt_slow());
	setenv("TAGWIRE_RETRY", retry, 1);
	three_ways();
	puts("three ways: done");
	flapping();
	puts("a flapping wire: done");
	dying(KILL);
	dying(VANISH);
	return 0;
}
