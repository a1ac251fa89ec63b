/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs of MX that hang. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "mx_extensions.h"
#include "why/whyt.h"

#define KEY 0x77687900u
#define FIRST_ID 741 /* programs of other jobs on this host have low ones */
#define LONG (1 << 20)

static mx_endpoint_t ep;
static char *data;

static void begin(int me)
{
	data = calloc(1, LONG);
	mx_set_error_handler(MX_ERRORS_RETURN);
	whyt_must(data && mx_init() == MX_SUCCESS);
	whyt_must(mx_open_endpoint(0, FIRST_ID + (uint32_t)me, KEY, NULL, 0, &ep) == MX_SUCCESS);
}

/* tests/net/why starts processes on two hosts. */
static uint64_t nic_of(int other)
{
	uint64_t nic;
	uint32_t id;

	if (getenv("TAGWIRE_NODES"))
		whyt_must(mx_job_exchange(ep) == MX_SUCCESS &&
			  mx_job_peer((uint32_t)other, &nic, &id) == MX_SUCCESS);
	else
		whyt_must(mx_board_number_to_nic_id(0, &nic) == MX_SUCCESS);
	return nic;
}

static mx_endpoint_addr_t meet(int other)
{
	uint64_t nic = nic_of(other);
	mx_endpoint_addr_t a;

	while (mx_connect(ep, nic, FIRST_ID + (uint32_t)other, KEY, 1, &a) != MX_SUCCESS)
		usleep(1000);
	return a;
}

static void receive(uint64_t match)
{
	uint32_t result;
	mx_status_t status;
	mx_request_t r;
	mx_segment_t s = {data, LONG};

	whyt_must(mx_irecv(ep, &s, 1, match, MX_MATCH_MASK_NONE, NULL, &r) == MX_SUCCESS);
	mx_wait(ep, &r, MX_INFINITE, &status, &result);
}

static void send(mx_endpoint_addr_t to, uint32_t len, uint64_t match, bool wait)
{
	uint32_t result;
	mx_status_t status;
	mx_request_t r;
	mx_segment_t s = {data, len};

	whyt_must(mx_isend(ep, &s, 1, to, match, NULL, &r) == MX_SUCCESS);
	if (wait)
		mx_wait(ep, &r, MX_INFINITE, &status, &result);
}

static void both_receive(int me, int n)
{
	begin(me);
	meet(n - 1 - me);
	receive((uint64_t)me + 1);
}

static void polling(int me, int n)
{
	mx_segment_t s = {&data, sizeof data};
	uint32_t result = 0;
	mx_status_t status;
	mx_request_t r;

	begin(me);
	meet(n - 1 - me);
	whyt_must(mx_irecv(ep, &s, 1, (uint64_t)me + 1, MX_MATCH_MASK_NONE, NULL, &r) ==
		  MX_SUCCESS);
	while (!result)
		mx_test(ep, &r, &status, &result);
}

static void wrong_tag(int me, int n)
{
	mx_endpoint_addr_t other;

	begin(me);
	other = meet(n - 1 - me);
	if (me == 1)
		send(other, 100, 0x15, true);
	receive(me == 0 ? 0x11 : 0x2);
}

static void both_send(int me, int n)
{
	begin(me);
	send(meet(n - 1 - me), LONG, (uint64_t)me + 1, true);
}

static void computes(int me, int n)
{
	begin(me);
	meet(n - 1 - me);
	if (me == 1)
		whyt_compute();
	receive(7);
}

static void sleeps(int me, int n)
{
	begin(me);
	meet(n - 1 - me);
	if (me == 1)
		whyt_sleep();
	receive(7);
}

static void alone(int me, int n)
{
	(void)n;
	begin(me);
	receive(3);
}

/* Each waits for the next one, and the last one computes. */
static void chain(int me, int n)
{
	begin(me);
	if (me > 0)
		meet(me - 1);
	if (me + 1 == n)
		whyt_compute();
	meet(me + 1);
	receive((uint64_t)me + 1);
}

/* Everybody waits for the first, which waits for anybody; one computes. */
static void many(int me, int n)
{
	begin(me);
	if (me == 0)
		for (int i = 1; i < n; i++)
			meet(i);
	else
		meet(0);
	if (me == 40)
		whyt_compute();
	receive(me == 0 ? 1 : 2);
}

/* As computes(), beside another job that has the same endpoints and is another when it starts. */
static void two_jobs(int me, int n)
{
	char job[128];

	(void)n;
	snprintf(job, sizeof job, "%s-%d", getenv("TAGWIRE_JOB"), me / 2);
	if (me >= 2)
		setenv("TAGWIRE_JOB", job, 1);
	begin(me & 1);
	meet(!(me & 1));
	if (me == 1)
		whyt_compute();
	receive(7);
}

/* It has given up the connection. */
static void given_up(int me, int n)
{
	mx_endpoint_addr_t a;
	uint64_t nic;

	(void)n;
	begin(me);
	whyt_must(mx_board_number_to_nic_id(0, &nic) == MX_SUCCESS);
	whyt_must(mx_connect(ep, nic, FIRST_ID + 1, KEY, 100, &a) != MX_SUCCESS);
	receive(3);
}

/* Rank 1 is of another job. */
static void other_job(int me, int n)
{
	if (me == 1)
		setenv("TAGWIRE_JOB", "why-other", 1);
	if (me == 0)
		given_up(me, n);
	alone(me, n);
}

/* Rank 1 begins again under its name; rank 0 keeps the connection to what it was before. */
static void restarted(int me, int n)
{
	char self[4096] = "";

	if (me == 1 && !getenv("WHYT_AGAIN")) {
		begin(me);
		meet(0);
		setenv("WHYT_AGAIN", "1", 1);
		whyt_must(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
		execl(self, self, "restarted", "1", NULL);
		whyt_must(false);
	}
	alone(me, n);
}

static const struct whyt_case cases[] = {
	{"both_receive",
	 2,
	 both_receive,
	 0,
	 {"Rank 0 (process {0}, why_mx) waits for a message with match information 0x1 from rank 1 "
	  "(process {1}, why_mx), and rank 1 (process {1}, why_mx) waits for a message with match "
	  "information 0x2 from rank 0 (process {0}, why_mx).",
	  "None of them has sent what the other waits for.",
	  "One of them must send before it receives."}},
	{"polling",
	 2,
	 polling,
	 0,
	 {"Rank 0 (process {0}, why_mx) waits for a message with match information 0x1 from rank 1 "
	  "(process {1}, why_mx), and rank 1 (process {1}, why_mx) waits for a message with match "
	  "information 0x2 from rank 0 (process {0}, why_mx).",
	  "None of them has sent what the other waits for.",
	  "One of them must send before it receives."}},
	{"wrong_tag",
	 2,
	 wrong_tag,
	 0,
	 {"Rank 0 (process {0}, why_mx) waits for a message with match information 0x11 from rank "
	  "1 (process {1}, why_mx), and rank 1 (process {1}, why_mx) waits for a message with "
	  "match information 0x2 from rank 0 (process {0}, why_mx).",
	  "A message with match information 0x15 (100 bytes) from rank 1 (process {1}, why_mx) "
	  "waits unmatched: the receive wants 0x11, which differs in bits 0x4.",
	  "Correct the tag or port of the send or of the receive."}},
	{"both_send",
	 2,
	 both_send,
	 0,
	 {"Rank 0 (process {0}, why_mx) waits until rank 1 (process {1}, why_mx) receives its "
	  "message with match information 0x1 (1048576 bytes), and rank 1 (process {1}, why_mx) "
	  "waits until rank 0 (process {0}, why_mx) receives its message with match information "
	  "0x2 (1048576 bytes).",
	  "A message with match information 0x1 (1048576 bytes) from rank 0 (process {0}, why_mx) "
	  "waits unmatched: rank 1 (process {1}, why_mx) has posted no receive.",
	  "Post the receive before the call that waits."}},
	{"computes",
	 2,
	 computes,
	 0,
	 {"Rank 0 (process {0}, why_mx) waits for a message with match information 0x7 from rank 1 "
	  "(process {1}, why_mx).",
	  "Rank 1 (process {1}, why_mx) has not called Tagwire for at least * s and computes.",
	  "Look at what it does: gdb -p {1}."}},
	{"sleeps",
	 2,
	 sleeps,
	 0,
	 {"Rank 0 (process {0}, why_mx) waits for a message with match information 0x7 from rank 1 "
	  "(process {1}, why_mx).",
	  "Rank 1 (process {1}, why_mx) has not called Tagwire for at least * s and sleeps outside "
	  "of it.",
	  "Look at what it does: gdb -p {1}."}},
	{"stopped",
	 2,
	 both_receive,
	 SIGSTOP,
	 {"Rank 0 (process {0}, why_mx) waits for a message with match information 0x1 from rank 1 "
	  "(process {1}, why_mx).",
	  "Rank 1 (process {1}, why_mx) is stopped by a signal.", "Let it go on: kill -CONT {1}."}},
	{"killed",
	 2,
	 both_receive,
	 SIGKILL,
	 {"Rank 0 (process {0}, why_mx) waits for a message with match information 0x1 from "
	  "endpoint 742 of this host.",
	  "Endpoint 742 of this host has ended.",
	  "Find out why it ended; the receive waits for whoever connects."}},
	{"killed_after_wrong_tag",
	 2,
	 wrong_tag,
	 SIGKILL,
	 {"Rank 0 (process {0}, why_mx) waits for a message with match information 0x11 from "
	  "endpoint 742 of this host.",
	  "A message with match information 0x15 (100 bytes) from endpoint 742 of this host waits "
	  "unmatched: the receive wants 0x11, which differs in bits 0x4.",
	  "Correct the tag or port of the send or of the receive."}},
	{"alone",
	 1,
	 alone,
	 0,
	 {"Rank 0 (process {0}, why_mx) waits for a message with match information 0x3 from "
	  "anybody.",
	  "No other process has connected to it.",
	  "Start the other one; if it is on another host, see what it says there."}},
	{"two_jobs",
	 4,
	 two_jobs,
	 0,
	 {"Rank 0 (process {0}, why_mx) waits for a message with match information 0x7 from rank 1 "
	  "(process {1}, why_mx).",
	  "Rank 1 (process {1}, why_mx) has not called Tagwire for at least * s and computes.",
	  "Look at what it does: gdb -p {1}."}},
	{"given_up",
	 1,
	 given_up,
	 0,
	 {"Rank 0 (process {0}, why_mx) waits for a message with match information 0x3 from "
	  "endpoint 742 of this host.",
	  "Endpoint 742 of this host was not reached, and the connection was given up: it is not "
	  "open.",
	  "Start its program, with the same TAGWIRE_JOB, TAGWIRE_PORT and TAGWIRE_PROVIDERS."}},
	{"restarted",
	 2,
	 restarted,
	 0,
	 {"Rank 0 (process {0}, why_mx) waits for a message with match information 0x3 from rank 1 "
	  "(process {1}, why_mx); 1 more wait behind it.",
	  "Rank 1 (process {1}, why_mx) runs, but this connection to it is lost: the network broke, "
	  "or an earlier process of that name has ended.",
	  "Connect to it again, or let it connect; if it cannot, see TAGWIRE_RETRY."}},
	{"other_job",
	 2,
	 other_job,
	 0,
	 {"Rank 0 (process {0}, why_mx) waits for a message with match information 0x3 from "
	  "endpoint 742 of this host.",
	  "Process {1} (why_mx) has that endpoint, but in another job.",
	  "Give both programs the same TAGWIRE_JOB."}},
	{"chain",
	 3,
	 chain,
	 0,
	 {"Rank 1 (process {1}, why_mx) waits for a message with match information 0x2 from any of "
	  "2 processes; 1 more wait behind it.",
	  "Rank 2 (process {2}, why_mx) has not called Tagwire for at least * s and computes.",
	  "Look at what it does: gdb -p {2}."}},
	{"many",
	 64,
	 many,
	 0,
	 {"Rank 0 (process {0}, why_mx) waits for a message with match information 0x1 from any of "
	  "63 processes; 62 more wait behind it.",
	  "Rank 40 (process {40}, why_mx) has not called Tagwire for at least * s and computes.",
	  "Look at what it does: gdb -p {40}."}},
};

int main(int argc, char **argv)
{
	return whyt_main(argc, argv, cases, tw_countof(cases));
}
