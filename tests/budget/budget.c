/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What tests/lint/budget counts the instructions of: what functions named counted_* call,
 * once for each message. Nothing waits, as everything happens in one thread or in two by
 * turns, and every batch takes the same path; batch_end() is where one count ends.
 *
 *	budget		all cases, as a test that what is counted works
 *	budget CASE	one case
 */
#include <pthread.h>
#include <stdbool.h>

#include "budget/budget.h"
#include "mcapi.h"
#include "mx_extensions.h"

#define MATCH 7
#define LONG 16384u /* bytes of a message that is announced */

/* Seen by callgrind as they are. */
COUNTED counted_send(mx_endpoint_t from, mx_endpoint_addr_t to);
COUNTED counted_begin(mx_endpoint_t from, mx_endpoint_addr_t to, mx_request_t *req);
COUNTED counted_end(mx_endpoint_t from, mx_request_t *req);
COUNTED counted_post(mx_endpoint_t ep, unsigned k);
COUNTED counted_take(mx_endpoint_t ep, unsigned k);
COUNTED counted_probe(mx_endpoint_t ep);
COUNTED counted_poll(mx_endpoint_t ep);
COUNTED counted_scalar_send(mcapi_sclchan_send_hndl_t h);
COUNTED counted_scalar_receive(mcapi_sclchan_recv_hndl_t h);
COUNTED counted_packet_send(mcapi_pktchan_send_hndl_t h);
COUNTED counted_packet_receive(mcapi_pktchan_recv_hndl_t h);

static mx_endpoint_t a, b;
static mx_endpoint_addr_t to_b, to_a;
static mx_request_t posted[BATCH];
static uint64_t sent[LONG / 8], received[BATCH][128]; /* of MX, the first word counts */
static uint64_t out, in;			      /* of MCAPI */

/* MX ------------------------------------------------------------------------------ */

static inline void finish(mx_endpoint_t ep, mx_request_t *req)
{
	mx_status_t status;
	uint32_t done;

	MUST(mx_test(ep, req, &status, &done) == MX_SUCCESS);
	MUST(done && status.code == MX_STATUS_SUCCESS);
}

COUNTED counted_send(mx_endpoint_t from, mx_endpoint_addr_t to)
{
	mx_segment_t seg = {sent, budget_size};
	mx_request_t req;

	MUST(mx_isend(from, &seg, 1, to, MATCH, NULL, &req) == MX_SUCCESS);
	finish(from, &req);
}

COUNTED counted_begin(mx_endpoint_t from, mx_endpoint_addr_t to, mx_request_t *req)
{
	mx_segment_t seg = {sent, budget_size};

	MUST(mx_isend(from, &seg, 1, to, MATCH, NULL, req) == MX_SUCCESS);
}

COUNTED counted_end(mx_endpoint_t from, mx_request_t *req)
{
	finish(from, req);
}

COUNTED counted_post(mx_endpoint_t ep, unsigned k)
{
	mx_segment_t seg = {received[k], budget_size};

	MUST(mx_irecv(ep, &seg, 1, MATCH, MX_MATCH_MASK_NONE, NULL, &posted[k]) == MX_SUCCESS);
}

COUNTED counted_take(mx_endpoint_t ep, unsigned k)
{
	finish(ep, &posted[k]);
}

COUNTED counted_probe(mx_endpoint_t ep)
{
	mx_status_t status;
	uint32_t found;

	MUST(mx_iprobe(ep, MATCH, MX_MATCH_MASK_NONE, &status, &found) == MX_SUCCESS && found);
}

COUNTED counted_poll(mx_endpoint_t ep)
{
	mx_status_t status;
	uint32_t done;

	MUST(mx_test(ep, &posted[0], &status, &done) == MX_SUCCESS && !done);
}

/* Credits and whatever else goes back are taken in where nobody counts. */
static void settle(void)
{
	mx_status_t status;
	uint32_t found;

	MUST(mx_iprobe(a, ~UINT64_C(0), MX_MATCH_MASK_NONE, &status, &found) == MX_SUCCESS);
	MUST(mx_iprobe(b, ~UINT64_C(0), MX_MATCH_MASK_NONE, &status, &found) == MX_SUCCESS);
}

static void send_next(void)
{
	sent[0]++;
	counted_send(a, to_b);
}

static void take(unsigned k, uint64_t number)
{
	counted_take(b, k);
	MUST(received[k][0] == number);
	received[k][0] = 0;
}

/* Windows: one poll takes all messages. */
static void eager(void)
{
	for (unsigned k = 0; k < BATCH; k++)
		counted_post(b, k);
	for (unsigned k = 0; k < BATCH; k++)
		send_next();
	for (unsigned k = 0; k < BATCH; k++)
		take(k, sent[0] - BATCH + 1 + k);
}

static void unexpected(void)
{
	for (unsigned k = 0; k < BATCH; k++)
		send_next();
	counted_probe(b);
	for (unsigned k = 0; k < BATCH; k++) {
		counted_post(b, k);
		take(k, sent[0] - BATCH + 1 + k);
	}
}

/* One message for each poll. */
static void single(void)
{
	for (unsigned k = 0; k < BATCH; k++) {
		counted_post(b, 0);
		send_next();
		take(0, sent[0]);
	}
}

/* Each message is answered before the next: the way of a ping-pong. Only one half is counted. */
static void pingpong(void)
{
	static uint64_t reply;
	mx_segment_t from = {&reply, sizeof(reply)}, to = {&reply, sizeof(reply)};
	mx_request_t r, s;
	mx_status_t st;

	for (unsigned k = 0; k < BATCH; k++) {
		uint32_t done = 0;

		counted_post(b, 0);
		send_next();
		counted_take(b, 0);
		MUST(received[0][0] == sent[0]);
		MUST(mx_irecv(a, &to, 1, MATCH, MX_MATCH_MASK_NONE, NULL, &r) == MX_SUCCESS);
		MUST(mx_isend(b, &from, 1, to_a, MATCH, NULL, &s) == MX_SUCCESS);
		finish(b, &s);
		while (!done)
			MUST(mx_test(a, &r, &st, &done) == MX_SUCCESS);
	}
}

/* The receiver reads it in the poll that finds the announcement, and replies in that. */
static void announced(void)
{
	for (unsigned k = 0; k < BATCH; k++) {
		mx_request_t req;

		counted_post(b, 0);
		sent[0]++;
		counted_begin(a, to_b, &req);
		take(0, sent[0]);
		counted_end(a, &req);
	}
}

/*
 * A receive that stays: its message comes after the poll. Each third poll counts, so that what
 * some polls do in addition is among them.
 */
static void poll_in_vain(void)
{
	for (unsigned k = 0; k < BATCH; k++) {
		counted_post(b, 0);
		MUST(mx_progress(b) == MX_SUCCESS);
		counted_poll(b);
		send_next();
		take(0, sent[0]);
	}
}

/* Both are polled, so that it needs no other thread. */
static mx_endpoint_addr_t connect_to(mx_endpoint_t from, mx_endpoint_t to)
{
	mx_endpoint_addr_t mine;
	mx_status_t status;
	mx_request_t req;
	uint32_t id, done = 0;
	uint64_t nic;

	MUST(mx_get_endpoint_addr(to, &mine) == MX_SUCCESS);
	MUST(mx_decompose_endpoint_addr(mine, &nic, &id) == MX_SUCCESS);
	MUST(mx_iconnect(from, nic, id, 1, 0, NULL, &req) == MX_SUCCESS);
	while (!done) {
		MUST(mx_test(from, &req, &status, &done) == MX_SUCCESS);
		MUST(mx_progress(to) == MX_SUCCESS);
	}
	MUST(status.code == MX_STATUS_SUCCESS);
	return status.source;
}

static void open_mx(void)
{
	MUST(mx_init() == MX_SUCCESS);
	MUST(mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, 1, NULL, 0, &a) == MX_SUCCESS);
	MUST(mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, 1, NULL, 0, &b) == MX_SUCCESS);
	to_b = connect_to(a, b);
	to_a = connect_to(b, a);
}

/* By one protocol: others are tried now and then. */
static void open_get(void)
{
	MUST(setenv("TAGWIRE_RNDV", "get", 1) == 0 && setenv("TAGWIRE_EAGER_MAX", "8191", 1) == 0);
	open_mx();
	MUST(unsetenv("TAGWIRE_RNDV") == 0 && unsetenv("TAGWIRE_EAGER_MAX") == 0);
}

static void close_mx(void)
{
	MUST(mx_close_endpoint(a) == MX_SUCCESS && mx_close_endpoint(b) == MX_SUCCESS);
	MUST(mx_finalize() == MX_SUCCESS);
}

/* MCAPI --------------------------------------------------------------------------- */

static mcapi_sclchan_send_hndl_t scalars_out;
static mcapi_sclchan_recv_hndl_t scalars_in;

COUNTED counted_scalar_send(mcapi_sclchan_send_hndl_t h)
{
	mcapi_status_t status;

	mcapi_sclchan_send_uint64(h, out, &status);
	MUST(status == MCAPI_SUCCESS);
}

COUNTED counted_scalar_receive(mcapi_sclchan_recv_hndl_t h)
{
	mcapi_status_t status;

	in = mcapi_sclchan_recv_uint64(h, &status);
	MUST(status == MCAPI_SUCCESS);
}

static void check_arrived(uint64_t i)
{
	MUST(in == i);
	in = 0;
}

static void scalar(void)
{
	for (unsigned k = 0; k < BATCH; k++) {
		out++;
		counted_scalar_send(scalars_out);
		counted_scalar_receive(scalars_in);
		check_arrived(out);
	}
}

static void begin_node(mcapi_node_t node)
{
	mcapi_version_t version;
	mcapi_status_t status;

	mcapi_initialize(node, &version, &status);
	MUST(status == MCAPI_SUCCESS);
}

static mcapi_endpoint_t make_endpoint(mcapi_port_t port)
{
	mcapi_status_t status;
	mcapi_endpoint_t e = mcapi_create_endpoint(port, &status);

	MUST(status == MCAPI_SUCCESS);
	return e;
}

static void complete(mcapi_request_t request)
{
	mcapi_status_t status;
	size_t size;

	MUST(mcapi_wait(&request, &size, &status, MCAPI_INFINITE) && status == MCAPI_SUCCESS);
}

static void open_mcapi(void)
{
	mcapi_endpoint_t from, to;
	mcapi_request_t opened[3];
	mcapi_status_t status;

	begin_node(1);
	from = make_endpoint(1);
	to = make_endpoint(2);
	mcapi_connect_sclchan_i(from, to, &opened[0], &status);
	MUST(status == MCAPI_SUCCESS);
	mcapi_open_sclchan_recv_i(&scalars_in, to, &opened[1], &status);
	MUST(status == MCAPI_SUCCESS);
	mcapi_open_sclchan_send_i(&scalars_out, from, &opened[2], &status);
	MUST(status == MCAPI_SUCCESS);
	for (int i = 0; i < 3; i++)
		complete(opened[i]);
}

static void close_mcapi(void)
{
	mcapi_status_t status;

	mcapi_finalize(&status);
	MUST(status == MCAPI_SUCCESS);
}

/* Packets: to a node that is a thread of its own, and acts while the other waits. */

static mcapi_pktchan_send_hndl_t packets_out;
static pthread_barrier_t turns;
static pthread_t receiver;
static bool ending;

COUNTED counted_packet_send(mcapi_pktchan_send_hndl_t h)
{
	mcapi_status_t status;

	mcapi_pktchan_send(h, &out, sizeof(out), &status);
	MUST(status == MCAPI_SUCCESS);
}

COUNTED counted_packet_receive(mcapi_pktchan_recv_hndl_t h)
{
	mcapi_status_t status;
	void *packet;
	size_t size;

	mcapi_pktchan_recv(h, &packet, &size, &status);
	MUST(status == MCAPI_SUCCESS && size == sizeof(in));
	memcpy(&in, packet, sizeof(in));
	mcapi_pktchan_free(packet, &status);
	MUST(status == MCAPI_SUCCESS);
}

static void *receive_packets(void *arg)
{
	mcapi_pktchan_recv_hndl_t packets_in;
	mcapi_request_t opened;
	mcapi_status_t status;

	begin_node(2);
	mcapi_open_pktchan_recv_i(&packets_in, make_endpoint(1), &opened, &status);
	MUST(status == MCAPI_SUCCESS || status == MCAPI_ENOT_CONNECTED);
	complete(opened);
	for (;;) {
		pthread_barrier_wait(&turns);
		if (ending)
			break;
		counted_packet_receive(packets_in);
		pthread_barrier_wait(&turns);
	}
	close_mcapi();
	return arg;
}

static void packet(void)
{
	for (unsigned k = 0; k < BATCH; k++) {
		out++;
		counted_packet_send(packets_out);
		pthread_barrier_wait(&turns);
		pthread_barrier_wait(&turns);
		check_arrived(out);
	}
}

static void open_packets(void)
{
	mcapi_endpoint_t from, to;
	mcapi_request_t request;
	mcapi_status_t status;

	begin_node(1);
	ending = false;
	MUST(pthread_barrier_init(&turns, NULL, 2) == 0);
	MUST(pthread_create(&receiver, NULL, receive_packets, NULL) == 0);
	from = make_endpoint(1);
	to = mcapi_get_endpoint(2, 1, &status);
	MUST(status == MCAPI_SUCCESS);
	mcapi_connect_pktchan_i(from, to, &request, &status);
	MUST(status == MCAPI_SUCCESS);
	complete(request);
	mcapi_open_pktchan_send_i(&packets_out, from, &request, &status);
	MUST(status == MCAPI_SUCCESS);
	complete(request);
}

static void close_packets(void)
{
	ending = true;
	pthread_barrier_wait(&turns);
	MUST(pthread_join(receiver, NULL) == 0);
	pthread_barrier_destroy(&turns);
	close_mcapi();
}

static void no_settle(void)
{
}

/* ---------------------------------------------------------------------------------- */

static const struct budget_case cases[] = {
	{"eager", open_mx, eager, settle, close_mx, 8},
	{"eager_64", open_mx, eager, settle, close_mx, 64},
	{"eager_104", open_mx, eager, settle, close_mx, 104},
	{"eager_250", open_mx, eager, settle, close_mx, 250},
	{"unexpected", open_mx, unexpected, settle, close_mx, 8},
	{"single", open_mx, single, settle, close_mx, 8},
	{"pingpong", open_mx, pingpong, settle, close_mx, 8},
	{"long", open_get, announced, settle, close_mx, LONG},
	{"poll", open_mx, poll_in_vain, settle, close_mx, 8},
	{"scalar", open_mcapi, scalar, no_settle, close_mcapi, 0},
	{"packet", open_packets, packet, no_settle, close_packets, 0},
};

int main(int argc, char **argv)
{
	return budget_run(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}
