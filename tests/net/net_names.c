/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What tests/net/names asks of a host. Does its arguments in turn, and prints a line for each:
 *
 *   boards        the NIC ids of this host, by number
 *   nic NAME      mx_hostname_to_nic_id
 *   name NIC      mx_nic_id_to_hostname
 *   number NIC    mx_nic_id_to_board_number
 *   open BOARD ID an endpoint, either of them or `any'; prints its board and its id
 *   connect NIC ID    from the last endpoint; how it ends
 *   talk NIC ID       the same, and a message of 100,000 bytes there
 *   peer RANK     the NIC id of another rank, TAGWIRE_RANK being this one's
 *   wait          until the standard input ends, taking in messages
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/twt.h"
#include "mx_extensions.h"

#define FILTER 0x5eceff17u
#define BYTES 250000

static mx_endpoint_t ep;
static char data[BYTES];

/* A word in place of a number says that there is none. */
static void print(mx_return_t rc, const char *format, uint64_t value)
{
	if (rc != MX_SUCCESS)
		printf("%s\n", rc == MX_HOST_NOT_FOUND	    ? "HOST_NOT_FOUND"
			       : rc == MX_BOARD_UNKNOWN	    ? "BOARD_UNKNOWN"
			       : rc == MX_NIC_NOT_FOUND	    ? "NIC_NOT_FOUND"
			       : rc == MX_BUSY		    ? "BUSY"
			       : rc == MX_CONNECTION_FAILED ? "CONNECTION_FAILED"
							    : mx_strerror(rc));
	else
		printf(format, value);
}

static void boards(void)
{
	uint64_t nic;

	for (uint32_t i = 0; mx_board_number_to_nic_id(i, &nic) == MX_SUCCESS; i++)
		printf("%s%012" PRIx64, i ? " " : "", nic);
	printf("\n");
}

static uint32_t number(const char *text)
{
	return strcmp(text, "any") == 0 ? UINT32_MAX : (uint32_t)atoi(text);
}

static void open_endpoint(const char *board, const char *id)
{
	mx_endpoint_addr_t self;
	mx_return_t rc = mx_open_endpoint(number(board), number(id), FILTER, NULL, 0, &ep);
	uint32_t at = 0, n = 0;
	uint64_t nic = 0;

	if (rc == MX_SUCCESS) {
		mx_get_endpoint_addr(ep, &self);
		mx_decompose_endpoint_addr(self, &nic, &n);
		mx_nic_id_to_board_number(nic, &at);
	}
	print(rc, "%" PRIu64 " ", at);
	if (rc == MX_SUCCESS)
		printf("%" PRIu32 "\n", n);
}

static void connect_to(uint64_t nic, uint32_t id, int message)
{
	mx_segment_t seg = {data, BYTES};
	mx_endpoint_addr_t to;
	mx_return_t rc = mx_connect(ep, nic, id, FILTER, (uint32_t)TWT_LONG, &to);
	mx_request_t r;
	mx_status_t st;
	uint32_t done = 0;

	if (rc == MX_SUCCESS && message) {
		twt_fill(data, BYTES, 1);
		if (mx_issend(ep, &seg, 1, to, 1, NULL, &r) != MX_SUCCESS ||
		    mx_wait(ep, &r, (uint32_t)TWT_LONG * 1000, &st, &done) != MX_SUCCESS || !done ||
		    st.code != MX_STATUS_SUCCESS)
			rc = MX_FAILURE;
	}
	print(rc, "connected\n", 0);
}

static void wait_for_end(void)
{
	struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
	mx_segment_t seg = {data, BYTES};
	mx_request_t r;
	mx_status_t st;
	uint32_t done = 1;

	while (poll(&p, 1, 0) == 0) {
		if (done && mx_irecv(ep, &seg, 1, 0, 0, NULL, &r) != MX_SUCCESS)
			exit(1);
		mx_wait(ep, &r, 20, &st, &done);
		if (done && twt_check(data, BYTES, 1) != BYTES)
			printf("wrong data\n");
	}
}

/* The number of arguments that it has used. */
static int act(char **arg)
{
	char name[MX_MAX_HOSTNAME_LEN] = "";
	uint64_t nic = arg[1] ? strtoull(arg[1], NULL, 16) : 0;
	uint32_t n = 0;
	mx_return_t rc;

	if (strcmp(*arg, "boards") == 0) {
		boards();
		return 1;
	}
	if (strcmp(*arg, "wait") == 0) {
		wait_for_end();
		return 1;
	}
	if (!arg[1])
		exit(2);
	if (strcmp(*arg, "nic") == 0) {
		rc = mx_hostname_to_nic_id(arg[1], &nic);
		print(rc, "%012" PRIx64 "\n", nic);
	} else if (strcmp(*arg, "name") == 0) {
		rc = mx_nic_id_to_hostname(nic, name);
		print(rc, "", 0);
		if (rc == MX_SUCCESS)
			puts(name);
	} else if (strcmp(*arg, "peer") == 0) {
		rc = mx_job_exchange(ep);
		if (rc == MX_SUCCESS)
			rc = mx_job_peer(number(arg[1]), &nic, &n);
		print(rc, "%012" PRIx64 "\n", nic);
	} else if (strcmp(*arg, "number") == 0) {
		rc = mx_nic_id_to_board_number(nic, &n);
		print(rc, "%" PRIu64 "\n", n);
	} else if (!arg[2]) {
		exit(2);
	} else if (strcmp(*arg, "open") == 0) {
		open_endpoint(arg[1], arg[2]);
		return 3;
	} else {
		connect_to(nic, number(arg[2]), strcmp(*arg, "talk") == 0);
		return 3;
	}
	return 2;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	mx_set_error_handler(MX_ERRORS_RETURN);
	if (mx_init() != MX_SUCCESS)
		return 1;
	for (int i = 1; i < argc;)
		i += act(argv + i);
	mx_finalize(); /* otherwise the other side says that the process has ended */
	return 0;
}
