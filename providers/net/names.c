/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The boards of hosts: QUERY in place of CONNECT, and its reply BOARDS, after the same proof
 * (doc/handshake.md). The caller has no endpoint and waits.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fds.h"
#include "base/inet.h"
#include "base/sys.h"
#include "providers/net/session.h"

#define REACH_MS 1000 /* until its system has answered */
#define STRANGERS 8   /* without the key, at one port, before the next one is asked */

static int ms_until(uint64_t end)
{
	uint64_t now = tw_clock();

	return now < end ? (int)((end - now) / tw_clock_per_us / 1000) + 1 : 0;
}

static bool wait_for(int fd, short events, uint64_t end)
{
	struct pollfd p = {.fd = fd, .events = events};
	int n;

	do
		n = tw_sys_poll(&p, 1, ms_until(end));
	while (n < 0 && errno == EINTR);
	return n == 1;
}

static enum tw_err reach(int fd, const struct sockaddr_storage *to)
{
	int error = 0;
	socklen_t len = sizeof(error);

	if (tw_sys_connect(fd, (const struct sockaddr *)to, tw_inet_len(to)) < 0)
		error = errno;
	if (error == EINPROGRESS) {
		if (!wait_for(fd, POLLOUT, tw_clock() + tw_clock_us(1000 * REACH_MS)))
			return TW_ETIMEDOUT;
		tw_sys_getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
	}
	if (error == 0)
		return TW_OK;
	return error == ECONNREFUSED ? TW_ECLOSED : TW_EUNREACH;
}

static bool receive(struct tw_net_link *l, void *buf, size_t len, uint64_t end)
{
	size_t have = 0;

	while (have < len && wait_for(l->sock, POLLIN, end)) {
		ssize_t n = tw_net_recv(l, (char *)buf + have, len - have);

		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			break;
		have += n > 0 ? (size_t)n : 0;
	}
	return have == len;
}

/* Until the other side has proved itself. */
static enum tw_err greet(struct tw_net_link *l, uint64_t end)
{
	struct tw_net_hello hello;
	enum tw_err err = tw_net_hello_send(l);

	if (err == TW_OK)
		err = receive(l, &hello, sizeof(hello), end) ? tw_net_hello_take(l, &hello)
							     : TW_ELOST;
	if (err != TW_OK)
		return err;
	while ((err = tw_net_shake(l)) == TW_AGAIN)
		if (!wait_for(l->sock, POLLIN, end))
			return TW_ELOST;
	return err;
}

/* The whole conversation, by the first key from that one on. */
static enum tw_err converse(int fd, unsigned key, struct tw_net_ctrl *reply)
{
	uint64_t end = tw_clock() + tw_clock_us(1000ull * tw_settings.connect_timeout);
	struct tw_net_link l = {.state = TW_NET_NEW, .sock = fd, .proof = {.key = key}};
	struct tw_net_ctrl t = {
		.magic = TW_NET_MAGIC, .version = TW_NET_VERSION, .type = TW_NET_QUERY};
	enum tw_err err = greet(&l, end);

	if (err == TW_OK) {
		l.channel = TW_NET_OPEN;
		if (!tw_net_sock_write(&l, &t) || !receive(&l, reply, sizeof(*reply), end) ||
		    reply->magic != TW_NET_MAGIC || reply->type != TW_NET_BOARDS)
			err = TW_ELOST;
	}
	tw_net_proof_end(&l);
	return err;
}

static enum tw_err ask_at(const struct sockaddr_storage *to, unsigned key,
			  struct tw_net_ctrl *reply)
{
	int fd = tw_net_socket(to->ss_family);
	enum tw_err err;

	if (fd < 0)
		return TW_ENOMEM;
	err = reach(fd, to);
	if (err == TW_OK) {
		err = converse(fd, key, reply);
		if (err != TW_OK && err != TW_EPERM)
			err = TW_ECLOSED;
	}
	tw_fd_close(fd);
	return err;
}

/* The user's processes share the port, and one of another job may answer. */
static enum tw_err ask(const struct sockaddr_storage *to, struct tw_net_ctrl *reply)
{
	enum tw_err err = TW_EPERM;

	for (unsigned i = 0; i < STRANGERS * TW_NET_KEYS && err == TW_EPERM; i++)
		err = ask_at(to, i % TW_NET_KEYS, reply);
	return err == TW_EPERM ? TW_ECLOSED : err;
}

enum tw_err tw_net_query(const struct sockaddr_storage *at, struct tw_host_boards *boards)
{
	struct sockaddr_storage to = *at;
	enum tw_err err = TW_ECLOSED;
	struct tw_net_ctrl reply;

	if (!tw_driver_any(tw_settings.providers) || !tw_net_auth())
		return TW_EPERM;
	for (unsigned i = 0; i < TW_NET_PORTS && err == TW_ECLOSED; i++) {
		tw_inet_set_port(&to, tw_net_names_port(i));
		err = ask(&to, &reply);
	}
	if (err != TW_OK)
		return err;
	*boards = reply.boards;
	return TW_OK;
}

void tw_net_describe(struct tw_net_link *l, const struct tw_net_ctrl *query)
{
	struct tw_net_ctrl t = {
		.magic = TW_NET_MAGIC, .version = TW_NET_VERSION, .type = TW_NET_BOARDS};

	(void)query;
	l->ep->host->up->describe(&t.boards);
	tw_net_sock_write(l, &t);
	tw_net_link_end(l);
}
