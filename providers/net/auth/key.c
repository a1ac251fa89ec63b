/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The keys of this process: the file that TAGWIRE_KEY names; or the launcher's key for the
 * processes of its job, and the user's own file for all others. The user's file is made at its
 * first use. Files are read once, before the first connection with another host.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/jobkey.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/module.h"
#include "base/settings.h"
#include "base/sys.h"
#include "base/thread.h"
#include "providers/net/session.h"

#define PATH_SIZE (TW_SETTING_PATH_MAX + 32)
#define LEAST 32  /* bytes of a key file */
#define MOST 4096 /* the same */

_Static_assert(TW_JOBKEY == TW_NET_KEY, "one kind of key");

/* An auth that was handed out is not changed: the launcher's key may come later than the file. */
static struct {
	pthread_mutex_t mutex;
	bool tried;
	char path[PATH_SIZE], names[PATH_SIZE + 32]; /* of both keys */
	const char *text;			     /* one of these */
	struct tw_net_auth auth, with_job;
	const struct tw_net_auth *good; /* one of these, or NULL */
} known = {.mutex = PTHREAD_MUTEX_INITIALIZER, .text = ""};
TW_MUTEX_OVER_FORK(key, &known.mutex)

static bool key_refuse(const char *path, const char *why)
{
	tw_log(TW_LOG_ERROR, "key file %s: %s; see tagwire-key(7)", path, why);
	return false;
}

static void find_home(char path[PATH_SIZE])
{
	const char *home = secure_getenv("HOME");
	struct passwd entry, *user = NULL;
	char buf[4096];

	if (!home || !*home) {
		getpwuid_r(tw_sys_euid(), &entry, buf, sizeof(buf), &user);
		home = user ? user->pw_dir : "";
	}
	snprintf(path, PATH_SIZE, "%s", home);
}

/* Such as after su(1), which may keep HOME. */
static bool home_is_anothers(void)
{
	char home[PATH_SIZE];
	struct stat st;

	if (*tw_settings.key)
		return false;
	find_home(home);
	return tw_sys_stat(home, &st) && st.st_uid != tw_sys_euid();
}

/* It, or its folder, cannot be opened, or made. */
static bool key_missing(const char *path)
{
	int error = errno;
	bool scarce = error == EMFILE || error == ENFILE;
	const char *advice = scarce		  ? "raise ulimit -n"
			     : *tw_settings.key	  ? "make it, or correct TAGWIRE_KEY"
			     : home_is_anothers() ? "it is another user's: is HOME right?"
			     : error == ENOENT || error == EACCES || error == EPERM
				     ? "its folder must be there, and this user's; or name another "
				       "file by TAGWIRE_KEY"
				     : "name a file elsewhere by TAGWIRE_KEY";
	char why[160];

	snprintf(why, sizeof(why), "%s: %s", strerror(error), advice);
	return key_refuse(path, why);
}

static bool key_anothers(const char *path, const char *what)
{
	char why[80];

	snprintf(why, sizeof(why), "%s is another user's%s", what,
		 *tw_settings.key ? "" : ": is HOME right?");
	return key_refuse(path, why);
}

/*
 * Whether nobody else can put another file in its place. A group is often the user's alone; in a
 * sticky folder only the owner may.
 */
static bool kept(const char *path)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_SIZE];
	struct stat st;

	snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path) + 1 : 1,
		 slash ? path : ".");
	if (!tw_sys_stat(folder, &st))
		return key_missing(path);
	if (st.st_uid != tw_sys_euid() && st.st_uid != 0)
		return key_anothers(path, "its folder");
	if ((st.st_mode & 02) && !(st.st_mode & S_ISVTX))
		return key_refuse(path, "others can write into its folder: chmod 700");
	return true;
}

/* A file that nobody else can read or write, as ssh(1) demands of its own. */
static bool key_sound(const char *path, const struct stat *st)
{
	if (!kept(path))
		return false;
	if (!S_ISREG(st->st_mode))
		return key_refuse(path, "it is no file");
	if (st->st_uid != tw_sys_euid() && st->st_uid != 0)
		return key_anothers(path, "it");
	if (st->st_mode & 077)
		return key_refuse(path, "others can read or write it: chmod 600");
	if (st->st_size < LEAST || st->st_size > MOST)
		return key_refuse(path, "it must have 32 to 4096 bytes");
	return true;
}

static int key_open(const char *path)
{
	return tw_sys_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

static bool read_key(int fd, const char *path, const struct tw_net_tls *tls,
		     uint8_t key[TW_NET_KEY])
{
	char text[MOST];
	struct stat st;
	ssize_t n;
	bool good;

	if (tw_sys_fstat(fd, &st) < 0)
		return key_missing(path);
	if (!key_sound(path, &st))
		return false;
	n = tw_sys_read(fd, text, sizeof(text));
	if (n < LEAST)
		return key_refuse(path, "it cannot be read");
	good = tls->digest(key, text, (size_t)n);
	explicit_bzero(text, sizeof(text));
	return good;
}

/* Writes a new key beside path and gives it that name, unless another process was first. */
static bool write_key(const char *path)
{
	uint8_t bytes[TW_NET_KEY];
	char text[2 * TW_NET_KEY + 2], beside[PATH_SIZE + 20];
	uint64_t name;
	bool good = tw_sys_random(&name, sizeof(name)) && tw_sys_random(bytes, sizeof(bytes));
	int fd;

	snprintf(beside, sizeof(beside), "%s.%016llx", path, (unsigned long long)name);
	fd = good ? tw_sys_create(beside) : -1;
	if (fd < 0)
		return false;
	for (unsigned i = 0; i < sizeof(bytes); i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	text[2 * TW_NET_KEY] = '\n';
	good = tw_sys_write(fd, text, sizeof(text) - 1) == sizeof(text) - 1 &&
	       syscall(SYS_fsync, fd) == 0 && (tw_sys_link(beside, path) == 0 || errno == EEXIST);
	tw_sys_close(fd);
	tw_sys_unlink(beside);
	return good;
}

/* The path of the user's own file, whose folders are made: 0, or why one was not. */
static int own_path(char path[PATH_SIZE])
{
	static const char *const parts[] = {"/.config", "/tagwire", "/key"};
	int error = 0;
	size_t len;

	find_home(path);
	for (unsigned i = 0; i < tw_countof(parts); i++) {
		len = strlen(path);
		snprintf(path + len, PATH_SIZE - len, "%s", parts[i]);
		if (i == tw_countof(parts) - 1)
			break;
		errno = 0;
		tw_sys_mkdir(path);
		error = error || errno == EEXIST ? error : errno;
	}
	return error;
}

/* Whether the module is there; otherwise why says how to get it. */
static bool key_has_module(const char *name, char *why, unsigned len)
{
	bool tls = strcmp(name, "tls") == 0;

	if (tw_module_installed(name))
		return true;
	snprintf(why, len,
		 "no tagwire_%s.so: configured without %s (install %s and build again), or not in "
		 "TAGWIRE_MODULES",
		 name, tls ? "OpenSSL" : "MUNGE", tls ? "libssl-dev" : "libmunge-dev");
	return false;
}

bool tw_net_auth_installed(char *why, unsigned len)
{
	if (strcmp(tw_settings.auth, "none") == 0)
		return true;
	if (strcmp(tw_settings.auth, "munge") == 0 && !key_has_module("munge", why, len))
		return false;
	return key_has_module("tls", why, len);
}

static const void *key_load(const char *name, const char *symbol, uint32_t version)
{
	const void *module = NULL;
	char why[256];

	if (key_has_module(name, why, sizeof(why)))
		module = tw_module_load(name, symbol, version, why, sizeof(why));
	if (!module)
		tw_log(TW_LOG_ERROR, "no proof of identity: %s", why);
	return module;
}

static bool key_start(struct tw_net_auth *auth)
{
	auth->tls = key_load("tls", "tw_net_tls", TW_NET_TLS_VERSION);
	if (auth->tls && auth->tls->begin())
		return true;
	if (auth->tls)
		tw_log(TW_LOG_ERROR, "no proof of identity: OpenSSL does not start");
	return false;
}

/* The user's own file is made if it is missing; with a launcher's key it need not be there. */
static bool read_file(struct tw_net_auth *auth, bool job)
{
	bool own = !*tw_settings.key, good;
	int fd, error = 0;

	if (own)
		error = own_path(known.path);
	else
		snprintf(known.path, sizeof(known.path), "%s", tw_settings.key);
	fd = key_open(known.path);
	if (fd < 0 && own && errno == ENOENT && write_key(known.path))
		fd = key_open(known.path);
	/* A folder that was not made says why it is not there. */
	if (fd < 0 && errno == ENOENT && error)
		errno = error;
	if (fd < 0)
		return !job && key_missing(known.path);
	known.text = known.path;
	good = read_key(fd, known.path, auth->tls, auth->key[TW_NET_KEY_USER]);
	tw_sys_close(fd);
	return good;
}

/* Once; false if nothing is to be had without the launcher's key. */
static bool key_prepare(struct tw_net_auth *auth, bool job)
{
	if (strcmp(tw_settings.auth, "none") == 0) {
		tw_log(TW_LOG_ERROR, "TAGWIRE_AUTH=none: whoever reaches this host may connect");
		return true;
	}
	if (strcmp(tw_settings.auth, "munge") == 0) {
		auth->method = TW_NET_BY_MUNGE;
		auth->munge = key_load("munge", "tw_net_munge", TW_NET_MUNGE_VERSION);
		return auth->munge && key_start(auth);
	}
	auth->method = TW_NET_BY_KEY;
	return key_start(auth) && (auth->has[TW_NET_KEY_USER] = read_file(auth, job));
}

/* Beside the user's own. */
static void add_job(void)
{
	known.with_job = known.auth;
	if (!tw_jobkey_get(known.with_job.key[TW_NET_KEY_JOB]))
		return;
	known.with_job.has[TW_NET_KEY_JOB] = true;
	snprintf(known.names, sizeof(known.names), "%s%sthe launcher's", known.text,
		 *known.text ? " or " : "");
	known.text = known.names;
	known.good = &known.with_job;
}

const struct tw_net_auth *tw_net_auth(void)
{
	const struct tw_net_auth *good;
	uint8_t key[TW_JOBKEY];
	bool job;

	tw_mutex_lock(&known.mutex);
	job = !known.with_job.has[TW_NET_KEY_JOB] && !*tw_settings.key && tw_jobkey_get(key);
	if (!known.tried && key_prepare(&known.auth, job))
		known.good = &known.auth;
	known.tried = true;
	if (job && known.auth.method == TW_NET_BY_KEY && known.auth.tls)
		add_job();
	good = known.good;
	tw_mutex_unlock(&known.mutex);
	explicit_bzero(key, sizeof(key));
	return good;
}

const char *tw_net_key_text(void)
{
	const char *text;

	tw_mutex_lock(&known.mutex);
	text = known.text;
	tw_mutex_unlock(&known.mutex);
	return text;
}
