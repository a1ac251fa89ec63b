/* SPDX-License-Identifier: BSD-2-Clause */
/* Registered memory: keys, rights, closing. */
#include "fi/fit.h"

TestSuite(fi_memory, .timeout = FIT_TIMEOUT);

/* Programs that register what they send and receive. */
FIT_TEST(fi_memory, local)
{
	struct fid_mr *out_mr, *in_mr, *other;
	char out[100], in[100];
	struct fit t;
	int ctx[2];

	fit_open(&t, 2, *way, (struct fit_how){0});
	twt_fill(out, 100, 1);
	fit_ok(fi_mr_reg(t.domain, out, 100, FI_SEND, 0, 7, 0, &out_mr, NULL));
	fit_ok(fi_mr_reg(t.domain, in, 100, FI_RECV, 0, 8, 0, &in_mr, NULL));
	fit_eq(fi_mr_key(out_mr), 7);
	fit_eq(fi_mr_reg(t.domain, in, 100, FI_RECV, 0, 7, 0, &other, NULL), -FI_ENOKEY);
	fit_eq(fi_mr_reg(t.domain, in, 0, FI_RECV, 0, 9, 0, &other, NULL), -FI_EINVAL);
	fit_eq(fi_mr_reg(t.domain, in, 100, FI_RECV, 5, 9, 0, &other, NULL), -FI_EINVAL);
	fit_eq(fi_mr_reg(t.domain, in, 100, FI_RECV, 0, 9, ~0ull, &other, NULL), -FI_EBADFLAGS);
	fit_eq(fi_close(&t.domain->fid), -FI_EBUSY);
	fit_ok(fi_recv(t.ep[1], in, 100, fi_mr_desc(in_mr), FI_ADDR_UNSPEC, &ctx[1]));
	fit_ok(fi_send(t.ep[0], out, 100, fi_mr_desc(out_mr), t.to[1], &ctx[0]));
	fit_good(&t, 1, &ctx[1]);
	fit_good(&t, 0, &ctx[0]);
	fit_eq(twt_check(in, 100, 1), 100);
	fit_ok(fi_close(&out_mr->fid));
	fit_ok(fi_mr_reg(t.domain, in, 100, FI_RECV, 0, 7, 0, &other, NULL));
	fit_ok(fi_close(&other->fid));
	fit_ok(fi_close(&in_mr->fid));
	fit_close(&t);
}

/* The provider's keys, and events of registering. */
Test(fi_memory, basic)
{
	struct fi_eq_attr how = {.wait_obj = FI_WAIT_NONE};
	struct fid_mr *mr[2];
	struct fi_eq_entry e;
	struct fid_eq *eq;
	char buf[10];
	uint32_t event;
	struct fit t;
	int ctx;

	fit_open(&t, 0, NULL, (struct fit_how){.mr_mode = TW_LIBFABRIC_MR_BASIC});
	fit_eq(t.info->domain_attr->mr_mode, TW_LIBFABRIC_MR_BASIC);
	fit_ok(fi_eq_open(t.fabric, &how, &eq, NULL));
	fit_ok(fi_domain_bind(t.domain, &eq->fid, TW_LIBFABRIC_REG_MR));
	for (int i = 0; i < 2; i++)
		fit_ok(fi_mr_reg(t.domain, buf, 10, FI_REMOTE_READ, 0, 3, 0, &mr[i], &ctx));
	cr_assert(fi_mr_key(mr[0]) != fi_mr_key(mr[1]));
	fit_eq(fi_eq_read(eq, &event, &e, sizeof(e), 0), sizeof(e));
	cr_assert(event == FI_MR_COMPLETE && e.fid == &mr[0]->fid && e.context == &ctx);
	for (int i = 0; i < 2; i++)
		fit_ok(fi_close(&mr[i]->fid));
	/* The domain refers to it. */
	fit_eq(fi_close(&eq->fid), -FI_EBUSY);
	fit_ok(fi_close(&t.av->fid));
	fit_ok(fi_close(&t.domain->fid));
	fit_ok(fi_close(&eq->fid));
	fit_ok(fi_close(&t.fabric->fid));
	fi_freeinfo(t.info);
}
