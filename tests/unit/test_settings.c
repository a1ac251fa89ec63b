/* SPDX-License-Identifier: BSD-2-Clause */
/* The environment, good and bad. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/settings.h"
#include "lib/twt.h"

static char err[320];

static void clean(void)
{
#define TW_SETTING(ident, env, type, dflt, limits, text) unsetenv(env);
#include "base/settings.def"
#undef TW_SETTING
}

TestSuite(settings, .init = clean, .timeout = TWT_TIMEOUT);

static bool same_STR(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

static bool same_TRUST(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

static bool same_PATH(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

static bool same_UINT(uint32_t a, uint32_t b)
{
	return a == b;
}

static bool same_SIZE(uint32_t a, uint32_t b)
{
	return a == b;
}

static bool same_LIST(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

static bool same_RANK(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

static bool same_PORTS(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

static bool same_NODES(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

static bool same_BOOL(bool a, bool b)
{
	return a == b;
}

/* How many settings are not what the table says. */
static unsigned changed(void)
{
	unsigned n = 0;

#define TW_SETTING(ident, env, type, dflt, limits, text) n += !same_##type(tw_settings.ident, dflt);
#include "base/settings.def"
#undef TW_SETTING
	return n;
}

static bool load_with(const char *name, const char *value)
{
	unsigned at = 0;

	setenv(name, value, 1);
	err[0] = '\0';
	tw_settings_invalid(&at, err, sizeof(err));
	return tw_settings_load();
}

static void good(const char *name, const char *value)
{
	cr_assert(load_with(name, value), "%s=%s: %s", name, value, err);
}

/* The message tells which, and nothing of the rest is taken over. */
static void bad(const char *name, const char *value)
{
	setenv("TAGWIRE_SPIN_US", "77", 0);
	cr_assert_not(load_with(name, value), "%s=%s is good", name, value);
	cr_assert_not_null(strstr(err, name), "%s", err);
	cr_assert_eq(changed(), 0u, "%s=%s", name, value);
}

/* The message names the setting, its limits, and the word that was probably meant. */
static void says(const char *name, const char *value, const char *limits, const char *meant)
{
	bad(name, value);
	cr_assert_not_null(strstr(err, limits), "%s", err);
	cr_assert_not_null(strstr(err, meant), "%s", err);
	clean();
}

Test(settings, defaults)
{
	cr_assert_eq(changed(), 0u, "before anything is read");
	memset(&tw_settings, 0xa5, sizeof(tw_settings));
	cr_assert(tw_settings_load());
	cr_assert_eq(changed(), 0u);
	cr_assert_str_eq(tw_settings.job, "");
	cr_assert_str_eq(tw_settings.providers, "self,shm,verbs,ofi,tcp");
	cr_assert(tw_settings.service);
	cr_assert_not(tw_settings.single_threaded);
	cr_assert_eq(tw_settings.eager_max, 196608u);
}

/* Some settings are one of a few words. */
static const char *sample(const char *env)
{
	return strcmp(env, "TAGWIRE_RMEM") == 0	       ? "vm"
	       : strcmp(env, "TAGWIRE_AUTH") == 0      ? "munge"
	       : strcmp(env, "TAGWIRE_PROVIDERS") == 0 ? "tcp,shm"
						       : "copy";
}

/* Values that are valid for every setting of the type, and no default. */
#define SAMPLE_BOOL(dflt) ((dflt) ? "0" : "1")
#define TEXT_STR(env, dflt) sample(env)
#define TEXT_TRUST(env, dflt) sample(env)
#define TEXT_PATH(env, dflt) "/some/where"
#define TEXT_LIST(env, dflt) sample(env)
#define TEXT_RANK(env, dflt) "1/3"
#define TEXT_PORTS(env, dflt) "30000-30999"
#define TEXT_NODES(env, dflt) "0-3=alpha,5=beta"
/* The range of the log's level ends at 4; others begin at 100 or end at 51968. */
#define TEXT_UINT(env, dflt) (strcmp(env, "TAGWIRE_LOG") == 0 ? "3" : "40000")
#define TEXT_SIZE(env, dflt) "64k"
#define TEXT_BOOL(env, dflt) SAMPLE_BOOL(dflt)
#define VALUE_STR(env, dflt) sample(env)
#define VALUE_TRUST(env, dflt) sample(env)
#define VALUE_PATH(env, dflt) "/some/where"
#define VALUE_LIST(env, dflt) sample(env)
#define VALUE_RANK(env, dflt) "1/3"
#define VALUE_PORTS(env, dflt) "30000-30999"
#define VALUE_NODES(env, dflt) "0-3=alpha,5=beta"
#define VALUE_UINT(env, dflt) (strcmp(env, "TAGWIRE_LOG") == 0 ? 3u : 40000u)
#define VALUE_SIZE(env, dflt) 65536u
#define VALUE_BOOL(env, dflt) !(dflt)

Test(settings, each_one_is_read)
{
	unsigned n = 0;

#define TW_SETTING(ident, env, type, dflt, limits, text)                                           \
	clean();                                                                                   \
	good(env, TEXT_##type(env, dflt));                                                         \
	cr_assert(same_##type(tw_settings.ident, VALUE_##type(env, dflt)), env);                   \
	cr_assert_eq(changed(), 1u, env);                                                          \
	n++;
#include "base/settings.def"
#undef TW_SETTING
	cr_assert_geq(n, 12u);
}

struct number {
	char text[24];
	bool ok;
	uint32_t value;
};

static struct number numbers[] = {
	{"0", true, 0},
	{"42", true, 42},
	{"0x10", true, 16},
	{"4294967295", true, UINT32_MAX},
	{"0k", true, 0},
	{"1k", true, 1024},
	{"1K", true, 1024},
	{"3m", true, 3u << 20},
	{"3M", true, 3u << 20},
	{"1g", true, 1u << 30},
	{"3G", true, 3u << 30},
	{"4194303k", true, 4194303u << 10},
	{"0x10k", true, 16384},
	{"4g", false, 0},
	{"4096m", false, 0},
	{"4194304k", false, 0},
	{"4294967295g", false, 0},
	{"4294967296", false, 0},
	{"18446744073709551616", false, 0},
	{"18446744073709551616k", false, 0},
	{"-1", false, 0},
	{"+1", false, 0},
	{" 1", false, 0},
	{"1 ", false, 0},
	{"", false, 0},
	{"k", false, 0},
	{"1kk", false, 0},
	{"1kb", false, 0},
	{"1t", false, 0},
	{"1+", false, 0},
	{"1.5", false, 0},
	{"08", false, 0},
	{"0x", false, 0},
	{"many", false, 0},
};

ParameterizedTestParameters(settings, number)
{
	return cr_make_param_array(struct number, numbers, tw_countof(numbers));
}

ParameterizedTest(struct number *n, settings, number)
{
	if (!n->ok) {
		bad("TAGWIRE_EAGER_MAX", n->text);
		return;
	}
	good("TAGWIRE_EAGER_MAX", n->text);
	cr_assert_eq(tw_settings.eager_max, n->value, "%s is %u", n->text, tw_settings.eager_max);
}

Test(settings, flags)
{
	static const char *const wrong[] = {"", "2", "00", "01", "10", "1 ", "yes", "true", "-1"};

	good("TAGWIRE_SERVICE", "0");
	cr_assert_not(tw_settings.service);
	good("TAGWIRE_SERVICE", "1");
	cr_assert(tw_settings.service);
	for (unsigned i = 0; i < tw_countof(wrong); i++)
		bad("TAGWIRE_SERVICE", wrong[i]);
}

Test(settings, ports)
{
	static const char *const wrong[] = {"0",     "0-9",	   "9-8",
					    "9-",    "-9",	   "1-65536",
					    "65536", "1-2-3",	   "1,2",
					    "a-b",   "1 - 2",	   " 1-2",
					    "1-2 ",  "4294967297", "1-99999999999999999999"};
	struct tw_ports p;

	good("TAGWIRE_DATA_PORTS", "30000-30999");
	cr_assert(tw_ports_parse(tw_settings.data_ports, &p));
	cr_assert(p.first == 30000 && p.last == 30999, "%u-%u", p.first, p.last);
	good("TAGWIRE_DATA_PORTS", "65535");
	cr_assert(tw_ports_parse(tw_settings.data_ports, &p));
	cr_assert(p.first == 65535 && p.last == 65535, "%u-%u", p.first, p.last);
	good("TAGWIRE_DATA_PORTS", "");
	cr_assert(tw_ports_parse(tw_settings.data_ports, &p));
	cr_assert(p.first == 0 && p.last == 0, "%u-%u", p.first, p.last);
	for (unsigned i = 0; i < tw_countof(wrong); i++)
		bad("TAGWIRE_DATA_PORTS", wrong[i]);
	says("TAGWIRE_DATA_PORTS", "30999-30000", "like 30000-30999", "");
}

Test(settings, words)
{
	static const char *const wrong[] = {"a b", " a", "a\t", "a\n", "a/b", "/"};
	char word[TW_SETTING_STR_MAX + 1];

	memset(word, 'x', sizeof(word));
	word[TW_SETTING_STR_MAX - 1] = '\0';
	good("TAGWIRE_JOB", word);
	cr_assert_str_eq(tw_settings.job, word);
	good("TAGWIRE_JOB", "");
	cr_assert_str_eq(tw_settings.job, "");
	word[TW_SETTING_STR_MAX - 1] = 'x';
	word[TW_SETTING_STR_MAX] = '\0';
	bad("TAGWIRE_JOB", word);
	for (unsigned i = 0; i < tw_countof(wrong); i++)
		bad("TAGWIRE_JOB", wrong[i]);
}

Test(settings, ranges)
{
	static const char *const slots[] = {"0", "1", "32", "63", "65", "96", "128k", "65535"};
	static const char *const bytes[] = {"0", "32k", "65535", "65537", "96k", "32m", "3g"};
	static const char *const ways[] = {"", "Copy", "copying", "pull", "auto,copy"};

	good("TAGWIRE_RING_SLOTS", "64");
	cr_assert_eq(tw_settings.ring_slots, 64u);
	good("TAGWIRE_RING_SLOTS", "65536");
	for (unsigned i = 0; i < tw_countof(slots); i++)
		bad("TAGWIRE_RING_SLOTS", slots[i]);
	clean();
	good("TAGWIRE_RING_BYTES", "64k");
	good("TAGWIRE_RING_BYTES", "16m");
	cr_assert_eq(tw_settings.ring_bytes, 16u << 20);
	for (unsigned i = 0; i < tw_countof(bytes); i++)
		bad("TAGWIRE_RING_BYTES", bytes[i]);
	clean();
	good("TAGWIRE_PROVIDERS", "tcp");
	good("TAGWIRE_PROVIDERS", "");
	cr_assert_str_eq(tw_settings.providers, "self,shm,verbs,ofi,tcp");
	clean();
	good("TAGWIRE_RNDV", "copy");
	good("TAGWIRE_RNDV", "get");
	good("TAGWIRE_RNDV", "auto");
	for (unsigned i = 0; i < tw_countof(ways); i++)
		bad("TAGWIRE_RNDV", ways[i]);
}

Test(settings, limits_are_named)
{
	says("TAGWIRE_PROVIDERS", "self,smh", "one of: self shm verbs ofi tcp", "perhaps shm for smh");
	says("TAGWIRE_PROVIDERS", "self tcp", "one of: self shm verbs ofi tcp", "");
	says("TAGWIRE_RNDV", "cop", "one of: auto copy get", "perhaps copy");
	says("TAGWIRE_RMEM", "servd", "served", "perhaps served");
	says("TAGWIRE_AUTH", "munged", "key munge none", "perhaps munge");
	/* No advice to do without. */
	says("TAGWIRE_AUTH", "foo", "key munge none; see", "");
	says("TAGWIRE_LOG", "9", "from 0 to 4", "");
	says("TAGWIRE_RETRY", "99", "from 100", "");
	says("TAGWIRE_RING_SLOTS", "96", "from 64 to 65536, a power of two", "");
	good("TAGWIRE_PROVIDERS", "tcp,,self");
	good("TAGWIRE_PROVIDERS", "");
	good("TAGWIRE_LOG", "0");
}

/* Names like those of settings, which nobody reads. */
Test(settings, strangers)
{
	unsigned at = 0;

	cr_assert_not(tw_settings_stranger(&at, err, sizeof(err)), "%s", err);
	setenv("TAGWIRE_EAGER_MAX", "1", 1);
	setenv("TAGWIRE_EAGERMAX", "1", 1);
	setenv("TAGWIRE_COLOUR_OF_THE_SKY", "blue", 1);
	setenv("TAGWIRX_LOG", "1", 1);
	at = 0;
	for (unsigned n = 0; tw_settings_stranger(&at, err, sizeof(err)); n++) {
		bool far = strstr(err, "TAGWIRE_COLOUR_OF_THE_SKY") != NULL;

		cr_assert(n < 2 && (far || strstr(err, "TAGWIRE_EAGERMAX")), "%s", err);
		cr_assert_eq(strstr(err, "perhaps") == NULL, far, "%s", err);
		cr_assert(far || strstr(err, " TAGWIRE_EAGER_MAX"), "%s", err);
	}
	unsetenv("TAGWIRE_EAGERMAX");
	unsetenv("TAGWIRE_COLOUR_OF_THE_SKY");
	at = 0;
	cr_assert_not(tw_settings_stranger(&at, err, sizeof(err)), "%s", err);
}

/* The settings of an earlier, good environment do not survive a bad one. */
Test(settings, bad_after_good)
{
	good("TAGWIRE_SPIN_US", "123");
	good("TAGWIRE_JOB", "mine");
	cr_assert_eq(changed(), 2u);
	bad("TAGWIRE_LOG", "loud");
	unsetenv("TAGWIRE_LOG");
	cr_assert(tw_settings_load());
	cr_assert_eq(changed(), 2u);
}

/* Each invalid value has its message, in the order of the table; good ones have none. */
Test(settings, all_that_are_invalid)
{
	unsigned at = 0;

	cr_assert_not(tw_settings_invalid(&at, err, sizeof(err)), "%s", err);
	setenv("TAGWIRE_RNDV", "pul", 1);
	setenv("TAGWIRE_JOB", "mine", 1);
	setenv("TAGWIRE_RETRY", "1", 1);
	cr_assert(tw_settings_invalid(&at, err, sizeof(err)));
	cr_assert_not_null(strstr(err, "TAGWIRE_RETRY=1 "), "%s", err);
	cr_assert(tw_settings_invalid(&at, err, sizeof(err)));
	cr_assert_not_null(strstr(err, "TAGWIRE_RNDV=pul "), "%s", err);
	cr_assert_not(tw_settings_invalid(&at, err, sizeof(err)), "%s", err);
}

Test(settings, short_message_buffer)
{
	char small[8];
	unsigned at = 0;

	memset(small, '#', sizeof(small));
	setenv("TAGWIRE_LOG", "loud", 1);
	cr_assert(tw_settings_invalid(&at, small, 4));
	cr_assert_eq(memcmp(small, "TAG\0####", 8), 0);
}

/* An interface that begins beside another one finds the settings of that one. */
Test(settings, stay_while_they_are_used)
{
	setenv("TAGWIRE_EAGER_MAX", "4096", 1);
	cr_assert(tw_settings_begin());
	setenv("TAGWIRE_EAGER_MAX", "8192", 1);
	cr_assert(tw_settings_begin());
	cr_assert_eq(tw_settings.eager_max, 4096u);
	tw_settings_end();
	tw_settings_end();
	cr_assert(tw_settings_begin());
	cr_assert_eq(tw_settings.eager_max, 8192u);
	tw_settings_end();
}
