/* SPDX-License-Identifier: BSD-2-Clause */
/* The half of stress.h that moves messages: endpoints, buffers, lanes. */
#include "stress/stress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD 16
#define GUARD_BYTE 0xa5

uint32_t st_size(uint64_t *rng, uint32_t most)
{
	static const uint32_t edge[] = {4096, 32768, 65536};
	uint64_t r = twt_random(rng), at = r % 100;
	uint64_t len;

	r >>= 8;
	if (at < 50)
		len = r % 130;
	else if (at < 68)
		len = 38 + r % 28;
	else if (at < 84)
		len = edge[r % 3] - 1 + (r >> 4) % 3;
	else if (at < 96)
		len = r % 40000;
	else
		len = (65536ull << (r % 9)) - 1 + (r >> 4) % 3;
	return len > most ? most - (uint32_t)(r % 2) : (uint32_t)len;
}

void st_buf_make(struct st_buf *b, uint32_t len, unsigned pieces, uint64_t *rng)
{
	uint32_t left = len;
	size_t at = GUARD + twt_random(rng) % 64;

	b->len = len;
	b->nseg = pieces;
	b->size = at + len + (size_t)pieces * GUARD;
	b->mem = malloc(b->size);
	b->seg = malloc(pieces * sizeof(*b->seg));
	if (!b->mem || !b->seg)
		st_fail("no memory for a message of %u bytes", len);
	memset(b->mem, GUARD_BYTE, at);
	for (unsigned i = 0; i < pieces; i++) {
		uint32_t n = i + 1 < pieces ? (uint32_t)(twt_random(rng) % (left + 1ull)) : left;

		/* Ragged, and often none at all. */
		if (i + 1 < pieces && pieces > 2)
			n = n / (pieces / 2);
		b->seg[i].segment_ptr = n || twt_random(rng) % 2 ? b->mem + at : NULL;
		b->seg[i].segment_length = n;
		memset(b->mem + at + n, GUARD_BYTE, GUARD);
		at += n + GUARD;
		left -= n;
	}
}

/* Moves between the pieces and one block, either way. */
static void buf_copy(const struct st_buf *b, uint8_t *block, size_t len, int out)
{
	for (uint32_t i = 0; i < b->nseg && len; i++) {
		size_t n = b->seg[i].segment_length < len ? b->seg[i].segment_length : len;

		if (n && out)
			memcpy(block, b->seg[i].segment_ptr, n);
		else if (n)
			memcpy(b->seg[i].segment_ptr, block, n);
		block += n;
		len -= n;
	}
}

void st_buf_fill(struct st_buf *b, uint64_t seed)
{
	uint8_t *block = malloc(b->len + 1ul);

	if (!block)
		st_fail("no memory to fill a message");
	twt_fill(block, b->len, seed);
	buf_copy(b, block, b->len, 0);
	free(block);
}

size_t st_buf_check(const struct st_buf *b, size_t len, uint64_t seed)
{
	uint8_t *block;
	size_t at;

	if (b->nseg == 1)
		return twt_check(b->seg[0].segment_ptr, len, seed);
	block = malloc(len + 1);
	if (!block)
		st_fail("no memory to check a message");
	buf_copy(b, block, len, 1);
	at = twt_check(block, len, seed);
	free(block);
	return at;
}

int st_buf_guarded(const struct st_buf *b)
{
	size_t at = 0;

	for (uint32_t i = 0; i <= b->nseg; i++) {
		const uint8_t *next = b->mem + b->size;

		while (i < b->nseg && !b->seg[i].segment_length)
			i++;
		if (i < b->nseg)
			next = b->seg[i].segment_ptr;
		for (; b->mem + at < next; at++)
			if (b->mem[at] != GUARD_BYTE)
				return 0;
		if (i < b->nseg)
			at += b->seg[i].segment_length;
	}
	return 1;
}

void st_buf_free(struct st_buf *b)
{
	free(b->mem);
	free(b->seg);
}

void st_up(void)
{
	mx_set_error_handler(MX_ERRORS_RETURN);
	st_ok(mx_init());
}

mx_endpoint_t st_open(uint32_t id, mx_param_t *params, uint32_t nparams)
{
	double end = twt_now() + ST_SOON;
	mx_endpoint_t ep = NULL;
	mx_return_t rc;

	while ((rc = mx_open_endpoint(twt_board, id, ST_KEY, params, nparams, &ep)) == MX_BUSY &&
	       twt_now() < end)
		st_sleep(0.002);
	if (rc != MX_SUCCESS)
		st_fail("opening endpoint %u: %s", id, mx_strerror(rc));
	st_check(ep != NULL);
	return ep;
}

mx_endpoint_addr_t st_self(mx_endpoint_t ep)
{
	mx_endpoint_addr_t addr;

	memset(&addr, 0, sizeof(addr));
	st_ok(mx_get_endpoint_addr(ep, &addr));
	return addr;
}

struct st_name st_whose(mx_endpoint_addr_t addr)
{
	struct st_name name = {0, 0, 0};

	st_ok(mx_decompose_endpoint_addr(addr, &name.nic, &name.id));
	return name;
}

int st_same(struct st_name a, struct st_name b)
{
	return a.nic == b.nic && a.id == b.id;
}

mx_endpoint_addr_t st_connect(mx_endpoint_t ep, struct st_name to)
{
	mx_endpoint_addr_t addr;
	double at = twt_now();

	memset(&addr, 0, sizeof(addr));
	st_ok(mx_connect(ep, to.nic, to.id, ST_KEY, (uint32_t)(ST_LONG / 2), &addr));
	/* Far too long, and yet shorter than any timeout inside the library. */
	if (twt_now() > at + 8 * ST_SOON)
		st_fail("mx_connect to endpoint %u took %.1f s", to.id, twt_now() - at);
	return addr;
}

mx_request_t st_isend(mx_endpoint_t ep, const void *buf, size_t len, mx_endpoint_addr_t to,
		      uint64_t match)
{
	mx_segment_t seg = {(void *)(uintptr_t)buf, (uint32_t)len};
	mx_request_t req = NULL;

	st_ok(mx_isend(ep, &seg, 1, to, match, NULL, &req));
	return req;
}

mx_request_t st_issend(mx_endpoint_t ep, const void *buf, size_t len, mx_endpoint_addr_t to,
		       uint64_t match)
{
	mx_segment_t seg = {(void *)(uintptr_t)buf, (uint32_t)len};
	mx_request_t req = NULL;

	st_ok(mx_issend(ep, &seg, 1, to, match, NULL, &req));
	return req;
}

mx_request_t st_irecv(mx_endpoint_t ep, void *buf, size_t len, uint64_t match)
{
	mx_segment_t seg = {buf, (uint32_t)len};
	mx_request_t req = NULL;

	st_ok(mx_irecv(ep, &seg, 1, match, ST_ALL, NULL, &req));
	return req;
}

int st_poll(mx_endpoint_t ep, mx_request_t *req, double seconds, mx_status_t *status)
{
	double end = twt_now() + seconds;
	uint32_t result = 0;
	unsigned idle = 0;

	for (;;) {
		int late = twt_now() > end;

		st_ok(mx_test(ep, req, status, &result));
		if (result || late)
			return !!result;
		st_idle(&idle);
	}
}

mx_status_t st_finish(mx_endpoint_t ep, mx_request_t *req)
{
	mx_status_t status;
	uint32_t result = 0;

	st_ok(mx_wait(ep, req, (uint32_t)(ST_LONG * 1000 / 2), &status, &result));
	if (!result)
		st_fail("a request is not complete after %.0f s", ST_LONG / 2);
	if (status.code != MX_STATUS_SUCCESS)
		st_fail("a request ended with %s", mx_strstatus(status.code));
	return status;
}

int st_gone(mx_status_code_t code)
{
	return code == MX_STATUS_ENDPOINT_CLOSED || code == MX_STATUS_ENDPOINT_UNREACHABLE ||
	       code == MX_STATUS_BAD_SESSION;
}

struct st_op *st_op_new(uint32_t len, uint64_t *rng)
{
	struct st_op *op = calloc(1, sizeof(*op));
	uint64_t r = twt_random(rng);

	st_check(op != NULL);
	st_buf_make(&op->buf, len, r % 4 ? 1 : r / 4 % 97 ? 2 + r / 512 % 7 : MX_MAX_SEGMENTS, rng);
	return op;
}

void st_op_free(struct st_op *op)
{
	st_buf_free(&op->buf);
	free(op);
}

void st_op_send(struct st_op *op, enum st_kind kind, mx_endpoint_t ep, mx_endpoint_addr_t to)
{
	if (kind == ST_ISSEND)
		st_ok(mx_issend(ep, op->buf.seg, op->buf.nseg, to, op->match, op, &op->req));
	else
		st_ok(mx_isend(ep, op->buf.seg, op->buf.nseg, to, op->match, op, &op->req));
}

void st_op_recv(struct st_op *op, mx_endpoint_t ep, uint64_t key, uint64_t mask)
{
	st_ok(mx_irecv(ep, op->buf.seg, op->buf.nseg, key, mask, op, &op->req));
}

void st_op_scribble(struct st_op *op)
{
	for (uint32_t i = 0; i < op->buf.nseg; i++)
		if (op->buf.seg[i].segment_length)
			memset(op->buf.seg[i].segment_ptr, 0xdd, op->buf.seg[i].segment_length);
	op->scribbled = 1;
}

void st_lane_make(struct st_lane *l, enum st_kind kind, mx_endpoint_t ep, mx_endpoint_addr_t to,
		  uint64_t match, uint32_t max)
{
	memset(l, 0, sizeof(*l));
	l->kind = kind;
	l->ep = ep;
	l->to = to;
	l->match = match;
	l->max = max;
	l->code = MX_STATUS_SUCCESS;
	l->buf = malloc(max + 1ul);
	if (!l->buf)
		st_fail("no memory for a lane");
}

uint32_t st_lane_len(const struct st_lane *l, uint64_t seq)
{
	uint64_t r = st_hash(l->match, seq);

	/* Long lanes are long throughout. */
	return l->max > 65536 ? l->max / 2 + (uint32_t)(r % (l->max / 2 + 1))
			      : (uint32_t)(r % (l->max + 1ull));
}

static uint64_t lane_pattern(const struct st_lane *l)
{
	return st_hash(l->match ^ st_seed << 40, l->seq * 2 + 1);
}

static void lane_post(struct st_lane *l)
{
	uint32_t len = st_lane_len(l, l->seq);
	mx_segment_t seg = {l->buf, l->kind == ST_IRECV ? l->max : len};

	if (l->kind == ST_IRECV) {
		st_ok(mx_irecv(l->ep, &seg, 1, l->match, ST_ALL, l, &l->req));
	} else {
		twt_fill(l->buf, len, lane_pattern(l));
		/* A synchronous one now and then, so that no end gets far ahead. */
		if (l->kind == ST_ISEND && l->seq % 16 != 15)
			st_ok(mx_isend(l->ep, &seg, 1, l->to, l->match, l, &l->req));
		else
			st_ok(mx_issend(l->ep, &seg, 1, l->to, l->match, l, &l->req));
	}
	l->busy = 1;
}

void st_lane_take(struct st_lane *l, const mx_status_t *s)
{
	uint32_t len = st_lane_len(l, l->seq);
	size_t at;

	l->busy = 0;
	if (s->context != l)
		st_fail("lane %#llx: the context is not the one given",
			(unsigned long long)l->match);
	if (s->code != MX_STATUS_SUCCESS) {
		l->code = s->code;
		if (!l->mortal ||
		    !(st_gone(s->code) || (l->mortal == ST_ABORTS && s->code == MX_STATUS_ABORTED)))
			st_fail("lane %#llx, message %llu: %s", (unsigned long long)l->match,
				(unsigned long long)l->seq, mx_strstatus(s->code));
		return;
	}
	if (s->match_info != l->match || s->msg_length != len || s->xfer_length != len)
		st_fail("lane %#llx, message %llu of %u bytes: the status says match %#llx, %u "
			"bytes "
			"sent, %u delivered",
			(unsigned long long)l->match, (unsigned long long)l->seq, len,
			(unsigned long long)s->match_info, s->msg_length, s->xfer_length);
	if (l->kind == ST_IRECV && (at = twt_check(l->buf, len, lane_pattern(l))) != len)
		st_fail("lane %#llx, message %llu: byte %zu of %u is wrong",
			(unsigned long long)l->match, (unsigned long long)l->seq, at, len);
	l->seq++;
}

int st_lane_step(struct st_lane *l, int more)
{
	mx_status_t status;
	uint32_t result = 0;

	if (!l->busy && more && l->code == MX_STATUS_SUCCESS)
		lane_post(l);
	if (!l->busy)
		return 0;
	st_ok(mx_test(l->ep, &l->req, &status, &result));
	if (!result)
		return 0;
	st_lane_take(l, &status);
	return l->code == MX_STATUS_SUCCESS;
}

void st_lane_free(struct st_lane *l)
{
	free(l->buf);
	l->buf = NULL;
}

void st_streams_make(struct st_streams *s, mx_endpoint_t ep, mx_endpoint_addr_t to, uint64_t base,
		     int side, int mortal)
{
	static const struct {
		enum st_kind kind;
		uint32_t max;
	} plan[ST_STREAMS / 2] = {{ST_ISEND, 64},
				  {ST_ISEND, 5000},
				  {ST_ISEND, 300000},
				  {ST_ISSEND, 2000},
				  {ST_ISSEND, 1 << 20}};

	for (int i = 0; i < ST_STREAMS; i++) {
		int dir = i / (ST_STREAMS / 2), k = i % (ST_STREAMS / 2);

		st_lane_make(&s->lane[i], dir == side ? plan[k].kind : ST_IRECV, ep, to,
			     base | (uint64_t)i, plan[k].max);
		s->lane[i].mortal = mortal;
	}
}

int st_streams_step(struct st_streams *s, int more)
{
	int moved = 0;

	for (int i = 0; i < ST_STREAMS; i++)
		moved += st_lane_step(&s->lane[i], more || s->lane[i].kind == ST_IRECV);
	return moved;
}

int st_streams_sending(const struct st_streams *s)
{
	int n = 0;

	for (int i = 0; i < ST_STREAMS; i++)
		n += s->lane[i].busy && s->lane[i].kind != ST_IRECV;
	return n;
}

void st_streams_cancel(struct st_streams *s, double deadline)
{
	for (int i = 0; i < ST_STREAMS; i++) {
		struct st_lane *l = &s->lane[i];
		uint32_t result = 77;
		mx_status_t status;

		if (!l->busy || l->kind != ST_IRECV)
			continue;
		st_ok(mx_cancel(l->ep, &l->req, &result));
		if (!result) {
			double left = deadline - twt_now();

			if (!st_poll(l->ep, &l->req, left > 0 ? left : 0, &status))
				st_fail("lane %#llx: the receive cannot be cancelled, and does not "
					"complete in time",
					(unsigned long long)l->match);
			st_lane_take(l, &status);
		}
		l->busy = 0;
	}
}

void st_streams_part(struct st_streams *s, atomic_int *parted)
{
	unsigned idle = 0;

	while (st_streams_step(s, 0) || st_streams_sending(s))
		st_idle(&idle);
	atomic_fetch_add(parted, 1);
	while (atomic_load(parted) < 2)
		if (!st_streams_step(s, 0))
			st_idle(&idle);
	st_streams_cancel(s, twt_now() + ST_SOON);
	st_streams_free(s);
}

void st_streams_free(struct st_streams *s)
{
	for (int i = 0; i < ST_STREAMS; i++)
		st_lane_free(&s->lane[i]);
}

int st_bystander(int fd, const char *role, uint64_t base, atomic_int *over, atomic_int *parted)
{
	struct st_streams streams;
	struct st_name name;
	mx_endpoint_t ep;
	unsigned idle = 0;
	char c;

	st_role("%s", role);
	st_up();
	ep = st_open(2, NULL, 0);
	name = st_whose(st_self(ep));
	st_put(fd, &name, sizeof(name));
	st_get(fd, &name, sizeof(name));
	st_streams_make(&streams, ep, st_connect(ep, name), base, 1, 0);
	while (!atomic_load(over)) {
		st_at(0);
		if (st_streams_step(&streams, 1))
			idle = 0;
		else
			st_idle(&idle);
	}
	st_streams_part(&streams, parted);
	st_get(fd, &c, 1);
	st_ok(mx_close_endpoint(ep));
	st_ok(mx_finalize());
	return 0;
}
