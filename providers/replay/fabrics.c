/* SPDX-License-Identifier: BSD-2-Clause */
/* Modules: found by name, loaded once, never unloaded. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "providers/replay/replay.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/* The names there can be; a module for each may be installed or not. */
static struct known {
	const char *name;
	const struct tw_fabric *fabric;
	bool tried;
} known[2 * TW_RP_FABRICS] = {{.name = "verbs"}, {.name = "ofi"}};
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static struct known *find(const char *name, size_t len)
{
	for (unsigned i = 0; i < tw_countof(known) && known[i].name; i++)
		if (strlen(known[i].name) == len && memcmp(known[i].name, name, len) == 0)
			return &known[i];
	return NULL;
}

bool tw_fabric_named(const char *name, size_t len)
{
	return find(name, len) != NULL;
}

#define PATH_SIZE (TW_SETTING_PATH_MAX + 64)

static void module_path(const struct known *k, char path[PATH_SIZE])
{
	const char *dir = *tw_settings.modules ? tw_settings.modules : TW_MODULE_DIR;

	snprintf(path, PATH_SIZE, "%s/tagwire_%s.so", dir, k->name);
}

static void load(struct known *k)
{
	const struct tw_fabric *f;
	char path[PATH_SIZE], symbol[64];
	void *module;

	k->tried = true;
	module_path(k, path);
	module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!module) {
		tw_log(TW_LOG_INFO, "no %s: %s", k->name, dlerror());
		return;
	}
	snprintf(symbol, sizeof(symbol), "tw_fabric_%s", k->name);
	f = dlsym(module, symbol);
	if (!f || f->version != TW_FABRIC_VERSION) {
		tw_log(TW_LOG_WARN, "%s is of another version of Tagwire", path);
		dlclose(module);
		return;
	}
	k->fabric = f;
}

bool tw_fabric_any(const char *names)
{
	char path[PATH_SIZE];
	bool any = false;

	pthread_mutex_lock(&mutex);
	for (size_t len; *names && !any; names += len + (names[len] == ',')) {
		struct known *k;

		len = strcspn(names, ",");
		k = find(names, len);
		if (k && !k->tried)
			module_path(k, path);
		any = k && (k->fabric || (!k->tried && access(path, R_OK) == 0));
	}
	pthread_mutex_unlock(&mutex);
	return any;
}

unsigned tw_fabric_list(const char *names, const struct tw_fabric *out[TW_RP_FABRICS])
{
	unsigned n = 0;

	pthread_mutex_lock(&mutex);
	while (*names && n < TW_RP_FABRICS) {
		size_t len = strcspn(names, ",");
		struct known *k = find(names, len);

		if (k && !k->fabric && !k->tried)
			load(k);
		if (k && k->fabric)
			out[n++] = k->fabric;
		names += len + (names[len] == ',');
	}
	pthread_mutex_unlock(&mutex);
	return n;
}

void tw_fabric_add(const struct tw_fabric *fabric)
{
	unsigned i = 0;

	while (i < tw_countof(known) - 1 && known[i].name && strcmp(known[i].name, fabric->name))
		i++;
	known[i] = (struct known){fabric->name, fabric, true};
}
