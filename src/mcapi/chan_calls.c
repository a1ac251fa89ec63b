/* SPDX-License-Identifier: BSD-2-Clause */
/* MCAPI 4.4, 4.5: the functions that connect, open and close channels, alike for both types. */
#include "mcapi/chan.h"

#define CONNECT(name, type)                                                                        \
	void name(mcapi_endpoint_t send_endpoint, mcapi_endpoint_t receive_endpoint,               \
		  mcapi_request_t *request, mcapi_status_t *mcapi_status)                          \
	{                                                                                          \
		tw_mcapi_chan_connect(type, send_endpoint, receive_endpoint, request,              \
				      mcapi_status);                                               \
	}

#define OPEN(name, type, sender, handle_t)                                                         \
	void name(handle_t *handle, mcapi_endpoint_t endpoint, mcapi_request_t *request,           \
		  mcapi_status_t *mcapi_status)                                                    \
	{                                                                                          \
		tw_mcapi_chan_open(type, sender, endpoint, handle, request, mcapi_status);         \
	}

#define CLOSE(name, type, sender, handle_t)                                                        \
	void name(handle_t handle, mcapi_request_t *request, mcapi_status_t *mcapi_status)         \
	{                                                                                          \
		tw_mcapi_chan_close(type, sender, handle, request, mcapi_status);                  \
	}

CONNECT(mcapi_connect_pktchan_i, TW_MCAPI_K_PKT)
OPEN(mcapi_open_pktchan_recv_i, TW_MCAPI_K_PKT, false, mcapi_pktchan_recv_hndl_t)
OPEN(mcapi_open_pktchan_send_i, TW_MCAPI_K_PKT, true, mcapi_pktchan_send_hndl_t)
CLOSE(mcapi_pktchan_recv_close_i, TW_MCAPI_K_PKT, false, mcapi_pktchan_recv_hndl_t)
CLOSE(mcapi_pktchan_send_close_i, TW_MCAPI_K_PKT, true, mcapi_pktchan_send_hndl_t)
CLOSE(mcapi_packetchan_recv_close_i, TW_MCAPI_K_PKT, false, mcapi_pktchan_recv_hndl_t)
CLOSE(mcapi_packetchan_send_close_i, TW_MCAPI_K_PKT, true, mcapi_pktchan_send_hndl_t)

CONNECT(mcapi_connect_sclchan_i, TW_MCAPI_K_SCL)
OPEN(mcapi_open_sclchan_recv_i, TW_MCAPI_K_SCL, false, mcapi_sclchan_recv_hndl_t)
OPEN(mcapi_open_sclchan_send_i, TW_MCAPI_K_SCL, true, mcapi_sclchan_send_hndl_t)
CLOSE(mcapi_sclchan_recv_close_i, TW_MCAPI_K_SCL, false, mcapi_sclchan_recv_hndl_t)
CLOSE(mcapi_sclchan_send_close_i, TW_MCAPI_K_SCL, true, mcapi_sclchan_send_hndl_t)
