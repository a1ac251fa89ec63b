/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What processes of other hosts ask of this one, and which of its remote memory
 * they are attached to. A loan keeps the memory from being deleted; it ends with
 * a DETACH, with the connection, or with the node that owns the memory.
 */
#include <stdlib.h>

#include "mrapi/net.h"

struct loan {
	struct tw_list link;
	struct tw_addr to;
	uint32_t handle;
	bool registered;
	struct tw_mr mr;
};

static struct tw_list loans = {&loans, &loans};

static struct loan *find_loan(uint32_t handle, struct tw_addr to)
{
	struct tw_list *pos, *tmp;

	tw_list_each(&loans, pos, tmp) {
		struct loan *l = tw_container(pos, struct loan, link);

		if (l->handle == handle && tw_mr_same(l->to, to))
			return l;
	}
	return NULL;
}

static void deregister(struct tw_ep *ep, struct loan *l)
{
	struct tw_peer *p = tw_peer_at(ep, l->to);

	/* Registrations end with the link. */
	if (l->registered && p && p->link)
		p->link->provider->mem_dereg(p->link, &l->mr);
	l->registered = false;
}

static void end_loan(struct tw_ep *ep, struct loan *l)
{
	deregister(ep, l);
	tw_list_del(&l->link);
	free(l);
}

/* ------------------------------------------------------------- what is asked */

/* The memory, if it is of this process. */
static struct tw_mr_rmem *own(uint32_t handle)
{
	struct tw_mr_rmem *r = &tw_mr.seg->rmem[handle % MRAPI_MAX_RMEMS];

	return tw_mr_is(&r->obj, handle) && tw_mr_node(r->owner)->proc == tw_mr.proc ? r : NULL;
}

/* Whoever has that id at this host; under the admin lock. */
static struct tw_mr_rmem *find_id(uint32_t id)
{
	struct tw_mr_segment *seg = tw_mr.seg;

	for (uint32_t i = 0; i < seg->table[TW_MR_RMEM].high; i++)
		if (atomic_load(&seg->rmem[i].obj.handle) && seg->rmem[i].obj.id == id)
			return &seg->rmem[i];
	return NULL;
}

static mrapi_status_t look(struct tw_mr_say *say)
{
	mrapi_status_t status = MRAPI_ERR_RMEM_ID_INVALID;
	uint32_t from = say->domain;
	struct tw_mr_rmem *r;

	tw_mr_admin_lock();
	r = find_id(say->id);
	if (r) {
		say->handle = atomic_load(&r->obj.handle);
		say->domain = r->obj.domain;
		say->flags = r->obj.flags;
		say->size = r->size;
		say->atype = r->atype;
		say->proc = tw_mr_node(r->owner)->proc;
		status = (say->flags & TW_MR_DOMAIN_SHARED) || say->domain == from
				 ? MRAPI_SUCCESS
				 : MRAPI_ERR_DOMAIN_NOTSHARED;
	}
	tw_mr_admin_unlock();
	return status;
}

/* Lets the peer at the memory itself, where its path can. */
static void give_key(struct tw_ep *ep, struct loan *l, struct tw_mr_rmem *r, struct tw_mr_say *say)
{
	struct tw_link *link = tw_peer_at(ep, l->to)->link;

	say->key_len = 0;
	if (!link->can_get || !link->key_size)
		return;
	deregister(ep, l);
	l->registered = link->provider->mem_reg(link, (void *)(uintptr_t)r->address, r->size,
						&l->mr) == TW_OK;
	if (!l->registered)
		return;
	say->address = l->mr.address;
	say->key_len = link->key_size;
	memcpy(say->key, l->mr.key, sizeof(say->key));
}

static mrapi_status_t attach(struct tw_ep *ep, struct tw_addr from, struct tw_mr_say *say)
{
	struct tw_mr_rmem *r = own(say->handle);
	struct loan *l = find_loan(say->handle, from);

	if (!r)
		return MRAPI_ERR_RMEM_INVALID;
	if (!l) {
		l = calloc(1, sizeof(*l));
		if (!l)
			return MRAPI_ERR_MEM_LIMIT;
		l->to = from;
		l->handle = say->handle;
		tw_list_add_tail(&loans, &l->link);
	}
	give_key(ep, l, r, say);
	return MRAPI_SUCCESS;
}

static mrapi_status_t detach(struct tw_ep *ep, struct tw_addr from, const struct tw_mr_say *say)
{
	struct loan *l = find_loan(say->handle, from);

	if (!l)
		return MRAPI_ERR_RMEM_INVALID;
	end_loan(ep, l);
	return MRAPI_SUCCESS;
}

/* Whether a part may be moved, and where. */
static mrapi_status_t check_part(struct tw_addr from, const struct tw_mr_say *say, char **at)
{
	struct tw_mr_rmem *r = own(say->handle);

	if (!r || !find_loan(say->handle, from))
		return MRAPI_ERR_RMEM_INVALID;
	if (say->bytes == 0 || say->n == 0 || (uint64_t)say->bytes * say->n > TW_MR_CHUNK ||
	    say->remote > r->size ||
	    (uint64_t)(say->n - 1) * say->stride + say->bytes > r->size - say->remote)
		return MRAPI_ERR_RMEM_BUFF_OVERRUN;
	*at = (char *)(uintptr_t)(r->address + say->remote);
	return MRAPI_SUCCESS;
}

static mrapi_status_t read_part(struct tw_ep *ep, struct tw_addr from, const struct tw_mr_say *say)
{
	struct tw_mr_letter *l;
	char *at;
	mrapi_status_t status = check_part(from, say, &at);

	if (status != MRAPI_SUCCESS)
		return status;
	l = tw_mr_letter_new(say, say->bytes * say->n);
	if (!l)
		return MRAPI_ERR_MEM_LIMIT;
	tw_mr_pack(l->data, at, say->bytes, say->stride, say->n, true);
	tw_mr_net_post_data(ep, from, l, say->bytes * say->n);
	return MRAPI_SUCCESS;
}

static mrapi_status_t write_part(struct tw_addr from, const struct tw_mr_say *say, const char *data,
				 uint32_t len)
{
	char *at;
	mrapi_status_t status = check_part(from, say, &at);

	if (status != MRAPI_SUCCESS)
		return status;
	if (len != (uint64_t)say->bytes * say->n)
		return MRAPI_ERR_PARAMETER;
	tw_mr_pack((char *)(uintptr_t)data, at, say->bytes, say->stride, say->n, false);
	return MRAPI_SUCCESS;
}

void tw_mr_lend_serve(struct tw_ep *ep, struct tw_addr from, struct tw_mr_say *say,
		      const char *data, uint32_t len)
{
	mrapi_status_t status = MRAPI_ERR_PARAMETER;

	switch (say->what) {
	case TW_MR_SAY_LOOK:
		status = look(say);
		break;
	case TW_MR_SAY_CHECK:
		status = own(say->handle) ? MRAPI_SUCCESS : MRAPI_ERR_RMEM_INVALID;
		break;
	case TW_MR_SAY_ATTACH:
		status = attach(ep, from, say);
		break;
	case TW_MR_SAY_DETACH:
		status = detach(ep, from, say);
		break;
	case TW_MR_SAY_READ:
		status = read_part(ep, from, say);
		if (status == MRAPI_SUCCESS)
			return; /* the bytes are the answer */
		break;
	case TW_MR_SAY_WRITE:
		status = write_part(from, say, data, len);
		break;
	}
	say->what = TW_MR_SAY_TOLD;
	say->status = (int32_t)status;
	tw_mr_net_say(ep, from, say);
}

/* ------------------------------------------------------------------- the ends */

bool tw_mr_lent(uint32_t handle)
{
	struct tw_list *pos, *tmp;

	tw_list_each(&loans, pos, tmp)
		if (tw_container(pos, struct loan, link)->handle == handle)
			return true;
	return false;
}

static struct loan *first_ended(void)
{
	struct tw_list *pos, *tmp;

	tw_list_each(&loans, pos, tmp) {
		struct loan *l = tw_container(pos, struct loan, link);

		if (!own(l->handle))
			return l;
	}
	return NULL;
}

void tw_mr_lend_prune(void)
{
	struct tw_ep *ep = tw_mr_net_enter();
	struct loan *l;

	if (!ep)
		return;
	while ((l = first_ended())) {
		struct tw_mr_say say = {.what = TW_MR_SAY_GONE, .handle = l->handle};
		struct tw_addr to = l->to;

		end_loan(ep, l);
		tw_mr_net_say(ep, to, &say); /* may make progress, and end others */
	}
	tw_mr_net_leave(ep);
}

void tw_mr_lend_down(const struct tw_peer *p)
{
	struct tw_list *pos, *tmp;

	tw_list_each(&loans, pos, tmp) {
		struct loan *l = tw_container(pos, struct loan, link);

		if (tw_mr_same(l->to, p->addr))
			end_loan(p->ep, l);
	}
}

void tw_mr_lend_forget(void)
{
	while (!tw_list_empty(&loans)) {
		struct loan *l = tw_list_first(&loans, struct loan, link);

		tw_list_del(&l->link);
		free(l);
	}
}
