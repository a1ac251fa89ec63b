/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What mx_why says: who waits for whom; why; what to do. Following the arrows from every blocked
 * process, most end at one process or in one cycle: that one is explained.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cli.h"
#include "engine/types.h"
#include "why.h"

static const char rights[] =
	"Run the mx_why of its version, as root where kernel.yama.ptrace_scope is above 0.";

static const char there[] = "Run mx_why there, or on all hosts with --together: mx_why(1).";

#define SHOWN 3 /* members of a cycle that are named */

static void say(char *text, const char *fmt, ...) bench_printf(2, 3);
static void say(char *text, const char *fmt, ...)
{
	size_t n = strlen(text);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text + n, WHY_TEXT - n, fmt, ap);
	va_end(ap);
}

static void capital(char *text)
{
	if (text[0] >= 'a' && text[0] <= 'z')
		text[0] = (char)(text[0] - 'a' + 'A');
}

/* Where following the arrows ends. */
struct end {
	int at;	  /* the process, or one of the cycle */
	int last; /* the blocked one before it */
	bool cycle;
};

static struct end follow(const struct why_graph *g, int from)
{
	struct end e = {.at = from, .last = from};
	int low;

	for (unsigned i = 0; i <= g->now->n; i++) {
		if (g->actors[e.at].now->mood != WHY_BLOCKED || g->actors[e.at].next < 0)
			return e;
		e.last = e.at;
		e.at = g->actors[e.at].next;
	}
	/* In a cycle: its lowest member stands for it. */
	low = e.at;
	for (int at = g->actors[e.at].next; at != e.at; at = g->actors[at].next)
		low = at < low ? at : low;
	return (struct end){.at = low, .last = low, .cycle = true};
}

static unsigned weight(const struct why_graph *g, const struct end *e)
{
	static const unsigned of[] = {[WHY_GOES_ON] = 0, [WHY_BLOCKED] = 4, [WHY_SILENT] = 6,
				      [WHY_IDLE] = 3,	 [WHY_STOPPED] = 7, [WHY_UNREAD] = 2};

	return e->cycle ? 5 : of[g->actors[e->at].now->mood];
}

/* The end that most blocked processes lead to, and how many. */
static bool main_end(const struct why_graph *g, struct end *best, unsigned *n)
{
	unsigned *counts = calloc(g->now->n + 1, sizeof *counts), most = 0;
	bool found = false;

	if (!counts)
		bench_fail("no memory");
	for (unsigned i = 0; i < g->now->n; i++) {
		struct end e;
		unsigned score;

		if (g->actors[i].now->mood != WHY_BLOCKED || !why_is_shown(g, i))
			continue;
		e = follow(g, (int)i);
		score = ++counts[e.at] * 8 + weight(g, &e);
		if (!weight(g, &e) || (found && score <= most))
			continue;
		if (!found || best->at != e.at)
			*best = e;
		found = true;
		most = score;
		*n = counts[e.at];
	}
	free(counts);
	return found;
}

/* Reasons --------------------------------------------------------------------- */

/* Why a message that is there is not received; false: there is none. */
static bool say_miss(const struct why_graph *g, int proc, char *why, char *act)
{
	const struct why_actor *a = &g->actors[proc];
	const struct why_ep *ep;
	char name[WHY_TEXT], tag[WHY_TEXT], want[WHY_TEXT];
	uint64_t differ;

	if (!a->miss)
		return false;
	ep = &g->actors[a->miss_at].now->eps[a->miss_ep];
	why_where_text(g->now, ep, a->miss->from, name);
	why_tag(ep, a->miss->match, tag);
	say(why, "A message %.80s (%" PRIu64 " bytes) from %.120s waits unmatched", tag,
	    a->miss->len, name);
	why_name(g->now, a->miss_at, name);
	if (!a->miss_recv) {
		say(why, ": %.120s has posted no receive.", name);
		say(act, "Post the receive before the call that waits.");
		return true;
	}
	why_tag(ep, a->miss_recv->match, want);
	differ = why_differ(a->miss->match, a->miss_recv->match, a->miss_recv->mask);
	if (differ && strcmp(tag, want) == 0)
		say(why, ": it is not of the channel that the receive waits for.");
	else if (differ &&
		 (strcmp(ep->interface, "mcapi") == 0 || strcmp(ep->interface, "panda") == 0))
		say(why, ": the receive waits %.80s.", want);
	else if (differ)
		say(why, ": the receive wants 0x%" PRIx64 ", which differs in bits 0x%" PRIx64 ".",
		    a->miss_recv->match, differ);
	else
		say(why, ": the receive takes messages of another source only.");
	say(act, "%s",
	    differ ? "Correct the tag or port of the send or of the receive."
		   : "Correct the source of the receive.");
	return true;
}

static bool all_of(const struct why_graph *g, int from, bool (*is)(enum why_kind kind))
{
	int at = from;

	do {
		if (!is(g->actors[at].wait->kind))
			return false;
		at = g->actors[at].next;
	} while (at != from);
	return true;
}

static bool receives(enum why_kind kind)
{
	return kind == WHY_RECV || kind == WHY_SCALAR_RECV;
}

static bool sends(enum why_kind kind)
{
	return kind == WHY_SEND || kind == WHY_QUEUED || kind == WHY_ACK || kind == WHY_BUFFER ||
	       kind == WHY_SCALAR_SEND;
}

static bool locks(enum why_kind kind)
{
	return kind >= WHY_MUTEX;
}

static const char *self_advice(enum why_kind kind)
{
	if (locks(kind))
		return "Give the lock back";
	if (receives(kind))
		return "Send what it waits for";
	if (kind == WHY_GET)
		return "Create the endpoint";
	return kind == WHY_OPEN ? "Open the other end of the channel" : "Post the receive";
}

static void say_cycle_reason(const struct why_graph *g, int from, char *why, char *act)
{
	int at = from;

	if (g->actors[from].next == from) {
		say(why, "It waits for itself.");
		say(act, "%s before the call that waits.", self_advice(g->actors[from].wait->kind));
		return;
	}
	if (all_of(g, from, locks)) {
		say(why, "Each holds the lock that the one before it waits for.");
		say(act, "Take these locks in the same order everywhere.");
		return;
	}
	do {
		if (say_miss(g, at, why, act))
			return;
		at = g->actors[at].next;
	} while (at != from);
	if (all_of(g, from, receives)) {
		say(why, "None of them has sent what the other waits for.");
		say(act, "One of them must send before it receives.");
	} else if (all_of(g, from, sends)) {
		say(why, "Each waits in its send, so none of them receives.");
		say(act, "One of them must receive first, or send without waiting.");
	} else {
		say(why, "None of them can go on before another one does.");
		say(act, "One of them must do what the other waits for before it waits itself.");
	}
}

static void say_cycle(const struct why_graph *g, int from, char sentences[3][WHY_TEXT])
{
	char name[WHY_TEXT], phrase[WHY_TEXT];
	unsigned n = 0;
	int at = from;

	do {
		n++;
		at = g->actors[at].next;
	} while (at != from);
	if (n > SHOWN)
		say(sentences[0], "%u processes wait for each other in a cycle: ", n);
	for (unsigned i = 0; i < n && i < SHOWN; i++) {
		why_name(g->now, at, name);
		why_phrase(g, at, phrase);
		say(sentences[0], "%s%.120s %.250s",
		    !i		 ? ""
		    : i + 1 == n ? ", and "
				 : ", ",
		    name, phrase);
		at = g->actors[at].next;
	}
	say(sentences[0], "%s", n > SHOWN ? ", and so on." : ".");
	say_cycle_reason(g, from, sentences[1], sentences[2]);
}

/* The end is a process that waits for none. */
static void say_silent(const struct why_graph *g, int proc, char *why, char *act)
{
	const struct why_actor *a = &g->actors[proc];
	const struct why_proc *p = a->now;
	char name[WHY_TEXT], on[WHY_TEXT];

	why_name(g->now, proc, name);
	why_on_host(g->now, p->host, on);
	capital(name);
	switch (p->mood) {
	case WHY_STOPPED:
		say(why, "%.150s is stopped by a signal.", name);
		say(act, "Let it go on: kill -CONT %d%s.", (int)p->pid, on);
		break;
	case WHY_UNREAD:
		say(why, "%.150s cannot be looked into%s.", name,
		    p->denied ? ": the system refuses to read its memory"
			      : ": it was built from another version of Tagwire, or changes too "
				"fast");
		say(act, "%s", rights);
		break;
	case WHY_IDLE:
		say(why, "%.150s polls, but has posted no request that this could end.", name);
		say(act, "Look at what it waits for: gdb -p %d%s.", (int)p->pid, on);
		break;
	default:
		say(why, "%.150s has not called Tagwire for at least %.1f s and %s.", name,
		    p->since, p->computes ? "computes" : "sleeps outside of it");
		say(act, "Look at what it does: gdb -p %d%s.", (int)p->pid, on);
	}
}

/* Whether the endpoint that is waited for is connected, and on a host that is not seen. */
static bool is_elsewhere(const struct why_graph *g, const struct why_actor *a)
{
	/* A process that waits for a lock may have none. */
	const struct why_ep *ep = a->ended ? &a->now->eps[a->wait->ep] : NULL;

	for (unsigned i = 0; ep && i < ep->npeers; i++)
		if (ep->peers[i].where == a->ended && ep->peers[i].state == TW_PEER_UP)
			return why_host_of(g->now, a->ended) < 0;
	return false;
}

/* An endpoint that is said not to be open, and is open for others. */
static bool say_strange(const struct why_graph *g, const struct why_actor *a, char *why, char *act)
{
	uint64_t job = a->now->eps[a->wait->ep].job;
	char name[WHY_TEXT];

	for (unsigned i = 0; a->unreached->why == TW_S_CLOSED && i < g->now->nopens; i++) {
		const struct why_open *other = &g->now->opens[i];

		if (other->where != a->ended)
			continue;
		why_process(g->now, other->host, other->pid, other->program, name);
		say(why, "%s has that endpoint, ", name);
		if (other->job != job) {
			say(why, "but in another job.");
			say(act, "Give both programs the same TAGWIRE_JOB.");
			return true;
		}
		/* An attempt that was given up may have been too early. */
		say(why, "and %s.",
		    a->unreached->state == TW_PEER_NONE
			    ? "did not answer when the connection was tried"
			    : "no provider of this process reaches it");
		say(act, "Give both programs the same TAGWIRE_PROVIDERS and TAGWIRE_PORT.");
		return true;
	}
	return false;
}

/* The holder of a lock, whose process is not seen. */
static void say_holder(const struct why_graph *g, const struct why_holder *h, char *why, char *act)
{
	char name[WHY_TEXT];

	if (!h->pid && why_host_of(g->now, h->where) < 0) {
		say(why, "What that node does is seen on its host.");
		say(act, "%s", there);
		return;
	}
	why_holder_text(g->now, h, name);
	if (h->pid)
		why_number(g->now, h->host, h->pid, name);
	capital(name);
	say(why, "%.150s has ended, or may not be looked into.", name);
	say(act, "%s", rights);
}

static void say_chain(const struct why_graph *g, const struct end *e, unsigned n,
		      char sentences[3][WHY_TEXT])
{
	char name[WHY_TEXT], phrase[WHY_TEXT];
	const struct why_actor *a = &g->actors[e->at];
	const char *cause, *advice;
	const char *here = g->now->nhosts > 1 ? "these hosts" : "this host";
	char other[WHY_TEXT] = "";

	why_name(g->now, e->last, name);
	why_phrase(g, e->last, phrase);
	if (a->ended)
		why_where_text(g->now, &a->now->eps[a->wait->ep], a->ended, other);
	capital(other);
	say(sentences[0], "%.150s %.300s", name, phrase);
	if (n > 1)
		say(sentences[0], "; %u more wait behind it", n - 1);
	say(sentences[0], ".");
	if (a->now->mood != WHY_BLOCKED) {
		if (a->now->mood == WHY_STOPPED ||
		    !say_miss(g, e->last, sentences[1], sentences[2]))
			say_silent(g, e->at, sentences[1], sentences[2]);
	} else if (a->unreached && say_strange(g, a, sentences[1], sentences[2])) {
		return;
	} else if (a->unreached) {
		cause = tw_failure_cause(a->unreached->why, &advice);
		if (a->unreached->cause) {
			cause = a->unreached->cause;
			advice = a->unreached->advice;
		}
		say(sentences[1],
		    a->unreached->state == TW_PEER_NONE
			    ? "%.150s was not reached, and the connection was given up: %.180s."
			    : "%.150s is not reached: %.180s.",
		    other, cause);
		if (advice)
			say(sentences[2], "%s.", advice);
	} else if (a->ended && say_miss(g, e->at, sentences[1], sentences[2])) {
		return;
	} else if (is_elsewhere(g, a)) {
		say(sentences[1], "%.150s is connected; what it does is seen on its host.", other);
		say(sentences[2], "%s", there);
	} else if (a->ended && why_owner(g->now, a->now->eps[a->wait->ep].job, a->ended) >= 0) {
		say(sentences[1],
		    "%.150s runs, but this connection to it is lost: the network broke, or an "
		    "earlier process of that name has ended.",
		    other);
		say(sentences[2], "Connect to it again, or let it connect; if it cannot, see "
				  "TAGWIRE_RETRY.");
	} else if (a->ended) {
		say(sentences[1], "%.150s has ended%s.", other,
		    why_host_of(g->now, a->ended) < 0 ? ", or its host is not reached" : "");
		say(sentences[2],
		    a->wait->to ? "Find out why it ended; the message will not come."
				: "Find out why it ended; the receive waits for whoever connects.");
	} else if (a->wait->kind == WHY_RANKS) {
		why_ranks(a->wait, other);
		capital(other);
		say(sentences[1],
		    "%.150s %s not called it, and no process of %s is known to be %s.", other,
		    a->wait->nranks == 1 ? "has" : "have", here,
		    a->wait->nranks == 1 ? "that rank" : "one of them");
		say(sentences[2], "Find out whether it has ended; if it is on another host, run "
				  "mx_why on all hosts with --together: mx_why(1).");
	} else if (a->wait->kind >= WHY_MUTEX && a->wait->nholders) {
		say_holder(g, &a->wait->holders[0], sentences[1], sentences[2]);
	} else if (a->wait->kind >= WHY_MUTEX) {
		say(sentences[1], "No process of %s is known to hold it.", here);
	} else if (a->wait->kind == WHY_BIND) {
		say(sentences[1], "No node has connected a channel to that endpoint.");
		say(sentences[2], "Connect it: mcapi_connect_pktchan_i or "
				  "mcapi_connect_sclchan_i, by any node, with both endpoints.");
	} else {
		say(sentences[1], "No other process has connected to it.");
		say(sentences[2], "Start the other one; if it is on another host, see what it says "
				  "there.");
	}
}

/* A node of a host that is not looked at waits for a lock here. */
static bool say_foreign_wait(const struct why_graph *g, const struct why_proc *p,
			     const struct why_wait *w, char sentences[3][WHY_TEXT])
{
	int holder = w->nholders ? why_holder(g->now, p, &w->holders[0]) : WHY_NONE;
	int waiter = why_host_of(g->now, w->to);
	char name[WHY_TEXT] = "a node of another host";

	if (waiter >= 0 && waiter != (int)p->host)
		return false;
	if (holder >= 0)
		why_name(g->now, holder, name);
	say(sentences[0], "Node %u of another host waits for %s %u, which %.150s holds.", w->other,
	    why_kind_text(w->kind), w->own, name);
	if (holder >= 0 && g->actors[holder].now->mood != WHY_BLOCKED &&
	    g->actors[holder].now->mood != WHY_GOES_ON)
		say_silent(g, holder, sentences[1], sentences[2]);
	return true;
}

static bool say_foreign(const struct why_graph *g, char sentences[3][WHY_TEXT])
{
	for (unsigned i = 0; i < g->now->n; i++) {
		const struct why_proc *p = &g->now->procs[i];

		for (unsigned k = 0; why_is_shown(g, i) && k < p->nforeign; k++)
			if (say_foreign_wait(g, p, &p->foreign[k], sentences))
				return true;
	}
	return false;
}

static void say_nothing(const struct why_graph *g, char *text, char *act)
{
	unsigned moods[WHY_UNREAD + 1] = {0}, n = 0;

	for (unsigned i = 0; i < g->now->n; i++) {
		if (!why_is_shown(g, i))
			continue;
		moods[g->actors[i].now->mood]++;
		n++;
	}
	say(text, "Nothing waits in Tagwire without end: of %u process%s %u go on", n,
	    n == 1 ? "" : "es", moods[WHY_GOES_ON]);
	if (moods[WHY_BLOCKED])
		say(text, ", %u wait for those", moods[WHY_BLOCKED]);
	if (moods[WHY_SILENT] + moods[WHY_IDLE])
		say(text, ", %u do not call it", moods[WHY_SILENT] + moods[WHY_IDLE]);
	if (moods[WHY_STOPPED])
		say(text, ", %u are stopped", moods[WHY_STOPPED]);
	if (moods[WHY_UNREAD])
		say(text, ", %u cannot be looked into", moods[WHY_UNREAD]);
	say(text, ".");
	if (moods[WHY_UNREAD])
		say(act, "%s", rights);
}

bool why_verdict(const struct why_graph *g, char sentences[3][WHY_TEXT])
{
	struct end e = {.at = WHY_NONE};
	unsigned n = 0;
	bool found = main_end(g, &e, &n);

	memset(sentences, 0, 3 * sizeof *sentences);
	if (!found && say_foreign(g, sentences))
		found = true;
	else if (!found)
		say_nothing(g, sentences[0], sentences[2]);
	else if (e.cycle)
		say_cycle(g, e.at, sentences);
	else
		say_chain(g, &e, n, sentences);
	for (unsigned i = 0; i < 3; i++)
		capital(sentences[i]);
	return found;
}
