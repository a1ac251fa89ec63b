/* SPDX-License-Identifier: BSD-2-Clause */
/* MX IV.1, IV.2: names, boards and NIC ids. */
#include <stdio.h>

#include "mx/mx_internal.h"

static mx_return_t not_found(const char *function, const char *name, enum tw_err err)
{
	char detail[MX_MAX_HOSTNAME_LEN + 128];

	snprintf(detail, sizeof(detail), "%.*s%s", MX_MAX_HOSTNAME_LEN, name, tw_name_advice(err));
	return tw_mx_fail_of(NULL, function, MX_HOST_NOT_FOUND, detail);
}

mx_return_t mx_hostname_to_nic_id(char *hostname, uint64_t *nic_id)
{
	enum tw_err err;

	if (!tw_mx_ready())
		return tw_mx_fail(NULL, __func__, MX_NOT_INITIALIZED);
	if (!hostname || !nic_id)
		return tw_mx_fail(NULL, __func__, MX_BAD_HOSTNAME_ARGS);
	err = tw_name_to_nic(hostname, nic_id);
	if (err == TW_ENOMEM)
		return tw_mx_fail_of(NULL, __func__, MX_NO_RESOURCES,
				     "the host was not looked up; raise ulimit -n");
	return err == TW_OK ? MX_SUCCESS : not_found(__func__, hostname, err);
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
