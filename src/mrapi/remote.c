/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Remote memory whose owner is on another host. Its name is here, as that of a lock is; while a
 * process is attached, the owner cannot delete it. The death of an owner ends the connection.
 */
#include "mrapi/net.h"

/* The process that has it, and its handle there; NULL: it is gone, or cannot be reached. */
static struct tw_member *owner_of(struct tw_ep *ep, struct tw_mrapi_rmem *r, uint32_t handle,
				  uint32_t *there)
{
	uint64_t where = 0;

	tw_mrapi_admin_lock();
	if (tw_mrapi_is(&r->obj, handle) && r->obj.host)
		where = tw_mrapi_node(r->owner)->where;
	*there = r->obj.there;
	tw_mrapi_admin_unlock();
	return where ? tw_mrapi_net_reach(ep, where) : NULL;
}

bool tw_mrapi_remote_reach(struct tw_mrapi_rmem *r, uint32_t handle)
{
	struct tw_ep *ep = tw_mrapi_net_enter();
	uint32_t there;
	bool reached;

	if (!ep)
		return false;
	reached = owner_of(ep, r, handle, &there) != NULL;
	tw_group_leave(ep);
	return reached;
}

mrapi_status_t tw_mrapi_remote_attach(struct tw_mrapi_client *c, uint32_t handle)
{
	struct tw_mrapi_ctrl ctrl = {.what = TW_MRAPI_CTRL_ATTACH};
	struct tw_ep *ep = tw_mrapi_net_enter();
	mrapi_status_t status = MRAPI_ERR_RMEM_INVALID;
	uint32_t there;

	if (!ep)
		return status;
	c->owner = owner_of(ep, c->r, handle, &there);
	ctrl.handle = there;
	atomic_store(&c->there, there);
	if (c->owner)
		status = tw_mrapi_net_request(ep, c->owner, &ctrl);
	if (status != MRAPI_SUCCESS)
		c->owner = NULL;
	tw_group_leave(ep);
	return status;
}

void tw_mrapi_remote_detach(struct tw_mrapi_client *c)
{
	struct tw_mrapi_ctrl ctrl = {.what = TW_MRAPI_CTRL_DETACH, .handle = c->there};
	struct tw_ep *ep = tw_mrapi_net_enter();

	if (ep && c->there)
		tw_mrapi_net_request(ep, c->owner, &ctrl);
	c->owner = NULL;
	if (ep)
		tw_group_leave(ep);
}
