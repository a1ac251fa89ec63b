/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/module.h"

#include <dlfcn.h>
#include <stdio.h>

#include "base/report.h"
#include "base/settings.h"
#include "base/sys.h"
#include "base/thread.h"

#define PATH_SIZE (TW_SETTING_PATH_MAX + 64)

static void path_of(const char *name, char path[PATH_SIZE])
{
	const char *dir = *tw_settings.modules ? tw_settings.modules : TW_MODULE_DIR;

	snprintf(path, PATH_SIZE, "%s/tagwire_%s.so", dir, name);
}

bool tw_module_installed(const char *name)
{
	char path[PATH_SIZE];

	snprintf(path, sizeof(path), "%s/.", tw_settings.modules);
	if (*tw_settings.modules && !tw_sys_readable(path)) {
		snprintf(path, sizeof(path), "TAGWIRE_MODULES=%s", tw_settings.modules);
		tw_report(TW_LOG_ERROR, path, "it is no directory that can be read",
			  "it names the directory of tagwire_tcp.so and others");
	}
	path_of(name, path);
	return tw_sys_readable(path);
}

const void *tw_module_load(const char *name, const char *symbol, uint32_t version, char *why,
			   unsigned len)
{
	TW_NOT_CANCELLED;
	char path[PATH_SIZE];
	const uint32_t *found;
	void *module;

	path_of(name, path);
	module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!module) {
		snprintf(why, len, "%s", dlerror());
		return NULL;
	}
	found = dlsym(module, symbol);
	if (found && *found == version)
		return found;
	snprintf(why, len, "%s is of another version of Tagwire", path);
	dlclose(module);
	return NULL;
}
