/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_getinfo(): one entry for each board, the best first, as far as the hints allow it. A value
 * that a hint leaves open is the default; a larger one than there is refuses the board.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "fi/fi.h"

/* Capabilities that decide what an endpoint is, what it may do, and what comes on top. */
#define RIGHTS (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define PRIMARY (FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC)
#define TX_CAPS (PRIMARY | FI_SEND | FI_READ | FI_WRITE | FI_FENCE)
#define RX_CAPS                                                                                    \
	(PRIMARY | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_MULTI_RECV | FI_SOURCE |        \
	 FI_SOURCE_ERR | TW_FI_DIRECTED | FI_RMA_EVENT)
#define DOMAIN_CAPS (FI_LOCAL_COMM | FI_REMOTE_COMM)
/* Those that cost something are there only for who asks. */
#define ON_DEMAND (TW_FI_DIRECTED | FI_SOURCE | FI_SOURCE_ERR | FI_RMA_EVENT)
#define ORDER (FI_ORDER_SAS | FI_ORDER_SAW)
#define MAX_MSG UINT32_MAX

/* A board that reaches no other host says so: clients choose by it. */
static uint64_t domain_caps(uint32_t board)
{
	return FI_LOCAL_COMM | (tw_board_reaches(board) ? FI_REMOTE_COMM : 0);
}

/* A hint is refused. Users who set FI_LOG_LEVEL=info see it. */
static bool info_refuse(const char *hint, const char *asked, const char *have)
{
	tw_fi_explain("hint %s: asked for %s, there is %s", hint, asked, have);
	return false;
}

/* A hint of which all bits must be there. */
static bool has(const char *hint, uint64_t asked, uint64_t have, enum fi_type type)
{
	char missing[256], all[512];

	asked &= ~have;
	if (!asked)
		return true;
	fi_tostr_r(missing, sizeof(missing), &asked, type);
	if (!*missing)
		snprintf(missing, sizeof(missing), "0x%" PRIx64, asked);
	fi_tostr_r(all, sizeof(all), &have, type);
	return info_refuse(hint, missing, all);
}

/* A hint that is at most so large, or an enumeration whose values end there. */
static bool info_fits(const char *hint, uint64_t asked, uint64_t most)
{
	char number[32], limit[32];

	if (asked <= most)
		return true;
	snprintf(number, sizeof(number), "%" PRIu64, asked);
	snprintf(limit, sizeof(limit), "%" PRIu64, most);
	return info_refuse(hint, number, limit);
}

/* A hint h->field of a structure of fi_info that is at most what a->field has. */
#define FITS(attr, field) info_fits(#attr "->" #field, h->field, a->field)

/* All that is asked for must be there; the answer has that and whatever costs nothing. */
static bool choose_caps(const char *hint, uint64_t asked, uint64_t have, uint64_t *caps)
{
	if (!asked) {
		*caps = have & ~ON_DEMAND;
		return true;
	}
	if (!has(hint, asked, have, FI_TYPE_CAPS))
		return false;
	*caps = asked | (have & DOMAIN_CAPS);
	/* Without a direction, both. */
	if ((asked & (FI_MSG | FI_TAGGED)) && !(asked & (FI_SEND | FI_RECV)))
		*caps |= have & (FI_SEND | FI_RECV);
	if ((asked & (FI_RMA | FI_ATOMIC)) && !(asked & RIGHTS))
		*caps |= have & RIGHTS;
	return true;
}

/* A size that a hint may raise, up to a limit. */
static bool choose_size(const char *hint, size_t asked, size_t limit, size_t *size)
{
	if (!info_fits(hint, asked, limit))
		return false;
	if (asked)
		*size = asked;
	return true;
}

static void fill_defaults(struct fi_info *info, uint32_t board)
{
	bool service = tw_settings.service && !tw_settings.single_threaded;
	enum fi_progress progress = service ? FI_PROGRESS_AUTO : FI_PROGRESS_MANUAL;
	struct fi_domain_attr *d = info->domain_attr;

	*info->tx_attr = (struct fi_tx_attr){.msg_order = ORDER,
					     .inject_size = TW_FI_INJECT,
					     .size = TW_FI_DEPTH,
					     .iov_limit = TW_FI_IOVS,
					     .rma_iov_limit = 1};
	*info->rx_attr = (struct fi_rx_attr){.msg_order = ORDER,
					     .total_buffered_recv = tw_settings.unexp_max,
					     .size = TW_FI_DEPTH,
					     .iov_limit = TW_FI_IOVS};
	*info->ep_attr = (struct fi_ep_attr){.type = FI_EP_RDM,
					     .protocol = TW_LIBFABRIC_PROV_SPECIFIC | 0x7477u,
					     .protocol_version = 1,
					     .max_msg_size = MAX_MSG,
					     .mem_tag_format = TW_FI_TAG_FORMAT,
					     .tx_ctx_cnt = 1,
					     .rx_ctx_cnt = 1};
	d->threading = FI_THREAD_SAFE;
	d->control_progress = progress;
	d->data_progress = progress;
	d->resource_mgmt = FI_RM_ENABLED;
	d->av_type = FI_AV_TABLE;
	d->mr_key_size = 8;
	d->cq_data_size = 8;
	d->cq_cnt = 65536;
	d->ep_cnt = TW_FI_IDS;
	d->tx_ctx_cnt = TW_FI_IDS;
	d->rx_ctx_cnt = TW_FI_IDS;
	d->max_ep_tx_ctx = 1;
	d->max_ep_rx_ctx = 1;
	d->cntr_cnt = 65536;
	d->mr_iov_limit = 1;
	d->mr_cnt = 65536;
	d->caps = domain_caps(board);
	info->addr_format = TW_FI_ADDR;
}

static bool check_tx(const struct fi_tx_attr *h, struct fi_tx_attr *a, uint64_t caps)
{
	uint64_t asked = h->caps ? h->caps : caps & TX_CAPS;

	a->op_flags = h->op_flags;
	return choose_caps("tx_attr->caps", asked, TX_CAPS & caps, &a->caps) &&
	       has("tx_attr->op_flags", h->op_flags, TW_FI_TX_FLAGS, FI_TYPE_OP_FLAGS) &&
	       has("tx_attr->msg_order", h->msg_order, a->msg_order, FI_TYPE_MSG_ORDER) &&
	       has("tx_attr->comp_order", h->comp_order, a->comp_order, FI_TYPE_MSG_ORDER) &&
	       FITS(tx_attr, inject_size) && FITS(tx_attr, iov_limit) &&
	       FITS(tx_attr, rma_iov_limit) &&
	       choose_size("tx_attr->size", h->size, TW_FI_DEPTH_MAX, &a->size);
}

static bool check_rx(const struct fi_rx_attr *h, struct fi_rx_attr *a, uint64_t caps)
{
	uint64_t asked = h->caps ? h->caps : caps & RX_CAPS;

	a->op_flags = h->op_flags;
	return choose_caps("rx_attr->caps", asked, RX_CAPS & caps, &a->caps) &&
	       has("rx_attr->op_flags", h->op_flags, TW_FI_RX_FLAGS, FI_TYPE_OP_FLAGS) &&
	       has("rx_attr->msg_order", h->msg_order, a->msg_order, FI_TYPE_MSG_ORDER) &&
	       has("rx_attr->comp_order", h->comp_order, a->comp_order, FI_TYPE_MSG_ORDER) &&
	       FITS(rx_attr, total_buffered_recv) && FITS(rx_attr, iov_limit) &&
	       choose_size("rx_attr->size", h->size, TW_FI_DEPTH_MAX, &a->size);
}

static bool check_ep(const struct fi_ep_attr *h, const struct fi_ep_attr *a)
{
	if (h->type != FI_EP_UNSPEC && h->type != FI_EP_RDM)
		return info_refuse("ep_attr->type", fi_tostr(&h->type, FI_TYPE_EP_TYPE),
				   "FI_EP_RDM");
	if (h->protocol && (h->protocol != a->protocol ||
			    (h->protocol_version && h->protocol_version > a->protocol_version)))
		return info_refuse("ep_attr->protocol", "another", "that of this provider");
	return FITS(ep_attr, max_msg_size) && FITS(ep_attr, msg_prefix_size) &&
	       FITS(ep_attr, max_order_raw_size) && FITS(ep_attr, max_order_war_size) &&
	       FITS(ep_attr, max_order_waw_size) &&
	       info_fits("ep_attr->mem_tag_format", h->mem_tag_format, TW_FI_UNTAGGED - 1) &&
	       FITS(ep_attr, tx_ctx_cnt) && FITS(ep_attr, rx_ctx_cnt) &&
	       FITS(ep_attr, auth_key_size);
}

/* Before version 1.5 the mode was one of three values. */
static int mr_mode(uint32_t version, int asked)
{
	if (FI_VERSION_LT(version, FI_VERSION(1, 5)) && asked != TW_LIBFABRIC_MR_BASIC)
		return TW_LIBFABRIC_MR_SCALABLE;
	return asked == TW_LIBFABRIC_MR_BASIC || asked == TW_LIBFABRIC_MR_SCALABLE ? asked : 0;
}

static bool check_progress(const char *hint, enum fi_progress asked, enum fi_progress *have)
{
	if (!info_fits(hint, asked, TW_LIBFABRIC_UNIFIED))
		return false;
	if (asked == FI_PROGRESS_AUTO && *have != FI_PROGRESS_AUTO)
		return info_refuse(hint, "FI_PROGRESS_AUTO",
				   "FI_PROGRESS_MANUAL (TAGWIRE_SERVICE=0)");
	if (asked != FI_PROGRESS_UNSPEC)
		*have = asked;
	return true;
}

static bool check_counts(const struct fi_domain_attr *h, const struct fi_domain_attr *a)
{
	return FITS(domain_attr, auth_key_size) && FITS(domain_attr, mr_key_size) &&
	       FITS(domain_attr, cq_data_size) && FITS(domain_attr, cq_cnt) &&
	       FITS(domain_attr, ep_cnt) && FITS(domain_attr, tx_ctx_cnt) &&
	       FITS(domain_attr, rx_ctx_cnt) && FITS(domain_attr, max_ep_tx_ctx) &&
	       FITS(domain_attr, max_ep_rx_ctx) && FITS(domain_attr, max_ep_stx_ctx) &&
	       FITS(domain_attr, max_ep_srx_ctx) && FITS(domain_attr, cntr_cnt) &&
	       FITS(domain_attr, mr_iov_limit) && FITS(domain_attr, max_err_data) &&
	       FITS(domain_attr, mr_cnt);
}

static bool check_domain(const struct fi_domain_attr *h, struct fi_domain_attr *a)
{
	if (h->name && strcmp(h->name, a->name) != 0)
		return info_refuse("domain_attr->name", h->name, a->name);
	if (!has("domain_attr->caps", h->caps, a->caps, FI_TYPE_CAPS) || !check_counts(h, a) ||
	    !check_progress("domain_attr->control_progress", h->control_progress,
			    &a->control_progress) ||
	    !check_progress("domain_attr->data_progress", h->data_progress, &a->data_progress) ||
	    !info_fits("domain_attr->threading", h->threading, FI_THREAD_ENDPOINT) ||
	    !info_fits("domain_attr->resource_mgmt", h->resource_mgmt, FI_RM_ENABLED) ||
	    !info_fits("domain_attr->av_type", h->av_type, FI_AV_TABLE))
		return false;
	if (h->threading != FI_THREAD_UNSPEC)
		a->threading = h->threading;
	if (h->resource_mgmt != FI_RM_UNSPEC)
		a->resource_mgmt = h->resource_mgmt;
	if (h->av_type != FI_AV_UNSPEC)
		a->av_type = h->av_type;
	return true;
}

/* Takes the hints over. False if they ask for something else. */
static bool info_apply(uint32_t version, const struct fi_info *h, struct fi_info *info)
{
	static const struct fi_info none;
	uint64_t have = TX_CAPS | RX_CAPS | info->domain_attr->caps;

	if (FI_VERSION_LT(version, FI_VERSION(2, 0)))
		have &= ~TW_LIBFABRIC_DIRECTED_2;
	h = h ? h : &none;
	if (!choose_caps("caps", h->caps, have, &info->caps))
		return false;
	switch (h->addr_format) {
	case FI_FORMAT_UNSPEC:
		break;
	case FI_SOCKADDR:
		info->addr_format = FI_SOCKADDR_IN;
		break;
	case TW_FI_ADDR:
	case FI_ADDR_STR:
	case FI_SOCKADDR_IN:
		info->addr_format = h->addr_format;
		break;
	default:
		return info_refuse("addr_format", fi_tostr(&h->addr_format, FI_TYPE_ADDR_FORMAT),
				   "its own, FI_SOCKADDR_IN, FI_ADDR_STR");
	}
	if (h->fabric_attr && h->fabric_attr->name && strcmp(h->fabric_attr->name, TW_FI_NAME))
		return info_refuse("fabric_attr->name", h->fabric_attr->name, TW_FI_NAME);
	if (h->ep_attr && !check_ep(h->ep_attr, info->ep_attr))
		return false;
	if (h->domain_attr && !check_domain(h->domain_attr, info->domain_attr))
		return false;
	info->domain_attr->mr_mode = mr_mode(version, h->domain_attr ? h->domain_attr->mr_mode : 0);
	return check_tx(h->tx_attr ? h->tx_attr : &(struct fi_tx_attr){0}, info->tx_attr,
			info->caps) &&
	       check_rx(h->rx_attr ? h->rx_attr : &(struct fi_rx_attr){0}, info->rx_attr,
			info->caps);
}

static int set_addr(struct fi_info *info, const struct tw_fi_addr *a, void **addr, size_t *len)
{
	*len = TW_FI_ADDR_LEN;
	*addr = calloc(1, *len);
	return *addr ? tw_fi_addr_give(info->addr_format, a, *addr, len) : -FI_ENOMEM;
}

static int copy_addr(uint32_t format, const void *from, size_t n, void **addr, size_t *len)
{
	if (!from || !n || *addr)
		return 0;
	if (!tw_fi_addr_whole(format, from, n))
		return -FI_EINVAL;
	*addr = malloc(n);
	if (!*addr)
		return -FI_ENOMEM;
	memcpy(*addr, from, n);
	*len = n;
	return 0;
}

/* The addresses, by node, service and hints. */
static int set_addrs(struct fi_info *info, const struct tw_board *b, const char *node,
		     const char *service, uint64_t flags, const struct fi_info *h)
{
	struct tw_fi_addr a, any = {b->nic_id, TW_FI_ANY, 0};
	int rc = 0;

	if (node || service) {
		bool source = flags & FI_SOURCE;

		rc = tw_fi_resolve(node, service, &a);
		if (rc)
			return rc;
		if (source && !node)
			a.nic_id = b->nic_id;
		if (source && a.nic_id != b->nic_id)
			return -FI_ENODATA;
		rc = source ? set_addr(info, &a, &info->src_addr, &info->src_addrlen)
			    : set_addr(info, &a, &info->dest_addr, &info->dest_addrlen);
	}
	if (rc == 0 && h)
		rc = copy_addr(info->addr_format, h->src_addr, h->src_addrlen, &info->src_addr,
			       &info->src_addrlen);
	if (rc == 0 && !info->src_addr)
		rc = set_addr(info, &any, &info->src_addr, &info->src_addrlen);
	if (rc == 0 && h)
		rc = copy_addr(info->addr_format, h->dest_addr, h->dest_addrlen, &info->dest_addr,
			       &info->dest_addrlen);
	return rc;
}

static int info_make(uint32_t version, uint32_t board, const char *node, const char *service,
		     uint64_t flags, const struct fi_info *h, struct fi_info **out)
{
	struct fi_info *info = fi_allocinfo();
	const struct tw_board *b;
	int rc = -FI_ENOMEM;

	if (!info)
		return rc;
	tw_boards(&b);
	b += board;
	fill_defaults(info, board);
	info->domain_attr->name = strdup(b->ifname);
	info->fabric_attr->name = strdup(TW_FI_NAME);
	if (!info->domain_attr->name || !info->fabric_attr->name)
		goto fail;
	rc = -FI_ENODATA;
	if (!info_apply(version, h, info))
		goto fail;
	rc = set_addrs(info, b, node, service, flags, h);
	if (rc)
		goto fail;
	*out = info;
	return 0;
fail:
	fi_freeinfo(info);
	return rc;
}

int tw_fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		  const struct fi_info *hints, struct fi_info **info)
{
	const struct tw_board *boards;
	struct fi_info **end = info;
	int rc = -FI_ENODATA;
	unsigned n;

	*info = NULL;
	if (tw_begin() != TW_OK)
		return -FI_ENODATA;
	n = tw_boards(&boards);
	for (unsigned i = 0; i < n; i++) {
		int one = info_make(version, tw_board_best(i), node, service, flags, hints, end);

		if (one == 0)
			end = &(*end)->next;
		else if (one != -FI_ENODATA)
			rc = one;
	}
	tw_end();
	return *info ? 0 : rc;
}

int tw_fi_info_check(const struct tw_fi_fabric *f, uint32_t board, const struct fi_info *info,
		     struct fi_info **checked)
{
	int rc = info_make(f->fid.api_version, board, NULL, NULL, 0, info, checked);

	return rc == -FI_ENODATA ? -FI_EINVAL : rc;
}
