/* SPDX-License-Identifier: BSD-2-Clause */
/* The settings: environment variables, read once. The table is settings.def. */
#ifndef TW_SETTINGS_H
#define TW_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

#define TW_SETTING_STR_MAX 64
#define TW_SETTING_PATH_MAX 512
#define TW_SETTING_LIST_MAX 1024

typedef char tw_setting_STR[TW_SETTING_STR_MAX];
typedef char tw_setting_TRUST[TW_SETTING_STR_MAX];
typedef char tw_setting_PATH[TW_SETTING_PATH_MAX];
typedef char tw_setting_RANK[TW_SETTING_STR_MAX];
typedef char tw_setting_LIST[TW_SETTING_LIST_MAX];
typedef char tw_setting_NODES[TW_SETTING_LIST_MAX];
typedef char tw_setting_PORTS[TW_SETTING_STR_MAX];
typedef uint32_t tw_setting_UINT;
typedef uint32_t tw_setting_SIZE;
typedef bool tw_setting_BOOL;

struct tw_settings {
#define TW_SETTING(ident, env, type, dflt, limits, text) tw_setting_##type ident;
#include "base/settings.def"
#undef TW_SETTING
};

extern struct tw_settings tw_settings;

/*
 * A second prefix: where the variable of a setting is not set, the variable with this prefix before
 * its name counts.
 */
extern const char *tw_settings_prefix;

/* Reads the environment. False: a value is invalid, and all settings are the defaults. */
bool tw_settings_load(void);

/*
 * A message for the next setting whose value is invalid, from the one numbered *at on. False: there
 * are no more.
 */
bool tw_settings_invalid(unsigned *at, char *out, unsigned size);

/*
 * environment.c: the same, and says on standard error what is wrong, also with other names. While
 * another part of the library is between its begin and end, the settings stay as they are.
 */
bool tw_settings_begin(void);
void tw_settings_end(void);

/*
 * A message for the next variable of the environment, from the one numbered *at on, that is named
 * like a setting and is none. False: there are no more.
 */
bool tw_settings_stranger(unsigned *at, char *out, unsigned size);

/* A range of numbered nodes, or ranks, and their host. */
struct tw_nodes {
	unsigned long first, last;
	char host[256];
};

#define TW_NODES_MOST 4096 /* numbers, from 0 on */

/* The next of several with commas between them, as 0-3=alpha. 0: no more; -1: it is none. */
int tw_nodes_next(const char **text, struct tw_nodes *out);

/* TCP ports in turn. Both 0: the system chooses. */
struct tw_ports {
	uint32_t first, last;
};

/* 30000-30999, or one port; an empty text leaves the choice to the system. False: it is neither. */
static inline bool tw_ports_parse(const char *text, struct tw_ports *out)
{
	char *end = NULL;

	*out = (struct tw_ports){0, 0};
	if (!*text)
		return true;
	if (*text < '0' || *text > '9')
		return false;
	out->first = out->last = (uint32_t)tw_min(strtoul(text, &end, 10), 65536ul);
	if (*end == '-' && end[1] >= '0' && end[1] <= '9')
		out->last = (uint32_t)tw_min(strtoul(end + 1, &end, 10), 65536ul);
	return !*end && out->first && out->first <= out->last && out->last <= 65535;
}

/* The next of several names with commas between them, and its length; NULL: no more. */
static inline const char *tw_name_next(const char **names, size_t *len)
{
	const char *name = *names;

	*len = strcspn(name, ",");
	*names += *len + (name[*len] == ',');
	return *name ? name : NULL;
}

static inline bool tw_names_have(const char *names, const char *wanted)
{
	size_t len;

	for (const char *name; (name = tw_name_next(&names, &len));)
		if (strlen(wanted) == len && memcmp(name, wanted, len) == 0)
			return true;
	return false;
}

#endif /* TW_SETTINGS_H */
