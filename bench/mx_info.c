/* SPDX-License-Identifier: BSD-2-Clause */
/* Shows the boards of this host and the limits of the library. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

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

enum what { BOARDS, CHECK, SETTINGS };

static enum table_format parse(int argc, char **argv, enum what *what)
{
	enum table_format format = TABLE_PLAIN;
	bool check = false, settings = false;
	const struct cli_option options[] = {
		CLI_SET("check", &check),
		CLI_SET("settings", &settings),
		CLI_FORMAT(&format),
		{.name = NULL},
	};

	bench_cli(argc, argv, options, help);
	bench_cli_end(argc, argv);
	if (check && settings)
		bench_usage("--check and --settings exclude each other");
	*what = check ? CHECK : settings ? SETTINGS : BOARDS;
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

/* Those of a board, as an endpoint there finds them. */
static bool show_providers_at(struct table *t, uint32_t board)
{
	char name[MX_MAX_STR_LEN + 1] = "", text[MX_MAX_STR_LEN + 1] = "";
	mx_endpoint_t endpoint;
	uint32_t here;
	mx_return_t rc = mx_open_endpoint(board, MX_ANY_ENDPOINT, 0, NULL, 0, &endpoint);

	if (rc != MX_SUCCESS) {
		fprintf(stderr, "%s: board %" PRIu32 ": %s\n", bench_tool, board, mx_strerror(rc));
		return false;
	}
	for (uint32_t i = 0; mx_get_info(endpoint, (mx_get_info_key_t)MX_INFO_PROVIDER, &i,
					 sizeof i, name, MX_MAX_STR_LEN) == MX_SUCCESS; i++) {
		mx_get_info(endpoint, (mx_get_info_key_t)MX_INFO_PROVIDER_HERE, &i, sizeof i, &here,
			    sizeof here);
		mx_get_info(endpoint, (mx_get_info_key_t)MX_INFO_PROVIDER_TEXT, &i, sizeof i, text,
			    MX_MAX_STR_LEN);
		table_count(t, board);
		table_text(t, name);
		table_text(t, here ? "yes" : "no");
		table_text(t, text);
	}
	mx_close_endpoint(endpoint);
	return true;
}

/* False if a board is of no use. */
static bool show_providers(enum table_format format)
{
	uint32_t count = 0;
	struct table t;
	bool good = true;

	if (format != TABLE_JSON)
		putchar('\n');
	number(MX_NIC_COUNT, 0, &count);
	table_open_kind(&t, format, "provider", provider_columns, COUNT(provider_columns));
	for (uint32_t board = 0; board < count; board++)
		good &= show_providers_at(&t, board);
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
		bench_fail("mx_init: %s", mx_strerror(rc));
	if (what == SETTINGS)
		return 0;
	show_boards(format);
	good = show_providers(format);
	show_limits(format);
	mx_finalize();
	return good ? 0 : 1;
}
