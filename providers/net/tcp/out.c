/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending along a path: packets and heads in a queue, in order, and memory of
 * transfers between them. All of it is sent from where it lies. Memory leaves in
 * chunks, so that packets need not wait for all of it.
 */
#include <errno.h>
#include <string.h>

#include "base/sys.h"
#include "providers/net/tcp/tcp.h"

static bool out_waiting(const struct tw_tcp_path *p)
{
	return p->job || p->out || !tw_list_empty(&p->jobs);
}

static void out_add(struct tw_tcp_path *p, struct tw_tcp_packet *k, size_t len)
{
	k->next = NULL;
	k->left = (uint32_t)len;
	*p->out_end = k;
	p->out_end = &k->next;
	p->out_len += len;
	p->nout++;
}

static void out_drop_first(struct tw_tcp_path *p)
{
	struct tw_tcp_packet *k = p->out;

	p->out = k->next;
	if (!p->out)
		p->out_end = &p->out;
	p->out_len -= k->left;
	p->nout--;
	tw_net_packet_put(&k->packet);
}

void tw_tcp_shutdown_tx(struct tw_tcp_path *p)
{
	p->tx_shutdown = true;
	while (p->out)
		out_drop_first(p);
	if (p->job)
		tw_tcp_job_free(p, p->job);
	p->job = NULL;
	tw_list_walk(&p->jobs, struct tw_tcp_job, j, node)
		tw_tcp_job_free(p, j);
	tw_list_init(&p->jobs);
}

/* The next path has another key. This one ends as after a fault: what is missing is sent again. */
static void out_key_used(struct tw_tcp_path *p)
{
	p->t->host.log(TW_LOG_INFO,
		       "tcp: a path has encrypted enough by its key, and is made anew");
	tw_tcp_end(p);
}

/* How many bytes the system took, 0 none just now. */
static size_t out_put(struct tw_tcp_path *p, struct iovec *iov, unsigned n)
{
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = n};
	ssize_t done;

	if (p->fd < 0)
		return 0;
	done = p->session ? tw_tcp_session_send(p, iov, n)
			  : tw_sys_sendmsg(p->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (done >= 0) {
		p->key_left -= done;
		if (tw_unlikely(p->key_left <= 0))
			out_key_used(p);
		return (size_t)done;
	}
	if (errno != EAGAIN && errno != EINTR && errno != ENOBUFS && errno != ENOMEM)
		tw_tcp_shutdown_tx(p);
	return 0;
}

static void mark_busy(struct tw_tcp_path *p)
{
	if (tw_list_empty(&p->busy))
		tw_list_add_tail(&p->t->busy, &p->busy);
}

/* Waits until the system takes more; the descriptor wakes a sleeper, too. */
static void wait_for_room(struct tw_tcp_path *p)
{
	mark_busy(p);
	if (p->watched_out || p->fd < 0)
		return;
	p->watched_out = true;
	tw_tcp_watch(p->t, EPOLL_CTL_MOD, p->fd, EPOLLIN | EPOLLOUT, p);
}

bool tw_tcp_queue(struct tw_tcp_path *p, const void *bytes, size_t len)
{
	const struct tw_driver_host *host = &p->t->host;
	struct tw_net_packet *k;

	if (p->tx_shutdown)
		return true;
	k = p->out_len + len > 2 * TW_TCP_OUT ? NULL : host->packet_get(host->owner, false);
	if (!k)
		return false;
	/* In the place of the head of a packet, with no packet behind it. */
	k->len = 0;
	memcpy(k->data - len, bytes, len);
	out_add(p, (struct tw_tcp_packet *)k, len);
	mark_busy(p);
	return true;
}

/* Steps: false when the system takes no more. */
static bool step_job(struct tw_tcp_path *p)
{
	struct tw_tcp_job *j = p->job;
	struct iovec iov[1 + TW_TCP_IOV];
	size_t want = p->head_left + p->job_left, done, head;
	unsigned n = 0;

	if (p->head_left)
		iov[n++] = (struct iovec){(char *)(&p->job_head + 1) - p->head_left, p->head_left};
	n += tw_cursor_pieces(&j->from, p->job_left, iov + n, TW_TCP_IOV);
	done = out_put(p, iov, n);
	if (p->tx_shutdown || !done)
		return p->tx_shutdown;
	head = tw_min(done, p->head_left);
	p->head_left -= head;
	tw_cursor_advance(&j->from, done - head);
	p->job_left -= done - head;
	j->left -= done - head;
	if (!p->head_left && !p->job_left) {
		p->job = NULL;
		if (j->left)
			tw_list_add_tail(&p->jobs, &j->node);
		else
			tw_tcp_job_free(p, j);
	}
	/* A short write means full, except with more pieces than one call takes. */
	return done == want || n == 1 + TW_TCP_IOV || n == TW_TCP_IOV;
}

static void next_job(struct tw_tcp_path *p)
{
	struct tw_tcp_job *j = tw_list_take(&p->jobs, struct tw_tcp_job, node);
	uint32_t len = (uint32_t)tw_min(j->left, (uint64_t)TW_TCP_CHUNK);

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
	struct iovec iov[TW_TCP_HELD];
	size_t want = 0, done;
	unsigned n = 0;

	for (struct tw_tcp_packet *k = p->out; k && n < TW_TCP_HELD; k = k->next) {
		iov[n++] = (struct iovec){k->packet.data + k->packet.len - k->left, k->left};
		want += k->left;
	}
	done = out_put(p, iov, n);
	if (p->tx_shutdown)
		return true;
	want -= done;
	for (; p->out && p->out->left <= done; out_drop_first(p))
		done -= p->out->left;
	if (done) {
		p->out->left -= (uint32_t)done;
		p->out_len -= done;
	}
	return !want;
}

static bool out_step(struct tw_tcp_path *p)
{
	if (p->fd < 0)
		return false;
	if (!p->job && p->out)
		return step_out(p);
	if (!p->job)
		next_job(p);
	return step_job(p);
}

void tw_tcp_flush(struct tw_tcp_path *p)
{
	while (out_waiting(p)) {
		if (!out_step(p)) {
			wait_for_room(p);
			return;
		}
	}
	if (!p->tuned)
		tw_tcp_tune(p);
	if (!tw_list_empty(&p->busy))
		tw_list_del(&p->busy);
	if (p->watched_out && p->fd >= 0) {
		p->watched_out = false;
		tw_tcp_watch(p->t, EPOLL_CTL_MOD, p->fd, EPOLLIN, p);
	}
}

enum tw_err tw_tcp_send(void *path, struct tw_net_packet *packet, bool more)
{
	struct tw_tcp_packet *k = (struct tw_tcp_packet *)packet;
	struct tw_tcp_path *p = path;
	size_t size = sizeof(k->head) + packet->len;

	if (p->ended || packet->len > TW_TCP_PACKET)
		return TW_ELOST;
	if (p->out_len + size > TW_TCP_OUT && !p->watched_out)
		tw_tcp_flush(p);
	if (p->tx_shutdown)
		return TW_OK;
	if (p->out_len + size > TW_TCP_OUT)
		return TW_AGAIN;
	k->head = (struct tw_tcp_head){.len = packet->len, .kind = TW_TCP_PACKET_IS};
	packet->users++;
	out_add(p, k, size);
	if ((!more || p->nout >= TW_TCP_HELD) && !p->watched_out)
		tw_tcp_flush(p);
	return TW_OK;
}
