/* SPDX-License-Identifier: BSD-2-Clause */
/* IPv4 and IPv6 addresses. */
#ifndef TW_INET_H
#define TW_INET_H

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "base/compiler.h"
#include "base/sys.h"

static inline socklen_t tw_inet_len(const struct sockaddr_storage *sa)
{
	return sa->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

static inline bool tw_inet_loopback(const struct sockaddr_storage *sa)
{
	if (sa->ss_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(
			&((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr);
	return be32toh(((const struct sockaddr_in *)(const void *)sa)->sin_addr.s_addr) >> 24 == 127;
}

/*
 * Makes the address what hosts of any byte order exchange, or of that what it was: the family is
 * little-endian.
 */
static inline void tw_inet_wire(void *sa)
{
	sa_family_t family;

	memcpy(&family, sa, sizeof(family));
	family = htole16(family);
	memcpy(sa, &family, sizeof(family));
}

/* 0: the system chooses. */
static inline void tw_inet_set_port(struct sockaddr_storage *sa, uint32_t port)
{
	if (sa->ss_family == AF_INET6)
		((struct sockaddr_in6 *)(void *)sa)->sin6_port = htobe16((uint16_t)port);
	else
		((struct sockaddr_in *)(void *)sa)->sin_port = htobe16((uint16_t)port);
}

/* As in messages between hosts: IPv6, and IPv4 as ::ffff:a.b.c.d. */
static inline void tw_inet_pack(const struct sockaddr_storage *from, uint8_t to[16])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	const void *address = from;

	if (from->ss_family == AF_INET6) {
		memcpy(to, &((const struct sockaddr_in6 *)address)->sin6_addr, 16);
		return;
	}
	memcpy(to, mapped, sizeof(mapped));
	memcpy(to + 12, &((const struct sockaddr_in *)address)->sin_addr, 4);
}

static inline void tw_inet_unpack(const uint8_t from[16], struct sockaddr_storage *to)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};

	memcpy(&in6.sin6_addr, from, 16);
	memcpy(&in.sin_addr, from + 12, 4);
	memset(to, 0, sizeof(*to));
	if (IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr))
		memcpy(to, &in, sizeof(in));
	else
		memcpy(to, &in6, sizeof(in6));
}

#define TW_INET_RESENDS 2

/*
 * Whether the other host's system has not acknowledged what this one sent again and again.
 * Where data cannot leave, as its board is down, probes go out in its place.
 */
static inline bool tw_inet_stalled(int fd)
{
	struct tcp_info info;
	socklen_t len = sizeof(info);

	return fd >= 0 && tw_sys_getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 &&
	       tw_max(info.tcpi_retransmits, info.tcpi_probes) >= TW_INET_RESENDS;
}

/* Puts the kernel's TLS on a connected socket, without keys yet. */
static inline bool tw_inet_tls(int fd)
{
	return tw_sys_setsockopt(fd, IPPROTO_TCP, TCP_ULP, "tls", sizeof("tls")) == 0;
}

/*
 * Whether the kernel has it: it refuses a socket that is not connected, and knows the name. False:
 * see errno.
 */
static inline bool tw_inet_has_tls(void)
{
	int fd = tw_sys_socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool has = fd >= 0 && (tw_inet_tls(fd) || errno == ENOTCONN);

	if (fd >= 0)
		tw_sys_close(fd);
	return has;
}

/* For messages; len is INET6_ADDRSTRLEN. */
static inline const char *tw_inet_text(const struct sockaddr_storage *sa, char *out, socklen_t len)
{
	const void *address = sa->ss_family == AF_INET6
				      ? (const void *)&((const struct sockaddr_in6 *)sa)->sin6_addr
				      : (const void *)&((const struct sockaddr_in *)sa)->sin_addr;

	return inet_ntop(sa->ss_family, address, out, len);
}

#endif /* TW_INET_H */
