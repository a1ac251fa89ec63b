/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * litmus [-v] FILE...: proves the litmus tests of files. A test holds in all of its executions
 * in RC11 (rc11.c), and so does each of its variants; each of its mutations goes wrong. With -v
 * an execution of each that goes wrong is printed.
 *
 *	litmus NAME		begins a test
 *	init X 1		else 0
 *	thread NAME		and its statements; "unreached": no membarrier reaches it
 *	X.rel = e		a store. Orders: rlx acq rel ar sc; none: not atomic
 *	r = X.acq		a load
 *	r = cas X.sc/rlx e e	expects the first, stores the second; add and xchg have one; in
 *				r is what was there, and "r =" may be missing
 *	await r = X.acq : e	waits until the condition is true; await r = cas: until it is done
 *	fence.sc, membarrier	"fence.none" is nothing
 *	cbar			a compiler's barrier: nothing here but a place to swap
 *	r = e, if e, else, end, assert e, stop
 *	final e			of registers and memory, true at the end of every execution
 *	reach e			true at the end of one
 *	variant TEXT: CHANGE; CHANGE...
 *	mutate TEXT: CHANGE...	LABEL ORDER; LABEL drop; LABEL swap (with the next statement; of a
 *				cbar: its neighbours); LABEL fence, LABEL store (in place of a
 *				membarrier, of a read-modify-write); THREAD unreached
 *
 * Locations begin with a capital, registers do not, and belong to all threads. A statement may
 * have a "LABEL:". Behind @ stands for a reader, and for tests/lint/pairings, where in the
 * sources it is.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parse.h"

static bool verbose;

/* Where if and else go on. */
static void link_jumps(struct program *p)
{
	for (int t = 0; t < p->nthreads; t++) {
		int open[MAX_STMTS], depth = 0;

		for (int i = 0; i < p->thread[t].n; i++) {
			struct stmt *s = &p->thread[t].stmt[i];

			if (s->kind == IF) {
				open[depth++] = i;
			} else if ((s->kind == ELSE || s->kind == END) && depth > 0) {
				p->thread[t].stmt[open[depth - 1]].jump = i + 1;
				depth -= s->kind == END;
				if (s->kind == ELSE)
					open[depth - 1] = i;
			}
		}
	}
}

/* A fence without an order is none. */
static void drop_fences(struct program *p)
{
	for (int t = 0; t < p->nthreads; t++)
		for (int i = 0; i < p->thread[t].n; i++)
			if (p->thread[t].stmt[i].kind == FENCE && !p->thread[t].stmt[i].order)
				p->thread[t].stmt[i].kind = NOTHING;
}

/* Proofs ------------------------------------------------------------------------------ */

/* Whether the value that a statement stores is from that register. */
static bool uses(const struct expr *e, int reg)
{
	for (int i = 0; i < e->n; i++)
		if (e->code[i].op == OP_REG && e->code[i].arg == reg)
			return true;
	return false;
}

/*
 * Whether a processor may do a store before the statement ahead of it. RC11 forbids load
 * buffering, and ARMv8 and RISC-V do not, but where a dependency or an order forbids it.
 */
static bool may_overtake(const struct stmt *store, const struct stmt *s)
{
	if (store->kind != STORE || store->order > RLX)
		return false;
	switch (s->kind) {
	case LOAD:
		return s->order <= RLX && !s->await && s->loc != store->loc &&
		       !uses(&store->value, s->reg);
	case STORE:
		return s->loc != store->loc && s->order != SC;
	case SET:
		return !uses(&store->value, s->reg);
	case NOTHING:
	case ASSERT:
		return true;
	default:
		return false;
	}
}

/* True if a load is between here and a statement ahead that a store may also overtake. */
static bool worth_it(const struct program *p, int t, int i)
{
	const struct stmt *s = p->thread[t].stmt;

	for (int k = i - 1; k >= 0 && may_overtake(&s[i], &s[k]); k--)
		if (s[k].kind == LOAD)
			return true;
	return false;
}

/* Searches a program, and those that it becomes where stores overtake loads. */
static void search(struct program *p, int thread, int from, struct verdict *v)
{
	struct verdict one;

	link_jumps(p);
	rc11_search(p, verbose, &one);
	v->executions += one.executions;
	v->graphs += one.graphs;
	strcpy(v->why, one.why);
	for (int i = 0; i < p->nreaches; i++)
		v->reached[i] |= one.reached[i];
	for (int t = thread; t < p->nthreads; t++)
		for (int i = t == thread ? from : 1; i < p->thread[t].n && !*v->why; i++) {
			struct program other = *p;
			struct stmt *s = other.thread[t].stmt, store = s[i];
			int to = i;

			if (!worth_it(p, t, i))
				continue;
			while (to > 0 && may_overtake(&store, &s[to - 1])) {
				s[to] = s[to - 1];
				to--;
			}
			s[to] = store;
			search(&other, t, i + 1, v);
		}
}

static bool prove(const struct test *test, const char *text, bool holds)
{
	struct program p = test->p;
	struct verdict v = {{0}, {0}, 0, 0};
	bool ok;

	if (text)
		parse_change(&p, text);
	drop_fences(&p);
	search(&p, 0, 1, &v);
	ok = holds == !*v.why;
	printf("%s%s%s: ", test->name, text ? ", " : "", text ? text : "");
	if (!ok)
		printf("must %s, but: %s\n", holds ? "hold" : "go wrong", *v.why ? v.why : "holds");
	else if (!holds)
		printf("goes wrong, as it must (%s)\n", v.why);
	else
		printf("holds, %ld executions, %ld graphs\n", v.executions, v.graphs);
	for (int i = 0; i < p.nreaches && holds && ok; i++)
		if (!v.reached[i]) {
			printf("%s: `reach' number %d is true in none\n", test->name, i + 1);
			ok = false;
		}
	return ok;
}

/* Proves a test and empties it. */
static bool prove_all(struct test *test)
{
	bool ok = true;

	if (*test->name) {
		ok = prove(test, NULL, true);
		for (int i = 0; i < test->nchanges; i++)
			ok &= prove(test, test->change[i].text, test->change[i].holds);
	}
	memset(test, 0, sizeof(*test));
	return ok;
}

static bool prove_file(const char *name)
{
	static struct test test;
	char text[256];
	FILE *f = fopen(name, "r");
	bool ok = true;

	if (!f) {
		perror(name);
		return false;
	}
	for (int line = 1; fgets(text, sizeof(text), f); line++) {
		char begins[64];

		text[strcspn(text, "#@\n")] = 0;
		if (sscanf(text, "litmus %63s", begins) == 1) {
			ok &= prove_all(&test);
			strcpy(test.name, begins);
		} else {
			parse_line(&test, name, line, text);
		}
	}
	fclose(f);
	return prove_all(&test) && ok;
}

int main(int argc, char **argv)
{
	int first = 1;
	bool ok = true;

	verbose = argc > 1 && strcmp(argv[1], "-v") == 0;
	first += verbose;
	for (int i = first; i < argc; i++)
		ok &= prove_file(argv[i]);
	return ok && first < argc ? 0 : 1;
}
