/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loadable modules: tagwire_NAME.so in TAGWIRE_MODULES, or in the directory tagwire beside the
 * library, or else in the installed one.
 */
#ifndef TW_MODULE_H
#define TW_MODULE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Loads a module and finds its structure of this name, which begins with a version. Returns
 * NULL with the reason in why. A module is never unloaded.
 */
const void *tw_module_load(const char *name, const char *symbol, uint32_t version, char *why,
			   unsigned len);
bool tw_module_installed(const char *name);

#endif /* TW_MODULE_H */
