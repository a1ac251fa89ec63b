/* SPDX-License-Identifier: BSD-2-Clause */
/* The least Panda program: a platform of one sends itself a message. */
#include <pan_mp.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	int port, size, len;
	char *in;

	pan_init(&argc, argv);
	pan_mp_init(&argc, argv);
	port = pan_mp_register_port(NULL);
	pan_start();
	pan_mp_finish_send(pan_mp_send(pan_my_pid(), port, "hello", 6, PAN_MP_NORMAL));
	in = pan_mp_finish_receive(pan_mp_receive(port), &size, &len);
	if (!in || len != 6 || strcmp(in, "hello")) {
		fprintf(stderr, "got %d bytes\n", len);
		return 1;
	}
	pan_free(in);
	pan_mp_end();
	pan_end();
	return 0;
}
