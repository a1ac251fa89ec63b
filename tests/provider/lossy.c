/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A driver that does everything wrong that a network may: it loses packets,
 * delivers them twice and in another order, breaks its paths, and cuts off
 * transfers. UDP on the loopback interface; remote memory is of this process.
 */
#include "provider/lossy.h"

#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/list.h"
#include "lib/twt.h"

#define PACKET TW_DRIVER_PACKET
#define HEAD sizeof(uint64_t) /* the number of the receiver's path */

struct lossy {
	struct tw_driver_host host;
	int fd;
	struct tw_list ops, paths;
	uint64_t rng, serial;
	char late[HEAD + PACKET]; /* a packet that is overtaken */
	ssize_t late_len;
	char held[HEAD + PACKET]; /* one that the engine could not take */
	ssize_t held_len;
};

struct path {
	struct lossy *f;
	struct tw_list node;
	uint64_t number, other;
	struct sockaddr_in to;
};

struct op {
	struct tw_list node;
	void *cookie;
	unsigned niov;
	uint64_t address;
	bool put;
	struct iovec iov[];
};

static bool one_in(struct lossy *f, unsigned n)
{
	return twt_random(&f->rng) % n == 0;
}

static enum tw_err do_open(const struct tw_driver_host *host, void **instance,
			   struct tw_driver_caps *caps)
{
	struct lossy *f = calloc(1, sizeof(*f));
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int room = 8 << 20;

	if (!f)
		return TW_ENOMEM;
	f->host = *host;
	f->late_len = f->held_len = -1;
	f->rng = (uint64_t)getpid();
	tw_list_init(&f->ops);
	tw_list_init(&f->paths);
	f->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	setsockopt(f->fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	if (bind(f->fd, (struct sockaddr *)&sa, sizeof(sa)) < 0) {
		close(f->fd);
		free(f);
		return TW_EUNREACH;
	}
	*instance = f;
	*caps = (struct tw_driver_caps){PACKET, true, f->fd};
	return TW_OK;
}

static void do_close(void *instance)
{
	struct lossy *f = instance;

	tw_list_walk(&f->ops, struct op, op, node)
		free(op);
	close(f->fd);
	free(f);
}

static enum tw_err path_new(void *instance, const struct sockaddr_storage *board,
			    const struct tw_driver_tokens *tokens, struct tw_driver_address *mine,
			    void **out)
{
	struct lossy *f = instance;
	struct path *p = calloc(1, sizeof(*p));
	socklen_t len = sizeof(mine->bytes);

	(void)board;
	(void)tokens;
	if (!p)
		return TW_ENOMEM;
	p->f = f;
	getsockname(f->fd, (struct sockaddr *)(void *)mine->bytes, &len);
	p->number = ++f->serial;
	memcpy(mine->bytes + len, &p->number, HEAD);
	mine->len = len + HEAD;
	tw_list_add_tail(&f->paths, &p->node);
	*out = p;
	return TW_OK;
}

static enum tw_err path_bind(void *path, const struct tw_driver_address *other)
{
	struct path *p = path;

	memcpy(&p->to, other->bytes, sizeof(p->to));
	memcpy(&p->other, other->bytes + sizeof(p->to), HEAD);
	return TW_OK;
}

static void path_free(void *path)
{
	tw_list_del(&((struct path *)path)->node);
	free(path);
}

static enum tw_err do_send(void *path, struct tw_net_packet *packet, bool more)
{
	struct path *p = path;
	struct lossy *f = p->f;
	struct iovec iov[] = {{&p->other, HEAD}, {packet->data, packet->len}};
	struct msghdr m = {
		.msg_name = &p->to, .msg_namelen = sizeof(p->to), .msg_iov = iov, .msg_iovlen = 2};
	int times = 1;

	(void)more;
	if (one_in(f, LOSSY_BREAKS))
		return TW_ELOST;
	if (one_in(f, 20))
		return TW_AGAIN;
	if (one_in(f, LOSSY_LOSES))
		times = 0;
	else if (one_in(f, 50))
		times = 2;
	while (times--)
		sendmsg(f->fd, &m, 0);
	return TW_OK;
}

static enum tw_err do_rma(void *path, bool put, const struct iovec *iov, unsigned niov,
			  uint64_t address, const void *key, uint32_t key_len, void *cookie)
{
	struct lossy *f = ((struct path *)path)->f;
	struct op *op = malloc(sizeof(*op) + niov * sizeof(*iov));

	(void)key;
	(void)key_len;
	if (!op || one_in(f, 8)) {
		free(op);
		return TW_AGAIN;
	}
	*op = (struct op){.cookie = cookie, .niov = niov, .address = address, .put = put};
	memcpy(op->iov, iov, niov * sizeof(*iov));
	tw_list_add_tail(&f->ops, &op->node);
	return TW_PENDING;
}

static enum tw_err mem_reg(void *instance, void *addr, size_t len, unsigned rights,
			   struct tw_driver_mr *mr)
{
	(void)instance;
	(void)len;
	(void)rights;
	/* An offset, so that it matters. */
	*mr = (struct tw_driver_mr){.base = (uintptr_t)addr + 1000, .key_len = 8};
	return TW_OK;
}

static void mem_dereg(void *instance, struct tw_driver_mr *mr)
{
	(void)instance;
	(void)mr;
}

/* Ends the transfers that were begun before this call. */
static unsigned run_ops(struct lossy *f)
{
	struct tw_list now, *last = f->ops.prev;
	unsigned n = 0;

	tw_list_init(&now);
	while (!tw_list_empty(&f->ops)) {
		struct op *op = tw_list_first(&f->ops, struct op, node);
		bool fails = one_in(f, 10), end = &op->node == last;
		char *at = (char *)(uintptr_t)(op->address - 1000);

		tw_list_del(&op->node);
		for (unsigned i = 0; i < op->niov && !fails; i++) {
			if (op->put)
				memcpy(at, op->iov[i].iov_base, op->iov[i].iov_len);
			else
				memcpy(op->iov[i].iov_base, at, op->iov[i].iov_len);
			at += op->iov[i].iov_len;
		}
		f->host.ended(f->host.owner, op->cookie, fails ? TW_ELOST : TW_OK);
		free(op);
		n++;
		if (end)
			break;
	}
	return n;
}

static bool deliver(struct lossy *f, const char *packet, ssize_t len)
{
	struct path *to = NULL;
	uint64_t number;

	memcpy(&number, packet, HEAD);
	tw_list_walk(&f->paths, struct path, p, node)
		to = p->number == number ? p : to;
	if (!to || f->host.packet(f->host.owner, to, packet + HEAD, (uint32_t)len - HEAD))
		return true;
	if (packet != f->held)
		memcpy(f->held, packet, (size_t)len);
	f->held_len = len;
	return false;
}

static void do_progress(void *instance)
{
	struct lossy *f = instance;
	unsigned n = run_ops(f);
	char packet[HEAD + PACKET];
	ssize_t len;

	if (f->held_len >= 0) {
		len = f->held_len;
		f->held_len = -1;
		if (!deliver(f, f->held, len))
			return;
		n++;
	}
	while (n < 64 && (len = recv(f->fd, packet, sizeof(packet), 0)) >= (ssize_t)HEAD) {
		n++;
		/* The next one overtakes it. */
		if (f->late_len < 0 && one_in(f, 40)) {
			memcpy(f->late, packet, (size_t)len);
			f->late_len = len;
			continue;
		}
		if (!deliver(f, packet, len))
			return;
		if (f->late_len >= 0) {
			len = f->late_len;
			f->late_len = -1;
			if (!deliver(f, f->late, len))
				return;
		}
	}
}

static bool do_arm(void *instance)
{
	struct lossy *f = instance;
	struct pollfd p = {.fd = f->fd, .events = POLLIN};

	return f->held_len >= 0 || !tw_list_empty(&f->ops) || poll(&p, 1, 0) == 1;
}

static void ports(const struct tw_settings *settings, char *text, size_t size)
{
	(void)settings;
	snprintf(text, size, "nothing");
}

const struct tw_driver lossy = {
	.version = TW_DRIVER_VERSION,
	.name = "lossy",
	.packet_size = sizeof(struct tw_net_packet),
	.open = do_open,
	.close = do_close,
	.path_new = path_new,
	.path_bind = path_bind,
	.path_free = path_free,
	.ports = ports,
	.send = do_send,
	.rma = do_rma,
	.mem_reg = mem_reg,
	.mem_dereg = mem_dereg,
	.progress = do_progress,
	.arm = do_arm,
};
