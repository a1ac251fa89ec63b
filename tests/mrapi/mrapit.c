/* SPDX-License-Identifier: BSD-2-Clause */
#include "mrapi/mrapit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

_Thread_local mrapi_status_t mr_st;
_Thread_local char mr_called[64];

/* One name for each value, whichever object it is about. */
static const struct {
	mrapi_status_t status;
	const char *name;
} names[] = {
#define N(s)                                                                                       \
	{                                                                                          \
		s, #s                                                                              \
	}
	N(MRAPI_SUCCESS),
	N(MRAPI_TIMEOUT),
	N(MRAPI_INCOMPLETE),
	N(MRAPI_ERR_NOT_SUPPORTED),
	N(MRAPI_ERR_PARAMETER),
	N(MRAPI_ENO_INIT),
	N(MRAPI_ERR_NODE_INITIALIZED),
	N(MRAPI_ERR_NODE_INVALID),
	N(MRAPI_ERR_NODE_NOTINIT),
	N(MRAPI_ERR_NODE_FINALFAILED),
	N(MRAPI_ERR_DOMAIN_INVALID),
	N(MRAPI_ERR_DOMAIN_NOTSHARED),
	N(MRAPI_ERR_ATTR_READONLY),
	N(MRAPI_ERR_ATTR_NUM),
	N(MRAPI_ERR_ATTR_SIZE),
	N(MRAPI_EXISTS),
	N(MRAPI_ELOCKED),
	N(MRAPI_ERR_MUTEX_ID_INVALID),
	N(MRAPI_ERR_MUTEX_INVALID),
	N(MRAPI_ERR_MUTEX_DELETED),
	N(MRAPI_ERR_MUTEX_LIMIT),
	N(MRAPI_ERR_MUTEX_NOTLOCKED),
	N(MRAPI_ERR_MUTEX_KEY),
	N(MRAPI_ERR_MUTEX_LOCKORDER),
	N(MRAPI_ERR_SEM_ID_INVALID),
	N(MRAPI_ERR_SEM_INVALID),
	N(MRAPI_ERR_SEM_DELETED),
	N(MRAPI_ERR_SEM_LIMIT),
	N(MRAPI_ERR_SEM_LOCKLIMIT),
	N(MRAPI_ERR_SEM_NOTLOCKED),
	N(MRAPI_ERR_RWL_ID_INVALID),
	N(MRAPI_ERR_RWL_INVALID),
	N(MRAPI_ERR_RWL_DELETED),
	N(MRAPI_ERR_RWL_LIMIT),
	N(MRAPI_ERR_RWL_NOTLOCKED),
	N(MRAPI_ERR_MEM_LIMIT),
	N(MRAPI_ERR_SHMEM_ID_INVALID),
	N(MRAPI_ERR_SHM_INVALID),
	N(MRAPI_ERR_SHM_NODES_INCOMPAT),
	N(MRAPI_ERR_SHM_NODE_NOTSHARED),
	N(MRAPI_ERR_SHM_ATTACHED),
	N(MRAPI_ERR_SHM_NOTATTACHED),
	N(MRAPI_ERR_SHM_ATTACH),
	N(MRAPI_ERR_RMEM_ID_INVALID),
	N(MRAPI_ERR_RMEM_INVALID),
	N(MRAPI_ERR_RMEM_ATYPE_INVALID),
	N(MRAPI_ERR_RMEM_ATYPE),
	N(MRAPI_ERR_RMEM_CONFLICT),
	N(MRAPI_ERR_RMEM_ATTACHED),
	N(MRAPI_ERR_RMEM_NOTATTACHED),
	N(MRAPI_ERR_RMEM_ATTACH),
	N(MRAPI_ERR_RMEM_NOTOWNER),
	N(MRAPI_ERR_RMEM_BUFF_OVERRUN),
	N(MRAPI_ERR_RMEM_STRIDE),
	N(MRAPI_ERR_RMEM_BLOCKED),
	N(MRAPI_ERR_REQUEST_LIMIT),
	N(MRAPI_ERR_REQUEST_INVALID),
	N(MRAPI_ERR_REQUEST_CANCELED),
	N(MRAPI_ERR_RSRC_INVALID_SUBSYSTEM),
	N(MRAPI_ERR_RSRC_INVALID),
	N(MRAPI_ERR_RSRC_NOTDYNAMIC),
	N(MRAPI_ERR_RSRC_STARTED),
	N(MRAPI_ERR_RSRC_NOTSTARTED),
	N(MRAPI_ERR_RSRC_COUNTER_INUSE),
	N(MRAPI_ERR_RSRC_INVALID_EVENT),
	N(MRAPI_ERR_RSRC_INVALID_CALLBACK),
	N(MRAPI_ERR_RSRC_INVALID_TREE),
	N(MRAPI_ERR_RSRC_NOTOWNER),
	N(MRAPI_ERR_ATOM_OP_FAILED),
#undef N
};

const char *mr_name(mrapi_status_t status)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (names[i].status == status)
			return names[i].name;
	return "no status at all";
}

/* Adds a line to the table; one write, so that lines of processes stay whole. */
void mr_note(const char *call)
{
	const struct criterion_test *test = criterion_current_test;
	const char *table = getenv("MRAPIT_TABLE");
	int via = strncmp(call, "mrapi_", 6) != 0, fd, n;
	char line[300];

	if (!table || !test || (via && !*mr_called))
		return;
	n = via ? snprintf(line, sizeof(line), "%s", mr_called)
		: snprintf(line, sizeof(line), "%.*s", (int)strcspn(call, "("), call);
	n += snprintf(line + n, sizeof(line) - (size_t)n, " %s %s/%s\n", mr_name(mr_st),
		      test->category, test->name);
	fd = open(table, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0 || write(fd, line, (size_t)n) != n)
		twc_fail(__FILE__, __LINE__, "cannot write %s", table);
	close(fd);
}

void mr_eq_at(const char *file, int line, const char *what, mrapi_status_t got, mrapi_status_t want)
{
	if (got != want)
		twc_fail(file, line, "%s: %d (%s), not %s", what, got, mr_name(got), mr_name(want));
}

void mr_is_at(const char *file, int line, const char *call, mrapi_status_t want)
{
	mr_eq_at(file, line, call, mr_st, want);
	mr_note(call);
	*mr_called = 0;
}

void mr_up_in(mrapi_domain_t domain, mrapi_node_t node)
{
	mrapi_info_t info;

	mr_ok(mrapi_initialize(domain, node, NULL, &info, &mr_st));
}

void mr_up(mrapi_node_t node)
{
	mr_up_in(MR_DOMAIN, node);
}

void mr_down(void)
{
	mr_ok(mrapi_finalize(&mr_st));
}

void *mr_shared(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	twc_check(p != MAP_FAILED);
	return p;
}

/* ------------------------------------------------------------- other nodes */

/* A call on an object, made by another node. */
struct call {
	const struct mr_kind *kind;
	mrapi_hndl_t handle;
	mrapi_uint_t id;
	mrapi_timeout_t timeout;
	mrapi_status_t status;
	mrapi_boolean_t result;
};

struct mr_control {
	atomic_int tid, idle;
	struct call call;
};

struct order {
	void (*fn)(void *arg); /* NULL: the end */
	void *arg;
};

static void serve(struct mr_peer *p, int fd)
{
	struct order o = {NULL, NULL};

	atomic_store(&p->ctl->tid, (int)syscall(SYS_gettid));
	if (p->node != MR_NO_ATTR)
		mr_up_in(p->domain, p->node);
	do {
		atomic_store(&p->ctl->idle, 1);
		twc_tell(fd);
		twc_eq(twt_get(fd, &o, sizeof(o)), 0);
		atomic_store(&p->ctl->idle, 0);
		if (o.fn)
			o.fn(o.arg);
	} while (o.fn);
	if (p->node != MR_NO_ATTR)
		mr_down();
}

static int process(void *arg, int fd)
{
	serve(arg, fd);
	return 0;
}

static void thread(void *arg)
{
	struct mr_peer *p = arg;

	serve(p, p->child.fd);
}

void mr_peer_in(struct mr_peer *p, enum mr_where where, mrapi_domain_t domain, mrapi_node_t node)
{
	int sv[2];

	memset(p, 0, sizeof(*p));
	p->where = where;
	p->domain = domain;
	p->node = node;
	p->ctl = mr_shared(sizeof(*p->ctl));
	if (where == MR_PROCESS) {
		twt_spawn(&p->child, process, p);
		p->fd = p->child.fd;
	} else {
		twc_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
		p->fd = sv[0];
		p->child.fd = sv[1];
		twc_start(&p->thread, thread, p);
	}
	mr_done(p);
}

void mr_peer(struct mr_peer *p, enum mr_where where, mrapi_node_t node)
{
	mr_peer_in(p, where, MR_DOMAIN, node);
}

void mr_peer_raw(struct mr_peer *p, enum mr_where where)
{
	mr_peer_in(p, where, 0, MR_NO_ATTR);
}

void mr_go(struct mr_peer *p, void (*fn)(void *arg), void *arg)
{
	struct order o = {fn, arg};

	atomic_store(&p->ctl->idle, 0);
	twc_eq(twt_put(p->fd, &o, sizeof(o)), 0);
}

void mr_done(struct mr_peer *p)
{
	twc_hear(p->fd);
}

void mr_do(struct mr_peer *p, void (*fn)(void *arg), void *arg)
{
	mr_go(p, fn, arg);
	mr_done(p);
}

int mr_idle(struct mr_peer *p)
{
	return atomic_load(&p->ctl->idle);
}

void mr_asleep(struct mr_peer *p)
{
	twc_asleep_tid(&p->ctl->tid, &p->ctl->idle);
}

void mr_peer_end(struct mr_peer *p)
{
	mr_go(p, NULL, NULL);
	if (p->where == MR_PROCESS) {
		twc_eq(twt_join(&p->child, TWC_LONG), 0);
		return;
	}
	twc_join(&p->thread);
	close(p->fd);
	close(p->child.fd);
}

void mr_peer_kill(struct mr_peer *p)
{
	twc_eq(kill(p->child.pid, SIGKILL), 0);
	twc_eq(twt_join(&p->child, TWC_LONG), 1000 + SIGKILL);
}

/* ------------------------------------------------------- calls made by them */

/* Reports the status that came, whatever it is. */
#define REPORT(c, what) (mr_st = -1, what, (c)->status = mr_st, mr_note("->"), *mr_called = 0)

static void do_lock(void *arg)
{
	struct call *c = arg;

	REPORT(c, c->kind->lock(c->handle, c->timeout));
}

static void do_trylock(void *arg)
{
	struct call *c = arg;

	REPORT(c, c->result = c->kind->trylock(c->handle));
	if (c->status == MRAPI_SUCCESS && !c->result)
		c->status = MRAPI_INCOMPLETE;
	else
		twc_eq(c->result, c->status == MRAPI_SUCCESS);
}

static void do_unlock(void *arg)
{
	struct call *c = arg;

	REPORT(c, c->kind->unlock(c->handle));
}

static void do_remove(void *arg)
{
	struct call *c = arg;

	REPORT(c, c->kind->remove(c->handle));
}

static void do_get(void *arg)
{
	struct call *c = arg;

	REPORT(c, c->handle = c->kind->get(c->id));
}

static mrapi_status_t at(struct mr_peer *p, void (*fn)(void *arg), struct call c)
{
	p->ctl->call = c;
	mr_do(p, fn, &p->ctl->call);
	return p->ctl->call.status;
}

mrapi_status_t mr_at_lock(struct mr_peer *p, const struct mr_kind *k, mrapi_hndl_t h,
			  mrapi_timeout_t timeout)
{
	return at(p, do_lock, (struct call){.kind = k, .handle = h, .timeout = timeout});
}

mrapi_status_t mr_at_trylock(struct mr_peer *p, const struct mr_kind *k, mrapi_hndl_t h)
{
	return at(p, do_trylock, (struct call){.kind = k, .handle = h});
}

mrapi_status_t mr_at_unlock(struct mr_peer *p, const struct mr_kind *k, mrapi_hndl_t h)
{
	return at(p, do_unlock, (struct call){.kind = k, .handle = h});
}

mrapi_status_t mr_at_remove(struct mr_peer *p, const struct mr_kind *k, mrapi_hndl_t h)
{
	return at(p, do_remove, (struct call){.kind = k, .handle = h});
}

mrapi_status_t mr_at_get(struct mr_peer *p, const struct mr_kind *k, mrapi_uint_t id,
			 mrapi_hndl_t *h)
{
	mrapi_status_t status = at(p, do_get, (struct call){.kind = k, .id = id});

	if (h)
		*h = p->ctl->call.handle;
	return status;
}

void mr_lock_begin(struct mr_peer *p, const struct mr_kind *k, mrapi_hndl_t h,
		   mrapi_timeout_t timeout)
{
	p->ctl->call = (struct call){.kind = k, .handle = h, .timeout = timeout};
	mr_go(p, do_lock, &p->ctl->call);
}

mrapi_status_t mr_lock_end(struct mr_peer *p)
{
	mr_done(p);
	return p->ctl->call.status;
}
