/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared and remote memory: what this process has mapped and how bytes move. */
#ifndef TW_MR_MEMORY_H
#define TW_MR_MEMORY_H

#include "mrapi/mr.h"

#define TW_MR_NOT_SHARED UINT64_MAX /* an rmem's offset: not in the arena */

/* ---- mr_arena.c: the file that shared memory is cut from */

/* A place for so many bytes, allocated and zero, or why not. */
mrapi_status_t tw_mr_arena_reserve(uint64_t span, uint64_t *offset);
mrapi_status_t tw_mr_arena_fill(uint64_t offset, uint64_t span, const mrapi_resource_t *where);
void tw_mr_arena_discard(uint64_t offset, uint64_t span);
void *tw_mr_arena_map(uint64_t offset, uint64_t span, uint64_t address, bool fixed);
/* Where bytes of this process lie in the arena, or TW_MR_NOT_SHARED. */
uint64_t tw_mr_arena_offset(const void *mem, uint64_t size);

/* ---- mr_move.c: the ways to another node's memory */

/* A strided piece of work; the local side begins at local. */
struct tw_mr_move {
	bool write;
	char *local;
	uint64_t remote; /* offset in the remote memory */
	uint32_t bytes;	 /* of one access */
	uint32_t n;
	uint32_t remote_stride, local_stride;
};

/* What is under way with one remote memory, for mr_movers.c. */
struct tw_mr_lane {
	struct tw_list link;  /* of the ready ones */
	struct tw_list queue; /* requests with parts to begin */
	unsigned busy;	      /* threads that move parts of it */
	uint8_t kind;
	bool ready;
};

/* This process as a client of one remote memory. */
struct tw_mr_client {
	struct tw_mr_lane lane;
	pthread_mutex_t mutex; /* of the list of caches */
	uint32_t handle;       /* without the access type */
	struct tw_mr_rmem *r;
	struct tw_mr_far *far; /* the owner's host is another; or NULL */
	uint32_t proc;	       /* the owner's */
	pid_t pid;
	_Atomic(const struct tw_mr_path *) path;
	char *base; /* path direct: the memory itself */
	void *map;  /* of the arena, when we made one */
	uint64_t span;
	struct tw_mr_cache *caches; /* of its nodes, kept once made */
};

/*
 * One way. open() tells whether it reaches the memory; move() does the whole
 * work or says why not: MRAPI_ERR_NOT_SUPPORTED when the system refuses this way,
 * and the next one is tried. Those to other hosts are in mr_net_move.c.
 */
struct tw_mr_path {
	const char *name;
	bool copies; /* the caller's processor does: nobody is waited for */
	bool (*open)(struct tw_mr_client *c);
	mrapi_status_t (*move)(struct tw_mr_client *c, const struct tw_mr_move *m);
};

bool tw_mr_path_open(struct tw_mr_client *c);
mrapi_status_t tw_mr_move(struct tw_mr_client *c, const struct tw_mr_move *m);
/* The paths, in order of preference. */
extern const struct tw_mr_path tw_mr_path_direct, tw_mr_path_vm, tw_mr_path_served,
	tw_mr_path_network, tw_mr_path_told;
/* Does the work in parts of at most so many bytes. */
mrapi_status_t tw_mr_in_parts(struct tw_mr_client *c, const struct tw_mr_move *m, uint32_t room,
			      mrapi_status_t (*fn)(struct tw_mr_client *c,
						   const struct tw_mr_move *part, void *arg),
			      void *arg);
/* Packs or unpacks n pieces. */
void tw_mr_pack(char *packed, char *at, uint32_t bytes, uint32_t stride, uint32_t n, bool pack);
void tw_mr_served_forked(void);

/* ---- mr_rmem.c: the access type in a handle; clients */
mrapi_rmem_atype_t tw_mr_atype_of(mrapi_rmem_hndl_t handle);
/* The client through which the caller, who is attached, reaches the memory. */
mrapi_status_t tw_mr_client_find(mrapi_rmem_hndl_t handle, struct tw_mr_client **out);

/* ---- mr_far.c: remote memory of other hosts; none needs a lock */

static inline bool tw_mr_is_far(uint32_t handle)
{
	return handle >> TW_MR_KIND_SHIFT == TW_MR_FAR;
}

/* Asks the other hosts for an id: the handle, and what the memory is. */
mrapi_status_t tw_mr_far_get(mrapi_rmem_id_t id, uint32_t *handle);
/* What a handle of ours, without access type, stands for. */
mrapi_status_t tw_mr_far_find(uint32_t handle, struct tw_mr_far **far);
struct tw_mr_rmem *tw_mr_far_rmem(struct tw_mr_far *far);
/* Whether the owner still has it. */
mrapi_status_t tw_mr_far_check(struct tw_mr_far *far);
/* Becomes and ceases to be its user; a second attach renews the key. */
mrapi_status_t tw_mr_far_attach(struct tw_mr_far *far);
void tw_mr_far_detach(struct tw_mr_far *far);

/* ---- mr_lend.c */
/* Whether a process of another host is attached; with the endpoint's lock. */
bool tw_mr_lent(uint32_t handle);

/* ---- mr_cache.c: the software caches of a client's nodes */
mrapi_status_t tw_mr_cache_access(struct tw_mr_client *c, uint32_t me, const struct tw_mr_move *m);
/* Writes back what the node has written; then empties its cache, if told to. */
mrapi_status_t tw_mr_cache_flush(struct tw_mr_client *c, uint32_t me, bool then_drop);
/* Forgets what is cached for nodes that are not attached any more, or for all. */
void tw_mr_cache_prune(struct tw_mr_client *c, bool all);
void tw_mr_caches_forked(struct tw_mr_client *c);

/* ---- mr_requests.c: work that goes on after the call */
mrapi_status_t tw_mr_request_start(struct tw_mr_client *c, uint32_t me, bool cached,
				   const struct tw_mr_move *m, mrapi_request_t *request);
/* Ends what a node has under way with a client, in order. */
void tw_mr_requests_settle(const struct tw_mr_client *c, uint32_t me);
/* Does one access now, by the cache of that node, or by none. */
mrapi_status_t tw_mr_access(struct tw_mr_client *c, uint32_t cache_of, const struct tw_mr_move *m);

#endif /* TW_MR_MEMORY_H */
