/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where names of sockets lie. In the first of the places below that is this user's alone: there
 * nobody else can make a name. The file remains after a process that was killed; whoever wants
 * the name then removes it. And among the abstract names of the network namespace, for processes
 * that see other files: there other users can take names, so both sides check each other's user,
 * and who finds a name taken uses the next suffix if it has no place in a directory.
 *
 * Containers may share a directory, and nothing else (decision 183). TAGWIRE_DIR then has the
 * shared names of all their network namespaces. Where a user has no id in the user namespace of the
 * other, the directory takes the place of ids: only this user reaches it.
 */
#include <dirent.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "base/fds.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/report.h"
#include "base/settings.h"
#include "base/sys.h"
#include "base/thread.h"
#include "shmem/sock.h"

#define PLACES 3
#define PREFIX "tagwire-" /* of every name */
#define OWN_FILE 80	  /* bytes of one in a directory */
#define SUFFIXES 4
#define LOCK_TRIES 1000 /* of a millisecond; then whoever has the lock is stopped */

struct place {
	char path[40 + sizeof(((struct sockaddr_un *)0)->sun_path)];
	int fd;
};

void tw_sock_name(struct tw_sock_name *name, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(name->text, sizeof(name->text), format, args);
	va_end(args);
	name->shared = false;
}

/* ------------------------------------------------------------------ places */

/* The same for every process of a user, whatever its environment. */
static bool place_path(char *path, size_t size, unsigned i)
{
	unsigned user = (unsigned)tw_sys_euid();
	int n = 0;

	if (*tw_settings.dir)
		n = i == 0 ? snprintf(path, size, "%s", tw_settings.dir) : 0;
	else if (i == 0) /* which the system makes, where users log in */
		n = snprintf(path, size, "/run/user/%u/tagwire", user);
	else
		n = snprintf(path, size, "%s/tagwire-%u", i == 1 ? "/dev/shm" : "/tmp", user);
	return n > 0 && (size_t)n < size;
}

/* Opens its directory; else why it cannot be used. */
static const char *place_refused(struct place *p)
{
	const char *why = NULL;
	struct stat st;

	p->fd = tw_fd_own(tw_sys_open(p->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
	if (p->fd < 0)
		return errno == ENOENT ? "it is not there, and could not be made"
				       : "it is no directory that can be opened";
	if (tw_sys_fstat(p->fd, &st) < 0 || st.st_uid != tw_sys_euid())
		why = "it is another user's";
	else if (st.st_mode & 077)
		why = "others may enter it, chmod 700 mends that";
	if (why)
		tw_fd_close(p->fd);
	return why;
}

static bool place_open(struct place *p, unsigned i, bool make)
{
	if (!place_path(p->path, sizeof(p->path), i))
		return false;
	if (make)
		tw_sys_mkdir(p->path);
	return !place_refused(p);
}

/* Against another process that finds the same name left over. */
static void place_lock(const struct place *p)
{
	for (int i = 0; i < LOCK_TRIES && tw_sys_flock(p->fd, LOCK_EX | LOCK_NB) < 0; i++)
		tw_sys_sleep_us(1000);
}

static void place_unlock(const struct place *p)
{
	tw_sys_flock(p->fd, LOCK_UN);
}

static int address_in(struct sockaddr_un *sa, const struct place *p, const char *file)
{
	size_t size = sizeof(sa->sun_path);

	*sa = (struct sockaddr_un){.sun_family = AF_UNIX};
	return (size_t)snprintf(sa->sun_path, size, "%s/%s", p->path, file) < size ? 0
										   : ENAMETOOLONG;
}

/* As address_in(), in the directory that was opened, whatever its path leads to by now. */
static void address_by_fd(struct sockaddr_un *sa, const struct place *p, const char *file)
{
	*sa = (struct sockaddr_un){.sun_family = AF_UNIX};
	snprintf(sa->sun_path, sizeof(sa->sun_path), "/proc/self/fd/%d/%s", p->fd, file);
}

/* Network namespaces are hosts of their own, which may share a directory. */
static void own_file(char file[OWN_FILE], const struct tw_sock_name *name)
{
	char space[64] = "";
	uint64_t h;

	if (!name->shared || !*tw_settings.dir)
		tw_sys_readlink("/proc/self/ns/net", space, sizeof(space) - 1);
	h = tw_hash_text(tw_hash_text(TW_HASH_START, space), tw_settings.job);
	snprintf(file, OWN_FILE, PREFIX "%016llx-%s", (unsigned long long)h, name->text);
}

static socklen_t open_address(struct sockaddr_un *sa, const struct tw_sock_name *name,
			      unsigned suffix)
{
	int n;

	*sa = (struct sockaddr_un){.sun_family = AF_UNIX};
	n = snprintf(sa->sun_path + 1, sizeof(sa->sun_path) - 1, PREFIX "%s-%s.%u", tw_settings.job,
		     name->text, suffix);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   tw_min((size_t)n, sizeof(sa->sun_path) - 1));
}

/*
 * 0 or an error. The process that has the name learns nothing of it: a socket of another type is
 * refused (EPROTOTYPE), with another error than one that nobody has.
 */
static int name_probe(int probe, const struct sockaddr_un *sa)
{
	return tw_sys_connect(probe, (const struct sockaddr *)sa, sizeof(*sa)) == 0 ? 0 : errno;
}

static bool name_taken(int probe, const struct sockaddr_un *sa)
{
	int err = name_probe(probe, sa);

	return err != ECONNREFUSED && err != ENOENT;
}

/* Removes what killed processes have left. Once: one that is wanted is removed anyway. */
static void name_sweep(const struct place *p, int probe)
{
	static atomic_bool swept;
	TW_NOT_CANCELLED;
	DIR *d = atomic_exchange(&swept, true) ? NULL : opendir(p->path);
	const struct dirent *e;
	struct sockaddr_un sa;

	while (d && (e = readdir(d)))
		if (e->d_type == DT_SOCK && !strncmp(e->d_name, PREFIX, strlen(PREFIX)) &&
		    address_in(&sa, p, e->d_name) == 0 && !name_taken(probe, &sa))
			tw_sys_unlink(sa.sun_path);
	if (d)
		closedir(d);
}

/* --------------------------------------------------------------- listening */

static int name_listen_at(int *out, const struct sockaddr_un *sa, socklen_t len, int backlog)
{
	int fd = tw_sock_new(), err;

	if (fd < 0)
		return errno;
	if (tw_sys_bind(fd, (const struct sockaddr *)sa, len) == 0 &&
	    tw_sys_listen(fd, backlog) == 0) {
		*out = fd;
		return 0;
	}
	err = errno;
	tw_fd_close(fd);
	return err;
}

/* EADDRINUSE: a process has the name there. */
static int listen_in(struct tw_sock_listener *l, const struct place *p,
		     const struct tw_sock_name *name, int probe, int backlog)
{
	struct sockaddr_un sa;
	char file[OWN_FILE];
	int err;

	own_file(file, name);
	err = address_in(&sa, p, file);
	if (err)
		return err;
	if (name_taken(probe, &sa))
		return EADDRINUSE;
	if (l->fd[TW_SOCK_OWN] >= 0)
		return 0;
	name_sweep(p, probe);
	tw_sys_unlink(sa.sun_path);
	err = name_listen_at(&l->fd[TW_SOCK_OWN], &sa, sizeof(sa), backlog);
	if (err)
		return err;
	memcpy(l->path, sa.sun_path, sizeof(l->path));
	/* Not so where another user has put another directory into the path meanwhile. */
	address_by_fd(&sa, p, file);
	l->alone = name_probe(probe, &sa) == EPROTOTYPE;
	return 0;
}

/* TAGWIRE_DIR is the only place, and it is not used. */
static void report_dir(void)
{
	const char *why = "its path is longer than 48 bytes";
	char text[96], cause[96];
	struct place p;

	if (place_path(p.path, sizeof(p.path), 0) && (why = place_refused(&p)) == NULL) {
		tw_fd_close(p.fd);
		why = "no socket can be made there; its path may have 48 bytes";
	}
	snprintf(text, sizeof(text), "TAGWIRE_DIR=%.64s", tw_settings.dir);
	snprintf(cause, sizeof(cause), "it is not used: %s", why);
	tw_report(TW_LOG_ERROR, text, cause,
		  "only processes of this network namespace find each other on this host");
}

/* In the first place where that is possible. In none may another process have the name. */
static int listen_own(struct tw_sock_listener *l, const struct tw_sock_name *name, int backlog)
{
	int probe = tw_fd_own(tw_sys_socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	int err = probe < 0 ? errno : 0;

	for (unsigned i = 0; i < PLACES && !err; i++) {
		struct place p;

		if (!place_open(&p, i, l->fd[TW_SOCK_OWN] < 0))
			continue;
		place_lock(&p);
		err = listen_in(l, &p, name, probe, backlog);
		place_unlock(&p);
		tw_fd_close(p.fd);
		if (err != EADDRINUSE && err != EMFILE && err != ENFILE && err != ENOMEM)
			err = 0;
	}
	tw_fd_close(probe);
	if (!err && l->fd[TW_SOCK_OWN] < 0 && *tw_settings.dir)
		report_dir();
	return err;
}

static int connect_open(int *fd, const struct tw_sock_name *name, unsigned suffix)
{
	struct sockaddr_un sa;
	socklen_t len = open_address(&sa, name, suffix);
	int err = tw_sock_connect(fd, &sa, len);

	if (err != TW_SOCK_UNNAMED)
		return err;
	tw_fd_close(*fd);
	*fd = -1;
	return TW_SOCK_FOREIGN;
}

/* EADDRINUSE: a process of this user has the name. TW_SOCK_FOREIGN: others have all of them. */
static int listen_open(struct tw_sock_listener *l, const struct tw_sock_name *name, int backlog)
{
	unsigned n = l->fd[TW_SOCK_OWN] >= 0 ? 1 : SUFFIXES;

	for (unsigned i = 0; i < n; i++) {
		struct sockaddr_un sa;
		socklen_t len = open_address(&sa, name, i);
		int err = name_listen_at(&l->fd[TW_SOCK_OPEN], &sa, len, backlog), other = -1;

		if (err != EADDRINUSE)
			return err;
		err = connect_open(&other, name, i);
		tw_fd_close(other);
		/* A full queue does not say whose it is. */
		if (err == 0 || (err == EAGAIN && l->fd[TW_SOCK_OWN] < 0))
			return EADDRINUSE;
	}
	return TW_SOCK_FOREIGN;
}

int tw_sock_listen(struct tw_sock_listener *l, const struct tw_sock_name *name, int backlog)
{
	int err;

	*l = (struct tw_sock_listener){.fd = {-1, -1}};
	err = listen_own(l, name, backlog);
	if (!err)
		err = listen_open(l, name, backlog);
	if (err == TW_SOCK_FOREIGN && l->fd[TW_SOCK_OWN] >= 0) {
		tw_log(TW_LOG_INFO,
		       "the name %s is another user's: processes that do not see %s do not find it",
		       name->text, l->path);
		return 0;
	}
	if (err == TW_SOCK_FOREIGN)
		tw_log(TW_LOG_ERROR,
		       "the name %s is another user's, and no directory is this user's alone: set "
		       "TAGWIRE_DIR",
		       name->text);
	if (err)
		tw_sock_listen_end(l);
	return err;
}

void tw_sock_hide(struct tw_sock_listener *l, int other)
{
	if (*l->path)
		tw_sys_unlink(l->path);
	for (unsigned i = 0; i < TW_SOCK_LISTENERS; i++)
		if (l->fd[i] >= 0)
			tw_fd_own(tw_sys_dup(other, l->fd[i]));
	*l->path = 0;
}

void tw_sock_listen_end(struct tw_sock_listener *l)
{
	if (*l->path)
		tw_sys_unlink(l->path);
	*l->path = 0;
	for (unsigned i = 0; i < TW_SOCK_LISTENERS; i++) {
		/* A child of fork() may have a copy for a moment, which would go on to answer. */
		if (tw_fd_ours(l->fd[i]))
			tw_sys_shutdown(l->fd[i], SHUT_RDWR);
		tw_fd_close(l->fd[i]);
		l->fd[i] = -1;
	}
}

/* ----------------------------------------------------------------- calling */

static int dial_in(int *fd, const struct place *p, const struct tw_sock_name *name)
{
	struct sockaddr_un sa;
	char file[OWN_FILE];
	int err;

	own_file(file, name);
	if (address_in(&sa, p, file) != 0)
		return ECONNREFUSED;
	err = tw_sock_connect(fd, &sa, sizeof(sa));
	if (err != TW_SOCK_UNNAMED)
		return err;
	tw_fd_close(*fd);
	*fd = -1;
	address_by_fd(&sa, p, file);
	err = tw_sock_connect(fd, &sa, sizeof(sa));
	return err == TW_SOCK_UNNAMED ? 0 : err;
}

static int dial_own(int *fd, const struct tw_sock_name *name)
{
	int err = ECONNREFUSED;

	for (unsigned i = 0; i < PLACES && err == ECONNREFUSED; i++) {
		struct place p;

		if (!place_open(&p, i, false))
			continue;
		err = dial_in(fd, &p, name);
		tw_fd_close(p.fd);
	}
	return err;
}

int tw_sock_dial_shared(int *fd, const struct tw_sock_name *name)
{
	return *tw_settings.dir ? dial_own(fd, name) : ECONNREFUSED;
}

int tw_sock_dial(int *fd, const struct tw_sock_name *name)
{
	int err = dial_own(fd, name), found = ECONNREFUSED;

	if (err != ECONNREFUSED)
		return err;
	for (unsigned i = 0; i < SUFFIXES; i++) {
		err = connect_open(fd, name, i);
		if (err == EAGAIN)
			err = TW_SOCK_FULL;
		if (err != ECONNREFUSED && err != TW_SOCK_FOREIGN && err != TW_SOCK_FULL)
			return err;
		if (err != ECONNREFUSED && found != TW_SOCK_FULL)
			found = err;
	}
	return found;
}

bool tw_sock_list(const struct tw_sock_name *start, void (*found)(const char *rest, void *arg),
		  void *arg)
{
	TW_NOT_CANCELLED;
	FILE *f = fopen("/proc/net/unix", "re");
	char line[256], *name, text[sizeof(start->text) + 1];

	/* After the job, or a hash of it. */
	snprintf(text, sizeof(text), "-%s", start->text);
	while (f && fgets(line, sizeof(line), f)) {
		name = strstr(line, PREFIX);
		/* The job may have the same text. */
		while (name && (name = strstr(name, text)))
			found((name += strlen(text)), arg);
	}
	if (f)
		fclose(f);
	return f;
}
