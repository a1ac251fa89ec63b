/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Paths to another node's memory: direct for memory that is shared or of this process,
 * vm (the kernel copies) for another process's, and served (the owner's thread copies)
 * where the kernel refuses. The path is chosen at the attach, and again when the kernel
 * refuses an access.
 */
#include <sys/mman.h>

#include "base/copy.h"
#include "base/guard.h"
#include "base/page.h"
#include "base/settings.h"
#include "base/sys.h"
#include "base/thread.h"
#include "mrapi/mem/memory.h"
#include "shmem/remote.h"

#define WHO_MASK 0xffffffu /* a bounce has it beside its state */

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

bool tw_mrapi_next_part(const struct tw_mrapi_move *m, struct tw_mrapi_place *at, uint32_t bytes,
			uint32_t pieces, struct tw_mrapi_move *part)
{
	if (at->piece == m->n)
		return false;
	*part = *m;
	part->local += (size_t)at->piece * m->local_stride + at->into;
	part->remote += (uint64_t)at->piece * m->remote_stride + at->into;
	if (m->bytes <= bytes) {
		part->n = tw_min(m->n - at->piece, tw_min(pieces, bytes / m->bytes));
		at->piece += part->n;
		return true;
	}
	part->n = 1;
	part->bytes = tw_min(bytes, m->bytes - at->into);
	at->into = (at->into + part->bytes) % m->bytes;
	at->piece += at->into == 0;
	return true;
}

/* Copies n pieces that lie so far apart. */
static void copy_pieces(char *to, uint32_t to_stride, const char *from, uint32_t from_stride,
			uint32_t bytes, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++, to += to_stride, from += from_stride)
		tw_copy(to, from, bytes);
}

/* A process: not a later one that has its slot. */
static uint32_t move_who(uint32_t proc)
{
	uint32_t incarnation = (uint32_t)(atomic_load(&tw_mrapi.seg->proc[proc].life) >> 8);

	return (incarnation * TW_MRAPI_PROCS + proc) & WHO_MASK;
}

static bool move_gone(uint32_t who)
{
	uint32_t proc = who % TW_MRAPI_PROCS;

	return move_who(proc) != who || tw_mrapi_gone(proc);
}

void tw_mrapi_path_to(struct tw_mrapi_client *c, uint32_t proc)
{
	c->proc = proc;
	c->who = move_who(proc);
	c->pid = tw_mrapi_pid_of(proc);
	atomic_store_explicit(&c->alive_at, 0, memory_order_relaxed);
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
	char *remote = c->base + m->remote;

	if (m->write)
		copy_pieces(remote, m->remote_stride, m->local, m->local_stride, m->bytes, m->n);
	else
		copy_pieces(m->local, m->local_stride, remote, m->remote_stride, m->bytes, m->n);
	return MRAPI_SUCCESS;
}

const struct tw_mrapi_path tw_mrapi_path_direct = {"direct", true, direct_open, direct_move};

/* ----------------------------------------------------------------------- vm */

#define VM_PIECES 128

static bool vm_open(struct tw_mrapi_client *c)
{
	return !c->owner && c->proc != tw_mrapi.proc && c->pid != 0 &&
	       tw_mrapi.seg->proc[c->proc].narrow == TW_NARROW;
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
static struct tw_pieces vm_list(struct iovec *iov, char *at, uint32_t stride,
				const struct tw_mrapi_move *m)
{
	bool one = m->n == 1 || stride == m->bytes;

	iov[0] = (struct iovec){at, (size_t)m->bytes * m->n};
	for (uint32_t i = 0; i < m->n && !one; i++)
		iov[i] = (struct iovec){at + (size_t)i * stride, m->bytes};
	return (struct tw_pieces){iov, one ? 1 : m->n};
}

/* The remote side begins at that address of that process. */
static enum tw_err vm_copy(pid_t pid, uint64_t address, const struct tw_mrapi_move *m)
{
	struct iovec here[VM_PIECES], there[VM_PIECES];
	struct tw_mrapi_place at = {0};
	struct tw_mrapi_move part;
	enum tw_err err = TW_OK;

	while (err == TW_OK && tw_mrapi_next_part(m, &at, UINT32_MAX, VM_PIECES, &part)) {
		char *from = (char *)(uintptr_t)(address + part.remote);
		struct tw_pieces local = vm_list(here, part.local, m->local_stride, &part);
		struct tw_pieces remote = vm_list(there, from, m->remote_stride, &part);

		err = tw_remote_copy(pid, m->write, &local, &remote);
		/* The owner may be able to do what the kernel does not. */
		if (err == TW_EFAULT && tw_remote_here(&local, m->write))
			err = TW_EPERM;
	}
	return err;
}

/* Whether the pid is still the owner's. */
static bool vm_alive(struct tw_mrapi_client *c)
{
	uint64_t now = tw_clock();

	if (now - atomic_load_explicit(&c->alive_at, memory_order_relaxed) <
	    tw_clock_us(TW_REMOTE_ALIVE_US))
		return true;
	if (move_gone(c->who))
		return false;
	atomic_store_explicit(&c->alive_at, now, memory_order_relaxed);
	return true;
}

static mrapi_status_t vm_move(struct tw_mrapi_client *c, const struct tw_mrapi_move *m)
{
	mrapi_status_t status;

	/* A write must look before: what it changes may be another process's. */
	if (m->write && !vm_alive(c))
		return MRAPI_ERR_RMEM_INVALID;
	status = vm_status(vm_copy(c->pid, c->r->address, m));
	if (status == MRAPI_SUCCESS &&
	    (!tw_mrapi_is(&c->r->obj, c->handle) || (!m->write && !vm_alive(c))))
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
	uint32_t unused[7];
	char data[];
};
_Static_assert(sizeof(struct bounce) == 64, "wire format");

/*
 * The two in the middle have in the upper bits who the owner is. While it is SERVED the owner
 * copies, and nobody else uses the buffer.
 */
enum { IDLE, REQUESTED, SERVED, REPLIED };

static uint32_t of_owner(uint32_t state, uint32_t who)
{
	return who << 8 | state;
}

#define PART (TW_MRAPI_BOUNCE - sizeof(struct bounce))
#define LIVENESS_NS 100000000ull /* interval at which a waiter checks that the owner lives */
#define CONNECT_US 500
#define BUSY_US 50

static struct {
	pthread_mutex_t mutex;
	uint32_t paged; /* the join in which its pages were allocated */
} bounces[] = {[0 ... TW_MRAPI_BOUNCE_SLOTS - 1] = {.mutex = PTHREAD_MUTEX_INITIALIZER}};

static pthread_mutex_t serving = PTHREAD_MUTEX_INITIALIZER; /* memory of this process */

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

static bool served_open(struct tw_mrapi_client *c)
{
	return !c->owner && c->proc != tw_mrapi.proc &&
	       tw_mrapi.seg->arena_size >= TW_MRAPI_BOUNCES;
}

/* Locks any buffer that is free, and polls while none is: a slow owner may have each of them. */
static uint32_t move_take_slot(void)
{
	for (uint32_t slot = 0;; slot = (slot + 1) % TW_MRAPI_BOUNCE_SLOTS) {
		if (pthread_mutex_trylock(&bounces[slot].mutex) == 0)
			return slot;
		if (slot == TW_MRAPI_BOUNCE_SLOTS - 1)
			tw_sys_sleep_us(BUSY_US);
	}
}

/*
 * Of a process that has died and had this one's slot: an owner may not have read its request yet,
 * or serve it just now. False: it does.
 */
static bool take_over(struct bounce *b)
{
	uint32_t state = atomic_load(&b->state);

	if ((state & 0xff) == SERVED && !move_gone(state >> 8))
		return false;
	/* [bounce] */
	return atomic_compare_exchange_strong(&b->state, &state, IDLE);
}

/* The buffer with its pages; NULL: memory is short. */
static struct bounce *bounce_begin(uint32_t slot)
{
	uint64_t at = bounce_at(tw_mrapi.proc, slot);
	struct bounce *b;

	if (bounces[slot].paged != tw_mrapi.joins &&
	    tw_sys_fallocate(tw_mrapi.arenafd, 0, (off_t)at, TW_MRAPI_BOUNCE) < 0)
		return NULL;
	bounces[slot].paged = tw_mrapi.joins;
	b = bounce_map(tw_mrapi.proc, slot);
	while (b && !take_over(b))
		tw_sys_sleep_us(BUSY_US);
	return b;
}

/* Takes a request back; false: the owner replies in a moment, or has. */
static bool take_back(const struct tw_mrapi_client *c, struct bounce *b)
{
	uint32_t was = of_owner(REQUESTED, c->who);

	/* [bounce] */
	return atomic_compare_exchange_strong(&b->state, &was, IDLE) ||
	       (was != REPLIED && move_gone(c->who));
}

static mrapi_status_t served_request(struct tw_mrapi_client *c, uint32_t slot, struct bounce *b)
{
	struct tw_mrapi_message ask = {.type = TW_MRAPI_MOVE,
				       .proc = tw_mrapi.proc,
				       .incarnation = tw_mrapi.incarnation,
				       .slot = slot};
	uint32_t state;

	b->handle = c->handle;
	/* [bounce] */
	atomic_store(&b->state, of_owner(REQUESTED, c->who));
	/* The owner may not have accepted a new member's connection yet. */
	while (!tw_mrapi_send(c->proc, &ask)) {
		if ((!tw_mrapi_client_valid(c) || move_gone(c->who)) && take_back(c, b))
			return MRAPI_ERR_RMEM_INVALID;
		tw_sys_sleep_us(CONNECT_US);
	}
	/* [bounce] */
	while ((state = atomic_load(&b->state)) != REPLIED) {
		tw_futex_wait(&b->state, state, tw_clock_ns() + LIVENESS_NS);
		if (!tw_mrapi_client_valid(c) && take_back(c, b))
			return MRAPI_ERR_RMEM_INVALID;
	}
	return b->status;
}

static mrapi_status_t served_part(struct tw_mrapi_client *c, const struct tw_mrapi_move *m,
				  uint32_t slot, struct bounce *b)
{
	mrapi_status_t status;

	b->write = m->write;
	b->remote = m->remote;
	b->bytes = m->bytes;
	b->n = m->n;
	b->stride = m->remote_stride;
	if (m->write)
		copy_pieces(b->data, m->bytes, m->local, m->local_stride, m->bytes, m->n);
	status = served_request(c, slot, b);
	if (status == MRAPI_SUCCESS && !m->write)
		copy_pieces(m->local, m->local_stride, b->data, m->bytes, m->bytes, m->n);
	return status;
}

static mrapi_status_t served_move(struct tw_mrapi_client *c, const struct tw_mrapi_move *m)
{
	mrapi_status_t status = MRAPI_SUCCESS;
	struct tw_mrapi_place at = {0};
	struct tw_mrapi_move part;
	struct bounce *b;
	uint32_t slot;
	TW_NOT_CANCELLED;

	slot = move_take_slot();
	b = bounce_begin(slot);
	while (b && status == MRAPI_SUCCESS && tw_mrapi_next_part(m, &at, PART, UINT32_MAX, &part))
		status = served_part(c, &part, slot, b);
	if (b)
		munmap(b, TW_MRAPI_BOUNCE);
	pthread_mutex_unlock(&bounces[slot].mutex);
	return b ? status : MRAPI_ERR_MEM_LIMIT;
}

const struct tw_mrapi_path tw_mrapi_path_served = {"served", false, served_open, served_move};

void tw_mrapi_served_forked(void)
{
	pthread_mutex_init(&serving, NULL);
	for (uint32_t slot = 0; slot < TW_MRAPI_BOUNCE_SLOTS; slot++)
		pthread_mutex_init(&bounces[slot].mutex, NULL);
}

/* The kernel copies: the program's memory may be read-only or gone by now. */
static enum tw_err serve_copy(const struct tw_mrapi_move *mine)
{
	enum tw_err err = vm_copy(tw_sys_pid(), 0, mine);
	struct tw_mrapi_place at = {0};
	struct tw_mrapi_move part;

	if (err != TW_EPERM)
		return err;
	for (err = TW_OK; err == TW_OK && tw_mrapi_next_part(mine, &at, UINT32_MAX, 1, &part);) {
		char *data = (char *)(uintptr_t)part.remote;

		err = mine->write ? tw_guard_copy(true, data, part.local, part.bytes)
				  : tw_guard_copy(false, part.local, data, part.bytes);
	}
	return err;
}

/* Reads each field once: the requester can change them at any time. */
static mrapi_status_t move_serve(struct bounce *b)
{
	volatile struct bounce *ask = b;
	uint32_t handle = ask->handle, bytes = ask->bytes, n = ask->n, stride = ask->stride;
	uint64_t remote = ask->remote;
	bool write = ask->write;
	struct tw_mrapi_rmem *r = tw_mrapi_own_rmem(handle);
	struct tw_mrapi_move mine;

	if (!r)
		return MRAPI_ERR_RMEM_INVALID;
	if (bytes == 0 || n == 0 || (uint64_t)bytes * n > PART || remote > r->size ||
	    (uint64_t)(n - 1) * stride + bytes > r->size - remote)
		return MRAPI_ERR_RMEM_BUFF_OVERRUN;
	mine = (struct tw_mrapi_move){.write = !write,
				      .local = (char *)(uintptr_t)(r->address + remote),
				      .remote = (uintptr_t)b->data,
				      .bytes = bytes,
				      .n = n,
				      .remote_stride = bytes,
				      .local_stride = stride};
	return vm_status(serve_copy(&mine));
}

void tw_mrapi_serve(uint32_t from, uint32_t slot)
{
	struct bounce *b = bounce_map(from, slot);
	uint32_t me = move_who(tw_mrapi.proc), asked = of_owner(REQUESTED, me);

	if (!b)
		return;
	tw_mrapi_lock(&serving);
	/* A requester that gave up may have reused the buffer for another owner. */
	/* [bounce] */
	if (atomic_compare_exchange_strong(&b->state, &asked, of_owner(SERVED, me))) {
		b->status = move_serve(b);
		/* [bounce] */
		atomic_store(&b->state, REPLIED);
		tw_futex_wake(&b->state, 1);
	}
	tw_mrapi_unlock(&serving);
	munmap(b, TW_MRAPI_BOUNCE);
}

void tw_mrapi_served_quiet(void)
{
	tw_mrapi_lock(&serving);
	tw_mrapi_unlock(&serving);
}
