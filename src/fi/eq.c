/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event queues: of address vectors and of memory that is registered, and what the program
 * writes itself.
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/sys.h"
#include "fi/fi.h"

struct event {
	struct tw_list link;
	uint32_t event;
	bool error; /* data is a struct fi_eq_err_entry */
	size_t len;
	char data[];
};

static int eq_put(struct tw_fi_eq *eq, uint32_t event, bool error, const void *data, size_t len)
{
	struct event *v = len <= SIZE_MAX - sizeof(*v) ? malloc(sizeof(*v) + len) : NULL;

	if (!v)
		return -FI_ENOMEM;
	v->event = event;
	v->error = error;
	v->len = len;
	memcpy(v->data, data, len);
	tw_mutex_lock(&eq->mutex);
	tw_list_add_tail(&eq->events, &v->link);
	tw_mutex_unlock(&eq->mutex);
	tw_fi_wake(&eq->w);
	return 0;
}

_Static_assert(offsetof(struct fi_eq_err_entry, err) == sizeof(struct fi_eq_entry),
	       "an entry is the start of an error's");

void tw_fi_eq_put(struct tw_fi_eq *eq, uint32_t event, fid_t fid, void *context, uint64_t data,
		  int err)
{
	struct fi_eq_err_entry entry = {.fid = fid, .context = context, .data = data, .err = err};
	size_t len = err ? sizeof(entry) : sizeof(struct fi_eq_entry);

	if (eq_put(eq, event, err, &entry, len))
		tw_log(TW_LOG_ERROR, "no memory for an event");
}

/* The first event into the caller's memory, if it is an error or if it is none. */
static ssize_t eq_take(struct tw_fi_eq *eq, bool error, uint32_t *event, void *buf, size_t len,
		       uint64_t flags)
{
	ssize_t n = -FI_EAGAIN;
	struct event *v = NULL;

	tw_mutex_lock(&eq->mutex);
	if (!tw_list_empty(&eq->events))
		v = tw_list_first(&eq->events, struct event, link);
	if (v && error == v->error)
		n = v->len > len ? -FI_ETOOSMALL : (ssize_t)v->len;
	else if (v && !error)
		n = -FI_EAVAIL;
	if (n >= 0) {
		*event = v->event;
		memcpy(buf, v->data, v->len);
		if (!(flags & FI_PEEK)) {
			tw_list_del(&v->link);
			free(v);
		}
	}
	tw_mutex_unlock(&eq->mutex);
	return n;
}

static ssize_t eq_read(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
	return eq_take(tw_fi_of(struct tw_fi_eq, fid), false, event, buf, len, flags);
}

static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *buf, uint64_t flags)
{
	uint32_t none;

	return eq_take(tw_fi_of(struct tw_fi_eq, fid), true, &none, buf, sizeof(*buf), flags);
}

static ssize_t eq_write(struct fid_eq *fid, uint32_t event, const void *buf, size_t len,
			uint64_t flags)
{
	struct tw_fi_eq *eq = tw_fi_of(struct tw_fi_eq, fid);
	int rc;

	(void)flags;
	if (!eq->writable || (len && !buf))
		return -FI_EINVAL;
	rc = eq_put(eq, event, false, buf, len);
	return rc ? rc : (ssize_t)len;
}

static ssize_t eq_sread(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, int timeout,
			uint64_t flags)
{
	struct tw_fi_eq *eq = tw_fi_of(struct tw_fi_eq, fid);
	uint64_t end = tw_fi_end(timeout);
	ssize_t n;
	int rc;

	do {
		pthread_testcancel(); /* holding nothing: nowhere else */
		n = eq_read(fid, event, buf, len, flags);
		if (n != -FI_EAGAIN)
			return n;
		if (eq->w.on.fd < 0)
			return -FI_ENOSYS;
		rc = tw_fi_wait(&eq->w, 0, end);
	} while (rc == 0);
	return rc;
}

static const char *eq_strerror(struct fid_eq *fid, int prov_errno, const void *data, char *buf,
			       size_t len)
{
	(void)fid, (void)data;
	return tw_fi_text(prov_errno, buf, len);
}

static bool eq_ready(struct tw_fi_waiter *w, uint64_t seen)
{
	(void)seen;
	return !tw_list_empty(&tw_container(w, struct tw_fi_eq, w)->events);
}

static int eq_close(struct fid *fid)
{
	struct tw_fi_eq *eq = tw_fi_from(struct tw_fi_eq, fid);
	int rc = tw_fi_wait_fini(&eq->w);

	if (rc)
		return rc;
	tw_list_walk(&eq->events, struct event, v, link)
		free(v);
	pthread_mutex_destroy(&eq->mutex);
	atomic_fetch_sub(&eq->fabric->refs, 1);
	free(eq);
	return 0;
}

int tw_fi_eq_bind(struct tw_fi_eq **eq, struct fid *other)
{
	if (other->fclass != FI_CLASS_EQ || *eq)
		return -FI_EINVAL;
	*eq = tw_fi_from(struct tw_fi_eq, other);
	atomic_fetch_add(&(*eq)->w.refs, 1);
	return 0;
}

static struct fi_ops eq_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = eq_close,
	.control = tw_fi_wait_control,
	.ops_open = tw_fi_no_ops,
};

static struct fi_ops_eq eq_ops = {
	.size = sizeof(struct fi_ops_eq),
	.read = eq_read,
	.readerr = eq_readerr,
	.write = eq_write,
	.sread = eq_sread,
	.strerror = eq_strerror,
};

int tw_fi_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **out,
		  void *context)
{
	struct tw_fi_eq *eq;
	int rc;

	if (attr && (attr->flags & ~(FI_WRITE | FI_AFFINITY)))
		return -FI_EINVAL;
	eq = calloc(1, sizeof(*eq));
	if (!eq)
		return -FI_ENOMEM;
	rc = tw_fi_wait_init(&eq->w, NULL, attr ? attr->wait_obj : FI_WAIT_NONE,
			     attr ? attr->wait_set : NULL, eq_ready);
	if (rc) {
		free(eq);
		return rc;
	}
	pthread_mutex_init(&eq->mutex, NULL);
	tw_list_init(&eq->events);
	eq->writable = attr && (attr->flags & FI_WRITE);
	eq->fabric = tw_fi_of(struct tw_fi_fabric, fabric);
	atomic_fetch_add(&eq->fabric->refs, 1);
	eq->fid.fid = (struct fid){FI_CLASS_EQ, context, &eq_fid_ops};
	eq->fid.ops = &eq_ops;
	*out = &eq->fid;
	return 0;
}
