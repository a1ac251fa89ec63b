/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The Multicore Resource API (MRAPI) V0.9.3 with the ABB extension: locks,
 * shared memory, remote memory and a description of the machine.
 *
 * Section numbers are those of the specification of that name. Every function
 * has a page in section 3 of the manual; mrapi(7) is the overview.
 *
 * A node is the thread that called mrapi_initialize(); a thread that did not
 * acts for the first node of its process. Any thread may call any function.
 * The result is stored in *status, unless status is NULL. Timeouts are in
 * milliseconds, sizes and offsets in bytes.
 */
#ifndef MRAPI_H
#define MRAPI_H

#include <sys/types.h>
#include "mca.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The direction of a parameter, for programs that use the specification's words. */
#define MRAPI_IN const
#define MRAPI_OUT

/* The specification's version: three hexadecimal digits of minor number. */
#define MRAPI_VERSION 0x00093U

#define MRAPI_TRUE MCA_TRUE
#define MRAPI_FALSE MCA_FALSE
#define MRAPI_NULL MCA_NULL

/* A timeout that never expires, and one that tries once (3.12.17). */
#define MRAPI_INFINITE MCA_INFINITE
#define MRAPI_TIMEOUT_INFINITE MRAPI_INFINITE
#define MRAPI_TIMEOUT_IMMEDIATE 0U

/* 3.12.14, 3.12.18 Scalars */
typedef mca_int_t mrapi_int_t;
typedef mca_int8_t mrapi_int8_t;
typedef mca_int16_t mrapi_int16_t;
typedef mca_int32_t mrapi_int32_t;
typedef mca_int64_t mrapi_int64_t;
typedef mca_uint_t mrapi_uint_t;
typedef mca_uint8_t mrapi_uint8_t;
typedef mca_uint16_t mrapi_uint16_t;
typedef mca_uint32_t mrapi_uint32_t;
typedef mca_uint64_t mrapi_uint64_t;
typedef mca_size_t mrapi_size_t;
typedef mca_boolean_t mrapi_boolean_t;
typedef mca_uint64_t mrapi_addr_t; /* an address, in memory or on the bus */

/* 3.12.1, 3.12.2 Domains and nodes; a node's number is unique in its domain. */
typedef mca_domain_t mrapi_domain_t;
typedef mca_node_t mrapi_node_t;

/* 3.12.16, 3.12.17 */
typedef mca_status_t mrapi_status_t;
typedef mca_timeout_t mrapi_timeout_t;

/* 3.12.13 Identifiers, chosen by the program or with MRAPI_x_ID_ANY by the library */
typedef mca_uint32_t mrapi_mutex_id_t;
typedef mca_uint32_t mrapi_sem_id_t;
typedef mca_uint32_t mrapi_rwl_id_t;
typedef mca_uint32_t mrapi_shmem_id_t;
typedef mca_uint32_t mrapi_rmem_id_t;

/* 3.12.5, 3.12.7, 3.12.8, 3.12.10, 3.12.11 Handles, the same in all nodes of a host */
typedef mca_uint32_t mrapi_hndl_t;
typedef mrapi_hndl_t mrapi_mutex_hndl_t;
typedef mrapi_hndl_t mrapi_sem_hndl_t;
typedef mrapi_hndl_t mrapi_rwl_hndl_t;
typedef mrapi_hndl_t mrapi_shmem_hndl_t;
typedef mrapi_hndl_t mrapi_rmem_hndl_t;
typedef mrapi_mutex_hndl_t mrapi_mutex_hdl_t;
typedef mrapi_sem_hndl_t mrapi_sem_hdl_t;
typedef mrapi_rwl_hndl_t mrapi_rwl_hdl_t;
typedef mrapi_shmem_hndl_t mrapi_shmem_hdl_t;
typedef mrapi_rmem_hndl_t mrapi_rmem_hdl_t;
typedef mrapi_rmem_hndl_t mrapi_rmem_handle_t;

/* 3.12.6 The key of one locking of a mutex */
typedef mca_uint64_t mrapi_key_t;

/* 3.12.15 A non-blocking operation; valid in the process that started it. */
typedef mca_request_t mrapi_request_t;

/* The result of mrapi_wait_any() when it names no request. */
#define MRAPI_NONE (~0U)

/*
 * Limits. Ids up to MRAPI_MAX_USER_x_ID are the program's, those above it up to
 * MRAPI_MAX_x_ID are given for MRAPI_x_ID_ANY. MRAPI_MAX_x counts what one job
 * may have at a time.
 */
#define MRAPI_MAX_DOMAIN_ID 0xffffU
#define MRAPI_MAX_NODE_ID 0xffffU
#define MRAPI_MAX_DOMAINS (MRAPI_MAX_DOMAIN_ID + 1)
#define MRAPI_MAX_NODES 1024U

#define MRAPI_MAX_USER_MUTEX_ID 0xefffffffU
#define MRAPI_MAX_USER_SEM_ID 0xefffffffU
#define MRAPI_MAX_USER_RWL_ID 0xefffffffU
#define MRAPI_MAX_USER_SHMEM_ID 0xefffffffU
#define MRAPI_MAX_USER_RMEM_ID 0xefffffffU
#define MRAPI_MAX_MUTEX_ID 0xfffffffeU
#define MRAPI_MAX_SEM_ID 0xfffffffeU
#define MRAPI_MAX_RWL_ID 0xfffffffeU
#define MRAPI_MAX_SHMEM_ID 0xfffffffeU
#define MRAPI_MAX_RMEM_ID 0xfffffffeU
#define MRAPI_MUTEX_ID_ANY 0xffffffffU
#define MRAPI_SEM_ID_ANY 0xffffffffU
#define MRAPI_RWL_ID_ANY 0xffffffffU
#define MRAPI_SHMEM_ID_ANY 0xffffffffU
#define MRAPI_RMEM_ID_ANY 0xffffffffU

#define MRAPI_MAX_MUTEXES 16384U
#define MRAPI_MAX_SEMS 4096U
#define MRAPI_MAX_RWLS 4096U
#define MRAPI_MAX_SHMEMS 1024U
#define MRAPI_MAX_RMEMS 4096U

/* The highest shared_lock_limit of a semaphore and reader_lock_limit of a rwl. */
#define MRAPI_MAX_SEM_SHAREDLOCKS 128U
#define MRAPI_MAX_SHARED_LOCKS MRAPI_MAX_SEM_SHAREDLOCKS

/* The longest text of mrapi_display_status(), its terminating zero included. */
#define MRAPI_MAX_STATUS_SIZE 64

/* Values of *status (3.10). Names of one value are one status spelt several ways. */
enum mrapi_status_codes {
	MRAPI_SUCCESS = 0,
	MRAPI_TIMEOUT,	  /* the timeout was reached */
	MRAPI_INCOMPLETE, /* the operation has not completed yet */
	MRAPI_ERR_NOT_SUPPORTED,

	/* 4.2 Nodes */
	MRAPI_ERR_PARAMETER,
	MRAPI_ERR_NODE_INITFAILED,
	MRAPI_ENO_INIT = MRAPI_ERR_NODE_INITFAILED,
	MRAPI_ERR_NODE_INITIALIZED,
	MRAPI_ERR_NODE_INVALID,
	MRAPI_ERR_NODE_NOTINIT,
	MRAPI_ERR_NODE_FINALFAILED,
	MRAPI_ERR_DOMAIN_INVALID,
	MRAPI_ERR_DOMAIN_NOTSHARED,

	/* 3.7 Attributes */
	MRAPI_ERR_ATTR_READONLY,
	MRAPI_ERR_ATTR_NUM,
	MRAPI_ERR_ATTR_SIZE,

	/* 4.3, 4.4 The id is taken; the lock is taken. */
	MRAPI_EXISTS,
	MRAPI_ERR_MUTEX_EXISTS = MRAPI_EXISTS,
	MRAPI_ERR_SEM_EXISTS = MRAPI_EXISTS,
	MRAPI_ERR_RWL_EXISTS = MRAPI_EXISTS,
	MRAPI_ERR_SHM_EXISTS = MRAPI_EXISTS,
	MRAPI_ERR_SHMEM_EXISTS = MRAPI_EXISTS,
	MRAPI_ERR_RMEM_EXISTS = MRAPI_EXISTS,
	MRAPI_ELOCKED,
	MRAPI_ERR_MUTEX_LOCKED = MRAPI_ELOCKED,
	MRAPI_ERR_SEM_LOCKED = MRAPI_ELOCKED,
	MRAPI_ERR_RWL_LOCKED = MRAPI_ELOCKED,

	/* 4.3.1 Mutexes */
	MRAPI_ERR_MUTEX_ID_INVALID,
	MRAPI_ERR_MUTEX_INVALID,
	MRAPI_ERR_MUTEX_DELETED,
	MRAPI_ERR_MUTEX_LIMIT,
	MRAPI_ERR_MUTEX_NOTLOCKED,
	MRAPI_ERR_MUTEX_KEY,
	MRAPI_ERR_MUTEX_LOCKORDER,

	/* 4.3.2 Semaphores */
	MRAPI_ERR_SEM_ID_INVALID,
	MRAPI_ERR_SEM_INVALID,
	MRAPI_ERR_SEM_DELETED,
	MRAPI_ERR_SEM_LIMIT,
	MRAPI_ERR_SEM_LOCKLIMIT,
	MRAPI_ERR_SEM_NOTLOCKED,

	/* 4.3.3 Reader/writer locks */
	MRAPI_ERR_RWL_ID_INVALID,
	MRAPI_ERR_RWL_INVALID,
	MRAPI_ERR_RWL_DELETED,
	MRAPI_ERR_RWL_LIMIT,
	MRAPI_ERR_RWL_NOTLOCKED,

	/* 4.4 Memory */
	MRAPI_ERR_MEM_LIMIT,

	/* 4.4.1 Shared memory */
	MRAPI_ERR_SHM_ID_INVALID,
	MRAPI_ERR_SHMEM_ID_INVALID = MRAPI_ERR_SHM_ID_INVALID,
	MRAPI_ERR_SHM_INVALID,
	MRAPI_ERR_SHMEM_INVALID = MRAPI_ERR_SHM_INVALID,
	MRAPI_ERR_SHM_NODES_INCOMPAT,
	MRAPI_ERR_SHMEM_NODES_INCOMPAT = MRAPI_ERR_SHM_NODES_INCOMPAT,
	MRAPI_ERR_SHM_NODE_NOTSHARED,
	MRAPI_ERR_SHMEM_NODE_NOTSHARED = MRAPI_ERR_SHM_NODE_NOTSHARED,
	MRAPI_ERR_SHM_ATTACHED,
	MRAPI_ERR_SHMEM_ATTACHED = MRAPI_ERR_SHM_ATTACHED,
	MRAPI_ERR_SHM_NOTATTACHED,
	MRAPI_ERR_SHMEM_NOTATTACHED = MRAPI_ERR_SHM_NOTATTACHED,
	MRAPI_ERR_SHM_ATTACH,
	MRAPI_ERR_SHMEM_ATTACH = MRAPI_ERR_SHM_ATTACH,

	/* 4.4.2 Remote memory */
	MRAPI_ERR_RMEM_ID_INVALID,
	MRAPI_ERR_RMEM_INVALID,
	MRAPI_ERR_RMEM_ATYPE_INVALID, /* no access type, or not one for this call */
	MRAPI_ERR_RMEM_ATYPE_NOTVALID = MRAPI_ERR_RMEM_ATYPE_INVALID,
	MRAPI_ERR_RMEM_TYPENOTVALID = MRAPI_ERR_RMEM_ATYPE_INVALID,
	MRAPI_ERR_RMEM_TYPEROTVALID = MRAPI_ERR_RMEM_ATYPE_INVALID,
	MRAPI_ERR_RMEM_ATYPE, /* not the access type that the memory was created with */
	MRAPI_ERR_RMEM_CONFLICT,
	MRAPI_ERR_RMEM_ATTACHED,
	MRAPI_ERR_RMEM_NOTATTACHED,
	MRAPI_ERR_RMEM_ATTACH,
	MRAPI_ERR_RMEM_NOTOWNER,
	MRAPI_ERR_RMEM_BUFF_OVERRUN,
	MRAPI_ERR_RMEM_STRIDE,
	MRAPI_ERR_RMEM_BLOCKED,

	/* 4.5 Requests */
	MRAPI_ERR_REQUEST_LIMIT,
	MRAPI_ERR_REQUEST_INVALID,
	MRAPI_ERR_REQUEST_CANCELED,

	/* 4.6 Metadata */
	MRAPI_ERR_RSRC_INVALID_SUBSYSTEM,
	MRAPI_ERR_RSRC_INVALID,
	MRAPI_ERR_RSRC_NOTDYNAMIC,
	MRAPI_ERR_RSRC_STARTED,
	MRAPI_ERR_RSRC_NOTSTARTED,
	MRAPI_ERR_RSRC_COUNTER_INUSE,
	MRAPI_ERR_RSRC_INVALID_EVENT,
	MRAPI_ERR_RSRC_INVALID_CALLBACK,
	MRAPI_ERR_RSRC_INVALID_TREE,
	MRAPI_ERR_RSRC_NOTOWNER,

	/* 4.8 Atomic operations */
	MRAPI_ERR_ATOM_OP_FAILED
};

/*
 * 3.7 Attributes of nodes, locks and memory. "Read only" ones can be read of an
 * object and never set.
 */
enum mrapi_attribute_numbers {
	MRAPI_MUTEX_RECURSIVE = 0, /* mrapi_boolean_t, MRAPI_FALSE */
	MRAPI_ERROR_EXT,	   /* mrapi_boolean_t, MRAPI_FALSE */
	MRAPI_DOMAIN_SHARED,	   /* mrapi_boolean_t, MRAPI_TRUE */
	MRAPI_SHMEM_RESOURCE,	   /* mrapi_resource_t, MRAPI_SHMEM_ANY */
	MRAPI_SHMEM_ADDRESS,	   /* mrapi_addr_t or mrapi_uint_t, MRAPI_SHMEM_ADDR_ANY */
	MRAPI_SHMEM_SIZE,	   /* mrapi_size_t, read only */
	MRAPI_RMEM_SIZE,	   /* mrapi_size_t, read only */
	MRAPI_RMEM_ACCESS_TYPE,	   /* mrapi_rmem_atype_t of the creation, read only */
	MRAPI_OBJECT_ID,	   /* mrapi_uint_t, the id of any object, read only */
	MRAPI_NODE_DOMAIN,	   /* mrapi_domain_t, read only */
	MRAPI_NODE_PID		   /* mrapi_uint_t, the process of the node, read only */
};

/* Values of the attributes that place shared memory: anywhere, in one piece. */
#define MRAPI_SHMEM_ANY 0
#define MRAPI_SHMEM_ADDR_ANY 0
#define MRAPI_SHMEM_ANY_CONTIGUOUS 0

/* Attributes of an object to be. Opaque: use the functions. */
typedef struct {
	mca_uint32_t opaque[4];
} mrapi_node_attributes_t;
typedef struct {
	mca_uint32_t opaque[4];
} mrapi_mutex_attributes_t;
typedef struct {
	mca_uint32_t opaque[4];
} mrapi_sem_attributes_t;
typedef struct {
	mca_uint32_t opaque[4];
} mrapi_rwl_attributes_t;
typedef struct {
	mca_uint32_t opaque[4];
} mrapi_rmem_attributes_t;
typedef struct {
	mca_uint64_t opaque[32];
} mrapi_shmem_attributes_t;

/* 3.12.3 Parameters of mrapi_initialize() (none so far) and what it returns */
typedef void *mrapi_parameters_t;
typedef mrapi_parameters_t mrapi_param_t;

typedef struct {
	mrapi_uint_t mrapi_version;	     /* MRAPI_VERSION */
	mrapi_uint_t organization_id;	     /* MRAPI_ORGANIZATION_ID */
	mrapi_uint_t implementation_version; /* Tagwire's, in the form of mrapi_version */
	mrapi_uint_t number_of_domains;	     /* MRAPI_MAX_DOMAINS */
	mrapi_uint_t number_of_nodes;	     /* MRAPI_MAX_NODES, at a time */
} mrapi_info_t;

#define MRAPI_ORGANIZATION_ID 0x54574952U

/* 3.12.9 How to hold a reader/writer lock */
typedef enum {
	MRAPI_READER = 1, /* shared */
	MRAPI_WRITER = 2, /* exclusive */
	MRAPI_RWL_READER = MRAPI_READER,
	MRAPI_RWL_WRITER = MRAPI_WRITER
} mrapi_rwl_mode_t;

/* 3.12.12 How remote memory is accessed */
typedef enum {
	MRAPI_RMEM_ATYPE_ANY = 1,     /* creation only: each client chooses */
	MRAPI_RMEM_ATYPE_DEFAULT = 2, /* whatever moves the bytes best */
	MRAPI_ACCESS_TYPE_DMA = 3,
	MRAPI_ACCESS_TYPE_SW_CACHE = 4, /* cached in the client until flush and sync */
	MRAPI_RMEM_DEFAULT = MRAPI_RMEM_ATYPE_DEFAULT,
	MRAPI_RMEM_DUMMY = MRAPI_RMEM_ATYPE_DEFAULT,
	MRAPI_RMEM_DMA = MRAPI_ACCESS_TYPE_DMA,
	MRAPI_RMEM_SWCACHE = MRAPI_ACCESS_TYPE_SW_CACHE
} mrapi_rmem_atype_t;

/*
 * 4.6.1 Which resources to show. The first five are also types of resources.
 * MRAPI_RSRC_ALL filters nothing out.
 */
typedef enum {
	MRAPI_RSRC_MEM = 1,
	MRAPI_RSRC_CACHE,
	MRAPI_RSRC_CPU,
	MRAPI_RSRC_DMA,
	MRAPI_RSRC_CROSSBAR,
	MRAPI_RSRC_SYSTEM, /* a type only: the root of a tree */
	MRAPI_RSRC_GROUP,  /* a type only: a package, a core, or what else holds others */
	MRAPI_RSRC_EXECUTION_CONTEXT, /* a filter only: the CPU that the caller runs on */
	MRAPI_RSRC_ALL = 0,
	MRAPI_RSRC_NONE = MRAPI_RSRC_ALL
} mrapi_rsrc_filter_t;
typedef mrapi_rsrc_filter_t mrapi_rsrc_type_t;

/* 3.12.4 One resource of the machine */
typedef struct mrapi_resource mrapi_resource_t;
struct mrapi_resource {
	char name[64];
	mrapi_rsrc_type_t resource_type;
	TAGWIRE_UNNAMED union {
		mrapi_uint_t child_count;
		mrapi_uint_t number_of_children;
	};
	mrapi_resource_t **children;
	mca_uint64_t opaque[8];
};

/*
 * 4.6.2 Attributes of resources; the numbers of each type are its own. Dynamic
 * ones count from mrapi_dynamic_attribute_start() on, in an mrapi_uint_t that
 * rolls over.
 */
enum mrapi_rsrc_mem_attributes {
	MRAPI_RSRC_MEM_BASEADDR = 0, /* mrapi_addr_t, physical */
	MRAPI_RSRC_MEM_WORDSIZE,     /* mrapi_uint_t, bytes */
	MRAPI_RSRC_MEM_NUMWORDS,     /* mrapi_uint_t */
	MRAPI_RSRC_MEM_ALLOCATIONS   /* dynamic: pages allocated there, by anybody */
};
/* Hits and misses are those of the thread that has started them, and of threads that it makes
 * later. */
enum mrapi_rsrc_cache_attributes {
	MRAPI_RSRC_CACHE_SIZE = 0,	/* mrapi_uint_t, bytes */
	MRAPI_RSRC_CACHE_HITS = 1,	/* dynamic (6.6.1 calls it 1) */
	MRAPI_RSRC_CACHE_MISSES,	/* dynamic */
	MRAPI_RSRC_CACHE_LINE_SIZE,	/* mrapi_uint_t, bytes */
	MRAPI_RSRC_CACHE_ASSOCIATIVITY, /* mrapi_uint_t, ways; ~0 when full, 0 when unknown */
	MRAPI_RSRC_CACHE_LEVEL		/* mrapi_uint_t */
};
enum mrapi_rsrc_cpu_attributes {
	MRAPI_RSRC_CPU_FREQUENCY = 0, /* mrapi_uint_t, MHz; 0 when unknown */
	MRAPI_RSRC_CPU_TYPE,	      /* char *, valid as long as the tree */
	MRAPI_RSRC_CPU_ID,	      /* mrapi_uint_t, the operating system's number */
	MRAPI_RSRC_CPU_CYCLES,	      /* dynamic: cycles of the time stamp counter */
	MRAPI_RSRC_CPU_BUSY	      /* dynamic: milliseconds that the CPU worked */
};

/* 4.6.6 Events of a job and of the machine */
typedef enum {
	MRAPI_EVENT_NODE_JOINED = 1,  /* a node was initialized */
	MRAPI_EVENT_NODE_LEFT,	      /* a node was finalized */
	MRAPI_EVENT_NODE_DIED,	      /* a process or thread ended, its node not finalized */
	MRAPI_EVENT_RESOURCES_CHANGED /* a CPU or memory went on or off line */
} mrapi_event_t;

/* 3.12.19 The first member of what nodes exchange under a barrier */
typedef struct {
	mrapi_boolean_t valid;
	unsigned txn;
	mrapi_uint16_t counter;
	mrapi_uint16_t tindex;
} mrapi_msg_t;

/* 3.12.20 A barrier or exchange, set up by mrapi_barrier_init() or mrapi_exchange_init() */
typedef struct {
	mrapi_msg_t *buffer;
	unsigned *counter;
	size_t size;
	pid_t dest;
	unsigned elems;
	mca_timeout_t timeout;
	mrapi_msg_t *inside;
	mca_uint32_t opaque[4];
} mrapi_atomic_barrier_t;

/* 4.2 Nodes */
void mrapi_initialize(mrapi_domain_t domain_id, mrapi_node_t node_id,
		      const mrapi_parameters_t *mrapi_parameters, mrapi_info_t *mrapi_info,
		      mrapi_status_t *status);
void mrapi_node_init_attributes(mrapi_node_attributes_t *attributes, mrapi_status_t *status);
void mrapi_node_set_attribute(mrapi_node_attributes_t *attributes, mrapi_uint_t attribute_num,
			      const void *attribute, size_t attribute_size, mrapi_status_t *status);
void mrapi_node_get_attribute(mrapi_node_t node, mrapi_uint_t attribute_num, void *attribute,
			      size_t attribute_size, mrapi_status_t *status);
void mrapi_finalize(mrapi_status_t *status);
mrapi_domain_t mrapi_domain_id_get(mrapi_status_t *status);
mrapi_node_t mrapi_node_id_get(mrapi_status_t *status);

/* 4.3.1 Mutexes */
mrapi_mutex_hndl_t mrapi_mutex_create(mrapi_mutex_id_t mutex_id,
				      const mrapi_mutex_attributes_t *attributes,
				      mrapi_status_t *status);
void mrapi_mutex_init_attributes(mrapi_mutex_attributes_t *attributes, mrapi_status_t *status);
void mrapi_mutex_set_attribute(mrapi_mutex_attributes_t *attributes, mrapi_uint_t attribute_num,
			       const void *attribute, size_t attribute_size,
			       mrapi_status_t *status);
void mrapi_mutex_get_attribute(mrapi_mutex_hndl_t mutex, mrapi_uint_t attribute_num,
			       void *attribute, size_t attribute_size, mrapi_status_t *status);
mrapi_mutex_hndl_t mrapi_mutex_get(mrapi_mutex_id_t mutex_id, mrapi_status_t *status);
void mrapi_mutex_delete(mrapi_mutex_hndl_t mutex, mrapi_status_t *status);
void mrapi_mutex_lock(mrapi_mutex_hndl_t mutex, mrapi_key_t *lock_key, mrapi_timeout_t timeout,
		      mrapi_status_t *status);
mrapi_boolean_t mrapi_mutex_trylock(mrapi_mutex_hndl_t mutex, mrapi_key_t *lock_key,
				    mrapi_status_t *status);
void mrapi_mutex_unlock(mrapi_mutex_hndl_t mutex, const mrapi_key_t *lock_key,
			mrapi_status_t *status);

/* 4.3.2 Semaphores */
mrapi_sem_hndl_t mrapi_sem_create(mrapi_sem_id_t sem_id, const mrapi_sem_attributes_t *attributes,
				  mrapi_uint_t shared_lock_limit, mrapi_status_t *status);
void mrapi_sem_init_attributes(mrapi_sem_attributes_t *attributes, mrapi_status_t *status);
void mrapi_sem_set_attribute(mrapi_sem_attributes_t *attributes, mrapi_uint_t attribute_num,
			     const void *attribute, size_t attribute_size, mrapi_status_t *status);
void mrapi_sem_get_attribute(mrapi_sem_hndl_t sem, mrapi_uint_t attribute_num, void *attribute,
			     size_t attribute_size, mrapi_status_t *status);
mrapi_sem_hndl_t mrapi_sem_get(mrapi_sem_id_t sem_id, mrapi_status_t *status);
void mrapi_sem_delete(mrapi_sem_hndl_t sem, mrapi_status_t *status);
void mrapi_sem_lock(mrapi_sem_hndl_t sem, mrapi_timeout_t timeout, mrapi_status_t *status);
mrapi_boolean_t mrapi_sem_trylock(mrapi_sem_hndl_t sem, mrapi_status_t *status);
void mrapi_sem_unlock(mrapi_sem_hndl_t sem, mrapi_status_t *status);

/* 4.3.3 Reader/writer locks */
mrapi_rwl_hndl_t mrapi_rwl_create(mrapi_rwl_id_t rwl_id, const mrapi_rwl_attributes_t *attributes,
				  mrapi_uint_t reader_lock_limit, mrapi_status_t *status);
void mrapi_rwl_init_attributes(mrapi_rwl_attributes_t *attributes, mrapi_status_t *status);
void mrapi_rwl_set_attribute(mrapi_rwl_attributes_t *attributes, mrapi_uint_t attribute_num,
			     const void *attribute, size_t attribute_size, mrapi_status_t *status);
void mrapi_rwl_get_attribute(mrapi_rwl_hndl_t rwl, mrapi_uint_t attribute_num, void *attribute,
			     size_t attribute_size, mrapi_status_t *status);
mrapi_rwl_hndl_t mrapi_rwl_get(mrapi_rwl_id_t rwl_id, mrapi_status_t *status);
void mrapi_rwl_delete(mrapi_rwl_hndl_t rwl, mrapi_status_t *status);
void mrapi_rwl_lock(mrapi_rwl_hndl_t rwl, mrapi_rwl_mode_t mode, mrapi_timeout_t timeout,
		    mrapi_status_t *status);
mrapi_boolean_t mrapi_rwl_trylock(mrapi_rwl_hndl_t rwl, mrapi_rwl_mode_t mode,
				  mrapi_status_t *status);
void mrapi_rwl_unlock(mrapi_rwl_hndl_t rwl, mrapi_status_t *status);
/* mrapi_rwl_unlock(), but only if the caller holds the lock in this mode. */
void mrapi_rwl_unlock_mode(mrapi_rwl_hndl_t rwl, mrapi_rwl_mode_t mode, mrapi_status_t *status);

/* 4.4.1 Shared memory */
mrapi_shmem_hndl_t mrapi_shmem_create(mrapi_shmem_id_t shmem_id, mrapi_uint_t size,
				      const mrapi_node_t *nodes, mrapi_uint_t nodes_size,
				      const mrapi_shmem_attributes_t *attributes,
				      mrapi_status_t *status);
void mrapi_shmem_init_attributes(mrapi_shmem_attributes_t *attributes, mrapi_status_t *status);
void mrapi_shmem_set_attribute(mrapi_shmem_attributes_t *attributes, mrapi_uint_t attribute_num,
			       const void *attribute, size_t attribute_size,
			       mrapi_status_t *status);
void mrapi_shmem_get_attribute(mrapi_shmem_hndl_t shmem, mrapi_uint_t attribute_num,
			       void *attribute, size_t attribute_size, mrapi_status_t *status);
mrapi_shmem_hndl_t mrapi_shmem_get(mrapi_shmem_id_t shmem_id, mrapi_status_t *status);
void *mrapi_shmem_attach(mrapi_shmem_hndl_t shmem, mrapi_status_t *status);
void mrapi_shmem_detach(mrapi_shmem_hndl_t shmem, mrapi_status_t *status);
void mrapi_shmem_delete(mrapi_shmem_hndl_t shmem, mrapi_status_t *status);

/* 4.4.2 Remote memory */
mrapi_rmem_hndl_t mrapi_rmem_create(mrapi_rmem_id_t rmem_id, void *mem,
				    mrapi_rmem_atype_t access_type,
				    const mrapi_rmem_attributes_t *attributes, mrapi_uint_t size,
				    mrapi_status_t *status);
void mrapi_rmem_init_attributes(mrapi_rmem_attributes_t *attributes, mrapi_status_t *status);
void mrapi_rmem_set_attribute(mrapi_rmem_attributes_t *attributes, mrapi_uint_t attribute_num,
			      const void *attribute, size_t attribute_size, mrapi_status_t *status);
void mrapi_rmem_get_attribute(mrapi_rmem_hndl_t rmem, mrapi_uint_t attribute_num, void *attribute,
			      size_t attribute_size, mrapi_status_t *status);
mrapi_rmem_hndl_t mrapi_rmem_get(mrapi_rmem_id_t rmem_id, mrapi_rmem_atype_t access_type,
				 mrapi_status_t *status);
void mrapi_rmem_attach(mrapi_rmem_hndl_t rmem, mrapi_status_t *status);
/* As mrapi_rmem_attach(), but only with this access type. */
void mrapi_rmem_attach_atype(mrapi_rmem_hndl_t rmem, mrapi_rmem_atype_t access_type,
			     mrapi_status_t *status);
void mrapi_rmem_detach(mrapi_rmem_hndl_t rmem, mrapi_status_t *status);
void mrapi_rmem_delete(mrapi_rmem_hndl_t rmem, mrapi_status_t *status);
void mrapi_rmem_read(mrapi_rmem_hndl_t rmem, mrapi_uint32_t rmem_offset, void *local_buf,
		     size_t local_buf_size, mrapi_uint32_t local_offset,
		     mrapi_uint32_t bytes_per_access, mrapi_uint32_t num_strides,
		     mrapi_uint32_t rmem_stride, mrapi_uint32_t local_stride,
		     mrapi_status_t *status);
void mrapi_rmem_read_i(mrapi_rmem_hndl_t rmem, mrapi_uint32_t rmem_offset, void *local_buf,
		       mrapi_uint32_t local_offset, mrapi_uint32_t bytes_per_access,
		       mrapi_uint32_t num_strides, mrapi_uint32_t rmem_stride,
		       mrapi_uint32_t local_stride, mrapi_request_t *mrapi_request,
		       mrapi_status_t *status);
void mrapi_rmem_write(mrapi_rmem_hndl_t rmem, mrapi_uint32_t rmem_offset, const void *local_buf,
		      mrapi_uint32_t local_offset, mrapi_uint32_t bytes_per_access,
		      mrapi_uint32_t num_strides, mrapi_uint32_t rmem_stride,
		      mrapi_uint32_t local_stride, mrapi_status_t *status);
void mrapi_rmem_write_i(mrapi_rmem_hndl_t rmem, mrapi_uint32_t rmem_offset, const void *local_buf,
			mrapi_uint32_t local_offset, mrapi_uint32_t bytes_per_access,
			mrapi_uint32_t num_strides, mrapi_uint32_t rmem_stride,
			mrapi_uint32_t local_stride, mrapi_request_t *mrapi_request,
			mrapi_status_t *status);
void mrapi_rmem_flush(mrapi_rmem_hndl_t rmem, mrapi_status_t *status);
void mrapi_rmem_sync(mrapi_rmem_hndl_t rmem, mrapi_status_t *status);

/* 4.5 Non-blocking operations; size is the number of bytes moved and may be NULL */
mrapi_boolean_t mrapi_test(const mrapi_request_t *request, size_t *size, mrapi_status_t *status);
mrapi_boolean_t mrapi_wait(const mrapi_request_t *request, size_t *size, mrapi_timeout_t timeout,
			   mrapi_status_t *status);
mrapi_uint_t mrapi_wait_any(size_t num_requests, const mrapi_request_t *requests, size_t *size,
			    mrapi_timeout_t timeout, mrapi_status_t *status);
void mrapi_cancel(const mrapi_request_t *request, mrapi_status_t *status);

/* 4.6 Metadata */
mrapi_resource_t *mrapi_resources_get(mrapi_rsrc_filter_t subsystem_filter, mrapi_status_t *status);
void mrapi_resource_get_attribute(const mrapi_resource_t *resource, mrapi_uint_t attribute_num,
				  void *attribute, size_t attribute_size, mrapi_status_t *status);
void mrapi_dynamic_attribute_start(const mrapi_resource_t *resource, mrapi_uint_t attribute_num,
				   void (*rollover_callback)(void), mrapi_status_t *status);
void mrapi_dynamic_attribute_reset(const mrapi_resource_t *resource, mrapi_uint_t attribute_num,
				   mrapi_status_t *status);
void mrapi_dynamic_attribute_stop(const mrapi_resource_t *resource, mrapi_uint_t attribute_num,
				  mrapi_status_t *status);
void mrapi_resource_register_callback(mrapi_event_t event, unsigned int frequency,
				      void (*callback_function)(mrapi_event_t event),
				      mrapi_status_t *status);
void mrapi_resource_tree_free(mrapi_resource_t **root, mrapi_status_t *status);

/* 4.7 Convenience; the level is that of TAGWIRE_LOG */
char *mrapi_display_status(mrapi_status_t mrapi_status, char *status_message, size_t size);
void mrapi_set_debug_level(int level);

/*
 * 4.8 Atomic operations (ABB extension) on integers of 1, 2, 4 or 8 bytes.
 * sync is an mrapi_atomic_barrier_t or NULL.
 */
void mrapi_barrier_init(mrapi_atomic_barrier_t *axb, pid_t dest, mrapi_msg_t *buffer,
			unsigned elems, size_t size, unsigned *counter, mca_timeout_t timeout,
			mrapi_status_t *status);
void mrapi_exchange_init(mrapi_atomic_barrier_t *axb, pid_t dest, mrapi_msg_t *buffer,
			 unsigned elems, size_t size, unsigned *counter, mca_timeout_t timeout,
			 mrapi_status_t *status);
mrapi_boolean_t mrapi_atomic_hold(mrapi_atomic_barrier_t *axb, mrapi_boolean_t hold,
				  mrapi_status_t *status);
void mrapi_atomic_read(void *sync, const void *dest, void *value, size_t size,
		       mrapi_status_t *status);
void mrapi_atomic_read_ptr(void *sync, const uintptr_t *dest, uintptr_t *value,
			   mrapi_status_t *status);
void mrapi_atomic_add(void *sync, void *dest, const void *value, void *previous, size_t size,
		      mrapi_status_t *status);
void mrapi_atomic_inc(void *sync, void *dest, void *result, size_t size, mrapi_status_t *status);
void mrapi_atomic_dec(void *sync, void *dest, void *result, size_t size, mrapi_status_t *status);
void mrapi_atomic_or(void *sync, void *dest, const void *value, void *previous, size_t size,
		     mrapi_status_t *status);
void mrapi_atomic_and(void *sync, void *dest, const void *value, void *previous, size_t size,
		      mrapi_status_t *status);
void mrapi_atomic_xor(void *sync, void *dest, const void *value, void *previous, size_t size,
		      mrapi_status_t *status);
void mrapi_atomic_cas(void *sync, void *dest, const void *exchange, const void *compare,
		      void *previous, size_t size, mrapi_status_t *status);
void mrapi_atomic_xchg(void *sync, void *dest, const void *exchange, void *previous, size_t size,
		       mrapi_status_t *status);
void mrapi_atomic_cas_ptr(void *sync, uintptr_t *dest, uintptr_t exchange, uintptr_t compare,
			  uintptr_t *previous, mrapi_status_t *status);
/* compare is ignored. */
void mrapi_atomic_xchg_ptr(void *sync, uintptr_t *dest, uintptr_t exchange, uintptr_t compare,
			   uintptr_t *previous, mrapi_status_t *status);
void mrapi_atomic_sync(void *sync, mrapi_status_t *status);
void mrapi_atomic_lock(void *sync, void *dest, void *previous, size_t size, mrapi_status_t *status);
void mrapi_atomic_release(void *sync, void *dest, size_t size, mrapi_status_t *status);
void mrapi_atomic_set(void *sync, void *dest, int bit, int *previous, size_t size,
		      mrapi_status_t *status);
void mrapi_atomic_clear(void *sync, void *dest, int bit, int *previous, size_t size,
			mrapi_status_t *status);
void mrapi_atomic_change(void *sync, void *dest, int bit, int *previous, size_t size,
			 mrapi_status_t *status);

/* Another spelling in use. */
#define mrapi_rmem_synch mrapi_rmem_sync

/*
 * Programs also call some functions with an argument more or less than the
 * synopsis has. These macros count the arguments and accept both.
 */
#if defined(__GNUC__) && defined(__cplusplus) && __cplusplus < 201103L
#pragma GCC system_header /* no warning that C++98 lacks variadic macros */
#endif
#define MRAPI_ARG4_(a, b, c, f, ...) f
#define MRAPI_ARG8_(a, b, c, d, e, f, g, h, ...) h
#define MRAPI_ARG7_(a, b, c, d, e, f, g, ...) g
#define MRAPI_ARG11_(a, b, c, d, e, f, g, h, i, j, k, ...) k

#define MRAPI_SHMEM_CREATE7_(id, size, nodes, count, attributes, attributes_size, status)          \
	mrapi_shmem_create(id, size, nodes, count, attributes, status)
#define MRAPI_RMEM_READ9_(rmem, rmem_off, buf, off, bytes, num, rmem_stride, stride, status)       \
	mrapi_rmem_read(rmem, rmem_off, buf, SIZE_MAX, off, bytes, num, rmem_stride, stride, status)
#define MRAPI_XCHG_PTR5_(sync, dest, exchange, previous, status)                                   \
	mrapi_atomic_xchg_ptr(sync, dest, exchange, 0, previous, status)

#define mrapi_shmem_create(...)                                                                    \
	MRAPI_ARG8_(__VA_ARGS__, MRAPI_SHMEM_CREATE7_, mrapi_shmem_create, 0)(__VA_ARGS__)
#define mrapi_rwl_unlock(...)                                                                      \
	MRAPI_ARG4_(__VA_ARGS__, mrapi_rwl_unlock_mode, mrapi_rwl_unlock, 0)(__VA_ARGS__)
#define mrapi_rmem_attach(...)                                                                     \
	MRAPI_ARG4_(__VA_ARGS__, mrapi_rmem_attach_atype, mrapi_rmem_attach, 0)(__VA_ARGS__)
#define mrapi_rmem_read(...)                                                                       \
	MRAPI_ARG11_(__VA_ARGS__, mrapi_rmem_read, MRAPI_RMEM_READ9_, 0)(__VA_ARGS__)
#define mrapi_atomic_xchg_ptr(...)                                                                 \
	MRAPI_ARG7_(__VA_ARGS__, mrapi_atomic_xchg_ptr, MRAPI_XCHG_PTR5_, 0)(__VA_ARGS__)

#ifdef __cplusplus
}
#endif

#endif /* MRAPI_H */
