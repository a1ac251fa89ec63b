/* SPDX-License-Identifier: BSD-2-Clause */
#include "providers/registry.h"

#include <string.h>

#include "base/compiler.h"
#include "base/log.h"
#include "providers/net/session.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

extern const struct tw_provider tw_provider_self;
extern const struct tw_provider tw_provider_shm;

static const struct tw_provider *const providers[] = {
	&tw_provider_self,
	&tw_provider_shm,
};

#if TW_HAVE_NET
const struct tw_provider *(*tw_provider_of_driver)(const char *, size_t) = tw_driver_provider;
#else
const struct tw_provider *(*tw_provider_of_driver)(const char *, size_t);
#endif

static const struct tw_provider *registry_find(const char *name, size_t len)
{
	const struct tw_provider *network = tw_provider_of_driver ? tw_provider_of_driver(name, len)
								  : NULL;

	if (network)
		return network;
	for (unsigned i = 0; i < tw_countof(providers); i++)
		if (strncmp(providers[i]->name, name, len) == 0 && !providers[i]->name[len])
			return providers[i];
	return NULL;
}

unsigned tw_provider_list(const char *names, const struct tw_provider *out[TW_MAX_PROVIDERS])
{
	const char *name;
	unsigned n = 0;
	size_t len;

	while (n < TW_MAX_PROVIDERS && (name = tw_name_next(&names, &len))) {
		const struct tw_provider *p = len ? registry_find(name, len) : NULL;
		unsigned i = 0;

		while (i < n && out[i] != p)
			i++;
		if (p && i == n)
			out[n++] = p;
		else if (!p && len)
			tw_log(TW_LOG_WARN, "no provider named %.*s here", (int)len, name);
	}
	return n;
}
