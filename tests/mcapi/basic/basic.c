/* SPDX-License-Identifier: BSD-2-Clause */
#include "mcapi/basic/basic.h"

#include <sys/socket.h>

void mcb_job(void)
{
	char job[32];

	snprintf(job, sizeof(job), "mcb%d", (int)getpid());
	setenv("TAGWIRE_JOB", job, 1);
}

void mcb_init(mcapi_node_t node)
{
	mcapi_version_t version = 0;

	mcb_ok(mcapi_initialize(node, &version, &st));
	mcb_eq(version, MCAPI_VERSION);
}

void mcb_final(void)
{
	mcb_ok(mcapi_finalize(&st));
}

mcapi_endpoint_t mcb_endpoint(mcapi_port_t port)
{
	mcapi_endpoint_t e;

	mcb_ok((e = mcapi_create_endpoint(port, &st)));
	return e;
}

mcapi_endpoint_t mcb_get(mcapi_node_t node, mcapi_port_t port)
{
	mcapi_endpoint_t e;

	mcb_ok((e = mcapi_get_endpoint(node, port, &st)));
	return e;
}

size_t mcb_wait(mcapi_request_t request, mcapi_status_t want)
{
	mcapi_boolean_t done;
	size_t size = 0;

	mcb_st(want, (done = mcapi_wait(&request, &size, &st, MCB_LONG)));
	mcb_eq(done, want == MCAPI_SUCCESS);
	return size;
}

void mcb_pending(mcapi_request_t request)
{
	size_t size;

	for (int i = 0; i < 20; i++) {
		mcb_st(MCAPI_INCOMPLETE, mcapi_test(&request, &size, &st));
		usleep(500);
	}
	mcb_st(MCAPI_EREQ_TIMEOUT, mcapi_wait(&request, &size, &st, 0));
}

uint32_t mcb_attr(mcapi_endpoint_t e, mcapi_uint_t number)
{
	uint32_t value = 0;

	mcb_ok(mcapi_get_endpoint_attribute(e, number, &value, sizeof(value), &st));
	return value;
}

void mcb_set_attr(mcapi_endpoint_t e, mcapi_uint_t number, uint32_t value)
{
	mcb_ok(mcapi_set_endpoint_attribute(e, number, &value, sizeof(value), &st));
}

void mcb_connect_pkt(mcapi_endpoint_t a, mcapi_endpoint_t b)
{
	mcapi_request_t r;

	mcb_ok(mcapi_connect_pktchan_i(a, b, &r, &st));
	mcb_wait(r, MCAPI_SUCCESS);
}

void mcb_connect_scl(mcapi_endpoint_t a, mcapi_endpoint_t b)
{
	mcapi_request_t r;

	mcb_ok(mcapi_connect_sclchan_i(a, b, &r, &st));
	mcb_wait(r, MCAPI_SUCCESS);
}

void mcb_pkt(struct mcb_chan *c)
{
	mcapi_request_t r[2];

	c->a = mcb_endpoint(MCAPI_PORT_ANY);
	c->b = mcb_endpoint(MCAPI_PORT_ANY);
	mcb_connect_pkt(c->a, c->b);
	mcb_ok(mcapi_open_pktchan_send_i(&c->send, c->a, &r[0], &st));
	mcb_ok(mcapi_open_pktchan_recv_i(&c->recv, c->b, &r[1], &st));
	mcb_wait(r[0], MCAPI_SUCCESS);
	mcb_wait(r[1], MCAPI_SUCCESS);
}

void mcb_scl(struct mcb_chan *c)
{
	mcapi_request_t r[2];

	c->a = mcb_endpoint(MCAPI_PORT_ANY);
	c->b = mcb_endpoint(MCAPI_PORT_ANY);
	mcb_connect_scl(c->a, c->b);
	mcb_ok(mcapi_open_sclchan_send_i(&c->send, c->a, &r[0], &st));
	mcb_ok(mcapi_open_sclchan_recv_i(&c->recv, c->b, &r[1], &st));
	mcb_wait(r[0], MCAPI_SUCCESS);
	mcb_wait(r[1], MCAPI_SUCCESS);
}

static int in_child(void *arg, int fd)
{
	struct mcb_other *o = arg;

	o->fd = fd;
	mcb_init(o->node);
	o->fn(o);
	mcb_final();
	return 0;
}

static void *in_thread(void *arg)
{
	struct mcb_other *o = arg;

	mcb_init(o->node);
	o->fn(o->peer);
	mcb_final();
	return NULL;
}

void mcb_start(struct mcb_other *o, int threaded, mcapi_node_t node,
	       void (*fn)(struct mcb_other *o))
{
	int pair[2];

	memset(o, 0, sizeof(*o));
	o->threaded = threaded;
	o->node = node;
	o->fn = fn;
	if (!threaded) {
		twt_spawn(&o->child, in_child, o);
		o->fd = o->child.fd;
		return;
	}
	mcb_check(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	o->fd = pair[0];
	o->peer = calloc(1, sizeof(*o->peer));
	*o->peer = *o;
	o->peer->fd = pair[1];
	mcb_check(pthread_create(&o->thread, NULL, in_thread, o) == 0);
}

void mcb_end(struct mcb_other *o)
{
	if (!o->threaded) {
		mcb_eq(twt_join(&o->child, TWT_LONG), 0);
		return;
	}
	pthread_join(o->thread, NULL);
	close(o->fd);
	close(o->peer->fd);
	free(o->peer);
}

void mcb_tell(int fd)
{
	mcb_check(twt_put(fd, "x", 1) == 0);
}

void mcb_hear(int fd)
{
	char c;

	mcb_check(twt_get(fd, &c, 1) == 0);
}
