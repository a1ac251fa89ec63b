/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

#define TW_SETTING(ident, env, type, dflt, text) .ident = dflt,
struct tw_settings tw_settings = {
#include "base/settings.def"
};
#undef TW_SETTING

#define DEFAULT_STR(x) x
#define DEFAULT_TRUST(x) x
#define DEFAULT_LIST(x) x
#define DEFAULT_PATH(x) x
#define DEFAULT_RANK(x) x
#define DEFAULT_UINT(x) #x
#define DEFAULT_PORT(x) #x
#define DEFAULT_BOOL(x) #x
enum type { STR, TRUST, LIST, PATH, UINT, RANK, PORT, BOOL };

/* Without pointers, so that the loader has nothing to relocate. */
static const struct {
	uint16_t at;
	uint8_t type; /* enum type */
} table[] = {
#define TW_SETTING(ident, env, type, dflt, text) {offsetof(struct tw_settings, ident), type},
#include "base/settings.def"
#undef TW_SETTING
};

/* The name of each setting, followed by its default. */
static const char names[] =
#define TW_SETTING(ident, env, type, dflt, text) env "\0" DEFAULT_##type(dflt) "\0"
#include "base/settings.def"
#undef TW_SETTING
	;

static int parse_text(const char *text, char *out, size_t room)
{
	if (strlen(text) >= room)
		return -1;
	strcpy(out, text);
	return 0;
}

static int parse_word(const char *text, char *out, size_t room)
{
	return text[strcspn(text, " \t\n/")] ? -1 : parse_text(text, out, room);
}

static unsigned shift_of(char unit)
{
	switch (unit | 0x20) {
	case 'k':
		return 10;
	case 'm':
		return 20;
	case 'g':
		return 30;
	default:
		return 0;
	}
}

static int parse_uint(const char *text, uint32_t *out)
{
	unsigned long long v;
	unsigned shift;
	char *end;

	if (*text < '0' || *text > '9')
		return -1;
	errno = 0;
	v = strtoul(text, &end, 0);
	if (errno || v > UINT32_MAX)
		return -1;
	shift = shift_of(*end);
	v <<= shift;
	end += shift > 0;
	if (*end || v > UINT32_MAX)
		return -1;
	*out = (uint32_t)v;
	return 0;
}

static int parse_rank(const char *text, char *out)
{
	unsigned long rank, size;
	char *end;

	if (*text < '0' || *text > '9')
		return -1;
	rank = strtoul(text, &end, 10);
	if (*end != '/' || end[1] < '0' || end[1] > '9')
		return -1;
	size = strtoul(end + 1, &end, 10);
	if (*end || rank >= size || size > UINT32_MAX)
		return -1;
	return parse_text(text, out, TW_SETTING_STR_MAX);
}

static int parse_port(const char *text, uint32_t *out)
{
	return parse_uint(text, out) < 0 || *out == 0 || *out > 65535 - 8192 ? -1 : 0;
}

static int parse_bool(const char *text, bool *out)
{
	if ((text[0] != '0' && text[0] != '1') || text[1])
		return -1;
	*out = text[0] == '1';
	return 0;
}

static int parse(enum type type, const char *text, void *out)
{
	switch (type) {
	case STR:
	case TRUST:
		return parse_word(text, out, TW_SETTING_STR_MAX);
	case LIST:
		return parse_word(text, out, TW_SETTING_LIST_MAX);
	case PATH:
		return parse_text(text, out, TW_SETTING_PATH_MAX);
	case UINT:
		return parse_uint(text, out);
	case RANK:
		return parse_rank(text, out);
	case PORT:
		return parse_port(text, out);
	default:
		return parse_bool(text, out);
	}
}

int tw_settings_choice(const char *text, const char *choices)
{
	for (int i = 0; *choices; i++, choices += strlen(choices) + 1)
		if (strcmp(text, choices) == 0)
			return i;
	return -1;
}

static int out_of_range(const struct tw_settings *s)
{
	bool slots = s->ring_slots < 64 || s->ring_slots > 65536 ||
		     (s->ring_slots & (s->ring_slots - 1));
	bool bytes = s->ring_bytes < 65536 || s->ring_bytes > 16777216 ||
		     (s->ring_bytes & (s->ring_bytes - 1));
	bool rndv = tw_settings_choice(s->rndv, TW_RNDV_CHOICES) < 0;
	bool rmem = tw_settings_choice(s->rmem, "auto\0direct\0vm\0served\0network\0") < 0;

	return slots || bytes || rndv || rmem || s->retry < 100;
}

/*
 * Reads the environment, with defaults for the rest. Returns the first name with an invalid
 * value, or NULL.
 */
static const char *read_all(struct tw_settings *s, bool environment)
{
	const char *name = names, *dflt;

	for (unsigned i = 0; i < tw_countof(table); i++, name = dflt + strlen(dflt) + 1) {
		enum type type = (enum type)table[i].type;
		const char *text = NULL;

		dflt = name + strlen(name) + 1;

		/* A privileged program must not take these from its user. */
		if (environment)
			text = type == PATH || type == TRUST ? secure_getenv(name) : getenv(name);
		/* An absent rank is empty, and parse_rank() rejects that. */
		if (!text && type == RANK)
			type = STR;
		if (parse(type, text ? text : dflt, (char *)s + table[i].at) < 0)
			return name;
	}
	return NULL;
}

int tw_settings_load(char *err, unsigned errlen)
{
	struct tw_settings s = {0};
	const char *bad = read_all(&s, true);
	int status = 0;

	if (bad || out_of_range(&s)) {
		status = -1;
		if (bad)
			snprintf(err, errlen, "%s=%s is not a valid value", bad, getenv(bad));
		else
			snprintf(err, errlen,
				 "TAGWIRE_RING_SLOTS, TAGWIRE_RING_BYTES, TAGWIRE_RNDV, "
				 "TAGWIRE_RMEM or TAGWIRE_RETRY is out of range");
		read_all(&s, false);
	}
	tw_settings = s;
	return status;
}
