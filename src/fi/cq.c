/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues: a ring of events, which starts over where it is empty, to stay in cache. */
#include <stdlib.h>

#include "fi/drain.h"

bool tw_fi_cq_put(struct tw_fi_cq *cq, const struct tw_fi_event *event)
{
	bool room;

	tw_lock(&cq->lock);
	room = tw_fi_cq_room(cq);
	if (room)
		*tw_fi_cq_next(cq) = *event;
	tw_unlock(&cq->lock);
	tw_fi_woken(&cq->w);
	return room;
}

static void drop_first(struct tw_fi_cq *cq)
{
	cq->head = cq->head + 1 == cq->size ? 0 : cq->head + 1;
	if (--cq->n == 0)
		cq->head = 0;
}

/* Reads events; an error at the head is for fi_cq_readerr(). */
static ssize_t cq_take(struct tw_fi_cq *cq, char *buf, size_t count, fi_addr_t *from)
{
	ssize_t n = 0;

	tw_lock(&cq->lock);
	while ((size_t)n < count && cq->n) {
		struct tw_fi_event *v = &cq->ring[cq->head];

		if (tw_unlikely(v->err)) {
			if (!n)
				n = -FI_EAVAIL;
			break;
		}
		memcpy(buf, &v->e, cq->entry);
		buf += cq->entry;
		if (from)
			from[n] = v->source;
		n++;
		drop_first(cq);
	}
	tw_unlock(&cq->lock);
	return n;
}

/* Makes progress for an empty queue. True: the first event went to the program. */
static inline bool read_empty(struct tw_fi_cq *cq, void *buf, size_t count, fi_addr_t *from)
{
	struct tw_fi_waiter *w = &cq->w;
	bool direct = count && cq->entry == sizeof(struct fi_cq_tagged_entry), read = false;

	tw_lock(&w->lock);
	if (tw_likely(w->neps == 1))
		read = tw_fi_read(w->eps[0], cq, direct ? buf : NULL, from);
	else
		tw_fi_wait_poll(w);
	tw_unlock(&w->lock);
	return read;
}

static ssize_t cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *from)
{
	struct tw_fi_cq *cq = tw_fi_of(struct tw_fi_cq, fid);
	ssize_t n;

	if (!cq->n && read_empty(cq, buf, count, from))
		return 1;
	if (!cq->n)
		return -FI_EAGAIN;
	n = cq_take(cq, buf, count, from);
	return n || !count ? n : -FI_EAGAIN;
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
	return cq_readfrom(fid, buf, count, NULL);
}

/* Of FI_EADDRNOTAVAIL the address, in the program's memory or else the queue's. */
static void give_data(struct tw_fi_cq *cq, const struct tw_fi_event *v, struct fi_cq_err_entry *buf)
{
	const struct tw_fi_domain *d = cq->w.domain;
	bool has_size = FI_VERSION_GE(d->fabric->fid.api_version, FI_VERSION(1, 5));
	struct tw_fi_addr a = {v->where >> 16, v->where & 0xffff, 0};
	size_t len = sizeof(cq->err_data);

	if (v->err != FI_EADDRNOTAVAIL || tw_fi_addr_give(d->addr_format, &a, cq->err_data, &len))
		len = 0;
	if (has_size && buf->err_data_size) {
		buf->err_data_size = tw_min(len, buf->err_data_size);
		memcpy(buf->err_data, cq->err_data, buf->err_data_size);
		return;
	}
	buf->err_data = len ? cq->err_data : NULL;
	if (has_size)
		buf->err_data_size = len;
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *buf, uint64_t flags)
{
	struct tw_fi_cq *cq = tw_fi_of(struct tw_fi_cq, fid);
	ssize_t n = -FI_EAGAIN;
	struct tw_fi_event v;

	(void)flags;
	tw_lock(&cq->lock);
	if (cq->n && cq->ring[cq->head].err) {
		v = cq->ring[cq->head];
		drop_first(cq);
		n = 1;
	}
	tw_unlock(&cq->lock);
	if (n < 0)
		return n;
	memcpy(buf, &v.e, sizeof(v.e));
	buf->err = v.err;
	buf->prov_errno = v.prov_errno;
	buf->olen = v.err == FI_EADDRNOTAVAIL ? 0 : v.olen;
	give_data(cq, &v, buf);
	return n;
}

static bool cq_ready(struct tw_fi_waiter *w, uint64_t seen)
{
	(void)seen;
	return tw_container(w, struct tw_fi_cq, w)->n;
}

static ssize_t cq_sreadfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *from,
			    const void *cond, int timeout)
{
	struct tw_fi_cq *cq = tw_fi_of(struct tw_fi_cq, fid);
	uint64_t end = tw_fi_end(timeout);
	ssize_t n;
	int rc;

	(void)cond; /* a threshold is a hint */
	if (cq->w.obj == FI_WAIT_NONE)
		return -FI_ENOSYS;
	do {
		pthread_testcancel(); /* holding nothing: nowhere else */
		n = cq_readfrom(fid, buf, count, from);
		if (n != -FI_EAGAIN)
			return n;
		rc = tw_fi_wait(&cq->w, 0, end);
	} while (rc == 0);
	return rc;
}

static ssize_t cq_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond, int timeout)
{
	return cq_sreadfrom(fid, buf, count, NULL, cond, timeout);
}

static int cq_signal(struct fid_cq *fid)
{
	struct tw_fi_cq *cq = tw_fi_of(struct tw_fi_cq, fid);

	atomic_fetch_add(&cq->w.signals, 1);
	tw_fi_wake_all(&cq->w);
	return 0;
}

static const char *cq_strerror(struct fid_cq *fid, int prov_errno, const void *data, char *buf,
			       size_t len)
{
	(void)fid, (void)data;
	return tw_fi_text(tw_fi_error_of((enum tw_status)prov_errno), buf, len);
}

static int cq_close(struct fid *fid)
{
	struct tw_fi_cq *cq = tw_fi_from(struct tw_fi_cq, fid);
	int rc = tw_fi_wait_fini(&cq->w);

	if (rc)
		return rc;
	free(cq->ring);
	free(cq);
	return 0;
}

static struct fi_ops cq_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = cq_close,
	.control = tw_fi_wait_control,
	.ops_open = tw_fi_no_ops,
};

static struct fi_ops_cq cq_ops = {
	.size = sizeof(struct fi_ops_cq),
	.read = cq_read,
	.readfrom = cq_readfrom,
	.readerr = cq_readerr,
	.sread = cq_sread,
	.sreadfrom = cq_sreadfrom,
	.signal = cq_signal,
	.strerror = cq_strerror,
};

int tw_fi_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **out,
		  void *context)
{
	static const size_t sizes[] = {
		[FI_CQ_FORMAT_UNSPEC] = sizeof(struct fi_cq_tagged_entry),
		[FI_CQ_FORMAT_CONTEXT] = sizeof(struct fi_cq_entry),
		[FI_CQ_FORMAT_MSG] = sizeof(struct fi_cq_msg_entry),
		[FI_CQ_FORMAT_DATA] = sizeof(struct fi_cq_data_entry),
		[FI_CQ_FORMAT_TAGGED] = sizeof(struct fi_cq_tagged_entry),
	};
	struct tw_fi_domain *d = tw_fi_of(struct tw_fi_domain, domain);
	struct tw_fi_cq *cq;
	int rc = -FI_ENOMEM;

	if (!attr || attr->format > FI_CQ_FORMAT_TAGGED || attr->size > UINT32_MAX / 64 ||
	    (attr->flags & ~FI_AFFINITY))
		return -FI_EINVAL;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return rc;
	cq->size = attr->size ? (uint32_t)attr->size : TW_FI_CQ_SIZE;
	cq->ring = malloc(cq->size * sizeof(*cq->ring));
	if (cq->ring)
		rc = tw_fi_wait_init(&cq->w, d, attr->wait_obj, attr->wait_set, cq_ready);
	if (rc) {
		free(cq->ring);
		free(cq);
		return rc;
	}
	tw_lock_init(&cq->lock, d->single);
	if (attr->format == FI_CQ_FORMAT_UNSPEC)
		attr->format = FI_CQ_FORMAT_TAGGED;
	cq->entry = sizes[attr->format];
	cq->fid.fid = (struct fid){FI_CLASS_CQ, context, &cq_fid_ops};
	cq->fid.ops = &cq_ops;
	*out = &cq->fid;
	return 0;
}
