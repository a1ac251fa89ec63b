/* SPDX-License-Identifier: BSD-2-Clause */
/* Drivers: found by name, loaded once, never unloaded. */
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/lock.h"
#include "base/module.h"
#include "base/report.h"
#include "base/settings.h"
#include "base/sys.h"
#include "base/thread.h"
#include "providers/net/session.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/* The drivers that can be installed. */
static struct known {
	const char *name;
	const char *devices;   /* how the path of a device it needs begins; NULL: none */
	bool runs_environment; /* its library loads or writes what the environment names */
	bool encrypts;	       /* its paths, by TLS */
	const struct tw_driver *driver;
	char why[256]; /* it could not be loaded; "": it was not tried */
} known[2 * TW_NET_DRIVERS] = {
	{.name = "verbs", .devices = "/sys/class/infiniband/", .runs_environment = true},
	{.name = "ofi", .runs_environment = true},
	{.name = "tcp", .encrypts = true},
};
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
TW_MUTEX_OVER_FORK(drivers, &mutex)

static struct known *driver_find(const char *name, size_t len)
{
	for (unsigned i = 0; i < tw_countof(known) && known[i].name; i++)
		if (strlen(known[i].name) == len && memcmp(known[i].name, name, len) == 0)
			return &known[i];
	return NULL;
}

const struct tw_provider *tw_driver_provider(const char *name, size_t len)
{
	return driver_find(name, len) ? &tw_provider_net : NULL;
}

/* Whether there is a file whose path begins so. */
static bool driver_exists(const char *beginning)
{
	const char *name = strrchr(beginning, '/') + 1;
	const struct dirent *e = NULL;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "%.*s", (int)(name - beginning), beginning);
	dir = opendir(path);
	if (!dir)
		return false;
	while ((e = readdir(dir)) &&
	       (e->d_name[0] == '.' || strncmp(e->d_name, name, strlen(name)) != 0))
		;
	closedir(dir);
	return e != NULL;
}

/* Why it must not be used, NULL: it may. A privileged program runs no code that its user names. */
static const char *bar(const struct known *k)
{
	if (k->runs_environment && tw_sys_privileged())
		return "not for a program with more rights than its user";
	if (!tw_settings.encrypt)
		return NULL;
	if (!k->encrypts)
		return "TAGWIRE_ENCRYPT=1 is set, and it cannot encrypt";
	if (strcmp(tw_settings.auth, "none") == 0)
		return "TAGWIRE_ENCRYPT=1 needs TAGWIRE_AUTH=key or munge";
	return NULL;
}

/* A library without devices takes memory and may complain on standard error. */
static bool of_use(const struct known *k)
{
	return !bar(k) && (!k->devices || driver_exists(k->devices));
}

static void driver_load(struct known *k)
{
	char symbol[64];

	snprintf(symbol, sizeof(symbol), "tw_driver_%s", k->name);
	k->driver = tw_module_load(k->name, symbol, TW_DRIVER_VERSION, k->why, sizeof(k->why));
	if (!k->driver)
		tw_log(TW_LOG_INFO, "no %s: %s", k->name, k->why);
}

bool tw_driver_usable(const struct tw_driver *driver)
{
	const struct known *k = driver_find(driver->name, strlen(driver->name));

	return !k || of_use(k);
}

bool tw_driver_any(const char *names)
{
	bool any = false;
	size_t len;

	tw_mutex_lock(&mutex);
	for (const char *name; !any && (name = tw_name_next(&names, &len));) {
		const struct known *k = driver_find(name, len);

		any = k && !bar(k) && (k->driver || (!*k->why && tw_module_installed(k->name)));
	}
	tw_mutex_unlock(&mutex);
	return any;
}

/*
 * Whether loading libfabric, which takes 0.1 s, would only show that it has nothing
 * faster than our own tcp: tcp may be used, TAGWIRE_OFI names nothing, and no device
 * is there that needs libfabric (Slingshot; Omni-Path and EFA are RDMA devices).
 */
static bool lacks_devices(const struct known *k, const char *names)
{
	static const char *const devices[] = {"/sys/class/infiniband/", "/sys/class/cxi/",
					      "/dev/cxi", "/dev/hfi1"};
	bool any = false;

	if (strcmp(k->name, "ofi") != 0 || *tw_settings.ofi || !tw_names_have(names, "tcp") ||
	    !tw_module_installed("tcp"))
		return false;
	for (unsigned i = 0; i < tw_countof(devices) && !any; i++)
		any = driver_exists(devices[i]);
	return !any;
}

unsigned tw_driver_list(const char *names, const struct tw_driver *out[TW_NET_DRIVERS])
{
	const char *all = names, *name;
	unsigned n = 0;
	size_t len;

	tw_mutex_lock(&mutex);
	while (n < TW_NET_DRIVERS && (name = tw_name_next(&names, &len))) {
		struct known *k = driver_find(name, len);

		if (k && !k->driver && !*k->why && of_use(k) && !lacks_devices(k, all))
			driver_load(k);
		if (k && k->driver && !bar(k))
			out[n++] = k->driver;
	}
	tw_mutex_unlock(&mutex);
	return n;
}

/* Under the mutex. k: NULL if there is no such driver. */
static void driver_why_not(const struct known *k, char *why, unsigned len)
{
	if (!k || !tw_module_installed(k->name))
		snprintf(why, len, "not installed");
	else if (bar(k))
		snprintf(why, len, "%s", bar(k));
	else if (!of_use(k))
		snprintf(why, len, "no device in %s", k->devices);
	else if (*k->why)
		snprintf(why, len, "%s", k->why);
	else
		snprintf(why, len, "no device here needs it; TAGWIRE_OFI selects it nevertheless");
}

void tw_driver_why_not(const char *name, char *why, unsigned len)
{
	tw_mutex_lock(&mutex);
	driver_why_not(driver_find(name, strlen(name)), why, len);
	tw_mutex_unlock(&mutex);
}

/* Those without a device say so only if no other is named, as in the default. */
static bool drivers_report(const char *names, bool without_device)
{
	char who[64], why[256];
	bool said = false;
	size_t len;

	for (const char *name; (name = tw_name_next(&names, &len));) {
		const struct known *k = driver_find(name, len);
		bool missing = k && of_use(k) != without_device;

		tw_mutex_lock(&mutex);
		missing = missing && (!k->driver || bar(k));
		if (missing && *k->why)
			snprintf(why, sizeof(why), "%s", k->why);
		else if (missing)
			driver_why_not(k, why, sizeof(why));
		tw_mutex_unlock(&mutex);
		if (!missing)
			continue;
		snprintf(who, sizeof(who), "no %s", k->name);
		tw_report(TW_LOG_ERROR, who, why,
			  !without_device	? "see TAGWIRE_MODULES in tagwire-settings(7)"
			  : tw_settings.encrypt ? "see tagwire-tcp(7)"
						: "see TAGWIRE_PROVIDERS in tagwire-settings(7)");
		said = true;
	}
	return said;
}

void tw_driver_report(const char *names)
{
	if (!drivers_report(names, false))
		drivers_report(names, true);
}

void tw_driver_add(const struct tw_driver *driver)
{
	unsigned i = 0;

	while (i < tw_countof(known) - 1 && known[i].name && strcmp(known[i].name, driver->name))
		i++;
	known[i] = (struct known){.name = driver->name, .driver = driver};
}
