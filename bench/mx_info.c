/* SPDX-License-Identifier: BSD-2-Clause */
/* Shows the boards of this host and the limits of the library. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/copy.h"
#include "base/distance.h"
#include "cli.h"
#include "hostcheck.h"
#include "mx_extensions.h"
#include "settinglist.h"
#include "table.h"

const char bench_tool[] = "mx_info";

static const char help[] =
	"Usage: mx_info [options]\n"
	"Shows the boards of this host, their NIC ids and names, which providers work\n"
	"at each of them, and the limits of the library.\n\n"
	"  --check        tells instead what this system allows the library, and\n"
	"                 what is missing or slower without it\n"
	"  --protocols    shows instead how messages go, by their length and provider\n"
	"  --settings     shows instead every setting (TAGWIRE_...), what it is, where\n"
	"                 that comes from, and what it means\n"
	"  --csv, --json  comma separated values; one JSON object a line\n"
	"  -h, --help; -V, --version\n";

static const struct table_column board_columns[] = {
	{"board", "board", "%" PRIu64},
	{"nic_id", "NIC id", "%s"},
	{"name", "name", "%s"},
	{"network", "network", "%s"},
	{"ports", "ports", "%" PRIu64},
	{"line_speed_mb_s", "MB/s", "%" PRIu64},
	{"numa_node", "NUMA node", "%" PRIu64},
	{"product", "product", "%s"},
	{"part", "part", "%s"},
	{"serial", "serial", "%" PRIu64},
};

static const struct table_column provider_columns[] = {
	{"board", "board", "%" PRIu64},
	{"provider", "provider", "%s"},
	{"here", "here", "%s"},
	{"text", "what it does, or why not", "%s"},
};

static const struct table_column limit_columns[] = {
	{"limit", "limit", "%s"},
	{"value", "value", "%" PRIu64},
};
#define COUNT(a) ((unsigned)(sizeof(a) / sizeof(a)[0]))

/* Values of mx_get_info() and of the header. */
static const struct {
	const char *name;
	mx_get_info_key_t key; /* 0: the value stands here */
	uint32_t value;
} limits[] = {
	{"endpoints", MX_INFO_MAX_ENDPOINTS, 0},
	{"native endpoints", MX_MAX_NATIVE_ENDPOINTS, 0},
	{"native requests", MX_NATIVE_REQUESTS, 0},
	{"segments of a request", MX_INFO_MAX_SEGMENTS, 0},
	{"bytes sent by PIO", MX_PIO_SEND_MAX, 0},
	{"bytes sent by copy", MX_COPY_SEND_MAX, 0},
	{"bytes of a host name", 0, MX_MAX_HOSTNAME_LEN},
	{"interface version", 0, MX_API},
};

static const struct table_column protocol_columns[] = {
	{"board", "board", "%" PRIu64},
	{"provider", "provider", "%s"},
	{"from_bytes", "from bytes", "%" PRIu64},
	{"to_bytes", "to bytes", "%" PRIu64},
	{"protocol", "protocol", "%s"},
	{"around_from_bytes", "around cache from", "%" PRIu64},
	{"meaning", "meaning", "%s"},
};

enum what { BOARDS, CHECK, SETTINGS, PROTOCOLS };

static enum table_format parse(int argc, char **argv, enum what *what)
{
	enum table_format format = TABLE_PLAIN;
	bool check = false, settings = false, protocols = false;
	const struct cli_option options[] = {
		CLI_SET("check", &check),
		CLI_SET("settings", &settings),
		CLI_SET("protocols", &protocols),
		CLI_FORMAT(&format),
		{.name = NULL},
	};

	bench_cli(argc, argv, options, help);
	bench_cli_end(argc, argv);
	if (check + settings + protocols > 1)
		bench_usage("--check, --settings and --protocols exclude each other");
	*what = check ? CHECK : settings ? SETTINGS : protocols ? PROTOCOLS : BOARDS;
	return format;
}

static bool number(mx_get_info_key_t key, uint32_t board, uint32_t *value)
{
	return mx_get_info(NULL, key, &board, sizeof board, value, sizeof *value) == MX_SUCCESS;
}

static void put_number(struct table *t, mx_get_info_key_t key, uint32_t board)
{
	uint32_t value;

	/* No NUMA node is -1, as elsewhere; no speed is 0. */
	if (number(key, board, &value) && !(key == MX_NUMA_NODE && value == UINT32_MAX) &&
	    !(key == MX_INFO_LINE_RATE && value == 0))
		table_count(t, value);
	else
		table_none(t);
}

static void put_string(struct table *t, mx_get_info_key_t key, uint32_t board)
{
	char text[MX_MAX_STR_LEN + 1] = "";

	if (mx_get_info(NULL, key, &board, sizeof board, text, MX_MAX_STR_LEN) == MX_SUCCESS)
		table_text(t, text);
	else
		table_none(t);
}

static void put_network(struct table *t, uint32_t board)
{
	uint32_t type;

	if (!number(MX_NET_TYPE, board, &type))
		table_none(t);
	else
		table_text(t, type == MX_NET_MYRI    ? "Myrinet"
			      : type == MX_NET_ETHER ? "Ethernet"
						     : "other");
}

static void show_board(struct table *t, uint32_t board, uint64_t nic_id)
{
	char nic[BENCH_NIC_TEXT], name[MX_MAX_HOSTNAME_LEN + 1] = "";

	table_count(t, board);
	table_text(t, bench_nic_text(nic_id, nic));
	if (mx_nic_id_to_hostname(nic_id, name) == MX_SUCCESS)
		table_text(t, name);
	else
		table_none(t);
	put_network(t, board);
	put_number(t, MX_PORT_COUNT, board);
	put_number(t, MX_INFO_LINE_RATE, board);
	put_number(t, MX_NUMA_NODE, board);
	put_string(t, MX_PRODUCT_CODE, board);
	put_string(t, MX_PART_NUMBER, board);
	put_number(t, MX_SERIAL_NUMBER, board);
}

static void show_boards(enum table_format format)
{
	uint32_t count, board;
	struct table t;
	mx_return_t rc;
	uint64_t *ids;

	if (!number(MX_NIC_COUNT, 0, &count))
		bench_fail("the number of boards is not known");
	ids = calloc((size_t)count + 1, sizeof *ids);
	if (!ids)
		bench_fail("no memory");
	rc = mx_get_info(NULL, MX_NIC_IDS, NULL, 0, ids, (uint32_t)((count + 1) * sizeof *ids));
	if (rc != MX_SUCCESS)
		bench_fail("NIC ids: %s", mx_strerror(rc));
	table_open_kind(&t, format, "board", board_columns, COUNT(board_columns));
	for (uint32_t i = 0; i < count && ids[i]; i++) {
		if (mx_nic_id_to_board_number(ids[i], &board) != MX_SUCCESS)
			board = i;
		show_board(&t, board, ids[i]);
	}
	table_close(&t);
	free(ids);
}

/* A provider of a board, as an endpoint there finds it. */
struct place {
	mx_endpoint_t endpoint;
	uint32_t board, number;
	char name[MX_MAX_STR_LEN + 1];
};

static uint32_t provider_number(const struct place *p, enum mx_provider_info key)
{
	uint32_t which = p->number, value = 0;

	mx_get_info(p->endpoint, (mx_get_info_key_t)key, &which, sizeof which, &value,
		    sizeof value);
	return value;
}

static void provider_text(const struct place *p, enum mx_provider_info key,
			  char text[MX_MAX_STR_LEN + 1])
{
	uint32_t which = p->number;

	text[0] = 0;
	mx_get_info(p->endpoint, (mx_get_info_key_t)key, &which, sizeof which, text,
		    MX_MAX_STR_LEN);
}

static void show_provider(struct table *t, const struct place *p)
{
	char text[MX_MAX_STR_LEN + 1];

	table_count(t, p->board);
	table_text(t, p->name);
	table_text(t, provider_number(p, MX_INFO_PROVIDER_HERE) ? "yes" : "no");
	provider_text(p, MX_INFO_PROVIDER_TEXT, text);
	table_text(t, text);
}

/* A protocol of messages of these lengths. ring: of one in shared memory. */
static void show_protocol(struct table *t, const struct place *p, uint64_t from, uint64_t to,
			  const char *protocol, bool ring, const char *text)
{
	uint64_t around = from > TW_COPY_SHORT ? from : TW_COPY_SHORT + 1;

	if (from > to)
		return;
	table_count(t, p->board);
	table_text(t, p->name);
	table_count(t, from);
	if (to == UINT64_MAX)
		table_none(t);
	else
		table_count(t, to);
	table_text(t, protocol);
	if (ring && TW_DISTANCE && around <= to)
		table_count(t, around);
	else
		table_none(t);
	table_text(t, text);
}

static void show_announced(struct table *t, const struct place *p, uint64_t from, bool ring)
{
	char protocol[MX_MAX_STR_LEN + 1];
	const char *text = "announced; the receiver reads the sender's memory";

	provider_text(p, MX_INFO_PROVIDER_LONG, protocol);
	if (ring && strcmp(protocol, "copy") != 0 && hostcheck_copy() != 0) {
		strcpy(protocol, "copy");
		text = "announced; in packets, as the system refuses process_vm_readv";
	} else if (strcmp(protocol, "copy") == 0) {
		text = "announced; in packets when it is received";
	} else if (strcmp(protocol, "get") != 0) {
		text = "announced; in packets while the sender polls, else the receiver reads "
		       "its memory";
	}
	show_protocol(t, p, from, UINT64_MAX, protocol, ring && strcmp(protocol, "get") != 0, text);
}

static void show_protocols(struct table *t, const struct place *p)
{
	uint32_t slot = provider_number(p, MX_INFO_PROVIDER_SLOT);
	uint32_t packet = provider_number(p, MX_INFO_PROVIDER_PACKET), eager = 0;
	uint64_t from = 0;

	if (!provider_number(p, MX_INFO_PROVIDER_HERE))
		return;
	number(MX_COPY_SEND_MAX, 0, &eager);
	packet = packet < eager ? packet : eager;
	slot = slot < packet ? slot : packet;
	if (slot) {
		show_protocol(t, p, from, slot, "slot", false,
			      "in a slot of the ring, with its header");
		from = slot + 1ull;
	}
	show_protocol(t, p, from, packet, "packet", slot, "one packet");
	show_protocol(t, p, packet + 1ull, eager, "packets", slot,
		      "several packets, without a word of the receiver (TAGWIRE_EAGER_MAX)");
	show_announced(t, p, eager + 1ull, slot);
}

/* Shows each provider of a board by a function. */
static bool show_at(struct table *t, uint32_t board,
		    void (*show)(struct table *t, const struct place *p))
{
	struct place p = {.board = board};
	mx_return_t rc = mx_open_endpoint(board, MX_ANY_ENDPOINT, 0, NULL, 0, &p.endpoint);

	if (rc != MX_SUCCESS) {
		fprintf(stderr, "%s: board %" PRIu32 ": %s\n", bench_tool, board, mx_strerror(rc));
		return false;
	}
	for (; provider_text(&p, MX_INFO_PROVIDER, p.name), *p.name; p.number++)
		show(t, &p);
	mx_close_endpoint(p.endpoint);
	return true;
}

/* False if a board is of no use. */
static bool show_all(enum table_format format, const char *kind, const struct table_column *columns,
		     unsigned ncolumns, void (*show)(struct table *t, const struct place *p))
{
	uint32_t count = 0;
	struct table t;
	bool good = true;

	number(MX_NIC_COUNT, 0, &count);
	table_open_kind(&t, format, kind, columns, ncolumns);
	for (uint32_t board = 0; board < count; board++)
		good &= show_at(&t, board, show);
	table_close(&t);
	return good;
}

static void show_limits(enum table_format format)
{
	struct table t;

	if (format != TABLE_JSON)
		putchar('\n');
	table_open_kind(&t, format, "limit", limit_columns, COUNT(limit_columns));
	for (unsigned i = 0; i < COUNT(limits); i++) {
		table_text(&t, limits[i].name);
		if (limits[i].key)
			put_number(&t, limits[i].key, 0);
		else
			table_count(&t, limits[i].value);
	}
	table_close(&t);
}

int main(int argc, char **argv)
{
	enum what what;
	enum table_format format = parse(argc, argv, &what);
	mx_return_t rc;
	bool good;

	if (what == CHECK)
		return hostcheck(format) ? 0 : 1;
	if (what == SETTINGS)
		settinglist(format);
	/* It refuses values that look valid in the table, as of an interface that is not there. */
	mx_set_error_handler(MX_ERRORS_RETURN);
	rc = mx_init();
	if (rc != MX_SUCCESS)
		bench_fail("mx_init: %s",
			   rc == MX_FAILURE ? "see the message before this one" : mx_strerror(rc));
	if (what == SETTINGS)
		return 0;
	if (what == PROTOCOLS) {
		good = show_all(format, "protocol", protocol_columns, COUNT(protocol_columns),
				show_protocols);
	} else {
		show_boards(format);
		if (format != TABLE_JSON)
			putchar('\n');
		good = show_all(format, "provider", provider_columns, COUNT(provider_columns),
				show_provider);
		show_limits(format);
	}
	mx_finalize();
	return good ? 0 : 1;
}
