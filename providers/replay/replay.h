/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The provider of networks that lose packets. Two endpoints keep a TCP
 * connection of few words beside the fabric that carries their packets: there
 * they introduce themselves, say goodbye, notice each other's death, and agree
 * on how to go on after a fault. Packets are numbered; the sender keeps each
 * until the other side has acknowledged it and sends it again along a new path,
 * of the same fabric or the next.
 *
 *   replay.c   the operations that the engine sees
 *   packets.c  sequences, acknowledgements, kept packets
 *   rma.c      get, put, registrations
 *   paths.c    fabrics in use and the paths of links
 *   talk.c     the words: introductions, resuming, goodbye
 *   sock.c     listener and sockets
 *   links.c    links and their ends
 *   fabrics.c  loading modules
 */
#ifndef TW_REPLAY_H
#define TW_REPLAY_H

#include "base/clock.h"
#include "base/list.h"
#include "providers/provider.h"
#include "providers/replay/fabric.h"

#define TW_RP_FABRICS 4
#define TW_RP_WINDOW 256       /* packets kept for a peer */
#define TW_RP_RESERVE 32       /* places among them for control */
#define TW_RP_BIG_WINDOW 96    /* long ones among them */
#define TW_RP_SMALL 256	       /* longest payload of a short one */
#define TW_RP_OPS 16	       /* transfers under way with a peer */
#define TW_RP_HALF_MAX 64      /* callers that have not introduced themselves */
#define TW_RP_PORTS 8	       /* groups of ports, see sock.c */
#define TW_RP_PAYLOAD 16352u   /* longest payload of a packet: with its head 16 KiB */
#define TW_RP_STATUS_US 500000 /* without news of our packets: ask */
#define TW_RP_REST_US 500      /* between two looks whether anybody polls */
#define TW_RP_PROBE_US 20000   /* between two probes, or attempts to call */

/* How a packet begins on the network; byte order of the host, checked in talk. */
struct tw_rp_wire {
	uint32_t conn; /* the receiver's name for the link */
	uint32_t seq;
	uint32_t ack; /* all before it have come */
	uint32_t kind;
	struct tw_hdr hdr;
};
_Static_assert(sizeof(struct tw_rp_wire) == 32, "wire format");

enum tw_rp_kind {
	TW_RP_DATA = 0x7a01, /* counts in the sequence */
	TW_RP_ACK,	     /* seq is the next that will come */
	TW_RP_PROBE,	     /* is there a way? */
	TW_RP_PROBED,	     /* there is */
};

/* A packet that is kept. */
struct tw_rp_packet {
	struct tw_list node;	       /* of its link, in order; or free */
	struct tw_rp_link *link;       /* NULL once acknowledged or given up */
	uint32_t len;		       /* of wire and payload */
	uint8_t posted[TW_RP_FABRICS]; /* so many sends of each fabric have its memory */
	bool big;
	struct tw_rp_wire wire;
	char payload[];
};

/* What they say to each other: one size, whatever it is. */
enum tw_rp_word {
	TW_RP_CONNECT = 1,
	TW_RP_ACCEPT,
	TW_RP_REFUSE, /* why */
	TW_RP_WRONG,  /* it is another endpoint's port */
	TW_RP_RESUME, /* the path is broken, or this connection was */
	TW_RP_RESUMED,
	TW_RP_STATUS, /* expected; why != 0 wants one back */
	TW_RP_BYE,    /* seq is the first that will not come; why */
};

struct tw_rp_offer {
	char name[12];
	uint32_t max_packet;
	struct tw_fabric_address address;
};

struct tw_rp_talk {
	uint32_t magic;
	uint16_t version, word;
	uint64_t nic_id, to_nic;
	uint32_t endpoint_id, to_endpoint, session, to_session;
	uint32_t filter, key, window, job, why;
	uint32_t conn, to_conn; /* the sender's name for the link, and the receiver's */
	uint32_t epoch, expected, seq;
	uint32_t port; /* where the sender listens, 0 nowhere */
	uint32_t noffers;
	uint32_t round;				  /* of a RESUME; its answer has the same */
	struct tw_rp_offer offers[TW_RP_FABRICS]; /* best first; in answers the one chosen */
};
_Static_assert(sizeof(struct tw_rp_talk) == 96 + TW_RP_FABRICS * 116, "wire format");

#define TW_RP_MAGIC 0x74777270u
#define TW_RP_VERSION 1

enum tw_rp_state {
	TW_RP_NEW,     /* ours, not answered yet */
	TW_RP_HALF,    /* a caller that has not introduced itself */
	TW_RP_PROBING, /* accepted, looking whether packets come through */
	TW_RP_UP,
	TW_RP_DRAIN,   /* the peer is gone, its packets may still come */
	TW_RP_LEAVING, /* we have gone, our packets are still on their way */
	TW_RP_DEAD,
};

/* A fabric of an endpoint. */
struct tw_rp_fabric {
	const struct tw_fabric *ops;
	struct tw_rp_ep *ep;
	void *instance;	 /* NULL: closed */
	uint64_t absent; /* it could not be opened: the tick to try again, 0 none */
	bool resting;	 /* its descriptor is not watched just now */
	int fd;
	struct tw_watch watch;
};

/* A transfer under way. */
struct tw_rp_op {
	struct tw_list node;
	struct tw_rp_link *link;
	void *cookie;
	uint64_t address;
	struct iovec *iov;
	unsigned niov, tries;
	bool put;
	struct tw_rp_fabric *posted; /* at which it is under way, or NULL */
	uint32_t epoch;		     /* of the path then */
	struct tw_rp_fabric *of;     /* whose key it is */
	uint32_t key_len;
	uint8_t key[TW_FABRIC_KEY];
};

struct tw_rp_link {
	struct tw_link link;
	struct tw_rp_ep *ep;
	struct tw_list node; /* of ep->links or ep->dead */
	struct tw_list work; /* of ep->work while something waits to be posted */
	enum tw_rp_state state;
	bool initiator;
	enum tw_err why; /* it ends */
	struct tw_ident me, other;
	uint32_t conn, peer_conn, epoch;
	/* Talking. */
	int sock;     /* -1 none */
	bool dialing; /* the socket is not connected yet */
	bool hushed;  /* we said goodbye */
	unsigned port_try;
	uint32_t peer_port;
	struct sockaddr_storage peer_addr; /* without port */
	struct tw_watch watch;
	struct tw_rp_talk in; /* as far as it has come */
	uint32_t in_len;
	/* The path. */
	struct tw_rp_fabric *fabric;
	void *path;
	void *offered[TW_RP_FABRICS]; /* paths that the other side may choose */
	bool bound;		      /* packets have come through */
	uint64_t bound_at;
	uint32_t round;	   /* of the last RESUME of ours */
	bool resuming;	   /* asked for a new one */
	uint32_t failed;   /* bits of fabrics that did not work lately */
	unsigned patience; /* probes that were not answered in time, in a row */
	uint64_t deadline; /* tick at which something has to have happened, 0 none */
	uint64_t broken;   /* tick since which there is no way, 0 there is */
	uint64_t again;	   /* tick at which to dial or probe again, 0 not */
	/* Sending. */
	struct tw_list kept;	  /* packets in order */
	struct tw_list *unposted; /* the first that is not on its way; &kept: none */
	uint32_t next_seq;
	unsigned nkept, nbig;
	uint64_t progress; /* tick of the last acknowledgement or new packet */
	unsigned nasked;   /* times that we asked how far they are, and they were not further */
	bool blocked;	   /* a send found no room */
	bool probed;	   /* owes an answer to a probe */
	/* Receiving. */
	uint32_t expected;
	uint32_t unacked; /* packets taken in that were not acknowledged */
	uint64_t gap_at;  /* tick at which we told that one is missing, 0: none is */
	uint32_t final;	  /* while draining: the first that will not come */
	bool orderly;	  /* the other side said goodbye */
	uint64_t heard;	  /* tick of the last packet */
	/* Remote memory. */
	struct tw_list ops, mrs;
	unsigned nops;
};

struct tw_rp_ep {
	struct tw_host *host;
	int claim;    /* the socket that keeps the name */
	int listener; /* -1: other hosts cannot call */
	uint32_t port;
	uint64_t listen_again; /* tick at which to accept again, 0 now */
	struct tw_watch listen_watch;
	struct tw_rp_fabric fabrics[TW_RP_FABRICS];
	unsigned nfabrics;
	bool loaded; /* modules are looked for */
	struct tw_list links, work, dead;
	struct tw_rp_link **table; /* by the low half of conn */
	uint32_t ntable;
	uint32_t serial;
	unsigned nhalf; /* callers that have not introduced themselves */
	bool polled, armed;
	uint64_t ack_at;	/* tick at which to send acknowledgements, 0 none */
	unsigned quiet;		/* polls that found nothing */
	uint64_t packets, seen; /* taken in, and when we last looked */
	unsigned taken;		/* engine's packets in this progress */
	struct tw_list free_small, free_big, slabs;
};

extern const struct tw_provider tw_provider_replay;

/* fabrics.c: the modules of a list of names that are here. */
unsigned tw_fabric_list(const char *names, const struct tw_fabric *out[TW_RP_FABRICS]);
/* Whether there is one of them, as far as can be told without loading it. */
bool tw_fabric_any(const char *names);
/* Whether a name is one of a fabric, built or not. */
const struct tw_provider *tw_fabric_provider(const char *name, size_t len);
/* For tests: a fabric that is no module. */
void tw_fabric_add(const struct tw_fabric *fabric);

/* links.c */
struct tw_rp_link *tw_rp_link_new(struct tw_rp_ep *ep, enum tw_rp_state state);
struct tw_rp_link *tw_rp_link_find(struct tw_rp_ep *ep, uint32_t conn);
/* Out of use, without a word to anybody. */
void tw_rp_link_end(struct tw_rp_link *l);
/* The peer is gone: takes in what is still coming, then tells the engine. */
void tw_rp_link_drain(struct tw_rp_link *l, enum tw_err why);
/* Ends it and tells the engine, connected or not. */
void tw_rp_link_fail(struct tw_rp_link *l, enum tw_err why);
void tw_rp_reap(struct tw_rp_ep *ep);
/* What is due by time; when to look again, or 0. */
uint64_t tw_rp_link_expire(struct tw_rp_link *l, uint64_t now);

/* paths.c */
void tw_rp_fabrics_load(struct tw_rp_ep *ep);
/* The one to be offered first: takes time, better before a call than in it. */
void tw_rp_fabrics_open(struct tw_rp_ep *ep);
void tw_rp_fabrics_close(struct tw_rp_ep *ep);
/* Closes a fabric so that nothing uses our memory; its links resume. */
void tw_rp_fabric_reset(struct tw_rp_fabric *f);
void tw_rp_fabric_rest(struct tw_rp_fabric *f);
bool tw_rp_fabric_watch(struct tw_rp_fabric *f);
/* Offers the first fabric that is here and that the link has not found wanting. */
void tw_rp_offer(struct tw_rp_link *l, struct tw_rp_talk *t);
/* The other side cannot use what was offered: whether there is another one. */
bool tw_rp_offers_left(struct tw_rp_link *l);
/* Chooses one of the other's offers and makes the path; t becomes the answer. */
enum tw_err tw_rp_choose(struct tw_rp_link *l, const struct tw_rp_talk *offers,
			 struct tw_rp_talk *t);
/* The other side has chosen. */
enum tw_err tw_rp_chosen(struct tw_rp_link *l, const struct tw_rp_talk *answer);
void tw_rp_path_drop(struct tw_rp_link *l);
/* Packets do not get through any more. */
void tw_rp_path_broken(struct tw_rp_link *l);
/* A fabric says so of a path, or of itself. */
void tw_rp_broken(void *owner, void *path);

/* talk.c */
void tw_rp_say(struct tw_rp_link *l, enum tw_rp_word word, enum tw_err why);
void tw_rp_heard(struct tw_rp_link *l, const struct tw_rp_talk *t);
/* The socket has connected: say what there is to be said. */
void tw_rp_begin(struct tw_rp_link *l);
/* Asks for a new path. */
void tw_rp_resume(struct tw_rp_link *l);

/* sock.c */
enum tw_err tw_rp_listen(struct tw_rp_ep *ep);
enum tw_err tw_rp_dial(struct tw_rp_link *l);
/* Somebody else answered: tries the next port. */
void tw_rp_dial_next(struct tw_rp_link *l);
/* The right one hung up: the same port again. */
void tw_rp_dial_same(struct tw_rp_link *l);
void tw_rp_sock_ready(struct tw_watch *w, uint32_t events);
/* The link goes on with another one's socket. */
void tw_rp_sock_adopt(struct tw_rp_link *l, struct tw_rp_link *from);
void tw_rp_listen_again(struct tw_rp_ep *ep);
/* One caller less that has not introduced himself. */
void tw_rp_half_less(struct tw_rp_ep *ep);
void tw_rp_hang_up(struct tw_rp_link *l);
bool tw_rp_sock_alive(const struct tw_rp_link *l);
bool tw_rp_sock_write(struct tw_rp_link *l, const struct tw_rp_talk *t);
/* The connection is gone, and the other side did not say goodbye. */
void tw_rp_lost(struct tw_rp_link *l, enum tw_err why);
uint32_t tw_rp_job(void);

/* packets.c */
enum tw_err tw_rp_send(struct tw_rp_link *l, enum tw_send_class cls, struct tw_hdr hdr,
		       const struct iovec *iov, unsigned niov, uint32_t len);
bool tw_rp_room(const struct tw_rp_link *l, enum tw_send_class cls, uint32_t len);
/* Posts what waits. */
void tw_rp_flush(struct tw_rp_link *l);
/* Everything from that number on goes again. */
void tw_rp_replay(struct tw_rp_link *l, uint32_t expected);
void tw_rp_acked(struct tw_rp_link *l, uint32_t ack);
void tw_rp_send_ack(struct tw_rp_link *l);
void tw_rp_send_plain(struct tw_rp_link *l, enum tw_rp_kind kind);
/* A probe has come, or the answer to one. */
void tw_rp_probed(struct tw_rp_link *l, struct tw_rp_fabric *f, bool question);
bool tw_rp_packet(void *owner, const void *data, uint32_t len);
void tw_rp_sent(void *owner, void *cookie, bool ok);
/* Gives up what was kept. */
void tw_rp_forget(struct tw_rp_link *l);
void tw_rp_slabs_free(struct tw_rp_ep *ep);
/* A closed fabric has let go of everything. */
void tw_rp_unpost(struct tw_rp_fabric *f);
/* Whether a fabric still has the memory of a packet. */
bool tw_rp_any_posted(const struct tw_rp_link *l);

/* rma.c */
enum tw_err tw_rp_get(struct tw_link *link, const struct iovec *iov, unsigned niov,
		      uint64_t address, const void *key, void *cookie);
enum tw_err tw_rp_put(struct tw_link *link, const struct iovec *iov, unsigned niov,
		      uint64_t address, const void *key, void *cookie);
enum tw_err tw_rp_mem_reg(struct tw_link *link, void *addr, size_t len, struct tw_mr *mr);
void tw_rp_mem_dereg(struct tw_link *link, struct tw_mr *mr);
void tw_rp_ended(void *owner, void *cookie, enum tw_err err);
/* Posts what waits. */
void tw_rp_ops_flush(struct tw_rp_link *l);
/* Those under way are posted again on the next path. */
void tw_rp_ops_unpost(struct tw_rp_link *l);
/* All of them end, without or with upcalls. */
void tw_rp_ops_end(struct tw_rp_link *l, bool tell);
bool tw_rp_ops_posted(const struct tw_rp_link *l);
void tw_rp_mrs_end(struct tw_rp_link *l, const struct tw_rp_fabric *of);

/* replay.c */
void tw_rp_timer(struct tw_rp_ep *ep, uint64_t when);
/* There is something to poll for. */
void tw_rp_poll(struct tw_rp_ep *ep);

static inline unsigned tw_rp_index(const struct tw_rp_fabric *f)
{
	return (unsigned)(f - f->ep->fabrics);
}

static inline void tw_rp_work(struct tw_rp_link *l)
{
	if (tw_list_empty(&l->work))
		tw_list_add_tail(&l->ep->work, &l->work);
}

static inline bool tw_rp_before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

static inline uint64_t tw_rp_earlier(uint64_t a, uint64_t b)
{
	return !a || (b && b < a) ? b : a;
}

#endif /* TW_REPLAY_H */
