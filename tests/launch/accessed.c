/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For tests/launch/trace: one process puts to a window of another three times, and gets from it
 * twice. "scalars": one MCAPI node sends another ten scalars of 8 bytes and five of 1 byte.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/twt.h"
#include "mcapi.h"
#include "mx_extensions.h"

#define KEY 55
#define WINDOW 7
#define BYTES 8192
#define PORT 5

static char memory[BYTES];

static void check_at(int line, bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "accessed.c:%d: %s\n", line, what);
	exit(1);
}
#define check(cond) check_at(__LINE__, cond, #cond)

static void step(int fd, bool says)
{
	char byte = 0;

	check((says ? twt_put(fd, &byte, 1) : twt_get(fd, &byte, 1)) == 0);
}

static mx_endpoint_t open_endpoint(uint32_t id, uint64_t *nic)
{
	mx_endpoint_t ep;

	check(mx_init() == MX_SUCCESS);
	check(mx_open_endpoint(0, id, KEY, NULL, 0, &ep) == MX_SUCCESS);
	check(mx_board_number_to_nic_id(0, nic) == MX_SUCCESS);
	return ep;
}

static void access_window(mx_endpoint_t ep, mx_endpoint_addr_t to, bool put, uint32_t len)
{
	mx_segment_t seg = {memory, len};
	mx_request_t r;
	mx_status_t status;
	uint32_t done = 0;

	check((put ? mx_put : mx_get)(ep, &seg, 1, to, WINDOW, 8, 0, NULL, &r) == MX_SUCCESS);
	check(mx_wait(ep, &r, MX_INFINITE, &status, &done) == MX_SUCCESS);
	check(done && status.code == MX_STATUS_SUCCESS);
}

static int accessor(void *arg, int fd)
{
	mx_endpoint_addr_t to;
	mx_endpoint_t ep;
	uint64_t nic;

	(void)arg;
	ep = open_endpoint(1, &nic);
	step(fd, false);
	check(mx_connect(ep, nic, 2, KEY, MX_INFINITE, &to) == MX_SUCCESS);
	for (unsigned i = 0; i < 3; i++)
		access_window(ep, to, true, 4096);
	for (unsigned i = 0; i < 2; i++)
		access_window(ep, to, false, 100);
	step(fd, true);
	mx_close_endpoint(ep);
	mx_finalize();
	return 0;
}

static void owner(int fd)
{
	uint64_t nic, key = WINDOW;
	mx_endpoint_t ep = open_endpoint(2, &nic);

	check(mx_window_register(ep, memory, BYTES, MX_WINDOW_READ | MX_WINDOW_WRITE, &key) ==
	      MX_SUCCESS);
	step(fd, true);
	step(fd, false); /* the service thread serves */
	mx_close_endpoint(ep);
	mx_finalize();
}

static mcapi_endpoint_t begin(mcapi_node_t node)
{
	mcapi_version_t version;
	mcapi_endpoint_t e;
	mcapi_status_t st;

	mcapi_initialize(node, &version, &st);
	check(st == MCAPI_SUCCESS);
	e = mcapi_create_endpoint(PORT, &st);
	check(st == MCAPI_SUCCESS);
	return e;
}

static void complete(mcapi_request_t *r)
{
	mcapi_status_t st;
	size_t size;

	check(mcapi_wait(r, &size, &st, MCAPI_INFINITE) && st == MCAPI_SUCCESS);
}

static int sender(void *arg, int fd)
{
	mcapi_endpoint_t to, e = begin(1);
	mcapi_sclchan_send_hndl_t h;
	mcapi_request_t r;
	mcapi_status_t st;

	(void)arg;
	to = mcapi_get_endpoint(0, PORT, &st);
	check(st == MCAPI_SUCCESS);
	mcapi_connect_sclchan_i(e, to, &r, &st);
	complete(&r);
	mcapi_open_sclchan_send_i(&h, e, &r, &st);
	complete(&r);
	for (unsigned i = 0; i < 15; i++) {
		if (i < 10)
			mcapi_sclchan_send_uint64(h, i, &st);
		else
			mcapi_sclchan_send_uint8(h, (uint8_t)i, &st);
		check(st == MCAPI_SUCCESS);
	}
	step(fd, false);
	mcapi_finalize(&st);
	return 0;
}

static void receiver(int fd)
{
	mcapi_endpoint_t e = begin(0);
	mcapi_sclchan_recv_hndl_t h;
	mcapi_request_t r;
	mcapi_status_t st;

	do
		mcapi_open_sclchan_recv_i(&h, e, &r, &st);
	while (st == MCAPI_ENOT_CONNECTED);
	complete(&r);
	for (unsigned i = 0; i < 15; i++) {
		if (i < 10)
			check(mcapi_sclchan_recv_uint64(h, &st) == i);
		else
			check(mcapi_sclchan_recv_uint8(h, &st) == i);
		check(st == MCAPI_SUCCESS);
	}
	step(fd, true);
	mcapi_finalize(&st);
}

int main(int argc, char **argv)
{
	bool scalars = argc > 1 && strcmp(argv[1], "scalars") == 0;
	struct twt_child child;

	twt_spawn(&child, scalars ? sender : accessor, NULL);
	if (scalars)
		receiver(child.fd);
	else
		owner(child.fd);
	return twt_join(&child, TWT_LONG);
}
