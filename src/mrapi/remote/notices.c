/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The latest notice of each slot of another host. Several processes of that host report the
 * creation and the end of objects and nodes, each by a connection of its own, so reports arrive in
 * any order. A report with an older generation of its slot, or an earlier time of birth of a node,
 * is ignored.
 */
#include <fcntl.h>

#include "base/sys.h"
#include "mrapi/remote/remote.h"

#define KNOWN 0x80000000u

/* 2 * what orders the users of a slot + whether it has ended. */
static uint32_t latest(const struct tw_mrapi_ctrl *c, bool gone)
{
	uint32_t order = c->kind ? c->handle >> TW_MRAPI_GEN_SHIFT & TW_MRAPI_GEN_MASK : c->node;

	return (2 * order + gone) & ~KNOWN;
}

static uint32_t *notice_entry(uint32_t host, const struct tw_mrapi_ctrl *c)
{
	uint32_t slot = c->kind ? c->handle : c->slot;

	return &tw_mrapi.seg->known[host - 1].slot[c->kind][slot & TW_MRAPI_SLOT_MASK];
}

bool tw_mrapi_notices(uint32_t host, const struct tw_mrapi_ctrl *c, bool gone)
{
	uint32_t now = latest(c, gone), *known = notice_entry(host, c);
	unsigned wrap = c->kind ? 32 - 15 : 1; /* generations and births count on from 0 */

	/* Without memory for its page there is nothing to compare with. */
	if (!tw_mrapi_allocate(known, sizeof(*known)))
		return true;
	if ((*known & KNOWN) && (int32_t)((now - *known) << wrap) < 0)
		return false;
	*known = now | KNOWN;
	return true;
}

void tw_mrapi_notices_forget(uint32_t host)
{
	size_t at = (size_t)((char *)&tw_mrapi.seg->known[host - 1] - (char *)tw_mrapi.seg);

	if (tw_sys_fallocate(tw_mrapi.segfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at,
			     sizeof(struct tw_mrapi_known)) < 0)
		tw_log(TW_LOG_ERROR, "mrapi: cannot forget a host");
}
