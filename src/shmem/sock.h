/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets between the processes of one user on one host, and descriptors passed over them.
 * A name is abstract: gone with the process, and private to a network namespace. Anybody may
 * occupy one, so both sides check the other's user. Results are 0 or an error.
 */
#ifndef TW_SOCK_H
#define TW_SOCK_H

#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "base/compiler.h"

#define TW_SOCK_FDS 2		      /* most descriptors of a message */
#define TW_SOCK_FOREIGN EADDRNOTAVAIL /* the other side is another user's */

struct tw_sock_name {
	struct sockaddr_un sa;
	socklen_t len;
};

void tw_sock_name(struct tw_sock_name *name, const char *format, ...) tw_printf(2, 3);
/* With these flags, close-on-exec, ours to close (base/fds.h); -1 with errno. */
int tw_sock_new(int flags);
int tw_sock_listen(int fd, const struct tw_sock_name *name, int backlog);
/* After ECONNREFUSED the socket is as it was. */
int tw_sock_connect(int fd, const struct tw_sock_name *name);
/* The process at the other end, if it belongs to this user; 0 when it cannot be named here. */
int tw_sock_peer(int fd, pid_t *pid);

/* One message with so many descriptors, without waiting. */
int tw_sock_send(int fd, const void *msg, size_t len, const int *fds, unsigned nfds);
/*
 * Takes a message of just that length with just so many descriptors, without waiting; of
 * any other every descriptor is closed. EPROTO: it was another one. EMFILE: its descriptors
 * found no place here. ECONNRESET: the other side has gone.
 */
int tw_sock_recv(int fd, void *msg, size_t len, int *fds, unsigned nfds);

#endif /* TW_SOCK_H */
