/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exports: remote memory of this process to which processes on other hosts are attached.
 * An exported memory cannot be deleted. An export ends with a DETACH request, with the
 * connection, or with the node that owns the memory.
 */
#include <stdlib.h>

#include "mrapi/net.h"

struct export
{
	struct tw_list link;
	struct tw_member *to;
	uint32_t handle;
	bool registered;
	struct tw_mem_reg mr;
};

static struct tw_list exports = {&exports, &exports};

static struct export *find_export(uint32_t handle, const struct tw_member *to)
{
	tw_list_walk(&exports, struct export, l, link) {
		if (l->handle == handle && l->to == to)
			return l;
	}
	return NULL;
}

static void deregister(struct tw_ep *ep, struct export *l)
{
	struct tw_peer *p = tw_peer_at(ep, l->to->addr);

	/* The provider drops registrations with the link. */
	if (l->registered && p && p->link)
		p->link->provider->mem_dereg(p->link, &l->mr);
	l->registered = false;
}

static void end_export(struct tw_ep *ep, struct export *l)
{
	deregister(ep, l);
	tw_list_del(&l->link);
	free(l);
}

/* ------------------------------------------------------------------ requests */

/* NULL if the memory is not this process's. */
static struct tw_mrapi_rmem *own(uint32_t handle)
{
	struct tw_mrapi_rmem *r = &tw_mrapi.seg->rmem[handle % MRAPI_MAX_RMEMS];

	return tw_mrapi_is(&r->obj, handle) && tw_mrapi_node(r->owner)->proc == tw_mrapi.proc
		       ? r
		       : NULL;
}

/* Any memory of this host with that id. Under the admin lock. */
static struct tw_mrapi_rmem *find_id(uint32_t id)
{
	struct tw_mrapi_segment *seg = tw_mrapi.seg;

	for (uint32_t i = 0; i < seg->table[TW_MRAPI_RMEM].high; i++)
		if (atomic_load(&seg->rmem[i].obj.handle) && seg->rmem[i].obj.id == id)
			return &seg->rmem[i];
	return NULL;
}

static mrapi_status_t look_up(struct tw_mrapi_ctrl *ctrl)
{
	mrapi_status_t status = MRAPI_ERR_RMEM_ID_INVALID;
	uint32_t from = ctrl->domain;
	struct tw_mrapi_rmem *r;

	tw_mrapi_admin_lock();
	r = find_id(ctrl->id);
	if (r) {
		ctrl->handle = atomic_load(&r->obj.handle);
		ctrl->domain = r->obj.domain;
		ctrl->flags = r->obj.flags;
		ctrl->size = r->size;
		ctrl->atype = r->atype;
		ctrl->proc = tw_mrapi_node(r->owner)->proc;
		status = (ctrl->flags & TW_MRAPI_DOMAIN_SHARED) || ctrl->domain == from
				 ? MRAPI_SUCCESS
				 : MRAPI_ERR_DOMAIN_NOTSHARED;
	}
	tw_mrapi_admin_unlock();
	return status;
}

/* Registers the memory for one-sided access, if the provider can. */
static void give_key(struct tw_ep *ep, struct export *l, struct tw_mrapi_rmem *r,
		     struct tw_mrapi_ctrl *ctrl)
{
	struct tw_link *link = tw_peer_at(ep, l->to->addr)->link;

	ctrl->key_len = 0;
	if (!link->can_get || !link->key_size)
		return;
	deregister(ep, l);
	l->registered = link->provider->mem_reg(link, (void *)(uintptr_t)r->address, r->size,
						&l->mr) == TW_OK;
	if (!l->registered)
		return;
	ctrl->address = l->mr.address;
	ctrl->key_len = link->key_size;
	memcpy(ctrl->key, l->mr.key, sizeof(ctrl->key));
}

static mrapi_status_t attach(struct tw_ep *ep, struct tw_member *from, struct tw_mrapi_ctrl *ctrl)
{
	struct tw_mrapi_rmem *r = own(ctrl->handle);
	struct export *l = find_export(ctrl->handle, from);

	if (!r)
		return MRAPI_ERR_RMEM_INVALID;
	if (!l) {
		l = calloc(1, sizeof(*l));
		if (!l)
			return MRAPI_ERR_MEM_LIMIT;
		l->to = from;
		l->handle = ctrl->handle;
		tw_list_add_tail(&exports, &l->link);
	}
	give_key(ep, l, r, ctrl);
	return MRAPI_SUCCESS;
}

static mrapi_status_t detach(struct tw_ep *ep, struct tw_member *from,
			     const struct tw_mrapi_ctrl *ctrl)
{
	struct export *l = find_export(ctrl->handle, from);

	if (!l)
		return MRAPI_ERR_RMEM_INVALID;
	end_export(ep, l);
	return MRAPI_SUCCESS;
}

/* Checks a READ or WRITE; the address of its first byte. */
static mrapi_status_t check_part(struct tw_member *from, const struct tw_mrapi_ctrl *ctrl, char **at)
{
	struct tw_mrapi_rmem *r = own(ctrl->handle);

	if (!r || !find_export(ctrl->handle, from))
		return MRAPI_ERR_RMEM_INVALID;
	if (ctrl->bytes == 0 || ctrl->n == 0 || (uint64_t)ctrl->bytes * ctrl->n > TW_MRAPI_CHUNK ||
	    ctrl->remote > r->size ||
	    (uint64_t)(ctrl->n - 1) * ctrl->stride + ctrl->bytes > r->size - ctrl->remote)
		return MRAPI_ERR_RMEM_BUFF_OVERRUN;
	*at = (char *)(uintptr_t)(r->address + ctrl->remote);
	return MRAPI_SUCCESS;
}

static mrapi_status_t read_part(struct tw_ep *ep, struct tw_member *from,
				const struct tw_mrapi_ctrl *ctrl)
{
	struct tw_mrapi_data *d;
	char *at;
	mrapi_status_t status = check_part(from, ctrl, &at);

	if (status != MRAPI_SUCCESS)
		return status;
	d = tw_mrapi_net_data(ctrl->bytes * ctrl->n);
	if (!d)
		return MRAPI_ERR_MEM_LIMIT;
	tw_mrapi_pack(d->bytes, at, ctrl->bytes, ctrl->stride, ctrl->n, true);
	return tw_mrapi_net_give(ep, from, ctrl->number, d) ? MRAPI_SUCCESS : MRAPI_ERR_MEM_LIMIT;
}

static mrapi_status_t write_part(struct tw_member *from, const struct tw_mrapi_ctrl *ctrl,
				 const char *data, uint32_t len)
{
	char *at;
	mrapi_status_t status = check_part(from, ctrl, &at);

	if (status != MRAPI_SUCCESS)
		return status;
	if (len != (uint64_t)ctrl->bytes * ctrl->n)
		return MRAPI_ERR_PARAMETER;
	tw_mrapi_pack((char *)(uintptr_t)data, at, ctrl->bytes, ctrl->stride, ctrl->n, false);
	return MRAPI_SUCCESS;
}

void tw_mrapi_export_serve(struct tw_ep *ep, struct tw_member *from, struct tw_mrapi_ctrl *ctrl,
			   const char *data, uint32_t len)
{
	mrapi_status_t status = MRAPI_ERR_PARAMETER;

	switch (ctrl->what) {
	case TW_MRAPI_CTRL_FIND:
		status = look_up(ctrl);
		break;
	case TW_MRAPI_CTRL_CHECK:
		status = own(ctrl->handle) ? MRAPI_SUCCESS : MRAPI_ERR_RMEM_INVALID;
		break;
	case TW_MRAPI_CTRL_ATTACH:
		status = attach(ep, from, ctrl);
		break;
	case TW_MRAPI_CTRL_DETACH:
		status = detach(ep, from, ctrl);
		break;
	case TW_MRAPI_CTRL_READ:
		status = read_part(ep, from, ctrl);
		if (status == MRAPI_SUCCESS)
			return; /* the data is the reply */
		break;
	case TW_MRAPI_CTRL_WRITE:
		status = write_part(from, ctrl, data, len);
		break;
	}
	ctrl->what = TW_MRAPI_CTRL_REPLY;
	ctrl->status = (int32_t)status;
	tw_ctrl_send(from, 0, ctrl, sizeof(*ctrl));
}

/* ----------------------------------------------------------------------- end */

bool tw_mrapi_exports(uint32_t handle)
{
	struct tw_list *pos, *tmp;

	tw_list_each(&exports, pos, tmp)
		if (tw_container(pos, struct export, link)->handle == handle)
			return true;
	return false;
}

static struct export *first_ended(void)
{
	tw_list_walk(&exports, struct export, l, link) {
		if (!own(l->handle))
			return l;
	}
	return NULL;
}

void tw_mrapi_export_prune(void)
{
	struct tw_ep *ep = tw_mrapi_net_enter();
	struct export *l;

	if (!ep)
		return;
	while ((l = first_ended())) {
		struct tw_mrapi_ctrl ctrl = {.what = TW_MRAPI_CTRL_DELETED, .handle = l->handle};

		tw_ctrl_send(l->to, 0, &ctrl, sizeof(ctrl));
		end_export(ep, l);
	}
	tw_mrapi_net_leave(ep);
}

void tw_mrapi_export_lost(const struct tw_member *m)
{
	tw_list_walk(&exports, struct export, l, link) {
		if (l->to == m)
			end_export(m->group->ep, l);
	}
}

void tw_mrapi_export_forget(void)
{
	while (!tw_list_empty(&exports)) {
		struct export *l = tw_list_first(&exports, struct export, link);

		tw_list_del(&l->link);
		free(l);
	}
}
