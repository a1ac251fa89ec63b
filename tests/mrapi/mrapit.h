/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the MRAPI interface tests share: statuses that are checked and noted,
 * nodes in other threads and processes that do as they are told, and the kinds
 * of objects behind one table.
 */
#ifndef MRAPIT_H
#define MRAPIT_H

#include <criterion/criterion.h>
#include <string.h>

#include "lib/twc.h"
#include "mrapi.h"

/* Milliseconds that a call may block that must come back, and a short while. */
#define MR_LONG (10000 * twt_patience())
#define MR_SHORT 40
/* Seconds for a whole test. */
#define MR_TIMEOUT TWT_TIMEOUT
/* A domain for all, and one that is another. */
#define MR_DOMAIN 1
#define MR_ELSEWHERE 2
/* The node of the test itself; those of others count from 1. */
#define MR_NODE 100
/* A number that is no attribute of anything. */
#define MR_NO_ATTR 7777

/*
 * Each thread's calls report here. mr_is() makes a call that must report this
 * status, mr_val() one that must succeed and hands on its result, mr_get() one
 * that must report this status and hands on its result. With MRAPIT_TABLE=FILE
 * in the environment every "function status test" is added to that file.
 */
extern _Thread_local mrapi_status_t mr_st;
/* The function that a call through struct mr_kind came to. */
extern _Thread_local char mr_called[64];
#define mr_is(want, call) (mr_st = -1, (void)(call), mr_is_at(__FILE__, __LINE__, #call, want))
#define mr_ok(call) mr_is(MRAPI_SUCCESS, call)
#define mr_get(want, call)                                                                         \
	({                                                                                         \
		mr_st = -1;                                                                        \
		__auto_type value_ = (call);                                                       \
		mr_is_at(__FILE__, __LINE__, #call, want);                                         \
		value_;                                                                            \
	})
#define mr_val(call) mr_get(MRAPI_SUCCESS, call)
void mr_is_at(const char *file, int line, const char *call, mrapi_status_t want);
/* Adds what a call has just reported, where mr_is() cannot know what comes. */
void mr_note(const char *call);
const char *mr_name(mrapi_status_t status);

/* Becomes a node, and ceases to be one. */
void mr_up(mrapi_node_t node);
void mr_up_in(mrapi_domain_t domain, mrapi_node_t node);
void mr_down(void);

/* Memory that children share, zeroed; lives as long as the test. */
void *mr_shared(size_t size);

/* ---- other nodes */
enum mr_where { MR_THREAD, MR_PROCESS };

/* A test with its other nodes in threads of this process, and in processes. */
#define MR_BOTH(suite, name)                                                                       \
	static void name(enum mr_where where);                                                     \
	Test(suite, name##_thread)                                                                 \
	{                                                                                          \
		name(MR_THREAD);                                                                   \
	}                                                                                          \
	Test(suite, name##_process)                                                                \
	{                                                                                          \
		name(MR_PROCESS);                                                                  \
	}                                                                                          \
	static void name(enum mr_where where)

struct mr_peer {
	enum mr_where where;
	mrapi_domain_t domain;
	mrapi_node_t node;
	struct mr_control *ctl; /* shared with it */
	struct twt_child child;
	struct twc_thread thread;
	int fd;
};

/* Starts it and makes it a node. Start processes before mr_up(). */
void mr_peer(struct mr_peer *p, enum mr_where where, mrapi_node_t node);
void mr_peer_in(struct mr_peer *p, enum mr_where where, mrapi_domain_t domain, mrapi_node_t node);
/* The same, but it does not initialize. */
void mr_peer_raw(struct mr_peer *p, enum mr_where where);
/* Has it run fn(arg); arg points to what mr_shared() gave, or to nothing. */
void mr_go(struct mr_peer *p, void (*fn)(void *arg), void *arg);
/* Waits until it has run. */
void mr_done(struct mr_peer *p);
/* Both. */
void mr_do(struct mr_peer *p, void (*fn)(void *arg), void *arg);
/* Whether it has run, without waiting. */
int mr_idle(struct mr_peer *p);
/* Waits until it sleeps inside of what it runs. */
void mr_asleep(struct mr_peer *p);
/* Finalizes it and ends it. */
void mr_peer_end(struct mr_peer *p);
/* Kills the process. */
void mr_peer_kill(struct mr_peer *p);

/* ---- kinds of objects */
union mr_attributes {
	mrapi_mutex_attributes_t mutex;
	mrapi_sem_attributes_t sem;
	mrapi_rwl_attributes_t rwl;
	mrapi_shmem_attributes_t shmem;
	mrapi_rmem_attributes_t rmem;
	unsigned char bytes[512];
};

/* One kind of object; all calls report to mr_st. */
struct mr_kind {
	const char *name;
	mrapi_uint_t most; /* how many a job may have */
	mrapi_status_t id_invalid, invalid, deleted, limit, locked, notlocked;
	/* Locks are exclusive; memory is small, and new for each. */
	mrapi_hndl_t (*create)(mrapi_uint_t id, const void *attributes);
	void (*init_attributes)(void *attributes);
	void (*set_attribute)(void *attributes, mrapi_uint_t num, const void *value, size_t size);
	void (*get_attribute)(mrapi_hndl_t h, mrapi_uint_t num, void *value, size_t size);
	mrapi_hndl_t (*get)(mrapi_uint_t id);
	void (*remove)(mrapi_hndl_t h);
	void (*lock)(mrapi_hndl_t h, mrapi_timeout_t timeout);
	mrapi_boolean_t (*trylock)(mrapi_hndl_t h);
	void (*unlock)(mrapi_hndl_t h);
};

/* The locks come first. */
enum { MR_MUTEX, MR_SEM, MR_RWL, MR_LOCKS, MR_SHMEM = MR_LOCKS, MR_RMEM, MR_KINDS };
extern const struct mr_kind mr_kind[MR_KINDS];
/* A reader/writer lock held by readers. */
extern const struct mr_kind mr_reader;
/* The key of the calling thread's last locking of a mutex. */
extern _Thread_local mrapi_key_t mr_key;

/* Creates an object with this boolean attribute. */
mrapi_hndl_t mr_create_with(const struct mr_kind *k, mrapi_uint_t id, mrapi_uint_t attribute,
			    mrapi_boolean_t value);

/* Calls made by another node; they return the status. */
mrapi_status_t mr_at_lock(struct mr_peer *p, const struct mr_kind *k, mrapi_hndl_t h,
			  mrapi_timeout_t timeout);
/* SUCCESS: it has it. INCOMPLETE: not now (FALSE with SUCCESS). */
mrapi_status_t mr_at_trylock(struct mr_peer *p, const struct mr_kind *k, mrapi_hndl_t h);
mrapi_status_t mr_at_unlock(struct mr_peer *p, const struct mr_kind *k, mrapi_hndl_t h);
mrapi_status_t mr_at_remove(struct mr_peer *p, const struct mr_kind *k, mrapi_hndl_t h);
mrapi_status_t mr_at_get(struct mr_peer *p, const struct mr_kind *k, mrapi_uint_t id,
			 mrapi_hndl_t *h);
/* Has it wait for the lock; mr_lock_end() waits until it is back. */
void mr_lock_begin(struct mr_peer *p, const struct mr_kind *k, mrapi_hndl_t h,
		   mrapi_timeout_t timeout);
mrapi_status_t mr_lock_end(struct mr_peer *p);
#define mr_eq(got, want) mr_eq_at(__FILE__, __LINE__, #got, got, want)
void mr_eq_at(const char *file, int line, const char *what, mrapi_status_t got,
	      mrapi_status_t want);

/* ---- trees of resources */

/* Becomes a node on a machine that hwloc makes up. */
void mr_machine(const char *synthetic);
mrapi_resource_t *mr_tree(mrapi_rsrc_filter_t filter);
void mr_tree_free(mrapi_resource_t *root);
/* How many of a type there are below, and of all types; both check what they walk. */
unsigned mr_count(const mrapi_resource_t *r, mrapi_rsrc_type_t type);
unsigned mr_total(const mrapi_resource_t *r);
/* The n-th of a type, in the order of the tree. */
const mrapi_resource_t *mr_nth(const mrapi_resource_t *r, mrapi_rsrc_type_t type, unsigned n);
/* An attribute that is an mrapi_uint_t. */
mrapi_uint_t mr_value(const mrapi_resource_t *r, mrapi_uint_t num);

/* The widths of atomic operations, and the bits of one. */
static const size_t mr_widths[] = {1, 2, 4, 8};

static inline uint64_t mr_mask(size_t width)
{
	return width == 8 ? ~0ull : (1ull << 8 * width) - 1;
}

#endif /* MRAPIT_H */
