/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages, reads and writes at the boundaries of 31 and 32 bits, and accesses to memory that
 * is larger than 4 GiB.
 * Part of: rest
 */
#include <rdma/fi_rma.h>

#include "fi/fit.h"
#include "lib/large.h"

TestSuite(fi_large, .timeout = FIT_TIMEOUT);

#define KEY 7
#define LONGEST (LARGE_4G - 1)

static int ctx[2];
static const uint64_t lengths[] = {LARGE_2G - 1, LARGE_2G, LARGE_2G + 1, LONGEST};

#define NLENGTHS (sizeof(lengths) / sizeof(*lengths))

static void map(char **from, char **to)
{
	*from = large_map();
	*to = large_map();
	if (!*from || !*to)
		cr_skip_test("no address space of 8 GiB");
}

FIT_TEST(fi_large, messages)
{
	char *from, *to;
	struct fit t;

	map(&from, &to);
	fit_open(&t, 2, *way, (struct fit_how){0});
	fit_eq(t.info->ep_attr->max_msg_size, LONGEST);
	large_fill(from, 1);
	for (unsigned i = 0; i < NLENGTHS; i++) {
		struct fi_cq_err_entry e;

		large_fill(to, 2);
		fit_ok(fi_trecv(t.ep[1], to, LARGE_SIZE, NULL, FI_ADDR_UNSPEC, i, 0, &ctx[1]));
		fit_ok(fi_tsend(t.ep[0], from, lengths[i], NULL, t.to[1], i, &ctx[0]));
		e = fit_good(&t, 1, &ctx[1]);
		fit_eq(e.len, lengths[i]);
		fit_good(&t, 0, &ctx[0]);
		cr_assert(large_same(to, 0, 0, lengths[i], 1, 2), "length %u", i);
	}
	fit_eq(fi_tsend(t.ep[0], from, LARGE_4G, NULL, t.to[1], 0, &ctx[0]), -FI_EMSGSIZE);
	fit_eq(fi_send(t.ep[0], from, LARGE_4G + 1, NULL, t.to[1], &ctx[0]), -FI_EMSGSIZE);
	fit_close(&t);
	large_unmap(from);
	large_unmap(to);
}

FIT_TEST(fi_large, accesses)
{
	static const uint64_t offsets[] = {0, 1, 4097, LARGE_4G - 8, LARGE_4G, LARGE_4G + 9};
	struct fid_mr *mr;
	char *from, *to;
	struct fit t;

	map(&from, &to);
	fit_open(&t, 2, *way, (struct fit_how){.caps = FI_RMA});
	fit_ok(fi_mr_reg(t.domain, to, LARGE_SIZE, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &mr,
			 NULL));
	for (unsigned i = 0; i < sizeof(offsets) / sizeof(*offsets); i++) {
		uint64_t at = offsets[i], len = i < NLENGTHS ? lengths[i] : 100000;

		if (at >= LARGE_4G - 8)
			len = 100000;
		large_fill(from, 1);
		large_fill(to, 2);
		fit_ok(fi_write(t.ep[0], from, len, NULL, t.to[1], at, KEY, &ctx[0]));
		fit_good(&t, 0, &ctx[0]);
		cr_assert(large_same(to, at, 0, len, 1, 2), "write %u", i);
		large_fill(to, 4);
		fit_ok(fi_read(t.ep[0], from, len, NULL, t.to[1], at, KEY, &ctx[0]));
		fit_good(&t, 0, &ctx[0]);
		cr_assert(large_same(from, 0, at, len, 4, 1), "read %u", i);
	}
	fit_eq(fi_write(t.ep[0], from, LARGE_4G, NULL, t.to[1], 0, KEY, &ctx[0]), -FI_EMSGSIZE);
	/* Beyond its end, by the size and by the sum of offset and length. */
	for (int i = 0; i < 2; i++) {
		uint64_t at = i ? ~0ull - 7 : LARGE_SIZE - 7;

		fit_ok(fi_read(t.ep[0], from, 8, NULL, t.to[1], at, KEY, &ctx[0]));
		fit_bad(&t, 0, &ctx[0], FI_EINVAL);
	}
	fit_ok(fi_close(&mr->fid));
	fit_close(&t);
	large_unmap(from);
	large_unmap(to);
}
