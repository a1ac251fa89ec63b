/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The Myrinet Express (MX) 1.0 programming interface.
 *
 * Section numbers below are those of "Myrinet Express (MX): A
 * High-Performance, Low-Level, Message-Passing Interface", version 1.0.
 * Every function has a page in section 3 of the manual; tagwire(7) is the
 * overview and tagwire-matching(7) explains match information and masks.
 *
 * Any thread may call any function, unless the function's page says otherwise.
 * A function that fails calls the error handler first (section X); the default
 * handler prints the failure and ends the program.
 */
#ifndef MYRIEXPRESS_H
#define MYRIEXPRESS_H

#include <inttypes.h>
#include <stddef.h>

#include "tagwire.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The interface version handed to mx__init_api(). */
#define MX_API 0x301

/* Let the library choose the board or the endpoint id (III.3.1). */
#define MX_ANY_NIC 0xffffffffU
#define MX_ANY_ENDPOINT 0xffffffffU

/* A timeout that never expires; ~0 means the same. */
#define MX_INFINITE 0

/* Sizes in bytes, the terminating zero included. */
#define MX_MAX_STR_LEN 128
#define MX_MAX_HOSTNAME_LEN 80

/*
 * Limits. The specification reads them with mx_get_info(), so they are keys of it as well.
 * The longest gather or scatter list of one request; the number of endpoint ids of a board;
 * and the default of MX_PARAM_UNEXP_QUEUE_MAX in bytes, which TAGWIRE_UNEXP_MAX changes.
 */
#define MX_MAX_SEGMENTS 256
#define MX_MAX_ENDPOINTS 1024
#define MX_UNEXP_QUEUE_LENGTH_MAX 4194304

/* The most bits of MX_PARAM_CONTEXT_ID. */
#define MX_CONTEXT_ID_BITS_MAX 16

/* The mask that compares all 64 bits of the match information (II.4). */
#define MX_MATCH_MASK_NONE (~(uint64_t)0)

/* Halves of a 64-bit value, for printing. */
#define MX_U32(x) ((uint32_t)((uint64_t)(x) >> 32))
#define MX_L32(x) ((uint32_t)(x))

/* Handles. NULL is never a valid endpoint or request (II.2, II.6). */
typedef struct mx_endpoint *mx_endpoint_t;
typedef union mx_request *mx_request_t;

/*
 * The address of an endpoint as one local endpoint knows it (II.3). Passed by
 * value; meaningful only with the local endpoint that it was made for.
 */
#define MX_SIZEOF_ADDR 16
typedef struct {
	uint64_t stuff[MX_SIZEOF_ADDR / 8];
} mx_endpoint_addr_t;
typedef mx_endpoint_addr_t mx_addr_t;

/* One piece of a gather or scatter list; length in bytes (V.1.1). */
typedef void *mx_segment_ptr_t;
typedef struct {
	mx_segment_ptr_t segment_ptr;
	uint32_t segment_length;
} mx_segment_t;

/* The result of every function. */
enum mx_return_code {
	MX_SUCCESS = 0,
	MX_BAD_BAD_BAD = 1,
	MX_FAILURE = 2,
	MX_ALREADY_INITIALIZED = 3,
	MX_NOT_INITIALIZED = 4,
	MX_NO_DEV = 5,
	MX_NO_DRIVER = 6,
	MX_NO_PERM = 7,
	MX_BOARD_UNKNOWN = 8,
	MX_BAD_ENDPOINT = 9,
	MX_BAD_SEG_LIST = 10,
	MX_BAD_SEG_MEM = 11,
	MX_BAD_SEG_CNT = 12,
	MX_BAD_REQUEST = 13,
	MX_BAD_MATCH_MASK = 14,
	MX_NO_RESOURCES = 15,
	MX_BAD_ADDR_LIST = 16,
	MX_BAD_ADDR_COUNT = 17,
	MX_BAD_ROOT = 18,
	MX_NOT_COMPLETED = 19,
	MX_BUSY = 20,
	MX_BAD_INFO_KEY = 21,
	MX_BAD_INFO_VAL = 22,
	MX_BAD_NIC = 23,
	MX_BAD_PARAM_LIST = 24,
	MX_BAD_PARAM_NAME = 25,
	MX_BAD_PARAM_VAL = 26,
	MX_BAD_HOSTNAME_ARGS = 27,
	MX_HOST_NOT_FOUND = 28,
	MX_REQUEST_PENDING = 29,
	MX_TIMEOUT = 30,
	MX_NO_MATCH = 31,
	MX_BAD_ENDPOINT_ID = 32,
	MX_CONNECTION_FAILED = 33,
	MX_BAD_CONNECTION_KEY = 34,
	MX_BAD_INFO_LENGTH = 35,
	MX_NIC_NOT_FOUND = 36,
	MX_BAD_KERNEL_VERSION = 37,
	MX_BAD_LIB_VERSION = 38,
	MX_NIC_DEAD = 39,
	MX_CANCEL_NOT_SUPPORTED = 40,
	MX_CLOSE_IN_HANDLER = 41,
	MX_BAD_MATCHING_FOR_CONTEXT_ID_MASK = 42,
	MX_NOT_SUPPORTED_WITH_CONTEXT_ID = 43
};
typedef enum mx_return_code mx_return_t;

/* How a request ended (VI.2.1). */
enum mx_status_code {
	MX_STATUS_SUCCESS = 0,
	MX_STATUS_PENDING = 1,
	MX_STATUS_BUFFERED = 2,
	MX_STATUS_REJECTED = 3,
	MX_STATUS_TIMEOUT = 4,
	MX_STATUS_TRUNCATED = 5,
	MX_STATUS_CANCELLED = 6,
	MX_STATUS_ENDPOINT_UNKNOWN = 7,
	MX_STATUS_ENDPOINT_CLOSED = 8,
	MX_STATUS_ENDPOINT_UNREACHABLE = 9,
	MX_STATUS_BAD_SESSION = 10,
	MX_STATUS_BAD_KEY = 11,
	MX_STATUS_BAD_ENDPOINT = 12,
	MX_STATUS_BAD_RDMAWIN = 13,
	MX_STATUS_ABORTED = 14,
	MX_STATUS_EVENTQ_FULL = 15,
	MX_STATUS_NO_RESOURCES = 16
};
typedef enum mx_status_code mx_status_code_t;

/* Filled in when a request completes or a probe finds a message. */
typedef struct mx_status {
	mx_status_code_t code;
	mx_endpoint_addr_t source; /* sender of a received message */
	uint64_t match_info;	   /* as the sender gave it */
	uint32_t msg_length;	   /* bytes sent */
	TAGWIRE_UNNAMED union {
		uint32_t xfer_length; /* bytes delivered */
		uint32_t length;      /* the 1.0 text's name for it */
	};
	void *context; /* as given when the request was posted */
} mx_status_t;

/* Called with a description of the failure and the code to return (X). */
typedef mx_return_t (*mx_error_handler_t)(char *message, mx_return_t code);

/* The two predefined handlers (X). NULL stands for MX_ERRORS_ARE_FATAL. */
extern const mx_error_handler_t MX_ERRORS_ARE_FATAL;
extern const mx_error_handler_t MX_ERRORS_RETURN;

/* Parameters of mx_open_endpoint() (III.3.1). */
enum mx_param_key {
	MX_PARAM_ERROR_HANDLER = 0,
	MX_PARAM_UNEXP_QUEUE_MAX = 1, /* bytes */
	MX_PARAM_CONTEXT_ID = 2
};
typedef enum mx_param_key mx_param_key_t;

typedef struct {
	mx_param_key_t key;
	union {
		mx_error_handler_t error_handler;
		uint32_t unexp_queue_max;
		struct {
			uint8_t bits;
			uint8_t shift;
		} context_id;
	} val;
} mx_param_t;

/* Keys of mx_get_info() (III.2). */
enum mx_get_info_key {
	MX_NIC_COUNT = 1,
	MX_NIC_IDS = 2,
	MX_MAX_NATIVE_ENDPOINTS = 3,
	MX_NATIVE_REQUESTS = 4,
	MX_COUNTERS_COUNT = 5,
	MX_COUNTERS_LABELS = 6,
	MX_COUNTERS_VALUES = 7,
	MX_PRODUCT_CODE = 8,
	MX_PART_NUMBER = 9,
	MX_SERIAL_NUMBER = 10,
	MX_PORT_COUNT = 11,
	MX_PIO_SEND_MAX = 12,
	MX_COPY_SEND_MAX = 13,
	MX_NUMA_NODE = 14,
	MX_NET_TYPE = 15,
	MX_LINE_SPEED = 16,
	/* The limits above, as keys of this type. */
	MX_INFO_MAX_ENDPOINTS = 1000,
	MX_INFO_MAX_SEGMENTS = 1001,
	MX_INFO_LINE_RATE = 1002 /* in MB/s */
};
typedef enum mx_get_info_key mx_get_info_key_t;

/* Values of MX_NET_TYPE. */
#define MX_HAS_NET_TYPE 1
enum mx_net_type { MX_NET_MYRI = 0, MX_NET_ETHER = 1 };
typedef enum mx_net_type mx_net_type_t;

/* Values of MX_LINE_SPEED: 10 Gb/s and more, or less. */
enum mx_line_speed { MX_SPEED_2G = 0, MX_SPEED_10G = 1 };
typedef enum mx_line_speed mx_line_speed_t;

/* III.1 Library initialization */
mx_return_t mx_init(void);
mx_return_t mx__init_api(int api);
mx_return_t mx_finalize(void);

/* III.2 Information retrieval */
mx_return_t mx_get_info(mx_endpoint_t endpoint, mx_get_info_key_t key, void *in_val,
			uint32_t in_len, void *out_val, uint32_t out_len);

/* III.3 Endpoint opening and closing */
mx_return_t mx_open_endpoint(uint32_t board_num, uint32_t endpoint_id, uint32_t filter,
			     mx_param_t *params_list, uint32_t params_count,
			     mx_endpoint_t *endpoint);
mx_return_t mx_close_endpoint(mx_endpoint_t endpoint);
mx_return_t mx_wakeup(mx_endpoint_t endpoint);
/* Switch background progress off and on. */
mx_return_t mx_disable_progression(mx_endpoint_t endpoint);
mx_return_t mx_reenable_progression(mx_endpoint_t endpoint);

/* Called for each message that matches no posted receive; NULL removes the callback. */
typedef void (*mx_matching_callback_t)(void *context, uint64_t match_value, int length);
mx_return_t mx_register_unexp_callback(mx_endpoint_t endpoint, mx_matching_callback_t callback,
				       void *context);

/* IV.1, IV.2 Names, boards and NIC ids */
mx_return_t mx_hostname_to_nic_id(char *hostname, uint64_t *nic_id);
mx_return_t mx_nic_id_to_hostname(uint64_t nic_id, char *hostname);
mx_return_t mx_board_number_to_nic_id(uint32_t board_number, uint64_t *nic_id);
mx_return_t mx_nic_id_to_board_number(uint64_t nic_id, uint32_t *board_number);

/* IV.3, IV.4 Endpoint addresses; the timeout is in seconds */
mx_return_t mx_connect(mx_endpoint_t endpoint, uint64_t nic_id, uint32_t endpoint_id,
		       uint32_t filter, uint32_t timeout, mx_endpoint_addr_t *endpoint_addr);
mx_return_t mx_disconnect(mx_endpoint_t endpoint, mx_endpoint_addr_t endpoint_addr);
mx_return_t mx_decompose_endpoint_addr(mx_endpoint_addr_t endpoint_addr, uint64_t *nic_id,
				       uint32_t *endpoint_id);
mx_return_t mx_get_endpoint_addr(mx_endpoint_t endpoint, mx_endpoint_addr_t *endpoint_addr);

/* V Point-to-point communication */
mx_return_t mx_isend(mx_endpoint_t endpoint, mx_segment_t *segments_list, uint32_t segments_count,
		     mx_endpoint_addr_t destination, uint64_t match_send, void *context,
		     mx_request_t *request);
mx_return_t mx_issend(mx_endpoint_t endpoint, mx_segment_t *segments_list, uint32_t segments_count,
		      mx_endpoint_addr_t destination, uint64_t match_send, void *context,
		      mx_request_t *request);
mx_return_t mx_irecv(mx_endpoint_t endpoint, mx_segment_t *segments_list, uint32_t segments_count,
		     uint64_t match_recv, uint64_t match_mask, void *context,
		     mx_request_t *request);

/* VI Request state; timeouts are in milliseconds */
mx_return_t mx_ibuffered(mx_endpoint_t endpoint, mx_request_t *request, uint32_t *result);
mx_return_t mx_buffered(mx_endpoint_t endpoint, mx_request_t *request, uint32_t timeout,
			uint32_t *result);
mx_return_t mx_test(mx_endpoint_t endpoint, mx_request_t *request, mx_status_t *status,
		    uint32_t *result);
mx_return_t mx_wait(mx_endpoint_t endpoint, mx_request_t *request, uint32_t timeout,
		    mx_status_t *status, uint32_t *result);
mx_return_t mx_test_any(mx_endpoint_t endpoint, uint64_t match_info, uint64_t match_mask,
			mx_status_t *status, uint32_t *result);
mx_return_t mx_wait_any(mx_endpoint_t endpoint, uint32_t timeout, uint64_t match_info,
			uint64_t match_mask, mx_status_t *status, uint32_t *result);
mx_return_t mx_ipeek(mx_endpoint_t endpoint, mx_request_t *request, uint32_t *result);
mx_return_t mx_peek(mx_endpoint_t endpoint, uint32_t timeout, mx_request_t *request,
		    uint32_t *result);
mx_return_t mx_context(mx_request_t *request, void **context);

/* VII Probing; the timeout is in milliseconds */
mx_return_t mx_iprobe(mx_endpoint_t endpoint, uint64_t match_recv, uint64_t match_mask,
		      mx_status_t *status, uint32_t *result);
mx_return_t mx_probe(mx_endpoint_t endpoint, uint32_t timeout, uint64_t match_recv,
		     uint64_t match_mask, mx_status_t *status, uint32_t *result);

/* VIII Cancelling */
mx_return_t mx_cancel(mx_endpoint_t endpoint, mx_request_t *request, uint32_t *result);
/* Limits the time that a request, or with NULL each later one of the endpoint, is pending. */
mx_return_t mx_set_request_timeout(mx_endpoint_t endpoint, mx_request_t request,
				   uint32_t milliseconds);

/* X Errors */
mx_error_handler_t mx_set_error_handler(mx_error_handler_t handler);
const char *mx_strerror(mx_return_t code);
const char *mx_strstatus(mx_status_code_t code);

#ifdef __cplusplus
}
#endif

#endif /* MYRIEXPRESS_H */
