/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The hosts of numbered nodes: this one, or as TAGWIRE_NODES (0-3=alpha,4-7=beta) or a launcher
 * says.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/settings.h"
#include "naming/naming.h"

struct topology {
	uint64_t *nics;
	unsigned long n, limit;
};

static bool topology_place(const struct topology *p, unsigned long first, unsigned long last,
			   const char *host)
{
	uint64_t nic;

	if (first > last || last >= p->limit)
		return false;
	if (tw_name_to_nic(host, &nic) != TW_OK) {
		tw_log(TW_LOG_ERROR, "TAGWIRE_NODES: cannot find host %s", host);
		return false;
	}
	for (; first <= last && first < p->n; first++)
		p->nics[first] = nic;
	return true;
}

/* N=HOST or N-M=HOST */
static bool parse_entry(const struct topology *p, const char *entry)
{
	unsigned long first, last;
	char *end;

	if (*entry < '0' || *entry > '9')
		return false;
	first = last = strtoul(entry, &end, 10);
	if (*end == '-' && end[1] >= '0' && end[1] <= '9')
		last = strtoul(end + 1, &end, 10);
	return *end == '=' && topology_place(p, first, last, end + 1);
}

bool tw_topology_parse(uint64_t *nics, unsigned n, unsigned limit, uint64_t here)
{
	char text[sizeof(tw_settings.nodes)], *save, *entry;
	const struct topology p = {nics, n, limit};

	for (unsigned i = 0; i < n; i++)
		nics[i] = here;
	strcpy(text, tw_settings.nodes);
	for (entry = strtok_r(text, ",", &save); entry; entry = strtok_r(NULL, ",", &save))
		if (!parse_entry(&p, entry)) {
			tw_log(TW_LOG_ERROR, "TAGWIRE_NODES: cannot use %s", entry);
			return false;
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
