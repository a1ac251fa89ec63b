/* SPDX-License-Identifier: BSD-2-Clause */
/* 4.5.4 to 4.5.12: scalars. */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mcapi/mcapit.h"

TestSuite(mcapi_scl, .init = twc_job, .timeout = MCT_TIMEOUT);

static const struct mct_kind *const kind = &mct_kinds[MCT_SCL];

static void send_one(uint32_t h, int bytes, uint64_t value)
{
	if (bytes == 8)
		mct_ok(mcapi_sclchan_send_uint64(h, value, ST));
	else if (bytes == 4)
		mct_ok(mcapi_sclchan_send_uint32(h, (uint32_t)value, ST));
	else if (bytes == 2)
		mct_ok(mcapi_sclchan_send_uint16(h, (uint16_t)value, ST));
	else
		mct_ok(mcapi_sclchan_send_uint8(h, (uint8_t)value, ST));
}

static uint64_t recv_one(uint32_t h, int bytes, mcapi_status_t want)
{
	uint64_t value = 0;

	if (bytes == 8)
		mct_is(want, value = mcapi_sclchan_recv_uint64(h, ST));
	else if (bytes == 4)
		mct_is(want, value = mcapi_sclchan_recv_uint32(h, ST));
	else if (bytes == 2)
		mct_is(want, value = mcapi_sclchan_recv_uint16(h, ST));
	else
		mct_is(want, value = mcapi_sclchan_recv_uint8(h, ST));
	return value;
}

static uint64_t mask(int bytes)
{
	return bytes == 8 ? ~0ull : (1ull << bytes * 8) - 1;
}

/* Every width and its extremes. */
Test(mcapi_scl, values, .timeout = MCT_TIMEOUT)
{
	static const uint64_t values[] = {0,	      1,	  0x7f,	      0x80,
					  0xff,	      0x7fff,	  0x8000,     0xffff,
					  0x7fffffff, 0x80000000, 0xffffffff, 0x0123456789abcdef,
					  1ull << 63, ~0ull >> 1, ~0ull};
	struct mct_chan c;

	mct_up(1);
	mct_chan(&c, kind);
	for (int bytes = 1; bytes <= 8; bytes *= 2)
		for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
			send_one(c.tx, bytes, values[i]);
			twc_eq(recv_one(c.rx, bytes, MCAPI_SUCCESS), values[i] & mask(bytes));
		}
	mct_chan_end(&c);
	mct_down();
}

/* A receive of another width is refused (3.8); the scalar is not lost. */
Test(mcapi_scl, sizes_must_match, .timeout = MCT_TIMEOUT)
{
	struct mct_chan c;

	mct_up(1);
	mct_chan(&c, kind);
	for (int sent = 1; sent <= 8; sent *= 2) {
		send_one(c.tx, sent, 0xa5);
		for (int wrong = 1; wrong <= 8; wrong *= 2)
			if (wrong != sent)
				recv_one(c.rx, wrong, MCAPI_ESCL_SIZE);
		mct_queued(kind, c.rx, 1);
		twc_eq(recv_one(c.rx, sent, MCAPI_SUCCESS), 0xa5);
		mct_queued(kind, c.rx, 0);
	}
	mct_chan_end(&c);
	mct_down();
}

/* Far more than fit: senders wait, and order holds over all widths. */
MCT_BOTH(mcapi_scl, fifo, 2)
{
	enum { MANY = 100000 };
	uint32_t h = mct_open_between(me, kind);
	uint64_t rng = 8;

	/* The sender gets stuck before the receiver begins. */
	if (me->rank == 0)
		twc_sleep(50);
	for (int i = 0; i < MANY; i++) {
		uint64_t value = twt_random(&rng);
		int bytes = 1 << value % 4;

		if (me->rank)
			send_one(h, bytes, value);
		else
			twc_eq(recv_one(h, bytes, MCAPI_SUCCESS), value & mask(bytes));
	}
	mct_close_between(me, kind, h);
}

MCT_BOTH(mcapi_scl, available, 2)
{
	uint32_t h = mct_open_between(me, kind);

	for (unsigned n = 1; n <= 64; n *= 4) {
		if (me->rank) {
			for (unsigned i = 0; i < n; i++)
				mct_put(kind, h, i);
			mct_meet(me);
		} else {
			mct_meet(me);
			mct_queued(kind, h, n);
			for (unsigned i = 0; i < n; i++) {
				mct_queued(kind, h, n - i);
				twc_eq(mct_take(kind, h), i);
			}
			mct_queued(kind, h, 0);
		}
		mct_meet(me);
	}
	mct_close_between(me, kind, h);
}

/* One scalar at a time, there and back: both ends sleep and wake. */
MCT_BOTH(mcapi_scl, ping_pong, 2)
{
	mcapi_endpoint_t in = mct_create(1), out = mct_create(2);
	mcapi_request_t rx, tx;
	uint32_t hr, hs;

	mct_connect(kind, out, mct_get(1 - (mcapi_node_t)me->rank, 1));
	mct_meet(me);
	rx = mct_open_recv(kind, in, &hr);
	tx = mct_open_send(kind, out, &hs);
	mct_done(&rx);
	mct_done(&tx);
	for (uint64_t i = 0; i < 2000; i++) {
		if (me->rank == 0)
			mct_put(kind, hs, i);
		twc_eq(mct_take(kind, hr), i);
		if (me->rank == 1)
			mct_put(kind, hs, i);
		if (i % 500 == 0)
			twc_sleep(5);
	}
	mct_meet(me);
	mct_close_send(kind, hs);
	mct_close_recv(kind, hr);
	mct_delete(in);
	mct_delete(out);
}

/* One end of channels each way, and how far they are. */
struct way {
	uint32_t rx, tx;
	uint64_t sent, received;
};

/* The scalar follows from its number. */
static void send_next(struct way *w)
{
	uint64_t state = w->sent++, value = twt_random(&state);

	send_one(w->tx, 1 << value % 4, value);
}

static void recv_next(struct way *w)
{
	uint64_t state = w->received++, value = twt_random(&state);
	int bytes = 1 << value % 4;

	twc_eq(recv_one(w->rx, bytes, MCAPI_SUCCESS), value & mask(bytes));
}

/*
 * Several channels each way between two nodes: questions, answers and streams in turns,
 * each in order; what was sent before an end closes is received.
 */
MCT_BOTH(mcapi_scl, both_ways, 2)
{
	enum { PAIRS = 3, ROUNDS = 3000 };
	struct way ways[PAIRS] = {0};
	mcapi_request_t rx, tx;
	uint64_t rng = 9; /* the same for both */

	for (unsigned i = 0; i < PAIRS; i++) {
		mcapi_endpoint_t in = mct_create(2 * i), out = mct_create(2 * i + 1);

		mct_connect(kind, out, mct_get(1 - (mcapi_node_t)me->rank, 2 * i));
		mct_meet(me);
		rx = mct_open_recv(kind, in, &ways[i].rx);
		tx = mct_open_send(kind, out, &ways[i].tx);
		mct_done(&rx);
		mct_done(&tx);
	}
	for (unsigned n = 0; n < ROUNDS; n++) {
		uint64_t r = twt_random(&rng);
		struct way *w = &ways[r % PAIRS];
		unsigned count[2] = {1, 1};
		bool answer = me->rank && r & 0x100;

		if (n % 50 == 0)
			count[r >> 10 & 1] = (r >> 16) % 1500;
		for (unsigned k = 0; answer && k < count[0]; k++)
			recv_next(w);
		for (unsigned k = 0; k < count[me->rank]; k++)
			send_next(w);
		for (unsigned k = 0; !answer && k < count[!me->rank]; k++)
			recv_next(w);
	}
	for (unsigned i = 0; i < PAIRS; i++) {
		for (unsigned k = 0; k < 3; k++)
			send_next(&ways[i]);
		mct_close_send(kind, ways[i].tx);
	}
	for (unsigned i = 0; i < PAIRS; i++) {
		for (unsigned k = 0; k < 3; k++)
			recv_next(&ways[i]);
		recv_one(ways[i].rx, 8, MCAPI_ENOT_HANDLE);
		mct_close_recv(kind, ways[i].rx);
	}
}

Test(mcapi_scl, null_status, .timeout = MCT_TIMEOUT)
{
	struct mct_chan c;

	mct_up(1);
	mct_chan(&c, kind);
	mct_null(mcapi_sclchan_send_uint64(c.tx, 1, MCAPI_NULL));
	mct_null(mcapi_sclchan_send_uint32(c.tx, 1, MCAPI_NULL));
	mct_null(mcapi_sclchan_send_uint16(c.tx, 1, MCAPI_NULL));
	mct_null(mcapi_sclchan_send_uint8(c.tx, 1, MCAPI_NULL));
	/* None of them did anything; nor do these, which must not block. */
	mct_queued(kind, c.rx, 0);
	mct_null(mcapi_sclchan_recv_uint64(c.rx, MCAPI_NULL));
	mct_null(mcapi_sclchan_recv_uint32(c.rx, MCAPI_NULL));
	mct_null(mcapi_sclchan_recv_uint16(c.rx, MCAPI_NULL));
	mct_null(mcapi_sclchan_recv_uint8(c.rx, MCAPI_NULL));
	mct_null(mcapi_sclchan_available(c.rx, MCAPI_NULL));
	mct_put(kind, c.tx, 12);
	mct_queued(kind, c.rx, 1);
	mct_null(mcapi_sclchan_recv_uint64(c.rx, MCAPI_NULL));
	twc_eq(mct_take(kind, c.rx), 12);
	mct_chan_end(&c);
	mct_down();
}

/* A thread that waits for room sleeps, and goes on when there is some. */
struct sender {
	uint32_t tx;
	atomic_int sent;
};

static void send_many(void *arg)
{
	struct sender *s = arg;

	for (int i = 0; i < 20000; i++) {
		mct_ok(mcapi_sclchan_send_uint32(s->tx, (uint32_t)i, ST));
		atomic_store(&s->sent, i + 1);
	}
}

/* No handle is 0, whatever was open before. */
Test(mcapi_scl, null_handle, .timeout = MCT_TIMEOUT)
{
	mcapi_sclchan_recv_hndl_t h;
	mcapi_endpoint_t e;
	mcapi_request_t r;
	size_t size;

	mct_up(1);
	for (unsigned i = 0; i < 2; i++) {
		mct_is(MCAPI_ENOT_HANDLE, mcapi_sclchan_available(0, ST));
		mct_is(MCAPI_ENOT_HANDLE, mcapi_sclchan_recv_uint8(0, ST));
		mct_is(MCAPI_ENOT_HANDLE, mcapi_sclchan_recv_uint64(0, ST));
		mct_is(MCAPI_ENOT_HANDLE, mcapi_sclchan_send_uint8(0, 1, ST));
		mct_is(MCAPI_ENOT_HANDLE, mcapi_sclchan_send_uint64(0, 1, ST));
		mct_is(MCAPI_ENOT_HANDLE, mcapi_sclchan_recv_close_i(0, &r, ST));
		mct_is(MCAPI_ENOT_HANDLE, mcapi_sclchan_send_close_i(0, &r, ST));
		e = mct_create(1 + (int)i);
		mcapi_open_sclchan_recv_i(&h, e, &r, ST);
		mct_is(MCAPI_SUCCESS, mcapi_sclchan_recv_close_i(h, &r, ST));
		mcapi_wait(&r, &size, ST, MCAPI_INFINITE);
	}
	mct_down();
}

Test(mcapi_scl, full_channel_blocks, .timeout = MCT_TIMEOUT)
{
	struct mct_chan c;
	struct twc_thread t;
	struct sender s;

	mct_up(1);
	mct_chan(&c, kind);
	s.tx = c.tx;
	atomic_init(&s.sent, 0);
	twc_start(&t, send_many, &s);
	twc_asleep(&t);
	twc_check(atomic_load(&s.sent) >= 1 && atomic_load(&s.sent) < 20000);
	/* At least as many as messages and packets have buffers. */
	twc_check(atomic_load(&s.sent) >= 128);
	for (uint64_t i = 0; i < 20000; i++)
		twc_eq(recv_one(c.rx, 4, MCAPI_SUCCESS), i);
	twc_join(&t);
	mct_chan_end(&c);
	mct_down();
}

/* A thread remembers the ends it has used: more of them than it can, in turns. */
Test(mcapi_scl, many_channels, .timeout = MCT_TIMEOUT)
{
	enum { CHANNELS = 21, ROUNDS = 2000 };
	static struct mct_chan c[CHANNELS];

	mct_up(1);
	for (int i = 0; i < CHANNELS; i++)
		mct_chan(&c[i], kind);
	for (uint64_t r = 0; r < ROUNDS; r++)
		for (uint64_t i = 0; i < CHANNELS; i++) {
			send_one(c[i].tx, 8, r << 32 | i);
			if (r >= i)
				twc_eq(recv_one(c[i].rx, 8, MCAPI_SUCCESS), (r - i) << 32 | i);
		}
	for (int i = 0; i < CHANNELS; i++) {
		mct_queued(kind, c[i].rx, (unsigned)i);
		mct_chan_end(&c[i]);
	}
	mct_down();
}

static void hundred(void *arg)
{
	const struct mct_chan *c = arg;

	for (uint64_t i = 0; i < 100; i++) {
		mct_put(kind, c->tx, i);
		twc_eq(mct_take(kind, c->rx), i);
	}
}

/* One thread after the other, more often than the favour of a lock is given. */
Test(mcapi_scl, from_hand_to_hand, .timeout = MCT_TIMEOUT)
{
	struct mct_chan c;

	mct_up(1);
	mct_chan(&c, kind);
	for (int i = 0; i < 12; i++) {
		struct twc_thread t;

		hundred(&c);
		twc_start(&t, hundred, &c);
		twc_join(&t);
	}
	mct_chan_end(&c);
	mct_down();
}

static void become_another(void *arg)
{
	const struct mct_chan *c = arg;

	hundred(arg); /* for the first node */
	mct_up(2);
	mct_is(MCAPI_ENOT_HANDLE, mcapi_sclchan_send_uint64(c->tx, 1, ST));
	mct_is(MCAPI_ENOT_HANDLE, mcapi_sclchan_recv_uint64(c->rx, ST));
	mct_down();
	hundred(arg);
}

/* A thread that becomes a node has no more to do with what is the first node's. */
Test(mcapi_scl, no_longer_the_first_nodes, .timeout = MCT_TIMEOUT)
{
	struct mct_chan c;
	struct twc_thread t;

	mct_up(1);
	mct_chan(&c, kind);
	twc_start(&t, become_another, &c);
	twc_join(&t);
	hundred(&c);
	mct_chan_end(&c);
	mct_down();
}

/* Leaves so many descriptors to be had. */
static void leave_descriptors(int n)
{
	struct rlimit limit;

	twc_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	for (limit.rlim_cur = 0; n >= 0; limit.rlim_cur++)
		n -= fcntl((int)limit.rlim_cur, F_GETFD) < 0;
	limit.rlim_cur--;
	twc_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/*
 * Within a node a ring needs no descriptor, neither for itself nor to be found again (as
 * without /proc).
 */
Test(mcapi_scl, own_node_without_descriptors, .timeout = MCT_TIMEOUT)
{
	enum { MANY = 1000 };
	struct rlimit all;

	mct_up(1);
	twc_eq(getrlimit(RLIMIT_NOFILE, &all), 0);
	for (int n = 0; n < 3; n++) {
		struct mct_chan c;

		leave_descriptors(n);
		mct_chan(&c, kind);
		for (int round = 0; round < 3; round++) {
			for (unsigned i = 0; i < MANY; i++)
				send_one(c.tx, 1 << i % 4, i);
			mct_queued(kind, c.rx, MANY);
			for (unsigned i = 0; i < MANY; i++)
				twc_eq(recv_one(c.rx, 1 << i % 4, MCAPI_SUCCESS),
				       i & mask(1 << i % 4));
		}
		mct_chan_end(&c);
		twc_eq(setrlimit(RLIMIT_NOFILE, &all), 0);
	}
	mct_down();
}

static bool ring_is_mapped(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	bool found = false;
	char line[300];

	twc_check(maps);
	while (fgets(line, sizeof(line), maps))
		found |= strstr(line, "tagwire-scalars") != NULL;
	fclose(maps);
	return found;
}

enum { ELSEWHERE, SCALARS = 5000 }; /* more than a channel has room for */

/* A sender that does not see its receiver sends messages. */
static void some_scalars(struct mct_me *me)
{
	bool sees = atomic_load(&me->shared->word[ELSEWHERE]) != 1;
	uint32_t h;

	mct_up((mcapi_node_t)me->rank);
	h = mct_open_between(me, kind);
	twc_eq(me->rank && ring_is_mapped(), me->rank && sees);
	for (uint64_t i = 0; i < SCALARS; i++)
		if (me->rank)
			mct_put(kind, h, i);
		else
			twc_eq(mct_take(kind, h), i);
	mct_close_between(me, kind, h);
	mct_down();
}

/* One of them is in another PID namespace: its own number is somebody else's here. */
static void one_elsewhere(struct mct_me *me)
{
	int ended;
	pid_t pid;

	if (atomic_load(&me->shared->word[ELSEWHERE]) != (uint64_t)me->rank) {
		some_scalars(me);
		return;
	}
	twc_check(twt_unshare(CLONE_NEWPID));
	pid = fork();
	twc_check(pid >= 0);
	if (pid == 0) {
		some_scalars(me);
		_exit(0);
	}
	twc_eq(waitpid(pid, &ended, 0), pid);
	twc_eq(ended, 0);
}

static void sender_elsewhere(struct mct_me *me)
{
	atomic_store(&me->shared->word[ELSEWHERE], 1);
	one_elsewhere(me);
}

static int no_namespace(void *arg, int fd)
{
	(void)arg;
	(void)fd;
	return !twt_unshare(CLONE_NEWPID);
}

static void in_namespaces(void (*fn)(struct mct_me *me))
{
	struct twt_child child;

	twt_spawn(&child, no_namespace, NULL);
	if (twt_join(&child, MCT_CHILD) != 0)
		cr_skip_test("the system makes no namespace for us");
	mct_wild(MCT_PROCESSES, 2, fn);
}

Test(mcapi_scl, receiver_in_another_pid_namespace, .timeout = MCT_TIMEOUT)
{
	in_namespaces(one_elsewhere);
}

Test(mcapi_scl, sender_in_another_pid_namespace, .timeout = MCT_TIMEOUT)
{
	in_namespaces(sender_elsewhere);
}
