/* SPDX-License-Identifier: BSD-2-Clause */
/* Remote memory, for every way in which libfabric's providers name and register it. */
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "providers/net/ofi/ofi.h"

struct fid_mr *tw_ofi_register(struct tw_ofi *o, void *addr, size_t len, uint64_t access)
{
	int mode = o->info->domain_attr->mr_mode, rc;
	uint64_t key = 0;
	struct fid_mr *mr;

	do {
		/* A peer cannot guess one key from others. One of few bits may be in use. */
		if (!(mode & FI_MR_PROV_KEY) && !tw_sys_random(&key, sizeof(key)))
			return NULL;
		if (o->key_max < 64)
			key &= (1ull << o->key_max) - 1;
		rc = fi_mr_reg(o->domain, addr, len, access, 0, key, 0, &mr, NULL);
	} while (rc == -FI_ENOKEY && !(mode & FI_MR_PROV_KEY));
	if (rc != 0)
		return NULL;
	if ((mode & FI_MR_ENDPOINT) &&
	    (fi_mr_bind(mr, &o->ep->fid, 0) != 0 || fi_mr_enable(mr) != 0)) {
		fi_close(&mr->fid);
		return NULL;
	}
	return mr;
}

enum tw_err tw_ofi_mem_reg(void *instance, void *addr, size_t len, unsigned rights,
			   struct tw_driver_mr *out)
{
	TW_NOT_CANCELLED;
	struct tw_ofi *o = instance;
	bool raw = o->info->domain_attr->mr_mode & FI_MR_RAW;
	uint64_t access = (rights & TW_MEM_READ ? FI_REMOTE_READ : 0) |
			  (rights & TW_MEM_WRITE ? FI_REMOTE_WRITE : 0);
	struct fid_mr *mr = tw_ofi_register(o, addr, len, access);
	size_t size = sizeof(out->key);
	uint64_t key;

	if (!mr)
		return TW_ENOMEM;
	memset(out, 0, sizeof(*out));
	out->handle = mr;
	out->base = o->virt_addr ? (uintptr_t)addr : 0;
	key = fi_mr_key(mr);
	if (!raw || key != FI_KEY_NOTAVAIL) {
		memcpy(out->key, &key, sizeof(key));
		out->key_len = sizeof(key);
		return TW_OK;
	}
	/* A raw key is mapped together with its base. */
	size -= sizeof(out->base);
	if (fi_mr_raw_attr(mr, &out->base, out->key + sizeof(out->base), &size, 0) != 0) {
		fi_close(&mr->fid);
		return TW_EPERM;
	}
	memcpy(out->key, &out->base, sizeof(out->base));
	out->key_len = (uint32_t)(sizeof(out->base) + size);
	return TW_OK;
}

void tw_ofi_mem_dereg(void *instance, struct tw_driver_mr *mr)
{
	TW_NOT_CANCELLED;
	(void)instance;
	fi_close(&((struct fid_mr *)mr->handle)->fid);
}

static void rma_drop(struct tw_ofi *o, struct tw_ofi_rma *r)
{
	for (unsigned i = 0; i < r->nlocal; i++)
		fi_close(&r->pieces[i].local->fid);
	if (r->mapped)
		fi_mr_unmap_key(o->domain, r->key);
	tw_list_del(&r->node);
	free(r);
}

/* One operation has ended; the last one reports the result. */
static void ofi_rma_release(struct tw_ofi *o, struct tw_ofi_rma *r)
{
	void *cookie = r->cookie;
	enum tw_err err = r->err;

	if (--r->open)
		return;
	rma_drop(o, r);
	o->host.ended(o->host.owner, cookie, err);
}

void tw_ofi_rma_drop(struct tw_ofi *o)
{
	while (!tw_list_empty(&o->rmas))
		rma_drop(o, tw_list_first(&o->rmas, struct tw_ofi_rma, node));
}

static enum tw_err ofi_rma_err_of(int error)
{
	switch (error) {
	case FI_EACCES:
	case FI_EPERM:
	case FI_EFAULT:
	case FI_EINVAL:
	case FI_ENOKEY:
	case FI_EKEYREJECTED:
		return TW_EPERM;
	default:
		return TW_ELOST;
	}
}

void tw_ofi_rma_done(struct tw_ofi *o, struct tw_ofi_op *op, int error)
{
	struct tw_ofi_rma *r = op->rma;

	if (error)
		r->err = ofi_rma_err_of(error);
	ofi_rma_release(o, r);
}

/* The key as the other side has registered it, in the form of this side. */
static bool map_key(struct tw_ofi *o, struct tw_ofi_rma *r, const void *raw, uint32_t len)
{
	uint8_t bytes[TW_DRIVER_KEY];
	uint64_t base;

	memcpy(&r->key, raw, sizeof(r->key));
	if (!(o->info->domain_attr->mr_mode & FI_MR_RAW) || len <= sizeof(r->key))
		return true;
	memcpy(&base, raw, sizeof(base));
	memcpy(bytes, (const uint8_t *)raw + sizeof(base), len - sizeof(base));
	r->mapped = fi_mr_map_raw(o->domain, base, bytes, len - sizeof(base), &r->key, 0) == 0;
	return r->mapped;
}

/* Registers the program's own memory, if libfabric requires that. */
static bool rma_describe(struct tw_ofi_rma *r, struct tw_ofi *o, const struct iovec *iov, bool put,
			 void **desc)
{
	struct fid_mr *mr;

	if (!o->local_mr)
		return true;
	mr = tw_ofi_register(o, iov->iov_base, iov->iov_len, put ? FI_WRITE : FI_READ);
	if (!mr)
		return false;
	r->pieces[r->nlocal++].local = mr;
	*desc = fi_mr_desc(mr);
	return true;
}

/* One operation of libfabric's; the length of remote is that of the n pieces. */
static enum tw_err ofi_rma_post(struct tw_ofi_path *p, struct tw_ofi_rma *r,
				const struct iovec *iov, unsigned n, struct fi_rma_iov *remote,
				bool put)
{
	struct tw_ofi *o = p->o;
	void *desc[TW_OFI_IOV] = {NULL};
	struct tw_ofi_op *op = &r->pieces[r->nops].op;
	struct fi_msg_rma m = {.msg_iov = iov,
			       .desc = desc,
			       .iov_count = n,
			       .addr = p->peer->addr,
			       .rma_iov = remote,
			       .rma_iov_count = 1};
	ssize_t rc;

	remote->len = 0;
	for (unsigned i = 0; i < n; i++) {
		remote->len += iov[i].iov_len;
		if (!rma_describe(r, o, &iov[i], put, &desc[i]))
			return TW_EPERM;
	}
	op->kind = TW_OFI_RMA;
	op->rma = r;
	m.context = op;
	rc = put ? fi_writemsg(o->ep, &m, FI_COMPLETION | FI_DELIVERY_COMPLETE)
		 : fi_readmsg(o->ep, &m, FI_COMPLETION);
	if (rc == 0) {
		r->nops++;
		r->open++;
		return TW_OK;
	}
	return rc == -FI_EAGAIN || rc == -FI_ENOMEM ? TW_AGAIN : TW_ELOST;
}

enum tw_err tw_ofi_rma(void *path, bool put, const struct iovec *iov, unsigned niov,
		       uint64_t address, const void *key, uint32_t key_len, void *cookie)
{
	TW_NOT_CANCELLED;
	struct tw_ofi_path *p = path;
	struct tw_ofi *o = p->o;
	unsigned limit = (unsigned)tw_min(o->info->tx_attr->iov_limit, (size_t)TW_OFI_IOV), n;
	struct tw_ofi_rma *r = malloc(sizeof(*r) + niov * sizeof(r->pieces[0]));
	struct fi_rma_iov remote = {.addr = address};
	enum tw_err err = TW_OK;

	if (!r)
		return TW_AGAIN;
	*r = (struct tw_ofi_rma){.cookie = cookie, .open = 1, .err = TW_OK};
	if (!map_key(o, r, key, key_len)) {
		free(r);
		return TW_EPERM;
	}
	remote.key = r->key;
	tw_list_add_tail(&o->rmas, &r->node);
	for (unsigned i = 0; i < niov && err == TW_OK; i += n) {
		n = tw_min(niov - i, limit);
		err = ofi_rma_post(p, r, iov + i, n, &remote, put);
		remote.addr += remote.len;
	}
	/* Fails at once if nothing has begun, else when the rest has ended. */
	if (err != TW_OK && r->open == 1) {
		rma_drop(o, r);
		return err;
	}
	if (err != TW_OK)
		r->err = err == TW_AGAIN ? TW_ELOST : err;
	ofi_rma_release(o, r);
	return TW_PENDING;
}
