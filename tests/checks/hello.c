/* SPDX-License-Identifier: BSD-2-Clause */
/* The least MX program: an endpoint sends itself a message. */
#include <myriexpress.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
	char out[] = "hello", in[sizeof(out)] = "";
	mx_segment_t from = {out, sizeof(out)}, to = {in, sizeof(in)};
	mx_endpoint_t endpoint;
	mx_endpoint_addr_t self;
	mx_request_t send, receive;
	mx_status_t status;
	uint32_t done;

	mx_init();
	mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, 1, NULL, 0, &endpoint);
	mx_get_endpoint_addr(endpoint, &self);
	mx_irecv(endpoint, &to, 1, 7, MX_MATCH_MASK_NONE, NULL, &receive);
	mx_isend(endpoint, &from, 1, self, 7, NULL, &send);
	mx_wait(endpoint, &send, MX_INFINITE, &status, &done);
	mx_wait(endpoint, &receive, MX_INFINITE, &status, &done);
	mx_close_endpoint(endpoint);
	mx_finalize();

	if (status.code != MX_STATUS_SUCCESS || strcmp(in, out)) {
		fprintf(stderr, "got %s, \"%s\"\n", mx_strstatus(status.code), in);
		return 1;
	}
	return 0;
}
