/* SPDX-License-Identifier: BSD-2-Clause */
/* Collective operations, which there are not: libfabric calls them without looking. */
#include "fi/fi.h"

static ssize_t no_barrier(struct fid_ep *ep, fi_addr_t coll, void *context)
{
	(void)ep, (void)coll, (void)context;
	return -FI_ENOSYS;
}

static ssize_t no_barrier2(struct fid_ep *ep, fi_addr_t coll, uint64_t flags, void *context)
{
	(void)flags;
	return no_barrier(ep, coll, context);
}

static ssize_t no_broadcast(struct fid_ep *ep, void *buf, size_t count, void *desc, fi_addr_t coll,
			    fi_addr_t root, enum fi_datatype type, uint64_t flags, void *context)
{
	(void)buf, (void)count, (void)desc, (void)root, (void)type, (void)flags;
	return no_barrier(ep, coll, context);
}

/* All to all, and gather to all. */
static ssize_t no_alltoall(struct fid_ep *ep, const void *buf, size_t count, void *desc,
			   void *result, void *result_desc, fi_addr_t coll, enum fi_datatype type,
			   uint64_t flags, void *context)
{
	(void)buf, (void)count, (void)desc, (void)result, (void)result_desc, (void)type;
	(void)flags;
	return no_barrier(ep, coll, context);
}

/* Reduce to all, and reduce and scatter. */
static ssize_t no_allreduce(struct fid_ep *ep, const void *buf, size_t count, void *desc,
			    void *result, void *result_desc, fi_addr_t coll, enum fi_datatype type,
			    enum fi_op op, uint64_t flags, void *context)
{
	(void)op;
	return no_alltoall(ep, buf, count, desc, result, result_desc, coll, type, flags, context);
}

static ssize_t no_reduce(struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
			 void *result_desc, fi_addr_t coll, fi_addr_t root, enum fi_datatype type,
			 enum fi_op op, uint64_t flags, void *context)
{
	(void)root, (void)op;
	return no_alltoall(ep, buf, count, desc, result, result_desc, coll, type, flags, context);
}

/* Gather to one, and scatter from one. */
static ssize_t no_gather(struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
			 void *result_desc, fi_addr_t coll, fi_addr_t root, enum fi_datatype type,
			 uint64_t flags, void *context)
{
	(void)root;
	return no_alltoall(ep, buf, count, desc, result, result_desc, coll, type, flags, context);
}

static ssize_t no_coll_msg(struct fid_ep *ep, const struct fi_msg_collective *msg,
			   struct fi_ioc *results, void **result_desc, size_t count, uint64_t flags)
{
	(void)ep, (void)msg, (void)results, (void)result_desc, (void)count, (void)flags;
	return -FI_ENOSYS;
}

struct fi_ops_collective tw_fi_coll_ops = {
	.size = sizeof(struct fi_ops_collective),
	.barrier = no_barrier,
	.broadcast = no_broadcast,
	.alltoall = no_alltoall,
	.allreduce = no_allreduce,
	.allgather = no_alltoall,
	.reduce_scatter = no_allreduce,
	.reduce = no_reduce,
	.scatter = no_gather,
	.gather = no_gather,
	.msg = no_coll_msg,
	.barrier2 = no_barrier2,
};
