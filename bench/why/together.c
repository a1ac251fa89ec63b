/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages between rank 0 and another rank:
 *
 *   HELLO   it has come             rank 0 waits for it, at most for the timeout
 *   GO      all begin to read       to those that have come
 *   FACTS   settled and flat        to rank 0
 */
#include "together.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../benchlib.h"
#include "mx_extensions.h"

#define FILTER 0x74777768u
#define HELLO (1ull << 32)
#define GO (2ull << 32)
#define FACTS (3ull << 32)
#define KIND (~0ull << 32) /* the rest is the rank */
#define LAST_ID 1023u	   /* of MX: seldom used */
#define SAY_AFTER 3.0	   /* seconds */
#define CONNECT_SECONDS 5  /* back to one that has just called */

static void must(const char *call, mx_return_t rc)
{
	if (rc != MX_SUCCESS)
		bench_failed(call, rc);
}

static uint32_t ms_until(double end)
{
	double left = (end - bench_now()) * 1e3;

	/* 0 would not end. */
	return left < 1 ? 1 : left > 1e9 ? 1000000000 : (uint32_t)left;
}

/* Whether a request has ended well, in time. */
static bool finish(const struct together *t, mx_request_t *req, double end, mx_status_t *status)
{
	uint32_t done = 0;

	must("mx_wait", mx_wait(t->endpoint, req, ms_until(end), status, &done));
	if (done)
		return status->code == MX_STATUS_SUCCESS;
	must("mx_cancel", mx_cancel(t->endpoint, req, &done));
	if (done)
		return false;
	/* It has been matched meanwhile. */
	must("mx_wait", mx_wait(t->endpoint, req, CONNECT_SECONDS * 1000, status, &done));
	if (!done)
		mx_forget(t->endpoint, req);
	return done && status->code == MX_STATUS_SUCCESS;
}

static void meet_all(struct together *t)
{
	mx_return_t rc;

	/* Without a launcher that knows it, the endpoint id follows from the rank. */
	rc = mx_open_endpoint(MX_ANY_NIC,
			      getenv("TAGWIRE_RANK") ? LAST_ID - (t->size - 1) + t->rank
						     : MX_ANY_ENDPOINT,
			      FILTER, NULL, 0, &t->endpoint);
	must("mx_open_endpoint", rc);
	must("mx_job_exchange", mx_job_exchange(t->endpoint));
	for (uint32_t i = 0; i < t->size; i++) {
		uint64_t nic;
		uint32_t id;

		must("mx_job_peer", mx_job_peer(i, &nic, &id));
		t->ranks[i].where = nic << 16 | id;
		t->ranks[i].seen = WHY_NONE;
	}
}

/* By its address: a host that does not come need not answer. */
static void name_rank(struct together_rank *r)
{
	if (!r->host[0])
		why_nic_text(r->where >> 16, "", r->host, sizeof r->host);
}

/* Rank 0 -------------------------------------------------------------------- */

static uint32_t first_missing(const struct together *t)
{
	uint32_t i = 1;

	while (i < t->size && t->ranks[i].state != TOGETHER_MISSING)
		i++;
	return i;
}

static void say_waiting(struct together *t)
{
	struct together_rank *r = &t->ranks[first_missing(t)];

	name_rank(r);
	fprintf(stderr,
		"%s: waits at most %g seconds for rank %" PRIu32 ", %s: start %s there with the "
		"same options\n",
		bench_tool, t->timeout, (uint32_t)(r - t->ranks), r->host, bench_tool);
}

static void take_hello(struct together *t, const mx_status_t *status)
{
	uint64_t rank = status->match_info & ~KIND, nic;
	struct together_rank *r;
	uint32_t id;

	if (rank == 0 || rank >= t->size)
		return;
	r = &t->ranks[rank];
	if (r->state == TOGETHER_MISSING &&
	    mx_decompose_endpoint_addr(status->source, &nic, &id) == MX_SUCCESS &&
	    mx_connect(t->endpoint, nic, id, FILTER, CONNECT_SECONDS, &r->addr) == MX_SUCCESS) {
		r->where = nic << 16 | id;
		r->state = TOGETHER_CAME;
	}
}

static void await_others(struct together *t)
{
	double begun = bench_now(), end = begun + t->timeout;
	bool said = false;

	while (first_missing(t) < t->size && bench_now() < end) {
		double look = said ? end : fmin(end, begun + SAY_AFTER);
		mx_status_t status;
		mx_request_t req;

		must("mx_irecv", mx_irecv(t->endpoint, NULL, 0, HELLO, KIND, NULL, &req));
		if (finish(t, &req, look, &status)) {
			take_hello(t, &status);
		} else if (!said && bench_now() < end) {
			say_waiting(t);
			said = true;
		}
	}
	for (uint32_t i = 1; i < t->size; i++) {
		mx_status_t status;
		mx_request_t req;

		if (t->ranks[i].state != TOGETHER_CAME)
			continue;
		must("mx_isend", mx_isend(t->endpoint, NULL, 0, t->ranks[i].addr, GO, NULL, &req));
		finish(t, &req, bench_now() + CONNECT_SECONDS, &status);
	}
}

/* The host whose processes another rank sees as well, or WHY_NONE. */
static int seen_before(const struct why_facts *f, const struct why_facts *other)
{
	for (unsigned i = 0; i < f->nhosts; i++)
		if (f->hosts[i].view == other->hosts[0].view)
			return (int)i;
	return WHY_NONE;
}

/* Two hosts of one name are told apart by their addresses. */
static void name_apart(const struct why_facts *f, struct why_host *h, struct together_rank *r)
{
	for (unsigned i = 0; i < f->nhosts; i++)
		if (strcmp(f->hosts[i].name, h->name) == 0) {
			name_rank(r);
			memcpy(h->name, r->host, sizeof h->name);
		}
	memcpy(r->host, h->name, sizeof r->host);
}

static void add_facts(struct together_rank *r, struct why_facts *f, const uint8_t *bytes,
		      size_t len)
{
	struct why_facts other;

	if (!why_unflatten(&other, bytes, len)) {
		r->state = TOGETHER_GARBLED;
		return;
	}
	r->seen = seen_before(f, &other);
	if (r->seen >= 0) {
		memcpy(r->host, other.hosts[0].name, sizeof r->host);
		r->state = TOGETHER_TWICE;
		why_free(&other);
		return;
	}
	name_apart(f, &other.hosts[0], r);
	r->state = TOGETHER_SEEN;
	r->seen = (int)f->nhosts;
	why_add_host(f, &other);
}

/* The facts of one rank, which have begun to arrive. */
static void take_facts(struct together *t, struct why_facts *f, const mx_status_t *found,
		       double end)
{
	uint64_t rank = found->match_info & ~KIND;
	uint32_t len = found->msg_length <= WHY_FLAT_MOST ? found->msg_length : 0;
	uint8_t *bytes = malloc(len + 1);
	mx_segment_t seg = {bytes, len};
	mx_status_t status;
	mx_request_t req;
	bool good;

	if (!bytes)
		bench_fail("no memory");
	must("mx_irecv",
	     mx_irecv(t->endpoint, &seg, 1, found->match_info, MX_MATCH_MASK_NONE, NULL, &req));
	good = finish(t, &req, end, &status);
	if (rank && rank < t->size && t->ranks[rank].state == TOGETHER_CAME) {
		if (good)
			add_facts(&t->ranks[rank], f, bytes, status.xfer_length);
		else
			t->ranks[rank].state = TOGETHER_MISSING;
	}
	/* Data of one that was given up may still come. */
	if (good)
		free(bytes);
}

static bool any_came(const struct together *t)
{
	for (uint32_t i = 1; i < t->size; i++)
		if (t->ranks[i].state == TOGETHER_CAME)
			return true;
	return false;
}

static void gather(struct together *t, struct why_facts *f)
{
	double end = bench_now() + t->timeout;

	while (any_came(t) && bench_now() < end) {
		mx_status_t status;
		uint32_t found = 0;

		must("mx_probe",
		     mx_probe(t->endpoint, ms_until(end), FACTS, KIND, &status, &found));
		if (found)
			take_facts(t, f, &status, end);
	}
	for (uint32_t i = 1; i < t->size; i++)
		if (t->ranks[i].state == TOGETHER_CAME)
			t->ranks[i].state = TOGETHER_MISSING;
}

/* The other ranks ------------------------------------------------------------ */

static void come(struct together *t)
{
	struct together_rank *first = &t->ranks[0];
	mx_status_t status;
	mx_request_t req;

	must("mx_job_connect",
	     mx_job_connect(t->endpoint, 0, FILTER, (uint32_t)ceil(t->timeout), &first->addr));
	must("mx_isend", mx_isend(t->endpoint, NULL, 0, first->addr, HELLO | t->rank, NULL, &req));
	finish(t, &req, bench_now() + t->timeout, &status);
	must("mx_irecv", mx_irecv(t->endpoint, NULL, 0, GO, KIND, NULL, &req));
	/* It waits for others, and connects to each that has come. */
	if (!finish(t, &req, bench_now() + t->timeout + t->size * CONNECT_SECONDS, &status))
		bench_fail("rank 0 does not answer");
}

static void send_facts(struct together *t, const struct why_facts *f)
{
	mx_segment_t seg;
	mx_status_t status;
	mx_request_t req;
	uint8_t *bytes;
	size_t len;

	bytes = why_flatten(f, &len);
	if (len > WHY_FLAT_MOST)
		bench_fail("too much is pending here to be sent to rank 0: run mx_why alone");
	seg = (mx_segment_t){bytes, (uint32_t)len};
	/* It must have arrived before the endpoint is closed. */
	must("mx_issend",
	     mx_issend(t->endpoint, &seg, 1, t->ranks[0].addr, FACTS | t->rank, NULL, &req));
	if (!finish(t, &req, bench_now() + t->timeout, &status))
		bench_fail("rank 0 has not taken what is known here");
	free(bytes);
}

/* All ----------------------------------------------------------------------- */

void together_begin(struct together *t, double timeout)
{
	static char role[24];

	*t = (struct together){.timeout = timeout};
	mx_set_error_handler(bench_keep_message);
	must("mx_init", mx_init());
	must("mx_job_info", mx_job_info(&t->rank, &t->size));
	if (t->size < 2)
		bench_fail("--together: a job of one process; start one on each host, see "
			   "tagwire-launch(7)");
	if (t->size > LAST_ID + 1)
		bench_fail("--together: more than %u ranks", LAST_ID + 1);
	snprintf(role, sizeof role, " (rank %" PRIu32 ")", t->rank);
	bench_role = t->rank ? role : "";
	t->ranks = calloc(t->size, sizeof *t->ranks);
	if (!t->ranks)
		bench_fail("no memory");
	meet_all(t);
	if (t->rank)
		come(t);
	else
		await_others(t);
}

static uint64_t own_job(const struct why_facts *f)
{
	for (unsigned i = 0; i < f->scan.n; i++)
		if (f->scan.entries[i]->pid == getpid())
			return f->scan.entries[i]->stats.job;
	return 0;
}

void together_leave_out(const struct together *t, struct why_facts *f)
{
	uint64_t *where = calloc(t->size, sizeof *where);

	if (!where)
		bench_fail("no memory");
	for (uint32_t i = 0; i < t->size; i++)
		where[i] = t->ranks[i].where;
	why_leave_out(f, own_job(f), where, t->size);
	free(where);
}

static void add_nics(struct why_host *h)
{
	uint64_t nic;

	for (uint32_t i = 0; i < WHY_NICS && mx_board_number_to_nic_id(i, &nic) == MX_SUCCESS; i++)
		h->nics[h->nnics++] = nic;
}

bool together_end(struct together *t, struct why_facts *f)
{
	struct together_rank *own = &t->ranks[0];

	add_nics(&f->hosts[0]);
	if (t->rank) {
		send_facts(t, f);
	} else {
		own->state = TOGETHER_SEEN;
		own->seen = 0;
		memcpy(own->host, f->hosts[0].name, sizeof own->host);
		gather(t, f);
		why_drop_ranks(f);
		for (uint32_t i = 1; i < t->size; i++)
			name_rank(&t->ranks[i]);
	}
	mx_close_endpoint(t->endpoint);
	mx_finalize();
	return t->rank == 0;
}
