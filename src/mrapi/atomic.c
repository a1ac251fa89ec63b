/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MRAPI 4.8.4 to 4.8.21, the ABB extension: atomic operations on 1, 2, 4 and 8 bytes,
 * each within the barrier or the exchange that the caller names (barrier.c).
 */
#include <unistd.h>

#include "mrapi/barrier.h"
#include "mrapi/mrapi_internal.h"

static bool needed(const mrapi_atomic_barrier_t *axb)
{
	return axb && axb->dest != getpid();
}

enum op { READ, ADD, OR, AND, XOR, CAS, XCHG, LOCK, RELEASE };

/* One operation on a word of that type. Stores the previous value; false: refused. */
#define OPERATE(type)                                                                              \
	static bool operate_##type(enum op op, type *d, type v, type compare, type *before)        \
	{                                                                                          \
		switch (op) {                                                                      \
		case READ:                                                                         \
			*before = __atomic_load_n(d, __ATOMIC_SEQ_CST);                            \
			return true;                                                               \
		case ADD:                                                                          \
			*before = __atomic_fetch_add(d, v, __ATOMIC_SEQ_CST);                      \
			return true;                                                               \
		case OR:                                                                           \
			*before = __atomic_fetch_or(d, v, __ATOMIC_SEQ_CST);                       \
			return true;                                                               \
		case AND:                                                                          \
			*before = __atomic_fetch_and(d, v, __ATOMIC_SEQ_CST);                      \
			return true;                                                               \
		case XOR:                                                                          \
			*before = __atomic_fetch_xor(d, v, __ATOMIC_SEQ_CST);                      \
			return true;                                                               \
		case CAS:                                                                          \
			*before = compare;                                                         \
			return __atomic_compare_exchange_n(d, before, v, false, __ATOMIC_SEQ_CST,  \
							   __ATOMIC_SEQ_CST);                      \
		case XCHG:                                                                         \
			*before = __atomic_exchange_n(d, v, __ATOMIC_SEQ_CST);                     \
			return true;                                                               \
		case LOCK:                                                                         \
			*before = 0;                                                               \
			return __atomic_compare_exchange_n(d, before, 1, false, __ATOMIC_ACQUIRE,  \
							   __ATOMIC_RELAXED);                      \
		case RELEASE:                                                                      \
			*before = 1;                                                               \
			return __atomic_compare_exchange_n(d, before, 0, false, __ATOMIC_RELEASE,  \
							   __ATOMIC_RELAXED);                      \
		}                                                                                  \
		return false;                                                                      \
	}

OPERATE(uint8_t)
OPERATE(uint16_t)
OPERATE(uint32_t)
OPERATE(uint64_t)

#define CASE(type)                                                                                 \
	case sizeof(type): {                                                                       \
		type v = 0, c = 0, before;                                                         \
		if (value)                                                                         \
			memcpy(&v, value, size);                                                   \
		if (compare)                                                                       \
			memcpy(&c, compare, size);                                                 \
		done = operate_##type(op, dest, v, c, &before);                                    \
		if (previous && (done || op == CAS))                                               \
			memcpy(previous, &before, size);                                           \
		return done;                                                                       \
	}

static bool operate(enum op op, void *dest, const void *value, const void *compare, void *previous,
		    size_t size)
{
	bool done;

	switch (size) {
		CASE(uint8_t)
		CASE(uint16_t)
		CASE(uint32_t)
		CASE(uint64_t)
	}
	return false;
}

/* Some processors trap on unaligned words; none accesses them atomically. */
static bool aligned(const void *dest, size_t size)
{
	return size && !(size & (size - 1)) && (uintptr_t)dest % size == 0;
}

static enum tw_mrapi_access access_of(enum op op)
{
	if (op == LOCK || op == RELEASE)
		return TW_MRAPI_NEITHER;
	return op == READ ? TW_MRAPI_READS : TW_MRAPI_WRITES;
}

static mrapi_status_t apply(void *sync, enum op op, void *dest, const void *value,
			    const void *compare, void *previous, size_t size)
{
	mrapi_atomic_barrier_t *axb = needed(sync) ? sync : NULL;
	uint64_t deadline;
	bool done = false;

	if (tw_unlikely(!tw_mrapi_me()))
		return MRAPI_ERR_NODE_NOTINIT;
	if (!dest || !aligned(dest, size) || size > sizeof(uint64_t) ||
	    (sync && !tw_mrapi_barrier_sound(sync)))
		return MRAPI_ERR_ATOM_OP_FAILED;
	deadline = axb ? tw_mrapi_deadline(axb->timeout) : TW_FUTEX_FOREVER;
	for (unsigned spins = 1;; spins++) {
		if (axb && !tw_mrapi_barrier_enter(axb, access_of(op), deadline))
			break;
		done = operate(op, dest, value, compare, previous, size);
		if (axb)
			tw_mrapi_barrier_leave(axb, done || op != LOCK);
		/* Waits outside the barrier, so that the owner can enter it to release the lock. */
		if (op != LOCK || done || !tw_mrapi_barrier_wait(deadline, spins))
			break;
	}
	return done ? MRAPI_SUCCESS : MRAPI_ERR_ATOM_OP_FAILED;
}

/* For operations whose operands are required. */
static mrapi_status_t apply_with(void *sync, enum op op, void *dest, const void *value,
				 const void *compare, void *previous, size_t size)
{
	if (!value || (op == CAS && !compare))
		return tw_mrapi_me() ? MRAPI_ERR_ATOM_OP_FAILED : MRAPI_ERR_NODE_NOTINIT;
	return apply(sync, op, dest, value, compare, previous, size);
}

void mrapi_atomic_read(void *sync, const void *dest, void *value, size_t size,
		       mrapi_status_t *status)
{
	tw_mrapi_set_status(status,
			    apply(sync, READ, (void *)(uintptr_t)dest, NULL, NULL, value, size));
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
				    apply_with(sync, op, dest, value, NULL, previous, size));      \
	}

MAKE(add, ADD)
MAKE(or, OR)
MAKE(and, AND)
MAKE(xor, XOR)
MAKE(xchg, XCHG)

/* Stores the value after the addition. */
static mrapi_status_t count(void *sync, void *dest, int64_t by, void *result, size_t size)
{
	/* The low bytes of the addend are the same in every width. */
	const char *low = (const char *)&by +
			  (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 0 : sizeof(by) - size);
	uint64_t before = 0;
	mrapi_status_t status;

	if (size > sizeof(by))
		return tw_mrapi_me() ? MRAPI_ERR_ATOM_OP_FAILED : MRAPI_ERR_NODE_NOTINIT;
	status = apply(sync, ADD, dest, low, NULL, &before, size);
	if (status == MRAPI_SUCCESS && result)
		operate(ADD, &before, low, NULL, NULL, size), memcpy(result, &before, size);
	return status;
}

void mrapi_atomic_inc(void *sync, void *dest, void *result, size_t size, mrapi_status_t *status)
{
	tw_mrapi_set_status(status, count(sync, dest, 1, result, size));
}

void mrapi_atomic_dec(void *sync, void *dest, void *result, size_t size, mrapi_status_t *status)
{
	tw_mrapi_set_status(status, count(sync, dest, -1, result, size));
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

void mrapi_atomic_lock(void *sync, void *dest, void *previous, size_t size, mrapi_status_t *status)
{
	mrapi_status_t result = MRAPI_ERR_ATOM_OP_FAILED;

	if (tw_mrapi_owned_reserve())
		result = apply(sync, LOCK, dest, NULL, NULL, previous, size);
	if (result == MRAPI_SUCCESS)
		tw_mrapi_owned_add(dest);
	tw_mrapi_set_status(status, result);
}

void mrapi_atomic_release(void *sync, void *dest, size_t size, mrapi_status_t *status)
{
	mrapi_status_t result = tw_mrapi_me() ? MRAPI_ERR_ATOM_OP_FAILED : MRAPI_ERR_NODE_NOTINIT;

	if (tw_mrapi_owned(dest))
		result = apply(sync, RELEASE, dest, NULL, NULL, NULL, size);
	if (result == MRAPI_SUCCESS)
		tw_mrapi_owned_del(dest);
	tw_mrapi_set_status(status, result);
}

/* The specification defines bits of 32-bit words; every width works. */
static mrapi_status_t bit_op(void *sync, enum op op, void *dest, int bit, int *previous,
			     size_t size)
{
	uint64_t mask = bit >= 0 && bit < 64 ? 1ull << bit : 0, before = 0;
	uint64_t value = op == AND ? ~mask : mask;
	size_t skip = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ || size > 8 ? 0 : 8 - size;
	mrapi_status_t status;

	if (bit < 0 || (size_t)bit >= 8 * size || size > 8)
		return tw_mrapi_me() ? MRAPI_ERR_ATOM_OP_FAILED : MRAPI_ERR_NODE_NOTINIT;
	status = apply(sync, op, dest, (char *)&value + skip, NULL, (char *)&before + skip, size);
	if (status != MRAPI_SUCCESS)
		return status;
	if (previous)
		*previous = (before & mask) != 0;
	/* Fails if the bit already had that value. */
	return op != XOR && (before & mask) == (value & mask) ? MRAPI_ERR_ATOM_OP_FAILED
							      : MRAPI_SUCCESS;
}

void mrapi_atomic_set(void *sync, void *dest, int bit, int *previous, size_t size,
		      mrapi_status_t *status)
{
	tw_mrapi_set_status(status, bit_op(sync, OR, dest, bit, previous, size));
}

void mrapi_atomic_clear(void *sync, void *dest, int bit, int *previous, size_t size,
			mrapi_status_t *status)
{
	tw_mrapi_set_status(status, bit_op(sync, AND, dest, bit, previous, size));
}

void mrapi_atomic_change(void *sync, void *dest, int bit, int *previous, size_t size,
			 mrapi_status_t *status)
{
	tw_mrapi_set_status(status, bit_op(sync, XOR, dest, bit, previous, size));
}
