/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that runs with more rights than its user takes no code and no trust from the
 * environment: this one, as a setuid copy of itself.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/module.h"
#include "base/settings.h"
#include "base/sys.h"
#include "group/job.h"
#include "lib/check.h"
#include "mrapi.h"
#include "providers/net/session.h"

#define USER 65534 /* who starts it */

static bool mapped(const char *name)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[1024];
	bool found = false;

	check(f != NULL);
	while (fgets(line, sizeof(line), f))
		found |= strstr(line, name) != NULL;
	fclose(f);
	return found;
}

static int inside(const char *modules)
{
	bool privileged = getauxval(AT_SECURE) != 0;
	const struct tw_driver *list[TW_NET_DRIVERS];
	mrapi_status_t st;
	struct tw_job job;
	char why[200];

	if (!privileged && geteuid() != getuid())
		return 77;
	check(tw_settings_load());
	check(strcmp(tw_settings.job, "of-the-user") == 0);
	check(!strcmp(tw_settings.auth, "none") == !privileged);
	check(!strcmp(tw_settings.ofi, "evil") == !privileged);
	check(!strcmp(tw_settings.key, "/tmp/key") == !privileged);
	/* As if these modules were the installed ones. */
	snprintf(tw_settings.modules, sizeof(tw_settings.modules), "%s", modules);
	tw_settings.log = 0;
	if (tw_module_installed("ofi")) {
		check(tw_driver_any("ofi") == !privileged);
		check(tw_driver_list("ofi", list) == !privileged);
		check(mapped("libfabric") == !privileged);
	}
	if (tw_module_installed("verbs")) {
		tw_driver_why_not("verbs", why, sizeof(why));
		check((strstr(why, "more rights") != NULL) == privileged);
	}
	check(!mrapi_resources_get(MRAPI_RSRC_CPU, &st) && st == MRAPI_ERR_NODE_NOTINIT);
	check((getenv("HWLOC_PLUGINS_PATH") != NULL) == !privileged);
	/* No launcher is there in either case. */
	check(tw_job_begin(NULL, &job) != TW_OK);
	if (tw_module_installed("pmix"))
		check(mapped("libpmix") == !privileged);
	return 0;
}

static int run(const char *program, uid_t user)
{
	static char *const environment[] = {
		"TAGWIRE_JOB=of-the-user", "TAGWIRE_AUTH=none",	      "TAGWIRE_OFI=evil",
		"TAGWIRE_KEY=/tmp/key",	   "PMIX_NAMESPACE=evil",     "PMIX_RANK=0",
		"TAGWIRE_LOG=0",	   "HWLOC_PLUGINS_PATH=/tmp", NULL};
	const char *modules = getenv("TAGWIRE_MODULES");
	int status;
	pid_t pid = fork();

	check(pid >= 0);
	if (pid == 0) {
		char *args[] = {"fault_privileged",
				(char *)(uintptr_t)(modules ? modules : TWT_MODULES), NULL};

		if (setuid(user) == 0)
			execve(program, args, environment);
		_exit(1);
	}
	check(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	return WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
	char folder[] = "/tmp/tagwire-privileged-XXXXXX", copy[60], command[200];
	int status;

	if (argc > 1)
		return inside(argv[1]);
	if (getuid() != 0) {
		puts("only root can make a program that runs as another user");
		return 77;
	}
	check(run("/proc/self/exe", 0) == 0);
	check(mkdtemp(folder) && chmod(folder, 0755) == 0);
	snprintf(copy, sizeof(copy), "%s/copy", folder);
	snprintf(command, sizeof(command), "cp /proc/%d/exe %s && chmod 4755 %s", (int)getpid(),
		 copy, copy);
	check(system(command) == 0);
	status = run(copy, USER);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	check(system(command) == 0);
	if (status == 77)
		puts("programs in /tmp do not run as their owner");
	return status;
}
