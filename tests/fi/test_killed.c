/* SPDX-License-Identifier: BSD-2-Clause */
/* A peer that is killed: what is under way to it ends, soon, and nothing is left of it. */
#include <dirent.h>
#include <poll.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "fi/fit.h"

TestSuite(fi_killed, .timeout = FIT_TIMEOUT);

#define KEY 5
#define BIG 1000000

static int ctx[6];

static unsigned descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	cr_assert(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Tests beside this one do not get the victim's id: the next victim has the same key. */
static void prepare(const char *way)
{
	const char *job = getenv("TAGWIRE_JOB");
	char own[64];

	fit_env(way);
	snprintf(own, sizeof(own), "%.40s-%d", job ? job : "", (int)getpid());
	setenv("TAGWIRE_JOB", own, 1);
}

static int victim(void *arg, int fd)
{
	static char memory[BIG];
	char name[64], in[8];
	size_t len = sizeof(name);
	struct fid_mr *mr;
	struct fit t;

	fit_open(&t, 1, arg, (struct fit_how){.caps = FI_RMA | FI_ATOMIC});
	fit_ok(fi_mr_reg(t.domain, memory, BIG, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &mr,
			 NULL));
	fit_ok(fi_getname(&t.ep[0]->fid, name, &len));
	twt_put(fd, &len, sizeof(len));
	twt_put(fd, name, len);
	fit_ok(fi_trecv(t.ep[0], in, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &ctx[1]));
	fit_good(&t, 0, &ctx[1]);
	twt_put(fd, "", 1);
	for (;;)
		pause();
}

/* The victim, and the connection to it. */
static fi_addr_t meet(struct fit *t, struct twt_child *c)
{
	char name[64], byte;
	fi_addr_t to;
	size_t len;

	cr_assert(twt_get(c->fd, &len, sizeof(len)) == 0 && twt_get(c->fd, name, len) == 0);
	fit_eq(fi_av_insert(t->av, name, 1, &to, 0, NULL), 1);
	fit_ok(fi_tsend(t->ep[0], name, 8, NULL, to, 1, &ctx[0]));
	fit_good(t, 0, &ctx[0]);
	cr_assert(twt_get(c->fd, &byte, 1) == 0);
	fit_ok(fi_read(t->ep[0], name, 8, NULL, to, 0, KEY, &ctx[0]));
	fit_good(t, 0, &ctx[0]);
	return to;
}

/* An operation that does not end, or with an error only. */
static bool ended_badly(struct fi_cq_err_entry e, unsigned *seen)
{
	unsigned i = (unsigned)((int *)e.op_context - ctx);

	cr_assert(i < 6 && !(*seen & 1u << i));
	*seen |= 1u << i;
	return e.err == FI_ECONNRESET;
}

FIT_TEST(fi_killed, all_ends)
{
	char *out = calloc(1, BIG), byte;
	double end = twt_now() + TWT_LONG, killed;
	uint64_t v = 1, was;
	unsigned seen = 0, before;
	struct twt_child c;
	struct fi_cq_err_entry e;
	struct fit t;
	fi_addr_t to;
	int status;

	prepare(*way);
	twt_spawn(&c, victim, *way);
	fit_open(&t, 1, *way, (struct fit_how){.caps = FI_RMA | FI_ATOMIC | FI_DIRECTED_RECV});
	fit_close(&t);
	before = descriptors();
	fit_open(&t, 1, *way, (struct fit_how){.caps = FI_RMA | FI_ATOMIC | FI_DIRECTED_RECV});
	to = meet(&t, &c);
	fit_ok(fi_trecv(t.ep[0], &byte, 1, NULL, FI_ADDR_UNSPEC, 1, 0, &ctx[0]));
	kill(c.pid, SIGSTOP);
	fit_eq(waitpid(c.pid, &status, WUNTRACED), c.pid);
	fit_ok(fi_trecv(t.ep[0], &byte, 1, NULL, to, 1, 0, &ctx[1]));
	fit_ok(fi_tsend(t.ep[0], out, BIG, NULL, to, 2, &ctx[2]));
	fit_ok(fi_fetch_atomic(t.ep[0], &v, 1, NULL, &was, NULL, to, 0, KEY, FI_UINT64, FI_SUM,
			       &ctx[3]));
	fit_none(&t, 0);
	kill(c.pid, SIGKILL);
	killed = twt_now();
	for (int i = 0; i < 3; i++)
		cr_assert(ended_badly(fit_next(&t, 0), &seen));
	fit_eq(seen, 0xe);
	cr_assert(twt_now() - killed < twt_patience(), "after %.1f s", twt_now() - killed);
	/* From then on nobody is there. */
	do {
		fit_ok(fi_tsend(t.ep[0], out, 8, NULL, to, 1, &ctx[4]));
		e = fit_next(&t, 0);
		cr_assert(twt_now() < end);
	} while (e.err != FI_EHOSTUNREACH);
	fit_ok(fi_read(t.ep[0], out, 8, NULL, to, 0, KEY, &ctx[4]));
	fit_bad(&t, 0, &ctx[4], FI_EHOSTUNREACH);
	fit_ok(fi_atomic(t.ep[0], &v, 1, NULL, to, 0, KEY, FI_UINT64, FI_SUM, &ctx[4]));
	fit_bad(&t, 0, &ctx[4], FI_EHOSTUNREACH);
	/* The receive for anybody still works. */
	fit_tsend(&t, 0, 0, &v, 1, 1);
	fit_good(&t, 0, &ctx[0]);
	twt_join(&c, TWT_LONG);
	fit_close(&t);
	cr_assert(descriptors() < before); /* that to the child is closed, too */
	free(out);
}

/*
 * Sends that are held back behind an atomic (FI_ORDER_SAW) end with it, or with their address. An
 * endpoint that did without that order sends.
 */
FIT_TEST(fi_killed, held)
{
	char *out = calloc(1, BIG), name[64];
	size_t len = sizeof(name);
	unsigned seen = 0;
	struct twt_child c;
	struct fit t;
	fi_addr_t to, again;
	uint64_t v = 1;

	prepare(*way);
	twt_spawn(&c, victim, *way);
	fit_open(&t, 1, *way, (struct fit_how){.caps = FI_RMA | FI_ATOMIC});
	t.info->tx_attr->msg_order = FI_ORDER_SAS;
	fit_add(&t);
	to = meet(&t, &c);
	fit_ok(fi_av_lookup(t.av, to, name, &len));
	fit_eq(fi_av_insert(t.av, name, 1, &again, 0, NULL), 1);
	fit_ok(fi_tsend(t.ep[0], out, 8, NULL, again, 2, &ctx[0]));
	fit_good(&t, 0, &ctx[0]);
	fit_ok(fi_read(t.ep[1], out, 8, NULL, to, 0, KEY, &ctx[0]));
	fit_good(&t, 1, &ctx[0]);
	kill(c.pid, SIGSTOP);
	fit_eq(waitpid(c.pid, NULL, WUNTRACED), c.pid);
	for (int i = 0; i < 2; i++)
		fit_ok(fi_atomic(t.ep[i], &v, 1, NULL, to, 0, KEY, FI_UINT64, FI_SUM, &ctx[1]));
	fit_ok(fi_tsend(t.ep[1], out, 8, NULL, to, 2, &ctx[2]));
	fit_good(&t, 1, &ctx[2]);
	fit_ok(fi_tsend(t.ep[0], out, 8, NULL, to, 2, &ctx[2]));
	fit_ok(fi_tsend(t.ep[0], out, BIG, NULL, to, 2, &ctx[3]));
	fit_ok(fi_tsend(t.ep[0], out, 8, NULL, again, 2, &ctx[4]));
	fit_none(&t, 0);
	fit_ok(fi_av_remove(t.av, &again, 1, 0));
	fit_bad(&t, 0, &ctx[4], FI_ECANCELED);
	kill(c.pid, SIGKILL);
	for (int i = 0; i < 3; i++)
		cr_assert(ended_badly(fit_next(&t, 0), &seen));
	fit_eq(seen, 0xe);
	fit_bad(&t, 1, &ctx[1], FI_ECONNRESET);
	twt_join(&c, TWT_LONG);
	fit_close(&t);
	free(out);
}

/* In the midst of puts and gets of much memory. */
FIT_TEST(fi_killed, amid_accesses)
{
	char *out = calloc(1, BIG);
	struct twt_child c;
	struct fit t;
	fi_addr_t to;
	unsigned begun = 0, over = 0;
	bool failed = false;

	prepare(*way);
	twt_spawn(&c, victim, *way);
	fit_open(&t, 1, *way, (struct fit_how){.caps = FI_RMA | FI_ATOMIC});
	to = meet(&t, &c);
	while (!failed || over < begun) {
		struct fi_cq_err_entry e;
		ssize_t rc;

		while (!failed && begun < over + 8) {
			rc = begun % 2 ? fi_read(t.ep[0], out, BIG, NULL, to, 0, KEY, &ctx[0])
				       : fi_write(t.ep[0], out, BIG, NULL, to, 0, KEY, &ctx[0]);
			if (rc == -FI_EAGAIN)
				break;
			fit_ok(rc);
			begun++;
		}
		if (over == 20)
			kill(c.pid, SIGKILL);
		e = fit_next(&t, 0);
		over++;
		cr_assert(!e.err || e.err == FI_ECONNRESET || e.err == FI_EHOSTUNREACH ||
				  e.err == FI_EFAULT,
			  "error %s", fi_strerror(e.err));
		failed |= e.err != 0;
	}
	cr_assert(over >= 20);
	twt_join(&c, TWT_LONG);
	fit_close(&t);
	free(out);
}

static int victim_later(void *arg, int fd)
{
	char byte;

	return twt_get(fd, &byte, 1) == 0 ? victim(arg, fd) : 1;
}

/* Whether the child has received; until then a send may find nobody, or the old process. */
static bool has_received(const struct twt_child *c)
{
	struct pollfd p = {c->fd, POLLIN, 0};
	char byte;

	return poll(&p, 1, 10) == 1 && twt_get(c->fd, &byte, 1) == 0;
}

/* An entry of the address vector leads to the next process that has the address. */
FIT_TEST(fi_killed, begins_again)
{
	char name[64], again[64], in[8] = "";
	double end = twt_now() + TWT_LONG;
	size_t len = sizeof(name), n;
	struct twt_child c[2];
	struct fi_cq_err_entry e;
	struct fit t;
	fi_addr_t to;

	prepare(*way);
	twt_spawn(&c[0], victim, *way);
	twt_spawn(&c[1], victim_later, *way);
	fit_open(&t, 1, *way, (struct fit_how){.caps = FI_RMA | FI_ATOMIC});
	to = meet(&t, &c[0]);
	fit_ok(fi_av_lookup(t.av, to, name, &len));
	kill(c[0].pid, SIGKILL);
	twt_join(&c[0], TWT_LONG);
	cr_assert(twt_put(c[1].fd, "b", 1) == 0 && twt_get(c[1].fd, &n, sizeof(n)) == 0 &&
		  twt_get(c[1].fd, again, n) == 0);
	cr_assert(n == len && memcmp(name, again, n) == 0, "it has another address");
	do {
		fit_ok(fi_tsend(t.ep[0], name, 8, NULL, to, 1, &ctx[0]));
		e = fit_next(&t, 0);
		cr_assert(!e.err || e.err == FI_ECONNRESET || e.err == FI_EHOSTUNREACH, "error %s",
			  fi_strerror(e.err));
		cr_assert(twt_now() < end);
	} while (!has_received(&c[1]));
	memset(in, 1, sizeof(in));
	fit_ok(fi_read(t.ep[0], in, 8, NULL, to, 0, KEY, &ctx[0]));
	fit_good(&t, 0, &ctx[0]);
	cr_assert(memcmp(in, (char[8]){0}, 8) == 0);
	kill(c[1].pid, SIGKILL);
	twt_join(&c[1], TWT_LONG);
	fit_close(&t);
}
