/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the MRAPI interface share. */
#ifndef TW_MRAPI_H
#define TW_MRAPI_H

#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/futex.h"
#include "base/list.h"
#include "base/log.h"
#include "mrapi/segment.h"

/* This process as a member of its job. */
struct tw_mrapi_member {
	_Atomic(uint32_t) epoch;      /* changes when a node of this process ends */
	_Atomic(uint32_t) first;      /* node slot + 1 of the process's first node, or 0 */
	struct tw_mrapi_segment *seg; /* stays mapped after leaving, until the next join */
	int segfd, arenafd;
	uint32_t proc; /* our slot in seg->proc */
	uint32_t incarnation;
	uint32_t nodes; /* ours; this and the next under the process's mutex */
	uint32_t joins;
};

extern struct tw_mrapi_member tw_mrapi;

/* Which node the thread is, in which epoch. */
struct tw_mrapi_self {
	uint32_t epoch; /* when it was last known to be right */
	uint32_t node;	/* slot + 1 */
	uint32_t born, join;
};

extern _Thread_local struct tw_mrapi_self tw_mrapi_self;

/* The same after a node of the process has ended. */
uint32_t tw_mrapi_me_again(void);

/* The same as last time, or 0: ask tw_mrapi_me(). */
static inline uint32_t tw_mrapi_me_known(void)
{
	return tw_likely(tw_mrapi_self.epoch ==
			 atomic_load_explicit(&tw_mrapi.epoch, memory_order_relaxed))
		       ? tw_mrapi_self.node
		       : 0;
}

/* The caller's node, slot + 1; 0 when neither it nor its process is one. */
static inline uint32_t tw_mrapi_me(void)
{
	uint32_t me = tw_mrapi_me_known();

	return tw_likely(me != 0) ? me : tw_mrapi_me_again();
}

static inline struct tw_mrapi_node *tw_mrapi_node(uint32_t me)
{
	return &tw_mrapi.seg->node[me - 1];
}

/* A node of this process, and no other one that has its slot later. */
struct tw_mrapi_owner {
	uint32_t me, born;
};

static inline struct tw_mrapi_owner tw_mrapi_owner(uint32_t me)
{
	return (struct tw_mrapi_owner){me, tw_mrapi_node(me)->born};
}

/* The calling thread, one of the library's, acts for that node, or for none ({0, 0}). */
void tw_mrapi_act_for(struct tw_mrapi_owner owner);

static inline void tw_mrapi_set_status(mrapi_status_t *status, mrapi_status_t what)
{
	if (status)
		*status = what;
}

/* ---- join.c: becoming a member of the job, and ceasing to be one */
mrapi_status_t tw_mrapi_join(void);
void tw_mrapi_leave(void);
/* Whether the process that had that slot is no more. */
bool tw_mrapi_gone(uint32_t proc);
/* The process id of a member as this process knows it; 0 when it is gone, or unknown here. */
pid_t tw_mrapi_pid_of(uint32_t proc);

/* ---- service.c: the thread that serves other members and sees them die */
enum tw_mrapi_message_type { TW_MRAPI_HELLO = 1, TW_MRAPI_WANT, TW_MRAPI_GIVE, TW_MRAPI_MOVE };

struct tw_mrapi_message {
	uint32_t type;
	uint32_t proc;
	uint32_t incarnation;
	uint32_t slot; /* MOVE: of the asking process's buffers */
};

/* 0 or an error. */
int tw_mrapi_service_start(int listener);
/* The thread ends; then, once the members need not hear of it, the connections. */
void tw_mrapi_service_stop(void);
void tw_mrapi_service_close(void);
void tw_mrapi_service_forked(void);
/* Watches a connection to a member: 0 or an error. */
int tw_mrapi_service_watch(int fd, uint32_t proc, uint32_t incarnation);
/* Sends to a member; false when it is gone. */
bool tw_mrapi_send(uint32_t proc, const struct tw_mrapi_message *m);

/* ---- admin.c: the admin lock, and what the dead leave behind */
void tw_mrapi_admin_lock(void);
void tw_mrapi_admin_unlock(void);
/* A member is dead: undoes what it held. */
void tw_mrapi_reclaim(uint32_t proc, uint32_t incarnation);
/* Gives back all that a node holds; under the admin lock. */
void tw_mrapi_release_node(uint32_t me);

/* ---- table.c: objects by handle and by id; all but find under the admin lock */
mrapi_status_t tw_mrapi_table_claim(enum tw_mrapi_kind kind, uint32_t id,
				    struct tw_mrapi_obj **out);
/* Makes a claimed slot an object. */
uint32_t tw_mrapi_table_publish(enum tw_mrapi_kind kind, struct tw_mrapi_obj *o, unsigned flags);
/* Gives a claimed slot back, or ends an object. */
void tw_mrapi_table_free(enum tw_mrapi_kind kind, struct tw_mrapi_obj *o);
/* Looks an id up for the caller's domain; the status if it is not to be had. */
mrapi_status_t tw_mrapi_table_get(enum tw_mrapi_kind kind, uint32_t id, struct tw_mrapi_obj **out);
void tw_mrapi_table_repair(enum tw_mrapi_kind kind);
void tw_mrapi_table_init(struct tw_mrapi_segment *seg);
/* The object in that slot, live or not. */
struct tw_mrapi_obj *tw_mrapi_slot(enum tw_mrapi_kind kind, uint32_t slot);
/* Why a handle finds nothing: *_DELETED or *_INVALID. */
mrapi_status_t tw_mrapi_stale(enum tw_mrapi_kind kind, uint32_t handle);
bool tw_mrapi_id_taken(enum tw_mrapi_kind kind, uint32_t id);

/* What the interface's functions of all kinds do alike. The limit is not for mutexes. */
mrapi_status_t tw_mrapi_lock_create(enum tw_mrapi_kind kind, uint32_t id, const void *attributes,
				    uint32_t limit, uint32_t *handle);
mrapi_status_t tw_mrapi_obj_get(enum tw_mrapi_kind kind, uint32_t id, uint32_t *handle);
mrapi_status_t tw_mrapi_obj_find(enum tw_mrapi_kind kind, uint32_t handle,
				 struct tw_mrapi_obj **out);
mrapi_status_t tw_mrapi_obj_attr(enum tw_mrapi_kind kind, uint32_t handle, mrapi_uint_t num,
				 void *value, size_t size);
/* end() runs under the admin lock and may refuse. */
mrapi_status_t tw_mrapi_obj_delete(enum tw_mrapi_kind kind, uint32_t handle,
				   mrapi_status_t (*end)(struct tw_mrapi_obj *o, uint32_t me));

static inline bool tw_mrapi_is(struct tw_mrapi_obj *o, uint32_t handle)
{
	return tw_likely(atomic_load_explicit(&o->handle, memory_order_acquire) == handle) &&
	       handle != 0;
}

/* ---- wait.c: sleeping for a lock */
struct tw_mrapi_wait {
	struct tw_list link;
	_Atomic(uint32_t) *word;
	uint64_t deadline;
	uint32_t me;
	mrapi_timeout_t timeout;
	unsigned spins;
	bool listed;
	_Atomic(bool) ended; /* the node was finalized */
};

static inline void tw_mrapi_wait_begin(struct tw_mrapi_wait *w, uint32_t me,
				       mrapi_timeout_t timeout)
{
	w->me = me;
	w->timeout = timeout;
	w->spins = 0;
	w->listed = false;
	atomic_init(&w->ended, false);
}

/* True a few times: look again before sleeping. */
bool tw_mrapi_spin(struct tw_mrapi_wait *w);
/* Sleeps while the word has the value: SUCCESS to look again, or why to give up. */
mrapi_status_t tw_mrapi_sleep(struct tw_mrapi_wait *w, _Atomic(uint32_t) *word, uint32_t value);
void tw_mrapi_wait_end(struct tw_mrapi_wait *w);
/* Ends all waits of a node of this process, or of all of them (0). */
void tw_mrapi_wait_abort(uint32_t me);
void tw_mrapi_wait_forked(void);

/* ---- init.c */
/* Whether a node of this process is in the set. */
bool tw_mrapi_any_here(struct tw_mrapi_nodeset *s);
/* Whether the numbers of a list are of nodes that live; under the admin lock. */
bool tw_mrapi_node_lives(mrapi_node_t number);

/* ---- attr.c */
/* The flags of an attribute structure, the defaults for NULL; false: not initialized. */
bool tw_mrapi_attr_flags(enum tw_mrapi_kind kind, const void *attributes, unsigned *flags);
mrapi_status_t tw_mrapi_attr_init(enum tw_mrapi_kind kind, uint32_t *attributes);
mrapi_status_t tw_mrapi_attr_set(enum tw_mrapi_kind kind, uint32_t *attributes, mrapi_uint_t num,
				 const void *value, size_t size);
/* What every object has. ATTR_NUM: not one of these. */
mrapi_status_t tw_mrapi_attr_get(enum tw_mrapi_kind kind, struct tw_mrapi_obj *o, mrapi_uint_t num,
				 void *value, size_t size);
mrapi_status_t tw_mrapi_attr_put(void *value, size_t size, const void *from, size_t from_size);

/* ---- mutex.c, counting.c */
void tw_mrapi_mutex_drop(struct tw_mrapi_mutex *m, uint32_t node);
void tw_mrapi_counting_drop(struct tw_mrapi_counting *c, uint32_t node);
/* Wakes all sleepers and forgets how many there were. */
void tw_mrapi_mutex_wake_all(struct tw_mrapi_mutex *m);
void tw_mrapi_counting_wake_all(struct tw_mrapi_counting *c);

/* ---- counting.c, for semaphores and reader/writer locks */
/* Claims one of the places, or tells that all are taken. */
bool tw_mrapi_counting_take(struct tw_mrapi_counting *c, uint32_t me);
/* Gives one of the caller's places back; false when it has none. */
bool tw_mrapi_counting_give(struct tw_mrapi_counting *c, uint32_t me);
bool tw_mrapi_counting_held(struct tw_mrapi_counting *c, uint32_t me);
bool tw_mrapi_counting_empty(struct tw_mrapi_counting *c);
/* Something changed: wakes n sleepers, if there are any. */
void tw_mrapi_counting_wake(struct tw_mrapi_counting *c, int n);
/* Spins, then sleeps between attempts; what the last one or the end of the wait says. */
mrapi_status_t tw_mrapi_counting_wait(struct tw_mrapi_counting *c, uint32_t me,
				      mrapi_timeout_t timeout, mrapi_status_t (*attempt)(void *arg),
				      void *arg);
uint32_t tw_mrapi_count_up(_Atomic(uint32_t) *word);
void tw_mrapi_count_down(_Atomic(uint32_t) *word, uint32_t epoch);

/* ---- requests.c and others: what begins and ends with a node or a process */
void tw_mrapi_requests_end(uint32_t me);
void tw_mrapi_movers_end(void);
void tw_mrapi_requests_forked(void);
void tw_mrapi_rsrc_end(uint32_t me);
/* A rollover callback that is due; false: none is, until when none can be at the most. */
bool tw_mrapi_counters_due(struct tw_mrapi_owner *owner, void (**rollover)(void),
			   uint64_t *deadline);
void tw_mrapi_rsrc_forked(void);
void tw_mrapi_shmem_prune(void);
void tw_mrapi_shmem_forked(void);
void tw_mrapi_rmem_prune(void);
/* Writes back what a node has cached, as its detaching would. */
void tw_mrapi_rmem_flush(uint32_t me);
void tw_mrapi_rmem_forked(void);
void tw_mrapi_serve(uint32_t from, uint32_t slot);
mrapi_status_t tw_mrapi_net_start(void);
void tw_mrapi_net_stop(void);
void tw_mrapi_net_forked(void);
void tw_mrapi_remote_release(uint32_t me);
void tw_mrapi_export_prune(void);

/* ---- owned.c: the words that the calling thread has locked */
/* Makes sure that one more can be noted; false when memory is short. */
bool tw_mrapi_owned_room(void);
void tw_mrapi_owned_add(const void *word);
void tw_mrapi_owned_del(const void *word);
bool tw_mrapi_owned(const void *word);
/* The child's thread is another one. */
void tw_mrapi_owned_forked(void);

/* ---- tree.c: what the opaque words of a resource are; the last: of this machine */
enum tw_mrapi_rsrc_word { TW_MRAPI_RSRC_TREE, TW_MRAPI_RSRC_INDEX, TW_MRAPI_RSRC_HERE };

/* ---- events.c */
void tw_mrapi_event(mrapi_event_t event);
/* Makes sure that somebody calls back; false when there cannot be a thread for it. */
bool tw_mrapi_events_watch(void);
/* What tw_mrapi_counters_due() says may have changed. */
void tw_mrapi_events_look(void);
/* The node's callbacks are called no more; then, without locks: none runs any more. */
void tw_mrapi_events_end(uint32_t me);
void tw_mrapi_events_quiet(struct tw_mrapi_owner owner);
void tw_mrapi_events_stop(void);
void tw_mrapi_events_forked(void);

#endif /* TW_MRAPI_H */
