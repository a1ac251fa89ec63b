/* SPDX-License-Identifier: BSD-2-Clause */
/* mx_register_unexp_handler(): messages that match no posted receive. */
#include <stdlib.h>

#include "mx/mxt.h"

TestSuite(mx_unexp, .init = mxt_job, .timeout = MXT_TIMEOUT);

/* What the handler is to do and what it saw; a thread of the library may call it. */
struct seen {
	pthread_mutex_t lock;
	int calls;
	mx_endpoint_addr_t source;
	uint64_t match;
	uint32_t length;
	int has_data;
	char data[64];
	mx_unexp_handler_action_t answer;
	mx_endpoint_t ep;
	mx_return_t rc; /* of a call made inside */
	mx_request_t req;
	int in;
};

static void look(struct seen *s, mx_endpoint_addr_t source, uint64_t match, uint32_t length,
		 void *data)
{
	s->source = source;
	s->match = match;
	s->length = length;
	s->has_data = data != NULL;
	if (data)
		memcpy(s->data, data, length < sizeof(s->data) ? length : sizeof(s->data));
	s->calls++;
}

static mx_unexp_handler_action_t handler(void *context, mx_endpoint_addr_t source, uint64_t match,
					 uint32_t length, void *data)
{
	struct seen *s = context;
	mx_unexp_handler_action_t answer;

	pthread_mutex_lock(&s->lock);
	look(s, source, match, length, data);
	answer = s->answer;
	pthread_mutex_unlock(&s->lock);
	return answer;
}

static int calls(struct seen *s)
{
	int n;

	pthread_mutex_lock(&s->lock);
	n = s->calls;
	pthread_mutex_unlock(&s->lock);
	return n;
}

static void until_called(struct seen *s, mx_endpoint_t ep, int n)
{
	double end = twt_now() + MXT_LONG / 1000.;

	while (calls(s) < n) {
		mxt_check(twt_now() < end);
		mxt_ok(mx_progress(ep));
	}
	mxt_eq(calls(s), n);
}

static void start(struct mxt_pair *p, struct seen *s, mx_unexp_handler_t fn,
		  mx_unexp_handler_action_t answer)
{
	memset(s, 0, sizeof(*s));
	pthread_mutex_init(&s->lock, NULL);
	mxt_up();
	mxt_pair(p);
	s->ep = p->b;
	s->answer = answer;
	mxt_ok(mx_register_unexp_handler(p->b, fn, s));
}

static void none_kept(mx_endpoint_t ep)
{
	uint32_t result = 77;
	mx_status_t st;

	mxt_ok(mx_iprobe(ep, 0, 0, &st, &result));
	mxt_eq(result, 0);
}

Test(mx_unexp, finished_drops, .timeout = MXT_TIMEOUT)
{
	static const uint32_t lens[] = {1, 30, 1000};
	struct mxt_pair p;
	struct seen seen;
	char out[1000];
	mx_request_t s;
	int n = 0;

	start(&p, &seen, handler, MX_RECV_FINISHED);
	twt_fill(out, sizeof(out), 1);
	for (int i = 0; i < 6; i++) {
		uint32_t len = lens[i / 2];

		s = (i & 1 ? mxt_issend : mxt_isend)(p.a, out, len, p.ab, 0x900 + (uint64_t)i);
		until_called(&seen, p.b, ++n);
		/* A synchronous send of a dropped message completes. */
		mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
		mxt_eq(seen.match, 0x900 + i);
		mxt_eq(seen.length, len);
		mxt_check(seen.has_data);
		mxt_check(memcmp(seen.data, out, len < 64 ? len : 64) == 0);
		mxt_check(mxt_same_name(mxt_whose(seen.source), mxt_name(p.a)));
		none_kept(p.b);
	}
	/* Zero bytes have no data to show, but are a message. */
	s = mxt_issend(p.a, NULL, 0, p.ab, 7);
	until_called(&seen, p.b, ++n);
	mxt_eq(seen.length, 0);
	mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	none_kept(p.b);
	mxt_pair_end(&p);
	mxt_down();
}

Test(mx_unexp, continue_keeps, .timeout = MXT_TIMEOUT)
{
	struct mxt_pair p;
	struct seen seen;
	mx_request_t s, r;
	char in[5];

	start(&p, &seen, handler, MX_RECV_CONTINUE);
	s = mxt_issend(p.a, "hello", 5, p.ab, 3);
	until_called(&seen, p.b, 1);
	mxt_eq(mxt_probe(p.b, 3).msg_length, 5);
	mxt_pending(p.a, &s);
	r = mxt_irecv(p.b, in, 5, 3);
	mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
	mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	mxt_check(memcmp(in, "hello", 5) == 0);
	mxt_eq(calls(&seen), 1);
	mxt_pair_end(&p);
	mxt_down();
}

/* A long message is announced only; the handler may drop it all the same. */
Test(mx_unexp, long_messages, .timeout = MXT_TIMEOUT)
{
	enum { LEN = 1 << 20 };
	char *out = malloc(LEN), *in = calloc(1, LEN);
	struct mxt_pair p;
	struct seen seen;
	mx_request_t s, r;

	start(&p, &seen, handler, MX_RECV_FINISHED);
	twt_fill(out, LEN, 2);
	for (int i = 0; i < 4; i++) {
		s = (i & 1 ? mxt_issend : mxt_isend)(p.a, out, LEN, p.ab, 5);
		until_called(&seen, p.b, i + 1);
		mxt_eq(seen.length, LEN);
		mxt_check(!seen.has_data);
		mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
		none_kept(p.b);
	}
	pthread_mutex_lock(&seen.lock);
	seen.answer = MX_RECV_CONTINUE;
	pthread_mutex_unlock(&seen.lock);
	s = mxt_isend(p.a, out, LEN, p.ab, 6);
	until_called(&seen, p.b, 5);
	mxt_eq(mxt_probe(p.b, 6).msg_length, LEN);
	r = mxt_irecv(p.b, in, LEN, 6);
	mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
	mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	mxt_eq(twt_check(in, LEN, 2), LEN);
	free(out);
	free(in);
	mxt_pair_end(&p);
	mxt_down();
}

Test(mx_unexp, not_for_expected_messages, .timeout = MXT_TIMEOUT)
{
	struct mxt_pair p;
	struct seen seen;
	mx_request_t s, r;
	char in[4];

	start(&p, &seen, handler, MX_RECV_FINISHED);
	for (int i = 0; i < 10; i++) {
		r = mxt_irecv(p.b, in, 4, 1);
		s = mxt_isend(p.a, "data", 4, p.ab, 1);
		mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
		mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
	}
	mxt_eq(calls(&seen), 0);
	/* Another receive does not make it expected. */
	r = mxt_irecv(p.b, in, 4, 1);
	s = mxt_issend(p.a, "data", 4, p.ab, 2);
	until_called(&seen, p.b, 1);
	mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	mxt_pending(p.b, &r);
	/* Nor is it called for another endpoint, nor after it was taken away. */
	s = mxt_isend(p.b, "data", 4, p.ba, 3);
	mxt_wait(p.b, &s, MX_STATUS_SUCCESS);
	mxt_probe(p.a, 3);
	mxt_ok(mx_register_unexp_handler(p.b, NULL, NULL));
	s = mxt_isend(p.a, "data", 4, p.ab, 4);
	mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	mxt_probe(p.b, 4);
	mxt_eq(calls(&seen), 1);
	mxt_pair_end(&p);
	mxt_down();
}

Test(mx_unexp, to_self, .timeout = MXT_TIMEOUT)
{
	struct mxt_pair p;
	struct seen seen;
	mx_request_t s;

	start(&p, &seen, handler, MX_RECV_FINISHED);
	s = mxt_issend(p.b, "self", 4, mxt_self(p.b), 8);
	until_called(&seen, p.b, 1);
	mxt_wait(p.b, &s, MX_STATUS_SUCCESS);
	mxt_check(seen.has_data && memcmp(seen.data, "self", 4) == 0);
	mxt_check(mxt_same_name(mxt_whose(seen.source), mxt_name(p.b)));
	mxt_pair_end(&p);
	mxt_down();
}

/* Many messages in order; every third is kept. */
static mx_unexp_handler_action_t choose(void *context, mx_endpoint_addr_t source, uint64_t match,
					uint32_t length, void *data)
{
	struct seen *s = context;

	pthread_mutex_lock(&s->lock);
	mxt_eq(match, s->calls);
	look(s, source, match, length, data);
	pthread_mutex_unlock(&s->lock);
	return match % 3 ? MX_RECV_FINISHED : MX_RECV_CONTINUE;
}

Test(mx_unexp, in_order, .timeout = MXT_TIMEOUT)
{
	enum { N = 600 };
	static const uint32_t lens[] = {4, 100, 50000, 3000, 0};
	char *out = calloc(1, 50000), *in = malloc(50000);
	static mx_request_t req[N];
	struct mxt_pair p;
	struct seen seen;

	start(&p, &seen, choose, MX_RECV_FINISHED);
	for (uint64_t i = 0; i < N; i++)
		req[i] = mxt_isend(p.a, out, lens[i % 5], p.ab, i);
	until_called(&seen, p.b, N);
	for (uint64_t i = 0; i < N; i += 3) {
		mx_segment_t seg = {in, 50000};
		mx_request_t r;
		mx_status_t st;

		mxt_ok(mx_irecv(p.b, &seg, 1, 0, 0, NULL, &r));
		st = mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
		mxt_eq(st.match_info, i);
		mxt_eq(st.xfer_length, lens[i % 5]);
	}
	none_kept(p.b);
	for (int i = 0; i < N; i++)
		mxt_wait(p.a, &req[i], MX_STATUS_SUCCESS);
	free(out);
	free(in);
	mxt_pair_end(&p);
	mxt_down();
}

/* A receive posted inside, and the message kept: it goes there. */
static mx_unexp_handler_action_t post_receive(void *context, mx_endpoint_addr_t source,
					      uint64_t match, uint32_t length, void *data)
{
	struct seen *s = context;
	mx_segment_t seg = {&s->in, sizeof(s->in)};

	pthread_mutex_lock(&s->lock);
	s->rc = mx_irecv(s->ep, &seg, 1, match, MXT_ALL, s, &s->req);
	look(s, source, match, length, data);
	pthread_mutex_unlock(&s->lock);
	return MX_RECV_CONTINUE;
}

Test(mx_unexp, receive_inside, .timeout = MXT_TIMEOUT)
{
	struct mxt_pair p;
	struct seen seen;
	mx_request_t s;

	start(&p, &seen, post_receive, MX_RECV_CONTINUE);
	for (int i = 1; i < 20; i++) {
		s = mxt_issend(p.a, &i, sizeof(i), p.ab, (uint64_t)i);
		until_called(&seen, p.b, i);
		mxt_rc(MX_SUCCESS, seen.rc);
		mxt_check(mxt_wait(p.b, &seen.req, MX_STATUS_SUCCESS).context == &seen);
		mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
		mxt_eq(seen.in, i);
		none_kept(p.b);
	}
	mxt_pair_end(&p);
	mxt_down();
}

/* An answer sent inside, and given up there. */
static mx_unexp_handler_action_t answer(void *context, mx_endpoint_addr_t source, uint64_t match,
					uint32_t length, void *data)
{
	struct seen *s = context;
	/* The data is the library's; the send may still read when it is gone. */
	static int copies[100];
	mx_segment_t seg = {NULL, length};

	pthread_mutex_lock(&s->lock);
	seg.segment_ptr = memcpy(&copies[s->calls], data, sizeof(int));
	s->rc = mx_isend(s->ep, &seg, 1, source, match + 1, NULL, &s->req);
	if (s->rc == MX_SUCCESS)
		s->rc = mx_forget(s->ep, &s->req);
	look(s, source, match, length, data);
	pthread_mutex_unlock(&s->lock);
	return MX_RECV_FINISHED;
}

Test(mx_unexp, send_inside, .timeout = MXT_TIMEOUT)
{
	struct mxt_pair p;
	struct seen seen;
	mx_request_t s, r;

	start(&p, &seen, answer, MX_RECV_FINISHED);
	for (int i = 1; i < 20; i++) {
		int in = -1;

		r = mxt_irecv(p.a, &in, sizeof(in), 11);
		s = mxt_isend(p.a, &i, sizeof(i), p.ab, 10);
		until_called(&seen, p.b, i);
		mxt_rc(MX_SUCCESS, seen.rc);
		mxt_wait(p.a, &r, MX_STATUS_SUCCESS);
		mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
		mxt_eq(in, i);
	}
	mxt_pair_end(&p);
	mxt_down();
}
