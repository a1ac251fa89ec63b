/* SPDX-License-Identifier: BSD-2-Clause */
/* Address vectors. A fi_addr_t is an index in both types; a hash finds it by the address. */
#include <stdio.h>
#include <stdlib.h>

#include "fi/fi.h"

#define FIRST 64

static uint32_t av_slot_of(const struct tw_fi_av *av, uint64_t where)
{
	return (uint32_t)((where * 0x9e3779b97f4a7c15) >> 32) & (av->buckets - 1);
}

static uint32_t next_slot(const struct tw_fi_av *av, uint32_t slot)
{
	return (slot + 1) & (av->buckets - 1);
}

/* Where an address is, or would be: the slot is free. */
static uint32_t find_slot(const struct tw_fi_av *av, uint64_t where)
{
	uint32_t i = av_slot_of(av, where);

	while (av->hash[i] && av->entries[av->hash[i] - 1].where != where)
		i = next_slot(av, i);
	return i;
}

static bool av_grow(struct tw_fi_av *av, uint32_t max)
{
	struct tw_fi_av_entry *entries = realloc(av->entries, max * sizeof(*entries));
	uint32_t *hash = calloc(2 * (size_t)max, sizeof(*hash)), *old = av->hash;
	uint32_t n = av->buckets;

	if (entries)
		av->entries = entries;
	if (!entries || !hash) {
		free(hash);
		return false;
	}
	av->hash = hash;
	av->max = max;
	av->buckets = 2 * max;
	for (uint32_t i = 0; i < n; i++)
		if (old[i])
			hash[find_slot(av, entries[old[i] - 1].where)] = old[i];
	free(old);
	return true;
}

/* The index that was removed last, or else the next. */
static bool take_index(struct tw_fi_av *av, uint32_t *index)
{
	if (av->unused) {
		*index = av->unused - 1;
		av->unused = av->entries[*index].next;
		return true;
	}
	if (av->n == av->max && !av_grow(av, 2 * av->max))
		return false;
	*index = av->n++;
	return true;
}

/* The last of the ring of its address, which a hash finds by its first. */
static void av_enter(struct tw_fi_av *av, uint32_t index, uint64_t where)
{
	struct tw_fi_av_entry *all = av->entries, *e = &all[index];
	uint32_t *slot = &av->hash[find_slot(av, where)];

	*e = (struct tw_fi_av_entry){where, index, index};
	if (!*slot) {
		*slot = index + 1;
		return;
	}
	e->next = *slot - 1;
	e->last = all[e->next].last;
	all[e->last].next = all[e->next].last = index;
}

/* Those behind it, which are not where they belong, move up. */
static void empty_slot(struct tw_fi_av *av, uint32_t hole)
{
	for (uint32_t i = next_slot(av, hole); av->hash[i]; i = next_slot(av, i)) {
		uint32_t home = av_slot_of(av, av->entries[av->hash[i] - 1].where);

		if (((i - home) & (av->buckets - 1)) < ((i - hole) & (av->buckets - 1)))
			continue;
		av->hash[hole] = av->hash[i];
		hole = i;
	}
	av->hash[hole] = 0;
}

/* Its index is not free yet. False if it is not there. */
static bool remove_one(struct tw_fi_av *av, fi_addr_t index)
{
	struct tw_fi_av_entry *all = av->entries, *e = &all[index];
	uint32_t slot;

	if (index >= av->n || !e->where)
		return false;
	slot = find_slot(av, e->where);
	if (e->next == index)
		empty_slot(av, slot);
	else if (av->hash[slot] == index + 1)
		av->hash[slot] = e->next + 1;
	all[e->last].next = e->next;
	all[e->next].last = e->last;
	e->where = 0;
	return true;
}

static int insert_one(struct tw_fi_av *av, const struct tw_fi_addr *a, fi_addr_t *out)
{
	uint32_t i;
	int rc = -FI_ENOMEM;

	if (a->endpoint_id >= TW_FI_IDS || a->nic_id >> 48 || !a->nic_id)
		return -FI_EINVAL;
	tw_mutex_lock(&av->mutex);
	if (take_index(av, &i)) {
		av_enter(av, i, tw_fi_where(a));
		*out = i;
		rc = 0;
	}
	tw_mutex_unlock(&av->mutex);
	return rc;
}

/* Addresses that a call inserts, and what it says of each. */
struct insertion {
	struct tw_fi_av *av;
	fi_addr_t *out;
	int *errors; /* FI_SYNC_ERR */
	void *context;
	uint64_t n;
	int good;
};

static int av_begin(struct insertion *in, struct fid_av *fid, fi_addr_t *out, uint64_t flags,
		    void *context)
{
	struct tw_fi_av *av = tw_fi_of(struct tw_fi_av, fid);

	if (flags & ~(FI_MORE | FI_SYNC_ERR))
		return -FI_EBADFLAGS;
	if ((av->flags & FI_EVENT) && !av->eq)
		return -FI_ENOEQ;
	*in = (struct insertion){av, out, flags & FI_SYNC_ERR ? context : NULL, context, 0, 0};
	return 0;
}

/* One more; rc: why there is no address. */
static void insert(struct insertion *in, const struct tw_fi_addr *a, int rc)
{
	fi_addr_t index = FI_ADDR_NOTAVAIL;

	if (rc == 0)
		rc = insert_one(in->av, a, &index);
	in->good += rc == 0;
	if (in->out)
		in->out[in->n] = index;
	if (in->errors)
		in->errors[in->n] = -rc;
	else if (rc && (in->av->flags & FI_EVENT))
		tw_fi_eq_put(in->av->eq, 0, &in->av->fid.fid, in->context, in->n, -rc);
	in->n++;
}

static int av_end(struct insertion *in)
{
	if (!(in->av->flags & FI_EVENT))
		return in->good;
	tw_fi_eq_put(in->av->eq, FI_AV_COMPLETE, &in->av->fid.fid, in->context, (uint64_t)in->good,
		     0);
	return 0;
}

static int av_insert(struct fid_av *fid, const void *addr, size_t count, fi_addr_t *fi_addr,
		     uint64_t flags, void *context)
{
	const char *at = addr;
	struct insertion in;
	int rc = av_begin(&in, fid, fi_addr, flags, context);

	if (rc || (!addr && count))
		return rc ? rc : -FI_EINVAL;
	for (size_t i = 0; i < count; i++) {
		struct tw_fi_addr a;
		size_t used;

		rc = tw_fi_addr_take(in.av->domain->addr_format, at, &used, &a);
		at += used;
		insert(&in, &a, rc);
	}
	return av_end(&in);
}

static void insert_named(struct insertion *in, const char *node, const char *service)
{
	struct tw_fi_addr a;
	int rc = tw_fi_resolve(node, service, &a);

	insert(in, &a, rc);
}

/* Names that end in a number count up, as services do. */
static int av_insertsym(struct fid_av *fid, const char *node, size_t nodecnt, const char *service,
			size_t svccnt, fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	size_t stem = node ? strlen(node) : 0;
	char host[256], number[16];
	unsigned long first;
	struct insertion in;
	int rc = av_begin(&in, fid, fi_addr, flags, context);

	if (rc || !node || !service || (nodecnt > 1 && stem >= sizeof(host) - 16))
		return rc ? rc : -FI_EINVAL;
	while (stem && node[stem - 1] >= '0' && node[stem - 1] <= '9')
		stem--;
	first = strtoul(node + stem, NULL, 10);
	for (size_t i = 0; i < nodecnt; i++)
		for (size_t k = 0; k < svccnt; k++) {
			snprintf(host, sizeof(host), "%.*s%0*lu", (int)stem, node,
				 (int)strlen(node + stem), first + i);
			snprintf(number, sizeof(number), "%lu",
				 strtoul(service, NULL, 10) + (unsigned long)k);
			insert_named(&in, nodecnt == 1 ? node : host,
				     svccnt == 1 ? service : number);
		}
	return av_end(&in);
}

static int av_insertsvc(struct fid_av *fid, const char *node, const char *service,
			fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	return av_insertsym(fid, node, 1, service, 1, fi_addr, flags, context);
}

static int av_remove(struct fid_av *fid, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
	struct tw_fi_av *av = tw_fi_of(struct tw_fi_av, fid);
	int rc = 0;

	(void)flags;
	for (size_t i = 0; i < count; i++) {
		bool there;

		tw_mutex_lock(&av->mutex);
		there = remove_one(av, fi_addr[i]);
		tw_mutex_unlock(&av->mutex);
		if (!there) {
			rc = -FI_EINVAL;
			continue;
		}
		tw_mutex_lock(&av->domain->mutex);
		tw_list_walk(&av->eps, struct tw_fi_ep, e, in_av)
			tw_fi_dest_drop(e, fi_addr[i]);
		tw_mutex_unlock(&av->domain->mutex);
		/* Only now: what the endpoints knew of it must not meet the next address. */
		tw_mutex_lock(&av->mutex);
		av->entries[fi_addr[i]].next = av->unused;
		av->unused = (uint32_t)fi_addr[i] + 1;
		tw_mutex_unlock(&av->mutex);
	}
	return rc;
}

static int av_lookup(struct fid_av *fid, fi_addr_t fi_addr, void *addr, size_t *len)
{
	struct tw_fi_av *av = tw_fi_of(struct tw_fi_av, fid);
	uint64_t where = tw_fi_av_where(av, fi_addr);
	struct tw_fi_addr a = {where >> 16, where & 0xffff, 0};

	if (!where)
		return -FI_EINVAL;
	/* Too short is no failure here: the length says so. */
	tw_fi_addr_give(av->domain->addr_format, &a, addr, len);
	return 0;
}

static const char *av_straddr(struct fid_av *fid, const void *addr, char *buf, size_t *len)
{
	struct tw_fi_av *av = tw_fi_of(struct tw_fi_av, fid);
	struct tw_fi_addr a;
	size_t used;
	int n;

	if (tw_fi_addr_take(av->domain->addr_format, addr, &used, &a))
		return NULL;
	n = tw_fi_addr_print(av->domain->addr_format, &a, buf, *len);
	if (n < 0)
		return NULL;
	*len = (size_t)n + 1;
	return buf;
}

static int av_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	(void)flags;
	return tw_fi_eq_bind(&tw_fi_from(struct tw_fi_av, fid)->eq, other);
}

static int av_close(struct fid *fid)
{
	struct tw_fi_av *av = tw_fi_from(struct tw_fi_av, fid);

	if (atomic_load(&av->refs))
		return -FI_EBUSY;
	if (av->eq)
		atomic_fetch_sub(&av->eq->w.refs, 1);
	atomic_fetch_sub(&av->domain->refs, 1);
	pthread_mutex_destroy(&av->mutex);
	free(av->entries);
	free(av->hash);
	free(av);
	return 0;
}

static struct fi_ops av_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = av_close,
	.bind = av_bind,
	.control = tw_fi_no_control,
	.ops_open = tw_fi_no_ops,
};

static struct fi_ops_av av_ops = {
	.size = sizeof(struct fi_ops_av),
	.insert = av_insert,
	.insertsvc = av_insertsvc,
	.insertsym = av_insertsym,
	.remove = av_remove,
	.lookup = av_lookup,
	.straddr = av_straddr,
};

uint64_t tw_fi_av_where(struct tw_fi_av *av, fi_addr_t addr)
{
	uint64_t where;

	tw_mutex_lock(&av->mutex);
	where = addr < av->n ? av->entries[addr].where : 0;
	tw_mutex_unlock(&av->mutex);
	return where;
}

fi_addr_t tw_fi_av_find(struct tw_fi_av *av, uint64_t where)
{
	uint32_t found;

	tw_mutex_lock(&av->mutex);
	found = av->hash[find_slot(av, where)];
	tw_mutex_unlock(&av->mutex);
	return found ? found - 1 : FI_ADDR_NOTAVAIL;
}

int tw_fi_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **out,
		  void *context)
{
	struct tw_fi_domain *d = tw_fi_of(struct tw_fi_domain, domain);
	struct tw_fi_av *av;
	uint32_t max = FIRST;

	if (!attr || attr->type > FI_AV_TABLE || (attr->flags & ~(FI_EVENT | FI_SYMMETRIC)))
		return -FI_EINVAL;
	/* Names are for sharing between processes, which there is not. */
	if (attr->name || attr->rx_ctx_bits)
		return -FI_ENOSYS;
	av = calloc(1, sizeof(*av));
	if (!av)
		return -FI_ENOMEM;
	while (max < attr->count && max < 1u << 20)
		max *= 2;
	if (!av_grow(av, max)) {
		free(av->entries);
		free(av);
		return -FI_ENOMEM;
	}
	pthread_mutex_init(&av->mutex, NULL);
	tw_list_init(&av->eps);
	if (attr->type != FI_AV_MAP)
		attr->type = FI_AV_TABLE;
	av->flags = attr->flags;
	av->domain = d;
	av->fid.fid = (struct fid){FI_CLASS_AV, context, &av_fid_ops};
	av->fid.ops = &av_ops;
	atomic_fetch_add(&d->refs, 1);
	*out = &av->fid;
	return 0;
}
