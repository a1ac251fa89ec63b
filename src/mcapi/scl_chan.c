/* SPDX-License-Identifier: BSD-2-Clause */
/* MCAPI 4.5: the life of scalar channels, which is that of all channels. */
#include "mcapi/node.h"

void mcapi_connect_sclchan_i(mcapi_endpoint_t send_endpoint, mcapi_endpoint_t receive_endpoint,
			     mcapi_request_t *request, mcapi_status_t *mcapi_status)
{
	tw_mcapi_chan_connect(TW_MCAPI_K_SCL, send_endpoint, receive_endpoint, request,
			      mcapi_status);
}

void mcapi_open_sclchan_recv_i(mcapi_sclchan_recv_hndl_t *receive_handle,
			       mcapi_endpoint_t receive_endpoint, mcapi_request_t *request,
			       mcapi_status_t *mcapi_status)
{
	tw_mcapi_chan_open(TW_MCAPI_K_SCL, false, receive_endpoint, receive_handle, request,
			   mcapi_status);
}

void mcapi_open_sclchan_send_i(mcapi_sclchan_send_hndl_t *send_handle,
			       mcapi_endpoint_t send_endpoint, mcapi_request_t *request,
			       mcapi_status_t *mcapi_status)
{
	tw_mcapi_chan_open(TW_MCAPI_K_SCL, true, send_endpoint, send_handle, request, mcapi_status);
}

void mcapi_sclchan_recv_close_i(mcapi_sclchan_recv_hndl_t receive_handle, mcapi_request_t *request,
				mcapi_status_t *mcapi_status)
{
	tw_mcapi_chan_close(TW_MCAPI_K_SCL, false, receive_handle, request, mcapi_status);
}

void mcapi_sclchan_send_close_i(mcapi_sclchan_send_hndl_t send_handle, mcapi_request_t *request,
				mcapi_status_t *mcapi_status)
{
	tw_mcapi_chan_close(TW_MCAPI_K_SCL, true, send_handle, request, mcapi_status);
}
