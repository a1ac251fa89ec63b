/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The owner of memory learns of accesses to it. Data of a put arrives by the engine's
 * notification. Of what is to be counted (FI_RMA_EVENT of the owner), and of the data of an
 * atomic, the side that accesses sends an active message when its access has ended. Data becomes
 * a complete receive.
 */
#include "fi/fi.h"

enum { READ = 1, ATOMIC = 2, IMM = 4, WRITTEN = 8 };

struct report {
	uint64_t key, imm;
	uint32_t len, bits;
} TW_WIRE;
_Static_assert(sizeof(struct report) == 24, "wire format");

void tw_fi_report(struct tw_ep *ep, struct tw_req *r)
{
	bool read = r->kind == TW_READ || (r->user & TW_FI_FETCH);
	bool written = r->kind != TW_READ && !(r->user & TW_FI_KEEP), atomic = r->kind == TW_ATOMIC;
	struct report t = {r->match, r->imm, r->msg_len,
			   (read ? READ : 0) | (written ? WRITTEN : 0) | (atomic ? ATOMIC : 0) |
				   (atomic && (r->user & TW_FI_IMM) ? IMM : 0)};
	bool due = r->extra & TW_X_REPORT || (t.bits & IMM);

	if (!due || !tw_is_access(r))
		return;
	r->extra &= ~TW_X_REPORT;
	r->user &= ~(uint64_t)TW_FI_IMM;
	if (r->status == TW_S_OK && tw_am_send(ep, r->other, 0, &t, sizeof(t)) == TW_ENOMEM)
		tw_log(TW_LOG_ERROR, "no memory to tell a peer of an access");
}

static enum tw_err make_event(struct tw_ep *ep, struct tw_peer *p, const struct report *t)
{
	struct tw_req *r = tw_req_new1(ep, TW_RECV, NULL, 0);

	if (!r)
		return TW_AGAIN;
	r->context = NULL;
	r->user = TW_FI_NOTIFY | TW_FI_REPORTED;
	r->match = (t->bits & ATOMIC ? FI_ATOMIC : FI_RMA) |
		   (t->bits & READ ? FI_REMOTE_READ : FI_REMOTE_WRITE);
	r->extra = TW_X_IMM;
	r->imm = t->imm;
	r->msg_len = t->len;
	r->other = p->addr;
	tw_req_complete(ep, r, TW_S_OK);
	return TW_OK;
}

void tw_fi_reported(struct tw_ep *ep, struct tw_peer *p, uint64_t arg, const void *data,
		    uint32_t len)
{
	struct tw_fi_ep *e = ep->owner;
	struct report t;

	(void)arg;
	if (len != sizeof(t))
		return;
	memcpy(&t, data, sizeof(t));
	if ((t.bits & IMM) && make_event(ep, p, &t) != TW_OK)
		tw_log(TW_LOG_ERROR, "no memory for an event");
	tw_fi_count(e, t.bits & READ ? TW_FI_CRREAD : TW_FI_CRWRITE, false);
	tw_fi_mr_count(e->domain, t.key, t.bits & READ, t.bits & WRITTEN);
	ep->events++;
}

enum tw_err tw_fi_notified(struct tw_ep *ep, struct tw_peer *p, uint64_t datum, uint32_t len)
{
	struct report t = {.imm = datum, .len = len};
	enum tw_err err = make_event(ep, p, &t);
	struct tw_fi_ep *e = ep->owner;

	/* Else a report comes, too. */
	if (err == TW_OK && !(e->caps & FI_RMA_EVENT))
		tw_fi_count(e, TW_FI_CRWRITE, false);
	return err;
}
