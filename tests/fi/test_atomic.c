/* SPDX-License-Identifier: BSD-2-Clause */
/* Atomics: every kind of call, what is valid, results. */
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include "fi/fit.h"

TestSuite(fi_atomic, .timeout = FIT_TIMEOUT);

#define ALL (FI_REMOTE_READ | FI_REMOTE_WRITE)
#define KEY 9

static int ctx;

static void open_two(struct fit *t, const char *way, void *there, size_t len, struct fid_mr **mr)
{
	fit_open(t, 2, way, (struct fit_how){.caps = FI_RMA | FI_ATOMIC});
	fit_ok(fi_mr_reg(t->domain, there, len, ALL, 0, KEY, 0, mr, NULL));
}

static void close_two(struct fit *t, struct fid_mr *mr)
{
	fit_ok(fi_close(&mr->fid));
	fit_close(t);
}

FIT_TEST(fi_atomic, operations)
{
	static const struct {
		enum fi_op op;
		int32_t before, operand, after;
	} ops[] = {{FI_MIN, 5, -3, -3},	  {FI_MAX, 5, -3, 5},	     {FI_SUM, 5, -3, 2},
		   {FI_PROD, 5, -3, -15}, {FI_LOR, 0, 4, 1},	     {FI_LAND, 2, 0, 0},
		   {FI_BOR, 5, 2, 7},	  {FI_BAND, 7, 10, 2},	     {FI_LXOR, 3, 4, 0},
		   {FI_BXOR, 6, 3, 5},	  {FI_ATOMIC_WRITE, 1, 2, 2}};
	int32_t there[3], operand[3], was[3];
	struct fi_cq_err_entry e;
	struct fid_mr *mr;
	struct fit t;

	open_two(&t, *way, there, sizeof(there), &mr);
	for (unsigned i = 0; i < 2 * sizeof(ops) / sizeof(*ops); i++) {
		unsigned k = i / 2;

		for (int j = 0; j < 3; j++) {
			there[j] = ops[k].before;
			operand[j] = ops[k].operand;
			was[j] = 99;
		}
		if (i % 2)
			fit_ok(fi_atomic(t.ep[0], operand, 2, NULL, t.to[1], 4, KEY, FI_INT32,
					 ops[k].op, &ctx));
		else
			fit_ok(fi_fetch_atomic(t.ep[0], operand, 2, NULL, was, NULL, t.to[1], 4,
					       KEY, FI_INT32, ops[k].op, &ctx));
		e = fit_good(&t, 0, &ctx);
		fit_eq(e.flags, FI_ATOMIC | (i % 2 ? FI_WRITE : FI_READ));
		fit_eq(there[0], ops[k].before);
		cr_assert(there[1] == ops[k].after && there[2] == ops[k].after, "op %d: %d",
			  ops[k].op, there[1]);
		fit_eq(was[0], i % 2 ? 99 : ops[k].before);
		fit_eq(was[1], i % 2 ? 99 : ops[k].before);
		fit_eq(was[2], 99);
	}
	fit_ok(fi_fetch_atomic(t.ep[0], NULL, 3, NULL, was, NULL, t.to[1], 0, KEY, FI_INT32,
			       FI_ATOMIC_READ, &ctx));
	fit_good(&t, 0, &ctx);
	cr_assert(memcmp(was, there, sizeof(there)) == 0);
	close_two(&t, mr);
}

FIT_TEST(fi_atomic, compares)
{
	static const struct {
		enum fi_op op;
		uint64_t before, compare, after;
	} ops[] = {{FI_CSWAP, 5, 5, 77},    {FI_CSWAP, 5, 6, 5},	{FI_CSWAP_NE, 5, 6, 77},
		   {FI_CSWAP_LE, 5, 4, 77}, {FI_CSWAP_GE, 5, 4, 5},	{FI_CSWAP_LT, 5, 5, 5},
		   {FI_CSWAP_GT, 5, 6, 77}, {FI_MSWAP, 0xff, 0xf, 0xfd}};
	uint64_t there, operand = 77, was;
	struct fid_mr *mr;
	struct fit t;

	open_two(&t, *way, &there, sizeof(there), &mr);
	for (unsigned i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
		there = ops[i].before;
		fit_ok(fi_compare_atomic(t.ep[0], &operand, 1, NULL, &ops[i].compare, NULL, &was,
					 NULL, t.to[1], 0, KEY, FI_UINT64, ops[i].op, &ctx));
		fit_good(&t, 0, &ctx);
		cr_assert(there == ops[i].after && was == ops[i].before, "case %u: %llu", i,
			  (unsigned long long)there);
	}
	close_two(&t, mr);
}

/* Operands and results in pieces, with flags; data for the owner. */
FIT_TEST(fi_atomic, pieces)
{
	double there[5] = {1, 2, 3, 4, 5}, operand[4] = {10, 20, 30, 40}, was[4] = {0};
	struct fi_ioc from[2] = {{operand, 1}, {operand + 1, 3}}, to[2] = {{was, 2}, {was + 2, 2}};
	struct fi_rma_ioc where = {8, 4, KEY};
	struct fi_msg_atomic m = {.msg_iov = from,
				  .iov_count = 2,
				  .rma_iov = &where,
				  .rma_iov_count = 1,
				  .datatype = FI_DOUBLE,
				  .op = FI_SUM,
				  .context = &ctx,
				  .data = 55};
	struct fi_cq_err_entry e;
	struct fid_mr *mr;
	struct fit t;

	open_two(&t, *way, there, sizeof(there), &mr);
	m.addr = t.to[1];
	fit_ok(fi_atomicv(t.ep[0], from, NULL, 2, t.to[1], 8, KEY, FI_DOUBLE, FI_SUM, &ctx));
	fit_good(&t, 0, &ctx);
	fit_ok(fi_fetch_atomicv(t.ep[0], from, NULL, 2, to, NULL, 2, t.to[1], 8, KEY, FI_DOUBLE,
				FI_SUM, &ctx));
	fit_good(&t, 0, &ctx);
	cr_assert(there[0] == 1 && there[1] == 22 && was[0] == 12 && was[3] == 45);
	fit_ok(fi_atomicmsg(t.ep[0], &m, FI_REMOTE_CQ_DATA | FI_INJECT));
	fit_good(&t, 0, &ctx);
	e = fit_good(&t, 1, NULL);
	fit_eq(e.flags, FI_ATOMIC | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
	fit_eq(e.data, 55);
	fit_ok(fi_fetch_atomicmsg(t.ep[0], &m, to, NULL, 2, FI_COMPLETION));
	fit_good(&t, 0, &ctx);
	cr_assert(was[0] == 32 && was[3] == 125);
	m.op = FI_CSWAP;
	fit_ok(fi_compare_atomicmsg(t.ep[0], &m, to, NULL, 2, to, NULL, 2, FI_COMPLETION));
	fit_good(&t, 0, &ctx);
	cr_assert(was[0] == 42 && there[1] == 42);
	fit_ok(fi_compare_atomicv(t.ep[0], from, NULL, 2, to, NULL, 2, to, NULL, 2, t.to[1], 8, KEY,
				  FI_DOUBLE, FI_CSWAP, &ctx));
	fit_good(&t, 0, &ctx);
	cr_assert(there[1] == 10 && there[4] == 40);
	where.count = 3;
	fit_eq(fi_compare_atomicmsg(t.ep[0], &m, to, NULL, 2, to, NULL, 2, 0), -FI_EINVAL);
	fit_eq(fi_fetch_atomicmsg(t.ep[0], &m, to, NULL, 2, 0), -FI_EOPNOTSUPP);
	close_two(&t, mr);
}

FIT_TEST(fi_atomic, valid)
{
	uint64_t there[200] = {0}, operand[200] = {0};
	struct fi_atomic_attr attr;
	struct fid_mr *mr;
	struct fit t;
	size_t n;

	open_two(&t, *way, there, sizeof(there), &mr);
	for (int type = FI_INT8; type <= FI_DOUBLE; type++)
		for (int op = FI_MIN; op <= FI_MSWAP; op++) {
			bool bits = op == FI_BOR || op == FI_BAND || op == FI_BXOR ||
				    op == FI_MSWAP;
			bool no = bits && type >= FI_FLOAT, compares = op >= FI_CSWAP;
			int base = no || compares || op == FI_ATOMIC_READ ? -FI_EOPNOTSUPP : 0;
			int fetch = no || compares ? -FI_EOPNOTSUPP : 0;
			int compare = no || !compares ? -FI_EOPNOTSUPP : 0;

			fit_eq(fi_atomicvalid(t.ep[0], type, op, &n), base);
			fit_eq(fi_fetch_atomicvalid(t.ep[0], type, op, &n), fetch);
			fit_eq(fi_compare_atomicvalid(t.ep[0], type, op, &n), compare);
			fit_eq(fi_query_atomic(t.domain, type, op, &attr, 0), base);
			fit_eq(fi_query_atomic(t.domain, type, op, &attr, FI_FETCH_ATOMIC), fetch);
			fit_eq(fi_query_atomic(t.domain, type, op, &attr, FI_COMPARE_ATOMIC),
			       compare);
		}
	fit_eq(fi_atomicvalid(t.ep[0], FI_LONG_DOUBLE, FI_SUM, &n), -FI_EOPNOTSUPP);
	fit_ok(fi_query_atomic(t.domain, FI_UINT64, FI_SUM, &attr, 0));
	fit_eq(attr.size, 8);
	fit_ok(fi_atomic(t.ep[0], operand, attr.count, NULL, t.to[1], 0, KEY, FI_UINT64, FI_SUM,
			 &ctx));
	fit_good(&t, 0, &ctx);
	fit_eq(fi_atomic(t.ep[0], operand, attr.count + 1, NULL, t.to[1], 0, KEY, FI_UINT64, FI_SUM,
			 &ctx),
	       -FI_EMSGSIZE);
	fit_eq(fi_atomic(t.ep[0], operand, 0, NULL, t.to[1], 0, KEY, FI_UINT64, FI_SUM, &ctx),
	       -FI_EINVAL);
	close_two(&t, mr);
}
