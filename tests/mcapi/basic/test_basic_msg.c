/* SPDX-License-Identifier: BSD-2-Clause */
/* MCAPI 4.3: messages within a node, between threads and between processes. */
#include "mcapi/basic/basic.h"

TestSuite(mcapi_basic_msg, .init = mcb_job, .timeout = MCB_TIMEOUT);

static const uint32_t sizes[] = {0,    1,    8,	    64,	   65,	    1000,    1025,
				 8192, 8193, 16384, 65536, 1000003, 4 << 20, 16 << 20};
enum { SIZES = sizeof(sizes) / sizeof(*sizes) };

Test(mcapi_basic_msg, refusals)
{
	mcapi_endpoint_t e, f;
	mcapi_request_t r;
	size_t size;
	char buf[8];

	mcb_st(MCAPI_ENOT_ENDP, mcapi_msg_send(1, 2, "a", 1, 0, &st));
	mcb_init(1);
	e = mcb_endpoint(1);
	f = mcb_endpoint(2);
	mcb_st(MCAPI_ENOT_ENDP, mcapi_msg_send(99, f, "a", 1, 0, &st));
	mcb_st(MCAPI_ENOT_ENDP, mcapi_msg_send(e, 0xffff0001, "a", 1, 0, &st));
	mcb_st(MCAPI_EPRIO, mcapi_msg_send(e, f, "a", 1, MCAPI_MAX_NO_PRIORITIES, &st));
	mcb_st(MCAPI_EMESS_LIMIT,
	       mcapi_msg_send(e, f, buf, (size_t)MCAPI_MAX_MESSAGE_SIZE + 1, 0, &st));
	mcb_st(MCAPI_EPARAM, mcapi_msg_send(e, f, NULL, 1, 0, &st));
	mcb_st(MCAPI_EPARAM, mcapi_msg_send_i(e, f, buf, 1, 0, NULL, &st));
	mcb_st(MCAPI_EPARAM, mcapi_msg_recv(e, NULL, 1, &size, &st));
	mcb_st(MCAPI_EPARAM, mcapi_msg_recv_i(e, buf, 1, NULL, &st));
	mcb_st(MCAPI_ENOT_ENDP, mcapi_msg_recv_i(99, buf, 1, &r, &st));
	mcb_st(MCAPI_ENOT_ENDP, mcapi_msg_available(99, &st));
	/* To nobody: sent, and lost (3.5.1). */
	mcb_ok(mcapi_msg_send(e, 1 << 16 | 77, "a", 1, 0, &st));
	mcb_ok(mcapi_msg_send(e, 200 << 16 | 77, "a", 1, 0, &st));
	mcb_ok(mcapi_msg_send_i(e, 200 << 16 | 77, "a", 1, 0, &r, &st));
	mcb_eq(mcb_wait(r, MCAPI_SUCCESS), 1);
	mcb_ok(mcapi_msg_send(e, f, "abc", 3, 0, &st));
	mcb_st(MCAPI_ETRUNCATED, mcapi_msg_recv(f, buf, 2, &size, &st));
	mcb_eq(size, 2);
	mcb_ok(mcapi_msg_recv_i(f, buf, 2, &r, &st));
	mcb_ok(mcapi_msg_send(e, f, "abc", 3, 0, &st));
	mcb_eq(mcb_wait(r, MCAPI_ETRUNCATED), 2);
	/* The timeout attribute is for calls that block. */
	mcb_set_attr(f, MCAPI_ATTR_TIMEOUT, 20);
	mcb_st(MCAPI_EREQ_TIMEOUT, mcapi_msg_recv(f, buf, 2, &size, &st));
	mcb_final();
}

/* As many as there are buffers, and one more once one was received. */
static void fill(mcapi_endpoint_t from, mcapi_endpoint_t to, int n)
{
	mcapi_status_t st;
	mcapi_request_t r;

	for (int i = 0; i < n; i++)
		mcb_ok(mcapi_msg_send(from, to, &i, sizeof(i), 0, &st));
	mcb_st(MCAPI_ENO_BUFFER, mcapi_msg_send(from, to, &n, sizeof(n), 0, &st));
	/* The call does not wait for another node's word: then its request tells. */
	mcapi_msg_send_i(from, to, &n, sizeof(n), 0, &r, &st);
	if (st == MCAPI_SUCCESS)
		mcb_wait(r, MCAPI_ENO_BUFFER);
	else
		mcb_eq(st, MCAPI_ENO_BUFFER);
}

static void drain(mcapi_endpoint_t e, int first, int last)
{
	size_t size;
	int got;

	for (int i = first; i < last; i++) {
		mcb_ok(mcapi_msg_recv(e, &got, sizeof(got), &size, &st));
		mcb_eq(got, i);
	}
}

Test(mcapi_basic_msg, no_buffer)
{
	mcapi_endpoint_t e, f;
	int n = 128;

	mcb_init(0);
	e = mcb_endpoint(1);
	f = mcb_endpoint(2);
	fill(e, f, n);
	mcb_ok(mcb_eq(mcapi_msg_available(f, &st), n));
	drain(f, 0, 1);
	mcb_ok(mcapi_msg_send(e, f, &n, sizeof(n), 0, &st));
	drain(f, 1, n + 1);
	mcb_ok(mcb_eq(mcapi_msg_available(f, &st), 0));
	mcb_final();
}

static void receiver(struct mcb_other *o)
{
	mcapi_endpoint_t e = mcb_endpoint(2), small = mcb_endpoint(3);

	mcb_set_attr(small, MCAPI_ATTR_NO_BUFFERS, 3);
	mcb_tell(o->fd);
	mcb_hear(o->fd);
	drain(e, 0, 1);
	drain(small, 0, 1);
	mcb_tell(o->fd);
	drain(e, 1, 128 + 1);
	drain(small, 1, 3);
	mcb_hear(o->fd);
}

static void no_buffer_between(int threaded)
{
	mcapi_endpoint_t e, f, small;
	struct mcb_other o;
	int n = 128;

	mcb_start(&o, threaded, 1, receiver);
	mcb_init(0);
	e = mcb_endpoint(1);
	mcb_hear(o.fd);
	f = mcb_get(1, 2);
	small = mcb_get(1, 3);
	mcb_eq(mcb_attr(small, MCAPI_ATTR_RECV_BUFFERS_AVAILABLE), 3);
	fill(e, f, n);
	fill(e, small, 3);
	mcb_eq(mcb_attr(small, MCAPI_ATTR_RECV_BUFFERS_AVAILABLE), 0);
	mcb_tell(o.fd);
	mcb_hear(o.fd);
	mcb_eq(mcb_attr(small, MCAPI_ATTR_RECV_BUFFERS_AVAILABLE), 1);
	mcb_ok(mcapi_msg_send(e, f, &n, sizeof(n), 0, &st));
	mcb_tell(o.fd);
	mcb_end(&o);
	mcb_final();
}

Test(mcapi_basic_msg, no_buffer_threads)
{
	no_buffer_between(1);
}

Test(mcapi_basic_msg, no_buffer_processes)
{
	no_buffer_between(0);
}

Test(mcapi_basic_msg, priorities)
{
	mcapi_endpoint_t e, f;
	size_t size;

	mcb_init(0);
	e = mcb_endpoint(1);
	f = mcb_endpoint(2);
	for (unsigned i = 0; i < 64; i++)
		mcb_ok(mcapi_msg_send(e, f, &i, sizeof(i), 7 - i % 8, &st));
	for (unsigned i = 0; i < 64; i++) {
		unsigned got;

		mcb_ok(mcapi_msg_recv(f, &got, sizeof(got), &size, &st));
		mcb_eq(got, (7 - i / 8) + i % 8 * 8);
	}
	mcb_final();
}

static void echo(struct mcb_other *o)
{
	mcapi_endpoint_t e = mcb_endpoint(1), to = mcb_get(0, 1);
	char *buf = malloc(16 << 20);
	size_t size;

	(void)o;
	for (int i = 0; i < 3 * SIZES; i++) {
		mcb_ok(mcapi_msg_recv(e, buf, 16 << 20, &size, &st));
		mcb_ok(mcapi_msg_send(e, to, buf, size, 1, &st));
	}
	free(buf);
}

static void there_and_back(int threaded)
{
	char *out = malloc(16 << 20), *in = malloc(16 << 20);
	mcapi_endpoint_t e, to;
	struct mcb_other o;
	mcapi_request_t s, r;
	size_t size;

	mcb_start(&o, threaded, 1, echo);
	mcb_init(0);
	e = mcb_endpoint(1);
	to = mcb_get(1, 1);
	for (int i = 0; i < 3 * SIZES; i++) {
		uint32_t len = sizes[i / 3];

		twt_fill(out, len, (uint64_t)i);
		memset(in, 0, len);
		if (i % 3 == 0) {
			mcb_ok(mcapi_msg_send(e, to, out, len, 0, &st));
			mcb_ok(mcapi_msg_recv(e, in, 16 << 20, &size, &st));
		} else {
			if (i % 3 == 1)
				mcb_ok(mcapi_msg_recv_i(e, in, 16 << 20, &r, &st));
			mcb_ok(mcapi_msg_send_i(e, to, out, len, 2, &s, &st));
			if (i % 3 == 2)
				mcb_ok(mcapi_msg_recv_i(e, in, len, &r, &st));
			mcb_eq(mcb_wait(s, MCAPI_SUCCESS), len);
			size = mcb_wait(r, MCAPI_SUCCESS);
		}
		mcb_eq(size, len);
		mcb_eq(twt_check(in, len, (uint64_t)i), len);
	}
	mcb_end(&o);
	mcb_final();
	free(out);
	free(in);
}

Test(mcapi_basic_msg, threads)
{
	there_and_back(1);
}

Test(mcapi_basic_msg, processes)
{
	there_and_back(0);
}

Test(mcapi_basic_msg, oneself)
{
	char *out = malloc(16 << 20), *in = malloc(16 << 20);
	mcapi_endpoint_t e;
	size_t size;

	mcb_init(0);
	e = mcb_endpoint(1);
	for (int i = 0; i < SIZES; i++) {
		twt_fill(out, sizes[i], 1);
		mcb_ok(mcapi_msg_send(e, e, out, sizes[i], 0, &st));
		mcb_ok(mcapi_msg_recv(e, in, sizes[i], &size, &st));
		mcb_eq(size, sizes[i]);
		mcb_eq(twt_check(in, sizes[i], 1), sizes[i]);
	}
	mcb_final();
	free(out);
	free(in);
}

Test(mcapi_basic_msg, wait_any_and_cancel)
{
	mcapi_endpoint_t e, f;
	mcapi_request_t r[4], *list[4];
	size_t size;
	int got[4];

	mcb_init(0);
	e = mcb_endpoint(1);
	f = mcb_endpoint(2);
	for (int i = 0; i < 4; i++) {
		mcb_ok(mcapi_msg_recv_i(f, &got[i], sizeof(got[i]), &r[i], &st));
		list[i] = &r[i];
	}
	mcb_st(MCAPI_EREQ_TIMEOUT, mcapi_wait_any(4, list, &size, &st, 10));
	mcb_st(MCAPI_EPARAM, mcapi_wait_any(0, list, &size, &st, 0));
	mcb_st(MCAPI_EPARAM, mcapi_wait_any(1, NULL, &size, &st, 0));
	mcb_ok(mcapi_msg_send(e, f, "1234", 4, 0, &st));
	mcb_ok(mcb_eq(mcapi_wait_any(4, list, &size, &st, MCB_LONG), 0));
	mcb_eq(size, 4);
	mcb_ok(mcapi_cancel(&r[2], &st));
	mcb_st(MCAPI_EREQ_CANCELED, mcb_eq(mcapi_wait_any(3, list + 1, &size, &st, MCB_LONG), 1));
	mcb_ok(mcapi_msg_send(e, f, "1234", 4, 0, &st));
	mcb_ok(mcapi_msg_send(e, f, "5678", 4, 0, &st));
	mcb_wait(r[1], MCAPI_SUCCESS);
	mcb_wait(r[3], MCAPI_SUCCESS);
	mcb_check(memcmp(&got[3], "5678", 4) == 0);
	/* Deleting the endpoint ends what waits there. */
	mcb_ok(mcapi_msg_recv_i(f, &got[0], 4, &r[0], &st));
	mcb_ok(mcapi_delete_endpoint(f, &st));
	mcb_wait(r[0], MCAPI_ENOT_ENDP);
	mcb_final();
}
