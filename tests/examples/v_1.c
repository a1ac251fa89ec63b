/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Example V.1: post of a non-blocking non-contiguous synchronous send. The
 * "remotehost" of the text is this one; a child is the peer that receives.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "myriexpress.h"

/* The default error handler reports what fails and ends the program. */
static void receive_it(int ready)
{
	mx_endpoint_t endpoint;
	mx_request_t recv_handle;
	mx_segment_t buffer_desc;
	mx_status_t status;
	uint8_t data[67];
	uint32_t result;

	mx_init();
	mx_open_endpoint(0, 6, 0x12345678, NULL, 0, &endpoint);
	if (write(ready, "!", 1) != 1)
		_exit(1);
	buffer_desc.segment_ptr = data;
	buffer_desc.segment_length = sizeof(data);
	mx_irecv(endpoint, &buffer_desc, 1, 0x1111111122223333L, MX_MATCH_MASK_NONE, NULL,
		 &recv_handle);
	mx_wait(endpoint, &recv_handle, MX_INFINITE, &status, &result);
	if (!result || status.code != MX_STATUS_SUCCESS || status.length != sizeof(data))
		_exit(1);
	/* The gathered bytes: 17 from the middle of the workspace, then 50 from its start. */
	for (int i = 0; i < 67; i++)
		if (data[i] != (i < 17 ? 64 + i : i - 17))
			_exit(1);
	mx_close_endpoint(endpoint);
	mx_finalize();
	_exit(0);
}

static pid_t start_peer(void)
{
	char job[32], c;
	int fd[2];
	pid_t pid;

	/* Endpoint 6 may be in use by another program of this host. */
	snprintf(job, sizeof(job), "v_1-%d", (int)getpid());
	setenv("TAGWIRE_JOB", job, 1);
	if (pipe(fd) < 0 || (pid = fork()) < 0) {
		perror("v_1");
		exit(1);
	}
	if (pid == 0) {
		close(fd[0]);
		receive_it(fd[1]);
	}
	close(fd[1]);
	if (read(fd[0], &c, 1) != 1)
		exit(1);
	close(fd[0]);
	return pid;
}

int main(void)
{
	mx_return_t rc;
	mx_endpoint_t endpoint;
	mx_endpoint_addr_t destination;
	uint64_t nic_id;
	mx_request_t send_handle;
	mx_segment_t buffer_desc[2];
	uint8_t workspace[256];
	uint64_t match_send;
	mx_status_t status;
	uint32_t result;
	char remotehost[256] = "";
	pid_t peer;
	int code;

	peer = start_peer();
	if (gethostname(remotehost, sizeof(remotehost) - 1) < 0)
		return 1;
	for (int i = 0; i < 256; i++)
		workspace[i] = (uint8_t)i;

	/* Init and open endpoint */
	rc = mx_init();
	if (rc != MX_SUCCESS)
		return 1;
	rc = mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, 0x12345678, NULL, 0, &endpoint);
	if (rc != MX_SUCCESS)
		return 1;

	/*
	 * Build address of remote endpoint, hostname = remotehost,
	 * Endpoint ID = 6, Filter key = 0x12345678
	 */
	rc = mx_hostname_to_nic_id(remotehost, &nic_id);
	if (rc != MX_SUCCESS)
		return 1;
	rc = mx_connect(endpoint, nic_id, 6, 0x12345678, MX_INFINITE, &destination);
	if (rc != MX_SUCCESS)
		return 1;

	/* post a synchronous non-contiguous send composed of 2 contiguous segments */
	buffer_desc[0].segment_ptr = &(workspace[64]);
	buffer_desc[0].segment_length = 17;
	buffer_desc[1].segment_ptr = &(workspace[0]);
	buffer_desc[1].segment_length = 50;
	match_send = 0x1111111122223333L;

	rc = mx_issend(endpoint, buffer_desc, 2, destination, match_send, NULL, &send_handle);
	if (rc != MX_SUCCESS)
		return 1;

	/* safe to modify segment list here */
	memset(buffer_desc, 0, sizeof(buffer_desc));

	/* wait for it to be safe to change values in workspace */
	do {
		rc = mx_ibuffered(endpoint, &send_handle, &result);
	} while (rc == MX_SUCCESS && !result);

	/* Now OK to modify data buffer, "workspace" */
	memset(workspace, 0xff, sizeof(workspace));

	/*
	 * wait for send completion. mx_wait could be used to release the
	 * CPU instead of looping on mx_test, see section VII.2
	 */
	do {
		rc = mx_test(endpoint, &send_handle, &status, &result);
	} while (rc == MX_SUCCESS && !result);
	if (rc != MX_SUCCESS || status.code != MX_STATUS_SUCCESS)
		return 1;

	/* endpoint closing and finalize */
	mx_close_endpoint(endpoint);
	mx_finalize();

	if (waitpid(peer, &code, 0) != peer || !WIFEXITED(code) || WEXITSTATUS(code) != 0) {
		fprintf(stderr, "v_1: the peer did not receive what was sent\n");
		return 1;
	}
	return 0;
}
