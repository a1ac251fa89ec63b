/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What leaves along a path. A packet is written at once where nothing waits; what
 * the system does not take is copied. Memory is sent from where it lies, in
 * chunks, so that packets need not wait for all of it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "providers/net/tcp/tcp.h"

unsigned tw_tcp_pieces(const struct tw_tcp_cursor *c, uint64_t len, struct iovec *iov, unsigned max)
{
	const struct iovec *from = c->iov;
	size_t at = c->at;
	unsigned n = 0;

	for (; len && n < max; from++, at = 0) {
		uint64_t piece = tw_min(from->iov_len - at, len);

		if (!piece)
			continue;
		iov[n++] = (struct iovec){(char *)from->iov_base + at, piece};
		len -= piece;
	}
	return n;
}

void tw_tcp_advance(struct tw_tcp_cursor *c, uint64_t len)
{
	while (len) {
		uint64_t piece = tw_min(c->iov->iov_len - c->at, len);

		len -= piece;
		c->at += piece;
		if (c->at == c->iov->iov_len) {
			c->iov++;
			c->at = 0;
		}
	}
}

bool tw_tcp_waiting(const struct tw_tcp_path *p)
{
	return p->job || p->out_len || !tw_list_empty(&p->jobs);
}

/* Nothing more leaves. What came before is still read: the other end may have sent much. */
static void shutdown_tx(struct tw_tcp_path *p)
{
	struct tw_list *n, *tmp;

	p->tx_shutdown = true;
	p->out_at = p->out_len = 0;
	if (p->job)
		tw_tcp_job_free(p, p->job);
	p->job = NULL;
	tw_list_each(&p->jobs, n, tmp)
		tw_tcp_job_free(p, tw_container(n, struct tw_tcp_job, node));
	tw_list_init(&p->jobs);
}

/* How many bytes the system took, 0 none just now. */
static size_t put(struct tw_tcp_path *p, struct iovec *iov, unsigned n)
{
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = n};
	ssize_t done;

	if (p->fd < 0)
		return 0;
	done = sendmsg(p->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (done >= 0)
		return (size_t)done;
	if (errno != EAGAIN && errno != EINTR && errno != ENOBUFS && errno != ENOMEM)
		shutdown_tx(p);
	return 0;
}

static void mark_busy(struct tw_tcp_path *p)
{
	if (tw_list_empty(&p->busy))
		tw_list_add_tail(&p->t->busy, &p->busy);
}

/* The system takes no more just now. It tells when it does, also who does not poll. */
static void wait_for_room(struct tw_tcp_path *p)
{
	mark_busy(p);
	if (p->watched_out || p->fd < 0)
		return;
	p->watched_out = true;
	tw_tcp_watch(p->t, EPOLL_CTL_MOD, p->fd, EPOLLIN | EPOLLOUT, p);
}

static bool have_out(struct tw_tcp_path *p)
{
	if (!p->out)
		p->out = malloc(2 * TW_TCP_OUT);
	return p->out;
}

bool tw_tcp_queue(struct tw_tcp_path *p, const void *bytes, size_t len)
{
	if (p->tx_shutdown || !len)
		return true;
	if (!have_out(p) || p->out_len - p->out_at + len > 2 * TW_TCP_OUT)
		return false;
	if (p->out_len + len > 2 * TW_TCP_OUT) {
		memmove(p->out, p->out + p->out_at, p->out_len - p->out_at);
		p->out_len -= p->out_at;
		p->out_at = 0;
	}
	memcpy(p->out + p->out_len, bytes, len);
	p->out_len += len;
	mark_busy(p);
	return true;
}

/* One step; false when the system takes no more or nothing is left. */
static bool step_job(struct tw_tcp_path *p)
{
	struct tw_tcp_job *j = p->job;
	struct iovec iov[1 + TW_TCP_IOV];
	size_t want = p->head_left + p->job_left, done, head;
	unsigned n = 0;

	if (p->head_left)
		iov[n++] = (struct iovec){(char *)(&p->job_head + 1) - p->head_left, p->head_left};
	n += tw_tcp_pieces(&j->from, p->job_left, iov + n, TW_TCP_IOV);
	done = put(p, iov, n);
	if (p->tx_shutdown || !done)
		return false;
	head = tw_min(done, p->head_left);
	p->head_left -= head;
	tw_tcp_advance(&j->from, done - head);
	p->job_left -= done - head;
	j->left -= done - head;
	if (!p->head_left && !p->job_left) {
		p->job = NULL;
		if (j->left)
			tw_list_add_tail(&p->jobs, &j->node);
		else
			tw_tcp_job_free(p, j);
	}
	/* Less than there was: it is full. More pieces than fit into one call are not. */
	return done == want || n == 1 + TW_TCP_IOV || n == TW_TCP_IOV;
}

static void next_job(struct tw_tcp_path *p)
{
	struct tw_tcp_job *j = tw_list_first(&p->jobs, struct tw_tcp_job, node);
	uint32_t len = (uint32_t)tw_min(j->left, (uint64_t)TW_TCP_CHUNK);

	tw_list_del(&j->node);
	p->job = j;
	p->job_left = len;
	p->head_left = sizeof(p->job_head);
	p->job_head = (struct tw_tcp_head){.len = len, .kind = TW_TCP_DATA, .id = j->id};
	if (!j->op)
		return;
	p->job_head.kind = len == j->left ? TW_TCP_WRITE_LAST : TW_TCP_WRITE;
	p->job_head.address = j->address;
	p->job_head.key = j->key;
	j->address += len;
}

static bool step_out(struct tw_tcp_path *p)
{
	struct iovec iov = {p->out + p->out_at, p->out_len - p->out_at};
	size_t done = put(p, &iov, 1);

	if (p->tx_shutdown)
		return false;
	p->out_at += done;
	if (p->out_at < p->out_len)
		return false;
	p->out_at = p->out_len = 0;
	return true;
}

void tw_tcp_flush(struct tw_tcp_path *p)
{
	bool on = p->fd >= 0;

	while (on && tw_tcp_waiting(p)) {
		if (p->job) {
			on = step_job(p);
		} else if (p->out_len) {
			on = step_out(p);
		} else {
			next_job(p);
		}
	}
	if (tw_tcp_waiting(p)) {
		wait_for_room(p);
		return;
	}
	tw_tcp_tune(p);
	if (!tw_list_empty(&p->busy))
		tw_list_del(&p->busy);
	if (p->watched_out && p->fd >= 0) {
		p->watched_out = false;
		tw_tcp_watch(p->t, EPOLL_CTL_MOD, p->fd, EPOLLIN, p);
	}
}

/* Sends what is held in one call, and copies what the system does not take. */
static void release(struct tw_tcp_path *p)
{
	bool waiting = tw_tcp_waiting(p);
	struct iovec iov[2 * TW_TCP_HELD];
	unsigned n = 0;
	size_t done = 0;

	for (unsigned i = 0; i < p->nheld; i++) {
		struct tw_tcp_held *h = &p->held[i];

		iov[n++] = (struct iovec){&h->head, sizeof(h->head)};
		iov[n++] = (struct iovec){(void *)(uintptr_t)h->data, h->head.len};
	}
	p->nheld = 0;
	p->held_len = 0;
	if (!waiting)
		done = put(p, iov, n);
	for (unsigned i = 0; i < n; i++) {
		size_t gone = tw_min(done, iov[i].iov_len);

		tw_tcp_queue(p, (char *)iov[i].iov_base + gone, iov[i].iov_len - gone);
		done -= gone;
	}
	if (tw_tcp_waiting(p) && !p->watched_out)
		tw_tcp_flush(p);
}

enum tw_err tw_tcp_send(void *path, const void *data, uint32_t len, bool more, void *cookie)
{
	struct tw_tcp_path *p = path;
	struct tw_tcp_head h = {.len = len, .kind = TW_TCP_PACKET_IS};
	size_t size = sizeof(h) + len;

	(void)cookie;
	if (p->ended || len > TW_TCP_PACKET)
		return TW_ELOST;
	/* All that is held has room where it is copied. */
	if (p->nheld && p->out_len - p->out_at + p->held_len + size > TW_TCP_OUT)
		release(p);
	if (p->tx_shutdown)
		return TW_OK;
	if (p->out_len - p->out_at + size > TW_TCP_OUT || !have_out(p))
		return TW_AGAIN;
	p->held[p->nheld++] = (struct tw_tcp_held){h, data};
	p->held_len += size;
	if (!more || p->nheld == TW_TCP_HELD)
		release(p);
	return TW_OK;
}
