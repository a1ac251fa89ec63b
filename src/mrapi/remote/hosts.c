/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process to talk to on each other host: any will do, as it has the host's segment.
 *
 *   DOWN      look                                    LOOKING
 *   any       a process of that host calls            UP
 *   LOOKING   a process is there: introduces itself   GREETING
 *   LOOKING   all slots are refused, or no way to it  DOWN
 *             for TAGWIRE_RETRY
 *   GREETING  it has told what its host has           UP
 *   UP        it is lost                              LOOKING
 *
 * Slots are assigned lowest first, so low ones are tried first, the others while nobody waits. The
 * one that another process of this host has found is the next, whenever it is found. A host that is
 * DOWN has nothing and is not waited for: who comes later looks for the others. One that is not
 * known to have anything is DOWN at once if there is no way to it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/report.h"
#include "mrapi/remote/remote.h"

#define LIKELY 32	 /* slots that a caller waits for */
#define LOOK_US 1000000u /* minimum interval */
#define AGAIN_MS 1000u	 /* without a way to a host */
#define POSTED 4u	 /* then one asks for a reply */

enum state { DOWN, LOOKING, GREETING, UP };

static struct link {
	uint8_t state;
	bool quietly;	     /* nobody waits for what is found */
	bool due;	     /* the next slot is to be tried */
	bool refused;	     /* a process there has another key */
	struct tw_member *m; /* unless DOWN */
	uint32_t next, most;
	uint64_t looked;
	uint64_t gone; /* since when there is no way; 0: there was */
	struct tw_ctrl_request hello;
	unsigned posted; /* notices without a reply of their own, since the last reply */
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

static void host_look(struct link *l, uint32_t most, bool quietly)
{
	l->state = LOOKING;
	l->quietly = quietly;
	l->refused = false;
	l->next = 0;
	l->most = most;
	l->gone = 0;
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

static void over(struct tw_mrapi_notice *t)
{
	tw_list_del(&t->link);
	if (t->me)
		tw_mrapi_turn_end(t->me, &t->ctrl);
	free(t);
}

static uint64_t bit_of(const struct link *l)
{
	return 1ull << (l - links);
}

/* Another process of this host has found it, and would notice its loss. */
static bool known_to_others(const struct link *l)
{
	for (uint32_t i = 0; i < TW_MRAPI_PROCS; i++) {
		struct tw_mrapi_proc *p = &tw_mrapi.seg->proc[i];

		if (i != tw_mrapi.proc && (atomic_load(&p->hosts) & bit_of(l)) &&
		    tw_mrapi_state(p) == TW_MRAPI_LIVE)
			return true;
	}
	return false;
}

static void go_down(struct link *l)
{
	l->state = DOWN;
	l->quietly = false;
	l->m = NULL;
	l->looked = tw_clock();
	tw_log(TW_LOG_INFO, "mrapi: finds nobody on host %" PRIx64, host_at(l)->nic);
	tw_list_walk(&l->unsent, struct tw_mrapi_notice, t, link)
		over(t);
	atomic_fetch_and(&tw_mrapi.seg->proc[tw_mrapi.proc].hosts, ~bit_of(l));
	if (!known_to_others(l))
		tw_mrapi_remote_forget((uint32_t)(l - links) + 1);
	tw_mrapi_net_attend();
}

static void host_come_up(struct link *l, struct tw_member *m)
{
	struct tw_list unsent;

	l->state = UP;
	l->quietly = l->due = false;
	l->m = m;
	atomic_fetch_or(&tw_mrapi.seg->proc[tw_mrapi.proc].hosts, bit_of(l));
	tw_list_init(&unsent);
	if (!tw_list_empty(&l->unsent))
		tw_list_splice_tail(&unsent, &l->unsent);
	tw_list_walk(&unsent, struct tw_mrapi_notice, t, link) {
		tw_list_del(&t->link);
		tw_mrapi_host_notify(t);
	}
}

static void host_greeted(struct tw_ctrl_request *r, const void *reply, uint32_t len)
{
	struct link *l = tw_container(r, struct link, hello);

	(void)len;
	if (reply && l->state == GREETING)
		host_come_up(l, l->m);
}

/* Before what is here is collected, so that what another process creates later is told by that. */
static void host_introduce(struct link *l, struct tw_member *to)
{
	atomic_store(&host_at(l)->where, to->where);
	tw_mrapi_remote_introduce(to);
}

static void host_greet(struct link *l)
{
	struct tw_mrapi_ctrl ctrl = {.what = TW_MRAPI_CTRL_HELLO};

	l->state = GREETING;
	host_introduce(l, l->m);
	l->hello.on_reply = host_greeted;
	tw_ctrl_abandon(&l->hello); /* it may have called meanwhile */
	tw_ctrl_request(&l->hello, l->m);
	ctrl.number = l->hello.number;
	if (tw_ctrl_send(l->m, 0, &ctrl, sizeof(ctrl)))
		return;
	tw_ctrl_abandon(&l->hello);
	go_down(l);
}

/*
 * Two hosts with different keys look like one whose locks hold nobody back. That the processes of
 * this job are behind the slots of another user's is less likely.
 */
static void host_say_apart(const struct link *l)
{
	char host[TW_REPORT_SIZE / 2], who[TW_REPORT_SIZE];

	tw_nic_text(host_at(l)->nic, host, sizeof(host));
	snprintf(who, sizeof(who), "mrapi: host %s", host);
	tw_report(TW_LOG_ERROR, who, "its processes and this one do not authenticate each other",
		  "ids and locks of the same number are different ones there and here");
}

static void try_next(struct link *l)
{
	uint64_t known = atomic_load(&host_at(l)->where);

	l->due = false;
	l->m = NULL;
	if (l->next == LIKELY && l->refused)
		host_say_apart(l);
	if (known)
		l->m = tw_mrapi_net_member(known);
	else if (l->next < l->most) {
		l->quietly |= l->next >= LIKELY;
		l->m = tw_mrapi_net_member(host_at(l)->nic << 16 | (TW_MRAPI_FIRST_ID + l->next++));
	}
	if (!l->m)
		go_down(l);
	else if (l->m->state == TW_MEMBER_HERE)
		host_greet(l);
	else
		tw_member_search(l->m);
}

void tw_mrapi_hosts_work(void)
{
	each_link(l)
		if (l->due)
			try_next(l);
}

void tw_mrapi_hosts_here(struct tw_member *m)
{
	each_link(l)
		if (l->m == m && l->state == LOOKING)
			host_greet(l);
}

/* Else the port of that slot is another program's, or its process dies just now. */
static bool no_way(const struct tw_member *m)
{
	return m->why == TW_S_UNKNOWN || m->why == TW_S_TIMEOUT || m->why == TW_S_NO_RESOURCES;
}

/* A cut shorter than TAGWIRE_RETRY loses nothing. */
static bool may_return(struct link *l)
{
	if (!l->gone)
		l->gone = tw_clock();
	return host_at(l)->life && l->m->why != TW_S_NO_RESOURCES &&
	       tw_clock() - l->gone < tw_clock_us(1000ull * tw_settings.retry);
}

static void missed(struct link *l)
{
	l->state = LOOKING;
	l->refused |= l->m->why == TW_S_REJECTED;
	if (!no_way(l->m)) {
		l->due = true;
		tw_mrapi_net_attend();
	} else if (may_return(l)) {
		l->quietly = true;
		tw_member_search_for(l->m, AGAIN_MS);
	} else {
		go_down(l);
	}
}

void tw_mrapi_hosts_lost(struct tw_member *m)
{
	each_link(l) {
		uint64_t where = m->where;

		if (where >> 16 == host_at(l)->nic)
			atomic_compare_exchange_strong(&host_at(l)->where, &where, 0);
		if (l->m != m)
			continue;
		if (l->state == UP)
			host_look(l, TW_MRAPI_PROCS, false);
		else
			missed(l);
	}
}

void tw_mrapi_hosts_life(const struct tw_member *from, uint64_t life)
{
	struct link *l = link_of(from->where >> 16);

	if (l)
		tw_mrapi_remote_life((uint32_t)(l - links) + 1, life);
}

void tw_mrapi_hosts_hello(struct tw_member *from)
{
	struct link *l = link_of(from->where >> 16);

	if (!l)
		return;
	host_introduce(l, from);
	if (l->state != UP)
		host_come_up(l, from);
}

/* --------------------------------------------------------------------- asking */

static bool host_is_decided(struct tw_ep *ep, void *arg)
{
	const struct link *l = arg;

	(void)ep;
	return l->state == UP || l->state == DOWN;
}

static bool host_is_decided_or_quiet(struct tw_ep *ep, void *arg)
{
	return host_is_decided(ep, arg) || ((struct link *)arg)->quietly;
}

/* Nor does another process of this host know one there. */
static bool unknown(const struct link *l)
{
	return l->state == DOWN && !atomic_load(&host_at(l)->where);
}

/* SUCCESS: it is up. */
static mrapi_status_t host_reach(struct tw_ep *ep, struct link *l,
				 bool (*over)(struct tw_ep *, void *))
{
	if ((l->state == DOWN || l->quietly) && atomic_load(&host_at(l)->where))
		host_look(l, TW_MRAPI_PROCS, false);
	tw_group_attend(ep);
	if (tw_wait(ep, over, l, TW_FOREVER) != TW_W_TRUE)
		return MRAPI_ERR_NODE_NOTINIT;
	return l->state == UP ? MRAPI_SUCCESS : MRAPI_ERR_RMEM_INVALID;
}

mrapi_status_t tw_mrapi_host_ask(struct tw_ep *ep, uint32_t host, struct tw_mrapi_ctrl *ctrl)
{
	const struct tw_mrapi_ctrl question = *ctrl;
	struct link *l = &links[host - 1];
	mrapi_status_t status;

	for (;;) {
		status = host_reach(ep, l, host_is_decided);
		if (status != MRAPI_SUCCESS)
			return status;
		*ctrl = question;
		status = tw_mrapi_net_request(ep, l->m, ctrl);
		/* A loss leaves ctrl as it is. */
		if (status != MRAPI_ERR_RMEM_INVALID || ctrl->what == TW_MRAPI_CTRL_REPLY)
			return status;
	}
}

mrapi_status_t tw_mrapi_hosts_ask(const struct tw_mrapi_ctrl *ctrl)
{
	bool all = ctrl->what == TW_MRAPI_CTRL_GONE;
	mrapi_status_t status = MRAPI_SUCCESS;

	tw_mrapi_with_ep(ep) each_link(l)
	{
		struct tw_mrapi_ctrl each = *ctrl;
		mrapi_status_t answer;

		if ((status != MRAPI_SUCCESS && !all) || unknown(l) ||
		    host_reach(ep, l, host_is_decided_or_quiet) != MRAPI_SUCCESS)
			continue;
		answer = tw_mrapi_host_ask(ep, (uint32_t)(l - links) + 1, &each);
		if (answer != MRAPI_ERR_RMEM_INVALID)
			status = answer;
	}
	return status;
}

static void notice_reply(struct tw_ctrl_request *r, const void *reply, uint32_t len)
{
	struct tw_mrapi_notice *t = tw_container(r, struct tw_mrapi_notice, r);

	(void)len;
	if (reply) {
		over(t);
		return;
	}
	tw_list_del(&t->link);
	tw_list_add_tail(&links[t->host - 1].unsent, &t->link);
}

void tw_mrapi_hosts_replied(struct tw_member *from, uint32_t number)
{
	each_link(l)
		if (l->m == from)
			l->posted = 0;
	tw_list_walk(&notices, struct tw_mrapi_notice, t, link)
		if (t->r.to == from && (int32_t)(number - t->r.number) > 0) {
			tw_ctrl_abandon(&t->r);
			over(t);
		}
}

/* An operation has no reply of its own: any later one says that it was served. */
void tw_mrapi_host_notify(struct tw_mrapi_notice *t)
{
	struct link *l = &links[t->host - 1];
	if (l->state != UP) {
		tw_list_add_tail(&l->unsent, &t->link);
		return;
	}
	tw_list_add_tail(&notices, &t->link);
	t->r.on_reply = notice_reply;
	tw_mrapi_net_begin_request(&t->r, l->m, &t->ctrl);
	t->ctrl.quiet = t->ctrl.what == TW_MRAPI_CTRL_OPERATE && ++l->posted % POSTED;
	if (!tw_ctrl_send(l->m, 0, &t->ctrl, sizeof(t->ctrl)))
		tw_mrapi_net_give_up(l->m);
}

static void notify_all(const struct tw_mrapi_ctrl *ctrl)
{
	each_link(l) {
		struct tw_mrapi_notice *t;

		if (l->state == DOWN && !unknown(l))
			host_look(l, TW_MRAPI_PROCS, true);
		t = l->state == DOWN ? NULL : calloc(1, sizeof(*t));
		if (!t)
			continue;
		t->host = (uint32_t)(l - links) + 1;
		t->ctrl = *ctrl;
		tw_mrapi_host_notify(t);
	}
}

bool tw_mrapi_hosts_notify(const struct tw_mrapi_ctrl *ctrl)
{
	bool there = false;

	tw_mrapi_with_ep(ep)
	{
		notify_all(ctrl);
		there = true;
	}
	return there;
}

/* ------------------------------------------------------------------ start, stop */

void tw_mrapi_hosts_look(void)
{
	tw_mrapi_with_ep(ep)
		each_link(l) if (unknown(l) && tw_clock() - l->looked > tw_clock_us(LOOK_US))
			host_look(l, LIKELY, true);
}

void tw_mrapi_hosts_inherit(uint64_t hosts)
{
	tw_mrapi_with_ep(ep) each_link(l) if (l->state == DOWN && (hosts & bit_of(l)))
		host_look(l, TW_MRAPI_PROCS, true);
}

void tw_mrapi_hosts_begin(void)
{
	atomic_store(&tw_mrapi.seg->proc[tw_mrapi.proc].hosts, 0);
	for (unsigned i = 0; i < TW_MRAPI_HOSTS; i++) {
		links[i] = (struct link){.state = DOWN};
		tw_list_init(&links[i].unsent);
		tw_list_init(&links[i].hello.link);
	}
}

void tw_mrapi_hosts_start(struct tw_ep *ep, const uint64_t *nics, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct link *l = link_of(nics[i]);

		if (!l)
			tw_log(TW_LOG_ERROR,
			       "mrapi: host %" PRIx64 " is left out: more than %d hosts", nics[i],
			       TW_MRAPI_HOSTS);
		/* It may have called already. */
		else if (l->state == DOWN)
			host_look(l, TW_MRAPI_PROCS, false);
	}
	each_link(l)
		host_reach(ep, l, host_is_decided_or_quiet);
}

void tw_mrapi_hosts_stop(void)
{
	for (unsigned i = 0; i < TW_MRAPI_HOSTS; i++)
		free_notices(&links[i].unsent);
	free_notices(&notices);
}
