/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Other users' processes cannot stop mx_why: a segment that becomes shorter while it is read, pipes
 * in place of memory, a name that would command the terminal, lists without end, a crowd of peers.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/stats.h"
#include "engine/layout.h"
#include "lib/check.h"
#include "lib/twt.h"
#include "mcapi/node.h"
#include "mrapi/mrapi_internal.h"

#define NOBODY 65534
#define ROUNDS 20
#define SEGMENT "tagwire-mrapi"
#define PENDING 4096u
#define PEERS 65536u

static void be_another_user(void)
{
	if (geteuid() == 0)
		check(setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
		      setresuid(NOBODY, NOBODY, NOBODY) == 0);
	check(prctl(PR_SET_DUMPABLE, 1) == 0);
	/* The change of user has undone it. */
	check(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
}

static struct tw_mrapi_segment *segment(int fd)
{
	void *p;

	check(fd >= 0 && ftruncate(fd, sizeof(struct tw_mrapi_segment)) == 0);
	p = mmap(NULL, sizeof(struct tw_mrapi_segment), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	check(p != MAP_FAILED);
	return p;
}

static int shrinks(void *arg, int fd)
{
	int file = memfd_create(SEGMENT, 0);
	struct tw_mrapi_segment *s = segment(file);

	(void)arg;
	be_another_user();
	check(twt_put(fd, "y", 1) == 0);
	for (;;) {
		s->magic = TW_MRAPI_MAGIC;
		s->version = TW_MRAPI_VERSION;
		usleep(50);
		check(ftruncate(file, 0) == 0);
		usleep(50);
		check(ftruncate(file, sizeof(*s)) == 0);
	}
}

/* A pipe whose name is that of deleted memory: no mount has it any more. */
static void make_pipe(const char *dir, const char *name)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/memfd:%s", dir, name);
	check(mkfifo(path, 0666) == 0);
	check(open(path, O_RDONLY | O_NONBLOCK) >= 0); /* an open to read waits */
	check(unlink(path) == 0);
}

static int pipes(void *arg, int fd)
{
	char dir[] = "/tmp/tagwire-why-XXXXXX", may = 'y';

	(void)arg;
	check(mkdtemp(dir) != NULL);
	if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("none", dir, "tmpfs", 0, NULL) != 0) {
		may = 'n';
	} else {
		make_pipe(dir, SEGMENT);
		make_pipe(dir, TW_STATS_NAME);
		check(umount2(dir, MNT_DETACH) == 0);
	}
	rmdir(dir);
	/* Mapped as well, or nobody would look for the descriptor. */
	segment(memfd_create(SEGMENT, 0));
	be_another_user();
	check(twt_put(fd, &may, 1) == 0);
	for (;;)
		pause();
}

static int commands(void *arg, int fd)
{
	(void)arg;
	segment(memfd_create(SEGMENT, 0));
	be_another_user();
	check(prctl(PR_SET_NAME, "\033[2Jgone") == 0);
	check(twt_put(fd, "y", 1) == 0);
	for (;;)
		pause();
}

/* Shows the endpoint, whatever else it says. */
static void show(struct tw_ep *ep, const char *interface)
{
	static struct tw_match_head match = {.all = {&match.all, &match.all}};
	static struct tw_slot_entry slot;
	int file = memfd_create(TW_STATS_NAME, 0);
	struct tw_stats s = {.magic = TW_STATS_MAGIC,
			     .size = sizeof(s),
			     .pid = (uint32_t)getpid(),
			     .nic_id = 1,
			     .endpoint_id = 1,
			     .session = 1,
			     .layout = tw_layout(),
			     .self = (uintptr_t)ep};

	strcpy(s.interface, interface);
	ep->slot = &slot;
	ep->match = (struct tw_match *)&match;
	ep->host.self = (struct tw_ident){.nic_id = 1, .endpoint_id = 1, .session = 1};
	check(write(file, &s, sizeof(s)) == sizeof(s));
}

/* The lists of an MCAPI node, each entry of which leads to itself. */
static int endless(void *arg, int fd)
{
	static struct tw_mcapi_mreq sent = {.state = TW_MCAPI_Q_DONE,
					    .link = {&sent.link, &sent.link}};
	static struct tw_mcapi_dest to = {.next = &to, .sends = {&sent.link, &sent.link}};
	static struct tw_mcapi_node node;
	static struct tw_ep ep = {.owner = &node};

	(void)arg;
	for (unsigned i = 0; i < TW_MCAPI_DESTS; i++)
		node.dests[i] = &to;
	show(&ep, "mcapi");
	be_another_user();
	check(twt_put(fd, "y", 1) == 0);
	for (;;)
		pause();
}

/* Many receives from any of many peers, none of which was reached. */
static int crowded(void *arg, int fd)
{
	static struct tw_req reqs[PENDING];
	static char *chunks[PENDING / TW_POOL_CHUNK];
	static struct tw_ep ep = {.reqs = {.chunks = chunks, .nchunks = PENDING / TW_POOL_CHUNK},
				  .nwaiting = 1};
	static struct tw_peer peer = {
		.ep = &ep, .addr.where = 7 << 16, .state = TW_PEER_NONE, .why = TW_S_TIMEOUT};
	static struct tw_peer *peers[PEERS];

	(void)arg;
	for (unsigned i = 0; i < PENDING; i++) {
		chunks[i / TW_POOL_CHUNK] = (char *)&reqs[i / TW_POOL_CHUNK * TW_POOL_CHUNK];
		reqs[i] = (struct tw_req){.obj = {.index = i, .gen = 1},
					  .outcome = 1,
					  .kind = TW_RECV,
					  .flags = TW_R_POSTED};
	}
	for (unsigned i = 0; i < PEERS; i++)
		peers[i] = &peer;
	ep.peers = peers;
	ep.npeers = PEERS;
	show(&ep, "mx");
	be_another_user();
	check(twt_put(fd, "y", 1) == 0);
	for (;;)
		pause();
}

/* It ends by itself, and prints nothing but text. */
static void look(pid_t pid)
{
	char command[4096], text[4096];
	size_t n;
	int code;
	FILE *f;

	snprintf(command, sizeof(command),
		 "timeout %d '%s/bench/mx_why' --interval 0.01 --pid %d 2>&1", TWT_LONG,
		 getenv("builddir") ? getenv("builddir") : ".", (int)pid);
	f = popen(command, "r");
	check(f != NULL);
	n = fread(text, 1, sizeof(text), f);
	check(!memchr(text, '\033', n));
	while (fgetc(f) != EOF)
		;
	code = pclose(f);
	check(WIFEXITED(code) && WEXITSTATUS(code) <= 3);
}

/* False: the system does not let the other do it. */
static bool stands(const char *name, int (*other)(void *arg, int fd), int rounds)
{
	struct twt_child child;
	char may;

	what = name;
	twt_spawn_here(&child, other, NULL);
	check(twt_get(child.fd, &may, 1) == 0);
	for (int i = 0; i < rounds && may == 'y'; i++)
		look(child.pid);
	kill(child.pid, SIGKILL);
	waitpid(child.pid, NULL, 0);
	printf("%s: %s\n", name, may == 'y' ? "no harm" : "not permitted here");
	return may == 'y';
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	stands("a segment that becomes shorter", shrinks, ROUNDS);
	stands("a name with commands", commands, 1);
	stands("lists without end", endless, 1);
	stands("a crowd of peers", crowded, 1);
	return stands("pipes", pipes, 1) ? 0 : 77;
}
