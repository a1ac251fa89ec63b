/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Paths to another node's memory: direct for memory that is shared or of this process,
 * vm (the kernel copies) for another process's, and served (the owner's thread copies)
 * where the kernel refuses. The path is chosen at the attach, and again when the kernel
 * refuses an access.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/copy.h"
#include "base/page.h"
#include "base/settings.h"
#include "mrapi/memory.h"
#include "shmem/remote.h"

static const struct tw_mrapi_path *const paths[] = {&tw_mrapi_path_direct, &tw_mrapi_path_vm,
						    &tw_mrapi_path_served, &tw_mrapi_path_network};

static bool try_path(struct tw_mrapi_client *c, const struct tw_mrapi_path *path)
{
	if (!path->open(c))
		return false;
	tw_log(TW_LOG_DEBUG, "mrapi: remote memory %x by %s", c->r->obj.handle, path->name);
	atomic_store(&c->path, path);
	return true;
}

/* The first path, from that one on, that reaches the memory. */
static bool open_from(struct tw_mrapi_client *c, unsigned i)
{
	while (i < tw_countof(paths) && !try_path(c, paths[i]))
		i++;
	return i < tw_countof(paths);
}

bool tw_mrapi_path_open(struct tw_mrapi_client *c)
{
	for (unsigned i = 0; i < tw_countof(paths); i++)
		if (!strcmp(paths[i]->name, tw_settings.rmem) && try_path(c, paths[i]))
			return true;
	return open_from(c, 0);
}

/* Merges pieces that are contiguous on both sides. */
static struct tw_mrapi_move joined(const struct tw_mrapi_move *m)
{
	struct tw_mrapi_move j = *m;

	if (m->n > 1 && m->remote_stride == m->bytes && m->local_stride == m->bytes) {
		j.bytes = m->bytes * m->n;
		j.n = 1;
	}
	return j;
}

mrapi_status_t tw_mrapi_move(struct tw_mrapi_client *c, const struct tw_mrapi_move *m)
{
	struct tw_mrapi_move j = joined(m);

	for (;;) {
		const struct tw_mrapi_path *path = atomic_load(&c->path);
		mrapi_status_t status = path->move(c, &j);
		unsigned i = 0;

		if (status != MRAPI_ERR_NOT_SUPPORTED)
			return status;
		while (paths[i] != path)
			i++;
		if (!open_from(c, i + 1))
			return status;
		tw_log(TW_LOG_INFO, "mrapi: remote memory by %s instead of %s",
		       atomic_load(&c->path)->name, path->name);
	}
}

void tw_mrapi_pack(char *packed, char *at, uint32_t bytes, uint32_t stride, uint32_t n, bool pack)
{
	for (uint32_t i = 0; i < n; i++, packed += bytes, at += stride)
		tw_copy(pack ? packed : at, pack ? at : packed, bytes);
}

/* One piece larger than a part. */
static mrapi_status_t
piece_in_parts(struct tw_mrapi_client *c, struct tw_mrapi_move m, uint32_t room,
	       mrapi_status_t (*fn)(struct tw_mrapi_client *c, const struct tw_mrapi_move *part,
				    void *arg),
	       void *arg)
{
	mrapi_status_t status = MRAPI_SUCCESS;
	uint32_t left = m.bytes;

	for (m.n = 1; left > 0 && status == MRAPI_SUCCESS; left -= m.bytes) {
		m.bytes = tw_min(left, room);
		status = fn(c, &m, arg);
		m.local += m.bytes;
		m.remote += m.bytes;
	}
	return status;
}

mrapi_status_t tw_mrapi_in_parts(struct tw_mrapi_client *c, const struct tw_mrapi_move *m,
				 uint32_t room,
				 mrapi_status_t (*fn)(struct tw_mrapi_client *c,
						      const struct tw_mrapi_move *part, void *arg),
				 void *arg)
{
	uint32_t fit = tw_max(room / m->bytes, 1u);
	mrapi_status_t status = MRAPI_SUCCESS;

	for (uint32_t i = 0, n; i < m->n && status == MRAPI_SUCCESS; i += n) {
		struct tw_mrapi_move part = *m;

		n = tw_min(fit, m->n - i);
		part.local += (size_t)i * m->local_stride;
		part.remote += (uint64_t)i * m->remote_stride;
		part.n = n;
		status = m->bytes > room ? piece_in_parts(c, part, room, fn, arg)
					 : fn(c, &part, arg);
	}
	return status;
}

/* ------------------------------------------------------------------- direct */

static bool direct_open(struct tw_mrapi_client *c)
{
	uint64_t offset = c->r->offset, into = offset - tw_page_down(offset);

	if (c->owner)
		return false;
	if (c->proc == tw_mrapi.proc) {
		c->base = (char *)(uintptr_t)c->r->address;
		return true;
	}
	if (offset == TW_MRAPI_NOT_SHARED)
		return false;
	c->span = tw_page_up(into + c->r->size);
	c->map = tw_mrapi_arena_map(offset - into, c->span, 0, false);
	c->base = (char *)c->map + into;
	return c->map != NULL;
}

static mrapi_status_t direct_move(struct tw_mrapi_client *c, const struct tw_mrapi_move *m)
{
	char *local = m->local, *remote = c->base + m->remote;

	for (uint32_t i = 0; i < m->n; i++) {
		if (m->write)
			tw_copy(remote, local, m->bytes);
		else
			tw_copy(local, remote, m->bytes);
		local += m->local_stride;
		remote += m->remote_stride;
	}
	return MRAPI_SUCCESS;
}

const struct tw_mrapi_path tw_mrapi_path_direct = {"direct", true, direct_open, direct_move};

/* ----------------------------------------------------------------------- vm */

#define VM_PIECES 128

static bool vm_open(struct tw_mrapi_client *c)
{
	return !c->owner && c->pid != 0 && tw_mrapi.seg->proc[c->proc].narrow == TW_NARROW;
}

static mrapi_status_t vm_status(enum tw_err err)
{
	switch (err) {
	case TW_OK:
		return MRAPI_SUCCESS;
	case TW_EPERM:
		return MRAPI_ERR_NOT_SUPPORTED;
	case TW_ENOMEM:
		return MRAPI_ERR_MEM_LIMIT;
	default:
		return MRAPI_ERR_RMEM_INVALID;
	}
}

/* One side of n pieces as an iovec; contiguous pieces are one entry. */
static unsigned vm_list(struct iovec *iov, char *at, uint32_t bytes, uint32_t stride, uint32_t n)
{
	if (n == 1 || stride == bytes) {
		iov[0] = (struct iovec){at, (size_t)bytes * n};
		return 1;
	}
	for (uint32_t i = 0; i < n; i++)
		iov[i] = (struct iovec){at + (size_t)i * stride, bytes};
	return n;
}

static mrapi_status_t vm_move(struct tw_mrapi_client *c, const struct tw_mrapi_move *m)
{
	struct iovec here[VM_PIECES], there[VM_PIECES];
	char *from = (char *)(uintptr_t)(c->r->address + m->remote);
	mrapi_status_t status = MRAPI_SUCCESS;

	for (uint32_t i = 0, n; i < m->n && status == MRAPI_SUCCESS; i += n) {
		struct tw_pieces local = {.iov = here}, remote = {.iov = there};

		n = tw_min((uint32_t)VM_PIECES, m->n - i);
		local.n = vm_list(here, m->local + (size_t)i * m->local_stride, m->bytes,
				  m->local_stride, n);
		remote.n = vm_list(there, from + (size_t)i * m->remote_stride, m->bytes,
				   m->remote_stride, n);
		status = vm_status(tw_remote_copy(c->pid, m->write, &local, &remote));
	}
	/* The pid may belong to another process by now. */
	if (status == MRAPI_SUCCESS && !tw_mrapi_is(&c->r->obj, c->handle))
		status = MRAPI_ERR_RMEM_INVALID;
	return status;
}

const struct tw_mrapi_path tw_mrapi_path_vm = {"vm", true, vm_open, vm_move};

/* ------------------------------------------------------------------- served */

/*
 * A request lies in one of the requesting process's buffers in the arena, with space for
 * the data. A message names the buffer to the owner's thread, which replies in place.
 * With several buffers, a request that waits for one owner does not delay another.
 */
struct bounce {
	_Atomic(uint32_t) state; /* futex word */
	mrapi_status_t status;
	uint32_t handle;
	uint32_t write;
	uint64_t remote;
	uint32_t bytes, n, stride;
	uint32_t owner; /* slot of the process that replies */
	uint32_t unused[6];
	char data[];
};
_Static_assert(sizeof(struct bounce) == 64, "wire format");

enum { IDLE, REQUESTED, REPLIED };

#define PART (TW_MRAPI_BOUNCE - sizeof(struct bounce))
#define LIVENESS_NS 100000000ull /* interval at which a waiter checks that the owner lives */
#define CONNECT_US 500

static pthread_mutex_t bounce_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t bounce_free = PTHREAD_COND_INITIALIZER;
static uint32_t bounces_taken; /* one bit per slot */
static uint32_t bounces_paged; /* allocated in this join */
static uint32_t bounces_join;

static uint64_t bounce_at(uint32_t proc, uint32_t slot)
{
	return tw_mrapi.seg->arena_size -
	       ((uint64_t)proc * TW_MRAPI_BOUNCE_SLOTS + slot + 1) * TW_MRAPI_BOUNCE;
}

static struct bounce *bounce_map(uint32_t proc, uint32_t slot)
{
	if (tw_mrapi.seg->arena_size < TW_MRAPI_BOUNCES || slot >= TW_MRAPI_BOUNCE_SLOTS)
		return NULL;
	return tw_mrapi_arena_map(bounce_at(proc, slot), TW_MRAPI_BOUNCE, 0, false);
}

/* Allocates a buffer's pages. Under the mutex. */
static bool bounce_pages(uint32_t slot)
{
	if (bounces_join != tw_mrapi.joins)
		bounces_paged = 0;
	bounces_join = tw_mrapi.joins;
	if (!(bounces_paged >> slot & 1) &&
	    fallocate(tw_mrapi.arenafd, 0, (off_t)bounce_at(tw_mrapi.proc, slot), TW_MRAPI_BOUNCE) <
		    0)
		return false;
	bounces_paged |= 1u << slot;
	return true;
}

static bool served_open(struct tw_mrapi_client *c)
{
	bool paged;

	if (c->owner || c->proc == tw_mrapi.proc || tw_mrapi.seg->arena_size < TW_MRAPI_BOUNCES)
		return false;
	tw_mrapi_lock(&bounce_mutex);
	paged = bounce_pages(0);
	tw_mrapi_unlock(&bounce_mutex);
	return paged;
}

/* Waits for a free slot; TW_MRAPI_BOUNCE_SLOTS: memory is short. */
static uint32_t take_slot(void)
{
	uint32_t slot;

	tw_mrapi_lock(&bounce_mutex);
	while (bounces_taken == (1u << TW_MRAPI_BOUNCE_SLOTS) - 1)
		pthread_cond_wait(&bounce_free, &bounce_mutex);
	slot = (uint32_t)__builtin_ctz(~bounces_taken);
	if (bounce_pages(slot))
		bounces_taken |= 1u << slot;
	else
		slot = TW_MRAPI_BOUNCE_SLOTS;
	tw_mrapi_unlock(&bounce_mutex);
	return slot;
}

static void give_slot(uint32_t slot)
{
	tw_mrapi_lock(&bounce_mutex);
	bounces_taken &= ~(1u << slot);
	tw_mrapi_unlock(&bounce_mutex);
	pthread_cond_signal(&bounce_free);
}

struct taken {
	uint32_t slot;
	struct bounce *b;
};

static mrapi_status_t served_request(struct tw_mrapi_client *c, const struct taken *t)
{
	struct tw_mrapi_message ask = {.type = TW_MRAPI_MOVE,
				       .proc = tw_mrapi.proc,
				       .incarnation = tw_mrapi.incarnation,
				       .slot = t->slot};
	struct bounce *b = t->b;

	b->handle = c->handle;
	b->owner = c->proc;
	/* [bounce] */
	atomic_store(&b->state, REQUESTED);
	/* The owner may not have accepted a new member's connection yet. */
	while (!tw_mrapi_send(c->proc, &ask)) {
		if (!tw_mrapi_is(&c->r->obj, c->handle) || tw_mrapi_gone(c->proc))
			goto abandon;
		usleep(CONNECT_US);
	}
	/* [bounce] */
	while (atomic_load(&b->state) == REQUESTED) {
		tw_futex_wait(&b->state, REQUESTED, tw_futex_now() + LIVENESS_NS);
		if (!tw_mrapi_is(&c->r->obj, c->handle))
			goto abandon;
	}
	return b->status;

abandon:
	atomic_store(&b->state, IDLE);
	return MRAPI_ERR_RMEM_INVALID;
}

static mrapi_status_t served_part(struct tw_mrapi_client *c, const struct tw_mrapi_move *m,
				  void *arg)
{
	struct taken *t = arg;
	struct bounce *b = t->b;
	mrapi_status_t status;

	b->write = m->write;
	b->remote = m->remote;
	b->bytes = m->bytes;
	b->n = m->n;
	b->stride = m->remote_stride;
	if (m->write)
		tw_mrapi_pack(b->data, m->local, m->bytes, m->local_stride, m->n, true);
	status = served_request(c, t);
	if (status == MRAPI_SUCCESS && !m->write)
		tw_mrapi_pack(b->data, m->local, m->bytes, m->local_stride, m->n, false);
	return status;
}

static mrapi_status_t served_move(struct tw_mrapi_client *c, const struct tw_mrapi_move *m)
{
	struct taken t = {.slot = take_slot()};
	mrapi_status_t status = MRAPI_ERR_MEM_LIMIT;

	if (t.slot == TW_MRAPI_BOUNCE_SLOTS)
		return status;
	tw_mrapi_hold();
	t.b = bounce_map(tw_mrapi.proc, t.slot);
	if (t.b) {
		status = tw_mrapi_in_parts(c, m, PART, served_part, &t);
		munmap(t.b, TW_MRAPI_BOUNCE);
	}
	give_slot(t.slot);
	tw_mrapi_unhold();
	return status;
}

const struct tw_mrapi_path tw_mrapi_path_served = {"served", false, served_open, served_move};

void tw_mrapi_served_forked(void)
{
	pthread_mutex_init(&bounce_mutex, NULL);
	pthread_cond_init(&bounce_free, NULL);
	bounces_taken = 0;
}

/* Reads each field once: the requester can change them at any time. */
static mrapi_status_t serve(struct bounce *b)
{
	volatile struct bounce *ask = b;
	uint32_t handle = ask->handle, bytes = ask->bytes, n = ask->n, stride = ask->stride;
	uint64_t remote = ask->remote;
	bool write = ask->write;
	struct tw_mrapi_rmem *r = tw_mrapi_own_rmem(handle);

	if (!r)
		return MRAPI_ERR_RMEM_INVALID;
	if (bytes == 0 || n == 0 || (uint64_t)bytes * n > PART || remote > r->size ||
	    (uint64_t)(n - 1) * stride + bytes > r->size - remote)
		return MRAPI_ERR_RMEM_BUFF_OVERRUN;
	tw_mrapi_pack(b->data, (char *)(uintptr_t)(r->address + remote), bytes, stride, n, !write);
	return MRAPI_SUCCESS;
}

void tw_mrapi_serve(uint32_t from, uint32_t slot)
{
	struct bounce *b = bounce_map(from, slot);

	if (!b)
		return;
	/* A requester that gave up may have reused the buffer for another owner. */
	/* [bounce] */
	if (atomic_load(&b->state) == REQUESTED && b->owner == tw_mrapi.proc) {
		b->status = serve(b);
		/* [bounce] */
		atomic_store(&b->state, REPLIED);
		tw_futex_wake(&b->state, 1);
	}
	munmap(b, TW_MRAPI_BOUNCE);
}
