/* SPDX-License-Identifier: BSD-2-Clause */
/* The available providers, by name. */
#ifndef TW_REGISTRY_H
#define TW_REGISTRY_H

#include "providers/provider.h"

#define TW_MAX_PROVIDERS 4

/* Fills in the providers of a comma-separated list. Skips unknown names. Returns the number. */
unsigned tw_provider_list(const char *names, const struct tw_provider *out[TW_MAX_PROVIDERS]);

/*
 * The provider that has a driver of this name; it keeps the drivers in order (drivers.c).
 * NULL in a build without net providers, where the library leaves the net provider out.
 */
extern const struct tw_provider *(*tw_provider_of_driver)(const char *name, size_t len);

#endif /* TW_REGISTRY_H */
