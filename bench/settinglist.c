/* SPDX-License-Identifier: BSD-2-Clause */
/* Shows the table that the library itself reads: base/settings.def. */
#include "settinglist.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings.h"
#include "cli.h"

#define WIDTH 80
#define INDENT 4

static const struct table_column columns[] = {
	{"setting", "setting", "%s"}, {"value", "value", "%s"},	    {"from", "from", "%s"},
	{"limits", "limits", "%s"},   {"meaning", "meaning", "%s"},
};

/* The words behind what the line has already, below it. */
static void show_wrapped(const char *text)
{
	int column = WIDTH;

	while (*text) {
		int word = (int)strcspn(text, " ");

		if (column + 1 + word > WIDTH)
			column = printf("\n%*s", INDENT - 1, "") - 1;
		column += printf(" %.*s", word, text);
		text += word + strspn(text + word, " ");
	}
	putchar('\n');
}

static const char *origin(const char *name, const char *value)
{
	if (secure_getenv(name))
		return "environment";
	return *value && !strcmp(name, "TAGWIRE_JOB") ? "launcher" : "default";
}

static void show(struct table *t, const char *name, const char *value, const char *limits,
		 const char *meaning)
{
	if (t->format == TABLE_PLAIN) {
		printf("%s=%s (%s)", name, value, origin(name, value));
		show_wrapped(meaning);
		if (*limits)
			printf("%*sValues: %s.\n", INDENT, "", limits);
		return;
	}
	table_text(t, name);
	table_text(t, value);
	table_text(t, origin(name, value));
	table_text(t, limits);
	table_text(t, meaning);
}

#define SHOW_STR(value) snprintf(text, sizeof(text), "%s", value)
#define SHOW_TRUST SHOW_STR
#define SHOW_LIST SHOW_STR
#define SHOW_NODES SHOW_STR
#define SHOW_PATH SHOW_STR
#define SHOW_RANK SHOW_STR
#define SHOW_PORTS SHOW_STR
#define SHOW_UINT(value) snprintf(text, sizeof(text), "%" PRIu32, value)
#define SHOW_SIZE SHOW_UINT
#define SHOW_BOOL(value) snprintf(text, sizeof(text), "%d", value)

void settinglist(enum table_format format)
{
	char text[TW_SETTING_LIST_MAX];
	struct table t = {.format = format};

	if (!tw_settings_load()) {
		for (unsigned at = 0; tw_settings_invalid(&at, text, sizeof(text));)
			fprintf(stderr, "%s: %s\n", bench_tool, text);
		exit(1);
	}
	if (format != TABLE_PLAIN)
		table_open_kind(&t, format, "setting", columns, sizeof(columns) / sizeof(*columns));
#define TW_SETTING(ident, env, type, dflt, limits, meaning)                                        \
	SHOW_##type(tw_settings.ident);                                                            \
	show(&t, env, text, limits, meaning);
#include "base/settings.def"
#undef TW_SETTING
	if (format != TABLE_PLAIN)
		table_close(&t);
	bench_output_end();
}
