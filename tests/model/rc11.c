/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * All executions of a small program in the memory model RC11 (Lahav, Vafeiadis, Kang, Hur and
 * Dreyer, "Repairing sequential consistency in C/C++11", 2017), to which the usual compilations
 * to ARMv8 and RISC-V are sound. A release sequence is that of C20, which is shorter: the head
 * and the read-modify-writes that follow it.
 *
 * An execution is a graph: events, whom each load reads from (rf), and the order of the stores
 * to each location (mo). It is built event by event, in every order that program order and rf
 * allow (there is nothing out of thin air), and each graph is visited once. Consistent are those
 * in which
 *   coherence	happens-before agrees with mo and rf at each location;
 *   atomicity	nothing is in mo between what a read-modify-write reads and writes;
 *   SC		the partial order of seq_cst events and fences (psc) has no cycle.
 * Wrong is a graph with two accesses that conflict, one of them not atomic, which happens-before
 * does not order; one in which an assertion fails; one that ends with a thread that waits for
 * ever; and a complete one in which a final condition is false.
 *
 * A membarrier is two seq_cst fences of the caller, and between them one in each other thread,
 * at any place of it: the kernel interrupts that processor, or it had none.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"

static struct verdict *result;
static bool printing;

int expr_value(const struct expr *e, const int *regs, const int *mem)
{
	int s[MAX_CODE], n = 0;

	for (int i = 0; i < e->n; i++) {
		int arg = e->code[i].arg, b = n > 0 ? s[n - 1] : 0, *a = &s[n > 1 ? n - 2 : 0];

		switch (e->code[i].op) {
		case OP_NUM:
			s[n++] = arg;
			continue;
		case OP_REG:
			s[n++] = regs[arg];
			continue;
		case OP_LOC:
			s[n++] = mem[arg];
			continue;
		case OP_NOT:
			s[n - 1] = !b;
			continue;
		case OP_EQ:
			*a = *a == b;
			break;
		case OP_NE:
			*a = *a != b;
			break;
		case OP_LT:
			*a = *a < b;
			break;
		case OP_GT:
			*a = *a > b;
			break;
		case OP_ADD:
			*a += b;
			break;
		case OP_SUB:
			*a -= b;
			break;
		case OP_AND:
			*a = *a && b;
			break;
		case OP_OR:
			*a = *a || b;
			break;
		}
		n--;
	}
	return s[0];
}

/* The search --------------------------------------------------------------------- */

static void print_graph(const struct graph *g)
{
	for (int t = 0; t < prog->nthreads; t++)
		for (int i = 0; i < g->cpu[t].events; i++)
			for (int e = prog->nlocs; e < g->n; e++) {
				const struct event *v = &g->ev[e];

				if (v->thread != t || v->at != i)
					continue;
				printf("    %s line %u:", prog->thread[t].name, v->line);
				if (v->loc < 0)
					printf(v->injected ? " interrupted by a membarrier"
							   : " fence");
				else
					printf(" %s", prog->loc[v->loc]);
				if (v->rf >= 0 && v->loc >= 0)
					printf(" read %d of line %u", v->read, g->ev[v->rf].line);
				if (v->writes)
					printf(" wrote %d, number %d", v->wrote, mo_place(g, e));
				puts("");
			}
}

static void wrong(const struct graph *g, const char *what, const char *name, int line)
{
	if (!*result->why) {
		snprintf(result->why, sizeof(result->why), "%s %s, line %d", what, name, line);
		if (printing)
			print_graph(g);
	}
}

static void explore(const struct graph *g);

/* Local statements of a thread, up to the next event. */
static void run_ahead(struct graph *g, int t)
{
	uint8_t *pc = &g->cpu[t].pc;

	while (*pc < prog->thread[t].n) {
		const struct stmt *s = &prog->thread[t].stmt[*pc];

		switch (s->kind) {
		case NOTHING:
		case END:
			++*pc;
			break;
		case SET:
			g->reg[s->reg] = expr_value(&s->value, g->reg, NULL);
			++*pc;
			break;
		case IF:
			*pc = (uint8_t)(expr_value(&s->value, g->reg, NULL) ? *pc + 1 : s->jump);
			break;
		case ELSE:
			*pc = (uint8_t)s->jump;
			break;
		case STOP:
			*pc = (uint8_t)prog->thread[t].n;
			break;
		case ASSERT:
			if (!expr_value(&s->value, g->reg, NULL))
				wrong(g, "assertion fails in", prog->thread[t].name, s->line);
			++*pc;
			break;
		default:
			return;
		}
	}
}

/* Adds an event at the end of its thread; its place in mo is set by the caller. */
static int add(struct graph *g, int t, int line, int order, int loc)
{
	struct cpu *c = &g->cpu[t];
	int e = g->n++;

	if (e >= MAX_EVENTS) {
		fprintf(stderr, "too many events\n");
		exit(2);
	}
	g->ev[e] = (struct event){.thread = (uint8_t)t,
				  .at = c->events++,
				  .line = (uint8_t)line,
				  .order = (uint8_t)order,
				  .loc = (int8_t)loc,
				  .rf = -1};
	g->ev[e].before = BIT(prog->nlocs) - 1;
	if (c->last >= 0)
		g->ev[e].before |= g->ev[c->last].before | BIT(c->last);
	c->last = (int8_t)e;
	return e;
}

static void synchronize(struct graph *g, int e, set with)
{
	for (set s = with; s; s &= s - 1)
		g->ev[e].before |= g->ev[__builtin_ctzll(s)].before;
	g->ev[e].before |= with;
}

static int add_fence(struct graph *g, int t, int line, int order)
{
	int e = add(g, t, line, order, -1);

	if (order & ACQ & ~RLX)
		synchronize(g, e, g->cpu[t].may_acquire);
	if (order & REL & ~RLX)
		g->cpu[t].fence = (int8_t)e;
	return e;
}

static void reads(struct graph *g, int e, int from)
{
	struct event *v = &g->ev[e];

	v->rf = (int8_t)from;
	v->read = g->ev[from].wrote;
	if (v->order == PLAIN)
		return;
	g->cpu[v->thread].may_acquire |= g->ev[from].heads;
	if (v->order & ACQ & ~RLX)
		synchronize(g, e, g->ev[from].heads);
}

static void writes(struct graph *g, int e, int value, int at)
{
	struct event *v = &g->ev[e];
	uint8_t *mo = g->mo[v->loc], *n = &g->nmo[v->loc];
	int fence = g->cpu[v->thread].fence;

	v->writes = true;
	v->wrote = (int8_t)value;
	memmove(&mo[at + 1], &mo[at], (size_t)(*n - at));
	mo[at] = (uint8_t)e;
	++*n;
	if (v->order & REL & ~RLX)
		v->heads = BIT(e);
	else if (v->order && fence >= 0)
		v->heads = BIT(fence);
	if (v->rf >= 0)
		v->heads |= g->ev[v->rf].heads;
}

/* Goes on from a graph with the new event e. */
static void go_on(struct graph *g, int e)
{
	const struct event *v = &g->ev[e];

	if (!graph_sc(g) || *result->why)
		return;
	for (int a = prog->nlocs; a < e; a++) {
		const struct event *x = &g->ev[a];

		if (same_place(x, v) && (x->writes || v->writes) && !(v->before & BIT(a)) &&
		    (x->order == PLAIN || v->order == PLAIN))
			wrong(g, "data race at", prog->loc[v->loc], v->line);
	}
	run_ahead(g, v->thread);
	if (!*result->why && graph_is_new(g))
		explore(g);
}

static bool store(const struct graph *g, int t, const struct stmt *s)
{
	set before = g->cpu[t].last >= 0 ? g->ev[g->cpu[t].last].before | BIT(g->cpu[t].last) : 0;

	for (int at = mo_least(g, s->loc, before) + 1; at <= g->nmo[s->loc]; at++) {
		struct graph next = *g;
		int e;

		if (!mo_open(g, s->loc, at))
			continue;
		e = add(&next, t, s->line, s->order, s->loc);
		writes(&next, e, expr_value(&s->value, g->reg, NULL), at);
		next.cpu[t].pc++;
		go_on(&next, e);
	}
	return true;
}

/* A load or a read-modify-write that reads the at-th of mo; false if it may not. */
static bool read_at(const struct graph *g, int t, const struct stmt *s, int at)
{
	struct graph next = *g;
	int from = g->mo[s->loc][at], value = g->ev[from].wrote;
	bool change = s->kind != LOAD;
	int order = s->order, e;

	if (s->kind == CAS && value != expr_value(&s->old, g->reg, NULL)) {
		if (s->await)
			return false;
		change = false;
		order = s->failed_order;
	}
	if (change && !mo_open(g, s->loc, at + 1))
		return false;
	if (s->reg >= 0)
		next.reg[s->reg] = value;
	if (s->kind == LOAD && s->await && !expr_value(&s->value, next.reg, NULL))
		return false;
	e = add(&next, t, s->line, order, s->loc);
	reads(&next, e, from);
	/* What it synchronizes with may forbid to read that. */
	if (mo_least(&next, s->loc, next.ev[e].before) > at)
		return false;
	if (change)
		writes(&next, e, expr_value(&s->value, g->reg, NULL) + (s->kind == ADD ? value : 0),
		       at + 1);
	next.cpu[t].pc++;
	go_on(&next, e);
	return true;
}

static bool load(const struct graph *g, int t, const struct stmt *s)
{
	set before = g->cpu[t].last >= 0 ? g->ev[g->cpu[t].last].before | BIT(g->cpu[t].last) : 0;
	bool moved = false;

	for (int at = mo_least(g, s->loc, before); at < g->nmo[s->loc]; at++)
		moved |= read_at(g, t, s, at);
	return moved;
}

static bool membarrier(const struct graph *g, int t, const struct stmt *s)
{
	struct graph next = *g;
	bool first = !g->cpu[t].in_barrier;
	int e;

	for (int k = 0; k < prog->nthreads && !first; k++)
		if (g->cpu[k].asked & BIT(t))
			return false;
	e = add_fence(&next, t, s->line, SC);
	synchronize(&next, e, next.cpu[t].injected);
	next.cpu[t].in_barrier = first;
	next.cpu[t].first = (int8_t)e;
	next.cpu[t].injected = 0;
	for (int k = 0; k < prog->nthreads && first; k++)
		if (k != t && !prog->thread[k].unreached)
			next.cpu[k].asked |= (uint8_t)BIT(t);
	next.cpu[t].pc += !first;
	go_on(&next, e);
	return true;
}

/* The membarrier of thread `by' interrupts a thread. */
static void interrupt(const struct graph *g, int t, int by)
{
	struct graph next = *g;
	int e = add_fence(&next, t, 0, SC);

	next.ev[e].injected = true;
	next.ev[e].rf = (int8_t)by;
	synchronize(&next, e, BIT(next.cpu[by].first));
	next.cpu[by].injected |= BIT(e);
	next.cpu[t].asked &= (uint8_t)~BIT(by);
	go_on(&next, e);
}

/* Every next event of a thread; false if it has to wait. */
static bool step(const struct graph *g, int t)
{
	const struct stmt *s = &prog->thread[t].stmt[g->cpu[t].pc];
	struct graph next;

	switch (s->kind) {
	case STORE:
		return store(g, t, s);
	case MEMBARRIER:
		return membarrier(g, t, s);
	case FENCE:
		next = *g;
		next.cpu[t].pc++;
		go_on(&next, add_fence(&next, t, s->line, s->order));
		return true;
	default:
		return load(g, t, s);
	}
}

static void complete(const struct graph *g)
{
	int mem[MAX_LOCS];

	result->executions++;
	for (int l = 0; l < prog->nlocs; l++)
		mem[l] = g->ev[g->mo[l][g->nmo[l] - 1]].wrote;
	for (int i = 0; i < prog->nfinals; i++)
		if (!expr_value(&prog->final[i], g->reg, mem))
			wrong(g, "final condition", "is false", i + 1);
	for (int i = 0; i < prog->nreaches; i++)
		result->reached[i] |= expr_value(&prog->reach[i], g->reg, mem) != 0;
}

static void explore(const struct graph *g)
{
	bool moved = false;
	int waiting = -1;

	result->graphs++;
	for (int t = 0; t < prog->nthreads && !*result->why; t++) {
		for (int by = 0; by < prog->nthreads; by++)
			if (g->cpu[t].asked & BIT(by)) {
				interrupt(g, t, by);
				moved = true;
			}
		if (g->cpu[t].pc == prog->thread[t].n)
			continue;
		if (step(g, t))
			moved = true;
		else
			waiting = t;
	}
	if (moved || *result->why)
		return;
	if (waiting < 0)
		complete(g);
	else
		wrong(g, "waits for ever:", prog->thread[waiting].name,
		      prog->thread[waiting].stmt[g->cpu[waiting].pc].line);
}

void rc11_search(const struct program *p, bool print, struct verdict *out)
{
	static struct graph g;

	memset(&g, 0, sizeof(g));
	memset(out, 0, sizeof(*out));
	prog = p;
	result = out;
	printing = print;
	graph_is_new(NULL);
	for (int l = 0; l < p->nlocs; l++) {
		g.ev[g.n] = (struct event){.thread = INIT,
					   .at = (uint8_t)l,
					   .loc = (int8_t)l,
					   .rf = -1,
					   .writes = true,
					   .order = RLX,
					   .wrote = (int8_t)p->init[l]};
		g.mo[l][g.nmo[l]++] = (uint8_t)g.n++;
	}
	for (int t = 0; t < p->nthreads; t++) {
		g.cpu[t].last = g.cpu[t].fence = -1;
		run_ahead(&g, t);
	}
	if (graph_is_new(&g))
		explore(&g);
}
