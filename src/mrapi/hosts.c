/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process to talk to on each other host: any will do, as it has the host's segment.
 *
 *   DOWN      look                                    LOOKING
 *   any       a process of that host calls            UP
 *   LOOKING   a process is there: introduces itself   GREETING
 *   LOOKING   all slots are refused, or no route      DOWN
 *   GREETING  it has told what its host has           UP
 *   UP        it is lost                              LOOKING
 *
 * Slots are assigned lowest first, so low ones are tried first, the others while nobody waits;
 * before them the one that another process of this host has found. A host that is DOWN has nothing
 * and is not waited for: who comes later looks for the others.
 */
#include <stdlib.h>

#include "mrapi/far.h"

#define LIKELY 32	 /* slots that a caller waits for */
#define LOOK_US 1000000u /* minimum interval */

enum state { DOWN, LOOKING, GREETING, UP };

static struct link {
	uint8_t state;
	bool quietly;	     /* nobody waits for what is found */
	bool due;	     /* the next slot is to be tried */
	struct tw_member *m; /* unless DOWN */
	uint32_t next, most;
	uint64_t looked;
	struct tw_ctrl_request hello;
	struct tw_list unsent;
} links[TW_MRAPI_HOSTS];

static struct tw_list notices = {&notices, &notices}; /* that have no reply yet */

static struct tw_mrapi_host *host_at(const struct link *l)
{
	return &tw_mrapi.seg->host[l - links];
}

uint32_t tw_mrapi_host_of(uint64_t nic)
{
	for (uint32_t i = 0; i < TW_MRAPI_HOSTS && tw_mrapi.seg->host[i].nic; i++)
		if (tw_mrapi.seg->host[i].nic == nic)
			return i + 1;
	return 0;
}

static struct link *link_of(uint64_t nic)
{
	struct tw_mrapi_host *host = tw_mrapi.seg->host;
	uint32_t i = 0;

	tw_mrapi_admin_lock();
	while (i < TW_MRAPI_HOSTS && host[i].nic && host[i].nic != nic)
		i++;
	if (i < TW_MRAPI_HOSTS)
		host[i].nic = nic;
	tw_mrapi_admin_unlock();
	return i < TW_MRAPI_HOSTS ? &links[i] : NULL;
}

#define each_link(l)                                                                               \
	for (struct link *l = links; l < links + TW_MRAPI_HOSTS && host_at(l)->nic; l++)

static void look(struct link *l, uint32_t most, bool quietly)
{
	l->state = LOOKING;
	l->quietly = quietly;
	l->next = 0;
	l->most = most;
	l->due = true;
	tw_mrapi_net_attend();
}

static void free_notices(struct tw_list *list)
{
	tw_list_walk(list, struct tw_mrapi_notice, t, link) {
		tw_list_del(&t->link);
		free(t);
	}
}

static void go_down(struct link *l)
{
	l->state = DOWN;
	l->quietly = false;
	l->m = NULL;
	l->looked = tw_clock();
	free_notices(&l->unsent);
	/* Else another process of this host knows better. */
	if (!atomic_load(&host_at(l)->where))
		tw_mrapi_far_forget((uint32_t)(l - links) + 1);
	tw_mrapi_net_attend();
}

static void come_up(struct link *l, struct tw_member *m)
{
	struct tw_list unsent;

	l->state = UP;
	l->quietly = l->due = false;
	l->m = m;
	atomic_store(&host_at(l)->where, m->where);
	tw_list_init(&unsent);
	if (!tw_list_empty(&l->unsent))
		tw_list_splice_tail(&unsent, &l->unsent);
	tw_list_walk(&unsent, struct tw_mrapi_notice, t, link) {
		tw_list_del(&t->link);
		tw_mrapi_host_notify(t);
	}
}

static void greeted(struct tw_ctrl_request *r, const void *reply, uint32_t len)
{
	struct link *l = tw_container(r, struct link, hello);

	(void)len;
	if (reply && l->state == GREETING)
		come_up(l, l->m);
}

static void greet(struct link *l)
{
	struct tw_mrapi_ctrl ctrl = {.what = TW_MRAPI_CTRL_HELLO};

	l->state = GREETING;
	tw_mrapi_far_introduce(l->m);
	l->hello.on_reply = greeted;
	tw_ctrl_abandon(&l->hello); /* it may have called meanwhile */
	tw_ctrl_request(&l->hello, l->m);
	ctrl.number = l->hello.number;
	if (tw_ctrl_send(l->m, 0, &ctrl, sizeof(ctrl)))
		return;
	tw_ctrl_abandon(&l->hello);
	go_down(l);
}

static void try_next(struct link *l)
{
	uint64_t known = atomic_load(&host_at(l)->where);
	uint32_t n = l->next++;

	l->due = false;
	l->m = NULL;
	l->quietly |= n > LIKELY;
	if (n <= l->most)
		l->m = tw_mrapi_net_member(n == 0 && known ? known
							   : host_at(l)->nic << 16 |
								     (TW_MRAPI_FIRST_ID + n - !!n));
	if (!l->m)
		go_down(l);
	else if (l->m->state == TW_MEMBER_HERE)
		greet(l);
	else
		tw_member_seek(l->m);
}

void tw_mrapi_hosts_work(void)
{
	each_link(l) if (l->due) try_next(l);
}

void tw_mrapi_hosts_here(struct tw_member *m)
{
	each_link(l) if (l->m == m && l->state == LOOKING) greet(l);
}

/* The port of a slot may be another user's, who rejects; where there is no route is nobody. */
static bool worth_more(const struct tw_member *m)
{
	return m->why == TW_S_OK || m->why == TW_S_CLOSED || m->why == TW_S_REJECTED;
}

void tw_mrapi_hosts_lost(struct tw_member *m)
{
	each_link(l)
	{
		uint64_t where = m->where;

		if (where >> 16 == host_at(l)->nic)
			atomic_compare_exchange_strong(&host_at(l)->where, &where, 0);
		if (l->m != m)
			continue;
		if (l->state == UP) {
			look(l, TW_MRAPI_PROCS, false);
		} else if (worth_more(m)) {
			l->state = LOOKING;
			l->due = true;
			tw_mrapi_net_attend();
		} else {
			go_down(l);
		}
	}
}

void tw_mrapi_hosts_hello(struct tw_member *from)
{
	struct link *l = link_of(from->where >> 16);
	uint64_t none = 0;

	tw_mrapi_far_introduce(from);
	if (!l)
		return;
	atomic_compare_exchange_strong(&host_at(l)->where, &none, from->where);
	if (l->state != UP)
		come_up(l, from);
}

/* --------------------------------------------------------------------- asking */

static bool settled(struct tw_ep *ep, void *arg)
{
	const struct link *l = arg;

	(void)ep;
	return l->state == UP || l->state == DOWN || l->quietly;
}

/* SUCCESS: it is up. */
static mrapi_status_t reach(struct tw_ep *ep, struct link *l, uint64_t timeout_us)
{
	enum tw_waited waited = TW_W_WOKEN;

	if (l->state == DOWN && atomic_load(&host_at(l)->where))
		look(l, TW_MRAPI_PROCS, false);
	tw_group_attend(ep);
	while (waited == TW_W_WOKEN)
		waited = tw_wait(ep, settled, l, timeout_us);
	if (waited == TW_W_TRUE)
		return l->state == UP ? MRAPI_SUCCESS : MRAPI_ERR_RMEM_INVALID;
	return waited == TW_W_TIMEOUT ? MRAPI_TIMEOUT : MRAPI_ERR_NODE_NOTINIT;
}

mrapi_status_t tw_mrapi_host_ask(struct tw_ep *ep, uint32_t host, struct tw_mrapi_ctrl *ctrl,
				 uint64_t timeout_us)
{
	const struct tw_mrapi_ctrl question = *ctrl;
	struct link *l = &links[host - 1];
	mrapi_status_t status;

	for (;;) {
		status = reach(ep, l, timeout_us);
		if (status != MRAPI_SUCCESS)
			return status;
		*ctrl = question;
		status = tw_mrapi_net_request(ep, l->m, ctrl, timeout_us);
		if (status != MRAPI_ERR_RMEM_INVALID)
			return status;
	}
}

mrapi_status_t tw_mrapi_hosts_ask(const struct tw_mrapi_ctrl *ctrl)
{
	mrapi_status_t status = MRAPI_SUCCESS;
	struct tw_ep *ep = tw_mrapi_net_enter();

	if (!ep)
		return status;
	each_link(l)
	{
		struct tw_mrapi_ctrl each = *ctrl;
		mrapi_status_t answer;

		if (l->quietly || (l->state == DOWN && !atomic_load(&host_at(l)->where)))
			continue;
		answer = tw_mrapi_host_ask(ep, (uint32_t)(l - links) + 1, &each, TW_FOREVER);
		if (answer != MRAPI_SUCCESS && answer != MRAPI_ERR_RMEM_INVALID)
			status = answer;
		if (status != MRAPI_SUCCESS)
			break;
	}
	tw_group_leave(ep);
	return status;
}

static void notice_reply(struct tw_ctrl_request *r, const void *reply, uint32_t len)
{
	struct tw_mrapi_notice *t = tw_container(r, struct tw_mrapi_notice, r);

	(void)len;
	tw_list_del(&t->link);
	if (reply)
		free(t);
	else
		tw_list_add_tail(&links[t->host - 1].unsent, &t->link);
}

void tw_mrapi_host_notify(struct tw_mrapi_notice *t)
{
	struct link *l = &links[t->host - 1];

	if (l->state != UP) {
		tw_list_add_tail(&l->unsent, &t->link);
		return;
	}
	tw_list_add_tail(&notices, &t->link);
	t->r.on_reply = notice_reply;
	tw_ctrl_request(&t->r, l->m);
	t->ctrl.number = t->r.number;
	if (!tw_ctrl_send(l->m, 0, &t->ctrl, sizeof(t->ctrl)))
		tw_mrapi_net_give_up(l->m);
}

void tw_mrapi_hosts_notify(const struct tw_mrapi_ctrl *ctrl)
{
	struct tw_ep *ep = tw_mrapi_net_enter();

	if (!ep)
		return;
	each_link(l)
	{
		struct tw_mrapi_notice *t = l->state == DOWN ? NULL : calloc(1, sizeof(*t));

		if (!t)
			continue;
		t->host = (uint32_t)(l - links) + 1;
		t->ctrl = *ctrl;
		tw_mrapi_host_notify(t);
	}
	tw_group_leave(ep);
}

/* ------------------------------------------------------------------ start, stop */

void tw_mrapi_hosts_look(void)
{
	struct tw_ep *ep = tw_mrapi_net_enter();

	if (!ep)
		return;
	each_link(l) if (l->state == DOWN && !atomic_load(&host_at(l)->where) &&
			 tw_clock() - l->looked > tw_clock_us(LOOK_US)) look(l, LIKELY, true);
	tw_group_leave(ep);
}

void tw_mrapi_hosts_start(struct tw_ep *ep, const uint64_t *nics, unsigned n)
{
	for (unsigned i = 0; i < TW_MRAPI_HOSTS; i++) {
		links[i] = (struct link){.state = DOWN};
		tw_list_init(&links[i].unsent);
		tw_list_init(&links[i].hello.link);
	}
	for (unsigned i = 0; i < n; i++) {
		struct link *l = link_of(nics[i]);

		if (l)
			look(l, TW_MRAPI_PROCS, false);
	}
	each_link(l) reach(ep, l, TW_FOREVER);
}

void tw_mrapi_hosts_stop(void)
{
	for (unsigned i = 0; i < TW_MRAPI_HOSTS; i++)
		free_notices(&links[i].unsent);
	free_notices(&notices);
}
