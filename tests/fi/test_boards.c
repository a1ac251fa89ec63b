/* SPDX-License-Identifier: BSD-2-Clause */
/* Boards, which of them reach other hosts, and peers that none reaches. */
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "fi/fit.h"

TestSuite(fi_boards, .timeout = FIT_TIMEOUT);

/*
 * A network of its own: a board that others reach, and what has no way to them: a bridge of
 * containers, and a cable's end without an address. Skips the test where that is not allowed.
 */
static void network(void)
{
	static const char commands[] =
		"ip link set lo up && ip link add end type veth peer name net0 &&"
		"ip addr add 10.116.119.1/24 dev net0 && ip link add docker0 type bridge &&"
		"ip addr add 172.17.0.1/16 dev docker0 && ip link set docker0 up &&"
		"ip link set end up && ip link set net0 up";
	static const char has_address[] = "for i in $(seq 600); do ip -6 addr show dev end | grep -q fe80 &&"
					  " exit; sleep 0.1; done; exit 1";

	if (!twt_unshare(CLONE_NEWNET) || system(commands) != 0)
		cr_skip_test("no network of one's own");
	cr_assert(system(has_address) == 0, "the cable's end has no address of its link");
}

/* The boards that hints with these capabilities get, in order, each with a + if it leads to others. */
static void boards_are(uint64_t caps, const char *setting, const char *expected)
{
	struct fi_info *h = fit_hints(&(struct fit_how){.caps = caps}), *info = NULL;
	char got[256] = "";

	setenv("TAGWIRE_BOARDS", setting, 1);
	fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, h, &info);
	for (struct fi_info *i = info; i; i = i->next) {
		strcat(strcat(got, i->domain_attr->name), i->caps & FI_REMOTE_COMM ? "+ " : " ");
		cr_assert(i->caps & FI_LOCAL_COMM);
		fit_eq(i->caps & FI_REMOTE_COMM, i->domain_attr->caps & FI_REMOTE_COMM);
	}
	cr_assert(strcmp(got, expected) == 0, "TAGWIRE_BOARDS=%s: %s, not %s", setting, got,
		  expected);
	fi_freeinfo(info);
	fi_freeinfo(h);
}

Test(fi_boards, order_and_reach)
{
	network();
	fit_env("self,shm");
	boards_are(0, "", "net0+ end docker0 lo ");
	boards_are(FI_REMOTE_COMM, "", "net0+ ");
	boards_are(FI_LOCAL_COMM, "", "net0+ end docker0 lo ");
	boards_are(0, "^docker0,^end", "net0+ lo ");
	boards_are(0, "net0,lo", "net0+ lo ");
	boards_are(0, "net0,lo,^net0", "lo+ ");
	boards_are(0, "docker0", "docker0+ ");
	boards_are(0, "^lo", "net0+ end docker0 ");
	boards_are(0, "net", "");
	boards_are(0, "net0,^net0", "");
}

/* What is written on the standard error from here on. */
static int catch_messages(void)
{
	FILE *f = tmpfile();

	cr_assert(f && dup2(fileno(f), STDERR_FILENO) >= 0);
	return fileno(f);
}

static void said(int fd, const char *words)
{
	char text[4096];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	cr_assert(n >= 0);
	text[n] = 0;
	cr_assert(strstr(text, words), "\"%s\" is not in: %s", words, text);
	cr_assert(!strstr(strstr(text, words) + 1, words), "twice: %s", text);
}

/* Endpoint 5 at an IPv4 address. */
static fi_addr_t add_peer(struct fit *t, uint64_t ip)
{
	struct {
		uint64_t nic_id;
		uint32_t endpoint_id, pad;
	} name = {0x0274ull << 32 | ip, 5, 0};
	fi_addr_t to;

	fit_eq(fi_av_insert(t->av, &name, 1, &to, 0, NULL), 1);
	return to;
}

/* A send has an error entry. What is injected has no context for one: the call says it. */
static void nobody_there(struct fit *t, uint64_t ip)
{
	fi_addr_t to = add_peer(t, ip);
	int context, v = 0;
	ssize_t rc;

	fit_ok(fi_tsend(t->ep[0], &v, sizeof(v), NULL, to, 1, &context));
	fit_bad(t, 0, &context, FI_EHOSTUNREACH);
	while ((rc = fi_tinject(t->ep[0], &v, sizeof(v), to, 1)) == -FI_EAGAIN)
		fi_cq_read(t->cq[0], NULL, 0);
	fit_eq(rc, -FI_EHOSTUNREACH);
	/* It is tried anew. */
	while ((rc = fi_inject(t->ep[0], &v, sizeof(v), to)) == -FI_EAGAIN)
		fi_cq_read(t->cq[0], NULL, 0);
	fit_eq(rc, -FI_EHOSTUNREACH);
	fit_none(t, 0);
}

Test(fi_boards, no_way)
{
	int fd = catch_messages();
	struct fit t;

	setenv("TAGWIRE_BOARDS", "lo", 1);
	fit_open(&t, 1, "self,shm,tcp", (struct fit_how){0});
	nobody_there(&t, 0x0a747709);
	said(fd, "board lo (");
	said(fd, "10.116.119.9");
	said(fd, "TAGWIRE_BOARDS");
	fit_close(&t);
}

/* Who injects learns of it when the system says so, some seconds later. */
Test(fi_boards, nobody_answers)
{
	struct fit t;
	int fd;

	network();
	fd = catch_messages();
	fit_open(&t, 1, "self,shm,tcp", (struct fit_how){.caps = FI_REMOTE_COMM});
	nobody_there(&t, 0x0a747709);
	said(fd, "board net0 (");
	fit_close(&t);
}

/* libfabric unloads it at exit, while its thread may run. */
Test(fi_boards, stays_loaded)
{
	char path[512];
	void *provider;

	fit_env("self,shm");
	snprintf(path, sizeof(path), "%s/libtagwire-fi.so", getenv("FI_PROVIDER_PATH"));
	provider = dlopen(path, RTLD_NOW);
	cr_assert(provider, "%s", dlerror());
	dlclose(provider);
	cr_assert(dlopen(path, RTLD_NOW | RTLD_NOLOAD), "it is gone");
}
