/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Example V.2: post of an asynchronous non-contiguous receive with a context
 * value. A child is the peer that sends.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "myriexpress.h"

typedef struct {
	int number;
} some_private_struct;

struct place {
	uint64_t nic_id;
	uint32_t endpoint_id;
};

/* The default error handler reports what fails and ends the program. */
static void send_it(int from_parent)
{
	mx_endpoint_t endpoint;
	mx_endpoint_addr_t destination;
	mx_request_t send_handle;
	mx_segment_t buffer_desc;
	struct place place;
	mx_status_t status;
	uint8_t data[67];
	uint32_t result;

	for (int i = 0; i < 67; i++)
		data[i] = (uint8_t)(i + 100);
	if (read(from_parent, &place, sizeof(place)) != (ssize_t)sizeof(place))
		_exit(1);
	mx_init();
	mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, 0, NULL, 0, &endpoint);
	mx_connect(endpoint, place.nic_id, place.endpoint_id, 0x12345678, MX_INFINITE,
		   &destination);
	buffer_desc.segment_ptr = data;
	buffer_desc.segment_length = sizeof(data);
	/* Part B, the 16 bits that the receive does not look at, is abcd. */
	mx_isend(endpoint, &buffer_desc, 1, destination, UINT64_C(0x11111111abcd3333), NULL,
		 &send_handle);
	mx_wait(endpoint, &send_handle, MX_INFINITE, &status, &result);
	mx_close_endpoint(endpoint);
	mx_finalize();
	_exit(result && status.code == MX_STATUS_SUCCESS ? 0 : 1);
}

static pid_t start_peer(int *to_peer)
{
	char job[32];
	int fd[2];
	pid_t pid;

	snprintf(job, sizeof(job), "v_2-%d", (int)getpid());
	setenv("TAGWIRE_JOB", job, 1);
	if (pipe(fd) < 0 || (pid = fork()) < 0) {
		perror("v_2");
		exit(1);
	}
	if (pid == 0) {
		close(fd[1]);
		send_it(fd[0]);
	}
	close(fd[0]);
	*to_peer = fd[1];
	return pid;
}

int main(void)
{
	mx_return_t rc;
	mx_endpoint_t endpoint;
	mx_request_t recv_handle;
	mx_segment_t buffer_desc[2];
	uint8_t workspace[256] = {0};
	uint64_t match_recv;
	uint64_t match_mask;
	mx_status_t status;
	some_private_struct my_context = {42};
	uint32_t result;
	mx_endpoint_addr_t self;
	struct place place = {0, 0};
	int to_peer, code;
	pid_t peer;

	peer = start_peer(&to_peer);

	/* Init and open local endpoint */
	rc = mx_init();
	if (rc != MX_SUCCESS)
		return 1;
	rc = mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, 0x12345678, NULL, 0, &endpoint);
	if (rc != MX_SUCCESS)
		return 1;
	mx_get_endpoint_addr(endpoint, &self);
	mx_decompose_endpoint_addr(self, &place.nic_id, &place.endpoint_id);

	/*
	 * post an asynchronous non-contiguous receive with a
	 * wildcard for the middle 16 bits of the match data (part B)
	 */
	buffer_desc[0].segment_ptr = &(workspace[64]);
	buffer_desc[0].segment_length = 17;
	buffer_desc[1].segment_ptr = &(workspace[0]);
	buffer_desc[1].segment_length = 50;
	match_recv = UINT64_C(0x1111111100003333);
	match_mask = UINT64_C(0xffffffff0000ffff);
	rc = mx_irecv(endpoint, buffer_desc, 2, match_recv, match_mask, &my_context, &recv_handle);
	if (rc != MX_SUCCESS)
		return 1;

	/*
	 * it is not yet safe to change values in workspace,
	 * though it is safe to modify buffer_desc
	 */
	buffer_desc[0].segment_ptr = NULL;
	if (write(to_peer, &place, sizeof(place)) != (ssize_t)sizeof(place))
		return 1;

	/* wait for receive completion */
	rc = mx_wait(endpoint, &recv_handle, MX_INFINITE, &status, &result);
	if (rc != MX_SUCCESS || !result || status.code != MX_STATUS_SUCCESS)
		return 1;

	/*
	 * status.context now holds &my_context, and
	 * it is now safe to write into workspace
	 */
	if (status.context != &my_context || status.length != 67 ||
	    status.match_info != UINT64_C(0x11111111abcd3333))
		return 1;
	for (int i = 0; i < 67; i++)
		if (workspace[i < 17 ? 64 + i : i - 17] != i + 100) {
			fprintf(stderr, "v_2: byte %d did not arrive\n", i);
			return 1;
		}

	/* endpoint closing and finalize */
	mx_close_endpoint(endpoint);
	mx_finalize();

	if (waitpid(peer, &code, 0) != peer || !WIFEXITED(code) || WEXITSTATUS(code) != 0)
		return 1;
	return 0;
}
