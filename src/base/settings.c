/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

#define TW_SETTING(ident, env, type, dflt, limits, text) .ident = dflt,
struct tw_settings tw_settings = {
#include "base/settings.def"
};
#undef TW_SETTING

#define DEFAULT_STR(x) x
#define DEFAULT_TRUST(x) x
#define DEFAULT_LIST(x) x
#define DEFAULT_NODES(x) x
#define DEFAULT_PATH(x) x
#define DEFAULT_RANK(x) x
#define DEFAULT_PORTS(x) x
#define DEFAULT_UINT(x) #x
#define DEFAULT_SIZE(x) #x
#define DEFAULT_BOOL(x) #x
enum type { STR, TRUST, LIST, NODES, PATH, UINT, SIZE, RANK, PORTS, BOOL };

static const struct setting {
	const char *name, *dflt, *limits;
	enum type type;
	size_t at; /* in struct tw_settings */
} table[] = {
#define TW_SETTING(ident, env, type, dflt, limits, text)                                           \
	{env, DEFAULT_##type(dflt), limits, type, offsetof(struct tw_settings, ident)},
#include "base/settings.def"
#undef TW_SETTING
};

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

static int parse_number(const char *text, bool units, uint32_t *out)
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
	shift = units ? shift_of(*end) : 0;
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

static int parse_bool(const char *text, bool *out)
{
	if ((text[0] != '0' && text[0] != '1') || text[1])
		return -1;
	*out = text[0] == '1';
	return 0;
}

/* N=HOST or N-M=HOST */
static int parse_range(const char *text, size_t len, struct tw_nodes *out)
{
	char *end;
	size_t n;

	if (*text < '0' || *text > '9')
		return -1;
	out->first = out->last = strtoul(text, &end, 10);
	if (*end == '-' && end[1] >= '0' && end[1] <= '9')
		out->last = strtoul(end + 1, &end, 10);
	if (*end != '=' || out->first > out->last || out->last >= TW_NODES_MOST)
		return -1;
	end++;
	n = len - (size_t)(end - text);
	if (!n || n >= sizeof(out->host) || memchr(end, '=', n))
		return -1;
	memcpy(out->host, end, n);
	out->host[n] = '\0';
	return 1;
}

int tw_nodes_next(const char **text, struct tw_nodes *out)
{
	size_t len;

	for (const char *word; (word = tw_name_next(text, &len));)
		if (len)
			return parse_range(word, len, out);
	return 0;
}

/* Whether a range before `rest' has one of these numbers, too. */
static bool nodes_overlap(const char *text, const char *rest, const struct tw_nodes *nodes)
{
	struct tw_nodes before;

	while (tw_nodes_next(&text, &before) > 0 && text < rest)
		if (before.first <= nodes->last && nodes->first <= before.last)
			return true;
	return false;
}

static int parse_nodes(const char *text, char *out)
{
	const char *rest = text;
	struct tw_nodes nodes;
	int found;

	while ((found = tw_nodes_next(&rest, &nodes)) > 0)
		if (nodes_overlap(text, rest, &nodes))
			return -1;
	return found < 0 ? found : parse_word(text, out, TW_SETTING_LIST_MAX);
}

static int setting_parse(enum type type, const char *text, void *out)
{
	struct tw_ports ports;

	switch (type) {
	case STR:
	case TRUST:
		return parse_word(text, out, TW_SETTING_STR_MAX);
	case LIST:
		return parse_word(text, out, TW_SETTING_LIST_MAX);
	case NODES:
		return parse_nodes(text, out);
	case PATH:
		return parse_text(text, out, TW_SETTING_PATH_MAX);
	case UINT:
	case SIZE:
		return parse_number(text, type == SIZE, out);
	case RANK:
		return parse_rank(text, out);
	case PORTS:
		return tw_ports_parse(text, &ports) ? parse_word(text, out, TW_SETTING_STR_MAX)
						    : -1;
	default:
		return parse_bool(text, out);
	}
}

/* Limits, as settings.def has them -------------------------------------------------- */

#define ONE_OF "one of: "

static bool is_one_of(const char *words, const char *word, size_t len)
{
	for (size_t n; *words; words += n + (words[n] == ' ')) {
		n = strcspn(words, " ");
		if (n == len && memcmp(words, word, len) == 0)
			return true;
	}
	return false;
}

/* Every word of a list must be one of them, and a word that is no list as a whole. */
static bool words_fit(enum type type, const char *words, const char *text)
{
	size_t len;

	if (type != LIST)
		return is_one_of(words, text, strlen(text));
	for (const char *word; (word = tw_name_next(&text, &len));)
		if (len && !is_one_of(words, word, len))
			return false;
	return true;
}

static bool number_fits(const char *limits, uint32_t n)
{
	char *end;
	unsigned long least = strtoul(limits + strlen("from "), &end, 10), most = UINT32_MAX;

	if (strncmp(end, " to ", 4) == 0)
		most = strtoul(end + 4, &end, 10);
	return n >= least && n <= most && (!*end || (n & (n - 1)) == 0);
}

static bool setting_fits(enum type type, const char *limits, const void *value)
{
	if (!*limits || type == BOOL)
		return true;
	if (type == UINT || type == SIZE)
		return number_fits(limits, *(const uint32_t *)value);
	return words_fit(type, limits + strlen(ONE_OF), value);
}

/* The environment and the defaults ------------------------------------------------- */

#define VARIABLE_MAX 64

const char *tw_settings_prefix;

static const char *variable(const char *name, enum type type)
{
	/* A privileged program must not take these from its user. */
	return type == PATH || type == TRUST ? secure_getenv(name) : getenv(name);
}

/* The value of a setting in the environment, or NULL, and the variable that has it. */
static const char *from_environment(const char *name, enum type type, char used[VARIABLE_MAX])
{
	const char *text = variable(name, type);

	snprintf(used, VARIABLE_MAX, "%s", name);
	if (text || !tw_settings_prefix)
		return text;
	snprintf(used, VARIABLE_MAX, "%s%s", tw_settings_prefix, name);
	return variable(used, type);
}

/*
 * The job is the launcher's, if nobody says otherwise. The end of its name counts, where numbers
 * are that tell jobs apart.
 */
static void setting_join_launcher(struct tw_settings *s)
{
	const char *name = getenv("PMIX_NAMESPACE");
	size_t len = name ? strlen(name) : 0;
	char used[VARIABLE_MAX];

	if (len >= sizeof(s->job))
		name += len - (sizeof(s->job) - 1);
	if (len && !from_environment("TAGWIRE_JOB", STR, used))
		parse_word(name, s->job, sizeof(s->job));
}

/* False: the environment's value is invalid. */
static bool setting_read(const struct setting *r, bool environment, struct tw_settings *s)
{
	char used[VARIABLE_MAX];
	enum type type = r->type;
	const char *text = environment ? from_environment(r->name, type, used) : NULL;
	void *value = (char *)s + r->at;

	/* No list of the library is of use without a word. */
	if (text && !*text && (type == LIST || type == NODES))
		text = NULL;
	/* An absent rank is empty, and parse_rank() rejects that. */
	if (!text && type == RANK)
		type = STR;
	return setting_parse(type, text ? text : r->dflt, value) == 0 &&
	       setting_fits(type, r->limits, value);
}

/* Names that are nearly those that there are ------------------------------------------ */

#define NEAR 3u /* letters to change, add, leave out, or exchange with the next one */

/* How many of them make one word the other; NEAR + 1: more. */
static unsigned setting_distance(const char *a, size_t alen, const char *b, size_t blen)
{
	uint8_t d[TW_SETTING_STR_MAX + 1][TW_SETTING_STR_MAX + 1];

	if (alen > TW_SETTING_STR_MAX || blen > TW_SETTING_STR_MAX)
		return NEAR + 1;
	for (size_t i = 0; i <= alen; i++) {
		for (size_t j = 0; j <= blen; j++) {
			uint8_t *least = &d[i][j];

			*least = (uint8_t)(i ? i : j);
			if (!i || !j)
				continue;
			*least = (uint8_t)tw_min(tw_min(d[i - 1][j], d[i][j - 1]) + 1,
						 d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				*least = (uint8_t)tw_min(*least, d[i - 2][j - 2] + 1);
		}
	}
	return tw_min(d[alen][blen], NEAR + 1u);
}

/* The name of the setting that is nearest, or NULL. */
static const char *nearest_name(const char *text, size_t len)
{
	const char *best = NULL;
	/* A short name is near to many. */
	unsigned least = tw_min(NEAR, (unsigned)(len - strlen("TAGWIRE_")) / 3) + 1;

	for (unsigned i = 0; i < tw_countof(table); i++) {
		unsigned d = setting_distance(text, len, table[i].name, strlen(table[i].name));

		if (d < least) {
			least = d;
			best = table[i].name;
		}
	}
	return best;
}

/* The advice "; perhaps WORD for THAT", of the word and the part of the text that are nearest. */
static void nearest_word(const char *words, const char *text, char *out, size_t size)
{
	unsigned least = NEAR + 1, d;
	size_t n, len;

	*out = '\0';
	for (const char *word; (word = tw_name_next(&text, &len));) {
		if (is_one_of(words, word, len))
			continue;
		for (const char *w = words; *w; w += n + (w[n] == ' ')) {
			n = strcspn(w, " ");
			d = setting_distance(word, len, w, n);
			if (d >= least || 3 * d > 2 * n)
				continue;
			least = d;
			snprintf(out, size, "; perhaps %.*s for %.*s", (int)n, w, (int)len, word);
		}
	}
}

static const char *without_prefix(const char *text)
{
	size_t len = tw_settings_prefix ? strlen(tw_settings_prefix) : 0;

	return len && strncmp(text, tw_settings_prefix, len) == 0 ? text + len : text;
}

/* By the name that no program may define (tests/checks/imports). */
extern char **__environ;

bool tw_settings_stranger(unsigned *at, char *out, unsigned size)
{
	for (; __environ && __environ[*at]; ++*at) {
		const char *text = __environ[*at], *bare = without_prefix(text), *name;
		size_t len = strcspn(bare, "=");

		if (strncmp(bare, "TAGWIRE_", 8) != 0)
			continue;
		name = nearest_name(bare, len);
		if (name && strlen(name) == len && memcmp(name, bare, len) == 0)
			continue;
		snprintf(out, size,
			 "%.*s is no setting, and is ignored%s%.*s%s; see tagwire-settings(7)",
			 (int)tw_min(strcspn(text, "="), (size_t)VARIABLE_MAX), text,
			 name ? ": perhaps it should be " : "", name ? (int)(bare - text) : 0, text,
			 name ? name : "");
		++*at;
		return true;
	}
	return false;
}

static void setting_explain(const struct setting *r, char *out, unsigned size)
{
	static const char *const forms[] = {
		[STR] = "a word of less than 64 bytes, without / and spaces",
		[TRUST] = "a word of less than 64 bytes, without / and spaces",
		[LIST] = "words with commas between them",
		[NODES] = "numbers up to 4095, each once, and hosts, like 0-3=alpha,4-7=beta",
		[PATH] = "a path of less than 512 bytes",
		[RANK] = "a rank and, after a slash, the number of ranks, from 0/2 to 1/2 for two",
		[PORTS] = "the first port and the last, from 1 to 65535, like 30000-30999",
	};
	const char *must = *r->limits ? r->limits : forms[r->type], *text;
	char near[3 * TW_SETTING_STR_MAX] = "", number[128], used[VARIABLE_MAX];

	text = from_environment(r->name, r->type, used);
	if (strncmp(r->limits, ONE_OF, strlen(ONE_OF)) == 0)
		nearest_word(r->limits + strlen(ONE_OF), text, near, sizeof(near));
	if (r->type == UINT || r->type == SIZE) {
		snprintf(number, sizeof(number), "a number %s%s%s", r->limits,
			 strstr(r->limits, " to ") ? "" : " to 4294967295",
			 r->type == SIZE ? "; k, m or g may follow it" : "");
		must = number;
	}
	snprintf(out, size,
		 "%s=%.64s is not a valid value: it must be %s%s; see tagwire-settings(7)", used,
		 text, must, near);
}

/* Reads the settings from number *at on. The one that is invalid, or NULL; *at: the next. */
static const struct setting *settings_read(unsigned *at, bool environment, struct tw_settings *s)
{
	for (unsigned i = *at; i < tw_countof(table); i++)
		if (!setting_read(&table[i], environment, s)) {
			*at = i + 1;
			return &table[i];
		}
	return NULL;
}

bool tw_settings_invalid(unsigned *at, char *out, unsigned size)
{
	struct tw_settings s;
	const struct setting *bad = settings_read(at, true, &s);

	if (bad)
		setting_explain(bad, out, size);
	return bad;
}

bool tw_settings_load(void)
{
	struct tw_settings s = {0};
	bool good = !settings_read(&(unsigned){0}, true, &s);

	if (good)
		setting_join_launcher(&s);
	else
		settings_read(&(unsigned){0}, false, &s);
	tw_settings = s;
	return good;
}
