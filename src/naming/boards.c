/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The boards of this host: network interfaces that are up, those that reach other hosts
 * first, loopback last. The NIC id of one with an IPv4 address contains that, 02:74:a.b.c.d,
 * so that names and NIC ids convert by name resolution alone. With IPv6 it is 40 bits of a
 * hash of the address, 0a:...; for the loopback, and for bridges that lead nowhere, which have
 * the same addresses on many hosts, of one of the host, too, 06:...
 */
#include <endian.h>
#include <ifaddrs.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/inet.h"
#include "base/log.h"
#include "base/settings.h"
#include "base/sys.h"
#include "naming/hosts.h"
#include "naming/naming.h"

#define PREFIX_PRIVATE 0x06ull
#define PREFIX_IPV6 0x0aull
#define HASH_BITS 40
#define MOST_LINKS 256

/* How far a board reaches. One with an address of its link alone, as the end of a cable to a
 * container has, may lead to a host, but nobody has given it one there. */
enum merit { REACHES_NOBODY, LEADS_NOWHERE, LINK_ONLY, NO_CARRIER, GOOD };

static struct tw_board boards[TW_MAX_BOARDS];
static struct sockaddr_storage addresses[TW_MAX_BOARDS];
static uint64_t nics[TW_MAX_BOARDS];
static unsigned best[TW_MAX_BOARDS]; /* board numbers, the best first */
static unsigned nboards;

/* Interfaces by index: bridges, those with a port that leads to other hosts, idle ones. */
struct links {
	int bridge[MOST_LINKS], leads[MOST_LINKS], idle[MOST_LINKS];
	unsigned nbridge, nleads, nidle;
};

static bool noted(const int *list, unsigned n, int index)
{
	while (n && list[n - 1] != index)
		n--;
	return n;
}

static void note(int *list, unsigned *n, int index)
{
	if (index && *n < MOST_LINKS && !noted(list, *n, index))
		list[(*n)++] = index;
}

/* The kind of a link, "" for a device. */
static const char *kind_of(const struct rtattr *info)
{
	const struct rtattr *a = RTA_DATA(info);
	size_t len = RTA_PAYLOAD(info);

	for (; RTA_OK(a, len); a = RTA_NEXT(a, len))
		if (a->rta_type == IFLA_INFO_KIND)
			return RTA_DATA(a);
	return "";
}

static void take_link(struct links *l, const struct nlmsghdr *m)
{
	const struct ifinfomsg *link = NLMSG_DATA(m);
	const struct rtattr *a = IFLA_RTA(link);
	size_t len = IFLA_PAYLOAD(m);
	const char *kind = "";
	bool idle = false;
	int master = 0;

	for (; RTA_OK(a, len); a = RTA_NEXT(a, len))
		if (a->rta_type == IFLA_MASTER)
			memcpy(&master, RTA_DATA(a), sizeof(master));
		else if (a->rta_type == IFLA_CARRIER)
			idle = *(const uint8_t *)RTA_DATA(a) == 0;
		else if (a->rta_type == IFLA_LINKINFO)
			kind = kind_of(a);
	if (idle)
		note(l->idle, &l->nidle, link->ifi_index);
	if (strcmp(kind, "bridge") == 0)
		note(l->bridge, &l->nbridge, link->ifi_index);
	/* To containers and virtual machines of this host. */
	if (strcmp(kind, "veth") != 0 && strcmp(kind, "tun") != 0)
		note(l->leads, &l->nleads, master);
}

static void find_links(struct links *l)
{
	struct {
		struct nlmsghdr head;
		struct ifinfomsg link;
	} ask = {{sizeof(ask), RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, 1, 0}, {0}};
	union {
		struct nlmsghdr head;
		char bytes[32768];
	} in;
	int fd = TW_USES_NAMES ? tw_sys_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)
			       : -1;
	bool more = fd >= 0 && tw_sys_send(fd, &ask, sizeof(ask), 0) == sizeof(ask);

	memset(l, 0, sizeof(*l));
	while (more) {
		ssize_t n = tw_sys_recv(fd, &in, sizeof(in), 0);
		const struct nlmsghdr *m = &in.head;

		more = n > 0;
		for (; n > 0 && NLMSG_OK(m, (size_t)n); m = NLMSG_NEXT(m, n))
			if (m->nlmsg_type == RTM_NEWLINK)
				take_link(l, m);
			else
				more = false;
	}
	tw_sys_close(fd);
}

static bool is_private(const struct links *l, const char *ifname)
{
	int index = (int)if_nametoindex(ifname);

	return noted(l->bridge, l->nbridge, index) && !noted(l->leads, l->nleads, index);
}

static uint64_t hashed_nic(uint64_t prefix, uint64_t h)
{
	h = (h ^ h >> 33) * 0xff51afd7ed558ccdull;
	return prefix << HASH_BITS | h >> (64 - HASH_BITS);
}

uint64_t tw_nic_of(const struct sockaddr_storage *sa)
{
	const void *address = sa;

	if (sa->ss_family == AF_INET)
		return TW_NIC_IPV4 << 32 |
		       be32toh(((const struct sockaddr_in *)address)->sin_addr.s_addr);
	return hashed_nic(PREFIX_IPV6,
			  tw_hash(TW_HASH_START, &((const struct sockaddr_in6 *)address)->sin6_addr,
				  16));
}

/*
 * Of this host, or network namespace: not the machine id, which copies of an image share, but
 * what the kernel draws at each start.
 */
static uint64_t host_hash(void)
{
	int fd = tw_sys_open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	char boot[64] = "", name[65] = "";
	int net = tw_sys_open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	uint64_t space = 0;
	struct stat st;

	if (fd < 0 || tw_sys_read(fd, boot, sizeof(boot)) <= 0)
		tw_sys_hostname(name, sizeof(name));
	tw_sys_close(fd);
	if (net >= 0 && tw_sys_fstat(net, &st) == 0)
		space = st.st_ino;
	tw_sys_close(net);
	return tw_hash(tw_hash(tw_hash(TW_HASH_START, boot, sizeof(boot)), name, sizeof(name)),
		       &space, sizeof(space));
}

static uint64_t private_nic(const char *ifname, const struct sockaddr_storage *sa)
{
	uint64_t of_address = tw_nic_of(sa);
	uint64_t h = tw_hash(host_hash(), ifname, strlen(ifname));

	return hashed_nic(PREFIX_PRIVATE, tw_hash(h, &of_address, sizeof(of_address)));
}

static long read_number(const char *ifname, const char *what, long dflt)
{
	char path[128], text[32];

	snprintf(path, sizeof(path), "/sys/class/net/%s/%s", ifname, what);
	return tw_file_line(path, "", text, sizeof(text)) ? strtol(text, NULL, 10) : dflt;
}

static bool have_interface(const char *name)
{
	for (unsigned i = 0; i < nboards; i++)
		if (strcmp(boards[i].ifname, name) == 0)
			return true;
	return false;
}

/* The first is the best of its kind, unless another has a carrier or is faster. */
static void rank(unsigned board)
{
	const struct tw_board *b = &boards[board];
	unsigned i = board;

	for (; i; i--) {
		const struct tw_board *a = &boards[best[i - 1]];

		if (a->merit > b->merit || (a->merit == b->merit && a->speed >= b->speed))
			break;
		best[i] = best[i - 1];
	}
	best[i] = board;
}

static void add_board(const char *name, const struct sockaddr *sa, enum merit merit)
{
	struct tw_board *b = &boards[nboards];
	struct sockaddr_storage *at = &addresses[nboards];
	long mbits = TW_HAVE_MX ? read_number(name, "speed", 0) : 0;

	memset(at, 0, sizeof(*at));
	memcpy(at, sa,
	       sa->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
	snprintf(b->ifname, sizeof(b->ifname), "%s", name);
	b->nic_id = merit <= LEADS_NOWHERE ? private_nic(name, at) : tw_nic_of(at);
	b->speed = mbits > 0 ? (uint32_t)mbits / 8 : 0;
	b->numa_node = TW_HAVE_MX ? (int)read_number(name, "device/numa_node", -1) : -1;
	b->merit = merit;
	nics[nboards] = b->nic_id;
	rank(nboards++);
}

static enum merit merit_of(const struct links *l, const struct ifaddrs *i)
{
	if (i->ifa_flags & IFF_LOOPBACK)
		return REACHES_NOBODY;
	if (is_private(l, i->ifa_name))
		return LEADS_NOWHERE;
	if (i->ifa_addr->sa_family == AF_INET6 &&
	    IN6_IS_ADDR_LINKLOCAL(
		    &((const struct sockaddr_in6 *)(const void *)i->ifa_addr)->sin6_addr))
		return LINK_ONLY;
	return noted(l->idle, l->nidle, (int)if_nametoindex(i->ifa_name)) ? NO_CARRIER : GOOD;
}

/* Whether TAGWIRE_BOARDS, as eth0,^docker0, has an interface. */
static bool board_wanted(const char *ifname)
{
	const char *names = tw_settings.boards;
	bool wanted = true, listed = false;
	const char *name;
	size_t len;

	while ((name = tw_name_next(&names, &len))) {
		bool without = *name == '^';
		const char *plain = name + without;

		len -= without;
		if (strlen(ifname) == len && memcmp(plain, ifname, len) == 0) {
			if (without)
				return false;
			listed = true;
		}
		wanted = wanted && without;
	}
	return wanted || listed;
}

/* Adds the interfaces of some merits. */
static void add_kind(const struct ifaddrs *all, const struct links *l, sa_family_t family,
		     enum merit least, enum merit most)
{
	for (const struct ifaddrs *i = all; i && nboards < TW_MAX_BOARDS; i = i->ifa_next) {
		enum merit merit;

		if (!i->ifa_addr || i->ifa_addr->sa_family != family || !(i->ifa_flags & IFF_UP) ||
		    have_interface(i->ifa_name) ||
		    !board_wanted(i->ifa_name))
			continue;
		merit = merit_of(l, i);
		if (merit >= least && merit <= most)
			add_board(i->ifa_name, i->ifa_addr, merit);
	}
}

/* The interfaces that are up and have an address; and lo, which is always good. */
static void list_usable(const struct ifaddrs *all, char *out, size_t size)
{
	size_t len = 0;

	snprintf(out, size, "lo");
	for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
		len = strlen(out);
		if (!i->ifa_addr || !(i->ifa_flags & IFF_UP) ||
		    (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6) ||
		    tw_names_have(out, i->ifa_name) || len + 1 + strlen(i->ifa_name) >= size)
			continue;
		snprintf(out + len, size - len, ",%s", i->ifa_name);
	}
}

/* An interface without which it is to do may be absent: all hosts can share the setting. */
static void report_absent(const struct ifaddrs *all)
{
	const char *names = tw_settings.boards, *name;
	char ifname[IF_NAMESIZE], usable[256];
	size_t len;

	if (!*names)
		return;
	list_usable(all, usable, sizeof(usable));
	if (nboards == 0)
		tw_log(TW_LOG_ERROR,
		       "TAGWIRE_BOARDS=%.200s leaves no interface of this host that is up; up are: "
		       "%s",
		       names, usable);
	while (nboards && (name = tw_name_next(&names, &len))) {
		snprintf(ifname, sizeof(ifname), "%.*s", (int)len, name);
		if (len && *name != '^' && !tw_names_have(usable, ifname))
			tw_log(TW_LOG_WARN,
			       "TAGWIRE_BOARDS: no interface %s of this host is up; up are: %s",
			       ifname, usable);
	}
}

enum tw_err tw_boards_find(void)
{
	struct sockaddr_in local = {.sin_family = AF_INET,
				    .sin_addr.s_addr = htobe32(INADDR_LOOPBACK)};
	struct ifaddrs *all = NULL;
	struct links links;

	nboards = 0;
	if (getifaddrs(&all) < 0)
		all = NULL;
	find_links(&links);
	add_kind(all, &links, AF_INET, NO_CARRIER, GOOD);
	add_kind(all, &links, AF_INET6, NO_CARRIER, GOOD);
	add_kind(all, &links, AF_INET6, LINK_ONLY, LINK_ONLY);
	add_kind(all, &links, AF_INET, LEADS_NOWHERE, LEADS_NOWHERE);
	add_kind(all, &links, AF_INET6, LEADS_NOWHERE, LEADS_NOWHERE);
	add_kind(all, &links, AF_INET, REACHES_NOBODY, REACHES_NOBODY);
	/* A machine whose network is down still reaches itself. */
	if (nboards == 0 && board_wanted("lo"))
		add_board("lo", (struct sockaddr *)&local, REACHES_NOBODY);
	report_absent(all);
	freeifaddrs(all);
	return nboards ? TW_OK : TW_EPROTO;
}

unsigned tw_boards(const struct tw_board **out)
{
	*out = boards;
	return nboards;
}

uint32_t tw_board_best(uint32_t rank)
{
	return best[rank];
}

unsigned tw_boards_beyond_lo(void)
{
	unsigned n = nboards;

	while (n > 1 && boards[best[n - 1]].merit == REACHES_NOBODY)
		n--;
	return n;
}

bool tw_board_reaches(uint32_t board)
{
	return boards[board].merit == GOOD || board == best[0];
}

unsigned tw_boards_leading(void)
{
	unsigned n = 0;

	while (n < nboards && boards[n].merit > LEADS_NOWHERE)
		n++;
	return n;
}

const uint64_t *tw_local_nics(unsigned *n)
{
	*n = nboards;
	return nics;
}

bool tw_board_of(uint64_t nic_id, uint32_t *board)
{
	for (*board = 0; *board < nboards; ++*board)
		if (nics[*board] == nic_id)
			return true;
	*board = 0;
	return false;
}

const struct sockaddr_storage *tw_board_address(uint32_t board)
{
	return &addresses[board];
}

bool tw_board_at(const struct sockaddr_storage *sa, uint32_t *board)
{
	uint64_t wanted = tw_nic_of(sa);

	for (*board = 0; *board < nboards; ++*board)
		if (tw_nic_of(&addresses[*board]) == wanted)
			return true;
	return false;
}

uint64_t tw_nic_at(const struct sockaddr_storage *sa)
{
	uint32_t board;

	if (tw_board_at(sa, &board))
		return nics[board];
	return tw_inet_loopback(sa) ? nics[best[0]] : tw_nic_of(sa);
}

bool tw_nic_hashed(uint64_t nic_id)
{
	return nic_id >> HASH_BITS == PREFIX_IPV6;
}
