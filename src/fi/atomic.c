/* SPDX-License-Identifier: BSD-2-Clause */
/* Atomics on memory that another endpoint has registered. */
#include <stdlib.h>

#include "fi/fi.h"

_Static_assert(FI_MIN == (int)TW_ATOMIC_MIN && FI_ATOMIC_WRITE == (int)TW_ATOMIC_WRITE &&
		       FI_MSWAP == (int)TW_ATOMIC_MSWAP && FI_INT8 == (int)TW_ATOMIC_INT8 &&
		       FI_DOUBLE == (int)TW_ATOMIC_DOUBLE,
	       "the engine has the same numbers");

enum how { BASE, FETCH, COMPARE };

/* Where results go that do not go to one place. */
struct tw_fi_parts {
	void *context;
	size_t count;
	struct iovec to[TW_FI_IOVS];
	char data[];
};

static int valid(enum how how, enum fi_datatype type, enum fi_op op, size_t *count)
{
	bool compares = op >= FI_CSWAP;

	if ((int)op < 0 || op > FI_MSWAP || (int)type < 0 || type > FI_DOUBLE ||
	    compares != (how == COMPARE) || (how == BASE && op == FI_ATOMIC_READ) ||
	    !tw_atomic_exists((enum tw_atomic_op)op, (enum tw_atomic_type)type))
		return -FI_EOPNOTSUPP;
	*count = TW_ATOMIC_MAX_BYTES / tw_atomic_size((enum tw_atomic_type)type);
	return 0;
}

int tw_fi_query_atomic(struct fid_domain *domain, enum fi_datatype type, enum fi_op op,
		       struct fi_atomic_attr *attr, uint64_t flags)
{
	enum how how = flags == FI_FETCH_ATOMIC	    ? FETCH
		       : flags == FI_COMPARE_ATOMIC ? COMPARE
						    : BASE;
	int rc;

	(void)domain;
	if (flags && how == BASE)
		return -FI_EBADFLAGS;
	rc = valid(how, type, op, &attr->count);
	if (rc == 0)
		attr->size = tw_atomic_size((enum tw_atomic_type)type);
	return rc;
}

/* Whether pieces have so many elements. */
static bool are(const struct fi_ioc *v, size_t pieces, uint32_t count)
{
	size_t sum = 0;

	if (!v || pieces > TW_FI_IOVS)
		return false;
	for (size_t i = 0; i < pieces; i++) {
		if (!v[i].addr || v[i].count > count - sum)
			return false;
		sum += v[i].count;
	}
	return sum == count;
}

/* All elements in one piece: where they are, or else in space. NULL if they are not so many. */
static const void *atomic_join(const struct fi_ioc *v, size_t pieces, uint32_t size, uint32_t count,
			       char *space)
{
	char *to = space;

	if (!are(v, pieces, count))
		return NULL;
	for (size_t i = 0; pieces > 1 && i < pieces; i++) {
		memcpy(to, v[i].addr, v[i].count * size);
		to += v[i].count * size;
	}
	return pieces > 1 ? space : v->addr;
}

/* Memory for results that are to be copied to several places. */
static struct tw_fi_parts *new_parts(const struct fi_ioc *v, size_t pieces, uint32_t size,
				     uint32_t count, void *context)
{
	struct tw_fi_parts *p = calloc(1, sizeof(*p) + (size_t)size * count);

	if (!p)
		return NULL;
	p->context = context;
	p->count = pieces;
	for (size_t i = 0; i < pieces; i++)
		p->to[i] = (struct iovec){v[i].addr, v[i].count * size};
	return p;
}

void *tw_fi_parts_done(void *context, bool good)
{
	struct tw_fi_parts *p = context;
	const char *from = p->data;

	for (size_t i = 0; good && i < p->count; i++) {
		memcpy(p->to[i].iov_base, from, p->to[i].iov_len);
		from += p->to[i].iov_len;
	}
	context = p->context;
	free(p);
	return context;
}

static ssize_t atomic_begin(struct tw_fi_ep *e, struct tw_fi_op *op, struct tw_atomic *a,
			    const struct fi_ioc *results, size_t pieces)
{
	struct tw_fi_parts *parts;
	ssize_t rc;

	if (pieces == 1) {
		a->result = results->addr;
		return tw_fi_op_begin(e, op, a);
	}
	parts = new_parts(results, pieces, tw_atomic_size(a->type), a->count, op->context);
	if (!parts)
		return -FI_EAGAIN;
	a->result = parts->data;
	op->context = parts;
	op->bits |= TW_FI_PARTS;
	rc = tw_fi_op_begin(e, op, a);
	if (rc)
		free(parts);
	return rc;
}

static ssize_t atomic_any(struct fid_ep *fid, enum how how, const struct fi_msg_atomic *m,
			  const struct fi_ioc *compare, size_t ncompare,
			  const struct fi_ioc *results, size_t nresults, uint32_t bits)
{
	char operands[TW_ATOMIC_MAX_BYTES], compares[TW_ATOMIC_MAX_BYTES];
	struct tw_fi_ep *e = tw_fi_of(struct tw_fi_ep, fid);
	struct tw_atomic a = {.op = (enum tw_atomic_op)m->op,
			      .type = (enum tw_atomic_type)m->datatype};
	struct tw_fi_op op = {.kind = TW_ATOMIC,
			      .to = m->addr,
			      .imm = m->data,
			      .context = m->context,
			      .bits = bits | (how == BASE ? 0 : TW_FI_FETCH) |
				      (m->op == FI_ATOMIC_READ ? TW_FI_KEEP : 0)};
	size_t most;
	uint32_t size;
	int rc = valid(how, m->datatype, m->op, &most);

	if (rc)
		return rc;
	if (m->rma_iov_count != 1 || !m->rma_iov || !m->rma_iov->count)
		return -FI_EINVAL;
	if (m->rma_iov->count > most)
		return -FI_EMSGSIZE;
	op.match = m->rma_iov->key;
	op.offset = tw_fi_offset(e, m->rma_iov->addr, op.match);
	a.count = (uint32_t)m->rma_iov->count;
	size = tw_atomic_size(a.type);
	if (m->op != FI_ATOMIC_READ)
		a.operand = atomic_join(m->msg_iov, m->iov_count, size, a.count, operands);
	if (how == COMPARE)
		a.compare = atomic_join(compare, ncompare, size, a.count, compares);
	if ((m->op != FI_ATOMIC_READ && !a.operand) || (how == COMPARE && !a.compare) ||
	    (how != BASE && !are(results, nresults, a.count)))
		return -FI_EINVAL;
	return how == BASE ? tw_fi_op_begin(e, &op, &a)
			   : atomic_begin(e, &op, &a, results, nresults);
}

/* Without flags. */
static ssize_t plain(struct fid_ep *ep, enum how how, const struct fi_ioc *iov, size_t count,
		     const struct fi_ioc *compare, size_t ncompare, const struct fi_ioc *results,
		     size_t nresults, fi_addr_t to, uint64_t at, uint64_t key,
		     enum fi_datatype type, enum fi_op op, void *context, uint32_t bits)
{
	struct fi_rma_ioc where = {at, 0, key};
	struct fi_msg_atomic m = {.msg_iov = iov,
				  .iov_count = count,
				  .addr = to,
				  .rma_iov = &where,
				  .rma_iov_count = 1,
				  .datatype = type,
				  .op = op,
				  .context = context};
	const struct fi_ioc *counted = op == FI_ATOMIC_READ ? results : iov;
	size_t pieces = op == FI_ATOMIC_READ ? nresults : count;

	if (pieces > TW_FI_IOVS)
		return -FI_EINVAL;
	/* As many elements as there are here. */
	for (size_t i = 0; counted && i < pieces; i++)
		where.count += counted[i].count;
	return atomic_any(ep, how, &m, compare, ncompare, results, nresults, bits);
}

static ssize_t with_flags(struct fid_ep *ep, enum how how, const struct fi_msg_atomic *m,
			  const struct fi_ioc *compare, size_t ncompare,
			  const struct fi_ioc *results, size_t nresults, uint64_t flags)
{
	uint32_t bits = 0;
	int rc = tw_fi_op_flags(tw_fi_of(struct tw_fi_ep, ep), flags, &bits);

	return rc ? rc : atomic_any(ep, how, m, compare, ncompare, results, nresults, bits);
}

static ssize_t atomic_writev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
			     fi_addr_t to, uint64_t at, uint64_t key, enum fi_datatype type,
			     enum fi_op op, void *context)
{
	(void)desc;
	return plain(ep, BASE, iov, count, NULL, 0, NULL, 0, to, at, key, type, op, context,
		     tw_fi_notify(ep));
}

static ssize_t atomic_write(struct fid_ep *ep, const void *buf, size_t count, void *desc,
			    fi_addr_t to, uint64_t at, uint64_t key, enum fi_datatype type,
			    enum fi_op op, void *context)
{
	struct fi_ioc iov = {(void *)(uintptr_t)buf, count};

	return atomic_writev(ep, &iov, &desc, 1, to, at, key, type, op, context);
}

static ssize_t atomic_writemsg(struct fid_ep *ep, const struct fi_msg_atomic *m, uint64_t flags)
{
	return with_flags(ep, BASE, m, NULL, 0, NULL, 0, flags);
}

static ssize_t atomic_inject(struct fid_ep *ep, const void *buf, size_t count, fi_addr_t to,
			     uint64_t at, uint64_t key, enum fi_datatype type, enum fi_op op)
{
	struct fi_ioc iov = {(void *)(uintptr_t)buf, count};

	return plain(ep, BASE, &iov, 1, NULL, 0, NULL, 0, to, at, key, type, op, NULL,
		     TW_FI_COPIED);
}

static ssize_t atomic_readwritev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc,
				 size_t count, struct fi_ioc *results, void **result_desc,
				 size_t nresults, fi_addr_t to, uint64_t at, uint64_t key,
				 enum fi_datatype type, enum fi_op op, void *context)
{
	(void)desc, (void)result_desc;
	return plain(ep, FETCH, iov, count, NULL, 0, results, nresults, to, at, key, type, op,
		     context, tw_fi_notify(ep));
}

static ssize_t atomic_readwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc,
				void *result, void *result_desc, fi_addr_t to, uint64_t at,
				uint64_t key, enum fi_datatype type, enum fi_op op, void *context)
{
	struct fi_ioc iov = {(void *)(uintptr_t)buf, count}, results = {result, count};

	return atomic_readwritev(ep, &iov, &desc, 1, &results, &result_desc, 1, to, at, key, type,
				 op, context);
}

static ssize_t atomic_readwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *m,
				   struct fi_ioc *results, void **result_desc, size_t nresults,
				   uint64_t flags)
{
	(void)result_desc;
	return with_flags(ep, FETCH, m, NULL, 0, results, nresults, flags);
}

static ssize_t atomic_compwritev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc,
				 size_t count, const struct fi_ioc *compare, void **compare_desc,
				 size_t ncompare, struct fi_ioc *results, void **result_desc,
				 size_t nresults, fi_addr_t to, uint64_t at, uint64_t key,
				 enum fi_datatype type, enum fi_op op, void *context)
{
	(void)desc, (void)compare_desc, (void)result_desc;
	return plain(ep, COMPARE, iov, count, compare, ncompare, results, nresults, to, at, key,
		     type, op, context, tw_fi_notify(ep));
}

static ssize_t atomic_compwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc,
				const void *compare, void *compare_desc, void *result,
				void *result_desc, fi_addr_t to, uint64_t at, uint64_t key,
				enum fi_datatype type, enum fi_op op, void *context)
{
	struct fi_ioc iov = {(void *)(uintptr_t)buf, count},
		      other = {(void *)(uintptr_t)compare, count}, results = {result, count};

	return atomic_compwritev(ep, &iov, &desc, 1, &other, &compare_desc, 1, &results,
				 &result_desc, 1, to, at, key, type, op, context);
}

static ssize_t atomic_compwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *m,
				   const struct fi_ioc *compare, void **compare_desc,
				   size_t ncompare, struct fi_ioc *results, void **result_desc,
				   size_t nresults, uint64_t flags)
{
	(void)compare_desc, (void)result_desc;
	return with_flags(ep, COMPARE, m, compare, ncompare, results, nresults, flags);
}

static int atomic_writevalid(struct fid_ep *ep, enum fi_datatype type, enum fi_op op, size_t *count)
{
	(void)ep;
	return valid(BASE, type, op, count);
}

static int atomic_readwritevalid(struct fid_ep *ep, enum fi_datatype type, enum fi_op op,
				 size_t *count)
{
	(void)ep;
	return valid(FETCH, type, op, count);
}

static int atomic_compwritevalid(struct fid_ep *ep, enum fi_datatype type, enum fi_op op,
				 size_t *count)
{
	(void)ep;
	return valid(COMPARE, type, op, count);
}

struct fi_ops_atomic tw_fi_atomic_ops = {
	.size = sizeof(struct fi_ops_atomic),
	.write = atomic_write,
	.writev = atomic_writev,
	.writemsg = atomic_writemsg,
	.inject = atomic_inject,
	.readwrite = atomic_readwrite,
	.readwritev = atomic_readwritev,
	.readwritemsg = atomic_readwritemsg,
	.compwrite = atomic_compwrite,
	.compwritev = atomic_compwritev,
	.compwritemsg = atomic_compwritemsg,
	.writevalid = atomic_writevalid,
	.readwritevalid = atomic_readwritevalid,
	.compwritevalid = atomic_compwritevalid,
};
