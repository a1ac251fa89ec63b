/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

#define TW_SETTING(ident, env, type, dflt, text) .ident = dflt,
static const struct tw_settings defaults = {
#include "base/settings.def"
};
struct tw_settings tw_settings = {
#include "base/settings.def"
};
#undef TW_SETTING

static int parse_text(const char *text, char *out, size_t room)
{
	if (strlen(text) >= room)
		return -1;
	strcpy(out, text);
	return 0;
}

static int parse_word(const char *text, char *out, size_t room)
{
	return strpbrk(text, " \t\n/") ? -1 : parse_text(text, out, room);
}

static int parse_STR(const char *text, char *out)
{
	return parse_word(text, out, TW_SETTING_STR_MAX);
}

static int parse_LIST(const char *text, char *out)
{
	return parse_word(text, out, TW_SETTING_LIST_MAX);
}

static int parse_PATH(const char *text, char *out)
{
	return parse_text(text, out, TW_SETTING_PATH_MAX);
}

static int parse_UINT(const char *text, uint32_t *out)
{
	static const char units[] = "kmg";
	unsigned long long v;
	const char *unit;
	char *end;

	if (*text < '0' || *text > '9')
		return -1;
	errno = 0;
	v = strtoull(text, &end, 0);
	if (errno || v > UINT32_MAX)
		return -1;
	if (*end && (unit = strchr(units, *end | 0x20))) {
		v <<= 10 * (unit - units + 1);
		end++;
	}
	if (*end || v > UINT32_MAX)
		return -1;
	*out = (uint32_t)v;
	return 0;
}

static int parse_RANK(const char *text, char *out)
{
	unsigned rank, size;
	char more;

	if (*text < '0' || *text > '9' || sscanf(text, "%u/%u%c", &rank, &size, &more) != 2 ||
	    rank >= size)
		return -1;
	return parse_text(text, out, TW_SETTING_STR_MAX);
}

static int parse_PORT(const char *text, uint32_t *out)
{
	return parse_UINT(text, out) < 0 || *out == 0 || *out > 65535 - 8192 ? -1 : 0;
}

static int parse_BOOL(const char *text, bool *out)
{
	if ((text[0] != '0' && text[0] != '1') || text[1])
		return -1;
	*out = text[0] == '1';
	return 0;
}

/* The parsers take what their type decays to: an array or the address of it. */
#define PLACE_STR(x) (x)
#define PLACE_LIST(x) (x)
#define PLACE_PATH(x) (x)
#define PLACE_RANK(x) (x)
#define PLACE_PORT(x) (&(x))
#define PLACE_UINT(x) (&(x))
#define PLACE_BOOL(x) (&(x))

static int out_of_range(const struct tw_settings *s)
{
	bool slots = s->ring_slots < 64 || s->ring_slots > 65536 ||
		     (s->ring_slots & (s->ring_slots - 1));
	bool bytes = s->ring_bytes < 65536 || s->ring_bytes > 16777216 ||
		     (s->ring_bytes & (s->ring_bytes - 1));
	bool rndv = strcmp(s->rndv, "auto") && strcmp(s->rndv, "push") && strcmp(s->rndv, "pull") &&
		    strcmp(s->rndv, "split");
	bool rmem = strcmp(s->rmem, "auto") && strcmp(s->rmem, "direct") && strcmp(s->rmem, "vm") &&
		    strcmp(s->rmem, "served") && strcmp(s->rmem, "network");

	return slots || bytes || rndv || rmem || s->retry < 100;
}

int tw_settings_load(char *err, unsigned errlen)
{
	struct tw_settings s = defaults;
	const char *text;

#define TW_SETTING(ident, env, type, dflt, desc)                                                   \
	/* A file name is nothing to take from somebody with less rights. */                       \
	text = sizeof(s.ident) == TW_SETTING_PATH_MAX ? secure_getenv(env) : getenv(env);          \
	if (text && parse_##type(text, PLACE_##type(s.ident)) < 0) {                               \
		snprintf(err, errlen, "%s=%s is not a valid value", env, text);                    \
		goto bad;                                                                          \
	}
#include "base/settings.def"
#undef TW_SETTING
	if (out_of_range(&s)) {
		snprintf(err, errlen,
			 "TAGWIRE_RING_SLOTS, TAGWIRE_RING_BYTES, TAGWIRE_RNDV, TAGWIRE_RMEM "
			 "or TAGWIRE_RETRY is out of range");
		goto bad;
	}
	tw_settings = s;
	return 0;
bad:
	tw_settings = defaults;
	return -1;
}
