/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program may define functions with names like `send' and `index', which are the C
 * library's, too. This one defines all of them, each ending it when called, and then two
 * processes, ranks 0 and 1, talk by every interface.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <time.h>

#include "mx_extensions.h"
#include "pan_mp.h"
#include "launch/must.h"

static void called(const char *name)
{
	fprintf(stderr, "the program's own %s() was called\n", name);
	abort();
}

/* Under other names here, as headers may declare these otherwise. */
#define WORD(name)                                                                                 \
	void own_##name(void) __asm__(#name);                                                      \
	void own_##name(void)                                                                      \
	{                                                                                          \
		called(#name);                                                                     \
	}
#include "lib/plain_words.def"

enum { LONG = 300000, SHORT = 8 };
static const size_t lengths[] = {SHORT, LONG};
static char out[LONG], in[LONG];

/* Long enough for the other side to fall asleep. */
static void pause_a_little(void)
{
	thrd_sleep(&(struct timespec){0, 20000000}, NULL);
}

static void fill(void)
{
	memset(in, 0, sizeof(in));
	for (size_t i = 0; i < LONG; i++)
		out[i] = (char)(i * 7 + i / 251);
}

static void panda(void)
{
	int port, size, len;

	pan_mp_init(NULL, NULL);
	port = pan_mp_register_port(NULL);
	pan_start();
	for (int i = 0; i < 2; i++) {
		int ticket = pan_mp_receive(port);
		void *p;

		pause_a_little();
		pan_mp_finish_send(pan_mp_send(!rank, port, out, (int)lengths[i], PAN_MP_NORMAL));
		p = pan_mp_finish_receive(ticket, &size, &len);
		check(p && len == (int)lengths[i] && memcmp(p, out, lengths[i]) == 0);
		pan_free(p);
	}
	pan_mp_end();
}

static void mx(void)
{
	mx_endpoint_addr_t peer;
	mx_endpoint_t ep;
	mx_request_t s, r;
	mx_status_t st;
	uint32_t done;

	check(mx_init() == MX_SUCCESS);
	check(mx_open_endpoint(MX_ANY_NIC, 100 + (uint32_t)rank, 1, NULL, 0, &ep) == MX_SUCCESS);
	check(mx_job_exchange(ep) == MX_SUCCESS);
	check(mx_job_connect(ep, !rank, 1, MX_INFINITE, &peer) == MX_SUCCESS);
	for (int i = 0; i < 2; i++) {
		mx_segment_t from = {out, (uint32_t)lengths[i]}, into = {in, (uint32_t)lengths[i]};

		check(mx_irecv(ep, &into, 1, 1, ~0ull, NULL, &r) == MX_SUCCESS);
		pause_a_little();
		check(mx_isend(ep, &from, 1, peer, 1, NULL, &s) == MX_SUCCESS);
		check(mx_wait(ep, &s, MX_INFINITE, &st, &done) == MX_SUCCESS && done);
		check(mx_wait(ep, &r, MX_INFINITE, &st, &done) == MX_SUCCESS && done);
		check(memcmp(in, out, lengths[i]) == 0);
	}
	check(mx_job_exchange(ep) == MX_SUCCESS);
	check(mx_close_endpoint(ep) == MX_SUCCESS && mx_finalize() == MX_SUCCESS);
}

/* MCAPI ------------------------------------------------------------------------- */

static mcapi_endpoint_t mine, theirs;

static void finish(mcapi_request_t *request)
{
	size_t size;

	MC(mcapi_wait(request, &size, &status, MCAPI_INFINITE));
}

/* Both have come here. */
static void meet(void)
{
	char word = 0;
	size_t size;

	MC(mcapi_msg_send(mine, theirs, &word, 1, 0, &status));
	MC(mcapi_msg_recv(mine, &word, 1, &size, &status));
}

static void packets(void)
{
	mcapi_endpoint_t from, to;
	mcapi_pktchan_send_hndl_t s;
	mcapi_pktchan_recv_hndl_t r;
	mcapi_request_t request;

	MC(from = rank ? mcapi_get_endpoint(0, 2, &status) : mcapi_create_endpoint(2, &status));
	MC(to = rank ? mcapi_create_endpoint(2, &status) : mcapi_get_endpoint(1, 2, &status));
	if (rank) {
		MC(mcapi_connect_pktchan_i(from, to, &request, &status));
		finish(&request);
	}
	meet();
	if (rank)
		MC(mcapi_open_pktchan_recv_i(&r, to, &request, &status));
	else
		MC(mcapi_open_pktchan_send_i(&s, from, &request, &status));
	finish(&request);
	for (int i = 0; i < 2; i++) {
		void *packet;
		size_t size;

		pause_a_little();
		if (!rank) {
			MC(mcapi_pktchan_send(s, out, lengths[i], &status));
			continue;
		}
		MC(mcapi_pktchan_recv(r, &packet, &size, &status));
		check(size == lengths[i] && memcmp(packet, out, size) == 0);
		MC(mcapi_pktchan_free(packet, &status));
	}
}

static void scalars(void)
{
	mcapi_endpoint_t from, to;
	mcapi_sclchan_send_hndl_t s;
	mcapi_sclchan_recv_hndl_t r;
	mcapi_request_t request;

	MC(from = rank ? mcapi_get_endpoint(0, 3, &status) : mcapi_create_endpoint(3, &status));
	MC(to = rank ? mcapi_create_endpoint(3, &status) : mcapi_get_endpoint(1, 3, &status));
	if (!rank) {
		MC(mcapi_connect_sclchan_i(from, to, &request, &status));
		finish(&request);
	}
	meet();
	if (rank)
		MC(mcapi_open_sclchan_recv_i(&r, to, &request, &status));
	else
		MC(mcapi_open_sclchan_send_i(&s, from, &request, &status));
	finish(&request);
	for (uint64_t i = 0; i < 1000; i++) {
		uint64_t word = i;

		if (!rank)
			MC(mcapi_sclchan_send_uint64(s, word, &status));
		else
			MC(word = mcapi_sclchan_recv_uint64(r, &status));
		check(word == i);
	}
}

static void begin_mcapi(void)
{
	mcapi_version_t version;

	MC(mcapi_initialize((mcapi_node_t)rank, &version, &status));
	MC(mine = mcapi_create_endpoint(1, &status));
	MC(theirs = mcapi_get_endpoint((mcapi_node_t)!rank, 1, &status));
}

static void end_mcapi(void)
{
	meet();
	MC(mcapi_finalize(&status));
}

/* MRAPI ------------------------------------------------------------------------- */

enum { TURNS = 2000 };

static void locks(void)
{
	static int *count;
	mrapi_shmem_hndl_t memory;
	mrapi_mutex_hndl_t mutex;
	mrapi_key_t key;

	if (!rank) {
		MR(mutex = mrapi_mutex_create(1, NULL, &status));
		MR(memory = mrapi_shmem_create(1, sizeof(*count), NULL, 0, NULL, &status));
	}
	meet();
	MR(mutex = mrapi_mutex_get(1, &status));
	MR(memory = mrapi_shmem_get(1, &status));
	MR(count = mrapi_shmem_attach(memory, &status));
	for (int i = 0; i < TURNS; i++) {
		MR(mrapi_mutex_lock(mutex, &key, MRAPI_INFINITE, &status));
		++*count;
		MR(mrapi_mutex_unlock(mutex, &key, &status));
	}
	meet();
	check(*count == 2 * TURNS);
	MR(mrapi_shmem_detach(memory, &status));
}

/* Rank 1 writes the bytes of rank 0 and reads them back. */
static void remote_memory(void)
{
	mrapi_rmem_hndl_t h;

	memset(in, 0, sizeof(in));
	if (!rank)
		MR(mrapi_rmem_create(1, in, MRAPI_RMEM_DEFAULT, NULL, LONG, &status));
	meet();
	if (rank) {
		MR(h = mrapi_rmem_get(1, MRAPI_RMEM_DEFAULT, &status));
		MR(mrapi_rmem_attach(h, &status));
		MR(mrapi_rmem_write(h, 0, out, 0, LONG, 1, LONG, LONG, &status));
		MR(mrapi_rmem_read(h, 0, in, LONG, 0, LONG, 1, LONG, LONG, &status));
		MR(mrapi_rmem_detach(h, &status));
	}
	meet();
	check(memcmp(in, out, LONG) == 0);
}

static void mrapi(int one_host)
{
	mrapi_parameters_t parameters = 0;
	mrapi_info_t info;

	MR(mrapi_initialize(1, (mrapi_node_t)rank, &parameters, &info, &status));
	if (one_host)
		locks();
	remote_memory();
	MR(mrapi_finalize(&status));
}

int main(int argc, char **argv)
{
	pan_init(&argc, argv);
	rank = (unsigned)pan_my_pid();
	check(pan_nr_platforms() == 2);
	fill();
	panda();
	mx();
	begin_mcapi();
	packets();
	scalars();
	mrapi(!getenv("TAGWIRE_NODES"));
	end_mcapi();
	pan_end();
	return 0;
}
