/* SPDX-License-Identifier: BSD-2-Clause */
/* IV.3 and IV.4 Endpoint addresses. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "mx/mxt.h"

TestSuite(mx_connect, .init = mxt_job, .timeout = MXT_TIMEOUT);

/* mx_connect() that must fail and leave the address alone. */
#define refused(want, ...) refused_at(__LINE__, want, __VA_ARGS__)
static void refused_at(int line, mx_return_t want, mx_endpoint_t ep, uint64_t nic, uint32_t id,
		       uint32_t key, uint32_t timeout)
{
	mx_endpoint_addr_t addr, old;

	memset(&addr, 0x5a, sizeof(addr));
	memset(&old, 0x5a, sizeof(old));
	mxt_rc_at(__FILE__, line, "mx_connect", want, mx_connect(ep, nic, id, key, timeout, &addr));
	mxt_check(mxt_same_addr(addr, old));
}

/* One message there and one back, by the address that it came from. */
static void exchange(mx_endpoint_t a, mx_endpoint_addr_t ab, mx_endpoint_t b)
{
	mx_request_t r, s, r2, s2;
	mx_status_t st;
	int got = 0;

	r = mxt_irecv(b, &got, sizeof(got), 4);
	s = mxt_isend(a, &(int){5}, sizeof(int), ab, 4);
	st = mxt_wait(b, &r, MX_STATUS_SUCCESS);
	mxt_wait(a, &s, MX_STATUS_SUCCESS);
	mxt_eq(got, 5);
	mxt_check(mxt_same_name(mxt_whose(st.source), mxt_name(a)));
	r2 = mxt_irecv(a, &got, sizeof(got), 6);
	s2 = mxt_isend(b, &(int){7}, sizeof(int), st.source, 6);
	st = mxt_wait(a, &r2, MX_STATUS_SUCCESS);
	mxt_wait(b, &s2, MX_STATUS_SUCCESS);
	mxt_eq(got, 7);
	mxt_check(mxt_same_name(mxt_whose(st.source), mxt_name(b)));
}

Test(mx_connect, two_endpoints, .timeout = MXT_TIMEOUT)
{
	struct mxt_pair p;

	mxt_up();
	mxt_pair(&p);
	mxt_check(mxt_same_name(mxt_whose(p.ab), mxt_name(p.b)));
	mxt_check(mxt_same_name(mxt_whose(p.ba), mxt_name(p.a)));
	exchange(p.a, p.ab, p.b);
	exchange(p.b, p.ba, p.a);
	mxt_pair_end(&p);
	mxt_down();
}

/* One's own endpoint, by either way to its address. */
Test(mx_connect, self, .timeout = MXT_TIMEOUT)
{
	mx_endpoint_addr_t self;
	mx_endpoint_t ep;

	mxt_up();
	ep = mxt_open(MX_ANY_ENDPOINT);
	exchange(ep, mxt_self(ep), ep);
	self = mxt_connect(ep, mxt_name(ep));
	mxt_check(mxt_same_name(mxt_whose(self), mxt_name(ep)));
	exchange(ep, self, ep);
	exchange(ep, mxt_self(ep), ep);
	refused(MX_BAD_CONNECTION_KEY, ep, mxt_name(ep).nic, mxt_name(ep).id, MXT_KEY + 1, 10);
	mxt_close(ep);
	mxt_down();
}

Test(mx_connect, again, .timeout = MXT_TIMEOUT)
{
	struct mxt_name b, far;
	struct twt_child c;
	struct mxt_pair p;

	far = mxt_idle(&c, MX_ANY_ENDPOINT);
	mxt_up();
	mxt_pair(&p);
	b = mxt_name(p.b);
	for (int i = 0; i < 10; i++) {
		mxt_check(mxt_same_addr(mxt_connect(p.a, b), p.ab));
		refused(MX_BAD_CONNECTION_KEY, p.a, b.nic, b.id, MXT_KEY ^ 0x80000000u, 10);
	}
	p.ab = mxt_connect(p.a, far);
	for (int i = 0; i < 10; i++) {
		mxt_check(mxt_same_addr(mxt_connect(p.a, far), p.ab));
		refused(MX_BAD_CONNECTION_KEY, p.a, far.nic, far.id, 0, 10);
	}
	mxt_pair_end(&p);
	mxt_idle_close(&c);
	mxt_idle_end(&c);
	mxt_down();
}

/* Each endpoint has its filter, all values of which count. */
Test(mx_connect, filters, .timeout = MXT_TIMEOUT)
{
	static const uint32_t keys[] = {0, 1, 0x80000000u, 0xcafebabe, 0xffffffffu};
	enum { N = sizeof(keys) / sizeof(*keys) };
	mx_endpoint_t ep, other[N];

	mxt_up();
	ep = mxt_open(MX_ANY_ENDPOINT);
	for (int i = 0; i < N; i++) {
		struct mxt_name name;
		mx_endpoint_addr_t addr;

		mxt_ok(mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, keys[i], NULL, 0, &other[i]));
		name = mxt_name(other[i]);
		for (int k = 0; k < N; k++)
			if (k != i)
				refused(MX_BAD_CONNECTION_KEY, ep, name.nic, name.id, keys[k], 10);
		mxt_ok(mx_connect(ep, name.nic, name.id, keys[i], 10, &addr));
		/* For the way back it names the filter of ep. */
		mxt_connect(other[i], mxt_name(ep));
		exchange(ep, addr, other[i]);
	}
	for (int i = 0; i < N; i++)
		mxt_close(other[i]);
	mxt_close(ep);
	mxt_down();
}

Test(mx_connect, wrong_filter_of_a_process, .timeout = MXT_TIMEOUT)
{
	struct mxt_name far;
	struct twt_child c;
	mx_endpoint_t ep;

	far = mxt_idle(&c, MX_ANY_ENDPOINT);
	mxt_up();
	ep = mxt_open(MX_ANY_ENDPOINT);
	refused(MX_BAD_CONNECTION_KEY, ep, far.nic, far.id, MXT_KEY - 1, MXT_CHILD);
	mxt_connect(ep, far);
	mxt_close(ep);
	mxt_idle_close(&c);
	mxt_idle_end(&c);
	mxt_down();
}

Test(mx_connect, nobody_there, .timeout = MXT_TIMEOUT)
{
	struct mxt_name me, gone;
	mx_endpoint_t ep, other;
	double start;

	mxt_up();
	ep = mxt_open(MX_ANY_ENDPOINT);
	other = mxt_open(MX_ANY_ENDPOINT);
	me = mxt_name(ep);
	gone = mxt_name(other);
	mxt_connect(ep, gone);
	mxt_close(other);
	/* At once, not when the time is over. */
	start = twt_now();
	refused(MX_CONNECTION_FAILED, ep, me.nic, 1020, MXT_KEY, MXT_CHILD);
	refused(MX_CONNECTION_FAILED, ep, me.nic, 1020, MXT_KEY, MX_INFINITE);
	refused(MX_CONNECTION_FAILED, ep, gone.nic, gone.id, MXT_KEY, MXT_CHILD);
	mxt_check(twt_now() - start < MXT_LONG / 1000.);
	mxt_close(ep);
	mxt_down();
}

static int still_reached(mx_endpoint_t ep, struct mxt_name to)
{
	mx_endpoint_addr_t addr;

	return mx_connect(ep, to.nic, to.id, MXT_KEY, MXT_CHILD, &addr) == MX_SUCCESS;
}

/* What a process left behind does not answer, however it ended. */
Test(mx_connect, process_gone, .timeout = MXT_TIMEOUT)
{
	struct twt_child closed, killed;
	struct mxt_name a, b;
	mx_endpoint_t ep;
	double start;

	a = mxt_idle(&closed, MX_ANY_ENDPOINT);
	b = mxt_idle(&killed, MX_ANY_ENDPOINT);
	mxt_up();
	ep = mxt_open(MX_ANY_ENDPOINT);
	mxt_connect(ep, a);
	mxt_connect(ep, b);
	mxt_idle_close(&closed);
	mxt_kill(&killed);
	start = twt_now();
	/* Between hosts the news of it may be on its way. */
	while (getenv("TWT_NETNS") && twt_now() - start < MXT_LONG / 1000. &&
	       (still_reached(ep, a) || still_reached(ep, b)))
		mxt_sleep(5);
	start = twt_now();
	refused(MX_CONNECTION_FAILED, ep, a.nic, a.id, MXT_KEY, MXT_CHILD);
	refused(MX_CONNECTION_FAILED, ep, b.nic, b.id, MXT_KEY, MXT_CHILD);
	mxt_check(twt_now() - start < MXT_LONG / 1000.);
	mxt_close(ep);
	/* Nor to an endpoint that never knew it. */
	ep = mxt_open(MX_ANY_ENDPOINT);
	refused(MX_CONNECTION_FAILED, ep, b.nic, b.id, MXT_KEY, MXT_CHILD);
	mxt_close(ep);
	mxt_idle_end(&closed);
	mxt_down();
}

Test(mx_connect, arguments, .timeout = MXT_TIMEOUT)
{
	mx_endpoint_addr_t addr;
	struct mxt_name me;
	mx_endpoint_t ep;
	uint64_t nic = 7;
	uint32_t id = 7;

	mxt_up();
	ep = mxt_open(MX_ANY_ENDPOINT);
	me = mxt_name(ep);
	refused(MX_NIC_NOT_FOUND, ep, MXT_NO_NIC, me.id, MXT_KEY, 10);
	refused(MX_NIC_NOT_FOUND, ep, MXT_NO_NIC, me.id, MXT_KEY, MX_INFINITE);
	refused(MX_NIC_NOT_FOUND, ep, 0, me.id, MXT_KEY, 10);
	refused(MX_NIC_NOT_FOUND, ep, me.nic | 1ull << 48, me.id, MXT_KEY, 10);
	refused(MX_BAD_ENDPOINT_ID, ep, me.nic, 1024, MXT_KEY, 10);
	refused(MX_BAD_ENDPOINT_ID, ep, me.nic, MX_ANY_ENDPOINT, MXT_KEY, 10);
	mxt_rc(MX_FAILURE, mx_connect(ep, me.nic, me.id, MXT_KEY, 10, NULL));
	mxt_rc(MX_FAILURE, mx_get_endpoint_addr(ep, NULL));
	mxt_ok(mx_get_endpoint_addr(ep, &addr));
	mxt_rc(MX_FAILURE, mx_decompose_endpoint_addr(addr, NULL, &id));
	mxt_rc(MX_FAILURE, mx_decompose_endpoint_addr(addr, &nic, NULL));
	mxt_close(ep);
	mxt_down();
}

/* Computes without MX calls, then does as much as it has been asked to. */
static void compute(struct mxt_side *s)
{
	volatile uint64_t x = 1;
	double end = twt_now() + 1;
	mx_request_t r;
	int got = 0;

	while (twt_now() < end)
		for (int i = 0; i < 10000; i++)
			x = x * 3 + 1;
	r = mxt_irecv(s->ep, &got, sizeof(got), 2);
	mxt_wait(s->ep, &r, MX_STATUS_SUCCESS);
	mxt_eq(got, 44);
}

Test(mx_connect, while_the_peer_computes, .timeout = MXT_TIMEOUT)
{
	mx_endpoint_addr_t addr;
	mx_endpoint_t another;
	struct mxt_side s;
	mx_request_t req;

	mxt_two(&s, compute, NULL);
	another = mxt_open(MX_ANY_ENDPOINT);
	addr = mxt_connect(another, s.other);
	req = mxt_isend(another, &(int){44}, sizeof(int), addr, 2);
	mxt_wait(another, &req, MX_STATUS_SUCCESS);
	mxt_eq(twt_join(&s.child, MXT_CHILD), 0);
	mxt_close(another);
	mxt_close(s.ep);
	mxt_down();
}

Test(mx_connect, while_the_peer_sleeps, .timeout = MXT_TIMEOUT)
{
	struct mxt_name far;
	struct twt_child c;

	far = mxt_idle(&c, MX_ANY_ENDPOINT);
	mxt_up();
	for (int i = 0; i < 30; i++) {
		mx_endpoint_t ep = mxt_open(MX_ANY_ENDPOINT);

		mxt_check(mxt_same_name(mxt_whose(mxt_connect(ep, far)), far));
		mxt_close(ep);
	}
	mxt_idle_close(&c);
	mxt_idle_end(&c);
	mxt_down();
}

/* Both sides of twenty pairs of endpoints connect at the same moment. */
static void cross(struct mxt_side *s)
{
	for (int i = 0; i < 20; i++) {
		mx_endpoint_t ep = mxt_open(MX_ANY_ENDPOINT);
		struct mxt_name me = mxt_name(ep), other;
		mx_request_t snd, rcv;
		mx_endpoint_addr_t addr;
		int got = -1;

		mxt_eq(twt_put(s->fd, &me, sizeof(me)), 0);
		mxt_eq(twt_get(s->fd, &other, sizeof(other)), 0);
		addr = mxt_connect(ep, other);
		snd = mxt_issend(ep, &i, sizeof(i), addr, 8);
		rcv = mxt_irecv(ep, &got, sizeof(got), 8);
		mxt_wait(ep, &rcv, MX_STATUS_SUCCESS);
		mxt_wait(ep, &snd, MX_STATUS_SUCCESS);
		mxt_eq(got, i);
		mxt_close(ep);
	}
}

Test(mx_connect, both_at_once, .timeout = MXT_TIMEOUT)
{
	struct mxt_side s;

	mxt_two(&s, cross, NULL);
	cross(&s);
	mxt_two_end(&s);
}

Test(mx_connect, every_endpoint_to_every_other, .timeout = MXT_TIMEOUT)
{
	enum { N = 12 };
	mx_endpoint_addr_t addr[N][N];
	mx_endpoint_t ep[N];

	mxt_up();
	for (int i = 0; i < N; i++)
		ep[i] = mxt_open(MX_ANY_ENDPOINT);
	for (int i = 0; i < N; i++)
		for (int k = 0; k < N; k++)
			addr[i][k] = mxt_connect(ep[i], mxt_name(ep[k]));
	for (int i = 0; i < N; i++)
		for (int k = 0; k < N; k++)
			exchange(ep[i], addr[i][k], ep[k]);
	for (int i = 0; i < N; i++)
		mxt_close(ep[i]);
	mxt_down();
}

/* A receiver that has not connected may answer. */
Test(mx_connect, source_is_a_destination, .timeout = MXT_TIMEOUT)
{
	mx_endpoint_t a, b;

	mxt_up();
	a = mxt_open(MX_ANY_ENDPOINT);
	b = mxt_open(MX_ANY_ENDPOINT);
	exchange(a, mxt_connect(a, mxt_name(b)), b);
	mxt_close(a);
	mxt_close(b);
	mxt_down();
}

Test(mx_connect, disconnect, .timeout = MXT_TIMEOUT)
{
	struct mxt_pair p;

	mxt_up();
	mxt_pair(&p);
	for (int i = 0; i < 10; i++) {
		exchange(p.a, p.ab, p.b);
		mxt_ok(mx_disconnect(p.a, p.ab));
		p.ab = mxt_connect(p.a, mxt_name(p.b));
	}
	exchange(p.a, p.ab, p.b);
	exchange(p.b, mxt_connect(p.b, mxt_name(p.a)), p.a);
	mxt_pair_end(&p);
	mxt_down();
}

#define IDLE_PEERS 20
#define FIRST_PEERS 4 /* what comes with the first ones is not each one's */

/* KiB that a process has resident of its rings. */
static unsigned ring_memory(pid_t pid)
{
	unsigned long from, to;
	unsigned kib = 0, sum = 0;
	bool here = false;
	char line[400];
	FILE *f;

	snprintf(line, sizeof(line), "/proc/%d/smaps", (int)pid);
	f = fopen(line, "r");
	cr_assert_not_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			here = strstr(line, "tagwire-ring");
		if (here && sscanf(line, "Rss: %u", &kib) == 1)
			sum += kib;
	}
	fclose(f);
	return sum;
}

/* What a connected peer costs that has nothing to say, on both sides. */
Test(mx_connect, memory_of_idle_peers, .timeout = MXT_TIMEOUT)
{
	struct twt_child c[IDLE_PEERS];
	struct mxt_name names[IDLE_PEERS];
	/* A page of the system, at least. */
	unsigned page = (unsigned)sysconf(_SC_PAGESIZE) / 1024, most = page < 12 ? 12 : page;
	uint64_t before = 0;
	unsigned rings;
	mx_endpoint_t ep;

	/* Over shared memory, whatever the others run over. */
	mxt_same_host();
	setenv("TAGWIRE_PROVIDERS", "self,shm", 1);
	for (unsigned i = 0; i < IDLE_PEERS; i++)
		names[i] = mxt_idle(&c[i], i + 1);
	mxt_up();
	ep = mxt_open(0);
	for (unsigned i = 0; i < IDLE_PEERS; i++) {
		mx_endpoint_addr_t addr;
		mx_request_t r;

		if (i == FIRST_PEERS)
			before = twt_memory(getpid());
		addr = mxt_connect(ep, names[i]);
		r = mxt_isend(ep, "12345678", 8, addr, i);
		mxt_wait(ep, &r, MX_STATUS_SUCCESS);
	}
#ifndef __SANITIZE_ADDRESS__
	cr_assert_leq(twt_memory(getpid()) - before, (IDLE_PEERS - FIRST_PEERS) * 33 * 1024);
#endif
	(void)before;
	rings = ring_memory(getpid());
	cr_assert_geq(rings, IDLE_PEERS * 4);
	cr_assert_leq(rings, IDLE_PEERS * most, "%u KiB", rings);
	cr_assert_leq(ring_memory(c[0].pid), most);
	mxt_close(ep);
	mxt_down();
	for (unsigned i = 0; i < IDLE_PEERS; i++) {
		mxt_idle_close(&c[i]);
		mxt_idle_end(&c[i]);
	}
}
