/* SPDX-License-Identifier: BSD-2-Clause */
/* Address vectors. A fi_addr_t is an index in both types; a hash finds it by the address. */
#include <stdio.h>
#include <stdlib.h>

#include "fi/fi.h"

#define FIRST 64

static uint32_t slot_of(const struct tw_fi_av *av, uint64_t where)
{
	return (uint32_t)((where * 0x9e3779b97f4a7c15) >> 32) & (av->buckets - 1);
}

static void hash_add(struct tw_fi_av *av, uint32_t index)
{
	uint32_t i = slot_of(av, av->where[index]);

	while (av->hash[i]) {
		/* The first of several of one address stands for it. */
		if (av->where[av->hash[i] - 1] == av->where[index])
			return;
		i = (i + 1) & (av->buckets - 1);
	}
	av->hash[i] = index + 1;
}

static void hash_all(struct tw_fi_av *av)
{
	memset(av->hash, 0, av->buckets * sizeof(*av->hash));
	for (uint32_t i = 0; i < av->n; i++)
		if (av->where[i])
			hash_add(av, i);
}

static bool grow(struct tw_fi_av *av, uint32_t max)
{
	uint64_t *where = realloc(av->where, max * sizeof(*where));
	uint32_t *hash;

	if (!where)
		return false;
	av->where = where;
	hash = malloc(2 * max * sizeof(*hash));
	if (!hash)
		return false;
	free(av->hash);
	av->hash = hash;
	av->max = max;
	av->buckets = 2 * max;
	hash_all(av);
	return true;
}

static uint32_t free_index(struct tw_fi_av *av)
{
	uint32_t i;

	/* A table counts up. */
	for (i = av->type == FI_AV_TABLE ? av->n : 0; i < av->n && av->where[i]; i++)
		;
	return i;
}

static int insert_one(struct tw_fi_av *av, const struct tw_fi_addr *a, fi_addr_t *out)
{
	uint32_t i;
	int rc = 0;

	if (a->endpoint_id >= TW_FI_IDS || a->nic_id >> 48 || !a->nic_id)
		return -FI_EINVAL;
	tw_mutex_lock(&av->mutex);
	i = free_index(av);
	if (i == av->max && !grow(av, 2 * av->max)) {
		rc = -FI_ENOMEM;
	} else {
		av->where[i] = tw_fi_where(a);
		av->n = tw_max(av->n, i + 1);
		hash_add(av, i);
		*out = i;
	}
	tw_mutex_unlock(&av->mutex);
	return rc;
}

static int av_insert(struct fid_av *fid, const void *addr, size_t count, fi_addr_t *fi_addr,
		     uint64_t flags, void *context)
{
	struct tw_fi_av *av = tw_fi_of(struct tw_fi_av, fid);
	const char *at = addr;
	int *errors = (flags & FI_SYNC_ERR) ? context : NULL, good = 0;

	if (!addr && count)
		return -FI_EINVAL;
	if ((av->flags & FI_EVENT) && !av->eq)
		return -FI_ENOEQ;
	for (size_t i = 0; i < count; i++) {
		fi_addr_t index = FI_ADDR_NOTAVAIL;
		struct tw_fi_addr a;
		size_t used;
		int rc = tw_fi_addr_take(av->domain->addr_format, at, &used, &a);

		at += used;
		if (rc == 0)
			rc = insert_one(av, &a, &index);
		good += rc == 0;
		if (fi_addr)
			fi_addr[i] = index;
		if (errors)
			errors[i] = -rc;
		else if (rc && (av->flags & FI_EVENT))
			tw_fi_eq_error(av->eq, &av->fid.fid, context, i, -rc);
	}
	if (!(av->flags & FI_EVENT))
		return good;
	tw_fi_eq_put(av->eq, FI_AV_COMPLETE, &av->fid.fid, context, (uint64_t)good);
	return 0;
}

static int insert_named(struct tw_fi_av *av, const char *node, const char *service,
			fi_addr_t *fi_addr)
{
	struct tw_fi_addr a;
	fi_addr_t index = FI_ADDR_NOTAVAIL;
	int rc;

	rc = node && service ? tw_fi_resolve(node, service, &a) : -FI_EINVAL;
	if (rc == 0)
		rc = insert_one(av, &a, &index);
	if (fi_addr)
		*fi_addr = index;
	return rc ? rc : 1;
}

static int av_insertsvc(struct fid_av *fid, const char *node, const char *service,
			fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	(void)flags, (void)context;
	return insert_named(tw_fi_of(struct tw_fi_av, fid), node, service, fi_addr);
}

/* Names that end in a number count up, as services do. */
static int av_insertsym(struct fid_av *fid, const char *node, size_t nodecnt, const char *service,
			size_t svccnt, fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	struct tw_fi_av *av = tw_fi_of(struct tw_fi_av, fid);
	char host[256], number[16];
	size_t stem = node ? strlen(node) : 0;
	unsigned long first;
	int good = 0;

	(void)flags, (void)context;
	if (!node || !service || stem >= sizeof(host) - 16)
		return -FI_EINVAL;
	while (stem && node[stem - 1] >= '0' && node[stem - 1] <= '9')
		stem--;
	first = strtoul(node + stem, NULL, 10);
	for (size_t i = 0; i < nodecnt; i++)
		for (size_t k = 0; k < svccnt; k++) {
			if (nodecnt == 1)
				snprintf(host, sizeof(host), "%s", node);
			else
				snprintf(host, sizeof(host), "%.*s%0*lu", (int)stem, node,
					 (int)strlen(node + stem), first + i);
			snprintf(number, sizeof(number), "%lu",
				 strtoul(service, NULL, 10) + (unsigned long)k);
			good += insert_named(av, host, number,
					     fi_addr ? &fi_addr[i * svccnt + k] : NULL) == 1;
		}
	return good;
}

static int av_remove(struct fid_av *fid, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
	struct tw_fi_av *av = tw_fi_of(struct tw_fi_av, fid);
	int rc = 0;

	(void)flags;
	for (size_t i = 0; i < count; i++) {
		if (!tw_fi_av_where(av, fi_addr[i])) {
			rc = -FI_EINVAL;
			continue;
		}
		tw_mutex_lock(&av->domain->mutex);
		tw_list_walk(&av->eps, struct tw_fi_ep, e, in_av)
			tw_fi_dest_drop(e, fi_addr[i]);
		tw_mutex_unlock(&av->domain->mutex);
		tw_mutex_lock(&av->mutex);
		av->where[fi_addr[i]] = 0;
		hash_all(av);
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
	n = tw_fi_addr_print(&a, buf, *len);
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
		atomic_fetch_sub(&av->eq->refs, 1);
	atomic_fetch_sub(&av->domain->refs, 1);
	pthread_mutex_destroy(&av->mutex);
	free(av->where);
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
	where = addr < av->n ? av->where[addr] : 0;
	tw_mutex_unlock(&av->mutex);
	return where;
}

fi_addr_t tw_fi_av_find(struct tw_fi_av *av, uint64_t where)
{
	fi_addr_t found = FI_ADDR_NOTAVAIL;
	uint32_t i;

	tw_mutex_lock(&av->mutex);
	for (i = slot_of(av, where); av->hash[i]; i = (i + 1) & (av->buckets - 1))
		if (av->where[av->hash[i] - 1] == where) {
			found = av->hash[i] - 1;
			break;
		}
	tw_mutex_unlock(&av->mutex);
	return found;
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
	if (!grow(av, max)) {
		free(av->where);
		free(av);
		return -FI_ENOMEM;
	}
	pthread_mutex_init(&av->mutex, NULL);
	tw_list_init(&av->eps);
	av->type = attr->type == FI_AV_MAP ? FI_AV_MAP : FI_AV_TABLE;
	attr->type = av->type;
	av->flags = attr->flags;
	av->domain = d;
	av->fid.fid = (struct fid){FI_CLASS_AV, context, &av_fid_ops};
	av->fid.ops = &av_ops;
	atomic_fetch_add(&d->refs, 1);
	*out = &av->fid;
	return 0;
}
