/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs that do what a library does not expect. They close all descriptors, as one that becomes
 * a daemon; they leave by exit() while an endpoint is open and a thread waits; they cancel threads
 * inside calls; they let peers write to memory that is read-only or that the kernel reads for
 * nobody. None of it hangs, crashes, or touches what is the program's.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/module.h"
#include "mx_extensions.h"
#include "stress/stress.h"

#ifndef SYS_memfd_secret
#define SYS_memfd_secret 447
#endif

#define LEN (3 << 18)
#define STATUS 3 /* of a program that ends by exit() */

/* What the two processes of a case share. */
struct shared {
	atomic_uint meet;
	struct st_name name[2];
	atomic_int secret; /* there is such memory */
};
static struct shared *shared;

struct side {
	int rank;
	mx_endpoint_t ep;
	mx_endpoint_addr_t to;
};

static void meet(void)
{
	st_meet(&shared->meet, 2);
}

static void open_side(struct side *s)
{
	st_up();
	s->ep = st_open((uint32_t)(1 + s->rank), NULL, 0);
	shared->name[s->rank] = st_whose(st_self(s->ep));
	meet();
	s->to = st_connect(s->ep, shared->name[!s->rank]);
	meet();
}

static void close_side(struct side *s)
{
	meet();
	st_ok(mx_close_endpoint(s->ep));
	st_ok(mx_finalize());
}

/* Descriptors ----------------------------------------------------------------- */

enum { MANY = 64 };

static void descriptors(struct side *s)
{
	int file[MANY], most;
	struct stat st;

	open_side(s);
	if (s->rank == 1) {
		/* Its peer is as good as gone, so it does not wait for it. */
		st_ok(mx_close_endpoint(s->ep));
		st_ok(mx_finalize());
		return;
	}
	file[0] = memfd_create("program", 0);
	st_check(file[0] >= 0);
	st_check(fcntl(file[0], F_DUPFD, 900) >= 900);
	most = 900;
	for (int fd = 3; fd < most; fd++)
		close(fd);
	for (int i = 0; i < MANY; i++)
		st_check((file[i] = dup(most)) >= 0);
	st_sleep(0.3);
	st_ok(mx_close_endpoint(s->ep));
	st_ok(mx_finalize());
	for (int i = 0; i < MANY; i++)
		st_check(fstat(file[i], &st) == 0 && st.st_size == 0);
}

static void closed_and_reused(struct side *s)
{
	int pair[MANY][2], fd;
	char in[8], out[8] = "message";
	mx_request_t r;

	open_side(s);
	if (s->rank == 1) {
		close_side(s);
		return;
	}
	r = st_irecv(s->ep, in, sizeof(in), 1);
	st_ok(mx_get_fd(s->ep, &fd));
	while (mx_arm_fd(s->ep) != MX_SUCCESS)
		;
	for (fd = 3; fd < 900; fd++)
		close(fd);
	for (int i = 0; i < MANY; i++)
		st_check(socketpair(AF_UNIX, SOCK_STREAM, 0, pair[i]) == 0);
	/* Wakes who waits, and says goodbye to the peer. */
	st_isend(s->ep, out, sizeof(out), st_self(s->ep), 1);
	mx_cancel(s->ep, &r, &(uint32_t){0});
	st_ok(mx_close_endpoint(s->ep));
	st_ok(mx_finalize());
	meet();
	for (int i = 0; i < MANY; i++)
		for (int side = 0; side < 2; side++)
			st_eq(recv(pair[i][side], in, sizeof(in), MSG_DONTWAIT), -1);
}

/* exit() ---------------------------------------------------------------------- */

static mx_endpoint_t exits;

static void close_at_exit(void)
{
	mx_close_endpoint(exits);
}

static void *leaves(void *arg)
{
	(void)arg;
	st_sleep(0.2);
	exit(STATUS);
}

/* How a child ends that calls exit() beside a thread that waits. */
static int exit_status(int closes)
{
	pid_t pid = fork();
	int status;

	st_check(pid >= 0);
	if (pid == 0) {
		mx_request_t r;
		pthread_t thread;
		uint32_t result;
		mx_status_t st;
		char in[8];

		st_up();
		mx_set_error_handler(MX_ERRORS_ARE_FATAL);
		exits = st_open(1, NULL, 0);
		r = st_irecv(exits, in, 8, 1);
		if (closes)
			atexit(close_at_exit);
		st_check(pthread_create(&thread, NULL, leaves, NULL) == 0);
		mx_wait(exits, &r, MX_INFINITE, &st, &result);
		_exit(1);
	}
	st_check(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void leaving(struct side *s)
{
	if (s->rank)
		return;
	st_eq(exit_status(0), STATUS);
	st_eq(exit_status(1), STATUS);
}

/* Cancelled threads ------------------------------------------------------------- */

static void *opens_and_closes(void *arg)
{
	(void)arg;
	for (;;) {
		mx_endpoint_t ep;
		uint64_t nic;

		mx_hostname_to_nic_id((char *)(uintptr_t) "localhost", &nic);
		if (mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, ST_KEY, NULL, 0, &ep) ==
		    MX_SUCCESS)
			mx_close_endpoint(ep);
		/* Here it has nothing. */
		pthread_testcancel();
	}
	return NULL;
}

static void cancelled(struct side *s)
{
	uint64_t rng = 7;

	if (s->rank)
		return;
	st_up();
	for (int i = 0; i < 30; i++) {
		pthread_t thread;
		mx_endpoint_t ep;

		st_check(pthread_create(&thread, NULL, opens_and_closes, NULL) == 0);
		st_sleep(1e-6 * (double)(twt_random(&rng) % 5000));
		st_check(pthread_cancel(thread) == 0);
		st_check(pthread_join(thread, NULL) == 0);
		ep = st_open(50, NULL, 0);
		st_ok(mx_close_endpoint(ep));
	}
	st_ok(mx_finalize());
}

static void *waits_for_nothing(void *arg)
{
	struct side *s = arg;

	for (;;) {
		char in[8];
		mx_status_t st;
		uint32_t result;
		mx_request_t r = st_irecv(s->ep, in, sizeof(in), 1);

		st_ok(mx_wait(s->ep, &r, 1, &st, &result));
		if (!result)
			st_ok(mx_cancel(s->ep, &r, &result));
		/* Here it has nothing. */
		pthread_testcancel();
	}
	return NULL;
}

/* The peer sends, so that the calls that are cancelled have something to do. */
static void cancelled_waits(struct side *s)
{
	uint64_t rng = 8;
	char bytes[8] = "message";
	mx_status_t st;
	uint32_t result;
	mx_request_t r;

	open_side(s);
	for (int i = 0; i < 20 && !s->rank; i++) {
		pthread_t thread;

		st_check(pthread_create(&thread, NULL, waits_for_nothing, s) == 0);
		st_sleep(1e-6 * (double)(twt_random(&rng) % 5000));
		st_check(pthread_cancel(thread) == 0);
		st_check(pthread_join(thread, NULL) == 0);
		r = st_irecv(s->ep, bytes, sizeof(bytes), 2);
		st_ok(mx_wait(s->ep, &r, 10000, &st, &result));
		st_eq(result, 1);
	}
	for (int i = 0; i < 20 && s->rank; i++) {
		r = st_isend(s->ep, bytes, sizeof(bytes), s->to, 2);
		st_ok(mx_wait(s->ep, &r, 10000, &st, &result));
		st_eq(result, 1);
	}
	close_side(s);
}

static void cancelled_over_libfabric(struct side *s)
{
	bool here;

	/* Where modules are is a setting. */
	st_up();
	here = tw_module_installed("ofi");
	st_ok(mx_finalize());
	if (here)
		cancelled_waits(s);
	else if (!s->rank)
		printf("skipped: cancelled waits, ofi: no provider ofi is installed\n");
}

/* Memory ------------------------------------------------------------------------ */

static char *secret_memory(void)
{
	int fd = (int)syscall(SYS_memfd_secret, 0);
	char *p;

	if (fd < 0 || ftruncate(fd, LEN) < 0)
		return NULL;
	p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return p == MAP_FAILED ? NULL : p;
}

static mx_status_code_t end_of(struct side *s, mx_request_t r)
{
	mx_status_t st;

	st_check(st_poll(s->ep, &r, ST_LONG, &st));
	return st.code;
}

static mx_status_code_t put(struct side *s, uint64_t key, void *data, uint32_t len)
{
	mx_segment_t seg = {data, len};
	mx_request_t r;

	st_ok(mx_put(s->ep, &seg, 1, s->to, key, 0, 0, NULL, &r));
	return end_of(s, r);
}

static mx_status_code_t get(struct side *s, uint64_t key, void *data, uint32_t len)
{
	mx_segment_t seg = {data, len};
	mx_request_t r;

	st_ok(mx_get(s->ep, &seg, 1, s->to, key, 0, 0, NULL, &r));
	return end_of(s, r);
}

/* The owner registers it for everything. */
static void windows(struct side *s)
{
	static const uint32_t lens[] = {8, 4096, LEN};
	char *readonly =
		mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *secret = s->rank == 0 ? secret_memory() : NULL, *buf = malloc(LEN);
	uint64_t key[2] = {1, 2};

	st_check(readonly != MAP_FAILED && buf);
	open_side(s);
	if (s->rank == 0) {
		memset(readonly, 7, LEN);
		st_check(mprotect(readonly, LEN, PROT_READ) == 0);
		st_ok(mx_window_register(s->ep, readonly, LEN, MX_WINDOW_READ | MX_WINDOW_WRITE,
					 &key[0]));
		atomic_store(&shared->secret, secret != NULL);
		if (secret)
			st_ok(mx_window_register(s->ep, memset(secret, 5, LEN), LEN,
						 MX_WINDOW_READ | MX_WINDOW_WRITE, &key[1]));
	}
	meet();
	for (int i = 0; i < 3 && s->rank; i++) {
		st_eq(put(s, key[0], memset(buf, 9, lens[i]), lens[i]), MX_STATUS_ABORTED);
		st_eq(get(s, key[0], buf, lens[i]), MX_STATUS_SUCCESS);
		st_check(buf[0] == 7 && buf[lens[i] - 1] == 7);
		if (!atomic_load(&shared->secret))
			continue;
		st_eq(put(s, key[1], memset(buf, i, lens[i]), lens[i]), MX_STATUS_SUCCESS);
		st_eq(get(s, key[1], memset(buf, 9, lens[i]), lens[i]), MX_STATUS_SUCCESS);
		st_check(buf[0] == i && buf[lens[i] - 1] == i);
	}
	meet();
	if (secret)
		st_check(secret[0] == 2 && secret[LEN - 1] == 2);
	close_side(s);
	free(buf);
}

/* A long message from memory that the kernel reads for nobody else. */
static void messages(struct side *s)
{
	char *buf = s->rank == 0 ? secret_memory() : malloc(LEN);
	mx_request_t r;

	if (s->rank == 0)
		atomic_store(&shared->secret, buf != NULL);
	open_side(s);
	for (int i = 0; i < 3 && atomic_load(&shared->secret); i++) {
		if (s->rank == 0) {
			twt_fill(buf, LEN, (uint64_t)i);
			r = st_isend(s->ep, buf, LEN, s->to, 1);
		} else {
			r = st_irecv(s->ep, buf, LEN, 1);
		}
		st_finish(s->ep, &r);
		if (s->rank)
			st_eq(twt_check(buf, LEN, (uint64_t)i), LEN);
		meet();
	}
	close_side(s);
}

static const struct {
	const char *name, *providers, *rndv;
	void (*run)(struct side *s);
} cases[] = {
	{"descriptors", "self,shm", "auto", descriptors},
	{"descriptors, reused", "self,shm", "auto", closed_and_reused},
	{"leaving", "self,shm", "auto", leaving},
	{"cancelled", "self,shm", "auto", cancelled},
	{"cancelled waits", "self,shm", "auto", cancelled_waits},
	{"cancelled waits, tcp", "self,tcp", "auto", cancelled_waits},
	{"cancelled waits, ofi", "self,ofi", "auto", cancelled_over_libfabric},
	{"windows", "self,shm", "auto", windows},
	{"windows, copied", "self,shm", "copy", windows},
	{"windows, tcp", "self,tcp", "auto", windows},
	{"messages", "self,shm", "get", messages},
	{"messages, auto", "self,shm", "auto", messages},
};

static int process(void *arg, int fd)
{
	const struct st_case *a = arg;
	struct side s = {.rank = a->rank};

	(void)fd;
	st_role("%s, process %d", cases[a->which].name, s.rank);
	setenv("TAGWIRE_PROVIDERS", cases[a->which].providers, 1);
	setenv("TAGWIRE_RNDV", cases[a->which].rndv, 1);
	/* The thread sanitizer takes it for a race to close what the library uses. */
	if (TW_TSAN &&
	    (cases[a->which].run == descriptors || cases[a->which].run == closed_and_reused))
		printf("skipped under the thread sanitizer: %s\n", cases[a->which].name);
	else
		cases[a->which].run(&s);
	return 0;
}

int main(int argc, char **argv)
{
	int n = (int)(sizeof(cases) / sizeof(*cases));

	st_begin(argc, argv, "fault_program", 5, NULL);
	shared = st_shared(sizeof(*shared));
	st_cases(n, &shared->meet, process);
	st_leftovers();
	st_done("%d cases", n);
	return 0;
}
