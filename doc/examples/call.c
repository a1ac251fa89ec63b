/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Panda: platform 1 calls a procedure of platform 0, which replies to the ticket in the call.
 *	cc call.c -o call $(pkg-config --cflags --libs panda)
 *	mpirun -np 2 ./call
 */
#include <pan_mp.h>
#include <stdio.h>

struct call {
	int pid, ticket, value;
};

int main(int argc, char **argv)
{
	int port, reply;

	pan_init(&argc, argv);
	if (pan_nr_platforms() < 1)
		return 1; /* standard error says why */
	if (pan_nr_platforms() < 2) {
		fprintf(stderr, "two platforms are needed: mpirun -np 2 %s\n", argv[0]);
		return 1;
	}
	pan_mp_init(&argc, argv);
	port = pan_mp_register_port(NULL); /* on all platforms, in the same order */
	pan_start();
	if (pan_my_pid() == 0) {
		struct call *call = pan_mp_finish_receive(pan_mp_receive(port), NULL, NULL);

		if (!call)
			return 1; /* standard error says why */
		reply = 2 * call->value;
		pan_mp_finish_send(
			pan_mp_send(call->pid, call->ticket, &reply, sizeof(reply), PAN_MP_NORMAL));
		printf("platform 0: called with %d\n", call->value);
		pan_free(call);
	} else if (pan_my_pid() == 1) {
		struct call call = {pan_my_pid(), pan_mp_receive(PAN_MP_DIRECT_PORT), 21};
		int sent = pan_mp_send(0, port, &call, sizeof(call), PAN_MP_EXTERNAL);
		int *answer = pan_mp_finish_receive(call.ticket, NULL, NULL);

		if (!answer)
			return 1;
		pan_mp_ack_send(sent); /* the reply proves that the call has arrived */
		printf("platform 1: the reply is %d\n", *answer);
		pan_free(answer);
	}
	pan_mp_end();
	pan_end();
	return 0;
}
