/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MCAPI 7.1: static naming. A sender and a receiver know nothing of each other;
 * a third process connects them.
 */
#include <string.h>

#include "examples/mcapi_common.h"

#define SENDER_NODE 0
#define SEND_PORT_ID 17
#define RECEIVER_NODE 1
#define RECV_PORT_ID 37
#define THIRD_NODE 2

#define PACKETS 1000

/* An open before the connect is told so, and completes after it. */
static void check_open(mcapi_status_t status)
{
	if (status != MCAPI_ENOT_CONNECTED)
		CHECK_STATUS(status);
}

static void sender(void)
{
	mcapi_pktchan_send_hndl_t handle;
	mcapi_endpoint_t send_endpoint;
	mcapi_version_t version;
	mcapi_request_t request;
	mcapi_status_t status;

	mcapi_initialize(SENDER_NODE, &version, &status);
	CHECK_STATUS(status);
	send_endpoint = mcapi_create_endpoint(SEND_PORT_ID, &status);
	CHECK_STATUS(status);
	mcapi_open_pktchan_send_i(&handle, send_endpoint, &request, &status);
	check_open(status);
	finish(&request);
	for (int i = 0; i < PACKETS; i++) {
		mcapi_pktchan_send_i(handle, &i, sizeof(i), &request, &status);
		CHECK_STATUS(status);
		finish(&request);
	}
	mcapi_pktchan_send_close_i(handle, &request, &status);
	CHECK_STATUS(status);
	finish(&request);
	mcapi_delete_endpoint(send_endpoint, &status);
	CHECK_STATUS(status);
	mcapi_finalize(&status);
	CHECK_STATUS(status);
}

static void receiver(void)
{
	mcapi_pktchan_recv_hndl_t handle;
	mcapi_endpoint_t receive_endpoint;
	mcapi_version_t version;
	mcapi_request_t request;
	mcapi_status_t status;
	size_t size;
	void *packet;

	mcapi_initialize(RECEIVER_NODE, &version, &status);
	CHECK_STATUS(status);
	receive_endpoint = mcapi_create_endpoint(RECV_PORT_ID, &status);
	CHECK_STATUS(status);
	mcapi_open_pktchan_recv_i(&handle, receive_endpoint, &request, &status);
	check_open(status);
	finish(&request);
	for (int i = 0; i < PACKETS; i++) {
		mcapi_pktchan_recv(handle, &packet, &size, &status);
		CHECK_STATUS(status);
		CHECK(size == sizeof(i) && memcmp(packet, &i, sizeof(i)) == 0);
		mcapi_pktchan_free(packet, &status);
		CHECK_STATUS(status);
	}
	mcapi_pktchan_recv_close_i(handle, &request, &status);
	CHECK_STATUS(status);
	finish(&request);
	mcapi_delete_endpoint(receive_endpoint, &status);
	CHECK_STATUS(status);
	mcapi_finalize(&status);
	CHECK_STATUS(status);
}

static void third_party(void)
{
	mcapi_endpoint_t send_endpoint, receive_endpoint;
	mcapi_version_t version;
	mcapi_request_t request;
	mcapi_status_t status;

	mcapi_initialize(THIRD_NODE, &version, &status);
	CHECK_STATUS(status);
	send_endpoint = mcapi_get_endpoint(SENDER_NODE, SEND_PORT_ID, &status);
	CHECK_STATUS(status);
	receive_endpoint = mcapi_get_endpoint(RECEIVER_NODE, RECV_PORT_ID, &status);
	CHECK_STATUS(status);
	mcapi_connect_pktchan_i(send_endpoint, receive_endpoint, &request, &status);
	CHECK_STATUS(status);
	finish(&request);
	mcapi_finalize(&status);
	CHECK_STATUS(status);
}

int main(void)
{
	struct twt_child child[3];

	job_of_its_own("mcapi_7_1");
	start_process(&child[0], sender);
	start_process(&child[1], receiver);
	start_process(&child[2], third_party);
	join_processes(child, 3);
	return 0;
}
