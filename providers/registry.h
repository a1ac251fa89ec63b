/* SPDX-License-Identifier: BSD-2-Clause */
/* The providers there are, by name. */
#ifndef TW_REGISTRY_H
#define TW_REGISTRY_H

#include "providers/provider.h"

#define TW_MAX_PROVIDERS 4

/* Fills in the providers of a comma-separated list; how many, unknown names left out. */
unsigned tw_provider_list(const char *names, const struct tw_provider *out[TW_MAX_PROVIDERS]);

#endif /* TW_REGISTRY_H */
