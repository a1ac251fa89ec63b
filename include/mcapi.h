/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The Multicore Communications API (MCAPI), version 1.063.
 *
 * Section numbers below are those of "Multicore Communications API
 * Specification V1.063". Every function has a page in section 3 of the manual;
 * mcapi(7) is the overview.
 *
 * A node is the thread that called mcapi_initialize(). A thread that did not
 * acts for the first node of its process. Any thread may call any function.
 * Every function but mcapi_strerror() stores its result in *mcapi_status. If
 * mcapi_status is MCAPI_NULL, the call does nothing, as it could not report
 * MCAPI_EPARAM.
 */
#ifndef MCAPI_H
#define MCAPI_H

#include <stddef.h>
#include <stdint.h>

#include "tagwire.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The version that mcapi_initialize() reports, which is the version of the specification. */
#define MCAPI_VERSION 1063

/* Types (3.16). Handles are opaque; MCAPI_NULL is a possible endpoint. */
typedef int mcapi_int_t;
typedef unsigned int mcapi_uint_t;
typedef uint8_t mcapi_uint8_t;
typedef uint16_t mcapi_uint16_t;
typedef uint32_t mcapi_uint32_t;
typedef uint64_t mcapi_uint64_t;
typedef unsigned char mcapi_boolean_t;
typedef unsigned int mcapi_node_t;
typedef int mcapi_port_t;
typedef unsigned int mcapi_version_t;
typedef int mcapi_status_t;
typedef unsigned int mcapi_priority_t;
/* Milliseconds; 0 tests once, MCAPI_INFINITE never expires. */
typedef int mcapi_timeout_t;

/* An endpoint has one number in every process: it may be sent in a message. */
typedef uint32_t mcapi_endpoint_t;
/* Valid on the node that made it. */
typedef uint64_t mcapi_request_t;
typedef uint32_t mcapi_pktchan_recv_hndl_t;
typedef uint32_t mcapi_pktchan_send_hndl_t;
typedef uint32_t mcapi_sclchan_recv_hndl_t;
typedef uint32_t mcapi_sclchan_send_hndl_t;

/* Limits. */
#define MCAPI_MAX_NODES 256		 /* node numbers are below this */
#define MCAPI_MAX_ENDPOINTS 4096	 /* of a node */
#define MCAPI_MAX_MESSAGE_SIZE 0x4000000 /* bytes, 64 MiB */
#define MCAPI_MAX_PACKET_SIZE 0x4000000	 /* bytes, 64 MiB */
#define MCAPI_MAX_CHANNEL_HANDLES 1	 /* of an endpoint */
#define MCAPI_MAX_REQUESTS 0x1000000	 /* of a node */
#define MCAPI_MAX_NO_PRORITIES 8	 /* priorities are 0, the highest, to 7 */
#define MCAPI_MAX_NO_PRIORITIES MCAPI_MAX_NO_PRORITIES

#define MCAPI_TRUE 1
#define MCAPI_FALSE 0
#define MCAPI_NULL 0

#define MCAPI_PORT_ANY (-1) /* the next port that is free (4.2.1) */
#define MCAPI_INFINITE (-1) /* a timeout that never expires (4.6.2) */
#define MCAPI_TIMEOUT_INFINITE MCAPI_INFINITE

/* Names of the directions, as in section 5; no function takes them. */
#define OPEN_SEND 1
#define OPEN_RECV 2
#define CLOSE_SEND 3
#define CLOSE_RECV 4

/* Values of *mcapi_status. */
enum mcapi_status_codes {
	MCAPI_SUCCESS = 0,
	MCAPI_INCOMPLETE = 1,	   /* the operation has not completed */
	MCAPI_EATTR_INCOMP = 2,	   /* attributes of the endpoints do not go together */
	MCAPI_ECHAN_OPEN = 3,	   /* a channel is open: no deletion */
	MCAPI_ECHAN_TYPE = 4,	   /* connected as another type of channel */
	MCAPI_ECONNECTED = 5,	   /* the endpoint is connected already */
	MCAPI_ENOT_CONNECTED = 6,  /* the channel is not connected */
	MCAPI_ENOT_OPEN = 7,	   /* the channel is not open */
	MCAPI_EDIR = 8,		   /* connected in the other direction */
	MCAPI_EEP_NOTALLOWED = 9,  /* endpoints cannot be created on this node */
	MCAPI_EMESS_LIMIT = 10,	   /* the message is longer than allowed */
	MCAPI_ENO_BUFFER = 11,	   /* the receiver has no buffer left */
	MCAPI_ENO_INIT = 12,	   /* the environment could not be initialized */
	MCAPI_ENODE_NOTINIT = 13,  /* the node is not initialized */
	MCAPI_ENO_FINAL = 14,	   /* the environment could not be finalized */
	MCAPI_ENO_MEM = 15,	   /* no memory */
	MCAPI_ENO_REQUEST = 16,	   /* no request handles left */
	MCAPI_ENODE_NOTVALID = 17, /* not a node */
	MCAPI_ENOT_ENDP = 18,	   /* not an endpoint */
	MCAPI_ENOT_OWNER = 19,	   /* only its creator deletes an endpoint */
	MCAPI_ENOT_HANDLE = 20,	   /* not a channel handle */
	MCAPI_ENOTREQ_HANDLE = 21, /* not a request handle */
	MCAPI_EPACK_LIMIT = 22,	   /* the packet is longer than allowed */
	MCAPI_EPACKLIMIT = MCAPI_EPACK_LIMIT,
	MCAPI_EPARAM = 23,	    /* an incorrect parameter */
	MCAPI_EPORT_NOTVALID = 24,  /* not a port */
	MCAPI_EREQ_CANCELED = 25,   /* the request was cancelled */
	MCAPI_EPRIO = 26,	    /* not a priority */
	MCAPI_ETRUNCATED = 27,	    /* the message was longer than the buffer */
	MCAPI_ENOT_VALID_BUF = 28,  /* not a packet buffer */
	MCAPI_ESCL_SIZE = 29,	    /* the scalar that comes next has another size */
	MCAPI_EREQ_TIMEOUT = 30,    /* the timeout has expired */
	MCAPI_EENDP_LIMIT = 31,	    /* no more endpoints allowed */
	MCAPI_INITIALIZED = 32,	    /* the thread is a node, or the number is taken */
	MCAPI_EREAD_ONLY = 33,	    /* the attribute cannot be changed */
	MCAPI_EPARAM_ERROR = 34,    /* never returned */
	MCAPI_EENDP_ISCREATED = 35, /* the endpoint exists already */
	MCAPI_ERROR = 36,	    /* never returned: for resetting a status */
	MCAPI_EATTR_NUM = 37,	    /* not an attribute */
	MCAPI_EATTR_SIZE = 38	    /* not the attribute's size */
};

/* Bits of MCAPI_ATTR_ENDP_STATUS. */
#define MCAPI_CREATED 0x00000001
#define MCAPI_CONNECTED 0x00000002
#define MCAPI_OPEN 0x00000010	     /* this end of the channel is open */
#define MCAPI_PKT 0x00000020	     /* a packet channel */
#define MCAPI_SCL 0x00000040	     /* a scalar channel */
#define MCAPI_SEND 0x00000080	     /* this is the end that sends */
#define MCAPI_RECEIVE 0x00000100     /* this is the end that receives */
#define MCAPI_GET_PENDING 0x00000200 /* never set: a get only waits for what is not there */

/* Names of the non-blocking operations, as in section 5; no function takes them. */
enum mcapi_nonblock_commands {
	ENDPOINT_GET,
	MESSAGE_SEND,
	MESSAGE_RECEIVE,
	PKTCHAN_CONNECT,
	PKTCHAN_OPEN_RECV,
	PKTCHAN_OPEN_SEND,
	PKTCHAN_SEND,
	PKTCHAN_RECV,
	PKTCHAN_CLOSE_RECV,
	PKTCHAN_CLOSE_SEND,
	SCLCHAN_CONNECT,
	SCLCHAN_OPEN_RECV,
	SCLCHAN_OPEN_SEND,
	SCLCHAN_CLOSE_RECV,
	SCLCHAN_CLOSE_SEND
};

/* Attributes of an endpoint (4.2.5, 4.2.6). Each is 4 bytes long. */
enum mcapi_attrubute_numbers {
	MCAPI_ATTR_NO_PRIORITIES,	  /* how many priorities; read only, 8 */
	MCAPI_ATTR_NO_BUFFERS,		  /* messages that wait, and packets; default 128 each */
	MCAPI_ATTR_BUFFER_SIZE,		  /* bytes of the longest of them; read only */
	MCAPI_ATTR_BUFFER_TYPE,		  /* read only, MCAPI_FIFO_BUFFER */
	MCAPI_ATTR_MEMORY_TYPE,		  /* read only, enum mcapi_memory_type */
	MCAPI_ATTR_TIMEOUT,		  /* of blocking calls, ms; default MCAPI_INFINITE */
	MCAPI_ATTR_ENDP_PRIO,		  /* must be equal at both ends of a channel; default 1 */
	MCAPI_ATTR_ENDP_STATUS,		  /* MCAPI_CREATED and so on; read only */
	MCAPI_ATTR_RECV_BUFFERS_AVAILABLE /* buffers that are free; read only, remote too */
};
#define mcapi_attribute_numbers mcapi_attrubute_numbers

enum mcapi_buffer_type { MCAPI_FIFO_BUFFER };

enum mcapi_memory_type { MCAPI_SHARED_MEMORY, MCAPI_LOCAL_MEMORY, MCAPI_REMOTE_MEMORY };

typedef mcapi_int_t mcapi_attr_no_priorities;
typedef mcapi_int_t mcapi_attr_no_buffers;
typedef mcapi_int_t mcapi_attr_message_buffer_size;
typedef mcapi_int_t mcapi_attr_buffer_type;
typedef mcapi_int_t mcapi_attr_memory_type;
typedef mcapi_timeout_t mcapi_attr_timeout;
typedef mcapi_uint_t mcapi_attr_endp_priority;
typedef mcapi_uint_t mcapi_attr_endp_status;
typedef mcapi_uint_t mcapi_attr_recv_buffers_available;

/* Parameters that are read and parameters that are written. */
#ifndef MCAPI_IN
#define MCAPI_IN const
#endif
#ifndef MCAPI_OUT
#define MCAPI_OUT
#endif

/* Aligned buffers travel a little faster; any alignment is legal (3.11). */
#define MCAPI_BUF_ALIGN 32
#ifdef __GNUC__
#define MCAPI_DECL_ALIGNED __attribute__((aligned(32)))
#else
#define MCAPI_DECL_ALIGNED
#endif

/* General (4.1) --------------------------------------------------------------- */

/* Makes the calling thread a node. The number must be free in the job. */
void mcapi_initialize(MCAPI_IN mcapi_node_t node_id, MCAPI_OUT mcapi_version_t *mcapi_version,
		      MCAPI_OUT mcapi_status_t *mcapi_status);

/* Ends the node: its endpoints are gone, its blocked calls return. */
void mcapi_finalize(MCAPI_OUT mcapi_status_t *mcapi_status);

/*
 * An extension of Tagwire: a descriptor of the caller's node for poll() and epoll, which is
 * closed with the node. mcapi_arm_fd() makes progress, and returns MCAPI_TRUE if nothing has
 * completed or arrived since its last call: the descriptor becomes readable when that changes.
 * MCAPI_FALSE: test the requests and arm again before sleeping. Scalars do not make it readable.
 */
int mcapi_get_fd(MCAPI_OUT mcapi_status_t *mcapi_status);
mcapi_boolean_t mcapi_arm_fd(MCAPI_OUT mcapi_status_t *mcapi_status);

mcapi_uint_t mcapi_get_node_id(MCAPI_OUT mcapi_status_t *mcapi_status);

/* Describes a status; never MCAPI_NULL. */
const char *mcapi_strerror(MCAPI_IN mcapi_status_t status);

/* Endpoints (4.2) ------------------------------------------------------------- */

/* Ports are 0 to 65,535, or MCAPI_PORT_ANY. */
mcapi_endpoint_t mcapi_create_endpoint(MCAPI_IN mcapi_port_t port_id,
				       MCAPI_OUT mcapi_status_t *mcapi_status);

void mcapi_get_endpoint_i(MCAPI_IN mcapi_node_t node_id, MCAPI_IN mcapi_port_t port_id,
			  MCAPI_OUT mcapi_endpoint_t *endpoint, MCAPI_OUT mcapi_request_t *request,
			  MCAPI_OUT mcapi_status_t *mcapi_status);

/* Blocks until the endpoint has been created. */
mcapi_endpoint_t mcapi_get_endpoint(MCAPI_IN mcapi_node_t node_id, MCAPI_IN mcapi_port_t port_id,
				    MCAPI_OUT mcapi_status_t *mcapi_status);

void mcapi_delete_endpoint(MCAPI_IN mcapi_endpoint_t endpoint,
			   MCAPI_OUT mcapi_status_t *mcapi_status);

void mcapi_get_endpoint_attribute(MCAPI_IN mcapi_endpoint_t endpoint,
				  MCAPI_IN mcapi_uint_t attribute_num, MCAPI_OUT void *attribute,
				  MCAPI_IN size_t attribute_size,
				  MCAPI_OUT mcapi_status_t *mcapi_status);

void mcapi_set_endpoint_attribute(MCAPI_IN mcapi_endpoint_t endpoint,
				  MCAPI_IN mcapi_uint_t attribute_num, const void *attribute,
				  MCAPI_IN size_t attribute_size,
				  MCAPI_OUT mcapi_status_t *mcapi_status);

/* Messages (4.3) -------------------------------------------------------------- */

void mcapi_msg_send_i(MCAPI_IN mcapi_endpoint_t send_endpoint,
		      MCAPI_IN mcapi_endpoint_t receive_endpoint, MCAPI_IN void *buffer,
		      MCAPI_IN size_t buffer_size, MCAPI_IN mcapi_priority_t priority,
		      MCAPI_OUT mcapi_request_t *request, MCAPI_OUT mcapi_status_t *mcapi_status);

void mcapi_msg_send(MCAPI_IN mcapi_endpoint_t send_endpoint,
		    MCAPI_IN mcapi_endpoint_t receive_endpoint, MCAPI_IN void *buffer,
		    MCAPI_IN size_t buffer_size, MCAPI_IN mcapi_priority_t priority,
		    MCAPI_OUT mcapi_status_t *mcapi_status);

void mcapi_msg_recv_i(MCAPI_IN mcapi_endpoint_t receive_endpoint, MCAPI_OUT void *buffer,
		      MCAPI_IN size_t buffer_size, MCAPI_OUT mcapi_request_t *request,
		      MCAPI_OUT mcapi_status_t *mcapi_status);

void mcapi_msg_recv(MCAPI_IN mcapi_endpoint_t receive_endpoint, MCAPI_OUT void *buffer,
		    MCAPI_IN size_t buffer_size, MCAPI_OUT size_t *received_size,
		    MCAPI_OUT mcapi_status_t *mcapi_status);

mcapi_uint_t mcapi_msg_available(MCAPI_IN mcapi_endpoint_t receive_endpoint,
				 MCAPI_OUT mcapi_status_t *mcapi_status);

/* Packet channels (4.4) ------------------------------------------------------- */

void mcapi_connect_pktchan_i(MCAPI_IN mcapi_endpoint_t send_endpoint,
			     MCAPI_IN mcapi_endpoint_t receive_endpoint,
			     MCAPI_OUT mcapi_request_t *request,
			     MCAPI_OUT mcapi_status_t *mcapi_status);

void mcapi_open_pktchan_recv_i(MCAPI_OUT mcapi_pktchan_recv_hndl_t *recv_handle,
			       MCAPI_IN mcapi_endpoint_t receive_endpoint,
			       MCAPI_OUT mcapi_request_t *request,
			       MCAPI_OUT mcapi_status_t *mcapi_status);

void mcapi_open_pktchan_send_i(MCAPI_OUT mcapi_pktchan_send_hndl_t *send_handle,
			       MCAPI_IN mcapi_endpoint_t send_endpoint,
			       MCAPI_OUT mcapi_request_t *request,
			       MCAPI_OUT mcapi_status_t *mcapi_status);

void mcapi_pktchan_send_i(MCAPI_IN mcapi_pktchan_send_hndl_t send_handle, MCAPI_IN void *buffer,
			  MCAPI_IN size_t size, MCAPI_OUT mcapi_request_t *request,
			  MCAPI_OUT mcapi_status_t *mcapi_status);

void mcapi_pktchan_send(MCAPI_IN mcapi_pktchan_send_hndl_t send_handle, MCAPI_IN void *buffer,
			MCAPI_IN size_t size, MCAPI_OUT mcapi_status_t *mcapi_status);

void mcapi_pktchan_recv_i(MCAPI_IN mcapi_pktchan_recv_hndl_t receive_handle,
			  MCAPI_OUT void **buffer, MCAPI_OUT mcapi_request_t *request,
			  MCAPI_OUT mcapi_status_t *mcapi_status);

void mcapi_pktchan_recv(MCAPI_IN mcapi_pktchan_recv_hndl_t receive_handle, MCAPI_OUT void **buffer,
			MCAPI_OUT size_t *received_size, MCAPI_OUT mcapi_status_t *mcapi_status);

mcapi_uint_t mcapi_pktchan_available(MCAPI_IN mcapi_pktchan_recv_hndl_t receive_handle,
				     MCAPI_OUT mcapi_status_t *mcapi_status);

/* Frees a received packet, from any thread, in any order. */
void mcapi_pktchan_free(MCAPI_IN void *buffer, MCAPI_OUT mcapi_status_t *mcapi_status);

void mcapi_pktchan_recv_close_i(MCAPI_IN mcapi_pktchan_recv_hndl_t receive_handle,
				MCAPI_OUT mcapi_request_t *request,
				MCAPI_OUT mcapi_status_t *mcapi_status);

void mcapi_pktchan_send_close_i(MCAPI_IN mcapi_pktchan_send_hndl_t send_handle,
				MCAPI_OUT mcapi_request_t *request,
				MCAPI_OUT mcapi_status_t *mcapi_status);

/* Both calls, as the headings of 4.4.10 and 4.4.11 spell them. */
void mcapi_packetchan_recv_close_i(MCAPI_IN mcapi_pktchan_recv_hndl_t receive_handle,
				   MCAPI_OUT mcapi_request_t *request,
				   MCAPI_OUT mcapi_status_t *mcapi_status);

void mcapi_packetchan_send_close_i(MCAPI_IN mcapi_pktchan_send_hndl_t send_handle,
				   MCAPI_OUT mcapi_request_t *request,
				   MCAPI_OUT mcapi_status_t *mcapi_status);

/* Scalar channels (4.5) ------------------------------------------------------- */

void mcapi_connect_sclchan_i(MCAPI_IN mcapi_endpoint_t send_endpoint,
			     MCAPI_IN mcapi_endpoint_t receive_endpoint,
			     MCAPI_OUT mcapi_request_t *request,
			     MCAPI_OUT mcapi_status_t *mcapi_status);

void mcapi_open_sclchan_recv_i(MCAPI_OUT mcapi_sclchan_recv_hndl_t *receive_handle,
			       MCAPI_IN mcapi_endpoint_t receive_endpoint,
			       MCAPI_OUT mcapi_request_t *request,
			       MCAPI_OUT mcapi_status_t *mcapi_status);

void mcapi_open_sclchan_send_i(MCAPI_OUT mcapi_sclchan_send_hndl_t *send_handle,
			       MCAPI_IN mcapi_endpoint_t send_endpoint,
			       MCAPI_OUT mcapi_request_t *request,
			       MCAPI_OUT mcapi_status_t *mcapi_status);

void mcapi_sclchan_send_uint64(MCAPI_IN mcapi_sclchan_send_hndl_t send_handle,
			       MCAPI_IN mcapi_uint64_t dataword,
			       MCAPI_OUT mcapi_status_t *mcapi_status);

void mcapi_sclchan_send_uint32(MCAPI_IN mcapi_sclchan_send_hndl_t send_handle,
			       MCAPI_IN mcapi_uint32_t dataword,
			       MCAPI_OUT mcapi_status_t *mcapi_status);

void mcapi_sclchan_send_uint16(MCAPI_IN mcapi_sclchan_send_hndl_t send_handle,
			       MCAPI_IN mcapi_uint16_t dataword,
			       MCAPI_OUT mcapi_status_t *mcapi_status);

void mcapi_sclchan_send_uint8(MCAPI_IN mcapi_sclchan_send_hndl_t send_handle,
			      MCAPI_IN mcapi_uint8_t dataword,
			      MCAPI_OUT mcapi_status_t *mcapi_status);

mcapi_uint64_t mcapi_sclchan_recv_uint64(MCAPI_IN mcapi_sclchan_recv_hndl_t receive_handle,
					 MCAPI_OUT mcapi_status_t *mcapi_status);

mcapi_uint32_t mcapi_sclchan_recv_uint32(MCAPI_IN mcapi_sclchan_recv_hndl_t receive_handle,
					 MCAPI_OUT mcapi_status_t *mcapi_status);

mcapi_uint16_t mcapi_sclchan_recv_uint16(MCAPI_IN mcapi_sclchan_recv_hndl_t receive_handle,
					 MCAPI_OUT mcapi_status_t *mcapi_status);

mcapi_uint8_t mcapi_sclchan_recv_uint8(MCAPI_IN mcapi_sclchan_recv_hndl_t receive_handle,
				       MCAPI_OUT mcapi_status_t *mcapi_status);

mcapi_uint_t mcapi_sclchan_available(MCAPI_IN mcapi_sclchan_recv_hndl_t receive_handle,
				     MCAPI_OUT mcapi_status_t *mcapi_status);

void mcapi_sclchan_recv_close_i(MCAPI_IN mcapi_sclchan_recv_hndl_t receive_handle,
				MCAPI_OUT mcapi_request_t *request,
				MCAPI_OUT mcapi_status_t *mcapi_status);

void mcapi_sclchan_send_close_i(MCAPI_IN mcapi_sclchan_send_hndl_t send_handle,
				MCAPI_OUT mcapi_request_t *request,
				MCAPI_OUT mcapi_status_t *mcapi_status);

/* Non-blocking operations (4.6) ----------------------------------------------- */

mcapi_boolean_t mcapi_test(MCAPI_IN mcapi_request_t *request, MCAPI_OUT size_t *size,
			   MCAPI_OUT mcapi_status_t *mcapi_status);

mcapi_boolean_t mcapi_wait(MCAPI_IN mcapi_request_t *request, MCAPI_OUT size_t *size,
			   MCAPI_OUT mcapi_status_t *mcapi_status,
			   MCAPI_IN mcapi_timeout_t timeout);

mcapi_int_t mcapi_wait_any(MCAPI_IN size_t number, mcapi_request_t **requests,
			   MCAPI_OUT size_t *size, MCAPI_OUT mcapi_status_t *mcapi_status,
			   MCAPI_IN mcapi_timeout_t timeout);

void mcapi_cancel(MCAPI_IN mcapi_request_t *request, MCAPI_OUT mcapi_status_t *mcapi_status);

#ifdef __cplusplus
}
#endif

#endif /* MCAPI_H */
