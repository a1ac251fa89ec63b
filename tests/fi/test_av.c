/* SPDX-License-Identifier: BSD-2-Clause */
/* Address vectors: indices that are used again, several of one address, strings, event queues. */
/* fi_av_bind: deprecated in libfabric 2, in use by clients of 1.x. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <time.h>

#include "fi/fit.h"

TestSuite(fi_av, .timeout = FIT_TIMEOUT);

static int ctx[4];

/* The address of an endpoint that need not exist. */
static char *name_of(char *name, unsigned host, unsigned endpoint)
{
	snprintf(name, 64, "tagwire://0274%08x/%u", host, endpoint);
	return name;
}

static fi_addr_t insert(struct fid_av *av, unsigned host)
{
	char name[64];
	fi_addr_t a;

	fit_eq(fi_av_insert(av, name_of(name, host, host % 1000), 1, &a, 0, NULL), 1);
	return a;
}

static void must_lead_to(struct fid_av *av, fi_addr_t a, unsigned host)
{
	char name[64], found[64] = "";
	size_t n = sizeof(found);

	fit_ok(fi_av_lookup(av, a, found, &n));
	cr_assert_str_eq(found, name_of(name, host, host % 1000));
}

static double cpu(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* So many are inserted, then removed in another order, and inserted again. */
static double seconds_for(struct fid_av *av, unsigned n)
{
	fi_addr_t *a = malloc(n * sizeof(*a));
	double start = cpu();

	for (unsigned i = 0; i < n; i++)
		a[i] = insert(av, i);
	for (unsigned i = 0; i < n; i++)
		fit_ok(fi_av_remove(av, &a[(i * 7919ull) % n], 1, 0));
	for (unsigned i = 0; i < n; i++)
		cr_assert((a[i] = insert(av, i)) < n, "index %llu", (unsigned long long)a[i]);
	for (unsigned i = 0; i < n; i++)
		must_lead_to(av, a[i], i);
	fit_ok(fi_av_remove(av, a, n, 0));
	free(a);
	return cpu() - start;
}

/* Both types use indices again, and their time is in proportion to what is done. */
Test(fi_av, indices)
{
	for (enum fi_av_type type = FI_AV_MAP; type <= FI_AV_TABLE; type++) {
		struct fi_av_attr attr = {.type = type};
		struct fid_av *av;
		struct fit t;
		double few, many;

		fit_open(&t, 0, "self,shm", (struct fit_how){.addr_format = FI_ADDR_STR});
		fit_ok(fi_av_open(t.domain, &attr, &av, NULL));
		few = seconds_for(av, 2000);
		many = seconds_for(av, 40000);
		cr_assert(many < 100 * few, "%g and %g s", few, many);
		fit_ok(fi_close(&av->fid));
		fit_close(&t);
	}
}

/* A table counts up until something is removed. */
Test(fi_av, reuse)
{
	struct fi_av_attr attr = {.type = FI_AV_TABLE};
	fi_addr_t a[3];
	struct fid_av *av;
	struct fit t;

	fit_open(&t, 0, "self,shm", (struct fit_how){.addr_format = FI_ADDR_STR});
	fit_ok(fi_av_open(t.domain, &attr, &av, NULL));
	for (unsigned i = 0; i < 3; i++)
		fit_eq(a[i] = insert(av, i), i);
	fit_ok(fi_av_remove(av, &a[1], 1, 0));
	fit_eq(fi_av_remove(av, &a[1], 1, 0), -FI_EINVAL);
	fit_eq(insert(av, 7), 1);
	fit_eq(insert(av, 8), 3);
	must_lead_to(av, 0, 0);
	must_lead_to(av, 1, 7);
	must_lead_to(av, 2, 2);
	fit_ok(fi_close(&av->fid));
	fit_close(&t);
}

static void must_come_from(struct fit *t, fi_addr_t expected)
{
	struct fi_cq_tagged_entry e;
	fi_addr_t from = 12345;
	ssize_t n;
	int v;

	fit_ok(fi_trecv(t->ep[1], &v, 4, NULL, FI_ADDR_UNSPEC, 1, 0, &ctx[1]));
	fit_tsend(t, 0, 1, &v, 4, 1);
	do
		n = fi_cq_readfrom(t->cq[1], &e, 1, &from);
	while (n == -FI_EAGAIN);
	fit_eq(n, 1);
	fit_eq(from, expected);
}

/* Of several indices of one address the oldest names a source; each works until it is removed. */
FIT_TEST(fi_av, several_of_one)
{
	char name[64];
	size_t len = sizeof(name);
	fi_addr_t more[2];
	struct fit t;
	int v = 1;

	fit_open(&t, 2, *way, (struct fit_how){.caps = FI_SOURCE});
	fit_ok(fi_getname(&t.ep[0]->fid, name, &len));
	for (int i = 0; i < 2; i++)
		fit_eq(fi_av_insert(t.av, name, 1, &more[i], 0, NULL), 1);
	must_come_from(&t, t.to[0]);
	fit_ok(fi_av_remove(t.av, &more[0], 1, 0));
	must_come_from(&t, t.to[0]);
	fit_ok(fi_av_remove(t.av, &t.to[0], 1, 0));
	must_come_from(&t, more[1]);
	fit_ok(fi_trecv(t.ep[0], &v, 4, NULL, FI_ADDR_UNSPEC, 2, 0, &ctx[0]));
	fit_ok(fi_tinject(t.ep[1], &v, 4, more[1], 2));
	fit_good(&t, 0, &ctx[0]);
	fit_ok(fi_av_remove(t.av, &more[1], 1, 0));
	must_come_from(&t, FI_ADDR_NOTAVAIL);
	fit_close(&t);
}

/* The string of an IPv4 address is libfabric's, and leads back to the endpoint. */
Test(fi_av, inet_string)
{
	struct sockaddr_in name, back;
	char text[64], host[32], found[64];
	size_t len = sizeof(name), n = sizeof(text);
	unsigned port;
	fi_addr_t a;
	struct fit t;

	fit_open(&t, 1, "self,shm", (struct fit_how){.addr_format = FI_SOCKADDR_IN});
	fit_ok(fi_getname(&t.ep[0]->fid, &name, &len));
	cr_assert(fi_av_straddr(t.av, &name, text, &n) == text);
	fit_eq(n, strlen(text) + 1);
	fit_eq(sscanf(text, "fi_sockaddr_in://%31[0-9.]:%u", host, &port), 2);
	cr_assert_str_eq(host, inet_ntop(AF_INET, &name.sin_addr, found, sizeof(found)));
	fit_eq(port, ntohs(name.sin_port));
	fit_eq(fi_av_insertsvc(t.av, text, "0", &a, 0, NULL), 1);
	len = sizeof(back);
	fit_ok(fi_av_lookup(t.av, a, &back, &len));
	cr_assert(memcmp(&back, &name, sizeof(name)) == 0);
	/* Too little room: what fits, and how much there is. */
	n = 5;
	cr_assert(fi_av_straddr(t.av, &name, found, &n) && strncmp(found, "fi_s", 5) == 0);
	fit_eq(n, strlen(text) + 1);
	fit_close(&t);
}

static void next_event(struct fid_eq *eq, void *context, uint64_t good)
{
	struct fi_eq_entry e;
	uint32_t event;

	fit_eq(fi_eq_sread(eq, &event, &e, sizeof(e), 1000 * TWT_LONG, 0), sizeof(e));
	cr_assert(event == FI_AV_COMPLETE && e.context == context);
	fit_eq(e.data, good);
}

/* Names that count up; and with an event queue they are reported there, as others are. */
Test(fi_av, services)
{
	struct fi_av_attr attr = {.type = FI_AV_TABLE, .flags = FI_EVENT};
	struct fi_eq_attr how = {.wait_obj = FI_WAIT_FD};
	struct fi_eq_err_entry bad;
	fi_addr_t a[3];
	struct fid_eq *eq;
	struct fid_av *av;
	struct fit t;
	int errors[1];

	fit_open(&t, 0, "self,shm", (struct fit_how){0});
	fit_eq(fi_av_insertsym(t.av, "localhost", 1, "20", 3, a, 0, NULL), 3);
	for (unsigned i = 0; i < 3; i++)
		fit_eq(a[i], i);
	fit_eq(fi_av_insertsvc(t.av, "no.such.host.invalid", "1", a, FI_SYNC_ERR, errors), 0);
	cr_assert(errors[0] && a[0] == FI_ADDR_NOTAVAIL);
	fit_ok(fi_av_open(t.domain, &attr, &av, NULL));
	fit_eq(fi_av_insertsvc(av, "localhost", "1", a, 0, NULL), -FI_ENOEQ);
	fit_ok(fi_eq_open(t.fabric, &how, &eq, NULL));
	fit_ok(fi_av_bind(av, &eq->fid, 0));
	fit_ok(fi_av_insertsvc(av, "localhost", "1", a, 0, &ctx[1]));
	next_event(eq, &ctx[1], 1);
	fit_ok(fi_av_insertsym(av, "localhost", 1, "7", 2, a, 0, &ctx[2]));
	next_event(eq, &ctx[2], 2);
	fit_ok(fi_av_insertsvc(av, "no.such.host.invalid", "1", a, 0, &ctx[3]));
	fit_eq(fi_eq_readerr(eq, &bad, 0), sizeof(bad));
	cr_assert(bad.context == &ctx[3] && bad.fid == &av->fid && bad.data == 0);
	next_event(eq, &ctx[3], 0);
	fit_ok(fi_close(&av->fid));
	fit_ok(fi_close(&eq->fid));
	fit_close(&t);
}
