/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Remote memory whose owner is on another host. Its handle is valid in this process
 * only. While a process is attached, the owner cannot delete it. The death of an owner
 * ends the connection.
 */
#include <stdlib.h>

#include "mrapi/net.h"

#define LIKELY 32	   /* slots that are always tried for a member */
#define SEARCH_US 5000000u /* minimum interval between searches of all slots */

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

/*
 * Connects to any member on a host: each has the host's segment. Slots are assigned
 * lowest first, so low ones are tried first. A search of all slots takes long, and
 * programs repeat a get until the memory exists; so it is limited.
 */
static bool reach_any(struct tw_ep *ep, uint64_t nic, uint32_t n, struct tw_member **member)
{
	static uint64_t last_nic;
	static uint32_t last_proc; /* that replied */
	enum tw_status status = TW_S_CLOSED;

	if (last_nic == nic)
		status = tw_mrapi_net_reach(ep, nic, last_proc, member);
	/* The port of a free number may be another user's, who rejects. */
	for (uint32_t i = 0; i < n && (status == TW_S_CLOSED || status == TW_S_REJECTED); i++) {
		status = tw_mrapi_net_reach(ep, nic, i, member);
		last_nic = nic;
		last_proc = i;
	}
	if (status != TW_S_OK)
		last_nic = 0;
	return status == TW_S_OK;
}

static mrapi_status_t look_up(struct tw_ep *ep, uint64_t nic, uint32_t members, mrapi_rmem_id_t id,
			      struct tw_mrapi_ctrl *reply, struct tw_member **owner)
{
	mrapi_status_t status;

	*reply = (struct tw_mrapi_ctrl){.what = TW_MRAPI_CTRL_FIND,
					.id = id,
					.domain = tw_mrapi_node(tw_mrapi_me())->domain};
	if (!reach_any(ep, nic, members, owner))
		return MRAPI_ERR_RMEM_ID_INVALID;
	status = tw_mrapi_net_request(ep, *owner, reply);
	if (status != MRAPI_SUCCESS)
		return status == MRAPI_ERR_RMEM_INVALID ? MRAPI_ERR_RMEM_ID_INVALID : status;
	if (((*owner)->where & 0xffff) == TW_MRAPI_FIRST_ID + reply->proc)
		return MRAPI_SUCCESS;
	return tw_mrapi_net_reach(ep, nic, reply->proc, owner) == TW_S_OK
		       ? MRAPI_SUCCESS
		       : MRAPI_ERR_RMEM_ID_INVALID;
}

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

static mrapi_status_t enter(const struct tw_mrapi_ctrl *ctrl, struct tw_member *owner,
			    uint32_t *handle)
{
	uint32_t slot;
	struct tw_mrapi_remote *f = entry_for(ctrl->handle, owner, &slot);

	if (!f)
		return MRAPI_ERR_MEM_LIMIT;
	*handle = atomic_load(&f->r.obj.handle);
	if (*handle)
		return MRAPI_SUCCESS;
	f->owner = owner;
	f->owner_handle = ctrl->handle;
	f->r.obj.id = ctrl->id;
	f->r.obj.domain = ctrl->domain;
	f->r.obj.flags = (uint16_t)ctrl->flags;
	f->r.size = ctrl->size;
	f->r.atype = (uint16_t)ctrl->atype;
	tw_mrapi_nodeset_clear(&f->r.attached);
	*handle = (uint32_t)TW_MRAPI_REMOTE << TW_MRAPI_KIND_SHIFT | slot |
		  (++f->r.obj.gen & TW_MRAPI_GEN_MASK) << TW_MRAPI_GEN_SHIFT;
	atomic_store(&f->r.obj.handle, *handle);
	return MRAPI_SUCCESS;
}

mrapi_status_t tw_mrapi_remote_get(mrapi_rmem_id_t id, uint32_t *handle)
{
	mrapi_status_t status = MRAPI_ERR_RMEM_ID_INVALID;
	struct tw_ep *ep = tw_mrapi_net_enter();
	const uint64_t *nics;
	unsigned n = tw_mrapi_net_hosts(&nics);
	static uint64_t searched; /* time of the last full search */
	uint32_t members = LIKELY;
	struct tw_mrapi_ctrl reply;
	struct tw_member *owner;

	if (!ep)
		return status;
	if (!searched || tw_clock() - searched > tw_clock_us(SEARCH_US)) {
		members = TW_MRAPI_PROCS;
		searched = tw_clock();
	}
	for (unsigned i = 0; i < n && status == MRAPI_ERR_RMEM_ID_INVALID; i++)
		status = look_up(ep, nics[i], members, id, &reply, &owner);
	if (status == MRAPI_SUCCESS)
		status = enter(&reply, owner, handle);
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
