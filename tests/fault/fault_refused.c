/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A system that refuses calls, as containers do by seccomp: what can be done without is
 * done without, and everything else ends with a status and a line on standard error that
 * names the call. Never a hang, and never a silent loss of mutual exclusion. mx_info --check
 * names each call that it tries.
 */
#include <errno.h>
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

static const struct {
	const char *name;
	int call;
	bool needed;
	bool tried; /* by mx_info --check */
} calls[] = {
	{"memfd_create", SYS_memfd_create, true, true},
	{"eventfd", SYS_eventfd2, true, true},
	{"timerfd_create", SYS_timerfd_create, true, true},
	{"epoll_create1", SYS_epoll_create1, true, true},
	{"membarrier", SYS_membarrier, false, true},
	{"process_vm_readv", SYS_process_vm_readv, false, true},
	{"process_vm_writev", SYS_process_vm_writev, false, false},
	{"pidfd_open", 434, false, true},
	{"madvise", SYS_madvise, false, false},
	{"sched_setaffinity", SYS_sched_setaffinity, false, false},
};
static const int errors[] = {EPERM, ENOSYS};

/* From now on every thread of this process gets this error from this call. */
static void refuse(int call, int error)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 1),
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

/* One of two processes; the first has the filter. */
static void side(int rank, int call, int error)
{
	mx_endpoint_addr_t to;
	mx_endpoint_t ep;
	mx_return_t rc;

	if (rank == 0)
		refuse(call, error);
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

/* Runs a child whose standard error is kept in a file. */
static pid_t begin(int err, const char *name, void (*run)(int, int, int), int rank, int call,
		   int error)
{
	pid_t pid = fork();

	st_check(pid >= 0);
	if (pid > 0)
		return pid;
	st_role("%s refused, process %d", name, rank);
	st_check(dup2(err, STDERR_FILENO) >= 0);
	run(rank, call, error);
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

static void one_call(unsigned which, int error)
{
	int err = memfd_create("stderr", 0), status;
	pid_t pid[2];

	st_check(err >= 0);
	atomic_store(&shared->meet, 0);
	atomic_store(&shared->refused, 0);
	for (int rank = 0; rank < 2; rank++)
		pid[rank] = begin(err, calls[which].name, side, rank, calls[which].call, error);
	status = ended(pid[0]);
	if (calls[which].needed) {
		if (!WIFEXITED(status) || WEXITSTATUS(status) != REFUSED)
			st_fail("%s: status %x\n%s", calls[which].name, status, said(err));
		if (!strstr(said(err), calls[which].name) || !strstr(said(err), strerror(error)))
			st_fail("%s: nothing names it:\n%s", calls[which].name, said(err));
	} else if (status != 0) {
		st_fail("%s: status %x\n%s", calls[which].name, status, said(err));
	}
	st_eq(ended(pid[1]), 0);
	close(err);
}

/* mx_info of the build that this program is of, as a process with that filter. */
static void check_host(int rank, int call, int error)
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
	refuse(call, error);
	execl(path, path, "--check", "--csv", NULL);
	st_fail("%s: %s", path, strerror(errno));
}

static void named_by_check(unsigned which, int error)
{
	int err = memfd_create("stdout", 0), status;
	char line[200];

	st_check(err >= 0);
	status = ended(begin(err, calls[which].name, check_host, 0, calls[which].call, error));
	snprintf(line, sizeof(line), "\n%s,%s,", calls[which].name, strerror(error));
	if (!WIFEXITED(status) || WEXITSTATUS(status) != calls[which].needed ||
	    !strstr(said(err), line))
		st_fail("mx_info --check without %s: status %x\n%s", calls[which].name, status,
			said(err));
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
static void late(int rank, int call, int error)
{
	mx_endpoint_t ep;
	pthread_t other;

	(void)rank;
	st_ok(open_one(&ep));
	look(&ep);
	refuse(call, error);
	st_check(pthread_create(&other, NULL, look, &ep) == 0);
	pthread_join(other, NULL);
	look(&ep);
	_exit(0);
}

static void barrier_taken_away(int error)
{
	int err = memfd_create("stderr", 0), status;

	st_check(err >= 0);
	status = ended(begin(err, "membarrier, late", late, 0, SYS_membarrier, error));
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
		one_call(i / 2, errors[i % 2]);
		if (calls[i / 2].tried)
			named_by_check(i / 2, errors[i % 2]);
	}
	/* Under the thread sanitizer the lock is an ordinary one. */
	if (!TW_TSAN) {
		barrier_taken_away(EPERM);
		barrier_taken_away(ENOSYS);
	}
	st_leftovers();
	st_done("%u calls", n);
	return 0;
}
