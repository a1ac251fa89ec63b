/* SPDX-License-Identifier: BSD-2-Clause */
#include "providers/net/tcp/tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/inet.h"
#include "base/sys.h"

#define BACKLOG 256
#define EVENTS 32
/* Every so many polls all paths are polled, else only the recent one: of several, or alone. */
#define LOOK 2
#define LOOK_ALONE 16

static void reap(struct tw_tcp *t)
{
	tw_list_walk(&t->freed_paths, struct tw_tcp_path, p, node) {
		tw_list_del(&p->node);
		free(p->in);
		free(p);
	}
}

/* Reports paths that have ended, once everything received along them is passed on. */
static void report_ended(struct tw_tcp *t)
{
	if (!t->ending)
		return;
again:
	t->ending = false;
	tw_list_walk(&t->paths, struct tw_tcp_path, p, node) {
		if (!p->ended || p->reported)
			continue;
		if (tw_tcp_stuck(p)) {
			t->ending = true;
			continue;
		}
		p->reported = true;
		tw_tcp_path_shut(p);
		t->host.broken(t->host.owner, p);
		/* Others may have been freed in the upcall. */
		goto again;
	}
}

static void look_at_all(struct tw_tcp *t)
{
	struct epoll_event ev[EVENTS];
	int count = tw_sys_epoll_wait(t->epfd, ev, EVENTS, 0);
	bool called = false;

	for (int i = 0; i < count; i++) {
		enum tw_tcp_what *what = ev[i].data.ptr;
		struct tw_tcp_path *p = ev[i].data.ptr;

		switch (*what) {
		case TW_TCP_LISTENER:
			called = true;
			break;
		case TW_TCP_CALLER:
			tw_tcp_read_hello(ev[i].data.ptr);
			break;
		case TW_TCP_CALLING:
			if (!p->freed)
				tw_tcp_called(p);
			break;
		case TW_TCP_PATH:
			if (p->freed)
				break;
			t->recent = p;
			tw_tcp_read(p);
			break;
		}
	}
	/* Last: it may free callers that have events here. */
	if (called)
		tw_tcp_accept(t);
}

/* Sends what waits; full: also on paths that had no room before. */
static void flush_busy(struct tw_tcp *t, bool full)
{
	tw_list_walk(&t->busy, struct tw_tcp_path, p, busy) {
		if (full || !p->watched_out)
			tw_tcp_flush(p);
	}
}

/* Passes on what could not be before. Other paths do not wait for that. */
static void offer_again(struct tw_tcp *t)
{
	unsigned count = 0;

	tw_list_walk(&t->stuck, struct tw_tcp_path, p, stuck)
		count++;
	for (; count && !tw_list_empty(&t->stuck); count--) {
		struct tw_tcp_path *p = tw_list_first(&t->stuck, struct tw_tcp_path, stuck);

		tw_tcp_parse(p);
		if (p->session && !p->freed && tw_tcp_session_pending(p))
			tw_tcp_read(p);
	}
}

static void tcp_do_progress(void *instance)
{
	struct tw_tcp *t = instance;

	if (tw_unlikely(!tw_list_empty(&t->freed_paths)))
		reap(t);
	flush_busy(t, true);
	if (tw_unlikely(!tw_list_empty(&t->stuck)))
		offer_again(t);
	if (t->recent && ++t->looks % (t->nopen > 1 ? LOOK : LOOK_ALONE))
		tw_tcp_read(t->recent);
	else
		look_at_all(t);
	report_ended(t);
	/* Replies made in this call: the next call may be late. */
	flush_busy(t, false);
}

static bool tcp_do_arm(void *instance)
{
	struct tw_tcp *t = instance;
	struct pollfd poller = {.fd = t->epfd, .events = POLLIN};

	flush_busy(t, true);
	return !tw_list_empty(&t->stuck) || t->ending || tw_sys_poll(&poller, 1, 0) > 0;
}

static void tcp_do_close(void *instance)
{
	struct tw_tcp *t = instance;

	tw_list_walk(&t->callers, struct tw_tcp_caller, c, node)
		tw_tcp_caller_free(t, c);
	tw_list_walk(&t->paths, struct tw_tcp_path, p, node)
		tw_tcp_path_free(p);
	reap(t);
	tdestroy(t->mrs, free);
	while (t->nboards)
		t->host.close_fd(t->boards[--t->nboards].listener);
	t->host.close_fd(t->epfd);
	free(t);
}

/* On the board, at that port. Connections of a process that has ended do not keep it. */
static bool board_listen_at(struct tw_tcp *t, struct tw_tcp_board *b, uint32_t port)
{
	struct sockaddr *sa = (struct sockaddr *)&b->addr;
	socklen_t len = sizeof(b->addr);
	int one = 1, error;

	tw_inet_set_port(&b->addr, port);
	b->listener = t->host.own_fd(
		tw_sys_socket(sa->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (b->listener < 0)
		return false;
	if (port)
		tw_sys_setsockopt(b->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (tw_sys_bind(b->listener, sa, tw_inet_len(&b->addr)) == 0 &&
	    tw_sys_listen(b->listener, BACKLOG) == 0 &&
	    tw_sys_getsockname(b->listener, sa, &len) == 0 &&
	    tw_tcp_watch(t, EPOLL_CTL_ADD, b->listener, EPOLLIN, b) == 0)
		return true;
	error = errno;
	t->host.close_fd(b->listener);
	errno = error;
	return false;
}

static bool board_listen(struct tw_tcp *t, struct tw_tcp_board *b)
{
	const char *range = t->host.settings->data_ports;
	struct tw_ports ports;
	int error;

	tw_ports_parse(range, &ports);
	for (uint32_t port = ports.first; port <= ports.last; port++) {
		if (board_listen_at(t, b, port))
			return true;
		if (errno != EADDRINUSE)
			break;
	}
	error = errno;
	if (ports.first && (error == EADDRINUSE || error == EACCES) && !t->said_ports) {
		t->said_ports = true;
		t->host.log(
			TW_LOG_ERROR,
			"tcp: no port of TAGWIRE_DATA_PORTS=%s can be had: %s; an endpoint that is "
			"connected to another host needs one on each board",
			range, strerror(error));
	}
	errno = error;
	return false;
}

struct tw_tcp_board *tw_tcp_board(struct tw_tcp *t, const struct sockaddr_storage *at)
{
	struct tw_tcp_board *b = &t->boards[t->nboards];
	uint8_t wanted[16], address[16];

	tw_inet_pack(at, wanted);
	for (unsigned i = 0; i < t->nboards; i++) {
		tw_inet_pack(&t->boards[i].addr, address);
		if (memcmp(address, wanted, sizeof(address)) == 0)
			return &t->boards[i];
	}
	if (t->nboards == TW_TCP_BOARDS)
		return NULL;
	*b = (struct tw_tcp_board){.what = TW_TCP_LISTENER, .addr = *at};
	if (!board_listen(t, b))
		return NULL;
	t->nboards++;
	return b;
}

/* Else the driver ends a path as soon as the system does. */
static bool path_stalled(void *path)
{
	return tw_inet_stalled(((struct tw_tcp_path *)path)->fd);
}

/* Of this host, as that of the other is not known. */
static void tcp_ports(const struct tw_settings *settings, char *text, size_t size)
{
	static const char file[] = "/proc/sys/net/ipv4/ip_local_port_range";
	char range[32] = "";
	unsigned low, high;
	int fd;

	if (*settings->data_ports) {
		snprintf(text, size, "TCP ports %s (TAGWIRE_DATA_PORTS)", settings->data_ports);
		return;
	}
	fd = tw_sys_open(file, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && tw_sys_read(fd, range, sizeof(range) - 1) > 0 &&
	    sscanf(range, "%u %u", &low, &high) == 2)
		snprintf(text, size, "TCP ports %u to %u (%s; or see TAGWIRE_DATA_PORTS)", low,
			 high, file);
	else
		snprintf(text, size, "the TCP ports of %s (or see TAGWIRE_DATA_PORTS)", file);
	tw_sys_close(fd);
}

static enum tw_err tcp_do_open(const struct tw_driver_host *host, void **instance,
			       struct tw_driver_caps *caps)
{
	struct tw_tcp *t = calloc(1, sizeof(*t));

	if (!t)
		return TW_ENOMEM;
	t->host = *host;
	t->key_bytes = TW_TCP_KEY_BYTES;
	t->no_tls = host->settings->encrypt && !tw_inet_has_tls();
	tw_list_init(&t->paths);
	tw_list_init(&t->busy);
	tw_list_init(&t->stuck);
	tw_list_init(&t->callers);
	tw_list_init(&t->freed_paths);
	t->epfd = host->own_fd(tw_sys_epoll_create());
	if (t->epfd < 0 || !tw_tcp_board(t, &host->board)) {
		enum tw_err err = errno == EMFILE || errno == ENFILE ? TW_ENOMEM : TW_EUNREACH;

		if (err == TW_EUNREACH)
			host->log(TW_LOG_WARN, "tcp: the board's address cannot be listened on");
		tcp_do_close(t);
		return err;
	}
	*instance = t;
	*caps = (struct tw_driver_caps){TW_TCP_PACKET, true, t->epfd};
	return TW_OK;
}

const struct tw_driver tw_driver_tcp = {
	.version = TW_DRIVER_VERSION,
	.name = "tcp",
	.by_system = true,
	.packet_size = sizeof(struct tw_tcp_packet),
	.open = tcp_do_open,
	.close = tcp_do_close,
	.path_new = tw_tcp_path_new,
	.path_bind = tw_tcp_path_bind,
	.stalled = path_stalled,
	.path_free = tw_tcp_path_free,
	.ports = tcp_ports,
	.send = tw_tcp_send,
	.rma = tw_tcp_rma,
	.cancel = tw_tcp_cancel,
	.mem_reg = tw_tcp_mem_reg,
	.mem_dereg = tw_tcp_mem_dereg,
	.progress = tcp_do_progress,
	.arm = tcp_do_arm,
	.expire = tw_tcp_expire,
};
