/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads litmus tests. */
#include "parse.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define is(a, b) (strcmp(a, b) == 0)

static const char *file, *at; /* rest of the line */
static int line;
static char token[64];

static void bad(const char *why)
{
	fprintf(stderr, "%s:%d: %s near '%s'\n", file, line, why, token);
	exit(2);
}

/* Reads the next token: a word, a number, an operator; empty at the end of the line. */
static const char *next(void)
{
	int n = 0;

	while (isspace((unsigned char)*at))
		at++;
	if (isalnum((unsigned char)*at) || *at == '_')
		while ((isalnum((unsigned char)*at) || *at == '_') && n < 63)
			token[n++] = *at++;
	else if (*at && strchr("=!&|", *at) && (at[1] == '=' || (at[1] == *at && *at != '!')))
		token[n++] = *at++, token[n++] = *at++;
	else if (*at)
		token[n++] = *at++;
	token[n] = 0;
	return token;
}

static bool accept(const char *what)
{
	const char *before = at;

	if (is(next(), what))
		return true;
	at = before;
	return false;
}

static void expect(const char *what)
{
	if (!accept(what))
		bad(what);
}

static int find(char (*names)[24], int *n, int most, const char *name)
{
	int i = 0;

	while (i < *n && !is(names[i], name))
		i++;
	if (i == *n) {
		if (*n == most || strlen(name) > 23)
			bad("too many names, or too long");
		strcpy(names[(*n)++], name);
	}
	return i;
}

static int loc_of(struct program *p, const char *name)
{
	return find(p->loc, &p->nlocs, MAX_LOCS, name);
}

static int reg_of(struct program *p, const char *name)
{
	return find(p->reg, &p->nregs, MAX_REGS, name);
}

static int order_named(const char *name)
{
	static const struct {
		const char *name;
		int order;
	} orders[] = {{"none", PLAIN}, {"rlx", RLX}, {"acq", ACQ},
		      {"rel", REL},    {"ar", AR},   {"sc", SC}};

	for (unsigned i = 0; i < sizeof(orders) / sizeof(*orders); i++)
		if (is(name, orders[i].name))
			return orders[i].order;
	return -1;
}

static int order(void)
{
	int o = accept(".") ? order_named(next()) : PLAIN;

	if (o < 0)
		bad("no memory order");
	return o;
}

static void emit(struct expr *e, enum op op, int arg)
{
	if (e->n == MAX_CODE)
		bad("too long");
	e->code[e->n].op = op;
	e->code[e->n++].arg = arg;
}

static void expr(struct program *p, struct expr *e, int level);

static void primary(struct program *p, struct expr *e)
{
	next();
	if (is(token, "(")) {
		expr(p, e, 0);
		expect(")");
	} else if (is(token, "!")) {
		primary(p, e);
		emit(e, OP_NOT, 0);
	} else if (isdigit((unsigned char)*token)) {
		emit(e, OP_NUM, atoi(token));
	} else if (isupper((unsigned char)*token)) {
		emit(e, OP_LOC, loc_of(p, token));
	} else if (isalpha((unsigned char)*token)) {
		emit(e, OP_REG, reg_of(p, token));
	} else {
		bad("no expression");
	}
}

static void expr(struct program *p, struct expr *e, int level)
{
	static const struct {
		const char *name;
		int level;
		enum op op;
	} ops[] = {{"||", 0, OP_OR}, {"&&", 1, OP_AND}, {"==", 2, OP_EQ}, {"!=", 2, OP_NE},
		   {"<", 2, OP_LT},  {">", 2, OP_GT},	{"+", 3, OP_ADD}, {"-", 3, OP_SUB}};

	if (level > 3) {
		primary(p, e);
		return;
	}
	expr(p, e, level + 1);
	for (unsigned i = 0; i < sizeof(ops) / sizeof(*ops); i++)
		if (ops[i].level == level && accept(ops[i].name)) {
			expr(p, e, level + 1);
			emit(e, ops[i].op, 0);
			i = ~0u;
		}
}

static void read_modify_write(struct program *p, struct stmt *s)
{
	s->kind = is(token, "cas") ? CAS : is(token, "add") ? ADD : XCHG;
	s->loc = loc_of(p, next());
	s->failed_order = s->order = order();
	if (accept("/"))
		s->failed_order = order_named(next());
	if (s->kind == CAS)
		primary(p, &s->old);
	primary(p, &s->value);
}

static bool is_rmw(void)
{
	return is(token, "cas") || is(token, "add") || is(token, "xchg");
}

/* What begins with a word that is no keyword: a load, a store, or a sum. */
static void assignment(struct program *p, struct stmt *s)
{
	const char *before;

	if (isupper((unsigned char)*token)) {
		s->kind = STORE;
		s->loc = loc_of(p, token);
		s->order = order();
		expect("=");
		expr(p, &s->value, 0);
		return;
	}
	s->reg = reg_of(p, token);
	expect("=");
	before = at;
	next();
	if (is_rmw()) {
		read_modify_write(p, s);
	} else if (isupper((unsigned char)*token)) {
		s->kind = LOAD;
		s->loc = loc_of(p, token);
		s->order = order();
		if (s->await) {
			expect(":");
			expr(p, &s->value, 0);
		}
	} else {
		at = before;
		s->kind = SET;
		expr(p, &s->value, 0);
	}
}

static void statement(struct program *p)
{
	static const struct {
		const char *name;
		enum kind kind;
	} words[] = {{"cbar", NOTHING}, {"fence", FENCE},  {"membarrier", MEMBARRIER},
		     {"if", IF},	{"else", ELSE},	   {"end", END},
		     {"stop", STOP},	{"assert", ASSERT}};
	int t = p->nthreads - 1;
	char first[64];
	struct stmt *s;

	if (t < 0 || p->thread[t].n == MAX_STMTS)
		bad("no thread, or too many statements");
	s = &p->thread[t].stmt[p->thread[t].n++];
	*s = (struct stmt){.line = line, .reg = -1};
	strcpy(first, token);
	if (accept(":")) {
		snprintf(s->label, sizeof(s->label), "%.15s", first);
		next();
	} else {
		strcpy(token, first);
	}
	s->await = is(token, "await");
	if (s->await)
		next();
	for (unsigned i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (is(token, words[i].name)) {
			s->kind = words[i].kind;
			if (s->kind == FENCE)
				s->order = order();
			if (s->kind == IF || s->kind == ASSERT)
				expr(p, &s->value, 0);
			return;
		}
	if (is_rmw())
		read_modify_write(p, s);
	else
		assignment(p, s);
}

static void fact(struct program *p, struct expr *list, int *n)
{
	if (*n == MAX_FACTS)
		bad("too many conditions");
	expr(p, &list[(*n)++], 0);
}

void parse_line(struct test *test, const char *name, int number, const char *text)
{
	struct program *p = &test->p;

	file = name;
	line = number;
	at = text;
	if (!*next())
		return;
	if (is(token, "init")) {
		int l = loc_of(p, next());

		p->init[l] = atoi(next());
	} else if (is(token, "thread")) {
		if (p->nthreads == MAX_THREADS)
			bad("too many threads");
		snprintf(p->thread[p->nthreads].name, 24, "%s", next());
		p->thread[p->nthreads++].unreached = accept("unreached");
	} else if (is(token, "final")) {
		fact(p, p->final, &p->nfinals);
	} else if (is(token, "reach")) {
		fact(p, p->reach, &p->nreaches);
	} else if (is(token, "variant") || is(token, "mutate")) {
		if (test->nchanges == MAX_CHANGES || !strchr(at, ':') || strlen(at) > 199)
			bad("too many changes, or none");
		test->change[test->nchanges].holds = is(token, "variant");
		strcpy(test->change[test->nchanges++].text, at + strspn(at, " "));
		at = "";
	} else {
		statement(p);
	}
	if (*next())
		bad("what is that");
}

/* Changes --------------------------------------------------------------------------- */

static bool is_nothing(const struct stmt *s)
{
	return s->kind == NOTHING || (s->kind == FENCE && !s->order);
}

static void change_stmt(struct program *p, int t, int i, const char *how)
{
	struct stmt *s = &p->thread[t].stmt[i], kept;
	int o = order_named(how), first = i;

	if (o >= 0) {
		s->order = o;
		if (s->failed_order > o)
			s->failed_order = o;
	} else if (is(how, "drop")) {
		s->kind = NOTHING;
	} else if (is(how, "fence")) {
		s->kind = FENCE;
		s->order = SC;
	} else if (is(how, "store")) {
		s->kind = STORE;
	} else if (is(how, "swap")) {
		while (first > 0 && is_nothing(&p->thread[t].stmt[first]))
			first--;
		kept = p->thread[t].stmt[first];
		p->thread[t].stmt[first] = p->thread[t].stmt[i + 1];
		p->thread[t].stmt[i + 1] = kept;
	} else {
		bad("no change");
	}
}

/* One of a list: a thread, or every statement with that label. */
static void change(struct program *p, const char *what, const char *how)
{
	bool found = false;

	for (int t = 0; t < p->nthreads; t++) {
		if (is(p->thread[t].name, what)) {
			p->thread[t].unreached = true;
			found = true;
		}
		for (int i = 0; i < p->thread[t].n && !found; i++)
			if (is(p->thread[t].stmt[i].label, what)) {
				change_stmt(p, t, i, how);
				found = true;
			}
	}
	if (!found)
		bad("no such label or thread");
}

void parse_change(struct program *p, const char *text)
{
	char what[64];

	at = strchr(text, ':') + 1;
	do {
		strcpy(what, next());
		change(p, what, next());
	} while (accept(";"));
	if (*next())
		bad("what is that");
}
