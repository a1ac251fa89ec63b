/* SPDX-License-Identifier: BSD-2-Clause */
/* MX III.2: information about the library, its boards and endpoints. */
#include <stdio.h>

#include "mx/mx_internal.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unknown"
#endif

#define SPEED_10G 1250 /* MB/s */

struct output {
	void *out;
	uint32_t room;
};

static mx_return_t put_number(struct output *a, uint32_t value)
{
	if (a->room < sizeof(value))
		return MX_BAD_INFO_LENGTH;
	memcpy(a->out, &value, sizeof(value));
	return MX_SUCCESS;
}

static mx_return_t put_text(struct output *a, const char *format, const char *text)
{
	if (a->room < MX_MAX_STR_LEN)
		return MX_BAD_INFO_LENGTH;
	memset(a->out, 0, MX_MAX_STR_LEN);
	snprintf(a->out, MX_MAX_STR_LEN, format, text);
	return MX_SUCCESS;
}

static mx_return_t put_nic_ids(struct output *a)
{
	unsigned n;
	const uint64_t *nics = tw_local_nics(&n);
	uint64_t end = 0;

	if (a->room < (n + 1) * sizeof(uint64_t))
		return MX_BAD_INFO_LENGTH;
	memcpy(a->out, nics, n * sizeof(uint64_t));
	memcpy((char *)a->out + n * sizeof(uint64_t), &end, sizeof(end));
	return MX_SUCCESS;
}

static mx_return_t put_labels(struct output *a)
{
	if (a->room < (size_t)TW_NCOUNTERS * MX_MAX_STR_LEN)
		return MX_BAD_INFO_LENGTH;
	memset(a->out, 0, (size_t)TW_NCOUNTERS * MX_MAX_STR_LEN);
	for (unsigned i = 0; i < TW_NCOUNTERS; i++)
		snprintf((char *)a->out + (size_t)i * MX_MAX_STR_LEN, MX_MAX_STR_LEN, "%s",
			 tw_counter_labels[i]);
	return MX_SUCCESS;
}

static void add_counters(uint32_t *sum, struct tw_ep *ep)
{
	tw_txqs_count(ep);
	for (unsigned i = 0; i < TW_NCOUNTERS; i++)
		sum[i] += (uint32_t)ep->counters[i];
}

/* Of one endpoint, or of all that this process has open on the board. */
static mx_return_t put_counters(struct output *a, mx_endpoint_t endpoint, uint32_t board)
{
	uint32_t sum[TW_NCOUNTERS] = {0};

	if (a->room < sizeof(sum))
		return MX_BAD_INFO_LENGTH;
	for (unsigned i = 0; i < tw_slots_used(); i++) {
		uint64_t handle = atomic_load(&tw_slots[i].handle) & ~TW_HANDLE_BARRED;
		struct tw_ep *ep;

		if (!handle || (endpoint && handle != (uint64_t)(uintptr_t)endpoint))
			continue;
		ep = tw_enter(handle);
		if (!ep)
			continue;
		if (endpoint || ep->board == board)
			add_counters(sum, ep);
		tw_leave(ep);
	}
	memcpy(a->out, sum, sizeof(sum));
	return MX_SUCCESS;
}

/* Providers ------------------------------------------------------------------- */

static const char *const provider_names[] = {"self", "shm", "verbs", "ofi", "tcp"};

/* Whether one works at the endpoint's board: see struct tw_provider. */
static bool describe_provider(struct tw_ep *ep, const char *name, struct tw_link *like, char *text,
			      unsigned len)
{
	const struct tw_provider *found[TW_MAX_PROVIDERS] = {NULL};

	if (!tw_names_have(tw_settings.providers, name)) {
		snprintf(text, len, "not in TAGWIRE_PROVIDERS");
		return false;
	}
	tw_provider_list(name, found);
	for (unsigned i = 0; i < ep->nprovs; i++)
		if (ep->provs[i].ops == found[0])
			return found[0]->describe(ep->provs[i].instance, name, like, text, len);
	snprintf(text, len, "not installed");
	return false;
}

static mx_return_t provider_info(mx_endpoint_t endpoint, mx_get_info_key_t key, uint32_t number,
				 struct output *a)
{
	static const char *const ways[] = {
		[TW_RNDV_AUTO] = "get or copy", [TW_RNDV_COPY] = "copy", [TW_RNDV_GET] = "get"};
	struct tw_ep *ep = tw_mx_enter(endpoint);
	char text[MX_MAX_STR_LEN];
	struct tw_link like = {0};
	uint8_t rndv;
	bool here;

	if (!ep)
		return MX_BAD_ENDPOINT;
	if (number >= tw_countof(provider_names)) {
		tw_leave(ep);
		return MX_BAD_INFO_VAL;
	}
	here = describe_provider(ep, provider_names[number], &like, text, sizeof(text));
	rndv = ep->rndv;
	tw_leave(ep);
	switch ((uint32_t)key) {
	case MX_INFO_PROVIDER:
		return put_text(a, "%s", provider_names[number]);
	case MX_INFO_PROVIDER_HERE:
		return put_number(a, here);
	case MX_INFO_PROVIDER_TEXT:
		return put_text(a, "%s", text);
	case MX_INFO_PROVIDER_SLOT:
		return put_number(a, here && like.provider->wake != NULL ? TW_RING_INLINE : 0);
	case MX_INFO_PROVIDER_PACKET:
		return put_number(a, here ? tw_eager_piece(&like, 0) : 0);
	default:
		return put_text(a, "%s", here ? ways[tw_transfer_way(&like, rndv)] : "");
	}
}

static mx_return_t global_info(mx_get_info_key_t key, struct output *a)
{
	unsigned n;

	tw_local_nics(&n);
	switch ((uint32_t)key) {
	case MX_NIC_COUNT:
		return put_number(a, n);
	case MX_NIC_IDS:
		return put_nic_ids(a);
	case MX_MAX_NATIVE_ENDPOINTS:
	case MX_INFO_MAX_ENDPOINTS:
	case MX_MAX_ENDPOINTS:
		return put_number(a, MX_MAX_ENDPOINTS);
	case MX_NATIVE_REQUESTS:
		return put_number(a, TW_MAX_REQS);
	case MX_PIO_SEND_MAX:
		return put_number(a, TW_SHORT_MAX);
	case MX_COPY_SEND_MAX:
		return put_number(a, tw_settings.eager_max);
	case MX_INFO_MAX_SEGMENTS:
	case MX_MAX_SEGMENTS:
		return put_number(a, MX_MAX_SEGMENTS);
	case MX_UNEXP_QUEUE_LENGTH_MAX:
		return put_number(a, tw_settings.unexp_max);
	default:
		return MX_BAD_INFO_KEY;
	}
}

static mx_return_t board_info(mx_endpoint_t endpoint, mx_get_info_key_t key, uint32_t board,
			      struct output *a)
{
	const struct tw_board *b;

	if (board >= tw_boards(&b))
		return MX_BOARD_UNKNOWN;
	b += board;
	switch (key) {
	case MX_COUNTERS_COUNT:
		return put_number(a, TW_NCOUNTERS);
	case MX_COUNTERS_LABELS:
		return put_labels(a);
	case MX_COUNTERS_VALUES:
		return put_counters(a, endpoint, board);
	case MX_PRODUCT_CODE:
		return put_text(a, "Tagwire %s", b->ifname);
	case MX_PART_NUMBER:
		return put_text(a, "tagwire-%s", PACKAGE_VERSION);
	case MX_SERIAL_NUMBER:
		return put_number(a, (uint32_t)b->nic_id);
	case MX_PORT_COUNT:
		return put_number(a, 1);
	case MX_NUMA_NODE:
		return put_number(a, (uint32_t)b->numa_node);
	case MX_NET_TYPE:
		return put_number(a, MX_NET_ETHER);
	case MX_LINE_SPEED:
		return put_number(a, b->speed < SPEED_10G ? MX_SPEED_2G : MX_SPEED_10G);
	default:
		return put_number(a, b->speed);
	}
}

static bool takes_board(mx_get_info_key_t key)
{
	return (key >= MX_COUNTERS_COUNT && key <= MX_PORT_COUNT) ||
	       (key >= MX_NUMA_NODE && key <= MX_LINE_SPEED) || key == MX_INFO_LINE_RATE;
}

static bool takes_provider(mx_get_info_key_t key)
{
	return (uint32_t)key - MX_INFO_PROVIDER <= MX_INFO_PROVIDER_LONG - MX_INFO_PROVIDER;
}

static mx_return_t info(mx_endpoint_t endpoint, mx_get_info_key_t key, const void *in_val,
			uint32_t in_len, void *out_val, uint32_t out_len,
			mx_error_handler_t *handler)
{
	struct output a = {out_val, out_len};
	struct tw_ep *ep;
	uint32_t board;

	if (!tw_mx_ready())
		return MX_NOT_INITIALIZED;
	if (endpoint) {
		ep = tw_mx_enter(endpoint);
		if (!ep)
			return MX_BAD_ENDPOINT;
		*handler = tw_mx_ep(ep)->error_handler;
		tw_leave(ep);
	}
	if (!out_val)
		return MX_BAD_INFO_VAL;
	if (!takes_board(key) && !takes_provider(key))
		return global_info(key, &a);
	if (!in_val || in_len < sizeof(board))
		return MX_BAD_INFO_VAL;
	memcpy(&board, in_val, sizeof(board));
	if (takes_provider(key))
		return provider_info(endpoint, key, board, &a);
	return board_info(endpoint, key, board, &a);
}

mx_return_t mx_get_info(mx_endpoint_t endpoint, mx_get_info_key_t key, void *in_val,
			uint32_t in_len, void *out_val, uint32_t out_len)
{
	mx_error_handler_t handler = NULL;
	mx_return_t rc = info(endpoint, key, in_val, in_len, out_val, out_len, &handler);

	return rc == MX_SUCCESS ? rc : tw_mx_fail(handler, __func__, rc);
}
