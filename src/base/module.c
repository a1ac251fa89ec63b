/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/module.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/report.h"
#include "base/settings.h"
#include "base/sys.h"
#include "base/thread.h"

#define PATH_SIZE (TW_SETTING_PATH_MAX + 64)

/*
 * Beside the library, which may have been moved since it was configured. Not for a program with
 * more rights, whose starter may choose the library's path (a hard link), and not in a directory
 * that somebody else has made beside it, as in /tmp.
 */
static bool module_beside(const char *name, char path[PATH_SIZE])
{
	const char *base = strrchr(TW_MODULE_DIR, '/'), *slash;
	struct stat library, directory;
	Dl_info us;
	int dir;

	/* A program that has the library inside may be known by a relative name. */
	if (tw_sys_privileged() || !dladdr(&tw_settings, &us) || !us.dli_fname ||
	    *us.dli_fname != '/' || !base)
		return false;
	slash = strrchr(us.dli_fname, '/');
	dir = (int)(slash - us.dli_fname);
	if (snprintf(path, PATH_SIZE, "%.*s%s", dir, us.dli_fname, base) >= PATH_SIZE ||
	    !tw_sys_stat(us.dli_fname, &library) || !tw_sys_stat(path, &directory) ||
	    (directory.st_uid != library.st_uid && directory.st_uid != 0))
		return false;
	return snprintf(path, PATH_SIZE, "%.*s%s/tagwire_%s.so", dir, us.dli_fname, base, name) <
		       PATH_SIZE &&
	       tw_sys_readable(path);
}

static void path_of(const char *name, char path[PATH_SIZE])
{
	const char *dir = *tw_settings.modules ? tw_settings.modules : TW_MODULE_DIR;

	if (*tw_settings.modules || !module_beside(name, path))
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

/* The loader's words do not say what to do where no descriptor is left. */
static void module_refused(void)
{
	int fd = tw_sys_open("/", O_PATH | O_CLOEXEC);

	if (fd >= 0)
		tw_sys_close(fd);
	else if (errno == EMFILE || errno == ENFILE)
		tw_log_no_descriptor();
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
		module_refused();
		return NULL;
	}
	found = dlsym(module, symbol);
	if (found && *found == version)
		return found;
	snprintf(why, len, "%s is of another version of Tagwire", path);
	dlclose(module);
	return NULL;
}
