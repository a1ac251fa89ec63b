/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of the MRAPI interface. */
#ifndef TW_MRAPI_H
#define TW_MRAPI_H

#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/futex.h"
#include "base/list.h"
#include "base/log.h"
#include "mrapi/node/segment.h"
#include "shmem/sock.h"

/* This process as a member of its job. */
struct tw_mrapi_member {
	_Atomic(uint32_t) epoch;      /* changes when a node of this process ends */
	_Atomic(uint32_t) first;      /* node slot + 1 of the process's first node, or 0 */
	struct tw_mrapi_segment *seg; /* stays mapped after leaving, until the next join */
	int segfd, arenafd;
	uint32_t proc; /* own slot in seg->proc */
	uint32_t incarnation;
	uint32_t nodes; /* of this process, under its mutex */
	_Atomic(uint32_t) joins;
	uint64_t nic; /* of its endpoint, if there are other hosts */
};

extern struct tw_mrapi_member tw_mrapi;

/* A node, its order of birth and the process's join: not a later node with the same slot. */
struct tw_mrapi_owner {
	uint32_t me; /* slot + 1 */
	uint32_t born, join;
	bool proxy; /* a thread does not become another node when it ends */
};

/* The thread's node, cached. */
struct tw_mrapi_self {
	uint32_t epoch; /* in which the node was valid */
	struct tw_mrapi_owner as;
};

extern _Thread_local struct tw_mrapi_self tw_mrapi_self;

/* Validates the cached node again after a node of the process has ended. */
uint32_t tw_mrapi_me_again(void);

/*
 * The cached node; 0 if it must be validated. After a lock was taken: if the node has ended, this
 * sees it or the end gives the lock back.
 */
static inline uint32_t tw_mrapi_me_known(void)
{
	/* [node-ends] */
	return tw_likely(tw_mrapi_self.epoch == atomic_load(&tw_mrapi.epoch)) ? tw_mrapi_self.as.me
									      : 0;
}

/* The caller's node, as slot + 1; 0 if it has none. */
static inline uint32_t tw_mrapi_me(void)
{
	uint32_t me = tw_mrapi_me_known();

	return tw_likely(me != 0) ? me : tw_mrapi_me_again();
}

static inline struct tw_mrapi_node *tw_mrapi_node(uint32_t me)
{
	return &tw_mrapi.seg->node[me - 1];
}

/* The node as slot + 1. */
static inline uint32_t tw_mrapi_me_of(const struct tw_mrapi_node *n)
{
	return (uint32_t)(n - tw_mrapi.seg->node) + 1;
}

/* Of all slots, also of those that are free. */
#define tw_mrapi_each_node(n)                                                                      \
	for (struct tw_mrapi_node *n = tw_mrapi.seg->node;                                         \
	     n < tw_mrapi.seg->node + MRAPI_MAX_NODES; n++)

static inline struct tw_mrapi_owner tw_mrapi_owner(uint32_t me)
{
	return (struct tw_mrapi_owner){me, tw_mrapi_node(me)->born, tw_mrapi.joins,
				       tw_mrapi_node(me)->host != 0};
}

/* The calling library thread runs for that node; all 0: for none. */
void tw_mrapi_act_for(struct tw_mrapi_owner owner);

static inline void tw_mrapi_set_status(mrapi_status_t *status, mrapi_status_t what)
{
	if (status)
		*status = what;
}

/* The result of a trylock, for which a taken lock is no error. */
static inline mrapi_boolean_t tw_mrapi_tried(mrapi_status_t result, mrapi_status_t *status)
{
	tw_mrapi_set_status(status, result == MRAPI_TIMEOUT ? MRAPI_SUCCESS : result);
	return result == MRAPI_SUCCESS ? MRAPI_TRUE : MRAPI_FALSE;
}

/* ---- join.c: joining and leaving the job */
mrapi_status_t tw_mrapi_join(void);
void tw_mrapi_leave(void);
/* Whether the process with that slot has ended. */
bool tw_mrapi_gone(uint32_t proc);
/* A member's process id in this process's namespace; 0 if it has ended or is not visible. */
pid_t tw_mrapi_pid_of(uint32_t proc);

/* ---- segment.c: results are 0 or an error */
/* Maps the job's segment, from any member that replies, or makes one. */
int tw_mrapi_find_segment(void);
/* Gives calls that are still under way a copy. Between admin_block() and admin_unblock(). */
void tw_mrapi_leave_segment(void);
/* Allocates the pages of a part of the segment; false when memory is short. */
bool tw_mrapi_allocate(const void *part, size_t size);
#define TW_MRAPI_JOIN_LOCK TW_MRAPI_PROCS /* beside the slots: the name of who joins */
/* As tw_sock_listen(), by the name of a slot. */
int tw_mrapi_listen(struct tw_sock_listener *l, uint32_t proc);
/* Connects a new blocking socket, which is closed on an error. */
int tw_mrapi_dial(int *fd, uint32_t proc);
/* So that no member waits long for one that does not read. */
void tw_mrapi_limit_sends(int fd);
/* Whether the error passes: the member is dying, leaving or slow. */
bool tw_mrapi_passing(int err);

/* ---- service.c: the thread that serves other members and detects their death */
enum tw_mrapi_message_type {
	TW_MRAPI_HELLO = 1,
	TW_MRAPI_GET_SEGMENT,
	TW_MRAPI_SEGMENT_REPLY,
	TW_MRAPI_MOVE,
	TW_MRAPI_REVOKE
};

struct tw_mrapi_message {
	uint32_t type;
	uint32_t proc;
	uint32_t incarnation;
	uint32_t slot; /* MOVE: number of the requesting process's buffer; REVOKE: a handle */
};

/* 0 or an error. */
int tw_mrapi_service_start(const struct tw_sock_listener *listener);
/* Stops the thread; then, once no member needs a notice, closes the connections. */
void tw_mrapi_service_stop(void);
void tw_mrapi_service_close(void);
void tw_mrapi_service_forked(void);
/* Watches a connection to a member: 0 or an error. */
int tw_mrapi_service_watch(int fd, uint32_t proc, uint32_t incarnation);
/* Has tw_mrapi_events_receive() called in the thread, which closes the socket when it ends. */
bool tw_mrapi_service_kernel(int kernel);
/* False: the member has ended, is not connected yet, or does not read; the caller tries again. */
bool tw_mrapi_send(uint32_t proc, const struct tw_mrapi_message *m);

/* ---- admin.c: the admin lock, and reclaiming what dead members held */
void tw_mrapi_admin_lock(void);
void tw_mrapi_admin_unlock(void);
/* In between no thread of this process has the admin lock. */
void tw_mrapi_admin_block(void);
void tw_mrapi_admin_unblock(void);
void tw_mrapi_admin_forked(void);
/* Undoes what a dead member held. */
void tw_mrapi_reclaim(uint32_t proc, uint32_t incarnation);
/* Releases all that a node holds. Under the admin lock. */
void tw_mrapi_release_node(uint32_t me);

/* Each kind of object has its own way to do this. Under the admin lock. */
struct tw_mrapi_ops {
	/* Deletes the object, or refuses. */
	mrapi_status_t (*end)(struct tw_mrapi_obj *o, uint32_t me);
	/* Releases all that a node that has ended has of it. */
	void (*drop)(struct tw_mrapi_obj *o, uint32_t me);
	/* Of locks only. Wakes all sleepers and resets their count. */
	void (*wake_all)(struct tw_mrapi_obj *o);
	/* A proxy's locks of it; 0: none. And gives it these again, after a step cut short. */
	uint64_t (*had)(struct tw_mrapi_obj *o, uint32_t me);
	void (*restore)(struct tw_mrapi_obj *o, uint32_t me, uint64_t had);
};

extern const struct tw_mrapi_ops tw_mrapi_mutex_ops, tw_mrapi_counting_ops, tw_mrapi_shmem_ops,
	tw_mrapi_rmem_ops;

/* ---- table.c: objects by handle and by id; under the admin lock, except find */
const struct tw_mrapi_ops *tw_mrapi_ops(enum tw_mrapi_kind kind);

/* A walk through all slots ever used, live or not, begins with all 0 and ends with NULL. */
struct tw_mrapi_walk {
	enum tw_mrapi_kind kind;
	uint32_t next;
};
struct tw_mrapi_obj *tw_mrapi_walk(struct tw_mrapi_walk *w);

/* Makes an object of a slot that was taken, which is free again without that. */
uint32_t tw_mrapi_table_publish(enum tw_mrapi_kind kind, struct tw_mrapi_obj *o, unsigned flags,
				uint32_t domain);
/* A slot for an id that nothing has, of which the caller makes an object with these flags. */
mrapi_status_t tw_mrapi_table_take(enum tw_mrapi_kind kind, uint32_t id, unsigned flags,
				   struct tw_mrapi_obj **out);
struct tw_mrapi_obj *tw_mrapi_lookup(enum tw_mrapi_kind kind, uint32_t id);
/* Ends an object. Shared memory gives back its pages. */
void tw_mrapi_table_free(enum tw_mrapi_kind kind, struct tw_mrapi_obj *o);
/* Ends an object for a node, if its kind agrees; the caller reports that to other hosts. */
mrapi_status_t tw_mrapi_table_end(enum tw_mrapi_kind kind, struct tw_mrapi_obj *o, uint32_t me);
/* The handle of an object whose end this process has not reported to other hosts; 0: none. */
uint32_t tw_mrapi_table_unreported(enum tw_mrapi_kind *kind, uint32_t *id);
/* The end of that object has been reported. */
void tw_mrapi_table_reported(enum tw_mrapi_kind kind, uint32_t handle);
void tw_mrapi_table_repair(enum tw_mrapi_kind kind);
/* Waits for creates of nodes that have ended: nobody else would free what they have claimed. */
void tw_mrapi_creates_end(void);
void tw_mrapi_creates_forked(void);
/* The object in that slot, live or not. */
struct tw_mrapi_obj *tw_mrapi_slot(enum tw_mrapi_kind kind, uint32_t slot);
/* The status of a stale handle: *_DELETED or *_INVALID. */
mrapi_status_t tw_mrapi_stale(enum tw_mrapi_kind kind, uint32_t handle);

/*
 * Common functions of all kinds. Where they are given the caller's node it is asked for once in a
 * call, as it may end meanwhile. begin(), or NULL, fills in a new object, or refuses.
 */
mrapi_status_t tw_mrapi_obj_create(uint32_t me, enum tw_mrapi_kind kind, uint32_t id,
				   unsigned flags,
				   mrapi_status_t (*begin)(struct tw_mrapi_obj *o, const void *arg),
				   const void *arg, uint32_t *handle);
/* Mutexes have no limit. */
mrapi_status_t tw_mrapi_lock_create(enum tw_mrapi_kind kind, uint32_t id, const void *attributes,
				    uint32_t limit, uint32_t *handle);
mrapi_status_t tw_mrapi_obj_get(uint32_t me, enum tw_mrapi_kind kind, uint32_t id,
				uint32_t *handle);
mrapi_status_t tw_mrapi_obj_find(uint32_t me, enum tw_mrapi_kind kind, uint32_t handle,
				 struct tw_mrapi_obj **out);
mrapi_status_t tw_mrapi_obj_attr(enum tw_mrapi_kind kind, uint32_t handle, mrapi_uint_t num,
				 void *value, size_t size);
mrapi_status_t tw_mrapi_obj_delete(enum tw_mrapi_kind kind, uint32_t handle);

static inline bool tw_mrapi_is(struct tw_mrapi_obj *o, uint32_t handle)
{
	/* [object] */
	return tw_likely(atomic_load_explicit(&o->handle, memory_order_acquire) == handle) &&
	       handle != 0;
}

/* ---- wait.c: cancellation, and sleeping until a lock is released */

/* In between the thread is not cancelled. */
void tw_mrapi_lock(pthread_mutex_t *mutex);
void tw_mrapi_unlock(pthread_mutex_t *mutex);

/* The result of a call under a mutex. */
#define tw_mrapi_locked(mutex, call)                                                               \
	({                                                                                         \
		tw_mrapi_lock(mutex);                                                              \
		__auto_type tw_result = (call);                                                    \
		tw_mrapi_unlock(mutex);                                                            \
		tw_result;                                                                         \
	})

/* The time when a wait that begins now times out. */
static inline uint64_t tw_mrapi_deadline(mrapi_timeout_t timeout)
{
	return timeout == MRAPI_INFINITE ? TW_FUTEX_FOREVER : tw_clock_ns() + 1000000ull * timeout;
}

struct tw_mrapi_wait {
	struct tw_list link;
	_Atomic(uint32_t) *word; /* NULL: it has not slept, and is not listed */
	uint64_t deadline;
	uint32_t me;
	mrapi_timeout_t timeout;
	unsigned spins;
	_Atomic(bool) ended; /* the node was finalized */
};

static inline void tw_mrapi_wait_begin(struct tw_mrapi_wait *w, uint32_t me,
				       mrapi_timeout_t timeout)
{
	w->me = me;
	w->timeout = timeout;
	w->spins = 0;
	w->word = NULL;
	atomic_init(&w->ended, false);
}

/* Spins a few times; false: sleep. */
bool tw_mrapi_spin(struct tw_mrapi_wait *w);
/* Sleeps while the word, a count, has the value. SUCCESS: try again; others end the wait. */
mrapi_status_t tw_mrapi_sleep(struct tw_mrapi_wait *w, _Atomic(uint32_t) *word, uint32_t value);
void tw_mrapi_wait_end(struct tw_mrapi_wait *w);
/* Ends all waits of a node of this process, or of all its nodes (0). */
void tw_mrapi_wait_abort(uint32_t me);
/* As tw_mrapi_wait_abort(), but does not wait for their end. Returns how many are still there. */
unsigned tw_mrapi_wait_notify(uint32_t me);
void tw_mrapi_wait_forked(void);
/* The list of this process's sleepers. */
extern struct tw_list tw_mrapi_waits;

/* ---- init.c */
/* Has the end of the calling thread noticed, in a member; false when memory is short. */
bool tw_mrapi_thread_ends(void);
/* Whether a node of this process is in the set, beside one (0: none). */
bool tw_mrapi_any_here(struct tw_mrapi_nodeset *s, uint32_t beside);
/* Whether a node of that number lives, on this host. Under the admin lock. */
mrapi_status_t tw_mrapi_node_shares(mrapi_node_t number);
/* The one of these numbers, or NULL. Under the admin lock. */
struct tw_mrapi_node *tw_mrapi_node_find(mrapi_domain_t domain, mrapi_node_t number);
/* A free slot as a node that does not live yet, or NULL. Under the admin lock. */
struct tw_mrapi_node *tw_mrapi_node_new(mrapi_domain_t domain, mrapi_node_t number, uint32_t proc);

/* ---- attr.c */
/* The flags of an attribute structure, or the defaults for NULL; false: not initialized. */
bool tw_mrapi_attr_flags(enum tw_mrapi_kind kind, const void *attributes, unsigned *flags);
mrapi_status_t tw_mrapi_attr_init(enum tw_mrapi_kind kind, uint32_t *attributes);
mrapi_status_t tw_mrapi_attr_set(enum tw_mrapi_kind kind, uint32_t *attributes, mrapi_uint_t num,
				 const void *value, size_t size);
/* Attributes that all objects have. ATTR_NUM: not one of these. */
mrapi_status_t tw_mrapi_attr_get(enum tw_mrapi_kind kind, struct tw_mrapi_obj *o, mrapi_uint_t num,
				 void *value, size_t size);
mrapi_status_t tw_mrapi_attr_put(void *value, size_t size, const void *from, size_t from_size);

/* ---- mutex.c; counting.c: semaphores and reader/writer locks */
mrapi_status_t tw_mrapi_mutex_take(mrapi_mutex_hndl_t handle, mrapi_key_t *key,
				   mrapi_timeout_t timeout);
mrapi_status_t tw_mrapi_mutex_give(mrapi_mutex_hndl_t handle, const mrapi_key_t *key);
mrapi_status_t tw_mrapi_counting_take(enum tw_mrapi_kind kind, uint32_t handle,
				      mrapi_rwl_mode_t mode, mrapi_timeout_t timeout);
/* mode 0: the mode that the caller has */
mrapi_status_t tw_mrapi_counting_give(enum tw_mrapi_kind kind, uint32_t handle, unsigned mode);
/* For a proxy: waits until what try() does under the admin lock is not a TIMEOUT. */
mrapi_status_t tw_mrapi_mutex_wait(mrapi_mutex_hndl_t handle, mrapi_timeout_t timeout,
				   mrapi_status_t (*try)(void *), void *arg);
mrapi_status_t tw_mrapi_counting_wait(uint32_t handle, mrapi_rwl_mode_t mode,
				      mrapi_timeout_t timeout, mrapi_status_t (*try)(void *),
				      void *arg);
void tw_mrapi_counting_forked(void);

/* ---- requests.c and others: the end of a node, of a process, and forks */
void tw_mrapi_requests_end(uint32_t me);
/* Ends the threads that move. Without their mutex. */
void tw_mrapi_movers_end(void);
void tw_mrapi_requests_forked(void);
/* A rollover callback that is due; false: none, and the earliest time of the next. */
bool tw_mrapi_counters_due(struct tw_mrapi_owner *owner, void (**rollover)(void),
			   uint64_t *deadline);
/* Trees and counters of a node, or of all (0). */
void tw_mrapi_trees_end(uint32_t me);
void tw_mrapi_counters_end(uint32_t me);
/* Allocates the pages of a new memory; arg: as its begin() got it. */
mrapi_status_t tw_mrapi_shmem_fill(struct tw_mrapi_obj *o, const void *arg);
void tw_mrapi_shmem_prune(void);
void tw_mrapi_shmem_forked(void);
void tw_mrapi_rmem_prune(void);
/*
 * Before a node is released: detaches it, and waits until nobody accesses memory that it owns. Of
 * other processes the members' threads do that.
 */
void tw_mrapi_rmem_end(uint32_t me);
/* The owner of that memory ends. Does not wait. */
void tw_mrapi_rmem_revoked(uint32_t handle);
void tw_mrapi_rmem_forked(void);
void tw_mrapi_serve(uint32_t from, uint32_t slot);
/* Before it joins: reads the settings, which threads that run then may use. */
mrapi_status_t tw_mrapi_net_begin(void);
void tw_mrapi_net_end(void);
mrapi_status_t tw_mrapi_net_start(void);
void tw_mrapi_net_stop(void);
void tw_mrapi_net_forked(void);
void tw_mrapi_export_prune(void);

/* ---- atomic.c */
/* The thread ends, or is another one in a forked child. */
void tw_mrapi_atomic_end(void);

/* ---- tree.c: the opaque words of a resource; HERE: it is on this machine */
enum tw_mrapi_rsrc_word { TW_MRAPI_RSRC_TREE, TW_MRAPI_RSRC_INDEX, TW_MRAPI_RSRC_HERE };

/* ---- events.c */
void tw_mrapi_event(mrapi_event_t event);
extern pthread_mutex_t tw_mrapi_meta_mutex;
/* Starts the callback thread if it does not run; false if it cannot. Under the mutex. */
bool tw_mrapi_events_watch(void);
/* Makes the callback thread compute its deadline anew. */
void tw_mrapi_events_wake(void);
/* The kernel has an event for that socket. */
void tw_mrapi_events_receive(int kernel);
/*
 * end: no callback of the node (0: of any) starts, and its trees and counters are freed. quiet,
 * without locks: waits until none runs.
 */
void tw_mrapi_events_end(uint32_t me);
void tw_mrapi_events_quiet(struct tw_mrapi_owner owner);
void tw_mrapi_events_stop(void);
void tw_mrapi_events_forked(void);

#endif /* TW_MRAPI_H */
