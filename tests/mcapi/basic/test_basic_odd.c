/* SPDX-License-Identifier: BSD-2-Clause */
/* Odd surroundings: no descriptors, no service thread, forked children, threads that are no node.
 */
#include <sys/resource.h>
#include <sys/wait.h>

#include "mcapi/basic/basic.h"

TestSuite(mcapi_basic_odd, .init = mcb_job, .timeout = MCB_TIMEOUT);

enum { SCALARS = 20000 };

static void send_scalars(struct mcb_other *o)
{
	mcapi_endpoint_t a = mcb_endpoint(1);
	mcapi_request_t r;
	uint32_t h;

	mcb_connect_scl(a, mcb_get(0, 1));
	mcb_ok(mcapi_open_sclchan_send_i(&h, a, &r, &st));
	mcb_wait(r, MCAPI_SUCCESS);
	for (uint64_t i = 0; i < SCALARS; i++) {
		mcb_ok(mcapi_sclchan_send_uint64(h, i, &st));
		mcb_ok(mcapi_sclchan_send_uint8(h, (uint8_t)i, &st));
	}
	mcb_ok(mcapi_sclchan_send_close_i(h, &r, &st));
	mcb_hear(o->fd);
}

/* A receiver that has no descriptor left for a ring gets scalars as messages. */
static void by_message(int threaded)
{
	struct rlimit none = {0, 0}, before;
	struct mcb_other o;
	mcapi_endpoint_t b;
	mcapi_request_t r;
	uint32_t h;

	mcb_start(&o, threaded, 1, send_scalars);
	mcb_init(0);
	b = mcb_endpoint(1);
	mcb_get(1, 1);
	getrlimit(RLIMIT_NOFILE, &before);
	none.rlim_max = before.rlim_max;
	setrlimit(RLIMIT_NOFILE, &none);
	mcapi_open_sclchan_recv_i(&h, b, &r, &(mcapi_status_t){0});
	setrlimit(RLIMIT_NOFILE, &before);
	mcb_wait(r, MCAPI_SUCCESS);
	for (uint64_t i = 0; i < SCALARS; i++) {
		if (i == SCALARS / 2)
			usleep(100000);
		mcb_ok(mcb_eq(mcapi_sclchan_recv_uint64(h, &st), i));
		mcb_st(MCAPI_ESCL_SIZE, mcapi_sclchan_recv_uint64(h, &st));
		mcb_ok(mcb_eq(mcapi_sclchan_recv_uint8(h, &st), (uint8_t)i));
	}
	mcb_st(MCAPI_ENOT_HANDLE, mcapi_sclchan_recv_uint8(h, &st));
	mcb_ok(mcapi_sclchan_recv_close_i(h, &r, &st));
	mcb_tell(o.fd);
	mcb_end(&o);
	mcb_final();
}

Test(mcapi_basic_odd, scalars_by_message_processes)
{
	by_message(0);
}

Test(mcapi_basic_odd, scalars_by_message_threads)
{
	by_message(1);
}

/* Both ends call, nobody else does. */
static void without_service(const char *setting, const char *value)
{
	struct mcb_other o;
	mcapi_endpoint_t a;
	mcapi_request_t r;
	size_t size;
	uint32_t h;
	void *p;

	setenv(setting, value, 1);
	mcb_start(&o, 0, 1, send_scalars);
	mcb_init(0);
	a = mcb_endpoint(1);
	mcapi_open_sclchan_recv_i(&h, a, &r, &(mcapi_status_t){0});
	mcb_wait(r, MCAPI_SUCCESS);
	for (uint64_t i = 0; i < SCALARS; i++) {
		mcb_ok(mcb_eq(mcapi_sclchan_recv_uint64(h, &st), i));
		mcb_ok(mcb_eq(mcapi_sclchan_recv_uint8(h, &st), (uint8_t)i));
	}
	mcb_tell(o.fd);
	mcb_end(&o);
	(void)size;
	(void)p;
	mcb_final();
}

Test(mcapi_basic_odd, no_service_thread)
{
	without_service("TAGWIRE_SERVICE", "0");
}

Test(mcapi_basic_odd, single_threaded)
{
	without_service("TAGWIRE_SINGLE_THREADED", "1");
}

Test(mcapi_basic_odd, forked_child)
{
	struct mcb_chan c, s;
	mcapi_request_t r;
	size_t size;
	pid_t pid;
	int end;

	mcb_init(0);
	mcb_pkt(&c);
	mcb_scl(&s);
	mcb_ok(mcapi_sclchan_send_uint8(s.send, 1, &st));
	pid = fork();
	if (pid == 0) {
		/* It inherits nothing, and may begin anew. */
		mcb_st(MCAPI_ENODE_NOTINIT, mcapi_get_node_id(&st));
		mcb_st(MCAPI_ENOT_HANDLE, mcapi_sclchan_send_uint8(s.send, 1, &st));
		mcb_st(MCAPI_ENOT_HANDLE, mcapi_pktchan_send(c.send, "x", 1, &st));
		mcb_st(MCAPI_ENO_FINAL, mcapi_finalize(&st));
		mcb_init(1);
		mcb_ok(mcapi_msg_send(mcb_endpoint(1), mcb_get(0, 9), "hello", 6, 0, &st));
		mcb_final();
		_exit(0);
	}
	mcb_endpoint(9);
	char buf[8];
	mcb_ok(mcapi_msg_recv_i(9, buf, sizeof(buf), &r, &st));
	mcb_eq(mcb_wait(r, MCAPI_SUCCESS), 6);
	mcb_check(waitpid(pid, &end, 0) == pid && end == 0);
	mcb_ok(mcb_eq(mcapi_sclchan_recv_uint8(s.recv, &st), 1));
	mcb_ok(mcapi_pktchan_send(c.send, "x", 1, &st));
	mcb_ok(mcb_eq(mcapi_pktchan_available(c.recv, &st), 1));
	(void)size;
	mcb_final();
}

/* Several threads act for one node, on endpoints and channels of their own. */
static void *helper(void *arg)
{
	struct mcb_chan c;
	size_t size;
	void *p;

	mcb_ok(mcb_eq(mcapi_get_node_id(&st), 4));
	((size_t)arg & 1 ? mcb_pkt : mcb_scl)(&c);
	for (int i = 0; i < 3000; i++) {
		if ((size_t)arg & 1) {
			mcb_ok(mcapi_pktchan_send(c.send, &i, sizeof(i), &st));
			mcb_ok(mcapi_pktchan_recv(c.recv, &p, &size, &st));
			mcb_eq(*(int *)p, i);
			mcb_ok(mcapi_pktchan_free(p, &st));
		} else {
			mcb_ok(mcapi_sclchan_send_uint32(c.send, (uint32_t)i, &st));
			mcb_ok(mcb_eq(mcapi_sclchan_recv_uint32(c.recv, &st), i));
		}
	}
	return NULL;
}

Test(mcapi_basic_odd, helpers)
{
	pthread_t t[6];

	mcb_init(4);
	for (size_t i = 0; i < 6; i++)
		pthread_create(&t[i], NULL, helper, (void *)i);
	for (size_t i = 0; i < 6; i++)
		pthread_join(t[i], NULL);
	mcb_final();
}

/* Packets of every kind, kept by the program while more come. */
Test(mcapi_basic_odd, packets_kept)
{
	enum { N = 100 };
	struct mcb_chan c;
	void *kept[N];
	size_t size;
	char *out = malloc(MCAPI_MAX_PACKET_SIZE);

	mcb_init(0);
	mcb_pkt(&c);
	for (int i = 0; i < N; i++) {
		twt_fill(out, (size_t)i * 1000, (uint64_t)i);
		mcb_ok(mcapi_pktchan_send(c.send, out, (size_t)i * 1000, &st));
		mcb_ok(mcapi_pktchan_recv(c.recv, &kept[i], &size, &st));
		mcb_eq(size, i * 1000);
		/* Programs look at packets as structures. */
		mcb_eq((uintptr_t)kept[i] % 16, 0);
	}
	for (int i = N; i-- > 0;)
		mcb_eq(twt_check(kept[i], (size_t)i * 1000, (uint64_t)i), i * 1000);
	for (int i = 0; i < N; i += 2)
		mcb_ok(mcapi_pktchan_free(kept[i], &st));
	memset(out, 7, MCAPI_MAX_PACKET_SIZE);
	mcb_ok(mcapi_pktchan_send(c.send, out, MCAPI_MAX_PACKET_SIZE, &st));
	mcb_ok(mcapi_pktchan_recv(c.recv, &kept[0], &size, &st));
	mcb_eq(size, MCAPI_MAX_PACKET_SIZE);
	mcb_check(memcmp(out, kept[0], size) == 0);
	/* What is not given back goes with the node. */
	mcb_final();
	mcb_st(MCAPI_ENOT_VALID_BUF, mcapi_pktchan_free(kept[0], &st));
	free(out);
}
