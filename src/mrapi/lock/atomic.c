/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MRAPI 4.8.4 to 4.8.21, the ABB extension: atomic operations on 1, 2, 4 and 8 bytes,
 * each within the barrier or the exchange that the caller names (barrier.c).
 */
#include <stdlib.h>

#include "base/sys.h"
#include "mrapi/lock/barrier.h"
#include "mrapi/mrapi_internal.h"

enum op { READ, ADD, OR, AND, XOR, XCHG, CAS, LOCK, RELEASE };

/* One operation on a word of that type. Stores the previous value; false: refused. */
#define OPERATE(type)                                                                              \
	static bool operate_##type(enum op op, type *d, uint64_t value, uint64_t compare,          \
				   uint64_t *before)                                               \
	{                                                                                          \
		type v = (type)value, was = (type)compare;                                         \
		bool done = true;                                                                  \
                                                                                                   \
		if (op == READ)                                                                    \
			was = __atomic_load_n(d, __ATOMIC_SEQ_CST);                                \
		else if (op == ADD)                                                                \
			was = __atomic_fetch_add(d, v, __ATOMIC_SEQ_CST);                          \
		else if (op == OR)                                                                 \
			was = __atomic_fetch_or(d, v, __ATOMIC_SEQ_CST);                           \
		else if (op == AND)                                                                \
			was = __atomic_fetch_and(d, v, __ATOMIC_SEQ_CST);                          \
		else if (op == XOR)                                                                \
			was = __atomic_fetch_xor(d, v, __ATOMIC_SEQ_CST);                          \
		else if (op == XCHG)                                                               \
			was = __atomic_exchange_n(d, v, __ATOMIC_SEQ_CST);                         \
		else                                                                               \
			done = __atomic_compare_exchange_n(d, &was, v, false, __ATOMIC_SEQ_CST,    \
							   __ATOMIC_SEQ_CST);                      \
		*before = was;                                                                     \
		return done;                                                                       \
	}

OPERATE(uint8_t)
OPERATE(uint16_t)
OPERATE(uint32_t)
OPERATE(uint64_t)

static bool operate(enum op op, void *dest, uint64_t value, uint64_t compare, uint64_t *before,
		    size_t size)
{
	switch (size) {
	case sizeof(uint8_t):
		return operate_uint8_t(op, dest, value, compare, before);
	case sizeof(uint16_t):
		return operate_uint16_t(op, dest, value, compare, before);
	case sizeof(uint32_t):
		return operate_uint32_t(op, dest, value, compare, before);
	default:
		return operate_uint64_t(op, dest, value, compare, before);
	}
}

/* The bytes of a word of that size with this value. */
static void *atomic_bytes_of(uint64_t *value, size_t size)
{
	bool last = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ && size < sizeof(*value);

	return (char *)value + (last ? sizeof(*value) - size : 0);
}

/* Some processors trap on unaligned words; none accesses them atomically. */
static bool aligned(const void *dest, size_t size)
{
	return size && !(size & (size - 1)) && size <= sizeof(uint64_t) &&
	       (uintptr_t)dest % size == 0;
}

static enum tw_mrapi_access access_of(enum op op)
{
	if (op == LOCK || op == RELEASE)
		return TW_MRAPI_NEITHER;
	return op == READ ? TW_MRAPI_READS : TW_MRAPI_WRITES;
}

static mrapi_status_t atomic_refused(void)
{
	return tw_mrapi_me() ? MRAPI_ERR_ATOM_OP_FAILED : MRAPI_ERR_NODE_NOTINIT;
}

/* Stores the previous value if it did the operation, or compared. */
static mrapi_status_t atomic_apply(void *sync, enum op op, void *dest, uint64_t value,
				   uint64_t compare, void *previous, size_t size)
{
	mrapi_atomic_barrier_t *axb = sync;
	uint32_t me = tw_mrapi_me();
	uint64_t deadline, before;
	bool done = false;

	if (!me || !dest || !aligned(dest, size) || (sync && !tw_mrapi_barrier_sound(sync)))
		return atomic_refused();
	if (axb && axb->dest == tw_sys_pid())
		axb = NULL; /* it orders other processes */
	deadline = axb ? tw_mrapi_deadline(axb->timeout) : TW_FUTEX_FOREVER;
	for (unsigned spins = 1;; spins++) {
		if (axb && !tw_mrapi_barrier_enter(axb, me, access_of(op), deadline))
			break;
		done = operate(op, dest, value, compare, &before, size);
		if (previous && (done || op == CAS))
			memcpy(previous, atomic_bytes_of(&before, size), size);
		if (axb)
			tw_mrapi_barrier_leave(axb, done || op != LOCK);
		/* Waits outside the barrier, so that the owner can enter it to release the lock. */
		if (op != LOCK || done || !tw_mrapi_barrier_wait(me, deadline, spins))
			break;
	}
	if (!done && tw_mrapi_me() != me)
		return MRAPI_ERR_NODE_NOTINIT;
	return done ? MRAPI_SUCCESS : MRAPI_ERR_ATOM_OP_FAILED;
}

/* With operands of the caller's. */
static mrapi_status_t apply_with(void *sync, enum op op, void *dest, const void *value,
				 const void *compare, void *previous, size_t size)
{
	uint64_t v = 0, c = 0;

	if (!value || !compare || !aligned(dest, size))
		return atomic_refused();
	memcpy(atomic_bytes_of(&v, size), value, size);
	memcpy(atomic_bytes_of(&c, size), compare, size);
	return atomic_apply(sync, op, dest, v, c, previous, size);
}

void mrapi_atomic_read(void *sync, const void *dest, void *value, size_t size,
		       mrapi_status_t *status)
{
	tw_mrapi_set_status(status,
			    atomic_apply(sync, READ, (void *)(uintptr_t)dest, 0, 0, value, size));
}

void mrapi_atomic_read_ptr(void *sync, const uintptr_t *dest, uintptr_t *value,
			   mrapi_status_t *status)
{
	mrapi_atomic_read(sync, dest, value, sizeof(*dest), status);
}

#define MAKE(name, op)                                                                             \
	void mrapi_atomic_##name(void *sync, void *dest, const void *value, void *previous,        \
				 size_t size, mrapi_status_t *status)                              \
	{                                                                                          \
		tw_mrapi_set_status(status,                                                        \
				    apply_with(sync, op, dest, value, value, previous, size));     \
	}

MAKE(add, ADD)
MAKE(or, OR)
MAKE(and, AND)
MAKE(xor, XOR)
MAKE(xchg, XCHG)

/* Stores the value after the addition. */
static mrapi_status_t atomic_count(void *sync, void *dest, int64_t by, void *result, size_t size)
{
	uint64_t word = 0;
	mrapi_status_t status =
		atomic_apply(sync, ADD, dest, (uint64_t)by, 0, atomic_bytes_of(&word, size), size);

	word += (uint64_t)by;
	if (status == MRAPI_SUCCESS && result)
		memcpy(result, atomic_bytes_of(&word, size), size);
	return status;
}

void mrapi_atomic_inc(void *sync, void *dest, void *result, size_t size, mrapi_status_t *status)
{
	tw_mrapi_set_status(status, atomic_count(sync, dest, 1, result, size));
}

void mrapi_atomic_dec(void *sync, void *dest, void *result, size_t size, mrapi_status_t *status)
{
	tw_mrapi_set_status(status, atomic_count(sync, dest, -1, result, size));
}

void mrapi_atomic_cas(void *sync, void *dest, const void *exchange, const void *compare,
		      void *previous, size_t size, mrapi_status_t *status)
{
	tw_mrapi_set_status(status, apply_with(sync, CAS, dest, exchange, compare, previous, size));
}

void mrapi_atomic_cas_ptr(void *sync, uintptr_t *dest, uintptr_t exchange, uintptr_t compare,
			  uintptr_t *previous, mrapi_status_t *status)
{
	mrapi_atomic_cas(sync, dest, &exchange, &compare, previous, sizeof(*dest), status);
}

void(mrapi_atomic_xchg_ptr)(void *sync, uintptr_t *dest, uintptr_t exchange, uintptr_t compare,
			    uintptr_t *previous, mrapi_status_t *status)
{
	(void)compare;
	mrapi_atomic_xchg(sync, dest, &exchange, previous, sizeof(*dest), status);
}

void mrapi_atomic_sync(void *sync, mrapi_status_t *status)
{
	mrapi_status_t result = MRAPI_SUCCESS;

	if (!tw_mrapi_me())
		result = MRAPI_ERR_NODE_NOTINIT;
	else if (sync && !tw_mrapi_barrier_sound(sync))
		result = MRAPI_ERR_ATOM_OP_FAILED;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (sync && result == MRAPI_SUCCESS)
		tw_mrapi_barrier_leave(sync, true);
	tw_mrapi_set_status(status, result);
}

/* -------------------------------------------------------------- lock, release */

/*
 * Words that the calling thread has locked: only that thread may release them (4.8.18), and a word
 * is too small to name its owner.
 */
static _Thread_local struct {
	const void **word;
	size_t n, room;
} owned;

/* Reserves memory for one more; false when memory is short. */
static bool atomic_reserve(void)
{
	size_t room = owned.room ? 2 * owned.room : 16;
	const void **word;

	if (owned.n < owned.room)
		return true;
	word = tw_mrapi_thread_ends() ? realloc(owned.word, room * sizeof(*word)) : NULL;
	if (!word)
		return false;
	owned.word = word;
	owned.room = room;
	return true;
}

/* Its place + 1, or 0. The last one first: locks nest. */
static size_t owned_at(const void *word)
{
	size_t i = owned.n;

	while (i > 0 && owned.word[i - 1] != word)
		i--;
	return i;
}

void tw_mrapi_atomic_end(void)
{
	free(owned.word);
	memset(&owned, 0, sizeof(owned));
}

void mrapi_atomic_lock(void *sync, void *dest, void *previous, size_t size, mrapi_status_t *status)
{
	mrapi_status_t result = atomic_refused();

	if (tw_mrapi_me() && atomic_reserve())
		result = atomic_apply(sync, LOCK, dest, 1, 0, previous, size);
	/* It is there already if another thread has set the word to 0. */
	if (result == MRAPI_SUCCESS && !owned_at(dest))
		owned.word[owned.n++] = dest;
	tw_mrapi_set_status(status, result);
}

void mrapi_atomic_release(void *sync, void *dest, size_t size, mrapi_status_t *status)
{
	mrapi_status_t result = atomic_refused();
	size_t i = owned_at(dest);

	if (i > 0)
		result = atomic_apply(sync, RELEASE, dest, 0, 1, NULL, size);
	if (result == MRAPI_SUCCESS)
		owned.word[i - 1] = owned.word[--owned.n];
	tw_mrapi_set_status(status, result);
}

/* ------------------------------------------------------------------------ bits */

/* The specification defines bits of 32-bit words; every width works. */
static mrapi_status_t bit_op(void *sync, enum op op, void *dest, int bit, int *previous,
			     size_t size)
{
	uint64_t mask = 1ull << (bit & 63), value = op == AND ? ~mask : mask, before = 0;
	mrapi_status_t status;

	if (bit < 0 || (size_t)bit >= 8 * size)
		return atomic_refused();
	status = atomic_apply(sync, op, dest, value, 0, atomic_bytes_of(&before, size), size);
	if (status != MRAPI_SUCCESS)
		return status;
	if (previous)
		*previous = (before & mask) != 0;
	/* Fails if the bit already had that value. */
	return op != XOR && (before & mask) == (value & mask) ? MRAPI_ERR_ATOM_OP_FAILED
							      : MRAPI_SUCCESS;
}

#define MAKE_BIT(name, op)                                                                         \
	void mrapi_atomic_##name(void *sync, void *dest, int bit, int *previous, size_t size,      \
				 mrapi_status_t *status)                                           \
	{                                                                                          \
		tw_mrapi_set_status(status, bit_op(sync, op, dest, bit, previous, size));          \
	}

MAKE_BIT(set, OR)
MAKE_BIT(clear, AND)
MAKE_BIT(change, XOR)
