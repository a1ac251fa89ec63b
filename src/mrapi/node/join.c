/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a process joins its job. Every member listens on a socket whose name has the job, the
 * user and the member's slot (src/shmem/names.c), and passes the descriptors of the segment and
 * the arena to processes that request them. One process joins at a time: it has the name
 * "lock". If no member replies, the joining process makes a new segment. Nobody has the name of
 * a process that has ended, so nothing remains after the last member, however it ends.
 *
 * A member locks the byte of the segment's file at its slot's number. The kernel drops
 * that lock when the process dies and at no other time, and every member can test it. No
 * other fault between two members counts as a death.
 */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>

#include "base/fds.h"
#include "base/sys.h"
#include "mrapi/mrapi_internal.h"
#include "shmem/sock.h"

#define LOCK_SECONDS 30 /* how long another process may take to join */
#define JOIN_MS 5000	/* after which a job that does not reply is given up */

/* ---------------------------------------------------------- live members */

static struct flock byte_of(uint32_t proc)
{
	return (struct flock){
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)proc, .l_len = 1};
}

/* The test does not work on the caller's own lock. */
bool tw_mrapi_gone(uint32_t proc)
{
	struct flock l = byte_of(proc);

	return tw_sys_fcntl(tw_mrapi.segfd, F_GETLK, &l) == 0 && l.l_type == F_UNLCK;
}

pid_t tw_mrapi_pid_of(uint32_t proc)
{
	struct flock l = byte_of(proc);

	if (proc == tw_mrapi.proc)
		return tw_sys_pid();
	if (tw_sys_fcntl(tw_mrapi.segfd, F_GETLK, &l) < 0 || l.l_type == F_UNLCK)
		return 0;
	return l.l_pid;
}

/* ---------------------------------------------------------------- the lock */

/* Waits until the peer process has ended. */
static void wait_for_end(int fd, uint64_t deadline)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	uint64_t now = tw_clock_ns();

	if (now < deadline)
		tw_sys_poll(&p, 1, (int)((deadline - now) / 1000000 + 1));
	tw_fd_close(fd);
}

/* The lock is the name, until the sockets are closed. 0 or an error. */
static int take_lock(struct tw_sock_listener *lock)
{
	uint64_t deadline = tw_clock_ns() + LOCK_SECONDS * 1000000000ull;

	while (tw_clock_ns() < deadline) {
		int err = tw_mrapi_listen(lock, TW_MRAPI_JOIN_LOCK), other;

		if (err != EADDRINUSE)
			return err;
		err = tw_mrapi_dial(&other, TW_MRAPI_JOIN_LOCK);
		if (err == 0)
			wait_for_end(other, deadline);
		else if (tw_mrapi_passing(err))
			sched_yield();
		else
			return err;
	}
	return ETIMEDOUT;
}

/* -------------------------------------------------------------- own slot */

static void join_set_state(enum tw_mrapi_state state)
{
	atomic_store(&tw_mrapi.seg->proc[tw_mrapi.proc].life,
		     tw_mrapi_life(tw_mrapi.incarnation, state));
}

/* Claims a free slot, and its name: 0 or an error. */
static int claim_slot(struct tw_sock_listener *listener)
{
	for (uint32_t i = 0; i < TW_MRAPI_PROCS; i++) {
		struct tw_mrapi_proc *p = &tw_mrapi.seg->proc[i];
		struct flock byte = byte_of(i);
		uint32_t next = (uint32_t)(atomic_load(&p->life) >> 8) + 1;
		int err;

		/* JOINING under our lock: the process that was joining has died. */
		if (tw_mrapi_state(p) != TW_MRAPI_FREE && tw_mrapi_state(p) != TW_MRAPI_JOINING)
			continue;
		err = tw_mrapi_listen(listener, i);
		if (err == EADDRINUSE || err == TW_SOCK_FOREIGN)
			continue; /* a forked child's, or another user's */
		if (err)
			return err;
		if (tw_sys_fcntl(tw_mrapi.segfd, F_SETLK, &byte) < 0) {
			err = errno;
			tw_sock_listen_end(listener);
			if (err == EAGAIN || err == EACCES)
				continue; /* its last process is dying */
			return err;
		}
		p->pid = (uint32_t)tw_sys_pid();
		p->waits = (uintptr_t)&tw_mrapi_waits;
		p->narrow = TW_NARROW;
		tw_mrapi.proc = i;
		tw_mrapi.incarnation = next;
		join_set_state(TW_MRAPI_JOINING);
		return 0;
	}
	return ENOSPC;
}

static int join_greet(uint32_t proc, uint32_t incarnation)
{
	struct tw_mrapi_message hello = {
		.type = TW_MRAPI_HELLO, .proc = tw_mrapi.proc, .incarnation = tw_mrapi.incarnation};
	int fd, err = tw_mrapi_dial(&fd, proc);

	if (err)
		return err;
	if (tw_sys_send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) == sizeof(hello))
		return tw_mrapi_service_watch(fd, proc, incarnation);
	err = errno;
	tw_fd_close(fd);
	return err;
}

/* 0 or an error; 0 also when the member ends meanwhile. */
static int join_meet(uint32_t proc, uint64_t end)
{
	struct tw_mrapi_proc *p = &tw_mrapi.seg->proc[proc];
	uint32_t incarnation = (uint32_t)(atomic_load(&p->life) >> 8);
	int err = 0;

	for (;;) {
		enum tw_mrapi_state state = tw_mrapi_state(p);

		if (state == TW_MRAPI_FREE || state == TW_MRAPI_JOINING)
			return 0;
		err = state == TW_MRAPI_DEAD ? ECONNREFUSED : join_greet(proc, incarnation);
		if (err == 0)
			return 0;
		if (tw_mrapi_gone(proc)) {
			tw_mrapi_reclaim(proc, incarnation);
			return 0;
		}
		if (!tw_mrapi_passing(err) || tw_clock() >= end)
			return err;
		tw_sys_sleep_us(1000); /* it is ending */
	}
}

/* Connects to every member, so that both sides detect each other's death. */
static int join_announce(uint64_t end)
{
	int err = 0;

	for (uint32_t i = 0; i < TW_MRAPI_PROCS && err == 0; i++)
		if (i != tw_mrapi.proc)
			err = join_meet(i, end);
	return err;
}

static void join_refused(const char *what, int err)
{
	char more[64] = "";

	if (err == EMFILE)
		snprintf(more, sizeof(more), "; raise ulimit -n, which is %llu",
			 (unsigned long long)tw_sys_limit(RLIMIT_NOFILE));
	if (err == ETIMEDOUT)
		snprintf(more, sizeof(more), " (stopped, or without descriptors?)");
	tw_log(TW_LOG_ERROR, "mrapi: cannot join the job: %s: %s%s", what, strerror(err), more);
}

/*
 * Has the segment, and this process's slot in it. Until then no thread is in the admin lock, a late
 * one of a node that has ended: the lock of a new segment would not name this member.
 */
static mrapi_status_t join_segment(struct tw_sock_listener *listener)
{
	uint64_t end = tw_clock() + tw_clock_us(1000 * JOIN_MS);
	int err = tw_mrapi_find_segment();

	/* A member that dies or leaves may have dropped the request. */
	while (err && tw_mrapi_passing(err) && tw_clock() < end) {
		tw_sys_sleep_us(10000);
		err = tw_mrapi_find_segment();
	}
	if (err) {
		join_refused(err == EPROTO ? "it runs with another version of the library"
					   : "no member sends its segment",
			     err);
		return MRAPI_ENO_INIT;
	}
	err = claim_slot(listener);
	if (!err)
		return MRAPI_SUCCESS;
	join_refused(err == ENOSPC ? "it has as many processes as it can have"
				   : "no place in it is to be had",
		     err);
	tw_mrapi_leave_segment();
	return MRAPI_ENO_INIT;
}

static mrapi_status_t join_locked(void)
{
	struct tw_sock_listener listener;
	mrapi_status_t status;
	int err;

	tw_mrapi_admin_block();
	status = join_segment(&listener);
	tw_mrapi_admin_unblock();
	if (status != MRAPI_SUCCESS)
		return status;
	err = tw_mrapi_service_start(&listener);
	if (err) {
		join_refused("cannot start a thread", err);
		tw_sock_listen_end(&listener);
		tw_mrapi_admin_block();
		join_set_state(TW_MRAPI_FREE);
		tw_mrapi_leave_segment();
		tw_mrapi_admin_unblock();
		return MRAPI_ENO_INIT;
	}
	err = join_announce(tw_clock() + tw_clock_us(1000 * JOIN_MS));
	if (err) {
		join_refused("no connection to another process of it", err);
		tw_mrapi_leave();
		return MRAPI_ENO_INIT;
	}
	join_set_state(TW_MRAPI_LIVE);
	return MRAPI_SUCCESS;
}

mrapi_status_t tw_mrapi_join(void)
{
	struct tw_sock_listener lock;
	int err = take_lock(&lock);
	mrapi_status_t status;

	if (err) {
		join_refused("another process joins, or no socket is to be had", err);
		return MRAPI_ENO_INIT;
	}
	status = join_locked();
	tw_sock_listen_end(&lock);
	return status;
}

/* Another member reports what this process has not, as if it had died. */
static void join_end(void)
{
	enum tw_mrapi_kind kind;
	uint32_t id;

	join_set_state(tw_mrapi_table_unreported(&kind, &id) ? TW_MRAPI_DEAD : TW_MRAPI_FREE);
}

void tw_mrapi_leave(void)
{
	join_set_state(TW_MRAPI_LEAVING);
	tw_mrapi_service_stop();
	tw_mrapi_admin_block();
	join_end();
	tw_mrapi_service_close();
	tw_mrapi_leave_segment();
	tw_mrapi_admin_unblock();
}
