/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MCAPI 7.5: packet processing. A load balancer sends work to four workers over
 * packet channels; each acknowledges over a scalar channel when it is ready for
 * more. First the workers are threads, then processes.
 */
#include <stdbool.h>
#include <stdint.h>

#include "examples/mcapi_common.h"

enum { WORKER_REQUEST_PORT_ID, WORKER_ACK_PORT_ID };

#define NUM_WORKERS 4
#define PACKETS 20000

typedef struct {
	bool valid;
	int worker, number;
	uint64_t payload;
} PacketInfo;

/* ------------------------------------------------------------------ worker.c */

struct worker {
	mcapi_pktchan_recv_hndl_t work_request_in;
	mcapi_sclchan_send_hndl_t ack_out;
	int worker_num;
};

static void bind_channels(struct worker *w)
{
	mcapi_endpoint_t work_request_in_endpoint, ack_out_endpoint;
	mcapi_request_t request[2];
	mcapi_status_t status;

	/* Static ports, so that the load balancer can look them up. */
	work_request_in_endpoint = mcapi_create_endpoint(WORKER_REQUEST_PORT_ID, &status);
	CHECK_STATUS(status);
	/* The load balancer binds a channel to that endpoint; the open waits for it. */
	mcapi_open_pktchan_recv_i(&w->work_request_in, work_request_in_endpoint, &request[0],
				  &status);
	if (status != MCAPI_ENOT_CONNECTED)
		CHECK_STATUS(status);
	ack_out_endpoint = mcapi_create_endpoint(WORKER_ACK_PORT_ID, &status);
	CHECK_STATUS(status);
	mcapi_open_sclchan_send_i(&w->ack_out, ack_out_endpoint, &request[1], &status);
	if (status != MCAPI_ENOT_CONNECTED)
		CHECK_STATUS(status);
	finish(&request[0]);
	finish(&request[1]);
}

static void do_work(struct worker *w)
{
	mcapi_status_t status;
	int last = -1;

	/* The first thing is an ack: the load balancer knows we're ready. */
	mcapi_sclchan_send_uint8(w->ack_out, 1, &status);
	/* The others may have done all the work before we were ready. */
	if (status == MCAPI_ENOT_HANDLE)
		return;
	CHECK_STATUS(status);
	for (;;) {
		PacketInfo *work_info;
		size_t size;
		bool valid;

		mcapi_pktchan_recv(w->work_request_in, (void **)&work_info, &size, &status);
		CHECK_STATUS(status);
		CHECK(size == sizeof(*work_info));
		valid = work_info->valid;
		if (valid) {
			CHECK(work_info->worker == w->worker_num && work_info->number > last);
			CHECK(work_info->payload == (uint64_t)work_info->number * 2654435761u);
			last = work_info->number;
		}
		mcapi_pktchan_free(work_info, &status);
		CHECK_STATUS(status);
		/* A work request that is marked invalid: we're done. */
		if (!valid)
			break;
		mcapi_sclchan_send_uint8(w->ack_out, 1, &status);
		/* At the end the load balancer closes without waiting for the last acks. */
		if (status != MCAPI_ENOT_HANDLE)
			CHECK_STATUS(status);
	}
}

static void shutdown_worker(struct worker *w)
{
	mcapi_request_t request;
	mcapi_status_t status;

	mcapi_pktchan_recv_close_i(w->work_request_in, &request, &status);
	CHECK_STATUS(status);
	finish(&request);
	mcapi_sclchan_send_close_i(w->ack_out, &request, &status);
	CHECK_STATUS(status);
	finish(&request);
	mcapi_finalize(&status);
	CHECK_STATUS(status);
}

static void worker_spawn_function(int worker_num)
{
	struct worker w = {0, 0, worker_num};
	mcapi_version_t version;
	mcapi_status_t status;

	mcapi_initialize(1 + (mcapi_node_t)worker_num, &version, &status);
	CHECK_STATUS(status);
	bind_channels(&w);
	do_work(&w);
	shutdown_worker(&w);
}

static void *worker_thread(void *arg)
{
	worker_spawn_function(*(int *)arg);
	return NULL;
}

static int worker_process(void *arg, int fd)
{
	(void)fd;
	worker_spawn_function(*(int *)arg);
	return 0;
}

/* ----------------------------------------------------------- load_balancer.c */

static mcapi_pktchan_send_hndl_t work_requests_out[NUM_WORKERS];
static mcapi_sclchan_recv_hndl_t acks_in[NUM_WORKERS];

static mcapi_endpoint_t get(int worker, mcapi_port_t port)
{
	mcapi_status_t status;
	mcapi_endpoint_t endpoint = mcapi_get_endpoint(1 + (mcapi_node_t)worker, port, &status);

	CHECK_STATUS(status);
	return endpoint;
}

static mcapi_endpoint_t create_anonymous(void)
{
	mcapi_status_t status;
	mcapi_endpoint_t endpoint = mcapi_create_endpoint(MCAPI_PORT_ANY, &status);

	CHECK_STATUS(status);
	return endpoint;
}

static void init_worker(int i)
{
	mcapi_endpoint_t out = create_anonymous(), in = create_anonymous();
	mcapi_request_t request;
	mcapi_status_t status;

	/* Bind the channel and open our local send port. */
	mcapi_connect_pktchan_i(out, get(i, WORKER_REQUEST_PORT_ID), &request, &status);
	CHECK_STATUS(status);
	finish(&request);
	mcapi_open_pktchan_send_i(&work_requests_out[i], out, &request, &status);
	CHECK_STATUS(status);
	/* Repeat the process for the acks, from the worker back to us. */
	mcapi_connect_sclchan_i(get(i, WORKER_ACK_PORT_ID), in, &request, &status);
	CHECK_STATUS(status);
	finish(&request);
	mcapi_open_sclchan_recv_i(&acks_in[i], in, &request, &status);
	CHECK_STATUS(status);
	finish(&request);
}

/* A packet that finds its worker busy is dropped, as in the text. */
static void dispatch_packets(void)
{
	int sent = 0;

	for (int number = 0; number < PACKETS || sent < PACKETS / 100; number++) {
		PacketInfo packet_info = {true, number % NUM_WORKERS, number,
					  (uint64_t)number * 2654435761u};
		int worker = packet_info.worker;
		mcapi_status_t status;

		/* Each worker sends back acks when it is ready for more work. */
		int ready = mcapi_sclchan_available(acks_in[worker], &status) > 0;

		CHECK_STATUS(status);
		if (ready) {
			CHECK(mcapi_sclchan_recv_uint8(acks_in[worker], &status) == 1);
			CHECK_STATUS(status);
			mcapi_pktchan_send(work_requests_out[worker], &packet_info,
					   sizeof(packet_info), &status);
			CHECK_STATUS(status);
			sent++;
		}
	}
}

static void shutdown_lb(void)
{
	mcapi_request_t request;
	mcapi_status_t status;

	for (int i = 0; i < NUM_WORKERS; i++) {
		PacketInfo invalid_work = {false, i, 0, 0};

		mcapi_pktchan_send(work_requests_out[i], &invalid_work, sizeof(invalid_work),
				   &status);
		CHECK_STATUS(status);
		mcapi_pktchan_send_close_i(work_requests_out[i], &request, &status);
		CHECK_STATUS(status);
		finish(&request);
		mcapi_sclchan_recv_close_i(acks_in[i], &request, &status);
		CHECK_STATUS(status);
		finish(&request);
	}
}

static void balance(void)
{
	mcapi_version_t version;
	mcapi_status_t status;

	mcapi_initialize(0, &version, &status);
	CHECK_STATUS(status);
	for (int i = 0; i < NUM_WORKERS; i++)
		init_worker(i);
	dispatch_packets();
	shutdown_lb();
	mcapi_finalize(&status);
	CHECK_STATUS(status);
}

int main(void)
{
	struct twt_child child[NUM_WORKERS];
	pthread_t thread[NUM_WORKERS];
	int num[NUM_WORKERS];

	job_of_its_own("mcapi_7_5");
	alarm((unsigned)TWT_LONG);
	for (int i = 0; i < NUM_WORKERS; i++)
		twt_spawn(&child[i], worker_process, &i);
	balance();
	join_processes(child, NUM_WORKERS);
	for (int i = 0; i < NUM_WORKERS; i++) {
		num[i] = i;
		CHECK(pthread_create(&thread[i], NULL, worker_thread, &num[i]) == 0);
	}
	balance();
	for (int i = 0; i < NUM_WORKERS; i++)
		CHECK(pthread_join(thread[i], NULL) == 0);
	return 0;
}
