/* SPDX-License-Identifier: BSD-2-Clause */
/* VII Probing. */
#include <stdlib.h>

#include "mx/mxt.h"

TestSuite(mx_probe, .init = mxt_job, .timeout = MXT_TIMEOUT);

static void nothing(mx_endpoint_t ep, uint64_t match, uint64_t mask)
{
	mx_status_t st, untouched;
	uint32_t result = 77;

	memset(&st, 0xa5, sizeof(st));
	untouched = st;
	mxt_ok(mx_iprobe(ep, match, mask, &st, &result));
	mxt_eq(result, 0);
	result = 77;
	mxt_ok(mx_probe(ep, 20, match, mask, &st, &result));
	mxt_eq(result, 0);
	mxt_check(memcmp(&st, &untouched, sizeof(st)) == 0);
}

Test(mx_probe, nothing_there, .timeout = MXT_TIMEOUT)
{
	mx_endpoint_t ep;

	mxt_up();
	ep = mxt_open(MX_ANY_ENDPOINT);
	nothing(ep, 0, 0);
	nothing(ep, 5, MXT_ALL);
	mxt_close(ep);
	mxt_down();
}

/* Of every size: seen as often as one looks, until it is received. */
static void sizes_seen(int self)
{
	static const uint32_t lens[] = {0, 1, 64, 5000, 32768, 100000, 1 << 20};
	char *out = calloc(1, 1 << 20), *in;
	uint32_t result;
	struct mxt_pair p;
	mx_status_t st;

	mxt_up();
	mxt_pair(&p);
	if (self)
		mxt_ok(mx_get_endpoint_addr(p.b, &p.ab));
	for (int i = 0; i < 7; i++) {
		mx_endpoint_t from = self ? p.b : p.a;
		mx_request_t s = mxt_issend(from, out, lens[i], p.ab, 0x42), r;

		st = mxt_probe(p.b, 0x42);
		for (int k = 0; k < 3; k++) {
			mxt_eq(st.match_info, 0x42);
			mxt_eq(st.msg_length, lens[i]);
			mxt_check(mxt_same_name(mxt_whose(st.source), mxt_name(from)));
			result = 77;
			memset(&st, 0, sizeof(st));
			mxt_ok(mx_iprobe(p.b, 2, 0xf, &st, &result));
			mxt_check(result && result != 77);
		}
		nothing(p.b, 0x43, MXT_ALL);
		nothing(p.b, 0x20, 0x30);
		mxt_pending(from, &s);
		/* VII.1.1: room for exactly this message. */
		in = malloc(st.msg_length + 1);
		r = mxt_irecv(p.b, in, st.msg_length, st.match_info);
		mxt_eq(mxt_wait(p.b, &r, MX_STATUS_SUCCESS).xfer_length, lens[i]);
		mxt_wait(from, &s, MX_STATUS_SUCCESS);
		free(in);
		nothing(p.b, 0, 0);
	}
	free(out);
	mxt_pair_end(&p);
	mxt_down();
}

Test(mx_probe, sizes, .timeout = MXT_TIMEOUT)
{
	sizes_seen(0);
}

Test(mx_probe, sizes_to_self, .timeout = MXT_TIMEOUT)
{
	sizes_seen(1);
}

/* A message whose receive is posted is not for others to see. */
Test(mx_probe, not_what_has_a_receive, .timeout = MXT_TIMEOUT)
{
	struct mxt_pair p;
	mx_request_t r, s;

	mxt_up();
	mxt_pair(&p);
	r = mxt_irecv(p.b, NULL, 0, 1);
	s = mxt_isend(p.a, NULL, 0, p.ab, 1);
	mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	s = mxt_isend(p.a, NULL, 0, p.ab, 2);
	mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	/* The second has arrived, so the first has been matched. */
	mxt_probe(p.b, 2);
	nothing(p.b, 1, MXT_ALL);
	mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
	mxt_pair_end(&p);
	mxt_down();
}

/* The message found is the one that a receive would get. */
Test(mx_probe, the_oldest, .timeout = MXT_TIMEOUT)
{
	enum { N = 50 };
	struct mxt_pair p;
	mx_request_t r, s;
	uint32_t result;
	mx_status_t st;

	mxt_up();
	mxt_pair(&p);
	for (uint64_t i = 0; i < N; i++) {
		s = mxt_isend(p.a, NULL, 0, p.ab, i << 4 | i % 3);
		mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	}
	mxt_probe(p.b, (N - 1) << 4 | (N - 1) % 3);
	for (uint64_t kind = 0; kind < 3; kind++)
		for (uint64_t i = kind; i < N; i += 3) {
			result = 77;
			mxt_ok(mx_iprobe(p.b, kind, 0xf, &st, &result));
			mxt_check(result && result != 77);
			mxt_eq(st.match_info, i << 4 | kind);
			mxt_ok(mx_irecv(p.b, NULL, 0, kind, 0xf, NULL, &r));
			mxt_eq(mxt_wait(p.b, &r, MX_STATUS_SUCCESS).match_info, st.match_info);
		}
	nothing(p.b, 0, 0);
	mxt_pair_end(&p);
	mxt_down();
}

Test(mx_probe, arguments, .timeout = MXT_TIMEOUT)
{
	uint32_t result = 77;
	struct mxt_pair p;
	mx_request_t s;
	mx_status_t st;

	mxt_up();
	mxt_pair(&p);
	mxt_rc(MX_FAILURE, mx_iprobe(p.b, 0, 0, &st, NULL));
	mxt_rc(MX_FAILURE, mx_probe(p.b, 10, 0, 0, &st, NULL));
	mxt_rc(MX_BAD_MATCH_MASK, mx_iprobe(p.b, 1, 0, &st, &result));
	mxt_rc(MX_BAD_MATCH_MASK, mx_probe(p.b, 10, 3, 1, &st, &result));
	mxt_rc(MX_BAD_MATCH_MASK, mx_probe(p.b, MX_INFINITE, MXT_ALL, 1, &st, &result));
	s = mxt_isend(p.a, NULL, 0, p.ab, 1);
	mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	/* The status is not wanted, only whether there is one. */
	result = 77;
	mxt_ok(mx_probe(p.b, MXT_LONG, 1, MXT_ALL, NULL, &result));
	mxt_check(result && result != 77);
	result = 77;
	mxt_ok(mx_iprobe(p.b, 1, MXT_ALL, NULL, &result));
	mxt_check(result && result != 77);
	mxt_pair_end(&p);
	mxt_down();
}

/* Other messages do not end the wait. */
Test(mx_probe, waits_for_the_right_one, .timeout = MXT_TIMEOUT)
{
	struct mxt_block b;
	struct mxt_pair p;
	mx_request_t s;

	mxt_up();
	mxt_pair(&p);
	mxt_block(&b, MXT_PROBE, p.b, NULL, MX_INFINITE);
	mxt_asleep(&b.thread);
	s = mxt_isend(p.a, NULL, 0, p.ab, 1);
	mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	mxt_probe(p.b, 1);
	mxt_asleep(&b.thread);
	s = mxt_isend(p.a, "four", 4, p.ab, MXT_BLOCK_MATCH);
	mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	mxt_join(&b.thread);
	mxt_ok(b.rc);
	mxt_check(b.result);
	mxt_eq(b.status.match_info, MXT_BLOCK_MATCH);
	mxt_eq(b.status.msg_length, 4);
	mxt_check(mxt_same_name(mxt_whose(b.status.source), mxt_name(p.a)));
	mxt_pair_end(&p);
	mxt_down();
}

/* VII.1.2: of several blocked threads one returns with success. */
Test(mx_probe, one_thread_gets_it, .timeout = MXT_TIMEOUT)
{
	enum { THREADS = 4 };
	struct mxt_block b[THREADS];
	struct mxt_pair p;
	mx_request_t s;
	int got = 0;

	mxt_up();
	mxt_pair(&p);
	for (int i = 0; i < THREADS; i++) {
		mxt_block(&b[i], MXT_PROBE, p.b, NULL, 4000);
		mxt_asleep(&b[i].thread);
	}
	s = mxt_isend(p.a, NULL, 0, p.ab, MXT_BLOCK_MATCH);
	mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	for (int i = 0; i < THREADS; i++) {
		mxt_join(&b[i].thread);
		mxt_ok(b[i].rc);
		got += b[i].result != 0;
	}
	mxt_eq(got, 1);
	mxt_pair_end(&p);
	mxt_down();
}

static void send_later(struct mxt_side *s)
{
	mx_request_t req;
	int got = 0;

	mxt_await(s->fd);
	mxt_sleep(200);
	req = mxt_isend(s->ep, "abc", 3, s->peer, 9);
	mxt_wait(s->ep, &req, MX_STATUS_SUCCESS);
	req = mxt_irecv(s->ep, &got, sizeof(got), 10);
	mxt_wait(s->ep, &req, MX_STATUS_SUCCESS);
	mxt_eq(got, 123);
}

/* From another process; the source may be answered before the message is received. */
Test(mx_probe, from_another_process, .timeout = MXT_TIMEOUT)
{
	struct mxt_side s;
	mx_request_t r;
	mx_status_t st;
	char in[3];

	mxt_two(&s, send_later, NULL);
	mxt_signal(s.fd);
	st = mxt_probe(s.ep, 9);
	mxt_eq(st.msg_length, 3);
	mxt_check(mxt_same_name(mxt_whose(st.source), s.other));
	r = mxt_isend(s.ep, &(int){123}, sizeof(int), st.source, 10);
	mxt_wait(s.ep, &r, MX_STATUS_SUCCESS);
	r = mxt_irecv(s.ep, in, 3, 9);
	mxt_wait(s.ep, &r, MX_STATUS_SUCCESS);
	mxt_check(memcmp(in, "abc", 3) == 0);
	mxt_two_end(&s);
}
