/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exports: remote memory of this process to which processes on other hosts are attached.
 * An exported memory cannot be deleted. An export ends with a DETACH request, with the
 * connection, or with the node that owns the memory.
 */
#include <stdlib.h>

#include "engine/window.h"
#include "mrapi/remote/net.h"

struct export
{
	struct tw_list link;
	struct tw_member *to;
	uint32_t handle; /* also the key of the memory's window, which all exports of it share */
};

static struct tw_list exports = {&exports, &exports};

/* An export of that memory, to that member unless it is NULL; or NULL. */
static struct export *find_export(uint32_t handle, const struct tw_member *to)
{
	tw_list_walk(&exports, struct export, l, link) {
		if (l->handle == handle && (l->to == to || !to))
			return l;
	}
	return NULL;
}

bool tw_mrapi_exports(uint32_t handle)
{
	return find_export(handle, NULL) != NULL;
}

/* With the last export of a memory goes its window. Those that used it have let go before. */
static void end_export(struct tw_ep *ep, struct export *l)
{
	tw_list_del(&l->link);
	if (!tw_mrapi_exports(l->handle))
		tw_window_take_back(ep, tw_window_end(ep, l->handle));
	free(l);
}

/* ------------------------------------------------------------------ requests */

static mrapi_status_t export_attach(struct tw_ep *ep, struct tw_member *from, uint32_t handle)
{
	struct tw_mrapi_rmem *r = tw_mrapi_own_rmem(handle);
	uint64_t key = handle;
	struct export *l;

	if (!r)
		return MRAPI_ERR_RMEM_INVALID;
	if (find_export(handle, from))
		return MRAPI_SUCCESS;
	l = calloc(1, sizeof(*l));
	if (!l)
		return MRAPI_ERR_MEM_LIMIT;
	if (!tw_mrapi_exports(handle) &&
	    tw_window_register(ep, (void *)(uintptr_t)r->address, r->size,
			       TW_WINDOW_READ | TW_WINDOW_WRITE, &key) != TW_OK) {
		free(l);
		return MRAPI_ERR_MEM_LIMIT;
	}
	l->to = from;
	l->handle = handle;
	tw_list_add_tail(&exports, &l->link);
	return MRAPI_SUCCESS;
}

mrapi_status_t tw_mrapi_export_serve(struct tw_ep *ep, struct tw_member *from,
				     const struct tw_mrapi_ctrl *ctrl)
{
	struct export *l = find_export(ctrl->handle, from);

	if (ctrl->what == TW_MRAPI_CTRL_ATTACH)
		return export_attach(ep, from, ctrl->handle);
	if (ctrl->what != TW_MRAPI_CTRL_DETACH)
		return MRAPI_ERR_PARAMETER;
	if (!l)
		return MRAPI_ERR_RMEM_INVALID;
	end_export(ep, l);
	return MRAPI_SUCCESS;
}

/* ----------------------------------------------------------------------- end */

static struct export *first_ended(void)
{
	tw_list_walk(&exports, struct export, l, link) {
		if (!tw_mrapi_own_rmem(l->handle))
			return l;
	}
	return NULL;
}

void tw_mrapi_export_prune(void)
{
	struct export *l;

	tw_mrapi_with_ep(ep) while ((l = first_ended()))
	{
		uint64_t window = tw_window_end(ep, l->handle);

		end_export(ep, l);
		/* Some may be using it. */
		if (window)
			tw_window_wait(ep, window);
	}
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
	struct export *l;

	while ((l = tw_list_take(&exports, struct export, link)))
		free(l);
}
