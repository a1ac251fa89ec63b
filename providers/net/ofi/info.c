/* SPDX-License-Identifier: BSD-2-Clause */
/* Which of libfabric's providers an endpoint uses. */
#include <netdb.h>
#include <stdatomic.h>
#include <string.h>

#include "base/inet.h"
#include "providers/net/ofi/ofi.h"

/*
 * Networks with hardware of their own, which libfabric reaches without IP addresses.
 * Not its verbs: the verbs driver comes first, and this one is used where that fails.
 */
static const char *const fast[] = {"cxi", "efa", "opx", "psm2"};
#define USUAL "tcp;ofi_rxm"
/* None of them is here; not looked for again at each connect. */
static atomic_bool slow_only;

static void hint(struct fi_info *h, uint64_t caps)
{
	h->caps = caps;
	h->mode = FI_CONTEXT | FI_CONTEXT2;
	h->ep_attr->type = FI_EP_RDM;
	h->tx_attr->msg_order = h->rx_attr->msg_order = FI_ORDER_SAS;
	h->domain_attr->threading = FI_THREAD_DOMAIN;
	h->domain_attr->control_progress = h->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	h->domain_attr->resource_mgmt = FI_RM_ENABLED;
	h->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY |
				  FI_MR_ENDPOINT | FI_MR_RAW;
}

/* Asks libfabric for a provider by name, on a board or wherever it is. */
static struct fi_info *info_ask(const char *name, const char *node, uint64_t caps)
{
	struct fi_info *hints = fi_allocinfo(), *list = NULL;

	if (!hints)
		return NULL;
	hint(hints, caps);
	hints->fabric_attr->prov_name = strdup(name);
	if (fi_getinfo(TW_OFI_API, node, NULL, node ? FI_SOURCE | FI_NUMERICHOST : 0, hints, &list))
		list = NULL;
	fi_freeinfo(hints);
	return list;
}

/* With remote memory and buffers for many packets, if possible. */
static struct fi_info *info_find(const char *name, const char *node)
{
	static const uint64_t wishes[] = {FI_MSG | FI_RMA | FI_MULTI_RECV, FI_MSG | FI_MULTI_RECV,
					  FI_MSG | FI_RMA, FI_MSG};
	struct fi_info *info = NULL;

	for (unsigned i = 0; i < tw_countof(wishes) && !info; i++) {
		info = info_ask(name, node, wishes[i]);
		if (!info && node)
			info = info_ask(name, NULL, wishes[i]);
	}
	return info;
}

struct fi_info *tw_ofi_choose(const struct tw_driver_host *host)
{
	const char *name = host->settings->ofi;
	const struct sockaddr *sa = (const struct sockaddr *)&host->board;
	struct fi_info *info = NULL;
	char node[NI_MAXHOST];

	if (getnameinfo(sa, tw_inet_len(&host->board), node, sizeof(node), NULL, 0,
			NI_NUMERICHOST) != 0)
		return NULL;
	if (strcmp(name, "shm") == 0) {
		host->log(TW_LOG_WARN, "libfabric's shm is not for this: Tagwire has its own");
		return NULL;
	}
	/* It would end here again, whatever it is combined with. */
	if (strstr(name, "tagwire")) {
		host->log(TW_LOG_WARN, "libfabric's provider %s is Tagwire itself", name);
		return NULL;
	}
	if (*name) {
		info = info_find(name, node);
		if (!info)
			host->log(TW_LOG_WARN, "libfabric has no provider %s for %s", name, node);
		return info;
	}
	for (unsigned i = 0; i < tw_countof(fast) && !info && !atomic_load(&slow_only); i++)
		info = info_find(fast[i], NULL);
	/* For plain TCP the tcp driver is better, if it may be used. */
	if (!info && tw_names_have(host->settings->providers, "tcp")) {
		atomic_store(&slow_only, true);
		host->log(TW_LOG_INFO, "libfabric has no network faster than TCP");
		return NULL;
	}
	if (!info)
		info = info_find(USUAL, node);
	if (!info)
		host->log(TW_LOG_WARN, "libfabric has no provider for %s", node);
	return info;
}
