/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses: a NIC id and the number of an endpoint; binary, as tagwire://NIC/ENDPOINT, or as
 * the IPv4 address of the board with the port that the endpoint has there (TAGWIRE_PORT).
 */
#include <arpa/inet.h>
#include <endian.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#include "fi/fi.h"

#define SCHEME "tagwire://"
#define ANY "any"			/* in place of a number */
#define INET_SCHEME "fi_sockaddr_in://" /* libfabric's, see fi_av_straddr(3) */

static int addr_parse(const char *text, struct tw_fi_addr *a)
{
	unsigned long long nic;
	unsigned id;
	int end = 0;

	if (sscanf(text, SCHEME "%12llx/%n", &nic, &end) == 1 && end && !strcmp(text + end, ANY))
		id = TW_FI_ANY;
	else if (sscanf(text, SCHEME "%12llx/%4u%n", &nic, &id, &end) != 2 || text[end] ||
		 id >= TW_FI_IDS)
		return -FI_EINVAL;
	*a = (struct tw_fi_addr){nic, id, 0};
	return 0;
}

/* Programs use port numbers, of which there are more. */
static uint32_t id_of_port(unsigned long port)
{
	if (port >= tw_settings.port && port < tw_settings.port + TW_FI_IDS)
		port -= tw_settings.port;
	return (uint32_t)(port % TW_FI_IDS);
}

static int parse_service(const char *service, uint32_t *id)
{
	unsigned long n;
	char *end;

	n = strtoul(service, &end, 10);
	if (service[0] < '0' || service[0] > '9' || *end)
		return -FI_ENODATA;
	*id = id_of_port(n);
	return 0;
}

static bool make_inet(const struct tw_fi_addr *a, struct sockaddr_in *in)
{
	struct sockaddr_storage sa;
	bool any = a->endpoint_id == TW_FI_ANY;

	if (tw_nic_to_address(a->nic_id, &sa) != TW_OK || sa.ss_family != AF_INET)
		return false;
	memcpy(in, &sa, sizeof(*in));
	in->sin_port = htobe16((uint16_t)(any ? 0 : tw_settings.port + a->endpoint_id));
	return true;
}

static int take_inet(const struct sockaddr_in *in, struct tw_fi_addr *a)
{
	char text[INET_ADDRSTRLEN];

	if (in->sin_family != AF_INET || !inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text)) ||
	    tw_name_to_nic(text, &a->nic_id) != TW_OK)
		return -FI_EINVAL;
	a->endpoint_id = in->sin_port ? id_of_port(be16toh(in->sin_port)) : TW_FI_ANY;
	a->pad = 0;
	return 0;
}

static int parse_inet(const char *text, struct tw_fi_addr *a)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	char host[INET_ADDRSTRLEN];
	unsigned port;
	int end = 0;

	if (sscanf(text, INET_SCHEME "%15[0-9.]:%5u%n", host, &port, &end) != 2 || text[end] ||
	    port > UINT16_MAX || inet_pton(AF_INET, host, &in.sin_addr) != 1)
		return -FI_EINVAL;
	in.sin_port = htobe16((uint16_t)port);
	return take_inet(&in, a);
}

int tw_fi_resolve(const char *node, const char *service, struct tw_fi_addr *a)
{
	const struct tw_board *boards;

	if (node && (addr_parse(node, a) == 0 || parse_inet(node, a) == 0))
		return 0;
	*a = (struct tw_fi_addr){0, TW_FI_ANY, 0};
	tw_boards(&boards);
	a->nic_id = boards[tw_board_best(0)].nic_id;
	if (node && tw_name_to_nic(node, &a->nic_id) != TW_OK)
		return -FI_ENODATA;
	if (!service)
		return 0;
	return parse_service(service, &a->endpoint_id);
}

int tw_fi_addr_print(uint32_t format, const struct tw_fi_addr *a, char *text, size_t len)
{
	unsigned long long nic = a->nic_id;
	char host[INET_ADDRSTRLEN];
	struct sockaddr_in in;

	if (format == FI_SOCKADDR_IN)
		return make_inet(a, &in) && inet_ntop(AF_INET, &in.sin_addr, host, sizeof(host))
			       ? snprintf(text, len, INET_SCHEME "%s:%u", host,
					  be16toh(in.sin_port))
			       : -1;
	if (a->endpoint_id == TW_FI_ANY)
		return snprintf(text, len, SCHEME "%012llx/" ANY, nic);
	return snprintf(text, len, SCHEME "%012llx/%u", nic, a->endpoint_id);
}

bool tw_fi_addr_whole(uint32_t format, const void *from, size_t len)
{
	switch (format) {
	case FI_ADDR_STR:
		return memchr(from, 0, len);
	case FI_SOCKADDR_IN:
		return len >= sizeof(struct sockaddr_in);
	default:
		return len >= sizeof(struct tw_fi_addr);
	}
}

int tw_fi_addr_take(uint32_t format, const void *from, size_t *used, struct tw_fi_addr *a)
{
	struct sockaddr_in in;

	switch (format) {
	case FI_ADDR_STR:
		*used = strlen(from) + 1;
		return addr_parse(from, a);
	case FI_SOCKADDR_IN:
		memcpy(&in, from, sizeof(in));
		*used = sizeof(in);
		return take_inet(&in, a);
	default:
		memcpy(a, from, sizeof(*a));
		*used = sizeof(*a);
		return 0;
	}
}

int tw_fi_addr_give(uint32_t format, const struct tw_fi_addr *a, void *addr, size_t *len)
{
	char text[TW_FI_ADDR_LEN];
	struct sockaddr_in in;
	const void *from = a;
	size_t need = sizeof(*a), room = *len;

	if (format == FI_SOCKADDR_IN) {
		if (!make_inet(a, &in))
			return -FI_ENODATA;
		need = sizeof(in);
		from = &in;
	} else if (format == FI_ADDR_STR) {
		need = (size_t)tw_fi_addr_print(format, a, text, sizeof(text)) + 1;
		from = text;
	}
	*len = need;
	if (addr)
		memcpy(addr, from, tw_min(room, need));
	return room < need ? -FI_ETOOSMALL : 0;
}
