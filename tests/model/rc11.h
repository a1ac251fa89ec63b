/* SPDX-License-Identifier: BSD-2-Clause */
/* A small program of several threads, and the search of all its executions (rc11.c). */
#ifndef RC11_H
#define RC11_H

#include <stdbool.h>
#include <stdint.h>

#define MAX_THREADS 5
#define MAX_STMTS 32 /* of a thread */
#define MAX_LOCS 16
#define MAX_REGS 40
#define MAX_CODE 40 /* of an expression */
#define MAX_FACTS 8

/* Memory orders. PLAIN: not atomic. */
enum { PLAIN = 0, RLX = 1, ACQ = 2 | RLX, REL = 4 | RLX, AR = ACQ | REL, SC = 8 | AR };

/* Expressions in postfix: numbers, registers, and in a final one memory. */
enum op {
	OP_NUM,
	OP_REG,
	OP_LOC,
	OP_NOT,
	OP_EQ,
	OP_NE,
	OP_LT,
	OP_GT,
	OP_ADD,
	OP_SUB,
	OP_AND,
	OP_OR
};
struct expr {
	int n;
	struct {
		enum op op;
		int arg;
	} code[MAX_CODE];
};

enum kind {
	NOTHING, /* a compiler's barrier, or what a mutation has dropped */
	LOAD,
	STORE,
	CAS,
	ADD,
	XCHG,
	FENCE,
	MEMBARRIER, /* of every other thread that is registered */
	SET,
	IF,
	ELSE,
	END,
	ASSERT,
	STOP
};

struct stmt {
	enum kind kind;
	int line, order, failed_order; /* the latter of a CAS */
	int loc, reg;
	bool await;		/* until the condition is true, or the CAS is done */
	struct expr value, old; /* what is stored; the condition; what a CAS expects */
	char label[16];
	int jump; /* from IF and ELSE */
};

struct program {
	int nthreads, nlocs, nregs, nfinals, nreaches;
	struct {
		char name[24];
		bool unreached; /* by a membarrier */
		int n;
		struct stmt stmt[MAX_STMTS];
	} thread[MAX_THREADS];
	char loc[MAX_LOCS][24], reg[MAX_REGS][24];
	int init[MAX_LOCS];
	struct expr final[MAX_FACTS], reach[MAX_FACTS];
};

struct verdict {
	char why[160]; /* what went wrong, or empty */
	bool reached[MAX_FACTS];
	long executions, graphs;
};

int expr_value(const struct expr *e, const int *regs, const int *mem);
/* Searches all executions, or up to the first that is wrong, which is printed if asked for. */
void rc11_search(const struct program *p, bool print, struct verdict *out);

#endif /* RC11_H */
