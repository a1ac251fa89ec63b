/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mx_why: who waits for whom. All that it knows of a program is read from outside:
 *
 *   peek.c    memory of another process          facts.c  one reading of all processes
 *   engine.c  requests, messages, peers          settle.c  what two readings say alike
 *   mcapi.c, panda.c  what those interfaces keep  graph.c  who waits for whom
 *   locks.c   what MRAPI keeps                   words.c  names and phrases
 *   flat.c    facts as bytes, for another host   verdict.c  the sentences
 *
 * The structures change while they are read. Every pointer is checked by the read itself, counts
 * are limited, and only what two readings say alike is believed. Both readings are of one host,
 * and so are their clocks; facts of several hosts are joined when they are settled.
 */
#ifndef WHY_H
#define WHY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "../statscan.h"
#include "peek.h"

#define WHY_MAX_WAITS 4096 /* of a process */
#define WHY_NONE (-1)

enum why_kind {
	WHY_RECV,
	WHY_SEND,   /* announced, or to be matched */
	WHY_QUEUED, /* a send without credit or space */
	WHY_CONNECT,
	WHY_MOVING, /* the other side moves the data */
	WHY_ACCESS, /* one-sided */
	WHY_BUFFER, /* MCAPI: no buffer of the destination */
	WHY_GET,    /* MCAPI: an endpoint that is not there */
	WHY_OPEN,   /* MCAPI: the other end of a channel */
	WHY_BIND,   /* MCAPI: a channel to be connected to an end that is open */
	WHY_SCALAR_RECV,
	WHY_SCALAR_SEND,
	WHY_ACK,   /* Panda: the acknowledgement of a message */
	WHY_ASKED, /* MRAPI: the answer of another host */
	WHY_RANKS, /* the other ranks of the job */
	WHY_MUTEX,
	WHY_SEM,
	WHY_RWL,
	WHY_NKINDS
};

/* How far it has come. */
enum why_state {
	WHY_IS_QUEUED,
	WHY_IS_UNMATCHED,
	WHY_IS_ANNOUNCED,
	WHY_IS_SENDING,
	WHY_IS_COPYING,
	WHY_IS_GETTING,
	WHY_IS_ASKING,
	WHY_IS_CONNECTING,
	WHY_IS_POSTED,
	WHY_IS_WAITING,
	WHY_IS_ENTERED,
	WHY_IS_ASKED,
	WHY_IS_SLEEPING,
	WHY_IS_UNACKED,
	WHY_NSTATES
};

#define WHY_HOLDERS 8

/* Who has a lock. */
struct why_holder {
	unsigned host; /* of the lock */
	pid_t pid;     /* there; 0: it is of another host, and has this endpoint */
	uint32_t node;
	uint64_t where;
};

/* Something that a process waits for. */
struct why_wait {
	enum why_kind kind;
	unsigned ep;	/* index in the process; a lock: 0 */
	uint64_t id;	/* the same in two readings: the same request */
	uint64_t moved; /* bytes so far */
	uint64_t to;	/* NIC id << 16 | endpoint id; 0: any */
	uint64_t match, mask, len;
	uint64_t order; /* of posting, of receives */
	enum why_state state;
	uint32_t own, other; /* MCAPI: endpoints; a lock: its id, and node of the waiter */
	char call[24];	     /* WHY_RANKS: which all ranks must call */
	uint32_t ranks[8];   /* the lowest that have not, */
	uint32_t nranks;     /* of so many; 0: not known */
	struct why_holder holders[WHY_HOLDERS];
	unsigned nholders;
	double age; /* seconds that it is known to be old */
};

/* A message that no receive has matched. */
struct why_unexp {
	uint64_t id, from, match, len;
};

struct why_peer {
	uint64_t at; /* its address in the process */
	uint64_t where;
	uint32_t session;
	uint8_t state; /* TW_PEER_NONE: an attempt to connect was given up */
	uint8_t why;   /* enum tw_status of the last connect that failed */
	uint32_t credits, granted;
	bool queued, silent, paths_down;
	char *cause, *advice; /* why it is not reached, as its provider says; NULL: it does not */
};

enum why_access { WHY_READ, WHY_DENIED, WHY_VERSION, WHY_CHANGED };

struct why_ep {
	const struct scan_entry *e; /* NULL: of another host */
	char interface[9];
	uint64_t job; /* tw_stats_job(); endpoints of another one are strangers */
	uint64_t where;
	enum why_access access;
	bool calls;   /* a thread is inside a blocking call */
	bool asleep;  /* that sleeps */
	bool awaited; /* the program sleeps on a descriptor of the endpoint */
	uint64_t polls, takeovers, done, changed_at, changed_polls;
	struct why_unexp *unexp;
	unsigned nunexp;
	struct why_peer *peers;
	unsigned npeers;
	uint64_t *platforms; /* Panda: where each platform is, by its number */
	unsigned nplatforms;
};

/* What is known after two readings. */
enum why_mood {
	WHY_GOES_ON, /* something ended between the readings */
	WHY_BLOCKED, /* waits for something that did not change */
	WHY_SILENT,  /* has not called */
	WHY_IDLE,    /* calls, and waits for nothing that can be seen */
	WHY_STOPPED,
	WHY_UNREAD,
	WHY_NMOODS
};

struct why_proc {
	unsigned host; /* its number in the facts */
	pid_t pid;
	char program[17];
	char rank[16]; /* of a launcher, or empty */
	char state;    /* of /proc/PID/stat */
	uint64_t cpu;  /* clock ticks that it has used */
	struct why_ep *eps;
	unsigned neps;
	struct why_wait *waits;
	unsigned nwaits;
	uint32_t node[4]; /* MRAPI nodes */
	unsigned nnodes;
	bool denied;	 /* something of it could not be read */
	bool lock_waits; /* a thread sleeps for an MRAPI lock */
	uint64_t fence;	 /* tick since which it waits for all ranks of its job; 0: it does not */
	uint64_t job;	 /* without endpoints: that of a rank that waits for it; 0: none */
	struct why_wait *foreign; /* of MRAPI nodes of other hosts that wait here: `to' says who */
	unsigned nforeign;
	/* Settled: */
	enum why_mood mood;
	double since;  /* seconds, at least, that it has not called, or slept */
	bool computes; /* used the processor meanwhile */
	bool polls;
	bool idle; /* a rank that nobody waits for */
};

/* An open endpoint, of any job. */
struct why_open {
	unsigned host;
	pid_t pid;
	uint64_t where, job;
	char program[17];
};

#define WHY_HOST_NAME 64
#define WHY_NICS 64 /* of a host */

struct why_host {
	char name[WHY_HOST_NAME];
	uint64_t view; /* the same: it sees the same processes */
	uint64_t nics[WHY_NICS];
	unsigned nnics;
	bool denied; /* some process could not be looked into */
};

/* One reading; and what comes of several, of this host and of others. */
struct why_facts {
	struct scan scan;
	const char *job;	/* whose processes are wanted; NULL: all */
	uint64_t joined;	/* its tw_stats_job() */
	uint64_t ticks;		/* of tw_clock(), when the scan was made */
	struct why_proc *procs; /* by host, then process id */
	unsigned n;
	struct why_open *opens;
	unsigned nopens;
	struct why_host *hosts; /* the first is this one */
	unsigned nhosts;
};

void why_read(struct why_facts *f, const char *job, pid_t pid);
/* Adds all ranks of launchers that have not joined their job: a rank of another host may wait. */
void why_add_ranks(struct why_facts *f);
/* Leaves out those for which none waits. */
void why_drop_ranks(struct why_facts *f);
/* Leaves of the later reading what both say alike, and judges its processes. */
void why_settle(const struct why_facts *before, struct why_facts *now);
/* Leaves out the processes that have one of these endpoints of a job. */
void why_leave_out(struct why_facts *f, uint64_t job, const uint64_t *where, unsigned n);
/* Adds settled facts of another host, and leaves none. */
void why_add_host(struct why_facts *f, struct why_facts *other);
void why_free(struct why_facts *f);

/* Settled facts of one host as bytes, to be freed. */
uint8_t *why_flatten(const struct why_facts *f, size_t *len);
/* The opposite; false: these bytes are none. They may be of anybody. */
bool why_unflatten(struct why_facts *f, const uint8_t *bytes, size_t len);
#define WHY_FLAT_MOST (256u << 20) /* bytes */

/* An array of so many members of a size has room for one more. Fails if memory is short. */
void *why_room(void *array, unsigned n, size_t size);
/* Adds a wait of a process, zeroed; NULL when it has too many. */
struct why_wait *why_wait_new(struct why_proc *p, enum why_kind kind);
/* Readers of what belongs to one endpoint; false: the memory changed too much. */
bool why_engine(struct peek *m, struct why_proc *p, struct why_ep *ep, unsigned index);
void why_mcapi(struct peek *m, struct why_proc *p, unsigned index, uint64_t node);
void why_panda(struct peek *m, struct why_proc *p, struct why_ep *ep, unsigned index,
	       uint64_t group);
void why_mrapi(struct peek *m, struct why_proc *p, unsigned index, uint64_t group);
void why_locks(struct why_facts *f);
/* Whether a process is of a job: by an endpoint, or by its launcher. */
bool why_in_job(const struct why_proc *p, uint64_t job);
/* Whether a process is a member of an MRAPI job, and of which one: tw_stats_job(). */
bool why_member(pid_t pid, uint64_t *job);

struct why_actor {
	struct why_proc *now;
	const struct why_wait *wait;  /* what decides */
	int next;		      /* index of the process that it waits for, or WHY_NONE */
	unsigned far;		      /* arrows from here to a process that does not wait */
	unsigned candidates;	      /* of a receive from any source */
	const struct why_unexp *miss; /* a message that does not match, */
	unsigned miss_ep;	      /* at that endpoint of that process, */
	int miss_at;
	const struct why_wait *miss_recv; /* by that receive; NULL: none is posted */
	uint64_t ended;			  /* the endpoint that it waits for, which is not here, */
	const struct why_peer *unreached; /* or is not reached, and why is known */
};

struct why_graph {
	struct why_facts *now;
	struct why_actor *actors; /* by process */
	pid_t only;		  /* the process of this host that is explained; 0: all */
};

static inline bool why_is_shown(const struct why_graph *g, unsigned proc)
{
	const struct why_proc *p = g->actors[proc].now;

	return !g->only || (p->host == 0 && p->pid == g->only);
}

void why_graph(struct why_graph *g, struct why_facts *now);
/* The process of a job that has an endpoint, or WHY_NONE. */
int why_owner(const struct why_facts *f, uint64_t job, uint64_t where);
/* The one of a host with this id, or WHY_NONE. */
int why_by_pid(const struct why_facts *f, unsigned host, pid_t pid);
/* The process that holds a lock, for which one of these waits, or WHY_NONE. */
int why_holder(const struct why_facts *f, const struct why_proc *p, const struct why_holder *h);
/* The bits in which a message does not match. */
static inline uint64_t why_differ(uint64_t match, uint64_t key, uint64_t mask)
{
	return (match ^ key) & mask;
}
/* Whether two waits are one, seen twice, without progress. */
bool why_same(const struct why_wait *a, const struct why_wait *b);

/* words.c; texts are as long as this */
#define WHY_TEXT 768
/* "rank 1 (process 7, lmp)", or "rank 1 (process 7 of beta, lmp)" of another host */
void why_name(const struct why_facts *f, int proc, char *text);
/* " on beta", or nothing on this host. */
void why_on_host(const struct why_facts *f, unsigned host, char *text);
/* Of a holder of a lock that is not seen: "node 3 (process 7)" or "node 3 of another host". */
void why_holder_text(const struct why_facts *f, const struct why_holder *h, char *text);
/* "process 7", or "process 7 of beta" */
void why_number(const struct why_facts *f, unsigned host, pid_t pid, char *text);
/* The same with its program: "process 7 of beta (lmp)" */
void why_process(const struct why_facts *f, unsigned host, pid_t pid, const char *program,
		 char *text);
/* "waits for ...", with what it waits for by name. */
void why_phrase(const struct why_graph *g, int proc, char *text);
/* "rank 1", "ranks 1, 2 and 5 more", or "other ranks" where they are not known. */
void why_ranks(const struct why_wait *w, char *text);
void why_tag(const struct why_ep *ep, uint64_t match, char *text);
const char *why_kind_text(enum why_kind kind);
const char *why_state_text(enum why_state state);
/* "10.1.2.3", with that before it, or "NIC 00600dbeef00". */
void why_nic_text(uint64_t nic_id, const char *before, char *text, size_t len);
/* The host of an endpoint that is or was there, or WHY_NONE. */
int why_host_of(const struct why_facts *f, uint64_t where);
/* What is at the other end of an endpoint: a process, or what it would be. */
void why_where_text(const struct why_facts *f, const struct why_ep *ep, uint64_t where, char *text);

/* verdict.c: at most three sentences. True if something waits without end. */
bool why_verdict(const struct why_graph *g, char sentences[3][WHY_TEXT]);

#endif /* WHY_H */
