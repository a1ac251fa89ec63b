/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One of two sides, 0 and 1, that may be built for different processors. They exchange MX
 * messages of all lengths, MCAPI messages and scalars of every size, and count under a mutex
 * of MRAPI in shared memory. If the other is on another host, they share none.
 *
 * Usage: portability_pair SIDE [HOST]
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mcapi.h"
#include "mrapi.h"
#include "stress/stress.h"

static unsigned me, other;
static const char *phase = "nothing";

static void late(int signal)
{
	(void)signal;
	st_fail("side %u hangs in %s", me, phase);
}

/* ----------------------------------------------------------------------- MX */

static const uint32_t lens[] = {0, 1, 8, 40, 41, 1000, 32768, 40000, 300001, 4u << 20};
#define NLENS (sizeof(lens) / sizeof(lens[0]))

static uint64_t match(unsigned side, unsigned i)
{
	return (uint64_t)side << 63 | 0x0123456789abcd00 | i;
}

static void check_end(mx_endpoint_t ep, mx_request_t *r, uint64_t key, uint32_t len)
{
	mx_status_t status = st_finish(ep, r);

	st_eq(status.match_info, key);
	st_eq(status.xfer_length, len);
}

/* The same length both ways; posted before the other side sends, as far as we know, or after. */
static void swap(mx_endpoint_t ep, mx_endpoint_addr_t to, unsigned i, bool posted)
{
	uint32_t len = lens[i];
	char *out = malloc(len + 1), *in = malloc(len + 1);
	mx_request_t s, r = NULL;

	st_check(out && in);
	twt_fill(out, len, me + i);
	if (posted)
		r = st_irecv(ep, in, len, match(other, i));
	s = st_isend(ep, out, len, to, match(me, i));
	if (!posted) {
		st_sleep(0.002);
		r = st_irecv(ep, in, len, match(other, i));
	}
	check_end(ep, &r, match(other, i), len);
	check_end(ep, &s, match(me, i), len);
	st_eq(twt_check(in, len, other + i), len);
	free(out);
	free(in);
}

static void messages(char *host)
{
	struct st_name name = {.id = 1 + other};
	/* One of two that cannot call each other over tcp waits to be called through memory. */
	uint32_t wait = host && me == 0 ? MX_INFINITE : 1;
	mx_endpoint_addr_t to;
	mx_endpoint_t ep;

	phase = "MX";
	st_up();
	ep = st_open(1 + me, NULL, 0);
	if (host)
		st_ok(mx_hostname_to_nic_id(host, &name.nic));
	else
		name.nic = st_whose(st_self(ep)).nic;
	while (mx_connect(ep, name.nic, name.id, ST_KEY, wait, &to) != MX_SUCCESS)
		st_sleep(0.01);
	for (unsigned i = 0; i < 2 * NLENS; i++)
		swap(ep, to, i % NLENS, i < NLENS);
	st_ok(mx_close_endpoint(ep));
	st_ok(mx_finalize());
}

/* -------------------------------------------------------------------- MCAPI */

#define must(call)                                                                                 \
	do {                                                                                       \
		mcapi_status_t st = MCAPI_ERROR;                                                   \
		call;                                                                              \
		if (st != MCAPI_SUCCESS)                                                           \
			st_fail("side %u: %s: %s", me, #call, mcapi_strerror(st));                 \
	} while (0)

enum { PORT_MSG = 1, PORT_OUT, PORT_IN };

static void finish(mcapi_request_t r)
{
	size_t size;

	must(mcapi_wait(&r, &size, &st, MCAPI_INFINITE));
}

static void mcapi_messages(void)
{
	char out[1000], in[1000];
	mcapi_endpoint_t mine, theirs;
	size_t got;

	must(mine = mcapi_create_endpoint(PORT_MSG, &st));
	must(theirs = mcapi_get_endpoint(other, PORT_MSG, &st));
	for (unsigned i = 0; i < 100; i++) {
		twt_fill(out, sizeof(out), me + i);
		must(mcapi_msg_send(mine, theirs, out, 10 * i, 1, &st));
		must(mcapi_msg_recv(mine, in, sizeof(in), &got, &st));
		st_eq(got, 10 * i);
		st_eq(twt_check(in, got, other + i), got);
	}
}

/* Every size in turn: more than the ring holds, without an answer, then one by one. */
static void put(mcapi_sclchan_send_hndl_t tx, uint64_t i)
{
	uint64_t v = i * 0x9e3779b97f4a7c15;

	if (i % 4 == 0)
		must(mcapi_sclchan_send_uint8(tx, (uint8_t)v, &st));
	else if (i % 4 == 1)
		must(mcapi_sclchan_send_uint16(tx, (uint16_t)v, &st));
	else if (i % 4 == 2)
		must(mcapi_sclchan_send_uint32(tx, (uint32_t)v, &st));
	else
		must(mcapi_sclchan_send_uint64(tx, v, &st));
}

static void take(mcapi_sclchan_recv_hndl_t rx, uint64_t i)
{
	uint64_t v = i * 0x9e3779b97f4a7c15, got;

	if (i % 4 == 0)
		must(got = mcapi_sclchan_recv_uint8(rx, &st) ^ (uint8_t)v);
	else if (i % 4 == 1)
		must(got = mcapi_sclchan_recv_uint16(rx, &st) ^ (uint16_t)v);
	else if (i % 4 == 2)
		must(got = mcapi_sclchan_recv_uint32(rx, &st) ^ (uint32_t)v);
	else
		must(got = mcapi_sclchan_recv_uint64(rx, &st) ^ v);
	st_eq(got, 0);
}

static void mcapi_scalars(void)
{
	mcapi_sclchan_send_hndl_t tx;
	mcapi_sclchan_recv_hndl_t rx;
	mcapi_endpoint_t out, in, to;
	mcapi_request_t r[3];

	must(out = mcapi_create_endpoint(PORT_OUT, &st));
	must(in = mcapi_create_endpoint(PORT_IN, &st));
	must(to = mcapi_get_endpoint(other, PORT_IN, &st));
	must(mcapi_connect_sclchan_i(out, to, &r[0], &st));
	finish(r[0]);
	mcapi_open_sclchan_send_i(&tx, out, &r[1], &(mcapi_status_t){0});
	mcapi_open_sclchan_recv_i(&rx, in, &r[2], &(mcapi_status_t){0});
	finish(r[1]);
	finish(r[2]);
	for (uint64_t i = 0; i < 4000; i++)
		if (me == 0)
			put(tx, i);
		else
			take(rx, i);
	for (uint64_t i = 0; i < 2000; i++) {
		if (me == 0)
			put(tx, i);
		take(rx, i);
		if (me != 0)
			put(tx, i);
	}
	must(mcapi_sclchan_send_close_i(tx, &r[0], &st));
	finish(r[0]);
	must(mcapi_sclchan_recv_close_i(rx, &r[0], &st));
	finish(r[0]);
}

static void nodes(void)
{
	mcapi_version_t version;

	phase = "MCAPI";
	must(mcapi_initialize(me, &version, &st));
	mcapi_messages();
	phase = "MCAPI's scalars";
	mcapi_scalars();
	must(mcapi_finalize(&st));
}

/* -------------------------------------------------------------------- MRAPI */

#define COUNT 5000

#define sure(call)                                                                                 \
	do {                                                                                       \
		mrapi_status_t st = -1;                                                            \
		call;                                                                              \
		if (st != MRAPI_SUCCESS)                                                           \
			st_fail("side %u: %s: %d", me, #call, (int)st);                            \
	} while (0)

struct counters {
	volatile uint64_t n, seen[2];
	_Alignas(8) uint64_t atomic;
};

/* Waits until the other side has made what is asked for. */
#define until(call)                                                                                \
	do {                                                                                       \
		mrapi_status_t st = -1;                                                            \
		call;                                                                              \
		if (st == MRAPI_SUCCESS)                                                           \
			break;                                                                     \
		st_sleep(0.005);                                                                   \
	} while (1)

static void count(struct counters *c, mrapi_mutex_hndl_t mutex)
{
	for (unsigned i = 0; i < COUNT; i++) {
		uint64_t one = 1;
		mrapi_key_t key;

		sure(mrapi_mutex_lock(mutex, &key, MRAPI_TIMEOUT_INFINITE, &st));
		c->n++;
		sure(mrapi_mutex_unlock(mutex, &key, &st));
		sure(mrapi_atomic_add(NULL, &c->atomic, &one, NULL, sizeof(one), &st));
	}
}

static void remote(mrapi_rmem_hndl_t theirs)
{
	static char in[100000];

	sure(mrapi_rmem_attach(theirs, &st));
	sure(mrapi_rmem_read(theirs, 0, in, sizeof(in), 0, sizeof(in), 1, 0, 0, &st));
	st_eq(twt_check(in, sizeof(in), other), sizeof(in));
	sure(mrapi_rmem_detach(theirs, &st));
}

static void locks(void)
{
	static char mine[100000];
	mrapi_mutex_hndl_t mutex;
	mrapi_shmem_hndl_t shmem;
	mrapi_rmem_hndl_t theirs;
	mrapi_info_t info;
	struct counters *c;
	bool both;

	phase = "MRAPI";
	twt_fill(mine, sizeof(mine), me);
	sure(mrapi_initialize(1, me + 1, NULL, &info, &st));
	sure(mrapi_rmem_create(10 + me, mine, MRAPI_RMEM_ATYPE_ANY, NULL, sizeof(mine), &st));
	if (me == 0) {
		sure(shmem = mrapi_shmem_create(1, sizeof(*c), NULL, 0, NULL, 0, &st));
		sure(mutex = mrapi_mutex_create(1, NULL, &st));
	} else {
		until(mutex = mrapi_mutex_get(1, &st));
		sure(shmem = mrapi_shmem_get(1, &st));
	}
	sure(c = mrapi_shmem_attach(shmem, &st));
	until(theirs = mrapi_rmem_get(10 + other, MRAPI_RMEM_ATYPE_DEFAULT, &st));
	remote(theirs);
	count(c, mutex);
	c->seen[me] = 1;
	do { /* the other's, too */
		st_sleep(0.005);
		both = c->seen[0] && c->seen[1];
	} while (!both);
	st_eq(c->n, 2 * COUNT);
	st_eq(c->atomic, 2 * COUNT);
	sure(mrapi_finalize(&st));
}

int main(int argc, char **argv)
{
	st_check(argc > 1);
	me = (unsigned)atoi(argv[1]);
	other = 1 - me;
	signal(SIGALRM, late);
	alarm((unsigned)(2 * TWT_LONG));
	messages(argv[2]);
	nodes();
	if (argc == 2)
		locks();
	return 0;
}
