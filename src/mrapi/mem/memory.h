/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared and remote memory: mappings of this process, and moving bytes. */
#ifndef TW_MRAPI_MEMORY_H
#define TW_MRAPI_MEMORY_H

#include "mrapi/mrapi_internal.h"

#define TW_MRAPI_NOT_SHARED UINT64_MAX /* offset of an rmem that is not in the arena */

/* Of all slots ever used, live or not. */
#define tw_mrapi_each_shmem(s)                                                                     \
	for (struct tw_mrapi_shmem *s = tw_mrapi.seg->shmem;                                       \
	     s < tw_mrapi.seg->shmem + tw_mrapi.seg->table[TW_MRAPI_SHMEM].high; s++)
#define tw_mrapi_each_rmem(r)                                                                      \
	for (struct tw_mrapi_rmem *r = tw_mrapi.seg->rmem;                                         \
	     r < tw_mrapi.seg->rmem + tw_mrapi.seg->table[TW_MRAPI_RMEM].high; r++)

/* ---- arena.c: the file that shared memory is cut from */

/* Reserves a range; allocates and zeroes it; frees its pages, also after a fill that has failed. */
mrapi_status_t tw_mrapi_arena_reserve(uint64_t span, uint64_t *offset);
mrapi_status_t tw_mrapi_arena_fill(uint64_t offset, uint64_t span, const mrapi_resource_t *where);
void tw_mrapi_arena_discard(uint64_t offset, uint64_t span);
void *tw_mrapi_arena_map(uint64_t offset, uint64_t span, uint64_t address, bool fixed);

/* ---- shmem.c: shared memory */

/* The arena offset of memory mapped here, or TW_MRAPI_NOT_SHARED. */
uint64_t tw_mrapi_arena_offset(const void *mem, uint64_t size);
/* Whether a node of this process is attached to memory that has this range. Under the admin lock. */
bool tw_mrapi_arena_attached(uint64_t offset, uint64_t size);

/* ---- move.c: paths to another node's memory */

/* A strided transfer; the local side begins at local. */
struct tw_mrapi_move {
	bool write;
	char *local;
	uint64_t remote; /* offset in the remote memory */
	uint32_t bytes;	 /* of one access */
	uint32_t n;
	uint32_t remote_stride, local_stride;
	uint32_t handle; /* of the memory, without the access type */
};

/* How far a transfer has been split. */
struct tw_mrapi_place {
	uint32_t piece, into; /* an offset in it */
};

/* Requests on one remote memory, for movers.c. */
struct tw_mrapi_queue {
	struct tw_list link;	 /* of the list of ready ones of its pool */
	struct tw_list requests; /* with parts to start */
	unsigned busy;		 /* threads that move parts of them */
	uint8_t kind;
};

#define TW_MRAPI_ENDING 0x80000000u
#define TW_MRAPI_REVOKED 0x40000000u /* the owner ends: the last access tells it */
#define TW_MRAPI_CLIENT_STATES (TW_MRAPI_ENDING | TW_MRAPI_REVOKED)

/* This process as a client of one remote memory. It does not end under an access. */
struct tw_mrapi_client {
	struct tw_mrapi_queue queue;
	pthread_mutex_t mutex;	  /* of the caches, while one of them is used */
	_Atomic(uint32_t) handle; /* without the access type; 0: no memory */
	_Atomic(uint32_t) users;  /* accesses under way, TW_MRAPI_ENDING, TW_MRAPI_REVOKED */
	struct tw_mrapi_rmem *r;
	struct tw_member *owner;	  /* on another host; else NULL. Under the endpoint's lock */
	_Atomic(uint32_t) there;  /* the handle there; 0: the connection to it is lost */
	uint32_t proc;			/* the owner's */
	uint32_t who;			/* the owner: see move.c */
	pid_t pid;
	_Atomic(uint64_t) alive_at; /* path vm: tw_clock() when the owner was seen alive */
	_Atomic(const struct tw_mrapi_path *) path;
	char *base; /* path direct: the memory itself */
	void *map;  /* path direct: the mapping, if this process made one */
	uint64_t span;
	struct tw_mrapi_cache *caches; /* one per node, never freed */
};

/*
 * A path. open() returns whether it reaches the memory. move() does the whole transfer
 * or fails: MRAPI_ERR_NOT_SUPPORTED if the system refuses this path, and the next one is
 * tried. The path to other hosts is in remote/memory.c.
 */
struct tw_mrapi_path {
	const char *name;
	bool copies; /* copied by the calling processor, without waiting for another process */
	bool (*open)(struct tw_mrapi_client *c);
	mrapi_status_t (*move)(struct tw_mrapi_client *c, const struct tw_mrapi_move *m);
};

/* The owner of what a client is opened for. */
void tw_mrapi_path_to(struct tw_mrapi_client *c, uint32_t proc);
bool tw_mrapi_path_open(struct tw_mrapi_client *c);
mrapi_status_t tw_mrapi_move(struct tw_mrapi_client *c, const struct tw_mrapi_move *m);
/* In order of preference. */
extern const struct tw_mrapi_path tw_mrapi_path_direct, tw_mrapi_path_vm, tw_mrapi_path_served,
	tw_mrapi_path_network;
/* Splits the next part off a transfer, of at most that many bytes and pieces; false: the end. */
bool tw_mrapi_next_part(const struct tw_mrapi_move *m, struct tw_mrapi_place *at, uint32_t bytes,
			uint32_t pieces, struct tw_mrapi_move *part);
/* Waits until the owner's thread copies for nobody: a requester may have died meanwhile. */
void tw_mrapi_served_quiet(void);
void tw_mrapi_served_forked(void);

/* ---- rmem.c: clients */

/* A handle has its client's access type. */
static inline mrapi_rmem_atype_t tw_mrapi_atype_of(mrapi_rmem_hndl_t handle)
{
	return (mrapi_rmem_atype_t)(((handle & TW_MRAPI_ATYPE_MASK) >> TW_MRAPI_ATYPE_SHIFT) + 1);
}

static inline uint32_t tw_mrapi_plain(mrapi_rmem_hndl_t handle)
{
	return handle & ~TW_MRAPI_ATYPE_MASK;
}

/* Whether the memory is there, and its owner does not end. */
bool tw_mrapi_client_valid(struct tw_mrapi_client *c);
/* Begins an access, unless the client has another memory by now; ends it. */
bool tw_mrapi_client_get(struct tw_mrapi_client *c, uint32_t handle);
void tw_mrapi_client_put(struct tw_mrapi_client *c);
/* The client of an attached caller. */
mrapi_status_t tw_mrapi_client_find(uint32_t me, mrapi_rmem_hndl_t handle,
				    struct tw_mrapi_client **out);

/* The client of the memory in that slot, or NULL. */
struct tw_mrapi_client *tw_mrapi_client_at(uint32_t slot);

/* ---- revoke.c */
/* Tells the owner that this process does not access its memory any more. Under the admin lock. */
void tw_mrapi_let_go(struct tw_mrapi_rmem *r);
/* Waits until nobody accesses what the node owns. */
void tw_mrapi_revoke(uint32_t me);

/* ---- rmem.c */
/* A new memory. Under the admin lock. */
void tw_mrapi_rmem_set(struct tw_mrapi_rmem *r, const struct tw_mrapi_rmem *to);
/* Memory of this process, or NULL. */
struct tw_mrapi_rmem *tw_mrapi_own_rmem(uint32_t handle);

/* ---- remote/memory.c: memory of other hosts; called without the endpoint's lock */

/* Whether its owner can be reached. */
bool tw_mrapi_memory_reach(struct tw_mrapi_rmem *r, uint32_t handle);
/* Attaches and detaches the client at the owner. */
mrapi_status_t tw_mrapi_memory_attach(struct tw_mrapi_client *c, uint32_t handle);
void tw_mrapi_memory_detach(struct tw_mrapi_client *c);

/* ---- export.c */
/* Whether a process on another host is attached. Under the endpoint's lock. */
bool tw_mrapi_exports(uint32_t handle);

/* ---- cache.c: the software caches of a client's nodes */
mrapi_status_t tw_mrapi_cache_access(struct tw_mrapi_client *c, uint32_t me,
				     const struct tw_mrapi_move *m);
/* Writes back the node's bytes; then empties its cache, if drop. */
mrapi_status_t tw_mrapi_cache_flush(struct tw_mrapi_client *c, uint32_t me, bool then_drop);
/* Drops the caches of nodes that are no longer attached, or all of them. */
void tw_mrapi_cache_prune(struct tw_mrapi_client *c, bool all);
void tw_mrapi_caches_forked(struct tw_mrapi_client *c);

/* ---- requests.c: non-blocking accesses */
mrapi_status_t tw_mrapi_request_start(struct tw_mrapi_client *c, uint32_t me, bool cached,
				      const struct tw_mrapi_move *m, mrapi_request_t *request);
/* Completes the node's requests on a client, in order. */
void tw_mrapi_requests_complete(const struct tw_mrapi_client *c, uint32_t me);
/* Does one access now, through the node's cache if it has one. */
mrapi_status_t tw_mrapi_access(struct tw_mrapi_client *c, uint32_t cache_of,
			       const struct tw_mrapi_move *m);

#endif /* TW_MRAPI_MEMORY_H */
