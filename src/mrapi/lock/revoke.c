/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The owner of remote memory ends before its clients (MRAPI 4.2.2). It asks each process of this
 * host that is attached, whose member's thread marks the client: no access begins any more, and
 * with the last one under way the process leaves the set of those attached. The owner waits for
 * that, so it has the memory for itself. The nodes of a process that dies leave that set, too.
 */
#include "base/sys.h"
#include "mrapi/mem/memory.h"

#define USERS_US 100 /* between two looks whether accesses have ended */
_Static_assert((MRAPI_MAX_RMEMS & (MRAPI_MAX_RMEMS - 1)) == 0, "a mask finds the slot");

void tw_mrapi_let_go(struct tw_mrapi_rmem *r)
{
	tw_mrapi_each_node(n)
		if (n->proc == tw_mrapi.proc)
			tw_mrapi_nodeset_del(&r->attached, tw_mrapi_me_of(n));
}

void tw_mrapi_rmem_revoked(uint32_t handle)
{
	uint32_t slot = handle & (MRAPI_MAX_RMEMS - 1);
	struct tw_mrapi_rmem *r = &tw_mrapi.seg->rmem[slot];
	struct tw_mrapi_client *c = tw_mrapi_client_at(slot);

	tw_mrapi_admin_lock();
	if (tw_mrapi_is(&r->obj, handle) &&
	    (!c || atomic_load(&c->handle) != handle ||
	     !(atomic_fetch_or(&c->users, TW_MRAPI_REVOKED) & ~TW_MRAPI_CLIENT_STATES)))
		tw_mrapi_let_go(r);
	tw_mrapi_admin_unlock();
}

/* Asks the processes that are attached and were not asked yet to let go. */
static void ask_to_let_go(struct tw_mrapi_rmem *r, uint64_t *asked)
{
	struct tw_mrapi_message m = {.type = TW_MRAPI_REVOKE,
				     .proc = tw_mrapi.proc,
				     .incarnation = tw_mrapi.incarnation,
				     .slot = atomic_load(&r->obj.handle)};

	tw_mrapi_each_node(n) {
		uint64_t bit = 1ull << (n->proc % 64), *word = &asked[n->proc / 64];

		if (n->proc >= TW_MRAPI_PROCS || (*word & bit) ||
		    !tw_mrapi_nodeset_has(&r->attached, tw_mrapi_me_of(n)))
			continue;
		if (n->proc == tw_mrapi.proc)
			tw_mrapi_rmem_revoked(m.slot);
		else if (!tw_mrapi_send(n->proc, &m))
			continue; /* not connected yet, or dying */
		*word |= bit;
	}
}

/* Whether the node owns it and others are attached; then nobody attaches from here on. */
static bool end_of_owner(struct tw_mrapi_rmem *r, uint32_t me)
{
	tw_mrapi_admin_lock();
	if (!atomic_load(&r->obj.handle) || r->obj.host || r->owner != me) {
		tw_mrapi_admin_unlock();
		return false;
	}
	r->ending = 1;
	tw_mrapi_admin_unlock();
	return true;
}

void tw_mrapi_revoke(uint32_t me)
{
	tw_mrapi_each_rmem(r) {
		uint64_t asked[TW_MRAPI_PROCS / 64] = {0};

		if (!end_of_owner(r, me))
			continue;
		while (!tw_mrapi_nodeset_empty(&r->attached)) {
			ask_to_let_go(r, asked);
			tw_sys_sleep_us(USERS_US);
		}
	}
	tw_mrapi_served_quiet();
}
