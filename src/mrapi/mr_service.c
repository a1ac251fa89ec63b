/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The thread of a member. It sleeps until somebody joins, asks for something or
 * dies, and costs nothing meanwhile. Each pair of members has one connection;
 * its end is the death of the other.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fds.h"
#include "base/sys.h"
#include "mrapi/mr.h"

#define UNKNOWN UINT32_MAX
#define HELLO_LOOKS 2000 /* a millisecond apart */

struct conn {
	struct tw_list link;
	int fd;
	uint32_t proc; /* UNKNOWN until it said hello */
	uint32_t incarnation;
	pid_t pid;
};

static struct {
	pthread_mutex_t mutex; /* conns */
	struct tw_list conns;
	pthread_t thread;
	int epfd, listener, stopfd;
} service = {.mutex = PTHREAD_MUTEX_INITIALIZER, .conns = {&service.conns, &service.conns}};

static void add_conn(int fd, uint32_t proc, uint32_t incarnation, pid_t pid)
{
	struct conn *c = malloc(sizeof(*c));
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};

	if (!c) {
		tw_fd_close(fd);
		return;
	}
	*c = (struct conn){.fd = fd, .proc = proc, .incarnation = incarnation, .pid = pid};
	pthread_mutex_lock(&service.mutex);
	tw_list_add_tail(&service.conns, &c->link);
	pthread_mutex_unlock(&service.mutex);
	epoll_ctl(service.epfd, EPOLL_CTL_ADD, fd, &ev);
}

static void drop_conn(struct conn *c)
{
	/* Closing is not enough while a child that was just forked has it open, too. */
	epoll_ctl(service.epfd, EPOLL_CTL_DEL, c->fd, NULL);
	pthread_mutex_lock(&service.mutex);
	tw_list_del(&c->link);
	tw_fd_close(c->fd);
	pthread_mutex_unlock(&service.mutex);
	free(c);
}

void tw_mr_service_watch(int fd, uint32_t proc, uint32_t incarnation, pid_t pid)
{
	add_conn(fd, proc, incarnation, pid);
}

/* The connection to the member that has that slot now. */
static struct conn *conn_of(uint32_t proc)
{
	uint32_t incarnation = (uint32_t)(atomic_load(&tw_mr.seg->proc[proc].life) >> 8);
	struct tw_list *pos, *tmp;

	tw_list_each(&service.conns, pos, tmp) {
		struct conn *c = tw_container(pos, struct conn, link);

		if (c->proc == proc && c->incarnation == incarnation)
			return c;
	}
	return NULL;
}

static pid_t look_up_pid(uint32_t proc)
{
	struct conn *c;
	pid_t pid;

	pthread_mutex_lock(&service.mutex);
	c = conn_of(proc);
	pid = c ? c->pid : 0;
	pthread_mutex_unlock(&service.mutex);
	return pid;
}

pid_t tw_mr_pid_of(uint32_t proc)
{
	pid_t pid = proc == tw_mr.proc ? getpid() : look_up_pid(proc);

	/* A member that has just joined: our thread is about to hear its hello. */
	for (int i = 0; !pid && i < HELLO_LOOKS &&
			(atomic_load(&tw_mr.seg->proc[proc].life) & 0xff) == TW_MR_LIVE;
	     i++) {
		usleep(1000);
		pid = look_up_pid(proc);
	}
	return pid;
}

bool tw_mr_send(uint32_t proc, const struct tw_mr_message *m)
{
	struct conn *c;
	bool sent;

	pthread_mutex_lock(&service.mutex);
	c = conn_of(proc);
	sent = c && tw_sys_send(c->fd, m, sizeof(*m), MSG_NOSIGNAL) == sizeof(*m);
	pthread_mutex_unlock(&service.mutex);
	return sent;
}

static void accept_one(void)
{
	int fd = tw_fd_own(accept4(service.listener, NULL, NULL, SOCK_CLOEXEC));
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (fd < 0)
		return;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 || cred.uid != geteuid())
		tw_fd_close(fd);
	else
		add_conn(fd, UNKNOWN, 0, cred.pid);
}

static void give(int fd)
{
	union {
		char space[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct tw_mr_message m = {.type = TW_MR_GIVE};
	struct iovec iov = {&m, sizeof(m)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	struct cmsghdr *c;
	int files[2] = {tw_mr.segfd, tw_mr.arenafd};

	memset(&control, 0, sizeof(control));
	c = CMSG_FIRSTHDR(&msg);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(files));
	memcpy(CMSG_DATA(c), files, sizeof(files));
	if (sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		tw_log(TW_LOG_WARN, "mrapi: cannot hand the segment over: error %d", errno);
}

static void heard(struct conn *c)
{
	struct tw_mr_message m;
	ssize_t n = tw_sys_recv(c->fd, &m, sizeof(m), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n != sizeof(m)) {
		uint32_t proc = c->proc, incarnation = c->incarnation;

		drop_conn(c);
		if (proc != UNKNOWN)
			tw_mr_bury(proc, incarnation);
		return;
	}
	if (m.type == TW_MR_WANT)
		give(c->fd);
	if (m.type == TW_MR_MOVE && c->proc != UNKNOWN)
		tw_mr_serve(c->proc, m.slot);
	if (m.type == TW_MR_HELLO && m.proc < TW_MR_PROCS) {
		pthread_mutex_lock(&service.mutex);
		c->incarnation = m.incarnation;
		c->proc = m.proc;
		pthread_mutex_unlock(&service.mutex);
	}
}

static void *run(void *arg)
{
	struct epoll_event ev[16];

	(void)arg;
	for (;;) {
		int n = epoll_wait(service.epfd, ev, tw_countof(ev), -1);

		for (int i = 0; i < n; i++) {
			if (ev[i].data.ptr == &service.stopfd)
				return NULL;
			if (ev[i].data.ptr == &service.listener)
				accept_one();
			else
				heard(ev[i].data.ptr);
		}
	}
}

static void close_all(void)
{
	tw_fd_close(service.epfd);
	tw_fd_close(service.stopfd);
}

int tw_mr_service_start(int listener)
{
	struct epoll_event stop = {.events = EPOLLIN, .data.ptr = &service.stopfd};
	struct epoll_event join = {.events = EPOLLIN, .data.ptr = &service.listener};
	sigset_t all, old;
	int failed;

	service.listener = listener;
	service.epfd = tw_fd_own(epoll_create1(EPOLL_CLOEXEC));
	service.stopfd = tw_fd_own(eventfd(0, EFD_CLOEXEC));
	if (service.epfd < 0 || service.stopfd < 0 ||
	    epoll_ctl(service.epfd, EPOLL_CTL_ADD, service.stopfd, &stop) < 0 ||
	    epoll_ctl(service.epfd, EPOLL_CTL_ADD, listener, &join) < 0) {
		close_all();
		return -1;
	}
	/* The program's signals are for its own threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	failed = pthread_create(&service.thread, NULL, run, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (failed) {
		close_all();
		return -1;
	}
	pthread_setname_np(service.thread, "tagwire-mrapi");
	return 0;
}

void tw_mr_service_stop(void)
{
	uint64_t one = 1;

	if (tw_sys_write(service.stopfd, &one, sizeof(one)) < 0)
		tw_log(TW_LOG_ERROR, "mrapi: cannot stop the thread: error %d", errno);
	pthread_join(service.thread, NULL);
}

void tw_mr_service_close(void)
{
	while (!tw_list_empty(&service.conns))
		drop_conn(tw_list_first(&service.conns, struct conn, link));
	tw_fd_close(service.listener);
	close_all();
}

void tw_mr_service_forked(void)
{
	pthread_mutex_init(&service.mutex, NULL);
	while (!tw_list_empty(&service.conns)) {
		struct conn *c = tw_list_first(&service.conns, struct conn, link);

		tw_list_del(&c->link);
		free(c);
	}
}
