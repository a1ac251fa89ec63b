/* SPDX-License-Identifier: BSD-2-Clause */
/* UCX by its tag-matching and one-sided calls. */
#include <string.h>
#include <ucp/api/ucp.h>

#include "launch.h"

#define PEER_HAS_ONE_SIDED

typedef void *peer_req; /* NULL: was complete at once */

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h endpoints[MAX_RANKS];
static ucp_mem_h exposed_mem;
static ucp_rkey_h there; /* to what rank 1 has exposed */
static uint64_t there_base;

static void ucx_check(ucs_status_t status, const char *call)
{
	if (status != UCS_OK)
		die(call, ucs_status_string(status));
}

static void peer_version(char *text, size_t room)
{
	snprintf(text, room, "%s", ucp_get_version_string());
}

static void peer_launch(void)
{
	rank = launch_fork(ranks);
}

static void peer_open(void)
{
	ucp_params_t params = {
		.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_TAG_SENDER_MASK,
		.features = UCP_FEATURE_TAG,
		.tag_sender_mask = ~(uint64_t)TAG_BITS,
	};
	ucp_worker_params_t wparams = {
		.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
		.thread_mode = UCS_THREAD_MODE_SINGLE,
	};
	ucp_address_t *mine;
	size_t len;

	if (one_sided)
		params.features |= UCP_FEATURE_RMA | UCP_FEATURE_AMO64;
	ucx_check(ucp_init(&params, NULL, &context), "ucp_init");
	ucx_check(ucp_worker_create(context, &wparams, &worker), "ucp_worker_create");
	ucx_check(ucp_worker_get_address(worker, &mine, &len), "ucp_worker_get_address");
	launch_tell(rank, mine, len);
	ucp_worker_release_address(worker, mine);
}

static void peer_await(int r)
{
	size_t len;

	launch_ask(r, &len);
}

static void peer_connect(int r)
{
	ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
	size_t len;

	params.address = launch_ask(r, &len);
	ucx_check(ucp_ep_create(worker, &params, &endpoints[r]), "ucp_ep_create");
}

static inline bool peer_test(peer_req *r)
{
	ucs_status_t status;

	if (!*r)
		return true;
	status = ucp_request_check_status(*r);
	if (status == UCS_INPROGRESS) {
		ucp_worker_progress(worker);
		status = ucp_request_check_status(*r);
		if (status == UCS_INPROGRESS)
			return false;
	}
	ucx_check(status, "message");
	ucp_request_free(*r);
	*r = NULL;
	return true;
}

static void peer_close(void)
{
	ucp_request_param_t param = {.op_attr_mask = 0};

	if (there)
		ucp_rkey_destroy(there);
	if (exposed_mem)
		ucp_mem_unmap(context, exposed_mem);
	for (int i = 0; i < ranks; i++) {
		peer_req r = endpoints[i] ? ucp_ep_close_nbx(endpoints[i], &param) : NULL;

		/* The other end may be gone already: how this ends does not matter. */
		while (!UCS_PTR_IS_ERR(r) && !peer_test(&r))
			sched_yield();
	}
	ucp_worker_destroy(worker);
	ucp_cleanup(context);
	launch_join();
}

static inline void ucx_started(peer_req r, const char *call)
{
	if (UCS_PTR_IS_ERR(r))
		ucx_check(UCS_PTR_STATUS(r), call);
}

static inline void peer_isend(int to, const void *buf, size_t len, uint32_t tag, peer_req *r)
{
	ucp_request_param_t param = {.op_attr_mask = 0};

	*r = ucp_tag_send_nbx(endpoints[to], buf, len, full_tag(rank, tag), &param);
	ucx_started(*r, "ucp_tag_send_nbx");
}

static inline void peer_irecv(int from, void *buf, size_t len, uint32_t tag, peer_req *r)
{
	ucp_request_param_t param = {.op_attr_mask = 0};
	uint64_t mask = tag_mask(from);

	*r = ucp_tag_recv_nbx(worker, buf, len, full_tag(from, tag) & mask, mask, &param);
	ucx_started(*r, "ucp_tag_recv_nbx");
}

/* One-sided. A put is complete there after a flush. */

static void ucx_wait(peer_req r)
{
	unsigned polls = 0;

	while (!peer_test(&r))
		idle(&polls);
}

static void peer_expose(void *base, size_t len)
{
	ucp_mem_map_params_t params = {
		.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
		.address = base,
		.length = len,
	};
	struct {
		uint64_t base, len;
		char bytes[1024];
	} key = {.base = (uintptr_t)base};
	peer_req r;
	void *packed;
	size_t n;

	if (rank == 1) {
		ucx_check(ucp_mem_map(context, &params, &exposed_mem), "ucp_mem_map");
		ucx_check(ucp_rkey_pack(context, exposed_mem, &packed, &n), "ucp_rkey_pack");
		if (n > sizeof key.bytes)
			die("ucp_rkey_pack", "its key is longer than expected");
		memcpy(key.bytes, packed, n);
		key.len = n;
		ucp_rkey_buffer_release(packed);
		peer_isend(0, &key, sizeof key, 0, &r);
		ucx_wait(r);
		return;
	}
	peer_irecv(1, &key, sizeof key, 0, &r);
	ucx_wait(r);
	ucx_check(ucp_ep_rkey_unpack(endpoints[1], key.bytes, &there), "ucp_ep_rkey_unpack");
	there_base = key.base;
}

static inline void peer_put(const void *buf, size_t len, size_t at, peer_req *r)
{
	ucp_request_param_t param = {.op_attr_mask = 0};

	*r = ucp_put_nbx(endpoints[1], buf, len, there_base + at, there, &param);
	ucx_started(*r, "ucp_put_nbx");
}

static inline void peer_get(void *buf, size_t len, size_t at, peer_req *r)
{
	ucp_request_param_t param = {.op_attr_mask = 0};

	*r = ucp_get_nbx(endpoints[1], buf, len, there_base + at, there, &param);
	ucx_started(*r, "ucp_get_nbx");
}

static inline void peer_add(uint64_t *old, uint64_t n, peer_req *r)
{
	static uint64_t operand;
	ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER,
		.datatype = ucp_dt_make_contig(sizeof *old),
		.reply_buffer = old,
	};

	operand = n;
	*r = ucp_atomic_op_nbx(endpoints[1], UCP_ATOMIC_OP_ADD, &operand, 1, there_base, there,
			       &param);
	ucx_started(*r, "ucp_atomic_op_nbx");
}

static inline void peer_flush(void)
{
	ucp_request_param_t param = {.op_attr_mask = 0};

	ucx_wait(ucp_ep_flush_nbx(endpoints[1], &param));
}
