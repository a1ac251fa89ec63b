/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MRAPI 4.8.1 to 4.8.3, the ABB extension: barriers and exchanges, which order the
 * atomic operations of different processes on an element of a buffer.
 *
 * A barrier admits one operation at a time. An exchange admits writing operations while
 * the element is not valid and reading operations while it is valid; each of them
 * inverts that state. A lock and its release do not change it. The caller leaves the
 * element after the operation or, while it has a lock there, after the operation that
 * follows the release.
 *
 * The counter and the tindex of the element's head name the node inside by its number in
 * the segment, because process ids differ between namespaces. A node that has ended is
 * skipped. The head's txn belongs to the program.
 */
#include "base/sys.h"
#include "mrapi/lock/barrier.h"
#include "mrapi/mrapi_internal.h"

#define BARRIER 0x62617231u
#define EXCHANGE 0x65786331u

/*
 * Before a wait sleeps, as the one it waits for may need the processor. It polls: the program
 * changes its words without the library, and there is no place for who sleeps.
 */
#define SPINS 512
#define FIRST_SLEEP_US 8u /* doubled each time */
#define LAST_SLEEP_US 1000u

/*
 * Opaque words of a descriptor. INSIDE: the name under which the caller is inside; DONE:
 * what it has done there.
 */
enum { MARK, HOLD, INSIDE, DONE };

/* A node's name: its order of initialization and its slot + 1. */
#define SLOT_BITS 11
#define SLOT_MASK ((1u << SLOT_BITS) - 1)
_Static_assert(MRAPI_MAX_NODES < 1u << SLOT_BITS, "a slot fits");

typedef uint32_t __attribute__((may_alias)) name_t;
_Static_assert(offsetof(mrapi_msg_t, counter) % sizeof(name_t) == 0 &&
		       offsetof(mrapi_msg_t, tindex) == offsetof(mrapi_msg_t, counter) + 2,
	       "counter and tindex are one word");

static name_t *name_in(mrapi_msg_t *m)
{
	return (name_t *)(void *)&m->counter;
}

static name_t barrier_name_of(uint32_t me)
{
	return tw_mrapi_node(me)->born << SLOT_BITS | me;
}

static bool barrier_ended(name_t name)
{
	uint32_t node = name & SLOT_MASK;

	return node == 0 || node > MRAPI_MAX_NODES ||
	       atomic_load(&tw_mrapi_node(node)->life) != TW_MRAPI_LIVE ||
	       barrier_name_of(node) != name;
}

bool tw_mrapi_barrier_sound(const mrapi_atomic_barrier_t *axb)
{
	return axb && (axb->opaque[MARK] == BARRIER || axb->opaque[MARK] == EXCHANGE);
}

static mrapi_msg_t *element(const mrapi_atomic_barrier_t *axb)
{
	/* The program's counter, changed by its atomic operations. */
	unsigned i = axb->counter ? __atomic_load_n(axb->counter, __ATOMIC_ACQUIRE) % axb->elems
				  : 0;

	return (mrapi_msg_t *)(void *)((char *)axb->buffer + (size_t)i * axb->size);
}

static bool barrier_replace(name_t *name, name_t *was, name_t by)
{
	/* [barrier] */
	return __atomic_compare_exchange_n(name, was, by, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE);
}

static bool barrier_take(mrapi_atomic_barrier_t *axb, name_t me)
{
	mrapi_msg_t *m = element(axb);
	name_t holder = 0;

	if (axb->opaque[INSIDE] == me)
		return true;
	if (!barrier_replace(name_in(m), &holder, me) &&
	    !(barrier_ended(holder) && barrier_replace(name_in(m), &holder, me)))
		return false;
	axb->inside = m;
	axb->opaque[INSIDE] = me;
	axb->opaque[DONE] = 0;
	return true;
}

static void barrier_give_back(mrapi_atomic_barrier_t *axb)
{
	name_t me = axb->opaque[INSIDE];

	axb->opaque[INSIDE] = 0;
	/* Take it only from that node: another may have entered since. */
	barrier_replace(name_in(axb->inside), &me, 0);
}

/* Whether the exchange admits that access; the first access sets an undecided state. */
static bool admits(const mrapi_atomic_barrier_t *axb, enum tw_mrapi_access access)
{
	/* [exchange] */
	bool valid = __atomic_load_n(&axb->inside->valid, __ATOMIC_ACQUIRE) != 0;

	return axb->opaque[MARK] == BARRIER || access == TW_MRAPI_NEITHER || axb->opaque[DONE] ||
	       valid == (access == TW_MRAPI_READS);
}

bool tw_mrapi_barrier_enter(mrapi_atomic_barrier_t *axb, uint32_t node,
			    enum tw_mrapi_access access, uint64_t deadline)
{
	name_t me = barrier_name_of(node);

	for (unsigned spins = 1;; spins++) {
		if (barrier_take(axb, me)) {
			if (admits(axb, access))
				break;
			barrier_give_back(axb);
		}
		if (!tw_mrapi_barrier_wait(node, deadline, spins))
			return false;
	}
	axb->opaque[DONE] |= access;
	return true;
}

void tw_mrapi_barrier_leave(mrapi_atomic_barrier_t *axb, bool done)
{
	if (!axb->opaque[INSIDE] || (axb->opaque[HOLD] && (done || axb->opaque[DONE])))
		return;
	if (axb->opaque[MARK] == EXCHANGE && axb->opaque[DONE])
		/* [exchange] */
		__atomic_store_n(&axb->inside->valid,
				 axb->opaque[DONE] & TW_MRAPI_WRITES ? MRAPI_TRUE : MRAPI_FALSE,
				 __ATOMIC_RELEASE);
	barrier_give_back(axb);
}

bool tw_mrapi_barrier_wait(uint32_t node, uint64_t deadline, unsigned spins)
{
	unsigned sleeps = spins > SPINS ? spins - SPINS : 0;

	if (tw_mrapi_me() != node)
		return false;
	if (deadline != TW_FUTEX_FOREVER && tw_clock_ns() >= deadline)
		return false;
	if (!sleeps)
		tw_cpu_relax();
	else
		tw_sys_sleep_us(tw_min(FIRST_SLEEP_US << tw_min(sleeps, 8u), LAST_SLEEP_US));
	return true;
}

#define MAKE(name, mark)                                                                           \
	void mrapi_##name##_init(mrapi_atomic_barrier_t *axb, pid_t dest, mrapi_msg_t *buffer,     \
				 unsigned elems, size_t size, unsigned *counter,                   \
				 mca_timeout_t timeout, mrapi_status_t *status)                    \
	{                                                                                          \
		bool sound = axb && buffer && elems > 0 && size >= sizeof(mrapi_msg_t);            \
                                                                                                   \
		if (tw_mrapi_me() && sound)                                                        \
			*axb = (mrapi_atomic_barrier_t){buffer, counter, size, dest,               \
							elems,	timeout, NULL, {mark}};            \
		tw_mrapi_set_status(status, !tw_mrapi_me() ? MRAPI_ERR_NODE_NOTINIT                \
					    : sound	   ? MRAPI_SUCCESS                         \
							   : MRAPI_ERR_PARAMETER);                        \
	}

MAKE(barrier, BARRIER)
MAKE(exchange, EXCHANGE)

mrapi_boolean_t mrapi_atomic_hold(mrapi_atomic_barrier_t *axb, mrapi_boolean_t hold,
				  mrapi_status_t *status)
{
	mrapi_boolean_t before = MRAPI_FALSE;
	mrapi_status_t result = MRAPI_SUCCESS;

	if (!tw_mrapi_me()) {
		result = MRAPI_ERR_NODE_NOTINIT;
	} else if (!tw_mrapi_barrier_sound(axb)) {
		result = MRAPI_ERR_PARAMETER;
	} else {
		before = axb->opaque[HOLD] ? MRAPI_TRUE : MRAPI_FALSE;
		axb->opaque[HOLD] = hold != MRAPI_FALSE;
	}
	tw_mrapi_set_status(status, result);
	return before;
}
