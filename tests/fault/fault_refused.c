/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A system that refuses calls, as containers do by seccomp: what can be done without is
 * done without, and everything else ends with a status and a line on standard error that
 * names the call. Never a hang, and never a silent loss of mutual exclusion. mx_info --check
 * names each call that it tries.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "mx_extensions.h"
#include "stress/stress.h"

#define LEN 3000000
/* How a process ends that could not open an endpoint. */
#define REFUSED 3

#define ONE(call) call, call

static const struct refusal {
	const char *name;
	unsigned first, last; /* numbers of calls */
	unsigned arg, value;  /* refused only if this argument is so; arg 0: always */
	bool needed;
	const char *tried; /* by mx_info --check, so named */
} calls[] = {
	{"memfd_create", ONE(SYS_memfd_create), 0, 0, true, "memfd_create"},
	{"seals", ONE(SYS_fcntl), 1, F_ADD_SEALS, true, "memfd_create"},
	{"eventfd", ONE(SYS_eventfd2), 0, 0, true, "eventfd"},
	{"timerfd_create", ONE(SYS_timerfd_create), 0, 0, true, "timerfd_create"},
	{"epoll_create1", ONE(SYS_epoll_create1), 0, 0, true, "epoll_create1"},
	{"membarrier", ONE(SYS_membarrier), 0, 0, false, "membarrier"},
	{"process_vm_readv", ONE(SYS_process_vm_readv), 0, 0, false, "process_vm_readv"},
	{"process_vm_writev", ONE(SYS_process_vm_writev), 0, 0, false, NULL},
	{"pidfd_open", ONE(434), 0, 0, false, "pidfd_open"},
	{"madvise", ONE(SYS_madvise), 0, 0, false, NULL},
	{"sched_setaffinity", ONE(SYS_sched_setaffinity), 0, 0, false, NULL},
};
static const int errors[] = {EPERM, ENOSYS};

/* Linux 5.4 has no call after clone3, and no advice that makes pages. */
static const struct refusal later_calls = {"calls after Linux 5.4", 436, 1000, .tried = NULL};
static const struct refusal later_advice = {"advice after Linux 5.4", ONE(SYS_madvise), 2, 23,
					    .tried = NULL};

/* From now on every thread of this process gets this error. */
static void refuse(const struct refusal *r, int error)
{
	unsigned word = r->arg ? offsetof(struct seccomp_data, args) + 8 * r->arg
			       : offsetof(struct seccomp_data, nr);
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, r->first, 0, 4),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, r->last, 3, 0),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, word),
		BPF_JUMP(BPF_JMP | (r->arg ? BPF_JEQ : BPF_JGE) | BPF_K, r->value, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {sizeof(code) / sizeof(*code), code};

	st_check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	st_check(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &prog) ==
		 0);
}

/* What two processes share. */
struct shared {
	atomic_uint meet;
	struct st_name name[2];
	atomic_int refused;
};
static struct shared *shared;

static void exchange(mx_endpoint_t ep, mx_endpoint_addr_t to, size_t len)
{
	uint8_t *out = malloc(len), *in = malloc(len);
	mx_request_t r = st_irecv(ep, in, len, len), s;

	st_check(out && in);
	twt_fill(out, len, len);
	s = st_isend(ep, out, len, to, len);
	st_finish(ep, &s);
	st_finish(ep, &r);
	st_eq(twt_check(in, len, len), len);
	free(in);
	free(out);
}

/* Into the other's memory, and from there, while both do the same. */
static void access_window(mx_endpoint_t ep, mx_endpoint_addr_t to, size_t len)
{
	uint8_t *window = malloc(len), *out = malloc(len), *in = malloc(len);
	mx_segment_t from = {out, (uint32_t)len}, into = {in, (uint32_t)len};
	uint64_t key = len;
	mx_request_t r;

	st_check(window && out && in);
	twt_fill(out, len, len);
	st_ok(mx_window_register(ep, window, len, MX_WINDOW_READ | MX_WINDOW_WRITE, &key));
	st_meet(&shared->meet, 2);
	st_ok(mx_put(ep, &from, 1, to, key, 0, 0, NULL, &r));
	st_finish(ep, &r);
	st_meet(&shared->meet, 2);
	/* The service thread may have written it: the thread sanitizer must see a lock. */
	st_ok(mx_progress(ep));
	st_eq(twt_check(window, len, len), len);
	st_ok(mx_get(ep, &into, 1, to, key, 0, 0, NULL, &r));
	st_finish(ep, &r);
	st_eq(twt_check(in, len, len), len);
	st_meet(&shared->meet, 2);
	st_ok(mx_window_deregister(ep, key));
	free(window);
	free(out);
	free(in);
}

static mx_return_t open_one(mx_endpoint_t *ep)
{
	mx_return_t rc;

	mx_set_error_handler(MX_ERRORS_RETURN);
	rc = mx_init();
	return rc == MX_SUCCESS ? mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, ST_KEY, NULL, 0, ep)
				: rc;
}

/* One of two processes. */
static void side(int rank)
{
	mx_endpoint_addr_t to;
	mx_endpoint_t ep;
	mx_return_t rc;

	rc = open_one(&ep);
	if (rc != MX_SUCCESS) {
		st_eq(rc, MX_NO_RESOURCES);
		atomic_store(&shared->refused, 1);
	} else {
		shared->name[rank] = st_whose(st_self(ep));
	}
	st_meet(&shared->meet, 2);
	if (atomic_load(&shared->refused))
		_exit(rc == MX_SUCCESS ? 0 : REFUSED);
	to = st_connect(ep, shared->name[!rank]);
	exchange(ep, to, 8);
	exchange(ep, to, LEN);
	access_window(ep, to, 8);
	access_window(ep, to, LEN);
	st_meet(&shared->meet, 2);
	st_ok(mx_close_endpoint(ep));
	st_ok(mx_finalize());
	_exit(0);
}

/* The first of them has the filter. */
static void one_refused(int rank, const struct refusal *r, int error)
{
	if (rank == 0)
		refuse(r, error);
	side(rank);
}

/* Both are on an old kernel. */
static void on_5_4(int rank, const struct refusal *r, int error)
{
	refuse(r, error);
	refuse(&later_advice, EINVAL);
	side(rank);
}

/* Runs a child whose standard error is kept in a file. */
static pid_t begin(int err, void (*run)(int, const struct refusal *, int), int rank,
		   const struct refusal *r, int error)
{
	pid_t pid = fork();

	st_check(pid >= 0);
	if (pid > 0)
		return pid;
	st_role("%s refused, process %d", r->name, rank);
	st_check(dup2(err, STDERR_FILENO) >= 0);
	run(rank, r, error);
	_exit(1);
}

static int ended(pid_t pid)
{
	int status;

	st_check(waitpid(pid, &status, 0) == pid);
	return status;
}

/* What was written to the file. */
static const char *said(int fd)
{
	static char text[8192];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	text[n < 0 ? 0 : n] = 0;
	return text;
}

static void meet(void (*run)(int, const struct refusal *, int), const struct refusal *r, int error)
{
	int err = memfd_create("stderr", 0), status;
	pid_t pid[2];

	st_check(err >= 0);
	atomic_store(&shared->meet, 0);
	atomic_store(&shared->refused, 0);
	for (int rank = 0; rank < 2; rank++)
		pid[rank] = begin(err, run, rank, r, error);
	status = ended(pid[0]);
	if (r->needed) {
		if (!WIFEXITED(status) || WEXITSTATUS(status) != REFUSED)
			st_fail("%s: status %x\n%s", r->name, status, said(err));
		if (!strstr(said(err), r->name) || !strstr(said(err), strerror(error)))
			st_fail("%s: nothing names it:\n%s", r->name, said(err));
	} else if (status != 0) {
		st_fail("%s: status %x\n%s", r->name, status, said(err));
	}
	st_eq(ended(pid[1]), 0);
	close(err);
}

/* mx_info of the build that this program is of, as a process with that filter. */
static void check_host(int rank, const struct refusal *r, int error)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	char *tests;

	(void)rank;
	path[n < 0 ? 0 : n] = 0;
	tests = strstr(path, "/tests/fault/");
	st_check(tests && tests + 64 < path + sizeof(path));
	strcpy(tests, "/bench/mx_info");
	st_check(dup2(STDERR_FILENO, STDOUT_FILENO) >= 0);
	refuse(r, error);
	execl(path, path, "--check", "--csv", NULL);
	st_fail("%s: %s", path, strerror(errno));
}

static void named_by_check(const struct refusal *r, int error)
{
	int err = memfd_create("stdout", 0), status;
	char line[200];

	st_check(err >= 0);
	status = ended(begin(err, check_host, 0, r, error));
	snprintf(line, sizeof(line), "\n%s,%s,", r->tried, strerror(error));
	if (!WIFEXITED(status) || WEXITSTATUS(status) != r->needed ||
	    !strstr(said(err), line))
		st_fail("mx_info --check without %s: status %x\n%s", r->name, status, said(err));
	close(err);
}

static void *look(void *arg)
{
	mx_endpoint_t *ep = arg;
	mx_request_t none;
	uint32_t found;

	st_ok(mx_ipeek(*ep, &none, &found));
	return NULL;
}

/* A filter that comes after mx_init() takes the lock's barrier away. */
static void late(int rank, const struct refusal *r, int error)
{
	mx_endpoint_t ep;
	pthread_t other;

	(void)rank;
	st_ok(open_one(&ep));
	look(&ep);
	refuse(r, error);
	st_check(pthread_create(&other, NULL, look, &ep) == 0);
	pthread_join(other, NULL);
	look(&ep);
	_exit(0);
}

static void barrier_taken_away(int error)
{
	static const struct refusal r = {"late membarrier", ONE(SYS_membarrier), .tried = NULL};
	int err = memfd_create("stderr", 0), status;

	st_check(err >= 0);
	status = ended(begin(err, late, 0, &r, error));
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
		st_fail("a late filter: status %x\n%s", status, said(err));
	if (!strstr(said(err), "membarrier"))
		st_fail("nothing names membarrier:\n%s", said(err));
	close(err);
}

int main(int argc, char **argv)
{
	unsigned n = sizeof(calls) / sizeof(*calls);

	st_begin(argc, argv, "fault_refused", 5, NULL);
	shared = st_shared(sizeof(*shared));
	for (unsigned i = 0; i < 2 * n; i++) {
		st_at(i);
		meet(one_refused, &calls[i / 2], errors[i % 2]);
		if (calls[i / 2].tried)
			named_by_check(&calls[i / 2], errors[i % 2]);
	}
	meet(on_5_4, &later_calls, ENOSYS);
	/* Under the thread sanitizer the lock is an ordinary one. */
	if (!TW_TSAN) {
		barrier_taken_away(EPERM);
		barrier_taken_away(ENOSYS);
	}
	st_leftovers();
	st_done("%u calls", n);
	return 0;
}
