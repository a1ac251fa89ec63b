/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MCAPI 7.2: discovery. Only node 0 and its port 0 are known beforehand. Nodes
 * register their dynamic endpoints there and ask for those of others.
 */
#include "examples/mcapi_common.h"

#define ROOT_NODE 0
#define ROOT_PORT 0
#define NODES 6 /* without the root */

enum request { REGISTER, LOOK_UP, GOOD_BYE };

struct request_msg {
	enum request request;
	mcapi_endpoint_t reply_to;
	int name;
};

struct reply_msg {
	int known;
	mcapi_endpoint_t endpoint;
};

static void start(mcapi_node_t node)
{
	mcapi_version_t version;
	mcapi_status_t status;

	mcapi_initialize(node, &version, &status);
	CHECK_STATUS(status);
}

static void root(void)
{
	mcapi_endpoint_t root_endpoint, table[NODES + 1];
	int known[NODES + 1] = {0}, left = NODES;
	mcapi_status_t status;

	start(ROOT_NODE);
	root_endpoint = mcapi_create_endpoint(ROOT_PORT, &status);
	CHECK_STATUS(status);
	while (left) {
		struct request_msg msg;
		struct reply_msg reply = {0, MCAPI_NULL};
		size_t size;

		mcapi_msg_recv(root_endpoint, &msg, sizeof(msg), &size, &status);
		CHECK_STATUS(status);
		CHECK(size == sizeof(msg) && msg.name >= 1 && msg.name <= NODES);
		if (msg.request == REGISTER) {
			known[msg.name] = 1;
			table[msg.name] = msg.reply_to;
		} else if (msg.request == LOOK_UP) {
			reply.known = known[msg.name];
			if (reply.known)
				reply.endpoint = table[msg.name];
			mcapi_msg_send(root_endpoint, msg.reply_to, &reply, sizeof(reply), 0,
				       &status);
			CHECK_STATUS(status);
		} else {
			left--;
		}
	}
	mcapi_finalize(&status);
	CHECK_STATUS(status);
}

/* Each looks for its neighbour until that has registered, then greets it. */
static void discover(int name)
{
	int neighbour = name % NODES + 1, greeting = name, heard = 0;
	mcapi_endpoint_t root_endpoint, control, data;
	struct reply_msg reply = {0, MCAPI_NULL};
	struct request_msg msg;
	mcapi_status_t status;
	size_t size;

	start((mcapi_node_t)name);
	control = mcapi_create_endpoint(MCAPI_PORT_ANY, &status);
	CHECK_STATUS(status);
	data = mcapi_create_endpoint(MCAPI_PORT_ANY, &status);
	CHECK_STATUS(status);
	root_endpoint = mcapi_get_endpoint(ROOT_NODE, ROOT_PORT, &status);
	CHECK_STATUS(status);
	msg = (struct request_msg){REGISTER, data, name};
	mcapi_msg_send(control, root_endpoint, &msg, sizeof(msg), 0, &status);
	CHECK_STATUS(status);
	while (!reply.known) {
		msg = (struct request_msg){LOOK_UP, control, neighbour};
		mcapi_msg_send(control, root_endpoint, &msg, sizeof(msg), 0, &status);
		CHECK_STATUS(status);
		mcapi_msg_recv(control, &reply, sizeof(reply), &size, &status);
		CHECK_STATUS(status);
		CHECK(size == sizeof(reply));
	}
	mcapi_msg_send(data, reply.endpoint, &greeting, sizeof(greeting), 0, &status);
	CHECK_STATUS(status);
	mcapi_msg_recv(data, &heard, sizeof(heard), &size, &status);
	CHECK_STATUS(status);
	CHECK(size == sizeof(heard) && heard % NODES + 1 == name);
	msg = (struct request_msg){GOOD_BYE, control, name};
	mcapi_msg_send(control, root_endpoint, &msg, sizeof(msg), 0, &status);
	CHECK_STATUS(status);
	mcapi_finalize(&status);
	CHECK_STATUS(status);
}

static int node_process(void *arg, int fd)
{
	(void)fd;
	discover(*(int *)arg);
	return 0;
}

int main(void)
{
	struct twt_child child[NODES + 1];

	job_of_its_own("mcapi_7_2");
	for (int name = 1; name <= NODES; name++)
		twt_spawn(&child[name], node_process, &name);
	/* The root may come last. */
	start_process(&child[0], root);
	join_processes(child, NODES + 1);
	return 0;
}
