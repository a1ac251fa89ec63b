/* SPDX-License-Identifier: BSD-2-Clause */
/* What two readings of one host say alike, and from that what each process does. */
#include "../cli.h"
#include "base/stats.h"
#include "why.h"

#define POLLS_OF_TAKEOVER 1000 /* more than the service thread makes in one takeover */

bool why_same(const struct why_wait *a, const struct why_wait *b)
{
	return a->kind == b->kind && a->ep == b->ep && a->id == b->id && a->moved == b->moved &&
	       a->match == b->match && a->own == b->own;
}

/* Drops the waits that only one reading has; the rest are so many. */
static unsigned keep_stable(struct why_wait *now, unsigned n, const struct why_wait *before,
			    unsigned nbefore)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < n; i++)
		for (unsigned k = 0; k < nbefore; k++)
			if (why_same(&now[i], &before[k])) {
				now[kept++] = now[i];
				break;
			}
	return kept;
}

static void keep_unexp(struct why_ep *now, const struct why_ep *before)
{
	unsigned n = 0;

	for (unsigned i = 0; i < now->nunexp; i++)
		for (unsigned k = 0; k < before->nunexp; k++)
			if (now->unexp[i].id == before->unexp[k].id &&
			    now->unexp[i].match == before->unexp[k].match) {
				now->unexp[n++] = now->unexp[i];
				break;
			}
	now->nunexp = n;
}

/* What the endpoints of a process say together. */
struct calls {
	bool inside, polls, done, unread;
	uint64_t asleep_at, quiet_at;
};

static void look_at(struct calls *c, const struct why_ep *now, const struct why_ep *before)
{
	uint64_t polls = now->polls - before->polls;
	uint64_t takeovers = now->takeovers - before->takeovers;

	c->unread |= now->access != WHY_READ || before->access != WHY_READ;
	c->done |= now->done != before->done;
	c->polls |= polls > takeovers * POLLS_OF_TAKEOVER;
	c->inside |= now->calls || now->awaited;
	if (now->asleep && (!c->asleep_at || now->changed_at > c->asleep_at))
		c->asleep_at = now->changed_at;
	/* No poll since the service thread last looked. */
	if (now->changed_polls == now->polls && now->changed_at > c->quiet_at)
		c->quiet_at = now->changed_at;
}

/* The time between the readings, and the clock that ticks meanwhile. */
struct interval {
	double seconds, ticks_per_s;
	uint64_t now;
};

static double seconds_since(const struct interval *t, uint64_t tick)
{
	double since = 0;

	if (tick && tick < t->now)
		since = (double)(t->now - tick) / t->ticks_per_s;
	return since > t->seconds ? since : t->seconds;
}

static void judge(const struct interval *t, struct why_proc *now, const struct why_proc *before)
{
	struct calls c = {.inside = now->lock_waits || now->fence, .asleep_at = now->fence};

	now->mood = WHY_GOES_ON;
	if (!before || before->neps != now->neps)
		return;
	for (unsigned i = 0; i < now->neps; i++)
		look_at(&c, &now->eps[i], &before->eps[i]);
	now->computes = now->cpu != before->cpu;
	now->polls = c.polls;
	now->since = seconds_since(t, c.asleep_at ? c.asleep_at : c.polls ? 0 : c.quiet_at);
	if (now->state == 'T' || now->state == 't')
		now->mood = WHY_STOPPED;
	else if (c.unread)
		now->mood = WHY_UNREAD;
	else if (c.done)
		now->mood = WHY_GOES_ON;
	else if (!c.inside && !c.polls)
		now->mood = WHY_SILENT;
	else
		now->mood = now->nwaits ? WHY_BLOCKED : WHY_IDLE;
}

void why_settle(const struct why_facts *before, struct why_facts *now)
{
	struct interval t = {.seconds = now->scan.when - before->scan.when, .now = now->ticks};

	t.ticks_per_s = (double)(now->ticks - before->ticks) / t.seconds;
	for (unsigned i = 0; i < now->n; i++) {
		struct why_proc *p = &now->procs[i];
		int k = why_by_pid(before, 0, p->pid);
		const struct why_proc *was = k < 0 ? NULL : &before->procs[k];

		p->nforeign =
			was ? keep_stable(p->foreign, p->nforeign, was->foreign, was->nforeign) : 0;
		if (was && was->neps == p->neps) {
			p->nwaits = keep_stable(p->waits, p->nwaits, was->waits, was->nwaits);
			for (unsigned e = 0; e < was->neps; e++)
				keep_unexp(&p->eps[e], &was->eps[e]);
		}
		judge(&t, p, was);
	}
}
