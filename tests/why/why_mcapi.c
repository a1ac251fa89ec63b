/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs of MCAPI that hang.
 */
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/compiler.h"
#include "mcapi.h"
#include "why/whyt.h"

#define NODE(me) ((mcapi_node_t)(me) + 1)

static mcapi_status_t st;
static char data[64];

static void begin(int me)
{
	mcapi_version_t version;

	mcapi_initialize(NODE(me), &version, &st);
	whyt_must(st == MCAPI_SUCCESS);
}

static mcapi_endpoint_t create(mcapi_port_t port)
{
	mcapi_endpoint_t e = mcapi_create_endpoint(port, &st);

	whyt_must(st == MCAPI_SUCCESS);
	return e;
}

static void receive(mcapi_endpoint_t e)
{
	size_t size;

	mcapi_msg_recv(e, data, sizeof data, &size, &st);
}

/* Until the other node has got it, too. */
static mcapi_endpoint_t get(int node, mcapi_port_t port)
{
	mcapi_endpoint_t e = mcapi_get_endpoint(NODE(node), port, &st);

	whyt_must(st == MCAPI_SUCCESS);
	return e;
}

static void both_receive(int me, int n)
{
	mcapi_endpoint_t e;

	begin(me);
	e = create(5);
	get(n - 1 - me, 5);
	receive(e);
}

static void wrong_port(int me, int n)
{
	mcapi_endpoint_t e, to;

	begin(me);
	e = create(5);
	create(6);
	to = get(n - 1 - me, 6);
	if (me == 1)
		mcapi_msg_send(e, to, data, 10, 0, &st);
	receive(e);
}

static void no_endpoint(int me, int n)
{
	mcapi_endpoint_t e;

	begin(me);
	e = create(5);
	get(n - 1 - me, 5);
	if (me == 0)
		get(1, 9);
	receive(e);
}

static void wait_for(mcapi_request_t *r)
{
	size_t size;

	whyt_must(st == MCAPI_SUCCESS);
	whyt_must(mcapi_wait(r, &size, &st, MCAPI_INFINITE) == MCAPI_TRUE);
}

/* MCAPI_ENOT_CONNECTED: not yet. */
static void open_receiver(uint32_t *h, mcapi_endpoint_t e)
{
	mcapi_request_t r;

	mcapi_open_sclchan_recv_i(h, e, &r, &st);
	if (st == MCAPI_ENOT_CONNECTED)
		st = MCAPI_SUCCESS;
	wait_for(&r);
}

/* Node 1 sends scalars to node 0, which takes none. */
static void scalar(int me, int n)
{
	mcapi_endpoint_t e, other;
	mcapi_request_t r;
	uint32_t h;

	begin(me);
	e = create(5);
	create(6);
	other = get(n - 1 - me, 5);
	if (me == 0) {
		open_receiver(&h, e);
		receive(get(0, 6));
	}
	mcapi_connect_sclchan_i(e, other, &r, &st);
	wait_for(&r);
	mcapi_open_sclchan_send_i(&h, e, &r, &st);
	wait_for(&r);
	for (;;)
		mcapi_sclchan_send_uint64(h, 1, &st);
}

/* Node 0 waits for a scalar, node 1 for a message. */
static void no_scalar(int me, int n)
{
	mcapi_endpoint_t e, other;
	mcapi_request_t r;
	uint32_t h;

	begin(me);
	e = create(5);
	create(6);
	other = get(n - 1 - me, 5);
	if (me == 0) {
		open_receiver(&h, e);
		mcapi_sclchan_recv_uint64(h, &st);
	}
	mcapi_connect_sclchan_i(e, other, &r, &st);
	wait_for(&r);
	mcapi_open_sclchan_send_i(&h, e, &r, &st);
	wait_for(&r);
	receive(get(1, 6));
}

/* Node 0 opens its end of a channel; node 1 never does. */
static void not_opened(int me, int n)
{
	mcapi_endpoint_t e, other;
	mcapi_request_t r;
	size_t size;
	uint32_t h;

	begin(me);
	e = create(5);
	create(6);
	other = get(n - 1 - me, 5);
	if (me == 0) {
		mcapi_connect_pktchan_i(e, other, &r, &st);
		wait_for(&r);
		mcapi_open_pktchan_send_i(&h, e, &r, &st);
		mcapi_wait(&r, &size, &st, MCAPI_INFINITE);
	}
	receive(get(1, 6));
}

/* A channel of node 0 that nobody connects. */
static void not_connected(int me, int n)
{
	mcapi_endpoint_t e;
	uint32_t h;

	begin(me);
	e = create(5);
	get(n - 1 - me, 5);
	if (me == 0)
		open_receiver(&h, e);
	receive(e);
}

/* A channel of node 0 alone, of which it opens one end. */
static void own_channel(int me, int n)
{
	mcapi_endpoint_t e, other;
	mcapi_request_t r;
	uint32_t h;

	begin(me);
	e = create(5);
	other = create(6);
	get(n - 1 - me, 5);
	if (me == 0) {
		mcapi_connect_sclchan_i(other, e, &r, &st);
		wait_for(&r);
		open_receiver(&h, e);
	}
	receive(e);
}

/* Node 0 waits for one that nobody starts, node 1 for node 0. */
static void not_started(int me, int n)
{
	mcapi_endpoint_t e;

	begin(me);
	e = create(5);
	get(n - 1 - me, 5);
	if (me == 0)
		get(8, 5);
	receive(e);
}

/* The two have no provider in common. */
static void other_provider(int me, int n)
{
	setenv("TAGWIRE_PROVIDERS", me == 0 ? "self,shm" : "self,tcp", 1);
	begin(me);
	if (me == 0)
		get(n - 1, 5);
	receive(create(5));
}

/* Node 0 has no descriptor left for the connection, which node 1 does not ask for. */
static void no_descriptor(int me, int n)
{
	struct rlimit limit = {0, 0};
	mcapi_endpoint_t e;

	begin(me);
	e = create(5);
	if (me == 0) {
		whyt_must(setrlimit(RLIMIT_NOFILE, &limit) == 0);
		get(n - 1, 5);
	}
	receive(e);
}

#define NODE0 "ode 1 (process {0}, why_mcapi)"
#define NODE1 "ode 2 (process {1}, why_mcapi)"

static const struct whyt_case cases[] = {
	{"both_receive",
	 2,
	 both_receive,
	 0,
	 {"N" NODE0 " waits for a message for port 5 from n" NODE1 ", and n" NODE1
	  " waits for a message for port 5 from n" NODE0 ".",
	  "None of them has sent what the other waits for.",
	  "One of them must send before it receives."}},
	{"wrong_port",
	 2,
	 wrong_port,
	 0,
	 {"N" NODE0 " waits for a message for port 5 from n" NODE1 ", and n" NODE1
	  " waits for a message for port 5 from n" NODE0 ".",
	  "A message for port 6 (10 bytes) from n" NODE1
	  " waits unmatched: the receive waits for port 5.",
	  "Correct the tag or port of the send or of the receive."}},
	{"no_endpoint",
	 2,
	 no_endpoint,
	 0,
	 {"N" NODE0 " waits for endpoint 2:9, which does not exist, of n" NODE1 ", and n" NODE1
	  " waits for a message for port 5 from n" NODE0 ".",
	  "None of them can go on before another one does.",
	  "One of them must do what the other waits for before it waits itself."}},
	{"scalar",
	 2,
	 scalar,
	 0,
	 {"N" NODE0 " waits for a message for port 6 from n" NODE1 ", and n" NODE1
	  " waits for room for a scalar to endpoint 1:5 of n" NODE0 ".",
	  "None of them can go on before another one does.",
	  "One of them must do what the other waits for before it waits itself."}},
	{"no_scalar",
	 2,
	 no_scalar,
	 0,
	 {"N" NODE0 " waits for a scalar at endpoint 1:5 from endpoint 2:5 of n" NODE1
	  ", and n" NODE1 " waits for a message for port 6 from n" NODE0 ".",
	  "None of them has sent what the other waits for.",
	  "One of them must send before it receives."}},
	{"not_opened",
	 2,
	 not_opened,
	 0,
	 {"N" NODE0 " waits for the other end of the channel of endpoint 1:5 to be opened at "
	  "endpoint 2:5 of n" NODE1 ", and n" NODE1 " waits for a message for port 6 from n" NODE0
	  ".",
	  "None of them can go on before another one does.",
	  "One of them must do what the other waits for before it waits itself."}},
	{"not_connected",
	 2,
	 not_connected,
	 0,
	 {"N" NODE0 " waits for a channel to be connected to endpoint 1:5; 1 more wait behind it.",
	  "No node has connected a channel to that endpoint.",
	  "Connect it: mcapi_connect_pktchan_i or mcapi_connect_sclchan_i, by any node, with both "
	  "endpoints."}},
	{"own_channel",
	 2,
	 own_channel,
	 0,
	 {"N" NODE0 " waits for the other end of the channel of endpoint 1:5 to be opened at "
	  "endpoint 1:6 of n" NODE0 ".",
	  "It waits for itself.", "Open the other end of the channel before the call that waits."}},
	{"not_started",
	 2,
	 not_started,
	 0,
	 {"N" NODE0 " waits for a connection to node 9 of this host; 1 more wait behind it.",
	  "Node 9 of this host is not reached: it is not open.",
	  "Start its program, with the same TAGWIRE_JOB, TAGWIRE_PORT and TAGWIRE_PROVIDERS."}},
	{"other_provider",
	 2,
	 other_provider,
	 0,
	 {"N" NODE0 " waits for a connection to n" NODE1 "; 1 more wait behind it.",
	  "Process {1} (why_mcapi) has that endpoint, and no provider of this process reaches it.",
	  "Give both programs the same TAGWIRE_PROVIDERS and TAGWIRE_PORT."}},
	{"no_descriptor",
	 2,
	 no_descriptor,
	 0,
	 {"N" NODE0 " waits for a connection to n" NODE1 "; 1 more wait behind it.",
	  "N" NODE1 " is not reached: a key, a descriptor or memory is missing, here or there.",
	  "A message of that side says which; see ulimit -n and tagwire-key(7)."}},
	{"stopped",
	 2,
	 both_receive,
	 SIGSTOP,
	 {"N" NODE0 " waits for a message for port 5 from n" NODE1 ".",
	  "N" NODE1 " is stopped by a signal.", "Let it go on: kill -CONT {1}."}},
};

int main(int argc, char **argv)
{
	return whyt_main(argc, argv, cases, tw_countof(cases));
}
