/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The libfabric driver, shared by its files.
 *
 *   ofi.c      opening and closing, paths
 *   packets.c  send, progress, arm
 *   info.c     which of libfabric's providers
 *   rma.c      get, put, registrations
 */
#ifndef TW_OFI_H
#define TW_OFI_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "base/libfabric.h"
#include "base/list.h"
#include "base/slots.h"
#include "providers/net/driver.h"

#define TW_OFI_API FI_VERSION(1, 17)
#define TW_OFI_RX_BUFFERS 8
#define TW_OFI_RX_SIZE (256 * 1024) /* of one that takes many packets */
#define TW_OFI_CQ_BATCH 32
#define TW_OFI_IOV 4
#define TW_OFI_LOOK_NS 50000 /* the first period of the timer, without a usable descriptor */

enum tw_ofi_kind { TW_OFI_SEND, TW_OFI_RECV, TW_OFI_RMA };

/* The context of an operation of libfabric's, returned with its completion. */
struct tw_ofi_op {
	struct fi_context2 fi; /* libfabric's own: comes first */
	enum tw_ofi_kind kind;
	struct tw_ofi_rma *rma;
};

/*
 * Precedes each packet, since libfabric takes packets from anybody: the receiver's number of the
 * path, and the secret that it expects there.
 */
struct tw_ofi_head {
	uint8_t token[TW_DRIVER_TOKEN];
	uint32_t path, unused;
} TW_WIRE;
_Static_assert(sizeof(struct tw_ofi_head) == 24, "wire format");
/* Of a packet with its head. libfabric's utility providers send up to 16 KiB eagerly. */
#define TW_OFI_PACKET (sizeof(struct tw_ofi_head) + TW_DRIVER_PACKET)
_Static_assert(TW_OFI_PACKET <= 16384, "sent eagerly");

struct tw_ofi_packet {
	struct tw_net_packet packet;
	struct tw_ofi_op op;
	struct tw_ofi_head head;
};
_Static_assert(offsetof(struct tw_ofi_packet, head) + sizeof(struct tw_ofi_head) ==
		       sizeof(struct tw_ofi_packet),
	       "the packet follows its head");

/* A transfer: as many operations as its pieces need. */
struct tw_ofi_rma {
	struct tw_list node;
	void *cookie;
	unsigned open; /* operations under way, and one while they are being posted */
	enum tw_err err;
	uint64_t key;
	bool mapped;	       /* the key is to be given back */
	unsigned nops, nlocal; /* of the pieces, begun and registered */
	struct tw_ofi_piece {
		struct tw_ofi_op op;
		struct fid_mr *local; /* registration of our side */
	} pieces[];
};

/* A buffer for arriving packets. */
struct tw_ofi_rx {
	struct tw_ofi_op op;
	char *buf;
	void *desc;
	bool posted;
};

/* An address in the table of libfabric; paths share it. */
struct tw_ofi_peer {
	struct tw_list node;
	fi_addr_t addr;
	unsigned users;
	struct tw_driver_address name;
};

enum tw_ofi_state {
	TW_OFI_OPEN,
	TW_OFI_LEFT, /* closed, though not for libfabric */
	TW_OFI_CLOSED,
};

struct tw_ofi {
	struct tw_driver_host host;
	enum tw_ofi_state state;
	bool inside;		    /* a call that makes upcalls, in which it may be closed */
	struct tw_ofi *left_before; /* another one that was not closed */
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	int fd;
	bool timed;   /* fd is a timer: libfabric has no usable descriptor */
	long look_ns; /* the period of the timer */
	bool multi_recv, local_mr, virt_addr;
	uint32_t key_max; /* bits of a key that we choose */
	struct tw_driver_address name;
	struct tw_slots paths;
	struct tw_list peers, rmas;
	char *rx_mem;
	size_t rx_size;
	struct fid_mr *rx_mr;
	struct tw_ofi_rx rx[TW_OFI_RX_BUFFERS * 8];
	unsigned nrx;
	/* Completions read but not handled: the engine was not ready. */
	struct fi_cq_data_entry cqe[TW_OFI_CQ_BATCH];
	unsigned ncqe, next_cqe;
};

struct tw_ofi_path {
	struct tw_ofi *o;
	struct tw_ofi_peer *peer;
	struct tw_driver_tokens tokens;
	uint32_t number, other; /* of the path, here and on the other side */
};

/* info.c: the provider to open, or NULL with the reason logged. */
struct fi_info *tw_ofi_choose(const struct tw_driver_host *host);

/* packets.c */
bool tw_ofi_slab_reg(void *instance, struct tw_net_slab *slab);
void tw_ofi_slab_dereg(struct tw_net_slab *slab);
/* Posts the receive buffers that libfabric does not have. */
void tw_ofi_post_all(struct tw_ofi *o);
enum tw_err tw_ofi_send(void *path, struct tw_net_packet *packet, bool more);
void tw_ofi_progress(void *instance);
bool tw_ofi_arm(void *instance);

/* rma.c */
struct fid_mr *tw_ofi_register(struct tw_ofi *o, void *addr, size_t len, uint64_t access);
enum tw_err tw_ofi_rma(void *path, bool put, const struct iovec *iov, unsigned niov,
		       uint64_t address, const void *key, uint32_t key_len, void *cookie);
enum tw_err tw_ofi_mem_reg(void *instance, void *addr, size_t len, unsigned rights,
			   struct tw_driver_mr *mr);
void tw_ofi_mem_dereg(void *instance, struct tw_driver_mr *mr);
/* Forgets those under way; the endpoint is closed. */
void tw_ofi_rma_drop(struct tw_ofi *o);
void tw_ofi_rma_done(struct tw_ofi *o, struct tw_ofi_op *op, int error);

#endif /* TW_OFI_H */
