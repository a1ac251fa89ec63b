/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MCAPI: node 0 sends a message, node 1 receives it.
 *	cc node.c -o node $(pkg-config --cflags --libs mcapi)
 *	./node 1 & ./node 0
 */
#include <mcapi.h>
#include <stdio.h>
#include <stdlib.h>

enum { PORT = 7, PRIORITY = 0 };

int main(int argc, char **argv)
{
	mcapi_node_t node = argc > 1 ? atoi(argv[1]) : 0;
	mcapi_endpoint_t mine, theirs;
	mcapi_version_t version;
	mcapi_status_t status;
	char text[16] = "";
	size_t length;

	mcapi_initialize(node, &version, &status);
	if (status != MCAPI_SUCCESS) {
		fprintf(stderr, "node %u: %s\n", node, mcapi_strerror(status));
		return 1;
	}
	mine = mcapi_create_endpoint(PORT, &status);
	if (node == 0) {
		theirs = mcapi_get_endpoint(1, PORT, &status); /* waits for node 1 */
		mcapi_msg_send(mine, theirs, "hello", 6, PRIORITY, &status);
	} else {
		mcapi_msg_recv(mine, text, sizeof(text), &length, &status);
	}
	printf("node %u: %s %s\n", node, mcapi_strerror(status), text);
	mcapi_finalize(&status);
	return 0;
}
