/* SPDX-License-Identifier: BSD-2-Clause */
/* Collective operations: all are refused. libfabric calls these without looking. */
#include "fi/fi.h"

static ssize_t coll_barrier(struct fid_ep *ep, fi_addr_t coll, void *context)
{
	(void)ep, (void)coll, (void)context;
	return -FI_ENOSYS;
}

static ssize_t coll_broadcast(struct fid_ep *ep, void *buf, size_t count, void *desc,
			      fi_addr_t coll, fi_addr_t root, enum fi_datatype type, uint64_t flags,
			      void *context)
{
	(void)buf, (void)count, (void)desc, (void)root, (void)type, (void)flags;
	return coll_barrier(ep, coll, context);
}

/* All to all, and gather to all. */
static ssize_t coll_alltoall(struct fid_ep *ep, const void *buf, size_t count, void *desc,
			     void *result, void *result_desc, fi_addr_t coll, enum fi_datatype type,
			     uint64_t flags, void *context)
{
	(void)buf, (void)count, (void)desc, (void)result, (void)result_desc, (void)type;
	(void)flags;
	return coll_barrier(ep, coll, context);
}

/* Reduce to all, and reduce and scatter. */
static ssize_t coll_allreduce(struct fid_ep *ep, const void *buf, size_t count, void *desc,
			      void *result, void *result_desc, fi_addr_t coll,
			      enum fi_datatype type, enum fi_op op, uint64_t flags, void *context)
{
	(void)op;
	return coll_alltoall(ep, buf, count, desc, result, result_desc, coll, type, flags, context);
}

static ssize_t coll_reduce(struct fid_ep *ep, const void *buf, size_t count, void *desc,
			   void *result, void *result_desc, fi_addr_t coll, fi_addr_t root,
			   enum fi_datatype type, enum fi_op op, uint64_t flags, void *context)
{
	(void)root, (void)op;
	return coll_alltoall(ep, buf, count, desc, result, result_desc, coll, type, flags, context);
}

/* Gather to one, and scatter from one. */
static ssize_t coll_gather(struct fid_ep *ep, const void *buf, size_t count, void *desc,
			   void *result, void *result_desc, fi_addr_t coll, fi_addr_t root,
			   enum fi_datatype type, uint64_t flags, void *context)
{
	(void)root;
	return coll_alltoall(ep, buf, count, desc, result, result_desc, coll, type, flags, context);
}

static ssize_t coll_msg(struct fid_ep *ep, const struct fi_msg_collective *msg,
			struct fi_ioc *results, void **result_desc, size_t count, uint64_t flags)
{
	(void)ep, (void)msg, (void)results, (void)result_desc, (void)count, (void)flags;
	return -FI_ENOSYS;
}

struct fi_ops_collective tw_fi_coll_ops = {
	.size = sizeof(struct fi_ops_collective),
	.barrier = coll_barrier,
	.broadcast = coll_broadcast,
	.alltoall = coll_alltoall,
	.allreduce = coll_allreduce,
	.allgather = coll_alltoall,
	.reduce_scatter = coll_allreduce,
	.reduce = coll_reduce,
	.scatter = coll_gather,
	.gather = coll_gather,
	.msg = coll_msg,
};
