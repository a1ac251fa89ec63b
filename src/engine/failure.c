/* SPDX-License-Identifier: BSD-2-Clause */
/* The message about a peer that was not reached. */
#include <stdio.h>
#include <stdlib.h>

#include "base/report.h"
#include "engine/engine.h"

void tw_failure_who(char *out, size_t size, const struct tw_ep *ep, uint64_t where)
{
	bool (*called)(const struct tw_ep *, uint64_t, char *, size_t) = ep->iface->called;
	char host[TW_REPORT_SIZE / 2], name[32];
	bool has_name;

	tw_nic_text(where >> 16, host, sizeof(host));
	has_name = called && called(ep, where, name, sizeof(name));
	snprintf(out, size, "%s%sendpoint %u of %s%s", has_name ? name : "", has_name ? " (" : "",
		 (unsigned)(where & 0xffff), host, has_name ? ")" : "");
}

void tw_failure_forget(struct tw_peer *p)
{
	free(p->trouble);
	p->trouble = NULL;
}

void tw_failure_trouble(struct tw_host *host, void *peer, enum tw_err why, const char *cause,
			const char *advice)
{
	struct tw_peer *p = peer;

	(void)host;
	if (why == TW_OK) {
		tw_failure_forget(p);
		return;
	}
	/* That a new attempt has no answer yet says less than why the last one failed. */
	if (why == TW_ETIMEDOUT && p->trouble && p->trouble->why != TW_S_TIMEOUT)
		return;
	if (!p->trouble)
		p->trouble = malloc(sizeof(*p->trouble));
	if (!p->trouble)
		return;
	p->trouble->general = false;
	p->trouble->fresh = true;
	p->trouble->why = (uint8_t)tw_connect_status(why);
	snprintf(p->trouble->cause, sizeof(p->trouble->cause), "%s", cause);
	snprintf(p->trouble->advice, sizeof(p->trouble->advice), "%s", advice);
}

/* Without a way to a peer, a connect to it is late. */
static bool explains(const struct tw_trouble *t, enum tw_status why)
{
	bool no_way = t && (t->why == TW_S_LOST || t->why == TW_S_UNKNOWN);

	return t && (t->why == why || (no_way && why == TW_S_TIMEOUT));
}

void tw_failure_note(struct tw_peer *p, enum tw_status why, bool say)
{
	struct tw_ep *ep = p->ep;

	p->why = (uint8_t)why;
	ep->failure_of = 0;
	if (!explains(p->trouble, why) || p->trouble->general)
		return;
	ep->failure = *p->trouble;
	ep->failure.why = (uint8_t)why;
	ep->failure_of = p->addr.where;
	if (say)
		tw_failure_report(NULL, ep, p->addr.where, why);
}

void tw_failure_again(struct tw_peer *p, enum tw_err why)
{
	enum tw_status status = tw_connect_status(why);
	const char *advice, *cause = tw_failure_cause(status, &advice);

	if (why == TW_ECLOSED && !(explains(p->trouble, status) && p->trouble->fresh)) {
		tw_failure_forget(p);
	} else if (!explains(p->trouble, status)) {
		tw_failure_trouble(&p->ep->host, p, why, cause,
				   advice ? advice : "it is tried again");
		if (p->trouble)
			p->trouble->general = true;
	}
	if (p->trouble)
		p->trouble->fresh = false;
}

bool tw_failure_explained(const struct tw_ep *ep, uint64_t where, enum tw_status why)
{
	return ep->failure_of == where && ep->failure.why == why;
}

static bool failure_of_known(const struct tw_ep *ep, uint64_t where)
{
	for (uint32_t i = 0; i < ep->npeers; i++)
		if (ep->peers[i]->addr.where == where && ep->peers[i]->state == TW_PEER_DOWN)
			return true;
	return false;
}

/* To a peer on this host there is no network that could be broken. */
static const char *failure_general(const struct tw_ep *ep, uint64_t where, enum tw_status why,
				   const char **advice)
{
	const char *cause = tw_failure_cause(why, advice);

	return why == TW_S_LOST && tw_host_has(&ep->host, where >> 16) ? "its process has ended"
								       : cause;
}

static const char *failure_cause(const struct tw_ep *ep, uint64_t where, enum tw_status why,
				 const char **advice)
{
	if (why == TW_S_CLOSED && failure_of_known(ep, where)) {
		*advice = "start its program again";
		return "it was connected, and has ended";
	}
	if (!tw_failure_explained(ep, where, why))
		return failure_general(ep, where, why, advice);
	*advice = ep->failure.advice;
	return ep->failure.cause;
}

/* With what it means for the program, if that is known. */
static void failure_subject(char *out, size_t size, const char *what, const struct tw_ep *ep,
			    uint64_t where)
{
	char who[TW_REPORT_SIZE / 2 + 64];

	tw_failure_who(who, sizeof(who), ep, where);
	snprintf(out, size, "%s%s%s", what ? what : "", what ? ": " : "", who);
}

void tw_failure_report(const char *what, const struct tw_ep *ep, uint64_t where, enum tw_status why)
{
	const char *advice, *cause = failure_cause(ep, where, why, &advice);
	char subject[TW_REPORT_SIZE];

	failure_subject(subject, sizeof(subject), NULL, ep, where);
	if (what) {
		if (tw_report_said(subject, cause)) {
			cause = "the connection is given up";
			advice = NULL;
		}
		failure_subject(subject, sizeof(subject), what, ep, where);
	}
	tw_report(TW_LOG_ERROR, subject, cause, advice);
}

void tw_failure_text(char *out, size_t size, const char *what, const struct tw_ep *ep,
		     uint64_t where, enum tw_status why)
{
	const char *advice, *cause = failure_cause(ep, where, why, &advice);
	char subject[TW_REPORT_SIZE];

	failure_subject(subject, sizeof(subject), what, ep, where);
	tw_report_text(out, size, subject, cause, advice);
}

/*
 * Statuses of sends show the loss; a receive that other peers may end has none. Often none is
 * posted at this moment, as the last message of the peer has just ended it.
 */
void tw_failure_down(struct tw_ep *ep, const struct tw_peer *p)
{
	const char *advice, *cause = failure_general(ep, p->addr.where, TW_S_LOST, &advice);
	char subject[TW_REPORT_SIZE];

	if (p->why != TW_S_LOST)
		return;
	failure_subject(subject, sizeof(subject), NULL, ep, p->addr.where);
	tw_report(TW_LOG_ERROR, subject, cause, "receives that wait for it alone do not end");
}
