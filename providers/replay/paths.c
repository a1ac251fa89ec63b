/* SPDX-License-Identifier: BSD-2-Clause */
/* The fabrics of an endpoint, opened when first needed, and the paths of links. */
#include <string.h>
#include <sys/epoll.h>

#include "base/counters.h"
#include "base/fds.h"
#include "providers/replay/replay.h"

#define SOON_US 3000000	   /* a path that breaks so soon: the fabric is to blame */
#define ABSENT_US 10000000 /* a fabric that is not here may come */

static void fabric_ready(struct tw_watch *w, uint32_t events)
{
	(void)events;
	/* Whoever found it readable polls now; see tw_rp_expire_rest(). */
	tw_rp_fabric_rest(tw_container(w, struct tw_rp_fabric, watch));
}

static void watch(struct tw_rp_fabric *f, int op, uint32_t events)
{
	struct epoll_event ev = {.events = events | EPOLLONESHOT, .data.ptr = &f->watch};

	if (f->fd >= 0)
		epoll_ctl(f->ep->host->epfd, op, f->fd, &ev);
}

void tw_rp_fabric_rest(struct tw_rp_fabric *f)
{
	f->resting = true;
	tw_rp_poll(f->ep);
	tw_rp_timer(f->ep, tw_clock() + tw_clock_us(TW_RP_REST_US));
}

bool tw_rp_fabric_watch(struct tw_rp_fabric *f)
{
	if (f->ops->arm(f->instance))
		return true;
	watch(f, EPOLL_CTL_MOD, EPOLLIN);
	f->resting = false;
	return false;
}

void tw_rp_fabrics_load(struct tw_rp_ep *ep)
{
	const struct tw_fabric *list[TW_RP_FABRICS];

	if (ep->loaded)
		return;
	ep->loaded = true;
	ep->nfabrics = tw_fabric_list(tw_settings.providers, list);
	for (unsigned i = 0; i < ep->nfabrics; i++) {
		struct tw_rp_fabric *f = &ep->fabrics[i];

		*f = (struct tw_rp_fabric){.ops = list[i], .ep = ep, .fd = -1};
		f->watch.ready = fabric_ready;
	}
}

static bool open_fabric(struct tw_rp_fabric *f)
{
	struct tw_host *host = f->ep->host;
	struct tw_fabric_host to = {.owner = f,
				    .settings = &tw_settings,
				    .log = tw_log,
				    .copied = &host->counters[TW_C_COPIED],
				    .own_fd = tw_fd_own,
				    .close_fd = tw_fd_close,
				    .packet = tw_rp_packet,
				    .sent = tw_rp_sent,
				    .ended = tw_rp_ended,
				    .broken = tw_rp_broken};
	uint64_t now;

	if (f->instance)
		return true;
	now = tw_clock();
	if (f->absent > now || host->up->locate(host, host->self.nic_id, &to.board) != TW_OK)
		return false;
	if (!tw_fabric_of_use(f->ops) || f->ops->open(&to, &f->instance) != TW_OK) {
		f->instance = NULL;
		f->absent = now + tw_clock_us(ABSENT_US);
		return false;
	}
	f->fd = f->ops->fd(f->instance);
	watch(f, EPOLL_CTL_ADD, 0);
	tw_rp_fabric_rest(f);
	return true;
}

void tw_rp_fabrics_open(struct tw_rp_ep *ep)
{
	unsigned i = 0;

	tw_rp_fabrics_load(ep);
	while (i < ep->nfabrics && !open_fabric(&ep->fabrics[i]))
		i++;
}

static void close_fabric(struct tw_rp_fabric *f)
{
	struct tw_list *n, *tmp;

	if (!f->instance)
		return;
	watch(f, EPOLL_CTL_DEL, 0);
	tw_list_each(&f->ep->links, n, tmp) {
		struct tw_rp_link *l = tw_container(n, struct tw_rp_link, node);
		unsigned i = tw_rp_index(f);

		tw_rp_mrs_end(l, f);
		if (l->offered[i])
			f->ops->path_free(l->offered[i]);
		l->offered[i] = NULL;
		if (l->path && l->fabric == f) {
			f->ops->path_free(l->path);
			l->path = NULL;
			l->bound = false;
		}
	}
	f->ops->close(f->instance);
	f->instance = NULL;
	f->fd = -1;
	tw_rp_unpost(f);
	tw_list_each(&f->ep->links, n, tmp)
		tw_rp_ops_unpost(tw_container(n, struct tw_rp_link, node));
}

void tw_rp_fabrics_close(struct tw_rp_ep *ep)
{
	for (unsigned i = 0; i < ep->nfabrics; i++)
		close_fabric(&ep->fabrics[i]);
}

void tw_rp_fabric_reset(struct tw_rp_fabric *f)
{
	struct tw_list *n, *tmp;

	close_fabric(f);
	tw_list_each(&f->ep->links, n, tmp) {
		struct tw_rp_link *l = tw_container(n, struct tw_rp_link, node);

		if (l->fabric == f && !l->path && tw_rp_stays(l)) {
			if (!l->broken)
				l->broken = tw_clock();
			tw_rp_resume(l);
		}
	}
}

static void drop_offers(struct tw_rp_link *l)
{
	for (unsigned i = 0; i < l->ep->nfabrics; i++) {
		if (l->offered[i])
			l->ep->fabrics[i].ops->path_free(l->offered[i]);
		l->offered[i] = NULL;
	}
}

void tw_rp_path_drop(struct tw_rp_link *l)
{
	drop_offers(l);
	if (l->path)
		l->fabric->ops->path_free(l->path);
	l->path = NULL;
	l->bound = false;
}

static void make_offer(struct tw_rp_fabric *f, struct tw_rp_offer *o)
{
	strncpy(o->name, f->ops->name, sizeof(o->name) - 1);
	o->max_packet = f->ops->max_packet(f->instance);
}

/* Good enough for packets of the size that was agreed on? */
static bool fits(const struct tw_rp_link *l, uint32_t max_packet)
{
	uint32_t least = l->link.max_payload ? l->link.max_payload : 4096;

	return max_packet >= least + sizeof(struct tw_rp_wire);
}

static void agree(struct tw_rp_link *l, uint32_t max_packet)
{
	uint32_t room = max_packet - (uint32_t)sizeof(struct tw_rp_wire);

	if (!l->link.max_payload)
		l->link.max_payload = room < TW_RP_PAYLOAD ? room : TW_RP_PAYLOAD;
}

void tw_rp_offer(struct tw_rp_link *l, struct tw_rp_talk *t)
{
	struct tw_rp_ep *ep = l->ep;

	tw_rp_fabrics_load(ep);
	drop_offers(l);
	/* When all have failed, all are tried again. */
	for (int again = 0; again < 2 && !t->noffers; again++) {
		if (again)
			l->failed = 0;
		/* One: opening the next costs a second, and is mostly in vain. */
		for (unsigned i = 0; i < ep->nfabrics && !t->noffers; i++) {
			struct tw_rp_fabric *f = &ep->fabrics[i];
			struct tw_rp_offer *o = &t->offers[0];

			if ((l->failed >> i & 1) || !open_fabric(f) ||
			    !fits(l, f->ops->max_packet(f->instance)) ||
			    f->ops->path_new(f->instance, &o->address, &l->offered[i]) != TW_OK)
				continue;
			make_offer(f, o);
			t->noffers++;
		}
	}
}

bool tw_rp_offers_left(struct tw_rp_link *l)
{
	struct tw_rp_ep *ep = l->ep;

	for (unsigned i = 0; i < ep->nfabrics; i++)
		if (l->offered[i])
			l->failed |= 1u << i;
	for (unsigned i = 0; i < ep->nfabrics; i++)
		if (!(l->failed >> i & 1) && open_fabric(&ep->fabrics[i]))
			return true;
	return false;
}

static const struct tw_rp_offer *offer_of(const struct tw_rp_talk *t, const char *name)
{
	for (unsigned i = 0; i < t->noffers && i < TW_RP_FABRICS; i++)
		if (strncmp(t->offers[i].name, name, sizeof(t->offers[i].name)) == 0)
			return &t->offers[i];
	return NULL;
}

static void use(struct tw_rp_link *l, struct tw_rp_fabric *f, void *path)
{
	tw_rp_path_drop(l);
	l->fabric = f;
	l->path = path;
	l->epoch++;
	l->link.key_size = TW_KEY_MAX;
	l->link.far = f->ops->by_system;
}

static enum tw_err choose(struct tw_rp_link *l, const struct tw_rp_talk *offers,
			  struct tw_rp_talk *t, uint32_t failed)
{
	struct tw_rp_ep *ep = l->ep;

	for (unsigned i = 0; i < ep->nfabrics; i++) {
		struct tw_rp_fabric *f = &ep->fabrics[i];
		const struct tw_rp_offer *o = offer_of(offers, f->ops->name);
		struct tw_rp_offer *mine = &t->offers[0];
		void *path;

		if ((failed >> i & 1) || !o || !open_fabric(f) || !fits(l, o->max_packet) ||
		    !fits(l, f->ops->max_packet(f->instance)) ||
		    o->address.len > TW_FABRIC_ADDRESS ||
		    f->ops->path_new(f->instance, &mine->address, &path) != TW_OK)
			continue;
		if (f->ops->path_bind(path, &o->address) != TW_OK) {
			f->ops->path_free(path);
			continue;
		}
		make_offer(f, mine);
		if (o->max_packet < mine->max_packet)
			mine->max_packet = o->max_packet;
		agree(l, mine->max_packet);
		t->noffers = 1;
		use(l, f, path);
		return TW_OK;
	}
	return TW_EUNREACH;
}

enum tw_err tw_rp_choose(struct tw_rp_link *l, const struct tw_rp_talk *offers,
			 struct tw_rp_talk *t)
{
	enum tw_err err;

	tw_rp_fabrics_load(l->ep);
	err = choose(l, offers, t, l->failed);
	/* Where nothing else is offered, one that failed here. */
	if (err == TW_EUNREACH && l->failed) {
		l->failed = 0;
		err = choose(l, offers, t, 0);
	}
	return err;
}

enum tw_err tw_rp_chosen(struct tw_rp_link *l, const struct tw_rp_talk *t)
{
	for (unsigned i = 0; i < l->ep->nfabrics; i++) {
		struct tw_rp_fabric *f = &l->ep->fabrics[i];
		const struct tw_rp_offer *o = offer_of(t, f->ops->name);
		void *path = l->offered[i];

		if (!o || !path || !fits(l, o->max_packet) || o->address.len > TW_FABRIC_ADDRESS ||
		    f->ops->path_bind(path, &o->address) != TW_OK)
			continue;
		l->offered[i] = NULL;
		agree(l, o->max_packet);
		use(l, f, path);
		return TW_OK;
	}
	return TW_EPROTO;
}

void tw_rp_path_broken(struct tw_rp_link *l)
{
	uint64_t now = tw_clock();

	l->ep->host->counters[TW_C_PATH_BROKEN]++;
	/* After a goodbye no other can be agreed on: this one as well as it goes. */
	if (l->hushed) {
		l->unposted = l->kept.next;
		tw_rp_work(l);
		return;
	}
	if (l->path && (!l->bound || now - l->bound_at < tw_clock_us(SOON_US)))
		l->failed |= 1u << tw_rp_index(l->fabric);
	if (!l->broken)
		l->broken = now;
	tw_rp_path_drop(l);
	tw_rp_timer(l->ep, l->broken + tw_clock_us(1000ull * tw_settings.retry));
	if (!l->resuming) {
		tw_rp_resume(l);
		return;
	}
	/* The new one does not work either: on to the next, if any is left. */
	if (l->failed + 1 == 1u << l->ep->nfabrics)
		return;
	l->deadline = now + tw_clock_us(TW_RP_PROBE_US);
	tw_rp_timer(l->ep, l->deadline);
}

void tw_rp_broken(void *owner, void *path)
{
	struct tw_rp_fabric *f = owner;
	struct tw_list *n, *tmp;

	if (!path) {
		f->absent = tw_clock() + tw_clock_us(ABSENT_US);
		/* Should it come again: not while another one is agreed on. */
		tw_list_each(&f->ep->links, n, tmp)
			tw_container(n, struct tw_rp_link, node)->failed |= 1u << tw_rp_index(f);
		tw_rp_fabric_reset(f);
		return;
	}
	tw_list_each(&f->ep->links, n, tmp) {
		struct tw_rp_link *l = tw_container(n, struct tw_rp_link, node);

		if (l->fabric != f || l->path != path)
			continue;
		/* One that is ending has no use for another. */
		if (tw_rp_stays(l))
			tw_rp_path_broken(l);
		return;
	}
}
