/* SPDX-License-Identifier: BSD-2-Clause */
/* How mx_why names processes, and says what one waits for. */
#include <arpa/inet.h>
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/types.h"
#include "mcapi/wire.h"
#include "naming/naming.h"
#include "why.h"

#define MCAPI_FIRST 1024	 /* TW_MCAPI_FIRST_ID */
#define PANDA_TICKET (1u << 30)	 /* TW_PANDA_TICKET */
#define FI_UNTAGGED (1ull << 63) /* TW_FI_UNTAGGED */

static bool is(const struct why_ep *ep, const char *interface)
{
	return strcmp(ep->interface, interface) == 0;
}

void why_on_host(const struct why_facts *f, unsigned host, char *text)
{
	text[0] = 0;
	if (host)
		snprintf(text, WHY_TEXT, " on %s", f->hosts[host].name);
}

void why_number(const struct why_facts *f, unsigned host, pid_t pid, char *text)
{
	if (host)
		snprintf(text, WHY_TEXT, "process %d of %s", (int)pid, f->hosts[host].name);
	else
		snprintf(text, WHY_TEXT, "process %d", (int)pid);
}

void why_process(const struct why_facts *f, unsigned host, pid_t pid, const char *program,
		 char *text)
{
	size_t n;

	why_number(f, host, pid, text);
	n = strlen(text);
	snprintf(text + n, WHY_TEXT - n, " (%s)", program);
}

void why_name(const struct why_facts *f, int proc, char *text)
{
	const struct why_proc *p = &f->procs[proc];
	char number[WHY_TEXT], as[32] = "";

	for (unsigned i = 0; i < p->neps && !as[0]; i++)
		if (is(&p->eps[i], "mcapi"))
			snprintf(as, sizeof as, "node %u",
				 (unsigned)(p->eps[i].where & 0xffff) - MCAPI_FIRST);
		else if (is(&p->eps[i], "panda"))
			snprintf(as, sizeof as, "platform %s", p->rank);
	if (!as[0] && p->nnodes)
		snprintf(as, sizeof as, "node %u", p->node[0]);
	if (!as[0] && p->rank[0])
		snprintf(as, sizeof as, "rank %s", p->rank);
	if (!as[0]) {
		why_process(f, p->host, p->pid, p->program, text);
		return;
	}
	why_number(f, p->host, p->pid, number);
	snprintf(text, WHY_TEXT, "%s (%.120s, %s)", as, number, p->program);
}

int why_host_of(const struct why_facts *f, uint64_t where)
{
	for (unsigned i = 0; i < f->n; i++)
		for (unsigned k = 0; k < f->procs[i].neps; k++)
			if (f->procs[i].eps[k].where >> 16 == where >> 16)
				return (int)f->procs[i].host;
	for (unsigned i = 0; i < f->nhosts; i++)
		for (unsigned k = 0; k < f->hosts[i].nnics; k++)
			if (f->hosts[i].nics[k] == where >> 16)
				return (int)i;
	return WHY_NONE;
}

void why_nic_text(uint64_t nic_id, const char *before, char *text, size_t len)
{
	struct in_addr in = {htobe32((uint32_t)nic_id)};

	if (nic_id >> 32 == TW_NIC_IPV4)
		snprintf(text, len, "%s%s", before, inet_ntoa(in));
	else
		snprintf(text, len, "NIC %012" PRIx64, nic_id);
}

static void host_text(const struct why_facts *f, uint64_t where, char *text, size_t len)
{
	int host = why_host_of(f, where);

	if (host >= 0)
		snprintf(text, len, "%s", host ? f->hosts[host].name : "this host");
	else
		why_nic_text(where >> 16, "host ", text, len);
}

/* What an interface calls an endpoint whose process is not seen. */
static void endpoint_number(const struct why_ep *ep, uint64_t where, char *text, size_t len)
{
	unsigned id = where & 0xffff;

	for (unsigned i = 0; i < ep->nplatforms; i++)
		if (ep->platforms[i] == where) {
			snprintf(text, len, "platform %u", i);
			return;
		}
	if (is(ep, "mcapi"))
		snprintf(text, len, "node %u", id - MCAPI_FIRST);
	else
		snprintf(text, len, "endpoint %u", id);
}

void why_where_text(const struct why_facts *f, const struct why_ep *ep, uint64_t where, char *text)
{
	int proc = why_owner(f, ep->job, where);
	char host[WHY_HOST_NAME], number[32];

	if (proc >= 0) {
		why_name(f, proc, text);
		return;
	}
	host_text(f, where, host, sizeof host);
	endpoint_number(ep, where, number, sizeof number);
	snprintf(text, WHY_TEXT, "%s of %s", number, host);
}

void why_tag(const struct why_ep *ep, uint64_t match, char *text)
{
	if (is(ep, "mcapi"))
		snprintf(text, WHY_TEXT, "for port %u", (unsigned)(match >> 16) & 0xffff);
	else if (is(ep, "panda") && (uint32_t)match >= PANDA_TICKET)
		snprintf(text, WHY_TEXT, "in reply to a request");
	else if (is(ep, "panda"))
		snprintf(text, WHY_TEXT, "for port %u", (unsigned)(uint32_t)match);
	else if (is(ep, "fi") && match & FI_UNTAGGED)
		snprintf(text, WHY_TEXT, "without a tag");
	else if (is(ep, "fi"))
		snprintf(text, WHY_TEXT, "with tag 0x%" PRIx64, match);
	else
		snprintf(text, WHY_TEXT, "with match information 0x%" PRIx64, match);
}

static void masked_tag(const struct why_ep *ep, const struct why_wait *w, char *text)
{
	size_t n;

	why_tag(ep, w->match, text);
	n = strlen(text);
	if (is(ep, "mcapi") || is(ep, "panda") || (is(ep, "fi") && w->match & FI_UNTAGGED))
		return;
	if (w->mask == 0 || (is(ep, "fi") && w->mask == FI_UNTAGGED))
		snprintf(text, WHY_TEXT, "with any tag");
	else if ((w->mask | (is(ep, "fi") ? FI_UNTAGGED : 0)) != UINT64_MAX)
		snprintf(text + n, WHY_TEXT - n, " under mask 0x%" PRIx64, w->mask);
}

const char *why_kind_text(enum why_kind kind)
{
	static const char *const texts[] = {
		"receive",
		"send",
		"send",
		"connect",
		"transfer",
		"access",
		"send",
		"get endpoint",
		"open",
		"bind",
		"scalar receive",
		"scalar send",
		"acknowledgement",
		"answer",
		"all ranks",
		"mutex",
		"semaphore",
		"reader/writer lock",
	};

	return texts[kind];
}

const char *why_state_text(enum why_state state)
{
	static const char *const texts[] = {
		[WHY_IS_QUEUED] = "queued",
		[WHY_IS_UNMATCHED] = "sent, unmatched",
		[WHY_IS_ANNOUNCED] = "announced",
		[WHY_IS_SENDING] = "sending",
		[WHY_IS_COPYING] = "data arrives",
		[WHY_IS_GETTING] = "getting",
		[WHY_IS_ASKING] = "asking for the window",
		[WHY_IS_CONNECTING] = "connecting",
		[WHY_IS_POSTED] = "posted",
		[WHY_IS_WAITING] = "waiting",
		[WHY_IS_ENTERED] = "entered",
		[WHY_IS_ASKED] = "asked",
		[WHY_IS_SLEEPING] = "sleeping",
		[WHY_IS_UNACKED] = "not acknowledged",
	};

	return texts[state];
}

static void endpoint_name(uint32_t e, char *text, size_t len)
{
	snprintf(text, len, "endpoint %u:%u", e >> 16, e & 0xffff);
}

/* Those of MCAPI beside messages. */
static void mcapi_phrase(const struct why_wait *w, const char *other, char *text)
{
	char own[40], to[40];

	endpoint_name(w->own, own, sizeof own);
	endpoint_name(w->other, to, sizeof to);
	switch (w->kind) {
	case WHY_BUFFER:
		snprintf(text, WHY_TEXT, "waits for a buffer at %s of %.150s", to, other);
		break;
	case WHY_GET:
		snprintf(text, WHY_TEXT, "waits for %s, which does not exist, of %.150s", to,
			 other);
		break;
	case WHY_OPEN:
		snprintf(text, WHY_TEXT,
			 "waits for the other end of the channel of %s to be opened at %s of "
			 "%.150s",
			 own, to, other);
		break;
	case WHY_BIND:
		snprintf(text, WHY_TEXT, "waits for a channel to be connected to %s", own);
		break;
	case WHY_SCALAR_RECV:
		snprintf(text, WHY_TEXT, "waits for a scalar at %s from %s of %.150s", own, to,
			 other);
		break;
	default:
		snprintf(text, WHY_TEXT, "waits for room for a scalar to %s of %.150s", to, other);
	}
}

static void message_phrase(const struct why_actor *a, const char *other, char *text)
{
	const struct why_wait *w = a->wait;
	const struct why_ep *ep = &a->now->eps[w->ep];
	char tag[WHY_TEXT];

	masked_tag(ep, w, tag);
	switch (w->kind) {
	case WHY_RECV:
		if (a->candidates > 1)
			snprintf(text, WHY_TEXT,
				 "waits for a message %.80s from any of %u processes", tag,
				 a->candidates);
		else
			snprintf(text, WHY_TEXT, "waits for a message %.80s from %.150s", tag,
				 other);
		break;
	case WHY_SEND:
	case WHY_ACK:
		snprintf(text, WHY_TEXT,
			 "waits until %.150s receives its message %.80s (%" PRIu64 " bytes)", other,
			 tag, w->len);
		break;
	case WHY_QUEUED:
		snprintf(text, WHY_TEXT,
			 "waits for space or credit at %.150s for its message %.80s (%" PRIu64
			 " bytes)",
			 other, tag, w->len);
		break;
	case WHY_CONNECT:
		snprintf(text, WHY_TEXT, "waits for a connection to %.150s", other);
		break;
	case WHY_ASKED:
		snprintf(text, WHY_TEXT, "waits for an answer of %.150s", other);
		break;
	case WHY_MOVING:
		snprintf(text, WHY_TEXT, "waits for the data of a message %.80s from or to %.150s",
			 tag, other);
		break;
	default:
		snprintf(text, WHY_TEXT, "waits for an access to the memory of %.150s", other);
	}
}

void why_ranks(const struct why_wait *w, char *text)
{
	unsigned n = w->nranks < 8 ? w->nranks : 8;
	int at = snprintf(text, WHY_TEXT,
			  n == 0   ? "other ranks"
			  : n == 1 ? "rank %u"
				   : "ranks %u",
			  w->ranks[0]);

	for (unsigned i = 1; i < n; i++)
		at += snprintf(text + at, WHY_TEXT - (size_t)at, "%s%u",
			       i + 1 == w->nranks ? " and " : ", ", w->ranks[i]);
	if (w->nranks > n)
		snprintf(text + at, WHY_TEXT - (size_t)at, " and %u more", w->nranks - n);
}

/* other: the rank that decides; NULL: none is seen. */
static void ranks_phrase(const struct why_wait *w, const char *other, char *text)
{
	char ranks[WHY_TEXT];

	why_ranks(w, ranks);
	if (!other)
		snprintf(text, WHY_TEXT, "waits in %s for %.150s", w->call, ranks);
	else if (w->nranks > 1)
		snprintf(text, WHY_TEXT, "waits in %s for %.120s, such as %.150s", w->call, ranks,
			 other);
	else
		snprintf(text, WHY_TEXT, "waits in %s for %.150s", w->call, other);
}

void why_holder_text(const struct why_facts *f, const struct why_holder *h, char *text)
{
	char where[WHY_TEXT] = "another host";

	if (h->pid) {
		why_number(f, h->host, h->pid, where);
		snprintf(text, WHY_TEXT, "node %u (%.120s)", h->node, where);
		return;
	}
	if (why_host_of(f, h->where) >= 0)
		host_text(f, h->where, where, WHY_HOST_NAME);
	snprintf(text, WHY_TEXT, "node %u of %.120s", h->node, where);
}

void why_phrase(const struct why_graph *g, int proc, char *text)
{
	const struct why_actor *a = &g->actors[proc];
	char other[WHY_TEXT];

	if (a->next >= 0)
		why_name(g->now, a->next, other);
	else if (a->ended)
		why_where_text(g->now, &a->now->eps[a->wait->ep], a->ended, other);
	else if (a->wait->kind >= WHY_MUTEX && a->wait->nholders)
		why_holder_text(g->now, &a->wait->holders[0], other);
	else
		snprintf(other, sizeof other, "anybody");
	if (a->wait->kind == WHY_RANKS)
		ranks_phrase(a->wait, a->next >= 0 ? other : NULL, text);
	else if (a->unreached && a->unreached->state == TW_PEER_CONNECTING)
		snprintf(text, WHY_TEXT, "waits for a connection to %.150s", other);
	else if (a->wait->kind >= WHY_MUTEX)
		snprintf(text, WHY_TEXT, "waits for %s %u, which %.150s holds",
			 why_kind_text(a->wait->kind), a->wait->own, other);
	else if (a->wait->kind >= WHY_BUFFER && a->wait->kind <= WHY_SCALAR_SEND)
		mcapi_phrase(a->wait, other, text);
	else
		message_phrase(a, other, text);
}
