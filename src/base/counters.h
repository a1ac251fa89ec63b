/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The counters of an endpoint. The enum and the table of labels both come from TW_COUNTERS,
 * so that they cannot disagree.
 */
#ifndef TW_COUNTERS_H
#define TW_COUNTERS_H

#define TW_COUNTERS(X)                                                                             \
	X(SEND_EAGER, "sends eager")                                                               \
	X(SEND_RNDV, "sends rendezvous")                                                           \
	X(SEND_BYTES, "bytes sent")                                                                \
	X(RECV_DONE, "receives completed")                                                         \
	X(RECV_BYTES, "bytes received")                                                            \
	X(RECV_POSTED, "receives posted")                                                          \
	X(RECV_TRUNCATED, "receives truncated")                                                    \
	X(RECV_CANCELLED, "receives cancelled")                                                    \
	X(UNEXPECTED, "messages unexpected")                                                       \
	X(UNEXPECTED_MATCHED, "messages unexpected, matched later")                                \
	X(RNDV_GET, "rendezvous by get")                                                           \
	X(RNDV_COPY, "rendezvous by copy")                                                         \
	X(GET_REFUSED, "gets refused by the system")                                               \
	X(ACK_SENT, "acknowledgements sent")                                                       \
	X(NO_CREDIT, "sends without eager credit")                                                 \
	X(SEND_QUEUED, "sends queued behind a full ring")                                          \
	X(DOORBELL_SENT, "doorbells rung")                                                         \
	X(DOORBELL_RECEIVED, "doorbells received")                                                 \
	X(SLEEP, "sleeps in the kernel")                                                           \
	X(TAKEOVER, "takeovers by the service thread")                                             \
	X(CONNECT, "connections made")                                                             \
	X(ACCEPT, "connections accepted")                                                          \
	X(REFUSED_KEY, "connections refused, wrong filter")                                        \
	X(REFUSED, "connections refused, other reasons")                                           \
	X(PEER_LOST, "peers lost")                                                                 \
	X(BAD_PACKET, "malformed packets")                                                         \
	X(PATH_BROKEN, "paths broken")                                                             \
	X(RESENT, "packets sent again")                                                            \
	X(DUPLICATE, "packets received again")                                                     \
	X(COPIED, "bytes copied between hosts")                                                    \
	X(WINDOW_SERVED, "one-sided accesses served")                                              \
	X(AM_SENT, "active messages sent")

enum tw_counter {
#define TW_COUNTER_ENUM(name, label) TW_C_##name,
	TW_COUNTERS(TW_COUNTER_ENUM)
#undef TW_COUNTER_ENUM
		TW_NCOUNTERS
};

extern const char *const tw_counter_labels[TW_NCOUNTERS];

/* Current values, shown beside the counters. */
enum tw_gauge {
	TW_G_POSTED,	  /* receives posted and unmatched */
	TW_G_UNEXPECTED,  /* messages waiting for a receive */
	TW_G_UNEXP_BYTES, /* bytes of them that are stored here */
	TW_G_SENDS,	  /* sends not yet complete */
	TW_NGAUGES
};

#endif /* TW_COUNTERS_H */
