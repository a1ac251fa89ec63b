/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A descriptor that wakes whoever waits for an epoll set. It is always writable, and watched while
 * it is to wake. So waking needs no write: if a program has closed the library's descriptors, the
 * number may be that of a file of its own.
 */
#ifndef TW_WAKEFD_H
#define TW_WAKEFD_H

#include "base/fds.h"
#include "base/sys.h"

static inline bool tw_wakefd_control(int epfd, int op, int fd, uint32_t events, epoll_data_t what)
{
	struct epoll_event ev = {.events = events, .data = what};

	return tw_sys_epoll_ctl(epfd, op, fd, &ev) == 0;
}

/* Adds one to the set, which reports it as what; -1: no descriptor or memory. */
static inline int tw_wakefd_open(int epfd, epoll_data_t what)
{
	int fd = epfd < 0 ? -1 : tw_fd_own(tw_sys_eventfd());

	if (fd >= 0 && tw_wakefd_control(epfd, EPOLL_CTL_ADD, fd, 0, what))
		return fd;
	tw_fd_close(fd);
	return -1;
}

/* Until it is cleared. False: it is closed. */
static inline bool tw_wakefd_raise(int epfd, int fd, epoll_data_t what)
{
	return tw_wakefd_control(epfd, EPOLL_CTL_MOD, fd, EPOLLOUT, what);
}

/* Until one waiter has been told. */
static inline bool tw_wakefd_raise_once(int epfd, int fd, epoll_data_t what)
{
	return tw_wakefd_control(epfd, EPOLL_CTL_MOD, fd, EPOLLOUT | EPOLLONESHOT, what);
}

/* False: it is closed. */
static inline bool tw_wakefd_clear(int epfd, int fd, epoll_data_t what)
{
	return tw_wakefd_control(epfd, EPOLL_CTL_MOD, fd, 0, what);
}

#endif /* TW_WAKEFD_H */
