/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the nodes of MCAPI live. */
#include "mcapi/node.h"

static uint64_t nics[TW_MAX_NODES];

bool tw_place_init(void)
{
	return tw_places(nics, TW_MAX_NODES, TW_MAX_NODES);
}

uint64_t tw_place_nic(uint32_t node)
{
	return nics[node];
}

bool tw_place_board(uint32_t node, uint32_t *board)
{
	return tw_board_of(nics[node], board);
}
