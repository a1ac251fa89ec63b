/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a launcher starts: each process checks that there are as many as the command
 * line says, and exchanges Panda and MX messages with all of them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/twt.h"
#include "mx_extensions.h"
#include "pan_mp.h"

#define KEY 77

static void check_at(int line, int good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "%s:%d: platform %d: %s\n", __FILE__, line, pan_my_pid(), what);
	exit(1);
}
#define check(cond) check_at(__LINE__, cond, #cond)

/* Everybody sends everybody a short and a long one. */
static void panda(int n)
{
	enum { LONG = 100000 };
	int port, tickets[2][256], me = pan_my_pid();
	char *data = malloc(LONG);

	pan_mp_init(NULL, NULL);
	port = pan_mp_register_port(NULL);
	check(port == 1);
	pan_start();
	twt_fill(data, LONG, (uint64_t)me);
	for (int i = 0; i < n; i++)
		for (int k = 0; k < 2; k++)
			tickets[k][i] =
				pan_mp_send(i, port, data, k ? LONG : 8 + me, PAN_MP_DELAYED);
	for (int i = 0; i < 2 * n; i++) {
		int size, len;
		void *p = pan_mp_finish_receive(pan_mp_receive(port), &size, &len);
		int from = len == LONG ? -1 : len - 8;

		check(p && (len == LONG || (from >= 0 && from < n)));
		for (int k = 0; from < 0 && k < n; k++)
			if (twt_check(p, LONG, (uint64_t)k) == LONG)
				from = k;
		check(from >= 0 && twt_check(p, (size_t)len, (uint64_t)from) == (size_t)len);
		pan_free(p);
	}
	for (int i = 0; i < n; i++)
		for (int k = 0; k < 2; k++)
			pan_mp_finish_send(tickets[k][i]);
	pan_mp_end();
	free(data);
}

static void mx(uint32_t n, uint32_t first_id)
{
	uint32_t rank, size, id, result, in, out;
	mx_segment_t from = {&out, sizeof(out)}, to = {&in, sizeof(in)};
	mx_endpoint_addr_t peer;
	mx_endpoint_t ep;
	mx_request_t r;
	mx_status_t s;
	uint64_t nic;

	check(mx_init() == MX_SUCCESS);
	mx_set_error_handler(MX_ERRORS_RETURN);
	check(mx_job_info(&rank, &size) == MX_SUCCESS && mx_job_info(NULL, NULL) == MX_SUCCESS);
	check((int)rank == pan_my_pid() && size == n);
	check(mx_job_peer(0, &nic, &id) == MX_FAILURE);
	check(mx_open_endpoint(MX_ANY_NIC, getenv("PMIX_RANK") ? MX_ANY_ENDPOINT : first_id + rank,
			       KEY, NULL, 0, &ep) == MX_SUCCESS);
	check(mx_job_exchange(ep) == MX_SUCCESS);
	check(mx_job_peer(n, &nic, &id) == MX_NIC_NOT_FOUND);
	check(mx_job_connect(ep, n, KEY, 1, &peer) == MX_NIC_NOT_FOUND);
	check(mx_job_peer(0, NULL, &id) == MX_FAILURE);
	for (uint32_t i = 0; i < n; i++) {
		check(mx_job_peer(i, &nic, &id) == MX_SUCCESS);
		check(mx_job_connect(ep, i, KEY, 20, &peer) == MX_SUCCESS);
		out = rank;
		check(mx_issend(ep, &from, 1, peer, rank, NULL, &r) == MX_SUCCESS);
		mx_forget(ep, &r);
	}
	for (uint32_t i = 0; i < n; i++) {
		check(mx_irecv(ep, &to, 1, i, MX_MATCH_MASK_NONE, NULL, &r) == MX_SUCCESS);
		check(mx_wait(ep, &r, 30000, &s, &result) == MX_SUCCESS && result && in == i);
	}
	/* As a fence: nobody closes while others may still send. */
	check(mx_job_exchange(ep) == MX_SUCCESS);
	check(mx_close_endpoint(ep) == MX_SUCCESS);
	check(mx_job_exchange(ep) == MX_BAD_ENDPOINT);
	check(mx_finalize() == MX_SUCCESS);
	check(mx_job_info(&rank, &size) == MX_NOT_INITIALIZED);
}

int main(int argc, char **argv)
{
	int n;

	pan_init(&argc, argv);
	n = argc > 1 ? atoi(argv[1]) : 1;
	check(n > 0 && n <= 256 && pan_nr_platforms() == n);
	/* Again where a launcher keeps one's second life apart from others' first. */
	for (int i = 0; i < (getenv("PMIX_RANK") ? 2 : 1); i++) {
		panda(n);
		mx((uint32_t)n, 100);
	}
	pan_end();
	/* The job may be joined again. */
	pan_init(NULL, NULL);
	check(pan_nr_platforms() == n);
	pan_end();
	return 0;
}
