/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/module.h"

#include <dlfcn.h>
#include <stdio.h>

#include "base/settings.h"

const void *tw_module_load(const char *name, const char *symbol, uint32_t version, char *why,
			   unsigned len)
{
	const char *dir = *tw_settings.modules ? tw_settings.modules : TW_MODULE_DIR;
	char path[TW_SETTING_PATH_MAX + 64];
	const uint32_t *found;
	void *module;

	snprintf(path, sizeof(path), "%s/tagwire_%s.so", dir, name);
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
