/* SPDX-License-Identifier: BSD-2-Clause */
/* MX IV.1, IV.2: names, boards and NIC ids. */
#include <stdio.h>
#include <string.h>

#include "mx/mx_internal.h"

/* Perhaps there is the host, and it does not have that board. */
static mx_return_t not_found(const char *function, const char *name)
{
	const char *colon = strrchr(name, ':');
	char host[MX_MAX_HOSTNAME_LEN], detail[MX_MAX_HOSTNAME_LEN + 128];
	uint64_t nic_id;

	snprintf(host, sizeof(host), "%.*s", (int)(colon ? colon - name : 0), name);
	if (*host && tw_name_to_nic(host, &nic_id) == TW_OK)
		snprintf(detail, sizeof(detail), "%s is known, and has no board %.16s", host,
			 colon + 1);
	else
		snprintf(detail, sizeof(detail), "%.128s; see TAGWIRE_PEERS in tagwire-settings(7)",
			 name);
	return tw_mx_fail_of(NULL, function, MX_HOST_NOT_FOUND, detail);
}

mx_return_t mx_hostname_to_nic_id(char *hostname, uint64_t *nic_id)
{
	if (!tw_mx_ready())
		return tw_mx_fail(NULL, __func__, MX_NOT_INITIALIZED);
	if (!hostname || !nic_id)
		return tw_mx_fail(NULL, __func__, MX_BAD_HOSTNAME_ARGS);
	if (tw_name_to_nic(hostname, nic_id) != TW_OK)
		return not_found(__func__, hostname);
	return MX_SUCCESS;
}

mx_return_t mx_nic_id_to_hostname(uint64_t nic_id, char *hostname)
{
	if (!tw_mx_ready())
		return tw_mx_fail(NULL, __func__, MX_NOT_INITIALIZED);
	if (!hostname)
		return tw_mx_fail(NULL, __func__, MX_BAD_HOSTNAME_ARGS);
	if (tw_nic_to_name(nic_id, hostname, MX_MAX_HOSTNAME_LEN) != TW_OK)
		return tw_mx_fail(NULL, __func__, MX_HOST_NOT_FOUND);
	return MX_SUCCESS;
}

mx_return_t mx_board_number_to_nic_id(uint32_t board_number, uint64_t *nic_id)
{
	const struct tw_board *boards;

	if (!tw_mx_ready())
		return tw_mx_fail(NULL, __func__, MX_NOT_INITIALIZED);
	if (!nic_id)
		return tw_mx_fail(NULL, __func__, MX_FAILURE);
	if (board_number >= tw_boards(&boards))
		return tw_mx_fail(NULL, __func__, MX_BOARD_UNKNOWN);
	*nic_id = boards[board_number].nic_id;
	return MX_SUCCESS;
}

mx_return_t mx_nic_id_to_board_number(uint64_t nic_id, uint32_t *board_number)
{
	uint32_t board;

	if (!tw_mx_ready())
		return tw_mx_fail(NULL, __func__, MX_NOT_INITIALIZED);
	if (!board_number)
		return tw_mx_fail(NULL, __func__, MX_FAILURE);
	if (!tw_board_of(nic_id, &board))
		return tw_mx_fail(NULL, __func__, MX_BOARD_UNKNOWN);
	*board_number = board;
	return MX_SUCCESS;
}
