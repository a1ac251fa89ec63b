/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The hosts of numbered nodes: this one, or as TAGWIRE_NODES (0-3=alpha,4-7=beta) or a launcher
 * says.
 */
#include <string.h>

#include "base/log.h"
#include "base/settings.h"
#include "naming/naming.h"

bool tw_topology_parse(uint64_t *nics, unsigned n, unsigned limit, uint64_t here)
{
	const char *text = tw_settings.nodes;
	struct tw_nodes at;
	enum tw_err err;
	uint64_t nic;

	for (unsigned i = 0; i < n; i++)
		nics[i] = here;
	while (tw_nodes_next(&text, &at) > 0) {
		if (at.last >= limit) {
			tw_log(TW_LOG_ERROR, "TAGWIRE_NODES: %lu=%s: here numbers are 0 to %u",
			       at.last, at.host, limit - 1);
			return false;
		}
		err = tw_name_to_nic(at.host, &nic);
		if (err != TW_OK) {
			tw_log(TW_LOG_ERROR, "TAGWIRE_NODES: host not found: %s%s", at.host,
			       tw_name_advice(err));
			return false;
		}
		for (; at.first <= at.last && at.first < n; at.first++)
			nics[at.first] = nic;
	}
	return true;
}

static uint64_t node_nics[TW_MAX_NODES];

bool tw_topology_init(const uint64_t *hosts)
{
	const struct tw_board *boards;

	if (hosts) {
		memcpy(node_nics, hosts, sizeof(node_nics));
		return true;
	}
	tw_boards(&boards);
	return tw_topology_parse(node_nics, TW_MAX_NODES, TW_MAX_NODES, boards[0].nic_id);
}

unsigned tw_topology_other_hosts(uint64_t *others, unsigned max)
{
	unsigned n = 0, k;

	for (unsigned i = 0; i < TW_MAX_NODES; i++) {
		uint32_t board;

		for (k = 0; k < n && others[k] != node_nics[i]; k++)
			;
		if (k == n && n < max && !tw_topology_node_board(i, &board))
			others[n++] = node_nics[i];
	}
	return n;
}

uint64_t tw_topology_node_nic(uint32_t node)
{
	return node_nics[node];
}

bool tw_topology_node_board(uint32_t node, uint32_t *board)
{
	return tw_board_of(node_nics[node], board);
}
