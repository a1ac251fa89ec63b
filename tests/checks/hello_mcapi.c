/* SPDX-License-Identifier: BSD-2-Clause */
/* The least MCAPI program: a node sends itself a message. */
#include <mcapi.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
	char in[6] = "";
	mcapi_endpoint_t endpoint;
	mcapi_version_t version;
	mcapi_status_t status;
	size_t size;

	mcapi_initialize(1, &version, &status);
	endpoint = mcapi_create_endpoint(MCAPI_PORT_ANY, &status);
	mcapi_msg_send(endpoint, endpoint, "hello", 6, 0, &status);
	if (status == MCAPI_SUCCESS)
		mcapi_msg_recv(endpoint, in, sizeof(in), &size, &status);
	if (status != MCAPI_SUCCESS || strcmp(in, "hello")) {
		fprintf(stderr, "got %s, \"%s\"\n", mcapi_strerror(status), in);
		return 1;
	}
	mcapi_finalize(&status);
	return status;
}
