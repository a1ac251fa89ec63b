/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bare cache line between the two ends. Ends that one process forked share its memory; others
 * of one host, as a launcher starts them, share a memory file of the leading end.
 */
#include "line.h"

#include <fcntl.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "measure.h"

struct bench_line {
	_Alignas(64) _Atomic(uint64_t) turn;
	_Alignas(64) double us; /* of the last measurement, for the leading end */
	uint64_t cookie;	/* tells it from another process's file */
	_Atomic(uint32_t) shared;
};

static struct bench_line *line_map(int fd)
{
	void *p = mmap(NULL, sizeof(struct bench_line), PROT_READ | PROT_WRITE,
		       MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

void bench_line_here(struct bench *b)
{
	b->line = line_map(-1);
	if (!b->line)
		bench_fail("no memory");
}

/* A mapped file for the other end to find by its number, or -1. */
static int line_file(struct bench *b, uint64_t cookie)
{
	int fd = memfd_create("bench-line", MFD_CLOEXEC);

	if (fd >= 0 && ftruncate(fd, sizeof(struct bench_line)) == 0)
		b->line = line_map(fd);
	if (b->line)
		b->line->cookie = cookie;
	return fd;
}

void bench_line_share(struct bench *b)
{
	struct bench_order order = {.op = BENCH_OP_SHARE};
	uint32_t board;
	int fd;

	if (b->line || mx_nic_id_to_board_number(b->peer_nic, &board) != MX_SUCCESS ||
	    getrandom(&order.arg[2], sizeof order.arg[2], 0) != sizeof order.arg[2])
		return;
	fd = line_file(b, order.arg[2]);
	if (b->line) {
		order.arg[0] = (uint64_t)getpid();
		order.arg[1] = (uint64_t)fd;
		bench_lead(b, &order);
		/* It may be in another namespace. */
		if (!atomic_load(&b->line->shared)) {
			munmap(b->line, sizeof(struct bench_line));
			b->line = NULL;
		}
	}
	if (fd >= 0)
		close(fd);
}

static void line_attach(struct bench *b, const struct bench_order *order)
{
	char path[64];
	struct stat st;
	int fd;

	snprintf(path, sizeof path, "/proc/%llu/fd/%llu", (unsigned long long)order->arg[0],
		 (unsigned long long)order->arg[1]);
	fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == sizeof(struct bench_line))
		b->line = line_map(fd);
	close(fd);
	if (b->line && b->line->cookie == order->arg[2]) {
		atomic_store(&b->line->shared, 1);
	} else if (b->line) {
		munmap(b->line, sizeof(struct bench_line));
		b->line = NULL;
	}
}

static void line_wait(struct bench *b, uint64_t turn)
{
	struct bench_spin spin = {.polls = 0};

	/* No pause instruction: it would be what is measured. */
	while (atomic_load_explicit(&b->line->turn, memory_order_acquire) != turn)
		bench_spin(b, &spin);
}

static double line_run(struct bench *b, void *arg, uint64_t n)
{
	struct bench_order order = {.op = BENCH_OP_LINE, .arg = {n}};
	double start;

	(void)arg;
	atomic_store(&b->line->turn, 0);
	bench_lead(b, &order);
	start = bench_now();
	for (uint64_t i = 0; i < n; i++) {
		atomic_store_explicit(&b->line->turn, 2 * i + 1, memory_order_release);
		line_wait(b, 2 * i + 2);
	}
	return bench_now() - start;
}

static void line_follow(struct bench *b, const struct bench_order *order)
{
	if (!b->line)
		bench_fail("the other end asks for what needs one host");
	bench_ready(b);
	for (uint64_t i = 0; i < order->arg[0]; i++) {
		line_wait(b, 2 * i + 1);
		atomic_store_explicit(&b->line->turn, 2 * i + 2, memory_order_release);
	}
}

bool bench_line_ordered(struct bench *b, const struct bench_order *order)
{
	if (order->op == BENCH_OP_SHARE) {
		line_attach(b, order);
		bench_ready(b);
	} else if (order->op == BENCH_OP_LINE) {
		line_follow(b, order);
	} else {
		return false;
	}
	return true;
}

double bench_line(struct bench *b)
{
	double seconds = fmin(b->o.seconds / 5, 0.005);
	uint64_t n;

	if (!b->line)
		return NAN;
	if (b->line->us == 0)
		n = bench_calibrate(b, line_run, NULL, seconds);
	else
		n = 1 + (uint64_t)(seconds / (b->line->us * 2e-6));
	b->line->us = line_run(b, NULL, n) / (double)n / 2 * 1e6;
	return b->line->us;
}

double bench_line_after(struct bench *b, struct bench_lines *l, double before)
{
	return bench_lines_add(l, before, bench_line(b));
}
