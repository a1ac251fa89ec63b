/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two hosts that have the same key, or not: the first connect, all others end with a status
 * for each reason and a line that says what to do. So do a host of another version and one that
 * does not answer.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/jobkey.h"
#include "base/module.h"
#include "base/settings.h"
#include "lib/check.h"
#include "lib/twt.h"
#include "mx_extensions.h"
#include "naming/naming.h"
#include "providers/net/session.h"

#define FILTER 0x5eceff17u

/* In place of what TAGWIRE_AUTH may be: no endpoint. */
#define OLD "old"
#define ENCRYPTS "encrypts"
#define SILENT "silent"

struct side {
	const char *auth, *key; /* the name of a file */
	char job;		/* stands for the launcher's key */
	const char *home;
	const char *encrypt; /* TAGWIRE_ENCRYPT, or NULL */
};
#define BY(auth, key)                                                                              \
	{                                                                                          \
		auth, key, 0, "", NULL                                                             \
	}
#define ENCRYPTED(auth)                                                                            \
	{                                                                                          \
		auth, "a", 0, "", "1"                                                              \
	}
#define LAUNCHED(key, job, home)                                                                   \
	{                                                                                          \
		"key", key, job, home, NULL                                                        \
	}

static const struct which {
	const char *name;
	struct side host, guest;
	mx_status_code_t code;
	const char *says; /* the guest; "": it comes in */
} cases[] = {
	{"the same key", BY("key", "a"), BY("key", "a"), MX_STATUS_SUCCESS, ""},
	{"the user's own key", BY("key", ""), BY("key", ""), MX_STATUS_SUCCESS, ""},
	{"no key asked for", BY("none", ""), BY("none", ""), MX_STATUS_SUCCESS, ""},
	{"another key", BY("key", "a"), BY("key", "b"), MX_STATUS_REJECTED, "key of this one, /"},
	{"a key where none is asked for", BY("none", ""), BY("key", "a"), MX_STATUS_REJECTED,
	 "TAGWIRE_AUTH=none there, and key here"},
	{"none where a key is asked for", BY("key", "a"), BY("none", ""), MX_STATUS_REJECTED,
	 "TAGWIRE_AUTH=key there, and none here"},
	{"a key that others can read", BY("key", "a"), BY("key", "open"), MX_STATUS_NO_RESOURCES,
	 "/open: others can read or write it: chmod 600"},
	{"a file that is missing", BY("key", "a"), BY("key", "missing"), MX_STATUS_NO_RESOURCES,
	 "/missing: No such file"},
	{"a host whose key others can read", BY("key", "open"), BY("key", "a"), MX_STATUS_REJECTED,
	 "/a"},
	{"one job without a file", LAUNCHED("", 'x', "/1"), LAUNCHED("", 'x', "/2"),
	 MX_STATUS_SUCCESS, ""},
	{"a job, and a program beside it", LAUNCHED("", 'x', ""), BY("key", ""), MX_STATUS_SUCCESS,
	 ""},
	{"a program, and a job beside it", BY("key", ""), LAUNCHED("", 'x', ""), MX_STATUS_SUCCESS,
	 ""},
	{"two jobs with a file", LAUNCHED("", 'x', ""), LAUNCHED("", 'y', ""), MX_STATUS_REJECTED,
	 "belongs to another job of a launcher"},
	{"two jobs without a file", LAUNCHED("", 'x', "/1"), LAUNCHED("", 'y', "/2"),
	 MX_STATUS_REJECTED, "key of this one, the launcher's"},
	{"two jobs with one file that the user names", LAUNCHED("a", 'x', "/1"),
	 LAUNCHED("a", 'y', "/2"), MX_STATUS_SUCCESS, ""},
	{"an old version", BY(OLD, ""), BY("key", "a"), MX_STATUS_ABORTED,
	 "speaks version 5 of the handshake, and this host"},
	{"encryption there", BY(ENCRYPTS, ""), BY("key", "a"), MX_STATUS_REJECTED,
	 "TAGWIRE_ENCRYPT=1 there, and 0 here; set the same on both hosts"},
	{"encryption without authentication", BY("none", ""), ENCRYPTED("none"),
	 MX_STATUS_ENDPOINT_UNKNOWN, "TAGWIRE_ENCRYPT=1 needs TAGWIRE_AUTH=key or munge"},
	{"encryption here", BY("key", "a"), ENCRYPTED("key"), MX_STATUS_REJECTED,
	 "TAGWIRE_ENCRYPT=0 there, and 1 here; set the same on both hosts"},
	{"encryption", ENCRYPTED("key"), ENCRYPTED("key"), MX_STATUS_SUCCESS, ""},
	{"no answer", BY(SILENT, ""), BY("key", "a"), MX_STATUS_TIMEOUT, "has not answered"},
};

static char folder[] = "/tmp/tagwire-key-XXXXXX";

struct place {
	uint64_t nic;
	uint32_t id;
};

static void be(const struct side *s)
{
	uint8_t job[TW_JOBKEY];
	char path[64];

	snprintf(path, sizeof(path), "%s%s", folder, s->home);
	setenv("HOME", path, 1);
	memset(job, s->job, sizeof(job));
	if (s->job)
		tw_jobkey_set(job);
	snprintf(path, sizeof(path), "%s/%s", folder, s->key);
	setenv("TAGWIRE_AUTH", s->auth, 1);
	setenv("TAGWIRE_KEY", *s->key ? path : "", 1);
	if (s->encrypt)
		setenv("TAGWIRE_ENCRYPT", s->encrypt, 1);
	mx_set_error_handler(MX_ERRORS_RETURN);
	check(mx_init() == MX_SUCCESS);
}

/*
 * Greets callers as an earlier version does, which hangs up amid what follows, or not at all,
 * until the other end hangs up.
 */
static void listen_only(int listener, const char *how, int fd)
{
	struct pollfd p[2] = {{.fd = fd, .events = POLLIN}, {.fd = listener, .events = POLLIN}};
	struct tw_net_hello h = {.magic = TW_NET_MAGIC, .version = 5, .method = 1}, said;
	int sock = -1;

	if (strcmp(how, ENCRYPTS) == 0) {
		h.version = TW_NET_VERSION;
		h.method = TW_NET_BY_KEY | TW_NET_ENCRYPTED;
	}

	while (poll(p, 2, -1) > 0 && !p[0].revents) {
		close(sock);
		sock = accept(listener, NULL, NULL);
		check(sock >= 0);
		if (strcmp(how, SILENT) == 0)
			continue;
		check(twt_get(sock, &said, sizeof(said)) == 0);
		check(twt_put(sock, &h, sizeof(h)) == 0);
		close(sock);
		sock = -1;
	}
	close(sock);
}

/* At the first port of an endpoint of the board; a port may be in use, endpoints share them. */
static int no_host(const char *how, int fd)
{
	struct sockaddr_storage sa;
	struct sockaddr_in *in = (void *)&sa;
	struct place at = {.id = 77};
	int listener, err, one = 1;

	mx_set_error_handler(MX_ERRORS_RETURN);
	check(mx_init() == MX_SUCCESS);
	check(mx_board_number_to_nic_id(0, &at.nic) == MX_SUCCESS);
	check(tw_nic_to_address(at.nic, &sa) == TW_OK && sa.ss_family == AF_INET);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	do {
		in->sin_port = htons((uint16_t)tw_net_port(++at.id, 0));
		err = bind(listener, (struct sockaddr *)in, sizeof(*in));
	} while (err < 0 && errno == EADDRINUSE);
	check(err == 0);
	check(listen(listener, 16) == 0);
	check(twt_put(fd, &at, sizeof(at)) == 0);
	listen_only(listener, how, fd);
	mx_finalize();
	return 0;
}

/* Opens, tells where, and polls until the other end hangs up. */
static int host(void *arg, int fd)
{
	const struct side *s = &((const struct which *)arg)->host;
	mx_endpoint_addr_t self;
	struct place at;
	mx_endpoint_t ep;
	char word;

	if (strcmp(s->auth, OLD) == 0 || strcmp(s->auth, SILENT) == 0 ||
	    strcmp(s->auth, ENCRYPTS) == 0)
		return no_host(s->auth, fd);
	be(s);
	check(mx_open_endpoint(0, MX_ANY_ENDPOINT, FILTER, NULL, 0, &ep) == MX_SUCCESS);
	check(mx_get_endpoint_addr(ep, &self) == MX_SUCCESS);
	check(mx_decompose_endpoint_addr(self, &at.nic, &at.id) == MX_SUCCESS);
	check(twt_put(fd, &at, sizeof(at)) == 0);
	twt_get(fd, &word, 1);
	mx_close_endpoint(ep);
	mx_finalize();
	return 0;
}

static mx_status_code_t connect_to(mx_endpoint_t ep, struct place at)
{
	uint32_t done = 0;
	mx_request_t r;
	mx_status_t st;

	check(mx_iconnect(ep, at.nic, at.id, FILTER, 0, NULL, &r) == MX_SUCCESS);
	check(mx_wait(ep, &r, (uint32_t)TWT_LONG * 1000, &st, &done) == MX_SUCCESS);
	if (!done)
		return MX_STATUS_TIMEOUT;
	return st.code;
}

static int guest(void *arg, int fd)
{
	const struct which *c = arg;
	int err = memfd_create("stderr", 0);
	mx_status_code_t code;
	static char said[4096];
	struct place at;
	mx_endpoint_t ep;

	check(twt_get(fd, &at, sizeof(at)) == 0);
	check(dup2(err, STDERR_FILENO) >= 0);
	if (c->code == MX_STATUS_TIMEOUT)
		setenv("TAGWIRE_CONNECT_TIMEOUT", "2000", 1);
	be(&c->guest);
	check(mx_open_endpoint(0, MX_ANY_ENDPOINT, 1, NULL, 0, &ep) == MX_SUCCESS);
	code = connect_to(ep, at);
	mx_close_endpoint(ep);
	mx_finalize();
	check(pread(err, said, sizeof(said) - 1, 0) >= 0);
	if (code == c->code && strstr(said, c->says))
		return 0;
	printf("%s: %s\n%s", c->name, mx_strstatus(code), said);
	return 1;
}

static void make_file(const char *name, char letter, mode_t mode)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "w");
	check(f != NULL);
	for (int i = 0; i < 40; i++)
		fputc(letter, f);
	fclose(f);
	check(chmod(path, mode) == 0);
}

static int meet(const struct which *c)
{
	struct twt_child one, two;
	struct place at;
	int wrong;

	twt_spawn_here(&one, host, (void *)c);
	twt_spawn_here(&two, guest, (void *)c);
	check(twt_get(one.fd, &at, sizeof(at)) == 0);
	check(twt_put(two.fd, &at, sizeof(at)) == 0);
	wrong = twt_join(&two, TWT_LONG) != 0;
	shutdown(one.fd, SHUT_RDWR);
	return (twt_join(&one, TWT_LONG) != 0) | wrong;
}

int main(void)
{
	char command[64];
	int wrong = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	check(tw_settings_load());
	if (!tw_module_installed("tls")) {
		puts("built without TLS");
		return 77;
	}
	check(mkdtemp(folder) != NULL);
	make_file("a", 'a', 0600);
	make_file("b", 'b', 0600);
	make_file("open", 'a', 0644);
	setenv("TAGWIRE_PROVIDERS", "self,tcp", 1);
	for (int i = 0; i < (int)(sizeof(cases) / sizeof(*cases)); i++)
		wrong |= meet(&cases[i]);
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	check(system(command) == 0);
	if (!wrong)
		printf("%d cases\n", (int)(sizeof(cases) / sizeof(*cases)));
	return wrong;
}
