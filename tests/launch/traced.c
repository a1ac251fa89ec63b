/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two processes that exchange known messages, for tests/launch/trace: 10 that meet a receive, 5
 * that come before theirs, 2 that are announced, and one for which the receiver waits; and one
 * back. "killed": the sender is killed after the first ten. "waits": both wait before the
 * last, until standard input ends. "many": the first are not 10 but 1000.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/twt.h"
#include "mx_extensions.h"

#define KEY 55
#define FIRST 10
#define MANY 1000
#define EARLY 5
#define LONG 2
#define LONG_BYTES (1u << 20)
#define VAIN 20000 /* polls */

static const char *how;
static unsigned first = FIRST;
static char *data;

static void check_at(int line, bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "traced.c:%d: %s\n", line, what);
	exit(1);
}
#define check(cond) check_at(__LINE__, cond, #cond)

static mx_request_t post(mx_endpoint_t ep, uint64_t match, char *to, uint32_t len)
{
	mx_segment_t seg = {to, len};
	mx_request_t r;

	check(mx_irecv(ep, &seg, 1, match, UINT64_MAX, NULL, &r) == MX_SUCCESS);
	return r;
}

static void end(mx_endpoint_t ep, mx_request_t r)
{
	mx_status_t status;
	uint32_t done = 0;

	while (!done)
		check(mx_test(ep, &r, &status, &done) == MX_SUCCESS);
	check(status.code == MX_STATUS_SUCCESS);
}

static void send(mx_endpoint_t ep, mx_endpoint_addr_t to, uint64_t match, uint32_t len)
{
	mx_segment_t seg = {data, len};
	mx_request_t r;

	check(mx_isend(ep, &seg, 1, to, match, NULL, &r) == MX_SUCCESS);
	end(ep, r);
}

static mx_endpoint_t open_endpoint(uint32_t id, uint64_t *nic)
{
	mx_endpoint_t ep;

	check(mx_init() == MX_SUCCESS);
	check(mx_open_endpoint(0, id, KEY, NULL, 0, &ep) == MX_SUCCESS);
	check(mx_board_number_to_nic_id(0, nic) == MX_SUCCESS);
	data = calloc(1, LONG_BYTES);
	check(data != NULL);
	return ep;
}

static void step(int fd, bool says)
{
	char byte = 0;

	check((says ? twt_put(fd, &byte, 1) : twt_get(fd, &byte, 1)) == 0);
}

static int sender(void *arg, int fd)
{
	mx_endpoint_addr_t to;
	mx_endpoint_t ep;
	uint64_t nic;

	(void)arg;
	ep = open_endpoint(1, &nic);
	step(fd, false); /* its receives are posted */
	check(mx_connect(ep, nic, 2, KEY, MX_INFINITE, &to) == MX_SUCCESS);
	for (uint64_t i = 0; i < first; i++)
		send(ep, to, i, 8);
	if (strcmp(how, "killed") == 0) {
		step(fd, false);
		raise(SIGKILL);
	}
	for (uint64_t i = 0; i < EARLY; i++)
		send(ep, to, 100 + i, 100);
	for (uint64_t i = 0; i < LONG; i++)
		send(ep, to, 200 + i, LONG_BYTES);
	step(fd, false); /* it has waited */
	send(ep, to, 300, 64);
	end(ep, post(ep, 400, data, 8));
	step(fd, false);
	mx_close_endpoint(ep);
	mx_finalize();
	return 0;
}

/* Messages that are here before their receives. */
static void take_early(mx_endpoint_t ep)
{
	uint32_t found = 0;
	mx_status_t status;

	while (!found)
		check(mx_iprobe(ep, 100 + EARLY - 1, UINT64_MAX, &status, &found) == MX_SUCCESS);
	for (uint64_t i = 0; i < EARLY; i++)
		end(ep, post(ep, 100 + i, data, 100));
	for (uint64_t i = 0; i < LONG; i++)
		end(ep, post(ep, 200 + i, data, LONG_BYTES));
}

static void receiver(int fd)
{
	mx_endpoint_addr_t to;
	mx_request_t r[MANY];
	mx_status_t status;
	mx_endpoint_t ep;
	uint32_t done;
	uint64_t nic;

	ep = open_endpoint(2, &nic);
	for (uint64_t i = 0; i < first; i++)
		r[i] = post(ep, i, data + 8 * i, 8);
	step(fd, true);
	for (unsigned i = 0; i < first; i++)
		end(ep, r[i]);
	if (strcmp(how, "killed") == 0) {
		step(fd, true);
		return;
	}
	take_early(ep);
	r[0] = post(ep, 300, data, 64);
	if (strcmp(how, "waits") == 0) {
		puts("waits");
		fflush(stdout);
		while (getchar() != EOF)
			;
	}
	for (unsigned i = 0; i < VAIN; i++) {
		check(mx_test(ep, &r[0], &status, &done) == MX_SUCCESS);
		check(!done);
	}
	step(fd, true);
	end(ep, r[0]);
	check(mx_connect(ep, nic, 1, KEY, MX_INFINITE, &to) == MX_SUCCESS);
	send(ep, to, 400, 8);
	step(fd, true);
	mx_close_endpoint(ep);
	mx_finalize();
}

int main(int argc, char **argv)
{
	struct twt_child child;

	how = argc > 1 ? argv[1] : "";
	if (strcmp(how, "many") == 0)
		first = MANY;
	twt_spawn(&child, sender, NULL);
	receiver(child.fd);
	if (strcmp(how, "killed") == 0)
		return twt_join(&child, TWT_LONG) == 1000 + SIGKILL ? 0 : 1;
	return twt_join(&child, TWT_LONG);
}
