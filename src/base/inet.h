/* SPDX-License-Identifier: BSD-2-Clause */
/* IPv4 and IPv6 addresses. */
#ifndef TW_INET_H
#define TW_INET_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

static inline socklen_t tw_inet_len(const struct sockaddr_storage *sa)
{
	return sa->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

static inline bool tw_inet_loopback(const struct sockaddr_storage *sa)
{
	if (sa->ss_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(
			&((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr);
	return ntohl(((const struct sockaddr_in *)(const void *)sa)->sin_addr.s_addr) >> 24 == 127;
}

/* 0: the system chooses. */
static inline void tw_inet_set_port(struct sockaddr_storage *sa, uint32_t port)
{
	if (sa->ss_family == AF_INET6)
		((struct sockaddr_in6 *)(void *)sa)->sin6_port = htons((uint16_t)port);
	else
		((struct sockaddr_in *)(void *)sa)->sin_port = htons((uint16_t)port);
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
