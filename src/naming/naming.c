/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names of hosts and their boards. A name is NAME:BOARD, or NAME for the best board of that
 * host. Names of the hosts file come first, then this host's own; any other host is asked
 * which boards it has. If it does not answer, the address that the resolver knows counts as
 * its board 0.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/compiler.h"
#include "base/fds.h"
#include "base/inet.h"
#include "base/settings.h"
#include "base/sys.h"
#include "base/thread.h"
#include "naming/hosts.h"
#include "naming/naming.h"
#include "providers/registry.h"

static char hostname[sizeof(((struct tw_host_boards *)0)->host)];

enum tw_err tw_naming_init(void)
{
	enum tw_err err;

	if (!tw_sys_hostname(hostname, sizeof(hostname)))
		strcpy(hostname, "localhost");
	err = tw_boards_find();
	return err == TW_OK && TW_USES_NAMES ? tw_hosts_load(tw_settings.peers) : err;
}

void tw_naming_describe(struct tw_host_boards *out)
{
	const struct tw_board *boards;

	memset(out, 0, sizeof(*out));
	memcpy(out->host, hostname, sizeof(hostname));
	out->n = tw_boards(&boards);
	out->best = tw_board_best(0);
	for (unsigned i = 0; i < out->n; i++) {
		out->nic_id[i] = boards[i].nic_id;
		tw_inet_pack(tw_board_address(i), out->address[i]);
	}
}

bool tw_name_parse(const char *text, char *name, uint32_t *board)
{
	const char *colon = strrchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : strlen(text);
	unsigned long n;
	char *end;

	*board = TW_BEST_BOARD;
	if (len == 0 || len >= 256)
		return false;
	/* Messages show it in a line. */
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 127)
			return false;
	memcpy(name, text, len);
	name[len] = 0;
	if (!colon)
		return true;
	n = strtoul(colon + 1, &end, 10);
	if (colon[1] < '0' || colon[1] > '9' || *end || n >= TW_BEST_BOARD)
		return false;
	*board = (uint32_t)n;
	return true;
}

static struct addrinfo *resolve(const char *host, bool numeric)
{
	static const int families[] = {AF_INET, AF_INET6};
	struct addrinfo *res;

	for (unsigned i = 0; i < tw_countof(families); i++) {
		struct addrinfo hints = {.ai_family = families[i],
					 .ai_socktype = SOCK_STREAM,
					 .ai_flags = numeric ? AI_NUMERICHOST : 0};

		if (getaddrinfo(host, NULL, &hints, &res) == 0)
			return res;
	}
	return NULL;
}

/* The resolver does not tell that it had no descriptor. */
static enum tw_err unresolved(bool numeric)
{
	int fd = numeric ? -1 : tw_fd_own(tw_sys_open("/", O_PATH | O_CLOEXEC));
	bool scarce = !numeric && fd < 0 && (errno == EMFILE || errno == ENFILE);

	tw_fd_close(fd);
	return scarce ? TW_ENOMEM : TW_EUNREACH;
}

static void keep_address(struct sockaddr_storage *to, const struct addrinfo *from)
{
	memset(to, 0, sizeof(*to));
	memcpy(to, from->ai_addr, from->ai_addrlen);
}

enum tw_err tw_resolve(const char *host, bool numeric, struct sockaddr_storage *sa)
{
	TW_NOT_CANCELLED;
	struct addrinfo *res = resolve(host, numeric);

	if (!res)
		return unresolved(numeric);
	keep_address(sa, res);
	freeaddrinfo(res);
	return TW_OK;
}

/* The names that the resolver has for this host's own, in one family. */
static bool is_alias(const char *host, int family)
{
	TW_NOT_CANCELLED;
	struct hostent entry, *found = NULL;
	int error, failed;
	char buf[4096];

	failed = gethostbyname2_r(hostname, family, &entry, buf, sizeof(buf), &found, &error);
	if (failed || !found)
		return false;
	for (char **alias = found->h_aliases; *alias; alias++)
		if (strcasecmp(host, *alias) == 0)
			return true;
	return strcasecmp(host, found->h_name) == 0;
}

/* Whether the name is this host's, whatever address the resolver has for it. */
static bool is_own(const char *host)
{
	size_t len = strlen(host);

	if (strcasecmp(host, hostname) == 0 || strcasecmp(host, "localhost") == 0)
		return true;
	/* The short name of a host that knows its full one. */
	if (strncasecmp(host, hostname, len) == 0 && hostname[len] == '.')
		return true;
	return is_alias(host, AF_INET) || is_alias(host, AF_INET6);
}

static enum tw_err own_nic(uint32_t board, uint64_t *nic_id)
{
	const struct tw_board *boards;

	if (board == TW_BEST_BOARD)
		board = tw_board_best(0);
	if (board >= tw_boards(&boards))
		return TW_ECLOSED;
	*nic_id = boards[board].nic_id;
	return TW_OK;
}

static enum tw_err query(const struct sockaddr_storage *at, struct tw_host_boards *b)
{
	const struct tw_provider *list[TW_MAX_PROVIDERS];
	unsigned n = tw_provider_list(tw_settings.providers, list);
	enum tw_err err = TW_EUNREACH;

	for (unsigned i = 0; i < n && err != TW_OK; i++)
		if (list[i]->query)
			err = list[i]->query(at, b);
	return err;
}

/* An address of a link alone is reached by that of the one that was asked. */
static bool in_scope(struct sockaddr_storage *sa, const struct sockaddr_storage *asked)
{
	struct sockaddr_in6 *in6 = (void *)sa;

	if (sa->ss_family != AF_INET6 || !IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr))
		return true;
	if (asked->ss_family == AF_INET6)
		in6->sin6_scope_id =
			((const struct sockaddr_in6 *)(const void *)asked)->sin6_scope_id;
	return in6->sin6_scope_id;
}

/* Asks the host at an address for its boards, which then have this name, or its own. */
static bool learn(const char *name, const struct sockaddr_storage *at)
{
	struct tw_host_boards b;
	uint32_t board;
	char host[256];

	if (!TW_USES_NAMES || query(at, &b) != TW_OK || b.n > TW_MAX_BOARDS)
		return false;
	b.host[sizeof(b.host) - 1] = 0;
	if (!name &&
	    (!tw_name_parse(b.host, host, &board) || strcmp(host, b.host) != 0 || is_own(host)))
		return false;
	for (uint32_t i = 0; i < b.n; i++) {
		struct tw_known k = {.board = i, .best = i == b.best, .nic_id = b.nic_id[i]};

		snprintf(k.name, sizeof(k.name), "%s", name ? name : b.host);
		tw_inet_unpack(b.address[i], &k.address);
		/* One that others have, too: this host may reach another by it, or itself. */
		if (tw_nic_of(&k.address) != k.nic_id || !in_scope(&k.address, at))
			memset(&k.address, 0, sizeof(k.address));
		if (k.nic_id >> 48 == 0)
			tw_hosts_add(&k);
	}
	return true;
}

/* The address of another host's board with this name. */
static enum tw_err found_at(const char *host, uint32_t board, const struct addrinfo *res,
			    uint64_t *nic_id)
{
	struct tw_known k = {.board = 0};
	struct sockaddr_storage at;
	bool answered = false;

	for (const struct addrinfo *i = res; i && !answered; i = i->ai_next) {
		keep_address(&at, i);
		answered = learn(host, &at);
	}
	if (answered && tw_hosts_find(host, board, &k)) {
		*nic_id = k.nic_id;
		return TW_OK;
	}
	if (answered || (board && board != TW_BEST_BOARD))
		return answered ? TW_ECLOSED : TW_ETIMEDOUT;
	keep_address(&at, res);
	*nic_id = tw_nic_of(&at);
	tw_naming_found(*nic_id, &at, true);
	return TW_OK;
}

/* An address is a board. */
static enum tw_err of_address(const struct sockaddr_storage *sa, uint32_t board, uint64_t *nic_id)
{
	if (board && board != TW_BEST_BOARD)
		return TW_ECLOSED;
	*nic_id = tw_nic_at(sa);
	tw_naming_found(*nic_id, sa, true);
	return TW_OK;
}

static enum tw_err of_name(const char *host, uint32_t board, uint64_t *nic_id)
{
	struct sockaddr_storage first;
	struct addrinfo *res;
	enum tw_err err;
	uint32_t here;

	if (is_own(host))
		return own_nic(board, nic_id);
	res = resolve(host, false);
	if (!res)
		return unresolved(false);
	keep_address(&first, res);
	if (tw_board_at(&first, &here))
		err = own_nic(board == TW_BEST_BOARD ? here : board, nic_id);
	else if (tw_inet_loopback(&first))
		err = own_nic(board, nic_id);
	else
		err = found_at(host, board, res, nic_id);
	freeaddrinfo(res);
	return err;
}

/* The hosts file may have another board of it, and that board's host has answered, or not. */
static enum tw_err of_hosts(const char *host, uint32_t board, uint64_t *nic_id)
{
	struct tw_known k;

	if (!TW_USES_NAMES)
		return TW_EUNREACH;
	if (!tw_hosts_find(host, board, &k)) {
		if (!tw_hosts_find(host, 0, &k))
			return TW_EUNREACH;
		if (!learn(host, &k.address))
			return TW_ETIMEDOUT;
		if (!tw_hosts_find(host, board, &k))
			return TW_ECLOSED;
	}
	*nic_id = k.nic_id;
	return TW_OK;
}

enum tw_err tw_name_to_nic(const char *name, uint64_t *nic_id)
{
	TW_NOT_CANCELLED;
	struct sockaddr_storage sa;
	enum tw_err known, err;
	uint32_t board;
	char host[256];

	if (tw_resolve(name, true, &sa) == TW_OK)
		return of_address(&sa, TW_BEST_BOARD, nic_id);
	/* Two colons or more are of an address. */
	if (!tw_name_parse(name, host, &board))
		return strchr(name, ':') == strrchr(name, ':') ? TW_EPROTO : TW_EUNREACH;
	if (tw_resolve(host, true, &sa) == TW_OK)
		return of_address(&sa, board, nic_id);
	known = of_hosts(host, board, nic_id);
	if (known == TW_OK)
		return TW_OK;
	err = of_name(host, board, nic_id);
	return err == TW_EUNREACH ? known : err;
}

const char *tw_name_advice(enum tw_err err)
{
	if (err == TW_ECLOSED)
		return ": the host has no such board; mx_info there lists its boards";
	if (err == TW_EPROTO)
		return ": it must be HOST, or HOST:BOARD with the number of a board";
	if (err == TW_ETIMEDOUT)
		return ": no process there answers, and only they know its boards; see "
		       "TAGWIRE_PORT in tagwire-settings(7)";
	return ": the resolver does not know it (/etc/hosts, DNS); see TAGWIRE_PEERS in "
	       "tagwire-settings(7)";
}

bool tw_naming_found(uint64_t nic_id, const struct sockaddr_storage *sa, bool sure)
{
	struct tw_known k = {.nic_id = nic_id, .address = *sa};
	/* The others contain it, or are this host's. */
	bool is = TW_USES_NAMES && sa->ss_family == AF_INET6 && nic_id == tw_nic_of(sa);

	if (is && sure)
		tw_hosts_add(&k);
	return is;
}

enum tw_err tw_nic_to_address(uint64_t nic_id, struct sockaddr_storage *sa)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr = {htobe32((uint32_t)nic_id)}};
	struct tw_known k;
	uint32_t board;

	if (tw_board_of(nic_id, &board)) {
		*sa = *tw_board_address(board);
		return TW_OK;
	}
	if (tw_hosts_find_nic(nic_id, &k)) {
		*sa = k.address;
		return k.address.ss_family == AF_UNSPEC ? TW_EUNREACH : TW_OK;
	}
	if (tw_nic_hashed(nic_id))
		return TW_AGAIN;
	memset(sa, 0, sizeof(*sa));
	memcpy(sa, &in, sizeof(in));
	/* An address of this host is no way to another one. */
	return tw_nic_of(sa) == nic_id && tw_nic_at(sa) == nic_id ? TW_OK : TW_EUNREACH;
}

bool tw_nic_leads_nowhere(uint64_t nic_id)
{
	struct tw_known k;

	return TW_USES_NAMES && tw_hosts_find_nic(nic_id, &k) && k.address.ss_family == AF_UNSPEC;
}

/* NAME:BOARD of a NIC whose host is known. */
static bool name_known(uint64_t nic_id, char *out, unsigned len)
{
	struct tw_known k;
	uint32_t board;

	if (tw_hosts_find_nic(nic_id, &k) && *k.name)
		snprintf(out, len, "%s:%u", k.name, k.board);
	else if (tw_board_of(nic_id, &board))
		snprintf(out, len, "%s:%u", hostname, board);
	else
		return false;
	return true;
}

void tw_nic_text(uint64_t nic_id, char *out, unsigned len)
{
	struct sockaddr_storage sa;
	char at[INET6_ADDRSTRLEN];

	if (name_known(nic_id, out, len))
		return;
	if (tw_nic_to_address(nic_id, &sa) == TW_OK)
		snprintf(out, len, "%s", tw_inet_text(&sa, at, sizeof(at)));
	else
		snprintf(out, len, "NIC %012" PRIx64, nic_id);
}

enum tw_err tw_nic_to_name(uint64_t nic_id, char *name, unsigned len)
{
	TW_NOT_CANCELLED;
	struct sockaddr_storage sa;
	char host[256];
	bool named;

	if (name_known(nic_id, name, len))
		return TW_OK;
	if (tw_nic_to_address(nic_id, &sa) != TW_OK)
		return TW_EUNREACH;
	named = getnameinfo((struct sockaddr *)&sa, tw_inet_len(&sa), host, sizeof(host), NULL, 0,
			    NI_NAMEREQD) == 0;
	if (learn(named ? host : NULL, &sa) && name_known(nic_id, name, len))
		return TW_OK;
	if (!named)
		return TW_EUNREACH;
	snprintf(name, len, "%s:0", host);
	return TW_OK;
}
