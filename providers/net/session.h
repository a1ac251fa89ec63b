/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The session layer of the net provider. Two endpoints keep a TCP connection, the
 * control channel, beside the driver that carries their packets: there they agree on
 * a driver, close, notice each other's death, and resume after a fault. Packets are
 * numbered; the sender keeps each until it is acknowledged, and sends it again along
 * another path, of the same driver or the next, from the same board or another.
 *
 *   session.c  the operations that the engine sees
 *   packets.c  sequence numbers, acknowledgements, kept packets
 *   pool.c     the memory of packets
 *   rma.c      get, put, registrations
 *   adapters.c drivers in use
 *   paths.c    the paths of links
 *   boards.c   the boards of both hosts, and which reach each other
 *   control.c  the control channel: connecting, resuming, closing
 *   proof.c    its first words, and TLS
 *   key.c      the keys that it proves
 *   sock.c     calling, and the sockets
 *   ports.c    the ports that are called
 *   listen.c   where others call
 *   names.c    the boards of hosts
 *   search.c   finding a NIC by its id alone
 *   links.c    links and how they end
 *   drivers.c  loading drivers
 */
#ifndef TW_NET_SESSION_H
#define TW_NET_SESSION_H

#include "base/clock.h"
#include "base/list.h"
#include "base/slots.h"
#include "providers/net/driver.h"
#include "providers/net/auth/proof.h"
#include "providers/net/wire.h"
#include "providers/provider.h"
#include "shmem/sock.h"

#define TW_NET_PATHS TW_STATS_PATHS /* of a link, each by boards of its own */
#define TW_NET_MAX_BOARDS 8	    /* of a host that are used */
#define TW_NET_WINDOW 256	    /* packets kept for a peer */
#define TW_NET_RESERVE 32	    /* places among them for control */
#define TW_NET_BIG_WINDOW 96	    /* long ones among them */
#define TW_NET_SMALL 256	    /* longest payload of a short one */
#define TW_NET_OPS 16		    /* transfers under way with a peer */
#define TW_NET_HALF_OPEN_MAX 64	    /* connections before their first message */
#define TW_NET_PORTS 8		    /* groups of ports, see sock.c, */
#define TW_NET_PORT_STEP 1024	    /* and from one to the next */
#define TW_NET_PAYLOAD 16352u	    /* longest payload of a packet: with its head 16 KiB */
#define TW_NET_STATUS_US 500000	    /* without an acknowledgement, until it is asked for */
#define TW_NET_UNWATCHED_US 500	    /* between two checks whether the program polls */
#define TW_NET_ABSENT_US 10000000   /* until a driver that could not be opened is tried again */
#define TW_NET_SILENT_US 200000	    /* without a word, until another is called as well */
#define TW_NET_PROBE_US 20000	    /* between two probes, or attempts to connect */

enum tw_net_channel {
	TW_NET_NO_CHANNEL,
	TW_NET_SEARCHING, /* its address is not known yet */
	TW_NET_DIALING,
	TW_NET_HELLO, /* connected, the other side has said nothing */
	TW_NET_SHAKE, /* it has not proved itself */
	TW_NET_OPEN,
};

enum tw_net_state {
	TW_NET_NEW,	  /* called, not answered yet */
	TW_NET_HALF_OPEN, /* a caller, before its first message */
	TW_NET_PROBING,	  /* accepted, probes are under way */
	TW_NET_UP,
	TW_NET_DRAIN,	/* the peer is gone, its packets may still come */
	TW_NET_LEAVING, /* disconnected, until what this side has sent is acknowledged */
	TW_NET_DEAD,
};

/* A driver as an endpoint uses it. */
struct tw_net_adapter {
	const struct tw_driver *driver;
	struct tw_net_ep *ep;
	void *instance;	 /* NULL: closed */
	uint64_t absent; /* it could not be opened: the tick to try again, 0 none */
	bool short_of;	 /* for lack of descriptors or memory, the last time */
	bool unwatched;	 /* its descriptor is not watched just now */
	struct tw_watch watch;
	struct tw_driver_caps caps;
	/* Packets, short and long; see pool.c. */
	uint32_t max_packet; /* the least of its instances' so far, 0 unknown */
	struct tw_list free[2], slabs;
};

/* A transfer that goes in parts by several paths. */
struct tw_net_whole {
	void *cookie;
	unsigned left; /* parts */
	enum tw_err err;
};

/* A transfer under way, or a part of one. */
struct tw_net_op {
	struct tw_list node;
	struct tw_net_link *link;
	void *cookie;
	struct tw_net_whole *whole; /* or NULL */
	uint64_t address, len;
	struct iovec *iov;
	unsigned niov, tries;
	bool put;
	struct tw_net_adapter *posted; /* at which it is under way, or NULL */
	bool over;		       /* it has ended there, so: */
	enum tw_err err;
	struct tw_net_path *path;  /* by which it was posted last */
	uint32_t epoch;		   /* of that path then */
	struct tw_net_adapter *of; /* whose key it is */
	uint32_t key_len;
	uint8_t key[TW_DRIVER_KEY];
};

/* By which driver, and from which board to which one. */
struct tw_net_way {
	struct tw_net_adapter *adapter;
	uint8_t mine, theirs;
};

struct tw_net_path {
	uint32_t number; /* what both sides call it */
	uint32_t epoch;
	struct tw_net_way way;
	void *path;		 /* the driver's, NULL: none */
	struct tw_net_way offer; /* one that the other side may choose, if offered is set */
	void *offered;
	bool bound;    /* packets have come through */
	bool resuming; /* a new one was asked for, or will be at the deadline */
	bool probed;   /* an answer to a probe is due */
	bool left;     /* the other side has left the one before */
	uint64_t bound_at;
	uint32_t round;	   /* of the last RESUME of ours */
	unsigned backoff;  /* searches without success, in a row */
	uint64_t deadline; /* tick at which the present step of the search has failed */
	/* Transfers. */
	uint64_t flying, progress; /* bytes under way; tick of the last end of one */
	uint64_t moved, since;	   /* bytes that have ended since that tick */
	uint64_t rate;		   /* what it carries, 0 unknown; see rma.c */
	uint64_t carried;	   /* bytes in all */
};

/* The boards of the other side, as it said. */
struct tw_net_others {
	uint8_t address[TW_NET_MAX_BOARDS][16];
	unsigned n;
	uint32_t port; /* where it listens on all of them, 0 nowhere */
};

struct tw_net_link {
	struct tw_link link;
	struct tw_net_ep *ep;
	struct tw_list node; /* of ep->links or ep->dead */
	struct tw_list work; /* of ep->work while something waits to be posted */
	enum tw_net_state state;
	bool initiator;
	enum tw_err why; /* it ends */
	struct tw_ident me, other;
	uint32_t conn, peer_conn;
	/* The control channel. */
	enum tw_net_channel channel;
	int sock;		      /* -1 without a channel */
	bool tx_shutdown;	      /* BYE was sent, the last message */
	bool own_port;		      /* called there, to connect */
	unsigned port, port_try;      /* numbers of the port that is called, and of the next */
	unsigned port_again;	      /* one that is called again before it, + 1; 0: none */
	unsigned hung_up, full;	      /* times */
	uint32_t hung_port;	      /* where each call was ended, or 0 */
	bool reached;		      /* one of the ports let a call in */
	struct tw_net_silent *silent; /* the other ports that are called, or NULL */
	uint32_t peer_port;
	struct sockaddr_storage peer_addr; /* without port */
	struct tw_net_others others;	   /* n is 0: it has one board */
	unsigned turn;			   /* the board that was called last */
	struct tw_watch watch;
	struct tw_net_proof proof;
	struct tw_net_stranger stranger;
	uint64_t begun; /* tick */
	union {
		struct tw_net_hello hello;
		struct tw_net_ctrl ctrl;
	} in; /* in_len bytes have come */
	uint32_t in_len;
	struct tw_net_path paths[TW_NET_PATHS]; /* by number */
	struct tw_net_path *first; /* packets take it; each side chooses which one that is */
	unsigned npaths;
	uint32_t epoch, round; /* the last ones */
	struct {
		uint8_t mine, theirs;
	} pairs[TW_NET_MAX_BOARDS]; /* boards that reach each other */
	unsigned npairs;
	uint64_t failed[TW_NET_DRIVERS]; /* bits of pairs that did not work lately */
	uint64_t deadline;		 /* of a caller or a search, or until packets have come */
	uint64_t left_at;		 /* tick of the last loss of a path */
	uint64_t broken; /* tick since which there is no path, or no channel; 0 there are */
	uint64_t until;	 /* tick at which a leaving link ends */
	uint64_t again;	 /* tick at which to dial or probe again, 0 not */
	/* Sending. */
	struct tw_list kept;	  /* packets in order */
	struct tw_list *unposted; /* the first to hand to the driver; &kept: none */
	uint32_t next_seq;
	unsigned nkept, nbig;
	uint64_t progress; /* tick of the last acknowledgement or new packet */
	unsigned nasked;   /* STATUS messages in a row without progress */
	bool blocked;	   /* a send found no room, or BYE waits for the last acknowledgement */
	bool probed;	   /* some path's answer to a probe is due */
	bool asked;	   /* for a STATUS, which has not come */
	/* Receiving. */
	uint32_t expected;
	uint32_t unacked; /* packets taken in that were not acknowledged */
	uint64_t gap_at;  /* tick of the last report of a missing packet, 0: none is missing */
	uint32_t final;	  /* the first that will not be sent */
	bool orderly;	  /* the other side sent LEAVE or BYE: final is known */
	uint64_t last_rx; /* tick of the last packet */
	/* Remote memory. */
	struct tw_list ops, mrs;
	unsigned nops;
};

struct tw_net_listener {
	struct tw_watch watch;
	struct tw_net_ep *ep;
	int fd;
};

struct tw_net_ep {
	struct tw_host *host;
	struct tw_sock_listener name_lock; /* keeps others from the endpoint id */
	/* Its own first, then those for names and for peers that come by another board. */
	struct tw_net_listener listeners[2 + TW_MAX_BOARDS];
	unsigned nlisteners;
	struct tw_net_listener sought, found; /* for search.c; fd -1: not open */
	uint32_t port;
	uint64_t listen_again; /* tick at which to accept again, 0 now */
	struct tw_net_adapter adapters[TW_NET_DRIVERS];
	unsigned nadapters;
	bool loaded; /* the list of drivers is made */
	/* Its own first; with others, everyone of them is listened on at boards_port. */
	struct sockaddr_storage boards[TW_NET_MAX_BOARDS];
	uint8_t numbers[TW_NET_MAX_BOARDS]; /* their numbers on this host */
	unsigned nboards;
	uint32_t boards_port;
	struct tw_list links, work, dead;
	struct tw_slots table; /* of links, by conn */
	uint32_t serial;
	unsigned nlinks, nhalf; /* links, and those in state HALF_OPEN, which are not polled for */
	bool polled, closing;
	uint64_t ack_at;	/* tick at which to send acknowledgements, 0 none */
	unsigned quiet;		/* polls that found nothing */
	uint64_t packets, seen; /* taken in, and as of the last check */
	uint64_t seen_at;	/* tick of the last check that saw more */
	unsigned quiet_seen;
	unsigned taken; /* engine's packets in this progress */
};

extern const struct tw_provider tw_provider_net;

/* The longest payload in packets of so many bytes. */
static inline uint32_t tw_net_payload(uint32_t max_packet)
{
	return tw_min(max_packet - (uint32_t)sizeof(struct tw_net_wire), TW_NET_PAYLOAD);
}

/* drivers.c: those of a list of names that are installed. */
unsigned tw_driver_list(const char *names, const struct tw_driver *out[TW_NET_DRIVERS]);
/* Why it did not list a driver that it was asked for, in words. */
void tw_driver_why_not(const char *name, char *why, unsigned len);
/* Logs why those of several that could be of use here are not. */
void tw_driver_report(const char *names);
/* Whether there is one of them, as far as can be told without loading it. */
bool tw_driver_any(const char *names);
/* Whether there is a device for it, as far as can be told without asking it. */
bool tw_driver_usable(const struct tw_driver *driver);
/* Whether a name is one of a driver, built or not. */
const struct tw_provider *tw_driver_provider(const char *name, size_t len);
/* For tests: a driver that is not loaded from a file. */
void tw_driver_add(const struct tw_driver *driver);

/* links.c */
struct tw_net_link *tw_net_link_new(struct tw_net_ep *ep, enum tw_net_state state);
struct tw_net_link *tw_net_link_find(struct tw_net_ep *ep, uint32_t conn);
/* Ends a link without a message or an upcall. */
void tw_net_link_end(struct tw_net_link *l);
/* A link has no path, or no channel, since that tick: it may last for TAGWIRE_RETRY. */
void tw_net_link_broken(struct tw_net_link *l, uint64_t since);
/* A link has path and channel again. */
void tw_net_link_mended(struct tw_net_link *l);
/* The peer is gone: takes in packets still under way, then tells the engine. */
void tw_net_link_drain(struct tw_net_link *l, enum tw_err why);
/* Ends it and tells the engine, connected or not. */
void tw_net_link_fail(struct tw_net_link *l, enum tw_err why);
void tw_net_reap(struct tw_net_ep *ep);
/* Runs its timers; the tick of the next, or 0. */
uint64_t tw_net_link_expire(struct tw_net_link *l, uint64_t now);

/* adapters.c */
void tw_net_adapters_load(struct tw_net_ep *ep);
/* Opens the one to be offered first: takes time, better before connecting. */
void tw_net_adapters_open(struct tw_net_ep *ep);
void tw_net_adapters_close(struct tw_net_ep *ep);
/* Whether one that there is could not be opened for lack of descriptors or memory. */
bool tw_net_adapters_short(const struct tw_net_ep *ep);
/* Ends what is late; when to call it next, or 0. */
uint64_t tw_net_adapters_expire(struct tw_net_ep *ep, uint64_t now);
/* Closes a driver so that it uses no memory; its links resume. */
void tw_net_adapter_reset(struct tw_net_adapter *a);
bool tw_net_adapter_watch(struct tw_net_adapter *a);
bool tw_net_adapter_open(struct tw_net_adapter *a);
/* By its driver's name, of which only the first len bytes count; NULL: there is none. */
struct tw_net_adapter *tw_net_adapter_named(struct tw_net_ep *ep, const char *name, size_t len);
/* The provider's operation `describe'. */
bool tw_net_adapter_describe(void *instance, const char *name, struct tw_link *like, char *text,
			     unsigned len);

/* boards.c */
void tw_net_boards_find(struct tw_net_ep *ep);
/* For a peer. */
void tw_net_boards_fill(struct tw_net_ep *ep, struct tw_net_ctrl *t);
void tw_net_boards_take(struct tw_net_link *l, const struct tw_net_ctrl *t);
/* Asks the system anew which boards reach each other. */
void tw_net_boards_pair(struct tw_net_link *l);

/* paths.c */
struct tw_net_path *tw_net_path_at(struct tw_net_link *l, uint32_t number);
/* The one that a packet was sent or a transfer begun along, NULL if it is gone. */
struct tw_net_path *tw_net_path_since(struct tw_net_link *l, uint32_t epoch);
/* Offers the first way that is available and has not failed for the link. */
void tw_net_offer(struct tw_net_link *l, struct tw_net_path *p, struct tw_net_ctrl *t);
/* The other side cannot use what was offered: whether there is another way. */
bool tw_net_offers_left(struct tw_net_link *l, struct tw_net_path *p);
/* Takes the other's offer and makes the path; t becomes the answer. */
enum tw_err tw_net_choose(struct tw_net_link *l, const struct tw_net_ctrl *offers,
			  struct tw_net_ctrl *t);
/* The other side has chosen. */
enum tw_err tw_net_chosen(struct tw_net_link *l, const struct tw_net_ctrl *answer);
/* Drops a path if it is of this adapter; of any, for NULL. */
void tw_net_path_drop(struct tw_net_path *p, const struct tw_net_adapter *of);
/* A path ends; packets take another one if there is one. */
void tw_net_path_left(struct tw_net_link *l, struct tw_net_path *p);
/* Packets have come through. */
void tw_net_path_bound(struct tw_net_link *l, struct tw_net_path *p);
/* The way is not to be taken again at once. */
void tw_net_way_failed(struct tw_net_link *l, const struct tw_net_way *w);
/* Tells the engine which there are. */
void tw_net_path_show(struct tw_net_link *l);
/* Seeks further ones, by boards that no other takes. */
void tw_net_path_more(struct tw_net_link *l);
/* Ends a path, and looks for another one. */
void tw_net_path_gone(struct tw_net_link *l, struct tw_net_path *p);
/* As tw_net_path_gone(), as packets do not get through any more. */
void tw_net_path_broken(struct tw_net_link *l, struct tw_net_path *p);
/* A driver reports that a path is broken; path NULL: the driver does not work. */
void tw_net_broken(void *owner, void *path);

/* control.c */
void tw_net_ctrl_send(struct tw_net_link *l, enum tw_net_ctrl_type type, enum tw_err why);
void tw_net_on_ctrl(struct tw_net_link *l, const struct tw_net_ctrl *t);
/* The socket has connected: sends CONNECT or RESUME. */
void tw_net_ctrl_begin(struct tw_net_link *l);
/* Asks for a new path. */
void tw_net_resume(struct tw_net_link *l, struct tw_net_path *p);
/* Sends BYE, after which no path can be agreed on. */
void tw_net_goodbye(struct tw_net_link *l);

/* listen.c */
enum tw_err tw_net_listen(struct tw_net_ep *ep);
void tw_net_listen_again(struct tw_net_ep *ep);
/* At one more port, on every board; it, or 0. */
uint32_t tw_net_listen_everywhere(struct tw_net_ep *ep, bool ipv6);
void tw_net_listen_end(struct tw_net_ep *ep);
/* A link leaves state HALF_OPEN. */
void tw_net_half_open_done(struct tw_net_ep *ep);
uint32_t tw_net_job(void);
/* Ports to try, the first from 0. */
uint32_t tw_net_port(uint32_t endpoint_id, unsigned try);
uint32_t tw_net_names_port(unsigned try);

/* names.c */
enum tw_err tw_net_query(const struct sockaddr_storage *at, struct tw_host_boards *boards);
/* Answers a caller's QUERY, and hangs up. */
void tw_net_describe(struct tw_net_link *l, const struct tw_net_ctrl *query);

/* search.c */
/* Lets others find this endpoint. */
void tw_net_search_listen(struct tw_net_ep *ep);
/* Dials once the address is known. */
enum tw_err tw_net_search(struct tw_net_link *l);
uint64_t tw_net_search_expire(struct tw_net_link *l, uint64_t now);

/* sock.c */
int tw_net_socket(int family);
int tw_net_watch(struct tw_net_ep *ep, int fd, uint32_t events, struct tw_watch *w, int op);
/* A limit in milliseconds without an answer, which ends the connection. */
void tw_net_sock_options(int fd, int limit);
int tw_net_silence_ms(void);
enum tw_err tw_net_dial(struct tw_net_link *l);
/* Another endpoint answered: tries the next port. */
void tw_net_dial_next(struct tw_net_link *l);
/* The right one hung up: the same port again. */
void tw_net_dial_same(struct tw_net_link *l);
void tw_net_sock_ready(struct tw_watch *w, uint32_t events);
/* The link goes on with another one's socket. */
void tw_net_sock_adopt(struct tw_net_link *l, struct tw_net_link *from);
void tw_net_sock_close(struct tw_net_link *l);
enum tw_err tw_net_err_of(int error);
/* Why it did not connect, 0 it did. */
int tw_net_sock_error(const struct tw_net_link *l);
/* Receives what is awaited, whole. TW_AGAIN: not yet; TW_ECLOSED: the other side sends no more. */
enum tw_err tw_net_receive(struct tw_net_link *l);
/* Whether poll(2) finds one of the events just now. */
bool tw_net_fd_is(int fd, short events);
bool tw_net_sock_alive(const struct tw_net_link *l);
/* Whether the other host has not answered what was sent again and again. */
bool tw_net_sock_stalled(const struct tw_net_link *l);
bool tw_net_sock_write(struct tw_net_link *l, const struct tw_net_ctrl *t);
/* The connection ended without BYE; TW_AGAIN: the listener had no room. */
void tw_net_sock_lost(struct tw_net_link *l, enum tw_err why);

/* ports.c, of a link in state NEW */
/* Keeps the connection while others are made; false without memory. */
bool tw_net_ports_keep(struct tw_net_link *l);
/* Goes on with one that was kept and has spoken since; false: there is none. */
bool tw_net_ports_spoke(struct tw_net_link *l);
/* The first port whose connection is kept; TW_NET_PORTS: none is. */
unsigned tw_net_ports_kept(const struct tw_net_link *l);
/* Hangs up on all that are kept. */
void tw_net_ports_end(struct tw_net_link *l);

/* packets.c */
enum tw_err tw_net_send(struct tw_link *link, enum tw_send_class cls, struct tw_hdr hdr,
			const struct iovec *iov, unsigned niov, uint32_t len);
/* Posts what waits. */
void tw_net_flush(struct tw_net_link *l);
/* Sends everything from that number on again. */
void tw_net_resend(struct tw_net_link *l, uint32_t expected);
void tw_net_acked(struct tw_net_link *l, uint32_t ack);
void tw_net_send_ack(struct tw_net_link *l);
/* A packet without a number; false: not now. */
bool tw_net_send_plain(struct tw_net_link *l, struct tw_net_path *path, enum tw_net_kind kind);
/* A probe has come, or the answer to one. */
void tw_net_probed(struct tw_net_link *l, struct tw_net_path *p, bool question);
bool tw_net_packet(void *owner, const void *path, const void *data, uint32_t len);
void tw_net_failed(void *owner, struct tw_net_packet *p);
/* Frees the packets that were kept. */
void tw_net_packets_drop(struct tw_net_link *l);

/* pool.c: a packet with one user, NULL without memory. */
struct tw_net_packet *tw_net_packet_get(struct tw_net_adapter *a, bool big);
/* A packet for a driver, only if it is registered. */
struct tw_net_packet *tw_net_packet_ready(void *owner, bool big);
/* A driver that is closed uses none any more. */
void tw_net_packets_back(void *owner);
void tw_net_pool_free(struct tw_net_adapter *a);

/* rma.c */
enum tw_err tw_net_rma(struct tw_link *link, bool put, const struct iovec *iov, unsigned niov,
		       uint64_t address, const void *key, void *cookie);
enum tw_err tw_net_mem_reg(struct tw_link *link, void *addr, size_t len, unsigned rights,
			   struct tw_mem_reg *mr);
void tw_net_mem_dereg(struct tw_link *link, struct tw_mem_reg *mr);
void tw_net_ended(void *owner, void *cookie, enum tw_err err);
/* Reports the accesses that have ended, and posts those that wait. */
void tw_net_ops_flush(struct tw_net_link *l);
/* Accesses under way are posted again on the next path. */
void tw_net_ops_unpost(struct tw_net_link *l);
/* All of them end, without or with upcalls. */
void tw_net_ops_end(struct tw_net_link *l, bool tell);
void tw_net_mrs_end(struct tw_net_link *l, const struct tw_net_adapter *of);

/* session.c */
void tw_net_timer(struct tw_net_ep *ep, uint64_t when);
/* As tw_net_timer(), in so many microseconds from now; returns that tick. */
uint64_t tw_net_in(struct tw_net_ep *ep, uint64_t us);
/* There is something to poll for. */
void tw_net_poll(struct tw_net_ep *ep);

static inline unsigned tw_net_index(const struct tw_net_adapter *a)
{
	return (unsigned)(a - a->ep->adapters);
}

/* The path that an adapter's driver calls so, NULL if it is none of the link's. */
static inline struct tw_net_path *tw_net_path_of(struct tw_net_link *l,
						 const struct tw_net_adapter *a, const void *path)
{
	for (unsigned i = 0; i < l->npaths; i++)
		if (l->paths[i].path == path && l->paths[i].way.adapter == a)
			return &l->paths[i];
	return NULL;
}

static inline void tw_net_work(struct tw_net_link *l)
{
	if (tw_list_empty(&l->work))
		tw_list_add_tail(&l->ep->work, &l->work);
}

/* Whether another path may be agreed on. */
static inline bool tw_net_resumable(const struct tw_net_link *l)
{
	return l->state == TW_NET_UP || l->state == TW_NET_PROBING ||
	       (l->state == TW_NET_LEAVING && !l->tx_shutdown);
}

/* Whether there is more than one way to the other side. */
static inline bool tw_net_many_ways(const struct tw_net_link *l)
{
	return l->npairs > 1;
}

#endif /* TW_NET_SESSION_H */
