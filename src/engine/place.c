/* SPDX-License-Identifier: BSD-2-Clause */
/* Where nodes live: here, or as TAGWIRE_NODES says (0-3=alpha,4-7=beta). */
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

static uint64_t nics[TW_MAX_NODES];

static bool place(unsigned long first, unsigned long last, const char *host)
{
	uint64_t nic;

	if (first > last || last >= TW_MAX_NODES)
		return false;
	if (tw_name_to_nic(host, &nic) != TW_OK) {
		tw_log(TW_LOG_ERROR, "TAGWIRE_NODES: cannot find host %s", host);
		return false;
	}
	for (; first <= last; first++)
		nics[first] = nic;
	return true;
}

/* N=HOST or N-M=HOST */
static bool place_entry(const char *entry)
{
	unsigned long first, last;
	char *end;

	if (*entry < '0' || *entry > '9')
		return false;
	first = last = strtoul(entry, &end, 10);
	if (*end == '-' && end[1] >= '0' && end[1] <= '9')
		last = strtoul(end + 1, &end, 10);
	return *end == '=' && place(first, last, end + 1);
}

bool tw_place_init(void)
{
	char text[sizeof(tw_settings.nodes)], *save, *entry;
	const struct tw_board *boards;

	tw_boards(&boards);
	for (unsigned i = 0; i < TW_MAX_NODES; i++)
		nics[i] = boards[0].nic_id;
	strcpy(text, tw_settings.nodes);
	for (entry = strtok_r(text, ",", &save); entry; entry = strtok_r(NULL, ",", &save))
		if (!place_entry(entry)) {
			tw_log(TW_LOG_ERROR, "TAGWIRE_NODES: cannot use %s", entry);
			return false;
		}
	return true;
}

unsigned tw_place_others(uint64_t *others, unsigned max)
{
	unsigned n = 0, k;

	for (unsigned i = 0; i < TW_MAX_NODES; i++) {
		uint32_t board;

		for (k = 0; k < n && others[k] != nics[i]; k++)
			;
		if (k == n && n < max && !tw_place_board(i, &board))
			others[n++] = nics[i];
	}
	return n;
}

uint64_t tw_place_nic(uint32_t node)
{
	return nics[node];
}

bool tw_place_board(uint32_t node, uint32_t *board)
{
	const struct tw_board *boards;
	unsigned n = tw_boards(&boards);

	for (*board = 0; *board < n; ++*board)
		if (boards[*board].nic_id == nics[node])
			return true;
	*board = 0;
	return false;
}
