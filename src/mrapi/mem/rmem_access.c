/* SPDX-License-Identifier: BSD-2-Clause */
/* MRAPI 4.4.2.9 to 4.4.2.14: reading and writing remote memory. */
#include "mrapi/mem/memory.h"

/* End offsets of a strided access, in bytes from its base. */
static uint64_t rmem_access_reach(uint64_t offset, uint32_t stride, const struct tw_mrapi_move *m)
{
	return offset + (m->n ? (uint64_t)(m->n - 1) * stride + m->bytes : 0);
}

struct access {
	mrapi_rmem_hndl_t rmem;
	size_t buf_size;
	uint32_t local_offset;
	struct tw_mrapi_move m; /* local without its offset yet */
};

/* The specification's checks in its order; then resolves the addresses. */
static mrapi_status_t rmem_access_check(uint32_t me, struct access *a, struct tw_mrapi_client **c)
{
	mrapi_status_t status = tw_mrapi_client_find(me, a->rmem, c);
	struct tw_mrapi_move *m = &a->m;

	if (status != MRAPI_SUCCESS)
		return status;
	if (!m->local || a->buf_size == 0 || m->bytes == 0)
		return MRAPI_ERR_PARAMETER;
	if (m->n > 1 && (m->remote_stride < m->bytes || m->local_stride < m->bytes))
		return MRAPI_ERR_RMEM_STRIDE;
	if (rmem_access_reach(m->remote, m->remote_stride, m) > (*c)->r->size)
		return MRAPI_ERR_RMEM_BUFF_OVERRUN;
	if (rmem_access_reach(a->local_offset, m->local_stride, m) > a->buf_size)
		return MRAPI_ERR_PARAMETER;
	m->local += a->local_offset;
	m->handle = tw_mrapi_plain(a->rmem);
	return MRAPI_SUCCESS;
}

static bool cached(mrapi_rmem_hndl_t rmem)
{
	return tw_mrapi_atype_of(rmem) == MRAPI_ACCESS_TYPE_SW_CACHE;
}

mrapi_status_t tw_mrapi_access(struct tw_mrapi_client *c, uint32_t cache_of,
			       const struct tw_mrapi_move *m)
{
	mrapi_status_t status;

	if (!tw_mrapi_client_get(c, m->handle))
		return MRAPI_ERR_RMEM_INVALID;
	status = cache_of ? tw_mrapi_cache_access(c, cache_of, m) : tw_mrapi_move(c, m);
	tw_mrapi_client_put(c);
	return status;
}

/* Without a request, at once. */
static mrapi_status_t rmem_access_begin(struct access a, mrapi_request_t *request, bool later)
{
	uint32_t me = tw_mrapi_me();
	struct tw_mrapi_client *c;
	mrapi_status_t status = rmem_access_check(me, &a, &c);

	if (status != MRAPI_SUCCESS)
		return status;
	if (later && !request)
		return MRAPI_ERR_PARAMETER;
	if (later)
		return tw_mrapi_request_start(c, me, cached(a.rmem), &a.m, request);
	return a.m.n ? tw_mrapi_access(c, cached(a.rmem) ? me : 0, &a.m) : status;
}

/* The access that the arguments of each call below describe. */
#define ACCESS(writes, buf_size)                                                                   \
	((struct access){rmem,                                                                     \
			 buf_size,                                                                 \
			 local_offset,                                                             \
			 {writes, (char *)(uintptr_t)local_buf, rmem_offset, bytes_per_access,     \
			  num_strides, rmem_stride, local_stride, 0}})

void(mrapi_rmem_read)(mrapi_rmem_hndl_t rmem, mrapi_uint32_t rmem_offset, void *local_buf,
		      size_t local_buf_size, mrapi_uint32_t local_offset,
		      mrapi_uint32_t bytes_per_access, mrapi_uint32_t num_strides,
		      mrapi_uint32_t rmem_stride, mrapi_uint32_t local_stride,
		      mrapi_status_t *status)
{
	tw_mrapi_set_status(status, rmem_access_begin(ACCESS(false, local_buf_size), NULL, false));
}

void mrapi_rmem_read_i(mrapi_rmem_hndl_t rmem, mrapi_uint32_t rmem_offset, void *local_buf,
		       mrapi_uint32_t local_offset, mrapi_uint32_t bytes_per_access,
		       mrapi_uint32_t num_strides, mrapi_uint32_t rmem_stride,
		       mrapi_uint32_t local_stride, mrapi_request_t *mrapi_request,
		       mrapi_status_t *status)
{
	tw_mrapi_set_status(status,
			    rmem_access_begin(ACCESS(false, SIZE_MAX), mrapi_request, true));
}

void mrapi_rmem_write(mrapi_rmem_hndl_t rmem, mrapi_uint32_t rmem_offset, const void *local_buf,
		      mrapi_uint32_t local_offset, mrapi_uint32_t bytes_per_access,
		      mrapi_uint32_t num_strides, mrapi_uint32_t rmem_stride,
		      mrapi_uint32_t local_stride, mrapi_status_t *status)
{
	tw_mrapi_set_status(status, rmem_access_begin(ACCESS(true, SIZE_MAX), NULL, false));
}

void mrapi_rmem_write_i(mrapi_rmem_hndl_t rmem, mrapi_uint32_t rmem_offset, const void *local_buf,
			mrapi_uint32_t local_offset, mrapi_uint32_t bytes_per_access,
			mrapi_uint32_t num_strides, mrapi_uint32_t rmem_stride,
			mrapi_uint32_t local_stride, mrapi_request_t *mrapi_request,
			mrapi_status_t *status)
{
	tw_mrapi_set_status(status, rmem_access_begin(ACCESS(true, SIZE_MAX), mrapi_request, true));
}

/* Completes the node's requests first; after that only its cache has data to write back. */
static mrapi_status_t rmem_flush(mrapi_rmem_hndl_t rmem, bool drop)
{
	uint32_t me = tw_mrapi_me();
	struct tw_mrapi_client *c;
	mrapi_status_t status = tw_mrapi_client_find(me, rmem, &c);

	if (status != MRAPI_SUCCESS)
		return status;
	tw_mrapi_requests_complete(c, me);
	if (!tw_mrapi_client_get(c, tw_mrapi_plain(rmem)))
		return MRAPI_ERR_RMEM_INVALID;
	status = tw_mrapi_cache_flush(c, me, drop);
	tw_mrapi_client_put(c);
	return status;
}

void mrapi_rmem_flush(mrapi_rmem_hndl_t rmem, mrapi_status_t *status)
{
	tw_mrapi_set_status(status, rmem_flush(rmem, false));
}

void mrapi_rmem_sync(mrapi_rmem_hndl_t rmem, mrapi_status_t *status)
{
	tw_mrapi_set_status(status, rmem_flush(rmem, true));
}
