/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Remote memory whose owner is on another host. Its handle is valid in this process
 * only. While a process is attached, the owner cannot delete it. The death of an owner
 * ends the connection.
 */
#include <stdlib.h>

#include "mrapi/net.h"

static _Atomic(struct tw_mrapi_remote *) remotes[MRAPI_MAX_RMEMS]; /* never freed */

struct tw_mrapi_rmem *tw_mrapi_remote_rmem(struct tw_mrapi_remote *remote)
{
	return &remote->r;
}

mrapi_status_t tw_mrapi_remote_find(uint32_t handle, struct tw_mrapi_remote **remote)
{
	struct tw_mrapi_remote *f;

	if (!tw_mrapi_me())
		return MRAPI_ERR_NODE_NOTINIT;
	f = atomic_load(&remotes[handle & (MRAPI_MAX_RMEMS - 1)]);
	if (!f || !tw_mrapi_is(&f->r.obj, handle))
		return MRAPI_ERR_RMEM_INVALID;
	*remote = f;
	return MRAPI_SUCCESS;
}

/* -------------------------------------------------------------------- find */

static bool idle(struct tw_mrapi_remote *f)
{
	return !atomic_load(&f->r.obj.handle) || tw_mrapi_nodeset_empty(&f->r.attached);
}

/* The known entry, else one that is free or unattached. */
static struct tw_mrapi_remote *entry_for(uint32_t owner_handle, const struct tw_member *owner,
					 uint32_t *slot)
{
	struct tw_mrapi_remote *f, *spare = NULL;
	uint32_t spare_slot = 0;

	for (*slot = 0; *slot < MRAPI_MAX_RMEMS; ++*slot) {
		f = atomic_load(&remotes[*slot]);
		if (!f)
			break;
		if (atomic_load(&f->r.obj.handle) && f->owner_handle == owner_handle &&
		    f->owner == owner)
			return f;
		if (idle(f) && (!spare || !atomic_load(&f->r.obj.handle))) {
			spare = f;
			spare_slot = *slot;
		}
	}
	if (*slot < MRAPI_MAX_RMEMS && (!spare || atomic_load(&spare->r.obj.handle))) {
		f = calloc(1, sizeof(*f));
		atomic_store(&remotes[*slot], f);
		return f;
	}
	*slot = spare_slot;
	if (spare)
		atomic_store(&spare->r.obj.handle, 0);
	return spare;
}

static mrapi_status_t enter(const struct tw_mrapi_rmem *r, struct tw_member *owner,
			    uint32_t *handle)
{
	uint32_t slot;
	struct tw_mrapi_remote *f = entry_for(r->obj.there, owner, &slot);

	if (!f)
		return MRAPI_ERR_MEM_LIMIT;
	*handle = atomic_load(&f->r.obj.handle);
	if (*handle)
		return MRAPI_SUCCESS;
	f->owner = owner;
	f->owner_handle = r->obj.there;
	f->r.obj.id = r->obj.id;
	f->r.obj.domain = r->obj.domain;
	f->r.obj.flags = r->obj.flags;
	f->r.size = r->size;
	f->r.atype = r->atype;
	tw_mrapi_nodeset_clear(&f->r.attached);
	*handle = (uint32_t)TW_MRAPI_REMOTE << TW_MRAPI_KIND_SHIFT | slot |
		  (++f->r.obj.gen & TW_MRAPI_GEN_MASK) << TW_MRAPI_GEN_SHIFT;
	atomic_store(&f->r.obj.handle, *handle);
	return MRAPI_SUCCESS;
}

mrapi_status_t tw_mrapi_remote_get(uint32_t *handle)
{
	struct tw_mrapi_rmem *at = &tw_mrapi.seg->rmem[*handle % MRAPI_MAX_RMEMS], r;
	mrapi_status_t status = MRAPI_ERR_RMEM_ID_INVALID;
	struct tw_ep *ep = tw_mrapi_net_enter();
	struct tw_member *owner = NULL;
	uint64_t where;

	if (!ep)
		return status;
	tw_mrapi_admin_lock();
	r = *at;
	where = r.owner ? tw_mrapi_node(r.owner)->where : 0;
	tw_mrapi_admin_unlock();
	if (atomic_load(&r.obj.handle) == *handle)
		owner = tw_mrapi_net_reach(ep, where);
	if (owner)
		status = enter(&r, owner, handle);
	tw_group_leave(ep);
	return status;
}

/* ------------------------------------------------------------------ attach */

static void forget(struct tw_mrapi_remote *f)
{
	atomic_store(&f->r.obj.handle, 0);
}

/* Sends the owner a request about its memory. */
static mrapi_status_t request(struct tw_mrapi_remote *f, enum tw_mrapi_ctrl_type what)
{
	struct tw_mrapi_ctrl ctrl = {.what = what, .handle = f->owner_handle};
	struct tw_ep *ep = atomic_load(&f->r.obj.handle) ? tw_mrapi_net_enter() : NULL;
	mrapi_status_t status = MRAPI_ERR_RMEM_INVALID;

	if (!ep)
		return status;
	status = tw_mrapi_net_request(ep, f->owner, &ctrl);
	if (what == TW_MRAPI_CTRL_CHECK && status == MRAPI_ERR_RMEM_INVALID)
		forget(f);
	tw_group_leave(ep);
	return status;
}

mrapi_status_t tw_mrapi_remote_check(struct tw_mrapi_remote *f)
{
	return request(f, TW_MRAPI_CTRL_CHECK);
}

mrapi_status_t tw_mrapi_remote_attach(struct tw_mrapi_remote *f)
{
	return request(f, TW_MRAPI_CTRL_ATTACH);
}

void tw_mrapi_remote_detach(struct tw_mrapi_remote *f)
{
	request(f, TW_MRAPI_CTRL_DETACH);
}

/* --------------------------------------------------------------------- end */

void tw_mrapi_remote_release(uint32_t me)
{
	for (uint32_t i = 0; i < MRAPI_MAX_RMEMS && atomic_load(&remotes[i]); i++)
		tw_mrapi_nodeset_del(&atomic_load(&remotes[i])->r.attached, me - 1);
}

/* Forgets the memory of that owner, or all; with that handle there, or any. */
static void forget_of(const struct tw_member *owner, uint32_t owner_handle)
{
	for (uint32_t i = 0; i < MRAPI_MAX_RMEMS; i++) {
		struct tw_mrapi_remote *f = atomic_load(&remotes[i]);

		if (!f)
			break;
		if ((!owner || f->owner == owner) &&
		    (!owner_handle || f->owner_handle == owner_handle))
			forget(f);
	}
}

void tw_mrapi_remote_lost(const struct tw_member *owner)
{
	forget_of(owner, 0);
}

void tw_mrapi_remote_deleted(const struct tw_member *owner, uint32_t owner_handle)
{
	if (owner_handle)
		forget_of(owner, owner_handle);
}

void tw_mrapi_remote_forget(void)
{
	forget_of(NULL, 0);
}
