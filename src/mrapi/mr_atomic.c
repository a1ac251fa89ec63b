/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MRAPI 4.8, the ABB extension: atomic operations on 1, 2, 4 and 8 bytes, and
 * the barriers and exchanges that may surround them.
 *
 * A barrier admits one operation at a time to an element of the buffer; an
 * exchange lets writers in while the element is not valid and readers while it
 * is, and each turns it over. Both hold for as long as the caller says "hold".
 * The element's txn names the process inside, so a dead one is passed over.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "base/sys.h"
#include "mrapi/mr.h"

#define BARRIER 0x62617231u
#define EXCHANGE 0x65786331u

/* What the opaque words of a descriptor are. */
enum { MARK, HOLD, INSIDE, WROTE };

static bool sound(const mrapi_atomic_barrier_t *axb)
{
	return axb && (axb->opaque[MARK] == BARRIER || axb->opaque[MARK] == EXCHANGE);
}

static bool needed(const mrapi_atomic_barrier_t *axb)
{
	return axb && axb->dest != getpid();
}

static mrapi_msg_t *element(const mrapi_atomic_barrier_t *axb)
{
	unsigned i = axb->counter ? __atomic_load_n(axb->counter, __ATOMIC_ACQUIRE) % axb->elems
				  : 0;

	return (mrapi_msg_t *)(void *)((char *)axb->buffer + (size_t)i * axb->size);
}

static bool dead(unsigned pid)
{
	return tw_sys_kill((pid_t)pid, 0) < 0 && errno == ESRCH;
}

static bool try_enter(mrapi_atomic_barrier_t *axb, mrapi_msg_t *m, bool write)
{
	unsigned holder = 0, me = (unsigned)getpid();
	bool valid;

	if (!__atomic_compare_exchange_n(&m->txn, &holder, me, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE) &&
	    !(holder != me && dead(holder) &&
	      __atomic_compare_exchange_n(&m->txn, &holder, me, false, __ATOMIC_ACQ_REL,
					  __ATOMIC_ACQUIRE)))
		return false;
	valid = __atomic_load_n(&m->valid, __ATOMIC_ACQUIRE) != 0;
	if (axb->opaque[MARK] == BARRIER || valid != write)
		return true;
	__atomic_store_n(&m->txn, 0, __ATOMIC_RELEASE);
	return false;
}

static bool enter(mrapi_atomic_barrier_t *axb, bool write)
{
	uint64_t deadline = axb->timeout == MCA_INFINITE
				    ? TW_FUTEX_FOREVER
				    : tw_futex_now() + 1000000ull * axb->timeout;
	mrapi_msg_t *m = element(axb);

	for (unsigned spins = 1; !axb->opaque[INSIDE]; spins++) {
		if (try_enter(axb, m, write)) {
			axb->opaque[INSIDE] = 1;
			axb->opaque[WROTE] = 0;
			axb->inside = m;
			break;
		}
		if (deadline != TW_FUTEX_FOREVER && tw_futex_now() >= deadline)
			return false;
		if (spins % 64)
			tw_cpu_relax();
		else
			sched_yield();
	}
	axb->opaque[WROTE] |= write;
	return true;
}

static void leave(mrapi_atomic_barrier_t *axb)
{
	mrapi_msg_t *m = axb->inside;

	if (axb->opaque[HOLD] || !axb->opaque[INSIDE])
		return;
	axb->opaque[INSIDE] = 0;
	if (axb->opaque[MARK] == EXCHANGE)
		__atomic_store_n(&m->valid, axb->opaque[WROTE] ? MRAPI_TRUE : MRAPI_FALSE,
				 __ATOMIC_RELEASE);
	__atomic_store_n(&m->txn, 0, __ATOMIC_RELEASE);
}

static mrapi_status_t init(mrapi_atomic_barrier_t *axb, mrapi_atomic_barrier_t wanted)
{
	if (!tw_mr_me())
		return MRAPI_ERR_NODE_NOTINIT;
	if (!axb || !wanted.buffer || wanted.elems == 0 || wanted.size < sizeof(mrapi_msg_t))
		return MRAPI_ERR_PARAMETER;
	*axb = wanted;
	return MRAPI_SUCCESS;
}

void mrapi_barrier_init(mrapi_atomic_barrier_t *axb, pid_t dest, mrapi_msg_t *buffer,
			unsigned elems, size_t size, unsigned *counter, mca_timeout_t timeout,
			mrapi_status_t *status)
{
	tw_mr_tell(status,
		   init(axb,
			(mrapi_atomic_barrier_t){
				buffer, counter, size, dest, elems, timeout, NULL, {BARRIER}}));
}

void mrapi_exchange_init(mrapi_atomic_barrier_t *axb, pid_t dest, mrapi_msg_t *buffer,
			 unsigned elems, size_t size, unsigned *counter, mca_timeout_t timeout,
			 mrapi_status_t *status)
{
	tw_mr_tell(status,
		   init(axb,
			(mrapi_atomic_barrier_t){
				buffer, counter, size, dest, elems, timeout, NULL, {EXCHANGE}}));
}

mrapi_boolean_t mrapi_atomic_hold(mrapi_atomic_barrier_t *axb, mrapi_boolean_t hold,
				  mrapi_status_t *status)
{
	mrapi_boolean_t before = MRAPI_FALSE;
	mrapi_status_t result = MRAPI_SUCCESS;

	if (!tw_mr_me()) {
		result = MRAPI_ERR_NODE_NOTINIT;
	} else if (!sound(axb)) {
		result = MRAPI_ERR_PARAMETER;
	} else {
		before = axb->opaque[HOLD] ? MRAPI_TRUE : MRAPI_FALSE;
		axb->opaque[HOLD] = hold != MRAPI_FALSE;
		leave(axb);
	}
	tw_mr_tell(status, result);
	return before;
}

/* --------------------------------------------------------------- operations */

enum op { READ, ADD, OR, AND, XOR, CAS, XCHG, LOCK, RELEASE };

/* One operation on a word of that type; the value before it. False: refused. */
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
			__atomic_compare_exchange_n(d, before, v, false, __ATOMIC_SEQ_CST,         \
						    __ATOMIC_SEQ_CST);                             \
			return true;                                                               \
		case XCHG:                                                                         \
			*before = __atomic_exchange_n(d, v, __ATOMIC_SEQ_CST);                     \
			return true;                                                               \
		case LOCK:                                                                         \
			*before = 0;                                                               \
			for (unsigned spins = 1; !__atomic_compare_exchange_n(                     \
				     d, before, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);     \
			     spins++, *before = 0)                                                 \
				spins % 64 ? tw_cpu_relax() : (void)sched_yield();                 \
			return true;                                                               \
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

/* Reads the operands of the type, operates, and stores the value before. */
#define CASE(type)                                                                                 \
	case sizeof(type): {                                                                       \
		type v = 0, c = 0, before;                                                         \
		if (value)                                                                         \
			memcpy(&v, value, size);                                                   \
		if (compare)                                                                       \
			memcpy(&c, compare, size);                                                 \
		if (!operate_##type(op, dest, v, c, &before))                                      \
			return false;                                                              \
		if (previous)                                                                      \
			memcpy(previous, &before, size);                                           \
		return true;                                                                       \
	}

static bool operate(enum op op, void *dest, const void *value, const void *compare, void *previous,
		    size_t size)
{
	switch (size) {
		CASE(uint8_t)
		CASE(uint16_t)
		CASE(uint32_t)
		CASE(uint64_t)
	}
	return false;
}

/* Some processors cannot do it otherwise, and no processor atomically. */
static bool aligned(const void *dest, size_t size)
{
	return size && !(size & (size - 1)) && (uintptr_t)dest % size == 0;
}

static mrapi_status_t apply(void *sync, enum op op, void *dest, const void *value,
			    const void *compare, void *previous, size_t size)
{
	mrapi_atomic_barrier_t *axb = sync;
	bool done;

	if (tw_unlikely(!tw_mr_me()))
		return MRAPI_ERR_NODE_NOTINIT;
	if (!dest || !aligned(dest, size) || size > sizeof(uint64_t) || (axb && !sound(axb)))
		return MRAPI_ERR_ATOM_OP_FAILED;
	if (!needed(axb))
		return operate(op, dest, value, compare, previous, size) ? MRAPI_SUCCESS
									 : MRAPI_ERR_ATOM_OP_FAILED;
	if (!enter(axb, op != READ))
		return MRAPI_ERR_ATOM_OP_FAILED;
	done = operate(op, dest, value, compare, previous, size);
	leave(axb);
	return done ? MRAPI_SUCCESS : MRAPI_ERR_ATOM_OP_FAILED;
}

/* An operand or a result that must be there. */
static mrapi_status_t apply_with(void *sync, enum op op, void *dest, const void *value,
				 const void *compare, void *previous, size_t size)
{
	if (!value || (op == CAS && !compare))
		return tw_mr_me() ? MRAPI_ERR_ATOM_OP_FAILED : MRAPI_ERR_NODE_NOTINIT;
	return apply(sync, op, dest, value, compare, previous, size);
}

void mrapi_atomic_read(void *sync, const void *dest, void *value, size_t size,
		       mrapi_status_t *status)
{
	tw_mr_tell(status, apply(sync, READ, (void *)(uintptr_t)dest, NULL, NULL, value, size));
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
		tw_mr_tell(status, apply_with(sync, op, dest, value, NULL, previous, size));       \
	}

MAKE(add, ADD)
MAKE(or, OR)
MAKE(and, AND)
MAKE(xor, XOR)
MAKE(xchg, XCHG)

/* Adds, and tells the sum. */
static mrapi_status_t count(void *sync, void *dest, int64_t by, void *result, size_t size)
{
	/* The low bytes of the addend are the same in every width. */
	const char *low = (const char *)&by +
			  (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 0 : sizeof(by) - size);
	uint64_t before = 0;
	mrapi_status_t status;

	if (size > sizeof(by))
		return tw_mr_me() ? MRAPI_ERR_ATOM_OP_FAILED : MRAPI_ERR_NODE_NOTINIT;
	status = apply(sync, ADD, dest, low, NULL, &before, size);
	if (status == MRAPI_SUCCESS && result)
		operate(ADD, &before, low, NULL, NULL, size), memcpy(result, &before, size);
	return status;
}

void mrapi_atomic_inc(void *sync, void *dest, void *result, size_t size, mrapi_status_t *status)
{
	tw_mr_tell(status, count(sync, dest, 1, result, size));
}

void mrapi_atomic_dec(void *sync, void *dest, void *result, size_t size, mrapi_status_t *status)
{
	tw_mr_tell(status, count(sync, dest, -1, result, size));
}

void mrapi_atomic_cas(void *sync, void *dest, const void *exchange, const void *compare,
		      void *previous, size_t size, mrapi_status_t *status)
{
	tw_mr_tell(status, apply_with(sync, CAS, dest, exchange, compare, previous, size));
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

	if (!tw_mr_me())
		result = MRAPI_ERR_NODE_NOTINIT;
	else if (sync && !sound(sync))
		result = MRAPI_ERR_ATOM_OP_FAILED;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	tw_mr_tell(status, result);
}

void mrapi_atomic_lock(void *sync, void *dest, void *previous, size_t size, mrapi_status_t *status)
{
	mrapi_status_t result = MRAPI_ERR_ATOM_OP_FAILED;

	if (tw_mr_held_room())
		result = apply(sync, LOCK, dest, NULL, NULL, previous, size);
	if (result == MRAPI_SUCCESS)
		tw_mr_held_add(dest);
	tw_mr_tell(status, result);
}

void mrapi_atomic_release(void *sync, void *dest, size_t size, mrapi_status_t *status)
{
	mrapi_status_t result = tw_mr_me() ? MRAPI_ERR_ATOM_OP_FAILED : MRAPI_ERR_NODE_NOTINIT;

	if (tw_mr_held(dest))
		result = apply(sync, RELEASE, dest, NULL, NULL, NULL, size);
	if (result == MRAPI_SUCCESS)
		tw_mr_held_del(dest);
	tw_mr_tell(status, result);
}

/* Bits: the specification knows them in 32-bit words; all widths work. */
static mrapi_status_t bit_op(void *sync, enum op op, void *dest, int bit, int *previous,
			     size_t size)
{
	uint64_t mask = bit >= 0 && bit < 64 ? 1ull << bit : 0, before = 0;
	uint64_t value = op == AND ? ~mask : mask;
	size_t skip = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ || size > 8 ? 0 : 8 - size;
	mrapi_status_t status;

	if (bit < 0 || (size_t)bit >= 8 * size || size > 8)
		return tw_mr_me() ? MRAPI_ERR_ATOM_OP_FAILED : MRAPI_ERR_NODE_NOTINIT;
	status = apply(sync, op, dest, (char *)&value + skip, NULL, (char *)&before + skip, size);
	if (status == MRAPI_SUCCESS && previous)
		*previous = (before & mask) != 0;
	return status;
}

void mrapi_atomic_set(void *sync, void *dest, int bit, int *previous, size_t size,
		      mrapi_status_t *status)
{
	tw_mr_tell(status, bit_op(sync, OR, dest, bit, previous, size));
}

void mrapi_atomic_clear(void *sync, void *dest, int bit, int *previous, size_t size,
			mrapi_status_t *status)
{
	tw_mr_tell(status, bit_op(sync, AND, dest, bit, previous, size));
}

void mrapi_atomic_change(void *sync, void *dest, int bit, int *previous, size_t size,
			 mrapi_status_t *status)
{
	tw_mr_tell(status, bit_op(sync, XOR, dest, bit, previous, size));
}
