/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs of Panda that hang.
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/compiler.h"
#include "pan_mp.h"
#include "why/whyt.h"

static int port, second;

static void begin(int me, int n)
{
	pan_init(NULL, NULL);
	pan_mp_init(NULL, NULL);
	whyt_must(pan_my_pid() == me && pan_nr_platforms() == n);
	port = pan_mp_register_port(NULL);
	second = pan_mp_register_port(NULL);
	pan_start();
}

static void receive(int from)
{
	int len;

	pan_free(pan_mp_finish_receive(pan_mp_receive(from), NULL, &len));
}

/* They know each other. */
static void greet(int me, int n)
{
	int other = n - 1 - me;

	pan_mp_finish_send(pan_mp_send(other, port, &port, sizeof port, PAN_MP_NORMAL));
	receive(port);
}

static void both_receive(int me, int n)
{
	begin(me, n);
	greet(me, n);
	receive(port);
}

static void wrong_port(int me, int n)
{
	begin(me, n);
	greet(me, n);
	if (me == 1)
		pan_mp_finish_send(pan_mp_send(0, second, &port, sizeof port, PAN_MP_NORMAL));
	receive(port);
}

static void computes(int me, int n)
{
	begin(me, n);
	greet(me, n);
	if (me == 1)
		whyt_compute();
	receive(port);
}

/* Sends to a platform that never starts, and then receives from it. */
static void to_nobody(int me, int n, const char *limit)
{
	if (me == 1)
		whyt_sleep();
	setenv("TAGWIRE_CONNECT_TIMEOUT", limit, 1);
	begin(me, n);
	pan_mp_finish_send(pan_mp_send(1, port, &port, sizeof port, PAN_MP_NORMAL));
	receive(port);
}

static void not_started(int me, int n)
{
	to_nobody(me, n, "100000");
}

static void given_up(int me, int n)
{
	to_nobody(me, n, "100");
}

#define P0 "latform 0 (process {0}, why_panda)"
#define P1 "latform 1 (process {1}, why_panda)"

static const struct whyt_case cases[] = {
	{"both_receive",
	 2,
	 both_receive,
	 0,
	 {"P" P0 " waits for a message for port 1 from p" P1 ", and p" P1
	  " waits for a message for port 1 from p" P0 ".",
	  "None of them has sent what the other waits for.",
	  "One of them must send before it receives."}},
	{"wrong_port",
	 2,
	 wrong_port,
	 0,
	 {"P" P0 " waits for a message for port 1 from p" P1 ", and p" P1
	  " waits for a message for port 1 from p" P0 ".",
	  "A message for port 2 (4 bytes) from p" P1
	  " waits unmatched: the receive waits for port 1.",
	  "Correct the tag or port of the send or of the receive."}},
	{"computes",
	 2,
	 computes,
	 0,
	 {"P" P0 " waits for a message for port 1 from p" P1 ".",
	  "P" P1 " has not called Tagwire for at least * s and computes.",
	  "Look at what it does: gdb -p {1}."}},
	{"not_started",
	 2,
	 not_started,
	 0,
	 {"P" P0 " waits for a connection to platform 1 of this host.",
	  "Platform 1 of this host is not reached: it is not open.",
	  "Start its program, with the same TAGWIRE_JOB, TAGWIRE_PORT and TAGWIRE_PROVIDERS."}},
	{"given_up",
	 2,
	 given_up,
	 0,
	 {"P" P0 " waits for a message for port 1 from platform 1 of this host.",
	  "Platform 1 of this host was not reached, and the connection was given up: it is not "
	  "open.",
	  "Start its program, with the same TAGWIRE_JOB, TAGWIRE_PORT and TAGWIRE_PROVIDERS."}},
};

int main(int argc, char **argv)
{
	return whyt_main(argc, argv, cases, tw_countof(cases));
}
