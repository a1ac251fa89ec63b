/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Boards and names. A board is a network interface that is up, loopback last. Its NIC id is
 * a locally administered address that contains the IPv4 address, 02:74:a.b.c.d, so that
 * names and NIC ids convert by name resolution alone. The NIC id of an interface with only
 * IPv6 contains the end of its interface identifier, 02:76:...; its address is remembered
 * when a name resolves to it. Names of the hosts file take precedence; see hosts.c.
 */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/settings.h"
#include "naming/hosts.h"
#include "naming/naming.h"

#define PREFIX_IPV4 0x0274ull
#define PREFIX_IPV6 0x0276ull
#define MAX_SEEN 1024 /* most IPv6 addresses that are remembered */

static struct tw_board boards[TW_MAX_BOARDS];
static uint64_t nics[TW_MAX_BOARDS];
static unsigned nboards;
static char hostname[65];

/* IPv6 addresses by NIC id, under the mutex. */
static pthread_mutex_t seen_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
	uint64_t nic_id;
	struct sockaddr_in6 sa;
} seen[MAX_SEEN];
static unsigned nseen;

static uint64_t nic_of_ipv4(struct in_addr a)
{
	return PREFIX_IPV4 << 32 | ntohl(a.s_addr);
}

/* Remembers the address of a NIC id that does not contain it. */
static void remember(uint64_t nic_id, const struct sockaddr *sa)
{
	unsigned i = 0;

	if (!TW_USES_NAMES)
		return;
	if (sa->sa_family != AF_INET6)
		return;
	tw_mutex_lock(&seen_mutex);
	while (i < nseen && seen[i].nic_id != nic_id)
		i++;
	if (i < MAX_SEEN) {
		seen[i].nic_id = nic_id;
		memcpy(&seen[i].sa, sa, sizeof(seen[i].sa));
		nseen = tw_max(nseen, i + 1);
	}
	tw_mutex_unlock(&seen_mutex);
}

static bool recall(uint64_t nic_id, struct sockaddr_storage *sa)
{
	bool found = false;

	tw_mutex_lock(&seen_mutex);
	for (unsigned i = 0; i < nseen && !found; i++)
		if (seen[i].nic_id == nic_id) {
			memset(sa, 0, sizeof(*sa));
			memcpy(sa, &seen[i].sa, sizeof(seen[i].sa));
			found = true;
		}
	tw_mutex_unlock(&seen_mutex);
	return found;
}

static uint64_t nic_of(const struct sockaddr *sa)
{
	if (sa->sa_family == AF_INET)
		return nic_of_ipv4(((const struct sockaddr_in *)(const void *)sa)->sin_addr);
	const uint8_t *b = ((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr.s6_addr;
	return PREFIX_IPV6 << 32 | (uint64_t)b[12] << 24 | (uint64_t)b[13] << 16 |
	       (uint64_t)b[14] << 8 | b[15];
}

static long read_number(const char *ifname, const char *what, long dflt)
{
	char path[128];
	long n;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/net/%s/%s", ifname, what);
	f = fopen(path, "re");
	if (!f)
		return dflt;
	if (fscanf(f, "%ld", &n) != 1)
		n = dflt;
	fclose(f);
	return n;
}

static bool have_interface(const char *name)
{
	for (unsigned i = 0; i < nboards; i++)
		if (strcmp(boards[i].ifname, name) == 0)
			return true;
	return false;
}

static void add_board(const char *name, const struct sockaddr *sa)
{
	uint64_t nic_id = nic_of(sa);
	struct tw_board *b = &boards[nboards];
	long mbits = TW_HAVE_MX ? read_number(name, "speed", 0) : 0;

	nics[nboards++] = b->nic_id = nic_id;
	snprintf(b->ifname, sizeof(b->ifname), "%s", name);
	b->speed = mbits > 0 ? (uint32_t)mbits / 8 : 0;
	b->numa_node = TW_HAVE_MX ? (int)read_number(name, "device/numa_node", -1) : -1;
	remember(nic_id, sa);
}

/* Adds the interfaces of one kind: those with IPv4 first, loopback last. */
static void add_kind(const struct ifaddrs *all, sa_family_t family, bool loopback)
{
	for (const struct ifaddrs *i = all; i && nboards < TW_MAX_BOARDS; i = i->ifa_next) {
		if (!i->ifa_addr || i->ifa_addr->sa_family != family || !(i->ifa_flags & IFF_UP) ||
		    !(i->ifa_flags & IFF_LOOPBACK) == loopback || have_interface(i->ifa_name))
			continue;
		add_board(i->ifa_name, i->ifa_addr);
	}
}

enum tw_err tw_naming_init(void)
{
	struct ifaddrs *all = NULL;
	struct sockaddr_in local = {.sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	nboards = 0;
	if (gethostname(hostname, sizeof(hostname) - 1) < 0)
		strcpy(hostname, "localhost");
	if (getifaddrs(&all) < 0)
		all = NULL;
	add_kind(all, AF_INET, false);
	add_kind(all, AF_INET6, false);
	add_kind(all, AF_INET, true);
	freeifaddrs(all);
	/* A machine whose network is down still reaches itself. */
	if (nboards == 0)
		add_board("lo", (struct sockaddr *)&local);
	return TW_USES_NAMES ? tw_hosts_load(tw_settings.peers) : TW_OK;
}

unsigned tw_boards(const struct tw_board **out)
{
	*out = boards;
	return nboards;
}

const uint64_t *tw_local_nics(unsigned *n)
{
	*n = nboards;
	return nics;
}

/* IPv4 first: its NIC id is the same on every host. */
enum tw_err tw_resolve(const char *host, uint64_t *nic_id)
{
	static const int families[] = {AF_INET, AF_INET6};
	struct addrinfo *res;

	for (unsigned i = 0; i < tw_countof(families); i++) {
		struct addrinfo hints = {.ai_family = families[i], .ai_socktype = SOCK_STREAM};

		if (getaddrinfo(host, NULL, &hints, &res) != 0)
			continue;
		*nic_id = nic_of(res->ai_addr);
		remember(*nic_id, res->ai_addr);
		freeaddrinfo(res);
		return TW_OK;
	}
	return TW_EUNREACH;
}

enum tw_err tw_name_to_nic(const char *name, uint64_t *nic_id)
{
	const char *colon = strrchr(name, ':');
	size_t len = colon ? (size_t)(colon - name) : strlen(name);
	unsigned long board = 0;
	char host[256], *end;

	if (len == 0 || len >= sizeof(host))
		return TW_EUNREACH;
	memcpy(host, name, len);
	host[len] = 0;
	if (colon) {
		board = strtoul(colon + 1, &end, 10);
		if (colon[1] < '0' || colon[1] > '9' || *end)
			return TW_EUNREACH;
	}
	if (TW_USES_NAMES && tw_hosts_nic(host, board, nic_id))
		return TW_OK;
	/* The host's own name means its own boards, whatever the resolver returns. */
	if (strcmp(host, hostname) == 0 || strcmp(host, "localhost") == 0) {
		if (board >= nboards)
			return TW_EUNREACH;
		*nic_id = boards[board].nic_id;
		return TW_OK;
	}
	return board ? TW_EUNREACH : tw_resolve(host, nic_id);
}

enum tw_err tw_nic_to_address(uint64_t nic_id, struct sockaddr_storage *sa)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr = {htonl((uint32_t)nic_id)}};

	if (recall(nic_id, sa))
		return TW_OK;
	if (nic_id >> 32 != PREFIX_IPV4)
		return TW_EUNREACH;
	memset(sa, 0, sizeof(*sa));
	memcpy(sa, &in, sizeof(in));
	return TW_OK;
}

enum tw_err tw_nic_to_name(uint64_t nic_id, char *name, unsigned len)
{
	struct sockaddr_storage sa;
	char host[65];

	if (tw_hosts_name(nic_id, name, len))
		return TW_OK;
	for (unsigned i = 0; i < nboards; i++)
		if (boards[i].nic_id == nic_id) {
			snprintf(name, len, "%s:%u", hostname, i);
			return TW_OK;
		}
	if (tw_nic_to_address(nic_id, &sa) != TW_OK ||
	    getnameinfo((struct sockaddr *)&sa, sizeof(sa), host, sizeof(host), NULL, 0,
			NI_NAMEREQD) != 0)
		return TW_EUNREACH;
	snprintf(name, len, "%s:0", host);
	return TW_OK;
}
