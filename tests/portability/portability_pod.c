/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs a command as a container whose users are others outside: with user, network, PID and mount
 * namespaces of its own. Its ids 0 to 999 are FIRST and the following ones of this host, and a
 * directory belongs to the same ids inside as it does here (an idmapped mount). Another container
 * that shares the directory has no ids for the users of this one. Exits with 77 where the system
 * does not allow it.
 *
 * Usage: portability_pod FIRST DIRECTORY COMMAND...
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define IDS 1000

/* Of <sys/mount.h>, which does not go with <linux/mount.h> in all libraries. */
int mount(const char *from, const char *to, const char *type, unsigned long flags,
	  const void *data);
#define ALL_PRIVATE (1ul << 14 | 1ul << 18) /* MS_REC | MS_PRIVATE */

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	printf("%s: %s\n", what, strerror(errno));
	exit(77);
}

static void map_ids(pid_t pid, const char *which, unsigned first)
{
	char path[64], text[64];
	int fd, n;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, which);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	n = snprintf(text, sizeof(text), "0 %u %u", first, IDS);
	must(fd >= 0 && write(fd, text, (size_t)n) == n, "ids of a user namespace");
	close(fd);
}

/* The mount is seen by this process and its children. */
static void map_directory(pid_t pid, const char *dir)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP};
	char path[64];
	int users, tree;

	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	users = open(path, O_RDONLY | O_CLOEXEC);
	must(users >= 0, path);
	attr.userns_fd = (uint64_t)users;
	tree = (int)syscall(SYS_open_tree, AT_FDCWD, dir, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	must(tree >= 0, "open_tree");
	must(syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) == 0,
	     "an idmapped mount");
	must(syscall(SYS_move_mount, tree, "", AT_FDCWD, dir, MOVE_MOUNT_F_EMPTY_PATH) == 0,
	     "move_mount");
	close(tree);
	close(users);
}

static int ended(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The first process of the PID namespace. */
static void run(char **command)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	must(mount("proc", "/proc", "proc", 0, NULL) == 0, "/proc");
	execvp(*command, command);
	must(false, *command);
}

static void enter(int ready, int go, char **command)
{
	char c = 0;
	pid_t child;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	must(unshare(CLONE_NEWUSER) == 0, "a user namespace");
	if (write(ready, &c, 1) != 1 || read(go, &c, 1) != 1)
		exit(77);
	must(setgroups(0, NULL) == 0 && setresgid(0, 0, 0) == 0 && setresuid(0, 0, 0) == 0,
	     "ids inside");
	must(unshare(CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID) == 0, "namespaces");
	child = fork();
	must(child >= 0, "fork");
	if (child == 0)
		run(command);
	exit(ended(child));
}

int main(int argc, char **argv)
{
	int ready[2], go[2];
	char c = 0;
	pid_t child;

	if (argc < 4)
		return 2;
	must(pipe2(ready, O_CLOEXEC) == 0 && pipe2(go, O_CLOEXEC) == 0, "pipes");
	must(unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, ALL_PRIVATE, NULL) == 0,
	     "a mount namespace");
	child = fork();
	must(child >= 0, "fork");
	if (child == 0)
		enter(ready[1], go[0], argv + 3);
	close(ready[1]);
	if (read(ready[0], &c, 1) != 1)
		return ended(child);
	map_ids(child, "uid_map", (unsigned)atoi(argv[1]));
	map_ids(child, "gid_map", (unsigned)atoi(argv[1]));
	map_directory(child, argv[2]);
	if (write(go[1], &c, 1) != 1)
		return 77;
	return ended(child);
}
