/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The state that the processes of a job share: a segment with every object, and an
 * arena, a sparse file that shared memory is allocated from. Both are wire formats
 * between processes of one version of the library.
 *
 * The admin lock guards the tables, the nodes and the processes. Locks are taken and
 * released by atomics on the object alone. A change that may be interrupted by death is
 * either one atomic store that makes it valid, or detected and undone by
 * tw_mrapi_table_repair(): a slot is in use once its handle is stored.
 */
#ifndef TW_MRAPI_SEGMENT_H
#define TW_MRAPI_SEGMENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "mrapi.h"

#define TW_MRAPI_MAGIC 0x6d726170u
#define TW_MRAPI_VERSION 17u
#define TW_MRAPI_PROCS 1024u
#define TW_MRAPI_HOSTS 64u /* others */
#define TW_MRAPI_BUCKETS 4096u
#define TW_MRAPI_EVENTS 5u
#define TW_MRAPI_COUNTS 4096u
#define TW_MRAPI_LANES 64u /* requests that a proxy may have under way */

#define TW_MRAPI_DELETED_IDS 16384u /* deleted ids remembered, per kind of lock */

enum tw_mrapi_kind {
	TW_MRAPI_MUTEX = 1,
	TW_MRAPI_SEM,
	TW_MRAPI_RWL,
	TW_MRAPI_LOCKS,
	TW_MRAPI_SHMEM = TW_MRAPI_LOCKS,
	TW_MRAPI_RMEM,
	TW_MRAPI_KINDS
};

/*
 * A handle: kind, whether the object has MRAPI_ERROR_EXT, generation of the slot, and
 * the slot. Thus a stale handle alone determines its status, however long ago the object
 * was deleted. Remote memory has the client's access type in the slot's upper bits.
 */
#define TW_MRAPI_KIND_SHIFT 29
#define TW_MRAPI_HANDLE_EXT (1u << 28)
#define TW_MRAPI_GEN_SHIFT 14
#define TW_MRAPI_GEN_MASK 0x3fffu
#define TW_MRAPI_SLOT_MASK 0x3fffu
#define TW_MRAPI_ATYPE_SHIFT 12
#define TW_MRAPI_ATYPE_MASK (3u << TW_MRAPI_ATYPE_SHIFT)

static inline enum tw_mrapi_kind tw_mrapi_kind_of(uint32_t handle)
{
	return (enum tw_mrapi_kind)(handle >> TW_MRAPI_KIND_SHIFT);
}

enum tw_mrapi_flags {
	TW_MRAPI_RECURSIVE = 1,
	TW_MRAPI_EXT = 2,
	TW_MRAPI_DOMAIN_SHARED = 4,
	TW_MRAPI_CLAIMED = 8 /* not an object before the other hosts agree to its id */
};

/* The head of every object. */
struct tw_mrapi_obj {
	_Atomic(uint32_t) handle; /* 0: none */
	uint32_t id;
	uint32_t domain;       /* of the creator */
	_Atomic(uint32_t) gen; /* objects that have used the slot; handles have the low bits */
	_Atomic(uint16_t) flags;
	uint16_t next;		    /* slot + 1 of the next in the bucket */
	uint16_t unused1;
	_Atomic(uint8_t) contended; /* a thread has waited for it */
	_Atomic(uint8_t) host;	    /* 0: this one; else its number + 1: only the name is here */
	/*
	 * Its handle on that host. Of this one: the slot + 1 of the process that reports its
	 * creation to other hosts, while it is CLAIMED, or its end, before the slot is free; or 0.
	 */
	uint32_t there;
	uint32_t unused2;
};
_Static_assert(sizeof(struct tw_mrapi_obj) == 32, "wire format");

#define TW_MRAPI_WAITERS 0x80000000u /* in the admin lock: wake a sleeper */
#define TW_MRAPI_OWNER 0xffffu	     /* node slot + 1 */

/*
 * In the word of a mutex or a writer whose state is on another host, so that whatever takes
 * a lock fails first and then asks there. A node of this host that has a mutex is beside it.
 */
#define TW_MRAPI_REMOTE 0x20000000u

/* Lock word, sleepers' count and futex word in one cache line: see mutex.c. */
struct tw_mrapi_mutex {
	struct tw_mrapi_obj obj;
	_Atomic(uint32_t) word;	     /* the owner */
	_Atomic(uint32_t) outermost; /* number of the owner's first lock */
	_Atomic(uint64_t) locks;     /* counts locks, for keys */
	_Atomic(uint32_t) seq;	     /* futex word; counts wake-ups */
	_Atomic(uint32_t) sleepers;  /* at least the sleepers without a wake-up */
	_Atomic(uint64_t) levels;    /* recursive: number of the last lock, owner, depth */
} tw_aligned_line;
_Static_assert(sizeof(struct tw_mrapi_mutex) == 64, "wire format");

/*
 * Semaphores and reader/writer locks: an ownership record per lock, so that taking one
 * is a compare and swap and a dead owner is found.
 */
struct tw_mrapi_counting {
	struct tw_mrapi_obj obj;
	_Atomic(uint32_t) seq;	    /* futex word; counts changes */
	_Atomic(uint32_t) sleepers; /* epoch << 16 | count */
	_Atomic(uint32_t) writer;   /* owner, or TW_MRAPI_PENDING and the next one */
	_Atomic(uint32_t) writers;  /* waiting ones: epoch << 16 | count */
	_Atomic(uint32_t) limit;    /* changes if the slot is used again: read it once */
	uint32_t unused[3];
	_Atomic(uint16_t) holder[MRAPI_MAX_SEM_SHAREDLOCKS]; /* node slot + 1 */
} tw_aligned_line;
_Static_assert(sizeof(struct tw_mrapi_counting) == 320, "wire format");

#define TW_MRAPI_PENDING 0x40000000u

/* A set of nodes, each as slot + 1. */
struct tw_mrapi_nodeset {
	_Atomic(uint64_t) word[MRAPI_MAX_NODES / 64];
};

/* A memory resource without its place in the tree. */
struct tw_mrapi_where {
	char name[64];
	uint32_t type; /* mrapi_rsrc_type_t */
	uint32_t unused[3];
	uint64_t opaque[8];
};

struct tw_mrapi_shmem {
	struct tw_mrapi_obj obj;
	uint64_t offset;  /* in the arena */
	uint64_t span;	  /* in whole pages */
	uint64_t address; /* to attach at, if fixed */
	uint32_t size;
	uint16_t fixed; /* the address is mandatory */
	uint16_t nodes; /* 0: all may attach */
	struct tw_mrapi_where where;
	struct tw_mrapi_nodeset attached;
	uint16_t node[MRAPI_MAX_NODES];
} tw_aligned_line;
_Static_assert(sizeof(struct tw_mrapi_shmem) == 2432 &&
		       offsetof(struct tw_mrapi_shmem, attached) == 208,
	       "wire format");

/*
 * The top of the arena has buffers of each process for served requests; their pages are
 * allocated on first use.
 */
#define TW_MRAPI_BOUNCE 0x40000u
#define TW_MRAPI_BOUNCE_SLOTS 8u
#define TW_MRAPI_BOUNCES ((uint64_t)TW_MRAPI_PROCS * TW_MRAPI_BOUNCE_SLOTS * TW_MRAPI_BOUNCE)

struct tw_mrapi_rmem {
	struct tw_mrapi_obj obj;
	uint64_t address; /* in the owner */
	uint64_t offset;  /* in the arena, if the memory is shared; else ~0 */
	uint32_t size;
	uint16_t owner; /* node slot + 1 */
	uint16_t atype;
	_Atomic(uint32_t) ending; /* its owner waits until nobody is attached */
	uint32_t unused;
	struct tw_mrapi_nodeset attached;
} tw_aligned_line;
_Static_assert(sizeof(struct tw_mrapi_rmem) == 192 &&
		       offsetof(struct tw_mrapi_rmem, attached) == 64,
	       "wire format");

/* life is incarnation << 8 | state. */
enum tw_mrapi_state {
	TW_MRAPI_FREE,
	TW_MRAPI_JOINING,
	TW_MRAPI_LIVE,
	TW_MRAPI_LEAVING,
	TW_MRAPI_DEAD
};

struct tw_mrapi_proc {
	_Atomic(uint64_t) life;
	uint32_t pid;
	uint32_t narrow; /* TW_NARROW there */
	_Atomic(uint64_t) hosts; /* bits of those it has found and not given up */
	uint64_t waits; /* address of its list of struct tw_mrapi_wait, for mx_why */
	uint32_t unused[8];
} tw_aligned_line;

static inline enum tw_mrapi_state tw_mrapi_state(const struct tw_mrapi_proc *p)
{
	return (enum tw_mrapi_state)(atomic_load(&p->life) & 0xff);
}

static inline uint64_t tw_mrapi_life(uint32_t incarnation, enum tw_mrapi_state state)
{
	return (uint64_t)incarnation << 8 | state;
}

/* The latest answer to a proxy in a lane, in case it is lost with the process that gave it. */
struct tw_mrapi_done {
	_Atomic(uint64_t) turn;
	uint64_t key; /* of a lock; an id that was deleted */
	int32_t status;
	uint32_t unused;
};

/* A step for a proxy, under the admin lock: see proxy.c. */
struct tw_mrapi_doing {
	uint64_t had; /* it had that of the lock before */
	uint64_t turn;
	uint32_t op, handle, lane;
	_Atomic(uint32_t) proxy; /* node slot + 1; 0: nothing */
};

/*
 * A node of another host is a proxy: the same slot, so that what it locks here names it as
 * any other. The process that serves it acts for it.
 */
struct tw_mrapi_node {
	_Atomic(uint32_t) life; /* LIVE, LEAVING or FREE; a proxy: LIVE or FREE */
	uint32_t proc;		/* of a proxy: which serves it, or TW_MRAPI_PROCS: none */
	uint32_t domain;
	uint32_t number;
	uint32_t born; /* order of initialization in the job */
	uint32_t pid;
	uint32_t host;	     /* 0: this one; else its number + 1 */
	uint32_t claimed;    /* not a node before the other hosts agree */
	/* A proxy's: */
	uint64_t where;	  /* its endpoint, as in struct tw_member */
	uint32_t session; /* of that endpoint, once it is served */
	uint32_t there;	  /* born, on its own host */
	uint64_t sent;	  /* of its latest request (struct tw_mrapi_ctrl) */
	uint32_t unused[2];
} tw_aligned_line;
_Static_assert(sizeof(struct tw_mrapi_node) == 64, "wire format");

/* Another host. Its number is its place in the table. */
struct tw_mrapi_host {
	uint64_t nic;		 /* 0: none yet */
	_Atomic(uint64_t) where; /* a process there that a process here has spoken to, or 0 */
	uint64_t life;		 /* of its segment; 0: not known */
	uint64_t unused;
};

/* By slot there: see notices.c. */
struct tw_mrapi_known {
	uint32_t slot[TW_MRAPI_KINDS][TW_MRAPI_SLOT_MASK + 1]; /* of kind 0: nodes */
};
_Static_assert(sizeof(struct tw_mrapi_known) % TW_PAGE == 0, "its pages are its own");

/* A started counter of a dynamic attribute, owned by one node. */
struct tw_mrapi_count {
	_Atomic(uint32_t) node; /* slot + 1; 0: free */
	uint32_t type, num, index;
};

struct tw_mrapi_table {
	uint32_t high; /* slots ever used */
	uint32_t live;
	uint32_t next; /* where the search for a slot that is free again goes on */
	uint32_t anys; /* ids that were chosen for MRAPI_x_ID_ANY */
	uint32_t ndeleted; /* deleted ids; from TW_MRAPI_DELETED_IDS on the list is full */
	uint32_t unused[11];
	uint16_t bucket[TW_MRAPI_BUCKETS];
} tw_aligned_line;

struct tw_mrapi_segment {
	uint32_t magic, version;
	uint64_t arena_size;
	uint64_t arena_next; /* where the search for a free range starts */
	uint32_t births;
	uint32_t counts; /* entries of count ever used */
	uint64_t life;	 /* random: of two segments of a host, one after the other */
	uint64_t job;	 /* tw_stats_job() */
	uint32_t unused[4];

	/* The owner and TW_MRAPI_WAITERS. inconsistent: an owner died, repair first. */
	_Atomic(uint32_t) admin tw_aligned_line;
	_Atomic(uint32_t) inconsistent;
	struct tw_mrapi_doing doing;

	_Atomic(uint32_t) event_seq tw_aligned_line; /* futex word */
	_Atomic(uint32_t) event[TW_MRAPI_EVENTS];

	struct tw_mrapi_host host[TW_MRAPI_HOSTS] tw_aligned_line;
	struct tw_mrapi_proc proc[TW_MRAPI_PROCS];
	struct tw_mrapi_node node[MRAPI_MAX_NODES];
	struct tw_mrapi_table table[TW_MRAPI_KINDS];
	struct tw_mrapi_count count[TW_MRAPI_COUNTS];

	/* Pages from here on are allocated as slots are used. */
	struct tw_mrapi_mutex mutex[MRAPI_MAX_MUTEXES] __attribute__((aligned(TW_PAGE)));
	struct tw_mrapi_counting sem[MRAPI_MAX_SEMS] __attribute__((aligned(TW_PAGE)));
	struct tw_mrapi_counting rwl[MRAPI_MAX_RWLS] __attribute__((aligned(TW_PAGE)));
	struct tw_mrapi_shmem shmem[MRAPI_MAX_SHMEMS] __attribute__((aligned(TW_PAGE)));
	struct tw_mrapi_rmem rmem[MRAPI_MAX_RMEMS] __attribute__((aligned(TW_PAGE)));
	struct tw_mrapi_done done[MRAPI_MAX_NODES][TW_MRAPI_LANES]
		__attribute__((aligned(TW_PAGE)));
	struct tw_mrapi_known known[TW_MRAPI_HOSTS] __attribute__((aligned(TW_PAGE)));
	/* Deleted ids of locks that had MRAPI_ERROR_EXT, as rings. */
	uint32_t deleted[TW_MRAPI_LOCKS][TW_MRAPI_DELETED_IDS] __attribute__((aligned(TW_PAGE)));
} __attribute__((aligned(TW_PAGE)));
_Static_assert(offsetof(struct tw_mrapi_segment, table) == 133312 &&
		       offsetof(struct tw_mrapi_segment, mutex) == 249856 &&
		       sizeof(struct tw_mrapi_segment) == 34197504,
	       "wire format");

static inline void tw_mrapi_nodeset_add(struct tw_mrapi_nodeset *s, uint32_t me)
{
	/* [attached] */
	atomic_fetch_or(&s->word[(me - 1) / 64], 1ull << ((me - 1) % 64));
}

static inline void tw_mrapi_nodeset_del(struct tw_mrapi_nodeset *s, uint32_t me)
{
	atomic_fetch_and(&s->word[(me - 1) / 64], ~(1ull << ((me - 1) % 64)));
}

static inline bool tw_mrapi_nodeset_has(struct tw_mrapi_nodeset *s, uint32_t me)
{
	/* [attached] */
	uint64_t word = atomic_load_explicit(&s->word[(me - 1) / 64], memory_order_acquire);

	return word >> ((me - 1) % 64) & 1;
}

static inline bool tw_mrapi_nodeset_empty(struct tw_mrapi_nodeset *s)
{
	for (unsigned i = 0; i < tw_countof(s->word); i++)
		if (atomic_load(&s->word[i]))
			return false;
	return true;
}

static inline void tw_mrapi_nodeset_clear(struct tw_mrapi_nodeset *s)
{
	for (unsigned i = 0; i < tw_countof(s->word); i++)
		atomic_store(&s->word[i], 0);
}

#endif /* TW_MRAPI_SEGMENT_H */
