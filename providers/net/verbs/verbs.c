/* SPDX-License-Identifier: BSD-2-Clause */
#include "providers/net/verbs/verbs.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/sys.h"

#define CQ_PATHS 4 /* the completion queue is made for so many at first */
/* Progress ------------------------------------------------------------------- */

static void finished(struct tw_verbs *v, const struct ibv_wc *wc)
{
	struct tw_verbs_path *p = tw_verbs_path_find(v, (uint32_t)(wc->wr_id >> 32));

	/* Everything of a queue pair that is gone has ended already. */
	if (!p || !p->qp)
		return;
	if (wc->status != IBV_WC_SUCCESS)
		tw_verbs_path_down(p, ibv_wc_status_str(wc->status));
	tw_verbs_sq_done(p, (uint32_t)wc->wr_id, wc->status);
	tw_verbs_rma_pump(p);
}

/* Handles the completions read; false if some must wait. */
static bool verbs_work_off(struct tw_verbs *v)
{
	TW_NOT_CANCELLED;
	while (v->next_wc < v->nwc) {
		const struct ibv_wc *wc = &v->wc[v->next_wc];

		if (!(wc->wr_id & TW_VERBS_RECV))
			finished(v, wc);
		else if (!tw_verbs_received(v, wc))
			return false;
		v->next_wc++;
	}
	return true;
}

static tw_noinline void cq_broken(struct tw_verbs *v)
{
	v->host.log(TW_LOG_WARN, "verbs: the completion queue is broken");
	v->nwc = 0;
	v->gone = true;
}

/* False: there is nothing. */
static tw_inline bool read_cq(struct tw_verbs *v)
{
	v->next_wc = 0;
	v->nwc = ibv_poll_cq(v->cq, TW_VERBS_CQ_BATCH, v->wc);
	if (tw_unlikely(v->nwc < 0))
		cq_broken(v);
	return v->nwc > 0;
}

/* Packets that came along a broken path have been passed on by now. */
static tw_noinline void report_broken(struct tw_verbs *v)
{
	TW_NOT_CANCELLED;
	struct tw_verbs_path *p;

	while ((p = tw_list_take(&v->broken, struct tw_verbs_path, broken)))
		v->host.broken(v->host.owner, p);
}

/* Events of the device; a dead port shows on the paths by failed sends. */
static void device_events(struct tw_verbs *v)
{
	struct ibv_async_event e;

	while (ibv_get_async_event(v->ctx, &e) == 0) {
		v->host.log(TW_LOG_DEBUG, "verbs: %s", ibv_event_type_str(e.event_type));
		v->gone |= e.event_type == IBV_EVENT_DEVICE_FATAL ||
			   e.event_type == IBV_EVENT_CQ_ERR || e.event_type == IBV_EVENT_SRQ_ERR;
		ibv_ack_async_event(&e);
	}
}

/* Cheaper than reading both, as there is mostly nothing. */
static bool any_event(struct tw_verbs *v)
{
	struct pollfd p[] = {{.fd = v->events->fd, .events = POLLIN},
			     {.fd = v->ctx->async_fd, .events = POLLIN}};

	return tw_sys_poll(p, tw_countof(p), 0) > 0;
}

static tw_noinline void look_for_events(struct tw_verbs *v)
{
	TW_NOT_CANCELLED;
	v->looks = 0;
	if (!v->connecting && !any_event(v))
		return;
	tw_verbs_cm_events(v);
	device_events(v);
}

/* Handles the completions read, and more if there may be; false as verbs_work_off(). */
static tw_noinline bool verbs_take_in(struct tw_verbs *v)
{
	bool full, more;

	/* Packets that came along a broken path go first. */
	do {
		full = v->nwc == TW_VERBS_CQ_BATCH;
		more = verbs_work_off(v);
	} while (more && (full || !tw_list_empty(&v->broken)) && read_cq(v));
	return more;
}

/* Mostly there is nothing: then it calls little, no cancellation point. */
static void verbs_do_progress(void *instance)
{
	struct tw_verbs *v = instance;
	bool more = true, any = v->next_wc < v->nwc;

	if (tw_unlikely(any))
		more = verbs_work_off(v);
	if (tw_likely(more) && read_cq(v)) {
		more = verbs_take_in(v);
		any = true;
	}
	/* An answer of the program is sent before buffers are posted. */
	if (tw_unlikely(v->nrepost) && (!any || !more || v->nrepost >= TW_VERBS_REPOST))
		tw_verbs_repost(v);
	if (tw_unlikely(!tw_list_empty(&v->credit_due)))
		tw_verbs_credit_flush(v);
	if (tw_unlikely(!more))
		return;
	if (tw_unlikely(!tw_list_empty(&v->broken)))
		report_broken(v);
	if (tw_unlikely(v->connecting || ++v->looks >= TW_VERBS_CM_LOOKS))
		look_for_events(v);
	/* Last: the instance may be closed in this upcall. */
	if (tw_unlikely(v->gone))
		v->host.broken(v->host.owner, NULL);
}

/* Whether progress() has something to report. */
static bool pending(const struct tw_verbs *v)
{
	return v->next_wc < v->nwc || v->gone || !tw_list_empty(&v->broken);
}

static bool watch_cq(struct tw_verbs *v)
{
	struct ibv_cq *cq;
	void *context;

	while (ibv_get_cq_event(v->channel, &cq, &context) == 0)
		if (++v->unacked == 1000) {
			ibv_ack_cq_events(v->cq, v->unacked);
			v->unacked = 0;
		}
	return ibv_req_notify_cq(v->cq, 0) == 0;
}

static bool verbs_do_arm(void *instance)
{
	TW_NOT_CANCELLED;
	struct tw_verbs *v = instance;
	struct pollfd p = {.fd = v->epfd, .events = POLLIN};
	bool again;

	/* The next progress checks for connection events. */
	v->looks = TW_VERBS_CM_LOOKS;
	tw_verbs_repost(v);
	tw_verbs_tick(v);
	do {
		if (pending(v) || !watch_cq(v))
			return true;
		again = read_cq(v);
		/* Completed sends are no reason to stay awake. */
		while (v->next_wc < v->nwc && !(v->wc[v->next_wc].wr_id & TW_VERBS_RECV))
			finished(v, &v->wc[v->next_wc++]);
	} while (again);
	if (!tw_list_empty(&v->credit_due))
		tw_verbs_credit_flush(v);
	return pending(v) || tw_sys_poll(&p, 1, 0) > 0;
}

/* Opening and closing -------------------------------------------------------- */

static void verbs_do_close(void *instance)
{
	TW_NOT_CANCELLED;
	struct tw_verbs *v = instance;

	while (!tw_list_empty(&v->paths))
		tw_verbs_path_free(tw_list_first(&v->paths, struct tw_verbs_path, node));
	if (v->srq)
		ibv_destroy_srq(v->srq);
	if (v->unacked)
		ibv_ack_cq_events(v->cq, v->unacked);
	if (v->cq)
		ibv_destroy_cq(v->cq);
	if (v->channel)
		ibv_destroy_comp_channel(v->channel);
	free(v->rx);
	v->host.packets_back(v->host.owner);
	if (v->pd)
		ibv_dealloc_pd(v->pd);
	if (v->ctx)
		ibv_close_device(v->ctx);
	if (v->listener)
		rdma_destroy_id(v->listener);
	if (v->events)
		rdma_destroy_event_channel(v->events);
	v->host.close_fd(v->timer);
	v->host.close_fd(v->epfd);
	free(v->table.of);
	free(v);
}

static bool verbs_watch(struct tw_verbs *v, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN};

	return tw_sys_epoll_ctl(v->epfd, EPOLL_CTL_ADD, fd, &ev) == 0;
}

/* No device reports how much can be sent inline: it has to be tried. */
static bool try_inline(struct tw_verbs *v)
{
	for (uint32_t size = TW_VERBS_INLINE;; size /= 2) {
		struct ibv_qp_init_attr attr = {.send_cq = v->cq,
						.recv_cq = v->cq,
						.srq = v->srq,
						.cap = {.max_send_wr = v->limits.sq,
							.max_send_sge = v->limits.sge,
							.max_inline_data = size},
						.qp_type = IBV_QPT_RC};
		struct ibv_qp *qp = ibv_create_qp(v->pd, &attr);

		if (qp) {
			v->limits.inline_max = size;
			ibv_destroy_qp(qp);
			return true;
		}
		if (size == 0)
			return false;
	}
}

static bool verbs_open_queues(struct tw_verbs *v)
{
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = v->limits.srq, .max_sge = 1}};
	unsigned cqe = tw_min(v->limits.cqe, v->limits.srq + CQ_PATHS * v->limits.sq);

	v->pd = ibv_alloc_pd(v->ctx);
	v->channel = v->pd ? ibv_create_comp_channel(v->ctx) : NULL;
	if (!v->channel)
		return false;
	tw_sys_set_blocking(v->channel->fd, false);
	v->cq = ibv_create_cq(v->ctx, (int)cqe, v, v->channel, 0);
	v->srq = v->cq ? ibv_create_srq(v->pd, &srq) : NULL;
	tw_sys_set_blocking(v->ctx->async_fd, false);
	return v->srq && try_inline(v) && tw_verbs_rx_grow(v) && verbs_watch(v, v->channel->fd) &&
	       verbs_watch(v, v->events->fd) && verbs_watch(v, v->ctx->async_fd) &&
	       verbs_watch(v, v->timer);
}

static enum tw_err verbs_do_open(const struct tw_driver_host *host, void **instance,
				 struct tw_driver_caps *caps)
{
	struct tw_verbs *v = calloc(1, sizeof(*v));
	enum tw_err err;

	if (!v)
		return TW_ENOMEM;
	v->host = *host;
	*instance = v;
	tw_list_init(&v->paths);
	tw_list_init(&v->credit_due);
	tw_list_init(&v->broken);
	tw_list_init(&v->rmas);
	v->epfd = host->own_fd(tw_sys_epoll_create());
	*caps = (struct tw_driver_caps){TW_VERBS_PACKET, true, v->epfd};
	v->timer = host->own_fd(tw_sys_timer());
	err = v->epfd < 0 || v->timer < 0 ? TW_ENOMEM : tw_verbs_device_open(v);
	if (err == TW_OK && !verbs_open_queues(v)) {
		host->log(TW_LOG_WARN, "verbs: %s: %s; see tagwire-verbs(7)",
			  ibv_get_device_name(v->ctx->device), strerror(errno));
		err = TW_EUNREACH;
	}
	if (err != TW_OK)
		verbs_do_close(v);
	return err;
}

static void verbs_ports(const struct tw_settings *settings, char *text, size_t size)
{
	(void)settings;
	snprintf(text, size, "UDP port 4791, for RoCE,");
}

const struct tw_driver tw_driver_verbs = {
	.version = TW_DRIVER_VERSION,
	.name = "verbs",
	.packet_size = sizeof(struct tw_verbs_packet),
	.open = verbs_do_open,
	.close = verbs_do_close,
	.slab_reg = tw_verbs_slab_reg,
	.slab_dereg = tw_verbs_slab_dereg,
	.path_new = tw_verbs_path_new,
	.path_bind = tw_verbs_path_bind,
	.path_free = tw_verbs_path_free,
	.ports = verbs_ports,
	.send = tw_verbs_send,
	.rma = tw_verbs_rma,
	.cancel = tw_verbs_cancel,
	.mem_reg = tw_verbs_mem_reg,
	.mem_dereg = tw_verbs_mem_dereg,
	.progress = verbs_do_progress,
	.polled_cheaply = true,
	.arm = verbs_do_arm,
};
