/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A member's thread. It sleeps until a process joins, sends a request or dies, or the kernel
 * has an event. Each pair of members has one connection, which a member never closes. After its
 * end the thread looks whether the peer has died: a caller may only have said that it is a member.
 *
 * While descriptors or memory are short, connections wait at the listener: the thread
 * tries again ten times a second at least, and tests itself whether those members live.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/fds.h"
#include "base/sys.h"
#include "base/thread.h"
#include "base/wakefd.h"
#include "mrapi/mrapi_internal.h"
#include "shmem/sock.h"

#define UNKNOWN UINT32_MAX
#define AGAIN_MS 100	/* while resources are short, or a living member has no connection */
#define MOST_UNKNOWN 64 /* connections without a hello */

struct conn {
	struct tw_list link;
	int fd;
	uint32_t proc; /* UNKNOWN until its hello */
	uint32_t incarnation;
	bool watched;
};

static struct {
	pthread_mutex_t mutex; /* guards conns */
	struct tw_list conns;
	pthread_t thread;
	/* The thread's own: */
	uint32_t unconnected[TW_MRAPI_PROCS]; /* by slot: incarnation of who lives so */
	unsigned nunconnected;
	uint64_t look_at;	      /* tick of tw_clock() of the next look at them */
	unsigned nunknown;	      /* connections without a hello */
	_Atomic(unsigned) generation; /* of the thread */
	struct tw_sock_listener listener;
	int epfd, stopfd, kernel;
	bool starved; /* resources are short */
} service = {.mutex = PTHREAD_MUTEX_INITIALIZER, .conns = {&service.conns, &service.conns}};

static const epoll_data_t stop = {.ptr = &service.stopfd};

/* 0 or an error; the connection is kept in either case. */
static int service_watch(struct conn *c)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};

	/* EEXIST: the thread has added a connection that another thread is adding. */
	c->watched = tw_sys_epoll_ctl(service.epfd, EPOLL_CTL_ADD, c->fd, &ev) == 0 ||
		     errno == EEXIST;
	return c->watched ? 0 : errno;
}

static int add_conn(struct conn *c, int fd, uint32_t proc, uint32_t incarnation)
{
	int err;

	*c = (struct conn){.fd = fd, .proc = proc, .incarnation = incarnation};
	tw_mrapi_lock(&service.mutex);
	tw_list_add_tail(&service.conns, &c->link);
	/* Once it is watched, and the mutex is free, the thread may drop it. */
	err = service_watch(c);
	tw_mrapi_unlock(&service.mutex);
	return err;
}

static void drop_conn(struct conn *c)
{
	/* Closing is not enough: a child that was just forked may have it open as well. */
	tw_sys_epoll_ctl(service.epfd, EPOLL_CTL_DEL, c->fd, NULL);
	tw_mrapi_lock(&service.mutex);
	tw_list_del(&c->link);
	tw_fd_close(c->fd);
	tw_mrapi_unlock(&service.mutex);
	service.nunknown -= c->proc == UNKNOWN;
	free(c);
}

int tw_mrapi_service_watch(int fd, uint32_t proc, uint32_t incarnation)
{
	struct conn *c = malloc(sizeof(*c));

	if (c)
		return add_conn(c, fd, proc, incarnation);
	tw_fd_close(fd);
	return ENOMEM;
}

/* The connection to the member that has that slot now. */
static struct conn *conn_of(uint32_t proc)
{
	uint32_t incarnation = (uint32_t)(atomic_load(&tw_mrapi.seg->proc[proc].life) >> 8);

	tw_list_walk(&service.conns, struct conn, c, link) {
		if (c->proc == proc && c->incarnation == incarnation)
			return c;
	}
	return NULL;
}

bool tw_mrapi_send(uint32_t proc, const struct tw_mrapi_message *m)
{
	struct conn *c;
	bool sent;

	tw_mrapi_lock(&service.mutex);
	c = conn_of(proc);
	sent = c && tw_fd_ours(c->fd) &&
	       tw_sys_send(c->fd, m, sizeof(*m), MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(*m);
	tw_mrapi_unlock(&service.mutex);
	return sent;
}

/* Reclaims members that died before their connection was accepted. */
static void reclaim_dead(void)
{
	for (uint32_t i = 0; i < TW_MRAPI_PROCS; i++) {
		const struct tw_mrapi_proc *p = &tw_mrapi.seg->proc[i];
		uint32_t incarnation = (uint32_t)(atomic_load(&p->life) >> 8);

		if (i != tw_mrapi.proc && tw_mrapi_state(p) != TW_MRAPI_FREE &&
		    tw_mrapi_state(p) != TW_MRAPI_JOINING && tw_mrapi_gone(i))
			tw_mrapi_reclaim(i, incarnation);
	}
}

/*
 * After the end of its connection. A member that lives has closed it, or it was a liar's; one that
 * has died is reclaimed. Nothing is left to do for one that has ended in order.
 */
static bool lives_on(uint32_t proc, uint32_t incarnation)
{
	const struct tw_mrapi_proc *p = &tw_mrapi.seg->proc[proc];

	if (atomic_load(&p->life) >> 8 != incarnation || tw_mrapi_state(p) == TW_MRAPI_FREE)
		return false;
	if (!tw_mrapi_gone(proc))
		return true;
	tw_mrapi_reclaim(proc, incarnation);
	return false;
}

/* The kernel drops the lock of a process that dies before it closes its sockets. */
static void conn_ended(struct conn *c)
{
	if (c->proc != UNKNOWN && lives_on(c->proc, c->incarnation)) {
		service.nunconnected += !service.unconnected[c->proc];
		service.unconnected[c->proc] = c->incarnation;
	}
	drop_conn(c);
}

static void look_at_unconnected(void)
{
	uint64_t now = tw_clock();

	if (!service.nunconnected || now < service.look_at)
		return;
	service.look_at = now + tw_clock_us(1000 * AGAIN_MS);
	for (uint32_t i = 0; i < TW_MRAPI_PROCS; i++) {
		if (!service.unconnected[i] || lives_on(i, service.unconnected[i]))
			continue;
		service.unconnected[i] = 0;
		service.nunconnected--;
	}
}

/* The oldest caller that has said nothing, or NULL. */
static struct conn *oldest_silent(void)
{
	struct conn *oldest = NULL;
	char byte;

	tw_mrapi_lock(&service.mutex);
	tw_list_walk(&service.conns, struct conn, c, link) {
		if (c->proc == UNKNOWN &&
		    tw_sys_recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0) {
			oldest = c;
			break;
		}
	}
	tw_mrapi_unlock(&service.mutex);
	return oldest;
}

/* They make room for others. */
static void drop_silent(void)
{
	struct conn *c;

	while (service.nunknown > MOST_UNKNOWN && (c = oldest_silent()))
		drop_conn(c);
}

/* 0, or the error if a resource is short. */
static int service_accept_at(int listener)
{
	struct conn *c = malloc(sizeof(*c));
	pid_t pid;
	int fd, err = ENOMEM;

	if (!c)
		return err;
	fd = tw_fd_own(tw_sys_accept(listener, NULL, NULL, SOCK_CLOEXEC));
	if (fd >= 0 && tw_sock_peer(fd, &pid) == 0) {
		tw_mrapi_limit_sends(fd);
		service.nunknown++;
		return add_conn(c, fd, UNKNOWN, 0);
	}
	err = fd < 0 ? errno : 0;
	tw_fd_close(fd);
	free(c);
	return err == EAGAIN || err == EINTR || err == ECONNABORTED ? 0 : err;
}

static int service_accept_one(void)
{
	int err = 0;

	for (unsigned i = 0; i < TW_SOCK_LISTENERS && !err; i++)
		if (service.listener.fd[i] >= 0)
			err = service_accept_at(service.listener.fd[i]);
	return err;
}

/* 0 or an error. */
static int listen_for(int op, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = &service.listener};

	for (unsigned i = 0; i < TW_SOCK_LISTENERS; i++)
		if (service.listener.fd[i] >= 0 &&
		    tw_sys_epoll_ctl(service.epfd, op, service.listener.fd[i], &ev) < 0)
			return errno;
	return 0;
}

/* Stops polling the listener, which would be ready without end. */
static void run_short(int err)
{
	tw_log(TW_LOG_WARN, "mrapi: cannot accept a new member yet: %s", strerror(err));
	service.starved = true;
	listen_for(EPOLL_CTL_MOD, 0);
}

static int watch_all(void)
{
	int err = 0;

	tw_mrapi_lock(&service.mutex);
	tw_list_walk(&service.conns, struct conn, c, link) {
		if (!c->watched && err == 0)
			err = service_watch(c);
	}
	tw_mrapi_unlock(&service.mutex);
	return err;
}

static void try_again(void)
{
	struct pollfd p[TW_SOCK_LISTENERS];
	int err = watch_all();

	for (unsigned i = 0; i < TW_SOCK_LISTENERS; i++)
		p[i] = (struct pollfd){.fd = service.listener.fd[i], .events = POLLIN};
	reclaim_dead();
	while (err == 0 && service.nunknown <= MOST_UNKNOWN &&
	       tw_sys_poll(p, TW_SOCK_LISTENERS, 0) > 0)
		err = service_accept_one();
	service.starved = err;
	if (!err)
		listen_for(EPOLL_CTL_MOD, EPOLLIN);
}

static void send_segment(int fd)
{
	struct tw_mrapi_message m = {.type = TW_MRAPI_SEGMENT_REPLY};
	int files[2] = {tw_mrapi.segfd, tw_mrapi.arenafd};
	int err = tw_sock_send(fd, &m, sizeof(m), files, 2);

	if (err)
		tw_log(TW_LOG_WARN, "mrapi: cannot send the segment: %s", strerror(err));
}

static void service_receive(struct conn *c)
{
	struct tw_mrapi_message m;
	ssize_t n = tw_sys_recv(c->fd, &m, sizeof(m), MSG_DONTWAIT);

	if (n < 0 && errno != ECONNRESET)
		return;
	if (n != sizeof(m)) {
		conn_ended(c);
		return;
	}
	if (m.type == TW_MRAPI_GET_SEGMENT)
		send_segment(c->fd);
	if (m.type == TW_MRAPI_MOVE && c->proc != UNKNOWN)
		tw_mrapi_serve(c->proc, m.slot);
	if (m.type == TW_MRAPI_REVOKE && c->proc != UNKNOWN)
		tw_mrapi_rmem_revoked(m.slot);
	if (m.type == TW_MRAPI_HELLO && c->proc == UNKNOWN && m.proc < TW_MRAPI_PROCS &&
	    m.proc != tw_mrapi.proc) {
		service.nunknown--;
		tw_mrapi_lock(&service.mutex);
		c->incarnation = m.incarnation;
		c->proc = m.proc;
		tw_mrapi_unlock(&service.mutex);
	}
}

static void *mrapi_service_run(void *arg)
{
	const unsigned mine = atomic_load(&service.generation);
	struct epoll_event ev[16];

	(void)arg;
	for (;;) {
		bool again = service.starved || service.nunconnected;
		int n = tw_sys_epoll_wait(service.epfd, ev, tw_countof(ev), again ? AGAIN_MS : -1);
		int err;

		/* The program has closed the library's descriptors. */
		if ((n < 0 && errno != EINTR) || atomic_load(&service.generation) != mine)
			return NULL;
		for (int i = 0; i < n; i++) {
			if (ev[i].data.ptr == &service.stopfd)
				return NULL;
			if (ev[i].data.ptr == &service.kernel)
				tw_mrapi_events_receive(service.kernel);
			else if (ev[i].data.ptr != &service.listener)
				service_receive(ev[i].data.ptr);
			else if ((err = service_accept_one()) != 0)
				run_short(err);
		}
		drop_silent();
		look_at_unconnected();
		if (service.starved)
			try_again();
	}
}

static void mrapi_service_close_all(void)
{
	tw_fd_close(service.epfd);
	tw_fd_close(service.stopfd);
	tw_fd_close(service.kernel);
}

bool tw_mrapi_service_kernel(int kernel)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &service.kernel};

	service.kernel = kernel;
	if (tw_sys_epoll_ctl(service.epfd, EPOLL_CTL_ADD, kernel, &ev) == 0)
		return true;
	service.kernel = -1;
	return false;
}

int tw_mrapi_service_start(const struct tw_sock_listener *listener)
{
	int err = 0;

	service.listener = *listener;
	service.starved = false;
	service.kernel = -1;
	service.epfd = tw_fd_own(tw_sys_epoll_create());
	service.stopfd = tw_wakefd_open(service.epfd, stop);
	if (service.stopfd < 0)
		err = errno;
	if (!err)
		err = listen_for(EPOLL_CTL_ADD, EPOLLIN);
	if (!err)
		err = tw_thread_start(&service.thread, mrapi_service_run, NULL, "tagwire-mrapi");
	if (err)
		mrapi_service_close_all();
	return err;
}

void tw_mrapi_service_stop(void)
{
	/* If the program has closed the library's descriptors the thread sleeps for ever. */
	if (tw_wakefd_raise(service.epfd, service.stopfd, stop))
		pthread_join(service.thread, NULL);
	else
		pthread_detach(service.thread);
	/* One that was left asleep touches nothing when it wakes. */
	atomic_fetch_add(&service.generation, 1);
}

/* No connection is left. */
static void service_forget(void)
{
	service.nunknown = service.nunconnected = 0;
	memset(service.unconnected, 0, sizeof(service.unconnected));
}

void tw_mrapi_service_close(void)
{
	while (!tw_list_empty(&service.conns))
		drop_conn(tw_list_first(&service.conns, struct conn, link));
	service_forget();
	tw_sock_listen_end(&service.listener);
	mrapi_service_close_all();
}

void tw_mrapi_service_forked(void)
{
	struct conn *c;

	pthread_mutex_init(&service.mutex, NULL);
	while ((c = tw_list_take(&service.conns, struct conn, link)))
		free(c);
	service_forget();
}
