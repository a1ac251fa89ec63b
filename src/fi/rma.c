/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads and writes of memory that another endpoint has registered. All of them end when the
 * data is there, so they are as complete as any of the flags asks.
 */
#include "fi/fi.h"

static ssize_t access_any(struct fid_ep *fid, enum tw_kind kind, const struct iovec *iov,
			  size_t count, fi_addr_t peer, uint64_t at, uint64_t key, uint64_t imm,
			  void *context, uint32_t bits)
{
	struct tw_fi_ep *e = tw_fi_of(struct tw_fi_ep, fid);
	struct tw_seg segs[TW_FI_IOVS];
	struct tw_fi_op op = {.segs = segs,
			      .kind = kind,
			      .to = peer,
			      .match = key,
			      .offset = tw_fi_offset(e, at, key),
			      .imm = imm,
			      .context = context,
			      .bits = bits};
	int rc = tw_fi_pieces(segs, iov, count, false, &op.nsegs, &op.len);

	return rc ? rc : tw_fi_op_begin(e, &op, NULL);
}

static ssize_t access_msg(struct fid_ep *fid, enum tw_kind kind, const struct fi_msg_rma *m,
			  uint64_t flags)
{
	uint32_t bits = 0;
	int rc = tw_fi_op_flags(tw_fi_of(struct tw_fi_ep, fid), flags, &bits);

	if (rc == 0 && (m->rma_iov_count != 1 || !m->rma_iov))
		rc = -FI_EINVAL;
	if (rc == 0 && kind == TW_READ && (bits & (TW_FI_IMM | TW_FI_COPIED)))
		rc = -FI_EBADFLAGS;
	return rc ? rc
		  : access_any(fid, kind, m->msg_iov, m->iov_count, m->addr, m->rma_iov->addr,
			       m->rma_iov->key, m->data, m->context, bits);
}

static ssize_t rma_readv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t from, uint64_t at, uint64_t key, void *context)
{
	(void)desc;
	return access_any(ep, TW_READ, iov, count, from, at, key, 0, context, tw_fi_notify(ep));
}

static ssize_t rma_read(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from,
			uint64_t at, uint64_t key, void *context)
{
	struct iovec iov = {buf, len};

	return rma_readv(ep, &iov, &desc, 1, from, at, key, context);
}

static ssize_t rma_readmsg(struct fid_ep *ep, const struct fi_msg_rma *m, uint64_t flags)
{
	return access_msg(ep, TW_READ, m, flags);
}

static ssize_t rma_writev(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			  fi_addr_t to, uint64_t at, uint64_t key, void *context)
{
	(void)desc;
	return access_any(ep, TW_WRITE, iov, count, to, at, key, 0, context, tw_fi_notify(ep));
}

static ssize_t rma_write(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to,
			 uint64_t at, uint64_t key, void *context)
{
	struct iovec iov = {(void *)(uintptr_t)buf, len};

	return rma_writev(ep, &iov, &desc, 1, to, at, key, context);
}

static ssize_t rma_writemsg(struct fid_ep *ep, const struct fi_msg_rma *m, uint64_t flags)
{
	return access_msg(ep, TW_WRITE, m, flags);
}

static ssize_t rma_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t to, uint64_t at,
			  uint64_t key)
{
	struct iovec iov = {(void *)(uintptr_t)buf, len};

	return access_any(ep, TW_WRITE, &iov, 1, to, at, key, 0, NULL, TW_FI_COPIED);
}

static ssize_t rma_writedata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			     uint64_t data, fi_addr_t to, uint64_t at, uint64_t key, void *context)
{
	struct iovec iov = {(void *)(uintptr_t)buf, len};

	(void)desc;
	return access_any(ep, TW_WRITE, &iov, 1, to, at, key, data, context,
			  tw_fi_notify(ep) | TW_FI_IMM);
}

static ssize_t rma_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
			      fi_addr_t to, uint64_t at, uint64_t key)
{
	struct iovec iov = {(void *)(uintptr_t)buf, len};

	return access_any(ep, TW_WRITE, &iov, 1, to, at, key, data, NULL, TW_FI_COPIED | TW_FI_IMM);
}

struct fi_ops_rma tw_fi_rma_ops = {
	.size = sizeof(struct fi_ops_rma),
	.read = rma_read,
	.readv = rma_readv,
	.readmsg = rma_readmsg,
	.write = rma_write,
	.writev = rma_writev,
	.writemsg = rma_writemsg,
	.inject = rma_inject,
	.writedata = rma_writedata,
	.injectdata = rma_injectdata,
};
