/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process that serves a node of another host dies after any single instruction of a request
 * to a lock: after every 101st, from a random one on, or as the argument says. The node asks
 * another process again: then it has, or has not, exactly what one request gives. And as many
 * requests as it may have under way lose their answers at once. There is no other host here:
 * this program says what it would.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/twr.h"
#include "lib/twt.h"
#include "mrapi/remote/remote.h"

#define NIC 0x424242424242ull
#define ALL ~0ul
#define LIMIT 100 /* of the semaphore */
/* The thread sanitizer makes ten of one. */
#define STRIDE (TW_TSAN ? 1009 : 101)

/* Nor does it let the child of a process with threads start one, unless told. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "die_after_fork=0";
}

static struct tw_ep ep;
static struct tw_group group = {.ep = &ep};
static struct tw_member from = {.group = &group,
				.where = NIC << 16 | TW_MRAPI_FIRST_ID,
				.state = TW_MEMBER_HERE,
				.addr.session = 77};
static uint32_t proxy; /* slot + 1 */
static uint64_t turn, sent;

static struct tw_mrapi_ctrl request(uint32_t op, uint32_t handle)
{
	return (struct tw_mrapi_ctrl){.what = TW_MRAPI_CTRL_OPERATE,
				      .handle = handle,
				      .kind = tw_mrapi_kind_of(handle),
				      .id = 100,
				      .domain = 1,
				      .node = 5,
				      .op = (uint8_t)op,
				      .mode = MRAPI_WRITER,
				      .turn = ++turn,
				      .sent = ++sent};
}

static void ask(struct tw_mrapi_ctrl c)
{
	c.sent = ++sent;
	tw_mrapi_proxy_serve(&from, &c);
}

/* The answer in that lane, which must be to this turn. */
static mrapi_status_t answered(const struct tw_mrapi_ctrl *c)
{
	const struct tw_mrapi_done *d = &tw_mrapi.seg->done[proxy - 1][c->lane];

	HOLDS(d->turn == c->turn);
	return (mrapi_status_t)d->status;
}

static uint64_t has(uint32_t handle)
{
	enum tw_mrapi_kind kind = tw_mrapi_kind_of(handle);
	struct tw_mrapi_obj *o = tw_mrapi_slot(kind, handle & TW_MRAPI_SLOT_MASK);
	uint64_t had = tw_mrapi_ops(kind)->had(o, proxy);

	/* Of the levels only the depth. */
	return kind == TW_MRAPI_MUTEX && had > 1 ? had & 0xfffff : had;
}

static void come(void)
{
	struct tw_mrapi_ctrl c = {.what = TW_MRAPI_CTRL_CLAIM, .id = 100, .domain = 1, .node = 5,
				  .key = from.where};
	struct tw_mrapi_node *n;

	tw_mrapi.seg->host[0].nic = NIC;
	HOLDS(tw_mrapi_remote_serve(&from, &c) == MRAPI_SUCCESS);
	n = tw_mrapi_node_find(1, 100);
	HOLDS(n && n->host);
	proxy = (uint32_t)(n - tw_mrapi.seg->node) + 1;
}

/* ---------------------------------------------------------------------- the victim */

struct job {
	struct tw_mrapi_ctrl c[TW_MRAPI_LANES];
	unsigned n;
};

static int serve(void *arg, int fd)
{
	struct job *job = arg;

	(void)fd;
	twr_node(2);
	HOLDS(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
	raise(SIGSTOP);
	for (unsigned i = 0; i < job->n; i++)
		tw_mrapi_proxy_serve(&from, &job->c[i]);
	raise(SIGSTOP);
	return 1;
}

static void gone(void)
{
	struct tw_mrapi_node *n;
	double limit = twt_now() + TWT_LONG;

	do {
		HOLDS(usleep(100) == 0 && twt_now() < limit);
		tw_mrapi_admin_lock();
		n = tw_mrapi_node_find(1, 2);
		tw_mrapi_admin_unlock();
	} while (n);
}

/* Serves so many instructions of it, and is killed. False: that was all. */
static bool serve_until(struct job *job, unsigned long steps)
{
	struct twt_child child;
	int how = steps == ALL ? PTRACE_CONT : PTRACE_SINGLESTEP, status;
	bool more = true;

	twt_spawn(&child, serve, job);
	HOLDS(waitpid(child.pid, &status, 0) == child.pid && WIFSTOPPED(status));
	while (more && steps-- > 0) {
		HOLDS(ptrace(how, child.pid, NULL, NULL) == 0);
		HOLDS(waitpid(child.pid, &status, 0) == child.pid && WIFSTOPPED(status));
		more = WSTOPSIG(status) != SIGSTOP;
	}
	kill(child.pid, SIGKILL);
	HOLDS(twt_join(&child, TWT_LONG) == 1000 + SIGKILL);
	gone();
	return more;
}

/* Wherever it dies: then the proxy has this, and the request has this answer. */
static void dies(const char *what, uint32_t op, uint32_t handle, uint64_t before, uint64_t after,
		 unsigned stride)
{
	unsigned long steps = (unsigned long)getpid() % stride;
	bool more = true;

	for (; more; steps += stride) {
		struct job job = {.n = 1, .c = {request(op, handle)}};

		HOLDS(has(handle) == before);
		more = serve_until(&job, steps);
		ask(job.c[0]);
		twr_who = what;
		twr_number = steps;
		HOLDS(answered(&job.c[0]) == MRAPI_SUCCESS);
		HOLDS(has(handle) == after);
		if (!more)
			break;
		/* Back to what it was. */
		if (op == TW_MRAPI_REMOTE_LOCK)
			ask(request(TW_MRAPI_REMOTE_UNLOCK, handle));
		else
			ask(request(TW_MRAPI_REMOTE_LOCK, handle));
	}
	printf("%s: %lu instructions\n", what, steps);
}

/* All of them are answered again, and none is done twice. */
static void many(uint32_t sem)
{
	struct job job = {.n = TW_MRAPI_LANES};

	for (unsigned i = 0; i < job.n; i++) {
		job.c[i] = request(TW_MRAPI_REMOTE_LOCK, sem);
		job.c[i].mode = MRAPI_READER;
		job.c[i].lane = (uint16_t)i;
	}
	HOLDS(!serve_until(&job, ALL));
	HOLDS(has(sem) == job.n);
	for (unsigned i = job.n; i-- > 0;) {
		ask(job.c[i]);
		HOLDS(answered(&job.c[i]) == MRAPI_SUCCESS);
	}
	HOLDS(has(sem) == job.n);
	printf("%u requests, asked twice\n", job.n);
}

int main(int argc, char **argv)
{
	unsigned stride = argc > 1 ? (unsigned)atoi(argv[1]) : STRIDE;
	mrapi_mutex_hndl_t mutex;
	mrapi_sem_hndl_t sem;
	mrapi_rwl_hndl_t rwl;

	setvbuf(stdout, NULL, _IOLBF, 0);
	twr_node(1);
	OK(mutex = mrapi_mutex_create(1, NULL, &st));
	OK(sem = mrapi_sem_create(1, NULL, LIMIT, &st));
	OK(rwl = mrapi_rwl_create(1, NULL, 8, &st));
	come();
	many(sem);
	dies("lock a mutex", TW_MRAPI_REMOTE_LOCK, mutex, 0, 1, stride);
	dies("unlock it", TW_MRAPI_REMOTE_UNLOCK, mutex, 1, 0, stride);
	dies("lock for writing", TW_MRAPI_REMOTE_LOCK, rwl, 0, 1u << 16, stride);
	dies("unlock that", TW_MRAPI_REMOTE_UNLOCK, rwl, 1u << 16, 0, stride);
	OK(mrapi_finalize(&st));
	return 0;
}
