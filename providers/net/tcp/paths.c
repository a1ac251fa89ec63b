/* SPDX-License-Identifier: BSD-2-Clause */
/* Paths: connecting and ending. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/sys.h"
#include "base/inet.h"
#include "providers/net/tcp/tcp.h"

#define NEAR_US 1000 /* round-trip time within a site */

int tw_tcp_watch(struct tw_tcp *t, int op, int fd, uint32_t events, void *what)
{
	struct epoll_event ev = {.events = events, .data.ptr = what};

	return tw_sys_epoll_ctl(t->epfd, op, fd, &ev);
}

/* Accepts again: descriptors may be free now. */
static void listen_again(struct tw_tcp *t)
{
	for (unsigned i = 0; t->accept_paused && i < t->nboards; i++)
		tw_tcp_watch(t, EPOLL_CTL_MOD, t->boards[i].listener, EPOLLIN, &t->boards[i]);
	t->accept_paused = false;
}

enum tw_err tw_tcp_path_new(void *instance, const struct sockaddr_storage *board,
			    const struct tw_driver_tokens *tokens, struct tw_driver_address *mine,
			    void **out)
{
	struct tw_tcp *t = instance;
	const struct tw_tcp_board *b = board ? tw_tcp_board(t, board) : &t->boards[0];
	struct tw_tcp_path *p = b ? calloc(1, sizeof(*p)) : NULL;
	struct tw_tcp_address a = {.magic = TW_TCP_MAGIC};
	bool by_session = tokens->encrypted && t->no_tls;

	if (!p)
		return b ? TW_ENOMEM : TW_EUNREACH;
	p->in = malloc(TW_TCP_IN);
	if (!p->in) {
		free(p);
		return TW_ENOMEM;
	}
	listen_again(t);
	p->what = TW_TCP_PATH;
	p->t = t;
	p->board = b;
	p->tokens = *tokens;
	p->by_session = by_session;
	p->key_left = tokens->encrypted ? t->key_bytes : INT64_MAX;
	p->fd = p->reserved = p->calling = -1;
	p->out_end = &p->out;
	tw_list_init(&p->busy);
	tw_list_init(&p->stuck);
	tw_list_init(&p->jobs);
	tw_list_init(&p->ops);
	tw_list_add_tail(&t->paths, &p->node);
	a.magic = by_session ? TW_TCP_MAGIC_SESSION : TW_TCP_MAGIC;
	memcpy(a.to, &b->addr, tw_inet_len(&b->addr));
	tw_inet_wire(a.to);
	mine->len = sizeof(a);
	memcpy(mine->bytes, &a, sizeof(a));
	*out = p;
	return TW_OK;
}

static void unreserve(struct tw_tcp_path *p)
{
	p->t->host.close_fd(p->reserved);
	p->reserved = -1;
}

/* The path has a socket, connected or, without encryption, about to be. */
static void tcp_path_use(struct tw_tcp_path *p, int fd)
{
	int one = 1;

	unreserve(p);
	p->fd = fd;
	p->t->nopen++;
	tw_sys_setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if ((p->tokens.encrypted && !p->session && !tw_tcp_encrypt(p)) ||
	    tw_tcp_watch(p->t, EPOLL_CTL_ADD, fd, EPOLLIN, p) < 0)
		tw_tcp_end(p);
}

/*
 * At short distance, congestion control that paces packets by a timer (BBR) costs more
 * than it saves (decision 31); farther away it is useful.
 */
void tw_tcp_tune(struct tw_tcp_path *p)
{
	struct tcp_info info;
	socklen_t len = sizeof(info);

	if (p->fd < 0 || tw_sys_getsockopt(p->fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
		return;
	p->tuned = true;
	if (info.tcpi_rtt < NEAR_US)
		tw_sys_setsockopt(p->fd, IPPROTO_TCP, TCP_CONGESTION, "reno", sizeof("reno") - 1);
}

static void invert(uint8_t token[TW_DRIVER_TOKEN])
{
	for (unsigned i = 0; i < TW_DRIVER_TOKEN; i++)
		token[i] ^= 0xff;
}

static struct tw_tcp_hello tcp_hello_of(const struct tw_tcp_path *p)
{
	struct tw_tcp_hello hello;

	memcpy(hello.to, p->tokens.other, sizeof(hello.to));
	memcpy(hello.from, p->tokens.mine, sizeof(hello.from));
	if (p->by_session)
		invert(hello.from);
	return hello;
}

/* The connection is the path's. */
static void tcp_called_use(struct tw_tcp_path *p)
{
	int fd = p->calling;

	tw_tcp_watch(p->t, EPOLL_CTL_DEL, fd, 0, NULL);
	p->what = TW_TCP_PATH;
	p->calling = -1;
	tcp_path_use(p, fd);
	tw_tcp_flush(p);
}

/* A flight of the handshake is short: the system takes it. */
static void path_shake(struct tw_tcp_path *p)
{
	enum tw_err err = tw_tcp_session_shake(p);

	if (err == TW_OK)
		tcp_called_use(p);
	else if (err != TW_AGAIN)
		tw_tcp_end(p);
}

/* The hello has passed along the connection, which is watched. */
static void tcp_path_greeted(struct tw_tcp_path *p, bool calls)
{
	if (!p->by_session) {
		tcp_called_use(p);
		return;
	}
	p->what = TW_TCP_CALLING;
	if (!tw_tcp_session(p, p->calling, calls) ||
	    tw_tcp_watch(p->t, EPOLL_CTL_MOD, p->calling, EPOLLIN, p) < 0)
		tw_tcp_end(p);
	else
		path_shake(p);
}

/* Nothing leaves before the hello has: until then the path has no socket. */
static void call_encrypted(struct tw_tcp_path *p, int fd)
{
	p->what = TW_TCP_CALLING;
	p->calling = fd;
	if (tw_tcp_watch(p->t, EPOLL_CTL_ADD, fd, EPOLLOUT, p) < 0)
		tw_tcp_end(p);
}

void tw_tcp_called(struct tw_tcp_path *p)
{
	struct tw_tcp_hello hello = tcp_hello_of(p);

	if (p->session)
		path_shake(p);
	else if (tw_sys_send(p->calling, &hello, sizeof(hello), MSG_DONTWAIT | MSG_NOSIGNAL) ==
		 sizeof(hello))
		tcp_path_greeted(p, true);
	else
		tw_tcp_end(p);
}

static enum tw_err path_call(struct tw_tcp_path *p, const struct sockaddr_storage *to)
{
	struct sockaddr_storage from = p->board->addr;
	struct tw_tcp_hello hello = tcp_hello_of(p);
	int fd = p->t->host.own_fd(
		tw_sys_socket(to->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));

	if (fd < 0)
		return TW_ENOMEM;
	/* From the board, on any port. */
	tw_inet_set_port(&from, 0);
	if ((!p->tokens.encrypted && !tw_tcp_queue(p, &hello, sizeof(hello))) ||
	    tw_sys_bind(fd, (struct sockaddr *)&from, tw_inet_len(&from)) < 0 ||
	    (tw_sys_connect(fd, (const struct sockaddr *)to, tw_inet_len(to)) < 0 &&
	     errno != EINPROGRESS)) {
		p->t->host.close_fd(fd);
		tw_tcp_end(p);
		return TW_OK;
	}
	if (p->tokens.encrypted) {
		call_encrypted(p, fd);
		return TW_OK;
	}
	tcp_path_use(p, fd);
	tw_tcp_flush(p);
	return TW_OK;
}

/* Without a descriptor the other side's call would wait until somebody gives up. */
static enum tw_err await_call(struct tw_tcp_path *p)
{
	p->reserved = p->t->host.own_fd(tw_sys_fcntl(p->t->epfd, F_DUPFD_CLOEXEC, NULL));
	return p->reserved >= 0 || p->fd >= 0 ? TW_OK : TW_ENOMEM;
}

enum tw_err tw_tcp_path_bind(void *path, const struct tw_driver_address *other)
{
	struct tw_tcp_path *p = path;
	struct sockaddr_storage to = {0};
	struct tw_tcp_address a;

	if (other->len != sizeof(a))
		return TW_EPROTO;
	memcpy(&a, other->bytes, sizeof(a));
	tw_inet_wire(a.to);
	memcpy(&to, a.to, sizeof(a.to));
	if ((a.magic != TW_TCP_MAGIC && a.magic != TW_TCP_MAGIC_SESSION) ||
	    to.ss_family != p->board->addr.ss_family)
		return TW_EPROTO;
	if (!p->tokens.calls)
		return await_call(p);
	p->by_session |= a.magic == TW_TCP_MAGIC_SESSION;
	return path_call(p, &to);
}

/* A child that is being started may hold a copy: closing would not end the watch. */
static void let_fd_go(struct tw_tcp *t, int fd)
{
	tw_tcp_watch(t, EPOLL_CTL_DEL, fd, 0, NULL);
	t->host.close_fd(fd);
	listen_again(t);
}

static void tcp_path_hang_up(struct tw_tcp_path *p)
{
	unreserve(p);
	tw_tcp_session_end(p);
	if (p->calling >= 0)
		let_fd_go(p->t, p->calling);
	p->calling = -1;
	if (p->fd < 0)
		return;
	let_fd_go(p->t, p->fd);
	p->fd = -1;
	p->t->nopen--;
}

void tw_tcp_end(struct tw_tcp_path *p)
{
	p->ended = p->t->ending = true;
	p->tx_shutdown = true;
	tcp_path_hang_up(p);
}

void tw_tcp_path_shut(struct tw_tcp_path *p)
{
	struct tw_tcp *t = p->t;

	tcp_path_hang_up(p);
	p->ended = true;
	tw_tcp_shutdown_tx(p);
	tw_list_walk(&p->ops, struct tw_tcp_op, op, node)
		tw_tcp_op_over(p, op, TW_ELOST);
	tw_list_del(&p->busy);
	tw_list_del(&p->stuck);
	if (t->recent == p)
		t->recent = NULL;
}

void tw_tcp_path_free(void *path)
{
	struct tw_tcp_path *p = path;

	tw_tcp_path_shut(p);
	p->freed = true;
	/* It may be in use up the stack. */
	tw_list_del(&p->node);
	tw_list_add_tail(&p->t->freed_paths, &p->node);
}

void tw_tcp_caller_free(struct tw_tcp *t, struct tw_tcp_caller *c)
{
	if (c->fd >= 0)
		let_fd_go(t, c->fd);
	tw_list_del(&c->node);
	t->ncallers--;
	free(c);
}

/* With the place that is kept for one of those who are to call, if there is no other. */
static int accept_call(struct tw_tcp *t, int listener)
{
	int fd = tw_sys_accept(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0 || (errno != EMFILE && errno != ENFILE))
		return fd;
	tw_list_walk(&t->paths, struct tw_tcp_path, p, node) {
		if (p->reserved < 0)
			continue;
		unreserve(p);
		return tw_sys_accept(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	}
	errno = EMFILE;
	return -1;
}

static void path_accept_at(struct tw_tcp *t, struct tw_tcp_board *b)
{
	int fd = 0;

	/* The oldest is dropped: real peers have sent their hello by then. */
	if (t->ncallers >= TW_TCP_CALLERS)
		tw_tcp_caller_free(t, tw_list_first(&t->callers, struct tw_tcp_caller, node));
	while (t->ncallers < TW_TCP_CALLERS &&
	       (fd = t->host.own_fd(accept_call(t, b->listener))) >= 0) {
		struct tw_tcp_caller *c = calloc(1, sizeof(*c));

		if (!c || tw_tcp_watch(t, EPOLL_CTL_ADD, fd, EPOLLIN, c) < 0) {
			t->host.close_fd(fd);
			free(c);
			continue;
		}
		c->what = TW_TCP_CALLER;
		c->t = t;
		c->fd = fd;
		c->until = t->host.called(t->host.owner);
		tw_list_add_tail(&t->callers, &c->node);
		t->ncallers++;
	}
	/* Out of descriptors: the listener would stay readable. */
	if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
		t->accept_paused = true;
		tw_tcp_watch(t, EPOLL_CTL_MOD, b->listener, 0, b);
	}
}

void tw_tcp_accept(struct tw_tcp *t)
{
	for (unsigned i = 0; i < t->nboards; i++)
		path_accept_at(t, &t->boards[i]);
}

uint64_t tw_tcp_expire(void *instance, uint64_t now)
{
	struct tw_tcp *t = instance;

	while (!tw_list_empty(&t->callers)) {
		struct tw_tcp_caller *c = tw_list_first(&t->callers, struct tw_tcp_caller, node);

		if (c->until > now)
			return c->until;
		tw_tcp_caller_free(t, c);
	}
	return 0;
}

static struct tw_tcp_path *meant(struct tw_tcp *t, const struct tw_tcp_hello *h)
{
	struct tw_tcp_hello inverted = *h;

	invert(inverted.from);
	tw_list_walk(&t->paths, struct tw_tcp_path, p, node) {
		if (p->fd >= 0 || p->calling >= 0 || p->ended ||
		    !tw_driver_token_is(p->tokens.mine, h->to))
			continue;
		if (tw_driver_token_is(p->tokens.other, h->from))
			return p;
		if (p->tokens.encrypted && tw_driver_token_is(p->tokens.other, inverted.from)) {
			p->by_session = true;
			return p;
		}
	}
	return NULL;
}

/* A caller that does not know the tokens is hung up on. */
void tw_tcp_read_hello(struct tw_tcp_caller *c)
{
	struct tw_tcp *t = c->t;
	struct tw_tcp_path *p;
	ssize_t got = tw_sys_recv(c->fd, (char *)&c->hello + c->len, sizeof(c->hello) - c->len,
				  MSG_DONTWAIT);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	c->len += got > 0 ? (size_t)got : 0;
	if (got > 0 && c->len < sizeof(c->hello))
		return;
	p = got > 0 ? meant(t, &c->hello) : NULL;
	if (p) {
		p->calling = c->fd;
		c->fd = -1;
		tcp_path_greeted(p, false);
	}
	tw_tcp_caller_free(t, c);
}
