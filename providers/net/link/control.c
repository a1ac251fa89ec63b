/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The control channel: messages of two endpoints beside their packets.
 *
 *   CONNECT -> ACCEPT, or REFUSE or WRONG
 *                       Offers one driver. When it is refused with TW_EPROTO, the
 *                       caller connects again and offers the next. Afterwards
 *                       probes go along the new path, and data only once they
 *                       have come through both ways.
 *   RESUME -> RESUMED   The same for a link that exists: each side tells the number
 *                       it expects next, and later packets are sent again. When both
 *                       ask at once, the side that connected continues.
 *   STATUS              Asks for or tells the next expected number, or that one is missing.
 *                       Each path of a link is asked for by its number.
 *   QUERY -> BOARDS     In place of CONNECT, see names.c.
 *   BOARDS              After ACCEPT, by a side with several: where it can be reached.
 *   LEAVE               At once when an endpoint disconnects and packets are not acknowledged:
 *                       the process may exit before it can say BYE.
 *   BYE                 After the acknowledgement of the last packet, or when the sender
 *                       has waited for that as long as it may.
 */
#include <string.h>
#include <sys/socket.h>

#include "base/sys.h"
#include "providers/net/session.h"

#define ANSWER_US 3000000      /* limit for a reply, and for a probe to come through */
#define ANSWER_MANY_US 1000000 /* the same where there is another way to try */
#define REFUSED_US 200000      /* after a refusal, until it is asked again */
#define BACKOFF_MAX 3u	       /* these are doubled at most so often */

static void fill(struct tw_net_link *l, struct tw_net_ctrl *t, enum tw_net_ctrl_type type)
{
	const struct tw_ident *me = &l->me;

	memset(t, 0, sizeof(*t));
	t->magic = TW_NET_MAGIC;
	t->version = TW_NET_VERSION;
	t->type = (uint16_t)type;
	t->nic_id = me->nic_id;
	t->endpoint_id = me->endpoint_id;
	t->session = me->session;
	t->filter = me->filter;
	t->presented = me->presented;
	t->window = me->window;
	t->to_nic = l->other.nic_id;
	t->to_endpoint = l->other.endpoint_id;
	t->to_session = l->other.session;
	t->job = tw_net_job();
	t->launched = tw_net_auth()->has[TW_NET_KEY_JOB];
	t->conn = l->conn;
	t->to_conn = l->peer_conn;
	t->expected = l->expected;
	t->seq = l->next_seq;
	t->port = l->ep->port;
}

static struct tw_ident ident_of(const struct tw_net_ctrl *t)
{
	return (struct tw_ident){t->nic_id, t->endpoint_id, t->session,
				 t->filter, t->presented,   t->window};
}

static void set_deadline(struct tw_net_link *l, struct tw_net_path *p, uint64_t wait)
{
	p->deadline = tw_net_in(l->ep, wait << tw_min(p->backoff, BACKOFF_MAX));
}

static void control_await(struct tw_net_link *l, struct tw_net_path *p)
{
	set_deadline(l, p, tw_net_many_ways(l) ? ANSWER_MANY_US : ANSWER_US);
}

static void control_put(struct tw_net_link *l, const struct tw_net_ctrl *t)
{
	if (!tw_net_sock_write(l, t))
		tw_log(TW_LOG_DEBUG, "control message %u to endpoint %u is lost", t->type,
		       l->other.endpoint_id);
}

void tw_net_ctrl_send(struct tw_net_link *l, enum tw_net_ctrl_type type, enum tw_err why)
{
	struct tw_net_ctrl t;

	if (l->channel != TW_NET_OPEN)
		return;
	fill(l, &t, type);
	t.why = why;
	control_put(l, &t);
}

/*
 * On a new connection: asks for the paths that are missing. The side that calls asks for one
 * in any case, and so tells which link it means.
 */
static void resume_missing(struct tw_net_link *l, bool caller)
{
	bool any = !caller;

	for (uint32_t i = 0; i < l->npaths; i++) {
		struct tw_net_path *p = &l->paths[i];

		if (caller ? p->bound : p->path != NULL)
			continue;
		any = true;
		p->resuming = false;
		tw_net_resume(l, p);
	}
	if (any)
		return;
	l->first->resuming = false;
	tw_net_resume(l, l->first);
}

void tw_net_ctrl_begin(struct tw_net_link *l)
{
	struct tw_net_ctrl t;

	if (l->state != TW_NET_NEW) {
		resume_missing(l, true);
		return;
	}
	fill(l, &t, TW_NET_CONNECT);
	tw_net_offer(l, l->first, &t);
	if (!t.noffers && tw_net_adapters_short(l->ep))
		tw_net_link_fail(l, TW_ENOMEM);
	else
		control_put(l, &t);
}

void tw_net_resume(struct tw_net_link *l, struct tw_net_path *p)
{
	struct tw_net_ctrl t;

	if (p->resuming || !tw_net_resumable(l))
		return;
	if (l->channel != TW_NET_OPEN)
		return; /* the new connection resumes */
	p->resuming = true;
	p->left = false;
	control_await(l, p);
	fill(l, &t, TW_NET_RESUME);
	t.path = (uint8_t)p->number;
	/* Each way gets both directions, whatever the number of ways that take turns. */
	l->round += 2 * TW_NET_ROUND_BACK;
	t.round = p->round = l->round | (__builtin_parity(l->round) ? TW_NET_ROUND_BACK : 0);
	tw_net_offer(l, p, &t);
	control_put(l, &t);
}

void tw_net_goodbye(struct tw_net_link *l)
{
	if (l->tx_shutdown || l->channel != TW_NET_OPEN)
		return;
	tw_net_ctrl_send(l, TW_NET_BYE, TW_OK);
	tw_sys_shutdown(l->sock, SHUT_WR);
	l->tx_shutdown = true;
}

static void control_probe(struct tw_net_link *l, struct tw_net_path *p)
{
	control_await(l, p);
	tw_net_send_plain(l, p, TW_NET_PROBE);
	tw_net_in(l->ep, TW_NET_PROBE_US);
}

/* Refuses a caller without telling it anything of this endpoint. */
static void deny(struct tw_net_link *l, enum tw_net_ctrl_type type, enum tw_err why)
{
	struct tw_net_ctrl t = {.magic = TW_NET_MAGIC,
				.version = TW_NET_VERSION,
				.type = (uint16_t)type,
				.why = why};

	control_put(l, &t);
	tw_net_link_end(l);
}

/* Where this side can be reached when the way that was taken is gone. */
static void send_boards(struct tw_net_link *l)
{
	struct tw_net_ctrl t;

	if (l->ep->nboards < 2)
		return;
	fill(l, &t, TW_NET_BOARDS);
	tw_net_boards_fill(l->ep, &t);
	control_put(l, &t);
}

/*
 * Both are of launchers, and not of the same one: a caller has tried its launcher's key before
 * the user's.
 */
static bool of_other_job(const struct tw_net_link *l, const struct tw_net_ctrl *t)
{
	return t->launched && l->proof.key == TW_NET_KEY_USER && tw_net_auth()->has[TW_NET_KEY_JOB];
}

static void admit(struct tw_net_link *l, const struct tw_net_ctrl *t)
{
	struct tw_net_ep *ep = l->ep;
	const struct tw_ident *self = &ep->host->self;
	bool other_job = of_other_job(l, t);
	struct tw_net_ctrl reply;
	enum tw_err err;

	l->me = *self;
	l->other = ident_of(t);
	l->peer_conn = t->conn;
	l->peer_port = t->port;
	if (ep->closing || other_job || t->job != tw_net_job() || t->to_nic != self->nic_id ||
	    t->to_endpoint != self->endpoint_id) {
		deny(l, TW_NET_WRONG, other_job ? TW_EPERM : TW_ECLOSED);
		return;
	}
	if (t->presented != self->filter) {
		/* The engine counts and refuses; no driver is opened for that. */
		deny(l, TW_NET_REFUSE,
		     ep->host->up->incoming(ep->host, &l->link, &l->other, &l->me));
		return;
	}
	fill(l, &reply, TW_NET_ACCEPT);
	err = tw_net_choose(l, t, &reply);
	if (err != TW_OK) {
		deny(l, TW_NET_REFUSE, err == TW_EUNREACH ? TW_EPROTO : err);
		return;
	}
	tw_net_half_open_done(ep);
	l->state = TW_NET_UP;
	l->deadline = 0;
	err = ep->host->up->incoming(ep->host, &l->link, &l->other, &l->me);
	if (err == TW_OK) {
		reply.filter = l->me.filter;
		reply.window = l->me.window;
		control_put(l, &reply);
		send_boards(l);
		return;
	}
	l->state = TW_NET_HALF_OPEN;
	ep->nhalf++;
	deny(l, TW_NET_REFUSE, err);
}

static void accepted(struct tw_net_link *l, const struct tw_net_ctrl *t)
{
	struct tw_ident other = ident_of(t);
	enum tw_err err = TW_EPROTO;

	if (other.nic_id == l->other.nic_id && other.endpoint_id == l->other.endpoint_id)
		err = tw_net_chosen(l, t);
	if (err != TW_OK) {
		tw_net_link_fail(l, err);
		return;
	}
	l->other = other;
	l->peer_conn = t->conn;
	l->peer_port = t->port;
	l->state = TW_NET_PROBING;
	tw_net_ports_end(l);
	control_probe(l, l->first);
	send_boards(l);
}

/*
 * The other side has no use for any way to a path, or knows of none. As that may change, say
 * when a board of it comes back, the path is sought again.
 */
static void none_left(struct tw_net_link *l, struct tw_net_path *p)
{
	if (l->state == TW_NET_PROBING) {
		tw_net_link_fail(l, TW_ELOST);
		return;
	}
	p->left = p->resuming = true;
	p->backoff++;
	tw_net_path_gone(l, p);
	set_deadline(l, p, REFUSED_US);
	tw_net_work(l);
}

/* Another endpoint than is wanted; TW_EPERM: that of another job of a launcher. */
static void wrong(struct tw_net_link *l, enum tw_err why)
{
	if (why == TW_EPERM)
		tw_net_stranger(l, (struct tw_net_stranger){why, TW_NET_VERSION, tw_net_method(),
							    .other_job = true});
	tw_net_dial_next(l);
}

/* Where no driver of one host is of use to the other: TW_EPROTO. */
static void control_refused(struct tw_net_link *l, enum tw_err why)
{
	if (why == TW_EPROTO)
		l->ep->host->up->trouble(
			l->ep->host, l->link.peer, why,
			"none of the providers of this host and that one fit",
			"compare TAGWIRE_PROVIDERS, TAGWIRE_OFI and mx_info of both hosts");
	tw_net_link_fail(l, why);
}

static void refusal(struct tw_net_link *l, const struct tw_net_ctrl *t)
{
	enum tw_err why = t->why > TW_PENDING && t->why < TW_NERRS ? (enum tw_err)t->why
								   : TW_EPROTO;
	struct tw_net_path *p = tw_net_path_at(l, t->path);
	bool answer = t->type == TW_NET_REFUSE && why == TW_EPROTO && p;
	bool protocol = answer && t->round == p->round;
	bool other = protocol && tw_net_offers_left(l, p);

	if (l->state == TW_NET_NEW) {
		if (t->type == TW_NET_WRONG)
			wrong(l, why);
		else if (other)
			tw_net_dial_same(l);
		else
			control_refused(l, why);
	} else if (why == TW_ECROSS) {
		/* The peer has asked, too, and its connection goes on. */
		tw_net_sock_close(l);
		for (unsigned i = 0; i < l->npaths; i++)
			l->paths[i].resuming = false;
	} else if (other) {
		p->resuming = false;
		tw_net_resume(l, p);
	} else if (protocol) {
		none_left(l, p);
	} else if (!answer) { /* one of another round is to an earlier RESUME */
		tw_net_link_drain(l, TW_ELOST);
	}
}

/* The link that a RESUME names. */
static struct tw_net_link *resume_link(struct tw_net_ep *ep, const struct tw_net_ctrl *t)
{
	struct tw_net_link *l = tw_net_link_find(ep, t->to_conn);

	if (!l || !tw_net_resumable(l) || l->me.session != t->to_session ||
	    l->other.session != t->session || l->peer_conn != t->conn)
		return NULL;
	return l;
}

/* The answer to a RESUME. */
static void control_renew(struct tw_net_link *l, struct tw_net_path *p, const struct tw_net_ctrl *t)
{
	struct tw_net_ctrl reply;
	enum tw_err err;

	p->resuming = false;
	l->again = 0;
	fill(l, &reply, TW_NET_RESUMED);
	reply.path = t->path;
	reply.round = t->round;
	tw_net_acked(l, t->expected);
	err = tw_net_choose(l, t, &reply);
	if (err != TW_OK) {
		tw_net_path_left(l, p);
		reply.type = TW_NET_REFUSE;
		reply.why = TW_EPROTO;
	}
	/*
	 * A probe that comes through binds the path and has the rest sent again. Where
	 * descriptors are short the other side asks again, later.
	 */
	if (err != TW_ENOMEM)
		control_put(l, &reply);
	control_await(l, p);
	if (l->first->bound)
		tw_net_link_mended(l);
}

static void resume(struct tw_net_link *from, const struct tw_net_ctrl *t)
{
	struct tw_net_link *l = resume_link(from->ep, t);
	enum tw_err err = TW_ECLOSED;
	struct tw_net_path *p;

	/* A link's own channel speaks of that link alone. */
	if (!l || t->path >= TW_NET_PATHS || (from != l && from->state != TW_NET_HALF_OPEN))
		goto refuse;
	l->npaths = tw_max(l->npaths, t->path + 1u);
	p = &l->paths[t->path];
	/* Both sides ask at once: the one that connected continues. */
	if (l->initiator && p->resuming && p->offered) {
		if (from == l)
			return;
		err = TW_ECROSS;
		if (!tw_net_sock_stalled(l))
			goto refuse;
	}
	if (from != l) {
		tw_net_sock_adopt(l, from);
		tw_net_link_end(from);
	}
	control_renew(l, p, t);
	if (from != l)
		resume_missing(l, false);
	return;
refuse:
	if (from->state == TW_NET_HALF_OPEN)
		deny(from, TW_NET_REFUSE, err);
	else
		tw_net_ctrl_send(from, TW_NET_REFUSE, err);
}

static void resumed(struct tw_net_link *l, const struct tw_net_ctrl *t)
{
	struct tw_net_path *p = tw_net_path_at(l, t->path);
	enum tw_err err;

	/* A reply to an earlier RESUME, whose offers are gone. */
	if (!p || t->round != p->round)
		return;
	/* Another path is in use by now, which the other side has left. */
	if (!p->resuming) {
		tw_net_path_broken(l, p);
		return;
	}
	/* The offers are gone if their driver was closed: ask again. */
	err = tw_net_chosen(l, t);
	if (err != TW_OK) {
		tw_net_path_left(l, p);
		p->deadline = tw_net_in(l->ep, err == TW_ENOMEM ? ANSWER_US : TW_NET_PROBE_US);
		return;
	}
	tw_net_acked(l, t->expected);
	control_probe(l, p);
}

static void status(struct tw_net_link *l, const struct tw_net_ctrl *t)
{
	switch (t->why) {
	case TW_AGAIN:
		if (l->first->bound)
			tw_net_resend(l, t->expected);
		return;
	case TW_PENDING:
		tw_net_ctrl_send(l, TW_NET_STATUS, TW_OK);
		return;
	}
	l->asked = false;
	l->nasked++;
	tw_net_acked(l, t->expected);
	if (tw_list_empty(&l->kept) || !l->nasked || !l->first->bound)
		return;
	/* Only a path along which nothing moves is given up, not a slow one. */
	if (l->nasked % 8 == 0)
		tw_net_path_broken(l, l->first);
	else if (l->nasked % 2 == 0)
		tw_net_resend(l, t->expected);
}

static void note_end(struct tw_net_link *l, const struct tw_net_ctrl *t)
{
	l->orderly = true;
	l->final = t->seq;
}

static void bye(struct tw_net_link *l, const struct tw_net_ctrl *t)
{
	note_end(l, t);
	if (l->state == TW_NET_LEAVING)
		tw_net_link_end(l);
	else if (t->why == TW_OK)
		tw_net_link_drain(l, TW_ECLOSED);
	else
		tw_net_link_fail(l, TW_ELOST);
}

/* It comes too late, or says nothing that matters. */
static void nothing(struct tw_net_link *l, const struct tw_net_ctrl *t)
{
	(void)l;
	(void)t;
}

static void breach(struct tw_net_link *l, const struct tw_net_ctrl *t)
{
	(void)t;
	tw_net_sock_lost(l, TW_EPROTO);
}

/* clang-format off */
/*
 * The effect of each message in each state of its link. The last column is a link that leaves and
 * has said BYE. Only in HALF_OPEN and LEAVING, where the engine has no pointer to the link, may
 * it end without an upcall.
 */
static void (*const table[][TW_NET_DEAD + 1])(struct tw_net_link *, const struct tw_net_ctrl *) = {
	/*                  NEW       HALF_OPEN PROBING   UP        DRAIN    LEAVING  said BYE */
	[TW_NET_CONNECT] = {nothing,  admit,    nothing,  nothing,  nothing, nothing, nothing},
	[TW_NET_ACCEPT]  = {accepted, breach,   nothing,  nothing,  nothing, nothing, nothing},
	[TW_NET_REFUSE]  = {refusal,  breach,   refusal,  refusal,  nothing, refusal, nothing},
	[TW_NET_WRONG]   = {refusal,  breach,   refusal,  refusal,  nothing, refusal, nothing},
	[TW_NET_RESUME]  = {nothing,  resume,   resume,   resume,   nothing, resume,  nothing},
	[TW_NET_RESUMED] = {nothing,  breach,   resumed,  resumed,  nothing, resumed, nothing},
	[TW_NET_STATUS]  = {nothing,  breach,   status,   status,   nothing, status,  status},
	[TW_NET_BYE]     = {bye,      breach,   bye,      bye,      nothing, bye,     bye},
	[TW_NET_QUERY]   = {nothing,  tw_net_describe, nothing, nothing, nothing, nothing, nothing},
	[TW_NET_BOARDS]  = {nothing,  breach,   tw_net_boards_take, tw_net_boards_take, nothing,
			    tw_net_boards_take, nothing},
	[TW_NET_LEAVE]   = {nothing,  breach,   nothing,  note_end, nothing, nothing, nothing},
};
/* clang-format on */

void tw_net_on_ctrl(struct tw_net_link *l, const struct tw_net_ctrl *t)
{
	bool known = t->type < tw_countof(table) && t->type >= TW_NET_CONNECT;
	bool last = l->state == TW_NET_LEAVING && l->tx_shutdown;

	if (t->magic != TW_NET_MAGIC || t->version != TW_NET_VERSION ||
	    t->noffers > TW_NET_DRIVERS || (l->state == TW_NET_HALF_OPEN && !known)) {
		breach(l, t);
		return;
	}
	if (l->broken && tw_net_resumable(l) && l->first->bound)
		tw_net_link_mended(l);
	if (known)
		table[t->type][last ? TW_NET_DEAD : l->state](l, t);
}
