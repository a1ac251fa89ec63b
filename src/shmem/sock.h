/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets between the processes of one user on one host, their names, and descriptors passed
 * over them. A name is one within a network namespace and a job, or in a job alone if it is shared:
 * processes of other network namespaces then find it in TAGWIRE_DIR. Results are 0 or an error.
 */
#ifndef TW_SOCK_H
#define TW_SOCK_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "base/compiler.h"

#ifdef SO_PEERPIDFD
#define TW_PEERPIDFD SO_PEERPIDFD
#else
#define TW_PEERPIDFD 77 /* of Linux 6.5; of all processors without numbers of their own */
#endif
#define TW_SOCK_FDS 2		      /* most descriptors of a message */
#define TW_SOCK_FOREIGN EADDRNOTAVAIL /* the other side is another user's */
#define TW_SOCK_FULL EBUSY	      /* so may this one be, whose queue is full */
#define TW_SOCK_UNNAMED ENODATA	      /* the other side's user has no id in this user namespace */

struct tw_sock_name {
	char text[40];
	bool shared; /* no two network namespaces use it */
};

/* In a directory that is this user's alone, and abstract. -1: there is none. */
enum { TW_SOCK_OWN, TW_SOCK_OPEN, TW_SOCK_LISTENERS };

struct tw_sock_listener {
	int fd[TW_SOCK_LISTENERS];
	bool alone; /* only this user reaches fd[TW_SOCK_OWN] */
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

/* names.c */
void tw_sock_name(struct tw_sock_name *name, const char *format, ...) tw_printf(2, 3);
/*
 * At least one socket, non-blocking. EADDRINUSE: a process of this user has the name.
 * TW_SOCK_FOREIGN: other users have it, and that was told.
 */
int tw_sock_listen(struct tw_sock_listener *l, const struct tw_sock_name *name, int backlog);
/* Ends a listener, also after an error of tw_sock_listen(). */
void tw_sock_listen_end(struct tw_sock_listener *l);
/*
 * Gives up the name. The numbers of the descriptors stay in use, for copies of `other'.
 * Async-signal-safe.
 */
void tw_sock_hide(struct tw_sock_listener *l, int other);
/*
 * Connects the socket, or a new one for -1, non-blocking. ECONNREFUSED: nobody has the name,
 * and the socket can be used again; after any other error it is closed, and -1. EAGAIN: who has
 * it has a full queue. TW_SOCK_FOREIGN, TW_SOCK_FULL: others have it, or may have.
 */
int tw_sock_dial(int *fd, const struct tw_sock_name *name);
/* As tw_sock_dial(), in TAGWIRE_DIR alone, for a shared name of another network namespace. */
int tw_sock_dial_shared(int *fd, const struct tw_sock_name *name);
/*
 * Calls found() with what follows the start, for every name of this network namespace that
 * begins so, of any job. False: the system does not tell.
 */
bool tw_sock_list(const struct tw_sock_name *start, void (*found)(const char *rest, void *arg),
		  void *arg);

/* sock.c */
/* Non-blocking, close-on-exec, ours to close (base/fds.h); -1 with errno. */
int tw_sock_new(void);
/* Connects as tw_sock_dial(), to one address. TW_SOCK_UNNAMED: it is connected. */
int tw_sock_connect(int *fd, const struct sockaddr_un *sa, socklen_t len);
/*
 * The process at the other end, if it belongs to this user; 0 when it cannot be named here.
 * TW_SOCK_UNNAMED: it is this user's if only this user reaches the socket's file.
 */
int tw_sock_peer(int fd, pid_t *pid);
/* A pidfd of that process, which need not be visible here; -1: the kernel has none. */
int tw_sock_pidfd(int fd);

/* Sends one message with so many descriptors, without waiting. */
int tw_sock_send(int fd, const void *msg, size_t len, const int *fds, unsigned nfds);
/*
 * Takes a message of just that length with just so many descriptors, without waiting; of
 * any other every descriptor is closed. EPROTO: it was another one. EMFILE: its descriptors
 * found no place here. ECONNRESET: the other side has gone.
 */
int tw_sock_recv(int fd, void *msg, size_t len, int *fds, unsigned nfds);

#endif /* TW_SOCK_H */
