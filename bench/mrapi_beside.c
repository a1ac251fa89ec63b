/* SPDX-License-Identifier: BSD-2-Clause */
/* MX messages between the two processes of mrapi_perf, in one direction at a time. */
#include <sched.h>

#include "mrapi_perf.h"
#include "myriexpress.h"

#define WINDOW 8 /* messages on the way */
#define FILTER 0x6d727065u
#define CONNECT_SECONDS 20
#define POLLS 10000 /* before the core is offered to others */

static mx_endpoint_t endpoint;
static mx_endpoint_addr_t peer_addr;
static bool connected;

static void check(const char *call, mx_return_t rc)
{
	if (__builtin_expect(rc != MX_SUCCESS, 0))
		bench_fail("%s: %s", call, mx_strerror(rc));
}

struct mx_name beside_open(void)
{
	mx_endpoint_addr_t me;
	struct mx_name name;

	check("mx_init", mx_init());
	check("mx_open_endpoint",
	      mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, FILTER, NULL, 0, &endpoint));
	check("mx_get_endpoint_addr", mx_get_endpoint_addr(endpoint, &me));
	check("mx_decompose_endpoint_addr", mx_decompose_endpoint_addr(me, &name.nic, &name.id));
	return name;
}

static void post(bool send, char *buf, uint32_t size, mx_request_t *r)
{
	mx_segment_t seg = {buf, size};

	if (send)
		check("mx_isend", mx_isend(endpoint, &seg, 1, peer_addr, 1, NULL, r));
	else
		check("mx_irecv", mx_irecv(endpoint, &seg, 1, 1, MX_MATCH_MASK_NONE, NULL, r));
}

static void finish(mx_request_t *r, uint32_t size)
{
	mx_status_t status;
	uint32_t done = 0;

	for (unsigned polls = 1; !done; polls++) {
		check("mx_test", mx_test(endpoint, r, &status, &done));
		if (polls % POLLS == 0)
			sched_yield();
	}
	if (status.code != MX_STATUS_SUCCESS || status.xfer_length != size)
		bench_fail("an MX message: %s", mx_strstatus(status.code));
}

void beside_move(const struct mx_name *peer, bool send, bool stream, char *buf, uint32_t size,
		 uint64_t n)
{
	uint64_t window = stream ? BUFFERS : WINDOW;
	mx_request_t r[WINDOW];

	if (!connected)
		check("mx_connect", mx_connect(endpoint, peer->nic, peer->id, FILTER,
					       CONNECT_SECONDS, &peer_addr));
	connected = true;
	for (uint64_t i = 0; i < n + window; i++) {
		char *at = stream ? buf + (size_t)(i % BUFFERS) * size : buf;

		if (i >= window && i - window < n) {
			finish(&r[i % window], size);
			if (stream && !send)
				work_look(at, size);
		}
		if (i < n) {
			if (stream && send)
				work_make(at, size, i);
			post(send, at, size, &r[i % window]);
		}
	}
}

void beside_close(void)
{
	check("mx_close_endpoint", mx_close_endpoint(endpoint));
	check("mx_finalize", mx_finalize());
}
