/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MX: rank 0 sends a message, rank 1 receives it.
 *	cc hello.c -o hello $(pkg-config --cflags --libs myriexpress)
 *	mpirun -np 2 ./hello
 */
#include <mx_extensions.h>
#include <stdio.h>

enum { FILTER = 1, TAG = 7 };

int main(void)
{
	char text[16] = "";
	mx_segment_t segment = {text, sizeof(text)};
	mx_endpoint_t endpoint;
	mx_endpoint_addr_t peer;
	mx_request_t request;
	mx_status_t status;
	uint32_t rank, size, done;

	mx_init();
	mx_job_info(&rank, &size);
	mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, FILTER, NULL, 0, &endpoint);
	mx_job_exchange(endpoint);
	if (rank == 0) {
		snprintf(text, sizeof(text), "hello");
		mx_job_connect(endpoint, 1, FILTER, MX_INFINITE, &peer);
		mx_isend(endpoint, &segment, 1, peer, TAG, NULL, &request);
	} else {
		mx_irecv(endpoint, &segment, 1, TAG, MX_MATCH_MASK_NONE, NULL, &request);
	}
	mx_wait(endpoint, &request, MX_INFINITE, &status, &done);
	printf("rank %u: %s, %s\n", rank, mx_strstatus(status.code), text);
	mx_close_endpoint(endpoint);
	mx_finalize();
	return 0;
}
