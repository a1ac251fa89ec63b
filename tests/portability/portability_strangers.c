/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes of one host that share no memory: of another user, of the other byte order, of
 * another version, in another network namespace. A connect ends, somebody says why, and where
 * tcp is asked for it is used.
 */
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fds.h"
#include "fault/raw.h"
#include "mx_extensions.h"
#include "stress/stress.h"

#define OWN_ID 1
#define ODD_ID 40
#define NOBODY 65534

/* What is written to standard error, until said() takes it back. */
static int terminal, hidden;

static void listen_to_errors(void)
{
	terminal = dup(2);
	hidden = memfd_create("errors", 0);
	st_check(terminal >= 0 && hidden >= 0 && dup2(hidden, 2) == 2);
}

static void said(const char *wanted)
{
	char text[1000] = "";

	dup2(terminal, 2);
	st_check(pread(hidden, text, sizeof(text) - 1, 0) >= 0);
	if (!strstr(text, wanted))
		st_fail("no word of \"%s\" in: %s", wanted, text);
	close(hidden);
	close(terminal);
}

static mx_endpoint_t open_endpoint(uint64_t *nic)
{
	mx_endpoint_t ep;

	st_up();
	ep = st_open(OWN_ID, NULL, 0);
	*nic = st_whose(st_self(ep)).nic;
	return ep;
}

static mx_status_code_t connected(mx_endpoint_t ep, uint64_t nic, uint32_t id)
{
	mx_status_t status = {0};
	mx_request_t q;

	st_ok(mx_iconnect(ep, nic, id, ST_KEY, 0, NULL, &q));
	st_check(st_poll(ep, &q, ST_LONG, &status));
	return status.code;
}

/* One that answers in words of the other byte order, and one that calls in them. */
static void answers(uint32_t magic, uint16_t version, const char *reason)
{
	struct tw_shm_hello h;
	mx_status_t status = {0};
	mx_endpoint_t ep;
	mx_request_t q;
	struct raw r;
	uint64_t nic;
	struct tw_sock_listener listener;

	listen_to_errors();
	ep = open_endpoint(&nic);
	st_check(tw_shm_listen(nic, ODD_ID, &listener) == TW_OK);
	st_ok(mx_iconnect(ep, nic, ODD_ID, ST_KEY, 0, NULL, &q));
	h = raw_hello(TW_SHM_REFUSE, nic, ODD_ID, ST_KEY);
	h.magic = magic;
	h.version = version;
	st_check(raw_accept(&r, listener.fd[TW_SOCK_OWN], &h, (int)ST_LONG * 1000));
	st_check(st_poll(ep, &q, ST_LONG, &status));
	said(reason);
	st_eq(status.code, MX_STATUS_ABORTED);
	raw_close(&r);
	tw_sock_listen_end(&listener);
}

static void calls(uint32_t magic, uint16_t version, const char *reason)
{
	struct tw_shm_hello h, reply = {0};
	struct pollfd p = {.events = POLLIN};
	uint64_t nic;
	int memory;

	listen_to_errors();
	open_endpoint(&nic);
	st_check(tw_shm_dial(nic, OWN_ID, &p.fd) == TW_OK);
	h = raw_hello(TW_SHM_CONNECT, nic, ODD_ID, ST_KEY);
	h.magic = magic;
	h.version = version;
	memory = memfd_create("memory", 0);
	st_check(raw_send(p.fd, &h, sizeof(h), &memory, 1));
	st_check(poll(&p, 1, (int)ST_LONG * 1000) == 1);
	st_eq(recv(p.fd, &reply, sizeof(reply), 0), sizeof(reply));
	said(reason);
	st_eq(reply.kind, TW_SHM_REFUSE);
	st_eq(reply.why, TW_EPROTO);
}

/* Another user has the endpoint open, over shared memory or not. */
static int nobody(void *arg, int fd)
{
	const char *modules = getenv("TAGWIRE_MODULES");
	mx_endpoint_t ep;
	char c;

	(void)arg;
	st_check(setresgid(NOBODY, NOBODY, NOBODY) == 0 && setresuid(NOBODY, NOBODY, NOBODY) == 0);
	c = !modules || access(modules, R_OK | X_OK) == 0;
	st_up();
	ep = st_open(ODD_ID, NULL, 0);
	st_check(twt_put(fd, &c, 1) == 0 && twt_get(fd, &c, 1) == 0);
	st_ok(mx_close_endpoint(ep));
	st_ok(mx_finalize());
	return 0;
}

static void another_user(const char *providers, mx_status_code_t code)
{
	struct twt_child child;
	mx_endpoint_t ep;
	uint64_t nic;
	char c;

	setenv("TAGWIRE_PROVIDERS", providers, 1);
	setenv("TAGWIRE_AUTH", "none", 1);
	twt_spawn_here(&child, nobody, NULL);
	st_check(twt_get(child.fd, &c, 1) == 0);
	listen_to_errors();
	ep = open_endpoint(&nic);
	if (c || code != MX_STATUS_SUCCESS)
		st_eq(connected(ep, nic, ODD_ID), code);
	else
		puts("between users, by tcp: skipped, the modules cannot be read");
	said(code == MX_STATUS_SUCCESS ? "" : "another user");
	st_check(twt_put(child.fd, &c, 1) == 0);
	st_eq(twt_join(&child, (int)ST_LONG), 0);
}

/*
 * One of two in network namespaces that no wire joins. Both have the host's name; each finds
 * nobody, neither by the id of the other's board nor by its own.
 */
static void finds_nobody(int fd, uint32_t own, uint32_t other)
{
	uint64_t nic, theirs;
	mx_endpoint_t ep;

	st_up();
	ep = st_open(own, NULL, 0);
	nic = st_whose(st_self(ep)).nic;
	st_check(twt_put(fd, &nic, sizeof(nic)) == 0 && twt_get(fd, &theirs, sizeof(nic)) == 0);
	st_check(nic != theirs);
	st_eq(connected(ep, theirs, other), MX_STATUS_ENDPOINT_UNKNOWN);
	st_eq(connected(ep, nic, other), MX_STATUS_ENDPOINT_CLOSED);
	st_check(twt_put(fd, &nic, 1) == 0 && twt_get(fd, &nic, 1) == 0);
	st_ok(mx_close_endpoint(ep));
	st_ok(mx_finalize());
}

static int unwired(void *arg, int fd)
{
	char moved = twt_unshare(CLONE_NEWNET);

	(void)arg;
	st_check(twt_put(fd, &moved, 1) == 0);
	if (moved)
		finds_nobody(fd, ODD_ID, OWN_ID);
	return 0;
}

static void another_network(void)
{
	struct twt_child child;
	char moved;

	twt_spawn_here(&child, unwired, NULL);
	st_check(twt_get(child.fd, &moved, 1) == 0);
	if (moved)
		finds_nobody(child.fd, OWN_ID, ODD_ID);
	else
		puts("between networks: skipped, the system makes no namespace for us");
	st_eq(twt_join(&child, (int)ST_LONG), 0);
}

/* Each in a process of its own: a reason is said once. */
static int one(void *arg, int fd)
{
	int number = *(int *)arg;
	char job[32];

	(void)fd;
	snprintf(job, sizeof(job), "strangers-%d", (int)getpid());
	setenv("TAGWIRE_JOB", job, 1);
	switch (number) {
	case 0:
		answers(__builtin_bswap32(TW_SHM_MAGIC), __builtin_bswap16(TW_SHM_VERSION),
			"byte order");
		break;
	case 1:
		calls(__builtin_bswap32(TW_SHM_MAGIC), __builtin_bswap16(TW_SHM_VERSION),
		      "byte order");
		break;
	case 2:
		answers(TW_SHM_MAGIC, TW_SHM_VERSION + 1, "version");
		break;
	case 3:
		calls(TW_SHM_MAGIC, TW_SHM_VERSION + 1, "version");
		break;
	case 4:
		another_network();
		break;
	case 5:
		another_user("self,shm,tcp", MX_STATUS_REJECTED);
		break;
	case 6:
		another_user("self,tcp", MX_STATUS_SUCCESS);
		break;
	}
	return 0;
}

int main(int argc, char **argv)
{
	int cases = geteuid() == 0 ? 7 : 5;

	st_begin(argc, argv, "portability_strangers", 0, NULL);
	for (int i = 0; i < cases; i++) {
		struct twt_child child;

		twt_spawn_here(&child, one, &i);
		st_check(twt_join(&child, (int)ST_LONG) == 0);
	}
	st_done("%d kinds of strangers", cases);
	return 0;
}
