/* SPDX-License-Identifier: BSD-2-Clause */
/* III.3.1: filters, for both directions of a connection. */
#include "mx/mxt.h"

TestSuite(mx_filter, .init = mxt_job, .timeout = MXT_TIMEOUT);

#define OTHER_KEY (MXT_KEY + 1)

/* a has connected to b; their filters differ. */
struct odd {
	mx_endpoint_t a, b;
	mx_endpoint_addr_t ab, ba; /* ba: as b knows a by its message */
};

static mx_endpoint_addr_t meet(mx_endpoint_t from, mx_endpoint_addr_t to, mx_endpoint_t at)
{
	mx_request_t s = mxt_issend(from, NULL, 0, to, 1), r = mxt_irecv(at, NULL, 0, 1);
	mx_status_t st = mxt_wait(at, &r, MX_STATUS_SUCCESS);

	mxt_wait(from, &s, MX_STATUS_SUCCESS);
	return st.source;
}

static void odd_pair_of(struct odd *o, uint32_t unexp_max)
{
	mx_param_t room = {.key = MX_PARAM_UNEXP_QUEUE_MAX, .val.unexp_queue_max = unexp_max};

	mxt_up();
	o->b = mxt_open(MX_ANY_ENDPOINT);
	mxt_ok(mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, OTHER_KEY, &room, 1, &o->a));
	o->ab = mxt_connect(o->a, mxt_name(o->b));
	o->ba = meet(o->a, o->ab, o->b);
}

static void odd_pair(struct odd *o)
{
	odd_pair_of(o, 1 << 20);
}

static void odd_end(struct odd *o)
{
	mxt_close(o->a);
	mxt_close(o->b);
	mxt_down();
}

static void nothing_came(mx_endpoint_t ep)
{
	uint32_t result = 77;
	mx_status_t st;

	mxt_ok(mx_probe(ep, 100, 0, 0, &st, &result));
	mxt_eq(result, 0);
}

static mx_return_t name_key(struct odd *o, uint32_t key, mx_endpoint_addr_t *addr)
{
	struct mxt_name a = mxt_name(o->a);

	return mx_connect(o->b, a.nic, a.id, key, MXT_LONG / 1000, addr);
}

/* Short, long, synchronous: none of them; what comes is taken nevertheless. */
Test(mx_filter, no_way_back, .timeout = MXT_TIMEOUT)
{
	static const uint32_t lens[] = {0, 8, 5000, 1 << 20};
	static char out[1 << 20], in[1 << 20];
	struct odd o;

	odd_pair(&o);
	for (int i = 0; i < 8; i++) {
		mx_request_t s = (i & 1 ? mxt_issend : mxt_isend)(o.b, out, lens[i / 2], o.ba, 2);

		mxt_eq(mxt_wait(o.b, &s, MX_STATUS_REJECTED).xfer_length, 0);
	}
	nothing_came(o.a);
	twt_fill(out, sizeof(out), 5);
	for (int i = 0; i < 4; i++) {
		mx_request_t s = mxt_issend(o.a, out, lens[i], o.ab, 3);
		mx_request_t r = mxt_irecv(o.b, in, sizeof(in), 3);

		mxt_wait(o.b, &r, MX_STATUS_SUCCESS);
		mxt_wait(o.a, &s, MX_STATUS_SUCCESS);
		mxt_eq(twt_check(in, lens[i], 5), lens[i]);
	}
	odd_end(&o);
}

/* Nor from one without room for what is unexpected. */
Test(mx_filter, no_room_no_way_back, .timeout = MXT_TIMEOUT)
{
	mx_endpoint_addr_t addr;
	struct odd o;
	mx_request_t s;

	odd_pair_of(&o, 0);
	s = mxt_isend(o.b, NULL, 0, o.ba, 2);
	mxt_wait(o.b, &s, MX_STATUS_REJECTED);
	s = mxt_issend(o.b, NULL, 0, o.ba, 2);
	mxt_wait(o.b, &s, MX_STATUS_REJECTED);
	nothing_came(o.a);
	mxt_ok(name_key(&o, OTHER_KEY, &addr));
	meet(o.b, o.ba, o.a);
	odd_end(&o);
}

/* Naming the wrong filter opens nothing, naming the right one does, for good. */
Test(mx_filter, opened_by_naming_it, .timeout = MXT_TIMEOUT)
{
	mx_endpoint_addr_t addr;
	struct odd o;
	mx_request_t s;

	odd_pair(&o);
	mxt_rc(MX_BAD_CONNECTION_KEY, name_key(&o, MXT_KEY, &addr));
	s = mxt_isend(o.b, NULL, 0, o.ba, 2);
	mxt_wait(o.b, &s, MX_STATUS_REJECTED);
	mxt_ok(name_key(&o, OTHER_KEY, &addr));
	mxt_check(mxt_same_addr(addr, o.ba));
	meet(o.b, o.ba, o.a);
	mxt_rc(MX_BAD_CONNECTION_KEY, name_key(&o, MXT_KEY, &addr));
	for (int i = 0; i < 1000; i++)
		meet(o.b, o.ba, o.a);
	meet(o.a, o.ab, o.b);
	odd_end(&o);
}

/* A connection that is made anew is checked anew. */
Test(mx_filter, anew, .timeout = MXT_TIMEOUT)
{
	mx_endpoint_addr_t addr;
	struct odd o;
	mx_request_t s;

	odd_pair(&o);
	mxt_ok(name_key(&o, OTHER_KEY, &addr));
	meet(o.b, o.ba, o.a);
	mxt_ok(mx_disconnect(o.a, o.ab));
	o.ab = mxt_connect(o.a, mxt_name(o.b));
	o.ba = meet(o.a, o.ab, o.b);
	s = mxt_isend(o.b, NULL, 0, o.ba, 2);
	mxt_wait(o.b, &s, MX_STATUS_REJECTED);
	odd_end(&o);
}

/* Of the same filter nobody need connect to answer. */
Test(mx_filter, the_same, .timeout = MXT_TIMEOUT)
{
	mx_endpoint_t a, b;
	mx_endpoint_addr_t ab, ba;

	mxt_up();
	a = mxt_open(MX_ANY_ENDPOINT);
	b = mxt_open(MX_ANY_ENDPOINT);
	ab = mxt_connect(a, mxt_name(b));
	ba = meet(a, ab, b);
	meet(b, ba, a);
	mxt_close(a);
	mxt_close(b);
	mxt_down();
}

/* Between processes, and hosts; the far side has the other filter and connects. */
static int far_side(void *arg, int fd)
{
	struct mxt_name name;
	mx_endpoint_addr_t to;
	mx_endpoint_t ep;

	(void)arg;
	mxt_up();
	mxt_ok(mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, OTHER_KEY, NULL, 0, &ep));
	mxt_eq(twt_get(fd, &name, sizeof(name)), 0);
	to = mxt_connect(ep, name);
	for (int i = 0; i < 2; i++) {
		mx_request_t s = mxt_issend(ep, NULL, 0, to, 1);

		mxt_wait(ep, &s, MX_STATUS_SUCCESS);
		mxt_await(fd);
	}
	mxt_probe(ep, 9);
	mxt_close(ep);
	mxt_down();
	return 0;
}

Test(mx_filter, processes, .timeout = MXT_TIMEOUT)
{
	struct twt_child c;
	struct mxt_name name, other;
	mx_endpoint_addr_t addr;
	mx_request_t r, s;
	mx_endpoint_t ep;
	mx_status_t st;

	twt_spawn(&c, far_side, NULL);
	mxt_up();
	ep = mxt_open(MX_ANY_ENDPOINT);
	name = mxt_name(ep);
	mxt_eq(twt_put(c.fd, &name, sizeof(name)), 0);
	r = mxt_irecv(ep, NULL, 0, 1);
	st = mxt_wait(ep, &r, MX_STATUS_SUCCESS);
	s = mxt_isend(ep, NULL, 0, st.source, 9);
	mxt_wait(ep, &s, MX_STATUS_REJECTED);
	mxt_signal(c.fd);
	r = mxt_irecv(ep, NULL, 0, 1);
	st = mxt_wait(ep, &r, MX_STATUS_SUCCESS);
	other = mxt_whose(st.source);
	mxt_ok(mx_connect(ep, other.nic, other.id, OTHER_KEY, MXT_LONG / 1000, &addr));
	s = mxt_isend(ep, NULL, 0, st.source, 9);
	mxt_wait(ep, &s, MX_STATUS_SUCCESS);
	mxt_signal(c.fd);
	mxt_eq(twt_join(&c, MXT_CHILD), 0);
	mxt_close(ep);
	mxt_down();
}
