/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Statuses that only a fault brings about: MX_STATUS_ABORTED and
 * MX_STATUS_REJECTED by a peer that speaks nonsense,
 * MX_STATUS_NO_RESOURCES on either side. And what must not show: the system
 * forbids to read the sender's memory, and messages come all the same.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/counters.h"
#include "base/err.h"
#include "base/fds.h"
#include "base/settings.h"
#include "fault/raw.h"
#include "mx_extensions.h"
#include "stress/stress.h"

#define LEN 3000000
#define ODD_ID 40

/* What the two processes of a case share. */
struct shared {
	atomic_uint meet;
	struct st_name name[2];
	atomic_int step;
};
static struct shared *shared;

struct side {
	int rank, fd;
	mx_endpoint_t ep;
	mx_endpoint_addr_t to;
	uint8_t *buf;
};

static void meet(void)
{
	st_meet(&shared->meet, 2);
}

static mx_status_code_t ends(struct side *s, mx_request_t *req)
{
	mx_status_t st;

	if (!st_poll(s->ep, req, ST_LONG / 2, &st))
		st_fail("a request does not end");
	return st.code;
}

/* A long message in either direction, after all that went wrong. */
static void still_good(struct side *s)
{
	uint64_t out = 100 + (uint64_t)s->rank, in = 101 - (uint64_t)s->rank;
	uint8_t *buf = malloc(LEN);
	mx_request_t r, q;

	st_check(buf != NULL);
	twt_fill(buf, LEN, out);
	r = st_irecv(s->ep, s->buf, LEN, in);
	q = st_isend(s->ep, buf, LEN, s->to, out);
	st_eq(ends(s, &r), MX_STATUS_SUCCESS);
	st_eq(ends(s, &q), MX_STATUS_SUCCESS);
	st_eq(twt_check(s->buf, LEN, in), LEN);
	free(buf);
}

static uint32_t counter(enum tw_counter which)
{
	uint32_t board = 0, values[TW_NCOUNTERS];

	st_ok(mx_get_info(NULL, MX_COUNTERS_VALUES, &board, sizeof(board), values, sizeof(values)));
	return values[which];
}

/* From now on this process may not read others. */
static int forbid_reading(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_process_vm_readv, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {sizeof(code) / sizeof(*code), code};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) == 0;
}

static void forbidden(struct side *s)
{
	for (int i = 0; i < 3; i++) {
		mx_request_t r;

		if (s->rank == 0) {
			twt_fill(s->buf, LEN, 7);
			r = st_isend(s->ep, s->buf, LEN, s->to, 1);
			st_eq(ends(s, &r), MX_STATUS_SUCCESS);
		} else {
			memset(s->buf, 0, LEN);
			r = st_irecv(s->ep, s->buf, LEN, 1);
			st_eq(ends(s, &r), MX_STATUS_SUCCESS);
			st_eq(twt_check(s->buf, LEN, 7), LEN);
		}
		meet();
	}
	/* It was tried, or this is no test. */
	if (s->rank == 1 && strcmp(tw_settings.rndv, "get") == 0)
		st_eq(counter(TW_C_GET_REFUSED), 1);
	still_good(s);
}

/* How connecting to somebody ends who answers like that. */
static mx_status_code_t dial(struct side *s, uint32_t id)
{
	mx_request_t r;

	st_ok(mx_iconnect(s->ep, shared->name[s->rank].nic, id, ST_KEY, 0, NULL, &r));
	return ends(s, &r);
}

static void odd_answers(struct side *s)
{
	static const struct {
		uint16_t kind;
		uint32_t why, magic;
		mx_status_code_t code;
	} list[] = {
		{99, 0, TW_SHM_MAGIC, MX_STATUS_ABORTED},
		{TW_SHM_ACCEPT, 0, 0, MX_STATUS_ABORTED},
		{TW_SHM_REFUSE, 0, TW_SHM_MAGIC, MX_STATUS_ABORTED},
		{TW_SHM_REFUSE, 1000000, TW_SHM_MAGIC, MX_STATUS_ABORTED},
		{TW_SHM_REFUSE, TW_EFAULT, TW_SHM_MAGIC, MX_STATUS_REJECTED},
		{TW_SHM_REFUSE, TW_EPROTO, TW_SHM_MAGIC, MX_STATUS_ABORTED},
		{TW_SHM_REFUSE, TW_ENOMEM, TW_SHM_MAGIC, MX_STATUS_NO_RESOURCES},
		{TW_SHM_REFUSE, TW_EFILTER, TW_SHM_MAGIC, MX_STATUS_BAD_KEY},
		{TW_SHM_REFUSE, TW_ECLOSED, TW_SHM_MAGIC, MX_STATUS_ENDPOINT_CLOSED},
	};
	struct tw_sock_listener listener;

	if (s->rank == 1)
		st_check(tw_shm_listen(shared->name[1].nic, ODD_ID, &listener) == TW_OK);
	meet();
	for (unsigned i = 0; i < sizeof(list) / sizeof(*list); i++) {
		if (s->rank == 1) {
			struct tw_shm_hello h =
				raw_hello(list[i].kind, shared->name[1].nic, ODD_ID, ST_KEY);
			struct raw r;

			h.why = list[i].why;
			h.magic = list[i].magic;
			st_check(raw_accept(&r, listener.fd[TW_SOCK_OWN], &h, (int)ST_LONG * 500));
			raw_close(&r);
		} else {
			mx_status_code_t code = dial(s, ODD_ID);

			if (code != list[i].code)
				st_fail("answer %u: %s, not %s", i, mx_strstatus(code),
					mx_strstatus(list[i].code));
		}
	}
	if (s->rank == 1)
		tw_sock_listen_end(&listener);
	still_good(s);
}

/* No descriptor is left for one more connection. */
static void no_descriptors(struct side *s)
{
	struct rlimit old, none = {0, 0};

	if (s->rank == 0) {
		st_check(getrlimit(RLIMIT_NOFILE, &old) == 0);
		none.rlim_max = old.rlim_max;
		st_check(setrlimit(RLIMIT_NOFILE, &none) == 0);
		st_eq(dial(s, ODD_ID), MX_STATUS_NO_RESOURCES);
		st_check(setrlimit(RLIMIT_NOFILE, &old) == 0);
		/* The reason is gone with it. */
		st_eq(dial(s, ODD_ID), MX_STATUS_ENDPOINT_CLOSED);
	}
	still_good(s);
}

static const struct {
	const char *name, *rndv;
	void (*run)(struct side *s);
	int forbid;
} cases[] = {
	{"reading forbidden", "auto", forbidden, 1},
	{"reading forbidden, get", "get", forbidden, 1},
	{"odd answers", "auto", odd_answers, 0},
	{"no descriptors", "auto", no_descriptors, 0},
};

static int process(void *arg, int fd)
{
	const struct st_case *a = arg;
	struct side s = {.rank = a->rank, .fd = fd};

	st_role("%s, process %d", cases[a->which].name, s.rank);
	setenv("TAGWIRE_RNDV", cases[a->which].rndv, 1);
	if (cases[a->which].forbid && s.rank == 1)
		st_check(forbid_reading());
	st_check((s.buf = malloc(LEN)) != NULL);
	st_check(tw_settings_load());
	st_up();
	s.ep = st_open((uint32_t)(1 + s.rank), NULL, 0);
	shared->name[s.rank] = st_whose(st_self(s.ep));
	meet();
	s.to = st_connect(s.ep, shared->name[!s.rank]);
	meet();
	cases[a->which].run(&s);
	meet();
	st_ok(mx_close_endpoint(s.ep));
	st_ok(mx_finalize());
	free(s.buf);
	return 0;
}

int main(int argc, char **argv)
{
	int n = (int)(sizeof(cases) / sizeof(*cases));

	st_begin(argc, argv, "fault_status", 5, NULL);
	shared = st_shared(sizeof(*shared));
	st_cases(n, &shared->meet, process);
	st_leftovers();
	st_done("%d cases", n);
	return 0;
}
