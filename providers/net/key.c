/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The key of a user's jobs: the file that TAGWIRE_KEY names, or the user's own, which is
 * made at its first use. Read once, and only when another host comes into it.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/module.h"
#include "base/settings.h"
#include "base/sys.h"
#include "providers/net/session.h"

#define PATH_SIZE (TW_SETTING_PATH_MAX + 32)
#define LEAST 32  /* bytes of a key file */
#define MOST 4096 /* the same */

static struct {
	pthread_mutex_t mutex;
	bool tried, good;
	char path[PATH_SIZE];
	struct tw_net_auth auth;
} known = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static bool refuse(const char *path, const char *why)
{
	tw_log(TW_LOG_ERROR, "key file %s: %s; see tagwire-key(7)", path, why);
	return false;
}

/* A file that nobody else can read or write, as ssh(1) demands of its own. */
static bool sound(const char *path, const struct stat *st)
{
	if (!S_ISREG(st->st_mode))
		return refuse(path, "it is no file");
	if (st->st_uid != geteuid() && st->st_uid != 0)
		return refuse(path, "it is another user's");
	if (st->st_mode & 077)
		return refuse(path, "others can read or write it: chmod 600");
	if (st->st_size < LEAST || st->st_size > MOST)
		return refuse(path, "it must have 32 to 4096 bytes");
	return true;
}

static bool read_key(const char *path, const struct tw_net_crypto *crypto, uint8_t key[TW_NET_KEY])
{
	static const uint8_t zeros[TW_NET_KEY];
	char text[MOST];
	struct stat st;
	ssize_t n = -1;
	bool good;
	int fd = tw_sys_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0 || fstat(fd, &st) < 0) {
		refuse(path, strerror(errno));
		tw_sys_close(fd);
		return false;
	}
	good = sound(path, &st);
	if (good)
		n = tw_sys_read(fd, text, sizeof(text));
	tw_sys_close(fd);
	if (!good || n < LEAST)
		return good && refuse(path, "it cannot be read");
	crypto->mac(key, zeros, text, (size_t)n);
	explicit_bzero(text, sizeof(text));
	return true;
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
	       syscall(SYS_fsync, fd) == 0 &&
	       (linkat(AT_FDCWD, beside, AT_FDCWD, path, 0) == 0 || errno == EEXIST);
	tw_sys_close(fd);
	unlinkat(AT_FDCWD, beside, 0);
	return good;
}

/* The user's own file; it exists afterwards. */
static bool own_file(char path[PATH_SIZE])
{
	static const char *const parts[] = {"/.config", "/tagwire", "/key"};
	const char *home = secure_getenv("HOME");
	size_t len;

	if (!home || !*home) {
		const struct passwd *user = getpwuid(geteuid());

		home = user ? user->pw_dir : "";
	}
	snprintf(path, PATH_SIZE, "%s", home);
	for (unsigned i = 0; i < tw_countof(parts); i++) {
		len = strlen(path);
		snprintf(path + len, PATH_SIZE - len, "%s", parts[i]);
		if (i < tw_countof(parts) - 1)
			mkdirat(AT_FDCWD, path, 0700);
	}
	if (tw_sys_readable(path) || errno != ENOENT || write_key(path))
		return true;
	return refuse(path, strerror(errno));
}

static const struct tw_net_crypto *load(void)
{
	char why[256];
	const struct tw_net_crypto *c = tw_module_load("sodium", "tw_net_crypto_sodium",
						       TW_NET_CRYPTO_VERSION, why, sizeof(why));

	if (c && c->begin())
		return c;
	tw_log(TW_LOG_ERROR, "no proof of identity: %s", c ? "libsodium does not start" : why);
	return NULL;
}

static bool prepare(void)
{
	if (strcmp(tw_settings.auth, "none") == 0) {
		tw_log(TW_LOG_ERROR, "TAGWIRE_AUTH=none: whoever reaches this host may connect");
		return true;
	}
	if (strcmp(tw_settings.auth, "key") != 0) {
		tw_log(TW_LOG_ERROR, "TAGWIRE_AUTH=%s: key or none", tw_settings.auth);
		return false;
	}
	known.auth.crypto = load();
	if (!known.auth.crypto)
		return false;
	if (*tw_settings.key)
		snprintf(known.path, sizeof(known.path), "%s", tw_settings.key);
	else if (!own_file(known.path))
		return false;
	return read_key(known.path, known.auth.crypto, known.auth.key);
}

const struct tw_net_auth *tw_net_auth(void)
{
	pthread_mutex_lock(&known.mutex);
	if (!known.tried)
		known.good = prepare();
	known.tried = true;
	pthread_mutex_unlock(&known.mutex);
	return known.good ? &known.auth : NULL;
}

const char *tw_net_key_file(void)
{
	return known.path;
}
