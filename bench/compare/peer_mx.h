/* SPDX-License-Identifier: BSD-2-Clause */
/* Tagwire by its MX interface. Failures end the program: the default error handler. */
#include <myriexpress.h>
#include <string.h>

#include "config.h"
#include "launch.h"

#define FILTER 0x74776263u

typedef mx_request_t peer_req;

static mx_endpoint_t endpoint;
static mx_endpoint_addr_t addresses[MAX_RANKS];

struct mx_place {
	uint64_t nic;
	uint32_t id;
};

static void peer_version(char *text, size_t room)
{
	snprintf(text, room, "%s", PACKAGE_VERSION);
}

static void peer_launch(void)
{
	rank = launch_fork(ranks);
}

static void peer_open(void)
{
	mx_param_t param = {.key = MX_PARAM_UNEXP_QUEUE_MAX};
	mx_endpoint_addr_t mine;
	struct mx_place place;

	memset(&place, 0, sizeof place);
	param.val.unexp_queue_max = (uint32_t)unexpected;
	mx_init();
	mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, FILTER, unexpected ? &param : NULL,
			 unexpected ? 1 : 0, &endpoint);
	mx_get_endpoint_addr(endpoint, &mine);
	mx_decompose_endpoint_addr(mine, &place.nic, &place.id);
	launch_tell(rank, &place, sizeof place);
}

static void peer_await(int r)
{
	size_t len;

	launch_ask(r, &len);
}

static void peer_connect(int r)
{
	struct mx_place place;
	size_t len;

	memcpy(&place, launch_ask(r, &len), sizeof place);
	mx_connect(endpoint, place.nic, place.id, FILTER, 10, &addresses[r]);
}

static void peer_close(void)
{
	mx_close_endpoint(endpoint);
	mx_finalize();
	launch_join();
}

static inline void peer_isend(int to, const void *buf, size_t len, uint32_t tag, peer_req *r)
{
	mx_segment_t seg = {(void *)buf, (uint32_t)len};

	mx_isend(endpoint, &seg, 1, addresses[to], full_tag(rank, tag), NULL, r);
}

static inline void peer_irecv(int from, void *buf, size_t len, uint32_t tag, peer_req *r)
{
	mx_segment_t seg = {buf, (uint32_t)len};
	uint64_t mask = tag_mask(from);

	mx_irecv(endpoint, &seg, 1, full_tag(from, tag) & mask, mask, NULL, r);
}

static inline bool peer_test(peer_req *r)
{
	mx_status_t status;
	uint32_t done = 0;

	mx_test(endpoint, r, &status, &done);
	if (done && status.code != MX_STATUS_SUCCESS)
		die("message", mx_strstatus(status.code));
	return done;
}
