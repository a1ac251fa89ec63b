/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory and descriptors run out. Calls answer MX_NO_RESOURCES, what was
 * posted before stays good, nothing that a peer sends meanwhile is lost, however much, and
 * all works again once there is more. A peer whose own descriptors have run
 * out refuses connections without burning its processor.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "mx_extensions.h"
#include "stress/stress.h"

#define SERVER_ID 8
#define POSTS 2000000
#define ARRIVALS 500
#define PENDING 100 /* bytes */
#define FLOODED 50000
#define PENDING_SEND (1ull << 41)
#define PENDING_RECV (1ull << 42)
#define HEADROOM (1ul << 20)

/* What the test tells its server to do. */
enum order { BOUNCE = 1, SEND_MANY, FLOOD, SINK, STARVE, FEED, CPU, END };

static uint64_t pattern(uint64_t i)
{
	return st_hash(i, st_seed);
}

/* Sets a limit; returns what it was. */
static rlim_t limit(int what, rlim_t soft)
{
	struct rlimit r;
	rlim_t old;

	st_check(getrlimit(what, &r) == 0);
	old = r.rlim_cur;
	r.rlim_cur = soft;
	if (setrlimit(what, &r) < 0)
		st_fail("setrlimit: %s", strerror(errno));
	return old;
}

/* Leaves so many numbers for new descriptors; returns what the limit was. */
static rlim_t spare_fds(int n)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	st_check(fd >= 0);
	close(fd);
	return limit(RLIMIT_NOFILE, (rlim_t)(fd + n));
}

/* The server. */

static void echo(mx_endpoint_t ep, mx_endpoint_addr_t to, uint64_t n)
{
	static uint8_t buf[300000];

	for (uint64_t i = 0; i < n; i++) {
		mx_request_t req = st_irecv(ep, buf, sizeof(buf), i);
		mx_status_t s = st_finish(ep, &req);

		req = st_isend(ep, buf, s.xfer_length, to, 1ull << 32 | i);
		st_finish(ep, &req);
	}
}

static void send_many(mx_endpoint_t ep, mx_endpoint_addr_t to, uint64_t base)
{
	uint8_t buf[ARRIVALS];

	for (uint64_t i = 0; i < ARRIVALS; i++) {
		mx_request_t req;

		twt_fill(buf, i, pattern(base + i));
		req = st_isend(ep, buf, i, to, base + i);
		st_finish(ep, &req);
	}
}

/* All at once, far more than any window. */
static void flood(mx_endpoint_t ep, mx_endpoint_addr_t to, uint64_t base)
{
	mx_request_t *req = calloc(FLOODED, sizeof(*req));
	uint8_t(*buf)[PENDING] = calloc(FLOODED, sizeof(*buf));

	st_check(req && buf);
	for (uint64_t i = 0; i < FLOODED; i++) {
		twt_fill(buf[i], PENDING, pattern(base + i));
		req[i] = st_isend(ep, buf[i], PENDING, to, base + i);
	}
	for (uint64_t i = 0; i < FLOODED; i++)
		st_finish(ep, &req[i]);
	free(buf);
	free(req);
}

static void sink(mx_endpoint_t ep, uint64_t n)
{
	uint8_t buf[PENDING];

	for (uint64_t i = 0; i < n; i++) {
		mx_request_t req = st_irecv(ep, buf, sizeof(buf), PENDING_SEND);

		st_at(i);
		st_eq(st_finish(ep, &req).xfer_length, PENDING);
		st_eq(twt_check(buf, PENDING, pattern(PENDING)), PENDING);
	}
}

static int server(void *arg, int fd)
{
	struct st_name name;
	mx_endpoint_addr_t to;
	mx_endpoint_t ep;
	rlim_t old = 0;
	uint64_t order[2];
	double cpu;

	(void)arg;
	st_role("server");
	st_up();
	ep = st_open(SERVER_ID, NULL, 0);
	name = st_whose(st_self(ep));
	st_put(fd, &name, sizeof(name));
	st_get(fd, &name, sizeof(name));
	to = st_connect(ep, name);
	st_put(fd, "", 1);
	for (;;) {
		st_get(fd, order, sizeof(order));
		st_at(order[0]);
		switch ((enum order)order[0]) {
		case BOUNCE:
			echo(ep, to, order[1]);
			break;
		case SEND_MANY:
			send_many(ep, to, order[1]);
			break;
		case FLOOD:
			flood(ep, to, order[1]);
			break;
		case SINK:
			sink(ep, order[1]);
			break;
		case STARVE:
			old = spare_fds(0);
			break;
		case FEED:
			limit(RLIMIT_NOFILE, old);
			break;
		case CPU:
			cpu = twt_cpu();
			st_put(fd, &cpu, sizeof(cpu));
			break;
		case END:
			st_ok(mx_close_endpoint(ep));
			st_ok(mx_finalize());
			return 0;
		}
		st_put(fd, "", 1);
	}
}

/* The test. */
static struct twt_child child;
static struct st_name server_name;
static mx_endpoint_t ep;
static mx_endpoint_addr_t to;

static void begin(enum order what, uint64_t arg)
{
	uint64_t order[2] = {what, arg};

	st_put(child.fd, order, sizeof(order));
}

static void end(void)
{
	char c;

	st_get(child.fd, &c, 1);
}

static void check_traffic(const char *when)
{
	static const uint32_t sizes[] = {0, 40, 5000, 300000};
	static uint8_t out[300000], in[300000];

	begin(BOUNCE, sizeof(sizes) / sizeof(*sizes));
	for (uint64_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		mx_request_t recv = st_irecv(ep, in, sizeof(in), 1ull << 32 | i), send;
		mx_status_t s;

		twt_fill(out, sizes[i], pattern(i));
		send = st_isend(ep, out, sizes[i], to, i);
		st_finish(ep, &send);
		s = st_finish(ep, &recv);
		if (s.xfer_length != sizes[i] || twt_check(in, sizes[i], pattern(i)) != sizes[i])
			st_fail("%s: message of %u bytes came back wrong", when, sizes[i]);
	}
	end();
}

/* Opening with ever more descriptors: refused, refused, then done. */
static void open_starved(void)
{
	mx_return_t rc = MX_NO_RESOURCES;
	int used = st_fds(), refused = 0;

	for (int spare = 0; rc != MX_SUCCESS; spare++) {
		mx_endpoint_t other = (mx_endpoint_t)&rc;
		rlim_t old;

		st_at(spare);
		if (spare > 64)
			st_fail("64 descriptors are not enough for an endpoint");
		old = spare_fds(spare);
		rc = mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, ST_KEY, NULL, 0, &other);
		limit(RLIMIT_NOFILE, old);
		if (rc == MX_SUCCESS) {
			st_ok(mx_close_endpoint(other));
		} else if (rc != MX_NO_RESOURCES) {
			st_fail("opening an endpoint with %d descriptors to spare: %s", spare,
				mx_strerror(rc));
		} else {
			refused++;
			st_check(other == (mx_endpoint_t)&rc);
			if (st_fds() != used)
				st_fail("a refused open leaves %d descriptors behind",
					st_fds() - used);
		}
	}
	if (!refused)
		st_fail("an endpoint was opened without a descriptor to spare");
	check_traffic("after opening without descriptors");
}

/* The same for connecting, from a fresh endpoint each time. */
static void connect_starved(void)
{
	mx_return_t rc = MX_NO_RESOURCES;

	for (int spare = 0; rc != MX_SUCCESS; spare++) {
		mx_endpoint_t other = st_open(MX_ANY_ENDPOINT, NULL, 0);
		mx_endpoint_addr_t addr;
		mx_request_t req;
		rlim_t old;

		st_at(spare);
		if (spare > 64)
			st_fail("64 descriptors are not enough for a connection");
		old = spare_fds(spare);
		rc = mx_connect(other, server_name.nic, server_name.id, ST_KEY, 5, &addr);
		limit(RLIMIT_NOFILE, old);
		if (rc != MX_SUCCESS && rc != MX_NO_RESOURCES)
			st_fail("connecting with %d descriptors to spare: %s", spare,
				mx_strerror(rc));
		/* A refusal does not last. */
		if (rc != MX_SUCCESS)
			addr = st_connect(other, server_name);
		req = st_isend(other, "x", 1, addr, 1ull << 40);
		st_finish(other, &req);
		st_ok(mx_close_endpoint(other));
	}
	check_traffic("after connecting without descriptors");
}

static double server_cpu(void)
{
	double cpu;

	begin(CPU, 0);
	st_get(child.fd, &cpu, sizeof(cpu));
	end();
	return cpu;
}

/* The server has no descriptor for one more connection. */
static void accept_starved(void)
{
	mx_endpoint_t other = st_open(MX_ANY_ENDPOINT, NULL, 0);
	double before, used, at = twt_now();
	mx_endpoint_addr_t addr;
	mx_return_t rc;

	begin(STARVE, 0);
	end();
	rc = mx_connect(other, server_name.nic, server_name.id, ST_KEY, 1, &addr);
	if (twt_now() > at + 1 + 2 * ST_SOON)
		st_fail("mx_connect with a timeout of 1 s took %.1f s", twt_now() - at);
	if (rc == MX_BAD_CONNECTION_KEY || rc == MX_NIC_NOT_FOUND || rc == MX_BAD_ENDPOINT)
		st_fail("connecting to a peer without descriptors: %s", mx_strerror(rc));
	before = server_cpu();
	st_sleep(1);
	used = server_cpu() - before;
	if (used > 0.3)
		st_fail("an idle peer without descriptors used %.2f s of processor in 1 s", used);
	check_traffic("while the peer has no descriptors");
	begin(FEED, 0);
	end();
	st_connect(other, server_name);
	st_ok(mx_close_endpoint(other));
	check_traffic("after the peer had no descriptors");
}

static size_t address_space(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	st_check(f && fscanf(f, "%lu", &pages) == 1);
	fclose(f);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Posts until memory is short; returns how many were posted. */
static uint32_t post_starved(mx_request_t *req, int sends)
{
	static uint8_t buf[PENDING];
	mx_segment_t seg = {buf, PENDING};
	uint32_t n = 0;
	mx_return_t rc;

	twt_fill(buf, PENDING, pattern(PENDING));

	while (n < POSTS) {
		mx_request_t before = req[n];

		if (n % 1024 == 0)
			st_at(n);
		if (sends)
			rc = mx_issend(ep, &seg, 1, to, PENDING_SEND, &req[n], &req[n]);
		else
			rc = mx_irecv(ep, &seg, 1, PENDING_RECV, ST_ALL, &req[n], &req[n]);
		if (rc == MX_NO_RESOURCES) {
			st_check(req[n] == before);
			return n;
		}
		st_ok(rc);
		n++;
	}
	st_fail("%d %s fitted into %lu more bytes", POSTS, sends ? "sends" : "receives", HEADROOM);
}

static void take_arrivals(uint64_t base)
{
	uint8_t buf[ARRIVALS];

	for (uint64_t i = 0; i < ARRIVALS; i++) {
		mx_segment_t seg = {buf, sizeof(buf)};
		mx_request_t req;
		mx_status_t s;

		/* Whatever is next. */
		st_ok(mx_irecv(ep, &seg, 1, base, ~0xffffull, NULL, &req));
		s = st_finish(ep, &req);
		if (s.match_info != base + i || s.xfer_length != i ||
		    twt_check(buf, i, pattern(base + i)) != i)
			st_fail("of what came while memory was short, message %llu is wrong: "
				"%#llx, %u bytes",
				(unsigned long long)i, (unsigned long long)s.match_info,
				s.xfer_length);
	}
}

/*
 * Many more are sent than there is memory for: those that were taken in can be received,
 * which makes room for the next, and in the end all have come.
 */
static void flooded(void)
{
	uint64_t base = 4ull << 44;
	uint8_t buf[PENDING];
	rlim_t old;

	/* Requests and what else a receive needs are there before. */
	check_traffic("before the flood");
	old = limit(RLIMIT_AS, address_space() + HEADROOM);
	begin(FLOOD, base);
	for (uint64_t i = 0; i < FLOODED; i++) {
		mx_request_t req;
		mx_status_t s;

		/* It goes on sending while this one does not receive. */
		for (int k = 0; i % (FLOODED / 4) == 0 && k < 200; k++) {
			st_ok(mx_progress(ep));
			st_sleep(1e-3);
		}
		st_at(i);
		req = st_irecv(ep, buf, sizeof(buf), base + i);
		s = st_finish(ep, &req);
		st_eq(s.xfer_length, PENDING);
		st_eq(twt_check(buf, PENDING, pattern(base + i)), PENDING);
	}
	limit(RLIMIT_AS, old);
	end();
	check_traffic("after the flood");
}

static uint32_t memory_starved(mx_request_t *req, int sends)
{
	uint64_t base = (sends ? 3ull : 2ull) << 44;
	rlim_t old = limit(RLIMIT_AS, address_space() + HEADROOM);
	mx_endpoint_t other = NULL;
	mx_endpoint_addr_t addr;
	uint32_t n = post_starved(req, sends), result = 0;
	mx_return_t rc;

	/* While it is short: new endpoints, and what a peer sends. */
	rc = mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, ST_KEY, NULL, 0, &other);
	if (rc == MX_SUCCESS) {
		rc = mx_connect(other, server_name.nic, server_name.id, ST_KEY, 5, &addr);
		st_ok(mx_close_endpoint(other));
	}
	if (rc != MX_SUCCESS && rc != MX_NO_RESOURCES)
		st_fail("opening and connecting without memory: %s", mx_strerror(rc));
	begin(SEND_MANY, base);
	st_sleep(0.3);
	limit(RLIMIT_AS, old);
	take_arrivals(base);
	end();
	if (sends)
		begin(SINK, n);
	for (uint32_t i = 0; i < n; i++) {
		mx_request_t mate = NULL;
		mx_status_t s;

		if (i % 1024 == 0)
			st_at(i);
		if (!sends && i % 2) {
			st_ok(mx_cancel(ep, &req[i], &result));
			st_eq(result, 1);
			continue;
		}
		if (!sends)
			mate = st_isend(ep, NULL, 0, st_self(ep), PENDING_RECV);
		s = st_finish(ep, &req[i]);
		st_check(s.context == &req[i]);
		if (mate)
			st_finish(ep, &mate);
	}
	if (sends)
		end();
	check_traffic("after memory was short");
	return n;
}

/* What the stack may need must not count as new memory later. */
static void __attribute__((noinline)) touch_stack(void)
{
	volatile char room[512 * 1024];

	for (size_t i = 0; i < sizeof(room); i += 4096)
		room[i] = 1;
}

/* Why limiting the address space means nothing here; NULL if it does. */
static const char *no_memory_limit(void)
{
	const char *preload = getenv("LD_PRELOAD");

	if (ST_SANITIZED)
		return "a sanitizer needs the address space";
	if (preload && strstr(preload, "vgpreload"))
		return "valgrind needs the address space";
	return NULL;
}

int main(int argc, char **argv)
{
	struct st_name name;
	uint32_t recvs = 0, sends = 0, n = 0;
	const char *skip = no_memory_limit();
	mx_request_t *req;

	st_begin(argc, argv, "fault_memory", 5, NULL);
	twt_spawn(&child, server, NULL);
	st_role("main");
	st_check((req = calloc(POSTS, sizeof(*req))) != NULL);
	st_get(child.fd, &server_name, sizeof(server_name));
	st_up();
	ep = st_open(MX_ANY_ENDPOINT, NULL, 0);
	name = st_whose(st_self(ep));
	st_put(child.fd, &name, sizeof(name));
	to = st_connect(ep, server_name);
	end();
	check_traffic("at first");
	touch_stack();
	do {
		open_starved();
		connect_starved();
		accept_starved();
		if (!skip) {
			recvs = memory_starved(req, 0);
			sends = memory_starved(req, 1);
			flooded();
		}
		n++;
	} while (st_going());
	begin(END, 0);
	st_ok(mx_close_endpoint(ep));
	st_ok(mx_finalize());
	st_join(&child, 1);
	st_leftovers();
	free(req);
	st_done("%u rounds; memory ended after %u receives, %u sends", n, recvs, sends);
	if (skip)
		printf("fault_memory: skipped the half that limits memory: %s\n", skip);
	return skip ? ST_SKIP : 0;
}
